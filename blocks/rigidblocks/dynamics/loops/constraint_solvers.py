"""Loops eliminated one after the other: a rank-revealing solution of many constraints that exploits
how few each concerns.

To find is the w nearest to z with Y^T w = k, where columns of Y may depend on each other, nearly or
exactly, and k then agrees with that: the null-space method of the thesis (Spencer 2004, 3.1) in
coordinates in which the inertia is 1. The constraints of a loop are brought to orthonormal
directions of the coordinates that they concern, the largest first; what is left of a constraint
below a relative tolerance is rounding error and is dropped (RBDA 8.8). The rows of Y that no later
loop reads are done with then; of the others there remains what the constraints left free. So a
chain of loops costs as many operations as it has loops, and no decision needs a branch: everything
works on floats and on traced scalars.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from rigidblocks.algebra.linear import completion, orthonormal, without
from rigidblocks.algebra.reflections import Basis, Columns, normal_to
from rigidblocks.algebra.scalar import is_number, less, maximum, minimum, select
from rigidblocks.algebra.spatial import Array

TOLERANCE = 1e-9  # of the largest column: rounding errors of dependent constraints are far below


@dataclass(frozen=True, eq=False)
class Front:
    """The elimination of one loop, which has the constraints Y: a vector for each row that it
    concerns.

    Its coordinates are those left of the earlier fronts `sources`, then the `fresh` rows. `rows`
    has the rows that this loop or a later one reads, in these coordinates. Q = M V has the
    directions that the constraints M fix, with the `sizes` of what they were made from, 0 for those
    that were dropped; P has those that later loops read, and `kept` the rows that they read in
    coordinates of P. `largest` is the size of the largest constraint before anything was taken off.
    """

    block: slice
    Y: dict[int, Array]
    sources: tuple[int, ...]
    fresh: tuple[int, ...]
    rows: dict[int, Array]
    Q: Array
    V: Array
    sizes: tuple[Any, ...]
    P: Basis
    kept: dict[int, Array]
    largest: Any

    def below(self, c: Array, amplitude: Array, order: int) -> Array:
        """Which of the coordinates c in the directions Q are smaller than `amplitude` (nc,) of this
        loop makes them: (s_1/s)^order / s times it, with the size s of a direction, s_1 of all.
        """
        some = [less(0.0, size) for size in self.sizes]
        inverse = np.array(
            [1.0 / select(is_some, s, 1.0) for is_some, s in zip(some, self.sizes, strict=True)]
        )
        growth = self.largest * inverse
        bound = amplitude[self.block.start] * inverse
        for _ in range(order):
            bound = bound * growth
        smaller: Array = less(np.abs(c), bound)
        return smaller


@dataclass(frozen=True, eq=False)
class Doubt:
    """What rounding may make of k (nc,) and of the velocities K qd (nc,) of each loop where its
    constraints do not depend on each other. A combination of size s has (s_1/s)^2 and s_1/s times
    as much, with s_1 of the largest one.

    Near a singular pose rounding of the positions turns the direction of a constraint, by eps/s,
    and decides whether the mechanism goes straight on or turns about the singular pose: k tells
    what it does. Where all of it may be rounding it goes straight on, so that k counts as 0 and
    its velocities stay what they are.
    """

    k: Array
    k_rounding: Array
    velocity_rounding: Array


@dataclass(frozen=True, eq=False)
class Elimination:
    """The factors of Y (n, nc) that `eliminated` found, for `solved`."""

    shape: tuple[int, int]
    fronts: tuple[Front, ...]

    @property
    def rank(self) -> Any:
        """The number of independent constraints."""
        return sum(select(less(0.0, size), 1.0, 0.0) for size in self._sizes)

    @property
    def condition(self) -> Any:
        """The largest remainder over the smallest one kept: an estimate of sigma_1/sigma_r, the
        ratio of the extreme singular values of the independent constraints. 1 where there are none.
        """
        largest = reduce(maximum, self._sizes, 0.0)
        smallest = reduce(
            minimum, [select(less(0.0, size), size, largest) for size in self._sizes], largest
        )
        some = less(0.0, smallest)
        return select(some, largest / select(some, smallest, 1.0), 1.0)

    @property
    def _sizes(self) -> list[Any]:
        return [size for front in self.fronts for size in front.sizes]


def eliminated(Y: Array, blocks: Sequence[slice], tolerance: float = TOLERANCE) -> Elimination:
    """The elimination of the columns of Y (n, nc), a block of them for each loop: the next is the
    one that has the fewest coordinates then, of several the first.

    A constraint that depends on those of earlier loops, or on larger ones of its own, is the one
    that is dropped.
    """
    squares = [column @ column for column in Y.T]
    limit = tolerance * tolerance * reduce(maximum, squares)
    concerned = [_nonzero_rows(Y[:, block]) for block in blocks]
    fronts: list[Front] = []
    home: dict[int, int] = {}  # the front in whose kept coordinates a row is
    for l, later in _in_turn(concerned):
        largest = np.sqrt(reduce(maximum, squares[blocks[l]]))
        front = _front(blocks[l], concerned[l], later, fronts, home, limit, largest)
        home |= dict.fromkeys(front.kept, len(fronts))
        fronts.append(front)
    return Elimination(Y.shape, tuple(fronts))


def _in_turn(concerned: Sequence[Mapping[int, Array]]) -> Iterator[tuple[int, set[int]]]:
    """The loops that concern rows in the order of their elimination, and the rows that are read
    after each.
    """
    waiting = [l for l, rows in enumerate(concerned) if rows]
    together: dict[int, set[int]] = {}  # by row: the rows that are kept with it
    while waiting:
        reach = [
            set(concerned[l]).union(*(together.get(row, ()) for row in concerned[l]))
            for l in waiting
        ]
        sizes = [len(rows) for rows in reach]
        first = sizes.index(min(sizes))
        l, rows = waiting.pop(first), reach[first]
        later = {row for other in waiting for row in concerned[other]}
        together |= dict.fromkeys(rows & later, rows & later)
        yield l, later


def solved(
    factors: Elimination, k: Array, z: Array, doubt: Doubt | None = None
) -> tuple[Array, Array]:
    """The w (n,) nearest to z (n,) with Y^T w = k (nc,), and lambda (nc,) with w = z + Y lambda, 0
    for what was dropped. Of k, what is in doubt counts as 0.
    """
    fixed, free = _fixed_and_free(factors, k, z, doubt)
    w: Array = np.array(z, dtype=_dtype(*fixed, *free))
    places: list[Array] = []
    settled: dict[int, Array] = {}  # by front: how later loops move the kept coordinates

    # inward: the coordinates of each loop, of which it settles its own
    for l, front in reversed(list(enumerate(factors.fronts))):
        s = fixed[l] + without(free[l], list(front.Q.T))
        if l in settled:
            s = s + front.P.sum(settled[l])
        places.insert(0, s)
        left = free[l]
        for source in front.sources:
            size = factors.fronts[source].P.size
            settled[source], s, left = s[:size] - left[:size], s[size:], left[size:]
        w[list(front.fresh)] = s
    return w, _multipliers(factors, places, free)


def _fixed_and_free(
    factors: Elimination, k: Array, z: Array, doubt: Doubt | None
) -> tuple[list[Array], list[Array]]:
    """Outward: what the constraints of each loop fix of its coordinates, and these coordinates of
    z.
    """
    z = np.asarray(z)
    offset: dict[int, Any] = {}  # of rows, by what is fixed already
    k_offset: dict[int, Any] = {}
    fixed: list[Array] = []
    free: list[Array] = []
    for front in factors.fronts:
        c = _settled(front, k, offset)
        if doubt is not None:
            turning = c if k is doubt.k else _settled(front, doubt.k, k_offset)
            straight = front.below(turning, doubt.k_rounding, 2)
            if k is not doubt.k:
                turning = turning - select(straight, turning, 0.0)
                _move(front, front.Q @ turning, k_offset)
                straight = select(front.below(c, doubt.velocity_rounding, 1), straight, False)
            c = c - select(straight, c, 0.0)
        fixed.append(front.Q @ c)
        left = [factors.fronts[source].P.parts(free[source]) for source in front.sources]
        free.append(np.concatenate([*left, z[list(front.fresh)]]))
        _move(front, fixed[-1], offset)
    return fixed, free


def _settled(front: Front, k: Array, offset: dict[int, Any]) -> Array:
    """The coordinates in the directions of a loop that its k asks for, with the rows of earlier
    ones at their offset.
    """
    rest = k[front.block] - sum(y * offset[row] for row, y in front.Y.items() if row in offset)
    c: Array = front.V.T @ rest
    return c


def _move(front: Front, fixed: Array, offset: dict[int, Any]) -> None:
    """Moves the rows that a loop or a later one reads by what is fixed."""
    for row, c in front.rows.items():
        offset[row] = offset.get(row, 0.0) + c @ fixed


def _multipliers(factors: Elimination, places: list[Array], free: list[Array]) -> Array:
    """Inward: M lambda is what moved the coordinates of a loop, less what the forces of later loops
    did.
    """
    lam: Array = np.zeros(factors.shape[1], dtype=_dtype(*places))
    later: dict[int, Any] = {}
    for front, s, s0 in reversed(list(zip(factors.fronts, places, free, strict=True))):
        moved = (
            s
            - s0
            - sum(
                (c * later[row] for row, c in front.rows.items() if row in later),
                start=np.zeros(len(s)),
            )
        )
        lam[front.block] = front.V @ (front.Q.T @ moved)
        later |= {row: later.get(row, 0.0) + y @ lam[front.block] for row, y in front.Y.items()}
    return lam


def _front(
    block: slice,
    Y: dict[int, Array],
    later: set[int],
    fronts: list[Front],
    home: dict[int, int],
    limit: Any,
    largest: Any,
) -> Front:
    sources = tuple(sorted({home[row] for row in Y if row in home}))
    fresh = tuple(row for row in Y if row not in home)
    rows = _coordinates(sources, fresh, fronts, home)
    M = np.array([rows[row] for row in Y]).T @ np.array(list(Y.values()))
    Q, V, sizes = orthonormal(M, limit)
    read = {row: c for row, c in rows.items() if row in later}
    P, kept = _left(Q, sizes, read)
    return Front(block, Y, sources, fresh, rows, Q, V, sizes, P, kept, largest)


def _left(
    Q: Array, sizes: tuple[Any, ...], read: dict[int, Array]
) -> tuple[Basis, dict[int, Array]]:
    """A basis of what the directions Q leave free of the rows that later loops read, and these rows
    in its coordinates.

    Where that leaves no more than there are rows, it is of the places that they read.
    """
    spare = [k for k in range(len(Q)) if all(is_number(c[k], 0.0) for c in read.values())]
    if len(Q) - len(spare) <= len(read):
        basis = normal_to(Q, sizes, spare)
        return basis, {row: basis.parts(c) for row, c in read.items()}
    P, R = completion(Q, list(read.values()))
    return Columns(P), dict(zip(read, R.T, strict=True))


def _coordinates(
    sources: tuple[int, ...], fresh: tuple[int, ...], fronts: list[Front], home: dict[int, int]
) -> dict[int, Array]:
    """The rows that are in one of these fronts, or fresh, in the coordinates of both together."""
    sizes = [fronts[source].P.size for source in sources]
    basis = np.eye(sum(sizes) + len(fresh))
    rows: dict[int, Array] = {}
    k = 0
    for source, size in zip(sources, sizes, strict=True):
        part = basis[:, k : k + size]
        rows |= {row: part @ c for row, c in fronts[source].kept.items() if home[row] == source}
        k += size
    return rows | dict(zip(fresh, basis[k:], strict=True))


def _dtype(*arrays: Array) -> type:
    return object if any(array.dtype == object for array in arrays) else float


def _nonzero_rows(Y: Array) -> dict[int, Array]:
    return {i: row for i, row in enumerate(Y) if not all(is_number(value, 0.0) for value in row)}
