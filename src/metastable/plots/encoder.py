"""Frames into a film file, through ffmpeg."""

import os
import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from metastable.plots.figure_files import whole_file
from metastable.plots.paint import RGB, Bytes

SUFFIXES = (".mp4", ".gif")
# What the quickest preset leaves out and a picture that is mostly still gains from: as clear as "veryfast" in 60%
# of its time.
_ENCODER = "cabac=1:8x8dct=1:deblock=1:aq-mode=1:mbtree=1:rc-lookahead=10:scenecut=0"
_PALETTE = ["-lavfi", "split[a][b];[a]palettegen=stats_mode=full[p];[b][p]paletteuse=dither=none", "-loop", "0"]


def write_film(path: str | os.PathLike[str], frames: Iterable[Bytes], size: tuple[int, int], fps: int) -> Path:
    """Write frames of red, green and blue bytes as .mp4 or .gif; the file appears only when it is complete.

    Parameters
    ----------
    path
        Where to; the suffix chooses the format.
    frames
        Flat arrays of bytes, one after another: height x width x 3 each.
    size
        Width and height in pixels, both even.
    fps
        Frames a second.

    Examples
    --------
    >>> import numpy as np
    >>> grey = (np.full(16 * 16 * 3, 10 * k, dtype=np.uint8) for k in range(5))
    >>> write_film("/tmp/metastable-doctest/grey.mp4", grey, (16, 16), fps=5).name
    'grey.mp4'
    """
    with whole_file(path, SUFFIXES) as part:
        encode(part, frames, size, RGB.name, fps, mp4_options(True) if part.suffix == ".mp4" else _PALETTE)
    return Path(path)


def mp4_options(convert: bool) -> list[str]:
    """Options of H.264 as browsers play it; ``convert`` for frames in red, green and blue.

    `faststart` lets films play while loading.
    """
    options = ["-c:v", "libx264", "-crf", "17", "-preset", "ultrafast", "-x264-params", _ENCODER, "-threads", "1"]
    options += ["-pix_fmt", "yuv420p", "-vf", "scale=out_color_matrix=bt709:out_range=tv"] if convert else []
    options += ["-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv"]
    return [*options, "-movflags", "+faststart"]


def encode(
    part: Path, frames: Iterable[Bytes], size: tuple[int, int], pixels: str, fps: int, options: list[str]
) -> None:
    """Pipe pictures through ffmpeg into a file; raises OSError with the last line of its output when it fails.

    imageio-ffmpeg provides the program. Its own writer is not used: it forks with Python code in the child, which can
    lock up a process that has threads, and JAX always has.
    """
    import imageio_ffmpeg

    shape = "x".join(map(str, size))
    source = ["-f", "rawvideo", "-pix_fmt", pixels, "-s", shape, "-r", str(fps), "-i", "-"]
    same_bytes = ["-map_metadata", "-1", "-fflags", "+bitexact", "-flags:v", "+bitexact"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *source, *options, *same_bytes, str(part)]
    with tempfile.TemporaryFile() as output:
        # A process group of its own: Ctrl-C reaches Python alone, which then stops the encoder and cleans up.
        encoder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, process_group=0)
        assert encoder.stdin is not None
        try:
            with suppress(BrokenPipeError):  # it stopped early: its output is read below
                for frame in frames:
                    encoder.stdin.write(frame)
                encoder.stdin.close()
            code = encoder.wait()
        finally:
            encoder.kill()
            encoder.wait()
            with suppress(BrokenPipeError):
                encoder.stdin.close()
        if code != 0 or part.stat().st_size == 0:
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()
            raise OSError(lines[-1] if lines else f"the encoder stopped with code {code}")
