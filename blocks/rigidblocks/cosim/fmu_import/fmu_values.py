"""Port values of an FMU as doubles, and FMI calls that set and get these values."""

import ctypes
from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.block.port import EXACT, REAL, TEXTUAL, number, refusal, text
from rigidblocks.cosim.fmu_import.fmu_interface import DISCARD, Interface
from rigidblocks.cosim.graph.fmu_part import FmuError
from rigidblocks.cosim.graph.part import places
from rigidblocks.cosim.masters.c_loop_tables import DOES_NOT_FIT, NEW_TEXTS, Texts, Variables
from rigidblocks.spatial.spatial import Array

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
_BY_VERSION: dict[int, dict[str, type]] = {
    1: {"Enumeration": np.int32, "Boolean": np.int8},
    2: {"Enumeration": np.int32, "Boolean": np.int32},
}
# codes of the FMI types, as in c/master/loop_tables.h
_C_TYPES = (
    *("float64", "float32", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64", "bool", "integer boolean", "char boolean"),
    *("String", "Binary"),
)


class PortValues:
    """Port values of an FMU, in the array `flat` of doubles with a fixed address.

    Each group in `groups` contains ports of equal type, which one FMI call sets or gets.
    `variable_groups` contains all groups except the groups of clocks.
    """

    def __init__(self, fmi: Interface, ports: tuple[Port, ...]):
        self.flat, self.where = np.zeros(sum(port.size for port in ports)), places(ports)
        self._fmi, self._ports = fmi, ports
        self.restart()
        self.groups = self._group_ports(ports)
        self.variable_groups = [group for group in self.groups if group.type != "Clock"]
        self._groups_by_names: dict[frozenset[str], list[Group]] = {}

    def restart(self) -> None:
        """Set `flat` to the start values that the part defines for the ports."""
        for port in self._ports:
            default = 0.0 if port.start is None else port.start
            if port.start is None and port.type in TEXTUAL:
                default = number("" if port.type == "String" else b"")
            start = self._fmi.part.start.get(port.name, default)
            self.flat[self.where[port.name]] = np.ravel(start)

    def _group_ports(self, ports: Iterable[Port]) -> list["Group"]:
        """Return groups of ports with the same type and variability."""
        kinds: dict[tuple[str, bool], list[Port]] = {}
        for port in ports:
            kinds.setdefault((port.type, self._fmi.fmu.is_discrete(port.name)), []).append(port)
        return [Group(self._fmi, self, some) for some in kinds.values()]

    def _groups_of(self, names: frozenset[str]) -> list["Group"]:
        """Group the ports `names` by type and variability; return the groups without clocks."""
        if names not in self._groups_by_names:
            groups = self._group_ports(port for port in self._ports if port.name in names)
            self._groups_by_names[names] = [group for group in groups if group.type != "Clock"]
        return self._groups_by_names[names]

    def set(self) -> None:
        """Send the values of all ports except clocks to the FMU."""
        for group in self.variable_groups:
            group.set()

    def get(self, names: Collection[str] | None = None) -> None:
        """Get the values of ports from the FMU; None selects all ports except clocks."""
        for group in self.variable_groups if names is None else self._groups_of(frozenset(names)):
            group.get()


class Group:
    """Group of port values with the same type, which a single FMI call sets or gets.

    The FMI call reads or writes a buffer of the FMI type. `PortValues.flat` contains the same
    values as doubles.
    """

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
        names = [name for port in ports for name in fmi.fmu.variable_names(port.name)]
        negated = np.array([name in fmi.fmu.negated for name in names])
        self._negated, self._marks = np.flatnonzero(negated), negated.astype(np.int64)
        self.is_direct = bool(in_a_row) and self.type in ("Real", "Float64")
        self.is_direct = self.is_direct and not len(self._negated)
        self._buffer = self._make_buffer()
        self._moves = {name: fmi.find_function(name + self._function) for name in ("Get", "Set")}
        self._arguments = self._make_arguments()

    def variables(self, access: str) -> Variables:
        """Return the data with which the C loop sets or gets the values of the group.

        `access` is "Set" or "Get".
        """
        address = ctypes.cast(self._moves[access][1], ctypes.c_void_p).value or 0
        buffer = None if self.is_direct else self._buffer
        return Variables(
            address,
            self._numbers,
            self._flat,
            self.places,
            self._c_type,
            buffer,
            self._texts,
            self._marks if len(self._negated) else None,
        )

    @property
    def _c_type(self) -> int:
        """Integer that represents the variable type in `c/master/loop_tables.h`."""
        if self.type == "Boolean" and self._fmi.fmu.version < 3:
            return _C_TYPES.index(("char boolean", "integer boolean")[self._fmi.fmu.version - 1])
        if self.type in TEXTUAL:
            return _C_TYPES.index(self.type)
        return _C_TYPES.index(np.dtype(self._buffer.dtype).name)

    def check_status(self, access: str, status: int) -> None:
        """Check the result of a C call that has set or got the values of this group.

        The C call does not convert new strings and binary values. This method converts them between
        FMI values and the hashes in `PortValues.flat`. A status "warning" is logged.

        Args:
            access: "Set" or "Get".
            status: Status that the C call has returned.

        Raises:
            FmuError: The call has failed, or a value does not fit its type.
        """
        if status == NEW_TEXTS:
            self._pack() if access == "Set" else self._set_flat()
            return
        if status == DOES_NOT_FIT:
            self._pack() if access == "Set" else self._unpack()  # raises FmuError for the variable
            raise self._fmi.fmu_error(f"a value does not fit the type {self.type}")
        self._fmi.check_status(self._moves[access][0], status)

    @property
    def values(self) -> Array:
        """Current values of the group."""
        values: Array = self._flat[self.where]
        return values

    @values.setter
    def values(self, values: Array) -> None:
        self._flat[self.where] = values

    @property
    def _function(self) -> str:
        if self.type == "Enumeration":
            return "Integer" if self._fmi.fmu.version < 3 else "Int64"
        return self.type

    def _make_buffer(self) -> Any:
        self._texts = None
        if self.type in TEXTUAL:
            empty = "" if self.type == "String" else b""
            arrays = (np.zeros(self.n, dtype=np.uintp) for _ in range(3))
            self._texts = Texts(np.full(self.n, number(empty)), *arrays)
            self._store_texts(self._texts, [b""] * self.n)
            return np.zeros(self.n, dtype=np.uintp)
        if self.is_direct:
            return self._flat[self.where]
        kind = _BY_VERSION.get(self._fmi.fmu.version, {}).get(self.type, _NUMPY[self.type])
        return np.zeros(self.n, dtype=kind)

    def _make_arguments(self) -> tuple[Any, ...]:
        count = (self.n,) if self._fmi.fmu.version == 3 and self.type != "Clock" else ()
        if self._texts is not None:
            kind = ctypes.c_char_p if self.type == "String" else _BYTES
            values = self._buffer.ctypes.data_as(ctypes.POINTER(kind))
            sizes = self._texts.sizes.ctypes.data_as(ctypes.POINTER(ctypes.c_size_t))
            return (
                len(self._numbers),
                *((sizes,) if self.type == "Binary" else ()),
                values,
                *count,
            )
        pointer = ctypes.POINTER(np.ctypeslib.as_ctypes_type(self._buffer.dtype))
        return (len(self._numbers), self._buffer.ctypes.data_as(pointer), *count)

    def _move(self, access: str) -> None:
        name, function, component = self._moves[access]
        if self.n and (status := function(component, self._references, *self._arguments)):
            self._fmi.check_status(name, status)

    def set(self) -> None:
        """Send the values to the FMU; raise FmuError for values outside the range of the type."""
        if not self.is_direct:
            self._pack()
        self._move("Set")

    def set_derivatives(self, order: int, values: Array) -> None:
        """Set the input derivatives of the given order in an FMI 1.0 or 2.0 FMU."""
        name, function, component = self._fmi.find_function("SetRealInputDerivatives")
        orders = (ctypes.c_int * self.n)(*[order] * self.n)
        numbers = (ctypes.c_double * self.n)(*self._negate(values))
        if status := function(component, self._references, self.n, orders, numbers):
            self._fmi.check_status(name, status)

    def directional(self, unknown: "Group", seed: Array) -> Array:
        """Return the directional derivative of the values of `unknown` with respect to this group.

        `seed` (n,) is the direction, for the n values of this group. The result has one number for
        each value of `unknown`. It is NaN if the FMU does not provide the derivative, or if a group
        contains values that are not doubles.
        """
        none = np.full(unknown.n, np.nan)
        if {self.type, unknown.type} - {"Real", "Float64"}:
            return none
        name, function, component = self._fmi.find_function("GetDirectionalDerivative")
        given = (ctypes.c_double * self.n)(*seed)
        derivatives = (ctypes.c_double * unknown.n)()
        counts = ((self.n,), (unknown.n,)) if self._fmi.fmu.version == 3 else ((), ())
        references = (*unknown.references, *self.references)
        status = function(component, *references, given, *counts[0], derivatives, *counts[1])
        if status == DISCARD:
            return none
        if status:
            self._fmi.check_status(name, status)
        return np.array(derivatives)

    @property
    def references(self) -> tuple[Any, int]:
        """Array of the value references, and its length."""
        return self._references, len(self._numbers)

    def get(self) -> None:
        """Get the values from the FMU; raise FmuError for an integer that a double cannot store."""
        self._move("Get")
        if not self.is_direct:
            self._set_flat()

    def _set_flat(self) -> None:
        """Store the values of the buffer as doubles in `PortValues.flat`."""
        self._flat[self.where] = self._unpack()

    def _pack(self) -> None:
        values = self._flat[self.where]
        if (texts := self._texts) is not None:
            if not np.array_equal(values, texts.numbers):
                found = [text(value, self.type) for value in values]
                self._store_texts(
                    texts, [one.encode() if isinstance(one, str) else one for one in found]
                )
                texts.numbers[:] = values
            self._buffer[:], texts.sizes[:] = texts.known, texts.known_sizes
            return
        if self.type not in REAL or self.type == "Float32":
            self._check(values)
        self._buffer[...] = self._negate(values)

    def _negate(self, values: Array) -> Array:
        """Return the values, with negated values for negated aliases (FMI 1.0).

        The negation of a Boolean value b is 1 - b.
        """
        if len(self._negated):
            values, k = values.astype(float), self._negated
            values[k] = 1.0 - values[k] if self.type == "Boolean" else -values[k]
        return values

    def _check(self, values: Array) -> None:
        """Raise FmuError for values that the FMI type cannot represent."""
        if refusal(self.type, values):
            for port, some in self._elements(values):
                if wrong := refusal(self.type, some):
                    raise self._fmi.fmu_error(f"its {port.name} {wrong}")

    def _elements(self, values: Array) -> Iterable[tuple[Port, Array]]:
        """Yield each port of the group, and the part of `values` that belongs to the port."""
        for port, where in zip(self._ports, places(self._ports).values(), strict=True):
            yield port, values[where]

    def _unpack(self) -> Any:
        if self._texts is not None:
            return self._unpack_texts(self._texts)
        if self.type in ("Int64", "UInt64", "Enumeration"):
            for port, values in self._elements(self._buffer):
                for one in values.tolist():
                    if abs(one) > EXACT:
                        raise self._fmi.fmu_error(
                            f"its {port.name} is {one}; double precision represents integers "
                            "exactly only up to 2^53"
                        )
        return self._negate(self._buffer != 0 if self.type == "Boolean" else self._buffer)

    def _unpack_texts(self, texts: Texts) -> Array:
        """Return the numbers (hashes) that represent the strings or binary values in the buffer."""
        is_string, addresses = self.type == "String", self._buffer.tolist()
        sizes = [-1] * self.n if is_string else texts.sizes.tolist()
        pairs = zip(addresses, sizes, strict=True)
        data = [ctypes.string_at(address, size) if address else b"" for address, size in pairs]
        if data != self._kept:
            self._store_texts(texts, data)
            texts.numbers[:] = [
                number(one.decode(errors="replace") if is_string else one) for one in data
            ]
        return texts.numbers

    def _store_texts(self, texts: Texts, data: list[bytes]) -> None:
        """Store the addresses and sizes of `data` in `texts`.

        The group holds a reference to `data`, so the addresses remain valid.
        """
        self._kept = data
        texts.known[:] = [ctypes.cast(ctypes.c_char_p(one), ctypes.c_void_p).value for one in data]
        texts.known_sizes[:] = [len(one) for one in data]


_BYTES = ctypes.POINTER(ctypes.c_uint8)


def set_start(fmi: Interface, ports: Iterable[Port]) -> None:
    """Set ports of an FMU to the start values that the part defines for them."""
    for port in ports:
        if port.name in fmi.part.start:
            try:
                PortValues(fmi, (port,)).set()
            except FmuError as error:
                raise FmuError(f"{error} (the start value of {port.name})") from error


def configure(fmi: Interface) -> None:
    """Set the structural parameters of an FMI 3.0 instance in configuration mode.

    The values of the structural parameters determine the shapes of the ports. If all values equal
    the declared values, the instance does not enter configuration mode.
    """
    if {port.name for port in fmi.fmu.structural} & dict(fmi.fmu.configuration).keys():
        fmi.call("EnterConfigurationMode")
        set_start(fmi, fmi.fmu.structural)
        fmi.call("ExitConfigurationMode")
