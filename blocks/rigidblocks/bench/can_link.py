"""A link by CAN as a part of a system, its messages as a DBC says."""

import math
import os
import re
import select
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rigidblocks.algebra.spatial import Array
from rigidblocks.bench.dbc import Database
from rigidblocks.bench.frame import Message, checksum_of, packed, taken, unpacked
from rigidblocks.bench.link import Ends, Link, Transport

EXTENDED, REQUEST = 0x80000000, 0x40000000  # of an id: 29 bits of it; a frame without data
_FAST_BITS, _FLEXIBLE = 0x01, 0x04  # flags of CAN FD
_HEAD = struct.Struct("=IBB2x")  # id, size, flags: Linux's can_frame and canfd_frame
CLASSIC, FD = 16, 72  # bytes of these
_DUE = 1e-6  # of a period, by which a message may be early


class CanLink(Link):
    """Sends messages on a CAN bus in every step and gives the signals of those that come.

        link = CanLink("can0", "arm.dbc", send=["Motion"], receive=["Command"])
        system.connect("robot.q[1]", "link.Motion.q1")

    On Linux, by SocketCAN; with CAN FD where a message needs it. `dbc` is the file that says what
    the messages are (with cantools, which the program does not need any more). Its signals are the
    ports `Message.Signal`, in units of blocks where theirs are known, with their bounds; a signal
    to be sent that has a start value in the DBC may be left open. A value beyond its bounds goes
    out as the nearest that is within them, and is counted.

    Messages that the DBC has a cycle time for are sent once in it, others in every step. Each
    received message may be silent for `timeout` [s], unless given three cycles, and 10 ms without
    one; then its signals are `safe`, by port, and so they are before it comes first. In lock-step
    each step waits until each of them has come anew. A frame that is too short, whose values are
    beyond their bounds or not finite, or that repeats what was last counted changes nothing.

    `counter` and `checksum` are the names of signals that are no ports, in all messages that have
    them: one counts the frames of its message, the other is CRC-8 of SAE J1850 over its other
    bytes.

    `interface` may be "fd:N", an open socket that the process got from who started it.

    Raises ImportError without cantools, and ValueError for messages that the DBC does not have or
    that are multiplexed, for a time limit that is not positive, and for safe values that do not
    fit. The first run raises OSError where the bus cannot be opened.
    """

    def __init__(
        self,
        interface: str,
        dbc: str | Path,
        send: Iterable[str],
        receive: Iterable[str],
        *,
        timeout: float | None = None,
        lock_step: bool = False,
        safe: Mapping[str, Any] | None = None,
        counter: str | None = None,
        checksum: str | None = None,
    ):
        if not re.fullmatch(r"fd:\d+|[^\s/:]{1,15}", interface):
            raise ValueError(f"a CAN interface has a name such as can0, not {interface!r}")
        self.interface = interface
        database = Database(dbc)
        names, theirs = tuple(send), tuple(receive)
        known = database.messages((*names, *theirs), timeout, counter, checksum)
        self.sent, self.received = known[: len(names)], known[len(names) :]
        inputs = tuple(port for one in self.sent for port in database.ports(one))
        outputs = tuple(
            replace(port, start=None) for one in self.received for port in database.ports(one)
        )
        if not outputs:
            raise ValueError("a link by CAN receives a signal at least")
        longest = max(one.timeout for one in self.received)
        self._state = _State(self.sent, self.received)
        super().__init__(inputs, outputs, longest, lock_step, safe)

    @property
    def ends(self) -> Ends:
        return Ends("LINK_CAN", self.interface, "")

    @property
    def starts(self) -> dict[str, float]:
        """What goes out for signals that nothing is connected to, by port."""
        return {port.name: float(port.start) for port in self.inputs if port.start is not None}

    def _open(self) -> Transport:
        self._state = _State(self.sent, self.received)
        return _Bus(self.interface, self.sent, self.received)

    def _exchange(self, link: Transport, t: float, values: Array) -> None:
        state, began = self._state, time.monotonic()
        state.is_new = [False] * len(self.received)
        for k, message in enumerate(self.sent):
            if state.is_due(k, t):
                data, beyond = packed(
                    message, values[_places(self.sent, k)].tolist(), state.counts[k]
                )
                state.counts[k] += 1
                self.counts["beyond bounds"] += beyond
                self._send(link, message, data)
        self._receive(link)
        while self.lock_step and not all(state.is_new):
            left = self.timeout - (time.monotonic() - began)
            if left <= 0:
                break
            link.wait(left)
            self._receive(link)
        self._watch()

    def _send(self, link: Transport, message: Message, data: bytes) -> None:
        flags = (_FAST_BITS * message.has_fast_bits | _FLEXIBLE) if message.is_fd else 0
        head = _HEAD.pack(_id(message), len(data), flags)
        try:
            link.send(head + data.ljust(64 if message.is_fd else 8, b"\0"))
            self.counts["sent"] += 1
        except OSError:
            self.counts["unsent"] += 1

    def _receive(self, link: Transport) -> None:
        numbers = {_id(message): k for k, message in enumerate(self.received)}
        for frame in link.received():
            if len(frame) not in (CLASSIC, FD):
                self.counts["foreign"] += 1
                continue
            number, size, _ = _HEAD.unpack_from(frame)
            if number not in numbers:
                self.counts["foreign"] += 1
            elif size > len(frame) - 8:  # more than there is
                self.counts["of wrong size"] += 1
            else:
                self._accept(numbers[number], frame[8 : 8 + size])

    def _accept(self, k: int, data: bytes) -> None:
        """Takes the data of a message that is whole, within its bounds and new."""
        message, state = self.received[k], self._state
        if len(data) < message.size:
            self.counts["of wrong size"] += 1
            return
        if state.is_wrong(k, data):
            self.counts["of wrong checksum"] += 1
            return
        values, beyond = unpacked(message, data)
        if not all(map(math.isfinite, values)):
            self.counts["not finite"] += 1
        elif beyond:
            self.counts["beyond bounds"] += 1
        elif (ahead := state.ahead(k, data)) == 0:
            self.counts["doubled"] += 1
        else:
            self.counts["lost"] += ahead - 1
            self.counts["received"] += 1
            state.hear(k, data)
            self._values = self._values.copy()
            self._values[_places(self.received, k)] = values

    def _watch(self) -> None:
        """Falls back to the safe values of messages that have not come in time."""
        state, now, is_safe = self._state, time.monotonic(), False
        for k, message in enumerate(self.received):
            silent = now - state.heard[k] > message.timeout
            if silent or (self.lock_step and not state.is_new[k]):
                self.counts["watchdog events"] += not state.is_safe[k]
                state.is_safe[k] = True
            if state.is_safe[k] or state.last[k] is None:
                is_safe = True
                self._values = self._values.copy()
                self._values[_places(self.received, k)] = self.safe[_places(self.received, k)]
        self.counts["steps with safe values"] += is_safe


