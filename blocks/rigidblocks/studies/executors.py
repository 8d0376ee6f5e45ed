"""Executors of a sweep: threads, child processes, a Dask cluster, and SIMD lanes.

Threads run compiled systems. Child processes run systems that hold Python's global interpreter
lock. SIMD lanes run several copies of a fused system with fixed step size in parallel.

The parent process and a child process communicate over a pipe. The first message is the module
search path, the second message is the task. Each further request contains the parameter values of
one run. The reply contains the measures, or the result if the parent computes the measures. The
child process does not execute the user's main program.
"""

import hashlib
import itertools
import logging
import os
import pickle
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from asyncio import CancelledError as AsyncCancelledError
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from math import inf
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from rigidblocks.common.arrays import Array
from rigidblocks.common.optional_imports import module_of
from rigidblocks.cosim.batch_simulation import Batch, BatchResult
from rigidblocks.cosim.diagnosis import block_remarks, has_remarks
from rigidblocks.cosim.graph.fmu_part import Fmu
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.cosim.graph.remote_fmu import RemoteFile
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.cosim.prepare import Run
from rigidblocks.cosim.results.recording import select_ports
from rigidblocks.cosim.results.result import Result
from rigidblocks.cosim.run_options import communication_points
from rigidblocks.cosim.signal_handling import exit_with_parent
from rigidblocks.studies.experiment_design import Design
from rigidblocks.studies.run_task import Row, Task, run_start_values, signal_of

LOG = logging.getLogger("rigidblocks")
_TASKS_AHEAD = 4  # queued tasks per thread
_GRACE = 5.0  # timeout for the exit of a child process [s]
_SECONDS = 1.0  # target computing time of a task on a cluster [s]
_CLUSTER_TASKS_AHEAD = 3  # submitted tasks per cluster thread: one runs and two are queued
_PATIENCE = 10.0  # timeout for connecting to a scheduler [s]
_LOOK = 0.5  # time between two checks of the connection to the scheduler [s]
_KEPT = 4  # number of prepared sweeps that a Dask worker caches
_WORTH = (
    5_000_000  # smallest total number of steps for which SIMD lanes are compiled; found by trial
)
_ROOM = 8_000_000  # maximum number of recorded values per call of the compiled loop
_MOST = 64  # maximum number of runs per call of the compiled loop
_SHARES = 4  # minimum number of calls per thread, so that all threads finish at a similar time
Worker = Callable[[Array], Row]  # function that simulates one run with given parameter values
Rows = dict[int, Row]


def pickle_system(system: Any) -> bytes:
    """Serialize an object for `pickle.loads`.

    The function uses cloudpickle if it is installed. cloudpickle also supports functions and
    classes of the user's program.

    Raises:
        ValueError: The object cannot be serialized.
    """
    try:
        pack: Any = import_module("cloudpickle")
    except ImportError:
        pack = pickle
    try:
        data: bytes = pack.dumps(system)
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise ValueError(f"cannot send this system to another process: {error}") from None
    return data


def fmus_of(system: System) -> dict[str, tuple[str, Path]]:
    """Map each part with a local FMU to the hash and the path of its FMU.

    FMUs on a server are omitted.
    """
    found, known = {}, dict[Path, str]()
    for name, part in system.parts.items():
        if isinstance(part.component, Fmu) and not isinstance(part.component.path, RemoteFile):
            path = Path(part.component.path)
            if path not in known:
                known[path] = hashlib.sha256(path.read_bytes()).hexdigest()
            found[name] = known[path], path
    return found


def write_fmus(
    system: System, hashes: Mapping[str, str], fmus: Mapping[str, bytes], folder: Path
) -> None:
    """Write FMUs to files with hashes as names; set the FMU paths of the parts to these files."""
    for name, sha in hashes.items():
        path = folder / f"{sha}.fmu"
        if not path.exists():
            path.write_bytes(fmus[sha])
        part = system.parts[name]
        assert isinstance(part.component, Fmu)
        system.parts[name] = replace(part, component=replace(part.component, path=path))


