"""The unit sphere in orthographic projection: ball, limb, parallels and meridians."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import Circle
from numpy.typing import NDArray

from metastable.plots.projection import Camera

Floats = NDArray[np.float64]

STEP = 30  # degrees between parallels and between meridians


def graticule() -> list[Floats]:
    """Parallels and meridians every 30 degrees, as curves (m, 3)."""
    turn = np.radians(np.linspace(0, 360, 181))
    half = np.radians(np.linspace(-90, 90, 91))
    curves = []
    for latitude in np.radians(np.arange(-90 + STEP, 90, STEP)):
        ring = np.cos(latitude)
        curves.append(np.stack([ring * np.cos(turn), ring * np.sin(turn), np.full_like(turn, np.sin(latitude))], 1))
    for longitude in np.radians(np.arange(0, 360, STEP)):
        arc = np.cos(half)
        curves.append(np.stack([arc * np.cos(longitude), arc * np.sin(longitude), np.sin(half)], 1))
    return curves


def runs_of(flags: NDArray[np.bool_]) -> list[tuple[int, int, bool]]:
    """Stretches of equal flags as (start, stop, flag), each reaching one point into the next so lines join up."""
    edges = np.flatnonzero(np.diff(flags)) + 1
    starts = [0, *edges.tolist()]
    stops = [*(edges + 1).tolist(), len(flags)]
    return [(a, b, bool(flags[a])) for a, b in zip(starts, stops)]


def draw_globe(ax: Axes, camera: Camera) -> None:
    """Draw the ball behind the tokens and set square limits around it."""
    _draw_ball(ax)
    near: list[Floats] = []
    far: list[Floats] = []
    for curve in graticule():
        flat, height = camera.see(curve)  # (m, 2), (m,)
        for start, stop, front in runs_of(height >= 0):
            (near if front else far).append(flat[start:stop])
    ax.add_collection(LineCollection(far, colors="#E7E9EC", linewidths=0.35, zorder=0.6), autolim=False)
    ax.add_collection(LineCollection(near, colors="#CDD2D8", linewidths=0.45, zorder=0.7), autolim=False)
    ax.add_patch(Circle((0, 0), 1.0, fill=False, ec="#5B6168", lw=0.7, zorder=0.8))
    ax.set(xlim=(-1.07, 1.07), ylim=(-1.07, 1.07), aspect="equal", xticks=[], yticks=[])  # ticks unseen take time
    ax.set_axis_off()


def _draw_ball(ax: Axes) -> None:
    """A faint light from the upper left, as one small image clipped to the disc.

    Neighbouring pixels differ by one level of 255 at most, so they are drawn as they are: smoothing takes longer.
    """
    grid = np.linspace(-1, 1, 192)
    x, y = np.meshgrid(grid, grid)
    z = np.sqrt(np.clip(1 - x**2 - y**2, 0, 1))
    light = np.clip((-0.45 * x + 0.5 * y + 0.74 * z), 0, 1)  # Lambert
    grey = 0.925 + 0.075 * light
    image = np.stack([grey, grey, np.clip(grey + 0.008, 0, 1), np.ones_like(grey)], axis=-1)
    levels = np.round(255 * image).astype(np.uint8)
    drawn = ax.imshow(levels, extent=(-1, 1, -1, 1), origin="lower", interpolation="nearest", zorder=0.1, aspect="auto")
    drawn.set_clip_path(Circle((0, 0), 1.0, transform=ax.transData))
