"""Networks of parts in a run: connected instances, or a fused system with one memory vector."""

import abc
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from math import inf
from typing import Any

import numpy as np

from rigidblocks.block.adaptive_methods import STEP_PORTS
from rigidblocks.block.block import Block
from rigidblocks.block.stepper import time_tolerance
from rigidblocks.cosim.fmu_import.fmu_interface import Unpacked
from rigidblocks.cosim.fmu_import.library_sharing import is_trusted, reuse_of
from rigidblocks.cosim.fmu_import.model_exchange import running_fmu
from rigidblocks.cosim.fmu_import.remote_instance import isolated_fmu, served_fmu
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.graph.remote_fmu import RemoteFile
from rigidblocks.cosim.masters.c_loop_tables import BLOCK, Entry, LongStep, Row, Scale, Wire
from rigidblocks.cosim.masters.initialization import Initialization
from rigidblocks.cosim.masters.part_instance import BlockInstance, Instance
from rigidblocks.cosim.masters.run_plan import Plan, make_for_part
from rigidblocks.cosim.scenario import NewValues
from rigidblocks.spatial.spatial import Array

# minimum number of instances of one FMU for a shared library; for fewer instances, the test takes
# more time than the library saves (found by trial)
_MIN_INSTANCES = 8


class PartError(RuntimeError):
    """Error of a part during a run; the message contains the name of the part."""


class Network(abc.ABC):
    """Base class of networks, which contain the part instances of a system.

    `outputs` maps names `part.port` to views of the flattened values of the outputs. The views
    remain valid during the run. Parts are numbered in stepping order.
    """

    outputs: Mapping[str, Array]

    @abc.abstractmethod
    def start(self, t: float, t_stop: float = inf) -> None:
        """Compute the outputs at the start time t [s]; call this method once for each run.

        `t_stop` is the end of the run [s], or infinity if it is not known. No part is evaluated at
        a later time.
        """

    @property
    @abc.abstractmethod
    def restarts(self) -> bool:
        """True if the network can be reused for another run (see `restart`)."""

    @abc.abstractmethod
    def restart(self, plan: Plan) -> bool:
        """Reset all values to the start values of a plan.

        Returns False and changes nothing if the plan needs new instances.
        """

    @abc.abstractmethod
    def end(self) -> None:
        """End the run of all parts. The caller then calls `restart` or `close`."""

    @abc.abstractmethod
    def view(self, name: str) -> Array | None:
        """Return a view of the flattened values of a port `part.port`; None if it has no view.

        The view remains valid during the run. If a port has no view, use `read` and `change`.
        """

    @abc.abstractmethod
    def read(self, name: str) -> Array:
        """Return the flattened values of a port for which `view` returns None."""

    @abc.abstractmethod
    def change(self, name: str, values: Array, t: float) -> None:
        """Set a tunable parameter without a view (`view`), at the communication point t [s]."""

    @abc.abstractmethod
    def save_state(self, number: int) -> None:
        """Save the current state, inputs and outputs under the key `number`."""

    @abc.abstractmethod
    def restore_state(self, number: int) -> None:
        """Restore the state with the key `number`; it can be restored repeatedly."""

    @abc.abstractmethod
    def free_state(self, number: int) -> None:
        """Delete the state with the key `number`."""

    @abc.abstractmethod
    def saved_arrays(self, number: int) -> dict[str, Array]:
        """Return the state with the key `number` as arrays by name, which a file can store.

        Raises ValueError for a part whose state cannot be written to a file.
        """

    @abc.abstractmethod
    def load_arrays(self, number: int, arrays: Mapping[str, Array]) -> None:
        """Store arrays that `saved_arrays` has returned as the state with the key `number`."""

    @abc.abstractmethod
    def table(self) -> Sequence[Row]:
        """Return the table of the C loop: one row for each part, with its entry and input wires."""

    @property
    @abc.abstractmethod
    def unchecked_outputs(self) -> Iterable[Array]:
        """Return the outputs that the master, not the part, must check for NaN and infinity."""

    @abc.abstractmethod
    def step(self, number: int, t: float, dt: float) -> None:
        """Step the part `number` with constant inputs; error messages contain the part name."""

    @abc.abstractmethod
    def check_status(self, number: int, call: int, status: int, t: float, dt: float) -> None:
        """Process a nonzero status of a C call in the step of a part from t to t + dt [s].

        `number` is the number of the part, and `call` is the code of the call in
        `c/master/loop_tables.h`. `Instance.check_status` processes the status.
        """

    @abc.abstractmethod
    def steps(self) -> Iterator[tuple[str, Array]]:
        """Yield pairs (part name, data of the step size control) of parts with adaptive methods.

        `STEP_PORTS` lists the elements of the data.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Free the resources of the parts."""

    def set_values(self, changes: Iterable[NewValues], t: float) -> None:
        """Set new values of ports and of port elements, at the communication point t [s]."""
        for port, elements, places, values in changes:
            view = self.view(port)
            if view is not None:
                view[list(places)] = values
                continue
            opened = [self.view(one) for one in elements]
            if all(one is not None for one in opened):
                for one, number in zip(opened, values, strict=True):
                    one[:] = number  # type: ignore[index]
                continue
            all_values = self.read(port).copy()
            all_values[list(places)] = values
            self.change(port, all_values, t)

    def row(self) -> Array:
        """Return all outputs of all parts in one array."""
        return np.concatenate(list(self.outputs.values()) or [np.zeros(0)])


