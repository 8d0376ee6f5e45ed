"""Tracer: converts a NumPy function to an expression graph with exact derivatives.

The tracer calls the function once with object arrays of `Traced` scalars, which contain CasADi SX
expressions. CasADi simplifies expressions with constants, such as 0 x, 1 x and x + 0 (symbolic
simplification of RBDA 10.4). CasADi also finds common subexpressions and computes exact derivatives
(`jacobian`, `directional`).
"""

import gc
import hashlib
import itertools
import linecache
import os
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from rigidblocks.common.doc_links import add_doc_link
from rigidblocks.spatial.scalar import derivative_form, is_number, is_traced_for_derivatives
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.matrix_products import product_expression
from rigidblocks.tracing.ray_calls import Fan, ray_expression


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Disable the cyclic garbage collector of Python inside the context.

    A trace creates about a hundred thousand objects but no cyclic garbage. The collector would
    increase the tracing time by a third.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


_LINE = 5  # numbers per line of C code
_ENTRY = """static double {name}(double index)
{{
    static const double table[{n}] = {{
{numbers}
    }};
    if (!(index > 0.0))
        return table[0];
    return table[index < {last}.0 ? (long)index : {last}];
}}
"""
_REACHED = """static double {name}(double x)
{{
    static const double grid[{n}] = {{
{numbers}
    }};
    long low = 0, high = {n};
    while (low < high) {{
        const long middle = low + (high - low) / 2;
        if (grid[middle] <= x)
            low = middle + 1;
        else
            high = middle;
    }}
    return (double)low;
}}
"""


@dataclass(frozen=True, eq=False)
class Table:
    """Lookup table: a function of a scalar x.

    If `counts_entries` is True, the function returns the number of entries that are at most x.
    Otherwise it returns the entry with the index x.

    Attributes:
        name: Name of the C function.
        values: Entries (n,).
        counts_entries: True for a count of entries, False for an entry.
        function: CasADi function.
    """

    name: str
    values: Array
    counts_entries: bool
    function: ca.Function

    def c_text(self) -> str:
        """Return the C code of the function, with a guard against repeated definition."""
        texts = [repr(float(value)) for value in self.values]
        lines = (", ".join(texts[k : k + _LINE]) for k in range(0, len(texts), _LINE))
        body = (_REACHED if self.counts_entries else _ENTRY).format(
            name=self.name,
            n=len(texts),
            last=len(texts) - 1,
            numbers=",\n".join(f"        {line}" for line in lines),
        )
        return f"#ifndef HAS_{self.name}\n#define HAS_{self.name}\n{body}#endif\n"


_TABLES: dict[str, Table] = {}


def table(values: Array, counts_entries: bool) -> Table:
    """Return the cached lookup table with the entries `values`.

    If `counts_entries` is True, the table returns the number of entries that are at most x.
    """
    flat = np.ascontiguousarray(values, dtype=float)
    digest = hashlib.sha256(flat.tobytes()).hexdigest()[:16]
    name = f"{'reached' if counts_entries else 'entry'}_{digest}"
    if name not in _TABLES:
        _TABLES[name] = Table(name, flat, counts_entries, _function(name, flat, counts_entries))
    return _TABLES[name]


def find_table(name: str) -> Table | None:
    """Return the lookup table with the C name `name`, or None if no table has this name.

    CasADi expressions also call functions for the derivatives of tables. The result for these
    functions is None, and the generated code replaces their values by zero.
    """
    return _TABLES.get(name)


def lookup(values: Array, x: ca.SX, counts_entries: bool) -> ca.SX:
    """Return the expression of a lookup at x in a table with the entries `values`.

    The dependency analysis of CasADi ignores that the table value depends on x. The expression
    therefore contains the condition x >= -inf, which depends on x and is always true.

    Args:
        values: Entries of the table (n,).
        x: Argument of the table.
        counts_entries: True for the number of entries that are at most x, False for the entry with
            the index x.
    """
    return ca.if_else(x >= -np.inf, table(values, counts_entries).function(x), 0.0)


