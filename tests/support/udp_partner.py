"""The other side of a link by UDP: a controller in a thread, which may misbehave."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from rigidblocks.bench.packet import OK, Packet, answer, unpacked

Law = Callable[[Packet], tuple[float, ...]]
Mischief = Callable[[Packet, bytes], list[bytes]]


def free_ports(n: int) -> list[str]:
    """Addresses on loopback that are free now."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return found


@contextlib.contextmanager
def partner(
    address: str, n: int, law: Law, mischief: Mischief = lambda _, data: [data]
) -> Iterator[list[Packet]]:
    """Answers each packet of n values by a law, with the packets that `mischief` makes of each
    answer; yields the list of the packets that have come.
    """
    host, port = address.split(":")
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind((host, int(port)))
    own.settimeout(0.02)
    came: list[Packet] = []
    over = threading.Event()

    def serve() -> None:
        sequence = 0
        while not over.is_set():
            try:
                data, sender = own.recvfrom(1 << 16)
            except TimeoutError:
                continue
            fault, packet = unpacked(data, n)
            assert fault == OK, (fault, data)
            assert packet is not None
            came.append(packet)
            sequence += 1
            for reply in mischief(packet, answer(packet, law(packet), sequence)):
                own.sendto(reply, sender)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield came
    finally:
        over.set()
        thread.join()
        own.close()
