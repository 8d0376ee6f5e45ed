"""Motion profiles: quintic and trapezoidal from rest to rest, jerk-limited to a variable target."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.library.sources import Unit, motion_ports, rate_unit, signal_count
from rigidblocks.spatial.scalar import clip, less, maximum, minimum, select, square_root

_BISECTIONS = 54  # after 54 bisections, the interval is a rounding error


def _limit(name: str, n: int, unit: Unit, quantity: str, value: Any) -> Port:
    return Port(name, (n,), unit, f"limit on {quantity}", value, positive=True)


@dataclass(frozen=True, eq=False)
class QuinticProfile(Block):
    """Motion profile from rest at `y0` to rest at `y1` by a polynomial of degree five.

        y = y0 + (y1 - y0) (10 s^3 - 15 s^4 + 6 s^5),  s = (t - begin) / duration, from 0 to 1

    The velocity and the acceleration are zero at the start and at the end. The motion begins at t =
    `begin` [s] and takes `duration` [s]. Before and after the motion, y is constant. `y0` and `y1`
    are scalars or arrays (n,), in `unit`. The outputs are y, the velocity `slope` and the
    acceleration `curvature`, each (n,).
    """

    y0: Any
    y1: Any
    duration: float
    begin: float = 0.0
    unit: Unit = "rad"

    @cached_property
    def _n(self) -> int:
        return signal_count("a quintic profile", y0=self.y0, y1=self.y1, unit=self.unit)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for y, its first derivative `slope` and second derivative `curvature`."""
        return motion_ports(self._n, self.unit)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for the start y0 and the end y1 (n,), and for begin and duration [s]."""
        return (
            Port("y0", (self._n,), self.unit, "value at the beginning", self.y0),
            Port("y1", (self._n,), self.unit, "value at the end", self.y1),
            Port("begin", (), "s", "start time", self.begin),
            Port("duration", (), "s", "duration of the motion", self.duration, positive=True),
        )

    def output(self, t: Any, p: Record) -> Values:
        T, d = p.duration, p.y1 - p.y0
        s = clip((t - p.begin) / T, 0.0, 1.0)
        blend = s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
        return {
            "y": p.y0 * (1.0 - blend) + p.y1 * blend,
            "slope": d * (30.0 * s**2 * (1.0 - s) ** 2 / T),
            "curvature": d * (60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) / T**2),
        }


@dataclass(frozen=True, eq=False)
class TrapezoidalProfile(Block):
    """Motion profile from rest at `y0` to rest at `y1` with limited velocity and acceleration.

    The motion is time-optimal. The velocity is a trapezoid over time, or a triangle if the distance
    is too short to reach slope_max. The limits are |slope| <= `slope_max` and |curvature| <=
    `curvature_max`. Each signal moves independently of the other signals from t = `begin` [s]. `y0`
    and `y1` are in `unit`, and all values are scalars or arrays (n,).

    The outputs are y, the velocity `slope` and the acceleration `curvature`, each (n,). At the
    end of a segment of constant acceleration, `curvature` is the acceleration of the next segment.
    """

    y0: Any
    y1: Any
    slope_max: Any
    curvature_max: Any
    begin: float = 0.0
    unit: Unit = "rad"

    @cached_property
    def _n(self) -> int:
        limits = {"slope_max": self.slope_max, "curvature_max": self.curvature_max}
        return signal_count(
            "a trapezoidal profile", y0=self.y0, y1=self.y1, unit=self.unit, **limits
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for y, its first derivative `slope` and second derivative `curvature`."""
        return motion_ports(self._n, self.unit)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for y0, y1, slope_max and curvature_max, each (n,), and begin [s]."""
        return (
            Port("y0", (self._n,), self.unit, "value at the beginning", self.y0),
            Port("y1", (self._n,), self.unit, "value at the end", self.y1),
            _limit("slope_max", self._n, rate_unit(self.unit), "the slope", self.slope_max),
            _limit(
                "curvature_max",
                self._n,
                rate_unit(self.unit, 2),
                "the curvature",
                self.curvature_max,
            ),
            Port("begin", (), "s", "start time", self.begin),
        )

    def output(self, t: Any, p: Record) -> Values:
        a, way = p.curvature_max, np.abs(p.y1 - p.y0)
        sign = select(less(p.y1, p.y0), -1.0, 1.0)
        moves = less(0.0, way)  # the square root is not differentiable at zero
        half = select(moves, np.sqrt(select(moves, way, 1.0) / a), 0.0)
        ramp = minimum(half, p.slope_max / a)  # duration of acceleration and of deceleration
        cruise = maximum(way / p.slope_max - p.slope_max / a, 0.0)
        elapsed = t - p.begin
        # elapsed durations of acceleration, constant slope and deceleration
        up = clip(elapsed, 0.0, ramp)
        on = clip(elapsed - ramp, 0.0, cruise)
        down = clip(elapsed - ramp - cruise, 0.0, ramp)
        rest = ramp - down
        from_y0 = p.y0 + sign * a * (up**2 / 2 + ramp * on)
        from_y1 = p.y1 - sign * a * rest**2 / 2
        speeding_up = select(less(elapsed, 0.0), 0.0, select(less(elapsed, ramp), a, 0.0))
        slowing_down = select(less(elapsed, ramp + cruise), 0.0, select(less(0.0, rest), a, 0.0))
        return {
            "y": select(less(ramp + cruise, elapsed), from_y1, from_y0),
            "slope": sign * minimum(a * (up - down), p.slope_max),
            "curvature": sign * (speeding_up - slowing_down),
        }


class Motion(NamedTuple):
    """Value, velocity and acceleration of a signal."""

    p: Any
    v: Any
    a: Any


class Limits(NamedTuple):
    """Positive limits of the velocity, the acceleration and the jerk."""

    v: Any
    a: Any
    j: Any


class VelocityChange(NamedTuple):
    """Time-optimal change of velocity, with zero acceleration at its end.

    The jerk is `j` for the duration t1, zero for t2, and -`j` for t3 [s].
    """

    j: Any
    t1: Any
    t2: Any
    t3: Any

    @property
    def duration(self) -> Any:
        """Duration of the change of velocity [s]."""
        return self.t1 + self.t2 + self.t3


def velocity_change(start: Motion, target: Any, limits: Limits) -> VelocityChange:
    """Return the time-optimal change to the velocity `target`, with zero acceleration at its end.

    v and a are the initial velocity and acceleration. a_max and j are the limits of acceleration
    and jerk. For a decreasing velocity with w = v - target and the peak deceleration A:

        A^2 = j w + a^2 / 2, at most a_max^2
        t1 = (a + A) / j,  t2 = max(w + a^2 / (2 j) - a_max^2 / j, 0) / a_max,  t3 = A / j
    """
    j = limits.j
    w = start.v - target
    sign = select(less(w + start.a * np.abs(start.a) / (2.0 * j), 0.0), -1.0, 1.0)
    w, a = sign * w, sign * start.a
    peak = minimum(square_root(maximum(j * w + a * a / 2.0, 0.0)), limits.a)
    t2 = maximum(w + a * a / (2.0 * j) - limits.a**2 / j, 0.0) / limits.a
    return VelocityChange(-sign * j, maximum((a + peak) / j, 0.0), t2, peak / j)


def motion_at(start: Motion, change: VelocityChange, t: Any) -> Motion:
    """Return the motion at the time t >= 0 [s].

    The velocity first changes as in `change`, and is then constant.
    """
    done, motion = 0.0, start
    for jerk, duration in ((change.j, change.t1), (0.0, change.t2), (-change.j, change.t3)):
        motion = _constant_jerk(motion, jerk, clip(t - done, 0.0, duration))
        done = done + duration
    cruise = maximum(t - done, 0.0)
    a = select(less(0.0, cruise), 0.0, motion.a)
    return Motion(motion.p + motion.v * cruise, motion.v, a)


def _constant_jerk(start: Motion, j: Any, t: Any) -> Motion:
    p, v, a = start
    return Motion(p + t * (v + t * (a / 2.0 + t * j / 6.0)), v + t * (a + t * j / 2.0), a + t * j)


class Course(NamedTuple):
    """Time-optimal motion to a target: a change of velocity, then a stop.

    Attributes:
        origin: Initial motion.
        relief: Jerk that reduces an initial acceleration above the limit to the limit.
        delay: Duration of this reduction [s].
        start: Motion after this reduction, at which the change of velocity begins.
        change: Change of velocity towards the velocity limit.
        switch: Time from the start of the change to the start of the stop [s].
        turn: Motion at which the stop begins.
        stop: Change to zero velocity.
    """

    origin: Motion
    relief: Any
    delay: Any
    start: Motion
    change: VelocityChange
    switch: Any
    turn: Motion
    stop: VelocityChange

    @property
    def duration(self) -> Any:
        """Duration of the motion to the target [s]."""
        return self.delay + self.switch + self.stop.duration

    def motion(self, t: Any, target: Any) -> Motion:
        """Return the motion at the time t >= 0 [s]; after `duration`, it is at rest at `target`."""
        early, over = less(t, self.delay), less(self.duration, t)
        relief = _constant_jerk(self.origin, self.relief, minimum(t, self.delay))
        t = maximum(t - self.delay, 0.0)
        first = motion_at(self.start, self.change, minimum(t, self.switch))
        last = motion_at(self.turn, self.stop, maximum(t - self.switch, 0.0))
        before = less(t, self.switch)
        moving = (
            select(early, a, select(before, b, c))
            for a, b, c in zip(relief, first, last, strict=True)
        )
        rest = (target, 0.0 * target, 0.0 * target)
        return Motion(*(select(over, r, m) for r, m in zip(rest, moving, strict=True)))


def course_to(origin: Motion, target: Any, limits: Limits) -> Course:
    """Return the time-optimal motion from `origin` to rest at `target`.

    If the initial acceleration exceeds the limit, the maximum jerk first reduces it to the limit.
    The velocity then changes towards the velocity limit in the direction of the target. The stop
    begins at the switching time. The position at the end of the stop depends monotonically on the
    switching time. Therefore the function finds the switching time for the target by bisection.
    """
    relief = select(less(origin.a, 0.0), limits.j, -limits.j)
    delay = maximum(np.abs(origin.a) - limits.a, 0.0) / limits.j
    start = _constant_jerk(origin, relief, delay)

    def stop_from(motion: Motion) -> tuple[VelocityChange, Any]:
        change = velocity_change(motion, 0.0, limits)
        return change, motion_at(motion, change, change.duration).p

    _, end = stop_from(start)
    sign = select(less(target, end), -1.0, 1.0)
    change = velocity_change(start, sign * limits.v, limits)
    low, high = 0.0 * end, change.duration
    fast = motion_at(start, change, high)
    missing = sign * (target - stop_from(fast)[1])  # distance of the cruise at the velocity limit
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        _, end = stop_from(motion_at(start, change, middle))
        is_short = less(sign * end, sign * target)
        low, high = select(is_short, middle, low), select(is_short, high, middle)
    cruises = less(0.0, missing)
    switch = select(cruises, change.duration + maximum(missing, 0.0) / limits.v, low)
    turn = motion_at(start, change, switch)
    stop, _ = stop_from(turn)
    return Course(origin, relief, delay, start, change, switch, turn, stop)


@dataclass(frozen=True, eq=False)
class JerkLimitedProfile(Block):
    """Time-optimal motion to a target that may change; velocity, acceleration and jerk are limited.

    In each sample time T, every signal follows the time-optimal motion from its current value,
    velocity and acceleration to rest at the input `target`:

        |slope| <= slope_max,   |curvature| <= curvature_max,   |d(curvature)/dt| <= jerk_max

    The signals move independently of each other. The motion starts at rest at `y0`. `y0` and the
    limits are scalars or arrays (n,), in `unit`. The outputs are y, its first derivative `slope`
    and its second derivative `curvature`, each (n,). The output `remaining` (n,) is the time [s]
    until the signal reaches a constant target.

    If a limit is reduced during a motion, the signal may exceed the new limit until it has slowed
    down. The block locates the switching times by bisection. The linearization of the block
    (`linearize`) therefore does not contain the sensitivity of the switching times.

    Raises:
        ValueError: A limit is not positive, or the arrays differ in length.
    """

    slope_max: Any
    curvature_max: Any
    jerk_max: Any
    sample_time: float
    y0: Any = 0.0
    unit: Unit = "rad"

    @cached_property
    def _n(self) -> int:
        limits = {name: getattr(self, name) for name in ("slope_max", "curvature_max", "jerk_max")}
        return signal_count("a jerk-limited profile", y0=self.y0, unit=self.unit, **limits)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input port of the target (n,)."""
        return (Port("target", (self._n,), self.unit, "target of the motion"),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Ports of the value y, its first two derivatives, and the remaining time, each (n,)."""
        n, unit = self._n, self.unit
        rest = np.zeros(n)
        return (
            Port("y", (n,), unit, "value", np.broadcast_to(self.y0, (n,))),
            Port("slope", (n,), rate_unit(unit), "rate of change", rest),
            Port("curvature", (n,), rate_unit(unit, 2), "rate of change of the slope", rest),
            Port("remaining", (n,), "s", "time to the target", rest),
        )

    @property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports of all sampled states."""
        return self.sampled

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports of the limits of velocity, acceleration and jerk, each (n,)."""
        rows = (
            ("slope_max", "the slope", self.slope_max),
            ("curvature_max", "the curvature", self.curvature_max),
            ("jerk_max", "the rate of the curvature", self.jerk_max),
        )
        return tuple(
            Port(
                name, (self._n,), rate_unit(self.unit, k), f"limit on {text}", value, positive=True
            )
            for k, (name, text, value) in enumerate(rows, 1)
        )

    def _course(self, x: Record, u: Record, p: Record) -> Course:
        limits = Limits(p.slope_max, p.curvature_max, p.jerk_max)
        return course_to(Motion(x.y, x.slope, x.curvature), u.target, limits)

    def initial(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        del t
        left = self._course(x, u, p).duration
        return {"y": x.y, "slope": x.slope, "curvature": x.curvature, "remaining": left}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        course = self._course(x, u, p)
        after = course.motion(0.0 * x.y + self.sample_time, u.target)
        left = maximum(course.duration - self.sample_time, 0.0)
        return {"y": after.p, "slope": after.v, "curvature": after.a, "remaining": left}
