"""Links whose signals go as packets: numbered, answered, all values at once."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.bench.link import Link, Transport
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

_FAULTS = {
    FOREIGN: "foreign",
    OTHER_VERSION: "of another version",
    WRONG_SIZE: "of wrong size",
    NOT_FINITE: "not finite",
}
_HALF = 1 << 31
MOST_VALUES = 8000


class PacketLink(Link):
    """Sends signals in every step and gives those that come back, by packets (`packet`).

    In lock-step each step waits for the answer to its own packet, no longer than `timeout`.
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
        self._sequence, self._last, self._answered, self._heard = 0, 0, 0, time.monotonic()
        self._is_safe = False
        super().__init__(sent, received, timeout, lock_step, safe)

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
