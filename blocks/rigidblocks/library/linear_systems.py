"""Linear systems: transfer functions and state spaces."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.library.signals import Shape, Unit, signal_shape


@dataclass(frozen=True, eq=False)
class TransferFunction(Block):
    """A transfer function, the same for each element of a signal of `shape`.

        y = (b_0 s^n + ... + b_n) / (a_0 s^n + ... + a_n) u

    `num` and `den` have the coefficients of the highest power first; with a `sample_time` they are
    of the shift z in place of s. The numerator must not have the higher degree. The states x (n,
    *shape), of the controllable canonical form, start at zero.
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
                "a transfer function needs num of no higher degree than den, whose first "
                f"coefficient is not zero, not num = {self.num} and den = {self.den}"
            )
        object.__setattr__(self, "num", np.concatenate([np.zeros(len(den) - len(num)), num]))
        object.__setattr__(self, "den", den)

    @classmethod
    def of(
        cls,
        system: Any,
        shape: Shape = (),
        sample_time: float | None = None,
        unit: Unit = "",
        unit_in: Unit = "",
    ) -> "TransferFunction":
        """The block of a transfer function from one input to one output, as those of python-control
        and of SciPy; its `dt` is the sample time where it is a number above zero.

        Raises TypeError for what has no num and den, ValueError for several inputs or outputs, and
        for a sampled one whose sample time is not known or differs from the one given.
        """
        if not (hasattr(system, "num") and hasattr(system, "den")):
            raise TypeError(
                f"a {type(system).__name__} has no num and den; give a transfer function, or "
                "StateSpace.of what has matrices"
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
        """u."""
        return (Port("u", self._shape, self.unit_in, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        start = 0.0 if self.sample_time else None
        return (Port("y", self._shape, self.unit, "filtered signal", start),)

    @property
    def _x(self) -> tuple[Port, ...]:
        shape = (self._n, *self._shape)
        return (Port("x", shape, "", "states of the canonical form", 0.0),) if self._n else ()

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """x (n, *shape), without a sample time."""
        return () if self.sample_time else self._x

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """With a sample time x (n, *shape), and the held output y."""
        return (*self._x, *self.outputs) if self.sample_time else ()

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """num and den (n + 1,); b0 is in num only where it is not zero."""
        begin = self._first
        b = Port(
            "num", self.num[begin:].shape, "", "numerator, highest power first", self.num[begin:]
        )
        return (b, Port("den", self.den.shape, "", "denominator, highest power first", self.den))

    @property
    def _first(self) -> int:
        """Where the numerator starts: a b0 of zero is known, so that y does not read u."""
        return 0 if self.num[0] or not self._n else 1

    def _next(self, x: Any, u: Any, p: Record) -> tuple[Any, Any]:
        """The rates of the states, or the next states, and the output."""
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
        return {"x": np.array(self._next(x.x, u.u, p)[0])}

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if not self.sample_time:
            return {}
        after, y = self._next(x.x if self._n else (), u.u, p)
        return {"x": np.array(after), "y": y} if self._n else {"y": y}

    def output(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time:
            return {}
        return {"y": self._next(x.x if self._n else (), u.u, p)[1]}


@dataclass(frozen=True, eq=False)
class StateSpace(Block):
    """A linear system, with u (m,), x (n,) from `x0` on, and y (p,).

        dx/dt = A x + B u,  y = C x + D u
        x[k+1] = A x[k] + B u[k],  y[k] = C x[k] + D u[k]        with a sample_time

    A D that is None, or zero, is not there: y then does not read u at once.
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
    def of(
        cls,
        system: Any,
        x0: Any = 0.0,
        sample_time: float | None = None,
        unit: Unit = "",
        unit_in: Unit = "",
    ) -> "StateSpace":
        """The block of a system that has matrices A, B, C and D, as those of python-control and of
        SciPy; its `dt` is the sample time where it is a number above zero.

        Raises TypeError for what has no matrices, such as a transfer function (`control.ss` makes
        it a system with states), and ValueError for a sampled one whose sample time is not known
        or differs from the one given.
        """
        if missing := [name for name in "ABCD" if not hasattr(system, name)]:
            raise TypeError(
                f"a {type(system).__name__} has no {', '.join(missing)}; give a state space, as of "
                "control.ss(system) or system.to_ss()"
            )
        A, B, C, D = (np.asarray(getattr(system, name)) for name in "ABCD")
        return cls(A, B, C, D, x0, _sample_time(system, sample_time), unit, unit_in)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u (m,)."""
        return (Port("u", self.B.shape[1:], self.unit_in, "inputs of the system"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y (p,)."""
        start = 0.0 if self.sample_time else None
        return (Port("y", (len(self.C),), self.unit, "outputs of the system", start),)

    @property
    def _x(self) -> Port:
        return Port("x", (len(self.A),), "", "states of the system", self.x0)

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """x (n,), without a sample time."""
        return () if self.sample_time else (self._x,)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """With a sample time x (n,), and the held outputs y."""
        return (self._x, *self.outputs) if self.sample_time else ()

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """A, B and C, and D where it is not zero."""
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


def _sample_time(system: Any, given: float | None) -> float | None:
    """The sample time [s] of a system of another library, which may be left open there (True)."""
    dt = getattr(system, "dt", None)
    told = None if dt is None or dt is True or dt == 0 else float(dt)
    if (dt is True and given is None) or (told is not None and given not in (None, told)):
        raise ValueError(f"the system has dt = {dt}, and the sample time given is {given}")
    return given if told is None else told


def _coefficients(polynomial: Any) -> Array:
    """The coefficients of a polynomial; python-control has a table of them, one for each output and
    input.
    """
    while isinstance(polynomial[0], list | tuple | np.ndarray):
        if len(polynomial) != 1:
            raise ValueError(
                "a transfer function block has one input and one output; make it a state space "
                "(control.ss, with slycot) for StateSpace.of, or a block of each entry"
            )
        polynomial = polynomial[0]
    coefficients: Array = np.trim_zeros(np.asarray(polynomial, dtype=float), "f")
    return coefficients if len(coefficients) else np.zeros(1)
