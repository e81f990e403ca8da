"""Spectra with error bars: invariant subspaces, and how far a matrix is from having another kind of spectrum.

A stored matrix is known only up to rounding: the eigenvalues computed are exact for some V + E with ||E|| <=
delta, ``delta = d * unit * ||V||_F`` (backward error of the QR algorithm, and of storing the entries). So a
statement about the spectrum is decided when it is the same for every matrix within delta of V, and
undecidable otherwise. What separates one kind of spectrum from another is a curve that eigenvalues would have
to cross: a circle |z| = rho between the leading eigenvalue and the rest, the imaginary axis, the positive
half-line. An eigenvalue of V + E can lie at z only if sigma_min(V - zI) <= ||E||. Hence

    the least sigma_min(V - zI) over the curve

is the size of the smallest change of V that brings an eigenvalue onto it: a distance in the 2-norm of V that
needs no assumption on how close together, or how far from normal, the eigenvalues are.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack, schur, solve_sylvester

from metastable.errors import InputError

EPS = float(np.finfo(float).eps)

_LARGE = 32  # above this dimension the cheap bound is used where it already decides
_SAMPLES = 65  # points of a curve besides those put opposite the nearest eigenvalues
_FEW = 8  # points that bound a curve's distance
_NEAREST = 12  # how many eigenvalues get points of their own


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of V by decreasing modulus, and what rounding may have done to them.

    ``error`` is delta of the module's docstring. ``exact`` is true when V is stored triangular, so that the
    values are its diagonal entries and carry no rounding at all.
    """

    V: np.ndarray
    values: np.ndarray
    error: float
    condition: float
    exact: bool

    def distance_to(self, curve: np.ndarray) -> float:
        """The least sigma_min(V - zI) over the points of a curve."""
        V, eye = self.V, np.eye(len(self.V))
        shifted = V[None] - curve[:, None, None] * eye[None]  # (points, d, d)
        return float(np.linalg.svd(shifted, compute_uv=False)[:, -1].min())

    def cheap_distance_to(self, curve: np.ndarray) -> float:
        """Bauer-Fike: sigma_min(V - zI) >= min_i |lambda_i - z| / cond(eigenvectors)."""
        return float(np.abs(self.values[:, None] - curve[None, :]).min() / self.condition)


def spectrum(V: ArrayLike, unit: float = EPS) -> Spectrum:
    """The spectrum of a real square matrix; ``unit`` is the relative rounding of its entries."""
    V = square(V)
    exact = bool((np.triu(V) == V).all() or (np.tril(V) == V).all())
    values, vectors = np.linalg.eig(V)
    if exact:
        values = np.diag(V).astype(complex)
    order = np.lexsort((-values.imag, -values.real, -np.abs(values)))
    with np.errstate(divide="ignore"):
        condition = float(np.linalg.cond(vectors))
    error = len(V) * unit * float(np.linalg.norm(V))
    return Spectrum(V, values[order].astype(complex), error, condition, exact)


def square(V: ArrayLike) -> np.ndarray:
    """V as a finite real square matrix, or a sentence."""
    V = np.atleast_2d(np.asarray(V, dtype=float))
    if V.ndim != 2 or V.shape[0] != V.shape[1] or not np.isfinite(V).all():
        raise InputError(f"V must be one finite square matrix (d, d); its shape is {V.shape}.")
    return V


# --- curves ---------------------------------------------------------------------------------------


def circle(rho: float, values: np.ndarray) -> np.ndarray:
    """Points of the upper half of |z| = rho (V is real), dense opposite the eigenvalues nearest to it.

    sigma_min(V - zI) varies on the scale of the distance to the eigenvalues, so each near one gets points at
    geometric offsets of its own distance from the circle.
    """
    gaps = np.abs(np.abs(values) - rho)
    near = np.argsort(gaps)[:_NEAREST]
    angles = [np.linspace(0.0, np.pi, _SAMPLES)]
    for i in near:
        offsets = gaps[i] / max(rho, 1e-300) * np.array([0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0])
        at = abs(np.angle(values[i]))
        angles += [at + offsets, at - offsets]
    theta = np.concatenate(angles)
    return np.asarray(rho * np.exp(1j * theta[(theta >= 0.0) & (theta <= np.pi)]))


def ray(start: float, stop: float, values: np.ndarray) -> np.ndarray:
    """Points of [start, stop] on the real axis, dense below and above the eigenvalues nearest to it."""
    return _line(values.real, np.abs(values.imag), start, stop).astype(complex)


def imaginary_axis(stop: float, values: np.ndarray) -> np.ndarray:
    """Points of the upper imaginary axis up to ``stop``, dense beside the eigenvalues nearest to it."""
    return 1j * _line(np.abs(values.imag), np.abs(values.real), 0.0, stop)


def _line(along: np.ndarray, across: np.ndarray, start: float, stop: float) -> np.ndarray:
    points = [np.linspace(start, stop, _SAMPLES)]
    for i in np.argsort(across)[:_NEAREST]:
        offsets = across[i] * np.array([0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0])
        points += [along[i] + offsets, along[i] - offsets]
    s = np.concatenate(points)
    return s[(s >= start) & (s <= stop)]


