"""Start-up: CPU time of whole commands, in fresh processes. Cold means an empty cache of compiled code."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.harness import OURS, Case, Engine, Goal, Outcome, Run, Workload

ONE_STEP = """
import jax
jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
def field(x):
    pull = jax.nn.softmax(9.0 * x @ x.T) @ x
    return pull - (x * pull).sum(axis=1, keepdims=True) * x
@jax.jit
def step(x):
    k1 = field(x)
    k2 = field(x + 0.05 * k1)
    k3 = field(x + 0.05 * k2)
    k4 = field(x + 0.1 * k3)
    x = x + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x / jnp.sqrt((x * x).sum(axis=1, keepdims=True))
step(jnp.ones((64, 3))).block_until_ready()
"""


def cases(quick: bool) -> list[Case]:
    return [Case("command", {"n": 64})]


# Python may keep its byte code: pip makes it for every package that it installs, and for JAX it is always there.
NOT_PASSED_ON = ("JAX_COMPILATION_CACHE_DIR", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")


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


def command(*words: str, cold: bool = True) -> Run:
    """A command that is timed in a fresh folder; unless cold, with the cache that its first call filled."""
    kept = tempfile.TemporaryDirectory(prefix="metastable-benchmark-")

    def run() -> Outcome:
        with tempfile.TemporaryDirectory(prefix="metastable-benchmark-") as folder:
            cache = folder if cold else kept.name
            spent = cpu_seconds([sys.executable, *words], str(Path(cache) / "cache"), folder)
        return Outcome(np.empty(0), seconds=spent)

    if not cold:
        run()
    return run


SIMULATE = ("-m", "metastable", "simulate", "--out", "record")

WORKLOAD = Workload(
    title="CPU time of commands",
    cases=cases,
    tolerance=0.0,
    note="User and system time of all threads. There are no answers to compare.",
    engines={
        "python": Engine(lambda case: command("-c", "pass"), "the interpreter alone"),
        "metastable --help": Engine(lambda case: command("-m", "metastable", "--help")),
        "jax": Engine(lambda case: command("-c", ONE_STEP), "import JAX, compile and run one RK4 step"),
        OURS: Engine(lambda case: command(*SIMULATE), "metastable simulate, cold, with its pictures and film"),
        "metastable, no pictures": Engine(lambda case: command(*SIMULATE, "--no-pictures"), "cold"),
        "metastable, warm": Engine(
            lambda case: command(*SIMULATE, cold=False), "compiled code in the cache, with pictures and film"
        ),
        "metastable, warm, no pictures": Engine(lambda case: command(*SIMULATE, "--no-pictures", cold=False)),
    },
    goals=(
        Goal(
            "metastable --help beyond the interpreter",
            lambda t: t.seconds("command", "metastable --help") - t.seconds("command", "python"),
            0.5,
            False,
            " s",
        ),
        Goal(
            "cold run without pictures over importing JAX and compiling a step",
            lambda t: 1 / t.faster("command", "jax", ours="metastable, no pictures"),
            2.5,
            False,
        ),
        Goal(
            "cold default run, pictures and film included, over the same",
            lambda t: 1 / t.faster("command", "jax"),
            2.5,
            False,
        ),
    ),
)
