"""A sweep's `Spec`: what every worker must know of it, as plain data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from metastable import __version__
from metastable.sweeps.designs import Draws


@dataclass(frozen=True)
class Spec:
    """Everything that decides the numbers of a run but its own parameters: plain data, sent to workers.

    ``observe`` is column -> observable; ``times`` a count or a list; ``draws`` turns samples into parameters.
    """

    target: str
    base: Mapping[str, Any]
    observe: Mapping[str, str | Callable[..., Any]]
    times: int | tuple[float, ...]
    draws: Draws | None = None
    version: str = __version__
