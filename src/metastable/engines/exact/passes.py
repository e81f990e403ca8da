"""The ways in which an exact sum can be made, each over all its pairs; `sums` chooses between them."""

from typing import NamedTuple

import numpy as np

from metastable.engines.exact import blas_tiles, tiles
from metastable.engines.exact.rows import TILE, row_sums, symmetric_sums
from metastable.engines.exact.task import Task
from metastable.engines.simd import packing as pack
from metastable.engines.simd import products as product
from metastable.engines.simd import threads
from metastable.engines.simd.vectors import WIDTH

_PARTS = 8  # private sums of the symmetric kernel, whatever the number of threads: sums come out the same
# powers of two between the least and the largest possible weight up to which one bound serves a whole row
_SPAN = {np.dtype(np.float64): 900.0, np.dtype(np.float32): 100.0}


class Partial(NamedTuple):
    """Sums ``out`` (n, v) and totals ``z`` (n,) of the weights, both over 2^power, one whole number per row."""

    out: np.ndarray
    z: np.ndarray
    power: np.ndarray


def bounds(task: Task) -> np.ndarray | None:
    """For each row a whole number above all its scores; None where one bound cannot serve all weights of a row."""
    # the longest key up to a row's last one, so that a causal token does not depend on later ones in any digit
    longest = np.maximum.accumulate(np.einsum("jd,jd->j", task.k, task.k, dtype=np.float64))[task.high - 1]
    bound = np.ceil(np.sqrt(np.einsum("id,id->i", task.q, task.q, dtype=np.float64) * longest))
    return bound if 2 * bound.max() <= _SPAN[task.dtype] else None


def by_rows(task: Task, bound: np.ndarray, parts: int) -> Partial:
    """At most three coordinates, everything in registers, in ``parts`` pieces."""
    Q, K, S = _in_rows(task)
    sums = np.zeros((4, len(task.q)))
    cuts = threads.pieces(len(task.q), parts)
    width = WIDTH[task.dtype]
    threads.share(lambda p: row_sums(Q, K, S, task.low, task.high, bound, *cuts[p], sums, width), len(cuts))
    return _finished(task, sums, bound)


def by_symmetry(task: Task, bound: np.ndarray, parts: int) -> Partial:
    """The same in float64 when <q_i, k_j> = <q_j, k_i> and all is visible: every weight serves two rows."""
    Q, K, S = _in_rows(task)
    bound = np.full(len(bound), bound.max())
    private = min(max(_PARTS, threads.cores()), -(-K.shape[1] // TILE))  # a number that only n decides
    out = np.zeros((private, *S.shape))

    def one(p: int) -> None:
        for part in range(p, private, parts):
            symmetric_sums(Q, K, S, bound[0], part, private, out[part], WIDTH[task.dtype])

    threads.share(one, min(parts, private))
    return _finished(task, out.sum(axis=0), bound)


def _in_rows(task: Task) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    Q, K = (pack.coordinates(a, 3, task.dtype) for a in (task.q, task.k))
    return Q, K, pack.sources(task.v, task.weights, 4, task.dtype)


def _finished(task: Task, sums: np.ndarray, bound: np.ndarray) -> Partial:
    rows = len(task.q)
    return Partial(sums[1 : 1 + task.v.shape[1], :rows].T, sums[0, :rows], _powers(bound))


def by_tiles(task: Task, parts: int, hard: bool = False) -> Partial:
    """Any number of coordinates, any scores; both products of a tile by our own vectors."""
    n, width = len(task.k), WIDTH[task.dtype]
    panel = product.VECTORS * width
    columns = -(-n // panel) * panel
    Q = pack.upright(task.q, tiles.ROWS, task.dtype)
    K = pack.key_panels(task.k, panel, task.dtype)
    V = pack.value_panels(task.v, columns, panel, task.dtype)
    w = _token_weights(task, columns)
    out = pack.aligned((len(Q), len(V) // columns * panel), task.dtype)
    z, m = np.zeros(len(Q)), np.full(len(Q), -np.inf)
    run = tiles.hard_sums if hard else tiles.tile_sums
    cuts = threads.pieces(len(task.q), parts, tiles.ROWS)

    def one(p: int) -> None:
        room = pack.aligned((tiles.ROWS, tiles.COLUMNS), task.dtype)
        run(Q, K, V, w, task.low, task.high, *cuts[p], room, out, z, m, width)

    threads.share(one, len(cuts))
    rows = len(task.q)
    power = np.zeros(rows, np.int64) if hard else _powers(m[:rows])
    return Partial(out[:rows, : task.v.shape[1]], z[:rows], power)


def by_blas(task: Task, parts: int) -> Partial:
    """The same with the products made by BLAS."""
    (rows, d), v = task.q.shape, task.v.shape[1]
    K, V = (blas_tiles.padded(a, task.dtype) for a in (task.k, task.v))
    Q, w = np.ascontiguousarray(task.q, task.dtype), _token_weights(task, len(K))
    out, z, m = np.zeros((rows, v), task.dtype), np.zeros(rows), np.full(rows, -np.inf)
    tall = blas_tiles.rows_of(max(d, v))
    cuts = threads.pieces(len(task.q), parts, tall)

    def one(p: int) -> None:
        room = pack.aligned((1, tall * (blas_tiles.COLUMNS + v)), task.dtype)[0]
        cut = (*cuts[p], tall, room)
        blas_tiles.blas_tile_sums(Q, K, V, w, task.low, task.high, *cut, out, z, m, WIDTH[task.dtype])

    threads.share(one, len(cuts))
    return Partial(out, z, _powers(m))


def _powers(exponents: np.ndarray) -> np.ndarray:
    """Whole exponents of two as integers; far beyond the range of floats one is as good as another."""
    return np.asarray(np.clip(exponents, -(2.0**20), 2.0**20).astype(np.int64))


def _token_weights(task: Task, columns: int) -> np.ndarray:
    w = pack.aligned((1, columns), task.dtype)
    w[0, : len(task.k)] = 1.0 if task.weights is None else task.weights
    return w
