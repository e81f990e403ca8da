"""Rank collapse with and without skip connections (Dong et al. 2021, cited by both papers).

Layers x_i <- s x_i + sum_j P_ij V x_j with skip strength s, from pure attention (s = 0) to eq. (3) of the second paper
with step 1 (s = 1); on the sphere the sum is put back to length 1. Let m be the mean token and e_i = x_i - m.

*Pure attention is cubic.* With p the softmax of beta <Q m, K e_j> and C the covariance of the e_j under p,

    e_i' = beta V C K^T Q e_i (1 + O(beta |Q^T K| D^2)),     D = max |x_i - x_j|:

C is quadratic in e, so the distance from rank one is cubed by every layer. At any distance, two rows of P have a
log-ratio that varies by at most w = beta |Q^T K| D^2 over the columns, so they differ by at most tanh(w/4) in total
variation, and D' <= |V| D tanh(beta |Q^T K| D^2 / 4).

*With a skip connection it is geometric.* Once the rows of P are alike, e_i' = s e_i while (V = I) the mean grows by
1 + s: the distance from rank one shrinks by s/(1 + s) a layer, in R^d and on the sphere. It need not get there: tokens
that look at different leaders stay apart.
"""

from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from metastable.equation.blocks import Block, RMSNorm
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.rank_collapse_verdicts import (
    CAPTIONS,
    FAMILIES,
    LUMPED,
    RANKS,
    SOURCE,
    SPREADS,
    TITLES,
    WORDS,
    Params,
    judge,
)
from metastable.experiments.rank_one import cubic, diameter, excess, from_one_point, from_rank_one, sizes
from metastable.initial import cube, gaussian, sphere
from metastable.observables import cluster_count
from metastable.plots import series
from metastable.plots.style import captioned, panels, paper
from metastable.solve.simulate import simulate
from metastable.theory.intervals import mean_interval


def same(x: np.ndarray) -> np.ndarray:
    """The identity where a norm would stand: a layer may then have any skip strength."""
    return x


def instance(params: Params, family: str, skip: float, seed: int) -> tuple[Dynamics, np.ndarray]:
    """A layer with that skip strength, and tokens; both depend on the seed alone otherwise."""
    rng = np.random.default_rng([seed, 7])
    if family == "random":
        Q, K, V = (rng.standard_normal((params.d, params.d)) / np.sqrt(params.d) for _ in range(3))
        block = Block(attention_norm=same, skip=skip)
        weights, beta = Weights(Q, K, V), 1.0 / np.sqrt(params.d)
        return Dynamics(weights, beta, geometry="euclidean", block=block), gaussian(params.n, params.d, seed=[seed, 8])
    if family == "cloud":
        block, x = Block(attention_norm=same, skip=skip), cube(params.n, 3, seed=[seed, 8])
    else:
        block, x = Block(attention_norm=RMSNorm(unit=True), skip=skip), sphere(params.n, 3, seed=[seed, 8])
    return Dynamics(Weights(V=np.eye(3)), 1.0, geometry="euclidean", block=block), x


def run(params: Params, work: Work) -> Data:
    data: Data = {}
    for family in FAMILIES:
        for skip in params.strengths:
            name = f"{family}-{skip:g}"

            def chunk(first: int, last: int, family: str = family, skip: float = skip) -> Data:
                return _deep(params, family, skip, range(params.seed + first, params.seed + last))

            found = work.parts(name, params.instances, 50, chunk)
            data |= {f"{name}/{key}": value for key, value in found.items()}
    for spread in SPREADS:

        def near(first: int, last: int, spread: float = spread) -> Data:
            return _law(params, spread, range(params.seed + first, params.seed + last))

        found = work.parts(f"law-{spread:g}", params.instances, 50, near)
        data |= {f"law-{spread:g}/{key}": value for key, value in found.items()}
    return data


def _deep(params: Params, family: str, skip: float, seeds: range) -> Data:
    """Distances from rank one by layer, (b, layers + 1), and clusters at the end (b,)."""
    chosen = [instance(params, family, skip, seed) for seed in seeds]
    start = np.stack([x for _, x in chosen])
    runs = simulate([m for m, _ in chosen], start, params.layers, method="layers", save=params.layers + 1)
    rows = []
    for (member, _), one in zip(chosen, runs):
        last = one.x[-1] / np.abs(one.x[-1]).max()
        rows.append(
            {
                "point": from_one_point(one.x),
                "rank": from_rank_one(one.x),
                "excess": excess(member, one.x) if skip == 0.0 else np.zeros(0),
                "count": cluster_count(last, LUMPED, "euclidean"),
            }
        )
    return {key: np.stack([row[key] for row in rows]) for key in rows[0]}


