"""Tables as blocks."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import within
from rigidblocks.algebra.spatial import Array
from rigidblocks.algebra.tables import entry, held_place, reached
from rigidblocks.block.block import Block, Port, Record, Values, finite

EXTRAPOLATIONS = ("hold", "linear")


@dataclass(frozen=True, eq=False)
class LookupTable(Block):
    """A function of one or two numbers by a table, linear between its points.

        y = table(u)             x (k,) and values (k,)
        y = table(u1, u2)        x = (x1 (k,), x2 (l,)) and values (k, l), bilinear

    The points increase. Beyond them the table goes on as `extrapolation` says: "hold" the last
    value, or "linear" with the last slope. With a `shape` every element of u is looked up by
    itself. The table is a constant: in a compiled block it is data, and a search finds the place.
    """

    x: Any
    values: Any
    extrapolation: str = "hold"
    shape: int | tuple[int, ...] = ()
    unit: str = ""
    unit_in: str | tuple[str, str] = ""

    def __post_init__(self) -> None:
        values = finite(self.values, np.shape(self.values), "the values of a lookup table")
        given = (self.x,) if values.ndim == 1 else tuple(self.x)
        axes = tuple(finite(x, np.shape(x), "the points of a lookup table") for x in given)
        lengths = tuple(len(x) if x.ndim == 1 else 0 for x in axes)
        if values.ndim not in (1, 2) or lengths != values.shape or min(lengths) < 2:
            raise ValueError(
                "a lookup table needs x (k,) with values (k,), or two such x with values (k, l), "
                f"of at least two points each, not x of {lengths} and values {values.shape}"
            )
        if any(np.any(np.diff(x) <= 0) for x in axes):
            raise ValueError("the points of a lookup table must increase")
        if self.extrapolation not in EXTRAPOLATIONS:
            raise ValueError(
                f"the extrapolation must be hold or linear, not {self.extrapolation!r}"
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "x", axes if len(axes) > 1 else axes[0])

    @property
    def _axes(self) -> tuple[Array, ...]:
        return self.x if isinstance(self.x, tuple) else (self.x,)

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.shape,) if isinstance(self.shape, int) else self.shape

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """u, or u1 and u2."""
        names = ("u",) if len(self._axes) == 1 else ("u1", "u2")
        units = (self.unit_in,) * 2 if isinstance(self.unit_in, str) else self.unit_in
        return tuple(
            Port(name, self._shape, unit, "where the table is read")
            for name, unit in zip(names, units, strict=False)
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y."""
        return (Port("y", self._shape, self.unit, "value of the table"),)

    def output(self, u: Record) -> Values:
        places = [
            self._place(x, value) for x, value in zip(self._axes, vars(u).values(), strict=True)
        ]
        (k, s), width = places[0], self.values.shape[-1]
        if len(places) == 1:
            low, high = entry(self.values, k), entry(self.values, k + 1.0)
            return {"y": low + s * (high - low)}
        (l, r), flat = places[1], np.ravel(self.values)
        first, second = k * width + l, (k + 1.0) * width + l
        low = entry(flat, first) + r * (entry(flat, first + 1.0) - entry(flat, first))
        high = entry(flat, second) + r * (entry(flat, second + 1.0) - entry(flat, second))
        return {"y": low + s * (high - low)}

    def _place(self, x: Array, u: Any) -> tuple[Any, Any]:
        """The interval that u is in, and how far: 0 at its begin, 1 at its end."""
        u, inner = u if self.extrapolation == "linear" else within(u, x[0], x[-1]), x[1:-1]
        k = reached(inner, u) if len(inner) else 0.0
        k = held_place(k, inner, u)
        begin = entry(x, k)
        return k, (u - begin) / (entry(x, k + 1.0) - begin)