class Instances(Network):
    """Network with a separate instance for each part of a run."""

    def __init__(self, plan: Plan):
        self._wiring, self.order = plan.wiring, plan.stepping_order
        self._plan = plan
        self.by_name: dict[str, Instance] = {}
        libraries = SharedLibraries(plan.wiring.parts.values(), plan.t_start, plan.dt)
        try:
            for name, part in plan.wiring.parts.items():
                make = partial(_instance, part, plan.steppers, libraries)
                self.by_name[name] = make_for_part(name, make)
        except BaseException:
            self.close()
            raise
        self.wires: dict[str, list[Wire]] = {name: [] for name in plan.wiring.parts}
        self._scales: dict[str, list[Scale]] = {name: [] for name in plan.wiring.parts}
        self._connect()
        self._initialization = self._initialization_of(plan)
        self._in_order = [self.by_name[name] for name in self.order]
        self._slow = {
            self.order.index(name): LongStep(n, plan.t_start, plan.dt, n * plan.dt)
            for name, n in plan.slow_parts.items()
        }
        distant = [
            k for k, one in enumerate(self._in_order) if one.is_distant and k not in self._slow
        ]
        self._sent_together = distant if plan.is_simultaneous else []
        self.outputs = {
            plan.wiring.whole_name(name, port.name): self.by_name[name].output(port.name)
            for name, part in plan.wiring.parts.items()
            for port in part.component.outputs
        }

    def _connect(self) -> None:
        """Create the wires to each part, and their unit conversions."""
        for wire in self._wiring.wires:
            (a, y), (b, u), start, to, length = wire
            source = self.by_name[a].output(y)[start : start + length]
            target = self.by_name[b].input(u)[to : to + length]
            self.wires[b].append((source, target))
            if (conversion := self._wiring.conversion(wire)) is not None:
                self._scales[b].append((target, conversion))

    def start(self, t: float, t_stop: float = inf) -> None:
        for instance in self.by_name.values():
            instance.set_stop_time(t_stop)
        self._initialization.run(t)
        self._initialization.end()

    @property
    def restarts(self) -> bool:
        return all(one.restarts for one in self.by_name.values()) and self._resets_are_complete

    @cached_property
    def _resets_are_complete(self) -> bool:
        """True if tests have shown that each FMU behaves like a new instance after a reset."""
        fmus = {part.component for part in self._wiring.parts.values()}
        times = self._plan.t_start, self._plan.dt
        return all(reuse_of(fmu, *times).resets for fmu in fmus if isinstance(fmu, Fmu))

    def restart(self, plan: Plan) -> bool:
        if not self.restarts:
            return False
        for name, instance in self.by_name.items():
            restart = partial(instance.restart, plan.wiring.parts[name])
            self.call_and_name_errors(name, restart)
        if plan is not self._plan:
            self._plan = plan
            self._initialization = self._initialization_of(plan)
        return True

    def _initialization_of(self, plan: Plan) -> Initialization:
        return Initialization(plan, self.by_name, self.read_inputs, self.call_and_name_errors)

    def end(self) -> None:
        for instance in self.by_name.values():
            instance.end()

    def view(self, name: str) -> Array | None:
        part, port = self._wiring.locate_port(name)
        return self.by_name[part].view(port)

    def read(self, name: str) -> Array:
        part, port = self._wiring.locate_port(name)
        return self.by_name[part].read(port)

    def change(self, name: str, values: Array, t: float) -> None:
        part, port = self._wiring.locate_port(name)
        self.by_name[part].change(port, values, t)

    def save_state(self, number: int) -> None:
        for instance in self.by_name.values():
            instance.save_state(number)

    def restore_state(self, number: int) -> None:
        for instance in self.by_name.values():
            instance.restore_state(number)

    def free_state(self, number: int) -> None:
        for instance in self.by_name.values():
            instance.free_state(number)

    def saved_arrays(self, number: int) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for name, instance in self.by_name.items():
            try:
                arrays = instance.saved_arrays(number)
            except ValueError as error:
                raise ValueError(f"cannot save the state of '{name}': {error}") from None
            found |= {f"{name}.{key}": values for key, values in arrays.items()}
        return found

    def load_arrays(self, number: int, arrays: Mapping[str, Array]) -> None:
        for name, instance in self.by_name.items():
            own = {key.partition(".")[2]: one for key, one in arrays.items() if
                   key.partition(".")[0] == name}  # fmt: skip
            instance.load_arrays(number, own)

    def due_steps(
        self, whole: tuple[float, float], t: float, dt: float
    ) -> list[tuple[int, tuple[float, float], float, float]]:
        """Return the parts that step from t to t + dt, within the communication step `whole`.

        The communication step of a part may be longer than that of the run. Such a part is included
        only if its communication step ends at t + dt. Each item contains the number of the part,
        the start and length of its whole communication step, and the start and length of the step
        to take [s].
        """
        ends = abs(t + dt - sum(whole)) <= time_tolerance(sum(whole), 0.0)
        found = []
        for number in range(len(self.order)):
            slow = self._slow.get(number)
            if slow is None:
                found.append((number, whole, t, dt))
            elif ends and (own := slow.step_at(whole[0])) is not None:
                found.append((number, own, *own))
        return found

    def read_inputs_in_order(self, due: Iterable[int], *, is_simultaneous: bool) -> Iterator[int]:
        """Read the inputs of the parts `due`; yield the position of each part when it can step.

        `due` contains the numbers of the parts. The caller steps each part before it requests the
        next position. If `is_simultaneous` is true, all parts read their inputs before the first
        step (Jacobi). Otherwise, each part reads its inputs before its own step (Gauss-Seidel).
        """
        names = [self.order[number] for number in due]
        if is_simultaneous:
            for name in names:
                self.read_inputs(name)
        for k, name in enumerate(names):
            if not is_simultaneous:
                self.read_inputs(name)
            yield k

    def read_inputs(self, name: str) -> None:
        """Copy the connected inputs of a part from their sources, and convert the units."""
        for source, target in self.wires[name]:
            target[:] = source
        for target, conversion in self._scales[name]:
            target[:] = conversion.apply(target)

    def table(self) -> Sequence[Row]:
        return [
            Row(self.by_name[name].entry(), self.wires[name], self._scales[name], self._slow.get(k))
            for k, name in enumerate(self.order)
        ]

    @property
    def unchecked_outputs(self) -> Iterable[Array]:
        return [
            one.output(port.name)
            for name, one in self.by_name.items()
            if one.entry().kind != BLOCK
            for port in self._wiring.parts[name].component.outputs
        ]

    def step(self, number: int, t: float, dt: float) -> None:
        self.step_within((t, dt), number, t, dt)

    def step_within(self, whole: tuple[float, float], number: int, t: float, dt: float) -> None:
        """Step the part `number` within the communication step `whole` (`Instance.step_within`)."""
        if self._sent_together and number == self._sent_together[0]:
            # all parts have read their inputs, so parts in other processes can step in parallel
            for k in self._sent_together:
                self.call_and_name_errors(
                    self.order[k], partial(self._in_order[k].send_step, t, dt)
                )
        self.call_and_name_errors(
            self.order[number], partial(self._in_order[number].step_within, whole, t, dt)
        )

    def call_and_name_errors(self, name: str, call: Callable[[], None]) -> None:
        """Call a function of a part; if it fails, add the part name to the error message."""
        try:
            call()
        except (Exception, SystemExit) as error:
            raise _add_part_name(name, error) from error

    def check_status(self, number: int, call: int, status: int, t: float, dt: float) -> None:
        try:
            self._in_order[number].check_status(call, status, t, dt)
        except (Exception, SystemExit) as error:
            raise _add_part_name(self.order[number], error) from error

    def steps(self) -> Iterator[tuple[str, Array]]:
        for name, instance in self.by_name.items():
            if isinstance(instance, BlockInstance) and len(instance.steps):
                yield name, instance.steps

    def close(self) -> None:
        for instance in self.by_name.values():
            instance.close()


