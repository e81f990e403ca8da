"""Two opposite groups of tokens, half of them at u and half at -u: the one start whose rescaled path is known exactly.

Where V u = lambda u, the pull on the group at u is lambda u times (e^s - e^{-s})/(e^s + e^{-s}) with s = <Qu, Ku>: so
the groups stay on their line, and its length r obeys r' = lambda r tanh(b r^2), b = <Qu, Ku>/|u|^2 (the closed
form behind Theorem 2.1). Limits look alike at every beta; this path does not, so a verdict on it moves with beta and V.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from metastable.experiments.base import Data, Work
from metastable.experiments.claim_instances import Measure, in_families, instances, runs_of
from metastable.theory.theorems import Claim, Triple, settled_tokens
from metastable.theory.verdicts import MINIMUM, Verdict, judge_share

COUNT = MINIMUM + 4
TIME = 2.0  # in units of 1/lambda: both tanh << 1 and tanh = 1 are passed through
ALLOWED = 1e-5  # relative: rk4 of step 0.05 errs by 0.05^4 = 6e-6 times derivatives that are divided by 120


def opposite(case: Triple, seed: int) -> tuple[Triple, float, float]:
    """The triple from two opposite groups along an eigenvector of V's leading eigenvalue; b, and where it begins.

    V = cI has every direction as an eigenvector: one is drawn. r begins where b r^2 is between 1/4 and 2.
    """
    rng, d = np.random.default_rng([seed, 5]), len(case.V)
    values, vectors = np.linalg.eig(case.V)
    u = np.real(vectors[:, np.argmax(values.real)])
    if np.allclose(case.V, case.V[0, 0] * np.eye(d)):
        u = rng.standard_normal(d)
    u = u / np.linalg.norm(u)
    b = float((case.Q @ u) @ (case.K @ u))
    start = float(rng.uniform(0.5, 1.4) / np.sqrt(abs(b) if abs(b) > 1e-6 else 1.0))
    half = len(case.tokens) // 2
    tokens = np.concatenate([np.tile(start * u, (half, 1)), np.tile(-start * u, (half, 1))])
    return Triple(case.Q, case.K, case.V, tokens), b, start


def length(b: np.ndarray, start: np.ndarray, t: float, steps: int = 2000) -> np.ndarray:
    """z = e^{-t} r(t) of r' = r tanh(b r^2), by small steps of the classical method in log r.

    >>> float(length(np.array([1.0]), np.array([1.0]), 12.0).round(4)[0])
    0.9483
    """
    h, w = t / steps, np.log(start)

    def slope(w: np.ndarray) -> np.ndarray:
        return np.asarray(np.tanh(b * np.exp(2.0 * np.minimum(w, 300.0))))

    for _ in range(steps):
        k1 = slope(w)
        k2 = slope(w + h / 2 * k1)
        k3 = slope(w + h / 2 * k2)
        w = w + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(w + h * k3))
    return np.asarray(np.exp(w - t))


def pairs(claim: Claim, cases: Sequence[Triple], first: int, method: str, chunk: int) -> Data:
    """Measured and exact |z| at TIME of the group at u, one row per case; seeds count from ``first``."""
    made = [opposite(case, first + k) for k, case in enumerate(cases)]
    triples = [triple for triple, _, _ in made]
    found = []
    for at in range(0, len(triples), chunk):
        some = triples[at : at + chunk]
        for run in runs_of(some, [claim.rate(p) for p in some], TIME, method, chunk):
            found.append(float(np.linalg.norm(settled_tokens(run, -1)[0][0])))
    b, start = (np.array([row[k] for row in made]) for k in (1, 2))
    return {"pair": np.array(found), "pair_exact": length(b, start, TIME)}


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


def verdict(data: Data, source: str, first: int, key: str = "") -> Verdict:
    """Both lengths must agree to ALLOWED."""
    off = np.abs(data[f"{key}pair"] / data[f"{key}pair_exact"] - 1.0)
    return judge_share(
        "Two opposite groups of tokens on an eigenvector u of V move as r' = r tanh(<Qu, Ku>), rescaled.",
        f"{source}; closed form of two opposite tokens",
        [bool(v <= ALLOWED) for v in off],
        seeds=range(first, first + len(off)),
        notes=f"largest relative difference at t = {TIME:g}: {off.max():.1e}, allowed {ALLOWED:.0e}; unlike the limit "
        "this depends on beta",
    )
