"""Settings as they are resolved: defaults, then a TOML file, then flags, each with where it came from."""

import json
from collections.abc import Mapping
from typing import Any

from metastable.config.environment import ENVIRONMENT
from metastable.config.settings import Simulate, checked
from metastable.config.toml_files import Tables


def sources(tables: Tables, flags: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """Every setting of `simulate`: its value, and "flag", the file or "default"; None is chosen by the run itself."""
    settings = checked(Simulate, tables.merged("simulate", flags))
    in_file = tables.tables.get("simulate", {})
    found: dict[str, tuple[Any, str]] = {}
    for name, value in settings.model_dump().items():
        origin = "flag" if name in flags else f"{tables.name}.toml" if name in in_file else "default"
        found[name] = (value, origin)
    return found


def as_lines(found: Mapping[str, tuple[Any, str]]) -> list[str]:
    """The settings as a TOML table, with where each came from; what is chosen later stands in comments."""
    fields = Simulate.model_fields
    lines = ["[simulate]"]
    for name, (value, origin) in found.items():
        if value is None:
            lines.append(f"# {name}: {fields[name].description}")
        else:
            lines.append(f"{f'{name} = {_toml(value)}':<32} # {origin}")
    lines += ["", "# environment"]
    for variable in ENVIRONMENT:
        state = f"= {variable.value}" if variable.value is not None else f"not set: {variable.otherwise}"
        lines.append(f"# {variable.name} {state}")
    return lines


def _toml(value: Any) -> str:
    """A number, text, truth value or list as TOML writes it; JSON's spelling is the same for these."""
    return json.dumps(value)
