"""A study of one model: everything measured, and left on disk so that it can be stopped at any moment and taken up.

    provenance.json   settings, versions, the model's shape; the first file written
    state.npz         where an unfinished pass over the texts goes on from
    similarity.zarr, heads.zarr, sinks.zarr, then probe.json       one pass over the texts
    spectra.zarr, then spectra.json                                 read from the weights
    ladder.zarr, then ladder.json                                   the model rebuilt as particles, on one text
    figures/, report.html                                           made from the above, and from nothing else
    done              written last

A step is finished when its JSON file is there; every file and every zarr folder is whole or absent.
"""

import dataclasses
import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metastable.errors import InputError
from metastable.models.load import load
from metastable.models.pretrained import Model
from metastable.models.texts import default_corpus, texts
from metastable.store.files import PART, locked, read_json, remove, spoken, sync, write_json
from metastable.store.folder import FORMAT, PROVENANCE, damaged, reason

STATE = "state.npz"
STEPS = ("probe", "spectra", "ladder")
LADDER_TOKENS, LADDER_LAYERS = 128, 96  # the ladder is climbed on one text no longer, and no deeper, than this
_DRAWN, _DRAWN_TOKENS = 16, 48  # random texts for a model that came without a tokenizer
Told = Callable[[str, float, str], None]  # step, share done, words


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


@dataclass(frozen=True, eq=False)
class Study:
    """A finished study: datasets by the names of their files, and what JSON holds of them.

    ``ladder`` is None where a model or text has none; ``about["ladder"]["absent"]`` then says why.
    """

    folder: Path
    settings: Settings
    model: dict[str, Any]  # family, depth, heads, dimension, shared, causal, parameters
    similarity: Any
    heads: Any
    sinks: Any
    spectra: Any
    ladder: Any
    about: dict[str, dict[str, Any]]  # probe, spectra, ladder

    @property
    def notes(self) -> list[str]:
        """What a reader should know, a sentence each."""
        return [*self.about["probe"]["notes"], *self.about["ladder"]["notes"]]


def study(settings: Settings, folder: str | os.PathLike[str], told: Told | None = None) -> Study:
    """Measure a model, or go on with a study that was interrupted; what is finished is never done again.

    Examples
    --------
    >>> from metastable.models.study import Settings, study
    >>> made = study(Settings("reactions-albert", layers=96), "out/albert")  # doctest: +SKIP
    >>> float(made.similarity["share_above"].sel(layer=96, kind="raw", threshold=0.99)) > 0.01  # doctest: +SKIP
    True
    """
    home, tell = Path(folder), told or (lambda step, share, words: None)
    _check(settings)
    if all((home / f"{step}.json").exists() for step in STEPS):
        _claim(home, settings)
        return read(home)
    tell("loading", 0.0, settings.model)
    model = load(settings.model, part=settings.part)  # before the folder is made: a bad name leaves none
    _refuse_head(settings, model)
    with spoken(home, kept=(home / PROVENANCE).exists()):
        home.mkdir(parents=True, exist_ok=True)
        with locked(home):
            _steps(home, settings, model, tell)
    return read(home)


def _steps(home: Path, settings: Settings, model: Model, tell: Told) -> None:
    fresh = not (home / PROVENANCE).exists()
    _claim(home, settings)
    try:
        if not (home / "probe.json").exists():
            _probe(home, settings, model, tell)
    except InputError:  # texts that cannot be read: the folder is free for other settings
        if fresh and not (home / STATE).exists():
            remove(home / PROVENANCE)
        raise
    if not (home / "spectra.json").exists():
        _spectra(home, model, tell)
    if not (home / "ladder.json").exists():
        _ladder(home, settings, model, tell)


def read(folder: str | os.PathLike[str]) -> Study:
    """A study from its folder; steps that are missing are named."""
    home = Path(folder)
    try:
        head = read_json(home / PROVENANCE)
        about = {step: read_json(home / f"{step}.json") for step in STEPS}
        names = ("similarity", "heads", "sinks", "spectra")
        data = {name: _open(home, name) for name in names}
        climb = None if about["ladder"].get("absent") else _open(home, "ladder")
        return Study(home, Settings(**head["run"]), about["spectra"]["model"], **data, ladder=climb, about=about)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(home, reason(error)) from error


# --- steps --------------------------------------------------------------------------------------------------------


def _check(settings: Settings) -> None:
    for name in ("layers", "limit", "longest"):
        value = getattr(settings, name)
        if value is not None and value < 1:
            raise InputError(f"{name} must be a whole number >= 1, not {value}.")
    if settings.head < 0:
        raise InputError(f"head must be a whole number >= 0, not {settings.head}.")


def _claim(folder: Path, settings: Settings) -> None:
    """Write down what the folder is for, or refuse one that is for something else."""
    path, wanted = folder / PROVENANCE, dataclasses.asdict(settings)
    if not path.exists():
        others = [p.name for p in folder.iterdir() if p.name != "lock" and not p.name.endswith(PART)]
        if others:
            raise InputError(
                f"{str(folder)!r} is not empty and holds no study ({', '.join(sorted(others)[:3])}); "
                "choose an empty or new folder."
            )
        write_json(path, {"record": FORMAT, "kind": "model", "run": wanted, "versions": _versions()})
        return
    try:
        stored = read_json(path)
    except (OSError, ValueError) as error:
        raise damaged(folder, f"{PROVENANCE}: {reason(error)}") from error
    if stored.get("kind") != "model":
        raise InputError(f"{str(folder)!r} holds a record of another kind; choose another --out.")
    was = stored["run"]
    other = [name for name in wanted if was.get(name) != wanted[name]]
    if other:
        said = ", ".join(f"{name} = {was.get(name)!r}, now {wanted[name]!r}" for name in other)
        raise InputError(
            f"{str(folder)!r} holds a study with other settings ({said}); choose another --out, or remove that folder."
        )


