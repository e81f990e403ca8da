"""A run that has been checked and can start: what moves, from where, how and until when."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from metastable.backend import is_traced, jax
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, unknown
from metastable.solve import methods
from metastable.solve.methods import Method

DTYPES = ("float64", "float32")
_MOST_STEPS = 1e9


@dataclass(frozen=True)
class Plan:
    """What is run: B runs of n tokens in d coordinates, held as one ensemble whatever shape the user gave.

    ``dynamics`` are the distinct ones, all of one structure, and ``which`` (B,) names the one of each run; ``shape``
    is the shape of the ensemble as the user sees it, () for one run. ``first_run`` is the number of the first run in a
    larger ensemble: seeds are counted from there. ``shakes`` (B,) is the relative noise that engines with a chart put
    on a run's state, 0 for the run itself and a few roundings for its copies (see `metastable.solve.trust`).
    """

    dynamics: tuple[Dynamics, ...]
    which: np.ndarray
    shape: tuple[int, ...]
    n: int
    d: int
    times: np.ndarray
    t: float
    dt: float
    method: Method
    rtol: float
    atol: float
    seed: int = 0
    dtype: str = "float64"
    engine: str = "auto"
    trust: bool = False
    together: bool = True  # whether the runs make one Trajectory, or one each
    first_run: int = 0
    shakes: np.ndarray | None = None

    @property
    def runs(self) -> int:
        """The number of runs, copies included."""
        return len(self.which)

    @property
    def model(self) -> Dynamics:
        """One of the dynamics, for what they all have in common: their parts and shapes."""
        return self.dynamics[0]

    @property
    def single(self) -> bool:
        """Whether all runs share one dynamics."""
        return len(self.dynamics) == 1

    @property
    def noisy(self) -> bool:
        """Whether any run has noise."""
        return any(dyn.noisy for dyn in self.dynamics)

    @property
    def originals(self) -> int:
        """The number of runs without their copies, which come after them, in the same order."""
        return self.runs if self.shakes is None else int(np.count_nonzero(self.shakes == 0))

    def number(self, value: Any) -> np.ndarray:
        """A number or array in the precision of the run, so that times do not widen its tokens."""
        return np.asarray(value, self.dtype)

    def of(self, run: int) -> Dynamics:
        """The dynamics of one run."""
        return self.dynamics[int(self.which[run])]

    def members(self, these: slice) -> "Plan":
        """The plan of some of the runs."""
        which = self.which[these]
        distinct, place = np.unique(which, return_inverse=True)
        shakes = None if self.shakes is None else self.shakes[these]
        start = self.first_run + (these.start or 0)
        chosen = tuple(self.dynamics[k] for k in distinct)
        return replace(self, dynamics=chosen, which=place, shape=(len(which),), shakes=shakes, first_run=start)


# --- making one -----------------------------------------------------------------------------------------------------


def make_plan(
    dynamics: Dynamics | Sequence[Dynamics],
    x0: Any,
    t: float = 15.0,
    dt: float | None = None,
    method: str | Method = "rk4",
    save: Any = 151,
    rtol: float = 1e-8,
    atol: float | None = None,
    seed: int = 0,
    dtype: str = "float64",
    engine: str = "auto",
    trust: bool = False,
) -> tuple[Plan, np.ndarray]:
    """Check everything a run needs before it starts; returns its plan and its tokens (B, n, d)."""
    members = _members(dynamics)
    if any(is_traced(leaf) for leaf in (x0, t, dt, *jax.tree_util.tree_leaves(members))):
        raise InputError(
            "simulate cannot be traced by jax.grad, jit or vmap, because it looks at numbers; use metastable.flow."
        )
    how = methods.resolve(method)
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    t = real("t", t, least=0.0)
    dt = real("dt", how.default_dt if dt is None else dt, above=0.0)
    rtol = real("rtol", rtol, above=0.0)
    atol = real("atol", rtol / 100 if atol is None else atol, least=0.0)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed must be a whole number >= 0, not {seed!r}.")
    if not how.adaptive and t / dt > _MOST_STEPS:
        raise InputError(f"t = {t:g} takes {t / dt:.3g} steps of dt = {dt:g}; raise dt or use method='tsit5'.")
    x = checked_tokens(members[0], x0)
    single = isinstance(dynamics, Dynamics)
    if not single and x.shape[:-2] != (len(members),):
        raise InputError(f"{len(members)} dynamics need tokens of shape ({len(members)}, n, d), not {x.shape}.")
    shape, (n, d) = x.shape[:-2], x.shape[-2:]
    distinct, which = _spread(members, single, shape)
    for dyn in members if not single else distinct[:1]:
        check_method(dyn, how)
        check_fit(dyn, (n, d), how)
    times = save_times(save, t, dt if how.discrete else None)
    plan = Plan(
        distinct, which, shape, n, d, times, t, dt, how, rtol, atol, int(seed), dtype, engine, bool(trust), single
    )
    return plan, x.reshape(-1, n, d)


def _members(dynamics: Any) -> list[Dynamics]:
    given = [dynamics] if isinstance(dynamics, Dynamics) else dynamics
    if not isinstance(given, (list, tuple)) or not given or not all(isinstance(m, Dynamics) for m in given):
        what = type(dynamics).__name__ if not isinstance(dynamics, (list, tuple)) else f"{len(dynamics)} other objects"
        raise InputError(f"dynamics must be a Dynamics object or a list of them, not {what}.")
    shape = _structure(given[0])
    if any(_structure(m) != shape for m in given[1:]):
        raise InputError(
            "All dynamics of an ensemble must have the same parts and shapes; run the others on their own."
        )
    return list(given)


def _structure(dyn: Dynamics) -> tuple[Any, ...]:
    leaves, tree = jax.tree_util.tree_flatten(dyn)
    return (tree, *(np.shape(leaf) for leaf in leaves))


def _spread(members: list[Dynamics], single: bool, shape: tuple[int, ...]) -> tuple[tuple[Dynamics, ...], np.ndarray]:
    """Distinct dynamics, each with one beta and one noise, and which of them each run has."""
    count = int(np.prod(shape, dtype=int))
    if not single:
        return tuple(members), np.arange(count)
    dyn = members[0]
    arrays = {name: np.asarray(getattr(dyn, name)) for name in ("beta", "noise")}
    for name, array in arrays.items():
        if array.ndim and _broadcast(array.shape, shape) != shape:
            raise InputError(f"{name} has shape {array.shape}, but the ensemble of tokens has shape {shape}.")
    if not any(array.ndim for array in arrays.values()):
        return (dyn,), np.zeros(count, int)
    columns = [np.broadcast_to(array, shape).ravel() for array in arrays.values()]
    pairs, which = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return tuple(with_numbers(dyn, beta=float(b), noise=float(s)) for b, s in pairs), which.ravel()


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def with_numbers(dyn: Dynamics, **values: Any) -> Dynamics:
    """The same dynamics with other numbers, which need no checks."""
    copy = object.__new__(Dynamics)
    for name, value in vars(dyn).items():
        object.__setattr__(copy, name, values.get(name, value))
    return copy


# --- checks ---------------------------------------------------------------------------------------------------------


def checked_tokens(dynamics: Dynamics, x0: Any) -> np.ndarray:
    """Tokens as a float array that fits the dynamics; on the sphere they are projected, with a warning."""
    try:
        x = np.array(x0, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Tokens must be a real array (..., n, d), not {type(x0).__name__}.") from error
    if x.ndim < 2 or 0 in x.shape:
        raise InputError(f"Tokens need shape (..., n, d) with n, d >= 1, but their shape is {x.shape}.")
    if not np.isfinite(x).all():
        raise InputError("Tokens hold nan or inf; every coordinate must be finite.")
    d = dynamics.weights.dimension
    if d is not None and d != x.shape[-1]:
        raise InputError(f"Tokens have dimension {x.shape[-1]}, but the weights act on dimension {d}.")
    return _on_sphere(x) if dynamics.geometry.fixed_norm else x


def _on_sphere(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        if np.abs(np.einsum("...d,...d->...", x, x) - 1.0).max() < 1e-15:
            return x
    largest = np.abs(x).max(axis=-1, keepdims=True)
    if (largest == 0).any():
        raise InputError("A token at 0 has no direction, so it cannot be put on the sphere; remove it or move it.")
    scaled = x / largest  # so that squares neither overflow nor underflow
    norms = np.linalg.norm(scaled, axis=-1, keepdims=True)
    if np.abs(norms * largest - 1.0).max() > 1e-6:
        warnings.warn("Tokens were not on the unit sphere and have been projected onto it.", UserWarning, stacklevel=5)
    return np.where(np.abs(norms * largest - 1.0) < 1e-15, x, scaled / norms)  # unit vectors keep their digits


def check_method(dyn: Dynamics, method: Method) -> None:
    """Refuse a method that cannot serve a dynamics."""
    if dyn.noisy and not method.takes_noise:
        raise InputError(f"Noise needs method='euler' (Euler-Maruyama), not {method.name!r}.")
    norms = dyn.block is not None and dyn.block.has_norms
    if norms and not method.discrete and dyn.block is not None and dyn.block.order == "post":
        raise InputError("A block with norms after the sum is a map between layers: use method='layers'.")


def check_fit(dyn: Dynamics, tokens: tuple[int, int], method: Method) -> None:
    """Every part must fit the tokens (n, d) and hold what it declares."""
    n, d = tokens
    if not dyn.normalise.holds_what_it_declares():
        raise InputError(
            f"The normalisation {dyn.normalise.name!r} does not hold what it declares "
            "(shift_invariant, stochastic, by_rows, unscaled or stream); correct the declaration."
        )
    if not dyn.score.holds_what_it_declares():
        raise InputError(f"The score {dyn.score.name!r} declares is_dot, but it is not beta <q, k>.")
    if dyn.mask.interval is not None:
        dyn.mask.bounds(n)
    table = getattr(dyn.mask.visible, "entries", None)
    if table is not None and len(table) != n:
        raise InputError(f"The mask is an array for {len(table)} tokens, but there are {n}.")
    if dyn.position is not None:
        why = dyn.position.fits(n, dyn.weights.query_width or d, dyn.weights.heads)
        if why is not None:
            raise InputError(f"The parts do not fit: {why}.")
    leaves, tree = jax.tree_util.tree_flatten(dyn)
    _try_shapes(tree, tuple(jax.ShapeDtypeStruct(np.shape(leaf), float) for leaf in leaves), tokens, method)


@lru_cache(maxsize=256)
def _try_shapes(tree: Any, leaves: tuple[Any, ...], shape: tuple[int, ...], method: Method) -> None:
    """Let JAX trace one step on shapes alone; done once for each structure, since it takes milliseconds."""
    tokens = jax.ShapeDtypeStruct(shape, float)

    def step(leaves: Any, x: Any) -> Any:
        dyn = jax.tree_util.tree_unflatten(tree, leaves)
        return dyn.layer(0.0, x, 1.0) if method.discrete else dyn.velocity(0.0, x)

    try:
        after = jax.eval_shape(step, list(leaves), tokens).shape
    except InputError:
        raise
    except Exception as error:  # whatever a part of the user's own may raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"The parts do not fit tokens of shape {shape}: {reason}") from error
    if after != shape:
        raise InputError(f"The parts turn tokens of shape {shape} into shape {after}; check the sizes of V, O and MLP.")


def save_times(save: Any, t: float, layer: float | None) -> np.ndarray:
    """The times at which a run is saved: an even grid for a number, the array itself otherwise."""
    if isinstance(save, (int, np.integer)) and not isinstance(save, bool):
        return _even_times(int(save), t, layer)
    try:
        times = np.asarray(save, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"save must be a number of times or an array of them, not {save!r}.") from error
    if times.ndim != 1 or times.size == 0 or not np.isfinite(times).all():
        raise InputError("save must be a whole number or a non-empty list of finite times.")
    if (np.diff(times) <= 0).any():
        raise InputError("Save times must increase.")
    slack = 1e-12 * max(1.0, t)
    if times[0] < 0 or times[-1] > t + slack:
        raise InputError(
            f"Save times must lie in [0, t] = [0, {t:g}], but they reach from {times[0]:g} to {times[-1]:g}."
        )
    if layer is not None and np.abs(times / layer - np.round(times / layer)).max() > 1e-9:
        raise InputError(f"Tokens exist only at whole layers: save times must be multiples of dt = {layer:g}.")
    return times


def _even_times(count: int, t: float, layer: float | None) -> np.ndarray:
    if count < 1:
        raise InputError(f"save must ask for at least one time, not {count}.")
    if layer is None:
        times = np.linspace(0.0, t, count) if count > 1 else np.array([t])
        return times if t > 1e-100 else np.unique(times)
    depth = math.floor(t / layer + 1e-9)
    whole = np.unique(np.round(np.linspace(0, depth, count))) if count > 1 else np.array([depth])
    return whole * layer


def real(name: str, value: Any, least: float | None = None, above: float | None = None) -> float:
    """``value`` as a finite float within its bounds, or a sentence."""
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a number, not {value!r}.") from error
    bound = f">= {least:g}" if least is not None else f"> {above:g}"
    if not math.isfinite(number) or (least is not None and number < least) or (above is not None and number <= above):
        raise InputError(f"{name} must be a finite number {bound}, not {value!r}.")
    return number
