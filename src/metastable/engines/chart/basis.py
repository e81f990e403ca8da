"""The basis in which a rescaled run is held (see `metastable.engines.chart.state`): V's own, and its exponential."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from metastable.backend import Array, Numeric, jax, jnp, ready, register
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError

CAP = 300.0  # exponents beyond it change nothing: such attention is saturated
_ONE_THREAD = 2**18  # multiplications up to which OpenBLAS does not share a product between threads
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_WORST_BASIS = 1e6  # condition number of eigenvectors beyond which V is taken as it is


@register
@dataclass(frozen=True)
class Chart:
    """V's adapted basis, traced: a and b hold real and imaginary parts of V's eigenvalues, grow and turn those of
    the generator whose exponential undoes the flow (V itself, or log(I + dt V)/dt for discrete layers); partner names
    the other direction of a complex pair. b, turn and partner are None when all eigenvalues are real."""

    S: Numeric
    S_inv: Numeric
    G: Numeric
    a: Numeric
    grow: Numeric
    top: Numeric | float
    b: Numeric | None = None
    turn: Numeric | None = None
    partner: Numeric | None = None
    dense: Numeric | None = None  # the generator as a matrix, when V has no well-conditioned eigenvectors
    L: Numeric | None = None
    bias: Numeric | None = None
    deepest: Numeric | float = 1e4  # score gaps are cut there for rows that are not known to be exponentials


def chart_of(dyn: Dynamics, d: int, n: int, layer: float | None = None, whole: bool | None = None) -> Chart:
    """The chart of a rescaled dynamics for tokens of dimension d.

    ``layer`` is dt in discrete time. ``whole`` says whether V is taken as a matrix instead of by its eigenvectors;
    without it, it is where these are ill-conditioned.
    """
    ready()  # all that is computed in a chart begins here
    V = dyn.weights.value_map(d=d)[0]
    A = dyn.weights.score_map(d=d)[0]
    bias = None
    if dyn.position is not None:
        bias = np.asarray(dyn.position.bias(np.arange(n), np.arange(n)))[0]
    S, S_inv, a, b, partner, condition, _, symmetric = _eigenbasis(V)
    if whole if whole is not None else not condition < _WORST_BASIS:
        generator = V if layer is None else _log_matrix(V, layer)
        top = max(0.0, float(np.linalg.eigvals(generator).real.max()))
        zero, eye = np.zeros(d), np.eye(d)
        G = float(dyn.beta) * A
        return Chart(eye, eye, G, zero, zero, top, dense=generator, L=V, bias=bias)
    grow, turn = (a, b) if layer is None else _log_layer(a, b, layer)
    plain = symmetric and np.array_equal(A, A[0, 0] * np.eye(d))
    G = float(dyn.beta) * (A if plain else quiet_product(quiet_product(S.T, A), S))
    chart = Chart(S, S_inv, G, a, grow, max(0.0, float(grow.max())), b, turn, partner, bias=bias)
    return chart if b.any() or turn.any() else replace(chart, b=None, turn=None, partner=None)


def alike(charts: list[Chart]) -> list[Chart]:
    """Charts that can be stacked: when one has complex pairs, all say how they turn."""
    if all(c.turn is None for c in charts):
        return charts
    still = np.zeros_like(charts[0].a)
    return [c if c.turn is not None else replace(c, b=still, turn=still, partner=np.arange(len(still))) for c in charts]


def has_eigenbasis(dyn: Dynamics, d: int) -> bool:
    """Whether V has well-conditioned eigenvectors; only then does the chart hold numbers instead of matrices."""
    return _eigenbasis(dyn.weights.value_map(d=d)[0]).condition < _WORST_BASIS


def has_orthogonal_basis(dyn: Dynamics, d: int) -> bool:
    """Whether V is symmetric: then tokens are as far apart as their coordinates are."""
    return _eigenbasis(dyn.weights.value_map(d=d)[0]).symmetric


def rounding_of_rates(dyn: Dynamics, d: int) -> float:
    """By how many roundings of 1 a rounding of V may move its eigenvalues; inf without a usable eigenbasis."""
    found = _eigenbasis(dyn.weights.value_map(d=d)[0])
    return found.size * found.condition if found.condition < _WORST_BASIS else np.inf


def turns_and_grows(chart: Chart) -> bool:
    """Whether some direction that grows also turns: attention then changes sides for ever."""
    if chart.dense is not None:
        values = np.linalg.eigvals(np.asarray(chart.dense))
        return bool(((values.imag != 0.0) & (values.real > 0.0)).any())
    return chart.turn is not None and bool(((np.asarray(chart.turn) != 0.0) & (np.asarray(chart.grow) > 0.0)).any())


def common_coordinates(chart: Chart, copy: Chart) -> np.ndarray:
    """The matrix that takes coordinates in a copy's basis to the run's own, for comparing them.

    Only directions of (nearly) one growth rate are mixed: what the bases differ by elsewhere is rounding, which would
    let a coordinate that grows drown one that does not.
    """
    if chart.dense is not None:
        return np.eye(len(chart.S))
    rates = np.asarray(chart.a)
    near = np.abs(rates[:, None] - np.asarray(copy.a)) <= 1e-3 * max(1.0, float(np.abs(rates).max()))
    M = quiet_product(np.asarray(chart.S_inv), np.asarray(copy.S))
    return np.where(near & (np.abs(M) > 1e-9), M, 0.0)


class _Eigenbasis(NamedTuple):
    """Real S with V = S L S^{-1}, its inverse, eigenvalue parts a, b, partners, condition number of S, |V|, V = V^T."""

    S: np.ndarray
    S_inv: np.ndarray
    a: np.ndarray
    b: np.ndarray
    partner: np.ndarray
    condition: float
    size: float
    symmetric: bool


def _eigenbasis(V: np.ndarray) -> _Eigenbasis:
    return _found_eigenbasis(np.asarray(V, np.float64).tobytes(), len(V))


@lru_cache(maxsize=16)  # a run needs it several times
def _found_eigenbasis(entries: bytes, d: int) -> _Eigenbasis:
    V = np.frombuffer(entries).reshape(d, d)
    if np.array_equal(V, V.T):
        values, S = np.linalg.eigh(V)
        return _Eigenbasis(S, S.T, values, np.zeros(d), np.arange(d), 1.0, float(np.abs(values).max()), True)
    values, vectors = np.linalg.eig(V)
    S, a, b, partner = np.zeros((d, d)), values.real.copy(), np.zeros(d), np.arange(d)
    k = 0
    while k < d:
        if values[k].imag == 0.0:
            S[:, k] = vectors[:, k].real
            k += 1
            continue
        # V(u + iv) = (alpha + i omega)(u + iv):  p' = alpha p + omega q,  q' = alpha q - omega p  for z = p u + q v
        S[:, k], S[:, k + 1] = vectors[:, k].real, vectors[:, k].imag
        b[k], b[k + 1] = values[k].imag, -values[k].imag
        partner[k], partner[k + 1] = k + 1, k
        k += 2
    condition = float(np.linalg.cond(S))
    S_inv = np.linalg.inv(S) if condition < 1e4 * _WORST_BASIS else np.full_like(S, np.nan)  # of a copy, just beyond
    return _Eigenbasis(S, S_inv, a, b, partner, condition, float(np.linalg.norm(V, 2)), False)


def _log_layer(a: np.ndarray, b: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Real and imaginary parts of log(1 + dt lambda)/dt, so that e^{k dt .} = (1 + dt lambda)^k."""
    R = 1.0 + dt * (a + 1j * b)
    if (np.abs(R) < 1e-14).any():
        raise InputError(f"R = I + dt V must be invertible, but dt = {dt:g} makes it singular; choose another dt.")
    return np.log(np.abs(R)) / dt, np.angle(R) / dt


