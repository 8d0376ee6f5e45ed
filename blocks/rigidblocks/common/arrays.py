"""Array type, read-only copies of arrays, and tuples whose elements are computed at first use."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    Array = NDArray[Any]
else:  # `help` prints this short name instead of several lines for the alias
    Array = np.ndarray


def read_only(values: ArrayLike) -> NDArray[Any]:
    """Return a read-only copy of an array."""
    copy = np.array(values)
    copy.setflags(write=False)
    return copy


def floats_of_shape(shape: tuple[int, ...], values: Sequence[float]) -> NDArray[Any]:
    """Return a read-only array of floats with the shape `shape` from the flat list `values`.

    This function is more than twice as fast as numpy.array with nested lists.
    """
    array = np.fromiter(values, float, len(values))
    array.setflags(write=False)
    return array.reshape(shape)


def is_frozen(*values: Any) -> bool:
    """Return True if all values are immutable.

    Immutable values are numbers, and read-only arrays that are not views of writable arrays.
    """
    for value in values:
        if isinstance(value, np.ndarray):
            if value.flags.writeable:
                return False
            base = value.base
            if base is not None and (not isinstance(base, np.ndarray) or base.flags.writeable):
                return False
    return True


class Immutable:
    """Base class of objects whose arrays are read-only; a block stores such objects unchanged."""

    __slots__ = ()


class LazyTuple(Sequence[Any]):
    """Tuple with the elements of `make(*arguments)`, which is called at first use.

    For example, a program that shows no robot never creates the visual shapes.
    """

    __slots__ = ("_arguments", "_items", "_make")

    def __init__(self, make: Callable[..., tuple[Any, ...]], *arguments: Any):
        self._make: Callable[..., tuple[Any, ...]] | None = make
        self._arguments = arguments
        self._items: tuple[Any, ...] = ()

    def _force(self) -> tuple[Any, ...]:
        if (make := self._make) is not None:
            self._items = make(*self._arguments)
            self._make, self._arguments = None, ()
        return self._items

    def __getitem__(self, index: Any) -> Any:
        return self._force()[index]

    def __len__(self) -> int:
        return len(self._force())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._force())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple | LazyTuple) and self._force() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._force())

    def __repr__(self) -> str:
        return repr(self._force())

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._force(),)
