"""Lanes: how many numbers the processor takes in one operation, and work on rows by threads."""

import ctypes
import os
import platform
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.tracing.ccode import c_text
from rigidblocks.tracing.compiler import PORTABLE_FLAGS, compiler, shared_library, version

LANES = (2, 4, 8)
_ALIGNED = 64  # bytes
_PROCESSORS = {4: "x86-64-v3", 8: "x86-64-v4"}


@cache
def widest() -> int:
    """The most lanes that the processor at hand has operations for: 8 with AVX-512 (x86-64-v4), 4
    with AVX2 (x86-64-v3), else 2, as every x86-64 and every 64-bit ARM has them. Needs a compiler.
    """
    library = ctypes.CDLL(str(shared_library({"widest.c": c_text("lanes/widest.c")}, "widest.c")))
    return int(library.widest())


def lane_count(lanes: int | None) -> int:
    """The number of lanes that was asked for, by default the widest; raises ValueError where there
    is none such.
    """
    if lanes is None:
        return widest()
    if lanes not in LANES:
        raise ValueError(f"lanes must be one of {', '.join(map(str, LANES))}, not {lanes!r}")
    return lanes


def lane_flags(lanes: int) -> tuple[str, ...]:
    """The flags of the compiler for so many lanes: the operations of the processor where it has
    them. The numbers do not depend on them.
    """
    here = platform.machine().lower() in ("x86_64", "amd64")
    own = _PROCESSORS.get(min(lanes, widest())) if here else None
    # -O3 unrolls the loops over lanes
    more = ["-O3", "-Wno-psabi", f"-DRB_LANES={lanes}"]
    if "Free Software Foundation" in version(compiler()):  # gcc keeps more numbers in registers so
        more += ["-fschedule-insns", "-fsched-pressure"]
    return (*PORTABLE_FLAGS, *more, *([f"-march={own}"] if own else []))


def wide_flags() -> tuple[str, ...]:
    """The flags of the compiler for loops that take the vectors of the processor at hand, AVX2
    where it has them. The numbers do not depend on them.
    """
    here = platform.machine().lower() in ("x86_64", "amd64")
    return ("-mavx2",) if here and widest() >= 4 else ()


def room(numbers: int, lanes: int) -> Array:
    """Memory for so many numbers in lanes, where vectors may lie."""
    whole = np.zeros(numbers * lanes + _ALIGNED // 8)
    skipped = -whole.ctypes.data % _ALIGNED // 8
    return whole[skipped : skipped + numbers * lanes]


def in_threads(work: Callable[[int, int], None], n: int, threads: int | None, most: int) -> None:
    """Calls `work` with the first row and the one past the last of parts of n rows, in `threads` at
    once, by default as many as there are processors. A part has at most about `most` rows, a
    multiple of the most lanes but for the last one.

    Raises what one of them raises, when all have ended.
    """
    count = _processors() if threads is None else threads
    if count < 1:
        raise ValueError(f"threads must be at least 1, not {threads}")
    size = max(LANES) * max(-(-min(most, -(-n // count)) // max(LANES)), 1)
    starts, stopped = iter(range(0, n, size)), threading.Event()

    def parts() -> None:
        for first in starts:  # each is had by one thread
            if stopped.is_set():
                return
            work(first, min(first + size, n))

    others = [_pool().submit(parts) for _ in range(min(count, -(-n // size)) - 1)]
    try:
        parts()
        for other in others:
            other.result()
    except BaseException:
        stopped.set()
        wait(others)
        raise


def _processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_lock = threading.Lock()
_pools: dict[int, ThreadPoolExecutor] = {}


def _pool() -> ThreadPoolExecutor:
    """The threads of this process, which a fork of it does not have."""
    with _lock:
        if os.getpid() not in _pools:
            _pools.clear()
            _pools[os.getpid()] = ThreadPoolExecutor(thread_name_prefix="rigidblocks-lanes")
        return _pools[os.getpid()]
