"""C expressions for the operations of an expression graph, with scalars or SIMD lanes."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import casadi as ca

_ARITHMETIC = {
    ca.OP_ADD: "{a} + {b}",
    ca.OP_SUB: "{a} - {b}",
    ca.OP_MUL: "{a} * {b}",
    ca.OP_DIV: "{a} / {b}",
    ca.OP_ASSIGN: "{a}",
    ca.OP_NEG: "-{a}",
    ca.OP_SQ: "{a} * {a}",
    ca.OP_TWICE: "{a} + {a}",
}
_FUNCTIONS = {
    ca.OP_TAN: "tan",
    ca.OP_ASIN: "asin",
    ca.OP_ACOS: "acos",
    ca.OP_ATAN: "atan",
    ca.OP_TANH: "tanh",
    ca.OP_ERF: "erf",
    ca.OP_EXP: "exp",
    ca.OP_LOG: "log",
}
_SLOT = re.compile("\0(\\d)")
_PLAIN = re.compile(rb"[A-Za-z0-9_ .,:;()\[\]{}+*/<>=-]")  # no quotes, \\, ?, control characters
_OF_TWO = {ca.OP_POW: "pow", ca.OP_CONSTPOW: "pow", ca.OP_ATAN2: "atan2"}


def c_string(text: str) -> str:
    """Return the C string literal of a Python string."""
    return f'"{_escape(text)}"'


def c_comment(text: str) -> str:
    """Return a string as the text of a C comment, with an escaped end mark."""
    return _escape(text).replace("*", "\\052")


def _escape(text: str) -> str:
    """Return a string in UTF-8, with octal escapes for all bytes that `_PLAIN` does not match."""
    encoded = text.encode(errors="surrogatepass")
    return "".join(chr(b) if _PLAIN.match(bytes([b])) else f"\\{b:03o}" for b in encoded)


class Number(str):
    """C literal as an operand of a C statement. All other operands are value names."""

    __slots__ = ()


class Assignment(NamedTuple):
    """C statement that assigns values to variables.

    Attributes:
        targets: Names of the assigned variables.
        form: C code of the statement, with %s for each operand.
        operands: Numbers and names in the statement, in order, including the targets.
    """

    targets: tuple[str, ...]
    form: str
    operands: tuple[str, ...]

    @property
    def text(self) -> str:
        """C code of the statement."""
        return self.form % self.operands

    @property
    def reads(self) -> list[str]:
        """Names of the values that the statement reads, in the order of the operands."""
        return [one for one in self.operands if one not in self.targets and type(one) is not Number]


@dataclass(frozen=True)
class Notation:
    """C notation of numbers and operations.

    Attributes:
        real: C type of a value.
        number: Function that converts a C double literal to this type.
        expressions: C expressions of the CasADi operations on a and b, by operation code.
        table: C expression of a table lookup, with the placeholders {name} for the C function of
            the table and {a} for the argument.
        sine_and_cosine: C statement that computes both the sine and the cosine of an angle; "" if
            the notation has no such statement.
    """

    real: str
    number: Callable[[str], str]
    expressions: Mapping[int, str]
    table: str = "{name}({a})"
    sine_and_cosine: str = ""

    def expression(self, code: int, operands: Sequence[str]) -> str:
        """Return the C expression of a CasADi operation.

        Args:
            code: Operation code.
            operands: C expressions of the operands.

        Raises:
            NotImplementedError: The operation has no C expression.
        """
        template = self.expressions.get(code)
        if template is None:
            raise NotImplementedError(
                f"a traced function uses CasADi operation {code}, which the C code does not support"
            )
        return template.format(a=operands[0], b=operands[-1])

    def form(self, code: int, operands: Sequence[str]) -> tuple[str, list[int]]:
        """Return the C template of a CasADi operation, and the operand indices of its placeholders.

        The template contains a placeholder %s for each use of an operand.
        """
        return _places(self.expression(code, self._slots(operands)))

    def call(self, name: str, operands: Sequence[str]) -> tuple[str, list[int]]:
        """Return the C template of a lookup in table `name`, and its operand indices, as `form`."""
        return _places(self.table.format(name=name, a=self._slots(operands)[0]))

    def _slots(self, operands: Sequence[str]) -> list[str]:
        return [
            self.number(f"\0{k}") if type(one) is Number else f"\0{k}"
            for k, one in enumerate(operands)
        ]


def _places(text: str) -> tuple[str, list[int]]:
    """Replace each numbered placeholder by %s, and return the text and the numbers in order."""
    return _SLOT.sub("%s", text), [int(number) for number in _SLOT.findall(text)]


SCALAR = Notation(
    "double",
    lambda text: text,
    _ARITHMETIC
    | {code: f"{name}({{a}})" for code, name in _FUNCTIONS.items()}
    | {code: f"{name}({{a}}, {{b}})" for code, name in _OF_TWO.items()}
    | {
        ca.OP_LT: "({a} < {b}) ? 1.0 : 0.0",
        ca.OP_LE: "({a} <= {b}) ? 1.0 : 0.0",
        ca.OP_EQ: "({a} == {b}) ? 1.0 : 0.0",
        ca.OP_NE: "({a} != {b}) ? 1.0 : 0.0",
        ca.OP_AND: "({a} != 0.0 && {b} != 0.0) ? 1.0 : 0.0",
        ca.OP_OR: "({a} != 0.0 || {b} != 0.0) ? 1.0 : 0.0",
        ca.OP_IF_ELSE_ZERO: "({a} != 0.0) ? {b} : 0.0",
        ca.OP_FMIN: "({a} < {b} || {a} != {a}) ? {a} : {b}",
        ca.OP_FMAX: "({a} > {b} || {a} != {a}) ? {a} : {b}",
        ca.OP_NOT: "({a} == 0.0) ? 1.0 : 0.0",
        ca.OP_SIGN: "({a} > 0.0) ? 1.0 : (({a} < 0.0) ? -1.0 : 0.0)",
        ca.OP_INV: "1.0 / {a}",
        ca.OP_SQRT: "sqrt({a})",
        ca.OP_SIN: "sin({a})",
        ca.OP_COS: "cos({a})",
        ca.OP_FABS: "fabs({a})",
        ca.OP_FLOOR: "floor({a})",
        ca.OP_CEIL: "ceil({a})",
    },
)

# notation for c/lanes, where comparisons return bit masks instead of numbers
IN_LANES = Notation(
    "real",
    lambda text: f"lanes({text})",
    _ARITHMETIC
    | {code: f"each({name}, {{a}})" for code, name in _FUNCTIONS.items()}
    | {code: f"each_of_two({name}, {{a}}, {{b}})" for code, name in _OF_TWO.items()}
    | {
        ca.OP_LT: "truth((bits)({a} < {b}))",
        ca.OP_LE: "truth((bits)({a} <= {b}))",
        ca.OP_EQ: "truth((bits)({a} == {b}))",
        ca.OP_NE: "truth((bits)({a} != {b}))",
        ca.OP_AND: "truth((bits)({a} != lanes(0.0)) & (bits)({b} != lanes(0.0)))",
        ca.OP_OR: "truth((bits)({a} != lanes(0.0)) | (bits)({b} != lanes(0.0)))",
        ca.OP_IF_ELSE_ZERO: "masked((bits)({a} != lanes(0.0)), {b})",
        ca.OP_FMIN: "minimum({a}, {b})",
        ca.OP_FMAX: "maximum({a}, {b})",
        ca.OP_NOT: "truth((bits)({a} == lanes(0.0)))",
        ca.OP_SIGN: "sign({a})",
        ca.OP_INV: "lanes(1.0) / {a}",
        ca.OP_SQRT: "square_root({a})",
        ca.OP_SIN: "sine_of({a})",
        ca.OP_COS: "cosine_of({a})",
        ca.OP_FABS: "magnitude({a})",
        ca.OP_FLOOR: "rounded_down({a})",
        ca.OP_CEIL: "rounded_up({a})",
    },
    table="each({name}, {a})",
    sine_and_cosine="sine_and_cosine({a}, &{sine}, &{cosine});",
)
