"""Ports of blocks, conversion of their values to records and flat arrays, and their FMI types.

Ports store doubles. Integers up to 2^53 are stored unchanged, and booleans as 0 and 1. For a string
or binary value, a port stores a hash of the value. A table in each process maps hashes to values.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, lru_cache
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np

from rigidblocks.block.units import Quantity, base_units, quantity_of
from rigidblocks.common.name_hints import suggestion
from rigidblocks.spatial.spatial import Array

Values = Mapping[str, Any]


class Record:
    """Read-only record that provides named values as attributes.

    Args:
        values: Values by name.
        kind: Type of the values for error messages, such as "state".
        owner: Owner of the values for error messages, such as "block 'Lag'".

    Raises:
        AttributeError: The name is unknown, or the caller sets a value.
    """

    __slots__ = ("__dict__", "_kind", "_owner")
    _kind: str
    _owner: str

    def __init__(self, values: Values, kind: str = "value", owner: str = "record"):
        object.__setattr__(self, "_kind", kind)
        object.__setattr__(self, "_owner", owner)
        vars(self).update(values)

    def __getattr__(self, name: str) -> Any:  # called for unknown names
        if name.startswith("__"):  # Python protocols such as copy
            raise AttributeError(name)
        raise AttributeError(
            f"{self._owner}: no {self._kind} '{name}'; {suggestion(name, vars(self))}"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            f"{self._owner}: the {self._kind} '{name}' cannot be set to {value!r} here; return "
            "the new values by name instead"
        )

    def __repr__(self) -> str:
        return f"Record({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


TRUTH_TYPES = ("Boolean", "Clock")  # FMI types that accept booleans
SMALLEST = float(np.finfo(float).tiny)  # smallest positive value


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class Port:
    """Named signal of a block with its shape, units, bounds and description.

    Args:
        name: Name.
        shape: Shape of the value.
        unit: One unit for all elements, or a tuple with one unit for each element (C order).
        doc: Description.
        start: Start value, which applies until a value is computed or connected. An input without a
            start value must be connected. A state always has a start value.
        rate: Name of the state that is the time derivative of this state, such as qd for q.
        min: Lower bound of the values, a number or an array of the port's shape; None: unbounded.
        max: Upper bound of the values, a number or an array of the port's shape; None: unbounded.
        nominal: Order of magnitude of the values; None: 1.
        positive: True if all values must be positive.
        type: FMI type of the variable for ports of FMUs. The port stores the values as doubles.
        meanings: Physical quantities of additional units by unit name, for example of units in
            FMUs. None marks an unknown unit; values with unknown units are not converted.
        infinite: True if values may be infinite, for example limit values in FMUs.

    Raises:
        ValueError: The units, the bounds or the start value are invalid.
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
    infinite: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.unit, tuple) and len(self.unit) != self.size:
            raise ValueError(
                f"port '{self.name}' of shape {self.shape} has {len(self.unit)} units; it needs "
                f"one unit or {self.size} units"
            )
        for unit in dict.fromkeys(self.units):
            if unit not in self.meanings:
                base_units(unit)  # raises an error for an unknown unit
        explicit = False
        for name, default in (("min", -np.inf), ("max", np.inf), ("nominal", 1.0)):
            given = getattr(self, name)
            explicit = explicit or given is not None
            array = (
                _uniform(default, self.shape)
                if given is None
                else _array_of_shape(given, self.shape, f"the {name} of port '{self.name}'")
            )
            object.__setattr__(self, name, array)
        if explicit and (
            not np.all(self.min <= self.max)
            or not np.all((self.nominal > 0) & np.isfinite(self.nominal))
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
                self.numbers(self.start, self.shape, f"the start value of port '{self.name}'"),
            )
            self._check_start()

    def rename(self, name: str) -> "Port":
        """Return a copy of the port with another name; the fields are not validated again."""
        port = object.__new__(Port)
        for one in fields(self):
            object.__setattr__(port, one.name, getattr(self, one.name))
        object.__setattr__(port, "name", name)
        return port

    def numbers(self, value: Any, shape: tuple[int, ...], label: str) -> Array:
        """Validate a value of the port, and return it as a float array of shape `shape`.

        Raises:
            ValueError: The shape differs, an element is NaN, or an element is infinite and the port
                is not `infinite`. The message contains `label`, the name of the value.
        """
        truth = self.type in TRUTH_TYPES
        if self.infinite:
            array = _array_of_shape(value, shape, label, truth)
            if not np.any(np.isnan(array)):
                return array
        return finite(value, shape, label, allow_booleans=truth)

    def encode(self, value: Any, shape: tuple[int, ...], label: str) -> Array:
        """Convert a value of the port to doubles of shape `shape`, as the port stores them.

        Raises the exceptions of `encode_value` and `numbers`. The messages contain `label`, the
        name of the value.
        """
        if self.type != "Real":
            value = encode_value(value, self.type, shape, label)
        return self.numbers(value, shape, label)

    def _check_start(self) -> None:
        ports = zip(
            self.element_names,
            self.units,
            *map(np.ravel, (self.start, self.lowest, self.max)),
            strict=True,
        )
        for name, unit, start, low, high in ports:
            if not low <= start <= high:
                given = f"{start:g} {unit}".removesuffix(" 1").rstrip()  # without the unit "1"
                bound = bound_text(start, low, high)
                raise ValueError(f"the start value of {name} is {given}; it must be {bound}")

    @property
    def lowest(self) -> Array:
        """Lower bound of each element.

        For a port with positive values, the bound is at least the smallest positive double.
        """
        lowest: Array = np.maximum(self.min, SMALLEST if self.positive else -np.inf)
        return lowest

    def clip(self, value: float) -> Array:
        """Return `value` as an array of the port's shape, limited to the bounds of each element."""
        nearest: Array = np.minimum(np.maximum(value, self.min), self.max)
        return nearest

    @cached_property
    def is_bounded(self) -> bool:
        """True if an element of the port has a finite lower or upper bound."""
        return bool(np.isfinite(self.lowest).any() or np.isfinite(self.max).any())

    @cached_property
    def size(self) -> int:
        """Number of elements of the port."""
        return prod(self.shape)

    @property
    def units(self) -> tuple[str, ...]:
        """Unit of each element of the port."""
        return self.unit if isinstance(self.unit, tuple) else (self.unit,) * self.size

    @property
    def quantities(self) -> tuple[Quantity | None, ...]:
        """Physical quantity of the unit of each element, or None for an unknown unit."""
        return tuple(
            self.meanings.get(u) if u in self.meanings else quantity_of(u) for u in self.units
        )

    @cached_property
    def element_names(self) -> tuple[str, ...]:
        """Name of each element of the port, such as `q[1]` or `f[1,1]`.

        Indices begin at 1, as in FMI. The element of a scalar port has the name of the port.
        """
        if not self.shape:
            return (self.name,)
        return tuple(
            f"{self.name}[{','.join(str(k + 1) for k in index)}]"
            for index in np.ndindex(*self.shape)
        )


