"""The papers' formulas once more, in plain NumPy: what every experiment's self-check compares with.

Nothing of the simulator is imported here, so that a mistake there cannot hide here. Tokens x are rows (n, d); Q and K
are (k, d), V is (d, d). "First" and "second" are the papers.
"""

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Field = Callable[[float, Array], Array]


def attention(x: Array, Q: Array, K: Array, beta: float = 1.0, causal: bool = False) -> Array:
    """P_ij = e^{beta <Q x_i, K x_j>} / sum_m e^{beta <Q x_i, K x_m>}. Causal: j, m <= i. Eqs (2) and (3)."""
    scores = beta * (x @ Q.T) @ (x @ K.T).T  # (n, n)
    if causal:
        scores = np.where(np.tri(len(x)) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    P: Array = weights / weights.sum(axis=1, keepdims=True)
    return P


def pull(x: Array, Q: Array, K: Array, V: Array, beta: float = 1.0, causal: bool = False) -> Array:
    """sum_j P_ij V x_j: the velocity in R^d; eq. (1) of the second. Heads add up."""
    moved: Array = attention(x, Q, K, beta, causal) @ (x @ V.T)
    return moved


def unnormalised(x: Array, beta: float) -> Array:
    """(1/n) sum_j e^{beta <x_i, x_j>} x_j: the pull without the softmax's denominator, Q = K = V = I."""
    out: Array = np.exp(beta * x @ x.T) @ x / len(x)
    return out


def projected(x: Array, v: Array) -> Array:
    """v_i - <v_i, x_i> x_i: the velocity on the sphere, where v is the pull; sec. 2.4 of the first."""
    tangent: Array = v - (v * x).sum(axis=1, keepdims=True) * x
    return tangent


def on_sphere(pull_of: Callable[[Array], Array]) -> Field:
    """The field |x_i| times the projected pull at x/|x|: tokens that leave the sphere by a step move alike."""

    def field(t: float, x: Array) -> Array:
        length = np.linalg.norm(x, axis=1, keepdims=True)
        out: Array = length * projected(x / length, pull_of(x / length))
        return out

    return field


def rescaled(t: float, z: Array, Q: Array, K: Array, V: Array, beta: float = 1.0, causal: bool = False) -> Array:
    """V sum_j P_ij (z_j - z_i), with P of the tokens e^{tV} z; eq. (4) of the second."""
    P = attention(z @ flow_of(t, V).T, Q, K, beta, causal)
    moved: Array = (P @ z - z) @ V.T
    return moved


def flow_of(t: float, V: Array) -> Array:
    """e^{tV} of a V with a basis of eigenvectors."""
    values, basis = np.linalg.eig(V)
    return np.real((basis * np.exp(t * values)) @ np.linalg.inv(basis))


def layer(x: Array, Q: Array, K: Array, V: Array, beta: float = 1.0, dt: float = 1.0, causal: bool = False) -> Array:
    """x_i + dt sum_j P_ij V x_j: one layer with a residual connection; eq. (3) and Remark 1 of the second."""
    return x + dt * pull(x, Q, K, V, beta, causal)


def moved(field: Field, x: Array, t: float, steps: int) -> Array:
    """The solution of x' = field(t, x) at time t by ``steps`` steps of the classical fourth-order method."""
    h = t / steps
    for k in range(steps):
        s = k * h
        a = field(s, x)
        b = field(s + h / 2, x + h / 2 * a)
        c = field(s + h / 2, x + h / 2 * b)
        x = x + h / 6 * (a + 2 * b + 2 * c + field(s + h, x + h * c))
    return x
