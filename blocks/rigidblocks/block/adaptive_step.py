"""Communication step with error-controlled inner steps of variable size.

In each inner step, the stepper

1. proposes a step size from the last error and the remaining time of the communication step,
2. takes a trial step with the active method and estimates its error relative to the tolerance,
3. rejects the trial if this error exceeds 1, or if a switching function changes sign in the step
   (`switching_functions`),
4. stores the next step size, and the votes for another method.

The stepper switches between three types of methods: an explicit embedded pair, a linearly implicit
(Rosenbrock) pair, and a collocation method (Radau IIA). The votes of the inner steps select the
method (`adaptive_methods`). The block memory contains the complete controller state, so a step can
be saved, restored and repeated. `c/kernel/adaptive_step.h` and `integrators.h` implement the same
arithmetic operations in the same order. Tests compare the results of C and Python bit by bit.

References:
    Hairer and Wanner, Solving Ordinary Differential Equations II, sections IV.2, IV.7 and IV.8.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rigidblocks.block.adaptive_methods import (
    ACCEPTED_ABOVE_TOLERANCE,
    ACTIVE_METHOD,
    COLLOCATION,
    EIGENVALUE,
    ERROR,
    EXHAUSTED_STEPS,
    EXPLICIT,
    EXPLICIT_STEP_SIZE,
    MAX_TRIES,
    PREFERRED_IMPLICIT,
    PROBATION_TRIES,
    ROSENBROCK,
    SCREEN_INTERVAL,
    SCREEN_PAUSE,
    STEP_SIZE,
    STIFF_DETECTIONS,
    VOTES,
    WINDOW_COST,
    Adaptive,
    MethodCosts,
    is_implicit,
    nominal_values,
    round_to_nine_bits,
    select_cheaper_implicit_method,
    vote_for_explicit,
    vote_for_implicit,
)
from rigidblocks.block.evaluators import Evaluator, finite_difference_jacobian, state_jacobian
from rigidblocks.block.integrators import RK4, Integrator, implicit_stages, weighted_sum
from rigidblocks.block.memory_layout import assign
from rigidblocks.block.radau import INITIAL_CHANGE, CollocationStart, Stages, newton_tolerance
from rigidblocks.block.switching_functions import EventApproach, SwitchingValues
from rigidblocks.spatial.linear_algebra import linear_solver
from rigidblocks.spatial.spatial import Array

MAX_FINITE = float(np.finfo(float).max)

# weights of RK4 minus the weights of an embedded method of order 2; the error estimate is
# pessimistic and needs no further evaluations
RK4_ERROR = (1 / 6, -1 / 6, -1 / 6, 1 / 6)

# safety factor, and limits of the ratio of successive step sizes (Hairer and Wanner IV.2)
SAFETY, MIN_FACTOR, MAX_FACTOR, MAX_FACTOR_REJECTED = 0.9, 0.2, 5.0, 0.5

# Increment for the finite differences of switching functions, as a fraction of the step. It is a
# power of two, so that the division has no rounding error.
SWITCHING_DIFFERENCE = 1.0 / 64.0


# --- step size ---


def first_step_size(h: float, remaining: float) -> float:
    """Limit a proposed step size to the remaining time of the communication step.

    If the proposed step size is between half the remaining time and the remaining time, the result
    is half the remaining time. This avoids a very short last step.

    Args:
        h: Proposed step size [s].
        remaining: Remaining time of the communication step [s].

    Returns:
        Size of the first trial step [s].
    """
    if h >= remaining * (1.0 - 1e-9):
        return remaining
    return 0.5 * remaining if h > 0.5 * remaining else h


def smallest_step_size(t: float, t_end: float) -> float:
    """Return the smallest step size [s] that double precision resolves near t and t_end.

    The result is 16 eps max(|t|, |t_end|).
    """
    return 16.0 * float(np.finfo(float).eps) * max(abs(t), abs(t_end))


def is_acceptable(error: float, is_smallest: bool) -> bool:
    """Return True if a step with the given error may be accepted.

    `error` is divided by the tolerance, and its limit is 1. If the step has the smallest step size
    (`is_smallest`), any finite error is accepted.
    """
    return error <= 1.0 or (is_smallest and error <= MAX_FINITE)


def rejected_step_size(h: float, error: float) -> float:
    """Return the step size for the next trial after a rejected step.

        h_new = h min(max(0.9 err^(-1/4), 0.2), 0.5)

    Args:
        h: Rejected step size [s].
        error: Error estimate of the rejected step, divided by the tolerance; infinite if a value
            was not finite.

    Returns:
        Reduced step size [s], rounded to nine bits.
    """
    is_finite = error <= MAX_FINITE
    factor = SAFETY / np.sqrt(np.sqrt(error)) if is_finite and error > 0 else MIN_FACTOR
    return round_to_nine_bits(h * min(max(float(factor), MIN_FACTOR), MAX_FACTOR_REJECTED))


def _error_power(error: float, method: float) -> float:
    """Return the power err^k of an error, with the exponent k for the step size controller.

    k is 1/8 for the explicit pair, 3/16 for the Rosenbrock pair and 5/32 for collocation. The
    function uses only square roots, whose rounding is identical on all platforms.
    """
    q = np.sqrt(np.sqrt(error))
    power = np.sqrt(q)
    if method == ROSENBROCK:
        power = np.sqrt(q) * np.sqrt(np.sqrt(q))
    if method == COLLOCATION:
        power = np.sqrt(q) * np.sqrt(np.sqrt(np.sqrt(q)))
    return float(power)


def store_next_step_size(
    s: Array, h: float, error: float, was_rejected: bool, method: float
) -> None:
    """Store the error of an accepted step and the next step size (predictive controller).

        h_next = h min(max(0.9 err_n^(-k) err_(n-1)^(k / 2), 0.2), 5)

    err_n is the error of this step, err_(n-1) is the error of the previous accepted step, and k is
    the exponent of the method (`_error_power`). The step size does not increase directly after a
    rejection. If the end of the communication step shortened the step, the stored step size does
    not decrease.

    Args:
        s: Step memory, changed in place.
        h: Accepted step size [s].
        error: Error estimate of the step, divided by the tolerance.
        was_rejected: True if a trial with a larger step size was rejected.
        method: EXPLICIT, ROSENBROCK or COLLOCATION.
    """
    now, last = max(error, 1e-8), s[ERROR] if s[ERROR] > 0.0 else 1e-4
    factor = SAFETY / _error_power(now, method) * np.sqrt(_error_power(last, method))
    factor = min(max(factor, MIN_FACTOR), MAX_FACTOR)
    if was_rejected and factor > 1.0:
        factor = 1.0
    s[ERROR] = round_to_nine_bits(now)
    if h >= s[STEP_SIZE] or factor < 1.0 or h * factor > s[STEP_SIZE]:
        s[STEP_SIZE] = round_to_nine_bits(h * factor)


# --- trial steps ---


class TrialStep(NamedTuple):
    """Result of a trial step.

    Attributes:
        error: Error estimate, divided by the tolerance; infinite if a value is not finite.
        y: States at the end of the step (n,).
        rates: State derivatives at the end of the step (n,); None if they were not evaluated.
    """

    error: float
    y: Array
    rates: Array | None = None


@dataclass(frozen=True, eq=False)
class StepStart:
    """Data at the start of an inner step.

    Attributes:
        m: Memory vector.
        t: Time [s].
        x: States (n,).
        f: Derivatives of the states (n,).
    """

    m: Array
    t: float
    x: Array
    f: Array


class TrialStepper:
    """Stepper that takes the trial steps of an adaptive method and estimates their errors.

    Args:
        evaluator: Functions of the block.
        method: Adaptive method.
    """

    def __init__(self, evaluator: Evaluator, method: Adaptive):
        self.evaluator, self.method = evaluator, method
        states = evaluator.memory.block.states
        self.atol, self.nominal = method.absolute_tolerances(states), nominal_values(states)
        self.costs, self.stages = MethodCosts.estimate(len(self.atol)), None
        if method.collocation is not None and method.collocates(len(self.atol)):
            norm, tolerance = self.error_norm, newton_tolerance(method.rtol)
            self.stages = Stages(method.collocation, norm, tolerance, self.costs)

    @property
    def first_implicit_method(self) -> float:
        """Implicit method for the first switch from the explicit pair; EXPLICIT if none exists."""
        if self.stages is not None:
            return COLLOCATION
        return ROSENBROCK if self.method.stiff is not None else EXPLICIT

    @property
    def x(self) -> slice:
        """Slice of the continuous states in the memory."""
        return self.evaluator.memory.x

    def attempt(
        self,
        start: StepStart,
        h: float,
        t_end: float,
        s: Array,
        jacobian: tuple[Array, Array] | None,
    ) -> TrialStep:
        """Take a trial step with the active method, and estimate its error.

        Args:
            start: Start of the step.
            h: Step size [s].
            t_end: Time at the end of the step [s]; it can differ from t + h by rounding.
            s: Step memory; the function updates the votes for implicit steps and WINDOW_COST.
            jacobian: df/dx (n, n) and df/dt (n,) for a Rosenbrock step.

        Returns:
            States at the end of the step and error estimate.
        """
        if s[ACTIVE_METHOD] == COLLOCATION:
            assert self.stages is not None
            return self._collocation_step(self.stages, start, h, t_end, s)
        if jacobian is None:
            return self._explicit_step(start, h, t_end, s)
        self.add_cost(s, self.costs.rosenbrock)
        return self._rosenbrock_step(start, h, t_end, jacobian)

    def rk4_step(self, start: StepStart, h: float, t_end: float) -> TrialStep:
        """Take a trial RK4 step of size h [s].

        The error estimate is the difference to an embedded method of order 2.
        """
        k = self._stage_rates(start, h, RK4, [start.f])
        y = start.x + h * weighted_sum(RK4.b, k)
        error = self.error_norm(h * weighted_sum(RK4_ERROR, k), start.x, y)
        return self._project_trial(start, t_end, error, y)

    def _explicit_step(self, start: StepStart, h: float, t_end: float, s: Array) -> TrialStep:
        """Take a trial step of size h [s] of the explicit pair, and update the votes in s.

        The function votes for an implicit method if stability, not accuracy, limits the step size.
        """
        pair = self.method.explicit
        assert pair is not None
        assert pair.error is not None
        inner = replace(pair, a=pair.a[:-1], b=pair.b[:-1], c=pair.c[:-1])
        k = self._stage_rates(start, h, inner, [start.f])
        y_before = start.x + h * weighted_sum(pair.a[-2], k[:-1])
        correction, y = self.project(start, t_end, start.x + h * weighted_sum(pair.a[-1], k))
        if not correction <= 1.0:
            return TrialStep(correction, y)
        k.append(self.rates(start.m, t_end, y))
        error = max(correction, self.error_norm(h * weighted_sum(pair.error, k), start.x, y))
        if error <= 1.0:
            distance = self.error_norm(y - y_before, start.x, y)
            rate_change = self.error_norm(k[-1] - k[-2], start.x, y)
            vote_for_implicit(s, h, distance, rate_change, self.first_implicit_method)
        return TrialStep(error, y, k[-1])

    def _rosenbrock_step(
        self, start: StepStart, h: float, t_end: float, jacobian: tuple[Array, Array]
    ) -> TrialStep:
        """Take a trial Rosenbrock step of size h [s]; the last stage is the error estimate.

        `jacobian` contains df/dx (n, n) and df/dt (n,).
        """
        pair = self.method.stiff
        assert pair is not None

        def rates(t: float, x: Array) -> Array:
            return self.rates(start.m, t, x)

        k = implicit_stages(pair, rates, jacobian, start.t, start.x, h, start.f)
        y = start.x + h * weighted_sum(pair.b, k)
        return self._project_trial(start, t_end, self.error_norm(h * k[-1], start.x, y), y)

    def _collocation_step(
        self, stages: Stages, start: StepStart, h: float, t_end: float, s: Array
    ) -> TrialStep:
        """Take a trial collocation step (Radau IIA), and add its cost to the step memory s."""

        def rates(t: float, x: Array) -> Array:
            return self.rates(start.m, t, x)

        def jacobian(t: float, x: Array) -> Array:
            if self.method.exact_jacobian:
                return self.jacobian(StepStart(start.m, t, x, start.f), h)[0]
            return state_jacobian(rates, t, x, rates(t, x), self.nominal)

        stages.spent = 0.0
        error, y = stages.attempt(CollocationStart(start.t, h, start.x, start.f), rates, jacobian)
        self.add_cost(s, stages.spent)
        return self._project_trial(start, t_end, error, y)

    def _project_trial(self, start: StepStart, t_end: float, error: float, y: Array) -> TrialStep:
        """Return the result of a trial step with the final states y; project y if `error` <= 1.

        The returned error then includes the correction by the projection.
        """
        if not error <= 1.0:
            return TrialStep(error, y)
        correction, y = self.project(start, t_end, y)
        return TrialStep(max(error, correction), y)

    def jacobian(self, start: StepStart, h: float) -> tuple[Array, Array]:
        """Return df/dx (n, n) and df/dt (n,) at the start of a step of size h [s].

        The derivatives are exact if `method.exact_jacobian` is true, and otherwise finite
        differences.
        """
        if self.method.exact_jacobian:
            return self.evaluator.jacobian(assign(assign(start.m, 0, start.t), self.x, start.x))

        def rates(t: float, x: Array) -> Array:
            return self.rates(start.m, t, x)

        return finite_difference_jacobian(rates, start.t, start.x, h, start.f, self.nominal)

    def error_norm(self, e: Array, x: Array, y: Array) -> float:
        """Return the maximum norm of an error estimate, divided by the tolerance.

            max_i |e_i| / (atol_i + rtol max(|x_i|, |y_i|))

        Args:
            e: Error estimate (n,).
            x: States at the start of the step (n,).
            y: States at the end of the step (n,).

        Returns:
            Error, divided by the tolerance; infinite if `e` or `y` is not finite.
        """
        ratios = np.abs(e) / (self.atol + self.method.rtol * np.maximum(np.abs(x), np.abs(y)))
        largest = float(np.max(ratios, initial=0.0))
        return largest if largest <= MAX_FINITE and np.all(np.isfinite(y)) else np.inf

    def rates(self, m: Array, t: float, x: Array) -> Array:
        """Return the state derivatives (n,) at time t [s] and states x, for the inputs in m."""
        return self.evaluator.derivative(assign(assign(m, 0, t), self.x, x))

    def project(self, start: StepStart, t_end: float, y: Array) -> tuple[float, Array]:
        """Project the states at the end of a step onto the constraints of the block.

        Args:
            start: Start of the step.
            t_end: Time at the end of the step [s].
            y: States at the end of the step (n,).

        Returns:
            Norm of the correction, divided by the tolerance, and the projected states (n,).
        """
        if not self.evaluator.has_projection:
            return 0.0, y
        projected = self.evaluator.project(assign(assign(start.m, 0, t_end), self.x, y))
        return self.error_norm(projected - y, start.x, projected), projected

    def add_cost(self, s: Array, cost: float) -> None:
        """Add the cost of a step, in evaluations of the state derivatives, to WINDOW_COST in s.

        `select_cheaper_implicit_method` compares the costs of the implicit methods.
        """
        if self.stages is not None and self.method.explicit is not None:
            s[WINDOW_COST] += cost

    def _stage_rates(
        self, start: StepStart, h: float, method: Integrator, k: list[Array]
    ) -> list[Array]:
        """Append the stage derivatives k_2, k_3, ... to the list k = [k_1], and return the list.

            k_i = f(t + c_i h, x + h sum_j a_ij k_j)

        t [s] and x (n,) are the time and the states at the start of the step of size h [s].
        """
        for a, c in zip(method.a[1:], method.c[1:], strict=True):
            k.append(self.rates(start.m, start.t + c * h, start.x + h * weighted_sum(a, k)))
        return k


# --- the adaptive stepper ---


class CommunicationStep(NamedTuple):
    """Start, length and end of a communication step [s].

    `length` is a field, because the difference end - start has a rounding error.
    """

    start: float
    length: float
    end: float

    def end_of(self, elapsed: float, h: float) -> float:
        """Return the time [s] at the end of an inner step of size h.

        The inner step begins `elapsed` [s] after the start of the communication step. For the last
        inner step, the result equals `end` exactly.
        """
        return self.end if h == self.length - elapsed else self.start + (elapsed + h)

    def elapsed_after(self, elapsed: float, h: float) -> float:
        """Return the time [s] from the start of the communication step to the end of an inner step.

        The inner step of size h begins `elapsed` [s] after the start of the communication step. For
        the last inner step, the result equals `length` exactly.
        """
        return self.length if h == self.length - elapsed else elapsed + h


@dataclass(frozen=True, eq=False)
class InnerStep:
    """Data that all trial steps of an inner step share.

    Attributes:
        start: Start of the step.
        s: Step memory; each trial step changes it.
        method: Active method.
        cost_before: Value of WINDOW_COST before the inner step.
        jacobian: df/dx (n, n) and df/dt (n,) for a Rosenbrock step.
        votes: Copy of the elements _VOTE_FIELDS of the step memory before the inner step. The
            stepper restores these elements if an event occurs in a trial step.
        smallest: Smallest step size [s].
    """

    start: StepStart
    s: Array
    method: float
    cost_before: float
    jacobian: tuple[Array, Array] | None
    votes: Array
    smallest: float


class AdaptiveStepper:
    """Stepper that integrates the continuous states over communication steps, with error control.

    Args:
        evaluator: Functions of the block.
        method: Adaptive method with its tolerances.
        max_step_size: Largest inner step [s].
    """

    def __init__(self, evaluator: Evaluator, method: Adaptive, max_step_size: float):
        self.evaluator, self.method, self.max_step_size = evaluator, method, max_step_size
        self.trial_stepper = TrialStepper(evaluator, method)
        self.tries = 0
        self.last_rates: Array | None = None
        self.approach = EventApproach() if evaluator.switching_count else None

    def integrate(self, m: Array, start: float, length: float, end: float) -> Array:
        """Integrate the continuous states over one communication step.

        Args:
            m: Memory vector at the start.
            start: Start time [s].
            length: Length of the step [s].
            end: End time [s].

        Returns:
            Memory vector at the end. If the integration fails, the first state in the vector is
            NaN.
        """
        step, elapsed = CommunicationStep(start, length, end), 0.0
        while elapsed < length:
            m, elapsed = self._step(step, m, elapsed)
        return m

    def _step(self, step: CommunicationStep, m: Array, elapsed: float) -> tuple[Array, float]:
        """Take one inner step that begins `elapsed` [s] after the start of a communication step.

        Returns:
            Memory vector after the step, and time since the start of the communication step [s].
        """
        s, remaining = m[self.evaluator.memory.s].copy(), step.length - elapsed
        start = self._step_start(m, step.start + elapsed)
        h = self._initial_step_size(s, remaining, start)
        inner = self._inner_step(start, h, step.end, s)
        if self._should_try_rk4_step(s, h == remaining):
            y = self._try_rk4_step(inner, h, step.end)
            if y is not None:
                return self._store(start, y, step.end, s), step.length
        if self.approach is not None:
            self.approach.reset()
        return self._step_by_trials(inner, h, step, elapsed)

    def _step_by_trials(
        self, inner: InnerStep, h: float, step: CommunicationStep, elapsed: float
    ) -> tuple[Array, float]:
        """Take trial steps with decreasing sizes until a step is accepted.

        h is the first trial step size [s]. The inner step begins `elapsed` [s] after the start of
        the communication step.

        Returns:
            Memory vector after the step, and time since the start of the communication step [s].
        """
        start, s, smallest, was_rejected = inner.start, inner.s, inner.smallest, False
        while self._has_tries_left(elapsed, step.length):
            t_end = step.end_of(elapsed, h)
            trial, before_event = self._try(inner, h, t_end)
            if before_event > 0.0 and h > 2.0 * smallest:
                h = self._shorten_before_event(s, max(before_event, 2.0 * smallest))
                continue
            smaller = rejected_step_size(h, trial.error)
            if is_acceptable(trial.error, is_smallest=smaller < smallest):
                y = self._accept(inner, h, t_end, trial, was_rejected)
                return self._store(start, y, t_end, s), step.elapsed_after(elapsed, h)
            if smaller < smallest:
                break
            was_rejected, h, s[STEP_SIZE] = True, smaller, smaller
        return self._give_up(start, step.length - elapsed, step.end, s), step.length

    def _step_start(self, m: Array, t: float) -> StepStart:
        """Return the data at the start t [s] of an inner step.

        The function reuses the state derivatives at the end of the previous step if they are
        stored.
        """
        x = m[self.trial_stepper.x]
        if self.last_rates is None:
            self.last_rates = self.trial_stepper.rates(m, t, x)
        return StepStart(m, t, x, self.last_rates)

    def _inner_step(self, start: StepStart, h: float, end: float, s: Array) -> InnerStep:
        """Return the data that all trials of an inner step share, such as the Jacobian.

        h is the first trial step size [s], and `end` [s] is the end of the communication step.
        """
        method, cost, jacobian = s[ACTIVE_METHOD], s[WINDOW_COST], None
        if method == ROSENBROCK:
            self.trial_stepper.add_cost(s, self.trial_stepper.costs.jacobian)
            jacobian = self.trial_stepper.jacobian(start, h)
        smallest = smallest_step_size(start.t, end)
        return InnerStep(start, s, method, cost, jacobian, s[_VOTE_FIELDS], smallest)

    def _initial_step_size(self, s: Array, remaining: float, start: StepStart) -> float:
        """Return the size [s] of the first trial of an inner step.

        The result is the stored step size, limited to the remaining time of the communication step.
        If no step size is stored, the result is the remaining time. For the first collocation step
        of a run, the size is reduced so that no state changes by more than INITIAL_CHANGE of its
        magnitude.
        """
        if self.method.explicit is None:
            s[ACTIVE_METHOD] = self.trial_stepper.first_implicit_method
        if s[STEP_SIZE] == 0.0:
            s[STEP_SIZE] = remaining
            rate = self.trial_stepper.error_norm(start.f, start.x, start.x)
            change = INITIAL_CHANGE / self.method.rtol
            if s[ACTIVE_METHOD] == COLLOCATION and change < rate * remaining < np.inf:
                s[STEP_SIZE] = round_to_nine_bits(change / rate)
        return first_step_size(min(s[STEP_SIZE], self.max_step_size), remaining)

    def _should_try_rk4_step(self, s: Array, covers_whole_step: bool) -> bool:
        """Return True if the stepper first tries one RK4 step over the communication step.

        This requires that the first trial step covers the whole communication step
        (`covers_whole_step`). After a failed RK4 step, the stepper does not try RK4 for
        SCREEN_INTERVAL communication steps. The step memory s contains the remaining number of
        these communication steps.
        """
        if not covers_whole_step or self.tries or s[ACTIVE_METHOD]:
            return False
        if s[SCREEN_PAUSE] > 0.0:
            s[SCREEN_PAUSE] -= 1.0
            return False
        return True

    def _try_rk4_step(self, inner: InnerStep, h: float, end: float) -> Array | None:
        """Try one RK4 step of size h [s] over the communication step; return the final states.

        If an event occurs in the step, or if the error exceeds the tolerance, the result is None.
        """
        self.tries += 1
        trial = self.trial_stepper.rk4_step(inner.start, h, end)
        if trial.error <= 1.0:
            trial, before_event = self._limit_to_event(inner.start, h, end, trial)
            if before_event == 0.0:
                self.last_rates = None
                return trial.y
        inner.s[SCREEN_PAUSE] = SCREEN_INTERVAL
        return None

    def _try(self, inner: InnerStep, h: float, t_end: float) -> tuple[TrialStep, float]:
        """Take a trial step of size h [s], and check it for events.

        If an event occurs in the step, the function discards the votes of the step. At a
        discontinuity, the eigenvalue estimate is very large even if the block is not stiff.

        Returns:
            Trial step, and the size [s] of a shorter step that ends before an event. The size is 0
            if the step may be accepted.
        """
        self.tries += 1
        trial = self.trial_stepper.attempt(inner.start, h, t_end, inner.s, inner.jacobian)
        if not trial.error <= 1.0:
            return trial, 0.0
        trial, before_event = self._limit_to_event(inner.start, h, t_end, trial)
        if before_event > 0.0 or (self.approach is not None and self.approach.crosses):
            inner.s[_VOTE_FIELDS] = inner.votes
        return trial, before_event

    def _has_tries_left(self, elapsed: float, length: float) -> bool:
        """Return True if the communication step may contain further trial steps.

        The number of trial steps is limited. The first PROBATION_TRIES trial steps must complete at
        least 1 % of the `length` [s] of the communication step; `elapsed` [s] is the completed
        time.
        """
        if self.tries == PROBATION_TRIES and elapsed < 0.01 * length:
            return False
        bound = self.method.max_inner_steps
        return self.tries < (MAX_TRIES if bound is None else min(bound, MAX_TRIES))

    def _accept(
        self, inner: InnerStep, h: float, t_end: float, trial: TrialStep, was_rejected: bool
    ) -> Array:
        """Accept a trial step: update the step size, the votes and the stored stages.

        Returns:
            States at the end of the step (n,).
        """
        if trial.error <= 1.0:
            if inner.method != EXPLICIT:
                self._assess_implicit_step(inner, h)
            store_next_step_size(inner.s, h, trial.error, was_rejected, inner.method)
            self._prepare_next_step(inner, h)
            self.last_rates = trial.rates
            return trial.y
        # the error exceeds the tolerance at the smallest step size: count the step and continue
        if self.trial_stepper.stages is not None:
            self.trial_stepper.stages.forget()
        inner.s[ACCEPTED_ABOVE_TOLERANCE] += 1.0
        inner.s[STEP_SIZE] = max(inner.s[STEP_SIZE], 2.0 * h)
        self.last_rates = None
        return self.trial_stepper.project(inner.start, t_end, trial.y)[1]

    def _prepare_next_step(self, inner: InnerStep, h: float) -> None:
        """Store the collocation stages of an accepted step for the prediction of the next stages.

        After an event or a step of another method, the function discards the stored stages. Near an
        event, the function also limits the next step size.
        """
        stages, approach, s = self.trial_stepper.stages, self.approach, inner.s
        if stages is not None and inner.method == COLLOCATION:
            s[STEP_SIZE] = stages.keep(h, s[STEP_SIZE])
        has_event = approach is not None and approach.crosses
        if stages is not None and (inner.method != COLLOCATION or has_event):
            stages.forget()
        if approach is not None:
            s[STEP_SIZE] = approach.next_step_size(h, s[STEP_SIZE])

    def _limit_to_event(
        self, start: StepStart, h: float, t_end: float, trial: TrialStep
    ) -> tuple[TrialStep, float]:
        """Check a trial step of size h [s] for events.

        Returns:
            Trial step with the state derivatives at its end, and the size [s] of a shorter step
            that ends before an event. The size is 0 if the step may be accepted.
        """
        if self.approach is None:
            return trial, 0.0
        known = trial.rates
        rates = self.trial_stepper.rates(start.m, t_end, trial.y) if known is None else known
        error = self.trial_stepper.error_norm(h * (rates - start.f), start.x, trial.y)
        at_start = self._switching_values(start.m, start.t, start.x, h * start.f, 1.0)
        at_end = self._switching_values(start.m, t_end, trial.y, h * rates, -1.0)
        return trial._replace(rates=rates), self.approach.limit(h, at_start, at_end, error)

    def _switching_values(
        self, m: Array, t: float, x: Array, change: Array, direction: float
    ) -> SwitchingValues:
        """Return the switching functions g and their changes h dg/dt at time t [s] and states x.

        `change` is the step size h times the state derivatives. The function computes h dg/dt as
        a finite difference in x along `change`. `direction` is 1 (forward difference) at the start
        of a step, and -1 (backward difference) at its end.
        """
        delta, m = direction * SWITCHING_DIFFERENCE, assign(m, 0, t)
        value = self.evaluator.switching_functions(assign(m, self.trial_stepper.x, x))
        moved = self.evaluator.switching_functions(
            assign(m, self.trial_stepper.x, x + delta * change)
        )
        return SwitchingValues(value, (moved - value) / delta)

    def _shorten_before_event(self, s: Array, h: float) -> float:
        """Store the size h [s] of a step that ends before an event, and return h.

        The function also stores the previous step size, which is restored after the event.
        """
        assert self.approach is not None
        if self.approach.resume_step_size == 0.0:
            self.approach.resume_step_size = s[STEP_SIZE]
        s[STEP_SIZE] = h
        return h

    def _give_up(self, start: StepStart, remaining: float, end: float, s: Array) -> Array:
        """End the communication step after too many trial steps, and return the memory vector.

        If `max_inner_steps` is set, one step without error control covers the remaining time [s].
        Otherwise the first state in the memory vector is NaN.
        """
        if self.method.max_inner_steps is None:
            return self._store(start, assign(start.x, 0, np.nan), end, s)
        return self._finish_within_budget(start, remaining, end, s)

    def _finish_within_budget(self, start: StepStart, h: float, end: float, s: Array) -> Array:
        """Complete the communication step with a step of size h [s] without error control.

        If the method is implicit, the function takes a linearly implicit Euler step, and otherwise
        an RK4 step. If a result is not finite, the states do not change.
        """
        s[EXHAUSTED_STEPS] += 1.0
        stepper = self.trial_stepper
        if is_implicit(self.method):
            J, f_t = stepper.jacobian(start, h)
            # (I - h J) k = f + h df/dt
            k = linear_solver(np.eye(len(start.x)) - h * J)(start.f + h * f_t)
            correction, y = stepper.project(start, end, start.x + h * k)
        else:
            error, y, _ = stepper.rk4_step(start, h, end)
            correction, y = (error, y) if error <= 1.0 else stepper.project(start, end, y)
        is_finite = correction <= MAX_FINITE and np.all(np.isfinite(y))
        return self._store(start, y if is_finite else start.x, end, s)

    def _assess_implicit_step(self, inner: InnerStep, h: float) -> None:
        """Update the votes for explicit steps after an implicit step of size h [s].

        At the end of a window, the function also compares the costs of the implicit methods.
        """
        if self.method.explicit is None:
            return
        s, x, stages = inner.s, inner.start.x, self.trial_stepper.stages
        if inner.jacobian is not None:
            J, relative_cost = inner.jacobian[0], self.method.relative_cost(len(x))
        else:
            assert stages is not None
            assert stages.J is not None
            J = stages.J
            relative_cost = (s[WINDOW_COST] - inner.cost_before) / (self.method.explicit.stages - 1)
        vote_for_explicit(s, h, self._eigenvalue_bound(J, x), relative_cost)
        has_two = stages is not None and self.method.stiff is not None
        if has_two and s[ACTIVE_METHOD] != EXPLICIT:
            select_cheaper_implicit_method(s, h, self.trial_stepper.costs.window)

    def _eigenvalue_bound(self, J: Array, x: Array) -> float:
        """Return an upper bound of the spectral radius of the Jacobian J (n, n) [1/s].

        The bound is |D^-1 J D|_inf with the tolerances at the states x (n,) as the diagonal of D.
        """
        unit = self.trial_stepper.atol + self.method.rtol * np.abs(x)
        rows = zip(J, unit, strict=True)
        return max((float(sum(np.abs(row) * unit) / u) for row, u in rows), default=0.0)

    def _store(self, start: StepStart, y: Array, t: float, s: Array) -> Array:
        """Return the memory vector with the time t [s], the states y (n,) and the step memory s."""
        return assign(
            assign(assign(start.m, 0, t), self.trial_stepper.x, y), self.evaluator.memory.s, s
        )


_VOTE_FIELDS = [
    ACTIVE_METHOD,
    VOTES,
    EIGENVALUE,
    STIFF_DETECTIONS,
    EXPLICIT_STEP_SIZE,
    PREFERRED_IMPLICIT,
]
