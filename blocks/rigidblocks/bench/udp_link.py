"""A link by UDP as a part of a system."""

import select
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rigidblocks.bench.link import Ends, Transport
from rigidblocks.bench.packet_link import PacketLink
from rigidblocks.block.port import Port


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


class UdpLink(PacketLink):
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
        self.addresses = Addresses(peer, listen)
        super().__init__(send, receive, timeout, lock_step, safe)

    @property
    def ends(self) -> Ends:
        return Ends("LINK_UDP", self.addresses.peer, self.addresses.listen)

    def _open(self) -> Transport:
        return _Datagrams(self.addresses)


class _Datagrams(Transport):
    def __init__(self, addresses: Addresses):
        self._peer = addresses.parsed("peer")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.bind(addresses.parsed("listen"))
        except OSError as error:
            self._socket.close()
            raise OSError(
                f"the link cannot listen at {addresses.listen}: {error.strerror}; another "
                "program may do so already"
            ) from error

    def send(self, data: bytes) -> None:
        self._socket.sendto(data, self._peer)

    def received(self) -> Iterator[bytes]:
        while True:
            try:
                yield self._socket.recv(1 << 16)
            except OSError:  # there is nothing more
                return

    def wait(self, seconds: float) -> None:
        select.select([self._socket], [], [], seconds)

    def close(self) -> None:
        self._socket.close()
