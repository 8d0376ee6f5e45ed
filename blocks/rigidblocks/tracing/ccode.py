"""C99 from an expression graph: one straight-line function over flat vectors, with no dependency
but <math.h>.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from math import isinf, isnan
from types import MappingProxyType

import casadi as ca

from rigidblocks.tracing.collector import collector_waits
from rigidblocks.tracing.notation import SCALAR, Assignment, Notation, Number
from rigidblocks.tracing.pieces import LONG, Function, definition, in_pieces, named
from rigidblocks.tracing.tables import table_named
from rigidblocks.tracing.trace import Graph, element_names, instructions


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
    `in` and `out` are: the first statement that reads or writes one says so. Raises
    NotImplementedError for an operation that has no C form here, and ValueError that names the
    outputs which a constant NaN goes into.
    """
    return c_functions([graph], [names], inline=inline, notation=notation)


@collector_waits()
def c_functions(
    graphs: Sequence[Graph],
    names: Sequence[Mapping[str, str]],
    *,
    inline: bool = False,
    notation: Notation = SCALAR,
    with_tables: bool = True,
) -> str:
    """The texts of `c_function` of some graphs, with the names of each; the tables that they look
    up may be there already.

    Long ones are made of pieces, since compilers take time more than in proportion to a function's
    length, and share those that they have in common (`pieces`).
    """
    tables: dict[str, None] = {}
    short, long = [], {}
    for graph, own in zip(graphs, names, strict=True):
        assignments = _all_assignments(graph, own, notation)
        tables |= dict.fromkeys(_tables(graph))
        if len(assignments) > LONG:
            long[graph.name] = Function(assignments, own)
        else:
            lines = list(named(assignments, dict(own)))
            arguments = f"const {notation.real} *in, {notation.real} *out"
            short.append(definition(graph.name, arguments, lines, ("in", "out"), inline))
    text = in_pieces(long, inline, notation.real) if long else ""
    return "".join(tables if with_tables else ()) + "\n".join(short) + text


def _all_assignments(
    graph: Graph, names: Mapping[str, str], notation: Notation
) -> list[Assignment]:
    inputs = [f"in[{k}]" for k in range(graph.function.nnz_in())]
    outputs = [f"out[{k}]" for k in range(graph.function.nnz_out())]
    try:
        return list(_assignments(graph.function, inputs, outputs, notation))
    except ValueError as error:  # a constant that has no literal
        raise ValueError(
            f"the traced function {graph.name} has the constant NaN in "
            f"{', '.join(_reached_by_nan(graph, names)[:8])}: something in it is not a number, "
            "whatever its inputs are"
        ) from error


def _tables(graph: Graph) -> Iterator[str]:
    """The C of each of the tables that a function looks up."""
    names = _called(graph.function).values() if "call" in graph.operations else ()
    used = (table_named(name) for name in dict.fromkeys(names))
    return (one.c_text() for one in used if one is not None)


def _called(function: ca.Function) -> dict[int, str]:
    """The names of the functions that instructions call, by the number of the instruction."""
    codes = map(function.instruction_id, range(function.n_instructions()))
    calls = [k for k, code in enumerate(codes) if code == ca.OP_CALL]
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
    operations = list(_operations(function, inputs, outputs))
    calls = any(code == ca.OP_CALL for _, code, _ in operations)
    called = {f"v{k}": name for k, name in _called(function).items()} if calls else {}
    divisors = Counter(operands[1] for _, code, operands in operations if code == ca.OP_DIV)
    reciprocals: dict[str, str] = {}
    paired = _pairs(operations) if notation.sine_and_cosine else {}
    forms = _Forms(notation, frozenset(outputs))
    for target, code, operands in operations:
        if pair := paired.get(target):
            if target == pair[0]:
                yield _sine_and_cosine(operands[0], code, pair, notation)
            continue
        if code == ca.OP_DIV and divisors[operands[1]] > 1:
            a, b = operands
            if b not in reciprocals:
                r = reciprocals[b] = f"r{len(reciprocals)}"
                yield forms.assignment(r, ca.OP_INV, (b,))
            code, operands = ca.OP_MUL, (a, reciprocals[b])
        yield forms.assignment(target, code, operands, called.get(target, ""))


_AS_GIVEN: tuple[list[int], ...] = [], [0], [0, 1]  # the order of operands that are each read once


class _Forms:
    """What statements of a notation have in common, made once; those of `results` declare none."""

    def __init__(self, notation: Notation, results: frozenset[str]):
        self._notation, self._results = notation, results
        self._known: dict[tuple[object, ...], tuple[str, list[int]]] = {}

    def assignment(
        self, target: str, code: int, operands: tuple[str, ...], called: str = ""
    ) -> Assignment:
        """The statement of an operation, or of a call."""
        declares = target not in self._results
        key = (code, declares, called, *map(type, operands))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._made(code, operands, declares, called)
        form, order = known
        if order != _AS_GIVEN[len(operands)]:
            operands = tuple([operands[k] for k in order])
        return Assignment((target,), form, (target, *operands))

    def _made(
        self, code: int, operands: tuple[str, ...], declares: bool, called: str
    ) -> tuple[str, list[int]]:
        """The form, and which operand is in each of its places behind the target."""
        if not called:
            text, order = self._notation.form(code, operands)
        elif table_named(called):
            text, order = self._notation.call(called, operands)
        else:
            text, order = self._notation.number("0.0"), []
        return f"const {self._notation.real} " * declares + f"%s = {text};", order


def _pairs(operations: Iterable[tuple[str, int, tuple[str, ...]]]) -> dict[str, tuple[str, str]]:
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
    call = notation.sine_and_cosine.format(a="%s", sine="%s", cosine="%s")
    both = sine, cosine  # in this order, so that pieces alike have them in one place
    return Assignment(both, f"{notation.real} %s, %s; {call}", (*both, angle, *both))


def _operations(
    function: ca.Function, arguments: Sequence[str], results: Sequence[str]
) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """The target, operation code and operands of each statement, in single-assignment form."""
    name: dict[int, str] = {}  # what each of CasADi's reused work variables holds now
    for k, (code, inputs, outputs) in enumerate(instructions(function)):
        if code == ca.OP_OUTPUT:
            yield results[outputs[1]], ca.OP_ASSIGN, (name[inputs[0]],)
        elif code == ca.OP_INPUT:
            name[outputs[0]] = arguments[inputs[1]]
        elif code == ca.OP_CONST:
            name[outputs[0]] = Number(c_number(function.instruction_constant(k)))
        else:
            yield f"v{k}", code, tuple([name[i] for i in inputs])
            name[outputs[0]] = f"v{k}"
