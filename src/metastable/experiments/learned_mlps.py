"""MLPs learned through the flow so that labelled clouds of tokens stay apart: starts, prices, lifetimes.

    x_i' = P_x( sum_j A_ij x_j + W_out tanh(W_in x_i + b) ),     A = softmax(beta <x_i, x_j>)

The price of an MLP is the mean over starts of

    mean over pairs of different labels of (1 + cos) / 2  +  mean over pairs of one label of (1 - cos) / 2

at the end of the time it is trained for, plus DECAY times the sum of squares of its numbers. It is 1 for a cloud that
collapsed, and m's regular simplex of points has (m - 2) / (2 (m - 1)), the least there is.

All MLPs are trained by one program: narrow ones have units whose numbers are 0, and stay so, having no slope. Numbers
are (task, MLP, ...), starts (task, s, n, d).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metastable.backend import Array, Tokens, jax, jnp
from metastable.equation.blocks import MLP, Block
from metastable.equation.dynamics import Dynamics
from metastable.experiments.base import Data
from metastable.initial import sphere
from metastable.learning import descend
from metastable.learning.descent import unrest
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


def first_numbers(widths: tuple[int, ...], d: int, seed: list[int]) -> dict[str, np.ndarray]:
    """A random MLP of each width to start from: entries of variance 1/d inside, small outside."""
    found: dict[str, list[np.ndarray]] = {"W_in": [], "W_out": [], "b_in": []}
    for width in widths:
        rng = np.random.default_rng([*seed, width])
        idle = (0, max(widths) - width)
        found["W_in"].append(np.pad(rng.normal(size=(width, d)) / np.sqrt(d), (idle, (0, 0))))
        found["W_out"].append(np.pad(0.3 * rng.normal(size=(d, width)) / np.sqrt(width), ((0, 0), idle)))
        found["b_in"].append(np.pad(0.3 * rng.normal(size=width), idle))
    return {name: np.stack(each) for name, each in found.items()}


def dynamics_of(numbers: Numbers, beta: Any) -> Dynamics:
    """The flow with an MLP."""
    return Dynamics(beta=beta, block=Block(mlp=MLP(**numbers, activation="tanh")))


def separation(x: Tokens, label: np.ndarray) -> Array:
    """The price of tokens (..., n, d) without the decay: see the module's first lines."""
    cosines = x @ jnp.swapaxes(x, -1, -2)  # (..., n, n)
    same = jnp.asarray(label[:, None] == label[None, :])
    own = same & ~jnp.eye(len(label), dtype=bool)
    apart = jnp.where(same, 0.0, (1.0 + cosines) / 2.0).sum(axis=(-2, -1)) / jnp.maximum((~same).sum(), 1)
    together = jnp.where(own, (1.0 - cosines) / 2.0, 0.0).sum(axis=(-2, -1)) / jnp.maximum(own.sum(), 1)
    return apart + together


def price(numbers: Numbers, x0: Tokens, label: np.ndarray, how: "Training") -> tuple[Array, Tokens]:
    """What one MLP is trained for, on starts x0 (s, n, d), and where they end."""
    end = flow(dynamics_of(numbers, how.beta), x0, [how.t], "rk4", how.dt)[-1]
    decay = DECAY * sum((jnp.square(a).sum() for a in numbers.values()), start=jnp.zeros(()))
    return separation(end, label).mean() + decay, end


class Training(NamedTuple):
    """What every training has in common: structure, but for beta."""

    clouds: int
    each: int
    beta: float
    t: float
    dt: float


def training_of(params: Any) -> Training:
    """The part of an experiment's Params that trainings are compiled for."""
    return Training(params.clouds, params.each, params.beta, params.t, params.dt)


def prices(numbers: Numbers, x0: Tokens, how: Training) -> tuple[Array, dict[str, Array]]:
    """The sum of all prices; each of them (task, MLP), and last tokens (task, MLP, s, n, d)."""
    label = labels(how)
    of_task: Any = jax.vmap(lambda one, x: price(one, x, label, how), in_axes=(0, None))
    each, ends = jax.vmap(of_task)(numbers, x0)
    return each.sum(), {"price": each, "end": ends}


