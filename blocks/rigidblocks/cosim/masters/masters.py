"""Master algorithms, which execute the communication steps of a run in Python or in C.

The coupling options select the scheme of a communication step in Python. A scheme uses held inputs
or polynomial inputs. It may also locate events, control the step size and measure power bonds.
"""

import abc
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from json import dumps
from math import inf
from typing import Any

import numpy as np

from rigidblocks.block.evaluators import MAX_INPUT_ORDER, evaluate_inputs, mean_inputs
from rigidblocks.block.stepper import time_tolerance
from rigidblocks.common.compiler import CacheError, CompilerError
from rigidblocks.cosim.masters.c_loop_tables import DONE, FAILED, HOSTED, STEP, Loop
from rigidblocks.cosim.masters.dependency_graph import Bond, InterfaceJacobian, Links, equations_of
from rigidblocks.cosim.masters.network import Instances, Network, OneMemory
from rigidblocks.cosim.masters.real_time_pacing import StepTiming
from rigidblocks.cosim.masters.run_plan import Coupling, Plan
from rigidblocks.cosim.results.recording import Hold, Recording, check_finite
from rigidblocks.spatial.spatial import Array

LOOK = 0.05  # time between two checks of the progress bar and of Ctrl-C [s]
LOG = logging.getLogger("rigidblocks")
CLOSE = 1e-12  # tolerance of the event time, relative to dt
EVENTS = 100  # maximum number of events in one step of dt

_WHOLE = -3  # key of the state that step size control saves at the beginning of a step
_SAFETY = 0.9  # double the step if the predicted error is below 0.9 tol (found by trial)
# stop after three successive halvings of the step that each leave over 70 % of the error
_STAGNATION, _MAX_STAGNATIONS = 0.7, 3


class Master(abc.ABC):
    """Base class of masters, which step all parts from one communication point to the next."""

    network: Network

    @abc.abstractmethod
    def go(self, recording: Recording, hold: Hold, pace: StepTiming | None) -> Iterator[int]:
        """Take all steps of the run; yield the number of steps since the last yield.

        The context manager `hold` delays interrupts. If `pace` is given, each step starts at its
        due time.
        """

    @abc.abstractmethod
    def step(self, t: float, dt: float) -> None:
        """Step all parts from t to t + dt [s]; the outputs are not recorded."""

    @property
    def steps_in_c(self) -> bool:
        """True if the loop over the parts runs in C."""
        return False

    def report(self) -> Mapping[str, str]:
        """Return statistics of the steps for the metadata of the result."""
        return {}

    def remarks(self) -> Iterator[tuple[int, str]]:
        """Yield remarks on a run for the log, as pairs (log level, text)."""
        yield from ()


class CoSimulation(Master):
    """Master in Python, with one instance for each part.

    The coupling options in the plan select the scheme for communication steps (`Scheme`). For runs
    without coupling options, this master is the reference implementation for the C loop. Steps of
    compiled parts run in C.
    """

    def __init__(self, plan: Plan, network: Instances):
        self.network, self._points = network, (plan.t_start, plan.dt)
        coupling, self._is_plain = plan.coupling, plan.coupling.is_plain
        held = HeldStep(plan, network)
        self._events = EventStep(plan, network, held) if plan.events else None
        scheme: Scheme = PolynomialStep(plan, network) if coupling.uses_polynomial_inputs else held
        bonds = PowerBonds(plan, network) if coupling.bonds else None
        self._step = scheme if bonds is None else bonds.measure(scheme)
        control = None
        if coupling.step_tol is not None:
            self._step = control = StepSizeControl(plan, network, self._step)
        self._reporters = [one for one in (scheme, control, bonds) if one is not None]

    def go(self, recording: Recording, hold: Hold, pace: StepTiming | None) -> Iterator[int]:
        del hold  # unused, because an interrupt may stop the Python loop within a step
        step = self._step if self._events is None else partial(self._events, recording)
        return run_python_loop(step, self.network, self._points, recording, pace)

    def step(self, t: float, dt: float) -> None:
        self._step(t, dt)

    def report(self) -> Mapping[str, str]:
        if self._is_plain:
            return {}
        reports = [one.report() for one in self._reporters]
        return {"coupling": dumps({key: value for one in reports for key, value in one.items()})}

    def remarks(self) -> Iterator[tuple[int, str]]:
        for one in self._reporters:
            yield from one.remarks()


