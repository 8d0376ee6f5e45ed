"""Any FMU as a running part of a system, through FMPy."""

import abc
import ctypes
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from math import factorial
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.block.course import ORDER, inputs_at, mean_inputs
from rigidblocks.block.signal_types import texts_in
from rigidblocks.simulation.fmi2_interface import Fmi2
from rigidblocks.simulation.fmi3_interface import Fmi3
from rigidblocks.simulation.fmu_clocks import Clocks
from rigidblocks.simulation.fmu_interface import Interface
from rigidblocks.simulation.fmu_values import Group, PortValues, set_start
from rigidblocks.simulation.instance import Instance
from rigidblocks.simulation.table import FMI2, FMI3, UNUSUAL, Entry
from rigidblocks.system.fmu import Fmu, FmuError
from rigidblocks.system.fmu_file import MODEL_EXCHANGE
from rigidblocks.system.part import Part

EVENTS = 1000  # in one communication step, or iterations of one event: more do not end


def interface_of(part: Part) -> Interface:
    """An instance of a part's FMU; raises FmuError where it cannot be had."""
    assert isinstance(part.component, Fmu)
    return Fmi2(part) if part.component.version == 2 else Fmi3(part)


_STEP = -1  # the number of the moment that a step may go back to


@dataclass(frozen=True, eq=False)
class Moment:
    """A moment that an FMU can go back to: its own state, the values of its ports, those that its
    discrete inputs had last, when its clocks tick, and the motion of one that is integrated here.
    """

    state: ctypes.c_void_p
    inputs: Array
    outputs: Array
    last: list[Array]
    clocks: Any
    motion: Any = None


