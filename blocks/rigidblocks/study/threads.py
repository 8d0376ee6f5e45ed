"""Runs of a sweep on all processors of this machine, each in a thread."""

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.run import Run
from rigidblocks.study.design import Design
from rigidblocks.study.work import Row, Work, started
from rigidblocks.system.wiring import Wiring

Hand = Callable[[Array], Row]  # what does a run with the numbers of a design
_AHEAD = 4  # runs of each thread that wait to be taken


def hand(work: Work, wiring: Wiring, design: Design, run: Run) -> Hand:
    """What does runs in this process, with a prepared one."""

    def one(numbers: Array) -> Row:
        try:
            return work.measured(work.result(run, started(wiring, design, numbers)))
        except Exception as error:
            return work.failed(error)

    return one


def twice(one: Hand, numbers: Array) -> Row:
    """A run, which is taken once more where it fails."""
    row = one(numbers)
    return one(numbers) if row.error else row


def of_each_thread(make: Callable[[], Hand], *spare: Hand) -> Hand:
    """A hand that is another one in each thread; the spare ones are taken first."""
    local, left, lock = threading.local(), list(spare), threading.Lock()

    def one(numbers: Array) -> Row:
        if not hasattr(local, "hand"):
            with lock:
                local.hand = left.pop() if left else make()
        row: Row = local.hand(numbers)
        return row

    return one


def in_threads(
    one: Callable[[int], Row], todo: list[int], count: int, end: Callable[[], None]
) -> Iterator[dict[int, Row]]:
    """The rows of the runs with these numbers as they come, of so many at once; only so many
    wait that memory does not grow with them. `end` is called where it ends before it is done.
    """
    left = iter(todo)
    with ThreadPoolExecutor(count) as pool:
        try:
            waiting: dict[Future[Row], int] = {
                pool.submit(one, k): k for k in itertools.islice(left, _AHEAD * count)
            }
            while waiting:
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                yield {waiting.pop(future): future.result() for future in done}
                for k in itertools.islice(left, len(done)):
                    waiting[pool.submit(one, k)] = k
        except BaseException:
            end()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
