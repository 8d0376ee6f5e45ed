"""A small XCP master on UDP, written only from the standard, independent of our C code."""

import contextlib
import re
import socket
import struct
import time
from collections.abc import Iterator

CONNECT, DISCONNECT, STATUS, SYNCH, SET_MTA, UPLOAD, DOWNLOAD = 255, 254, 253, 252, 246, 245, 240
FREE_DAQ, ALLOC_DAQ, ALLOC_ODT, ALLOC_ENTRY, SET_POINTER, WRITE_DAQ = 214, 213, 212, 211, 226, 225
SET_MODE, START_LIST, START_SYNCH = 224, 222, 221


class RefusalError(Exception):
    """Error code that a program answered."""


def enlarge_receive_buffer(link: socket.socket) -> None:
    """Enlarge the receive buffer of a socket, so that a suspended process loses no packets."""
    with contextlib.suppress(OSError):
        link.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)  # SO_RCVBUFFORCE of Linux


class XcpMaster:
    """Commands to an address and their answers.

    `samples` keeps the signal packets that arrive in between.
    """

    def __init__(self, address: str):
        host, port = address.split(":")
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.settimeout(5.0)
        enlarge_receive_buffer(self.socket)
        self.socket.connect((host, int(port)))
        self.samples: list[bytes] = []
        self.counters: list[int] = []
        self.sent = 0

    def connect(self) -> None:
        """Connect with repeated attempts.

        A starting program does not listen yet, and a busy one may lose a command.
        """
        for _ in range(200):
            try:
                self.ask(CONNECT, 0)
            except ConnectionRefusedError:
                time.sleep(0.05)
            except TimeoutError:
                continue
            else:
                return
        raise TimeoutError("the program does not listen")

    def send(self, command: bytes) -> None:
        """Send a command without waiting for its answer."""
        self.socket.send(struct.pack("<HH", len(command), self.sent % 65536) + command)
        self.sent += 1

    def messages(self) -> Iterator[bytes]:
        """Yield the packets of the next datagram."""
        data = self.socket.recv(2048)
        while data:
            size, counter = struct.unpack_from("<HH", data)
            self.counters.append(counter)
            yield data[4 : 4 + size]
            data = data[4 + size :]

    def receive(self) -> bytes | None:
        """Receive the next datagram; return the answer in it, if there is one."""
        answer = None
        for packet in self.messages():
            if packet[0] >= 252:
                answer = packet
            else:
                self.samples.append(packet)
        return answer

    def ask(self, *command: int | bytes) -> bytes:
        """Return the answer to a command of bytes and numbers below 256."""
        self.send(b"".join(bytes([one]) if isinstance(one, int) else one for one in command))
        answer = None
        while answer is None:
            answer = self.receive()
        if answer[0] == 254:
            raise RefusalError(answer[1])
        return answer

    def read(self, address: int, n: int = 1) -> tuple[float, ...]:
        """Return n doubles from an address."""
        self.ask(SET_MTA, 0, 0, 0, struct.pack("<I", address))
        return struct.unpack(f"<{n}d", self.ask(UPLOAD, 8 * n)[1:])

    def write(self, address: int, *values: float) -> None:
        """Write doubles from an address."""
        self.ask(SET_MTA, 0, 0, 0, struct.pack("<I", address))
        data = struct.pack(f"<{len(values)}d", *values)
        self.ask(DOWNLOAD, len(data), data)

    def measure(self, *tables: list[int], prescaler: int = 1) -> None:
        """Start a DAQ list with time stamps for the doubles at the addresses in each table."""
        self.ask(FREE_DAQ)
        self.ask(ALLOC_DAQ, 0, b"\1\0")
        self.ask(ALLOC_ODT, 0, b"\0\0", len(tables))
        for k, addresses in enumerate(tables):
            self.ask(ALLOC_ENTRY, 0, b"\0\0", k, len(addresses))
        for k, addresses in enumerate(tables):
            self.ask(SET_POINTER, 0, b"\0\0", k, 0)
            for address in addresses:
                self.ask(WRITE_DAQ, 255, 8, 0, struct.pack("<I", address))
        self.ask(SET_MODE, 16, b"\0\0", b"\0\0", prescaler, 0)
        self.ask(START_LIST, 1, b"\0\0")

    def rows(self) -> list[tuple[float, ...]]:
        """Return time [s] and values of the samples of a DAQ list with one table."""
        sizes = [(len(packet) - 6) // 8 for packet in self.samples]
        found = zip(sizes, self.samples, strict=True)
        raw = [struct.unpack(f"<I{n}d", packet[2:]) for n, packet in found]
        return [(1e-6 * row[0], *row[1:]) for row in raw]


@contextlib.contextmanager
def connected(address: str) -> Iterator[XcpMaster]:
    """Yield a connected master."""
    master = XcpMaster(address)
    try:
        master.connect()
        yield master
        master.ask(DISCONNECT)
    finally:
        master.socket.close()


def addresses_in(a2l: str) -> dict[str, int]:
    """Return the addresses of the signals and parameters in an A2L file."""
    found = re.findall(r"begin MEASUREMENT (\S+) .*?ECU_ADDRESS (0x\w+)", a2l)
    found += re.findall(r"begin CHARACTERISTIC (\S+) .*? VALUE (0x\w+)", a2l)
    return {name: int(address, 16) for name, address in found}