def widest(spec: Spectrum, curve: Callable[[float], np.ndarray], places: Sequence[float]) -> float:
    """The largest distance over a family of curves: any one of them is enough to keep two sets apart.

    Above dimension 32 the Bauer-Fike bound is returned where it already exceeds 100 delta; it is a lower
    bound too.
    """
    if not len(places):
        return 0.0
    curves = [curve(p) for p in places]
    cheap = [spec.cheap_distance_to(c) for c in curves]
    if len(spec.V) > _LARGE:
        best = int(np.argmax(cheap))
        if cheap[best] > 100.0 * spec.error:
            return cheap[best]
        curves = [curves[best]]
    return max(_widest_distance(spec, curves), max(cheap))


def _widest_distance(spec: Spectrum, curves: Sequence[np.ndarray]) -> float:
    """The largest distance of any of the curves.

    A few points beside the eigenvalues bound a curve's distance from above, so a curve whose bound is below the best
    distance found so far need not be looked at: the same number as by looking at all, at a tenth of the cost.
    """
    gaps = [np.abs(spec.values[:, None] - c[None, :]).min(axis=0) for c in curves]
    bounds = [spec.distance_to(c[np.argsort(gap)[:_FEW]]) for c, gap in zip(curves, gaps)]
    best = 0.0
    for k in np.argsort(bounds)[::-1]:
        if bounds[k] <= best:
            break
        best = max(best, spec.distance_to(curves[k]))
    return best


def between(low: float, high: float) -> list[float]:
    """Places between two numbers for a separating curve: the middle, and nearer to either end."""
    return [low + s * (high - low) for s in (0.5, 0.3, 0.7, 0.1, 0.9, 0.02, 0.98)] if high > low else []


# --- invariant subspaces --------------------------------------------------------------------------


@dataclass(frozen=True)
class Splitting:
    """R^d = F + G, both invariant under V.

    Attributes
    ----------
    basis : (d, m)
        Orthonormal basis of F.
    coordinates : (m, d)
        The coordinates of x in that basis after projecting on F along G; its rows span the left invariant
        subspace, and for m = 1 the row is the left eigenvector.
    block : (m, m)
        V on F, in that basis.
    rest : (d - m, d - m)
        V on the quotient by F: it has the eigenvalues of V on G.
    complement : (d, d - m)
        A basis of G.
    obliqueness : float
        Norm of the projector, 1 when F and G are orthogonal. A change E of V changes ``block`` by at most
        obliqueness * ||E|| to first order: the condition number of the group of eigenvalues.
    """

    basis: np.ndarray
    coordinates: np.ndarray
    block: np.ndarray
    rest: np.ndarray
    complement: np.ndarray
    obliqueness: float


def split(V: ArrayLike, chosen: Callable[[np.ndarray], np.ndarray]) -> Splitting:
    """Split R^d by a group of eigenvalues; ``chosen`` maps the eigenvalues (d,) to a mask (conjugates together).

    An ordered real Schur form V = Z T Z^T gives F, and the Sylvester equation T11 Y - Y T22 = -T12 gives G:
    no eigenvector is computed, so groups of equal or defective eigenvalues do no harm.

    >>> split([[2.0, 1.0], [0.0, 1.0]], lambda v: v.real > 1.5).coordinates.round(12).tolist()
    [[1.0, 1.0]]
    """
    V = square(V)
    T, Z = schur(V, output="real")
    mask = np.asarray(chosen(_schur_values(T)), dtype=bool)
    m, d = int(mask.sum()), len(V)
    if 0 < m < d:
        T, Z, _, _, m, _, _, info = lapack.dtrsen(mask.astype(np.int32), T, Z, job="N", lwork=d * d, liwork=d * d)
        if info != 0:
            raise np.linalg.LinAlgError("the eigenvalues are too close to be reordered")
    if m == d:
        Z, T = np.eye(d), V
    Y = solve_sylvester(T[:m, :m], -T[m:, m:], -T[:m, m:]) if 0 < m < d else np.zeros((m, d - m))
    left = np.concatenate([np.eye(m), -Y], axis=1)  # (m, d)
    return Splitting(
        basis=Z[:, :m],
        coordinates=left @ Z.T,
        block=T[:m, :m],
        rest=T[m:, m:],
        complement=Z[:, :m] @ Y + Z[:, m:],
        obliqueness=float(np.linalg.norm(left, 2)) if m else 0.0,
    )


def _schur_values(T: np.ndarray) -> np.ndarray:
    """Eigenvalues of a quasi-triangular matrix in the order of its diagonal blocks."""
    values, i = np.zeros(len(T), dtype=complex), 0
    while i < len(T):
        if i + 1 < len(T) and T[i + 1, i] != 0.0:
            values[i : i + 2] = np.linalg.eigvals(T[i : i + 2, i : i + 2])
            i += 2
        else:
            values[i] = T[i, i]
            i += 1
    return values


def largest(count: int) -> Callable[[np.ndarray], np.ndarray]:
    """Choose the ``count`` eigenvalues of largest modulus."""

    def chosen(values: np.ndarray) -> np.ndarray:
        mask = np.zeros(len(values), dtype=bool)
        mask[np.argsort(-np.abs(values), kind="stable")[:count]] = True
        return mask

    return chosen


def growing(values: np.ndarray) -> np.ndarray:
    """Choose the eigenvalues with positive real part."""
    return values.real > 0.0
