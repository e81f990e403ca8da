"""simulate: the door. From a Dynamics, or a list of them, and tokens to a Trajectory, or a list of them."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from metastable.equation.dynamics import Dynamics
from metastable.errors import door
from metastable.provenance import stamp
from metastable.solve import trust
from metastable.solve.driver import drive
from metastable.solve.memory import check_plan
from metastable.solve.methods import METHODS, Method
from metastable.solve.plan import Ending, Plan, make_plan, with_numbers
from metastable.solve.segments import Fate, Segment, joined
from metastable.solve.stopping import Until
from metastable.trajectory import Trajectory

__all__ = ["METHODS", "collect", "simulate"]
_EXACT = {"float64": 1e-12, "float32": 1e-5}  # by how much attention may miss its own definition


@overload
def simulate(dynamics: Dynamics, x0: Any, *settings: Any, **named: Any) -> Trajectory: ...
@overload
def simulate(dynamics: Sequence[Dynamics], x0: Any, *settings: Any, **named: Any) -> list[Trajectory]: ...
@door
def simulate(
    dynamics: Dynamics | Sequence[Dynamics],
    x0: Any,
    t: float = 15.0,
    dt: float | None = None,
    method: str | Method = "rk4",
    save: Any = 151,
    rtol: float = 1e-10,
    atol: float | None = None,
    seed: int | np.ndarray = 0,
    until: Until = None,
    dtype: str = "float64",
    engine: str = "auto",
    trust: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Trajectory | list[Trajectory]:
    """Run the dynamics from tokens x0 to time t.

    Parameters
    ----------
    dynamics : Dynamics, or list of Dynamics
        A list, all of one structure (the same parts and shapes, other numbers), runs each from its own tokens.
    x0 : array (..., n, d)
        Tokens; leading axes are an ensemble of runs, (B, n, d) for a list of B dynamics. On the sphere they are
        projected when they are not unit vectors.
    t : float
        Horizon; with ``method="layers"`` and dt = 1 the number of layers.
    dt : float, optional
        Step of the fixed methods (default 0.1; 1 for layers).
    method : {"euler", "rk4", "tsit5", "dopri8", "layers"} or a method object
    save : int or array
        A number of evenly spaced times, first and last included, or the times themselves.
    rtol, atol : float
        Tolerances of the adaptive methods; ``atol`` is rtol / 100 unless given.
    seed : int or array (...)
        Seed of the noise; each run of an ensemble has a stream of its own. An array, one seed for each run, gives every
        run the noise it has when it is run alone with that seed.
    until : {"steady"}, int or function, optional
        Stop at the first saved time at which every token is slower than 1e-8 (status "steady" at rest, "plateau" where
        linear stability says that tokens will move on), at which at most this many clusters are left, or at which the
        function ``(t, x) -> bool`` says so.
    dtype : {"float64", "float32"}
    engine : {"auto", "dense", "lanes", "exact", "spectral", "chart", "chart-kernels"}
        How sums over tokens are made (`metastable.engines`); auto takes the cheapest that can.
    trust : bool
        Carry a shaken copy of every run, so that ``valid_until`` is certified; twice the work. Rescaled runs always
        carry it.
    progress : function, optional
        Called with the time reached.

    Returns
    -------
    Trajectory, or a list of them for a list of dynamics.

    Examples
    --------
    >>> import metastable as ms
    >>> run = simulate(ms.Dynamics(), ms.initial.sphere(6, 3), t=2.0, method="tsit5", save=[0.0, 0.5, 2.0])
    >>> run.x.shape, run.status
    ((3, 6, 3), 'done')
    >>> cold, hot = ms.Dynamics(beta=9.0), ms.Dynamics(beta=1.0)
    >>> [run.x.shape for run in simulate([cold, hot], ms.initial.sphere(8, 3, runs=2), t=1.0, save=2)]
    [(2, 8, 3), (2, 8, 3)]
    """
    plan, x = make_plan(dynamics, x0, t, dt, method, save, rtol, atol, seed, dtype, engine, trust)
    check_plan(plan)
    segments: list[Segment] = []
    for segment in drive(plan, x, until, reported=until is not None or progress is not None):
        if segments:
            segments[-1] = replace(segments[-1], state={})  # a run goes on from its last segment only
        segments.append(segment)
        if progress is not None:
            progress(segment.reached)
    made: Trajectory | list[Trajectory] = collect(plan, segments, stacklevel=4)
    if isinstance(made, Trajectory) and made.status == "done":
        return replace(made, ending=Ending(plan, x, segments[-1].state))
    return made


def collect(plan: Plan, segments: Sequence[Segment], stacklevel: int = 1) -> Any:
    """The Trajectory of a plan, or the list of them, from its segments; what rounding may have changed is warned of."""
    found = Gathered.of(plan, segments)
    made = [found.trajectory()] if plan.together else [found.trajectory([run], ()) for run in range(plan.originals)]
    valid = np.array([np.inf if run.valid_until is None else run.valid_until for run in made])
    ends = np.array([float(run.t[-1]) if len(run) else 0.0 for run in made])
    text = trust_warning(plan, valid, ends, stacklevel)
    told = [replace(r, message=f"{r.message} {text}") if text and late else r for r, late in zip(made, valid < ends)]
    return told[0] if plan.together else told


@dataclass(frozen=True)
class Gathered:
    """All segments of a plan, joined, and how its runs ended."""

    plan: Plan
    x: np.ndarray
    apart: np.ndarray
    extra: Mapping[str, np.ndarray]
    missed: np.ndarray
    fates: Mapping[int, Fate]
    notes: Mapping[str, Any]

    @classmethod
    def of(cls, plan: Plan, segments: Sequence[Segment]) -> "Gathered":
        """What the segments hold."""
        fates: dict[int, Fate] = {}
        for segment in segments:
            fates = {**segment.fates, **fates}
        extra = {name: joined(segments, name) for name in segments[0].extra}
        notes = {**provenance(plan, sum(s.seconds for s in segments)), **segments[-1].notes}
        return cls(plan, joined(segments, "x"), joined(segments, "apart"), extra, segments[-1].missed, fates, notes)

    def ending(self, runs: Sequence[int]) -> tuple[int, str, str, float | None]:
        """How many saves all of these runs have, their status and message, and until when they are certified."""
        plan, ended = self.plan, [self.fates[run] for run in runs if run in self.fates]
        count = min([fate.count for fate in ended], default=len(self.x))
        status, message = (ended[0].status, ended[0].message) if ended else ("done", f"Reached t = {plan.t:g}.")
        missed = self.missed[runs[0]] if len(runs) == 1 else self.missed[list(runs)].max()
        if missed > _EXACT[plan.dtype]:
            status = "unconverged" if status == "done" else status
            message += f" Attention by {plan.model.normalise.name} was off by up to {missed:.1e}."
        return count, status, message, certificate(plan, plan.times[:count], self.apart[:count, list(runs)])

    def trajectory(self, runs: Sequence[int] | None = None, shape: tuple[int, ...] = ()) -> Trajectory:
        """Some of the runs as one Trajectory, which ends where the first of them ends; () is the shape of one alone.

        Without ``runs`` it is all of them in the shape of the plan, and shares the tokens of the segments.
        """
        of = slice(None) if runs is None else list(runs)
        plan = self.plan if runs is None else replace(self.plan.members(list(runs)), shape=shape)
        count, status, message, known = self.ending(range(self.plan.originals) if runs is None else runs)
        own = {name: a[:count, of].reshape(count, *plan.shape, *a.shape[2:]) for name, a in self.extra.items()}
        chart = (own["chart_y"], own["chart_refs"]) if "chart_y" in own else None
        tokens = self.x[:count, of].reshape(count, *plan.shape, plan.n, plan.d)
        notes = {**self.notes, **_drawn_by(plan)}
        return Trajectory(plan.times[:count], tokens, together(plan), status, message, known, notes, chart)


def _drawn_by(plan: Plan) -> dict[str, Any]:
    """What makes the noise: a seed for each run, or the seed of all and the runs' numbers in a larger ensemble."""
    if plan.seeds is not None or plan.numbers is None:
        return {"seed": plan.given_seed}
    return {"seed": plan.seed, "run": np.reshape(plan.numbers, plan.shape).tolist()}


