"""Where tokens went: thin smooth lines from start to end."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from metastable.errors import InputError
from metastable.plots.captions import caption
from metastable.plots.colours import Color, colour_legend, paler, token_colours
from metastable.plots.marks import dot_area, draw_dots
from metastable.plots.motion import Movable, read_motion, short
from metastable.plots.snapshots import draw_paths
from metastable.plots.spaces import time_disc, view_of
from metastable.plots.style import Size, captioned, footnote, panels, paper


@paper()
def trajectories(
    tokens: Movable,
    t: ArrayLike | None = None,
    *,
    until: float | None = None,
    color: Color = None,
    first: str | None = None,
    view: tuple[float, float] | None = None,
    run: int = 0,
    geometry: str | None = None,
    size: Size | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw every token's path as a thin smooth line, with a small open ring at its start and a dot at its end.

    On the circle, where paths would retrace the same arc, time runs outwards from an inner ring.

    Parameters
    ----------
    tokens
        A `Trajectory`, or an array (T, ..., n, d).
    t
        Times of an array, (T,).
    until
        Stop the paths at this time; the whole run when None.
    color
        "cluster", "final", "token", a colour, labels (n,), identities (T, n) or values (n,). None: one colour for each
        cluster at the end, paler while a token is alone. A line under the picture says what colours mean.
    first
        A colour for the first token, for example "red"; its path is drawn thicker.
    view
        Azimuth and elevation in degrees when d = 3.
    run
        Which run of an ensemble.
    geometry
        "sphere", "euclidean" or "rescaled" for an array; unit tokens mean the sphere when None.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes.

    Examples
    --------
    >>> import numpy as np
    >>> spiral = np.exp((-0.2 + 1j) * np.linspace(0, 6, 40))[:, None] * np.array([1.0, 1j, -1.0])
    >>> fig = trajectories(np.stack([spiral.real, spiral.imag], -1), first="red")
    >>> len(fig.axes)
    1
    """
    motion = read_motion(tokens, t, run, geometry)
    end = float(motion.t[-1]) if until is None else float(until)
    if not end >= motion.t[0]:
        raise InputError(f"Paths begin at {motion.t[0]:g}, so they cannot stop at {end:g}; give a later `until`.")
    last = int(motion.latest([end])[0])
    colours = token_colours(motion, color, first)
    on_circle = motion.sphere and motion.d == 2
    seen = time_disc(motion) if on_circle else view_of(motion, motion.x[: last + 1], view)
    width, ratio, extra = seen.panel
    figure, (panel,) = panels(ax, 1, max(width, 2.6), ratio, extra, size=size)
    seen.backdrop(panel)
    draw_paths(panel, motion, seen, colours, first is not None, end)
    start, depth = seen.place(motion.t[:1], motion.x[:1])
    if motion.n <= 500:  # more rings would hide the lines
        pale = paler(colours[0], 0.25 + 0.4 * (depth[0] < 0) * (seen.shading >= 1))
        rings = panel.scatter(start[0, :, 0], start[0, :, 1], s=0.48 * dot_area(motion.n), linewidths=0.5, zorder=3)
        rings.set(facecolors="white", edgecolors=pale)
    when = np.array([min(end, float(motion.t[-1]))])
    xy, depth = seen.place(when, motion.at(when))
    draw_dots(panel, xy[0], depth[0], colours[last], seen.shading, first is not None)
    if motion.d > 1:
        span = f"{short(float(motion.t[0]))} to {short(float(when[0]))}"
        outwards = ", outwards" if on_circle else ""
        panel.set_title((f"layers {span}" if motion.clock == "layer" else f"t = {span}") + outwards)
    legend = colour_legend(motion, color, first)
    footnote(figure, "; ".join(filter(None, [legend, motion.note])), ax)
    what = f"Paths of the tokens from {motion.label(float(motion.t[0]))} to {motion.reading(float(when[0]))}"
    marks = "rings are starts, dots ends" + (", time runs outwards" if on_circle else "")
    return captioned(figure, caption(what, tokens, motion, marks, legend))
