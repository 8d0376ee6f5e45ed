"""The documentation inside an FMU: a page about the block, and the reference run as the FMI
cross-check rules ask for it.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

import rigidblocks
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import Adaptive, Method, is_implicit
from rigidblocks.block.block import Block, Port
from rigidblocks.block.collocation import MOST_TRIES
from rigidblocks.fmi.curves import curves
from rigidblocks.fmi.prose import as_html
from rigidblocks.fmi.reference import ReferenceRun
from rigidblocks.fmi.related import related_content
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.feedthrough import feedthrough
from rigidblocks.system.memories import PortsOfParts

if TYPE_CHECKING:
    from rigidblocks.view.robot import DrawnRobot

FEW = 6  # numbers that are the same are still written one by one
_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "pre{white-space:pre-wrap;background:#f4f4f4;padding:.6em 1em}code{font-size:95%}"
    "table{border-collapse:collapse}td,th{border:1px solid "
    "#aaa;padding:.2em .6em;text-align:left}"
    ".formulas{margin:0 0 1em 2em;line-height:2;overflow:auto hidden;padding:.2em 0}"
    ".formulas .name{font-style:italic}"
    'math{font-family:"STIX Two Math","Cambria Math","Latin Modern Math",math;font-size:112%}'
)

_LATER = "Every other output follows an input one step later."
_CONVENTIONS = (
    "Elements are counted from 1, and matrices go by rows: <code>q[1]</code>, <code>R[2,3]</code>.",
    "A start value that is set on an output that is a state sets the state.",
)
_LIMITS = (
    "Inputs are held over a communication step: what closes a loop around it sees it a step late, "
    "so stiff loops need short steps, or belong into one FMU.",
    "A start value or a parameter outside its range is refused, with the bound in the log.",
    "A step whose result is not finite is undone and discarded, with a message in the log.",
)
_ROBOT_LIMITS = (
    "Bodies are rigid. Positions, velocities and forces of joints are limited by what the tables "
    "above name, and else not."
)
_ROBOT_PORTS = {"q", "qd", "tau", "f_ext"}
_ROBOT_CONVENTIONS = (
    "Places, velocities and wrenches are in base coordinates unless a port says otherwise; a "
    "wrench has its moment, about the origin of the base, before its force.",
    "Quaternions have the scalar first. The force of a joint acts in the direction in which its "
    "position grows.",
)


def documentation_content(
    evaluator: TracedEvaluator, identifier: str, method: Method, h: float
) -> dict[str, bytes]:
    """The files of an FMU's documentation by their path, its reference run among them as FMI-LS-REF
    has it; there is none of a block that does not start.
    """
    run = ReferenceRun(evaluator, method, h)
    content = {"index.html": page(run, identifier)}
    if len(run.rows):
        content[f"{identifier}_ref.csv"] = run.csv(run.output_columns)
        content[f"{identifier}_ref.opt"] = run.options
        if run.input_columns:
            content[f"{identifier}_in.csv"] = run.csv(run.input_columns)
    files = {f"documentation/{name}": text.encode() for name, text in content.items()}
    return files | related_content(run, identifier) if len(run.rows) else files


def page(run: ReferenceRun, identifier: str) -> str:
    """The text of index.html."""
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            f"<title>{escape(identifier)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(identifier)}</h1>",
            *as_html(prose(run.memory.block), names(run.memory.block)),
            f"<p>{escape(_stepping(run))} Made by rigidblocks {rigidblocks.__version__}.</p>",
            *_parts(run.memory.block),
            *ports_and_run(run),
            *_limits(run.memory.block),
            f"<p>The values are in {escape(identifier)}_ref.csv, the inputs in "
            f"{escape(identifier)}_in.csv.</p>"
            if len(run.rows)
            else "",
            "</body></html>\n",
        ]
    )


def ports_and_run(run: ReferenceRun) -> Iterator[str]:
    """What a block's ports are, how they are connected, and its reference run, as HTML."""
    memory, block = run.memory, run.memory.block
    tunable = {port.name for port in memory.parameters}
    constants = [port for port in block.parameters if port.name not in tunable]
    states = [port for port in (*block.states, *block.sampled) if port not in block.outputs]
    yield from _picture(block)
    yield from _table("Inputs", block.inputs)
    yield from _table("Outputs", block.outputs)
    yield from _table("States", states)
    yield from _table("Tunable parameters", memory.parameters)
    yield from _table("Constants", constants)
    yield from _wiring(run)
    yield from _reference(run)


