"""Many runs, each with its own weights, beta and tokens, in one compiled call per chunk.

Runs that share their dynamics need none of this: give `simulate` tokens with leading axes. Here every member has its
own numbers but the same structure (shapes and choice of parts); members are stacked, and the step is vectorised over
them. A run in an ensemble and the same run alone agree to rounding.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.engines.chart import basis as rescaled_chart
from metastable.engines.chart import state as rescaled
from metastable.engines.chart import steps as rescaled_steps
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, unknown
from metastable.solve import adaptive, pieces, steps
from metastable.solve.methods import METHODS
from metastable.solve.pieces import MOST_STEPS, Plan
from metastable.solve.simulate import ADAPTIVE, checked_tokens, prepare, provenance
from metastable.solve.summation import chosen
from metastable.trajectory import Trajectory

Array = Any
_SUMMATIONS = ("auto", "dense", "lanes")
_MOST_PAIRS = 2**23  # attention entries of all members of a chunk together


def simulate_many(
    dynamics: Sequence[Dynamics],
    x0: Any,
    t: float = 15.0,
    dt: float | None = None,
    method: str = "rk4",
    save: Any = 151,
    rtol: float = 1e-8,
    atol: float | None = None,
    seed: int = 0,
    dtype: str = "float64",
    summation: str = "auto",
    progress: Callable[[int], None] | None = None,
) -> list[Trajectory]:
    """Run every dynamics from its own tokens; returns one Trajectory per member.

    Parameters
    ----------
    dynamics : sequence of Dynamics
        All of one structure: the same parts and shapes, other numbers.
    x0 : array (B, n, d)
        Tokens of each member.
    progress : function, optional
        Called with the number of members done.

    Other parameters are those of `simulate`.

    Examples
    --------
    >>> import metastable as ms
    >>> cold, hot = ms.Dynamics(beta=9.0), ms.Dynamics(beta=1.0)
    >>> runs = simulate_many([cold, hot], ms.initial.sphere(8, 3, runs=2), t=1.0, save=2)
    >>> [run.x.shape for run in runs]
    [(2, 8, 3), (2, 8, 3)]
    """
    if summation not in _SUMMATIONS:
        raise unknown("summation", summation, _SUMMATIONS)
    members = list(dynamics)
    tokens = np.asarray(x0, dtype=np.float64)
    if not members or tokens.ndim != 3 or len(tokens) != len(members):
        raise InputError(f"{len(members)} dynamics need tokens of shape ({len(members)}, n, d), not {tokens.shape}.")
    plan, _ = prepare(members[0], tokens[0], t, dt, method, save, rtol, atol, seed, dtype, "dense")
    telling = next((m for m in members if np.any(np.asarray(m.noise) != 0)), members[0])  # noise is a member's own
    how = chosen(telling, tokens, summation, method, dtype, plan.t / plan.dt)
    plan = replace(plan, summation=how if how == "lanes" or plan.charted else "dense")
    shape = _structure(members[0])
    if any(_structure(m) != shape for m in members):
        raise InputError(
            "All dynamics of an ensemble must have the same parts and shapes; run the others on their own."
        )
    tokens = np.stack([checked_tokens(m, x) for m, x in zip(members, tokens)])
    copies = 2 if plan.charted else 1
    size = max(1, _MOST_PAIRS // (copies * tokens.shape[1] ** 2 * plan.dynamics.weights.heads))
    runs: list[Trajectory] = []
    for start in range(0, len(members), size):
        runs += _chunk(plan, members[start : start + size], tokens[start : start + size], start)
        if progress is not None:
            progress(len(runs))
    return runs


def _structure(dyn: Dynamics) -> tuple[Any, ...]:
    leaves, tree = jax.tree_util.tree_flatten(dyn)
    return (tree, *(np.shape(leaf) for leaf in leaves))


def _stack(parts: Sequence[Any]) -> Any:
    return jax.tree_util.tree_map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *parts)


def _chunk(plan: Plan, members: list[Dynamics], x: np.ndarray, start: int) -> list[Trajectory]:
    if plan.charted:
        layer = plan.dt if plan.method == "layers" else None
        charts = [rescaled_chart.chart_of(m, x.shape[-1], x.shape[-2], layer) for m in members]
        if len({c.dense is None for c in charts}) > 1:  # a member without eigenvectors cannot be stacked with others
            return [run for k, m in enumerate(members) for run in _chunk(plan, [m], x[k : k + 1], start + k)]
        plan = plan if charts[0].dense is None else replace(plan, summation="dense")
        if plan.summation == "exact":
            parts = [_charted_by_kernels(plan, charts, x)]
        else:
            chart = jax.tree_util.tree_map(lambda a: _cast(a, plan.dtype), _stack(rescaled_chart.alike(charts)))
            through = _charted_adaptive if plan.method in ADAPTIVE else _charted_fixed
            parts = list(through(plan, chart, jnp.asarray(x, plan.dtype)))
    elif plan.summation == "lanes":
        parts = [_side_by_side(plan, members, x)]
    else:
        dyn = jax.tree_util.tree_map(lambda a: _cast(a, plan.dtype), _stack(members))
        source = _adaptive if plan.method in ADAPTIVE else _fixed
        parts = list(source(plan, dyn, jnp.asarray(x, plan.dtype), start))
    saved = np.concatenate([p[0] for p in parts])  # (T, B, n, d)
    apart = np.concatenate([p[1] for p in parts])  # (T, B)
    charted = [np.concatenate([p[2][k] for p in parts]) for k in (0, 1)] if plan.charted else None
    return [_member(plan, m, k, saved, apart, charted) for k, m in enumerate(members)]


def _cast(a: Any, dtype: str) -> Array:
    return jnp.asarray(a) if np.asarray(a).dtype.kind == "i" else jnp.asarray(a, dtype)


def _member(plan: Plan, dyn: Dynamics, k: int, saved: Array, apart: Array, charted: Any) -> Trajectory:
    """One member's Trajectory, ended at its first time that is not finite."""
    sound = pieces.finite(saved[:, k])
    end = len(sound) if sound.all() else int(np.argmin(sound))
    status, message = "done", f"Reached t = {plan.t:g}."
    if end < len(sound):
        status, message = "diverged", f"Tokens left the range of floats before t = {plan.times[end]:g}."
    chart = None if charted is None else (charted[0][:end, k], charted[1][:end, k])
    valid = pieces.valid_until(plan.times[:end], apart[:end, k], plan.dtype)
    made = provenance(replace(plan, dynamics=dyn), 0.0)
    return Trajectory(plan.times[:end], saved[:end, k], dyn, status, message, valid, made, chart)


