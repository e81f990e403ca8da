"""Pictures of a study's similarities, heads and sinks, each from its datasets alone."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from metastable.models.depth_axis import CAUTION, DASHED, by_layer, heads_from_zero, legend, some_layers
from metastable.models.study import Study
from metastable.plots import heatmap, histograms
from metastable.plots.style import FAINT, INK, PALETTE, SOFT, footnote, new_figure, one_axes, paper

TOKENS_SHOWN = 40

# --- similarity ---------------------------------------------------------------------------------------------------


def ridges(study: Study, kind: str) -> Figure:
    """Histograms of cosines over layers: Fig. 1 of the first paper."""
    data = study.similarity.sel(kind=kind)
    layers = some_layers(0, int(data.layer[-1]), study.model["depth"], 8)
    labels = [_layer_label(layer, study) for layer in layers]
    counts = data["histogram"].sel(layer=layers).fillna(0.0).values
    figure = histograms(counts, np.asarray(data.attrs["edges"]), labels=labels)
    with paper():
        title = "raw cosines" if kind == "raw" else "cosines beside the mean direction"
        figure.axes[0].set(title=title, xticks=[-1.0, -0.5, 0.0, 0.5, 1.0])
        footnote(figure, CAUTION if kind == "raw" else "The mean direction of each text's tokens is projected out.\n ")
    return figure


def _layer_label(layer: int, study: Study) -> str:
    return f"{layer} (trained)" if layer == study.model["depth"] < int(study.similarity.layer[-1]) else str(layer)


@paper()
def similarity_shares(study: Study) -> Figure:
    """Share of pairs above 0.9 and 0.99 over depth, raw and centred."""
    data = study.similarity
    figure, panel = one_axes(None, height=2.75)
    for threshold, colour in zip((0.9, 0.99), PALETTE):
        for kind, style in (("raw", "-"), ("centred", DASHED)):
            line = data["share_above"].sel(kind=kind, threshold=threshold)
            panel.plot(data.layer, line, color=colour, ls=style, label=f"above {threshold:g}, {kind}")
    panel.set(ylabel="share of pairs", ylim=(0, None))
    by_layer(panel, study)
    legend(figure)
    footnote(figure, CAUTION)
    return figure


@paper()
def cluster_counts(study: Study) -> Figure:
    """Clusters per token over depth."""
    data = study.similarity
    figure, panel = one_axes(None, height=2.75)
    for threshold, colour in zip((0.9, 0.99), PALETTE):
        for kind, style in (("raw", "-"), ("centred", DASHED)):
            line = data["cluster_share"].sel(kind=kind, threshold=threshold)
            panel.plot(data.layer, line, color=colour, ls=style, label=f"linked above {threshold:g}, {kind}")
    panel.set(ylabel="clusters per token", ylim=(0, 1.04))
    by_layer(panel, study)
    legend(figure)
    return figure


@paper()
def same_token(study: Study) -> Figure:
    """How much of the spike is one and the same token met twice."""
    data = study.similarity
    figure, panel = one_axes(None, height=2.75)
    for threshold, colour in zip((0.9, 0.99), PALETTE):
        line = data["same_token_share"].sel(kind="raw", threshold=threshold)
        panel.plot(data.layer, line, color=colour, label=f"of pairs above {threshold:g}")
    base = data["same_token_base"].sel(kind="raw")
    panel.plot(data.layer, base, color=SOFT, ls=DASHED, lw=1.0, label="of all pairs")
    panel.set(ylabel="share that is the same token", ylim=(0, 1.04))
    by_layer(panel, study)
    legend(figure)
    return figure


# --- heads --------------------------------------------------------------------------------------------------------


def correlations(study: Study, layer: int) -> Figure:
    """Correlations of attention maps at one layer, heads in the order of their groups."""
    data = study.heads.sel(layer=layer)
    group = data["group"].values
    order = np.argsort(group, kind="stable")
    names = [str(h) for h in order]
    matrix = data["correlation"].values[np.ix_(order, order)]
    figure = heatmap(matrix, rows=names, columns=names, diverging=True, low=-1, high=1, bar="correlation")
    with paper():
        panel = figure.axes[0]
        for edge in np.flatnonzero(np.diff(group[order])) + 0.5:
            panel.axhline(edge, color=INK, lw=0.9)
            panel.axvline(edge, color=INK, lw=0.9)
        panel.set(xlabel="head", ylabel="head", title=f"layer {layer}")
        panel.tick_params(axis="x", rotation=0)
    return figure


@paper()
def group_strength(study: Study) -> Figure:
    """Silhouette and stability of the groups of heads over depth."""
    data = study.heads
    figure, panel = one_axes(None, height=2.75)
    panel.axhspan(0.5, 1.0, color=FAINT, alpha=0.4, lw=0)
    panel.text(0.98, 0.51, "clear groups", ha="right", fontsize=6, color=SOFT, transform=panel.get_yaxis_transform())
    panel.plot(data.layer, data["silhouette"], color=PALETTE[0], label="silhouette")
    panel.plot(data.layer, data["stability"], color=PALETTE[1], label="found again in other texts (ARI)")
    values = data["correlation"].values
    apart = ~np.eye(values.shape[1], dtype=bool)
    if apart.any():
        panel.plot(data.layer, values[:, apart].mean(axis=1), color=PALETTE[2], label="mean correlation of two heads")
    panel.set(ylim=(-0.1, 1.05))
    by_layer(panel, study)
    legend(figure)
    return figure


def activations(study: Study, layer: int) -> Figure:
    """Attention that each token of the first text receives from each head: Fig. 2 of the first paper, left."""
    data = study.heads.sel(layer=layer)
    shown = min(TOKENS_SHOWN, data.sizes["token"])
    labels = [plain_word(word) for word in data["word"].values[:shown]]
    values = data["received"].values[:, :shown]
    figure = new_figure(7.0, 0.9 + 0.16 * len(values) + 0.06 * max(map(len, labels)))
    with paper():
        panel = figure.add_subplot()
        heatmap(
            values,
            columns=labels,
            rows=[str(h) for h in range(len(values))],
            low=0.0,
            bar="attention",
            ylabel="head",
            title=f"layer {layer}",
            ax=panel,
        )
        panel.set_aspect("auto")
        panel.tick_params(axis="x", labelsize=6.5)
        more = data.sizes["token"] - shown
        footnote(figure, f"The first {shown} tokens; {more} more are not shown." if more else "")
    return figure


def plain_word(word: Any) -> str:
    """A token as a label: no dollars (they start formulas), no line breaks, not too long."""
    text = " ".join(str(word).split()).replace("$", r"\$") or "␣"
    text = "".join(c if c.isprintable() and ord(c) < 0x2500 else "?" for c in text)
    return text if len(text) <= 12 else text[:11] + "…"


# --- sinks --------------------------------------------------------------------------------------------------------


def sink_map(study: Study) -> Figure:
    """Attention on the first token by layer and head."""
    mass = study.sinks["mass"].sel(kind="first").values  # (layers, heads)
    figure = heatmap(mass, xlabel="head", ylabel="layer", low=0.0, bar="attention on the first token")
    return heads_from_zero(figure, mass.shape[1])


@paper()
def sink_lines(study: Study, kind: str) -> Figure:
    """One class of tokens over depth: its strongest head, all heads, and what evenly spread attention would give."""
    data = study.sinks.sel(kind=kind)
    mass = data["mass"].values
    figure, panel = one_axes(None, height=2.75)
    panel.plot(data.layer, mass.max(axis=1), color=PALETTE[0], label="strongest head")
    panel.plot(data.layer, mass.mean(axis=1), color=PALETTE[1], label="mean of heads")
    panel.plot(data.layer, data["position"], color=INK, lw=0.9, ls=DASHED, label="even over visible tokens")
    if not np.allclose(data["position"], float(data["uniform"]), rtol=1e-3):
        panel.axhline(float(data["uniform"]), color=SOFT, lw=0.9, ls=":", label="share of the text")
    title = {"first": "first token", "separator": "separators", "punctuation": "punctuation"}[kind]
    panel.set(ylabel="attention mass", ylim=(0, None), title=title)
    by_layer(panel, study)
    legend(figure)
    return figure
