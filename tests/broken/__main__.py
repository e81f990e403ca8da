"""python -m tests.broken [--only NAME ...] [--kind KIND ...] [--checks]: who does not notice a broken simulator?

Every experiment that runs the equation (of those on models the ones in `MOVING`) is run at its quick size, whole and
with each breakage (`breakages`). Two questions are asked: does its self-check refuse to go on, and, with self-checks
switched off, do its verdicts change? What stayed silent is listed at the end, with what ended in an error, which is
neither; the exit code is 1 unless these lists are empty. Where no verdict can move, `excuses` says why, mistake by
mistake. The whole takes half an hour or so of one core; ``--only`` takes pieces.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from metastable.experiments import EXPERIMENTS
from metastable.report.gallery import SLOTS
from tests.broken.breakages import KINDS
from tests.broken.excuses import EXCUSED
from tests.broken.trials import Trial, trials

# experiments on models whose numbers come from the equation; the others measure what the model's own library computes
MOVING = ("model-eigenvalues", "model-residual", "model-ranks", "best-particle-system")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.broken", description="Does every experiment notice?")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="experiments by name")
    parser.add_argument("--kind", nargs="+", default=list(KINDS), choices=KINDS, help="mistakes")
    parser.add_argument("--checks", action="store_true", help="self-checks only: quicker")
    given = parser.parse_args(words)
    found: list[Trial] = []
    for name in given.only or everybody():
        begun = time.perf_counter()
        print(name, flush=True)
        for trial in trials(name, tuple(given.kind), not given.checks):
            print(f"  {_line(trial, given.checks)}", flush=True)
            found.append(trial)
        print(f"  {time.perf_counter() - begun:.0f} s", flush=True)
    return _summary(found, given.checks)


def everybody() -> list[str]:
    """All experiments that run the equation."""
    models = {slot.name for slot in SLOTS} - set(MOVING)
    return [name for name in EXPERIMENTS if name not in models]


def _line(trial: Trial, checks: bool) -> str:
    if not trial.reached:
        return f"{trial.breakage!s:<42} changes nothing here"
    words = ["stopped" if trial.stopped else "NOT STOPPED"]
    if trial.silent_verdicts and not checks:
        words.append("NO VERDICT CHANGES without it")
    elif not checks and trial.changed:
        words.append(f"{trial.changed} of {trial.verdicts} verdicts change without it")
    return f"{trial.breakage!s:<42} {'; '.join([*words, *(f'ENDED IN AN ERROR, {e}' for e in trial.errors)])}"


def _summary(found: Sequence[Trial], checks: bool) -> int:
    quiet = [t for t in found if t.silent_check]
    still = [] if checks else [t for t in found if t.silent_verdicts]
    excused = [t for t in found if t in (*quiet, *still) and _place(t) in EXCUSED]
    quiet, still = ([t for t in silent if t not in excused] for silent in (quiet, still))
    crashed = [t for t in found if t.errors]
    reached = sum(t.reached for t in found)
    print(f"\n{reached} breakages reach {len({t.experiment for t in found if t.reached})} experiments.")
    print(f"Self-checks that stayed silent: {_named(quiet)}")
    print(f"Ended in an error, which is no verdict: {_named(crashed)}")
    if not checks:
        print(f"Verdicts that stayed silent with self-checks off: {_named(still)}")
    for t in excused:
        print(f"  excused: {t.experiment}, {t.breakage}: {EXCUSED[_place(t)]}")
    return int(bool(quiet or still or crashed))


def _place(trial: Trial) -> tuple[str, str, str]:
    return trial.experiment, trial.breakage.place, trial.breakage.kind


def _named(trials: Sequence[Trial]) -> str:
    return "none." if not trials else "; ".join(f"{t.experiment} ({t.breakage})" for t in trials) + "."


if __name__ == "__main__":
    sys.exit(main())
