"""Batch simulation: runs with different start values in parallel SIMD lanes and threads."""

import ctypes
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.adaptive_methods import (
    DEFAULT_METHOD,
    Method,
    longest_step,
    memory_for,
    method_of,
)
from rigidblocks.block.block import Block, Port, check_count, computed_outputs
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.port import numbers_of
from rigidblocks.common.name_hints import suggestion
from rigidblocks.cosim.graph.fused_system import GAUSS_SEIDEL, FusedSystem
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.masters.run_plan import (
    check_names,
    check_numbers,
    communication_points,
    make_plan,
)
from rigidblocks.cosim.results.recording import select_ports
from rigidblocks.cosim.results.result import Result
from rigidblocks.kernels.compiled_stepper import check_traced, steps_header
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.compiled_functions import lane_count, lane_library, run_in_threads

LOG = logging.getLogger("rigidblocks")
_STEPS = 200_000  # steps per C call, summed over all runs; Ctrl-C is handled between the calls
_FEWEST = 256  # number of steps up to which a second thread would not save time
_NAMED = 8  # maximum number of failed runs that a message lists
_LONG = np.dtype(ctypes.c_long)


class _Record(ctypes.Structure):
    """Declaration of the C struct `record` (c/lanes/lane_library.c) for ctypes."""

    _fields_ = (
        *((name, ctypes.c_long) for name in ("width", "every", "rows")),
        *((name, ctypes.c_void_p) for name in ("places", "values", "failed")),
    )


@dataclass(frozen=True, eq=False)
class BatchResult:
    """Result of n runs: `result["robot.q"]` is an array (n, samples, 2) with one signal.

    `time` (samples,) contains the times [s]. `values` (n, samples, columns) contains one column for
    each element of the recorded outputs `ports`. `failed` (n,) contains the time of failure of each
    run [s]; it is NaN for a successful run. A run fails when a value becomes infinite or NaN. The
    values of a failed run are NaN from the time of failure on.
    """

    time: Array
    ports: tuple[Port, ...]
    values: Array
    failed: Array

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, name: str) -> Array:
        """Return the values of an output in all runs, as an array (runs, samples, *shape)."""
        start = 0
        for port in self.ports:
            if port.name == name:
                flat = self.values[:, :, start : start + port.size]
                return flat.reshape(*flat.shape[:2], *port.shape)
            start += port.size
        raise KeyError(
            f"no recorded output '{name}'; {suggestion(name, [port.name for port in self.ports])}"
        )

    def run(self, k: int) -> Result:
        """Return the k-th run as a `Result`."""
        return Result(self.time, self.ports, self.values[k], {})


def simulate_batch(
    system: System | Block,
    t_stop: float,
    dt: float,
    *,
    start: Mapping[str, Any],
    t_start: float = 0.0,
    method: Method | str | None = None,
    h: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    max_inner_steps: int | None = None,
    order: str = GAUSS_SEIDEL,
    record: Sequence[str] = ("*",),
    every: int = 1,
    lanes: int | None = None,
    threads: int | None = None,
) -> BatchResult:
    """Run a system or a block from t_start to t_stop [s], once for each set of start values.

        start = {"robot.q": rng.normal(size=(1000, 2)), "pd.kp": [60, 40]}
        simulate_batch(system, 10.0, 1e-3, start=start, record=["robot.q"], every=10)

    The communication step is dt. The results equal the results of `simulate` up to rounding errors.
    The step size control of each run selects its inner steps independently. A failed run is listed
    in `failed` and in the log; the other runs continue.

    Args:
        system: System or block.
        t_stop: End time [s].
        dt: Communication step [s].
        start: Start values of unconnected inputs, states and tunable parameters, by `part.port` for
            a system and by `port` for a block. A value with the shape of its port applies to all
            runs. A value of shape (n, *shape) contains one row for each of the n runs.
        t_start: Start time [s].
        method: Integration method, as in `simulate`.
        h: Longest inner step [s].
        rtol: Relative tolerance of an adaptive method.
        atol: Absolute tolerance of an adaptive method.
        max_inner_steps: Maximum number of inner steps in a communication step.
        order: Stepping order of the parts, "gauss-seidel" or "jacobi".
        record: Name patterns of the recorded outputs.
        every: Number of communication steps between two recorded samples.
        lanes: Number of runs in one SIMD vector, by default the vector width of the processor. The
            option does not affect the results.
        threads: Number of threads, by default one per processor. The option does not affect the
            results.

    Returns:
        Times (samples,) [s], values (n, samples, columns) and times of failure (n,) [s].

    Raises:
        KeyError: A name is unknown, or a pattern in `record` has no match.
        ValueError: A value or a shape is invalid, the system contains an FMU, or code cannot be
            traced.
        TypeError: `system` is neither a system nor a block.
    """
    own = method_of(method or DEFAULT_METHOD, rtol, atol, max_inner_steps)
    block = _block(system, dt, t_start, order, own, h)
    batch = Batch(block, dt, record, every, lanes, own, h)
    result = batch.simulate(t_stop, start, t_start, threads)
    _log_failures(result.failed)
    return result