class SharedLibraries:
    """Shared libraries of FMUs: each FMU is unpacked once for all instances that share its library.

    Args:
        parts: Parts of the run.
        t_start: Start time of the run [s].
        dt: Communication step of the run [s].
    """

    def __init__(self, parts: Collection[Part], t_start: float, dt: float):
        self._times = t_start, dt
        self._count = Counter(part.component for part in parts if _runs_here(part))
        self._unpacked: dict[Fmu, Unpacked] = {}

    def shared_fmu(self, part: Part) -> Unpacked | None:
        """Return the unpacked FMU that the instance of a part shares with other instances.

        The result is None if the instance needs its own copy of the FMU.
        """
        fmu = part.component
        assert isinstance(fmu, Fmu)
        n = self._count[fmu]
        if part.has_own_library or n < 2 or not (n >= _MIN_INSTANCES or is_trusted(fmu)):
            return None
        if not reuse_of(fmu, *self._times).shares:
            return None
        if fmu not in self._unpacked:
            self._unpacked[fmu] = Unpacked(fmu)
        return self._unpacked[fmu]


def _runs_here(part: Part) -> bool:
    """Return True if a part is an FMU that runs in this process."""
    is_remote = isinstance(part.component, Fmu) and isinstance(part.component.path, RemoteFile)
    return isinstance(part.component, Fmu) and not part.isolated and not is_remote


