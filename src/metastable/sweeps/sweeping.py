"""ms.sweep: from a configuration to a table."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from metastable.errors import InputError
from metastable.progress import Report, counted, silent
from metastable.sweeps.sweep_driver import run_sweep
from metastable.sweeps.sweep_results import SweepTable, read_table
from metastable.sweeps.sweep_settings import read_job


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
            table = sweep(config, Path(place) / "sweep", jobs=jobs, cluster=cluster, limit=limit, progress=progress)
            table.folder = None
            return table
    job = read_job(config)
    given = {"jobs": jobs, "cluster": cluster, "limit": limit}
    own = {name: value for name, value in given.items() if value is not None}
    if job.settings.jobs is None and cluster is None and job.settings.cluster is None:
        own.setdefault("jobs", 0)
    job = job.with_settings(own)
    report = run_sweep(job, Path(out), retry_failed, progress)
    if report.failed:
        first = report.failed[0]
        raise InputError(
            f"{counted(len(report.failed), 'chunk')} failed, the first with: {first['error']} "
            f"(parameters {first['parameters']}). The rest is in {str(out)!r}."
        )
    return read_table(Path(out))


def read(folder: str | Path, partial: bool = False) -> SweepTable:
    """The table of a sweep in a folder; ``partial`` reads what an unfinished one has so far."""
    return read_table(folder, partial)
