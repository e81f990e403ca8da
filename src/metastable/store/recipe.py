"""What makes two runs the same, and how a run is written for `metastable simulate`."""

import hashlib
import io
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from metastable.solve.methods import METHODS
from metastable.solve.plan import Plan
from metastable.solve.stopping import Until
from metastable.store.describe import Parts
from metastable.store.files import read_bytes, reason, write_whole
from metastable.store.folder import damaged

CONFIG, INPUTS = "config.toml", "inputs"
SETTINGS = ("t", "dt", "method", "rtol", "atol", "seed", "dtype", "engine", "trust")
_ARRAYS = ("Q", "K", "V")


@dataclass(frozen=True)
class Recipe:
    """A run as a TOML table, with the arrays behind its file names.

    ``table`` has the names of `metastable.config.Simulate`. ``beyond`` names the parts a TOML file cannot hold (a
    block, weights per layer, functions): such a run can be made again only from Python.
    """

    table: dict[str, Any]
    inputs: Mapping[str, np.ndarray] = field(default_factory=dict)
    beyond: tuple[str, ...] = ()


def fingerprint(plan: Plan, x: np.ndarray, until: Until, parts: Parts) -> str | None:
    """A digest of everything that decides the digits of a run; None when functions of one's own are among it."""
    if parts.custom or callable(until) or METHODS.get(plan.method.name) != plan.method:
        return None
    numbers = [until, *settings_of(plan).values()]
    digest = hashlib.sha256(json.dumps([parts.tree, numbers], sort_keys=True).encode())
    for name, array in (("tokens", x), ("times", plan.times), *sorted(parts.arrays.items())):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def settings_of(plan: Plan) -> dict[str, Any]:
    """The settings of a plan by the names of `simulate`."""
    own = {"method": plan.method.name, "seed": plan.given_seed}
    return {name: own[name] if name in own else getattr(plan, name) for name in SETTINGS}


def drawn_from(recipe: Recipe) -> dict[str, Any]:
    """The cloud that a run's first tokens were drawn from with its seed, for its provenance; empty for an array."""
    return {name: recipe.table[name] for name in ("initial",) if name in recipe.table}


def recipe_of(
    settings: Mapping[str, Any], times: np.ndarray, x: np.ndarray | None, until: Until, parts: Parts | None
) -> Recipe:
    """The recipe of a run made from Python, as far as a TOML file can hold it."""
    table: dict[str, Any] = dict(settings)
    inputs: dict[str, np.ndarray] = {}
    if x is not None:
        table |= {"n": x.shape[-2], "d": x.shape[-1], "tokens": f"{INPUTS}/tokens.npy"}
        inputs["tokens"] = x
    table["save"] = _save(times, float(settings["t"]))
    beyond = [] if x is not None else ["tokens"]
    if settings["method"] not in METHODS:
        beyond.append("method")
    if isinstance(settings["seed"], list):
        beyond.append("seed")
    if isinstance(until, (str, int)):
        table["until"] = until
    elif until is not None:
        beyond.append("until")
    if parts is None:
        beyond.append("dynamics")
    else:
        _add_parts(parts, table, inputs, beyond)
    return Recipe(table, inputs, tuple(beyond))


def _add_parts(parts: Parts, table: dict[str, Any], inputs: dict[str, np.ndarray], beyond: list[str]) -> None:
    for name in ("beta", "normalise", "mask", "geometry", "score", "noise", "noise_kind"):
        value = parts.tree[name]
        if isinstance(value, dict):
            beyond.append(name)
        else:
            table[name] = value
    for name, value in parts.tree["weights"].items():
        if isinstance(value, dict) and name in _ARRAYS and "array" in value:
            table[name] = f"{INPUTS}/{name}.npy"
            inputs[name] = parts.arrays[value["array"]]
        elif isinstance(value, dict):
            beyond.append(f"weights.{name}")
    beyond.extend(name for name in ("position", "block") if parts.tree[name] is not None)


def _save(times: np.ndarray, t: float) -> int | list[float]:
    even = np.linspace(0.0, t, len(times)) if len(times) > 1 else np.array([t])
    return len(times) if np.array_equal(times, even) else times.tolist()


def check_recipe(folder: Path, settings: Mapping[str, Any]) -> None:
    """Refuse a config.toml that no longer says what the folder's ``settings`` say."""
    try:
        found = tomllib.loads(read_bytes(folder / CONFIG).decode())
        table = found["python"] if "python" in found else found["simulate"]
    except (OSError, ValueError, KeyError) as error:
        raise damaged(folder, f"{CONFIG}: {reason(error)}") from error
    written = json.loads(json.dumps({name: value for name, value in table.items() if name != "beyond"}, default=str))
    if written != {name: value for name, value in settings.items() if value is not None}:
        raise damaged(folder, f"{CONFIG} and provenance.json name different settings")


def write_recipe(folder: Path, recipe: Recipe) -> None:
    """Write inputs/ and config.toml."""
    for name, array in recipe.inputs.items():
        (folder / INPUTS).mkdir(exist_ok=True)
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        write_whole(folder / INPUTS / f"{name}.npy", buffer.getvalue())
    if recipe.beyond:
        table = {"python": {**recipe.table, "beyond": list(recipe.beyond)}}
        note = "# Parts of this run cannot be written in a TOML file (see `beyond`): make it again from Python.\n"
    else:
        table = {"simulate": recipe.table}
        note = f"# Make this run again: metastable simulate {CONFIG} --out ANOTHER-FOLDER\n"
    write_whole(folder / CONFIG, (note + tomli_w.dumps(table)).encode())
