"""A study of one model: everything measured, and left on disk so that it can be stopped at any moment and resumed.

    state.npz         the checkpoint of an unfinished pass over the texts
    similarity.zarr, heads.zarr, sinks.zarr, then probe.json       one pass over the texts
    spectra.zarr, then spectra.json                                 read from the weights
    ladder.zarr, baselines.zarr, parts.zarr, then ladder.json       the model rebuilt as particles, on a few texts
    figures/, report.html                                           made from the above, and from nothing else

besides the files of every record (`metastable.store.folder`). A step is finished when its JSON file is there; every
file and every zarr folder is whole or absent.
"""

import dataclasses
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metastable.errors import InputError
from metastable.models.common_texts import several
from metastable.models.ladder import Ladder, ladder
from metastable.models.load import load
from metastable.models.model import Model
from metastable.models.probe import probe
from metastable.models.spectra import spectra
from metastable.models.study_settings import Settings, check_head, check_settings, corpus, source
from metastable.progress import Progress, Report, silent
from metastable.store.datasets import read_dataset, write_dataset
from metastable.store.files import disk_errors, read_json, reason, remove, write_json
from metastable.store.folder import STATE, Purpose, Status, check, claim, damaged, read_provenance, release, settled_by

if TYPE_CHECKING:
    import xarray

__all__ = ["Settings", "Study", "measuring", "purpose", "read", "study"]

STEPS = ("probe", "spectra", "ladder")
CLIMBED = ("ladder", "baselines", "parts")  # the datasets of the last step
LADDER_LAYERS = 96  # the ladder is climbed no deeper than this
_PACKAGES = ("torch", "transformers")


@dataclass(frozen=True, eq=False)
class Study:
    """A finished study: datasets by the names of their files, and what JSON holds of them.

    ``ladder``, ``baselines`` and ``parts`` are None where a model or its texts have none; ``about["ladder"]["absent"]``
    then says why.
    """

    folder: Path
    settings: Settings
    model: dict[str, Any]  # family, depth, heads, dimension, shared, causal, parameters
    similarity: "xarray.Dataset"
    heads: "xarray.Dataset"
    sinks: "xarray.Dataset"
    spectra: "xarray.Dataset"
    ladder: "xarray.Dataset | None"
    baselines: "xarray.Dataset | None"
    parts: "xarray.Dataset | None"
    about: dict[str, dict[str, Any]]  # probe, spectra, ladder

    @property
    def notes(self) -> list[str]:
        """What a reader should know, a sentence each."""
        return [*self.about["probe"]["notes"], *self.about["ladder"]["notes"]]


def study(settings: Settings, folder: str | os.PathLike[str], progress: Report = silent) -> Study:
    """Measure a model, or go on with a study that was interrupted; what is finished is never done again.

    Examples
    --------
    >>> from metastable.models.study import study
    >>> from metastable.models.study_settings import Settings
    >>> made = study(Settings("reactions-albert", layers=96), "out/albert")  # doctest: +SKIP
    >>> float(made.similarity["share_above"].sel(layer=96, kind="raw", threshold=0.99)) > 0.01  # doctest: +SKIP
    True
    """
    home = Path(folder)
    check_settings(settings)
    check(home, purpose(settings))
    if _measured(home):
        return read(home)
    with measuring(settings, home, progress):
        return read(home)


@contextmanager
def measuring(settings: Settings, folder: Path, progress: Report) -> Iterator[Status]:
    """Claim a folder and bring the measurements in it to their end; gives the status the folder had."""
    model = None if _measured(folder) else _loaded(settings, progress)  # before the folder is made
    with claim(folder, purpose(settings), packages=_PACKAGES) as status:
        if model is not None:
            with disk_errors(folder, resumable=True):
                _steps(folder, settings, model, progress)
        yield status


def purpose(settings: Settings) -> Purpose:
    """What the folder of a study is for."""
    return settled_by("study", dataclasses.asdict(settings))


def _measured(folder: Path) -> bool:
    return all((folder / f"{step}.json").exists() for step in STEPS)


def _loaded(settings: Settings, report: Report) -> Model:
    report(Progress("loading", None, settings.model))
    model = load(settings.model, part=settings.part)
    check_head(settings, model)
    return model