def make_worker(work: Task, wiring: Wiring, design: Design, run: Run) -> Worker:
    """Return a worker: a function that simulates one run with the prepared system `run`."""

    def simulate_run(numbers: Array) -> Row:
        try:
            return work.measure_result(work.result(run, run_start_values(wiring, design, numbers)))
        except Exception as error:
            return work.failure_record(error)

    return simulate_run


def run_with_retry(worker: Worker, numbers: Array) -> Row:
    """Simulate a run with the parameter values `numbers`; repeat it once if it fails."""
    row = worker(numbers)
    return worker(numbers) if row.error else row


def thread_local_worker(make: Callable[[], Worker], *spare: Worker) -> Worker:
    """Return a worker that passes each run to the worker of the calling thread.

    A thread takes its worker from `spare`, or calls `make` if `spare` is empty.
    """
    local, left, lock = threading.local(), list(spare), threading.Lock()

    def simulate_run(numbers: Array) -> Row:
        if not hasattr(local, "worker"):
            with lock:
                local.worker = left.pop() if left else make()
        row: Row = local.worker(numbers)
        return row

    return simulate_run


def run_in_threads(
    do_runs: Callable[[tuple[int, ...]], dict[int, Row]],
    groups: Iterable[tuple[int, ...]],
    count: int,
    end: Callable[[], None],
) -> Iterator[dict[int, Row]]:
    """Execute groups of runs in `count` threads, and yield the measures of each finished group.

    A group is a tuple of run indices. `do_runs` simulates a group and returns its measures by run
    index. The number of queued groups is bounded, so memory use does not grow with the number of
    groups. If the iteration ends early, the function calls `end`.
    """
    left = iter(groups)
    with ThreadPoolExecutor(count) as pool:
        try:
            waiting: set[Future[dict[int, Row]]] = {
                pool.submit(do_runs, runs) for runs in itertools.islice(left, _TASKS_AHEAD * count)
            }
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield {k: row for future in done for k, row in future.result().items()}
                waiting |= {
                    pool.submit(do_runs, runs) for runs in itertools.islice(left, len(done))
                }
        except BaseException:
            end()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def has_python_fmu(wiring: Wiring) -> bool:
    """Return True if an FMU runs Python in this process; threads then cannot run in parallel."""
    return any(
        isinstance(part.component, Fmu) and not part.isolated and part.component.is_python
        for part in wiring.parts.values()
    )


class Child:
    """Child process that simulates runs of a sweep.

    If the process dies, the current run fails, and the next run starts a new process.
    """

    def __init__(self, work: Task, design: Design):
        by_name = all(isinstance(one, str) for one in work.measures.values())
        self._work = work
        there = work if by_name else replace(work, measures={})
        self._payload = pickle_system((there, design, by_name))
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._closed = False

    def __call__(self, numbers: Array) -> Row:
        """Simulate a run with the parameter values `numbers` in the child process."""
        try:
            if self._pipe is None:
                self._begin()
            assert self._pipe is not None
            self._pipe.send(numbers)
            answer: Row | Result = self._pipe.recv()
            return answer if isinstance(answer, Row) else self._work.measure_result(answer)
        except (EOFError, OSError):
            return self._work.failure_record(RuntimeError(self._exit_text()))
        except Exception as error:
            return self._work.failure_record(error)

    def stop(self) -> None:
        """Kill the process, even during a run, and prevent the start of a new process."""
        self._closed = True
        if (process := self._process) is not None:
            process.kill()

    def close(self) -> None:
        """End the process, which must be idle, and release its resources."""
        self.stop()
        if self._process is not None:
            self._process.wait()
        if self._pipe is not None:
            self._pipe.close()
        self._pipe = self._process = None

    def _begin(self) -> None:
        if self._closed:
            raise RuntimeError("the sweep has ended")
        self._pipe, theirs = Pipe()
        command = [
            sys.executable,
            "-m",
            "rigidblocks.studies.executors",
            str(theirs.fileno()),
        ]
        with theirs:
            self._process = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
        if self._closed:
            self._process.kill()
        self._pipe.send(sys.path)
        self._pipe.send_bytes(self._payload)
        if (said := self._pipe.recv()) is not None:
            raise RuntimeError(f"a child process cannot run this system: {said}")

    def _exit_text(self) -> str:
        """Wait until the child process has ended; return its exit code or signal as a message."""
        assert self._process is not None
        assert self._pipe is not None
        self._pipe.close()
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._pipe = self._process = None
        if code < 0:
            return f"its process was ended by signal {-code} ({signal.strsignal(-code)})"
        return f"its process ended with exit code {code}"


