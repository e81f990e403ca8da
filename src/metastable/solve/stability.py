"""How long slow tokens stay where they are, by linear stability.

Around slow tokens x the Jacobian J of the velocity (on tangent spaces) splits the displacements into a stable part and
a slow part, whose eigenvalues have real parts >= -1e-7 |J|.

| part     | what is computed                                                          | at rest when      |
|----------|---------------------------------------------------------------------------|-------------------|
| stable   | the distance to its own equilibrium: Newton displacement -J^{-1} v        | less than 1e-4    |
| unstable | eigenvalues mu > 1e-7 |J|                                                 | there is none     |
| neutral  | drift c' = L v and its derivative, by walking on the slow manifold: move  | both are rounding |
|          | along a neutral direction, let the stable part settle, measure L v again  |                   |

Drifts far below the rounding of v (two clusters at angle 2, beta = 25: 4e-16) are resolved, because differences
x_j - x_i are taken before they are summed: sum_j A_ij V x_j = sum_j A_ij V (x_j - x_i) + (sum_j A_ij) V x_i, where the
tangent part of the last term is 0 or above rounding. A symmetry (all tokens rotated together) then gives a drift of 0.
Where the tokens of a cluster agree to a rounding only, a drift below about 1e-29 counts as 0; with an MLP or biases, or
in R^d unless scores act on differences, one below 1e-14 |pull| does.

How long a plateau lasts, with speed a and growth mu along a direction: a motion a e^{mu t} covers the distance 1 in
log(1 + mu/a)/mu (saddle); a speed a e^{kappa s} at distance s covers it in (1 - e^{-kappa})/(kappa a) (drift).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import schur
from scipy.linalg.lapack import dtrsyl

from metastable.backend import jax, jnp
from metastable.equation.dynamics import Dynamics

Array = jax.Array

_CLOSE = 1e-4  # a displacement too small to matter
_NEUTRAL = 1e-7  # real parts that count as zero, in units of |J|
_WALK = 1e-3  # length of a walk along a neutral direction, in units of |x|
_MOST_WALKS = 100  # neutral directions that are walked along; with more, growth below 1e-7 |J| is not resolved
_EPS = float(np.finfo(np.float64).eps)
_ROUNDING = 64 * _EPS


def lifetime(dynamics: Dynamics, t: float, x: np.ndarray) -> float:
    """How long slow tokens x (n, d) stay where they are; inf when they are at rest.

    >>> lifetime(Dynamics(beta=25.0), 0.0, np.array([[1.0, 0.0], [1.0, 0.0]]))
    inf
    """
    basis = _tangent_basis(x) if dynamics.geometry.fixed_norm else np.tile(np.eye(x.shape[1]), (len(x), 1, 1))
    if basis.shape[2] == 0:
        return math.inf  # two points are a sphere on which nothing moves
    place = _Place(dynamics, t, x, basis)
    J = np.asarray(_jacobian(dynamics, t, jnp.asarray(x), jnp.asarray(basis)))
    largest = float(np.abs(x).max()) or 1.0
    pull = float(_precise(dynamics, t, jnp.asarray(x))[2].max())
    slack = _NEUTRAL * max(float(np.linalg.norm(J)), pull / largest)
    right, left, settle, own = _split(J, slack)
    v, _ = place.velocity(np.zeros(len(J)))
    away = place.length(settle @ v)
    if away > _CLOSE:
        return away / place.length(v - right @ (left @ v))
    saddle = _saddle_time(own, left @ v, right, slack, place.length)
    if own.size == 0 or saddle < math.inf:
        return saddle
    c = place.drift(np.zeros(len(J)), left, settle, away)
    growth, least = own, slack
    if len(own) <= _MOST_WALKS:
        step = _WALK * largest
        ends = [place.drift(step * w, left, settle, away) - place.drift(-step * w, left, settle, away) for w in right.T]
        growth = np.stack(ends, axis=1) / (2 * step)  # derivative of the drift along the slow manifold, (m, m)
        least = 1e-3 * float(np.linalg.norm(growth))
    return min(_saddle_time(growth, c, right, least, place.length), _drift_time(growth, c, place.length(right @ c)))


# --- velocity and Jacobian --------------------------------------------------------------------------------------------


@jax.jit  # of x as it is: x_j - x_i is exact only where x is not computed in the same loop
def _precise(dynamics: Dynamics, t: Array, x: Array) -> tuple[Array, Array, Array]:
    """The velocity (n, d) with differences taken before sums, a bound of its rounding (n,), and |pull| (n,)."""
    tangent = partial(dynamics.geometry.tangent, dynamics.weights, t, x)
    pull, now = dynamics.pull(t, x), dynamics.weights.at(t)
    size = jnp.linalg.norm(pull, axis=-1)
    if dynamics.block is not None or now.v_bias is not None or now.o_bias is not None:
        return tangent(pull), _ROUNDING * size, size
    gaps = (x[None, :, :] - x[:, None, :])[None]  # x_j - x_i, (1, i, j, d)
    for matrix in (now.V, now.O):
        gaps = gaps if matrix is None else jnp.einsum("hvd,hijd->hijv", *_same_heads(jnp.asarray(matrix), gaps))
    A = dynamics.attention(t, x)  # (h, i, j)
    near = (A[..., None] * gaps).sum(axis=(0, 2))
    noise = (A * jnp.linalg.norm(gaps, axis=-1)).sum(axis=(0, 2))
    own = tangent(pull - near)  # of (sum_j A_ij) V x_i
    real = jnp.linalg.norm(own, axis=-1) > _ROUNDING * size
    return tangent(near) + jnp.where(real[:, None], own, 0.0), _ROUNDING * (noise + jnp.where(real, size, 0.0)), size


def _same_heads(matrix: Array, gaps: Array) -> tuple[Array, Array]:
    h = max(matrix.shape[0], gaps.shape[0])
    return tuple(jnp.broadcast_to(a, (h, *a.shape[1:])) for a in (matrix, gaps))  # type: ignore[return-value]


@jax.jit
def _jacobian(dynamics: Dynamics, t: Array, x: Array, basis: Array) -> Array:
    """J in coordinates of the tangent basis (n, d, k), (n k, n k), column by column."""

    def column(y: Array) -> Array:
        way = jnp.einsum("ndk,nk->nd", basis, y.reshape(x.shape[0], -1))
        moved = jax.jvp(lambda x: dynamics.velocity(t, x), (x,), (way,))[1]
        return jnp.einsum("ndk,nd->nk", basis, moved).ravel()

    size = x.shape[0] * basis.shape[2]
    columns: Array = jax.lax.map(column, jnp.eye(size), batch_size=min(size, 32))
    return columns.T


@dataclass(frozen=True)
class _Place:
    """Coordinates y (n k,) around tokens x: x + basis y, back on the space; velocities in the same basis."""

    dynamics: Dynamics
    t: float
    x: np.ndarray
    basis: np.ndarray  # (n, d, k)

    def velocity(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The precise velocity and its rounding at y, both (n k,)."""
        x = self.x
        if y.any():
            moved = x + np.einsum("ndk,nk->nd", self.basis, y.reshape(len(x), -1))
            x = np.asarray(self.dynamics.geometry.retract(jnp.asarray(moved)))
        v, noise, _ = _precise(self.dynamics, self.t, jnp.asarray(x))
        k = self.basis.shape[2]
        return np.einsum("ndk,nd->nk", self.basis, np.asarray(v)).ravel(), np.repeat(np.asarray(noise), k)

    def length(self, y: np.ndarray) -> float:
        """The longest displacement of a token."""
        return float(np.linalg.norm(np.abs(y).reshape(len(self.x), -1), axis=1).max())

    def drift(self, y: np.ndarray, left: np.ndarray, settle: np.ndarray, away: float) -> np.ndarray:
        """L v at y, once the stable part has settled; 0 where it is rounding."""
        for _ in range(4):
            y = y - settle @ self.velocity(y)[0]
        v, noise = self.velocity(y)
        # left duals belong to the tokens as they are; how far these are from settled, the duals are off
        turned = 1e-13 + away
        c, rounding = left @ v, np.abs(left) @ noise + turned * np.linalg.norm(left, axis=1) * np.linalg.norm(v)
        return np.where(np.abs(c) > rounding, c, 0.0)


