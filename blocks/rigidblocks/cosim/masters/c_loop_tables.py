"""C loop that steps the parts of a run, and its data structures (`c/master/loop_tables.h`)."""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from ctypes import Structure, c_double, c_int, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.units import Conversion
from rigidblocks.common.compiler import CacheError, CompilerError, shared_library
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.ccode import c_text

BLOCK, FMI2, FMI3, HOSTED, FMI1 = range(5)
SET, STEP, GET, ENTER_EVENT_MODE, SET_DISCRETE, UPDATE, ENTER_STEP_MODE = range(7)
SET_TIME, SET_STATES, GET_RATES, GET_INDICATORS, COMPLETED_STEP = range(7, 12)
GET_STATES, GET_NOMINALS, GET_DIRECTIONAL = range(12, 15)
SET_CLOCKS, GET_CLOCKS, GET_INTERVAL, ACTIVATE_PARTITION = range(15, 19)
FIXED_INTERVAL, CHANGING_INTERVAL, COUNTDOWN = range(3)  # kinds of clocks
CALLS = 32  # the number c + CALLS k encodes the call c for the variable group k
DONE, FAILED, NOT_FINITE = range(3)
# status codes that FMI does not define
EARLY_RETURN, TERMINATES, DOES_NOT_FIT, MANY_UPDATES, MANY_EVENTS, SHORT_STEP = range(100, 106)
NEW_TEXTS, BAD_INTERVAL, DENSE_EVENTS, BAD_VALUE = 106, 107, 108, 109
SOURCES = (
    "exchange_stages.h",
    "fmu_step.h",
    "loop_tables.h",
    "master.c",
    "model_exchange.h",
)
EVENTS = 1000  # maximum number of events at one time, and of iterations at an event
STEP_EVENTS = 1_000_000  # maximum number of events in a step


# Names of the integrator's vectors for model exchange. A saved state contains the vectors in
# EXCHANGE_MEMORY; the others are only used within a step.
EXCHANGE_MEMORY = (
    *("control", "states", "indicators", "nominals", "held"),
    *("start_states", "end_states", "first_rates", "rates", "last_stages", "jacobian"),
)
_EXCHANGE_WORK = (
    *("stage_states", "inner_states", "new_indicators"),
    *("moved_rates", "near_states", "factors", "pivots", "newton"),
)
# elements of `control`
NEXT_EVENT, NEXT_STEP, IS_IMPLICIT = 0, 1, 2
HAS_STEP, STEP_KIND, RATES_KNOWN, POINT, FACTORED, STOP_TIME = 8, 13, 14, 15, 17, 22
FOLLOWS, BAD_NUMBER, CONTROL = 23, 25, 26
COLLOCATION_NODES = 5


class _Copy(Structure):
    _fields_ = (("start", c_void_p), ("to", c_void_p), ("n", c_int64))


class _Scale(Structure):
    _fields_ = (
        ("value", c_void_p),
        ("factor", c_double),
        ("offset", c_double),
        ("table", c_void_p),
        ("n_table", c_int64),
    )


class _Variables(Structure):
    _fields_ = (
        ("function", c_void_p),
        ("references", c_void_p),
        ("n", c_int64),
        ("values", c_void_p),
        ("n_values", c_int64),
        ("type", c_int64),
        ("places", c_void_p),
        ("buffer", c_void_p),
        ("texts", c_void_p),
        ("negated", c_void_p),
    )


class _Texts(Structure):
    _fields_ = tuple((name, c_void_p) for name in ("numbers", "known", "known_sizes", "sizes"))


class _Events(Structure):
    _fields_ = (
        ("enter_event_mode", c_void_p),
        ("update", c_void_p),
        ("enter_step_mode", c_void_p),
        ("set", c_void_p),
        ("n_set", c_int64),
        ("last", c_void_p),
        ("entered", c_void_p),
        ("refused", c_void_p),
    )


class _Clocks(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("set_clocks", "get_intervals", "activate")),
        ("n", c_int64),
        *((name, c_void_p) for name in ("references", "kinds", "ticks", "next_tick")),
        ("triggers", c_void_p),
        ("n_triggers", c_int64),
        ("outputs", c_void_p),
        ("n_outputs", c_int64),
        *((name, c_void_p) for name in ("due", "due_references", "active")),
    )


