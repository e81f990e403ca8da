"""From text to token ids: one small face for every tokenizer the models bring along."""

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from metastable.errors import InputError


@dataclass(frozen=True)
class Tokenizer:
    """How a model reads text.

    ``encode`` gives ids with the model's special tokens; ``pieces`` is the vocabulary by id; ``special`` and
    ``separators`` are ids; ``marks_punctuation`` says which pieces count as punctuation.
    """

    encode: Callable[[str], list[int]]
    pieces: tuple[str, ...]
    special: frozenset[int]
    separators: frozenset[int]
    marks_punctuation: Callable[[str], bool]

    @cached_property
    def punctuation(self) -> frozenset[int]:
        """The ids of punctuation tokens, special tokens aside."""
        marked = (i for i, piece in enumerate(self.pieces) if self.marks_punctuation(piece))
        return frozenset(i for i in marked if i not in self.special)

    def words(self, ids: Sequence[int]) -> list[str]:
        """Tokens as they read, for axes and tables."""
        return [readable(self.pieces[i]) if 0 <= i < len(self.pieces) else f"<{i}>" for i in ids]


def readable(piece: str) -> str:
    """A vocabulary piece without the marks of its scheme; one that is nothing but blanks is shown as a blank."""
    return piece.replace("▁", " ").removeprefix("##").strip() or "␣"


def is_punctuation(piece: str) -> bool:
    """True when every character is punctuation in Unicode's sense.

    >>> [is_punctuation(p) for p in ("▁,", "...", "##s", "a.")]
    [True, True, False, False]
    """
    plain = readable(piece)
    return plain != "␣" and all(unicodedata.category(c).startswith("P") for c in plain)


# Atoms in brackets, two-letter halogens, arrows, ring numbers, atoms, bonds, branches and dots: the units of a SMILES
# string in the order that makes the longest one win, as the reaction models were trained to see them.
_SMILES = re.compile(r"\[[^\]]+\]|Br|Cl|>>|%[0-9]{2}|[BCNOSPFIbcnosp]|[0-9]|[().=#\-+\\/:~@?>*$]")
_SMILES_STOPS = frozenset({".", ">>", ">"})  # between molecules, and between the sides of a reaction


def reads_smiles(vocabulary: Path) -> bool:
    """True for a ``vocab.txt`` of SMILES units: it has the arrow of a reaction, and no word pieces."""
    pieces = vocabulary.read_text(encoding="utf-8", errors="replace").splitlines()
    return ">>" in pieces and not any(piece.startswith("##") for piece in pieces)


