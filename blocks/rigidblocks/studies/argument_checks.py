"""Checks of the arguments of fits, identifications and gradients."""

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np

from rigidblocks.common.arrays import Array
from rigidblocks.cosim.graph.system import System
from rigidblocks.library.estimators import number_of


def check_level(level: Any) -> None:
    """Check a confidence level.

    Raises:
        TypeError: The level is not a number.
        ValueError: The level is not between 0 and 1.
    """
    if not 0 < number_of("the confidence level", level) < 1:
        raise ValueError(f"the confidence level must be between 0 and 1, not {level}")


def check_seed(seed: Any) -> None:
    """Raise TypeError or ValueError if the seed of random motions is not a nonnegative integer."""
    if isinstance(seed, bool) or not isinstance(seed, Integral):
        raise TypeError(f"the seed must be an integer from 0, not {seed!r}")
    if seed < 0:
        raise ValueError(f"the seed must be an integer from 0, not {seed}")


def check_system(system: Any, subject: str) -> None:
    """Raise TypeError if `system` is not a System; `subject` begins the message."""
    if not isinstance(system, System):
        raise TypeError(
            f"{subject} needs a System, not a {type(system).__name__}; write system = System(); "
            "system.add('part', block)"
        )


def real_array(value: Any, label: str) -> Array:
    """Return a value as a float array; `label` is its name in error messages.

    Raises:
        TypeError: The value contains anything but real numbers.
        ValueError: Nested lists have different lengths.
    """
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(
            f"{label} must be a rectangular array of numbers, not {_short(value)}"
        ) from None
    wrong = array.dtype.kind not in "biufO"
    if array.dtype.kind == "O":  # None in an array is a missing value, so it becomes NaN
        wrong = not array.ndim or any(isinstance(one, str | bytes | complex) for one in array.flat)
    if wrong:
        raise TypeError(f"{label} must be an array of real numbers, not {_short(value)}")
    return np.array(array, dtype=float, order="C")


def _short(value: Any) -> str:
    """Return the start of the `repr` of a value, on one line."""
    return " ".join(repr(value).split())[:60]


def name_list(value: Any, label: str) -> list[str]:
    """Return one name or several names as a list; `label` is the argument in error messages.

    Raises:
        TypeError: The value is neither a name nor a sequence of names.
    """
    names: list[Any] = [value]
    if not isinstance(value, str) and isinstance(value, Iterable):
        names = list(value)
    if not all(isinstance(one, str) for one in names):
        raise TypeError(f"{label} must be a name or a sequence of names, not {value!r:.60}")
    return names
