"""Integration methods with error control, step memory, and switches between methods.

An `Adaptive` method chooses the size of its inner steps from an error estimate. The step memory, a
segment of the block memory with the variables `STEP_PORTS`, contains the state of the step size
controller.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf, isfinite
from numbers import Real
from typing import NamedTuple

import numpy as np

from rigidblocks.block.block import MOST_IN_C, Block, Port, check_count
from rigidblocks.block.integrators import (
    DORMAND_PRINCE,
    INTEGRATORS,
    RADAU,
    RODAS3,
    RODAS4P,
    Integrator,
)
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.name_hints import suggestion
from rigidblocks.spatial.spatial import Array

MAX_TRIES = 1_000_000  # maximum number of trial steps in a communication step
PROBATION_TRIES = 10_000  # trial steps after which 1 % of the communication step must be complete
SCREEN_INTERVAL = 16  # steps without an RK4 trial after a failed RK4 trial; found by trial
ENOUGH_VOTES = 15  # consecutive votes that switch between explicit and implicit steps
MAX_PATIENCE = 63.0  # implicit steps require at most (1 + 63) ENOUGH_VOTES votes
MAX_COLLOCATION_STATES = 56  # limit for collocation if a Rosenbrock pair is also available

# If h |lambda| exceeds this value, stability limits the explicit pair. The stability region ends at
# 3.3. The error of fast modes keeps h |lambda| below 3.3; nonstiff blocks stay below 1.
STABILITY_LIMIT = 1.6

# smallest distance |y - z| in `vote_for_implicit`, divided by the tolerance, that exceeds the
# rounding error of y and z
DETECTABLE_DISTANCE = 1e-5

FIRST_RETRY, LAST_RETRY = 3.0, 64.0  # limits of the number of windows between two trials
WINDOW_STEPS = 8.0  # cost of a window, in Rosenbrock steps


@dataclass(frozen=True, repr=False)
class Adaptive:
    r"""Integration method with error control.

    A step from x to x' with the error estimate e is accepted if its error is at most 1:

        error = max_i |e_i| / (atol_i + rtol max(|x_i|, |x_i'|))

    The correction by the block function `project` must also be within the tolerance. The controller
    computes the next step size from the errors of the last two steps (Hairer and Wanner II, IV.2).

    The method first tries one RK4 step over the whole communication step. The error estimate of
    this step is the difference to an embedded method of order 2. The embedded method needs no
    further evaluations. If the error is too large, inner steps follow. Implicit steps replace
    explicit steps if stability limits the step size. If two implicit methods are available, the
    method uses the implicit method with the lower cost per simulated second.

    A communication step fails after `MAX_TRIES` trial steps. It also fails if the first
    `PROBATION_TRIES` trial steps complete less than 1 % of the communication step.
    `max_inner_steps` bounds the computing time for hard real time. At this limit, one step without
    error control completes the communication step. If the method is implicit, this is a linearly
    implicit Euler step, and otherwise an RK4 step. The step memory counts these communication steps
    in steps.cut_short.

    Args:
        name: Name of the method.
        explicit: Embedded explicit pair.
        stiff: Linearly implicit (Rosenbrock) pair; its last stage is the error estimate.
        collocation: Collocation method. Newton's method computes its stages.
        rtol: Relative tolerance, from 1e-13 to 0.1.
        atol: Absolute tolerance of all states; None: rtol times the nominal value of each state.
        max_inner_steps: Maximum number of trial steps per communication step.
        exact_jacobian: True for the traced Jacobian, False for finite differences.

    Raises:
        ValueError: A tolerance or `max_inner_steps` is out of range.
    """

    name: str
    explicit: Integrator | None = None
    stiff: Integrator | None = None
    collocation: Integrator | None = None
    rtol: float = 1e-7
    atol: float | None = None
    max_inner_steps: int | None = None
    exact_jacobian: bool = True

    def __repr__(self) -> str:
        return f"<{self.name}, rtol {self.rtol:g}>"

    def __post_init__(self) -> None:
        if not (isfinite(self.rtol) and 1e-13 <= self.rtol <= 0.1):
            raise ValueError(f"rtol must be from 1e-13 to 0.1, not {self.rtol}")
        if self.atol is not None and not (isfinite(self.atol) and self.atol > 0):
            raise ValueError(f"atol must be positive, not {self.atol}")
        if self.max_inner_steps is not None:
            check_count("max_inner_steps", self.max_inner_steps, MOST_IN_C)

    def absolute_tolerances(self, states: tuple[Port, ...]) -> Array:
        """Return the absolute tolerance (n,) of each state element, in the unit of the state."""
        nominal = nominal_values(states)
        return self.rtol * nominal if self.atol is None else np.full(nominal.shape, self.atol)

    def collocates(self, n: int) -> bool:
        """Return True if the method may take collocation steps for a block with n states.

        A method that also has a Rosenbrock pair does not use collocation for large blocks, because
        a collocation step needs six matrices (n, n). Such a method also does not use collocation if
        `max_inner_steps` is set, because a collocation step needs more time than a Rosenbrock step.
        """
        if self.collocation is None or self.stiff is None:
            return self.collocation is not None
        return n <= MAX_COLLOCATION_STATES and self.max_inner_steps is None

    def relative_cost(self, n: int) -> float:
        """Return the cost of a Rosenbrock step relative to an explicit step, for n states.

        The Jacobian, exact or by finite differences, costs n + 1 evaluations of the state
        derivatives. The linear equations cost as much as n / 5 + n^2 / 90 evaluations. These
        numbers apply to mechanisms, for which an evaluation takes about 60 n operations.
        """
        assert self.explicit is not None
        assert self.stiff is not None
        evaluations = n + 1.0 + self.stiff.stages + n / 5 + n * n / 90
        return evaluations / (self.explicit.stages - 1)


class MethodCosts(NamedTuple):
    """Costs of the operations in an implicit step, in evaluations of the state derivatives.

    For a mechanism with n states, one evaluation takes as long as about 120 n operations of the
    linear solver.

    Attributes:
        jacobian: Cost of the Jacobian by finite differences.
        rosenbrock: Cost of the linear equations and the six stages of a Rosenbrock step.
        factors: Cost of the three matrix factorizations for a collocation step.
        newton: Cost of a Newton iteration with five stages and the linear equations.
    """

    jacobian: float
    rosenbrock: float
    factors: float
    newton: float

    @classmethod
    def estimate(cls, n: int) -> "MethodCosts":
        """Return the estimated costs for a block with n states."""
        return cls(n + 1.0, 7.5 + n / 10 + n * n / 180, n * n / 20, 7.0 + 3 * n / 20)

    @property
    def window(self) -> float:
        """Cost of a window: the steps between two comparisons of the implicit methods.

        The unit is one evaluation of the state derivatives.
        """
        return WINDOW_STEPS * (self.jacobian + self.rosenbrock)


def nominal_values(states: tuple[Port, ...]) -> Array:
    """Return the nominal value (n,) of each state element, in the unit of the state."""
    return np.concatenate([np.zeros(0), *(np.ravel(port.nominal) for port in states)])


def round_to_nine_bits(x: float) -> float:
    """Round x to nine binary digits (Veltkamp 1968).

    An error estimate is a small difference of large values, so its last digits differ between the
    NumPy, traced and C implementations of a block. With rounded values, all implementations choose
    equal step sizes.
    """
    c = x * _VELTKAMP_FACTOR
    return float(c - (c - x))


_VELTKAMP_FACTOR = 2.0**44 + 1.0  # drops 44 of 53 bits


Method = Integrator | Adaptive

ADAPTIVE = Adaptive("adaptive", DORMAND_PRINCE)
STIFF = Adaptive("stiff", None, RODAS4P)
AUTOMATIC = Adaptive("adaptive or stiff", DORMAND_PRINCE, RODAS4P, RADAU, exact_jacobian=False)
DEFAULT_METHOD: Method = AUTOMATIC
METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        ADAPTIVE,
        STIFF,
        AUTOMATIC,
        Adaptive("adaptive rodas3", None, RODAS3),
        Adaptive("radau", collocation=RADAU),
    )
} | INTEGRATORS

STEP_PORTS = tuple(
    Port(f"steps.{name}", (), unit, doc, 0.0)
    for name, unit, doc in (
        ("length", "s", "size of the next inner step; 0 before the first step"),
        ("error", "1", "error of the last inner step in tolerances; 0 before the first step"),
        ("pause", "1", "remaining communication steps without a trial of a single RK4 step"),
        ("is_stiff", "1", "active method: 0 explicit, 1 linearly implicit, 2 collocation"),
        ("votes", "1", "votes for a switch between explicit and implicit steps"),
        (
            "eigenvalue",
            "1/s",
            "estimate of the dominant eigenvalue at the last stiffness detection",
        ),
        ("cut_short", "1", "communication steps that reached max_inner_steps"),
        (
            "above_tolerance",
            "1",
            "inner steps with an error above the tolerance, at the smallest step size",
        ),
        ("stiffness", "1", "number of stiffness detections"),
        ("explicit_length", "s", "explicit step size at the switch to an implicit method"),
        (
            "patience",
            "1",
            "15 (1 + patience) votes switch to implicit steps; unprofitable switches raise it",
        ),
        ("implicit", "1", "implicit method chosen for stiffness: 1 or 2; 0 before the choice"),
        ("cost", "1", "cost of the implicit steps in the current window, in rate evaluations"),
        ("span", "s", "simulated time in the current window"),
        ("other", "1/s", "cost per simulated time of the other implicit method"),
        ("windows", "1", "windows since the last change of the implicit method; 0 during a trial"),
        ("trust", "1", "windows after which the other implicit method is tried again"),
    )
)
# indices of the step memory, which is the memory segment of STEP_PORTS
(
    STEP_SIZE,
    ERROR,
    SCREEN_PAUSE,
    ACTIVE_METHOD,
    VOTES,
    EIGENVALUE,
    EXHAUSTED_STEPS,
    ACCEPTED_ABOVE_TOLERANCE,
    STIFF_DETECTIONS,
    EXPLICIT_STEP_SIZE,
    PATIENCE,
    PREFERRED_IMPLICIT,
    WINDOW_COST,
    WINDOW_TIME,
    OTHER_COST_RATE,
    WINDOWS_SINCE_SWITCH,
    WINDOWS_BEFORE_RETRY,
) = range(17)
EXPLICIT, ROSENBROCK, COLLOCATION = 0.0, 1.0, 2.0  # values of ACTIVE_METHOD, PREFERRED_IMPLICIT


def vote_for_implicit(
    s: Array, h: float, distance: float, rate_change: float, implicit: float
) -> None:
    """Count a vote for an implicit method if stability, not accuracy, limits an explicit step.

    The function estimates the magnitude of the dominant eigenvalue (Hairer and Wanner IV.2):

        |lambda| = |f(y) - f(z)| / |y - z|

    f are the state derivatives. y and z are the last two stages of the explicit pair, which are
    both at the end of the step. A step is a vote for an implicit method if h |lambda| exceeds
    STABILITY_LIMIT. After fifteen votes, implicit steps replace explicit steps. Each unprofitable
    switch increases the required number of votes.

    Args:
        s: Step memory, changed in place.
        h: Accepted step size [s].
        distance: |y - z|, divided by the tolerance.
        rate_change: |f(y) - f(z)|, divided by the tolerance [1/s].
        implicit: Implicit method for the first switch from the explicit pair; EXPLICIT if the
            integration method has no implicit method.
    """
    if h * rate_change > STABILITY_LIMIT * distance and distance > DETECTABLE_DISTANCE:
        s[EIGENVALUE] = round_to_nine_bits(rate_change / distance)
        s[VOTES] += 1.0
    elif s[VOTES] > 0.0:
        s[VOTES] -= 0.5
    if s[VOTES] >= ENOUGH_VOTES * (1.0 + s[PATIENCE]):
        s[STIFF_DETECTIONS] += 1.0
        s[VOTES] = 0.0
        if implicit > 0.0:
            if s[PREFERRED_IMPLICIT] == 0.0:
                s[PREFERRED_IMPLICIT] = implicit
            s[EXPLICIT_STEP_SIZE], s[ACTIVE_METHOD] = h, s[PREFERRED_IMPLICIT]


def vote_for_explicit(s: Array, h: float, eigenvalue_bound: float, relative_cost: float) -> None:
    """Count a vote for the explicit pair after an implicit step.

    An explicit step of size h / relative_cost and the implicit step have equal costs per simulated
    second. The explicit pair receives a vote if it is stable at the size h / relative_cost, or if
    the last explicit step was longer than h / relative_cost. Otherwise the vote count is reset to
    zero. A switch to an unstable explicit pair doubles the number of votes that
    `vote_for_implicit` requires.

    Args:
        s: Step memory, changed in place.
        h: Accepted implicit step size [s].
        eigenvalue_bound: Upper bound of the spectral radius of the Jacobian [1/s].
        relative_cost: Cost of the implicit step, relative to an explicit step.
    """
    is_stable = eigenvalue_bound * h < 2.0 * relative_cost
    covers_less = h < relative_cost * s[EXPLICIT_STEP_SIZE]
    s[VOTES] = s[VOTES] + 1.0 if is_stable or covers_less else 0.0
    if s[VOTES] >= ENOUGH_VOTES:
        s[VOTES], s[ACTIVE_METHOD] = 0.0, EXPLICIT
        if not is_stable:
            s[PATIENCE] = min(2.0 * s[PATIENCE] + 1.0, MAX_PATIENCE)


def select_cheaper_implicit_method(s: Array, h: float, window: float) -> None:
    """Switch between the two implicit methods to minimize the cost per simulated second.

    The function divides the steps into windows of approximately equal cost. After 3 to 64 windows,
    it tries the other implicit method for one window. If this method is more expensive, the
    function switches back and doubles the number of windows until the next trial. In the long term,
    trials therefore take at most 1/64 of the computing time.

    Args:
        s: Step memory, changed in place. WINDOW_COST already includes the cost of the step.
        h: Accepted step size [s].
        window: Cost at which a window ends [evaluations of the state derivatives].
    """
    s[WINDOW_TIME] += h
    if s[WINDOW_COST] < window:
        return
    cost_rate = round_to_nine_bits(s[WINDOW_COST] / s[WINDOW_TIME])
    is_trial = s[WINDOWS_SINCE_SWITCH] == 0.0 and s[OTHER_COST_RATE] > 0.0
    s[WINDOW_COST], s[WINDOW_TIME] = 0.0, 0.0
    s[WINDOWS_SINCE_SWITCH] += 1.0
    has_failed = bool(is_trial and cost_rate > s[OTHER_COST_RATE])
    if is_trial:
        doubled = min(2.0 * max(s[WINDOWS_BEFORE_RETRY], FIRST_RETRY), LAST_RETRY)
        s[WINDOWS_BEFORE_RETRY] = doubled if has_failed else FIRST_RETRY
    if has_failed or s[WINDOWS_SINCE_SWITCH] > max(s[WINDOWS_BEFORE_RETRY], FIRST_RETRY):
        s[OTHER_COST_RATE], s[WINDOWS_SINCE_SWITCH] = cost_rate, float(has_failed)
        s[ACTIVE_METHOD] = s[PREFERRED_IMPLICIT] = ROSENBROCK + COLLOCATION - s[ACTIVE_METHOD]


def memory_for(block: Block, method: Method, tunable: tuple[str, ...] | None = None) -> Memory:
    """Return the memory layout of a block for an integration method.

    The layout has a step memory if the method is adaptive and the block has continuous states.
    `tunable` contains the names of the tunable parameters; None: all parameters.
    """
    return Memory(block, tunable, STEP_PORTS if chooses_steps(method, block) else ())


def chooses_steps(method: Method, block: Block) -> bool:
    """Return True if a method has step size control and the block has continuous states."""
    return isinstance(method, Adaptive) and bool(block.states)


def longest_step(method: Method, h: float | None = None) -> float:
    """Return the largest inner step [s] of an integration method: h, or the default if h is None.

    Args:
        method: Integration method.
        h: Requested largest inner step [s]. None: 1 ms for fixed steps, unlimited for adaptive
            steps.

    Raises:
        ValueError: h is not positive, or not finite for a method with fixed steps.
        TypeError: h is not a number.
    """
    if h is None:
        return inf if isinstance(method, Adaptive) else 1e-3
    if isinstance(h, bool) or not isinstance(h, Real):
        raise TypeError(f"the inner step h must be a number, not {h!r}")
    if not (h > 0 and (isfinite(h) or isinstance(method, Adaptive))):
        raise ValueError(f"the inner step h must be positive, not {h} s")
    return h


def linearly_implicit_part(method: Method) -> Integrator | None:
    """Return the linearly implicit integrator of a method, or None if the method has none."""
    if isinstance(method, Adaptive):
        return method.stiff
    return method if method.implicit is not None else None


def is_implicit(method: Method) -> bool:
    """Return True if a method takes implicit steps, which need a Jacobian."""
    if isinstance(method, Adaptive) and method.collocation is not None:
        return True
    return linearly_implicit_part(method) is not None


def needs_exact_jacobian(method: Method, block: Block) -> bool:
    """Return True if a method needs the exact Jacobian of a block's state derivatives."""
    if isinstance(method, Adaptive) and block.states:
        return is_implicit(method) and method.exact_jacobian
    return is_implicit(method)


def step_diagnostics(steps: Array) -> Iterator[tuple[int, str]]:
    """Yield pairs (log level, message) that describe the adaptive steps of a run.

    Args:
        steps: Step memory at the end of the run.
    """
    if steps[EXHAUSTED_STEPS]:
        yield (
            logging.WARNING,
            f"reached max_inner_steps in {steps[EXHAUSTED_STEPS]:g} communication steps, which "
            "were finished without error control: raise max_inner_steps, or reduce dt",
        )
    if steps[STIFF_DETECTIONS] and steps[EXPLICIT_STEP_SIZE]:
        radau = steps[PREFERRED_IMPLICIT] == COLLOCATION
        yield (
            logging.INFO,
            f"is stiff (dominant eigenvalue about {steps[EIGENVALUE]:.3g} 1/s): switched to "
            f"implicit steps {steps[STIFF_DETECTIONS]:g} times and preferred "
            f"'{'radau' if radau else 'stiff'}'",
        )
    elif steps[STIFF_DETECTIONS]:
        yield (
            logging.WARNING,
            f"is stiff (dominant eigenvalue about {steps[EIGENVALUE]:.3g} 1/s): stability limits "
            "its inner steps; use method='stiff' or 'adaptive or stiff' for larger steps",
        )
    if steps[ACCEPTED_ABOVE_TOLERANCE]:
        yield (
            logging.WARNING,
            f"accepted {steps[ACCEPTED_ABOVE_TOLERANCE]:g} inner steps with an error above the "
            "tolerance, at the smallest step size: the state is near a singular configuration, or "
            "rtol is too small",
        )


def method_of(
    method: Method | str,
    rtol: float | None = None,
    atol: float | None = None,
    max_inner_steps: int | None = None,
) -> Method:
    """Return an integration method, given by name or as an object, with changed options.

    Args:
        method: Name of a method, or a method.
        rtol: Relative tolerance; None: unchanged.
        atol: Absolute tolerance; None: unchanged.
        max_inner_steps: Maximum number of trial steps per communication step; None: unchanged.

    Raises:
        KeyError: The name is unknown.
        TypeError: `method` is neither a name nor a method.
        ValueError: An option is given for a method with fixed steps.
    """
    if isinstance(method, str):
        if method not in METHODS:
            raise KeyError(f"unknown method '{method}'; {suggestion(method, METHODS)}")
        method = METHODS[method]
    if not isinstance(method, Integrator | Adaptive):
        raise TypeError(
            f"method must be an integrator, such as RK4, or the name of a method, not {method!r}"
        )
    arguments = {"rtol": rtol, "atol": atol, "max_inner_steps": max_inner_steps}
    options = {name: value for name, value in arguments.items() if value is not None}
    if not options:
        return method
    if isinstance(method, Integrator):
        raise ValueError(
            f"'{method.name}' takes fixed steps and does not support "
            f"{' and '.join(options)}; use 'adaptive'"
        )
    return replace(method, **options)  # type: ignore[arg-type]
