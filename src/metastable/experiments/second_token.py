"""Token 2 of causal attention with Q^T K = V = I: it sees itself and token 1 only, which never moves.

Its angle to token 1 obeys phi' = -sin(phi)/(1 + e^{beta(1 - cos phi)}), whose time from one angle to another is a
quadrature (`metastable.theory.two_clusters`). Pictures of clusters look alike with other masks and at other beta; this
path does not, so that a verdict on it moves with both.
"""

from collections.abc import Sequence

import numpy as np

from metastable.theory.two_clusters import causal_second_token_time
from metastable.theory.verdicts import Verdict, judge_share

ALLOWED = 1e-3
SLOWEST = 1e-6  # radians: a token that moved less says nothing about its speed


def angle_to_first(x: np.ndarray) -> np.ndarray:
    """The angle between tokens 1 and 2 of (..., n, d)."""
    gap = np.linalg.norm(x[..., 0, :] - x[..., 1, :], axis=-1)
    return np.asarray(2.0 * np.arcsin(np.minimum(1.0, gap / 2.0)))


def second_token(angles: np.ndarray, betas: np.ndarray, t: float, seeds: Sequence[int]) -> Verdict:
    """Judge angles (m, 2) at 0 and t: the quadrature's time between them must be t, to ALLOWED of it.

    RK4 of step h errs by about h^4/120 times the fifth derivatives in t, which are of order beta^4 where the token
    passes from waiting to falling: 1e-4 9^4/120 = 5e-3 of one time unit, against 15 of them.
    """
    off = []
    for (start, end), beta in zip(angles, betas):
        known = 0.0 < end < start - SLOWEST
        broken = np.inf if end >= start else None
        off.append(abs(causal_second_token_time(start, end, float(beta)) / t - 1.0) if known else broken)
    slow = [a[0] - a[1] for a in angles]
    found = [None if o is None or 0.0 <= s < SLOWEST else bool(o <= ALLOWED) for o, s in zip(off, slow)]
    worst = max((o for o, f in zip(off, found) if o is not None and f is not None), default=np.nan)
    return judge_share(
        "Token 2 closes in on token 1 as phi' = -sin(phi)/(1 + e^{beta(1 - cos phi)}).",
        "causal attention, quadrature of the angle",
        found,
        decided=0.5,
        seeds=list(seeds),
        notes=f"largest relative error of the time to t = {t:g}: {worst:.1e}, allowed {ALLOWED:.0e}; tokens that moved "
        f"less than {SLOWEST:g} rad are left open",
    )
