"""Who looks on while a run is under way."""

import abc
from time import monotonic
from typing import Any

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.network import Network
from rigidblocks.simulation.result import Result
from rigidblocks.system.wiring import Wiring

OFTEN = 0.08  # s between two looks


class Watcher(abc.ABC):
    """Someone who is told of a run. None of these methods may wait for anything: the run does."""

    @abc.abstractmethod
    def begin(self, wiring: Wiring) -> None:
        """A run of this system begins; raises ValueError where it is not one to look at."""

    @property
    @abc.abstractmethod
    def is_waiting(self) -> bool:
        """Whether it would look at another row: it has done with the last."""

    @abc.abstractmethod
    def see(self, t: float, row: Array) -> None:
        """The run is at t [s], with this row of all outputs of the wiring, an array of its own."""

    @abc.abstractmethod
    def end(self, result: Result) -> None:
        """The run is over, and left this, whatever has ended it."""


class Looks:
    """The looks that someone takes at a run when it waits for one, no more often than every 0.08 s;
    of nobody, none.
    """

    def __init__(self, watcher: Watcher | None, network: Network):
        self._watcher, self._network, self._due = watcher, network, 0.0

    def at(self, t: float) -> None:
        """Looks at the run, which is at t [s], when the time for it has come."""
        if self._watcher is not None and (now := monotonic()) >= self._due:
            if self._watcher.is_waiting:
                self._watcher.see(t, self._network.row())
            self._due = now + OFTEN


def check_watcher(watcher: Any) -> None:
    """Raises TypeError for what cannot look on."""
    if watcher is not None and not isinstance(watcher, Watcher):
        raise TypeError(f"a run is watched by a LiveView or another Watcher, not by {watcher!r}")
