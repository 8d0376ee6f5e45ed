"""Runs of a sweep on a cluster of Dask that is there already."""

import hashlib
import logging
import pickle
import queue
import socket
import tempfile
import threading
import time
from asyncio import CancelledError as AsyncCancelledError
from collections import deque
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.extras import module_of
from rigidblocks.study.design import Design
from rigidblocks.study.freight import fmus_of, packed, with_fmus
from rigidblocks.study.threads import Hand, hand, of_each_thread, twice
from rigidblocks.study.work import Row, Work

LOG = logging.getLogger("rigidblocks")
_SECONDS = 1.0  # of work in a task
_AHEAD = 3  # tasks of each thread of the cluster, of which two wait
_PATIENCE = 10.0  # s that a scheduler gets to answer
_LOOK = 0.5  # s between two looks at whether the scheduler is there
_KEPT = 4  # sweeps that a worker has at hand


class Done(NamedTuple):
    """What a task did: its rows, and how long that took [s]."""

    rows: list[Row]
    seconds: float
    refusal: str = ""  # why the worker cannot have the system


def on_cluster(
    address: str, work: Work, design: Design, todo: list[int]
) -> Iterator[dict[int, Row]]:
    """The rows of the runs with these numbers as they come, from the cluster with a scheduler at
    this address, in tasks of about a second of work.

    An FMU goes to a worker once, by its hash. Raises ImportError without the package distributed,
    ConnectionError where there is no scheduler, or no more, and RuntimeError where a worker cannot
    have the system.
    """
    with ExitStack() as open_until_the_end:
        client = _client(address, open_until_the_end)
        tasks = _Tasks(client, work, design, todo)
        open_until_the_end.callback(tasks.close)
        yield from tasks.rows(address)


def _client(address: str, stack: ExitStack) -> Any:
    """The scheduler, which is left at the end; it says nothing by itself that errors say."""
    place = _place(address)
    distributed = module_of("cluster", "distributed", "a scheduler of Dask")
    _reach(address, place)
    stack.enter_context(
        _quiet("distributed", "distributed.client", "distributed.comm", "tornado", "asyncio")
    )
    try:
        client = distributed.Client(address, set_as_default=False, timeout=_PATIENCE)
    except OSError:
        raise ConnectionError(f"there is no scheduler of Dask at '{address}'") from None
    stack.callback(client.close, timeout=2)
    return client


