"""Many runs at once: instances of a block or a system that differ in their start values, in lanes
and in threads.
"""

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import longest_step
from rigidblocks.block.block import Block, Port, computed_outputs
from rigidblocks.block.composite import Composite
from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.integrators import INTEGRATORS, RK4, Integrator
from rigidblocks.block.memory import Memory
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.block.record import offer
from rigidblocks.block.step import advance, initialize
from rigidblocks.block.written import WrittenBlock
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.simulation.arguments import check_count, check_names, check_numbers
from rigidblocks.simulation.grid import communication_points
from rigidblocks.simulation.prepare import planned
from rigidblocks.simulation.recording import chosen
from rigidblocks.simulation.result import Result
from rigidblocks.system.fused import GAUSS_SEIDEL, FusedSystem
from rigidblocks.system.system import System
from rigidblocks.tracing.batch import in_header, lane_library
from rigidblocks.tracing.ccode import c_function, c_number
from rigidblocks.tracing.lanes import in_threads, lane_count
from rigidblocks.tracing.notation import IN_LANES
from rigidblocks.tracing.trace import trace

_STEPS = 200_000  # of all runs in one call of C, between which Ctrl-C is heard
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
    method: Integrator | str = RK4,
    h: float | None = None,
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
    `simulate` to rounding; method, h and order are as there, the method one with steps of fixed
    length. `record` has patterns of the outputs that are kept, at every `every`-th step.

    `lanes` runs are taken at once, by default as many as the processor has operations for, in
    `threads`, by default one a processor; the numbers do not depend on either. One that fails is
    told in `failed`, and the others go on. Raises KeyError for a name that there is not, and
    ValueError for values and shapes that do not fit, for adaptive steps, FMUs and what is in no
    trace.
    """
    batch = Batch(
        _block(system, dt, t_start, order, method, h), dt, record, every, lanes, _fixed(method), h
    )
    return batch.simulate(t_stop, start, t_start, threads)


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
        method: Integrator = RK4,
        h: float | None = None,
    ):
        check_numbers({"dt": dt})
        check_names({"record": record})
        check_count("every", every)
        self.lanes = lane_count(lanes)
        self._memory, self._dt, self._every = Memory(_in_step(block)), dt, every
        self._method, self._h = method, longest_step(method, h)
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
    system: System | Block, dt: float, t_start: float, order: str, method: Any, h: float | None
) -> Block:
    """The block that takes the steps of the system."""
    if isinstance(system, System):
        plan = planned(system, dt, t_start, order, "fused", _fixed(method), h, None, None, None, ())
        system = FusedSystem(plan.wiring, dt, order)
    if not isinstance(system, Block):
        raise TypeError(f"a batch is of a System or a block, not of a {type(system).__name__}")
    return system


def _in_step(block: Block) -> Block:
    """The block; raises ValueError for one whose runs would not be in step."""
    if isinstance(block, PythonBlock | WrittenBlock):
        raise ValueError(
            f"{type(block).__name__} is in no trace, and only what is traced runs in a batch"
        )
    if isinstance(block, Composite) and block.inner_blocks(Memory(block)):
        raise ValueError(
            "a part with adaptive steps cannot run in a batch, whose runs are in step; add "
            "the parts of a FusedSystem with steps of fixed length, such as method='rk4'"
        )
    return block


def _fixed(method: Integrator | str) -> Integrator:
    """The method, one whose steps have a fixed length."""
    found = INTEGRATORS.get(method) if isinstance(method, str) else method
    if not isinstance(found, Integrator):
        raise ValueError(
            f"a batch takes steps of fixed length, for its runs are in step; '{method}' is not one "
            f"of: {', '.join(INTEGRATORS)}"
        )
    return found


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


def _loop(memory: Memory, method: Integrator, h: float, dt: float, lanes: int) -> Any:
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


def steps_header(memory: Memory, method: Integrator, h: float, dt: float) -> str:
    """The text of steps.h, which c/lanes/run.c wants."""
    evaluator = NumpyEvaluator(memory, TracedEvaluator(memory).slopes)
    shapes = {"memory": (memory.size,)}
    graphs = (
        trace("begin", lambda m: {"m": initialize(evaluator, m, m[0])}, shapes),
        trace("advance", lambda m: {"m": advance(evaluator, m, m[0], dt, method, h)}, shapes),
    )
    functions = "\n".join(c_function(graph, notation=IN_LANES) for graph in graphs)
    size = f"enum {{ RB_SIZE = {memory.size} }};\nstatic const double RB_DT = {c_number(dt)};\n"
    return in_header("steps", functions + size)
