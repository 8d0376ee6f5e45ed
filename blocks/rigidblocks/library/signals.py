"""Signal blocks: routing, arithmetic, holds, delays and resampling.

The outputs of the routing and arithmetic blocks depend only on the current inputs.
"""

import abc
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import floor, prod
from typing import Any

import numpy as np

from rigidblocks.block.block import (
    Block,
    Port,
    Record,
    Values,
    finite,
    with_any_arguments,
)
from rigidblocks.spatial.scalar import select
from rigidblocks.spatial.spatial import Array

Shape = int | tuple[int, ...]
Unit = str | tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Constant(Block):
    """Constant signal: y = value, with the shape of the value."""

    value: Any
    unit: Unit = ""

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output y."""
        return (Port("y", np.shape(self.value), self.unit, "value"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter value."""
        return (Port("value", np.shape(self.value), self.unit, "value of the output", self.value),)

    def output(self, p: Record) -> Values:
        return {"y": p.value}


@dataclass(frozen=True, eq=False)
class Gain(Block):
    """Gain: y = k u, element by element, or y = K u with a matrix.

    `k` is a scalar for all elements of a signal of `shape`, or has that shape. If `matrix` is True,
    k is a matrix (m, n) and maps u (n,) to y (m,). `unit_in` is the unit of u, and `unit` is the
    unit of y.
    """

    k: Any
    shape: Shape | None = None
    matrix: bool = False
    unit: Unit = ""
    unit_in: Unit = ""

    def __post_init__(self) -> None:
        if self.matrix and (np.ndim(self.k) != 2 or self.shape is not None):
            raise ValueError(
                "a matrix gain needs k of shape (m, n) and the default `shape`, not k of shape "
                f"{np.shape(self.k)} and `shape` {self.shape}"
            )
        if not self.matrix:
            signal_shape("a gain", self.shape, k=self.k)

    @property
    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of u and y."""
        if self.matrix:
            m, n = np.shape(self.k)
            return (n,), (m,)
        shape = signal_shape("a gain", self.shape, k=self.k)
        return shape, shape

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input u."""
        return (Port("u", self._shapes[0], self.unit_in, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output y."""
        return (Port("y", self._shapes[1], self.unit, "signal times k"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter k, with the shape of its value."""
        return (Port("k", np.shape(self.k), "", "gain", self.k),)

    def output(self, u: Record, p: Record) -> Values:
        return {"y": p.k @ u.u if self.matrix else p.k * u.u}


@dataclass(frozen=True, eq=False)
class Sum(Block):
    """Sum of signals of equal shape with signs: y = + u1 - u2 ... for signs "+-".

    An input that is not connected is zero.
    """

    signs: str = "++"
    shape: Shape = ()
    unit: Unit = ""

    def __post_init__(self) -> None:
        _check_text("the signs of a sum", self.signs, "+-")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs u1, u2, ..., one for each sign."""
        return tuple(
            Port(f"u{k}", as_shape(self.shape), self.unit, f"counts with the sign {sign}", 0.0)
            for k, sign in enumerate(self.signs, 1)
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output y."""
        return (Port("y", as_shape(self.shape), self.unit, "sum"),)

    def output(self, u: Record) -> Values:
        first, *rest = (
            term if sign == "+" else -term
            for sign, term in zip(self.signs, vars(u).values(), strict=True)
        )
        total = first
        for term in rest:
            total = total + term
        return {"y": total}


@dataclass(frozen=True, eq=False)
class Product(Block):
    """Product of signals of equal shape, element by element: y = u1 * u2 / u3 for "**/".

    A division by zero gives a non-finite value, which ends the run.
    """

    operations: str = "**"
    shape: Shape = ()
    unit: Unit = ""

    def __post_init__(self) -> None:
        _check_text("the operations of a product", self.operations, "*/")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs u1, u2, ..., one for each operation."""
        texts = {"*": "factor", "/": "divisor"}
        return tuple(
            Port(f"u{k}", as_shape(self.shape), "", texts[operation], 1.0)
            for k, operation in enumerate(self.operations, 1)
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output y."""
        return (Port("y", as_shape(self.shape), self.unit, "product"),)

    def output(self, u: Record) -> Values:
        value: Any = 1.0
        for operation, factor in zip(self.operations, vars(u).values(), strict=True):
            value = value * factor if operation == "*" else value / factor
        return {"y": value}


class ConcatenatedSignals(Block):
    """Vector and the signals of which it consists; signal k has `sizes`[k - 1] elements.

    A size of () is a scalar. Subclasses have the fields `sizes` and `unit`.
    """

    sizes: tuple[Shape, ...]
    unit: Unit

    def __post_init__(self) -> None:
        _ = self._shapes  # raises an error if sizes are invalid

    @cached_property
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return _sizes(f"a {type(self).__name__.lower()}", self.sizes)

    def _vector(self, name: str) -> Port:
        return Port(name, (sum(map(prod, self._shapes)),), self.unit, "all signals in one")


@dataclass(frozen=True, eq=False)
class Mux(ConcatenatedSignals):
    """Concatenation of signals into a vector: y = (u1, u2, ...); u<k> has `sizes`[k - 1] elements.

    A size of () is a scalar.
    """

    sizes: tuple[Shape, ...]
    unit: Unit = ""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs u1, u2, ..."""
        return _pieces("u", self._shapes, self.unit, "elements {} of y")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output y (n,)."""
        return (self._vector("y"),)

    def output(self, u: Record) -> Values:
        return {"y": np.concatenate([np.ravel(value) for value in vars(u).values()])}


@dataclass(frozen=True, eq=False)
class Demux(ConcatenatedSignals):
    """Split of a vector: (y1, y2, ...) = u; y<k> has `sizes`[k - 1] elements.

    A size of () is a scalar.
    """

    sizes: tuple[Shape, ...]
    unit: Unit = ""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input u (n,)."""
        return (self._vector("u"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs y1, y2, ..."""
        return _pieces("y", self._shapes, self.unit, "elements {} of u")

    def output(self, u: Record) -> Values:
        ends = np.cumsum([0, *map(prod, self._shapes)])
        pieces = (u.u[a:b] for a, b in pairwise(ends))
        return {
            port.name: piece if port.shape else piece[0]
            for port, piece in zip(self.outputs, pieces, strict=True)
        }


@dataclass(frozen=True, eq=False)
class Selector(Block):
    """Selection of vector elements: y[k] = u[elements[k]], with indices from 1.

    `n` is the length of u. An index may occur more than once. Indices in connections also start at
    1.
    """

    n: int
    elements: tuple[int, ...]
    unit: str = ""

    def __post_init__(self) -> None:
        wrong = [k for k in self.elements if not 1 <= k <= self.n]
        if wrong or not len(self.elements):
            raise ValueError(
                f"`elements` of a selector must contain one or more indices from 1 to {self.n}, "
                f"not {self.elements}"
            )

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input u (n,)."""
        return (Port("u", (self.n,), self.unit, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output y, with one element for each selected element."""
        return (Port("y", (len(self.elements),), self.unit, "elements of u"),)

    def output(self, u: Record) -> Values:
        return {"y": u.u[np.array(self.elements) - 1]}


def as_shape(shape: Shape) -> tuple[int, ...]:
    """Return a shape as a tuple; an integer n means the vector shape (n,)."""
    return (shape,) if isinstance(shape, int) else tuple(shape)


def signal_shape(subject: str, shape: Shape | None, **values: Any) -> tuple[int, ...]:
    """Return the shape of a signal: `shape` if it is given, else the shape of the array values.

    Raises:
        ValueError: A value has a different shape or is not finite. The error message uses `subject`
            as the name of the block.
    """
    shapes = {name: np.shape(value) for name, value in values.items() if np.ndim(value)}
    wanted = next(iter(shapes.values()), ()) if shape is None else as_shape(shape)
    for name, own in shapes.items():
        if own != wanted:
            raise ValueError(
                f"{subject} of shape {wanted} needs {name} of that shape, or a scalar, not {own}"
            )
    for name, value in values.items():
        if value is not None:
            finite(value, wanted, f"{name} of {subject}")
    return wanted


def broadcast_start(value: Any, shape: tuple[int, ...]) -> Array:
    """Return a start value as an array of this shape; a scalar applies to all elements."""
    return np.array(np.broadcast_to(np.asarray(value, dtype=float), shape))


def _check_text(subject: str, text: Any, known: str) -> None:
    if not isinstance(text, str) or not text or set(text) - set(known):
        raise ValueError(f"{subject} must be a string of {known[0]} and {known[1]}, not {text!r}")


def _sizes(subject: str, sizes: Any) -> tuple[tuple[int, ...], ...]:
    shapes = tuple(map(as_shape, sizes)) if isinstance(sizes, tuple | list) else ()
    if not shapes or any(len(shape) > 1 or prod(shape) < 1 for shape in shapes):
        raise ValueError(
            f"invalid signal lengths {sizes} of {subject}; expected one length per signal, () for "
            "a scalar, for example (2, (), 3)"
        )
    return shapes


def _pieces(
    letter: str, sizes: tuple[tuple[int, ...], ...], unit: Unit, doc: str
) -> tuple[Port, ...]:
    """Return a port per element of `sizes`, with the names `letter`1, `letter`2, ..."""
    ports, begin = [], 0
    for k, shape in enumerate(sizes, 1):
        end = begin + prod(shape)
        own = unit if isinstance(unit, str) else unit[begin:end]
        text = doc.format(f"{begin + 1} to {end}")
        ports.append(Port(f"{letter}{k}", shape, own, text))
        begin = end
    return tuple(ports)


class SignalWithState(Block):
    """Block with a signal u as input and a state y as output.

    y is a sampled state if the block has a sample time, else a continuous state.
    """

    unit: Unit

    @property
    @abc.abstractmethod
    def _shape(self) -> tuple[int, ...]:
        """Shape of u and y."""

    @property
    @abc.abstractmethod
    def _y(self) -> Port:
        """Port y."""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input u."""
        return (Port("u", self._shape, self.unit, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output y."""
        return (self._y,)

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """State y; empty if the block has a sample time."""
        return () if self.sample_time else (self._y,)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled state y; empty if the block has no sample time."""
        return (self._y,) if self.sample_time else ()

    @with_any_arguments
    def initial(self, x: Record) -> Values:
        return {"y": x.y} if self.sample_time else {}


MOST_SAMPLES = 5000  # maximum buffer length; a shift compiles to one statement per sample


def check_delay(subject: str, samples: Any, least: int) -> None:
    """Check a delay in samples.

    Raises:
        ValueError: The number of samples is not an integer from `least` to `MOST_SAMPLES`.
    """
    if isinstance(samples, bool) or not isinstance(samples, int) or samples < least:
        plural = "" if least == 1 else "s"
        raise ValueError(
            f"{subject} must be an integer of at least {least} sample{plural}, not {samples!r}"
        )
    if samples > MOST_SAMPLES:
        raise ValueError(
            f"a delay of {samples} samples is too long: the maximum is {MOST_SAMPLES} samples; "
            "increase the sample time"
        )


def sample_buffer(
    samples: int, shape: tuple[int, ...], unit: Unit, start: Any, name: str = "buffer"
) -> tuple[Port, ...]:
    """Return the port of the stored samples (n, *shape), the oldest first; none for n = 0."""
    if not samples:
        return ()
    units = unit if isinstance(unit, str) else tuple(unit) * samples
    whole = (samples, *shape)
    doc = "last samples, the oldest first"
    return (Port(name, whole, units, doc, broadcast_start(start, whole)),)


def shift_buffer(buffer: Any, u: Any) -> Any:
    """Return the stored samples after a sample u: the oldest is dropped, and u is appended."""
    return np.array([*buffer[1:], u])


class DelayedSignal(Block):
    """Sampled block that delays a signal by a fixed number of samples: y[k] = u[k-n].

    n = 0 only holds the signal. For k < n, y is `y0`. Subclasses have the fields `shape` and
    `unit`.
    """

    shape: Shape | None
    unit: Unit
    y0: Any = 0.0

    @property
    @abc.abstractmethod
    def _samples(self) -> int:
        """Number n of stored samples."""

    @property
    def _shape(self) -> tuple[int, ...]:
        return signal_shape(f"a {type(self).__name__}", self.shape, y0=self.y0)

    @property
    def _buffer(self) -> tuple[Port, ...]:
        return sample_buffer(self._samples, self._shape, self.unit, self.y0)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input u."""
        return (Port("u", self._shape, self.unit, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output y."""
        n = self._samples
        doc = f"signal {n} sample{'s' * (n > 1)} ago" if n else "signal at the last sample"
        return (Port("y", self._shape, self.unit, doc, broadcast_start(self.y0, self._shape)),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled states: output y, and the last n samples (n, *shape), the oldest first."""
        return (*self.outputs, *self._buffer)

    @with_any_arguments
    def update(self, x: Record, u: Record) -> Values:
        if not self._samples:
            return {"y": u.u}
        return {"y": x.buffer[0], "buffer": shift_buffer(x.buffer, u.u)}


@dataclass(frozen=True, eq=False)
class ZeroOrderHold(DelayedSignal):
    """Zero-order hold: y = u[k], the signal at the last sample instant, every `sample_time` [s]."""

    sample_time: float
    shape: Shape = ()
    unit: Unit = ""

    @property
    def _samples(self) -> int:
        return 0


@dataclass(frozen=True, eq=False)
class UnitDelay(DelayedSignal):
    """Delay by one sample: y[k] = u[k-1], and y[0] = y0."""

    sample_time: float
    shape: Shape | None = None
    y0: Any = 0.0
    unit: Unit = ""

    @property
    def _samples(self) -> int:
        return 1


@dataclass(frozen=True, eq=False)
class Delay(DelayedSignal):
    """Delay by n samples: y[k] = u[k-n], and y[k] = y0 for k < n."""

    n: int
    sample_time: float
    shape: Shape | None = None
    y0: Any = 0.0
    unit: Unit = ""

    def __post_init__(self) -> None:
        check_delay("a delay", self.n, 1)

    @property
    def _samples(self) -> int:
        return self.n


@dataclass(frozen=True, eq=False)
class TransportDelay(DelayedSignal):
    """Transport delay by `delay` [s]: y(t) = u(t - delay), with linear interpolation of samples.

    The block samples u every `sample_time` T. The interpolation error is at most max|d2u/dt2| T^2 /
    8. The delay must be at least one sample time. For t < delay, the output is `y0`.
    """

    delay: float
    sample_time: float
    shape: Shape | None = None
    y0: Any = 0.0
    unit: Unit = ""

    def __post_init__(self) -> None:
        if not np.isfinite(self.delay) or self._ages < 1 - 1e-9:
            raise ValueError(
                "the sample time of a transport delay must not exceed the delay of "
                f"{self.delay} s, but is {self.sample_time} s"
            )
        check_delay("a transport delay", self._whole, 1)

    @property
    def _ages(self) -> float:
        """Delay in units of the sample time."""
        return float(self.delay / self.sample_time)

    @property
    def _whole(self) -> int:
        """Number of whole sample times in the delay; a tolerance absorbs rounding errors."""
        return floor(self._ages + 1e-9)

    @property
    def _samples(self) -> int:
        return self._whole + 2

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output y."""
        return (Port("y", self._shape, self.unit, f"signal {self.delay} s ago"),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled states: the last samples (n, *shape), and the time of the last sample."""
        return (*self._buffer, Port("t_last", (), "s", "time of the last sample", 0.0))

    def update(self, t: Any, x: Record, u: Record) -> Values:
        return {"buffer": shift_buffer(x.buffer, u.u), "t_last": t}

    def output(self, t: Any, x: Record) -> Values:
        m, b = self._whole, x.buffer[::-1]  # b[k] is k samples old
        age = self._ages - (t - x.t_last) * (1.0 / self.sample_time)  # in samples, at most m
        newer = b[m - 1] + (age - (m - 1)) * (b[m] - b[m - 1])
        older = b[m] + (age - m) * (b[m + 1] - b[m])
        return {"y": newer if self._ages - m < 1e-9 else select(age > m, older, newer)}


@dataclass(frozen=True, eq=False)
class RateTransition(DelayedSignal):
    """Signal transfer between parts with the sample times `source_time` and `target_time`.

    The result does not depend on the order in which the parts step. If the target is slower, the
    block holds the signal: y = u at the slower sample instants. If the target is faster, the block
    also delays the signal by one slow sample. One of the sample times must be a multiple of the
    other.
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
        """The longer of the two sample times [s]."""
        return max(self.source_time, self.target_time)

    @property
    def _samples(self) -> int:
        return 1 if self.target_time < self.source_time else 0
