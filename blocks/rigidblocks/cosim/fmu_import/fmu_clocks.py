"""FMI 3.0 clocks: times of the ticks, in Python and for the C loop."""

import ctypes
from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from rigidblocks.block.stepper import time_tolerance
from rigidblocks.cosim.fmu_import.fmu_interface import Interface
from rigidblocks.cosim.fmu_import.fmu_values import PortValues
from rigidblocks.cosim.graph.fmu_file import SCHEDULED_EXECUTION
from rigidblocks.cosim.graph.fmu_part import Fmu
from rigidblocks.cosim.masters.c_loop_tables import (
    CHANGING_INTERVAL,
    COUNTDOWN,
    FIXED_INTERVAL,
    ClockTable,
)

_NEVER = (inf, inf, 0.0)  # first tick [s], interval [s] and number of ticks of a clock at rest
_CHANGED = 2  # interval qualifier of a changed interval; 0 is an unknown interval


class Clocks:
    """Clocks of an FMU and their next ticks.

    Tick k of a periodic clock is at t_start + shift + k*interval. The FMU defines the shift, and
    the FMU or the part the interval. t_start is the start time of the run. After each event, the
    FMU returns the time until the next tick of a countdown clock. A triggered input clock is an
    input of the part. If this input is true, the clock ticks once, at the beginning of the
    communication step.

    The C loop reads and changes the arrays of this class. The methods `tick`, `look_ahead`,
    `begin_step` and `read` have equivalent C functions in the C loop.
    """

    def __init__(self, fmi: Interface, given: PortValues, results: PortValues, has_events: bool):
        self._fmi, self._has_events = fmi, has_events
        self._clocks = order_of_ticks(fmi.fmu) if has_events else ()
        self._outputs = [group for group in results.groups if group.type == "Clock"]
        self._triggers = [group for group in given.groups if group.type == "Clock" and has_events]
        # row k: time of the first tick [s], interval [s] and number of ticks of clock k
        self._table = np.zeros((len(self._clocks), 3))
        # time of the next tick [s]; flag, 1 before the ticks of the triggered clocks in a step
        self._coming = np.zeros(2)
        self._due: list[int] = []  # clocks that tick in the current event
        self.restart()

    def restart(self) -> None:
        """Reset the clocks to their state before a run."""
        self._table[:], self._coming[:], self._due = _NEVER, (inf, 1.0), []

    @property
    def next(self) -> float:
        """Time of the next tick [s], or infinity."""
        return float(self._coming[0])

    @property
    def are_triggered(self) -> bool:
        """True if at least one triggered input clock ticks at the beginning of the current step."""
        return bool(self._coming[1]) and any(np.any(one.values) for one in self._triggers)

    def set_intervals(self) -> None:
        """Set the clock intervals that the part defines; call this in initialization mode."""
        for clock in self._clocks:
            if clock.name in self._fmi.part.start:
                reference = (ctypes.c_uint * 1)(clock.valueReference)
                interval = (ctypes.c_double * 1)(float(self._fmi.part.start[clock.name]))
                self._fmi.call("SetIntervalDecimal", reference, 1, interval)

    def start(self, t: float) -> None:
        """Determine the interval and the first tick of each clock, for a run from the time t [s].

        Call this method in the event mode that follows the initialization. Raises FmuError if an
        interval is missing or not positive.
        """
        for k, clock in enumerate(self._clocks):
            interval, shift = self._fmi.fmu.intervals.get(clock.name, (None, 0.0))
            if interval is None and clock.name in self._fmi.part.start:
                interval = float(self._fmi.part.start[clock.name])
            if interval is None and clock.intervalVariability == "fixed":
                raise self._fmi.fmu_error(
                    f"its clock {clock.name} has no interval; set the interval [s] in System.add, "
                    f"for example start={{'{clock.name}': 0.01}}"
                )
            if interval is None:
                interval, qualifier = self._query_interval(clock)
                interval = interval if qualifier else inf
            self._check_interval(clock, interval)
            if _counts_down(clock):
                self._table[k] = t + interval, inf, 0.0
            else:
                self._table[k] = t + shift, interval, 0.0
        self._find_next()

    def stop(self) -> None:
        """Stop all clocks, because the FMU has rejected event mode."""
        self._table[:], self._coming[:] = _NEVER, (inf, 0.0)

    def tick(self, t: float, tolerance: float) -> None:
        """Activate the input clocks that are due or triggered at the time t [s].

        A clock also ticks if its next tick is at most `tolerance` [s] after t.
        """
        if self.are_triggered:
            for group in self._triggers:
                group.set()
        self._coming[1] = 0.0
        due = [k for k in range(len(self._clocks)) if self._is_due(k, t, tolerance)]
        self._due = due
        if not due:
            return
        self._activate([self._clocks[k] for k in due], t)
        for k in due:
            self._table[k, 2] += 1.0
            if _counts_down(self._clocks[k]):
                self._table[k] = _NEVER

    def _activate(self, clocks: Sequence[Any], t: float) -> None:
        """Activate the given clocks in the FMU at the time t [s]."""
        del t  # the time is already set in the FMU
        n = len(clocks)
        references = (ctypes.c_uint * n)(*(clock.valueReference for clock in clocks))
        self._fmi.call("SetClock", references, n, (ctypes.c_bool * n)(*[True] * n))

    def look_ahead(self, t: float) -> None:
        """Query the FMU for new clock intervals after an event at the time t [s].

        The interval of a clock with the variability `changing` changes only when the clock ticks.
        """
        for k, clock in enumerate(self._clocks):
            ticks = clock.intervalVariability == "changing" and k in self._due
            if ticks or _counts_down(clock):
                interval, qualifier = self._query_interval(clock)
                if qualifier == _CHANGED:
                    self._check_interval(clock, interval)
                    self._table[k] = t + interval, inf if _counts_down(clock) else interval, 0.0
        self._find_next()

    def reject_interval(self, k: int) -> None:
        """Raise FmuError for the interval of clock k, which the C loop has rejected."""
        self._check_interval(self._clocks[k], float(self._table[k, 1]))

    def _check_interval(self, clock: Any, interval: float) -> None:
        """Raise FmuError if a clock interval [s] is not positive.

        The interval of a countdown clock may be 0.
        """
        if not (interval >= 0 if _counts_down(clock) else interval > 0):
            allowed = "at least 0" if _counts_down(clock) else "positive"
            raise self._fmi.fmu_error(
                f"its clock {clock.name} has the interval {interval} s; the interval must be "
                f"{allowed}"
            )

    def begin_step(self) -> None:
        """Reset the ticks of the output clocks and of the triggered input clocks for a new step."""
        self._coming[1] = 1.0
        for group in self._outputs:
            group.values = np.zeros(group.n)

    def read(self) -> None:
        """Query the FMU for the output clocks that tick in the current event."""
        for group in self._outputs:
            ticked = group.values.copy()
            group.get()
            group.values = np.maximum(ticked, group.values)

    def state(self) -> Any:
        """Return the current state of the clocks."""
        return self._table.tolist(), self._coming.tolist()

    def restore_state(self, state: Any) -> None:
        """Restore a state of the clocks that the method `state` has returned."""
        table, self._coming[:] = state
        self._table[:] = np.reshape(table, self._table.shape)

    def table(self) -> ClockTable | None:
        """Return the data of the clocks for the C loop; None for an FMU without clocks."""
        if not self._has_events or not (self._clocks or self._triggers or self._outputs):
            return None
        set_clocks, get_intervals, activate = map(self._address, self._functions)
        return ClockTable(
            set_clocks,
            get_intervals,
            activate,
            np.array([clock.valueReference for clock in self._clocks], dtype=np.uint32),
            np.array([_kind(clock) for clock in self._clocks], dtype=np.int64),
            self._table,
            self._coming,
            [group.variables("Set") for group in self._triggers],
            [group.variables("Get") for group in self._outputs],
        )

    # functions that activate clocks at their ticks, query intervals, and run model partitions
    _functions: tuple[str, ...] = ("SetClock", "GetIntervalDecimal", "")

    def _address(self, name: str) -> int:
        """Return the address of an FMI function; 0 for an empty name."""
        if not name:
            return 0
        return ctypes.cast(self._fmi.find_function(name)[1], ctypes.c_void_p).value or 0

    def _query_interval(self, clock: Any) -> tuple[float, int]:
        """Query the FMU for a clock interval [s] and the interval qualifier; return both."""
        reference = (ctypes.c_uint * 1)(clock.valueReference)
        interval, qualifier = (ctypes.c_double * 1)(), (ctypes.c_int * 1)()
        self._fmi.call("GetIntervalDecimal", reference, 1, interval, qualifier)
        return float(interval[0]), int(qualifier[0])

    def _time(self, k: int) -> float:
        """Return the time [s] of the next tick of clock k, without accumulated rounding errors."""
        first, interval, ticks = self._table[k].tolist()
        return float(first + ticks * interval) if ticks else float(first)

    def _is_due(self, k: int, t: float, tolerance: float) -> bool:
        interval = self._table[k, 1]
        scale = float(interval) if np.isfinite(interval) else 0.0
        return self._time(k) <= t + max(time_tolerance(t, max(scale, 1e-3)), tolerance)

    def _find_next(self) -> None:
        self._coming[0] = min((self._time(k) for k in range(len(self._clocks))), default=inf)


