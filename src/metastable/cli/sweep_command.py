"""metastable sweep."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from metastable.cli.flags import JSON, flagged
from metastable.cli.interrupts import interruptible
from metastable.cli.output import answer, notes
from metastable.config.sweep_tables import SweepFlags
from metastable.progress import counted, duration, progress_bar

if TYPE_CHECKING:
    from metastable.sweeps.sweep_driver import Estimate, SweepReport
    from metastable.sweeps.sweep_folder import SweepStatus

Switch = Annotated[bool, Parameter(negative="", show_default=False, group="Output")]
Folder = Annotated[Path | None, Parameter(metavar="DIR", show_default=False, group="Output")]


@flagged(SweepFlags, without=("save", "runs", "until"))
def sweep(
    config: Annotated[
        Path | None, Parameter(help="A TOML file with [simulate] or [probe], and [sweep]; flags override it.")
    ] = None,
    /,
    *,
    status: Folder = None,
    dry_run: Switch = False,
    retry_failed: Switch = False,
    json: JSON = False,
    flags: dict[str, Any],
) -> int:
    """Run the same experiment over many values of its parameters; leave one table.

    Any setting of a run may have several values: 0.5,1,2 lists them, 0.5:9:18 are 18 even values, 0:50 the whole
    numbers from 0 to 49, and 0.5..9 is drawn --samples times. Run the same again after an interruption: what has landed
    is not computed again; with more values the sweep is extended. Exit code 1 if a part of it failed.

    Parameters
    ----------
    status
        say how far the sweep in a folder is, and nothing else
    dry_run
        say how many runs there are and what they would take, and compute nothing
    retry_failed
        try those parts again that failed
    json
        print one JSON object and nothing else
    """
    from metastable import sweeps

    if status is not None:
        found = sweeps.sweep_status(status)
        answer(json, _status_facts(found), _status_lines(found))
        return 0
    with notes() as sentences:
        job = sweeps.read_job(config, flags)
        folder = job.folder
        if dry_run:
            estimate = sweeps.dry_run(job, folder)
            answer(json, _estimate_facts(estimate, folder), _estimate_lines(estimate, folder))
            return 0
        left = f"Interrupted; what has landed is in {str(folder)!r}: run the same command again to go on from there"
        with interruptible(lambda: left), progress_bar() as progress:
            report = sweeps.run_sweep(job, folder, retry_failed, progress)
    lines = [*_lines(report), *(f"Note: {sentence}" for sentence in sentences)]
    answer(json, _facts(report) | {"notes": sentences}, lines)
    return int(bool(report.failed))


def _facts(report: "SweepReport") -> dict[str, Any]:
    return {
        "out": str(report.folder),
        "table": str(report.folder / "table.parquet"),
        "runs": report.runs,
        "computed": report.computed,
        "found": report.found,
        "failed": [{k: v for k, v in one.items() if k != "traceback"} for one in report.failed],
        "engine": report.engine,
        "seconds": round(report.seconds, 3),
    }


def _lines(report: "SweepReport") -> list[str]:
    if report.complete and not report.computed:
        lines = [f"The sweep in {report.folder} is already complete: nothing was computed or changed."]
    else:
        before = f", {report.found:,} were there already" if report.found else ""
        share = f"{report.computed:,} of {counted(report.runs, 'run')}"
        lines = [f"{share} in {report.seconds:.3g} s ({report.engine}){before}."]
    for one in report.failed[:5]:
        lines.append(f"Chunk {one['chunk']} failed: {one['error']} Parameters: {one['parameters']}")
    if report.failed:
        lines.append(f"{counted(len(report.failed), 'chunk')} failed; --retry-failed tries again (details in failed/).")
    return [*lines, f"Table: {report.folder / 'table.parquet'}"]


def _status_facts(found: "SweepStatus") -> dict[str, Any]:
    failed = [{k: v for k, v in one.items() if k != "traceback"} for one in found.failed]
    names = ("state", "runs", "runs_done", "chunks", "landed", "sessions", "holder")
    return {"out": str(found.folder), **{name: getattr(found, name) for name in names}, "failed": failed}


def _status_lines(found: "SweepStatus") -> list[str]:
    who = f" by process {found.holder}" if found.holder else ""
    lines = [
        f"{found.folder}: {found.state}{who}.",
        f"{found.counts()}.",
    ]
    lines += [
        f"Chunk {one['chunk']} failed: {one['error']} Parameters: {one['parameters']}" for one in found.failed[:5]
    ]
    return lines


def _estimate_facts(estimate: "Estimate", folder: Path) -> dict[str, Any]:
    return {
        "out": str(folder),
        "runs": estimate.runs,
        "chunks": estimate.chunks,
        "chunks_left": estimate.left,
        "seconds": round(estimate.seconds, 3),
        "worker_megabytes": round(estimate.worker_bytes / 2**20, 3),
        "table_megabytes": round(estimate.table_bytes / 2**20, 3),
    }


def _estimate_lines(estimate: "Estimate", folder: Path) -> list[str]:
    return [
        f"{counted(estimate.runs, 'run')} in {counted(estimate.chunks, 'chunk')}, {estimate.left:,} of them left.",
        f"About {duration(estimate.seconds)} of one core (compiling and measuring left out), "
        f"{_size(estimate.worker_bytes)} of tokens in each worker (libraries take half a GB besides), "
        f"{_size(estimate.table_bytes)} of numbers in the table.",
        f"Folder: {folder} (nothing was written).",
    ]


def _size(count: float) -> str:
    return f"{count / 2**30:,.1f} GB" if count >= 2**30 else f"{count / 2**20:.3g} MB"