def run_python_loop(
    step: Callable[[float, float], None],
    network: Network,
    points: tuple[float, float],
    recording: Recording,
    pace: StepTiming | None,
) -> Iterator[int]:
    """Step from each communication point to the next, and record the outputs.

    `points` is the pair (t_start, dt) [s]: communication point k is at the time t_start + k dt. The
    function yields 1 after each step, for `Master.go`.
    """
    t_start, dt = points
    for k in range(recording.k, recording.grid.n):
        if pace is not None:
            pace.wait()
        step(t_start + k * dt, dt)
        recording.add(network.row())
        if pace is not None:
            pace.end_step(t_start + (k + 1) * dt)
        yield 1


class CompiledLoop(Master):
    """Master in C, which returns to Python at regular intervals and after a failure."""

    def __init__(self, plan: Plan, network: Network):
        self.network, self._points = network, (plan.t_start, plan.dt)
        self._ports, table = plan.wiring.outputs, network.table()
        self._hosts = any(row.entry.kind == HOSTED for row in table)
        self._kept: tuple[str, ...] | None = None
        self._loop = Loop(
            table,
            network.unchecked_outputs,
            plan.is_simultaneous,
            network.check_status,
            network.step,
        )

    @property
    def steps_in_c(self) -> bool:
        return True

    def go(self, recording: Recording, hold: Hold, pace: StepTiming | None) -> Iterator[int]:
        names = tuple(port.name for port in recording.chosen)
        if names != self._kept:  # the previous run recorded other outputs
            self._loop.set_recorded_outputs(self.network.outputs[name] for name in names)
            self._kept = names
        last = recording.grid.n
        # without Python parts, interrupts are delayed until the C loop returns
        held = contextlib.nullcontext if self._hosts else hold
        while recording.k < last:
            if pace is not None:
                pace.wait()
            with held():
                begin = recording.k
                end = last if pace is None else begin + 1
                steps, every, room = (begin, end), recording.every, recording.next_buffer()
                ending, k, rows = self._loop.run(self._points, steps, every, room, LOOK)
                recording.commit(k - begin, rows)
            if pace is not None:
                pace.end_step(self._points[0] + k * self._points[1])
            if ending != DONE:
                self._fail(ending, self._points[0] + k * self._points[1], self._points[1])
            yield k - begin

    def step(self, t: float, dt: float) -> None:
        if ending := self._loop.step(t, dt):
            self._fail(ending, t, dt)

    def _fail(self, ending: int, t: float, dt: float) -> None:
        """Raise the exception for a failed step of the C loop from t to t + dt [s].

        `ending` is the result of the loop, FAILED or NOT_FINITE.
        """
        self._loop.raise_collected_error()
        if ending == FAILED:
            self.network.check_status(self._loop.part, STEP, self._loop.status, t, dt)
        check_finite(self._ports, self.network.row())


def master_of(plan: Plan) -> Master:
    """Return the fastest available master for a plan.

    The master in Python is selected if the plan has events or coupling options, if blocks run in
    NumPy, or if no C compiler is available.
    """
    if plan.form == "fused":
        return CompiledLoop(plan, OneMemory(plan))
    network = Instances(plan)
    if plan.form == "compiled" and plan.coupling.is_plain and not plan.events:
        with contextlib.suppress(CompilerError, CacheError):
            return CompiledLoop(plan, network)
    return CoSimulation(plan, network)


class Scheme(abc.ABC):
    """Base class of the coupling schemes, which execute communication steps."""

    @abc.abstractmethod
    def __call__(self, t: float, dt: float) -> None:
        """Step all parts from t to t + dt [s]."""

    def copy(self) -> Any:
        """Return a copy of the current state of the scheme; call it only between two steps."""
        return None

    def restore_state(self, state: Any) -> None:
        """Restore a state of the scheme that `copy` has returned."""
        del state

    def report(self) -> Mapping[str, object]:
        """Return statistics of the run by name."""
        return {}

    def remarks(self) -> Iterator[tuple[int, str]]:
        """Yield remarks on the run for the log, as pairs (log level, text)."""
        yield from ()


