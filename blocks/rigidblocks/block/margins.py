"""Where a step goes from one law to another: a margin of the block changes its sign in it.

c/kernel/margins.h does the same, by the same arithmetic in the same order.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from rigidblocks.algebra.spatial import Array

HALVINGS = 40  # of the part of a step until a margin is zero
BEFORE = 1e-4  # of the way to a change: so far before it a step ends
DIPS = 6  # times that an inner step is shortened to see whether a margin comes to zero within it


class Course(NamedTuple):
    """The margins (n,) at a place, and their rates times the step."""

    value: Array
    change: Array


class Part(NamedTuple):
    """The part of a step until a margin changes its sign, 1 where none does; `known` where the sign
    is another at the end.
    """

    part: float
    known: bool


def first_change(start: Course, end: Course) -> Part:
    """Where the first of the margins changes its sign in a step, by the cubics through the values
    and rates at both ends, or may come to zero and back.
    """
    part, known = 1.0, False
    for g0, d0, g1, d1 in zip(*start, *end, strict=True):
        sign = 1.0 if g0 > 0.0 else -1.0
        cubic = (sign * float(g0), sign * float(d0), sign * float(g1), sign * float(d1))
        if (g0 > 0.0) != (g1 > 0.0):
            one = _root(*cubic)
            part, known = (one if not known or one < part else part), True
        elif not known:
            part = min(part, tangents_meet(*cubic))
    return Part(part, known)


def _cubic(s: float, g0: float, d0: float, g1: float, d1: float) -> float:
    a, b = d0 + d1 - 2.0 * (g1 - g0), 3.0 * (g1 - g0) - 2.0 * d0 - d1
    return g0 + s * (d0 + s * (b + s * a))


def _root(g0: float, d0: float, g1: float, d1: float) -> float:
    """Where a cubic that is positive at 0 and not at 1 is zero."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if _cubic(middle, g0, d0, g1, d1) > 0.0:
            low = middle
        else:
            high = middle
    return high


def tangents_meet(g0: float, d0: float, g1: float, d1: float) -> float:
    """Where a margin that is positive at both ends may be least, if it may be negative there; else
    1.

    That is where the tangents meet: a convex one, as the distance from a convex body along a
    straight way, is nowhere less.
    """
    if not (d0 < 0.0 < d1):
        return 1.0
    s = (g1 - d1 - g0) / (d0 - d1)
    return s if 0.0 < s < 1.0 and g0 + s * d0 < 0.0 else 1.0


@dataclass
class Approach:
    """What an adaptive method does about changes of sign on its way through a communication step.

    A step in which a margin changes its sign is taken only when the change of the rates in it is
    within the tolerance, so that it does not matter which law held where. Until then it is
    shortened to end before the change. Behind it the steps go on with the length from before.
    """

    resumed: float = 0.0  # the length from before, 0 where there is nothing to approach
    expected: float = 0.0  # the length of the inner step to the change, if it is known
    dips: int = 0
    crosses: bool = field(default=False)

    def begin(self) -> None:
        """An inner step begins."""
        self.expected, self.dips, self.crosses = 0.0, 0, False

    def shorter(self, h: float, start: Course, end: Course, error: float) -> float:
        """The length to try instead of h, 0 where this step may be taken; `error` is the change of
        the rates over it, in tolerances.
        """
        part, known = first_change(start, end)
        self.crosses = known
        if known:
            self.expected = part * h
            return 0.0 if error <= 1.0 else self.expected * (1.0 - BEFORE)
        if part == 1.0 or self.dips == DIPS:
            return 0.0
        self.dips += 1
        return part * h

    def next_length(self, h: float, length: float) -> float:
        """The length of the step after one of length h, instead of the one that its error says."""
        if self.crosses and self.resumed > 0.0:
            length, self.resumed = max(length, self.resumed), 0.0
        elif self.expected > h:
            length = min(length, 2.0 * (self.expected - h))
        return length