class _Tableau(Structure):
    _fields_ = (
        *((name, c_int64) for name in ("stages", "degree")),
        ("order", c_double),
        *((name, c_void_p) for name in ("a", "b", "c", "dense", "error")),
        ("gamma", c_double),
        *((name, c_void_p) for name in ("coupling", "time")),
    )


class _Collocation(Structure):
    _fields_ = (
        *(
            (name, c_void_p)
            for name in ("a", "c", "error", "roots", "to_eigenbasis", "from_eigenbasis")
        ),
        *((name, c_double) for name in ("newton_tolerance", "loose_tolerance")),
        *((name, c_double) for name in ("max_contraction", "reach", "jacobian_place")),
    )


class _Exchange(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("set_time", "set_states", "get_rates", "get_indicators")),
        *((name, c_void_p) for name in ("get_states", "get_nominals", "completed_step")),
        ("directional", c_void_p),
        *((name, c_int64) for name in ("n_states", "n_indicators")),
        *((name, c_void_p) for name in ("explicit_method", "implicit_method", "collocation")),
        *((name, c_double) for name in ("rtol", "atol", "longest")),
        *((name, c_double) for name in ("stable", "enough_votes", "most_patience", "dearness")),
        *((name, c_void_p) for name in ("colours", "pattern")),
        ("n_colours", c_int64),
        *((name, c_void_p) for name in ("rate_references", "state_references")),
        ("n_references", c_int64),
        *((name, c_void_p) for name in ("inputs", "polynomials")),
        *((name, c_int64) for name in ("n_inputs", "n_coefficients")),
        *((name, c_void_p) for name in EXCHANGE_MEMORY),
        *((name, c_void_p) for name in _EXCHANGE_WORK),
    )


class _Part(Structure):
    _fields_ = (
        ("kind", c_int64),
        ("number", c_int64),
        ("instance", c_void_p),
        ("step", c_void_p),
        ("set", c_void_p),
        ("n_set", c_int64),
        ("get", c_void_p),
        ("n_get", c_int64),
        ("events", c_void_p),
        ("wires", c_void_p),
        ("n_wires", c_int64),
        ("scales", c_void_p),
        ("n_scales", c_int64),
        ("clock", c_void_p),
        ("may_roll_back", c_void_p),
        ("exchange", c_void_p),
        ("clocks", c_void_p),
        ("every", c_int64),
        ("t_start", c_double),
        ("dt", c_double),
        ("length", c_double),
    )


_StatusCheck = ctypes.CFUNCTYPE(c_int, c_int, c_int, c_int, c_double, c_double)
_Host = ctypes.CFUNCTYPE(c_int, c_int, c_double, c_double)


class _Loop(Structure):
    _fields_ = (
        ("parts", c_void_p),
        ("n_parts", c_int64),
        ("simultaneous", c_int64),
        ("checked", c_void_p),
        ("n_checked", c_int64),
        ("kept", c_void_p),
        ("n_kept", c_int64),
        ("check_status", _StatusCheck),
        ("host", _Host),
        ("t_start", c_double),
        ("dt", c_double),
        ("k", c_int64),
        ("end", c_int64),
        ("every", c_int64),
        ("time", c_void_p),
        ("rows", c_void_p),
        ("room", c_int64),
        ("filled", c_int64),
        ("patience", c_double),
        ("part", c_int64),
        ("status", c_int64),
    )


class Texts(NamedTuple):
    """Strings or binary values of FMU variables, with n values in total.

    A port stores a hash of each value. If a value changes, Python converts the value to its hash or
    the hash to the value.

    Attributes:
        numbers: Hash of each value at its last conversion (n,).
        known: Address of the bytes of each value at its last conversion (n,).
        known_sizes: Size of each value at its last conversion (n,) [bytes].
        sizes: Size of each binary value in `Variables.buffer` (n,) [bytes].
    """

    numbers: Array
    known: Array
    known_sizes: Array
    sizes: Array