class Partitions(Clocks):
    """Clocks of an FMU for scheduled execution.

    A tick of a clock runs its model partition. Partitions that are due at the same time run in the
    order of their priorities; 0 is the highest priority. A triggered input clock also runs a
    partition (`run_triggered`).
    """

    _functions = ("", "GetIntervalDecimal", "ActivateModelPartition")

    @property
    def are_triggered(self) -> bool:
        """Always False: `run_triggered` handles the triggered clocks."""
        return False

    def _activate(self, clocks: Sequence[Any], t: float) -> None:
        for clock in clocks:
            self._run(clock.valueReference, t)

    def run_triggered(self, t: float) -> None:
        """Run the partitions of the active triggered input clocks at the time t [s]."""
        for group in self._triggers:
            references, n = group.references
            for k in np.flatnonzero(group.values[:n]):
                self._run(references[int(k)], t)
                self.read()

    def _run(self, clock: int, t: float) -> None:
        """Run the model partition of a clock at the time t [s]."""
        self._fmi.call("ActivateModelPartition", ctypes.c_uint(clock), ctypes.c_double(t))


def order_of_ticks(fmu: Fmu) -> tuple[Any, ...]:
    """Return the time-based input clocks of an FMU in the order of their activation.

    The order matters for simultaneous ticks. In scheduled execution, the priorities of the model
    partitions define it.
    """
    if fmu.kind != SCHEDULED_EXECUTION:
        return fmu.clocks
    return tuple(sorted(fmu.clocks, key=lambda clock: int(clock.priority or 0)))


def _kind(clock: Any) -> int:
    """Return the constant of the C loop for the interval type of a clock."""
    return {"changing": CHANGING_INTERVAL, "countdown": COUNTDOWN}.get(
        clock.intervalVariability, FIXED_INTERVAL
    )


def _counts_down(clock: Any) -> bool:
    return _kind(clock) == COUNTDOWN
