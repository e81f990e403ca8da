"""A study cut off at any moment goes on from there and holds the same data as one left alone."""

import os
import pathlib
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metastable.models import stream
from metastable.models.run_study import run
from metastable.models.study import Settings, read
from metastable.models.study_figures import every_picture
from metastable.models.study_record import MEASURED, Study
from metastable.store.folder import DONE
from tests.models.test_command import unrendered

MOMENTS = 20
DATA = (*MEASURED, "cloud", "ranks", "spectra", "ladder", "baselines", "parts")


class Witness:
    """Counts changes of the disk inside a folder, and copies it as it is before some of them: what kill -9 leaves.

    ``moments`` are numbers of changes, and names of files: the moment before a file of that name is there.
    """

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path, moments: Sequence[int | str]) -> None:
        self.folder, self.moments, self.count, self.lock = folder, set(moments), 0, threading.RLock()
        places: list[tuple[Any, str]] = [(pathlib.Path, name) for name in ("replace", "rename", "mkdir", "unlink")]
        for home, name in [*places, (os, "replace")]:
            patch.setattr(home, name, self.watched(getattr(home, name)))

    def watched(self, act: Any) -> Any:
        def watch(*args: Any, **options: Any) -> Any:
            places = [Path(place) for place in args if isinstance(place, (str, Path))]
            if not any(place.is_relative_to(self.folder) for place in places):
                return act(*args, **options)
            with self.lock:  # zarr writes from several threads: no moment is copied twice, nothing moves meanwhile
                now = {self.count, *(place.name for place in places)} & self.moments
                for moment in now if self.folder.exists() else ():
                    self.moments.discard(moment)
                    shutil.copytree(self.folder, cut_at(self.folder, moment))
                self.count += 1
                return act(*args, **options)

        return watch


def cut_at(folder: Path, moment: int | str) -> Path:
    return folder.with_name(f"{folder.name}-cut-{moment}")


def made(settings: Settings, folder: Path, moments: Sequence[int | str] = ()) -> int:
    """Make a study with copies of it on the way; how many changes inside its folder it took."""
    with pytest.MonkeyPatch.context() as patch:
        witness = Witness(patch, folder, moments)
        assert run(settings, folder)[1] == "made"
    return witness.count


def assert_same(found: Study, whole: Study) -> None:
    for name in DATA:
        one, other = getattr(found, name), getattr(whole, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert one.identical(other), name
    assert found.controls is not None
    assert whole.controls is not None
    for name in (*MEASURED, "ranks"):
        assert getattr(found.controls, name).identical(getattr(whole.controls, name)), name
    timeless = [{key: value for key, value in s.about["probe"].items() if key != "seconds"} for s in (found, whole)]
    assert timeless[0] == timeless[1]
    assert found.about["spectra"] == whole.about["spectra"]


def two_pictures(made: Study) -> Any:
    """Two of all pictures: drawing every one forty times would take longer than all the rest."""
    return dict(list(every_picture(made).items())[:2])


@pytest.mark.slow
def test_twenty_cuts(folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_SAVE_EVERY", 0.0)  # a checkpoint after every text
    monkeypatch.setattr("metastable.models.run_study.save_figure", unrendered)
    monkeypatch.setattr("metastable.models.run_study.film", lambda made, path: None)
    monkeypatch.setattr("metastable.models.run_study.every_picture", two_pictures)
    text = tmp_path / "ids.txt"
    rows = np.random.default_rng(3).integers(3, 50, (6, 20))
    text.write_text("\n\n".join(" ".join(map(str, row)) for row in rows))
    settings = Settings(str(folders["bert"]), texts=str(text), control=("tokens",), control_seeds=1)
    total = made(settings, tmp_path / "first")
    # the number of changes is not the same to the last one, so the last moment has a name
    moments = [*np.linspace(0, 0.97 * total, MOMENTS - 1).round().astype(int).tolist(), DONE]
    assert len(set(moments)) == MOMENTS
    made(settings, tmp_path / "whole", moments)
    whole = read(tmp_path / "whole")
    assert_same(read(tmp_path / "first"), whole)
    for moment in moments:
        folder = cut_at(tmp_path / "whole", moment)
        assert folder.exists() or moment == 0  # before the first change there is nothing
        assert not (folder / DONE).exists()
        assert run(settings, folder)[1] in ("made", "resumed")
        assert_same(read(folder), whole)
        assert not [path for path in folder.rglob("*") if ".part" in path.name or path.name.startswith("state")]
