"""Are slow tokens at rest, or on a plateau that ends? Linear stability tells.

Tokens that barely move may be at rest, may sit on an unstable equilibrium, or may drift towards each other at speed
e^{-beta ...} and merge after 1e8 units of time. Around slow tokens x the Jacobian J of the velocity (on tangent spaces)
splits the displacements into a stable part and the rest, "slow": eigenvalues with real part >= -1e-7 |J|.

| part     | what is asked                                                             | at rest when      |
|----------|---------------------------------------------------------------------------|-------------------|
| stable   | how far is its own equilibrium? Newton displacement -J^{-1} v             | less than 1e-4    |
| unstable | eigenvalue mu > 1e-7 |J|                                                  | there is none     |
| neutral  | drift c' = L v and its derivative, by walking on the slow manifold: move  | both are rounding |
|          | along a neutral direction, let the stable part settle, measure L v again  |                   |

Drifts far below the rounding of v (two clusters at angle 2, beta = 25: 4e-16) are resolved, because differences
x_j - x_i are taken before they are summed: sum_j A_ij V x_j = sum_j A_ij V (x_j - x_i) + (sum_j A_ij) V x_i, where the
tangent part of the last term is 0 or above rounding. A symmetry (all tokens rotated together) then gives a drift of 0.

How long a plateau lasts, with speed a and growth mu along a direction: a motion a e^{mu t} covers the distance 1 in
log(1 + mu/a)/mu (saddle); a speed a e^{kappa s} at distance s covers it in (1 - e^{-kappa})/(kappa a) (drift).
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.linalg import schur
from scipy.linalg.lapack import dtrsyl

from metastable.backend import jax, jnp
from metastable.equation import geometry as geometries
from metastable.equation.dynamics import Dynamics

Array = jax.Array

_MOST = 1000  # coordinates up to which the Jacobian is formed
_CLOSE = 1e-4  # a displacement that is left out of sight
_NEUTRAL = 1e-7  # real parts that count as zero, in units of |J|
_WALK = 1e-3  # length of a walk along a neutral direction, in units of |x|
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Rest:
    """A verdict on slow tokens: ``kind`` "rest" or "plateau", how long it ``lasts`` from now on, and a sentence."""

    kind: str
    lasts: float
    message: str


def judge(dynamics: Dynamics, t: float, x: np.ndarray, slow: float = 1e-8) -> Rest | None:
    """Whether slow tokens are at rest, or for how long they seem to be.

    Parameters
    ----------
    dynamics : Dynamics
    t : float
        The time reached.
    x : array (n, d)
        The tokens of one run.
    slow : float
        A token that moves at this speed or faster is not slow.

    Returns
    -------
    Rest or None
        None when some token is not slow.

    Examples
    --------
    >>> from metastable.equation.dynamics import Dynamics
    >>> judge(Dynamics(beta=25.0), 0.0, np.array([[1.0, 0.0], [1.0, 0.0]])).kind
    'rest'
    >>> judge(Dynamics(beta=25.0), 0.0, np.array([[1.0, 0.0], [0.0, 1.0]])).message
    'every token is slower than 1e-08, but this is a plateau, not rest: it may last until about t = 1.5e+09'
    """
    x = np.asarray(x, dtype=np.float64)
    speed = float(np.linalg.norm(np.asarray(dynamics.velocity(t, jnp.asarray(x))), axis=-1).max())
    if not speed < slow:
        return None
    why = _unsettled(dynamics)
    if why is None and x.size > _MOST:
        why = f"stability was not judged, because {x.shape[0]} tokens in dimension {x.shape[1]} are too many"
    if why is not None:
        return _unjudged(dynamics, t, slow, speed, why)
    lasts = _lifetime(dynamics, t, x)
    if math.isinf(lasts):
        return Rest("rest", math.inf, f"every token is at rest: slower than {slow:g}, and no small displacement grows")
    text = f"every token is slower than {slow:g}, but this is a plateau, not rest: it may last until about"
    return Rest("plateau", lasts, f"{text} t = {t + lasts:.2g}")


def at_rest(dynamics: Dynamics, t: float, x: np.ndarray) -> bool:
    """True when tokens (n, d) stay where they are for ever, as far as linear stability tells.

    >>> at_rest(Dynamics(), 0.0, np.array([[1.0, 0.0], [-1.0, 0.0]]))  # opposite tokens: an unstable equilibrium
    False
    """
    verdict = judge(dynamics, t, x)
    return verdict is not None and verdict.kind == "rest"


# --- what the dynamics is ---------------------------------------------------------------------------------------


def _fixed_norm(dynamics: Dynamics) -> bool:
    return dynamics.geometry.fixed_norm


def _unsettled(dynamics: Dynamics) -> str | None:
    """Why nothing can be at rest, or None."""
    if np.any(np.asarray(dynamics.noise) != 0):
        return "noise never lets tokens rest"
    block = dynamics.block
    if not dynamics.noisy and not dynamics.autonomous:
        return "the equation depends on time, so tokens may move again"
    if block is not None and any(callable(leaf) for leaf in jax.tree_util.tree_leaves(block)):
        return "the equation depends on time, so tokens may move again"
    return None


def _unjudged(dynamics: Dynamics, t: float, slow: float, speed: float, why: str) -> Rest:
    pace = max(speed, float(np.max(np.asarray(dynamics.noise))) ** 2)  # noise sigma moves a token by 1 in 1/sigma^2
    lasts = 1.0 / pace if pace > 0 else math.inf
    text = f"every token is slower than {slow:g}, but {why}"
    known = "" if math.isinf(lasts) else f"; at the present speed this lasts until about t = {t + lasts:.2g}"
    return Rest("plateau", lasts, text + known)


# --- velocity and Jacobian --------------------------------------------------------------------------------------


def _precise(dynamics: Dynamics, t: Array | float, x: Array) -> tuple[Array, Array]:
    """The velocity (n, d), and a bound (n,) of its rounding, with differences taken before sums."""
    tangent = partial(geometries.resolve(dynamics.geometry).tangent, dynamics.weights, t, x)
    pull, now = dynamics.pull(t, x), dynamics.weights.at(t)
    size = jnp.linalg.norm(pull, axis=-1, keepdims=True)
    if dynamics.block is not None or now.v_bias is not None or now.o_bias is not None:
        return tangent(pull), 64 * _EPS * size[:, 0]
    gaps = (x[None, :, :] - x[:, None, :])[None]  # x_j - x_i, (1, i, j, d)
    for matrix in (now.V, now.O):
        gaps = gaps if matrix is None else jnp.einsum("hvd,hijd->hijv", *_same_heads(jnp.asarray(matrix), gaps))
    A = dynamics.attention(t, x)  # (h, i, j)
    near = (A[..., None] * gaps).sum(axis=(0, 2))
    rounding = (A * jnp.linalg.norm(gaps, axis=-1)).sum(axis=(0, 2))
    own = tangent(pull - near)  # of (sum_j A_ij) V x_i
    own = jnp.where(jnp.linalg.norm(own, axis=-1, keepdims=True) > 64 * _EPS * size, own, 0.0)
    return tangent(near) + own, 64 * _EPS * (rounding + jnp.where((own != 0).any(axis=-1), size[:, 0], 0.0))


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
    return jax.lax.map(column, jnp.eye(size), batch_size=min(size, 32)).T


@jax.jit
def _drift(
    dynamics: Dynamics, t: Array, x: Array, basis: Array, left: Array, settle: Array, y: Array
) -> tuple[Array, Array]:
    """L v and its rounding after a walk by y, (m, n k), once the stable part has settled; both (m, m')."""
    retract = geometries.resolve(dynamics.geometry).retract

    def measured(y: Array) -> tuple[Array, Array]:
        v, noise = _precise(dynamics, t, retract(x + jnp.einsum("ndk,nk->nd", basis, y.reshape(x.shape[0], -1))))
        return jnp.einsum("ndk,nd->nk", basis, v).ravel(), jnp.repeat(noise, basis.shape[2])

    def walked(y: Array) -> tuple[Array, Array]:
        y = jax.lax.fori_loop(0, 4, lambda _, y: y - settle @ measured(y)[0], y)
        v, noise = measured(y)
        return left @ v, jnp.abs(left) @ noise

    return jax.lax.map(walked, y)


# --- stability --------------------------------------------------------------------------------------------------


def _lifetime(dynamics: Dynamics, t: float, x: np.ndarray) -> float:
    """How long slow tokens stay, inf when they are at rest."""
    basis = _tangent_basis(x) if _fixed_norm(dynamics) else np.tile(np.eye(x.shape[1]), (len(x), 1, 1))
    if basis.shape[2] == 0:
        return math.inf  # two points are a sphere on which nothing moves
    J = np.asarray(_jacobian(dynamics, t, jnp.asarray(x), jnp.asarray(basis)))
    largest = float(np.abs(x).max()) or 1.0
    scale = max(float(np.linalg.norm(J)), float(jnp.abs(dynamics.pull(t, jnp.asarray(x))).max()) / largest)
    right, left, settle, own = _split(J, _NEUTRAL * scale)
    v = np.einsum("ndk,nd->nk", basis, np.asarray(_precise(dynamics, t, jnp.asarray(x))[0])).ravel()

    def length(y: np.ndarray) -> float:
        return float(np.linalg.norm(np.abs(y).reshape(len(x), -1), axis=1).max())

    away = length(settle @ v)
    if away > _CLOSE:
        return away / length(v - right @ (left @ v))
    saddle = _saddle_time(own, left @ v, right, _NEUTRAL * scale, length)
    if own.size == 0 or saddle < math.inf:
        return saddle
    step = _WALK * largest
    walks = np.concatenate([np.zeros((1, len(J))), step * right.T, -step * right.T])
    c, rounding = (np.asarray(a) for a in _drift(dynamics, t, jnp.asarray(x), basis, left, settle, walks))
    c = np.where(np.abs(c) > rounding, c, 0.0)
    m = len(own)
    growth = (c[1 : m + 1] - c[m + 1 :]).T / (2 * step)  # derivative of the drift on the slow manifold, (m, m)
    saddle = _saddle_time(growth, c[0], right, 1e-3 * float(np.linalg.norm(growth)), length)
    return min(saddle, _drift_time(growth, c[0], length(right @ c[0])))


def _saddle_time(J: np.ndarray, c: np.ndarray, right: np.ndarray, least: float, length: object) -> float:
    """The least log(1 + mu/a)/mu over eigenvalues mu > least, where v has the component a, at least rounding."""
    mu, modes = np.linalg.eig(J) if J.size else (np.zeros(0), np.zeros((0, 0)))
    along = np.linalg.lstsq(modes, c.astype(complex), rcond=None)[0] if J.size else c
    times = [math.inf]
    for k in np.flatnonzero((mu.real > least) & (mu.real > 0)):
        rate = float(mu[k].real)
        a = max(abs(along[k]) * length(right @ modes[:, k]), 2 * _EPS * rate)  # type: ignore[operator]
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
