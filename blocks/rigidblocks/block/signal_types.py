"""FMI's types of signals, whose values ports carry as doubles.

Numbers are carried as they are, as far as doubles are exact, and truth values as 0 and 1. A text or
a binary value is carried by a number that follows from its content, with a table of this process
that leads back.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from math import prod
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.port import Port

EXACT = 1 << 53  # up to here each whole number is a double
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

_texts: dict[int, str | bytes] = {}  # that ports have carried, by their numbers


def number(text: str | bytes) -> float:
    """The number by which ports carry a text: the same in each process."""
    kind, data = (b"s", text.encode()) if isinstance(text, str) else (b"b", text)
    k = int.from_bytes(blake2b(kind + data, digest_size=8).digest(), "big") >> 12
    while _texts.setdefault(k, text) != text:
        k += 1
    return float(k)


def text(value: float, of_type: str) -> str | bytes:
    """The text that a port carries by this number; an empty one where there is none of its type."""
    kind = str if of_type == "String" else bytes
    found = _texts.get(int(value), kind())
    return found if isinstance(found, kind) else kind()


def texts_in(values: Array, ports: Iterable[Port]) -> list[str | bytes]:
    """The texts that the values of ports, side by side, carry by their numbers; there may be many
    rows of values.
    """
    found, start = list[str | bytes](), 0
    for port in ports:
        if port.type in TEXTUAL:
            places = values[..., start : start + port.size]
            found += [text(one, port.type) for one in np.unique(places)]
        start += port.size
    return found


def learn(texts: Iterable[str | bytes]) -> None:
    """Makes texts known that another process carries by their numbers."""
    for one in texts:
        number(one)


def table_of(texts: Iterable[str | bytes]) -> list[Any]:
    """Texts as JSON holds them: a binary value by its hexadecimal digits in a list."""
    return [one if isinstance(one, str) else [one.hex()] for one in dict.fromkeys(texts)]


def learn_table(table: Iterable[Any]) -> None:
    """Makes the texts known that `table_of` has made of others."""
    learn(one if isinstance(one, str) else bytes.fromhex(one[0]) for one in table)


def carried(value: Any, of_type: str, shape: tuple[int, ...], what: str) -> Array:
    """What a port of a type and shape carries for a value that a user gave, one filling it.

    Raises TypeError and ValueError, with `what` in the message, for what the type cannot hold.
    """
    if of_type in TEXTUAL:
        return np.reshape([number(one) for one in _as_texts(value, of_type, shape, what)], shape)
    array = np.array(value)
    if array.dtype.kind not in "biuf" and array.dtype != object:
        raise TypeError(f"{what} is of type {of_type} and cannot be {value!r}")
    if array.dtype == object or array.dtype.kind in "iu":  # whole numbers that may be too large
        for one in np.ravel(array).tolist():
            if isinstance(one, int) and abs(one) > EXACT:
                raise ValueError(f"{what}: {one} is beyond 2^53, up to where it is carried exactly")
    array = array.astype(float)
    if wrong := refusal(of_type, np.ravel(array)):
        raise ValueError(f"{what} {wrong}")
    if array.shape != shape and array.ndim:
        raise ValueError(f"{what} has shape {array.shape}; it needs shape {shape}")
    return np.broadcast_to(array, shape)


def _as_texts(value: Any, of_type: str, shape: tuple[int, ...], what: str) -> Sequence[Any]:
    kind = str if of_type == "String" else bytes
    flat = [value] * prod(shape) if isinstance(value, str | bytes) else _flattened(value)
    if wrong := [one for one in flat if not isinstance(one, kind)]:
        raise TypeError(f"{what} is of type {of_type} and takes {kind.__name__}, not {wrong[0]!r}")
    if any(kind is str and "\0" in one for one in flat):
        raise ValueError(f"{what} has a NUL in its text, which no FMU can read")
    if len(flat) != prod(shape):
        raise ValueError(f"{what} has {len(flat)} texts; it needs shape {shape}")
    return flat


def _flattened(value: Any) -> list[Any]:
    if isinstance(value, list | tuple | np.ndarray):
        return [one for part in value for one in _flattened(part)]
    return [value]


def refusal(of_type: str, values: Array) -> str | None:
    """Why a type cannot hold one of these values: "is of type Int8 and cannot be 300: ..."."""
    if of_type in WHOLE:
        low, high = WHOLE[of_type]
        bad = (values != np.rint(values)) | (values < low) | (values > high)
        right = f"it takes whole numbers from {low} to {high}" if high > 1 else "it takes 0 or 1"
    elif of_type == "Float32":
        bad = np.isfinite(values) & (np.abs(values) > _FLOAT32)
        right = f"it takes numbers up to {_FLOAT32:.3g}"
    else:
        return None
    if not np.any(bad):
        return None
    return f"is of type {of_type} and cannot be {float(values[bad][0]):.17g}: {right}"


def shown(values: Array, of_type: str) -> Array:
    """Carried values as a user reads them: whole numbers, truth values and texts as such."""
    if of_type in TEXTUAL:
        flat = np.empty(values.size, dtype=object)
        flat[:] = [text(value, of_type) for value in np.ravel(values)]
        return flat.reshape(values.shape)
    if of_type in ("Boolean", "Clock"):
        return np.asarray(values != 0.0)
    if of_type in WHOLE:
        return np.asarray(np.rint(values).astype(np.int64))
    return values
