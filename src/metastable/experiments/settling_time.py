"""Remark 3 of the second paper: how soon tokens are clustered, against the norm of the start and the number of tokens.

V = I, Q = K = I. Multiplying all tokens by c is the same as multiplying beta by c^2, so settling times depend on the
typical modulus and on beta through beta |x|^2 only. Once attention has settled, z' = z_leader - z: a token closes in on
its limit like e^{-t}.
"""

from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from metastable.equation.dynamics import Dynamics
from metastable.experiments import exact_pairs
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Finding, Work, judged_by_validity
from metastable.observables import cluster_count
from metastable.plots import series
from metastable.plots.style import captioned, panels, paper
from metastable.solve.simulate import simulate
from metastable.theory.theorems import THEOREMS, Triple, certified_until
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "second paper, Remark 3"
NEAR = 0.05  # of the largest norm: a token this close to its limit is clustered
MOST = 0.9  # of the tokens are clustered: settled
FEW = 5.0  # time units; the paper's pictures of polytopes show clusters by then
RATE = (1e-6, 1e-2)  # relative distances between which the rate of approach is measured


@dataclass(frozen=True)
class Params:
    """n = 40 tokens uniform on [-5, 5]^3 as in Fig. 5; other sides of the cube, and other n at that side."""

    instances: int = 100
    seed: int = 0
    n: int = 40
    d: int = 3
    sides: tuple[float, ...] = (0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0)
    side: float = 5.0
    ns: tuple[int, ...] = (10, 20, 40, 80, 160)
    t: float = 20.0
    dt: float = 0.05
    chunk: int = 10


def start(params: Params, seed: int, n: int, side: float) -> np.ndarray:
    """Tokens of one instance: the same directions for every side."""
    return np.asarray(side * np.random.default_rng([seed, n]).uniform(-1.0, 1.0, (n, params.d)))


