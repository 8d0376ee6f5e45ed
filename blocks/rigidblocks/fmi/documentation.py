"""Documentation files of an FMU: an HTML page about the block, and a reference run.

The documentation of the reference run consists of charts and the files of the layered standard
FMI-LS-REF.
"""

import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from rigidblocks.block.adaptive_methods import Adaptive, Method, is_implicit
from rigidblocks.block.block import Block, Port
from rigidblocks.block.radau import MAX_ITERATIONS
from rigidblocks.block.units import unit_text
from rigidblocks.common.arrays import Array
from rigidblocks.common.escaping import html_text
from rigidblocks.common.package_info import __version__
from rigidblocks.common.slow_operation_log import log_if_slow
from rigidblocks.cosim.graph.combined_memory import PortsOfParts
from rigidblocks.fmi.docstring_html import html_paragraphs
from rigidblocks.kernels.block_digest import cached_texts
from rigidblocks.kernels.traced_evaluator import TracedEvaluator, feedthrough

if TYPE_CHECKING:
    from rigidblocks.view.drawn_robot import DrawnRobot
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from xml.etree.ElementTree import Element, SubElement

from rigidblocks.block.external_functions import StagedBlock
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.stepper import advance, initialize
from rigidblocks.common.charts import Chart, chart_style, chart_svg
from rigidblocks.common.escaping import csv_line, xml_text
from rigidblocks.common.optional_imports import install_command
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

        The step is at most 10 ms and at most 100 inner steps, and the run has at least ten steps.
        For a sampled block, the step is a multiple of the sample time.
        """
        return self._run[0]

    @property
    def rows(self) -> Array:
        """Memory vectors at t = 0, dt, 2 dt, ..., one per row.

        Each vector contains the inputs of the step that begins at its time.
        """
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
        values += [_number_texts(self.rows[:, place]) for place in columns.values()]
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


def _number_texts(column: Array) -> list[str]:
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


# section of a Google style docstring, with its name and its indented lines
_SECTION = re.compile(
    r"^(?P<name>Args|Attributes|Returns|Yields|Raises):[ ]*\n(?P<body>(?:[ ]+\S.*\n|[ ]*\n)+)",
    re.MULTILINE,
)
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \w+)*)(?: \([^()]*\))?: ")  # entry `name (type): text`
FEW = 6  # maximum number of equal values that a table lists one by one
_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "pre{white-space:pre-wrap;background:#f4f4f4;padding:.6em 1em}code{font-size:95%}"
    "table{border-collapse:collapse}td,th{border:1px solid "
    "#aaa;padding:.2em .6em;text-align:left}"
    "svg{max-width:100%;height:auto}"
    "@media(max-width:600px){table{font-size:87%}td,th{padding:.2em .3em;overflow-wrap:anywhere}}"
    ".formulas{margin:0 0 1em 2em;line-height:2;overflow:auto hidden;padding:.2em 0}"
    ".formulas .name{font-style:italic}"
    'math{font-family:"STIX Two Math","Cambria Math","Latin Modern Math",math;font-size:112%}'
)

_LATER = "All other outputs respond to an input one step later."
_CONVENTIONS = (
    "Elements count from 1, matrices by row and column: <code>q[1]</code>, <code>R[2,3]</code>.",
    "A start value of an output that is a state sets the state.",
)
_LIMITS = (
    "Inputs are held over a communication step, so a loop around the FMU has a delay of one step. "
    "Stiff loops need short steps, or one FMU for the whole loop.",
    "A start value or a parameter outside its range is refused, with the bound in the log.",
    "A step whose result is not finite is undone and discarded, with a message in the log.",
)
_ROBOT_LIMITS = (
    "Bodies are rigid. Positions, velocities and forces of joints have only the limits in the "
    "tables above."
)
_ROBOT_PORTS = {"q", "qd", "tau", "f_ext"}
_ROBOT_CONVENTIONS = (
    "Positions, velocities and wrenches are in base coordinates unless a port says otherwise. A "
    "wrench has the moment about the base origin first, then the force.",
    "Quaternions have the scalar first. A joint force acts in the direction of increasing "
    "position.",
)


def documentation_content(
    evaluator: TracedEvaluator, identifier: str, method: Method, h: float
) -> dict[str, bytes]:
    """Return the documentation files of an FMU, including the reference run.

    A block without finite start values has no reference run.

    Args:
        evaluator: Traced block.
        identifier: Model identifier of the FMU.
        method: Integration method.
        h: Maximum inner step [s].

    Returns:
        File content (bytes) by path in the FMU.
    """
    charts = version("pygal") if find_spec("pygal") else None
    files = cached_texts(
        lambda: _documentation_texts(evaluator, identifier, method, h),
        *("documentation of an FMU", charts, evaluator.memory, identifier, method, h),
    )
    return {name: text.encode() for name, text in files.items()}


def _documentation_texts(
    evaluator: TracedEvaluator, identifier: str, method: Method, h: float
) -> dict[str, str]:
    """Return the documentation files as text; the arguments are as in `documentation_content`."""
    run = ReferenceRun(evaluator, method, h)
    with log_if_slow(f"computing the reference run of {evaluator.memory.name}"):
        content = {"index.html": page(run, identifier)}
    if len(run.rows):
        content[f"{identifier}_ref.csv"] = run.csv(run.output_columns)
        content[f"{identifier}_ref.opt"] = run.options
        if run.input_columns:
            content[f"{identifier}_in.csv"] = run.csv(run.input_columns)
    files = {f"documentation/{name}": text for name, text in content.items()}
    return files | related_content(run, identifier) if len(run.rows) else files


def page(run: ReferenceRun, identifier: str) -> str:
    """Return the HTML of index.html, the documentation page of an FMU."""
    prose_html = [*html_paragraphs(prose(run.memory.block), names(run.memory.block))]
    # the purpose of the block and its equation; the tables of ports follow at once
    first = 2 if len(prose_html) > 1 and "formulas" in prose_html[1][:40] else 1
    description = prose_html[first:]
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html_text(identifier)}</title><style>{_STYLE}</style></head><body><main>",
            f"<h1>{html_text(identifier)}</h1>",
            *prose_html[:first],
            f"<p>{html_text(_stepping_text(run))} Made by rigidblocks {__version__}.</p>",
            *_parts(run.memory.block),
            *ports_and_run(run),
            *(["<h2>Description</h2>", *description] if description else []),
            *_limits(run.memory.block),
            f"<p>The values are in {html_text(identifier)}_ref.csv, the inputs in "
            f"{html_text(identifier)}_in.csv.</p>"
            if len(run.rows)
            else "",
            "</main></body></html>\n",
        ]
    )


def ports_and_run(run: ReferenceRun) -> Iterator[str]:
    """Yield the HTML of the port tables, the connection rules and the reference run."""
    memory, block = run.memory, run.memory.block
    tunable = {port.name for port in memory.parameters}
    constants = [port for port in block.parameters if port.name not in tunable]
    states = [port for port in (*block.states, *block.sampled) if port not in block.outputs]
    yield from _table("Inputs", block.inputs)
    yield from _table("Outputs", block.outputs)
    yield from _table("States", states)
    yield from _table("Tunable parameters", memory.parameters)
    yield from _table("Constants", constants)
    yield from _picture(block)
    yield from _wiring(run)
    yield from _reference(run)


def block_docstring(block: Block) -> str:
    """Return the docstring of the block's class, or the class name if it has no docstring."""
    return inspect.cleandoc(type(block).__doc__ or type(block).__name__)


