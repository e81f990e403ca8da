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
from metastable.models.model import Model
from metastable.models.tokens import as_ids
from metastable.store.files import read_arrays, write_arrays

Progress = Callable[[int, int | None], None]
_SAVE_EVERY = 10.0  # seconds between state files
SAMPLE_TEXTS, SAMPLE_TOKENS = 64, 128  # what is remembered of the texts, for what is done on a few of them


class Text(NamedTuple):
    """One text as the measured layers read it: its number, token ids (n,), which are special, and the ids given."""

    number: int
    ids: np.ndarray
    special: np.ndarray
    given: Sequence[int]


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
    """What a stream has read: counts, the first text's ids, a digest of all ids, and where the time went."""

    texts: int = 0
    tokens: int = 0
    cut: int = 0
    empty: int = 0
    single: int = 0
    first: list[int] = field(default_factory=list)
    sample: list[list[int]] = field(default_factory=list)  # the beginnings of the first texts
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
    texts: Iterable[str | Sequence[int]],
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
    for text in _encoded(model, texts, longest, tally):
        if tally.texts <= done:  # seen by the run that left the state file
            if tally.texts == done and tally.digest != digest:
                raise InputError(
                    f"The state file {str(resume)!r} was made with other texts; delete it or name another."
                )
            continue
        network, reduction = show(model, text, reducers, layers)
        tally.seconds["network"] += network
        tally.seconds["reduction"] += reduction
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


def _encoded(model: Model, texts: Iterable[str | Sequence[int]], longest: int, tally: Tally) -> Iterator[Text]:
    """Texts as ids, cut to ``longest``, with the tally kept."""
    special = model.tokenizer.special if model.tokenizer else frozenset()
    for text in texts:
        ids = [] if isinstance(text, str) and not text.strip() else as_ids(text, model.tokenizer)
        if not ids:
            tally.empty += 1
            continue
        check_ids(model, ids)
        tally.cut += len(ids) > longest
        ids = ids[:longest]
        tally.first = tally.first or ids
        if len(tally.sample) < SAMPLE_TEXTS:
            tally.sample.append(ids[:SAMPLE_TOKENS])
        tally.texts, tally.tokens, tally.single = (
            tally.texts + 1,
            tally.tokens + len(ids),
            tally.single + (len(ids) < 2),
        )
        tally.digest = hashlib.sha256(f"{tally.digest} {ids}".encode()).hexdigest()
        seen = model.seen(ids)
        yield Text(tally.texts - 1, np.asarray(seen), np.asarray([i in special for i in seen]), ids)


def check_ids(model: Model, ids: Sequence[int]) -> None:
    """Refuse token ids that the model does not have, naming the first of them."""
    size = model.vocabulary
    if size is None:
        return
    wrong = next((i for i in ids if not 0 <= i < size), None)
    if wrong is not None:
        raise InputError(f"Token ids of {model.name!r} lie between 0 and {size - 1}, but {wrong} was given.")


def show(model: Model, text: Text, reducers: Sequence[Reducer], layers: int) -> tuple[float, float]:
    """One text through the network, shown to the reducers; seconds spent in the network and in the reducers."""
    spent = 0.0

    def states(layer: int, x: np.ndarray) -> None:
        nonlocal spent
        start = time.perf_counter()
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
    model.watch(text.given, layers, states, attention)
    return time.perf_counter() - start - spent, spent


# --- state files -------------------------------------------------------------------------------------------------


def _settings(model: Model, reducers: Sequence[Reducer], layers: int, longest: int) -> dict[str, Any]:
    own = {reducer.name: reducer.settings() for reducer in reducers}
    same = {"model": model.name, "weights": model.digest, "dtype": model.dtype, "layers": layers, "longest": longest}
    return same | own


def _save(path: Path, settings: dict[str, Any], reducers: Sequence[Reducer], tally: Tally) -> None:
    """A session that is killed leaves the previous state or this one, whole."""
    meta = {"settings": settings, "done": tally.texts, "digest": tally.digest, "seconds": tally.seconds}
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
    return done, digest
