"""Integrals, derivatives and lags of signals."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import select
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.library.nonlinear import TRUE, check_band, held_rate, limit_ports, limited
from rigidblocks.library.signals import Shape, Unit, signal_shape
from rigidblocks.library.sources import rate_unit


@dataclass(frozen=True, eq=False)
class Integrator(Block):
    """The integral of a signal: dy/dt = u, from `y0` on, within the limits that are not None.

    At a limit y stays while u leads out of it. With `reset` there is an input of that name: while
    it is above 0.5, y is y0. With a `sample_time` T it is the sum y[k] = y[k-1] + T u[k-1], Euler's
    method. `unit` is that of y; u has it per s.
    """

    shape: Shape | None = None
    y0: Any = 0.0
    lower: Any = None
    upper: Any = None
    reset: bool = False
    sample_time: float | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        check_band("an integrator", self._shape, self.lower, self.upper)

    @property
    def _shape(self) -> tuple[int, ...]:
        return signal_shape("an integrator", self.shape, y0=self.y0)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u, and reset where there is one."""
        u = Port("u", self._shape, _rate(self.unit), "signal")
        reset = Port("reset", (), "1", "whether y is y0, 0 or 1", 0.0)
        return (u, reset) if self.reset else (u,)

    @property
    def _y(self) -> Port:
        return Port("y", self._shape, self.unit, "integral", self.y0)

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
        """With a sample time y, and the last u."""
        last = Port("u_last", self._shape, _rate(self.unit), "signal at the last sample", 0.0)
        return (self._y, last) if self.sample_time else ()

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """lower and upper, those that there are, and y_reset, to which a reset leads."""
        limits = limit_ports(self._shape, self.unit, self.lower, self.upper)
        back = Port("y_reset", self._shape, self.unit, "value after a reset", self.y0)
        return (*limits, back) if self.reset else limits

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time:
            return {}
        rate = select(u.reset > TRUE, 0.0, u.u) if self.reset else u.u
        return {"y": held_rate(x.y, rate, self.lower is not None, self.upper is not None, p)}

    def project(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time or not (self.reset or self.parameters):
            return {}
        return {"y": self._placed(x.y, u, p)}

    def initial(self, x: Record, u: Record, p: Record) -> Values:
        return {"y": self._placed(x.y, u, p), "u_last": u.u} if self.sample_time else {}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if not self.sample_time:
            return {}
        return {"y": self._placed(x.y + self.sample_time * x.u_last, u, p), "u_last": u.u}

    def _placed(self, y: Any, u: Record, p: Record) -> Any:
        """y after a reset, and within its limits."""
        y = select(u.reset > TRUE, p.y_reset, y) if self.reset else y
        return limited(y, self.lower is not None, self.upper is not None, p)


@dataclass(frozen=True, eq=False)
class Derivative(Block):
    """The derivative of a signal behind a lag of `T` [s]: y = s / (T s + 1) u.

        dx/dt = (u - x) / T,  y = (u - x) / T,  x = u0 at the start

    With a `sample_time` h, y[k] = (T y[k-1] + u[k] - u[k-1]) / (T + h), Euler's implicit method,
    which takes T = 0 for the plain difference; it starts at y = 0. `unit` is that of y.
    """

    T: float
    shape: Shape | None = None
    u0: Any = 0.0
    sample_time: float | None = None
    unit: Unit = ""
    unit_in: Unit = ""

    def __post_init__(self) -> None:
        if not (self.T > 0 or (self.sample_time and self.T == 0)):
            raise ValueError(
                f"a derivative needs a lag T above zero, or a sample time and T = 0, not {self.T} s"
            )

    @property
    def _shape(self) -> tuple[int, ...]:
        return signal_shape("a derivative", self.shape, u0=self.u0)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u."""
        return (Port("u", self._shape, self.unit_in, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (Port("y", self._shape, self.unit, "filtered derivative", self._start),)

    @property
    def _start(self) -> float | None:
        return 0.0 if self.sample_time else None

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """x, without a sample time."""
        text = "signal behind the lag"
        return () if self.sample_time else (Port("x", self._shape, self.unit_in, text, self.u0),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """With a sample time y, and the last u."""
        last = Port("u_last", self._shape, self.unit_in, "signal at the last sample", 0.0)
        return (*self.outputs, last) if self.sample_time else ()

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """T, but where it is zero."""
        return (Port("T", (), "s", "time constant", self.T, positive=True),) if self.T else ()

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        return {} if self.sample_time else {"x": (u.u - x.x) / p.T}

    def initial(self, x: Record, u: Record) -> Values:
        return {"y": x.y, "u_last": u.u} if self.sample_time else {}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if not self.sample_time:
            return {}
        T = p.T if self.T else 0.0
        return {"y": (T * x.y + (u.u - x.u_last)) / (T + self.sample_time), "u_last": u.u}

    def output(self, x: Record, u: Record, p: Record) -> Values:
        return {} if self.sample_time else {"y": (u.u - x.x) / p.T}


@dataclass(frozen=True, eq=False)
class LowPass(Block):
    """A lag of first order: T dy/dt = u - y, y = 1 / (T s + 1) u, from `y0` on.

    With a `sample_time` h, y[k] = a y[k-1] + (1 - a) u[k] with a = exp(-h / T), the same for an
    input that is held. The cutoff frequency is 1 / (2 pi T) [Hz].
    """

    T: float
    shape: Shape | None = None
    y0: Any = 0.0
    sample_time: float | None = None
    unit: Unit = ""

    @property
    def _shape(self) -> tuple[int, ...]:
        return signal_shape("a low pass", self.shape, y0=self.y0)

    @property
    def _y(self) -> Port:
        return Port("y", self._shape, self.unit, "signal behind the lag", self.y0)

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
        """T."""
        return (Port("T", (), "s", "time constant", self.T, positive=True),)

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        return {} if self.sample_time else {"y": (u.u - x.y) / p.T}

    def initial(self, x: Record) -> Values:
        return {"y": x.y} if self.sample_time else {}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if not self.sample_time:
            return {}
        a = np.exp(-self.sample_time / p.T)
        return {"y": a * x.y + (1.0 - a) * u.u}


def _rate(unit: str) -> str:
    return rate_unit(unit) if unit else ""
