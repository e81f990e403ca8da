"""fit: the door to learning in the flow."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.errors import InputError, door
from metastable.learning import fit_record
from metastable.learning.descent import Curve, Descent, State, optimiser_of
from metastable.learning.fit_problem import Problem, make_problem, whole
from metastable.learning.fit_result import Fit
from metastable.learning.learnt_numbers import with_numbers
from metastable.progress import Progress, Report, silent
from metastable.solve.methods import Method
from metastable.store.folder import Purpose, claim, finish


@door
def fit(
    dynamics: Dynamics,
    x0: Any,
    targets: Any,
    over: str | Sequence[str] = ("V", "beta"),
    *,
    times: Any = 1.0,
    method: str | Method = "rk4",
    dt: float | None = None,
    loss: Any = "squared",
    effort: float = 0.0,
    pieces: int = 1,
    steps: int = 300,
    rate: float = 0.05,
    optimiser: Any = "adam",
    held_out: Any = None,
    seed: int = 0,
    out: str | Path | None = None,
    checkpoint: int = 50,
    progress: Report | None = None,
) -> Fit:
    """Learn numbers of a dynamics so that tokens from x0 come to targets.

    Parameters
    ----------
    dynamics : Dynamics
        Where the search starts.
    x0 : array (..., n, d)
        First tokens; leading axes are runs that all count.
    targets : array (..., n, d), or (T, ..., n, d) for T times
        Where token i should be; on the sphere they are directions.
    over : names
        What is learned: "Q", "K", "V", "O", biases, "beta", "tokens" (x0 itself), "mlp.W_in", ..., or a whole part:
        "weights", "mlp", "block", "position". The rest stays.
    times : float or increasing array (T,)
        When the tokens should be there.
    method, dt
        As in `metastable.flow`.
    loss : {"squared", "cosine", "cloud"} or function of (tokens, targets), both (T, ..., n, d)
        "cloud" compares clouds and not tokens: targets may then have another number of tokens.
    effort : float
        Weight of the effort: the integral over time of the sum of squares of the learned maps (not of beta or tokens).
    pieces : int
        Learned maps are constant on that many equal stretches of time; a ``dt`` of one's own should divide them.
    steps : int
    rate : float
        Of the optimiser; it falls to zero along a cosine.
    optimiser : {"adam", "sgd", "lbfgs"} or an optimiser of optax
    held_out : pair (x0, targets), optional
        Tokens that are not fitted; their error is measured at every checkpoint.
    seed : int
        Of the noise, where the dynamics has some: every step sees the same.
    out : path, optional
        A record folder. The same fit resumes there where it stopped, with the same digits.
    checkpoint : int
        Steps between two checkpoints, reports of progress and measurements of ``held_out``.
    progress : function, optional
        Called with a `metastable.progress.Progress` at every checkpoint.

    Returns
    -------
    Fit
        With ``dynamics``, ``numbers``, ``curve``, ``error``, ``effort`` and ``plot()``.

    Examples
    --------
    >>> import metastable as ms
    >>> x0 = ms.initial.sphere(4, 3, seed=0)
    >>> targets = x0 @ np.array([[0.8, 0.6, 0.0], [-0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    >>> found = ms.fit(ms.Dynamics(), x0, targets, over="V", steps=40, rate=0.1)
    >>> bool(found.error < 0.1 * found.curve["error"][0])
    True
    """
    chosen = {
        "times": times, "method": method, "dt": dt, "loss": loss, "effort": effort, "pieces": pieces, "steps": steps,
        "rate": rate, "optimiser": optimiser, "held_out": held_out, "seed": seed,
    }  # fmt: skip
    problem = make_problem(dynamics, x0, targets, over, chosen)
    checkpoint = whole("checkpoint", checkpoint)
    if progress is not None and not callable(progress):
        raise InputError(f"progress must be a function of one Progress, not {type(progress).__name__}.")
    descent = Descent(problem.objective, optimiser_of(problem.optimiser, problem.rate, problem.steps), checkpoint)
    report = progress or silent
    if out is None:
        return _carried_out(problem, descent, None, checkpoint, report)
    folder, parts = Path(out), problem.parts()
    purpose = Purpose("fit", problem.settings(), problem.fingerprint(parts))
    with claim(folder, purpose, packages=("optax",)) as status:
        if status == "finished":
            return fit_record.read_fit(folder)
        found = _carried_out(problem, descent, folder, checkpoint, report)
        finish(folder, "fit", fit_record.write_result(folder, found))
    return found


def _carried_out(problem: Problem, descent: Descent, folder: Path | None, checkpoint: int, report: Report) -> Fit:
    """Value and slope are taken once more than there are steps: before the first, and after each."""
    data = (jnp.asarray(problem.x0), jnp.asarray(problem.targets))
    state, aside = descent.start(problem.numbers()), jax.jit(problem.error)
    earlier = None if folder is None else fit_record.read_checkpoint(folder, state)
    curve: Curve = {}
    held: Curve = {}
    if earlier is not None:
        state, curve, held = earlier
    elif problem.held_out is not None:
        held = {"step": np.array([0]), "error": np.array([float(aside(state.numbers, problem.held_out))])}
    done, total = len(curve.get("value", ())), problem.steps + 1
    while done < total and not bool(state.broken):
        state, added = descent.advance(state, data, min(checkpoint - done % checkpoint, total - done))
        curve = {name: np.append(curve.get(name, ()), values) for name, values in added.items()}
        done = len(curve["value"])
        if problem.held_out is not None:
            there = float(aside(state.best, problem.held_out))
            held = {"step": np.append(held["step"], done - 1), "error": np.append(held["error"], there)}
        if folder is not None:
            fit_record.write_checkpoint(folder, state, curve, held)
        text = f"step {done - 1} of {problem.steps}, error {curve['error'][-1]:.3g}"
        report(Progress("fit", done / total, text))
    return _result(problem, state, curve, held, folder)


def _result(problem: Problem, state: State, curve: Curve, held: Curve, folder: Path | None) -> Fit:
    finite = np.isfinite(curve["value"])
    if not finite[0]:
        raise InputError("The error is nan or inf before the first step; shorten times, or lower beta or the weights.")
    met = len(finite) if finite.all() else int(finite.argmin())
    curve = {name: values[:met] for name, values in curve.items()}
    numbers = {name: np.asarray(array) for name, array in state.best.items()}
    dynamics, x0 = with_numbers(problem.dynamics, jnp.asarray(problem.x0), numbers)
    idle = tuple(name for name in problem.names if not curve[f"slope {name}"].any())
    status = "diverged" if bool(state.broken) else "done"
    return Fit(dynamics, np.asarray(x0), numbers, curve, held, status, idle, problem.settings(), folder)
