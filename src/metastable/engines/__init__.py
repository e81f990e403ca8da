"""How sums over tokens are made: ENGINES, and `choose`, which takes the cheapest one that supports a plan.

| engine          | sums                                                                                            |
|-----------------|-------------------------------------------------------------------------------------------------|
| `dense`         | compiled by JAX; any dynamics, any method, any device                                           |
| `lanes`         | small systems in vector registers, eight runs or eight tokens at a time                         |
| `exact`         | every visible pair by vector kernels, block by block                                            |
| `spectral`      | expansions on the circle and S^2, in linear time, to 1e-12                                      |
| `chart`         | the rescaled flow in its chart, compiled by JAX                                                 |
| `chart-kernels` | the rescaled flow in its chart, by vector kernels                                               |

Sums alone, without a run: `attend`, `exact`, `spectral`, `velocity_field`. Kernels are compiled when first used and
kept in the user's cache folder. Add an engine: one object that answers `interface.Engine`, and one entry in ENGINES.

>>> import numpy as np
>>> from metastable import engines
>>> x = np.eye(3)
>>> engines.attend(x, x, beta=1.0).value.sum(axis=1).round(12).tolist()
[1.0, 1.0, 1.0]
"""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from metastable.engines.attend import SUMMATIONS, Attended, Journal, attend, journal
from metastable.engines.chart.chart_engines import JaxChart, KernelChart
from metastable.engines.dense import Dense
from metastable.engines.exact.host_engines import Exact, Spectral, velocity_field
from metastable.engines.exact.sums import Sums, exact
from metastable.engines.interface import Engine
from metastable.engines.lanes.lanes_engine import Lanes
from metastable.engines.simd.exponential import vexp
from metastable.engines.simd.vectors import SOURCES, kernel_home
from metastable.engines.spectral.expansion import Expanded, spectral
from metastable.errors import InputError, door, unknown
from metastable.solve.plan import Plan

_ALL: tuple[Engine, ...] = (Dense(), Lanes(), Exact(), Spectral(), JaxChart(), KernelChart())
ENGINES: dict[str, Engine] = {engine.name: engine for engine in _ALL}

__all__ = [
    "ENGINES", "SUMMATIONS", "Attended", "Choice", "Engine", "Expanded", "Journal", "Sums", "attend", "choose", "exact",
    "journal", "spectral", "velocity_field", "vexp",
]  # fmt: skip


@dataclass(frozen=True)
class Choice:
    """The engine that runs a plan, and of every other engine why it does not."""

    engine: Engine
    reasons: dict[str, str]


def choose(plan: Plan) -> Choice:
    """The engine that a plan names, or for "auto" the cheapest that supports it."""
    against = {name: engine.supports(plan) for name, engine in ENGINES.items()}
    if plan.engine != "auto":
        if plan.engine not in ENGINES:
            raise unknown("engine", plan.engine, ["auto", *ENGINES])
        why = against[plan.engine]
        if why is not None:
            raise InputError(f"engine={plan.engine!r} is not possible here because {why}; use 'auto'.")
        others = {name: reason or "not requested" for name, reason in against.items() if name != plan.engine}
        return Choice(ENGINES[plan.engine], others)
    able = [engine for engine in ENGINES.values() if against[engine.name] is None]
    if not able:
        raise InputError(f"No engine can run this: {'; '.join(f'{n}: {w}' for n, w in against.items())}.")
    best = able[0]
    costs: dict[str, float] = {}
    for engine in able if len(able) > 1 else ():
        least = engine.least(plan)
        costs[engine.name] = least if least > costs.get(best.name, np.inf) else engine.cost(plan)
        best = engine if costs[engine.name] < costs[best.name] else best
    reasons = {
        n: w or f"estimated {costs[n]:.2g} s against {costs[best.name]:.2g} s"
        for n, w in against.items()
        if n != best.name
    }
    return Choice(best, reasons)


def _drop_stale_kernels() -> None:
    """Delete the kernels that other versions of these sources have left in the cache."""
    home = kernel_home()
    for kept in [] if home is None else home.rglob("*.nb[ci]"):
        named = not kept.parent.name.startswith("models_")  # kernels there have no sources in their names
        if named and SOURCES not in kept.name:
            with suppress(OSError):  # gone already, or not ours to delete
                kept.unlink()


_drop_stale_kernels()

for _name in ("attend", "exact", "journal", "spectral", "velocity_field", "vexp"):
    globals()[_name] = door(globals()[_name])
