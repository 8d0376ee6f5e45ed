"""Packets of UDP links, in the format of `packet.h`.

This file needs only the Python standard library, so a peer in Python can use a copy of this file.
"""

import math
import struct
from collections.abc import Sequence
from typing import NamedTuple

MAGIC, VERSION = b"RBLK", 1
_HEADER = struct.Struct("<4sHHIId")  # magic, version, number of values, sequence, echo, time
HEADER_SIZE = _HEADER.size
OK, FOREIGN, OTHER_VERSION, WRONG_SIZE, NOT_FINITE = range(5)


class Packet(NamedTuple):
    """Packet of a UDP link, with values and the simulation time [s].

    `sequence` is the sequence number of the packet, at least 1. `echo` is the sequence number of
    the last packet received from the peer, or 0 before the first packet.
    """

    sequence: int
    echo: int
    time: float
    values: tuple[float, ...]


def pack_packet(packet: Packet) -> bytes:
    """Encode a packet as bytes."""
    n = len(packet.values)
    header = _HEADER.pack(MAGIC, VERSION, n, packet.sequence, packet.echo, packet.time)
    return header + struct.pack(f"<{n}d", *packet.values)


def unpack_packet(data: bytes, n: int) -> tuple[int, Packet | None]:
    """Decode a packet with n values; return (OK, packet), or (error code, None)."""
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
    """Encode the reply to a packet, with the given values and sequence number."""
    return pack_packet(Packet(sequence, packet.sequence, packet.time, tuple(values)))
