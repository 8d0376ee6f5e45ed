"""Communication steps of a block, as pure functions of a memory vector and as stepper objects.

    advance     takes inner steps, updates sampled states at sample instants, computes outputs
    inner_step  returns the continuous states after one step of the integrator

The memory vector contains all data that one step passes to the next. `c/kernel/block_step.h`
implements the same arithmetic operations in the same order. Steppers use NumPy or a compiled
kernel, with equal results.
"""

import abc
import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.adaptive_methods import (
    Adaptive,
    Method,
    chooses_steps,
    is_implicit,
    longest_step,
)
from rigidblocks.block.adaptive_step import AdaptiveStepper
from rigidblocks.block.evaluators import (
    Evaluator,
    ExactJacobian,
    NumpyEvaluator,
    PolynomialInputEvaluator,
    explain_divergence,
)
from rigidblocks.block.integrators import RK4, Integrator, integrate, integrate_implicitly
from rigidblocks.block.memory_layout import Memory, assign
from rigidblocks.spatial.scalar import minimum, select
from rigidblocks.spatial.spatial import Array

FAILED = 1  # status of a step that produced a value that is not finite
MOST_INNER_STEPS = 1e9  # maximum number of inner steps per communication step


class Refusal(IntEnum):
    """Reason to reject a communication step."""

    NOT_FINITE = 2
    NOT_POSITIVE = 3
    TOO_LONG = 4
    NOT_AT_TIME = 5
    BEYOND_END = 6

    def text(self, now: float, end: float, dt: float, h: float, sample_time: float | None) -> str:
        """Return the error message for a rejected communication step.

        Args:
            now: Time of the block [s].
            end: End time of the run [s].
            dt: Step size [s].
            h: Largest inner step [s].
            sample_time: Sample time of the block [s], or None.
        """
        return {
            Refusal.NOT_FINITE: f"a step must be finite, not {dt!r} s",
            Refusal.NOT_POSITIVE: f"a step must be positive, not {dt!r} s",
            Refusal.TOO_LONG: f"the step {dt!r} s has too many inner steps of "
            f"{longest_inner_step(h, sample_time)!r} s; at most 1e9 are allowed",
            Refusal.NOT_AT_TIME: f"the block is at t = {now!r} s",
            Refusal.BEYOND_END: f"the run ends at t = {end!r} s",
        }[self]


def step_refusal(
    now: float, end: float, t: float, dt: float, h: float, sample_time: float | None
) -> Refusal | None:
    """Return the reason to reject a communication step, or None if the step is possible.

    A C function with the same name and the same results checks the steps of compiled blocks.

    Args:
        now: Time of the block [s].
        end: End time of the run [s].
        t: Start time of the step [s].
        dt: Step size [s].
        h: Largest inner step [s].
        sample_time: Sample time of the block [s], or None.
    """
    rounding = 1e-6 * dt + 4 * np.finfo(float).eps * abs(now)
    if not np.isfinite(dt):
        return Refusal.NOT_FINITE
    if dt <= 0:
        return Refusal.NOT_POSITIVE
    if not abs(t - now) <= rounding:
        return Refusal.NOT_AT_TIME
    if dt >= MOST_INNER_STEPS * longest_inner_step(h, sample_time):
        return Refusal.TOO_LONG
    if t + dt > end + rounding:
        return Refusal.BEYOND_END
    return None


def longest_inner_step(h: float, sample_time: float | None) -> float:
    """Return the largest inner step [s]: h [s], or the sample time [s] if it is smaller."""
    return h if sample_time is None else min(h, sample_time)


def initialize(evaluator: Evaluator, m: Array, t: Any) -> Array:
    """Return the memory vector at the start time t [s], with initial states and outputs.

    m is the memory vector with the start values, inputs and parameters.
    """
    m = project_states(evaluator, assign(m, evaluator.memory.s, 0.0), t)
    return put_outputs(evaluator, assign(m, evaluator.memory.z, evaluator.initial(m)))


