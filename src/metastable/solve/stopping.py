"""When a run stops before its horizon, and how well attention keeps its own definition on the way."""

import inspect
from collections.abc import Callable, Mapping

import numpy as np

from metastable.engines.chart.chart_engines import of_runs
from metastable.engines.chart.state import attention as chart_attention
from metastable.errors import InputError
from metastable.observables.clusters import cluster_count
from metastable.solve import rest
from metastable.solve.plan import Plan

Until = str | int | Callable[[float, np.ndarray], bool] | None
# (t, x (B, n, d)) -> None, or status and reason of every run that has not ended
Rule = Callable[[float, np.ndarray], dict[int, tuple[str, str]] | None]
_LOOKED_AT = 4  # saves of a segment at which attention is checked against its definition


def stop_rule(plan: Plan, until: Until) -> Rule | None:
    """The rule behind ``until``; None where the run goes on to its horizon."""
    if until is None:
        return None
    if isinstance(until, str) and until == "steady":
        if plan.model.geometry.rescales:
            raise InputError(
                "until='steady' needs geometry 'sphere' or 'euclidean'; stop a rescaled run at a cluster count."
            )
        block = plan.model.block
        if block is not None and ((block.has_norms and block.order == "post") or block.skip != 1.0):
            raise InputError(
                "until='steady' looks at a velocity, which a block with norms after the sum, or a skip other than 1, "
                "does not have; stop at a number of clusters or with a function (t, x) -> bool."
            )
        return lambda t, x: _steady(plan, t, x)
    if isinstance(until, (int, np.integer)) and not isinstance(until, bool) and until >= 1:
        metric = "sphere" if plan.model.geometry.angular else "euclidean"
        left = f"at most {until} clusters are left"

        everyone = dict.fromkeys(range(plan.runs), ("stopped", left))

        def few(t: float, x: np.ndarray) -> dict[int, tuple[str, str]] | None:
            x = x[np.isfinite(x).all(axis=(-1, -2))]  # runs of a list that have ended decide nothing
            return everyone if len(x) and np.max(cluster_count(x, geometry=metric)) <= until else None

        return few
    if callable(until):
        return _own_rule(plan, until)
    raise InputError(f"until must be 'steady', a number of clusters >= 1 or a function (t, x) -> bool, not {until!r}.")


def _own_rule(plan: Plan, until: Callable[[float, np.ndarray], bool]) -> Rule:
    try:
        inspect.signature(until).bind(0.0, None)
    except TypeError as error:
        raise InputError(f"until as a function must take (t, x): {error}.") from error
    except ValueError:  # no signature to look at
        pass

    def rule(t: float, x: np.ndarray) -> dict[int, tuple[str, str]] | None:
        found = np.asarray(until(t, x.reshape(*plan.shape, plan.n, plan.d)))
        if found.ndim:
            raise InputError(f"until as a function must return True or False, not an array of shape {found.shape}.")
        return dict.fromkeys(range(plan.runs), ("stopped", "as requested")) if bool(found) else None

    return rule


def _steady(plan: Plan, t: float, x: np.ndarray) -> dict[int, tuple[str, str]] | None:
    """Rest or a plateau once every token of every run is slow; in one Trajectory a plateau outweighs rest."""
    judged: dict[int, rest.Rest] = {}
    for run in np.flatnonzero(np.isfinite(x).all(axis=(-1, -2))).tolist():  # the others have ended
        found = rest.judge(plan.of(run), t, x[run])
        if found is None:
            return None
        judged[run] = found
    if not judged:
        return None
    if plan.together:
        judged = dict.fromkeys(judged, min(judged.values(), key=lambda one: (one.kind == "rest", one.lasts)))
    return {run: ("steady" if one.kind == "rest" else "plateau", one.message) for run, one in judged.items()}


def missed(plan: Plan, times: np.ndarray, x: np.ndarray, extra: Mapping[str, np.ndarray]) -> np.ndarray:
    """How far the attention of each run misses its own definition, (B,), looked at in a few saves."""
    error, found = plan.model.normalise.error, np.zeros(x.shape[1])
    if error is None or not len(x):
        return found
    for k in np.unique(np.linspace(0, len(x) - 1, _LOOKED_AT).astype(int)):
        for run in range(x.shape[1]):
            dyn = plan.of(run)
            if plan.model.geometry.rescales:
                y, refs = extra["chart_y"][k, run], extra["chart_refs"][k, run]
                A = np.asarray(chart_attention(dyn, of_runs(plan)[run], times[k], y, refs))
            else:
                A = np.asarray(dyn.attention(float(times[k]), x[k, run]))
            if np.isfinite(A).all():
                found[run] = max(found[run], float(np.max(np.asarray(error(A)))))
    return found
