"""The circle and S^2 with their modes: what a law of tokens is expanded in.

A law rho is held by its moments c = int rho conj(mode): c_k = int rho e^{-ik theta} on the circle, k = 0..degree;
c_ml = int rho conj(Y_lm) on S^2, 0 <= m <= l <= degree (rho is real, so negative orders are conjugates). Both surfaces
answer the same questions, on a grid whose quadrature is exact for the product of three modes:

    values(c)    rho at the points, (N,)                 moments(f)   int f conj(mode), the inverse
    slopes(c)    its gradient along the frame            flux(F)      int <F, grad conj(mode)>, the weak divergence
    at(c, x)     rho at points of one's own              kernel(s)    what e^{s <x, y>} does to each mode

``degrees`` are k or l, and -``laplacian`` the eigenvalues of the Laplace operator: k^2 or l(l+1).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.fft import next_fast_len
from scipy.special import ive, spherical_in

Moments = np.ndarray
_ROUNDING = 1e-15  # of the largest moment


class Multipliers(NamedTuple):
    """Per mode, times e^{-|s|}: int e^{s <x, y>} rho(y) dy, its gradient in x over s, and its derivative in s."""

    total: np.ndarray
    tangent: np.ndarray
    radial: np.ndarray


class Circle:
    """Angles theta_j = 2 pi j / N with N about 4 degree."""

    dimension = 2
    area = 2.0 * np.pi
    smallest, largest = 32, 512

    def __init__(self, degree: int) -> None:
        n = next_fast_len(4 * degree + 4, real=True)
        self.degree = degree
        self.degrees = np.arange(degree + 1)
        self.laplacian = self.degrees.astype(float) ** 2
        theta = 2.0 * np.pi * np.arange(n) / n
        self.points = np.stack([np.cos(theta), np.sin(theta)], axis=-1)  # (N, 2)
        self.frame = np.stack([-np.sin(theta), np.cos(theta)], axis=-1)[None]  # (1, N, 2)
        self.weights = np.full(n, 2.0 * np.pi / n)

    def values(self, c: Moments) -> np.ndarray:
        """(1/2 pi) sum over all k of c_k e^{ik theta}, (N,)."""
        n = len(self.weights)
        out: np.ndarray = np.fft.irfft(c, n) * (n / (2.0 * np.pi))
        return out

    def slopes(self, c: Moments) -> np.ndarray:
        """d rho / d theta, (1, N)."""
        return self.values(1j * self.degrees * c)[None]

    def moments(self, f: np.ndarray) -> Moments:
        """int f e^{-ik theta}, (degree + 1,)."""
        out: Moments = np.fft.rfft(f)[: self.degree + 1] * self.weights[0]
        return out

    def flux(self, F: np.ndarray) -> Moments:
        """int F d/dtheta e^{-ik theta}, (degree + 1,)."""
        out: Moments = -1j * self.degrees * self.moments(F[0])
        return out

    def at(self, c: Moments, x: np.ndarray) -> np.ndarray:
        """rho at points x (m, 2)."""
        theta = np.arctan2(x[:, 1], x[:, 0])
        out = np.full(len(theta), c[0].real)
        turn, now = np.exp(1j * theta), np.ones(len(theta), complex)
        for moment in c[1:]:
            now = now * turn
            out += 2.0 * (now * moment).real
        return out / (2.0 * np.pi)

    def kernel(self, s: float) -> Multipliers:
        """2 pi e^{-|s|} times I_k(s), I_k(s)/s and I_k'(s)."""
        k, size = self.degrees, abs(s)
        now, below, above = (ive(np.abs(k + shift), size) for shift in (0, -1, 1))
        over = now / size if size > 1.0 else (below - above) / np.maximum(2 * k, 1)
        return _signed(2.0 * np.pi, s, k, now, over, (below + above) / 2.0)


