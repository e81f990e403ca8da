"""The engines of many tokens: sums by kernels on the host, exact ones and expansions in linear time.

JAX asks the host for sum_j A_ij v_j with ``jax.pure_callback``, so every method of the package works unchanged. The
callback costs some 0.2 ms a call beside a loop written in NumPy alone (measured; equal from n = 10,000 on).
"""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from metastable.backend import Array, Tokens, jax, jnp
from metastable.engines import dense
from metastable.engines.attend import attend, journal, view_of
from metastable.engines.costs import callback_seconds, exact_seconds, spectral_seconds
from metastable.engines.interface import Engine, Saved, State, Stops
from metastable.equation import attention
from metastable.equation.dynamics import Dynamics, Mix
from metastable.equation.geometry import project
from metastable.equation.weights import Weights
from metastable.errors import InputError
from metastable.solve.plan import Plan

_failed: list[BaseException] = []  # what a callback could not say through JAX, such as Ctrl-C


class Exact(Engine):
    """Every visible pair, block by block, by kernels that never hold an n x n array."""

    name = "exact"
    about = "every visible pair by vector kernels, block by block; dot scores, streaming normalisation, interval masks"
    summation = "exact"

    def supports(self, plan: Plan) -> str | None:
        return unsupported(plan)

    def cost(self, plan: Plan) -> float:
        return exact_seconds(plan)

    def least(self, plan: Plan) -> float:
        return callback_seconds(plan)

    def start(self, plan: Plan, x: np.ndarray) -> State:
        return dense.Dense().start(plan, x)

    def advance(self, plan: Plan, state: State, stops: Stops) -> tuple[State, Saved]:
        _failed.clear()
        with journal() as notes:
            after, saved = dense.advance(plan, state, stops, host_mix(self.summation, tangent=not plan.method.discrete))
        if _failed:
            raise _failed.pop()
        return after, replace(saved, notes={"sums": notes.summary()})


class Spectral(Exact):
    """Expansions on the circle and S^2, in linear time, to 1e-12; exact sums where they are cheaper."""

    name = "spectral"
    about = "expansions on the circle and S^2, in linear time, to 1e-12; exact where that is cheaper"
    summation = "auto"

    def supports(self, plan: Plan) -> str | None:
        return unsupported(plan) or _not_spectral(plan)

    def cost(self, plan: Plan) -> float:
        return spectral_seconds(plan)


def unsupported(plan: Plan) -> str | None:
    """Why the kernels cannot sum the attention of a plan, or None."""
    if os.environ.get("NPROC") == "1":
        return "NPROC=1 leaves XLA one thread, which would wait for ever for the kernels that it calls"
    dyn = plan.model
    if dyn.geometry.rescales:
        return "the rescaled flow has a chart of its own"
    if not dyn.score.is_dot:
        return f"the score {dyn.score.name!r} is not a dot product"
    if dyn.position is not None and dyn.position.bias(np.arange(1), np.arange(1)) is not None:
        return "scores carry a position bias"
    if dyn.normalise.stream is None:
        return f"the normalisation {dyn.normalise.name!r} declares no stream"
    if dyn.mask.by_time is not None:
        return "the mask changes from layer to layer"
    if dyn.mask.interval is None:
        return f"the mask {dyn.mask.name!r} declares no interval"
    low, high = dyn.mask.bounds(plan.n)
    if (low >= high).any():
        return "some token sees nobody"
    if jax.default_backend() != "cpu":
        return "kernels run on the CPU"
    return None


def _not_spectral(plan: Plan) -> str | None:
    dyn = plan.model
    if not dyn.geometry.fixed_norm or dyn.block is not None:
        return "an expansion needs tokens on the sphere and no block"
    if dyn.normalise.stream not in ("softmax", "unnormalised") or view_of(dyn.mask, plan.n) == "some":
        return "an expansion needs softmax or unnormalised attention, full or causal"
    if dyn.position is not None or dyn.weights.biased or not dyn.weights.bilinear:
        return "an expansion needs scores beta <Qx, Kx> without positions, biases or norms of queries and keys"
    if plan.d not in (2, 3):
        return f"an expansion exists in dimension 2 and 3, not {plan.d}"
    for weights in {id(each.weights): each.weights for each in plan.dynamics}.values():
        if weights.Q is None and weights.K is None:
            continue
        for A in weights.score_map(0.0, plan.d):
            square = A.T @ A
            if np.abs(square - np.eye(len(A)) * square[0, 0]).max() > 1e-12 * abs(square[0, 0]):
                return "an expansion needs Q^T K to be a multiple of a rotation"
    return None


# --- sums inside JAX ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def host_mix(summation: str, tol: float = 1e-12, tangent: bool = False) -> Mix:
    """`equation.attention.mix` by the kernels: sum_h sum_j A^h_ij V_h x_j with attention computed from y.

    ``tangent`` says that only the part along the sphere is needed of what they gather.
    """
    return partial(_mix, summation, tol, tangent)


