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
from rigidblocks.cosim.masters.run_plan import make_plan
from rigidblocks.cosim.results.recording import select_ports
from rigidblocks.cosim.results.result import Result
from rigidblocks.cosim.run_options import check_names, check_numbers, communication_points
from rigidblocks.kernels.compiled_stepper import check_traced, steps_header
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.compiled_functions import lane_count, lane_library, run_in_threads

LOG = logging.getLogger("rigidblocks")
_STEPS_PER_CALL = 200_000  # sum over all runs; Ctrl-C is handled between the C calls
# A second thread does not save time for a communication step of at most 2^18 values, or for a batch
# of at most 256 steps (sum over all runs).
_SINGLE_THREAD_VALUES, _SINGLE_THREAD_STEPS = 2**18, 256
_MAX_LISTED = 8  # maximum number of failed runs that a message lists
_LONG, _DOUBLE = np.dtype(ctypes.c_long), np.dtype(float)


class _Record(ctypes.Structure):
    """Declaration of the C struct `record` (c/lanes/lane_library.c) for ctypes."""

    _fields_ = (
        *((name, ctypes.c_long) for name in ("width", "every", "rows")),
        *((name, ctypes.c_void_p) for name in ("places", "values", "failed")),
    )


@dataclass(frozen=True, eq=False)
class BatchResult:
    """Result of n runs: `result["robot.q"]` contains the values (n, samples, 2) of a signal.

    A run fails when a value becomes infinite or NaN. Its values are NaN from this time on.

    Attributes:
        ports: Recorded outputs.
        time: Times (samples,) [s].
        values: Values (n, samples, columns), with one column for each element of `ports`.
        failed: Time of failure (n,) of each run [s]; NaN for a successful run.
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
            f"the result has no recorded output '{name}'; "
            f"{suggestion(name, [port.name for port in self.ports])}"
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
        named = ", ".join(f"run {k} at {failed[k]:g} s" for k in runs[:_MAX_LISTED])
        more = ", ..." if len(runs) > _MAX_LISTED else ""
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
        method: Method | str = DEFAULT_METHOD,
        h: float | None = None,
    ):
        method = method_of(method, None, None, None)
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
    def _library(self) -> ctypes.CDLL:
        """Compiled C functions for all runs."""
        return _load_lane_library(self._memory, self._method, self._h, self._dt, self.lanes)

    def compile(self) -> None:
        """Compile the C functions that execute all runs."""
        _ = self._library

    def start(self, start: Mapping[str, Any], t_start: float = 0.0) -> "BatchRun":
        """Initialize one run for each set of start values, and return the runs.

        The arguments and the exceptions are as in `simulate_batch`.
        """
        check_numbers({"t_start": t_start})
        return BatchRun(self._library, self._starts, start, t_start, self._dt)

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
            self._library.rb_run(
                memories.ctypes.data, first, last, t_start, grid.n, ctypes.byref(kept)
            )

        if threads is None and n * grid.n <= _SINGLE_THREAD_STEPS:
            threads = 1
        run_in_threads(work, n, threads, _STEPS_PER_CALL // grid.n)
        ended = np.full(n, np.nan)
        for k in np.flatnonzero(failed >= 0):
            values[k, -(-failed[k] // every) :] = np.nan
            ended[k] = t_start + self._dt * failed[k]
        return BatchResult(times, self._ports, values, ended)


class BatchRun:
    """Runs of a `Batch` that take one communication step per call.

        run = batch.start({"q": q0, "qd": qd0})      # q0 (n, nq), qd0 (n, nv)
        run.set("tau", tau)                          # tau (n, nv)
        run.step()
        run["q"]                                     # (n, nq)

    A vector environment for reinforcement learning steps all its environments in this way. The
    results are bit-identical to the results of `Batch.simulate`. `failed` (n,) is True for each
    run whose values have become infinite or NaN; `restart` clears this flag.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        starts: "_StartValues",
        start: Mapping[str, Any],
        t_start: float,
        dt: float,
    ):
        self._library, self._starts = library, starts
        self._t_start, self._dt = t_start, dt
        self._memories = self._initialize_memories(start)
        self._address = self._memories.ctypes.data
        n = len(self._memories)
        self.failed = np.zeros(n, bool)
        self._failed_address = self.failed.ctypes.data
        self._steps = np.zeros(n)
        self._views = {
            port.name: self._memories[:, place].reshape(n, *port.shape)
            for port, place in starts.places.items()
        }
        for view in self._views.values():
            view.flags.writeable = False

    def __len__(self) -> int:
        return len(self._memories)

    def __getitem__(self, name: str) -> Array:
        """Return the values (n, *shape) of a port in all runs.

        The array is a read-only view, and the next step changes its values.
        """
        if name not in self._views:
            raise KeyError(f"unknown port '{name}'; {suggestion(name, self._views)}")
        return self._views[name]

    @property
    def time(self) -> Array:
        """Time of each run (n,) [s]."""
        return self._t_start + self._dt * self._steps

    def set(self, name: str, value: Any) -> None:
        """Set an input, a state or a tunable parameter of all runs.

        The outputs do not change before the next step.

        Args:
            name: Name of the port.
            value: Values (n, *shape), or one value (*shape) for all runs.

        Raises:
            KeyError: The name is unknown.
            ValueError: The shape is wrong, or a value is not finite or out of bounds.
        """
        place, flat = self._starts.value(name, value)
        if flat.ndim > 1 and len(flat) != len(self):
            raise ValueError(f"{name} is given for {len(flat)} runs; expected {len(self)}")
        self._memories[:, place] = flat

    def step(self, threads: int | None = None) -> None:
        """Step all runs by dt.

        Args:
            threads: Number of threads, by default one per processor. The option does not affect
                the results.
        """
        n = len(self)
        self._memories[:, 0] = self.time

        def work(first: int, last: int) -> None:
            self._library.rb_step(self._address, first, last, self._failed_address)

        if threads == 1 or (threads is None and self._memories.size <= _SINGLE_THREAD_VALUES):
            work(0, n)
        else:
            run_in_threads(work, n, threads, _STEPS_PER_CALL)
        self._steps += 1.0

    def restart(self, mask: Any, start: Mapping[str, Any]) -> None:
        """Initialize selected runs again, at the start time.

        Args:
            mask: Mask (n,) of the selected runs.
            start: Start values of the k selected runs, as in `Batch.start`: (k, *shape), or one
                value for all selected runs.

        Raises:
            KeyError: A name is unknown.
            ValueError: The mask or a value has a wrong shape, or a value is not finite or out of
                bounds.
        """
        chosen = np.asarray(mask)
        if chosen.dtype != bool or chosen.shape != (len(self),):
            raise ValueError(
                f"the mask of runs has the type {chosen.dtype} and the shape {chosen.shape}; "
                f"expected bool and ({len(self)},)"
            )
        places = np.flatnonzero(chosen)
        if len(places):
            self._memories[places] = self._initialize_memories(start, len(places))
            self._steps[places] = 0.0
            self.failed[places] = False

    def _initialize_memories(self, start: Mapping[str, Any], n: int | None = None) -> Array:
        """Return the initialized memory vectors (n, size) for start values."""
        memories = self._starts.memories(start, n)
        memories[:, 0] = self._t_start
        self._library.rb_begin(memories.ctypes.data, 0, len(memories))
        return memories


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
        self._unbounded = {
            name
            for name, (low, high) in self._bounds.items()
            if np.all(low == -finite) and np.all(high == finite)
        }
        self._where, self._start, self._block = memory.where, memory.start(), block
        self.places = {port: memory.where[port.name] for port in memory.ports}

    def value(self, name: str, start: Any) -> tuple[slice, Array]:
        """Return the slice of a port in the memory vector, and its start value as a flat array.

        The array has the shape (size,) if all runs have the same value, otherwise (n, size) with
        one row for each run.
        """
        if name not in self.ports:
            raise KeyError(f"unknown start value '{name}'; {suggestion(name, self.ports)}")
        return self._where[name], self._value(self.ports[name], start)

    def memories(self, start: Mapping[str, Any], n: int | None = None) -> Array:
        """Return the initial memory vectors (n, size) of n runs for the given start values.

        If n is None, the start values determine the number of runs.
        """
        values: dict[str, Array] = {}
        counts: dict[str, int] = {}
        for name, given in start.items():
            values[name] = value = self.value(name, given)[1]
            if value.ndim > 1:
                counts[name] = len(value)
        if n is not None and (wrong := [name for name, count in counts.items() if count != n]):
            raise ValueError(
                f"start value {wrong[0]} is given for {counts[wrong[0]]} runs; expected {n}"
            )
        if n is None and len(set(counts.values())) != 1:
            given = ", ".join(f"{name} {n}" for name, n in counts.items())
            raise ValueError(
                "start values with one row per run, of shape (n, *shape of the port), need the "
                f"same n: {given or 'no start value has this shape'}"
            )
        memories = np.empty((n or next(iter(counts.values())), len(self._start)))
        memories[:] = self._start
        for name, value in (self._dependent_values(values) | values).items():
            memories[:, self._where[name]] = value
        return memories

    def _dependent_values(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return the start values that the block computes from `values`, as flat arrays."""
        shaped = {
            name: value.reshape((*value.shape[:-1], *self.ports[name].shape))
            for name, value in values.items()
        }
        found = self._block.dependent_start_values(shaped)
        return {
            name: np.reshape(value, (-1, self.ports[name].size))
            for name, value in found.items()
            if name in self.ports
        }

    def _value(self, port: Port, start: Any) -> Array:
        """Return a start value as a flat array: (size,) for all runs, or (n, size) for n runs.

        Raises ValueError for a wrong shape, and for values that are not finite or are out of
        bounds.
        """
        is_plain = type(start) is np.ndarray and start.dtype is _DOUBLE
        value = start if is_plain else numbers_of(start, f"the start value of {port.name}")
        if value.shape != port.shape and value.shape[1:] != port.shape:
            raise ValueError(
                f"the start value of {port.name} has the shape {value.shape}; expected "
                f"{port.shape} for all runs or {('n', *port.shape)} for n runs".replace("'", "")
            )
        flat = value.reshape(-1 if value.shape == port.shape else (len(value), port.size))
        low, high = self._bounds[port.name]
        if port.name in self._unbounded and np.isfinite(flat).all():
            return flat
        fits = (low <= flat) & (flat <= high)  # False for NaN
        if not fits.all():
            wrong = flat[~fits]
            fault = "out of bounds" if np.isfinite(wrong).all() else "not finite"
            raise ValueError(f"start values of {port.name} are {fault}: {wrong[:3]}")
        return flat


def _load_lane_library(
    memory: Memory, method: Method, h: float, dt: float, lanes: int
) -> ctypes.CDLL:
    """Compile c/lanes/lane_library.c for a block, and return the loaded library.

    The library contains the functions rb_begin, rb_step and rb_run, which initialize, step and
    simulate all runs.
    """
    generated = {"steps.h": steps_header(memory, method, h, dt)}
    library = lane_library(generated, lanes)
    memories_of_runs = ctypes.c_void_p, ctypes.c_long, ctypes.c_long
    for name, more in (
        ("rb_begin", ()),
        ("rb_step", (ctypes.c_void_p,)),
        ("rb_run", (ctypes.c_double, ctypes.c_long, ctypes.c_void_p)),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = None, (*memories_of_runs, *more)
    return library
