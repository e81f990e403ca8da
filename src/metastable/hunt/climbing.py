"""Gradient ascent on the settling time over weights and tokens, held within the rules.

Reverse mode through a plain Runge-Kutta integration of the flow up to a short horizon (`claims.SHORT`). The settling
time does not reward slow directions (see `separation`), so what is climbed is the delay before attention settles. The
gradient of each part (spectrum, Q^T K, values, tokens) is scaled to length one and several step lengths are tried at
once; a step is taken only if it raises the settling time of the instance brought back within the rules.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from metastable.backend import Array, jax, jnp
from metastable.hunt.claims import Claim
from metastable.hunt.instances import CLIMBED, Batch, constrained, joined
from metastable.hunt.rules import Rules

STEPS = (0.3, 0.1, 0.03, 0.01)  # lengths tried, relative to the number of entries' root


@partial(jax.jit, static_argnames=("soft",))
def _slopes(soft: Callable[..., Array], parts: tuple[Array, ...]) -> tuple[Array, tuple[Array, ...]]:
    def height(free: tuple[Array, ...], rest: tuple[Array, ...]) -> Array:
        (a, b, G, E, z), (partner, grows) = free, rest
        return soft(a, b, partner, G, E, z, grows)

    a, b, partner, G, E, z, grows = parts
    return jax.vmap(jax.value_and_grad(height))((a, b, G, E, z), (partner, grows))


@partial(jax.jit, static_argnames=("soft",))
def _heights(soft: Callable[..., Array], parts: tuple[Array, ...]) -> Array:
    return jax.vmap(soft)(*parts)


def heights(claim: Claim, batch: Batch) -> np.ndarray:
    """Settling times at the short horizon, (B,)."""
    return _finite(np.asarray(_heights(claim.soft, _parts(batch))))


def climb(claim: Claim, batch: Batch, rules: Rules, steps: int) -> tuple[Batch, np.ndarray, np.ndarray]:
    """The batch after some steps uphill, with settling times before and after."""
    now = batch
    first = height = heights(claim, now)
    for _ in range(steps):
        _, slopes = _slopes(claim.soft, _parts(now))
        tried = [constrained(_moved(now, slopes, size), rules) for size in STEPS]
        reached = heights(claim, joined(tried)).reshape(len(STEPS), len(now))
        best = reached.argmax(axis=0)  # (B,)
        better = reached.max(axis=0) > height
        if not better.any():
            break
        height = np.where(better, reached.max(axis=0), height)
        together = joined([now, *tried])
        places = np.arange(len(now))
        now = together.take(np.where(better, (best + 1) * len(now) + places, places))
    return replace(now, origin=np.full(len(now), CLIMBED)), first, height


def _parts(batch: Batch) -> tuple[Array, ...]:
    names = (batch.a, batch.b, batch.partner, batch.G, batch.E, batch.z, batch.grows)
    return tuple(jnp.asarray(part) for part in names)


def _moved(batch: Batch, slopes: tuple[Array, ...], size: float) -> Batch:
    a, b, G, E, z = (_unit(np.asarray(s)) for s in slopes)
    shared = (batch.E != 0.0).any(axis=(1, 2, 3), keepdims=True)  # heads that share their values go on sharing them
    return replace(
        batch,
        a=batch.a + size * a,
        b=batch.b + size * b * (batch.b != 0.0),
        G=batch.G + size * G,
        E=batch.E + size * E * shared,
        z=batch.z + size * z,
    )


def _unit(slope: np.ndarray) -> np.ndarray:
    """Each instance's gradient with root mean square 1; zeros where it is not finite."""
    slope = np.nan_to_num(slope, nan=0.0, posinf=0.0, neginf=0.0)
    largest = np.abs(slope).max(axis=tuple(range(1, slope.ndim)), keepdims=True)
    slope = slope / np.where(largest > 0.0, largest, 1.0)
    size = np.sqrt((slope**2).mean(axis=tuple(range(1, slope.ndim)), keepdims=True))
    return np.asarray(slope / np.where(size > 0.0, size, 1.0))


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, -np.inf)
