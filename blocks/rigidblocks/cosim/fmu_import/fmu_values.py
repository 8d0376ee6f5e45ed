"""The values of an FMU's ports, side by side as doubles, and their way to and from the FMU."""

import ctypes
from collections.abc import Iterable
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.block.signal_types import EXACT, REAL, TEXTUAL, number, refusal, text
from rigidblocks.simulation.fmu_interface import DISCARD, Interface
from rigidblocks.simulation.table import Variables
from rigidblocks.system.fmu import FmuError

_NUMPY = {
    "Real": np.float64,
    "Integer": np.int32,
    "Enumeration": np.int64,
    "Boolean": np.bool_,
    "Clock": np.bool_,
    "Float64": np.float64,
    "Float32": np.float32,
    **{name: np.dtype(name.lower()) for name in ("Int8", "Int16", "Int32", "Int64")},
    **{name: np.dtype(name.lower()) for name in ("UInt8", "UInt16", "UInt32", "UInt64")},
}
_OF_FMI_2 = {"Enumeration": np.int32, "Boolean": np.int32}


def places(ports: Iterable[Port]) -> dict[str, slice]:
    """Where the elements of each port are among those of all, by name."""
    ports = tuple(ports)
    ends = np.cumsum([0, *(port.size for port in ports)]).tolist()
    return {port.name: slice(a, a + port.size) for port, a in zip(ports, ends, strict=False)}


class PortValues:
    """The values of ports: `flat` has those of all, which stay where they are."""

    def __init__(self, fmi: Interface, ports: tuple[Port, ...]):
        self.flat, self.where = np.zeros(sum(port.size for port in ports)), places(ports)
        for port in ports:
            default = 0.0 if port.start is None else port.start
            if port.start is None and port.type in TEXTUAL:
                default = number("" if port.type == "String" else b"")
            start = fmi.part.start.get(port.name, default)
            self.flat[self.where[port.name]] = np.ravel(start)
        kinds = dict.fromkeys((p.type, fmi.fmu.is_discrete(p.name)) for p in ports)
        self.groups = [
            Group(fmi, self, [p for p in ports if (p.type, fmi.fmu.is_discrete(p.name)) == kind])
            for kind in kinds
        ]
        self._all = [group for group in self.groups if group.type != "Clock"]

    def variables(self, which: str) -> Variables | None:
        """How the loop in C sets or gets them, `which` is "Set" or "Get"; None where it cannot."""
        if not self.groups:
            return Variables(0, np.zeros(0, dtype=np.uint32), self.flat)
        if len(self.groups) > 1 or not self.groups[0].is_direct:
            return None
        return self.groups[0].variables(which)

    def set(self) -> None:
        """Brings all values to the FMU."""
        for group in self._all:
            group.set()

    def get(self) -> None:
        """Brings all values from the FMU."""
        for group in self._all:
            group.get()