class _State:
    """What a link remembers of the messages that it sends and receives."""

    def __init__(self, sent: tuple[Message, ...], received: tuple[Message, ...]):
        self.messages, self.sent = received, sent
        self.counts, self.cycles = [0] * len(sent), [-1] * len(sent)
        self.heard, self.is_safe = [time.monotonic()] * len(received), [False] * len(received)
        self.last: list[bytes | None] = [None] * len(received)
        self.is_new = [False] * len(received)

    def is_due(self, k: int, t: float) -> bool:
        """Whether a message goes out at t: in each step, or once in its period."""
        period = self.sent[k].period
        cycle = math.floor(t / period + _DUE) if period else self.cycles[k] + 1
        is_due = cycle != self.cycles[k]
        self.cycles[k] = cycle
        return is_due

    def is_wrong(self, k: int, data: bytes) -> bool:
        """Whether its checksum is another."""
        message = self.messages[k]
        own = message.checksum
        return own is not None and taken(own, data) != checksum_of(data, message)

    def ahead(self, k: int, data: bytes) -> int:
        """By how many its counter is ahead of the last: 1 without one, after a silence, and where
        it is the next.
        """
        counter, last = self.messages[k].counter, self.last[k]
        if counter is None or last is None or self.is_safe[k]:
            return 1
        return (taken(counter, data) - taken(counter, last)) % (1 << counter.length)

    def hear(self, k: int, data: bytes) -> None:
        """Keeps what has come."""
        self.last[k], self.heard[k] = data, time.monotonic()
        self.is_safe[k], self.is_new[k] = False, True


def _places(messages: tuple[Message, ...], k: int) -> slice:
    """Where the signals of a message are among those of all."""
    first = sum(len(one.signals) for one in messages[:k])
    return slice(first, first + len(messages[k].signals))


def _id(message: Message) -> int:
    """The id as Linux has it."""
    return message.id | EXTENDED * message.is_extended


class _Bus(Transport):
    def __init__(self, interface: str, sent: tuple[Message, ...], received: tuple[Message, ...]):
        try:
            if interface.startswith("fd:"):
                self._socket = socket.socket(fileno=os.dup(int(interface[3:])))
            else:
                self._socket = _opened(interface, sent, received)
        except (OSError, AttributeError) as error:
            why = getattr(error, "strerror", None) or error
            raise OSError(f"the link cannot open the CAN interface {interface}: {why}") from error

    def send(self, data: bytes) -> None:
        self._socket.send(data, socket.MSG_DONTWAIT)

    def received(self) -> Iterator[bytes]:
        while True:
            try:
                frame = self._socket.recv(FD + 1, socket.MSG_DONTWAIT)
            except OSError:  # there is nothing more
                return
            if not frame:  # the other end is closed
                return
            yield frame

    def wait(self, seconds: float) -> None:
        select.select([self._socket], [], [], seconds)

    def close(self) -> None:
        self._socket.close()


def _opened(
    interface: str, sent: tuple[Message, ...], received: tuple[Message, ...]
) -> socket.socket:
    """A socket that gets the received messages alone."""
    own = socket.socket(socket.AF_CAN, socket.SOCK_RAW, socket.CAN_RAW)
    try:
        mask = EXTENDED | REQUEST  # with the bit of errors it would ask for these alone
        filters = b"".join(
            struct.pack("=II", _id(one), mask | (0x1FFFFFFF if one.is_extended else 0x7FF))
            for one in received
        )
        own.setsockopt(socket.SOL_CAN_RAW, socket.CAN_RAW_FILTER, filters)
        if any(one.is_fd for one in (*sent, *received)):
            own.setsockopt(socket.SOL_CAN_RAW, socket.CAN_RAW_FD_FRAMES, 1)
        own.bind((interface,))
    except BaseException:
        own.close()
        raise
    return own
