"""Pacing of real-time runs: due times of the steps, and timing statistics."""

import abc
import json
import time
from collections.abc import Mapping
from math import isfinite

import numpy as np

from rigidblocks.cosim.masters.network import Network
from rigidblocks.cosim.run_options import CATCH_UP, SKIP, STOP

OVERRUNS = (CATCH_UP, SKIP, STOP)
SPIN = 200e-6  # busy waiting before a step is due [s], because sleep ends late (found by trial)
LATE = 0.1  # minimum start delay of a late step, relative to the wall-clock time between two steps


class StepTiming(abc.ABC):
    """Base class of step observers, which pace a run or measure the duration of its steps."""

    @abc.abstractmethod
    def begin(self, network: Network) -> None:
        """Start the timing; the caller has recorded the first sample.

        `network` contains the instances of the parts.
        """

    @abc.abstractmethod
    def wait(self) -> None:
        """Wait until the next step is due; an exception ends the run."""

    @abc.abstractmethod
    def end_step(self, t: float) -> None:
        """Process the end of a step that ends at the simulated time t [s]."""

    @abc.abstractmethod
    def metadata(self) -> Mapping[str, str]:
        """Return the timing data for `Result.meta`, as strings by name."""


class Pace(StepTiming):
    """Pacing of a run by a clock; `rate` is simulated time divided by wall-clock time.

    If a step ends after the next step is due, `overrun` selects the response. For "catch-up", the
    next steps start without a wait until the run is on time again. For "skip", all later due times
    are delayed by the overrun. For "stop", `end_step` raises RuntimeError.

    Raises ValueError for a rate that is not positive and for an unknown `overrun`.
    """

    def __init__(self, rate: float, dt: float, overrun: str = CATCH_UP):
        if not (isfinite(rate) and rate > 0):
            raise ValueError(
                f"real_time must be positive (seconds of simulation per second), not {rate}"
            )
        if overrun not in OVERRUNS:
            raise ValueError(f"overrun must be one of {', '.join(OVERRUNS)}, not '{overrun}'")
        self._length, self._overrun = dt / rate, overrun
        self._due, self._began = 0.0, 0.0
        self._late: list[float] = []  # start delay of each step [s]
        self._work: list[float] = []  # duration of each step [s]
        self._missed = 0

    def begin(self, network: Network) -> None:
        del network  # the pacing depends only on the clock

    def wait(self) -> None:
        now = time.perf_counter()
        self._due = self._due + self._length if self._late else now
        while (left := self._due - now) > 0:
            if left > SPIN:
                time.sleep(left - SPIN)
            now = time.perf_counter()
        self._began = now
        self._late.append(now - self._due)

    def end_step(self, t: float) -> None:
        now = time.perf_counter()
        self._work.append(now - self._began)
        over = now - self._due - self._length
        if over <= 0:
            return
        self._missed += 1
        if self._overrun == STOP:
            raise RuntimeError(
                f"missed deadline: the step to t = {t:g} s ended {1e3 * over:.3g} ms late; "
                "reduce real_time, or choose another value of overrun"
            )
        if self._overrun == SKIP:
            self._due = now - self._length

    def metadata(self) -> Mapping[str, str]:
        return {"real_time": self.report()}

    def report(self) -> str:
        """Return timing statistics as JSON.

        The statistics are counts of steps, and quantiles [us] of the start delays and durations of
        the steps.
        """
        late = np.array(self._late[: len(self._work)])
        statistics = {
            "steps": len(self._work),
            "late starts": int(np.sum(late > LATE * self._length)),
            "missed deadlines": self._missed,
            "start after due (us)": _quantiles(late),
            "step (us)": _quantiles(np.array(self._work)),
        }
        return json.dumps(statistics)


def _quantiles(seconds: np.ndarray) -> dict[str, float]:
    if not len(seconds):
        return {}
    shares = {"median": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    return {name: round(1e6 * float(np.quantile(seconds, q)), 1) for name, q in shares.items()}
