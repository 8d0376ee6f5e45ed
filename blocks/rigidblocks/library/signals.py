"""Signals added, multiplied, put together and taken apart: outputs that are functions of inputs."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Record, Values, finite

Shape = int | tuple[int, ...]
Unit = str | tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Constant(Block):
    """A constant: y = value, of the value's shape."""

    value: Any
    unit: Unit = ""

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (Port("y", np.shape(self.value), self.unit, "value"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """value."""
        return (Port("value", np.shape(self.value), self.unit, "value of the output", self.value),)

    def output(self, p: Record) -> Values:
        return {"y": p.value}


@dataclass(frozen=True, eq=False)
class Gain(Block):
    """A gain: y = k u with a number or array k, element by element, and y = K u with a matrix.

    `k` is a number for all elements of a signal of `shape`, or has that shape; a matrix (m, n),
    told by `matrix`, takes u (n,) to y (m,). `unit_in` is the unit of u, `unit` that of y.
    """

    k: Any
    shape: Shape | None = None
    matrix: bool = False
    unit: Unit = ""
    unit_in: Unit = ""

    def __post_init__(self) -> None:
        if self.matrix and (np.ndim(self.k) != 2 or self.shape is not None):
            raise ValueError(
                "a matrix gain needs k of shape (m, n) and no shape of its own, not k of shape "
                f"{np.shape(self.k)} and shape {self.shape}"
            )
        if not self.matrix:
            signal_shape("a gain", self.shape, k=self.k)

    @property
    def _shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shapes of u and y."""
        if self.matrix:
            m, n = np.shape(self.k)
            return (n,), (m,)
        shape = signal_shape("a gain", self.shape, k=self.k)
        return shape, shape

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u."""
        return (Port("u", self._shapes[0], self.unit_in, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (Port("y", self._shapes[1], self.unit, "signal times k"),)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """k, of its own shape."""
        return (Port("k", np.shape(self.k), "", "gain", self.k),)

    def output(self, u: Record, p: Record) -> Values:
        return {"y": p.k @ u.u if self.matrix else p.k * u.u}


@dataclass(frozen=True, eq=False)
class Sum(Block):
    """The sum of signals of one shape with signs: y = + u1 - u2 ... for signs "+-".

    An input that nothing is connected to is zero.
    """

    signs: str = "++"
    shape: Shape = ()
    unit: Unit = ""

    def __post_init__(self) -> None:
        _check_text("the signs of a sum", self.signs, "+-")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u1, u2, ..., one for each sign."""
        return tuple(
            Port(f"u{k}", as_shape(self.shape), self.unit, f"counts with the sign {sign}", 0.0)
            for k, sign in enumerate(self.signs, 1)
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
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
    """The product of signals of one shape, element by element: y = u1 * u2 / u3 for "**/".

    A division by zero gives what is not finite, which ends a run.
    """

    operations: str = "**"
    shape: Shape = ()
    unit: Unit = ""

    def __post_init__(self) -> None:
        _check_text("the operations of a product", self.operations, "*/")

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u1, u2, ..., one for each operation."""
        texts = {"*": "factor", "/": "divisor"}
        return tuple(
            Port(f"u{k}", as_shape(self.shape), "", texts[operation], 1.0)
            for k, operation in enumerate(self.operations, 1)
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (Port("y", as_shape(self.shape), self.unit, "product"),)

    def output(self, u: Record) -> Values:
        value: Any = 1.0
        for operation, factor in zip(self.operations, vars(u).values(), strict=True):
            value = value * factor if operation == "*" else value / factor
        return {"y": value}


@dataclass(frozen=True, eq=False)
class Mux(Block):
    """Signals put together to one vector: y = (u1, u2, ...), of which u<k> has `sizes`[k - 1]
    elements.

    A size of () is a scalar.
    """

    sizes: tuple[Shape, ...]
    unit: Unit = ""

    def __post_init__(self) -> None:
        _ = self._shapes  # raises

    @cached_property
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return _sizes("a mux", self.sizes)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u1, u2, ..."""
        return _pieces("u", self._shapes, self.unit, "elements {} of y")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y (n,)."""
        return (Port("y", (sum(map(prod, self._shapes)),), self.unit, "all signals in one"),)

    def output(self, u: Record) -> Values:
        return {"y": np.concatenate([np.ravel(value) for value in vars(u).values()])}


@dataclass(frozen=True, eq=False)
class Demux(Block):
    """A vector taken apart: (y1, y2, ...) = u, of which y<k> has `sizes`[k - 1] elements.

    A size of () is a scalar.
    """

    sizes: tuple[Shape, ...]
    unit: Unit = ""

    def __post_init__(self) -> None:
        _ = self._shapes  # raises

    @cached_property
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return _sizes("a demux", self.sizes)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u (n,)."""
        return (Port("u", (sum(map(prod, self._shapes)),), self.unit, "all signals in one"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y1, y2, ..."""
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
    """Elements of a vector in another order: y[k] = u[elements[k]], counted from 1 as in
    connections.

    `n` is the length of u. An element may be taken more than once.
    """

    n: int
    elements: tuple[int, ...]
    unit: str = ""

    def __post_init__(self) -> None:
        wrong = [k for k in self.elements if not 1 <= k <= self.n]
        if wrong or not len(self.elements):
            raise ValueError(
                f"a selector of {self.n} elements takes some of 1 to {self.n}, not {self.elements}"
            )

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u (n,)."""
        return (Port("u", (self.n,), self.unit, "signal"),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y, one element for each that is taken."""
        return (Port("y", (len(self.elements),), self.unit, "elements of u"),)

    def output(self, u: Record) -> Values:
        return {"y": u.u[np.array(self.elements) - 1]}


def as_shape(shape: Shape) -> tuple[int, ...]:
    """A shape that may be given as the length of a vector."""
    return (shape,) if isinstance(shape, int) else tuple(shape)


def signal_shape(what: str, shape: Shape | None, **values: Any) -> tuple[int, ...]:
    """The shape of the signal that these values are for: the given one, or that of those of them
    which are no numbers.

    Raises ValueError, naming `what`, for values of other shapes, and not finite ones.
    """
    shapes = {name: np.shape(value) for name, value in values.items() if np.ndim(value)}
    wanted = next(iter(shapes.values()), ()) if shape is None else as_shape(shape)
    for name, own in shapes.items():
        if own != wanted:
            raise ValueError(
                f"{what} of shape {wanted} needs {name} of that shape, or a number, not {own}"
            )
    for name, value in values.items():
        if value is not None:
            finite(value, wanted, f"{name} of {what}")
    return wanted


def filled(value: Any, shape: tuple[int, ...]) -> Array:
    """A start value of this shape, of a number for all elements."""
    return np.array(np.broadcast_to(np.asarray(value, dtype=float), shape))


def _check_text(what: str, text: Any, known: str) -> None:
    if not isinstance(text, str) or not text or set(text) - set(known):
        raise ValueError(f"{what} are some of {known[0]} and {known[1]} in a row, not {text!r}")


def _sizes(what: str, sizes: Any) -> tuple[tuple[int, ...], ...]:
    shapes = tuple(map(as_shape, sizes)) if isinstance(sizes, tuple | list) else ()
    if not shapes or any(len(shape) > 1 or prod(shape) < 1 for shape in shapes):
        raise ValueError(
            f"{what} needs the length of each signal, or () of a scalar, as (2, (), 3), not {sizes}"
        )
    return shapes


def _pieces(
    letter: str, sizes: tuple[tuple[int, ...], ...], unit: Unit, doc: str
) -> tuple[Port, ...]:
    """The ports of the pieces of a vector."""
    ports, begin = [], 0
    for k, shape in enumerate(sizes, 1):
        end = begin + prod(shape)
        own = unit if isinstance(unit, str) else unit[begin:end]
        text = doc.format(f"{begin + 1} to {end}")
        ports.append(Port(f"{letter}{k}", shape, own, text))
        begin = end
    return tuple(ports)
