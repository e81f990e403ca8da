"""Fig. 5 of the first paper: repulsion on the circle, d = 2, beta = 1, "V_lambda_max = -1".

The setting can be read in two ways, and they behave differently, so both are run: every eigenvalue is -1 (V = -I), or
the eigenvalue that repels is -1 beside one that attracts (V = diag(1, -1)).
"""

from dataclasses import dataclass

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments.base import Data, Experiment, Figures, Films, Work
from metastable.initial import sphere
from metastable.observables import cluster_labels, count_of, order_parameter
from metastable.plots import series, snapshots
from metastable.solve.simulate import simulate
from metastable.theory.verdicts import Verdict, judge_number, judge_share
from metastable.trajectory import Trajectory

LINK = 0.05  # radians: about a printed dot
READINGS: dict[str, np.ndarray] = {"V = -I": -np.eye(2), "V = diag(1, -1)": np.diag([1.0, -1.0])}
SOURCE = "first paper, sec. 4.2.3 and Fig. 5"


@dataclass(frozen=True)
class Params:
    """Fig. 5's setting; the published snapshots end at 5, the paper's runs at 15."""

    n: int = 64
    beta: float = 1.0
    dt: float = 0.1
    snapshots: tuple[float, ...] = (0.1, 1.2, 5.0)
    t: float = 15.0
    instances: int = 200
    seed: int = 0


def instance(params: Params, seed: int, reading: str) -> tuple[Dynamics, np.ndarray]:
    """Dynamics and tokens of one instance."""
    weights = Weights(V=READINGS[reading])
    return Dynamics(weights, beta=params.beta, mask="causal"), sphere(params.n, 2, seed=seed)


def run(params: Params, work: Work) -> Data:
    times = np.unique(np.concatenate([np.linspace(0.0, params.t, 76), params.snapshots]))

    def chunk(first: int, last: int) -> Data:
        seeds = range(params.seed + first, params.seed + last)
        parts = []
        for reading in READINGS:
            x0 = np.stack([instance(params, s, reading)[1] for s in seeds])
            parts.append(simulate(instance(params, params.seed, reading)[0], x0, params.t, params.dt, save=times).x)
        x = np.moveaxis(np.stack(parts), 2, 0)  # (b, 2, T, n, 2)
        labels = cluster_labels(x, LINK)
        return {
            "count": count_of(labels),
            "opposite": _opposite(x, labels),
            "order": order_parameter(x),
            "shown": x[:1] if first == 0 else x[:0],
        }

    return {**work.parts("runs", params.instances, min(100, params.instances), chunk), "t": times}


def _opposite(x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether the tokens are two clusters whose centres are opposite to within 2 LINK, (...)."""
    first = (labels == 0)[..., None]
    a, b = (x * first).sum(axis=-2), (x * ~first).sum(axis=-2)  # (..., 2)
    norms = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    apart = (a * b).sum(axis=-1) <= np.cos(np.pi - 2.0 * LINK) * norms
    return np.asarray((count_of(labels) == 2) & apart & (norms > 0))


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """The claims of sec. 4.2.3 under each reading.

    Clusters at opposite sides: exactly two clusters (chains of links up to LINK) whose centres are opposite up to
    2 LINK, in more than half of the starts, since one picture is shown as typical; at the last published snapshot and
    at the paper's usual horizon. Separation: the mean squared distance of two tokens is 2 (1 - r^2) with
    r = |mean of the tokens|, so the gain is 2 (r(0)^2 - r(T)^2), whose mean must be positive.
    """
    seeds = [params.seed + k for k in range(len(data["count"]))]
    verdicts = []
    for k, reading in enumerate(READINGS):
        for when in (params.snapshots[-1], params.t):
            at = int(np.abs(data["t"] - when).argmin())
            verdicts.append(
                judge_share(
                    f"By t = {when:g} the tokens form two clusters at opposite sides of the circle, read as {reading}.",
                    SOURCE,
                    [bool(v) for v in data["opposite"][:, k, at]],
                    kind="observation",
                    required=0.5,
                    seeds=seeds,
                    notes=f"mean number of clusters {data['count'][:, k, at].mean():.2f}; uniform tokens would make "
                    f"{_by_chance(params.n):.1f} by chance",
                )
            )
        verdicts.append(
            judge_number(
                f"Tokens move so as to increase their mean separation, read as {reading}.",
                SOURCE,
                2.0 * (data["order"][:, k, 0] ** 2 - data["order"][:, k, -1] ** 2),
                (0.0, np.inf),
                kind="observation",
                notes=f"gain in mean squared distance of two tokens by t = {params.t:g}; r goes from "
                f"{data['order'][:, k, 0].mean():.3f} to {data['order'][:, k, -1].mean():.3f}",
            )
        )
    return verdicts


def _by_chance(n: int) -> float:
    """Expected clusters of n uniform tokens on the circle: each of n gaps is longer than LINK with this chance."""
    return n * (1.0 - LINK / (2.0 * np.pi)) ** (n - 1)


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    shown = [*params.snapshots, params.t]
    figures = {
        f"Fig. 5 read as {reading}": snapshots(data["shown"][0, k], data["t"], times=shown, first="red")
        for k, reading in enumerate(READINGS)
    }
    counts = data["count"].astype(float)
    half = 1.96 * counts.std(axis=0) / np.sqrt(len(counts))  # (2, T)
    mean = dict(zip(READINGS, counts.mean(axis=0)))
    figures["Clusters over time, both readings"] = series(
        data["t"],
        mean,
        band={name: (line - half[k], line + half[k]) for k, (name, line) in enumerate(mean.items())},
        reference={"uniform tokens, by chance": (data["t"][[0, -1]], [_by_chance(params.n)] * 2)},
        ylabel="clusters",
    )
    return figures


def films(params: Params, data: Data) -> Films:
    return {
        f"Fig. 5 as a film, {reading}": {
            "tokens": Trajectory(data["t"], data["shown"][0, k], instance(params, params.seed, reading)[0]),
            "first": "red",
        }
        for k, reading in enumerate(READINGS)
    }


EXPERIMENT = Experiment(
    name="repulsion-circle",
    title="Repulsion on the circle",
    source=SOURCE,
    figures="Fig. 5",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 24, "n": 32},
    full={"instances": 4000},
    films=films,
    text="The published setting may mean V = -I or V = diag(1, -1); both are run from the same tokens. With V = -I "
    "tokens spread and no clusters form beyond those that uniform tokens make by chance. With V = diag(1, -1) they "
    "gather at the two ends of the attracting axis, later than the published last snapshot. The first token is red.",
)
