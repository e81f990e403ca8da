"""Start-up: CPU time of ``metastable --help`` in a fresh process with empty caches."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.harness import OURS, Case, Engine, Goal, Outcome, Run, Workload


def cases(quick: bool) -> list[Case]:
    return [Case("command", {"n": 64})]


# Python may keep its byte code: pip makes it for every package that it installs, and for JAX it is always there.
NOT_PASSED_ON = ("JAX_COMPILATION_CACHE_DIR", "PYTHONDONTWRITEBYTECODE")


def cpu_seconds(command: list[str], cache: str, folder: str) -> float:
    """User and system time of a command and its children."""
    given = {k: v for k, v in os.environ.items() if k not in NOT_PASSED_ON}
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(
            command, env={**given, "METASTABLE_CACHE": cache}, cwd=folder, stdout=nowhere, stderr=subprocess.PIPE
        )
        _, status, used = os.wait4(process.pid, 0)
    assert process.stderr is not None
    said = process.stderr.read().decode()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command[:4])} failed: {said[-500:]}")
    return used.ru_utime + used.ru_stime


def command(*words: str) -> Run:
    """A command that is timed in a fresh folder."""

    def run() -> Outcome:
        with tempfile.TemporaryDirectory(prefix="metastable-benchmark-") as folder:
            spent = cpu_seconds([sys.executable, *words], str(Path(folder) / "cache"), folder)
        return Outcome(np.empty(0), seconds=spent)

    return run


WORKLOAD = Workload(
    title="CPU time of metastable --help",
    cases=cases,
    tolerance=0.0,
    note="User and system time of all threads. There are no answers to compare.",
    engines={
        "python": Engine(lambda case: command("-c", "pass"), "the interpreter alone"),
        OURS: Engine(lambda case: command("-m", "metastable", "--help"), "metastable --help"),
    },
    goals=(
        Goal(
            "metastable --help beyond the interpreter",
            lambda t: t.seconds("command", OURS) - t.seconds("command", "python"),
            0.5,
            False,
            " s",
        ),
    ),
)
