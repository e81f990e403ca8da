import subprocess
import sys
import threading

import matplotlib
import numpy as np
import pytest

from metastable.errors import InputError
from metastable.plots import paper, save_figure, series, snapshots
from metastable.plots.figure_files import whole_file
from metastable.plots.style import LOOK

MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".pdf": b"%PDF-", ".svg": b"<?xml"}


@pytest.mark.parametrize("suffix", MAGIC)
def test_file_has_its_format(tmp_path, short_run, suffix):
    t, x = short_run
    path = save_figure(snapshots(x, t, times=2), tmp_path / "new" / f"run{suffix.upper()}", dpi=80)
    assert path.read_bytes().startswith(MAGIC[suffix])
    assert [p.name for p in path.parent.iterdir()] == [path.name]  # nothing temporary is left


def test_pdf_fonts_are_embedded_truetype(tmp_path, short_run):
    data = save_figure(snapshots(short_run[1], times=2), tmp_path / "run.pdf").read_bytes()
    assert b"/FontFile2" in data
    assert b"/Type3" not in data


def test_svg_needs_no_font(tmp_path, short_run):
    text = save_figure(snapshots(short_run[1], times=2), tmp_path / "run.svg").read_text()
    assert "<text" not in text
    assert "http://www.w3.org" in text


SCRIPT = """
import sys, numpy as np
from metastable.plots import save_figure, snapshots
x = np.random.default_rng(0).normal(size=(3, 9, 3))
for suffix in ("png", "pdf", "svg"):
    save_figure(snapshots(x, times=1, color="token"), f"{sys.argv[1]}.{suffix}", dpi=60)
assert "matplotlib.pyplot" not in sys.modules
"""


@pytest.mark.slow
def test_same_picture_same_bytes_in_another_process_and_no_pyplot(tmp_path):
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PATH": "", "HOME": str(tmp_path)}
        subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path / seed)], check=True, env=environment)
    for suffix in MAGIC:
        one, two = ((tmp_path / f"{seed}{suffix}").read_bytes() for seed in ("1", "2"))
        assert one == two
        assert b"CreationDate" not in one
        assert b"<dc:date>" not in one


@pytest.mark.parametrize("name", ["run.jpeg", "run", "run.mp4"])
def test_unknown_suffix_is_refused(tmp_path, short_run, name):
    with pytest.raises(InputError, match=r"\.png, \.pdf, \.svg"):
        save_figure(snapshots(short_run[1], times=1), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_folder_that_cannot_be_made_is_refused(tmp_path, short_run):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="Cannot write"):
        save_figure(snapshots(short_run[1], times=1), tmp_path / "file" / "run.png")


def test_folder_in_place_of_a_file_is_refused(tmp_path, short_run):
    (tmp_path / "run.png").mkdir()
    with pytest.raises(InputError, match="it is a folder"):
        save_figure(snapshots(short_run[1], times=1), tmp_path / "run.png")


def test_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "run.png"
    path.write_bytes(b"old")

    def write(error):
        with whole_file(path, (".png",)) as part:
            part.write_bytes(b"half")
            raise error

    with pytest.raises(KeyboardInterrupt):
        write(KeyboardInterrupt())
    with pytest.raises(InputError, match="No space left"):
        write(OSError(28, "No space left on device"))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_settings_of_the_user_survive(short_run):
    before = dict(matplotlib.rcParams)
    snapshots(short_run[1], times=2)
    with pytest.raises(InputError):
        snapshots(short_run[1], times=[99.0])
    assert dict(matplotlib.rcParams) == before
    with paper():
        assert matplotlib.rcParams["font.size"] == LOOK["font.size"]
    assert dict(matplotlib.rcParams) == before


def test_pictures_from_threads(tmp_path, short_run):
    t, x = short_run
    before = dict(matplotlib.rcParams)
    failed = []

    def draw(k):
        try:
            save_figure(snapshots(x, t, times=2), tmp_path / f"{k}.png", dpi=50)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=draw, args=(k,)) for k in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed
    assert len({(tmp_path / f"{k}.png").read_bytes() for k in range(6)}) == 1
    assert dict(matplotlib.rcParams) == before


def test_figures_keep_their_look_outside_the_context():
    figure = series(np.arange(3), np.arange(3.0), ylabel="energy $E$")
    label = figure.axes[0].yaxis.label
    assert label.get_fontfamily() == ["DejaVu Sans"]
    assert label.get_fontsize() == 8.0
