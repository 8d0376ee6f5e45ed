"""Stretches of a long straight-line function that repeat: the bodies of a robot, the loops of a
chain, and products of matrices leave the same statements behind with other operands.

Two stretches are alike where they have the same operations and the same operands from nearby. Such
stretches become one C function, called with the places of its operands (`shared`), so that the time
of a compiler goes with what differs in a model and not with its size. The arithmetic is the same.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.tracing.notation import Assignment, Number

NEAR = 64  # statements: operands from nearer than that are part of what stretches have in common
LENGTHS = tuple(32 << k for k in range(6))  # of stretches looked for; they are extended then
FEWEST = 32  # statements that stretches of a kind have to save


class Stretch(NamedTuple):
    """Statements `start` to `stop`, which are those of all stretches of the same `kind`; a kind of
    -1 is that of no other.
    """

    start: int
    stop: int
    kind: int


def forms(functions: Iterable[Sequence[Assignment]]) -> list[Array]:
    """A number (n,) for each statement of each function: the same for two that have the same
    operation, and operands that are both numbers, both from the same distance within NEAR, or both
    from elsewhere.
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


def stretches(form: Array) -> list[Stretch]:
    """The statements of these forms (n,) in stretches, those first that save most when they are
    written once; what they leave is searched again.
    """
    form, found = form.copy(), []
    while some := _found(form):
        found += some
        for one in some:  # a form of its own each
            form[one.start : one.stop] = -1 - len(form) - np.arange(one.start, one.stop)
    return _with_rest(sorted(found), len(form))


def _found(form: Array) -> list[Stretch]:
    free = np.append(np.ones(len(form), dtype=bool), False)  # nothing extends beyond the end
    waiting = [(-_saved(starts, length), length, starts) for length, starts in _alike(form)]
    heapq.heapify(waiting)
    found = []
    while waiting:
        saving, length, starts = heapq.heappop(waiting)
        left = _apart([s for s in starts if free[s : s + length].all()], length)
        if (now := -_saved(left, length)) > -FEWEST:
            continue
        if now > saving:  # others took some of them meanwhile
            heapq.heappush(waiting, (now, length, tuple(left)))
            continue
        first, last = _extended(form, free, left, length)
        for start in left:
            free[start + first : start + last] = False
            found.append(Stretch(start + first, start + last, left[0]))
    return found


def _saved(starts: Sequence[int], length: int) -> int:
    return (len(starts) - 1) * length


def _alike(form: Array) -> Iterator[tuple[int, tuple[int, ...]]]:
    """The length and the starts of stretches that are alike, by doubling their length; without
    those that are alike before their starts too.
    """
    rank, length = form - form.min(), 1
    while len(rank) > length < LENGTHS[-1]:
        pairs = rank[:-length] * (int(rank.max()) + 1) + rank[length:]
        _, rank = np.unique(pairs, return_inverse=True)
        length *= 2
        if length in LENGTHS:
            yield from ((length, starts) for starts in _groups(form, rank, length))


def _groups(form: Array, rank: Array, length: int) -> Iterator[tuple[int, ...]]:
    """The starts of the stretches that have the same rank, where there are some."""
    order = np.argsort(rank, kind="stable")
    first = np.flatnonzero(np.diff(rank[order], prepend=-1))
    before = form[order - 1]
    alike = np.minimum.reduceat(before, first) == np.maximum.reduceat(before, first)
    last = np.append(first[1:], len(order))
    for k in np.flatnonzero((last - first > 1) & ~alike):
        starts = _apart(order[first[k] : last[k]].tolist(), length)
        if len(starts) > 1:
            yield tuple(starts)


def _apart(starts: Iterable[int], length: int) -> list[int]:
    """Those of increasing starts that leave room for the stretch before."""
    result: list[int] = []
    for start in starts:
        if not result or start >= result[-1] + length:
            result.append(start)
    return result


def _extended(form: Array, free: Array, starts: list[int], length: int) -> tuple[int, int]:
    """How far before and behind their starts all these stretches are alike, and apart."""
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


def _with_rest(found: list[Stretch], n: int) -> list[Stretch]:
    """The stretches, and between them what is in none."""
    result, k = [], 0
    for one in [*found, Stretch(n, n, -1)]:
        if one.start > k:
            result.append(Stretch(k, one.start, -1))
        if one.stop > one.start:
            result.append(one)
        k = one.stop
    return result
