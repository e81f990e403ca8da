"""Fig. 6 of the first paper: repulsion on the sphere, d = 3, beta = 9, "negative eigenvalues".

The paper does not say which V was run. Three readings are: all eigenvalues -1; the sphere's version of the second
reading of Fig. 5, diag(1, -1, -1); and, since the text describes tokens "swirling", one whose negative eigenvalues
turn, -1 and -1/2 +- 2i.
"""

from dataclasses import dataclass

import numpy as np

from metastable.backend import Tokens, jax
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights, from_eigenvalues
from metastable.experiments.base import Data, Experiment, Figures, Films, Work
from metastable.initial import sphere
from metastable.observables import cluster_labels, sizes_of
from metastable.plots import series, snapshots
from metastable.solve.simulate import simulate
from metastable.theory.verdicts import Verdict, judge_number, judge_share
from metastable.trajectory import Trajectory

LINK = 0.05  # radians: about a printed dot
READINGS: dict[str, np.ndarray] = {
    "V = -I": -np.eye(3),
    "V = diag(1, -1, -1)": np.diag([1.0, -1.0, -1.0]),
    "eigenvalues -1, -1/2 +- 2i": from_eigenvalues([-1.0, -0.5 + 2.0j, -0.5 - 2.0j]),
}
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
    weights = Weights(V=READINGS[reading])
    return Dynamics(weights, beta=params.beta, mask="causal"), sphere(params.n, 3, seed=seed)


def run(params: Params, work: Work) -> Data:
    times = np.unique(np.concatenate([np.linspace(0.0, params.t, 76), params.snapshots]))
    seen = [int(np.abs(times - t).argmin()) for t in (0.0, *params.snapshots, params.t)]

    def chunk(first: int, last: int) -> Data:
        x0 = np.stack([sphere(params.n, 3, seed=params.seed + k) for k in range(first, last)])
        parts: dict[str, list[np.ndarray]] = {"size": [], "nearest": [], "speed": [], "shown": []}
        for reading in READINGS:
            dynamics, _ = instance(params, params.seed, reading)
            whole = simulate(dynamics, x0, params.t, params.dt, save=times).x  # (T, b, n, 3)
            x = np.moveaxis(whole[seen], 0, 1)  # (b, s, n, 3)
            parts["size"].append(sizes_of(cluster_labels(x, LINK)))
            parts["nearest"].append(_nearest(x).mean(axis=-1))
            parts["speed"].append(np.linalg.norm(_velocity(dynamics, x), axis=-1).mean(axis=-1))
            parts["shown"].append(np.moveaxis(whole, 1, 0)[: int(first == 0)])
        return {name: np.stack(values, axis=1) for name, values in parts.items()}  # (b, readings, ...)

    return {**work.parts("runs", params.instances, min(50, params.instances), chunk), "t": times, "seen": times[seen]}


@jax.jit
def _velocity(dynamics: Dynamics, x: Tokens) -> Tokens:
    return dynamics.velocity(0.0, x)


def _nearest(x: np.ndarray) -> np.ndarray:
    """Angle from every token to its nearest other token, (..., n)."""
    cosine = x @ np.swapaxes(x, -1, -2) - 3.0 * np.eye(x.shape[-2])  # (..., n, n), itself out of reach
    near = np.take_along_axis(x, cosine.argmax(axis=-1)[..., None], axis=-2)
    return np.asarray(2.0 * np.arcsin(np.minimum(1.0, np.linalg.norm(x - near, axis=-1) / 2.0)))


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge(params: Params, data: Data) -> list[Verdict]:
    """Three things the text says of Fig. 6, under each reading, at the paper's horizon.

    Several clusters: at least two clusters of two or more tokens (linked up to LINK) hold at least half of the tokens,
    in more than half of the starts. Denser: the mean of ln of the mean nearest-neighbour angle at T over that at 0 is
    negative; for n uniform tokens that angle is about sqrt(pi/n) and does not change. Swirling: tokens still move by
    more than a dot, LINK, per time unit.
    """
    seeds = [params.seed + k for k in range(len(data["speed"]))]
    verdicts = []
    for k, reading in enumerate(READINGS):
        size, nearest = data["size"][:, k], data["nearest"][:, k]
        groups = (size > 1).sum(axis=-1)  # (b, s)
        held = np.where(size > 1, size, 0).sum(axis=-1) / params.n
        verdicts += [
            judge_share(
                f"Structured multi-cluster arrangements form by t = {params.t:g}, read as {reading}.",
                SOURCE,
                [bool(g >= 2 and h >= 0.5) for g, h in zip(groups[:, -1], held[:, -1])],
                kind="observation",
                required=0.5,
                seeds=seeds,
                notes=f"mean {groups[:, -1].mean():.2f} clusters of two or more tokens, which hold "
                f"{held[:, -1].mean():.0%} of the tokens (at t = 0: {groups[:, 0].mean():.2f} and "
                f"{held[:, 0].mean():.0%})",
            ),
            judge_number(
                f"Clusters become denser, read as {reading}.",
                SOURCE,
                np.log(np.maximum(nearest[:, -1], 1e-16) / nearest[:, 0]),
                (-np.inf, 0.0),
                kind="observation",
                notes=f"mean nearest-neighbour angle {nearest[:, 0].mean():.3g} at 0, {nearest[:, -1].mean():.3g} "
                f"at {params.t:g}",
            ),
            judge_number(
                f"Tokens keep swirling, that is, still move visibly, read as {reading}.",
                SOURCE,
                data["speed"][:, k, -1],
                (LINK, np.inf),
                kind="observation",
                notes=f"mean speed in radians per time unit at t = {params.t:g}",
            ),
        ]
    return verdicts


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(params: Params, data: Data) -> Figures:
    shown = [*params.snapshots, params.t]
    figures = {
        f"Fig. 6 read as {reading}": snapshots(data["shown"][0, k], data["t"], times=shown, first="red")
        for k, reading in enumerate(READINGS)
    }
    nearest = data["nearest"]  # (b, readings, s)
    half = 1.96 * nearest.std(axis=0) / np.sqrt(len(nearest))
    mean = dict(zip(READINGS, nearest.mean(axis=0)))
    figures["How close the nearest other token is"] = series(
        data["seen"],
        mean,
        band={name: (line - half[k], line + half[k]) for k, (name, line) in enumerate(mean.items())},
        reference={"uniform tokens": (data["seen"][[0, -1]], [np.sqrt(np.pi / params.n)] * 2)},
        ylabel="nearest-neighbour angle (rad)",
        yscale="log",
        marks=True,
    )
    return figures


def films(params: Params, data: Data) -> Films:
    return {
        f"Fig. 6 as a film, {reading}": {
            "tokens": Trajectory(data["t"], data["shown"][0, k], instance(params, params.seed, reading)[0]),
            "first": "red",
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
    quick={"instances": 12, "n": 32},
    full={"instances": 2000},
    films=films,
    text="Causal attention with negative eigenvalues at beta = 9. The paper does not give V, so three readings are "
    "run from the same tokens and each thing the text says (several clusters, denser, swirling) is judged for each "
    "of them. Only a V with complex eigenvalues makes tokens swirl, and only one with a positive eigenvalue gathers "
    "them in clusters. The first token is red.",
)
