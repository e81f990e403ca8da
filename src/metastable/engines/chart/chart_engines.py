"""The engines of the rescaled flow: its chart compiled by JAX, for anything, and by kernels, for softmax attention."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.engines.chart import basis, kernel_runs, steps
from metastable.engines.chart import state as chart_state
from metastable.engines.chart.basis import Chart
from metastable.engines.chart.hidden_pulls import hidden
from metastable.engines.chart.kernels import refer_every
from metastable.engines.chart.steps import Reached, Stepped
from metastable.engines.costs import chart_seconds
from metastable.engines.dense import cast, padded, stack, wide_times
from metastable.engines.interface import Engine, Saved, State, Stops
from metastable.solve.methods import Method
from metastable.solve.plan import Plan

_COMPARED = 4  # choices of references between two comparisons with the copies
_PASSES = 8  # directions that a product of matrices mixes in the time in which one is added to another
_SATURATED = -700.0  # score gaps below it carry no weight that a float can hold


class _Same:
    """A plan, compared by identity: its charts are made once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def __hash__(self) -> int:
        return id(self.plan)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.plan is self.plan


def charts(plan: Plan) -> list[Chart]:
    """The chart of each distinct dynamics; a copy's is of the same kind as its run's."""
    return _charts(_Same(plan))


@lru_cache(maxsize=8)
def _charts(same: _Same) -> list[Chart]:
    plan = same.plan
    layer = plan.dt if plan.method.discrete else None
    whole: dict[int, bool] = {}
    for run, which in enumerate(plan.which):  # copies come after the runs
        original = plan.of(run % plan.originals)
        whole.setdefault(int(which), not basis.has_eigenbasis(original, plan.d))
    made = [basis.chart_of(dyn, plan.d, plan.n, layer, whole.get(k)) for k, dyn in enumerate(plan.dynamics)]
    runs = set(plan.which[: plan.originals].tolist())
    # a copy cuts its score gaps elsewhere: where rows with long tails or thresholds feel the cut, both part
    deepest = 1e-4 * float(np.sqrt(np.finfo(plan.dtype).max))  # squares of it are floats still
    cut = [chart if k in runs else replace(chart, deepest=deepest) for k, chart in enumerate(made)]
    return basis.alike(cut)


def of_runs(plan: Plan) -> list[Chart]:
    """The chart of each run, copies included."""
    found = charts(plan)
    return [found[k] for k in plan.which]


def kinds(plan: Plan) -> list[np.ndarray]:
    """Runs whose charts can be held in one array: those with eigenvectors, and those without."""
    whole = np.array([chart.dense is not None for chart in of_runs(plan)])
    return [np.flatnonzero(whole == kind) for kind in np.unique(whole)]


def compared(plan: Plan, scaled: np.ndarray) -> np.ndarray:
    """Coordinates of runs and copies (m, B, n, d) in the basis of the run itself; what is given may be overwritten."""
    out, found = scaled if scaled.flags.writeable else np.array(scaled), of_runs(plan)
    for run in range(plan.originals, plan.runs):
        M = basis.common_coordinates(found[run % plan.originals], found[run])
        signs = np.diagonal(M)
        mixed = np.argwhere(M - np.diag(signs))
        with np.errstate(invalid="ignore", over="ignore"):
            if _PASSES * len(mixed) > len(M):
                out[:, run] = basis.quiet_product(scaled[:, run], M.T)
                continue
            moved = [(k, M[k, l] * scaled[:, run, :, l]) for k, l in mixed]  # few: directions that grow (nearly) alike
            np.multiply(scaled[:, run], signs, out=out[:, run])
            for k, part in moved:
                out[:, run, :, k] += part
    return out


