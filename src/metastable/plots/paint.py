"""Dots and words painted by NumPy into many frames at once, in the pixels that a film stores."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Pixels:
    """How a frame lies in memory: planes one after another, each with some channels of every step-th pixel.

    Parameters
    ----------
    name
        What ffmpeg calls it.
    matrix, offset
        From red, green and blue between 0 and 1 to the channels, (3, 3) and (3,).
    planes
        For each plane its channels and its step.
    """

    name: str
    matrix: Floats
    offset: Floats
    planes: tuple[tuple[slice, int], ...]

    def channels(self, colours: Any) -> Floats:
        """Channels of colours (..., 3)."""
        return np.asarray(np.asarray(colours, dtype=float) @ self.matrix.T + self.offset)

    def split(self, picture: Bytes) -> list[Bytes]:
        """The planes of a picture in red, green and blue (height, width, 3)."""
        if self is RGB:
            return [picture]
        colours = picture.astype(np.float32)
        planes = []
        for own, step in self.planes:
            matrix, offset = (self.matrix[own] / 255).astype(np.float32), self.offset[own].astype(np.float32)
            few = thinned(colours, step)  # before they become channels: there are fewer then
            mixed = sum(few[..., c, None] * matrix[:, c] for c in range(3)) + offset  # a product would wake all cores
            planes.append(np.round(mixed).astype(np.uint8))
        return planes


RGB = Pixels("rgb24", 255 * np.eye(3), np.zeros(3), ((slice(0, 3), 1),))

# BT.709 in the range of television, which browsers assume: brightness everywhere, colour at every second pixel.
_GREY = np.array([0.2126, 0.7152, 0.0722])
_BLUE, _RED = (np.eye(3)[2] - _GREY) / 1.8556, (np.eye(3)[0] - _GREY) / 1.5748
NV12 = Pixels(
    "nv12",
    np.stack([219 * _GREY, 224 * _BLUE, 224 * _RED]),
    np.array([16.0, 128.0, 128.0]),
    ((slice(0, 1), 1), (slice(1, 3), 2)),
)


def thinned(values: NDArray[Any], step: int) -> NDArray[Any]:
    """(height, width, ...) with the mean of every step x step pixels in their place."""
    if step == 1:
        return values
    parts = [values[i::step, j::step] for i in range(step) for j in range(step)]
    return np.asarray(sum(parts) / step**2)


class Canvas:
    """So many frames of one size to paint on, with a margin for dots that stick out of the picture.

    Parameters
    ----------
    pixels
        How frames lie in memory.
    count, size
        How many frames, and their width and height in pixels.
    reach
        The largest radius of a dot.
    """

    def __init__(self, pixels: Pixels, count: int, size: tuple[int, int], reach: float) -> None:
        self.pixels, self.size = pixels, size
        width, height = size
        self.out = int(np.ceil(reach)) + 2  # a dot that far outside is not seen
        self.planes = []
        for own, step in pixels.planes:
            margin = 2 * self._margin(step)
            shape = (count, height // step + margin, width // step + margin, own.stop - own.start)
            self.planes.append(np.empty(shape, np.uint8))

    def _margin(self, step: int) -> int:
        return 2 * (self.out // step + 1)

    def _inside(self) -> Iterator[Bytes]:
        """Views of the planes without their margins."""
        for plane, (_, step) in zip(self.planes, self.pixels.planes):
            rim = self._margin(step)
            yield plane[:, rim:-rim, rim:-rim]

    def lay(self, which: slice | int, parts: list[Bytes]) -> None:
        """Put a picture, split into planes, in place of what some frames hold."""
        for plane, part in zip(self._inside(), parts):
            plane[which] = part

    def dots(self, centres: Floats, radii: Floats, colours: Floats, rim: float, paper: Floats) -> None:
        """Paint one dot into each of the first frames.

        Parameters
        ----------
        centres
            Pixels from the left and from the top, (m, 2).
        radii, rim
            Pixels, (m,), and the width of the rim in the colour of the paper, half of it outside the dot.
        colours, paper
            Channels, (m, 3) and (3,).
        """
        held = np.clip(centres, -self.out, np.asarray(self.size) + self.out)  # (m, 2)
        for plane, (own, step) in zip(self.planes, self.pixels.planes):
            radius, half = (radii / step).astype(np.float32)[:, None, None], np.float32(rim / (2 * step))
            away = int(np.ceil(radius.max() + half)) + 1
            cells = np.floor(held / step)[:, :, None] + np.arange(-away, away + 1)  # (m, 2, k)
            off = np.square(cells + 0.5 - held[:, :, None] / step).astype(np.float32)
            short = radius + np.float32(0.5) - np.sqrt(off[:, 1, :, None] + off[:, 0, None, :])  # (m, k, k)
            inner = np.clip(short - half, 0, 1)  # how much of a pixel the dot covers
            outer = np.clip(short + half, 0, 1)  # and with its rim
            _, height, width, _ = plane.shape
            columns, rows = (cells.astype(np.intp) + self._margin(step)).swapaxes(0, 1)  # (m, k) each
            rows += height * np.arange(len(rows))[:, None]
            at = width * rows[:, :, None] + columns[:, None, :]  # flat numbers: several indices would take far longer
            for channel, white, tint in zip(plane.reshape(-1, plane.shape[-1]).T, paper[own], colours[:, own].T):
                under = channel[at]  # (m, k, k)
                colour = inner * (tint - white).astype(np.float32)[:, None, None]
                channel[at] = (under + outer * (np.float32(white) - under) + colour + np.float32(0.5)).astype(np.uint8)

    def words(self, which: int, cover: Floats, corner: tuple[int, int], ink: Floats) -> None:
        """Paint words into a frame: how much of each pixel they cover, and even numbers for their top left corner."""
        left, top = corner
        for plane, (own, step) in zip(self._inside(), self.pixels.planes):
            share = thinned(cover, step)[..., None]
            part = plane[which, top // step :, left // step :][: share.shape[0], : share.shape[1]]
            share = share[: part.shape[0], : part.shape[1]]
            part[...] = (1.0 - share) * part + share * ink[own] + 0.5

    def frames(self, count: int) -> Iterator[Bytes]:
        """The first frames, each as flat bytes that last until the next is requested."""
        planes = list(self._inside())
        ends = np.cumsum([0, *(plane[0].size for plane in planes)])
        frame = np.empty(ends[-1], np.uint8)
        for k in range(count):
            for plane, start, end in zip(planes, ends, ends[1:]):
                frame[start:end].reshape(plane.shape[1:])[...] = plane[k]
            yield frame
