"""Fig. 6 of the first paper: repulsion on the sphere, d = 3, beta = 9, "negative eigenvalues".

The paper does not say which V was run, so several readings are, from the same tokens: all eigenvalues -1; random V
whose eigenvalues all have a negative real part, symmetric or not; a V whose negative eigenvalues turn, -1 and
-1/2 +- 2i, since the text describes tokens "swirling"; and the sphere's version of the last reading of Fig. 5, an
eigenvalue that attracts beside those that repel.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.figure import Figure

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import sphere_checks
from metastable.experiments.base import Check, Data, Experiment, Figures, Films, Finding, Work
from metastable.experiments.cloud_motion import nearest_angles, rotation
from metastable.experiments.negative_values import READINGS
from metastable.experiments.second_token import SAID, angle_to_first, judge_angle
from metastable.initial import sphere
from metastable.observables import cluster_labels, sizes_of
from metastable.plots import series, snapshots
from metastable.plots.style import captioned
from metastable.solve.simulate import simulate
from metastable.theory.verdicts import Verdict, from_readings, judge_number, judge_share
from metastable.trajectory import Trajectory

LINK = 0.05  # radians: about a printed dot
TURNS = 0.5  # about one axis in the second half of a run, at least, make a swirl
COHERENT = 0.5  # of the tokens' motion, at least, is that common rotation
CHUNK = 50
SOURCE = "first paper, sec. 4.2.3 and Fig. 6"


@dataclass(frozen=True)
class Params:
    """Fig. 6's setting; its times are not given, so those of Fig. 5 and the usual horizon are shown."""

    n: int = 64
    beta: float = 9.0
    dt: float = 0.1
    snapshots: tuple[float, ...] = (0.1, 1.2, 5.0)
    t: float = 15.0
    instances: int = 200
    seed: int = 0


def instance(params: Params, seed: int, reading: str) -> tuple[Dynamics, np.ndarray]:
    """Dynamics and tokens of one instance."""
    weights = Weights(V=READINGS[reading](seed))
    return Dynamics(weights, beta=params.beta, mask="causal"), sphere(params.n, 3, seed=seed)


def tokens(params: Params, seeds: Sequence[int], reading: str, times: np.ndarray) -> np.ndarray:
    """Tokens of every start at ``times``, (b, T, n, 3)."""
    chosen = [instance(params, s, reading) for s in seeds]
    x0 = np.stack([x for _, x in chosen])
    return np.stack([one.x for one in simulate([dyn for dyn, _ in chosen], x0, params.t, params.dt, save=times)])


def run(params: Params, work: Work) -> Data:
    times = np.unique(np.concatenate([np.linspace(0.0, params.t, 76), params.snapshots]))
    seen = [int(np.abs(times - t).argmin()) for t in (0.0, *params.snapshots, params.t)]

    def chunk(first: int, last: int) -> Data:
        seeds = range(params.seed + first, params.seed + last)
        parts: dict[str, list[np.ndarray]] = {
            "size": [],
            "nearest": [],
            "turns": [],
            "coherent": [],
            "shown": [],
            "second": [],
        }
        for reading in READINGS:
            whole = tokens(params, seeds, reading, times)  # (b, T, n, 3)
            x = whole[:, seen]  # (b, s, n, 3)
            turns, coherent = rotation(whole, times)
            parts["turns"].append(turns)
            parts["coherent"].append(coherent)
            parts["size"].append(sizes_of(cluster_labels(x, LINK)))
            parts["nearest"].append(nearest_angles(x).mean(axis=-1))
            parts["shown"].append(whole[: int(first == 0)])
            parts["second"].append(angle_to_first(x))
        return {name: np.stack(values, axis=1) for name, values in parts.items()}  # (b, readings, ...)

    data = work.parts("runs", params.instances, min(CHUNK, params.instances), chunk)
    return {**data, "t": times, "seen": times[seen]}


