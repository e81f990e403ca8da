"""metastable's sums under the names they have in this version, or had in the one before.

The engine called "before" runs the same workloads in an environment of its own, so what they call is looked up here.
"""

from typing import Any

import numpy as np


def attend(*arrays: Any, **options: Any) -> Any:
    """sum_j A_ij v_j by the quickest way, with how it was made."""
    try:
        from metastable.engines import attend as found
    except ImportError:
        from metastable.fast import attend as found
    return found(*arrays, **options)


def exact(q: np.ndarray, k: np.ndarray, beta: float, causal: bool = False) -> np.ndarray:
    """The exact sum of the keys, full or causal."""
    try:
        from metastable.engines import exact as found
    except ImportError:
        from metastable.fast import exact as older

        return older(q, k, beta=beta, mask="causal" if causal else "full").value
    return found(q, k, beta=beta, high=np.arange(1, len(q) + 1) if causal else None).value


def coalesce(*arrays: Any, **options: Any) -> Any:
    """A run in which tokens that meet become one."""
    try:
        from metastable.reduced import coalesce as found
    except ImportError:
        from metastable.fast import coalesce as found
    return found(*arrays, **options)


def simulate_each(dynamics: Any, x0: np.ndarray, **settings: Any) -> list[Any]:
    """One run for each dynamics of a list."""
    import metastable as ms

    found: list[Any] = getattr(ms, "simulate_many", ms.simulate)(dynamics, x0, **settings)
    return found


def simulate_by(sums: str, dynamics: Any, x0: np.ndarray, **settings: Any) -> Any:
    """A run whose sums are made in a given way: "exact", or "auto" for the quicker of exact and linear-time ones."""
    import metastable as ms

    if hasattr(ms, "simulate_many"):
        return ms.simulate(dynamics, x0, summation=sums, **settings)
    return ms.simulate(dynamics, x0, engine={"exact": "exact", "auto": "spectral"}[sums], **settings)
