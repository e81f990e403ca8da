"""R^3 in orthographic projection: a light box with scales on its silhouette."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from metastable.plots.projection import Camera
from metastable.plots.style import INK

Floats = NDArray[np.float64]

# Limits of the panel in units of the box's half-width: room for the scales at the left and below.
ACROSS, UPRIGHT = (-2.05, 1.6), (-1.95, 1.52)


def draw_box(ax: Axes, camera: Camera, centre: Floats, half: Floats, letters: Sequence[str]) -> None:
    """Draw the three far walls with their grids, and a scale along each direction.

    Parameters
    ----------
    ax
        Where.
    camera
        The view.
    centre, half
        Middle and half-widths of the box in data units, (3,); it is drawn as the cube [-1, 1]^3.
    letters
        Names of the three directions.
    """
    toward = np.where(camera.toward >= 0, 1.0, -1.0)  # the corner nearest to the viewer
    ticks = [_ticks(centre[k], half[k]) for k in range(3)]
    walls, grid = [], []
    for k in range(3):
        walls.append(camera.see(_wall(k, -toward[k]))[0])
        for other in {0, 1, 2} - {k}:
            along = 3 - k - other  # a grid line runs along this direction, at a tick of `other`
            for value in (ticks[other] - centre[other]) / half[other]:
                ends = np.zeros((2, 3))
                ends[:, k], ends[:, other], ends[:, along] = -toward[k], value, (-1.0, 1.0)
                grid.append(camera.see(ends)[0])
    shades = ["#F4F5F6", "#F8F9FA", "#EFF1F3"]
    ax.add_collection(PolyCollection(walls, facecolors=shades, edgecolors="#C9CDD2", lw=0.5, zorder=0.1), autolim=False)
    ax.add_collection(LineCollection(grid, colors="#DFE2E6", linewidths=0.4, zorder=0.2), autolim=False)
    for k in range(3):
        _scale(ax, camera, k, toward, (ticks[k] - centre[k]) / half[k], _words(ticks[k]), letters[k])
    ax.set(xlim=ACROSS, ylim=UPRIGHT, aspect="equal")
    ax.set_axis_off()


def _wall(k: int, side: float) -> Floats:
    """The four corners (4, 3) of the wall where coordinate k is `side`."""
    corners = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype=float)
    return np.insert(corners, k, side, axis=1)


def _ticks(centre: float, half: float) -> Floats:
    low, high = centre - half, centre + half
    values = np.asarray(MaxNLocator(nbins=3, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high))
    return values[(values >= low + 0.12 * half) & (values <= high - 0.12 * half)]


def _words(ticks: Floats) -> list[str]:
    """Tick labels, all with the same decimals; powers of ten where they would grow long."""
    if not len(ticks):
        return []
    largest = np.abs(ticks).max()
    if largest >= 1e4 or 0 < largest < 1e-3:
        return [f"{tick:.1e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e") for tick in ticks]
    step = np.diff(ticks).min() if len(ticks) > 1 else largest or 1.0
    decimals = int(np.clip(np.ceil(-np.log10(step) - 1e-9), 0, 6))
    decimals += not np.isclose(step * 10**decimals, np.round(step * 10**decimals))  # a step of 0.25 needs two
    return [f"{tick:.{decimals}f}".replace("-", "\N{MINUS SIGN}") for tick in ticks]


def _edge(camera: Camera, k: int, toward: Floats) -> Floats:
    """Signs (3,) of the silhouette edge along direction k that carries its scale (entry k unused).

    Horizontal scales sit at the bottom of the near walls, the vertical one on the leftmost upright edge: those
    edges have a hidden wall on one side and an open one on the other, so nothing is drawn across them.
    """
    signs = np.array(toward)
    if k < 2:
        signs[2] = -toward[2]
        return signs
    choices = [np.array([toward[0], -toward[1], 0.0]), np.array([-toward[0], toward[1], 0.0])]
    return min(choices, key=lambda corner: float(corner @ camera.right))


def _scale(ax: Axes, camera: Camera, k: int, toward: Floats, at: Floats, words: Sequence[str], letter: str) -> None:
    signs = _edge(camera, k, toward)
    ends = np.tile(signs, (2, 1))
    ends[:, k] = (-1.0, 1.0)
    flat = camera.see(ends)[0]  # (2, 2)
    ax.plot(flat[:, 0], flat[:, 1], color=INK, lw=0.6, zorder=0.3, solid_capstyle="round")
    middle = flat.mean(axis=0)
    along = (flat[1] - flat[0]) / np.linalg.norm(flat[1] - flat[0])
    out = np.array([along[1], -along[0]])
    out = out if out @ middle >= 0 else -out  # away from the box, across the edge
    points = np.tile(signs, (len(at), 1))
    points[:, k] = at
    for point, word in zip(camera.see(points)[0], words):
        tip = point + 0.04 * out
        ax.plot([point[0], tip[0]], [point[1], tip[1]], color=INK, lw=0.5, zorder=0.3)
        _beside(ax, tip, 2.0 * out, word, 5.5, _anchor(out))
    longest = max((len(word) for word in words), default=1)
    beyond = 12 + 3.2 * longest * abs(out[0]) + 4 * abs(out[1])  # points: past the tick labels
    _beside(ax, middle, beyond * out, letter, 7.5, {"ha": "center", "va": "center"})


def _beside(ax: Axes, point: Floats, away: Floats, word: str, size: float, anchor: dict[str, Any]) -> None:
    """A word some points away from a place: as far from the box in a large panel as in a small one."""
    where: dict[str, Any] = {"xy": (point[0], point[1]), "xytext": (away[0], away[1]), "textcoords": "offset points"}
    ax.annotate(word, **where, fontsize=size, color=INK, **anchor)


def _anchor(out: Floats) -> dict[str, Any]:
    """Alignment that lets a label grow away from the box."""
    across = "left" if out[0] > 0.35 else "right" if out[0] < -0.35 else "center"
    upright = "bottom" if out[1] > 0.75 else "top" if out[1] < -0.5 else "center"
    return {"ha": across, "va": upright}
