"""The dense engine: sums compiled by JAX. Any part, any method, any device; the one that others are compared with."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from metastable.backend import Array, jax, jnp
from metastable.engines.costs import dense_seconds
from metastable.engines.interface import Engine, Saved, State, Stops
from metastable.equation.attention import mix as dense_mix
from metastable.equation.dynamics import Mix
from metastable.solve import stepping
from metastable.solve.methods import Method
from metastable.solve.plan import Plan
from metastable.solve.stepping import Reached, Stepped

_MOST_ENTRIES = 2**23  # attention entries of all runs that are computed together
_READ = (32, 256, 2048)  # the same for adaptive methods
_SIZES = (8, 32, 160, 1024)  # stops are padded to one of these numbers: few shapes, few compilations


class Dense(Engine):
    """Sums over tokens compiled by JAX."""

    name = "dense"
    about = "compiled by JAX; any dynamics, any device"

    def supports(self, plan: Plan) -> str | None:
        if plan.model.geometry.rescales:
            return "the rescaled flow is held in a chart (engine 'chart')"
        return None

    def cost(self, plan: Plan) -> float:
        return dense_seconds(plan)

    def start(self, plan: Plan, x: np.ndarray) -> State:
        x = plan.number(x)
        if plan.method.adaptive:
            return {"x": x, "t": np.asarray(0.0)}
        return {"before": x, "now": x, "k": np.asarray(0), "at": plan.number(0.0)}

    def advance(self, plan: Plan, state: State, stops: Stops) -> tuple[State, Saved]:
        return advance(plan, state, stops, dense_mix)


def advance(plan: Plan, state: State, stops: Stops, mix: Mix) -> tuple[State, Saved]:
    """All runs to the stops, as many at once as memory allows; ``mix`` makes the sums."""
    most = max(1, _MOST_ENTRIES // (plan.n**2 * plan.model.weights.heads))
    go = _adaptive if plan.method.adaptive else _fixed
    parts = []
    for first in range(0, plan.runs, most):
        these = slice(first, first + most)
        some = plan if plan.runs <= most else plan.members(these)
        own = {
            name: a[these] if np.ndim(a) > 1 or (np.ndim(a) and len(a) == plan.runs) else a for name, a in state.items()
        }
        parts.append(go(some, own, stops, mix))
    if len(parts) == 1:
        return parts[0]
    after = {
        name: np.concatenate([p[0][name] for p in parts]) if np.ndim(parts[0][0][name]) else parts[0][0][name]
        for name in parts[0][0]
    }
    x = np.concatenate([p[1].x for p in parts], axis=1)
    reached, exhausted = (np.concatenate([getattr(p[1], name) for p in parts]) for name in ("reached", "exhausted"))
    return after, Saved(x, reached, exhausted)


# --- which axes of what is stacked ----------------------------------------------------------------------------------


def stacked(plan: Plan) -> Any:
    """The dynamics of all runs as one: itself where they share it, arrays with the runs in front otherwise."""
    if plan.single:
        return cast(plan.model, plan.dtype)
    return cast(stack([plan.of(run) for run in range(plan.runs)]), plan.dtype)


def stack(parts: Sequence[Any]) -> Any:
    """Equal structures with their numbers stacked."""
    return jax.tree_util.tree_map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *parts)


def cast(part: Any, dtype: str) -> Any:
    """The same part with its floats in ``dtype``."""
    return jax.tree_util.tree_map(
        lambda a: np.asarray(a) if np.asarray(a).dtype.kind in "iu" else np.asarray(a, dtype), part
    )


def run_keys(plan: Plan) -> Array:
    """The random key of each run: the seed with the run's number folded in, so that chunks never share noise.

    Runs that have seeds of their own have number 0 each, as when they are run alone.
    """
    if plan.seeds is not None:
        return jax.vmap(lambda s: jax.random.fold_in(jax.random.key(s), 0))(jnp.asarray(plan.seeds))
    base = jax.random.key(plan.seed)
    return jax.vmap(lambda k: jax.random.fold_in(base, k))(
        jnp.arange(plan.runs) if plan.numbers is None else plan.numbers
    )


def padded(stops: Stops, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and fractions of the stops, filled up with stops that cost nothing."""
    m = len(stops)
    size = next((s for s in _SIZES if s >= m), m)
    counts, thetas = np.zeros(size, np.int64), np.ones(size, dtype)
    counts[:m], thetas[:m] = stops.counts, stops.thetas
    return counts, thetas


