"""Messages between a run and an FMU in another process.

A message consists of a header, doubles and an optional JSON text. The receiver never executes
received data as code.
"""

import json
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.spatial.spatial import Array

MAGIC, VERSION = b"RBpt", 1
CALLS = (
    "answer",
    "error",
    "start",
    "describe",
    "instantiate",
    "initialize",
    "begin",
    "step",
    "follow",
    "save",
    "restore",
    "read",
    "change",
    "save_state",
    "restore_state",
    "free_state",
    "close",
)
MOST_BYTES = 64 << 20  # maximum length of a message
_NUMBERS = {name: k for k, name in enumerate(CALLS)}
_HEADER = struct.Struct("<4sHHII")  # magic, version, call, number of doubles, bytes of text
_READ_BYTES = 1 << 16  # maximum number of bytes per read
_IS_LITTLE = sys.byteorder == "little"


class MessageError(ValueError):
    """Error for a message that is malformed, too long, or of an unsupported version."""


class TextError(ValueError):
    """Error for a message with an invalid JSON text; the receiver can read further messages."""


class Message(NamedTuple):
    """Message with the name of a call, doubles and a JSON text."""

    call: str
    numbers: Array
    text: Mapping[str, Any]


def pack_message(
    call: str, numbers: Sequence[Array], text: Mapping[str, Any] | None = None
) -> bytes:
    """Return the bytes of a message; the arrays `numbers` are concatenated."""
    body = b"".join([_bytes(one) for one in numbers])
    more = json.dumps(text).encode() if text else b""
    return _HEADER.pack(MAGIC, VERSION, _NUMBERS[call], len(body) // 8, len(more)) + body + more


def _bytes(numbers: Array) -> bytes:
    return (numbers if _IS_LITTLE else numbers.astype("<f8")).tobytes()


class PreallocatedMessage:
    """Reusable message with a fixed call name, n doubles and no text.

    The array `numbers` (n,) is a view of the doubles in the message. The memory address is fixed.
    """

    def __init__(self, call: str, n: int):
        self.head = _HEADER.pack(MAGIC, VERSION, _NUMBERS[call], n, 0)
        self.bytes = bytearray(self.head + bytes(8 * n))
        self.numbers = np.frombuffer(self.bytes, "<f8", n, _HEADER.size)
        self.message = Message(call, self.numbers, {})


class Channel:
    """Connection that sends and receives messages over a socket; `close` closes the socket."""

    def __init__(self, link: socket.socket):
        self._link, self._rest, self._seconds = link, b"", 0.0

    def send(
        self, call: str, numbers: Sequence[Array] = (), text: Mapping[str, Any] | None = None
    ) -> None:
        """Send a message; raise OSError if the peer has closed the connection."""
        self._link.sendall(pack_message(call, numbers, text))

    def repeat(self, message: PreallocatedMessage) -> None:
        """Send a preallocated message with its current numbers.

        Raises OSError if the peer has closed the connection.
        """
        self._link.sendall(message.bytes)

    def receive(self, expected: PreallocatedMessage | None = None) -> Message:
        """Return the next message.

        Args:
            expected: Preallocated message. If the received message has the same call and length,
                the method stores its numbers in `expected` and returns `expected.message`.

        Raises:
            EOFError: The peer has closed the connection.
            BlockingIOError: No data arrive within the time limit.
            OSError: The connection fails for another reason.
            MessageError: The data are not a message; no further message can be read.
            TextError: The JSON text of the message is invalid.
        """
        if expected is not None and not self._rest:
            size = self._link.recv_into(expected.bytes)
            if size == len(expected.bytes) and expected.bytes.startswith(expected.head):
                return expected.message
            self._rest = bytes(expected.bytes[:size])
            if not size:
                raise EOFError
        data = self._rest or self._receive_block()
        while len(data) < _HEADER.size:
            data += self._receive_block()
        call, n, m = _unpack_header(data)
        begin, end = _HEADER.size + 8 * n, _HEADER.size + 8 * n + m
        if len(data) < end:
            whole = bytearray(data)
            while len(whole) < end:
                whole += self._receive_block()
            data = bytes(whole)
        self._rest = data[end:]
        numbers = np.frombuffer(data, "<f8", n, _HEADER.size)
        return Message(call, numbers, _read(data[begin:end]) if m else {})

    def limit(self, seconds: float) -> None:
        """Set the timeout [s] of the next reads; 0 removes the timeout."""
        if seconds != self._seconds:
            limit(self._link, seconds)
            self._seconds = seconds

    def close(self) -> None:
        """Close the connection; repeated calls have no effect."""
        self._link.close()

    @property
    def is_closed(self) -> bool:
        """True if this end of the connection is closed."""
        return self._link.fileno() < 0

    def _receive_block(self) -> bytes:
        if got := self._link.recv(_READ_BYTES):
            return got
        raise EOFError


def limit(link: socket.socket, seconds: float) -> None:
    """Set the timeout [s] after which socket reads raise BlockingIOError; 0 for no timeout."""
    whole = int(min(seconds, 1e9))
    micro = min(999_999, int(1e6 * (min(seconds, 1e9) - whole)))
    time = struct.pack("ll", whole, micro or int(0 < seconds < 1))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, time)


def _unpack_header(data: bytes) -> tuple[str, int, int]:
    """Return the call, the number of doubles and the number of text bytes in a message header."""
    magic, version, call, n, m = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise MessageError("the data is not a rigidblocks message")
    if version != VERSION:
        raise MessageError(
            f"message version {version} is not supported; this side has version {VERSION}"
        )
    if call >= len(CALLS):
        raise MessageError(
            f"unknown call number {call}; the calls have the numbers 0 to {len(CALLS) - 1}"
        )
    if 8 * n + m > MOST_BYTES:
        raise MessageError(
            f"a message of {8 * n + m:,} bytes is too long; the limit is {MOST_BYTES:,}"
        )
    return CALLS[call], n, m


def _read(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TextError("the text of the message is not a JSON object")
    return found