def check(params: Params) -> dict[str, Check]:
    """Tokens of one start under every reading, at t = 1, beside the plain formulas."""
    small = replace(params, t=sphere_checks.UNTIL, dt=sphere_checks.DT)
    seeds = range(params.seed, params.seed + min(CHUNK, params.instances))
    start = sphere(params.n, 3, seed=params.seed)
    return {
        f"tokens, {reading}": (
            tokens(small, seeds, reading, np.array([0.0, small.t]))[0, -1],
            sphere_checks.tokens(start, V(params.seed), params.beta),
            sphere_checks.ALLOWED,
        )
        for reading, V in READINGS.items()
    }


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Three things the text says of Fig. 6, at the paper's horizon, each one verdict with a row per reading.

    Several clusters: at least two clusters of two or more tokens (linked up to LINK) hold at least half of the tokens,
    in more than half of the starts. Denser: the mean of ln of the mean nearest-neighbour angle at T over that at 0 is
    negative; for n uniform tokens that angle is about sqrt(pi/n) and does not change. Swirling: in the second half of
    the run tokens turn by at least TURNS about one axis, and this rotation is at least COHERENT of their motion, in
    more than half of the starts (`rotation`).

    Changed after seeing data: swirling was judged by the mean speed, which is no rotation.
    """
    return [_several(params, data), _denser(params, data), _swirling(params, data), _second(params, data)]


def _second(params: Params, data: Data) -> Verdict:
    """An exact solution, in every run with V = -I (`second_token`), at t = 5."""
    start, end = data["second"][:, 0, 0], data["second"][:, 0, -2]
    return judge_angle(start, end, params.snapshots[-1], params.beta, -1.0, _seeds(params, data), "V = -I")


def _seeds(params: Params, data: Data) -> list[int]:
    return [params.seed + k for k in range(len(data["turns"]))]


def _several(params: Params, data: Data) -> Verdict:
    rows = []
    for k, reading in enumerate(READINGS):
        size = data["size"][:, k]
        groups = (size > 1).sum(axis=-1)  # (b, s)
        held = np.where(size > 1, size, 0).sum(axis=-1) / params.n
        rows.append(
            judge_share(
                reading,
                SOURCE,
                [bool(g >= 2 and h >= 0.5) for g, h in zip(groups[:, -1], held[:, -1])],
                kind="observation",
                required=0.5,
                seeds=_seeds(params, data),
                notes=f"mean {groups[:, -1].mean():.2f} clusters of two or more tokens, which hold "
                f"{held[:, -1].mean():.0%} of the tokens (at t = 0: {groups[:, 0].mean():.2f} and "
                f"{held[:, 0].mean():.0%})",
            )
        )
    return from_readings(f"Structured multi-cluster arrangements form by t = {params.t:g}.", SOURCE, rows)


def _denser(params: Params, data: Data) -> Verdict:
    rows = []
    for k, reading in enumerate(READINGS):
        nearest = data["nearest"][:, k]
        rows.append(
            judge_number(
                reading,
                SOURCE,
                np.log(np.maximum(nearest[:, -1], 1e-16) / nearest[:, 0]),
                (-np.inf, 0.0),
                kind="observation",
                notes=f"mean nearest-neighbour angle {nearest[:, 0].mean():.3g} at 0, {nearest[:, -1].mean():.3g} "
                f"at {params.t:g}",
            )
        )
    return from_readings(
        "Clusters become denser.", SOURCE, rows, notes="ln of the nearest-neighbour angle at the end over that at t = 0"
    )


def _swirling(params: Params, data: Data) -> Verdict:
    rows = []
    for k, reading in enumerate(READINGS):
        turns, coherent = data["turns"][:, k], data["coherent"][:, k]
        rows.append(
            judge_share(
                reading,
                SOURCE,
                [bool(a >= TURNS and c >= COHERENT) for a, c in zip(turns, coherent)],
                kind="observation",
                required=0.5,
                seeds=_seeds(params, data),
                notes=f"median {np.median(turns):.2f} turns about one axis, {np.median(coherent):.0%} of the motion",
            )
        )
    return from_readings(
        "Tokens swirl while clusters separate.",
        SOURCE,
        rows,
        notes=f"common rotation from t = {params.t / 2:g} to {params.t:g}",
    )


def finding(params: Params, data: Data) -> Finding:
    turns = dict(zip(READINGS, np.median(data["turns"], axis=0)))
    real = [value for name, value in turns.items() if "2i" not in name and "random V" not in name]
    return Finding(
        "Under negative eigenvalues on the sphere tokens form dense clusters that swirl (Fig. 6).",
        f"In the second half of a run tokens turn {turns['eigenvalues -1, -1/2 +- 2i']:.1f} times about one axis when "
        f"V has eigenvalues -1/2 +- 2i, and at most {max(real):.2f} times when its eigenvalues are real.",
        "How much tokens turn",
    )


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    shown = [*params.snapshots, params.t]
    figures = {}
    for k, reading in enumerate(READINGS):
        picture = snapshots(data["shown"][0, k], data["t"], times=shown, first="red")
        figures[f"Fig. 6 read as {reading}"] = captioned(picture, f"{_setting(params)} {reading}; seed {params.seed}.")
    return {
        **figures,
        "How close the nearest other token is": _closeness(params, data),
        "How much tokens turn": _turning(params, data),
    }


def _setting(params: Params) -> str:
    return (
        f"n = {params.n} tokens on the sphere (d = 3), causal attention, beta = {params.beta:g}, Q = K = I, the first "
        "token red;"
    )


def _closeness(params: Params, data: Data) -> Figure:
    nearest = data["nearest"]  # (b, readings, s)
    half = 1.96 * nearest.std(axis=0) / np.sqrt(len(nearest))
    mean = dict(zip(READINGS, nearest.mean(axis=0)))
    figure = series(
        data["seen"],
        mean,
        band={name: (line - half[k], line + half[k]) for k, (name, line) in enumerate(mean.items())},
        reference={"uniform tokens": (data["seen"][[0, -1]], [np.sqrt(np.pi / params.n)] * 2)},
        ylabel="nearest-neighbour angle (rad)",
        yscale="log",
        marks=True,
        outside=True,
    )
    return captioned(
        figure, f"Mean over {params.instances} starts with its 95% interval. n = {params.n}, beta = {params.beta:g}."
    )


def _turning(params: Params, data: Data) -> Figure:
    ordered = np.sort(data["turns"], axis=0)  # (b, readings)
    share = (np.arange(len(ordered)) + 0.5) / len(ordered)
    figure = series(
        share,
        {name: ordered[:, k] for k, name in enumerate(READINGS)},
        reference={f"a swirl: {TURNS:g} turns": ([0.0, 1.0], [TURNS, TURNS])},
        xlabel="share of starts",
        ylabel=f"turns about one axis, t = {params.t / 2:g} to {params.t:g}",
        outside=True,
    )
    return captioned(
        figure,
        f"The common rotation of all tokens in the second half of each run, {params.instances} starts in order. "
        f"n = {params.n}, d = 3, causal, beta = {params.beta:g}, Q = K = I; seeds from {params.seed} on.",
    )


def films(params: Params, data: Data) -> Films:
    return {
        f"Fig. 6 as a film, {reading}": {
            "tokens": Trajectory(data["t"], data["shown"][0, k], instance(params, params.seed, reading)[0]),
            "first": "red",
            "caption": f"{_setting(params)} {reading}; t = 0 to {params.t:g}, seed {params.seed}.",
        }
        for k, reading in enumerate(READINGS)
    }


EXPERIMENT = Experiment(
    name="repulsion-sphere",
    title="Repulsion on the sphere",
    source=SOURCE,
    figures="Fig. 6",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 24, "n": 32},
    full={"instances": 2000},
    films=films,
    text="Causal attention with negative eigenvalues at beta = 9. The paper does not give V, so five readings are "
    "run from the same tokens and each thing the text says (several clusters, denser, swirling) is judged for each "
    "of them. Swirling is a rotation of all tokens about one axis. " + SAID,
    check=check,
    finding=finding,
    topic="observation",
    leaves_out="Quick runs have n = 32 tokens instead of the paper's 64.",
)
