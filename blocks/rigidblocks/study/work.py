"""The work of a sweep: what is done for each of its runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.arguments import check_numbers
from rigidblocks.simulation.grid import communication_points
from rigidblocks.simulation.prepare import prepare
from rigidblocks.simulation.recording import chosen
from rigidblocks.simulation.result import Result
from rigidblocks.simulation.run import Run
from rigidblocks.simulation.scenario import Scenario
from rigidblocks.study.design import Design
from rigidblocks.study.measures import Measure, measure_of
from rigidblocks.system.starting import start_of
from rigidblocks.system.system import System
from rigidblocks.system.wiring import Wiring


class Row(NamedTuple):
    """The measures of a run, and what was said where it failed."""

    values: list[float]
    error: str = ""


@dataclass(frozen=True, eq=False)
class Work:
    """Runs of a system to `t_stop` [s] that differ in what they start with, and their measures;
    `options` are those of `prepare`. `design` says what is varied.
    """

    system: System
    t_stop: float
    dt: float
    options: Mapping[str, Any]
    scenario: Scenario | None
    measures: Mapping[str, Measure | str]

    def prepared(self) -> Run:
        """The system made ready to run."""
        return prepare(self.system, self.dt, **self.options)

    def check(self, wiring: Wiring, start: Mapping[str, Any]) -> None:
        """Raises what all runs would for a time, a measure, a scenario or a start that does not
        fit.
        """
        check_numbers({"t_stop": self.t_stop})
        communication_points(self.options.get("t_start", 0.0), self.t_stop, self.dt)
        wiring.started(start)
        if self.scenario is not None:
            self.scenario.check(wiring)
        ports = chosen(wiring.outputs, self.options.get("record", ("*",)))
        nothing = np.zeros((1, sum(port.size for port in ports)))
        for one in self.measures.values():
            if not callable(one):
                measure_of(one)(Result(np.zeros(1), ports, nothing, {}))

    def result(self, run: Run, start: Mapping[str, Any]) -> Result:
        """The result of a run."""
        told = self.scenario
        return run.simulate(self.t_stop, start=start, scenario=told, progress=False)

    def measured(self, result: Result) -> Row:
        """The measures of a result."""
        return Row([float(measure_of(one)(result)) for one in self.measures.values()])

    def failed(self, error: BaseException) -> Row:
        """What there is of a run that failed."""
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return Row([nan] * len(self.measures), said)


def started(wiring: Wiring, design: Design, numbers: Array) -> dict[str, Any]:
    """The start values of the run with these numbers of a design."""
    return start_of(wiring, design.values(numbers))
