"""The one loop behind every run: segments, saving, stopping, resuming, trust.

Where a segment ends does not depend on what is saved, so saving more never changes the solution, and a run resumed
after its last finished segment gives the same digits as one left alone. All runs of an ensemble go through the loop
together, and so do the shaken copies of a certified run (`metastable.solve.trust`).
"""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from metastable.backend import ready
from metastable.engines import choose
from metastable.engines.interface import Engine, Saved, State, Stops
from metastable.solve import rest, trust
from metastable.solve.flow import steps_to
from metastable.solve.plan import Plan
from metastable.solve.segments import Fate, Segment, cut_short
from metastable.solve.stepping import MOST_STEPS
from metastable.solve.stopping import Rule, Until, missed, stop_rule

_REPORTED = 24  # segments of a fixed-step run whose progress is reported or recorded
_MOST_STOPS = 1024  # in one segment
_MOST_NUMBERS = 2**22  # tokens' coordinates of all runs at the stops of a segment
_COURSE = ("worst", "ended", "resting", "still", "missed")  # what a checkpoint stores besides the engine's state
_EDGES = 8  # even segments of an adaptive run, whatever is saved


def drive(
    plan: Plan,
    x: np.ndarray,
    until: Until = None,
    checkpoint: Mapping[str, np.ndarray] | None = None,
    reported: bool = True,
) -> Iterator[Segment]:
    """The segments of a plan, from tokens x (B, n, d) or from the state of an earlier segment.

    Parameters
    ----------
    plan, x
        As `metastable.solve.plan.make_plan` returns them.
    until : rule
        See `simulate`.
    checkpoint : mapping, optional
        The ``state`` of a finished segment.
    reported : bool
        Whether fixed steps are cut into segments though nobody needs their states, for progress and records.
    """
    ready()
    rule = stop_rule(plan, until)
    members = trust.with_copies(plan)
    tokens = trust.tokens_of_members(members, x)
    choice = choose(members)
    engine = choice.engine
    course = _Course.begin(members, engine, tokens) if checkpoint is None else _Course.resume(members, checkpoint)
    for stops in course.segments(engine, reported):
        clock = time.perf_counter()
        segment = course.advance(engine, stops)
        segment = segment if rule is None else _stopped(plan, segment, rule)
        notes = {**segment.notes, "other engines": choice.reasons}
        segment = replace(segment, seconds=time.perf_counter() - clock, notes=notes)
        course.note(segment.fates)
        yield segment
        if course.over:
            return


def engine_of(plan: Plan) -> str:
    """The name of the engine that runs a plan."""
    return choose(trust.with_copies(plan)).engine.name


