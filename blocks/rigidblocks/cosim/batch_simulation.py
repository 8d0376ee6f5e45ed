"""Many runs at once: instances of a block or a system that differ in their start values, in lanes
and in threads.
"""

import ctypes
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import DEFAULT_METHOD, Method, longest_step, memory_for, method_of
from rigidblocks.block.block import Block, Port, computed_outputs
from rigidblocks.block.memory import Memory
from rigidblocks.block.record import offer
from rigidblocks.kernels.lane_steps import check_traced, steps_header
from rigidblocks.simulation.arguments import check_count, check_names, check_numbers
from rigidblocks.simulation.grid import communication_points
from rigidblocks.simulation.prepare import planned
from rigidblocks.simulation.recording import chosen
from rigidblocks.simulation.result import Result
from rigidblocks.system.fused import GAUSS_SEIDEL, FusedSystem
from rigidblocks.system.system import System
from rigidblocks.tracing.batch import lane_library
from rigidblocks.tracing.lanes import in_threads, lane_count

LOG = logging.getLogger("rigidblocks")
_STEPS = 200_000  # of all runs in one call of C, between which Ctrl-C is heard
_NAMED = 8  # runs that a message names
_LONG = np.dtype(ctypes.c_long)


class _Record(ctypes.Structure):
    """`struct record` of c/lanes/run.c."""

    _fields_ = (
        *((name, ctypes.c_long) for name in ("width", "every", "rows")),
        *((name, ctypes.c_void_p) for name in ("places", "values", "failed")),
    )


@dataclass(frozen=True, eq=False)
class BatchResult:
    """The signals of n runs over time: `result["robot.q"]` is an array (n, rows, 2).

    `time` (rows,) [s]; `values` (n, rows, columns) has the elements of all `ports` side by side.
    `failed` (n,) is the time [s] at which a number of a run was no longer finite, NaN for one that
    went well; its values are NaN from there on.
    """

    time: Array
    ports: tuple[Port, ...]
    values: Array
    failed: Array

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, name: str) -> Array:
        """The values of an output in all runs, (n, rows, ...)."""
        start = 0
        for port in self.ports:
            if port.name == name:
                flat = self.values[:, :, start : start + port.size]
                return flat.reshape(*flat.shape[:2], *port.shape)
            start += port.size
        raise KeyError(
            f"there is no recorded '{name}'; {offer(name, [port.name for port in self.ports])}"
        )

    def run(self, k: int) -> Result:
        """The k-th run as a result of its own."""
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
    """Runs of a system, or of a block alone, from t_start to t_stop [s] by steps of dt, one for
    each row of the start values.

        start = {"robot.q": rng.normal(size=(1000, 2)), "pd.kp": [60, 40]}
        simulate_batch(system, 10.0, 1e-3, start=start, record=["robot.q"], every=10)

    `start` names inputs that nothing is connected to, states and tunable parameters, `part.port` of
    a system and `port` of a block. A value has the shape of its port, for all runs, or one more
    index in front, that of the run; n is the same for all that have one. The numbers are those of
    `simulate` to rounding; method, h, rtol, atol, max_inner_steps and order are as there, and each
    run chooses its own steps. `record` has patterns of the outputs that are kept, at every
    `every`-th step.

    `lanes` runs are taken at once, by default as many as the processor has operations for, in
    `threads`, by default one a processor; the numbers do not depend on either. One that fails is
    told in `failed` and in the log, and the others go on. Raises KeyError for a name that there is
    not, and ValueError for values and shapes that do not fit, for FMUs and what is in no trace.
    """
    own = method_of(method or DEFAULT_METHOD, rtol, atol, max_inner_steps)
    block = _block(system, dt, t_start, order, own, h)
    batch = Batch(block, dt, record, every, lanes, own, h)
    result = batch.simulate(t_stop, start, t_start, threads)
    _tell_failures(result.failed)
    return result


def _tell_failures(failed: Array) -> None:
    """Tells the log which runs have failed, and when."""
    runs = np.flatnonzero(np.isfinite(failed))
    if len(runs):
        named = ", ".join(f"run {k} at {failed[k]:g} s" for k in runs[:_NAMED])
        more = ", ..." if len(runs) > _NAMED else ""
        LOG.warning("%d of %d runs failed: %s%s", len(runs), len(failed), named, more)


