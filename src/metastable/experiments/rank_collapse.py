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

from dataclasses import dataclass, replace

import numpy as np

from metastable.equation.blocks import Block, RMSNorm
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import plain_formulas as plain
from metastable.experiments import rank_collapse_page
from metastable.experiments.base import Check, Data, Experiment, Work
from metastable.experiments.rank_collapse_page import FAMILIES, LUMPED, WORDS
from metastable.experiments.rank_one import cubic, diameter, excess, from_one_point, from_rank_one, rates, sizes
from metastable.initial import cube, gaussian, sphere
from metastable.observables import cluster_count
from metastable.solve.simulate import simulate
from metastable.theory.verdicts import Verdict, from_readings, judge_number, judge_share

SOURCE = "Dong et al. 2021, cited in sec. 2.1 of the first paper and in the second paper's related work"
FEW_LAYERS = 12  # "quickly": the depth of a common network
SPREADS = (0.01, 0.02, 0.04, 0.08)  # of the clouds on which the cubic law is read


@dataclass(frozen=True)
class Params:
    """Three families of ``n`` tokens.

    random: normal tokens in R^``d``, Q, K, V normal / sqrt(d), beta = 1/sqrt(d): a network before training;
    cloud: the second paper's, uniform on [-5, 5]^3 with Q = K = V = I; sphere: uniform on S^2, Q = K = V = I.
    """

    n: int = 40
    d: int = 16
    strengths: tuple[float, ...] = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
    layers: int = 48
    instances: int = 200
    seed: int = 0


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
        found.append((np.linalg.norm(e), np.linalg.norm(after), np.linalg.norm(after - expected), room, expected))
    names = ("before", "after", "off", "room")
    made = {name: np.array([row[k] for row in found]) for k, name in enumerate(names)}
    return made | {"expected": np.array([np.linalg.norm(row[4]) for row in found])}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    verdicts = [_bound(params, data), _cubic_law(params, data), _exponent(params, data)]
    if 0.0 in params.strengths:
        verdicts.append(
            from_readings(
                f"Without skip connections all tokens quickly lump together, within {FEW_LAYERS} layers.",
                "second paper, related work, on Dong et al. 2021",
                [_lumps(params, data, family) for family in FAMILIES],
                notes="one reading for each size of the scores: 'quickly' depends on it",
            )
        )
    verdicts += [_rate(params, data, skip) for skip in params.strengths if skip > 0.0]
    return [*verdicts, *([_rich(params, data)] if 1.0 in params.strengths else [])]


def _seeds(params: Params) -> range:
    return range(params.seed, params.seed + params.instances)


def _bound(params: Params, data: Data) -> Verdict:
    """D' <= |V| D tanh(beta |Q^T K| D^2 / 4) at every layer of pure attention, to 1e-9 for the rounding of norms."""
    worst = np.max([data[f"{family}-0/excess"].max(axis=1) for family in ("random", "cloud")], axis=0)
    return judge_share(
        "A layer of pure attention leaves at most |V| D tanh(beta |Q'K| D^2 / 4) of the tokens' diameter D.",
        SOURCE + "; proof in this experiment's first lines",
        [bool(w <= 1.0 + 1e-9) for w in worst],
        seeds=_seeds(params),
        notes=f"largest ratio to the bound {worst.max():.3f}, over every layer of two families",
    )


def _cubic_law(params: Params, data: Data) -> Verdict:
    """What one layer leaves is beta V C K^T Q e, up to its next order, beta |Q^T K| D^2, where that is below 1/2.

    Both are vectors for all tokens; their distance is taken relative to the law. Rounding, 1e-15 of tokens of size 4,
    is at most 1e-6 of it at the smallest spread, 0.01.
    """
    off, room = (np.concatenate([data[f"law-{s:g}/{key}"] for s in SPREADS]) for key in ("off", "room"))
    off = off / np.concatenate([data[f"law-{s:g}/expected"] for s in SPREADS])
    near = room <= 0.5
    return judge_share(
        "Near one point a layer of pure attention is the cubic map e -> beta V C K'Q e.",
        SOURCE + "; derived in this experiment's first lines",
        [bool(o <= r + 1e-6) for o, r in zip(off, room)],
        eligible=near.tolist(),
        seeds=list(_seeds(params)) * len(SPREADS),
        notes=f"median distance from the law {np.median(off[near]) if near.any() else np.nan:.2g} of its size; with "
        "half the beta, or without V, it would be 0.5 or more",
    )


