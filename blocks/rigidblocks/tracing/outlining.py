"""Long straight-line functions as C in pieces: what repeats once, and the rest in parts.

What a piece leaves to another is in an array. A piece that repeats is told by a table where its
operands are and what its numbers are (`repeats`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import ceil
from typing import NamedTuple

import numpy as np

from rigidblocks.tracing.common import Names, Owners, shares
from rigidblocks.tracing.notation import Assignment, Number
from rigidblocks.tracing.repeats import Stretch, forms, stretches
from rigidblocks.tracing.units import APART

LONG = 5000  # statements of a function, or of a piece that repeats, which is divided
PART = 1000  # statements of a piece that does not repeat
MANY = (
    200  # copies that are a loop over a table: compilers take a millisecond for each that is none
)


class Function:
    """The statements of a function, with the names of the elements of `in` and `out`."""

    def __init__(self, assignments: Iterable[Assignment], names: Mapping[str, str]):
        self.names = dict(names)
        self.work: list[Assignment] = []
        self.results: list[Assignment] = []
        for one in assignments:
            (self.results if one.targets[0].startswith("out[") else self.work).append(one)

    def renamed(self, names: Names) -> Iterator[Assignment]:
        """The work with names that functions share; the results get them at the end."""
        name: dict[str, str] = {}
        yield from names.renamed(self.work, name)
        self.results = [
            one._replace(operands=tuple([name.get(x, x) for x in one.operands]))
            for one in self.results
        ]

    @cached_property
    def defined(self) -> dict[str, tuple[int, int]]:
        """The statement that gives a value, and which of its targets that is."""
        return {
            name: (k, target)
            for k, one in enumerate(self.work)
            for target, name in enumerate(one.targets)
        }


class _Use(NamedTuple):
    """One stretch of statements of a function where they are called."""

    function: Function
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def statements(self) -> list[Assignment]:
        return self.function.work[self.start : self.stop]

    def from_elsewhere(self) -> list[str]:
        """The values that are read here and given elsewhere; inputs are none."""
        read = (x for one in self.statements for x in one.reads if x[0] in "vr")
        return list(dict.fromkeys(x for x in read if not self.within(x, self.stop)))

    def within(self, value: str, before: int) -> tuple[int, int] | None:
        """Where a value is given in this stretch, from its start on; None where it is elsewhere."""
        k, target = self.function.defined.get(value, (-1, 0))
        return (k - self.start, target) if self.start <= k <= self.start + before else None


class _Shared:
    """The piece that some stretches are: its statements, with the operands that are `read` from
    elsewhere and the `numbers` that differ, a tuple of one of each stretch.
    """

    def __init__(self, name: str, uses: Sequence[_Use]):
        self.name, self.uses = name, uses
        self.read: dict[tuple[str, ...], int] = {}
        self.numbers: dict[tuple[str, ...], int] = {}
        columns = zip(*(use.statements for use in uses), strict=True)
        self.lines = [self._line(k, column) for k, column in enumerate(columns)]
        self.kept: list[tuple[int, int]] = []  # what is left to others

    def _line(self, k: int, column: tuple[Assignment, ...]) -> str:
        """Statement k, of which a column has that of each stretch."""
        operands = zip(*[one.operands for one in column], strict=True)
        return column[0].form % tuple([self._operand(k, operand) for operand in operands])

    def _operand(self, k: int, operand: tuple[str, ...]) -> str:
        if type(operand[0]) is Number:
            if len(set(operand)) == 1:
                return operand[0]
            return f"c[{self.numbers.setdefault(operand, len(self.numbers))}]"
        places = {use.within(one, k) for use, one in zip(self.uses, operand, strict=True)}
        if len(places) == 1 and (place := places.pop()):
            return _local(*place)
        return f"left[at[{self.read.setdefault(operand, len(self.read))}]]"

    def keep(self, crossing: Mapping[int, set[str]]) -> None:
        """Marks what any of the stretches has to leave to others."""
        columns = zip(*(use.statements for use in self.uses), strict=True)
        for k, column in enumerate(columns):
            for target in range(len(column[0].targets)):
                if any(
                    one.targets[target] in crossing[id(use.function)]
                    for use, one in zip(self.uses, column, strict=True)
                ):
                    self.kept.append((k, target))

    def text(self, real: str) -> str:
        """The C of the piece."""
        stores: dict[int, list[str]] = {}
        for number, (k, target) in enumerate(self.kept, len(self.read)):
            stores.setdefault(k, []).append(f"left[at[{number}]] = {_local(k, target)};")
        lines = chain.from_iterable([line, *stores.get(k, [])] for k, line in enumerate(self.lines))
        arguments = f"{real} *left, const unsigned *at, const double *c"
        return APART + definition(self.name, arguments, list(lines), ("left", "at", "c"))

    def _number(self, use: _Use) -> int:
        return next(k for k, one in enumerate(self.uses) if one is use)

    def reads(self, use: _Use) -> list[str]:
        """The operands of a stretch, in the order of the table."""
        number = self._number(use)
        return [operand[number] for operand in self.read]

    def kept_of(self, use: _Use) -> list[str]:
        """What a stretch leaves to others, in the order of the table."""
        statements = use.statements
        return [statements[k].targets[target] for k, target in self.kept]

    def numbers_of(self, use: _Use) -> list[str]:
        """The numbers of a stretch."""
        number = self._number(use)
        return [operand[number] for operand in self.numbers]


def _local(k: int, target: int) -> str:
    return f"v{k}" if not target else f"v{k}_{target}"


class _Left:
    """The array `left` of a function in pieces: where the values are that pieces read which do not
    give them. Place 0 is for what nobody reads.
    """

    def __init__(self, last: Mapping[str, int]) -> None:
        self.place: dict[str, int] = {}
        self.size = 1
        self.last = last  # the number of the piece that reads a value last
        self._free: list[int] = []

    def put(self, value: str) -> int:
        """The place of a value that is given now."""
        if value not in self.last:
            return 0
        if not self._free:
            self._free.append(self.size)
            self.size += 1
        self.place[value] = self._free.pop()
        return self.place[value]

    def forget(self, piece: int) -> None:
        """Frees the places of what is not read after this piece."""
        gone = [value for value in self.place if self.last[value] <= piece]
        self._free += [self.place.pop(value) for value in gone]


def definition(
    name: str, arguments: str, lines: Sequence[str], unused: Sequence[str], inline: bool = False
) -> str:
    """The text of a static function."""
    body = "\n".join(
        f"    {line}" for line in (*(f"(void){argument};" for argument in unused), *lines)
    )
    kind = "static inline void" if inline else "static void"
    return f"{kind} {name}({arguments})\n{{\n{body}\n}}\n"


def named(assignments: Iterable[Assignment], names: dict[str, str]) -> Iterator[str]:
    """The texts of assignments, each with a comment on what it is the first to read or write; what
    is said is taken out of the names.
    """
    for one in assignments:
        if said := _said(one, names):
            yield f"{one.text} /* {', '.join(said)} */"
        else:
            yield one.text


def _said(one: Assignment, names: dict[str, str]) -> dict[str, None]:
    """What a statement is the first to read or write: taken out of the names."""
    places = (*one.operands[1:], one.operands[0])
    return dict.fromkeys([names.pop(place) for place in places if place in names])


def in_pieces(functions: Mapping[str, Function], inline: bool, real: str) -> str:
    """The functions by their names as calls of pieces, which they share."""
    uses = _uses(list(functions.values()))
    kinds: dict[int, list[_Use]] = {}
    for kind, use in chain.from_iterable(uses):
        if kind >= 0:
            kinds.setdefault(kind, []).append(use)
    first = next(iter(functions))
    shared = {
        kind: _Shared(f"{first}_piece_{k}", own) for k, (kind, own) in enumerate(kinds.items())
    }
    last = [_last_reads(own, shared) for own in uses]
    crossing = {id(f): set(one) for f, one in zip(functions.values(), last, strict=True)}
    for one in shared.values():
        one.keep(crossing)
    text = "".join(one.text(real) for one in shared.values())
    for (name, function), own, ends in zip(functions.items(), uses, last, strict=True):
        text += _Calls(name, function, ends, real).text(own, shared, inline)
    return text


def _in_common(functions: Sequence[Function]) -> dict[Owners, list[Assignment]]:
    """The statements by the numbers of the functions that have them, which take their names and
    their order from there.
    """
    if len(functions) == 1:
        return {(0,): functions[0].work}
    names = Names()
    parts = shares([list(one.renamed(names)) for one in functions])
    for k, one in enumerate(functions):
        one.work = [*chain.from_iterable(part for own, part in parts.items() if k in own)]
    return parts


def _uses(functions: Sequence[Function]) -> list[list[tuple[int, _Use]]]:
    """The stretches of each function, with their kinds."""
    parts = _in_common(functions)
    form = forms(parts.values())
    ends = [np.array([-1 - k]) for k in range(len(form))]  # no stretch goes beyond one
    found = stretches(np.concatenate([*chain.from_iterable(zip(form, ends, strict=True))]))
    uses: list[list[tuple[int, _Use]]] = [[] for _ in functions]
    kinds: dict[tuple[int, int], int] = {}
    offset = 0
    for owners, part in parts.items():
        places = [sum(use.size for _, use in uses[k]) for k in owners]
        for start, size, name in _divided(found, offset, len(part)):
            repeats = name[0] >= 0 or len(owners) > 1
            kind = kinds.setdefault(name, len(kinds)) if repeats else -1
            for k, place in zip(owners, places, strict=True):
                first = place + start
                uses[k].append((kind, _Use(functions[k], first, first + size)))
        offset += len(part) + 1
    return uses


def _divided(
    found: Sequence[Stretch], offset: int, length: int
) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """The start and the size of the pieces of a part of this length at its offset, and what those
    that are alike have in common.
    """
    for one in found:
        first, stop = max(one.start - offset, 0), min(one.stop - offset, length)
        size = PART if one.kind < 0 else _equal_parts(stop - first)
        for start in range(first, stop, size):
            name = (one.kind, start - first) if one.kind >= 0 else (-1, offset + start)
            yield start, min(size, stop - start), name


def _equal_parts(length: int) -> int:
    """The length of the parts of a stretch that repeats, each of at most `LONG` statements."""
    return max(ceil(length / max(ceil(length / LONG), 1)), 1)


def _last_reads(uses: Sequence[tuple[int, _Use]], shared: Mapping[int, _Shared]) -> dict[str, int]:
    """The last piece that reads a value which it does not give, by the value."""
    last: dict[str, int] = {}
    for number, (kind, use) in enumerate(uses):
        read = shared[kind].reads(use) if kind >= 0 else use.from_elsewhere()
        last |= dict.fromkeys(read, number)
    if uses:
        results = uses[0][1].function.results
        last |= dict.fromkeys((x for one in results for x in one.reads if x[0] in "vr"), len(uses))
    return last


class _Calls:
    """A function as calls of its pieces, in order."""

    def __init__(self, name: str, function: Function, last: Mapping[str, int], real: str):
        self.name, self.function, self.real = name, function, real
        self.left = _Left(last)
        self.lines: list[str] = []
        self.at: list[str] = []
        self.numbers: list[str] = []
        self._names = dict(function.names)

    def text(
        self, uses: Sequence[tuple[int, _Use]], shared: Mapping[int, _Shared], inline: bool
    ) -> str:
        """The C of the pieces that do not repeat, and of the function with the tables."""
        inputs = [value for value in self.left.last if value.startswith("in[")]
        self._copy([_copy(f"left[{self.left.put(value)}]", value) for value in inputs])
        text = ""
        for number, (kind, use) in enumerate(uses):
            if kind >= 0:
                self._call(shared[kind], use)
            else:
                text += self._rest(f"{self.name}_{number}", use)
            self.left.forget(number)
        self._copy(list(self._results()))
        tables = [_table("unsigned", "at", self.at), _table("double", "c", self.numbers)]
        tables += ["(void)at;", "(void)c;"]
        lines = [*tables, f"{self.real} left[{self.left.size}];", *self.lines]
        arguments = f"const {self.real} *in, {self.real} *out"
        return text + definition(self.name, arguments, lines, ("in", "out"), inline)

    def _copy(self, copies: Sequence[Assignment]) -> None:
        """Copies between arrays, those of many as loops."""
        if len(copies) < MANY:
            self._say(copies)
            return
        kinds: dict[tuple[str, str], list[Assignment]] = {}
        for one in copies:
            array = one.operands[1].partition("[")[0] if type(one.operands[1]) is not Number else ""
            kinds.setdefault((one.form, array), []).append(one)
        for (form, array), own in kinds.items():
            self.lines.append(_loop(form, array, *zip(*(one.operands for one in own), strict=True)))

    def _say(self, assignments: Iterable[Assignment]) -> None:
        self.lines += named(assignments, self._names)

    def _call(self, piece: _Shared, use: _Use) -> None:
        """The call of a piece that is shared, and what its table has for it."""
        self.lines.append(f"{piece.name}(left, at + {len(self.at)}, c + {len(self.numbers)});")
        kept = [self.left.put(value) for value in piece.kept_of(use)]
        read = [self.left.place[value] for value in piece.reads(use)]
        self.at += map(str, [*read, *kept])
        self.numbers += piece.numbers_of(use)

    def _rest(self, name: str, use: _Use) -> str:
        """A piece that does not repeat, and its call."""
        self.lines.append(f"{name}(in, left);")
        lines = [
            f"const {self.real} {value} = left[{self.left.place[value]}];"
            for value in use.from_elsewhere()
        ]
        statements = use.statements
        for one, text in zip(statements, named(statements, self._names), strict=True):
            lines.append(text)
            kept = [target for target in one.targets if target in self.left.last]
            lines += [f"left[{self.left.put(target)}] = {target};" for target in kept]
        arguments = f"const {self.real} *in, {self.real} *left"
        return APART + definition(name, arguments, lines, ("in", "left"))

    def _results(self) -> Iterator[Assignment]:
        place = self.left.place
        for one in self.function.results:
            operands = [f"left[{place[x]}]" if x in place else x for x in one.operands]
            yield one._replace(operands=tuple(operands))


def _copy(target: str, value: str) -> Assignment:
    return Assignment((target,), "%s = %s;", (target, value))


def _loop(form: str, array: str, targets: Sequence[str], values: Sequence[str]) -> str:
    """Copies of one form into an array: from one array, or of numbers."""
    into, places = targets[0].partition("[")[0], [_place(one) for one in targets]
    if array:
        source = _table("unsigned", "from", [_place(one) for one in values])
    else:
        source = _table("double", "from", values)
    copied = form % (f"{into}[to[k]]", f"{array}[from[k]]" if array else "from[k]")
    return (
        f"{{\n    {_table('unsigned', 'to', places)}\n    {source}\n"
        f"    for (unsigned k = 0; k < {len(places)}; k++)\n        {copied}\n    }}"
    )


def _place(element: str) -> str:
    """The index of an element of an array, as C has it."""
    return element.partition("[")[2].rstrip("]")


def _table(kind: str, name: str, entries: Sequence[str]) -> str:
    lines = (", ".join(entries[k : k + 12]) for k in range(0, len(entries), 12))
    body = ",\n        ".join([*lines, "0"])  # C has no arrays of nothing
    return f"static const {kind} {name}[] = {{\n        {body}\n    }};"
