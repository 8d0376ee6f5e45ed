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
    allow_any_arguments,
    finite,
)
from rigidblocks.spatial.scalar import select
from rigidblocks.spatial.spatial import Array

Shape = int | tuple[int, ...]
Unit = str | tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Constant(Block):
    """Source of a constant signal y = value; y has the shape of `value`."""

    value: Any
    unit: Unit = ""

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (Port("y", np.shape(self.value), self.unit, "value"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Port of the parameter `value`."""
        return (Port("value", np.shape(self.value), self.unit, "value of the output", self.value),)

    def output(self, p: Record) -> Values:
        return {"y": p.value}


@dataclass(frozen=True, eq=False)
class Gain(Block):
    """Multiplication of a signal by a gain, y = k u, element by element or with a matrix.

    `k` is a scalar for all elements of a signal with the shape `shape`, or has this shape. If
    `matrix` is True, k is a matrix (m, n) and maps u (n,) to y (m,). `unit_in` is the unit of u,
    and `unit` is the unit of y.

    Raises:
        ValueError: `shape` is given for a matrix gain, or a matrix gain `k` is not a matrix.
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
        """Shapes of the input u and of the output y."""
        if self.matrix:
            m, n = np.shape(self.k)
            return (n,), (m,)
        shape = signal_shape("a gain", self.shape, k=self.k)
        return shape, shape

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Port of the input signal u."""
        return (Port("u", self._shapes[0], self.unit_in, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (Port("y", self._shapes[1], self.unit, "signal times k"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Port of the parameter k, the gain."""
        return (Port("k", np.shape(self.k), "", "gain", self.k),)

    def output(self, u: Record, p: Record) -> Values:
        return {"y": p.k @ u.u if self.matrix else p.k * u.u}


@dataclass(frozen=True, eq=False)
class Sum(Block):
    """Sum of signals of equal shape, each with a sign.

    For example, y = u1 - u2 for `signs` = "+-". An input that is not connected is zero.
    """

    signs: str = "++"
    shape: Shape = ()
    unit: Unit = ""

    def __post_init__(self) -> None:
        _check_text("the signs of a sum", self.signs, "+-")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Ports of the input signals u1, u2, ..., one for each sign."""
        return tuple(
            Port(f"u{k}", shape_tuple(self.shape), self.unit, f"summand with the sign {sign}", 0.0)
            for k, sign in enumerate(self.signs, 1)
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (Port("y", shape_tuple(self.shape), self.unit, "sum"),)

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
    """Product and quotient of signals of equal shape, element by element.

    For example, y = u1 * u2 / u3 for `operations` = "**/". The result of a division by zero is not
    finite. A result that is not finite ends the run.
    """

    operations: str = "**"
    shape: Shape = ()
    unit: Unit = ""

    def __post_init__(self) -> None:
        _check_text("the operations of a product", self.operations, "*/")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Ports of the input signals u1, u2, ..., one for each operation."""
        texts = {"*": "factor", "/": "divisor"}
        return tuple(
            Port(f"u{k}", shape_tuple(self.shape), "", texts[operation], 1.0)
            for k, operation in enumerate(self.operations, 1)
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (Port("y", shape_tuple(self.shape), self.unit, "product"),)

    def output(self, u: Record) -> Values:
        value: Any = 1.0
        for operation, factor in zip(self.operations, vars(u).values(), strict=True):
            value = value * factor if operation == "*" else value / factor
        return {"y": value}


class ConcatenatedSignals(Block):
    """Base class of blocks that concatenate signals to a vector, or split a vector into signals.

    Subclasses have the fields `sizes` and `unit`. `sizes` contains the length of each signal; the
    length () denotes a scalar.
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
    """Concatenation of signals u1, u2, ... to a vector y = (u1, u2, ...).

    `sizes` contains the length of each signal; the length () denotes a scalar.
    """

    sizes: tuple[Shape, ...]
    unit: Unit = ""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Ports of the input signals u1, u2, ..."""
        return _signal_ports("u", self._shapes, self.unit, "elements {} of y")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output vector y (n,)."""
        return (self._vector("y"),)

    def output(self, u: Record) -> Values:
        return {"y": np.concatenate([np.ravel(value) for value in vars(u).values()])}


@dataclass(frozen=True, eq=False)
class Demux(ConcatenatedSignals):
    """Decomposition of a vector u into signals y1, y2, ..., so that (y1, y2, ...) = u.

    `sizes` contains the length of each signal; the length () denotes a scalar.
    """

    sizes: tuple[Shape, ...]
    unit: Unit = ""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Port of the input vector u (n,)."""
        return (self._vector("u"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Ports of the output signals y1, y2, ..."""
        return _signal_ports("y", self._shapes, self.unit, "elements {} of u")

    def output(self, u: Record) -> Values:
        ends = np.cumsum([0, *map(prod, self._shapes)])
        pieces = (u.u[a:b] for a, b in pairwise(ends))
        return {
            port.name: piece if port.shape else piece[0]
            for port, piece in zip(self.outputs, pieces, strict=True)
        }


@dataclass(frozen=True, eq=False)
class Selector(Block):
    """Selection of elements of a vector, y[k] = u[elements[k]].

    `n` is the length of u. The indices in `elements` begin at 1, as in connections. An index may
    occur more than once.

    Raises:
        ValueError: `elements` is empty, or an index is outside 1 .. `n`.
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
        """Port of the input vector u (n,)."""
        return (Port("u", (self.n,), self.unit, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output y, which contains the selected elements."""
        return (Port("y", (len(self.elements),), self.unit, "elements of u"),)

    def output(self, u: Record) -> Values:
        return {"y": u.u[np.array(self.elements) - 1]}


def shape_tuple(shape: Shape) -> tuple[int, ...]:
    """Return a shape as a tuple; an integer n denotes the shape (n,) of a vector."""
    return (shape,) if isinstance(shape, int) else tuple(shape)


def signal_shape(subject: str, shape: Shape | None, **values: Any) -> tuple[int, ...]:
    """Return the shape of a signal from its declared shape or from its parameter values.

    Args:
        subject: Subject of the error messages, such as "a gain".
        shape: Declared shape, or None to use the shape of the first array in `values`.
        **values: Parameter values by name; a scalar applies to all elements.

    Raises:
        ValueError: The shapes differ, or a value is not finite.
    """
    shapes = {name: np.shape(value) for name, value in values.items() if np.ndim(value)}
    wanted = next(iter(shapes.values()), ()) if shape is None else shape_tuple(shape)
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
    """Return a start value as an array of the shape `shape`; a scalar applies to all elements."""
    return np.array(np.broadcast_to(np.asarray(value, dtype=float), shape))


def _check_text(subject: str, text: Any, known: str) -> None:
    if not isinstance(text, str) or not text or set(text) - set(known):
        raise ValueError(f"{subject} must be a string of {known[0]} and {known[1]}, not {text!r}")


def _sizes(subject: str, sizes: Any) -> tuple[tuple[int, ...], ...]:
    shapes = tuple(map(shape_tuple, sizes)) if isinstance(sizes, tuple | list) else ()
    if not shapes or any(len(shape) > 1 or prod(shape) < 1 for shape in shapes):
        raise ValueError(
            f"invalid signal lengths {sizes} of {subject}; expected one length per signal, () for "
            "a scalar, for example (2, (), 3)"
        )
    return shapes


def _signal_ports(
    letter: str, shapes: tuple[tuple[int, ...], ...], unit: Unit, doc: str
) -> tuple[Port, ...]:
    """Return a port for each signal that is part of a vector.

    Args:
        letter: First letter of the port names; the signal number follows, as in u1.
        shapes: Shape of each signal.
        unit: Unit of all elements, or one unit for each element of the vector.
        doc: Description of a port. Its placeholder {} becomes the index range, such as "1 to 3".
    """
    ports, begin = [], 0
    for k, shape in enumerate(shapes, 1):
        end = begin + prod(shape)
        own = unit if isinstance(unit, str) else unit[begin:end]
        text = doc.format(f"{begin + 1} to {end}")
        ports.append(Port(f"{letter}{k}", shape, own, text))
        begin = end
    return tuple(ports)


class SignalWithState(Block):
    """Base class of blocks with an input signal u and an output y that is a state.

    y is a sampled state if the block has a sample time, and otherwise a continuous state.
    """

    unit: Unit

    @property
    @abc.abstractmethod
    def _shape(self) -> tuple[int, ...]:
        """Shape of the input u and of the output y."""

    @property
    @abc.abstractmethod
    def _y(self) -> Port:
        """Port of the state y."""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Port of the input signal u."""
        return (Port("u", self._shape, self.unit, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (self._y,)

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """Port of the continuous state y, or () if the block has a sample time."""
        return () if self.sample_time else (self._y,)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Port of the sampled state y, or () if the block does not have a sample time."""
        return (self._y,) if self.sample_time else ()

    @allow_any_arguments
    def initial(self, x: Record) -> Values:
        return {"y": x.y} if self.sample_time else {}


MOST_SAMPLES = 5000  # maximum buffer length; a shift compiles to one statement per sample


def check_delay(subject: str, samples: Any, least: int) -> None:
    """Check the number of samples of a delay.

    Args:
        subject: Subject of the error messages, such as "a delay".
        samples: Number of samples.
        least: Smallest allowed number.

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
    """Return the port of the sampled state that stores past samples of a signal.

    Args:
        samples: Number n of samples.
        shape: Shape of the signal.
        unit: Unit of the signal.
        start: Start value of all samples.
        name: Name of the state.

    Returns:
        Tuple with the port, whose value has the shape (n, *shape) and begins with the oldest
        sample. The tuple is empty if n = 0.
    """
    if not samples:
        return ()
    units = unit if isinstance(unit, str) else tuple(unit) * samples
    whole = (samples, *shape)
    doc = "last samples, the oldest first"
    return (Port(name, whole, units, doc, broadcast_start(start, whole)),)


def shift_buffer(buffer: Any, u: Any) -> Any:
    """Remove the oldest sample from a buffer (n, *shape), and append the sample u."""
    return np.array([*buffer[1:], u])


class DelayedSignal(Block):
    """Base class of sampled blocks that delay a signal by a fixed number n of samples.

    The output is y[k] = u[k-n]. If n is 0, the block only holds the signal. For k < n, y is `y0`.
    Subclasses have the fields `shape` and `unit`.
    """

    shape: Shape | None
    unit: Unit
    y0: Any = 0.0

    @property
    @abc.abstractmethod
    def _samples(self) -> int:
        """Number of stored samples."""

    @property
    def _shape(self) -> tuple[int, ...]:
        return signal_shape(f"a {type(self).__name__}", self.shape, y0=self.y0)

    @property
    def _buffer(self) -> tuple[Port, ...]:
        return sample_buffer(self._samples, self._shape, self.unit, self.y0)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Port of the input signal u."""
        return (Port("u", self._shape, self.unit, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        n = self._samples
        doc = f"signal {n} sample{'s' * (n > 1)} ago" if n else "signal at the last sample"
        return (Port("y", self._shape, self.unit, doc, broadcast_start(self.y0, self._shape)),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Ports of the sampled states: y, and the last n samples (n, *shape), oldest first."""
        return (*self.outputs, *self._buffer)

    @allow_any_arguments
    def update(self, x: Record, u: Record) -> Values:
        if not self._samples:
            return {"y": u.u}
        return {"y": x.buffer[0], "buffer": shift_buffer(x.buffer, u.u)}


@dataclass(frozen=True, eq=False)
class ZeroOrderHold(DelayedSignal):
    """Zero-order hold, which samples a signal every `sample_time` [s] and holds it, y = u[k]."""

    sample_time: float
    shape: Shape = ()
    unit: Unit = ""

    @property
    def _samples(self) -> int:
        return 0


@dataclass(frozen=True, eq=False)
class UnitDelay(DelayedSignal):
    """Delay of a signal by one sample, y[k] = u[k-1] and y[0] = y0."""

    sample_time: float
    shape: Shape | None = None
    y0: Any = 0.0
    unit: Unit = ""

    @property
    def _samples(self) -> int:
        return 1


@dataclass(frozen=True, eq=False)
class Delay(DelayedSignal):
    """Delay of a signal by n samples, y[k] = u[k-n], and y[k] = y0 for k < n."""

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
    """Transport delay of a signal by `delay` [s], y(t) = u(t - delay).

    The block samples u every `sample_time` T [s] and interpolates linearly between samples. The
    interpolation error is at most max|d2u/dt2| T^2 / 8. The delay must be at least one sample time.
    For t < delay, the output is `y0`.

    Raises:
        ValueError: The delay is not finite, shorter than the sample time or too long.
    """

    delay: float
    sample_time: float
    shape: Shape | None = None
    y0: Any = 0.0
    unit: Unit = ""

    def __post_init__(self) -> None:
        if not np.isfinite(self.delay) or self._delay_in_samples < 1 - 1e-9:
            raise ValueError(
                "the sample time of a transport delay must not exceed the delay of "
                f"{self.delay} s, but is {self.sample_time} s"
            )
        check_delay("a transport delay", self._whole_samples, 1)

    @property
    def _delay_in_samples(self) -> float:
        """Ratio of the delay to the sample time."""
        return float(self.delay / self.sample_time)

    @property
    def _whole_samples(self) -> int:
        """Ratio of the delay to the sample time, rounded down; rounding errors are tolerated."""
        return floor(self._delay_in_samples + 1e-9)

    @property
    def _samples(self) -> int:
        return self._whole_samples + 2

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Port of the output signal y."""
        return (Port("y", self._shape, self.unit, f"signal {self.delay} s ago"),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Ports of the sampled states: the stored samples, and the time of the last sample [s]."""
        return (*self._buffer, Port("t_last", (), "s", "time of the last sample", 0.0))

    def update(self, t: Any, x: Record, u: Record) -> Values:
        return {"buffer": shift_buffer(x.buffer, u.u), "t_last": t}

    def output(self, t: Any, x: Record) -> Values:
        m, b = self._whole_samples, x.buffer[::-1]  # b[k] is k samples old
        # delay in samples, at most m
        age = self._delay_in_samples - (t - x.t_last) * (1.0 / self.sample_time)
        newer = b[m - 1] + (age - (m - 1)) * (b[m] - b[m - 1])
        older = b[m] + (age - m) * (b[m + 1] - b[m])
        return {"y": newer if self._delay_in_samples - m < 1e-9 else select(age > m, older, newer)}


@dataclass(frozen=True, eq=False)
class RateTransition(DelayedSignal):
    """Transfer of a signal between parts with the sample times `source_time` and `target_time` [s].

    The output does not depend on the order in which the parts step. The sample time of the block
    is the longer of the two times. If the source has the longer sample time, the block delays the
    signal by one sample. One sample time must be a multiple of the other sample time.

    Raises:
        ValueError: Neither sample time is a multiple of the other.
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
        """Sample time of the block [s], the longer of `source_time` and `target_time`."""
        return max(self.source_time, self.target_time)

    @property
    def _samples(self) -> int:
        return 1 if self.target_time < self.source_time else 0
