"""Link blocks, which exchange signals as packets over UDP or shared memory."""

import abc
import contextlib
import re
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.external_functions import PythonBlock
from rigidblocks.block.port import Port
from rigidblocks.common.arrays import Array
from rigidblocks.hil.shared_memory import Shared
from rigidblocks.hil.udp_packet import (
    FOREIGN,
    HEADER_SIZE,
    NOT_FINITE,
    OTHER_VERSION,
    WRONG_SIZE,
    Packet,
    pack_packet,
    unpack_packet,
)

END, HOLD, SAFE = "end", "hold", "safe"  # reactions to a missed answer in lock-step
_WAIT_MESSAGE_DELAY = 1.0  # time without an answer after which a link prints a message [s]
_RESEND_INTERVAL = 0.02  # time after which a link resends a packet that the network rejected [s]


@dataclass(frozen=True)
class LinkTimeouts:
    """Timeouts of a link, and its reaction to a missing reply in lock-step.

    Attributes:
        timeout: Longest time without new values [s], or None for the default.
        lock_step: True if each step waits for new values.
        lost: Reaction to a missing reply: "end", "hold", "safe", or None for the default.
        start_timeout: Longest time to wait for the first reply in lock-step [s].
    """

    timeout: float | None = None
    lock_step: bool = False
    lost: str | None = None
    start_timeout: float = 60.0

    def __post_init__(self) -> None:
        for name in ("timeout", "start_timeout"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"the {name} of a link must be positive, not {value} s")
        if self.lost is not None and not self.lock_step:
            raise ValueError(
                f"lost={self.lost!r} needs lock_step=True; without lock-step, the outputs have "
                "their safe values after the timeout"
            )
        if self.lost not in (None, END, HOLD, SAFE):
            raise ValueError(f"lost must be '{END}', '{HOLD}' or '{SAFE}', not {self.lost!r}")

    @property
    def seconds(self) -> float:
        """Timeout [s]; by default 10 s in lock-step and 10 ms otherwise."""
        if self.timeout is not None:
            return float(self.timeout)
        return 10.0 if self.lock_step else 0.01

    @property
    def reaction(self) -> str:
        """Reaction to a missing reply: "end", "hold" or "safe"; "end" in lock-step by default."""
        return self.lost or (END if self.lock_step else SAFE)


class Transport(abc.ABC):
    """Base class of transports, which send and receive packets or CAN frames."""

    is_undelivered = False  # True if the network has rejected the last packet

    @abc.abstractmethod
    def send(self, data: bytes) -> None:
        """Send a packet; raise OSError on failure."""

    @abc.abstractmethod
    def receive(self) -> Iterator[bytes]:
        """Yield all packets that have arrived."""

    @abc.abstractmethod
    def wait(self, seconds: float) -> None:
        """Wait until data have arrived, for at most `seconds` [s]."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release the socket or the shared memory."""


class Ends(NamedTuple):
    """Link type and addresses of a link.

    Attributes:
        kind: Link type, a constant in link.h.
        peer: Address of the peer.
        listen: Listening address.
    """

    kind: str
    peer: str
    listen: str


