"""Generator of C99 code for expression graphs.

The code of a graph is a straight-line function of flat vectors and includes only <math.h>.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import accumulate
from math import isinf, isnan
from types import MappingProxyType

import casadi as ca

from rigidblocks.tracing.c_notation import SCALAR, Assignment, Notation, Number
from rigidblocks.tracing.matrix_products import call_assignment, product_call, product_texts
from rigidblocks.tracing.outlining import (
    LONG,
    Function,
    assignment_texts,
    definition,
    outline_functions,
)
from rigidblocks.tracing.ray_calls import ray_call, ray_texts
from rigidblocks.tracing.trace import (
    Graph,
    Shapes,
    element_names,
    find_table,
    instructions,
    pause_garbage_collection,
)


@dataclass(frozen=True, eq=False)
class WrittenFunction:
    """C function with loops that call traced functions.

        static void name(const double *in, double *cells, double *out)

    Attributes:
        name: Name of the C function.
        inputs: Shapes of the inputs by name, as in `Graph`.
        outputs: Shapes of the outputs by name, as in `Graph`.
        text: C code.
        work: Number of doubles in the workspace `cells`.
        wide: True if vector instructions accelerate the loops that take most of the computing time.
        operation_count: Number of operations of the traced functions, except sines and cosines.
    """

    name: str
    inputs: Shapes
    outputs: Shapes
    text: str
    work: int
    wide: bool = False
    operation_count: int = 0


def c_function(
    graph: Graph,
    *,
    inline: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
    notation: Notation = SCALAR,
) -> str:
    """Return the C99 code of an expression graph as a static function.

        static void name(const double *in, double *out)

    The values have the type `notation.real`, by default double.

    Args:
        graph: Expression graph.
        inline: True for a `static inline` function in a header.
        names: Descriptions of elements of `in` and `out`, by C expression such as in[0]. A
            description becomes a comment at the first statement that reads or writes the element.
        notation: Notation of numbers and operations.

    Raises:
        NotImplementedError: An operation has no C expression.
        ValueError: Outputs depend on a NaN constant; the message lists these outputs.
    """
    return c_functions([graph], [names], inline=inline, notation=notation)


@pause_garbage_collection()
def c_functions(
    graphs: Sequence[Graph],
    names: Sequence[Mapping[str, str]],
    *,
    inline: bool = False,
    notation: Notation = SCALAR,
    with_tables: bool = True,
) -> str:
    """Return the C99 code of several expression graphs.

    Because the compile time of a function grows more than linearly with its length, the code of
    long functions is divided into pieces. Several functions may share a piece (`outlining`).

    Args:
        graphs: Expression graphs.
        names: Descriptions of elements, as in `c_function`, for each graph.
        inline: True for `static inline` functions in a header.
        notation: Notation of numbers and operations.
        with_tables: True to include the code of lookup tables.

    Raises:
        NotImplementedError: An operation has no C expression.
        ValueError: Outputs depend on a NaN constant; the message lists these outputs.
    """
    tables: dict[str, None] = {}
    products: dict[str, None] = {}
    rays: dict[str, None] = {}
    nested: dict[str, str] = {}
    short, long = [], {}
    for graph, own in zip(graphs, names, strict=True):
        assignments = _graph_assignments(graph, own, notation)
        called = list(_nested_functions(graph.function))
        names_called = [function.name() for function in called]
        tables |= dict.fromkeys(one.c_text() for one in map(find_table, names_called) if one)
        products |= dict.fromkeys(product_texts(names_called, notation))
        rays |= dict.fromkeys(ray_texts(names_called, notation))
        nested |= {f.name(): _nested_text(f, notation) for f in called if f.is_a("SXFunction")}
        if len(assignments) > LONG:
            long[graph.name] = Function(assignments, own)
        else:
            lines = list(_lines(assignments, dict(own)))
            arguments = f"const {notation.real} *in, {notation.real} *out"
            short.append(definition(graph.name, arguments, lines, ("in", "out"), inline))
    text = outline_functions(long, inline, notation.real) if long else ""
    head = "".join(tables if with_tables else ())
    if products and notation is SCALAR:
        head += c_text("algorithms/matrix_product.h")
    head += "".join(products)
    if rays:
        head += c_text("algorithms/ray_casting.h")
    head += "".join(rays)
    if "RB_WORKSPACE(" in "".join((text, *nested.values())):
        head += "#define RB_LARGE_FUNCTION\n" + c_text("kernel/workspace.h")
    return head + "".join(nested.values()) + "\n".join(short) + text


LEAST_COPIES = 50  # smallest number of copied elements for a loop; a copy takes 1 ms to compile
_COPY = re.compile(r"out\[(\d+)\] = in\[(\d+)\];")


def _lines(assignments: Sequence[Assignment], names: dict[str, str]) -> Iterator[str]:
    """Yield the C code of statements; a loop replaces many copies from `in` to `out`.

    The comment of a loop contains the descriptions of its first and its last element.
    """
    for run in _copy_runs(assignments):
        texts = list(assignment_texts(run, names))
        found = _COPY.match(texts[0])
        if found is None or len(run) < LEAST_COPIES:
            yield from texts
            continue
        comments = [text.partition(";")[2].strip(" /*") for text in (texts[0], texts[-1])]
        yield f"for (int k = 0; k < {len(run)}; k++) /* {' ... '.join(comments)} */"
        yield f"    out[{found[1]} + k] = in[{found[2]} + k];"


def _copy_runs(assignments: Iterable[Assignment]) -> Iterator[list[Assignment]]:
    """Divide statements into groups: copies of consecutive elements, or a single statement."""
    run: list[Assignment] = []
    expected = None  # indices of the elements that continue the run
    for one in assignments:
        found = _COPY.fullmatch(one.text) if one.form == "%s = %s;" else None
        places = (int(found[1]), int(found[2])) if found else None
        if run and (places is None or places != expected):
            yield run
            run = []
        run.append(one)
        expected = (places[0] + 1, places[1] + 1) if places else None
    if run:
        yield run


def _all_assignments(function: ca.Function, notation: Notation) -> list[Assignment]:
    inputs = [f"in[{k}]" for k in range(function.nnz_in())]
    outputs = [f"out[{k}]" for k in range(function.nnz_out())]
    return list(_assignments(function, inputs, outputs, notation))


def _graph_assignments(
    graph: Graph, names: Mapping[str, str], notation: Notation
) -> list[Assignment]:
    try:
        return _all_assignments(graph.function, notation)
    except ValueError as error:  # a NaN constant, which has no literal
        raise ValueError(
            f"the traced function {graph.name} has the constant NaN in "
            f"{', '.join(_reached_by_nan(graph, names)[:8])}: the NaN does not depend on the "
            "inputs; check the constants of the function"
        ) from error


def _called_functions(function: ca.Function) -> dict[int, ca.Function]:
    """Return the functions that a CasADi function calls, by instruction index."""
    codes = map(function.instruction_id, range(function.n_instructions()))
    calls = [k for k, code in enumerate(codes) if code == ca.OP_CALL]
    if not calls:
        return {}
    expressions = function.instructions_sx()
    return {k: expressions[k].which_function() for k in calls}


def _nested_functions(function: ca.Function) -> Iterator[ca.Function]:
    """Yield all functions that a CasADi function calls; callees precede their callers."""
    known = set[str]()
    for called in _called_functions(function).values():
        if called.name() not in known:
            known.add(called.name())
            if called.is_a("SXFunction"):
                yield from _nested_functions(called)
            yield called


def _nested_name(function: ca.Function, notation: Notation) -> str:
    """Return the C name of a called function for scalars or for SIMD lanes."""
    return function.name() if notation is SCALAR else f"{function.name()}_lanes"


def _nested_text(function: ca.Function, notation: Notation) -> str:
    """Return the C code of a called function, with a guard against repeated definition."""
    name, assignments = _nested_name(function, notation), _all_assignments(function, notation)
    if len(assignments) > LONG:
        text = outline_functions({name: Function(assignments, {})}, False, notation.real)
    else:
        arguments = f"const {notation.real} *in, {notation.real} *out"
        text = definition(name, arguments, list(_lines(assignments, {})), ("in", "out"), False)
    return f"#ifndef HAS_{name}\n#define HAS_{name}\n{text}\n#endif\n"


def c_text(path: str) -> str:
    """Return the text of a C file of this package; `path` is relative to the folder `c`."""
    return files("rigidblocks").joinpath("c", path).read_text()


def c_number(value: float) -> str:
    """Return the C literal that represents a double exactly; raise ValueError for NaN."""
    if isnan(value):
        raise ValueError("NaN has no C literal")
    if isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def _reached_by_nan(graph: Graph, names: Mapping[str, str]) -> list[str]:
    """Return the names of the output elements of a graph that depend on a constant NaN."""
    own, reached = element_names(graph.outputs), []
    nan: dict[int, bool] = {}  # true if CasADi's work variable depends on a NaN
    for k, (code, inputs, targets) in enumerate(instructions(graph.function)):
        if code == ca.OP_CONST:
            nan[targets[0]] = isnan(graph.function.instruction_constant(k))
        elif code != ca.OP_OUTPUT:
            nan |= dict.fromkeys(targets, code != ca.OP_INPUT and any(nan[i] for i in inputs))
        elif nan[inputs[0]]:
            reached.append(names.get(f"out[{targets[1]}]", own[targets[1]]))
    return reached


def statements(
    function: ca.Function,
    inputs: Sequence[str],
    outputs: Sequence[str],
    notation: Notation = SCALAR,
) -> Iterator[str]:
    """Yield the C statements of a CasADi function in single-assignment form.

    Each operation is one statement. Repeated divisions by the same value become products with the
    reciprocal of this value.

    Args:
        function: CasADi function of a flat vector.
        inputs: C expression of each input element.
        outputs: C expression of each output element, to which the statements assign the result.
        notation: Notation of numbers and operations.
    """
    return (one.text for one in _assignments(function, inputs, outputs, notation))


def _assignments(
    function: ca.Function, inputs: Sequence[str], outputs: Sequence[str], notation: Notation
) -> Iterator[Assignment]:
    operations = list(_operations(function, inputs, outputs))
    calls = any(code == ca.OP_CALL for _, code, *_ in operations)
    called = {f"v{k}": one for k, one in _called_functions(function).items()} if calls else {}
    divisors = Counter(operands[1] for _, code, operands, _ in operations if code == ca.OP_DIV)
    reciprocals: dict[str, str] = {}
    paired = _pairs(operations) if notation.sine_and_cosine else {}
    generator = _StatementGenerator(notation, frozenset(outputs))
    for target, code, operands, used in operations:
        if pair := paired.get(target):
            if target == pair[0]:
                yield _sine_and_cosine(operands[0], code, pair, notation)
            continue
        if code == ca.OP_DIV and divisors[operands[1]] > 1:
            a, b = operands
            if b not in reciprocals:
                r = reciprocals[b] = f"r{len(reciprocals)}"
                yield generator.assignment(r, ca.OP_INV, (b,))
            code, operands = ca.OP_MUL, (a, reciprocals[b])
        nested = called.get(target)
        name = nested.name() if nested else ""
        if call := product_call(name) or ray_call(name):
            yield call.assignment(_targets(target, used), operands, notation)
        elif nested and nested.is_a("SXFunction"):
            yield call_assignment(
                _nested_name(nested, notation),
                _targets(target, used),
                operands,
                nested.nnz_out(),
                notation,
            )
        else:
            yield generator.assignment(target, code, operands, name)


_AS_GIVEN: tuple[list[int], ...] = [], [0], [0, 1]  # unchanged order of 0, 1 or 2 operands


class _StatementGenerator:
    """Generator of C statements, with a cache of statement templates.

    Args:
        notation: Notation of numbers and operations.
        results: C expressions of the outputs. Assignments to other names declare a variable.
    """

    def __init__(self, notation: Notation, results: frozenset[str]):
        self._notation, self._results = notation, results
        self._known: dict[tuple[object, ...], tuple[str, list[int]]] = {}

    def assignment(
        self, target: str, code: int, operands: tuple[str, ...], called: str = ""
    ) -> Assignment:
        """Return the C statement that assigns the result of an operation or a call to `target`.

        `called` is the name of a called function, or "" for an operation.
        """
        declares = target not in self._results
        key = (code, declares, called, *map(type, operands))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._form_and_places(code, operands, declares, called)
        form, order = known
        if order != _AS_GIVEN[len(operands)]:
            operands = tuple([operands[k] for k in order])
        return Assignment((target,), form, (target, *operands))

    def _form_and_places(
        self, code: int, operands: tuple[str, ...], declares: bool, called: str
    ) -> tuple[str, list[int]]:
        """Return the C template of an assignment, and the operand indices of its placeholders.

        The first placeholder %s is for the target, and the others are for the operands. If
        `declares` is True, the assignment declares the target as a constant.
        """
        if not called:
            text, order = self._notation.form(code, operands)
        elif find_table(called):
            text, order = self._notation.call(called, operands)
        else:
            text, order = self._notation.number("0.0"), []
        return f"const {self._notation.real} " * declares + f"%s = {text};", order


def _pairs(
    operations: Iterable[tuple[str, int, tuple[str, ...], list[int]]],
) -> dict[str, tuple[str, str]]:
    """Find angles with a computed sine and cosine; return the pairs of their variable names.

    The names of a pair are in the order of computation. The result contains each pair twice, with
    either name as the key.
    """
    of: dict[str, dict[int, str]] = {}
    for target, code, operands, _ in operations:
        if code in (ca.OP_SIN, ca.OP_COS):
            of.setdefault(operands[0], {})[code] = target
    pairs = [tuple(both.values()) for both in of.values() if len(both) == 2]
    return {target: (one, other) for one, other in pairs for target in (one, other)}


def _sine_and_cosine(
    angle: str, code: int, pair: tuple[str, str], notation: Notation
) -> Assignment:
    """Return the C statement that computes both the sine and the cosine of an angle.

    `pair` contains the names of the two values, in the order of their computation. `code` is the
    operation code of the first value.
    """
    sine, cosine = pair if code == ca.OP_SIN else pair[::-1]
    call = notation.sine_and_cosine.format(a="%s", sine="%s", cosine="%s")
    both = sine, cosine  # always in this order, so that equal pieces have equal operand positions
    return Assignment(both, f"{notation.real} %s, %s; {call}", (*both, angle, *both))


def _operations(
    function: ca.Function, arguments: Sequence[str], results: Sequence[str]
) -> Iterator[tuple[str, int, tuple[str, ...], list[int]]]:
    """Yield the target, operation code, operands and used result indices of each operation.

    The target is the unique name of the first result (`_result`), or the C expression of an output
    element. A result is used if a later operation reads it. `arguments` and `results` are the C
    expressions of the elements of the flat inputs and outputs.
    """
    name: dict[int, str] = {}  # current value in each work variable; CasADi reuses work variables
    first_in = list(accumulate(map(function.nnz_in, range(function.n_in())), initial=0))
    first_out = list(accumulate(map(function.nnz_out, range(function.n_out())), initial=0))
    for k, (code, inputs, outputs) in enumerate(instructions(function)):
        if code == ca.OP_OUTPUT:
            place = first_out[outputs[0]] + outputs[1]
            yield results[place], ca.OP_ASSIGN, (name[inputs[0]],), [0]
        elif code == ca.OP_INPUT:
            name[outputs[0]] = arguments[first_in[inputs[0]] + inputs[1]]
        elif code == ca.OP_CONST:
            name[outputs[0]] = Number(c_number(function.instruction_constant(k)))
        else:
            used = [n for n, place in enumerate(outputs) if place >= 0]  # -1: unused result
            yield f"v{k}", code, tuple([name[i] for i in inputs]), used
            for number in used:
                name[outputs[number]] = _result(f"v{k}", number)


def _targets(target: str, used: Iterable[int]) -> dict[int, str]:
    """Return the names of the results of a call with the indices `used`, by index (`_result`)."""
    return {k: _result(target, k) for k in used}


def _result(target: str, number: int) -> str:
    """Return the name of the result with index `number` of a call; `target` names result 0."""
    return f"{target}_{number}" if number else target
