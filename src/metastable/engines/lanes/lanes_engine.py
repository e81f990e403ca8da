"""The engine of small systems: eight runs side by side in vector lanes, or eight tokens of one run."""

import numpy as np

from metastable.backend import jax
from metastable.engines.costs import lanes_seconds
from metastable.engines.interface import Engine, Saved, State, Stops
from metastable.engines.lanes import batch
from metastable.equation.geometry import EUCLIDEAN, SPHERE
from metastable.solve.plan import Plan


class Lanes(Engine):
    """Small systems in vector registers, by kernels that take fixed steps whole."""

    name = "lanes"
    about = "small systems in vector registers, eight runs or eight tokens at a time; fixed steps in float64"

    def supports(self, plan: Plan) -> str | None:
        dyn = plan.model
        if plan.method.adaptive or plan.dtype != "float64":
            return f"lanes take fixed steps in float64, not {plan.dtype} steps of {plan.method.name}"
        if dyn.normalise.stream != "softmax" or not dyn.score.is_dot or dyn.mask.interval is None:
            return "lanes sum softmax attention of dot scores over an interval of tokens"
        if dyn.geometry.rescales or dyn.geometry not in (SPHERE, EUCLIDEAN):
            return "lanes hold tokens in R^d or on the sphere"
        if dyn.block is not None or dyn.position is not None or plan.noisy:
            return "lanes have no block, positions or noise"
        if dyn.weights.time_dependent or dyn.weights.biased:
            return "lanes have weights without biases that do not depend on time"
        if not dyn.weights.bilinear:
            return "lanes have no norms of queries and keys"
        low, high = dyn.mask.bounds(plan.n)
        if (low >= high).any():
            return "some token sees nobody"
        if jax.default_backend() != "cpu":
            return "kernels run on the CPU"
        return None

    def cost(self, plan: Plan) -> float:
        return lanes_seconds(plan)

    def start(self, plan: Plan, x: np.ndarray) -> State:
        return {"before": x, "now": x, "k": np.asarray(0)}

    def advance(self, plan: Plan, state: State, stops: Stops) -> tuple[State, Saved]:
        dyn, method = plan.model, plan.method
        assert method.tableau is not None
        ends = np.stack([state["before"], state["now"]])
        low, high = dyn.mask.bounds(plan.n)
        sphere = dyn.geometry.fixed_norm
        scheme = batch.Scheme(plan.dt, method.tableau.matrix(), low, high, sphere, sphere and not method.discrete)
        after, saved = batch.advance(*_maps(plan), ends, stops.counts, stops.thetas, scheme)
        k = np.asarray(int(state["k"]) + int(stops.counts.sum()))
        everyone = np.full(plan.runs, stops.end)
        return {"before": after[0], "now": after[1], "k": k}, Saved(saved, everyone, np.zeros(plan.runs, bool))


def _maps(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """beta Q^T K and V, (B or 1, h, d, d) each."""
    betas = np.array([float(dyn.beta) for dyn in plan.dynamics])
    A, V = batch.maps(plan.dynamics, plan.d, betas)
    return (A, V) if plan.single else (A[plan.which], V[plan.which])
