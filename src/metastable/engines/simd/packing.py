"""Arrays as the kernels want them: padded with zeros, aligned to a cache line."""

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import DTypeLike

from metastable.engines.simd.vectors import WIDTH


def aligned(shape: tuple[int, int], dtype: DTypeLike) -> np.ndarray:
    """Zeros whose first entry starts a cache line of 64 bytes, so that no vector straddles two lines."""
    size = np.dtype(dtype).itemsize
    room = np.zeros(shape[0] * shape[1] + 64 // size, dtype)
    skip = -(room.__array_interface__["data"][0] // size) % (64 // size)
    return room[skip : skip + shape[0] * shape[1]].reshape(shape)


def blocks(shapes: Sequence[tuple[int, int]]) -> list[np.ndarray]:
    """Zeros of several shapes in one piece of memory, each aligned as by `aligned`."""
    lines = [-(-rows * columns // 8) for rows, columns in shapes]  # of 64 bytes
    room, found, first = aligned((sum(lines), 8), np.float64).reshape(-1), [], 0
    for (rows, columns), count in zip(shapes, lines):
        found.append(room[8 * first : 8 * first + rows * columns].reshape(rows, columns))
        first += count
    return found


_kept = threading.local()
_MOST = 1 << 26  # bytes of an array that is kept


def room(name: str, shape: tuple[int, int]) -> np.ndarray:
    """An aligned array of floats that hold anything; the next caller in this thread with that ``name`` gets it again.

    A velocity in linear time is quick enough for the system's work on fresh pages to be a fifth of it.
    """
    held: np.ndarray | None = getattr(_kept, name, None)
    if held is None or held.shape != shape:
        held = aligned(shape, np.float64)
        setattr(_kept, name, held if held.nbytes <= _MOST else None)
    return held


def padded(n: int, dtype: DTypeLike) -> int:
    """n rounded up to an odd number of vectors: rows of such arrays do not meet in the same cache sets."""
    width = WIDTH[np.dtype(dtype)]
    return (-(-n // width) | 1) * width


def coordinates(points: np.ndarray, count: int, dtype: DTypeLike) -> np.ndarray:
    """Points (n, d) as ``count`` >= d rows of coordinates, (count, padded n)."""
    out = aligned((count, padded(len(points), dtype)), dtype)
    out[: points.shape[1], : len(points)] = points.T
    return out


def sources(values: np.ndarray, weights: np.ndarray | None, count: int, dtype: DTypeLike) -> np.ndarray:
    """The rows (w, w v_1, ..., w v_c) that a kernel sums, (count, padded n)."""
    out = aligned((count, padded(len(values), dtype)), dtype)
    w = 1.0 if weights is None else weights
    out[0, : len(values)] = w
    out[1 : 1 + values.shape[1], : len(values)] = w * values.T
    return out


def upright(points: np.ndarray, rows: int, dtype: DTypeLike) -> np.ndarray:
    """Points (n, d) with n rounded up to a multiple of ``rows``."""
    out = aligned((-(-len(points) // rows) * rows, points.shape[1]), dtype)
    out[: len(points)] = points
    return out


def key_panels(k: np.ndarray, width: int, dtype: DTypeLike) -> np.ndarray:
    """Keys (n, d) turned round and cut into panels of ``width`` columns below each other, (panels * d, width)."""
    count = -(-len(k) // width)
    whole = np.zeros((count * width, k.shape[1]), dtype)
    whole[: len(k)] = k
    out = aligned((count * k.shape[1], width), dtype)
    out.reshape(count, k.shape[1], width)[:] = whole.reshape(count, width, -1).swapaxes(1, 2)
    return out


def value_panels(v: np.ndarray, rows: int, width: int, dtype: DTypeLike) -> np.ndarray:
    """Values (n, c), padded to ``rows``, cut into panels of ``width`` columns, (panels * rows, width)."""
    count = -(-v.shape[1] // width)
    whole = np.zeros((len(v), count * width), dtype)
    whole[:, : v.shape[1]] = v
    out = aligned((count * rows, width), dtype)
    out.reshape(count, rows, width)[:, : len(v)] = whole.reshape(len(v), count, width).swapaxes(0, 1)
    return out
