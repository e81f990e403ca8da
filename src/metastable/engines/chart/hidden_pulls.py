"""What the chart of a rescaled run leaves out, which its copies leave out alike: it ends what is certified.

Beyond e^CAP attention counts as settled, and what tokens of different references still pull at one another is shrunk to
nothing (`state.gathered`). Mostly nothing is left by then; in a slow direction, or in one that turns, something is.
"""

from typing import Any

import numpy as np

from metastable.backend import Array, jax, jnp
from metastable.engines.chart import state as chart_state
from metastable.engines.chart.basis import CAP, Chart, times_L
from metastable.engines.dense import cast
from metastable.equation.dynamics import Dynamics
from metastable.solve.plan import Plan


def hidden(plan: Plan, charts: list[Chart], times: np.ndarray, y: np.ndarray, refs: np.ndarray) -> np.ndarray:
    """By how much pulls that are left out may move each run over its whole time, (m, runs), relatively.

    States y (m, B, n, d) and references (m, B, n) are those at ``times`` (m,); ``charts`` has one for every run.
    """
    out = np.zeros((len(times), plan.originals))
    tops = np.array([float(chart.top) for chart in charts[: plan.originals]])
    for run in np.flatnonzero(times.max(initial=0.0) * tops > CAP).tolist():  # few runs go on for so long
        late = np.flatnonzero(times * tops[run] > CAP)
        places = np.resize(late, 1 << (len(late) - 1).bit_length())  # few lengths, so that few are compiled
        chart, late_times = cast(charts[run], plan.dtype), plan.number(times[places])
        pulls = _left_out(cast(plan.model, plan.dtype), chart, late_times, y[places, run], refs[places, run])
        out[late, run] = np.asarray(pulls, float)[: len(late)] * plan.t
    return out


@jax.jit
def _left_out(dyn: Any, chart: Any, times: Any, y: Any, refs: Any) -> Any:
    return jax.lax.map(lambda stop: pull_between_references(dyn, chart, *stop), (times, y, refs))


def pull_between_references(dyn: Dynamics, chart: Chart, t: Array, y: Array, refs: Array) -> Array:
    """How fast tokens go towards those of other references, relative to each direction, as if nothing were capped."""
    P = chart_state.attention(dyn, chart, t, y, refs)
    cross = jnp.where(refs[:, None] == refs, 0.0, P)
    Z = chart_state.scaled_tokens(chart, t, y, refs)
    pull = jnp.abs(times_L(chart, cross @ Z - cross.sum(axis=-1, keepdims=True) * Z)).max(axis=-2)
    size = jnp.abs(Z).max(axis=-2)
    return jnp.where(pull == 0.0, 0.0, pull / size).max()
