"""Pictures of several studies drawn together."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from metastable.models.comparison import Side
from metastable.models.curves import band, colour, group_curves, rank_curves, similarity_curves, sink_curves
from metastable.models.depth_axis import legend
from metastable.models.ladder_figures import SHORT, bars
from metastable.models.parts_alone import WAYS, effects
from metastable.models.study_figures import Picture
from metastable.models.token_distances import DISTANCES, over_texts
from metastable.plots import histograms
from metastable.plots.style import COLUMN, INK, new_figure, paper


def every_picture(shown: Sequence[Side]) -> dict[str, Picture]:
    """The pictures of a comparison by name."""
    lines = [side.source for side in shown]
    found = {
        "similarity": Picture(
            lambda: similarity_curves(lines),
            "Cosines and clusters (tokens linked above 0.9) over depth, raw and centred; bands: seeds of a control.",
        )
    }
    for kind in ("raw", "centred"):
        found[f"cosines-{kind}"] = Picture(
            lambda k=kind: _ridges(shown, k),  # type: ignore[misc]
            f"Cosines of all pairs after the last trained layer, {kind}; each row is scaled to its peak; bands: seeds "
            "of a control.",
        )
    if any(line.heads is not None for line in lines):
        found["groups"] = Picture(
            lambda: group_curves([line for line in lines if line.heads is not None]),
            "How clear the groups of heads are, and how far other texts show the same ones; dots: layers with groups.",
        )
        found["sinks"] = Picture(
            lambda: sink_curves([line for line in lines if line.sinks is not None]),
            "Attention on the first token; dotted: spread evenly over the tokens that the mask leaves visible.",
        )
    if sum(line.ranks is not None for line in lines) > 1:
        found["ranks"] = Picture(
            lambda: rank_curves([line for line in lines if line.ranks is not None]),
            "Effective rank of the attention maps on a few inputs; dotted: spread evenly over the visible tokens.",
        )
    trained = [side for side in shown if not side.source.control]
    if len(trained) < 2:  # weights and ladder of one model alone are on its own page
        return found
    if any(side.study.spectra is not None for side in trained):
        found["spectra"] = Picture(
            lambda: _spectra(trained),
            "Leading eigenvalues of O V and effective beta, a dot for each head; bars: medians; filled: good triples.",
        )
    if any(side.study.ladder is not None for side in trained):
        found["ladder"] = Picture(
            lambda: _ladder(trained),
            "Distance of rungs and baselines from each model, averaged over states and texts; whiskers: texts.",
        )
        found["parts"] = Picture(
            lambda: _parts(trained), "What each part does alone (Gram distance); whiskers: spread over texts."
        )
    return found


def _ridges(shown: Sequence[Side], kind: str) -> Figure:
    """Histograms at the trained depth, one row for each side."""
    edges = np.asarray(shown[0].study.similarity.attrs["edges"])
    each = [s.source.similarity["histogram"].sel(kind=kind, layer=s.study.trained) for s in shown]
    middle, low, high = (np.nan_to_num(rows) for rows in zip(*map(band, each)))  # (side, bin)
    labels = [side.label.replace(" (", "\n(") for side in shown]
    figure = histograms(middle, edges, band=(low, high), labels=labels)
    with paper():  # the rows' names take a third of the width
        title = "raw cosines" if kind == "raw" else "cosines beside\nthe mean direction"
        figure.axes[0].set(title=title, xticks=[-1.0, -0.5, 0.0, 0.5, 1.0])
    for name in figure.axes[0].get_yticklabels():
        name.set_verticalalignment("bottom")
    return figure


@paper()
def _spectra(shown: Sequence[Side]) -> Figure:
    figure = new_figure(COLUMN, 1.0 + 0.7 * len(shown))
    panels = figure.subplots(1, 2, sharey=True)
    rng = np.random.default_rng(0)  # where dots are within a row
    for row, side in enumerate(shown):
        data = side.study.spectra
        if data is None:
            continue
        good = data["good"].values.ravel() == 1
        for panel, values in zip(panels, (np.abs(data["ov"].values[..., 0]), data["beta_model"].values)):
            flat, jitter = values.ravel(), row + rng.uniform(-0.25, 0.25, values.size)
            style: dict[str, Any] = {"s": 7, "linewidths": 0.5, "edgecolors": colour(row)}
            panel.scatter(flat[~good], jitter[~good], facecolors="none", **style)
            panel.scatter(flat[good], jitter[good], facecolors=colour(row), **style)
            panel.plot([np.median(flat)] * 2, [row - 0.36, row + 0.36], color=INK, lw=1.4)
    panels[0].set_yticks(range(len(shown)), [side.label for side in shown])
    panels[0].set_ylim(len(shown) - 0.4, -0.6)
    panels[0].set_xlabel("leading eigenvalue, modulus")
    panels[1].set_xlabel(r"effective $\beta$")
    for panel in panels:
        panel.set_xscale("log")
        panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=7))
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.xaxis.set_minor_formatter(NullFormatter())  # within one decade its labels would lie on each other
        panel.grid(True, axis="x")
    return figure


@paper()
def _ladder(shown: Sequence[Side]) -> Figure:
    first = next(side.study for side in shown if side.study.ladder is not None)
    assert first.ladder is not None
    assert first.baselines is not None
    rungs, words = first.ladder.rung.values[:-1], first.baselines.baseline.values
    names = [f"rung {k}" for k in rungs] + [str(b) for b in words]
    figure = new_figure(COLUMN, 1.1 + 0.2 * len(names) * (1 + 0.6 * len(shown)))
    panels = figure.subplots(1, 2, sharey=True)
    rows, height = np.arange(len(names)), 0.8 / len(shown)
    for k, side in enumerate(shown):
        climbed, beside = side.study.ladder, side.study.baselines
        if climbed is None or beside is None:
            continue
        for panel, name in zip(panels, DISTANCES):
            pairs = [over_texts(climbed[name].sel(rung=r)) for r in rungs]
            pairs += [over_texts(beside[name].sel(baseline=b)) for b in words]
            means, spreads = ([float(pair[j]) for pair in pairs] for j in (0, 1))
            at = rows + (k - (len(shown) - 1) / 2) * height
            bars(panel, at, means, spreads, [colour(k)] * len(names), height, side.label)
            panel.set_xlabel(SHORT[name])
    panels[0].set_yticks(rows, names)
    panels[0].invert_yaxis()
    legend(figure)
    return figure


@paper()
def _parts(shown: Sequence[Side]) -> Figure:
    found = {side.label: effects(side.study.parts) for side in shown if side.study.parts is not None}
    names = list(dict.fromkeys(str(part) for data in found.values() for part in data.part.values))
    figure = new_figure(COLUMN, 1.1 + 0.2 * len(names) * (1 + 0.6 * len(shown)))
    panels = figure.subplots(1, 2, sharey=True)
    height = 0.8 / len(shown)
    for k, side in enumerate(shown):
        if side.label not in found:
            continue
        data = found[side.label]
        rows = np.array([names.index(str(part)) for part in data.part.values], dtype=float)
        for panel, way in zip(panels, WAYS):
            mean, spread = over_texts(data["gram_distance"].sel(way=way))
            at = rows + (k - (len(shown) - 1) / 2) * height
            bars(panel, at, mean.values, spread.values, [colour(k)] * len(rows), height, side.label)
            panel.axvline(0, color=INK, lw=0.6)
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    panels[0].set(title="removed", xlabel="distance of the network\nwithout it")
    panels[1].set(title="added", xlabel="how much nearer\nthe bare system comes")
    legend(figure)
    return figure
