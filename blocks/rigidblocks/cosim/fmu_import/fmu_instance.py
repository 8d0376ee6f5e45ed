"""FMU instances that run in this process through FMPy, and FMI 3.0 clocks."""

import abc
import ctypes
import json
from collections.abc import Callable, Collection, Mapping, Sequence
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
    CALLS,
    EARLY_RETURN,
    ENTER_EVENT_MODE,
    ENTER_STEP_MODE,
    EVENTS,
    FMI1,
    FMI2,
    FMI3,
    GET,
    MANY_EVENTS,
    MANY_UPDATES,
    SET,
    SET_DISCRETE,
    STEP,
    TERMINATES,
    UPDATE,
    Entry,
    Events,
)
from rigidblocks.cosim.masters.part_instance import Instance
from rigidblocks.spatial.spatial import Array

_CHANGED = 2  # interval qualifier of a changed interval; 0 is an unknown interval


class Clocks:
    """Clocks of an FMU and their next ticks.

    Tick k of a periodic clock is at t_start + shift + k interval. After each event, the FMU returns
    the time until the next tick of a countdown clock. A triggered input clock is an input of the
    part. If this input is true, the clock ticks once, at the beginning of the communication step.
    """

    def __init__(self, fmi: Interface, given: PortValues, results: PortValues, has_events: bool):
        self._fmi, self._clocks = fmi, fmi.fmu.clocks if has_events else ()
        self._outputs = [group for group in results.groups if group.type == "Clock"]
        self._first: list[float] = [inf] * len(self._clocks)
        self._interval: list[float] = [inf] * len(self._clocks)
        self._ticks: list[int] = [0] * len(self._clocks)
        self._due: list[int] = []  # clocks that tick in the current event
        self._triggers = [group for group in given.groups if group.type == "Clock" and has_events]
        self._triggers_are_pending = True
        self.next = inf

    @property
    def are_triggered(self) -> bool:
        """True if at least one triggered input clock ticks at the beginning of the current step."""
        return self._triggers_are_pending and any(np.any(one.values) for one in self._triggers)

    def set_intervals(self) -> None:
        """Set the clock intervals that the part defines; call this in initialization mode."""
        for clock in self._clocks:
            if clock.name in self._fmi.part.start:
                reference = (ctypes.c_uint * 1)(clock.valueReference)
                interval = (ctypes.c_double * 1)(float(self._fmi.part.start[clock.name]))
                self._fmi.call("SetIntervalDecimal", reference, 1, interval)

    @property
    def count(self) -> int:
        """Number of FMU clocks that the importer activates."""
        return len(self._clocks)

    def start(self, t: float) -> None:
        """Determine the interval and the first tick of each clock, for a run from the time t [s].

        Call this method in the event mode that follows the initialization. Raises FmuError if an
        interval is missing or not positive.
        """
        for k, clock in enumerate(self._clocks):
            interval, shift = self._fmi.fmu.intervals.get(clock.name, (None, 0.0))
            if interval is None and clock.name in self._fmi.part.start:
                interval = float(self._fmi.part.start[clock.name])
            if interval is None and clock.intervalVariability == "fixed":
                raise self._fmi.refuse(
                    f"its clock {clock.name} has no interval; set the interval [s] in System.add, "
                    f"for example start={{'{clock.name}': 0.01}}"
                )
            if interval is None:
                interval, qualifier = self._query_interval(clock)
                interval = interval if qualifier else inf
            if not interval > 0 and not _counts_down(clock):
                raise self._fmi.refuse(
                    f"its clock {clock.name} has the interval {interval} s; the interval must be "
                    "positive"
                )
            if _counts_down(clock):
                self._first[k], self._interval[k] = t + interval, inf
            else:
                self._first[k], self._interval[k] = t + shift, interval
        self._find_next()

    def tick(self, t: float) -> None:
        """Activate the input clocks that are due or triggered at the time t [s]."""
        if self.are_triggered:
            for group in self._triggers:
                group.set()
        self._triggers_are_pending = False
        due = [k for k in range(len(self._clocks)) if self._time(k) <= t + self._tolerance(k, t)]
        self._due = due
        if not due:
            return
        self._activate([self._clocks[k] for k in due], t)
        for k in due:
            self._ticks[k] += 1
            if _counts_down(self._clocks[k]):
                self._first[k], self._ticks[k] = inf, 0

    def _activate(self, clocks: Sequence[Any], t: float) -> None:
        """Activate the given clocks in the FMU at the time t [s]."""
        del t  # the time is already set in the FMU
        n = len(clocks)
        references = (ctypes.c_uint * n)(*(clock.valueReference for clock in clocks))
        self._fmi.call("SetClock", references, n, (ctypes.c_bool * n)(*[True] * n))

    def look_ahead(self, t: float) -> None:
        """Query the new intervals of clocks after an event at the time t [s].

        The interval of a clock with the variability `changing` changes only when the clock ticks.
        """
        for k, clock in enumerate(self._clocks):
            ticks = clock.intervalVariability == "changing" and k in self._due
            if ticks or _counts_down(clock):
                interval, qualifier = self._query_interval(clock)
                if qualifier == _CHANGED:
                    self._first[k], self._ticks[k] = t + interval, 0
                    self._interval[k] = inf if _counts_down(clock) else interval
        self._find_next()

    def begin_step(self) -> None:
        """Reset the ticks of the output clocks and of the triggered input clocks for a new step."""
        self._triggers_are_pending = True
        for group in self._outputs:
            group.values = np.zeros(group.n)

    def read(self) -> None:
        """Query the FMU for the output clocks that tick in the current event."""
        for group in self._outputs:
            ticked = group.values.copy()
            group.get()
            group.values = np.maximum(ticked, group.values)

    def state(self) -> Any:
        """Return the current state of the clocks."""
        pending = self._triggers_are_pending
        return list(self._first), list(self._interval), list(self._ticks), self.next, pending

    def restore_state(self, state: Any) -> None:
        """Restore a state of the clocks that the method `state` has returned."""
        first, interval, ticks, self.next, self._triggers_are_pending = state
        self._first, self._interval, self._ticks = list(first), list(interval), list(ticks)

    def _query_interval(self, clock: Any) -> tuple[float, int]:
        """Query the FMU for the interval of a clock [s] and the interval qualifier; return both."""
        reference = (ctypes.c_uint * 1)(clock.valueReference)
        interval, qualifier = (ctypes.c_double * 1)(), (ctypes.c_int * 1)()
        self._fmi.call("GetIntervalDecimal", reference, 1, interval, qualifier)
        return float(interval[0]), int(qualifier[0])

    def _time(self, k: int) -> float:
        """Return the time [s] of the next tick of clock k, without accumulated rounding errors."""
        if self._ticks[k] == 0:
            return self._first[k]
        return self._first[k] + self._ticks[k] * self._interval[k]

    def _tolerance(self, k: int, t: float) -> float:
        scale = self._interval[k] if np.isfinite(self._interval[k]) else 0.0
        return time_tolerance(t, max(scale, 1e-3))

    def _find_next(self) -> None:
        self.next = min((self._time(k) for k in range(len(self._clocks))), default=inf)


