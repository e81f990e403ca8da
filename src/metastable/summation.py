"""How the sums over tokens of a run are made: a word of `SUMMATIONS`, or for "auto" the quickest.

| word       | sums                                                                                         |
|------------|----------------------------------------------------------------------------------------------|
| `dense`    | compiled by JAX; any dynamics, any device                                                    |
| `exact`    | the blockwise kernels of `metastable.fast`, which never hold an n x n array; for the         |
|            | rescaled flow its own ones (`fast.charted`), which take its fixed steps whole                |
| `spectral` | expansions on the circle and S^2, in linear time, to 1e-12                                   |
| `lanes`    | ensembles of small systems: eight runs side by side in vector registers (`fast.many`)        |
"""

import numpy as np

from metastable.compute import jax
from metastable.dynamics import Dynamics
from metastable.errors import InputError, unknown

SUMMATIONS = ("auto", "dense", "exact", "spectral", "lanes")
_WORTH_A_KERNEL = 600  # tokens from which a callback to a kernel beats the compiled dense sum
_WORTH_LANES = 1e8  # pairs in all steps of all runs from which loading the kernels pays (about a second of dense sums)
_MOST_IN_LANES = 512  # tokens of a system whose runs still fit the caches side by side


def chosen(dyn: Dynamics, x: np.ndarray, summation: str, method: str, dtype: str, steps: float) -> str:
    """The word for a run of so many ``steps`` from tokens x; refuses in one sentence a word that cannot serve it."""
    if summation not in SUMMATIONS:
        raise unknown("summation", summation, SUMMATIONS)
    if summation == "dense" or (summation != "auto" and jax.default_backend() != "cpu"):
        return "dense"
    if summation == "auto":
        return _quickest(dyn, x, method, dtype, steps)
    if summation == "lanes":
        why = _against_lanes(dyn, x, method, dtype)
    else:
        why = _against_kernels(dyn, x.shape[-1], summation, method, dtype)
    if why is not None:
        raise InputError(f"summation={summation!r} is not possible here because {why}; use 'auto' or 'dense'.")
    return summation


def _quickest(dyn: Dynamics, x: np.ndarray, method: str, dtype: str, steps: float) -> str:
    n = x.shape[-2]
    if jax.default_backend() != "cpu":
        return "dense"
    if dyn.geometry_name == "rescaled":
        return "exact" if _against_kernels(dyn, x.shape[-1], "exact", method, dtype) is None else "dense"
    if x.ndim == 2:
        able = n >= _WORTH_A_KERNEL and _against_kernels(dyn, x.shape[-1], "auto", method, dtype) is None
        return "auto" if able else "dense"
    pairs = x[..., 0].size * n * dyn.weights.heads * 4.0 * steps
    if x[..., 0, 0].size < 8 or n > _MOST_IN_LANES or pairs < _WORTH_LANES:
        return "dense"
    return "lanes" if _against_lanes(dyn, x, method, dtype) is None else "dense"


def _against_kernels(dyn: Dynamics, d: int, summation: str, method: str, dtype: str) -> str | None:
    if dyn.geometry_name == "rescaled":
        if summation != "exact":
            return "the rescaled flow has a chart of its own"
        from metastable import rescaled_chart
        from metastable.fast import charted

        if not rescaled_chart.has_eigenbasis(dyn, d):
            return "V has no well-conditioned eigenvectors"
        return charted.unsupported(dyn, method, dtype)
    from metastable.fast import unsupported

    return unsupported(dyn, summation)


def _against_lanes(dyn: Dynamics, x: np.ndarray, method: str, dtype: str) -> str | None:
    if x.ndim == 2:
        return "it is one run, not an ensemble"
    from metastable.fast import many

    return many.unsupported(dyn, method, dtype)
