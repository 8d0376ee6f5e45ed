"""The reference run of a block: what its FMU must reproduce, as the FMI cross-check rules 4.1,
9.1.4 and 10, ask for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import Method
from rigidblocks.block.memory import Memory
from rigidblocks.block.staged import StagedBlock
from rigidblocks.block.step import advance, initialize
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.tracing.trace import Graph

AMPLITUDE = 0.1  # of the sine that is added to the start value of each input
MOST_OUTPUTS = 10  # the rules recommend no more
MOST_RATES = 6000  # evaluations of the rates: those of 1000 steps of a pair of order 5
LEAST_STEPS = 10  # communication steps, which are shortened where there would be fewer
_SHORTER = (1.0, 0.1, 0.01, 0.001)  # to so much of their usual length
_DIGITS = 7  # fewer than machines differ in, so that the text is the same on all
_DUST = 1e-12  # what is smaller is the rounding of zero


class _SpentError(Exception):
    """A run has evaluated the rates as often as it may."""


@dataclass(frozen=True, eq=False)
class _Sparing(TracedEvaluator):
    """Runs the graphs of another, that of the rates `MOST_RATES` times, a tenth of them where a
    stage between graphs is in C, which are run in NumPy then, and then raises _SpentError.
    """

    inner: TracedEvaluator
    _numbers: Iterator[int] = field(default_factory=count)

    def graph(self, name: str) -> Graph:
        if name == "derivative" and next(self._numbers) >= MOST_RATES:
            raise _SpentError
        return self.inner.graph(name)

    def derivative(self, m: Array) -> Array:
        staged = isinstance(self.memory.block, StagedBlock)
        if staged and next(self._numbers) >= MOST_RATES // 10:
            raise _SpentError
        return super().derivative(m)

    @cached_property
    def rate_slopes(self) -> Graph:
        return self.inner.rate_slopes


@dataclass(frozen=True, eq=False)
class ReferenceRun:
    """The run of a block from its start at t = 0, with the inputs u_i(t) = start + 0.1 sin(2 pi t +
    i) held in each step.

    A run of about 1 s and at most about 1000 inner steps, which ends before the first value that is
    not finite. Where those are used up in a few steps, as by light fingers of a hand, the
    communication steps are shorter, and so is the run.
    """

    evaluator: TracedEvaluator
    method: Method
    h: float

    @property
    def memory(self) -> Memory:
        """The layout of the memory."""
        return self.evaluator.memory

    @property
    def dt(self) -> float:
        """The communication step [s]: 10 ms, less for small inner steps and where a run would have
        fewer than ten of them; a multiple of the sample time.
        """
        return self._run[0]

    @property
    def rows(self) -> Array:
        """The memory at t = 0, dt, 2 dt, ..., each with the inputs of the step that follows."""
        return self._run[1]

    @cached_property
    def _run(self) -> tuple[float, Array]:
        """The communication step and the rows."""
        usual, sample = min(1e-2, 100 * self.h), self.memory.block.sample_time
        if sample is not None:
            dt = sample * max(1, round(usual / sample))
            return dt, self._rows(dt)[0]
        for part in _SHORTER:
            rows, is_spent = self._rows(part * usual)
            if len(rows) > LEAST_STEPS or not is_spent:
                break
        return part * usual, rows

    def _rows(self, dt: float) -> tuple[Array, bool]:
        """The memory every dt, and whether the run ended since it evaluated the rates too often."""
        rows, is_spent = list[Array](), False
        try:
            with np.errstate(all="ignore"):
                rows.extend(self._steps(dt))
        except _SpentError:
            is_spent = True
        return np.array(rows).reshape(-1, self.memory.size), is_spent

    def _steps(self, dt: float) -> Iterator[Array]:
        evaluator, u = _Sparing(self.memory, self.evaluator), self.memory.u
        most, m = (
            min(100, max(LEAST_STEPS, 1000 // max(1, round(dt / self.h)))),
            self.memory.start(),
        )
        m[u] = self.inputs(0.0)
        m = initialize(evaluator, m, 0.0)
        for k in range(1 + most):
            if not np.all(np.isfinite(m)):
                return
            m[u] = self.inputs(k * dt)
            yield m.copy()
            if k < most:
                m = advance(evaluator, m, k * dt, dt, self.method, self.h)

    def inputs(self, t: float) -> Array:
        """The inputs that are held from t."""
        start = self.memory.start()[self.memory.u]
        return np.asarray(start + AMPLITUDE * np.sin(2 * np.pi * t + np.arange(len(start))))

    @property
    def output_columns(self) -> dict[str, int]:
        """The places in a row of the first outputs, those first that are states, by the name of the
        element.
        """
        block = self.memory.block
        states = {port.name for port in (*block.states, *block.sampled)}
        places = {
            name: self.memory.where[port.name].start + k
            for port in sorted(block.outputs, key=lambda port: port.name not in states)
            for k, name in enumerate(port.element_names)
        }
        return dict(list(places.items())[:MOST_OUTPUTS])

    @property
    def input_columns(self) -> dict[str, int]:
        """The places of the inputs in a row, by the name of the element."""
        names = [name for port in self.memory.block.inputs for name in port.element_names]
        return {name: self.memory.u.start + k for k, name in enumerate(names)}

    def csv(self, columns: dict[str, int]) -> str:
        """The text of a CSV file with the time and these columns."""
        values = [[f"{k * self.dt:.9g}" for k in range(len(self.rows))]]
        values += [_numbers(self.rows[:, place]) for place in columns.values()]
        header = ",".join(f'"{name}"' for name in ("time", *columns))
        return "\n".join([header, *(",".join(row) for row in zip(*values, strict=True))]) + "\n"

    @property
    def options(self) -> str:
        """The text of the _ref.opt file."""
        stop = (len(self.rows) - 1) * self.dt
        steps = (
            f"StepSize, {self.dt:.9g}",
            "RelTol, 0.0001",
            f"OutputIntervalLength, {self.dt:.9g}",
        )
        return "\n".join(["StartTime, 0", f"StopTime, {stop:.9g}", *steps]) + "\n"


def round_to_largest(column: Array) -> Array:
    """The values, rounded to seven digits of the largest; so they are the same on all machines."""
    largest = float(np.max(np.abs(column), initial=0.0))
    if largest < _DUST:
        return np.zeros(len(column))
    unit = 10.0 ** (np.floor(np.log10(largest)) + 1 - _DIGITS)
    return np.asarray(np.rint(column / unit) * unit + 0.0)  # + 0.0: no -0


def _numbers(column: Array) -> list[str]:
    return [f"{value:.{_DIGITS}g}" for value in round_to_largest(column)]