def _exponent(params: Params, data: Data) -> Verdict:
    """log |e'| against log |e|, instance by instance, least squares over the spreads: 3, to 0.1.

    The next order changes |e'| by at most half between the smallest spread and the largest, ln(1.5)/ln(8) = 0.2 of an
    exponent at worst, and is of either sign; 0.1 tells three from two and from four.
    """
    before, after = (np.stack([np.log(data[f"law-{s:g}/{key}"]) for s in SPREADS]) for key in ("before", "after"))
    centred = before - before.mean(axis=0)
    slope = (centred * after).sum(axis=0) / (centred**2).sum(axis=0)
    return judge_number(
        "Without skip connections the distance from rank one is cubed by every layer (exponent 3).",
        SOURCE,
        slope,
        (2.9, 3.1),
        notes="the first paper's 'cubic time' is read as this cubic rate; doubly exponential in depth",
    )


def _lumps(params: Params, data: Data, family: str) -> Verdict:
    """Within FEW_LAYERS = 12 layers of pure attention the distance from one point is below LUMPED = 1e-3 in each run.

    "Quickly" depends on the size of scores, so there is a row for each family: of order 1 (random, sphere), and the
    second paper's own cloud, whose scores are of order 25. An observation: one counterexample makes it fail.
    """
    reached = data[f"{family}-0/point"][:, min(FEW_LAYERS, params.layers)]
    words = {
        "random": "Random weights, scores of order 1.",
        "cloud": "The second paper's cloud, scores of order 25.",
        "sphere": "Unit tokens on the sphere, beta = 1.",
    }
    return judge_share(
        words[family],
        "second paper, related work, on Dong et al. 2021",
        [bool(r <= LUMPED) for r in reached],
        kind="observation",
        seeds=_seeds(params),
        notes=f"median distance from one point {np.median(reached):.2g}, largest {reached.max():.2g}",
    )


def _rate(params: Params, data: Data, skip: float) -> Verdict:
    """On the sphere the distance from one point shrinks by s/(1 + s) a layer, to 2%.

    Read between 1e-2 and 1e-7, where the next order is at most 1e-2 at first and vanishes; 2% is twice that. Runs that
    have not come near one point by the last layer decide nothing.
    """
    factor = rates(data[f"sphere-{skip:g}/point"])
    expected = skip / (1.0 + skip)
    return judge_share(
        f"With a skip connection of strength s = {skip:g} the distance from one point shrinks by s/(1 + s) = "
        f"{expected:.3f} a layer: geometrically, not doubly exponentially.",
        SOURCE + "; own prediction by linearising",
        [None if np.isnan(f) else bool(abs(f / expected - 1.0) <= 0.02) for f in factor],
        decided=0.5,
        seeds=_seeds(params),
        notes=f"mean factor {np.nanmean(factor):.4f}" if np.isfinite(factor).any() else "no run came near one point",
    )


def _rich(params: Params, data: Data) -> Verdict:
    """At s = 1 at least half of the runs have two clusters or more after the last layer.

    Clusters are tokens closer than 1e-3 of the cloud's extent. A row for random weights, whose tokens are one point
    without skip connections, and one for the paper's own cloud, which has clusters without them as well.
    """
    rows = []
    for family, reading in (("random", "Random weights."), ("cloud", "The second paper's cloud, V = I.")):
        each = "; ".join(f"s = {s:g}: {data[f'{family}-{s:g}/count'].mean():.1f}" for s in params.strengths)
        rows.append(
            judge_share(
                reading,
                "second paper, related work",
                [bool(c >= 2) for c in data[f"{family}-1/count"]],
                kind="observation",
                required=0.5,
                seeds=_seeds(params),
                notes=f"mean number of clusters after {params.layers} layers, {each}",
            )
        )
    return from_readings(
        "In the presence of skip connections a rich cluster structure emerges: two clusters or more.",
        "second paper, related work",
        rows,
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
    draw=rank_collapse_page.draw,
    quick={"instances": 24, "strengths": (0.0, 0.5, 1.0), "layers": 40},
    full={"instances": 2000},
    check=check,
    finding=rank_collapse_page.finding,
    topic="beyond",
    leaves_out="Skip strengths other than 0, 1/2 and 1.",
    text="The same layer with more and more of the token itself kept. Without it attention cubes the distance from one "
    "point with every layer: tokens of common size are there to rounding after a few. With it the approach is "
    "geometric at best, by s/(1 + s) a layer, and tokens that follow different leaders stay apart. How quick 'quickly' "
    "is depends on the size of the scores: tokens as long as the second paper's do not lump together in any depth "
    "seen.",
)
