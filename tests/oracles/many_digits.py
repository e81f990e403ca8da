"""The rescaled flow for any V, without eigenvectors, in many-digit arithmetic: slow, small, and right (gmpy2)."""

from collections.abc import Callable
from dataclasses import dataclass

import gmpy2
import numpy as np
from gmpy2 import mpfr, mpq
from scipy.integrate._ivp import dop853_coefficients as dop853

EULER = ([[]], [1])
RK4 = ([[], [mpq(1, 2)], [0, mpq(1, 2)], [0, 0, 1]], [mpq(1, 6), mpq(1, 3), mpq(1, 3), mpq(1, 6)])


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


def solved(A, B):
    """A^{-1} B by elimination with pivots."""
    A, B, d = A.copy(), B.copy(), len(A)
    for k in range(d):
        p = k + max(range(d - k), key=lambda i: abs(A[k + i, k]))
        A[[k, p]], B[[k, p]] = A[[p, k]], B[[p, k]]
        for i in range(d):
            if i != k and A[i, k] != 0:
                factor = A[i, k] / A[k, k]
                A[i], B[i] = A[i] - factor * A[k], B[i] - factor * B[k]
    return B / np.diagonal(A)[:, None]


# --- rows of attention: a list of visible scores -> a list of weights -------------------------------------------------


def exponentials(s):
    """e^{s - max}, normalised; weights below the precision are left out."""
    top, lowest = max(s), -gmpy2.get_context().precision
    w = [gmpy2.exp(v - top) if v - top > lowest else mpfr(0) for v in s]
    total = sum(w)
    return [v / total for v in w]


def unnormalised(s):
    """e^s over the number of visible tokens."""
    return [gmpy2.exp(v) / len(s) for v in s]


def cauchy(s):
    """1/(1 + (max - s)^2), normalised: what `tests.fuzz_rescaled` gives as a function of its own."""
    top = max(s)
    w = [1 / (1 + (top - v) * (top - v)) for v in s]
    total = sum(w)
    return [v / total for v in w]


# --- the flow ---------------------------------------------------------------------------------------------------------


@dataclass
class Rescaled:
    """Eq. (4): V, the score form A = beta Q^T K, rows of attention, what is seen (n, n), and a bias of the scores."""

    V: np.ndarray
    A: np.ndarray
    rows: Callable = exponentials
    seen: np.ndarray | None = None
    bias: np.ndarray | None = None

    def attended(self, X, z):
        """sum_j P_ij z_j with the attention of tokens X."""
        scores = X.dot(self.A).dot(X.T)
        scores = scores if self.bias is None else scores + self.bias
        out = []
        for i, s in enumerate(scores):
            who = range(len(s)) if self.seen is None else np.flatnonzero(self.seen[i])
            weights = self.rows([s[j] for j in who])
            out.append(sum((a * z[j] for j, a in zip(who, weights) if a), start=0 * z[i]))
        return np.array(out)

    def velocity(self, E, z):
        """z' at the time whose e^{tV} is E."""
        return (self.attended(z.dot(E.T), z) - z).dot(self.V.T)


def fixed(system, z, times, dt, tableau, bits):
    """z at ``times`` (multiples of dt) by an explicit Runge-Kutta scheme (a, b); floats (T, n, d)."""
    a, b = tableau
    nodes = [sum(row) for row in a]
    h, E = mpfr(dt), exact(np.eye(z.shape[1]))
    strides = {c: exponential(system.V * (h * c), bits) for c in {*nodes, 1} if c}
    out, k = [], 0
    for t in times:
        while k < round(t / dt):
            slopes, ahead = [], {c: stride.dot(E) for c, stride in strides.items()} | {0: E}
            for c, row in zip(nodes, a):
                moved = sum((s * (h * q) for q, s in zip(row, slopes) if q), start=z)
                slopes.append(system.velocity(ahead[c], moved))
            z, E, k = sum((s * (h * q) for q, s in zip(b, slopes)), start=z), ahead[1], k + 1
        out.append(z.astype(float))
    return np.array(out)


def layers(system, x, times, dt):
    """z = (I + dt V)^{-k} x_k of the layers x + dt V sum_j P_ij x_j, taken as they are."""
    h, k, out = mpfr(dt), 0, []
    R = exact(np.eye(x.shape[1])) + system.V * h
    power = exact(np.eye(x.shape[1]))
    for t in times:
        while k < round(t / dt):
            x = x + system.attended(x, x).dot(system.V.T) * h
            power, k = power.dot(R), k + 1
        out.append(solved(power, x.T).T.astype(float))
    return np.array(out)


def adaptive(system, z, times, tolerance, bits, longest=0.5):
    """z at ``times`` (multiples of ``longest``) by the scheme of order 8 of Dormand and Prince; floats (T, n, d).

    Steps are ``longest`` halved some times, so that few exponentials are needed. The error of a step is measured in
    z and in x = e^{tV} z, where clusters are told apart.
    """
    a = [[mpfr(q) for q in row[:i]] for i, row in enumerate(dop853.A[:12])]
    b, wrong, nodes = [mpfr(q) for q in dop853.B], [mpfr(q) for q in dop853.E5[:12]], [float(c) for c in dop853.C[:12]]
    E, strides, place, halved, out = exact(np.eye(z.shape[1])), {}, 0, 4, []

    def stride(c, halved):
        if (c, halved) not in strides:
            strides[c, halved] = exponential(system.V * (mpfr(longest) / 2**halved * mpfr(c)), bits)
        return strides[c, halved]

    for t in times:
        while place < round(t / longest) * 2**_FINEST:
            h, slopes = mpfr(longest) / 2**halved, []
            for c, row in zip(nodes, a):
                moved = sum((s * (h * q) for q, s in zip(row, slopes) if q), start=z)
                slopes.append(system.velocity(stride(c, halved).dot(E), moved))
            after, ahead = sum((s * (h * q) for q, s in zip(b, slopes)), start=z), stride(1.0, halved).dot(E)
            off = sum((s * (h * q) for q, s in zip(wrong, slopes)), start=0 * z)
            size = max(_largest(off) / max(_largest(z), 1), _largest(off.dot(ahead.T)))
            if size > tolerance and halved < _FINEST:
                halved += 1
                continue
            z, E, place = after, ahead, place + 2 ** (_FINEST - halved)
            if size < tolerance / 1000 and halved and place % 2 ** (_FINEST - halved + 1) == 0:
                halved -= 1
        out.append(z.astype(float))
    return np.array(out)


_FINEST = 24  # halvings of the longest step


def _largest(a):
    return max(abs(v) for v in a.ravel())


def rk4(V, x, times, dt=0.1, beta=1.0, score=None, softmax=True, causal=False, bits=500):
    """z at ``times`` (multiples of dt) of eq. (4), by the classical Runge-Kutta step; floats (T, n, d).

    ``bits`` must exceed those of e^{2 |V| t} by some sixty.
    """
    with gmpy2.context(gmpy2.get_context(), precision=bits):
        n, d = x.shape
        A = exact(np.eye(d) if score is None else score) * mpfr(beta)
        system = Rescaled(exact(V), A, exponentials if softmax else unnormalised, np.tri(n) if causal else None)
        return fixed(system, exact(x), times, dt, RK4, bits)
