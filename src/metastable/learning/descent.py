"""Gradient descent in chunks of compiled steps: what `fit` and the experiments on learning share.

An objective is a function of (numbers, data) that returns (value, terms): the number to make small, and named numbers
to keep a curve of. ``data`` is passed on as it is, so that large arrays are not compiled into the step.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from metastable.backend import Array, jax, jnp, ready
from metastable.errors import InputError, door, unknown

Objective = Callable[[Any, Any], tuple[Any, Mapping[str, Any]]]
Curve = dict[str, np.ndarray]  # term -> (steps, ...)
CHUNK = 50  # steps between two reports


def optax() -> Any:
    """The library of optimisers, or the sentence that says how to get it."""
    try:
        import optax as library
    except ImportError as error:
        raise InputError("Learning needs optax; install it with `pip install metastable[learn]`.") from error
    return library


def _cosine(rate: float, steps: int) -> Any:
    return optax().cosine_decay_schedule(rate, max(1, steps))


# name -> (rate, steps) -> optimiser; the rate falls to zero along a cosine. Add one: a line here.
OPTIMISERS: dict[str, Callable[[float, int], Any]] = {
    "adam": lambda rate, steps: optax().adam(_cosine(rate, steps)),
    "sgd": lambda rate, steps: optax().sgd(_cosine(rate, steps), momentum=0.9),
    "lbfgs": lambda rate, steps: optax().lbfgs(),  # chooses its own steps
}


def optimiser_of(given: Any, rate: float, steps: int) -> Any:
    """The optimiser behind a name, or one of optax's own."""
    if isinstance(given, str):
        if given not in OPTIMISERS:
            raise unknown("optimiser", given, OPTIMISERS)
        return OPTIMISERS[given](rate, steps)
    if not (callable(getattr(given, "init", None)) and callable(getattr(given, "update", None))):
        raise InputError(
            f"optimiser must be one of {', '.join(OPTIMISERS)} or an optimiser of optax, not {type(given).__name__}."
        )
    return given


class State(NamedTuple):
    """Where a descent is: numbers, the optimiser's memory, the best numbers so far, and whether it met nan or inf."""

    numbers: Any
    memory: Any
    best: Any
    lowest: Array
    broken: Array


@door
class Descent:
    """A descent that can be stopped and taken up again: `start`, then `advance` chunk after chunk."""

    def __init__(self, objective: Objective, optimiser: Any, most: int = CHUNK) -> None:
        self._objective = objective
        self._optimiser = optax().with_extra_args_support(optimiser)
        self._most = most
        self._step = jax.jit(self._one)  # traced once, although `_many` looks at it twice
        self._steps = jax.jit(self._many)

    def start(self, numbers: Any) -> State:
        """The state before the first step."""
        ready()
        own = jax.tree_util.tree_map(jnp.asarray, numbers)
        unmet = jnp.full((), jnp.inf, float)  # of a type that no step changes: otherwise the next would compile again
        return State(own, self._optimiser.init(own), own, unmet, jnp.asarray(False))

    def advance(self, state: State, data: Any, count: int) -> tuple[State, Curve]:
        """``count`` steps further, at most ``most``; the curve holds value, terms and slopes before each of them.

        Of numbers in a dict, ``slope NAME`` is the largest entry of the gradient, in absolute value.
        """
        state, curve = self._steps(state, data, count)
        return state, {name: np.asarray(values)[:count] for name, values in curve.items()}

    def _many(self, state: State, data: Any, count: Array) -> tuple[State, Any]:
        """The number of steps is a traced number, so that any of them shares one compilation."""
        shapes = jax.eval_shape(lambda s: self._step(s, data)[1], state)
        curve = {name: jnp.zeros((self._most, *one.shape), one.dtype) for name, one in shapes.items()}

        def body(k: Array, carried: tuple[State, Any]) -> tuple[State, Any]:
            state, terms = self._step(carried[0], data)
            return state, {name: carried[1][name].at[k].set(value) for name, value in terms.items()}

        out: tuple[State, Any] = jax.lax.fori_loop(0, count, body, (state, curve))
        return out

    def _one(self, state: State, data: Any) -> tuple[State, Any]:
        (value, terms), slope = jax.value_and_grad(self._objective, has_aux=True)(state.numbers, data)
        finite = jnp.isfinite(value) & jnp.all(
            jnp.asarray([jnp.isfinite(leaf).all() for leaf in jax.tree_util.tree_leaves(slope)])
        )
        better = finite & (value < state.lowest)
        best = _chosen(better, state.numbers, state.best)
        change, memory = self._optimiser.update(
            slope,
            state.memory,
            state.numbers,
            value=value,
            grad=slope,
            value_fn=lambda numbers: self._objective(numbers, data)[0],
        )
        go = finite & ~state.broken  # after a nan nothing moves any more
        numbers = jax.tree_util.tree_map(lambda a, b: jnp.where(go, a + b, a), state.numbers, change)
        lowest = jnp.where(better, value, state.lowest).astype(state.lowest.dtype)
        new = State(numbers, _chosen(go, memory, state.memory), best, lowest, state.broken | ~finite)
        return new, {"value": value, **terms, **_sizes(slope)}


def _sizes(slope: Any) -> dict[str, Array]:
    return {f"slope {name}": jnp.abs(g).max() for name, g in slope.items()} if isinstance(slope, dict) else {}


def _chosen(first: Array, a: Any, b: Any) -> Any:
    return jax.tree_util.tree_map(partial(jnp.where, first), a, b)


def descend(
    objective: Objective,
    numbers: Any,
    data: Any = None,
    *,
    steps: int = 300,
    rate: float = 0.05,
    optimiser: Any = "adam",
    report: Callable[[float], None] | None = None,
) -> tuple[Any, Curve]:
    """Numbers after ``steps`` steps, and the curve of the objective with its terms, (steps, ...) each.

    The last numbers, not the best: Adam treats every entry by itself, so that a sum over independent problems is a
    descent of each of them, and the rate ends at zero.

    Examples
    --------
    >>> found, curve = descend(lambda a, _: ((a - 3.0) ** 2, {}), np.array(0.0), steps=200, rate=0.2)
    >>> abs(float(found) - 3.0) < 1e-3
    True
    """
    descent = Descent(objective, optimiser_of(optimiser, rate, steps))
    state = descent.start(numbers)
    curves = []
    for first in range(0, steps, CHUNK):
        state, curve = descent.advance(state, data, min(CHUNK, steps - first))
        curves.append(curve)
        if report is not None:
            report(min(1.0, (first + CHUNK) / steps))
    joined = {name: np.concatenate([c[name] for c in curves]) for name in curves[0]} if curves else {}
    return jax.tree_util.tree_map(np.asarray, state.numbers), joined


def unrest(numbers: Mapping[str, Any], slopes: Mapping[str, Any], prices: Any) -> np.ndarray:
    """|slope| |numbers| / price of many descents at once, (B,): how far each of them is from its end.

    Arrays are (B, ...), prices (B,). In a bowl whose bottom is no further away than the numbers are large, a price is
    above the least one by at most so much of itself.

    >>> unrest({"a": np.array([[3.0, 4.0]])}, {"a": np.array([[0.0, 0.1]])}, np.array([2.0])).tolist()
    [0.25]
    """

    def norm(arrays: Mapping[str, Any]) -> np.ndarray:
        each = [np.square(np.asarray(a, float)).reshape(len(a), -1).sum(axis=1) for a in arrays.values()]
        return np.asarray(np.sqrt(np.sum(each, axis=0)))

    return np.asarray(norm(slopes) * norm(numbers) / np.asarray(prices))
