"""Readings of "negative eigenvalues" in Fig. 6 of the first paper: a V (3, 3) for every seed."""

from collections.abc import Callable

import numpy as np

from metastable.equation.weights import from_eigenvalues


def _symmetric(seed: int) -> np.ndarray:
    """Random eigenvectors, eigenvalues uniform in [-2, -1/2]."""
    rng = np.random.default_rng([seed, 1])
    S = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    return np.asarray((S * rng.uniform(-2.0, -0.5, 3)) @ S.T)


def _general(seed: int) -> np.ndarray:
    """Standard normal entries, shifted so that the largest real part of an eigenvalue is -1/2."""
    V = np.random.default_rng([seed, 2]).standard_normal((3, 3))
    return np.asarray(V - (np.linalg.eigvals(V).real.max() + 0.5) * np.eye(3))


READINGS: dict[str, Callable[[int], np.ndarray]] = {
    "V = -I": lambda seed: -np.eye(3),
    "random symmetric V, eigenvalues in [-2, -1/2]": _symmetric,
    "random V, real parts at most -1/2": _general,
    "eigenvalues -1, -1/2 +- 2i": lambda seed: from_eigenvalues([-1.0, -0.5 + 2.0j, -0.5 - 2.0j]),
    "V = diag(1, -1, -1)": lambda seed: np.diag([1.0, -1.0, -1.0]),
}
