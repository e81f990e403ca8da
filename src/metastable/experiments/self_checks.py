"""What self-checks of several experiments share: a few steps of a run by the engine that the run itself takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from metastable.engines import choose
from metastable.equation.dynamics import Dynamics
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check
from metastable.solve.plan import make_plan
from metastable.solve.simulate import simulate

STEPS = 10


def first_steps(
    dynamics: Dynamics | Sequence[Dynamics], tokens: np.ndarray, fields: Sequence[plain.Field], **settings: Any
) -> Check:
    """The first runs of ``simulate(dynamics, tokens, **settings)``, cut short, and the same by the fields' formulas.

    There is one field per run that is compared. Fixed steps of rk4 are taken with the run's own dt on both sides, so
    they agree to rounding; adaptive runs are compared with many small steps. Tokens on the sphere are compared as
    directions. The engine is the one that the whole call takes, with its shapes, so that little is compiled twice.
    """
    plan, x = make_plan(dynamics, tokens, **settings)
    fixed = not plan.method.adaptive
    t = STEPS * plan.dt if fixed else min(1.0, plan.t)
    cut = {**settings, "t": t, "save": [t], "engine": choose(plan).engine.name}
    made = simulate(dynamics, tokens, **cut)
    own = np.stack([run.x[-1] for run in made]) if isinstance(made, list) else made.x[-1]
    own = own.reshape(x.shape)[: len(fields)]
    again = np.stack([plain.moved(field, x[k], t, STEPS if fixed else 500) for k, field in enumerate(fields)])
    if plan.model.geometry.fixed_norm:
        again = again / np.linalg.norm(again, axis=-1, keepdims=True)
    size = float(np.abs(again).max())
    return own, again, (1e-9 if fixed else 1e-4) * max(1.0, size)
