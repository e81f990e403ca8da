"""Measures of `metastable.experiments.first_token`: the intervention's effect, and V's leading eigenvalue."""

import numpy as np
from scipy.linalg import expm


def owed(x: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """What the others owe to the first token: (1/2) mean_j <x_j - x_j', x_1>, for x (..., n, d) and its twin.

    >>> x = np.array([[1.0, 0.0], [0.6, 0.8]])
    >>> float(owed(x, np.array([[-1.0, 0.0], [-0.6, 0.8]])))
    0.6
    """
    gap = (x - turned)[..., 1:, :].mean(axis=-2)
    return np.asarray((gap * x[..., 0, :]).sum(axis=-1) / 2.0)


def error_growth(t: np.ndarray, V: np.ndarray, x: np.ndarray) -> float:
    """How much a rounding error of the start may have grown: max_t |e^{tV}|/|e^{tV} x|."""
    steps = [expm(s * V) for s in np.linspace(0.0, t[-1], 7)]
    return float(max(np.linalg.norm(M, 2) / np.linalg.norm(M @ x) for M in steps))


def leading_eigenvalues(V: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Real part and unit eigenvector of each V's leading eigenvalue, and whether it is real and simple."""
    values, vectors = np.linalg.eig(V)
    order = np.argsort(-values.real, axis=-1, kind="stable")
    top = np.take_along_axis(values, order, axis=-1)  # (b, d)
    vector = np.take_along_axis(vectors, order[:, None, :1], axis=-1)[..., 0].real  # (b, d)
    vector = vector / np.linalg.norm(vector, axis=-1, keepdims=True)
    return top[:, 0].real, vector, (top[:, 0].imag == 0) & (top[:, 0].real > top[:, 1].real)


def turned_round(x0: np.ndarray) -> np.ndarray:
    """The same starts (b, n, d) with -x_1 in the place of x_1."""
    out = x0.copy()
    out[:, 0] *= -1.0
    return out
