"""Reading TOML files, and flags over them."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metastable.errors import InputError, unknown

# tables that a file may hold; [sweep] and [probe] belong to another command and are left to it
TABLES = ("simulate", "plot", "animate", "sweep", "probe")
PATHS = ("tokens", "Q", "K", "V")
_MOST_BYTES = 2**26


@dataclass(frozen=True)
class Tables:
    """The tables of a TOML file, and the file's name without its ending."""

    tables: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    name: str = "simulate"

    def merged(self, table: str, flags: Mapping[str, Any]) -> dict[str, Any]:
        """A table with flags over it."""
        return {**self.tables.get(table, {}), **flags}


def read(path: str | Path | None) -> Tables:
    """The tables of a TOML file; none when there is no file.

    Paths of input files are taken from the folder of the TOML file, so that it works from anywhere.
    """
    if path is None:
        return Tables()
    path = Path(path)
    found = _parsed(path)
    if "python" in found and "simulate" not in found:
        beyond = found["python"].get("beyond") if isinstance(found["python"], dict) else None
        parts = ", ".join(map(str, beyond)) if isinstance(beyond, list) else "parts of it"
        raise InputError(f"{path.name} describes a run made from Python ({parts}), which only Python can make again.")
    for name, value in found.items():
        if not isinstance(value, dict):
            raise InputError(f"{path.name} has {name!r} outside a table; put it under [simulate].")
        if name not in TABLES:
            raise unknown("table", name, TABLES)
    simulate = dict(found.get("simulate", {}))
    for name in PATHS:
        if isinstance(simulate.get(name), str):
            simulate[name] = _from_here(simulate[name], path.parent)
    sweep = dict(found.get("sweep", {}))
    for name in PATHS:
        if isinstance(sweep.get(name), list):
            sweep[name] = [_from_here(v, path.parent) if isinstance(v, str) else v for v in sweep[name]]
    return Tables({**found, "simulate": simulate} | ({"sweep": sweep} if sweep else {}), path.stem)


def _from_here(text: str, folder: Path) -> str:
    """A file's name as seen from the folder of the TOML file; other text as it is."""
    if Path(text).suffix not in (".npy", ".csv") or text.startswith("model:"):
        return text
    return str(folder / text)


def _parsed(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise InputError(f"There is no file {str(path)!r}; give a TOML file or settings as flags.")
    if path.is_dir():
        raise InputError(f"{str(path)!r} is a folder; give a TOML file.")
    try:
        with path.open("rb") as file:  # a pipe (`<(...)`) has no size, and a device no end
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ValueError("it is too large to be a list of settings")
        return tomllib.loads(data.decode())
    except RecursionError as error:
        raise InputError(f"Cannot read {path.name} as TOML: it is nested too deeply.") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or (str(error).splitlines() or ["?"])[0]
        raise InputError(f"Cannot read {path.name} as TOML: {reason}.") from error