class RunningFmu(Instance):
    """An FMU that runs in this process."""

    def __init__(self, part: Part):
        assert isinstance(part.component, Fmu)
        self._part, self._fmu = part, part.component
        self._runs = self._started = False
        # what a step may go back to, and whether it may
        self._kept_by_number: dict[int, Moment] = {}
        self.may_return = np.zeros(1, dtype=np.int32)
        self.fmi = interface_of(part)
        self.given = PortValues(self.fmi, self._fmu.inputs)
        self.results = PortValues(self.fmi, self._fmu.outputs)
        self._discrete = [g for g in self.given.groups if self._has_events and g.is_discrete]
        self._held = [g for g in self.given.groups if g not in self._discrete]
        self._clocks = Clocks(self.fmi, self.results, self._has_events)
        self._last, self._t_start = _copies(self._discrete), 0.0

    @property
    def _has_events(self) -> bool:
        """Whether its events are handled here, in event mode."""
        return self._fmu.kind == MODEL_EXCHANGE or self.fmi.uses_events

    def input(self, name: str) -> Array:
        return self.given.flat[self.given.where[name]]

    def output(self, name: str) -> Array:
        return self.results.flat[self.results.where[name]]

    @property
    def inputs(self) -> Array:
        return self.given.flat

    @property
    def follows(self) -> bool:
        return follows(self._fmu)

    def outputs(self) -> Array:
        return self.results.flat

    def slopes(self, inputs: Array) -> Array | None:
        if not self._fmu.interface.providesDirectionalDerivative:
            return None
        found = np.full((len(self.results.flat), len(inputs)), np.nan)
        for known, unknown in product(self.given.groups, self.results.groups):
            for k in np.flatnonzero(np.isin(inputs, known.places)):
                seed = np.where(known.places == inputs[k], 1.0, 0.0)
                found[unknown.where, k] = known.directional(unknown, seed)
        return found

    def values(self) -> tuple[Array, Array]:
        """The values of all inputs and of all outputs, which stay valid."""
        return self.given.flat, self.results.flat

    def texts(self) -> list[str | bytes]:
        """The texts among the values of the outputs, which they carry by their numbers."""
        return texts_in(self.results.flat, self._fmu.outputs)

    def initialize(self, t: float) -> None:
        if not self._started:
            self.fmi.set_up(t)
            set_start(self.fmi, (*self._fmu.parameters, *self._fmu.states))
            self.fmi.enter_initialization(t)
            self._started, self._t_start = True, t
        self.given.set()
        self._last = _copies(self._discrete)
        self.results.get()

    def begin(self) -> None:
        self.fmi.call("ExitInitializationMode")
        self._runs = True
        self._begin()
        self.results.get()

    @abc.abstractmethod
    def _begin(self) -> None:
        """What follows the initialization."""

    def view(self, name: str) -> Array | None:
        """The values of an input or output, which stay valid; None for another name."""
        if name in self.given.where:
            return self.input(name)
        return self.output(name) if name in self.results.where else None

    def read(self, name: str) -> Array:
        """The values of a parameter or state as they are now in the FMU."""
        values = PortValues(self.fmi, (self._port(name),))
        values.get()
        return values.flat

    def change(self, name: str, values: Array) -> None:
        """Gives a tunable parameter other values while the run goes on.

        Raises FmuError for one that is not tunable.
        """
        if not self._fmu.is_tunable(name):
            raise FmuError(
                f"cannot set '{self._part.name}.{name}' while the run goes on: it is no tunable "
                "parameter; it can have another start value"
            )
        there = PortValues(self.fmi, (self._port(name),))
        there.flat[:] = np.ravel(values)
        there.set()

    def _port(self, name: str) -> Port:
        ports = (*self._fmu.parameters, *self._fmu.states)
        return next(port for port in ports if port.name == name)

    def save(self) -> None:
        self.keep(_STEP)

    def restore(self) -> None:
        self.go_back(_STEP)

    def keep(self, number: int) -> None:
        """Keeps this moment under a number, in place of what was kept there."""
        state = (
            self._kept_by_number[number].state
            if number in self._kept_by_number
            else ctypes.c_void_p()
        )
        self.fmi.save(state)
        self._kept_by_number[number] = replace(self._moment(), state=state)
        self.may_return[0] = True

    def go_back(self, number: int) -> None:
        """Goes back to the moment that was kept under a number; may be repeated."""
        moment = self._kept_by_number[number]
        self.fmi.restore(moment.state)
        self._go_to(moment)
        self.fmi.failed = False

    def forget(self, number: int) -> None:
        """Frees the moment that was kept under a number, where there is one."""
        moment = self._kept_by_number.pop(number, None)
        if moment is not None:
            self.fmi.free(moment.state)

    def _moment(self) -> "Moment":
        """What there is beside the FMU's own state."""
        values = self.given.flat.copy(), self.results.flat.copy()
        return Moment(ctypes.c_void_p(), *values, self._last, self._clocks.state())

    def _go_to(self, moment: "Moment") -> None:
        self.given.flat[:], self.results.flat[:] = moment.inputs, moment.outputs
        self._last = moment.last
        self._clocks.go_back(moment.clocks)

    def close(self) -> None:
        for number in list(self._kept_by_number):
            self.forget(number)
        self.fmi.close(self._runs)

    def _set_held(self) -> None:
        """Sets the inputs that need no event."""
        for group in self._held:
            if group.type != "Clock":
                group.set()

    def _has_discrete_news(self) -> bool:
        """Whether an input has changed that may change at events alone."""
        pairs = zip(self._discrete, self._last, strict=True)
        return any(np.any(group.values != last) for group, last in pairs)

    def _handle_event(self, t: float) -> tuple[bool, bool, float]:
        """Does what is due at t, in event mode; returns what `_iterate` does."""
        self._clocks.tick(t)
        for group in self._discrete:
            if group.type != "Clock" or np.any(group.values):
                group.set()
        self._last = _copies(self._discrete)
        self._clocks.read()
        found = self._iterate()
        self._clocks.read()  # an update may have ticked them
        self._clocks.look_ahead(t)
        return found

    def _iterate(self) -> tuple[bool, bool, float]:
        """Updates the discrete states in event mode until that changes nothing more: whether
        nominal values and states have changed, and the time of the next event.
        """
        nominals = states = False
        for _ in range(EVENTS):
            update = self.fmi.update_discrete_states()
            nominals, states = nominals or update.nominals_changed, states or update.states_changed
            if not update.again:
                return nominals, states, update.next_event
        raise self.fmi.refuse(f"its event takes more than {EVENTS} iterations")


