"""A hunt as a sequence of rounds, each a checkpoint on disk: a killed hunt resumes after its last round.

A round simulates one batch: new random instances, and the most promising ones so far after some steps uphill. Those
that have not settled at the screening horizon are verified. The slowest that did settle are climbed on from.
"""

import json
import time
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from metastable.experiments.base import Data, Work
from metastable.hunt.claims import CLAIMS
from metastable.hunt.climbing import climb
from metastable.hunt.instances import RANDOM, Batch, draw, good_triple, joined
from metastable.hunt.rules import Rules
from metastable.hunt.screening import screen
from metastable.hunt.verifying import OUTCOMES, Checked, verify
from metastable.progress import Progress, Report

HORIZON = 40.0
CLIMBS = 10  # steps uphill in a round
SLOWEST = 3  # settled instances of a round that are stored, the slowest


@dataclass(frozen=True)
class Round:
    """What a round left.

    ``kind`` (B,) numbers `KINDS`, ``outcome`` (B,) numbers OUTCOMES, ``settling`` (B,) are estimated settling times,
    ``origin`` (B,); ``stored`` are the instances to store, with what was found about each; ``elite`` enters the next
    round.
    """

    kind: np.ndarray
    outcome: np.ndarray
    settling: np.ndarray
    origin: np.ndarray
    climbed: np.ndarray
    stored: Batch
    checked: list[Checked]
    stored_settling: np.ndarray
    elite: Batch
    seconds: float


KINDS = ("good triple", "not a good triple", "shared largest real part")


def run_rounds(
    rules: Rules, folder: Path, instances: int | None, minutes: float | None, report: Report
) -> tuple[list[Round], float]:
    """All rounds up to the budget, those of earlier sessions included, and the seconds they took.

    The folder must have been claimed (`metastable.store.folder.claim`).
    """
    work = Work(folder / "rounds")
    rounds: list[Round] = []
    while not _enough(rounds, instances, minutes):
        turn = len(rounds)
        elite = rounds[-1].elite if rounds else None
        data = work.part(f"round-{turn:05d}", lambda turn=turn, elite=elite: _round(rules, turn, elite))  # type: ignore[misc]
        rounds.append(_unpacked(data))
        report(Progress("hunting", _share(rounds, instances, minutes), _summary(rounds)))
    return rounds, sum(r.seconds for r in rounds)


def _enough(rounds: list[Round], instances: int | None, minutes: float | None) -> bool:
    return _share(rounds, instances, minutes) >= 1.0


def _share(rounds: list[Round], instances: int | None, minutes: float | None) -> float:
    """The share of the budget that is used up."""
    by_count = 0.0 if instances is None else sum(int((r.origin == RANDOM).sum()) for r in rounds) / instances
    by_time = 0.0 if minutes is None else sum(r.seconds for r in rounds) / (60.0 * minutes)
    return max(by_count, by_time)


def _round(rules: Rules, turn: int, elite: Batch | None) -> Data:
    clock = time.monotonic()
    claim = CLAIMS[rules.claim]
    batch, gained = draw(rules, rules.batch - (0 if elite is None else len(elite)), turn), np.zeros((2, 0))
    if elite is not None:
        climbed, before, after = climb(claim, elite, rules, CLIMBS)
        batch, gained = joined([batch, climbed]), np.stack([before, after])
    seen = screen(claim, batch, HORIZON, rules.batch)
    outcome = np.full(len(batch), OUTCOMES.index("settled"))
    places = np.flatnonzero(seen.open)
    checked = verify(claim, batch.take(places), rules) if len(places) else []
    outcome[places] = [OUTCOMES.index(c.outcome) for c in checked]
    slow = np.argsort(-np.where(seen.open, -np.inf, seen.settling), kind="stable")[:SLOWEST]
    slow = slow[~seen.open[slow]]
    climbable = np.isin(outcome, [OUTCOMES.index("settled"), OUTCOMES.index("undecided")])
    best = np.argsort(-np.where(climbable, seen.settling, -np.inf), kind="stable")[: rules.elite]
    chosen = np.concatenate([places, slow]).astype(int)
    return {
        "kind": _kind(batch),
        "outcome": outcome,
        "settling": seen.settling,
        "origin": batch.origin,
        "climbed": gained,
        "checked": np.array(json.dumps([c.to_dict() for c in checked])),
        "stored_settling": seen.settling[chosen],
        "seconds": np.array(time.monotonic() - clock),
        **{f"stored_batch_{k}": v for k, v in batch.take(chosen).arrays().items()},
        **{f"elite_{k}": v for k, v in batch.take(best).arrays().items()},
    }


def _kind(batch: Batch) -> np.ndarray:
    return np.where(batch.lead > 1, 2, np.where(good_triple(batch), 0, 1))


def _unpacked(data: Data) -> Round:
    def batch(prefix: str) -> Batch:
        return Batch(**{f.name: data[f"{prefix}_{f.name}"] for f in fields(Batch)})

    checked = [Checked(**c) for c in json.loads(str(data["checked"]))]
    names = ("kind", "outcome", "settling", "origin", "climbed")
    return Round(
        **{name: data[name] for name in names},
        stored=batch("stored_batch"),
        checked=checked,
        stored_settling=data["stored_settling"],
        elite=batch("elite"),
        seconds=float(data["seconds"]),
    )


def _summary(rounds: list[Round]) -> str:
    drawn = sum(int((r.origin == RANDOM).sum()) for r in rounds)
    found = [c.outcome for r in rounds for c in r.checked]
    counts = ", ".join(f"{found.count(word)} {word}" for word in OUTCOMES if word in found) or "nothing open"
    return f"round {len(rounds)}: {drawn} random instances; verified so far: {counts}; {rounds[-1].seconds:.1f} s"
