"""Dense output of integration steps, and event location with dense output (RBDA 11.5)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.adaptive_methods import Adaptive
from rigidblocks.block.block import Record
from rigidblocks.block.evaluators import Evaluator
from rigidblocks.block.integrators import RK4, Integrator, combine_stages, stage_rates
from rigidblocks.block.memory_layout import assign
from rigidblocks.block.stepper import (
    inner_step,
    inner_steps,
    project_states,
    put_outputs,
    rates,
)
from rigidblocks.block.switching_functions import possible_dip
from rigidblocks.spatial.spatial import Array

Event = Callable[[Any, Record, Record, Record], Any]
HALVINGS = 53  # number of bisections of a step, which end at adjacent floating-point times


@dataclass(frozen=True, eq=False)
class Interpolant:
    """Dense output of an explicit step: the states (n,) as a function of the step fraction.

        x(delta) = x + h sum b_i(delta) k_i                    (RBDA Eq 11.46)

    delta is the fraction of the step, from 0 to 1. The interpolant is the integral of the
    polynomial that the method fits to the stage derivatives k, so it needs no further evaluations.
    The degree of the interpolant is 1 for the Euler methods (Eq 11.49), 2 for Heun (Eq 11.51 with
    stages at 0 and 1), and 3 for RK4. The local error of the interpolant has the order of the
    global error of the method.

    Attributes:
        method: Explicit method.
        h: Step size [s].
        x: States at the start of the step (n,).
        k: Stage derivatives, each (n,).
        position: Mask (n,) of the positions: states whose derivative is another state.
    """

    method: Integrator
    h: float
    x: Array
    k: list[Array]
    position: Array

    def __call__(self, delta: float) -> Array:
        b, b_position = (_weights(dense, delta) for dense in _polynomials(self.method))
        return combine_stages(self.x, self.h, self.k, b, b_position, self.position)


def interpolant(
    method: Integrator,
    derivative: Callable[[Any, Array], Array],
    t: float,
    x: Array,
    h: float,
    position: Array,
) -> Interpolant:
    """Return the dense output of the explicit step that `integrate` takes from t to t + h.

    Args:
        method: Explicit method.
        derivative: Function (t, x) that returns the state derivatives (n,).
        t: Start time [s].
        x: States at the start (n,).
        h: Step size [s].
        position: Mask (n,) of the positions: states whose derivative is another state.

    Returns:
        Interpolant.

    Raises:
        ValueError: The method is linearly implicit, or has an order above 1 and no `dense`.
    """
    _polynomials(method)
    return Interpolant(method, h, x, stage_rates(method, derivative, t, x, h, position), position)


def _polynomials(
    method: Integrator,
) -> tuple[tuple[tuple[float, ...], ...], tuple[tuple[float, ...], ...]]:
    """Return the coefficients of the weights b_i(delta) for velocities and for positions.

    b_i is the weight of stage i in the dense output of the method. delta is the fraction of the
    step (`Interpolant`).

    Raises:
        ValueError: The method has no dense output.
    """
    if method.implicit is None and method.dense is not None:
        return method.dense, method.dense
    if method.implicit is None and method.order == 1:
        b, b_position = method.b, method.position_tableau[1]
        return tuple((w,) for w in b), tuple((w,) for w in b_position)
    raise ValueError(
        f"'{method.name}' has no interpolant for states inside a step; use shorter steps"
    )


def _weights(dense: tuple[tuple[float, ...], ...], delta: float) -> tuple[float, ...]:
    return tuple(sum(w * delta ** (j + 1) for j, w in enumerate(row)) for row in dense)


class EventReached(NamedTuple):
    """Result of a step with event location (`first_event`).

    Attributes:
        t: Time of the event, or of the end of the step [s].
        m: Memory vector at the time t, with outputs.
        happened: True if the event occurred.
    """

    t: float
    m: Array
    happened: bool


def first_event(
    evaluator: Evaluator,
    m: Array,
    t: float,
    dt: float,
    event: Event,
    method: Integrator = RK4,
    h: float = 1e-3,
) -> EventReached:
    """Step from t to t + dt, and stop at the first event.

    The event occurs when the event function changes from positive to zero or negative. If the event
    function is not positive at t, for example because a gap is closed, it must first become
    positive. To detect several events, pass the minimum of their event functions.

    Bisection of the dense output locates the event to the last bit of the step size. At the
    returned state, the event function is zero or negative. The error of the event time decreases
    with h at the method's order. An event function that is nonpositive only within one inner step
    is not detected. For a method without dense output, the bisection repeats the inner step with
    smaller sizes.

    Args:
        evaluator: Functions of the block.
        m: Memory vector at t.
        t: Start time [s].
        dt: Size of the step if no event occurs [s].
        event: Function (t, x, u, p) that is positive until the event, such as a gap or contact
            force.
        method: Integration method.
        h: Largest inner step [s].

    Returns:
        Time, memory vector, and True if the event occurred.

    Raises:
        ValueError: The block has a sample time, or dt is not positive.
    """
    memory = evaluator.memory
    if memory.block.sample_time is not None:
        raise ValueError(
            f"event location requires a block without a sample time, but {memory.name} samples "
            f"every {memory.block.sample_time} s"
        )
    n = inner_steps(dt, h)
    step = dt / n
    before = event(*memory.records(assign(m, 0, t)))
    for j in range(n):
        start = t + j * step
        x = inner_step(evaluator, m, start, step, method)
        after = project_states(evaluator, assign(m, memory.x, x), t + (j + 1) * step)
        value = event(*memory.records(after))
        if before > 0 >= value:
            there = _locate(evaluator, m, start, step, event, method, after)
            return EventReached(float(there[0]), put_outputs(evaluator, there), True)
        m, before = after, value
    return EventReached(t + dt, put_outputs(evaluator, assign(m, 0, t + dt)), False)


def _locate(
    evaluator: Evaluator,
    m: Array,
    t: float,
    h: float,
    event: Event,
    method: Integrator,
    after: Array,
) -> Array:
    """Locate an event in an inner step by bisection, and return the memory vector at the event.

    m is the memory vector at the start t [s], and `after` is the memory vector at t + h.
    """
    memory, states = evaluator.memory, _states_within_step(evaluator, m, t, h, method)
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        there = project_states(evaluator, assign(m, memory.x, states(middle)), t + middle * h)
        if event(*memory.records(there)) > 0:
            low = middle
        else:
            high, after = middle, there
    return after


def _states_within_step(
    evaluator: Evaluator, m: Array, t: float, h: float, method: Integrator
) -> Callable[[float], Array]:
    """Return the function that maps a step fraction (0 to 1) to the states (n,) in the step."""
    if method.implicit is not None or (method.order > 1 and method.dense is None):
        return lambda delta: inner_step(evaluator, m, t, delta * h, method)
    memory = evaluator.memory
    return interpolant(method, rates(evaluator, m), t, m[memory.x], h, memory.position)


Gaps = Callable[
    [Record], Array
]  # function of the states x that returns gaps (n,); no gap may become negative
NEAR = 1e-3  # increment for the finite differences of gaps, as a fraction of the step
SPLITS = 8  # recursion depth of the search for a gap that closes and opens within a step
_SHORTEST = 16.0 * np.finfo(float).eps


class EventSteps:
    """Explicit stepper with error control that stops at events.

    Args:
        method: Adaptive method with an explicit pair. A step is accepted if its error is within the
            tolerance.
        first: First trial step size [s]. After an event, the stepper continues with the last step
            size.
        longest: Largest step size [s].

    Raises:
        ValueError: The method has no explicit pair.
    """

    def __init__(self, method: Adaptive, first: float, longest: float):
        if method.explicit is None:
            raise ValueError(
                f"event location needs an explicit method, not '{method.name}'; use 'adaptive'"
            )
        self.method, self.pair, self.longest = method, method.explicit, longest
        self.length = min(first, longest)

    def segments(
        self, evaluator: Evaluator, m: Array, t: float, end: float, event: Event, gaps: Gaps
    ) -> "Iterator[Segment]":
        """Yield the accepted steps from t to the end time, or to the first event.

        An event is defined as in `first_event`. The last step ends at the event. The stepper also
        detects a gap that closes and opens again within one step, provided that the gap is a convex
        function of time. An example is the distance between the surfaces of two small balls that
        pass each other.

        Args:
            evaluator: Functions of the block.
            m: Memory vector at t.
            t: Start time [s].
            end: End time [s].
            event: Event function (t, x, u, p).
            gaps: Function of the states that returns gaps (n,), which must not become negative.
        """
        before = event(*evaluator.memory.records(assign(m, 0, t)))
        while t < end:
            left = end - t
            h = left if self.length >= left * (1 - 1e-9) else min(self.length, 0.5 * left)
            h, course, after = self._accepted_step(evaluator, m, t, min(h, self.longest), end)
            arrival = end if h == left else t + h
            step = Segment(evaluator, m, t, arrival, course, assign(after, 0, arrival), event, gaps)
            yield step.end_at_event(before)
            if step.happened:
                return
            m, t, before = step.after, arrival, step.value

    def _accepted_step(
        self, evaluator: Evaluator, m: Array, t: float, h: float, end: float
    ) -> tuple[float, Interpolant, Array]:
        """Take trial steps from t until the error is within the tolerance.

        h is the first trial step size [s].

        Returns:
            Size of the accepted step [s], dense output of this step, and memory vector at the end.
        """
        memory, shortest = evaluator.memory, _SHORTEST * max(abs(t), abs(end))
        while True:
            x, position = m[memory.x], memory.position
            k = stage_rates(self.pair, rates(evaluator, m), t, x, h, position)
            y = combine_stages(x, h, k, self.pair.b, self.pair.b, position)
            after = project_states(evaluator, assign(m, memory.x, y), t + h)
            error = self._error(evaluator, h, k, x, y, after[memory.x])
            factor = min(max(0.9 / max(error, 1e-5) ** 0.2, 0.2), 5.0) if error < np.inf else 0.2
            if error <= 1.0 or h * factor < shortest:
                if h >= self.length or h * factor > self.length:
                    self.length = h * factor
                return h, Interpolant(self.pair, h, x, k, position), after
            h = self.length = h * min(factor, 0.9)

    def _error(
        self, evaluator: Evaluator, h: float, k: list[Array], x: Array, y: Array, projected: Array
    ) -> float:
        """Return the error of a trial step, divided by the tolerance.

        The result is the maximum of the error estimate and of the correction by the projection. x
        and y (n,) are the states at the start and at the end of the step, and `projected` (n,) the
        projected states at the end. k contains the stage derivatives.
        """
        assert self.pair.error is not None
        if not np.all(np.isfinite(projected)):
            return np.inf
        unit = self.method.absolute_tolerances(evaluator.memory.block.states)
        unit = unit + self.method.rtol * np.maximum(np.abs(x), np.abs(y))
        e = h * sum(w * k_i for w, k_i in zip(self.pair.error, k, strict=True))
        return float(np.max(np.maximum(np.abs(e), np.abs(projected - y)) / unit, initial=0.0))


class Segment:
    """Accepted integration step with dense output.

    The step ends at the time `end` [s], or earlier at an event.

    Attributes:
        happened: True if the event occurred in the step.
        after: Memory vector at the end.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        m: Array,
        t: float,
        end: float,
        course: Interpolant,
        after: Array,
        event: Event,
        gaps: Gaps,
    ):
        self.evaluator, self.m, self.t, self.end, self.course = evaluator, m, t, end, course
        self.after, self.happens, self.gaps = after, event, gaps
        self.value, self.happened = self._event_value(after), False

    def memory_at_time(self, t: float) -> Array:
        """Return the memory vector at a time t [s] in the step."""
        return self.after if t >= self.end else self._memory_at((t - self.t) / self.course.h)

    def end_at_event(self, start_value: float) -> "Segment":
        """Return the step, shortened to the first event if it contains an event.

        `start_value` is the value of the event function at the start of the step.
        """
        found = self._find_event(start_value)
        if found is not None:
            self.happened, self.after, self.end = True, found, float(found[0])
        return self

    def _find_event(self, start_value: float) -> Array | None:
        """Return the memory vector at the first event in the step, or None if no event occurs.

        `start_value` is the value of the event function at the start of the step.
        """
        first = self._first_positive() if start_value <= 0 else 0.0
        if first == 1.0:
            return None
        if self.value <= 0:
            high, after = 1.0, self.after
        elif (high := self._find_closed_gap(first, 1.0, SPLITS)) < 1.0:
            after = self._memory_at(high)
        else:
            return None
        return self._locate_event(first, high, after)

    def _locate_event(self, low: float, high: float, after: Array) -> Array:
        """Locate an event by bisection between two step fractions, and return the memory vector.

        `after` is the memory vector at the step fraction `high`.
        """
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            there = self._memory_at(middle)
            if self._event_value(there) > 0:
                low = middle
            else:
                high, after = middle, there
        return after

    def _first_positive(self) -> float:
        """Return the largest step fraction 2^-n (n = 0 to 29) with a positive event function.

        The result is also 1 if the event function is not positive at any of these fractions.
        """
        fractions = (2.0**-n for n in range(30))
        return next(
            (
                fraction
                for fraction in fractions
                if self._event_value(self._memory_at(fraction)) > 0
            ),
            1.0,
        )

    def _find_closed_gap(self, start: float, end: float, splits: int) -> float:
        """Search for a gap that closes and opens again between the fractions `start` and `end`.

        All gaps are open at both step fractions. `splits` is the remaining recursion depth.

        Returns:
            Step fraction at which a gap is closed; 1 if none is found.
        """
        (g0, d0), (g1, d1) = self._gaps(start, NEAR), self._gaps(end, -NEAR)
        long = end - start
        fractions = [
            possible_dip(a, long * b, c, long * d) if a > 0 and c > 0 else 1.0
            for a, b, c, d in zip(g0, d0, g1, d1, strict=True)
        ]
        if (fraction := min(fractions, default=1.0)) == 1.0 or splits == 0:
            return 1.0
        middle = start + fraction * long
        if self._event_value(self._memory_at(middle)) <= 0:
            return middle
        early = self._find_closed_gap(start, middle, splits - 1)
        return early if early < 1.0 else self._find_closed_gap(middle, end, splits - 1)

    def _gaps(self, fraction: float, increment: float) -> tuple[list[float], list[float]]:
        """Return the gaps and their derivatives at a step fraction.

        The derivatives with respect to the step fraction are finite differences with the given
        increment.
        """
        value, there = (self.gaps(self._states(p)) for p in (fraction, fraction + increment))
        return list(value), list((there - value) / increment)

    def _states(self, fraction: float) -> Record:
        memory = self.evaluator.memory
        x: Record = memory.records(assign(self.m, memory.x, self.course(fraction)))[1]
        return x

    def _memory_at(self, fraction: float) -> Array:
        memory = self.evaluator.memory
        m = assign(self.m, memory.x, self.course(fraction))
        return project_states(self.evaluator, m, self.t + fraction * self.course.h)

    def _event_value(self, m: Array) -> float:
        return float(self.happens(*self.evaluator.memory.records(m)))
