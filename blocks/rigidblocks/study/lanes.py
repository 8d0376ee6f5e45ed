"""Runs of a sweep in lanes of the processor, where a whole system takes steps of fixed length."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rigidblocks.simulation.batch import Batch, BatchResult
from rigidblocks.simulation.course import has_remarks, remarks
from rigidblocks.simulation.grid import communication_points
from rigidblocks.simulation.recording import chosen
from rigidblocks.simulation.result import Result
from rigidblocks.simulation.run import Run
from rigidblocks.study.design import Design
from rigidblocks.study.measures import signal_of
from rigidblocks.study.work import Row, Work, started
from rigidblocks.system.fused import FusedSystem
from rigidblocks.system.wiring import Wiring

LOG = logging.getLogger("rigidblocks")
_WORTH = 5_000_000  # steps of all runs, for which another library is compiled
_ROOM = 8_000_000  # numbers that the runs of a call record
_MOST = 64  # runs of a call
_SHARES = 4  # calls of each thread, at least, so that all end together

Rows = dict[int, Row]


class Lanes:
    """Does many runs of a sweep at once, the same numbers as one by one to rounding. One that fails
    there, or cannot begin there, is done `alone`.
    """

    def __init__(
        self, work: Work, wiring: Wiring, design: Design, batch: Batch, meta: dict[str, str]
    ):
        self._work, self._wiring, self._design = work, wiring, design
        self._batch, self._meta = batch, meta
        self._rows = communication_points(_t_start(work), work.t_stop, work.dt).n + 1
        self._says = has_remarks(wiring)

    @property
    def most(self) -> int:
        """How many runs a call takes at most: a multiple of the lanes, 0 where the records of as
        many runs as there are lanes take too much memory.
        """
        lanes, kept = self._batch.lanes, max(1, self._batch.width) * self._rows
        return lanes * min(_MOST // lanes, _ROOM // (kept * lanes))

    def parts(self, todo: list[int], threads: int) -> Iterator[tuple[int, ...]]:
        """The runs of each call; the first run is by itself, which says what is wrong with all."""
        if todo:
            yield (todo[0],)
        lanes = self._batch.lanes
        share = -(-len(todo) // (lanes * threads * _SHARES)) * lanes
        size = max(lanes, min(self.most, share))
        for k in range(1, len(todo), size):
            yield tuple(todo[k : k + size])

    def __call__(self, runs: tuple[int, ...], alone: Callable[[int], Row]) -> Rows:
        """The rows of these runs."""
        if len(runs) == 1:
            return {runs[0]: alone(runs[0])}
        try:
            result = self._batch.simulate(
                self._work.t_stop, self._starts(runs), _t_start(self._work), threads=1
            )
        except (KeyError, TypeError, ValueError):  # of a start that does not fit
            return {k: alone(k) for k in runs}
        found = {k: self._row(result, at) for at, k in enumerate(runs)}
        return {k: alone(k) if row is None else row for k, row in found.items()}

    def _starts(self, runs: tuple[int, ...]) -> dict[str, Any]:
        each = [started(self._wiring, self._design, self._design.table[k]) for k in runs]
        return {name: np.stack([np.asarray(one[name]) for one in each]) for name in each[0]}

    def _row(self, batch: BatchResult, at: int) -> Row | None:
        """The row of a run; None of one that has failed, or that a measure has."""
        if not np.isnan(batch.failed[at]):
            return None
        result = Result(batch.time, batch.ports, batch.values[at], self._meta)
        if self._says:
            for level, message in remarks(self._wiring, result):
                LOG.log(level, message)
        try:
            return self._work.measured(result)
        except Exception:
            return None


def in_lanes(
    work: Work, wiring: Wiring, design: Design, run: Run, count: int, lanes: int | None
) -> Lanes | None:
    """What does `count` runs of a sweep in so many lanes, by default the widest where that is
    worth it; None where the runs go one by one.

    Raises ValueError, with the reason, for lanes that were asked for and cannot be had.
    """
    steps = communication_points(_t_start(work), work.t_stop, work.dt).n
    if lanes == 1 or (lanes is None and count * steps < _WORTH):
        return None
    try:
        return _lanes(work, wiring, design, run, lanes)
    except ValueError:
        if lanes is not None:
            raise
        return None


def _lanes(work: Work, wiring: Wiring, design: Design, run: Run, lanes: int | None) -> Lanes:
    """Raises ValueError for a sweep whose runs cannot be in lanes."""
    plan = run.plan
    if plan.form != "fused":
        raise ValueError(f"only fused runs go in lanes, not those of the form '{plan.form}'")
    if work.scenario is not None:
        raise ValueError("runs with a scenario do not go in lanes")
    block = FusedSystem(plan.wiring, plan.dt, plan.order)
    every = work.options.get("every", 1)
    batch = Batch(block, plan.dt, _recorded(work, wiring), every, lanes)
    for name in started(wiring, design, design.table[0]):
        if name not in batch.settable:
            raise ValueError(f"what '{name}' starts with cannot be another one in each lane")
    made = Lanes(work, wiring, design, batch, plan.meta)
    if not made.most:
        raise ValueError(
            f"the records of {batch.lanes} runs at once take too much memory: keep less of them, "
            "by `record` or `every`"
        )
    batch.compile()
    return made


def _recorded(work: Work, wiring: Wiring) -> tuple[str, ...]:
    """The patterns of what is kept of a run: what is measured, where nothing else reads more."""
    given = tuple(work.options.get("record", ("*",)))
    signals = [signal_of(one) for one in work.measures.values() if isinstance(one, str)]
    if len(signals) < len(work.measures) or has_remarks(wiring):
        return given
    names = [port.name for port in chosen(wiring.outputs, given)]
    return tuple(
        name for name in names if any(one == name or one.startswith(f"{name}[") for one in signals)
    )


def _t_start(work: Work) -> float:
    return float(work.options.get("t_start", 0.0))
