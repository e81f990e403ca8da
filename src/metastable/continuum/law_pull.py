"""The pull of a law of tokens: attention with sums over tokens replaced by integrals over rho.

    softmax        int e^{s(x, y)} V y rho(y) dy / Z(x),    Z(x) = int e^{s(x, y)} rho(y) dy,    s = beta <Q x, K y>
    unnormalised   int e^{s(x, y)} V y rho(y) dy

Where Q^T K is a multiple of the identity the kernel multiplies every mode by a Bessel function (`Surface.kernel`), and

    int e^{s <x, y>} y rho = (tangential part of grad Z) / s + (dZ/ds) x.

For any other Q^T K the integral is the quadrature over the grid, with the N x N kernel held in memory.
"""

from collections.abc import Callable

import numpy as np

from metastable.continuum.surfaces import Moments, Multipliers, Surface
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError

SMALLEST = 1e-14  # of the largest Z: below it there is no mass near x, and what is divided is rounding
MOST_ENTRIES = 4.0e7  # of a kernel held in memory

Integrals = Callable[[Moments, np.ndarray], tuple[np.ndarray, np.ndarray]]  # (c, rho) -> Z (N,), int e^s y rho (N, d)


def law_pull(dyn: Dynamics, on: Surface) -> Callable[[Moments, np.ndarray], np.ndarray]:
    """The function (moments, rho at the points) -> pull at the points, (N, d)."""
    softmax = dyn.normalise.stream == "softmax"
    forms = float(dyn.beta) * dyn.weights.score_map(d=on.dimension)  # (h, d, d)
    values = dyn.weights.value_map(d=on.dimension)  # (h, d, d)
    heads = [_integrals(form, on, softmax) for form in forms]

    def pull(c: Moments, rho: np.ndarray) -> np.ndarray:
        out = np.zeros_like(on.points)
        for integrals, V in zip(heads, values):
            Z, mean = integrals(c, rho)
            out += (mean / np.maximum(Z, SMALLEST * Z.max())[:, None] if softmax else mean) @ V.T
        return out

    return pull


def law_velocity(dyn: Dynamics, on: Surface) -> Callable[[Moments], tuple[np.ndarray, np.ndarray]]:
    """The function moments -> (rho (N,), velocity along the frame (d - 1, N))."""
    pull = law_pull(dyn, on)

    def velocity(c: Moments) -> tuple[np.ndarray, np.ndarray]:
        rho = on.values(c)
        return rho, (on.frame * pull(c, rho)).sum(axis=-1)

    return velocity


def law_drift(dyn: Dynamics, on: Surface) -> Callable[[Moments], Moments]:
    """int rho <v, grad conj(mode)>: dc/dt without noise, the equation tested with every mode."""
    velocity = law_velocity(dyn, on)

    def drift(c: Moments) -> Moments:
        rho, v = velocity(c)
        return np.asarray(on.flux(rho * v))

    return drift


def kernel_is_spectral(form: np.ndarray) -> bool:
    """Whether a bilinear form is a multiple of the identity, to rounding."""
    return bool(np.abs(form - form[0, 0] * np.eye(len(form))).max() <= 1e-14 * np.abs(form).max(initial=0.0))


def _integrals(form: np.ndarray, on: Surface, softmax: bool) -> Integrals:
    if not kernel_is_spectral(form):
        return _by_quadrature(form, on, softmax)
    s = float(form[0, 0])
    grown = 1.0 if softmax else np.exp(abs(s))
    by_mode = Multipliers(*(grown * a for a in on.kernel(s)))

    def integrals(c: Moments, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        across = np.einsum("an,and->nd", on.slopes(by_mode.tangent * c), on.frame)
        return on.values(by_mode.total * c), across + on.values(by_mode.radial * c)[:, None] * on.points

    return integrals


def _by_quadrature(form: np.ndarray, on: Surface, softmax: bool) -> Integrals:
    if len(on.points) ** 2 > MOST_ENTRIES:
        raise InputError(
            f"Q^T K is no multiple of the identity, so {len(on.points):,} points need a kernel of "
            f"{len(on.points) ** 2 / 1e6:.0f} million entries; give a smaller `most`."
        )
    scores = on.points @ form @ on.points.T  # (N, N)
    if softmax:
        scores -= scores.max(axis=1, keepdims=True)
    kernel = np.exp(scores) * on.weights

    def integrals(c: Moments, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sums = kernel @ (rho[:, None] * np.concatenate([np.ones((len(rho), 1)), on.points], axis=1))
        return sums[:, 0], sums[:, 1:]

    return integrals
