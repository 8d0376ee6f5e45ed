"""The arguments of a run, checked for their types where they are given."""

import numbers
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def check_numbers(given: Mapping[str, Any]) -> None:
    """Raises TypeError for what is no real number, with its name."""
    for what, value in given.items():
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{what} must be a number, not {_told(value)}")


def check_names(given: Mapping[str, Any]) -> None:
    """Raises TypeError for what is no list of names."""
    for what, value in given.items():
        if isinstance(value, str):
            raise TypeError(f"{what} must be a list of names; write {what}=[{value!r}]")
        if not isinstance(value, Iterable) or not all(isinstance(name, str) for name in value):
            raise TypeError(f"{what} must be a list of names, not {_told(value)}")


def check_count(what: str, value: Any) -> None:
    """Raises TypeError for what is no whole number, and ValueError for one below 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{what} must be a whole number, not {_told(value)}")
    if int(value) < 1:
        raise ValueError(f"{what} must be 1 or more, not {value}")


def check_path(what: str, value: Any) -> None:
    """Raises TypeError for what is neither a path nor None, ValueError for one without a name."""
    if value is not None and not isinstance(value, str | Path):
        raise TypeError(f"{what} must be the path of a file, not {_told(value)}")
    if value is not None and not Path(value).name:
        raise ValueError(f"{what} must be the path of a file, not '{value}'")


def _told(value: Any) -> str:
    return "None" if value is None else f"{value!r} of type {type(value).__name__}"
