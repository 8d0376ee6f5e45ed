"""What is measured of a run: a function of its result, or the name of a statistic and a signal."""

from collections.abc import Callable, Mapping

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.record import offer
from rigidblocks.simulation.result import Result

Measure = Callable[[Result], float]

STATISTICS: Mapping[str, Callable[[Array], float]] = {
    "first": lambda y: float(y[0]),
    "last": lambda y: float(y[-1]),
    "min": lambda y: float(np.min(y)),
    "max": lambda y: float(np.max(y)),
    "peak": lambda y: float(np.max(np.abs(y))),
    "mean": lambda y: float(np.mean(y)),
    "rms": lambda y: float(np.sqrt(np.mean(np.square(y)))),
}


def measure_of(given: Measure | str) -> Measure:
    """A measure by its function, or by a text such as "max robot.q[1]": one of STATISTICS over the
    rows of a run, of one number.

    Raises ValueError for another text.
    """
    if callable(given):
        return given
    if not isinstance(given, str):
        raise TypeError(f"a measure is a function of the result or a text, not {given!r}")
    statistic, signal = given.strip().partition(" ")[0], signal_of(given)
    if statistic not in STATISTICS or not signal:
        raise ValueError(
            f"'{given}' is no measure, such as 'max robot.q[1]'; {offer(statistic, STATISTICS)}"
        )
    compute = STATISTICS[statistic]
    return lambda result: compute(_number(result, signal))


def signal_of(text: str) -> str:
    """The signal in the text of a measure: robot.q[1] in "max robot.q[1]"."""
    return text.strip().partition(" ")[2].strip()


def _number(result: Result, signal: str) -> Array:
    values = np.asarray(result[signal], dtype=float)
    if values.size > len(values):
        raise ValueError(f"{signal} has the shape {values.shape[1:]}: measure an element of it")
    return values.ravel()
