"""One tested hypothesis: yes, no or undecidable, with the numbers behind it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """The outcome of testing one hypothesis.

    Attributes
    ----------
    name : str
        What was tested.
    holds : bool or None
        None: numerically undecidable, because matrices within rounding of the given ones answer differently.
    numbers : mapping
        The measured quantities behind the answer.
    margin : float
        Distance from the opposite answer: positive when the hypothesis holds, negative when it fails. It is a
        change of the matrix (2-norm) or of the tested number, as the sentence says. Zero where the hypothesis
        is an equality, which any change breaks.
    tolerance : float
        What rounding may account for, in the units of the margin.
    sentence : str
        All this for a reader.
    """

    name: str
    holds: bool | None
    numbers: Mapping[str, float]
    margin: float
    tolerance: float
    sentence: str

    @property
    def word(self) -> str:
        """The answer as a word: yes, no or undecidable."""
        return {True: "yes", False: "no", None: "undecidable"}[self.holds]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "numbers": dict(self.numbers)}


def conjunction(answers: Sequence[bool | None]) -> bool | None:
    """All of them: no if any is no, undecidable if any is, yes otherwise.

    >>> conjunction([True, None]), conjunction([None, False])
    (None, False)
    """
    if any(a is False for a in answers):
        return False
    return None if any(a is None for a in answers) else True


def decide(margin: float, tolerance: float) -> bool | None:
    """Yes above the tolerance, no below minus the tolerance, undecidable between."""
    if abs(margin) <= tolerance:
        return None
    return margin > 0.0


def joined(name: str, parts: Sequence[Finding], meaning: str) -> Finding:
    """The finding that all parts hold.

    Its margin is the least of the parts' when it holds (one change breaks it), the largest of the failing
    parts' when it fails (all must be repaired).
    """
    holds = conjunction([p.holds for p in parts])
    blamed = [p for p in parts if p.holds is holds]
    nearest = max if holds is False else min
    chosen = nearest(blamed, key=lambda p: abs(p.margin))
    numbers = {key: value for p in parts for key, value in p.numbers.items()}
    verb = {True: "holds", False: "fails", None: "is numerically undecidable"}[holds]
    reasons = "; ".join(p.sentence for p in blamed)
    return Finding(name, holds, numbers, chosen.margin, chosen.tolerance, f"{meaning} {verb}: {reasons}")
