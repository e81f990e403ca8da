"""metastable list."""

import inspect
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

from cyclopts import Parameter

from metastable.cli.flags import JSON
from metastable.cli.output import answer
from metastable.errors import unknown

# kind -> (module, table, what the names are for). Add a kind: a line here.
KINDS: dict[str, tuple[str, str, str]] = {
    "geometries": ("equation.geometry", "GEOMETRIES", "--geometry, and mix-ln(2); normalisation schemes among them"),
    "normalisations": ("equation.normalise", "NORMALISATIONS", "--normalise"),
    "masks": ("equation.masks", "MASKS", "--mask, and window(8), window(8, causal); several with ; between, by layer"),
    "scores": ("equation.scores", "SCORES", "--score, and capped(50)"),
    "positions": ("equation.positions", "POSITIONS", "--position"),
    "noises": ("equation.noises", "NOISES", "--noise-kind"),
    "methods": ("solve.methods", "METHODS", "--method"),
    "engines": ("engines", "ENGINES", "--engine"),
    "families": ("equation.matrices", "FAMILIES", "--Q, --K, --V"),
    "clouds": ("initial", "INITIAL", "--initial"),
    "observables": ("observables", "OBSERVABLES", "run.observe(NAME), and plot --kind series --observable NAME"),
    "plots": ("plots", "PLOTS", "plot --kind"),
    "experiments": ("experiments", "EXPERIMENTS", "reproduce NAME"),
    "model-types": (
        "models.families",
        "FAMILIES",
        "types with spectra and ladder; others have the rest",
    ),
    "models": ("models.zoo", "MODELS", "model NAME; any folder or hub name besides"),
}
PARTS = ("geometries", "normalisations", "masks", "scores", "positions", "noises", "methods", "engines")


def listing(
    kind: Annotated[str | None, Parameter(help="parts, or one of the kinds; all without it")] = None,
    /,
    *,
    json: JSON = False,
) -> int:
    """Name what there is: parts, families, methods, observables, plots.

    Parameters
    ----------
    json
        print one JSON object and nothing else
    """
    if kind is not None and kind != "parts" and kind not in KINDS:
        raise unknown("kind of list", kind, ["parts", *KINDS])
    chosen = PARTS if kind == "parts" else tuple(KINDS) if kind is None else (kind,)
    found = {name: table_entries(name) for name in chosen}
    lines: list[str] = []
    for name, entries in found.items():
        lines += [f"{name} ({KINDS[name][2]})"]
        lines += [f"  {entry:<24} {does}".rstrip() for entry, does in entries.items()] + [""]
    answer(json, found, lines[:-1])
    return 0


def table_entries(kind: str) -> dict[str, str]:
    """Names and what they are, from the table's own words."""
    home, table, _ = KINDS[kind]
    found = getattr(import_module(f"metastable.{home}"), table)
    entries: Mapping[str, Any] = found if isinstance(found, Mapping) else {entry.name: entry for entry in found}
    return {name: _description(kind, name, entry) for name, entry in entries.items()}


def _description(kind: str, name: str, entry: Any) -> str:
    if kind == "experiments":
        return _title(name)
    if kind == "model-types":
        return (sys.modules[entry.block.__module__].__doc__ or "").strip().partition("\n")[0]
    if isinstance(entry, str):
        return entry
    for attribute in ("measures", "shows", "about"):
        if isinstance(getattr(entry, attribute, None), str):
            return str(getattr(entry, attribute))
    text = inspect.getdoc(getattr(entry, "function", entry)) or ""
    return text.partition("\n\n")[0].replace("\n", " ").replace("``", "")


def _title(name: str) -> str:
    from metastable.experiments import experiment

    try:
        return str(experiment(name).title)
    except ImportError:
        return "needs the extra 'models'"
