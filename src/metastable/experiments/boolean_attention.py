"""Attention of many rescaled runs over time, and how far it is from a Boolean matrix with two leaders."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.engines.chart import basis, state
from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import exact_pairs
from metastable.experiments.base import Data, judged_by_validity
from metastable.solve.simulate import simulate
from metastable.theory.limits import BooleanAttention
from metastable.theory.theorems import Claim, Triple, certified_until
from metastable.theory.verdicts import Verdict
from metastable.trajectory import Trajectory

SHARES = np.concatenate([np.linspace(0.0, 0.6, 28), np.linspace(2 / 3, 1.0, 5)])  # of the horizon
EARLIER = 28  # two thirds of it
BOOLEAN = 1e-3
DEEPEST = 9e3  # of the window in which the rate is measured
Case = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # Q, K, V, tokens


def embedded(Q: np.ndarray, K: np.ndarray, V: np.ndarray, tokens: np.ndarray) -> Case:
    """A case on the line or in the plane, put into space: the further coordinates are 0 and V is 0 on them.

    Nothing changes, and runs of several dimensions share one compiled step.
    """
    spare = max(0, 3 - tokens.shape[1])
    return (*(np.pad(M, ((0, spare), (0, spare))) for M in (Q, K, V)), np.pad(tokens, ((0, 0), (0, spare))))  # type: ignore[return-value]


def attention_of(cases: Sequence[Case], horizon: float, method: str, chunk: int, keep: bool, dt: float = 0.05) -> Data:
    """One row per case: distances over time, rank, slope, and with ``keep`` the first case's attention and tokens."""
    cases = [embedded(*case) for case in cases]
    spare = [cases[-1]] * (chunk - len(cases))
    members = [Dynamics(Weights(Q, K, V), geometry="rescaled") for Q, K, V, _ in [*cases, *spare]]
    tokens = np.stack([case[3] for case in [*cases, *spare]])
    with judged_by_validity():
        runs = simulate(members, tokens, t=horizon, dt=dt, method=method, save=horizon * SHARES)[: len(cases)]
    rows = []
    for i, (case, run) in enumerate(zip(cases, runs)):
        P, gaps = attention(run)
        rows.append(_measured(P, gaps, run.t, certified_until(run)))
        if i == 0:
            first = {"attention": P, "tokens": _unscaled(run, case[2]), "depth": _depth(gaps)}
    out = {key: np.stack([row[key] for row in rows]) for key in rows[0]}
    return out | {key: value[None][: int(keep)] for key, value in first.items()}


