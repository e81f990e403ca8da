"""reproduce: every experiment in a worker process, each in its folder, resumable however it ends.

DIR/reproduction.json   the preset; one folder holds results of one
DIR/NAME/               an experiment (`metastable.experiments.running`)
DIR/gallery.html        all of them (`metastable.report`)
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metastable.errors import InputError, unknown
from metastable.experiments import EXPERIMENTS
from metastable.experiments.running import PRESETS, command
from metastable.experiments.workers import Result, Task, Watch, run_all
from metastable.record.files import locked, read_json, spoken, write_json, write_whole
from metastable.report import SLOTS, gallery

# name -> module whose EXPERIMENT is run; give `reproduce` another table to run experiments of your own
HOMES: dict[str, str] = {name: f"metastable.experiments.{file}" for name, file in EXPERIMENTS.items()}
NEED_MODELS = tuple(slot.name for slot in SLOTS)  # run only when named: they download weights
GALLERY = "gallery.html"
_HEAD = "reproduction.json"


@dataclass(frozen=True)
class Reproduction:
    """All results in the order of the gallery, and where they are."""

    folder: Path
    results: tuple[Result, ...]

    @property
    def failed(self) -> bool:
        """True when an experiment crashed or a theorem failed."""
        return any(result.failed for result in self.results)


def reproduce(
    names: Sequence[str] = (),
    *,
    preset: str = "default",
    seeds: int | None = None,
    seed: int | None = None,
    jobs: int | None = None,
    out: str | os.PathLike[str] = "reproduction",
    watch: Watch | None = None,
    homes: Mapping[str, str] | None = None,
) -> Reproduction:
    """Run experiments, judge their claims, draw their pictures, and write one gallery.

    Parameters
    ----------
    names : sequence of str
        Experiments of the table ``metastable.experiments.EXPERIMENTS``; all that need no pretrained model without any.
    preset : {"default", "quick", "full"}
        The papers' settings with at least 200 instances, a first look, or thousands of instances.
    seeds, seed : int, optional
        How many random instances, and the first one's seed: ``seeds=1, seed=17`` replays instance 17.
    jobs : int, optional
        Worker processes; as many as there are cores by default.
    out : path
        Folder of the records and of gallery.html. What an earlier call with the same settings finished is kept.
    watch : function, optional
        Called with (name, "start" | "part" | "end", share done, words).
    homes : mapping, optional
        Another table: names to modules that hold an EXPERIMENT.

    Examples
    --------
    >>> from metastable.reproduce import reproduce
    >>> made = reproduce(["ginibre"], preset="quick", seeds=4, jobs=1, out="/tmp/metastable-doctest/ginibre")
    >>> [result.name for result in made.results], made.failed
    (['ginibre'], False)
    """
    table = HOMES if homes is None else homes
    chosen = choose(names, table)
    asked = {"instances": _whole("seeds", seeds, 1), "seed": _whole("seed", seed, 0)}
    overrides = {name: value for name, value in asked.items() if value is not None}
    workers = min(_whole("jobs", jobs, 1) or os.cpu_count() or 1, len(chosen))
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    folder = Path(out)
    with spoken(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        _claim(folder, preset, overrides)
        tasks = [Task(name, table[name], folder / name, preset, overrides) for name in chosen]
        results = run_all(tasks, workers, watch or (lambda name, event, share, words: None))
        text = gallery(folder, table, {r.name: r.error for r in results.values() if r.error})
        with spoken(folder, kept=True):
            write_whole(folder / GALLERY, text.encode())
    return Reproduction(folder, tuple(results[name] for name in chosen))


def choose(names: Sequence[str], table: Mapping[str, str] = HOMES) -> list[str]:
    """The experiments meant, in the order of the table; without names all that need no pretrained model."""
    for name in names:
        if name not in table:
            raise unknown("experiment", name, table)
    return [name for name in table if name in names or not (names or name in NEED_MODELS)]


def _whole(name: str, value: int | None, least: int) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise InputError(f"{name} must be a whole number >= {least}, not {value!r}.")
    return value


def _claim(folder: Path, preset: str, overrides: Mapping[str, Any]) -> None:
    """One folder holds experiments of one preset, so that its gallery says one thing."""
    path, head = folder / _HEAD, {"preset": preset, "overrides": dict(overrides)}
    if not path.exists():
        others = [p.name for p in folder.iterdir() if p.name not in ("lock",)]
        if others:
            raise InputError(
                f"{str(folder)!r} holds other files ({', '.join(sorted(others)[:3])}); choose an empty folder as --out."
            )
        with spoken(folder):
            write_json(path, head)
        return
    try:
        stored = read_json(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r} cannot be read ({error}); choose another folder as --out.") from error
    if stored != head:
        raise InputError(
            f"{str(folder)!r} holds results of `{command((), stored['preset'], stored['overrides'])}`, "
            "and one folder holds one kind; choose another --out."
        )
