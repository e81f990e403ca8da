"""Ctrl-C, and a polite request to end: one sentence about what is on disk and how to go on.

Python turns SIGINT into a KeyboardInterrupt, but compiled code that calls back into Python hands it on as an error of
its own, and logs a traceback. So it is remembered that a signal came: any error after it is an interruption. SIGTERM
(kill, a shutdown, the end of a job's time) and SIGHUP (a closed terminal) are taken in the same way. Where Python can
hand it to nobody (a callback of a compiler, a finaliser), it comes again a moment later.

Python takes signals between its own instructions only, so a long call of compiled code (a kernel over 60,000
tokens, many compiled steps) would keep it waiting for minutes. A thread hears of the signal at once, and after
`PATIENCE` seconds says the sentence and ends the process. Records lose nothing by that: what they hold landed whole.
"""

import _thread
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_CAME = threading.Event()
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
_AGAIN = 0.1  # seconds after which an interruption that reached nobody comes again
PATIENCE = 3.0  # seconds for which compiled code is waited for after a signal
_number = int(signal.SIGINT)  # of the signal that came
_sentences: list[Callable[[], str]] = []  # of the commands that run, the innermost last


class Interrupted(Exception):
    """Ctrl-C, with the sentence that says what is on disk and how to go on; it ends without a full stop."""


def interrupted(error: BaseException) -> bool:
    """Whether an error is Ctrl-C, or what a library made of it."""
    return isinstance(error, (KeyboardInterrupt, Interrupted)) or _CAME.is_set()


def exit_code() -> int:
    """128 and the number of the signal that came, as shells count: 130 for Ctrl-C."""
    return 128 + _number


def leave() -> None:
    """End the process at once, after the last words of a command that was interrupted while XLA may compute still.

    Leaving Python would wait for that, for minutes where steps are compiled together, and crash now and then as it
    frees what is computed with (exit code 139). Worker processes compute elsewhere: their semaphores are cleaned up.
    """
    if "jax" not in sys.modules or "multiprocessing.synchronize" in sys.modules:
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(exit_code())


@contextmanager
def listening(last_words: Callable[[str | None], object] | None = None) -> Iterator[None]:
    """Remember the signals that ask to end while a command runs; those that are ignored (nohup) stay so.

    ``last_words`` is called with the command's sentence where compiled code does not come back; then the process ends.
    """
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
        _number = _number if _CAME.is_set() else number
        _CAME.set()
        logging.disable(logging.CRITICAL)  # what libraries log about a computation that was interrupted is no news
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    usual = {n: now for n, now in before.items() if now in (signal.default_int_handler, signal.SIG_DFL)}
    for number in usual:
        signal.signal(number, remember)
    try:
        with _handed_on(), _impatient(remember, last_words):
            yield
    finally:
        for number, now in usual.items():
            signal.signal(number, now)
        logging.disable(logging.NOTSET)


@contextmanager
def _impatient(handler: Callable[..., None], last_words: Callable[[str | None], object] | None) -> Iterator[None]:
    """End the process `PATIENCE` seconds after a signal that Python has not come to in that time.

    Signals that somebody else handles than ``handler`` (the explorer's server, which shuts down in peace) are theirs.
    """
    if last_words is None:
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def watch() -> None:
        while came := os.read(reader, 1):
            if signal.getsignal(came[0]) is handler and not _CAME.wait(PATIENCE):
                if sys.stderr.isatty():
                    os.write(sys.stderr.fileno(), b"\r\x1b[2K\x1b[?25h")  # a progress bar hides the cursor
                last_words(_sentences[-1]() if _sentences else None)
                os._exit(128 + came[0])

    watcher = threading.Thread(target=watch, name="signals", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)  # the watcher reads the end, and ends
        watcher.join()
        os.close(reader)


@contextmanager
def _handed_on() -> Iterator[None]:
    """Send an interruption again that Python could hand to nobody, instead of printing its traceback and going on."""
    before, waiting = sys.unraisablehook, list[threading.Timer]()

    def lost(found: Any) -> None:
        if not issubclass(found.exc_type, KeyboardInterrupt):
            before(found)
            return
        waiting.append(threading.Timer(_AGAIN, _thread.interrupt_main))
        waiting[-1].daemon = True
        waiting[-1].start()

    sys.unraisablehook = lost
    try:
        yield
    finally:
        sys.unraisablehook = before
        for timer in waiting:
            timer.cancel()


@contextmanager
def interruptible(sentence: Callable[[], str]) -> Iterator[None]:
    """Turn Ctrl-C into an `Interrupted`; ``sentence`` is called when it comes."""
    _sentences.append(sentence)
    try:
        yield
    except BaseException as error:
        if isinstance(error, Interrupted) or not interrupted(error):
            raise
        raise Interrupted(sentence()) from None
    finally:
        _sentences.pop()
