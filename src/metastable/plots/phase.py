"""A measured quantity over two parameters."""

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, Colormap, Normalize
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError, unknown
from metastable.plots.style import RED, Size, one_axes, paper

Floats = NDArray[np.float64]

AXIS_SCALES = ("linear", "log")


@paper()
def phase_diagram(
    x: ArrayLike,
    y: ArrayLike,
    values: ArrayLike,
    *,
    xlabel: str = "",
    ylabel: str = "",
    bar: str | None = "",
    xscale: str = "linear",
    yscale: str = "linear",
    low: float | None = None,
    high: float | None = None,
    contours: Sequence[float] = (),
    curves: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    title: str = "",
    size: Size | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a phase diagram: one coloured cell per pair of parameters.

    Parameters
    ----------
    x, y
        Parameter values, (nx,) and (ny,), increasing; cells reach half-way to their neighbours.
    values
        The quantity, (ny, nx). Whole numbers with few values get separate colours; nan cells are hatched grey.
    xlabel, ylabel, bar, title
        Words; None as ``bar`` draws no colour bar (`shared_bar` gives several panels one).
    xscale, yscale
        "linear" or "log".
    low, high
        Values at the ends of the colours; the data's own when None.
    contours
        Values whose level lines are drawn.
    curves
        Theory to compare with: name to (x, y); those without a name are not in the legend.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes.

    Examples
    --------
    >>> import numpy as np
    >>> beta, t = np.linspace(0.5, 9, 18), np.linspace(0, 15, 16)
    >>> fig = phase_diagram(beta, t, np.tanh(t[:, None] / beta), xlabel="beta", ylabel="t", contours=[0.5])
    >>> fig.axes[0].get_xlabel()
    'beta'
    """
    for name in (xscale, yscale):
        if name not in AXIS_SCALES:
            raise unknown("axis scale", name, AXIS_SCALES)
    z = np.asarray(values)
    across, upright = np.atleast_1d(np.asarray(x, dtype=float)), np.atleast_1d(np.asarray(y, dtype=float))
    if z.shape != (len(upright), len(across)):
        raise InputError(
            f"A phase diagram over {len(across)} by {len(upright)} parameters has values of shape "
            f"({len(upright)}, {len(across)}), not {z.shape}."
        )
    figure, panel = one_axes(ax, 3.4, 2.7, size)
    whole = z.dtype.kind in "iub" and len(z.ravel()) > 0 and int(z.max()) - int(z.min()) < 12
    norm, colours = _colours(z, whole, low, high)
    panel.set_facecolor("#EEEEEE")
    panel.patch.set_hatch("////")
    panel.patch.set_edgecolor("#CFCFCF")
    shown = np.ma.masked_invalid(z.astype(float))
    cells = _edges(across, xscale), _edges(upright, yscale)
    mesh = panel.pcolormesh(*cells, shown, norm=norm, cmap=colours, rasterized=True)
    panel.set(xscale=xscale, yscale=yscale, xlabel=xlabel, ylabel=ylabel, title=title)
    for axis, place, name in ((panel.xaxis, across, xscale), (panel.yaxis, upright, yscale)):
        if name == "log" and len(place) <= 6:  # few values: name them instead of powers of ten
            axis.set_ticks(place, [f"{value:g}" for value in place])
            axis.set_ticks([], minor=True)
    if len(contours) and min(z.shape) > 1:
        lines = panel.contour(across, upright, shown, levels=sorted(contours), colors="white", linewidths=0.9)
        panel.clabel(lines, fmt="%g", fontsize=6)
    for (name, (cx, cy)), dash in zip((curves or {}).items(), ("-", "--", ":", "-.") * 3):
        panel.plot(cx, cy, color=RED, lw=1.4, ls=dash, label=name)
    if curves:
        panel.set(xlim=cells[0][[0, -1]], ylim=cells[1][[0, -1]])
    if any(curves or {}):
        legend = panel.legend(loc="best", frameon=True, framealpha=0.9, edgecolor="none")
        legend.set_zorder(6)
    ticks = np.arange(int(z.min()), int(z.max()) + 1) if whole else None
    if bar is not None:
        colorbar = figure.colorbar(mesh, ax=panel, fraction=0.06, pad=0.03, aspect=22, ticks=ticks)
        colorbar.outline.set_linewidth(0.5)
        colorbar.set_label(bar)
    return figure


def shared_bar(figure: Figure, axes: Sequence[Axes], label: str) -> None:
    """One colour bar for phase diagrams with the same ``low`` and ``high``."""
    colorbar = figure.colorbar(axes[0].collections[0], ax=list(axes), pad=0.02, aspect=30)
    colorbar.outline.set_linewidth(0.5)
    colorbar.set_label(label)


def _colours(z: NDArray[np.float64], whole: bool, low: float | None, high: float | None) -> tuple[Normalize, Colormap]:
    colours = matplotlib.colormaps["viridis"]
    if whole:
        steps = np.arange(int(z.min()), int(z.max()) + 2) - 0.5
        return BoundaryNorm(steps, colours.N), colours
    finite = z[np.isfinite(z)] if np.isfinite(z).any() else np.zeros(1)
    bottom = float(finite.min()) if low is None else low
    top = float(finite.max()) if high is None else high
    return Normalize(bottom, top if top > bottom else bottom + 1.0), colours


def _edges(values: Floats, scale: str) -> Floats:
    """Cell edges half-way between neighbours (in the logarithm on a log axis); no cell reaches below zero.

    >>> _edges(np.array([0.0, 2.0, 4.0]), "linear").tolist(), _edges(np.array([-1.0, 1.0]), "linear").tolist()
    ([0.0, 1.0, 3.0, 5.0], [-2.0, 0.0, 2.0])
    """
    if (np.diff(values) <= 0).any() or (scale == "log" and values[0] <= 0):
        raise InputError("Parameters of a phase diagram must increase, and be positive on a log axis.")
    v = np.log(values) if scale == "log" else values
    if len(v) == 1:
        edges = np.array([v[0] - 0.5, v[0] + 0.5])
    else:
        middle = (v[1:] + v[:-1]) / 2
        edges = np.concatenate([[v[0] - (middle[0] - v[0])], middle, [v[-1] + (v[-1] - middle[-1])]])
    if scale == "linear" and v[0] >= 0:
        edges[0] = max(edges[0], 0.0)  # times and temperatures: what is below means nothing
    return np.exp(edges) if scale == "log" else edges
