"""A link by UDP as a part of a system."""

import select
import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.bench.packet import (
    FOREIGN,
    NOT_FINITE,
    OTHER_VERSION,
    WRONG_SIZE,
    Packet,
    packed,
    unpacked,
)
from rigidblocks.block.port import Port
from rigidblocks.block.python_block import PythonBlock

_FAULTS = {
    FOREIGN: "foreign",
    OTHER_VERSION: "of another version",
    WRONG_SIZE: "of wrong size",
    NOT_FINITE: "not finite",
}
_HALF = 1 << 31
MOST_VALUES = 8000


@dataclass(frozen=True)
class Addresses:
    """Where a link sends to and where it listens: "127.0.0.1:5005". It is loopback unless it says
    something else.
    """

    peer: str = "127.0.0.1:5005"
    listen: str = "127.0.0.1:5006"

    def __post_init__(self) -> None:
        self.parsed("peer")
        self.parsed("listen")

    def parsed(self, name: str) -> tuple[str, int]:
        """The host and the port of an address; ValueError where it is none."""
        host, _, port = getattr(self, name).rpartition(":")
        try:
            socket.inet_aton(host)
            number = int(port)
        except (OSError, ValueError):
            number = -1
        if not 0 <= number < 1 << 16:
            raise ValueError(
                f"{name} must be an address such as 127.0.0.1:5005, not {getattr(self, name)!r}"
            )
        return host, number


class UdpLink(PythonBlock):
    """Sends signals by UDP in every step and gives those that come back.

        q, tau = Port("q", (2,), "rad"), Port("tau", (2,), "N.m")
        system.add("link", UdpLink(send=[q], receive=[tau]))

    The packets are those of `packet` (for other languages `c/runner/packet.h`). What is received is
    given until something newer comes. When nothing has come for `timeout` [s], it is `safe`, by the
    names of the received ports, zero unless given; so it is before the first packet. In lock-step
    each step waits for the answer to its own packet, no longer than `timeout`. `counts` says what
    was sent and received, and what was lost, late, doubled or wrong. A program made by
    `build_runner` does the same in C.

    Raises ValueError for an address that is none, a time limit that is not positive, and safe
    values that do not fit. Its socket is opened by the first run, which raises OSError where that
    cannot be, and `close` closes it.
    """

    def __init__(
        self,
        send: Iterable[Port],
        receive: Iterable[Port],
        *,
        peer: str = Addresses.peer,
        listen: str = Addresses.listen,
        timeout: float = 0.01,
        lock_step: bool = False,
        safe: Mapping[str, Any] | None = None,
    ):
        sent, received = tuple(send), tuple(receive)
        if max(sum(port.size for port in ports) for ports in (sent, received)) > MOST_VALUES:
            raise ValueError(f"a packet has no more than {MOST_VALUES} values")
        self.addresses = Addresses(peer, listen)
        if not timeout > 0:
            raise ValueError(f"the timeout of a link must be positive, not {timeout} s")
        self.timeout, self.lock_step = float(timeout), lock_step
        self.safe = _safe_values(received, safe or {})
        self.counts: Counter[str] = Counter()
        self._socket: socket.socket | None = None
        self._sequence, self._last, self._answered, self._heard = 0, 0, 0, time.monotonic()
        self._time: float | None = None
        self._values, self._is_safe = self.safe, False
        super().__init__(self._called_at, sent, received)

    @property
    def name(self) -> str:
        """What messages call it."""
        return "UdpLink"

    def close(self) -> None:
        """Closes the socket; another run opens it again."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self) -> socket.socket:
        """The socket, which the first step of a run opens: a program is built without one."""
        opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        opened.setblocking(False)
        try:
            opened.bind(self.addresses.parsed("listen"))
        except OSError as error:
            opened.close()
            raise OSError(
                f"the link cannot listen at {self.addresses.listen}: {error.strerror}; another "
                "program may do so already"
            ) from error
        return opened

    def _called_at(self, t: float, **signals: Any) -> dict[str, Any]:
        self._socket = self._socket or self._open()
        if t != self._time:  # at the start it is called more often than once
            self._time = t
            self._exchange(
                self._socket, t, np.concatenate([np.zeros(0), *map(np.ravel, signals.values())])
            )
        ends = np.cumsum([port.size for port in self.outputs])[:-1]
        parts = np.split(self._values, ends)
        ports = zip(self.outputs, parts, strict=True)
        return {port.name: part.reshape(port.shape) for port, part in ports}

    def _exchange(self, link: socket.socket, t: float, values: Array) -> None:
        self._sequence = self._sequence % 0xFFFFFFFF + 1
        packet = Packet(self._sequence, self._last, t, tuple(values.tolist()))
        began = time.monotonic()
        try:
            link.sendto(packed(packet), self.addresses.parsed("peer"))
            self.counts["sent"] += 1
        except OSError:
            self.counts["unsent"] += 1
        self._receive(link)
        while self.lock_step and self._answered != self._sequence:
            left = self.timeout - (time.monotonic() - began)
            if left <= 0:
                break
            select.select([link], [], [], left)
            self._receive(link)
        self._watch()

    def _watch(self) -> None:
        """Falls back to the safe values where nothing has come in time."""
        silent = time.monotonic() - self._heard > self.timeout
        if silent or (self.lock_step and self._answered != self._sequence):
            self.counts["watchdog events"] += not self._is_safe
            self._is_safe = True
        if self._is_safe or not self._last:
            self.counts["steps with safe values"] += 1
            self._values = self.safe

    def _receive(self, link: socket.socket) -> None:
        while True:
            try:
                data = link.recv(1 << 16)
            except OSError:  # there is nothing more
                return
            fault, packet = unpacked(data, self.safe.size)
            if packet is None:
                self.counts[_FAULTS[fault]] += 1
            else:
                self._accept(packet)

    def _accept(self, packet: Packet) -> None:
        """Takes a packet that is new. A partner that was silent for the timeout may begin anew."""
        ahead = (packet.sequence - self._last) % (1 << 32)
        if self._last and ahead == 0:
            self.counts["doubled"] += 1
            return
        if self._last and ahead >= _HALF:
            if time.monotonic() - self._heard <= self.timeout:
                self.counts["late"] += 1
                return
            self.counts["restarts of the partner"] += 1
        elif self._last:
            self.counts["lost"] += ahead - 1
        self._last, self._answered, self._heard = packet.sequence, packet.echo, time.monotonic()
        self._is_safe = False
        self.counts["received"] += 1
        self._values = np.array(packet.values)


def _safe_values(ports: tuple[Port, ...], safe: Mapping[str, Any]) -> Array:
    if unknown := sorted(set(safe) - {port.name for port in ports}):
        known = ", ".join(port.name for port in ports) or "none"
        raise ValueError(f"there is no received port '{unknown[0]}' to be safe; there are: {known}")
    values = [np.broadcast_to(np.asarray(safe.get(p.name, 0.0), float), p.shape) for p in ports]
    return np.concatenate([np.zeros(0), *map(np.ravel, values)])
