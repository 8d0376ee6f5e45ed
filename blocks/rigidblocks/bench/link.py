"""A link as a part of a system: signals go out and come in at each communication point."""

import abc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.port import Port
from rigidblocks.block.python_block import PythonBlock


class Transport(abc.ABC):
    """What brings packets or frames to the other side and back."""

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


class Link(PythonBlock, abc.ABC):
    """Sends signals in every step and gives those that come back.

    What is received is given until something newer comes. When nothing has come for `timeout` [s],
    it is `safe`, by the names of the received ports, unless given zero or what is nearest to it
    within the bounds; so it is before the first. In lock-step each step waits for what is new, no
    longer than `timeout`. `counts` says what was sent and received, and what was wrong.
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
        if not timeout > 0:
            raise ValueError(f"the timeout of a link must be positive, not {timeout} s")
        self.timeout, self.lock_step = float(timeout), lock_step
        self.safe = _safe_values(received, safe or {})
        self.counts: Counter[str] = Counter()
        self._transport: Transport | None = None
        self._time: float | None = None
        self._values = self.safe
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

    @abc.abstractmethod
    def _exchange(self, link: Transport, t: float, values: Array) -> None:
        """Sends the values at t [s] and takes what has come."""


def _safe_values(ports: tuple[Port, ...], safe: Mapping[str, Any]) -> Array:
    if unknown := sorted(set(safe) - {port.name for port in ports}):
        known = ", ".join(port.name for port in ports) or "none"
        raise ValueError(f"there is no received port '{unknown[0]}' to be safe; there are: {known}")
    values = [
        np.broadcast_to(np.asarray(safe.get(p.name, p.within(0.0)), float), p.shape) for p in ports
    ]
    return np.concatenate([np.zeros(0), *map(np.ravel, values)])
