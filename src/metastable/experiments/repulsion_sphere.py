"""Fig. 6 of the first paper: repulsion on the sphere, d = 3, beta = 9, "negative eigenvalues".

The paper does not say which V was run, so several readings are, from the same tokens: all eigenvalues -1; random V
whose eigenvalues all have a negative real part, symmetric or not; a V whose negative eigenvalues turn, -1 and
-1/2 +- 2i, since the text describes tokens "swirling"; and the sphere's version of the last reading of Fig. 5, an
eigenvalue that attracts beside those that repel.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import sphere_checks
from metastable.experiments.base import Check, Data, Experiment, Finding, Work
from metastable.experiments.cloud_motion import nearest_angles, rotation
from metastable.experiments.negative_values import READINGS
from metastable.experiments.repulsion_sphere_pictures import TURNING, TURNS, draw, films
from metastable.experiments.second_token import SAID, angle_to_first, judge_angle
from metastable.initial import sphere
from metastable.observables import cluster_labels, sizes_of
from metastable.solve.simulate import simulate
from metastable.theory.verdicts import Verdict, from_readings, judge_number, judge_share

LINK = 0.05  # radians: about a printed dot
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
    """Three things the text says of Fig. 6, at the paper's horizon, each one verdict with a row per reading; and all
    three in one run.

    Several clusters: at least two clusters of two or more tokens (linked up to LINK) hold at least half of the tokens,
    in more than half of the starts. Denser: the mean of ln of the mean nearest-neighbour angle at T over that at 0 is
    negative; for n uniform tokens that angle is about sqrt(pi/n) and does not change. Swirling: in the second half of
    the run tokens turn by at least TURNS about one axis, and this rotation is at least COHERENT of their motion, in
    more than half of the starts (`rotation`). At once: the same start has several clusters, a smaller mean angle than
    at 0, and swirls, in more than half of the starts.

    Changed after seeing data: swirling was judged by the mean speed, which is no rotation; and the last was added,
    because each of the three held for a V of its own while the text says them of one picture.
    """
    return [
        _several(params, data),
        _denser(params, data),
        _swirling(params, data),
        _at_once(params, data),
        _second(params, data),
    ]


def _second(params: Params, data: Data) -> Verdict:
    """An exact solution, in every run with V = -I (`second_token`), at t = 5."""
    start, end = data["second"][:, 0, 0], data["second"][:, 0, -2]
    return judge_angle(start, end, params.snapshots[-1], params.beta, -1.0, _seeds(params, data), "V = -I")


def _seeds(params: Params, data: Data) -> list[int]:
    return [params.seed + k for k in range(len(data["turns"]))]


def _groups(params: Params, data: Data) -> tuple[np.ndarray, np.ndarray]:
    """Clusters of two or more tokens, and the share of the tokens that they hold, (b, readings, s) each."""
    size = data["size"]
    return (size > 1).sum(axis=-1), np.where(size > 1, size, 0).sum(axis=-1) / params.n


def _clustered(params: Params, data: Data) -> np.ndarray:
    """Whether a start ends with several clusters, (b, readings)."""
    groups, held = _groups(params, data)
    return np.asarray((groups[..., -1] >= 2) & (held[..., -1] >= 0.5))


def _swirls(data: Data) -> np.ndarray:
    """Whether a start swirls, (b, readings)."""
    return np.asarray((data["turns"] >= TURNS) & (data["coherent"] >= COHERENT))


def _at_once(params: Params, data: Data) -> Verdict:
    nearest = data["nearest"]  # (b, readings, s)
    parts = {
        "several clusters": _clustered(params, data),
        "denser": nearest[..., -1] < nearest[..., 0],
        "swirl": _swirls(data),
    }
    found = np.logical_and.reduce(list(parts.values()))
    rows = [
        judge_share(
            reading,
            SOURCE,
            found[:, k].tolist(),
            kind="observation",
            required=0.5,
            seeds=_seeds(params, data),
            notes=", ".join(f"{name} in {seen[:, k].mean():.0%}" for name, seen in parts.items()),
        )
        for k, reading in enumerate(READINGS)
    ]
    return from_readings("Several dense clusters swirl: all three in one run.", SOURCE, rows)


def _several(params: Params, data: Data) -> Verdict:
    rows, good = [], _clustered(params, data)
    for k, reading in enumerate(READINGS):
        groups, held = (part[:, k] for part in _groups(params, data))  # (b, s)
        rows.append(
            judge_share(
                reading,
                SOURCE,
                good[:, k].tolist(),
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
                _swirls(data)[:, k].tolist(),
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

    def held(verdict: Verdict) -> list[str]:
        return [row.reading for row in verdict.rows if row.status == "holds"]

    whole, gathered = len(held(_at_once(params, data))), ", ".join(held(_several(params, data)))
    swirling = ", ".join(f"{name} ({turns[name]:.1f} turns)" for name in held(_swirling(params, data)))
    return Finding(
        "Under negative eigenvalues on the sphere tokens form dense clusters that swirl (Fig. 6).",
        f"{whole or 'None'} of {len(READINGS)} readings of V does all of that at once: several clusters form with "
        f"{gathered or 'none'}, tokens swirl in the second half of a run with {swirling or 'none'}.",
        TURNING,
    )


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
