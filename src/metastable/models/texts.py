"""Texts to measure a model on: a file, a folder, standard input, a corpus of the zoo, or a data set by name."""

import sys
from collections.abc import Iterable, Iterator
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import IO

from metastable.errors import InputError
from metastable.models import zoo

CORPORA = ("english", "reactions")
_FIELDS = ("text", "content", "sentence", "document")


def english() -> list[str]:
    """Paragraphs of English written for this project, one text each.

    >>> len(english()) >= 12
    True
    """
    return _paragraphs(files("metastable.models").joinpath("english.txt").read_text(encoding="utf-8"))


def default_corpus(name: str) -> str:
    """The corpus a model is measured on when none is named."""
    return zoo.MODELS[name].corpus if name in zoo.MODELS else "english"


def texts(source: str | Path, limit: int | None = None) -> Iterator[str]:
    """The texts behind a name, one at a time.

    Parameters
    ----------
    source : str or Path
        - a corpus: "english" (paragraphs that come with the package) or "reactions" (1,000 reactions, fetched once);
        - a file: texts are separated by blank lines, or one per line when there is no blank line;
        - a folder: every ``.txt`` and ``.md`` file in it is one text, in the order of their names;
        - "-": standard input, read like a file;
        - otherwise the name of a data set (``datasets`` library), streamed; "NAME:SPLIT" and "NAME/CONFIG:SPLIT".
    limit : int, optional
        At most this many texts.

    Examples
    --------
    >>> next(texts("english"))[:22]
    'The bakery on the corn'
    """
    found = _source(str(source))
    return found if limit is None else islice(found, max(limit, 0))


def _source(name: str) -> Iterator[str]:
    if name in CORPORA:
        return iter(english() if name == "english" else zoo.reactions())
    if name == "-":
        return _nonempty(_split(_decoded(sys.stdin.buffer, "standard input")), "Standard input")
    path = Path(name).expanduser()
    if path.is_dir():
        return _folder(path)
    if path.is_file():
        with path.open("rb") as file:
            return _nonempty(_split(_decoded(file, path.name)), str(path))
    if path.suffix in (".txt", ".md", ".csv", ".jsonl") or path.is_absolute() or name.startswith("."):
        raise InputError(f"There is no file or folder {name!r}; give one, or a corpus: {', '.join(CORPORA)}.")
    return _dataset(name)


def _decoded(file: IO[bytes], name: str) -> str:
    data = file.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} is not UTF-8 text (byte {error.start} is {data[error.start]:#04x}); save it as UTF-8 first."
        ) from error


def _split(text: str) -> list[str]:
    found = _paragraphs(text)
    return found if len(found) > 1 else [line.strip() for line in text.splitlines() if line.strip()]


def _paragraphs(text: str) -> list[str]:
    """Runs of lines between blank lines, each joined into one."""
    found: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.strip():
            found[-1].append(line.strip())
        elif found[-1]:
            found.append([])
    return [" ".join(lines) for lines in found if lines]


def _folder(path: Path) -> Iterator[str]:
    names = sorted(p for p in path.iterdir() if p.suffix in (".txt", ".md") and p.is_file())
    if not names:
        raise InputError(f"The folder {str(path)!r} holds no .txt or .md file.")
    return _nonempty((_read(p) for p in names), f"The folder {str(path)!r}")


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return _decoded(file, path.name).strip()


def _nonempty(found: Iterable[str], what: str) -> Iterator[str]:
    """The texts that are not empty; at least one, or a sentence."""
    some = (text for text in found if text)
    first = next(some, None)
    if first is None:
        raise InputError(f"{what} holds no text.")
    return _chained(first, some)


def _chained(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _dataset(name: str) -> Iterator[str]:
    where = f"{name!r} is no file, folder or corpus ({', '.join(CORPORA)})"
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise InputError(f"{where}; to read it as a data set, install the 'datasets' package.") from error
    path, _, split = name.partition(":")
    parts = path.split("/")
    config = parts.pop() if len(parts) > 2 else None
    try:
        rows = load_dataset("/".join(parts), config, split=split or "train", streaming=True)
        first = next(iter(rows))
    except Exception as error:  # no network, no such name, no such split: the library has many ways to say no
        reason = (str(error).splitlines() or [""])[0][:120]
        raise InputError(f"{where}, and it cannot be read as a data set ({type(error).__name__}: {reason}).") from error
    column = next((f for f in _FIELDS if isinstance(first.get(f), str)), None)
    if column is None:
        raise InputError(f"The data set {name!r} has no column of text; its columns are {', '.join(first)}.")
    return (row[column] for row in rows if row[column].strip())
