"""Pictures of a study, each from its datasets alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from metastable.models.study import Study
from metastable.plots import eigenvalues, heatmap, histograms
from metastable.plots.style import FAINT, INK, PALETTE, RED, SOFT, footnote, new_figure, one_axes, paper

TOKENS_SHOWN = 40
CAUTION = "Raw cosines contain the direction that all tokens share\n(anisotropy); by itself it is no sign of clusters."
_DASHED = (0, (4, 2))


def some_layers(first: int, last: int, trained: int, most: int) -> list[int]:
    """At most ``most`` layers from first to last, evenly spaced, the trained depth among them.

    >>> some_layers(0, 96, 12, 5)
    [0, 12, 48, 72, 96]
    """
    even = sorted({int(v) for v in np.linspace(first, last, min(most, last - first + 1)).round()})
    if first < trained < last and trained not in even:
        inner = even[1:-1] or even[-1:]
        even[even.index(min(inner, key=lambda v: abs(v - trained)))] = trained
        even = sorted({*even, last})
    return even


# --- similarity ---------------------------------------------------------------------------------------------------


def ridges(study: Study, kind: str) -> Figure:
    """Histograms of cosines over layers: Fig. 1 of the first paper."""
    data = study.similarity.sel(kind=kind)
    layers = some_layers(0, int(data.layer[-1]), study.model["depth"], 8)
    labels = [_layer_label(layer, study) for layer in layers]
    counts = data["counts"].sel(layer=layers).values
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
        for kind, style in (("raw", "-"), ("centred", _DASHED)):
            line = data["share_above"].sel(kind=kind, threshold=threshold)
            panel.plot(data.layer, line, color=colour, ls=style, label=f"above {threshold:g}, {kind}")
    panel.set(ylabel="share of pairs", ylim=(0, None))
    _by_layer(panel, study)
    _legend(figure)
    footnote(figure, CAUTION)
    return figure


@paper()
def cluster_counts(study: Study) -> Figure:
    """Clusters per token over depth."""
    data = study.similarity
    figure, panel = one_axes(None, height=2.75)
    for threshold, colour in zip((0.9, 0.99), PALETTE):
        for kind, style in (("raw", "-"), ("centred", _DASHED)):
            line = data["cluster_share"].sel(kind=kind, threshold=threshold)
            panel.plot(data.layer, line, color=colour, ls=style, label=f"linked above {threshold:g}, {kind}")
    panel.set(ylabel="clusters per token", ylim=(0, 1.04))
    _by_layer(panel, study)
    _legend(figure)
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
    panel.plot(data.layer, base, color=SOFT, ls=_DASHED, lw=1.0, label="of all pairs")
    panel.set(ylabel="share that is the same token", ylim=(0, 1.04))
    _by_layer(panel, study)
    _legend(figure)
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
    _by_layer(panel, study)
    _legend(figure)
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
    return _heads_from_zero(figure, mass.shape[1])


@paper()
def _heads_from_zero(figure: Figure, heads: int) -> Figure:
    """A map of layers and heads, with heads counted from 0 as everywhere else."""
    shown = range(0, heads, -(-heads // 12))
    figure.axes[0].set_aspect("auto")
    figure.axes[0].set_xticks(list(shown), [str(h) for h in shown])
    return figure


@paper()
def sink_lines(study: Study, kind: str) -> Figure:
    """One class of tokens over depth: its strongest head, all heads, and what evenly spread attention would give."""
    data = study.sinks.sel(kind=kind)
    mass = data["mass"].values
    figure, panel = one_axes(None, height=2.75)
    panel.plot(data.layer, mass.max(axis=1), color=PALETTE[0], label="strongest head")
    panel.plot(data.layer, mass.mean(axis=1), color=PALETTE[1], label="mean of heads")
    panel.axhline(float(data["position"]), color=INK, lw=0.9, ls=_DASHED, label="even over visible tokens")
    if not np.isclose(float(data["position"]), float(data["uniform"]), rtol=1e-3):
        panel.axhline(float(data["uniform"]), color=SOFT, lw=0.9, ls=":", label="share of the text")
    title = {"first": "first token", "separator": "separators", "punctuation": "punctuation"}[kind]
    panel.set(ylabel="attention mass", ylim=(0, None), title=title)
    _by_layer(panel, study)
    _legend(figure)
    return figure


# --- spectra ------------------------------------------------------------------------------------------------------


def spectrum(study: Study, name: str, layer: int) -> Figure:
    """Eigenvalues of every head of one layer: Fig. 10 of the second paper (``name`` is "ov" or "value_block")."""
    values = study.spectra[name].sel(layer=layer).values  # (heads, rank)
    return eigenvalues(values, titles=[f"head {h}" for h in range(len(values))])


@paper()
def qk_spectrum(study: Study) -> Figure:
    """Eigenvalues of the symmetrised score form, one line per head."""
    values = study.spectra["qk"].values
    values = values.reshape(-1, values.shape[-1])  # (layers x heads, form)
    figure, panel = one_axes(None, height=2.75)
    fade = float(np.clip(6 / len(values), 0.12, 0.9))
    for row in values:
        panel.plot(np.arange(1, len(row) + 1), row, color=PALETTE[0], lw=0.8, alpha=fade)
    panel.axhline(0, color=INK, lw=0.5)
    panel.set(xlabel="rank", ylabel=r"eigenvalue of $\frac{1}{2}(Q^TK+K^TQ)$")
    return figure


@paper()
def temperatures(study: Study) -> Figure:
    """Effective inverse temperature of every head."""
    beta = study.spectra["beta_model"].values  # (layers, heads)
    if len(beta) > 1:
        figure = heatmap(beta, xlabel="head", ylabel="layer", low=0.0, bar=r"effective $\beta$")
        return _heads_from_zero(figure, beta.shape[1])
    figure, panel = one_axes(None, height=2.75)
    panel.bar(np.arange(beta.shape[1]), beta[0], color=PALETTE[0], width=0.7, label="at the model's token length")
    panel.plot(
        np.arange(beta.shape[1]),
        study.spectra["beta"].values[0],
        "o",
        color=PALETTE[1],
        ms=4,
        label="published definition",
    )
    panel.set(xlabel="head", ylabel=r"effective $\beta$", xticks=np.arange(beta.shape[1]))
    _legend(figure)
    return figure


# --- ladder -------------------------------------------------------------------------------------------------------

LADDER_WORDS = {
    "wasserstein": "Wasserstein distance of the similarities",
    "rand_index": "agreement of clusters (ARI)",
    "gram_distance": "distance of the Gram matrices",
}


@paper()
def climb(study: Study, name: str) -> Figure:
    """One distance from the real model by rung and layer."""
    data = study.ladder
    figure, panel = one_axes(None, height=2.75)
    for k, (number, part) in enumerate(zip(data.rung.values, data["part"].values)):
        last = number == data.rung.values[-1]
        style: dict[str, Any] = {"color": INK, "lw": 1.0, "ls": _DASHED} if last else {"color": PALETTE[k]}
        panel.plot(data.layer, data[name].sel(rung=number), label=f"{number}: {part}", **style)
    top = {"rand_index": (-0.08, 1.08)}.get(name, (0, None))
    panel.set(ylabel=LADDER_WORDS[name], ylim=top)
    _by_layer(panel, study)
    _legend(figure)
    return figure


@paper()
def mean_cosines(study: Study) -> Figure:
    """Mean cosine of two tokens: every rung, and the model."""
    data = study.ladder
    figure, panel = one_axes(None, height=2.75)
    for k, (number, part) in enumerate(zip(data.rung.values[:-1], data["part"].values)):
        panel.plot(data.layer, data["mean_cosine"].sel(rung=number), color=PALETTE[k], label=f"{number}: {part}")
    panel.plot(data.layer, data["model_mean_cosine"], color=RED, lw=1.6, label="the model")
    panel.set(ylabel="mean cosine of two tokens")
    _by_layer(panel, study)
    _legend(figure)
    return figure


@paper()
def errors(study: Study) -> Figure:
    """Relative error of the rungs that live in the model's own space, and the step error of those on the sphere."""
    data = study.ladder
    figure, panel = one_axes(None, height=2.75)
    for k, number in enumerate(data.rung.values):
        for name, style, word in (
            ("relative_error", "-", "states against the model"),
            ("step_error", _DASHED, "layers against their ODE"),
        ):
            line = data[name].sel(rung=number).values
            if np.isfinite(line).any():
                panel.plot(
                    data.layer, np.maximum(line, 1e-17), color=PALETTE[k], ls=style, label=f"rung {number}: {word}"
                )
    panel.axhline(1e-5, color=SOFT, lw=0.7, ls=":", label="1e-5: required of the top rung")
    panel.set(ylabel="relative error", yscale="log")
    _by_layer(panel, study)
    _legend(figure)
    return figure


