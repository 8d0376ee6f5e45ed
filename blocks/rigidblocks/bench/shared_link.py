"""A link by shared memory as a part of a system."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rigidblocks.bench.link import Ends, Transport
from rigidblocks.bench.packet import HEADER_SIZE
from rigidblocks.bench.packet_link import PacketLink
from rigidblocks.bench.shared import Shared
from rigidblocks.block.port import Port

_PAUSE = 2e-5  # s between two looks


class SharedLink(PacketLink):
    """Puts signals into shared memory in every step and gives those that its partner puts there.

        q, tau = Port("q", (2,), "rad"), Port("tau", (2,), "N.m")
        system.add("link", SharedLink("plant", send=[q], receive=[tau]))

    The memory is that of shm_open("/plant"), on Linux, made by the first run and taken away by
    `close`; a partner attaches to it (`bench.shared`, and for other languages
    `c/runner/shared.h`). There is one packet in each direction, the last, behind a lock, so that
    nobody waits for anybody. All else is as in a `UdpLink`: the packet, `timeout`, `lock_step`,
    `safe` and `counts`.

    Raises ValueError for a name that is none, a time limit that is not positive, and safe values
    that do not fit; the first run raises OSError where the memory cannot be had.
    """

    def __init__(
        self,
        memory: str,
        send: Iterable[Port],
        receive: Iterable[Port],
        *,
        timeout: float = 0.01,
        lock_step: bool = False,
        safe: Mapping[str, Any] | None = None,
    ):
        if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}", memory):
            raise ValueError(
                f"shared memory has a name of letters, digits, '_', '.' and '-', not {memory!r}"
            )
        self.memory = memory
        super().__init__(send, receive, timeout, lock_step, safe)

    @property
    def ends(self) -> Ends:
        return Ends("LINK_SHARED", self.memory, "")

    def _open(self) -> Transport:
        sizes = [sum(port.size for port in ports) for ports in (self.inputs, self.outputs)]
        rooms = HEADER_SIZE + 8 * sizes[0], HEADER_SIZE + 8 * sizes[1]
        try:
            return _Memory(Shared(self.memory, rooms))
        except BlockingIOError:
            raise OSError(f"another simulation has the shared memory '{self.memory}'") from None


class _Memory(Transport):
    def __init__(self, shared: Shared):
        self._shared = shared

    def send(self, data: bytes) -> None:
        self._shared.write(data)

    def received(self) -> Iterator[bytes]:
        packet = self._shared.read()
        if packet is not None:
            yield packet

    def wait(self, seconds: float) -> None:
        time.sleep(min(_PAUSE, seconds))

    def close(self) -> None:
        self._shared.close()