class Batch:
    """A block made ready for many runs at once by steps of dt [s], as often as one likes; the
    arguments are those of `simulate_batch`.

    Raises ValueError for a block that does not run in lanes, and KeyError for a pattern of outputs
    that names none.
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
        self._ports = chosen(self._memory.block.outputs, record)

    @property
    def settable(self) -> Mapping[str, Port]:
        """What a run may start with, by name."""
        return _settable(self._memory)

    @property
    def width(self) -> int:
        """How many numbers are kept of a run at a communication point."""
        return sum(port.size for port in self._ports)

    @cached_property
    def _run(self) -> Any:
        """The loop over the runs, in C."""
        return _loop(self._memory, self._method, self._h, self._dt, self.lanes)

    def compile(self) -> None:
        """Makes all that is to be compiled."""
        _ = self._run

    def simulate(
        self,
        t_stop: float,
        start: Mapping[str, Any],
        t_start: float = 0.0,
        threads: int | None = None,
    ) -> BatchResult:
        """The runs with these start values, as `simulate_batch` gives them; raises what it raises
        for them. Any number of threads may call it when it is compiled.
        """
        check_numbers({"t_stop": t_stop, "t_start": t_start})
        grid = communication_points(t_start, t_stop, self._dt)
        memories = _memories(self._memory, start)
        n, times = len(memories), grid.times[:: self._every]
        where = self._memory.where
        places = [k for port in self._ports for k in range(self._memory.size)[where[port.name]]]
        values = np.full((n, len(times), len(places)), np.nan)
        failed = np.full(n, -1, _LONG)
        arrays = (np.array(places, _LONG), values, failed)
        sizes = len(places), self._every, len(times)
        kept = _Record(*sizes, *(array.ctypes.data for array in arrays))

        def work(first: int, last: int) -> None:
            self._run(memories.ctypes.data, first, last, t_start, grid.n, ctypes.byref(kept))

        in_threads(work, n, threads, _STEPS // grid.n)
        del arrays  # which were in use up to here
        for k in np.flatnonzero(failed >= 0):
            values[k, -(-failed[k] // self._every) :] = np.nan
        ended = np.where(failed < 0, np.nan, t_start + self._dt * failed)
        return BatchResult(times, self._ports, values, ended)


def _block(
    system: System | Block, dt: float, t_start: float, order: str, method: Method, h: float | None
) -> Block:
    """The block that takes the steps of the system."""
    if isinstance(system, System):
        plan = planned(system, dt, t_start, order, "fused", method, h, None, None, None, ())
        system = FusedSystem(plan.wiring, dt, order)
    if not isinstance(system, Block):
        raise TypeError(f"a batch is of a System or a block, not of a {type(system).__name__}")
    return system


def _memories(memory: Memory, start: Mapping[str, Any]) -> Array:
    """The memories of the runs with their start values, (n, size)."""
    settable = _settable(memory)
    values: dict[str, Array] = {}
    counts: dict[str, int] = {}
    for name, given in start.items():
        if name not in settable:
            raise KeyError(f"there is no '{name}' to start with; {offer(name, settable)}")
        values[name] = value = _start_value(settable[name], given)
        if value.ndim > 1:
            counts[name] = len(value)
    if len(set(counts.values())) != 1:
        given = ", ".join(f"{name} {n}" for name, n in counts.items())
        raise ValueError(
            "the start values with one more index than their port say how many runs there are, "
            f"and must agree: {given or 'there are none'}"
        )
    memories = np.tile(memory.start(), (next(iter(counts.values())), 1))
    for name, value in values.items():
        memories[:, memory.where[name]] = value
    return memories


def _settable(memory: Memory) -> dict[str, Port]:
    """What a run starts with: all of a memory that is not computed."""
    block = memory.block
    computed = {port.name for port in computed_outputs(block)}
    if isinstance(block, FusedSystem):
        computed |= block.computed
    return {port.name: port for port in memory.ports if port.name not in computed}


def _start_value(port: Port, given: Any) -> Array:
    """The values (size,) of a port in all runs, or (n, size) in each."""
    value = np.asarray(given, dtype=float)
    if value.shape != port.shape and value.shape[1:] != port.shape:
        raise ValueError(
            f"the start value of {port.name} has the shape {value.shape}; it is {port.shape} in a "
            f"run, {('n', *port.shape)} in n runs".replace("'", "")
        )
    flat = value.reshape(-1 if value.shape == port.shape else (len(value), port.size))
    fits = np.isfinite(flat) & (flat >= np.ravel(port.lowest)) & (flat <= np.ravel(port.max))
    if not fits.all():
        raise ValueError(
            f"start values of {port.name} are not finite or out of bounds: {flat[~fits][:3]}"
        )
    return flat


def _loop(memory: Memory, method: Method, h: float, dt: float, lanes: int) -> Any:
    """The loop over the runs, `run` of c/lanes/run.c."""
    generated = {"steps.h": steps_header(memory, method, h, dt)}
    run = lane_library("run", generated, lanes).run
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
