"""simulate: from a Dynamics and tokens to a Trajectory.

A run is a sequence of pieces. Where a piece ends does not depend on what is saved, so saving more never changes the
solution, and a run taken up again after its last finished piece gives the same digits as one left alone.
"""

import math
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, unknown
from metastable.solve import pieces
from metastable.solve.pieces import Piece, Plan
from metastable.solve.summation import chosen
from metastable.trajectory import Trajectory

METHODS = {
    "euler": "fixed steps, order 1",
    "rk4": "fixed steps, order 4",
    "tsit5": "adaptive, order 5",
    "dopri8": "adaptive, order 8",
    "layers": "discrete time: one layer per dt",
}
ADAPTIVE = ("tsit5", "dopri8")
_MACHINE = f"{platform.system()} {platform.machine()}"
Until = str | int | Callable[[float, np.ndarray], bool] | None


def simulate(
    dynamics: Dynamics,
    x0: Any,
    t: float = 15.0,
    dt: float | None = None,
    method: str = "rk4",
    save: Any = 151,
    rtol: float = 1e-8,
    atol: float | None = None,
    seed: int = 0,
    until: Until = None,
    dtype: str = "float64",
    summation: str = "auto",
    progress: Callable[[float], None] | None = None,
) -> Trajectory:
    """Run the dynamics from tokens x0 to time t.

    Parameters
    ----------
    dynamics : Dynamics
    x0 : array (..., n, d)
        Tokens; leading axes are an ensemble of runs. On the sphere they are projected when they are not unit vectors.
    t : float
        Horizon; with ``method="layers"`` and dt = 1 the number of layers.
    dt : float, optional
        Step of the fixed methods (default 0.1; 1 for layers).
    method : {"euler", "rk4", "tsit5", "dopri8", "layers"}
    save : int or array
        A number of evenly spaced times, first and last included, or the times themselves.
    rtol, atol : float
        Tolerances of the adaptive methods; ``atol`` is rtol / 100 unless given.
    seed : int
        Seed of the noise.
    until : {"steady"}, int or function, optional
        Stop at the first saved time at which every token is slower than 1e-8, at which at most this many clusters
        are left, or at which the function ``(t, x) -> bool`` says so.
    dtype : {"float64", "float32"}
    summation : {"auto", "dense", "exact", "spectral", "lanes"}
        How sums over tokens are made: compiled by JAX (dense), by exact kernels block by block (in the rescaled flow
        they take whole steps), in linear time by expansions on the circle and S^2 to 1e-12 (spectral), or for small
        systems in vector registers, eight runs side by side or eight tokens (lanes); auto takes the quickest.
    progress : function, optional
        Called with the time reached.

    Examples
    --------
    >>> import metastable as ms
    >>> run = simulate(ms.Dynamics(), ms.initial.sphere(6, 3), t=2.0, method="tsit5", save=[0.0, 0.5, 2.0])
    >>> run.x.shape, run.status
    ((3, 6, 3), 'done')
    """
    plan, x = prepare(dynamics, x0, t, dt, method, save, rtol, atol, seed, dtype, summation)
    watched = until is not None or progress is not None
    parts = []
    for part in run_pieces(plan, x, until, watched=watched):
        parts.append(part)
        if progress is not None:
            progress(part.reached)
    return collect(plan, parts)


def prepare(
    dynamics: Dynamics,
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
) -> tuple[Plan, np.ndarray]:
    """Check everything a run needs before it starts, and return its plan and tokens."""
    if not isinstance(dynamics, Dynamics):
        raise InputError(f"dynamics must be a Dynamics object, not {type(dynamics).__name__}.")
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if dtype not in ("float64", "float32"):
        raise unknown("dtype", dtype, ["float64", "float32"])
    t = _real("t", t, least=0.0)
    dt = _real("dt", (1.0 if method == "layers" else 0.1) if dt is None else dt, above=0.0)
    rtol = _real("rtol", rtol, above=0.0)
    atol = _real("atol", rtol / 100 if atol is None else atol, least=0.0)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise InputError(f"seed must be a whole number >= 0, not {seed!r}.")
    if method not in ADAPTIVE and t / dt > 1e9:
        raise InputError(f"t = {t:g} takes {t / dt:.3g} steps of dt = {dt:g}; raise dt or use method='tsit5'.")
    x = checked_tokens(dynamics, x0)
    _check_method(dynamics, method)
    _check_fit(dynamics, x, method)
    times = save_times(save, t, dt if method == "layers" else None)
    how = chosen(dynamics, x, summation, method, dtype, t / dt)
    return Plan(dynamics, times, t, dt, method, rtol, atol, int(seed), dtype, how), x


