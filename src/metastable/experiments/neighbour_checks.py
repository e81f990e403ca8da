"""The self-check of the neighbours: each model's own formula in plain NumPy, beside what the equation gives."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from metastable.backend import Array, jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.experiments import neighbour_flocks as flocks
from metastable.experiments import neighbour_opinions as averaging
from metastable.experiments.base import Check
from metastable.experiments.neighbour_flocks import velocity as _velocity
from metastable.experiments.self_checks import first_steps
from metastable.solve.simulate import simulate

_ROUNDS = 2000  # of plain row and column scaling


def check(params: Any) -> Mapping[str, Check]:
    """Velocities and layers of one start of each kind; everything is of size 1, so that 1e-10 is rounding."""
    return {
        "a layer of Hegselmann-Krause": (*_bounded(params), 1e-10),
        "the velocity of Krause's flow": (*_krause(params), 1e-10),
        "a layer of mean-shift": (*_shift(params), 1e-10),
        "doubly stochastic attention": (*_sinkhorn(params), 1e-8),
        "the velocity of Kuramoto's oscillators": (*_kuramoto(params), 1e-10),
        "a step of Vicsek's particles": (*_vicsek(params), 1e-10),
        "the velocity of Cucker and Smale's birds": (*_birds(params), 1e-10),
        "Krause's flow, first steps of a run": _krause_run(params),
        "Cucker and Smale's birds, first steps of a run": _birds_run(params),
        "mean-shift, first layer of a run": _shift_run(params),
    }


@jax.jit
def _layer(member: Dynamics, x: Array) -> Array:
    return member.layer(0.0, x, 1.0)


def _gaps(x: np.ndarray) -> np.ndarray:
    return np.asarray(x[None, :, :] - x[:, None, :])  # (i, j): x_j - x_i


def _bounded(params: Any) -> tuple[np.ndarray, np.ndarray]:
    member, x = averaging.opinions(params, params.seed)
    near = np.abs(x - x.T) <= 1.0
    return np.asarray(_layer(member, x)), (near @ x) / near.sum(axis=1, keepdims=True)


def _krause(params: Any) -> tuple[np.ndarray, np.ndarray]:
    member, x = averaging.opinions(params, params.seed, averaging.KRAUSE)
    return np.asarray(_velocity(member, x)), _krause_field(0.0, x)


def _krause_field(_: float, x: np.ndarray) -> np.ndarray:
    phi = np.maximum(1.0 - (x - x.T) ** 2, 0.0)
    a = phi / phi.sum(axis=1, keepdims=True)
    return np.asarray((a[..., None] * _gaps(x)).sum(axis=1))


def _krause_run(params: Any) -> Check:
    """By the engine of the run, which the velocities above do without."""
    member, x = averaging.opinions(params, params.seed, averaging.KRAUSE)
    return first_steps(member, np.stack([x, x]), [_krause_field], t=params.krause_t, dt=params.dt, save=61)


def _shift(params: Any) -> tuple[np.ndarray, np.ndarray]:
    member, x = averaging.probes(params, params.seed)
    return np.asarray(_layer(member, x)), _shifted(params, x)


def _shift_run(params: Any) -> Check:
    member, x = averaging.probes(params, params.seed)
    made = simulate(member, np.stack([x, x]), 1, method="layers", save=2).x[-1, 0]
    return made, _shifted(params, x), 1e-10


def _shifted(params: Any, x: np.ndarray) -> np.ndarray:
    data, probes = x[: params.n], x[params.n :]
    kernel = np.exp(-((probes[:, None] - data) ** 2).sum(axis=-1) / (2.0 * params.bandwidth**2))
    return np.concatenate([data, kernel @ data / kernel.sum(axis=1, keepdims=True)])


def _sinkhorn(params: Any) -> tuple[np.ndarray, np.ndarray]:
    shape = (min(50, params.instances), params.sinkhorn_n, 2)  # that of the runs: compiled once
    x = np.random.default_rng([params.seed, 4]).normal(0.0, 0.5, shape)
    P = np.exp(x[0] @ x[0].T)
    for _ in range(_ROUNDS):
        P = P / P.sum(axis=1, keepdims=True)
        P = P / P.sum(axis=0, keepdims=True)
    return np.asarray(averaging.doubly_stochastic(x))[0], P


def _kuramoto(params: Any) -> tuple[np.ndarray, np.ndarray]:
    member, x = flocks.oscillators(params, params.seed)
    angle = np.arctan2(x[:, 1], x[:, 0])
    turning = np.sin(angle[None, :] - angle[:, None]).mean(axis=1)
    across = np.stack([-x[:, 1], x[:, 0]], axis=1)
    return np.asarray(_velocity(member, x)), turning[:, None] * across


def _vicsek(params: Any) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([params.seed, 5])
    place, angle = rng.uniform(0.0, flocks.SIDE, (params.n, 2)), rng.uniform(-np.pi, np.pi, params.n)
    turn = rng.uniform(-0.5, 0.5, params.n)
    gap = _gaps(place)
    gap = gap - flocks.SIDE * np.round(gap / flocks.SIDE)
    near = (gap**2).sum(axis=-1) <= 1.0
    mean = near @ np.exp(1j * angle)
    heading = np.angle(mean) + turn
    u = np.stack([np.cos(heading), np.sin(heading)], axis=1)
    x = np.concatenate([place, np.stack([np.cos(angle), np.sin(angle)], axis=1)], axis=1)
    moved = np.concatenate([(place + flocks.SPEED * u) % flocks.SIDE, u], axis=1)
    return np.asarray(flocks.vicsek_step(jnp.asarray(x)[None], jnp.asarray(turn)[None]))[0], moved


def _birds(params: Any) -> tuple[np.ndarray, np.ndarray]:
    power = params.powers[0]
    member, x = flocks.birds(params, power, params.seed)
    return np.asarray(_velocity(member, x)), _birds_field(x, power)


def _birds_field(x: np.ndarray, power: float) -> np.ndarray:
    psi = (1.0 + (_gaps(x[:, :2]) ** 2).sum(axis=-1)) ** -power
    pulled = (psi[..., None] * _gaps(x[:, 2:])).mean(axis=1)
    return np.concatenate([x[:, 2:], pulled], axis=1)


def _birds_run(params: Any) -> Check:
    power = params.powers[0]
    member, x = flocks.birds(params, power, params.seed)
    field = lambda _, y: _birds_field(y, power)  # noqa: E731
    return first_steps(member, np.stack([x, x]), [field], t=params.flock_t, dt=params.dt, save=41)