class TwoSphere:
    """Gauss-Legendre heights times even longitudes, 3/2 times as many as there are modes in either direction."""

    dimension = 3
    area = 4.0 * np.pi
    smallest, largest = 12, 48

    def __init__(self, degree: int) -> None:
        self.degree = degree
        z, own = leggauss(3 * (degree + 1) // 2 + 1)
        self._around = next_fast_len(3 * degree + 3, real=True)
        self._m = np.arange(degree + 1)
        self.degrees = np.tile(self._m, (degree + 1, 1))  # (m, l)
        self.laplacian = self.degrees * (self.degrees + 1.0)
        phi, sine = 2.0 * np.pi * np.arange(self._around) / self._around, np.sqrt(1.0 - z**2)
        self._rings, self._sine, self._step = own, sine, 2.0 * np.pi / self._around
        self._P, self._dP = legendre(degree, z), legendre_slopes(degree, z)
        shape = (len(z), self._around)
        zz, ss = np.broadcast_to(z[:, None], shape), np.broadcast_to(sine[:, None], shape)
        cos, sin = np.broadcast_to(np.cos(phi), shape), np.broadcast_to(np.sin(phi), shape)
        grid = ([ss * cos, ss * sin, zz], [zz * cos, zz * sin, -ss], [-sin, cos, 0.0 * zz])
        points, south, east = (np.stack([a.ravel() for a in each], axis=-1) for each in grid)
        self.points, self.frame = points, np.stack([south, east])  # (N, 3), (2, N, 3)
        self.weights = np.repeat(own * self._step, self._around)  # (N,)

    def values(self, c: Moments) -> np.ndarray:
        """sum_lm c_lm Y_lm at the points, (N,)."""
        return self._around_rings(_over_degrees(c, self._P))

    def slopes(self, c: Moments) -> np.ndarray:
        """The gradient towards south and east, (2, N)."""
        east = _over_degrees(1j * self._m[:, None] * c, self._P) / self._sine
        return np.stack([self._around_rings(_over_degrees(c, self._dP)), self._around_rings(east)])

    def moments(self, f: np.ndarray) -> Moments:
        """int f conj(Y_lm), (m, l)."""
        return _over_rings(self._orders(f), self._P)

    def flux(self, F: np.ndarray) -> Moments:
        """int <F, grad conj(Y_lm)>, (m, l)."""
        south, east = self._orders(F[0]), self._orders(F[1]) / self._sine
        out: Moments = _over_rings(south, self._dP) - 1j * self._m[:, None] * _over_rings(east, self._P)
        return out

    def at(self, c: Moments, x: np.ndarray) -> np.ndarray:
        """rho at points x (m, 3); degrees whose moments are all rounding are left out."""
        size = np.abs(c).max(axis=0)
        top = int(np.flatnonzero(size >= _ROUNDING * size.max())[-1])
        c, m = c[: top + 1, : top + 1], self._m[: top + 1, None]
        out = np.empty(len(x))
        for first in range(0, len(x), 2048):
            some = x[first : first + 2048]
            by_order = _over_degrees(c, legendre(top, np.clip(some[:, 2], -1.0, 1.0)))  # (m, points)
            turned = by_order * np.exp(1j * m * np.arctan2(some[:, 1], some[:, 0]))
            out[first : first + 2048] = 2.0 * turned.sum(axis=0).real - turned[0].real
        return out

    def kernel(self, s: float) -> Multipliers:
        """4 pi e^{-|s|} times i_l(s), i_l(s)/s and i_l'(s), the modified spherical Bessel functions."""
        l, size = self.degrees[0], abs(s)
        now, above = _bessel(l, size), _bessel(l + 1, size)
        below = np.concatenate([[0.0], now[:-1]])
        over = now / size if size > 1.0 else (below - above) / (2 * l + 1)
        return _signed(4.0 * np.pi, s, l, now, np.where(l == 0, 0.0, over), (l * below + (l + 1) * above) / (2 * l + 1))

    def _around_rings(self, by_order: np.ndarray) -> np.ndarray:
        out: np.ndarray = np.fft.irfft(by_order.T, self._around, axis=1).ravel() * self._around
        return out

    def _orders(self, f: np.ndarray) -> np.ndarray:
        """int f e^{-im phi} d phi times the quadrature weight of each ring, (m, rings)."""
        rings = np.fft.rfft(f.reshape(-1, self._around), axis=1)[:, : self.degree + 1]
        out: np.ndarray = (rings * (self._step * self._rings)[:, None]).T
        return out


Surface = Circle | TwoSphere
SURFACES: dict[int, type[Circle] | type[TwoSphere]] = {2: Circle, 3: TwoSphere}


@lru_cache(maxsize=8)
def surface(dimension: int, degree: int) -> Surface:
    """The circle (2) or S^2 (3) with modes up to a degree."""
    return SURFACES[dimension](degree)


def resized(c: Moments, on: Surface) -> Moments:
    """The same moments in a basis of another degree: cut, or filled up with zeros."""
    out = np.zeros(on.degrees.shape, complex)
    common = (slice(0, min(len(c), len(out))),) * c.ndim
    out[common] = c[common]
    return out


# --- Legendre functions -------------------------------------------------------------------------------------------


def legendre(degree: int, z: np.ndarray) -> np.ndarray:
    """P[m, l] at heights z, (m, l, rings), such that P_lm(z) e^{im phi} are orthonormal on S^2; 0 where l < m.

    By the recurrence in l, which is stable; it starts at P_mm ~ (1 - z^2)^{m/2}.
    """
    P, sine = np.zeros((degree + 1, degree + 1, len(z))), np.sqrt(1.0 - z**2)
    first = np.full(len(z), np.sqrt(0.25 / np.pi))
    for m in range(degree + 1):
        P[m, m] = first
        if m < degree:
            P[m, m + 1] = np.sqrt(2 * m + 3.0) * z * first
        for l in range(m + 2, degree + 1):
            a = np.sqrt((4.0 * l**2 - 1) / (l**2 - m**2))
            b = np.sqrt(((l - 1.0) ** 2 - m**2) / (4.0 * (l - 1) ** 2 - 1))
            P[m, l] = a * (z * P[m, l - 1] - b * P[m, l - 2])
        first = -np.sqrt((2 * m + 3.0) / (2 * m + 2.0)) * sine * first
    return P


def legendre_slopes(degree: int, z: np.ndarray) -> np.ndarray:
    """dP/d theta = (l z P_l - sqrt((l^2 - m^2)(2l+1)/(2l-1)) P_{l-1}) / sin theta, (m, l, rings)."""
    P = legendre(degree, z)
    l, m = np.arange(degree + 1.0)[None, :, None], np.arange(degree + 1.0)[:, None, None]
    before = np.concatenate([np.zeros_like(P[:, :1]), P[:, :-1]], axis=1)
    factor = np.sqrt(np.maximum((l**2 - m**2) * (2 * l + 1), 0.0) / np.maximum(2 * l - 1, 1.0))
    out: np.ndarray = (l * z * P - factor * before) / np.sqrt(1.0 - z**2)
    return out


def _over_degrees(c: Moments, P: np.ndarray) -> np.ndarray:
    """sum_l c_ml P_ml, (m, rings), as one real product."""
    both = np.stack([c.real, c.imag], axis=1) @ P  # (m, 2, rings)
    out: np.ndarray = both[:, 0] + 1j * both[:, 1]
    return out


def _over_rings(f: np.ndarray, P: np.ndarray) -> Moments:
    """sum over rings of f_m P_ml, (m, l)."""
    both = P @ np.stack([f.real, f.imag], axis=-1)  # (m, l, 2)
    out: Moments = both[..., 0] + 1j * both[..., 1]
    return out


# --- Bessel functions ---------------------------------------------------------------------------------------------


def _bessel(l: np.ndarray, size: float) -> np.ndarray:
    """e^{-s} i_l(s)."""
    if size <= 1.0:
        return np.asarray(spherical_in(l, size) * np.exp(-size))
    return np.asarray(np.sqrt(np.pi / (2.0 * size)) * ive(l + 0.5, size))


def _signed(factor: float, s: float, k: np.ndarray, *all_three: np.ndarray) -> Multipliers:
    """The three for s of either sign, from those of |s|: the first is even or odd as k is, the others the reverse."""
    flip = -1.0 if s < 0 else 1.0
    total, tangent, radial = all_three
    return Multipliers(factor * flip**k * total, factor * flip ** (k + 1) * tangent, factor * flip ** (k + 1) * radial)
