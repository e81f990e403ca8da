"""Closed, full and broken streams, signals, and faults of our own: the right exit code, and never a traceback."""

import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest

from metastable.cli import main
from tests.cli.conftest import Metastable

SMALL = ["simulate", "--n", "4", "--t", "0.2", "--no-pictures", "--out", "run"]
FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="no full device here")
@pytest.mark.parametrize("words", [["--version"], ["--help"], ["list"]])
def test_a_full_device(words, monkeypatch, capsys):
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(words) == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "please report" not in said
    assert said.count("\n") == 1


@pytest.mark.skipif(not FULL.exists(), reason="no full device here")
def test_a_full_device_for_errors(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for words, code in ((SMALL, 0), (["simulate", "--n", "0"], 2)):
        with FULL.open("w") as full:
            monkeypatch.setattr(sys, "stderr", full)
            assert main(words) == code


def test_a_reader_that_has_gone(monkeypatch):
    for words in (["--help"], ["simulate", "--help"], ["list"]):
        out, into = os.pipe()
        os.close(out)
        with open(into, "w") as pipe:
            monkeypatch.setattr(sys, "stdout", pipe)
            assert main(words) == 141


def test_streams_that_are_closed(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for words, code in ((SMALL, 0), (["simulate", "--n", "0"], 2), (["list"], 0)):
        monkeypatch.setattr(sys, "stdout", None)
        monkeypatch.setattr(sys, "stderr", None)
        assert main(words) == code


def begun(words, place, **how):
    return subprocess.Popen([sys.executable, "-m", "metastable", *words], cwd=place, text=True, **how)


@pytest.mark.slow
def test_all_descriptors_closed(tmp_path):
    """What a library prints must not go into a file that took the number of a closed stream."""
    close = lambda: [os.close(number) for number in (0, 1, 2)]  # noqa: E731
    assert begun(SMALL, tmp_path, preexec_fn=close).wait() == 0
    assert main(["plot", str(tmp_path / "run"), "--out", str(tmp_path / "a.png")]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_polite_signals(number, tmp_path):
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("the signal is ignored here, and by every process started here (nohup)")
    words = ["simulate", "--n", "300", "--t", "3000", "--save", "241", "--no-pictures", "--out", "run"]
    process = begun(words, tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not (tmp_path / "run" / "state.npz").exists() and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    err = process.communicate()[1]
    assert process.returncode == 128 + number
    assert "Interrupted at t = " in err
    assert "run the same command again" in err
    assert err.count("metastable: ") == 1
    assert "Traceback" not in err
    assert not list(tmp_path.rglob("*.part"))


def broken(*args, **named):
    raise TypeError("a mistake in the code")


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("metastable.store.run", SMALL),
        ("metastable.plots.plot", ["plot", "made", "--out", "a.png"]),
        ("metastable.plots.film.read_motion", ["animate", "made", "--out", "a.mp4"]),
        ("metastable.theory.checking._measure", ["check", "--V", "1,-0.5"]),
    ],
)
def test_a_fault_of_our_own_is_told_as_one(place, words, metastable: Metastable, monkeypatch):
    """Also behind a door, which makes a sentence of it."""
    import metastable as ms

    ms.simulate(ms.Dynamics(), ms.initial.sphere(4, 3), t=0.2, save=3).save("made")
    home, name = place.rsplit(".", 1)
    monkeypatch.setattr(import_module(home), name, broken)
    answer = metastable(*words)
    assert answer.code == 70, answer
    assert "Something went wrong inside metastable (TypeError: a mistake in the code)" in answer.err


def no_cuda():
    """As JAX answers where CUDA is asked for and no NVIDIA device is seen."""
    raise AssertionError


def test_a_device_that_is_not_there(monkeypatch, tmp_path, metastable: Metastable):
    import metastable as ms
    from metastable.backend import jax

    monkeypatch.setattr(jax, "default_backend", no_cuda)
    monkeypatch.setattr(jax, "devices", no_cuda)
    answer = metastable(*SMALL)
    assert answer.code == 2
    assert "JAX cannot start on JAX_PLATFORMS=" in answer.err
    assert "please report" not in answer.err
    assert not list(tmp_path.iterdir())
    with pytest.raises(ms.InputError, match="unset it, or set it to cpu"):
        ms.simulate(ms.Dynamics(), ms.initial.sphere(4, 3), t=0.2)
    doctor = metastable("doctor")
    assert doctor.code == 1
    assert "Problem: JAX cannot start" in doctor.out


@pytest.mark.slow
@pytest.mark.parametrize("device", ["rocm", "nowhere"])
def test_a_device_that_is_not_there_for_real(device, tmp_path):
    for words in (SMALL, ["check", "--V", "1,-0.5"]):
        process = begun(words, tmp_path, stderr=subprocess.PIPE, env={**os.environ, "JAX_PLATFORMS": device})
        said = process.communicate()[1]
        assert (process.returncode, said.count("\n")) == (2, 1), said
        assert f"JAX_PLATFORMS='{device}'" in said


@pytest.mark.slow
@pytest.mark.parametrize("home", ["/proc", "/dev/null", None])
def test_a_home_that_cannot_be_written(home, tmp_path):
    """Nothing can be kept, and nothing is said about it; /proc is a folder that nobody can write, not even root."""
    kept = {k: v for k, v in os.environ.items() if k not in ("HOME", "METASTABLE_CACHE", "MPLCONFIGDIR")}
    kept = {k: v for k, v in kept.items() if not k.startswith("XDG_")} | ({} if home is None else {"HOME": home})
    words = ["simulate", "--n", "4", "--t", "0.2", "--engine", "lanes", "--out", "run"]
    process = begun(words, tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=kept)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "Record: run" in out
    assert not [line for line in err.splitlines() if line.strip() and not line.startswith("simulating")], err
