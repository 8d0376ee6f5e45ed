"""Model exchange FMUs; the importer integrates their state equations."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from math import inf, isnan, nan
from typing import Any

import numpy as np

from rigidblocks.block.adaptive_methods import (
    DEFAULT_METHOD,
    ENOUGH_VOTES,
    MAX_PATIENCE,
    METHODS,
    STABILITY_LIMIT,
    Adaptive,
    Method,
    linearly_implicit_part,
    longest_step,
)
from rigidblocks.block.evaluators import MAX_INPUT_ORDER, evaluate_inputs
from rigidblocks.block.integrators import SEMI_IMPLICIT_EULER, Integrator
from rigidblocks.block.radau import (
    JACOBIAN_FRACTION,
    LOOSE_TOLERANCE,
    MAX_CONTRACTION,
    MAX_EXTRAPOLATION,
    newton_tolerance,
)
from rigidblocks.block.stepper import time_tolerance
from rigidblocks.cosim.fmu_import.exchange_steps import (
    ExchangeModel,
    ExchangeSteps,
    minimum_step_error,
    variable_size,
)
from rigidblocks.cosim.fmu_import.fmu_instance import (
    CLOCK_CALLS,
    FMI_KINDS,
    EventCount,
    FmuInstance,
    RunningFmu,
    SavedState,
    ScheduledInstance,
)
from rigidblocks.cosim.fmu_import.fmu_interface import Unpacked
from rigidblocks.cosim.fmu_import.fmu_values import PortValues
from rigidblocks.cosim.graph.fmu_file import (
    CO_SIMULATION,
    MODEL_EXCHANGE,
    SCHEDULED_EXECUTION,
)
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.masters.c_loop_tables import (
    BAD_NUMBER,
    BAD_VALUE,
    CALLS,
    COLLOCATION_NODES,
    COMPLETED_STEP,
    CONTROL,
    ENTER_EVENT_MODE,
    ENTER_STEP_MODE,
    FACTORED,
    FOLLOWS,
    GET,
    GET_DIRECTIONAL,
    GET_INDICATORS,
    GET_NOMINALS,
    GET_RATES,
    GET_STATES,
    HAS_STEP,
    MANY_UPDATES,
    NEXT_EVENT,
    NEXT_STEP,
    POINT,
    RATES_KNOWN,
    SET,
    SET_DISCRETE,
    SET_STATES,
    SET_TIME,
    SHORT_STEP,
    STOP_TIME,
    TERMINATES,
    UPDATE,
    CollocationTable,
    Entry,
    Events,
    Exchange,
    Sparsity,
    Tableau,
)
from rigidblocks.spatial.spatial import Array


def check_method(method: Method | None) -> Method:
    """Return the integration method of a model exchange FMU; None selects the default method.

    The default method takes implicit steps if the equations are stiff. Raises ValueError for an
    unsupported method or an option that applies only to blocks. Semi-implicit Euler is not
    supported, because an FMU does not declare which states are positions.
    """
    method = DEFAULT_METHOD if method is None else method
    if not _fits(method):
        names = ", ".join(name for name, one in METHODS.items() if _fits(one))
        raise ValueError(
            f"the method '{method.name}' does not support a model exchange FMU; expected one of "
            f"{names}"
        )
    if isinstance(method, Adaptive) and method.max_inner_steps is not None:
        raise ValueError("max_inner_steps is only for blocks; use h for a model exchange FMU")
    return method


def _fits(method: Method) -> bool:
    if isinstance(method, Adaptive):
        return True
    return method.collocation is None and method != SEMI_IMPLICIT_EULER


def explicit_part(method: Method) -> Integrator | None:
    """Return the explicit integrator of a method, or None for a purely implicit method."""
    if isinstance(method, Adaptive):
        return method.explicit
    return method if method.implicit is None else None


def jacobian_sparsity(rows: Sequence[Collection[int] | None], n: int) -> Sparsity:
    """Return the sparsity of a Jacobian (n, n), with a greedy colouring of its columns.

    Args:
        rows: Indices of the states on which each derivative depends; None if it depends on all
            states.
        n: Number of states.

    References:
        Curtis, Powell and Reid, On the estimation of sparse Jacobian matrices, 1974.
    """
    pattern = np.zeros((n, n), dtype=np.int64)
    for i, states in enumerate(rows):
        pattern[i, slice(None) if states is None else sorted(states)] = 1
    colours, used = np.zeros(n, dtype=np.int64), np.zeros((0, n), dtype=bool)
    for j, column in enumerate(pattern.T.astype(bool)):
        free = np.flatnonzero(~(used & column).any(axis=1))
        colour = int(free[0]) if len(free) else len(used)
        if colour == len(used):
            used = np.vstack([used, np.zeros(n, dtype=bool)])
        colours[j] = colour
        used[colour] |= column
    return Sparsity(colours, pattern)


def _integrators_of(method: Method) -> list[Integrator]:
    """Return a list of the explicit and the linearly implicit integrators that a method uses."""
    return [one for one in (explicit_part(method), linearly_implicit_part(method)) if one]


@cache
def _tableau(method: Integrator | None, error: tuple[float, ...] | None) -> Tableau | None:
    """Return the coefficients of a method for the C loop.

    `error` contains the weights of the error estimate; it is None for fixed steps.
    """
    if method is None:
        return None
    implicit, s = method.implicit, method.stages

    def square(rows: Sequence[Sequence[float]]) -> Array:
        return np.array([(*row, *[0.0] * (s - len(row))) for row in rows])

    b, c = np.array(method.b), np.array(method.c)
    return Tableau(
        method.order,
        square(method.a),
        b,
        c,
        b[:, None] if method.dense is None else np.array(method.dense),
        None if error is None else np.array(error),
        0.0 if implicit is None else implicit.gamma,
        np.zeros((s, s)) if implicit is None else square(implicit.coupling),
        np.zeros(s) if implicit is None else np.array(implicit.time),
    )


def _collocation_table(method: Integrator, rtol: float) -> CollocationTable:
    """Return the coefficients and iteration limits of a collocation method for the C loop."""
    assert method.collocation is not None
    nodes, limits = method.collocation, (MAX_CONTRACTION, MAX_EXTRAPOLATION, JACOBIAN_FRACTION)
    real, *pairs = nodes.roots
    roots = [real.real, *(part for root in pairs for part in (root.real, root.imag))]
    return CollocationTable(
        np.array(method.a),
        np.array(method.c),
        np.array(nodes.error),
        np.array(roots),
        np.array(nodes.to_modal),
        np.array(nodes.from_modal),
        (newton_tolerance(rtol), LOOSE_TOLERANCE, *limits),
    )


def _tableaus(method: Method) -> tuple[Tableau | None, Tableau | None]:
    """Return the coefficients of the explicit and the linearly implicit integrator of a method."""
    parts = explicit_part(method), linearly_implicit_part(method)
    explicit, implicit = (
        _tableau(part, part.error if part and isinstance(method, Adaptive) else None)
        for part in parts
    )
    return explicit, implicit


_UPDATES = {1: "EventUpdate", 2: "NewDiscreteStates", 3: "UpdateDiscreteStates"}


class ExchangeInstance(RunningFmu):
    """Instance of a model exchange FMU in this process.

    In a communication step, the inputs are held, and the method of the part integrates the states.
    A state event occurs when an event indicator becomes positive or ceases to be positive; the
    importer locates the event within the step. A time event occurs at the next event time, which
    the FMU reports. A step event occurs if the FMU requests event mode after an inner step. At an
    event, the discrete states are updated until convergence.
    """

    def __init__(self, part: Part, shared: Unpacked | None = None):
        self._method = check_method(part.method)
        super().__init__(part, shared)
        self._model = ExchangeModel(self.fmi)
        n, m = self._model.size
        stages = max(
            (one.stages for one in _integrators_of(self._method)), default=COLLOCATION_NODES
        )
        last = COLLOCATION_NODES if self._collocation is not None else 0
        held = sum(group.n for group in self._held)
        sizes = CONTROL, n, m, n, held, n, n, n, stages * n, last * n, n * n + n
        # the C loop uses these arrays, so they keep their addresses
        self._memory = tuple(map(np.zeros, sizes))
        self._control, self._x, self._z, self._nominals = self._memory[:4]
        self._polynomials = np.zeros((MAX_INPUT_ORDER + 1, len(self.given.flat)))
        self._reset_integrator()
        # flags as for co-simulation; the second stays 0, because an FMU for model exchange cannot
        # reject event mode
        self._entered, self._refused = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        self._longest = longest_step(self._method, part.h)
        self._close = 0.0

    def _reset_integrator(self) -> None:
        """Reset the integrator to its state before the first step."""
        for values in self._memory:
            values[:] = 0.0
        self._nominals[:] = 1.0
        self._control[NEXT_EVENT] = self._control[STOP_TIME] = inf

    def set_stop_time(self, t_stop: float) -> None:
        super().set_stop_time(t_stop)
        self._control[STOP_TIME] = t_stop

    def restart(self, part: Part) -> None:
        super().restart(part)
        self._reset_integrator()

    def entry(self) -> Entry:
        method = self._method
        rtol, atol = (method.rtol, method.atol) if isinstance(method, Adaptive) else (0.0, 0.0)
        sparsity = self._sparsity
        return Entry(
            FMI_KINDS[self._fmu.version],
            self.fmi.find_function("SetTime")[2],
            0,
            [group.variables("Set") for group in self._held],
            [group.variables("Get") for group in self.results.variable_groups],
            Events(
                self._address("EnterEventMode"),
                self._address(self._function_names[UPDATE]),
                self._address("EnterContinuousTimeMode"),
                [group.variables("Set") for group in self._discrete],
                self._last,
                self._entered,
                self._refused,
            ),
            self.fmi.log.clock,
            self.may_roll_back,
            Exchange(
                self._addresses,
                *_tableaus(method),
                self._collocation,
                (rtol, nan if atol is None else atol, self._longest),
                (STABILITY_LIMIT, ENOUGH_VOTES, MAX_PATIENCE, self._relative_cost(sparsity)),
                sparsity,
                self._references,
                self.given.flat,
                self._polynomials,
                self._memory,
            ),
            self._clocks.table(),
        )

    @cached_property
    def _collocation(self) -> CollocationTable | None:
        """Coefficients of the collocation method for the C loop, or None for other methods."""
        method = self._method
        if not isinstance(method, Adaptive) or not method.collocates(self._model.size[0]):
            return None
        assert method.collocation is not None
        return _collocation_table(method.collocation, method.rtol)

    @property
    def _addresses(self) -> list[int]:
        """Addresses of the FMI functions in the order of `Exchange.functions`."""
        optional = {
            "CompletedIntegratorStep": self.fmi.needs_completed_step,
            "GetDirectionalDerivative": self._has_directional_derivatives,
        }
        names = self._model.functions
        return [self._address(name) if optional.get(name, True) else 0 for name in names]

    @property
    def _has_directional_derivatives(self) -> bool:
        provided = bool(self._fmu.interface.providesDirectionalDerivative)
        return provided and bool(self._references.shape[1])

    def _relative_cost(self, sparsity: Sparsity) -> float:
        """Return the computing time of a linearly implicit step relative to an explicit step.

        The result is 0 if the method does not contain both types of steps.
        """
        method, n = self._method, self._model.size[0]
        if not isinstance(method, Adaptive) or method.explicit is None or method.stiff is None:
            return 0.0
        saved = n - sparsity.n_colours
        return method.relative_cost(n) - saved / (method.explicit.stages - 1)

    @cached_property
    def _derivatives(self) -> list[Any]:
        """Entries of the model structure for the derivatives of the continuous states."""
        declared = self._fmu.description.derivatives if self._fmu.version > 1 else ()
        return [one for one in declared if one.variable.derivative is not None]

    @cached_property
    def _references(self) -> Array:
        """Value references (2, r) of the r state derivatives (row 0) and their states (row 1)."""
        pairs = [(one.variable, one.variable.derivative) for one in self._derivatives]
        found = [[v.valueReference for v in pair] for pair in pairs]
        return np.array(found, dtype=np.uint32).reshape(-1, 2).T.copy()

    @cached_property
    def _sparsity(self) -> Sparsity:
        """Sparsity of the Jacobian, from the dependencies in the model structure.

        In FMI 3.0 an array is one variable, so each element has all dependencies of the variable.
        If the declared sizes of the states differ from the actual sizes, the result is dense.
        """
        n = self._model.size[0]
        unknowns = self._derivatives
        places: dict[int, range] = {}
        first = 0
        for one in unknowns:
            state = one.variable.derivative
            places[state.valueReference] = range(first, first + variable_size(state))
            first += variable_size(state)
        rows: list[Collection[int] | None] = []
        for one in unknowns:
            known = (
                None
                if one.dependencies is None
                else {k for v in one.dependencies for k in places.get(v.valueReference, ())}
            )
            rows += [known] * variable_size(one.variable.derivative)
        return jacobian_sparsity(rows if first == n else [None] * n, n)

    @property
    def _function_names(self) -> dict[int, str]:
        """FMI function names without prefix, by the call number in the C loop."""
        first = SET_TIME, SET_STATES, GET_RATES, GET_INDICATORS
        calls = (*first, GET_STATES, GET_NOMINALS, COMPLETED_STEP, GET_DIRECTIONAL)
        return {
            ENTER_EVENT_MODE: "EnterEventMode",
            UPDATE: _UPDATES[self._fmu.version],
            ENTER_STEP_MODE: "EnterContinuousTimeMode",
            **dict(zip(calls, self._model.functions, strict=True)),
        }

    def check_status(self, call: int, status: int, t: float, dt: float) -> None:
        del t  # the log contains the time
        number, code = divmod(call, CALLS)
        self._check_count(status, dt)
        if code in (SET, SET_DISCRETE, GET):
            self._check_values_status(number, code, status)
        elif status == BAD_VALUE:
            raise self._bad_value(code, number)
        elif status == SHORT_STEP:
            raise minimum_step_error(self._method, float(self.fmi.log.clock[0]))
        elif status == MANY_UPDATES:
            raise self._many_updates()
        elif code in CLOCK_CALLS:
            self._check_clocks_status(code, number, status)
        else:
            self.fmi.check_end(status == TERMINATES)
            self.fmi.check_status(self.fmi.find_function(self._function_names[code])[0], status)

    def _bad_value(self, call: int, number: int) -> FmuError:
        """Return the error for a value that the FMU returned to the C loop and is not finite."""
        value = float(self._control[BAD_NUMBER])
        if call == UPDATE:
            return self.fmi.fmu_error(f"the time of its next event is {value:g}")
        return self._model.bad_value(call, number, value)

    def _begin(self) -> None:
        self.fmi.log.clock[0] = self._t_start
        self._clocks.start(self._t_start)
        self._update(self._t_start, first=True)

    def _step_in_python(self, t: float, dt: float) -> None:
        """Step the instance in Python with the explicit integrator of the method.

        Machines without a C compiler use the Python step.
        """
        self.fmi.log.clock[0] = t
        follows = self._control[FOLLOWS] != 0.0
        self._model.set_inputs = partial(self._set_polynomial_inputs, t) if follows else None
        self._clocks.begin_step()
        ends_step = self._control[HAS_STEP] and self.fmi.completed_step(bool(self.may_roll_back[0]))
        self._control[HAS_STEP] = self._control[RATES_KNOWN] = 0.0
        self._set_held()
        has_sign_change = np.any((self._z > 0) != (self._model.indicators() > 0))
        if ends_step or self._needs_event_at_start() or has_sign_change:
            self._event(t)
        else:
            self._z[:] = self._model.indicators()
        self._steps.origin, self._close = t, time_tolerance(t, dt)
        s = 0.0  # time since the start of the step [s]
        count = EventCount()
        while s < dt or self._next_event_time(dt) <= dt + self._close:
            s = self._integrate_to_event(s, dt)
            self._check_count(count.add(s, self._close), dt)
        self.results.get()

    @property
    def _cause_of_events(self) -> str:
        next_event = float(self._control[NEXT_EVENT])
        return f"; its next time event is at {next_event:g} s" if next_event < inf else ""

    @cached_property
    def _steps(self) -> ExchangeSteps:
        """Integrator for inner steps in Python; raises FmuError for an implicit method."""
        method, explicit = self._method, explicit_part(self._method)
        if explicit is None:
            raise FmuError(
                f"cannot integrate '{self._part.name}' by the method '{method.name}' in Python: it "
                "is implicit; use an explicit method, such as 'adaptive'"
            )
        if isinstance(method, Adaptive):
            method = replace(method, stiff=None, collocation=None)
        memory = self._nominals, self._control[NEXT_STEP : NEXT_STEP + 1]
        return ExchangeSteps(self._model, method, self._longest, *memory)

    def _change_in_event(self, parameters: PortValues, t: float) -> None:
        # the integrator must not continue an inner step that began with the old parameter value
        if self._control[HAS_STEP]:
            self.fmi.completed_step(bool(self.may_roll_back[0]))
        self._control[HAS_STEP], self._control[POINT] = 0.0, nan
        self.fmi.call("EnterEventMode")
        parameters.set()
        self._update(t)

    def follow(self, course: Array, t: float, dt: float) -> None:
        self.given.flat[:] = course[0]
        self._polynomials[:] = course
        self._control[FOLLOWS] = 1.0
        try:
            self.step(t, dt)
        finally:
            self._control[FOLLOWS] = 0.0
        self.given.flat[:] = evaluate_inputs(course, dt)

    def _set_polynomial_inputs(self, start: float, t: float) -> None:
        """Set the inputs at the time t [s] from polynomials in t - start; `start` is a time [s]."""
        self.given.flat[:] = evaluate_inputs(self._polynomials, t - start)
        self._set_held()

    def _integrate_to_event(self, s: float, end: float) -> float:
        """Integrate from the time s to the next event or to `end`, and return the reached time.

        All times are relative to the start of the communication step.
        """
        target = min(end, max(s, self._next_event_time(end)))
        while s < target:
            s, x, event = self._steps.step(s, self._x, target, self._z)
            self._x[:] = x
            if self.fmi.completed_step(bool(self.may_roll_back[0])) or event:
                self._event(self._steps.origin + s)
                return s
            self._z[:] = self._model.indicators()
        if self._next_event_time(end) <= target:
            self._event(self._steps.origin + s)
        return s

    def _next_event_time(self, end: float) -> float:
        """Return the time [s] of the next time event or clock tick.

        The result and `end` [s] are relative to the start of the communication step. If the time
        differs from `end` only by rounding, the result is `end`.
        """
        due = min(float(self._control[NEXT_EVENT]), self._clocks.next) - self._steps.origin
        return end if abs(due - end) <= self._close else due

    def _event(self, t: float) -> None:
        self.fmi.call("EnterEventMode")
        self._update(t)

    def _update(self, t: float, first: bool = False) -> None:
        """Handle an event at the time t [s] in event mode, and return to continuous-time mode.

        The states and nominal values are read if the FMU reports that they have changed. If `first`
        is true, they are always read.
        """
        nominals, states, next_event = self._handle_event(t, self._close)
        if isnan(next_event):
            self._control[BAD_NUMBER] = next_event
            raise self._bad_value(UPDATE, 0)
        self.fmi.call("EnterContinuousTimeMode")
        if nominals or first:
            self._nominals[:] = self._model.nominals
        if states or first:
            self._x[:] = self._model.states
        self._z[:] = self._model.indicators()
        self._control[NEXT_EVENT], self._control[NEXT_STEP] = next_event, 0.0
        self._control[RATES_KNOWN] = 0.0

    def _importer_state(self) -> SavedState:
        motion = tuple(one.copy() for one in self._memory)
        return replace(super()._importer_state(), motion=motion)

    def _restore_importer_state(self, stored: SavedState) -> None:
        super()._restore_importer_state(stored)
        for values, saved in zip(self._memory, stored.motion, strict=True):
            values[:] = saved
        self._control[FACTORED] = 0.0  # the factors of the Jacobian are not saved


def running_fmu(part: Part, shared: Unpacked | None = None) -> RunningFmu:
    """Return an instance of the FMU of a part, in this process.

    `shared` is an unpacked FMU, whose library several instances may use. By default, the instance
    unpacks its own copy. Raises FmuError if the FMU cannot be instantiated.
    """
    assert isinstance(part.component, Fmu)
    return _INSTANCES[str(part.component.kind)](part, shared)


_INSTANCES: dict[str, type[RunningFmu]] = {
    CO_SIMULATION: FmuInstance,
    MODEL_EXCHANGE: ExchangeInstance,
    SCHEDULED_EXECUTION: ScheduledInstance,
}
