"""The gallery's pictures are what its commands make: its page, docs/make_pictures.py and docs/pictures agree."""

import importlib.util
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("make_pictures", DOCS / "make_pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_prints_the_commands_of_its_pictures(script: Any) -> None:
    page = (DOCS / "guide" / "gallery.md").read_text()
    printed = [line.split()[2:] for line in re.findall(r"^    metastable simulate.*$", page, re.MULTILINE)]
    without_out = {tuple(words[: words.index("--out")]) for words in printed}
    assert without_out == {tuple(shlex.split(flags)) for flags, _ in script.GALLERY.values()}
    assert sorted(re.findall(r"\.\./pictures/([\w-]+)\.png", page)) == sorted(script.GALLERY)
    assert {path.stem for path in (DOCS / "pictures").glob("*.png")} == {*script.GALLERY, "density"}


@pytest.fixture(scope="module")
def made(script: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pictures made anew."""
    place = tmp_path_factory.mktemp("gallery")
    script.RECORDS, script.PICTURES = place / "records", place / "pictures"
    for name in script.GALLERY:
        script.draw(name)
    script.draw_density()
    return place / "pictures"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in (DOCS / "pictures").glob("*.png")))
def test_a_picture_is_what_its_record_shows(name: str, made: Path) -> None:
    """Up to the edges of letters and lines, which other versions of matplotlib draw a little differently."""
    there, fresh = (imread(folder / f"{name}.png")[..., :3] for folder in (DOCS / "pictures", made))
    assert there.shape == fresh.shape, "run docs/make_pictures.py"
    assert np.abs(there - fresh).mean() < 1e-3, "run docs/make_pictures.py"
