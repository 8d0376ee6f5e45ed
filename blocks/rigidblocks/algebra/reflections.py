"""What is normal to orthonormal directions, in coordinates that reflections turn them out of.

Where there are places that nobody asks for later, Householder's reflections turn directions into
these places. What is left are the other places, and costs a fraction of an orthonormal basis by
Gram and Schmidt (`linear.completion`). Everything works traced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from rigidblocks.algebra.scalar import is_number, less, select
from rigidblocks.algebra.spatial import Array


class Basis(Protocol):
    """Columns P (n, k), orthonormal but for those that are zero."""

    @property
    def size(self) -> int:
        """Their number k."""

    def parts(self, x: Array) -> Array:
        """P^T x (k,) of x (n,)."""

    def sum(self, y: Array) -> Array:
        """P y (n,) of y (k,)."""


@dataclass(frozen=True, eq=False)
class Columns:
    """A basis of given columns P (n, k)."""

    P: Array

    @property
    def size(self) -> int:
        """The number of columns."""
        return int(self.P.shape[1])

    def parts(self, x: Array) -> Array:
        """P^T x (k,)."""
        y: Array = self.P.T @ x
        return y

    def sum(self, y: Array) -> Array:
        """P y (n,)."""
        x: Array = self.P @ y
        return x


class Mirror(NamedTuple):
    """The reflection x - factor (v^T x) v of the elements of x at these places."""

    places: list[int]
    v: Array
    factor: Any

    def image(self, x: Array) -> Array:
        """The reflection of x (n,), whose other elements stay."""
        part = self.factor * (self.v @ x[self.places])
        if is_number(part, 0.0):
            return x
        image = np.array(x, dtype=np.result_type(x, self.v))
        image[self.places] = x[self.places] - self.v * part
        return image


@dataclass(frozen=True, eq=False)
class Reflected:
    """The basis of what reflections take to the k `left` places of n; those of its columns that
    are `shut` are times a number that is 0 or 1.
    """

    n: int
    left: list[int]
    mirrors: tuple[Mirror, ...]
    shut: Mapping[int, Any]

    @property
    def size(self) -> int:
        """The number of columns."""
        return len(self.left)

    def parts(self, x: Array) -> Array:
        """P^T x (k,)."""
        for mirror in self.mirrors:
            x = mirror.image(x)
        return self._open(x[self.left])

    def sum(self, y: Array) -> Array:
        """P y (n,)."""
        x = np.zeros(self.n, dtype=y.dtype)
        x[self.left] = self._open(y)
        for mirror in reversed(self.mirrors):
            x = mirror.image(x)
        return x

    def _open(self, y: Array) -> Array:
        y = y.copy()
        for k, number in self.shut.items():
            y[k] = y[k] * number
        return y


def normal_to(Q: Array, sizes: Sequence[Any], spare: Sequence[int]) -> Reflected:
    """A basis (n, k) normal to the orthonormal columns of Q (n, m), that with them has what is not
    in the s `spare` places: k = n - s. Columns of the size 0 are zero, and behind all others.

    Directions for which there is no spare place take one of the others, whose column of the basis
    is zero unless the direction is.
    """
    left = [k for k in range(len(Q)) if k not in spare]
    open_, shut = list(left), dict[int, Any]()
    columns, mirrors = list(Q.T), list[Mirror]()
    for j, size in enumerate(sizes):
        some = select(less(0.0, size), 1.0, 0.0)
        if j < len(spare):
            mirrors.append(_gathering(columns[j], list(spare[j:])))
            columns[j:] = map(mirrors[-1].image, columns[j:])
            pivot = spare[j]
        elif open_:
            pivot = open_.pop()
            shut[left.index(pivot)] = 1.0 - some
        else:
            break  # there are n directions, and those behind them are zero
        mirrors.append(_turning(columns[j], [*open_, pivot], some))
        columns[j:] = map(mirrors[-1].image, columns[j:])
    return Reflected(len(Q), left, tuple(mirrors), shut)


def _gathering(q: Array, places: list[int]) -> Mirror:
    """What takes the elements of a part of a unit vector at these places to the first of them."""
    x = q[places]
    if len(places) == 1:
        return Mirror(places, np.zeros(1), 0.0)
    square = x @ x
    some = less(_NOTHING, square)
    length = np.sqrt(select(some, square, 1.0))
    v = np.array([x[0] + _sign(x[0]) * length, *x[1:]])
    return Mirror(places, v, select(some, 1.0, 0.0) / (length * (length + np.abs(x[0]))))


_NOTHING = 1e-40  # the square of elements of a unit vector that may stay where they are


def _turning(q: Array, places: list[int], some: Any) -> Mirror:
    """What takes a unit vector of these places to the last of them; none where it is zero and
    `some` is 0, not 1.
    """
    v = np.array(q[places])
    factor = 1.0 / (1.0 + np.abs(v[-1]))
    v[-1] = v[-1] + _sign(v[-1]) * some
    return Mirror(places, v, factor)


def _sign(x: Any) -> Any:
    return select(less(x, 0.0), -1.0, 1.0)
