"""The rescaled flow in many-digit arithmetic: slow, small, and right; what long runs are compared with."""

import mpmath as mp
import numpy as np


def rk4(V, z0, t, dt, score=None, digits=60):
    """Eq. (4) stepped by the classical Runge-Kutta method in V's eigenbasis (real eigenvalues).

    Returns z and the eigen-coordinates zeta as float arrays. ``digits`` must exceed the digits of e^{2 lambda t}.
    """
    with mp.workdps(digits):
        d = z0.shape[1]
        exact = mp.matrix(V.tolist())
        values, S = mp.eigsy(exact) if np.array_equal(V, V.T) else mp.eig(exact)
        values = [mp.re(v) for v in values]
        S = S.apply(mp.re)
        for k in range(d):
            S[:, k] /= mp.norm(S[:, k])
        A = mp.eye(d) if score is None else mp.matrix(score.tolist())
        G = S.T * A * S
        back = S**-1
        zeta = [[mp.fdot(back[k, :], [mp.mpf(float(v)) for v in z]) for k in range(d)] for z in z0]
        h = mp.mpf(dt)
        for step in range(round(t / dt)):
            zeta = _step(zeta, step * h, h, values, G)
        z = [[mp.fdot(S[i, :], row) for i in range(d)] for row in zeta]
        return np.array(z, dtype=float), np.array(zeta, dtype=float)


def _step(zeta, t, h, values, G):
    def moved(k, c):
        return [[a + c * b for a, b in zip(row, slope)] for row, slope in zip(zeta, k)]

    k1 = _velocity(zeta, t, values, G)
    k2 = _velocity(moved(k1, h / 2), t + h / 2, values, G)
    k3 = _velocity(moved(k2, h / 2), t + h / 2, values, G)
    k4 = _velocity(moved(k3, h), t + h, values, G)
    total = [[a + 2 * b + 2 * c + e for a, b, c, e in zip(*rows)] for rows in zip(k1, k2, k3, k4)]
    return moved(total, h / 6)


def _velocity(zeta, t, values, G):
    d, n = len(values), len(zeta)
    grow = [mp.e ** (v * t) for v in values]
    x = [[g * c for g, c in zip(grow, row)] for row in zeta]
    keys = [[mp.fdot(G[k, :], row) for k in range(d)] for row in x]
    out = []
    for i in range(n):
        scores = [mp.fdot(x[i], key) for key in keys]
        top = max(scores)
        P = [mp.e ** (s - top) if s - top > -300 else mp.mpf(0) for s in scores]
        total = mp.fsum(P)
        out.append(
            [values[k] * mp.fsum(p * (zeta[j][k] - zeta[i][k]) for j, p in enumerate(P) if p) / total for k in range(d)]
        )
    return out
