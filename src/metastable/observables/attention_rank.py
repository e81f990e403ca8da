"""How simple an attention matrix is: its rank at a tolerance, its effective rank, its distance to 0 and 1."""

import numpy as np
from numpy.typing import ArrayLike

from metastable.errors import InputError
from metastable.observables import arrays
from metastable.observables.arrays import Floats, Ints


def rank(P: ArrayLike, tolerance: float = 1e-3) -> Ints:
    """The number of singular values above ``tolerance`` times the largest, (...).

    Parameters
    ----------
    P : array (..., n, n)
        Attention; leading axes may be times, runs, heads.

    Examples
    --------
    >>> int(rank([[0.5, 0.5], [0.5, 0.5]])), int(rank(np.eye(2)))
    (1, 2)
    """
    s = np.linalg.svd(arrays.attention(P), compute_uv=False)  # (..., n), falling
    return np.asarray((s > arrays.not_negative("tolerance", tolerance) * s[..., :1]).sum(axis=-1))


def effective_rank(P: ArrayLike) -> Floats:
    """exp of the entropy of the singular values divided by their sum, (...): from 1 to n, and no tolerance.

    >>> float(effective_rank(np.eye(3)).round(12))
    3.0
    """
    s = np.linalg.svd(arrays.attention(P), compute_uv=False)
    total = s.sum(axis=-1, keepdims=True)
    if (total == 0).any():
        raise InputError("An attention matrix is zero everywhere, so it has no effective rank.")
    p = s / total
    return np.asarray(np.exp(-(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)))


def boolean_distance(P: ArrayLike) -> Floats:
    """How far the attention is from one token per row: the largest over the rows of 1 - max_j P_ij, (...).

    1 - max_j P_ij is the total variation distance from row i to the nearest row of one 1 and zeros. It is 0
    for a Boolean matrix and 1 - 1/n for uniform attention. (The nearest 0-1 matrix without the constraint
    would be useless: uniform attention is within 1/n of the zero matrix.) Rows are divided by their sums
    first, so un-normalised attention counts too.

    >>> float(boolean_distance([[1.0, 0.0], [0.25, 0.75]]))
    0.25
    """
    P = arrays.attention(P)
    if (P < 0).any():
        raise InputError("Attention has negative entries, so its rows are not shares.")
    total = P.sum(axis=-1)
    if (total == 0).any():
        raise InputError("A row of the attention is zero, so it cannot be divided into shares.")
    return np.asarray((1.0 - P.max(axis=-1) / total).max(axis=-1).clip(min=0.0))
