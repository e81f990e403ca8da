"""The rescaled flow for any V, without eigenvectors, in many-digit arithmetic: slow, small, and right (gmpy2)."""

import gmpy2
import numpy as np
from gmpy2 import mpfr


def exact(a):
    return np.vectorize(mpfr, otypes=[object])(np.asarray(a, float))


def exponential(A, bits):
    """e^A of a small matrix by its series."""
    out = term = exact(np.eye(len(A)))
    for k in range(1, 10_000):
        term = term.dot(A) / k
        out = out + term
        if max(abs(v) for v in term.ravel()) < mpfr(2) ** (-bits - 10):
            return out
    raise AssertionError("no convergence")


def rk4(V, x, times, dt=0.1, beta=1.0, score=None, softmax=True, causal=False, bits=500):
    """z at ``times`` (multiples of dt) of eq. (4), by the classical Runge-Kutta step; floats (T, n, d).

    ``bits`` must exceed those of e^{2 |V| t} by some sixty.
    """
    with gmpy2.context(gmpy2.get_context(), precision=bits):
        n, d = x.shape
        V, A, z, h = exact(V), exact(np.eye(d) if score is None else score) * mpfr(beta), exact(x), mpfr(dt)
        half, E = exponential(V * h / 2, bits), exact(np.eye(d))

        def attended(X, z):
            scores = X.dot(A).dot(X.T)
            rows = []
            for i in range(n):
                s = scores[i, : i + 1 if causal else n]
                top = max(s) if softmax else mpfr(0)
                w = [gmpy2.exp(v - top) for v in s]
                total = sum(w) if softmax else mpfr(len(w))
                rows.append(sum(a * z[j] for j, a in enumerate(w)) / total)
            return np.array(rows)

        def velocity(E, z):
            return (attended(z.dot(E.T), z) - z).dot(V.T)

        out, k = [], 0
        for t in times:
            while k < round(t / dt):
                middle = half.dot(E)
                end = half.dot(middle)
                k1 = velocity(E, z)
                k2 = velocity(middle, z + k1 * (h / 2))
                k3 = velocity(middle, z + k2 * (h / 2))
                k4 = velocity(end, z + k3 * h)
                z, E, k = z + (k1 + 2 * k2 + 2 * k3 + k4) * (h / 6), end, k + 1
            out.append(z.astype(float))
        return np.array(out)
