"""Tokens as dots and their paths as thin lines, near ones in front of far ones."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from numpy.typing import ArrayLike, NDArray

from metastable.plots.colours import paler
from metastable.plots.globe import runs_of
from metastable.plots.style import PAPER, RASTER_ABOVE, magnified

Floats = NDArray[np.float64]

RIM = 0.35  # points: white around a dot,
RIMMED = 500  # up to so many of them


def dots_apart(ax: Axes, xy: Floats) -> NDArray[np.int_]:
    """How many of the dots (..., n, 2) can be distinguished: occupied cells of a fine grid over the panel, (...).

    Thousands of tokens need small dots while they are spread out, and large ones once they have gathered.
    """
    low, high = np.array([ax.get_xlim(), ax.get_ylim()]).T  # (2,) each
    cells = np.floor(100 * (xy - low) / (high - low))
    numbers = np.sort(cells[..., 0] + 1e6 * cells[..., 1], axis=-1)
    return np.asarray(1 + (np.diff(numbers, axis=-1) != 0).sum(axis=-1))


def dot_area(count: ArrayLike) -> Floats:
    """Area of a dot in square points: smaller the more dots there are."""
    return magnified() ** 2 * np.clip(20.0 * (64 / np.maximum(count, 1)) ** 0.6, 1.2, 26.0)


def shade(depth: Floats, shading: float) -> tuple[Floats, Floats]:
    """How pale and how large dots are at heights from -1 (far) to 1 (near).

    On the sphere (shading 1) there is a step at the limb, because the far side is seen through the ball.
    """
    far = (1 - depth) / 2  # 0 near, 1 far
    hidden = (depth < 0) * (shading >= 1)
    pale = shading * (0.28 * far + 0.28 * hidden)
    size = 1 - shading * (0.35 * far + 0.18 * hidden)
    return pale, size


def arrange(
    xy: Floats, depth: Floats, colours: Floats, area: ArrayLike, shading: float, first: bool
) -> tuple[Floats, Floats, Floats]:
    """Positions (..., n, 2), areas (..., n) and colours (..., n, 4) in drawing order.

    That is far to near; a marked first token is larger and last.
    """
    pale, size = shade(depth, shading)
    areas = np.asarray(area)[..., None] * size**2
    height = depth
    if first:
        areas[..., 0] = 2.2 * np.maximum(area, 8.0) * size[..., 0] ** 2
        height = np.array(depth)
        height[..., 0] = np.inf
    order = np.argsort(height, axis=-1, kind="stable")
    each = order[..., None]
    return (
        np.take_along_axis(xy, each, axis=-2),
        np.take_along_axis(areas, order, axis=-1),
        np.take_along_axis(paler(colours, pale), each, axis=-2),
    )


def draw_dots(
    ax: Axes,
    xy: Floats,
    depth: Floats,
    colours: Floats,
    shading: float = 0.0,
    first: bool = False,
    area: ArrayLike | None = None,
) -> PathCollection:
    """Draw tokens (n, 2); above `RASTER_ABOVE` of them they are an image inside vector files."""
    apart = dots_apart(ax, xy)
    area = dot_area(apart) if area is None else area
    places, areas, faces = arrange(xy, depth, colours, area, shading, first)
    return ax.scatter(
        places[:, 0],
        places[:, 1],
        s=areas,
        c=faces,
        edgecolors=PAPER if apart <= RIMMED else "none",
        linewidths=RIM,
        zorder=4,
        rasterized=len(xy) > RASTER_ABOVE,
        clip_on=False,
    )


def line_segments(xy: Floats, depth: Floats, colours: Floats, shading: float) -> tuple[list[Floats], Floats, Floats]:
    """Paths (m, n, 2) cut where they change colour or pass the limb: segments, their colours, whether far."""
    segments: list[Floats] = []
    tints: list[Floats] = []
    behind: list[bool] = []
    far = (depth < 0) if shading >= 1 else np.zeros(depth.shape, dtype=bool)
    turns = np.cumsum(np.vstack([np.zeros(xy.shape[1]), (np.diff(colours, axis=0) != 0).any(axis=-1)]), axis=0)
    for token in range(xy.shape[1]):
        stretches = runs_of(far[:, token])
        for start, stop, hidden in stretches:
            for value in np.unique(turns[start:stop, token]):
                inside = np.flatnonzero(turns[start:stop, token] == value) + start
                segment = xy[inside[0] : min(inside[-1] + 2, stop), token]
                if len(segment) > 1:
                    segments.append(segment)
                    tints.append(colours[inside[0], token])
                    behind.append(hidden)
    return segments, np.array(tints).reshape(-1, 4), np.array(behind, dtype=bool)


def draw_lines(
    ax: Axes, xy: Floats, depth: Floats, colours: Floats, shading: float, width: float = 0.7, alpha: float = 0.75
) -> None:
    """Draw paths (m, n, 2) as thin lines with colours (m, n, 4); parts on the far side are paler."""
    segments, tints, behind = line_segments(xy, depth, colours, shading)
    raster = xy.shape[1] > RASTER_ABOVE
    for hidden, pale, zorder in ((True, 0.52, 1.5), (False, 0.0, 2.5)):
        chosen = np.flatnonzero(behind == hidden)
        if len(chosen):
            lines = LineCollection(
                [segments[k] for k in chosen],
                colors=paler(tints[chosen], pale),
                linewidths=width,
                alpha=alpha,
                zorder=zorder,
                rasterized=raster,
                capstyle="round",
            )
            ax.add_collection(lines, autolim=False)
