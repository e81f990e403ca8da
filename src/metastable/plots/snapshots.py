"""Tokens at chosen times, side by side."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from metastable.errors import unknown
from metastable.plots.captions import caption, times_in_words
from metastable.plots.colours import Color, colour_legend, token_colours
from metastable.plots.marks import draw_dots, draw_lines
from metastable.plots.motion import Motion, Movable, read_motion
from metastable.plots.planes import draw_planes
from metastable.plots.shown_times import pick
from metastable.plots.spaces import View, view_of
from metastable.plots.style import Size, captioned, footnote, panels, paper

Floats = NDArray[np.float64]

SCALES = ("auto", "same", "own")


@paper()
def snapshots(
    tokens: Movable,
    t: ArrayLike | None = None,
    *,
    times: int | ArrayLike | None = None,
    spacing: str = "linear",
    color: Color = None,
    first: str | None = None,
    view: tuple[float, float] | None = None,
    scale: str = "auto",
    direction: ArrayLike | None = None,
    levels: Sequence[float] = (),
    run: int = 0,
    geometry: str | None = None,
    columns: int | None = None,
    size: Size | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw the tokens at a few times, one panel each.

    Parameters
    ----------
    tokens
        A `Trajectory`, or an array (T, ..., n, d), or one state (n, d).
    t
        Times of an array, (T,).
    times
        Which times: a count (4 when None) of saved ones, or the times themselves, met exactly: between saved states
        the run's own method is asked, or the cubic through its neighbours.
    spacing
        "linear" or "exponential" spacing of a count of times.
    color
        "cluster", "final", "token", a colour, labels (n,), identities (T, n) or values (n,). None: one colour for each
        cluster at the end, paler while a token is alone. A line under the picture says what colours mean.
    first
        A colour for the first token, for example "red".
    view
        Azimuth and elevation in degrees when d = 3.
    scale
        Scales of the panels in R^d: "same", "own", or "auto" (own when spreads differ more than fivefold).
    direction, levels
        A vector (d,) drawn as an arrow, and values c whose hyperplanes <direction, x> = c are drawn (d = 2, 3).
    run
        Which run of an ensemble.
    geometry
        "sphere", "euclidean" or "rescaled" for an array; unit tokens mean the sphere when None.
    columns
        Panels in a row.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes, one per panel.

    Returns
    -------
    Figure
        One panel per time; for d = 1 a single panel with time to the right.

    Examples
    --------
    >>> import numpy as np
    >>> angle = np.linspace(0, 3, 5)[None, :] * np.exp(-np.linspace(0, 2, 9))[:, None]
    >>> fig = snapshots(np.stack([np.cos(angle), np.sin(angle)], -1), times=[0, 4, 8])
    >>> [ax.get_title() for ax in fig.axes]
    ['t = 0.0', 't = 4.0', 't = 8.0']
    """
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    motion = read_motion(tokens, t, run, geometry)
    motion, chosen = pick(motion, times, spacing, tokens=tokens, run=run)
    colours, legend = token_colours(motion, color, first), colour_legend(motion, color, first)
    said = caption(f"Tokens at {times_in_words(motion, chosen)}", tokens, motion, legend)
    if motion.d == 1:
        return captioned(_on_a_line(motion, chosen, colours, first is not None, legend, size, ax), said)
    shown = motion.x[chosen]  # (m, n, d)
    own = scale == "own" or (scale == "auto" and _spreads_differ(shown))
    views = [view_of(motion, shown[k : k + 1] if own else shown, view) for k in range(len(chosen))]
    figure, axes = panels(ax, len(chosen), *views[0].panel, columns=columns, size=size)
    for k, (index, panel, seen) in enumerate(zip(chosen, axes, views)):
        seen.backdrop(panel)
        if direction is not None:
            held = shown[[k]] if own else shown
            draw_planes(panel, seen, held, np.asarray(direction, dtype=float), levels)
        xy, depth = seen.place(motion.t[[index]], motion.x[[index]])
        draw_dots(panel, xy[0], depth[0], colours[index], seen.shading, first is not None)
        panel.set_title(motion.label(motion.t[index]))
    if ax is None and not own:
        _outer_labels(axes, columns_of(figure, len(chosen)))
    footnote(figure, "; ".join(filter(None, [legend, motion.note])), ax)
    return captioned(figure, said)


def columns_of(figure: Figure, count: int) -> int:
    """How many panels a row of a figure has made by `panels`."""
    spec = figure.axes[0].get_subplotspec()
    return spec.get_gridspec().ncols if spec is not None else count


def _outer_labels(axes: Sequence[Axes], columns: int) -> None:
    """With equal scales, keep axis labels at the outer edge of the grid only."""
    for k, panel in enumerate(axes):
        if k % columns:
            panel.set_ylabel("")
        if k + columns < len(axes):
            panel.set_xlabel("")


def _spreads_differ(shown: Floats) -> bool:
    spreads = (shown.max(axis=1) - shown.min(axis=1)).max(axis=-1)  # (m,)
    return bool(spreads.max() > 5 * spreads.min()) and bool(spreads.min() > 0)


def _on_a_line(
    motion: Motion,
    chosen: NDArray[np.intp],
    colours: Floats,
    first: bool,
    legend: str,
    size: Size | None,
    ax: Axes | Sequence[Axes] | None,
) -> Figure:
    """d = 1: all paths against time, with dots at the chosen times."""
    seen = view_of(motion)
    figure, (panel,) = panels(ax, 1, *seen.panel, size=size)
    seen.backdrop(panel)
    draw_paths(panel, motion, seen, colours, first)
    for index in chosen:
        xy, depth = seen.place(motion.t[[index]], motion.x[[index]])
        draw_dots(panel, xy[0], depth[0], colours[index], first=first, area=9.0 if motion.n < 200 else 3.0)
    footnote(figure, "; ".join(filter(None, [legend, motion.note])), ax)
    return figure


def draw_paths(panel: Axes, motion: Motion, seen: View, colours: Floats, first: bool, until: float = np.inf) -> None:
    """Every token's path up to a time, smooth between saved states; a marked first token's is thicker."""
    end = min(until, float(motion.t[-1]))
    saved = motion.t[motion.t <= end]
    # about 300 points make a curve look smooth; saved times are among them, so nothing is cut off
    fine = np.unique(np.concatenate([saved, np.linspace(motion.t[0], end, max(2, 301 - len(saved)))]))
    xy, depth = seen.place(fine, motion.at(fine))
    tints = colours[motion.latest(fine)]  # (m, n, 4)
    width = float(np.clip(0.8 * (64 / motion.n) ** 0.25, 0.25, 1.0))
    draw_lines(panel, xy[:, first:], depth[:, first:], tints[:, first:], seen.shading, width)
    if first:
        draw_lines(panel, xy[:, :1], depth[:, :1], tints[:, :1], seen.shading, 1.8 * width, alpha=1.0)
