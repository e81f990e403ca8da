"""MLPs learned through the flow so that labelled clouds of tokens stay apart: starts, prices, lifetimes.

    x_i' = P_x( sum_j A_ij x_j + W_out tanh(W_in x_i + b) ),     A = softmax(beta <x_i, x_j>)

The price of an MLP is the mean over starts of

    mean over pairs of different labels of (1 + cos) / 2  +  mean over pairs of one label of (1 - cos) / 2

at the end of the time it is trained for, plus DECAY times the sum of squares of its numbers. It is 1 for a cloud that
collapsed, and m's regular simplex of points has (m - 2) / (2 (m - 1)), the least there is.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from metastable.backend import Array, Tokens, jax, jnp
from metastable.equation.blocks import MLP, Block
from metastable.equation.dynamics import Dynamics
from metastable.experiments.base import Data
from metastable.initial import sphere
from metastable.learning import descend
from metastable.solve.flow import flow

Numbers = Mapping[str, Any]  # W_in (m, d), W_out (d, m), b_in (m,)
DECAY = 1e-4
APART = 0.5  # radians: label means that are closer have met
SCATTER = 0.3  # of tokens about their centre, in every coordinate


def starts(params: Any, task: str, seeds: range) -> np.ndarray:
    """Starts (s, m c, d): m clouds of c tokens, about the same centres for task ``fixed``, fresh ones for ``any``."""
    m, d = params.clouds, params.d
    found = []
    for seed in seeds:
        centres = _centres(m, d, params.seed if task == "fixed" else seed)
        noise = np.random.default_rng([seed, 5]).normal(size=(m, params.each, d))
        x = (centres[:, None] + SCATTER * noise).reshape(-1, d)
        found.append(x / np.linalg.norm(x, axis=1, keepdims=True))
    return np.stack(found)


def _centres(m: int, d: int, seed: int) -> np.ndarray:
    """Random centres at least 1 rad apart, so that labels mean something."""
    for k in range(1000):
        x = sphere(m, d, seed=[seed, 6, k])
        if (x @ x.T - 2.0 * np.eye(m)).max() < np.cos(1.0):
            return x
    raise ValueError(f"{m} centres 1 rad apart were not found in {d} dimensions")


def labels(params: Any) -> np.ndarray:
    """Which cloud a token belongs to, (m c,)."""
    return np.repeat(np.arange(params.clouds), params.each)


def first_numbers(width: int, d: int, count: int, seed: int) -> dict[str, np.ndarray]:
    """``count`` random MLPs to start from: entries of variance 1/d inside, small outside."""
    rng = np.random.default_rng([seed, width])
    return {
        "W_in": rng.normal(size=(count, width, d)) / np.sqrt(d),
        "W_out": 0.3 * rng.normal(size=(count, d, width)) / np.sqrt(width),
        "b_in": 0.3 * rng.normal(size=(count, width)),
    }


def dynamics_of(numbers: Numbers | None, beta: float) -> Dynamics:
    """The flow with an MLP, or without."""
    block = None if numbers is None else Block(mlp=MLP(**numbers, activation="tanh"))
    return Dynamics(beta=beta, block=block)


def separation(x: Tokens, label: np.ndarray) -> Array:
    """The price of tokens (..., n, d) without the decay: see the module's first lines."""
    cosines = x @ jnp.swapaxes(x, -1, -2)  # (..., n, n)
    same = jnp.asarray(label[:, None] == label[None, :])
    own = same & ~jnp.eye(len(label), dtype=bool)
    apart = jnp.where(same, 0.0, (1.0 + cosines) / 2.0).sum(axis=(-2, -1)) / jnp.maximum((~same).sum(), 1)
    together = jnp.where(own, (1.0 - cosines) / 2.0, 0.0).sum(axis=(-2, -1)) / jnp.maximum(own.sum(), 1)
    return apart + together


def price(numbers: Numbers, x0: Tokens, label: np.ndarray, beta: float, t: float, dt: float) -> Array:
    """What one MLP is trained for, on starts x0 (s, n, d)."""
    end = flow(dynamics_of(numbers, beta), x0, [t], "rk4", dt)[-1]
    return separation(end, label).mean() + DECAY * sum((jnp.square(a).sum() for a in numbers.values()), start=0.0)


def learned(
    params: Any, task: str, width: int, x0: np.ndarray, report: Callable[[float], None]
) -> dict[str, np.ndarray]:
    """Numbers of ``params.trainings`` MLPs of one width, each from its own first numbers, on the same starts."""
    label = labels(params)

    def objective(numbers: Any, data: Any) -> tuple[Array, dict[str, Array]]:
        each = jax.vmap(lambda one: price(one, data, label, params.beta, params.t, params.dt))(numbers)
        return each.sum(), {"price": each}

    start = first_numbers(width, params.d, params.trainings, params.seed)
    numbers, _ = descend(objective, start, jnp.asarray(x0), steps=params.steps, rate=0.03, report=report)
    return {name: np.asarray(value) for name, value in numbers.items()}


def as_strong(numbers: Numbers, seed: int) -> dict[str, np.ndarray]:
    """A random MLP of the same size and the same norms: entries drawn anew."""
    rng = np.random.default_rng([seed, 9])
    found = {}
    for name, value in numbers.items():
        drawn = rng.normal(size=np.shape(value))
        found[name] = drawn * np.linalg.norm(value) / np.linalg.norm(drawn)
    return found


def lives(params: Any, numbers: Numbers | None, x0: np.ndarray) -> Data:
    """How long clouds stay apart (s,), closest label means over time (s, T), price at the end of training (s,).

    A start lives until two label means are closer than APART = 0.5 rad, and at most ``params.longest``.
    """
    label = labels(params)
    times = np.linspace(0.0, params.longest, params.saves)
    own = None if numbers is None else dict(numbers)
    moved = _run(own, jnp.asarray(x0), params.beta, tuple(times[1:].tolist()), params.dt)
    x = np.concatenate([x0[None], np.asarray(moved)])  # (T, s, n, d)
    means = np.stack([x[:, :, label == k].mean(axis=2) for k in range(params.clouds)], axis=2)  # (T, s, m, d)
    means = means / np.maximum(np.linalg.norm(means, axis=-1, keepdims=True), 1e-12)
    cosines = np.einsum("tsid,tsjd->tsij", means, means) - 2.0 * np.eye(params.clouds)
    closest = np.arccos(np.clip(cosines.max(axis=(-2, -1)), -1.0, 1.0)).T  # (s, T)
    met = closest < APART
    first = np.where(met.any(axis=1), met.argmax(axis=1), len(times) - 1)
    at = int(np.abs(times - params.t).argmin())
    return {"life": times[first], "closest": closest, "price": np.asarray(separation(jnp.asarray(x[at]), label))}


@partial(jax.jit, static_argnames=("beta", "times", "dt"))
def _run(numbers: Any, x0: Tokens, beta: float, times: tuple[float, ...], dt: float) -> Tokens:
    """Compiled once for each size of the MLP."""
    return flow(dynamics_of(numbers, beta), x0, list(times), "rk4", dt)
