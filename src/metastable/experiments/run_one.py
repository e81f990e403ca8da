"""One experiment in its folder: checked, run, judged, drawn, filmed; each step is whole on disk before the next begins.

    parts/         checkpoints of an unfinished run; removed at the end
    data.npz       what `run` returned
    verdicts.json  what `judge` returned
    NAME.svg/.mp4  what `draw` and `films` returned; NAME.json the texts of a figure that is a table; NAME.html the
                   film's run in the player
    preview.png    a small picture of the finding's figure, or of the first

besides the files of every record (`metastable.store.folder`); provenance.json holds the experiment's name, settings and
preset, the pictures in order with their captions, what the self-check found, the finding, and the seconds it took. A
process that is killed at any moment loses at most one part, and a finished experiment is never run again.
"""

import dataclasses
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from metastable.errors import unknown
from metastable.experiments.base import Data, Experiment, Work, self_check
from metastable.explorer.offline_page import export
from metastable.plots import animate, save_cells, save_figure, save_preview
from metastable.plots.figure_files import laid_out
from metastable.plots.style import paper
from metastable.provenance import stamp
from metastable.report.experiment_record import PREVIEW, Record, read
from metastable.store.files import disk_errors, remove, write_json
from metastable.store.folder import Purpose, check, claim, finish, settled_by

PRESETS = ("default", "quick", "full")
FILM = {"frames": 75, "fps": 25, "size": (400, 400)}  # three seconds, about 100 kB
_ABOUT = ("title", "source", "figures", "text", "topic", "leaves_out")
Share = Callable[[float, str], None]  # the share that is done, and a text


def settings(experiment: Experiment, preset: str, overrides: Mapping[str, Any]) -> Any:
    """The experiment's Params: the preset's, with ``instances`` or ``seed`` replaced where given."""
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
    progress: Share | None = None,
) -> Record:
    """Bring the experiment in ``folder`` to its end from wherever an earlier session left it."""
    params = settings(experiment, preset, overrides or {})
    purpose = _purpose(experiment, params, preset, overrides or {})
    if check(folder, purpose) == "finished":
        return read(folder)
    with claim(folder, purpose) as found:
        if found != "finished":
            _steps(experiment, folder, params, progress or (lambda share, text: None))
    return read(folder)


def _steps(experiment: Experiment, folder: Path, params: Any, report: Share) -> None:
    started = time.perf_counter()
    report(0.0, "checking itself")
    checks = self_check(experiment, params)
    data = Work(folder).part("data", lambda: experiment.run(params, Work(folder / "parts", report)))
    report(1.0, "judging")
    verdicts = experiment.judge(params, data)
    with disk_errors(folder, resumable=True):
        write_json(folder / "verdicts.json", {"verdicts": [v.to_dict() for v in verdicts]})
        report(1.0, "drawing")
        finding = experiment.finding(params, data) if experiment.finding else None
        figures, films = _pictures(experiment, folder, params, data, "" if finding is None else finding.figure_title)
    facts = {
        "figures": figures,
        "films": films,
        "checks": [[name, apart, allowed] for name, (apart, allowed) in checks.items()],
        "finding": None if finding is None else dataclasses.asdict(finding),
        "seconds": round(time.perf_counter() - started, 2),
        "made": stamp(),
    }
    remove(folder / "parts")  # before the end: a process that is killed in between needs it no more
    finish(folder, "experiment", facts)


# --- steps --------------------------------------------------------------------------------------------------------


def _purpose(experiment: Experiment, params: Any, preset: str, overrides: Mapping[str, Any]) -> Purpose:
    """What the folder is for: this experiment with these settings, whichever preset they came from."""
    about = {key: getattr(experiment, key) for key in _ABOUT}
    facts = {"name": experiment.name, "about": about, "preset": preset, "overrides": dict(overrides)}
    return settled_by("experiment", {"experiment": experiment.name, **dataclasses.asdict(params)}, facts)


def _pictures(
    experiment: Experiment, folder: Path, params: Any, data: Data, shown_first: str
) -> tuple[list[list[str]], list[list[str]]]:
    figures = []
    drawn = experiment.draw(params, data)
    for name, figure in drawn.items():
        file = f"{_slug(name)}.svg"
        with paper(), laid_out(figure):
            save_figure(figure, folder / file, dpi=150.0)
            save_cells(figure, folder / f"{_slug(name)}.json")
            if name == (shown_first if shown_first in drawn else next(iter(drawn))):
                save_preview(figure, folder / PREVIEW)
        caption: str = getattr(figure, "caption", "") or caption_of(params)
        figures.append([file, name, caption])
    films = []
    for name, shown in (experiment.films(params, data) if experiment.films else {}).items():
        file = f"{_slug(name)}.mp4"
        options: dict[str, Any] = dict(shown) if isinstance(shown, Mapping) else {"tokens": shown}
        caption = options.pop("caption", "") or caption_of(params)
        tokens = options.pop("tokens")
        animate(tokens, folder / file, **{**FILM, **options})
        export(tokens, folder / f"{_slug(name)}.html", title=name, play=False)
        films.append([file, name, caption])
    return figures, films


def caption_of(params: Any) -> str:
    """The settings as a caption, for a picture that has none of its own."""
    given = {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
    count, seed = given.pop("instances", None), given.pop("seed", None)
    short = (int, float, str)
    words = [f"{name} = {value}" for name, value in given.items() if isinstance(value, short) and value != ""]
    if count is not None:
        words.append(f"{count} instances" + ("" if seed is None else f" from seed {seed} on"))
    return ", ".join(words) + "." if words else ""


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "picture"
