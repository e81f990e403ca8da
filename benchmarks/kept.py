"""Measurements as files beside RESULTS.md, one per workload: one measured again replaces its own section alone."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.harness import Case, Row, Table
from benchmarks.workloads import WORKLOADS, load


def keep(folder: Path, table: Table) -> None:
    """Write what was measured of one workload."""
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "facts": table.facts,
        "limits": table.limits,
        "cases": {key: case.numbers for key, case in table.cases.items()},
        "rows": {key: [asdict(row) for row in rows] for key, rows in table.rows.items()},
        "failure": table.failure,
    }
    text = json.dumps(_writable(told), indent=1, allow_nan=False)
    (folder / f"{table.name}.json").write_text(text + "\n")


def kept(folder: Path) -> list[Table]:
    """Every workload that was measured there, in the order of the table of workloads."""
    return [_read(folder / f"{name}.json", name) for name in WORKLOADS if (folder / f"{name}.json").exists()]


def _read(path: Path, name: str) -> Table:
    told = json.loads(path.read_text())
    cases = {key: Case(key, numbers) for key, numbers in told["cases"].items()}
    rows = {key: [_row(row) for row in rows] for key, rows in told["rows"].items()}
    return Table(name, load(name), told["limits"], cases, rows, told["failure"], told["facts"])


def _row(told: dict[str, Any]) -> Row:
    numbers = {name: math.nan if value is None else value for name, value in told.items() if name != "times"}
    return Row(**numbers, times={int(number): seconds for number, seconds in told["times"].items()})


def _writable(value: object) -> object:
    """The same without nan, which JSON has no word for; times to a millionth of themselves."""
    if isinstance(value, dict):
        return {str(key): _writable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_writable(part) for part in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.7g}")
    return value
