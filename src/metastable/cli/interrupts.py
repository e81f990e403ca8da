"""Ctrl-C: one sentence about what is on disk and how to go on, whatever the computation was doing.

Python turns SIGINT into a KeyboardInterrupt, but compiled code that calls back into Python hands it on as an error of
its own, and logs a traceback. So it is remembered that SIGINT came: any error after it is an interruption.
"""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_CAME = threading.Event()


class Interrupted(Exception):
    """Ctrl-C, with the sentence that says what is on disk and how to go on; it ends without a full stop."""


def interrupted(error: BaseException) -> bool:
    """Whether an error is Ctrl-C, or what a library made of it."""
    return isinstance(error, (KeyboardInterrupt, Interrupted)) or _CAME.is_set()


@contextmanager
def listening() -> Iterator[None]:
    """Remember SIGINT while a command runs."""
    _CAME.clear()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield  # in a thread, or where Ctrl-C is ignored
        return

    def remember(number: int, frame: Any) -> None:
        _CAME.set()
        logging.disable(logging.CRITICAL)  # what libraries log about a computation that was interrupted is no news
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)


@contextmanager
def interruptible(sentence: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into an `Interrupted`; ``sentence`` is called when it comes."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, Interrupted) or not interrupted(error):
            raise
        raise Interrupted(sentence()) from None
