"""Statistics over depth of a model, of its controls, or of several models: one line each, seeds as bands."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metastable.models.depth_axis import DASHED, by_layer, by_state, legend
from metastable.models.study_record import Study
from metastable.models.token_shapes import LINKED
from metastable.plots.style import COLUMN, INK, PALETTE, SOFT, new_figure, paper

if TYPE_CHECKING:
    import xarray

SHORT = {"init": "fresh weights", "shuffle": "shuffled weights", "tokens": "random tokens"}
Values = Callable[["Source"], "xarray.DataArray | None"]


@dataclass(frozen=True, eq=False)
class Source:
    """One line of a picture: a model, or a control of it, whose datasets have an axis "seed".

    ``heads`` and ``sinks`` are None where the model shows no attention maps; ``depth`` is the number of its trained
    layers, and ``control`` the control's name, empty for the model itself.
    """

    label: str
    similarity: "xarray.Dataset"
    heads: "xarray.Dataset | None"
    sinks: "xarray.Dataset | None"
    depth: int
    control: str = ""


def sources(study: Study, label: str = "") -> list[Source]:
    """A study's model, and each of its controls."""
    depth, beside = study.model["depth"], study.controls
    found = [Source(label or "trained", study.similarity, study.heads, study.sinks, depth)]
    if beside is None or beside.similarity is None:
        return found
    for name in map(str, beside.similarity.control.values):
        tokens = beside.similarity.sel(control=name)
        heads = None if beside.heads is None else beside.heads.sel(control=name)
        sinks = None if beside.sinks is None else beside.sinks.sel(control=name)
        words = SHORT.get(name, name)
        found.append(Source(f"{label} ({words})" if label else words, tokens, heads, sinks, depth, name))
    return found


def band(values: "xarray.DataArray") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, least and largest over seeds; three times the same without seeds."""
    if "seed" not in values.dims:
        return values.values, values.values, values.values
    return values.mean("seed").values, values.min("seed").values, values.max("seed").values


# --- pictures -----------------------------------------------------------------------------------------------------


@paper()
def similarity_curves(shown: Sequence[Source]) -> Figure:
    """Mean cosine, spike, and clusters over depth: raw on the left, centred on the right."""
    rows: list[tuple[str, str, dict[str, Any]]] = [
        ("mean cosine", "mean", {}),
        ("pairs above 0.99", "share_above", {"threshold": 0.99}),
        ("tokens in the\nlargest cluster", "largest", {"threshold": LINKED}),
        ("tokens in clusters of\ndifferent tokens", "mixed_share", {"threshold": LINKED}),
    ]
    figure = new_figure(COLUMN, 5.6)
    grid = figure.subplots(len(rows), 2, sharex=True, sharey="row", squeeze=False)
    for panels, (words, name, where) in zip(grid, rows):
        for panel, kind in zip(panels, ("raw", "centred")):
            _draw(panel, shown, lambda s, n=name, w=where, k=kind: s.similarity[n].sel(kind=k, **w))  # type: ignore[misc]
            _across(panel, shown, by_state, name == "mean")
            panel.set_xlabel(panel.get_xlabel() if name == rows[-1][1] else "")
            panel.set_title(kind if name == "mean" else "", pad=10)
        panels[0].set_ylabel(words)
        panels[0].set_ylim(None if name == "mean" else (-0.03, 1.03))
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
        _draw(panel, shown, lambda s, n=name: None if s.heads is None else s.heads[n])  # type: ignore[misc]
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


@paper()
def sink_curves(shown: Sequence[Source]) -> Figure:
    """Attention on the first token: the strongest head of each layer, and the mean of its heads."""
    figure = new_figure(COLUMN, 3.6)
    panels = figure.subplots(2, 1, sharex=True)
    for panel, how, words in zip(panels, ("max", "mean"), ("strongest head", "mean of heads")):
        _draw(panel, shown, lambda s, h=how: _first(s, h))  # type: ignore[misc]
        for k, source in enumerate(shown):
            if source.sinks is not None and not source.control:
                even = source.sinks["position"].sel(kind="first")
                at = _places(source, even.layer.values - 1, shown)
                panel.plot(at, even.values, color=colour(k), lw=0.9, ls=":", label=_even(shown, source))
        panel.set(ylabel=f"attention,\n{words}", ylim=(0, None))
        _across(panel, shown, by_layer, how == "max")
    panels[0].set_xlabel("")
    legend(figure)
    return figure


def _first(source: Source, how: str) -> "xarray.DataArray | None":
    if source.sinks is None:
        return None
    mass = source.sinks["mass"].sel(kind="first")
    return mass.max("head") if how == "max" else mass.mean("head")


def _even(shown: Sequence[Source], source: Source) -> str:
    return "evenly spread attention" if source is shown[0] else ""


# --- how a line is drawn ------------------------------------------------------------------------------------------


def _draw(panel: Axes, shown: Sequence[Source], values: Values) -> None:
    """One line for each source that has the values, with a band from the least to the largest seed."""
    for k, source in enumerate(shown):
        found = values(source)
        if found is None:
            continue
        first = 0 if len(found.layer) == len(source.similarity.layer) else 1  # states, or maps
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
        panel.set_xlabel("share of the trained depth")
        panel.grid(True, axis="y")


def colour(k: int) -> str:
    """The colour of line number k."""
    return PALETTE[k % len(PALETTE)]