def advance(evaluator: Evaluator, m: Array, t: Any, dt: float, method: Method, h: float) -> Array:
    """Return the memory vector after a communication step from t to t + dt with held inputs.

    The function takes inner steps between the multiples of the sample time, and updates the sampled
    states at these multiples. At the end, it computes the outputs.

    Args:
        evaluator: Functions of the block.
        m: Memory vector at t.
        t: Start time [s].
        dt: Step size [s].
        method: Integration method.
        h: Largest inner step [s].

    Raises:
        ValueError: dt is not positive or not finite, or dt is traced and neither dt nor the sample
            time is a multiple of the other.
    """
    inner_steps(dt, h)  # rejects an infinite step
    sample_time = evaluator.memory.block.sample_time
    for span in spans(sample_time, t, dt, traced=m.dtype == object):
        m = assign(
            _integrate_states(evaluator, m, span.begin, span.end, span.length, method, h),
            0,
            span.end,
        )
        m = _update_samples(evaluator, m, span.samples)
    return put_outputs(evaluator, m)


def part_of_step(
    evaluator: Evaluator, m: Array, t: float, end: float, samples: bool, method: Method, h: float
) -> Array:
    """Return the memory vector after a step from t to `end` [s].

    No sample instant may lie between t and `end`. If `samples` is true, the function updates the
    sampled states at `end`. The other arguments are as in `advance`.
    """
    inner_steps(end - t, h)  # rejects an infinite step
    m = assign(_integrate_states(evaluator, m, t, end, end - t, method, h), 0, end)
    return put_outputs(evaluator, _update_samples(evaluator, m, samples))


def _update_samples(evaluator: Evaluator, m: Array, is_sample: Any) -> Array:
    """Return the memory vector m, with updated sampled states if `is_sample` is true."""
    where = evaluator.memory.z
    if isinstance(is_sample, bool | np.bool):
        return assign(m, where, evaluator.update(m)) if is_sample else m
    return assign(m, where, select(is_sample, evaluator.update(m), m[where]))


def _integrate_states(
    evaluator: Evaluator, m: Array, t: Any, end: Any, span: float, method: Method, h: float
) -> Array:
    """Return the memory vector after the integration of the continuous states from t to `end` [s].

    The interval of length `span` [s] contains no sample instants. Fixed-step methods take equal
    inner steps of at most h [s]. Adaptive methods choose the step sizes.
    """
    if not evaluator.memory.block.states:
        return m
    if isinstance(method, Adaptive):
        if m.dtype == object:
            raise TypeError(
                f"the inner steps of {evaluator.memory.name} by '{method.name}' cannot be traced, "
                "because their number is not fixed: use a method with fixed steps"
            )
        return AdaptiveStepper(evaluator, method, h).integrate(m, t, span, end)
    n = inner_steps(span, h)
    for j in range(n):
        x = inner_step(evaluator, m, t + j * (span / n), span / n, method)
        m = project_states(evaluator, assign(m, evaluator.memory.x, x), t + (j + 1) * (span / n))
    return m


def inner_step(evaluator: Evaluator, m: Array, t: Any, h: float, method: Integrator) -> Array:
    """Return the continuous states (n,) after one step of an integrator, before projection.

    The step begins at t [s] with the memory vector m and has the size h [s].
    """
    x = m[evaluator.memory.x]
    if method.implicit is None:
        return integrate(method, rates(evaluator, m), t, x, h, evaluator.memory.position)
    evaluator = evaluator.freeze_inputs(t + 0.5 * h)
    f = rates(evaluator, m)

    def jacobian(t: Any, x: Array) -> tuple[Array, Array]:
        return evaluator.jacobian(_put_states(evaluator, m, t, x))

    return integrate_implicitly(method, f, jacobian, t, x, h)


def rates(evaluator: Evaluator, m: Array) -> Callable[[Any, Array], Array]:
    """Return the function (t, x) of the state derivatives, for the inputs in m."""
    return lambda t, x: evaluator.derivative(_put_states(evaluator, m, t, x))


def _put_states(evaluator: Evaluator, m: Array, t: Any, x: Array) -> Array:
    return assign(assign(m, 0, t), evaluator.memory.x, x)


def project_states(evaluator: Evaluator, m: Array, t: Any) -> Array:
    """Return the memory vector with the time t [s] and with states projected onto constraints."""
    m = assign(m, 0, t)
    return assign(m, evaluator.memory.x, evaluator.project(m)) if evaluator.has_projection else m


