"""Pictures of a study's ladder: rungs beside baselines, and what each part does alone."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from metastable.models.depth_axis import DASHED, by_state, legend
from metastable.models.parts_alone import WAYS, effects
from metastable.models.study_record import Study
from metastable.models.token_distances import DISTANCES, over_texts
from metastable.plots.style import COLUMN, INK, PALETTE, RED, SOFT, new_figure, one_axes, paper

if TYPE_CHECKING:
    import xarray

LABELS = {
    "wasserstein": "Wasserstein distance of the cosines",
    "rand_index": "agreement of clusters (ARI)",
    "gram_distance": "distance of the Gram matrices",
    "mean_cosine": "mean cosine of two tokens",
}
SHORT = {"gram_distance": "Gram distance", "wasserstein": "Wasserstein"}
_BASELINE = {"frozen tokens": DASHED, "one point": (0, (1, 1)), "best constant": (0, (5, 1, 1, 1))}


def climbed(study: Study) -> "tuple[xarray.Dataset, xarray.Dataset]":
    """The rungs and the baselines of a study that has them."""
    assert study.ladder is not None, "this study has no ladder"
    assert study.baselines is not None, "this study has no ladder"
    return study.ladder, study.baselines


@paper()
def distances(study: Study, name: str) -> Figure:
    """One measure of every rung and baseline over depth: the mean over texts, with their spread."""
    rungs, beside = climbed(study)
    figure, panel = one_axes(None, height=3.2)
    for k, (number, part) in enumerate(zip(rungs.rung.values, rungs["part"].values)):
        last = number == rungs.rung.values[-1]
        style: dict[str, Any] = {"color": INK, "lw": 1.0, "ls": (0, (1, 2))} if last else {"color": PALETTE[k]}
        if not (last and name == "mean_cosine"):  # it would cover the model's own line
            _line(panel, rungs[name].sel(rung=number), f"{number}: {part}", style)
    for word in beside.baseline.values:
        style = {"color": SOFT, "ls": _BASELINE.get(str(word), DASHED), "lw": 1.1}
        _line(panel, beside[name].sel(baseline=word), str(word), style)
    if name == "mean_cosine":
        _line(panel, rungs["model_mean_cosine"], "the model", {"color": RED, "lw": 1.6})
    top = {"rand_index": (-0.08, 1.08), "mean_cosine": (None, 1.04)}.get(name, (0, None))
    panel.set(ylabel=LABELS[name], ylim=top)
    by_state(panel, study.model["depth"], int(rungs.layer[-1]))
    legend(figure, columns=1)
    return figure


def _line(panel: Axes, values: "xarray.DataArray", label: str, style: dict[str, Any]) -> None:
    """The mean over texts, and a band of one standard deviation."""
    if not np.isfinite(values.values).any():
        return
    mean = values.mean("text", skipna=False)
    panel.plot(values.layer, mean, label=label, **style)
    if values.sizes["text"] > 1:
        spread = values.std("text", ddof=1, skipna=False)
        panel.fill_between(values.layer, mean - spread, mean + spread, color=style["color"], alpha=0.12, lw=0)


@paper()
def errors(study: Study) -> Figure:
    """Relative error of the rungs that live in the model's own space, and the step error of those on the sphere."""
    rungs = climbed(study)[0]
    figure, panel = one_axes(None, height=3.0)
    for k, number in enumerate(rungs.rung.values):
        lines = {
            "states against the model": (rungs["relative_error"].sel(rung=number).mean("text", skipna=False), "-"),
            "layers against their ODE": (rungs["step_error"].sel(rung=number), DASHED),
        }
        for words, (line, style) in lines.items():
            if np.isfinite(line).any():
                floor = np.maximum(line, 1e-17)
                panel.plot(rungs.layer, floor, color=PALETTE[k], ls=style, label=f"rung {number}: {words}")
    if "exact_error" in rungs:
        exact = np.maximum(rungs["exact_error"], 1e-17)
        panel.plot(rungs.layer, exact, color=INK, ls=(0, (1, 1)), label="top rung in float64, first text")
    panel.set(ylabel="relative error", yscale="log")
    by_state(panel, study.model["depth"], int(rungs.layer[-1]))
    legend(figure, columns=1)
    return figure


# --- bars ---------------------------------------------------------------------------------------------------------


@paper()
def rung_bars(study: Study) -> Figure:
    """Every rung below the exact network, and every baseline: averaged distance from the model, both distances."""
    rungs, beside = climbed(study)
    names = [f"rung {k}:\n{part}" for k, part in zip(rungs.rung.values[:-1], rungs["part"].values)]
    names += [str(b) for b in beside.baseline.values]
    figure = new_figure(COLUMN, 0.9 + 0.42 * len(names))
    panels = figure.subplots(1, 2, sharey=True)
    for panel, name in zip(panels, DISTANCES):
        pairs = [over_texts(rungs[name].sel(rung=k)) for k in rungs.rung.values[:-1]]
        pairs += [over_texts(beside[name].sel(baseline=b)) for b in beside.baseline.values]
        tints = [PALETTE[k] for k in range(len(rungs.rung) - 1)] + [SOFT] * len(beside.baseline)
        bars(panel, np.arange(len(names)), [float(m) for m, _ in pairs], [float(s) for _, s in pairs], tints)
        panel.set_xlabel(SHORT[name])
    panels[0].set_yticks(range(len(names)), names, fontsize=6.5)
    panels[0].invert_yaxis()
    return figure


@paper()
def part_bars(study: Study) -> Figure:
    """What each part does alone: taken from the exact network, and given to the bare system."""
    assert study.parts is not None, "this study has no ladder"
    found = effects(study.parts)
    names = [str(part) for part in found.part.values]
    figure = new_figure(COLUMN, 1.2 + 0.42 * len(names))
    panels = figure.subplots(1, 2, sharey=True)
    rows = np.arange(len(names))
    for panel, way in zip(panels, WAYS):
        for name, shift, tint in zip(DISTANCES, (-0.2, 0.2), PALETTE):
            mean, spread = over_texts(found[name].sel(way=way))
            bars(panel, rows + shift, mean.values, spread.values, [tint] * len(names), 0.36, SHORT[name])
        panel.axvline(0, color=INK, lw=0.6)
    panels[0].set_yticks(rows, names)
    panels[0].invert_yaxis()
    panels[0].set(title="removed", xlabel="distance of the network\nwithout it")
    panels[1].set(title="added", xlabel="how much nearer\nthe bare system comes")
    legend(figure)
    return figure


def bars(
    panel: Axes, rows: np.ndarray, means: Any, spreads: Any, tints: list[str], height: float = 0.7, label: str = ""
) -> None:
    """Horizontal bars with their spread; a bar whose tokens overflowed is a word instead."""
    means, spreads = np.asarray(means, dtype=float), np.asarray(spreads, dtype=float)
    there = np.isfinite(means)
    panel.barh(rows, np.where(there, means, 0.0), height, color=tints, label=label)
    whisker: dict[str, Any] = {"fmt": "none", "ecolor": INK, "elinewidth": 0.7, "capsize": 1.5}
    known = there & np.isfinite(spreads)
    panel.errorbar(means[known], rows[known], xerr=spreads[known], **whisker)
    for row in rows[~there]:
        panel.text(0.0, row, " diverges", va="center", fontsize=5.5, color=INK)
    panel.grid(True, axis="x")
    panel.xaxis.set_major_locator(MaxNLocator(nbins=4))
