"""A sweep on disk: a record folder (`metastable.store.folder`) with

plan.json                   the design, and its parts: boxes of runs and how they are cut into chunks
chunks/000/000012.parquet   the rows of chunk 12, whole or absent
failed/000012.json          a chunk that failed by its own doing: error, parameters, traceback
table.parquet               all rows, written at the end
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.progress import counted
from metastable.store.files import PART, disk_errors, read_json, reason, regular, remove, sync, write_json, write_whole
from metastable.store.folder import DONE, damaged, read_provenance
from metastable.store.locks import LOCK
from metastable.sweeps.chunks import Chunk, Part, restored_part
from metastable.sweeps.designs import Design, restored_design

PLAN, CHUNKS, FAILED, TABLE = "plan.json", "chunks", "failed", "table.parquet"
_IN_ONE = 1000  # chunks in one folder
_GROUP = 2**17  # rows written together into the table
_NUMBERED = re.compile(r"[0-9]{6,15}\.(parquet|json)")


@dataclass(frozen=True)
class Planned:
    """What plan.json says."""

    design: Design
    parts: tuple[Part, ...]

    @property
    def runs(self) -> int:
        """All runs."""
        return sum(part.box.runs for part in self.parts)

    @property
    def chunks(self) -> int:
        """All chunks."""
        return sum(part.chunks for part in self.parts)


def read_plan(folder: Path) -> Planned | None:
    """The plan in a folder; None before there is one."""
    if not (folder / PLAN).exists():
        return None
    try:
        stored = read_json(folder / PLAN)
        return Planned(restored_design(stored["design"]), tuple(restored_part(part) for part in stored["parts"]))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise damaged(folder, f"{PLAN}: {reason(error)}") from error


def write_plan(folder: Path, plan: Planned) -> None:
    """Write the plan whole."""
    with disk_errors(folder, resumable=True):
        write_json(folder / PLAN, {"design": plan.design.plain(), "parts": [part.plain() for part in plan.parts]})


# --- chunks -------------------------------------------------------------------------------------------------------


def chunk_file(folder: Path, number: int) -> Path:
    """Where a chunk's rows are."""
    return folder / CHUNKS / f"{number // _IN_ONE:03d}" / f"{number:06d}.parquet"


def failure_file(folder: Path, number: int) -> Path:
    """Where a chunk's failure is recorded."""
    return folder / FAILED / f"{number:06d}.json"