def _probe(folder: Path, settings: Settings, model: Model, tell: Told) -> None:
    from metastable.models.probe import probe

    source, notes = _source(settings, model)
    where = "random token ids" if model.tokenizer is None and settings.texts is None else _corpus(settings)

    def watch(done: int, total: int | None) -> None:
        most = min(settings.limit, total or settings.limit)
        tell("texts", done / most, f"{done} of at most {most}")

    tell("texts", 0.0, "starting")
    found = probe(
        model,
        source,
        layers=settings.layers,
        special=settings.special,
        longest=settings.longest,
        resume=folder / STATE,
        progress=watch,
    )
    for name in ("similarity", "heads", "sinks"):
        _write(folder, name, getattr(found, name))
    facts = {
        "layers": found.layers,
        "source": where,
        "texts": found.texts,
        "tokens": found.tokens,
        "notes": [*notes, *found.notes],
        "seconds": {key: round(value, 3) for key, value in found.seconds.items()},
        "first": list(found.first),
    }
    write_json(folder / "probe.json", facts)
    remove(folder / STATE)


def _refuse_head(settings: Settings, model: Model) -> None:
    if settings.head >= model.heads:
        raise InputError(f"{model.name!r} has heads 0 to {model.heads - 1}, not {settings.head}.")


def _spectra(folder: Path, model: Model, tell: Told) -> None:
    from metastable.models.spectra import spectra

    tell("spectra", 0.0, "eigenvalues of every head")
    found = spectra(model, progress=lambda done, total: tell("spectra", done / total, f"{done} of {total} heads"))
    _write(folder, "spectra", found.data)
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


def _ladder(folder: Path, settings: Settings, model: Model, tell: Told) -> None:
    probed = read_json(folder / "probe.json")
    tell("ladder", 0.0, "the model in float64")
    started = time.perf_counter()
    ids, notes = probed["first"], []
    layers = min(int(probed["layers"]), LADDER_LAYERS)
    if len(ids) > LADDER_TOKENS:
        notes.append(f"The ladder is climbed on the first {LADDER_TOKENS} tokens of the first text.")
    if layers < probed["layers"]:
        notes.append(f"The ladder is climbed to layer {layers}.")
    absent = ""
    try:
        _write(folder, "ladder", _climb(model, ids[:LADDER_TOKENS], layers, settings.head, tell))
    except InputError as error:  # a T5 decoder, a text of one token
        absent = str(error)
    seconds = round(time.perf_counter() - started, 3)
    facts = {"absent": absent, "notes": notes, "tokens": min(len(ids), LADDER_TOKENS), "seconds": seconds}
    write_json(folder / "ladder.json", facts)


def _climb(model: Model, ids: Sequence[int], layers: int, head: int, tell: Told) -> Any:
    from metastable.models.ladder import ladder
    from metastable.models.rungs import RUNGS

    def told(done: int, total: int) -> None:
        tell("ladder", done / total, f"rung {done}: {RUNGS[done]}")

    return ladder(model, ids, layers=layers, head=head, keep=False, progress=told).data


# --- texts --------------------------------------------------------------------------------------------------------


def _corpus(settings: Settings) -> str:
    return settings.texts or default_corpus(settings.model)


def _source(settings: Settings, model: Model) -> tuple[Iterable[str | Sequence[int]], list[str]]:
    """The texts, and what is to be said about them."""
    if model.tokenizer is not None:
        return texts(_corpus(settings), settings.limit), []
    if settings.texts is not None:
        return _numbers(texts(settings.texts, settings.limit), model.name), []
    size = int(model.stack.config.vocab_size)
    n = min(_DRAWN_TOKENS, model.longest, settings.longest)
    drawn = np.random.default_rng(0).integers(0, size, (min(_DRAWN, settings.limit), n))
    said = f"{model.name} came without a tokenizer, so it was run on {len(drawn)} texts of random tokens (seed 0)."
    return [row.tolist() for row in drawn], [said]


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


# --- disk ---------------------------------------------------------------------------------------------------------


def _write(folder: Path, name: str, data: Any) -> None:
    """A dataset as a zarr folder that appears whole."""
    fresh, target = folder / f"{name}.zarr{PART}", folder / f"{name}.zarr"
    remove(fresh)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about strings and gathered metadata, which zarr's own readers know
        data.to_zarr(fresh, mode="w", zarr_format=3, consolidated=True)
    remove(target)
    os.replace(fresh, target)
    sync(folder)


def _open(folder: Path, name: str) -> Any:
    import xarray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with xarray.open_zarr(folder / f"{name}.zarr", chunks=None) as stored:
            return stored.load()


def _facts(model: Model) -> dict[str, Any]:
    weights = sum(int(p.numel()) for p in model.whole.parameters())
    return {
        "name": model.name,
        "family": model.family.name,
        "depth": model.depth,
        "heads": model.heads,
        "dimension": model.dimension,
        "shared": model.shared,
        "causal": model.causal,
        "parameters": weights,
        "digest": hashlib.sha256(model.block(0).Q.tobytes()).hexdigest()[:16],
    }


def _versions() -> dict[str, str]:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from metastable import __version__

    found = {"metastable": __version__, "python": platform.python_version(), "numpy": np.__version__}
    for name in ("torch", "transformers", "jax"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
