"""From the XML of a system structure description to what it says: systems in systems and signal
dictionaries are passed through.
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rigidblocks.formats.document import refused
from rigidblocks.ssp.parameters import bound_values, scale_of, units_in
from rigidblocks.ssp.schema import OURS, STRUCTURE, Element, found, read, tag
from rigidblocks.ssp.structure import Bound, Component, Connector, Hop, Link, Node, Structure, Value

_LOG = logging.getLogger("rigidblocks")
_FMU = "application/x-fmu-sharedlibrary"
_KINDS = {"CoSimulation": "co-simulation", "ModelExchange": "model exchange", "any": None}
_REALS = ("ssc:Real", "ssc:Float64", "ssc:Float32")
_INWARD, _OUTWARD = ("input", "parameter"), ("output", "calculatedParameter")
_COMPONENT, _SYSTEM, _BUS = map(
    tag, ("ssd:Component", "ssd:System", "ssd:SignalDictionaryReference")
)
Elements = Mapping[str, Element]
Connectors = Mapping[Node, Connector]
Feeds = Mapping[Node, tuple[Node, Hop]]


def structure_of(
    files: Mapping[str, bytes], name: str, path: Path, given: Mapping[str, Value]
) -> Structure:
    """What the description `name` among the files of an archive at `path` says, with the values of
    parameters that are `given` by hierarchical names, such as `inner.pd.kp`.

    Raises FormatError for what the standard does not allow and for what cannot be simulated here,
    and KeyError for a given name that there is not.
    """
    root = read(files, name, STRUCTURE, path)
    (system,) = found(root, "ssd:System")
    elements = dict(_elements(system, ""))
    components = {p: _component(e) for p, e in elements.items() if e.tag == _COMPONENT}
    connectors = dict(_connectors(elements))
    values = _values(elements, connectors, files, path)
    for key, value in given.items():
        if (node := _named(key, "", elements, connectors)) is None:
            raise KeyError(f"nothing in the system '{root.get('name')}' of {path} is '{key}'")
        values[node] = value
    feeds = _feeds(elements, connectors)
    ways = [_way(node, feeds, components) for node in feeds if node.path in components]
    bound = {node: Bound(value) for node, value in values.items() if node.path in components}
    outer = (_from_value(way, values) for way in ways if way.source.path not in components)
    return Structure(
        str(root.get("name")),
        components,
        connectors,
        tuple(way for way in ways if way.source.path in components),
        bound | {node: one for node, one in outer if one is not None},
        dict(units_in(root, "ssd:Units")),
        _experiment(root, system),
    )


def _elements(element: Element, path: str) -> Iterator[tuple[str, Element]]:
    """The element and all below it by their paths; one that comes twice is refused."""
    yield path, element
    names = set()
    for child in found(element, "ssd:Elements/*"):
        name = child.get("name")
        if name in names:
            raise refused(child, f"there are two elements '{name}'")
        names.add(name)
        yield from _elements(child, f"{path}/{name}" if path else name)


def _component(element: Element) -> Component:
    kind, source = element.get("type", _FMU), element.get("source")
    if kind != _FMU:
        raise refused(element, f"component '{element.get('name')}' is '{kind}'; '{_FMU}' can run")
    if ":" in source:
        raise refused(element, f"'{source}' is not in the archive, and nothing else is read")
    return Component(source, _KINDS[element.get("implementation", "any")])


def _connectors(elements: Elements) -> Iterator[tuple[Node, Connector]]:
    for path, element in elements.items():
        for one in found(element, "ssd:Connectors/ssd:Connector"):
            units = [kind.get("unit") for name in _REALS for kind in found(one, name)]
            yield Node(path, one.get("name")), Connector(one.get("kind"), *units)


def _feeds(elements: Elements, connectors: Connectors) -> dict[Node, tuple[Node, Hop]]:
    """What each connector is fed by. The ends of a connection have no direction: their kinds say
    which one gives; where they do not, it is the start.
    """
    feeds: dict[Node, tuple[Node, Hop]] = {}
    for path, element in elements.items():
        for one in found(element, "ssd:Connections/ssd:Connection"):
            ends = [_node(one, end, path, elements) for end in ("start", "end")]
            gives = [_gives(node, path, connectors) for node in ends]
            if gives in ([True, True], [False, False]):
                raise refused(one, f"{ends[0]} and {ends[1]} both {_BOTH[gives[0]]}")
            scale = scale_of(one)
            if gives[0] is False or gives[1] is True:
                ends.reverse()
                if scale[:2] != (1.0, 0.0):
                    scale = scale._replace(
                        factor=1.0 / scale.factor, offset=-scale.offset / scale.factor
                    )
            source, target = ends
            if target in feeds:
                raise refused(one, f"{target} is connected twice")
            feeds[target] = source, Hop(target, scale)
    return feeds


_BOTH = {True: "give a value", False: "take a value", None: ""}


def _node(connection: Element, end: str, path: str, elements: Elements) -> Node:
    """The start or the end of a connection; what refers to a dictionary is the dictionary's."""
    name, connector = connection.get(f"{end}Element"), connection.get(f"{end}Connector")
    inner = path if not name else f"{path}/{name}" if path else name
    if inner not in elements:
        raise refused(connection, f"there is no element '{name}' in {path or 'the system'}")
    if elements[inner].tag == _BUS:
        return Node(f"<{elements[inner].get('dictionary')}>", connector)
    return Node(inner, connector)