def attention(run: Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """Attention and score gaps at every saved time, (T, n, n), from the run's own chart."""
    global _compiled
    if _compiled is None:
        over_time = partial(jax.vmap, in_axes=(None, None, 0, 0, 0))
        _compiled = jax.jit(lambda *of: (over_time(state.attention)(*of), over_time(state.gaps_below)(*of)))
    assert run.dynamics is not None
    assert run.chart is not None
    chart = basis.chart_of(run.dynamics, run.x.shape[-1], run.x.shape[-2])
    y, refs = run.chart
    P, gaps = _compiled(run.dynamics, chart, jnp.asarray(run.t), y, refs)
    return np.asarray(P), np.asarray(gaps)


_compiled: Any = None


def pairs(claim: Claim, cases: Sequence[Triple], first: int, method: str, chunk: int) -> Data:
    """Two groups of tokens with their attention, see `exact_pairs`; no more than `exact_pairs.COUNT`."""
    return exact_pairs.pairs(claim, cases[: exact_pairs.COUNT], first, method, chunk, attention)


def judged_pairs(data: Data, source: str, first: int) -> list[Verdict]:
    """Where the two groups are, and what attention they give each other."""
    return [judge(data, source, first) for judge in (exact_pairs.verdict, exact_pairs.attention_verdict)]


def _unscaled(run: Trajectory, V: np.ndarray) -> np.ndarray:
    """x = e^{tV} z at every saved time (T, n, d), each divided by its largest norm: the picture is what counts."""
    zeta, values, left = run.coordinates()
    growth = np.exp((values.real - values.real.max()) * run.t[:, None, None])  # V is symmetric: real eigenvalues
    x = (zeta * growth) @ np.linalg.inv(left).T
    return np.asarray(x / np.linalg.norm(x, axis=-1).max(axis=-1)[:, None, None])


def _depth(gaps: np.ndarray) -> np.ndarray:
    """-log(1 - P_lead) of every row (T, n): -log sum_{j != lead} e^{gap_j} + log sum_j e^{gap_j}."""
    ordered = np.sort(gaps, axis=-1)  # the leader, with gap 0, is last
    rest = ordered[..., -2]
    tail = np.log(np.exp(ordered[..., :-1] - rest[..., None]).sum(axis=-1)) + rest
    return np.asarray(np.logaddexp(0.0, tail) - tail)


def _measured(P: np.ndarray, gaps: np.ndarray, t: np.ndarray, valid: float) -> dict[str, np.ndarray]:
    end = int(np.flatnonzero(t <= valid)[-1])
    received = P[end].sum(axis=0)
    leaders = np.argsort(-received, kind="stable")[:2]
    distance = np.stack([_distance(p, leaders) for p in P])  # (T, n)
    ordered = np.sort(distance, axis=1)
    bent = np.flatnonzero(ordered[: end + 1, -1] > BOOLEAN)
    settled = t[bent[-1] + 1] if len(bent) and bent[-1] < end else (0.0 if not len(bent) else np.nan)
    heard = P[end][:, leaders].argmax(axis=1)
    return {
        "first": ordered[[min(EARLIER, end), end], -1],  # the largest row distance, earlier and at the end
        "second": ordered[[min(EARLIER, end), end], -2],
        "any": (1.0 - P.max(axis=-1)).max(axis=-1)[[min(EARLIER, end), end]],  # from Boolean with any number of leaders
        "rank": np.array(len(np.unique(heard))),
        "leaders": np.array(int((received > 0.5).sum())),
        "sound": np.array(end == len(SHARES) - 1),
        "settled": np.array(settled),
        "slope": np.array(_slope(_depth(gaps)[: end + 1], t[: end + 1])),
    }


def _distance(P: np.ndarray, leaders: np.ndarray) -> np.ndarray:
    return BooleanAttention(int(leaders[0]), int(leaders[-1])).distance(P)


def _slope(depth: np.ndarray, t: np.ndarray) -> float:
    """Mean over rows of the slope of log(depth) in t, over the window the experiment's docstring derives."""
    slopes = []
    for row in depth.T:
        window = (t >= 4.0) & (row > 100.0) & (row < DEEPEST)
        if window.any() and np.ptp(t[window]) >= 2.0:
            slopes.append(np.polyfit(t[window], np.log(row[window]), 1)[0])
    return float(np.mean(slopes)) if slopes else np.nan


def boolean(data: Data, key: str, exempt: int) -> list[bool | None]:
    """True when all rows but ``exempt`` are Boolean, False when they rest elsewhere, None while they move."""
    return resting(data[key + ("second" if exempt else "first")], data[key + "sound"])


def resting(distance: np.ndarray, sound: np.ndarray) -> list[bool | None]:
    """Outcomes of distances (b, 2) at two thirds of the horizon and its end: reached, at rest elsewhere, or moving."""
    earlier, now = distance.T
    rests = (np.abs(now - earlier) <= 0.1 * now) & sound
    return [True if n <= BOOLEAN else (False if r else None) for n, r in zip(now, rests)]


def sorted_form(P: np.ndarray) -> np.ndarray:
    """P with its two leaders as first and last column, rows by whom they listen to: the form of Fig. 2."""
    one, two = np.argsort(-P.sum(axis=0), kind="stable")[:2]
    others = [j for j in range(len(P)) if j not in (one, two)]
    return P[np.argsort(-P[:, one], kind="stable")][:, [one, *others, two]]


def coarse(P: np.ndarray, most: int = 80) -> np.ndarray:
    """P, or beyond ``most`` tokens the maximum over blocks, so that a picture stays small."""
    step = -(-len(P) // most)
    if step == 1:
        return P
    size = len(P) // step * step
    return np.asarray(P[:size, :size].reshape(size // step, step, size // step, step).max(axis=(1, 3)))


def spread(values: np.ndarray) -> str:
    """Median and largest of a sample, for notes."""
    known = values[np.isfinite(values)]
    return f"median {np.median(known):.3g}, largest {known.max():.3g}" if len(known) else "none"


def middle(values: np.ndarray) -> float:
    """The median of what is known, nan of nothing."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")
