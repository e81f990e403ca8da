"""Films of moving tokens: MP4 for browsers, GIF for everything else."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metastable.errors import InputError, door
from metastable.plots.colours import Color, paler, token_colours
from metastable.plots.encoder import SUFFIXES, encode, mp4_options
from metastable.plots.figure_files import whole_file
from metastable.plots.frames import Scene, shoot
from metastable.plots.motion import Movable, read_motion
from metastable.plots.paint import NV12, RGB
from metastable.plots.shown_times import clock_times
from metastable.plots.spaces import view_of

if TYPE_CHECKING:
    from PIL import Image

Floats = NDArray[np.float64]


@door
def animate(
    tokens: Movable,
    path: str | os.PathLike[str],
    *,
    t: ArrayLike | None = None,
    frames: int = 150,
    fps: int = 25,
    spacing: str = "linear",
    size: tuple[int, int] | None = None,
    trail: float = 0.0,
    color: Color = None,
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
    with whole_file(path, SUFFIXES, ", or .html for a page that plays (`metastable animate`, `run.export`)") as part:
        motion = read_motion(tokens, t, run, geometry)
        pixels = _even(size or ((720, 720) if part.suffix == ".mp4" else (480, 480)))
        times, colours = clock_times(motion, frames, spacing), token_colours(motion, color, first)
        scene = Scene(motion, view_of(motion, angles=view), colours, pixels, trail, first is not None)
        (_write_mp4 if part.suffix == ".mp4" else _write_gif)(part, scene, times, fps)
    return Path(path)


def _even(size: tuple[int, int]) -> tuple[int, int]:
    """H.264 with the colours browsers play (yuv420p) needs even sizes."""
    width, height = (int(side) + int(side) % 2 for side in size)
    if min(width, height) < 16 or max(width, height) > 4096:
        raise InputError(f"A film is 16 to 4096 pixels wide and high, not {size}.")
    return width, height


def _write_mp4(part: Path, scene: Scene, times: Floats, fps: int) -> None:
    # Frames come in the colours that are stored and browsers assume, and are labelled so; trails are drawn by
    # matplotlib in red, green and blue, which the encoder converts.
    pixels = RGB if scene.trail > 0 else NV12
    encode(part, shoot(scene, times, pixels), scene.size, pixels.name, fps, mp4_options(pixels is RGB))


def _write_gif(part: Path, scene: Scene, times: Floats, fps: int) -> None:
    from PIL import Image

    # One palette for the whole film, so that colours do not flicker: from frames spread over it, and from swatches of
    # every token's colour, which cover too few pixels of a frame to be sure of a place.
    width, height = scene.size
    some = shoot(scene, times[:: max(1, len(times) // 5)], RGB)
    sample = [Image.fromarray(frame.reshape(height, width, 3).copy()) for frame in some]
    strip = Image.new("RGB", (width, height * len(sample) + height // 2))
    for k, picture in enumerate(sample):
        strip.paste(picture, (0, k * height))
    strip.paste(_swatches(scene.colours, (width, height // 2)), (0, height * len(sample)))
    table = np.zeros((256, 3), dtype=np.uint8)
    found = np.array(strip.quantize(255, method=Image.Quantize.MEDIANCUT).getpalette(), dtype=np.uint8).reshape(-1, 3)
    table[: min(255, len(found))] = found[:255]
    table[255] = 255  # the paper itself
    palette = part.with_suffix(".png")
    try:
        Image.fromarray(table.reshape(16, 16, 3)).save(palette)
        options = ["-i", str(palette), "-lavfi", "[0:v][1:v]paletteuse=dither=none:diff_mode=rectangle", "-loop", "0"]
        encode(part, shoot(scene, times, RGB), scene.size, RGB.name, fps, options)
    finally:
        palette.unlink(missing_ok=True)


def _swatches(colours: Floats, size: tuple[int, int]) -> "Image.Image":
    """Stripes of the tokens' colours, plain and as pale as on the far side."""
    from PIL import Image

    plain = np.unique(np.round(colours.reshape(-1, 4), 3), axis=0)[:40]
    tints = np.concatenate([paler(plain, amount) for amount in (0.0, 0.2, 0.45)])[:, :3]
    return Image.fromarray((255 * tints[None]).round().astype(np.uint8)).resize(size, Image.Resampling.NEAREST)
