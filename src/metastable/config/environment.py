"""Environment variables that metastable reads: one line here is documented, shown by `config` and by `doctor`."""

import os
from dataclasses import dataclass


@dataclass(frozen=True)
class Variable:
    """An environment variable, what it does, and what holds without it."""

    name: str
    does: str
    otherwise: str

    @property
    def value(self) -> str | None:
        """What it is set to; None where it is not set."""
        return os.environ.get(self.name)


ENVIRONMENT = (
    Variable(
        "METASTABLE_CACHE",
        "folder for compiled code, calibrations and downloaded weights",
        "$XDG_CACHE_HOME/metastable, or ~/.cache/metastable",
    ),
    Variable("METASTABLE_THREADS", "threads of the compiled kernels", "one for each core"),
    Variable("METASTABLE_QUIET", "1: no progress and no summary, as --quiet", "progress and summary are shown"),
    Variable(
        "METASTABLE_TRACEBACK", "1: show Python's own traceback of an error, as --traceback", "an error is one sentence"
    ),
    Variable("NO_COLOR", "anything: no colours in help and progress bars", "colours on a terminal"),
    Variable("JAX_PLATFORMS", "device that JAX computes on: cpu, cuda, tpu", "the best that JAX finds"),
    Variable("JAX_COMPILATION_CACHE_DIR", "folder for JAX's compiled code", "compiled/ in METASTABLE_CACHE"),
)
