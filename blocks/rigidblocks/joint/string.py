"""Constraints of more bodies than two: a string that keeps its length (RBDA 3.4)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rigidblocks.algebra.spatial import Array
from rigidblocks.joint.rheonomic import GivenMotion, given_motion


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class StringConstraint:
    """A taut string without mass from point to point, each a body's number, -1 the fixed base, with
    a place (3,) [m] in its coordinates, (2,) in the plane.

        |p_2 - p_1| + |p_3 - p_2| + ... = length

    It runs without friction through all points but the ends, as over small pulleys, and of a
    `closed` one from the last point to the first. Round equal discs of a `radius` about the points
    of a closed string, all on its inside, it is 2 pi radius longer (RBDA 3.4: l_1 + l_2 + l_3 +
    2 pi r = p).
    `length` [m] is a number or a function of time, as that of `Rheonomic`, for a winch.

    It is an equality: the string holds by pushing too, and the multiplier, minus the tension [N],
    tells where a real one would be slack. Neighbours must not meet: the direction between them is
    not finite there.
    """

    points: tuple[tuple[int, Any], ...]
    length: float | Callable[[Any], Any]
    closed: bool = False
    radius: float = 0.0
    name: str = ""
    t: Any = None

    @property
    def rheonomic(self) -> bool:
        """Whether the length is a function of time."""
        return callable(self.length)

    def at(self, t: Any) -> "StringConstraint":
        """The string at a time."""
        return replace(self, t=t) if self.rheonomic else self

    def given_length(self) -> GivenMotion:
        """The length and its two rates; raises ValueError for one at no time."""
        if not callable(self.length):
            return GivenMotion(self.length, 0.0, 0.0)
        if self.t is None:
            raise ValueError(
                f"string '{self.name}' has a length at a given time alone: take the model at a "
                "time, model.at(t)"
            )
        return GivenMotion(*(value[0] for value in given_motion(self.length, self.t)))

    def segments(self) -> tuple[tuple[tuple[int, Array], tuple[int, Array]], ...]:
        """The pairs of points between which it is straight."""
        ends = (*self.points[1:], self.points[0]) if self.closed else self.points[1:]
        return tuple(zip(self.points, ends, strict=False))
