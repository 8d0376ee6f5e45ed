"""Remote side of a UDP link: a controller in a thread, with optional faults."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from rigidblocks.hil.udp_packet import OK, Packet, answer, unpack_packet

Law = Callable[[Packet], tuple[float, ...]]
Mischief = Callable[[Packet, bytes], list[bytes]]


def free_ports(n: int) -> list[str]:
    """Return free addresses on loopback."""
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
    """Answer each packet of n values by a law; yield the list of received packets.

    `mischief` replaces an answer by the packets to send.
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
            fault, packet = unpack_packet(data, n)
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
