"""Two groups of tokens on one line through 0, two thirds of them at y_1 u and one third at y_2 u: a rescaled path that
is known exactly.

Where V u = lambda u the groups stay on their line, and with b = <Qu, Ku>, n_1 and n_2 tokens and time in units of
1/lambda

    y_1' = y_1 + p_12 (y_2 - y_1),   p_12 = 1/(1 + (n_1/n_2) e^{b y_1 (y_1 - y_2)}),

and the same with 1 and 2 exchanged.

Limits look alike at every beta; this path does not, and neither does the attention between the groups, so verdicts on
them move with beta and V. The groups are of different sizes so that they move with A^T in the place of A as well.
(Changed after data had been seen: the groups were equal and opposite, A was symmetric, and A^T went unnoticed.)
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Data, Work
from metastable.experiments.claim_instances import Measure, in_families, instances, runs_of
from metastable.solve.simulate import simulate
from metastable.theory.theorems import Claim, Triple, settled_tokens
from metastable.theory.verdicts import MINIMUM, Verdict, judge_share
from metastable.trajectory import Trajectory

COUNT = MINIMUM + 4
TIME = 2.0  # in units of 1/lambda: attention is mixed at first and Boolean at the end
ALLOWED = 1e-5  # of the start: rk4 of step 0.05 errs by 0.05^4 = 6e-6 times derivatives that are divided by 120
OTHER = -0.7  # y_2/y_1 at the start
COARSE = 1e-3  # of the start: steps of 0.1 err by 1e-4 times those derivatives; half the beta shows by 1e-2 or more
Attention = Callable[[Trajectory], tuple[np.ndarray, np.ndarray]]


def two_groups(case: Triple, seed: int) -> tuple[Triple, float, float, float]:
    """The triple from two groups on an eigenvector of V's leading eigenvalue; b, y_1 at the start, and n_1/n_2.

    V = cI has every direction as an eigenvector: one is drawn. y_1 begins where b y_1^2 is between 1/4 and 2.
    """
    rng, d = np.random.default_rng([seed, 5]), len(case.V)
    values, vectors = np.linalg.eig(case.V)
    u = np.real(vectors[:, np.argmax(values.real)])
    if np.allclose(case.V, case.V[0, 0] * np.eye(d)):
        u = rng.standard_normal(d)
    u = u / np.linalg.norm(u)
    b = float((case.Q @ u) @ (case.K @ u))
    start = float(rng.uniform(0.5, 1.4) / np.sqrt(abs(b) if abs(b) > 1e-6 else 1.0))
    tokens, more = grouped(start * u, len(case.tokens))
    return Triple(case.Q, case.K, case.V, tokens), b, start, more


def grouped(place: np.ndarray, n: int) -> tuple[np.ndarray, float]:
    """n tokens, two thirds of them at ``place`` and the others at OTHER times that; and n_1/n_2."""
    second = max(1, n // 3)
    return np.concatenate([np.tile(place, (n - second, 1)), np.tile(OTHER * place, (second, 1))]), n / second - 1.0


def pull(y: np.ndarray, b: np.ndarray, more: np.ndarray) -> np.ndarray:
    """sum_j P_ij y_j of both groups (2, m), ``more`` = n_1/n_2."""
    apart = y[0] - y[1]
    to_second = 1.0 / (1.0 + more * np.exp(np.clip(b * y[0] * apart, -700.0, 700.0)))
    to_first = 1.0 / (1.0 + np.exp(np.clip(-b * y[1] * apart, -700.0, 700.0)) / more)
    return np.stack([y[0] - to_second * apart, y[1] + to_first * apart])


def places(b: np.ndarray, start: np.ndarray, more: np.ndarray, t: float, steps: int = 4000) -> np.ndarray:
    """y_1 and y_2 at time t, (2, m), by small steps of the classical method; b (m,), or (heads, m) with V_h = V/H.

    >>> one = np.array([1.0])
    >>> (places(0.0 * one, one, 2.0 * one, 1.0) / np.e).round(4).ravel().tolist()  # even attention: to the mean, 13/30
    [0.6418, 0.0164]
    """
    heads = np.atleast_2d(b)

    def field(_: float, y: np.ndarray) -> np.ndarray:
        return np.asarray(sum(pull(y, one, more) for one in heads) / len(heads))

    return plain.moved(field, np.stack([start, OTHER * start]), t, steps)


def pairs(
    claim: Claim, cases: Sequence[Triple], first: int, method: str, chunk: int, attention: Attention | None = None
) -> Data:
    """Measured and exact |z| at TIME of the group at y_1 u over its start, by case; seeds count from ``first``.

    With ``attention``, a function that reads it from a run, also log(P_11/P_12) of two tokens, and b y_1 (y_1 - y_2).
    """
    made = [two_groups(case, first + k) for k, case in enumerate(cases)]
    triples = [triple for triple, *_ in made]
    found, odds = [], []
    for at in range(0, len(triples), chunk):
        some = triples[at : at + chunk]
        for run in runs_of(some, [claim.rate(p) for p in some], TIME, method, chunk):
            found.append(float(np.linalg.norm(settled_tokens(run, -1)[0][0])))
            if attention is not None:
                P = attention(run)[0][-1]
                odds.append(float(np.log(P[0, 0] / P[0, -1])))
    b, start, more = (np.array([row[k] for row in made]) for k in (1, 2, 3))
    y = places(b, start, more, TIME)
    data = {"pair": np.array(found) / start, "pair_exact": np.abs(y[0]) * np.exp(-TIME) / start}
    return data if attention is None else data | {"odds": np.array(odds), "odds_exact": b * y[0] * (y[0] - y[1])}


def with_pairs(
    work: Work,
    claim: Claim,
    params: Any,
    triple: Callable[[Any, int], Triple],
    *,
    families: int,
    details: Sequence[str],
    measure: Measure,
) -> Data:
    """Instances of a claim, families in turn, with the path of the first of each; and pairs of the same triples.

    ``params`` has instances, seed, method and chunk; the other arguments are those of `claim_instances.instances`.
    """

    def make(indices: list[int]) -> Data:
        cases = [triple(params, i) for i in indices]
        made = instances(
            claim, cases, method=params.method, chunk=params.chunk, details=details, measure=measure, paths=True
        )
        return made | {"path": made.pop("path")[[i < families for i in indices]]}

    data = in_families(work, "instances", params.instances, params.chunk, families, make)
    cases = [triple(params, i) for i in range(min(params.instances, COUNT))]
    return data | work.part("pairs", lambda: pairs(claim, cases, params.seed, params.method, params.chunk))


def verdict(data: Data, source: str, first: int, key: str = "", allowed: float = ALLOWED) -> Verdict:
    """Both lengths must agree to ``allowed`` of the start."""
    off = np.abs(data[f"{key}pair"] - data[f"{key}pair_exact"])
    return judge_share(
        "Two groups of tokens on an eigenvector of V move by the two equations that the flow leaves of itself.",
        f"{source}; the flow of two groups",
        [bool(v <= allowed) for v in off],
        seeds=range(first, first + len(off)),
        notes=f"largest difference at t = {TIME:g}, of the start: {off.max():.1e}, allowed {allowed:.0e}; unlike the "
        "limit this depends on beta, and on rows and columns of attention",
    )


def in_space(
    dynamics: Dynamics | Sequence[Dynamics], b: np.ndarray, d: int, n: int, seed: int, **settings: Any
) -> Data:
    """The same of x itself for V = I, or V_h = I/H: b of one direction of each run (m,) or (heads, m), see `along`."""
    u, m = along(d, seed, b.shape[-1]), b.shape[-1]
    start = np.random.default_rng([seed, 6]).uniform(0.5, 1.4, m) / np.sqrt(np.atleast_2d(b).mean(axis=0))
    tokens, more = zip(*(grouped(r * way, n) for r, way in zip(start, u)))
    t = max(float(settings["t"]), TIME + 1.0)  # the run's own, so that the engine is
    made = simulate(dynamics, np.stack(tokens), **{**settings, "t": t, "save": [TIME, t]})
    x = np.stack([run.x[0] for run in made]) if isinstance(made, list) else made.x[0]
    y = places(b, start, np.array(more), TIME)
    return {
        "pair": np.linalg.norm(x[:, 0], axis=-1) * np.exp(-TIME) / start,
        "pair_exact": np.abs(y[0]) * np.exp(-TIME) / start,
    }


def along(d: int, seed: int, count: int) -> np.ndarray:
    """Directions of the groups of several runs (m, d)."""
    u = np.random.default_rng([seed, 5]).standard_normal((count, d))
    return np.asarray(u / np.linalg.norm(u, axis=1, keepdims=True))


def attention_verdict(data: Data, source: str, first: int, key: str = "") -> Verdict:
    """Log-odds may be off by twice what places are, relative to 1 where they are small: 10 ALLOWED is far above."""
    off = np.abs(data[f"{key}odds"] - data[f"{key}odds_exact"]) / np.maximum(1.0, np.abs(data[f"{key}odds_exact"]))
    return judge_share(
        "A token of two groups prefers its own to another one by e^{<Qy, K(y - y')>}.",
        f"{source}; the flow of two groups",
        [bool(v <= 10.0 * ALLOWED) for v in off],
        seeds=range(first, first + len(off)),
        notes=f"largest relative difference of the logarithm at t = {TIME:g}: {off.max():.1e}, allowed "
        f"{10.0 * ALLOWED:.0e}; unlike the limit this depends on beta",
    )