def docstring(block: Block) -> str:
    """The docstring of the block's type, its type's name without one."""
    return inspect.cleandoc(type(block).__doc__ or type(block).__name__)


def prose(block: Block) -> str:
    """The docstring without what is raised in Python."""
    paragraphs = re.split(r"\n\s*\n", docstring(block))
    return "\n\n".join(one for one in paragraphs if not one.startswith("Raises "))


def names(block: Block) -> frozenset[str]:
    """What the docstring of a block calls by name: its ports and its fields."""
    ports = (*block.inputs, *block.outputs, *block.states, *block.sampled, *block.parameters)
    return frozenset(port.name for port in ports) | {*getattr(block, "__dataclass_fields__", ())}


def _parts(block: Block) -> Iterator[str]:
    """What the parts of a system are."""
    if isinstance(block, PortsOfParts):
        yield "<h2>Parts</h2>"
        for name, part in block.parts.items():
            kind = type(part.memory.block).__name__
            yield f"<h3><code>{escape(name)}</code>: {escape(kind)}</h3>"
            yield from as_html(prose(part.memory.block), names(part.memory.block))


def _picture(block: Block) -> Iterator[str]:
    """The robots of a block where they start, if it has some; what draws is loaded for these."""
    if not _is_robot(block):
        return
    from rigidblocks.view.drawing import drawing

    robots = [one for one in _robots(block, {}) if np.all(np.isfinite(one.q))]
    if robots and (drawn := drawing(robots)):
        yield f"<figure>{drawn}<figcaption>Where it starts, the axes of the base, and the joints."
        yield "</figcaption></figure>"


def _robots(block: Block, start: Mapping[str, Any]) -> Iterator["DrawnRobot"]:
    from rigidblocks.view.show import PLANTS, drawn_plant

    if isinstance(block, PortsOfParts):
        for part in block.parts.values():
            yield from _robots(part.memory.block, part.start)
    elif isinstance(block, PLANTS):
        yield drawn_plant(block, start)[0]


def _table(title: str, ports: Iterable[Port]) -> Iterator[str]:
    if rows := [_row(port) for port in ports]:
        yield f"<h2>{title}</h2><table><tr><th>name</th><th>shape</th><th>unit</th>"
        yield "<th>start</th><th>range</th>"
        yield "<th>what it is</th></tr>"
        yield from rows
        yield "</table>"


def _row(port: Port) -> str:
    shape = " x ".join(map(str, port.shape)) or "scalar"
    start = "" if port.start is None else _numbers(np.ravel(port.start))
    cells = (shape, ", ".join(dict.fromkeys(port.units)), start, _range(port), port.doc)
    name = f"<td><code>{escape(port.name)}</code></td>"
    return f"<tr>{name}{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _numbers(values: Array) -> str:
    """Each number, or the one that more than a few of them are."""
    texts = [f"{value:.6g}" for value in values]
    return f"{texts[0]} each" if len(texts) > FEW and len(set(texts)) == 1 else ", ".join(texts)


def _range(port: Port) -> str:
    """The bounds of a port, those of its elements with commas where they differ."""
    bounds = zip(np.ravel(port.min).tolist(), np.ravel(port.max).tolist(), strict=True)
    texts = dict.fromkeys(f"{low:.6g} to {high:.6g}" for low, high in bounds)
    return "" if set(texts) == {"-inf to inf"} else ", ".join(texts)


def _wiring(run: ReferenceRun) -> Iterator[str]:
    """What one has to know to connect the ports."""
    pairs, block = feedthrough(run.evaluator), run.memory.block
    yield "<h2>Connecting it</h2><ul>"
    for output in block.outputs:
        if read := [port.name for port in block.inputs if (port.name, output.name) in pairs]:
            names = ", ".join(f"<code>{escape(name)}</code>" for name in read)
            yield f"<li><code>{escape(output.name)}</code> reads {names} at the same instant.</li>"
    if block.inputs and {port.name for port in block.outputs} - {output for _, output in pairs}:
        yield f"<li>{_LATER}</li>"
    yield from (f"<li>{rule}</li>" for rule in _CONVENTIONS)
    if _is_robot(block):
        yield from (f"<li>{rule}</li>" for rule in _ROBOT_CONVENTIONS)
    yield "</ul>"