class OneMemory(Network):
    """Network for a fused system, which is one compiled block with one memory vector."""

    def __init__(self, plan: Plan):
        self._stepper, self._parts = plan.fused, plan.wiring.parts
        where = self._stepper.memory.where
        self._memory = np.empty(self._stepper.memory.size)
        self._kept: dict[int, Array] = {}
        self.restart(plan)
        self.outputs = {port.name: self._memory[where[port.name]] for port in plan.wiring.outputs}

    def start(self, t: float, t_stop: float = inf) -> None:
        del t_stop  # a block does not use the end time of the run
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
                elif key in ports:  # an input with connected elements; set the other elements
                    for one, number in zip(ports[key].element_names, np.ravel(value), strict=True):
                        whole = plan.wiring.whole_name(name, one)
                        if (place := where.get(whole)) is not None:
                            self._memory[place] = number
        return True

    def view(self, name: str) -> Array | None:
        place = self._stepper.memory.where.get(name)
        return None if place is None else self._memory[place]

    def read(self, name: str) -> Array:
        raise ValueError(f"a fused run does not store the connected input {name}; read its source")

    def change(self, name: str, values: Array, t: float) -> None:
        raise NotImplementedError

    def save_state(self, number: int) -> None:
        self._kept[number] = self._memory.copy()

    def restore_state(self, number: int) -> None:
        self._memory[:] = self._kept[number]

    def free_state(self, number: int) -> None:
        self._kept.pop(number, None)

    def saved_arrays(self, number: int) -> dict[str, Array]:
        return {"memory": self._kept[number]}

    def load_arrays(self, number: int, arrays: Mapping[str, Array]) -> None:
        self._kept[number] = arrays["memory"]

    def table(self) -> Sequence[Row]:
        return [Row(Entry(BLOCK, self._memory.ctypes.data, self._stepper.sample_step_address))]

    @property
    def unchecked_outputs(self) -> Iterable[Array]:
        return ()

    def step(self, number: int, t: float, dt: float) -> None:
        del number  # a fused system is one part
        self._stepper.part(self._memory, t, t + dt, True)

    def check_status(self, number: int, call: int, status: int, t: float, dt: float) -> None:
        del number, call
        self._stepper.check_status(status, self._memory, t + dt, dt)

    def steps(self) -> Iterator[tuple[str, Array]]:
        where, first = self._stepper.memory.where, STEP_PORTS[0].name
        for name in self._parts:
            if (start := where.get(f"{name}.{first}")) is not None:
                yield name, self._memory[start.start : start.start + len(STEP_PORTS)]

    def end(self) -> None:
        """Do nothing, because a fused system has no FMUs to terminate."""

    def close(self) -> None:
        """Do nothing, because a fused system has no resources to free."""


def _instance(part: Part, steppers: Mapping[str, Any], libraries: SharedLibraries) -> Instance:
    if isinstance(part.component, Block):
        return BlockInstance(part, steppers[part.name])
    if isinstance(part.component, Fmu) and isinstance(part.component.path, RemoteFile):
        return served_fmu(part)
    return isolated_fmu(part) if part.isolated else running_fmu(part, libraries.shared_fmu(part))


def _add_part_name(name: str, error: BaseException) -> Exception:
    """Return an error whose message contains the part name and the message of `error`."""
    if isinstance(error, FmuError):  # the message already contains the name of the part
        return error
    return PartError(f"'{name}': {error_text(error)}")


def error_text(error: BaseException) -> str:
    """Return the error message, which begins with the type name for most error types.

    A RuntimeError or an ArithmeticError other than ZeroDivisionError has no type name in front.
    """
    if isinstance(error, ArithmeticError | RuntimeError) and type(error) is not ZeroDivisionError:
        return str(error)
    return f"{type(error).__name__}: {error}".removesuffix(": ")