class HeldStep(Scheme):
    """Communication step with constant inputs, in the stepping order of the plan."""

    def __init__(self, plan: Plan, network: Instances):
        self._parts, self._simultaneous = network, plan.is_simultaneous

    def __call__(self, t: float, dt: float) -> None:
        self.step_within((t, dt), t, dt)

    def step_within(self, whole: tuple[float, float], t: float, dt: float) -> None:
        """Step all parts from t to t + dt, within the communication step `whole`.

        Events may split a communication step; `whole` contains the start time and the length of the
        whole communication step [s].
        """
        due = self._parts.due_steps(whole, t, dt)
        numbers = [number for number, *_ in due]
        for k in self._parts.read_inputs_in_order(numbers, is_simultaneous=self._simultaneous):
            number, own, begin, length = due[k]
            self._parts.step_within(own, number, begin, length)


class EventStep:
    """Communication step with held inputs that stops at each event and records a sample there.

    An event occurs when an event indicator of the plan falls through zero. Bisection locates the
    event: the parts restore their saved states and repeat the step with a different length.
    """

    def __init__(self, plan: Plan, network: Instances, scheme: HeldStep):
        self._parts, self._scheme = network, scheme
        names = [name for port in plan.wiring.outputs for name in port.element_names]
        self._events = np.array([names.index(one) for one in dict.fromkeys(plan.events)], dtype=int)

    def __call__(self, recording: Recording, t: float, dt: float) -> None:
        """Step from t to t + dt [s], with a stop at each event."""
        start, done, rest = t, 0.0, dt
        for _ in range(EVENTS + 1):
            for instance in self._parts.by_name.values():
                instance.save()
            values_before = self._parts.row()[self._events]
            self._scheme.step_within((t, dt), start, rest)
            if not len(self._downward_crossings(values_before)):
                return
            done += self._locate((t, dt), start, rest, values_before)
            start, rest = t + done, dt - done
            recording.add_crossings(start, self._downward_crossings(values_before))
            if rest <= 0:
                return
            recording.insert(start, self._parts.row())
        raise ArithmeticError(
            f"more than {EVENTS} events occurred within one communication step; reduce dt, or "
            "check that the event indicators do not chatter"
        )

    def _locate(
        self, whole: tuple[float, float], t: float, length: float, values_before: Array
    ) -> float:
        """Locate the first event of a step by bisection, step to it, and return this length [s].

        `length` is the length of the step from t, and `whole` the whole communication step.
        `values_before` are the event indicators at t.
        """
        low, high = 0.0, length
        while high - low > CLOSE * whole[1]:
            middle = (low + high) / 2
            self._step_again(whole, t, middle)
            low, high = (
                (low, middle) if len(self._downward_crossings(values_before)) else (middle, high)
            )
        self._step_again(whole, t, high)
        return high

    def _step_again(self, whole: tuple[float, float], t: float, dt: float) -> None:
        for instance in self._parts.by_name.values():
            instance.restore()
        self._scheme.step_within(whole, t, dt)

    def _downward_crossings(self, values_before: Array) -> Array:
        """Return the event indicators that were positive in `values_before`, but are not now."""
        now = self._parts.row()[self._events]
        return np.asarray(self._events[(values_before > 0) & (now <= 0)])