def _log_failures(failed: Array) -> None:
    """Log the failed runs of a batch, each with its time of failure."""
    runs = np.flatnonzero(np.isfinite(failed))
    if len(runs):
        named = ", ".join(f"run {k} at {failed[k]:g} s" for k in runs[:_NAMED])
        more = ", ..." if len(runs) > _NAMED else ""
        LOG.warning("%d of %d runs failed: %s%s", len(runs), len(failed), named, more)


class Batch:
    """Block prepared for repeated batches of runs with the communication step dt [s].

    `simulate_batch` describes the arguments. Raises ValueError for a block that cannot run in SIMD
    lanes, and KeyError for a pattern that matches no output.
    """

    def __init__(
        self,
        block: Block,
        dt: float,
        record: Sequence[str] = ("*",),
        every: int = 1,
        lanes: int | None = None,
        method: Method = DEFAULT_METHOD,
        h: float | None = None,
    ):
        check_numbers({"dt": dt})
        check_names({"record": record})
        check_count("every", every)
        self.lanes = lane_count(lanes)
        self._method, self._h = method, longest_step(method, h)
        self._memory, self._dt, self._every = memory_for(block, method), dt, every
        check_traced(self._memory)
        self._ports = select_ports(self._memory.block.outputs, record)
        self._starts = _StartValues(self._memory)
        where = self._memory.where
        places = [k for port in self._ports for k in range(self._memory.size)[where[port.name]]]
        self._places = np.array(places, _LONG)

    @property
    def settable(self) -> Mapping[str, Port]:
        """Mapping of names to the ports that accept start values."""
        return self._starts.ports

    @property
    def width(self) -> int:
        """Number of values that one run records at a communication point."""
        return len(self._places)

    @cached_property
    def _run(self) -> Any:
        """Compiled C function, which takes all steps of all runs."""
        return _loop(self._memory, self._method, self._h, self._dt, self.lanes)

    def compile(self) -> None:
        """Compile the C function that executes all runs."""
        _ = self._run

    def simulate(
        self,
        t_stop: float,
        start: Mapping[str, Any],
        t_start: float = 0.0,
        threads: int | None = None,
    ) -> BatchResult:
        """Simulate one run for each set of start values, as in `simulate_batch`.

        The method raises the exceptions of `simulate_batch`. After `compile`, several threads may
        call this method at the same time.
        """
        check_numbers({"t_stop": t_stop, "t_start": t_start})
        grid = communication_points(t_start, t_stop, self._dt)
        memories = self._starts.memories(start)
        every = min(int(self._every), grid.n + 1)  # limit for a C integer; the samples are equal
        n, times = len(memories), grid.times[::every]
        values = np.full((n, len(times), self.width), np.nan)
        failed = np.full(n, -1, _LONG)
        sizes = self.width, every, len(times)
        kept = _Record(*sizes, *(one.ctypes.data for one in (self._places, values, failed)))

        def work(first: int, last: int) -> None:
            self._run(memories.ctypes.data, first, last, t_start, grid.n, ctypes.byref(kept))

        if threads is None and n * grid.n <= _FEWEST:
            threads = 1
        run_in_threads(work, n, threads, _STEPS // grid.n)
        ended = np.full(n, np.nan)
        for k in np.flatnonzero(failed >= 0):
            values[k, -(-failed[k] // every) :] = np.nan
            ended[k] = t_start + self._dt * failed[k]
        return BatchResult(times, self._ports, values, ended)


def _block(
    system: System | Block, dt: float, t_start: float, order: str, method: Method, h: float | None
) -> Block:
    """Convert a system to a `FusedSystem` with the step dt [s]; return a block unchanged."""
    if isinstance(system, System):
        plan = make_plan(system, dt, t_start, "fused", {"order": order, "method": method, "h": h})
        system = FusedSystem(plan.wiring, dt, order)
    if not isinstance(system, Block):
        raise TypeError(f"a batch needs a System or a block, not a {type(system).__name__}")
    return system


class _StartValues:
    """Conversion of start values to one initial memory vector for each run of a batch.

    `ports` maps names to the ports that accept start values.
    """

    def __init__(self, memory: Memory):
        block = memory.block
        computed = {port.name for port in computed_outputs(block)}
        if isinstance(block, FusedSystem):
            computed |= block.computed
        self.ports = {port.name: port for port in memory.ports if port.name not in computed}
        finite = np.finfo(float).max
        self._bounds = {
            name: (np.ravel(np.maximum(port.lowest, -finite)), np.ravel(port.max).clip(max=finite))
            for name, port in self.ports.items()
        }
        self._where, self._start = memory.where, memory.start()

    def memories(self, start: Mapping[str, Any]) -> Array:
        """Return the initial memory vectors (n, size) of n runs for the given start values."""
        values: dict[str, Array] = {}
        counts: dict[str, int] = {}
        for name, given in start.items():
            if name not in self.ports:
                raise KeyError(f"unknown start value '{name}'; {suggestion(name, self.ports)}")
            values[name] = value = self._value(self.ports[name], given)
            if value.ndim > 1:
                counts[name] = len(value)
        if len(set(counts.values())) != 1:
            given = ", ".join(f"{name} {n}" for name, n in counts.items())
            raise ValueError(
                "start values of shape (n, *shape of the port) define n runs and need the same n: "
                f"{given or 'no start value has this shape'}"
            )
        memories = np.empty((next(iter(counts.values())), len(self._start)))
        memories[:] = self._start
        for name, value in values.items():
            memories[:, self._where[name]] = value
        return memories

    def _value(self, port: Port, given: Any) -> Array:
        """Return a start value as a flat array: (size,) for all runs, or (n, size) for n runs.

        Raises ValueError for a wrong shape, and for values that are not finite or are out of
        bounds.
        """
        value = numbers_of(given, f"the start value of {port.name}")
        if value.shape != port.shape and value.shape[1:] != port.shape:
            raise ValueError(
                f"the start value of {port.name} has the shape {value.shape}; expected "
                f"{port.shape} for all runs or {('n', *port.shape)} for n runs".replace("'", "")
            )
        flat = value.reshape(-1 if value.shape == port.shape else (len(value), port.size))
        low, high = self._bounds[port.name]
        fits = (low <= flat) & (flat <= high)  # False for NaN
        if not fits.all():
            raise ValueError(
                f"start values of {port.name} are not finite or out of bounds: {flat[~fits][:3]}"
            )
        return flat


def _loop(memory: Memory, method: Method, h: float, dt: float, lanes: int) -> Any:
    """Compile c/lanes/lane_library.c for a block, and return its C function `rb_run`."""
    generated = {"steps.h": steps_header(memory, method, h, dt)}
    run = lane_library(generated, lanes).rb_run
    run.restype = None
    run.argtypes = (
        ctypes.c_void_p,
        ctypes.c_long,
        ctypes.c_long,
        ctypes.c_double,
        ctypes.c_long,
        ctypes.c_void_p,
    )
    return run
