"""Pictures and the finding of rank collapse."""

from typing import Any

import numpy as np

from metastable.experiments.base import Data, Figures, Finding
from metastable.plots import series
from metastable.plots.style import captioned
from metastable.theory.intervals import mean_interval

FAMILIES = ("random", "cloud", "sphere")
LUMPED = 1e-3  # relative distance from rank one below which tokens count as one tight cluster
WORDS = {"random": "random weights", "cloud": "the second paper's cloud", "sphere": "the sphere"}
TITLES = {family: f"Distance from one point, layer by layer: {WORDS[family]}" for family in FAMILIES}
CAPTIONS = {
    "random": "n = {n} normal tokens in R^{d}, Q, K, V normal / sqrt(d), beta = 1/sqrt(d), no norm.",
    "cloud": "n = {n} tokens uniform on [-5, 5]^3, Q = K = V = I, beta = 1, no norm.",
    "sphere": "n = {n} tokens uniform on the sphere in R^3, Q = K = V = I, beta = 1, length 1 after every layer.",
}


def draw(params: Any, data: Data) -> Figures:
    layers = np.arange(params.layers + 1)
    figures: Figures = {}
    seeds = f"{params.instances} seeds from {params.seed} on; medians, bands from the lower quartile to the upper."
    for family in FAMILIES:
        lines, bands = {}, {}
        for skip in params.strengths:
            point = np.maximum(data[f"{family}-{skip:g}/point"], 1e-16)
            low, high = np.quantile(point, [0.25, 0.75], axis=0)
            lines[f"s = {skip:g}"], bands[f"s = {skip:g}"] = np.median(point, axis=0), (low, high)
        reference = {}
        if family == "sphere" and 1.0 in params.strengths:
            last = lines["s = 1"][-1] * 2.0 ** (params.layers - layers)
            reference = {"halved a layer": (layers[last <= 1.0], last[last <= 1.0])}
        figure = series(
            layers, lines, band=bands, reference=reference, xlabel="layer", ylabel=r"$|X - 1m^T| / |X|$",
            yscale="linear" if family == "cloud" else "log",
        )  # fmt: skip
        if family == "cloud":
            figure.axes[0].set_ylim(0.0, 1.05)
        figures[TITLES[family]] = captioned(figure, f"{CAPTIONS[family].format(n=params.n, d=params.d)} {seeds}")
    counts = {WORDS[f]: [data[f"{f}-{s:g}/count"] for s in params.strengths] for f in FAMILIES}
    ends = {f: np.array([mean_interval(c) for c in found]).T for f, found in counts.items()}
    figure = series(
        np.array(params.strengths),
        {f: np.array([c.mean() for c in found]) for f, found in counts.items()},
        band={f: (low, high) for f, (low, high) in ends.items()},
        xlabel="skip strength $s$",
        ylabel="clusters, mean",
        marks=True,
    )
    what = f"Clusters (closer than 1e-3 of the extent) after {params.layers} layers, mean of {params.instances} seeds."
    figures["Clusters left after the last layer against the strength of the skip connection"] = captioned(figure, what)
    return figures


def finding(params: Any, data: Data) -> Finding | None:
    if not {0.0, 1.0} <= set(params.strengths):
        return None
    pure, kept = (data[f"random-{s}/point"] for s in (0, 1))
    first = int(np.argmax(np.median(pure, axis=0) <= LUMPED))
    return Finding(
        "Without skip connections attention is said to lose rank doubly exponentially; with them clusters emerge.",
        f"Without them random layers bring all tokens within {LUMPED:g} of one point by layer {first}, cubing the "
        f"distance each time; with them {np.median(kept[:, -1]):.2g} is left after {params.layers} layers, in "
        f"{data['random-1/count'].mean():.1f} clusters on average.",
        TITLES["random"],
    )
