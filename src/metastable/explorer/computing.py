"""Runs for the explorer: made off the event loop, kept for a while, given up when nobody waits for them."""

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from metastable.config.job import build
from metastable.errors import InputError
from metastable.explorer.fair_workers import FairWorkers
from metastable.explorer.steering import DEFAULTS, State, moved_of, settings_of, to_query, work_of
from metastable.solve.driver import drive
from metastable.solve.simulate import collect
from metastable.trajectory import Trajectory

KEPT = 24  # runs that are remembered
KEPT_BYTES = 400 * 2**20
QUICK = 3e8  # what takes less (see `work_of`) has workers of its own
T = TypeVar("T")


class Cancelled(Exception):
    """Nobody waits for this any more."""


@dataclass
class Ticket:
    """A request in progress: ``cancel`` it from anywhere, ``check`` it while computing."""

    gone: bool = False

    def cancel(self) -> None:
        """Nobody waits any more."""
        self.gone = True

    def check(self, *_: Any) -> None:
        """Raise where nobody waits any more."""
        if self.gone:
            raise Cancelled


@dataclass(frozen=True)
class Made:
    """A run and the state it was made from."""

    state: State
    run: Trajectory
    seconds: float


def make(state: State, ticket: Ticket | None = None) -> Made:
    """Compute the run of a state, in the calling thread."""
    ticket = ticket or Ticket()
    began = time.perf_counter()
    job = build(settings_of(state))
    x = _with_moved(np.array(job.x), state, job.plan.model.geometry.fixed_norm)
    segments = []
    for segment in drive(job.plan, x, None, reported=not quick(state)):
        segments.append(replace(segment, state={}))
        ticket.check()
    return Made(state, collect(job.plan, segments), time.perf_counter() - began)


def _with_moved(x: np.ndarray, state: State, unit: bool) -> np.ndarray:
    """Tokens (1, n, d) with those that were moved by hand."""
    for token, values in moved_of(state.get("moved", "")).items():
        if not 0 <= token < x.shape[-2] or len(values) != x.shape[-1] or not np.isfinite(values).all():
            raise InputError(
                f"A moved token needs a number below n = {x.shape[-2]} and d = {x.shape[-1]} coordinates, not {token} "
                f"with {len(values)}."
            )
        place = np.asarray(values)
        if unit and not place.any():
            raise InputError(f"The moved token {token} has no direction, so it cannot be put on the sphere.")
        place = place / np.abs(place).max() if unit else place  # the square of a huge number overflows
        x[..., token, :] = place / np.linalg.norm(place) if unit else place
    return x


def quick(state: State, runs: int = 1) -> bool:
    """Whether a run, or so many of them, takes well under a second."""
    full = {**DEFAULTS, **state}
    model = any(str(full[name]).startswith("model:") for name in ("Q", "K", "V"))
    return not model and work_of(full, runs) < QUICK and full["n"] <= 600


class Workshop:
    """Runs by their links: computed once, in workers.

    A heavy run never stands in front of a quick one, and a session has one heavy job at work at a time.
    """

    def __init__(self) -> None:
        self.light = FairWorkers(3, 2, "explorer-quick")
        self.heavy = FairWorkers(2, 1, "explorer-heavy")
        self.kept: OrderedDict[str, Made] = OrderedDict()
        self.making: dict[str, threading.Lock] = {}
        self.lock = threading.Lock()

    def get(self, state: State, ticket: Ticket) -> Made:
        """The run of a state, from memory or computed now (in the calling thread, once for all who ask)."""
        key = to_query(state)
        with self.lock:
            if key in self.kept:
                self.kept.move_to_end(key)
                return self.kept[key]
            gate = self.making.setdefault(key, threading.Lock())
        with gate:
            try:
                return self._made(key, state, ticket)
            finally:  # also after an error, and when nobody waits any more: gates do not pile up
                with self.lock:
                    self.making.pop(key, None)

    def _made(self, key: str, state: State, ticket: Ticket) -> Made:
        ticket.check()
        with self.lock:
            if key in self.kept:
                return self.kept[key]
        made = make(state, ticket)
        with self.lock:
            self.kept[key] = made
            while len(self.kept) > 1 and (len(self.kept) > KEPT or self._bytes() > KEPT_BYTES):
                self.kept.popitem(last=False)
        return made

    def _bytes(self) -> int:
        return sum(made.run.x.nbytes for made in self.kept.values())

    async def work(
        self, function: Callable[[], T], light: bool, ticket: Ticket, gone: Callable[[], Any], session: str
    ) -> T:
        """``function()`` in a worker; given up when ``await gone()`` says that nobody waits any more."""

        def unless_gone() -> T:
            ticket.check()
            return function()

        future = asyncio.wrap_future((self.light if light else self.heavy).submit(session, unless_gone))
        try:
            while not (await asyncio.wait({future}, timeout=0.3))[0]:
                if await gone():
                    ticket.cancel()
            return future.result()
        except asyncio.CancelledError:  # the server stops
            ticket.cancel()
            raise

    def close(self) -> None:
        """Stop taking work."""
        for pool in (self.light, self.heavy):
            pool.close()
