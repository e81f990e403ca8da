"""Every kind of folder goes through one protocol: two writers, other content, a kill in the middle, the end."""

import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metastable import store
from metastable.errors import InputError
from metastable.experiments.base import Data, Experiment, Work
from metastable.experiments.run_one import run_into
from metastable.store import files
from metastable.store import folder as protocol
from metastable.store.folder import KINDS, PROVENANCE, claim, finish, settled_by, status
from metastable.store.locks import locked


@dataclasses.dataclass(frozen=True)
class Params:
    instances: int = 3
    seed: int = 0


def experiment(params: Params, work: Work) -> Data:
    return work.parts("part", params.instances, 1, lambda first, last: {"seed": np.arange(first, last)})


EXPERIMENT = Experiment(
    "small", "Small", "nowhere", "Fig. 0", Params, experiment, lambda params, data: [], lambda params, data: {}
)


def a_run(folder: Path, seed: int) -> None:
    from tests.store.runs import made

    plan, x, until = made("noise")
    store.run(dataclasses.replace(plan, seed=seed), x, folder, until)


def an_experiment(folder: Path, seed: int) -> None:
    run_into(EXPERIMENT, folder, overrides={"seed": seed})


def a_reproduction(folder: Path, seed: int) -> None:
    from metastable.experiments.reproducing import reproduce

    os.environ["FAKE_LOG"] = os.devnull
    reproduce(["good"], preset="quick", seed=seed, out=folder, homes={"good": "tests.reproduce.fake_good"}, jobs=1)


