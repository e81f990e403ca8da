"""Limit sets the theorems predict, as small frozen objects with ``distance(z) -> (n,)``.

A theorem says what kind of set the tokens approach; which one of that kind it is depends on the tokens, so sets are
built from the tokens at the end of a run (``..._of`` functions). They have so few free numbers that fitting them proves
something: the extreme levels of three hyperplanes, a polytope whose faces must be the ones that tokens look at.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import nnls
from scipy.spatial import ConvexHull

from metastable.errors import InputError, doors
from metastable.theory.spectrum import Splitting

__all__ = [
    "BooleanAttention",
    "LimitSet",
    "ParallelHyperplanes",
    "ParallelSubspaces",
    "Points",
    "Polytope",
    "PolytopeTimesSubspace",
    "boolean_attention_of",
    "hyperplanes_of",
    "parallel_subspaces_of",
    "polytope_of",
    "polytope_times_subspace_of",
]


class LimitSet(Protocol):
    """Anything tokens may converge to."""

    def distance(self, z: np.ndarray) -> np.ndarray:
        """Distance of each token from the set, (n,)."""

    def describe(self) -> str:
        """The set in a few words."""


@dataclass(frozen=True)
class Points:
    """Finitely many points (m, d); the origin alone for Theorem C.5.

    >>> Points(np.zeros((1, 2))).distance([[3.0, 4.0]]).tolist()
    [5.0]
    """

    points: np.ndarray

    def distance(self, z: np.ndarray) -> np.ndarray:
        """Distance of each token from the nearest point."""
        return np.asarray(_pairwise(np.asarray(z, dtype=float), self.points).min(axis=1))

    def describe(self) -> str:
        """The set in a few words."""
        return "the origin" if not np.any(self.points) else f"{len(self.points)} points"


@dataclass(frozen=True)
class BooleanAttention:
    """Attention rows that are each 1 on the left-most or on the right-most token (Theorem 2.1, Fig. 2).

    One row may be anything: use ``distance(P)`` without its largest entry for the theorem as stated, and with it for
    what happens almost always.
    """

    left: int
    right: int

    def distance(self, P: np.ndarray) -> np.ndarray:
        """Total variation between each row of P (n, n) and the nearer leader's unit row."""
        P = np.asarray(P, dtype=float)
        off = P.copy()
        off[:, [self.left, self.right]] = 0.0
        spill = off.sum(axis=1)  # summed without the leaders: 1 - P_lead would round small numbers away
        if self.left == self.right:
            return np.asarray(spill)
        return np.asarray(spill + np.minimum(P[:, self.left], P[:, self.right]))

    def rank(self, P: np.ndarray) -> int:
        """Rank of the Boolean matrix that P is nearest to: how many leaders are listened to."""
        P = np.asarray(P, dtype=float)
        return len(set(np.where(P[:, self.left] >= P[:, self.right], self.left, self.right).tolist()))

    def describe(self) -> str:
        """The set in a few words."""
        return f"attention on token {self.left} or token {self.right} alone"


def boolean_attention_of(x: np.ndarray) -> BooleanAttention:
    """The leaders of tokens on the line (n, 1): the left-most and the right-most."""
    x = np.asarray(x, dtype=float).reshape(-1)
    return BooleanAttention(int(x.argmin()), int(x.argmax()))


@dataclass(frozen=True)
class Polytope:
    """The boundary of a convex polytope, and the origin (Theorem 3.1).

    ``points`` (m, d) have the polytope as their convex hull (they need not all be vertices), and ``form`` is Q^T K.
    A limit point z is 0 or maximises its own score over the polytope, <Qz, Kz> = max_j <Qz, K v_j> (for Q^T K = A^T A
    this reads |Az|^2 = max_j <Az, A v_j>): it lies on the face that the hyperplane with normal K^T Q z supports.
    """

    points: np.ndarray
    form: np.ndarray

    def distance(self, z: np.ndarray) -> np.ndarray:
        """The lesser of |z| and the distance of z from the supporting hyperplane with normal K^T Q z.

        For z in the polytope this is at least its distance from the boundary or 0 (walking from z along the normal one
        leaves the polytope before the hyperplane), it is 0 exactly at the points the theorem allows, and it needs no
        facets, so it serves in any dimension.
        """
        z = np.asarray(z, dtype=float)
        normals = z @ self.form  # rows K^T Q z_i, (n, d)
        gap = (normals @ self.points.T).max(axis=1) - (normals * z).sum(axis=1)  # (n,)
        length = np.linalg.norm(normals, axis=1)
        size = np.linalg.norm(z, axis=1)
        face = np.abs(gap) / np.where(length > 0.0, length, 1.0)
        return np.asarray(np.where(length > 0.0, np.minimum(size, face), size))

    def boundary_distance(self, z: np.ndarray) -> np.ndarray:
        """Euclidean distance of points of the polytope from its boundary, by its facets (d <= 6, full-dimensional)."""
        z = np.asarray(z, dtype=float)
        if z.shape[1] == 1:
            ends = np.array([[self.points.min()], [self.points.max()]])
            return np.asarray(_pairwise(z, ends).min(axis=1))
        if z.shape[1] > 6:
            raise InputError(f"Facets are too many in dimension {z.shape[1]}; boundary_distance serves d <= 6.")
        facets = ConvexHull(self.points).equations  # rows (normal, offset), normal . z + offset <= 0 inside
        return np.asarray(np.abs(z @ facets[:, :-1].T + facets[:, -1]).min(axis=1))

    def vertices(self, apart: float) -> np.ndarray:
        """The polytope's vertices, points closer than ``apart`` counted as one, (m, d).

        A point is a vertex when it is no convex combination of the others: nonnegative least squares leaves a residual
        larger than ``apart``.
        """
        kept = _representatives(self.points, apart)
        if len(kept) < 2:
            return kept
        size = max(float(np.abs(kept).max()), 1e-300)
        chosen = []
        for i, p in enumerate(kept):
            others = np.delete(kept, i, axis=0)
            system = np.vstack([others.T / size, np.ones(len(others))])  # weights sum to one
            chosen.append(nnls(system, np.append(p / size, 1.0))[1] * size > apart)
        return np.asarray(kept[np.array(chosen)])

    def describe(self) -> str:
        """The set in a few words."""
        return "the boundary of a convex polytope, or the origin"


