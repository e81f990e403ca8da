"""The table of workloads. Add one: a file with a WORKLOAD, and a line here."""

from importlib import import_module

from benchmarks.harness import Workload

# name -> module in this folder
WORKLOADS = {
    "W1": "w1_sphere",
    "W2": "w2_rescaled",
    "W3": "w3_high_dimension",
    "W4": "w4_ensemble",
    "W5": "w5_velocity",
    "W6": "w6_causal",
    "W7": "w7_spectral",
    "W8": "w8_coalescing",
    "W9": "w9_cost",
    "phase-diagram": "phase_diagram",
    "models": "model_statistics",
    "explorer": "explorer_frames",
    "explorer-memory": "explorer_memory",
    "start-up": "start_up",
    "alone": "alone",
    "sweep": "sweep",
}


def load(name: str) -> Workload:
    """The workload of that name."""
    found: Workload = import_module(f"benchmarks.workloads.{WORKLOADS[name]}").WORKLOAD
    return found
