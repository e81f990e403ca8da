"""Section 6 of the second paper: several heads. An open problem, so everything here is an observation.

With V_h = I/H the sum of the heads keeps the rescaling z = e^{-t} x, and z_i' = (1/H) sum_h sum_j P^h_ij (z_j - z_i).
Once every head of token i has settled on a leader, the token tends to the mean of its H leaders: limits are averages of
leaders' places, and in principle there could be many more of them than with one head.
"""

from dataclasses import dataclass, replace

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import claim_instances, exact_pairs
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work
from metastable.experiments.beyond_positive_definite import start_and_end
from metastable.observables import cluster_count, hull_growth
from metastable.plots import paper, series
from metastable.plots.style import captioned, panels
from metastable.solve.simulate import simulate
from metastable.theory.intervals import mean_interval
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "second paper, section 6"
TITLE = "Clusters and leaders against the number of heads"


@dataclass(frozen=True)
class Params:
    """40 tokens uniform on [-5, 5]^3, the second paper's cloud; Q_h^T K_h > 0 random, V_h = I/H."""

    n: int = 40
    d: int = 3
    side: float = 5.0
    heads: tuple[int, ...] = (1, 2, 4, 8)
    t: float = 14.0
    dt: float = 0.1
    instances: int = 200
    seed: int = 0
    chunk: int = 50


def instance(params: Params, heads: int, seed: int) -> tuple[Dynamics, np.ndarray]:
    """Dynamics with that many heads, and tokens; the tokens of a seed are the same for every number of heads."""
    rng = np.random.default_rng([seed, 1])
    scores = [claim_instances.random_score(params.d, rng) for _ in range(heads)]
    Q, K = (np.stack([pair[i] for pair in scores]) for i in (0, 1))  # (h, d, d)
    V = np.broadcast_to(np.eye(params.d) / heads, (heads, params.d, params.d))
    tokens = np.random.default_rng([seed, 0]).uniform(-params.side, params.side, (params.n, params.d))
    return Dynamics(Weights(Q, K, V), geometry="euclidean"), tokens


def run(params: Params, work: Work) -> Data:
    data: Data = {}
    for heads in params.heads:

        def chunk(first: int, last: int, heads: int = heads) -> Data:
            chosen = [instance(params, heads, params.seed + i) for i in range(first, last)]
            return _measured(params, chosen, first == 0)

        found = work.parts(f"heads{heads}", params.instances, params.chunk, chunk)
        data |= {f"{key}-{heads}": value for key, value in found.items()}
    return data | work.part("groups", lambda: _groups(params))


def _groups(params: Params) -> Data:
    """Two groups of tokens under the largest number of heads (`exact_pairs`), added after a first look."""
    heads, count = params.heads[-1], min(params.instances, params.chunk, exact_pairs.COUNT)
    members = [instance(params, heads, params.seed + k)[0] for k in range(count)]
    Q, K = (np.stack([np.asarray(getattr(m.weights, name)) for m in members]) for name in ("Q", "K"))  # (m, h, d, d)
    u = exact_pairs.along(params.d, params.seed, count)
    b = np.einsum("mhij,mj,mhik,mk->hm", Q, u, K, u)
    return exact_pairs.in_space(members, b, params.d, params.n, params.seed, t=params.t, dt=params.dt)


def _measured(params: Params, chosen: list[tuple[Dynamics, np.ndarray]], show: bool) -> Data:
    """Clusters, growth of the hull, distance from rest and spread of attention for every instance."""
    spare = params.chunk - len(chosen)
    members, tokens = [m for m, _ in chosen], np.stack([x for _, x in chosen] + [chosen[-1][1]] * spare)
    times = params.t * np.array([0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0])
    runs = simulate(members + members[-1:] * spare, tokens, params.t, params.dt, save=times)[: len(chosen)]
    rows = []
    for one in runs:
        z = np.exp(-one.t)[:, None, None] * one.x  # (T, n, d)
        extent = float(np.linalg.norm(z[0], axis=1).max())
        attention = np.asarray(one.attention(-1))  # (h, n, n)
        leaders = attention.argmax(axis=-1)  # (h, n)
        rows.append(
            {
                "count": int(cluster_count(z[-1], claim_instances.RESOLUTION * extent, "euclidean")),
                "growth": float(hull_growth(z[[0, 2, 4, 6]]).max()) / extent,
                "unsettled": float((1.0 - attention.max(axis=-1)).max()),
                "off": _off(z[-1], leaders) / extent,
                "before": _off(z[-2], leaders) / extent,
                "sources": len(np.unique(leaders)),
            }
        )
    end = np.stack([np.exp(-one.t[-1]) * one.x[-1] for one in runs[: 1 if show else 0]] or [np.zeros((0, 0))])
    made = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    return made | {"end": end if show else np.zeros((0, params.n, params.d))}


