"""Chunks: the units of work. Where they are cut depends on the settings alone, and each is computed by one function.

So results are the same, bit for bit, on every engine, with any number of workers and in any order.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from metastable import __version__
from metastable.errors import InputError, Misuse
from metastable.sweeps.axes import plain, restored
from metastable.sweeps.designs import SAMPLE, Box
from metastable.sweeps.spec import Spec
from metastable.sweeps.targets import TARGETS

SECONDS = 1.0  # nominal, of one chunk: long beside what a task costs, short beside a sweep
ROWS = 2**18  # at most so many rows in a chunk
_TRIED = 64  # groups of which more runs than the first are tried before a sweep starts


@dataclass(frozen=True)
class Chunk:
    """Runs ``first`` to ``last`` - 1 of a box. ``number`` is the chunk's own in the sweep."""

    number: int
    box: Box
    first: int
    last: int
    offset: int  # number of the box's first run in the sweep
    how: Mapping[str, Any]

    @property
    def runs(self) -> int:
        """How many runs it has."""
        return self.last - self.first


@dataclass(frozen=True)
class Part:
    """A box and how it is cut: for every combination of its outer axes a chunk size and what `Target.prepare` decided.

    ``sizes`` and ``hows`` have one entry for each combination; a chunk never has runs of two.
    """

    box: Box
    outer: int  # how many of the box's axes are outer
    sizes: tuple[int, ...]
    hows: tuple[Mapping[str, Any], ...]
    offset: int = 0  # number of its first run
    before: int = 0  # chunks of earlier parts
    seconds: float = field(default=0.0, compare=False)  # estimated, for all its runs
    bytes: float = field(default=0.0, compare=False)  # estimated, of one chunk

    @cached_property
    def inner(self) -> int:
        """Runs of one combination."""
        return self.box.runs // len(self.sizes)

    @cached_property
    def ends(self) -> np.ndarray:
        """Chunks up to and with each combination."""
        return np.cumsum([-(-self.inner // size) for size in self.sizes])

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return int(self.ends[-1])

    def chunk(self, k: int) -> Chunk:
        """Chunk k of this part."""
        group = int(np.searchsorted(self.ends, k, side="right"))
        place = k - (int(self.ends[group - 1]) if group else 0)
        first = group * self.inner + place * self.sizes[group]
        last = min(first + self.sizes[group], (group + 1) * self.inner)
        return Chunk(self.before + k, self.box, first, last, self.offset, self.hows[group])

    def plain(self) -> dict[str, Any]:
        """The part as JSON holds it."""
        axes = {name: plain(values) for name, values in self.box.axes.items()}
        kept = {name: getattr(self, name) for name in ("outer", "offset", "before", "seconds", "bytes")}
        return {"axes": axes, "sizes": list(self.sizes), "hows": [dict(how) for how in self.hows], **kept}


def restored_part(stored: Mapping[str, Any]) -> Part:
    """The inverse of `Part.plain`."""
    axes: dict[str, Any] = {name: restored(values) for name, values in stored["axes"].items()}
    kept = {name: stored[name] for name in ("outer", "offset", "before", "seconds", "bytes")}
    return Part(Box(axes), sizes=tuple(stored["sizes"]), hows=tuple(stored["hows"]), **kept)


def cut(spec: Spec, box: Box, offset: int, before: int) -> Part:
    """Cut a box into chunks of about `SECONDS` nominal seconds, in powers of two; runs of each group are tried."""
    names, target = list(box.axes), TARGETS[spec.target]
    drawn = set() if spec.draws is None else set(spec.draws.ranges)
    inner = {*target.inner} - ({SAMPLE} if drawn - {*target.inner} else set())
    outer = next((k for k, name in enumerate(names) if name in inner), len(names))
    groups = int(np.prod([len(box.axes[name]) for name in names[:outer]], dtype=np.int64))
    each = box.runs // groups
    sizes, hows, seconds, most = [], [], 0.0, 0.0
    known: dict[Any, tuple[Any, float, float]] = {}
    for group in range(groups):
        first = _point(spec, box, group * each)
        key = tuple(v for name, v in first.items() if name not in target.inner)
        if key not in known:
            known[key] = _prepared(spec, first)
            for run in _others(box, outer) if len(known) <= _TRIED else ():
                _prepared(spec, _point(spec, box, group * each + run))
        how, cost, size = known[key]
        count = spec.times if isinstance(spec.times, int) else len(spec.times)
        sizes.append(chunk_size(target.seconds({**spec.base, **first}, count), count, target.most))
        hows.append(how)
        seconds += cost * each
        most = max(most, size * min(sizes[-1], each))
    return Part(box, outer, tuple(sizes), tuple(hows), offset, before, seconds, most)


def _prepared(spec: Spec, point: Mapping[str, Any]) -> tuple[dict[str, Any], float, float]:
    """`Target.prepare`; a refusal names the parameters of the run that cannot be."""
    try:
        return TARGETS[spec.target].prepare(spec, point)
    except Misuse:
        raise
    except InputError as error:
        tried = ", ".join(f"{name} = {value}" for name, value in point.items())
        raise InputError(f"{error} (Tried with {tried}.)") from error


def _others(box: Box, outer: int) -> list[int]:
    """Runs of a group that differ from its first in one inner parameter: every name, and the last of other values."""
    found, stride = [], 1
    for values in reversed(list(box.axes.values())[outer:]):
        last = len(values) - 1
        names = not isinstance(values, range) and isinstance(values[0], str)
        found += [stride * k for k in (range(1, last + 1) if names else [last] if last else [])]
        stride *= len(values)
    return found


def chunk_size(seconds: float, times: int, most: int) -> int:
    """The largest power of two whose runs take at most `SECONDS` and give at most `ROWS` rows."""
    fits = min(SECONDS / seconds, ROWS / max(times, 1), most)
    return 1 << max(0, int(np.floor(np.log2(max(fits, 1.0)))))


def all_chunks(parts: list[Part]) -> Iterator[Chunk]:
    """Every chunk of a sweep, in order, one at a time."""
    for part in parts:
        for k in range(part.chunks):
            yield part.chunk(k)


def numbered(parts: Sequence[Part], number: int) -> Chunk | None:
    """The chunk of a number; None where the sweep has none of it."""
    for part in parts:
        if part.before <= number < part.before + part.chunks:
            return part.chunk(number - part.before)
    return None


def points(spec: Spec, box: Box, runs: np.ndarray) -> dict[str, list[Any]]:
    """The parameters of some runs of a box, drawn ones included."""
    columns: dict[str, list[Any]] = dict(box.columns(runs))
    if spec.draws is not None:
        samples = np.array(columns[SAMPLE], dtype=np.int64)
        columns |= {name: values.tolist() for name, values in spec.draws.columns(samples).items()}
    return columns


def _point(spec: Spec, box: Box, run: int) -> dict[str, Any]:
    """The parameters of one run."""
    return {name: values[0] for name, values in points(spec, box, np.array([run])).items()}


def compute(spec: Spec, chunk: Chunk) -> bytes:
    """A chunk's rows as a parquet file: what every worker does, wherever it is."""
    if spec.version != __version__:
        raise InputError(f"The worker has metastable {__version__} and the driver {spec.version}; install the same.")
    numbers = np.arange(chunk.first, chunk.last)
    columns = points(spec, chunk.box, numbers)
    found = TARGETS[spec.target].rows(spec, chunk.how, columns)
    return as_parquet(spec, columns, found, chunk.offset + numbers)


def as_parquet(spec: Spec, columns: Mapping[str, list[Any]], found: dict[str, Any], numbers: np.ndarray) -> bytes:
    """Parameters beside what was measured: one row for each run and time."""
    import pyarrow
    from pyarrow import parquet

    place = found.pop("run")
    out = {"run": pyarrow.array(numbers[place])}
    for name, values in columns.items():
        out[name] = pyarrow.array(values).take(pyarrow.array(place))
    if "seed" in TARGETS[spec.target].table.model_fields and "seed" not in out:
        out["seed"] = pyarrow.array(np.full(len(place), int(spec.base.get("seed", 0))))
    out |= {name: pyarrow.array(values) for name, values in found.items()}
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(out), buffer, compression="zstd", write_page_checksum=True)
    return buffer.getvalue()