def put_outputs(evaluator: Evaluator, m: Array) -> Array:
    """Compute the outputs from the states and inputs in m; return the new memory vector."""
    return assign(m, evaluator.memory.y, evaluator.output(m))


def inner_steps(dt: float, h: float) -> int:
    """Return the number of equal inner steps of at most h [s] in a communication step dt [s].

    Raises:
        ValueError: dt is not finite or not positive, or the number exceeds 1e9.
    """
    if not (dt > 0 and np.isfinite(dt)):
        law = "positive" if np.isfinite(dt) else "finite"
        raise ValueError(f"a step must be {law}, not {dt} s")
    if dt >= 1e9 * h:
        raise ValueError(
            f"the step {dt} s has too many inner steps of {h} s; at most 1e9 are allowed"
        )
    return max(1, int(np.ceil(dt / h - 1e-9)))


class Span(NamedTuple):
    """Interval of a communication step between sample instants.

    Attributes:
        begin: Start time [s].
        end: End time [s].
        length: Length [s].
        samples: True if the end is a sample instant.
    """

    begin: Any
    end: Any
    length: float
    samples: Any


def spans(sample_time: float | None, t: Any, dt: float, traced: bool = False) -> Iterator[Span]:
    """Yield the intervals between sample instants in the communication step from t to t + dt [s].

    If the step begins and ends at sample instants, all intervals have equal lengths. If `traced` is
    true, the number of intervals must not depend on t, so all intervals have equal lengths. The
    step must then begin at a sample instant or, if dt is less than the sample time [s], at a
    multiple of dt.
    """
    end = t + dt
    if sample_time is None:
        yield Span(t, end, dt, False)
        return
    if traced:
        n = sample_spans(sample_time, dt)
        share = dt / sample_time
        # one of several steps per sample time contains the sample instant
        phase = end / sample_time + 0.5 * share
        samples = phase - np.floor(phase) < share if share < 1 - 1e-6 else True
        yield from _equal_spans(t, dt, n, samples)
        return
    first, n = last_sample(t, sample_time) + 1, samples_within(sample_time, t, dt)
    at_end = _is_at_sample(end, sample_time)
    if n == 0 or (at_end and (n == 1 or _is_at_sample(t, sample_time))):
        yield from _equal_spans(t, dt, max(n, 1), n > 0)
        return
    begin = t
    for k in range(n):
        instant = end if at_end and k + 1 == n else (first + k) * sample_time
        yield Span(begin, instant, instant - begin, True)
        begin = instant
    if not at_end:
        yield Span(begin, end, end - begin, False)


def _equal_spans(t: Any, dt: float, n: int, samples: Any) -> Iterator[Span]:
    length = dt / n
    for k in range(n):
        yield Span(t + k * length, t + (k + 1) * length, length, samples)


def samples_within(sample_time: float, t: float, dt: float) -> int:
    """Return the number of sample instants in the interval from t to t + dt [s].

    The interval includes t + dt and excludes t.
    """
    samples = last_sample(t + dt, sample_time) - last_sample(t, sample_time)
    return int(min(samples, MOST_INNER_STEPS)) if samples > 0.0 else 0  # NaN if t is too large


def last_sample(t: Any, sample_time: float) -> Any:
    """Return the index of the last sample instant at or before t [s].

    The result is the largest k with k * sample_time <= t, within rounding errors.
    """
    periods = t / sample_time
    return np.floor(periods + _sample_tolerance(periods))


def _is_at_sample(t: float, sample_time: float) -> bool:
    periods = t / sample_time
    slack = _sample_tolerance(periods)
    return bool(periods - np.floor(periods + slack) <= slack)


def _sample_tolerance(periods: Any) -> Any:
    """Return the tolerance, in sample periods, within which a time counts as a sample instant.

        min(1e-6 + 1e-9 |periods|, 0.01)

    `periods` is the time, divided by the sample time. The tolerance grows with the time, because
    some tools compute the time as a sum of rounded steps. A sum of 1e7 steps has a relative error
    of up to about 1e-9.
    """
    return minimum(1e-6 + 1e-9 * np.abs(periods), 1e-2)