@dataclass(frozen=True)
class ParallelHyperplanes:
    """Up to three hyperplanes <normal, z> = level (Theorem 4.1); the normal is V's leading left eigenvector."""

    normal: np.ndarray
    levels: tuple[float, ...]

    def distance(self, z: np.ndarray) -> np.ndarray:
        """Euclidean distance of each token from the nearest hyperplane."""
        along = np.asarray(z, dtype=float) @ self.normal  # (n,)
        gaps = np.abs(along[:, None] - np.array(self.levels)[None, :])
        return np.asarray(gaps.min(axis=1) / np.linalg.norm(self.normal))

    def occupied(self, z: np.ndarray) -> int:
        """How many of the hyperplanes are some token's nearest."""
        along = np.asarray(z, dtype=float) @ self.normal
        return len(set(np.abs(along[:, None] - np.array(self.levels)[None, :]).argmin(axis=1).tolist()))

    def describe(self) -> str:
        """The set in a few words."""
        return f"at most three parallel hyperplanes, at levels {', '.join(f'{v:.4g}' for v in self.levels)}"


def hyperplanes_of(z: np.ndarray, normal: np.ndarray) -> ParallelHyperplanes:
    """The only candidates the proof leaves: the extreme levels of the right sign, and 0.

    >>> hyperplanes_of([[2.0], [1.0], [0.5]], [1.0]).levels
    (0.0, 2.0)
    """
    normal = np.asarray(normal, dtype=float)
    along = np.asarray(z, dtype=float) @ normal
    levels = {0.0, max(float(along.max()), 0.0), min(float(along.min()), 0.0)}
    return ParallelHyperplanes(normal, tuple(sorted(levels)))


@dataclass(frozen=True)
class PolytopeTimesSubspace:
    """(boundary of a polytope in F, or 0) x G (Theorem 5.1); ``coordinates`` (m, d) project on F along G."""

    coordinates: np.ndarray
    polytope: Polytope

    def distance(self, z: np.ndarray) -> np.ndarray:
        """Distance within F of each token's projection; an upper bound of the distance in R^d, equal if F is normal to
        G."""
        return self.polytope.distance(np.asarray(z, dtype=float) @ self.coordinates.T)

    def describe(self) -> str:
        """The set in a few words."""
        m, d = self.coordinates.shape
        return f"(the boundary of a convex polytope in dimension {m}, or the origin) x a subspace of dimension {d - m}"


def polytope_of(z: np.ndarray, form: np.ndarray) -> Polytope:
    """The convex hull of the tokens, with Q^T K as its form."""
    return Polytope(np.asarray(z, dtype=float), np.asarray(form, dtype=float))


def polytope_times_subspace_of(z: np.ndarray, form: np.ndarray, splitting: Splitting) -> PolytopeTimesSubspace:
    """The hull of the tokens' projections on F, with Q^T K restricted to F."""
    inner = splitting.basis.T @ np.asarray(form, dtype=float) @ splitting.basis  # (m, m)
    return PolytopeTimesSubspace(
        splitting.coordinates, polytope_of(np.asarray(z, dtype=float) @ splitting.coordinates.T, inner)
    )


@dataclass(frozen=True)
class ParallelSubspaces:
    """Up to three parallel affine subspaces of codimension k (Conjecture 4.2).

    ``rows`` (k, d) are orthonormal and span the left invariant subspace of the k growing eigenvalues, ``centres``
    (<= 3, k) say where along them the subspaces lie.
    """

    rows: np.ndarray
    centres: np.ndarray

    def distance(self, z: np.ndarray) -> np.ndarray:
        """Euclidean distance of each token from the nearest subspace."""
        return np.asarray(_pairwise(np.asarray(z, dtype=float) @ self.rows.T, self.centres).min(axis=1))

    def describe(self) -> str:
        """The set in a few words."""
        return f"at most three parallel subspaces of codimension {len(self.rows)} ({len(self.centres)} found)"


def parallel_subspaces_of(z: np.ndarray, splitting: Splitting) -> ParallelSubspaces:
    """Three centres by farthest points (their worst distance is at most twice the best possible), then means."""
    rows = np.linalg.qr(splitting.coordinates.T)[0].T  # (k, d)
    y = np.asarray(z, dtype=float) @ rows.T  # (n, k)
    chosen = [int(np.linalg.norm(y, axis=1).argmax())]
    while len(chosen) < min(3, len(y)):
        chosen.append(int(_pairwise(y, y[chosen]).min(axis=1).argmax()))
    label = _pairwise(y, y[chosen]).argmin(axis=1)
    return ParallelSubspaces(rows, np.array([y[label == i].mean(axis=0) for i in np.unique(label)]))


def _pairwise(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(a[:, None, :] - b[None, :, :], axis=2))  # (n, m)


def _representatives(points: np.ndarray, apart: float) -> np.ndarray:
    """One point of every group, farthest from the origin first."""
    order = np.argsort(-np.linalg.norm(points, axis=1))
    kept: list[np.ndarray] = []
    for p in points[order]:
        if all(np.linalg.norm(p - q) > apart for q in kept):
            kept.append(p)
    return np.array(kept)


doors(globals())