def prose(block: Block) -> str:
    """Return the docstring of the block's class, adapted for the documentation page.

    The function omits the sections `Raises:`, `Returns:` and `Yields:`, which only Python users
    need. It converts the sections `Args:` and `Attributes:` to lists.
    """
    text = _SECTION.sub(_section_as_list, block_docstring(block) + "\n").strip("\n")
    paragraphs = re.split(r"\n\s*\n", text)
    return "\n\n".join(one for one in paragraphs if not one.startswith("Raises "))


def _section_as_list(section: re.Match[str]) -> str:
    """Convert the docstring section `Args` or `Attributes` to a list; omit all other sections."""
    if section["name"] not in ("Args", "Attributes"):
        return "\n"
    entries = re.split(r"^(?=\S)", textwrap.dedent(section["body"]), flags=re.MULTILINE)
    items = [_ENTRY.sub(r"`\1`: ", " ".join(entry.split())) for entry in entries if entry.strip()]
    return "\n".join(["Arguments:", "", *(f"- {item}" for item in items), "", ""])


def names(block: Block) -> frozenset[str]:
    """Return the port and field names of a block, which formulas display as variables."""
    ports = (*block.inputs, *block.outputs, *block.states, *block.sampled, *block.parameters)
    return frozenset(port.name for port in ports) | {*getattr(block, "__dataclass_fields__", ())}


