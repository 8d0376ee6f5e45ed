"""C99 from an expression graph: one straight-line function over flat vectors, with no dependency
but <math.h>.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from math import isinf, isnan
from types import MappingProxyType
from typing import NamedTuple

import casadi as ca

from rigidblocks.tracing.notation import SCALAR, Notation
from rigidblocks.tracing.tables import table_named
from rigidblocks.tracing.trace import Graph, element_names, instructions

LONG, PART = 5000, 1000  # statements: of a function that is divided, and of its parts


def c_function(
    graph: Graph,
    *,
    inline: bool = False,
    names: Mapping[str, str] = MappingProxyType({}),
    notation: Notation = SCALAR,
) -> str:
    """The C99 text of the static function `void name(const double *in, double *out)` that the graph
    describes; in another notation its numbers are of another type.

    With `inline` it is one for a header, which need not be used. `names` tells what elements of
    `in` and `out` are: the first statement that reads or writes one says so. A long one is made of
    parts, since compilers take time more than in proportion to a function's length. Raises
    NotImplementedError for an operation that has no C form here, and ValueError that names the
    outputs which a constant NaN goes into.
    """
    inputs = [f"in[{k}]" for k in range(graph.function.nnz_in())]
    outputs = [f"out[{k}]" for k in range(graph.function.nnz_out())]
    try:
        assignments = list(_named(_assignments(graph.function, inputs, outputs, notation), names))
    except ValueError as error:  # a constant that has no literal
        raise ValueError(
            f"the traced function {graph.name} has the constant NaN in "
            f"{', '.join(_reached_by_nan(graph, names)[:8])}: something in it is not a number, "
            "whatever its inputs are"
        ) from error
    tables = table_texts(graph.function)
    if len(assignments) > LONG:
        return tables + _in_parts(graph.name, assignments, inline, notation.real)
    return tables + _definition(
        graph.name,
        f"const {notation.real} *in, {notation.real} *out",
        [one.text for one in assignments],
        ("in", "out"),
        inline,
    )


def _definition(
    name: str, arguments: str, lines: Sequence[str], unused: Sequence[str], inline: bool = False
) -> str:
    body = "\n".join(
        f"    {line}" for line in (*(f"(void){argument};" for argument in unused), *lines)
    )
    kind = "static inline void" if inline else "static void"
    return f"{kind} {name}({arguments})\n{{\n{body}\n}}\n"


def _in_parts(name: str, assignments: Sequence["Assignment"], inline: bool, real: str) -> str:
    """The function as calls of parts that are compiled by themselves; what one leaves to another is
    in an array.
    """
    parts = [assignments[k : k + PART] for k in range(0, len(assignments), PART)]
    last = {read: k for k, part in enumerate(parts) for one in part for read in one.reads}
    left, text = _Left(real), ""
    for k, part in enumerate(parts):
        lines = [*left.read_by(part), *left.written_by(part, k, last)]
        left.forget(value for value in list(left.place) if last[value] == k)
        arguments = f"const {real} *in, {real} *out, {real} *left"
        text += "#if defined(__GNUC__)\n__attribute__((noinline))\n#endif\n"
        text += _definition(f"{name}_{k}", arguments, lines, ("in", "out", "left"))
    calls = [f"{name}_{k}(in, out, left);" for k in range(len(parts))]
    lines = [f"{real} left[{max(left.size, 1)}];", *calls]
    return text + _definition(name, f"const {real} *in, {real} *out", lines, (), inline)


class _Left:
    """The array `left` of a function in parts: where the values are that later parts read."""

    def __init__(self, real: str) -> None:
        self.place: dict[str, int] = {}
        self.size = 0
        self._real = real
        self._free: list[int] = []

    def read_by(self, part: Iterable["Assignment"]) -> list[str]:
        """The statements by which a part reads what others have left."""
        read = dict.fromkeys(x for one in part for x in one.reads if x in self.place)
        return [f"const {self._real} {value} = left[{self.place[value]}];" for value in read]

    def written_by(
        self, part: Iterable["Assignment"], k: int, last: Mapping[str, int]
    ) -> Iterator[str]:
        """The statements of part k, each followed by the one that leaves its value to a later part,
        where `last` says that one reads it.
        """
        for one in part:
            yield one.text
            for target in one.targets:
                if last.get(target, k) > k:
                    self.place[target] = self._free.pop() if self._free else self.size
                    self.size = max(self.size, self.place[target] + 1)
                    yield f"left[{self.place[target]}] = {target};"

    def forget(self, values: Iterable[str]) -> None:
        """Frees the places of values that are not read any more."""
        self._free += [self.place.pop(value) for value in values]


def table_texts(function: ca.Function) -> str:
    """The C of the tables that a function looks up, each once."""
    used = (table_named(name) for name in dict.fromkeys(_called(function).values()))
    return "".join(one.c_text() for one in used if one is not None)


def _called(function: ca.Function) -> dict[int, str]:
    """The names of the functions that instructions call, by the number of the instruction."""
    calls = [k for k, one in enumerate(instructions(function)) if one[0] == ca.OP_CALL]
    if not calls:
        return {}
    expressions = function.instructions_sx()
    return {k: expressions[k].which_function().name() for k in calls}


def c_text(path: str) -> str:
    """The text of a file of the library's own C, by its path in the folder `c`."""
    return files("rigidblocks").joinpath("c", path).read_text()


def c_number(value: float) -> str:
    """The C literal of a number, exact to the last bit."""
    if isnan(value):
        raise ValueError("NaN has no C literal")
    if isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value))


