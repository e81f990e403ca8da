"""Quantities over time: lines with bands, and projections that gather on hyperplanes."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterMathtext, MaxNLocator
from matplotlib.typing import ColorType
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError, unknown
from metastable.plots.colours import cycle
from metastable.plots.style import FAINT, INK, PALETTE, SOFT, Size, magnified, one_axes, panels, paper

Floats = NDArray[np.float64]

AXIS_SCALES = ("linear", "log", "symlog")
SPREADS = ("std", "range")
_DASHES = ((4, 2), (1, 1.5), (6, 2, 1, 2))  # of curves to compare with
_FEW = 6  # places of measurements that are named on a logarithmic axis


@paper()
def series(
    t: ArrayLike,
    values: ArrayLike | Mapping[str, ArrayLike],
    *,
    band: tuple[ArrayLike, ArrayLike] | Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    reference: Mapping[str, tuple[ArrayLike, ArrayLike]] | None = None,
    xlabel: str = "time $t$",
    ylabel: str = "",
    xscale: str = "linear",
    yscale: str = "linear",
    marks: bool = False,
    plateaus: Sequence[tuple[float, float, float]] = (),
    title: str = "",
    outside: bool = False,
    size: Size | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw observables over time (or over any parameter).

    Parameters
    ----------
    t
        The common horizontal values, (T,).
    values
        One series (T,), or several by name. Whole numbers, such as cluster counts, are drawn as steps.
    band
        Lower and upper ends of a confidence band, (T,) each; by name when there are several series.
    reference
        Curves to compare with, drawn dashed in grey: name to (horizontal, vertical) values.
    xlabel, ylabel, title
        Words.
    xscale, yscale
        "linear", "log" or "symlog"; values a logarithm cannot show are left out.
    marks
        Draw a dot at each value, for measurements at few places.
    outside
        The legend to the right of the panel, in a wider figure: for many series, or long names.
    plateaus
        Stretches to mark, each (start, end, value): a broad line with the value and how long it lasts beside it.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.linspace(0, 5, 50)
    >>> fig = series(t, {"energy": np.tanh(t)}, band={"energy": (np.tanh(t) - 0.1, np.tanh(t) + 0.1)})
    >>> len(fig.axes[0].lines)
    1
    """
    for name in (xscale, yscale):
        if name not in AXIS_SCALES:
            raise unknown("axis scale", name, AXIS_SCALES)
    when = np.atleast_1d(np.asarray(t, dtype=float))
    lines: Mapping[str, ArrayLike] = values if isinstance(values, Mapping) else {"": values}
    bands = band if isinstance(band, Mapping) else {} if band is None else {next(iter(lines)): band}
    figure, panel = one_axes(ax, size=6.0 if outside and size is None else size)
    for (name, line), colour in zip(lines.items(), cycle(len(lines))):
        _one_line(panel, when, np.asarray(line), name, colour, marks)
        if name in bands:
            low, high = (np.asarray(end, dtype=float) for end in bands[name])
            steps = _counts(np.asarray(line)) and not marks
            panel.fill_between(when, low, high, color=colour, alpha=0.2, lw=0, step="post" if steps else None)
    for (name, (x, y)), dashes in zip((reference or {}).items(), itertools.cycle(_DASHES)):
        panel.plot(x, y, color=SOFT, lw=1.0, ls=(0, dashes), label=name, zorder=1.5)
    panel.set(xlabel=xlabel, ylabel=ylabel, title=title)
    panel.set_xscale(xscale, **({"nonpositive": "mask"} if xscale == "log" else {}))
    panel.set_yscale(yscale, **({"nonpositive": "mask"} if yscale == "log" else {}))
    _plain_decade(panel, xscale, yscale)
    if xscale == "log" and marks and 1 < len(when) <= _FEW and (when > 0).all():
        panel.set_xticks(when, labels=[f"{v:,g}" for v in when])  # where something was measured
        panel.set_xticks([], minor=True)
    if yscale == "linear" and all(_counts(np.asarray(line)) for line in lines.values()):
        panel.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    panel.grid(True, axis="y")
    _mark_plateaus(panel, plateaus, xscale)
    if any(lines) or reference:
        panel.legend(**({"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)} if outside else {"loc": "best"}))
    return figure


@paper()
def agreement(
    groups: Mapping[str, tuple[ArrayLike, ArrayLike]],
    *,
    xlabel: str,
    ylabel: str,
    size: Size | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw what was measured against what it should be, a dot each, with the diagonal on which both agree.

    Parameters
    ----------
    groups
        Name to (expected, measured) values.
    xlabel, ylabel
        Words.
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes.

    Examples
    --------
    >>> fig = agreement({"rates": ([0.0, 1.0], [0.01, 0.99])}, xlabel="exact", ylabel="measured")
    >>> fig.axes[0].get_xlabel()
    'exact'
    """
    figure, panel = one_axes(ax, size=size)
    for (name, (expected, measured)), colour in zip(groups.items(), cycle(len(groups))):
        panel.scatter(expected, measured, s=12, label=name, color=[colour])
    ends = [min(panel.get_xlim()[0], panel.get_ylim()[0]), max(panel.get_xlim()[1], panel.get_ylim()[1])]
    panel.plot(ends, ends, color=SOFT, lw=0.8, ls=(0, (4, 2)), zorder=0.5)
    panel.set(xlabel=xlabel, ylabel=ylabel, xlim=ends, ylim=ends)
    panel.legend()
    return figure


class _Plain(LogFormatterMathtext):
    """6 in place of 6 x 10^0, at the ticks that would have that label."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return f"{x:g}" if super().__call__(x, pos) else ""


def _plain_decade(panel: Axes, xscale: str, yscale: str) -> None:
    """Plain numbers on a logarithmic axis that shows little more than a decade of common size."""
    for axis, scale, ends in ((panel.xaxis, xscale, panel.get_xlim()), (panel.yaxis, yscale, panel.get_ylim())):
        low, high = ends
        if scale == "log" and low >= 1e-3 and high <= 1e4 and high <= 30.0 * low:
            axis.set_major_formatter(_Plain())
            axis.set_minor_formatter(_Plain(labelOnlyBase=False, minor_thresholds=(2.0, 0.5)))


def _counts(line: NDArray[Any]) -> bool:
    return line.dtype.kind in "iub"


def _one_line(panel: Axes, t: Floats, line: NDArray[Any], name: str, colour: ColorType, marks: bool) -> None:
    if line.shape != t.shape:
        raise InputError(f"The series {name!r} has shape {line.shape} over {len(t)} times; give one value per time.")
    alone = marks or len(t) == 1  # one value is a dot, not a line
    style = "steps-post" if _counts(line) and not marks else "default"
    marker: dict[str, Any] = {"marker": "o", "ms": 3.2, "mec": "white", "mew": 0.4} if alone else {}
    panel.plot(t, line, color=colour, label=name, drawstyle=style, **marker)


def _mark_plateaus(panel: Axes, plateaus: Sequence[tuple[float, float, float]], xscale: str) -> None:
    """A broad pale line along each plateau, and its value and duration above its middle."""
    low, high = panel.get_xlim()
    for start, end, value in plateaus:
        left, right = max(start, low), min(end, high)
        panel.plot([left, right], [value, value], color=PALETTE[1], lw=5.0, alpha=0.35, solid_capstyle="butt", zorder=1)
        middle = np.sqrt(left * right) if xscale == "log" and left > 0 else (left + right) / 2
        panel.annotate(
            f"{value:g} for {end - start:.3g}",
            (middle, value),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=6.5 * magnified(),
            color=SOFT,
        )


@paper()
def projections(
    t: ArrayLike,
    values: ArrayLike,
    *,
    spread: str = "std",
    split: bool = False,
    groups: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    ylabel: str = r"$\varphi_j^*(z_i)$",
    levels: Sequence[float] = (),
    xscale: str = "linear",
    size: Size | None = None,
    ax: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw coordinates of the tokens over time: mean as a line, spread over tokens as a shade.

    Figure 7(b) of the second paper: along directions of positive eigenvalues the shade closes (tokens gather on a
    hyperplane) and the mean tends to one of two values.

    Parameters
    ----------
    t
        Times, (T,).
    values
        Coordinates of every token, (T, n), or along k directions (T, n, k).
    spread
        "std": one standard deviation to each side; "range": from the smallest to the largest.
    split
        Two panels: directions whose mean ends positive above, negative below.
    groups
        Whole-number labels (n,), or (n, k) when they differ by direction, for tokens that gather at several values:
        a line and a shade for each group. All tokens together when None.
    names
        One per direction, for a legend.
    ylabel
        Words for the vertical axis.
    levels
        Predicted limits, drawn as dashed lines.
    xscale
        "linear" or "log".
    size
        Of a new figure: "column", "page" or "slide", a width, or width and height in inches.
    ax
        Existing axes: one, or two when split.

    Examples
    --------
    >>> import numpy as np
    >>> t = np.linspace(0, 4, 30)
    >>> z = 1 + np.exp(-t)[:, None] * np.linspace(-1, 1, 7)
    >>> fig = projections(t, z, levels=[1.0])
    >>> len(fig.axes)
    1
    """
    if spread not in SPREADS:
        raise unknown("spread", spread, SPREADS)
    if xscale not in AXIS_SCALES:
        raise unknown("axis scale", xscale, AXIS_SCALES)
    when, y = np.asarray(t, dtype=float), np.asarray(values, dtype=float)
    y = y[..., None] if y.ndim == 2 else y  # (T, n, k)
    if y.ndim != 3 or len(y) != len(when):
        raise InputError(
            f"Projections over {len(when)} times have shape (times, tokens) or (times, tokens, directions), "
            f"not {np.shape(values)}."
        )
    if names is not None and len(names) != y.shape[2]:
        raise InputError(f"There are {y.shape[2]} directions but {len(names)} names; give one name per direction.")
    labels = np.zeros(y.shape[1:], dtype=int) if groups is None else np.asarray(groups)
    labels = np.broadcast_to(labels[:, None] if labels.ndim == 1 else labels, y.shape[1:])  # (n, k)
    up = np.nan_to_num(y[-1].mean(axis=0)) >= 0
    rows = [np.flatnonzero(up), np.flatnonzero(~up)] if split else [np.arange(y.shape[2])]
    figure, axes = panels(ax, len(rows), 3.4, 0.4 if split else 0.62, 0.3, columns=1, size=size)
    colours = list(cycle(y.shape[2]))
    for panel, row in zip(axes, rows):
        for k in row.tolist():
            name = names[k] if names is not None else ""
            for group in np.unique(labels[:, k]):
                _mean_and_spread(panel, when, y[:, labels[:, k] == group, k], spread, colours[k], name)
                name = ""  # once in the legend
        for level in [c for c in levels if not split or (c >= 0) == (panel is axes[0])]:
            panel.axhline(level, color=INK, lw=0.7, ls=(0, (4, 2)), zorder=1.5)
        panel.axhline(0.0, color=FAINT, lw=0.6, zorder=0)
        start = when[when > 0][0] if xscale == "log" and (when > 0).any() else when[0]
        panel.set_xscale(xscale, **({"nonpositive": "mask"} if xscale == "log" else {}))
        panel.set(ylabel=ylabel, xlim=(start, when[-1] if when[-1] > start else start + 1))
        if names is not None and len(row):
            panel.legend(loc="best", ncols=min(4, len(row)))
    axes[-1].set_xlabel("time $t$")
    return figure


def _mean_and_spread(panel: Axes, t: Floats, y: Floats, spread: str, colour: ColorType, name: str) -> None:
    """Mean over tokens of y (T, m) as a line, its spread as a shade."""
    mean = y.mean(axis=1)
    low, high = (mean - y.std(axis=1), mean + y.std(axis=1)) if spread == "std" else (y.min(axis=1), y.max(axis=1))
    panel.fill_between(t, low, high, color=colour, alpha=0.16, lw=0)
    panel.plot(t, mean, color=colour, lw=1.2, label=name)
