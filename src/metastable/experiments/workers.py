"""Worker processes for experiments.

Workers are few and live long: importing JAX and compiling cost seconds, and what one experiment compiled serves the
next. Each has a pipe of its own, so that it is known which experiment died with a worker; it is tried once more in a
fresh worker, from its last checkpoint, and reported as an error if it dies again. A worker whose parent is
gone ends itself: nothing keeps writing after its run was killed.
"""

import multiprocessing
import signal
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from metastable.errors import InputError
from metastable.experiments.base import SelfCheckError
from metastable.experiments.run_one import run_into
from metastable.progress import Progress, Report
from metastable.report.experiment_record import Record, read
from metastable.store.folder import DONE, note_crash, reopen
from metastable.sweeps.worker_pool import follow_parent, shared_cores, threads_each
from metastable.theory.verdicts import STATUSES

_TRIES = 2  # of an experiment whose worker dies


@dataclass(frozen=True)
class Task:
    """What a worker needs to know: an experiment's name and module, its folder, and its settings."""

    name: str
    home: str
    folder: Path
    preset: str
    overrides: Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """What became of one experiment: a record, or the sentence that says why there is none."""

    name: str
    record: Record | None = None
    error: str = ""
    reused: bool = False  # it was there already

    @property
    def failed(self) -> bool:
        """True when there is no record, or a theorem was seen to fail in it."""
        return self.record is None or self.record.failed


# --- the parent's side --------------------------------------------------------------------------------------------


@dataclass
class _Worker:
    process: Any
    pipe: Any
    task: Task | None = None


def run_all(tasks: Sequence[Task], workers: int, report: Report) -> dict[str, Result]:
    """Run every task that is not done yet, ``workers`` at a time."""
    results: dict[str, Result] = {}
    waiting: deque[Task] = deque()
    for task in tasks:
        if (found := finished_task(task)) is not None:
            results[task.name] = found
            report(Progress(task.name, 1.0, summary(found), over=True))
        else:
            waiting.append(task)
    if not waiting:
        return results
    tries = dict.fromkeys((t.name for t in waiting), 0)
    with _started(min(workers, len(waiting)), workers) as team:
        while waiting or any(w.task for w in team):
            for k, worker in enumerate(team):
                if worker.task is None and waiting:
                    team[k] = worker if worker.process.is_alive() else _replaced(worker, workers)
                    _hand(team[k], waiting.popleft(), report)
            for k, message in _messages(team):
                task = _task_of(team[k])
                if message is None:  # the worker died
                    tries[task.name] += 1
                    if tries[task.name] < _TRIES:
                        waiting.appendleft(task)
                    else:
                        results[task.name] = Result(task.name, error=_death(task, team[k].process))
                    team[k] = _replaced(team[k], workers)
                elif isinstance(message, Result):
                    results[task.name] = message
                    team[k].task = None
                else:
                    report(Progress(task.name, *message))
                if task.name in results:
                    report(Progress(task.name, 1.0, summary(results[task.name]), over=True))
    return results


def _task_of(worker: _Worker) -> Task:
    assert worker.task is not None  # only busy workers send messages
    return worker.task


def finished_task(task: Task) -> Result | None:
    """A finished experiment; one whose files can no longer be read counts as unfinished."""
    if not (task.folder / DONE).exists():
        return None
    try:
        return Result(task.name, read(task.folder), reused=True)
    except InputError:
        reopen(task.folder)
        return None


def summary(result: Result) -> str:
    """A result in one line."""
    if result.record is None:
        return f"error: {result.error}"
    found = [v.status for v in result.record.verdicts]
    counts = [f"{found.count(word)} {word}" for word in STATUSES if word in found]
    how = "already there" if result.reused else f"{result.record.seconds:.1f} s"
    return f"{', '.join(counts) or 'no verdicts'} ({how})"


def _death(task: Task, process: Any) -> str:
    process.join(1.0)
    code = process.exitcode
    how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
    return f"The worker process ended {how}, twice; finished parts are in {str(task.folder)!r}."


def _hand(worker: _Worker, task: Task, report: Report) -> None:
    worker.task = task
    with suppress(OSError):  # it died just now, which its pipe will show
        worker.pipe.send(task)
    report(Progress(task.name, 0.0, "starting"))


def _messages(team: list[_Worker]) -> Iterator[tuple[int, Any]]:
    """What busy workers send: (share, text), a Result, or None from one that died."""
    busy: dict[Any, int] = {w.pipe: k for k, w in enumerate(team) if w.task is not None}
    ready: list[Any] = wait(list(busy), timeout=1.0)
    for pipe in ready:
        try:
            yield busy[pipe], pipe.recv()
        except (EOFError, OSError):
            yield busy[pipe], None


@contextmanager
def _started(count: int, sharing: int) -> Iterator[list[_Worker]]:
    team = [_start(sharing) for _ in range(count)]
    try:
        yield team
    finally:
        for worker in team:
            worker.pipe.close()
            worker.process.terminate()
        for worker in team:
            worker.process.join(2.0)
            if worker.process.is_alive():
                worker.process.kill()


def _start(sharing: int) -> _Worker:
    context = multiprocessing.get_context("spawn")  # threads of JAX and BLAS do not survive a fork
    ours, theirs = context.Pipe()
    with shared_cores(threads_each(sharing)):
        process = context.Process(target=_serve, args=(theirs,), daemon=True, name="metastable-worker")
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _replaced(worker: _Worker, sharing: int) -> _Worker:
    worker.pipe.close()
    worker.process.kill()
    worker.process.join()
    return _start(sharing)


# --- the worker's side --------------------------------------------------------------------------------------------


def _serve(pipe: Any) -> None:
    """Run the tasks that come through the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=follow_parent, daemon=True).start()
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(run_task(task, lambda share, text: pipe.send((share, text))))


def run_task(task: Task, report: Callable[[float, str], None]) -> Result:
    """One experiment, brought to its end in this process."""
    try:
        experiment = _loaded(task)
        with warnings.catch_warnings():  # what rounding did to a run is part of its verdict
            warnings.simplefilter("ignore")
            return Result(task.name, run_into(experiment, task.folder, task.preset, task.overrides, report))
    except (InputError, SelfCheckError) as error:
        return Result(task.name, error=str(error))
    except Exception as error:
        where = note_crash(task.folder, traceback.format_exc())
        first = (str(error).splitlines() or [""])[0]
        return Result(task.name, error=f"{type(error).__name__}: {first} (see {str(where)!r}).")


def _loaded(task: Task) -> Any:
    try:
        return import_module(task.home).EXPERIMENT
    except ModuleNotFoundError as error:
        if error.name != task.home:
            raise
        raise InputError(
            f"The file of the experiment {task.name} ({task.home}) is missing from this installation."
        ) from error
