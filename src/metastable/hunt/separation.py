"""How far tokens are from lying on three parallel subspaces: the fourth cluster's separation.

Among points w_1, ..., w_n pick the one farthest from their mean, then three times the point farthest from those picked.
The last pick is at distance r from the others, which are at least r apart too: four points with pairwise distances
>= r. So whatever three centres are chosen, some token is at least r/2 from all of them; and the first three picks leave
no token farther than r. Hence r -> 0 exactly when tokens approach at most three points, and r is differentiable but
where two candidates tie.

What r looks like when the claim is true. Once attention has settled at time t*, a follower closes in like
e^{-rate (t - t*)}, so r(t) is about e^{-rate (t - t*)} and

    settling(t) = t + ln r(t) / rate

is about t*, whatever the rate: a slow direction does not raise it. For tokens that never settle it grows like t.
"""

from metastable.backend import Array, jax, jnp

NOTHING = 1e-10  # separations below are rounding


def separation(points: Array) -> Array:
    """The fourth cluster's separation of points (n, m).

    >>> float(separation(jnp.asarray([[0.0], [1.0], [2.0], [10.0], [10.0]])))
    1.0
    """
    away = ((points - points.mean(axis=0)) ** 2).sum(axis=-1)  # (n,)
    nearest = ((points - points[away.argmax()]) ** 2).sum(axis=-1)
    for _ in range(2):
        picked = points[nearest.argmax()]
        nearest = jnp.minimum(nearest, ((points - picked) ** 2).sum(axis=-1))
    return jnp.sqrt(jnp.maximum(nearest.max(), NOTHING**2))


def settling(r: Array, t: Array | float, rate: Array) -> Array:
    """t + ln r / rate, the time at which tokens would have to have settled to be this close now."""
    return t + jnp.log(r) / rate


separations = jax.jit(jax.vmap(jax.vmap(separation)))  # (B, T, n, m) -> (B, T)
