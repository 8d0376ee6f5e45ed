"""A wiring as a diagram: parts with their ports, what reads what, and in which order they step."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from rigidblocks.block.block import Port
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.part import Part
from rigidblocks.system.wiring import Connection, Wiring


class Diagram(str):
    """The text of a Mermaid flowchart, which notebooks show as the picture."""

    __slots__ = ()

    def _repr_markdown_(self) -> str:
        return f"```mermaid\n{self}\n```"


@dataclass(frozen=True)
class Drawn:
    """What is drawn: the lines of each part by its name, and the connections (from, to, text, at
    once).
    """

    parts: dict[str, tuple[str, ...]]
    connections: tuple[tuple[str, str, str, bool], ...]


def drawn(wiring: Wiring) -> Drawn:
    """A wiring as what is drawn of it: the parts in the order of their steps.

    A connection is drawn as one at once where an output of the part that it goes to reads it at the
    same instant.
    """
    order = wiring.stepping_order
    parts = {name: tuple(_lines(wiring, k, wiring.parts[name])) for k, name in enumerate(order, 1)}
    return Drawn(parts, tuple(_connection(wiring, one) for one in wiring.connections))


def mermaid(what: Drawn) -> Diagram:
    """The diagram as text of Mermaid, which GitHub, GitLab and notebooks draw."""
    ids, lines = _ids(what), ["flowchart LR"]
    for name, texts in what.parts.items():
        lines.append(f'    {ids[name]}["{"<br>".join(map(_escaped, texts))}"]')
    for a, b, text, at_once in what.connections:
        arrow = "-->" if at_once else "-.->"
        lines.append(f'    {ids[a]} {arrow}|"{_escaped(text)}"| {ids[b]}')
    return Diagram("\n".join(lines))


def graphviz(what: Drawn) -> Any:
    """The diagram as a `graphviz.Digraph`; raises ImportError without the package graphviz."""
    try:
        package = import_module("graphviz")
    except ImportError as error:
        raise ImportError(
            "a drawing by Graphviz needs the package graphviz (pip install graphviz); "
            "draw('mermaid') needs nothing"
        ) from error
    graph, ids = package.Digraph(graph_attr={"rankdir": "LR"}), _ids(what)
    for name, texts in what.parts.items():
        graph.node(ids[name], package.escape("\n".join(texts)), shape="box")
    for a, b, text, at_once in what.connections:
        style = "solid" if at_once else "dashed"
        graph.edge(ids[a], ids[b], package.escape(text), style=style)
    return graph


def _ids(what: Drawn) -> dict[str, str]:
    """A name for each part that is no text of a language of diagrams."""
    return {name: f"part{k}" for k, name in enumerate(what.parts)}


def port_text(port: Port) -> str:
    """A port with its shape and units: `q (2) rad`."""
    shape = f" ({', '.join(map(str, port.shape))})" if port.shape else ""
    units = " ".join(unit for unit in dict.fromkeys(port.units) if unit not in ("", "1"))
    return f"{port.name}{shape} {units}".rstrip()


def _lines(wiring: Wiring, k: int, part: Part) -> Iterator[str]:
    component = part.component
    kind = component.path.name if isinstance(component, Fmu) else type(component).__name__
    yield f"{k}. {part.name}: {kind}"
    sample_time = getattr(component, "sample_time", None)
    if sample_time is not None:
        yield f"every {sample_time:g} s"
    taken = {one.target for one in wiring.connections}
    for title, ports in (
        ("open", [p for p in component.inputs if (part.name, p.name) not in taken]),
        ("in", [p for p in component.inputs if (part.name, p.name) in taken]),
        ("out", component.outputs),
    ):
        if ports:
            yield f"{title}: {', '.join(map(port_text, ports))}"
    for output in dict.fromkeys(y for _, y in sorted(part.feedthrough)):
        inputs = sorted(u for u, y in part.feedthrough if y == output)
        yield f"at once: {', '.join(inputs)} -> {output}"


def _connection(wiring: Wiring, one: Connection) -> tuple[str, str, str, bool]:
    (a, _), (b, u) = one.source, one.target
    y, to = (name.partition(".")[2] for name in one.names)
    at_once = any(source == u for source, _ in wiring.parts[b].feedthrough)
    return a, b, y if y == to else f"{y} to {to}", at_once


def _escaped(text: str) -> str:
    """A text within quotes of Mermaid."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace("->", "→")


def summary(parts: Iterable[Part]) -> str:
    """The parts in a line: `pd (PDController), robot (RobotPlant)`."""
    return ", ".join(
        f"{p.name} ({'FMU' if isinstance(p.component, Fmu) else type(p.component).__name__})"
        for p in parts
    )
