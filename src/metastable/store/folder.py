"""The folder protocol: how runs, experiments, reproductions, studies, hunts and sweeps live on disk.

    provenance.json   what the folder is for (`Purpose`) and every session's stamp; the first file written
    state.npz         the checkpoint that an unfinished run or study goes on from
    error.txt         the traceback of a session that crashed
    lock              while a process writes
    done              written last

So a folder is free (missing or empty), unfinished (provenance.json, no done), finished (done), or not a record. Besides
these, a folder holds whatever its kind writes, every file whole or absent (`metastable.store.files`).

    with claim(folder, purpose) as status:      # one writer; refuses other content, other settings, damage
        ...                                     # checkpoints: files.write_arrays, files.write_json, ...
        finish(folder, facts)                   # complete: the done marker

A process killed anywhere in between leaves a folder that the same `claim` takes up again.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from metastable.errors import InputError
from metastable.provenance import stamp
from metastable.store.files import (
    PART,
    disk_errors,
    read_json,
    reason,
    refuse_strange,
    remove,
    remove_leftovers,
    sync,
    write_json,
    write_whole,
)
from metastable.store.locks import LOCK, locked

PROVENANCE, STATE, ERROR, DONE = "provenance.json", "state.npz", "error.txt", "done"
FORMAT = 1
Status = Literal["free", "unfinished", "finished"]

# kind -> (what its folder is called, what it holds and how to look at it). A new kind: a line here.
KINDS: dict[str, tuple[str, str]] = {
    "run": ("record", "a run (read it with metastable.load)"),
    "experiment": ("experiment", "an experiment (read it with metastable.experiments.run_one.read)"),
    "reproduction": ("reproduction", "a reproduction (open its index.html)"),
    "study": (
        "study",
        "a study of a pretrained model (open its report.html, or read it with metastable.models.study.read)",
    ),
    "hunt": ("hunt", "a hunt (read its report.json)"),
    "fit": ("fit", "a fit (read it with metastable.learning.read_fit)"),
    "sweep": ("sweep", "a sweep (read it with metastable.sweeps.read)"),
}


@dataclass(frozen=True)
class Purpose:
    """What a folder is for.

    Attributes
    ----------
    kind : str
        A name of `KINDS`.
    settings : mapping
        What a user chose, as plain data; named in the sentence that refuses a folder with other settings.
    fingerprint : str or None
        Two purposes are the same when their fingerprints are; None (functions of one's own) is like no other.
    facts : mapping
        Further entries of provenance.json, replaced by those of `finish`.
    """

    kind: str
    settings: Mapping[str, Any]
    fingerprint: str | None
    facts: Mapping[str, Any] = field(default_factory=dict)


def settled_by(kind: str, settings: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> Purpose:
    """A purpose that its settings decide altogether.

    >>> settled_by("hunt", {"seed": 1}) == settled_by("hunt", {"seed": 2})
    False
    """
    plain = json.loads(json.dumps(dict(settings), default=_plain))
    return Purpose(kind, plain, digest(plain), facts or {})


def digest(settings: Mapping[str, Any]) -> str:
    """A fingerprint of plain data."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Arrays and numpy numbers as lists and numbers, everything else as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


# --- looking ------------------------------------------------------------------------------------------------------


def status(folder: Path, kind: str) -> Status:
    """How far the work in a folder has come; a folder with anything else in it is refused."""
    noun = KINDS[kind][0]
    if not folder.exists():
        return "free"
    if not folder.is_dir():
        raise InputError(f"{str(folder)!r} is a file; give a folder for the {noun}.")
    names = {entry.name for entry in folder.iterdir()}
    content = {name for name in names if name not in (LOCK, ERROR) and not name.endswith(PART)}
    if not content:
        return "free"
    if PROVENANCE not in content:
        listed = ", ".join(sorted(content)[:3])
        raise InputError(f"{str(folder)!r} is not empty and holds no {noun} ({listed}); choose an empty or new folder.")
    read_provenance(folder, kind)
    return "finished" if DONE in content else "unfinished"


def holds(folder: Path, kind: str) -> bool:
    """Whether a folder holds a record of that kind, finished or not."""
    try:
        return bool(read_json(folder / PROVENANCE)["kind"] == kind)
    except (OSError, ValueError, KeyError):
        return False


def read_provenance(folder: Path, kind: str) -> dict[str, Any]:
    """What provenance.json says, checked for what every kind relies on."""
    refuse_strange(folder)
    try:
        found = read_json(folder / PROVENANCE)
        version, there = found["record"], found["kind"]
        whole = isinstance(version, int) and there in KINDS
        whole = whole and isinstance(found["settings"], dict) and isinstance(found["sessions"], list)
        if not whole or not isinstance(found["fingerprint"], (str, type(None))):
            raise ValueError("it is not one of a record")
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise damaged(folder, f"{PROVENANCE}: {reason(error)}") from error
    if version > FORMAT:
        raise InputError(f"The record in {str(folder)!r} was written by a later metastable; update to read it.")
    if there != kind:
        raise InputError(f"{str(folder)!r} holds {KINDS[there][1]}, and no {kind}; choose another folder.")
    return found


def check(folder: Path, purpose: Purpose) -> Status:
    """The status of a folder, refused unless it is free or was claimed for the same purpose."""
    found = status(folder, purpose.kind)
    if found == "free":
        return found
    there = read_provenance(folder, purpose.kind)
    if there["fingerprint"] is None or purpose.fingerprint is None:
        raise InputError(
            f"{str(folder)!r} already holds {'a finished' if found == 'finished' else 'an unfinished'} "
            f"{KINDS[purpose.kind][0]}, and whether it is the same cannot be decided (it was saved from Python, or has "
            "functions of its own for parts); choose another folder."
        )
    if there["fingerprint"] != purpose.fingerprint:
        other = _differences(there["settings"], purpose.settings)
        raise InputError(f"{str(folder)!r} holds another {purpose.kind}{other}; choose another folder.")
    return found


def _differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """The first settings that differ, in brackets."""
    names = [name for name in {**here, **there} if here.get(name) != there.get(name)]
    listed = [f"{name} is {_short(there.get(name))} there and {_short(here.get(name))} here" for name in names[:2]]
    return f" ({', '.join(listed)})" if listed else ""


def _short(value: Any) -> str:
    text = "not set" if value is None else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def damaged(folder: Path, why: object) -> InputError:
    """The error for a record that cannot be trusted."""
    return InputError(
        f"The record in {str(folder)!r} is damaged ({why}); restore it, or remove the folder and run again."
    )


# --- writing ------------------------------------------------------------------------------------------------------


@contextmanager
def claim(
    folder: Path,
    purpose: Purpose,
    session: Callable[[], Mapping[str, Any]] = dict,
    packages: tuple[str, ...] = (),
    extend: bool = False,
) -> Iterator[Status]:
    """Hold a folder for a purpose, and write down that a session began; gives the status it had.

    Parameters
    ----------
    folder : path
        Made if it is missing. Refused, and not touched, when another process holds it, when it is damaged, and when it
        holds anything but an unfinished or finished record of this purpose.
    purpose : Purpose
    session : function, optional
        Called once the folder is held; what it returns is stored with the session's stamp.
    packages : tuple of str
        Further packages whose versions are stored (see `metastable.provenance.stamp`).
    extend : bool, optional
        Go on with a finished folder too, as a further session: for kinds that can grow. Otherwise it is only looked at.
    """
    check(folder, purpose)  # before anything is made
    new = not folder.exists()
    try:
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            found = check(folder, purpose)  # again: it may have changed before we held it
            if found == "finished" and extend:
                reopen(folder)
            if found != "finished" or extend:
                _begin_session(folder, purpose, {**stamp(*packages), **session()})
            yield found
    except InputError:
        if new:
            with suppress(OSError):
                folder.rmdir()  # succeeds only when nothing is left in it
        raise


def _begin_session(folder: Path, purpose: Purpose, session: Mapping[str, Any]) -> None:
    there = read_provenance(folder, purpose.kind) if (folder / PROVENANCE).exists() else _head(purpose)
    with disk_errors(folder, resumable=(folder / PROVENANCE).exists()):
        write_json(folder / PROVENANCE, there | {"sessions": [*there["sessions"], dict(session)]})


def _head(purpose: Purpose) -> dict[str, Any]:
    return {
        "record": FORMAT,
        "kind": purpose.kind,
        "fingerprint": purpose.fingerprint,
        "settings": dict(purpose.settings),
        "sessions": [],
        **purpose.facts,
    }


def finish(folder: Path, kind: str, facts: Mapping[str, Any] | None = None) -> None:
    """Declare a claimed folder complete; ``facts`` become entries of its provenance.json."""
    with disk_errors(folder, resumable=True):
        write_json(folder / PROVENANCE, {**read_provenance(folder, kind), **(facts or {})})
        remove(folder / ERROR)
        remove_leftovers(folder)
        write_whole(folder / DONE, b"This record is complete.\n")
        remove(folder / STATE)  # only now: until then the work would be lost without it


def tidy(folder: Path) -> None:
    """Remove the checkpoint of a finished folder, where a process was killed just before it could."""
    if (folder / STATE).exists() and (folder / DONE).exists():
        with suppress(OSError, InputError), locked(folder):
            remove(folder / STATE)


def reopen(folder: Path) -> None:
    """Take a finished folder for unfinished: one that is extended, or whose files can no longer be read."""
    remove(folder / DONE)


def release(folder: Path) -> None:
    """Give up a claim that came to nothing: remove everything but the lock, so that the folder is free again."""
    for entry in list(folder.iterdir()):
        if entry.name != LOCK:
            remove(entry)


def note_crash(folder: Path, traceback: str) -> Path:
    """Leave the traceback of a session that crashed."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / ERROR, traceback.encode())
    return folder / ERROR


@contextmanager
def at_once(folder: Path, purpose: Purpose) -> Iterator[Path]:
    """A place to write a whole record; the folder appears finished at the end, or not at all."""
    if status(folder, purpose.kind) != "free":
        noun = KINDS[purpose.kind][0]
        raise InputError(f"{str(folder)!r} already holds a {noun}; choose another folder, or remove it first.")
    place = folder.absolute()  # "." has no name
    if place == Path.cwd():
        raise InputError("A record cannot take the place of the current folder; give the name of a new one.")
    part = place.with_name(f".{place.name}-{os.getpid()}{PART}")
    with disk_errors(folder):
        part.mkdir(parents=True)
        try:
            write_json(part / PROVENANCE, _head(purpose))
            yield part
            write_whole(part / DONE, b"This record is complete.\n")
            if folder.exists():
                remove(folder)  # it is empty, see above
            part.rename(folder)
        finally:
            remove(part)
        sync(folder.parent)
