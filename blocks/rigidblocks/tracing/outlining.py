"""Division of long straight-line C functions into pieces, which reduces the compile time.

The compile time of a function grows more than linearly with its length. Three steps reduce it:

1. Equal statements of several functions receive equal variable names and an equal order. The
   statements that most functions share come first. The compiler reads shared statements only once.
2. One C function replaces repeated ranges of statements (`StatementRange`). A table contains the
   positions of the operands, which differ between the ranges.
3. The remaining statements are divided into pieces of limited length.

The results of the divided functions and the undivided functions are bitwise identical.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import ceil
from typing import NamedTuple

import numpy as np

from rigidblocks.common.compiler import APART
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.c_notation import Assignment, Number, c_comment

Owners = tuple[int, ...]


class Names:
    """Generator of variable names; equal statements of several functions receive equal names."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, tuple[str, ...]], Assignment] = {}

    def rename_values(
        self, statements: Sequence[Assignment], new_names: dict[str, str]
    ) -> Iterator[Assignment]:
        """Yield the statements of a function with common variable names.

        Equal statements of several functions become the same `Assignment` object. The method adds
        the new name of each assigned variable to `new_names`, with the old name as the key.
        """
        own: set[str] = set()
        for statement in statements:
            targets, form, operands = statement
            # numbers are not in `new_names`, so they are unchanged
            read = tuple([new_names.get(x, x) for x in operands if x not in targets])
            known = self._known.get((form, read))
            if known is None:
                known = self._known[form, read] = self._rename_results(statement, new_names)
            first = new_names[targets[0]] = known.targets[0]
            if len(targets) > 1:
                new_names |= zip(targets, known.targets, strict=True)
            if first not in own:  # a function may contain a statement twice
                own.add(first)
                yield known

    def _rename_results(self, statement: Assignment, new_names: Mapping[str, str]) -> Assignment:
        """Return a copy of a statement with new, unique target names.

        `new_names` maps the old names of the operands to their new names.
        """
        number = len(self._known)
        given = {
            x: f"{x[0]}{number}{'' if k == 0 else '_' if k == 1 else f'_{k}'}"
            for k, x in enumerate(statement.targets)
        }
        operands = tuple([given.get(x) or new_names.get(x, x) for x in statement.operands])
        return Assignment(tuple(given.values()), statement.form, operands)


def shared_statements(works: Sequence[Sequence[Assignment]]) -> dict[Owners, list[Assignment]]:
    """Group statements by the set of functions in which they occur.

    The groups are sorted by the number of functions, largest first. Every function that contains a
    statement also contains the statements that compute its operands. Operands are therefore
    computed before their use.

    Args:
        works: Statements of each function.

    Returns:
        Statements of each set; the keys are tuples of function indices.
    """
    owners: dict[int, int] = {}  # bit mask of the functions that contain a statement
    for k, work in enumerate(works):
        for one in work:
            owners[id(one)] = owners.get(id(one), 0) | 1 << k
    found: dict[int, list[Assignment]] = {}
    for k, work in enumerate(works):
        for one in work:
            own = owners[id(one)]
            if own & ((1 << k) - 1) == 0:
                found.setdefault(own, []).append(one)
    named = {tuple(k for k in range(len(works)) if own >> k & 1): found[own] for own in found}
    return dict(sorted(named.items(), key=lambda item: (-len(item[0]), item[0])))


NEAR = 64  # distance [statements] up to which the positions of operands must agree
LENGTHS = tuple(32 << k for k in range(6))  # lengths of ranges for the search [statements]
FEWEST = 32  # minimum number of statements that a repeated range must save


class StatementRange(NamedTuple):
    """Range of consecutive statements.

    Attributes:
        start: Index of the first statement.
        stop: Index after the last statement.
        kind: Index of the group of similar ranges, which have equal form numbers (`form_numbers`);
            -1 for a range that occurs only once.
    """

    start: int
    stop: int
    kind: int


