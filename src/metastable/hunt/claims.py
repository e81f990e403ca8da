"""The two claims, in the precise form that is hunted.

*Codimension* (Conjecture 4.2, second paper). With k eigenvalues of V in the right half-plane, the components of the
rescaled tokens z_i(t) along those directions (the projection on their invariant subspace along the other one) approach
at most three points. The other invariant subspace is the only candidate for the direction of the parallel subspaces
once followers spread in it (they leave each other like e^{-tV}), which takes no more than a few tokens.

*Multi-head* (section 6 of the second paper says only that "interesting clustering phenomena also occur"). The version
hunted here is what Theorem 4.1 gives for one head: let V_1 + ... + V_h have a largest real part that one real positive
eigenvalue has alone, with eigenvector phi, and let <Q_h phi, K_h phi> > 0 for every head. Then the tokens x_i(t) of the
unscaled flow, divided by the largest norm among them, approach at most three points. (For one good triple: multiples of
phi at the two extreme levels, or 0.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from metastable.backend import Array, jax, jnp
from metastable.hunt.instances import Batch
from metastable.hunt.separation import separation, settling
from metastable.solve.methods import RK4
from metastable.solve.stepping import explicit_step
from metastable.trajectory import Trajectory

SHORT = 12.0  # horizon of the differentiable flow: e^{2 SHORT} is far from losing the digits of scores
_STEPS = 48


@dataclass(frozen=True)
class Claim:
    """A claim as the hunter sees it.

    Attributes
    ----------
    points : (run, batch, i) -> (T, n, d)
        What must approach three points, in units of its size at the start.
    ahead : (run, batch, i) -> (T,)
        The log of the largest leading component of the unscaled tokens over the largest of the others.
    rate : batch -> (B,)
        The exponential rate at which it does once attention has settled.
    soft : (a, b, partner, G, E, z, grows) -> number
        The settling time of one instance at the horizon `SHORT`, differentiable.
    """

    name: str
    source: str
    sentence: str
    geometry: str
    dt: float
    points: Callable[[Trajectory, Batch, int], np.ndarray]
    ahead: Callable[[Trajectory, Batch, int], np.ndarray]
    rate: Callable[[Batch], np.ndarray]
    soft: Callable[..., Array]


# --- codimension --------------------------------------------------------------------------------------------------


def growing_points(run: Trajectory, batch: Batch, i: int) -> np.ndarray:
    """Growing components of rescaled tokens in the instance's own coordinates, zeros elsewhere, (T, n, d)."""
    zeta, values, left = run.coordinates()
    growing = values.real > 0.0
    z = zeta[..., growing] @ np.linalg.inv(left)[:, growing].T  # (T, n, d)
    z = np.where(batch.grows[i], z, 0.0)
    return np.asarray(z / _size(np.where(batch.grows[i], batch.z[i], 0.0), np))


def ahead_rescaled(run: Trajectory, batch: Batch, i: int) -> np.ndarray:
    """How far the leading direction leads in x = e^{tV} z, in logs, (T,)."""
    zeta, values, _ = run.coordinates()  # (T, n, d)
    return _ahead(np.abs(zeta).max(axis=1), values.real * run.t[:, None], values.real > values.real.max() - 1e-9)


