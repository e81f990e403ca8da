"""The checkpoint of an unfinished run: how many saves are on disk, and the state to go on from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from metastable.store.files import read_arrays, reason, write_arrays
from metastable.store.folder import STATE, damaged

_STATE = "state."


@dataclass(frozen=True)
class Checkpoint:
    """The state after ``saved`` saves, at time ``reached``; status "done" means that the run may go on."""

    saved: int
    reached: float
    status: str
    message: str
    seconds: float
    state: Mapping[str, np.ndarray]


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Acknowledge what has been written to the arrays."""
    names = ("saved", "reached", "status", "message", "seconds")
    head = {name: np.asarray(getattr(checkpoint, name)) for name in names}
    write_arrays(folder / STATE, head | {_STATE + name: value for name, value in checkpoint.state.items()})


def read_checkpoint(folder: Path, count: int | None = None) -> Checkpoint | None:
    """The last checkpoint of a run of ``count`` saves; None before the first."""
    if not (folder / STATE).exists():
        return None
    try:
        values = read_arrays(folder / STATE)
        found = Checkpoint(
            int(values["saved"]),
            float(values["reached"]),
            str(values["status"]),
            str(values["message"]),
            float(values["seconds"]),
            {name.removeprefix(_STATE): value for name, value in values.items() if name.startswith(_STATE)},
        )
        if found.saved < 0 or (count is not None and found.saved > count) or not math.isfinite(found.reached):
            raise ValueError("it does not belong to this run")
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise damaged(folder, f"{STATE}: {reason(error)}") from error
    return found
