"""What a hunt found, as text and as data; and the instances to store, as files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metastable.hunt.claims import CLAIMS
from metastable.hunt.instances import RANDOM, facts, write
from metastable.hunt.rounds import HORIZON, KINDS, Round
from metastable.hunt.rules import Rules
from metastable.hunt.verifying import OUTCOMES
from metastable.provenance import stamp
from metastable.store.files import disk_errors, write_json
from metastable.theory.intervals import exact_interval

MOST_FILES = 20  # of each outcome


@dataclass(frozen=True)
class HuntReport:
    """A finished hunt.

    ``kinds`` says for each kind of weights how many random and climbed instances there were and what became of them,
    with a 95% interval for the share of violations among random ones (undecided ones counted as violations at its
    upper end). ``found`` are the stored instances, worst first. ``violated`` is true when a violation survived,
    or, where the known exceptions were requested, one of those.
    """

    rules: Rules
    instances: int
    rounds: int
    seconds: float
    kinds: dict[str, dict[str, Any]]
    found: list[dict[str, Any]]
    violated: bool
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        claim = CLAIMS[self.rules.claim]
        return {
            "claim": claim.sentence,
            "source": claim.source,
            "rules": self.rules.to_dict(),
            "instances": self.instances,
            "rounds": self.rounds,
            "seconds": round(self.seconds, 1),
            "kinds": self.kinds,
            "found": self.found,
            "violated": self.violated,
            "verdict": self.sentence,
        }

    def __str__(self) -> str:
        claim = CLAIMS[self.rules.claim]
        lines = [f"Hunted: {claim.sentence} ({claim.source}).", ""]
        for kind, row in self.kinds.items():
            counts = ", ".join(f"{n} {word}" for word, n in row["random"].items() if n)
            lines.append(f"{kind}: {row['instances']} random instances: {counts or 'none'}")
            low, high = row["share of violations"]
            lines.append(
                f"  share of violations: 95% interval [{low:.3g}, {high:.3g}], undecided ones counted either way"
            )
            climbed = ", ".join(f"{n} {word}" for word, n in row["climbed"].items() if n)
            lines.append(f"  uphill: {climbed or 'none'}; slowest settling time {row['slowest settling']:.3g}")
        for entry in self.found[:10]:
            kind = "good triple" if entry["good triple"] else "not a good triple"
            lines.append(f"{entry['outcome']} ({kind}): {entry['note']} ({entry['file']})")
        if self.violated:
            lines += ["", "What is known to break the claim, and why, is in docs/hunt.md."]
        return "\n".join([*lines, "", self.sentence])


def make_report(rules: Rules, rounds: list[Round], seconds: float, folder: Path) -> HuntReport:
    """Count, store the worst instances, and say what was found."""
    kinds = {name: _counts(rounds, k) for k, name in enumerate(KINDS)}
    kinds = {name: row for name, row in kinds.items() if row["instances"] or sum(row["climbed"].values())}
    with disk_errors(folder, resumable=True):
        found = _store(rules, rounds, folder)
    outcomes = [c.outcome for r in rounds for c in r.checked]
    drawn = sum(int((r.origin == RANDOM).sum()) for r in rounds)
    violated = "violation" in outcomes or (rules.exceptions and "known exception" in outcomes)
    sentence = _sentence(kinds, outcomes, drawn)
    report = HuntReport(rules, drawn, len(rounds), seconds, kinds, found, violated, sentence)
    with disk_errors(folder, resumable=True):
        write_json(folder / "report.json", report.to_dict() | {"made": stamp()})
    return report


def _counts(rounds: list[Round], kind: int) -> dict[str, Any]:
    def tally(random: bool) -> dict[str, int]:
        chosen = [r.outcome[(r.kind == kind) & ((r.origin == RANDOM) == random)] for r in rounds]
        numbers = np.concatenate(chosen) if chosen else np.zeros(0)
        return {word: int((numbers == i).sum()) for i, word in enumerate(OUTCOMES)}

    random = tally(True)
    total = sum(random.values())
    broken = random["violation"] + random["known exception"]
    share = (exact_interval(broken, total)[0], exact_interval(broken + random["undecided"], total)[1])
    settled = OUTCOMES.index("settled")
    times = np.concatenate([r.settling[(r.kind == kind) & (r.outcome == settled)] for r in rounds] or [np.zeros(0)])
    return {
        "instances": total,
        "random": random,
        "climbed": tally(False),
        "share of violations": list(share),
        "slowest settling": float(times.max()) if len(times) else 0.0,
    }


def _sentence(kinds: dict[str, dict[str, Any]], outcomes: list[str], drawn: int) -> str:
    count = outcomes.count("violation")
    tail = f" {outcomes.count('undecided')} instances stayed undecided." if "undecided" in outcomes else ""
    if "known exception" in outcomes:
        tail += f" {outcomes.count('known exception')} known exceptions (shared largest real part) broke the claim."
    if "non-generic" in outcomes:
        tail += f" {outcomes.count('non-generic')} broke it only for their exact tokens or weights."
    if count:
        where = ", ".join(
            f"{row['random']['violation'] + row['climbed']['violation']} in kind '{name}'"
            for name, row in kinds.items()
            if row["random"]["violation"] + row["climbed"]["violation"]
        )
        return f"Candidates that survived re-verification: {count} ({where}), {drawn} random instances in all.{tail}"
    bounds = ", ".join(
        f"at most {row['share of violations'][1]:.2g} of kind '{name}'"
        for name, row in kinds.items()
        if row["instances"]
    )
    return f"No violation found in {drawn} random instances (95% confidence: {bounds}).{tail}"


def _store(rules: Rules, rounds: list[Round], folder: Path) -> list[dict[str, Any]]:
    """Write the worst instances of each outcome, and list them, worst first."""
    entries = []
    for r in rounds:
        notes = [(c.outcome, c.to_dict()) for c in r.checked]
        for i in range(len(r.stored)):
            note = f"settled at about t = {r.stored_settling[i]:.3g} (screened to t = {HORIZON:g})"
            outcome, data = notes[i] if i < len(notes) else ("settled", {"outcome": "settled", "note": note})
            entries.append((OUTCOMES.index(outcome), -float(r.stored_settling[i]), data, r.stored, i))
    entries.sort(key=lambda e: e[:2])
    place, found = folder / "worst", []
    place.mkdir(parents=True, exist_ok=True)
    seen: dict[int, int] = {}
    for rank, minus, data, batch, i in entries:
        seen[rank] = seen.get(rank, 0) + 1
        if seen[rank] > MOST_FILES:
            continue
        name = f"{OUTCOMES[rank].replace(' ', '-')}-{seen[rank]:02d}"
        write(place / f"{name}.npz", batch, i)
        entry = {**data, "settling": -minus, **facts(batch, i), "file": str(place / f"{name}.npz")}
        write_json(place / f"{name}.json", {**entry, "rules": rules.to_dict()})
        found.append(entry)
    return found