def _gives(node: Node, path: str, connectors: Connectors) -> bool | None:
    """Whether a connector gives a value to those in the system at a path; None where it does not
    say.
    """
    connector = connectors.get(node)
    if connector is None or connector.kind not in _INWARD + _OUTWARD:
        return None
    return (connector.kind in _INWARD) == (node.path == path)


def _way(target: Node, feeds: Feeds, components: Mapping[str, Any]) -> Link:
    """The way to an input from an output of a component, or from where nothing feeds it."""
    hops: list[Hop] = []
    node = target
    while node in feeds and (node == target or node.path not in components):
        source, hop = feeds[node]
        if len(hops) > len(feeds):
            raise ValueError(f"the connections to {target} run in a circle through systems")
        hops.insert(0, hop)
        node = source
    return Link(node, tuple(hops))


def _from_value(way: Link, values: Mapping[Node, Value]) -> tuple[Node, Bound | None]:
    """Where a way ends, and what it brings from the outermost connector that has a value."""
    nodes = (way.source, *(hop.to for hop in way.hops[:-1]))
    for k, node in enumerate(nodes):
        if node in values:
            return way.target, Bound(values[node], way.hops[k:])
    return way.target, None


def _values(
    elements: Elements, connectors: Connectors, files: Mapping[str, bytes], path: Path
) -> dict[Node, Value]:
    """The values that parameters and start values are bound to; those of outer elements win."""
    values: dict[Node, Value] = {}
    for at in sorted(elements, key=lambda p: -p.count("/") if p else 1):
        for name, value in bound_values(elements[at], files, path).items():
            node = _named(name, at, elements, connectors)
            if node is None:
                _LOG.warning("%s: nothing is called '%s' in '%s'", path, name, at or "the system")
            else:
                unit = connectors[node].unit if node in connectors else None
                values[node] = value if value.unit else value._replace(unit=unit)
    return values


def _named(name: str, path: str, elements: Elements, connectors: Connectors) -> Node | None:
    """What has a hierarchical name, such as `inner.pd.kp`, in the element at a path."""
    node = Node(path, name)
    if node in connectors or elements[path].tag == _COMPONENT:
        return node
    for child in found(elements[path], "ssd:Elements/*"):
        prefix = f"{child.get('name')}."
        if name.startswith(prefix):
            inner = f"{path}/{prefix[:-1]}" if path else prefix[:-1]
            if (node_in := _named(name[len(prefix) :], inner, elements, connectors)) is not None:
                return node_in
    return None


def _experiment(root: Element, system: Element) -> dict[str, Any]:
    """The arguments of `simulate` that a description gives: its default experiment, and what our
    own annotation says.
    """
    told: dict[str, Any] = {}
    for one in found(root, "ssd:DefaultExperiment"):
        names = {"t_start": one.get("startTime"), "t_stop": one.get("stopTime")}
        told |= {name: float(text) for name, text in names.items() if text is not None}
    for one in found(system, "ssd:Annotations/ssc:Annotation"):
        if one.get("type") == OURS:
            for ours in one:
                told |= {"dt": float(ours.get("dt"))} if ours.get("dt") else {}
                told |= {"order": ours.get("order")} if ours.get("order") else {}
    return told
