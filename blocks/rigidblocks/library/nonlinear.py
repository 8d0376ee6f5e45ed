"""Limits on signals and on their rates, and tests of signals that are 0 or 1."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import (
    at_least,
    at_most,
    clip,
    excess,
    less,
    maximum,
    minimum,
    piecewise,
    select,
    within,
)
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.library.signals import Shape, Unit, as_shape, filled, signal_shape

TRUE = 0.5  # what is above it counts as 1


@dataclass(frozen=True, eq=False)
class Saturation(Block):
    """A signal limited to [lower, upper]; a limit that is None is not there.

    The limits are numbers or have the shape of the signal.
    """

    lower: Any = None
    upper: Any = None
    shape: Shape | None = None
    unit: Unit = ""

    def __post_init__(self) -> None:
        check_band("a saturation", self.shape, self.lower, self.upper)
        if self.lower is None and self.upper is None:
            raise ValueError("a saturation needs a lower limit, an upper one, or both")

    @property
    def _shape(self) -> tuple[int, ...]:
        return signal_shape("a saturation", self.shape, **_given(self.lower, self.upper))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u."""
        return (Port("u", self._shape, self.unit, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (Port("y", self._shape, self.unit, "limited signal"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """lower and upper, those that there are."""
        return limit_ports(self._shape, self.unit, self.lower, self.upper)

    def output(self, u: Record, p: Record) -> Values:
        return {"y": limited(u.u, self.lower is not None, self.upper is not None, p)}


@dataclass(frozen=True, eq=False)
class DeadZone(Block):
    """A signal less the zone [lower, upper] around zero in which it counts as nothing.

    y = u - upper above the zone, u - lower below it, else 0
    """

    lower: Any
    upper: Any
    shape: Shape | None = None
    unit: Unit = ""

    def __post_init__(self) -> None:
        check_band("a dead zone", self.shape, self.lower, self.upper)

    @property
    def _shape(self) -> tuple[int, ...]:
        return signal_shape("a dead zone", self.shape, **_given(self.lower, self.upper))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u."""
        return (Port("u", self._shape, self.unit, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (Port("y", self._shape, self.unit, "signal less the zone"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """lower and upper."""
        return limit_ports(self._shape, self.unit, self.lower, self.upper)

    def output(self, u: Record, p: Record) -> Values:
        return {"y": u.u - within(u.u, p.lower, p.upper)}


@dataclass(frozen=True, eq=False)
class RateLimiter(Block):
    """A signal whose rate of change is limited to [falling, rising], in its unit per s.

    With a `sample_time` T the output follows the input at most so far in each sample:

        y[k] = y[k-1] + (u[k] - y[k-1] limited to [falling T, rising T])

    Without one it follows by dy/dt = (u - y) / time_constant, limited to the rates. It starts at
    `y0`. The rates are numbers or have the shape of the signal.
    """

    rising: Any
    falling: Any = None  # - rising
    shape: Shape | None = None
    sample_time: float | None = None
    time_constant: float = 1e-3
    y0: Any = 0.0
    unit: Unit = ""

    def __post_init__(self) -> None:
        if self.falling is None:
            object.__setattr__(self, "falling", -np.asarray(self.rising, dtype=float))
        if not np.all(np.asarray(self.rising) > 0) or not np.all(np.asarray(self.falling) < 0):
            raise ValueError(
                "a rate limiter needs rising above zero and falling below zero, not "
                f"{self.rising} and {self.falling}"
            )

    @property
    def _shape(self) -> tuple[int, ...]:
        values = {"rising": self.rising, "falling": self.falling, "y0": self.y0}
        return signal_shape("a rate limiter", self.shape, **values)

    @property
    def _y(self) -> Port:
        start = filled(self.y0, self._shape)
        return Port("y", self._shape, self.unit, "signal of limited rate", start)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u."""
        return (Port("u", self._shape, self.unit, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (self._y,)

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """y, without a sample time."""
        return () if self.sample_time else (self._y,)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """y, with a sample time."""
        return (self._y,) if self.sample_time else ()

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """rising and falling, and without a sample time time_constant."""
        text = "highest rate of change"
        rates = (
            Port("rising", self._shape, "", text, filled(self.rising, self._shape), min=0.0),
            Port("falling", self._shape, "", "lowest rate", filled(self.falling, self._shape)),
        )
        lag = Port("time_constant", (), "s", "lag behind u", self.time_constant, positive=True)
        return rates if self.sample_time else (*rates, lag)

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time:
            return {}
        return {"y": within((u.u - x.y) / p.time_constant, p.falling, p.rising)}

    def initial(self, x: Record) -> Values:
        return {"y": x.y} if self.sample_time else {}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if not self.sample_time:
            return {}
        T = self.sample_time
        return {"y": x.y + clip(u.u - x.y, p.falling * T, p.rising * T)}


@dataclass(frozen=True, eq=False)
class Switch(Block):
    """One of two signals: y = u1 where the scalar u2 is at least `threshold`, else u3."""

    threshold: float = TRUE
    shape: Shape = ()
    unit: Unit = ""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u1 and u3, and the scalar u2."""
        shape = as_shape(self.shape)
        return (
            Port("u1", shape, self.unit, "signal where u2 is at least the threshold"),
            Port("u2", (), "", "what decides"),
            Port("u3", shape, self.unit, "signal where it is below"),
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (Port("y", as_shape(self.shape), self.unit, "signal chosen"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """threshold."""
        return (Port("threshold", (), "", "value of u2 from which on u1 is taken", self.threshold),)

    def output(self, u: Record, p: Record) -> Values:
        whole = select(p.threshold <= u.u2, u.u1, u.u3)
        return {"y": piecewise(excess(p.threshold, u.u2), u.u3, u.u1, whole)}


def limit_ports(shape: tuple[int, ...], unit: Unit, lower: Any, upper: Any) -> tuple[Port, ...]:
    """The parameters lower and upper, those that are not None."""
    return tuple(
        Port(name, shape, unit, f"{name} limit", filled(value, shape))
        for name, value in _given(lower, upper).items()
    )


def limited(value: Any, low: bool, high: bool, p: Record) -> Any:
    """The value within the limits that there are, whose numbers are p.lower and p.upper."""
    value = at_least(value, p.lower) if low else value
    return at_most(value, p.upper) if high else value


def held_rate(y: Any, rate: Any, low: bool, high: bool, p: Record) -> Any:
    """The rate of a state y that stops at its limits: zero where it is at one and would go on."""
    rate = select(less(y, p.upper), rate, minimum(rate, 0.0)) if high else rate
    return select(less(p.lower, y), rate, maximum(rate, 0.0)) if low else rate


def _given(lower: Any, upper: Any) -> dict[str, Any]:
    limits = {"lower": lower, "upper": upper}
    return {name: value for name, value in limits.items() if value is not None}


def check_band(what: str, shape: Shape | None, lower: Any, upper: Any) -> None:
    """Raises ValueError for limits of which the lower is above the upper."""
    signal_shape(what, shape, **_given(lower, upper))
    if lower is not None and upper is not None and np.any(np.asarray(lower) > np.asarray(upper)):
        raise ValueError(f"{what} needs lower <= upper, not {lower} and {upper}")