class Partitions(Clocks):
    """Clocks of an FMU for scheduled execution. A tick of a clock runs its model partition.

    Partitions that are due at the same time run in the order of their priorities; 0 is the highest
    priority. A triggered input clock also runs a partition (`ScheduledInstance`).
    """

    def __init__(self, fmi: Interface, given: PortValues, results: PortValues, has_events: bool):
        super().__init__(fmi, given, results, has_events)
        self._triggers = []

    def _activate(self, clocks: Sequence[Any], t: float) -> None:
        for clock in sorted(clocks, key=lambda clock: int(clock.priority or 0)):
            self.run(clock.valueReference, t)

    def run(self, clock: int, t: float) -> None:
        """Run the model partition of a clock at the time t [s]."""
        self._fmi.call("ActivateModelPartition", ctypes.c_uint(clock), ctypes.c_double(t))


def _counts_down(clock: Any) -> bool:
    return bool(clock.intervalVariability == "countdown")


def interface_of(part: Part, shared: Unpacked | None = None) -> Interface:
    """Return an instance of the FMU of a part; raise FmuError if it cannot be instantiated."""
    assert isinstance(part.component, Fmu)
    return _INTERFACES[part.component.version](part, shared)


_INTERFACES: dict[int, Callable[[Part, Unpacked | None], Interface]] = {1: Fmi1, 2: Fmi2, 3: Fmi3}


_STEP = -1  # key of the state that `save` stores


@dataclass(frozen=True, eq=False)
class Moment:
    """Saved state of an FMU instance: the FMU state and the state of the importer.

    The state of the importer contains the values of the ports, the last values of the discrete
    inputs, and the next ticks of the clocks. `motion` is the state of the integrator in model
    exchange.
    """

    state: ctypes.c_void_p
    inputs: Array
    outputs: Array
    last: Array
    clocks: Any
    motion: Any = None


