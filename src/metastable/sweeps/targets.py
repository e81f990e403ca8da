"""What a sweep can run: TARGETS. A target turns runs, given by their parameters, into rows.

Add one: an object with the entries of `Target`, and a line in TARGETS.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metastable.config.settings import Simulate, Table
from metastable.config.sweep_tables import Probe
from metastable.sweeps import probe_runs, simulated_runs
from metastable.sweeps.spec import Spec

Columns = dict[str, Any]  # a parameter or an observable -> its values


@dataclass(frozen=True)
class Target:
    """Something that can be swept.

    Attributes
    ----------
    table : type
        Its settings; those in ``fixed`` cannot be swept.
    inner : tuple of str
        Parameters that change neither the shape nor the cost of a run, the slowest axis first.
    seconds : function
        Settings, number of times -> nominal seconds of one run: the same number on every machine.
    prepare : function
        Spec, parameters of one run -> how to compute it (plain data, decided once, by the driver), and an estimate of
        seconds and bytes of one run on this machine. Refuses what cannot be run.
    rows : function
        Spec, how, columns of parameters -> columns of rows: ``run`` (the place of the run), ``time`` and observables.
    most : int
        The largest number of runs in a chunk.
    """

    name: str
    table: type[Table]
    fixed: tuple[str, ...]
    inner: tuple[str, ...]
    seconds: Callable[[Mapping[str, Any], int], float]
    prepare: Callable[[Spec, Mapping[str, Any]], tuple[dict[str, Any], float, float]]
    rows: Callable[[Spec, Mapping[str, Any], Mapping[str, Sequence[Any]]], Columns]
    most: int

    def rank(self, name: str) -> int:
        """Where an axis stands: outer ones first, then ``inner`` in its order."""
        return 1 + self.inner.index(name) if name in self.inner else 0


TARGETS: dict[str, Target] = {
    "simulate": Target(
        "simulate",
        Simulate,
        ("out", "save", "runs", "until"),
        ("Q", "K", "V", "initial", "sample", "seed", "noise", "beta"),
        simulated_runs.nominal_seconds,
        simulated_runs.prepare,
        simulated_runs.rows,
        1024,
    ),
    "probe": Target(
        "probe",
        Probe,
        ("texts",),
        ("text",),
        probe_runs.nominal_seconds,
        probe_runs.prepare,
        probe_runs.rows,
        8,
    ),
}