def bound_text(value: float, low: float, high: float) -> str:
    """Return the text of the bound that a value violates, such as "at least 0"."""
    if value < low:
        return "positive" if low == SMALLEST else f"at least {low:g}"
    return f"at most {high:g}"


def finite(
    value: Any, shape: tuple[int, ...], label: str, *, allow_booleans: bool = False
) -> Array:
    """Check that a value is finite, and return it as a read-only float array of shape `shape`.

    A scalar fills the array. Error messages contain `label`, the name of the value.

    Raises:
        ValueError: The shape differs, or a value is infinite, NaN, masked or a string.
        TypeError: A value is complex or, unless `allow_booleans` is set, a boolean.
    """
    array = _array_of_shape(value, shape, label, allow_booleans)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{label} must be finite, not {array.tolist()}")
    return array


def numbers_of(value: Any, label: str, *, allow_booleans: bool = False) -> Array:
    """Check that a value contains only real numbers, and return it as a float array.

    Error messages contain `label`, the name of the value.

    Raises:
        TypeError: A value is a date, complex or, unless `allow_booleans` is set, a boolean.
        ValueError: A value is a string or masked, or nested lists have different lengths.
    """
    _check_numbers(value, label, allow_booleans)
    return np.array(value, dtype=float)


def _check_numbers(value: Any, label: str, allow_booleans: bool) -> None:
    if np.ma.is_masked(value):
        raise ValueError(f"{label} has masked elements; replace them, e.g. by value.filled(0.0)")
    if kind := _wrong_kind(value, allow_booleans):
        error = ValueError if kind == "strings" else TypeError
        raise error(f"{label} takes real numbers, not {kind}: {value!r:.60}")


_WRONG_KINDS = {
    "U": "strings", "S": "strings", "c": "complex numbers", "M": "dates", "m": "durations",
    "b": "booleans",
}  # fmt: skip


