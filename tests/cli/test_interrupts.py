"""Ctrl-C in every command that computes: exit code 130 and one sentence, whatever was going on."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metastable.cli.interrupts import exit_code, listening
from tests.cli.conftest import Metastable


@pytest.fixture(autouse=True)
def _default_handler() -> Iterator[None]:
    """As in a process of its own; where tests run in the background, SIGINT is ignored and inherited so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press(*_: Any, **__: Any) -> Any:
    """Ctrl-C while Python runs."""
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5.0)


def press_inside(*_: Any, **__: Any) -> Any:
    """Ctrl-C while compiled code calls Python back: it arrives as an error of the library's."""
    try:
        press()
    except KeyboardInterrupt as error:
        raise RuntimeError("INTERNAL: CpuCallback error calling callback") from error


# words of the command, what computes in it, what the sentence says
COMMANDS: dict[str, tuple[list[str], str, str]] = {
    "simulate": (
        ["simulate", "--n", "8", "--t", "1", "--out", "run", "--no-pictures"],
        "metastable.store.recorder._resume",
        "at t = 0; the record in 'run' is unfinished: run the same command again to go on",
    ),
    "pictures": (
        ["simulate", "--n", "8", "--t", "1", "--out", "run"],
        "metastable.plots.save_figure",
        "while drawing; the record in 'run' is complete: run the same command again to draw",
    ),
    "check": (["check", "--V", "V.npy"], "metastable.theory.checking.check", "check writes nothing: run the same"),
    "reproduce": (
        ["reproduce", "ginibre", "--quick", "--out", "r"],
        "metastable.experiments.reproducing.run_all",
        "what is finished is in 'r': run the same command again to go on",
    ),
    "model": (
        ["model", "minilm", "--out", "m"],
        "metastable.models.study.load",
        "what is finished is in 'm': run the same command again to go on",
    ),
    "compare": (
        ["compare", "minilm", "smollm2"],
        "metastable.models.comparison.sides",
        "what is measured is not lost: run the same command again to go on from there",
    ),
    "sweep": (
        ["sweep", "--n", "8", "--beta", "1,2", "--t", "1", "--times", "1", "--out", "s"],
        "metastable.sweeps.run_sweep",
        "what has landed is in 's': run the same command again to go on",
    ),
    "hunt": (
        ["hunt", "codimension", "--n", "4", "--d", "2", "--out", "h"],
        "metastable.hunt.run_rounds",
        "finished rounds are in 'h': run the same command again to go on",
    ),
    "replay": (["hunt", "replay", "x.npz"], "metastable.hunt.read", "replay writes nothing: run the same"),
    "plot": (["plot", "done"], "metastable.plots.plot", "the record is as it was: run the same"),
    "animate": (["animate", "done"], "metastable.plots.animate", "the record is as it was: run the same"),
}


@pytest.mark.parametrize("act", [press, press_inside])
@pytest.mark.parametrize("name", COMMANDS)
def test_one_sentence(name: str, act: Any, metastable: Metastable, tmp_path: Path) -> None:
    words, home, sentence = COMMANDS[name]
    np.save(tmp_path / "V.npy", np.eye(2))
    if "done" in words:
        assert metastable("simulate", "--n", 8, "--t", 1, "--save", 3, "--out", "done", "--no-pictures").code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home, act)
        answer = metastable(*words)
    assert answer.code == 130
    assert answer.out == ""
    assert answer.err.startswith("metastable: Interrupted")
    assert sentence in answer.err
    assert answer.err.endswith(f"(metastable {' '.join(words)}).\n")
    assert answer.err.count("\n") == 1
    assert "Traceback" not in answer.err


def test_an_error_without_ctrl_c_is_not_taken_for_one(metastable: Metastable, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("INTERNAL: CpuCallback error calling callback")

    monkeypatch.setattr("metastable.store.recorder._resume", fail)
    assert metastable("simulate", "--n", 8, "--t", 1, "--out", "run").code == 70
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_a_signal_inside_a_callback_is_not_lost(capsys: pytest.CaptureFixture[str]) -> None:
    """Numba's compiler calls Python back through ctypes, which prints what a callback raises and goes on."""
    back = ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGTERM))

    def compiles() -> None:
        with listening():
            back()
            time.sleep(5.0)

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt):
            compiles()
        assert exit_code() == 128 + signal.SIGTERM
    finally:
        signal.signal(signal.SIGTERM, before)
    assert capsys.readouterr() == ("", "")


_STUCK = """
import hashlib
from metastable.cli import interrupts

interrupts.PATIENCE = 0.2
with interrupts.listening(lambda left: print(left, flush=True)), interrupts.interruptible(lambda: "what is kept"):
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)  # compiled code that does not come back for minutes
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_compiled_code_is_not_waited_for(number: int) -> None:
    stuck = subprocess.Popen([sys.executable, "-c", _STUCK], stdout=subprocess.PIPE, text=True)
    try:
        assert stuck.stdout is not None
        assert stuck.stdout.readline() == "ready\n"
        time.sleep(0.3)  # until it is inside
        stuck.send_signal(number)
        assert stuck.wait(timeout=20) == 128 + number
        assert stuck.stdout.read() == "what is kept\n"
    finally:
        stuck.kill()
        stuck.communicate()


_COMPUTING = """
import os, signal, sys
from metastable.backend import jax, jnp
from metastable.cli import list_command, main

def computes():
    x = jnp.full((400, 400), 0.0025)
    jax.jit(lambda x: jax.lax.fori_loop(0, 10**9, lambda k, x: x @ x, x))(x)  # goes on behind Python
    os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
list_command.table_entries = lambda *_: computes()
sys.argv = ["metastable", "list", "masks"]
raise SystemExit(main())
"""


def test_an_interrupted_command_does_not_wait_for_what_xla_computes_still() -> None:
    """Python's end waited for it, minutes for a long chart run, and then crashed: exit code 139."""
    asked = [sys.executable, "-c", _COMPUTING]
    ended = subprocess.run(asked, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 130
    assert ended.stderr.startswith("metastable: Interrupted")


def test_before_a_command_has_begun(metastable: Metastable, monkeypatch: pytest.MonkeyPatch) -> None:
    """While its modules are loaded: the library of the command line must not end the process without a word."""
    monkeypatch.setattr("metastable.cli.list_command.table_entries", press)
    answer = metastable("list", "masks")
    assert (answer.code, answer.out) == (130, "")
    assert (
        answer.err
        == "metastable: Interrupted; nothing was written: run the same command again (metastable list masks).\n"
    )