class Variables(NamedTuple):
    """FMU variables of one type, which a single C call sets or gets.

    The n variables have m elements in total. m exceeds n if a variable is an array.

    Attributes:
        function: Address of the FMI function.
        references: Value references (n,) as unsigned 32-bit integers.
        flat: Contiguous array of doubles with the port values.
        places: Indices (m,) of the elements in `flat`.
        type: Code of the variable type in `c/master/loop_tables.h`.
        buffer: Values (m,) in the variable type; None for doubles that are adjacent in `flat`.
        texts: Strings or binary values; None for numeric variables.
        negated: 1 for each negated alias of FMI 1.0, otherwise 0 (m,); None without such aliases.
    """

    function: int
    references: Array
    flat: Array
    places: Array
    type: int
    buffer: Array | None
    texts: Texts | None
    negated: Array | None


class Events(NamedTuple):
    """Data for event mode of an FMU: FMI function addresses, and discrete inputs.

    Attributes:
        enter_event_mode: Address of the FMI function that enters event mode.
        update: Address of the FMI function that updates the discrete states.
        enter_step_mode: Address of the FMI function that returns to step mode.
        set: Discrete inputs.
        last: Values of the discrete inputs at the last event.
        entered: 64-bit integer (1,); the loop sets it to 1 at the first event.
        refused: 64-bit integer (1,), which is 1 if the FMU has rejected event mode at its first
            event. Python sets it, and the loop then no longer enters event mode.
    """

    enter_event_mode: int
    update: int
    enter_step_mode: int
    set: Sequence[Variables]
    last: Array
    entered: Array
    refused: Array


class ClockTable(NamedTuple):
    """Clocks of an FMI 3.0 FMU, which the loop activates at their ticks.

    Attributes:
        set_clocks: Address of the FMI function that activates clocks.
        get_intervals: Address of the FMI function that returns clock intervals.
        activate: Address of the FMI function that runs a model partition; 0 without scheduled
            execution.
        references: Value references (n,) as unsigned 32-bit integers.
        kinds: Codes (n,) of the clock types in `c/master/loop_tables.h`.
        triggers: Triggered input clocks.
        outputs: Output clocks.
        ticks: One row per clock (n, 3): time of the first tick [s], interval [s] and number of
            ticks. The loop changes this array.
        next_tick: Two elements (2,): the time of the next tick of any clock [s], and a flag. The
            flag is 1 until the triggered clocks have ticked in the step. The loop changes this
            array.
    """

    set_clocks: int
    get_intervals: int
    activate: int
    references: Array
    kinds: Array
    ticks: Array
    next_tick: Array
    triggers: Sequence[Variables]
    outputs: Sequence[Variables]


class Tableau(NamedTuple):
    """Coefficients of an explicit or linearly implicit integration method with s stages.

    Attributes:
        order: Order of accuracy.
        a: Matrix (s, s) of the Butcher tableau.
        b: Weights (s,) of the Butcher tableau.
        c: Nodes (s,) of the Butcher tableau.
        dense: Coefficients (s, d) of the dense output of degree d.
        error: Weights (s,) of the error estimate, or None for fixed steps.
        gamma: Coefficient gamma of a linearly implicit method, or 0 for an explicit method.
        coupling: Coefficients (s, s) of the earlier stages k_j in the equation of stage k_i of a
            linearly implicit method.
        time: Coefficients (s,) of the partial derivative df/dt in a linearly implicit method, where
            f(t, x) is the state derivative.
    """

    order: int
    a: Array
    b: Array
    c: Array
    dense: Array
    error: Array | None
    gamma: float
    coupling: Array
    time: Array


class CollocationTable(NamedTuple):
    """Coefficients and iteration limits of a collocation method with five stages.

    The coefficients are a (5, 5), c (5,) and the weights `error` (5,) of the error estimate. In
    Newton's method, the matrix `to_eigenbasis` (5, 5) decouples the equations of the stages. The
    matrix `from_eigenbasis` (5, 5) is its inverse. `roots` (5,) contains the real eigenvalue of a,
    then the real and imaginary parts of two complex eigenvalues.

    `limits` contains:

    - the stage error at which Newton's method stops, divided by the tolerance,
    - the largest accepted stage error, divided by the tolerance,
    - the largest contraction rate of Newton's method,
    - the largest ratio of step sizes for extrapolation,
    - the fraction of the step at which the Jacobian is evaluated.
    """

    a: Array
    c: Array
    error: Array
    roots: Array
    to_eigenbasis: Array
    from_eigenbasis: Array
    limits: tuple[float, float, float, float, float]


