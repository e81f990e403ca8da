"""The metastable leap: collapsed clusters through plateaus that last exponentially long.

Once tokens have collapsed into clusters with weights w_c, the clusters obey

    x_c' = P_x( sum_b P_cb V x_b ),     P_cb = w_b e^{beta <Q x_c, K x_b>} / Z_c,

where everything that moves is of order e^{-beta (1 - cos)}. With V a multiple of the identity a cluster's pull on
itself has no tangential part, so all rates share a tiny factor sigma = sum of P_cb over c != b, kept as a logarithm.
In the time tau with dt = dtau / sigma the plateau has length of order one; a high-order adaptive solver walks through
it in some tens of steps, and t is a quadrature beside it. When two clusters meet they become one, and the next plateau
begins.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq
from scipy.sparse.csgraph import connected_components

from metastable.errors import InputError
from metastable.reduced import weighted
from metastable.reduced.coalesce import coalesce

_MOST_TAU = 1e5  # of one plateau; clusters that take longer are balanced


class Leap(NamedTuple):
    """Plateaus and mergers.

    ``log_t`` (K,) the logarithm of the times of the mergers and ``t`` the times (inf beyond floats); ``counts``
    (K + 1,) clusters before the first merger and after each; ``labels`` (K + 1, m) which cluster each of the m
    clusters given belongs to; ``x`` and ``weights`` (K + 1 arrays) the clusters at the start of each plateau;
    ``saved`` (S, m, d) the m clusters given at the asked times, nan where the run did not get; ``status`` "done"
    (horizon reached), "merged" (one cluster left), "balanced" (nothing moves, though several are left) or "stalled"
    (the solver could not go on).
    """

    log_t: np.ndarray
    t: np.ndarray
    counts: np.ndarray
    labels: np.ndarray
    x: list[np.ndarray]
    weights: list[np.ndarray]
    saved: np.ndarray
    status: str


class _Plateau(NamedTuple):
    """From one merger to the next: scaled time tau, log t at its start, log sigma there."""

    x: np.ndarray
    w: np.ndarray
    log_start: float
    log_sigma: float


def leap(
    dynamics: Any,
    x: np.ndarray,
    weights: np.ndarray,
    t: float = math.inf,
    start: float = 0.0,
    merge: float = 1e-4,
    save: Any = (),
    rtol: float = 1e-10,
) -> Leap:
    """Follow weighted clusters from ``start`` to t, merger by merger.

    Parameters
    ----------
    dynamics : Dynamics
        Full attention on the sphere. Plateaus of any length need V = c I; with another V time is not stretched.
    x : array (m, d)
        Clusters.
    weights : array (m,)
        Their numbers of tokens.
    t, start : float
        Horizon, which may be inf, and the time at which the clusters are given.
    merge : float
        The angle at which two clusters become one.
    save : array of times, optional
    rtol : float
        Tolerance of the solver.

    Examples
    --------
    Two equal clusters at an angle of 2, by beta = 25, as the exact law of two clusters has it:

    >>> import metastable as ms
    >>> x = np.array([[1.0, 0.0], [np.cos(2.0), np.sin(2.0)]])
    >>> run = leap(ms.Dynamics(beta=25.0), x, np.ones(2))
    >>> run.counts.tolist(), f"{run.t[0]:.3e}"
    ([2, 1], '5.548e+13')
    """
    x = np.array(x, np.float64)
    weighted.check(dynamics, x, "The metastable leap")
    w = np.array(weights, np.float64)
    if w.shape != (len(x),) or not (w > 0).all():
        raise InputError(f"The leap needs one weight > 0 for each of the {len(x)} clusters.")
    if not (0 < merge < 1 and 0 <= start <= t):
        raise InputError("The leap needs an angle 0 < merge < 1 and times 0 <= start <= t.")
    times = np.asarray(save, np.float64)
    rate = _scaled_rate(dynamics, x.shape[1])
    label = np.arange(len(x))
    now = _Plateau(weighted.unit(x), w, math.log(start) if start > 0 else -math.inf, 0.0)
    log_t: list[float] = []
    labels, centres, sizes = [], [], []
    saved = np.full((len(times), *x.shape), np.nan)
    while True:
        now, joined = _joined(now, merge)
        label = joined[label]
        labels.append(label)
        centres.append(now.x)
        sizes.append(now.w)
        if len(now.x) == 1:
            status = "merged"
            saved[np.isnan(saved[:, 0, 0])] = now.x[label]
            break
        now = now._replace(log_sigma=rate(now.x, now.w)[1])
        solution, event = _solve(rate, now, t, merge, rtol)
        _save(saved, times, now, label, solution)
        if event != "merger":
            status = event
            break
        log_end = _log_time(now, solution.y[-1, -1])
        log_t.append(log_end)
        now = now._replace(x=weighted.unit(solution.y[:-1, -1].reshape(now.x.shape)), log_start=log_end)
    with np.errstate(over="ignore"):
        plain = np.exp(np.array(log_t))
    counts = np.array([len(c) for c in centres])
    return Leap(np.array(log_t), plain, counts, np.stack(labels), centres, sizes, saved, status)


def follow(
    dynamics: Any, x0: np.ndarray, t: float = math.inf, settle: float = 40.0, dt: float = 0.1, save: Any = ()
) -> Leap:
    """From tokens to the end of the last plateau: `coalesce` until ``settle``, then `leap` with what is left.

    >>> import metastable as ms
    >>> run = follow(ms.Dynamics(beta=16.0), ms.initial.sphere(60, 3, seed=0))
    >>> int(run.counts[-1]), run.status
    (1, 'merged')
    """
    first = coalesce(dynamics, x0, min(t, settle), dt, save=[min(t, settle)])
    return leap(dynamics, first.centres, first.weights, t, start=min(t, settle), save=save)


def _scaled_rate(dyn: Any, d: int) -> Any:
    """The function (x, w) -> (x' / sigma, log sigma)."""
    A, V = dyn.weights.score_map(0.0, d), dyn.weights.value_map(0.0, d)
    straight = all(np.array_equal(matrix, matrix[0, 0] * np.eye(d)) for matrix in V)
    beta, softmax = float(dyn.beta), dyn.normalise.stream == "softmax"

    def rate(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, float]:
        y = weighted.unit(x)
        scores = beta * np.einsum("id,hde,je->hij", y, A, y) + np.log(w)  # (h, m, m)
        top = scores.max(axis=-1, keepdims=True)
        total = top + np.log(np.exp(scores - top).sum(axis=-1, keepdims=True))
        log_p = scores - (total if softmax else np.log(w.sum()))
        log_sigma = 0.0
        if straight:
            log_p[:, np.arange(len(y)), np.arange(len(y))] = -np.inf  # V x_c has no part across x_c
            most = log_p.max()
            log_sigma = float(most + np.log(np.exp(log_p - most).sum()))
        pulled = np.einsum("hij,hde,je->id", np.exp(log_p - log_sigma), V, y)
        size = np.sqrt(np.einsum("id,id->i", x, x))[:, None]
        return size * weighted.tangent(y, pulled), log_sigma

    return rate


def _solve(rate: Any, now: _Plateau, t: float, merge: float, rtol: float) -> tuple[Any, str]:
    """The plateau up to its merger, to the horizon or to rest: (solution in tau, what ended it).

    The state is x and u = sigma_start (t - t_start), which grows like tau.
    """
    shape = now.x.shape
    apart = np.triu_indices(shape[0], 1)
    near = 4.0 * math.sin(merge / 2.0) ** 2
    u_end = _scaled_time(now, t)

    def slope(tau: float, y: np.ndarray) -> np.ndarray:
        v, log_sigma = rate(y[:-1].reshape(shape), now.w)
        return np.append(v.ravel(), math.exp(min(now.log_sigma - log_sigma, 700.0)))

    def meet(tau: float, y: np.ndarray) -> float:
        x = weighted.unit(y[:-1].reshape(shape))
        gap = x[apart[0]] - x[apart[1]]
        return math.log(np.einsum("id,id->i", gap, gap).min() / near)

    def over(tau: float, y: np.ndarray) -> float:
        return float(y[-1]) - u_end

    events: list[Any] = [meet, over] if math.isfinite(u_end) else [meet]
    for event in events:
        event.terminal = True
    done = solve_ivp(
        slope, (0.0, _MOST_TAU), np.append(now.x.ravel(), 0.0), method="DOP853", rtol=rtol, atol=rtol * 1e-3,
        events=events, dense_output=True,
    )  # fmt: skip
    if done.status != 1:
        return done, "balanced" if done.status == 0 else "stalled"
    met: Any = done.t_events
    return done, "merger" if met[0].size else "done"


def _scaled_time(now: _Plateau, t: float) -> float:
    """u at time t: e^{log sigma} (t - t_start), inf when it is out of reach."""
    if math.isinf(t):
        return math.inf
    log_t = math.log(t) if t > 0 else -math.inf
    if log_t <= now.log_start:
        return 0.0
    exponent = now.log_sigma + log_t + math.log1p(-math.exp(now.log_start - log_t))
    return math.exp(exponent) if exponent < 700.0 else math.inf


def _log_time(now: _Plateau, u: float) -> float:
    """log t at the scaled time u."""
    return float(np.logaddexp(now.log_start, math.log(u) - now.log_sigma)) if u > 0 else now.log_start


def _joined(now: _Plateau, merge: float) -> tuple[_Plateau, np.ndarray]:
    """Clusters within the merging angle become one, at their centre of mass; also the new number of each."""
    gap = np.linalg.norm(now.x[:, None] - now.x[None], axis=-1)
    count, number = connected_components(gap <= 2.0 * math.sin(merge / 2.0) * (1.0 + 1e-6), directed=False)
    w = np.bincount(number, now.w, count)
    x = np.stack([np.bincount(number, now.w * c, count) for c in now.x.T], axis=1)
    return now._replace(x=weighted.unit(x), w=w), number


def _save(saved: np.ndarray, times: np.ndarray, now: _Plateau, label: np.ndarray, solution: Any) -> None:
    """Fill in the asked times that lie on this plateau."""
    last = solution.y[-1, -1]
    for k, time in enumerate(times):
        u = _scaled_time(now, float(time))
        if not np.isnan(saved[k, 0, 0]) or u > last * (1.0 + 1e-12):
            continue
        saved[k] = weighted.unit(solution.sol(_tau_at(solution, u))[:-1].reshape(now.x.shape))[label]


def _tau_at(solution: Any, u: float) -> float:
    """The scaled time at which the quadrature has reached u."""
    if u <= 0 or u >= solution.y[-1, -1]:
        return 0.0 if u <= 0 else float(solution.t[-1])
    return float(brentq(lambda tau: solution.sol(tau)[-1] - u, 0.0, solution.t[-1], xtol=1e-14))
