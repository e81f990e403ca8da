"""What provenance.json says of a run, besides what it says of every folder (see `folder`).

status, message   how the run ended, as in `metastable.Trajectory`; "unfinished" until then
valid_until       the last saved time to which the digits are certified; null where nothing was certified
custom            parts of the dynamics that are functions of one's own, which no file can hold
run               method, steps, tolerances, seed, versions, wall time
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from metastable.store.folder import PROVENANCE, damaged, read_provenance
from metastable.trajectory import Trajectory

STATUSES = ("done", "steady", "plateau", "stopped", "unconverged", "stalled", "diverged")


def unfinished_facts(custom: Sequence[str], made: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a run that has not ended."""
    return {
        "status": "unfinished",
        "message": "This run has not ended; run the same again to go on.",
        "valid_until": None,
        "custom": list(custom),
        "run": dict(made),
    }


def ended_facts(run: Trajectory, custom: Sequence[str]) -> dict[str, Any]:
    """The facts of a run that has ended."""
    valid = run.valid_until
    return {
        "status": run.status,
        "message": run.message,
        "valid_until": None if valid is None or not math.isfinite(valid) else valid,
        "custom": list(custom),
        "run": dict(run.provenance),
    }


def read_facts(folder: Path, finished: bool) -> dict[str, Any]:
    """The facts of the run in a folder, each of its own kind."""
    found = read_provenance(folder, "run")
    if not isinstance(found.get("run"), dict):
        raise damaged(folder, f"{PROVENANCE}: it does not say how the run was made")
    if finished and found.get("status") not in STATUSES:
        raise damaged(folder, f"its status {found.get('status')!r} is none that a run can have")
    valid = found.get("valid_until")
    if valid is not None and (isinstance(valid, bool) or not isinstance(valid, (int, float))):
        raise damaged(folder, f"its valid_until {str(valid)[:40]!r} is no time")
    return found
