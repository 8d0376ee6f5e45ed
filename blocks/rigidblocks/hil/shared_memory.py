"""Exchange of packets in shared memory, in the format of `shared_memory.h`.

This file needs only the Python standard library, so a peer in Python can use a copy of this file.
It requires Linux and a processor with total store order (TSO), such as x86-64. For other
processors, use `shared_memory.h`.
"""

import fcntl
import mmap
import os
import struct
from pathlib import Path

MAGIC, VERSION = 0x4D534252, 1  # the bytes "RBSM"; version of the format
_HEAD, _CHANNEL = 64, 16  # size of the header, and of the header of each channel [bytes]
_WORDS = {"magic": 0, "open": 1, "max_sizes": 2}  # header offsets in words of 8 bytes
_TRIES = 100  # maximum number of attempts to read a packet while the peer writes it
_FOLDER = Path("/dev/shm")


class Shared:
    """One end of a shared memory with a channel in each direction.

    Each channel contains the last packet and a sequence lock: a counter that is odd during a write.
    The simulation passes `max_sizes` to create the shared memory: the maximum sizes [bytes] of a
    sent and of a received packet. The peer omits `max_sizes` to open the existing shared memory.

    Raises OSError if the shared memory is not available.
    """

    def __init__(self, name: str, max_sizes: tuple[int, int] | None = None):
        self._path = _FOLDER / name
        self._side = int(max_sizes is None)
        file = (
            _create_file(self._path, max_sizes)
            if max_sizes
            else os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        )
        self._file = file
        try:
            size = os.fstat(file).st_size
            if size < _HEAD:
                raise OSError(f"the shared memory {self._path} is not initialized")
            self._map = mmap.mmap(file, size)
        except BaseException:
            os.close(file)
            raise
        self._words = memoryview(self._map).cast("Q")
        if max_sizes:
            first = _WORDS["max_sizes"]
            self._words[first], self._words[first + 1] = map(_round_up, max_sizes)
            self._words[0] = MAGIC | VERSION << 32
        elif self._words[0] != MAGIC | VERSION << 32:
            self.close()
            raise OSError(
                f"{self._path} is not the memory of a link, or belongs to another version of "
                "rigidblocks"
            )
        room = self._words[_WORDS["max_sizes"]]
        first, second = _HEAD // 8, (_HEAD + _CHANNEL + room) // 8
        self._to, self._of = (second, first) if self._side else (first, second)
        self._room = self._words[_WORDS["max_sizes"] + self._side]
        # ignore a packet of an earlier run
        self._seen = 0 if self._side else self._words[self._of]
        if not self._side:
            self._words[_WORDS["open"]] = 1

    @property
    def is_open(self) -> bool:
        """True while the simulation uses the shared memory."""
        return bool(self._words[_WORDS["open"]])

    def write(self, packet: bytes) -> None:
        """Replace the last packet; raise ValueError for a packet that is too long."""
        if len(packet) > self._room:
            raise ValueError(
                f"the packet has {len(packet)} bytes; at most {self._room} fit into the shared "
                "memory"
            )
        words, at = self._words, self._to
        words[at] = lock = words[at] + 1 | 1
        words[at + 1] = len(packet)
        self._map[8 * at + _CHANNEL : 8 * at + _CHANNEL + len(packet)] = packet
        words[at] = (lock + 1) % (1 << 64)

    def read(self) -> bytes | None:
        """Return the last packet of the other program, or None if there is no new packet."""
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
        """Close this end; the simulation, which creates the shared memory, also deletes it."""
        if self._file < 0:
            return
        if not self._side:
            self._words[_WORDS["open"]] = 0
            self._path.unlink(missing_ok=True)
        self._words.release()
        self._map.close()
        os.close(self._file)
        self._file = -1


def _round_up(size: int) -> int:
    """Round a size [bytes] up to a multiple of the word size."""
    return (size + 7) // 8 * 8


def _create_file(path: Path, max_sizes: tuple[int, int]) -> int:
    """Create or open the file of a shared memory with two channels.

    `max_sizes` contains the maximum packet size [bytes] of each channel.

    Raises BlockingIOError if another simulation uses the file. A file of the same layout from a
    killed simulation is reused, because the peer may still have the file open.
    """
    size = _HEAD + sum(_CHANNEL + _round_up(room) for room in max_sizes)
    same = struct.pack("=2Q", *map(_round_up, max_sizes))
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
    raise OSError(f"cannot create the shared memory {path}")
