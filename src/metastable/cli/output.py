"""The output of commands: notes, and a short summary or one JSON object on stdout."""

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from metastable.progress import is_quiet

_HOME = str(Path(__file__).parents[1])


def answer(as_json: bool, facts: Mapping[str, Any], lines: Sequence[str]) -> None:
    """Print the facts as one JSON object, or the lines; --quiet leaves out the lines."""
    if as_json:
        print(json.dumps(facts, ensure_ascii=False, allow_nan=False))
        return
    if is_quiet():
        return
    for line in lines:
        print(line)


@contextmanager
def notes(tell: Callable[[str], None] | None = None) -> Iterator[list[str]]:
    """Collect the package's warnings as sentences instead of printing them; other packages' are dropped.

    ``tell`` is called with each sentence at once: long work says what it will take before it starts.
    """
    found: list[str] = []

    def see(message: Warning | str, category: type[Warning], filename: str, *_: Any, **__: Any) -> None:
        sentence = " ".join(str(message).split())
        if filename.startswith(_HOME) and sentence not in found:
            found.append(sentence)
            if tell is not None:
                tell(sentence)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = see
        yield found
