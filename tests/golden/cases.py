"""The runs: one for each engine and kind of method that fixes its bits, and a digest of what they give.

Bits are the same over threads, batch sizes, working folders and processes of one installation. Other versions of JAX,
NumPy or LLVM and other processors may round differently: then values are compared to 1e-9, which no version explains
away. ``made`` in golden.json says with what the bits were made.
"""

import hashlib
import json
import platform
from pathlib import Path
from typing import Any

import jax
import numba
import numpy as np

import metastable as ms

FILE = Path(__file__).with_name("golden.json")
V3 = np.diag([1.0, 0.7, -0.5])
V2 = np.array([[0.65, 0.82], [0.61, 0.63]])
# name -> (dynamics, tokens, options)
CASES: dict[str, tuple[ms.Dynamics, np.ndarray, dict[str, Any]]] = {
    "dense": (
        ms.Dynamics(ms.Weights(V=V3), beta=4.0, mask="causal"),
        ms.initial.sphere(6, 3, seed=1),
        {"engine": "dense"},
    ),
    "lanes": (
        ms.Dynamics(ms.Weights(V=V3), beta=4.0, mask="causal"),
        ms.initial.sphere(6, 3, seed=1),
        {"engine": "lanes"},
    ),
    "adaptive": (ms.Dynamics(beta=9.0), ms.initial.sphere(6, 3, seed=2), {"method": "tsit5"}),
    "noise": (
        ms.Dynamics(noise=0.2),
        ms.initial.sphere(5, 3, seed=3),
        {"method": "euler", "seed": 7, "engine": "dense"},
    ),
    "layers": (ms.Dynamics(beta=2.0), ms.initial.sphere(5, 3, seed=4), {"method": "layers", "t": 3.0, "save": 4}),
    "rescaled": (
        ms.Dynamics(ms.Weights(V=V2), geometry="rescaled"),
        ms.initial.cube(6, 2, seed=5),
        {"engine": "chart"},
    ),
    "exact": (
        ms.Dynamics(ms.Weights(V=V3), beta=4.0, mask="window(5, causal)"),
        ms.initial.sphere(20, 3, seed=6),
        {"engine": "exact", "t": 1.0},
    ),
    "spectral": (ms.Dynamics(beta=4.0), ms.initial.sphere(20, 3, seed=7), {"engine": "spectral", "t": 1.0}),
    "chart-kernels": (
        ms.Dynamics(ms.Weights(V=V2), geometry="rescaled", mask="causal"),
        ms.initial.cube(6, 2, seed=8),
        {"engine": "chart-kernels"},
    ),
}


def run(name: str) -> np.ndarray:
    """The tokens of a case."""
    dynamics, x0, options = CASES[name]
    return np.ascontiguousarray(ms.simulate(dynamics, x0, **{"t": 2.0, "save": 5, **options}).x)


def digest(x: np.ndarray) -> str:
    """Every bit of an array."""
    return hashlib.sha256(x.tobytes()).hexdigest()


def machine() -> dict[str, str]:
    """What decides how floats are rounded."""
    from llvmlite import binding

    versions = {"jax": jax.__version__, "numpy": np.__version__, "numba": numba.__version__}
    return {**versions, "machine": platform.machine(), "processor": str(binding.get_host_cpu_name())}


def stored() -> dict[str, Any]:
    """What the repository holds."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found
