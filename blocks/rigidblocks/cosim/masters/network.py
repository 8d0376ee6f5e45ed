"""What a loop steps: an instance for each part with the wires between them, or one memory for a
whole system.
"""

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import STEP_PORTS
from rigidblocks.block.block import Block
from rigidblocks.simulation.instance import BlockInstance, Instance
from rigidblocks.simulation.isolated import isolated_fmu
from rigidblocks.simulation.plan import Plan, of_part
from rigidblocks.simulation.running import running_fmu
from rigidblocks.simulation.served import served_fmu
from rigidblocks.simulation.table import BLOCK, Entry, Row, Scale, Wire
from rigidblocks.system.fmu import Fmu, FmuError
from rigidblocks.system.part import Part
from rigidblocks.system.remote import RemoteFile


class PartError(RuntimeError):
    """What went wrong in a part of a run, with the part's name."""


class Network(abc.ABC):
    """The parts of a system while they run.

    `outputs` are views of the flat values of all outputs, by `part.port`, that stay valid; in a
    table of parts each has the number of its place in the order of the steps.
    """

    outputs: Mapping[str, Array]

    @abc.abstractmethod
    def start(self, t: float) -> None:
        """Computes the outputs at the start of a run, which comes once, or after a `restart`."""

    @property
    @abc.abstractmethod
    def restarts(self) -> bool:
        """Whether it can be used for another run: where no part is an FMU."""

    @abc.abstractmethod
    def restart(self, plan: Plan) -> bool:
        """Puts the start values of a plan in place of what there is; returns False, and does
        nothing, where that takes other instances.
        """

    @abc.abstractmethod
    def view(self, name: str) -> Array | None:
        """A view of the flat values of a port `part.port`, which stays valid; None where there is
        none, and `read` and `change` are to be taken.
        """

    @abc.abstractmethod
    def read(self, name: str) -> Array:
        """The flat values of a port that has no view."""

    @abc.abstractmethod
    def change(self, name: str, values: Array) -> None:
        """Sets a tunable parameter that has no view."""

    @abc.abstractmethod
    def keep(self, number: int) -> None:
        """Keeps the state, inputs and outputs of this moment under a number."""

    @abc.abstractmethod
    def go_back(self, number: int) -> None:
        """Goes back to a moment that was kept; may be repeated."""

    @abc.abstractmethod
    def forget(self, number: int) -> None:
        """Keeps a moment no longer."""

    @abc.abstractmethod
    def table(self) -> Sequence[Row]:
        """How the loop in C steps each part, and the wires to its inputs."""

    @property
    @abc.abstractmethod
    def unchecked(self) -> Iterable[Array]:
        """The outputs that may get infinite without a word of their parts."""

    @abc.abstractmethod
    def step(self, number: int, t: float, dt: float) -> None:
        """Steps one part with its inputs held; raises PartError or FmuError with its name."""

    @abc.abstractmethod
    def judge(self, number: int, call: int, status: int, t: float, dt: float) -> None:
        """Raises what `step` raises, for the status of a call in C."""

    @abc.abstractmethod
    def steps(self) -> Iterator[tuple[str, Array]]:
        """What adaptive integrators remember, by the names of the parts."""

    @abc.abstractmethod
    def close(self) -> None:
        """Frees what the parts hold."""

    def row(self) -> Array:
        """All outputs side by side."""
        return np.concatenate(list(self.outputs.values()) or [np.zeros(0)])