def form_numbers(functions: Iterable[Sequence[Assignment]]) -> list[Array]:
    """Return the form numbers of the statements, one array (n,) per function of n statements.

    Two statements have equal form numbers if their operations are equal and their operands match.
    Any two literals match. Two computed values match if their distances are equal, or if both
    distances are at least NEAR. The distance is the number of statements from the computation of a
    value to its use.
    """
    known: dict[tuple[str | int, ...], int] = {}
    return [np.array(list(_forms(one, known)), dtype=np.int64) for one in functions]


def _forms(
    function: Sequence[Assignment], known: dict[tuple[str | int, ...], int]
) -> Iterator[int]:
    at: dict[str, int] = {}
    for k, one in enumerate(function):
        for target in one.targets:
            at[target] = k
        distances = [
            -1 if type(operand) is Number else min(k - at.get(operand, -NEAR), NEAR)
            for operand in one.operands
        ]
        yield known.setdefault((one.form, *distances), len(known))


def repeated_ranges(form: Array) -> list[StatementRange]:
    """Divide n statements into ranges that are repeated and ranges that occur only once.

    The search repeatedly selects the repeated ranges that save the most statements. It ends when
    the remaining statements contain no repeated range that saves at least FEWEST statements.

    Args:
        form: Form number of each statement (n,).

    Returns:
        Ranges in order, which cover all statements.
    """
    form, found = form.copy(), []
    while some := _find_ranges(form):
        found += some
        for one in some:  # unique forms exclude these statements
            form[one.start : one.stop] = -1 - len(form) - np.arange(one.start, one.stop)
    return _fill_gaps(sorted(found), len(form))


def _find_ranges(form: Array) -> list[StatementRange]:
    free = np.append(np.ones(len(form), dtype=bool), False)  # last element: end of the code
    waiting = [
        (-_count_saved_statements(starts, length), length, starts)
        for length, starts in _similar_ranges(form)
    ]
    heapq.heapify(waiting)
    found = []
    while waiting:
        saving, length, starts = heapq.heappop(waiting)
        left = _drop_overlaps([s for s in starts if free[s : s + length].all()], length)
        if (now := -_count_saved_statements(left, length)) > -FEWEST:
            continue
        if now > saving:  # selected ranges overlap with some starts
            heapq.heappush(waiting, (now, length, tuple(left)))
            continue
        first, last = _extend_ranges(form, free, left, length)
        for start in left:
            free[start + first : start + last] = False
            found.append(StatementRange(start + first, start + last, left[0]))
    return found


def _count_saved_statements(starts: Sequence[int], length: int) -> int:
    return (len(starts) - 1) * length


