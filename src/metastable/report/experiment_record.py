"""A finished experiment read from its folder, and the command that makes it again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metastable.errors import InputError
from metastable.store.files import read_json
from metastable.store.folder import read_provenance, status
from metastable.theory.verdicts import Verdict, verdict_from_dict


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
    figures: tuple[tuple[str, str, str], ...]  # (file, title, caption)
    films: tuple[tuple[str, str, str], ...]
    seconds: float
    made: Mapping[str, Any]
    checks: tuple[tuple[str, float, float], ...] = ()  # (name, difference from the plain formula, allowed)
    finding: Mapping[str, str] | None = None  # claimed, measured, figure_title

    @property
    def failed(self) -> bool:
        """True when a theorem was seen to fail."""
        return any(v.status == "fails" and v.kind == "theorem" for v in self.verdicts)


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
            tuple((file, title, caption) for file, title, caption in head["figures"]),
            tuple((file, title, caption) for file, title, caption in head["films"]),
            float(head["seconds"]),
            head["made"],
            tuple((name, apart, allowed) for name, apart, allowed in head["checks"]),
            head["finding"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{str(folder)!r} holds no finished experiment ({error}); run it again.") from error


def command(names: Sequence[str], preset: str, overrides: Mapping[str, Any]) -> str:
    """The command that makes these results, without its --out."""
    flags = [] if preset == "default" else [f"--{preset}"]
    flags += [f"--{ {'instances': 'seeds'}.get(key, key) } {value}" for key, value in overrides.items()]
    return " ".join(["metastable reproduce", *names, *flags])
