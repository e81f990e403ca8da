"""A study of one model: everything measured, as it is on disk.

    state*.npz        checkpoints of an unfinished pass over the texts, one for the model and one for each control
    similarity.zarr, heads.zarr, sinks.zarr, controls_*.zarr, cloud.zarr, ranks.zarr, then probe.json      the texts
    spectra.zarr, then spectra.json                                 read from the weights
    ladder.zarr, baselines.zarr, parts.zarr, then ladder.json       the model rebuilt as particles, on some texts
    figures/, report.html                                           made from the above, and from nothing else

besides the files of every record (`metastable.store.folder`). A step is finished when its JSON file is there; every
file and every zarr folder is whole or absent.
"""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from metastable.errors import InputError
from metastable.models.controls import Controls
from metastable.models.model_cards import given, similarity_card
from metastable.models.study_settings import Settings
from metastable.store.datasets import read_dataset
from metastable.store.files import read_json, reason
from metastable.store.folder import Purpose, damaged, read_provenance, settled_by

if TYPE_CHECKING:
    import xarray

STEPS = ("probe", "spectra", "ladder")
MEASURED = ("similarity", "heads", "sinks")  # of the model, and of each control


@dataclass(frozen=True, eq=False, repr=False)
class Study:
    """A finished study: datasets by the names of their files, and what JSON holds of them.

    ``heads``, ``sinks`` and ``ranks`` are None for a model that shows no attention maps, ``spectra`` where its weights
    are not known by their meaning, ``ladder``, ``baselines`` and ``parts`` where it cannot be climbed: ``absent`` says
    why. ``controls`` is None where none was requested.
    """

    folder: Path
    settings: Settings
    model: dict[str, Any]  # name, family, depth, heads, dimension, shared, causal, parameters, ...
    similarity: "xarray.Dataset"
    heads: "xarray.Dataset | None"
    sinks: "xarray.Dataset | None"
    cloud: "xarray.Dataset"
    ranks: "xarray.Dataset | None"
    controls: Controls | None
    spectra: "xarray.Dataset | None"
    ladder: "xarray.Dataset | None"
    baselines: "xarray.Dataset | None"
    parts: "xarray.Dataset | None"
    about: dict[str, dict[str, Any]]  # probe, spectra, ladder

    def __repr__(self) -> str:
        return f"Study({self.model['name']}: {self._size()}, in {str(self.folder)!r})"

    def _repr_html_(self) -> str:
        datasets = given(self, (*MEASURED, "ranks", "spectra", "ladder", "baselines", "parts", "controls"))
        facts = [("datasets", datasets), ("record", str(self.folder))]
        return similarity_card("Study", f"{self.model['name']}, {self._size()}", self.similarity, facts)

    def _size(self) -> str:
        return f"{self.last} layers, {self.model['heads']} heads, d = {self.model['dimension']}"

    @property
    def notes(self) -> list[str]:
        """What a reader should know, a sentence each."""
        return [*self.about["probe"]["notes"], *self.about["ladder"]["notes"]]

    @property
    def trained(self) -> int:
        """The state after all trained layers, or the last one that was measured."""
        return min(int(self.model["depth"]), self.last)

    @property
    def last(self) -> int:
        """The last state that was measured."""
        return int(self.similarity.layer[-1])

    def absent(self, step: str) -> str:
        """Why a step gave nothing, in a sentence; empty where it gave something."""
        return str(self.about[step].get("absent", ""))


def purpose(settings: Settings) -> Purpose:
    """What the folder of a study is for."""
    return settled_by("study", dataclasses.asdict(settings))


def measured(folder: Path) -> bool:
    """Whether every step is finished."""
    return all((folder / f"{step}.json").exists() for step in STEPS)


def read(folder: str | os.PathLike[str]) -> Study:
    """A study from its folder; steps that are missing are named.

    Examples
    --------
    >>> found = read("out/albert")  # doctest: +SKIP
    >>> float(found.similarity["share_above"].sel(layer=96, kind="raw", threshold=0.99)) > 0.01  # doctest: +SKIP
    True
    """
    home = Path(folder)
    try:
        head = read_provenance(home, "study")
        about = {step: read_json(home / f"{step}.json") for step in STEPS}
        given = head["settings"]
        settings = Settings(**{**given, "control": tuple(given.get("control", ()))})
        names = (*MEASURED, "cloud", "ranks", "spectra", "ladder", "baselines", "parts")
        whole = {name: _there(home, name) for name in names}
        if whole["similarity"] is None or whole["cloud"] is None:
            raise ValueError("similarity.zarr or cloud.zarr is missing")
        beside = {name: _there(home, f"controls_{name}") for name in (*MEASURED, "ranks")}
        controls = Controls((), **beside) if beside["similarity"] is not None else None
        return Study(home, settings, about["probe"]["model"], **whole, controls=controls, about=about)
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise damaged(home, reason(error)) from error


def _there(home: Path, name: str) -> Any:
    """A dataset, or None where that step gave none."""
    return read_dataset(home, name) if (home / f"{name}.zarr").exists() else None
