"""The loop over the parts of a run in C, and the table that it works on: `c/master/master.h`."""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from ctypes import Structure, c_double, c_int, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.tracing.ccode import c_text
from rigidblocks.tracing.compiler import shared_library

BLOCK, FMI2, FMI3, HOSTED = range(4)
CALLS = SET, STEP, GET = range(3)
DONE, FAILED, NOT_FINITE = range(3)
UNUSUAL = 100  # the status of a step of FMI 3.0 that ended early or in an event


class _Copy(Structure):
    _fields_ = (("start", c_void_p), ("to", c_void_p), ("n", c_int64))


class _Scale(Structure):
    _fields_ = (("value", c_void_p), ("factor", c_double), ("offset", c_double))


class _Variables(Structure):
    _fields_ = (
        ("function", c_void_p),
        ("references", c_void_p),
        ("n", c_int64),
        ("values", c_void_p),
        ("n_values", c_int64),
    )


class _Part(Structure):
    _fields_ = (
        ("kind", c_int64),
        ("number", c_int64),
        ("instance", c_void_p),
        ("step", c_void_p),
        ("set", _Variables),
        ("get", _Variables),
        ("wires", c_void_p),
        ("n_wires", c_int64),
        ("scales", c_void_p),
        ("n_scales", c_int64),
        ("clock", c_void_p),
        ("may_go_back", c_void_p),
    )


_Judge = ctypes.CFUNCTYPE(c_int, c_int, c_int, c_int, c_double, c_double)
_Host = ctypes.CFUNCTYPE(c_int, c_int, c_double, c_double)


class _Loop(Structure):
    _fields_ = (
        ("parts", c_void_p),
        ("n_parts", c_int64),
        ("simultaneous", c_int64),
        ("checked", c_void_p),
        ("n_checked", c_int64),
        ("kept", c_void_p),
        ("n_kept", c_int64),
        ("judge", _Judge),
        ("host", _Host),
        ("t_start", c_double),
        ("dt", c_double),
        ("k", c_int64),
        ("end", c_int64),
        ("every", c_int64),
        ("time", c_void_p),
        ("rows", c_void_p),
        ("room", c_int64),
        ("filled", c_int64),
        ("patience", c_double),
        ("part", c_int64),
        ("status", c_int64),
    )


class Variables(NamedTuple):
    """What is set or got in an FMU: the address of the function, the references (n,) as unsigned
    32-bit integers, and the values.
    """

    function: int
    references: Array
    values: Array


@dataclass(frozen=True, eq=False)
class Entry:
    """How the loop in C steps a part: the kind and the address of its functions, and of what they
    are called on.

    An FMU has variables to set and to get, a `clock` (1,) that has the time of its step [s], and
    whether its host may go back to the start of the step, as a 32-bit integer (1,).
    """

    kind: int
    instance: int = 0
    step: int = 0
    set: Variables | None = None
    get: Variables | None = None
    clock: Array | None = None
    may_go_back: Array | None = None


Wire = tuple[Array, Array]  # views of the source and of the target
Scale = tuple[Array, Array, Array]  # a view of values that become factor value + offset


class Row(NamedTuple):
    """A part in the table, with the wires to its inputs, and the scales of those whose units differ
    from their sources'.
    """

    entry: Entry
    wires: Sequence[Wire] = ()
    scales: Sequence[Scale] = ()


@cache
def library() -> Any:
    """The loop, compiled once for a machine. Raises CompilerError where there is no compiler."""
    sources = {name: c_text(f"master/{name}") for name in ("master.h", "master.c")}
    loaded = ctypes.CDLL(str(shared_library(sources, "master.c")))
    loaded.master_run.argtypes = (c_void_p,)
    loaded.master_step.argtypes = (c_void_p, c_double, c_double)
    return loaded