def c_string(text: str) -> str:
    """The C literal of a text, all but plain characters of its UTF-8 form as octal escapes."""
    plain = re.compile(rb"[A-Za-z0-9_ .,:;()\[\]{}+*/<>=-]")
    return (
        '"'
        + "".join(chr(b) if plain.match(bytes([b])) else f"\\{b:03o}" for b in text.encode())
        + '"'
    )


def _reached_by_nan(graph: Graph, names: Mapping[str, str]) -> list[str]:
    """What the output elements are that are computed from a constant NaN."""
    own, reached = element_names(graph.outputs), []
    nan: dict[int, bool] = {}  # whether each of CasADi's work variables comes from one
    for k, (code, inputs, targets) in enumerate(instructions(graph.function)):
        if code == ca.OP_CONST:
            nan[targets[0]] = isnan(graph.function.instruction_constant(k))
        elif code != ca.OP_OUTPUT:
            nan[targets[0]] = code != ca.OP_INPUT and any(nan[i] for i in inputs)
        elif nan[inputs[0]]:
            reached.append(names.get(f"out[{targets[1]}]", own[targets[1]]))
    return reached


class Assignment(NamedTuple):
    """A C statement that gives `targets` their one value each, from those named in `reads`."""

    targets: tuple[str, ...]
    reads: tuple[str, ...]
    text: str


def statements(
    function: ca.Function,
    inputs: Sequence[str],
    outputs: Sequence[str],
    notation: Notation = SCALAR,
) -> Iterator[str]:
    """One C statement an operation, each value assigned once; divisions by one value share its
    reciprocal.

    `inputs` and `outputs` are the C names of the flat inputs and outputs, which are read and
    written where they occur.
    """
    return (one.text for one in _assignments(function, inputs, outputs, notation))


def _assignments(
    function: ca.Function, inputs: Sequence[str], outputs: Sequence[str], notation: Notation
) -> Iterator[Assignment]:
    operations = list(_operations(function, inputs, outputs, notation))
    called = {f"v{k}": name for k, name in _called(function).items()}
    results = set(outputs)
    divisors = Counter(operands[1] for _, code, operands in operations if code == ca.OP_DIV)
    reciprocals: dict[str, str] = {}
    paired = _pairs(operations) if notation.sine_and_cosine else {}
    for target, code, operands in operations:
        value, reads = "", tuple(operands)
        if pair := paired.get(target):
            if target == pair[0]:
                yield _sine_and_cosine(operands[0], code, pair, notation)
            continue
        if code == ca.OP_DIV and divisors[operands[1]] > 1:
            a, b = operands
            if b not in reciprocals:
                r = reciprocals[b] = f"r{len(reciprocals)}"
                inverse = notation.expression(ca.OP_INV, [b])
                yield Assignment((r,), (b,), f"const {notation.real} {r} = {inverse};")
            value, reads = f"{a} * {reciprocals[b]}", (a, reciprocals[b])
        elif code == ca.OP_CALL:
            table = notation.table.format(name=called[target], a=operands[0])
            value = table if table_named(called[target]) else notation.number("0.0")
        declared = target if target in results else f"const {notation.real} {target}"
        text = f"{declared} = {value or notation.expression(code, operands)};"
        yield Assignment((target,), reads, text)


def _pairs(operations: Iterable[tuple[str, int, list[str]]]) -> dict[str, tuple[str, str]]:
    """The sines and cosines of one angle, as they come, by the name of either."""
    of: dict[str, dict[int, str]] = {}
    for target, code, operands in operations:
        if code in (ca.OP_SIN, ca.OP_COS):
            of.setdefault(operands[0], {})[code] = target
    pairs = [tuple(both.values()) for both in of.values() if len(both) == 2]
    return {target: (one, other) for one, other in pairs for target in (one, other)}


def _sine_and_cosine(
    angle: str, code: int, pair: tuple[str, str], notation: Notation
) -> Assignment:
    """The statement of a sine and a cosine, `code` being the first of the pair."""
    sine, cosine = pair if code == ca.OP_SIN else pair[::-1]
    call = notation.sine_and_cosine.format(a=angle, sine=sine, cosine=cosine)
    return Assignment(pair, (angle,), f"{notation.real} {sine}, {cosine}; {call}")


def _named(assignments: Iterable[Assignment], names: Mapping[str, str]) -> Iterator[Assignment]:
    """The assignments, each with a comment on what it is the first to read or write."""
    left = dict(names)
    for one in assignments:
        places = (*one.reads, *one.targets)
        said = dict.fromkeys(left.pop(place) for place in places if place in left)
        yield one._replace(text=f"{one.text} /* {', '.join(said)} */") if said else one


def _operations(
    function: ca.Function, arguments: Sequence[str], results: Sequence[str], notation: Notation
) -> Iterator[tuple[str, int, list[str]]]:
    """The target, operation code and operands of each statement, in single-assignment form."""
    name: dict[int, str] = {}  # what each of CasADi's reused work variables holds now
    for k, (code, inputs, outputs) in enumerate(instructions(function)):
        if code == ca.OP_OUTPUT:
            yield results[outputs[1]], ca.OP_ASSIGN, [name[inputs[0]]]
        elif code == ca.OP_INPUT:
            name[outputs[0]] = arguments[inputs[1]]
        elif code == ca.OP_CONST:
            name[outputs[0]] = notation.number(c_number(function.instruction_constant(k)))
        else:
            yield f"v{k}", code, [name[i] for i in inputs]
            name[outputs[0]] = f"v{k}"
