"""Files that are whole or absent, and one sentence for every way in which a disk can fail.

Everything is written under another name and renamed, so a kill at any moment leaves the old file or the new one.
"""

import io
import json
import os
import re
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from metastable.errors import InputError

PART = ".part"  # how the names of unfinished files end
_UNFINISHED = re.compile(r"\.part(\.\w{2,4})?$|\.partial$")  # ours, and zarr's
_MOST_BYTES = 2**26  # of a JSON or TOML file in a record


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that is either the old one or the new one, also after a power cut."""
    part = path.with_name(path.name + PART)
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except (OSError, KeyboardInterrupt):
        with suppress(OSError):
            part.unlink()
        raise
    sync(path.parent)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object whole; values JSON does not know are written as text."""
    text = json.dumps(value, indent=2, default=str, allow_nan=False, ensure_ascii=False)
    write_whole(path, (text + "\n").encode())


def write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write named arrays whole, as .npz."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_whole(path, buffer.getvalue())


def regular(path: Path) -> Path:
    """The path itself, unless it is no file of bytes: reading a pipe, a socket or a device would wait for ever."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is no regular file")
    return path


def read_bytes(path: Path) -> bytes:
    """Read a small file of a record."""
    if regular(path).stat().st_size > _MOST_BYTES:
        raise InputError(f"{path.name} is larger than {_MOST_BYTES >> 20} MB, which no record's is.")
    return path.read_bytes()


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; whatever else the file holds is a ValueError."""
    try:
        value = json.loads(read_bytes(path))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("it holds no JSON object")
    return value


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read named arrays; nothing is unpickled, and a file that holds anything else is a ValueError."""
    try:
        with np.load(regular(path), allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}
    except (TypeError, KeyError, AttributeError, EOFError, zipfile.BadZipFile, MemoryError) as error:
        raise ValueError(f"it holds no arrays ({reason(error)})") from error


def sync(path: Path) -> None:
    """Ask the system to put a file or a folder's entries on the disk, where it can."""
    with suppress(OSError):  # folders cannot be synced everywhere
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def remove(path: Path) -> None:
    """Remove a file or folder if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_leftovers(folder: Path) -> None:
    """Remove what killed sessions have left unfinished in a folder that is held."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if _UNFINISHED.search(name):
                remove(Path(place, name))


def refuse_strange(folder: Path) -> None:
    """Refuse a record that holds anything but files and folders.

    Through a symbolic link files elsewhere would be read or written; reading a pipe, a socket or a device may not end.
    """
    places = [str(folder)]
    while places:
        with os.scandir(places.pop()) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise InputError(
                        f"The record in {str(folder)!r} holds a symbolic link ({entry.name}), which no record does; "
                        "replace it by what it points to."
                    )
                if entry.is_dir():
                    places.append(entry.path)
                elif not entry.is_file() and _still_there(entry):
                    raise InputError(
                        f"The record in {str(folder)!r} holds a pipe, socket or device ({entry.name}), which no record "
                        "does; remove it."
                    )


def _still_there(entry: "os.DirEntry[str]") -> bool:
    """Whether what a folder listed is still there: another process may be renaming its unfinished files."""
    return os.path.lexists(entry.path)


@contextmanager
def disk_errors(folder: Path, resumable: bool = False) -> Iterator[None]:
    """Turn errors of the disk into one sentence; ``resumable`` adds that what was finished is not lost."""
    try:
        yield
    except OSError as error:
        after = " What was finished is not lost: run the same again to go on." if resumable else ""
        raise InputError(
            f"Cannot write to {str(folder)!r}: {error.strerror or error}; "
            f"free some space or choose a folder that can be written.{after}"
        ) from error


def reason(error: BaseException) -> str:
    """The first line of an error's message.

    >>> reason(KeyError("settings"))
    "it lacks 'settings'"
    """
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    return (str(error).splitlines() or [""])[0][:200].rstrip(".") or type(error).__name__