def moved(params: Params, x0: np.ndarray, times: ArrayLike, beta: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Rescaled tokens of every start (b, n, d) at ``times``, (b, T, n, d), and until when each is certified, (b,)."""
    save = np.asarray(times, dtype=float)
    with judged_by_validity():
        runs = simulate(
            [Dynamics(beta=beta, geometry="rescaled")] * len(x0), x0, t=float(save[-1]), dt=params.dt, save=save
        )
    return np.stack([run.x for run in runs]), np.array([certified_until(run) for run in runs])


def run(params: Params, work: Work) -> Data:
    """Settling times, rates and clusters of every side and every n, and one start with its scale moved into beta."""
    times = np.linspace(0.0, params.t, 201)
    data: Data = {"t": times}
    cases = [(params.n, side) for side in params.sides] + [(n, params.side) for n in params.ns]
    for name, (n, side) in zip(_names(params), cases):

        def chunk(first: int, last: int, n: int = n, side: float = side) -> Data:
            x0 = np.stack([start(params, params.seed + k, n, side) for k in range(first, last)])
            return measured(*moved(params, x0, times), times)

        data |= {f"{name}_{k}": v for k, v in work.parts(name, params.instances, params.chunk, chunk).items()}

    def scaled(first: int, last: int) -> Data:
        x0 = np.stack([start(params, params.seed + k, params.n, 1.0) for k in range(first, last)])
        early = times[times <= 5.0]
        one, two = moved(params, 2.0 * x0, early)[0] / 2.0, moved(params, x0, early, 4.0)[0]
        return {"scaled": np.abs(one - two).max(axis=(1, 2, 3))}

    def pairs() -> Data:  # two groups: added when half the beta moved no other verdict
        eye, tokens = np.eye(params.d), np.zeros((params.n, params.d))  # of which only the number counts
        cases = [Triple(eye, eye, eye, tokens)] * min(params.instances, exact_pairs.COUNT)
        return exact_pairs.pairs(THEOREMS[1], cases, params.seed, "rk4", params.chunk)

    data |= work.parts("scaled", min(20, params.instances), params.chunk, scaled)
    return data | work.part("pairs", pairs)


def _names(params: Params) -> list[str]:
    return [f"side{side:g}" for side in params.sides] + [f"n{n}" for n in params.ns]


def measured(z: np.ndarray, valid: np.ndarray, t: np.ndarray) -> Data:
    """When tokens settle, how fast they approach, and how many clusters there are at the end.

    A token's limit is where it is at the end. It is clustered from the last time on at which it is farther than NEAR
    (of the largest norm at the end) from there; a start settles when MOST of its tokens are. One that is not certified
    to the end, or settles in the last tenth, is not settled (nan).
    """
    lengths = np.linalg.norm(z, axis=-1).max(axis=-1)  # (b, T)
    size = lengths[:, -1]
    off = np.linalg.norm(z - z[:, -1:], axis=-1) / size[:, None, None]  # (b, T, n)
    late = off > NEAR
    index = np.where(late.any(axis=1), len(t) - 1 - late[:, ::-1].argmax(axis=1), -1)  # the last time it is off
    clustered = t[np.minimum(index + 1, len(t) - 1)]  # (b, n)
    settled = np.quantile(clustered, MOST, axis=1, method="higher")
    sound = (valid >= t[-1]) & (settled <= 0.9 * t[-1])
    return {
        "settled": np.where(sound, settled, np.nan),
        "clusters": np.stack([cluster_count(one[-1] / s, 1e-2, "euclidean") for one, s in zip(z, size)]),
        "rate": np.array([_rate(o, t) for o in off]),
        "off": np.quantile(off, MOST, axis=-1),  # (b, T)
        "longest": lengths.max(axis=-1) / lengths[:, 0],  # (b,)
    }


def _rate(off: np.ndarray, t: np.ndarray) -> float:
    """-d ln(distance)/dt of the token that is farthest from its limit, while within RATE; nan for too few times.

    A leader's distance falls doubly exponentially, a follower's like e^{-t}: the farthest follows."""
    line = off.max(axis=-1)
    inside = (line > RATE[0]) & (line < RATE[1])
    return float(-np.polyfit(t[inside], np.log(line[inside]), 1)[0]) if inside.sum() >= 5 else float("nan")


def check(params: Params) -> dict[str, Check]:
    """Rescaled tokens at t = 1 from a small and a large start, beside the plain formulas."""
    small, eye = replace(params, dt=params.dt / 5.0), np.eye(params.d)
    out: dict[str, Check] = {}
    for side, beta in ((0.5, 1.0), (1.0, 4.0)):
        x0 = np.stack([start(params, params.seed + k, params.n, side) for k in range(params.chunk)])
        own = moved(small, x0, [0.0, 1.0], beta)[0][0, -1]
        field = lambda t, z, b=beta: plain.rescaled(t, z, eye, eye, eye, b)  # noqa: E731
        theirs = plain.moved(field, x0[0], 1.0, 200)
        out[f"rescaled tokens, side {side:g}, beta {beta:g}"] = (own, theirs, 1e-6)
    return out


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Remark 3, sentence by sentence; criteria fixed before the first run at default size.

    Quick: MOST tokens are within NEAR of their limit by t = FEW, in at least nine of ten starts of the published size.
    Depends on the modulus: settling times of the smallest and of the largest side from the same directions differ in
    the mean (by more than 0, small starts being slower). Through beta |x|^2 only: twice the tokens is four times beta,
    to 1e-9. Rate: -d ln(distance)/dt is 1 within 0.05 between distances of 1e-2 and 1e-6, where a follower of a settled
    leader is on e^{-t} up to the leader's own remaining motion; of the token farthest from its limit. n: the settling
    time changes by less than 1 from the fewest to the most tokens. (Changed after data had been seen: starts that had
    not settled, the slow ones, or had no rate were left out of means without a word; now they count as not measured.
    The rate was the median over tokens, leaders too, which is 12 where half of the tokens are leaders.)
    """
    seeds = range(params.seed, params.seed + params.instances)
    settled = data[f"side{params.side:g}_settled"]
    few, many = (data[f"side{side:g}_settled"] for side in (params.sides[0], params.sides[-1]))
    rate = data[f"side{params.side:g}_rate"]
    growth = data[f"n{params.ns[-1]}_settled"] - data[f"n{params.ns[0]}_settled"]
    return [
        judge_share(
            f"Convergence is quick: by t = {FEW:g} most tokens are clustered (side {params.side:g}).",
            SOURCE,
            [None if np.isnan(s) else bool(s <= FEW) for s in settled],
            kind="observation",
            required=0.9,
            seeds=seeds,
            notes=f"settling time: median {np.nanmedian(settled):.2f}, largest {np.nanmax(settled):.2f}; "
            + "medians by side: "
            + ", ".join(f"{s:g}: {np.nanmedian(data[f'side{s:g}_settled']):.2f}" for s in params.sides),
        ),
        judge_number(
            f"How quick depends on the modulus of the start: side {params.sides[0]:g} takes longer than "
            f"{params.sides[-1]:g}.",
            SOURCE,
            few - many,
            (0.0, np.inf),
            kind="observation",
            notes="difference of settling times from the same directions; mean clusters at the end by side: "
            + ", ".join(f"{s:g}: {data[f'side{s:g}_clusters'].mean():.1f}" for s in params.sides),
        ),
        judge_number(
            "The modulus matters through beta |x|^2 only: twice the tokens is four times beta.",
            SOURCE,
            data["scaled"],
            (0.0, 1e-9),
            exact=True,
            notes="largest difference of rescaled tokens up to t = 5",
        ),
        judge_number(
            "Once settled, tokens approach their limit like e^{-t}.",
            SOURCE,
            rate,
            (0.95, 1.05),
            kind="observation",
            notes="-d ln(distance)/dt of the token farthest from its limit",
        ),
        judge_number(
            f"The number of tokens matters little: from n = {params.ns[0]} to {params.ns[-1]} it changes "
            "by less than 1.",
            SOURCE,
            growth,
            (-1.0, 1.0),
            kind="observation",
            notes="medians by n: " + ", ".join(f"{n}: {np.nanmedian(data[f'n{n}_settled']):.2f}" for n in params.ns),
        ),
        _inside(params, data),
        exact_pairs.verdict(data, SOURCE, params.seed),
    ]


def _inside(params: Params, data: Data) -> Verdict:
    """z' is an average of tokens minus z, so the largest norm never grows; rounding of 400 steps is below 1e-9.

    Added after a first look: a transposed attention matrix, whose rows are no averages, moved no other verdict.
    """
    longest = np.max([data[f"{name}_longest"] for name in _names(params)], axis=0)  # (b,)
    return judge_share(
        "No rescaled token is ever longer than the longest was at the start.",
        "second paper, Proposition C.2 for the ball",
        [bool(ratio <= 1.0 + 1e-9) for ratio in longest],
        seeds=range(params.seed, params.seed + params.instances),
        notes=f"largest norm over that at the start, all sides and n: 1 {longest.max() - 1.0:+.1e} at most",
    )


def finding(params: Params, data: Data) -> Finding:
    times = [np.nanmedian(data[f"side{s:g}_settled"]) for s in params.sides]
    return Finding(
        "Most tokens are clustered after few layers; how few depends on the modulus of the start (Remark 3).",
        f"Nine of ten tokens settle by t = {times[-1]:.1f} from [-{params.sides[-1]:g}, {params.sides[-1]:g}]^3 and "
        f"by t = {times[0]:.1f} from [-{params.sides[0]:g}, {params.sides[0]:g}]^3 (medians over starts).",
        SETTLING,
    )


SETTLING = "Settling time against the size of the start and the number of tokens"


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    return {SETTLING: _settling(params, data), "How tokens approach their limit": _approach(params, data)}


def _settling(params: Params, data: Data) -> Figure:
    with paper():
        figure, axes = panels(None, 2, 3.4, 0.75)
        for panel, along, names, label in (
            (axes[0], params.sides, [f"side{s:g}" for s in params.sides], "side of the cube of the start"),
            (axes[1], params.ns, [f"n{n}" for n in params.ns], "number of tokens"),
        ):
            found = [np.nanquantile(data[f"{name}_settled"], [0.25, 0.5, 0.75]) for name in names]
            clusters = [float(data[f"{name}_clusters"].mean()) for name in names]
            low, middle, high = np.array(found).T
            series(
                along,
                {"settling time": middle, "clusters at the end (mean)": clusters},
                band={"settling time": (low, high)},
                xscale="log",
                xlabel=label,
                marks=True,
                ax=panel,
            )
    return captioned(
        figure,
        f"Time until {MOST:.0%} of the tokens are within {NEAR:g} (of the largest norm) of their limit: median and "
        f"quartiles over {params.instances} starts; and the mean number of clusters. V = Q = K = I, d = {params.d}; "
        f"left n = {params.n}, right side {params.side:g}. Seeds from {params.seed} on.",
    )


def _approach(params: Params, data: Data) -> Figure:
    t = data["t"]
    lines = {f"side {s:g}": np.median(data[f"side{s:g}_off"], axis=0) for s in params.sides[::2]}
    figure = series(
        t[:-20],
        {name: line[:-20] for name, line in lines.items()},
        reference={"$e^{-t}$": (t[:-20], np.exp(-t[:-20]))},
        yscale="log",
        ylabel="distance / largest norm",
    )
    return captioned(
        figure,
        f"Distance from its limit of the token at the {MOST:.0%} quantile, median over {params.instances} starts. "
        f"V = Q = K = I, n = {params.n}, d = {params.d}.",
    )


EXPERIMENT = Experiment(
    name="settling-time",
    title="How soon tokens are clustered",
    source=SOURCE,
    figures="none; plots of Remark 3's claim",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 40, "sides": (0.1, 1.0, 5.0), "ns": (8, 24), "n": 16},
    full={"instances": 1000},
    text="Tokens uniform on cubes of several sizes, V = I. A start is settled when nine of ten tokens are within 5% of "
    "their limit. Small tokens see each other with nearly uniform attention, gather at their mean and leave one "
    "cluster; large ones attend to few and leave a polytope.",
    check=check,
    finding=finding,
    topic="theorem",
    leaves_out="Quick runs have three sizes and two numbers of tokens.",
)
