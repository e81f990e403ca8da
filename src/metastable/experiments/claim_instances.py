"""Many random instances of one claim on the rescaled flow, run until each can be judged.

Units. Multiplying V by a constant only changes the clock of eq. (4). So V is divided by lambda, the rate at which the
claim says tokens close in once attention has settled (`Claim.rate`): all instances then share one horizon, and times
are in units of 1/lambda.

Criterion, fixed beforehand. With settled attention z' = V(z_leader - z), so the distance to the limit set shrinks
exactly like e^{-t}. A token settled by half the horizon T is therefore within e^{-T/2} of it, and
T = 2 ln(1/resolution) makes that ``resolution`` (relative to how far out tokens are). The integrator's error, rtol =
1e-7 per step and some hundred steps, is far smaller. An instance

- holds when every token is within ``resolution`` of the predicted set at T;
- is run again to 2T and 4T when not, unless rounding ended the validity of the run already;
- breaks the claim when at 4T the largest distance is still at least 0.9 of what it was at 2T, where settled attention
  would have left e^{-2T} = resolution^4 of it;
- is undecided otherwise: still closing in, or rounding ended the run's validity (`Trajectory.valid_until`).
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.equation.weights import Weights
from metastable.experiments import plain_formulas as plain
from metastable.experiments.base import Check, Data, Work, judged_by_validity
from metastable.solve.methods import METHODS
from metastable.solve.simulate import simulate
from metastable.theory.theorems import Claim, Measurement, Triple, certified_until, settled_tokens
from metastable.trajectory import Trajectory

RESOLUTION = 1e-3
HORIZON = 2.0 * float(np.log(1.0 / RESOLUTION))
DOUBLINGS = 2
HOLDS, BREAKS, UNDECIDED = 1, 0, -1
# shares of the horizon at which tokens are kept: evenly while they move (for films), then the second half
SHARES = np.concatenate([np.linspace(0.0, 6.5, 27) / HORIZON, np.linspace(0.5, 1.0, 6)])
HALF = len(SHARES) - 6
RTOL = 1e-7
GROWTH = 1e3 * RTOL  # what a quantity that never grows may gain, relative: 1,000 steps of a local error RTOL

Measure = Callable[[Triple, Trajectory], Mapping[str, np.ndarray]]


def instances(
    claim: Claim,
    triples: Sequence[Triple],
    *,
    method: str,
    chunk: int,
    details: Sequence[str] = (),
    measure: Measure | None = None,
    paths: bool = False,
) -> Data:
    """Run and measure every triple; arrays with one row per instance.

    Parameters
    ----------
    claim : Claim
        Its hypotheses, rate and measurement (`metastable.theory.theorems`).
    method : {"tsit5", "rk4"}
        rk4 takes steps of 0.05: cheaper to compile, for a first look.
    chunk : int
        Runs per compiled call; fewer are padded, so that nothing is compiled twice. Adaptive runs wait for the
        slowest of their chunk, so one or two at a time are quickest.
    details : sequence of str
        Names of the measurement's details to keep.
    measure : function, optional
        Further numbers from the triple and its first run.
    paths : bool
        Keep every token at every saved time of the first run.
    """
    rates = [claim.rate(triple) for triple in triples]
    runs = runs_of(triples, rates, HORIZON, method, chunk)
    rows = [_row(claim, triple, run, details, last=False) for triple, run in zip(triples, runs)]
    for i, (triple, run) in enumerate(zip(triples, runs)):
        rows[i] |= dict(measure(triple, run)) if measure is not None else {}
        rows[i] |= {"path": _whole(run.x)} if paths else {}
    for doubling in range(1, DOUBLINGS + 1):
        open_ = [i for i, row in enumerate(rows) if row["outcome"] != HOLDS and row["sound"]]
        if not open_:
            break
        again = runs_of([triples[i] for i in open_], [rates[i] for i in open_], HORIZON * 2**doubling, method, chunk)
        for i, run in zip(open_, again):
            rows[i] |= _row(claim, triples[i], run, details, last=doubling == DOUBLINGS)
    for row, triple, rate in zip(rows, triples, rates):
        findings = claim.hypotheses(triple)
        row |= {"rate": np.float64(rate), "eligible": np.array(all(f.holds is True for f in findings))}
    return {key: np.stack([row[key] for row in rows]) for key in rows[0]}


def check(claim: Claim, triples: Sequence[Triple], *, method: str, chunk: int) -> dict[str, Check]:
    """The self-check of an experiment on rescaled tokens: the given triples to t = 1/2, as `instances` runs them.

    Fixed steps in the chart are steps in z, so rk4 agrees to rounding, which scores of size |x|^2 amplify; adaptive
    steps have their own tolerance.
    """
    t, rates = 0.5, [claim.rate(triple) for triple in triples]
    made = runs_of(triples, rates, t, method, chunk)
    steps, allowed = (1000, 1e-4) if METHODS[method].adaptive else (10, 1e-8)
    found: dict[str, Check] = {}
    for k, (p, rate, run) in enumerate(zip(triples, rates, made)):
        field = partial(plain.rescaled, Q=p.Q, K=p.K, V=p.V / rate)
        again = plain.moved(field, p.tokens, t, steps)
        found[f"rescaled tokens of instance {k} at t = {t:g}"] = (run.x[-1], again, allowed * np.abs(again).max())
    return found


def runs_of(
    triples: Sequence[Triple], rates: Sequence[float], horizon: float, method: str, chunk: int
) -> list[Trajectory]:
    """Rescaled runs to the horizon, V divided by each triple's rate; fewer than a chunk are padded."""
    members = [Dynamics(Weights(p.Q, p.K, p.V / r), geometry="rescaled") for p, r in zip(triples, rates)]
    runs: list[Trajectory] = []
    for first in range(0, len(members), chunk):
        part = members[first : first + chunk]
        spare = chunk - len(part)
        tokens = np.stack([p.tokens for p in triples[first : first + len(part)]])  # (B, n, d)
        tokens = np.concatenate([tokens, np.repeat(tokens[-1:], spare, axis=0)])
        times = horizon * SHARES
        with judged_by_validity():
            made = simulate(part + part[-1:] * spare, tokens, t=horizon, dt=0.05, method=method, save=times, rtol=RTOL)
        runs += made[: len(part)]
    return runs