def run_pieces(
    plan: Plan, x: np.ndarray, until: Until = None, watched: bool = True, state: Any = None
) -> Iterator[Piece]:
    """Yield the run piece by piece; ``state`` of a finished piece takes it up again from there."""
    stop = stop_rule(plan.dynamics, until)
    for piece in pieces.run(plan, x, watched, state):
        sound = pieces.finite(piece.x[-1:])
        if plan.charted or not sound.all():  # otherwise what has left the range of floats does not come back
            sound = pieces.finite(piece.x)
        if not sound.all():
            first = int(np.argmin(sound))
            where = float(plan.times[piece.first + first])
            text = f"Tokens left the range of floats before t = {where:g}; the run ends at the last finite saved time."
            yield piece.cut(first, "diverged", text)
            return
        for k in range(len(piece.x) if until is not None else 0):
            if stop(float(plan.times[piece.first + k]), piece.x[k]):
                status, text = (
                    ("steady", "every token is at rest") if until == "steady" else ("stopped", "asked to stop")
                )
                yield piece.cut(k + 1, status, f"Stopped at t = {plan.times[piece.first + k]:g}: {text}.")
                return
        yield piece
        if piece.status != "done":
            return


def collect(plan: Plan, parts: list[Piece]) -> Trajectory:
    """The Trajectory of a plan whose pieces are ``parts``."""
    x = parts[0].x if len(parts) == 1 else np.concatenate([p.x for p in parts])
    charts = [p.chart for p in parts if p.chart is not None]
    chart = (np.concatenate([c[0] for c in charts]), np.concatenate([c[1] for c in charts])) if charts else None
    times = plan.times[: len(x)]
    valid = math.inf
    if plan.charted:
        valid = pieces.valid_until(times, np.concatenate([p.parted for p in parts]), plan.dtype)
    message = parts[-1].message or f"Reached t = {plan.t:g}."
    if len(times) and valid < times[-1]:
        message += f" Rounding may have changed the tokens after t = {valid:g}: do not trust later ones."
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    made = provenance(plan, sum(p.seconds for p in parts))
    if parts[-1].sums is not None:
        made["sums"] = parts[-1].sums
    return Trajectory(times, x, plan.dynamics, parts[-1].status, message, valid, made, chart)


def provenance(plan: Plan, seconds: float) -> dict[str, Any]:
    """How a run was made: everything needed to make it again, besides weights and tokens."""
    from metastable import __version__

    return {
        "method": plan.method,
        "dt": plan.dt,
        "t": plan.t,
        "rtol": plan.rtol,
        "atol": plan.atol,
        "seed": plan.seed,
        "dtype": plan.dtype,
        "summation": plan.summation,
        "seconds": round(seconds, 6),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "metastable": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{_MACHINE}, {jax.default_backend()}",
    }


# --- checks -----------------------------------------------------------------------------------------------------


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
    if dynamics.geometry_name == "sphere":
        x = _on_sphere(x)
    return x


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
        warnings.warn("Tokens were not on the unit sphere and have been projected onto it.", UserWarning, stacklevel=4)
    return np.where(np.abs(norms * largest - 1.0) < 1e-15, x, scaled / norms)  # unit vectors keep their digits


