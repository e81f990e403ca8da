"""flow: the pure core of a run, through which jax.grad, jit and vmap go.

No checks that need values, no warnings, no branching on numbers: tokens, weights, beta, noise and MLP weights may all
be traced. `simulate` adds everything else, and on the dense engine takes the very same steps.
"""

from typing import Any

import numpy as np

from metastable.backend import Array, Tokens, is_traced, jax, jnp, ready
from metastable.equation.attention import mix as dense_mix
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, door
from metastable.solve import methods, stepping
from metastable.solve.checks import check_method, check_shapes, checked_seed, real
from metastable.solve.memory import check_size
from metastable.solve.methods import Method
from metastable.solve.stepping import Stepped


@door
def flow(
    dynamics: Dynamics,
    x0: Any,
    times: Any,
    method: str | Method = "rk4",
    dt: float | None = None,
    rtol: float = 1e-10,
    atol: float | None = None,
    seed: int = 0,
) -> Tokens:
    """Tokens at ``times`` of the run that starts at x0 at time 0, as a function that JAX can transform.

    Parameters
    ----------
    dynamics : Dynamics
    x0 : array (..., n, d)
        With leading axes, an ensemble under one dynamics; the adaptive methods choose one step for all of it.
    times : array (T,)
        Increasing. For fixed steps they must be known numbers, because the number of steps is structure; the adaptive
        methods take traced times too.
    method : name or method
    dt : float, optional
        Step of the fixed methods (default 0.1; 1 for layers), a known number.
    rtol, atol : float
        Tolerances of the adaptive methods.
    seed : int
        Seed of the noise.

    Returns
    -------
    array (T, ..., n, d)

    Tokens are not projected onto the sphere, and in the rescaled geometry the plain formula of eq. (4) is used, which
    is right for short times only; `simulate` watches over both.

    Examples
    --------
    >>> import metastable as ms
    >>> x0 = jnp.asarray(ms.initial.sphere(6, 3, seed=0))
    >>> spread = lambda beta: jnp.var(flow(ms.Dynamics(beta=beta), x0, [2.0])[-1])
    >>> bool(jax.grad(spread)(4.0) > 0)
    True
    """
    ready()
    if not isinstance(dynamics, Dynamics):
        raise InputError(f"dynamics must be a Dynamics object, not {type(dynamics).__name__}.")
    how = methods.resolve(method)
    check_method(dynamics, how)
    if how.discrete and dynamics.geometry.rescales:
        raise InputError(
            "flow takes no layers in the rescaled geometry; use geometry='euclidean' and z = (I + dt V)^{-k} x after k "
            "layers, or simulate."
        )
    x = _tokens(dynamics, x0)
    check_shapes(dynamics, x.shape, how)
    if how.adaptive:
        relative = rtol if is_traced(rtol) else real("rtol", rtol, above=0.0)
        absolute = relative / 100 if atol is None else atol if is_traced(atol) else real("atol", atol, least=0.0)
        wanted = _times(times, x.dtype)
        _check_memory(dynamics, x, wanted.size)
        return _adaptive(dynamics, x, wanted, how, relative, absolute)
    if _traced_inside(times) or is_traced(dt):
        raise InputError("times and dt of fixed steps must be known numbers, not traced; use method='tsit5' for that.")
    stops = _times(times)
    _check_memory(dynamics, x, stops.size)
    step = real("dt", stepping.default_step(dynamics, how) if dt is None else dt, above=0.0)
    counts, thetas = steps_to(stops, step)
    if how.discrete and (thetas < 1).any():
        raise InputError(f"Tokens exist only at whole layers: times must be multiples of dt = {step:g}.")
    known = seed if isinstance(seed, jax.Array) else checked_seed(seed)  # traced ones are such arrays too
    key = jax.random.fold_in(jax.random.key(known), 0)
    return _fixed(dynamics, x, counts, thetas, step, how, key)


def _check_memory(dyn: Dynamics, x: Tokens, count: int) -> None:
    """Refuse what does not fit; under a transformation nobody knows what will be kept."""
    if is_traced(x):
        return
    runs, (n, d) = int(np.prod(x.shape[:-2], dtype=int)), x.shape[-2:]
    check_size(count, runs, n, d, dyn.weights.heads, whole_maps=not dyn.normalise.by_rows)


