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
>>> from metastable import fast
>>> x = np.eye(3)
>>> fast.attend(x, x, beta=1.0).value.sum(axis=1).round(12).tolist()
[1.0, 1.0, 1.0]
"""

from pathlib import Path

from metastable.fast.coalesce import Coalesced, coalesce
from metastable.fast.exact import Sums, exact
from metastable.fast.fields import mix, unsupported, velocity_field
from metastable.fast.front import SUMMATIONS, Attended, Journal, attend, journal
from metastable.fast.lanes import SOURCES
from metastable.fast.leap import Leap, follow, leap
from metastable.fast.spectral import Expanded, spectral
from metastable.fast.vexp import vexp


def _drop_stale_kernels() -> None:
    """Delete the kernels that other versions of the sources have left beside the package."""
    for kept in (Path(__file__).parent / "__pycache__").glob("*.nb[ci]"):
        if SOURCES not in kept.name:
            try:
                kept.unlink()
            except OSError:  # gone already, or not ours to delete
                continue


_drop_stale_kernels()

__all__ = [
    "SUMMATIONS",
    "Attended",
    "Coalesced",
    "Expanded",
    "Journal",
    "Leap",
    "Sums",
    "attend",
    "coalesce",
    "exact",
    "follow",
    "journal",
    "leap",
    "mix",
    "spectral",
    "unsupported",
    "velocity_field",
    "vexp",
]