@partial(jax.jit, static_argnames="how")
def looked_at(numbers: Numbers, x0: Tokens, how: Training) -> dict[str, Any]:
    """Prices, last tokens and slopes of the prices: compiled once for each size."""
    slope, found = jax.grad(prices, has_aux=True)(numbers, x0, how)
    return {**found, "slope": slope}


def learned(
    how: Training, start: Numbers, x0: np.ndarray, steps: int, report: Callable[[float], None]
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Numbers (task, MLP, ...) learned on starts x0 (task, s, n, d), and the unrest (task, MLP) of their descents."""

    def objective(numbers: Any, data: Any) -> tuple[Array, dict[str, Array]]:
        value, found = prices(numbers, data, how)
        return value, {"price": found["price"]}

    numbers, _ = descend(objective, start, jnp.asarray(x0), steps=steps, rate=0.03, report=report)
    found = looked_at(numbers, x0, how)

    def row(arrays: Numbers) -> Numbers:
        return {name: np.reshape(a, (-1, *np.shape(a)[2:])) for name, a in arrays.items()}

    each = np.asarray(found["price"])
    return numbers, unrest(row(numbers), row(found["slope"]), each.ravel()).reshape(each.shape)


def as_strong(numbers: Numbers, seed: list[int]) -> dict[str, np.ndarray]:
    """A random MLP of the same size and the same norms: entries drawn anew; those that are 0 stay."""
    rng = np.random.default_rng([*seed, 9])
    found = {}
    for name, value in numbers.items():
        drawn = rng.normal(size=np.shape(value)) * (np.asarray(value) != 0.0)
        found[name] = drawn * np.linalg.norm(value) / np.linalg.norm(drawn)
    return found


def lives(params: Any, numbers: Numbers, x0: np.ndarray) -> Data:
    """How long clouds stay apart, closest label means over time (..., T), price at the end of training.

    Of MLPs (task, k, ...) on starts (task, s, n, d): (task, k, s). A start lives until two label means are closer than
    APART = 0.5 rad, and at most ``params.longest``.
    """
    label = labels(params)
    times = np.linspace(0.0, params.longest, params.saves)
    moved = np.asarray(_run(dict(numbers), jnp.asarray(x0), params.beta, tuple(times[1:].tolist()), params.dt))
    first = np.broadcast_to(x0[:, None, None], (*moved.shape[:2], 1, *x0.shape[1:]))
    x = np.concatenate([first, moved], axis=2)  # (task, k, T, s, n, d)
    means = np.stack([x[..., label == k, :].mean(axis=-2) for k in range(params.clouds)], axis=-2)
    means = means / np.maximum(np.linalg.norm(means, axis=-1, keepdims=True), 1e-12)  # (task, k, T, s, m, d)
    cosines = means @ np.swapaxes(means, -1, -2) - 2.0 * np.eye(params.clouds)
    closest = np.swapaxes(np.arccos(np.clip(cosines.max(axis=(-2, -1)), -1.0, 1.0)), -1, -2)  # (task, k, s, T)
    met = closest < APART
    ended = np.where(met.any(axis=-1), met.argmax(axis=-1), len(times) - 1)
    at = x[:, :, int(np.abs(times - params.t).argmin())]
    return {"life": times[ended], "closest": closest, "price": np.asarray(separation(jnp.asarray(at), label))}


@partial(jax.jit, static_argnames=("times", "dt"))
def _run(numbers: Any, x0: Tokens, beta: Array, times: tuple[float, ...], dt: float) -> Tokens:
    """Every MLP of a task on all of its starts, (task, k, T, s, n, d)."""

    def one(own: Numbers, x: Tokens) -> Tokens:
        return flow(dynamics_of(own, beta), x, list(times), "rk4", dt)

    return jax.vmap(jax.vmap(one, in_axes=(0, None)))(numbers, x0)
