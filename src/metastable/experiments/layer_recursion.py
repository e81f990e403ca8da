"""The rescaled recursion of the second paper's Remark 4, by hand, and compared with the layers of eq. (3)."""

import numpy as np

from metastable.experiments import plain_formulas as plain
from metastable.theory.theorems import Triple

EPS = float(np.finfo(float).eps)


def rescaled_layer(p: Triple, z: np.ndarray, k: int, dt: float, printed: bool = False) -> np.ndarray:
    """One step of Remark 4's recursion from z^[k]; ``printed`` takes its denominator as printed in the paper."""
    R = np.eye(len(p.V)) + dt * p.V
    lifted = z @ np.linalg.matrix_power(R, k).T  # (n, d)
    scores = (lifted @ p.Q.T) @ (lifted @ p.K.T).T  # (n, n)
    P = plain.attention(lifted, p.Q, p.K)
    if printed:  # sum over l of e^{<Q R^k z_l, K R^k z_l>}: one number for every row
        own = np.diag(scores)
        P = np.exp(scores - (own.max() + np.log(np.exp(own - own.max()).sum())))
    pull = P @ z - P.sum(axis=1, keepdims=True) * z  # (n, d)
    return np.asarray(z + dt * pull @ np.linalg.solve(R, p.V).T)


def identity_errors(p: Triple, dt: float, layers: int) -> tuple[float, float]:
    """The largest error of both recursions over some layers, in units of what rounding may do.

    Both sides start from z^[k] = R^{-k} x^[k]. Lifting it back multiplies its rounding by at most cond(R)^k; a score is
    a sum of d products of size |Q||K||x|^2, an average one of n terms. So the two sides may differ by
    8 (n + d) eps cond(R)^{k+1} (1 + |Q||K||x|^2) |z|.
    """
    R, x = np.eye(len(p.V)) + dt * p.V, p.tokens
    size = float(np.linalg.norm(p.Q, 2) * np.linalg.norm(p.K, 2))
    worst = [0.0, 0.0]
    for k in range(layers):
        z = np.linalg.solve(np.linalg.matrix_power(R, k), x.T).T
        reach = float((x**2).sum(axis=1).max())
        allowed = 8 * (x.size / len(R) + len(R)) * EPS * np.linalg.cond(R) ** (k + 1)
        allowed *= (1.0 + size * reach) * float(np.abs(z).max())
        x = plain.layer(x, p.Q, p.K, p.V, dt=dt)
        exact = np.linalg.solve(np.linalg.matrix_power(R, k + 1), x.T).T
        with np.errstate(over="ignore", invalid="ignore"):
            errors = [np.abs(rescaled_layer(p, z, k, dt, printed) - exact).max() for printed in (False, True)]
        worst = [max(w, float(np.nan_to_num(e, nan=np.inf)) / allowed) for w, e in zip(worst, errors)]
    return worst[0], worst[1]
