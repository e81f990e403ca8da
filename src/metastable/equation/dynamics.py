"""The one equation, with exchangeable parts.

    x_i' = T( x_i,  sum_h sum_j A^h_ij V_h x_j  [+ MLP(x_i)] )  [+ noise]
    A^h  = normalise( score_h(y_i, y_j) [+ position_ij],  mask ),   y = lift(t, x)

| where the papers' formulas are                                    | here                                          |
|-------------------------------------------------------------------|-----------------------------------------------|
| first paper, sec. 2.4 (attention on the sphere)                   | geometry="sphere"                             |
| first paper, eq. (3) (causal attention)                           | mask="causal", geometry="sphere"              |
| second paper, eq. (1) and (2)                                     | geometry="euclidean": `pull`, `attention`     |
| second paper, eq. (4) (rescaled tokens)                           | geometry="rescaled"; long runs: `rescaled.py` |
| second paper, eq. (3) and Remark 4 (discrete time)                | method="layers" of `integrate.simulate`       |
| first paper, A.1 (transformer block)                              | block=Block(...), method="layers"             |
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metastable.backend import is_traced, jax, jnp, register
from metastable.equation import geometry as geometries
from metastable.equation import masks, normalise, scores
from metastable.equation.blocks import Block
from metastable.equation.normalise import Normalise
from metastable.equation.weights import Weights, resolve_time
from metastable.errors import InputError

Array = Any
_MOST_ENTRIES = 2**23  # attention entries held at once; beyond it queries are taken block by block


@register
@dataclass(frozen=True)
class Dynamics:
    """Tokens as particles under self-attention.

    Parameters
    ----------
    weights : Weights
        Q, K, V of every head.
    beta : float or array
        Inverse temperature; an array runs along the leading (ensemble) axes. Negative values turn attention away
        from similar tokens.
    normalise : {"softmax", "unnormalised", "hardmax", "sinkhorn"} or function
    mask : {"full", "causal", "window(w)", "window(w, causal)"} or function
    geometry : {"sphere", "euclidean", "rescaled"} or Geometry
    score : {"dot", "distance", "bounded"}, Score or function
    position : Bias, Relative or Rotary, optional
    block : Block, optional
        MLP, norms and residual strength.
    noise : float
        Strength sigma of isotropic tangent noise, sigma dW.
    summation : {"dense", "auto", "exact", "spectral"}
        How sums over tokens are made: by JAX, or by the kernels of `metastable.engines`; `simulate` chooses.

    Examples
    --------
    >>> dyn = Dynamics(Weights(), beta=2.0, geometry="sphere")
    >>> np.asarray(dyn.attention(0.0, np.eye(2))).round(4).tolist()
    [[[0.8808, 0.1192], [0.1192, 0.8808]]]
    """

    weights: Weights = field(default_factory=Weights)
    beta: Array = 1.0
    normalise: str | Callable[..., Array] = "softmax"
    mask: str | Callable[..., Array] = "full"
    geometry: str | geometries.Geometry = "sphere"
    score: str | Callable[..., Array] = "dot"
    position: Any = None
    block: Block | None = None
    noise: Array = 0.0
    summation: str = "dense"

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Weights):
            raise InputError(f"weights must be a Weights object, not {type(self.weights).__name__}.")
        for name, least in (("beta", -np.inf), ("noise", 0.0)):
            object.__setattr__(self, name, _number(name, getattr(self, name), least))
        normalise.resolve(self.normalise)
        masks.resolve(self.mask)
        geometries.resolve(self.geometry)
        scores.resolve(self.score)
        _refuse_nonsense(self)

    # --- names, for records and tables ---

    @property
    def geometry_name(self) -> str:
        """The geometry's name, or "custom"."""
        return self.geometry if isinstance(self.geometry, str) else "custom"

    @property
    def normalise_name(self) -> str:
        """The normalisation's name, or its function's."""
        return _name(self.normalise)

    @property
    def mask_name(self) -> str:
        """The mask's name, or its function's."""
        return _name(self.mask)

    @property
    def score_name(self) -> str:
        """The score's name, or its function's."""
        return _name(self.score)

    # --- the equation ---

    def attention(self, t: Array, x: Array) -> Array:
        """A^h_ij at time t, (..., h, n, n): eq. (2)."""
        x = jnp.asarray(x)
        y = geometries.resolve(self.geometry).lift(self.weights, t, x)
        if self.block is not None and self.block.order == "pre" and self.block.attention_norm is not None:
            y = resolve_time(self.block, t).attention_norm(y)
        now = self.weights.at(t)
        A = self._rows(now, _queries(self, now, y), _keys(self, now, y), jnp.arange(x.shape[-2]))
        return jnp.broadcast_to(A, (*A.shape[:-3], self.weights.heads, *A.shape[-2:]))  # heads may share one pattern

    def velocity(self, t: Array, x: Array) -> Array:
        """x_i' at time t, (..., n, d), without noise."""
        return geometries.resolve(self.geometry).tangent(self.weights, t, x, self.pull(t, x))

    def pull(self, t: Array, x: Array) -> Array:
        """sum_h sum_j A^h_ij V_h x_j [+ MLP(x_i)]: what moves token i before the geometry has its say."""
        attend = self._attend(t)
        return attend(x) if self.block is None else resolve_time(self.block, t).pull(attend, x)

    def layer(self, t: Array, x: Array, dt: Array) -> Array:
        """One discrete layer: eq. (3) of the second paper, x + dt pull(x) on the sphere, or the whole block of A.1."""
        if self.block is not None and self.block.has_norms:
            return resolve_time(self.block, t).layer(self._attend(t), x)
        return geometries.resolve(self.geometry).retract(x + dt * self.pull(t, x))

    def _attend(self, t: Array) -> Callable[[Array], Array]:
        now = self.weights.at(t)
        lift = geometries.resolve(self.geometry).lift
        return lambda x: self._mix(now, lift(self.weights, t, x), x)

    def _mix(self, now: Weights, y: Array, x: Array) -> Array:
        """Attention computed from y, applied to the values of x; never an n x n array when n is large."""
        if self.summation != "dense":
            from metastable.engines import mix

            return mix(self, now, y, x, self.summation)
        n = x.shape[-2]
        q, k, v = _queries(self, now, y), _keys(self, now, y), _values(now, x)
        lead = int(np.prod(np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])))
        block = max(1, min(n, _MOST_ENTRIES // max(1, lead * n)))

        def some(rows: Array, q_rows: Array) -> Array:
            if normalise.resolve(self.normalise) is normalise.softmax and scores.resolve(self.score).pull == "value":
                return _output(now, self._divided_last(now, q_rows, k, v, rows))
            A = self._rows(now, q_rows, k, rows)  # (..., h, m, n)
            mixed = jnp.einsum("...hmn,...hnv->...hmv", A, v)
            if scores.resolve(self.score).pull == "difference":
                mixed = mixed - A.sum(axis=-1, keepdims=True) * jnp.take(v, rows, axis=-2)
            return _output(now, mixed)  # (..., m, d)

        if block >= n or self.normalise_name == "sinkhorn":
            return some(jnp.arange(n), q)
        return _by_blocks(some, q, n, block)

    def _divided_last(self, now: Weights, q: Array, k: Array, v: Array, rows: Array) -> Array:
        """Softmax attention applied to v, (..., h, m, v): one product gives numerators and totals."""
        plain = self.position is None and scores.resolve(self.score) is scores.SCORES["dot"]
        lone = plain and q.shape[-3] == k.shape[-3] == v.shape[-3] == 1
        if lone:  # without an axis of heads the compiler makes one loop of what follows
            q, k, v = (a[..., 0, :, :] for a in (q, k, v))
        weights = self._rows(now, q, k, rows, normalise.exponentials, 2 if lone else 3)
        ones = jnp.ones((*v.shape[:-1], 1), v.dtype)
        mixed = jnp.einsum("...mn,...nv->...mv", weights, jnp.concatenate([v, ones], axis=-1))
        out = mixed[..., :-1] / normalise.positive(mixed[..., -1:])
        return out[..., None, :, :] if lone else out

    def _rows(
        self, now: Weights, q: Array, k: Array, rows: Array, normalised: Normalise | None = None, axes: int = 3
    ) -> Array:
        """Rows of the attention matrix for some queries, (..., h, m, n); q and k have ``axes`` axes behind the runs."""
        columns = jnp.arange(k.shape[-2])
        score = scores.resolve(self.score)(q, k, _along(self.beta, q, axes))
        bias = None if self.position is None else self.position.bias(rows, columns)
        visible = masks.resolve(self.mask)
        seen = None if visible is None else visible(rows[:, None], columns[None, :])
        normalised = normalised or normalise.resolve(self.normalise)
        return normalised(score if bias is None else score + bias, seen)


def _queries(dyn: Dynamics, now: Weights, y: Array) -> Array:
    return _turned(dyn, _mapped(now.Q, now.q_bias, y))


def _keys(dyn: Dynamics, now: Weights, y: Array) -> Array:
    return _turned(dyn, _mapped(now.K, now.k_bias, y))


def _values(now: Weights, x: Array) -> Array:
    return _mapped(now.V, now.v_bias, x)


def _mapped(W: Array, bias: Array, y: Array) -> Array:
    """W_h y_i + bias_h for every head, (..., h, n, k)."""
    if W is None:
        out = y[..., None, :, :]
    else:
        out = jnp.einsum("hkd,...nd->...hnk", jnp.asarray(W, y.dtype), y)
    return out if bias is None else out + jnp.asarray(bias, y.dtype)[:, None, :]


def _turned(dyn: Dynamics, q: Array) -> Array:
    return q if dyn.position is None else dyn.position.rotate(q, jnp.arange(q.shape[-2]))


def _output(now: Weights, mixed: Array) -> Array:
    """The sum over heads of O_h times what each head gathered, (..., n, d)."""
    if now.O is None:
        out = mixed.sum(axis=-3)
    else:
        out = jnp.einsum("hdv,...hnv->...nd", jnp.asarray(now.O, mixed.dtype), mixed)
    return out if now.o_bias is None else out + jnp.asarray(now.o_bias, mixed.dtype)


def _by_blocks(some: Callable[[Array, Array], Array], q: Array, n: int, block: int) -> Array:
    count = -(-n // block)
    rows = jnp.minimum(jnp.arange(count * block), n - 1).reshape(count, block)  # the last block repeats token n - 1
    parts = jax.lax.map(lambda r: some(r, jnp.take(q, r, axis=-2)), rows)  # (count, ..., block, d)
    joined = jnp.moveaxis(parts, 0, -3)
    return joined.reshape(*joined.shape[:-3], count * block, joined.shape[-1])[..., :n, :]


def _along(beta: Array, q: Array, axes: int) -> Array:
    """beta with axes to stand beside the last ``axes`` of q, (..., h, n, k)."""
    b = jnp.asarray(beta, q.dtype)
    return b if b.ndim == 0 else b.reshape(*b.shape, *[1] * axes)


def _name(part: Any) -> str:
    return part if isinstance(part, str) else getattr(part, "__name__", None) or repr(part)


def _number(name: str, value: Any, least: float) -> Any:
    if is_traced(value) or isinstance(value, jax.Array):
        return value
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a real number, not {value!r}.") from error
    if not np.isfinite(array).all() or (array < least).any():
        hint = "; for the limit of large beta use normalise='hardmax'" if np.isinf(array).any() else ""
        raise InputError(f"{name} must be a finite number{' >= 0' if least == 0 else ''}, not {value!r}{hint}.")
    return float(array) if array.ndim == 0 else array


def _refuse_nonsense(dyn: Dynamics) -> None:
    """One sentence for every combination of parts that has no meaning."""
    name = dyn.geometry_name
    if dyn.normalise_name == "sinkhorn" and masks.resolve(dyn.mask) is not None:
        raise InputError(
            "sinkhorn needs mask='full': a causal or windowed matrix cannot be scaled to doubly stochastic."
        )
    if name == "rescaled":
        _refuse_rescaled(dyn)
    if dyn.block is not None and dyn.block.has_norms and name != "euclidean":
        raise InputError(
            f"A block with norms needs geometry='euclidean', not {name!r}: its norms take the sphere's place."
        )


def _refuse_rescaled(dyn: Dynamics) -> None:
    w, why = dyn.weights, None
    if w.time_dependent:
        why = "weights that do not depend on time (e^{tV} needs one V)"
    elif w.heads > 1:
        why = f"one head, not {w.heads} (e^{{tV}} needs one V)"
    elif any(b is not None for b in (w.q_bias, w.k_bias, w.v_bias, w.o_bias)):
        why = "weights without biases (a bias does not scale with e^{tV})"
    elif dyn.block is not None:
        why = "no block (MLP and norms do not commute with e^{tV})"
    elif scores.resolve(dyn.score).pull == "difference" or dyn.score_name != "dot":
        why = f"score='dot', not {dyn.score_name!r}"
    elif isinstance(dyn.position, scores.Rotary):
        why = "no rotary positions"
    elif not is_traced(dyn.noise) and np.any(np.asarray(dyn.noise) != 0):
        why = "noise=0"
    elif np.ndim(dyn.beta) > 0:
        why = "one beta for all runs"
    if why:
        raise InputError(f"geometry='rescaled' needs {why}; use geometry='euclidean' instead.")
