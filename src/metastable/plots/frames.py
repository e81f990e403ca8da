"""The frames of a film: matplotlib draws once what does not move, and dots and the time are painted over it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from numpy.typing import NDArray

from metastable.plots.colours import paler
from metastable.plots.marks import RIM, RIMMED, arrange, dot_area, dots_apart
from metastable.plots.motion import Motion
from metastable.plots.paint import Bytes, Canvas, Pixels
from metastable.plots.snapshots import draw_paths
from metastable.plots.spaces import View
from metastable.plots.style import INK, PAPER, SOFT, new_figure, paper

Floats = NDArray[np.float64]

INCHES = 4.0  # width of the picture whatever its pixels, so that sizes of dots and words scale with it
_LARGEST = 5.0  # points: radius of a marked first token among few others, rounded up
_TOGETHER = 2**25  # bytes of frames painted together


@dataclass(frozen=True)
class Scene:
    """What a film shows: a run, how it is seen, colours (T, n, 4), width and height, trails, a marked first token."""

    motion: Motion
    seen: View
    colours: Floats
    size: tuple[int, int]
    trail: float
    first: bool


def shoot(scene: Scene, times: Floats, pixels: Pixels) -> Iterator[Bytes]:
    """The frames at some times one by one, each as flat bytes that last until the next is requested."""
    motion, (width, height) = scene.motion, scene.size
    resolution = float(np.clip(np.diff(times).min(initial=1.0), np.ptp(times) / 1000, None)) or None
    readings = [motion.reading(float(time), resolution) for time in times]
    with paper():
        stage = Stage(scene, "".join(readings))
    start = scene.seen.place(times[:1], motion.at(times[:1]))[0]  # (1, n, 2)
    rim = RIM * stage.point if dots_apart(stage.panel, start)[0] <= RIMMED else 0.0
    count = min(len(times), max(1, _TOGETHER // (2 * width * height)))
    canvas = Canvas(pixels, count, scene.size, _LARGEST * stage.point + rim)
    backdrop, white, ink = pixels.split(stage.still), pixels.channels(to_rgb(PAPER)), pixels.channels(to_rgb(INK))
    for begin in range(0, len(times), count):
        some = slice(begin, begin + count)
        canvas.lay(slice(None), backdrop)
        for k, time in enumerate(times[some] if scene.trail > 0 else ()):
            canvas.lay(k, pixels.split(stage.with_trails(scene, float(time))))
        places, radii, colours = _dots(scene, stage, times[some])
        tints = pixels.channels(colours[..., :3])  # (m, n, 3)
        for rank in range(motion.n):
            canvas.dots(places[:, rank], radii[:, rank], tints[:, rank], rim, white)
        for k, reading in enumerate(readings[some]):
            canvas.words(k, stage.words(reading), stage.corner, ink)
        yield from canvas.frames(len(radii))


def _dots(scene: Scene, stage: "Stage", times: Floats) -> tuple[Floats, Floats, Floats]:
    """Where dots are in pixels (m, n, 2), their radii (m, n) and colours (m, n, 4), far to near."""
    xy, depth = scene.seen.place(times, scene.motion.at(times))
    area = 1.6 * dot_area(dots_apart(stage.panel, xy))  # (m,)
    tints = scene.colours[scene.motion.latest(times)]  # (m, n, 4)
    xy, areas, tints = arrange(xy, depth, tints, area, scene.seen.shading, scene.first)
    places = stage.panel.transData.transform(xy.reshape(-1, 2)).reshape(xy.shape)
    places[..., 1] = scene.size[1] - places[..., 1]
    return places, np.sqrt(areas) / 2 * stage.point, tints


class Stage:
    """What does not move: the drawn backdrop, and the letters that tell the time.

    Attributes
    ----------
    panel
        The axes, for where things are.
    point
        Pixels in a point.
    still
        The picture without dots and time, (height, width, 3).
    corner
        Left and top of the words for the time in pixels, even numbers.
    """

    def __init__(self, scene: Scene, letters: str) -> None:
        figure, self.panel = _figure(scene)
        canvas: Any = figure.canvas  # Agg's, see `new_figure`
        self.canvas = canvas
        self.point = float(figure.dpi) / 72
        self.lines = LineCollection([], linewidths=1.0, zorder=3, capstyle="round", animated=True)
        self.panel.add_collection(self.lines, autolim=False)
        edge = 0.1 if scene.motion.clock == "t" else 0.15
        figure.text(edge, 0.94, scene.motion.clock_label, fontsize=11, va="baseline", ha="right")
        clock = figure.text(edge + 0.012, 0.94, "0(y", fontsize=11, va="baseline", animated=True)
        self.canvas.draw()
        self._background = self.canvas.copy_from_bbox(figure.bbox)
        self.still = self._picture().copy()
        box, room = clock.get_window_extent(), 2 * self.point
        self.corner = (_even(box.x0 - room), _even(scene.size[1] - box.y1 - room))
        rows = slice(self.corner[1], _even(scene.size[1] - box.y0 + room))
        self._letters = {letter: self._letter(clock, letter, rows) for letter in set(letters)}

    def _picture(self) -> Bytes:
        return np.asarray(self.canvas.buffer_rgba())[..., :3]

    def _letter(self, clock: Text, letter: str, rows: slice) -> tuple[Floats, float]:
        """How much of each pixel a letter covers, and how many pixels after it the next one begins."""
        wide, narrow = (
            self.canvas.get_renderer().get_text_width_height_descent(text, clock.get_fontproperties(), False)[0]
            for text in (f"0{letter}0", "00")
        )
        self.canvas.restore_region(self._background)
        clock.set_text(letter)
        self.canvas.figure.draw_artist(clock)
        left = self.corner[0]
        columns = slice(left, left + int(wide - narrow + 4 * self.point))
        drawn = self._picture()[rows, columns, 0].astype(float)
        return (255 - drawn) / (255 - 255 * to_rgb(INK)[0]), float(wide - narrow)

    def words(self, reading: str) -> Floats:
        """How much of each pixel a time in words covers, from the corner on."""
        first, _ = next(iter(self._letters.values()))
        cover = np.zeros((len(first), self.still.shape[1] - self.corner[0]))
        begin = 0.0
        for letter in reading:
            shape, advance = self._letters[letter]
            place = cover[:, round(begin) :][:, : shape.shape[1]]
            np.maximum(place, shape[:, : place.shape[1]], out=place)
            begin += advance
        return cover[:, : _even(begin + 4 * self.point)]

    def with_trails(self, scene: Scene, time: float) -> Bytes:
        """The picture with the last stretch of every path in five segments, fading towards its beginning and behind."""
        motion, seen = scene.motion, scene.seen
        fine = np.linspace(max(time - scene.trail, float(motion.t[0])), time, 16)
        places, depth = seen.place(fine, motion.at(fine))  # (16, n, 2), (16, n)
        starts = np.arange(0, 15, 3)
        segments = [places[s : s + 4].swapaxes(0, 1) for s in starts]  # (n, 4, 2) each
        tints = np.repeat(scene.colours[motion.latest([time])], 5, axis=0)  # (5, n, 4)
        behind = (depth[starts + 1] < 0) & (seen.shading >= 1)
        tints[..., 3] = np.linspace(0.15, 0.85, 5)[:, None] * np.where(behind, 0.35, 1.0)
        self.lines.set_segments(list(np.concatenate(segments)))
        self.lines.set_color(tints.reshape(-1, 4))
        self.canvas.restore_region(self._background)
        self.canvas.figure.draw_artist(self.lines)
        return self._picture()


def _even(number: float) -> int:
    """The even number below, at least 0: colours of films have half the resolution."""
    return max(0, 2 * int(number // 2))


def _figure(scene: Scene) -> tuple[Figure, Axes]:
    """The figure without its moving parts; d = 1 has the whole paths, faint, behind the dots."""
    (width, height), motion, seen = scene.size, scene.motion, scene.seen
    figure = new_figure(INCHES, INCHES * height / width)
    figure.set_dpi(width / INCHES)
    figure.set_layout_engine("none")
    bare = seen.name in ("sphere", "circle", "box")
    panel = figure.add_axes((0.02, 0.02, 0.96, 0.90) if bare else (0.15, 0.12, 0.80, 0.77))
    seen.backdrop(panel)
    panel.set_anchor("C")
    if motion.d == 1:
        draw_paths(panel, motion, seen, paler(scene.colours, 0.55), scene.first)
    if motion.note:
        figure.text(0.98, 0.015, motion.note, fontsize=7, color=SOFT, ha="right")
    return figure, panel