class Sparsity(NamedTuple):
    """Sparsity and column colouring of the Jacobian of the state derivatives.

    Columns with the same value in `colours` (n,) have no common row with nonzero elements (Curtis,
    Powell and Reid 1974). `pattern` (n, n) is 1 for each element that may differ from zero.
    `colours` and `pattern` are 64-bit integers.
    """

    colours: Array
    pattern: Array

    @property
    def n_colours(self) -> int:
        """Number of different colours, which is the number of groups of columns."""
        return int(self.colours.max(initial=-1)) + 1


class Exchange(NamedTuple):
    """State equations of an FMU for model exchange, and the memory of its integrator.

    Attributes:
        functions: Addresses of eight FMI functions. They set the time, set the states, get the
            derivatives, get the event indicators, get the states, get the nominal values, complete
            an integrator step and get directional derivatives. Each of the last two addresses is 0
            if the function is not used.
        explicit: Coefficients of the explicit method, or None.
        implicit: Coefficients of the linearly implicit method, or None.
        collocation: Coefficients of the collocation method, or None.
        tolerances: rtol, atol (NaN for rtol times the nominal value) and longest inner step [s].
        switching: Constants of the switch between the explicit and the implicit method, which
            stiffness detection triggers (`block/adaptive_methods.py`).
        sparsity: Sparsity of the Jacobian of the state derivatives.
        references: Value references (2, r): derivatives in the first row, states in the second row.
        inputs: Values (m,) of all inputs.
        polynomials: Coefficients (k, m) of the input polynomials in powers of time. The loop uses
            them if the element `FOLLOWS` of the vector `control` in `memory` is 1.
        memory: Vector for each name in `EXCHANGE_MEMORY`; the loop changes these vectors.
    """

    functions: Sequence[int]
    explicit: Tableau | None
    implicit: Tableau | None
    collocation: CollocationTable | None
    tolerances: tuple[float, float, float]
    switching: tuple[float, float, float, float]
    sparsity: Sparsity
    references: Array
    inputs: Array
    polynomials: Array
    memory: Sequence[Array]


@dataclass(frozen=True, eq=False)
class Entry:
    """Data of one part for the C loop; only `kind`, `instance` and `step` apply to blocks.

    Attributes:
        kind: Type of the part.
        instance: Address of the instance.
        step: Address of the step function.
        set: FMU variables to set before a step.
        get: FMU variables to get after a step.
        events: Data for event mode, or None if the FMU does not support event mode.
        clock: Current simulated time (1,) for the log messages of the FMU [s].
        may_roll_back: 32-bit integer (1,), which is 1 if the master may repeat the current step.
        exchange: State equations of an FMU for model exchange, which has no step function.
        clocks: Clocks, or None for an FMU without clocks.
    """

    kind: int
    instance: int = 0
    step: int = 0
    set: Sequence[Variables] = ()
    get: Sequence[Variables] = ()
    events: Events | None = None
    clock: Array | None = None
    may_roll_back: Array | None = None
    exchange: Exchange | None = None
    clocks: ClockTable | None = None


Wire = tuple[Array, Array]  # views of the source values and of the target values
Scale = tuple[Array, Conversion]  # values to convert in place, and their conversion