class OutputHistory:
    """Outputs at the latest communication points (at most `size`), the latest point first."""

    def __init__(self, size: int):
        self.size = size
        self.times: tuple[float, ...] = ()
        self.rows: tuple[Array, ...] = ()
        self._next: tuple[float, Array] | None = None

    def begin(self, t: float, row: Array, dt: float) -> None:
        """Add the outputs `row` at the start time t of a step.

        If these outputs differ from the outputs at the end of the previous step, for example after
        a reset, the earlier points are discarded.
        """
        came = self._next is not None and abs(self._next[0] - t) <= time_tolerance(t, dt)
        if not (came and self._next is not None and np.array_equal(self._next[1], row)):
            self.times = self.rows = ()
        self.times = (t, *self.times)[: self.size]
        self.rows = (row, *self.rows)[: self.size]

    def end(self, t: float, row: Array) -> None:
        """Store the outputs `row` at the end time t of a step."""
        self._next = t, row

    def copy(self) -> "OutputHistory":
        """Return a copy of the output history."""
        other = OutputHistory(self.size)
        other.times, other.rows, other._next = self.times, self.rows, self._next
        return other


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """Polynomials through the outputs at the latest communication points.

    Attributes:
        c: Coefficients (MAX_INPUT_ORDER + 1, n) in powers of the time since the latest point.
        end: Values (n,) of the polynomials at the end of the next step.
        correction: Coefficients (MAX_INPUT_ORDER + 1,) of the polynomial that is 0 at the past
            points and 1 at the end of the next step.
        dt: Length of the next step [s].
    """

    c: Array
    end: Array
    correction: Array
    dt: float

    def coefficients(self, new: Array, columns: Array, known: Array) -> Array:
        """Return the polynomial coefficients of the outputs with the indices `columns`.

        `new` contains all outputs at the end of the step. The Boolean array `known` marks the
        outputs in `columns` whose values in `new` are known. The polynomials of these outputs also
        interpolate the values in `new`, so their degree is higher by one.
        """
        c: Array = self.c[:, columns]
        missing = np.where(known, new[columns] - self.end[columns], 0.0)
        return c + np.multiply.outer(self.correction, missing)


def extrapolate(past: OutputHistory, dt: float) -> Extrapolation:
    """Return the polynomials that extrapolate the outputs over the next step of dt [s]."""
    s = np.subtract(past.times, past.times[0]) / dt
    c = np.zeros((MAX_INPUT_ORDER + 1, len(past.rows[0])))
    c[0] = past.rows[0]
    if len(s) > 1:
        powers = np.arange(1, len(s))
        changes = np.subtract(past.rows[1:], past.rows[0])
        c[1 : len(s)] = np.linalg.solve(s[1:, None] ** powers, changes) / dt ** powers[:, None]
    correction = np.zeros(MAX_INPUT_ORDER + 1)  # 0 at the past points and 1 at the end of the step
    correction[: len(s) + 1] = np.poly(s)[::-1] / np.prod(1.0 - s)
    powers = np.arange(MAX_INPUT_ORDER + 1)
    return Extrapolation(c, dt**powers @ c, correction / dt**powers, dt)


_STEP = -2  # key of the state that `PolynomialStep` saves at the beginning of a step


