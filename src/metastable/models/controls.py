"""Controls: the same measurements where nothing has been learned, so that what training does can be told from the rest.

    init      the same architecture, freshly initialised: nothing has been learned
    shuffle   the trained numbers, but those of every matrix in random order: sizes are right, structure is gone
    tokens    the trained weights on random tokens: what has been learned, with nothing to read

Each is measured once per seed, on the same texts, layers and options as the trained model, with one changed copy of the
model in memory at a time.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from metastable.errors import InputError, unknown
from metastable.models.model import Model
from metastable.models.tokens import as_ids

if TYPE_CHECKING:
    import xarray

Texts = Sequence[str | Sequence[int]]

ABOUT = {
    "init": "The same architecture with fresh weights, drawn as its library initialises the family before training.",
    "shuffle": "The trained weights with the entries of every matrix (embeddings among them) in random order; gains, "
    "biases and other vectors stay as they are.",
    "tokens": "The trained weights on random tokens, drawn evenly from the vocabulary: texts keep their lengths, and "
    "special tokens their places.",
}


@dataclass(frozen=True, eq=False)
class Controls:
    """What the controls gave: the datasets of a ``Probe`` with two axes in front, control and seed.

    ``attrs["about"]`` of each is a JSON object that says in a sentence what each control is. The first text's heat map
    is left out. ``notes`` says which controls were not possible, and why.
    """

    notes: tuple[str, ...]
    similarity: "xarray.Dataset | None" = field(default=None, repr=False)
    heads: "xarray.Dataset | None" = field(default=None, repr=False)
    sinks: "xarray.Dataset | None" = field(default=None, repr=False)
    ranks: "xarray.Dataset | None" = field(default=None, repr=False)  # of a study: a few inputs, cut to one length


class Measure(Protocol):
    """One pass over texts: datasets by name. ``passed`` counts the passes before this one."""

    def __call__(self, model: Model, texts: Texts, resume: Path | None, passed: int) -> "dict[str, xarray.Dataset]": ...


def chosen(control: str | Sequence[str]) -> tuple[str, ...]:
    """The controls that are meant, in the order of ABOUT.

    >>> chosen("tokens,init"), chosen(("shuffle",)), chosen(())
    (('init', 'tokens'), ('shuffle',), ())
    """
    names = [name.strip() for name in control.split(",")] if isinstance(control, str) else list(control)
    for name in names:
        if name not in ABOUT:
            raise unknown("control", name, ABOUT)
    return tuple(name for name in ABOUT if name in names)


def seeds_of(seeds: int | Sequence[int]) -> tuple[int, ...]:
    """Seeds 0, 1, ... for a count; a sequence is taken as the seeds themselves.

    >>> seeds_of(3), seeds_of([7, 11])
    ((0, 1, 2), (7, 11))
    """
    found = list(range(seeds)) if isinstance(seeds, int) else [int(seed) for seed in seeds]
    if not found or min(found) < 0 or len(set(found)) < len(found):
        raise InputError(f"seeds must be a whole number >= 1 or a list of different seeds >= 0, not {seeds!r}.")
    return tuple(found)


def measure_controls(
    model: Model,
    texts: Texts,
    control: Sequence[str],
    seeds: Sequence[int],
    longest: int,
    measure: Measure,
    resume: Path | None = None,
) -> Controls:
    """Measure every control with every seed.

    Each pass has a state file of its own beside ``resume``. A control that this model does not allow becomes a note; it
    is an error when none is possible.
    """
    found: dict[str, list[dict[str, xarray.Dataset]]] = {}
    notes = []
    for number, name in enumerate(control):
        try:
            for k, seed in enumerate(seeds):
                path = None if resume is None else state_file(resume, name, seed)
                changed, given = CONTROLS[name](model, texts, longest, seed)
                measured = measure(changed, given, path, 1 + number * len(seeds) + k)
                found.setdefault(name, []).append(measured)
                del changed  # before the next is made
        except _Impossible as error:
            notes.append(str(error))
    if not found:
        raise InputError(" ".join(notes))
    return Controls(tuple(notes), **_joined(found, seeds))


def state_file(path: Path, control: str, seed: int) -> Path:
    """The state file of a control beside that of the trained model.

    >>> str(state_file(Path("out/state.npz"), "init", 2))
    'out/state-init-2.npz'
    """
    return path.with_name(f"{path.stem}-{control}-{seed}{path.suffix}")


def _joined(found: "dict[str, list[dict[str, xarray.Dataset]]]", seeds: Sequence[int]) -> "dict[str, xarray.Dataset]":
    import xarray

    joined = {}
    for key in next(iter(found.values()))[0]:
        rows = [
            xarray.concat([one[key].drop_vars(("received", "word"), errors="ignore") for one in each], "seed", "all")
            for each in found.values()
        ]
        data = xarray.concat(rows, "control", "all").assign_coords(control=list(found), seed=list(seeds))
        joined[key] = data.assign_attrs(about=json.dumps({name: ABOUT[name] for name in found}))
    return joined


# --- what is changed ----------------------------------------------------------------------------------------------


class _Impossible(InputError):
    """A control that a model does not allow."""


def _untrained(model: Model, texts: Texts, longest: int, seed: int) -> tuple[Model, Texts]:
    try:
        return model.untrained(seed), texts
    except InputError as error:
        raise _Impossible(f"The control 'init' is left out: {error}") from error


def _shuffled(model: Model, texts: Texts, longest: int, seed: int) -> tuple[Model, Texts]:
    try:
        return model.altered(lambda name, values: shuffled(name, values, seed)), texts
    except InputError as error:
        raise _Impossible(f"The control 'shuffle' is left out: {error}") from error


def _at_random(model: Model, texts: Texts, longest: int, seed: int) -> tuple[Model, Texts]:
    if model.vocabulary is None:
        raise _Impossible(f"The control 'tokens' is left out: {model.name!r} reads no tokens of a vocabulary.")
    return model, list(random_tokens(model, texts, longest, seed))


CONTROLS: dict[str, Callable[[Model, Texts, int, int], tuple[Model, Texts]]] = {
    "init": _untrained,
    "shuffle": _shuffled,
    "tokens": _at_random,
}


def shuffled(name: str, values: np.ndarray, seed: int) -> np.ndarray:
    """A matrix with its entries in random order; a vector, and a table of whole numbers, as it is.

    The order depends on the name of the matrix and on the seed alone.

    >>> shuffled("a.weight", np.arange(4.0).reshape(2, 2), 0).sum(), shuffled("a.bias", np.arange(3.0), 0).tolist()
    (np.float64(6.0), [0.0, 1.0, 2.0])
    """
    if values.ndim < 2 or values.dtype.kind != "f":
        return values
    order = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return order.permutation(values.reshape(-1)).reshape(values.shape)


def random_tokens(model: Model, texts: Texts, longest: int, seed: int) -> Iterator[list[int]]:
    """Texts of the same lengths with every token that is not special drawn evenly from those that are not."""
    size, special = model.vocabulary or 0, frozenset[int]()
    if model.tokenizer is not None:
        size, special = min(size, len(model.tokenizer.pieces)), model.tokenizer.special
    pool = np.array([i for i in range(size) if i not in special])
    for number, text in enumerate(texts):
        ids = [] if isinstance(text, str) and not text.strip() else as_ids(text, model.tokenizer)[:longest]
        drawn = np.random.default_rng([seed, number]).choice(pool, len(ids))
        yield [i if i in special else int(new) for i, new in zip(ids, drawn)]
