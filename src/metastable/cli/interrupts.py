"""Ctrl-C, and a polite request to end: one sentence about what is on disk and how to go on.

Python turns SIGINT into a KeyboardInterrupt, but compiled code that calls back into Python hands it on as an error of
its own, and logs a traceback. So it is remembered that a signal came: any error after it is an interruption. SIGTERM
(kill, a shutdown, the end of a job's time) and SIGHUP (a closed terminal) are taken in the same way.
"""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_CAME = threading.Event()
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_number = int(signal.SIGINT)  # of the signal that came


class Interrupted(Exception):
    """Ctrl-C, with the sentence that says what is on disk and how to go on; it ends without a full stop."""


def interrupted(error: BaseException) -> bool:
    """Whether an error is Ctrl-C, or what a library made of it."""
    return isinstance(error, (KeyboardInterrupt, Interrupted)) or _CAME.is_set()


def exit_code() -> int:
    """128 and the number of the signal that came, as shells count: 130 for Ctrl-C."""
    return 128 + _number


@contextmanager
def listening() -> Iterator[None]:
    """Remember the signals that ask to end while a command runs; those that are ignored (nohup) stay so."""
    global _number
    _CAME.clear()
    _number = int(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def remember(number: int, frame: Any) -> None:
        global _number
        if _CAME.is_set() and number != signal.SIGINT:
            return  # one is enough: what follows the first must not break what it cleans up
        _number = number
        _CAME.set()
        logging.disable(logging.CRITICAL)  # what libraries log about a computation that was interrupted is no news
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    usual = {n: now for n, now in before.items() if now in (signal.default_int_handler, signal.SIG_DFL)}
    for number in usual:
        signal.signal(number, remember)
    try:
        yield
    finally:
        for number, now in usual.items():
            signal.signal(number, now)
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