def _ahead(sizes: np.ndarray, logs: np.ndarray, leads: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        grown = np.log(sizes) + logs  # (T, d)
    first, rest = (grown[:, chosen].max(axis=1, initial=-np.inf) for chosen in (leads, ~leads))
    return np.asarray(np.where(rest == -np.inf, np.inf, first - np.maximum(rest, -1e300)))


def slowest_growth(batch: Batch) -> np.ndarray:
    """The least positive real part."""
    return np.asarray(np.where(batch.grows, batch.a, np.inf).min(axis=1))


def _turned(a: Array, b: Array, partner: Array, t: Array, y: Array) -> Array:
    """e^{tL} y."""
    return jnp.exp(a * t) * (jnp.cos(b * t) * y + jnp.sin(b * t) * y[:, partner])


def soft_codimension(a: Array, b: Array, partner: Array, G: Array, E: Array, z: Array, grows: Array) -> Array:
    """Settling time of eq. (4), integrated plainly up to `SHORT`."""

    def velocity(t: Array, y: Array) -> Array:
        x = _turned(a, b, partner, t, y)  # (n, d)
        P = jax.nn.softmax(x @ G[0] @ x.T, axis=-1)  # (n, n)
        s = P @ y - y
        return a * s + b * s[:, partner]

    w = jnp.where(grows, _rk4(velocity, z), 0.0) / _size(jnp.where(grows, z, 0.0), jnp)
    return settling(separation(w), SHORT, jnp.where(grows, a, jnp.inf).min())


# --- several heads ------------------------------------------------------------------------------------------------


def normalised_points(run: Trajectory, batch: Batch, i: int) -> np.ndarray:
    """Tokens over the largest norm among them, (T, n, d)."""
    largest = np.abs(run.x).max(axis=(1, 2), keepdims=True)
    x = run.x / largest  # so that squares stay finite
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True).max(axis=1, keepdims=True))


def ahead_plain(run: Trajectory, batch: Batch, i: int) -> np.ndarray:
    """How far the leading direction of the summed values leads in x, in logs, (T,)."""
    return _ahead(np.abs(run.x).max(axis=1), np.zeros(1), np.arange(run.x.shape[-1]) < batch.lead[i])


def spectral_gap(batch: Batch) -> np.ndarray:
    """How much faster the leading direction of the summed values grows than the next (but no more than 1)."""
    d = batch.a.shape[1]
    rest = np.where(np.arange(d) < batch.lead[:, None], -np.inf, batch.a)
    return np.asarray(1.0 - np.maximum(rest.max(axis=1), 0.0))


def soft_multi_head(a: Array, b: Array, partner: Array, G: Array, E: Array, z: Array, grows: Array) -> Array:
    """Settling time of eq. (1) with several heads, integrated plainly up to `SHORT`."""
    heads, d = G.shape[0], z.shape[1]
    L = jnp.diag(a) + jnp.zeros((d, d)).at[jnp.arange(d), partner].add(b)
    V = L / heads + E  # (h, d, d)

    def velocity(t: Array, x: Array) -> Array:
        P = jax.nn.softmax(jnp.einsum("id,hde,je->hij", x, G, x), axis=-1)
        return jnp.einsum("hij,hde,je->id", P, V, x)

    x = _rk4(velocity, z)
    w = x / jnp.sqrt((x**2).sum(axis=-1).max())
    return settling(separation(w), SHORT, 1.0 - jnp.maximum(a[1:].max(), 0.0))


def _rk4(velocity: Callable[[Array, Array], Array], y: Array) -> Array:
    """The state at `SHORT`."""
    h = SHORT / _STEPS

    def step(y: Array, k: Array) -> tuple[Array, None]:
        return explicit_step(RK4.tableau, velocity, k * h, y, h), None

    return jax.lax.scan(step, y, jnp.arange(_STEPS))[0]


def _size(z: Array | np.ndarray, xp: ModuleType) -> Array:
    """Root mean square length of tokens (n, d)."""
    size: Array = xp.sqrt((z**2).sum(axis=-1).mean(axis=-1))
    return size


CLAIMS: dict[str, Claim] = {
    "codimension": Claim(
        "codimension",
        "second paper, Conjecture 4.2",
        "the growing components of rescaled tokens approach at most three points",
        "rescaled",
        0.25,
        growing_points,
        ahead_rescaled,
        slowest_growth,
        soft_codimension,
    ),
    "multi-head": Claim(
        "multi-head",
        "after second paper, section 6",
        "with several heads, tokens over the largest norm among them approach at most three points",
        "euclidean",
        0.125,
        normalised_points,
        ahead_plain,
        spectral_gap,
        soft_multi_head,
    ),
}
