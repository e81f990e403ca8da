"""What a verdict is: a claim, a criterion, a measured number with its interval, a status; as text, card and JSON."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from metastable.equation.html_cards import card
from metastable.theory.intervals import Interval

Status = Literal["holds", "fails", "undecided", "trivial only", "not measured"]
Kind = Literal["theorem", "conjecture", "observation", "reading"]

STATUSES: tuple[Status, ...] = ("holds", "fails", "undecided", "trivial only", "not measured")


@dataclass(frozen=True)
class Row:
    """One reading of an ambiguous sentence, or one setting of a claim, judged by itself."""

    reading: str
    status: Status
    measured: float
    interval: Interval
    instances: int
    eligible: int
    notes: str = ""
    failing_seeds: tuple[int, ...] = ()


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
        Its 95% confidence interval, a wider one where the criterion says so, or the range of an identity's values.
    failing_seeds : tuple of int
        Instances that break the claim, to be replayed.
    notes : str
    rows : tuple of Row
        The readings of an ambiguous sentence, or the settings of a claim, each judged by itself; else empty.
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
        eligible = f"{self.eligible} of {self.instances} instances are eligible"
        counted = f"{self.reading()} (with the criterion's interval); {eligible}"
        facts = [("claim", f"{self.claim} ({self.source})"), ("measured", counted), ("criterion", self.criterion)]
        rows = [(row.status, row.reading) for row in self.rows]
        return card(self.status.capitalize(), [*facts, *rows, *([("note", self.notes)] if self.notes else [])])

    def __str__(self) -> str:
        lines = [
            f"{self.status.upper()}: {self.claim} ({self.source}, {self.kind})",
            f"  measured, with the criterion's interval: {self.reading(6)}; "
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
    return Verdict(**{**data, **_numbers(data), "rows": rows})


def _numbers(data: dict[str, Any]) -> dict[str, Any]:
    written = zip((data["measured"], *data["interval"]), (np.nan, -np.inf, np.inf))
    measured, low, high = (missing if v is None else float(v) for v, missing in written)
    return {"measured": measured, "interval": (low, high), "failing_seeds": tuple(data.get("failing_seeds", ()))}


def _plain_numbers(judged: Verdict | Row) -> dict[str, Any]:
    measured, *interval = (float(v) if np.isfinite(v) else None for v in (judged.measured, *judged.interval))
    return {"measured": measured, "interval": interval, "failing_seeds": list(judged.failing_seeds)}
