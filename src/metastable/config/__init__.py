"""From a TOML file and flags to a run: `read` merges them, `Simulate` names every setting, `build` makes the plan.

>>> from metastable.config import Simulate, build
>>> job = build(Simulate(n=8, beta=4.0, t=1.0, V="1,1,-0.5"))
>>> job.plan.t, job.x.shape
(1.0, (1, 8, 3))
"""

from importlib import import_module
from typing import Any

# `build` needs JAX and the settings do not: names are imported on first use, so that --help stays quick
_HOMES = {"Animate": "settings", "Plot": "settings", "Simulate": "settings", "Tables": "toml_files"}
_HOMES |= {"read": "toml_files", "Job": "job", "build": "job"}

__all__ = ["Animate", "Job", "Plot", "Simulate", "Tables", "build", "read"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'metastable.config' has no attribute {name!r}")
    return getattr(import_module(f"metastable.config.{_HOMES[name]}"), name)
