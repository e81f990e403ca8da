"""Rates, energies and probabilities of attention on the sphere."""

from math import comb

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import expm
from scipy.special import bdtr, betainc, hyp0f1, ive

from metastable.errors import InputError
from metastable.theory.equiangular import check_normalise

# Renyi's parking constant, the mean covered share when unit cars park at random: the integral over x > 0 of
# exp(-2 (E1(x) + ln x + Euler's gamma)).
RENYI_PARKING_CONSTANT = 0.7475979202534114
_SUMMED = 1000  # points up to which a hemisphere's chance is summed in whole numbers


# --- energy ---------------------------------------------------------------------------------------


def interaction_energy(x: ArrayLike, beta: float) -> float:
    """E = (1/(2 beta n^2)) sum_ij e^{beta <x_i, x_j>}, which never decreases when Q = K = V = I."""
    x = np.asarray(x, dtype=float)
    return float(np.exp(beta * (x @ x.T)).mean() / (2.0 * beta))  # (n, n)


def energy_rate(x: ArrayLike, velocity: ArrayLike, beta: float, normalise: str = "softmax") -> float:
    """dE/dt = (1/n) sum |x_i'|^2 (USA) or (1/n^2) sum Z_i |x_i'|^2 (SA), from tokens and velocities."""
    x, v = np.asarray(x, dtype=float), np.asarray(velocity, dtype=float)
    return float((_partition(x, beta, normalise) * (v**2).sum(axis=1)).mean())


def rotational_imbalance(x: ArrayLike, velocity: ArrayLike, beta: float, normalise: str = "softmax") -> np.ndarray:
    """sum_i w_i (x_i v_i^T - v_i x_i^T), w_i = 1 (USA) or Z_i/n (SA): (d, d), zero along the flow."""
    x, v = np.asarray(x, dtype=float), np.asarray(velocity, dtype=float)
    M = (x * _partition(x, beta, normalise)[:, None]).T @ v  # (d, d)
    return np.asarray(M - M.T)


def _partition(x: np.ndarray, beta: float, normalise: str) -> np.ndarray:
    check_normalise(normalise)
    if normalise == "unnormalised":
        return np.ones(len(x))
    return np.asarray(np.exp(beta * (x @ x.T)).mean(axis=1))  # Z_i / n, (n,)


def largest_energy(beta: float) -> float:
    """The energy of consensus, e^beta/(2 beta)."""
    return float(np.exp(beta) / (2.0 * beta))


def uniform_energy(beta: float, d: int) -> float:
    """Energy of the uniform law on S^{d-1}: Gamma(d/2)(2/beta)^{d/2-1} I_{d/2-1}(beta)/(2 beta).

    Written as 0F1(; d/2; beta^2/4)/(2 beta), the same number without the overflowing factors of large d.

    >>> round(uniform_energy(1.0, d=3), 12) == round(float(np.sinh(1.0)) / 2.0, 12)
    True
    """
    return float(hyp0f1(d / 2.0, beta**2 / 4.0) / (2.0 * beta))


# --- linear rates ---------------------------------------------------------------------------------


def consensus_rates(V: ArrayLike, n: int, index: int = -1) -> np.ndarray:
    """Linear rates at consensus on an eigenvector of symmetric V (full attention), sorted, n(d-1) of them.

    With eigenvalue lambda = the ``index``-th of V in ascending order: -lambda with multiplicity (n-1)(d-1),
    and mu_j - lambda for the other eigenvalues mu_j. Stable where all are negative.
    """
    values = np.linalg.eigvalsh(np.asarray(V, dtype=float))
    d, own = len(values), values[index]
    others = np.delete(values, index % d)
    return np.sort(np.concatenate([np.full((n - 1) * (d - 1), -own), others - own]))


def causal_consensus_rates(n: int) -> np.ndarray:
    """Linear rates at consensus, causal attention, V = I: -(1 - 1/k) for token k = 1..n, d - 1 times each."""
    return -(1.0 - 1.0 / np.arange(1, n + 1))


def mode_growth_rate(
    k: ArrayLike, beta: float, normalise: str = "softmax", d: int = 2, noise: float = 0.0
) -> np.ndarray:
    """Growth rate of mode k of a small perturbation of the uniform law on S^{d-1}, infinitely many tokens.

    k(k+d-2) (j_k(beta)/beta - noise^2/2) for USA, with j_k/j_0 in the place of j_k for SA, where j_k is what the kernel
    e^{beta <x, y>} does to mode k: I_k(beta) on the circle, the spherical Bessel function i_k(beta) on S^2, and
    Gamma(d/2) (2/beta)^{d/2-1} I_{k+d/2-1}(beta) in general.

    >>> round(float(mode_growth_rate(1, 2.0, noise=0.5)), 6)
    0.223887
    """
    check_normalise(normalise)
    k = np.asarray(k, dtype=float)
    if beta == 0.0:  # j_k(beta)/beta tends to 1/d for k = 1 and to 0 above
        pull = np.where(k == 1, 1.0 / d, 0.0)
    else:
        pull = ive(k + d / 2 - 1, beta) / ive(d / 2 - 1, beta) / beta
    if normalise == "unnormalised":
        pull = pull * hyp0f1(d / 2.0, beta**2 / 4.0)  # j_0(beta)
    return np.asarray(k * (k + d - 2) * (pull - noise**2 / 2.0))


