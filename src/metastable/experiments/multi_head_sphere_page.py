"""Pictures and the finding of several heads on the sphere."""

from typing import Any

import numpy as np

from metastable.experiments.base import Data, Figures, Finding
from metastable.plots import series
from metastable.plots.style import captioned, panels, paper
from metastable.theory.intervals import mean_interval

TOGETHER = 0.05  # radians: what counts as one cluster
LONGEST = 16.0  # the strongest coupling that is followed to the horizon
TITLE = "Clusters on the sphere against the number of heads"
FAMILIES = ("identity", "symmetric", "ginibre", "opposed")
WORDS = {
    "identity": "V_h = I/H",
    "symmetric": "V_h random symmetric",
    "ginibre": "V_h with independent normal entries",
    "opposed": "V_h of opposite signs in turn, with sum I",
}


def draw(params: Any, data: Data) -> Figures:
    heads = np.array(params.heads, dtype=float)
    lines, bands = {}, {}
    for family in FAMILIES:
        found = [data[f"{family}-{h}/count"] for h in params.heads]
        lines[WORDS[family]] = np.array([c.mean() for c in found])
        bands[WORDS[family]] = tuple(np.array([mean_interval(c) for c in found]).T)
    counts = series(heads, lines, band=bands, xlabel="heads $H$", ylabel="clusters, mean", marks=True, xscale="log")
    counts.axes[0].set_xticks(heads, [f"{h:g}" for h in heads])
    counts.axes[0].set_xticks([], minor=True)
    weak = [k for k, c in enumerate(params.couplings) if c <= LONGEST]
    kappa = np.array([params.couplings[k] for k in weak])

    def over(key: str) -> tuple[dict[str, np.ndarray], dict[str, tuple[np.ndarray, np.ndarray]]]:
        each = {f"{c} systems": data[f"systems-{c}/{key}"][:, weak] for c in params.systems}
        ends = {name: np.array([mean_interval(v) for v in found.T]).T for name, found in each.items()}
        return {name: found.mean(axis=0) for name, found in each.items()}, {n: (e[0], e[1]) for n, e in ends.items()}

    with paper():
        together, axes = panels(None, 2, 3.2, 0.75)
        for axis, key, label in zip(axes, ("own", "alike"), ("clusters in a system", "adjusted Rand index")):
            lines, bands = over(key)
            series(kappa, lines, band=bands, xlabel=r"coupling $\kappa$", ylabel=label, marks=True, ax=axis)
            axis.set_xscale("symlog", linthresh=1.0)
            axis.set_xticks(kappa, [f"{k:g}" for k in kappa])
    strong = np.array([c for c in params.couplings if c > 0.0])
    where = [k for k, c in enumerate(params.couplings) if c > 0.0]
    off = {f"{c} systems": data[f"systems-{c}/off"][:, where].mean(axis=0) for c in params.systems}
    first = next(iter(off.values()))
    limit = series(
        strong, off, reference={r"$1/\kappa$": (strong, 0.6 * first[-1] * strong[-1] / strong)},
        xlabel=r"coupling $\kappa$", ylabel="distance from multi-head", xscale="log", yscale="log", marks=True,
    )  # fmt: skip
    start = f"n = {params.n} uniform tokens in R^{params.d}, beta = {params.beta:g}, random Q_h'K_h > 0, "
    seeds = f"{params.instances} seeds from {params.seed} on, means with 95% intervals."
    return {
        TITLE: captioned(counts, f"{start}clusters closer than {TOGETHER:g} rad at t = {params.t:g}; {seeds}"),
        "Clusters in each of several systems, and how alike their groups are, against the coupling": captioned(
            together, f"{start}V_h random symmetric, t = {params.t:g}; {seeds}"
        ),
        "Strongly coupled systems are multi-head attention": captioned(
            limit, f"{start}V_h random symmetric: mean distance of a token's mean copy at t = {params.short:g}; {seeds}"
        ),
    }


def finding(params: Any, data: Data) -> Finding:
    first, last = params.heads[0], params.heads[-1]
    count = {h: data[f"symmetric-{h}/count"].mean() for h in (first, last)}
    index = data[f"systems-{params.systems[-1]}/alike"].mean(axis=0)
    return Finding(
        "Both papers leave several heads open and expect interesting clusters.",
        f"On the sphere {count[last]:.1f} clusters form on average with {last} heads and random symmetric V_h, "
        f"{count[first]:.1f} with {first}; {params.systems[-1]} systems that exchange tokens group them alike from "
        f"weak coupling on (index {index[0]:.2f} without exchange, "
        f"{index[params.couplings.index(4.0)]:.2f} at kappa = 4).",
        TITLE,
    )
