"""Run the flow until a claim can be judged.

Criterion, fixed beforehand. Once a token's attention has settled on its leader, eq. (4) reads z' = V(z_leader - z), and
a coordinate in which V has eigenvalue lambda closes in exactly like e^{-lambda t}. The horizon T is chosen so that a
token settled by T/2 is within ``resolution`` of the limit set, relative to how far out tokens are:
T = 2 ln(1/resolution)/lambda, lambda being the slowest rate of the claim. Attention settles when e^{2 lambda t}
times the gap between two scores is large, so a gap smaller by e^{-2 lambda T} costs only one more T: the horizon is
doubled up to three times. A claim then

- holds when every token is within ``resolution`` of the set (or of 0, relative to where tokens began);
- fails when, at the longest horizon, the largest distance has stopped falling over the last half (it is at least 0.9 of
  what it was, where settled attention would have left ``resolution`` of it);
- is undecided otherwise, in particular when rounding ends the run's validity first.

Runs longer than T ||V|| = 1e4 are not tried, and none goes on beyond ``patience`` seconds (attention that switches back
and forth for ever can make the equation arbitrarily stiff); a claim that would need more is undecided.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.solve.driver import drive
from metastable.solve.plan import make_plan
from metastable.solve.simulate import collect, simulate
from metastable.theory.closed_forms import collapse_covariance
from metastable.theory.theorems import Claim, Measurement, Triple, certified_until, settled_tokens
from metastable.theory.verdicts import Status
from metastable.trajectory import Trajectory

_DOUBLINGS = 3
_LONGEST = 1e4  # in units of 1/||V||: a few seconds
_SAVES = np.concatenate([[0.0], 0.5 ** np.arange(10, -1, -1)])  # shares of the horizon, each twice the one before


@dataclass(frozen=True)
class Outcome:
    """What became of one claim: the last valid measurement, a status, and the reason."""

    measurement: Measurement
    status: Status
    note: str


@dataclass(frozen=True)
class Settled:
    """Outcomes in the order of the claims, and how long it took."""

    outcomes: tuple[Outcome, ...]
    horizon: float
    valid_until: float


def criterion(resolution: float) -> str:
    """The criterion in one sentence."""
    return f"every token within {resolution:g} of the predicted set, relative to how far out tokens are"


def settle(triple: Triple, claims: Sequence[Claim], t: float | None, resolution: float, patience: float) -> Settled:
    """Simulate eq. (4) until every claim is judged, or the horizon cannot be doubled again."""
    needed = max(needed_time(claim, triple, resolution) for claim in claims)
    longest = _LONGEST / float(np.linalg.norm(triple.V, 2))
    horizon = min(needed, longest) if t is None else t
    for attempt in range(1 if t is not None else _DOUBLINGS + 1):
        run, seconds = rescaled_run(triple, horizon, patience)
        patience -= seconds
        last = attempt == _DOUBLINGS or t is not None or 2.0 * horizon > longest
        outcomes = tuple(_judge(claim, triple, run, resolution, last) for claim in claims)
        ended = run.status != "done" or certified_until(run) < horizon or patience <= 0.0
        if last or ended or all(o.status == "holds" for o in outcomes):
            break
        horizon *= 2.0
    return Settled(outcomes, horizon, certified_until(run))


def needed_time(claim: Claim, triple: Triple, resolution: float) -> float:
    """T = 2 ln(1/resolution)/lambda of the module's docstring."""
    return 2.0 * float(np.log(1.0 / resolution)) / claim.rate(triple)


def rescaled_run(triple: Triple, horizon: float, patience: float) -> tuple[Trajectory, float]:
    """The rescaled flow, to the horizon or as far as patience allows, and the seconds it took after compilation.

    The run's own warning about rounding is left out here: it becomes part of the verdict.
    """
    dynamics = Dynamics(Weights(triple.Q, triple.K, triple.V), geometry="rescaled")
    plan, x = make_plan(dynamics, triple.tokens, t=horizon, method="tsit5", save=horizon * _SAVES)
    parts, clock = [], time.monotonic()
    for part in drive(plan, x):
        parts.append(part)
        if len(parts) == 2:  # the first segment is the start, the second includes compilation
            clock = time.monotonic()
        if len(parts) > 1 and time.monotonic() - clock >= patience:
            break
    seconds = time.monotonic() - clock
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return collect(plan, parts), seconds


