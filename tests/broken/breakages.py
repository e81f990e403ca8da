"""Four mistakes, each made in the equation, in every engine, and in the code of their own that some experiments have.

| kind       | mistake                                                      |
|------------|--------------------------------------------------------------|
| transposed | A^T in the place of the attention matrix A                   |
| unmasked   | the causal mask is dropped: everybody sees everybody         |
| no V       | values are the tokens themselves                             |
| half beta  | scores are multiplied by beta/2                              |

An engine is broken from the outside: it is handed a plan with the mistake in its dynamics and does its own work on
that, or, where its kernels cannot make the mistake (A^T), an engine that can works in its place. The equation is
broken inside: functions of `metastable.equation` are replaced, so that engines with kernels of their own stay right.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np

from metastable import engines
from metastable.engines.interface import Engine
from metastable.equation import attention, masks, normalise
from metastable.equation.dynamics import Dynamics
from metastable.solve.plan import Plan, with_numbers

KINDS = ("transposed", "unmasked", "no V", "half beta")


def _transposed_rows(rows: Callable[..., Any]) -> Callable[..., Any]:
    return lambda scores, visible: jnp.swapaxes(rows(scores, visible), -1, -2)


def _mistaken(dyn: Dynamics, kind: str) -> Dynamics:
    """The dynamics with one mistake in it."""
    if kind == "half beta":
        return with_numbers(dyn, beta=np.asarray(dyn.beta) / 2.0 if np.ndim(dyn.beta) else float(dyn.beta) / 2.0)
    if kind == "unmasked":
        return with_numbers(dyn, mask=masks.FULL)
    if kind == "no V":
        return with_numbers(dyn, weights=_without_values(dyn.weights))
    return with_numbers(dyn, normalise=_transposed(dyn.normalise))


def _without_values(weights: Any) -> Any:
    """Without V, its bias, and O, which takes what V gives."""
    return replace(weights, V=None, v_bias=None, O=None)


@cache
def _transposed(part: normalise.Normalisation) -> normalise.Normalisation:
    """One part for all dynamics of an ensemble, whose structure has to be one."""
    return normalise.Normalisation(_transposed_rows(part.rows), f"{part.name}, transposed")


class BrokenEngine(Engine):
    """An engine that makes one mistake, under the name of the engine it stands for."""

    def __init__(self, engine: Engine, kind: str) -> None:
        self.whole, self.kind = engine, kind
        self.name, self.about = engine.name, engine.about
        self._plans: dict[int, tuple[Plan, Plan]] = {}  # one broken plan for each: charts are found by identity

    def _broken(self, plan: Plan) -> Plan:
        if id(plan) not in self._plans:
            members = tuple(_mistaken(dyn, self.kind) for dyn in plan.dynamics)
            self._plans[id(plan)] = (plan, replace(plan, dynamics=members))
        return self._plans[id(plan)][1]

    def _worker(self, plan: Plan) -> Engine:
        if self.kind != "transposed":
            return self.whole
        return _ANY_CHART if plan.model.geometry.rescales else _ANY

    def supports(self, plan: Plan) -> str | None:
        return self.whole.supports(plan)

    def cost(self, plan: Plan) -> float:
        return self.whole.cost(plan)

    def least(self, plan: Plan) -> float:
        return self.whole.least(plan)

    def start(self, plan: Plan, x: np.ndarray) -> Any:
        return self._worker(plan).start(self._broken(plan), x)

    def advance(self, plan: Plan, state: Any, stops: Any) -> Any:
        return self._worker(plan).advance(self._broken(plan), state, stops)

    def pace(self, plan: Plan) -> float:
        return self._worker(plan).pace(self._broken(plan))

    def span(self, plan: Plan, state: Any) -> float:
        return self._worker(plan).span(self._broken(plan), state)


_ANY, _ANY_CHART = engines.ENGINES["dense"], engines.ENGINES["chart"]  # right whatever becomes of the table


@contextmanager
def broken_engine(name: str, kind: str) -> Iterator[None]:
    """One engine of the table makes one mistake."""
    with patch.dict(engines.ENGINES, {name: BrokenEngine(engines.ENGINES[name], kind)}):
        yield


@contextmanager
def broken_equation(kind: str) -> Iterator[None]:
    """The equation's own functions make one mistake; compiled code is forgotten before and after."""
    with ExitStack() as stack:
        if kind == "half beta":
            along = attention._along
            stack.enter_context(patch.object(attention, "_along", lambda beta, q, axes: along(beta, q, axes) / 2.0))
        elif kind == "unmasked":
            stack.enter_context(patch.object(masks.Mask, "rows", lambda self, queries, n: None))
        elif kind == "no V":
            stack.enter_context(patch.object(attention, "values", lambda now, x: x[..., None, :, :]))
            output = attention.output
            stack.enter_context(patch.object(attention, "output", lambda now, a: output(_without_values(now), a)))
        else:
            for part in normalise.NORMALISATIONS.values():
                stack.enter_context(_changed(part, rows=_transposed_rows(part.rows), unscaled=None, by_rows=False))
        jax.clear_caches()
        try:
            yield
        finally:
            jax.clear_caches()


@contextmanager
def _changed(part: Any, **values: Any) -> Iterator[None]:
    """Other fields in a frozen part, for a while."""
    before = {name: getattr(part, name) for name in values}
    for name, value in values.items():
        object.__setattr__(part, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            object.__setattr__(part, name, value)


@dataclass(frozen=True)
class Breakage:
    """One mistake in one place."""

    place: str
    kind: str

    def applied(self) -> Any:
        """The context in which the simulator is broken."""
        from tests.broken.own_code import OWN_CODE

        if self.place == "equation":
            return broken_equation(self.kind)
        if self.place in OWN_CODE:
            return OWN_CODE[self.place](self.kind)
        return broken_engine(self.place, self.kind)

    def __str__(self) -> str:
        return f"{self.kind} in {self.place}"
