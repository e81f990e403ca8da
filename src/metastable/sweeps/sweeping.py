"""ms.sweep: from a configuration to a table."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metastable.errors import InputError, door
from metastable.progress import Report, counted, silent
from metastable.sweeps.sweep_driver import SweepReport, run_sweep
from metastable.sweeps.sweep_results import SweepTable, read_table
from metastable.sweeps.sweep_settings import SweepJob, read_job


@door
def sweep(
    config: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    jobs: int | None = None,
    cluster: str | None = None,
    limit: float | None = None,
    retry_failed: bool = False,
    progress: Report = silent,
) -> SweepTable:
    """Run a sweep and return its table: one row for each run and time, parameters and seed as columns.

    Parameters
    ----------
    config : path or mapping
        A TOML file with [simulate] (or [probe]) and [sweep], or the same as a mapping. Functions of a run may stand in
        ``observe``: {"met": function}.
    out : path, optional
        The sweep's folder: a killed sweep goes on there, a finished one is read, and one with more values of the same
        parameters is extended. Without one the sweep leaves nothing on disk.
    jobs : int, optional
        Worker processes; none, in this process, unless given.
    cluster : str, optional
        A Dask cluster instead: "local" or a scheduler's address.
    limit : float, optional
        Seconds after which a chunk is given up.
    retry_failed : bool
        Try chunks again that failed in an earlier session.
    progress : function, optional
        Called with a `metastable.progress.Progress`.

    Returns
    -------
    SweepTable
        A pandas.DataFrame with ``dataset()``, an xarray.Dataset with named coordinates, and ``means()``.

    Raises
    ------
    InputError
        Also when a chunk failed: the sentence names the first error. With ``out`` the rest is there, and
        ``metastable.sweeps.read(out, partial=True)`` reads it.

    Examples
    --------
    >>> import metastable as ms
    >>> table = ms.sweep({"simulate": {"n": 6, "t": 1.0}, "sweep": {"beta": [1.0, 9.0], "times": [1.0]}})
    >>> sorted(table.dataset().coords)
    ['beta', 'time']
    """
    if out is None:
        with tempfile.TemporaryDirectory(prefix="metastable-sweep-") as place:
            job, here = _job(config, jobs, cluster, limit), Path(place) / "sweep"
            table = _finished(run_sweep(job, here, retry_failed, progress), "")
            table.folder = None
            return table
    report = run_sweep(_job(config, jobs, cluster, limit), Path(out), retry_failed, progress)
    return _finished(report, f" The rest is in {str(out)!r}.")


def _job(config: Any, jobs: int | None, cluster: str | None, limit: float | None) -> SweepJob:
    job = read_job(config)
    given = {"jobs": jobs, "cluster": cluster, "limit": limit}
    own = {name: value for name, value in given.items() if value is not None}
    if job.settings.jobs is None and cluster is None and job.settings.cluster is None:
        own.setdefault("jobs", 0)
    return job.with_settings(own)


def _finished(report: SweepReport, rest: str) -> SweepTable:
    """The table of a sweep of which nothing failed; ``rest`` says where the others are."""
    if report.failed:
        first = report.failed[0]
        raise InputError(
            f"{counted(len(report.failed), 'chunk')} failed, the first with: {first['error']} "
            f"(parameters {first['parameters']}).{rest}"
        )
    return read_table(report.folder)


@door
def read(folder: str | Path, partial: bool = False) -> SweepTable:
    """The table of a sweep in a folder; ``partial`` reads what an unfinished one has so far."""
    return read_table(folder, partial)