def a_study(folder: Path, seed: int) -> None:
    from metastable.models import run_study
    from metastable.models.study_settings import Settings

    home = folder.parent / "bert"
    if not home.exists():
        tf = pytest.importorskip("transformers")
        sizes = {"vocab_size": 20, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
        tf.BertModel(tf.BertConfig(**sizes, intermediate_size=8)).save_pretrained(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_study, "_draw", lambda made, report: None)
        run_study.run(Settings(str(home), limit=seed + 1), folder)


def a_hunt(folder: Path, seed: int) -> None:
    from metastable.hunt import Rules, hunt

    hunt(Rules(n=4, d=2, batch=8, elite=2, seed=seed), folder, instances=8)


def a_fit(folder: Path, seed: int) -> None:
    import metastable as ms

    x0 = ms.initial.sphere(3, 2, seed=0)
    ms.fit(ms.Dynamics(), x0, -x0, "V", times=0.2, steps=4, checkpoint=2, seed=seed, out=folder)


# kind -> how a user fills such a folder; a sweep will be a line here
WRITERS: dict[str, Callable[[Path, int], None]] = {
    "run": a_run,
    "experiment": an_experiment,
    "reproduction": a_reproduction,
    "study": a_study,
    "hunt": a_hunt,
    "fit": a_fit,
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(kind: str, folder: Path, sentence: str, seed: int = 0) -> None:
    """One sentence, and the folder is as it was."""
    before = contents(folder)
    with pytest.raises(InputError, match=sentence) as caught:
        WRITERS[kind](folder, seed)
    assert "\n" not in str(caught.value)
    assert {name: data for name, data in contents(folder).items() if name != "lock"} == before


def test_every_kind_is_here() -> None:
    assert set(WRITERS) == set(KINDS) - {"sweep"}


_LONG = ("fit", "reproduction", "study")


@pytest.mark.parametrize("kind", [pytest.param(k, marks=pytest.mark.slow) if k in _LONG else k for k in WRITERS])
def test_one_protocol(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole life of a folder; the kinds differ in nothing of it."""
    folder, write = tmp_path / "folder", WRITERS[kind]
    folder.mkdir()
    (folder / "thesis.tex").write_text("mine")
    refused(kind, folder, rf"is not empty and holds no {KINDS[kind][0]} \(thesis.tex\)")
    (folder / "thesis.tex").unlink()
    with locked(folder), pytest.raises(InputError, match=r"Another process \(.*\) is writing to"):
        write(folder, 0)
    assert list(folder.iterdir()) == []
    # killed on the way: the marker is the last thing written
    with monkeypatch.context() as patch:
        patch.setattr(protocol, "write_whole", killed)
        with pytest.raises(Killed):
            write(folder, 0)
    assert status(folder, kind) == "unfinished"
    refused(kind, folder, f"holds another {kind} \\(.* is .* there and .* here", seed=1)
    write(folder, 0)
    assert status(folder, kind) == "finished"
    head = json.loads((folder / "provenance.json").read_text())
    assert head["kind"] == kind
    assert len(head["sessions"]) == 2
    assert {"metastable", "jax", "numpy", "python", "machine", "time"} <= set(head["sessions"][0])
    names = set(contents(folder))
    assert not {name for name in names if name.endswith((".part", ".partial", "lock", "state.npz", "error.txt"))}
    refused(kind, folder, f"holds another {kind}", seed=1)
    other = "hunt" if kind != "hunt" else "run"
    with pytest.raises(InputError, match=f"holds an? {kind}.*and no {other}"):
        status(folder, other)
    (folder / "provenance.json").write_text("{")
    refused(kind, folder, r"The record in .* is damaged \(provenance.json: ")


class Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


def killed(path: Path, data: bytes) -> None:
    raise Killed


@pytest.mark.parametrize("kind", WRITERS)
def test_links_are_refused(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with claim(folder, settled_by(kind, {})):
        (folder / "elsewhere").symlink_to(tmp_path)
    with pytest.raises(InputError, match=r"holds a symbolic link \(elsewhere\)"):
        WRITERS[kind](folder, 0)


# --- the functions themselves -------------------------------------------------------------------------------------

PURPOSE = settled_by("sweep", {"beta": np.array([1.0, 2.0]), "seed": 3})


def test_a_sweep_can_use_it(tmp_path: Path) -> None:
    with claim(tmp_path / "s", PURPOSE) as found:
        assert found == "free"
        assert protocol.check(tmp_path / "s", PURPOSE) == "unfinished"
        finish(tmp_path / "s", "sweep", {"rows": 2})
    with claim(tmp_path / "s", PURPOSE) as found:
        assert found == "finished"
    assert len(protocol.read_provenance(tmp_path / "s", "sweep")["sessions"]) == 1  # it was only looked at
    with claim(tmp_path / "s", PURPOSE, extend=True) as found:
        assert found == "finished"
        assert protocol.check(tmp_path / "s", PURPOSE) == "unfinished"
    head = protocol.read_provenance(tmp_path / "s", "sweep")
    assert head["rows"] == 2
    assert head["settings"] == {"beta": [1.0, 2.0], "seed": 3}
    assert len(head["sessions"]) == 2


def test_a_claim_that_comes_to_nothing(tmp_path: Path) -> None:
    def give_up() -> None:
        with claim(tmp_path / "s", PURPOSE):
            (tmp_path / "s" / "half").write_text("x")
            protocol.release(tmp_path / "s")
            raise InputError("There are no texts.")

    with pytest.raises(InputError, match="no texts"):
        give_up()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(KeyboardInterrupt), claim(tmp_path / "s", PURPOSE):
        raise KeyboardInterrupt
    assert status(tmp_path / "s", "sweep") == "unfinished"


def test_a_folder_appears_at_once_or_not_at_all(tmp_path: Path) -> None:
    def fail() -> None:
        with protocol.at_once(tmp_path / "s", PURPOSE) as part:
            (part / "x").write_text("x")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []
    with protocol.at_once(tmp_path / "s", PURPOSE) as part:
        assert not (tmp_path / "s").exists()
        (part / "x").write_text("x")
    assert status(tmp_path / "s", "sweep") == "finished"
    with pytest.raises(InputError, match="already holds a sweep"), protocol.at_once(tmp_path / "s", PURPOSE):
        pass


def test_traces_of_a_crash_are_no_content(tmp_path: Path) -> None:
    where = protocol.note_crash(tmp_path, "Traceback ...")
    assert status(tmp_path, "sweep") == "free"
    with claim(tmp_path, PURPOSE):
        assert where.exists()
        finish(tmp_path, "sweep")
    assert not where.exists()


KILLED = """
import sys, pathlib, numpy as np
from metastable.store.files import write_arrays
from metastable.store.folder import claim, settled_by
folder = pathlib.Path(sys.argv[1])
with claim(folder, settled_by("sweep", {"seed": 3})) as found:
    for k in range(10**6):
        write_arrays(folder / "state.npz", {"k": np.full(10**5, k)})
"""


def test_killed_for_real(tmp_path: Path) -> None:
    """SIGKILL while checkpoints are written: the last one is whole, the lock is free, the claim is taken up."""
    purpose = settled_by("sweep", {"seed": 3})
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)]) as writer:
        while not (tmp_path / "state.npz").exists() and writer.poll() is None:
            time.sleep(0.01)
        with pytest.raises(InputError, match=rf"Another process \({writer.pid} on "), claim(tmp_path, purpose):
            pass
        time.sleep(0.05)
        os.kill(writer.pid, signal.SIGKILL)
    k: Any = files.read_arrays(tmp_path / "state.npz")["k"]
    assert (k == k[0]).all()
    with claim(tmp_path, purpose) as found:
        assert found == "unfinished"
        finish(tmp_path, "sweep")
    assert {path.name for path in tmp_path.iterdir()} == {"provenance.json", "done"}


def test_a_file_is_the_old_one_or_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.npz"
    files.write_whole(path, b"old")
    monkeypatch.setattr(os, "fsync", lambda number: killed(path, b""))
    with pytest.raises(Killed):
        files.write_whole(path, b"new")
    assert path.read_bytes() == b"old"


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """The system refuses to write more than ``size`` bytes into any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 100])
def test_attempts_on_a_full_disk_leave_nothing(size: int, tmp_path: Path) -> None:
    """A real fault: the system refuses to write more than a few bytes into any file."""
    purpose, folder = settled_by("hunt", {"seed": 1}), tmp_path / "a"
    for _ in range(3):
        with small_files(size), pytest.raises(InputError, match="Cannot write"), claim(folder, purpose):
            pass
        assert not list(tmp_path.iterdir())
    with claim(folder, purpose):
        pass
    with small_files(size), pytest.raises(InputError, match="not lost"), claim(folder, purpose):
        pass
    assert [path.name for path in folder.iterdir()] == [PROVENANCE]


def test_ctrl_c_while_a_file_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(number: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", pressed)
    with pytest.raises(KeyboardInterrupt):
        files.write_whole(tmp_path / "a", b"1")
    assert not list(tmp_path.iterdir())
