"""Runs of a sweep on all processors of this machine, each in a thread."""

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
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
    some: Callable[[tuple[int, ...]], dict[int, Row]],
    parts: Iterable[tuple[int, ...]],
    count: int,
    end: Callable[[], None],
) -> Iterator[dict[int, Row]]:
    """The rows of parts of the runs as they come, of so many parts at once; only so many wait that
    memory does not grow with them. `end` is called where it ends before it is done.
    """
    left = iter(parts)
    with ThreadPoolExecutor(count) as pool:
        try:
            waiting: set[Future[dict[int, Row]]] = {
                pool.submit(some, runs) for runs in itertools.islice(left, _AHEAD * count)
            }
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield {k: row for future in done for k, row in future.result().items()}
                waiting |= {pool.submit(some, runs) for runs in itertools.islice(left, len(done))}
        except BaseException:
            end()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
