"""A run as a sequence of pieces, for every method: what is asked (Plan), and what each piece brings (Piece)."""

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from metastable.backend import jax, jnp
from metastable.equation.dynamics import Dynamics
from metastable.equation.masks import interval
from metastable.solve.methods import METHODS

Array = Any
MOST_STEPS = 100_000  # of an adaptive method in one piece
_WATCHED = 24  # pieces of a fixed-step run that somebody watches or records


@dataclass(frozen=True)
class Plan:
    """A run that has been checked and can start."""

    dynamics: Dynamics
    times: np.ndarray
    t: float
    dt: float
    method: str
    rtol: float
    atol: float
    seed: int
    dtype: str
    summation: str = "dense"

    @property
    def charted(self) -> bool:
        """True when the run goes through the chart of `metastable.engines.chart.state`."""
        return self.dynamics.geometry_name == "rescaled" and self.dynamics.normalise_name in _SHIFTABLE

    def number(self, value: Any) -> np.ndarray:
        """A number or array in the precision of the run, so that times do not widen its tokens."""
        return np.asarray(value, self.dtype)


_SHIFTABLE = ("softmax", "hardmax", "sinkhorn")  # normalisations that only see differences within a row


@dataclass(frozen=True)
class Piece:
    """Saved tokens x (m, ..., n, d) from save number ``first`` on, and the state to go on from."""

    first: int
    x: np.ndarray
    reached: float
    state: dict[str, np.ndarray]
    chart: tuple[np.ndarray, np.ndarray] | None = None
    apart: np.ndarray | None = None
    status: str = "done"
    message: str = ""
    seconds: float = 0.0
    sums: dict[str, Any] | None = None  # how sums were made so far and how well, where kernels made them

    def cut(self, count: int, status: str, message: str) -> "Piece":
        """The same piece ended after its first ``count`` saves."""
        chart = None if self.chart is None else (self.chart[0][:count], self.chart[1][:count])
        apart = None if self.apart is None else self.apart[:count]
        return replace(self, x=self.x[:count], chart=chart, apart=apart, status=status, message=message)

    @property
    def parted(self) -> np.ndarray:
        """How far the two copies of a charted run were apart at each save; zeros for other runs."""
        return np.zeros(len(self.x)) if self.apart is None else self.apart


def run(plan: Plan, x: np.ndarray, watched: bool, state: dict[str, np.ndarray] | None) -> Iterator[Piece]:
    """The pieces of a plan, from tokens x or from the state of an earlier piece."""
    tokens = plan.number(x)
    adaptive = plan.method in ("tsit5", "dopri8")
    if plan.charted:
        from metastable.engines.chart import segments as charted

        source = charted.adaptive(plan, tokens, state) if adaptive else charted.fixed(plan, tokens, watched, state)
    elif plan.summation == "lanes":
        source = _side_by_side(plan, tokens, watched, state)
    else:
        same = plan.summation == plan.dynamics.summation
        dyn = plan.dynamics if same else replace(plan.dynamics, summation=plan.summation)
        dyn = jax.tree_util.tree_map(plan.number, dyn)
        source = _adaptive(plan, dyn, tokens, state) if adaptive else _fixed(plan, dyn, tokens, watched, state)
    clock = time.perf_counter()
    with _noted(plan) as notes:
        for piece in source:
            sums = None if notes is None else notes.summary()
            yield replace(piece, apart=piece.parted, seconds=time.perf_counter() - clock, sums=sums)
            clock = time.perf_counter()


def _noted(plan: Plan) -> AbstractContextManager[Any]:
    """A journal of the sums made by kernels; nothing where JAX makes them."""
    if plan.charted or plan.summation in ("dense", "lanes"):
        return nullcontext()
    from metastable.engines import journal

    return journal()


def finite(x: np.ndarray) -> np.ndarray:
    """For each saved time whether every token is finite, (m,)."""
    return np.asarray(np.isfinite(x).all(axis=tuple(range(1, x.ndim))))


def valid_until(times: np.ndarray, apart: np.ndarray, dtype: str) -> float:
    """The last saved time before the two copies of a charted run part; inf if they never do."""
    from metastable.engines.chart.state import TRUSTED

    lost = np.flatnonzero(~(apart <= max(TRUSTED, 1e4 * float(np.finfo(dtype).eps))))
    if lost.size == 0:
        return float("inf")
    return float(times[lost[0] - 1]) if lost[0] > 0 else 0.0


# --- fixed steps ------------------------------------------------------------------------------------------------


