"""Worker processes for experiments.

Workers are few and live long: importing JAX and compiling cost seconds, and what one experiment compiled serves the
next. Each is on a pipe of its own, so that a worker that dies names the experiment that died with it; it is tried once
more in a fresh worker, from its last finished part, and reported as an error if it dies again. A worker whose parent is
gone ends itself: nothing goes on writing behind a killed run's back.
"""

import os
import signal
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from metastable.errors import InputError
from metastable.experiments.run_one import Record, read, run_into
from metastable.store.files import remove, write_whole

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


Watch = Callable[[str, str, float, str], None]  # name, event ("start", "part", "end"), share done, words


# --- the parent's side --------------------------------------------------------------------------------------------


@dataclass
class _Worker:
    process: Any
    pipe: Any
    task: Task | None = None


def run_all(tasks: Sequence[Task], workers: int, watch: Watch) -> dict[str, Result]:
    """Run every task that is not done yet, ``workers`` at a time."""
    results: dict[str, Result] = {}
    waiting: deque[Task] = deque()
    for task in tasks:
        if (found := _kept(task)) is not None:
            results[task.name] = found
            watch(task.name, "end", 1.0, words(found))
        else:
            waiting.append(task)
    if not waiting:
        return results
    tries = dict.fromkeys((t.name for t in waiting), 0)
    with _staff(min(workers, len(waiting)), workers) as staff:
        while waiting or any(w.task for w in staff):
            for k, worker in enumerate(staff):
                if worker.task is None and waiting:
                    staff[k] = worker if worker.process.is_alive() else _replaced(worker, workers)
                    _hand(staff[k], waiting.popleft(), watch)
            for k, message in _messages(staff):
                asked = staff[k].task
                assert asked is not None
                if message is None:  # the worker died
                    tries[asked.name] += 1
                    if tries[asked.name] < _TRIES:
                        waiting.appendleft(asked)
                    else:
                        results[asked.name] = Result(asked.name, error=_death(asked, staff[k].process))
                    staff[k] = _replaced(staff[k], workers)
                elif isinstance(message, Result):
                    results[asked.name] = message
                    staff[k].task = None
                else:
                    watch(asked.name, "part", *message)
                if asked.name in results:
                    watch(asked.name, "end", 1.0, words(results[asked.name]))
    return results


def _kept(task: Task) -> Result | None:
    """A finished experiment; one whose files can no longer be read counts as unfinished."""
    if not (task.folder / "done").exists():
        return None
    try:
        return Result(task.name, read(task.folder), reused=True)
    except InputError:
        remove(task.folder / "done")
        return None


def words(result: Result) -> str:
    """A result in a few words."""
    if result.record is None:
        return f"error: {result.error}"
    said = [v.status for v in result.record.verdicts]
    counts = [f"{said.count(word)} {word}" for word in ("holds", "fails", "undecided") if word in said]
    how = "already there" if result.reused else f"{result.record.seconds:.1f} s"
    return f"{', '.join(counts) or 'no verdicts'} ({how})"


def _death(task: Task, process: Any) -> str:
    process.join(1.0)
    code = process.exitcode
    how = f"by signal {-code}" if code is not None and code < 0 else f"with code {code}"
    return f"The worker process ended {how}, twice; finished parts are kept in {str(task.folder)!r}."


def _hand(worker: _Worker, task: Task, watch: Watch) -> None:
    worker.task = task
    with suppress(OSError):  # it died just now: its pipe will say so
        worker.pipe.send(task)
    watch(task.name, "start", 0.0, "starting")


def _messages(staff: list[_Worker]) -> Iterator[tuple[int, Any]]:
    """What busy workers say: (share, words), a Result, or None from one that died."""
    from multiprocessing.connection import wait

    busy: dict[Any, int] = {w.pipe: k for k, w in enumerate(staff) if w.task is not None}
    ready: list[Any] = wait(list(busy), timeout=1.0)
    for pipe in ready:
        try:
            yield busy[pipe], pipe.recv()
        except (EOFError, OSError):
            yield busy[pipe], None


@contextmanager
def _staff(count: int, sharing: int) -> Iterator[list[_Worker]]:
    staff = [_hired(sharing) for _ in range(count)]
    try:
        yield staff
    finally:
        for worker in staff:
            worker.pipe.close()
            worker.process.terminate()
        for worker in staff:
            worker.process.join(2.0)
            if worker.process.is_alive():
                worker.process.kill()


def _hired(sharing: int) -> _Worker:
    import multiprocessing

    context = multiprocessing.get_context("spawn")  # threads of JAX and BLAS do not survive a fork
    ours, theirs = context.Pipe()
    with _environment(max(1, (os.cpu_count() or 1) // sharing)):
        process = context.Process(target=_serve, args=(theirs,), daemon=True, name="metastable-worker")
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _replaced(worker: _Worker, sharing: int) -> _Worker:
    worker.pipe.close()
    worker.process.kill()
    worker.process.join()
    return _hired(sharing)


@contextmanager
def _environment(threads: int) -> Iterator[None]:
    """Cores shared out among workers: every library that starts threads reads its number from here."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "METASTABLE_THREADS", "NPROC")
    ours = {name: str(threads) for name in names if name not in os.environ}
    if threads == 1 and "XLA_FLAGS" not in os.environ:
        ours["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


# --- the worker's side --------------------------------------------------------------------------------------------


def _serve(pipe: Any) -> None:
    """Run the tasks that come through the pipe until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    threading.Thread(target=_follow_parent, daemon=True).start()
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        pipe.send(_one(task, lambda share, text: pipe.send((share, text))))


def _follow_parent() -> None:
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _one(task: Task, told: Callable[[float, str], None]) -> Result:
    try:
        experiment = _loaded(task)
        with warnings.catch_warnings():  # a run that rounding spoils says so in its verdict
            warnings.simplefilter("ignore")
            return Result(task.name, run_into(experiment, task.folder, task.preset, task.overrides, told))
    except InputError as error:
        return Result(task.name, error=str(error))
    except Exception as error:
        task.folder.mkdir(parents=True, exist_ok=True)
        write_whole(task.folder / "error.txt", traceback.format_exc().encode())
        first = (str(error).splitlines() or [""])[0]
        return Result(task.name, error=f"{type(error).__name__}: {first} (see {str(task.folder / 'error.txt')!r}).")


def _loaded(task: Task) -> Any:
    try:
        return import_module(task.home).EXPERIMENT
    except ModuleNotFoundError as error:
        if error.name != task.home:
            raise
        raise InputError(
            f"The file of the experiment {task.name} ({task.home}) is missing from this installation."
        ) from error
