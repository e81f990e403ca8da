"""Optimal control: weights over time of least effort that bring tokens to targets, and targets out of reach.

The second paper leaves optimal weights open. Here they are: Q, K, V constant on L stretches of [0, 1],
learned through the flow on the sphere (`controlled_flows`), error + weight * effort made small.

| family    | tokens                                  | known beforehand (`theory/control_forms.py`)                  |
|-----------|-----------------------------------------|---------------------------------------------------------------|
| one token | one, V free                             | the least price, for constant V and for V over time           |
| together  | two in one place, a third elsewhere     | out of reach: they stay together; the least error             |
| opposite  | two opposite ones                       | out of reach: they stay opposite; the least error             |
| several   | ``n`` random tokens to random targets   | nothing: constant beside time-dependent weights               |
| gather    | a uniform cloud to two points           | nothing, the same; the error is the clouds' energy distance   |
| spread    | a cap of 0.5 rad to a uniform cloud     | nothing, the same                                             |
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from metastable.backend import jax, jnp
from metastable.experiments import controlled_flows as control
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Experiment, Finding, Work
from metastable.experiments.optimal_control_pictures import TITLE, draw
from metastable.experiments.optimal_control_verdicts import SOURCE, judge
from metastable.initial import cap, sphere

__all__ = ["EXPERIMENT", "Params", "draw", "judge"]
ALL = ("Q", "K", "V")


@dataclass(frozen=True)
class Params:
    """``pieces`` of time-dependent weights; ``weights`` of the effort for one token, ``small`` of it elsewhere."""

    d: int = 3
    n: int = 4
    cloud: int = 16
    beta: float = 1.0
    pieces: tuple[int, ...] = (1, 8)
    weights: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0)
    small: float = 1e-4
    steps: int = 800
    instances: int = 24
    seed: int = 0


def problem(params: Params, family: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """First tokens (n, d) and targets of one instance."""
    d, key = params.d, [seed, 17]
    if family == "one":
        return sphere(1, d, seed=key), sphere(1, d, seed=[seed, 18])
    if family == "together":
        x = sphere(2, d, seed=key)
        return np.stack([x[0], x[0], x[1]]), sphere(3, d, seed=[seed, 18])
    if family == "opposite":
        x = sphere(1, d, seed=key)
        return np.concatenate([x, -x]), sphere(2, d, seed=[seed, 18])
    if family == "several":
        return sphere(params.n, d, seed=key), sphere(params.n, d, seed=[seed, 18])
    if family == "gather":
        return sphere(params.cloud, d, seed=key), np.repeat(sphere(2, d, seed=[seed, 18]), params.cloud // 2, axis=0)
    return cap(params.cloud, d, angle=0.5, seed=key), sphere(params.cloud, d, seed=[seed, 18])


FAMILIES = ("one", "together", "opposite", "several", "gather", "spread")


def run(params: Params, work: Work) -> Data:
    tasks = [(family, pieces) for family in FAMILIES for pieces in params.pieces]
    return work.trainings({f"{family}-{pieces}": partial(_solved, params, family, pieces) for family, pieces in tasks})


def _solved(params: Params, family: str, pieces: int, report: Callable[[float], None]) -> Data:
    """One instance per seed, or per seed and weight of the effort for one token alone; (seeds, weights) then."""
    given = [problem(params, family, seed) for seed in range(params.seed, params.seed + params.instances)]
    x0, targets = np.stack([x for x, _ in given]), np.stack([y for _, y in given])
    many = params.weights if family == "one" else (params.small,)
    found = control.solved(
        ("V",) if family == "one" else ALL,
        np.repeat(x0, len(many), axis=0),
        np.repeat(targets, len(many), axis=0),
        np.tile(many, len(x0)),
        pieces,
        params.steps,
        beta=params.beta,
        loss="cloud" if family in ("gather", "spread") else "squared",
        seed=params.seed,
        report=report,
    )
    kept = {key: found[key].reshape(len(x0), len(many)) for key in ("error", "effort", "unrest")}
    return {**kept, "x0": x0, "targets": targets, "end": found["end"].reshape(len(x0), len(many), *x0.shape[1:])}


def check(params: Params) -> dict[str, Check]:
    """Where three tokens end under maps on four stretches, and the slope of the error along one way.

    The slope is compared with central differences of the plain formulas.
    """
    rng = np.random.default_rng(params.seed)
    d, beta = params.d, params.beta
    maps = {name: rng.normal(size=(4, 1, d, d)) for name in ALL}
    way = {name: rng.normal(size=(4, 1, d, d)) for name in ALL}
    x, y = sphere(3, d, seed=[params.seed, 1]), sphere(3, d, seed=[params.seed, 2])

    def by_formulas(s: float) -> np.ndarray:
        def field(t: float, z: np.ndarray) -> np.ndarray:
            k = min(3, int(np.floor(4.0 * t + 1e-6)))
            Q, K, V = (maps[name][k, 0] + s * way[name][k, 0] for name in ALL)
            return plain.on_sphere(lambda u: plain.pull(u, Q, K, V, beta))(t, z)

        end = plain.moved(field, x, 1.0, control.STEPS)
        return np.asarray(end / np.linalg.norm(end, axis=1, keepdims=True))

    def error(s: float) -> float:
        return float(np.square(by_formulas(s) - y).sum(axis=1).mean())

    own = {name: jnp.asarray(value)[None] for name, value in maps.items()}
    data = (jnp.asarray(x)[None], jnp.asarray(y)[None], jnp.zeros(1))
    slope = jax.jit(jax.grad(lambda m: control.prices(m, data, beta, "squared")[0]))(own)
    along = sum(float((np.asarray(slope[name][0]) * way[name]).sum()) for name in ALL)
    h = 1e-4
    return {
        "tokens at t = 1 under maps on four stretches": (
            control.end_of(maps, jnp.asarray(x), beta),
            by_formulas(0.0),
            1e-8,
        ),
        "slope of the error": (along, (error(h) - error(-h)) / (2 * h), 1e-5 * max(1.0, abs(along))),
    }


def finding(params: Params, data: Data) -> Finding:
    first, last = params.pieces[0], params.pieces[-1]
    ratio = data[f"one-{first}/effort"][:, 0] / data[f"one-{last}/effort"][:, 0]
    reached = [float((data[f"several-{p}/error"][:, 0] < 0.01).mean()) for p in (first, last)]
    return Finding(
        "Which weights bring tokens to given targets is left open; both papers keep the weights constant.",
        f"One token: weights over time need {1 / ratio.mean():.0%} of the effort of constant ones, as the closed form "
        f"says; {params.n} tokens come within 0.01 of random targets in {reached[0]:.0%} of cases with constant and in "
        f"{reached[1]:.0%} with time-dependent weights.",
        TITLE,
    )


EXPERIMENT = Experiment(
    name="optimal-control",
    title="Weights that bring tokens where they should be",
    source=SOURCE,
    figures="none in the papers",
    params=Params,
    run=run,
    judge=judge,
    draw=draw,
    quick={"instances": 20, "steps": 300, "weights": (0.01, 0.1), "cloud": 8, "pieces": (1, 4)},
    full={"instances": 200, "steps": 3000, "pieces": (1, 2, 4, 8)},
    check=check,
    finding=finding,
    topic="beyond",
    leaves_out="Half of the tokens of clouds and of the stretches of time, two weights of the effort, most steps.",
    text="Weights are learned through the flow: constant ones, and ones that change over time. For one token the least "
    "effort is known in closed form. Two tokens in one place, and two opposite ones, cannot be brought apart by any "
    "weights, and the least error is known. For several tokens and for clouds nothing is known beforehand: dots below "
    "the dashed line are targets that weights over time reach better than constant ones.",
)
