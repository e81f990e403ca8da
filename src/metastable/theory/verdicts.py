"""Verdicts: a claim, a criterion fixed beforehand, a measured number with its confidence interval, and a status.

The status is "holds" or "fails" only when the whole confidence interval is on one side of the criterion, with instances
whose horizon was too short counted against either answer; otherwise the verdict is "undecided".
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtri, stdtrit

from metastable.errors import InputError

Status = Literal["holds", "fails", "undecided"]
Kind = Literal["theorem", "conjecture", "observation"]
Interval = tuple[float, float]


@dataclass(frozen=True)
class Verdict:
    """What was claimed, what was measured, and what follows.

    Attributes
    ----------
    claim, source : str
        The claim in one sentence, and where it is made.
    status : "holds", "fails" or "undecided"
    kind : "theorem", "conjecture" or "observation"
        Only a failing theorem means an error, in the theorem or in the code.
    criterion : str
        The rule that turns the measured number into the status, fixed before measuring.
    instances, eligible : int
        How many were run, and how many of them satisfied the hypotheses.
    measured : float
        The number that the criterion judges.
    interval : (float, float)
        Its 95% confidence interval.
    failing_seeds : tuple of int
        Instances that break the claim, to be replayed.
    notes : str
    """

    claim: str
    source: str
    status: Status
    kind: Kind
    criterion: str
    instances: int
    eligible: int
    measured: float
    interval: Interval
    failing_seeds: tuple[int, ...] = ()
    notes: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: tuples become lists, nan and inf become None."""
        out = asdict(self)
        out["measured"] = _plain(self.measured)
        out["interval"] = [_plain(v) for v in self.interval]
        out["failing_seeds"] = list(self.failing_seeds)
        return out

    def reading(self, digits: int = 4) -> str:
        """What was measured with its interval, as a sentence where no instance could decide anything."""
        if np.isnan(self.measured):
            return "not measured"
        low, high = self.interval
        return f"{self.measured:.{digits}g} [{low:.{digits}g}, {high:.{digits}g}]"

    def __str__(self) -> str:
        lines = [
            f"{self.status.upper()}: {self.claim} ({self.source}, {self.kind})",
            f"  measured, with its 95% interval: {self.reading(6)}; "
            f"{self.eligible} of {self.instances} instances satisfy the hypotheses",
            f"  criterion: {self.criterion}",
        ]
        if self.failing_seeds:
            lines.append(f"  failing seeds: {', '.join(map(str, self.failing_seeds[:20]))}")
        if self.notes:
            lines.append(f"  {self.notes}")
        return "\n".join(lines)


def verdict_from_dict(data: dict[str, Any]) -> Verdict:
    """The inverse of ``Verdict.to_dict`` (None becomes nan, or the infinite end of an interval)."""
    written = zip((data["measured"], *data["interval"]), (np.nan, -np.inf, np.inf))
    numbers = [missing if v is None else float(v) for v, missing in written]
    changes = {"measured": numbers[0], "interval": (numbers[1], numbers[2])}
    return Verdict(**{**data, **changes, "failing_seeds": tuple(data["failing_seeds"])})


# --- intervals ----------------------------------------------------------------------------------------------------


def wilson_interval(successes: int, total: int, level: float = 0.95) -> Interval:
    """Wilson's score interval for a share: short, and close to its nominal coverage on average.

    >>> tuple(round(v, 4) for v in wilson_interval(10, 10))
    (0.7225, 1.0)
    """
    if not _counts(successes, total):
        return (0.0, 1.0)
    z = float(ndtri((1.0 + level) / 2.0))
    p, shrink = successes / total, 1.0 + z**2 / total
    centre = (p + z**2 / (2 * total)) / shrink
    half = z / shrink * np.sqrt(p * (1 - p) / total + z**2 / (4 * total**2))
    low = 0.0 if successes == 0 else float(centre - half)
    high = 1.0 if successes == total else float(centre + half)
    return (low, high)


def exact_interval(successes: int, total: int, level: float = 0.95) -> Interval:
    """Clopper and Pearson's interval for a share: never covers less than ``level``.

    >>> tuple(round(v, 4) for v in exact_interval(10, 10))
    (0.6915, 1.0)
    """
    if not _counts(successes, total):
        return (0.0, 1.0)
    tail = (1.0 - level) / 2.0
    low = 0.0 if successes == 0 else float(betaincinv(successes, total - successes + 1, tail))
    high = 1.0 if successes == total else float(betaincinv(successes + 1, total - successes, 1.0 - tail))
    return (low, high)


def mean_interval(values: ArrayLike, level: float = 0.95) -> Interval:
    """Student's interval for a mean; infinite when there are fewer than two values."""
    values = np.asarray(values, dtype=float).reshape(-1)
    if len(values) < 2:
        return (-np.inf, np.inf)
    half = float(stdtrit(len(values) - 1, (1.0 + level) / 2.0) * values.std(ddof=1) / np.sqrt(len(values)))
    mean = float(values.mean())
    return (mean - half, mean + half)


