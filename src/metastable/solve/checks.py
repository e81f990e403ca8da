"""What a run needs is checked before it starts: every problem is one sentence."""

import math
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from metastable.backend import is_traced, jax
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, kind_of, numbers
from metastable.solve.methods import Method

_MOST_STEPS = 1e9
_MOST_SAVES = 1e8


def checked_tokens(dynamics: Dynamics, x0: Any) -> np.ndarray:
    """Tokens as a float array that fits the dynamics; on the sphere they are projected, with a warning."""
    if np.iscomplexobj(x0):
        raise InputError("Tokens must be real, but they are complex.")
    try:
        x = np.array(numbers(x0), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"Tokens must be a real array (..., n, d), not {kind_of(x0)}.") from error
    if x.ndim < 2 or 0 in x.shape:
        raise InputError(f"Tokens need shape (..., n, d) with n, d >= 1, but their shape is {x.shape}.")
    if not np.isfinite(x).all():
        raise InputError("Tokens hold nan or inf; every coordinate must be finite.")
    d = dynamics.weights.dimension
    if d is not None and d != x.shape[-1]:
        raise InputError(f"Tokens have dimension {x.shape[-1]}, but the weights act on dimension {d}.")
    return _on_sphere(x) if dynamics.geometry.fixed_norm or dynamics.geometry.unit_start else x


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
        warnings.warn("Tokens were not on the unit sphere and have been projected onto it.", UserWarning, stacklevel=6)
    return np.where(np.abs(norms * largest - 1.0) < 1e-15, x, scaled / norms)  # unit vectors keep their digits


def check_method(dyn: Dynamics, method: Method) -> None:
    """Refuse a method that cannot serve a dynamics."""
    if dyn.noisy and not method.takes_noise:
        raise InputError(f"Noise needs method='euler' (Euler-Maruyama), not {method.name!r}.")
    norms = dyn.block is not None and dyn.block.has_norms
    if norms and not method.discrete and dyn.block is not None and dyn.block.order == "post":
        raise InputError("A block with norms after the sum is a map between layers: use method='layers'.")
    if dyn.block is not None and not method.discrete and not is_traced(dyn.block.skip) and dyn.block.skip != 1.0:
        raise InputError(f"A block with skip = {dyn.block.skip:g} is a map between layers: use method='layers'.")


def check_fit(dyn: Dynamics, tokens: tuple[int, int], method: Method) -> None:
    """Every part must fit the tokens (n, d) and hold what it declares."""
    if not _tried("normalisation", dyn.normalise):
        raise InputError(
            f"The normalisation {dyn.normalise.name!r} does not hold what it declares "
            "(shift_invariant, stochastic, by_rows, unscaled or stream); correct the declaration."
        )
    if not _tried("score", dyn.score):
        raise InputError(f"The score {dyn.score.name!r} declares is_dot, but it is not beta <q, k>.")
    if not _tried("geometry", dyn.geometry, tokens[1]):
        raise InputError(
            f"The geometry {dyn.geometry.name!r} does not hold what it declares (fixed_norm: `retract` returns unit "
            "vectors; rescales: its formulas are those of eq. (4)); correct the declaration."
        )
    if dyn.mask.interval is not None:
        dyn.mask.bounds(tokens[0])
    check_shapes(dyn, tokens, method)


