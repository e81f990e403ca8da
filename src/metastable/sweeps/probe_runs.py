"""A pretrained model as a sweep's target: a run is one text through a model's layers, and time is the layer."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from metastable.config.settings import checked
from metastable.config.sweep_tables import Probe
from metastable.errors import InputError
from metastable.sweeps.measuring import flattened, measures
from metastable.sweeps.spec import Spec

if TYPE_CHECKING:
    from metastable.models.model import Model


def nominal_seconds(values: Mapping[str, Any], times: int) -> float:
    """A guess: half a second for a text. Models differ too much for more, and a chunk has few texts."""
    return 0.5


def prepare(spec: Spec, point: Mapping[str, Any]) -> tuple[dict[str, Any], float, float]:
    """Nothing to decide; the model and the text must be there."""
    settings = checked(Probe, {**spec.base, **point})
    model, text = _model(settings.model), _text(spec, settings)
    depth = model.depth if settings.layers is None else settings.layers
    tokens = min(settings.longest, model.longest, max(1, len(str(text)) // 3))
    return {}, nominal_seconds({}, 0), 8.0 * (depth + 1) * tokens * model.dimension


def rows(spec: Spec, how: Mapping[str, Any], columns: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Observables of every text at the chosen layers."""
    from metastable.models.probe import trajectory

    measure = measures(spec.observe)
    parts: list[dict[str, np.ndarray]] = []
    for k, point in enumerate(zip(*columns.values())):
        settings = checked(Probe, {**spec.base, **dict(zip(columns, point))})
        run = trajectory(_model(settings.model), _text(spec, settings), settings.layers, settings.longest)
        kept = _layers(spec, run.t)
        part: dict[str, np.ndarray] = {"run": np.full(len(kept), k), "time": run.t[kept]}
        for name, function in measure.items():
            part |= flattened(name, np.asarray(function(run))[kept])
        part["status"] = np.full(len(kept), "done")
        parts.append(part)
    names = {name: None for part in parts for name in part}
    return {name: np.concatenate([p.get(name, np.full(len(p["run"]), np.nan)) for p in parts]) for name in names}


def _layers(spec: Spec, layers: np.ndarray) -> np.ndarray:
    """The places of the layers to keep: an even selection, or those asked for that there are."""
    if isinstance(spec.times, int):
        return np.unique(np.linspace(0, len(layers) - 1, min(spec.times, len(layers))).round().astype(int))
    return np.flatnonzero(np.isin(layers, spec.times))


@lru_cache(maxsize=2)
def _model(name: str) -> "Model":
    from metastable.models.load import load

    return load(name)


def _text(spec: Spec, settings: Probe) -> str:
    from metastable.models.texts import default_corpus, texts

    given: Any = settings.texts if settings.texts is not None else default_corpus(settings.model)
    found = given if isinstance(given, list) else texts(given)
    text = next(islice(found, settings.text, None), None)
    if text is None:
        raise InputError(f"There is no text number {settings.text}; texts are counted from 0.")
    return str(text)
