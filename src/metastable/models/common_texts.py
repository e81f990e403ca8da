"""Inputs of one common length, so that they can be moved together as one batch: texts, or pictures of one size."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from metastable.errors import InputError
from metastable.models.model import Given, Model
from metastable.models.texts import default_corpus, texts
from metastable.models.tokens import as_ids

# How many texts the ladder takes of a corpus, and how many tokens of each, at most. Eight texts leave two standard
# errors below the effects that count (docs/models.md, "Texts"); texts of 16 tokens give other answers, however many.
TEXTS, TOKENS = 8, 48
_READ = 64  # how many texts of a corpus are looked at


Source: TypeAlias = Any  # one text or several, as words or token ids; one picture or several, as files or arrays


def given(model: Model, source: Source | None, longest: int) -> list[Given]:
    """Token ids (texts, n) of one text, of several, or (None) of the model's default corpus; or pictures of one size.

    Texts that are named are all taken, and cut to the shortest of them or to ``longest``; of a corpus, see `several`.
    """
    if model.vocabulary is None:
        return _pictures(model, source, longest)
    if source is None:
        if model.tokenizer is None:
            raise InputError(f"{model.name!r} came without a tokenizer; give texts of token ids.")
        read = islice(texts(default_corpus(model.name)), _READ)
        return several([as_ids(text, model.tokenizer) for text in read], TEXTS, min(longest, model.longest, TOKENS))
    one = isinstance(source, str) or (len(source) > 0 and isinstance(source[0], int))
    each: list[Any] = [source] if one else list(source)
    found = [as_ids(text, model.tokenizer) for text in each]
    if not found or any(not ids for ids in found):
        raise InputError("There is no text to read: the text given is empty.")
    return _cut(found, min(longest, model.longest))


def _pictures(model: Model, source: Source | None, longest: int) -> list[Given]:
    """Inputs of a model that reads no tokens, all of one size."""
    if source is None:
        raise InputError(f"{model.name!r} reads no text; give pictures, as files or arrays.")
    each = list(source) if isinstance(source, (list, tuple)) else [source]
    found = [reading.given for one in each if (reading := model.read(one, longest)) is not None]
    if not found:
        raise InputError("There is nothing to read: no picture was given.")
    sizes = {np.shape(one) for one in found}
    if len(sizes) > 1:
        raise InputError(f"The ladder moves its inputs together, so they must be of one size, not {sorted(sizes)}.")
    return found


def few(sample: Sequence[Given], count: int = TEXTS, tokens: int = TOKENS) -> list[Given]:
    """A few of the inputs that were read: texts of one length (`several`), anything else as it is.

    Empty where no text has two tokens.

    >>> few([[1, 2, 3], [4, 5]]), few([[1]])
    ([[1, 2], [4, 5]], [])
    """
    if not all(isinstance(one, list) for one in sample):
        return list(sample)
    try:
        return list(several(sample, count, tokens))
    except InputError:
        return []


def several(found: Iterable[Sequence[int]], count: int = TEXTS, tokens: int = TOKENS) -> list[list[int]]:
    """The first ``count`` texts that are long enough, cut to one length of at most ``tokens``.

    Long enough is half as long as the longest, where what lies beyond ``tokens`` does not count.

    >>> several([[1, 2, 3, 4], [5], [6, 7, 8], [1, 2, 3]], count=2)
    [[1, 2, 3], [6, 7, 8]]
    """
    each = [list(ids[:tokens]) for ids in found]
    longest = max(map(len, each), default=0)
    return _cut([ids for ids in each if 2 * len(ids) >= longest][:count], tokens)


def _cut(found: list[list[int]], longest: int) -> list[list[int]]:
    n = min([longest, *map(len, found)])
    if n < 2:
        raise InputError("The ladder compares pairs of tokens; a text has a single token.")
    return [ids[:n] for ids in found]
