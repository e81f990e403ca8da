"""What the experiments on pretrained models share: the model and its texts, or one sentence that says why not.

Without torch, or without a package index the first time, there is nothing to measure. That is no error of the claims:
the experiment is then skipped, with that sentence in its verdict.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.experiments.base import Data, Work
from metastable.theory.verdicts import Interval, Verdict, judge_number

ZOO = "reactions-albert"
SKIPPED = "skipped"


@cache
def _loaded(name: str) -> Any:
    """A model, or the sentence that says why there is none: asked once per process, a missing index takes a while."""
    from metastable.models.load import load

    try:
        return load(name)
    except InputError as error:
        return str(error)


def model_of(name: str) -> Any:
    """The model; InputError where it cannot be had."""
    found = _loaded(name)
    if isinstance(found, str):
        raise InputError(found)
    return found


def texts_of(name: str, first: int, count: int) -> list[str]:
    """``count`` texts of the model's own corpus from number ``first`` on; fewer where the corpus ends."""
    from metastable.models.texts import default_corpus, texts

    found = list(texts(default_corpus(name), first + count))[first:]
    if not found:
        raise InputError(f"The corpus {default_corpus(name)!r} has no text number {first}; lower seed.")
    return found


def or_skip(run: Callable[[Any, Work], Data]) -> Callable[[Any, Work], Data]:
    """Turn an InputError of a run into data that say so."""

    def attempt(params: Any, work: Work) -> Data:
        try:
            return run(params, work)
        except InputError as error:
            return {SKIPPED: np.array(str(error))}

    return attempt


def skipped(claim: str, source: str, data: Data) -> list[Verdict]:
    """The verdict of an experiment that was skipped."""
    why = str(data[SKIPPED])
    again = "remove this experiment's folder and run again once that is mended"
    return [
        Verdict(
            claim,
            source,
            "undecided",
            "observation",
            "not measured",
            0,
            0,
            float("nan"),
            (float("nan"), float("nan")),
            notes=f"skipped: {why.rstrip('.')}; {again}",
        )
    ]


def counted(
    texts: int, claim: str, source: str, measured: float, accepted: Interval, interval: Interval, notes: str
) -> Verdict:
    """A verdict on one number pooled over texts, with the interval that came with it."""
    found = judge_number(claim, source, [measured], accepted, kind="observation", interval=interval, notes=notes)
    return replace(found, instances=texts, eligible=texts)
