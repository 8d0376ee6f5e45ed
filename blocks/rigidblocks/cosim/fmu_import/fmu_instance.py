"""FMU instances that run in this process through FMPy."""

import abc
import ctypes
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import factorial, inf
from typing import Any

import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.block.evaluators import MAX_INPUT_ORDER, evaluate_inputs, mean_inputs
from rigidblocks.block.port import texts_in
from rigidblocks.block.stepper import time_tolerance
from rigidblocks.cosim.fmu_import.fmi1_interface import Fmi1
from rigidblocks.cosim.fmu_import.fmu_clocks import Clocks, Partitions
from rigidblocks.cosim.fmu_import.fmu_interface import (
    WITHOUT_EVENT_MODE,
    Fmi2,
    Fmi3,
    Interface,
    Unpacked,
)
from rigidblocks.cosim.fmu_import.fmu_values import PortValues, configure, set_start
from rigidblocks.cosim.graph.fmu_file import MODEL_EXCHANGE
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.masters.c_loop_tables import (
    ACTIVATE_PARTITION,
    BAD_INTERVAL,
    CALLS,
    DENSE_EVENTS,
    EARLY_RETURN,
    ENTER_EVENT_MODE,
    ENTER_STEP_MODE,
    EVENTS,
    FMI1,
    FMI2,
    FMI3,
    GET,
    GET_CLOCKS,
    GET_INTERVAL,
    MANY_EVENTS,
    MANY_UPDATES,
    SET,
    SET_CLOCKS,
    SET_DISCRETE,
    STEP,
    STEP_EVENTS,
    TERMINATES,
    UPDATE,
    Entry,
    Events,
    single_part_step,
)
from rigidblocks.cosim.masters.part_instance import Instance
from rigidblocks.spatial.spatial import Array


def interface_of(part: Part, shared: Unpacked | None = None) -> Interface:
    """Instantiate the FMU of a part, from its file or the unpacked FMU `shared`.

    Raises FmuError on failure.
    """
    assert isinstance(part.component, Fmu)
    return _INTERFACES[part.component.version](part, shared)


_INTERFACES: dict[int, Callable[[Part, Unpacked | None], Interface]] = {1: Fmi1, 2: Fmi2, 3: Fmi3}


_STEP = -1  # key of the state that `save` stores


class EventCount:
    """Counter of the events in a communication step, and of consecutive events at the same time.

    The C loop counts the events in the same way.
    """

    def __init__(self) -> None:
        self._time, self._at_time, self._in_step = 0.0, 0, 0

    def add(self, t: float, tolerance: float) -> int:
        """Count an event at the time t [s]; return 0, or a nonzero status for too many events.

        Events at most `tolerance` [s] apart count as events at the same time.
        """
        if self._at_time == 0 or t > self._time + tolerance:
            self._time, self._at_time = t, 0
        self._at_time += 1
        self._in_step += 1
        if self._at_time > EVENTS:
            return MANY_EVENTS
        return DENSE_EVENTS if self._in_step > STEP_EVENTS else 0


@dataclass(frozen=True, eq=False)
class SavedState:
    """Saved state of an FMU instance: the FMU state and the data of the importer.

    The importer stores the port values, the last values of the discrete inputs, and the next ticks
    of the clocks. For model exchange, `motion` is the state of the integrator.
    """

    state: ctypes.c_void_p
    inputs: Array
    outputs: Array
    last: Array
    clocks: Any
    motion: Any = None


