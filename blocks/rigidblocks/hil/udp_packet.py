"""The packet of a link by UDP, as `packet.h` has it; this file needs nothing but Python itself, so
that a partner in Python can have a copy of it.
"""

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

MAGIC, VERSION = b"RBLK", 1
_HEADER = struct.Struct("<4sHHIId")  # magic, version, n, sequence, echo, time
HEADER_SIZE = _HEADER.size
OK, FOREIGN, OTHER_VERSION, WRONG_SIZE, NOT_FINITE = range(5)


class Packet(NamedTuple):
    """Values at the time of a simulation [s], with the number of the packet, from 1 on, and the
    number of the partner's packet that was received last, 0 before the first.
    """

    sequence: int
    echo: int
    time: float
    values: tuple[float, ...]


def packed(packet: Packet) -> bytes:
    """The bytes of a packet."""
    n = len(packet.values)
    header = _HEADER.pack(MAGIC, VERSION, n, packet.sequence, packet.echo, packet.time)
    return header + struct.pack(f"<{n}d", *packet.values)


def unpacked(data: bytes, n: int) -> tuple[int, Packet | None]:
    """OK and the packet of n values in these bytes; or what is wrong with them, and None."""
    if len(data) < _HEADER.size or data[:4] != MAGIC:
        return FOREIGN, None
    _, version, count, sequence, echo, time = _HEADER.unpack_from(data)
    if version != VERSION:
        return OTHER_VERSION, None
    if count != n or len(data) != _HEADER.size + 8 * n or sequence == 0:
        return WRONG_SIZE, None
    values = struct.unpack_from(f"<{n}d", data, _HEADER.size)
    if not all(map(math.isfinite, (time, *values))):
        return NOT_FINITE, None
    return OK, Packet(sequence, echo, time, values)


def answer(packet: Packet, values: Sequence[float], sequence: int) -> bytes:
    """The bytes of the answer to a packet."""
    return packed(Packet(sequence, packet.sequence, packet.time, tuple(values)))
