"""A run cut at any moment goes on from there and gives the same digits as one left alone."""

import contextlib
import pathlib
import shutil
from pathlib import Path
from typing import Any

import pytest

from metastable import store as record
from metastable.errors import InputError
from metastable.store import files, recorder
from metastable.store import folder as protocol
from tests.store.runs import assert_same_run, made


class Killed(BaseException):
    """Stands for kill -9: nothing catches it, and nothing is written after it."""


class Fuse:
    """Lets so many operations on the disk through, then none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, allowed: float) -> None:
        self.left = allowed
        self.used = 0
        places: list[tuple[Any, str]] = [(pathlib.Path, name) for name in ("replace", "rename", "mkdir", "unlink")]
        for home, name in [*places, (files, "remove"), (recorder, "remove"), (protocol, "remove")]:
            monkeypatch.setattr(home, name, self.guarded(getattr(home, name)))

    def guarded(self, act: Any) -> Any:
        def guard(*args: Any, **options: Any) -> Any:
            self.left -= 1
            self.used += 1
            if self.left < 0:
                raise Killed
            return act(*args, **options)

        return guard


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_INTERVAL", 0.0)  # a checkpoint after every segment


def run_until_killed(name: str, folder: Path, allowed: float) -> int:
    """Operations used; the run ends as if killed when it wants more than allowed."""
    plan, x, until = made(name)
    with pytest.MonkeyPatch.context() as patch:
        fuse = Fuse(patch, allowed)
        with contextlib.suppress(Killed):
            record.run(plan, x, folder, until)
    return fuse.used


def cut_on_the_way(name: str, place: Path) -> Path:
    """A folder with the first part of a run; a good half of the operations come before its tokens."""
    total = run_until_killed(name, place / "counted", float("inf"))
    run_until_killed(name, place / "cut", 3 * total // 4)
    shutil.rmtree(place / "counted")
    return place / "cut"


CUT = ["sphere", "rescaled", "rescaled adaptive", "adaptive", "stopped", "noise", "diverged"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CUT if "adaptive" not in name])
def test_cuts(name: str, tmp_path: Path) -> None:
    cut_everywhere(name, tmp_path, step=4 if name == "sphere" else 13)


@pytest.mark.slow
@pytest.mark.parametrize("name", CUT)
def test_every_cut(name: str, tmp_path: Path) -> None:
    cut_everywhere(name, tmp_path, step=1)


def cut_everywhere(name: str, tmp_path: Path, step: int) -> None:
    plan, x, until = made(name)
    whole = record.run(plan, x, tmp_path / "whole", until)
    total = run_until_killed(name, tmp_path / "counted", float("inf"))
    assert total > 20
    for allowed in range(0, total, step):
        folder = tmp_path / f"cut{allowed}"
        run_until_killed(name, folder, allowed)
        finished = (folder / "done").exists()
        if not finished:
            with pytest.raises(InputError, match=r"unfinished|There is no record|is no record"):
                record.load(folder)
        assert_same_run(whole, record.run(plan, x, folder, until))
        assert_same_run(whole, record.load(folder))
        if not finished:  # a finished record is left as it is, whatever lies beside it
            names = {path.name for path in folder.rglob("*")}
            assert not {name for name in names if ".part" in name or name in ("lock", "state.npz")}, allowed


def test_cut_again_and_again(tmp_path: Path) -> None:
    plan, x, until = made("sphere")
    whole = record.run(plan, x, tmp_path / "whole", until)
    for _ in range(8):
        assert not (tmp_path / "cut" / "done").exists()
        run_until_killed("sphere", tmp_path / "cut", 62)  # more than it takes to begin, less than the whole
        if (tmp_path / "cut" / "done").exists():
            break
    assert_same_run(whole, record.load(tmp_path / "cut"))


def test_an_unfinished_record_shows_what_it_has(tmp_path: Path) -> None:
    plan, x, until = made("rescaled")
    whole = record.run(plan, x, tmp_path / "whole", until)
    part = record.load(cut_on_the_way("rescaled", tmp_path), partial=True)
    assert part.status == "unfinished"
    assert 0 < len(part) < len(whole)
    assert part.x.tobytes() == whole.x[: len(part)].tobytes()
    assert part.attention(-1).shape == (1, 6, 6)
    with pytest.raises(InputError, match="unfinished record"):
        part.save(tmp_path / "other")


def test_an_unfinished_record_of_another_run_is_refused(tmp_path: Path) -> None:
    cut_on_the_way("sphere", tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "cut").rglob("*") if path.is_file()}
    plan, x, until = made("noise")
    with pytest.raises(InputError, match="another run"):
        record.run(plan, x, tmp_path / "cut", until)
    assert before == {path: path.read_bytes() for path in (tmp_path / "cut").rglob("*") if path.is_file()}