def _wrong_kind(value: Any, allow_booleans: bool) -> str | None:
    """Return the kind of a value that is not a real number, such as "strings", else None.

    In an array or a list, the function checks the elements.
    """
    if isinstance(value, list | tuple):
        kinds = (_wrong_kind(one, allow_booleans) for one in value)
        return next((kind for kind in kinds if kind), None)
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return _wrong_kind(value.ravel().tolist(), allow_booleans)
    if isinstance(value, np.ndarray | np.generic):
        code = value.dtype.kind
    else:
        types = ((bool, "b"), (str | bytes, "U"), (complex, "c"))
        code = next((code for known, code in types if isinstance(value, known)), "f")
    return None if code == "b" and allow_booleans else _WRONG_KINDS.get(code)


@lru_cache(1024)
def _uniform(value: float, shape: tuple[int, ...]) -> Array:
    """Return a cached read-only array of equal elements, which ports with default bounds share."""
    array = np.full(shape, value)
    array.setflags(write=False)
    return array


def _array_of_shape(
    value: Any, shape: tuple[int, ...], label: str, allow_booleans: bool = False
) -> Array:
    _check_numbers(value, label, allow_booleans)
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        if type(error) not in (TypeError, ValueError):
            raise  # errors of the tracer are raised unchanged
        raise type(error)(f"{label} takes numbers of shape {shape}, not {value!r:.60}") from None
    if array.shape != shape and array.ndim:
        raise ValueError(f"{label} has shape {array.shape}; it needs shape {shape}")
    array = np.broadcast_to(array, shape).copy()
    array.setflags(write=False)
    return array


def record(
    ports: Iterable[Port], flat: Array, kind: str = "value", owner: str = "record"
) -> Record:
    """Return a record of port values from a flat array.

    Args:
        ports: Ports in the order of the array.
        flat: Values of all ports (n,).
        kind: Type of the values for error messages.
        owner: Owner of the values for error messages.

    Returns:
        Record with one attribute per port, a read-only array of the port's shape.
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
    """Return the values of ports as one flat array in the order of the ports.

    Args:
        ports: Ports.
        values: Values by port name.
        where: Name of the function that returned `values`, for error messages.
        instead: Default values for ports that are missing in `values`; None: all ports are
            required.

    Raises:
        TypeError: `values` is not a mapping.
        ValueError: A value is missing or has the wrong shape, or a name is not a port.
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
        parts = (("did not return", missing), ("returned the unknown", extra))
        wrong = " and ".join(f"{label} {', '.join(names)}" for label, names in parts if names)
        raise ValueError(f"{where} {wrong}; {_demand(wanted, instead)}")
    for port in ports:
        if np.shape(values[port.name]) != port.shape:
            raise ValueError(
                f"{where} returned '{port.name}' of shape {np.shape(values[port.name])}; it needs "
                f"shape {port.shape}"
            )
    return np.concatenate([np.ravel(values[name]) for name in wanted]) if wanted else np.zeros(0)


def _demand(wanted: Iterable[str], instead: Values | None) -> str:
    some = "with" if instead is None else "with any of"
    return f"it must return a mapping {some}: {', '.join(wanted) or 'nothing'}"


EXACT = 1 << 53  # doubles represent all integers up to this value exactly
REAL = ("Real", "Float64", "Float32")
TEXTUAL = ("String", "Binary")
WHOLE = {
    "Integer": (-(1 << 31), (1 << 31) - 1),
    "Enumeration": (-EXACT, EXACT),
    "Boolean": (0, 1),
    "Clock": (0, 1),
    **{f"Int{n}": (max(-EXACT, -(1 << n - 1)), min(EXACT, (1 << n - 1) - 1)) for n in (8, 16, 32)},
    **{f"UInt{n}": (0, min(EXACT, (1 << n) - 1)) for n in (8, 16, 32)},
    "Int64": (-EXACT, EXACT),
    "UInt64": (0, EXACT),
}
_FLOAT32 = float(np.finfo(np.float32).max)

_texts: dict[int, str | bytes] = {}  # string and binary values by hash


def number(text: str | bytes) -> float:
    """Return the hash that represents a string or binary value in ports.

    The hash of a value is the same in all processes, except after a hash collision. A colliding
    value receives the next free number, which depends on the order of the calls.
    """
    kind, data = (b"s", text.encode()) if isinstance(text, str) else (b"b", text)
    k = int.from_bytes(blake2b(kind + data, digest_size=8).digest(), "big") >> 12
    while _texts.setdefault(k, text) != text:
        k += 1
    return float(k)


def text(value: float, of_type: str) -> str | bytes:
    """Return the string or binary value with the hash `value`.

    The result is empty if the hash is unknown, or if the value does not have the type `of_type`.
    """
    kind = str if of_type == "String" else bytes
    found = _texts.get(int(value), kind())
    return found if isinstance(found, kind) else kind()