class Instances(Network):
    """An instance for each part of a plan."""

    def __init__(self, plan: Plan):
        self._wiring, self.order = plan.wiring, plan.stepping_order
        self.by_name: dict[str, Instance] = {}
        try:
            for name, part in plan.wiring.parts.items():
                self.by_name[name] = of_part(name, partial(_instance, part, plan.steppers))
        except BaseException:
            self.close()
            raise
        self.wires: dict[str, list[Wire]] = {name: [] for name in plan.wiring.parts}
        self._scales: dict[str, list[Scale]] = {name: [] for name in plan.wiring.parts}
        self._connect()
        self._in_order = [self.by_name[name] for name in self.order]
        distant = [k for k, one in enumerate(self._in_order) if one.is_distant]
        self._sent_together = distant if plan.is_simultaneous else []
        self.outputs = {
            plan.wiring.whole_name(name, port.name): self.by_name[name].output(port.name)
            for name, part in plan.wiring.parts.items()
            for port in part.component.outputs
        }

    def _connect(self) -> None:
        """The wires to each part, and the units that change on them."""
        for wire in self._wiring.wires:
            (a, y), (b, u), start, to, length = wire
            source = self.by_name[a].output(y)[start : start + length]
            target = self.by_name[b].input(u)[to : to + length]
            self.wires[b].append((source, target))
            if (conversion := self._wiring.conversion(wire)) is not None:
                self._scales[b].append((target, *conversion))

    def start(self, t: float) -> None:
        self._initialize(t)
        for name, instance in self.by_name.items():
            self.guarded(name, instance.begin)

    def _initialize(self, t: float) -> None:
        """The outputs of all parts at the start."""
        for name in self._wiring.evaluation_order:
            self.read_inputs(name)
            self.guarded(name, partial(self.by_name[name].initialize, t))

    @property
    def restarts(self) -> bool:
        return all(isinstance(one, BlockInstance) for one in self.by_name.values())

    def restart(self, plan: Plan) -> bool:
        if not self.restarts:
            return False
        for name, instance in self.by_name.items():
            assert isinstance(instance, BlockInstance)
            instance.restart(plan.wiring.parts[name])
        return True

    def view(self, name: str) -> Array | None:
        part, port = self._wiring.located(name)
        return self.by_name[part].view(port)

    def read(self, name: str) -> Array:
        part, port = self._wiring.located(name)
        return self.by_name[part].read(port)

    def change(self, name: str, values: Array) -> None:
        part, port = self._wiring.located(name)
        self.by_name[part].change(port, values)

    def keep(self, number: int) -> None:
        for instance in self.by_name.values():
            instance.keep(number)

    def go_back(self, number: int) -> None:
        for instance in self.by_name.values():
            instance.go_back(number)

    def forget(self, number: int) -> None:
        for instance in self.by_name.values():
            instance.forget(number)

    def in_turn(self, is_simultaneous: bool) -> Iterator[int]:
        """The numbers of the parts in the order in which they step, each when its inputs are read:
        those of all before the first steps (Jacobi), or before its own step (Gauss and Seidel).
        """
        if is_simultaneous:
            for name in self.order:
                self.read_inputs(name)
        for number, name in enumerate(self.order):
            if not is_simultaneous:
                self.read_inputs(name)
            yield number

    def read_inputs(self, name: str) -> None:
        """Copies the connected inputs of a part from their sources, and converts their units."""
        for source, target in self.wires[name]:
            target[:] = source
        for target, factor, offset in self._scales[name]:
            target[:] = factor * target + offset

    def table(self) -> Sequence[Row]:
        return [
            Row(self.by_name[name].entry(), self.wires[name], self._scales[name])
            for name in self.order
        ]

    @property
    def unchecked(self) -> Iterable[Array]:
        return [
            one.output(port.name)
            for name, one in self.by_name.items()
            if one.entry().kind != BLOCK
            for port in self._wiring.parts[name].component.outputs
        ]

    def step(self, number: int, t: float, dt: float) -> None:
        self.step_within((t, dt), number, t, dt)

    def step_within(self, whole: tuple[float, float], number: int, t: float, dt: float) -> None:
        """Steps one part as `step`, in a step with this start and length that events divide."""
        if self._sent_together and number == self._sent_together[0]:
            # all have read their inputs: those elsewhere step beside each other
            for k in self._sent_together:
                self.guarded(self.order[k], partial(self._in_order[k].send_step, t, dt))
        self.guarded(self.order[number], partial(self._in_order[number].step_within, whole, t, dt))

    def guarded(self, name: str, call: Callable[[], None]) -> None:
        """Makes a call on a part, whose errors name it."""
        try:
            call()
        except (Exception, SystemExit) as error:
            raise _named(name, error) from error

    def judge(self, number: int, call: int, status: int, t: float, dt: float) -> None:
        try:
            self._in_order[number].judge(call, status, t, dt)
        except (Exception, SystemExit) as error:
            raise _named(self.order[number], error) from error

    def steps(self) -> Iterator[tuple[str, Array]]:
        for name, instance in self.by_name.items():
            if isinstance(instance, BlockInstance) and len(instance.steps):
                yield name, instance.steps

    def close(self) -> None:
        for instance in self.by_name.values():
            instance.close()