def grid(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """For every save time the steps that reach it, and the fraction of the last of them at which it lies."""
    exact = plan.times / plan.dt
    whole = np.ceil(exact - 1e-9).astype(np.int64)
    rest = exact - (whole - 1)
    return whole, np.where(rest > 1.0 - 1e-9, 1.0, rest)


def spans(count: int, watched: bool, first: int) -> Iterator[tuple[int, int, int]]:
    """(start, end, size) of the runs of saves that make a piece; the last may be shorter than ``size``."""
    size = -(-count // _WATCHED) if watched else count
    for start in range(first, count, size):
        yield start, min(start + size, count), size


def requests(steps_at: np.ndarray, theta: np.ndarray, span: tuple[int, int, int], k: int) -> tuple[Array, Array]:
    """Steps before each save of a span and fractions, padded with saves that cost nothing."""
    start, end, size = span
    counts = np.zeros(size, np.int64)
    counts[: end - start] = np.diff(steps_at[start:end], prepend=k)
    fractions = np.ones(size, theta.dtype)
    fractions[: end - start] = theta[start:end]
    return counts, fractions


def _fixed(plan: Plan, dyn: Dynamics, x: Array, watched: bool, state: Any) -> Iterator[Piece]:
    from metastable.solve import steps

    steps_at, theta = grid(plan)
    stand, first = steps.Stepped(x, x, np.asarray(0)), 0
    if state is not None:
        stand = steps.Stepped(*(jnp.asarray(state[name]) for name in steps.Stepped._fields))
        first = int(state["next"])
    noisy = bool(np.any(np.asarray(plan.dynamics.noise) != 0))
    key = jax.random.key(plan.seed) if noisy else None
    between = bool((theta < 1).any())
    for span in spans(len(plan.times), watched, first):
        start, end, _ = span
        wanted = requests(steps_at, plan.number(theta), span, int(stand.k))
        stand, saved = steps.advance(dyn, stand, *wanted, plan.number(plan.dt), key, plan.method, noisy, between)
        yield Piece(start, np.asarray(saved)[: end - start], float(plan.times[end - 1]), stored(stand, end))


def _side_by_side(plan: Plan, x: np.ndarray, watched: bool, state: Any) -> Iterator[Piece]:
    """An ensemble whose runs go side by side in vector lanes."""
    from metastable.engines.lanes import batch as many

    dyn, steps_at, theta = plan.dynamics, *grid(plan)
    first, k, ends = (0, 0, np.stack([x, x])) if state is None else (state["next"], state["k"], state["ends"])
    ends = ends.reshape(2, -1, *x.shape[-2:])  # (2, B, n, d)
    maps = many.maps([dyn], x.shape[-1], np.broadcast_to(dyn.beta, x.shape[:-2]).ravel())
    sphere = dyn.geometry_name == "sphere"
    tableau = METHODS[plan.method].tableau.matrix()  # type: ignore[union-attr]
    ways = many.Scheme(plan.dt, tableau, *bounds(plan, x.shape[-2]), sphere, sphere and plan.method != "layers")
    for start, end, _ in spans(len(plan.times), watched, int(first)):
        ends, saved = many.advance(*maps, ends, np.diff(steps_at[start:end], prepend=k), theta[start:end], ways)
        k = steps_at[end - 1]
        kept = {"next": np.asarray(end), "k": np.asarray(k), "ends": ends.reshape(2, *x.shape)}
        yield Piece(start, saved.reshape(-1, *x.shape), float(plan.times[end - 1]), kept)


def bounds(plan: Plan, n: int) -> tuple[np.ndarray, np.ndarray]:
    low, high = interval(plan.dynamics.mask, n)
    return (np.zeros(n, np.int64), np.full(n, n)) if low is None else (low, high)


def stored(stand: Any, following: int) -> dict[str, np.ndarray]:
    return {"next": np.asarray(following), **{name: np.asarray(v) for name, v in stand._asdict().items()}}


# --- adaptive steps ---------------------------------------------------------------------------------------------


def asked(plan: Plan, t0: float, t1: float, first: int) -> tuple[int, np.ndarray]:
    """Where the saves of (t0, t1] end, and their times padded to 32, 256, 2048, ... (few shapes, few compilations)."""
    end = int(np.searchsorted(plan.times, t1 + 1e-12 * max(1.0, plan.t), side="right"))
    times = np.minimum(plan.times[first:end], t1)
    size = 32
    while size < len(times):
        size *= 8
    return end, np.concatenate([times, np.full(size - len(times), t1)])


def edges(plan: Plan) -> list[tuple[float, float]]:
    """The pieces of time of an adaptive run: eight even ones, whatever is saved."""
    ends = np.linspace(0.0, plan.t, 9) if plan.t > 0 else np.zeros(2)
    return list(zip(ends[:-1].tolist(), ends[1:].tolist()))


def _adaptive(plan: Plan, dyn: Dynamics, x: Array, state: Any) -> Iterator[Piece]:
    from metastable.solve import adaptive

    first, begin = 0, 0
    if state is not None:
        x, first, begin = jnp.asarray(state["x"], plan.dtype), int(state["next"]), int(state["edge"])
    elif plan.times[0] == 0.0:
        yield Piece(0, np.asarray(x)[None], 0.0, {"x": np.asarray(x), "next": np.asarray(1), "edge": np.asarray(0)})
        first = 1
    for edge, (t0, t1) in enumerate(edges(plan)):
        if edge < begin or first >= len(plan.times):
            continue
        end, times = asked(plan, t0, t1, first)
        numbers = (plan.number(v) for v in (t0, t1, times, plan.rtol, plan.atol))
        x, reached, saved, _ = adaptive.advance(dyn, x, *numbers, plan.method, MOST_STEPS)
        kept = {"x": np.asarray(x), "next": np.asarray(end), "edge": np.asarray(edge + 1)}
        piece = Piece(first, np.asarray(saved)[: end - first], float(reached), kept)
        yield piece if float(reached) >= plan.number(t1) else stalled(plan, piece)
        first = end


def stalled(plan: Plan, piece: Piece) -> Piece:
    """What an adaptive run has when it cannot go on: the saves before the time it reached."""
    times = plan.times[piece.first : piece.first + len(piece.x)]
    text = (
        f"{plan.method} could not go on past t = {piece.reached:.6g} at rtol = {plan.rtol:g} "
        f"(step below the smallest, or {MOST_STEPS} steps); what was reached is kept. Raise rtol or lower t."
    )
    return piece.cut(int((finite(piece.x) & (times <= piece.reached)).sum()), "stalled", text)
