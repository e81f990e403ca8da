"""What the explorer grows by in ten minutes of play: the page's heap, and all of the browser's processes.

Players and panels are played in a loop. The heap is looked at after a collection; the processes' share of memory (PSS)
holds what the heap does not: buffers of the graphics card, which is software here, and canvases. Processes are compared
after a first part of the play, in which caches fill.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import OURS, Case, Engine, Goal, Outcome, Run, Workload
from benchmarks.workloads.explorer_frames import browser, served

HEAP, ALL = OURS, f"{OURS}, whole browser"
USED = "(gc(), performance.memory.usedJSHeapSize)"
WARM = 0.1  # the share of the play after which memory is looked at first


def cases(quick: bool) -> list[Case]:
    return [Case("play", {"n": 256, "seconds": 20 if quick else 600})]


def heap(case: Case) -> Run:
    return lambda: Outcome(np.empty(0), seconds=grown(case, lambda page: float(page.evaluate(USED))))


def processes(case: Case) -> Run:
    def held(page: Any) -> float:
        page.evaluate(USED)  # after a collection too
        return shared_memory(os.getpid())

    return lambda: Outcome(np.empty(0), seconds=grown(case, held))


def grown(case: Case, measure: Any) -> float:
    """Megabytes by which a measure in bytes grew while the page played, at least 0.001."""
    page = browser().new_page(viewport={"width": 1280, "height": 860})
    page.set_default_timeout(120_000)
    page.goto(f"{served()}/?n={case['n']}&mask=causal&at=0")
    page.wait_for_function("window.lab && lab.slots.a.seen !== null")
    page.evaluate("lab.slots.a.player.options.loop = true; lab.slots.a.player.play()")
    page.wait_for_timeout(1000 * WARM * case["seconds"])
    before = measure(page)
    page.wait_for_timeout(1000 * (1 - WARM) * case["seconds"])
    after = measure(page)
    assert page.evaluate("lab.slots.a.player.playing")
    page.close()
    return max(1e-3, (after - before) / 2**20)


def shared_memory(root: int) -> float:
    """Bytes of a process's descendants, Chromium's alone, with what they share counted once (PSS)."""
    parents, found = {}, {root}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, rest = stat.parent.name, stat.read_text().rpartition(")")[2].split()
            parents[int(number)] = int(rest[1])
        except OSError:  # it has just ended
            continue
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    total = 0.0
    for one in found - {root}:
        try:
            if "chrom" in Path(f"/proc/{one}/comm").read_text():
                lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
                total += sum(1024 * float(line.split()[1]) for line in lines if line.startswith("Pss:"))
        except OSError:
            continue
    return total


WORKLOAD = Workload(
    title="explorer: megabytes that a page grows by in ten minutes of play",
    cases=cases,
    tolerance=0.0,
    note="Chromium in software. Rows count megabytes, not seconds; each plays for ten minutes, once.",
    engines={
        HEAP: Engine(heap, "heap of the page", once=True),
        ALL: Engine(processes, "all processes of the browser", once=True),
    },
    goals=(
        Goal("heap grown while playing", lambda t: t.seconds("play", HEAP), 2.0, False, " MB"),
        Goal("processes grown while playing", lambda t: t.seconds("play", ALL), 20.0, False, " MB"),
    ),
    has_before=False,
)
