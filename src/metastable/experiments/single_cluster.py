"""Fig. 3 of the first paper: causal attention, V = I, beta = 1: one cluster, and it is the first token.

The caption says "random Q, K", the text "Q^T K = I"; both are run, from the same tokens.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Figures, Films, Finding, Work
from metastable.experiments.self_checks import first_steps
from metastable.initial import sphere
from metastable.observables import cluster_count
from metastable.plots import series, snapshots
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory.intervals import exact_interval
from metastable.theory.two_clusters import causal_second_token_time
from metastable.theory.verdicts import Verdict, judge_share
from metastable.trajectory import Trajectory

DOT = 0.05  # radians: a printed dot is about 1/40 of the sphere's diameter, so closer tokens look like one
NEAR = 0.1  # radians; see `_limit`: any angle below pi/2 proves convergence
FILM = 15.0  # time units of the film and of the densely saved part
READINGS = ("random Q, K (caption)", "Q^T K = I (text)")
SOURCE = "first paper, sec. 4.2.1 and Fig. 3"
LIMIT = "first paper, sec. 2.5, after Karagodin et al."


@dataclass(frozen=True)
class Params:
    """Fig. 3's setting. All instances run to ``early``, those with tokens still on their way to ``horizon``."""

    n: int = 64
    d: int = 3
    beta: float = 1.0
    dt: float = 0.1
    snapshots: tuple[float, ...] = (3.0, 6.0, 12.0)
    early: float = 25.0
    horizon: float = 1000.0
    instances: int = 200
    seed: int = 0


def instance(params: Params, seed: int, reading: int = 0) -> tuple[Dynamics, np.ndarray]:
    """Dynamics and tokens of one instance; reading 0 draws Q and K with standard normal entries."""
    drawn = np.random.default_rng([seed, 1]).standard_normal((2, params.d, params.d))
    Q, K = drawn if reading == 0 else (np.eye(params.d), np.eye(params.d))
    weights = Weights(Q, K, np.eye(params.d))
    return Dynamics(weights, beta=params.beta, mask="causal"), sphere(params.n, params.d, seed=seed)


def check(params: Params) -> dict[str, Check]:
    """The first instance in both readings, from its start; and as slow instances are run on, by adaptive steps."""
    one = np.eye(params.d)
    Q, K = np.random.default_rng([params.seed, 1]).standard_normal((2, params.d, params.d))

    def field(Q: np.ndarray, K: np.ndarray) -> plain.Field:
        return plain.on_sphere(lambda x: plain.pull(x, Q, K, one, params.beta, causal=True))

    chosen = [instance(params, params.seed + k, r) for k in range(_size(params)) for r in (0, 1)]
    dynamics, tokens, fields = (
        [dyn for dyn, _ in chosen],
        np.stack([x for _, x in chosen]),
        [field(Q, K), field(one, one)],
    )
    found = {"tokens after the first steps": first_steps(dynamics, tokens, fields, **_early(params))}
    for k, name in enumerate(READINGS):
        own = np.asarray(dynamics[k].velocity(0.0, tokens[k]))
        found[f"velocity at the start, {name}"] = (own, fields[k](0.0, tokens[k]), 1e-10)
    if params.horizon > params.early:
        late = first_steps(dynamics[:2], tokens[:2], fields, **_late(params))
        found["tokens after adaptive steps"] = late
    return found


def _size(params: Params) -> int:
    return min(50, params.instances)


def _times(params: Params) -> np.ndarray:
    film = np.linspace(0.0, FILM, 61)
    return np.unique(np.concatenate([film, params.snapshots, np.linspace(FILM, params.early, 11)]))


def _early(params: Params) -> dict[str, Any]:
    return {"t": params.early, "dt": params.dt, "save": _times(params)}


def _late(params: Params) -> dict[str, Any]:
    more = params.horizon - params.early
    return {"t": more, "method": "tsit5", "rtol": 1e-6, "save": [more]}


def run(params: Params, work: Work) -> Data:
    times = _times(params)

    def chunk(first: int, last: int) -> Data:
        chosen = [instance(params, params.seed + k, r) for k in range(first, last) for r in (0, 1)]
        tokens = np.stack([x for _, x in chosen])
        runs = simulate([dyn for dyn, _ in chosen], tokens, **_early(params))
        x = np.stack([one.x for one in runs]).reshape(last - first, 2, len(times), params.n, params.d)
        gap = _angle(x, x[:, :, :1, :1])  # (b, 2, T, n): from x_1(0)
        kept = x[:1] if first == 0 else x[:0]
        return {
            "farthest": gap.max(axis=-1),
            "second": gap[:, 1, :, 1],
            "count": cluster_count(x, DOT),
            "end": x[:, :, -1],
            "shown": kept,
        }

    data = work.parts("runs", params.instances, _size(params), chunk)
    work.progress(1.0, "slow tokens")
    late = work.part("late", lambda: _later(params, data))
    return {**{key: data[key] for key in ("farthest", "second", "count", "shown")}, **late, "t": times}


