"""Flats through points, hyperplanes between labelled points, leaders: measures of `metastable.experiments.flats`."""

import numpy as np
from scipy.optimize import linprog

FLATS = 3
RESTARTS = 60
FLAT = 1e-3  # largest distance from the nearest flat, relative to the tokens' extent
TIE = 1e-9  # relative: components closer than this are equal


def even(zeta: np.ndarray) -> np.ndarray:
    """Coordinates (n, d) each divided by its spread: a flat stays a flat, and none drowns in those that diverge."""
    spread = zeta.std(axis=0)
    return np.asarray((zeta - zeta.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))


def led_by_largest(P: np.ndarray, component: np.ndarray) -> bool:
    """Whether all tokens that receive more than half a token's attention have the largest component of their sign."""
    leaders = np.flatnonzero(P.sum(axis=0) > 0.5)
    top, bottom = component.max(), component.min()
    tie = TIE * np.abs(component).max()
    return bool(all(component[j] >= top - tie or component[j] <= bottom + tie for j in leaders))


def separable(points: np.ndarray, side: np.ndarray) -> bool:
    """Whether a hyperplane separates two labelled sets (n, d), by a linear programme.

    >>> square = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> separable(square, np.array([0, 0, 1, 1])), separable(square, np.array([0, 1, 1, 1]))
    (False, True)
    """
    sign = np.where(side > 0, 1.0, -1.0)[:, None]
    rows = -sign * np.concatenate([points, np.ones((len(points), 1))], axis=1)  # -s (w x + b) <= -1
    found = linprog(np.zeros(points.shape[1] + 1), rows, -np.ones(len(points)), bounds=(None, None), method="highs")
    return bool(found.status == 0)


def flats(points: np.ndarray, rng: np.random.Generator) -> float:
    """Largest distance of points (n, d) from the best of up to `FLATS` hyperplanes, relative to the points' extent.

    Bradley and Mangasarian's K-plane clustering: every point to its nearest plane, every plane refitted (the smallest
    principal direction of its points), from planes through random points; the best of `RESTARTS`, or the first that
    is good enough. It knows nothing of phi_1.
    """
    scale = float(np.linalg.norm(points - points.mean(axis=0), axis=1).max())
    if scale == 0.0:
        return 0.0
    best = np.inf
    for _ in range(RESTARTS):
        picked = [rng.choice(len(points), points.shape[1], replace=False) for _ in range(FLATS)]
        label = np.stack([np.abs(points @ w - c) for w, c in (_plane(points[p]) for p in picked)]).argmin(axis=0)
        for _ in range(50):
            planes = [_plane(points[label == k]) for k in range(FLATS) if (label == k).any()]
            gaps = np.stack([np.abs(points @ w - c) for w, c in planes])
            again = gaps.argmin(axis=0)
            if np.array_equal(again, label):
                break
            label = again
        best = min(best, float(gaps.min(axis=0).max()))
        if best <= 0.1 * FLAT * scale:
            break
    return best / scale


def _plane(points: np.ndarray) -> tuple[np.ndarray, float]:
    centre = points.mean(axis=0)
    normal = np.linalg.eigh((points - centre).T @ (points - centre))[1][:, 0]
    return normal, float(centre @ normal)
