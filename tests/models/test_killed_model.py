"""`metastable model` killed again and again at random moments: what it leaves in the end is an undisturbed record."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from metastable.models.study import Settings, read, study
from metastable.store.datasets import read_dataset

KILLS = 4
SCRIPT = "import sys; from metastable.models import stream; stream._SAVE_EVERY = 0.2; "
SCRIPT += "from metastable.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.slow
def test_many_kills_change_nothing(folders: dict[str, Path], tmp_path: Path) -> None:
    rng = np.random.default_rng(11)
    text = tmp_path / "ids.txt"
    text.write_text("\n\n".join(" ".join(map(str, row)) for row in rng.integers(0, 50, (600, 60))))
    words = ["model", str(folders["bert"]), "--texts", str(text), "--limit", "600", "--control", "shuffle"]
    words += ["--control-seeds", "1"]
    out, whole = tmp_path / "out", tmp_path / "whole"
    started = time.monotonic()
    assert _run([*words, "--out", str(whole)]).wait() == 0
    takes = time.monotonic() - started
    for wait in rng.uniform(0.2, 0.8, KILLS) * takes:
        running = _run([*words, "--out", str(out)])
        try:
            running.wait(wait)  # it may end before it is killed: what is there is then whole
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGKILL)
            assert running.wait() == -signal.SIGKILL
    assert _run([*words, "--out", str(out)]).wait() == 0
    names = {path.name for path in whole.iterdir()}
    assert {path.name for path in out.iterdir()} == names
    assert {p.name for p in (out / "figures").iterdir()} == {p.name for p in (whole / "figures").iterdir()}
    for name in sorted(names):
        if name.endswith(".zarr"):
            here, there = (read_dataset(home, name.removesuffix(".zarr")) for home in (out, whole))
            assert here.identical(there), name
    assert [read(home).notes for home in (out, whole)] == [read(whole).notes] * 2
    settings = Settings(words[1], texts=str(text), limit=600, control=("shuffle",), control_seeds=1)
    assert study(settings, out).about["probe"]["tokens"] == 600 * 60


def _run(words: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-c", SCRIPT, *words], env={**os.environ}, stdout=subprocess.DEVNULL)
