"""Texts through a model, one at a time, with everything reduced as it is made.

One text at a time needs no padding, so none can be counted. Memory depends on the longest text and on the number of
layers, never on the number of texts. With a state file the work can be interrupted and resumed.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from metastable.errors import InputError
from metastable.models.model import Given, Model
from metastable.store.files import read_arrays, write_arrays

Progress = Callable[[int, int | None], None]
_SAVE_EVERY = 10.0  # seconds between state files
SAMPLE_TEXTS, SAMPLE_TOKENS = 64, 128  # what is remembered of the texts, for what is done on a few of them
SAMPLE_OTHERS = 4  # and of pictures, features and given states, which have hundreds of tokens


class Text(NamedTuple):
    """One text as the measured layers read it: its number, token ids (n,), and which of them are special."""

    number: int
    ids: np.ndarray
    special: np.ndarray


class Reducer(Protocol):
    """Something that sees every state and every map once, and remembers little."""

    name: str

    def settings(self) -> dict[str, Any]:
        """What a state file must agree on."""

    def states(self, text: Text, layer: int, x: np.ndarray) -> None:
        """Token states x (n, d) after ``layer`` layers."""

    def attention(self, text: Text, layer: int, A: np.ndarray) -> None:
        """The attention map A (h, n, n) of layer ``layer``, counted from 1."""

    def state(self) -> dict[str, np.ndarray]:
        """What it remembers, as arrays."""

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Take up where an earlier run stopped."""


@dataclass
class Tally:
    """What a stream has read: counts, the first text as given, a digest of all, and where the time went."""

    texts: int = 0
    tokens: int = 0
    cut: int = 0
    empty: int = 0
    single: int = 0
    first: Given = None
    sample: list[Given] = field(default_factory=list)  # beginnings of the first texts, or the first other inputs
    digest: str = ""
    seconds: dict[str, float] = field(default_factory=lambda: {"network": 0.0, "reduction": 0.0})

    def notes(self, longest: int) -> tuple[str, ...]:
        """What the reader of the numbers should know, a sentence each."""
        counts = {
            f"{_count(self.cut)} cut to the first {longest} tokens.": self.cut,
            f"{_count(self.empty)} left out, with nothing to read inside.": self.empty,
            f"{_count(self.single)} left with a single token, which makes no pair.": self.single,
        }
        return tuple(sentence for sentence, count in counts.items() if count)


def _count(texts: int) -> str:
    return "1 text was" if texts == 1 else f"{texts} texts were"


def stream(
    model: Model,
    texts: Iterable[Any],
    reducers: Sequence[Reducer],
    layers: int,
    longest: int,
    resume: Path | None = None,
    progress: Progress | None = None,
) -> Tally:
    """Run every text through ``layers`` layers of the model and show it to the reducers."""
    total = len(texts) if isinstance(texts, Sequence) else None
    settings = _settings(model, reducers, layers, longest)
    tally = Tally()
    done, digest = _restore(resume, settings, reducers, tally)
    saved = time.monotonic()
    for given in _read(model, texts, longest, tally):
        if tally.texts <= done:  # seen by the run that left the state file
            if tally.texts == done and tally.digest != digest:
                raise InputError(
                    f"The state file {str(resume)!r} was made with other texts; delete it or name another."
                )
            continue
        shown = show(model, tally.texts - 1, given, reducers, layers)
        tally.tokens, tally.single = tally.tokens + shown.tokens, tally.single + (shown.tokens < 2)
        tally.seconds["network"] += shown.network
        tally.seconds["reduction"] += shown.reduction
        if resume is not None and time.monotonic() - saved > _SAVE_EVERY:
            _save(resume, settings, reducers, tally)
            saved = time.monotonic()
        if progress is not None:
            progress(tally.texts, total)
    if tally.texts == 0:
        raise InputError("There is no text to read: everything given is empty.")
    if tally.texts < done:
        raise InputError(f"The state file {str(resume)!r} was made with more texts; delete it or name another.")
    if resume is not None and tally.texts > done:
        _save(resume, settings, reducers, tally)
    return tally


