"""C99 from an expression graph: one straight-line function over flat vectors, with no dependency but <math.h>."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isinf, isnan
from typing import NamedTuple

import casadi as ca

from rigidblocks.trace import Graph

LONG, PART = 5000, 1000  # statements: of a function that is divided, and of its parts
_BINARY = {
    ca.OP_ADD: "{a} + {b}",
    ca.OP_SUB: "{a} - {b}",
    ca.OP_MUL: "{a} * {b}",
    ca.OP_DIV: "{a} / {b}",
    ca.OP_LT: "({a} < {b}) ? 1.0 : 0.0",
    ca.OP_LE: "({a} <= {b}) ? 1.0 : 0.0",
    ca.OP_EQ: "({a} == {b}) ? 1.0 : 0.0",
    ca.OP_NE: "({a} != {b}) ? 1.0 : 0.0",
    ca.OP_AND: "({a} != 0.0 && {b} != 0.0) ? 1.0 : 0.0",
    ca.OP_OR: "({a} != 0.0 || {b} != 0.0) ? 1.0 : 0.0",
    ca.OP_IF_ELSE_ZERO: "({a} != 0.0) ? {b} : 0.0",
    ca.OP_POW: "pow({a}, {b})",
    ca.OP_CONSTPOW: "pow({a}, {b})",
    ca.OP_ATAN2: "atan2({a}, {b})",
    ca.OP_FMIN: "fmin({a}, {b})",
    ca.OP_FMAX: "fmax({a}, {b})",
}
_UNARY = {
    ca.OP_ASSIGN: "{a}",
    ca.OP_NEG: "-{a}",
    ca.OP_SQ: "{a} * {a}",
    ca.OP_TWICE: "{a} + {a}",
    ca.OP_INV: "1.0 / {a}",
    ca.OP_NOT: "({a} == 0.0) ? 1.0 : 0.0",
    ca.OP_SIGN: "({a} > 0.0) ? 1.0 : (({a} < 0.0) ? -1.0 : 0.0)",
    ca.OP_SQRT: "sqrt({a})",
    ca.OP_SIN: "sin({a})",
    ca.OP_COS: "cos({a})",
    ca.OP_TAN: "tan({a})",
    ca.OP_ASIN: "asin({a})",
    ca.OP_ACOS: "acos({a})",
    ca.OP_ATAN: "atan({a})",
    ca.OP_TANH: "tanh({a})",
    ca.OP_EXP: "exp({a})",
    ca.OP_LOG: "log({a})",
    ca.OP_FABS: "fabs({a})",
    ca.OP_FLOOR: "floor({a})",
    ca.OP_CEIL: "ceil({a})",
}


def c_function(graph: Graph) -> str:
    """The C99 text of the static function `void name(const double *in, double *out)` that the graph describes.

    A long one is made of parts, since compilers take time more than in proportion to a function's length. Raises
    NotImplementedError for an operation that has no C form here.
    """
    inputs = [f"in[{k}]" for k in range(graph.function.nnz_in())]
    outputs = [f"out[{k}]" for k in range(graph.function.nnz_out())]
    assignments = list(_assignments(graph.function, inputs, outputs))
    if len(assignments) > LONG:
        return _in_parts(graph.name, assignments)
    return _definition(graph.name, "const double *in, double *out", [one.text for one in assignments], ("in", "out"))


def _definition(name: str, arguments: str, lines: Sequence[str], unused: Sequence[str]) -> str:
    body = "\n".join(f"    {line}" for line in (*(f"(void){argument};" for argument in unused), *lines))
    return f"static void {name}({arguments})\n{{\n{body}\n}}\n"


def _in_parts(name: str, assignments: Sequence["Assignment"]) -> str:
    """The function as calls of parts that are compiled by themselves; what one leaves to another is in an array."""
    parts = [assignments[k : k + PART] for k in range(0, len(assignments), PART)]
    last = {read: k for k, part in enumerate(parts) for one in part for read in one.reads}
    place: dict[str, int] = {}  # where a value is that a later part reads
    free: list[int] = []
    size = 0
    texts, calls = ["#if defined(__GNUC__)\n__attribute__((noinline))\n#endif\n"], []
    for k, part in enumerate(parts):
        read = dict.fromkeys(name for one in part for name in one.reads if name in place)
        lines = [f"const double {value} = left[{place[value]}];" for value in read]
        for one in part:
            lines.append(one.text)
            if last.get(one.target, k) > k:
                place[one.target], size = (free.pop(), size) if free else (size, size + 1)
                lines.append(f"left[{place[one.target]}] = {one.target};")
        free += [place[value] for value in list(place) if last[value] == k]
        place = {value: slot for value, slot in place.items() if last[value] > k}
        arguments = "const double *in, double *out, double *left"
        texts.append(_definition(f"{name}_{k}", arguments, lines, ("in", "out", "left")))
        calls.append(f"{name}_{k}(in, out, left);")
    whole = _definition(name, "const double *in, double *out", [f"double left[{max(size, 1)}];", *calls], ())
    return texts[0].join(["", *texts[1:]]) + whole


def c_number(value: float) -> str:
    """The C literal of a number, exact to the last bit."""
    if isnan(value):
        raise ValueError("a traced function has the constant NaN")
    if isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


class Assignment(NamedTuple):
    """A C statement that gives `target` its one value, from those named in `reads`."""

    target: str
    reads: tuple[str, ...]
    text: str


def statements(function: ca.Function, inputs: Sequence[str], outputs: Sequence[str]) -> Iterator[str]:
    """One C statement an operation, each value assigned once; divisions by one value share its reciprocal.

    `inputs` and `outputs` are the C names of the flat inputs and outputs, which are read and written where they occur.
    """
    return (one.text for one in _assignments(function, inputs, outputs))


def _assignments(function: ca.Function, inputs: Sequence[str], outputs: Sequence[str]) -> Iterator[Assignment]:
    operations = list(_operations(function, inputs, outputs))
    results = set(outputs)
    divisors = Counter(operands[1] for _, code, operands in operations if code == ca.OP_DIV)
    reciprocals: dict[str, str] = {}
    for target, code, operands in operations:
        declared = target if target in results else f"const double {target}"
        if code == ca.OP_DIV and divisors[operands[1]] > 1:
            a, b = operands
            if b not in reciprocals:
                reciprocals[b] = f"r{len(reciprocals)}"
                yield Assignment(reciprocals[b], (b,), f"const double {reciprocals[b]} = 1.0 / {b};")
            yield Assignment(target, (a, reciprocals[b]), f"{declared} = {a} * {reciprocals[b]};")
        else:
            yield Assignment(target, tuple(operands), f"{declared} = {_expression(code, operands)};")


def _operations(
    function: ca.Function, arguments: Sequence[str], results: Sequence[str]
) -> Iterator[tuple[str, int, list[str]]]:
    """The target, operation code and operands of each statement, in single-assignment form."""
    name: dict[int, str] = {}  # what each of CasADi's reused work variables holds now
    for k in range(function.n_instructions()):
        code, inputs, outputs = function.instruction_id(k), function.instruction_input(k), function.instruction_output(k)
        if code == ca.OP_OUTPUT:
            yield results[outputs[1]], ca.OP_ASSIGN, [name[inputs[0]]]
        elif code == ca.OP_INPUT:
            name[outputs[0]] = arguments[inputs[1]]
        elif code == ca.OP_CONST:
            literal = c_number(function.instruction_constant(k))
            name[outputs[0]] = f"({literal})" if literal.startswith("-") else literal
        else:
            yield f"v{k}", code, [name[i] for i in inputs]
            name[outputs[0]] = f"v{k}"


def _expression(code: int, operands: list[str]) -> str:
    template = _BINARY.get(code) or _UNARY.get(code)
    if template is None:
        raise NotImplementedError(f"a traced function uses operation {code} of CasADi, which has no C form here")
    return template.format(**dict(zip("ab", operands, strict=False)))