def serve(pipe: Connection) -> None:
    """Simulate the runs that the parent process requests, until the parent closes the pipe."""
    try:
        sys.path[:] = pipe.recv()
        work, design, by_name = pickle.loads(pipe.recv_bytes())
        wiring, run = work.system.wiring(), work.prepare_run()
    except Exception as error:
        pipe.send(" ".join(f"{type(error).__name__}: {error}".split()))
        return
    pipe.send(None)
    while True:
        try:
            numbers: Array = pipe.recv()
        except EOFError:
            return
        try:
            result = work.result(run, run_start_values(wiring, design, numbers))
            answer: Row | Result = work.measure_result(result) if by_name else result
        except Exception as error:
            answer = work.failure_record(error)
        pipe.send(answer)


class TaskResult(NamedTuple):
    """Measures (`rows`) and computing time [s] of a task, or the reason why it cannot run."""

    rows: list[Row]
    seconds: float
    refusal: str = ""  # error message if the worker could not load the system


def run_on_cluster(
    address: str, work: Task, design: Design, todo: list[int]
) -> Iterator[dict[int, Row]]:
    """Simulate the runs `todo` on a Dask cluster, and yield the measures of finished runs.

    The runs are grouped into tasks of about one second of computing time. Each worker receives each
    FMU once, identified by its hash.

    Args:
        address: Address of the scheduler.
        work: Runs and measures of the sweep.
        design: Values of the varied parameters.
        todo: Indices of the runs.

    Raises:
        ImportError: The package distributed is not installed.
        ConnectionError: The scheduler does not exist, or the connection is lost.
        RuntimeError: A worker cannot load the system.
    """
    with ExitStack() as open_until_the_end:
        client = _client(address, open_until_the_end)
        tasks = _Tasks(client, work, design, todo)
        open_until_the_end.callback(tasks.close)
        yield from tasks.rows(address)


def _client(address: str, stack: ExitStack) -> Any:
    """Return a Dask client that stays connected until `stack` closes."""
    place = _host_and_port(address)
    distributed = module_of("distributed", "a scheduler of Dask")
    _check_listening(address, place)
    stack.enter_context(
        _suppressed_logs(
            "distributed", "distributed.client", "distributed.comm", "tornado", "asyncio"
        )
    )
    try:
        client = distributed.Client(address, set_as_default=False, timeout=_PATIENCE)
    except OSError:
        raise ConnectionError(f"no Dask scheduler answers at '{address}'") from None
    stack.callback(client.close, timeout=2)
    return client