def _read(model: Model, texts: Iterable[Any], longest: int, tally: Tally) -> Iterator[Given]:
    """Texts as the model takes them, cut to ``longest``, with the tally kept."""
    for text in texts:
        reading = model.read(text, longest)
        if reading is None:
            tally.empty += 1
            continue
        given = reading.given
        tally.first = given if tally.texts == 0 else tally.first
        words = isinstance(given, list)
        if len(tally.sample) < (SAMPLE_TEXTS if words else SAMPLE_OTHERS):
            tally.sample.append(given[:SAMPLE_TOKENS] if words else given)
        tally.texts, tally.cut = tally.texts + 1, tally.cut + reading.cut
        told = given.tobytes() if isinstance(given, np.ndarray) else str(given).encode()
        tally.digest = hashlib.sha256(tally.digest.encode() + b" " + told).hexdigest()
        yield given


class Shown(NamedTuple):
    """How many tokens a text had, and the seconds spent in the network and in the reducers."""

    tokens: int
    network: float
    reduction: float


def show(model: Model, number: int, given: Given, reducers: Sequence[Reducer], layers: int) -> Shown:
    """One text through the network, shown to the reducers."""
    spent, text = 0.0, Text(number, np.zeros(0, dtype=int), np.zeros(0, dtype=bool))

    def states(layer: int, x: np.ndarray) -> None:
        nonlocal spent, text
        start = time.perf_counter()
        if layer == 0:  # patches and frames are known when they are there
            text = Text(number, *model.tokens(given, len(x)))
        for reducer in reducers:
            reducer.states(text, layer, x)
        spent += time.perf_counter() - start

    def attention(layer: int, A: np.ndarray) -> None:
        nonlocal spent
        start = time.perf_counter()
        for reducer in reducers:
            reducer.attention(text, layer, A)
        spent += time.perf_counter() - start

    start = time.perf_counter()
    model.watch(given, layers, states, attention)
    return Shown(len(text.ids), time.perf_counter() - start - spent, spent)


# --- state files -------------------------------------------------------------------------------------------------


def _settings(model: Model, reducers: Sequence[Reducer], layers: int, longest: int) -> dict[str, Any]:
    own = {reducer.name: reducer.settings() for reducer in reducers}
    same = {"model": model.name, "weights": model.digest, "dtype": model.dtype, "layers": layers, "longest": longest}
    return same | own


def _save(path: Path, settings: dict[str, Any], reducers: Sequence[Reducer], tally: Tally) -> None:
    """A session that is killed leaves the previous state or this one, whole."""
    meta = {"settings": settings, "done": tally.texts, "digest": tally.digest, "seconds": tally.seconds}
    meta |= {"tokens": tally.tokens, "single": tally.single}
    arrays: dict[str, Any] = {f"{r.name}/{key}": value for r in reducers for key, value in r.state().items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_arrays(path, {"meta": np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8), **arrays})


def _restore(path: Path | None, settings: dict[str, Any], reducers: Sequence[Reducer], tally: Tally) -> tuple[int, str]:
    """How many texts an earlier run has done, and their digest; the reducers are put where it left them."""
    if path is None or not path.exists():
        return 0, ""
    try:
        arrays = read_arrays(path)
        meta = json.loads(arrays.pop("meta").tobytes())
        done, digest, same = int(meta["done"]), str(meta["digest"]), meta["settings"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"The state file {str(path)!r} cannot be read; delete it and start again.") from error
    if same != json.loads(json.dumps(settings)):
        raise InputError(f"The state file {str(path)!r} was made with other settings; delete it or name another.")
    for reducer in reducers:
        prefix = f"{reducer.name}/"
        reducer.restore({k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)})
    tally.seconds.update(meta["seconds"])
    tally.tokens, tally.single = int(meta["tokens"]), int(meta["single"])
    return done, digest
