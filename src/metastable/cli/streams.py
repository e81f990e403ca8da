"""The standard streams: closed ones, full ones, and readers that have gone."""

import os
import sys
from contextlib import suppress


def open_streams() -> None:
    """Open streams that the caller has closed, onto nothing.

    Otherwise the next file that is opened takes a closed stream's number, and what a library prints goes into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115


def say(line: str) -> None:
    """A line on stderr; where that cannot be written, nobody is there to read it."""
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        _discard(sys.stderr)


def flushed() -> bool:
    """Write what is waiting; False where the reader of stdout has gone. A full device is an OSError."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        _discard(sys.stderr)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout)
        return False
    except OSError:
        _discard(sys.stdout)
        raise
    return True


def _discard(stream: object) -> None:
    """Send what a stream still holds nowhere, so that Python does not complain about it at the end."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())  # type: ignore[attr-defined]
        os.close(nowhere)
