"""A finished experiment read from its folder, and the command that makes it again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from metastable.errors import InputError
from metastable.store.files import read_json
from metastable.store.folder import read_provenance, status
from metastable.theory.verdicts import Verdict, verdict_from_dict

PREVIEW = "preview.png"  # a small picture of the experiment for lists


class Picture(NamedTuple):
    """A figure or a film: its file, a short title, and a caption that says what is drawn, with its parameters."""

    file: str
    title: str
    caption: str

    @property
    def words(self) -> str:
        """The title as words: titles are slugs or sentences."""
        words = self.title.replace("_", " ") if " " in self.title else self.title.replace("_", " ").replace("-", " ")
        return words[:1].upper() + words[1:]


class Finding(NamedTuple):
    """What was claimed, what was measured, one sentence each, and the title of the figure that shows it."""

    claimed: str
    measured: str
    figure_title: str


@dataclass(frozen=True)
class Record:
    """A finished experiment as it lies on disk."""

    name: str
    folder: Path
    about: Mapping[str, str]  # title, source, figures, text, topic, leaves_out
    preset: str
    overrides: Mapping[str, Any]
    params: Mapping[str, Any]
    verdicts: tuple[Verdict, ...]
    figures: tuple[Picture, ...]
    films: tuple[Picture, ...]
    seconds: float
    made: Mapping[str, Any]
    checks: tuple[tuple[str, float, float], ...] = ()  # (name, difference from the plain formula, allowed)
    finding: Finding | None = None

    @property
    def failed(self) -> bool:
        """True when a theorem was seen to fail."""
        return any(v.status == "fails" and v.kind == "theorem" for v in self.verdicts)

    @property
    def leading(self) -> Picture | None:
        """The figure that stands for the experiment: its finding's, or its first."""
        wanted = self.finding.figure_title if self.finding else ""
        named = [p for p in self.figures if p.title == wanted]
        return next(iter([*named, *self.figures]), None)


def read(folder: Path) -> Record:
    """A finished experiment from its folder."""
    if status(folder, "experiment") != "finished":
        raise InputError(f"{str(folder)!r} holds no finished experiment; run it again.")
    head = read_provenance(folder, "experiment")
    try:
        verdicts = read_json(folder / "verdicts.json")["verdicts"]
        return Record(
            head["name"],
            folder,
            head["about"],
            head["preset"],
            head["overrides"],
            {name: value for name, value in head["settings"].items() if name != "experiment"},
            tuple(verdict_from_dict(v) for v in verdicts),
            tuple(Picture(*entry) for entry in head["figures"]),
            tuple(Picture(*entry) for entry in head["films"]),
            float(head["seconds"]),
            head["made"],
            tuple((name, apart, allowed) for name, apart, allowed in head["checks"]),
            None if head["finding"] is None else Finding(**head["finding"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{str(folder)!r} holds no finished experiment ({error}); run it again.") from error


def command(names: Sequence[str], preset: str, overrides: Mapping[str, Any]) -> str:
    """The command that makes these results, without its --out."""
    flags = [] if preset == "default" else [f"--{preset}"]
    flags += [f"--{ {'instances': 'seeds'}.get(key, key) } {value}" for key, value in overrides.items()]
    return " ".join(["metastable reproduce", *names, *flags])