def velocity_field(dynamics: Dynamics, summation: str = "auto", tol: float = 1e-12) -> Callable[[Any, Any], Tokens]:
    """The velocity (t, x) -> x' of a Dynamics, by the kernels; it may be traced by JAX.

    Examples
    --------
    >>> import metastable as ms
    >>> dyn, x = ms.Dynamics(beta=4.0), ms.initial.sphere(50, 3, seed=0)
    >>> bool(np.abs(velocity_field(dyn)(0.0, x) - dyn.velocity(0.0, x)).max() < 1e-14)
    True
    """
    if dynamics.normalise.stream is None or dynamics.mask.interval is None or not dynamics.score.is_dot:
        raise InputError(
            "The kernels sum dot scores under a normalisation with a stream and a mask with an interval, not "
            f"{dynamics.score.name}, {dynamics.normalise.name} and {dynamics.mask.name}."
        )
    mix = host_mix(summation, tol, tangent=True)

    def velocity(t: Any, x: Any) -> Tokens:
        _failed.clear()
        found: Tokens = jax.block_until_ready(dynamics.velocity(t, jnp.asarray(x), mix))
        if _failed:
            raise _failed.pop()
        return found

    return velocity


def _mix(summation: str, tol: float, tangent: bool, dyn: Dynamics, now: Weights, y: Tokens, x: Tokens) -> Tokens:
    biased = now.v_bias is not None or not now.bilinear
    thin = now.Q is not None and np.shape(now.Q)[-2] < min(np.shape(now.Q)[-1], 3)
    if biased or thin or dyn.position is not None or y is not x:
        return _mix_mapped(dyn, now, y, x, summation, tol)
    A = _score_map(now)  # (h, d, d), or None for the identity
    # On the sphere the part along x_i is projected out: that along the query, unless Q^T K or V turn it away.
    straight = A is None and now.V is None and now.O is None
    plain = dyn.geometry.tangent is project and dyn.geometry.gained is None and dyn.block is None
    radial = not (tangent and plain and straight)

    def gathered(y: Any, beta: Any, *maps: Any) -> np.ndarray:
        return _gather_own(np.asarray(y), np.asarray(beta), maps, dyn, summation, tol, radial)

    heads = 1 if A is None else np.shape(A)[0]
    shape = jax.ShapeDtypeStruct((*y.shape[:-2], heads, *y.shape[-2:]), y.dtype)
    maps = () if A is None else (A,)
    mixed = _on_host(gathered, shape, y, jnp.asarray(dyn.beta), *maps)
    return attention.output(now, mixed if now.V is None else _each_value(jnp.asarray(now.V, y.dtype), mixed))


def _on_host(function: Callable[..., np.ndarray], shape: jax.ShapeDtypeStruct, *arrays: Array) -> Array:
    """A callback that answers nan after a failure, so that JAX comes to its end and the failure can be raised."""

    def safe(*given: Any) -> np.ndarray:
        if not _failed:
            try:
                return function(*given)
            except BaseException as error:  # Ctrl-C too: JAX would turn it into an error of its own
                _failed.append(error)
        lead = np.shape(given[0])[: np.ndim(given[0]) - len(arrays[0].shape)]
        return np.full((*lead, *shape.shape), np.nan, shape.dtype)

    return jax.pure_callback(safe, shape, *arrays, vmap_method="sequential")  # type: ignore[no-any-return]


def _each_value(V: Array, mixed: Array) -> Array:
    """V_h times what head h gathered, (..., h, n, v)."""
    heads = max(V.shape[0], mixed.shape[-3])
    V = jnp.broadcast_to(V, (heads, *V.shape[1:]))
    mixed = jnp.broadcast_to(mixed, (*mixed.shape[:-3], heads, *mixed.shape[-2:]))
    return jnp.einsum("hvd,...hnd->...hnv", V, mixed)


def _score_map(now: Weights) -> Array | None:
    """Q_h^T K_h, (h, d, d), or None when both are the identity."""
    if now.Q is None and now.K is None:
        return None
    if now.Q is None:
        return jnp.asarray(now.K)
    if now.K is None:
        return jnp.swapaxes(jnp.asarray(now.Q), -1, -2)
    return jnp.einsum("hkd,hke->hde", *jnp.broadcast_arrays(now.Q, now.K))


def _gather_own(
    y: np.ndarray, beta: np.ndarray, maps: tuple[Any, ...], dyn: Dynamics, summation: str, tol: float, radial: bool
) -> np.ndarray:
    """sum_j A^h_ij y_j for every head, on the host, (..., h, n, d)."""
    out = []
    for A in np.asarray(maps[0]) if maps else [None]:
        q = y if A is None else y @ A.astype(y.dtype)
        got = attend(
            q, y, None, beta, normalise=dyn.normalise, mask=dyn.mask, summation=summation, tol=tol,
            radial=radial, symmetric=A is None or bool(np.array_equal(A, A.T)),
        )  # fmt: skip
        out.append(got.value)
    return np.stack(out, axis=-3).astype(y.dtype, copy=False)


def _mix_mapped(dyn: Dynamics, now: Weights, y: Tokens, x: Tokens, summation: str, tol: float) -> Tokens:
    """The general case: queries, keys and values of every head as arrays."""
    q, k, v = attention.queries(dyn, now, y), attention.keys(dyn, now, y), attention.values(now, x)
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    beta = jnp.asarray(dyn.beta)
    beta = beta.reshape(*beta.shape, 1) if beta.ndim else beta  # beside the heads

    def gathered(q: Any, k: Any, v: Any, beta: Any) -> np.ndarray:
        got = attend(
            np.asarray(q), np.asarray(k), np.asarray(v), np.asarray(beta), normalise=dyn.normalise, mask=dyn.mask,
            summation=summation, tol=tol,
        )  # fmt: skip
        return got.value.astype(v.dtype, copy=False)

    shape = jax.ShapeDtypeStruct((*lead, *v.shape[-2:]), v.dtype)
    return attention.output(now, _on_host(gathered, shape, q, k, v, beta))