def texts_in(values: Array, ports: Iterable[Port]) -> list[str | bytes]:
    """Return the string and binary values that an array of stored port values represents.

    `values` has the shape (n,) or (rows, n), with the elements of the ports in order.
    """
    found, start = list[str | bytes](), 0
    for port in ports:
        if port.type in TEXTUAL:
            places = values[..., start : start + port.size]
            found += [text(one, port.type) for one in np.unique(places)]
        start += port.size
    return found


def register_strings(texts: Iterable[str | bytes]) -> None:
    """Register string and binary values, so that this process can decode their hashes."""
    for one in texts:
        number(one)


def table_of(texts: Iterable[str | bytes]) -> list[Any]:
    """Return string and binary values as a list for JSON.

    A string remains a string. A binary value becomes a list with one string, which contains the
    hexadecimal digits.
    """
    return [one if isinstance(one, str) else [one.hex()] for one in dict.fromkeys(texts)]


def register_table(table: Iterable[Any]) -> None:
    """Register the string and binary values in a list from `table_of`."""
    register_strings(one if isinstance(one, str) else bytes.fromhex(one[0]) for one in table)


def encode_value(value: Any, of_type: str, shape: tuple[int, ...], label: str) -> Array:
    """Convert a value of an FMI type to the doubles that a port stores.

    Args:
        value: Value or array; a single value fills the shape.
        of_type: FMI type.
        shape: Shape of the port.
        label: Name of the value for error messages.

    Raises:
        TypeError: The value has the wrong type.
        ValueError: The FMI type cannot represent the value, or the shape differs.
    """
    if of_type in TEXTUAL:
        return np.reshape(
            [number(one) for one in _flatten_texts(value, of_type, shape, label)], shape
        )
    array = np.array(value)
    if array.dtype.kind not in "biuf" and array.dtype != object:
        raise TypeError(f"{label} is of type {of_type} and cannot be {value!r}")
    if array.dtype == object or array.dtype.kind in "iu":  # integers may be too large
        for one in np.ravel(array).tolist():
            if isinstance(one, int) and abs(one) > EXACT:
                raise ValueError(
                    f"{label}: {one} exceeds 2^53, up to which double precision represents all "
                    "integers exactly"
                )
    array = array.astype(float)
    if wrong := refusal(of_type, np.ravel(array)):
        raise ValueError(f"{label} {wrong}")
    if array.shape != shape and array.ndim:
        raise ValueError(f"{label} has shape {array.shape}; it needs shape {shape}")
    return np.broadcast_to(array, shape)


def _flatten_texts(value: Any, of_type: str, shape: tuple[int, ...], label: str) -> Sequence[Any]:
    kind = str if of_type == "String" else bytes
    flat = [value] * prod(shape) if isinstance(value, str | bytes) else _flatten_nested(value)
    if wrong := [one for one in flat if not isinstance(one, kind)]:
        raise TypeError(
            f"{label} is of type {of_type} and needs values of type {kind.__name__}, not "
            f"{wrong[0]!r}"
        )
    if any(kind is str and "\0" in one for one in flat):
        raise ValueError(f"{label} contains a NUL character, which FMI strings do not support")
    if len(flat) != prod(shape):
        raise ValueError(f"{label} has {len(flat)} strings; it needs shape {shape}")
    return flat


def _flatten_nested(value: Any) -> list[Any]:
    if isinstance(value, list | tuple | np.ndarray):
        return [one for part in value for one in _flatten_nested(part)]
    return [value]


def refusal(of_type: str, values: Array) -> str | None:
    """Return an error message if the FMI type `of_type` cannot represent the values, else None."""
    if of_type in WHOLE:
        low, high = WHOLE[of_type]
        bad = (values != np.rint(values)) | (values < low) | (values > high)
        right = f"it takes integers from {low} to {high}" if high > 1 else "it takes 0 or 1"
    elif of_type == "Float32":
        bad = np.isfinite(values) & (np.abs(values) > _FLOAT32)
        right = f"it takes numbers up to {_FLOAT32:.3g}"
    else:
        return None
    if not np.any(bad):
        return None
    return f"is of type {of_type} and cannot be {float(values[bad][0]):.17g}: {right}"


def decode_value(values: Array, of_type: str) -> Array:
    """Convert the doubles that a port stores to values of the FMI type `of_type`."""
    if of_type in TEXTUAL:
        flat = np.empty(values.size, dtype=object)
        flat[:] = [text(value, of_type) for value in np.ravel(values)]
        return flat.reshape(values.shape)
    if of_type in ("Boolean", "Clock"):
        return np.asarray(values != 0.0)
    if of_type in WHOLE:
        return np.asarray(np.rint(values).astype(np.int64))
    return values
