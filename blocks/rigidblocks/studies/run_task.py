"""Task of a sweep: the simulation of one run and the computation of its measures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.common.arrays import Array
from rigidblocks.common.name_hints import suggestion
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.cosim.prepare import Run, prepare
from rigidblocks.cosim.results.recording import select_ports
from rigidblocks.cosim.results.result import Result
from rigidblocks.cosim.run_options import check_numbers, communication_points
from rigidblocks.cosim.scenario import Scenario
from rigidblocks.studies.experiment_design import Design

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


def measure_of(measure: Measure | str) -> Measure:
    """Convert a measure to a function of the result of a run.

    A string such as "max robot.q[1]" consists of a statistic and the name of a scalar signal. The
    statistic is one of STATISTICS and is computed over the samples of a run.

    Raises:
        ValueError: The string is not a measure.
        TypeError: The measure is neither a string nor a function.
    """
    if callable(measure):
        return measure
    if not isinstance(measure, str):
        raise TypeError(f"a measure must be a string, or a function of the result, not {measure!r}")
    statistic, signal = measure.strip().partition(" ")[0], signal_of(measure)
    if statistic not in STATISTICS or not signal:
        raise ValueError(
            f"invalid measure '{measure}'; expected a string such as 'max robot.q[1]'; "
            f"{suggestion(statistic, STATISTICS)}"
        )
    compute = STATISTICS[statistic]
    return lambda result: compute(_number(result, signal))


def signal_of(text: str) -> str:
    """Return the signal name in a measure text, for example robot.q[1] in "max robot.q[1]"."""
    return text.strip().partition(" ")[2].strip()


def _number(result: Result, signal: str) -> Array:
    values = np.asarray(result[signal], dtype=float)
    if values.size > len(values):
        raise ValueError(
            f"{signal} has the shape {values.shape[1:]}; a measure needs one of its elements"
        )
    return values.ravel()


class Row(NamedTuple):
    """Measures of one run, and the error message if the run has failed."""

    values: list[float]
    error: str = ""


@dataclass(frozen=True, eq=False)
class Task:
    """Task of a sweep: to simulate a system for varied start values and compute measures.

    Attributes:
        system: System to run.
        t_stop: End time [s].
        dt: Communication step [s].
        options: Options of `prepare`.
        scenario: Scenario of all runs, or None.
        measures: Measures of a result by name.
    """

    system: System
    t_stop: float
    dt: float
    options: Mapping[str, Any]
    scenario: Scenario | None
    measures: Mapping[str, Measure | str]

    def prepare_run(self) -> Run:
        """Prepare the system for repeated runs."""
        return prepare(self.system, self.dt, **self.options)

    def check(self, wiring: Wiring, start: Mapping[str, Any]) -> None:
        """Check the times, the measures, the scenario and the start values before the first run.

        Raises the exceptions that a run raises for invalid arguments.
        """
        check_numbers({"t_stop": self.t_stop})
        t_start = self.options.get("t_start", 0.0)
        communication_points(t_start, self.t_stop, self.dt)
        wiring.replace_start_values(start)
        if self.scenario is not None:
            self.scenario.schedule(wiring, t_start)  # raises an error for invalid names and values
        ports = select_ports(wiring.outputs, self.options.get("record", ("*",)))
        nothing = np.zeros((1, sum(port.size for port in ports)))
        for one in self.measures.values():
            if not callable(one):
                measure_of(one)(Result(np.zeros(1), ports, nothing, {}))

    def result(self, run: Run, start: Mapping[str, Any]) -> Result:
        """Simulate one run with the given start values, and return its result."""
        return run.simulate(self.t_stop, start=start, scenario=self.scenario, progress=False)

    def measure_result(self, result: Result) -> Row:
        """Compute the measures of the result of a run."""
        return Row([float(measure_of(one)(result)) for one in self.measures.values()])

    def failure_record(self, error: BaseException) -> Row:
        """Return the `Row` of a failed run: NaN for each measure, and the error message."""
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return Row([nan] * len(self.measures), said)


def run_start_values(wiring: Wiring, design: Design, row: Array) -> dict[str, Any]:
    """Return the start values of a run by port name; `row` is its row of the design table."""
    return wiring.start_by_port(design.values(row))
