"""A value in a JSON document that knows where it is, so that what is wrong with it can be said."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.formats.refusal import FormatError, wrong


@dataclass(frozen=True)
class Node:
    """A value of a document from the file `path`, at the `place` in it."""

    path: Path
    value: Any
    place: str = ""

    def refused(self, text: str) -> FormatError:
        """The error that says `text` of this value."""
        return wrong(self.path, None, f"{self.place or 'the document'} {text}")

    def get(self, key: str) -> "Node | None":
        """The member of an object with this key, if there is one."""
        if not isinstance(self.value, dict):
            raise self.refused("must be an object")
        place = f"{self.place}.{key}" if self.place else key
        return Node(self.path, self.value[key], place) if key in self.value else None

    def __getitem__(self, key: str) -> "Node":
        member = self.get(key)
        if member is None:
            raise self.refused(f"needs {key}")
        return member

    def keys(self, known: set[str]) -> None:
        """Refuses members of an object that have none of the `known` keys."""
        if not isinstance(self.value, dict):
            raise self.refused("must be an object")
        if more := sorted(self.value.keys() - known):
            raise self.refused(f"has {', '.join(more)}, of which nothing is known")

    def members(self) -> Iterator[tuple[str, "Node"]]:
        """The members of an object by key."""
        self.keys(set(self.value) if isinstance(self.value, dict) else set())
        return ((key, self[key]) for key in self.value)

    def items(self, key: str) -> list["Node"]:
        """The items of the list that is the member with this key; none where there is none."""
        member = self.get(key)
        return [] if member is None else list(member)

    def __iter__(self) -> Iterator["Node"]:
        if not isinstance(self.value, list):
            raise self.refused("must be a list")
        items = enumerate(self.value)
        return iter([Node(self.path, item, f"{self.place}[{k}]") for k, item in items])

    def text(self) -> str:
        """The value, which must be a text."""
        if not isinstance(self.value, str):
            raise self.refused("must be a text")
        return self.value

    def integer(self) -> int:
        """The value, which must be an integer."""
        if not isinstance(self.value, int) or isinstance(self.value, bool):
            raise self.refused("must be an integer")
        if abs(self.value) > 2**53:
            raise self.refused("is too large an integer")
        return self.value

    def number(self) -> float:
        """The value, which must be a finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.refused("must be a number")
        try:
            number = float(self.value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.refused("must be a finite number")
        return number

    def array(self, *shape: int) -> Array:
        """The value as an array of this shape, -1 for any length."""
        if not shape:
            return np.array(self.number())
        rows = [item.array(*shape[1:]) for item in self]
        if len(rows) != shape[0] and shape[0] >= 0:
            raise self.refused(f"must have {shape[0]} items, not {len(rows)}")
        return np.array(rows).reshape(len(rows), *shape[1:])