def _check_method(dyn: Dynamics, method: str) -> None:
    noisy = bool(np.any(np.asarray(dyn.noise) != 0))
    if noisy and method != "euler":
        raise InputError(f"Noise needs method='euler' (Euler-Maruyama), not {method!r}.")
    norms = dyn.block is not None and dyn.block.has_norms
    if norms and method != "layers" and dyn.block is not None and dyn.block.order == "post":
        raise InputError("A block with norms after the sum is a map between layers: use method='layers'.")


def _check_fit(dyn: Dynamics, x: np.ndarray, method: str) -> None:
    """Let JAX try the shapes: every part must fit the tokens. Parts that are known by name fit any."""
    n, lead = x.shape[-2], x.shape[:-2]
    table = getattr(dyn.position, "table", None)
    if table is not None and np.shape(table)[-1] not in (n, 2 * n - 1):
        raise InputError(
            f"The position bias is made for another number of tokens than {n}; its shape is {np.shape(table)}."
        )
    if np.ndim(dyn.beta) and np.broadcast_shapes(np.shape(dyn.beta), lead) != lead:
        raise InputError(f"beta has shape {np.shape(dyn.beta)}, but the ensemble of tokens has shape {lead}.")
    named = all(isinstance(part, str) for part in (dyn.normalise, dyn.mask, dyn.geometry, dyn.score))
    if named and all(part is None for part in (dyn.position, dyn.block, *vars(dyn.weights).values())):
        return
    leaves, tree = jax.tree_util.tree_flatten(dyn)
    _try_shapes(tree, tuple(jax.ShapeDtypeStruct(np.shape(leaf), float) for leaf in leaves), x.shape, method)


@lru_cache(maxsize=256)
def _try_shapes(tree: Any, leaves: tuple[Any, ...], shape: tuple[int, ...], method: str) -> None:
    """Trace one step on shapes alone; done once for each structure, since it takes milliseconds."""
    tokens = jax.ShapeDtypeStruct(shape, float)

    def step(leaves: Any, x: Any) -> Any:
        dyn = jax.tree_util.tree_unflatten(tree, leaves)
        return dyn.layer(0.0, x, 1.0) if method == "layers" else dyn.velocity(0.0, x)

    try:
        after = jax.eval_shape(step, list(leaves), tokens).shape
    except (TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"The parts do not fit tokens of shape {shape}: {reason}") from error
    if after != shape:
        raise InputError(f"The parts turn tokens of shape {shape} into shape {after}; check the sizes of V, O and MLP.")


def save_times(save: Any, t: float, layer: float | None) -> np.ndarray:
    """The times at which a run is kept: an even grid for a number, the array itself otherwise."""
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


def stop_rule(dyn: Dynamics, until: Until) -> Callable[[float, np.ndarray], bool]:
    """The function (t, x) -> bool behind ``until``."""
    if until is None:
        return lambda t, x: False
    if until == "steady":
        if dyn.geometry_name == "rescaled":
            raise InputError(
                "until='steady' needs geometry 'sphere' or 'euclidean'; stop a rescaled run at a cluster count."
            )
        return lambda t, x: float(jnp.abs(dyn.velocity(t, jnp.asarray(x))).max()) < 1e-8
    if isinstance(until, int) and not isinstance(until, bool) and until >= 1:
        return lambda t, x: _cluster_count(dyn, x) <= until
    if callable(until):
        return until
    raise InputError(f"until must be 'steady', a number of clusters >= 1 or a function (t, x) -> bool, not {until!r}.")


def _cluster_count(dyn: Dynamics, x: np.ndarray) -> int:
    from metastable.observables.clusters import cluster_count

    return int(np.max(cluster_count(x, geometry="sphere" if dyn.geometry_name == "sphere" else "euclidean")))


def _real(name: str, value: Any, least: float | None = None, above: float | None = None) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a number, not {value!r}.") from error
    bound = f">= {least:g}" if least is not None else f"> {above:g}"
    if not math.isfinite(number) or (least is not None and number < least) or (above is not None and number <= above):
        raise InputError(f"{name} must be a finite number {bound}, not {value!r}.")
    return number
