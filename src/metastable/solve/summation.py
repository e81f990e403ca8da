"""How the sums over tokens of a run are made: a word of `SUMMATIONS`, or for "auto" the quickest.

| word       | sums                                                                                         |
|------------|----------------------------------------------------------------------------------------------|
| `dense`    | compiled by JAX; any dynamics, any device                                                    |
| `exact`    | the blockwise kernels of `metastable.engines`, which never hold an n x n array; for the         |
|            | rescaled flow its own ones (`fast.charted`), which take its fixed steps whole                |
| `spectral` | expansions on the circle and S^2, in linear time, to 1e-12                                   |
| `lanes`    | small systems, in vector registers: eight runs side by side, or eight tokens of one run      |
|            | (`fast.many`); they take fixed steps whole                                                   |
"""

from typing import Any

import numpy as np

from metastable.backend import jax
from metastable.equation import masks, normalise, scores
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, unknown

SUMMATIONS = ("auto", "dense", "exact", "spectral", "lanes")
_WORTH_A_KERNEL = 600  # tokens from which a callback to a kernel beats the compiled dense sum
_WORTH_LANES = 1e8  # pairs in all steps of all runs from which loading the kernels pays (about a second of dense sums)
_WORTH_LANES_ALONE = 2e6  # the same of one run: kernels serve every shape, dense sums are compiled for each anew
_MOST_IN_LANES = 512  # tokens of a system whose runs still fit the caches side by side
_IN_LANES = ("euler", "layers", "rk4")  # methods whose steps they take
# Coordinates of one run, by mask, beyond which dense sums have the quicker products.
_MOST_COORDINATES: dict[Any, int] = {None: 4, masks.causal: 16}


def chosen(dyn: Dynamics, x: np.ndarray, summation: str, method: str, dtype: str, steps: float) -> str:
    """The word for a run of so many ``steps`` from tokens x; refuses in one sentence a word that cannot serve it."""
    if summation not in SUMMATIONS:
        raise unknown("summation", summation, SUMMATIONS)
    if summation == "dense" or (summation != "auto" and jax.default_backend() != "cpu"):
        return "dense"
    if summation == "auto":
        return _quickest(dyn, x, method, dtype, steps)
    if summation == "lanes":
        why = against_lanes(dyn, method, dtype)
    else:
        why = _against_kernels(dyn, x.shape[-1], summation, method, dtype)
    if why is not None:
        raise InputError(f"summation={summation!r} is not possible here because {why}; use 'auto' or 'dense'.")
    return summation


def _quickest(dyn: Dynamics, x: np.ndarray, method: str, dtype: str, steps: float) -> str:
    n, d = x.shape[-2:]
    if jax.default_backend() != "cpu":
        return "dense"
    if dyn.geometry_name == "rescaled":
        return "exact" if _against_kernels(dyn, d, "exact", method, dtype) is None else "dense"
    runs, mask = x[..., 0, 0].size, masks.resolve(dyn.mask)
    seen = (n + 1) / 2 if mask is masks.causal else n
    pairs = runs * n * seen * dyn.weights.heads * steps * (4 if method == "rk4" else 1)
    if x.ndim == 2 and n >= _WORTH_A_KERNEL:
        return "auto" if _against_kernels(dyn, d, "auto", method, dtype) is None else "dense"
    if x.ndim == 2:
        able = pairs >= _WORTH_LANES_ALONE and d <= _MOST_COORDINATES.get(mask, 0)
    else:
        able = pairs >= _WORTH_LANES and runs >= 8 and n <= _MOST_IN_LANES
    return "lanes" if able and against_lanes(dyn, method, dtype) is None else "dense"


def _against_kernels(dyn: Dynamics, d: int, summation: str, method: str, dtype: str) -> str | None:
    if dyn.geometry_name == "rescaled":
        if summation != "exact":
            return "the rescaled flow has a chart of its own"
        from metastable.engines.chart import basis as rescaled_chart

        if not rescaled_chart.has_eigenbasis(dyn, d):
            return "V has no well-conditioned eigenvectors"
        if method not in _IN_LANES or dtype != "float64":
            return f"the kernels of the rescaled flow take float64 steps, not {dtype} of {method}"
        if normalise.resolve(dyn.normalise) is not normalise.softmax or dyn.position is not None:
            return "the kernels of the rescaled flow know softmax attention without positions"
        if masks.resolve(dyn.mask) not in (None, masks.causal):
            return "the kernels of the rescaled flow know full or causal attention"
        return None
    from metastable.engines import unsupported

    return unsupported(dyn, summation)


def against_lanes(dyn: Dynamics, method: str, dtype: str) -> str | None:
    """Why runs of this dynamics cannot go through lanes, in words that follow "because", or None."""
    w = dyn.weights
    if method not in _IN_LANES or dtype != "float64":
        return f"lanes take float64 steps of {' or '.join(_IN_LANES)}, not {dtype} steps of {method}"
    plain = normalise.resolve(dyn.normalise) is normalise.softmax and scores.resolve(dyn.score) is scores.SCORES["dot"]
    if not plain or masks.resolve(dyn.mask) not in (None, masks.causal):  # not by name: a function may be called so too
        return "runs in lanes have softmax attention of dot scores, full or causal"
    if dyn.geometry_name not in ("sphere", "euclidean") or dyn.block is not None or dyn.position is not None:
        return "runs in lanes live in R^d or on the sphere, without block or positions"
    if np.any(np.asarray(dyn.noise) != 0):
        return "runs in lanes have no noise"
    if w.time_dependent or any(b is not None for b in (w.q_bias, w.k_bias, w.v_bias, w.o_bias)):
        return "runs in lanes have weights without biases that do not depend on time"
    return None
