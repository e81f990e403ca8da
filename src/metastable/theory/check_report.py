"""What `check` returns: a report that prints as plain text and travels as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metastable.equation.html_cards import card
from metastable.theory.residuals import Finding
from metastable.theory.verdicts import Kind, Verdict

_MARK = {True: "yes", False: "no", None: "undecidable"}


@dataclass(frozen=True)
class ClaimReport:
    """One theorem or conjecture: do its hypotheses hold, what does it predict, and what did the tokens do.

    ``distances`` (n,) are the tokens' distances from the predicted set at the end; None when nothing was measured.
    """

    name: str
    kind: Kind
    sentence: str
    hypotheses: tuple[str, ...]
    applies: bool | None
    limit: str = ""
    verdict: Verdict | None = None
    distances: np.ndarray | None = None
    scale: float = float("nan")
    details: Mapping[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "name": self.name,
            "kind": self.kind,
            "claim": self.sentence,
            "hypotheses": list(self.hypotheses),
            "applies": self.applies,
            "limit": self.limit,
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
            "distances": None if self.distances is None else [float(v) for v in self.distances],
            "scale": self.scale if np.isfinite(self.scale) else None,
            "details": dict(self.details),
        }


@dataclass(frozen=True, repr=False)
class Report:
    """The theory of one triple (Q, K, V) and one cloud of tokens.

    ``findings`` are all tested hypotheses, ``claims`` the theorems (and the conjecture, where no theorem applies) in
    order, ``notes`` sentences that belong to no claim. ``horizon`` is the time simulated to.
    """

    dimension: int
    tokens: int
    beta: float
    findings: tuple[Finding, ...]
    claims: tuple[ClaimReport, ...]
    notes: tuple[str, ...] = ()
    horizon: float | None = None
    valid_until: float | None = None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts of all measured claims."""
        return tuple(c.verdict for c in self.claims if c.verdict is not None)

    @property
    def failed(self) -> bool:
        """True when a theorem whose hypotheses hold was seen to fail."""
        return any(v.status == "fails" and v.kind == "theorem" for v in self.verdicts)

    @property
    def conclusion(self) -> str:
        """What follows, in one sentence."""
        measured = [(c, c.verdict) for c in self.claims if c.verdict is not None]
        for status in ("fails", "holds"):
            found = [c for c, verdict in measured if verdict.status == status]
            if found:
                return f"{found[0].name} {status} here: {found[0].sentence.rstrip('.')}{_others(found[1:], status)}."
        if measured:
            claim, verdict = measured[0]
            why = f" ({verdict.notes.rstrip('.')})" if verdict.notes else ""
            return f"{claim.name} is {verdict.status} here{why}: {claim.sentence.rstrip('.')}."
        return self.notes[0] if self.notes else "No theorem applies to these weights."

    def __repr__(self) -> str:
        return f"Report({self.conclusion})"

    def _repr_html_(self) -> str:
        rows = [(c.name, f"applies: {_MARK[c.applies]}{_reading(c)}") for c in self.claims]
        return card(self.conclusion, [("run", self._run()), *rows, *(("note", note) for note in self.notes)])

    def _run(self) -> str:
        text = f"{self.tokens} token{'s' * (self.tokens != 1)} in dimension {self.dimension}, beta = {self.beta:g}"
        if self.horizon is None:
            return text
        text += f", rescaled flow simulated to t = {self.horizon:.4g}"
        if self.valid_until is not None and self.valid_until < self.horizon:
            text += f" and judged by its certified part, to t = {self.valid_until:.4g}"
        return text

    def claim(self, name: str) -> ClaimReport:
        """The claim with this name."""
        return next(c for c in self.claims if c.name == name)

    def finding(self, name: str) -> Finding:
        """The finding with this name."""
        return next(f for f in self.findings if f.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON: no nan, no inf."""
        until = self.valid_until
        return {
            "conclusion": self.conclusion,
            "dimension": self.dimension,
            "tokens": self.tokens,
            "beta": self.beta,
            "findings": [_finite(f.to_dict()) for f in self.findings],
            "claims": [_finite(c.to_dict()) for c in self.claims],
            "notes": list(self.notes),
            "horizon": self.horizon,
            "valid_until": until if until is not None and np.isfinite(until) else None,
        }

    def __str__(self) -> str:
        parts = [self.conclusion, f"{self._run()}.", "", *_claim_table(self.claims), *self.notes, ""]
        for claim in self.claims:
            parts += _claim_lines(claim)
        return "\n".join([*parts, *_finding_table(self.findings)]).rstrip()


def _others(claims: Sequence[ClaimReport], status: str) -> str:
    return f" (so {'do' if len(claims) > 1 else 'does'} {', '.join(c.name for c in claims)})" if claims else ""


def _reading(claim: ClaimReport) -> str:
    return "" if claim.verdict is None else f"; {claim.verdict.status}, {claim.limit or claim.sentence}"


def _claim_table(claims: tuple[ClaimReport, ...]) -> list[str]:
    if not claims:
        return []
    lines = [f"{'claim':<14}  {'applies':<11}  {'verdict':<9}  {'residual':>8}  prediction", "-" * 100]
    for c in claims:
        status = "" if c.verdict is None else c.verdict.status
        residual = "" if c.verdict is None or np.isnan(c.verdict.measured) else f"{c.verdict.measured:.1e}"
        lines.append(f"{c.name:<14}  {_MARK[c.applies]:<11}  {status:<9}  {residual:>8}  {c.sentence}")
    return lines


def _claim_lines(claim: ClaimReport) -> list[str]:
    if claim.verdict is None or claim.distances is None:
        return []
    d = claim.distances
    each = f" ({', '.join(f'{v:.1e}' for v in d)})" if len(d) <= 8 else ""
    return [
        f"{claim.name}: {claim.limit}",
        f"    distances of the {len(d)} tokens: median {np.median(d):.2g}, largest {d.max():.2g}{each}; "
        f"tokens began within {claim.scale:.3g}",
        *[f"    {key}: {value:.6g}" for key, value in claim.details.items()],
        f"    {claim.verdict.status}: {claim.verdict.notes}",
        f"    criterion: {claim.verdict.criterion}",
        "",
    ]


def _finding_table(findings: tuple[Finding, ...]) -> list[str]:
    if not findings:
        return []
    width = max(len(f.name) for f in findings)
    lines = [f"{'hypothesis':<{width}}  {'holds':<11}  {'margin':>9}  {'tolerance':>9}", "-" * 100]
    for f in findings:
        lines.append(f"{f.name:<{width}}  {f.word:<11}  {f.margin:>9.3g}  {f.tolerance:>9.1e}")
        lines.append(f"    {f.sentence}")
    return lines


def _finite(data: Any) -> Any:
    """nan and inf as None, numpy numbers as Python's, all the way down."""
    if isinstance(data, dict):
        return {k: _finite(v) for k, v in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(v) for v in data]
    if isinstance(data, float):
        return float(data) if np.isfinite(data) else None
    return data
