"""Sessions take turns, and none of them holds all workers."""

import asyncio
import threading

import pytest

from metastable.explorer.computing import Cancelled, Ticket, Workshop
from metastable.explorer.fair_workers import FairWorkers

SOON = 5.0


class Jobs:
    """Jobs that note when they begin, and end when they are told."""

    def __init__(self, workers):
        self.workers, self.begun, self.ends, self.changed = workers, [], {}, threading.Condition()

    def submit(self, session, name):
        self.ends[name] = threading.Event()
        return self.workers.submit(session, lambda: self.run(name))

    def run(self, name):
        with self.changed:
            self.begun.append(name)
            self.changed.notify_all()
        assert self.ends[name].wait(SOON)
        return name

    def until(self, *names):
        with self.changed:
            assert self.changed.wait_for(lambda: self.begun == list(names), SOON), self.begun


@pytest.fixture
def workers():
    made = []

    def make(*how):
        made.append(FairWorkers(*how, "test"))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_session_holds_one_worker_and_another_is_served(workers):
    jobs = Jobs(workers(2, 1))
    heavy = [jobs.submit("a", f"a{k}") for k in range(3)]
    light = jobs.submit("b", "b0")
    jobs.until("a0", "b0")
    jobs.ends["b0"].set()
    assert light.result(SOON) == "b0"
    for k in range(3):
        jobs.ends[f"a{k}"].set()
    assert [one.result(SOON) for one in heavy] == ["a0", "a1", "a2"]


def test_sessions_take_turns(workers):
    jobs = Jobs(workers(1, 1))
    waiting = [jobs.submit(session, name) for session, name in (("a", "a0"), ("a", "a1"), ("a", "a2"), ("b", "b0"))]
    for end in jobs.ends.values():
        end.set()
    for one in waiting:
        one.result(SOON)
    assert jobs.begun == ["a0", "a1", "b0", "a2"]


def test_what_fails_fails_alone(workers):
    pool = workers(1, 1)

    def broken():
        raise KeyError("broken")

    with pytest.raises(KeyError):
        pool.submit("a", broken).result(SOON)
    assert pool.submit("a", lambda: 3).result(SOON) == 3
    assert not pool.busy
    assert not pool.waiting
    assert pool.free == 1


def in_a_loop(work):
    """A browser may keep an event loop in this thread."""
    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join(2 * SOON)
    assert not thread.is_alive()


async def still_there():
    return False


def test_a_server_that_stops_gives_up_its_work():
    workshop, ticket, begun, end = Workshop(), Ticket(), threading.Event(), threading.Event()

    async def stopped():
        task = asyncio.ensure_future(
            workshop.work(lambda: (begun.set(), end.wait(SOON)), False, ticket, still_there, "a")
        )
        while not begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        end.set()

    in_a_loop(stopped)
    assert ticket.gone
    workshop.close()


def test_a_request_nobody_waits_for_is_never_begun():
    """It waits behind a job of its own session; when its turn comes, it is over."""
    workshop, begun, end = Workshop(), [], threading.Event()

    async def left():
        return True

    async def both():
        first = asyncio.ensure_future(workshop.work(lambda: end.wait(SOON), False, Ticket(), still_there, "a"))
        ticket = Ticket()
        second = asyncio.ensure_future(workshop.work(lambda: begun.append(1), False, ticket, left, "a"))
        while not ticket.gone:
            await asyncio.sleep(0.01)
        end.set()
        assert await first
        with pytest.raises(Cancelled):
            await second

    in_a_loop(both)
    assert begun == []
    workshop.close()