class Loop:
    """The loop over parts in the order of their steps.

    `checked` are views of the outputs that no step checks for being finite. `judge(part, call,
    status, t, dt)` says whether the run stops for what a call on an FMU returned, `host(part, t,
    dt)` steps a part that is hosted and says whether that failed; parts have the numbers of their
    places.
    """

    def __init__(
        self,
        parts: Sequence[Row],
        checked: Iterable[Array],
        simultaneous: bool,
        judge: Callable[..., bool],
        host: Callable[..., bool],
    ):
        self._alive: list[Any] = [parts]
        table = (_Part * len(parts))(*(self._part(k, *part) for k, part in enumerate(parts)))
        self._alive.append(table)
        checks = self._copies((view, view) for view in checked)
        self._loop = _Loop(
            parts=ctypes.addressof(table),
            n_parts=len(parts),
            simultaneous=simultaneous,
            checked=checks[0],
            n_checked=checks[1],
            judge=_Judge(judge),
            host=_Host(host),
        )
        address = ctypes.addressof(self._loop)
        self._run = partial(library().master_run, address)
        self._step = partial(library().master_step, address)

    def keep(self, outputs: Iterable[Array]) -> None:
        """From now on, these views make a row."""
        self._loop.kept, self._loop.n_kept = self._copies((view, view) for view in outputs)

    @property
    def part(self) -> int:
        """The part that has failed."""
        return int(self._loop.part)

    @property
    def status(self) -> int:
        """The status of its step, where it is a block."""
        return int(self._loop.status)

    def step(self, t: float, dt: float) -> int:
        """Steps from t to t + dt; returns how that ended."""
        ending: int = self._step(t, dt)
        return ending

    def run(
        self,
        points: tuple[float, float],
        steps: tuple[int, int],
        every: int,
        room: tuple[Array, Array],
        patience: float,
    ) -> tuple[int, int, int]:
        """Takes steps from the first of `steps` on to the second at `points` (t_start, dt), and
        writes the time and the row of each `every`-th of them to `room`.

        It comes back earlier when the room or the patience [s] is used up, or something fails.
        Returns how it ended, the step that it came to, and the number of rows.
        """
        loop, (time, rows) = self._loop, room
        loop.t_start, loop.dt = points
        loop.k, loop.end = steps
        loop.every, loop.patience = every, patience
        loop.time, loop.rows = time.ctypes.data, rows.ctypes.data
        loop.room, loop.filled = len(time), 0
        ending: int = self._run()
        return ending, loop.k, loop.filled

    def _part(
        self, number: int, entry: Entry, wires: Sequence[Wire], scales: Sequence[Scale]
    ) -> _Part:
        copies, n = self._copies(wires)
        converted, n_scales = self._scales(scales)
        return _Part(
            kind=entry.kind,
            number=number,
            instance=entry.instance,
            step=entry.step,
            set=_variables(entry.set),
            get=_variables(entry.get),
            wires=copies,
            n_wires=n,
            scales=converted,
            n_scales=n_scales,
            clock=None if entry.clock is None else entry.clock.ctypes.data,
            may_go_back=None if entry.may_go_back is None else entry.may_go_back.ctypes.data,
        )

    def _scales(self, scales: Sequence[Scale]) -> tuple[int, int]:
        """The address and the number of the scales of single values."""
        found = [
            _Scale(address, factor, offset)
            for target, factors, offsets in scales
            for address, factor, offset in zip(_addresses(target), factors, offsets, strict=True)
        ]
        table = (_Scale * len(found))(*found)
        self._alive.append(table)
        return ctypes.addressof(table), len(found)

    def _copies(self, pairs: Iterable[Wire]) -> tuple[int, int]:
        """The address and the length of the copies between views."""
        found = list(runs(pairs))
        copies = (_Copy * len(found))(*(_Copy(*one) for one in found))
        self._alive.append(copies)
        return ctypes.addressof(copies), len(found)


def runs(pairs: Iterable[Wire]) -> Iterable[tuple[int, int, int]]:
    """Copies (from, to, n) of n doubles next to each other between addresses, for views of floats
    of equal shape.
    """
    last: tuple[int, int, int] | None = None
    for source, target in pairs:
        for start, to, n in _pieces(source, target):
            if last and (start, to) == (last[0] + 8 * last[2], last[1] + 8 * last[2]):
                last = (last[0], last[1], last[2] + n)
                continue
            if last:
                yield last
            last = (start, to, n)
    if last:
        yield last


def _pieces(source: Array, target: Array) -> Iterable[tuple[int, int, int]]:
    assert source.dtype == target.dtype == float
    assert source.shape == target.shape
    if source.flags.c_contiguous and target.flags.c_contiguous:
        return [(source.ctypes.data, target.ctypes.data, source.size)] if source.size else []
    places = zip(_addresses(source), _addresses(target), strict=True)
    return [(start, to, 1) for start, to in places]


def _addresses(view: Array) -> list[int]:
    """The address of each element, in C order."""
    offsets = sum(
        (np.multiply(i, s) for i, s in zip(np.indices(view.shape), view.strides, strict=True)),
        np.zeros(view.shape, dtype=int),
    )
    return [view.ctypes.data + int(offset) for offset in np.ravel(offsets)]


def _variables(given: Variables | None) -> _Variables:
    if given is None:
        return _Variables()
    return _Variables(
        given.function,
        given.references.ctypes.data,
        len(given.references),
        given.values.ctypes.data,
        given.values.size,
    )