# --- fixed and adaptive steps ---------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _many_fixed(single: bool, method: Method, noisy: bool, between: bool, mix: Mix) -> Callable[..., Any]:
    one = partial(stepping.advance_fixed, method=method, noisy=noisy, between=between, mix=mix)
    ends = Stepped(0, 0, None, None)  # type: ignore[arg-type]
    axes = (None if single else 0, ends, None, None, None, 0 if noisy else None)
    return jax.jit(jax.vmap(one, axes, (ends, 1)))


def _fixed(plan: Plan, state: State, stops: Stops, mix: Mix) -> tuple[State, Saved]:
    counts, thetas = padded(stops, plan.dtype)
    between = bool((stops.thetas < 1).any())
    keys = run_keys(plan) if plan.noisy else None
    dyn = stacked(plan)
    dt = plan.number(plan.dt)
    before = Stepped(*(state[name] for name in Stepped._fields))  # type: ignore[arg-type]
    if plan.runs == 1:  # without an axis of runs the compiler does better
        alone = before._replace(before=before.before[0], now=before.now[0])
        key = None if keys is None else keys[0]
        end, x = stepping.advance_fixed(dyn, alone, counts, thetas, dt, key, plan.method, plan.noisy, between, mix)
        end, x = end._replace(before=end.before[None], now=end.now[None]), x[:, None]
    else:
        many = _many_fixed(plan.single, plan.method, plan.noisy, between, mix)
        end, x = many(dyn, before, counts, thetas, dt, keys)
    after = {name: np.asarray(value) for name, value in end._asdict().items()}
    everyone = np.full(plan.runs, stops.end)
    return after, Saved(np.asarray(x)[: len(stops)], everyone, np.zeros(plan.runs, bool))


@lru_cache(maxsize=64)
def _many_adaptive(single: bool, method: Method, mix: Mix) -> Callable[..., Any]:
    one = partial(stepping.advance_adaptive, method=method, mix=mix)
    return jax.jit(jax.vmap(one, (None if single else 0, 0, *[None] * 5), Reached(0, 0, 0, 1)))  # type: ignore[arg-type]


def _adaptive(plan: Plan, state: State, stops: Stops, mix: Mix) -> tuple[State, Saved]:
    if stops.end == state["t"]:  # the start itself: nothing is solved, so that saving it changes nothing
        x = np.broadcast_to(state["x"], (len(stops), *np.shape(state["x"])))
        return state, Saved(x, np.full(plan.runs, stops.end), np.zeros(plan.runs, bool))
    numbers = [plan.number(v) for v in (state["t"], stops.end, wide_times(stops), plan.rtol, plan.atol)]
    dyn = stacked(plan)
    if plan.runs == 1:
        one = stepping.advance_adaptive(dyn, plan.number(state["x"][0]), *numbers, plan.method, mix)
        got = Reached(one.x[None], one.t[None], one.exhausted[None], one.saved[:, None])
    else:
        got = _many_adaptive(plan.single, plan.method, mix)(dyn, plan.number(state["x"]), *numbers)
    after = {"x": np.asarray(got.x), "t": np.asarray(stops.end)}
    saved = np.asarray(got.saved)[: len(stops)]
    return after, Saved(saved, np.asarray(got.t, np.float64), np.asarray(got.exhausted))


def wide_times(stops: Stops) -> np.ndarray:
    """The stops' times, filled up with the end of the segment."""
    size = next((s for s in _READ if s >= len(stops)), len(stops))
    return np.concatenate([np.minimum(stops.times, stops.end), np.full(size - len(stops), stops.end)])
