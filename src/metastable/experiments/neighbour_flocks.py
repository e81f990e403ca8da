"""Neighbours of attention that align: Kuramoto's oscillators, Vicsek's particles, Cucker and Smale's birds.

Kuramoto: beta = 0, un-normalised, on the circle: theta_i' = (1/n) sum_j sin(theta_j - theta_i).
Vicsek: tokens are (place, heading) in R^4. The score looks at places only (0 within distance 1 on a periodic square,
-inf beyond), the pull moves headings only, to the mean of those in sight; they are put back to length 1, turned by a
random angle from [-eta/2, eta/2], and places move on by 0.03 along them.
Cucker-Smale: tokens are (place, velocity) in R^4, un-normalised attention psi(|x_i - x_j|) = (1 + |x_i - x_j|^2)^-b,
pull by differences of velocities, and a linear map that adds x' = v: one Dynamics.
"""

from typing import Any

import numpy as np
from scipy.integrate import simpson

from metastable.backend import jax, jnp
from metastable.equation.blocks import Block
from metastable.equation.dynamics import Dynamics
from metastable.equation.scores import Score, squared_distance
from metastable.equation.weights import Weights
from metastable.experiments.base import Data
from metastable.initial import sphere
from metastable.observables import order_parameter
from metastable.solve.simulate import simulate
from metastable.theory.verdicts import Verdict, judge_number, judge_share

SOURCE = "second paper, related work"
_EPS = float(np.finfo(np.float64).eps)
PLACES = np.eye(4)[:2]  # (2, 4): what the score looks at
HEADINGS = np.diag([0.0, 0.0, 1.0, 1.0])  # what the pull moves
WAY = 0.3
SIDE, SPEED = 5.0, 0.03  # of Vicsek's square and particles


@jax.jit
def velocity(member: Dynamics, x: Any) -> Any:
    """The velocity as one compiled program, not one for every operation."""
    return member.velocity(0.0, x)


def oscillators(params: Any, seed: int) -> tuple[Dynamics, np.ndarray]:
    """Identical oscillators, uniform on the circle."""
    return Dynamics(beta=0.0, normalise="unnormalised"), sphere(params.n, 2, seed=seed)


def run_kuramoto(params: Any, first: int, last: int) -> Data:
    chosen = [oscillators(params, s) for s in range(params.seed + first, params.seed + last)]
    dynamics, x0 = chosen[0][0], np.stack([x for _, x in chosen])
    x = simulate(dynamics, x0, params.t, params.dt, save=81).x  # (T, b, n, 2)
    angle = np.arctan2(x0[..., 1], x0[..., 0])
    turning = np.sin(angle[:, None, :] - angle[:, :, None]).mean(axis=-1)  # (b, n)
    v = np.asarray(velocity(dynamics, x0))
    order = order_parameter(x)  # (T, b)
    centre = x[-1].mean(axis=1, keepdims=True)
    far = np.arccos(np.clip((x[-1] * centre).sum(axis=-1) / np.linalg.norm(centre, axis=-1), -1.0, 1.0))
    return {
        "kuramoto_order": order.T,
        "kuramoto_far": far.max(axis=-1),
        "kuramoto_equation": np.abs(v[..., 1] * x0[..., 0] - v[..., 0] * x0[..., 1] - turning).max(axis=-1),
    }


# --- Vicsek -------------------------------------------------------------------------------------------------------


def in_sight(q: Any, k: Any, beta: Any) -> Any:
    """0 within distance 1/sqrt(beta) on the periodic square, -inf beyond."""
    gap = q[..., :, None, :] - k[..., None, :, :]
    gap = gap - SIDE * jnp.round(gap / SIDE)
    return jnp.where(beta * (gap**2).sum(axis=-1) <= 1.0, 0.0, -jnp.inf)


VICSEK = Dynamics(
    Weights(PLACES, PLACES, HEADINGS), score=Score(in_sight, pull="difference", name="vicsek"), geometry="euclidean"
)


@jax.jit
def vicsek_step(x: Any, turns: Any) -> Any:
    """One step of particles (b, n, 4): headings become their neighbours' mean, turned by ``turns``; places move on."""
    heading = (x + VICSEK.pull(0.0, x))[..., 2:]
    length = jnp.sqrt((heading**2).sum(axis=-1, keepdims=True))
    heading = heading / jnp.where(length > 0, length, 1.0)
    c, s = jnp.cos(turns), jnp.sin(turns)
    u = jnp.stack([c * heading[..., 0] - s * heading[..., 1], s * heading[..., 0] + c * heading[..., 1]], axis=-1)
    return jnp.concatenate([(x[..., :2] + SPEED * u) % SIDE, u], axis=-1)


