"""Signals held and delayed."""

from dataclasses import dataclass
from functools import cached_property
from math import floor
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import select
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.library.signals import Shape, Unit, filled, signal_shape

MOST_SAMPLES = 5000  # in a buffer, whose shift is one statement for each


@dataclass(frozen=True, eq=False)
class ZeroOrderHold(Block):
    """The signal at the last sample instant: y = u[k], held over `sample_time`."""

    sample_time: float
    shape: Shape = ()
    unit: Unit = ""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u."""
        return (_u(self),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (_y(self, "signal at the last sample", 0.0),)

    @property
    def sampled(self) -> tuple[Port, ...]:
        """y."""
        return self.outputs

    def update(self, u: Record) -> Values:
        return {"y": u.u}


@dataclass(frozen=True, eq=False)
class UnitDelay(Block):
    """The signal one sample ago: y[k] = u[k-1], and y[0] = y0."""

    sample_time: float
    shape: Shape | None = None
    y0: Any = 0.0
    unit: Unit = ""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u."""
        return (_u(self),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (_y(self, "signal one sample ago", self.y0),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """y and the last u."""
        last = Port("u_last", _shape(self), self.unit, "signal at the last sample", self.y0)
        return (*self.outputs, last)

    def update(self, x: Record, u: Record) -> Values:
        return {"y": x.u_last, "u_last": u.u}


@dataclass(frozen=True, eq=False)
class Delay(Block):
    """The signal n samples ago: y[k] = u[k-n], and y0 before there is one."""

    n: int
    sample_time: float
    shape: Shape | None = None
    y0: Any = 0.0
    unit: Unit = ""

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or not self.n >= 1:
            raise ValueError(f"a delay takes 1 sample or more, not {self.n!r}")
        _check_samples(self.n)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u."""
        return (_u(self),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (_y(self, f"signal {self.n} samples ago", self.y0),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """y, and the buffer (n, *shape) of what is to come, the next first."""
        return (
            *self.outputs,
            _buffer(self, self.n, "last samples, the oldest first"),
        )

    def update(self, x: Record, u: Record) -> Values:
        return {"y": x.buffer[0], "buffer": _with(x.buffer[1:], last=u.u)}


@dataclass(frozen=True, eq=False)
class TransportDelay(Block):
    """The signal as it was `delay` [s] ago: y(t) = u(t - delay), linear between samples of
    `sample_time`.

    The error is that of the straight line between two samples, at most max|d2u/dt2| T^2 / 8. The
    delay must be one sample or more; before there is a signal it was `y0`.
    """

    delay: float
    sample_time: float
    shape: Shape | None = None
    y0: Any = 0.0
    unit: Unit = ""

    def __post_init__(self) -> None:
        if not np.isfinite(self.delay) or self._ages < 1 - 1e-9:
            raise ValueError(
                f"a transport delay of {self.delay} s needs a sample time of at most that, not "
                f"{self.sample_time} s"
            )
        _check_samples(self._whole)

    @property
    def _ages(self) -> float:
        """The delay in samples."""
        return float(self.delay / self.sample_time)

    @property
    def _whole(self) -> int:
        """The whole samples in the delay, one that rounding has left just short of counted."""
        return floor(self._ages + 1e-9)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u."""
        return (_u(self),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (Port("y", _shape(self), self.unit, f"signal {self.delay} s ago"),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """The buffer (n, *shape) of the last samples, and the time of the last one."""
        return (
            _buffer(self, self._whole + 2, "last samples, the newest first"),
            Port("t_last", (), "s", "time of the last sample", 0.0),
        )

    def update(self, t: Any, x: Record, u: Record) -> Values:
        return {"buffer": _with(x.buffer[:-1], first=u.u), "t_last": t}

    def output(self, t: Any, x: Record) -> Values:
        m, b = self._whole, x.buffer
        age = self._ages - (t - x.t_last) * (1.0 / self.sample_time)  # in samples, m at most
        newer = b[m - 1] + (age - (m - 1)) * (b[m] - b[m - 1])
        older = b[m] + (age - m) * (b[m + 1] - b[m])
        return {"y": newer if self._ages - m < 1e-9 else select(age > m, older, newer)}


@dataclass(frozen=True, eq=False)
class RateTransition(Block):
    """A signal from a part that samples every `source_time` to one that samples every
    `target_time`, the same in whatever order they step.

    To a slower part it is held, y = u at the slower instants; to a faster one it is also delayed by
    one slow sample. One of the times must be a multiple of the other.
    """

    source_time: float
    target_time: float
    shape: Shape | None = None
    y0: Any = 0.0
    unit: Unit = ""

    def __post_init__(self) -> None:
        slow, fast = self.sample_time, min(self.source_time, self.target_time)
        if not fast > 0 or abs(slow / fast - round(slow / fast)) > 1e-9:
            raise ValueError(
                "one of the sample times of a rate transition must be a multiple of the other, not "
                f"{self.source_time} s and {self.target_time} s"
            )

    @property
    def sample_time(self) -> float:  # type: ignore[override]  # the slower of the two
        """The slower of the two sample times [s]."""
        return max(self.source_time, self.target_time)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u."""
        return (_u(self),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (_y(self, "signal at the slower rate", self.y0),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """y, and to a faster part the last u."""
        last = Port("u_last", _shape(self), self.unit, "signal at the last sample", self.y0)
        return (*self.outputs, last) if self._delays else self.outputs

    @property
    def _delays(self) -> bool:
        return self.target_time < self.source_time

    def update(self, x: Record, u: Record) -> Values:
        return {"y": x.u_last, "u_last": u.u} if self._delays else {"y": u.u}


def _shape(block: Any) -> tuple[int, ...]:
    return signal_shape(f"a {type(block).__name__}", block.shape, y0=getattr(block, "y0", 0.0))


def _u(block: Any) -> Port:
    return Port("u", _shape(block), block.unit, "signal")


def _y(block: Any, doc: str, start: Any) -> Port:
    return Port("y", _shape(block), block.unit, doc, filled(start, _shape(block)))


def _buffer(block: Any, n: int, doc: str) -> Port:
    """The port of n samples that are remembered."""
    shape = (n, *_shape(block))
    unit = block.unit if isinstance(block.unit, str) else tuple(block.unit) * n
    return Port("buffer", shape, unit, doc, filled(block.y0, shape))


def _with(samples: Any, first: Any = None, last: Any = None) -> Any:
    """The samples with one more before or behind them."""
    before = [] if first is None else [first]
    behind = [] if last is None else [last]
    return np.array([*before, *samples, *behind])


def _check_samples(n: int) -> None:
    if n > MOST_SAMPLES:
        raise ValueError(
            f"a delay of {n} samples is too long: at most {MOST_SAMPLES} are remembered; take a "
            "longer sample time"
        )
