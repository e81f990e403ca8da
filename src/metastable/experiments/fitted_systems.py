"""Particle systems on the sphere fitted to a model's tokens, layer by layer; and the same without attention.

A system takes one step x_i -> N(x_i + sum_h sum_j A^h_ij O_h V_h x_j) per layer of the model, from the model's embedded
tokens on, all as directions; beta is in Q and K, the step in O V. Its price is the mean over texts and layers of
||G - H||^2 / ||H||^2, the square of the ladder's Gram distance, G and H the cosines of its tokens and of the model's.

| system           | heads | who sees whom  | learned                        | weights           |
|------------------|-------|----------------|--------------------------------|-------------------|
| one head         | 1     | everybody      | Q, K of ``width``, V           | one for all time  |
| several heads    | H     | everybody      | Q, K, V, O of ``width``        | one for all time  |
| causal           | 1     | j <= i         | as one head                    | one for all time  |
| causal heads     | H     | j <= i         | as several heads               | one for all time  |
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
from metastable.experiments.base import Data
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
    "causal heads": System(heads=True, mask="causal"),
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


def squared_distances(x: Any, cosines: Any) -> Any:
    """||G - H||^2 / ||H||^2 (layers, texts) of directions (layers, texts, n, d) and cosines (layers, texts, n, n)."""
    G = x @ x.swapaxes(-1, -2)
    return ((G - cosines) ** 2).sum(axis=(-2, -1)) / (cosines**2).sum(axis=(-2, -1))


def price(system: System, numbers: Numbers, data: tuple[Tokens, Array]) -> Array:
    """The mean of squared Gram distances; data are directions (texts, n, d) and the model's cosines."""
    x0, cosines = data
    value: Array = squared_distances(layers_of(system, numbers, x0, cosines.shape[0]), cosines).mean()
    return value


Clouds = tuple[np.ndarray, np.ndarray]  # directions (texts, n, d) and the model's cosines (layers, texts, n, n)


def fitted(
    system: System,
    start: Numbers,
    train: Clouds,
    stop: Clouds,
    judged: Clouds,
    steps: int,
    report: Callable[[float], None] | None = None,
    rate: float = 0.003,
) -> tuple[dict[str, np.ndarray], Data]:
    """Numbers learned on ``train``, as they were when ``stop`` liked them best, and what was measured on the way.

    ``train`` and ``stop`` are both prices, a value per CHUNK; ``seen`` and ``distance`` the Gram distances (texts,
    layers) of the numbers, as the ladder measures them, on texts of the fit and on judged ones. All texts are measured
    at every look, so that one program does it.
    """

    def objective(numbers: Any, data: Any) -> tuple[Array, dict[str, Array]]:
        value = price(system, numbers, data)
        return value, {}

    descent = Descent(objective, optimiser_of("adam", rate, steps), CHUNK)
    parts = [(jnp.asarray(x, jnp.float32), jnp.asarray(H, jnp.float32)) for x, H in (train, stop, judged)]
    every = (np.concatenate([x for x, _ in parts]), np.concatenate([H for _, H in parts], axis=1))
    first, last = len(train[0]), len(train[0]) + len(stop[0])  # of the texts to stop by
    look = jax.jit(lambda numbers, x, H: squared_distances(layers_of(system, numbers, x, H.shape[0]), H))

    def looked(state: Any) -> np.ndarray:
        return np.asarray(look(state.numbers, *every))  # (layers, texts)

    state = descent.start(dict(start))
    best, found = state.numbers, looked(state)
    curves: dict[str, list[float]] = {"train": [], "stop": [float(found[:, first:last].mean())]}
    for done in range(0, steps, CHUNK):
        state, curve = descent.advance(state, parts[0], min(CHUNK, steps - done))
        now = looked(state)
        curves["train"].append(float(curve["value"][0]))
        curves["stop"].append(float(now[:, first:last].mean()))
        if curves["stop"][-1] < float(found[:, first:last].mean()):
            best, found = state.numbers, now
        if report is not None:
            report(min(1.0, (done + CHUNK) / steps))
    measured = {"seen": np.sqrt(found[:, :first]).T, "distance": np.sqrt(found[:, last:]).T}
    return {k: np.asarray(v) for k, v in best.items()}, {k: np.array(v) for k, v in curves.items()} | measured