def _function(name: str, values: Array, counts_entries: bool) -> ca.Function:
    x = ca.MX.sym("x")
    if counts_entries:
        padded = ca.DM([-np.inf, *values, np.inf])
        result = ca.low(ca.MX(padded), x, {"lookup_mode": "binary"})
    else:
        result = ca.MX(ca.DM(values))[ca.fmin(ca.fmax(x, 0.0), float(len(values) - 1))]
    return ca.Function(name, [x], [result], {"never_inline": True})


class Choice(NamedTuple):
    """Piecewise function in a trace (`spatial.scalar.piecewise`).

    Attributes:
        symbol: Symbol that represents the function in the trace.
        margin: Expression whose sign selects the branch.
        above: Expression of the branch for a positive margin.
        below: Expression of the branch for a margin that is zero or negative.
        whole: Expression of the complete function, whose value is the value of the active branch.
            Functions for model exchange contain `symbol` instead.
    """

    symbol: ca.SX
    margin: ca.SX
    above: ca.SX
    below: ca.SX
    whole: ca.SX


_LAW = len(Choice._fields) - 1  # number of expressions of a `Choice`, without its symbol
_tracing = threading.local()


@contextmanager
def choices_of_trace() -> Iterator[list[Choice]]:
    """Collect the piecewise functions that are traced in this context.

    The `with` statement provides the list of these functions.
    """
    before: list[Choice] | None = getattr(_tracing, "found", None)
    _tracing.found = found = list[Choice]()
    try:
        yield found
    finally:
        _tracing.found = before


def choose(choice: Choice) -> ca.SX:
    """Register a piecewise function in the current trace, and return its symbol.

    If the current trace does not collect piecewise functions, return the complete function.
    """
    if not is_tracing():
        return choice.whole
    _tracing.found.append(choice)
    return choice.symbol


def is_tracing() -> bool:
    """Return True inside a trace that collects piecewise functions."""
    return getattr(_tracing, "found", None) is not None


def substitute_complete_functions(choices: Sequence[Choice], elements: ca.SX) -> ca.SX:
    """Replace each symbol in `elements` (n,) by its complete piecewise function, `Choice.whole`."""
    return substitute_choices(choices, [choice.whole for choice in choices], elements)


def substitute_choices(
    choices: Sequence[Choice], expressions: Sequence[ca.SX], elements: ca.SX
) -> ca.SX:
    """Replace the symbols of piecewise functions in `elements` by the given expressions.

    Args:
        choices: Piecewise functions.
        expressions: Expression that replaces the symbol of each piecewise function.
        elements: Expressions (n,) in which the symbols are replaced.
    """
    symbols = ca.vertcat(ca.SX(0, 1), *(choice.symbol for choice in choices))
    while ca.depends_on(elements, symbols):  # one pass for each level of nested choices
        elements = ca.substitute(elements, symbols, ca.vertcat(*expressions))
    return elements


def choosing_function(
    name: str, x: ca.SX, choices: Sequence[Choice], elements: ca.SX
) -> ca.Function:
    """Return a CasADi function that computes `elements` and the piecewise functions of a trace.

    The arguments are x and the symbols of the piecewise functions `choices`. The result contains
    `elements`. The fields `margin`, `above`, `below` and `whole` of each `Choice` follow.
    """
    laws = [expression for choice in choices for expression in choice[1:]]
    symbols = ca.vertcat(*(choice.symbol for choice in choices))
    return ca.Function(name, [x, symbols], [ca.cse(ca.vertcat(elements, *laws))])


def call_choosing_function(function: ca.Function, x: ca.SX) -> ca.SX:
    """Call `function`, a result of `choosing_function`, at x, and return its `elements`.

    The call registers the piecewise functions in the current trace.
    """
    symbols = ca.SX.sym("choice", function.size1_in(1))
    flat = function(x, symbols)
    size = flat.numel() - _LAW * symbols.numel()
    for k in range(symbols.numel()):
        law = range(size + _LAW * k, size + _LAW * (k + 1))
        choose(Choice(symbols[k], *(flat[place] for place in law)))
    return flat[:size, 0]


