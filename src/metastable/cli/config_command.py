"""metastable config."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from metastable.cli.flags import JSON, flagged
from metastable.cli.output import answer
from metastable.config.environment import ENVIRONMENT
from metastable.config.resolved import as_lines, sources
from metastable.config.settings import Simulate
from metastable.config.toml_files import read


@flagged(Simulate)
def config(
    file: Annotated[Path | None, Parameter(help="A TOML file with a [simulate] table; flags override it.")] = None,
    /,
    *,
    json: JSON = False,
    flags: dict[str, Any],
) -> int:
    """Print the settings that a run would have, and where each comes from; what is printed is a TOML file itself.

    Parameters
    ----------
    json
        print one JSON object and nothing else
    """
    found = sources(read(file), flags)
    facts = {
        "simulate": {name: value for name, (value, _) in found.items()},
        "from": {name: origin for name, (_, origin) in found.items()},
        "environment": {variable.name: variable.value for variable in ENVIRONMENT},
    }
    answer(json, facts, as_lines(found))
    return 0