def _log_matrix(V: np.ndarray, dt: float) -> np.ndarray:
    from scipy.linalg import logm

    R = np.eye(V.shape[0]) + dt * V
    if (np.linalg.eigvals(R).real <= 0).any():
        raise InputError(f"dt = {dt:g} is too long a layer for this V: I + dt V has no real logarithm; lower dt.")
    return np.asarray(logm(R).real) / dt


def quiet_product(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """a @ b, a few rows at a time, so that BLAS stays on one thread: its others would then spin for a while on the
    cores that the chart's kernels want."""
    rows = max(1, _ONE_THREAD // (b.shape[-1] * b.shape[-2]))
    if out is None and a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous:  # one product instead of many small ones
        return quiet_product(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
    if out is None:
        if a.shape[-2] <= rows:
            return np.asarray(a @ b)
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        out = np.empty((*batch, a.shape[-2], b.shape[-1]), np.result_type(a, b))
    for k in range(0, a.shape[-2], rows):
        np.matmul(a[..., k : k + rows, :], b, out=out[..., k : k + rows, :])
    return out


# --- maps of the chart ------------------------------------------------------------------------------------------


def exponential(A: Array) -> Array:
    """e^A by the Pade approximant of order 13 and squarings.

    JAX's own has a branch per order, and side by side (`vmap`) computes them all; it compiles for half a minute.
    """
    norm = jnp.abs(A).sum(axis=-2).max()
    halvings = jnp.maximum(0, jnp.ceil(jnp.log2(jnp.maximum(norm, 1e-300) / 5.37))).astype(int)
    A = A / 2.0**halvings
    A2 = A @ A
    A4 = A2 @ A2
    A6 = A4 @ A2
    eye = jnp.eye(A.shape[-1], dtype=A.dtype)
    b = [c / _PADE[0] for c in _PADE]
    odd = A @ (A6 @ (b[13] * A6 + b[11] * A4 + b[9] * A2) + b[7] * A6 + b[5] * A4 + b[3] * A2 + b[1] * eye)
    even = A6 @ (b[12] * A6 + b[10] * A4 + b[8] * A2) + b[6] * A6 + b[4] * A4 + b[2] * A2 + b[0] * eye
    R = jnp.linalg.solve(even - odd, even + odd)
    grown: Array = jax.lax.fori_loop(0, halvings, lambda _, R: R @ R, R)
    return grown


def flow(chart: Chart, t: Array, y: Array, only: Array | None = None) -> Array:
    """e^{t L} y, or with ``only`` (a mask of directions) the identity elsewhere. Exponents are capped at 2 CAP."""
    if chart.dense is not None:
        return y @ exponential(t * jnp.asarray(chart.dense)).T if only is None else y
    moved = _turned(chart, t, jnp.minimum(jnp.asarray(chart.grow) * t, 2 * CAP), y)
    return moved if only is None else jnp.where(only, moved, y)


def shrunk_flow(chart: Chart, t: Array, y: Array) -> Array:
    """e^{t (L - top)} y, which never overflows."""
    if chart.dense is not None:
        eye = jnp.eye(y.shape[-1])
        return y @ exponential(t * (jnp.asarray(chart.dense) - chart.top * eye)).T
    return _turned(chart, t, (jnp.asarray(chart.grow) - chart.top) * t, y)


def _turned(chart: Chart, t: Array, exponents: Array, y: Array) -> Array:
    """Every direction grown by its exponent, complex pairs turned by their angle."""
    grown = jnp.exp(exponents)
    if chart.turn is None:
        return grown * y
    angle = jnp.asarray(chart.turn) * t
    # the barrier keeps the compiler from computing sines once per token
    pair: tuple[Array, Array] = (grown * jnp.cos(angle), grown * jnp.sin(angle))
    along, across = jax.lax.optimization_barrier(pair)
    turned: Array = along * y + across * jnp.take(y, jnp.asarray(chart.partner), axis=-1)
    return turned


def times_L(chart: Chart, y: Array) -> Array:
    """L y: V in its own basis."""
    if chart.L is not None:
        return y @ jnp.asarray(chart.L).T
    straight = jnp.asarray(chart.a) * y
    return straight if chart.b is None else straight + chart.b * jnp.take(y, jnp.asarray(chart.partner), axis=-1)


def most_of_L(chart: Chart, y: Array) -> Array:
    """The largest L may make what is at most y >= 0 in every direction."""
    if chart.L is not None:
        return y @ jnp.abs(jnp.asarray(chart.L)).T
    straight = jnp.abs(jnp.asarray(chart.a)) * y
    return (
        straight
        if chart.b is None
        else straight + jnp.abs(jnp.asarray(chart.b)) * jnp.take(y, jnp.asarray(chart.partner), axis=-1)
    )


def contracting(chart: Chart) -> Array:
    """The directions in which references are held unscaled."""
    return jnp.asarray(chart.grow) < 0.0