Shapes = Mapping[str, tuple[int, ...]]

# folders of this library and of NumPy
_NOT_USERS = tuple(
    f"{Path(file).parents[k]}{os.sep}" for file, k in ((__file__, 1), (np.__file__, 0))
)


def element_names(shapes: Shapes) -> list[str]:
    """Return the names of all elements of arrays, such as `q[1]` or `f[1,1]`, in C order.

    `shapes` contains the shapes of the arrays by name. The indices begin at 1, as for ports. The
    name of a scalar has no index.
    """
    return [
        f"{name}[{','.join(str(k + 1) for k in index)}]" if shape else name
        for name, shape in shapes.items()
        for index in np.ndindex(*shape)
    ]


class TraceError(TypeError):
    """Error for a function that uses a traced value where Python requires a number."""


class Traced:
    """Scalar expression of a trace, used as an element of NumPy object arrays."""

    __slots__ = ("sx",)
    __hash__ = None  # type: ignore[assignment]  # == is traced, so a value cannot be a key

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
        """Return the angle [rad] of the point (other, self); `np.arctan2` calls this method."""
        return _apply(ca.OP_ATAN2, self, other)

    def select(self, a: Any, b: Any) -> "Traced":
        """Return `a` if this traced condition is true, else `b`.

        `rigidblocks.spatial.scalar.select` calls this method.
        """
        return Traced(ca.if_else(self.sx, _sx(a), _sx(b)))

    def minimum(self, other: "Traced") -> Any:
        """Return the smaller of this value and `other`, or NaN if a value is NaN.

        `rigidblocks.spatial.scalar.minimum` calls this method.
        """
        return _apply(ca.OP_FMIN, self, other)

    def maximum(self, other: "Traced") -> Any:
        """Return the larger of this value and `other`, or NaN if a value is NaN."""
        return _apply(ca.OP_FMAX, self, other)

    def erf(self) -> "Traced":
        """Return the error function; `rigidblocks.spatial.scalar.erf` calls this method."""
        return Traced(ca.erf(self.sx))

    def matrix_product(self, W: Array, x: Array) -> Array:
        """Return W x; `rigidblocks.spatial.scalar.matrix_product` calls this method.

        Args:
            W: Constant matrix (m, n).
            x: Vector (n,) with at least one traced element.
        """
        y = product_expression(W, ca.vertcat(*map(_sx, x)))
        values: Array = _traced_array(y, (len(W),))
        return values

    def cast_rays(self, fan: Fan, x: Array) -> Array:
        """Return the distances of rays; `robot.ray_casting.cast_rays` calls this method.

        Args:
            fan: Rays and shapes.
            x: Position (3,) and flattened rotation matrix (9,) of the sensor, as one array (12,).
                At least one element is traced.
        """
        y = ray_expression(fan, ca.vertcat(*map(_sx, x)), is_traced_for_derivatives(x))
        values: Array = _traced_array(y, (len(fan.directions),))
        return values

    def choice(self, above: Any, below: Any, whole: Any) -> Any:
        """Return the piecewise function whose margin is this value.

        The result is `above` if the margin is positive, and otherwise `below`. `whole` is the same
        function as one expression, used outside model exchange.
        `rigidblocks.spatial.scalar.piecewise` calls this method.
        """
        law = (self.sx, _sx(above), _sx(below), _sx(whole))
        return _element(choose(Choice(ca.SX.sym("choice"), *law)))

    def count_at_most(self, grid: Array) -> Any:
        """Return the number of elements of an increasing grid (n,) that are at most this value.

        `rigidblocks.spatial.piecewise_lookup.count_at_most` calls this method.
        """
        return Traced(lookup(grid, self.sx, counts_entries=True))

    def entry(self, values: Array) -> Any:
        """Return the element of `values` (n,) at this traced index."""
        return Traced(lookup(values, self.sx, counts_entries=False))

    def __bool__(self) -> bool:
        raise _refusal("truth value")

    def __float__(self) -> float:
        raise _refusal("number")

    def __int__(self) -> int:
        raise _refusal("number")

    __index__ = __int__