def _parts(block: Block) -> Iterator[str]:
    """Yield the HTML descriptions of the parts, if the block is a system."""
    if isinstance(block, PortsOfParts):
        yield "<h2>Parts</h2>"
        for name, part in block.parts.items():
            kind = type(part.memory.block).__name__
            yield f"<h3><code>{html_text(name)}</code>: {html_text(kind)}</h3>"
            yield from html_paragraphs(prose(part.memory.block), names(part.memory.block))


def _picture(block: Block) -> Iterator[str]:
    """Yield the HTML of a drawing of the block's robots in their initial configuration."""
    if not _is_robot(block):
        return
    from rigidblocks.view.video_export import drawing

    robots = [one for one in _robots(block, {}) if np.all(np.isfinite(one.q))]
    if robots and (drawn := drawing(robots)):
        yield f"<figure>{drawn}<figcaption>Start configuration with the base axes and the joints."
        yield "</figcaption></figure>"


def _robots(block: Block, start: Mapping[str, Any]) -> Iterator["DrawnRobot"]:
    from rigidblocks.view.robot_page import PLANTS, drawn_plant

    if isinstance(block, PortsOfParts):
        for part in block.parts.values():
            yield from _robots(part.memory.block, part.start)
    elif isinstance(block, PLANTS):
        yield drawn_plant(block, start)[0]


def _table(title: str, ports: Iterable[Port]) -> Iterator[str]:
    if rows := [_row(port) for port in ports]:
        yield f"<h2>{title}</h2><table><tr><th>name</th><th>shape</th><th>unit</th>"
        yield "<th>start</th><th>range</th>"
        yield "<th>description</th></tr>"
        yield from rows
        yield "</table>"


def _row(port: Port) -> str:
    shape = " x ".join(map(str, port.shape)) or "scalar"
    start = "" if port.start is None else _value_text(np.ravel(port.start))
    cells = (shape, unit_text(port.units), start, _range(port), port.doc)
    name = f"<td><code>{html_text(port.name)}</code></td>"
    return f"<tr>{name}{''.join(f'<td>{html_text(cell)}</td>' for cell in cells)}</tr>"


def _value_text(values: Array) -> str:
    """Return values as text for a table cell.

    If more than `FEW` values are all equal, the text is, for example, "0 each".
    """
    texts = [f"{value:.6g}" for value in values]
    return f"{texts[0]} each" if len(texts) > FEW and len(set(texts)) == 1 else ", ".join(texts)


def _range(port: Port) -> str:
    """Return the bounds of a port as text for a table cell.

    If the elements of the port have different bounds, the text lists the bounds of all elements.
    """
    bounds = zip(np.ravel(port.min).tolist(), np.ravel(port.max).tolist(), strict=True)
    texts = dict.fromkeys(f"{low:.6g} to {high:.6g}" for low, high in bounds)
    return "" if set(texts) == {"-inf to inf"} else ", ".join(texts)


def _wiring(run: ReferenceRun) -> Iterator[str]:
    """Yield the HTML section about direct feedthrough, delays, indices and frames of ports."""
    pairs, block = feedthrough(run.evaluator), run.memory.block
    yield "<h2>Connections</h2><ul>"
    for output in block.outputs:
        if read := [port.name for port in block.inputs if (port.name, output.name) in pairs]:
            names = ", ".join(f"<code>{html_text(name)}</code>" for name in read)
            named = html_text(output.name)
            yield f"<li><code>{named}</code> reads {names} at the same instant.</li>"
    if block.inputs and {port.name for port in block.outputs} - {output for _, output in pairs}:
        yield f"<li>{_LATER}</li>"
    yield from (f"<li>{rule}</li>" for rule in _CONVENTIONS)
    if _is_robot(block):
        yield from (f"<li>{rule}</li>" for rule in _ROBOT_CONVENTIONS)
    yield "</ul>"


