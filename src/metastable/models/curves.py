"""Statistics over depth of a model, of its controls, or of several models: one line each, seeds as bands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metastable.models.depth_axis import DASHED, by_layer, by_state, legend
from metastable.models.study_record import Study
from metastable.models.token_shapes import LINKED, SPIKE
from metastable.plots.style import COLUMN, INK, PALETTE, SOFT, new_figure, paper

if TYPE_CHECKING:
    import xarray

SHORT = {"init": "fresh weights", "shuffle": "shuffled weights", "tokens": "random tokens"}
Values = Sequence["xarray.DataArray | None"]  # of one statistic, in the order of the sources


@dataclass(frozen=True, eq=False)
class Source:
    """One line of a picture: a model, or a control of it, whose datasets have an axis "seed".

    ``heads``, ``sinks`` and ``ranks`` are None where the model shows no attention maps; ``depth`` is the number of its
    trained layers, and ``control`` the control's name, empty for the model itself.
    """

    label: str
    similarity: "xarray.Dataset"
    heads: "xarray.Dataset | None"
    sinks: "xarray.Dataset | None"
    ranks: "xarray.Dataset | None"
    depth: int
    control: str = ""


def sources(study: Study, label: str = "") -> list[Source]:
    """A study's model, and each of its controls."""
    depth, beside = study.model["depth"], study.controls
    found = [Source(label or "trained", study.similarity, study.heads, study.sinks, study.ranks, depth)]
    if beside is None or beside.similarity is None:
        return found
    for name in map(str, beside.similarity.control.values):
        tokens, maps = beside.similarity.sel(control=name), (beside.heads, beside.sinks, beside.ranks)
        heads, sinks, ranks = (None if data is None else data.sel(control=name) for data in maps)
        words = SHORT.get(name, name)
        found.append(Source(f"{label} ({words})" if label else words, tokens, heads, sinks, ranks, depth, name))
    return found