def bootstrap_interval(
    values: ArrayLike,
    statistic: Callable[..., np.ndarray] = np.median,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap of any statistic of one sample, for numbers that are far from normal.

    ``statistic`` takes an array and ``axis``.
    """
    values = np.asarray(values, dtype=float).reshape(-1)
    if len(values) < 2:
        return (-np.inf, np.inf)
    rng = np.random.default_rng(seed)
    samples = values[rng.integers(0, len(values), (draws, len(values)))]  # (draws, n)
    ends = np.quantile(statistic(samples, axis=1), [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return (float(ends[0]), float(ends[1]))


def _counts(successes: int, total: int) -> bool:
    if not 0 <= successes <= total:
        raise InputError(f"A share counts between 0 and {total} successes, not {successes!r}.")
    return total > 0


# --- judging ------------------------------------------------------------------------------------------------------


def judge_share(
    claim: str,
    source: str,
    outcomes: Sequence[bool | None],
    *,
    kind: Kind = "theorem",
    required: float = 1.0,
    decided: float = 0.95,
    eligible: Sequence[bool] | None = None,
    seeds: Sequence[int] | None = None,
    notes: str = "",
) -> Verdict:
    """Judge a claim that some share of instances behaves in one way.

    Parameters
    ----------
    outcomes : sequence of True, False or None
        One per instance: the claim was seen to hold, seen to break, or could not be decided at the horizon.
    required : float
        The share the claim requires. 1 means "for every instance": one counterexample makes it fail, and it holds when
        there is none among the eligible and at least ``decided`` of them were decided. Below 1 it holds when the lower
        end of the 95% Clopper-Pearson interval reaches ``required`` even if every undecided instance were a failure,
        and fails when the upper end stays below even if every one were a success.
    eligible : sequence of bool, optional
        Whether the instance satisfied the hypotheses; the others are counted and left out.
    seeds : sequence of int, optional
        Names of the instances (default 0, 1, ...).

    Examples
    --------
    >>> judge_share("all tokens meet", "Theorem 0", [True] * 99 + [False]).status
    'fails'
    """
    mask = [True] * len(outcomes) if eligible is None else [bool(e) for e in eligible]
    names = list(range(len(outcomes))) if seeds is None else [int(s) for s in seeds]
    if not len(outcomes) == len(mask) == len(names):
        raise InputError("outcomes, eligible and seeds must have one entry per instance.")
    kept = [(o, s) for o, e, s in zip(outcomes, mask, names) if e]
    good = sum(o is True for o, _ in kept)
    open_ = sum(o is None for o, _ in kept)
    failing = tuple(s for o, s in kept if o is False)
    total = len(kept)
    low = exact_interval(good, total)[0]  # undecided instances as failures
    high = exact_interval(good + open_, total)[1]  # and as successes
    share = good / (total - open_) if total > open_ else np.nan
    undecided = f"{open_} of {total} undecided at the horizon" if open_ else ""
    return Verdict(
        claim,
        source,
        _status(required, decided, low, high, len(failing), open_, total),
        kind,
        _share_criterion(required, decided),
        len(outcomes),
        total,
        float(share),
        (low, high),
        failing,
        "; ".join(part for part in (undecided, notes) if part),
    )


def _status(
    required: float, decided: float, low: float, high: float, failures: int, undecided: int, total: int
) -> Status:
    if total == 0:
        return "undecided"
    if required >= 1.0:
        if failures:
            return "fails"
        return "holds" if total - undecided >= decided * total and total > undecided else "undecided"
    if low >= required:
        return "holds"
    return "fails" if high < required else "undecided"


def _share_criterion(required: float, decided: float) -> str:
    if required >= 1.0:
        return f"no counterexample, and at least {decided:.0%} of eligible instances decided at the horizon"
    return f"the 95% interval of the share lies at or above {required:g}, undecided instances counted either way"


def judge_number(
    claim: str,
    source: str,
    values: ArrayLike,
    accepted: Interval,
    *,
    kind: Kind = "theorem",
    interval: Interval | None = None,
    instances: int | None = None,
    notes: str = "",
) -> Verdict:
    """Judge a claim that a mean lies in ``accepted``.

    It holds when the 95% interval (Student's, unless ``interval`` is given) lies within, fails when it lies outside,
    and is undecided when it straddles an end.

    >>> judge_number("a slope of -1", "closed form", [-1.01, -0.99, -1.0, -1.0], (-1.1, -0.9)).status
    'holds'
    """
    values = np.asarray(values, dtype=float).reshape(-1)
    low, high = interval or mean_interval(values)
    if accepted[0] <= low and high <= accepted[1]:
        status: Status = "holds"
    elif high < accepted[0] or low > accepted[1]:
        status = "fails"
    else:
        status = "undecided"
    criterion = f"the 95% interval lies within [{accepted[0]:.6g}, {accepted[1]:.6g}]"
    count = len(values) if instances is None else instances
    measured = float(values.mean()) if len(values) else np.nan
    return Verdict(claim, source, status, kind, criterion, count, len(values), measured, (low, high), (), notes)


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