def _limits(block: Block) -> Iterator[str]:
    """How far it may be used."""
    rules = _LIMITS if not _is_robot(block) else (*_LIMITS, _ROBOT_LIMITS)
    yield "<h2>Limits of its use</h2><ul>"
    yield from (f"<li>{rule}</li>" for rule in rules)
    yield "</ul>"


def _is_robot(block: Block) -> bool:
    """Whether some of its ports are those of a robot."""
    return any(p.name.split(".")[-1] in _ROBOT_PORTS for p in (*block.inputs, *block.outputs))


def _stepping(run: ReferenceRun) -> str:
    sample = run.memory.block.sample_time
    parts = []
    if run.memory.block.states:
        parts.append(_integration(run))
    if sample is not None:
        parts.append(f"There is a sample every {sample:g} s; a communication step fits it.")
    return " ".join(parts)


def _integration(run: ReferenceRun) -> str:
    method = run.method
    if not isinstance(method, Adaptive):
        return (
            f"The states are integrated in {method.stages} stages with inner steps of at most "
            f"{run.h:g} s."
        )
    bound = method.max_inner_steps
    most = "as many as it takes"
    if bound is not None:
        most = (
            f"at most {bound}, and one more, in a communication step or a sample time within it, "
            f"which is at most {most_operations(run.evaluator, method, bound):.2g} operations of "
            "arithmetic; steps.cut_short counts where they were used up"
        )
    return (
        f"The states are integrated by the method '{method.name}', whose inner steps know their "
        f"error, to the relative tolerance {method.rtol:g}: {most}."
    )


def most_operations(evaluator: TracedEvaluator, method: Adaptive, bound: int) -> float:
    """The most operations of a communication step of at most `bound` tries of an inner step and the
    one step that covers the rest, with a sample and the outputs.
    """

    def operations(name: str) -> int:
        return evaluator.graph(name).operation_count

    moved = operations("project") if evaluator.projects else 0
    seen = 4 * operations("margins") if evaluator.margin_count else 0
    ends = operations("output") + operations("update") + operations("derivative")
    most = max(_operations_of_tries(evaluator, method), default=0.0)
    return (bound + 1) * (most + moved + seen) + ends


def _operations_of_tries(evaluator: TracedEvaluator, method: Adaptive) -> Iterator[float]:
    """Of each kind of method that an inner step may be tried with."""
    n = evaluator.memory.x.stop - evaluator.memory.x.start
    rates = evaluator.graph("derivative").operation_count
    if method.explicit is not None:
        stages = method.explicit.stages
        yield stages * rates + n * stages * (stages + 8)
    slopes = (n + 1) * (rates + 2 * n)
    if is_implicit(method) and method.exact:
        slopes = evaluator.rate_slopes.operation_count
    if method.stiff is not None:
        stages = method.stiff.stages
        linear = 2 / 3 * n**3 + stages * 2 * n**2
        yield slopes + linear + stages * rates + 2 * n * stages * (stages + 8)
    if method.collocation is not None and method.collocates(n):
        # with an old Jacobian, and with a new one; of its pairs of roots complex equations
        stages = method.collocation.stages
        linear, newton = 6 * n**3, stages * rates + 18 * n**2 + 8 * n * stages * (stages + 1)
        yield slopes + 2 * (linear + MOST_TRIES * newton) + 2 * rates + 4 * n**2


def _reference(run: ReferenceRun) -> Iterator[str]:
    if not len(run.rows):
        yield "<p>There is no reference run: the values at the start are not finite.</p>"
        return
    yield f"<h2>Reference run</h2><p>Communication steps of {run.dt:g} s from the start values; "
    yield (
        "input i, counted from 0 over all elements, is its start value + 0.1 sin(2 pi t + i) "
        "[its unit], held in a step.</p>"
    )
    yield curves(run)