def _by_layer(panel: Axes, study: Study) -> None:
    """The horizontal axis of everything that runs over depth."""
    from matplotlib.ticker import MaxNLocator

    panel.set_xlabel("layer")
    panel.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    panel.grid(True, axis="y")
    trained, last = study.model["depth"], panel.get_xlim()[1]
    if trained < int(study.similarity.layer[-1]) and trained < last:
        panel.axvline(trained, color=SOFT, lw=0.7, ls=":")
        where = panel.get_xaxis_transform()  # across in layers, up in shares of the panel
        panel.text(trained, 1.01, "trained", ha="center", va="bottom", fontsize=6, color=SOFT, transform=where)


def _legend(figure: Figure) -> None:
    """Above the panel: these curves leave no corner free."""
    lines, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(lines, labels, loc="outside upper center", ncols=1 if max(map(len, labels)) > 27 else 2, fontsize=6.5)


Draw = Callable[[], Figure]


def every_picture(study: Study) -> dict[str, Draw]:
    """File names and how each picture of the study is drawn."""
    trained, depth = study.model["depth"], int(study.heads.layer[-1])
    found: dict[str, Draw] = {
        "cosines-raw": lambda: ridges(study, "raw"),
        "cosines-centred": lambda: ridges(study, "centred"),
        "shares": lambda: similarity_shares(study),
        "clusters": lambda: cluster_counts(study),
        "same-token": lambda: same_token(study),
        "groups": lambda: group_strength(study),
        "sink-map": lambda: sink_map(study),
        "qk": lambda: qk_spectrum(study),
        "beta": lambda: temperatures(study),
    }
    for layer in some_layers(1, depth, trained, 3):
        found[f"correlation-{layer}"] = lambda layer=layer: correlations(study, layer)  # type: ignore[misc]
        found[f"activation-{layer}"] = lambda layer=layer: activations(study, layer)  # type: ignore[misc]
    for kind in ("first", "separator", "punctuation"):
        if float(study.sinks["uniform"].sel(kind=kind)) > 0:
            found[f"sink-{kind}"] = lambda kind=kind: sink_lines(study, kind)  # type: ignore[misc]
    layers = study.spectra.layer.values
    for layer in (int(layers[k]) for k in some_layers(0, len(layers) - 1, 0, 3)):
        for name in ("ov", "value_block"):
            found[f"{name}-{layer}"] = lambda n=name, k=layer: spectrum(study, n, k)  # type: ignore[misc]
    if study.ladder is not None:
        for name in LADDER_WORDS:
            found[f"ladder-{name}"] = lambda name=name: climb(study, name)  # type: ignore[misc]
        found["ladder-mean-cosine"] = lambda: mean_cosines(study)
        found["ladder-errors"] = lambda: errors(study)
    return found
