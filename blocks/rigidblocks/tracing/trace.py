"""Tracing: one run of a NumPy function on symbols gives its expression graph.

A traced function is called with object arrays whose elements are `Traced` scalars around CasADi SX
expressions. CasADi folds what is known (0 x, 1 x, x + 0), so the zeros of a model vanish: the
symbolic simplification of RBDA 10.4. It also finds common subexpressions and exact derivatives.
"""

import itertools
import linecache
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from numbers import Real
from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

from rigidblocks.algebra.scalar import is_number
from rigidblocks.algebra.spatial import Array
from rigidblocks.explained import explained
from rigidblocks.tracing.choices import (
    Choice,
    called,
    choices_of_trace,
    choose,
    choosing_function,
    is_tracing,
    with_whole_laws,
)
from rigidblocks.tracing.collector import collector_waits
from rigidblocks.tracing.tables import lookup

Shapes = Mapping[str, tuple[int, ...]]

# the folders of this library and of NumPy
_NOT_USERS = tuple(
    f"{Path(file).parents[k]}{os.sep}" for file, k in ((__file__, 1), (np.__file__, 0))
)


def element_names(shapes: Shapes) -> list[str]:
    """The names of the elements of the flat vector: `q[1]`, `q[2]`, ... or `f[1,1]`, counted from
    1 as those of ports are; a scalar has its own.
    """
    return [
        f"{name}[{','.join(str(k + 1) for k in index)}]" if shape else name
        for name, shape in shapes.items()
        for index in np.ndindex(*shape)
    ]


class TraceError(TypeError):
    """A traced function asked a traced value for something that only a number has."""