class PolynomialStep(Scheme):
    """Communication step with inputs that are polynomials through the latest outputs.

    In Gauss-Seidel order, the polynomials also interpolate the known outputs at t + dt. If
    `iterate` is set, parts in a loop of connections repeat the step once or until convergence. Each
    repetition uses the outputs of the previous iteration. All other parts step after their sources,
    whose outputs at t + dt are then known. Outputs that change only at samples are held.
    """

    def __init__(self, plan: Plan, network: Instances):
        self._parts, self._coupling, self._links = network, plan.coupling, plan.links
        self._simultaneous, n = plan.is_simultaneous, len(plan.links.owner)
        # sampled parts read held outputs at the end of the step; in Jacobi order, at its start
        is_ordered = self._coupling.iterate or not self._simultaneous
        self._reads_new = plan.links.stateless if is_ordered else frozenset[str]()
        self._past = OutputHistory(self._coupling.extrapolate + 1)
        self._new, self._known = np.zeros(n), np.zeros(n, dtype=bool)
        self._groups = [plan.links.sort_by_feedthrough(group) for group in plan.links.groups]
        self._starts_well = all(
            plan.wiring.parts[name].can_restore_state
            for group in self._groups
            if len(plan.links.interface(group))
            for name in group
        )
        self._columns = {
            group: columns for group in self._groups if len(columns := plan.links.interface(group))
        }
        self._equations = {
            group: equations_of(plan.links, group, columns)
            for group, columns in self._columns.items()
        }
        self._slopes = {
            group: InterfaceJacobian(plan.links, group, columns, network.by_name)
            for group, columns in self._columns.items()
        }
        self._outputs = {
            name: np.flatnonzero(plan.links.owner == name) for name in plan.wiring.parts
        }
        self._repeats = 0

    def __call__(self, t: float, dt: float) -> None:
        self._past.begin(t, self._parts.row(), dt)
        self._ahead, self._known[:] = extrapolate(self._past, dt), False
        is_start = len(self._past.times) == 1 and self._starts_well
        if self._coupling.iterate or is_start:
            for group in self._groups:
                self._step_group(group, t, dt)
        else:
            self._sweep(self._parts.order, t, dt, self._simultaneous)
        self._past.end(t + dt, self._parts.row())

    def copy(self) -> OutputHistory:
        return self._past.copy()

    def restore_state(self, state: OutputHistory) -> None:
        self._past = state.copy()

    def report(self) -> Mapping[str, object]:
        evaluations = sum(one.evaluations for one in self._equations.values())
        return {"repeated steps": self._repeats + evaluations}

    def remarks(self) -> Iterator[tuple[int, str]]:
        return polynomial_input_remarks(self._parts, self._links)

    def _step_group(self, group: tuple[str, ...], t: float, dt: float) -> None:
        """Step a group: a single part, or the parts of a loop of connections."""
        if group not in self._equations:
            self._sweep(group, t, dt, simultaneous=False)
            return
        for name in group:
            self._parts.by_name[name].save_state(_STEP)
        if self._coupling.solves:
            self._solve(group, t, dt)
            return
        simultaneous = self._simultaneous and bool(self._coupling.iterate)
        self._sweep(group, t, dt, simultaneous)
        for _ in range(1 + self._links.depth(group) * simultaneous):
            self._repeats += 1
            self._repeat_step(group, t, dt, simultaneous)

    def _solve(self, group: tuple[str, ...], t: float, dt: float) -> None:
        """Solve the interface equations of a group for its outputs y at the end of the step.

        The equations are y = Y(y). Y(y) are the outputs after a step with input polynomials through
        y.
        """
        columns = self._columns[group]

        def outputs(values: Array) -> Array:
            self._new[columns], self._known[columns] = values, True
            self._repeat_step(group, t, dt, simultaneous=True)
            found: Array = self._new[columns]
            return found

        guess = self._ahead.end[columns]
        scale = np.maximum(self._links.nominal[columns], np.abs(guess))
        try:
            self._equations[group].solve(
                outputs, guess, scale, lambda: self._interface_jacobian(group)
            )
        except ArithmeticError as error:
            raise ArithmeticError(f"in the step from t = {t:g} s, {error}") from error

    def _interface_jacobian(self, group: tuple[str, ...]) -> Array:
        """Return the Jacobian dY/dy of the interface equations y = Y(y) of a group.

        Entries that the parts do not provide are NaN.
        """
        mean = float(mean_inputs(self._ahead.correction[:, None], self._ahead.dt)[0])

        def input_weights(name: str, inputs: Array) -> Array:
            at_end = self._parts.by_name[name].supports_polynomial_inputs or np.isin(
                inputs, self._links.inputs_at_end[name]
            )
            return np.where(at_end, 1.0, mean)

        return self._slopes[group](input_weights)

    def _repeat_step(self, group: tuple[str, ...], t: float, dt: float, simultaneous: bool) -> None:
        """Roll back a group to the saved state, and step it again (Jacobi if `simultaneous`)."""
        for name in group:
            self._parts.by_name[name].restore_state(_STEP)
        self._sweep(group, t, dt, simultaneous)

    def _sweep(self, names: Sequence[str], t: float, dt: float, simultaneous: bool) -> None:
        """Step each part once, in Jacobi order if `simultaneous`, else in Gauss-Seidel order."""
        for name in names:
            self._parts.call_and_name_errors(
                name, partial(self._step_with_polynomial_inputs, name, t, dt)
            )
            if not simultaneous:
                self._store_outputs(name)
        if simultaneous:
            for name in names:
                self._store_outputs(name)

    def _step_with_polynomial_inputs(self, name: str, t: float, dt: float) -> None:
        """Step one part with polynomial inputs.

        If a part does not support polynomial inputs, each input is constant during the step and
        equals the mean of its polynomial. Two kinds of inputs are exceptions: inputs in an
        algebraic loop, and inputs of sampled parts without continuous states. These inputs equal
        the value of the polynomial at the end of the step.
        """
        part, course = self._parts.by_name[name], self._input_polynomials(name)
        at_end = self._links.inputs_at_end[name]
        if part.supports_polynomial_inputs or not len(at_end):
            part.follow(course, t, dt)
            return
        end, held = evaluate_inputs(course, dt), np.zeros_like(course)
        held[0] = mean_inputs(course, dt)
        held[0, at_end] = end[at_end]
        part.follow(held, t, dt)
        part.inputs[:] = end

    def _store_outputs(self, name: str) -> None:
        """Store the new outputs of a part and mark them as known."""
        columns = self._outputs[name]
        self._new[columns], self._known[columns] = self._parts.by_name[name].outputs(), True

    def _input_polynomials(self, name: str) -> Array:
        """Return the coefficients of the input polynomials of a part in the current step."""
        link, inputs = self._links.by_part[name], self._parts.by_name[name].inputs
        c = self._ahead.coefficients(self._new, link.sources, self._known[link.sources])
        held = self._links.held[link.sources]
        c[1:, held] = 0.0
        if name in self._reads_new:
            new = held & self._known[link.sources]
            c[0, new] = self._new[link.sources[new]]
        course = np.zeros((len(c), len(inputs)))
        course[0] = inputs
        course[:, link.to] = link.inputs(c)
        return course


