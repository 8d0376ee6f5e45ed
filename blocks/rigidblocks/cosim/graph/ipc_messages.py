"""Messages between a run and a part of it that runs in another process: a head, doubles, and a text
in JSON where there is one. Nothing in them is executed.
"""

import json
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array

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
    "keep",
    "go_back",
    "forget",
    "close",
)
MOST_BYTES = 64 << 20  # of a message
_NUMBERS = {name: k for k, name in enumerate(CALLS)}
_HEAD = struct.Struct("<4sHHII")  # magic, version, call, doubles, bytes of text
_FIRST = 1 << 16  # bytes that are read at once
_IS_LITTLE = sys.byteorder == "little"


class MessageError(ValueError):
    """A message that is none, of another version, or too long."""


class TextError(ValueError):
    """A message whose text cannot be read; the next one may be good."""


class Message(NamedTuple):
    """A call by its name with numbers, and what else it says."""

    call: str
    numbers: Array
    text: Mapping[str, Any]


def packed(call: str, numbers: Sequence[Array], text: Mapping[str, Any] | None = None) -> bytes:
    """The bytes of a message with these numbers side by side."""
    body = b"".join([_bytes(one) for one in numbers])
    more = json.dumps(text).encode() if text else b""
    return _HEAD.pack(MAGIC, VERSION, _NUMBERS[call], len(body) // 8, len(more)) + body + more


def _bytes(numbers: Array) -> bytes:
    return (numbers if _IS_LITTLE else numbers.astype("<f8")).tobytes()


class Recurring:
    """A message of one call with n doubles and without a text, which is sent or read again and
    again: its bytes stay where they are, and `numbers` are the doubles in them.
    """

    def __init__(self, call: str, n: int):
        self.head = _HEAD.pack(MAGIC, VERSION, _NUMBERS[call], n, 0)
        self.bytes = bytearray(self.head + bytes(8 * n))
        self.numbers = np.frombuffer(self.bytes, "<f8", n, _HEAD.size)
        self.message = Message(call, self.numbers, {})


class Channel:
    """Messages to and from the other end of a socket, which it closes."""

    def __init__(self, link: socket.socket):
        self._link, self._rest, self._seconds = link, b"", 0.0

    def send(
        self, call: str, numbers: Sequence[Array] = (), text: Mapping[str, Any] | None = None
    ) -> None:
        """Sends a message; raises OSError where the other end is gone."""
        self._link.sendall(packed(call, numbers, text))

    def repeat(self, message: Recurring) -> None:
        """Sends what its bytes are now; raises OSError where the other end is gone."""
        self._link.sendall(message.bytes)

    def receive(self, expected: Recurring | None = None) -> Message:
        """The next message; `expected`, with new numbers, where it is of that form.

        Raises EOFError where the other end is gone, BlockingIOError where nothing comes in the
        time limit, OSError for another end of the connection, MessageError for what is no message,
        after which nothing else can be read, and TextError for one whose text is none.
        """
        if expected is not None and not self._rest:
            size = self._link.recv_into(expected.bytes)
            if size == len(expected.bytes) and expected.bytes.startswith(expected.head):
                return expected.message
            self._rest = bytes(expected.bytes[:size])
            if not size:
                raise EOFError
        data = self._rest or self._more()
        while len(data) < _HEAD.size:
            data += self._more()
        call, n, m = _opened(data)
        begin, end = _HEAD.size + 8 * n, _HEAD.size + 8 * n + m
        if len(data) < end:
            whole = bytearray(data)
            while len(whole) < end:
                whole += self._more()
            data = bytes(whole)
        self._rest = data[end:]
        numbers = np.frombuffer(data, "<f8", n, _HEAD.size)
        return Message(call, numbers, _read(data[begin:end]) if m else {})

    def limit(self, seconds: float) -> None:
        """What the next reads may take from now on [s]; 0 for as long as it likes."""
        if seconds != self._seconds:
            limit(self._link, seconds)
            self._seconds = seconds

    def close(self) -> None:
        """Closes the connection; may be repeated."""
        self._link.close()

    @property
    def is_closed(self) -> bool:
        """Whether this end is closed."""
        return self._link.fileno() < 0

    def _more(self) -> bytes:
        if got := self._link.recv(_FIRST):
            return got
        raise EOFError


def limit(link: socket.socket, seconds: float) -> None:
    """Lets reads of a socket fail, with BlockingIOError, where nothing comes for so long [s]; 0
    lets them wait.
    """
    whole = int(min(seconds, 1e9))
    micro = min(999_999, int(1e6 * (min(seconds, 1e9) - whole)))
    time = struct.pack("ll", whole, micro or int(0 < seconds < 1))
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, time)


def _opened(data: bytes) -> tuple[str, int, int]:
    """The call, how many doubles follow and how many bytes of text, in the head of a message."""
    magic, version, call, n, m = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise MessageError("this is no message of rigidblocks")
    if version != VERSION:
        raise MessageError(f"the message is of version {version}; this side has {VERSION}")
    if call >= len(CALLS):
        raise MessageError(f"there is no call {call}; there are {len(CALLS)}")
    if 8 * n + m > MOST_BYTES:
        raise MessageError(f"a message of {8 * n + m:,} bytes is too long: {MOST_BYTES:,} go")
    return CALLS[call], n, m


def _read(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TextError("the text of the message is no object of JSON")
    return found