def _off(z: np.ndarray, leaders: np.ndarray) -> float:
    """The largest distance of a token (n, d) from the mean of its leaders (h, n)."""
    return float(np.linalg.norm(z - z[leaders].mean(axis=0), axis=1).max())


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    verdicts = []
    for heads in params.heads:
        verdicts += [_leaders(params, data, heads), _clusters(params, data, heads)]
    groups = exact_pairs.verdict(data, SOURCE, params.seed, allowed=exact_pairs.COARSE)  # tells half the beta
    return [*verdicts, _hull(params, data), groups]


def _leaders(params: Params, data: Data, heads: int) -> Verdict:
    """Every token rests at the mean of its leaders.

    A token whose heads have settled by half the horizon is within e^{-t/2} = 1e-3 of that mean, relative to the cloud.
    An instance breaks the claim when attention has settled and the largest distance no longer falls: it is at least 0.9
    of what it was at three quarters of the horizon, where settled attention leaves e^{-t/4} = 0.03 of it. Otherwise, a
    token that settled late or a row of attention still shared, it is undecided.
    """
    settled = data[f"unsettled-{heads}"] <= claim_instances.RESOLUTION
    near = data[f"off-{heads}"] <= np.exp(-params.t / 2.0)
    stuck = settled & (data[f"off-{heads}"] >= 0.9 * data[f"before-{heads}"])
    outcomes = [True if a else False if b else None for a, b in zip(near, stuck)]
    return judge_share(
        f"With H = {heads}, every token tends to the mean of its heads' leaders.",
        SOURCE + " (own prediction)",
        outcomes,
        kind="observation",
        seeds=range(params.seed, params.seed + params.instances),
        notes=f"relative distances: {claim_instances.spread(data[f'off-{heads}'])}; "
        f"attention is one leader per row and head in {settled.mean():.0%} of instances; "
        f"{data[f'sources-{heads}'].mean():.1f} leaders on average",
    )


def _clusters(params: Params, data: Data, heads: int) -> Verdict:
    """ "Interesting clustering phenomena also occur" is read as: on average at most half as many places as tokens."""
    share = data[f"count-{heads}"] / params.n
    return judge_number(
        f"With H = {heads}, tokens still gather: at most half as many clusters as tokens (share of n).",
        SOURCE,
        share,
        (0.0, 0.5),
        kind="observation",
        notes=f"{data[f'count-{heads}'].mean():.1f} clusters of {params.n} tokens on average at t = {params.t:g}",
    )


def _hull(params: Params, data: Data) -> Verdict:
    """Each velocity points into the hull, for every H, so that only the steps' errors can make it grow.

    RK4 with dt = 0.1 errs by about dt^5/120 a step relative to the motion, 1e-7, and a step that leaves the hull is
    drawn back: allowed is the sum over the steps in which tokens move, some hundred, 1e-5
    (`claim_instances.GROWTH`).
    """
    growth = np.max([data[f"growth-{heads}"] for heads in params.heads], axis=0)
    return judge_share(
        "With V_h = I/H the convex hull of the rescaled tokens never grows, whatever the heads.",
        SOURCE + ", by the argument of Proposition C.2",
        [bool(g <= claim_instances.GROWTH) for g in growth],
        kind="observation",
        seeds=range(params.seed, params.seed + params.instances),
        notes=f"relative growth: {claim_instances.spread(growth)}",
    )


