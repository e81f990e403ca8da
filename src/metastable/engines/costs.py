"""What a plan would cost on each engine, in seconds: counts of work times what this machine takes for them.

What it takes to load kernels or to compile is left out: both are paid once, and which comes cheaper depends on what
was run before, which must not decide how a run is made.
"""

import numpy as np

from metastable.engines.attend import linear_seconds
from metastable.engines.calibrate import coefficient
from metastable.engines.exact.sums import tile_cost
from metastable.engines.simd.threads import cores
from metastable.solve.plan import Plan

_ADAPTIVE_STAGES = 6  # of tsit5; the same for every engine, so that it decides nothing between them
_CHART_PRODUCTS = 4  # the chart compiled by JAX makes about four times the arrays of a plain velocity: a count


def evaluations(plan: Plan) -> float:
    """How often the velocity is computed in one run; a guess for adaptive methods, the same for every engine."""
    stages = _ADAPTIVE_STAGES if plan.method.tableau is None else plan.method.tableau.stages
    return plan.t / plan.dt * stages


def visible_pairs(plan: Plan) -> float:
    """Visible pairs of one run, all heads together."""
    low, high = plan.model.mask.bounds(plan.n)
    return float((high - low).sum()) * plan.model.weights.heads


def dense_seconds(plan: Plan) -> float:
    """Every pair of every run, hidden ones too."""
    pairs = plan.n**2 * plan.model.weights.heads * plan.runs
    each = coefficient("dense_pair") + coefficient("dense_coordinate") * 2 * plan.d
    return evaluations(plan) * (coefficient("dense_call") + pairs * each)


def lanes_seconds(plan: Plan) -> float:
    """Visible pairs; one run by itself has one core."""
    name = "lane" if plan.runs > 1 else "lane_alone"
    each = coefficient(f"{name}_pair") + coefficient(f"{name}_coordinate") * 2 * max(plan.d, 3)
    return evaluations(plan) * visible_pairs(plan) * plan.runs * each


def exact_seconds(plan: Plan) -> float:
    """Visible pairs by rows, by symmetric tiles or by wide tiles, and a call from JAX for each evaluation."""
    pairs = visible_pairs(plan)
    if plan.d <= 3:
        name = "symmetric_pair" if plan.model.mask.visible is None else "pair"
        each = coefficient(name)
    else:
        dtype = np.dtype(plan.dtype)
        each = min(tile_cost(how, plan.d, plan.d, dtype) for how in ("tile", "blas"))
    calls = plan.model.weights.heads * coefficient("call")
    return callback_seconds(plan) + evaluations(plan) * plan.runs * (calls + pairs * each)


def spectral_seconds(plan: Plan) -> float:
    """The expansion, where it is cheaper than the exact sum."""
    exact = exact_seconds(plan) * (1 + 1e-9)  # where it is not, the exact engine is the plainer choice
    strengths = [abs(float(dyn.beta)) * np.linalg.norm(dyn.weights.score_map(0.0, plan.d), 2, (1, 2)).max()
                 for dyn in plan.dynamics]  # fmt: skip
    linear = linear_seconds(plan.n, plan.d, float(max(strengths)), 1e-12, plan.model.mask.visible is not None)
    if linear is None:
        return exact
    return min(exact, callback_seconds(plan) + evaluations(plan) * plan.runs * linear * plan.model.weights.heads)


def callback_seconds(plan: Plan) -> float:
    """What calls from JAX to the host cost, whatever they compute: known before any kernel is loaded."""
    return evaluations(plan) * plan.runs * coefficient("callback")


def chart_seconds(plan: Plan, kernels: bool) -> float:
    """The rescaled flow: a run and its copies share the cores."""
    if not kernels:
        return _CHART_PRODUCTS * dense_seconds(plan)
    each = coefficient("chart_pair") + coefficient("chart_coordinate") * plan.d
    return evaluations(plan) * plan.n**2 * plan.runs / min(cores(), plan.runs) * each
