"""Source blocks: functions of time, waypoints, and playback of recorded signals."""

import csv
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values, finite
from rigidblocks.common.name_hints import suggestion
from rigidblocks.common.optional_imports import module_of
from rigidblocks.common.regular_files import check_regular_file
from rigidblocks.spatial.piecewise_lookup import (
    ROUNDING,
    count_at_most,
    count_with_events,
    entry,
    index_with_events,
    rounded_up,
    time_past_event,
)
from rigidblocks.spatial.scalar import clip, excess, less, maximum, piecewise, select
from rigidblocks.spatial.spatial import Array

Unit = str | tuple[str, ...]  # unit of all elements, or of each element


@dataclass(frozen=True, eq=False)
class RepeatingSequence(Block):
    """Periodic source with linear interpolation in a table of n signals.

    The times `t` (k,) [s] start at 0 and increase. The last time is the period. `y` (k, n) contains
    the values in `unit`. The outputs are the value `y` (n,) and its time derivative `slope` (n,).
    At the time of a table row, `slope` is the slope of the next segment.

    Raises:
        ValueError: The times do not start at 0 or do not increase, or `y` has a wrong shape.
    """

    t: Any
    y: Any
    unit: Unit = "rad"

    def __post_init__(self) -> None:
        times = finite(self.t, np.shape(self.t), "the times of a repeating sequence")
        if times.ndim != 1 or len(times) < 2 or times[0] != 0 or np.any(np.diff(times) <= 0):
            raise ValueError(
                "the times of a repeating sequence must start at 0 and increase, not "
                f"{times.tolist()}"
            )
        if np.ndim(self.y) != 2 or len(self.y) != len(times):
            raise ValueError(
                f"a repeating sequence of {len(times)} times needs y of shape ({len(times)}, n), "
                f"not {np.shape(self.y)}"
            )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports `y` (n,) and `slope` (n,), the time derivative of `y`."""
        return motion_ports(np.shape(self.y)[1], self.unit)[:2]

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Port of the parameter `table` (k, n), the values at the times t."""
        return (
            Port(
                "table",
                np.shape(self.y),
                self.unit if isinstance(self.unit, str) else self.unit * len(self.y),
                "values at the times of the sequence",
                self.y,
            ),
        )

    def output(self, t: Any, p: Record) -> Values:
        times = np.asarray(self.t, dtype=float)
        period = times[-1]
        # a corner counts as reached within rounding errors of its time
        dust = 1e-9 * period + ROUNDING * np.abs(t)
        begun = 1.0 + np.floor((t + dust) / period)
        late = time_past_event(t)
        begun = count_with_events(begun, late, period * (begun - 1.0), period * begun)
        phase = t - period * (begun - 1.0)
        late = late - period * (begun - 1.0)
        slopes = (p.table[1:] - p.table[:-1]) / np.diff(times)[:, None]
        y, slope = p.table[0] + slopes[0] * phase, slopes[0]
        for start, value, rate in zip(times[1:-1], p.table[1:-1], slopes[1:], strict=True):
            is_reached = phase + dust >= start
            y, slope = (
                piecewise(excess(start, late), before, after, select(is_reached, after, before))
                for before, after in ((y, value + rate * (phase - start)), (slope, rate))
            )
        return {"y": y, "slope": slope}


@dataclass(frozen=True, eq=False)
class Step(Block):
    """Source of a step signal y (n,).

    y is `before` for t < `time` [s], and `after` from t = `time` on. Both values are in `unit`, and
    are scalars or arrays (n,).
    """

    time: float = 0.0
    before: Any = 0.0
    after: Any = 1.0
    unit: Unit = "rad"

    @cached_property
    def _n(self) -> int:
        return signal_count("a step", before=self.before, after=self.after, unit=self.unit)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y (n,)."""
        return (Port("y", (self._n,), self.unit, "value"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Ports of the parameters step_time [s], `before` (n,) and `after` (n,)."""
        return (
            Port("step_time", (), "s", "time of the step", self.time),
            Port("before", (self._n,), self.unit, "value before the step", self.before),
            Port("after", (self._n,), self.unit, "value after the step", self.after),
        )

    def output(self, t: Any, p: Record) -> Values:
        whole = select(less(rounded_up(t), p.step_time), p.before, p.after)
        return {"y": piecewise(excess(p.step_time, time_past_event(t)), p.before, p.after, whole)}


