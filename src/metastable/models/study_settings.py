"""What a study is of: its settings, and the texts that they name."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.models.array_model import ArrayModel
from metastable.models.controls import chosen
from metastable.models.images import image_files
from metastable.models.model import Model
from metastable.models.texts import default_corpus, texts

_DRAWN, _DRAWN_TOKENS = 16, 48  # random texts for a model that came without a tokenizer


@dataclass(frozen=True)
class Settings:
    """What a study is of; the names are those of the command line."""

    model: str
    layers: int | None = None
    texts: str | None = None
    limit: int = 100
    special: bool = True
    head: int = 0
    part: str = "encoder"
    longest: int = 1024
    control: tuple[str, ...] = ()
    control_seeds: int = 3
    images: str | None = None


def check_settings(settings: Settings) -> None:
    """Refuse numbers that no model can meet."""
    for name in ("layers", "limit", "longest", "control_seeds"):
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise InputError(f"{name.replace('_', '-')} must be a whole number >= 1, not {value}.")
    if settings.images is not None and settings.texts is not None:
        raise InputError("A model reads either texts or pictures; give one of --texts and --images.")
    if settings.head < 0:
        raise InputError(f"head must be a whole number >= 0, not {settings.head}.")
    chosen(settings.control)


def check_head(settings: Settings, model: Model) -> None:
    """Refuse a head that the model does not have."""
    if model.heads and settings.head >= model.heads:
        raise InputError(f"{model.name!r} has heads 0 to {model.heads - 1}, not {settings.head}.")


def corpus(settings: Settings, model: Model) -> str:
    """The name of the texts, or of the pictures."""
    if settings.images is not None:
        return f"pictures in {settings.images}"
    if isinstance(model, ArrayModel):
        return f"states in {settings.model}"
    if model.tokenizer is None and settings.texts is None:
        return "random token ids"
    return settings.texts or default_corpus(settings.model)


def source(settings: Settings, model: Model) -> tuple[Iterable[Any], list[str]]:
    """The texts or pictures, and what a reader should know about them."""
    if settings.images is not None:
        if model.vocabulary is not None:
            raise InputError(
                f"{model.name!r} reads text, not pictures: leave --images out, or choose --part vision of a CLIP."
            )
        if not _reads_pictures(model):
            raise InputError(f"{model.name!r} reads no pictures; {_FEATURES}.")
        return image_files(settings.images, settings.limit), []
    if isinstance(model, ArrayModel):
        if settings.texts is not None:
            raise InputError(f"{settings.model!r} is states of texts that were read already; leave --texts out.")
        return model.runs[: settings.limit], []
    if model.vocabulary is None:
        remedy = "give a folder of pictures with --images" if _reads_pictures(model) else _FEATURES
        raise InputError(f"{model.name!r} reads no text; {remedy}.")
    if model.tokenizer is not None:
        return _AtMost(texts(corpus(settings, model), settings.limit), settings.limit), []
    if settings.texts is not None:
        return _AtMost(_numbers(texts(settings.texts, settings.limit), model.name), settings.limit), []
    size = model.vocabulary or 1
    n = min(_DRAWN_TOKENS, model.longest, settings.longest)
    drawn = np.random.default_rng(0).integers(0, size, (min(_DRAWN, settings.limit), n))
    note = f"{model.name} came without a tokenizer, so it was run on {len(drawn)} texts of random tokens (seed 0)."
    return [row.tolist() for row in drawn], [note]


@dataclass(frozen=True)
class _AtMost:
    """Texts that are read one by one, with how many there are at most for what is told beforehand."""

    texts: Iterator[Any]
    limit: int

    def __iter__(self) -> Iterator[Any]:
        return self.texts

    def __length_hint__(self) -> int:
        return self.limit


_FEATURES = "give arrays of its input features to metastable.models.probe, from Python"


def _reads_pictures(model: Model) -> bool:
    return getattr(model, "images", None) is not None


def _numbers(given: Iterator[str], name: str) -> Iterator[list[int]]:
    """Texts of token ids, for a model that cannot read words."""
    for text in given:
        try:
            yield [int(word) for word in text.replace(",", " ").split()]
        except ValueError as error:
            raise InputError(
                f"{name!r} came without a tokenizer, so its texts are token ids (whole numbers), "
                f"but one begins with {text[:30]!r}."
            ) from error