class RunningFmu(Instance):
    """Instance of an FMU in this process; base class for co-simulation and model exchange.

    `shared` is an unpacked FMU, whose library several instances may use. By default, the instance
    unpacks its own copy.
    """

    def __init__(self, part: Part, shared: Unpacked | None = None):
        assert isinstance(part.component, Fmu)
        self._part, self._fmu = part, part.component
        self._runs = self._started = False
        self._saved_states: dict[int, SavedState] = {}  # by key
        self.may_roll_back = np.zeros(1, dtype=np.int32)  # 1 if the master may repeat a step
        self.fmi = interface_of(part, shared)
        try:
            configure(self.fmi)
        except FmuError:
            self.fmi.close(False)
            raise
        self.given = PortValues(self.fmi, self._fmu.inputs)
        self.results = PortValues(self.fmi, self._fmu.outputs)
        values = self.given.variable_groups
        self._discrete = [group for group in values if self._has_events and group.is_discrete]
        self._held = [group for group in values if group not in self._discrete]
        self._clocks = self._new_clocks()
        if len(values) < len(self.given.groups) and not self._has_clocks:
            self.fmi.log.warn("its input clocks never tick, because it runs without event mode")
        # values of the discrete inputs at the last event
        self._last = np.zeros(sum(group.n for group in self._discrete))
        self._t_start = 0.0
        self._compiled_step: Callable[[float, float], None] | None = None
        self._has_c = True  # False if the first step finds no C compiler

    def _new_clocks(self) -> Clocks:
        """Return the clocks of the FMU in their state before a run."""
        return Clocks(self.fmi, self.given, self.results, self._has_clocks)

    @property
    def restarts(self) -> bool:
        is_only = self._fmu.interface.canBeInstantiatedOnlyOncePerProcess
        return not (is_only or self.fmi.failed or self.fmi.is_lost)

    def end(self) -> None:
        if self._runs:
            self.fmi.terminate()
        self._runs = False

    def restart(self, part: Part) -> None:
        self.end()
        self.set_stop_time(inf)
        self.fmi.reset(part)
        configure(self.fmi)
        self._part, self._started = part, False
        self.may_roll_back[0] = bool(self._saved_states)
        self.given.restart()
        self.results.restart()
        self._last[:] = 0.0
        self._clocks.restart()

    @property
    def _has_events(self) -> bool:
        """True if the importer handles the events of the FMU in event mode."""
        return self._fmu.kind == MODEL_EXCHANGE or self.fmi.uses_events

    @property
    def _has_clocks(self) -> bool:
        """True if the importer activates the clocks of the FMU."""
        return self._has_events

    def input(self, name: str) -> Array:
        return self.given.flat[self.given.where[name]]

    def output(self, name: str) -> Array:
        return self.results.flat[self.results.where[name]]

    @property
    def inputs(self) -> Array:
        return self.given.flat

    @property
    def supports_polynomial_inputs(self) -> bool:
        return supports_polynomial_inputs(self._fmu)

    def set_stop_time(self, t_stop: float) -> None:
        self.fmi.stop_time = t_stop

    def outputs(self) -> Array:
        return self.results.flat

    def output_jacobian(self, inputs: Array) -> Array | None:
        if not self._fmu.interface.providesDirectionalDerivative:
            return None
        found = np.full((len(self.results.flat), len(inputs)), np.nan)
        for known, unknown in product(self.given.groups, self.results.groups):
            for k in np.flatnonzero(np.isin(inputs, known.places)):
                seed = np.where(known.places == inputs[k], 1.0, 0.0)
                found[unknown.where, k] = known.directional(unknown, seed)
        return found

    def values(self) -> tuple[Array, Array]:
        """Return views of all input and output values; the views remain valid during the run."""
        return self.given.flat, self.results.flat

    def texts(self) -> list[str | bytes]:
        """Return the values of all string and binary outputs."""
        return texts_in(self.results.flat, self._fmu.outputs)

    def initialize(self, t: float, outputs: Collection[str] | None = None) -> None:
        if not self._started:
            self.fmi.set_up(t)
            set_start(self.fmi, (*self._fmu.parameters, *self._fmu.states))
            if self._fmu.version == 1:  # the FMI 1.0 initialization uses the inputs
                self.given.set()
                self._last[:] = self._discrete_values()
            self.fmi.enter_initialization(t)
            self._clocks.set_intervals()
            self._started, self._t_start = True, t
        self.fmi.has_changed_inputs |= self._has_discrete_changes()
        self.given.set()
        self._last[:] = self._discrete_values()
        self.results.get(outputs)

    def begin(self) -> None:
        self.fmi.call("ExitInitializationMode")
        self._runs = True
        self._begin()
        self.results.get()

    @abc.abstractmethod
    def _begin(self) -> None:
        """Call the FMI functions that follow the initialization."""

    def view(self, name: str) -> Array | None:
        """Return a view of an input or output port; return None for any other port.

        The view remains valid during the run.
        """
        if name in self.given.where:
            return self.input(name)
        return self.output(name) if name in self.results.where else None

    def read(self, name: str) -> Array:
        """Return the current values of a parameter or state of the FMU."""
        values = PortValues(self.fmi, (self._port(name),))
        values.get()
        return values.flat

    def change(self, name: str, values: Array, t: float) -> None:
        """Set a tunable parameter at the communication point t [s].

        If the importer handles the events of the FMU, it sets the parameter in event mode, because
        FMI permits the change only there. Raises FmuError for a parameter that is not tunable.
        """
        if not self._fmu.is_tunable(name):
            raise FmuError(
                f"cannot set '{self._part.name}.{name}' during the run: it is not a tunable "
                "parameter; set its start value instead"
            )
        there = PortValues(self.fmi, (self._port(name),))
        there.flat[:] = np.ravel(values)
        if self._runs and self._has_events:
            self._change_in_event(there, t)
        else:
            there.set()

    @abc.abstractmethod
    def _change_in_event(self, parameters: PortValues, t: float) -> None:
        """Set parameters in event mode at the time t [s], and handle this event."""

    def _port(self, name: str) -> Port:
        ports = (*self._fmu.parameters, *self._fmu.states)
        return next(port for port in ports if port.name == name)

    def step(self, t: float, dt: float) -> None:
        if self._compiled_step is None and self._has_c:
            self._compiled_step = self._c_step()
            self._has_c = self._compiled_step is not None
        (self._step_in_python if self._compiled_step is None else self._compiled_step)(t, dt)

    def _c_step(self) -> Callable[[float, float], None] | None:
        """Return a function that steps the instance in C, or None without a C compiler."""
        return single_part_step(self.entry(), self.check_status)

    @abc.abstractmethod
    def _step_in_python(self, t: float, dt: float) -> None:
        """Step the instance in Python, as the C loop does; for machines without a C compiler."""

    def save(self) -> None:
        self.save_state(_STEP)

    def restore(self) -> None:
        self.restore_state(_STEP)

    def save_state(self, number: int) -> None:
        """Save the current state under the key `number`; replace a state with the same key."""
        state = (
            self._saved_states[number].state if number in self._saved_states else ctypes.c_void_p()
        )
        self.fmi.save(state)
        self._saved_states[number] = replace(self._importer_state(), state=state)
        self.may_roll_back[0] = True

    def restore_state(self, number: int) -> None:
        """Restore the state with the key `number`; it can be restored repeatedly."""
        stored = self._saved_states[number]
        self.fmi.restore(stored.state)
        self._restore_importer_state(stored)
        self.fmi.failed = False

    def free_state(self, number: int) -> None:
        """Free the state with the key `number`, if it exists."""
        stored = self._saved_states.pop(number, None)
        if stored is not None:
            self.fmi.free(stored.state)

    def saved_arrays(self, number: int) -> dict[str, Array]:
        stored = self._saved_states[number]
        if not self._fmu.interface.canSerializeFMUstate:
            raise ValueError(
                f"the FMU {self._fmu.path} cannot write its state to a file: canSerializeFMUstate "
                "is false in its model description"
            )
        data = np.frombuffer(self.fmi.serialize(stored.state), dtype=np.uint8)
        motion = {f"motion{k}": one for k, one in enumerate(stored.motion or ())}
        clocks = np.array(json.dumps(stored.clocks))
        arrays = {"inputs": stored.inputs, "outputs": stored.outputs, "last": stored.last}
        return {"state": data, "clocks": clocks, **arrays, **motion}

    def load_arrays(self, number: int, arrays: Mapping[str, Array]) -> None:
        count = sum(name.startswith("motion") for name in arrays)
        self._saved_states[number] = SavedState(
            self.fmi.deserialize(arrays["state"].tobytes()),
            arrays["inputs"],
            arrays["outputs"],
            arrays["last"],
            json.loads(str(arrays["clocks"])),
            tuple(arrays[f"motion{k}"] for k in range(count)) or None,
        )

    def _importer_state(self) -> "SavedState":
        """Return the saved state of the importer, without the FMU state."""
        values = self.given.flat.copy(), self.results.flat.copy()
        return SavedState(ctypes.c_void_p(), *values, self._last.copy(), self._clocks.state())

    def _restore_importer_state(self, stored: "SavedState") -> None:
        self.given.flat[:], self.results.flat[:] = stored.inputs, stored.outputs
        self._last[:] = stored.last
        self._clocks.restore_state(stored.clocks)

    def close(self) -> None:
        for number in list(self._saved_states):
            self.free_state(number)
        self.fmi.close(self._runs)

    def _set_held(self) -> None:
        """Set the inputs that can change without an event.

        If the FMU supports event mode, these inputs are the continuous inputs; otherwise, all
        inputs.
        """
        for group in self._held:
            group.set()

    def _needs_event_at_start(self) -> bool:
        """Return True if a step begins with an event.

        This event occurs if a triggered clock ticks or a discrete input has changed.
        """
        return self._has_discrete_changes() or self._clocks.are_triggered

    def _has_discrete_changes(self) -> bool:
        return bool(np.any(self._discrete_values() != self._last))

    def _discrete_values(self) -> Array:
        """Return the current values of the discrete inputs in one array."""
        return np.concatenate([np.zeros(0), *(group.values for group in self._discrete)])

    def _handle_event(self, t: float, tolerance: float = 0.0) -> tuple[bool, bool, float]:
        """Handle an event at the time t [s] in event mode; return the result of `_iterate`.

        A clock also ticks if its next tick is at most `tolerance` [s] after t.
        """
        self._clocks.tick(t, tolerance)
        for group in self._discrete:
            group.set()
        self._last[:] = self._discrete_values()
        self._clocks.read()
        found = self._iterate()
        self._clocks.read()  # an update may activate output clocks
        self._clocks.look_ahead(t)
        return found

    def _iterate(self) -> tuple[bool, bool, float]:
        """Update the discrete states in event mode until convergence.

        Returns two Booleans and the time of the next event [s]. The first Boolean is True if
        nominal values have changed, the second if continuous states have changed.
        """
        nominals = states = False
        for _ in range(EVENTS):
            update = self.fmi.update_discrete_states()
            nominals, states = nominals or update.nominals_changed, states or update.states_changed
            if not update.again:
                return nominals, states, update.next_event
        raise self._many_updates()

    def _address(self, function: str) -> int:
        """Return the address of an FMI function, or 0 if the FMI version does not define it."""
        if not self.fmi.needs_call(function):
            return 0
        return ctypes.cast(self.fmi.find_function(function)[1], ctypes.c_void_p).value or 0

    def _check_values_status(self, number: int, call: int, status: int) -> None:
        """Raise FmuError if the C loop failed to set or get a group of variables.

        `number` is the index of the group. `call` identifies the FMI function, for example GET, and
        `status` is the FMI status of the call.
        """
        if call == GET:
            self.results.variable_groups[number].check_status("Get", status)
        else:
            (self._held if call == SET else self._discrete)[number].check_status("Set", status)

    def _check_clocks_status(self, call: int, clock: int, status: int) -> None:
        """Raise FmuError if the C loop failed to set or read clocks.

        `call` identifies the FMI function, and `status` is the status of the call. If the interval
        of a clock is invalid, `status` is `BAD_INTERVAL` and `clock` is the index of the clock. For
        other errors, `clock` has no meaning.
        """
        if status == BAD_INTERVAL:
            self._clocks.reject_interval(clock)
        self.fmi.check_status(self.fmi.prefix + CLOCK_CALLS[call], status)

    def _check_count(self, excess: int, dt: float) -> None:
        """Raise FmuError if a step of dt [s] has too many events (`excess` is not 0)."""
        if excess == MANY_EVENTS:
            raise self.fmi.fmu_error(
                f"it has more than {EVENTS} events at the same time{self._cause_of_events}"
            )
        if excess == DENSE_EVENTS:
            raise self.fmi.fmu_error(f"it has more than {STEP_EVENTS} events in a step of {dt:g} s")

    @property
    def _cause_of_events(self) -> str:
        """Probable cause of too many events at the same time, for an error message."""
        return ""

    def _many_updates(self) -> FmuError:
        return self.fmi.fmu_error(f"its event iteration did not converge in {EVENTS} iterations")


