"""Which executor computes: this process, worker processes or a Dask cluster."""

from metastable.errors import InputError
from metastable.sweeps.dask_executor import DaskExecutor
from metastable.sweeps.executors import Executor, InProcess
from metastable.sweeps.worker_pool import WorkerPool


def make_executor(jobs: int, cluster: str | None = None, limit: float | None = None) -> Executor:
    """The executor meant: a Dask cluster ("local" or an address), worker processes, or with 0 jobs this process."""
    if jobs < 0:
        raise InputError(f"jobs must be a whole number >= 0, not {jobs}.")
    if cluster is not None:
        return DaskExecutor(cluster, jobs, limit)
    if jobs == 0:
        return InProcess(limit)
    return WorkerPool(jobs, limit)
