"""Pictures of a sweep's table: heatmaps, lines with bands, small multiples. Tables in, Figure out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from metastable.errors import InputError, unknown
from metastable.plots.phase import phase_diagram
from metastable.plots.series import series
from metastable.plots.style import COLUMN, Size, captioned, footnote, panels, paper

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

_MOST_PANELS, _MOST_LINES = 12, 8
_INSIDE = 4  # lines whose legend finds a place in its panel
_LONGEST = 24  # letters of a value over a panel or in the legend


@dataclass(frozen=True)
class SweepChoices:
    """What a picture of a sweep shows: parameters by name; None where the picture chooses."""

    x: str | None = None
    y: str | None = None
    value: str | None = None
    by: str | None = None
    panels: str | None = None
    log: bool | None = None
    size: Size | None = None
    ax: "Axes | Sequence[Axes] | None" = None


Means = Callable[[list[str]], "pandas.DataFrame"]
Drawn = tuple[Figure, list[str | None], str]  # with the parameters shown, and which time it is where time is no axis


def plot_sweep(
    means: Means,
    parameters: Sequence[str],
    observed: Sequence[str],
    kind: str = "heatmap",
    fixed: Sequence[str] = (),
    **options: Any,
) -> Figure:
    """Draw a named picture of a sweep.

    Parameters
    ----------
    means
        A function of names of parameters (and ``time``) that gives a table of means over everything else, with columns
        NAME, NAME_low, NAME_high for each observable.
    parameters, observed
        The names there are.
    kind
        A name in `SWEEP_PLOTS`.
    fixed
        What all runs have in common, a few letters each, for the caption: "n = 16".
    **options
        ``x``, ``y``, ``value``, ``by`` (lines), ``panels`` (small multiples), ``log`` (horizontal axis), ``size``
        ("column", "page", "slide", inches), ``ax`` (axes of your own, one for each panel).

    Examples
    --------
    >>> import pandas
    >>> rows = [(b, t, b * t) for b in (1.0, 2.0) for t in (0.0, 1.0, 2.0)]
    >>> table = pandas.DataFrame(rows, columns=["beta", "time", "clusters"])
    >>> table["clusters_low"] = table["clusters_high"] = table["clusters"]
    >>> figure = plot_sweep(lambda by: table, ["beta"], ["clusters"], "lines", x="time", by="beta")
    >>> len(figure.axes[0].lines)
    2
    """
    if kind not in SWEEP_PLOTS:
        raise unknown("kind of picture of a sweep", kind, SWEEP_PLOTS)
    names = [field.name for field in fields(SweepChoices)]
    for given in options:
        if given not in names:
            raise unknown("option of a picture of a sweep", given, names)
    choices = SweepChoices(**options)
    known = [*(name for name in parameters if name != "seed"), "seed", "time"]
    for name in (choices.x, choices.y, choices.by, choices.panels):
        if name is not None and name not in known:
            raise unknown("parameter of the sweep", name, known)
    if choices.value is not None and choices.value not in observed:
        raise unknown("observable of the sweep", choices.value, observed)
    value = choices.value or observed[0]
    figure, shown, note = SWEEP_PLOTS[kind][1](means, known, value, choices)
    over = [name for name in known if name not in shown and name != "time"]
    interval = " with its 95% interval" if kind == "lines" else ""
    note = ", ".join(part for part in (note, f"mean over {', '.join(over)}{interval}" if over else "") if part)
    footnote(figure, note, choices.ax)
    axes = " and ".join(name for name in shown if name is not None)
    common = f": {', '.join(fixed)}" if fixed else ""
    said = f". {note[0].upper()}{note[1:]}" if note else ""
    return captioned(figure, f"{value.replace('_', ' ').capitalize()} over {axes}{common}{said}.")


def _heatmap(means: Means, known: list[str], value: str, choices: SweepChoices) -> Drawn:
    free = [name for name in known if name not in ("seed", choices.x, choices.y, choices.panels)]
    x = choices.x or free.pop(0)
    y = choices.y or ("time" if x != "time" else next((name for name in free if name != x), "seed"))
    groups, times = _grouped(means, [x, y, choices.panels], known)
    ends = float(np.nanmin([g[value].min() for _, g in groups])), float(np.nanmax([g[value].max() for _, g in groups]))
    with paper():
        figure, axes = _room(choices, len(groups), 3.4 if len(groups) == 1 else 2.6, 0.72, 0.25)
        for (title, table), ax in zip(groups, axes):
            grid = table.pivot_table(index=y, columns=x, values=value, sort=True)
            across, upright = (_numbers(name, axis) for name, axis in ((x, grid.columns), (y, grid.index)))
            phase_diagram(
                across, upright, grid.to_numpy(), xlabel=_words(x), ylabel=_words(y), bar=_words(value),
                xscale="log" if choices.log else "linear", low=ends[0], high=ends[1], title=title, ax=ax,
            )  # fmt: skip
    return figure, [x, y, choices.panels], times


def _lines(means: Means, known: list[str], value: str, choices: SweepChoices) -> Drawn:
    taken = ("seed", choices.by, choices.panels)
    x = choices.x or ("time" if choices.by not in (None, "time") else next(n for n in known if n not in taken))
    groups, times = _grouped(means, [x, choices.by, choices.panels], known)
    with paper():
        figure, axes = _room(choices, len(groups), COLUMN if len(groups) == 1 else 2.4, 0.7, 0.2)
        for (title, table), ax in zip(groups, axes):
            place = _numbers(x, sorted(table[x].unique()))
            lines, bands = {}, {}
            for name, part in _split(table, choices.by, _MOST_LINES):
                part = part.set_index(x).reindex(sorted(table[x].unique()))
                lines[name] = part[value].to_numpy(float)
                bands[name] = (part[f"{value}_low"].to_numpy(float), part[f"{value}_high"].to_numpy(float))
            series(
                place, lines, band=bands, xlabel=_words(x), ylabel=_words(value), title=title, marks=len(place) < 25,
                xscale="log" if choices.log else "linear", ax=ax,
            )  # fmt: skip
        low, high = min(ax.get_ylim()[0] for ax in axes), max(ax.get_ylim()[1] for ax in axes)
        for ax in axes:
            ax.set_ylim(low, high)
        if choices.ax is None:
            _one_legend(figure, axes, choices.size is not None)
    return figure, [x, choices.by, choices.panels], times


def _one_legend(figure: Figure, axes: "list[Axes]", sized: bool) -> None:
    """One legend above all panels where each would have the same, or one too long to find a free place."""
    found = dict(pair for ax in axes for pair in zip(*reversed(ax.get_legend_handles_labels())))
    if len(found) < 2 or (len(axes) == 1 and len(found) <= _INSIDE):
        return
    for ax in axes:
        if (legend := ax.get_legend()) is not None:
            legend.remove()
    wide, tall = (float(inches) for inches in figure.get_size_inches())
    columns = max(1, min(len(found), int(wide / (0.45 + 0.06 * max(len(name) for name in found)))))
    figure.legend(list(found.values()), list(found), loc="outside upper center", ncols=columns)
    if not sized:
        figure.set_size_inches(wide, tall + 0.1 + 0.19 * -(-len(found) // columns))


# kind -> (what it shows, how it is drawn)
SWEEP_PLOTS: dict[str, tuple[str, Callable[[Means, list[str], str, SweepChoices], Drawn]]] = {
    "heatmap": ("an observable over two parameters, or a parameter and time", _heatmap),
    "lines": ("an observable over one parameter or time, with 95% bands", _lines),
}


def _grouped(means: Means, shown: list[str | None], known: list[str]) -> tuple[list[tuple[str, Any]], str]:
    """A table for each panel with its title, and which time is shown when time is no axis: the last."""
    by = [name for name in shown if name is not None]
    table = means([*by, *(["time"] if "time" not in by else [])])
    note = ""
    if "time" not in by:
        last = table["time"].max()
        table, note = table[table["time"] == last], f"at t = {last:g}"
    return list(_split(table, shown[-1], _MOST_PANELS)), note


def _split(table: Any, name: str | None, most: int) -> list[tuple[str, Any]]:
    if name is None:
        return [("", table)]
    values = sorted(table[name].unique())
    if len(values) > most:
        raise InputError(f"{name} has {len(values)} values; a picture shows at most {most} side by side.")
    named = [_short(v, k) if isinstance(v, str) else format(v, "g") for k, v in enumerate(values, 1)]
    return [(f"{_words(name)} = {said}", table[table[name] == v]) for said, v in zip(named, values)]


def _short(text: str, number: int) -> str:
    """A name that fits over a panel; long ones (matrices) are cut, and numbered, so that they stay apart."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 8]}... ({number})"


def _numbers(name: str, values: Any) -> np.ndarray:
    found = np.asarray(values)
    if found.dtype.kind not in "iuf":
        raise InputError(f"{name} has names for values; use it for panels or lines (--panels {name}, --by {name}).")
    return found.astype(float)


def _room(choices: SweepChoices, count: int, width: float, ratio: float, extra: float) -> "tuple[Figure, list[Axes]]":
    columns = None if choices.size is not None else 1 if count == 1 else 2 if count in (2, 4) else 3
    return panels(choices.ax, count, width, ratio, extra, columns, choices.size)


def _words(name: str) -> str:
    return {"beta": r"$\beta$", "time": "time $t$", "n": "$n$", "d": "$d$"}.get(name, name.replace("_", " "))
