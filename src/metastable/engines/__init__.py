"""Sums over many tokens: exact at the speed of the hardware, linear in n where mathematics allows.

| function         | what it does                                                                              |
|------------------|-------------------------------------------------------------------------------------------|
| `attend`         | sum_j A_ij v_j without the n x n matrix; picks the exact or the linear-time sum           |
| `exact`          | every visible pair, any dimension, mask and normalisation, O(n * block) memory            |
| `spectral`       | Fourier modes on the circle, spherical harmonics on S^2: O(n), with a bound on the error  |
| `velocity_field` | the velocity of a `Dynamics` through these sums, for any integrator of the package        |
| `coalesce`       | tokens that have met become one weighted token; full-size trajectories stay available     |
| `leap`, `follow` | collapsed clusters through exponentially long plateaus, merger by merger                  |
| `journal`        | collects how the sums inside a ``with`` block were made and how good they were            |

Kernels are compiled when first used and kept beside the package.

>>> import numpy as np
>>> from metastable import engines
>>> x = np.eye(3)
>>> engines.attend(x, x, beta=1.0).value.sum(axis=1).round(12).tolist()
[1.0, 1.0, 1.0]
"""

from pathlib import Path

from metastable.engines.attend import SUMMATIONS, Attended, Journal, attend, journal
from metastable.engines.exact.fields import mix, unsupported, velocity_field
from metastable.engines.exact.sums import Sums, exact
from metastable.engines.simd.exponential import vexp
from metastable.engines.simd.vectors import SOURCES
from metastable.engines.spectral.expansion import Expanded, spectral


def _drop_stale_kernels() -> None:
    """Delete the kernels that other versions of the sources have left beside the package."""
    for kept in Path(__file__).parent.rglob("*.nb[ci]"):
        if SOURCES not in kept.name:
            try:
                kept.unlink()
            except OSError:  # gone already, or not ours to delete
                continue


_drop_stale_kernels()

__all__ = [
    "SUMMATIONS",
    "Attended",
    "Expanded",
    "Journal",
    "Sums",
    "attend",
    "exact",
    "journal",
    "mix",
    "spectral",
    "unsupported",
    "velocity_field",
    "vexp",
]
