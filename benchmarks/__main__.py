"""``python -m benchmarks [W1 W5 ...] [--quick] [--narrow] [--before PYTHON] [--out FILE]``: measure, print, write.

Exit code 0, also when a goal is missed (this is a measurement); 1 when answers disagree or an engine fails; 2 for an
unknown workload.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import machine, narrow, report
from benchmarks.harness import Table, measure
from benchmarks.kept import keep, kept
from benchmarks.workloads import WORKLOADS, load

RESULTS = {False: Path(__file__).parent / "RESULTS.md", True: Path(__file__).parent / "RESULTS-narrow.md"}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="metastable beside its peers.")
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=f"any of {', '.join(WORKLOADS)}; default all")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything run and agree?")
    parser.add_argument("--out", type=Path, help="where results go (default benchmarks/RESULTS.md; nowhere if --quick)")
    parser.add_argument("--narrow", action="store_true", help="as on a machine with AVX2 and nothing wider")
    parser.add_argument("--before", metavar="PYTHON", help="the python of an environment that holds an earlier version")
    given = parser.parse_args(argv)
    names = given.workloads or list(WORKLOADS)
    if wrong := [name for name in names if name not in WORKLOADS]:
        parser.error(f"unknown workload {wrong[0]!r}; there are {', '.join(WORKLOADS)}")
    if given.narrow:
        os.environ.update(narrow.environment())  # which the processes of all engines inherit
    say("measuring the machine's limits")
    limits = machine.limits(given.quick)
    out = given.out or (None if given.quick else RESULTS[given.narrow])
    measured: list[Table] = []
    for name in names:
        workload = load(name)
        say(f"{name}: {workload.title}")
        table = measure(name, workload, given.quick, limits, say, given.before)
        table.facts = {
            **machine.facts(),
            "vectors": "AVX2 at most (--narrow)" if given.narrow else "all that there are",
        }
        print("\n".join(report.tables(table)), flush=True)
        measured.append(table)
        if out is not None:  # after every workload: an interrupted run keeps what it has measured
            keep(out.with_suffix(""), table)
            report.write(out, kept(out.with_suffix("")), given.quick)
    print("\n".join(report.goals(measured, given.quick)))
    if out is not None:
        say(f"written to {out}")
    return 1 if any(table.failure for table in measured) else 0


_STARTED = time.monotonic()


def say(text: str) -> None:
    """A line of progress on stderr."""
    print(f"[{time.monotonic() - _STARTED:7.1f} s] {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
