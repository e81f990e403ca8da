"""Many small control problems at once: weights over time that bring tokens to targets, each with its own numbers.

Numbers of problem b are Q, K, V (L, d, d), constant on L equal stretches of [0, 1]; its price is

    error( x(1), targets ) + weight_b * effort,        effort = integral over [0, 1] of |Q|^2 + |K|^2 + |V|^2

(Frobenius norms of the maps that are learned). Adam treats every entry by itself, so that a descent of the sum of all
prices is one of each.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from metastable.backend import Array, Tokens, jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Stack, Weights
from metastable.experiments.base import Data
from metastable.learning import LOSSES, descend
from metastable.solve.flow import flow

STEPS = 16  # of rk4 in one unit of time; a multiple of the numbers of pieces
Maps = Mapping[str, Any]


def first_maps(names: tuple[str, ...], count: int, pieces: int, d: int, seed: int) -> dict[str, np.ndarray]:
    """Maps (count, pieces, 1, d, d) to start from: the same on every stretch, small; Q and K near I."""
    rng = np.random.default_rng([seed, d])
    found = {}
    for name in names:
        one = 0.3 / np.sqrt(d) * rng.normal(size=(count, 1, 1, d, d)) + (0.0 if name == "V" else np.eye(d))
        found[name] = np.repeat(one, pieces, axis=1)
    return found


def dynamics_of(maps: Maps, beta: float) -> Dynamics:
    """The flow on the sphere with maps (L, 1, d, d) on L equal stretches of [0, 1]."""
    pieces = np.shape(next(iter(maps.values())))[0]
    return Dynamics(Weights(**{name: Stack(value, 1.0 / pieces) for name, value in maps.items()}), beta)


def end_of(maps: Maps, x0: Tokens, beta: float) -> Tokens:
    """Tokens (n, d) at time 1."""
    return flow(dynamics_of(maps, beta), x0, [1.0], "rk4", 1.0 / STEPS)[-1]


def effort_of(maps: Maps) -> Array:
    """The integral over [0, 1] of the squared norms of maps (L, 1, d, d)."""
    total: Array = sum((jnp.square(value).sum() / value.shape[0] for value in maps.values()), start=jnp.zeros(()))
    return total


def priced(maps: Maps, data: tuple[Tokens, Tokens, Array], beta: float, loss: str) -> dict[str, Array]:
    """Errors and efforts (B,), last tokens (B, n, d); data are first tokens, targets (B, n, d), weights (B,)."""
    x0, targets, _ = data
    ends = jax.vmap(lambda one, x: end_of(one, x, beta))(maps, x0)
    errors = jax.vmap(lambda x, y: LOSSES[loss](x[None], y[None]))(ends, targets)
    return {"error": errors, "effort": jax.vmap(effort_of)(maps), "end": ends}


def prices(maps: Maps, data: tuple[Tokens, Tokens, Array], beta: float, loss: str) -> tuple[Array, dict[str, Array]]:
    """The sum of all prices, with errors and efforts (B,)."""
    found = priced(maps, data, beta, loss)
    terms = {name: found[name] for name in ("error", "effort")}
    return (found["error"] + data[2] * found["effort"]).sum(), terms


def unrest(maps: Maps, data: tuple[Tokens, Tokens, Array], beta: float, loss: str) -> Array:
    """|slope| |maps| / price of every problem, (B,): how far a descent is from its end.

    In a bowl whose bottom is no further away than the maps are large, a price is above the least one by at most so much
    of itself.
    """

    def norm(arrays: Maps) -> Array:
        return jnp.sqrt(jnp.stack([jnp.square(a).sum(axis=(1, 2, 3, 4)) for a in arrays.values()]).sum(axis=0))

    slope, terms = jax.grad(prices, has_aux=True)(maps, data, beta, loss)
    found: Array = norm(slope) * norm(maps) / (terms["error"] + data[2] * terms["effort"])
    return found


def solved(
    names: tuple[str, ...],
    x0: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    pieces: int,
    steps: int,
    *,
    beta: float = 1.0,
    loss: str = "squared",
    seed: int = 0,
    report: Callable[[float], None] | None = None,
) -> Data:
    """Errors, efforts and `unrest` (B,), last tokens (B, n, d), and the maps, name by name, of the best found."""

    def objective(maps: Any, data: Any) -> tuple[Array, dict[str, Array]]:
        return prices(maps, data, beta, loss)

    start = first_maps(names, len(x0), pieces, x0.shape[-1], seed)
    data = (jnp.asarray(x0), jnp.asarray(targets), jnp.asarray(weights))
    maps, _ = descend(objective, start, data, steps=steps, rate=0.05, report=report)
    found = jax.jit(lambda own, data: {**priced(own, data, beta, loss), "unrest": unrest(own, data, beta, loss)})(
        maps, data
    )
    assert bool(jnp.isfinite(found["error"]).all())
    return {name: np.asarray(array) for name, array in {**found, **maps}.items()}
