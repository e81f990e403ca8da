"""The table of workloads. Add one: a file with a WORKLOAD, and a line here."""

from importlib import import_module

from benchmarks.harness import Workload

# name -> module in this folder
WORKLOADS = {
    "W1": "w1_sphere",
    "W2": "w2_rescaled",
    "W5": "w5_velocity",
}


def load(name: str) -> Workload:
    """The workload of that name."""
    found: Workload = import_module(f"benchmarks.workloads.{WORKLOADS[name]}").WORKLOAD
    return found