def _tried(kind: str, part: Any, *sizes: int) -> bool:
    try:
        return bool(part.holds_what_it_declares(*sizes))
    except InputError:
        raise
    except Exception as error:  # whatever a part of the user's own may raise
        raise InputError(f"What the {kind} {part.name!r} declares could not be tried: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def check_shapes(dyn: Dynamics, tokens: tuple[int, ...], method: Method) -> None:
    """Every part must fit tokens of shape (..., n, d); looks at shapes alone, so numbers may be traced."""
    n, d = tokens[-2:]
    for mask in getattr(dyn.mask.by_time, "masks", (dyn.mask,)):
        table = getattr(mask.visible, "entries", None)
        if table is not None and len(table) != n:
            raise InputError(f"The mask is an array for {len(table)} tokens, but there are {n}.")
    if dyn.position is not None:
        position = dyn.at(0.0).position
        why = position.fits(n, dyn.weights.query_width or d, dyn.weights.heads)
        if why is not None:
            raise InputError(f"The parts do not fit: {why}.")
    leaves, tree = jax.tree_util.tree_flatten(dyn)
    _try_shapes(tree, tuple(np.shape(leaf) for leaf in leaves), tokens, method)


@lru_cache(maxsize=256)
def _try_shapes(tree: Any, leaves: tuple[tuple[int, ...], ...], shape: tuple[int, ...], method: Method) -> None:
    """Let JAX trace one step on shapes alone; done once for each structure, since it takes milliseconds."""
    tokens = jax.ShapeDtypeStruct(shape, float)

    def step(leaves: Any, t: Any, x: Any) -> Any:
        dyn = jax.tree_util.tree_unflatten(tree, leaves)
        return dyn.layer(t, x, 1.0) if method.discrete else dyn.velocity(t, x)

    try:
        after = jax.eval_shape(
            step, [jax.ShapeDtypeStruct(leaf, float) for leaf in leaves], jax.ShapeDtypeStruct((), float), tokens
        ).shape
    except InputError:
        raise
    except Exception as error:  # whatever a part of the user's own may raise
        why = _misfit(
            jax.tree_util.tree_unflatten(tree, [np.ones(leaf) for leaf in leaves]), *shape[-2:]
        ) or _first_line(error)
        raise InputError(f"The parts do not fit tokens of shape {shape}: {why}") from error
    if after != shape:
        raise InputError(f"The parts turn tokens of shape {shape} into shape {after}; check the sizes of V, O and MLP.")


def _misfit(dyn: Dynamics, n: int, d: int) -> str | None:
    """Which function of a user's own does not return what it should, or None where that is not the cause."""
    heads, width = dyn.weights.heads, dyn.weights.query_width or d
    queries, scores = (jax.ShapeDtypeStruct((heads, n, size), float) for size in (width, n))
    returns: list[tuple[str, Callable[[], Any]]] = [
        (f"mask {dyn.mask}", lambda: jax.eval_shape(lambda: _seen(dyn, n))),
        (f"score {dyn.score}", lambda: jax.eval_shape(lambda q: dyn.score(q, q, 1.0), queries)),
        (
            f"normalisation {dyn.normalise}",
            lambda: jax.eval_shape(lambda s: dyn.normalise.rows(s, dyn.mask.rows(np.arange(n), n)), scores),
        ),
    ]
    for name, result in returns:
        wanted = (n, n) if name.startswith("mask") else scores.shape
        try:
            found = result().shape
        except Exception as error:  # whatever a function of the user's own may raise
            return f"the {name} could not be computed: {_first_line(error)}"
        if found != wanted:
            return f"the {name} must return an array of shape {wanted}, but returns {found}."
    return None


def _seen(dyn: Dynamics, n: int) -> Any:
    seen = dyn.mask.rows(np.arange(n), n)
    return np.ones((n, n)) if seen is None else seen


def save_times(save: Any, t: float, layer: float | None) -> np.ndarray:
    """The times at which a run is saved: an even grid for a number, the array itself otherwise."""
    if isinstance(save, (int, np.integer)) and not isinstance(save, bool):
        return _even_times(int(save), t, layer)
    try:
        times = np.asarray(numbers(save), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"save must be a number of times or an array of them, not {save!r}.") from error
    if times.ndim != 1 or times.size == 0 or not np.isfinite(times).all():
        raise InputError("save must be a whole number or a non-empty list of finite times.")
    if (np.diff(times) <= 0).any():
        k = int(np.argmax(np.diff(times) <= 0))
        raise InputError(f"Save times must increase, but {times[k]:g} is followed by {times[k + 1]:g}.")
    slack = 1e-12 * max(1.0, t)
    if times[0] < 0 or times[-1] > t + slack:
        raise InputError(
            f"Save times must lie in [0, t] = [0, {t:g}], but they reach from {times[0]:g} to {times[-1]:g}."
        )
    if layer is not None and np.abs(times / layer - np.round(times / layer)).max() > 1e-9:
        raise InputError(f"Tokens exist only at whole layers: save times must be multiples of dt = {layer:g}.")
    return times


def number_of_saves(count: int) -> int:
    """``count``, or a sentence where there are none or where times alone would fill the memory."""
    if count < 1:
        raise InputError(f"save must ask for at least one time, not {count}.")
    if count > _MOST_SAVES:
        raise InputError(f"save asks for more than {_MOST_SAVES:.0e} times, which would fill the memory by themselves.")
    return count


def check_steps(t: float, dt: float, method: Method) -> None:
    """Refuse a horizon that fixed steps do not reach in days."""
    if not method.adaptive and t / dt > _MOST_STEPS:
        raise InputError(f"t = {t:g} takes {t / dt:.3g} steps of dt = {dt:g}; raise dt or use method='tsit5'.")


def _even_times(count: int, t: float, layer: float | None) -> np.ndarray:
    number_of_saves(count)
    if layer is None:
        times = np.linspace(0.0, t, count) if count > 1 else np.array([t])
        return times if t > 1e-100 else np.unique(times)
    depth = math.floor(t / layer + 1e-9)
    whole = np.unique(np.round(np.linspace(0, depth, count))) if count > 1 else np.array([depth])
    return whole * layer


def real(name: str, value: Any, least: float | None = None, above: float | None = None) -> float:
    """``value`` as a finite float within its bounds, or a sentence."""
    try:
        number = float(numbers(value))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a number, not {value!r}.") from error
    bound = f">= {least:g}" if least is not None else f"> {above:g}"
    if not math.isfinite(number) or (least is not None and number < least) or (above is not None and number <= above):
        raise InputError(f"{name} must be a finite number {bound}, not {value!r}.")
    return number


def checked_seed(seed: Any) -> int:
    """``seed`` as an int, or a sentence."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
        raise InputError(f"seed must be a whole number from 0 to 2^63 - 1, not {seed!r}.")
    return int(seed)
