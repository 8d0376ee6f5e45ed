"""Packets in shared memory, as `shared.h` has it; this file needs nothing but Python itself, so
that a partner in Python can have a copy of it. It is for Linux, and for processors that keep the
order of stores, as those of x86 do; for others take `shared.h`.
"""

import fcntl
import mmap
import os
import struct
from pathlib import Path

MAGIC, VERSION = 0x4D534252, 1  # "RBSM"
_HEAD, _CHANNEL = 64, 16  # bytes before the first channel, and before the packet in one
_WORDS = {"magic": 0, "open": 1, "rooms": 2}  # of 8 bytes
_TRIES = 100  # to read a packet that is being written
_FOLDER = Path("/dev/shm")


class Shared:
    """One side of a piece of shared memory with a channel in each direction. Each channel has the
    last packet, behind a lock that is odd while it is written.

    The simulation makes it with `rooms`, the bytes of the packets that it sends and receives; its
    partner attaches to what there is. Raises OSError where that cannot be had.
    """

    def __init__(self, name: str, rooms: tuple[int, int] | None = None):
        self._path = _FOLDER / name
        self._side = int(rooms is None)
        file = _made(self._path, rooms) if rooms else os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        self._file = file
        try:
            size = os.fstat(file).st_size
            if size < _HEAD:
                raise OSError(f"{self._path} is not ready")
            self._map = mmap.mmap(file, size)
        except BaseException:
            os.close(file)
            raise
        self._words = memoryview(self._map).cast("Q")
        if rooms:
            first = _WORDS["rooms"]
            self._words[first], self._words[first + 1] = map(_whole, rooms)
            self._words[0] = MAGIC | VERSION << 32
        elif self._words[0] != MAGIC | VERSION << 32:
            self.close()
            raise OSError(f"{self._path} is no memory of a link, or of another version")
        room = self._words[_WORDS["rooms"]]
        first, second = _HEAD // 8, (_HEAD + _CHANNEL + room) // 8
        self._to, self._of = (second, first) if self._side else (first, second)
        self._room = self._words[_WORDS["rooms"] + self._side]
        # what a partner has left there before is old
        self._seen = 0 if self._side else self._words[self._of]
        if not self._side:
            self._words[_WORDS["open"]] = 1

    @property
    def is_open(self) -> bool:
        """Whether the simulation goes on."""
        return bool(self._words[_WORDS["open"]])

    def write(self, packet: bytes) -> None:
        """Puts a packet in place of the last one; ValueError for one that is too long."""
        if len(packet) > self._room:
            raise ValueError(f"a packet of {len(packet)} bytes; there is room for {self._room}")
        words, at = self._words, self._to
        words[at] = lock = words[at] + 1 | 1
        words[at + 1] = len(packet)
        self._map[8 * at + _CHANNEL : 8 * at + _CHANNEL + len(packet)] = packet
        words[at] = (lock + 1) % (1 << 64)

    def read(self) -> bytes | None:
        """The last packet of the other side; None where it is not new."""
        words, at = self._words, self._of
        for _ in range(_TRIES):
            before = words[at]
            if before == self._seen:
                return None
            if before % 2 == 0:
                begin, size = 8 * at + _CHANNEL, words[at + 1]
                packet = self._map[begin : min(begin + size, len(self._map))]
                if words[at] == before:
                    self._seen = before
                    return packet
        return None

    def close(self) -> None:
        """Ends it; that of the simulation is gone then."""
        if self._file < 0:
            return
        if not self._side:
            self._words[_WORDS["open"]] = 0
            self._path.unlink(missing_ok=True)
        self._words.release()
        self._map.close()
        os.close(self._file)
        self._file = -1


def _whole(size: int) -> int:
    """Bytes that whole words have."""
    return (size + 7) // 8 * 8


def _made(path: Path, rooms: tuple[int, int]) -> int:
    """A file of the right length that no other simulation has: that of one that was killed, where
    its partner may be attached, or a new one.
    """
    size = _HEAD + sum(_CHANNEL + _whole(room) for room in rooms)
    same = struct.pack("=2Q", *map(_whole, rooms))
    for _ in range(2):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = os.fstat(file).st_size
            if there == 0 or (there == size and os.pread(file, 16, 16) == same):
                os.truncate(file, size)
                return file
            path.unlink()
        except BaseException:
            os.close(file)
            raise
        os.close(file)
    raise OSError(f"{path} cannot be made anew")
