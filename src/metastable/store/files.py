"""Files that are whole or absent, one writer per folder, and one sentence for every way a disk can fail.

Everything is written under another name and renamed, so a kill at any moment leaves the old file or the new one.
"""

import errno
import json
import os
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from metastable.errors import InputError

LOCK = "lock"
PART = ".part"  # what unfinished files are called
_MOST_BYTES = 2**26  # of a JSON or TOML file that a record may hold


def put(path: Path, data: bytes, unfinished: str = PART) -> None:
    """Put ``data`` in a file that is either the old one or the new one; until then its name ends in ``unfinished``."""
    part = path.with_name(path.name + unfinished)
    with part.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def write_whole(path: Path, data: bytes) -> None:
    """The same, which also lasts through a power cut."""
    put(path, data)
    sync(path.parent)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """The same for a JSON object; values JSON does not know are written as text."""
    text = json.dumps(value, indent=2, default=str, allow_nan=False, ensure_ascii=False)
    write_whole(path, (text + "\n").encode())


def sync(path: Path) -> None:
    """Ask the system to put a file or a folder's entries on the disk, where it can."""
    with suppress(OSError):  # folders cannot be synced everywhere
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def read_bytes(path: Path) -> bytes:
    """A small file of a record."""
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{path.name} is larger than {_MOST_BYTES >> 20} MB, which no record's is.")
    return path.read_bytes()


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object; whatever else the file holds is a ValueError."""
    try:
        value = json.loads(read_bytes(path))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("it holds no JSON object")
    return value


def refuse_links(folder: Path) -> None:
    """Refuse a record with symbolic links inside: reading or resuming it would touch files elsewhere."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            if os.path.islink(os.path.join(place, name)):
                raise InputError(
                    f"The record in {str(folder)!r} holds a symbolic link ({name}), which no record does; "
                    "replace it by what it points to."
                )


@contextmanager
def spoken(folder: Path, kept: bool = False) -> Iterator[None]:
    """Turn errors of the disk into one sentence; ``kept`` adds that what was finished is not lost."""
    try:
        yield
    except OSError as error:
        after = " What was finished is kept: run the same again to go on." if kept else ""
        raise InputError(
            f"Cannot write to {str(folder)!r}: {error.strerror or error}; "
            f"free some space or choose a folder that can be written.{after}"
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes; the system lets go of it when its holder dies, however it dies."""
    path = folder / LOCK
    with _take(path, folder) as file:
        with suppress(OSError):  # who holds it is for the sentence only
            file.truncate(0)
            file.write(f"{os.getpid()} on {platform.node()}\n".encode())
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()


def _take(path: Path, folder: Path) -> IO[bytes]:
    for _ in range(100):
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        with spoken(folder):
            file = os.fdopen(os.open(path, flags, 0o644), "r+b", buffering=0)
        if not _hold(file):
            holder = file.read(200).decode(errors="replace").strip()
            file.close()
            raise InputError(
                f"Another process ({holder or 'just starting'}) is writing to {str(folder)!r}; "
                "wait for it or choose another folder."
            )
        with suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return file
        file.close()  # the last holder removed the file between our opening and holding it: try again
    raise InputError(f"Cannot take hold of {str(folder)!r}; other processes keep starting in it.")


def _hold(file: IO[bytes]) -> bool:
    """Take the system's lock on a file; True also where the file system has none."""
    try:
        import fcntl
    except ImportError:  # Windows
        return _hold_windows(file)
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
    return True


def _hold_windows(file: IO[bytes]) -> bool:
    import msvcrt

    try:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    return True


def remove(path: Path) -> None:
    """Remove a file or folder if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