def _place(address: str) -> tuple[str, int]:
    """The host and the port; raises ValueError for what is no address."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise ValueError(
            f"'{address}' is no address of a scheduler; write it as tcp://bench:8786"
        ) from None
    return host, port


def _reach(address: str, place: tuple[str, int]) -> None:
    """Raises ConnectionError where nobody listens."""
    try:
        socket.create_connection(place, _PATIENCE).close()
    except OSError as error:
        said = error.strerror or error
        raise ConnectionError(f"there is no scheduler of Dask at '{address}': {said}") from None


class _Tasks:
    """The tasks of a sweep: of how many runs each is, those that are under way, and those left."""

    def __init__(self, client: Any, work: Work, design: Design, todo: list[int]):
        self._client, self._work, self._design = client, work, design
        self._left = deque(todo)
        self._again = deque[list[int]]()  # of tasks that ended with their workers, run by run
        self._waiting: dict[Any, list[int]] = {}
        self._done = queue.Queue[Any]()
        self._size, self._total = 1.0, len(todo)
        self._count, self._looked, self._told = 0, -inf, False
        fmus = fmus_of(work.system)
        self._hashes = {name: sha for name, (sha, _) in fmus.items()}
        freight = packed((work, design.names, design.shapes, self._hashes))
        self._key = hashlib.sha256(freight).hexdigest()
        self._freight = self._sent(f"sweep-{self._key}", freight)
        paths = dict(fmus.values())
        self._fmus = {
            sha: self._sent(f"fmu-{sha}", path.read_bytes()) for sha, path in paths.items()
        }

    def _sent(self, name: str, data: bytes) -> Any:
        """Bytes by their name on the cluster, where each worker gets them once."""
        return self._client.submit(bytes, data, key=name)

    def rows(self, address: str) -> Iterator[dict[int, Row]]:
        """What is done, as it comes."""
        try:
            while self._left or self._again or self._waiting:
                self._fill(address)
                future = self._next()
                if future is not None and future.status == "cancelled":
                    break
                if future is not None:
                    yield from self._taken(future)
                elif self._client.status != "running":
                    break
            else:
                return
        except (OSError, TimeoutError, CancelledError, AsyncCancelledError):
            pass  # of a call just when it goes
        waiting = len(self._left) + sum(map(len, [*self._again, *self._waiting.values()]))
        raise ConnectionError(
            f"the scheduler at '{address}' has gone away, with {self._total - waiting} of "
            f"{self._total} runs done"
        )

    def _next(self) -> Any:
        """A task that has ended; None where none does for a while."""
        try:
            return self._done.get(timeout=_LOOK)
        except queue.Empty:
            return None

    def _threads(self, address: str) -> int:
        """How many runs the cluster does at once, looked at now and then; at least 1."""
        now = time.monotonic()
        if now > self._looked + 2 * _LOOK:
            self._count, self._looked = sum(self._client.nthreads().values()), now
            if not self._count and not self._told:
                LOG.warning("the cluster at %s has no workers yet; waiting for them", address)
                self._told = True
        return max(1, self._count)

    def close(self) -> None:
        """Takes back what is not begun."""
        if self._client.status == "running":
            with suppress(Exception):  # of a scheduler that goes just now
                self._client.cancel([*self._waiting])

    def _fill(self, address: str) -> None:
        """Sends as many tasks as the cluster has use for."""
        threads = self._threads(address)
        while len(self._waiting) < _AHEAD * threads and (self._left or self._again):
            share = -(-len(self._left) // (_AHEAD * threads))  # so that all have some to the end
            count = min(int(self._size) or 1, max(1, share))
            runs = (
                self._again.popleft()
                if self._again
                else [self._left.popleft() for _ in range(min(count, len(self._left)))]
            )
            given = (self._key, self._freight, self._fmus, self._design.table[runs])
            future = self._client.submit(task, *given, pure=False)
            self._waiting[future] = runs
            future.add_done_callback(self._done.put)

    def _taken(self, future: Any) -> Iterator[dict[int, Row]]:
        """The rows of a task; one whose worker ended is taken again, run by run."""
        runs, error = self._waiting[future], future.exception()
        if isinstance(error, CancelledError):
            raise error
        done: Done = Done([], 0.0) if error else future.result()
        del self._waiting[future]  # behind what fails when the scheduler goes
        if error is None:
            if done.refusal:
                raise RuntimeError(f"a worker cannot run this system: {done.refusal}")
            each = max(done.seconds / len(runs), 1e-6)
            self._size = min(2 * self._size + 1, _SECONDS / each)
            yield dict(zip(runs, done.rows, strict=True))
        elif len(runs) > 1:
            self._again.extend([k] for k in runs)
        else:
            yield {runs[0]: self._work.failed(error)}


def task(key: str, freight: bytes, fmus: dict[str, bytes], table: Array) -> Done:
    """The rows of the runs with these numbers (n, numbers), on a worker."""
    begin = time.perf_counter()
    try:
        one = _hand(key, freight, fmus)
    except Exception as error:
        return Done([], 0.0, " ".join(f"{type(error).__name__}: {error}".split()))
    begin = time.perf_counter()
    rows = [twice(one, numbers) for numbers in table]
    return Done(rows, time.perf_counter() - begin)


_HANDS: dict[str, Hand] = {}  # by the keys of sweeps, in a worker
_LOCK = threading.Lock()


def _hand(key: str, freight: bytes, fmus: dict[str, bytes]) -> Hand:
    """What does the runs of a sweep; prepared once in each worker."""
    with _LOCK:
        if key not in _HANDS:
            while len(_HANDS) >= _KEPT:
                del _HANDS[next(iter(_HANDS))]
            _HANDS[key] = _made(freight, fmus)
        return _HANDS[key]


def _made(freight: bytes, fmus: dict[str, bytes]) -> Hand:
    work, names, shapes, hashes = pickle.loads(freight)
    with_fmus(work.system, hashes, fmus, _folder())
    wiring = work.system.wiring()
    design = Design(names, shapes, np.zeros((1, sum(map(int, map(np.prod, shapes))))))

    def make() -> Hand:
        return hand(work, wiring, design, work.prepared())

    return of_each_thread(make, make())


@cache
def _folder() -> Path:
    """Where a worker has FMUs as files, as long as it lives."""
    folder = tempfile.TemporaryDirectory(prefix="rigidblocks-fmus-")
    _FOLDERS.append(folder)
    return Path(folder.name)


_FOLDERS: list[Any] = []


@contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Takes what these loggers say below their loudest away."""
    before = {name: logging.getLogger(name).level for name in names}
    try:
        for name in names:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