class RunningFmu(Instance):
    """Instance of an FMU in this process; base class for co-simulation and model exchange.

    `shared` is an unpacked FMU; its instances use the same library. By default, the instance
    unpacks its own copy.
    """

    def __init__(self, part: Part, shared: Unpacked | None = None):
        assert isinstance(part.component, Fmu)
        self._part, self._fmu = part, part.component
        self._runs = self._started = False
        self._kept_by_number: dict[int, Moment] = {}  # saved states by key
        self.may_return = np.zeros(1, dtype=np.int32)  # 1 if the master may repeat a step
        self.fmi = interface_of(part, shared)
        try:
            configure(self.fmi)
        except FmuError:
            self.fmi.close(False)
            raise
        self.given = PortValues(self.fmi, self._fmu.inputs)
        self.results = PortValues(self.fmi, self._fmu.outputs)
        values = [group for group in self.given.groups if group.type != "Clock"]
        self._discrete = [group for group in values if self._has_events and group.is_discrete]
        self._held = [group for group in values if group not in self._discrete]
        self._clocks = self._new_clocks()
        if len(values) < len(self.given.groups) and not self._has_events:
            self.fmi.log.warn("its input clocks never tick, because it runs without event mode")
        # values of the discrete inputs at the last event
        self._last = np.zeros(sum(group.n for group in self._discrete))
        self._t_start = 0.0

    def _new_clocks(self) -> Clocks:
        """Return the clocks of the FMU in their state before a run."""
        return Clocks(self.fmi, self.given, self.results, self._has_events)

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
        self.may_return[0] = bool(self._kept_by_number)
        self.given.restart()
        self.results.restart()
        self._last[:] = 0.0
        self._clocks = self._new_clocks()

    @property
    def _has_events(self) -> bool:
        """True if the importer handles the events of the FMU in event mode."""
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

    def set_stop_time(self, t_stop: float) -> None:
        self.fmi.stop_time = t_stop

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
        """Return views of all input and output values; the views remain valid during the run."""
        return self.given.flat, self.results.flat

    def texts(self) -> list[str | bytes]:
        """Return the values of all string and binary outputs."""
        return texts_in(self.results.flat, self._fmu.outputs)

    def initialize(self, t: float, outputs: Collection[str] | None = None) -> None:
        if not self._started:
            self.fmi.set_up(t)
            set_start(self.fmi, (*self._fmu.parameters, *self._fmu.states))
            if self._fmu.version == 1:  # the initialization of FMI 1.0 uses the inputs
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

    def change(self, name: str, values: Array) -> None:
        """Set a tunable parameter during the run.

        Raises FmuError for a parameter that is not tunable.
        """
        if not self._fmu.is_tunable(name):
            raise FmuError(
                f"cannot set '{self._part.name}.{name}' during the run: it is not a tunable "
                "parameter; set its start value instead"
            )
        there = PortValues(self.fmi, (self._port(name),))
        there.flat[:] = np.ravel(values)
        there.set()

    def _port(self, name: str) -> Port:
        ports = (*self._fmu.parameters, *self._fmu.states)
        return next(port for port in ports if port.name == name)

    def save(self) -> None:
        self.save_state(_STEP)

    def restore(self) -> None:
        self.restore_state(_STEP)

    def save_state(self, number: int) -> None:
        """Save the current state under the key `number`; replace a state with the same key."""
        state = (
            self._kept_by_number[number].state
            if number in self._kept_by_number
            else ctypes.c_void_p()
        )
        self.fmi.save(state)
        self._kept_by_number[number] = replace(self._moment(), state=state)
        self.may_return[0] = True

    def restore_state(self, number: int) -> None:
        """Restore the state with the key `number`; it can be restored repeatedly."""
        moment = self._kept_by_number[number]
        self.fmi.restore(moment.state)
        self._go_to(moment)
        self.fmi.failed = False

    def free_state(self, number: int) -> None:
        """Free the state with the key `number`, if it exists."""
        moment = self._kept_by_number.pop(number, None)
        if moment is not None:
            self.fmi.free(moment.state)

    def saved_arrays(self, number: int) -> dict[str, Array]:
        moment = self._kept_by_number[number]
        if not self._fmu.interface.canSerializeFMUstate:
            raise ValueError(
                f"the FMU {self._fmu.path} cannot write its state to a file: canSerializeFMUstate "
                "is false in its model description"
            )
        data = np.frombuffer(self.fmi.serialize(moment.state), dtype=np.uint8)
        motion = {f"motion{k}": one for k, one in enumerate(moment.motion or ())}
        clocks = np.array(json.dumps(moment.clocks))
        arrays = {"inputs": moment.inputs, "outputs": moment.outputs, "last": moment.last}
        return {"state": data, "clocks": clocks, **arrays, **motion}

    def load_arrays(self, number: int, arrays: Mapping[str, Array]) -> None:
        count = sum(name.startswith("motion") for name in arrays)
        self._kept_by_number[number] = Moment(
            self.fmi.deserialize(arrays["state"].tobytes()),
            arrays["inputs"],
            arrays["outputs"],
            arrays["last"],
            json.loads(str(arrays["clocks"])),
            tuple(arrays[f"motion{k}"] for k in range(count)) or None,
        )

    def _moment(self) -> "Moment":
        """Return the state of the importer as a `Moment` that does not contain the FMU state."""
        values = self.given.flat.copy(), self.results.flat.copy()
        return Moment(ctypes.c_void_p(), *values, self._last.copy(), self._clocks.state())

    def _go_to(self, moment: "Moment") -> None:
        self.given.flat[:], self.results.flat[:] = moment.inputs, moment.outputs
        self._last[:] = moment.last
        self._clocks.restore_state(moment.clocks)

    def close(self) -> None:
        for number in list(self._kept_by_number):
            self.free_state(number)
        self.fmi.close(self._runs)

    @property
    def _steps_in_c(self) -> bool:
        """True if the C master loop supports the clocks and the variables of the FMU."""
        groups = (*self.given.groups, *self.results.groups)
        return self._clocks.count == 0 and all(one.runs_in_c for one in groups)

    def _set_held(self) -> None:
        """Set the inputs that can change without an event.

        If the FMU supports event mode, these inputs are the continuous inputs; otherwise, all
        inputs.
        """
        for group in self._held:
            group.set()

    def _has_discrete_news(self) -> bool:
        """Return True if a clock ticks or a discrete input has changed since the last event."""
        return self._has_discrete_changes() or self._clocks.are_triggered

    def _has_discrete_changes(self) -> bool:
        return bool(np.any(self._discrete_values() != self._last))

    def _discrete_values(self) -> Array:
        """Return the current values of the discrete inputs in one array."""
        return np.concatenate([np.zeros(0), *(group.values for group in self._discrete)])

    def _handle_event(self, t: float) -> tuple[bool, bool, float]:
        """Handle an event at the time t [s] in event mode; return the result of `_iterate`."""
        self._clocks.tick(t)
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
        return ctypes.cast(self.fmi.bound(function)[1], ctypes.c_void_p).value or 0

    def _judge_values(self, number: int, call: int, status: int) -> None:
        """Raise FmuError if the C loop failed to set or get a group of values."""
        if call == GET:
            self.results.groups[number].judge("Get", status)
        else:
            (self._held if call == SET else self._discrete)[number].judge("Set", status)

    def _many_events(self, dt: float) -> FmuError:
        return self.fmi.refuse(f"it has more than {EVENTS} events in a step of {dt:g} s")

    def _many_updates(self) -> FmuError:
        return self.fmi.refuse(f"its event iteration did not converge in {EVENTS} iterations")


