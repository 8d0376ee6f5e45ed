"""A link as a part of a system: packets go out and come in at each communication point."""

import abc
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

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


class Transport(abc.ABC):
    """What brings packets to the other side and back."""

    @abc.abstractmethod
    def send(self, data: bytes) -> None:
        """Sends a packet; raises OSError where that cannot be."""

    @abc.abstractmethod
    def received(self) -> Iterator[bytes]:
        """All that has come."""

    @abc.abstractmethod
    def wait(self, seconds: float) -> None:
        """Comes back when something may have come, or after a time [s]."""

    @abc.abstractmethod
    def close(self) -> None:
        """Frees what it holds."""


class Ends(NamedTuple):
    """Where a link goes, for a program: `kind` and the names of both ends as link.h has them."""

    kind: str
    peer: str
    listen: str


class PacketLink(PythonBlock, abc.ABC):
    """Sends signals in every step and gives those that come back, by packets (`packet`).

    What is received is given until something newer comes. When nothing has come for `timeout` [s],
    it is `safe`, by the names of the received ports, zero unless given; so it is before the first
    packet. In lock-step each step waits for the answer to its own packet, no longer than `timeout`.
    `counts` says what was sent and received, and what was lost, late, doubled or wrong.
    """

    def __init__(
        self,
        send: Iterable[Port],
        receive: Iterable[Port],
        timeout: float,
        lock_step: bool,
        safe: Mapping[str, Any] | None,
    ):
        sent, received = tuple(send), tuple(receive)
        if max(sum(port.size for port in ports) for ports in (sent, received)) > MOST_VALUES:
            raise ValueError(f"a packet has no more than {MOST_VALUES} values")
        if not timeout > 0:
            raise ValueError(f"the timeout of a link must be positive, not {timeout} s")
        self.timeout, self.lock_step = float(timeout), lock_step
        self.safe = _safe_values(received, safe or {})
        self.counts: Counter[str] = Counter()
        self._transport: Transport | None = None
        self._sequence, self._last, self._answered, self._heard = 0, 0, 0, time.monotonic()
        self._time: float | None = None
        self._values, self._is_safe = self.safe, False
        super().__init__(self._called_at, sent, received)

    @property
    def name(self) -> str:
        """What messages call it."""
        return type(self).__name__

    @property
    @abc.abstractmethod
    def ends(self) -> Ends:
        """Where it goes."""

    @abc.abstractmethod
    def _open(self) -> Transport:
        """Opens it, which the first step of a run does: a program is built without."""

    def close(self) -> None:
        """Closes it; another run opens it again."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def _called_at(self, t: float, **signals: Any) -> dict[str, Any]:
        self._transport = self._transport or self._open()
        if t != self._time:  # at the start it is called more often than once
            self._time = t
            self._exchange(
                self._transport, t, np.concatenate([np.zeros(0), *map(np.ravel, signals.values())])
            )
        ends = np.cumsum([port.size for port in self.outputs])[:-1]
        parts = np.split(self._values, ends)
        ports = zip(self.outputs, parts, strict=True)
        return {port.name: part.reshape(port.shape) for port, part in ports}

    def _exchange(self, link: Transport, t: float, values: Array) -> None:
        self._sequence = self._sequence % 0xFFFFFFFF + 1
        packet = Packet(self._sequence, self._last, t, tuple(values.tolist()))
        began = time.monotonic()
        try:
            link.send(packed(packet))
            self.counts["sent"] += 1
        except OSError:
            self.counts["unsent"] += 1
        self._receive(link)
        while self.lock_step and self._answered != self._sequence:
            left = self.timeout - (time.monotonic() - began)
            if left <= 0:
                break
            link.wait(left)
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

    def _receive(self, link: Transport) -> None:
        for data in link.received():
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