FMI_KINDS = {1: FMI1, 2: FMI2, 3: FMI3}  # kind of a part in the C loop, by FMI version
_EVENT_CALLS = {
    ENTER_EVENT_MODE: "EnterEventMode",
    UPDATE: "UpdateDiscreteStates",
    ENTER_STEP_MODE: "EnterStepMode",
}
CLOCK_CALLS = {  # FMI 3.0 functions, without prefix
    SET_CLOCKS: "SetClock",
    GET_CLOCKS: "GetClock",
    GET_INTERVAL: "GetIntervalDecimal",
    ACTIVATE_PARTITION: "ActivateModelPartition",
}


class FmuInstance(RunningFmu):
    """Instance of a co-simulation FMU in this process.

    If the FMU supports event mode, the importer handles events at the event times, also within a
    communication step. The clocks of the FMU tick at multiples of their intervals.
    """

    def __init__(self, part: Part, shared: Unpacked | None = None):
        super().__init__(part, shared)
        # flags: 1 after the first event; 1 if the FMU has rejected event mode at the first event
        self._entered, self._refused = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)

    def restart(self, part: Part) -> None:
        super().restart(part)
        self._entered[0] = self._refused[0] = 0

    def _begin(self) -> None:
        if self._has_events:
            self._clocks.start(self._t_start)
            self._handle_event(self._t_start)
            self.fmi.call("EnterStepMode")

    def _step_in_python(self, t: float, dt: float) -> None:
        self.fmi.log.clock[0] = t
        if self._has_events:
            self._step_through_events(t, dt)
        else:
            self.given.set()
            self.fmi.do_step(t, dt, bool(self.may_roll_back[0]))
        self.results.get()

    def follow(self, course: Array, t: float, dt: float) -> None:
        if self.supports_polynomial_inputs:
            self.given.flat[:] = course[0]
            self.fmi.log.clock[0] = t
            self.given.set()
            self._set_derivatives(course)
            self.fmi.do_step(t, dt, bool(self.may_roll_back[0]))
            self.results.get()
        else:
            self.given.flat[:] = mean_inputs(course, dt)
            self.step(t, dt)
        self.given.flat[:] = evaluate_inputs(course, dt)

    def _set_derivatives(self, course: Array) -> None:
        """Set the input derivatives at the start of a step.

        course[k] contains the coefficients of t^k in the input polynomials; t is 0 at the start.
        """
        for k in range(1, MAX_INPUT_ORDER + 1):
            for group in self._held:
                if group.type == "Real" and np.any(course[k][group.where]):
                    group.set_derivatives(k, factorial(k) * course[k][group.where])

    def entry(self) -> Entry:
        return Entry(
            FMI_KINDS[self._fmu.version],
            self.fmi.find_function("DoStep")[2],
            self._address("DoStep"),
            [group.variables("Set") for group in self._held],
            [group.variables("Get") for group in self.results.variable_groups],
            self._events() if self._has_events else None,
            self.fmi.log.clock,
            self.may_roll_back,
            clocks=self._clocks.table(),
        )

    def _events(self) -> Events:
        """Return the data of event mode for the C loop: function addresses and discrete inputs."""
        return Events(
            self._address("EnterEventMode"),
            self._address("UpdateDiscreteStates"),
            self._address("EnterStepMode"),
            [group.variables("Set") for group in self._discrete],
            self._last,
            self._entered,
            self._refused,
        )

    def check_status(self, call: int, status: int, t: float, dt: float) -> None:
        del t  # the log contains the time
        number, call = divmod(call, CALLS)
        self._check_count(status, dt)
        if call in (SET, SET_DISCRETE, GET):
            self._check_values_status(number, call, status)
        elif call == STEP:
            self._check_step_status(status)
        elif status == MANY_UPDATES:
            raise self._many_updates()
        elif call in CLOCK_CALLS:
            self._check_clocks_status(call, number, status)
        else:
            self.fmi.check_end(status == TERMINATES)
            name = _EVENT_CALLS[call]
            check_status = partial(self.fmi.check_status, self.fmi.prefix + name, status)
            self._try_event_mode(check_status) if call == ENTER_EVENT_MODE else check_status()

    def _check_step_status(self, status: int) -> None:
        """Raise FmuError if the status of a step is neither OK nor a warning."""
        if status == EARLY_RETURN:
            raise self.fmi.fmu_error(
                "fmi3DoStep returned early although early return is not allowed"
            )
        self.fmi.check_end(status == TERMINATES)
        self.fmi.check_status(self.fmi.prefix + "DoStep", status)

    def _step_through_events(self, t: float, dt: float) -> None:
        self._clocks.begin_step()
        self._set_held()
        if self._needs_event_at_start():
            self._event(t, time_tolerance(t, dt))
        now, end, tolerance = t, t + dt, time_tolerance(t, dt)
        count = EventCount()
        while True:
            due, event = self._clocks.next, False
            target = end if end - due <= tolerance else due
            if now == end and due > now + tolerance:
                return
            if target > now + tolerance:
                whole = target == end and now == t
                reached, event = self.fmi.do_step(
                    now, dt if whole else target - now, bool(self.may_roll_back[0])
                )
                now = target if target - reached <= tolerance else reached
            if event or self._clocks.next <= now + tolerance:
                self._event(now, tolerance)
            self._check_count(count.add(now, tolerance), dt)

    def _change_in_event(self, parameters: PortValues, t: float) -> None:
        self._event(t, 0.0, parameters)

    def _event(self, t: float, tolerance: float, parameters: PortValues | None = None) -> None:
        """Handle an event at the time t [s], and set the changed `parameters` in event mode.

        A clock also ticks if its next tick is at most `tolerance` [s] after t.
        """
        if not self._refused[0]:
            self._try_event_mode(partial(self.fmi.call, "EnterEventMode"))
        if parameters is not None:
            parameters.set()
        if not self._refused[0]:
            self._entered[0] = 1
            self._handle_event(t, tolerance)
            self.fmi.call("EnterStepMode")
            return
        self._clocks.stop()
        for group in self._discrete:
            group.set()
        self._last[:] = self._discrete_values()

    def _try_event_mode(self, enter: Callable[[], None]) -> None:
        """Enter event mode; continue without event mode if the FMU rejects it at the first event.

        The function `enter` makes the FMI call, or checks the status of a call that the C loop has
        made. It raises FmuError on failure. Without event mode, the importer sets the discrete
        inputs in step mode, and the FMU handles its own events.
        """
        try:
            enter()
        except FmuError:
            if self._entered[0] or self.fmi.is_lost:
                raise
            self._refused[0], self.fmi.failed = 1, False
            self.fmi.log.warn(WITHOUT_EVENT_MODE)