# --- the pieces of a chunk: (saved (m, B, n, d), apart (m, B), chart) ---------------------------------------------

Part = tuple[np.ndarray, np.ndarray, Any]


def _side_by_side(plan: Plan, members: list[Dynamics], x: np.ndarray) -> Part:
    from metastable.engines.lanes import batch as many

    counts, theta = pieces.grid(plan)
    maps = many.maps(members, x.shape[-1], np.array([float(m.beta) for m in members]))
    sphere = plan.dynamics.geometry_name == "sphere"
    tableau = METHODS[plan.method].tableau.matrix()  # type: ignore[union-attr]
    ways = many.Scheme(plan.dt, tableau, *pieces.bounds(plan, x.shape[-2]), sphere, sphere and plan.method != "layers")
    _, saved = many.advance(*maps, np.stack([x, x]), np.diff(counts, prepend=0), theta, ways)
    return saved, np.zeros(saved.shape[:2]), None


@partial(jax.jit, static_argnames=("method", "noisy"))
def _advance_fixed(dyn: Any, state: Any, asked: Any, dt: Any, keys: Any, method: str, noisy: bool) -> Any:
    one = partial(steps.advance, method=method, noisy=noisy)
    stand = steps.Stepped(0, 0, None)
    return jax.vmap(one, (0, stand, None, None, None, 0), (stand, 1))(dyn, state, *asked, dt, keys)


def _fixed(plan: Plan, dyn: Dynamics, x: Array, start: int) -> Iterator[Part]:
    counts, theta = pieces.grid(plan)
    noisy = bool(np.any(np.asarray(dyn.noise) != 0))
    base = jax.random.key(plan.seed)
    keys = jax.vmap(lambda k: jax.random.fold_in(base, k))(jnp.arange(start, start + len(x)))
    asked = (np.diff(counts, prepend=0), plan.number(theta))
    stand = steps.Stepped(x, x, jnp.asarray(0))
    _, saved = _advance_fixed(dyn, stand, asked, plan.number(plan.dt), keys, plan.method, noisy)
    yield np.asarray(saved), np.zeros(saved.shape[:2]), None


@partial(jax.jit, static_argnames=("method",))
def _advance_adaptive(dyn: Any, x: Any, numbers: Any, method: str) -> Any:
    one = partial(adaptive.advance, method=method, most=MOST_STEPS)
    return jax.vmap(one, (0, 0, None, None, None, None, None), (0, 0, 1, 0))(dyn, x, *numbers)


def _adaptive(plan: Plan, dyn: Dynamics, x: Array, start: int) -> Iterator[Part]:
    first = int(plan.times[0] == 0.0)
    if first:
        yield np.asarray(x)[None], np.zeros((1, len(x))), None
    for t0, t1 in pieces.edges(plan):
        end, times = pieces.asked(plan, t0, t1, first)
        numbers = tuple(plan.number(v) for v in (t0, t1, times, plan.rtol, plan.atol))
        x, _, saved, _ = _advance_adaptive(dyn, x, numbers, plan.method)
        yield np.asarray(saved)[: end - first], np.zeros((end - first, len(x))), None
        first = end