def land(folder: Path, number: int, data: bytes) -> None:
    """Put a chunk on disk, whole or not at all; its failure, if there was one, is forgotten."""
    path = chunk_file(folder, number)
    with disk_errors(folder, resumable=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
        remove(failure_file(folder, number))


def record_failure(folder: Path, chunk: Chunk, facts: Mapping[str, Any]) -> None:
    """Put a chunk's failure on disk."""
    path = failure_file(folder, chunk.number)
    with disk_errors(folder, resumable=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        runs = [chunk.offset + chunk.first, chunk.offset + chunk.last - 1]
        write_json(path, {"chunk": chunk.number, "runs": runs, **facts})


def numbers_in(folder: Path, kind: str) -> set[int]:
    """The numbers of the chunks that are in ``chunks`` or in ``failed``; files of other names are none of ours."""
    expected = chunk_file if kind == CHUNKS else failure_file
    found: set[int] = set()
    for place, _, names in os.walk(folder / kind):
        numbers = {name: int(name.partition(".")[0]) for name in names if _NUMBERED.fullmatch(name)}
        found |= {number for name, number in numbers.items() if Path(place, name) == expected(folder, number)}
    return found


def sound(folder: Path, chunk: Chunk) -> bool:
    """Whether a chunk's file can be read and holds its runs; one that a disk has damaged counts as absent."""
    try:
        runs = read_rows(chunk_file(folder, chunk.number))["run"].to_numpy()
    except (ValueError, KeyError):
        return False
    return np.array_equal(np.unique(runs), chunk.offset + np.arange(chunk.first, chunk.last))


def read_rows(path: Path) -> Any:
    """The rows in a parquet file, every checksum tried; damage is a ValueError."""
    from pyarrow import ArrowException, parquet

    try:
        table = parquet.read_table(regular(path), page_checksum_verification=True)
        _ = table.column_names  # decoded here, so that damaged ones are a ValueError
    except (OSError, ValueError, ArrowException) as error:
        raise ValueError(f"{path.name}: {reason(error)}") from error
    return table


def whole(folder: Path, plan: Planned) -> bool:
    """Whether every chunk and a table of them all are there: while a sweep is extended, the table is the old one."""
    there = (folder / DONE).exists() and (folder / TABLE).is_file()
    return there and len(numbers_in(folder, CHUNKS)) >= plan.chunks


def read_failure(folder: Path, number: int) -> dict[str, Any]:
    """The record of a chunk's failure."""
    path = failure_file(folder, number)
    try:
        found = read_json(path)
        return found | {"chunk": number, "error": str(found["error"]), "parameters": found["parameters"]}
    except (OSError, ValueError, KeyError) as error:
        raise damaged(folder, f"{FAILED}/{path.name}: {reason(error)}") from error


def failures(folder: Path) -> list[dict[str, Any]]:
    """Every recorded failure."""
    return [read_failure(folder, number) for number in sorted(numbers_in(folder, FAILED))]


# --- the table ----------------------------------------------------------------------------------------------------


def merge(folder: Path, numbers: list[int]) -> int:
    """Write table.parquet from the chunks, a few at a time; returns the number of rows."""
    import pyarrow
    from pyarrow import parquet

    schema = pyarrow.unify_schemas(
        list({parquet.read_schema(chunk_file(folder, k)).remove_metadata(): None for k in numbers}),
        promote_options="permissive",
    )
    part, rows = folder / (TABLE + PART), 0
    with disk_errors(folder, resumable=True):
        try:
            with parquet.ParquetWriter(part, schema, compression="zstd", write_page_checksum=True) as writer:
                for table in _grouped(folder, numbers, schema):
                    writer.write_table(table)
                    rows += table.num_rows
            sync(part)
            os.replace(part, folder / TABLE)
            sync(folder)
        finally:
            remove(part)
    return rows


def _grouped(folder: Path, numbers: list[int], schema: Any) -> Iterator[Any]:
    import pyarrow

    waiting: list[Any] = []
    for number in numbers:
        table = read_rows(chunk_file(folder, number))
        missing = [field for field in schema if field.name not in table.column_names]
        for field in missing:
            table = table.append_column(field, pyarrow.nulls(table.num_rows, field.type))
        waiting.append(table.select(schema.names).cast(schema))
        if sum(t.num_rows for t in waiting) >= _GROUP:
            yield pyarrow.concat_tables(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pyarrow.concat_tables(waiting).combine_chunks()


# --- status -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SweepStatus:
    """How far a sweep is."""

    folder: Path
    state: str  # "finished", "running", "unfinished", "unfinished, with failed chunks"
    runs: int
    runs_done: int
    chunks: int
    landed: int
    failed: tuple[dict[str, Any], ...]
    sessions: int
    holder: str = ""

    def __repr__(self) -> str:
        return f"SweepStatus({self.state}: {self.counts()})"

    def counts(self) -> str:
        """How much of it there is, in words."""
        return (
            f"{self.runs_done:,} of {counted(self.runs, 'run')}, {self.landed:,} of {counted(self.chunks, 'chunk')}, "
            f"{len(self.failed)} failed, {counted(self.sessions, 'session')}"
        )


def sweep_status(folder: str | Path) -> SweepStatus:
    """How far the sweep in a folder is; nothing is touched."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"There is no sweep in {str(folder)!r}; give the folder of one.")
    sessions = read_provenance(folder, "sweep")["sessions"]
    plan = read_plan(folder)
    if plan is None:
        return SweepStatus(folder, "unfinished", 0, 0, 0, 0, (), len(sessions))
    landed = sorted(numbers_in(folder, CHUNKS))
    done = 0
    for part in plan.parts:
        done += sum(part.chunk(k - part.before).runs for k in landed if part.before <= k < part.before + part.chunks)
    failed, holder = tuple(failures(folder)), _holder(folder)
    state = "finished" if (folder / DONE).exists() else "running" if holder else "unfinished"
    if failed and not holder:
        state = "unfinished, with failed chunks"
    return SweepStatus(folder, state, plan.runs, done, plan.chunks, len(landed), failed, len(sessions), holder)


def _holder(folder: Path) -> str:
    """Who holds the folder, where it is a process of this machine that is alive, or of another machine."""
    import platform

    try:
        holder = (folder / LOCK).read_text().strip()
        pid, _, host = holder.partition(" on ")
    except OSError:
        return ""
    if host != platform.node() or not pid.isdigit():
        return holder
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return holder
    return holder


def describe_points(columns: Mapping[str, list[Any]]) -> dict[str, Any]:
    """Parameters of a chunk's runs in short: one value, a few, or the ends."""
    found: dict[str, Any] = {}
    for name, values in columns.items():
        distinct = list(dict.fromkeys(values))
        found[name] = (
            distinct if len(distinct) <= 8 else {"first": distinct[0], "last": distinct[-1], "count": len(distinct)}
        )
    return {name: np.asarray(v).tolist() if isinstance(v, list) else v for name, v in found.items()}
