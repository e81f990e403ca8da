"""One experiment with and without each breakage: is it stopped by its self-check, and do its verdicts change?"""

import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from metastable import engines
from metastable.experiments import experiment
from metastable.experiments.base import Data, Experiment, SelfCheckError, Work, self_check
from tests.broken.breakages import KINDS, Breakage
from tests.broken.own_code import USED_BY


@dataclass
class Used:
    """What the plans of an experiment were made of."""

    engines: set[str] = field(default_factory=set)
    masked: bool = False
    mapped: bool = False  # some V is not the identity

    def see(self, name: str, plan: Any) -> None:
        self.engines.add(name)
        for dyn in plan.dynamics:
            self.masked |= dyn.mask.visible is not None
            V = np.asarray(dyn.weights.value_map(d=plan.d))
            self.mapped |= not np.allclose(V, np.eye(plan.d))


@dataclass(frozen=True)
class Trial:
    """What became of an experiment under one breakage."""

    experiment: str
    breakage: Breakage
    stopped: str  # the sentence with which the self-check refused; empty where it passed
    reached: bool  # whether the experiment's data, a refusal or an error show the breakage at all
    changed: int  # verdicts whose status changed
    verdicts: int
    errors: tuple[str, ...] = ()  # what the check or the run ended in, other than a refusal

    @property
    def silent_check(self) -> bool:
        """The breakage is seen, and the self-check did not refuse."""
        return self.reached and not self.stopped

    @property
    def silent_verdicts(self) -> bool:
        """The breakage is in the data and no verdict moved; a run that crashed has no verdicts, and is named apart."""
        return self.reached and not self.changed and not any(e.startswith("run") for e in self.errors)


@contextmanager
def _watched() -> Iterator[Used]:
    used = Used()
    with ExitStack() as stack:
        for name, engine in engines.ENGINES.items():
            start = engine.start

            def spy(plan: Any, x: Any, name: str = name, start: Any = start) -> Any:
                used.see(name, plan)
                return start(plan, x)

            stack.enter_context(patch.object(engine, "start", spy))
        yield used


def _judged(made: Experiment, params: Any) -> tuple[Data, list[str]]:
    """Data and statuses, readings included, without any self-check."""
    data = made.run(params, Work())
    found = [word for v in made.judge(params, data) for word in (v.status, *(row.status for row in v.rows))]
    return data, found


def _same(a: Data, b: Data) -> bool:
    return a.keys() == b.keys() and all(
        a[key].shape == b[key].shape
        and (a[key].dtype.kind in "US" or np.allclose(a[key], b[key], rtol=1e-5, atol=1e-8, equal_nan=True))
        for key in a
    )


def breakages(name: str, used: Used) -> list[Breakage]:
    """Those that could matter to an experiment: in the equation, in its engines, in code of its own."""
    kinds = [k for k in KINDS if (k != "unmasked" or used.masked) and (k != "no V" or used.mapped)]
    found = [Breakage(place, kind) for place in ("equation", *sorted(used.engines)) for kind in kinds]
    for place, (names, own) in USED_BY.items():
        found += [Breakage(place, kind) for kind in own if name in names]
    return found


def trials(name: str, kinds: tuple[str, ...] = KINDS, verdicts: bool = True) -> Iterator[Trial]:
    """Every breakage that could matter; without ``verdicts`` nothing is run that its self-check has stopped."""
    made = experiment(name)
    params = made.params(**made.quick)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        self_check(made, params)  # whole, it must pass
        with _watched() as used:
            data, statuses = _judged(made, params)
        for breakage in breakages(name, used):
            if breakage.kind in kinds:
                yield _trial(made, params, breakage, data, statuses, verdicts)


def _trial(made: Experiment, params: Any, breakage: Breakage, data: Data, statuses: list[str], verdicts: bool) -> Trial:
    errors: list[str] = []
    with breakage.applied():
        stopped = ""
        try:
            self_check(made, params)
        except SelfCheckError as error:
            stopped = str(error)
        except Exception as error:  # a crash is no refusal: it might come from anything
            errors.append(f"check: {type(error).__name__}: {error}")
        reached, changed = True, 0
        if verdicts or not stopped:  # a check that passed may have had nothing to notice
            try:
                broken, found = _judged(made, params)
                reached = not _same(data, broken)
                changed = sum(a != b for a, b in zip(statuses, found)) + abs(len(statuses) - len(found))
            except Exception as error:
                errors.append(f"run: {type(error).__name__}: {error}")
    return Trial(made.name, breakage, stopped, reached, changed, len(statuses), tuple(errors))
