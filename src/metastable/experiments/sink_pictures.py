"""Pictures of `metastable.experiments.sinks`: the first token's ratio over beta and time, and weight over alignment."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from metastable.experiments import sink_runs
from metastable.experiments.base import Data, Figures
from metastable.plots import series
from metastable.plots.style import captioned, panels, paper
from metastable.theory.intervals import mean_half_width

OVER_BETA = "The first token's attention over its position's share, against beta"


def draw(params: Any, data: Data) -> Figures:
    return {
        OVER_BETA: _over_beta(params, data),
        "The same over time, random Q and K": _over_time(params, data),
        "Attention against alignment": _over_alignment(params, data),
        "Attention on every token": _over_tokens(params, data),
    }


def _setting(params: Any) -> str:
    return (
        f"n = {params.n}, d = {params.d}, causal attention; {params.instances} starts, seeds from {params.seed} on. "
        "The ratio leaves out what tokens give to themselves; it is 1 for uniform attention."
    )


def _over_beta(params: Any, data: Data) -> Figure:
    last = data["ratio"][..., -1]  # (b, V, scores, betas)
    mean, half = last.mean(axis=0), mean_half_width(last)
    with paper():
        figure, axes = panels(None, len(sink_runs.VALUES), 2.3, 0.9, 0.25)
        for v, panel in enumerate(axes):
            lines = dict(zip(sink_runs.SCORES, mean[v]))
            series(
                params.betas,
                lines,
                band={name: (mean[v, s] - half[v, s], mean[v, s] + half[v, s]) for s, name in enumerate(lines)},
                reference={"position alone": ([params.betas[0], params.betas[-1]], [1.0, 1.0])},
                xlabel=r"$\beta$",
                ylabel=f"ratio at t = {params.times[-1]:g}" if v == 0 else "",
                xscale="log",
                marks=True,
                title=sink_runs.VALUES[v],
                ax=panel,
            )
            legend = panel.get_legend()
            if v and legend is not None:
                legend.remove()
    return captioned(figure, f"Mean and its 95% interval. {_setting(params)}")


def _over_time(params: Any, data: Data) -> Figure:
    with paper():
        figure, axes = panels(None, len(sink_runs.VALUES), 2.3, 0.9, 0.25)
        for v, panel in enumerate(axes):
            ratio = data["ratio"][:, v, 0]  # (b, betas, T)
            mean, half = ratio.mean(axis=0), mean_half_width(ratio)
            names = [f"beta = {b:g}" for b in params.betas]
            series(
                params.times,
                dict(zip(names, mean)),
                band={name: (m - h, m + h) for name, m, h in zip(names, mean, half)},
                reference={"position alone": ([0.0, params.times[-1]], [1.0, 1.0])},
                ylabel="ratio" if v == 0 else "",
                title=sink_runs.VALUES[v],
                ax=panel,
            )
            legend = panel.get_legend()
            if v and legend is not None:
                legend.remove()
    return captioned(figure, f"Mean and its 95% interval. {_setting(params)}")


def _over_alignment(params: Any, data: Data) -> Figure:
    weight = data["weight_sum"].sum(axis=0) / np.maximum(data["weight_count"].sum(axis=0), 1.0)  # (betas + 1, bins)
    middle = (sink_runs.BINS[1:] + sink_runs.BINS[:-1]) / 2.0
    names = [*(f"beta = {b:g}" for b in params.betas), "linear weights"]
    figure = series(
        middle,
        dict(zip(names, weight)),
        reference={"its share": (middle[[0, -1]], [1.0, 1.0])},
        xlabel=r"alignment $\langle x_k, x_j \rangle$",
        ylabel="attention over the uniform share",
        yscale="log",
    )
    return captioned(
        figure,
        f"What viewers give to a token they are aligned with, times the number of tokens they see: uniform tokens at "
        f"t = 0, Q = K = I, the later half of n = {params.n} viewers, d = {params.d}, {params.instances} starts, seeds "
        f"from {params.seed} on. The larger beta is, the larger an alignment must be to get its share.",
    )


def _over_tokens(params: Any, data: Data) -> Figure:
    place = np.arange(1, params.n + 1)
    figure = series(
        place,
        dict(zip(sink_runs.VALUES, data["mass"].mean(axis=0))),
        reference={"position alone": (place, data["baseline"])},
        xlabel="token",
        ylabel=f"share of all attention, beta = {params.betas[-1]:g}",
        yscale="log",
    )
    return captioned(
        figure,
        f"Mean share at t = {params.times[-1]:g}, random Q and K, self-attention included; n = {params.n}, "
        f"d = {params.d}, causal attention, {params.instances} starts, seeds from {params.seed} on.",
    )