def certificate(plan: Plan, times: np.ndarray, parted: np.ndarray) -> float | None:
    """``valid_until`` of runs that make one Trajectory; None where nothing was certified."""
    if not plan.certified:
        return None
    return trust.valid_until(times, parted.max(axis=1, initial=0.0), plan.dtype)


def trust_warning(plan: Plan, valid: np.ndarray, ends: np.ndarray, stacklevel: int) -> str:
    """Warn once, whatever the number of runs."""
    if plan.trust and plan.noisy:
        warnings.warn("A run with noise has no digits to certify; trust=True is ignored.", UserWarning, stacklevel + 1)
    return trust.warn_untrusted(valid, ends, stacklevel + 1)


def together(plan: Plan) -> Dynamics:
    """The dynamics of an ensemble that has one, with beta and noise along its axes where they differ."""
    if plan.single:
        return plan.model
    numbers = {}
    for name in ("beta", "noise"):
        values = np.array([float(getattr(dyn, name)) for dyn in plan.dynamics])
        alike = (values == values[0]).all()
        numbers[name] = float(values[0]) if alike else values[plan.which].reshape(plan.shape)
    return with_numbers(plan.model, **numbers)


def provenance(plan: Plan, seconds: float) -> dict[str, Any]:
    """How a run was made: everything needed to make it again, besides weights and tokens."""
    return {
        "method": plan.method.name,
        "discrete": plan.method.discrete,
        "dt": plan.dt,
        "t": plan.t,
        "rtol": plan.rtol,
        "atol": plan.atol,
        **_drawn_by(plan),
        "dtype": plan.dtype,
        "engine": plan.engine,
        "trust": plan.trust,
        "seconds": round(seconds, 6),
        **stamp(),
    }
