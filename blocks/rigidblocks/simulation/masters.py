"""The masters of a run: an instance for each part, or all parts fused into one C loop."""

import abc
from collections.abc import Iterator, Sequence
from time import monotonic

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import STEP_PORTS
from rigidblocks.block.block import Block
from rigidblocks.block.memory import Memory
from rigidblocks.kernels.stepper import compiled_stepper
from rigidblocks.simulation.fmu_instance import FmuInstance
from rigidblocks.simulation.instance import BlockInstance, Instance
from rigidblocks.simulation.isolated import IsolatedInstance
from rigidblocks.simulation.recording import Recording
from rigidblocks.system.fmu import FmuError
from rigidblocks.system.fused import JACOBI, FusedSystem
from rigidblocks.system.part import Part
from rigidblocks.system.wiring import Wiring

CLOSE = 1e-12  # of dt: how closely an event is located
EVENTS = 100  # in one step of dt: more than that do not end
CHUNK = 10_000  # fused steps, at most, between two looks at the progress bar and at Ctrl-C
LOOK = 0.05  # s between two such looks


class PartError(RuntimeError):
    """What went wrong in a part of a run, with the part's name."""


class Master(abc.ABC):
    """Takes the parts of a system from one communication point to the next, and records them."""

    @abc.abstractmethod
    def start(self) -> None:
        """Computes the outputs at t_start."""

    @abc.abstractmethod
    def go(self) -> Iterator[int]:
        """Runs on from there to the end, yielding how many steps were taken since the last time."""

    @abc.abstractmethod
    def steps(self) -> Iterator[tuple[str, Array]]:
        """What adaptive integrators remember, by the names of the parts."""

    @abc.abstractmethod
    def close(self) -> None:
        """Frees what the run holds."""


class CoSimulation(Master):
    """Steps one instance for each part; `events` are output elements as in `simulate`."""

    def __init__(
        self,
        wiring: Wiring,
        recording: Recording,
        order: str,
        compiled: bool,
        events: Sequence[str],
    ):
        self._wiring, self._recording, self._grid = wiring, recording, recording.grid
        names = recording.element_names
        self._events = np.array([names.index(one) for one in dict.fromkeys(events)], dtype=int)
        self._jacobi = order == JACOBI
        self._order = wiring.stepping_order
        self._instances: dict[str, Instance] = {}
        try:
            for name, part in wiring.parts.items():
                self._instances[name] = _instance(part, compiled)
        except BaseException as error:
            if not isinstance(error, FmuError):  # which names it
                error.add_note(f"while the part '{name}' was made ready to run")
            self.close()
            raise
        self._wires: dict[str, list[tuple[Array, Array]]] = {name: [] for name in wiring.parts}
        for (a, y), (b, u), start, to, length in wiring.wires:
            source = self._instances[a].output(y)[start : start + length]
            self._wires[b].append((source, self._instances[b].input(u)[to : to + length]))

    def start(self) -> None:
        for name in self._wiring.evaluation_order:
            self._read_inputs(name)
            try:
                self._instances[name].initialize(self._grid.t_start)
            except Exception as error:
                raise _of_part(name, error) from error
        for name, instance in self._instances.items():
            try:
                instance.begin()
            except Exception as error:
                raise _of_part(name, error) from error
        self._recording.add(self._row())

    def go(self) -> Iterator[int]:
        self._steps = [(name, self._instances[name].step) for name in self._order]
        step = self._step_through_events if len(self._events) else self._step
        t_start, dt = self._grid.t_start, self._grid.dt
        for k in range(self._grid.n):
            step(t_start + k * dt, dt)
            self._recording.add(self._row())
            yield 1

    def _step(self, t: float, dt: float) -> None:
        if self._jacobi:
            self._read_inputs(*self._order)
        for name, step in self._steps:
            if not self._jacobi:
                self._read_inputs(name)
            try:
                step(t, dt)
            except (Exception, SystemExit) as error:
                raise _of_part(name, error) from error

    def _step_through_events(self, t: float, dt: float) -> None:
        """Steps from t to t + dt, ending a step and recording a row at each event."""
        start, rest = t, dt
        for _ in range(EVENTS + 1):
            for instance in self._instances.values():
                instance.save()
            before = self._row()[self._events]
            self._step(start, rest)
            if not len(self._fallen(before)):
                return
            start += self._locate(start, rest, dt, before)
            self._recording.fell(start, self._fallen(before))
            rest = t + dt - start
            if rest <= 0:
                return
            self._recording.insert(start, self._row())
        raise ArithmeticError(f"more than {EVENTS} events within one step of dt")

    def _locate(self, t: float, length: float, dt: float, before: Array) -> float:
        """Takes the step again, up to the first moment at which an event is known to have happened;
        returns its length.
        """
        low, high = 0.0, length
        while high - low > CLOSE * dt:
            middle = (low + high) / 2
            self._step_again(t, middle)
            low, high = (low, middle) if len(self._fallen(before)) else (middle, high)
        self._step_again(t, high)
        return high

    def _step_again(self, t: float, dt: float) -> None:
        for instance in self._instances.values():
            instance.restore()
        self._step(t, dt)

    def _fallen(self, before: Array) -> Array:
        """The columns of the events whose outputs have fallen through zero since they were
        `before`.
        """
        return np.asarray(self._events[(before > 0) & (self._row()[self._events] <= 0)])

    def close(self) -> None:
        for instance in self._instances.values():
            instance.close()

    def steps(self) -> Iterator[tuple[str, Array]]:
        for name, instance in self._instances.items():
            if isinstance(instance, BlockInstance) and len(instance.steps):
                yield name, instance.steps

    def _read_inputs(self, *names: str) -> None:
        for name in names:
            for source, target in self._wires[name]:
                target[:] = source

    def _row(self) -> Array:
        """All outputs."""
        return np.concatenate([instance.outputs() for instance in self._instances.values()])


