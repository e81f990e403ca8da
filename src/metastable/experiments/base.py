"""What an experiment is: one file with Params, run, judge and draw.

    Params   frozen, defaults are the paper's own settings; ``instances`` random instances from ``seed`` on
    run      Params, Work -> data: named arrays, everything the verdicts and pictures need
    judge    Params, data -> verdicts, with criteria fixed in the code and derived in its docstrings
    draw     Params, data -> named figures (and `films`, optional, named trajectories to film)
    check    Params -> one small instance by the experiment's own code and by `plain_formulas`; they must agree
    finding  Params, data -> what was claimed and what was measured in a sentence each, for the top of the gallery

The check comes first: a simulator that does something else than the paper's formula stops the experiment. Pictures and
verdicts read data; they never run anything. So a finished experiment can be judged and drawn again from its record.
Add one: a file here and a line in EXPERIMENTS (`metastable.experiments`).
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from metastable.store.files import disk_errors, read_arrays, reason, write_arrays
from metastable.store.folder import damaged
from metastable.theory.verdicts import Verdict
from metastable.trajectory import Trajectory

Data = dict[str, np.ndarray]
Figures = dict[str, Figure]
Films = dict[str, Trajectory | Mapping[str, Any]]  # a run, or options of `metastable.plots.animate` and a "caption"
Check = tuple[ArrayLike, ArrayLike, float]  # by the experiment's own code, by `plain_formulas`, allowed difference
Topic = Literal["theorem", "observation", "model", "beyond"]


class SelfCheckError(RuntimeError):
    """The simulator and the paper's formula, written down a second time, disagree."""


def _silent(share: float, text: str) -> None:
    return None


@contextmanager
def judged_by_validity() -> Iterator[None]:
    """For runs that are judged by their ``valid_until``: the warning about rounding is left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@dataclass(frozen=True)
class Work:
    """Where a running experiment writes its checkpoints, and the function that it reports progress to."""

    folder: Path | None = None
    progress: Callable[[float, str], None] = field(default=_silent)

    def part(self, name: str, make: Callable[[], Data]) -> Data:
        """``make()``, or what it gave in an earlier, interrupted session: a checkpoint is whole or absent."""
        if self.folder is None:
            return make()
        path = self.folder / f"{name}.npz"
        if path.exists():
            try:
                return read_arrays(path)
            except ValueError as error:
                raise damaged(self.folder, f"{path.name}: {reason(error)}") from error
        data = make()
        with disk_errors(self.folder, resumable=True):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_arrays(path, data)
        return data

    def parts(self, name: str, count: int, size: int, make: Callable[[int, int], Data]) -> Data:
        """``make(first, last)`` over chunks of ``size`` instances, joined along the first axis, with progress."""
        chunks = []
        for first in range(0, count, size):
            last = min(first + size, count)
            chunks.append(self.part(f"{name}-{first:05d}-{last:05d}", lambda a=first, b=last: make(a, b)))  # type: ignore[misc]
            self.progress(last / count, f"{name}: {last} of {count}")
        keys = chunks[0] if chunks else {}  # what is drawn of one instance alone stands in the first chunk alone
        return {key: np.concatenate([chunk[key] for chunk in chunks if key in chunk]) for key in keys}

    def trainings(self, makers: Mapping[str, Callable[[Callable[[float], None]], Data]]) -> Data:
        """Long parts by name: each is given a function to report its share to; arrays are called ``name/key``."""
        data: Data = {}
        for k, (name, make) in enumerate(makers.items()):

            def report(share: float, k: int = k, name: str = name) -> None:
                self.progress((k + share) / len(makers), name)

            made = self.part(name.replace(" ", "-"), partial(make, report))
            data |= {f"{name}/{key}": value for key, value in made.items()}
        return data


@dataclass(frozen=True)
class Finding:
    """One experiment in two sentences and a picture: what was claimed, what was measured, the figure's title."""

    claimed: str
    measured: str
    figure_title: str


@dataclass(frozen=True)
class Experiment:
    """An experiment as the gallery sees it; every file of this package ends with one, named EXPERIMENT."""

    name: str
    title: str
    source: str  # paper, theorem or section
    figures: str  # which of the paper's figures it redraws
    params: type
    run: Callable[[Any, Work], Data]
    judge: Callable[[Any, Data], list[Verdict]]
    draw: Callable[[Any, Data], Figures]
    quick: Mapping[str, Any] = field(default_factory=dict)  # params for a first look
    full: Mapping[str, Any] = field(default_factory=dict)  # params for thousands of instances
    films: Callable[[Any, Data], Films] | None = None
    text: str = ""  # one paragraph for the gallery: what is done, and how to read the pictures
    check: Callable[[Any], Mapping[str, Check]] | None = None
    finding: Callable[[Any, Data], Finding | None] | None = None
    topic: Topic = "theorem"  # its place in the gallery's index
    leaves_out: str = ""  # what ``quick`` leaves out, in a sentence


def self_check(experiment: Experiment, params: Any) -> dict[str, tuple[float, float]]:
    """Largest differences between the experiment's own code and the plain formulas, each with what is allowed.

    Nothing where there is nothing to compare (no check, or a model that the plain formulas do not cover): the
    experiment's page says so (`metastable.report.experiment_page.unchecked`).

    Raises
    ------
    SelfCheckError
        Where one is larger than allowed, or not a number: no verdict of this experiment would count.
    """
    found = {}
    for name, (own, plain, allowed) in (experiment.check(params) if experiment.check else {}).items():
        ours, theirs = np.asarray(own, dtype=float), np.asarray(plain, dtype=float)
        if ours.shape != theirs.shape:
            raise SelfCheckError(
                f"The self-check of {experiment.name} failed before anything was judged: {name} has shape {ours.shape} "
                f"here and {theirs.shape} by the paper's formula."
            )
        apart = float(np.abs(ours - theirs).max()) if ours.size else np.nan
        if not apart <= allowed:
            raise SelfCheckError(
                f"The self-check of {experiment.name} failed before anything was judged: {name} differs from the "
                f"paper's formula (metastable/experiments/plain_formulas.py) by {apart:.3g}; {allowed:.1g} is allowed."
            )
        found[name] = (apart, float(allowed))
    return found
