"""Elements and slices of ports by name: `q[1]`, `y[1:3]`, `f_ext[2,:]`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.block.quantities import Conversion, conversion
from rigidblocks.block.signal_types import TEXTUAL

_SELECTED = re.compile(r"(?P<port>.+?)\[(?P<index>[^\[\]]*)\]")
_ITEM = re.compile(r"\s*(?:(?P<one>\d+)|(?P<first>\d+)?\s*:\s*(?P<last>\d+)?)\s*")
_HOW = "elements count from 1, and both ends of a slice belong to it: q[2], q[1:3], q[2:], q[:]"


@dataclass(frozen=True, eq=False)
class Selection:
    """Elements of a port: their places in it (C order), and their shape.

    An index takes its dimension away, as in NumPy; a slice leaves it, also one of length one.
    """

    port: Port
    places: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of each element."""
        return tuple(self.port.units[k] for k in self.places)


def whole(port: Port) -> Selection:
    """All elements of a port."""
    return Selection(port, tuple(range(port.size)), port.shape)


def split(name: str) -> tuple[str, str | None]:
    """The name of a port and the text between the brackets behind it: None where there are none."""
    match = _SELECTED.fullmatch(name)
    return (match["port"], match["index"]) if match else (name, None)


def selected(port: Port, index: str, where: str) -> Selection:
    """The elements of a port that an index text such as `2`, `1:3` or `2,:` names, counted from 1
    as FMI counts, both ends of a slice included.

    Raises ValueError, naming `where`, for what is no index, for another number of indices than the
    port has dimensions, and for elements that there are not.
    """
    items = index.split(",")
    if len(items) != len(port.shape):
        example = ",".join(":" for _ in port.shape)
        right = f"write one for each, such as {port.name}[{example}]" if example else "leave it out"
        raise ValueError(
            f"{where} has {len(items)} indices, and {port.name} has the shape {port.shape}: {right}"
        )
    taken = tuple(
        _taken(item, size, port, where) for item, size in zip(items, port.shape, strict=True)
    )
    places = np.arange(port.size).reshape(port.shape)[taken]
    return Selection(port, tuple(np.ravel(places).tolist()), places.shape)


def _taken(item: str, size: int, port: Port, where: str) -> Any:
    """What an index takes of a dimension: a number, or a slice; both counted from 0."""
    match = _ITEM.fullmatch(item)
    if match is None:
        raise ValueError(f"{where} has the index '{item}', which is none; {_HOW}")
    first = int(match["one"] or match["first"] or 1)
    last = int(match["one"] or match["last"] or size)
    if not 1 <= first <= last <= size:
        raise ValueError(
            f"{where} is not all there: {port.name} has the shape {port.shape}, and index "
            f"'{item.strip()}' must lie within 1 to {size}; {_HOW}"
        )
    return first - 1 if match["one"] else slice(first - 1, last)


def converted(
    output: Port, start: Sequence[int], target: Port, to: Sequence[int]
) -> Conversion | None:
    """How elements of an output are converted to the units of elements of an input; None where
    they stay as they are.

    Raises ValueError for units of different dimensions, and for a text or binary value and another
    type.
    """
    if output.type != target.type and {output.type, target.type} & set(TEXTUAL):
        raise ValueError(f"{output.type} and {target.type} are different types")
    if output.units == target.units and not output.meanings and not target.meanings:
        return None
    units, targets = output.units, target.units
    meant, wanted = output.quantities, target.quantities
    return conversion(
        [units[k] for k in start],
        [targets[k] for k in to],
        [meant[k] for k in start],
        [wanted[k] for k in to],
    )


def element_port(port: Port, k: int, start: Any) -> Port:
    """The k-th element of a port (C order) as a port of its own, with this start value."""
    bounds = (np.ravel(value)[k] for value in (port.min, port.max, port.nominal))
    low, high, nominal = bounds
    return replace(
        port,
        name=port.element_names[k],
        shape=(),
        unit=port.units[k],
        start=None if start is None else float(np.ravel(start)[k]),
        min=low,
        max=high,
        nominal=nominal,
    )