def _similar_ranges(form: Array) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the length and the start indices of similar ranges, for each length in LENGTHS.

    The function omits similar ranges if the statements directly before them are also similar,
    because longer similar ranges then exist. `form` contains the form number of each statement
    (n,).
    """
    rank, length = form - form.min(), 1
    while len(rank) > length < LENGTHS[-1]:
        pairs = rank[:-length] * (int(rank.max()) + 1) + rank[length:]
        _, rank = np.unique(pairs, return_inverse=True)
        length *= 2
        if length in LENGTHS:
            yield from ((length, starts) for starts in _groups(form, rank, length))


def _groups(form: Array, range_number: Array, length: int) -> Iterator[tuple[int, ...]]:
    """Yield the start indices of each group of two or more similar ranges of statements.

    `range_number` contains a number for the range of `length` statements at each start index.
    Similar ranges have equal numbers. `form` contains the form number of each statement.
    """
    order = np.argsort(range_number, kind="stable")
    first = np.flatnonzero(np.diff(range_number[order], prepend=-1))
    before = form[order - 1]
    alike = np.minimum.reduceat(before, first) == np.maximum.reduceat(before, first)
    last = np.append(first[1:], len(order))
    for k in np.flatnonzero((last - first > 1) & ~alike):
        starts = _drop_overlaps(order[first[k] : last[k]].tolist(), length)
        if len(starts) > 1:
            yield tuple(starts)


def _drop_overlaps(starts: Iterable[int], length: int) -> list[int]:
    """Return the start indices of the ranges that do not overlap a previously kept range.

    Each range contains `length` statements.
    """
    result: list[int] = []
    for start in starts:
        if not result or start >= result[-1] + length:
            result.append(start)
    return result


def _extend_ranges(form: Array, free: Array, starts: list[int], length: int) -> tuple[int, int]:
    """Extend similar ranges at both ends; return their new limits relative to `starts`.

    All ranges are extended by the same number of statements. A further statement must have the same
    form in all ranges, and must be in no selected range. The ranges must not overlap.

    Args:
        form: Form number of each statement (n,), as in `form_numbers`.
        free: True for statements that are in no selected range (n + 1,).
        starts: Start indices of the ranges.
        length: Length of the ranges.

    Returns:
        Offset of the first statement, and offset after the last statement.
    """
    s = np.array(starts)
    room = int(np.diff(s).min())
    first, last = 0, length
    while last - first < room and free[s + last].all() and len(set(form[s + last])) == 1:
        last += 1
    while s[0] + first > 0 and last - first < room:
        before = s + first - 1
        if not free[before].all() or len(set(form[before])) > 1:
            break
        first -= 1
    return first, last


def _fill_gaps(found: list[StatementRange], n: int) -> list[StatementRange]:
    """Add ranges between the ranges in `found`, so that the ranges cover all n statements.

    The additional ranges have the kind -1.
    """
    result, k = [], 0
    for one in [*found, StatementRange(n, n, -1)]:
        if one.start > k:
            result.append(StatementRange(k, one.start, -1))
        if one.stop > one.start:
            result.append(one)
        k = one.stop
    return result


LONG = 5000  # maximum length [statements] of an undivided function or shared piece
PART = 1000  # number of statements in a piece that does not repeat
MOST_ON_STACK = 1000  # maximum number of values in the array `left` if it is on the stack
MANY = 200  # minimum number of copy statements that a loop replaces; each takes 1 ms to compile


class Function:
    """Statements of a straight-line C function.

    Args:
        assignments: Statements.
        names: Descriptions of elements of the arrays `in` and `out`, by C expression.
    """

    def __init__(self, assignments: Iterable[Assignment], names: Mapping[str, str]):
        self.names = dict(names)
        self.work: list[Assignment] = []
        self.results: list[Assignment] = []
        for one in assignments:
            (self.results if one.targets[0].startswith("out[") else self.work).append(one)

    def rename_values(self, names: Names) -> Iterator[Assignment]:
        """Yield the statements of the function, renamed by `names` as in `Names.rename_values`.

        The method also renames the values in `results`, the statements that write the outputs.
        """
        name: dict[str, str] = {}
        yield from names.rename_values(self.work, name)
        self.results = [
            one._replace(operands=tuple([name.get(x, x) for x in one.operands]))
            for one in self.results
        ]

    @cached_property
    def defined(self) -> dict[str, tuple[int, int]]:
        """Statement index and target index of each computed value, by value name."""
        return {
            name: (k, target)
            for k, one in enumerate(self.work)
            for target, name in enumerate(one.targets)
        }


class _RangeUse(NamedTuple):
    """Range of statements in a function, to be replaced by a call of another C function."""

    function: Function
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    @property
    def statements(self) -> list[Assignment]:
        return self.function.work[self.start : self.stop]

    def external_reads(self) -> list[str]:
        """Return the names of the values that this range reads and other ranges compute."""
        read = (x for one in self.statements for x in one.reads if x[0] in "vr")
        return list(dict.fromkeys(x for x in read if not self.locate(x, self.stop)))

    def locate(self, value: str, last_index: int) -> tuple[int, int] | None:
        """Return the statement index and target index of a value that the range computes.

        The statement index is relative to the start of the range. The result is None if no
        statement up to `last_index` in the range computes the value.
        """
        k, target = self.function.defined.get(value, (-1, 0))
        return (k - self.start, target) if self.start <= k <= self.start + last_index else None


class _SharedFunction:
    """C function that replaces several similar ranges of statements.

    Attributes:
        read: Index of each input in the C table `at`. An input is a value that another range
            computes. The dict key of an input is the tuple of its variable names, one for each
            replaced range.
        numbers: Index of each constant in the C table `c`, if the constant differs between the
            replaced ranges. The dict key of a constant is the tuple of its literals, one for each
            replaced range.
    """

    def __init__(self, name: str, uses: Sequence[_RangeUse]):
        self.name, self.uses = name, uses
        self.read: dict[tuple[str, ...], int] = {}
        self.numbers: dict[tuple[str, ...], int] = {}
        columns = zip(*(use.statements for use in uses), strict=True)
        self.lines = [self._line(k, column) for k, column in enumerate(columns)]
        self.kept: list[tuple[int, int]] = []  # statement and target of each value for other ranges

    def _line(self, k: int, column: tuple[Assignment, ...]) -> str:
        """Return the C code of statement k; `column` contains statement k of each range."""
        operands = zip(*[one.operands for one in column], strict=True)
        return column[0].form % tuple([self._operand(k, operand) for operand in operands])

    def _operand(self, k: int, operand: tuple[str, ...]) -> str:
        if type(operand[0]) is Number:
            if len(set(operand)) == 1:
                return operand[0]
            return f"c[{self.numbers.setdefault(operand, len(self.numbers))}]"
        places = {use.locate(one, k) for use, one in zip(self.uses, operand, strict=True)}
        if len(places) == 1 and (place := places.pop()):
            return _local(*place)
        return f"left[at[{self.read.setdefault(operand, len(self.read))}]]"

    def keep(self, crossing: Mapping[int, set[str]]) -> None:
        """Select the computed values that the shared function must store for other ranges.

        `crossing` contains the names of the values that pass between the ranges of each function;
        the keys are the `id` of each `Function` object.
        """
        columns = zip(*(use.statements for use in self.uses), strict=True)
        for k, column in enumerate(columns):
            for target in range(len(column[0].targets)):
                if any(
                    one.targets[target] in crossing[id(use.function)]
                    for use, one in zip(self.uses, column, strict=True)
                ):
                    self.kept.append((k, target))

    def text(self, real: str) -> str:
        """Return the C code of the shared function; `real` is the C type of the values."""
        stores: dict[int, list[str]] = {}
        for number, (k, target) in enumerate(self.kept, len(self.read)):
            stores.setdefault(k, []).append(f"left[at[{number}]] = {_local(k, target)};")
        lines = chain.from_iterable([line, *stores.get(k, [])] for k, line in enumerate(self.lines))
        arguments = f"{real} *left, const unsigned *at, const double *c"
        return APART + definition(self.name, arguments, list(lines), ("left", "at", "c"))

    def _number(self, use: _RangeUse) -> int:
        return next(k for k, one in enumerate(self.uses) if one is use)

    def reads(self, use: _RangeUse) -> list[str]:
        """Return the names of the input values of a range, in the order of the C table `at`."""
        number = self._number(use)
        return [operand[number] for operand in self.read]

    def kept_of(self, use: _RangeUse) -> list[str]:
        """Return the names of the stored values of a range, in the order of the C table `at`."""
        statements = use.statements
        return [statements[k].targets[target] for k, target in self.kept]

    def numbers_of(self, use: _RangeUse) -> list[str]:
        """Return the constants of a range that the C table `c` contains, in table order."""
        number = self._number(use)
        return [operand[number] for operand in self.numbers]


def _local(k: int, target: int) -> str:
    return f"v{k}" if not target else f"v{k}_{target}"


class _ValueSlots:
    """Allocator of indices in the C array `left`, which passes values between pieces of a function.

    Index 0 stores the values that no other piece reads.

    Args:
        last: Index of the last piece that reads each value, by name of the value.
    """

    def __init__(self, last: Mapping[str, int]) -> None:
        self.place: dict[str, int] = {}
        self.size = 1
        self.last = last  # index of the last piece that reads each value
        self._free: list[int] = []

    def assign_place(self, value: str) -> int:
        """Allocate an index in `left` for a value; return 0 if no other piece reads the value."""
        if value not in self.last:
            return 0
        if not self._free:
            self._free.append(self.size)
            self.size += 1
        self.place[value] = self._free.pop()
        return self.place[value]

    def forget(self, piece: int) -> None:
        """Free the indices of values that no piece after `piece` reads."""
        gone = [value for value in self.place if self.last[value] <= piece]
        self._free += [self.place.pop(value) for value in gone]


def definition(
    name: str, arguments: str, lines: Sequence[str], unused: Sequence[str], inline: bool = False
) -> str:
    """Return the C code of a static function.

    Args:
        name: Name of the function.
        arguments: Argument list in C.
        lines: Statements.
        unused: Names of arguments that may be unused, for which the compiler must not warn.
        inline: True for a `static inline` function.
    """
    body = "\n".join(
        f"    {line}" for line in (*(f"(void){argument};" for argument in unused), *lines)
    )
    kind = "static inline void" if inline else "static void"
    return f"{kind} {name}({arguments})\n{{\n{body}\n}}\n"


def assignment_texts(assignments: Iterable[Assignment], names: dict[str, str]) -> Iterator[str]:
    """Yield the C code of statements, with comments that describe inputs and outputs.

    `names` maps C expressions to descriptions. A comment with the description of an element follows
    the first statement that reads or writes the element. The function removes this description from
    `names`.
    """
    for one in assignments:
        if said := _take_descriptions(one, names):
            yield f"{one.text} /* {c_comment(', '.join(said))} */"
        else:
            yield one.text


def _take_descriptions(statement: Assignment, names: dict[str, str]) -> dict[str, None]:
    """Remove the descriptions of the elements in a statement from `names`, and return them.

    The descriptions are the keys of the result, in the order of the operands.
    """
    places = (*statement.operands[1:], statement.operands[0])
    return dict.fromkeys([names.pop(place) for place in places if place in names])


def outline_functions(functions: Mapping[str, Function], inline: bool, real: str) -> str:
    """Return the C code of long functions, divided into shared and single-use functions.

    Args:
        functions: Functions by name.
        inline: True for `static inline` functions.
        real: C type of the values.
    """
    uses = _uses(list(functions.values()))
    kinds: dict[int, list[_RangeUse]] = {}
    for kind, use in chain.from_iterable(uses):
        if kind >= 0:
            kinds.setdefault(kind, []).append(use)
    first = next(iter(functions))
    shared = {
        kind: _SharedFunction(f"{first}_piece_{k}", own)
        for k, (kind, own) in enumerate(kinds.items())
    }
    last = [_last_reads(own, shared) for own in uses]
    crossing = {id(f): set(one) for f, one in zip(functions.values(), last, strict=True)}
    for one in shared.values():
        one.keep(crossing)
    text = "".join(one.text(real) for one in shared.values())
    for (name, function), own, ends in zip(functions.items(), uses, last, strict=True):
        text += _DividedFunction(name, function, ends, real).text(own, shared, inline)
    return text


def _common_statements(functions: Sequence[Function]) -> dict[Owners, list[Assignment]]:
    """Group the statements of functions by the set of functions in which they occur.

    The keys are tuples of function indices. If there are several functions, the call renames their
    variables and reorders their statements in place, so that shared statements become equal.
    """
    if len(functions) == 1:
        return {(0,): functions[0].work}
    names = Names()
    parts = shared_statements([list(one.rename_values(names)) for one in functions])
    for k, one in enumerate(functions):
        one.work = [*chain.from_iterable(part for own, part in parts.items() if k in own)]
    return parts


def _uses(functions: Sequence[Function]) -> list[list[tuple[int, _RangeUse]]]:
    """Return the pairs (kind, range of statements) of each function, in order.

    Similar ranges have equal kinds. The kind -1 marks a range that occurs only once.
    """
    parts = _common_statements(functions)
    form = form_numbers(parts.values())
    # a unique form after each group, so that no range of statements belongs to two groups
    ends = [np.array([-1 - k]) for k in range(len(form))]
    found = repeated_ranges(np.concatenate([*chain.from_iterable(zip(form, ends, strict=True))]))
    uses: list[list[tuple[int, _RangeUse]]] = [[] for _ in functions]
    kinds: dict[tuple[int, int], int] = {}
    offset = 0
    for owners, part in parts.items():
        places = [sum(use.size for _, use in uses[k]) for k in owners]
        for start, size, name in _divide_into_pieces(found, offset, len(part)):
            repeats = name[0] >= 0 or len(owners) > 1
            kind = kinds.setdefault(name, len(kinds)) if repeats else -1
            for k, place in zip(owners, places, strict=True):
                first = place + start
                uses[k].append((kind, _RangeUse(functions[k], first, first + size)))
        offset += len(part) + 1
    return uses


def _divide_into_pieces(
    found: Sequence[StatementRange], offset: int, length: int
) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """Divide a group of statements into pieces; yield the start, size and key of each piece.

    The ranges `found` divide the concatenated statements of all groups. The group begins at index
    `offset` of these statements, and contains `length` statements. The start of a piece is
    the index of its first statement within the group. Pieces with equal keys have the same code
    except for variable names and constants.
    """
    for one in found:
        first, stop = max(one.start - offset, 0), min(one.stop - offset, length)
        size = PART if one.kind < 0 else _equal_parts(stop - first)
        for start in range(first, stop, size):
            name = (one.kind, start - first) if one.kind >= 0 else (-1, offset + start)
            yield start, min(size, stop - start), name


def _equal_parts(length: int) -> int:
    """Return the length of nearly equal pieces of a range, at most `LONG` statements."""
    return max(ceil(length / max(ceil(length / LONG), 1)), 1)


def _last_reads(
    uses: Sequence[tuple[int, _RangeUse]], shared: Mapping[int, _SharedFunction]
) -> dict[str, int]:
    """Return the index of the last range that reads a value from `left`, by name of the value.

    `left` is the array that passes values between ranges. For a value that an output statement of
    the function reads, the index is the number of ranges.
    """
    last: dict[str, int] = {}
    for number, (kind, use) in enumerate(uses):
        read = shared[kind].reads(use) if kind >= 0 else use.external_reads()
        last |= dict.fromkeys(read, number)
    if uses:
        results = uses[0][1].function.results
        last |= dict.fromkeys((x for one in results for x in one.reads if x[0] in "vr"), len(uses))
    return last


class _DividedFunction:
    """Generator of a divided C function with a call of another C function for each range.

    Args:
        name: Name of the divided function.
        function: Undivided function.
        last: Index of the last range that reads each value, as returned by `_last_reads`.
        real: C type of the values.
    """

    def __init__(self, name: str, function: Function, last: Mapping[str, int], real: str):
        self.name, self.function, self.real = name, function, real
        self.left = _ValueSlots(last)
        self.lines: list[str] = []
        self.at: list[str] = []
        self.numbers: list[str] = []
        self._names = dict(function.names)

    def text(
        self,
        uses: Sequence[tuple[int, _RangeUse]],
        shared: Mapping[int, _SharedFunction],
        inline: bool,
    ) -> str:
        """Return the C code of the divided function and of its single-use functions.

        Args:
            uses: Ranges of the function, each with its kind.
            shared: Shared functions by kind.
            inline: True for a `static inline` function.
        """
        inputs = [value for value in self.left.last if value.startswith("in[")]
        self._copy([_copy(f"left[{self.left.assign_place(value)}]", value) for value in inputs])
        text = ""
        for number, (kind, use) in enumerate(uses):
            if kind >= 0:
                self._call(shared[kind], use)
            else:
                text += self._single_use_function(f"{self.name}_{number}", use)
            self.left.forget(number)
        self._copy(list(self._results()))
        tables = [_table("unsigned", "at", self.at), _table("double", "c", self.numbers)]
        tables += ["(void)at;", "(void)c;"]
        lines = [*tables, _left_text(self.real, self.left.size), *self.lines]
        arguments = f"const {self.real} *in, {self.real} *out"
        return text + definition(self.name, arguments, lines, ("in", "out"), inline)

    def _copy(self, copies: Sequence[Assignment]) -> None:
        """Add statements that copy array elements; a loop replaces `MANY` or more copies."""
        if len(copies) < MANY:
            self._add_statements(copies)
            return
        kinds: dict[tuple[str, str], list[Assignment]] = {}
        for one in copies:
            array = one.operands[1].partition("[")[0] if type(one.operands[1]) is not Number else ""
            kinds.setdefault((one.form, array), []).append(one)
        for (form, array), own in kinds.items():
            self.lines.append(_loop(form, array, *zip(*(one.operands for one in own), strict=True)))

    def _add_statements(self, assignments: Iterable[Assignment]) -> None:
        self.lines += assignment_texts(assignments, self._names)

    def _call(self, piece: _SharedFunction, use: _RangeUse) -> None:
        """Replace the range `use` by a call of the shared function `piece`.

        The method also adds the operands of the range to the C tables `at` and `c`.
        """
        self.lines.append(f"{piece.name}(left, at + {len(self.at)}, c + {len(self.numbers)});")
        kept = [self.left.assign_place(value) for value in piece.kept_of(use)]
        read = [self.left.place[value] for value in piece.reads(use)]
        self.at += map(str, [*read, *kept])
        self.numbers += piece.numbers_of(use)

    def _single_use_function(self, name: str, use: _RangeUse) -> str:
        """Return the C code of a function for a range that occurs only once.

        The method also adds the call of this function to the divided function.
        """
        self.lines.append(f"{name}(in, left);")
        lines = [
            f"const {self.real} {value} = left[{self.left.place[value]}];"
            for value in use.external_reads()
        ]
        statements = use.statements
        for one, text in zip(statements, assignment_texts(statements, self._names), strict=True):
            lines.append(text)
            kept = [target for target in one.targets if target in self.left.last]
            lines += [f"left[{self.left.assign_place(target)}] = {target};" for target in kept]
        arguments = f"const {self.real} *in, {self.real} *left"
        return APART + definition(name, arguments, lines, ("in", "left"))

    def _results(self) -> Iterator[Assignment]:
        place = self.left.place
        for one in self.function.results:
            operands = [f"left[{place[x]}]" if x in place else x for x in one.operands]
            yield one._replace(operands=tuple(operands))


def _left_text(real: str, size: int) -> str:
    """Return the C declaration of the array `left`, which passes values between the C functions."""
    if size > MOST_ON_STACK:
        return f"RB_WORKSPACE(1, {real}, left, {size});"
    return f"{real} left[{size}];"


def _copy(target: str, value: str) -> Assignment:
    return Assignment((target,), "%s = %s;", (target, value))


def _loop(form: str, array: str, targets: Sequence[str], values: Sequence[str]) -> str:
    """Return the C code of a loop that copies constants or array elements.

    Args:
        form: C code of one copy statement, with %s for the target and the value.
        array: Name of the source array; "" for constants.
        targets: C expressions of the target elements.
        values: C expressions of the source elements or constants.
    """
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
    """Return the index in the C expression of an array element, such as 3 for left[3]."""
    return element.partition("[")[2].rstrip("]")


def _table(kind: str, name: str, entries: Sequence[str]) -> str:
    lines = (", ".join(entries[k : k + 12]) for k in range(0, len(entries), 12))
    body = ",\n        ".join([*lines, "0"])  # C does not allow empty arrays
    return f"static const {kind} {name}[] = {{\n        {body}\n    }};"