class Traced:
    """A scalar of the expression graph, which NumPy treats as an opaque number inside object
    arrays.
    """

    __slots__ = ("sx",)
    __hash__ = None  # type: ignore[assignment]  # == is traced, so a traced value is no key

    def __init__(self, sx: ca.SX):
        self.sx = sx

    def __add__(self, other: Any) -> Any:
        return self if is_number(other, 0.0) else _apply(ca.OP_ADD, self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self if is_number(other, 0.0) else _apply(ca.OP_SUB, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _apply(ca.OP_SUB, other, self)

    def __mul__(self, other: Any) -> Any:
        if is_number(other, 0.0):
            return 0.0
        return self if is_number(other, 1.0) else _apply(ca.OP_MUL, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return _apply(ca.OP_DIV, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _apply(ca.OP_DIV, other, self)

    def __pow__(self, other: Any) -> Any:
        return _apply(ca.OP_POW, self, other)

    def __neg__(self) -> "Traced":
        return Traced(-self.sx)

    def __abs__(self) -> "Traced":
        return Traced(ca.fabs(self.sx))

    def __invert__(self) -> "Traced":
        return Traced(ca.logic_not(self.sx))

    def __floor__(self) -> "Traced":
        return Traced(ca.floor(self.sx))

    def arctan2(self, other: Any) -> Any:
        """What `np.arctan2` calls."""
        return _apply(ca.OP_ATAN2, self, other)

    def select(self, a: Any, b: Any) -> "Traced":
        """`a` where this condition holds, else `b`; what `rigidblocks.algebra.scalar.select`
        calls.
        """
        return Traced(ca.if_else(self.sx, _sx(a), _sx(b)))

    def minimum(self, other: "Traced") -> Any:
        """The smaller of two, NaN where one of them is; what `rigidblocks.algebra.scalar.minimum`
        calls.
        """
        return _apply(ca.OP_FMIN, self, other)

    def maximum(self, other: "Traced") -> Any:
        """The larger of two, NaN where one of them is."""
        return _apply(ca.OP_FMAX, self, other)

    def choice(self, above: Any, below: Any, whole: Any) -> Any:
        """The law that is `above` where this margin is positive and else `below`; what
        `rigidblocks.algebra.scalar.piecewise` calls.
        """
        law = (self.sx, _sx(above), _sx(below), _sx(whole))
        return _element(choose(Choice(ca.SX.sym("choice"), *law)))

    def reached(self, grid: Array) -> Any:
        """How many of the increasing numbers of a grid are at most this; what
        `rigidblocks.algebra.tables.reached` calls.
        """
        return Traced(lookup(grid, self.sx, searched=True))

    def entry(self, values: Array) -> Any:
        """The entry of a table at this index."""
        return Traced(lookup(values, self.sx, searched=False))

    def __bool__(self) -> bool:
        raise _refusal("truth value")

    def __float__(self) -> float:
        raise _refusal("number")

    def __int__(self) -> int:
        raise _refusal("number")

    __index__ = __int__


def _refusal(wanted: str) -> TraceError:
    refused = TraceError(
        f"{_asking_line()} needs the {wanted} of a traced value, which has none: write a "
        "data-dependent `if` with rigidblocks.select(condition, a, b), a < b of arrays with "
        "rigidblocks.less, and min, max and clip with rigidblocks.minimum, maximum and clip"
    )
    return explained(refused, "what a traced function may do")


def _asking_line() -> str:
    """The line of the traced function that is being run: of the user's code where there is any."""
    frames = traceback.walk_stack(sys._getframe(3))
    inside = list(itertools.takewhile(lambda one: one[0].f_code is not trace.__code__, frames))
    of_user = (one for one in inside if not one[0].f_code.co_filename.startswith(_NOT_USERS))
    frame, line = next(of_user, inside[0])
    code = frame.f_code
    text = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_filename}:{line}, in {code.co_qualname}: `{text}`"


def _sx(value: Any) -> ca.SX:
    return value.sx if isinstance(value, Traced) else ca.SX(float(value))


def _element(sx: ca.SX) -> Any:
    """An expression as an element of an array: a constant (x - x is 0) vanishes further on."""
    return float(sx) if sx.is_constant() else Traced(sx)


_SCALARS = (Traced, float, Real)  # in the order of how often they come


def _apply(code: int, a: Any, b: Any) -> Any:
    """The operation of CasADi's `code` on two scalars, one of them traced."""
    if isinstance(a, _SCALARS) and isinstance(b, _SCALARS):
        # casadi's operators look through all its types for this one, which takes five times as long
        return _element(ca.SX.binary(code, _sx(a), _sx(b)))
    return NotImplemented  # an array: let NumPy broadcast


def _define_operators() -> None:
    """The comparisons, the logic and the functions that NumPy looks up by name on the elements of
    an object array.
    """
    for name in ("lt", "le", "eq", "ne"):
        setattr(Traced, f"__{name}__", _binary(getattr(ca, f"OP_{name.upper()}")))
    for name, other in (("gt", ca.OP_LT), ("ge", ca.OP_LE)):
        setattr(Traced, f"__{name}__", _binary(other, swapped=True))
    for name, logic in (("and", ca.OP_AND), ("or", ca.OP_OR)):
        setattr(Traced, f"__{name}__", _binary(logic))
        setattr(Traced, f"__r{name}__", _binary(logic))
    for name in ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sqrt", "exp", "log", "tanh"):
        setattr(Traced, name, _unary(getattr(ca, name.replace("arc", "a"))))


def _binary(code: int, swapped: bool = False) -> Callable[[Traced, Any], Any]:
    if swapped:
        return lambda self, other: _apply(code, other, self)
    return lambda self, other: _apply(code, self, other)


def _unary(function: Callable[[ca.SX], ca.SX]) -> Callable[[Traced], Traced]:
    return lambda self: Traced(function(self.sx))


_define_operators()


@dataclass(frozen=True, eq=False)
class Graph:
    """The expression graph of a function from one flat vector to another.

    `inputs` and `outputs` name the parts of the two vectors, in order, with their shapes (C order).
    Where the function chooses laws by margins (`algebra.scalar.piecewise`), `choosing` has them
    beside it (`choices.choosing_function`).
    """

    name: str
    inputs: Shapes
    outputs: Shapes
    function: ca.Function
    choosing: ca.Function | None = None

    @cached_property
    def operations(self) -> Counter[str]:
        """How often each operation occurs; moves and constants are not operations."""
        return operations(self.function)

    @property
    def operation_count(self) -> int:
        """The number of arithmetic operations, sines and cosines not counted (as in RBDA 10.3)."""
        return _arithmetic(self.operations)

    @cached_property
    def depends(self) -> Array:
        """Which flat output (rows) reads which flat input (columns), as a matrix of booleans."""
        sparsity = self.function.jac_sparsity(0, 0)
        matrix = np.zeros(sparsity.shape, dtype=bool)
        matrix[tuple(np.array(sparsity.get_triplet(), dtype=int))] = True
        return matrix

    @cached_property
    def copies(self) -> dict[int, int]:
        """The flat outputs that are nothing but a flat input, and which."""
        source: dict[int, int] = {}  # the input that each work variable holds
        copies = {}
        for code, inputs, outputs in instructions(self.function):
            if code == ca.OP_INPUT:
                source[outputs[0]] = inputs[1]
            elif code != ca.OP_OUTPUT:
                source.pop(outputs[0], None)
            elif inputs[0] in source:
                copies[outputs[1]] = source[inputs[0]]
        return copies

    def __call__(self, values: Array) -> Array:
        """The flat outputs of the flat inputs, by CasADi's own evaluation; of traced inputs, their
        expressions.
        """
        if values.dtype != object:
            return np.array(self.function(values)).ravel()
        flat = ca.vertcat(*map(_sx, values))
        if self.choosing is not None and is_tracing():
            result = called(self.choosing, flat)
        else:
            result = self.function(flat)
        elements = np.empty(result.numel(), dtype=object)
        elements[:] = [_element(result[k]) for k in range(result.numel())]
        return elements


_MOVES = (ca.OP_INPUT, ca.OP_OUTPUT, ca.OP_CONST)
_OPERATION_NAMES = {
    value: name.removeprefix("OP_").lower()
    for name, value in vars(ca).items()
    if name.startswith("OP_")
}


def instructions(function: ca.Function) -> Iterator[tuple[int, list[int], list[int]]]:
    """The operation code of each instruction, and the work variables that it reads and writes."""
    numbers = range(function.n_instructions())
    yield from zip(
        map(function.instruction_id, numbers),
        map(function.instruction_input, numbers),
        map(function.instruction_output, numbers),
        strict=True,
    )


def operations(function: ca.Function) -> Counter[str]:
    """How often each operation occurs; moves and constants are not operations."""
    counts = Counter(map(function.instruction_id, range(function.n_instructions())))
    return Counter({_OPERATION_NAMES[k]: n for k, n in counts.items() if k not in _MOVES})


def operation_count(function: ca.Function) -> int:
    """The number of arithmetic operations, sines and cosines not counted (as in RBDA 10.3)."""
    return _arithmetic(operations(function))


def _arithmetic(counts: Counter[str]) -> int:
    return sum(count for name, count in counts.items() if name not in ("sin", "cos"))


def trace(name: str, function: Callable[..., Mapping[str, Array]], inputs: Shapes) -> Graph:
    """The expression graph of `function`, called once with a traced array for each of `inputs`.

    The function takes the inputs by position and returns its outputs by name. Raises TraceError
    where it branches on a traced value.
    """
    symbols = [ca.SX.sym(key, prod(shape)) for key, shape in inputs.items()]
    with collector_waits(), choices_of_trace() as choices:
        results = function(*map(_traced_array, symbols, inputs.values()))
    outputs = {key: np.asarray(value) for key, value in results.items()}
    elements = ca.SX(0, 1)
    if flat := [_sx(element) for value in outputs.values() for element in value.ravel()]:
        elements = ca.densify(ca.vertcat(*flat))
    shapes = {key: value.shape for key, value in outputs.items()}
    x, choosing = ca.vertcat(*symbols), None
    if choices:
        choosing = choosing_function(name, x, choices, elements)
        elements = with_whole_laws(choices, elements)
    flat_function = ca.Function(name, [x], [ca.cse(elements)])
    return Graph(name, dict(inputs), shapes, flat_function, choosing)


def _traced_array(symbol: ca.SX, shape: tuple[int, ...]) -> Any:
    elements = np.empty(prod(shape), dtype=object)
    elements[:] = [Traced(symbol[k]) for k in range(prod(shape))]
    return elements.reshape(shape) if shape else elements[0]