def _host_and_port(address: str) -> tuple[str, int]:
    """Split an address into host and port; raise ValueError for an invalid address."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise ValueError(
            f"invalid scheduler address '{address}'; write it as tcp://bench:8786"
        ) from None
    return host, port


def _check_listening(address: str, host_and_port: tuple[str, int]) -> None:
    """Raise ConnectionError if no server listens at `host_and_port`, the parts of `address`."""
    try:
        socket.create_connection(host_and_port, _PATIENCE).close()
    except OSError as error:
        said = error.strerror or error
        raise ConnectionError(f"no Dask scheduler answers at '{address}': {said}") from None


class _Tasks:
    """Task queue of a sweep on a Dask cluster.

    The queue adapts the number of runs per task to the measured computing time. If a worker dies,
    the queue resubmits the runs of the lost tasks.
    """

    def __init__(self, client: Any, work: Task, design: Design, todo: list[int]):
        self._client, self._work, self._design = client, work, design
        self._left = deque(todo)
        self._again = deque[list[int]]()  # runs to repeat, because their worker has ended
        self._waiting: dict[Any, list[int]] = {}
        self._done = queue.Queue[Any]()
        self._size, self._total = 1.0, len(todo)
        self._count, self._looked, self._told = 0, -inf, False
        fmus = fmus_of(work.system)
        self._hashes = {name: sha for name, (sha, _) in fmus.items()}
        payload = pickle_system((work, design.names, design.shapes, self._hashes))
        self._key = hashlib.sha256(payload).hexdigest()
        self._payload = self._send_data(f"sweep-{self._key}", payload)
        paths = dict(fmus.values())
        self._fmus = {
            sha: self._send_data(f"fmu-{sha}", path.read_bytes()) for sha, path in paths.items()
        }

    def _send_data(self, name: str, data: bytes) -> Any:
        """Send data to the cluster under a name; each worker process receives the data once."""
        return self._client.submit(bytes, data, key=name)

    def rows(self, address: str) -> Iterator[dict[int, Row]]:
        """Submit all tasks, and yield the measures of each finished task."""
        try:
            while self._left or self._again or self._waiting:
                self._fill(address)
                future = self._next_finished()
                if future is not None and future.status == "cancelled":
                    break
                if future is not None:
                    yield from self._task_rows(future)
                elif self._client.status != "running":
                    break
            else:
                return
        except (OSError, TimeoutError, CancelledError, AsyncCancelledError):
            pass  # a call lost the connection to the scheduler
        waiting = len(self._left) + sum(map(len, [*self._again, *self._waiting.values()]))
        raise ConnectionError(
            f"lost the connection to the scheduler at '{address}' after {self._total - waiting} "
            f"of {self._total} runs"
        )

    def _next_finished(self) -> Any:
        """Wait for the next finished task and return it; return None after the timeout."""
        try:
            return self._done.get(timeout=_LOOK)
        except queue.Empty:
            return None

    def _threads(self, address: str) -> int:
        """Return the number of threads of the cluster, at least 1; update it periodically."""
        now = time.monotonic()
        if now > self._looked + 2 * _LOOK:
            self._count, self._looked = sum(self._client.nthreads().values()), now
            if not self._count and not self._told:
                LOG.warning("the cluster at %s has no workers yet; waiting for them", address)
                self._told = True
        return max(1, self._count)

    def close(self) -> None:
        """Cancel the submitted tasks."""
        if self._client.status == "running":
            with suppress(Exception):  # the scheduler may be unreachable
                self._client.cancel([*self._waiting])

    def _fill(self, address: str) -> None:
        """Submit tasks until the cluster has `_CLUSTER_TASKS_AHEAD` unfinished tasks per thread."""
        threads = self._threads(address)
        while len(self._waiting) < _CLUSTER_TASKS_AHEAD * threads and (self._left or self._again):
            share = -(
                -len(self._left) // (_CLUSTER_TASKS_AHEAD * threads)
            )  # smaller tasks at the end of the sweep keep all threads busy
            count = min(int(self._size) or 1, max(1, share))
            runs = (
                self._again.popleft()
                if self._again
                else [self._left.popleft() for _ in range(min(count, len(self._left)))]
            )
            given = (self._key, self._payload, self._fmus, self._design.table[runs])
            future = self._client.submit(task, *given, pure=False)
            self._waiting[future] = runs
            future.add_done_callback(self._done.put)

    def _task_rows(self, future: Any) -> Iterator[dict[int, Row]]:
        """Yield the measures of a finished task; if the worker has died, queue the runs again."""
        runs, error = self._waiting[future], future.exception()
        if isinstance(error, CancelledError):
            raise error
        done: TaskResult = TaskResult([], 0.0) if error else future.result()
        del self._waiting[future]  # last: if the connection is lost, the calls above raise
        if error is None:
            if done.refusal:
                raise RuntimeError(f"a worker cannot run this system: {done.refusal}")
            each = max(done.seconds / len(runs), 1e-6)
            self._size = min(2 * self._size + 1, _SECONDS / each)
            yield dict(zip(runs, done.rows, strict=True))
        elif len(runs) > 1:
            self._again.extend([k] for k in runs)
        else:
            yield {runs[0]: self._work.failure_record(error)}


def task(key: str, payload: bytes, fmus: dict[str, bytes], table: Array) -> TaskResult:
    """Simulate runs on a Dask worker; return the measures, or the reason why they cannot run.

    Args:
        key: Key of the sweep. The Dask worker keeps the loaded system of each recent key.
        payload: Pickled task of the sweep (bytes).
        fmus: Contents of the FMU files (bytes) by hash.
        table: Parameter values (runs, elements) of the runs.
    """
    begin = time.perf_counter()
    try:
        one = _cached_worker(key, payload, fmus)
    except Exception as error:
        return TaskResult([], 0.0, " ".join(f"{type(error).__name__}: {error}".split()))
    begin = time.perf_counter()
    rows = [run_with_retry(one, numbers) for numbers in table]
    return TaskResult(rows, time.perf_counter() - begin)


_WORKERS: dict[str, Worker] = {}  # cache of a Dask worker, by sweep key
_LOCK = threading.Lock()


def _cached_worker(key: str, payload: bytes, fmus: dict[str, bytes]) -> Worker:
    """Return the cached worker of the sweep `key`; create it if it is not in the cache."""
    with _LOCK:
        if key not in _WORKERS:
            while len(_WORKERS) >= _KEPT:
                del _WORKERS[next(iter(_WORKERS))]
            _WORKERS[key] = _make_worker(payload, fmus)
        return _WORKERS[key]


def _make_worker(payload: bytes, fmus: dict[str, bytes]) -> Worker:
    work, names, shapes, hashes = pickle.loads(payload)
    write_fmus(work.system, hashes, fmus, _folder())
    wiring = work.system.wiring()
    design = Design(names, shapes, np.zeros((1, sum(map(int, map(np.prod, shapes))))))

    def make() -> Worker:
        return make_worker(work, wiring, design, work.prepare_run())

    return thread_local_worker(make, make())


@cache
def _folder() -> Path:
    """Create a temporary folder for the FMU files of a Dask worker, and return its path."""
    folder = tempfile.TemporaryDirectory(prefix="rigidblocks-fmus-")
    _FOLDERS.append(folder)
    return Path(folder.name)


_FOLDERS: list[Any] = []


@contextmanager
def _suppressed_logs(*names: str) -> Iterator[None]:
    """Suppress the messages of the named loggers within this context."""
    before = {name: logging.getLogger(name).level for name in names}
    try:
        for name in names:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


class Lanes:
    """Executor that simulates runs of a sweep in parallel SIMD lanes.

    The results equal the results of single runs, except for rounding errors. A run that cannot
    start in a lane, or fails in a lane, is repeated as a single run.
    """

    def __init__(
        self, work: Task, wiring: Wiring, design: Design, batch: Batch, meta: dict[str, str]
    ):
        self._work, self._wiring, self._design = work, wiring, design
        self._batch, self._meta = batch, meta
        self._rows = communication_points(_t_start(work), work.t_stop, work.dt).n + 1
        self._says = has_remarks(wiring)

    @property
    def max_runs(self) -> int:
        """Maximum number of runs per call, a multiple of the number of lanes.

        The value is 0 if the recorded values of one run per lane need too much memory.
        """
        lanes, kept = self._batch.lanes, max(1, self._batch.width) * self._rows
        return lanes * min(_MOST // lanes, _ROOM // (kept * lanes))

    def groups(self, todo: list[int], threads: int) -> Iterator[tuple[int, ...]]:
        """Yield groups of runs; the first group is a single run, which detects errors early."""
        if todo:
            yield (todo[0],)
        lanes = self._batch.lanes
        share = -(-len(todo) // (lanes * threads * _SHARES)) * lanes
        size = max(lanes, min(self.max_runs, share))
        for k in range(1, len(todo), size):
            yield tuple(todo[k : k + size])

    def __call__(self, runs: tuple[int, ...], run_one: Callable[[int], Row]) -> Rows:
        """Simulate `runs` in lanes; return the measures of each run by run index.

        `run_one` simulates a run that cannot start in a lane or fails in a lane.
        """
        if len(runs) == 1:
            return {runs[0]: run_one(runs[0])}
        try:
            result = self._batch.simulate(
                self._work.t_stop, self._starts(runs), _t_start(self._work), threads=1
            )
        except (KeyError, TypeError, ValueError):  # invalid start values: simulate single runs
            return {k: run_one(k) for k in runs}
        found = {k: self._row(result, at) for at, k in enumerate(runs)}
        return {k: run_one(k) if row is None else row for k, row in found.items()}

    def _starts(self, runs: tuple[int, ...]) -> dict[str, Any]:
        each = [run_start_values(self._wiring, self._design, self._design.table[k]) for k in runs]
        return {name: np.stack([np.asarray(one[name]) for one in each]) for name in each[0]}

    def _row(self, batch: BatchResult, at: int) -> Row | None:
        """Return the measures of the run with index `at` in a batch, or None if the run failed.

        The result is also None if a measure cannot be computed.
        """
        if not np.isnan(batch.failed[at]):
            return None
        result = Result(batch.time, batch.ports, batch.values[at], self._meta)
        if self._says:
            for level, message in block_remarks(self._wiring, result):
                LOG.log(level, message)
        try:
            return self._work.measure_result(result)
        except Exception:
            return None


def simd_executor(
    work: Task, wiring: Wiring, design: Design, run: Run, count: int, lanes: int | None
) -> Lanes | None:
    """Return the SIMD executor for `count` runs of a sweep, or None to simulate without SIMD.

    If `lanes` is None, the executor has the default number of lanes. The result is then None if the
    sweep has too few steps or does not support SIMD. For one lane, the result is also None.

    Raises ValueError with the reason if the sweep does not support the given number of lanes.
    """
    steps = communication_points(_t_start(work), work.t_stop, work.dt).n
    if lanes == 1 or (lanes is None and count * steps < _WORTH):
        return None
    try:
        return _prepare_lanes(work, wiring, design, run, lanes)
    except ValueError:
        if lanes is not None:
            raise
        return None


def _prepare_lanes(
    work: Task, wiring: Wiring, design: Design, run: Run, lanes: int | None
) -> Lanes:
    """Prepare the SIMD executor; raise ValueError if the sweep does not support SIMD lanes."""
    plan = run.plan
    if plan.form != "fused":
        raise ValueError(
            f"SIMD lanes require a fused system; this system runs in the form '{plan.form}'"
        )
    if work.scenario is not None:
        raise ValueError("SIMD lanes do not support scenarios")
    block = FusedSystem(plan.wiring, plan.dt, plan.order)
    every = work.options.get("every", 1)
    batch = Batch(block, plan.dt, _recorded_patterns(work, wiring), every, lanes)
    for name in run_start_values(wiring, design, design.table[0]):
        if name not in batch.settable:
            raise ValueError(f"the start value of '{name}' cannot differ between SIMD lanes")
    made = Lanes(work, wiring, design, batch, plan.meta)
    if not made.max_runs:
        raise ValueError(
            f"recording {batch.lanes} parallel runs needs too much memory; record fewer signals "
            "(`record`) or fewer samples (`every`)"
        )
    batch.compile()
    return made


def _recorded_patterns(work: Task, wiring: Wiring) -> tuple[str, ...]:
    """Return the names or patterns of the signals to record.

    If all measures are strings such as "max robot.q[1]", and no block defines `Block.remarks`, only
    the signals of the measures are recorded. Otherwise, the patterns of the option `record` apply.
    """
    given = tuple(work.options.get("record", ("*",)))
    signals = [signal_of(one) for one in work.measures.values() if isinstance(one, str)]
    if len(signals) < len(work.measures) or has_remarks(wiring):
        return given
    names = [port.name for port in select_ports(wiring.outputs, given)]
    return tuple(
        name for name in names if any(one == name or one.startswith(f"{name}[") for one in signals)
    )


def _t_start(work: Task) -> float:
    return float(work.options.get("t_start", 0.0))


if __name__ == "__main__":
    exit_with_parent(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and kills this process
    serve(Connection(int(sys.argv[1])))
