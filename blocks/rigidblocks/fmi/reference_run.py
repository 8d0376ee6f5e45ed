"""Reference run of an FMU, its charts, and its files of the layered standard FMI-LS-REF."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from itertools import count
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from rigidblocks.block.adaptive_methods import Method
from rigidblocks.block.block import Port
from rigidblocks.block.external_functions import StagedBlock
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import advance, initialize
from rigidblocks.block.units import unit_text
from rigidblocks.common.charts import Chart, chart_style, chart_svg
from rigidblocks.common.escaping import csv_line, xml_text
from rigidblocks.common.optional_imports import install_command
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.trace import Graph

AMPLITUDE = 0.1  # amplitude of the sine wave on each input, in the unit of the input
MOST_OUTPUTS = 10  # maximum number of outputs according to the FMI cross-check rules
MOST_RATES = 6000  # maximum number of derivative evaluations: 1000 steps of a method of order 5
LEAST_STEPS = 10  # minimum number of steps; if a run has fewer, its step size is reduced
_SHORTER = (1.0, 0.1, 0.01, 0.001)  # factors of the communication step that are tried in order
_DIGITS = 7  # significant digits in files; results of all machines agree to this precision
_DUST = 1e-12  # a column with only smaller values counts as zero


class _EvaluationLimitError(Exception):
    """Error for a run that exceeds the limit of derivative evaluations."""


@dataclass(frozen=True, eq=False)
class _LimitedEvaluator(TracedEvaluator):
    """Evaluator that raises _EvaluationLimitError after `MOST_RATES` derivative evaluations.

    For a `StagedBlock`, which Python evaluates more slowly, the limit is `MOST_RATES` / 10.
    """

    inner: TracedEvaluator
    _numbers: Iterator[int] = field(default_factory=count)

    def graph(self, name: str) -> Graph:
        if name == "derivative" and next(self._numbers) >= MOST_RATES:
            raise _EvaluationLimitError
        return self.inner.graph(name)

    def derivative(self, m: Array) -> Array:
        staged = isinstance(self.memory.block, StagedBlock)
        if staged and next(self._numbers) >= MOST_RATES // 10:
            raise _EvaluationLimitError
        return super().derivative(m)

    @cached_property
    def rate_slopes(self) -> Graph:
        return self.inner.rate_slopes


@dataclass(frozen=True, eq=False)
class ReferenceRun:
    """Reference simulation of a block; the FMU of the block must reproduce the results.

    The simulation begins at t = 0 with the start values. Each input is a sine wave around its start
    value, and is held during each communication step:

        u_i(t) = start + 0.1 sin(2 pi t + i)

    i is the index of the input element. The FMI cross-check rules 4.1, 9.1.4 and 10 require such a
    run. The run covers about 1 s and has at most about 1000 inner steps. It ends before the first
    value that is not finite. For a model with very short inner steps, such as a robot hand with
    light fingers, the communication step and the run are shorter.
    """

    evaluator: TracedEvaluator
    method: Method
    h: float

    @property
    def memory(self) -> Memory:
        """Memory layout of the block."""
        return self.evaluator.memory

    @property
    def dt(self) -> float:
        """Communication step of the run [s].

        The step is the shorter of 10 ms and 100 inner steps, but short enough for a run of at least
        ten steps. For a sampled block, it is a multiple of the sample time.
        """
        return self._run[0]

    @property
    def rows(self) -> Array:
        """Memory vectors at t = 0, dt, 2 dt, ..., one per row, with inputs of the next step."""
        return self._run[1]

    @cached_property
    def _run(self) -> tuple[float, Array]:
        """Communication step [s], and memory vectors at the communication points, one per row."""
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
        """Simulate with the communication step dt [s].

        Returns the memory vectors at the communication points, one per row, and True if the run
        ended at the limit of derivative evaluations.
        """
        rows, is_spent = list[Array](), False
        try:
            with np.errstate(all="ignore"):
                rows.extend(self._steps(dt))
        except _EvaluationLimitError:
            is_spent = True
        return np.array(rows).reshape(-1, self.memory.size), is_spent

    def _steps(self, dt: float) -> Iterator[Array]:
        evaluator, u = _LimitedEvaluator(self.memory, self.evaluator), self.memory.u
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
        """Return the values of all inputs in the step that begins at time t [s]."""
        start = self.memory.start()[self.memory.u]
        return np.asarray(start + AMPLITUDE * np.sin(2 * np.pi * t + np.arange(len(start))))

    @property
    def output_columns(self) -> dict[str, int]:
        """Memory indices of output elements (at most ten) by name. States precede other outputs."""
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
        """Memory index of each input element, by element name."""
        names = [name for port in self.memory.block.inputs for name in port.element_names]
        return {name: self.memory.u.start + k for k, name in enumerate(names)}

    def csv(self, columns: dict[str, int]) -> str:
        """Return CSV text with the time [s] and the values of memory elements over the run.

        `columns` maps the name of each column to the index of the memory element.
        """
        values = [[f"{k * self.dt:.9g}" for k in range(len(self.rows))]]
        values += [_numbers(self.rows[:, place]) for place in columns.values()]
        header = csv_line(("time", *columns), in_quotes=True)
        return header + "".join(f"{','.join(row)}\n" for row in zip(*values, strict=True))

    @property
    def options(self) -> str:
        """Text of the file _ref.opt, which contains the options of the reference run."""
        stop = (len(self.rows) - 1) * self.dt
        steps = (
            f"StepSize, {self.dt:.9g}",
            "RelTol, 0.0001",
            f"OutputIntervalLength, {self.dt:.9g}",
        )
        return "\n".join(["StartTime, 0", f"StopTime, {stop:.9g}", *steps]) + "\n"


def round_to_largest(column: Array) -> Array:
    """Round a column to the seventh significant digit of its largest absolute value.

    Rounding errors differ between machines. The rounded values are equal on all machines.
    """
    largest = float(np.max(np.abs(column), initial=0.0))
    if largest < _DUST:
        return np.zeros(len(column))
    unit = 10.0 ** (np.floor(np.log10(largest)) + 1 - _DIGITS)
    return np.asarray(np.rint(column / unit) * unit + 0.0)  # + 0.0 replaces -0 by 0


def _numbers(column: Array) -> list[str]:
    return [f"{value:.{_DIGITS}g}" for value in round_to_largest(column)]


_LETTERS = 60  # maximum number of characters of the element names in a chart legend


def curves(run: ReferenceRun) -> str:
    """Return the HTML of the output charts, with a style element and one SVG chart per port.

    The package pygal draws the charts. If pygal is missing, a paragraph replaces the charts.
    """
    if find_spec("pygal") is None:
        return (
            "<p>The curves are omitted, because pygal is not installed: "
            f"<code>{install_command('pygal')}</code>.</p>"
        )
    charts = [*_charts(run)]
    style = chart_style(max((chart.count for chart in charts), default=0))
    return "".join([f"<style>{style}</style>", *map(chart_svg, charts)])


def _charts(run: ReferenceRun) -> Iterator[Chart]:
    columns, t = run.output_columns, run.dt * np.arange(len(run.rows))
    for port in run.memory.block.outputs:
        if shown := [name for name in port.element_names if name in columns]:
            rows = [round_to_largest(run.rows[:, columns[name]]) for name in shown]
            title = f"{port.name} [{unit_text(port.units)}]"
            yield Chart(title, t, dict(zip(_names(port, shown), rows, strict=True)))


def _names(port: Port, names: list[str]) -> list[str]:
    """Return chart labels: element names, or bracketed indices such as [1] if names are long."""
    many = sum(map(len, names)) > _LETTERS
    return [name.removeprefix(port.name) for name in names] if many else names


FOLDER = "extra/org.fmi-standard.fmi-ls-ref"
_NAMESPACE = "http://fmi-standard.org/fmi-ls-manifest"
_DOCUMENTATION = "../../documentation"  # path relative to FOLDER


def related_content(run: ReferenceRun, identifier: str) -> dict[str, str]:
    """Return the manifest and the experiment of the layered standard FMI-LS-REF.

    Args:
        run: Reference run.
        identifier: Model identifier of the FMU.

    Returns:
        Text of the files by path in the FMU.
    """
    return {
        f"{FOLDER}/fmi-ls-manifest.xml": _manifest(),
        f"{FOLDER}/experiments.xml": _experiments(run, identifier),
    }


def _manifest() -> str:
    root = Element(
        "fmiReferences",
        {
            "xmlns:fmi-ls": _NAMESPACE,
            "fmi-ls:fmi-ls-name": "org.fmi-standard.fmi-ls-ref",
            "fmi-ls:fmi-ls-version": "1.0.0-alpha.1",
            "fmi-ls:fmi-ls-description": "Layered Standard providing information on related files "
            "included in an FMU.",
        },
    )
    related = (
        ("application/xml", "experiments.xml", "experiment/smoke-test", "a run to be reproduced"),
        ("text/html", f"{_DOCUMENTATION}/index.html", "document", "description of the FMU"),
    )
    for kind, source, role, description in related:
        SubElement(root, "Related", type=kind, source=source, role=role, description=description)
    return xml_text(root)


def _experiments(run: ReferenceRun, identifier: str) -> str:
    root = Element("Experiments")
    experiment = SubElement(
        root,
        "Experiment",
        name="reference",
        description="from the start values, the inputs held in each step",
        startTime="0",
        stopTime=f"{(len(run.rows) - 1) * run.dt:.9g}",
        stepSize=f"{run.dt:.9g}",
    )
    if run.input_columns:
        SubElement(experiment, "Stimuli", source=f"{_DOCUMENTATION}/{identifier}_in.csv")
    SubElement(experiment, "References", source=f"{_DOCUMENTATION}/{identifier}_ref.csv")
    return xml_text(root)