@dataclass(frozen=True, eq=False)
class Ramp(Block):
    """Source of a ramp, which is constant up to the time `begin` [s] and then changes linearly.

        y = y0 + rate max(t - begin, 0)

    `y0` is in `unit`, and `rate` is in `unit` per s. Both are scalars or arrays (n,). The outputs
    are y and its time derivative `slope`, each (n,).
    """

    rate: Any = 1.0
    begin: float = 0.0
    y0: Any = 0.0
    unit: Unit = "rad"

    @cached_property
    def _n(self) -> int:
        return signal_count("a ramp", rate=self.rate, y0=self.y0, unit=self.unit)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the value y (n,) and its time derivative `slope` (n,)."""
        return motion_ports(self._n, self.unit)[:2]

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for rate (n,), begin [s], and the value y0 (n,) before the ramp."""
        return (
            Port("rate", (self._n,), rate_unit(self.unit), "rate of change", self.rate),
            Port("begin", (), "s", "start time", self.begin),
            Port("y0", (self._n,), self.unit, "value before the ramp", self.y0),
        )

    def output(self, t: Any, p: Record) -> Values:
        y = p.y0 + p.rate * (t - p.begin)
        return {
            "y": _switch_values(p.begin, t, p.y0, y),
            "slope": _switch_values(p.begin, t, 0.0 * p.rate, p.rate),
        }


@dataclass(frozen=True, eq=False)
class Pulse(Block):
    """Source of a rectangular pulse, or of a train of pulses with the period `period` [s].

    A pulse begins at the time `begin` [s] and lasts `width` [s]. In a train, a pulse begins every
    `period` seconds. The output y is `offset` + `amplitude` during a pulse, and otherwise `offset`.
    `amplitude` and `offset` are in `unit`, and are scalars or arrays (n,).

    Raises:
        ValueError: `width` is longer than `period`.
    """

    width: float = 1.0
    amplitude: Any = 1.0
    period: float | None = None
    begin: float = 0.0
    offset: Any = 0.0
    unit: Unit = "rad"

    def __post_init__(self) -> None:
        if self.period is not None and not self.width <= self.period:
            raise ValueError(
                f"the width of a pulse must be at most its period of {self.period} s, not "
                f"{self.width} s"
            )

    @cached_property
    def _n(self) -> int:
        return signal_count("a pulse", amplitude=self.amplitude, offset=self.offset, unit=self.unit)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output port for the value y (n,)."""
        return motion_ports(self._n, self.unit)[:1]

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for amplitude and offset (n,), and for begin, width and period [s]."""
        train = () if self.period is None else (self.period,)
        return (
            Port("amplitude", (self._n,), self.unit, "height of the pulse", self.amplitude),
            Port("offset", (self._n,), self.unit, "value between the pulses", self.offset),
            Port("begin", (), "s", "time of the first pulse", self.begin),
            Port("width", (), "s", "duration of a pulse", self.width, positive=True),
            *(Port("period", (), "s", "period of the pulses", T, positive=True) for T in train),
        )

    def output(self, t: Any, p: Record) -> Values:
        low, high = p.offset, p.offset + p.amplitude
        end = p.begin + p.width
        if self.period is not None:
            # number of the current period, from 1; it is also 1 before the first pulse
            elapsed, late = maximum(t - p.begin, 0.0), maximum(time_past_event(t) - p.begin, 0.0)
            dust = 1e-9 * p.period + ROUNDING * np.abs(t)
            begun = 1.0 + np.floor((elapsed + dust) / p.period)
            begun = count_with_events(begun, late, p.period * (begun - 1.0), p.period * begun)
            end = end + p.period * (begun - 1.0)
        return {"y": _switch_values(p.begin, t, low, _switch_values(end, t, high, low))}


def _switch_values(switch_time: Any, t: Any, before: Array, after: Array) -> Any:
    """Return the value at time t of a signal that switches from `before` to `after`.

    The value is `before` for t < `switch_time` [s]. The switch is an event.
    """
    whole = select(less(rounded_up(t), switch_time), before, after)
    return piecewise(excess(switch_time, time_past_event(t)), before, after, whole)