class LongStep(NamedTuple):
    """Communication step of a part that spans several communication steps of the run.

    The part steps once in `every` steps of the run, over `length` [s]. The first step of the run
    begins at `t_start` [s]; each step of the run has the length `dt` [s].
    """

    every: int
    t_start: float
    dt: float
    length: float

    def step_at(self, t: float) -> tuple[float, float] | None:
        """Return the start time and the length [s] of a step of the part, or None.

        The step of the part ends together with the step of the run that starts at t [s]. The result
        is None if no step of the part ends with this step of the run.
        """
        number = round((t - self.t_start) / self.dt) + 1
        if number % self.every:
            return None
        return self.t_start + (number // self.every - 1) * self.length, self.length


class Row(NamedTuple):
    """Row of one part in the table of the C loop.

    Attributes:
        entry: Data of the part.
        wires: Pairs of a source view and an input view, to copy the inputs.
        scales: Unit conversions of inputs.
        slow: Own communication step of the part, or None if the part steps in each step of the run.
    """

    entry: Entry
    wires: Sequence[Wire] = ()
    scales: Sequence[Scale] = ()
    slow: LongStep | None = None


@cache
def library() -> Any:
    """Return the C library of the master loop, which is compiled once per machine.

    Raises CompilerError if no C compiler is available.
    """
    sources = {name: c_text(f"master/{name}") for name in SOURCES}
    loaded = ctypes.CDLL(str(shared_library(sources, "master.c")))
    loaded.rb_master_run.argtypes = (c_void_p,)
    loaded.rb_master_step.argtypes = (c_void_p, c_double, c_double)
    return loaded


class Loop:
    """C loop that steps all parts, in the order of the table `parts`.

    Parts are numbered in stepping order. An exception in `check_status` or `host` ends the loop,
    and `raise_collected_error` raises it.

    Args:
        checked: Views of the outputs that the loop checks for infinite values and NaN, because the
            parts do not check them.
        check_status: Function check_status(part, call, status, t, dt), which raises an exception if
            the status of an FMU call ends the run.
        host: Function host(part, t, dt), which steps a part without a C function.
    """

    def __init__(
        self,
        parts: Sequence[Row],
        checked: Iterable[Array],
        simultaneous: bool,
        check_status: Callable[[int, int, int, float, float], None],
        host: Callable[[int, float, float], None],
    ):
        self._errors: list[BaseException] = []
        self._alive: list[Any] = [parts]
        table = (_Part * len(parts))(*(self._part(k, *part) for k, part in enumerate(parts)))
        self._alive.append(table)
        checks = self._copies((view, view) for view in checked)
        self._loop = _Loop(
            parts=ctypes.addressof(table),
            n_parts=len(parts),
            simultaneous=simultaneous,
            checked=checks[0],
            n_checked=checks[1],
            check_status=_StatusCheck(_collect_errors(check_status, self._errors)),
            host=_Host(_collect_errors(host, self._errors)),
        )
        address = ctypes.addressof(self._loop)
        self._run = partial(library().rb_master_run, address)
        self._step = partial(library().rb_master_step, address)

    def raise_collected_error(self) -> None:
        """Raise the exception of `check_status` or `host` that has ended the loop, if any."""
        if self._errors:
            error = self._errors.pop()
            self._errors.clear()
            raise error

    def set_recorded_outputs(self, outputs: Iterable[Array]) -> None:
        """Set the views of the outputs to record."""
        self._loop.kept, self._loop.n_kept = self._copies((view, view) for view in outputs)

    @property
    def part(self) -> int:
        """Index of the part whose step has failed."""
        return int(self._loop.part)

    @property
    def status(self) -> int:
        """Status code of the failed step, if the part is a block."""
        return int(self._loop.status)

    def step(self, t: float, dt: float) -> int:
        """Step all parts from t to t + dt [s], and return DONE, FAILED or NOT_FINITE."""
        ending: int = self._step(t, dt)
        return ending

    def run(
        self,
        points: tuple[float, float],
        steps: tuple[int, int],
        every: int,
        buffers: tuple[Array, Array],
        time_limit: float,
    ) -> tuple[int, int, int]:
        """Step from the communication point `steps[0]` to the communication point `steps[1]`.

        The loop returns early if the buffers are full, if the time limit has elapsed, or after a
        failure.

        Args:
            points: Pair (t_start, dt) [s]. Communication point k is at the time t_start + k dt.
            steps: Indices of the first and the last communication point.
            every: Number of steps from one recorded sample to the next.
            buffers: Arrays for the times and the outputs of the samples.
            time_limit: Limit of the wall-clock time [s].

        Returns:
            DONE, FAILED or NOT_FINITE; the index of the last communication point; and the number
            of recorded samples.
        """
        loop, (time, rows) = self._loop, buffers
        loop.t_start, loop.dt = points
        loop.k, loop.end = steps
        loop.every, loop.patience = every, time_limit
        loop.time, loop.rows = time.ctypes.data, rows.ctypes.data
        loop.room, loop.filled = len(time), 0
        ending: int = self._run()
        return ending, loop.k, loop.filled

    def _part(
        self,
        number: int,
        entry: Entry,
        wires: Sequence[Wire],
        scales: Sequence[Scale],
        slow: LongStep | None,
    ) -> _Part:
        copies, n = self._copies(wires)
        converted, n_scales = self._scales(scales)
        to, of = self._variables(entry.set), self._variables(entry.get)
        return _Part(
            kind=entry.kind,
            number=number,
            instance=entry.instance,
            step=entry.step,
            set=to,
            n_set=len(entry.set),
            get=of,
            n_get=len(entry.get),
            events=self._events(entry.events),
            wires=copies,
            n_wires=n,
            scales=converted,
            n_scales=n_scales,
            clock=None if entry.clock is None else entry.clock.ctypes.data,
            may_roll_back=None if entry.may_roll_back is None else entry.may_roll_back.ctypes.data,
            exchange=self._exchange(entry.exchange),
            clocks=self._clocks(entry.clocks),
            **({} if slow is None else slow._asdict()),
        )

    def _variables(self, groups: Sequence[Variables]) -> int:
        """Return the address of C structs that describe groups of FMU variables."""
        all_places = [one.places - (one.places[0] if one.buffer is None else 0) for one in groups]
        found = [
            _Variables(
                one.function,
                one.references.ctypes.data,
                len(one.references),
                one.flat.ctypes.data + (0 if one.buffer is not None else 8 * int(one.places[0])),
                len(one.places),
                one.type,
                places.ctypes.data,
                None if one.buffer is None else one.buffer.ctypes.data,
                self._texts(one.texts),
                None if one.negated is None else one.negated.ctypes.data,
            )
            for one, places in zip(groups, all_places, strict=True)
        ]
        table = (_Variables * len(found))(*found)
        self._alive += [table, all_places]
        return ctypes.addressof(table)

    def _texts(self, texts: Texts | None) -> int | None:
        if texts is None:
            return None
        table = _Texts(*(values.ctypes.data for values in texts))
        self._alive += [table, texts]
        return ctypes.addressof(table)

    def _events(self, events: Events | None) -> int | None:
        """Return the address of the C struct for event mode; None for a part without event mode."""
        if events is None:
            return None
        table = _Events(
            events.enter_event_mode,
            events.update,
            events.enter_step_mode,
            self._variables(events.set),
            len(events.set),
            events.last.ctypes.data,
            events.entered.ctypes.data,
            events.refused.ctypes.data,
        )
        self._alive.append(table)
        return ctypes.addressof(table)

    def _clocks(self, clocks: ClockTable | None) -> int | None:
        """Return the address of the C struct for the clocks of a part; None without clocks."""
        if clocks is None:
            return None
        n = len(clocks.references)
        work = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.uint32), np.ones(n, dtype=bool)
        table = _Clocks(
            *clocks[:3],
            n,
            *(values.ctypes.data for values in clocks[3:7]),
            self._variables(clocks.triggers),
            len(clocks.triggers),
            self._variables(clocks.outputs),
            len(clocks.outputs),
            *(values.ctypes.data for values in work),
        )
        self._alive += [table, work, clocks]
        return ctypes.addressof(table)

    def _exchange(self, exchange: Exchange | None) -> int | None:
        """Return the address of the C struct for model exchange; None for other types of parts."""
        if exchange is None:
            return None
        n, m = len(exchange.memory[1]), len(exchange.memory[2])
        matrices = 1 if exchange.collocation is None else COLLOCATION_NODES
        sizes = n, n, m, n, n, matrices * n * n, 3 * n, 3 * COLLOCATION_NODES * n
        work = [np.zeros(k) for k in sizes]
        table = _Exchange(
            *exchange.functions,
            *(n, m),
            *(self._tableau(method) for method in (exchange.explicit, exchange.implicit)),
            self._collocation(exchange.collocation),
            *exchange.tolerances,
            *exchange.switching,
            *(values.ctypes.data for values in exchange.sparsity),
            exchange.sparsity.n_colours,
            *(row.ctypes.data for row in exchange.references),
            exchange.references.shape[1],
            exchange.inputs.ctypes.data,
            exchange.polynomials.ctypes.data,
            *reversed(exchange.polynomials.shape),
            *(values.ctypes.data for values in (*exchange.memory, *work)),
        )
        self._alive += [table, work, exchange]
        return ctypes.addressof(table)

    def _tableau(self, tableau: Tableau | None) -> int | None:
        """Return the address of the C struct of a method, or None without a method."""
        if tableau is None:
            return None
        arrays = (
            tableau.a,
            tableau.b,
            tableau.c,
            tableau.dense,
            tableau.error,
            tableau.coupling,
            tableau.time,
        )
        *first, coupling, time = (None if w is None else w.ctypes.data for w in arrays)
        table = _Tableau(*tableau.dense.shape, tableau.order, *first, tableau.gamma, coupling, time)
        self._alive += [table, tableau]
        return ctypes.addressof(table)

    def _collocation(self, method: CollocationTable | None) -> int | None:
        """Return the address of the C struct of a collocation method, or None."""
        if method is None:
            return None
        *arrays, limits = method
        table = _Collocation(*(values.ctypes.data for values in arrays), *limits)
        self._alive += [table, method]
        return ctypes.addressof(table)

    def _scales(self, scales: Sequence[Scale]) -> tuple[int, int]:
        """Return the address and the number of the C structs for the unit conversions."""
        found = []
        for target, (factors, offsets, pairs) in scales:
            replacements = np.array(pairs, dtype=float)
            self._alive.append(replacements)
            found += [
                _Scale(address, factor, offset, replacements.ctypes.data, len(pairs))
                for address, factor, offset in zip(
                    _addresses(target), factors, offsets, strict=True
                )
            ]
        table = (_Scale * len(found))(*found)
        self._alive.append(table)
        return ctypes.addressof(table), len(found)

    def _copies(self, pairs: Iterable[Wire]) -> tuple[int, int]:
        """Return the address and the number of the C structs that copy outputs to inputs."""
        found = list(copy_operations(pairs))
        copies = (_Copy * len(found))(*(_Copy(*one) for one in found))
        self._alive.append(copies)
        return ctypes.addressof(copies), len(found)


