"""Tracing: one run of a NumPy function on symbols gives its expression graph.

A traced function is called with object arrays whose elements are `Traced` scalars around CasADi SX expressions. CasADi
folds what is known (0 x, 1 x, x + 0), so the zeros of a model vanish: the symbolic simplification of RBDA 10.4. It also
finds common subexpressions and exact derivatives.
"""

import operator
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from numbers import Real
from typing import Any, NoReturn

import casadi as ca
import numpy as np

from rigidblocks.scalar import is_number
from rigidblocks.spatial import Array

Shapes = Mapping[str, tuple[int, ...]]


class TraceError(TypeError):
    """A traced function asked a traced value for something that only a number has."""


class Traced:
    """A scalar of the expression graph, which NumPy treats as an opaque number inside object arrays."""

    __slots__ = ("sx",)
    __hash__ = None  # type: ignore[assignment]  # == is traced, so a traced value is no key

    def __init__(self, sx: ca.SX):
        self.sx = sx

    def __add__(self, other: Any) -> Any:
        return self if is_number(other, 0.0) else _apply(operator.add, self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self if is_number(other, 0.0) else _apply(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _apply(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        if is_number(other, 0.0):
            return 0.0
        return self if is_number(other, 1.0) else _apply(operator.mul, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return _apply(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _apply(operator.truediv, other, self)

    def __pow__(self, other: Any) -> Any:
        return _apply(operator.pow, self, other)

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
        return _apply(ca.atan2, self, other)

    def select(self, a: Any, b: Any) -> "Traced":
        """`a` where this condition holds, else `b`; what `rigidblocks.scalar.select` calls."""
        return Traced(ca.if_else(self.sx, _sx(a), _sx(b)))

    def _no_number(self) -> NoReturn:
        raise TraceError(
            "a traced value has no truth value and no number: write a data-dependent `if` with "
            "rigidblocks.select(condition, a, b), a < b of arrays with rigidblocks.less, and min, max and clip with "
            "rigidblocks.minimum, maximum and clip"
        )

    __bool__ = __float__ = __int__ = __index__ = _no_number


def _sx(value: Any) -> ca.SX:
    return value.sx if isinstance(value, Traced) else ca.SX(float(value))


def _apply(operation: Callable[[ca.SX, ca.SX], ca.SX], a: Any, b: Any) -> Any:
    if all(isinstance(value, Traced | Real) for value in (a, b)):
        sx = operation(_sx(a), _sx(b))
        return float(sx) if sx.is_constant() else Traced(sx)  # x - x is 0, and vanishes further on
    return NotImplemented  # an array: let NumPy broadcast


def _define_operators() -> None:
    """The comparisons and the functions that NumPy looks up by name on the elements of an object array."""
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        compare = getattr(operator, name)
        setattr(Traced, f"__{name}__", lambda self, other, compare=compare: _apply(compare, self, other))
    for name, logic in (("and", ca.logic_and), ("or", ca.logic_or)):
        for method in (f"__{name}__", f"__r{name}__"):
            setattr(Traced, method, lambda self, other, logic=logic: _apply(logic, self, other))
    casadi_name = {"arcsin": "asin", "arccos": "acos", "arctan": "atan"}
    for name in ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "sqrt", "exp", "log", "tanh"):
        function = getattr(ca, casadi_name.get(name, name))
        setattr(Traced, name, lambda self, function=function: Traced(function(self.sx)))


_define_operators()


@dataclass(frozen=True, eq=False)
class Graph:
    """The expression graph of a function from one flat vector to another.

    `inputs` and `outputs` name the parts of the two vectors, in order, with their shapes (C order).
    """

    name: str
    inputs: Shapes
    outputs: Shapes
    function: ca.Function

    @cached_property
    def operations(self) -> Counter[str]:
        """How often each operation occurs; moves and constants are not operations."""
        return Counter(name for name in map(self._operation, range(self.function.n_instructions())) if name)

    @property
    def operation_count(self) -> int:
        """The number of arithmetic operations, sines and cosines not counted (as in RBDA 10.3)."""
        return sum(count for name, count in self.operations.items() if name not in ("sin", "cos"))

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
        for k in range(self.function.n_instructions()):
            code, inputs, outputs = (
                self.function.instruction_id(k), self.function.instruction_input(k), self.function.instruction_output(k)
            )  # fmt: skip
            if code == ca.OP_INPUT:
                source[outputs[0]] = inputs[1]
            elif code != ca.OP_OUTPUT:
                source.pop(outputs[0], None)
            elif inputs[0] in source:
                copies[outputs[1]] = source[inputs[0]]
        return copies

    def __call__(self, values: Array) -> Array:
        """The flat outputs of the flat inputs, by CasADi's own evaluation; of traced inputs, their expressions."""
        if values.dtype != object:
            return np.array(self.function(values)).ravel()
        result = self.function(ca.vertcat(*map(_sx, values)))
        elements = np.empty(result.numel(), dtype=object)
        elements[:] = [float(sx) if sx.is_constant() else Traced(sx) for sx in (result[k] for k in range(result.numel()))]
        return elements

    def _operation(self, k: int) -> str | None:
        code = self.function.instruction_id(k)
        return None if code in (ca.OP_INPUT, ca.OP_OUTPUT, ca.OP_CONST) else _OPERATION_NAMES[code]


_OPERATION_NAMES = {value: name.removeprefix("OP_").lower() for name, value in vars(ca).items() if name.startswith("OP_")}


def trace(name: str, function: Callable[..., Mapping[str, Array]], inputs: Shapes) -> Graph:
    """The expression graph of `function`, called once with a traced array for each of `inputs`.

    The function takes the inputs by position and returns its outputs by name. Raises TraceError where it branches on a
    traced value.
    """
    symbols = [ca.SX.sym(key, prod(shape)) for key, shape in inputs.items()]
    results = function(*map(_traced_array, symbols, inputs.values()))
    outputs = {key: np.asarray(value) for key, value in results.items()}
    flat = [_sx(element) for value in outputs.values() for element in value.ravel()]
    result = ca.densify(ca.vertcat(*flat)) if flat else ca.SX(0, 1)
    casadi_function = ca.Function(name, [ca.vertcat(*symbols)], [ca.cse(result)])
    return Graph(name, dict(inputs), {key: value.shape for key, value in outputs.items()}, casadi_function)


def _traced_array(symbol: ca.SX, shape: tuple[int, ...]) -> Any:
    elements = np.empty(prod(shape), dtype=object)
    elements[:] = [Traced(symbol[k]) for k in range(prod(shape))]
    return elements.reshape(shape) if shape else elements[0]