class Link(PythonBlock, abc.ABC):
    """Block that sends its inputs in every step and outputs the received values.

    The outputs hold the last received values. Before the first packet, and after `timeout` [s]
    without a packet, the outputs have their safe values. `safe` maps port names to safe
    values; the default is the value nearest to zero within the bounds of the port. In lock-step,
    each step waits for new values, for at most `timeout`; `lost` is the reaction to a missing
    reply. `counts` contains the numbers of sent, received and faulty packets or messages.
    """

    def __init__(
        self,
        send: Iterable[Port],
        receive: Iterable[Port],
        waits: "LinkTimeouts",
        safe: Mapping[str, Any] | None,
    ):
        sent, received = tuple(send), tuple(receive)
        self.timeout, self.start_timeout = waits.seconds, float(waits.start_timeout)
        self.lock_step, self.lost = waits.lock_step, waits.reaction
        self._has_met_peer = False
        self.safe = _safe_values(received, safe or {})
        self.counts: Counter[str] = Counter()
        self._transport: Transport | None = None
        self._time: float | None = None
        self._values = self.safe
        super().__init__(self._called_at, sent, received)

    @property
    def name(self) -> str:
        """Name of the link in log messages."""
        return type(self).__name__

    @property
    @abc.abstractmethod
    def ends(self) -> Ends:
        """Link type, peer address and listening address."""

    @abc.abstractmethod
    def _open(self) -> Transport:
        """Open the connection; the first step of a run calls this method."""

    def close(self) -> None:
        """Close the connection; the next run opens it again."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None
        self._has_met_peer = False

    def _called_at(self, t: float, **signals: Any) -> dict[str, Any]:
        self._transport = self._transport or self._open()
        if t != self._time:  # the initialization may call this method repeatedly at one time
            self._time = t
            self._exchange(
                self._transport, t, np.concatenate([np.zeros(0), *map(np.ravel, signals.values())])
            )
        ends = np.cumsum([port.size for port in self.outputs])[:-1]
        parts = np.split(self._values, ends)
        ports = zip(self.outputs, parts, strict=True)
        return {port.name: part.reshape(port.shape) for port, part in ports}

    def _exchange(self, link: Transport, t: float, values: Array) -> None:
        """Send the input values at the time t [s], and store the values that have arrived."""
        self._send(link, t, values)
        self._receive(link)
        if self.lock_step:
            self._wait_for_answer(link, t)
        self._check_timeouts()

    def _wait_for_answer(self, link: Transport, t: float) -> None:
        """Wait for the reply to the values sent at the time t [s].

        If no reply arrives and `lost` is "end", raise TimeoutError.
        """
        began, is_silent = time.monotonic(), False
        is_first = self.lost == END and not self._has_met_peer
        limit = self.start_timeout if is_first else self.timeout
        while not self._is_answered:
            waited = time.monotonic() - began
            if waited >= _WAIT_MESSAGE_DELAY and not is_silent:
                is_silent = True
                print(f"{self.name} is waiting for {self.ends.peer}", file=sys.stderr, flush=True)
            if waited >= limit:
                break
            link.wait(min(limit - waited, _RESEND_INTERVAL))
            self._receive(link)
            if link.is_undelivered:
                time.sleep(min(limit, _RESEND_INTERVAL))
                self._repeat(link)
        if self._is_answered:
            self._has_met_peer = True
        elif self.lost == END:
            raise TimeoutError(
                f"{self.name} has received no answer from {self.ends.peer} within {limit:g} s at "
                f't = {t:.9g} s; start the partner, or set a longer timeout or lost="hold"'
            )

    def _repeat(self, link: Transport) -> None:
        """Send the last packet again, after the network has rejected it."""

    @abc.abstractmethod
    def _send(self, link: Transport, t: float, values: Array) -> None:
        """Send the input values at the time t [s]."""

    @abc.abstractmethod
    def _receive(self, link: Transport) -> None:
        """Store the values that have arrived."""

    @property
    @abc.abstractmethod
    def _is_answered(self) -> bool:
        """True if all values of the current step have arrived; in lock-step, the wait then ends."""

    @abc.abstractmethod
    def _check_timeouts(self) -> None:
        """Set outputs to their safe values if their timeout has expired."""


def _safe_values(ports: tuple[Port, ...], safe: Mapping[str, Any]) -> Array:
    if unknown := sorted(set(safe) - {port.name for port in ports}):
        known = ", ".join(port.name for port in ports) or "none"
        raise ValueError(
            f"a safe value is given for the unknown port '{unknown[0]}'; expected one of the "
            f"received ports: {known}"
        )
    values = [
        np.broadcast_to(np.asarray(safe.get(p.name, p.clip(0.0)), float), p.shape) for p in ports
    ]
    return np.concatenate([np.zeros(0), *map(np.ravel, values)])


_FAULTS = {
    FOREIGN: "foreign",
    OTHER_VERSION: "of another version",
    WRONG_SIZE: "of wrong size",
    NOT_FINITE: "not finite",
}
_HALF = 1 << 31  # half the range of the sequence numbers; a larger difference means a late packet
MOST_VALUES = 8000  # maximum number of values of a packet, which must fit into a UDP datagram


class PacketLink(Link):
    """Link that sends all its signals in one packet per step.

    In lock-step, each step waits for the reply to its packet, for at most `timeout`.
    """

    def __init__(
        self,
        send: Iterable[Port],
        receive: Iterable[Port],
        waits: LinkTimeouts,
        safe: Mapping[str, Any] | None,
    ):
        sent, received = tuple(send), tuple(receive)
        if max(sum(port.size for port in ports) for ports in (sent, received)) > MOST_VALUES:
            raise ValueError(f"a link transfers at most {MOST_VALUES} values in each direction")
        self._sequence, self._last, self._answered, self._heard = 0, 0, 0, time.monotonic()
        self._is_safe = False
        self._packet = b""
        super().__init__(sent, received, waits, safe)

    def _send(self, link: Transport, t: float, values: Array) -> None:
        self._sequence = self._sequence % 0xFFFFFFFF + 1
        self._packet = pack_packet(Packet(self._sequence, self._last, t, tuple(values.tolist())))
        link.is_undelivered = False
        try:
            link.send(self._packet)
            self.counts["sent"] += 1
        except OSError:
            self.counts["unsent"] += 1

    def _repeat(self, link: Transport) -> None:
        link.is_undelivered = False
        with contextlib.suppress(OSError):
            link.send(self._packet)

    @property
    def _is_answered(self) -> bool:
        return self._answered == self._sequence

    def _check_timeouts(self) -> None:
        silent = time.monotonic() - self._heard > self.timeout
        if not self._is_answered if self.lock_step else silent:
            self.counts["watchdog events"] += not self._is_safe
            self._is_safe = True
        if (self._is_safe and self.lost != HOLD) or not self._last:
            self.counts["steps with safe values"] += 1
            self._values = self.safe

    def _receive(self, link: Transport) -> None:
        for data in link.receive():
            fault, packet = unpack_packet(data, self.safe.size)
            if packet is None:
                self.counts[_FAULTS[fault]] += 1
            else:
                self._accept(packet)

    def _accept(self, packet: Packet) -> None:
        """Store the values of a packet, unless the packet is a duplicate or late.

        After a timeout, a packet with an older sequence number counts as a restart of the peer. In
        lock-step, the reply to the current packet may have any sequence number.
        """
        ahead = (packet.sequence - self._last) % (1 << 32)
        is_answer = self.lock_step and packet.echo == self._sequence
        if self.lock_step and not is_answer:
            self.counts["late"] += 1
        if self._last and ahead == 0 and not (is_answer and not self._is_answered):
            self.counts["doubled"] += 1
            return
        if self._last and (ahead == 0 or ahead >= _HALF):
            if not is_answer and time.monotonic() - self._heard <= self.timeout:
                self.counts["late"] += not self.lock_step
                return
            self.counts["restarts of the partner"] += 1
        elif self._last:
            self.counts["lost"] += ahead - 1
        self._last, self._answered, self._heard = packet.sequence, packet.echo, time.monotonic()
        self._is_safe = False
        self.counts["received"] += 1
        self._values = np.array(packet.values)


@dataclass(frozen=True)
class Addresses:
    """Address of the peer and listening address of a link, such as "127.0.0.1:5005".

    The default addresses are loopback addresses.
    """

    peer: str = "127.0.0.1:5005"
    listen: str = "127.0.0.1:5006"

    def __post_init__(self) -> None:
        self.parse("peer")
        self.parse("listen")

    def parse(self, name: str) -> tuple[str, int]:
        """Return the host and the port of an address; raise ValueError if it is invalid.

        `name` is "peer" or "listen".
        """
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
    """Block that exchanges signals with another program over UDP in every step.

        q, tau = Port("q", (2,), "rad"), Port("tau", (2,), "N.m")
        system.add("link", UdpLink(send=[q], receive=[tau]))

    `hil.udp_packet` defines the packet format for Python, and `c/runner/packet.h` for C. The
    outputs hold the last received values. Before the first packet, and after `timeout` without a
    packet, the outputs have their safe values. `counts` contains the numbers of sent, received,
    lost, late, duplicate and faulty packets. In programs of `build_runner`, the link is
    implemented in C.

    The first run opens the socket; `close` closes the socket.

    Args:
        send: Ports to send, the inputs of the block.
        receive: Ports to receive, the outputs of the block.
        peer: Address of the peer.
        listen: Address at which the link receives packets.
        timeout: Time [s] without a packet after which the outputs have their safe values. The
            default is 10 ms, or 10 s in lock-step.
        lock_step: Wait in each step for the reply to the sent packet, at most `timeout`.
        lost: Reaction to a missing reply in lock-step. "end", the default, ends the run with an
            error. "hold" holds the last received values, and "safe" sets the safe values.
        start_timeout: Longest time [s] to wait for the first reply, if lost="end".
        safe: Safe values by names of received ports. The default is the value nearest to zero
            within the bounds of the port.

    Raises:
        ValueError: An address is invalid, the timeout is not positive, or a safe value is invalid.
        OSError: The first run cannot open the socket.
    """

    def __init__(
        self,
        send: Iterable[Port],
        receive: Iterable[Port],
        *,
        peer: str = Addresses.peer,
        listen: str = Addresses.listen,
        timeout: float | None = None,
        lock_step: bool = False,
        lost: str | None = None,
        start_timeout: float = LinkTimeouts.start_timeout,
        safe: Mapping[str, Any] | None = None,
    ):
        self.addresses = Addresses(peer, listen)
        super().__init__(send, receive, LinkTimeouts(timeout, lock_step, lost, start_timeout), safe)

    @property
    def ends(self) -> Ends:
        return Ends("LINK_UDP", self.addresses.peer, self.addresses.listen)

    def _open(self) -> Transport:
        return _Datagrams(self.addresses, reports_errors=self.lock_step)


_IP_RECVERR = 11  # Linux: report network errors of sent packets (no constant before Python 3.14)
_MAX_ERRORS = 100  # maximum number of network errors that a call of `receive` skips


class _Datagrams(Transport):
    def __init__(self, addresses: Addresses, *, reports_errors: bool = False):
        self._peer = addresses.parse("peer")
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.bind(addresses.parse("listen"))
        except OSError as error:
            self._socket.close()
            raise OSError(
                f"the link cannot listen at {addresses.listen}: {error.strerror}; another "
                "program may use this address"
            ) from error

        if reports_errors and sys.platform == "linux":
            self._socket.setsockopt(socket.IPPROTO_IP, _IP_RECVERR, 1)

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendto(data, self._peer)
        except ConnectionRefusedError:  # the peer has rejected an earlier packet
            self._socket.sendto(data, self._peer)

    def receive(self) -> Iterator[bytes]:
        errors = 0
        while errors < _MAX_ERRORS:
            try:
                yield self._socket.recv(1 << 16)
            except BlockingIOError:  # no packet is left
                return
            except OSError:  # the network has rejected a packet
                errors += 1
                self.is_undelivered = True
                self._drop_errors()

    def _drop_errors(self) -> None:
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                while True:
                    self._socket.recvmsg(1 << 16, 0, socket.MSG_ERRQUEUE)

    def wait(self, seconds: float) -> None:
        select.select([self._socket], [], [], seconds)

    def close(self) -> None:
        self._socket.close()


_PAUSE = 2e-5  # time between two read attempts [s]


class SharedLink(PacketLink):
    """Block that exchanges signals with another program over shared memory (Linux).

        q, tau = Port("q", (2,), "rad"), Port("tau", (2,), "N.m")
        system.add("link", SharedLink("plant", send=[q], receive=[tau]))

    The exchange takes place in every step, in the shared memory of shm_open("/plant"). The first
    run creates the shared memory, and `close` removes it. The peer opens it with
    `hil.shared_memory`, or in C with `c/runner/shared_memory.h`. For each direction, the shared
    memory contains the last packet and a sequence lock, so reads and writes never block. The packet
    format, the timeouts, `lock_step`, `lost`, `safe` and `counts` are as in `UdpLink`.

    Args:
        memory: Name of the shared memory: letters, digits, '_', '.' and '-'.
        send: Ports to send, the inputs of the block.
        receive: Ports to receive, the outputs of the block.
        timeout: Time [s] without a packet after which the outputs have their safe values. The
            default is 10 ms, or 10 s in lock-step.
        lock_step: Wait in each step for the reply to the sent packet, at most `timeout`.
        lost: Reaction to a missing reply in lock-step. "end", the default, ends the run with an
            error. "hold" holds the last received values, and "safe" sets the safe values.
        start_timeout: Longest time [s] to wait for the first reply, if lost="end".
        safe: Safe values by names of received ports.

    Raises:
        ValueError: The name is invalid, the timeout is not positive, or a safe value is invalid.
        OSError: The first run cannot create the shared memory.
    """

    def __init__(
        self,
        memory: str,
        send: Iterable[Port],
        receive: Iterable[Port],
        *,
        timeout: float | None = None,
        lock_step: bool = False,
        lost: str | None = None,
        start_timeout: float = LinkTimeouts.start_timeout,
        safe: Mapping[str, Any] | None = None,
    ):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}", memory):
            raise ValueError(
                f"invalid name {memory!r} of shared memory; use letters, digits, '_', '.' and '-'"
            )
        self.memory = memory
        super().__init__(send, receive, LinkTimeouts(timeout, lock_step, lost, start_timeout), safe)

    @property
    def ends(self) -> Ends:
        return Ends("LINK_SHARED", self.memory, "")

    def _open(self) -> Transport:
        sizes = [sum(port.size for port in ports) for ports in (self.inputs, self.outputs)]
        max_sizes = HEADER_SIZE + 8 * sizes[0], HEADER_SIZE + 8 * sizes[1]
        try:
            return _Memory(Shared(self.memory, max_sizes))
        except BlockingIOError:
            raise OSError(f"another simulation uses the shared memory '{self.memory}'") from None


class _Memory(Transport):
    def __init__(self, shared: Shared):
        self._shared = shared

    def send(self, data: bytes) -> None:
        self._shared.write(data)

    def receive(self) -> Iterator[bytes]:
        packet = self._shared.read()
        if packet is not None:
            yield packet

    def wait(self, seconds: float) -> None:
        time.sleep(min(_PAUSE, seconds))

    def close(self) -> None:
        self._shared.close()
