"""The PID controller."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.library.nonlinear import check_band, limit_ports, limited
from rigidblocks.library.signals import Shape, Unit, filled, signal_shape


@dataclass(frozen=True, eq=False)
class PID(Block):
    """A controller of one signal, or of each element of a signal by itself, in parallel form.

        v = kp (b ref - meas) + I + D,   y = v limited to [lower, upper]
        dI/dt = ki (ref - meas) + (y - v) / Tt,   D = kd s / (Tf s + 1) (c ref - meas)

    `b` and `c` say how much of the reference the proportional and the derivative part see. `Tf` [s]
    is the lag of the derivative, which kd needs. Anti-windup is back-calculation: at a limit the
    integral goes back with the time constant `Tt` [s], kp / ki unless given. A limit that is None
    is not there.

    With a `sample_time` h it computes at its samples and holds y (Astrom and Wittenmark,
    Computer-Controlled Systems, 8.5):

        D[k] = (Tf D[k-1] + kd (e[k] - e[k-1])) / (Tf + h),   e = c ref - meas
        I[k+1] = I[k] + h (ki (ref - meas) + (y - v) / Tt)

    The gains are numbers or have the shape of the signal.
    """

    kp: Any
    ki: Any = 0.0
    kd: Any = 0.0
    Tf: float | None = None
    lower: Any = None
    upper: Any = None
    Tt: Any = None
    b: float = 1.0
    c: float = 1.0
    shape: Shape | None = None
    sample_time: float | None = None
    unit: Unit = ""
    unit_in: Unit = ""

    def __post_init__(self) -> None:
        check_band("a PID controller", self._shape, self.lower, self.upper)
        if self._differentiates and not (self.Tf or 0) > 0 and not self.sample_time:
            raise ValueError(
                f"a PID controller with kd = {self.kd} needs the lag Tf of its derivative above "
                f"zero, not {self.Tf} s"
            )
        if self._winds_up and self.Tt is None and not np.all(np.asarray(self.kp) > 0):
            raise ValueError(
                f"a PID controller with limits and kp = {self.kp} needs the time constant Tt of "
                "its anti-windup"
            )

    @property
    def _shape(self) -> tuple[int, ...]:
        return signal_shape("a PID controller", self.shape, kp=self.kp, ki=self.ki, kd=self.kd)

    @property
    def _integrates(self) -> bool:
        return bool(np.any(np.asarray(self.ki)))

    @property
    def _differentiates(self) -> bool:
        return bool(np.any(np.asarray(self.kd)))

    @property
    def _winds_up(self) -> bool:
        return self._integrates and not (self.lower is None and self.upper is None)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """ref and meas."""
        return (
            Port("ref", self._shape, self.unit_in, "reference"),
            Port("meas", self._shape, self.unit_in, "measured signal"),
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        start = 0.0 if self.sample_time else None
        return (Port("y", self._shape, self.unit, "control signal", start),)

    @property
    def _memories(self) -> tuple[Port, ...]:
        integral = Port("I", self._shape, self.unit, "integral part", 0.0)
        return (integral,) if self._integrates else ()

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """Without a sample time the integral part I, and x, the signal behind the lag of the
        derivative; where there are such parts.
        """
        x = Port("x", self._shape, self.unit_in, "c ref - meas behind the lag", 0.0)
        lag = (x,) if self._differentiates else ()
        return () if self.sample_time else (*self._memories, *lag)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """With a sample time y, I, the derivative part D, and e at the last sample."""
        lag = (
            Port("D", self._shape, self.unit, "derivative part", 0.0),
            Port("e_last", self._shape, self.unit_in, "c ref - meas at the last sample", 0.0),
        )
        parts = (*self._memories, *(lag if self._differentiates else ()))
        return (*self.outputs, *parts) if self.sample_time else ()

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """kp, ki, kd, Tf and Tt as far as they do something, and lower and upper."""
        shape, ports = self._shape, [Port("kp", self._shape, "", "proportional gain", self.kp)]
        if self._integrates:
            ports.append(Port("ki", shape, "", "integral gain, per s", self.ki))
        if self._differentiates:
            ports.append(Port("kd", shape, "", "derivative gain, times s", self.kd))
            ports.append(Port("Tf", (), "s", "lag of the derivative", self.Tf or 0.0, min=0.0))
        if self._winds_up:
            Tt = filled(self._back, shape)
            ports.append(Port("Tt", shape, "s", "time constant of anti-windup", Tt, positive=True))
        return (*ports, *limit_ports(shape, self.unit, self.lower, self.upper))

    @property
    def _back(self) -> Any:
        """Tt, by default kp / ki; 1 s of an element without an integral part."""
        if self.Tt is not None:
            return self.Tt
        kp, ki = np.broadcast_arrays(np.asarray(self.kp, float), np.asarray(self.ki, float))
        return np.divide(kp, ki, out=np.ones_like(kp), where=ki != 0)

    def _limited(self, v: Any, p: Record) -> Any:
        return limited(v, self.lower is not None, self.upper is not None, p)

    def _integral_rate(self, u: Record, p: Record, y: Any, v: Any) -> Any:
        rate = p.ki * (u.ref - u.meas)
        return rate + (y - v) / p.Tt if self._winds_up else rate

    def _v(self, x: Record, u: Record, p: Record, D: Any) -> Any:
        v = p.kp * (self.b * u.ref - u.meas)
        v = v + x.I if self._integrates else v
        return v + D if self._differentiates else v

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time:
            return {}
        rate = (self.c * u.ref - u.meas - x.x) / p.Tf if self._differentiates else 0.0
        v = self._v(x, u, p, p.kd * rate if self._differentiates else 0.0)
        values = {"x": rate} if self._differentiates else {}
        if self._integrates:
            values["I"] = self._integral_rate(u, p, self._limited(v, p), v)
        return values

    def output(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time:
            return {}
        D = p.kd * ((self.c * u.ref - u.meas - x.x) / p.Tf) if self._differentiates else 0.0
        return {"y": self._limited(self._v(x, u, p, D), p)}

    def initial(self, x: Record, u: Record, p: Record) -> Values:
        """The derivative part is zero at the first sample."""
        e = self.c * u.ref - u.meas
        return self._sample(x, u, p, 0.0 * e, e) if self.sample_time else {}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if not self.sample_time:
            return {}
        e = self.c * u.ref - u.meas
        D: Any = 0.0
        if self._differentiates:
            D = (p.Tf * x.D + p.kd * (e - x.e_last)) / (p.Tf + self.sample_time)
        return self._sample(x, u, p, D, e)

    def _sample(self, x: Record, u: Record, p: Record, D: Any, e: Any) -> Values:
        v = self._v(x, u, p, D)
        values = {"y": (y := self._limited(v, p))}
        if self._integrates:
            assert self.sample_time is not None
            values["I"] = x.I + self.sample_time * self._integral_rate(u, p, y, v)
        return values | ({"D": D, "e_last": e} if self._differentiates else {})
