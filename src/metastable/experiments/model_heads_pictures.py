"""Pictures of `metastable.experiments.model_heads`: Fig. 2, all layers, and the first token over depth."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from metastable.experiments import model_access
from metastable.experiments.base import Data, Figures
from metastable.models.head_figures import TOKENS_SHOWN, plain_word
from metastable.models.heads import averaged, grouped
from metastable.plots.colours import cycle
from metastable.plots.style import DIVERGING, HEAT, INK, captioned, one_axes, panels, paper

LEFT = "Fig. 2, left: attention that each token receives, all layers"
RIGHT = "Fig. 2, right: correlations of heads, all layers"


def draw(params: Any, data: Data) -> Figures:
    if model_access.SKIPPED in data:
        return {}
    who = f"{params.model}, {params.instances} texts from number {params.seed} on"
    figures = {
        LEFT: captioned(_left(data), f"{who}: attention that each token of the first text receives, head by head."),
        RIGHT: captioned(_right(data), f"{who}: correlation of the maps of two heads, in the order of their groups."),
    }
    depth = "attention on the first token over what even attention would pay it, mean over heads and texts."
    figures["Attention on the first token over depth"] = captioned(_over_depth(params, data), f"{who}: {depth}")
    return figures


def _left(data: Data) -> Figure:
    """One panel per layer: heads down, tokens across."""
    shown = [plain_word(w) for w in data["words"][:TOKENS_SHOWN]]
    count = len(data["layer"])
    with paper():
        figure, axes = panels(None, count, 2.3, 0.62, 0.1, columns=min(3, count))
        top = float(np.quantile(data["received"], 0.995))
        for k, axis in enumerate(axes):
            values = data["received"][k][:, : len(shown)]
            drawn = axis.imshow(values, cmap=HEAT, vmin=0.0, vmax=top, aspect="auto")
            axis.set_title(f"layer {int(data['layer'][k])}")
            axis.set_yticks(range(0, len(values), 2))
            last = k + min(3, count) >= count
            axis.set_xticks(range(len(shown)), shown if last else [""] * len(shown), rotation=90, fontsize=4.5)
            axis.set_ylabel("head" if k % min(3, count) == 0 else "")
        figure.colorbar(drawn, ax=axes, shrink=0.4, label="attention received")
    return figure


def _right(data: Data) -> Figure:
    """One panel per layer: correlations of heads, groups set apart by lines."""
    count = len(data["layer"])
    with paper():
        figure, axes = panels(None, count, 1.7, 1.0, 0.25, columns=min(4, count))
        for k, axis in enumerate(axes):
            found = averaged(data["total"][k], data["count"][k])
            labels = grouped(found)[0]
            order = np.argsort(labels, kind="stable")
            drawn = axis.imshow(found[np.ix_(order, order)], cmap=DIVERGING, vmin=-1.0, vmax=1.0)
            for edge in np.flatnonzero(np.diff(labels[order])) + 0.5:
                axis.axhline(edge, color=INK, lw=0.9)
                axis.axvline(edge, color=INK, lw=0.9)
            names = [str(h) for h in order]
            axis.set_xticks(range(len(order)), names, fontsize=5.5)
            axis.set_yticks(range(len(order)), names, fontsize=5.5)
            axis.set_title(f"layer {int(data['layer'][k])}")
        figure.colorbar(drawn, ax=axes, shrink=0.5, label="correlation")
    return figure


def _over_depth(params: Any, data: Data) -> Figure:
    names = [n for n in model_access.names_of(params) if f"{n}/mass" in data]
    with paper():
        figure, panel = one_axes(None)
        for name, colour in zip(names, cycle(len(names))):
            ratio = data[f"{name}/mass"].mean(axis=2) / data[f"{name}/position"]  # (texts, layers)
            depth = np.linspace(0.0, 1.0, ratio.shape[1] + 1)[1:]
            panel.plot(depth, ratio.mean(axis=0), color=colour, label=name)
        panel.axhline(1.0, color=INK, lw=0.7, ls=(0, (4, 2)))
        panel.set(xlabel="share of the depth", ylabel="times even attention", yscale="log", xlim=(0, 1))
        panel.grid(True, axis="y")
        panel.legend(loc="best")
    return figure
