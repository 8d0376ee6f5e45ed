"""Ports: what the signals of a block are, and their values as records and as flat arrays."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.quantities import Quantity, quantity_of
from rigidblocks.block.record import Record, Values
from rigidblocks.block.units import base_units

SMALLEST = float(np.finfo(float).tiny)  # what is positive is not smaller


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Port:
    """A named signal of fixed shape with units, the one source of every description of it.

    `unit` is one unit for all elements, or a tuple with one for each (C order). `start` is the
    value before the first one is computed or connected; an input without one must be connected, and
    a state always has one. A state whose rate of change is another state names that in `rate` (q
    has the rate qd).

    `min` and `max` are bounds that the values keep by a law, `nominal` is their order of magnitude,
    1 unless given; each is a number or has the port's shape. Where there is no bound it is
    infinite. Values of a `positive` port are above zero.

    `type` is the FMI type of a port of an FMU, whose values are carried as doubles
    (`signal_types`). `meanings` says what units mean that are not among those of blocks; None is a
    unit that no one knows, which is kept as it is.
    """

    name: str
    shape: tuple[int, ...] = ()
    unit: str | tuple[str, ...] = "1"
    doc: str = ""
    start: Any = None
    rate: str | None = None
    min: Any = None
    max: Any = None
    nominal: Any = None
    positive: bool = False
    type: str = "Real"
    meanings: Mapping[str, Quantity | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.unit, tuple) and len(self.unit) != self.size:
            raise ValueError(
                f"port '{self.name}' of shape {self.shape} has {len(self.unit)} units; it needs "
                f"{self.size} or one"
            )
        for unit in dict.fromkeys(self.units):
            if unit not in self.meanings:
                base_units(unit)  # raises for a unit that is not known
        for name, default in (("min", -np.inf), ("max", np.inf), ("nominal", 1.0)):
            given = default if getattr(self, name) is None else getattr(self, name)
            object.__setattr__(
                self, name, _shaped(given, self.shape, f"the {name} of port '{self.name}'")
            )
        if not np.all(self.min <= self.max) or not np.all(
            (self.nominal > 0) & np.isfinite(self.nominal)
        ):
            raise ValueError(
                f"port '{self.name}' needs min <= max and positive nominal values, not min "
                f"{self.min.tolist()}, "
                f"max {self.max.tolist()} and nominal {self.nominal.tolist()}"
            )
        if self.start is not None:
            object.__setattr__(
                self,
                "start",
                finite(self.start, self.shape, f"the start value of port '{self.name}'"),
            )
            self._check_start()

    def _check_start(self) -> None:
        ports = zip(
            self.element_names,
            self.units,
            *map(np.ravel, (self.start, self.lowest, self.max)),
            strict=True,
        )
        for name, unit, start, low, high in ports:
            if not low <= start <= high:
                given = f"{start:g} {unit}".removesuffix(" 1")  # the unit of what has none
                bound = bound_text(start, low, high)
                raise ValueError(f"the start value of {name} is {given}; it must be {bound}")

    @property
    def lowest(self) -> Array:
        """The smallest values: `min`, or the smallest positive number of a `positive` port."""
        lowest: Array = np.maximum(self.min, SMALLEST if self.positive else -np.inf)
        return lowest

    def within(self, value: float) -> Array:
        """The values nearest to `value` within the bounds."""
        nearest: Array = np.minimum(np.maximum(value, self.min), self.max)
        return nearest

    @cached_property
    def is_bounded(self) -> bool:
        """Whether there are values that it does not take."""
        return bool(np.isfinite(self.lowest).any() or np.isfinite(self.max).any())

    @cached_property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def units(self) -> tuple[str, ...]:
        """The unit of each element."""
        return self.unit if isinstance(self.unit, tuple) else (self.unit,) * self.size

    @property
    def quantities(self) -> tuple[Quantity | None, ...]:
        """What the unit of each element means; None where no one knows."""
        return tuple(
            self.meanings.get(u) if u in self.meanings else quantity_of(u) for u in self.units
        )

    @cached_property
    def element_names(self) -> tuple[str, ...]:
        """The name of each element: `q[1]`, `q[2]`, ... or `f[1,1]`, counted from 1 as FMI does; a
        scalar is its name.
        """
        if not self.shape:
            return (self.name,)
        return tuple(
            f"{self.name}[{','.join(str(k + 1) for k in index)}]"
            for index in np.ndindex(*self.shape)
        )


def bound_text(value: float, low: float, high: float) -> str:
    """What a value that is out of its bounds must be."""
    if value < low:
        return "positive" if low == SMALLEST else f"at least {low:g}"
    return f"at most {high:g}"


def finite(value: Any, shape: tuple[int, ...], what: str) -> Array:
    """`value` as a read-only float array of `shape`, a single number filling it.

    Raises ValueError, with `what` in the message, for another shape or for what is not finite.
    """
    array = _shaped(value, shape, what)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{what} must be finite, not {array.tolist()}")
    return array


def _shaped(value: Any, shape: tuple[int, ...], what: str) -> Array:
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):
            raise  # as what a trace has to say
        raise type(error)(f"{what} takes numbers of shape {shape}, not {value!r:.60}") from None
    if array.shape != shape and array.ndim:
        raise ValueError(f"{what} has shape {array.shape}; it needs shape {shape}")
    array = np.broadcast_to(array, shape).copy()
    array.setflags(write=False)
    return array


def record(
    ports: Iterable[Port], flat: Array, kind: str = "value", owner: str = "record"
) -> Record:
    """The flat values of `ports` as a record with an attribute of its shape for each port.

    `kind` and `owner` are for the message of a name that there is not (`Record`). Arrays among the
    values are read-only.
    """
    flat, values, k = flat.view(), {}, 0
    flat.setflags(write=False)
    for port in ports:
        values[port.name] = flat[k : k + port.size].reshape(port.shape) if port.shape else flat[k]
        k += port.size
    return Record(values, kind, owner)


def flatten(
    ports: Iterable[Port], values: Values, where: str, instead: Values | None = None
) -> Array:
    """The values by name as one flat array in the order of `ports`.

    What is left out of `values` is taken from `instead`, where there is such a thing. Raises
    TypeError for what is no mapping, and ValueError when a value is missing, has another shape or
    belongs to no port; they name `where`, which returned the values.
    """
    ports = tuple(ports)
    wanted = [port.name for port in ports]
    if not isinstance(values, Mapping):
        given = "None" if values is None else f"a value of type {type(values).__name__}"
        raise TypeError(f"{where} returned {given}; {_demand(wanted, instead)}")
    extra = [str(name) for name in values if name not in wanted]
    values = {**(instead or {}), **values}
    missing = [name for name in wanted if name not in values]
    if extra or missing:
        parts = (("left out", missing), ("returned the unknown", extra))
        wrong = " and ".join(f"{what} {', '.join(names)}" for what, names in parts if names)
        raise ValueError(f"{where} {wrong}; {_demand(wanted, instead)}")
    for port in ports:
        if np.shape(values[port.name]) != port.shape:
            raise ValueError(
                f"{where} returned '{port.name}' of shape {np.shape(values[port.name])}; it needs "
                f"shape {port.shape}"
            )
    return np.concatenate([np.ravel(values[name]) for name in wanted]) if wanted else np.zeros(0)


def _demand(wanted: Iterable[str], instead: Values | None) -> str:
    some = "with" if instead is None else "with some of"
    return f"it must return a mapping {some}: {', '.join(wanted) or 'nothing'}"