def fits_sample_time(sample_time: float | None, dt: float) -> bool:
    """Return True if dt [s] is a multiple of the sample time [s], or vice versa."""
    if sample_time is None:
        return True
    longer, shorter = sample_time / dt, dt / sample_time
    return bool(
        (0.5 <= longer < np.inf and abs(longer - np.rint(longer)) < 1e-6)
        or (shorter >= 0.5 and abs(shorter - np.rint(shorter)) <= 1e-6)
    )


def sample_spans(sample_time: float | None, dt: float) -> int:
    """Return the number of equal intervals into which sample instants divide a step dt [s].

    If dt is shorter than the sample time [s], the result is 1.

    Raises:
        ValueError: Neither dt nor the sample time is a multiple of the other.
    """
    if not fits_sample_time(sample_time, dt):
        raise ValueError(
            f"the step {dt} s does not fit the sample time {sample_time} s: one must be a multiple "
            "of the other"
        )
    return 1 if sample_time is None else max(1, int(np.rint(dt / sample_time)))


def count_tolerance(count: Any) -> Any:
    """Return the tolerance within which a ratio of two times counts as an integer.

    The tolerance is 1e-6 plus the rounding error of the ratio `count`.
    """
    return 1e-6 + 4 * _EPS * np.abs(count)


def time_tolerance(t: float, dt: float) -> float:
    """Return the tolerance [s] within which two times near t [s] count as equal.

    The tolerance is 1e-9 of the step size dt [s] plus the rounding error of t.
    """
    return 1e-9 * dt + 4 * _EPS * abs(t)


def check_resolution(t: float, dt: float) -> None:
    """Raise ValueError if double precision does not resolve steps dt [s] at the time t [s]."""
    if dt < _RESOLVED * abs(t):
        raise ValueError(
            f"steps of {dt} s are too short at t = {t} s: double precision resolves this time "
            f"only to {np.spacing(abs(t)):.2g} s; use steps of at least {_RESOLVED * abs(t):.2g} "
            "s, or keep all times nearer to 0"
        )


_EPS = float(np.finfo(float).eps)
# smallest step size, relative to t; double precision resolves smaller steps with less than 7 bits
_RESOLVED = 128 * _EPS


class StepError(ArithmeticError):
    """Error that reports a non-finite value of a state or an output."""


@dataclass(frozen=True, eq=False)
class Stepper(abc.ABC):
    """Base class of steppers, which step a block and change its memory vector in place.

    Args:
        memory: Memory layout of the block.
        method: Integration method.
        h: Largest inner step [s].

    Raises:
        ValueError: The memory layout does not match the method, or h is invalid.
    """

    memory: Memory
    method: Method = RK4
    h: float = 1e-3

    def __post_init__(self) -> None:
        longest_step(self.method, self.h)  # rejects an invalid h
        if chooses_steps(self.method, self.memory.block) != bool(self.memory.steps):
            raise ValueError(
                f"the memory of {self.memory.name} does not fit '{self.method.name}'; use "
                "`memory_for(block, method)`"
            )

    @abc.abstractmethod
    def initialize(self, m: Array, t: float) -> None:
        """Compute the initial states and outputs in the memory vector m at the start time t [s].

        Raises:
            StepError: A value is not finite; the message contains the name of the variable.
        """

    @abc.abstractmethod
    def step(self, m: Array, t: float, dt: float) -> None:
        """Take a communication step from t to t + dt [s] with held inputs.

        The memory vector m is changed in place. The stepper updates the sampled states at all
        multiples of the sample time within the step.

        Raises:
            StepError: A value is not finite; the message contains the name of the variable.
            ValueError: The step size dt is rejected.
        """

    @abc.abstractmethod
    def part(self, m: Array, t: float, end: float, samples: bool) -> None:
        """Take a step from t to `end` [s].

        No sample instant may lie between t and `end`. If `samples` is true, the function updates
        the sampled states at `end`. The function changes the memory vector m in place, and raises
        the exceptions of `step`.
        """

    @abc.abstractmethod
    def follow(self, m: Array, course: Array, t: float, dt: float) -> None:
        """Take a communication step from t to t + dt with inputs that follow polynomials of time.

        After the step, the inputs in m are the values of the polynomials at t + dt. The function
        raises the exceptions of `step`.

        Args:
            m: Memory vector, changed in place.
            course: Coefficients of the polynomials of n inputs (MAX_INPUT_ORDER + 1, n), see
                `evaluate_inputs`. The polynomials start at t.
            t: Start time [s].
            dt: Step size [s].
        """

    @abc.abstractmethod
    def bind_memory(self, m: Array) -> Callable[[float, float], None]:
        """Return a function (t, dt) that calls `step` for the memory vector m."""

    def refusal(self, m: Array, t: float, dt: float, end: float = np.inf) -> Refusal | None:
        """Return the reason to reject a step dt [s] from t [s], or None if the step is possible.

        m is the memory vector, and `end` [s] is the end time of the run.
        """
        return step_refusal(m[0], end, t, dt, self.h, self.memory.block.sample_time)

    def _not_finite(self, m: Array, t: float) -> StepError:
        inputs = self.memory.block.inputs  # the message names inputs first, as the likely cause
        bad = [
            name
            for port in sorted(self.memory.ports, key=lambda port: port not in inputs)
            for name, value in zip(port.element_names, m[self.memory.where[port.name]], strict=True)
            if not np.isfinite(value)
        ]
        return StepError(
            f"{self.memory.name} is not finite at t = {t:g} s: {', '.join(bad[:8])}"
            f"{explain_divergence(self.memory, self.method, self.h, m)}"
        )


