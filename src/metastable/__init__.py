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

# public name -> the module that defines it
_PUBLIC = {
    "Weights": "equation.weights",
    "Dynamics": "equation.dynamics",
    "Block": "equation.blocks",
    "Trajectory": "trajectory",
    "InputError": "errors",
    "simulate": "solve.simulate",
    "flow": "solve.flow",
    "Mask": "equation.masks",
    "Normalisation": "equation.normalise",
    "Score": "equation.scores",
    "Geometry": "equation.geometry",
    "Noise": "equation.noises",
    "observe_many": "solve.observe",
    "load": "trajectory",
    "compare": "solve.two_runs",
    "check": "theory.checking",
    "fit": "learning.fitting",
    "density": "continuum.density",
    "Density": "continuum.laws",
    "sweep": "sweeps.sweeping",
}
# public name -> the module that it is
_MODULES = {
    "blocks": "equation.blocks",
    "engines": "engines",
    "geometry": "equation.geometry",
    "initial": "initial",
    "learning": "learning",
    "masks": "equation.masks",
    "models": "models",
    "noises": "equation.noises",
    "normalise": "equation.normalise",
    "observables": "observables",
    "plots": "plots",
    "reduced": "reduced",
    "methods": "solve.methods",
    "positions": "equation.positions",
    "scores": "equation.scores",
    "sweeps": "sweeps",
    "theory": "theory",
    "weights": "equation.weights",
}

__all__ = ["__version__", *_PUBLIC, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(f"metastable.{_MODULES[name]}")
    elif name in _PUBLIC:
        value = getattr(import_module(f"metastable.{_PUBLIC[name]}"), name)
    else:
        raise AttributeError(f"module 'metastable' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