FMI_KINDS = {1: FMI1, 2: FMI2, 3: FMI3}  # kinds of the C loop, by FMI version
_EVENT_CALLS = {
    ENTER_EVENT_MODE: "EnterEventMode",
    UPDATE: "UpdateDiscreteStates",
    ENTER_STEP_MODE: "EnterStepMode",
}


class FmuInstance(RunningFmu):
    """Instance of a co-simulation FMU in this process.

    If the FMU supports event mode, the importer handles events at the event times, also within a
    communication step. The clocks of the FMU tick at multiples of their intervals.
    """

    def __init__(self, part: Part, shared: Unpacked | None = None):
        super().__init__(part, shared)
        # flags: the FMU has handled an event; the FMU has rejected event mode at the first event
        self._entered, self._refused = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)

    def restart(self, part: Part) -> None:
        super().restart(part)
        self._entered[0] = self._refused[0] = 0

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
        self.given.flat[:] = evaluate_inputs(course, dt)

    def _set_derivatives(self, course: Array) -> None:
        """Set the input derivatives at the start of a step, from the input polynomials `course`."""
        for k in range(1, MAX_INPUT_ORDER + 1):
            for group in self._held:
                if group.type == "Real" and np.any(course[k][group.where]):
                    group.set_derivatives(k, factorial(k) * course[k][group.where])

    def entry(self) -> Entry:
        if not self._steps_in_c:
            return super().entry()
        return Entry(
            FMI_KINDS[self._fmu.version],
            self.fmi.bound("DoStep")[2],
            self._address("DoStep"),
            [group.variables("Set") for group in self._held],
            [group.variables("Get") for group in self.results.groups],
            self._events() if self._has_events else None,
            self.fmi.log.clock,
            self.may_return,
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

    def judge(self, call: int, status: int, t: float, dt: float) -> None:
        del t  # the log contains the time
        number, call = divmod(call, CALLS)
        if call in (SET, SET_DISCRETE, GET):
            self._judge_values(number, call, status)
        elif call == STEP:
            self._judge_step(status, dt)
        elif status == MANY_UPDATES:
            raise self._many_updates()
        else:
            self.fmi.check_end(status == TERMINATES)
            name = _EVENT_CALLS[call]
            judge = partial(self.fmi.judge, self.fmi.prefix + name, status)
            self._judge_event_mode(judge) if call == ENTER_EVENT_MODE else judge()

    def _judge_step(self, status: int, dt: float) -> None:
        """Raise FmuError if the status of a step is neither OK nor a warning."""
        if status == EARLY_RETURN:
            raise self.fmi.refuse("fmi3DoStep returned early although early return is not allowed")
        if status == MANY_EVENTS:
            raise self._many_events(dt)
        self.fmi.check_end(status == TERMINATES)
        self.fmi.judge(self.fmi.prefix + "DoStep", status)

    def _step_through_events(self, t: float, dt: float) -> None:
        self._clocks.begin_step()
        self._set_held()
        if self._has_discrete_news():
            self._event(t)
        now, end, close = t, t + dt, time_tolerance(t, dt)
        for _ in range(EVENTS):
            target = min(end, self._clocks.next)
            target = end if end - target <= close else target
            whole = target == end and now == t
            reached, event = self.fmi.do_step(
                now, dt if whole else target - now, bool(self.may_return[0])
            )
            now = target if target - reached <= close else reached
            if event or self._clocks.next <= now + close:
                self._event(now)
            if now == end:
                return
        raise self._many_events(dt)

    def _event(self, t: float) -> None:
        if not self._refused[0]:
            self._judge_event_mode(partial(self.fmi.call, "EnterEventMode"))
        if not self._refused[0]:
            self._entered[0] = 1
            self._handle_event(t)
            self.fmi.call("EnterStepMode")
            return
        for group in self._discrete:
            group.set()
        self._last[:] = self._discrete_values()

    def _judge_event_mode(self, call: Callable[[], None]) -> None:
        """Execute `call`; continue without event mode if the FMU rejects event mode.

        `call` enters event mode, or raises FmuError for the status of a C call that entered event
        mode. The FMU may reject event mode only at the first event. Without event mode, the
        importer sets the discrete inputs in step mode, and the FMU handles its own events.
        """
        try:
            call()
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
        return Partitions(self.fmi, self.given, self.results, True)

    def _begin(self) -> None:
        self._clocks.start(self._t_start)
        self._tick(self._t_start)

    def step(self, t: float, dt: float) -> None:
        self.fmi.log.clock[0] = t
        self._clocks.begin_step()
        self._set_held()
        self._run_triggered(t)
        now, end, close, again = t, t + dt, time_tolerance(t, dt), 0
        while self._clocks.next <= end + close:
            due = min(max(self._clocks.next, now), end)
            again = again + 1 if due == now else 0
            if again > EVENTS:
                raise self.fmi.refuse(f"its clocks tick more than {EVENTS} times at the same time")
            now = due
            self._tick(now)
        self.results.get()

    def entry(self) -> Entry:
        return Instance.entry(self)

    def _tick(self, t: float) -> None:
        """Run the partitions that are due at the time t [s]."""
        self._clocks.tick(t)
        self._clocks.read()
        self._clocks.look_ahead(t)

    def _run_triggered(self, t: float) -> None:
        """Run the partitions of the active triggered input clocks at the time t [s]."""
        for port in self._fmu.inputs:
            if port.type == "Clock":
                references = np.array(self._fmu.references(port.name))
                for reference in references[self.input(port.name) != 0.0]:
                    self._clocks.run(int(reference), t)
                    self._clocks.read()


def follows(fmu: Fmu) -> bool:
    """Return True if an FMU supports polynomial inputs within a step.

    A co-simulation FMU of FMI 1.0 or 2.0 supports them if it can interpolate inputs from input
    derivatives. For model exchange, the importer integrates the equations, so every FMU supports
    polynomial inputs.
    """
    if fmu.kind == MODEL_EXCHANGE:
        return True
    return fmu.version < 3 and bool(fmu.interface.canInterpolateInputs)