class OneMemory(Network):
    """A whole system as one compiled block."""

    def __init__(self, plan: Plan):
        self._stepper, self._parts = plan.fused, plan.wiring.parts
        where = self._stepper.memory.where
        self._memory = np.empty(self._stepper.memory.size)
        self._kept: dict[int, Array] = {}
        self.restart(plan)
        self.outputs = {port.name: self._memory[where[port.name]] for port in plan.wiring.outputs}

    def start(self, t: float) -> None:
        self._stepper.initialize(self._memory, t)

    @property
    def restarts(self) -> bool:
        return True

    def restart(self, plan: Plan) -> bool:
        where = self._stepper.memory.where
        self._memory[:] = self._stepper.memory.start()
        for name, part in plan.wiring.parts.items():
            ports = {port.name: port for port in part.component.inputs}
            for key, value in part.start.items():
                if (place := where.get(plan.wiring.whole_name(name, key))) is not None:
                    self._memory[place] = np.ravel(value)
                elif key in ports:  # which is connected, or some of its elements are
                    for one, number in zip(ports[key].element_names, np.ravel(value), strict=True):
                        whole = plan.wiring.whole_name(name, one)
                        if (place := where.get(whole)) is not None:
                            self._memory[place] = number
        return True

    def view(self, name: str) -> Array | None:
        place = self._stepper.memory.where.get(name)
        return None if place is None else self._memory[place]

    def read(self, name: str) -> Array:
        raise ValueError(f"a fused run does not keep {name}, which is connected: read its source")

    def change(self, name: str, values: Array) -> None:
        raise NotImplementedError

    def keep(self, number: int) -> None:
        self._kept[number] = self._memory.copy()

    def go_back(self, number: int) -> None:
        self._memory[:] = self._kept[number]

    def forget(self, number: int) -> None:
        self._kept.pop(number, None)

    def table(self) -> Sequence[Row]:
        return [Row(Entry(BLOCK, self._memory.ctypes.data, self._stepper.step_address))]

    @property
    def unchecked(self) -> Iterable[Array]:
        return ()

    def step(self, number: int, t: float, dt: float) -> None:
        del number  # there is one
        self._stepper.step(self._memory, t, dt)

    def judge(self, number: int, call: int, status: int, t: float, dt: float) -> None:
        del number, call
        self._stepper.judge(status, self._memory, t + dt, dt)

    def steps(self) -> Iterator[tuple[str, Array]]:
        where, first = self._stepper.memory.where, STEP_PORTS[0].name
        for name in self._parts:
            if (start := where.get(f"{name}.{first}")) is not None:
                yield name, self._memory[start.start : start.start + len(STEP_PORTS)]

    def close(self) -> None:
        """Has nothing to free."""


def _instance(part: Part, steppers: Mapping[str, Any]) -> Instance:
    if isinstance(part.component, Block):
        return BlockInstance(part, steppers[part.name])
    if isinstance(part.component, Fmu) and isinstance(part.component.path, RemoteFile):
        return served_fmu(part)
    return isolated_fmu(part) if part.isolated else running_fmu(part)


def _named(name: str, error: BaseException) -> Exception:
    """An error of a part as one that names it."""
    if isinstance(error, FmuError):  # it does
        return error
    return PartError(f"'{name}': {said(error)}")


def said(error: BaseException) -> str:
    """The message of an error, with its type where that tells what is wrong."""
    if isinstance(error, ArithmeticError | RuntimeError) and type(error) is not ZeroDivisionError:
        return str(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ")