def _tokens(dyn: Dynamics, x0: Any) -> Tokens:
    try:
        x = jnp.asarray(x0)
    except (TypeError, ValueError) as error:
        raise InputError(f"Tokens must be a real array (..., n, d), not {type(x0).__name__}.") from error
    if jnp.iscomplexobj(x):
        raise InputError("Tokens must be real, but they are complex.")
    if x.ndim < 2 or 0 in x.shape:
        raise InputError(f"Tokens need shape (..., n, d) with n, d >= 1, but their shape is {x.shape}.")
    d = dyn.weights.dimension
    if d is not None and d != x.shape[-1]:
        raise InputError(f"Tokens have dimension {x.shape[-1]}, but the weights act on dimension {d}.")
    return x if jnp.issubdtype(x.dtype, jnp.floating) else x.astype(float)


def _traced_inside(times: Any) -> bool:
    return any(is_traced(leaf) for leaf in jax.tree_util.tree_leaves(times))


def _times(times: Any, dtype: Any = None) -> Any:
    """Times (T,): traced ones as they are, known ones checked."""
    if _traced_inside(times):
        return jnp.atleast_1d(jnp.asarray(times, dtype))
    try:
        stops = np.atleast_1d(np.asarray(times, float))
    except (TypeError, ValueError) as error:
        raise InputError(f"times must be numbers, not {times!r}.") from error
    if stops.ndim != 1 or not stops.size or not np.isfinite(stops).all() or stops[0] < 0 or (np.diff(stops) <= 0).any():
        given = np.array2string(stops, separator=", ", threshold=8)
        raise InputError(f"times must be finite, increase and not be negative, not {given}.")
    return stops if dtype is None else jnp.asarray(stops, dtype)


def steps_to(times: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """For every time the number of steps that reach it, and the fraction of the last of them at which it lies."""
    exact = times / dt
    whole = np.ceil(exact - 1e-9).astype(np.int64)
    rest = exact - (whole - 1)
    return whole, np.where(rest > 1.0 - 1e-9, 1.0, rest)


def _fixed(
    dyn: Dynamics, x: Tokens, reached: np.ndarray, thetas: np.ndarray, dt: float, method: Method, key: Array
) -> Tokens:
    """Stops that lie equally many steps apart share one loop, whose length is known: so it can be differentiated."""
    h, noisy = jnp.asarray(dt, x.dtype), dyn.noisy
    state = Stepped(x, x, jnp.asarray(0), jnp.zeros((), x.dtype))
    counts = np.diff(reached, prepend=0)
    out, start = [], 0

    def steps(state: Stepped, count: int) -> Stepped:
        def one(s: Stepped, _: None) -> tuple[Stepped, None]:
            return stepping.step(dyn, s, h, key, method, noisy, dense_mix), None

        return jax.lax.scan(one, state, None, length=count)[0] if count else state

    while start < len(counts):
        end = start
        while end < len(counts) and counts[end] == counts[start] and (thetas[end] < 1) == (thetas[start] < 1):
            end += 1

        def stop(
            state: Stepped, theta: Array, count: int = int(counts[start]), read: bool = bool(thetas[start] < 1)
        ) -> tuple[Stepped, Tokens]:
            state = steps(state, count)
            if not read:
                return state, state.now
            return stepping.inside(dyn, state, theta, h, key, noisy, dense_mix)

        stops = jnp.asarray(thetas[start:end], x.dtype)
        if len(stops) == 1:  # a loop around the loop of its steps would take as long again to compile
            state, saved = stop(state, stops[0])
            out.append(saved[None])
        else:
            state, saved = jax.lax.scan(stop, state, stops)
            out.append(saved)
        start = end
    return jnp.concatenate(out)


def _adaptive(dyn: Dynamics, x: Tokens, times: Array, method: Method, rtol: float, atol: float) -> Tokens:
    zero = jnp.zeros((), x.dtype)
    last = times[-1]
    long = jnp.where(last > 0, last, 1.0)  # a solver needs some time to solve for
    saved: Tokens = stepping.advance_adaptive(dyn, x, zero, long, times, rtol, atol, method).saved
    return saved