@jax.jit
def _vicsek_orders(x: Any, turns: Any) -> Any:
    """The order parameter (steps, b) along a run from particles (b, n, 4) with the given turns (steps, b, n)."""

    def step(x: Any, turn: Any) -> tuple[Any, Any]:
        x = vicsek_step(x, turn)
        return x, jnp.sqrt((x[..., 2:].mean(axis=-2) ** 2).sum(axis=-1))

    return jax.lax.scan(step, x, turns)[1]


def run_vicsek(params: Any, first: int, last: int) -> Data:
    """The order parameter at the end (b, noises): the mean over the last half of the steps."""
    orders = []
    for eta in params.noises:
        draws = [np.random.default_rng([params.seed + k, 5]) for k in range(first, last)]
        place = np.stack([rng.uniform(0.0, SIDE, (params.n, 2)) for rng in draws])
        angle = np.stack([rng.uniform(-np.pi, np.pi, params.n) for rng in draws])
        x = np.concatenate([place, np.cos(angle)[..., None], np.sin(angle)[..., None]], axis=-1)
        turns = np.stack([rng.uniform(-eta / 2, eta / 2, (params.vicsek_steps, params.n)) for rng in draws], axis=1)
        found = np.asarray(_vicsek_orders(jnp.asarray(x), jnp.asarray(turns)))
        orders.append(found[params.vicsek_steps // 2 :].mean(axis=0))
    return {"vicsek_order": np.stack(orders, axis=1)}


# --- Cucker and Smale ---------------------------------------------------------------------------------------------


def drift(x: Any) -> Any:
    """x' = v of birds (..., 4)."""
    return jnp.concatenate([x[..., 2:], jnp.zeros_like(x[..., 2:])], axis=-1)


class _Flock:
    """ln psi = -b ln(1 + |x_i - x_j|^2), with b in beta's place."""

    def __call__(self, q: Any, k: Any, beta: Any) -> Any:
        return -beta * jnp.log1p(squared_distance(q, k))


FLOCK = Score(_Flock(), pull="difference", name="cucker-smale")


def birds(params: Any, power: float, seed: int) -> tuple[Dynamics, np.ndarray]:
    """Birds at normal places of spread ``flock_spread`` with normal velocities; psi = (1 + r^2)^-power."""
    rng = np.random.default_rng([seed, 6])
    place = params.flock_spread * rng.standard_normal((params.n, 2))
    start = np.concatenate([place, rng.standard_normal((params.n, 2))], axis=1)
    weights = Weights(PLACES, PLACES, HEADINGS)
    member = Dynamics(
        weights, power, normalise="unnormalised", score=FLOCK, geometry="euclidean", block=Block(mlp=drift)
    )
    return member, start


def run_flocks(params: Any, first: int, last: int) -> Data:
    """Spread of velocities at the end relative to the start (b, powers), the drift of their mean, and its curve."""
    found: dict[str, list[np.ndarray]] = {"left": [], "mean": [], "paths": [], "way": []}
    for power in params.powers:
        chosen = [birds(params, power, s) for s in range(params.seed + first, params.seed + last)]
        x = simulate(chosen[0][0], np.stack([x for _, x in chosen]), params.flock_t, params.dt, save=41).x
        v = x[..., 2:]  # (T, b, n, 2)
        mean = v.mean(axis=2, keepdims=True)
        spread = np.sqrt(((v - mean) ** 2).sum(axis=-1).mean(axis=-1))  # (T, b)
        found["left"].append(spread[-1] / spread[0])
        found["mean"].append(np.linalg.norm(mean[-1] - mean[0], axis=-1)[:, 0])
        found["paths"].append((spread / spread[0]).T)
        way = simpson(v, dx=params.flock_t / (len(x) - 1), axis=0)  # (b, n, 2)
        found["way"].append(np.abs(x[-1, ..., :2] - x[0, ..., :2] - way).max(axis=(1, 2)))
    return {f"flock_{key}": np.stack(values, axis=1) for key, values in found.items()}


# --- verdicts -----------------------------------------------------------------------------------------------------


def judge_kuramoto(params: Any, data: Data, seeds: list[int]) -> list[Verdict]:
    """Velocities agree to 4 n eps (two sums of n terms of size 1). The order parameter never falls beyond n eps. Once
    all oscillators are within 0.1 rad of their mean, inside a half-circle, they contract to one point."""
    falls = (data["kuramoto_order"][:, :-1] - data["kuramoto_order"][:, 1:]).max(axis=-1)
    return [
        judge_share(
            "At beta = 0 un-normalised attention on the circle is Kuramoto's equation with equal frequencies.",
            SOURCE,
            [bool(e <= 4 * params.n * _EPS) for e in data["kuramoto_equation"]],
            seeds=seeds,
            notes=f"largest difference {data['kuramoto_equation'].max():.1e}",
        ),
        judge_share(
            "Kuramoto oscillators synchronise, and their order parameter never falls on the way.",
            SOURCE,
            [
                False if f > params.n * _EPS else (True if far <= 0.1 else None)
                for f, far in zip(falls, data["kuramoto_far"])
            ],
            seeds=seeds,
            notes=f"at t = {params.t:g}; smallest order parameter then {data['kuramoto_order'][:, -1].min():.6f}",
        ),
    ]


def judge_vicsek(params: Any, data: Data) -> list[Verdict]:
    """Vicsek's transition: order at little noise, none at much (Vicsek et al. 1995).

    Ordered: the order parameter is at least 0.9 in the mean over starts at the least noise. Disordered: at the most
    noise, a full turn, it is at most twice 1/sqrt(n), where n independent headings have 0.89/sqrt(n). Falling: its rank
    correlation with the noise is at most -0.9 in the mean over starts.
    """
    order = data["vicsek_order"]  # (b, noises)
    ranks = order.argsort(axis=1).argsort(axis=1).astype(float)
    places = np.arange(len(params.noises), dtype=float)
    correlation = [float(np.corrcoef(row, places)[0, 1]) for row in ranks]
    each = ", ".join(f"{eta:.2g}: {order[:, k].mean():.2f}" for k, eta in enumerate(params.noises))
    common: dict[str, Any] = {"kind": "observation"}
    first, last = params.noises[0], params.noises[-1]
    return [
        judge_number(
            f"Vicsek's particles align at little noise, eta = {first:.2g}: order 0.9 or more.",
            SOURCE, order[:, 0], (0.9, 1.0), notes=f"order by noise, {each}", **common,
        ),
        judge_number(
            f"They do not at much, eta = {last:.3g}: order at most 2/sqrt(n).",
            SOURCE, order[:, -1], (0.0, 2.0 / np.sqrt(params.n)), **common,
        ),
        judge_number(
            "Their order falls with the noise (rank correlation, start by start).",
            SOURCE, correlation, (-1.0, -0.9), **common,
        ),
    ]  # fmt: skip


def judge_flocks(params: Any, data: Data, seeds: list[int]) -> list[Verdict]:
    """Cucker and Smale 2007: with psi = (1 + r^2)^-b, b <= 1/2, every start flocks; the mean velocity never changes.

    Flocking: the spread of velocities is at most 1% of its first value at the horizon; a start that is slower is
    undecided while it still falls, as the theorem gives no time. For b above 1/2 flocking depends on the start: spread
    out as these are, most keep at least half of their spread.

    The way was added after a first look, because a lost V, which keeps the pull off the places, moved no other verdict:
    Simpson's rule over 41 saves errs by 0.1 where velocities of size 3 fall at the rate 1, and without V birds gather,
    by their spread, 3.
    """
    left, paths = data["flock_left"], data["flock_paths"]  # (b, powers), (b, powers, T)
    verdicts = [
        judge_share(
            "The mean velocity of Cucker and Smale's birds never changes.",
            SOURCE,
            [bool(m <= 1e-9) for m in data["flock_mean"].max(axis=1)],
            seeds=seeds,
            notes=f"largest change {data['flock_mean'].max():.1e}",
        ),
        judge_share(
            "Cucker and Smale's birds move by their velocities alone: nothing pulls their places.",
            SOURCE,
            [bool(w <= WAY) for w in data["flock_way"].max(axis=1)],
            seeds=seeds,
            notes=f"largest difference of the way from the integral of the velocity {data['flock_way'].max():.1e}, "
            f"allowed {WAY:g}",
        ),
    ]
    for k, power in enumerate(params.powers):
        falling = paths[:, k, -1] < paths[:, k, -2]
        if power <= 0.5:
            verdicts.append(
                judge_share(
                    f"Cucker and Smale's birds flock from every start for b = {power:g} <= 1/2.",
                    SOURCE,
                    [True if s <= 0.01 else (None if f else False) for s, f in zip(left[:, k], falling)],
                    seeds=seeds,
                    notes=f"spread of velocities left at t = {params.flock_t:g}: mean {left[:, k].mean():.2g}",
                )
            )
        else:
            verdicts.append(
                judge_share(
                    f"For b = {power:g} > 1/2 birds that start far apart need not flock: half the spread is left.",
                    SOURCE,
                    [bool(s >= 0.5) for s in left[:, k]],
                    kind="observation",
                    required=0.5,
                    seeds=seeds,
                    notes=f"spread of velocities left at t = {params.flock_t:g}: mean {left[:, k].mean():.2g}",
                )
            )
    return verdicts
