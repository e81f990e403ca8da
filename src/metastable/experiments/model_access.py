"""What the experiments on pretrained models share: the model and its texts, or one sentence that says why not.

Without a package index the first time there is nothing to measure. That is no error of the claims:
the experiment is then skipped, and `metastable reproduce` says so and tries again the next time.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.experiments.base import Data, Work
from metastable.models import zoo
from metastable.models.load import load
from metastable.models.load import reach as reach_model
from metastable.models.model import Model
from metastable.models.texts import default_corpus, texts
from metastable.theory.intervals import Interval
from metastable.theory.verdicts import Verdict, judge_number

ZOO = "reactions-albert"
OTHERS = ("minilm", "smollm2", "title-t5")  # one of each other family, measured beside it
REST = tuple(name for name in zoo.MODELS if name != ZOO)  # all others of the zoo
PATIENCE = 5.0  # seconds that a silent network is waited for
SKIPPED = "skipped"
_DRAWN_TOKENS = 48  # of a random text, for a model that came without a tokenizer


@cache
def _loaded(name: str) -> Model | str:
    """A model, or the sentence that says why there is none; tried once per process: a missing index takes a while."""
    try:
        reach(name)
        return load(name)
    except InputError as error:
        return str(error)


def reach(name: str) -> None:
    """InputError unless the model and its texts are here or can be fetched."""
    reach_model(name, PATIENCE)
    if default_corpus(name) in zoo.CORPORA:
        zoo.fetch(default_corpus(name), PATIENCE)


def model_of(name: str) -> Model:
    """The model; InputError where it cannot be had."""
    found = _loaded(name)
    if isinstance(found, str):
        raise InputError(found)
    return found


def companions(params: Any) -> tuple[str, ...]:
    """The other models of an experiment: those of its settings beside the zoo's first, none beside one that was named.

    >>> from metastable.experiments.model_heads import Params
    >>> companions(Params()), companions(Params(model="./mine"))
    (('minilm', 'smollm2', 'title-t5'), ())
    """
    return tuple(params.others) if params.model == ZOO else ()


def names_of(params: Any) -> tuple[str, ...]:
    """The model of an experiment and its companions."""
    return (params.model, *companions(params))


def measured(params: Any, name: str, measure: Callable[[Model], Data]) -> Data:
    """``measure(model)``; of a companion that cannot be had or measured, the sentence that says why."""
    try:
        return measure(model_of(name))
    except InputError as error:
        if name == params.model:
            raise
        return {SKIPPED: np.array(str(error))}


Report = Callable[[float, str], None]


def every_model(params: Any, work: Work, measure: Callable[[Model, Report], Data]) -> Data:
    """``measure(model, report)`` of the model and of each companion, every key behind the model's name and a slash.

    ``report(share, what)`` takes the share of one model's work that is done.
    """
    names = names_of(params)
    data: Data = {}
    for k, name in enumerate(names):

        def report(share: float, what: str, k: int = k, name: str = name) -> None:
            work.progress((k + share) / len(names), f"{name}: {what}")

        found = measured(params, name, lambda model, report=report: measure(model, report))  # type: ignore[misc]
        data |= {f"{name}/{key}": value for key, value in found.items()}
    return data


def own(data: Data, name: str) -> Data:
    """What `every_model` holds of one model.

    >>> own({"a/x": np.array(1), "b/x": np.array(2)}, "a")
    {'x': array(1)}
    """
    return {key.removeprefix(f"{name}/"): value for key, value in data.items() if key.startswith(f"{name}/")}


def judged(
    names: Sequence[str], data: Data, claim: str, source: str, judge: Callable[[str], Sequence[Verdict]]
) -> list[Verdict]:
    """``judge(name)`` for each of the models; one that was skipped says why."""
    verdicts: list[Verdict] = []
    for name in names:
        absent = SKIPPED in (found := own(data, name))
        verdicts += skipped(f"{claim} ({name}).", source, found) if absent else judge(name)
    return verdicts


def slug(name: str) -> str:
    """A model's name in the name of a file.

    >>> slug("albert/albert-xlarge-v2")
    'albert-albert-xlarge-v2'
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-") or "model"


def texts_of(model: Model, first: int, count: int) -> Sequence[str | Sequence[int]]:
    """``count`` texts of the model's own corpus from number ``first`` on; fewer where the corpus ends.

    A model without a tokenizer gets random tokens.
    """
    if model.tokenizer is None:
        n, size = min(_DRAWN_TOKENS, model.longest), model.vocabulary
        return [np.random.default_rng(k).integers(0, size, n).tolist() for k in range(first, first + count)]
    found = list(texts(default_corpus(model.name), first + count))[first:]
    if not found:
        raise InputError(f"The corpus {default_corpus(model.name)!r} has no text number {first}; lower seed.")
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
    """The verdict of an experiment, or of one of its models, that was skipped."""
    nan = float("nan")
    notes = f"{_MARK}{str(data[SKIPPED]).rstrip('.')}"
    rule = "none, for want of a model; remove this experiment's folder to try again"
    return [Verdict(claim, source, "not measured", "observation", rule, 0, 0, nan, (nan, nan), notes=notes)]


_MARK = "skipped: "


def why_skipped(verdicts: Sequence[Verdict]) -> str:
    """The sentence that says why a whole experiment was skipped; empty for one that was not."""
    if verdicts and all(v.notes.startswith(_MARK) for v in verdicts):
        return verdicts[0].notes.removeprefix(_MARK) + "."
    return ""


def counted(
    texts: int, claim: str, source: str, measured: float, accepted: Interval, interval: Interval, notes: str
) -> Verdict:
    """A verdict on one number pooled over texts, with the interval that came with it."""
    return judge_number(
        claim, source, [measured], accepted, kind="observation", interval=interval, deciding=texts, notes=notes
    )
