"""Many small control problems at once: weights over time that bring tokens to targets, each with its own numbers.

Numbers of problem b are Q, K, V (L, d, d), constant on L equal stretches of [0, 1]; its price is

    error( x(1), targets ) + weight_b * effort,        effort = integral over [0, 1] of |Q|^2 + |K|^2 + |V|^2

(Frobenius norms). Problems of several kinds share one program, which is compiled once:

- weights on p of the L stretches, p a divisor of L: the maps are averaged over groups of L / p stretches;
- fewer tokens than others: each in as many copies as it takes, which changes neither attention nor errors;
- V alone is free: Q and K are the identity, and cost nothing.

Adam treats every entry by itself, so that a descent of the sum of all prices is one of each.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metastable.backend import Array, Tokens, jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Stack, Weights
from metastable.experiments.base import Data
from metastable.learning import LOSSES, descend
from metastable.learning.descent import unrest
from metastable.solve.flow import flow

Maps = Mapping[str, Any]
NAMES = ("Q", "K", "V")


class Problems(NamedTuple):
    """What is asked, problem by problem."""

    x0: Any  # first tokens (B, n, d)
    targets: Any  # (B, n, d)
    weights: Any  # of the effort (B,)
    pieces: Any  # stretches of time on which weights may differ (B,)
    alone: Any  # whether V alone is free (B,)
    cloud: Any  # whether the error is the energy distance of clouds, not the mean of |x_i - y_i|^2 (B,)


def first_maps(d: int, pieces: int, seeds: np.ndarray) -> dict[str, np.ndarray]:
    """Maps (B, pieces, 1, d, d) to start from, by seed: the same on every stretch, small; Q and K near I."""
    drawn = {int(s): np.random.default_rng([s, d, 19]).normal(size=(len(NAMES), 1, 1, d, d)) for s in set(seeds)}
    noise = 0.3 / np.sqrt(d) * np.stack([drawn[int(s)] for s in seeds])  # (B, 3, 1, 1, d, d)
    centre = {"Q": np.eye(d), "K": np.eye(d), "V": np.zeros((d, d))}
    return {name: np.repeat(centre[name] + noise[:, k], pieces, axis=1) for k, name in enumerate(NAMES)}


def in_use(maps: Maps, pieces: Array, alone: Array) -> dict[str, Array]:
    """The maps (L, 1, d, d) that one problem's tokens feel."""
    L, d = maps["V"].shape[0], maps["V"].shape[-1]
    group = jnp.arange(L) * pieces // L
    same = (group[:, None] == group[None, :]).astype(float)
    means = {name: jnp.tensordot(same / same.sum(axis=1, keepdims=True), maps[name], 1) for name in NAMES}
    return {name: value if name == "V" else jnp.where(alone, jnp.eye(d), value) for name, value in means.items()}


def dynamics_of(maps: Maps, beta: float) -> Dynamics:
    """The flow on the sphere with maps (L, 1, d, d) on L equal stretches of [0, 1]."""
    pieces = np.shape(maps["V"])[0]
    return Dynamics(Weights(**{name: Stack(value, 1.0 / pieces) for name, value in maps.items()}), beta)


def end_of(maps: Maps, x0: Tokens, beta: float, grid: int) -> Tokens:
    """Tokens (n, d) at time 1, after ``grid`` steps of rk4: a multiple of the number of stretches."""
    return flow(dynamics_of(maps, beta), x0, [1.0], "rk4", 1.0 / grid)[-1]


def effort_of(maps: Maps, alone: Array) -> Array:
    """The integral over [0, 1] of the squared norms of maps (L, 1, d, d)."""
    own = {name: jnp.square(value).sum() / value.shape[0] for name, value in maps.items()}
    total: Array = own["V"] + jnp.where(alone, 0.0, own["Q"] + own["K"])
    return total


def prices(maps: Maps, given: Problems, beta: float, grid: int) -> tuple[Array, dict[str, Array]]:
    """The sum of all prices, with errors and efforts (B,) and last tokens (B, n, d)."""

    def one(own: Maps, this: Problems) -> dict[str, Array]:
        felt = in_use(own, this.pieces, this.alone)
        end = end_of(felt, this.x0, beta, grid)
        squared, cloud = (LOSSES[name](end[None], this.targets[None]) for name in ("squared", "cloud"))
        return {"error": jnp.where(this.cloud, cloud, squared), "effort": effort_of(felt, this.alone), "end": end}

    found = jax.vmap(one)(maps, given)
    return (found["error"] + given.weights * found["effort"]).sum(), found


@partial(jax.jit, static_argnames="grid")
def looked_at(maps: Maps, given: Problems, beta: float, grid: int) -> dict[str, Any]:
    """What `prices` found besides their sum, and its slope: compiled once for each size of the batch."""
    slope, found = jax.grad(prices, has_aux=True)(maps, given, beta, grid)
    return {**found, "slope": slope}


def solved(
    given: Problems,
    start: Maps,
    steps: int,
    *,
    beta: float = 1.0,
    grid: int = 16,
    report: Callable[[float], None] | None = None,
) -> Data:
    """Errors, efforts and `unrest` (B,) and last tokens (B, n, d) after so many steps from the maps ``start``."""

    def objective(maps: Any, data: Any) -> tuple[Array, dict[str, Array]]:
        value, found = prices(maps, data, beta, grid)
        return value, {name: found[name] for name in ("error", "effort")}

    data = jax.tree_util.tree_map(jnp.asarray, given)
    maps, _ = descend(objective, start, data, steps=steps, rate=0.05, report=report)
    found = looked_at(maps, data, beta, grid)
    assert bool(jnp.isfinite(found["error"]).all())
    free = {name: np.where((name != "V") & given.alone[:, None, None, None, None], 0.0, maps[name]) for name in NAMES}
    resting = unrest(free, found.pop("slope"), found["error"] + data.weights * found["effort"])
    return {name: np.asarray(array) for name, array in found.items()} | {"unrest": resting}
