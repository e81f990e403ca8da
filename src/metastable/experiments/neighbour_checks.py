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
    phi = np.maximum(1.0 - (x - x.T) ** 2, 0.0)
    a = phi / phi.sum(axis=1, keepdims=True)
    return np.asarray(_velocity(member, x)), (a[..., None] * _gaps(x)).sum(axis=1)


def _shift(params: Any) -> tuple[np.ndarray, np.ndarray]:
    member, x = averaging.probes(params, params.seed)
    data, probes = x[: params.n], x[params.n :]
    kernel = np.exp(-((probes[:, None] - data) ** 2).sum(axis=-1) / (2.0 * params.bandwidth**2))
    moved = np.concatenate([data, kernel @ data / kernel.sum(axis=1, keepdims=True)])
    return np.asarray(_layer(member, x)), moved


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
    psi = (1.0 + (_gaps(x[:, :2]) ** 2).sum(axis=-1)) ** -power
    pulled = (psi[..., None] * _gaps(x[:, 2:])).mean(axis=1)
    return np.asarray(_velocity(member, x)), np.concatenate([x[:, 2:], pulled], axis=1)