@dataclass
class _Course:
    """Where a run is: the engine's state, the next save, how far copies have parted, and which runs have ended."""

    plan: Plan
    state: State
    following: int
    worst: np.ndarray
    ended: np.ndarray  # (B,), for runs that go their own way
    resting: np.ndarray  # (B,), runs that need no more steps, with their tokens in ``still``
    still: np.ndarray
    missed: np.ndarray  # (B,), how far attention was off its own definition so far
    together: bool

    @classmethod
    def begin(cls, plan: Plan, engine: Engine, x: np.ndarray) -> "_Course":
        own = plan.originals
        nobody = np.zeros(own, bool)
        state = engine.start(plan, x)
        return cls(
            plan, state, 0, np.zeros(own), nobody, nobody.copy(), np.array(x[:own]), np.zeros(own), plan.together
        )

    @classmethod
    def resume(cls, plan: Plan, stored: Mapping[str, np.ndarray]) -> "_Course":
        state = {name.removeprefix("engine."): a for name, a in stored.items() if name.startswith("engine.")}
        own = {name: np.array(stored[f"driver.{name}"]) for name in _COURSE}
        return cls(plan, state, int(stored["next"]), **own, together=plan.together)

    def stored(self) -> dict[str, np.ndarray]:
        own = {f"driver.{name}": getattr(self, name).copy() for name in _COURSE}
        return {
            "next": np.asarray(self.following),
            **own,
            **{f"engine.{name}": np.asarray(a) for name, a in self.state.items()},
        }

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        ended = self.ended.any() if self.together else self.ended.all()
        return bool(ended) or self.following >= len(self.plan.times)

    def note(self, fates: Mapping[int, Fate]) -> None:
        """Remember which runs have ended; an adaptive method takes no step for tokens that are nan."""
        self.ended[list(fates)] = True
        if fates and self.plan.method.adaptive:
            over = np.resize(self.ended, self.plan.runs)[:, None, None]  # copies too
            self.state = {name: np.where(over, np.nan, a) if np.ndim(a) == 3 else a for name, a in self.state.items()}

    # --- where to go next ---

    def segments(self, engine: Engine, reported: bool) -> Iterator[Stops]:
        """Stops of the segments that are left."""
        if self.plan.method.adaptive:
            yield from self._adaptive_segments(engine)
        else:
            yield from self._fixed_segments(engine, reported)

    def _fixed_segments(self, engine: Engine, reported: bool) -> Iterator[Stops]:
        plan = self.plan
        steps, thetas, kept = _fixed_stops(plan, engine)
        done = int(self.state["k"])
        begin = 0
        if self.following or done:
            left = (np.cumsum(kept) > self.following) | (~kept & (steps > done))  # the next save, or a check before it
            begin = int(np.argmax(left)) if left.any() else len(steps)
        size = max(1, min(_MOST_STOPS, _MOST_NUMBERS // (plan.runs * plan.n * plan.d)))
        if reported:
            size = min(size, max(1, -(-len(steps) // _REPORTED)))
        for start in range(begin, len(steps), size):
            these = slice(start, start + size)
            counts = np.array(steps[these])
            counts[1:] -= steps[these][:-1]
            counts[0] -= int(self.state["k"])
            times = (steps[these] - 1 + thetas[these]) * plan.dt
            yield Stops(times, float(times[-1]), counts, thetas[these], kept[these])

    def _adaptive_segments(self, engine: Engine) -> Iterator[Stops]:
        plan = self.plan
        if self.following == 0 and plan.times[0] == 0.0:
            yield _stops(plan.times[:1], 0.0, np.ones(1, bool))
        edges = np.linspace(0.0, plan.t, _EDGES + 1)[1:] if plan.t > 0 else np.zeros(1)
        while self.following < len(plan.times):
            t = float(self.state["t"])
            edge = float(edges[min(int(np.searchsorted(edges, t * (1 + 1e-12), side="right")), len(edges) - 1)])
            span = engine.span(plan, self.state)
            end = edge if t + 1.5 * span >= edge else t + span
            last = int(np.searchsorted(plan.times, end + 1e-12 * max(1.0, plan.t), side="right"))
            saves = np.minimum(plan.times[self.following : last], end)
            checks = np.empty(0) if plan.shakes is None else _checks(plan, engine, t, end, span)
            times = np.concatenate([saves, checks[~np.isin(checks, saves)]])
            order = np.argsort(times, kind="stable")
            yield _stops(times[order], end, order < len(saves))

    # --- what comes back ---

    def advance(self, engine: Engine, stops: Stops) -> Segment:
        """Go to the stops, compare copies, and say which runs have ended."""
        plan, first, kept = self.plan, self.following, stops.saves
        own, count = plan.originals, int(kept.sum())
        if self.resting.all():
            saved = _standing_still(plan, self.still, stops)
            self.state = {**self.state, "t": np.asarray(stops.end)}
        else:
            self.state, saved = engine.advance(plan, self.state, stops)
        parted = np.zeros((len(stops), own))
        if plan.shakes is not None:
            parted = np.maximum.accumulate(np.maximum(trust.apart(plan, saved), self.worst), axis=0)
            self.worst = parted[-1] if len(parted) else self.worst
        x = _kept(saved.x, kept, own)
        extra = {name: _kept(a, kept, own) for name, a in saved.extra.items()}
        self.following = first + count
        fates = self._fates(saved, x, first)
        if self.resting.any() and not self.resting.all():
            x = np.array(x)
            x[:, self.resting] = self.still[self.resting]
        off = missed(plan, plan.times[first : first + len(x)], x, extra)
        self.missed = np.maximum(self.missed, off)
        notes = {"engine": engine.name, **saved.notes}
        if self.together and fates:
            x, extra, parted, fates = cut_short(x, extra, parted[kept], fates, first)
        else:
            parted = parted[kept]
        return Segment(first, x, stops.end, self.stored(), extra, parted, fates, self.missed, notes=notes)

    def _fates(self, saved: Saved, x: np.ndarray, first: int) -> dict[int, Fate]:
        plan, fates = self.plan, {}
        times = plan.times[first : first + len(x)]
        finite = np.isfinite(x)
        finite = np.ones(x.shape[:2], bool) if finite.all() else finite.all(axis=(-1, -2))  # (m, B)
        late = np.zeros(plan.originals, bool)
        if plan.method.adaptive:
            late = saved.reached[: plan.originals] < plan.number(self.state["t"])
        for run in np.flatnonzero((late | ~finite.all(axis=0)) & ~self.ended & ~self.resting).tolist():
            if late[run]:
                if saved.exhausted[run] and self._comes_to_rest(run, float(saved.reached[run])):
                    if len(x):
                        x[times > saved.reached[run], run] = self.still[run]  # a view of what the engine made for us
                    continue
                good = int((finite[:, run] & (times <= saved.reached[run])).sum())
                fates[run] = Fate(first + good, "stalled", _stalled(plan, saved, run))
            else:
                good = int(np.argmin(finite[:, run]))
                what = "Tokens, or e^{tV}," if plan.model.geometry.rescales else "Tokens"
                text = (
                    f"{what} left the range of floats before t = {times[good]:g}; "
                    "the run ends at the last finite saved time."
                )
                fates[run] = Fate(first + good, "diverged", text)
        return fates

    def _comes_to_rest(self, run: int, t: float) -> bool:
        """Whether a run that took all its steps has only tokens at rest left: then nothing more happens."""
        dyn = self.plan.of(run)
        if not dyn.autonomous:  # the rescaled flow is none, and holds its state in other coordinates
            return False
        x = np.asarray(self.state["x"][run])
        if not np.isfinite(x).all() or not rest.at_rest(dyn, t, x):
            return False
        self.resting[run], self.still[run] = True, x
        return True


def _kept(a: np.ndarray, kept: np.ndarray, own: int) -> np.ndarray:
    """What is saved of the runs themselves: the array itself where it holds nothing else and may be written to."""
    return a if a.shape[1] == own and kept.all() and a.flags.writeable else a[kept, :own]


def _stops(times: np.ndarray, end: float, saves: np.ndarray) -> Stops:
    nothing = np.zeros(len(times), np.int64)
    return Stops(times, end, nothing, np.ones(len(times)), saves)


def _fixed_stops(plan: Plan, engine: Engine) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steps and fractions of all stops of a fixed-step run, and which of them are saves; the others are checks.

    Copies are compared at every save, and between saves that are further apart than twice the engine's pace.
    """
    steps, thetas = steps_to(plan.times, plan.dt)
    kept = np.ones(len(steps), bool)
    if plan.shakes is None:
        return steps, thetas, kept
    every = max(1, round(engine.pace(plan) / plan.dt))
    checks = np.arange(every, steps[-1], every)
    following = np.searchsorted(steps, checks)  # the save at or after each check
    gaps = np.diff(steps, prepend=0)[following]
    checks = checks[(gaps > 2 * every) & (steps[following] != checks)]
    if not len(checks):
        return steps, thetas, kept
    steps, thetas = np.concatenate([steps, checks]), np.concatenate([thetas, np.ones(len(checks))])
    kept = np.concatenate([kept, np.zeros(len(checks), bool)])
    order = np.lexsort((thetas, steps))
    return steps[order], thetas[order], kept[order]


def _checks(plan: Plan, engine: Engine, t: float, end: float, span: float) -> np.ndarray:
    """Times after t at which an adaptive run is compared with its copies besides its saves; the last one is the end."""
    most = max(1, min(_MOST_STOPS, _MOST_NUMBERS // (plan.runs * plan.n * plan.d)))
    count = min(most, round((end - t) / engine.pace(plan))) if math.isinf(span) and end > t else 1
    return np.linspace(t, end, max(1, count) + 1)[1:]


def _standing_still(plan: Plan, still: np.ndarray, stops: Stops) -> Saved:
    x = np.broadcast_to(np.resize(still, (plan.runs, *still.shape[1:])), (len(stops), plan.runs, plan.n, plan.d))
    return Saved(x, np.full(plan.runs, stops.end), np.zeros(plan.runs, bool))


def _stopped(plan: Plan, segment: Segment, rule: Rule) -> Segment:
    """The segment, ended at the first save at which a rule says so."""
    for k, x in enumerate(segment.x):
        t = float(plan.times[segment.first + k])
        found = rule(t, x)
        if found is not None:
            count, ends = segment.first + k + 1, f"Stopped at t = {t:g}"
            fates = {run: Fate(count, status, f"{ends}: {reason}.") for run, (status, reason) in found.items()}
            earlier = {run: own for run, own in segment.fates.items() if own.count < count}
            some = {0: next(iter(fates.values()))}
            cut = cut_short(segment.x, segment.extra, segment.apart, some, segment.first)
            return replace(segment, x=cut[0], extra=cut[1], apart=cut[2], fates=fates | earlier)
    return segment


def _stalled(plan: Plan, saved: Saved, run: int) -> str:
    reached = float(saved.reached[run])
    if saved.exhausted[run]:
        why = f"took {MOST_STEPS:,} steps in one segment"
        what = "Loosen rtol, shorten t, or follow the clusters with metastable.reduced.follow"
    else:
        why = "would need steps too short for its floats"
        what = "Loosen rtol or shorten t"
    return (
        f"{plan.method.name} could not go on past t = {reached:.6g} at rtol = {plan.rtol:g}: it {why}; "
        f"what was reached is there. {what}."
    )
