"""How C writes the operations of an expression graph: on numbers, or on numbers in lanes."""

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
    ca.OP_EXP: "exp",
    ca.OP_LOG: "log",
}
_SLOT = re.compile("\0(\\d)")
_OF_TWO = {ca.OP_POW: "pow", ca.OP_CONSTPOW: "pow", ca.OP_ATAN2: "atan2"}


class Number(str):
    """The C literal of a number, among operands that are names."""

    __slots__ = ()


class Assignment(NamedTuple):
    """A C statement that gives `targets` their one value each: a form with the places of its
    `operands`, which are names, those of the targets among them, and numbers.
    """

    targets: tuple[str, ...]
    form: str
    operands: tuple[str, ...]

    @property
    def text(self) -> str:
        """The statement."""
        return self.form % self.operands

    @property
    def reads(self) -> list[str]:
        """The names of what it reads."""
        return [one for one in self.operands if one not in self.targets and type(one) is not Number]


@dataclass(frozen=True)
class Notation:
    """`real` is the type of a number; `number` writes a double as one; `expressions` are those of
    CasADi's operations on a and b; `table` calls a function `name` of one double.

    With `sine_and_cosine` those of one angle are computed together.
    """

    real: str
    number: Callable[[str], str]
    expressions: Mapping[int, str]
    table: str = "{name}({a})"
    sine_and_cosine: str = ""

    def expression(self, code: int, operands: Sequence[str]) -> str:
        """The C expression of an operation; raises NotImplementedError where there is none."""
        template = self.expressions.get(code)
        if template is None:
            raise NotImplementedError(
                f"a traced function uses operation {code} of CasADi, which has no C form here"
            )
        return template.format(a=operands[0], b=operands[-1])

    def form(self, code: int, operands: Sequence[str]) -> tuple[str, list[int]]:
        """The expression of an operation with the places of its operands, and which of them is in
        each.
        """
        return _places(self.expression(code, self._slots(operands)))

    def call(self, name: str, operands: Sequence[str]) -> tuple[str, list[int]]:
        """The call of a table, as `form`."""
        return _places(self.table.format(name=name, a=self._slots(operands)[0]))

    def _slots(self, operands: Sequence[str]) -> list[str]:
        return [
            self.number(f"\0{k}") if type(one) is Number else f"\0{k}"
            for k, one in enumerate(operands)
        ]


def _places(text: str) -> tuple[str, list[int]]:
    """A text with slots as a form, and which of them is in each of its places."""
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

# over c/lanes: no operator but those of arithmetic has numbers as its result there
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
