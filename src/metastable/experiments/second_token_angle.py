"""The second token under causal attention with V = s I and Q = K = I: an exact solution that every run contains.

Token 1 stays, and the angle phi between it and token 2 obeys phi' = -s sin(phi)/(1 + e^{beta (1 - cos phi)}), whatever
tokens follow. It depends on beta, on the mask, on which way attention goes, and on V. `second_token` judges the same by
times, for s = 1; here angles are judged, which serves repulsion too.
"""

from collections.abc import Sequence

import numpy as np

from metastable.experiments import plain_formulas as plain
from metastable.theory.verdicts import Verdict, judge_share

STEPS = 200  # per time unit, of the fourth-order method
ALLOWED = 1e-4  # radians; runs in steps of 0.1 err by 1e-6


def angle_at(t: float, start: np.ndarray, beta: float, sign: float) -> np.ndarray:
    """The exact angle at time t from the angles ``start``.

    >>> round(float(angle_at(1.0, np.array(1.0), 0.0, 1.0)), 4)  # beta = 0: tan(phi/2) shrinks like e^{-t/2}
    0.6399
    """

    def rate(phi: np.ndarray) -> np.ndarray:
        return np.asarray(-sign * np.sin(phi) / (1.0 + np.exp(beta * (1.0 - np.cos(phi)))))

    return plain.moved(lambda _, phi: rate(phi), np.asarray(start, dtype=float), t, max(1, round(t * STEPS)))


def judge_second(
    start: np.ndarray, end: np.ndarray, t: float, beta: float, sign: float, seeds: Sequence[int], where: str
) -> Verdict:
    """Whether the second token of every run is where the exact solution has it, to `ALLOWED`."""
    off = np.abs(end - angle_at(t, start, beta, sign))
    verb = "drawn to" if sign > 0 else "pushed from"
    return judge_share(
        f"The second token is {verb} the first at the exact rate ({where}).",
        "first paper, eq. (3), solved for two tokens",
        [bool(o <= ALLOWED) for o in off],
        exact=True,
        seeds=seeds,
        notes=f"angle at t = {t:g} within {off.max():.1e} of phi' = {'-' if sign > 0 else ''}"
        f"sin(phi)/(1 + e^(beta (1 - cos phi))), beta = {beta:g}",
    )


def judge_alone(off: np.ndarray, t: float) -> Verdict:
    """Whether token 2, under any V, is where two tokens by themselves have it: distances ``off`` at time t.

    Allowed: 1e-2, what steps of 0.1 may err by where V is largest (|V| = 6).
    """
    return judge_share(
        "The second token moves as if only the first were there.",
        "first paper, eq. (3), for two tokens",
        [bool(o <= 1e-2) for o in off],
        exact=True,
        notes=f"largest distance at t = {t:g} from the two tokens by themselves: {off.max():.1e}",
    )