class JaxChart(Engine):
    """The rescaled flow in its chart, compiled by JAX."""

    name = "chart"
    about = "the rescaled flow in its chart, compiled by JAX; any normalisation, mask and method"

    def supports(self, plan: Plan) -> str | None:
        return None if plan.model.geometry.rescales else "only the rescaled flow has a chart"

    def cost(self, plan: Plan) -> float:
        return chart_seconds(plan, kernels=False)

    def pace(self, plan: Plan) -> float:
        return pace(plan)

    def span(self, plan: Plan, state: State) -> float:
        return float(state["length"]) or _shortest(plan)  # 0: a run of no time that is extended

    def start(self, plan: Plan, x: np.ndarray) -> State:
        y, refs = start(plan, x)
        y = plan.number(y)
        if not plan.method.adaptive:
            return {"before": y, "after": y, "now": y, "refs": refs, "k": np.asarray(0)}
        length = np.asarray(_shortest(plan))
        return {"y": y, "refs": refs, "t": np.asarray(0.0), "count": np.asarray(0), "length": length}

    def advance(self, plan: Plan, state: State, stops: Stops) -> tuple[State, Saved]:
        most, parts = max(1, chart_state.MOST_ENTRIES // plan.n**2), []
        groups = [group[k : k + most] for group in kinds(plan) for k in range(0, len(group), most)]
        for group in groups:
            own = state if len(groups) == 1 else {n: a[group] if np.ndim(a) > 1 else a for n, a in state.items()}
            parts.append(self._advance(plan, own, stops, group))
        after, saved = parts[0] if len(parts) == 1 else _merged(parts, groups)
        left_out = hidden(plan, of_runs(plan), stops.times, saved.extra["chart_y"], saved.extra["chart_refs"])
        return after, replace(saved, compared=compared(plan, np.asarray(saved.compared)), hidden=left_out)

    def _advance(self, plan: Plan, state: State, stops: Stops, group: np.ndarray) -> tuple[State, Saved]:
        go = _adaptive if plan.method.adaptive else _fixed
        after, y, refs, reached, exhausted = go(plan, state, stops, group)
        found = [of_runs(plan)[run] for run in group]
        chart = cast(stack(found), plan.dtype)
        z, scaled = (np.asarray(a) for a in _tokens(chart, plan.number(stops.times), y, refs))
        extra = {"chart_y": np.asarray(y), "chart_refs": np.asarray(refs)}
        return after, Saved(z, reached, exhausted, extra, compared=scaled)


def pace(plan: Plan) -> float:
    """Copies are compared about once in the time in which the fastest direction grows e-fold.

    They start some 1e-14 apart and part at 1e-6: neither parting nor meeting again can happen in between.
    """
    return _COMPARED * _refer_every(plan) * plan.dt if not plan.method.adaptive else _shortest(plan)


def _refer_every(plan: Plan) -> int:
    return refer_every(max(float(chart.top) for chart in charts(plan)), plan.dt)


def start(plan: Plan, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Chart states (B, n, d) of tokens (B, n, d): every token its own reference."""
    found = of_runs(plan)
    y = np.stack([chart_state.start(chart, z)[0] for chart, z in zip(found, x)])
    return y, np.broadcast_to(np.arange(plan.n), y.shape[:-1]).copy()


def _shortest(plan: Plan) -> float:
    return min(plan.t, 0.5 / max(*(float(chart.top) for chart in charts(plan)), 1e-300))


def _merged(parts: list[tuple[State, Saved]], groups: list[np.ndarray]) -> tuple[State, Saved]:
    """What groups of runs have done, in the order of the runs."""
    order = np.argsort(np.concatenate(groups))
    states, saves = zip(*parts)
    after = {}
    for name, value in states[0].items():
        after[name] = np.concatenate([s[name] for s in states])[order] if np.ndim(value) > 1 else value
    after |= {"length": np.min([s["length"] for s in states])} if "length" in after else {}

    def joined(arrays: list[np.ndarray], axis: int) -> np.ndarray:
        return np.take(np.concatenate(arrays, axis=axis), order, axis=axis)

    extra = {name: joined([s.extra[name] for s in saves], 1) for name in saves[0].extra}
    return after, Saved(
        joined([s.x for s in saves], 1),
        joined([s.reached for s in saves], 0),
        joined([s.exhausted for s in saves], 0),
        extra,
        joined([np.asarray(s.compared) for s in saves], 1),
    )


@jax.jit
def _tokens(chart: Any, times: Any, y: Any, refs: Any) -> Any:
    """z and the coordinates by which copies are compared, (m, B, n, d) each."""

    def one(chart: Chart, y: Any, refs: Any) -> Any:
        return (
            jax.vmap(chart_state.tokens, (None, 0, 0, 0))(chart, times, y, refs),
            jax.vmap(chart_state.scaled_tokens, (None, 0, 0, 0))(chart, times, y, refs),
        )

    return jax.vmap(one, (0, 1, 1), 1)(chart, y, refs)


@lru_cache(maxsize=32)
def _many(function: Callable[..., Any], method: Method, axes: Any, out: Any) -> Callable[..., Any]:
    return jax.jit(jax.vmap(partial(function, method=method), axes, out))


def _fixed(plan: Plan, state: State, stops: Stops, group: np.ndarray) -> tuple[Any, ...]:
    chart = cast(stack([of_runs(plan)[run] for run in group]), plan.dtype)
    counts, thetas = padded(stops, plan.dtype)
    ends = Stepped(0, 0, 0, 0, None)  # type: ignore[arg-type]
    many = _many(steps.advance_fixed, plan.method, (None, 0, ends, 0, None, None, None, None), (ends, 1))
    every = _refer_every(plan)
    before = Stepped(*(state[name] for name in Stepped._fields))  # type: ignore[arg-type]
    end, (y, refs) = many(
        cast(plan.model, plan.dtype), chart, before, _shakes(plan, group), counts, thetas, plan.number(plan.dt), every
    )
    m, after = len(stops), {name: np.asarray(value) for name, value in end._asdict().items()}
    return after, y[:m], refs[:m], np.full(len(group), stops.end), np.zeros(len(group), bool)


def _adaptive(plan: Plan, state: State, stops: Stops, group: np.ndarray) -> tuple[Any, ...]:
    chart = cast(stack([of_runs(plan)[run] for run in group]), plan.dtype)
    many = _many(
        steps.advance_adaptive,
        plan.method,
        (None, 0, 0, 0, 0, *[None] * 6),
        Reached(0, 0, 0, 0, 1, 0),  # type: ignore[arg-type]
    )
    if stops.end == state["t"]:  # the start itself
        y, refs = (np.broadcast_to(state[name], (len(stops), *np.shape(state[name]))) for name in ("y", "refs"))
        return dict(state), y, refs, np.full(len(group), stops.end), np.zeros(len(group), bool)
    times = wide_times(stops)
    numbers = [plan.number(v) for v in (state["t"], stops.end, times, plan.rtol, plan.atol, state["count"])]
    y = plan.number(state["y"])
    got = many(cast(plan.model, plan.dtype), chart, y, state["refs"], _shakes(plan, group), *numbers)
    saturated = float(jnp.nanmax(got.closest)) < _SATURATED
    after = {
        "y": np.asarray(got.y),
        "refs": np.asarray(got.refs),
        "t": np.asarray(stops.end),
        "count": np.asarray(int(state["count"]) + 1),
        "length": np.asarray(2.0 * float(state["length"]) if saturated else _shortest(plan)),
    }
    m = len(stops)
    refs = np.broadcast_to(np.asarray(got.refs), (m, *got.refs.shape))
    return after, got.saved[:m], refs, np.asarray(got.t, float), np.asarray(got.exhausted)


def _shakes(plan: Plan, group: np.ndarray) -> np.ndarray:
    return plan.number(np.zeros(len(group)) if plan.shakes is None else plan.shakes[group])


class KernelChart(Engine):
    """The rescaled flow in its chart, by kernels that take whole steps."""

    name = "chart-kernels"
    about = "the rescaled flow in its chart, by vector kernels; softmax over intervals, fixed steps, float64"

    def supports(self, plan: Plan) -> str | None:
        dyn = plan.model
        if not dyn.geometry.rescales:
            return "only the rescaled flow has a chart"
        if plan.method.adaptive or plan.dtype != "float64":
            return f"the chart's kernels take fixed steps in float64, not {plan.dtype} steps of {plan.method.name}"
        if dyn.normalise.stream != "softmax" or dyn.mask.interval is None or dyn.position is not None:
            return "the chart's kernels sum softmax attention over an interval of tokens, without positions"
        if (dyn.mask.bounds(plan.n)[0] >= dyn.mask.bounds(plan.n)[1]).any():
            return "some token sees nobody"
        if any(chart.dense is not None for chart in charts(plan)):
            return "V has no well-conditioned eigenvectors"
        if jax.default_backend() != "cpu":
            return "kernels run on the CPU"
        return None

    def cost(self, plan: Plan) -> float:
        return chart_seconds(plan, kernels=True)

    def pace(self, plan: Plan) -> float:
        return pace(plan)

    def start(self, plan: Plan, x: np.ndarray) -> State:
        y, refs = start(plan, x)
        return {**kernel_runs.start(y, refs)._asdict(), "k": np.asarray(0)}

    def advance(self, plan: Plan, state: State, stops: Stops) -> tuple[State, Saved]:
        ends = [np.array(state[name]) for name in ("before", "after", "now", "refs")]
        before = kernel_runs.State(ends[0], ends[1], ends[2], ends[3], int(state["k"]))
        found = of_runs(plan)
        bases = [kernel_runs.basis(replace(chart, bias=None)) for chart in charts(plan)]
        assert plan.method.tableau is not None
        low, high = plan.model.mask.bounds(plan.n)
        end, saved = kernel_runs.advance(
            [bases[k] for k in plan.which],
            before,
            stops.counts,
            stops.thetas,
            plan.dt,
            plan.method.tableau.matrix(),
            plan.dt if plan.method.discrete else 0.0,
            low,
            high,
            np.zeros(plan.runs) if plan.shakes is None else plan.shakes,
            plan.originals,
        )
        # where distances are those of the coordinates, copies are compared by these alone
        shown = plan.originals if all(basis.has_orthogonal_basis(dyn, plan.d) for dyn in plan.dynamics) else plan.runs
        S = np.asarray(found[0].S) if plan.single else np.stack([np.asarray(c.S) for c in found[:shown]])
        zeta, kept = saved.zeta[:, :shown], stops.saves
        x = kernel_runs.tokens(zeta, S) if kept.all() else np.zeros(zeta.shape)
        if not kept.all():
            x[kept] = kernel_runs.tokens(zeta[kept], S)
        after = {**end._asdict(), "k": np.asarray(end.k)}
        extra = {"chart_y": saved.y, "chart_refs": saved.refs}
        reached, nobody = np.full(plan.runs, stops.end), np.zeros(plan.runs, bool)
        left_out = hidden(plan, found, stops.times, saved.y, saved.refs)
        return after, Saved(x, reached, nobody, extra, compared(plan, saved.zeta), hidden=left_out)
