"""A plain NumPy attention flow and SciPy's DOP853: the independent integrator these tests check closed forms
with.
"""

import numpy as np
from scipy.integrate import solve_ivp


def attention(x, beta=1.0, Q=None, K=None, causal=False, normalise="softmax"):
    q = x if Q is None else x @ Q.T
    k = x if K is None else x @ K.T
    scores = beta * q @ k.T
    if causal:
        scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
    if normalise == "unnormalised":
        return np.exp(scores) / len(x)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def sphere_velocity(x, V=None, **options):
    pull = attention(x, **options) @ (x if V is None else x @ V.T)
    return pull - (pull * x).sum(axis=1, keepdims=True) * x


def euclidean_velocity(x, V=None, **options):
    return attention(x, **options) @ (x if V is None else x @ V.T)


def rescaled_velocity(t, z, V, **options):
    from scipy.linalg import expm

    P = attention(z @ expm(t * V).T, **options)
    return (P @ z - z) @ V.T


def flow(field, y0, times, rtol=1e-11, atol=1e-13):
    """y at each of ``times`` for y' = field(t, y), any array shape."""
    y0 = np.asarray(y0, dtype=float)
    got = solve_ivp(
        lambda t, y: np.ravel(field(t, y.reshape(y0.shape))),
        (0.0, float(np.max(times))),
        y0.ravel(),
        method="DOP853",
        t_eval=np.atleast_1d(times),
        rtol=rtol,
        atol=atol,
    )
    assert got.success
    return got.y.T.reshape(-1, *y0.shape)


def jacobian(field, y0, h=1e-6):
    """Central differences: error h^2 |f'''| + eps/h, about 1e-9 here."""
    y0 = np.asarray(y0, dtype=float)
    columns = []
    for i in range(y0.size):
        step = np.zeros(y0.size)
        step[i] = h
        step = step.reshape(y0.shape)
        columns.append((field(y0 + step) - field(y0 - step)).ravel() / (2 * h))
    return np.array(columns).T