@dataclass(frozen=True, eq=False)
class NumpyStepper(Stepper):
    """Stepper that evaluates the NumPy functions of the block.

    Args:
        jacobian: Function that returns exact derivatives for linearly implicit methods, or None
            (see `NumpyEvaluator`).
    """

    jacobian: ExactJacobian | None = None

    @cached_property
    def evaluator(self) -> Evaluator:
        """Evaluator that calls the block's NumPy functions."""
        return NumpyEvaluator(self.memory, self.jacobian)

    def initialize(self, m: Array, t: float) -> None:
        with np.errstate(all="ignore"):  # `_check` reports the values
            m[:] = initialize(self.evaluator, m, t)
        self._check(m, t)

    def step(self, m: Array, t: float, dt: float) -> None:
        with np.errstate(all="ignore"):
            m[:] = advance(self.evaluator, m, t, dt, self.method, self.h)
        self._check(m, t + dt)

    def part(self, m: Array, t: float, end: float, samples: bool) -> None:
        with np.errstate(all="ignore"):
            m[:] = part_of_step(self.evaluator, m, t, end, samples, self.method, self.h)
        self._check(m, end)

    def follow(self, m: Array, course: Array, t: float, dt: float) -> None:
        if _uses_exact_jacobian(self.method, self.memory):
            raise ValueError(
                f"'{self.method.name}' does not support input polynomials of {self.memory.name} "
                "in the NumPy form; use form='compiled'"
            )
        with_polynomials = PolynomialInputEvaluator(self.evaluator, course, t)
        with np.errstate(all="ignore"):
            m[:] = with_polynomials.insert_inputs(
                advance(with_polynomials, m, t, dt, self.method, self.h)
            )
        self._check(m, t + dt)

    def bind_memory(self, m: Array) -> Callable[[float, float], None]:
        return partial(self.step, m)

    def _check(self, m: Array, t: float) -> None:
        if not np.all(np.isfinite(m)):
            raise self._not_finite(m, t)


