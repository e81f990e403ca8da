import time

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image

from metastable.errors import InputError
from metastable.plots import animate
from metastable.plots import frames as frames_module
from tests.plots.plot_runs import trajectory_like


def frames_of(path):
    """All frames of an MP4 as (m, height, width, 3)."""
    reader = imageio_ffmpeg.read_frames(str(path))
    width, height = next(reader)["size"]
    return np.stack([np.frombuffer(frame, np.uint8).reshape(height, width, 3) for frame in reader])


def test_default_film_plays_in_browsers_and_is_quick(tmp_path, sphere):
    t, x = sphere
    began = time.process_time()
    path = animate(x, tmp_path / "new" / "run.mp4", t=t, first="red")
    assert time.process_time() - began < 8  # about 1 s on a quiet machine
    assert path.read_bytes()[4:8] == b"ftyp"
    assert imageio_ffmpeg.count_frames_and_secs(str(path)) == (150, 6.0)
    meta = next(imageio_ffmpeg.read_frames(str(path)))
    assert meta["codec"] == "h264"
    assert meta["pix_fmt"].startswith("yuv420p")
    assert meta["size"] == (720, 720)
    data = path.read_bytes()
    assert data.index(b"moov") < data.index(b"mdat")  # can start before it is loaded
    assert [p.name for p in path.parent.iterdir()] == ["run.mp4"]


def test_odd_sizes_become_even(tmp_path, short_run):
    path = animate(short_run[1], tmp_path / "run.mp4", frames=4, fps=2, size=(121, 95))
    assert next(imageio_ffmpeg.read_frames(str(path)))["size"] == (122, 96)
    assert imageio_ffmpeg.count_frames_and_secs(str(path)) == (4, 2.0)


def test_tokens_move_and_the_first_is_red(tmp_path, sphere):
    t, x = sphere
    film = frames_of(animate(x, tmp_path / "run.mp4", t=t, frames=5, size=(240, 240), first="red")).astype(int)
    assert (np.abs(np.diff(film, axis=0)).max(axis=(1, 2, 3)) > 60).all()
    red = (film[..., 0] > 170) & (film[..., 1] < 90) & (film[..., 2] < 90)
    assert (red.sum(axis=(1, 2)) > 8).all()
    plain = frames_of(animate(x, tmp_path / "plain.mp4", t=t, frames=1, size=(240, 240))).astype(int)
    assert not ((plain[..., 0] > 170) & (plain[..., 1] < 90)).any()


def test_gif(tmp_path, short_run):
    t, x = short_run
    path = animate(x, tmp_path / "run.gif", t=t, frames=12, fps=20, size=(160, 160), color="token", trail=0.5)
    with Image.open(path) as film:
        assert film.format == "GIF"
        assert film.n_frames == 12
        assert film.info["duration"] == 50
        assert film.info["loop"] == 0
        assert film.convert("RGB").getpixel((1, 159)) == (255, 255, 255)


@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("case", ["one token", "one time", "collapsed", "unfinished", "ensemble"])
def test_every_space_and_degenerate_run(tmp_path, d, case):
    x = np.random.default_rng(d).normal(size=(5, 1 if case == "one token" else 7, d))
    if case == "one time":
        x = x[:1]
    if case == "collapsed":
        x = np.zeros_like(x)
    if case == "unfinished":
        x[3:] = np.nan
    if case == "ensemble":
        x = np.repeat(x[:, None], 3, axis=1)
    run = trajectory_like(np.arange(len(x), dtype=float), x, "euclidean")
    options = {"frames": 3, "size": (64, 64), "trail": 1.0, "spacing": "exponential", "color": "cluster"}
    path = animate(run, tmp_path / "run.mp4", first="red", **options)
    assert imageio_ffmpeg.count_frames_and_secs(str(path))[0] == 3


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("run.avi", {}, r"\.mp4, \.gif"),
        ("run", {}, r"\.mp4, \.gif"),
        ("file/run.mp4", {}, "Cannot write"),
        ("run.mp4", {"frames": 0}, "at least one frame"),
        ("run.mp4", {"fps": 0}, "at least one frame"),
        ("run.mp4", {"trail": -1.0}, "at least 0"),
        ("run.mp4", {"size": (4, 4)}, "16 to 4096"),
        ("run.gif", {"spacing": "logarithmic"}, "spacing"),
        ("run.mp4", {"color": "tokens"}, "did you mean 'token'"),
    ],
)
def test_bad_input_gets_a_sentence_and_leaves_nothing(tmp_path, short_run, name, options, word):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match=word):
        animate(short_run[1], tmp_path / name, **options)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_failing_encoder_gets_a_sentence_and_leaves_nothing(tmp_path, short_run, monkeypatch):
    encoder = tmp_path / "encoder"
    encoder.write_text("#!/bin/sh\necho warming up >&2\necho no space left >&2\nexit 1\n")
    encoder.chmod(0o755)
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: str(encoder))
    for name in ("run.mp4", "run.gif"):
        with pytest.raises(InputError, match="Could not finish.*no space left"):
            animate(short_run[1], tmp_path / name, size=(64, 64))
    assert [p.name for p in tmp_path.iterdir()] == ["encoder"]


def test_interrupt_stops_the_encoder_and_leaves_nothing(tmp_path, short_run, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(frames_module, "arrange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        animate(short_run[1], tmp_path / "run.mp4", size=(64, 64))
    assert not list(tmp_path.iterdir())


def test_same_film_same_bytes(tmp_path, short_run):
    for suffix in ("mp4", "gif"):
        made = [animate(short_run[1], tmp_path / f"{k}.{suffix}", frames=5, size=(64, 64)).read_bytes() for k in "ab"]
        assert made[0] == made[1]