def copy_operations(pairs: Iterable[Wire]) -> Iterable[tuple[int, int, int]]:
    """Yield tuples (from, to, n): copy n adjacent doubles from one address to another.

    Each item of `pairs` contains a source view and a target view of equal shape.
    """
    last: tuple[int, int, int] | None = None
    for source, target in pairs:
        for start, to, n in _pieces(source, target):
            if last and (start, to) == (last[0] + 8 * last[2], last[1] + 8 * last[2]):
                last = (last[0], last[1], last[2] + n)
                continue
            if last:
                yield last
            last = (start, to, n)
    if last:
        yield last


def _pieces(source: Array, target: Array) -> Iterable[tuple[int, int, int]]:
    assert source.dtype == target.dtype == float
    assert source.shape == target.shape
    if source.flags.c_contiguous and target.flags.c_contiguous:
        return [(source.ctypes.data, target.ctypes.data, source.size)] if source.size else []
    places = zip(_addresses(source), _addresses(target), strict=True)
    return [(start, to, 1) for start, to in places]


def _addresses(view: Array) -> list[int]:
    """Return the address of each element of an array view, in C order."""
    offsets = sum(
        (np.multiply(i, s) for i, s in zip(np.indices(view.shape), view.strides, strict=True)),
        np.zeros(view.shape, dtype=int),
    )
    return [view.ctypes.data + int(offset) for offset in np.ravel(offsets)]


def _collect_errors(
    function: Callable[..., None], errors: list[BaseException]
) -> Callable[..., bool]:
    """Return a callback for C that calls `function` and returns True after an exception.

    The callback stores the exception in `errors`.
    """

    def call(*arguments: float) -> bool:
        try:
            function(*arguments)
        except BaseException as error:
            errors.append(error)
            return True
        return False

    return call


def single_part_step(
    entry: Entry, check_status: Callable[[int, int, float, float], None]
) -> Callable[[float, float], None] | None:
    """Return a function that steps one FMU in C from t to t + dt [s]; None without a C compiler.

    `check_status(call, status, t, dt)` raises an exception if an FMU call has an error status.
    """

    def judge_part(part: int, call: int, status: int, t: float, dt: float) -> None:
        del part  # the loop has only one part
        check_status(call, status, t, dt)

    def host(*arguments: float) -> None:
        raise AssertionError(f"no part of the loop steps in Python, but got {arguments}")

    try:
        loop = Loop([Row(entry)], (), False, judge_part, host)
    except (CompilerError, CacheError):
        return None

    def step(t: float, dt: float) -> None:
        if loop.step(t, dt):
            loop.raise_collected_error()

    return step