@dataclass(frozen=True, eq=False)
class Waypoints(Block):
    """Source of a path through the points y (k, n) at the times t (k,) [s].

    Before the first time and after the last time, the block holds the first and the last point.
    `kind` selects the path between the points. "hold" steps to each point at its time. "linear" has
    straight segments. "cubic" is the cubic spline, whose acceleration is continuous. "quintic" is
    the spline of degree five, whose snap is continuous. The splines start and end at rest, the
    quintic spline also with zero acceleration.

    `t` increases, and the values are in `unit`. For one signal, y may have the shape (k,). The
    outputs are y, the velocity `slope` and the acceleration `curvature`, each (n,). At the time of
    a point, the outputs are the values of the next segment. The points are constants, not
    parameters.

    Raises:
        ValueError: The times do not increase, `y` has a wrong shape, a value is not finite, or the
            kind of the path is unknown.
    """

    t: Any
    y: Any
    kind: str = "linear"
    unit: Unit = "rad"
    coefficients: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        t = finite(self.t, np.shape(self.t), "the times of the waypoints")
        y = finite(self.y, np.shape(self.y), "the waypoints")
        if t.ndim != 1 or len(t) < 2 or np.any(np.diff(t) <= 0):
            raise ValueError(
                f"expected at least two waypoints with increasing times, not {t.tolist()}"
            )
        if y.ndim not in (1, 2) or len(y) != len(t) or not y.size:
            raise ValueError(
                f"{len(t)} waypoints need y of shape ({len(t)}, n) or ({len(t)},), not {y.shape}"
            )
        if self.kind not in PATHS:
            raise ValueError(
                f"unknown kind {self.kind!r} of waypoints; {suggestion(str(self.kind), PATHS)}"
            )
        object.__setattr__(self, "t", t)
        object.__setattr__(self, "y", y.reshape(len(t), -1))
        object.__setattr__(self, "coefficients", PATHS[self.kind](t, self.y))

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for y, its first derivative `slope` and second derivative `curvature`."""
        return motion_ports(self.y.shape[1], self.unit)

    def output(self, t: Any) -> Values:
        times, last = self.t, len(self.t) - 1
        # a point counts as reached within rounding errors of its time
        k = index_with_events(count_at_most(times, rounded_up(t)), times, time_past_event(t))
        row = clip(k - 1.0, 0.0, last - 1.0)
        s = t - entry(times, row)
        moves = select(k >= 1.0, select(k <= last, 1.0, 0.0), 0.0)
        y, slope, curvature = [], [], []
        for signal, points in zip(self.coefficients, self.y.T, strict=True):
            c = [entry(column, row) for column in signal]
            value, rate, bend = 0.0 * s, 0.0 * s, 0.0 * s
            for one in reversed(c):  # Horner's method for the polynomial and its derivatives
                value, rate, bend = value * s + one, rate * s + value, bend * s + 2.0 * rate
            rests = select(k >= 1.0, points[-1], points[0])
            y.append(select(moves > 0.0, value, rests))
            slope.append(select(moves > 0.0, rate, 0.0))
            curvature.append(select(moves > 0.0, bend, 0.0))
        return {"y": np.array(y), "slope": np.array(slope), "curvature": np.array(curvature)}


def _held_points(t: Array, y: Array) -> Array:
    """Return the coefficients (n, 1, k - 1) of constant segments through k points of n signals."""
    del t
    return y[:-1].T[:, None]


def _straight_lines(t: Array, y: Array) -> Array:
    """Return the coefficients (n, 2, k - 1) of straight segments through k points of n signals."""
    return np.stack([y[:-1].T, (np.diff(y, axis=0) / np.diff(t)[:, None]).T], axis=1)


def _cubic_spline(t: Array, y: Array) -> Array:
    """Return the coefficients (n, 4, k - 1) of the cubic spline with zero end velocities.

    The acceleration is continuous at each inner point. This condition determines the velocity v at
    the point. v_l and v_r are the velocities at the previous and at the next point. h_l and h_r
    are the durations of the segments before and after the point. D_l and D_r are the displacements
    in these segments.

        v_l / h_l + 2 (1 / h_l + 1 / h_r) v + v_r / h_r = 3 (D_l / h_l^2 + D_r / h_r^2)
    """
    h, D = np.diff(t)[:, None], np.diff(y, axis=0)
    left, right = 1 / h[:-1, :, None], 1 / h[1:, :, None]
    force = 3 * (D[:-1] / h[:-1] ** 2 + D[1:] / h[1:] ** 2)
    inner = _solve_block_tridiagonal(left, 2 * (left + right), right, force[:, None])
    v = np.concatenate([0 * y[:1], inner[:, 0], 0 * y[:1]])
    v0, v1 = v[:-1], v[1:]
    c = [y[:-1], v0, (3 * D / h - 2 * v0 - v1) / h, (v0 + v1 - 2 * D / h) / h**2]
    return np.array(c).transpose(2, 0, 1)


def _quintic_spline(t: Array, y: Array) -> Array:
    """Return the coefficients (n, 6, k - 1) of the quintic spline from rest to rest.

    The jerk j and the snap s, the third and fourth derivatives, are continuous at each inner point.
    These conditions determine the velocities v and accelerations a at the points. For a segment of
    duration h and displacement D, with index 0 at its start and index 1 at its end:

        j0 h^3 = 60 D - (36 v0 + 24 v1) h - (9 a0 - 3 a1) h^2
        j1 h^3 = 60 D - (24 v0 + 36 v1) h + (9 a1 - 3 a0) h^2
        s0 h^4 = -360 D + (192 v0 + 168 v1) h + (36 a0 - 24 a1) h^2
        s1 h^4 = 360 D - (168 v0 + 192 v1) h + (36 a1 - 24 a0) h^2
    """
    h, D = np.diff(t)[:, None], np.diff(y, axis=0)

    def endpoint_factors(segments: slice, jerk: tuple[int, int], snap: tuple[int, int]) -> Array:
        """Return the factors (m, 2, 2) of (v, a) at one end of m segments in equations of (j, s).

        `segments` selects the segments. `jerk` and `snap` contain the coefficients of v h and
        a h^2 in an equation of j and in an equation of s.
        """
        g = h[segments, 0]
        rows = [[jerk[0] / g**2, jerk[1] / g], [snap[0] / g**3, snap[1] / g**2]]
        return np.array(rows).transpose(2, 0, 1)

    left, right = slice(None, -1), slice(1, None)  # the segments before and after each inner point
    lower = endpoint_factors(left, (-24, -3), (-168, -24))
    middle = endpoint_factors(left, (-36, 9), (-192, 36)) - endpoint_factors(
        right, (-36, -9), (192, 36)
    )
    upper = -endpoint_factors(right, (-24, 3), (168, -24))
    jerk = 60 * (D[right] / h[right] ** 3 - D[left] / h[left] ** 3)
    snap = -360 * (D[right] / h[right] ** 4 + D[left] / h[left] ** 4)
    inner = _solve_block_tridiagonal(lower, middle, upper, np.stack([jerk, snap], axis=1))
    v, a = (np.concatenate([0 * y[:1], inner[:, i], 0 * y[:1]]) for i in (0, 1))
    v0, v1, a0, a1 = v[:-1], v[1:], a[:-1], a[1:]
    c = [
        y[:-1],
        v0,
        a0 / 2,
        (20 * D - (8 * v1 + 12 * v0) * h - (3 * a0 - a1) * h**2) / (2 * h**3),
        (-30 * D + (14 * v1 + 16 * v0) * h + (3 * a0 - 2 * a1) * h**2) / (2 * h**4),
        (12 * D - 6 * (v0 + v1) * h + (a1 - a0) * h**2) / (2 * h**5),
    ]
    return np.array(c).transpose(2, 0, 1)


def _solve_block_tridiagonal(lower: Array, middle: Array, upper: Array, right: Array) -> Array:
    """Solve lower_k x_(k-1) + middle_k x_k + upper_k x_(k+1) = right_k for x (m, size, columns).

    The coefficients (m, size, size) of x_(-1) and x_m are ignored.
    """
    x, factors = right.copy(), list[Array]()
    for k in range(len(x)):
        pivot = middle[k] - lower[k] @ factors[-1] if k else middle[k]
        x[k] = np.linalg.solve(pivot, x[k] - lower[k] @ x[k - 1] if k else x[k])
        factors.append(np.linalg.solve(pivot, upper[k]))
    for k in reversed(range(len(x) - 1)):
        x[k] -= factors[k] @ x[k + 1]
    return x


PATHS = {
    "hold": _held_points,
    "linear": _straight_lines,
    "cubic": _cubic_spline,
    "quintic": _quintic_spline,
}


@dataclass(frozen=True, eq=False)
class Sine(Block):
    """Source of a sine wave y = offset + amplitude sin(2 pi frequency t + phase).

    The output `slope` is the time derivative of y. `amplitude` and `offset` are in `unit`,
    `frequency` is in Hz, and `phase` is in rad. Each value is a scalar or an array (n,).
    """

    amplitude: Any = 1.0
    frequency: Any = 1.0
    phase: Any = 0.0
    offset: Any = 0.0
    unit: Unit = "rad"

    @cached_property
    def _n(self) -> int:
        return signal_count(
            "a sine",
            amplitude=self.amplitude,
            frequency=self.frequency,
            phase=self.phase,
            offset=self.offset,
            unit=self.unit,
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports `y` (n,) and `slope` (n,), the time derivative of `y`."""
        return motion_ports(self._n, self.unit)[:2]

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for amplitude, frequency [Hz], phase [rad] and offset, each (n,)."""
        return (
            Port("amplitude", (self._n,), self.unit, "amplitude", self.amplitude),
            Port("frequency", (self._n,), "Hz", "frequency", self.frequency, positive=True),
            Port("phase", (self._n,), "rad", "phase at t = 0", self.phase),
            Port("offset", (self._n,), self.unit, "mean value", self.offset),
        )

    def output(self, t: Any, p: Record) -> Values:
        omega = 2 * np.pi * p.frequency
        angle = omega * t + p.phase
        return {
            "y": p.offset + p.amplitude * np.sin(angle),
            "slope": p.amplitude * omega * np.cos(angle),
        }


@dataclass(frozen=True, eq=False)
class Chirp(Block):
    """Source of a linear chirp, a sine wave whose frequency changes from `f0` to `f1` [Hz].

        y = offset + amplitude sin(angle)
        d(angle)/dt = 2 pi (f0 + (f1 - f0) t / duration),  angle(0) = 0

    The frequency changes at a constant rate from t = 0 to t = `duration` [s]. It is f0 before this
    interval and f1 after it. `amplitude` and `offset` are in `unit`. The amplitude, the offset and
    the frequencies are scalars or arrays (n,).

    Raises:
        ValueError: A frequency is negative, or both frequencies are zero.
    """

    f0: Any
    f1: Any
    duration: float
    amplitude: Any = 1.0
    offset: Any = 0.0
    unit: Unit = "rad"

    def __post_init__(self) -> None:
        f0, f1 = (np.broadcast_to(f, self._n) for f in (self.f0, self.f1))
        if np.any(f0 < 0) or np.any(f1 < 0) or np.any(f0 + f1 == 0):
            raise ValueError(
                "the frequencies of a chirp must be non-negative and not both zero, but f0 = "
                f"{self.f0} Hz and f1 = {self.f1} Hz"
            )

    @cached_property
    def _n(self) -> int:
        return signal_count(
            "a chirp",
            f0=self.f0,
            f1=self.f1,
            amplitude=self.amplitude,
            offset=self.offset,
            unit=self.unit,
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the value y, the slope, and the frequency [Hz], each (n,)."""
        return (
            *motion_ports(self._n, self.unit)[:2],
            Port("frequency", (self._n,), "Hz", "current frequency"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for f0, f1, amplitude and offset, each (n,), and for duration [s]."""
        return (
            Port("f0", (self._n,), "Hz", "frequency until t = 0", self.f0),
            Port("f1", (self._n,), "Hz", "frequency after the sweep", self.f1),
            Port("duration", (), "s", "duration of the sweep", self.duration, positive=True),
            Port("amplitude", (self._n,), self.unit, "amplitude", self.amplitude),
            Port("offset", (self._n,), self.unit, "mean value", self.offset),
        )

    def output(self, t: Any, p: Record) -> Values:
        s = clip(t, 0.0, p.duration)
        rate = (p.f1 - p.f0) / p.duration
        frequency = p.f0 + rate * s
        angle = 2 * np.pi * (p.f0 * s + rate * s**2 / 2 + frequency * (t - s))
        slope = 2 * np.pi * frequency * p.amplitude * np.cos(angle)
        return {"y": p.offset + p.amplitude * np.sin(angle), "slope": slope, "frequency": frequency}


def signal_count(subject: str, **values: Any) -> int:
    """Return the number n of signals of a block from its parameter values.

    If all values are scalars, n is 1.

    Args:
        subject: Subject of the error messages, such as "a step".
        **values: Scalars or arrays (n,) by parameter name.

    Raises:
        ValueError: The arrays differ in length or have more than one dimension.
    """
    shapes = {name: np.shape(value) for name, value in values.items()}
    lengths = {shape[0] for shape in shapes.values() if shape}
    if any(len(shape) > 1 for shape in shapes.values()) or len(lengths) > 1 or 0 in lengths:
        given = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items() if shape)
        raise ValueError(f"{subject} needs scalars or arrays of equal length, not {given}")
    return lengths.pop() if lengths else 1


def rate_unit(unit: Any, order: int = 1) -> Any:
    """Return the unit of a time derivative of a signal; `order` is the order of the derivative.

    `unit` is a unit or a tuple of units. For example, the unit of the first derivative is rad/s for
    rad, and N.m/rad.s for N.m/rad.
    """
    if not isinstance(unit, str):
        return tuple(rate_unit(one, order) for one in unit)
    return f"{unit}{'.' if '/' in unit else '/'}s{order if order > 1 else ''}"


def motion_ports(n: int, unit: Unit) -> tuple[Port, ...]:
    """Return the output ports of n signals: value y, and its first and second derivative."""
    return (
        Port("y", (n,), unit, "value"),
        Port("slope", (n,), rate_unit(unit), "rate of change"),
        Port("curvature", (n,), rate_unit(unit, 2), "rate of change of the slope"),
    )


@dataclass(frozen=True, eq=False)
class Playback(Block):
    """Source that plays columns of a CSV, Parquet or MDF4 file with linear interpolation in time.

    The outputs are the values y (n,) and their time derivatives slope (n,). At the time of a row,
    the slope is the slope of the next interval. Before the first row and after the last row, the
    values are constant.

    `file` is a path, or an open text file in CSV format whose first line contains the column names.
    The suffix .parquet or .mf4 selects another format. Parquet requires pyarrow, and MDF4 requires
    asammdf. `columns` contains the names of the columns. `time` is the name of the column with the
    times [s], which must increase. MDF4 channels contain their times, so `time` is not used. `unit`
    is one unit for all columns or one unit for each column.

    The constructor reads the file once. The table is a constant, not a parameter. A compiled block
    contains the table and finds the row by binary search.

    Raises:
        ValueError: `columns` is empty or a string, a column is missing, a value is not finite, or
            the times do not increase.
        OSError: The file cannot be read.
        ImportError: The package for the file format is not installed.
    """

    file: str | Path | TextIO
    columns: tuple[str, ...]
    unit: str | tuple[str, ...] = "rad"
    time: str = "time"
    table: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.columns, str) or not self.columns:
            raise ValueError(
                f"a playback needs a tuple of one or more column names, not {self.columns!r}"
            )
        object.__setattr__(self, "table", _read_table(self.file, (self.time, *self.columns)))

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the values y (n,) and their time derivatives `slope` (n,)."""
        n, units = (
            len(self.columns),
            (self.unit,) if isinstance(self.unit, str) else tuple(self.unit),
        )
        units = units * n if len(units) == 1 else units
        return (
            Port("y", (n,), units, f"recorded {', '.join(self.columns)}"),
            Port("slope", (n,), rate_unit(units), "rate of change"),
        )

    def output(self, t: Any) -> Values:
        times, last = self.table[:, 0], len(self.table) - 1
        # a row counts as reached within rounding errors of its time
        k = index_with_events(count_at_most(times, rounded_up(t)), times, time_past_event(t))
        row = clip(k - 1.0, 0.0, last - 1.0)
        begin, end = entry(times, row), entry(times, row + 1.0)
        moves = select(k >= 1.0, select(k <= last, 1.0, 0.0), 0.0)
        y, slope = [], []
        for column in self.table[:, 1:].T:
            before, after = entry(column, row), entry(column, row + 1.0)
            slope.append(select(moves > 0.0, (after - before) / (end - begin), 0.0))
            rests = select(k >= 1.0, after, before)
            y.append(select(moves > 0.0, before + slope[-1] * (t - begin), rests))
        return {"y": np.array(y), "slope": np.array(slope)}


def _read_table(file: str | Path | TextIO, names: tuple[str, ...]) -> Array:
    """Return columns of a CSV, Parquet or MDF4 file as a table (k, n) with the time first.

    Args:
        file: Path or open text file.
        names: Name of the time column, followed by the names of the signal columns.
    """
    if isinstance(file, str | os.PathLike):
        check_regular_file(Path(file))
        read = {".parquet": _read_parquet, ".mf4": _read_mdf4}.get(Path(file).suffix.lower())
        if read is not None:
            return _check_table(str(file), read(Path(file), names), names)
        with open(file, newline="") as opened:
            return _parse_csv(str(file), csv.reader(opened), names)
    return _parse_csv(str(getattr(file, "name", "the file")), csv.reader(file), names)


def _read_parquet(path: Path, names: tuple[str, ...]) -> Array:
    """Return columns of a Parquet file as a table (k, n); raise ImportError without pyarrow."""
    parquet = module_of("pyarrow.parquet", f"'{path}'")
    there = parquet.read_schema(path).names
    _check_names(str(path), names, there)
    table = parquet.read_table(path, columns=list(names))
    return np.column_stack([table[name].to_numpy().astype(float) for name in names])


def _read_mdf4(path: Path, names: tuple[str, ...]) -> Array:
    """Return channels of an MDF4 file as a table (k, n) at the times of the first channel.

    The first column contains the times [s]. The first element of `names` is not used.

    Raises:
        ImportError: The package asammdf is not installed.
    """
    with module_of("asammdf", f"'{path}'").MDF(path) as file:
        _check_names(str(path), names[1:], list(file.channels_db))
        times = file.get(names[1]).timestamps
        columns = [file.get(name).interp(times).samples.astype(float) for name in names[1:]]
    return np.column_stack([times, *columns])


def _check_names(source: str, names: tuple[str, ...], available: list[str]) -> None:
    if missing := [name for name in names if name not in available]:
        raise ValueError(
            f"{source} has no column {', '.join(missing)}; it has: {', '.join(available) or 'none'}"
        )


def _parse_csv(source: str, lines: Any, names: tuple[str, ...]) -> Array:
    header = [name.strip() for name in next(lines, [])]
    _check_names(source, names, header)
    places = [header.index(name) for name in names]
    rows = []
    for number, line in enumerate(filter(None, lines), 2):
        try:
            rows.append([float(line[k]) for k in places])
        except (ValueError, IndexError):
            raise ValueError(
                f"row {number} of {source} needs a number in each of the columns "
                f"{', '.join(names)}, but is {line}"
            ) from None
    return _check_table(source, np.array(rows).reshape(-1, len(names)), names)


def _check_table(source: str, table: Array, names: tuple[str, ...]) -> Array:
    """Check a table (k, n) and return it as a read-only array.

    Raise ValueError if a value is not finite, or if the times in the first column do not increase.
    """
    if not np.all(np.isfinite(table)):
        raise ValueError(f"{source} must have finite values in the columns {', '.join(names)}")
    if len(table) < 2:
        raise ValueError(f"{source} needs at least two rows of numbers, not {len(table)}")
    if np.any(np.diff(table[:, 0]) <= 0):
        k = int(np.argmax(np.diff(table[:, 0]) <= 0))
        raise ValueError(
            f"the column '{names[0]}' of {source} must increase, but {table[k, 0]} is followed by "
            f"{table[k + 1, 0]}"
        )
    table.setflags(write=False)
    return table
