"""Verdicts: a claim, a criterion fixed beforehand, a measured number with its confidence interval, and a status.

`RULE` says in one sentence how a measured number becomes a status; the gallery prints it. Sentences that can be read in
several ways are one verdict with a `Row` per reading (`from_readings`).
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from metastable.equation.html_cards import card
from metastable.errors import InputError
from metastable.theory.intervals import Interval, exact_interval, mean_interval

Status = Literal["holds", "fails", "undecided", "trivial only", "not measured"]
Kind = Literal["theorem", "conjecture", "observation", "reading"]

STATUSES: tuple[Status, ...] = ("holds", "fails", "undecided", "trivial only", "not measured")
MINIMUM = 20  # deciding instances that "holds" needs, exact identities excepted

RULE = (
    "A claim about all instances fails at the first counterexample, and holds when there is none and at least 95% of "
    "the instances that meet its hypotheses are decided at the horizon; a claim about a share or a mean holds or fails "
    "when its whole 95% interval is on one side of the criterion, with undecided instances counted either way; "
    f'"holds" also needs {MINIMUM} deciding instances whose limit is not trivial, unless the claim is an exact '
    'identity; everything else is undecided, or "trivial only" where every decided instance ended in a limit that says '
    'nothing, or "not measured" where no instance was decided.'
)


@dataclass(frozen=True)
class Row:
    """One reading of an ambiguous sentence, judged by itself."""

    reading: str
    status: Status
    measured: float
    interval: Interval
    instances: int
    eligible: int
    notes: str = ""


@dataclass(frozen=True, repr=False)
class Verdict:
    """What was claimed, what was measured, and what follows.

    Attributes
    ----------
    claim, source : str
        The claim in one sentence, and where it is made.
    status : one of STATUSES
    kind : "theorem", "conjecture", "observation" or "reading"
        Only a failing theorem means an error, in the theorem or in the code. A reading is a sentence of a paper that
        had to be made precise here before it could be measured.
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
    rows : tuple of Row
        The readings of an ambiguous sentence, each judged by itself; empty for a sentence with one meaning.
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
    rows: tuple[Row, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: tuples become lists, nan and inf become None."""
        out = asdict(self) | _plain_numbers(self)
        out["failing_seeds"] = list(self.failing_seeds)
        out["rows"] = [asdict(row) | _plain_numbers(row) for row in self.rows]
        return out

    def reading(self, digits: int = 4) -> str:
        """What was measured with its interval, as a sentence where no instance could decide anything."""
        if np.isnan(self.measured):
            return "not measured"
        low, high = (f"{end:.{digits}g}" for end in self.interval)
        return f"{self.measured:.{digits}g}" + ("" if np.isnan(self.interval).all() else f" [{low}, {high}]")

    def __repr__(self) -> str:
        said = self.claim.rstrip(".") if len(self.claim) <= 100 else self.claim[:99].rstrip() + "…"
        return f"Verdict({self.status}: {said}; {self.reading()}, {self.eligible} instance{'s' * (self.eligible != 1)})"

    def _repr_html_(self) -> str:
        counted = f"{self.reading()} (95% interval); {self.eligible} of {self.instances} instances are eligible"
        facts = [("claim", f"{self.claim} ({self.source})"), ("measured", counted), ("criterion", self.criterion)]
        rows = [(row.status, row.reading) for row in self.rows]
        return card(self.status.capitalize(), [*facts, *rows, *([("note", self.notes)] if self.notes else [])])

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
        lines += [f"  {row.status}: {row.reading}" for row in self.rows]
        return "\n".join(lines)


def verdict_from_dict(data: dict[str, Any]) -> Verdict:
    """The inverse of ``Verdict.to_dict`` (None becomes nan, or the infinite end of an interval)."""
    rows = tuple(Row(**{**row, **_numbers(row)}) for row in data.get("rows", ()))
    return Verdict(**{**data, **_numbers(data), "failing_seeds": tuple(data["failing_seeds"]), "rows": rows})


def _numbers(data: dict[str, Any]) -> dict[str, Any]:
    written = zip((data["measured"], *data["interval"]), (np.nan, -np.inf, np.inf))
    measured, low, high = (missing if v is None else float(v) for v, missing in written)
    return {"measured": measured, "interval": (low, high)}


def _plain_numbers(judged: Verdict | Row) -> dict[str, Any]:
    measured, *interval = (float(v) if np.isfinite(v) else None for v in (judged.measured, *judged.interval))
    return {"measured": measured, "interval": interval}


def judge_share(
    claim: str,
    source: str,
    outcomes: Sequence[bool | None],
    *,
    kind: Kind = "theorem",
    required: float = 1.0,
    decided: float = 0.95,
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
        One per instance: the claim was seen to hold, seen to break, or could not be decided at the horizon.
    required : float
        The share the claim requires. 1 means "for every instance": one counterexample makes it fail, and it holds when
        there is none among the eligible and at least ``decided`` of them were decided. Below 1 it holds when the lower
        end of the 95% Clopper-Pearson interval reaches ``required`` even if every undecided instance were a failure,
        and fails when the upper end stays below even if every one were a success.
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
    kept = [(o, t, s) for o, e, t, s in zip(outcomes, mask, plain, names) if e]
    total, good = len(kept), sum(o is True for o, _, _ in kept)
    open_ = sum(o is None for o, _, _ in kept)
    failing = tuple(s for o, _, s in kept if o is False)
    low = exact_interval(good, total)[0]  # undecided instances as failures
    high = exact_interval(good + open_, total)[1]  # and as successes
    if required >= 1.0:
        found: Status = "fails" if failing else "holds" if total - open_ >= decided * total else "undecided"
    else:
        found = "holds" if low >= required else "fails" if high < required else "undecided"
    telling = sum(o is not None and not t for o, t, _ in kept)
    status, few = _enough(found, telling, total - open_, exact)
    late = f"{open_} of {total} undecided at the horizon" if open_ else ""
    share = good / (total - open_) if total > open_ else np.nan
    remarks = "; ".join(part for part in (few, late, notes) if part)
    rule = _share_criterion(required, decided)
    return Verdict(claim, source, status, kind, rule, count, total, float(share), (low, high), failing, remarks)


def _enough(found: Status, telling: int, decided: int, exact: bool) -> tuple[Status, str]:
    """The status that ``telling`` instances with a limit that says something allow, and the remark that says so."""
    if decided == 0:
        return "not measured", ""
    if found != "fails" and telling == 0:
        return "trivial only", "every decided instance has a trivial limit"
    if found == "holds" and telling < MINIMUM and not exact:
        return "undecided", f"few instances: {telling} of {MINIMUM}"
    return found, ""


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
    deciding: int | None = None,
    exact: bool = False,
    notes: str = "",
) -> Verdict:
    """Judge a claim that a mean lies in ``accepted``.

    It holds when the 95% interval (Student's, unless ``interval`` is given) lies within, fails when it lies outside,
    and is undecided when it straddles an end, or when fewer than MINIMUM instances are behind it.

    Parameters
    ----------
    values : array
        One number per instance, or one number made from many, whose ``interval`` is then given.
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
    values = np.asarray(values, dtype=float).reshape(-1)
    behind = len(values) if deciding is None else deciding
    ends = (float(values.min()), float(values.max())) if exact and len(values) else mean_interval(values)
    low, high = interval or ends
    measured = float(values.mean()) if len(values) else np.nan
    if accepted[0] <= low and high <= accepted[1]:
        found: Status = "holds"
    else:
        found = "fails" if high < accepted[0] or low > accepted[1] else "undecided"
    status, few = _enough(found, behind, 0 if np.isnan(measured) else behind, exact)
    rule = f"the 95% interval lies within [{accepted[0]:.6g}, {accepted[1]:.6g}]"
    count = behind if instances is None else instances
    remarks = "; ".join(part for part in (few, notes) if part)
    return Verdict(claim, source, status, kind, rule, count, behind, measured, (low, high), (), remarks)


def from_readings(
    claim: str, source: str, verdicts: Sequence[Verdict], *, kind: Kind = "reading", notes: str = ""
) -> Verdict:
    """One verdict on a sentence that can be read in several ways, with a row for each reading.

    The sentence holds when a reading that its text admits holds, fails when all of them fail, is not measured when
    none was, trivial only when no more than that was found, and undecided otherwise. The number shown is that of the
    first reading with the status of the whole, or of the first.

    >>> loose = judge_share("loosely", "s", [True] * 30)
    >>> strict = judge_share("literally", "s", [False] * 30)
    >>> verdict = from_readings("tokens meet", "s", [strict, loose])
    >>> verdict.status, [row.status for row in verdict.rows]
    ('holds', ['fails', 'holds'])
    """
    if not verdicts:
        raise InputError("from_readings needs at least one verdict, one per reading.")
    found = [v.status for v in verdicts]
    status: Status = "undecided"
    if "holds" in found:
        status = "holds"
    elif len(set(found)) == 1:
        status = found[0]
    elif set(found) == {"trivial only", "not measured"}:
        status = "trivial only"
    shown = next((v for v in verdicts if v.status == status), verdicts[0])
    rows = tuple(Row(v.claim, v.status, v.measured, v.interval, v.instances, v.eligible, v.notes) for v in verdicts)
    rule = f"at least one of {len(rows)} readings holds; {shown.criterion}"
    seeds = shown.failing_seeds if status == "fails" else ()
    counts = (shown.instances, shown.eligible)
    return Verdict(claim, source, status, kind, rule, *counts, shown.measured, shown.interval, seeds, notes, rows)
