"""Documentation files of an FMU: an HTML page about the block, and a reference run."""

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
from rigidblocks.common.escaping import html_text
from rigidblocks.common.package_info import __version__
from rigidblocks.cosim.graph.combined_memory import PortsOfParts
from rigidblocks.fmi.docstring_html import html_paragraphs
from rigidblocks.fmi.reference_run import ReferenceRun, curves, related_content
from rigidblocks.kernels.block_digest import cached_texts
from rigidblocks.kernels.traced_evaluator import TracedEvaluator, feedthrough
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.slow_operation_log import log_if_slow

if TYPE_CHECKING:
    from rigidblocks.view.drawn_robot import DrawnRobot

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
    start = "" if port.start is None else _numbers(np.ravel(port.start))
    cells = (shape, unit_text(port.units), start, _range(port), port.doc)
    name = f"<td><code>{html_text(port.name)}</code></td>"
    return f"<tr>{name}{''.join(f'<td>{html_text(cell)}</td>' for cell in cells)}</tr>"


def _numbers(values: Array) -> str:
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


def most_operations(evaluator: TracedEvaluator, method: Adaptive, bound: int) -> float:
    """Return an upper bound of the operation count of a communication step.

    The bound includes `bound` trial steps, a final step without error control, the update of the
    sampled states, and the computation of the outputs.
    """

    def operations(name: str) -> int:
        return evaluator.graph(name).operation_count

    moved = operations("project") if evaluator.has_projection else 0
    seen = 4 * operations("switching_functions") if evaluator.switching_count else 0
    ends = operations("output") + operations("update") + operations("derivative")
    most = max(_operations_of_tries(evaluator, method), default=0.0)
    return (bound + 1) * (most + moved + seen) + ends


def _operations_of_tries(evaluator: TracedEvaluator, method: Adaptive) -> Iterator[float]:
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
