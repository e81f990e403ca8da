"""reproduce: every experiment in a worker process, each in its folder, resumable however it ends.

DIR/               a record (`metastable.store.folder`); one folder holds results of one preset
DIR/NAME/          an experiment (`metastable.experiments.run_one`)
DIR/index.html     the gallery (`metastable.report`), with a page in each folder; DIR/gallery.html has all in one file
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from metastable.engines.simd.threads import available
from metastable.errors import InputError, unknown
from metastable.experiments import EXPERIMENTS, model_access
from metastable.experiments.on_cluster import run_on_cluster
from metastable.experiments.run_one import PRESETS
from metastable.experiments.workers import Result, Task, run_all
from metastable.progress import Progress, Report, silent
from metastable.report.gallery import SLOTS, write_gallery
from metastable.store.files import disk_errors, remove
from metastable.store.folder import DONE, claim, finish, settled_by

# name -> module whose EXPERIMENT is run; give `reproduce` another table to run experiments of your own
HOMES: dict[str, str] = {name: f"metastable.experiments.{file}" for name, file in EXPERIMENTS.items()}
# Begun first, longest first, so that no worker is left alone with one of them at the end.
LONG = ("optimal-control", "optimised-mlp", "sinks-in-training", "noise", "phase-diagram", "codimension", "density")
NEED_MODELS = tuple(slot.name for slot in SLOTS)  # skipped, with a sentence, where no model can be had


@dataclass(frozen=True)
class Reproduction:
    """All results in the order of the gallery, and where they are."""

    folder: Path
    results: tuple[Result, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)  # experiments that found no model, and why

    @property
    def failed(self) -> bool:
        """True when an experiment crashed or a theorem failed; one that was skipped is neither."""
        return any(result.failed for result in self.results)


def reproduce(
    names: Sequence[str] = (),
    *,
    preset: str = "default",
    seeds: int | None = None,
    seed: int | None = None,
    model: str | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    out: str | os.PathLike[str] = "reproduction",
    progress: Report = silent,
    homes: Mapping[str, str] | None = None,
) -> Reproduction:
    """Run experiments, judge their claims, draw their pictures, and write the gallery.

    Parameters
    ----------
    names : sequence of str
        Experiments of the table ``metastable.experiments.EXPERIMENTS``; all without any. Those on pretrained models are
        skipped where the zoo's weights are neither in the cache nor within reach.
    preset : {"default", "quick", "full"}
        The papers' settings with as many instances as "holds" needs or more (200 where they are cheap, down to a
        dozen where each is a training or a large cloud), a first look, or as many as make intervals narrow.
    seeds, seed : int, optional
        How many random instances, and the first one's seed: ``seeds=1, seed=17`` replays instance 17.
    model : str, optional
        Another model for the experiments on pretrained models: a zoo name, a hub name, a folder or a GGUF file.
    jobs : int, optional
        Worker processes; as many as there are cores by default.
    cluster : str, optional
        A Dask cluster instead, "local" or a scheduler's address; its workers must see the folder ``out``.
    out : path
        Folder of the records and of the gallery (index.html). What an earlier call with the same settings finished is
        not done again.
    progress : function, optional
        Called with a `metastable.progress.Progress` when an experiment begins, comes further and ends.
    homes : mapping, optional
        Another table: names to modules that hold an EXPERIMENT.

    Examples
    --------
    >>> from metastable.experiments.reproducing import reproduce
    >>> made = reproduce(["ginibre"], preset="quick", seeds=4, jobs=1, out="/tmp/metastable-doctest/ginibre")
    >>> [result.name for result in made.results], made.failed
    (['ginibre'], False)
    """
    table = HOMES if homes is None else homes
    chosen = choose(names, table)
    given = {"instances": _whole("seeds", seeds, 1), "seed": _whole("seed", seed, 0), "model": model}
    overrides = {name: value for name, value in given.items() if value is not None}
    workers = min(_whole("jobs", jobs, 1) or available(), len(chosen))
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    if model is not None:
        _refuse_model(model, chosen)
    folder = Path(out)
    purpose = settled_by("reproduction", {"preset": preset, **overrides})
    with claim(folder, purpose, extend=True):  # there may be more experiments to add
        missing = _missing([name for name in chosen if not (folder / name / DONE).exists()], model, progress)
        order = sorted(chosen, key=lambda name: LONG.index(name) if name in LONG else len(LONG))
        tasks = [Task(name, table[name], folder / name, preset, overrides) for name in order if name not in missing]
        if cluster is not None:
            results = run_on_cluster(tasks, cluster, jobs or 0, progress)
        else:
            results = run_all(tasks, workers, progress)
        missing |= _unmeasured(results)
        results = {name: result for name, result in results.items() if name not in missing}
        with disk_errors(folder, resumable=True):
            write_gallery(folder, table, {r.name: r.error for r in results.values() if r.error}, missing)
        finish(folder, "reproduction", {"experiments": [name for name in table if (folder / name / DONE).exists()]})
    shown = tuple(results[name] for name in chosen if name in results)
    return Reproduction(folder, shown, {name: missing[name] for name in chosen if name in missing})


def choose(names: Sequence[str], table: Mapping[str, str] = HOMES) -> list[str]:
    """The experiments meant, in the order of the table; all without names."""
    for name in names:
        if name not in table:
            raise unknown("experiment", name, table)
    return [name for name in table if name in names or not names]


# --- experiments on pretrained models -----------------------------------------------------------------------------


def _refuse_model(model: str, chosen: Sequence[str]) -> None:
    """A model that was requested by name and cannot be had is a mistake, and so is one that nothing would use."""
    if not any(name in NEED_MODELS for name in chosen):
        raise InputError(f"--model is for the experiments {', '.join(NEED_MODELS)}; name one of them, or none at all.")
    model_access.reach(model)


def _missing(names: Sequence[str], model: str | None, report: Report) -> dict[str, str]:
    """Experiments for which there is no model here, with the sentence that says why; a zoo model is fetched."""
    waiting = [name for name in names if name in NEED_MODELS]
    if not waiting or model is not None:
        return {}
    try:
        model_access.reach(model_access.ZOO)
    except InputError as error:
        for name in waiting:
            report(Progress(name, 1.0, f"skipped: {error}", over=True))
        return dict.fromkeys(waiting, str(error))
    return {}


def _unmeasured(results: Mapping[str, Result]) -> dict[str, str]:
    """Experiments that had to give up their model while running; their folders go, so that the next run tries again."""
    found = {}
    for name in (name for name in NEED_MODELS if name in results):
        record = results[name].record
        if record is not None and (why := model_access.why_skipped(record.verdicts)):
            found[name] = why
            remove(record.folder)
    return found


def _whole(name: str, value: int | None, least: int) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise InputError(f"{name} must be a whole number >= {least}, not {value!r}.")
    return value
