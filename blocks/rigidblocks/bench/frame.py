"""Frames of CAN and CAN FD, as `frame.h` has them: where signals lie in the bytes, and what the
bits of one mean.
"""

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass

_FLOATS = {32: ("<f", "<I"), 64: ("<d", "<Q")}
EXACT_BITS = 53  # of the longest whole numbers that doubles have
SIZES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 32, 48, 64)  # of frames, above 8 of CAN FD


@dataclass(frozen=True)
class Signal:
    """A number in the bytes of a frame.

    `start` is the number of its first bit, which is the lowest of little-endian signals and the
    highest of big-endian ones; byte k has the bits 8 k to 8 k + 7. From bits to a value it goes by

        physical = scale raw + offset,   value = factor physical + shift

    in which the second brings the unit of the database to that of a port. `low` and `high` are the
    bounds of raw.
    """

    name: str
    start: int
    length: int
    is_big: bool
    is_signed: bool
    is_float: bool
    scale: float
    offset: float
    low: float
    high: float
    factor: float = 1.0
    shift: float = 0.0


@dataclass(frozen=True)
class Message:
    """A frame of `size` bytes: its signals, and those that count it and check it, if there are any.

    One with a `period` [s] is sent once in each; `timeout` [s] is how long one may not come.
    """

    name: str
    id: int
    is_extended: bool
    is_fd: bool
    has_fast_bits: bool
    size: int
    period: float
    timeout: float
    signals: tuple[Signal, ...]
    counter: Signal | None = None
    checksum: Signal | None = None

    @property
    def wire_size(self) -> int:
        """The bytes that go out: CAN FD has frames of some sizes alone."""
        return next(size for size in SIZES if size >= self.size)


def bits_of(signal: Signal) -> list[int]:
    """The places of the bits of a signal, the lowest bit first."""
    if not signal.is_big:
        return list(range(signal.start, signal.start + signal.length))
    places, at = [], signal.start
    for _ in range(signal.length):
        places.append(at)
        at += 15 if at % 8 == 0 else -1
    return places[::-1]


def put(signal: Signal, raw: int, data: bytearray) -> None:
    """Writes the bits of a number to the data of a frame."""
    for k, place in enumerate(bits_of(signal)):
        data[place // 8] |= (raw >> k & 1) << place % 8


def taken(signal: Signal, data: bytes) -> int:
    """The bits of a signal in the data of a frame, as a number without a sign."""
    places = enumerate(bits_of(signal))
    return sum((data[place // 8] >> place % 8 & 1) << k for k, place in places)


def encoded(signal: Signal, value: float) -> tuple[int, bool]:
    """The bits that have a value, or the nearest that is within the bounds; and whether it is so
    beyond them.
    """
    raw = ((value - signal.shift) / signal.factor - signal.offset) / signal.scale
    if not signal.is_float and math.isfinite(raw):
        raw = float(round(raw))
    nearest = signal.low if math.isnan(raw) else min(max(raw, signal.low), signal.high)
    if not signal.is_float:
        return int(nearest) % (1 << signal.length), nearest != raw
    number, bits = _FLOATS[signal.length]
    return struct.unpack(bits, struct.pack(number, nearest))[0], nearest != raw


def decoded(signal: Signal, bits: int) -> tuple[float, bool]:
    """The value that some bits have, and whether it is beyond the bounds."""
    raw: float = bits
    if signal.is_float:
        number, form = _FLOATS[signal.length]
        raw = struct.unpack(number, struct.pack(form, bits))[0]
    elif signal.is_signed and bits >> (signal.length - 1):
        raw = bits - (1 << signal.length)
    raw = float(raw)
    beyond = signal.is_float or signal.length <= EXACT_BITS
    beyond = beyond and not signal.low <= raw <= signal.high
    return signal.factor * (raw * signal.scale + signal.offset) + signal.shift, beyond


def packed(message: Message, values: Sequence[float], count: int) -> tuple[bytes, int]:
    """The data of the frame number `count` of a message, and how many of the values are beyond
    their bounds.
    """
    data, beyond = bytearray(message.wire_size), 0
    for signal, value in zip(message.signals, values, strict=True):
        bits, is_beyond = encoded(signal, value)
        put(signal, bits, data)
        beyond += is_beyond
    if message.counter:
        put(message.counter, count % (1 << message.counter.length), data)
    if message.checksum:
        put(message.checksum, checksum_of(bytes(data), message), data)
    return bytes(data), beyond


def unpacked(message: Message, data: bytes) -> tuple[list[float], bool]:
    """The values in the data of a frame, and whether any is beyond its bounds."""
    rows = [decoded(signal, taken(signal, data)) for signal in message.signals]
    return [value for value, _ in rows], any(beyond for _, beyond in rows)


def checksum_of(data: bytes, message: Message) -> int:
    """CRC-8 of SAE J1850 over the bytes of a message but the one that has it."""
    assert message.checksum is not None
    own, crc = message.checksum.start // 8, 0xFF
    for k, byte in enumerate(data[: message.size]):
        if k != own:
            crc ^= byte
            for _ in range(8):
                crc = (crc << 1 ^ (0x1D if crc & 0x80 else 0)) & 0xFF
    return crc ^ 0xFF