def _law(params: Params, spread: float, seeds: range) -> Data:
    """One layer of pure attention on clouds m + spread e: the distance after it, and how far it is from the law."""
    chosen = [instance(params, "random", 0.0, seed) for seed in seeds]
    start = np.stack([x[:1] + spread * (x - x.mean(axis=0)) for _, x in chosen])  # around a token of common size
    runs = simulate([m for m, _ in chosen], start, 1, method="layers", save=2)
    found = []
    for (member, _), one in zip(chosen, runs):
        e, after = (v - v.mean(axis=0) for v in one.x)
        expected = cubic(member, one.x[0])
        room = sizes(member)[0] * diameter(one.x[0]) ** 2
        lengths = (np.linalg.norm(v) for v in (e, after, after - expected, expected))
        found.append((*lengths, room, *from_rank_one(one.x)))
    names = ("before", "after", "off", "expected", "room", "rank before", "rank after")
    return {name: np.array([row[k] for row in found]) for k, name in enumerate(names)}


# --- verdicts -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
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
            slope = 30.0 * last  # beside the line, not under it
            reference = {"slope: halved a layer": (layers[slope <= 1.0], slope[slope <= 1.0])}
        figure = series(
            layers, lines, band=bands, reference=reference, xlabel="layer", ylabel=r"$|X - 1m^T| / |X|$",
            yscale="linear" if family == "cloud" else "log", outside=True,
        )  # fmt: skip
        if family == "cloud":
            figure.axes[0].set_ylim(0.0, 1.05)
        figures[TITLES[family]] = captioned(
            figure, f"Rows of X are tokens, m is their mean. {CAPTIONS[family].format(n=params.n, d=params.d)} {seeds}"
        )
    figures[RANKS] = captioned(_ranks(params, data), f"n = {params.n}, families as above; {seeds}")
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


def _ranks(params: Params, data: Data) -> Figure:
    with paper():
        figure, axes = panels(None, len(FAMILIES), 2.4, 0.9)
        for axis, family in zip(axes, FAMILIES):
            each = {f"s = {s:g}": np.maximum(data[f"{family}-{s:g}/rank"], 1e-16) for s in params.strengths}
            series(
                np.arange(params.layers + 1),
                {name: np.median(rank, axis=0) for name, rank in each.items()},
                band={name: tuple(np.quantile(rank, [0.25, 0.75], axis=0)) for name, rank in each.items()},
                xlabel="layer", ylabel=r"$\sigma_2 / \sigma_1$" if family == FAMILIES[0] else "",
                yscale="linear" if family == "cloud" else "log", title=WORDS[family], ax=axis,
            )  # fmt: skip
            if family == "cloud":
                axis.set_ylim(0.0, 1.05)
            legend = axis.get_legend()
            if legend is not None and family != FAMILIES[-1]:
                legend.remove()
    return figure


def finding(params: Params, data: Data) -> Finding | None:
    if not {0.0, 1.0} <= set(params.strengths):
        return None
    pure, kept = (np.median(data[f"random-{s}/point"], axis=0) for s in (0, 1))
    when = f"layer {int(np.argmax(pure <= LUMPED))}" if (pure <= LUMPED).any() else "no layer that was run"
    return Finding(
        "Without skip connections attention is said to lose rank doubly exponentially; with them clusters emerge.",
        f"Without them random layers bring all tokens of half of the runs within {LUMPED:g} of one point by {when}; "
        f"with them {kept[-1]:.1g} is left after {params.layers} layers, and the second paper's cloud keeps "
        f"{data['cloud-1/count'].mean():.1f} clusters ({data['cloud-0/count'].mean():.1f} without).",
        TITLES["random"],
    )


def check(params: Params) -> dict[str, Check]:
    """Two layers of six tokens in each family with skip strength 0.3, and the cubic law's layer at strength 0."""
    found: dict[str, Check] = {}
    for family in FAMILIES:
        for skip in (0.0, 0.3):
            member, x0 = instance(replace(params, n=6), family, skip, params.seed)
            w, d = member.weights, x0.shape[1]
            Q, K = (np.eye(d) if m is None else np.asarray(m)[0] for m in (w.Q, w.K))
            x = x0
            for _ in range(2):
                x = skip * x + plain.pull(x, Q, K, np.asarray(w.V)[0], float(member.beta))
                x = x / np.linalg.norm(x, axis=1, keepdims=True) if family == "sphere" else x
            own = simulate(member, x0, 2, method="layers", save=3).x[-1]
            found[f"two layers with skip strength {skip:g}, {WORDS[family]}"] = (own, x, 1e-10)
    return found


EXPERIMENT = Experiment(
    name="rank-collapse",
    title="Rank collapse with and without skip connections",
    source=SOURCE,
    figures="none in the papers; a result both cite",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 24, "strengths": (0.0, 0.5, 1.0), "layers": 40},
    full={"instances": 2000},
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="Skip strengths other than 0, 1/2 and 1.",
    text="The same layer with more and more of the token itself kept. Without it attention cubes the distance from one "
    "point with every layer: tokens of common size are there to rounding after a few. With it the approach is "
    "geometric at best, by s/(1 + s) a layer, and tokens that follow different leaders stay apart. How quick 'quickly' "
    "is depends on the size of the scores: tokens as long as the second paper's do not lump together in any depth "
    "seen.",
)
