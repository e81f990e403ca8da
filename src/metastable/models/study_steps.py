"""The steps of a study, each left on disk whole, so that it can be stopped at any moment and resumed."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from metastable.errors import InputError
from metastable.models.attention_ranks import attention_ranks
from metastable.models.common_texts import few
from metastable.models.controls import measure_controls
from metastable.models.images import image_files
from metastable.models.ladder import ladder
from metastable.models.model import Model
from metastable.models.probe import Probe, probe
from metastable.models.spectra import spectra
from metastable.models.stream import SAMPLE_OTHERS
from metastable.models.study_record import MEASURED
from metastable.models.study_settings import Settings, corpus, source
from metastable.models.token_cloud import token_cloud
from metastable.models.weight_storage import stored
from metastable.progress import Progress, Report
from metastable.store.datasets import write_dataset
from metastable.store.files import read_json, remove, write_json
from metastable.store.folder import STATE, release

LADDER_LAYERS = 96  # the ladder is climbed no deeper than this


def take_steps(home: Path, settings: Settings, model: Model, report: Report) -> None:
    """Every step that is not finished yet, one after another."""
    try:
        if not (home / "probe.json").exists():
            _probe(home, settings, model, report)
    except InputError:  # texts that cannot be read: the folder is free for other settings
        if not (home / STATE).exists():
            release(home)
        raise
    for state in (home / STATE, *home.glob(f"{Path(STATE).stem}-*.npz")):
        remove(state)
    if not (home / "spectra.json").exists():
        _spectra(home, model, report)
    if not (home / "ladder.json").exists():
        _ladder(home, settings, model, report)


def _probe(folder: Path, settings: Settings, model: Model, report: Report) -> None:
    given, notes = source(settings, model)

    def counted(done: int, total: int | None) -> None:
        most = total or settings.limit
        report(Progress("texts", min(done / most, 1.0), f"{done} of at most {most}"))

    report(Progress("texts", 0.0, "starting"))
    found = probe(
        model,
        given,
        layers=settings.layers,
        special=settings.special,
        longest=settings.longest,
        resume=folder / STATE,
        progress=counted,
        control=settings.control,
        seeds=settings.control_seeds,
    )
    for name in MEASURED:
        _written(folder, name, getattr(found, name))
        _written(folder, f"controls_{name}", getattr(found.controls, name, None))
    report(Progress("cloud", None, "the first text once more"))
    write_dataset(folder, "cloud", token_cloud(model, found.first, found.layers))
    for name, ranks in _ranks(model, found).items():
        _written(folder, name, ranks)
    facts = {
        "model": _facts(settings, model),
        "layers": found.layers,
        "source": corpus(settings, model),
        "texts": found.texts,
        "tokens": found.tokens,
        "notes": [*notes, *found.notes],
        "seconds": {key: round(value, 3) for key, value in found.seconds.items()},
        "climbed": few(found.sample) if model.vocabulary is not None else [],
    }
    write_json(folder / "probe.json", facts)


def _ranks(model: Model, found: Probe) -> dict[str, Any]:
    """Ranks of the attention maps of a few inputs, of the model and of the controls that were possible."""
    given, layers = few(found.sample), min(found.layers, LADDER_LAYERS)
    own = attention_ranks(model, given, layers) if model.heads and given else None
    if own is None or found.controls is None or found.controls.similarity is None:
        return {"ranks": own}
    names, seeds = (found.controls.similarity[axis].values.tolist() for axis in ("control", "seed"))

    def measure(model: Model, texts: Any, resume: Path | None, passed: int) -> dict[str, Any]:
        return {"ranks": attention_ranks(model, texts, layers)}

    return {"ranks": own, "controls_ranks": measure_controls(model, given, names, seeds, model.longest, measure).ranks}


def _spectra(folder: Path, model: Model, report: Report) -> None:
    if model.parts is None:
        write_json(folder / "spectra.json", {"absent": model.why_no_parts, "promotions": [], "triples": []})
        return
    report(Progress("spectra", 0.0, "eigenvalues of every head"))
    found = spectra(
        model, progress=lambda done, total: report(Progress("spectra", done / total, f"{done} of {total} heads"))
    )
    write_dataset(folder, "spectra", found.data)
    promoted = [
        {
            "layer": p.layer,
            "head": p.head,
            "eigenvalue": [p.eigenvalue.real, p.eigenvalue.imag],
            "toward": p.toward,
            "away": p.away,
        }
        for p in found.promotions
    ]
    sentences = [{"layer": k[0], "head": k[1], "says": f.sentence} for k, f in found.triples.items()]
    write_json(folder / "spectra.json", {"absent": "", "promotions": promoted, "triples": sentences})


def _ladder(folder: Path, settings: Settings, model: Model, report: Report) -> None:
    probed = read_json(folder / "probe.json")
    started = time.perf_counter()
    notes, absent = [], model.why_no_ladder
    texts = image_files(settings.images, SAMPLE_OTHERS) if settings.images else probed["climbed"]
    if not texts and not absent:
        absent = "The ladder compares pairs of tokens, and there is no text of more than a single token."
    layers = min(int(probed["layers"]), LADDER_LAYERS)
    if layers < probed["layers"] and not absent:
        notes.append(f"The ladder is climbed to state {layers}.")
    tokens = 0
    if not absent:
        try:
            tokens = _climb(folder, settings, model, texts, layers, report)
        except InputError as error:
            absent = str(error)
    facts = {
        "absent": absent,
        "notes": notes,
        "texts": len(texts),
        "tokens": tokens,
        "seconds": round(time.perf_counter() - started, 3),
    }
    write_json(folder / "ladder.json", facts)


def _climb(folder: Path, settings: Settings, model: Model, texts: Sequence[Any], layers: int, report: Report) -> int:
    """Climb the ladder; how many tokens each text or picture has."""

    def climbed(done: int, total: int) -> None:
        report(Progress("ladder", done / total, f"layer {done} of {total}"))

    report(Progress("ladder", 0.0, f"{len(texts)} {'pictures' if settings.images else 'texts'}"))
    found = ladder(model, texts, layers=layers, head=settings.head, keep=False, progress=climbed)
    for name, data in (("baselines", found.baselines), ("parts", found.parts), ("ladder", found.data)):
        _written(folder, name, data)
    return int(found.real.x.shape[-2])


def _written(folder: Path, name: str, data: Any) -> None:
    if data is not None:
        write_dataset(folder, name, data)


def _facts(settings: Settings, model: Model) -> dict[str, Any]:
    parts = model.parts
    return {
        "name": model.name,
        "family": model.kind,
        "depth": model.depth,
        "heads": model.heads,
        "dimension": model.dimension,
        "shared": model.shared,
        "causal": bool(model.heads) and model.causal,
        "parameters": model.parameters,
        "digest": model.digest,
        "dtype": model.dtype,
        "stored": stored(settings.model),
        "final_norm": None if parts is None else parts.final_norm() is not None,
        "order": "" if parts is None else parts.block(0).order,
        "rotary": parts is not None and parts.position(0, 2).kind == "rotary",
    }
