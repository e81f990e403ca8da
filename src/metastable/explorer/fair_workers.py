"""Workers that sessions share: they are served in turn, and none of them holds all workers."""

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


class FairWorkers:
    """Threads for the jobs of many sessions.

    A session has at most ``each`` jobs at work; of those that wait, sessions take turns, whoever asked first.
    """

    def __init__(self, workers: int, each: int, name: str) -> None:
        self.pool = ThreadPoolExecutor(workers, thread_name_prefix=name)
        self.each, self.free = each, workers
        self.busy: Counter[str] = Counter()
        self.waiting: OrderedDict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = OrderedDict()
        self.lock = threading.Lock()

    def submit(self, session: str, function: Callable[[], T]) -> Future[T]:
        """The future of ``function()``, computed when it is this session's turn."""
        future: Future[T] = Future()
        with self.lock:
            self.waiting.setdefault(session, deque()).append((future, function))
            self._start()
        return future

    def _start(self) -> None:
        """Give free workers to sessions in turn; the lock is held."""
        while self.free:
            session = next((one for one in self.waiting if self.busy[one] < self.each), None)
            if session is None:
                return
            queue = self.waiting[session]
            future, function = queue.popleft()
            if queue:
                self.waiting.move_to_end(session)
            else:
                del self.waiting[session]
            if future.set_running_or_notify_cancel():
                self.free -= 1
                self.busy[session] += 1
                self.pool.submit(self._run, session, future, function)

    def _run(self, session: str, future: Future[Any], function: Callable[[], Any]) -> None:
        found, error = None, None
        try:
            found = function()
        except BaseException as one:  # whatever it is, it belongs to who waits for the future
            error = one
        with self.lock:
            self.free += 1
            self.busy[session] -= 1
            self.busy += Counter()  # sessions without jobs are forgotten
            self._start()
        future.set_exception(error) if error else future.set_result(found)

    def close(self) -> None:
        """Take no more work, and drop what waits."""
        with self.lock:
            waiting = [future for queue in self.waiting.values() for future, _ in queue]
            self.waiting.clear()
        for future in waiting:
            future.cancel()
        self.pool.shutdown(wait=False, cancel_futures=True)