def _instance(part: Part, compiled: bool) -> Instance:
    if isinstance(part.component, Block):
        return BlockInstance(part, compiled)
    return IsolatedInstance(part) if part.isolated else FmuInstance(part)


def _of_part(name: str, error: BaseException) -> Exception:
    """An error of a part as one that names it."""
    if isinstance(error, FmuError):  # it does
        return error
    return PartError(f"'{name}': {said(error)}")


def said(error: BaseException) -> str:
    """The message of an error, with its type where that tells what is wrong."""
    if isinstance(error, ArithmeticError | RuntimeError) and type(error) is not ZeroDivisionError:
        return str(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ")


class FusedLoop(Master):
    """Steps the whole system as one C loop."""

    def __init__(self, wiring: Wiring, recording: Recording, order: str):
        self._recording, self._dt, self._parts = recording, recording.grid.dt, wiring.parts
        self._stepper = compiled_stepper(Memory(FusedSystem(wiring, self._dt, order)), h=self._dt)
        where = self._stepper.memory.where
        self._columns = np.concatenate(
            [np.arange(where[port.name].start, where[port.name].stop) for port in recording.ports]
        )
        self._memory = self._stepper.memory.start()

    def start(self) -> None:
        self._stepper.initialize(self._memory, self._recording.t)
        self._recording.extend(self._memory[None, self._columns])

    def go(self) -> Iterator[int]:
        memory, recording, grid = self._memory, self._recording, self._recording.grid
        chunk, n = np.empty((CHUNK, len(memory))), 1
        while recording.k < grid.n:
            rows, begin = chunk[: min(n, grid.n - recording.k)], monotonic()
            taken = self._stepper.run(memory, grid.t_start, self._dt, rows, recording.k)
            recording.extend(rows[:taken, self._columns])
            if taken < len(rows):
                self._stepper.step(memory, recording.t, self._dt)  # raises with the reason
            n = min(2 * n, CHUNK) if monotonic() - begin < LOOK else max(1, n // 2)
            yield taken

    def steps(self) -> Iterator[tuple[str, Array]]:
        where, first = self._stepper.memory.where, STEP_PORTS[0].name
        for name in self._parts:
            if (start := where.get(f"{name}.{first}")) is not None:
                yield name, self._memory[start.start : start.start + len(STEP_PORTS)]

    def close(self) -> None:
        """Has nothing to free."""