def _later(params: Params, data: Data) -> Data:
    """Farthest token and greatest speed of every instance at its end, after the slow ones have been run on."""
    far, end = data["farthest"][:, :, -1].copy(), data["end"].copy()
    slow = np.argwhere(far > NEAR)  # (m, 2): instance, reading
    if len(slow) and params.horizon > params.early:
        chosen = [instance(params, params.seed + int(k), int(r)) for k, r in slow]
        start = np.stack([end[k, r] for k, r in slow])
        runs = simulate([dyn for dyn, _ in chosen], start, **_late(params))
        for (k, r), (_, x), one in zip(slow, chosen, runs):
            end[k, r], far[k, r] = one.x[-1], _angle(one.x[-1], x[0]).max()
    speed = np.zeros(far.shape)
    for k, r in np.argwhere(far > NEAR):
        speed[k, r] = np.abs(instance(params, params.seed + int(k), int(r))[0].velocity(0.0, end[k, r])).max()
    return {"far": far, "speed": speed}


def _angle(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Angle between unit vectors, right for close ones too: 2 arcsin(|x - y|/2)."""
    return np.asarray(2.0 * np.arcsin(np.minimum(1.0, np.linalg.norm(x - y, axis=-1) / 2.0)))


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    verdicts = [_limit(params, data, r) for r in (0, 1)]
    verdicts += [_one_cluster(params, data, r) for r in (0, 1)]
    return [*verdicts, _second_token(params, data)]


def _limit(params: Params, data: Data, reading: int) -> Verdict:
    """Every token tends to x_1(0).

    Seen to hold when all tokens are within NEAR of x_1(0). No smaller angle is needed: with V = I and
    m = min_j <x_j, x_1> > 0, the farthest token k has (d/dt)<x_k, x_1> = sum_j A_kj (<x_j, x_1> - <x_k, x_j> m)
    >= m sum_j A_kj (1 - <x_k, x_j>) >= 0, strictly while x_k differs from x_1, which it always sees: a cap smaller
    than a half-sphere around x_1 keeps its tokens and draws them in. Seen to break when every token is at rest
    (speed below 1e-12, rounding) away from x_1(0). Anything else is a slow token: undecided at the horizon.
    """
    near = data["far"][:, reading] <= NEAR
    rest = data["speed"][:, reading] < 1e-12
    late = np.median([_first(data["t"], row <= NEAR) for row in data["farthest"][:, reading]])
    return judge_share(
        f"With V = I every token of causal attention converges to x_1(0), here with {READINGS[reading]}.",
        LIMIT,
        [True if a else (False if b else None) for a, b in zip(near, rest)],
        seeds=_seeds(params, data),
        notes=f"counted when all tokens are within {NEAR:g} rad at t = {params.horizon:g}, from where convergence is "
        f"certain; median time to get there {late:.1f}",
    )


def _first(t: np.ndarray, seen: np.ndarray) -> float:
    return float(t[np.argmax(seen)]) if seen.any() else np.inf


def _one_cluster(params: Params, data: Data, reading: int) -> Verdict:
    """One cluster at the last snapshot of Fig. 3.

    The paper shows one picture and calls the behaviour typical, so it must be seen more often than not: a share of at
    least 1/2. Tokens count as one cluster when a chain of links of at most DOT joins them, as they do to the eye.
    """
    when = params.snapshots[-1]
    counts = data["count"][:, reading, _at(data["t"], when)]
    return judge_share(
        f"At t = {when:g} the tokens of a typical start have become one cluster, with {READINGS[reading]}.",
        SOURCE,
        [bool(c == 1) for c in counts],
        kind="observation",
        required=0.5,
        seeds=_seeds(params, data),
        notes=f"mean number of clusters {counts.mean():.2f}, tokens linked up to {DOT:g} rad; the slowest tokens are "
        "the early ones: at consensus token k closes in at rate 1 - 1/k",
    )


def _second_token(params: Params, data: Data) -> Verdict:
    """Token 2 with Q^T K = I against its quadrature.

    The time that the quadrature needs between the measured angles at 0 and at the last snapshot must be that time. RK4
    of step h errs by about h^4 = 1e-4 times the t^5-derivatives, which are of order beta <= 1 divided by 120, over
    12 time units: 1e-5. Allowed: ten times that. A token that moved away breaks the claim (no time is right for it).
    """
    when = params.snapshots[-1]
    index = _at(data["t"], when)
    off = [
        causal_second_token_time(p[0], p[index], params.beta) / when - 1.0 if 0.0 < p[index] < p[0] else np.inf
        for p in data["second"]
    ]
    return judge_share(
        "With Q^T K = I token 2 closes in as phi' = -sin(phi)/(1 + e^{beta(1 - cos phi)}).",
        "quadrature of its angle to token 1",
        [bool(abs(v) <= params.dt**4) for v in off],
        seeds=_seeds(params, data),
        notes=f"largest relative error of the time to t = {when:g}: {np.abs(off).max():.1e}, allowed "
        f"{params.dt**4:.0e}",
    )


def _at(t: np.ndarray, when: float) -> int:
    return int(np.abs(t - when).argmin())


def _seeds(params: Params, data: Data) -> list[int]:
    return [params.seed + k for k in range(len(data["speed"]))]


def finding(params: Params, data: Data) -> Finding:
    """How many starts look like one cluster in Fig. 3's last picture, and how many end at the first token."""
    counts = data["count"][:, 0, _at(data["t"], params.snapshots[-1])]
    near = int((data["far"][:, 0] <= NEAR).sum())
    return Finding(
        "With V = I and beta = 1 causal tokens become one cluster, at the first token (Fig. 3).",
        f"{near} of {len(counts)} starts with random Q and K end there by t = {params.horizon:g}; at the last picture, "
        f"t = {params.snapshots[-1]:g}, {(counts == 1).mean():.0%} look like one cluster and the mean is "
        f"{counts.mean():.1f}.",
        f"Fig. 3, {READINGS[0]}",
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    setting = f"n = {params.n}, d = {params.d}, beta = {params.beta:g}, V = I, causal"
    figures = {}
    for r in (0, 1):
        drawn = snapshots(data["shown"][0, r], data["t"], times=params.snapshots, first="red")
        what = f"Tokens at three times; red: the first token. {setting}, {READINGS[r]}, seed {params.seed}."
        figures[f"Fig. 3, {READINGS[r]}"] = captioned(drawn, what)
    single = data["count"] == 1  # (b, 2, T)
    lines = {READINGS[r]: single[:, r].mean(axis=0) for r in (0, 1)}
    bands = {READINGS[r]: _band(single[:, r]) for r in (0, 1)}
    share = series(
        data["t"],
        lines,
        band=bands,
        reference={f"t = {params.snapshots[-1]:g}": ([params.snapshots[-1]] * 2, [0.0, 1.0])},
        ylabel="share with one cluster",
    )
    figures["Share of starts that have become one cluster"] = captioned(
        share,
        f"Tokens linked up to {DOT:g} rad; 95% bands of {params.instances} starts from seed {params.seed} on. "
        f"{setting}.",
    )
    return figures


def _band(seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ends = np.array([exact_interval(int(k), len(seen)) for k in seen.sum(axis=0)])  # (T, 2)
    return ends[:, 0], ends[:, 1]


def films(params: Params, data: Data) -> Films:
    early = data["t"] <= FILM
    dynamics, _ = instance(params, params.seed)
    shown = Trajectory(data["t"][early], data["shown"][0, 0, early], dynamics)
    caption = f"n = {params.n}, d = {params.d}, beta = {params.beta:g}, V = I, causal, {READINGS[0]}, "
    caption += f"seed {params.seed}, t = 0 to {FILM:g}; red: the first token."
    return {f"Fig. 3 as a film: {READINGS[0]}": {"tokens": shown, "first": "red", "caption": caption}}


EXPERIMENT = Experiment(
    name="single-cluster",
    title="One cluster at beta = 1",
    source=SOURCE,
    figures="Fig. 3",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 48, "n": 24, "early": 50.0, "horizon": 50.0},
    full={"instances": 2000},
    films=films,
    text="Tokens uniform on the sphere under causal attention with V = I. Two claims are kept apart: that the tokens "
    "look like one cluster at t = 12, as in the picture, and that in the end all of them sit on the first token "
    "(red), which never moves. Convergence is exponential but slow: token k closes in at rate 1 - 1/k, token 2 the "
    "slowest.",
    check=check,
    finding=finding,
    topic="observation",
    leaves_out="24 tokens instead of 64, 48 starts instead of 200, and slow tokens beyond t = 50.",
)
