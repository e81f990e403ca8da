"""Hyperplane coordinates: tokens projected on the left eigenvectors of V.

In the rescaled flow phi(z_i) settles on few values along the leading directions, so tokens gather on few
parallel hyperplanes (Theorem on hyperplanes of the second paper).
"""

import numpy as np
from numpy.typing import ArrayLike

from metastable.errors import InputError
from metastable.observables import arrays
from metastable.observables.arrays import Floats, Ints
from metastable.observables.clusters import TOLERANCE


def left_eigenvectors(V: ArrayLike) -> tuple[np.ndarray, Floats]:
    """Left eigenvectors of V as real rows, leading first.

    A real eigenvalue gives one row phi, |phi| = 1, with phi V = lambda phi and its largest entry positive. A
    pair a +- ib gives two: the real and the imaginary part of phi, turned so that the two are orthogonal,
    |phi| = 1 together.

    Returns
    -------
    values : complex array (d,)
        Eigenvalues by falling real part; of a pair first a + ib (for the real part), then a - ib (the
        imaginary part).
    directions : array (d, d)
        Row k goes with ``values[k]``.

    Examples
    --------
    >>> values, directions = left_eigenvectors([[1.0, 1.0], [0.0, 3.0]])
    >>> values.real.tolist(), directions[0].tolist()
    ([3.0, 1.0], [0.0, 1.0])
    """
    V = np.asarray(V, dtype=np.float64)
    if V.ndim != 2 or V.shape[0] != V.shape[1] or not V.size or not np.isfinite(V).all():
        raise InputError(f"V must be one finite square matrix (d, d), not {V.shape}; choose one head of several.")
    if np.array_equal(V, V.T):
        found, columns = np.linalg.eigh(V)
        values = found.astype(np.complex128)
    else:
        values, columns = np.linalg.eig(V.T)
        values = values.astype(np.complex128)
    order = np.lexsort((-values.imag, np.abs(values.imag), -values.real))
    rows: list[Floats] = []
    for k in order:
        if values[k].imag >= 0:  # the partner of a complex eigenvalue adds nothing new
            rows += _real_rows(columns[:, k], bool(values[k].imag > 0))
    return values[order], np.stack(rows)


def projections(x: ArrayLike, V: ArrayLike) -> Floats:
    """Coordinates phi_k(x_i) of every token, (..., n, d), in the order of `left_eigenvectors`.

    >>> projections([[2.0, 5.0]], [[1.0, 0.0], [0.0, 3.0]]).tolist()
    [[5.0, 2.0]]
    """
    x = arrays.tokens(x)
    _, directions = left_eigenvectors(V)
    if len(directions) != x.shape[-1]:
        raise InputError(f"V acts on tokens of dimension {len(directions)}, and these have {x.shape[-1]}.")
    return np.asarray(x @ directions.T)


def distinct_values(values: ArrayLike, tolerance: float = TOLERANCE) -> Ints:
    """The number of groups of values along the last axis: a gap larger than ``tolerance`` starts a new one.

    >>> int(distinct_values([0.0, 5.0, 0.005]))
    2
    """
    values = arrays.tokens(np.asarray(values, dtype=np.float64)[..., None])[..., 0]
    gaps = np.diff(np.sort(values, axis=-1), axis=-1)
    return np.asarray((gaps > arrays.not_negative("tolerance", tolerance)).sum(axis=-1) + 1)


def hyperplane_counts(x: ArrayLike, V: ArrayLike, tolerance: float = TOLERANCE) -> Ints:
    """The number of distinct values of each hyperplane coordinate, (..., d).

    >>> hyperplane_counts([[2.0, 5.0], [1.0, 5.0]], [[1.0, 0.0], [0.0, 3.0]]).tolist()
    [1, 2]
    """
    return distinct_values(np.swapaxes(projections(x, V), -1, -2), tolerance)


def _real_rows(phi: np.ndarray, pair: bool) -> list[Floats]:
    phi = phi / np.linalg.norm(phi)
    if pair:
        phi = phi * np.exp(-0.5j * np.angle((phi**2).sum()))  # then sum phi^2 is real: Re phi and Im phi are orthogonal
    size = np.abs(phi.real)
    main = int(np.flatnonzero(size >= size.max() * (1.0 - 1e-9))[0])
    phi = phi * (1.0 if phi.real[main] > 0 else -1.0)
    return [phi.real, phi.imag] if pair else [phi.real]
