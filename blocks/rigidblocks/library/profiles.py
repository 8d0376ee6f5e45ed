"""Motion profiles: references that go from rest to rest."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import clip, less, maximum, minimum, select
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.library.sources import rate_unit, signal_count


def _motion_ports(n: int, unit: str) -> tuple[Port, ...]:
    return (
        Port("y", (n,), unit, "value"),
        Port("slope", (n,), rate_unit(unit), "rate of change"),
        Port("curvature", (n,), rate_unit(unit, 2), "rate of change of the slope"),
    )


def _limit(name: str, n: int, unit: str, what: str, value: Any) -> Port:
    return Port(name, (n,), unit, f"limit on {what}", value, positive=True)


@dataclass(frozen=True, eq=False)
class QuinticProfile(Block):
    """The polynomial of degree five from rest at `y0` to rest at `y1`, with no acceleration at
    either end.

        y = y0 + (y1 - y0) (10 s^3 - 15 s^4 + 6 s^5),  s = (t - begin) / duration, from 0 to 1

    It starts at t = `begin` [s] and takes `duration` [s]; outside it y rests. `y0` and `y1` are
    numbers or (n,), in `unit`. The outputs are y, its slope and its curvature, each (n,).
    """

    y0: Any
    y1: Any
    duration: float
    begin: float = 0.0
    unit: str = "rad"

    @cached_property
    def _n(self) -> int:
        return signal_count("a quintic profile", y0=self.y0, y1=self.y1)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y (n,), slope (n,) and curvature (n,)."""
        return _motion_ports(self._n, self.unit)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """y0 (n,), y1 (n,), begin and duration."""
        return (
            Port("y0", (self._n,), self.unit, "value at the beginning", self.y0),
            Port("y1", (self._n,), self.unit, "value at the end", self.y1),
            Port("begin", (), "s", "time at which it begins", self.begin),
            Port("duration", (), "s", "time that it takes", self.duration, positive=True),
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
    """The fastest motion from rest at `y0` to rest at `y1` with |slope| <= `slope_max` and
    |curvature| <= `curvature_max`.

    The slope is a trapezoid over time, or a triangle where the way is too short for the full slope.
    Each signal moves on its own, from t = `begin` [s]. The values are numbers or (n,), in `unit`,
    per s and per s^2. The outputs are y, its slope and its curvature, each (n,); the curvature at a
    corner is the one that follows.
    """

    y0: Any
    y1: Any
    slope_max: Any
    curvature_max: Any
    begin: float = 0.0
    unit: str = "rad"

    @cached_property
    def _n(self) -> int:
        limits = {"slope_max": self.slope_max, "curvature_max": self.curvature_max}
        return signal_count("a trapezoidal profile", y0=self.y0, y1=self.y1, **limits)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y (n,), slope (n,) and curvature (n,)."""
        return _motion_ports(self._n, self.unit)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """y0, y1, slope_max and curvature_max, each (n,), and begin."""
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
            Port("begin", (), "s", "time at which it begins", self.begin),
        )

    def output(self, t: Any, p: Record) -> Values:
        a, way = p.curvature_max, np.abs(p.y1 - p.y0)
        sign = select(less(p.y1, p.y0), -1.0, 1.0)
        ramp = minimum(np.sqrt(way / a), p.slope_max / a)  # time to speed up, and to slow down
        cruise = maximum(way / p.slope_max - p.slope_max / a, 0.0)
        elapsed = t - p.begin
        # time spent so far on speeding up, at constant slope, and on slowing down
        up = clip(elapsed, 0.0, ramp)
        on = clip(elapsed - ramp, 0.0, cruise)
        down = clip(elapsed - ramp - cruise, 0.0, ramp)
        rest = ramp - down
        from_y0 = p.y0 + sign * a * (up**2 / 2 + ramp * on)
        from_y1 = p.y1 - sign * a * rest**2 / 2
        speeding_up = select(less(elapsed, 0.0), 0.0, select(less(elapsed, ramp), a, 0.0))
        slowing_down = select(less(elapsed, ramp + cruise), 0.0, select(less(0.0, rest), a, 0.0))
        return {
            "y": select(less(0.0, down), from_y1, from_y0),
            "slope": sign * minimum(a * (up - down), p.slope_max),
            "curvature": sign * (speeding_up - slowing_down),
        }