def _refusal(wanted: str) -> TraceError:
    refused = TraceError(
        f"{_calling_line()} needs the {wanted} of a traced value, which is unknown: replace a "
        "data-dependent `if` by select(condition, a, b), a < b of arrays by less, and min, max and "
        "clip by minimum, maximum and clip, all of rigidblocks.spatial.scalar"
    )
    return add_doc_link(refused, "traced functions")


def _calling_line() -> str:
    """Return the source line at which a traced function requires a number, for error messages."""
    frames = traceback.walk_stack(sys._getframe(3))
    inside = list(itertools.takewhile(lambda one: one[0].f_code is not trace.__code__, frames))
    of_user = (one for one in inside if not one[0].f_code.co_filename.startswith(_NOT_USERS))
    frame, line = next(of_user, inside[0])
    code = frame.f_code
    text = linecache.getline(code.co_filename, line).strip()
    return f"{code.co_filename}:{line}, in {code.co_qualname}: `{text}`"


def _sx(value: Any) -> ca.SX:
    return value.sx if isinstance(value, Traced) else ca.SX(float(value))


def _elements(column: ca.SX) -> Array:
    """Return the elements of a CasADi column (n,) as an object array."""
    elements = np.empty(column.numel(), dtype=object)
    elements[:] = [_element(column[k]) for k in range(column.numel())]
    return elements


def _element(sx: ca.SX) -> Any:
    """Return a CasADi expression `sx` as a traced scalar, or as a float if it is constant."""
    return float(sx) if sx.is_constant() else Traced(sx)


_SCALARS = (Traced, float, Real)  # the most frequent type first


def _apply(code: int, a: Any, b: Any) -> Any:
    """Apply the CasADi operation `code` to the scalars a and b, at least one of them traced."""
    if isinstance(a, _SCALARS) and isinstance(b, _SCALARS):
        # SX.binary is five times as fast as CasADi's operators, which search all operand types
        return _element(ca.SX.binary(code, _sx(a), _sx(b)))
    return NotImplemented  # the other operand is an array, so NumPy broadcasts


