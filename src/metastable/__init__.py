"""metastable: the laboratory for clustering in transformers.

>>> import metastable as ms
>>> dyn = ms.Dynamics(ms.Weights(), beta=9.0, mask="causal", geometry="sphere")
>>> run = ms.simulate(dyn, ms.initial.sphere(n=8, d=3, seed=0), t=1.0, save=3)
>>> run.x.shape
(3, 8, 3)

Names are imported on first use, so that ``import metastable`` and ``metastable --help`` stay quick.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# public name -> module that defines it (None: the name is a submodule)
_PUBLIC: dict[str, str | None] = {
    "Weights": "weights",
    "Dynamics": "dynamics",
    "Block": "blocks",
    "Trajectory": "trajectory",
    "InputError": "errors",
    "simulate": "integrate",
    "simulate_many": "ensemble",
    "observe_many": "observing",
    "load": "trajectory",
    "check": "theory.check",
    "blocks": None,
    "fast": None,
    "geometry": None,
    "initial": None,
    "masks": None,
    "models": None,
    "normalise": None,
    "observables": None,
    "plots": None,
    "scores": None,
    "theory": None,
    "weights": None,
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'metastable' has no attribute {name!r}")
    home = _PUBLIC[name]
    value = import_module(f"metastable.{name}") if home is None else getattr(import_module(f"metastable.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