def smiles(vocabulary: Path) -> Tokenizer:
    """The reaction models' tokenizer: SMILES units looked up in ``vocab.txt``, between [CLS] and [SEP]."""
    pieces = tuple(vocabulary.read_text(encoding="utf-8").splitlines())
    index = {piece: i for i, piece in enumerate(pieces)}
    first, last, unknown = index["[CLS]"], index["[SEP]"], index["[UNK]"]

    def encode(text: str) -> list[int]:
        text = "".join(text.split())
        found = _SMILES.findall(text)
        if "".join(found) != text:
            odd = next(c for c in _SMILES.sub("", text))
            raise InputError(
                f"This model reads chemical reactions as SMILES strings, but {_short(text)!r} holds {odd!r}; "
                "give reactions such as 'CCO.CC(=O)O>>CCOC(C)=O', or another model for ordinary text."
            )
        return [first, *(index.get(unit, unknown) for unit in found), last]

    special = frozenset(index[p] for p in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"))
    return Tokenizer(encode, pieces, special, frozenset({last}), lambda piece: piece in _SMILES_STOPS)


def from_transformers(tokenizer: Any) -> Tokenizer:
    """The face of a ``transformers`` tokenizer, without truncation or padding."""

    def encode(text: str) -> list[int]:
        return [int(i) for i in tokenizer(text, truncation=False, padding=False, verbose=False)["input_ids"]]

    ends = (tokenizer.sep_token_id, tokenizer.eos_token_id)
    separators = frozenset(int(i) for i in ends if i is not None)
    special = frozenset(tokenizer.all_special_ids)
    return Tokenizer(encode, _by_id(tokenizer.get_vocab()), special, separators, is_punctuation)


def face(tokenizer: Any) -> Tokenizer:
    """The face of whatever a caller has: one of these, of ``transformers`` or of ``tokenizers``."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer
    if hasattr(tokenizer, "all_special_ids"):
        return from_transformers(tokenizer)
    if hasattr(tokenizer, "get_added_tokens_decoder"):
        return _of_backend(tokenizer)
    raise InputError(f"A tokenizer is one of the library transformers or tokenizers, not {type(tokenizer).__name__}.")


def from_file(path: Path) -> Tokenizer:
    """The face of a ``tokenizer.json``, whose own truncation and padding are switched off.

    A ``tokenizer_config.json`` beside it says which tokens end a text; otherwise they are known by their usual names.
    """
    from tokenizers import Tokenizer as Backend

    try:
        backend = Backend.from_file(str(path))
    except Exception as error:  # the package raises nothing more special
        raise InputError(f"{path.name} cannot be read as a tokenizer; it may be truncated or altered.") from error
    backend.no_truncation()
    backend.no_padding()
    return _of_backend(backend, _named_ends(path.parent / "tokenizer_config.json"))


def _of_backend(backend: Any, ends: tuple[str, ...] = ()) -> Tokenizer:
    special = frozenset(i for i, token in backend.get_added_tokens_decoder().items() if token.special)
    named = ends or ("</s>", "[SEP]", "<|endoftext|>")
    return from_backend(backend, special, frozenset(i for i in special if backend.id_to_token(i) in named))


def _named_ends(settings: Path) -> tuple[str, ...]:
    given = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
    found = (given.get(key) for key in ("sep_token", "eos_token"))
    return tuple(str(token["content"] if isinstance(token, dict) else token) for token in found if token)


def word_pieces(vocabulary: Path, lower: bool) -> Tokenizer:
    """BERT's own tokenizer from its ``vocab.txt``."""
    from tokenizers import BertWordPieceTokenizer

    backend = BertWordPieceTokenizer(str(vocabulary), lowercase=lower)
    names = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    special = {name: backend.token_to_id(name) for name in names}
    if None in special.values():
        raise InputError(f"{vocabulary.name} lacks the special tokens of a BERT: {', '.join(names)}.")
    return from_backend(backend, frozenset(special.values()), frozenset({special["[SEP]"]}))


def from_backend(backend: Any, special: frozenset[int], separators: frozenset[int]) -> Tokenizer:
    """The face of a tokenizer of the ``tokenizers`` package."""
    pieces = _by_id(backend.get_vocab(with_added_tokens=True))
    return Tokenizer(lambda text: list(backend.encode(text).ids), pieces, special, separators, is_punctuation)


def _by_id(vocabulary: dict[str, int]) -> tuple[str, ...]:
    pieces = [""] * (max(vocabulary.values(), default=-1) + 1)
    spelt = _as_bytes() if "Ġ" in vocabulary else {}  # a byte-level vocabulary writes the space as Ġ
    for piece, i in vocabulary.items():
        if spelt and all(c in spelt for c in piece):
            pieces[i] = bytes(spelt[c] for c in piece).decode("utf-8", errors="replace")
        else:
            pieces[i] = piece
    return tuple(pieces)


def _as_bytes() -> dict[str, int]:
    """Byte-level spelling: printable Latin-1 bytes stand for themselves, the others follow from U+0100 on."""
    plain = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    rest = [b for b in range(256) if b not in plain]
    return {chr(b): b for b in plain} | {chr(256 + k): b for k, b in enumerate(rest)}


def as_ids(text: str | Sequence[int] | np.ndarray, tokenizer: Tokenizer | None) -> list[int]:
    """Token ids of a text; a sequence of whole numbers is taken as ids already."""
    if isinstance(text, str):
        if tokenizer is None:
            raise InputError("This model came without a tokenizer, so texts must be lists of token ids.")
        return tokenizer.encode(text)
    ids = np.asarray(text)
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise InputError(f"A text is a string or a list of token ids, not {_short(repr(text))}.")
    return [int(i) for i in ids]


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
