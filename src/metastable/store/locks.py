"""One writer per folder: a lock that the system releases when its holder dies, however it dies."""

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from metastable.errors import InputError
from metastable.store.files import disk_errors

LOCK = "lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder against other processes."""
    path = folder / LOCK
    with _take(path, folder) as file:
        with suppress(OSError):  # the holder's name is for the message only
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
        with disk_errors(folder):
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
    raise InputError(f"Cannot lock {str(folder)!r}; other processes keep starting in it.")


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
