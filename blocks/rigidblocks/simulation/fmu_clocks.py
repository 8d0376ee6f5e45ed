"""The clocks of an FMI 3.0 FMU: those that the importer ticks, and those that it reads."""

import ctypes
from math import inf
from typing import Any

import numpy as np

from rigidblocks.simulation.fmu_interface import Interface
from rigidblocks.simulation.fmu_values import PortValues

_CLOSE = 1e-9  # of an interval: ticks that are closer together are one
_CHANGED = 2  # the qualifier of an interval that is new; 0 is one that is not known yet


class Clocks:
    """When the clocks of an FMU tick next, counted from the start of the run: t_start + shift +
    k interval, or for a countdown as its FMU says after each event.
    """

    def __init__(self, fmi: Interface, results: PortValues, has_events: bool):
        self._fmi, self._clocks = fmi, fmi.fmu.clocks if has_events else ()
        self._outputs = [group for group in results.groups if group.type == "Clock"]
        self._first: list[float] = [inf] * len(self._clocks)
        self._interval: list[float] = [inf] * len(self._clocks)
        self._ticks: list[int] = [0] * len(self._clocks)
        self.next = inf

    def start(self, t: float) -> None:
        """Asks for the intervals, in the event mode that follows the initialization."""
        for k, clock in enumerate(self._clocks):
            interval, shift = self._fmi.fmu.intervals.get(clock.name, (None, 0.0))
            if interval is None:
                interval, qualifier = self._asked(clock)
                interval = interval if qualifier else inf
            if not interval > 0 and not _counts_down(clock):
                raise self._fmi.refuse(
                    f"its clock {clock.name} has the interval {interval} s; it must be positive"
                )
            if _counts_down(clock):
                self._first[k], self._interval[k] = t + interval, inf
            else:
                self._first[k], self._interval[k] = t + shift, interval
        self._find_next()

    def tick(self, t: float) -> None:
        """Ticks the clocks that are due at t."""
        due = [k for k in range(len(self._clocks)) if self._time(k) <= t + self._tolerance(k)]
        if not due:
            return
        references = (ctypes.c_uint * len(due))(*(self._clocks[k].valueReference for k in due))
        self._fmi.call(
            "SetClock", references, len(due), (ctypes.c_bool * len(due))(*[True] * len(due))
        )
        for k in due:
            self._ticks[k] += 1
            if _counts_down(self._clocks[k]):
                self._first[k], self._ticks[k] = inf, 0

    def look_ahead(self, t: float) -> None:
        """Asks again for what may have changed in an event at t."""
        for k, clock in enumerate(self._clocks):
            if clock.intervalVariability in ("changing", "countdown"):
                interval, qualifier = self._asked(clock)
                if qualifier == _CHANGED:
                    self._first[k], self._ticks[k] = t + interval, 0
                    self._interval[k] = inf if _counts_down(clock) else interval
        self._find_next()

    def still(self) -> None:
        """Forgets which output clocks have ticked."""
        for group in self._outputs:
            group.values = np.zeros(group.n)

    def read(self) -> None:
        """Reads which output clocks tick in this event."""
        for group in self._outputs:
            ticked = group.values.copy()
            group.get()
            group.values = np.maximum(ticked, group.values)

    def state(self) -> Any:
        """What `go_back` needs."""
        return list(self._first), list(self._interval), list(self._ticks), self.next

    def go_back(self, state: Any) -> None:
        """Goes back to a state that was kept."""
        first, interval, ticks, self.next = state
        self._first, self._interval, self._ticks = list(first), list(interval), list(ticks)

    def _asked(self, clock: Any) -> tuple[float, int]:
        """The interval of a clock as its FMU says it, and whether that is known or new."""
        reference = (ctypes.c_uint * 1)(clock.valueReference)
        interval, qualifier = (ctypes.c_double * 1)(), (ctypes.c_int * 1)()
        self._fmi.call("GetIntervalDecimal", reference, 1, interval, qualifier)
        return float(interval[0]), int(qualifier[0])

    def _time(self, k: int) -> float:
        """When a clock ticks next; counted, not summed."""
        if self._ticks[k] == 0:
            return self._first[k]
        return self._first[k] + self._ticks[k] * self._interval[k]

    def _tolerance(self, k: int) -> float:
        scale = self._interval[k] if np.isfinite(self._interval[k]) else 0.0
        return _CLOSE * max(scale, 1e-3)

    def _find_next(self) -> None:
        self.next = min((self._time(k) for k in range(len(self._clocks))), default=inf)


def _counts_down(clock: Any) -> bool:
    return bool(clock.intervalVariability == "countdown")