def in_families(
    work: Work, name: str, count: int, chunk: int, families: int, make: Callable[[list[int]], Data]
) -> Data:
    """``make(indices)`` over chunks of one family each (family = index mod families), put back in the order of indices.

    Runs of a chunk wait for its slowest, and families differ in how fast they are. Keys that start with "path" hold
    fewer rows and keep the order in which they come.
    """
    order = sorted(range(count), key=lambda i: (i % families, i))
    ends = [0, *(k for k in range(1, count) if order[k] % families != order[k - 1] % families), count]
    chunks = [order[a:b][k : k + chunk] for a, b in pairwise(ends) for k in range(0, b - a, chunk)]
    made = work.parts(name, len(chunks), 1, lambda first, last: make(chunks[first]))
    back = np.argsort(order)
    return {key: value if key.startswith("path") else value[back] for key, value in made.items()}


def _whole(x: np.ndarray) -> np.ndarray:
    """Tokens (T, n, d) of a run that may have ended early, its last state repeated."""
    return np.concatenate([x, np.repeat(x[-1:], len(SHARES) - len(x), axis=0)])


def _row(claim: Claim, triple: Triple, run: Trajectory, details: Sequence[str], last: bool) -> dict[str, Any]:
    valid = np.flatnonzero(run.t <= certified_until(run))
    end = int(valid[-1]) if len(valid) else 0
    now, z, rounding = _measured(claim, triple, run, end)
    half = min(end, HALF)
    before, _, _ = _measured(claim, triple, run, half)
    known = rounding <= RESOLUTION * now.extent
    outcome = UNDECIDED
    if now.extent <= RESOLUTION * now.first_extent or (known and now.residual <= RESOLUTION):
        outcome = HOLDS
    elif last and known and end == len(SHARES) - 1 and now.residual >= 0.9 * before.residual:
        outcome = BREAKS
    found, earlier = (m.details() if details else {} for m in (now, before))
    return {
        "outcome": np.int8(outcome),
        "sound": np.array(end == len(SHARES) - 1),
        "residual": np.float64(now.residual),
        "before": np.float64(before.residual),
        "reached": np.float64(run.t[end]),
        "extent": np.float64(now.extent),
        "end": z,  # (n, d)
        "details": np.array([found[name] for name in details]),
        "details_before": np.array([earlier[name] for name in details]),
    }


def _measured(claim: Claim, triple: Triple, run: Trajectory, index: int) -> tuple[Measurement, np.ndarray, float]:
    z, rounding = settled_tokens(run, index)
    attention: Callable[[], np.ndarray] = lambda: np.asarray(run.attention(index))[0]  # noqa: E731
    return claim.measure(triple, z, attention), z, rounding


def outcomes(data: Data, key: str = "outcome") -> list[bool | None]:
    """What `judge_share` wants: True, False or None (undecided) per instance."""
    return [None if o == UNDECIDED else bool(o) for o in data[key].tolist()]


def still(distance: np.ndarray, before: np.ndarray, tolerance: float, settled: np.ndarray) -> np.ndarray:
    """Outcomes of a further distance of settled instances: reached, no longer falling (0.9 as above), or undecided."""
    missed = np.where(distance >= 0.9 * before, BREAKS, UNDECIDED)
    return np.where(settled, np.where(distance <= tolerance, HOLDS, missed), UNDECIDED)


def spread(values: np.ndarray) -> str:
    """Median and largest of a sample, for notes."""
    known = values[np.isfinite(values)]
    return f"median {np.median(known):.2g}, largest {known.max():.2g}" if len(known) else "none"


def shown(params: Any, families: int, published: int) -> list[int]:
    """Which instances to draw: the first of each published family (family = (seed + index) mod families), or else 0."""
    first = [(k - params.seed) % families for k in range(published)]
    return [i for i in first if i < params.instances] or [0]


def average(values: np.ndarray) -> float:
    """The mean, nan of nothing."""
    return float(values.mean()) if len(values) else float("nan")


def random_score(d: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random Q and K with Q^T K = A A^T + I/10 > 0, A normal / sqrt(d): K random, Q solved for."""
    A = rng.standard_normal((d, d)) / np.sqrt(d)
    K = np.eye(d) + 0.3 * rng.standard_normal((d, d)) / np.sqrt(d)
    return np.linalg.solve(K.T, A @ A.T + 0.1 * np.eye(d)), K
