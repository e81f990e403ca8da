"""What a plan would cost on each engine (temporary numbers)."""

from metastable.solve.plan import Plan


def evaluations(plan: Plan) -> float:
    """How often the velocity is computed in one run."""
    stages = 1 if plan.method.tableau is None else plan.method.tableau.stages
    return plan.t / plan.dt * (stages if not plan.method.adaptive else 6)


def dense_seconds(plan: Plan) -> float:
    pairs = plan.n**2 * plan.model.weights.heads * plan.runs
    return 0.9 + evaluations(plan) * pairs * (2.4e-9 + 0.1e-9 * plan.d)


def lanes_seconds(plan: Plan) -> float:
    low, high = plan.model.mask.bounds(plan.n)
    pairs = float((high - low).sum()) * plan.model.weights.heads * plan.runs
    return 0.7 + evaluations(plan) * pairs * (0.8e-9 + 0.3e-9 * plan.d)


def exact_seconds(plan: Plan) -> float:
    low, high = plan.model.mask.bounds(plan.n)
    pairs = float((high - low).sum()) * plan.model.weights.heads * plan.runs
    return 1.6 + evaluations(plan) * (3e-4 * plan.runs + pairs * (0.5e-9 + 0.05e-9 * plan.d))


def spectral_seconds(plan: Plan) -> float:
    return 1.6 + evaluations(plan) * plan.runs * (3e-4 + 1e-6 * plan.n)


def chart_seconds(plan: Plan, kernels: bool) -> float:
    pairs = plan.n**2 * plan.runs
    return (0.7 if kernels else 3.0) + evaluations(plan) * pairs * (1e-9 if kernels else 8e-9)
