"""Sweeps: runs over a grid, a list, a range or a random design of parameters, on one machine or a Dask cluster.

>>> import metastable as ms
>>> values = {"beta": [1.0, 9.0], "seed": {"start": 0, "count": 3}, "times": 2}
>>> table = ms.sweep({"simulate": {"n": 6, "t": 1.0}, "sweep": values})
>>> len(table), list(table.columns)
(12, ['run', 'seed', 'beta', 'time', 'clusters', 'status'])

See docs/sweeps.md.
"""

from importlib import import_module
from typing import Any

from metastable.errors import door

# public name -> the module that defines it; imported on first use, so that --help stays quick
_HOMES = {
    "sweep": "sweeping",
    "read": "sweeping",
    "read_job": "sweep_settings",
    "run_sweep": "sweep_driver",
    "dry_run": "sweep_driver",
    "sweep_status": "sweep_folder",
    "make_executor": "choose_executor",
}

__all__ = ["dry_run", "make_executor", "read", "read_job", "run_sweep", "sweep", "sweep_status"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'metastable.sweeps' has no attribute {name!r}")
    return door(getattr(import_module(f"metastable.sweeps.{_HOMES[name]}"), name))
