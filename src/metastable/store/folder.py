"""What a record folder looks like, and how far the run in it has come.

    config.toml       the run as `metastable simulate` takes it, every default filled in; its files are in inputs/
    provenance.json   versions, seed, wall time, status; the first file written, so it marks a folder as a record
    data.zarr         times, tokens, weights, initial tokens (see `store`)
    state.npz         where an unfinished run goes on from
    done              written last

So a folder is free (missing or empty), unfinished (provenance.json, no done), finished (done), or not a record.
"""

import io
import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from metastable.errors import InputError
from metastable.store.files import LOCK, PART, read_json, refuse_links, write_whole
from metastable.trajectory import Trajectory

CONFIG, PROVENANCE, DATA, STATE, DONE = "config.toml", "provenance.json", "data.zarr", "state.npz", "done"
FORMAT = 1
Standing = Literal["free", "unfinished", "finished"]


def standing(folder: Path) -> Standing:
    """How far the run in a folder has come; a folder with anything but a record in it is refused."""
    if not folder.exists():
        return "free"
    if not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file; give a folder for the record.")
    names = {entry.name for entry in folder.iterdir()}
    names = {name for name in names if name != LOCK and not name.endswith(PART)}
    if not names:
        return "free"
    if PROVENANCE not in names:
        raise InputError(
            f"{str(folder)!r} is not empty and holds no record ({', '.join(sorted(names)[:3])}); "
            "choose an empty or new folder."
        )
    read_provenance(folder)
    return "finished" if DONE in names else "unfinished"


def read_provenance(folder: Path) -> dict[str, Any]:
    """What provenance.json says, checked for what everybody relies on."""
    refuse_links(folder)
    try:
        found = read_json(folder / PROVENANCE)
        version = found["record"]
        if not isinstance(version, int) or not isinstance(found["run"], dict):
            raise ValueError("it is not one of a record")
    except (OSError, ValueError, KeyError) as error:
        raise damaged(folder, f"{PROVENANCE}: {reason(error)}") from error
    if version > FORMAT:
        raise InputError(f"The record in {str(folder)!r} was written by a later metastable; update to read it.")
    if found.get("kind") == "model":
        raise InputError(
            f"{str(folder)!r} holds a study of a pretrained model, which is no run; open its report.html, "
            "or read it with metastable.models.study.read."
        )
    return found


def provenance_of(
    run: Trajectory, fingerprint: str | None, custom: list[str], sittings: list[dict[str, Any]]
) -> dict[str, Any]:
    """What provenance.json says of a run that has ended; JSON has no infinity, so null stands for "always valid"."""
    return {
        "record": FORMAT,
        "status": run.status,
        "message": run.message,
        "valid_until": run.valid_until if math.isfinite(run.valid_until) else None,
        "fingerprint": fingerprint,
        "custom": custom,
        "run": dict(run.provenance),
        "sittings": sittings,
    }


def damaged(folder: Path, reason: object) -> InputError:
    """The sentence for a record that cannot be trusted."""
    return InputError(
        f"The record in {str(folder)!r} is damaged ({reason}); restore it, or remove the folder and run again."
    )


def reason(error: BaseException) -> str:
    """The first line of what an error says."""
    return (str(error).splitlines() or [""])[0][:200].rstrip(".") or type(error).__name__


# --- where an unfinished run goes on from -------------------------------------------------------------------------


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
    buffer = io.BytesIO()
    np.savez(buffer, **head, **{f"state.{name}": value for name, value in checkpoint.state.items()})  # type: ignore[arg-type]
    write_whole(folder / STATE, buffer.getvalue())


def read_checkpoint(folder: Path, count: int, tokens: tuple[int, ...] | None = None) -> Checkpoint | None:
    """The last acknowledged state of a run of ``count`` saves, None if it had not come to one."""
    if not (folder / STATE).exists():
        return None
    try:
        with np.load(folder / STATE, allow_pickle=False) as file:
            values = {name: file[name] for name in file.files}
        state = {name.removeprefix("state."): v for name, v in values.items() if name.startswith("state.")}
        found = Checkpoint(
            int(values["saved"]),
            float(values["reached"]),
            str(values["status"]),
            str(values["message"]),
            float(values["seconds"]),
            state,
        )
        if not 0 <= found.saved <= count or not math.isfinite(found.reached):
            raise ValueError("it does not belong to this run")
        if tokens is not None:
            _check_state(state, tokens, count)
    except (OSError, ValueError, TypeError, KeyError, EOFError, zipfile.BadZipFile, MemoryError) as error:
        raise damaged(folder, f"{STATE}: {reason(error)}") from error
    return found


def _check_state(state: Mapping[str, np.ndarray], tokens: tuple[int, ...], count: int) -> None:
    """A state holds numbers, tokens, and two copies of tokens and of their references (see `pieces`)."""
    shapes = ((), tokens, (2, *tokens), (2, *tokens[:-1]))
    for name, value in state.items():
        if value.shape not in shapes or value.dtype.kind not in "fiu":
            raise ValueError(f"its {name!r} does not belong to this run")
        if value.dtype.kind != "f" and value.ndim and not ((value >= 0) & (value < tokens[-2])).all():
            raise ValueError(f"its {name!r} does not belong to this run")
    if not 0 <= int(state["next"]) <= count:
        raise ValueError("it does not belong to this run")
