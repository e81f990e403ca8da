"""python -m tests.broken [--only NAME ...] [--kind KIND ...] [--checks]: who does not notice a broken simulator?

Every experiment that needs no model is run at its quick size, whole and with each breakage (`breakages`). Two questions
are asked: does its self-check stop it, and, with self-checks switched off, do its verdicts change? What stayed silent
is listed at the end, and the exit code is 1 unless that list is empty. The whole takes half an hour or so of one core;
``--only`` takes pieces. Criteria must move with beta, mask and V; a limit set may be the same for A and for A^T, so
there it is enough that the self-check stops the experiment, and those are named apart.
"""

import argparse
import sys
import time

from metastable.experiments import EXPERIMENTS
from metastable.report.gallery import SLOTS
from tests.broken.breakages import KINDS
from tests.broken.excuses import EXCUSED
from tests.broken.trials import Trial, trials


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.broken", description="Does every experiment notice?")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="experiments by name")
    parser.add_argument("--kind", nargs="+", default=list(KINDS), choices=KINDS, help="mistakes")
    parser.add_argument("--checks", action="store_true", help="self-checks only: quicker")
    given = parser.parse_args(words)
    models = {slot.name for slot in SLOTS}
    names = given.only or [name for name in EXPERIMENTS if name not in models]
    found: list[Trial] = []
    for name in names:
        begun = time.perf_counter()
        print(name, flush=True)
        for trial in trials(name, tuple(given.kind), not given.checks):
            print(f"  {_line(trial, given.checks)}", flush=True)
            found.append(trial)
        print(f"  {time.perf_counter() - begun:.0f} s", flush=True)
    return _summary(found, given.checks)


def _line(trial: Trial, checks: bool) -> str:
    if not trial.reached:
        return f"{trial.breakage!s:<42} changes nothing here"
    stopped = "stopped" if trial.stopped else "NOT STOPPED"
    if checks:
        return f"{trial.breakage!s:<42} {stopped}"
    moved = f"{trial.changed} of {trial.verdicts} verdicts change without it"
    return f"{trial.breakage!s:<42} {stopped}; {moved if trial.changed else 'NO VERDICT CHANGES without it'}"


def _summary(found: list[Trial], checks: bool) -> int:
    quiet = [t for t in found if t.silent_check]
    still = [] if checks else [t for t in found if t.silent_verdicts]
    excused = [t for t in still if (t.experiment, t.breakage.place) in EXCUSED]
    only = [t for t in still if t not in excused and t.stopped and t.breakage.kind == "transposed"]
    still = [t for t in still if t not in excused and t not in only]
    reached = sum(t.reached for t in found)
    print(f"\n{reached} breakages reach {len({t.experiment for t in found if t.reached})} experiments.")
    print(f"Self-checks that stayed silent: {_named(quiet)}")
    if not checks:
        print(f"Verdicts that stayed silent with self-checks off: {_named(still)}")
        print(f"Transposed attention that only the self-check notices: {_named(only)}")
        for t in excused:
            print(f"  excused: {t.experiment}, {t.breakage}: {EXCUSED[t.experiment, t.breakage.place]}")
    return int(bool(quiet or still))


def _named(trials: list[Trial]) -> str:
    return "none." if not trials else "; ".join(f"{t.experiment} ({t.breakage})" for t in trials) + "."


if __name__ == "__main__":
    sys.exit(main())
