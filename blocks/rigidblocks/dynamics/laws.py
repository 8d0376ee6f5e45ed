"""Laws of force along one length: springs, dry friction, stops.

A length s is a joint's position or the distance of two points, sd is its rate, and a force is
positive where it makes the length grow. Lengths are angles [rad] where the force is a moment [N m],
else distances [m]. Everything works on floats and on traced scalars.
"""

import abc
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from rigidblocks.algebra.scalar import is_traced, less, maximum, minimum, piecewise, select
from rigidblocks.dynamics.friction import coulomb_friction, joint_spring, viscous_friction

_LEAST_STIFFNESS = 1e-30  # of a stop [N/m]: one that damps alone has a margin, too


class Number(NamedTuple):
    """What a number of an element is: the `kind` of quantity (a key of `units`), a text, and its
    bounds: at least `min`, above zero if `positive`.
    """

    kind: str
    doc: str
    min: float = -np.inf
    positive: bool = False


ROTATION = {
    "length": "rad",
    "speed": "rad/s",
    "force": "N.m",
    "stiffness": "N.m/rad",
    "damping": "N.m.s/rad",
    "inertia": "kg.m2",
    "ratio": "1",
}
TRANSLATION = {
    "length": "m",
    "speed": "m/s",
    "force": "N",
    "stiffness": "N/m",
    "damping": "N.s/m",
    "inertia": "kg.m2",
    "ratio": "rad/m",
}


@dataclass(frozen=True)
class Numbers:
    """A record whose fields may be numbers that can be tuned.

    `quantities` says which they are. Raises ValueError for a number that is not finite or outside
    its bounds.
    """

    quantities: ClassVar[dict[str, Number]] = {}

    def __post_init__(self) -> None:
        for name, (value, about) in self.numbers().items():
            if is_traced(value):
                continue
            least = 0.0 if about.positive else about.min
            allowed = value > least if about.positive else value >= least
            if not (np.isfinite(value) and allowed):
                bound = "positive" if about.positive else "finite"
                bound += f" and at least {least:g}" if np.isfinite(about.min) else ""
                raise ValueError(f"{name} of a {type(self).__name__} must be {bound}, not {value}")

    def numbers(self) -> dict[str, tuple[Any, Number]]:
        """The numbers that there are, by name: their values and what they are."""
        every = ((name, getattr(self, name), about) for name, about in self.quantities.items())
        return {name: (value, about) for name, value, about in every if self._there(value)}

    def _there(self, value: Any) -> bool:
        """Whether there is such a number."""
        del self
        return value is not None

    def tuned(self, **values: Any) -> Self:
        """The same with other values of its numbers, floats or traced, which are not checked."""
        other = object.__new__(type(self))
        vars(other).update({**vars(self), **values})
        return other


class Law(Numbers, abc.ABC):
    """A force as a function of a length and its rate.

    What a law `remembers` are fields of it that are states of the plant.
    """

    remembers: ClassVar[dict[str, Number]] = {}

    @abc.abstractmethod
    def force(self, s: Any, sd: Any) -> Any:
        """The force in the direction of growing length [N or N m]."""

    def rates(self, s: Any, sd: Any) -> dict[str, Any]:
        """The rates of what it `remembers`."""
        del s, sd
        return {}

    def margins(self, s: Any, sd: Any) -> tuple[Any, ...]:
        """Numbers that change their sign where the law becomes another one."""
        del s, sd
        return ()

    def energy(self, s: Any) -> Any:
        """The potential energy [J], which the force takes from motion and gives back."""
        del s
        return 0.0

    @abc.abstractmethod
    def stiffest(self) -> tuple[float, float]:
        """The largest stiffness and damping that the law comes to, -df/ds and -df/d(sd)."""

    def decays(self) -> tuple[float, ...]:
        """The rates [1/s] with which what it remembers decays."""
        return ()


@dataclass(frozen=True)
class Spring(Law):
    """A spring with a damper beside it.

        f = -(K (s - rest) + D sd + preload)

    K [N/m or N m/rad] and D [N s/m or N m s/rad] are not negative; `rest` is the length of the
    spring without load, and `preload` a force that pulls the ends together besides, at every
    length.
    """

    K: Any
    D: Any = 0.0
    rest: Any = 0.0
    preload: Any = 0.0
    quantities: ClassVar = {
        "K": Number("stiffness", "stiffness", 0.0),
        "D": Number("damping", "damping", 0.0),
        "rest": Number("length", "length without load"),
        "preload": Number("force", "constant pull"),
    }

    def force(self, s: Any, sd: Any) -> Any:
        return joint_spring(s, self.K, self.rest) + viscous_friction(sd, self.D) - self.preload

    def energy(self, s: Any) -> Any:
        longer = s - self.rest
        return self.K * longer * longer / 2 + self.preload * longer

    def stiffest(self) -> tuple[float, float]:
        return self.K, self.D