def read(folder: str | os.PathLike[str]) -> Study:
    """A study from its folder; steps that are missing are named."""
    home = Path(folder)
    try:
        head = read_provenance(home, "study")
        about = {step: read_json(home / f"{step}.json") for step in STEPS}
        names = ("similarity", "heads", "sinks", "spectra")
        data = {name: read_dataset(home, name) for name in names}
        climbed = dict.fromkeys(CLIMBED) if about["ladder"].get("absent") else _climbed(home)
        return Study(home, Settings(**head["settings"]), about["spectra"]["model"], **data, **climbed, about=about)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(home, reason(error)) from error


def _climbed(home: Path) -> "dict[str, xarray.Dataset | None]":
    return {name: read_dataset(home, name) for name in CLIMBED}


# --- steps --------------------------------------------------------------------------------------------------------


def _steps(home: Path, settings: Settings, model: Model, report: Report) -> None:
    try:
        if not (home / "probe.json").exists():
            _probe(home, settings, model, report)
    except InputError:  # texts that cannot be read: the folder is free for other settings
        if not (home / STATE).exists():
            release(home)
        raise
    if not (home / "spectra.json").exists():
        _spectra(home, model, report)
    if not (home / "ladder.json").exists():
        _ladder(home, settings, model, report)


def _probe(folder: Path, settings: Settings, model: Model, report: Report) -> None:
    given, notes = source(settings, model)

    def counted(done: int, total: int | None) -> None:
        most = min(settings.limit, total or settings.limit)
        report(Progress("texts", done / most, f"{done} of at most {most}"))

    report(Progress("texts", 0.0, "starting"))
    found = probe(
        model,
        given,
        layers=settings.layers,
        special=settings.special,
        longest=settings.longest,
        resume=folder / STATE,
        progress=counted,
    )
    for name in ("similarity", "heads", "sinks"):
        write_dataset(folder, name, getattr(found, name))
    facts = {
        "layers": found.layers,
        "source": corpus(settings, model),
        "texts": found.texts,
        "tokens": found.tokens,
        "notes": [*notes, *found.notes],
        "seconds": {key: round(value, 3) for key, value in found.seconds.items()},
        "first": list(found.first),
        "sample": [list(ids) for ids in found.sample],
    }
    write_json(folder / "probe.json", facts)
    remove(folder / STATE)


def _spectra(folder: Path, model: Model, report: Report) -> None:
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
    facts = {"model": _facts(model), "promotions": promoted, "triples": sentences}
    write_json(folder / "spectra.json", facts)


def _ladder(folder: Path, settings: Settings, model: Model, report: Report) -> None:
    probed = read_json(folder / "probe.json")
    report(Progress("ladder", 0.0, "the model's own tokens"))
    started = time.perf_counter()
    layers = min(int(probed["layers"]), LADDER_LAYERS)
    notes = [f"The ladder is climbed to layer {layers}."] if layers < probed["layers"] else []
    absent, texts = "", []
    try:
        texts = several(probed["sample"])
        climb = _climb(model, texts, layers, settings.head, report)
        for name, data in zip(CLIMBED, (climb.data, climb.baselines, climb.parts)):
            write_dataset(folder, name, data)
        notes.append(f"The ladder is climbed on the first {len(texts[0])} tokens of {len(texts)} texts.")
    except InputError as error:  # a T5 decoder, texts of one token
        absent = str(error)
    seconds = round(time.perf_counter() - started, 3)
    tokens = len(texts[0]) if texts else 0
    facts = {"absent": absent, "notes": notes, "texts": len(texts), "tokens": tokens, "seconds": seconds}
    write_json(folder / "ladder.json", facts)


def _climb(model: Model, texts: list[list[int]], layers: int, head: int, report: Report) -> Ladder:
    def climbed(done: int, total: int) -> None:
        report(Progress("ladder", done / total, f"layer {done + 1} of {total}"))

    return ladder(model, texts, layers=layers, head=head, progress=climbed)


def _facts(model: Model) -> dict[str, Any]:
    return {
        "name": model.name,
        "family": model.kind,
        "depth": model.depth,
        "heads": model.heads,
        "dimension": model.dimension,
        "shared": model.shared,
        "causal": model.causal,
        "parameters": model.parameters,
        "digest": model.digest,
    }
