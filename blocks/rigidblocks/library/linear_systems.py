"""Blocks with linear dynamics: integrator, derivative, filter, transfer function, state space."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.library.nonlinear_signals import (
    TRUE,
    check_band,
    clamp,
    limit_ports,
    stop_rate_at_limits,
)
from rigidblocks.library.signals import Shape, SignalWithState, Unit, signal_shape
from rigidblocks.library.sources import rate_unit
from rigidblocks.spatial.scalar import select
from rigidblocks.spatial.spatial import Array


@dataclass(frozen=True, eq=False)
class Integrator(SignalWithState):
    """Integrator of a signal, dy/dt = u, with the initial value `y0` and optional limits.

    At a limit, y is constant while the sign of u would make y exceed the limit. The option `reset`
    adds an input `reset`; while this input is above 0.5, y is `y0`. If `sample_time` T [s] is
    given, the block uses the explicit Euler method, y[k] = y[k-1] + T u[k-1]. `unit` is the unit of
    y, and the unit of u is `unit` per s.
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
        """Input port u, and with the option `reset` also the input port `reset`."""
        u = Port("u", self._shape, _rate(self.unit), "signal")
        reset = Port("reset", (), "1", "reset of y to y0, 0 or 1", 0.0)
        return (u, reset) if self.reset else (u,)

    @property
    def _y(self) -> Port:
        return Port("y", self._shape, self.unit, "integral", self.y0)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled state ports for y and the last input, or () without a sample time."""
        last = Port("u_last", self._shape, _rate(self.unit), "signal at the last sample", 0.0)
        return (self._y, last) if self.sample_time else ()

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for the limits.

        If the block has the input `reset`, the value y_reset of y during a reset is also a
        parameter.
        """
        limits = limit_ports(self._shape, self.unit, self.lower, self.upper)
        back = Port("y_reset", self._shape, self.unit, "value after a reset", self.y0)
        return (*limits, back) if self.reset else limits

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time:
            return {}
        rate = select(u.reset > TRUE, 0.0, u.u) if self.reset else u.u
        return {
            "y": stop_rate_at_limits(x.y, rate, self.lower is not None, self.upper is not None, p)
        }

    def project(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time or not (self.reset or self.parameters):
            return {}
        return {"y": self._reset_and_clamp(x.y, u, p)}

    def initial(self, x: Record, u: Record, p: Record) -> Values:
        return {"y": self._reset_and_clamp(x.y, u, p), "u_last": u.u} if self.sample_time else {}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if not self.sample_time:
            return {}
        return {"y": self._reset_and_clamp(x.y + self.sample_time * x.u_last, u, p), "u_last": u.u}

    def _reset_and_clamp(self, y: Any, u: Record, p: Record) -> Any:
        """Apply the reset and the limits [lower, upper] to y."""
        y = select(u.reset > TRUE, p.y_reset, y) if self.reset else y
        return clamp(y, self.lower is not None, self.upper is not None, p)


@dataclass(frozen=True, eq=False)
class Derivative(Block):
    """Filtered time derivative of a signal, y = s / (T s + 1) u, with the time constant T [s].

        dx/dt = (u - x) / T,  y = (u - x) / T,  x = u0 at the start

    u0 is the first input. If `sample_time` h [s] is given, the block uses the implicit Euler
    method:

        y[k] = (T y[k-1] + u[k] - u[k-1]) / (T + h)

    For T = 0, y is the backward difference. The initial output of a sampled block is 0. `unit` is
    the unit of y, and `unit_in` is the unit of u.

    Raises:
        ValueError: T is negative, or T is zero and the block has no sample time.
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
                f"a derivative needs T > 0, or a sample time and T = 0, but T is {self.T} s"
            )

    @property
    def _shape(self) -> tuple[int, ...]:
        return signal_shape("a derivative", self.shape, u0=self.u0)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Port of the input signal u."""
        return (Port("u", self._shape, self.unit_in, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (Port("y", self._shape, self.unit, "filtered derivative", self._start),)

    @property
    def _start(self) -> float | None:
        return 0.0 if self.sample_time else None

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """Port of the filter state x, or () if the block has a sample time."""
        text = "filtered signal"
        return () if self.sample_time else (Port("x", self._shape, self.unit_in, text, self.u0),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled state ports for y and the last input, or () without a sample time."""
        last = Port("u_last", self._shape, self.unit_in, "signal at the last sample", 0.0)
        return (*self.outputs, last) if self.sample_time else ()

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Port of the parameter T, the time constant [s], or () if T is zero."""
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
class LowPass(SignalWithState):
    """First-order low-pass filter y = 1 / (T s + 1) u with the time constant T [s].

    The filter equation is T dy/dt = u - y, with y = `y0` at the start. If `sample_time` h [s] is
    given, y[k] = a y[k-1] + (1 - a) u[k] with a = exp(-h / T). This is the exact solution for an
    input that is constant between samples. The cutoff frequency is 1 / (2 pi T) [Hz].
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
        return Port("y", self._shape, self.unit, "filtered signal", self.y0)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Port of the parameter T, the time constant [s]."""
        return (Port("T", (), "s", "time constant", self.T, positive=True),)

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        return {} if self.sample_time else {"y": (u.u - x.y) / p.T}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if not self.sample_time:
            return {}
        a = np.exp(-self.sample_time / p.T)
        return {"y": a * x.y + (1.0 - a) * u.u}


def _rate(unit: str) -> str:
    return rate_unit(unit) if unit else ""


@dataclass(frozen=True, eq=False)
class TransferFunction(Block):
    """Transfer function, applied to each element of a signal with the shape `shape`.

        y = (b_0 s^n + ... + b_n) / (a_0 s^n + ... + a_n) u

    `num` contains the coefficients b, and `den` contains the coefficients a, both with the highest
    power first. If `sample_time` is given, the shift operator z replaces s. The degree of the
    numerator must not exceed the degree of the denominator. The states x (n, *shape) of the
    controllable canonical form are initially zero.

    Raises:
        ValueError: The degree of `num` is higher than the degree of `den`, or the first coefficient
            of `den` is zero.
    """

    num: Any
    den: Any
    shape: Shape = ()
    sample_time: float | None = None
    unit: Unit = ""
    unit_in: Unit = ""

    def __post_init__(self) -> None:
        num, den = (np.atleast_1d(np.asarray(c, dtype=float)) for c in (self.num, self.den))
        if num.ndim != 1 or den.ndim != 1 or len(num) > len(den) or den[0] == 0:
            raise ValueError(
                "a transfer function needs num of no higher degree than den, and a nonzero first "
                f"coefficient of den, not num = {self.num} and den = {self.den}"
            )
        object.__setattr__(self, "num", np.concatenate([np.zeros(len(den) - len(num)), num]))
        object.__setattr__(self, "den", den)

    @classmethod
    def from_system(
        cls,
        system: Any,
        shape: Shape = (),
        sample_time: float | None = None,
        unit: Unit = "",
        unit_in: Unit = "",
    ) -> "TransferFunction":
        """Return the block for a transfer function of python-control or SciPy.

        Args:
            system: Transfer function with one input and one output. If its attribute `dt` is a
                positive number, `dt` is the sample time.
            shape: Shape of the signal.
            sample_time: Sample time [s] if `dt` does not define it.
            unit: Unit of the output.
            unit_in: Unit of the input.

        Raises:
            TypeError: The system has no num and den.
            ValueError: The system has several inputs or outputs, or the sample time of a sampled
                system is unknown or differs from `sample_time`.
        """
        if not (hasattr(system, "num") and hasattr(system, "den")):
            raise TypeError(
                f"a {type(system).__name__} has no num and den; pass a transfer function, or "
                "use StateSpace.from_system for a system with matrices"
            )
        num, den = (_coefficients(getattr(system, name)) for name in ("num", "den"))
        return cls(num, den, shape, _sample_time(system, sample_time), unit, unit_in)

    @property
    def _n(self) -> int:
        return len(self.den) - 1

    @property
    def _shape(self) -> tuple[int, ...]:
        return signal_shape("a transfer function", self.shape)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Port of the input signal u."""
        return (Port("u", self._shape, self.unit_in, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        start = 0.0 if self.sample_time else None
        return (Port("y", self._shape, self.unit, "filtered signal", start),)

    @property
    def _x(self) -> tuple[Port, ...]:
        shape = (self._n, *self._shape)
        return (Port("x", shape, "", "states of the canonical form", 0.0),) if self._n else ()

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """Port of the state x (n, *shape), or () if the block has a sample time."""
        return () if self.sample_time else self._x

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled state ports for x (n, *shape) and y, or () without a sample time."""
        return (*self._x, *self.outputs) if self.sample_time else ()

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for the coefficients num and den.

        n is the degree of the denominator. den has n + 1 elements. num has n + 1 elements, or n
        elements if b_0 is zero.
        """
        begin = self._first
        b = Port(
            "num", self.num[begin:].shape, "", "numerator, highest power first", self.num[begin:]
        )
        return (b, Port("den", self.den.shape, "", "denominator, highest power first", self.den))

    @property
    def _first(self) -> int:
        """Index of the first coefficient b in the parameter num: 1 if b_0 is zero, else 0."""
        return 0 if self.num[0] or not self._n else 1

    def _evaluate(self, x: Any, u: Any, p: Record) -> tuple[Any, Any]:
        """Return the pair (dx/dt, y), or for a sampled block the pair (x[k+1], y[k]).

        x contains the states (n, *shape), and u is the input.
        """
        b0, b = (p.num[0], p.num[1:]) if self._first == 0 else (0.0, p.num)
        a = p.den[1:] / p.den[0]
        last = u / p.den[0]
        y = b0 * last if self._first == 0 else 0.0
        for k in range(self._n):
            last = last - a[k] * x[k]
            y = y + (b[k] - b0 * a[k]) * x[k]
        return [last, *x[: self._n - 1]], y

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time or not self._n:
            return {}
        return {"x": np.array(self._evaluate(x.x, u.u, p)[0])}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if not self.sample_time:
            return {}
        after, y = self._evaluate(x.x if self._n else (), u.u, p)
        return {"x": np.array(after), "y": y} if self._n else {"y": y}

    def output(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time:
            return {}
        return {"y": self._evaluate(x.x if self._n else (), u.u, p)[1]}


@dataclass(frozen=True, eq=False)
class StateSpace(Block):
    """Linear state-space system with input u (m,), state x (n,) and output y (p,).

        dx/dt = A x + B u,  y = C x + D u
        x[k+1] = A x[k] + B u[k],  y[k] = C x[k] + D u[k]        with a sample_time

    `x0` is the initial state. If `D` is None or zero, the block has no direct feedthrough. `unit`
    is the unit of y, and `unit_in` is the unit of u.

    Raises:
        ValueError: The shapes of the matrices do not agree.
    """

    A: Any
    B: Any
    C: Any
    D: Any = None
    x0: Any = 0.0
    sample_time: float | None = None
    unit: Unit = ""
    unit_in: Unit = ""

    def __post_init__(self) -> None:
        D = (
            np.zeros((len(np.atleast_2d(self.C)), np.shape(self.B)[-1]))
            if self.D is None
            else self.D
        )
        matrices = {"A": self.A, "B": self.B, "C": self.C, "D": D}
        for name, matrix in matrices.items():
            object.__setattr__(self, name, np.array(matrix, dtype=float))
        n, m, p = len(self.A), self.B.shape[-1], len(self.C)
        wanted = {"A": (n, n), "B": (n, m), "C": (p, n), "D": (p, m)}
        given = {name: np.shape(getattr(self, name)) for name in wanted}
        if given != wanted or not n:
            text = ", ".join(f"{name} {shape}" for name, shape in given.items())
            raise ValueError(
                "a state space needs A (n, n), B (n, m), C (p, n) and D (p, m), not "
                f"{text.replace('(', 'of shape (')}"
            )

    @classmethod
    def from_system(
        cls,
        system: Any,
        x0: Any = 0.0,
        sample_time: float | None = None,
        unit: Unit = "",
        unit_in: Unit = "",
    ) -> "StateSpace":
        """Return the block for a state-space system of python-control or SciPy.

        Args:
            system: System with the matrices A, B, C and D. If its attribute `dt` is a positive
                number, `dt` is the sample time.
            x0: Initial state.
            sample_time: Sample time [s] if `dt` does not define it.
            unit: Unit of the output.
            unit_in: Unit of the input.

        Raises:
            TypeError: The system has no matrices, for example a transfer function; convert it with
                `control.ss`.
            ValueError: The system is sampled, and its sample time is unknown or differs from
                `sample_time`.
        """
        if missing := [name for name in "ABCD" if not hasattr(system, name)]:
            raise TypeError(
                f"a {type(system).__name__} has no {', '.join(missing)}; pass a state space, for "
                "example control.ss(system) or system.to_ss()"
            )
        A, B, C, D = (np.asarray(getattr(system, name)) for name in "ABCD")
        return cls(A, B, C, D, x0, _sample_time(system, sample_time), unit, unit_in)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Port of the input vector u (m,)."""
        return (Port("u", self.B.shape[1:], self.unit_in, "inputs of the system"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output vector y (p,)."""
        start = 0.0 if self.sample_time else None
        return (Port("y", (len(self.C),), self.unit, "outputs of the system", start),)

    @property
    def _x(self) -> Port:
        return Port("x", (len(self.A),), "", "states of the system", self.x0)

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """Port of the state vector x (n,), or () if the block has a sample time."""
        return () if self.sample_time else (self._x,)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled state ports for x (n,) and y (p,), or () without a sample time."""
        return (self._x, *self.outputs) if self.sample_time else ()

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Ports of the parameters A, B and C, and of D if D is not zero."""
        names = "ABCD" if np.any(self.D) else "ABC"
        return tuple(
            Port(name, getattr(self, name).shape, "", f"matrix {name}", getattr(self, name))
            for name in names
        )

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        return {} if self.sample_time else {"x": p.A @ x.x + p.B @ u.u}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if not self.sample_time:
            return {}
        return {"x": p.A @ x.x + p.B @ u.u, "y": self._y(x, u, p)}

    def output(self, x: Record, u: Record, p: Record) -> Values:
        return {} if self.sample_time else {"y": self._y(x, u, p)}

    def _y(self, x: Record, u: Record, p: Record) -> Array:
        y: Array = p.C @ x.x + p.D @ u.u if np.any(self.D) else p.C @ x.x
        return y


def _sample_time(system: Any, requested: float | None) -> float | None:
    """Return the sample time [s] of a python-control or SciPy system; None if it is continuous.

    If the attribute `dt` of the system is True, its sample time is unknown. `requested` is the
    sample time from the user, or None.
    """
    dt = getattr(system, "dt", None)
    own = None if dt is None or dt is True or dt == 0 else float(dt)
    if (dt is True and requested is None) or (own is not None and requested not in (None, own)):
        raise ValueError(f"the system has dt = {dt}, but the given sample time is {requested}")
    return requested if own is None else own


def _coefficients(polynomial: Any) -> Array:
    """Return the coefficients of a polynomial as a vector, highest power first.

    python-control stores one polynomial for each pair of output and input, in nested lists.
    """
    while isinstance(polynomial[0], list | tuple | np.ndarray):
        if len(polynomial) != 1:
            raise ValueError(
                "a transfer function block has one input and one output; convert the system with "
                "control.ss (requires slycot) for StateSpace.from_system, or create one block per "
                "entry"
            )
        polynomial = polynomial[0]
    coefficients: Array = np.trim_zeros(np.asarray(polynomial, dtype=float), "f")
    return coefficients if len(coefficients) else np.zeros(1)
