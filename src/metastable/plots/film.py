"""Films of moving tokens: MP4 for browsers, GIF for everything else."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError
from metastable.plots.colours import paler, token_colours
from metastable.plots.files import whole_file
from metastable.plots.marks import arrange, dot_area, dots_apart, draw_dots
from metastable.plots.motion import Motion, clock_times, read_motion
from metastable.plots.snapshots import draw_paths
from metastable.plots.spaces import View, view_of
from metastable.plots.style import DRAWING, SOFT, new_figure, paper

Floats = NDArray[np.float64]
Frame = NDArray[np.uint8]  # (height, width, 4)
Shoot = Callable[[Floats], Iterator[Frame]]  # times to pictures

SUFFIXES = (".mp4", ".gif")
INCHES = 4.0  # width of the picture whatever its pixels, so that sizes of dots and words scale with it


def animate(
    tokens: Any,
    path: str | os.PathLike[str],
    *,
    t: ArrayLike | None = None,
    frames: int = 150,
    fps: int = 25,
    spacing: str = "linear",
    size: tuple[int, int] | None = None,
    trail: float = 0.0,
    color: Any = None,
    first: str | None = None,
    view: tuple[float, float] | None = None,
    run: int = 0,
    geometry: str | None = None,
) -> Path:
    """Write a run as a film.

    Parameters
    ----------
    tokens
        A `Trajectory`, or an array (T, ..., n, d).
    path
        Where to: .mp4 (H.264, plays in browsers) or .gif.
    t
        Times of an array, (T,).
    frames, fps
        How many pictures and how many a second; states between saved times are interpolated.
    spacing
        "linear" or "exponential" film time: the latter spends longer on early times.
    size
        Width and height in pixels, made even; 720 x 720 for MP4 and 480 x 480 for GIF when None.
    trail
        Length of the trail behind each token, in units of t; 0 for none.
    color, first, view, run, geometry
        As for `snapshots`.

    Returns
    -------
    Path
        The file written; it appears only when it is complete.

    Examples
    --------
    >>> import numpy as np
    >>> angle = np.linspace(0, 1, 12)[:, None] + np.arange(5)
    >>> circle = np.stack([np.cos(angle), np.sin(angle)], -1)
    >>> animate(circle, "/tmp/metastable-doctest/turn.gif", frames=6, size=(120, 120)).name
    'turn.gif'
    """
    if fps < 1 or frames < 1:
        raise InputError(f"A film needs at least one frame and one frame a second, not {frames} at {fps}.")
    if not trail >= 0:
        raise InputError(f"A trail has a length of at least 0, not {trail}.")
    with whole_file(path, SUFFIXES) as part:
        motion = read_motion(tokens, t, run, geometry)
        pixels = _even(size or ((720, 720) if part.suffix == ".mp4" else (480, 480)))
        times, colours = clock_times(motion, frames, spacing), token_colours(motion, color, first)
        seen = view_of(motion, angles=view)
        still: dict[str, Any] = {"motion": motion, "seen": seen, "colours": colours, "pixels": pixels}
        shoot: Shoot = partial(_frames, **still, trail=trail, first=first is not None)
        if part.suffix == ".mp4":
            _write_mp4(part, shoot, times, pixels, fps)
        else:
            _write_gif(part, shoot, times, colours, pixels, fps)
    return Path(path)


def _even(size: tuple[int, int]) -> tuple[int, int]:
    """H.264 with the colours browsers play (yuv420p) needs even sizes."""
    width, height = (int(side) + int(side) % 2 for side in size)
    if min(width, height) < 16 or max(width, height) > 4096:
        raise InputError(f"A film is 16 to 4096 pixels wide and high, not {size}.")
    return width, height


def _frames(
    times: Floats, *, motion: Motion, seen: View, colours: Floats, pixels: tuple[int, int], trail: float, first: bool
) -> Iterator[Frame]:
    """Pictures one by one. What does not move is drawn once; each frame restores it and draws dots and time over it."""
    places, depth = seen.place(times, motion.at(times))  # (m, n, 2), (m, n)
    tints = colours[motion.latest(times)]  # (m, n, 4)
    with paper():
        figure, panel = _stage(motion, seen, pixels, colours, first)
        dots = draw_dots(panel, places[0], depth[0], tints[0], seen.shading, first)
        lines = LineCollection([], linewidths=1.0, zorder=3, capstyle="round")
        panel.add_collection(lines, autolim=False)
        # the words before the time stand still: only plain digits are laid out again, mathematics would take longer
        edge = 0.1 if motion.clock == "t" else 0.15
        figure.text(edge, 0.94, motion.clock_words, fontsize=11, va="baseline", ha="right")
        clock = figure.text(edge + 0.012, 0.94, "", fontsize=11, va="baseline")
        for artist in (dots, lines, clock):
            artist.set_animated(True)
        canvas: Any = figure.canvas
        canvas.draw()
        still = canvas.copy_from_bbox(figure.bbox)
    resolution = float(np.clip(np.diff(times).min(initial=1.0), np.ptp(times) / 1000, None)) or None
    for k, time in enumerate(times):
        area = 1.6 * dot_area(dots_apart(panel, places[k]))
        offsets, areas, faces = arrange(places[k], depth[k], tints[k], area, seen.shading, first)
        dots.set_offsets(offsets)
        dots.set_sizes(areas)
        dots.set_facecolor(faces)
        clock.set_text(motion.reading(float(time), resolution))
        if trail > 0:
            _trails(lines, motion, seen, colours, float(time), trail)
        canvas.restore_region(still)
        with DRAWING:  # text layout is not thread-safe
            for artist in (lines, dots, clock):
                figure.draw_artist(artist)
        yield np.asarray(canvas.buffer_rgba()).copy()


def _stage(motion: Motion, seen: View, pixels: tuple[int, int], colours: Floats, first: bool) -> tuple[Figure, Axes]:
    """The figure without its moving parts; d = 1 has the whole paths, faint, behind the dots."""
    width, height = pixels
    figure = new_figure(INCHES, INCHES * height / width)
    figure.set_dpi(width / INCHES)
    figure.set_layout_engine("none")
    bare = seen.name in ("sphere", "circle", "box")
    panel = figure.add_axes((0.02, 0.02, 0.96, 0.90) if bare else (0.15, 0.12, 0.80, 0.77))
    seen.backdrop(panel)
    panel.set_anchor("C")
    if motion.d == 1:
        draw_paths(panel, motion, seen, paler(colours, 0.55), first)
    if motion.note:
        figure.text(0.98, 0.015, motion.note, fontsize=7, color=SOFT, ha="right")
    return figure, panel


def _trails(lines: LineCollection, motion: Motion, seen: View, colours: Floats, time: float, trail: float) -> None:
    """The last stretch of every path in five pieces, fading towards its beginning and on the far side."""
    fine = np.linspace(max(time - trail, float(motion.t[0])), time, 16)
    places, depth = seen.place(fine, motion.at(fine))  # (16, n, 2), (16, n)
    starts = np.arange(0, 15, 3)
    pieces = [places[s : s + 4].swapaxes(0, 1) for s in starts]  # (n, 4, 2) each
    tints = np.repeat(colours[motion.latest([time])], 5, axis=0)  # (5, n, 4)
    behind = (depth[starts + 1] < 0) & (seen.shading >= 1)
    tints[..., 3] = np.linspace(0.15, 0.85, 5)[:, None] * np.where(behind, 0.35, 1.0)
    lines.set_segments(list(np.concatenate(pieces)))
    lines.set_color(tints.reshape(-1, 4))


def _write_mp4(part: Path, shoot: Shoot, times: Floats, pixels: tuple[int, int], fps: int) -> None:
    # Colours are converted and labelled as BT.709, which browsers assume; `faststart` lets them play while loading.
    options = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "19", "-preset", "veryfast"]
    options += ["-vf", "scale=out_color_matrix=bt709:out_range=tv", "-colorspace", "bt709"]
    options += ["-color_primaries", "bt709", "-color_trc", "bt709", "-movflags", "+faststart"]
    _encode(part, shoot(times), pixels, fps, options)


def _write_gif(part: Path, shoot: Shoot, times: Floats, colours: Floats, pixels: tuple[int, int], fps: int) -> None:
    from PIL import Image

    # One palette for the whole film, so that colours do not flicker: from frames spread over it, and from swatches of
    # every token's colour, which cover too few pixels of a frame to be sure of a place.
    sample = [Image.fromarray(frame[..., :3]) for frame in shoot(times[:: max(1, len(times) // 5)])]
    strip = Image.new("RGB", (pixels[0], pixels[1] * len(sample) + pixels[1] // 2))
    for k, picture in enumerate(sample):
        strip.paste(picture, (0, k * pixels[1]))
    strip.paste(_swatches(colours, (pixels[0], pixels[1] // 2)), (0, pixels[1] * len(sample)))
    table = np.zeros((256, 3), dtype=np.uint8)
    found = np.array(strip.quantize(255, method=Image.Quantize.MEDIANCUT).getpalette(), dtype=np.uint8).reshape(-1, 3)
    table[: min(255, len(found))] = found[:255]
    table[255] = 255  # the paper itself
    palette = part.with_suffix(".png")
    try:
        Image.fromarray(table.reshape(16, 16, 3)).save(palette)
        options = ["-i", str(palette), "-lavfi", "[0:v][1:v]paletteuse=dither=none:diff_mode=rectangle", "-loop", "0"]
        _encode(part, shoot(times), pixels, fps, options)
    finally:
        palette.unlink(missing_ok=True)


def _encode(part: Path, film: Iterator[Frame], pixels: tuple[int, int], fps: int, options: list[str]) -> None:
    """Pipe pictures through ffmpeg into a file; raises OSError with its last words when it fails.

    imageio-ffmpeg provides the program. Its own writer is not used: it forks with Python code in the child, which can
    lock up a process that has threads, and JAX always has.
    """
    import imageio_ffmpeg

    source = ["-f", "rawvideo", "-pix_fmt", "rgba", "-s", f"{pixels[0]}x{pixels[1]}", "-r", str(fps), "-i", "-"]
    same_bytes = ["-map_metadata", "-1", "-fflags", "+bitexact", "-flags:v", "+bitexact"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *source, *options, *same_bytes, str(part)]
    with tempfile.TemporaryFile() as said:
        # A process group of its own: Ctrl-C reaches Python alone, which then stops the encoder and cleans up.
        encoder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=said, stderr=said, process_group=0)
        assert encoder.stdin is not None
        try:
            with suppress(BrokenPipeError):  # it gave up: its words follow
                for frame in film:
                    encoder.stdin.write(frame)
                encoder.stdin.close()
            code = encoder.wait()
        finally:
            encoder.kill()
            encoder.wait()
            with suppress(BrokenPipeError):
                encoder.stdin.close()
        if code != 0 or part.stat().st_size == 0:
            said.seek(0)
            words = said.read().decode(errors="replace").strip().splitlines()
            raise OSError(words[-1] if words else f"the encoder stopped with code {code}")


def _swatches(colours: Floats, size: tuple[int, int]) -> Any:
    """Stripes of the tokens' colours, plain and as pale as on the far side."""
    from PIL import Image

    plain = np.unique(np.round(colours.reshape(-1, 4), 3), axis=0)[:40]
    tints = np.concatenate([paler(plain, amount) for amount in (0.0, 0.2, 0.45)])[:, :3]
    return Image.fromarray((255 * tints[None]).round().astype(np.uint8)).resize(size, Image.Resampling.NEAREST)