class ScheduledInstance(FmuInstance):
    """Instance of an FMU for scheduled execution in this process.

    At the beginning of each communication step, the importer sets the inputs. The importer then
    runs the model partitions whose clocks tick in the step, at the times of the ticks. An input
    clock that another part has activated runs its partition at the beginning of the step.
    """

    _clocks: Partitions

    def _new_clocks(self) -> Clocks:
        return Partitions(self.fmi, self.given, self.results, self._has_clocks)

    @property
    def _has_clocks(self) -> bool:
        return True

    def _begin(self) -> None:
        self._clocks.start(self._t_start)
        self._tick(self._t_start)

    def _step_in_python(self, t: float, dt: float) -> None:
        self.fmi.log.clock[0] = t
        self._clocks.begin_step()
        self._set_held()
        self._clocks.run_triggered(t)
        now, end, tolerance, count = t, t + dt, time_tolerance(t, dt), EventCount()
        while self._clocks.next <= end + tolerance:
            now = min(max(self._clocks.next, now), end)
            self._check_count(count.add(now, tolerance), dt)
            self._tick(now, tolerance)
        self.results.get()

    def _tick(self, t: float, tolerance: float = 0.0) -> None:
        """Run the partitions that are due at the time t [s].

        A partition also runs if its clock ticks at most `tolerance` [s] after t.
        """
        self._clocks.tick(t, tolerance)
        self._clocks.read()
        self._clocks.look_ahead(t)


def supports_polynomial_inputs(fmu: Fmu) -> bool:
    """Return True if an FMU supports polynomial inputs within a step.

    Every model exchange FMU supports them, because the importer integrates its equations. An FMI
    1.0 or 2.0 co-simulation FMU supports them if it can interpolate inputs from derivatives. The
    result is False for FMI 3.0 co-simulation FMUs, because FMI 3.0 has no input derivatives.
    """
    if fmu.kind == MODEL_EXCHANGE:
        return True
    return fmu.version < 3 and bool(fmu.interface.canInterpolateInputs)
