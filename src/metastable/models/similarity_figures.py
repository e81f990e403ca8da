"""Pictures of a study's similarities, each from its dataset alone."""

import numpy as np
from matplotlib.figure import Figure

from metastable.models.depth_axis import CAUTION, DASHED, by_state, legend, some_layers
from metastable.models.study_record import Study
from metastable.plots import histograms
from metastable.plots.style import PALETTE, SOFT, footnote, one_axes, paper


def ridges(study: Study, kind: str) -> Figure:
    """Histograms of cosines over states, texts weighing the same: Fig. 1 of the first paper."""
    data = study.similarity.sel(kind=kind)
    states = some_layers(0, int(data.layer[-1]), study.model["depth"], 8)
    shares = data["histogram"].sel(layer=states).fillna(0.0).values
    figure = histograms(shares, np.asarray(data.attrs["edges"]), labels=[_label(state, study) for state in states])
    with paper():
        title = "raw cosines" if kind == "raw" else "cosines beside the mean direction"
        figure.axes[0].set(title=title, xticks=[-1.0, -0.5, 0.0, 0.5, 1.0], ylabel="state (layers passed)")
        footnote(figure, CAUTION if kind == "raw" else "The mean direction of each text's tokens is projected out.\n ")
    return figure


def _label(state: int, study: Study) -> str:
    return f"{state}\ntrained" if state == study.model["depth"] < int(study.similarity.layer[-1]) else str(state)


@paper()
def similarity_shares(study: Study) -> Figure:
    """Share of pairs above 0.9 and 0.99 over depth, raw and centred."""
    figure = _by_threshold(study, "share_above", "above")
    figure.axes[0].set(ylabel="share of pairs", ylim=(0, None))
    return figure


@paper()
def cluster_counts(study: Study) -> Figure:
    """Clusters per token over depth."""
    figure = _by_threshold(study, "cluster_share", "linked above")
    figure.axes[0].set(ylabel="clusters per token", ylim=(0, 1.04))
    return figure


@paper()
def mixed_clusters(study: Study) -> Figure:
    """Clusters that hold two different tokens, mean number in a text."""
    figure = _by_threshold(study, "mixed_clusters", "linked above")
    figure.axes[0].set(ylabel="mixed clusters in a text", ylim=(0, None))
    return figure


def _by_threshold(study: Study, name: str, words: str) -> Figure:
    """One variable over states for every threshold, raw and centred."""
    data = study.similarity
    figure, panel = one_axes(None, height=2.75)
    for threshold, colour in zip(data.threshold.values, PALETTE):
        for kind, style in (("raw", "-"), ("centred", DASHED)):
            line = data[name].sel(kind=kind, threshold=threshold)
            panel.plot(data.layer, line, color=colour, ls=style, label=f"{words} {threshold:g}, {kind}")
    by_state(panel, study.model["depth"], int(data.layer[-1]))
    legend(figure)
    return figure


@paper()
def same_token(study: Study) -> Figure:
    """How much of the spike is one and the same token met twice."""
    data = study.similarity
    figure, panel = one_axes(None, height=2.75)
    for threshold, colour in zip(data.threshold.values, PALETTE):
        line = data["same_token_share"].sel(kind="raw", threshold=threshold)
        panel.plot(data.layer, line, color=colour, label=f"of pairs above {threshold:g}")
    base = data["same_token_base"].sel(kind="raw")
    panel.plot(data.layer, base, color=SOFT, ls=DASHED, lw=1.0, label="of all pairs")
    panel.set(ylabel="share that is the same token", ylim=(0, 1.04))
    by_state(panel, study.model["depth"], int(data.layer[-1]))
    legend(figure)
    return figure
