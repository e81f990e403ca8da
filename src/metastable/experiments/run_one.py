"""One experiment in its folder: run, judged, drawn and filmed, each step whole on disk before the next begins.

    params.json    what the experiment is, its settings, the preset they came from
    parts/         finished parts of an unfinished run; removed when data.npz is there
    data.npz       what `run` returned
    verdicts.json  what `judge` returned
    NAME.svg/.mp4  what `draw` and `films` returned
    error.txt      the traceback of a run that crashed; gone after one that did not
    done           JSON, written last: pictures in order, seconds, versions

So a process that is killed at any moment loses at most one part, and a finished experiment is never run again.
"""

import dataclasses
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from metastable.errors import InputError, unknown
from metastable.experiments.base import Data, Experiment, Work
from metastable.store.files import read_json, remove, write_json
from metastable.theory.verdicts import Verdict, verdict_from_dict

PRESETS = ("default", "quick", "full")
FILM = {"frames": 75, "fps": 25, "size": (400, 400)}  # three seconds, about 100 kB
Progress = Callable[[float, str], None]


@dataclass(frozen=True)
class Record:
    """A finished experiment as it lies on disk."""

    name: str
    folder: Path
    about: Mapping[str, str]  # title, source, figures, text
    preset: str
    overrides: Mapping[str, Any]
    params: Mapping[str, Any]
    verdicts: tuple[Verdict, ...]
    figures: tuple[tuple[str, str], ...]  # (file, what it shows)
    films: tuple[tuple[str, str], ...]
    seconds: float
    made: Mapping[str, Any]

    @property
    def failed(self) -> bool:
        """True when a theorem was seen to fail."""
        return any(v.status == "fails" and v.kind == "theorem" for v in self.verdicts)


def settings(experiment: Experiment, preset: str, overrides: Mapping[str, Any]) -> Any:
    """The experiment's Params: the preset's, with ``instances`` or ``seed`` replaced where asked for."""
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    chosen = {"default": {}, "quick": experiment.quick, "full": experiment.full}[preset]
    known = {field.name for field in dataclasses.fields(experiment.params)}
    return experiment.params(**{**chosen, **{k: v for k, v in overrides.items() if k in known}})


def run_into(
    experiment: Experiment,
    folder: Path,
    preset: str = "default",
    overrides: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Record:
    """Bring the experiment in ``folder`` to its end from wherever an earlier run left it."""
    started = time.perf_counter()
    told: Progress = progress or (lambda share, text: None)
    params = settings(experiment, preset, overrides or {})
    _claim(experiment, folder, params, preset, overrides or {})
    if (folder / "done").exists():
        return read(folder)
    data = _data(experiment, folder, params, told)
    told(1.0, "judging")
    verdicts = experiment.judge(params, data)
    write_json(folder / "verdicts.json", {"verdicts": [v.to_dict() for v in verdicts]})
    told(1.0, "drawing")
    figures, films = _pictures(experiment, folder, params, data)
    made = {"figures": figures, "films": films, "seconds": round(time.perf_counter() - started, 2)}
    write_json(folder / "done", made | _versions())
    remove(folder / "parts")
    remove(folder / "error.txt")
    return read(folder)


def read(folder: Path) -> Record:
    """A finished experiment from its folder."""
    try:
        head, made = read_json(folder / "params.json"), read_json(folder / "done")
        verdicts = read_json(folder / "verdicts.json")["verdicts"]
        return Record(
            head["experiment"],
            folder,
            head["about"],
            head["preset"],
            head["overrides"],
            head["params"],
            tuple(verdict_from_dict(v) for v in verdicts),
            tuple((file, text) for file, text in made["figures"]),
            tuple((file, text) for file, text in made["films"]),
            float(made["seconds"]),
            made,
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{str(folder)!r} holds no finished experiment ({error}); run it again.") from error


def command(names: Sequence[str], preset: str, overrides: Mapping[str, Any]) -> str:
    """The command that makes these results, without its --out."""
    flags = [] if preset == "default" else [f"--{preset}"]
    flags += [f"--{ {'instances': 'seeds'}.get(key, key) } {value}" for key, value in overrides.items()]
    return " ".join(["metastable reproduce", *names, *flags])


# --- steps --------------------------------------------------------------------------------------------------------


def _claim(experiment: Experiment, folder: Path, params: Any, preset: str, overrides: Mapping[str, Any]) -> None:
    """Write down what the folder is for, or refuse one that is for something else."""
    about = {key: getattr(experiment, key) for key in ("title", "source", "figures", "text")}
    values = json.loads(json.dumps(dataclasses.asdict(params), default=_listed))
    path = folder / "params.json"
    if path.exists():
        stored = read_json(path)["params"]
        other = [key for key in {*stored, *values} if stored.get(key) != values.get(key)]
        if other:
            was = ", ".join(f"{key} = {stored.get(key)!r}, now {values.get(key)!r}" for key in sorted(other)[:3])
            raise InputError(
                f"{str(folder)!r} holds {experiment.name} with other settings ({was}); "
                "choose another --out, or remove that folder."
            )
        return
    folder.mkdir(parents=True, exist_ok=True)
    head = {"experiment": experiment.name, "about": about, "preset": preset, "overrides": dict(overrides)}
    write_json(path, {**head, "params": values})


def _data(experiment: Experiment, folder: Path, params: Any, told: Progress) -> Data:
    path = folder / "data.npz"
    if not path.exists():
        data = experiment.run(params, Work(folder / "parts", told))
        Work(folder).part("data", lambda: data)  # the same whole-or-absent file as any part
        return data
    with np.load(path, allow_pickle=False) as stored:
        return {key: stored[key] for key in stored.files}


def _pictures(experiment: Experiment, folder: Path, params: Any, data: Data) -> tuple[list[list[str]], list[list[str]]]:
    from metastable.plots import animate, save_figure

    figures = []
    for name, figure in experiment.draw(params, data).items():
        file = f"{_slug(name)}.svg"
        save_figure(figure, folder / file, dpi=150.0)
        figures.append([file, name])
    films = []
    for name, shown in (experiment.films(params, data) if experiment.films else {}).items():
        file = f"{_slug(name)}.mp4"
        options = dict(shown) if isinstance(shown, Mapping) else {"tokens": shown}
        animate(options.pop("tokens"), folder / file, **{**FILM, **options})
        films.append([file, name])
    return figures, films


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "picture"


def _listed(value: Any) -> Any:
    """Arrays and numpy numbers as plain data."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)


def _versions() -> dict[str, str]:
    import platform

    from metastable import __version__

    finished = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return {
        "finished": finished,
        "metastable": __version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