def polynomial_input_remarks(parts: Instances, links: Links) -> Iterator[tuple[int, str]]:
    """Yield warnings about parts whose lack of polynomial inputs reduces the order of accuracy."""
    for name, link in links.by_part.items():
        if name in links.samplers or parts.by_name[name].supports_polynomial_inputs:
            continue
        if not links.held[link.sources].all():
            yield (
                logging.WARNING,
                f"'{name}' does not support polynomial inputs and receives their mean over each "
                "step: this approximation is of second order, or of first order for outputs with "
                "direct feedthrough; inputs in an algebraic loop have their values at the end of "
                "the step",
            )


class StepSizeControl(Scheme):
    """Step size control for a scheme of order p, by the estimated error per second.

        |y_2 - y_1| / (2^p - 1) <= tol h max(nominal, |y|)

    h is the step size, tol the tolerance `step_tol`, and nominal the nominal value of the output.
    y_1 are the outputs after one step, and y_2 the outputs after two half steps. The run continues
    from y_2. The inequality must hold for all outputs that change within a step. For outputs with
    direct feedthrough, the factor h is omitted, because the errors do not accumulate.

    All sample times are multiples of the longest step. If the inequality does not hold, the step is
    repeated with half the step size. Step sizes are multiples of the shortest step, and each step
    starts at a multiple of its size. If halving no longer reduces the error, the step is accepted.
    For example, the outputs may contain an error of an earlier step. If the error at the minimum
    step size exceeds the tolerance, the log reports this once and suggests other options.
    """

    def __init__(self, plan: Plan, network: Instances, scheme: Scheme):
        coupling = plan.coupling
        assert coupling.step_tol is not None
        self._parts, self._scheme, self._tol = network, scheme, coupling.step_tol
        self._factor, self._p = 2.0**coupling.order - 1.0, coupling.order
        self._advice = _advice(coupling)
        self._spans, self._dt = plan.spans, plan.dt
        # one halving fewer, because each step consists of two half steps
        self._most = plan.halvings - 1
        self._halvings = 0
        self._nominal, self._judged = plan.links.nominal, ~plan.links.held
        self._algebraic = plan.links.algebraic
        self._taken = self._refused = self._above = 0
        self._shortest, self._largest = inf, 0.0

    def __call__(self, t: float, dt: float) -> None:
        span = dt / self._spans
        for k in range(self._spans):
            self._step_over_span(t + k * span, span)

    def copy(self) -> Any:
        return self._halvings, self._scheme.copy()

    def restore_state(self, state: Any) -> None:
        self._halvings, inner = state
        self._scheme.restore_state(inner)

    def report(self) -> Mapping[str, object]:
        return {
            "steps": self._taken,
            "refused": self._refused,
            "shortest": self._shortest,
            "above tolerance": self._above,
            "largest error [step_tol]": self._largest,
        }

    def remarks(self) -> Iterator[tuple[int, str]]:
        if self._above:
            yield (
                logging.WARNING,
                f"{self._above} of {self._taken} coupling steps have an error above step_tol, at "
                f"most {self._largest:.3g} times step_tol; shorter steps were not allowed "
                "or did not reduce the error",
            )

    def _step_over_span(self, t: float, span: float) -> None:
        """Step from t [s] over a time span [s] without sample instants, except at its end."""
        done, whole = 0, 1 << self._most
        while done < whole:
            error, ticks = self._take_step(t, span, done)
            self._count(error, t + span * done / whole, span * ticks / whole)
            done += ticks
            self._lengthen_step(error, done)

    def _count(self, error: float, t: float, h: float) -> None:
        """Count a step of size h [s] that starts at t [s].

        The first error above the tolerance is logged if the step has the minimum size.
        """
        is_told = self._above > 0
        self._taken += 1
        self._above += error > 1.0
        self._shortest = min(self._shortest, h / 2)
        self._largest = max(self._largest, error)
        if error > 1.0 and not is_told and self._halvings == self._most:
            LOG.warning(
                "at t = %g s the error of the shortest steps (%.3g s) is %.3g times the error "
                "that step_tol = %g allows; the run continues with these steps: %s",
                *(t, h / 2, error, self._tol, self._advice),
            )

    def _take_step(self, t: float, span: float, done: int) -> tuple[float, int]:
        """Take the next step within the span; halve the step size after each rejection.

        `done` is the completed length of the span, in units of the shortest step. Returns the error
        divided by the tolerance, and the step size in units of the shortest step.
        """
        whole, last, stagnations = 1 << self._most, inf, 0
        while True:
            ticks = whole >> self._halvings
            is_last = self._halvings == self._most or stagnations == _MAX_STAGNATIONS
            error = self._try_step(t + span * done / whole, span * ticks / whole, is_last)
            if error <= 1.0 or is_last:
                return error, ticks
            self._refused += 1
            self._halvings += 1
            stagnations = stagnations + 1 if error > _STAGNATION * last else 0
            last = error

    def _lengthen_step(self, error: float, done: int) -> None:
        """Double the step size if the error and the start time of the next step permit it.

        `done` is the completed length of the span, in units of the shortest step.
        """
        doubled = (1 << self._most) >> max(self._halvings - 1, 0)
        if self._halvings and error * 2.0**self._p <= _SAFETY and done % doubled == 0:
            self._halvings -= 1

    def _try_step(self, t: float, h: float, is_last: bool) -> float:
        """Take a step of h, roll it back, and take two half steps; return the estimated error.

        The estimate compares both results, and is relative to the tolerance. If it is above 1 and
        `is_last` is false, the half steps are also rolled back.
        """
        self._parts.save_state(_WHOLE)
        remembered = self._scheme.copy()
        error = inf
        try:
            self._scheme(t, h)
            one = self._parts.row()
            self._roll_back(remembered)
            self._scheme(t, h / 2)
            self._scheme(t + h / 2, h / 2)
            error = self._error(one, self._parts.row(), h)
        except (ArithmeticError, RuntimeError):  # a shorter step may succeed
            if is_last:
                raise
        if error > 1.0 and not is_last:
            self._roll_back(remembered)
        return error

    def _roll_back(self, remembered: Any) -> None:
        self._parts.restore_state(_WHOLE)
        self._scheme.restore_state(remembered)

    def _error(self, one: Array, two: Array, h: float) -> float:
        share = np.where(self._algebraic, 1.0, h)
        scale = self._tol * share * np.maximum(self._nominal, np.abs(two))
        errors = (np.abs(two - one) / self._factor / scale)[self._judged]
        largest = float(errors.max(initial=0.0))
        return largest if np.isfinite(largest) else inf


