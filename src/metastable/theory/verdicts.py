"""Verdicts: a claim, a criterion fixed beforehand, a measured number with its confidence interval, and a status.

`RULE` says in one sentence how a measured number becomes a status; the gallery prints it. A sentence that can be read
in several ways is one verdict with a `Row` per reading (`from_readings`), and so is a claim about every one of several
settings (`from_settings`).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from metastable.errors import InputError
from metastable.theory.intervals import Interval, exact_interval, mean_interval
from metastable.theory.verdict_data import STATUSES, Kind, Row, Status, Verdict, verdict_from_dict

__all__ = [
    "MINIMUM",
    "RULE",
    "STATUSES",
    "Kind",
    "Row",
    "Status",
    "Verdict",
    "from_readings",
    "from_settings",
    "judge_number",
    "judge_share",
    "verdict_from_dict",
]

MINIMUM = 20  # deciding instances that "holds" needs, exact identities excepted
NAMED = 3  # readings that hold are named where they are not more
DECIDED = 0.95  # share of the instances that must be decided, or must have given a number

RULE = (
    "A claim about all instances fails at the first counterexample, and holds when there is none and at least "
    f"{DECIDED:.0%} of the instances that meet its hypotheses are decided at the horizon (or the share that its "
    "criterion names); a claim about a share or a mean holds or fails when its whole 95% interval (wider where its "
    "criterion says so; of an exact identity: the range of all its values) is on one side of the criterion, with "
    "undecided instances of a share counted either way, and values of a mean that could not be measured left out, but "
    f'at most {1 - DECIDED:.0%} of them; "holds" also needs {MINIMUM} deciding instances whose limit is not trivial, '
    "unless the claim is an exact identity; a claim about several settings holds when it does in all of them and fails "
    "when it does in one; a sentence with several readings holds when one of them does, without correction for their "
    "number unless the criterion says so, and fails when all of them do; everything else is undecided, or "
    '"trivial only" where every decided instance ended in a limit that says nothing, or "not measured" where no '
    "instance was decided."
)


def judge_share(
    claim: str,
    source: str,
    outcomes: Sequence[bool | None],
    *,
    kind: Kind = "theorem",
    required: float = 1.0,
    decided: float = DECIDED,
    level: float = 0.95,
    eligible: Sequence[bool] | None = None,
    trivial: Sequence[bool] | None = None,
    exact: bool = False,
    seeds: Sequence[int] | None = None,
    notes: str = "",
) -> Verdict:
    """Judge a claim that some share of instances behaves in one way.

    Parameters
    ----------
    outcomes : sequence of True, False or None
        One per instance: the claim was seen to hold, seen to break, or could not be decided at the horizon. NumPy's
        truth values will do; anything else is refused.
    required : float
        The share the claim requires. 1 means "for every instance": one counterexample makes it fail, and it holds when
        there is none among the eligible and at least ``decided`` of them were decided. Below 1 it holds when the lower
        end of the 95% Clopper-Pearson interval reaches ``required`` even if every undecided instance were a failure,
        and fails when the upper end stays below even if every one were a success.
    level : float
        Of that interval: 1 - 0.05/m for each of m rows, of which one suffices (Bonferroni).
    eligible : sequence of bool, optional
        Whether the instance satisfied the hypotheses; the others are counted and left out.
    trivial : sequence of bool, optional
        Whether the instance ended in a limit that says nothing about the claim (one point where clusters are claimed):
        such an instance may break the claim, but does not count towards the MINIMUM that "holds" needs.
    exact : bool
        The claim is an identity, which one instance decides.
    seeds : sequence of int, optional
        Names of the instances (default 0, 1, ...).

    Examples
    --------
    >>> judge_share("all tokens meet", "Theorem 0", [True] * 99 + [False]).status
    'fails'
    >>> few = judge_share("all tokens meet", "Theorem 0", [True] * 5)
    >>> few.status, few.notes
    ('undecided', 'few instances: 5 of 20')
    """
    count = len(outcomes)
    mask = [True] * count if eligible is None else [bool(e) for e in eligible]
    plain = [False] * count if trivial is None else [bool(e) for e in trivial]
    names = list(range(count)) if seeds is None else [int(s) for s in seeds]
    if not count == len(mask) == len(plain) == len(names):
        raise InputError("outcomes, eligible, trivial and seeds must have one entry per instance.")
    kept = [(_outcome(o), t, s) for o, e, t, s in zip(outcomes, mask, plain, names) if e]
    total, good = len(kept), sum(o is True for o, _, _ in kept)
    open_ = sum(o is None for o, _, _ in kept)
    failing = tuple(s for o, _, s in kept if o is False)
    low = exact_interval(good, total, level)[0]  # undecided instances as failures
    high = exact_interval(good + open_, total, level)[1]  # and as successes
    if required >= 1.0:
        found: Status = "fails" if failing else "holds" if total - open_ >= decided * total else "undecided"
    else:
        found = "holds" if low >= required else "fails" if high < required else "undecided"
    telling = sum(o is not None and not t for o, t, _ in kept)
    status, few = _enough(found, telling, total - open_, exact)
    late = f"{open_} of {total} undecided at the horizon" if open_ else ""
    share = good / (total - open_) if total > open_ else np.nan
    remarks = "; ".join(part for part in (few, late, notes) if part)
    rule = _share_criterion(required, decided, level)
    return Verdict(claim, source, status, kind, rule, count, total, float(share), (low, high), failing, remarks)


def _outcome(given: object) -> bool | None:
    if given is None or isinstance(given, bool | np.bool_):
        return None if given is None else bool(given)
    raise InputError(f"An outcome is True, False or None, not {given!r}.")


def _enough(found: Status, telling: int, decided: int, exact: bool) -> tuple[Status, str]:
    """The status that ``telling`` instances with a limit that says something allow, and the remark that says so."""
    if decided == 0:
        return "not measured", ""
    if found != "fails" and telling == 0:
        return "trivial only", "every decided instance has a trivial limit"
    if found == "holds" and telling < MINIMUM and not exact:
        return "undecided", f"few instances: {telling} of {MINIMUM}"
    return found, ""


def _share_criterion(required: float, decided: float, level: float) -> str:
    if required >= 1.0:
        return f"no counterexample, and at least {decided:.0%} of eligible instances decided at the horizon"
    ends = f"the {100 * level:.5g}% interval of the share"
    return f"{ends} lies at or above {required:g}, undecided instances counted either way"


def judge_number(
    claim: str,
    source: str,
    values: ArrayLike,
    accepted: Interval,
    *,
    kind: Kind = "theorem",
    interval: Interval | None = None,
    level: float = 0.95,
    instances: int | None = None,
    deciding: int | None = None,
    exact: bool = False,
    notes: str = "",
) -> Verdict:
    """Judge a claim that a mean lies in ``accepted``.

    It holds when the interval (Student's at ``level``, unless ``interval`` is given) lies within, fails when it lies
    outside, and is undecided when it straddles an end, or when fewer than MINIMUM instances are behind it.

    A value that is nan was not measured: it decides nothing, and the notes say how many there are. The mean of the
    others decides only where at least DECIDED of all values are numbers (of an identity: all of them), for what was
    not measured may be the very cases that differ. (Changed after data had been seen: one nan made the whole verdict
    "not measured" without a word.)

    Parameters
    ----------
    values : array
        One number per instance, or one number made from many, whose ``interval`` is then given.
    level : float
        Of Student's interval: 1 - 0.05/m for each of m rows, of which one suffices (Bonferroni).
    instances : int, optional
        How many were run, where not all of them gave a value.
    deciding : int, optional
        How many instances are behind ``values``, where that is not one each (a fitted slope, a pooled share).
    exact : bool
        The claim is an identity: one instance decides, and every value must lie in ``accepted``.

    Examples
    --------
    >>> judge_number("a slope of -1", "closed form", [-1.01, -0.99, -1.0, -1.0] * 5, (-1.1, -0.9)).status
    'holds'
    >>> judge_number("a slope of -1", "closed form", [-1.0], (-1.1, -0.9), interval=(-1.01, -0.99), deciding=12).notes
    'few instances: 12 of 20'
    """
    given = np.asarray(values, dtype=float).reshape(-1)
    known = given[~np.isnan(given)]
    behind = len(known) if deciding is None else deciding if len(known) else 0
    ranges = exact and len(known) > 0 and interval is None
    low, high = interval or ((float(known.min()), float(known.max())) if ranges else mean_interval(known, level))
    measured = float(known.mean()) if len(known) else np.nan
    if len(known) < (1.0 if exact else DECIDED) * len(given):
        found: Status = "undecided"
    elif accepted[0] <= low and high <= accepted[1]:
        found = "holds"
    else:
        found = "fails" if high < accepted[0] or low > accepted[1] else "undecided"
    status, few = _enough(found, behind, behind, exact)
    what = "every value" if exact and interval is None else f"the {100 * level:.5g}% interval"
    rule = f"{what} lies within [{accepted[0]:.6g}, {accepted[1]:.6g}]"
    missing = len(given) - len(known)
    late = f"{missing} of {len(given)} values could not be measured" if missing and len(known) else ""
    count = len(given) if deciding is None else deciding
    remarks = "; ".join(part for part in (few, late, notes) if part)
    counts = (count if instances is None else instances, behind)
    return Verdict(claim, source, status, kind, rule, *counts, measured, (low, high), (), remarks)


# --- several rows -------------------------------------------------------------------------------------------------


def from_readings(
    claim: str, source: str, verdicts: Sequence[Verdict], *, kind: Kind = "reading", notes: str = ""
) -> Verdict:
    """One verdict on a sentence that can be read in several ways, with a row for each reading.

    The sentence holds when a reading that its text admits holds, fails when all of them fail, is not measured when
    none was, trivial only when no more than that was found, and undecided otherwise. The number shown is that of the
    first reading with the status of the whole, or of the first. Where few of several hold the notes name them. For
    settings of one claim: `from_settings`.

    >>> loose = judge_share("loosely", "s", [True] * 30)
    >>> strict = judge_share("literally", "s", [False] * 30)
    >>> verdict = from_readings("tokens meet", "s", [strict, loose])
    >>> verdict.status, [row.status for row in verdict.rows], verdict.notes
    ('holds', ['fails', 'holds'], 'holds in 1 of 2 readings: loosely')
    """
    if not verdicts:
        raise InputError("from_readings needs at least one verdict, one per reading.")
    status: Status = "holds" if any(v.status == "holds" for v in verdicts) else _common(verdicts)
    shown = next((v for v in verdicts if v.status == status), verdicts[0])
    held = [v.claim.rstrip(".") for v in verdicts if v.status == "holds"]
    if 0 < len(held) < len(verdicts) and len(held) <= NAMED:
        only = f"holds in {len(held)} of {len(verdicts)} readings: {'; '.join(held)}"
        notes = f"{only}; {notes}" if notes else only
    rule = f"at least one of {len(verdicts)} readings holds; {shown.criterion}"
    return _of_rows(claim, source, kind, status, shown, rule, shown.failing_seeds, notes, verdicts)


def from_settings(
    claim: str, source: str, verdicts: Sequence[Verdict], *, kind: Kind = "observation", notes: str = ""
) -> Verdict:
    """One verdict on a claim about every one of several settings, with a row for each of them.

    It holds when it holds in all of them and fails when it fails in one, with the seeds of every failing row; it is
    not measured when no row was, trivial only when no more than that was found, and undecided otherwise. The number
    shown is that of the first row with the status of the whole, or of the first that does not hold.

    This rule was added after data had been seen: before, such claims were judged as readings, and one setting in which
    a claim held hid another in which it failed.

    >>> small = judge_share("beta = 1", "s", [True] * 30)
    >>> large = judge_share("beta = 9", "s", [True] * 29 + [False])
    >>> verdict = from_settings("tokens meet", "s", [small, large])
    >>> verdict.status, verdict.failing_seeds
    ('fails', (29,))
    """
    if not verdicts:
        raise InputError("from_settings needs at least one verdict, one per setting.")
    failing = [v for v in verdicts if v.status == "fails"]
    status: Status = "fails" if failing else _common(verdicts)
    weakest = next((v for v in verdicts if v.status != "holds"), verdicts[0])
    shown = next((v for v in verdicts if v.status == status), weakest)
    rule = f"in each of {len(verdicts)} settings; {shown.criterion}"
    seeds = tuple(sorted({seed for v in failing for seed in v.failing_seeds}))
    return _of_rows(claim, source, kind, status, shown, rule, seeds, notes, verdicts)


def _common(verdicts: Sequence[Verdict]) -> Status:
    """The status of all rows, or the more telling of two that say nothing."""
    found = {v.status for v in verdicts}
    if len(found) == 1:
        return verdicts[0].status
    return "trivial only" if found == {"trivial only", "not measured"} else "undecided"


def _of_rows(
    claim: str,
    source: str,
    kind: Kind,
    status: Status,
    shown: Verdict,
    rule: str,
    seeds: tuple[int, ...],
    notes: str,
    verdicts: Sequence[Verdict],
) -> Verdict:
    rows = tuple(
        Row(v.claim, v.status, v.measured, v.interval, v.instances, v.eligible, v.notes, v.failing_seeds)
        for v in verdicts
    )
    seeds = seeds if status == "fails" else ()
    counts = (shown.instances, shown.eligible)
    return Verdict(claim, source, status, kind, rule, *counts, shown.measured, shown.interval, seeds, notes, rows)