def draw(params: Params, data: Data) -> Figures:
    counts = [data[f"count-{heads}"] for heads in params.heads]
    ends = np.array([mean_interval(c) if len(c) > 1 else (c[0], c[0]) for c in counts], dtype=float)
    heads = np.array(params.heads, dtype=float)
    sources = np.array([data[f"sources-{h}"].mean() for h in params.heads])
    curve = series(
        heads,
        {"clusters": np.array([c.mean() for c in counts]), "leaders": sources},
        band={"clusters": (ends[:, 0], ends[:, 1])},
        reference={"tokens": (heads, np.full(len(heads), float(params.n)))},
        xlabel="heads $H$",
        ylabel=f"places at $t = {params.t:g}$, mean",
        xscale="log",
        yscale="log",
        marks=True,
    )
    with paper():
        figure, axes = panels(None, len(params.heads), 1.75, extra=0.35)
        for h, axis in zip(params.heads, axes):
            start = instance(params, h, params.seed)[1]
            start_and_end(axis, start, data[f"end-{h}"][0])
            axis.set_title(f"H = {h}: {data[f'count-{h}'][0]} clusters")
    side = f"[-{params.side:g}, {params.side:g}]^{params.d}"
    cloud = f"n = {params.n} tokens uniform on {side}, V_h = I/H, random Q_h'K_h > 0"
    ends_at = f"{cloud}, rescaled by e^-t at t = {params.t:g}: start grey, end blue; seed {params.seed}."
    means = f"{cloud}; means of {params.instances} seeds from {params.seed} on at t = {params.t:g}, band: 95% interval."
    return {
        "Where the same tokens (grey) end (blue) with more and more heads": captioned(figure, ends_at),
        TITLE: captioned(curve, means),
    }


def finding(params: Params, data: Data) -> Finding:
    first, last = params.heads[0], params.heads[-1]
    few, many = data[f"count-{first}"].mean(), data[f"count-{last}"].mean()
    return Finding(
        "Several heads are left open; interesting clusters are expected.",
        f"With V_h = I/H {params.n} tokens end in {many:.1f} clusters on average with {last} heads, {few:.1f} with "
        f"{first}; in half of the runs every token is within {np.median(data[f'off-{last}']):.1g} of the mean of its "
        "heads' leaders, relative to the cloud.",
        TITLE,
    )


def check(params: Params) -> dict[str, Check]:
    """Six tokens with three heads to t = 0.1, small enough for attention not to saturate at once; 1e-6 is the "
    "step's."""
    member, x0 = instance(replace(params, n=6), 3, params.seed)
    w, x0 = member.weights, 0.3 * x0
    Q, K, V = (np.asarray(m) for m in (w.Q, w.K, w.V))

    def field(t: float, x: np.ndarray) -> np.ndarray:
        return np.asarray(sum(plain.pull(x, Q[h], K[h], V[h]) for h in range(3)))

    run = simulate(member, x0, 0.1, 0.01, save=2)
    y = plain.moved(field, x0, 0.1, 40)
    P = np.stack([plain.attention(y, Q[h], K[h]) for h in range(3)])
    return {
        "tokens with three heads at t = 0.1": (run.x[-1], y, 1e-6),
        "attention of three heads at t = 0.1": (np.asarray(run.attention(-1)), P, 1e-4),
    }


EXPERIMENT = Experiment(
    name="multi-head",
    title="Several heads",
    source=SOURCE,
    figures="",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 24, "heads": (1, 4), "chunk": 24, "n": 32},
    full={"instances": 2000, "heads": (1, 2, 4, 8, 16)},
    check=check,
    finding=finding,
    topic="observation",
    leaves_out="Two and eight heads, a fifth of the tokens.",
    text="The paper leaves several heads open and reports clustering. Here every head has its own random positive Q^T "
    "K and V_h = I/H. Tokens still come to rest, each at the mean of its heads' leaders. There could be many such "
    "means, but leaders that several heads share pull the others in: clusters stay as few as with one head.",
)