class Group:
    """The values of one type among those of ports, which go to and from the FMU in one call."""

    def __init__(self, fmi: Interface, values: PortValues, ports: list[Port]):
        self.type, self.is_discrete = ports[0].type, fmi.fmu.is_discrete(ports[0].name)
        self._fmi, self._ports = fmi, ports
        taken = [values.where[port.name] for port in ports]
        where = np.concatenate([np.arange(one.start, one.stop) for one in taken])
        self.n, self._flat = len(where), values.flat
        references = [r for port in ports for r in fmi.fmu.references(port.name)]
        self._numbers = np.array(references, dtype=np.uint32)
        self._references = self._numbers.ctypes.data_as(ctypes.POINTER(ctypes.c_uint))
        in_a_row = self.n and where[-1] - where[0] == self.n - 1
        self.places: Array = where
        self.where: Any = slice(where[0], where[-1] + 1) if in_a_row else where
        self.is_direct = bool(in_a_row) and self.type in ("Real", "Float64")
        self._buffer = self._make_buffer()
        self._moves = {name: fmi.bound(name + self._function) for name in ("Get", "Set")}
        self._arguments = self._make_arguments()

    def variables(self, which: str) -> Variables:
        """How the loop in C sets or gets them."""
        address = ctypes.cast(self._moves[which][1], ctypes.c_void_p).value or 0
        return Variables(address, self._numbers, self._flat[self.where])

    @property
    def values(self) -> Array:
        """The values as they are now."""
        values: Array = self._flat[self.where]
        return values

    @values.setter
    def values(self, values: Array) -> None:
        self._flat[self.where] = values

    @property
    def _function(self) -> str:
        if self.type == "Enumeration":
            return "Integer" if self._fmi.prefix == "fmi2" else "Int64"
        return self.type

    def _make_buffer(self) -> Any:
        if self.type in TEXTUAL:
            return ((ctypes.c_char_p if self.type == "String" else _BYTES) * self.n)()
        if self.is_direct:
            return self._flat[self.where]
        kind = _OF_FMI_2.get(self.type) if self._fmi.prefix == "fmi2" else None
        return np.zeros(self.n, dtype=kind or _NUMPY[self.type])

    def _make_arguments(self) -> tuple[Any, ...]:
        count = (self.n,) if self._fmi.prefix == "fmi3" and self.type != "Clock" else ()
        if self.type == "Binary":
            self._sizes = (ctypes.c_size_t * self.n)()
            return (len(self._numbers), self._sizes, self._buffer, *count)
        if self.type in TEXTUAL:
            return (len(self._numbers), self._buffer, *count)
        pointer = ctypes.POINTER(np.ctypeslib.as_ctypes_type(self._buffer.dtype))
        return (len(self._numbers), self._buffer.ctypes.data_as(pointer), *count)

    def _move(self, which: str) -> None:
        name, function, component = self._moves[which]
        if self.n and (status := function(component, self._references, *self._arguments)):
            self._fmi.judge(name, status)

    def set(self) -> None:
        """Brings the values to the FMU; raises FmuError for one that its type cannot hold."""
        if not self.is_direct:
            self._pack()
        self._move("Set")

    def set_derivatives(self, order: int, values: Array) -> None:
        """Tells the FMU, of FMI 2.0, the derivatives of an order of these inputs."""
        name, function, component = self._fmi.bound("SetRealInputDerivatives")
        orders = (ctypes.c_int * self.n)(*[order] * self.n)
        numbers = (ctypes.c_double * self.n)(*values)
        if status := function(component, self._references, self.n, orders, numbers):
            self._fmi.judge(name, status)

    def directional(self, unknown: "Group", seed: Array) -> Array:
        """The change of other values with a change `seed` of these, at this moment; NaN where
        either are no reals of double length, and where the FMU cannot say.
        """
        none = np.full(unknown.n, np.nan)
        if {self.type, unknown.type} - {"Real", "Float64"}:
            return none
        name, function, component = self._fmi.bound("GetDirectionalDerivative")
        given = (ctypes.c_double * self.n)(*seed)
        told = (ctypes.c_double * unknown.n)()
        counts = ((self.n,), (unknown.n,)) if self._fmi.prefix == "fmi3" else ((), ())
        which = (*unknown.references, *self.references)
        status = function(component, *which, given, *counts[0], told, *counts[1])
        if status == DISCARD:
            return none
        if status:
            self._fmi.judge(name, status)
        return np.array(told)

    @property
    def references(self) -> tuple[Any, int]:
        """The value references, and how many there are."""
        return self._references, len(self._numbers)

    def get(self) -> None:
        """Brings the values from the FMU; raises FmuError for one that no double is equal to."""
        self._move("Get")
        if not self.is_direct:
            self._flat[self.where] = self._unpacked()

    def _pack(self) -> None:
        values = self._flat[self.where]
        if self.type in TEXTUAL:
            texts = [text(value, self.type) for value in values]
            self._kept = [one.encode() if isinstance(one, str) else one for one in texts]
            for k, one in enumerate(self._kept):
                if self.type == "String":
                    self._buffer[k] = one
                else:
                    self._sizes[k] = len(one)
                    self._buffer[k] = ctypes.cast(ctypes.c_char_p(one), _BYTES)
            return
        if self.type not in REAL or self.type == "Float32":
            self._check(values)
        self._buffer[...] = values

    def _check(self, values: Array) -> None:
        """Raises FmuError for values that the type cannot hold."""
        if refusal(self.type, values):
            for port, some in self._elements(values):
                if wrong := refusal(self.type, some):
                    raise self._fmi.refuse(f"its {port.name} {wrong}")

    def _elements(self, values: Array) -> Iterable[tuple[Port, Array]]:
        """The ports with their values among those of the group."""
        for port, where in zip(self._ports, places(self._ports).values(), strict=True):
            yield port, values[where]

    def _unpacked(self) -> Any:
        if self.type == "String":
            return [number((one or b"").decode(errors="replace")) for one in self._buffer]
        if self.type == "Binary":
            pairs = zip(self._buffer, self._sizes, strict=True)
            return [number(ctypes.string_at(p, n) if n and p else b"") for p, n in pairs]
        if self.type in ("Int64", "UInt64", "Enumeration"):
            for port, values in self._elements(self._buffer):
                for one in values.tolist():
                    if abs(one) > EXACT:
                        raise self._fmi.refuse(
                            f"its {port.name} is {one}, beyond 2^53, up to where doubles carry "
                            "whole numbers exactly"
                        )
        return self._buffer != 0 if self.type == "Boolean" else self._buffer


_BYTES = ctypes.POINTER(ctypes.c_uint8)


def set_start(fmi: Interface, ports: Iterable[Port]) -> None:
    """Sets the start values that the part was given of these ports."""
    for port in ports:
        if port.name in fmi.part.start:
            try:
                PortValues(fmi, (port,)).set()
            except FmuError as error:
                raise FmuError(f"{error} (the start value of {port.name})") from error
