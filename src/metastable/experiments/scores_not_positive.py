"""Random score matrices Q^T K that are not positive definite, in four families."""

from collections.abc import Callable

import numpy as np

Rng = np.random.Generator


def _rotated(values: np.ndarray, rng: Rng) -> np.ndarray:
    frame = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    return np.asarray(frame @ np.diag(values) @ frame.T)


def _indefinite(d: int, rng: Rng) -> np.ndarray:
    signs = np.ones(d)
    signs[: rng.integers(1, max(d, 2))] = -1.0  # at least one of each sign
    return _rotated(signs * rng.uniform(0.5, 1.5, d), rng)


def _skew(d: int, rng: Rng) -> np.ndarray:
    A = rng.standard_normal((d, d))
    return np.asarray((A - A.T) / np.sqrt(2.0))


FAMILIES: dict[str, Callable[[int, Rng], np.ndarray]] = {
    "symmetric, mixed signs": _indefinite,
    "random entries": lambda d, rng: np.asarray(rng.standard_normal((d, d))),
    "skew-symmetric": _skew,
    "negative definite": lambda d, rng: _rotated(-rng.uniform(0.5, 1.5, d), rng),
}
