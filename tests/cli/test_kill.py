"""kill -9 and Ctrl-C, for real: processes ended at several moments, then run again."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import metastable as ms
from metastable.cli import main

# a few seconds of work after the start, in 24 pieces
LONG = ["simulate", "--n", "300", "--t", "60", "--dt", "0.1", "--save", "241", "--no-pictures"]


def start(folder: Path) -> "subprocess.Popen[str]":
    words = [sys.executable, "-m", "metastable", *LONG, "--out", str(folder)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=listen)


def listen() -> None:
    """Ctrl-C counts, also when the tests were started in the background (where it is ignored and inherited so)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for(path: Path, process: "subprocess.Popen[str]") -> None:
    """Wait until a file is there or the process has ended."""
    for _ in range(30000):
        if path.exists() or process.poll() is not None:
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} never came")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> ms.Trajectory:
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert main([*LONG, "--out", str(folder)]) == 0
    return ms.load(folder)


def finish(folder: Path, whole: ms.Trajectory) -> None:
    """Run again here and compare."""
    if folder.exists() and (folder / "provenance.json").exists() and not (folder / "done").exists():
        with pytest.raises(ms.InputError, match="unfinished"):
            ms.load(folder)
    assert main([*LONG, "--out", str(folder)]) == 0
    again = ms.load(folder)
    assert again.x.tobytes() == whole.x.tobytes()
    assert again.status == whole.status


@pytest.mark.slow
def test_killed_on_the_way(tmp_path: Path, whole: ms.Trajectory) -> None:
    process = start(tmp_path / "run")
    wait_for(tmp_path / "run" / "state.npz", process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "run" / "done").exists()
    finish(tmp_path / "run", whole)


@pytest.mark.slow
def test_interrupted_on_the_way(tmp_path: Path, whole: ms.Trajectory) -> None:
    process = start(tmp_path / "run")
    wait_for(tmp_path / "run" / "state.npz", process)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert out == ""
    assert "Interrupted at t = " in err
    assert "run the same command again" in err
    assert "Traceback" not in err
    finish(tmp_path / "run", whole)


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.05, 0.5, 0.9, 1.3, 1.7, 2.1, 2.6, 3.3, 4.0, 5.0])
def test_killed_at_any_moment(delay: float, tmp_path: Path, whole: ms.Trajectory) -> None:
    for attempt in range(3):  # and again, while it goes on
        process = start(tmp_path / "run")
        time.sleep(delay * (1 + 0.3 * attempt))
        process.kill()
        process.communicate()
    finish(tmp_path / "run", whole)