@dataclass(frozen=True, eq=False)
class CompiledStepper(Stepper):
    """Stepper that calls a compiled C kernel.

    The kernel is valid only for one memory layout, one method and one largest inner step.

    Args:
        path: Shared library of the kernel.
        follow_path: Shared library of the kernel for input polynomials, or None.
    """

    path: Path = field(kw_only=True)
    follow_path: Path | None = field(default=None, kw_only=True)

    @cached_property
    def kernel(self) -> Any:
        """Loaded shared library of the kernel."""
        library = ctypes.CDLL(str(self.path))
        library.rb_block_refusal.argtypes = (ctypes.c_void_p,)
        library.rb_block_initialize.argtypes = (ctypes.c_void_p, ctypes.c_double)
        library.rb_block_step.argtypes = (ctypes.c_void_p, ctypes.c_double, ctypes.c_double)
        library.rb_block_part.argtypes = (*library.rb_block_step.argtypes, ctypes.c_int)
        library.rb_block_run.argtypes = (
            ctypes.c_void_p,
            ctypes.c_double,
            ctypes.c_double,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
        )
        return library

    @property
    def step_address(self) -> int:
        """Address of the C step function `int (double *memory, double t, double dt)`.

        `check_status` interprets the returned status.
        """
        return ctypes.cast(self.kernel.rb_block_step, ctypes.c_void_p).value or 0

    @property
    def sample_step_address(self) -> int:
        """Address of a C step function that updates the sampled states only at the end of the step.

        This C function has the same signature as the C function at `step_address`.
        """
        return ctypes.cast(self.kernel.rb_block_sample_step, ctypes.c_void_p).value or 0

    def initialize(self, m: Array, t: float) -> None:
        if self.kernel.rb_block_initialize(m.ctypes.data, t):
            raise self._not_finite(m, t)

    def step(self, m: Array, t: float, dt: float) -> None:
        self.check_status(self.kernel.rb_block_step(m.ctypes.data, t, dt), m, t + dt, dt)

    def part(self, m: Array, t: float, end: float, samples: bool) -> None:
        self.check_status(
            self.kernel.rb_block_part(m.ctypes.data, t, end, samples), m, end, end - t
        )

    @cached_property
    def _block_follow(self) -> Any:
        if self.follow_path is None:
            raise ValueError(
                f"{self.memory.name} was compiled without input polynomials; use "
                "`compiled_stepper(..., follows=True)`"
            )
        function = ctypes.CDLL(str(self.follow_path)).rb_block_follow
        function.argtypes = (ctypes.c_void_p, ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
        return function

    def follow(self, m: Array, course: Array, t: float, dt: float) -> None:
        rows = np.ascontiguousarray(course)
        self.check_status(self._block_follow(m.ctypes.data, t, dt, rows.ctypes.data), m, t + dt, dt)

    def bind_memory(self, m: Array) -> Callable[[float, float], None]:
        block_step, address = self.kernel.rb_block_step, m.ctypes.data

        def step(t: float, dt: float) -> None:
            if status := block_step(address, t, dt):
                self.check_status(status, m, t + dt, dt)

        return step

    def run(self, m: Array, t: float, dt: float, rows: Array, first: int = 0) -> int:
        """Take n steps of size dt, and store the memory vector after each step in a row of `rows`.

        Step k begins at t + k dt. The step times are therefore bitwise equal if a run is split into
        several calls. If a step fails, the function stops, and m contains the memory vector after
        the failed step.

        Args:
            m: Memory vector, changed in place.
            t: Start time of the run [s].
            dt: Step size [s].
            rows: Output array (n, size) for the memory vectors after the steps.
            first: Index k of the first step.

        Returns:
            Number of successful steps.
        """
        done, n = ctypes.c_int(), len(rows)
        places = m.ctypes.data, rows.ctypes.data
        self.kernel.rb_block_run(places[0], t, dt, first, n, places[1], ctypes.byref(done))
        return done.value

    def refusal(self, m: Array, t: float, dt: float, end: float = np.inf) -> Refusal | None:
        request = np.concatenate([[t, dt, end], m])
        reason = self.kernel.rb_block_refusal(request.ctypes.data)
        return Refusal(reason) if reason else None

    def check_status(self, status: int, m: Array, t: float, dt: float) -> None:
        """Raise an exception if the status of a C step function reports a failed or rejected step.

        Args:
            status: Returned status; 0 for a successful step.
            m: Memory vector after the step.
            t: Time at the end of the step [s].
            dt: Step size [s].

        Raises:
            StepError: A value is not finite.
            ValueError: The step was rejected.
        """
        if status == FAILED:
            raise self._not_finite(m, t)
        if status:
            sample_time = self.memory.block.sample_time
            raise ValueError(Refusal(status).text(float(m[0]), np.inf, dt, self.h, sample_time))


def _uses_exact_jacobian(method: Method, memory: Memory) -> bool:
    """Return True if an adaptive method uses the exact Jacobian for a block."""
    if not (isinstance(method, Adaptive) and chooses_steps(method, memory.block)):
        return False
    return is_implicit(method) and method.exact_jacobian
