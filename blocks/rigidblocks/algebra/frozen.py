"""Arrays that nobody can write to."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def read_only(values: ArrayLike) -> NDArray[Any]:
    """A copy of an array that cannot be written to."""
    copy = np.array(values)
    copy.setflags(write=False)
    return copy


def floats_of_shape(shape: tuple[int, ...], values: Sequence[float]) -> NDArray[Any]:
    """A read-only array of floats from the list of all of them, in less than half the time that
    numpy takes to look through nested ones.
    """
    array = np.fromiter(values, float, len(values))
    array.setflags(write=False)
    return array.reshape(shape)


def is_frozen(*values: Any) -> bool:
    """Whether no one can write to any of these: numbers, or read-only arrays that are no views of
    others.
    """
    for value in values:
        if isinstance(value, np.ndarray):
            if value.flags.writeable:
                return False
            base = value.base
            if base is not None and (not isinstance(base, np.ndarray) or base.flags.writeable):
                return False
    return True