class FmuInstance(RunningFmu):
    """A co-simulation FMU that runs in this process.

    Where it leaves its events to the importer, they are handled where they happen, also inside a
    communication step, and its clocks tick at the multiples of their intervals.
    """

    def _begin(self) -> None:
        if self._has_events:
            self._clocks.start(self._t_start)
            self._handle_event(self._t_start)
            self.fmi.call("EnterStepMode")

    def step(self, t: float, dt: float) -> None:
        self.fmi.log.clock[0] = t
        if self._has_events:
            self._step_through_events(t, dt)
        else:
            self.given.set()
            self.fmi.do_step(t, dt, bool(self.may_return[0]))
        self.results.get()

    def follow(self, course: Array, t: float, dt: float) -> None:
        if self.follows:
            self.given.flat[:] = course[0]
            self.fmi.log.clock[0] = t
            self.given.set()
            self._set_derivatives(course)
            self.fmi.do_step(t, dt, bool(self.may_return[0]))
            self.results.get()
        else:
            self.given.flat[:] = mean_inputs(course, dt)
            self.step(t, dt)
        self.given.flat[:] = inputs_at(course, dt)

    def _set_derivatives(self, course: Array) -> None:
        """Tells the derivatives of the inputs at the beginning of a step."""
        for k in range(1, ORDER + 1):
            for group in self._held:
                if group.type == "Real" and np.any(course[k][group.where]):
                    group.set_derivatives(k, factorial(k) * course[k][group.where])

    def entry(self) -> Entry:
        to, of = self.given.variables("Set"), self.results.variables("Get")
        if self._has_events or to is None or of is None:
            return super().entry()
        version = FMI2 if self._fmu.version == 2 else FMI3
        function, component = self.fmi.bound("DoStep")[1:]
        step = ctypes.cast(function, ctypes.c_void_p).value or 0
        return Entry(version, component, step, to, of, self.fmi.log.clock, self.may_return)

    def judge(self, call: int, status: int, t: float, dt: float) -> None:
        del t, dt  # the clock has the time
        if status == UNUSUAL:
            raise self.fmi.refuse("it asks to end the simulation, or has ended a step early")
        kind = "Real" if self._fmu.version == 2 else "Float64"
        name = (f"Set{kind}", "DoStep", f"Get{kind}")[call]
        self.fmi.judge(self.fmi.prefix + name, status)

    def _step_through_events(self, t: float, dt: float) -> None:
        self._clocks.still()
        self._set_held()
        if self._has_discrete_news():
            self._event(t)
        now, end = t, t + dt
        for _ in range(EVENTS):
            target = min(end, self._clocks.next)
            target = end if end - target <= 1e-9 * dt else target
            whole = target == end and now == t
            reached, event = self.fmi.do_step(
                now, dt if whole else target - now, bool(self.may_return[0])
            )
            now = target if target - reached <= 1e-9 * dt else reached
            if event or self._clocks.next <= now + 1e-9 * dt:
                self._event(now)
            if now == end:
                return
        raise self.fmi.refuse(f"it has more than {EVENTS} events in a step of {dt:g} s")

    def _event(self, t: float) -> None:
        self.fmi.call("EnterEventMode")
        self._handle_event(t)
        self.fmi.call("EnterStepMode")


def follows(fmu: Fmu) -> bool:
    """Whether inputs can follow polynomials within a step: FMI 2.0 has derivatives of inputs for
    FMUs that take them, and the equations of model exchange are integrated here.
    """
    if fmu.kind == MODEL_EXCHANGE:
        return True
    return fmu.version == 2 and bool(fmu.interface.canInterpolateInputs)


def _copies(groups: Iterable[Group]) -> list[Array]:
    return [group.values.copy() for group in groups]