def noise_threshold(beta: float, normalise: str = "softmax", d: int = 2) -> float:
    """The noise sigma below which the uniform law on S^{d-1} is unstable: sigma^2 = 2 j_1(beta)/beta, SA: over j_0.

    >>> round(noise_threshold(2.0) ** 2, 6)  # 2 I_1(2) / (2 I_0(2))
    0.697775
    """
    return float(np.sqrt(2.0 * mode_growth_rate(1, beta, normalise, d) / (d - 1)))


def fastest_mode(beta: float) -> int:
    """The mode of the circle's uniform law that grows fastest, the same for SA and USA.

    The rate k^2 I_k falls from k ~ sqrt(2 beta) on, so modes up to 2 sqrt(beta) + 10 are enough to look at.

    >>> fastest_mode(4.0), fastest_mode(9.0)
    (3, 4)
    """
    modes = np.arange(1, int(2.0 * np.sqrt(beta)) + 11)
    return int(modes[np.argmax(mode_growth_rate(modes, beta))])


# --- causal attention and leaders -----------------------------------------------------------------


def first_token_path(t: ArrayLike, V: ArrayLike, x: ArrayLike) -> np.ndarray:
    """Causal token 1 for any V: e^{tV} x/|e^{tV} x| at each time, (T, d), however long the run.

    The exponential is applied in steps with |step| * ||V|| <= 1, each followed by a normalisation; directions
    are all that is kept, so neither growth nor decay accumulates.

    >>> first_token_path([1000.0], [[1.0, 0.0], [0.0, 0.0]], [0.6, 0.8]).round(12).tolist()
    [[1.0, 0.0]]
    """
    times = np.atleast_1d(np.asarray(t, dtype=float))
    V, here = np.asarray(V, dtype=float), np.asarray(x, dtype=float)
    if not np.any(here):
        raise InputError("A token at 0 has no direction; give one that is not zero.")
    here = here / np.linalg.norm(here)
    size = max(float(np.linalg.norm(V, 2)), 1e-300)
    out, now = np.empty((len(times), len(here))), 0.0
    for i, time in enumerate(times):
        steps = max(1, int(np.ceil(abs(time - now) * size)))
        step = expm((time - now) / steps * V)
        for _ in range(steps):
            here = step @ here
            here = here / np.linalg.norm(here)
        out[i], now = here, time
    return out


def hemisphere_probability(n: int, d: int) -> float:
    """Wendel: n uniform points of S^{d-1} share a hemisphere with chance 2^{-(n-1)} sum_{k<d} C(n-1, k).

    >>> hemisphere_probability(3, 2)
    0.75
    """
    if n < 1 or d < 1:
        raise InputError(f"A hemisphere is asked for of n >= 1 points in d >= 1 dimensions, not {n!r} and {d!r}.")
    if d >= n:
        return 1.0
    if n > _SUMMED:
        return float(bdtr(d - 1, n - 1, 0.5))
    return float(sum(comb(n - 1, k) for k in range(d)) / 2 ** (n - 1))


def cap_mass(delta: float, d: int) -> float:
    """Share of S^{d-1} within delta of a point: (1/2) I_{sin^2 delta}((d-1)/2, 1/2) up to pi/2."""
    if not 0.0 <= delta <= np.pi:
        raise InputError(f"An angle on the sphere lies in [0, pi], not {delta!r}.")
    half = 0.5 * float(betainc((d - 1) / 2.0, 0.5, np.sin(delta) ** 2))
    return half if delta <= np.pi / 2 else 1.0 - half


def strong_centers(n: float, delta: float, d: int) -> float:
    """Expected number of strong Renyi centers among n uniform tokens: (1 - (1-c)^n)/c, c the cap's mass.

    A strong center is farther than delta from every predecessor; n may be infinite, which gives 1/c.

    >>> round(strong_centers(float("inf"), 0.1, 2), 9) == round(float(np.pi / 0.1), 9)
    True
    """
    c = cap_mass(delta, d)
    if c == 0.0:
        return float(n)
    return float(-np.expm1(n * np.log1p(-c)) / c) if c < 1.0 else 1.0


def parked_centers_circle(delta: float) -> float:
    """Expected Renyi centers on the circle (farther than delta from earlier centers), n large, delta small.

    Parking of cars of length delta on a road of length 2 pi: about 0.7476 * 2 pi/delta.
    """
    return RENYI_PARKING_CONSTANT * 2.0 * np.pi / delta


def hardmax_contraction(alpha: float) -> float:
    """Factor per step for a hardmax follower of a fixed leader x*: x -> (x + alpha x*)/(1 + alpha)."""
    return 1.0 / (1.0 + alpha)
