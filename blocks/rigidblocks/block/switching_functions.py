"""Sign changes of switching functions within a step, and step sizes near these events.

A switching function of a block changes its sign at a time at which the state derivatives are not
smooth, for example when a contact opens. The adaptive step control and the dense output locate
these events.
"""

from dataclasses import dataclass
from typing import NamedTuple

from rigidblocks.spatial.spatial import Array

EVENT_BISECTIONS = 40  # number of bisections, which locate a sign change to 1e-12 of the step
EVENT_CLEARANCE = 1e-4  # time from step end to event, relative to the time from step start to event
MAX_DIP_SEARCHES = 6  # maximum number of step reductions to find a touch-and-return


class SwitchingValues(NamedTuple):
    """Switching functions at the start or end of a step of size h.

    Attributes:
        value: Switching functions g (n,).
        change: Time derivatives of g times the step size, h dg/dt (n,).
    """

    value: Array
    change: Array


class SignChange(NamedTuple):
    """First sign change of the switching functions in a step.

    Attributes:
        fraction: Step fraction at the sign change, from 0 to 1; 1 without a sign change.
        is_certain: True if the signs at the start and at the end of the step differ. False if a
            function may change its sign twice within the step (touch-and-return).
    """

    fraction: float
    is_certain: bool


def first_sign_change(start: SwitchingValues, end: SwitchingValues) -> SignChange:
    """Return the first sign change in a step, located by means of Hermite cubics.

    The cubics interpolate the switching functions and their time derivatives at both ends of the
    step.
    """
    fraction, is_certain = 1.0, False
    for g0, d0, g1, d1 in zip(*start, *end, strict=True):
        sign = 1.0 if g0 > 0.0 else -1.0
        cubic = (sign * float(g0), sign * float(d0), sign * float(g1), sign * float(d1))
        if (g0 > 0.0) != (g1 > 0.0):
            root = _bisect(*cubic)
            fraction, is_certain = (root if not is_certain or root < fraction else fraction), True
        elif not is_certain:
            fraction = min(fraction, possible_dip(*cubic))
    return SignChange(fraction, is_certain)


def _hermite(s: float, g0: float, d0: float, g1: float, d1: float) -> float:
    """Evaluate a Hermite cubic at s: values g0 and g1, slopes d0 and d1 at s = 0 and s = 1."""
    a, b = d0 + d1 - 2.0 * (g1 - g0), 3.0 * (g1 - g0) - 2.0 * d0 - d1
    return g0 + s * (d0 + s * (b + s * a))


def _bisect(g0: float, d0: float, g1: float, d1: float) -> float:
    """Return a root of a Hermite cubic that is positive at 0 and not positive at 1.

    g0 and g1 are the values at 0 and 1; d0 and d1 are the slopes.
    """
    low, high = 0.0, 1.0
    for _ in range(EVENT_BISECTIONS):
        middle = 0.5 * (low + high)
        if _hermite(middle, g0, d0, g1, d1) > 0.0:
            low = middle
        else:
            high = middle
    return high


def possible_dip(g0: float, d0: float, g1: float, d1: float) -> float:
    """Return the step fraction at which a function may become negative within a step.

    The function is positive at both ends of the step. The result is the fraction at which the
    tangents at both ends of the step intersect. The result is 1 if they do not intersect below
    zero. A convex function, such as the distance to a convex body along a line, is nowhere below
    its tangents. A convex function can therefore be negative only if its tangents intersect below
    zero.

    Args:
        g0: Function value at the start of the step.
        d0: Derivative at the start with respect to the step fraction.
        g1: Function value at the end of the step.
        d1: Derivative at the end with respect to the step fraction.
    """
    if not (d0 < 0.0 < d1):
        return 1.0
    s = (g1 - d1 - g0) / (d0 - d1)
    return s if 0.0 < s < 1.0 and g0 + s * d0 < 0.0 else 1.0


@dataclass
class EventApproach:
    """Limiter of the step size near sign changes of switching functions (discontinuities).

    A step may cross a sign change only if h |f_end - f_start| is within the tolerance. Here h is
    the step size, and f are the state derivatives at the end and at the start of the step. The
    exact switching time is then irrelevant. After the event, the limiter restores the previous step
    size.

    Attributes:
        resume_step_size: Step size to restore after the event [s]; 0 if no event is near.
        time_to_event: Predicted time to the event from the start of the inner step [s]; 0 if
            unknown.
        dip_searches: Number of step size reductions in the search for a touch-and-return.
        crosses: True if a switching function has different signs at both ends of the trial step.
    """

    resume_step_size: float = 0.0
    time_to_event: float = 0.0
    dip_searches: int = 0
    crosses: bool = False

    def reset(self) -> None:
        """Reset all attributes except `resume_step_size` for a new inner step."""
        self.time_to_event, self.dip_searches, self.crosses = 0.0, 0, False

    def limit(self, h: float, start: SwitchingValues, end: SwitchingValues, error: float) -> float:
        """Return the smaller step size [s] for the next trial, or 0 to accept the trial step.

        Args:
            h: Size of the trial step [s].
            start: Switching functions at the start of the trial step.
            end: Switching functions at the end of the trial step.
            error: Change of the state derivatives over the step, times h, divided by the tolerance.
        """
        fraction, is_certain = first_sign_change(start, end)
        self.crosses = is_certain
        if is_certain:
            self.time_to_event = fraction * h
            return 0.0 if error <= 1.0 else self.time_to_event * (1.0 - EVENT_CLEARANCE)
        if fraction == 1.0 or self.dip_searches == MAX_DIP_SEARCHES:
            return 0.0
        self.dip_searches += 1
        return fraction * h

    def next_step_size(self, h: float, proposed: float) -> float:
        """Return the next step size [s] after an accepted step of size h [s].

        Before a predicted event, the result is at most twice the remaining time to the event. After
        the event, the result is at least `resume_step_size`. Otherwise the result is `proposed`.
        """
        if self.crosses and self.resume_step_size > 0.0:
            proposed, self.resume_step_size = max(proposed, self.resume_step_size), 0.0
        elif self.time_to_event > h:
            proposed = min(proposed, 2.0 * (self.time_to_event - h))
        return proposed
