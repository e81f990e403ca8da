"""The kernels inside JAX: attention of a Dynamics by a callback to the host.

JAX asks the host for sum_j A_ij v_j with ``jax.pure_callback``, so every integrator of the package works unchanged. The
callback touches NumPy only. It costs some 0.2 ms a call beside a loop written in NumPy alone (measured; equal from
n = 10,000 on), which is why small systems stay with the compiled dense sum.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from metastable.backend import is_traced, jax, jnp
from metastable.engines.attend import SUMMATIONS, attend
from metastable.equation import dynamics as core
from metastable.equation import geometry as geometries
from metastable.equation import masks, normalise, scores
from metastable.equation.weights import Weights, resolve_time
from metastable.errors import InputError, unknown

Array = Any


def unsupported(dyn: Any, summation: str = "auto") -> str | None:
    """Why the kernels cannot serve this dynamics, in words that follow "because", or None."""
    if scores.resolve(dyn.score) is not scores.SCORES["dot"]:
        return f"the score is {dyn.score_name!r}, not 'dot'"
    if isinstance(dyn.position, (scores.Bias, scores.Relative)):
        return "scores carry a position bias"
    if normalise.resolve(dyn.normalise) not in normalise.NORMALISATIONS.values():
        return "the normalisation is a function of the whole matrix"
    if (
        not isinstance(dyn.mask, str)
        and dyn.mask is not masks.causal
        and not isinstance(dyn.mask, type(masks.window(1)))
    ):
        return "the mask is a function"
    if summation == "spectral":
        return _not_spectral(dyn)
    return None


def _not_spectral(dyn: Any) -> str | None:
    w = dyn.weights
    if dyn.geometry_name != "sphere" or dyn.block is not None:
        return "an expansion needs tokens on the sphere and no block"
    if dyn.normalise_name not in ("softmax", "unnormalised") or dyn.mask_name not in ("full", "causal"):
        return "an expansion needs softmax or unnormalised attention, full or causal"
    if dyn.position is not None or any(b is not None for b in (w.q_bias, w.k_bias, w.v_bias)):
        return "an expansion needs scores beta <Qx, Kx> without positions or biases"
    if w.dimension not in (None, 2, 3):
        return f"an expansion exists in dimension 2 and 3, not {w.dimension}"
    for A in w.score_map(0.0, w.dimension) if w.dimension and not is_traced(w.Q) and not is_traced(w.K) else ():
        square = A.T @ A
        if np.abs(square - np.eye(len(A)) * square[0, 0]).max() > 1e-12 * abs(square[0, 0]):
            return "an expansion needs Q^T K to be a multiple of a rotation"
    return None


def velocity_field(dynamics: Any, summation: str = "auto", tol: float = 1e-12) -> Callable[[Array, Array], Array]:
    """The velocity (t, x) -> x' of a Dynamics, by the kernels of this package; it may be traced by JAX.

    Parameters
    ----------
    dynamics : Dynamics
        Any with the dot score, named mask and normalisation, and no position bias.
    summation : {"auto", "exact", "spectral"}
    tol : float
        Error allowed by the linear-time sum.

    Examples
    --------
    >>> import metastable as ms
    >>> dyn = ms.Dynamics(beta=4.0)
    >>> x = ms.initial.sphere(50, 3, seed=0)
    >>> f = velocity_field(dyn)
    >>> bool(np.abs(f(0.0, x) - dyn.velocity(0.0, x)).max() < 1e-14)
    True
    """
    if summation not in SUMMATIONS:
        raise unknown("summation", summation, SUMMATIONS)
    why = unsupported(dynamics, summation)
    if why is not None:
        raise InputError(f"summation={summation!r} is not possible here because {why}.")
    geometry = geometries.resolve(dynamics.geometry)

    def velocity(t: Array, x: Array) -> Array:
        x = jnp.asarray(x)
        now = dynamics.weights.at(t)

        def gather(y: Array) -> Array:
            return mix(dynamics, now, geometry.lift(dynamics.weights, t, y), y, summation, tol)

        pull = gather(x) if dynamics.block is None else resolve_time(dynamics.block, t).pull(gather, x)
        return geometry.tangent(dynamics.weights, t, x, pull)

    return velocity


def mix(dyn: Any, now: Weights, y: Array, x: Array, summation: str = "auto", tol: float = 1e-12) -> Array:
    """sum_h sum_j A^h_ij V_h x_j, (..., n, d), with attention computed from y: what `Dynamics` sums densely."""
    biased = any(b is not None for b in (now.q_bias, now.k_bias, now.v_bias))
    thin = now.Q is not None and np.shape(now.Q)[-2] < min(np.shape(now.Q)[-1], 3)
    if biased or thin or dyn.position is not None or dyn.geometry_name not in ("sphere", "euclidean"):
        return _mix_mapped(dyn, now, y, x, summation, tol)
    A = _score_map(now)  # (h, d, d), or None for the identity
    # On the sphere the part along x_i is projected out: that along the query, unless Q^T K or V turn it away.
    straight = A is None and now.V is None and now.O is None
    radial = not (dyn.geometry_name == "sphere" and dyn.block is None and straight)

    def gathered(y: Any, beta: Any, *maps: Any) -> np.ndarray:
        return _gather_own(np.asarray(y), np.asarray(beta), maps, dyn, summation, tol, radial)

    heads = 1 if A is None else np.shape(A)[0]
    shape = jax.ShapeDtypeStruct((*y.shape[:-2], heads, *y.shape[-2:]), y.dtype)
    maps = () if A is None else (A,)
    mixed = jax.pure_callback(gathered, shape, y, jnp.asarray(dyn.beta), *maps, vmap_method="sequential")
    return core._output(now, mixed if now.V is None else _each_value(jnp.asarray(now.V, y.dtype), mixed))


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
    y: np.ndarray, beta: np.ndarray, maps: tuple[Any, ...], dyn: Any, summation: str, tol: float, radial: bool
) -> np.ndarray:
    """sum_j A^h_ij y_j for every head, on the host, (..., h, n, d)."""
    out = []
    for A in np.asarray(maps[0]) if maps else [None]:
        q = y if A is None else y @ A.astype(y.dtype)
        got = attend(
            q, y, None, beta, normalise=dyn.normalise_name, mask=str(dyn.mask_name), summation=summation, tol=tol,
            radial=radial, symmetric=A is None or bool(np.array_equal(A, A.T)),
        )  # fmt: skip
        out.append(got.value)
    return np.stack(out, axis=-3).astype(y.dtype, copy=False)


def _mix_mapped(dyn: Any, now: Weights, y: Array, x: Array, summation: str, tol: float) -> Array:
    """The general case: queries, keys and values of every head as arrays."""
    q, k, v = core._queries(dyn, now, y), core._keys(dyn, now, y), core._values(now, x)
    lead = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    beta = jnp.asarray(dyn.beta)
    beta = beta.reshape(*beta.shape, 1) if beta.ndim else beta  # beside the heads

    def gathered(q: Any, k: Any, v: Any, beta: Any) -> np.ndarray:
        got = attend(
            np.asarray(q), np.asarray(k), np.asarray(v), np.asarray(beta), normalise=dyn.normalise_name,
            mask=str(dyn.mask_name), summation=summation, tol=tol,
        )  # fmt: skip
        return got.value.astype(v.dtype, copy=False)

    shape = jax.ShapeDtypeStruct((*lead, *v.shape[-2:]), v.dtype)
    return core._output(now, jax.pure_callback(gathered, shape, q, k, v, beta, vmap_method="sequential"))