@dataclass(frozen=True)
class Friction(Law):
    """Dry and viscous friction.

        f = -(coulomb tanh(sd / width) + viscous sd)

    `coulomb` [N or N m] is the size of dry friction, and `backward` its size where the length
    shrinks: the same unless given. It is smooth over the speed `width`: 76 % there at that speed.
    So it does not stick: under a load f0 below it the motion creeps with width artanh(f0/coulomb).
    `viscous` is in N s/m or N m s/rad.
    """

    coulomb: Any
    viscous: Any = 0.0
    width: Any = 0.01
    backward: Any = None
    quantities: ClassVar = {
        "coulomb": Number("force", "dry friction", 0.0),
        "viscous": Number("damping", "viscous friction", 0.0),
        "width": Number("speed", "speed at which dry friction is 76 % there", positive=True),
        "backward": Number("force", "dry friction where the length shrinks", 0.0),
    }

    def force(self, s: Any, sd: Any) -> Any:
        del s
        level = self.coulomb
        if self.backward is not None:
            whole = select(less(sd, 0.0), self.backward, self.coulomb)
            level = piecewise(-sd, self.backward, self.coulomb, whole)
        return coulomb_friction(sd, level, self.width) + viscous_friction(sd, self.viscous)

    def stiffest(self) -> tuple[float, float]:
        level = max(self.coulomb, self.backward or 0.0)
        return 0.0, level / self.width + self.viscous


@dataclass(frozen=True)
class Stop(Law):
    """Compliant stops at the ends of a length: unilateral constraints made soft (RBDA 11.4, 11.8).

        f = max(0, K (lower - s) - D sd)      where s < lower, and its mirror image where s > upper

    Either end may be infinite: no stop is there, and no number. A stop never pulls. Between two
    points an upper stop is a rope that pulls when it is taut. Raises ValueError where the upper
    end is not above the lower.
    """

    K: Any
    D: Any = 0.0
    lower: Any = -np.inf
    upper: Any = np.inf
    quantities: ClassVar = {
        "K": Number("stiffness", "stiffness of the stops", 0.0),
        "D": Number("damping", "damping of the stops", 0.0),
        "lower": Number("length", "where the lower stop begins"),
        "upper": Number("length", "where the upper stop begins"),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.lower < self.upper:
            raise ValueError(
                f"the upper end of a Stop must be above the lower, not {self.upper} above "
                f"{self.lower}"
            )

    def _there(self, value: Any) -> bool:
        return is_traced(value) or not np.isinf(value)

    def force(self, s: Any, sd: Any) -> Any:
        up = stop_push(self.lower - s, sd, self.K, self.D) if self._there(self.lower) else 0.0
        down = stop_push(s - self.upper, -sd, self.K, self.D) if self._there(self.upper) else 0.0
        return up - down

    def margins(self, s: Any, sd: Any) -> tuple[Any, ...]:
        ends = [(self.lower, self.lower - s, sd), (self.upper, s - self.upper, -sd)]
        return tuple(
            stop_margin(depth, rate, self.K, self.D)
            for end, depth, rate in ends
            if self._there(end)
        )

    def energy(self, s: Any) -> Any:
        ends = [(self.lower, self.lower - s), (self.upper, s - self.upper)]
        depths = [maximum(0.0, depth) for end, depth in ends if self._there(end)]
        return sum(self.K * depth * depth / 2 for depth in depths)

    def stiffest(self) -> tuple[float, float]:
        return self.K, self.D


def stop_push(depth: Any, rate: Any, K: Any, D: Any) -> Any:
    """The force of a stop, K depth - D rate, with the rate at which what is in it leaves; never
    negative, and none where it is not in it.
    """
    push = K * depth - D * rate
    whole = select(less(0.0, depth), maximum(0.0, push), 0.0)
    return piecewise(stop_margin(depth, rate, K, D), push, 0.0, whole)


def stop_margin(depth: Any, rate: Any, K: Any, D: Any) -> Any:
    """By how much a stop pushes [m or rad], positive where there is a force."""
    return minimum(depth, depth - D / maximum(K, _LEAST_STIFFNESS) * rate)
