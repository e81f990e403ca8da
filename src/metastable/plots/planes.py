"""Parallel hyperplanes behind tokens in R^2 and R^3, with an arrow across them (figure 6 of the second paper)."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from numpy.typing import NDArray

from metastable.errors import InputError
from metastable.plots.spaces import View, limits
from metastable.plots.style import PALETTE

Floats = NDArray[np.float64]


def draw_planes(panel: Axes, seen: View, shown: Floats, direction: Floats, levels: Sequence[float]) -> None:
    """An arrow along `direction`, and the hyperplanes <direction, x> = level.

    Parameters
    ----------
    panel, seen
        Where, and the view the tokens are drawn in.
    shown
        The states (m, n, d) that set the panel's limits.
    direction
        The common normal, (d,).
    levels
        One hyperplane each.
    """
    d = shown.shape[-1]
    if seen.name not in ("plane", "box") or direction.shape != (d,) or not np.abs(direction).max() > 0:
        raise InputError(
            f"Hyperplanes are drawn in R^2 and R^3 across a direction other than 0; {direction.tolist()} was given in "
            f"the view '{seen.name}' of tokens of dimension {d}."
        )
    centre, half = limits(shown)
    orange, now = PALETTE[1], np.zeros(1)
    tail = np.clip(np.zeros(d), centre - half, centre + half)  # the origin, if it is in the picture
    tip = tail + 0.6 * direction / np.abs(direction / half).max()
    ends, _ = seen.place(now, np.stack([tail, tip])[None])  # (1, 2, 2)
    arrow = {"arrowstyle": "-|>", "color": orange, "lw": 1.4, "mutation_scale": 8, "shrinkA": 0, "shrinkB": 0}
    panel.annotate("", xy=ends[0, 1], xytext=ends[0, 0], arrowprops=arrow, zorder=4.5)
    for level in levels:
        inside = slice_of_box(direction, level, centre, half)  # (m, d)
        if len(inside) < 2:
            continue
        flat = seen.place(now, inside[None])[0][0]
        if d == 2:
            line = LineCollection([flat], colors=orange, linewidths=0.9, linestyles=[(0, (4, 2))], zorder=1.2)
            panel.add_collection(line, autolim=False)
        else:
            sheet = PolyCollection([flat], facecolors=orange, edgecolors=orange, alpha=0.22, lw=0.7, zorder=1.2)
            panel.add_collection(sheet, autolim=False)


def slice_of_box(normal: Floats, level: float, centre: Floats, half: Floats) -> Floats:
    """Corners (m, d), in order, of the part of <normal, x> = level inside a box; none if it misses the box.

    >>> slice_of_box(np.array([1.0, 0.0]), 0.5, np.zeros(2), np.ones(2)).tolist()
    [[0.5, -1.0], [0.5, 1.0]]
    """
    corners = centre + half * np.array(list(product((-1.0, 1.0), repeat=len(centre))))
    hits = []
    for a, b in product(corners, corners):
        if (b >= a).all() and np.count_nonzero(b - a) == 1:  # an edge, once
            step = normal @ (b - a)
            share = (level - normal @ a) / step if step else -1.0
            if 0 <= share <= 1:
                hits.append(a + share * (b - a))
    if len(hits) < 3 or len(centre) == 2:
        return np.array(hits).reshape(-1, len(centre))
    points = np.array(hits)
    one, two = np.linalg.svd(normal[None])[2][1:]  # two directions inside the plane
    around = points - points.mean(axis=0)
    return points[np.argsort(np.arctan2(around @ two, around @ one))]