def band(values: "xarray.DataArray") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, least and largest over seeds; three times the same without seeds."""
    if "seed" not in values.dims:
        return values.values, values.values, values.values
    return values.mean("seed").values, values.min("seed").values, values.max("seed").values


# --- pictures -----------------------------------------------------------------------------------------------------

Row = tuple[str, str, dict[str, float]]  # words, a variable of the similarities, and where in it
SIMILARITY: tuple[Row, ...] = (
    ("mean cosine", "mean", {}),
    ("pairs above 0.99", "share_above", {"threshold": SPIKE}),
    ("tokens in the\nlargest cluster", "largest", {"threshold": LINKED}),
    ("tokens in clusters of\ndifferent tokens", "mixed_share", {"threshold": LINKED}),
)
_LIMITS: dict[str, Any] = {"mean": None, "mixed_clusters": (0.0, None)}  # of their axes; all others are shares
LEAST = 1e-4  # share of pairs at the lower end of logarithmic axes


def at_thresholds(words: str, name: str) -> tuple[Row, ...]:
    """A row for each of the two thresholds."""
    return tuple((f"{words} {least:g}", name, {"threshold": least}) for least in (LINKED, SPIKE))


@paper()
def similarity_curves(shown: Sequence[Source], rows: Sequence[Row] = SIMILARITY, log: bool = False) -> Figure:
    """Similarities over depth, a row of panels for each: raw on the left, centred on the right."""
    figure = new_figure(COLUMN, 0.8 + 1.2 * len(rows))
    grid = figure.subplots(len(rows), 2, sharex=True, sharey="row", squeeze=False)
    for k, (panels, (words, name, where)) in enumerate(zip(grid, rows)):
        for panel, kind in zip(panels, ("raw", "centred")):
            _draw(panel, shown, [s.similarity[name].sel({"kind": kind, **where}) for s in shown])
            _across(panel, shown, by_state, k == 0)
            panel.set_xlabel(panel.get_xlabel() if k == len(rows) - 1 else "")
            panel.set_title(kind if k == 0 else "", pad=10)
        panels[0].set_ylabel(words)
        panels[0].set_yscale("log" if log else "linear")
        panels[0].set_ylim((LEAST, 1.5) if log else _LIMITS.get(name, (-0.03, 1.03)))
    legend(figure)
    return figure


@paper()
def group_curves(shown: Sequence[Source]) -> Figure:
    """How clear the groups of heads are, and whether other texts show the same; dots where both are enough."""
    figure = new_figure(COLUMN, 3.6)
    panels = figure.subplots(2, 1, sharex=True)
    for panel, name, words in zip(
        panels, ("silhouette", "stability"), ("silhouette", "found again in\nother texts (ARI)")
    ):
        _draw(panel, shown, [None if s.heads is None else s.heads[name] for s in shown])
        for k, source in enumerate(shown):
            if source.heads is not None and not source.control:
                there = source.heads["has_groups"].values.astype(bool)
                at = _places(source, source.heads.layer.values - 1, shown)
                panel.plot(at[there], source.heads[name].values[there], "o", color=colour(k), ms=4)
        least = next(s.heads.attrs[f"least_{name}"] for s in shown if s.heads is not None)
        panel.axhline(least, color=INK, lw=0.8, ls=DASHED, label=f"least that counts: {least:g}")
        panel.set_ylabel(words)
        _across(panel, shown, by_layer, name == "silhouette")
    own = [s for s in shown if not s.control and s.heads is not None]
    if len(own) == 1 and own[0].heads is not None:
        at = _places(own[0], own[0].heads.layer.values - 1, shown)
        panels[0].plot(at, own[0].heads["null_silhouette"], color=SOFT, lw=1.0, ls=":", label="shuffled maps, at most")
    panels[0].set_xlabel("")
    legend(figure)
    return figure


def sink_curves(shown: Sequence[Source], kind: str = "first") -> Figure:
    """Attention on a class of tokens: the strongest head of each layer, and the mean of its heads."""
    found = [None if s.sinks is None else s.sinks.sel(kind=kind) for s in shown]
    mass, even = ([None if one is None else one[name] for one in found] for name in ("mass", "position"))
    return _of_heads(shown, mass, even, "attention", (("strongest head", "max"), ("mean of heads", "mean")))


def rank_curves(shown: Sequence[Source]) -> Figure:
    """Effective rank of the attention maps: the mean of the heads of each layer, and the head with the lowest."""
    found = [None if s.ranks is None else s.ranks.mean("text") for s in shown]
    rank, even = ([None if one is None else one[name] for one in found] for name in ("effective_rank", "even"))
    return _of_heads(shown, rank, even, "effective rank", (("mean of heads", "mean"), ("lowest head", "min")))


@paper()
def _of_heads(
    shown: Sequence[Source],
    values: Values,
    even: Values,
    what: str,
    reductions: Sequence[tuple[str, str]],
) -> Figure:
    """A panel for each way to reduce the heads of a layer; dotted: what attention gives that is spread evenly."""
    figure = new_figure(COLUMN, 3.6)
    panels = figure.subplots(len(reductions), 1, sharex=True)
    for panel, (words, how) in zip(panels, reductions):
        _draw(panel, shown, [None if data is None else getattr(data, how)("head") for data in values])
        drawn: list[np.ndarray] = []
        for k, (source, line) in enumerate(zip(shown, even)):
            if line is None:
                continue
            level, at = band(line)[0], _places(source, line.layer.values - 1, shown)
            if not any(len(level) == len(other) and np.allclose(level, other) for other in drawn):  # other texts
                label = "" if drawn else "evenly spread attention"
                panel.plot(at, level, color=colour(k), lw=0.9, ls=":", label=label)
                drawn.append(level)
        panel.set(ylabel=f"{what},\n{words}", ylim=(0, None))
        _across(panel, shown, by_layer, panel is panels[0])
    panels[0].set_xlabel("")
    legend(figure)
    return figure


# --- how a line is drawn ------------------------------------------------------------------------------------------


def _draw(panel: Axes, shown: Sequence[Source], values: Values) -> None:
    """One line for each source that has values, with a band from the least to the largest seed."""
    for k, (source, found) in enumerate(zip(shown, values)):
        if found is None:
            continue
        first = found.layer.values[0]  # states count from 0, maps from the state 1 that the first of them makes
        across, (middle, low, high) = _places(source, found.layer.values - first, shown), band(found)
        dots: dict[str, Any] = {"marker": "o", "ms": 2.5} if len(across) == 1 else {}
        style = (0, (2, 1)) if source.control else "-"
        panel.plot(across, middle, color=colour(k), label=source.label, ls=style, **dots)
        if "seed" in found.dims:
            panel.fill_between(across, low, high, color=colour(k), alpha=0.18, lw=0)


def _places(source: Source, at: np.ndarray, shown: Sequence[Source]) -> np.ndarray:
    """Where states or layers are drawn: by number, or as a share of the trained depth for models of unlike depth."""
    return at if _alike(shown) else at / source.depth


def _alike(shown: Sequence[Source]) -> bool:
    return len({source.depth for source in shown}) == 1


def _across(
    panel: Axes, shown: Sequence[Source], axis: Callable[[Axes, int, int, bool], None], named: bool = True
) -> None:
    depth, last = shown[0].depth, max(len(source.similarity.layer) - 1 for source in shown)
    if _alike(shown):
        axis(panel, depth, last, named)
    else:
        panel.set_xlabel("share of the\ntrained depth")  # two panels stand side by side
        panel.grid(True, axis="y")


def colour(k: int) -> str:
    """The colour of line number k."""
    return PALETTE[k % len(PALETTE)]
