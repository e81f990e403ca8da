"""The process of one engine, from both ends: `Worker` here asks, ``python -m benchmarks.processes`` there answers.

A worker may be started by another Python than ours, whose environment holds another version of metastable. It always
runs this version of the benchmarks.
"""

import os
import subprocess
import sys
import time
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Absent, Failure, Outcome, Run

_HOME = Path(__file__).parent.parent


class Worker:
    """The process of one engine of a workload."""

    def __init__(self, workload: str, engine: str, python: str | None = None) -> None:
        self.engine = engine
        self.pipe, theirs = Pipe()
        environment = dict(os.environ)
        if python is not None:
            environment.pop("PYTHONPATH", None)  # where this version lies
        self.process = subprocess.Popen(
            [python or sys.executable, "-m", "benchmarks.processes", str(theirs.fileno()), workload, engine],
            env=environment,
            cwd=_HOME,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def ask(self, *request: Any) -> Any:
        try:
            self.pipe.send(request)
            reply = self.pipe.recv()
        except (EOFError, ConnectionError):
            reply = Failure(f"the process of {self.engine} ended with code {self.process.wait()}")
        if isinstance(reply, Failure):
            raise reply
        return reply

    def stop(self) -> None:
        try:
            self.pipe.send(("stop",))
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


def serve(pipe: Connection, workload: str, engine: str) -> None:
    """The other end: prepare a case, time it, tell the memory."""
    from benchmarks.workloads import load

    chosen = load(workload).engines[engine]
    run: Run | None = None
    while (request := pipe.recv())[0] != "stop":
        try:
            if request[0] == "prepare":
                run = None  # lets go of the case before
                run = chosen.build(request[1])
                pipe.send(_first(run))
            elif request[0] == "time":
                assert run is not None
                pipe.send(_best(run, request[1]))
            else:
                pipe.send(_peak_megabytes())
        except (Absent, ImportError) as reason:
            pipe.send(str(reason))
        except Exception as error:
            pipe.send(Failure(f"{engine}: {type(error).__name__}: {error}"))


def _first(run: Run) -> tuple[np.ndarray, float, float]:
    """Answer, share of the work, and seconds of the first call."""
    seconds, outcome = _timed(run)
    return np.asarray(outcome.answer), outcome.share, seconds


def _best(run: Run, enough: float) -> float:
    """The shortest of as many calls as fit into ``enough`` seconds, one at least."""
    times: list[float] = []
    started = time.perf_counter()
    while not times or time.perf_counter() - started < enough:
        times.append(_timed(run)[0])
    return min(times)


def _timed(run: Run) -> tuple[float, Outcome]:
    started = time.perf_counter()
    result = run()
    took = time.perf_counter() - started
    outcome = result if isinstance(result, Outcome) else Outcome(result)
    return (took if outcome.seconds is None else outcome.seconds) / outcome.share, outcome


def _peak_megabytes() -> float:
    import resource

    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, children) / 1024


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), *sys.argv[2:])