@jax.jit
def _tokens(chart: Any, times: Any, y: Any, refs: Any) -> Any:
    return jax.vmap(rescaled.tokens_at, (0, None, 1, 1), 1)(chart, times, y, refs)


def _start(chart: Any, z: Array) -> tuple[Array, Array]:
    y, refs = rescaled.start(chart, z)
    return np.stack([y, y], axis=1), np.stack([refs, refs], axis=1)  # (B, 2, n, d), (B, 2, n)


@partial(jax.jit, static_argnames=("method",))
def _charted_advance_fixed(dyn: Any, chart: Any, state: Any, asked: Any, dt: Any, every: Any, method: str) -> Any:
    one = partial(rescaled_steps.advance_fixed, method=method)
    stand = rescaled_steps.Stepped(0, 0, 0, 0, None, 0)
    axes = (None, 0, stand, None, None, None, None)
    return jax.vmap(one, axes, (stand, 1))(dyn, chart, state, *asked, dt, every)


def _charted_by_kernels(plan: Plan, charts: Sequence[rescaled_chart.Chart], z: np.ndarray) -> Part:
    from metastable.engines.chart import kernel_runs as charted
    from metastable.engines.chart.segments import apart, two_by_two

    counts, theta = pieces.grid(plan)
    starts = [rescaled.start(chart, one) for chart, one in zip(charts, z)]
    y, refs = (np.stack([a for a in arrays for _ in range(2)]) for arrays in zip(*starts))  # each run and its copy
    bases = [basis for chart in charts for basis in [charted.basis(chart)] * 2]
    saved = two_by_two(plan, bases, charted.start(y, refs), np.diff(counts, prepend=0), theta)[1]
    S = np.stack([np.asarray(chart.S) for chart in charts])
    return charted.tokens(saved.zeta[:, ::2], S), apart(saved.zeta), (saved.y[:, ::2], saved.refs[:, ::2])


def _charted_fixed(plan: Plan, chart: Any, z: Array) -> Iterator[Part]:
    counts, theta = pieces.grid(plan)
    y, refs = _start(chart, z)
    stand = rescaled_steps.Stepped(y, y, y, refs, jnp.asarray(0), jnp.zeros(len(z), y.dtype))
    every = rescaled_steps.refer_every(float(jnp.max(chart.top)), plan.dt)
    asked = (np.diff(counts, prepend=0), plan.number(theta))
    _, (y, refs, apart) = _charted_advance_fixed(
        plan.dynamics, chart, stand, asked, plan.number(plan.dt), every, plan.method
    )
    saved = _tokens(chart, plan.number(plan.times), y, refs)
    yield np.asarray(saved), np.asarray(apart), (np.asarray(y), np.asarray(refs))


@partial(jax.jit, static_argnames=("method",))
def _charted_advance_adaptive(dyn: Any, chart: Any, y: Any, refs: Any, numbers: Any, worst: Any, method: str) -> Any:
    one = partial(rescaled_steps.advance_adaptive, method=method, most=MOST_STEPS)
    axes = (None, 0, 0, 0, None, None, None, None, None, None, 0)
    return jax.vmap(one, axes, (0, 0, 0, 0, (1, 1), 0))(dyn, chart, y, refs, *numbers, worst)


def _charted_adaptive(plan: Plan, chart: Any, z: Array) -> Iterator[Part]:
    y, refs = _start(chart, z)
    first = int(plan.times[0] == 0.0)
    if first:
        yield np.asarray(z)[None], np.zeros((1, len(z))), (np.asarray(y[:, 0])[None], np.asarray(refs[:, 0])[None])
    shortest = min(plan.t, 0.5 / max(float(jnp.max(chart.top)), 1e-300))
    t0, length, count, worst = 0.0, shortest, 0, jnp.zeros(len(z), y.dtype)
    while first < len(plan.times):
        t1 = plan.t if t0 + 1.5 * length >= plan.t else t0 + length
        end, times = pieces.asked(plan, t0, t1, first)
        numbers = tuple(plan.number(v) for v in (t0, t1, times, plan.rtol, plan.atol, count))
        y, refs, _, worst, (saved, apart), closest = _charted_advance_adaptive(
            plan.dynamics, chart, y, refs, numbers, worst, plan.method
        )
        length = 2.0 * length if float(jnp.max(closest)) < -700.0 else shortest
        now = jnp.broadcast_to(refs[:, 0], (len(times), *refs[:, 0].shape))
        m = end - first
        tokens = np.asarray(_tokens(chart, plan.number(times), saved, now))[:m]
        yield tokens, np.asarray(apart)[:m], (np.asarray(saved)[:m], np.asarray(now)[:m])
        t0, first, count = t1, end, count + 1
