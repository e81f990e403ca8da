"""Texts of one common length, so that they can be moved together as one batch."""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, TypeAlias

from metastable.errors import InputError
from metastable.models.model import Model
from metastable.models.texts import default_corpus, texts
from metastable.models.tokens import as_ids

TEXTS, TOKENS = 8, 48  # how many texts the ladder takes of a corpus, and how many tokens of each
_READ = 64  # how many texts of a corpus are looked at


Source: TypeAlias = str | Sequence[int] | Sequence[str | Sequence[int]]  # one text or several, as words or token ids


def given(model: Model, source: Source | None, longest: int) -> list[list[int]]:
    """Token ids (texts, n) of one text, of several, or (None) of the model's default corpus.

    Texts that are named are all taken, and cut to the shortest of them or to ``longest``; of a corpus, see `several`.
    """
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
