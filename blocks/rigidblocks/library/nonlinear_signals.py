"""Blocks for nonlinear and logic signals: limiters, comparisons, counters and lookup tables.

Logic signals are 0 or 1.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values, finite
from rigidblocks.library.signals import (
    Shape,
    SignalWithState,
    Unit,
    broadcast_start,
    shape_tuple,
    signal_shape,
)
from rigidblocks.spatial.piecewise_lookup import count_at_most, entry, index_with_events
from rigidblocks.spatial.scalar import (
    clip,
    clip_with_events,
    excess,
    less,
    maximum,
    maximum_with_event,
    minimum,
    minimum_with_event,
    piecewise,
    select,
)
from rigidblocks.spatial.spatial import Array

TRUE = 0.5  # threshold of logic signals: larger values count as 1


class SignalWithLimits(Block):
    """Base class of blocks for a signal u with the limits `lower` and `upper`.

    A limit of None is inactive.
    """

    lower: Any
    upper: Any
    shape: Shape | None
    unit: Unit

    def __post_init__(self) -> None:
        check_band(self._subject, self.shape, self.lower, self.upper)

    @property
    @abc.abstractmethod
    def _subject(self) -> str:
        """Name of the block in error messages."""

    @property
    def _shape(self) -> tuple[int, ...]:
        limits = _present_limits(self.lower, self.upper)
        return signal_shape(self._subject, self.shape, **limits)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Port of the input signal u."""
        return (Port("u", self._shape, self.unit, "signal"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Ports of the parameters `lower` and `upper`, if these limits are set."""
        return limit_ports(self._shape, self.unit, self.lower, self.upper)


@dataclass(frozen=True, eq=False)
class Saturation(SignalWithLimits):
    """Saturation: limits a signal to the interval [lower, upper].

    Each limit is a scalar or has the shape of the signal. A limit of None is inactive.

    Raises:
        ValueError: Both limits are None, or a lower limit is above its upper limit.
    """

    lower: Any = None
    upper: Any = None
    shape: Shape | None = None
    unit: Unit = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lower is None and self.upper is None:
            raise ValueError("a saturation needs a lower limit, an upper limit, or both")

    @property
    def _subject(self) -> str:
        return "a saturation"

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (Port("y", self._shape, self.unit, "limited signal"),)

    def output(self, u: Record, p: Record) -> Values:
        return {"y": clamp(u.u, self.lower is not None, self.upper is not None, p)}


@dataclass(frozen=True, eq=False)
class DeadZone(SignalWithLimits):
    """Dead zone: the output is zero while the input is in [lower, upper].

    The output y is u - upper above the dead zone, and u - lower below the dead zone.
    """

    lower: Any
    upper: Any
    shape: Shape | None = None
    unit: Unit = ""

    @property
    def _subject(self) -> str:
        return "a dead zone"

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (Port("y", self._shape, self.unit, "signal outside the dead zone, else 0"),)

    def output(self, u: Record, p: Record) -> Values:
        return {"y": u.u - clip_with_events(u.u, p.lower, p.upper)}


@dataclass(frozen=True, eq=False)
class RateLimiter(SignalWithState):
    """Rate limiter: limits the rate of change of a signal to [falling, rising].

    The limits are in the unit of the signal per s. If `sample_time` T is given, the block limits
    the change of the output per sample:

        y[k] = y[k-1] + (u[k] - y[k-1] limited to [falling T, rising T])

    If `sample_time` is None, the output follows dy/dt = (u - y) / time_constant, and dy/dt is
    limited to [falling, rising]. The initial output is `y0`. `rising` and `falling` are scalars or
    have the shape of the signal.

    Raises:
        ValueError: `rising` is not positive, or `falling` is not negative.
    """

    rising: Any
    falling: Any = None  # default: -rising
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
                "the limits of a rate limiter must satisfy `rising` > 0 and `falling` < 0, not "
                f"{self.rising} and {self.falling}"
            )

    @property
    def _shape(self) -> tuple[int, ...]:
        values = {"rising": self.rising, "falling": self.falling, "y0": self.y0}
        return signal_shape("a rate limiter", self.shape, **values)

    @property
    def _y(self) -> Port:
        start = broadcast_start(self.y0, self._shape)
        return Port("y", self._shape, self.unit, "signal with limited rate of change", start)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Ports of the parameters `rising` and `falling`.

        A block without a sample time also has the parameter `time_constant` [s].
        """
        text = "highest rate of change"
        rates = (
            Port(
                "rising", self._shape, "", text, broadcast_start(self.rising, self._shape), min=0.0
            ),
            Port(
                "falling",
                self._shape,
                "",
                "lowest rate of change",
                broadcast_start(self.falling, self._shape),
            ),
        )
        lag = Port(
            "time_constant", (), "s", "time constant of the lag", self.time_constant, positive=True
        )
        return rates if self.sample_time else (*rates, lag)

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time:
            return {}
        return {"y": clip_with_events((u.u - x.y) / p.time_constant, p.falling, p.rising)}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if not self.sample_time:
            return {}
        T = self.sample_time
        return {"y": x.y + clip(u.u - x.y, p.falling * T, p.rising * T)}


@dataclass(frozen=True, eq=False)
class Switch(Block):
    """Switch between two signals u1 and u3, controlled by a scalar u2.

    The output y is u1 if u2 is at least `threshold`, and otherwise u3.
    """

    threshold: float = TRUE
    shape: Shape = ()
    unit: Unit = ""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Ports of the input signals u1 and u3, and of the scalar u2 that selects a signal."""
        shape = shape_tuple(self.shape)
        return (
            Port("u1", shape, self.unit, "output if u2 is at least the threshold"),
            Port("u2", (), "", "control signal"),
            Port("u3", shape, self.unit, "output if u2 is below the threshold"),
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (Port("y", shape_tuple(self.shape), self.unit, "selected signal"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Port of the parameter `threshold`."""
        return (Port("threshold", (), "", "smallest u2 that selects u1", self.threshold),)

    def output(self, u: Record, p: Record) -> Values:
        whole = select(p.threshold <= u.u2, u.u1, u.u3)
        return {"y": piecewise(excess(p.threshold, u.u2), u.u3, u.u1, whole)}


def limit_ports(shape: tuple[int, ...], unit: Unit, lower: Any, upper: Any) -> tuple[Port, ...]:
    """Return the parameter ports `lower` and `upper`, if the limits are not None.

    Args:
        shape: Shape of the limited signal.
        unit: Unit of the limited signal.
        lower: Lower limit, or None.
        upper: Upper limit, or None.
    """
    return tuple(
        Port(name, shape, unit, f"{name} limit", broadcast_start(value, shape))
        for name, value in _present_limits(lower, upper).items()
    )


def clamp(value: Any, low: bool, high: bool, p: Record) -> Any:
    """Limit a value to the interval [p.lower, p.upper].

    Args:
        value: Value of any shape.
        low: True to apply the lower limit.
        high: True to apply the upper limit.
        p: Parameters with the limits.
    """
    value = maximum_with_event(value, p.lower) if low else value
    return minimum_with_event(value, p.upper) if high else value


def stop_rate_at_limits(y: Any, rate: Any, low: bool, high: bool, p: Record) -> Any:
    """Return the time derivative `rate` of a state y, or zero if y would leave its limits.

    Args:
        y: State.
        rate: Time derivative of the state without limits.
        low: True to apply the lower limit p.lower.
        high: True to apply the upper limit p.upper.
        p: Parameters with the limits.
    """
    rate = select(less(y, p.upper), rate, minimum(rate, 0.0)) if high else rate
    return select(less(p.lower, y), rate, maximum(rate, 0.0)) if low else rate


def _present_limits(lower: Any, upper: Any) -> dict[str, Any]:
    limits = {"lower": lower, "upper": upper}
    return {name: value for name, value in limits.items() if value is not None}


def check_band(subject: str, shape: Shape | None, lower: Any, upper: Any) -> None:
    """Raise ValueError if a lower limit is above its upper limit, or a limit has a wrong shape.

    The error message uses `subject` as the name of the block.
    """
    signal_shape(subject, shape, **_present_limits(lower, upper))
    if lower is not None and upper is not None and np.any(np.asarray(lower) > np.asarray(upper)):
        raise ValueError(f"{subject} needs lower <= upper, not {lower} and {upper}")


_OPERATIONS = ("and", "or", "xor", "nand", "nor", "xnor", "not")
_TABLE: dict[str, Callable[[Any, Any], Any]] = {
    "and": lambda a, b: a * b,
    "or": lambda a, b: a + b - a * b,
    "xor": lambda a, b: a + b - 2.0 * (a * b),
}


def _truth(name: str, shape: tuple[int, ...], doc: str, start: Any = None) -> Port:
    return Port(name, shape, "1", f"{doc}, 0 or 1", start)


def _is_less(a: Any, b: Any) -> Any:
    """Return 1 if a < b, and otherwise 0, element by element.

    In model exchange, a change of the result is an event.
    """
    return piecewise(excess(b, a), 1.0, 0.0, select(less(a, b), 1.0, 0.0))


@dataclass(frozen=True, eq=False)
class Compare(Block):
    """Comparison of two signals, element by element.

    The output y is 1 if u1 < u2, and otherwise 0. If u2 is not connected, u2 is `threshold`.
    """

    threshold: Any = 0.0
    shape: Shape = ()
    unit: Unit = ""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Ports of the input signals u1 and u2."""
        shape = shape_tuple(self.shape)
        limit = broadcast_start(self.threshold, shape)
        return (
            Port("u1", shape, self.unit, "signal"),
            Port("u2", shape, self.unit, "threshold", limit),
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (_truth("y", shape_tuple(self.shape), "1 if u1 < u2, else 0"),)

    def output(self, u: Record) -> Values:
        return {"y": _is_less(u.u1, u.u2)}


@dataclass(frozen=True, eq=False)
class Logic(Block):
    """Logic operation on `n` signals u1, u2, ..., element by element, with the result 0 or 1.

    Input values above 0.5 are true. `operation` is "and", "or", "xor", "nand", "nor", "xnor" or
    "not". "xor" and "xnor" compute the parity of all signals. "not" has one input.

    Raises:
        ValueError: The operation is unknown, or `n` is below 1.
    """

    operation: str = "and"
    n: int = 2
    shape: Shape = ()

    def __post_init__(self) -> None:
        if self.operation not in _OPERATIONS:
            raise ValueError(
                f"the operation of a logic block must be one of {', '.join(_OPERATIONS)}, not "
                f"{self.operation!r}"
            )
        if self.operation == "not":
            object.__setattr__(self, "n", 1)
        if self.n < 1:
            raise ValueError(f"a logic block needs one or more signals, not n = {self.n}")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Ports of the input signals u1, u2, ..."""
        shape = shape_tuple(self.shape)
        return tuple(_truth(f"u{k}", shape, "signal") for k in range(1, self.n + 1))

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (_truth("y", shape_tuple(self.shape), f"{self.operation} of all"),)

    def output(self, u: Record) -> Values:
        first, *rest = (_is_less(TRUE, value) for value in vars(u).values())
        kind = {"nand": "and", "nor": "or", "xnor": "xor"}.get(self.operation, self.operation)
        y = reduce(_TABLE.get(kind, _TABLE["and"]), rest, first)
        return {"y": 1.0 - y if self.operation in ("nand", "nor", "xnor", "not") else y}


@dataclass(frozen=True, eq=False)
class Hysteresis(Block):
    """Comparator with hysteresis for a scalar signal.

    The output y becomes 1 when u exceeds `upper`, and 0 when u falls below `lower`. The block
    samples u every `sample_time` [s]. The initial output is `y0`.

    Raises:
        ValueError: `lower` is not below `upper`, or `y0` is neither 0 nor 1.
    """

    lower: float
    upper: float
    sample_time: float
    y0: float = 0.0
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ValueError(
                f"a hysteresis needs lower < upper, not lower = {self.lower} and upper = "
                f"{self.upper}"
            )
        if self.y0 not in (0, 1):
            raise ValueError(f"y0 of a hysteresis must be 0 or 1, not {self.y0}")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Port of the input signal u."""
        return (Port("u", (), self.unit, "signal"),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Port of the sampled state y."""
        return (_truth("y", (), "1 after u exceeds upper, 0 after u falls below lower", self.y0),)

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return self.sampled

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Ports of the parameters `lower` and `upper`, the thresholds."""
        return (
            Port("lower", (), self.unit, "threshold below which y becomes 0", self.lower),
            Port("upper", (), self.unit, "threshold above which y becomes 1", self.upper),
        )

    def update(self, x: Record, u: Record, p: Record) -> Values:
        return {"y": select(p.upper < u.u, 1.0, select(u.u < p.lower, 0.0, x.y))}


@dataclass(frozen=True, eq=False)
class Counter(Block):
    """Counter of the rising edges of a signal u through the threshold 0.5.

    The block samples its inputs every `sample_time` [s]. If the input `reset` is above 0.5, the
    count is zero. If `limit` is given, the count returns to zero when it reaches the limit.

    Raises:
        ValueError: `limit` is below 1.
    """

    sample_time: float
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"the limit of a counter must be at least 1, not {self.limit}")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Ports of the counted signal u and of the input `reset`."""
        return (
            _truth("u", (), "counted signal"),
            _truth("reset", (), "resets the count", 0.0),
        )

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return self.sampled[:1]

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled state ports for the count y, and the signal at the last sample."""
        return (
            Port("y", (), "1", "count", 0.0),
            _truth("u_last", (), "u at the last sample", 0.0),
        )

    def initial(self, x: Record, u: Record) -> Values:
        return {"y": x.y, "u_last": select(less(TRUE, u.u), 1.0, 0.0)}

    def update(self, x: Record, u: Record) -> Values:
        now = select(less(TRUE, u.u), 1.0, 0.0)
        y = x.y + now * (1.0 - x.u_last)
        y = y if self.limit is None else select(less(y, self.limit - TRUE), y, 0.0)
        return {"y": select(less(TRUE, u.reset), 0.0, y), "u_last": now}


EXTRAPOLATIONS = ("hold", "linear")


@dataclass(frozen=True, eq=False)
class LookupTable(Block):
    """Lookup table of one or two variables with linear interpolation.

        y = table(u)             x (k,) and values (k,)
        y = table(u1, u2)        x = (x1 (k,), x2 (l,)) and values (k, l), bilinear

    The breakpoints x must increase. Outside the range of the breakpoints, `extrapolation` "hold"
    holds the value of the nearest breakpoint, and "linear" continues with the slope of the nearest
    interval. If `shape` is given, the block interpolates for each element of u separately. The
    table is a constant, not a parameter. A compiled block contains the table and finds the interval
    by a search.

    Raises:
        ValueError: The shapes of `x` and `values` do not agree, a value is not finite, the
            breakpoints do not increase, or the extrapolation is unknown.
    """

    x: Any
    values: Any
    extrapolation: str = "hold"
    shape: int | tuple[int, ...] = ()
    unit: str = ""
    unit_in: str | tuple[str, str] = ""

    def __post_init__(self) -> None:
        values = finite(self.values, np.shape(self.values), "the values of a lookup table")
        given = (self.x,) if values.ndim == 1 else tuple(self.x)
        axes = tuple(finite(x, np.shape(x), "the points of a lookup table") for x in given)
        lengths = tuple(len(x) if x.ndim == 1 else 0 for x in axes)
        if values.ndim not in (1, 2) or lengths != values.shape or min(lengths) < 2:
            raise ValueError(
                f"values of shape {values.shape} of a lookup table do not fit x of the lengths "
                f"{lengths}; expected x (k,) and values (k,), or x = (x1 (k,), x2 (l,)) and values "
                "(k, l), with at least 2 points along each axis"
            )
        if any(np.any(np.diff(x) <= 0) for x in axes):
            raise ValueError("the breakpoints of a lookup table must increase")
        if self.extrapolation not in EXTRAPOLATIONS:
            raise ValueError(
                "the extrapolation of a lookup table must be hold or linear, not "
                f"{self.extrapolation!r}"
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "x", axes if len(axes) > 1 else axes[0])

    @property
    def _axes(self) -> tuple[Array, ...]:
        return self.x if isinstance(self.x, tuple) else (self.x,)

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.shape,) if isinstance(self.shape, int) else self.shape

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Port of the input u, or ports of the inputs u1 and u2 of a two-dimensional table."""
        names = ("u",) if len(self._axes) == 1 else ("u1", "u2")
        units = (self.unit_in,) * 2 if isinstance(self.unit_in, str) else self.unit_in
        return tuple(
            Port(name, self._shape, unit, "argument of the table")
            for name, unit in zip(names, units, strict=False)
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (Port("y", self._shape, self.unit, "value of the table"),)

    def output(self, u: Record) -> Values:
        places = [
            self._interval(x, value) for x, value in zip(self._axes, vars(u).values(), strict=True)
        ]
        (k, s), width = places[0], self.values.shape[-1]
        if len(places) == 1:
            low, high = entry(self.values, k), entry(self.values, k + 1.0)
            return {"y": low + s * (high - low)}
        (l, r), flat = places[1], np.ravel(self.values)
        first, second = k * width + l, (k + 1.0) * width + l
        low = entry(flat, first) + r * (entry(flat, first + 1.0) - entry(flat, first))
        high = entry(flat, second) + r * (entry(flat, second + 1.0) - entry(flat, second))
        return {"y": low + s * (high - low)}

    def _interval(self, x: Array, u: Any) -> tuple[Any, Any]:
        """Find the interval of the breakpoints x that contains u.

        Returns:
            Index k of the interval, and relative position (u - x[k]) / (x[k+1] - x[k]) of u.
        """
        u, inner = (
            u if self.extrapolation == "linear" else clip_with_events(u, x[0], x[-1]),
            x[1:-1],
        )
        k = count_at_most(inner, u) if len(inner) else 0.0
        k = index_with_events(k, inner, u)
        begin = entry(x, k)
        return k, (u - begin) / (entry(x, k + 1.0) - begin)