def _judge(claim: Claim, triple: Triple, run: Trajectory, resolution: float, last: bool) -> Outcome:
    valid = np.flatnonzero(run.t <= certified_until(run))
    end = int(valid[-1]) if len(valid) else 0
    now, rounding = _measured(claim, triple, run, end)
    before, _ = _measured(claim, triple, run, max(end - 1, 0))
    when = float(run.t[end])
    if now.extent <= resolution * now.first_extent:
        return Outcome(now, "holds", f"all tokens are at 0 to {resolution:g} of where they began, by t = {when:.4g}")
    if rounding > resolution * now.extent:
        return Outcome(now, "undecided", f"coordinates are known to {rounding:.1g} only at t = {when:.4g}")
    if now.residual <= resolution:
        return Outcome(now, "holds", f"reached by t = {when:.4g}")
    if run.status != "done" or end < len(_SAVES) - 1:
        late = "out of time" if len(run.t) < len(_SAVES) else "rounding"
        why = late if run.status == "done" else run.status
        return Outcome(now, "undecided", f"known until t = {when:.4g} only ({why}), distance {now.residual:.3g}")
    settled = needed_time(claim, triple, resolution)
    if last and when >= settled and now.residual >= 0.9 * before.residual:
        return Outcome(
            now, "fails", f"distance stays at {now.residual:.3g} from t = {run.t[end - 1]:.4g} to {when:.4g}"
        )
    enough = "" if when >= settled else f"; a clear answer takes t = {settled:.4g}"
    return Outcome(now, "undecided", f"distance still falling at t = {when:.4g} ({now.residual:.3g}){enough}")


def _measured(claim: Claim, triple: Triple, run: Trajectory, index: int) -> tuple[Measurement, float]:
    z, rounding = settled_tokens(run, index)
    attention: Callable[[], np.ndarray] = lambda: np.asarray(run.attention(index))[0]  # noqa: E731
    return claim.measure(triple, z, attention), rounding


# --- the unscaled collapse of Theorem C.5 -------------------------------------------------------------------------


def collapse(triple: Triple, t: float | None) -> tuple[Outcome, float]:
    """Theorem C.5, judged by its rate: tokens shrink, and the covariance obeys C' = -2C^2.

    With V = -cI and Q^T K = aI, the tokens y = sqrt(a) x in time ct obey the case c = a = 1. From half the horizon on,
    C(T) must follow from C(T/2) by the closed form, up to the terms of relative size |y|^2 that it leaves out (the
    cubic terms of the softmax, in both factors of C): the mismatch may be 2 max |y(T/2)|^2. The horizon 50 d/c makes
    that a few percent; it is doubled while the bound exceeds 0.2, where it would allow anything.
    """
    d = len(triple.V)
    c, a = -float(np.trace(triple.V)) / d, float(np.trace(triple.form)) / d
    horizon = 50.0 * d / c if t is None else t
    for attempt in range(_DOUBLINGS + 1):
        x = _unscaled_run(triple, horizon)  # (3, n, d) at 0, T/2 and T
        y = np.sqrt(a) * x
        bound = 2.0 * float((y[1] ** 2).sum(axis=1).max())
        if bound <= 0.2 or t is not None or attempt == _DOUBLINGS:
            break
        horizon *= 2.0
    covariance = [np.cov(tokens.T, bias=True).reshape(d, d) for tokens in y]
    predicted = collapse_covariance(c * horizon / 2.0, covariance[1])
    mismatch = float(np.linalg.norm(covariance[2] - predicted)) / max(float(np.linalg.norm(predicted)), 1e-300)
    sizes = np.linalg.norm(x, axis=2).max(axis=1)  # (3,)
    shrinks = bool(sizes[2] < sizes[1] or sizes[1] == 0.0)
    status: Status = "undecided" if bound > 0.2 else "holds" if shrinks and mismatch <= bound else "fails"
    details = {"mismatch with C' = -2C^2": mismatch, "mismatch allowed": bound, "largest |x| at T/2": float(sizes[1])}
    size = float(sizes[0])
    note = f"the largest |x| fell from {sizes[0]:.3g} to {sizes[2]:.3g} by t = {horizon:.4g}, algebraically"
    limit = Measurement(np.linalg.norm(x[2], axis=1), size, size, "the origin", details=lambda: details)
    return Outcome(limit, status, note), horizon


def _unscaled_run(triple: Triple, horizon: float) -> np.ndarray:
    dynamics = Dynamics(Weights(triple.Q, triple.K, triple.V), geometry="euclidean")
    run = simulate(dynamics, triple.tokens, t=horizon, method="tsit5", save=[0.0, horizon / 2.0, horizon], rtol=1e-8)
    return np.asarray(run.x)
