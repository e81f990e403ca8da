"""Tokens with the edges of the convex polytope they tend to."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import ConvexHull

from metastable.errors import InputError
from metastable.plots.captions import caption, times_in_words
from metastable.plots.colours import Color, colour_legend, token_colours
from metastable.plots.marks import draw_dots
from metastable.plots.motion import Movable, read_motion
from metastable.plots.shown_times import pick
from metastable.plots.spaces import View, view_of
from metastable.plots.style import INK, PALETTE, Size, captioned, footnote, panels, paper

Floats = NDArray[np.float64]


@paper()
def polytope(
    tokens: Movable,
    t: ArrayLike | None = None,
    *,
    vertices: ArrayLike | None = None,
    times: int | ArrayLike | None = None,
    spacing: str = "linear",
    color: Color = None,
    first: str | None = None,
    view: tuple[float, float] | None = None,
    run: int = 0,
    columns: int | None = None,
    size: Size | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw tokens in R^2 or R^3 with the edges of a convex polytope (figures 1 and 5 of the second paper).

    Parameters
    ----------
    tokens
        A `Trajectory`, or an array (T, ..., n, d), or one state (n, d).
    t
        Times of an array, (T,).
    vertices
        Points (m, d) whose convex hull is drawn; the tokens at the last time when None.
    times
        Which times: a count (4 when None) of saved ones, or the times themselves, met exactly.
    spacing
        "linear" or "exponential" spacing of a count of times.
    color, first
        Colours, as for `snapshots`.
    view
        Azimuth and elevation in degrees when d = 3.
    run
        Which run of an ensemble.
    columns
        Panels in a row.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes, one per panel.

    Examples
    --------
    >>> import numpy as np
    >>> start = np.random.default_rng(0).normal(size=(12, 3))
    >>> fig = polytope(np.stack([start, np.sign(start)]), times=[0, 1])
    >>> len(fig.axes)
    2
    """
    motion = read_motion(tokens, t, run, None if hasattr(tokens, "x") else "rescaled")
    if motion.d not in (2, 3):
        raise InputError(f"A polytope is drawn in R^2 or R^3, not for d = {motion.d}; use `snapshots`.")
    corners = motion.x[-1] if vertices is None else np.atleast_2d(np.asarray(vertices, dtype=float))
    if corners.shape[-1] != motion.d:
        raise InputError(f"Vertices of dimension {corners.shape[-1]} do not fit tokens of dimension {motion.d}.")
    motion, chosen = pick(motion, times, spacing, tokens=tokens, run=run)
    colours = token_colours(motion, color, first)
    shown = np.concatenate([motion.x[chosen].reshape(-1, motion.d), corners])[None]
    seen = view_of(motion, shown, view)
    figure, axes = panels(ax, len(chosen), *seen.panel, columns=columns, size=size)
    edges = hull_edges(corners)  # (edges, 2, d)
    for index, panel in zip(chosen, axes):
        seen.backdrop(panel)
        _draw_edges(panel, seen, edges, corners)
        xy, depth = seen.place(motion.t[[index]], motion.x[[index]])
        draw_dots(panel, xy[0], depth[0], colours[index], seen.shading, first is not None)
        panel.set_title(motion.label(motion.t[index]))
    legend = colour_legend(motion, color, first)
    footnote(figure, "; ".join(filter(None, [legend, motion.note])), ax)
    what = f"Tokens at {times_in_words(motion, chosen)} with a convex polytope (orange)"
    return captioned(figure, caption(what, tokens, motion, legend))


def hull_edges(points: ArrayLike) -> Floats:
    """Edges (m, 2, d) of the convex hull of points (n, d), d = 2 or 3; flat hulls are hulls of fewer dimensions.

    Qhull splits facets into triangles; an edge between two triangles of the same plane is not an edge of the
    polytope and is left out.

    >>> len(hull_edges([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)]))  # a cube
    12
    """
    x = np.unique(np.round(np.asarray(points, dtype=float), 12), axis=0)
    away = x - x.mean(axis=0)
    scale = np.abs(away).max() if len(x) else 0.0
    if scale == 0:
        return np.zeros((0, 2, x.shape[1]))
    _, spread, axes = np.linalg.svd(away / scale, full_matrices=False)
    rank = int((spread > 1e-7 * spread[0]).sum())
    flat = away @ axes[:rank].T  # (n, rank): coordinates inside the flat hull
    if rank == 1:
        return x[[[flat[:, 0].argmin(), flat[:, 0].argmax()]]]
    hull = ConvexHull(flat)
    if rank == 2:
        return np.asarray(x[hull.simplices])
    found: dict[tuple[int, int], list[int]] = {}
    for face, corners in enumerate(hull.simplices):
        for a, b in ((0, 1), (1, 2), (0, 2)):
            found.setdefault(tuple(sorted((int(corners[a]), int(corners[b])))), []).append(face)  # type: ignore[arg-type]
    normals = hull.equations[:, :-1]
    kept = [pair for pair, (one, *_, two) in found.items() if normals[one] @ normals[two] < 1 - 1e-9]
    return np.asarray(x[np.array(kept)])


def _draw_edges(panel: Axes, seen: View, edges: Floats, corners: Floats) -> None:
    """The polytope's edges (in the plane its filled outline), in front ones darker; its vertices as small rings."""
    if not len(edges):
        return
    now = np.zeros(1)
    flat, height = seen.place(now, edges.reshape(1, -1, edges.shape[-1]))
    lines, middle = flat.reshape(-1, 2, 2), height.reshape(-1, 2).mean(axis=1)
    orange = PALETTE[1]
    if edges.shape[-1] == 2:
        ends = np.unique(lines.reshape(-1, 2), axis=0)
        angle = np.arctan2(*(ends - ends.mean(axis=0)).T[::-1])
        fill = PolyCollection([ends[np.argsort(angle)]], facecolors=orange, alpha=0.12, lw=0, zorder=1)
        panel.add_collection(fill, autolim=False)
    back = middle < np.median(middle) if edges.shape[-1] == 3 else np.zeros(len(lines), dtype=bool)
    for mask, width, alpha, zorder in ((back, 0.6, 0.45, 1.1), (~back, 1.0, 0.95, 1.2)):
        drawn = LineCollection(list(lines[mask]), colors=orange, linewidths=width, alpha=alpha, zorder=zorder)
        panel.add_collection(drawn, autolim=False)
    tips = np.unique(lines.reshape(-1, 2), axis=0)
    panel.scatter(
        tips[:, 0], tips[:, 1], s=5, facecolors="white", edgecolors=INK, linewidths=0.5, zorder=3, clip_on=False
    )