# --- lifetimes --------------------------------------------------------------------------------------------------------


def _saddle_time(
    J: np.ndarray, c: np.ndarray, right: np.ndarray, least: float, length: Callable[[np.ndarray], float]
) -> float:
    """The least log(1 + mu/a)/mu over eigenvalues mu > least, where v has the component a, at least rounding."""
    if J.size == 0:
        return math.inf
    mu, modes = np.linalg.eig(J)
    along = np.linalg.lstsq(modes, c.astype(complex), rcond=None)[0]
    times = [math.inf]
    for k in np.flatnonzero((mu.real > least) & (mu.real > 0)):
        rate = float(mu[k].real)
        a = max(abs(along[k]) * length(right @ modes[:, k]), 2 * _EPS * rate)
        times.append(math.log1p(rate / a) / rate)
    return min(times)


def _drift_time(growth: np.ndarray, c: np.ndarray, speed: float) -> float:
    """(1 - e^{-kappa})/(kappa a); a drift that slows down and ends out of sight is rest."""
    if speed == 0.0:
        return math.inf
    kappa = float(c @ growth @ c / (c @ c)) / speed
    if -kappa * _CLOSE > 1.0:
        return math.inf
    return -math.expm1(-abs(kappa)) / (abs(kappa) * speed) if abs(kappa) > 1e-9 else 1.0 / speed


def _split(J: np.ndarray, slack: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Slow directions (N, m), their left duals (m, N), J^{-1} on the stable part (N, N), J on the slow part (m, m)."""
    T, Z, m = schur(J, output="real", sort=lambda re, im: re >= -slack)
    slow, fast = Z[:, :m], Z[:, m:]
    if m == 0 or m == len(J):
        return slow, slow.T, np.zeros_like(J) if m else np.linalg.inv(J), T[:m, :m]
    Y, shrunk, _ = dtrsyl(T[:m, :m], T[m:, m:], T[:m, m:], isgn=-1)
    Y = Y / shrunk
    return slow, slow.T + Y @ fast.T, (fast - slow @ Y) @ np.linalg.solve(T[m:, m:], fast.T), T[:m, :m]


def _tangent_basis(x: np.ndarray) -> np.ndarray:
    """Orthonormal bases of the tangent spaces of the sphere, (n, d, d - 1)."""
    return np.linalg.svd(x[:, None, :], full_matrices=True)[2][:, 1:, :].transpose(0, 2, 1)
