"""Runs at the pace of the clock: when steps are due, and how well that was kept."""

import abc
import json
import time
from collections.abc import Mapping
from math import isfinite

import numpy as np

from rigidblocks.simulation.network import Network

CATCH_UP, SKIP, STOP = "catch-up", "skip", "stop"
OVERRUNS = (CATCH_UP, SKIP, STOP)
SPIN = 200e-6  # s before a step is due, in which the processor is kept
LATE = 0.1  # of a step


class Turns(abc.ABC):
    """When the steps of a run are taken, one by one."""

    @abc.abstractmethod
    def begin(self, network: Network) -> None:
        """The parts of the run, which has its first row."""

    @abc.abstractmethod
    def wait(self) -> None:
        """Comes back when the next step is to be taken; what it raises ends the run."""

    @abc.abstractmethod
    def ended(self, t: float) -> None:
        """A step has ended at t [s]."""

    @abc.abstractmethod
    def told(self) -> Mapping[str, str]:
        """What the `meta` of the result is to say of it."""


class Pace(Turns):
    """The times at which the steps of a run are due: `rate` seconds of simulation in one second.

    When a step ends after the next is due, the run catches up, or skips (the simulation stands
    still meanwhile), or stops: `ended` raises RuntimeError then. Raises ValueError for a rate that
    is not positive and for another word.
    """

    def __init__(self, rate: float, dt: float, overrun: str = CATCH_UP):
        if not (isfinite(rate) and rate > 0):
            raise ValueError(f"real_time must be positive, in s of simulation a second, not {rate}")
        if overrun not in OVERRUNS:
            raise ValueError(f"overrun must be one of {', '.join(OVERRUNS)}, not '{overrun}'")
        self._length, self._overrun = dt / rate, overrun
        self._due, self._began = 0.0, 0.0
        self._late: list[float] = []  # s behind the time that was due, by step
        self._work: list[float] = []  # s
        self._missed = 0

    def begin(self, network: Network) -> None:
        del network  # the clock alone says when

    def wait(self) -> None:
        now = time.perf_counter()
        self._due = self._due + self._length if self._late else now
        while (left := self._due - now) > 0:
            if left > SPIN:
                time.sleep(left - SPIN)
            now = time.perf_counter()
        self._began = now
        self._late.append(now - self._due)

    def ended(self, t: float) -> None:
        now = time.perf_counter()
        self._work.append(now - self._began)
        over = now - self._due - self._length
        if over <= 0:
            return
        self._missed += 1
        if self._overrun == STOP:
            raise RuntimeError(
                f"the step to t = {t:g} s ended {1e3 * over:.3g} ms after the next was due"
            )
        if self._overrun == SKIP:
            self._due = now - self._length

    def told(self) -> Mapping[str, str]:
        return {"real_time": self.report()}

    def report(self) -> str:
        """How well the pace was kept, as JSON: counts, and quantiles [us] of how late steps began
        and of how long they took.
        """
        late = np.array(self._late[: len(self._work)])
        told = {
            "steps": len(self._work),
            "late starts": int(np.sum(late > LATE * self._length)),
            "missed deadlines": self._missed,
            "start after due (us)": _quantiles(late),
            "step (us)": _quantiles(np.array(self._work)),
        }
        return json.dumps(told)


def _quantiles(seconds: np.ndarray) -> dict[str, float]:
    if not len(seconds):
        return {}
    shares = {"median": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    return {name: round(1e6 * float(np.quantile(seconds, q)), 1) for name, q in shares.items()}
