"""Experiments on a Dask cluster: the same tasks as in worker processes, in folders that every worker can write."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from metastable.experiments.workers import Result, Task, finished_task, run_task, summary
from metastable.progress import Progress, Report
from metastable.sweeps.choose_executor import make_executor

LIMIT = 86_400.0  # seconds after which an experiment is given up: none takes a day, and one that hangs never ends
_TRIES = 2  # of an experiment whose worker dies


def run_on_cluster(
    tasks: Sequence[Task], cluster: str, jobs: int, report: Report, limit: float = LIMIT
) -> dict[str, Result]:
    """Run every task that is not done yet on a cluster ("local" or a scheduler's address)."""
    results: dict[str, Result] = {}
    waiting = []
    for task in tasks:
        if (found := finished_task(task)) is not None:
            results[task.name] = found
            report(Progress(task.name, 1.0, summary(found), over=True))
        else:
            waiting.append(replace(task, folder=task.folder.absolute()))
    tries: Counter[str] = Counter()
    by_name = {task.name: task for task in waiting}
    if not waiting:
        return results
    with make_executor(jobs, cluster, limit) as executor:
        left = set(by_name)
        while left:
            while waiting and executor.room > 0:
                task = waiting.pop(0)
                executor.submit(task.name, compute_task, (task,))
                report(Progress(task.name, None, "on the cluster"))
            for outcome in executor.finished(1.0):
                name = outcome.key
                tries[name] += outcome.why == "died"
                if outcome.why == "died" and tries[name] < _TRIES:
                    waiting.append(by_name[name])
                    continue
                results[name] = outcome.value if outcome.why == "" else Result(name, error=outcome.error)
                left.discard(name)
                report(Progress(name, 1.0, summary(results[name]), over=True))
    return results


def compute_task(task: Task) -> Result:
    """One experiment, on a worker."""
    return run_task(task, lambda share, text: None)