def _define_operators() -> None:
    """Add the comparisons, the logical operators and methods such as `sin` to `Traced`.

    For an object array, NumPy's function `sin` calls the method `sin` of each element.
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
    """Expression graph of a function from a flat input vector to a flat output vector.

    Attributes:
        name: Name of the function.
        inputs: Shapes of the inputs by name, in the order of the input vector. The elements of an
            input are in C order.
        outputs: Shapes of the outputs by name, in the order of the output vector.
        function: CasADi function of the flat input vector.
        choosing: CasADi function that also returns the piecewise functions (`choosing_function`);
            None if the function does not use `spatial.scalar.piecewise`.
        retrace: Function that traces the variant for derivatives
            (`spatial.scalar.is_traced_for_derivatives`); None if this variant equals the variant
            for values.
    """

    name: str
    inputs: Shapes
    outputs: Shapes
    function: ca.Function
    choosing: ca.Function | None = None
    retrace: Callable[[], "Graph"] | None = None

    @cached_property
    def differentiable(self) -> "Graph":
        """Variant of the graph for the computation of derivatives.

        Some traced functions omit terms that are zero but have nonzero derivatives. The variant
        contains these terms and computes the same values.
        """
        return self if self.retrace is None else self.retrace()

    @cached_property
    def operations(self) -> Counter[str]:
        """Number of occurrences of each operation in the graph, except moves and constants."""
        return operations(self.function)

    @property
    def operation_count(self) -> int:
        """Number of operations in the graph, except sines and cosines (as in RBDA 10.3)."""
        return _arithmetic(self.operations)

    @cached_property
    def depends(self) -> Array:
        """Boolean matrix (outputs, inputs) of dependencies.

        Element (i, j) is True if element i of the output vector depends on element j of the input
        vector.
        """
        sparsity = self.function.jac_sparsity(0, 0)
        matrix = np.zeros(sparsity.shape, dtype=bool)
        matrix[tuple(np.array(sparsity.get_triplet(), dtype=int))] = True
        return matrix

    @cached_property
    def copies(self) -> dict[int, int]:
        """Output elements that are copies of input elements.

        The keys are indices in the output vector, and the values are indices in the input vector.
        """
        source: dict[int, int] = {}  # index of the input in each work variable
        copies = {}
        for code, inputs, outputs in instructions(self.function):
            if code == ca.OP_INPUT:
                source[outputs[0]] = inputs[1]
            elif code != ca.OP_OUTPUT:
                for place in outputs:
                    source.pop(place, None)
            elif inputs[0] in source:
                copies[outputs[1]] = source[inputs[0]]
        return copies

    def __call__(self, values: Array) -> Array:
        """Return the output vector for an input vector.

        CasADi evaluates numeric inputs. If inputs are traced, the outputs are expressions.
        """
        if values.dtype != object:
            return np.array(self.function(values)).ravel()
        if self.retrace is not None and is_traced_for_derivatives(values):
            return self.differentiable(values)
        flat = ca.vertcat(*map(_sx, values))
        if self.choosing is not None and is_tracing():
            result = call_choosing_function(self.choosing, flat)
        else:
            result = self.function(flat)
        return _elements(result)

    def call(self, values: Array) -> Array:
        """Return the output vector for an input vector, as one call in other graphs.

        For traced inputs, the outputs are results of a call. The C code therefore contains the
        operations of this graph only once, as a function, for any number of calls.
        """
        if values.dtype != object:
            return self(values)
        if self.retrace is not None and is_traced_for_derivatives(values):
            return self.differentiable.call(values)
        return _elements(self._called(ca.vertcat(*map(_sx, values))))

    @cached_property
    def _called(self) -> ca.Function:
        """CasADi function that other graphs call; its name depends only on its operations."""
        name = f"called_{hashlib.sha256(_operations_text(self.function).encode()).hexdigest()[:16]}"
        x = ca.SX.sym("x", self.function.size1_in(0))
        return ca.Function(name, [x], [self.function(x)], {"never_inline": True})


def _operations_text(function: ca.Function) -> str:
    """Return a text that depends on all operations of a function, but not on names of variables."""
    steps = list(instructions(function))
    codes = [code for code, *_ in steps]
    expressions: Any = function.instructions_sx() if ca.OP_CALL in codes else []
    called = [
        expressions[k].which_function().name() for k, code in enumerate(codes) if code == ca.OP_CALL
    ]
    constants = [
        function.instruction_constant(k) for k, code in enumerate(codes) if code == ca.OP_CONST
    ]
    return repr((function.size_in(0), function.size_out(0), steps, called, constants))


_MOVES = (ca.OP_INPUT, ca.OP_OUTPUT, ca.OP_CONST)
_OPERATION_NAMES = {
    value: name.removeprefix("OP_").lower()
    for name, value in vars(ca).items()
    if name.startswith("OP_")
}


def instructions(function: ca.Function) -> Iterator[tuple[int, list[int], list[int]]]:
    """Yield the operation code, input indices and output indices of each CasADi instruction.

    The indices refer to work variables, with two exceptions. The input indices of an input
    instruction refer to a function argument and to its element. The output indices of an output
    instruction refer to a function result and to its element.
    """
    numbers = range(function.n_instructions())
    yield from zip(
        map(function.instruction_id, numbers),
        map(function.instruction_input, numbers),
        map(function.instruction_output, numbers),
        strict=True,
    )


def operations(function: ca.Function) -> Counter[str]:
    """Return the number of occurrences of each operation, except moves and constants, by name."""
    counts = Counter(map(function.instruction_id, range(function.n_instructions())))
    return Counter({_OPERATION_NAMES[k]: n for k, n in counts.items() if k not in _MOVES})


def operation_count(function: ca.Function) -> int:
    """Return the number of operations of a CasADi function (RBDA 10.3).

    Sines, cosines, moves and constants are not counted.
    """
    return _arithmetic(operations(function))


def _arithmetic(counts: Counter[str]) -> int:
    return sum(count for name, count in counts.items() if name not in ("sin", "cos"))


def trace(name: str, function: Callable[..., Mapping[str, Array]], inputs: Shapes) -> Graph:
    """Return the expression graph of a function.

    The tracer calls the function once, with a traced array for each input.

    Args:
        name: Name of the graph.
        function: Function with the inputs as positional arguments, which returns its outputs by
            name.
        inputs: Shapes of the inputs by name.

    Raises:
        TraceError: The function branches on a traced value.
    """
    graph, has_derivative_form = _traced_graph(name, function, inputs, False)
    if not has_derivative_form:
        return graph
    return replace(graph, retrace=lambda: _traced_graph(name, function, inputs, True)[0])


def _traced_graph(
    name: str, function: Callable[..., Mapping[str, Array]], inputs: Shapes, derivatives: bool
) -> tuple[Graph, bool]:
    """Trace one of the two variants of a function.

    If `derivatives` is True, the function traces the variant for derivatives, else the variant for
    values (`Graph.differentiable`).

    Returns:
        Graph, and True if the two variants of the function differ.
    """
    symbols = [ca.SX.sym(key, prod(shape)) for key, shape in inputs.items()]
    with (
        pause_garbage_collection(),
        choices_of_trace() as choices,
        derivative_form(derivatives) as form,
    ):
        results = function(*map(_traced_array, symbols, inputs.values()))
    outputs = {key: np.asarray(value) for key, value in results.items()}
    elements = ca.SX(0, 1)
    if flat := [_sx(element) for value in outputs.values() for element in value.ravel()]:
        elements = ca.densify(ca.vertcat(*flat))
    shapes = {key: value.shape for key, value in outputs.items()}
    x, choosing = ca.vertcat(*symbols), None
    if choices:
        choosing = choosing_function(name, x, choices, elements)
        elements = substitute_complete_functions(choices, elements)
    flat_function = ca.Function(name, [x], [ca.cse(elements)])
    return Graph(name, dict(inputs), shapes, flat_function, choosing), form.exists


def _traced_array(symbol: ca.SX, shape: tuple[int, ...]) -> Any:
    elements = np.empty(prod(shape), dtype=object)
    elements[:] = [Traced(symbol[k]) for k in range(prod(shape))]
    return elements.reshape(shape) if shape else elements[0]


class Evaluation:
    """Numeric evaluator of a graph with preallocated buffers.

    A call returns the output vector for an input vector. It returns the same values as
    `Graph.__call__`, with about a tenth of the overhead. Each thread needs its own object.
    """

    def __init__(self, graph: Graph):
        self._inputs = np.zeros(graph.function.nnz_in())
        self._outputs = np.zeros(graph.function.nnz_out())
        self._buffer, self._run = graph.function.buffer()
        self._buffer.set_arg(0, memoryview(self._inputs))  # type: ignore[call-arg,arg-type]
        self._buffer.set_res(0, memoryview(self._outputs))  # type: ignore[call-arg,arg-type]

    def __call__(self, values: Array) -> Array:
        self._inputs[:] = values
        self._run()
        return self._outputs.copy()


def jacobian(graph: Graph, outputs: str | Iterable[str], inputs: str | Iterable[str]) -> Graph:
    """Return the graph of the derivatives of selected outputs with respect to selected inputs.

    The returned graph has the inputs of `graph`, and an output `dy_dx` for each pair of an output y
    and an input x. The shape of dy_dx is the shape of y followed by the shape of x. The derivatives
    are exact and have the unit of y per unit of x. If y does not depend on x, the derivative is
    exactly zero and needs no operations. The derivative of `select` is the derivative of the
    selected branch. The derivatives include terms that `graph` omits because their values are zero
    (`Graph.differentiable`).

    Args:
        graph: Graph of the function.
        outputs: Name or names of the outputs.
        inputs: Name or names of the inputs.

    Raises:
        KeyError: An output or input is unknown.
    """
    rows, columns = (
        _places(graph, "output", graph.outputs, outputs),
        _places(graph, "input", graph.inputs, inputs),
    )
    x = ca.SX.sym("x", graph.function.size1_in(0))
    matrix = ca.jacobian(graph.differentiable.function(x), x)
    blocks = {
        f"d{y}_d{u}": (matrix[r, c], graph.outputs[y] + graph.inputs[u])
        for y, r in rows
        for u, c in columns
    }
    flat = ca.vertcat(*(ca.vec(ca.densify(block).T) for block, _ in blocks.values()))
    shapes = {name: shape for name, (_, shape) in blocks.items()}
    function = ca.Function(f"{graph.name}_jacobian", [x], [ca.cse(flat)])
    return Graph(function.name(), graph.inputs, shapes, function)


def directional(graph: Graph, n: int) -> Graph:
    """Return the graph of the directional derivatives J V of all outputs along n directions.

    J (k, m) is the Jacobian of the output vector (k,) with respect to the input vector (m,). The
    returned graph has the inputs of `graph` and an additional input V (m, n), named `change`. The
    columns of V are the directions. The output J V (k, n) is also named `change`. The derivatives
    are exact, as in `jacobian`. One pass in forward mode computes all directions.
    """
    size = graph.function.size1_in(0)
    x, V = ca.SX.sym("x", size), ca.SX.sym("V", n, size)
    changes = ca.densify(ca.jtimes(graph.differentiable.function(x), x, V.T))
    function = ca.Function(
        f"{graph.name}_directional", [ca.vertcat(x, ca.vec(V))], [ca.cse(ca.vec(changes.T))]
    )
    shapes = {**graph.inputs, "change": (size, n)}
    return Graph(function.name(), shapes, {"change": (changes.size1(), n)}, function)


def adjoint(graph: Graph) -> Graph:
    """Return the graph of the adjoint derivative J^T l for a vector of multipliers l.

    J (k, m) is the Jacobian of the output vector (k,) with respect to the input vector (m,). The
    returned graph has the inputs of `graph` and an additional input l (k,), named `multipliers`.
    The output `slopes` (m,) is J^T l. The derivatives are exact, as in `jacobian`, and one pass in
    reverse mode computes them.
    """
    x = ca.SX.sym("x", graph.function.size1_in(0))
    multipliers = ca.SX.sym("l", graph.function.size1_out(0))
    slopes = ca.jtimes(graph.differentiable.function(x), x, multipliers, True)
    name, elements = f"{graph.name}_adjoint", ca.cse(ca.densify(slopes))
    function = ca.Function(name, [ca.vertcat(x, multipliers)], [elements])
    shapes = {**graph.inputs, "multipliers": (multipliers.numel(),)}
    return Graph(name, shapes, {"slopes": (x.numel(),)}, function)


def _places(
    graph: Graph, kind: str, shapes: Shapes, names: str | Iterable[str]
) -> list[tuple[str, slice]]:
    """Return pairs (name, slice in the flat vector) of the selected inputs or outputs.

    `kind` is "input" or "output" in the message of the KeyError for an unknown name.
    """
    chosen = (names,) if isinstance(names, str) else tuple(names)
    if unknown := [name for name in chosen if name not in shapes]:
        raise KeyError(
            f"{graph.name} has no {kind} {', '.join(unknown)}; it has: {', '.join(shapes)}"
        )
    places = _slices(shapes)
    return [(name, places[name]) for name in chosen]


def _slices(shapes: Shapes) -> Mapping[str, slice]:
    ends = np.cumsum([0, *(prod(shape) for shape in shapes.values())]).tolist()
    return {name: slice(a, b) for name, a, b in zip(shapes, ends, ends[1:], strict=False)}
