"""Particle systems on the sphere fitted to a model's tokens, layer by layer; and the same without attention.

A system takes one step x_i -> N(x_i + sum_h sum_j A^h_ij O_h V_h x_j) per layer of the model, from the model's embedded
tokens on, all as directions; beta is in Q and K, the step in O V. Its price is the mean over texts and layers of
||G - H||^2 / ||H||^2, the square of the ladder's Gram distance, G and H the cosines of its tokens and of the model's.

| system           | heads | who sees whom  | learned                        | weights           |
|------------------|-------|----------------|--------------------------------|-------------------|
| one head         | 1     | everybody      | Q, K of ``width``, V           | one for all time  |
| several heads    | H     | everybody      | Q, K, V, O of ``width``        | one for all time  |
| causal           | 1     | j <= i         | as one head                    | one for all time  |
| own layers       | 1     | everybody      | as one head                    | one for each step |
| even attention   | 1     | all alike      | V: A_ij = 1/n                  | one for all time  |
| no attention     | 1     | itself         | V: every token by itself       | one for all time  |

The last two are controls: what they explain needs no attention.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.backend import Array, Tokens, jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.equation.masks import Mask
from metastable.equation.weights import Stack, Weights
from metastable.learning.descent import Descent, optimiser_of
from metastable.solve.flow import flow

Numbers = Mapping[str, Any]
CHUNK = 10  # steps between two looks at the texts that decide when to stop
_ITSELF = Mask(lambda i, j: i == j, lambda i, n: (i, i + 1), name="itself")


@dataclass(frozen=True)
class System:
    """What a fitted system is made of; see the module's first lines."""

    heads: bool = False
    mask: Any = "full"
    attends: bool = True
    own_layers: bool = False


SYSTEMS: dict[str, System] = {
    "one head": System(),
    "several heads": System(heads=True),
    "causal": System(mask="causal"),
    "own layers": System(own_layers=True),
    "even attention": System(attends=False),
    "no attention": System(mask=_ITSELF, attends=False),
}
CONTROLS = ("even attention", "no attention")


def first_numbers(system: System, d: int, width: int, heads: int, layers: int, seed: int) -> dict[str, np.ndarray]:
    """Random numbers to start from: tokens hardly move (V is small), scores are of order 1."""
    rng = np.random.default_rng([seed, d])
    h = heads if system.heads else 1
    found: dict[str, np.ndarray] = {}
    if system.attends:
        found |= {name: 2.0 * rng.normal(size=(h, width, d)) / np.sqrt(width) for name in ("Q", "K")}
    if system.heads:
        found |= {
            "V": rng.normal(size=(h, width, d)) / np.sqrt(d),
            "O": 0.1 * rng.normal(size=(h, d, width)) / np.sqrt(d),
        }
    else:
        found["V"] = 0.1 * rng.normal(size=(h, d, d)) / np.sqrt(d)
    if system.own_layers:
        found = {name: np.repeat(value[None], layers, axis=0) for name, value in found.items()}
    return {name: value.astype(np.float32) for name, value in found.items()}


def dynamics_of(system: System, numbers: Numbers) -> Dynamics:
    """The system as a Dynamics; one unit of time is a layer."""
    maps: dict[str, Any] = {k: Stack(v) for k, v in numbers.items()} if system.own_layers else dict(numbers)
    if not system.attends:
        d = np.shape(numbers["V"])[-1]
        maps |= {name: np.zeros((1, 1, d), np.float32) for name in ("Q", "K")}
    return Dynamics(Weights(**maps), mask=system.mask)


def layers_of(system: System, numbers: Numbers, x0: Tokens, layers: int) -> Tokens:
    """Directions (layers, ..., n, d) after each step."""
    return flow(dynamics_of(system, numbers), x0, np.arange(1.0, layers + 1.0), "layers", 1.0)


def squared_distances(x: Tokens, cosines: Array) -> Array:
    """||G - H||^2 / ||H||^2 (layers, texts) of directions (layers, texts, n, d) and cosines (layers, texts, n, n)."""
    G = x @ jnp.swapaxes(x, -1, -2)
    return jnp.square(G - cosines).sum(axis=(-2, -1)) / jnp.square(cosines).sum(axis=(-2, -1))


def price(system: System, numbers: Numbers, data: tuple[Tokens, Array]) -> Array:
    """The mean of squared Gram distances; data are directions (texts, n, d) and the model's cosines."""
    x0, cosines = data
    return squared_distances(layers_of(system, numbers, x0, cosines.shape[0]), cosines).mean()


def distances(system: System, numbers: Numbers, x0: np.ndarray, cosines: np.ndarray) -> np.ndarray:
    """Gram distances (texts, layers), as the ladder measures them."""
    own = {name: jnp.asarray(value) for name, value in numbers.items()}
    go = jax.jit(lambda n, x, H: squared_distances(layers_of(system, n, x, len(cosines)), H))
    found: np.ndarray = np.sqrt(np.asarray(go(own, jnp.asarray(x0), jnp.asarray(cosines)))).T
    return found


def fitted(
    system: System,
    start: Numbers,
    train: tuple[np.ndarray, np.ndarray],
    stop: tuple[np.ndarray, np.ndarray],
    steps: int,
    report: Callable[[float], None] | None = None,
    rate: float = 0.003,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Numbers learned on ``train``, as they were when ``stop`` liked them best; and both curves, a value per CHUNK."""

    def objective(numbers: Any, data: Any) -> tuple[Array, dict[str, Array]]:
        value = price(system, numbers, data)
        return value, {}

    descent = Descent(objective, optimiser_of("adam", rate, steps), CHUNK)
    data, other = ((jnp.asarray(x, jnp.float32), jnp.asarray(H, jnp.float32)) for x, H in (train, stop))
    look = jax.jit(lambda numbers: price(system, numbers, other))
    state = descent.start(dict(start))
    best, lowest = state.numbers, float(look(state.numbers))
    curves: dict[str, list[float]] = {"train": [], "stop": [lowest]}
    for first in range(0, steps, CHUNK):
        state, curve = descent.advance(state, data, min(CHUNK, steps - first))
        curves["train"].append(float(curve["value"][0]))
        curves["stop"].append(float(look(state.numbers)))
        if curves["stop"][-1] < lowest:
            best, lowest = state.numbers, curves["stop"][-1]
        if report is not None:
            report(min(1.0, (first + CHUNK) / steps))
    return {k: np.asarray(v) for k, v in best.items()}, {k: np.array(v) for k, v in curves.items()}