def _limits(block: Block) -> Iterator[str]:
    """Yield the HTML section about limits of use; robot blocks have additional limits."""
    rules = _LIMITS if not _is_robot(block) else (*_LIMITS, _ROBOT_LIMITS)
    yield "<h2>Limits of use</h2><ul>"
    yield from (f"<li>{rule}</li>" for rule in rules)
    yield "</ul>"


def _is_robot(block: Block) -> bool:
    """Return True if an input or output has the name of a robot port, such as q or tau."""
    return any(p.name.split(".")[-1] in _ROBOT_PORTS for p in (*block.inputs, *block.outputs))


def _stepping_text(run: ReferenceRun) -> str:
    sample = run.memory.block.sample_time
    parts = []
    if run.memory.block.states:
        parts.append(_integration_text(run))
    if sample is not None:
        parts.append(f"The block samples every {sample:g} s, also within a communication step.")
    return " ".join(parts)


def _integration_text(run: ReferenceRun) -> str:
    method = run.method
    if not isinstance(method, Adaptive):
        return (
            f"The states are integrated in {method.stages} stages with inner steps of at most "
            f"{run.h:g} s."
        )
    bound = method.max_inner_steps
    most = "any number of inner steps"
    if bound is not None:
        most = (
            f"at most {bound} inner steps, and one step without error control, per communication "
            "step or sample time within it: at most "
            f"{most_operations(run.evaluator, method, bound):.2g} arithmetic "
            "operations; steps.cut_short counts the steps that reached this limit"
        )
    return (
        f"The method '{method.name}' integrates the states with error control to the relative "
        f"tolerance {method.rtol:g}: {most}."
    )


def most_operations(evaluator: TracedEvaluator, method: Adaptive, trial_steps: int) -> float:
    """Return an upper bound of the operation count of a communication step.

    The count includes `trial_steps` trial steps, a final step without error control, the update of
    the sampled states, and the computation of the outputs.
    """

    def operations(name: str) -> int:
        return evaluator.graph(name).operation_count

    moved = operations("project") if evaluator.has_projection else 0
    seen = 4 * operations("switching_functions") if evaluator.switching_count else 0
    ends = operations("output") + operations("update") + operations("derivative")
    most = max(_trial_step_operations(evaluator, method), default=0.0)
    return (trial_steps + 1) * (most + moved + seen) + ends


def _trial_step_operations(evaluator: TracedEvaluator, method: Adaptive) -> Iterator[float]:
    """Yield the operation count of a trial step for each step type of `method`.

    The step types are explicit, linearly implicit and collocation.
    """
    n = evaluator.memory.x.stop - evaluator.memory.x.start
    rates = evaluator.graph("derivative").operation_count
    if method.explicit is not None:
        stages = method.explicit.stages
        yield stages * rates + n * stages * (stages + 8)
    slopes = (n + 1) * (rates + 2 * n)
    if is_implicit(method) and method.exact_jacobian:
        slopes = evaluator.rate_slopes.operation_count
    if method.stiff is not None:
        stages = method.stiff.stages
        linear = 2 / 3 * n**3 + stages * 2 * n**2
        yield slopes + linear + stages * rates + 2 * n * stages * (stages + 8)
    if method.collocation is not None and method.collocates(n):
        # at most two Jacobians; each complex pair of collocation roots needs one complex solution
        stages = method.collocation.stages
        linear, newton = 6 * n**3, stages * rates + 18 * n**2 + 8 * n * stages * (stages + 1)
        yield slopes + 2 * (linear + MAX_ITERATIONS * newton) + 2 * rates + 4 * n**2


def _reference(run: ReferenceRun) -> Iterator[str]:
    if not len(run.rows):
        yield "<p>There is no reference run, because the start values are not finite.</p>"
        return
    yield f"<h2>Reference run</h2><p>Communication steps of {run.dt:g} s from the start values; "
    yield (
        "input i, counted from 0 over all elements, is its start value + 0.1 sin(2 pi t + i) "
        "[its unit], held in each step.</p>"
    )
    yield curves(run)
