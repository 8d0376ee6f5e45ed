"""Sources: signals that depend on time alone."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import clip, excess, piecewise, select
from rigidblocks.algebra.tables import held_count, shortly_after
from rigidblocks.block.block import Block, Port, Record, Values, finite


@dataclass(frozen=True, eq=False)
class RepeatingSequence(Block):
    """A table of values, linear between its times and repeated with the period of its last time.

    `t` (k,) [s] starts at 0 and increases; `y` (k, n) holds the values, in `unit`. The outputs are
    the value `y` (n,) and its `slope` (n,), which at a corner is the one that follows.
    """

    t: Any
    y: Any
    unit: str = "rad"

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
        """y (n,) and slope (n,)."""
        n = np.shape(self.y)[1]
        return (
            Port("y", (n,), self.unit, "value"),
            Port("slope", (n,), rate_unit(self.unit), "rate of change"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """table (k, n), the values at the times."""
        return (
            Port(
                "table", np.shape(self.y), self.unit, "values at the times of the sequence", self.y
            ),
        )

    def output(self, t: Any, p: Record) -> Values:
        times = np.asarray(self.t, dtype=float)
        period = times[-1]
        dust = 1e-9 * period  # a corner that rounding has put just ahead has been reached
        begun = 1.0 + np.floor((t + dust) / period)
        late = shortly_after(t)
        begun = held_count(begun, late, period * (begun - 1.0), period * begun)
        phase = t - period * (begun - 1.0)
        late = late - period * (begun - 1.0)
        slopes = (p.table[1:] - p.table[:-1]) / np.diff(times)[:, None]
        y, slope = p.table[0] + slopes[0] * phase, slopes[0]
        for start, value, rate in zip(times[1:-1], p.table[1:-1], slopes[1:], strict=True):
            reached = phase + dust >= start
            y, slope = (
                piecewise(excess(start, late), before, after, select(reached, after, before))
                for before, after in ((y, value + rate * (phase - start)), (slope, rate))
            )
        return {"y": y, "slope": slope}


@dataclass(frozen=True, eq=False)
class Step(Block):
    """A step: the output y (n,) is `before` until t = `time` [s] and `after` from then on.

    Each value is a number or (n,), in `unit`; a number counts for all.
    """

    time: float = 0.0
    before: Any = 0.0
    after: Any = 1.0
    unit: str = "rad"

    @cached_property
    def _n(self) -> int:
        return signal_count("a step", before=self.before, after=self.after)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y (n,)."""
        return (Port("y", (self._n,), self.unit, "value"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """step_time, before (n,) and after (n,)."""
        return (
            Port("step_time", (), "s", "time of the step", self.time),
            Port("before", (self._n,), self.unit, "value before the step", self.before),
            Port("after", (self._n,), self.unit, "value from the step on", self.after),
        )

    def output(self, t: Any, p: Record) -> Values:
        reached = p.step_time - t <= 1e-9 * np.abs(
            p.step_time
        )  # also where rounding has put it just ahead
        whole = select(reached, p.after, p.before)
        return {"y": piecewise(excess(p.step_time, shortly_after(t)), p.before, p.after, whole)}


@dataclass(frozen=True, eq=False)
class Sine(Block):
    """A sine wave: y = offset + amplitude sin(2 pi frequency t + phase), and its slope.

    `amplitude` and `offset` are in `unit`, `frequency` in Hz, `phase` in rad; each is a number or
    (n,).
    """

    amplitude: Any = 1.0
    frequency: Any = 1.0
    phase: Any = 0.0
    offset: Any = 0.0
    unit: str = "rad"

    @cached_property
    def _n(self) -> int:
        return signal_count(
            "a sine",
            amplitude=self.amplitude,
            frequency=self.frequency,
            phase=self.phase,
            offset=self.offset,
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y (n,) and slope (n,)."""
        return (
            Port("y", (self._n,), self.unit, "value"),
            Port("slope", (self._n,), rate_unit(self.unit), "rate of change"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """amplitude, frequency, phase and offset, each (n,)."""
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
    """A sine whose frequency goes from `f0` to `f1` [Hz] at a constant rate over `duration` [s]
    from t = 0.

        y = offset + amplitude sin(angle)
        d(angle)/dt = 2 pi (f0 + (f1 - f0) t / duration),  angle(0) = 0

    Before and after the sweep the frequency stays at f0 and f1. `amplitude` and `offset`, in
    `unit`, and the frequencies are numbers or (n,).
    """

    f0: Any
    f1: Any
    duration: float
    amplitude: Any = 1.0
    offset: Any = 0.0
    unit: str = "rad"

    def __post_init__(self) -> None:
        f0, f1 = (np.broadcast_to(f, self._n) for f in (self.f0, self.f1))
        if np.any(f0 < 0) or np.any(f1 < 0) or np.any(f0 + f1 == 0):
            raise ValueError(
                "the frequencies of a chirp must not be negative, nor both zero, not f0 = "
                f"{self.f0} and f1 = {self.f1} Hz"
            )

    @cached_property
    def _n(self) -> int:
        return signal_count(
            "a chirp", f0=self.f0, f1=self.f1, amplitude=self.amplitude, offset=self.offset
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y (n,), its slope (n,), and the frequency of the instant (n,)."""
        return (
            Port("y", (self._n,), self.unit, "value"),
            Port("slope", (self._n,), rate_unit(self.unit), "rate of change"),
            Port("frequency", (self._n,), "Hz", "frequency of the instant"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """f0, f1, amplitude and offset, each (n,), and the duration."""
        return (
            Port("f0", (self._n,), "Hz", "frequency up to t = 0", self.f0),
            Port("f1", (self._n,), "Hz", "frequency from the end of the sweep on", self.f1),
            Port("duration", (), "s", "length of the sweep", self.duration, positive=True),
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


def signal_count(what: str, **values: Any) -> int:
    """The number of signals that these values describe, each a number for all signals or an array
    (n,).

    Raises ValueError, naming `what`, for arrays of different lengths or more dimensions.
    """
    shapes = {name: np.shape(value) for name, value in values.items()}
    lengths = {shape[0] for shape in shapes.values() if shape}
    if any(len(shape) > 1 for shape in shapes.values()) or len(lengths) > 1 or 0 in lengths:
        given = ", ".join(f"{name} of shape {shape}" for name, shape in shapes.items() if shape)
        raise ValueError(f"{what} needs numbers or arrays of one length, not {given}")
    return lengths.pop() if lengths else 1


def rate_unit(unit: str, order: int = 1) -> str:
    """The unit of a time derivative of a signal in `unit`: rad/s, rad/s2, and N.m/rad.s for
    N.m/rad.
    """
    return f"{unit}{'.' if '/' in unit else '/'}s{order if order > 1 else ''}"