def _advice(coupling: Coupling) -> str:
    """Return options that reduce the coupling error, as text for a log message."""
    better = "a larger step_tol or a shorter step_min"
    if coupling.order >= 3:
        return f"use {better}"
    more = "iterate=True" if coupling.extrapolate else "iterate=True with extrapolate=1"
    return f"use {more}, whose error decreases with a higher power of the step size, or {better}"


# maximum ratio of generated to transmitted energy without a warning (found by trial)
_MAX_ENERGY_RATIO = 0.01


class PowerBonds:
    """Power bonds of a run, with the energy that the coupling generates and transmits.

        P = f_received v - f v_received

    f and v are the output values, f_received and v_received the input values of the other part. The
    velocity part receives the power f_received v, and the force part supplies f v_received. The
    coupling generates the difference P (Sadjina et al., Engineering with Computers 33, 2017). P is
    zero if each part receives the current output of the other part. The energy of a step is a
    quadrature of P at both ends of the step; the weights depend on the order of the coupling.
    """

    def __init__(self, plan: Plan, network: Instances):
        self._parts, self._weight = network, 1.0 / (plan.coupling.extrapolate + 2.0)
        self._sees_new = not plan.is_simultaneous
        self.bonds = plan.bonds
        self.made, self.through = np.zeros(len(self.bonds)), np.zeros(len(self.bonds))

    def measure(self, scheme: Scheme) -> Scheme:
        """Return a scheme that executes `scheme` and adds up the coupling energy of each step."""
        return _MeasuredScheme(self, scheme)

    def start_outputs(self) -> Array:
        """Return all outputs at the beginning of a step."""
        return self._parts.row()

    def add_energy(self, outputs_before: Array, dt: float) -> None:
        """Add the energy that the bonds generate and transmit in a step of dt [s]."""
        now = self._parts.row()
        for k, bond in enumerate(self.bonds):
            force_got, speed_got = self._received_values(bond)
            f, v = (now[one] for one in bond.outputs)
            made = self._weight * float(force_got @ v - f @ speed_got)
            if self._sees_new:
                f_0, v_0 = (outputs_before[one] for one in bond.outputs)
                made += 0.5 * float(force_got @ v_0 - f_0 @ speed_got)
            self.made[k] += dt * made
            self.through[k] += dt * abs(float(f @ v))

    def report(self) -> Mapping[str, object]:
        """Return the generated and the transmitted energy [J] of each bond by name."""
        return {
            "energy made [J]": {
                bond.name: [float(made), float(through)]
                for bond, made, through in zip(self.bonds, self.made, self.through, strict=True)
            }
        }

    def remarks(self) -> Iterator[tuple[int, str]]:
        """Yield a pair (log level, text) about the bond that generates the most energy."""
        if not len(self.bonds):
            return
        worst = int(np.argmax(np.abs(self.made)))
        made, through = self.made[worst], self.through[worst]
        is_large = abs(made) > _MAX_ENERGY_RATIO * through
        yield (
            logging.WARNING if is_large else logging.INFO,
            f"the coupling generated {made:.3g} J at {self.bonds[worst].name}, which transmitted "
            f"{through:.3g} J"
            + ("; reduce dt or raise the order of the coupling" if is_large else ""),
        )

    def _received_values(self, bond: Bond) -> tuple[Array, Array]:
        """Return the force and the velocity that the parts of a bond received in the step."""
        giver, mover = bond.parts
        to_mover, to_giver = bond.inputs
        return self._parts.by_name[mover].inputs[to_mover], self._parts.by_name[giver].inputs[
            to_giver
        ]


class _MeasuredScheme(Scheme):
    """Scheme that executes another scheme and adds the coupling energy to the power bonds."""

    def __init__(self, bonds: PowerBonds, scheme: Scheme):
        self._bonds, self._scheme = bonds, scheme

    def __call__(self, t: float, dt: float) -> None:
        outputs_before = self._bonds.start_outputs()
        self._scheme(t, dt)
        self._bonds.add_energy(outputs_before, dt)

    def copy(self) -> Any:
        return self._bonds.made.copy(), self._bonds.through.copy(), self._scheme.copy()

    def restore_state(self, state: Any) -> None:
        self._bonds.made[:], self._bonds.through[:], inner = state
        self._scheme.restore_state(inner)
