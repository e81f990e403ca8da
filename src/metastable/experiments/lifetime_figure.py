"""Lifetimes of pairs of clusters: measured against exact."""

import numpy as np
from matplotlib.figure import Figure

from metastable.experiments.base import Data
from metastable.plots.style import SOFT, one_axes, paper


def lifetimes(data: Data) -> Figure:
    """Points on the diagonal where the quadrature is right; colours tell beta."""
    merged = data["pair_merged"].astype(bool)
    with paper():
        figure, panel = one_axes(None, 3.6, 2.7)
        ends = np.array([data["pair_exact"].min(), data["pair_exact"].max()])
        panel.plot(ends, ends, color=SOFT, lw=1.0, ls="--", zorder=1, label="equal")
        for chosen, marker, label in ((merged, "o", "merged"), (~merged, "^", "not yet merged")):
            if not chosen.any():
                continue
            dots = panel.scatter(
                data["pair_exact"][chosen],
                data["pair_time"][chosen],
                c=data["pair_beta"][chosen],
                s=9,
                marker=marker,
                vmin=1.0,
                vmax=10.0,
                label=label,
            )
        panel.set(xscale="log", yscale="log", xlabel="time by quadrature", ylabel="time measured")
        ticks = [v for v in (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0) if ends[0] <= v <= ends[1]]
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_ticks(ticks, [f"{v:g}" for v in ticks])
            axis.set_ticks([], minor=True)
        panel.legend()
        figure.colorbar(dots, ax=panel, fraction=0.06, pad=0.03, label=r"$\beta$")
    return figure
