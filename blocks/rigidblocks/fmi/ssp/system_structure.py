"""Reader of SSP system structure descriptions, with their components and connections."""

import logging
import posixpath
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urldefrag

from rigidblocks.block.units import Quantity
from rigidblocks.common.xml_reader import format_error, number
from rigidblocks.cosim.graph.fused_system import ORDERS
from rigidblocks.cosim.graph.system import System
from rigidblocks.fmi.ssp.package import DESCRIPTION, Package, Subfolder, read_archive
from rigidblocks.fmi.ssp.parameter_sets import (
    BindingValue,
    Items,
    Location,
    Transformation,
    Value,
    bound_values,
    enumerations_in,
    transformation_of,
    units_in,
)
from rigidblocks.fmi.ssp.schema import (
    DICTIONARY,
    INWARD,
    OURS,
    OUTWARD,
    STRUCTURE,
    Element,
    file_name,
    find_all,
    place_of,
    read,
    tag,
)


class Node(NamedTuple):
    """Identifier of a connector, with the path of its element and the name of the connector.

    The path consists of the names of the enclosing systems and the element, such as `inner/pd`. The
    path of the outermost system is "".
    """

    path: str
    connector: str

    def __str__(self) -> str:
        return f"{self.path}.{self.connector}" if self.path else self.connector


class Connector(NamedTuple):
    """Connector of an SSP element.

    Attributes:
        kind: Causality, such as input.
        unit: Name of the unit, or None.
        meaning: Physical quantity of the unit, if the file defines the unit.
        element: XML element of the connector.
        items: Integer values of the enumeration items by name.
    """

    kind: str
    unit: str | None = None
    meaning: Quantity | None = None
    element: Any = None
    items: Mapping[str, int] = {}


class Hop(NamedTuple):
    """Section of a signal path: a connection or a parameter binding.

    Attributes:
        to: Connector or variable at the end of the section.
        transformation: Transformation of the values in the section.
        element: XML element of the connection or of the mapping entry, or None.
    """

    to: Node
    transformation: Transformation = Transformation()
    element: Any = None


class Component(NamedTuple):
    """FMU component of a system.

    Attributes:
        source: File name of the FMU.
        kind: "co-simulation", "model exchange", or None for the default of the FMU.
        files: Files of the description that contains the component.
        element: XML element of the component.
    """

    source: str
    kind: str | None
    files: Package
    element: Any = None


class Link(NamedTuple):
    """Signal path from an FMU output to an FMU input, through connectors of systems."""

    source: Node
    hops: tuple[Hop, ...]

    @property
    def target(self) -> Node:
        """Input at the end of the path."""
        return self.hops[-1].to


class StartValue(NamedTuple):
    """Start value that a parameter binding specifies for a connector or variable.

    If several bindings set a variable, the value with the smallest `depth` takes precedence.

    Attributes:
        value: Value in the parameter binding.
        hops: Sections of the path of the value. The first section is the parameter binding,
            and the other sections are connections.
        depth: Number of systems that enclose the element of the parameter binding.
    """

    value: Value
    hops: tuple[Hop, ...] = ()
    depth: int = 0


@dataclass(frozen=True)
class Structure:
    """Content of an SSP system structure description.

    Attributes:
        name: Name of the description.
        components: FMU components by path.
        connectors: Connectors of all elements.
        links: Connections between FMU components.
        values: Start values by component variable.
        units: Units of the description by name.
        experiment: Run options as arguments of `simulate`.
    """

    name: str
    components: Mapping[str, Component]
    connectors: Mapping[Node, Connector]
    links: tuple[Link, ...]
    values: Mapping[Node, StartValue]
    units: Mapping[str, Quantity]
    experiment: Mapping[str, Any] = field(default_factory=dict)


class Loaded(NamedTuple):
    """System and run options of a loaded file, for the call `simulate(system, **run)`."""

    system: System
    run: Mapping[str, Any]


_LOG = logging.getLogger("rigidblocks")


_FMU, _SSD, _SSP = (
    "application/x-fmu-sharedlibrary",
    "application/x-ssp-definition",
    "application/x-ssp-package",
)
_KINDS = {"CoSimulation": "co-simulation", "ModelExchange": "model exchange", "any": None}
_BUS_KIND = "application/x-ssp-signal-dictionary"
_COMPONENT, _BUS = tag("ssd:Component"), tag("ssd:SignalDictionaryReference")
Elements = Mapping[str, Element]
Connectors = Mapping[Node, Connector]
Feeds = Mapping[Node, tuple[Node, Hop]]


class Document(NamedTuple):
    """Description of an SSP system (.ssd) with the units and enumerations that it defines.

    Attributes:
        root: Root element of the XML file.
        files: Files to which the description may refer, such as FMUs and parameter files.
        path: Path of the archive or folder that contains the description.
        units: Units by name.
        enumerations: Items of each enumeration by name.
    """

    root: Element
    files: Package
    path: Path
    units: Mapping[str, Quantity]
    enumerations: Mapping[str, Items]


class Place(NamedTuple):
    """Element of a system structure: a system, a component, or a reference to a signal dictionary.

    If a component refers to another system, this system replaces the component.

    Attributes:
        element: XML element of the system, component or reference.
        document: Description that contains the element.
        depth: Number of enclosing systems.
        component: XML element of the replaced component, or None.
        outer: Description that contains the replaced component, or None.
    """

    element: Element
    document: Document
    depth: int = 0
    component: Element = None
    outer: Document | None = None


class Tree(NamedTuple):
    """Elements of a system structure by path.

    Attributes:
        places: Elements by path.
        owners: Path (`Node.path`) of the connectors of an element, by element path. For a reference
            to a signal dictionary, this is the path of the dictionary.
    """

    places: Mapping[str, Place]
    owners: Mapping[str, str]


def structure_of(files: Package, name: str, path: Path, given: Mapping[str, Value]) -> Structure:
    """Read a system structure description, and resolve its connections and parameter values.

    Args:
        files: Files of the system.
        name: File name of the description.
        path: Path of the archive or folder with the files.
        given: Parameter values by hierarchical name, such as `inner.pd.kp`, which replace the
            values in the description.

    Returns:
        Content of the description.

    Raises:
        FormatError: The description violates the standard, or cannot be simulated.
        KeyError: A name in `given` is unknown.
    """
    document = _document(files, name, path)
    (system,) = find_all(document.root, "ssd:System")
    places: dict[str, Place] = {}
    for at, place in _places(Place(system, document), "", ()):
        if at in places:
            raise format_error(
                place.element if place.component is None else place.component,
                f"two elements have the path '{at}'",
            )
        places[at] = place
    dictionaries = dict(_resolve_dictionaries(places, "", {}))
    owners = {at: f"{scope}<{one.get('name')}>" for at, (scope, one) in dictionaries.items()}
    tree = Tree(places, {at: owners.get(at, at) for at in places})
    components = {at: _component(p) for at, p in places.items() if p.element.tag == _COMPONENT}
    connectors = _connectors(tree, dictionaries)
    feeds = _feeds(tree, connectors)
    links = [_signal_path(node, feeds, components) for node in feeds if node.path in components]
    values = _values(tree, connectors)
    for key, value in given.items():
        if not (nodes := list(_find_nodes(key, "", tree, connectors))):
            raise KeyError(f"the system '{document.root.get('name')}' of {path} has no '{key}'")
        values |= {node: _bind_value(node, BindingValue(value), -1, connectors) for node in nodes}
    return Structure(
        str(document.root.get("name")),
        components,
        connectors,
        tuple(link for link in links if link.source.path in components),
        _starts(values, links, components),
        document.units,
        _experiment(document.root, system),
    )


def _document(files: Package, name: str, path: Path) -> Document:
    """Read the description file `name`, and the units and enumerations that it defines."""
    root = read(files, name, STRUCTURE, path)
    units, enumerations = units_in(root, "ssd:Units"), enumerations_in(root, "ssd:Enumerations")
    return Document(root, files, path, units, enumerations)


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _places(
    place: Place, path: str, opened: tuple[tuple[str, str], ...]
) -> Iterator[tuple[str, Place]]:
    """Yield the element `place` and its descendants, with their paths.

    `opened` contains the identities of the enclosing systems. A component that refers to an
    enclosing system is an error.
    """
    yield path, place
    for child in find_all(place.element, "ssd:Elements/*"):
        inner = Place(child, place.document, place.depth + 1)
        if child.tag == _COMPONENT and _is_system(child):
            inner = _referenced_system(inner)
            if _identity(inner.element) in (*opened, _identity(place.element)):
                raise format_error(child, f"component '{child.get('name')}' contains itself")
        around = (*opened, _identity(place.element))
        yield from _places(inner, _join(path, child.get("name")), around)


def _identity(system: Element) -> tuple[str, str]:
    """Return a unique key of a system: its file name, and its XML path in this file."""
    tree = system.getroottree()
    return posixpath.normpath(tree.docinfo.URL), tree.getpath(system)


def _is_system(component: Element) -> bool:
    """Return True if a component refers to a system in the same file or in another file."""
    source = component.get("source", "")
    return source.startswith("#") or (component.get("type", _FMU) in (_SSD, _SSP) and source != "")


def _referenced_system(place: Place) -> Place:
    """Return the system to which a component refers by the URI of an SSD, an SSP or an element.

    Raises:
        FormatError: The file or the system does not exist, or the file is invalid.
    """
    component, (_, files, path, _, _) = place.element, place.document
    kind, (source, fragment) = component.get("type", _FMU), urldefrag(component.get("source"))
    if not source:
        systems = place.document.root.iter(tag("ssd:System"))
        found = [one for one in systems if one.get("id") == fragment]
        if len(found) != 1:
            text = f"the file has {len(found)} systems with the id '{fragment}'; expected one"
            raise format_error(component, text)
        return place._replace(element=found[0], component=component, outer=place.document)
    name = file_name(source, files)
    if name not in files:
        text = f"component '{component.get('name')}': '{source}' is missing in {path}"
        raise format_error(component, text)
    if kind == _SSP:
        inner = _document(
            read_archive(path / name, files[name]), fragment or DESCRIPTION, path / name
        )
    else:
        folder, _, file = name.rpartition("/")
        inside = Path(posixpath.normpath(path / folder))
        inner = _document(Subfolder(files, folder), file, inside)
    (system,) = find_all(inner.root, "ssd:System")
    return Place(system, inner, place.depth, component, place.document)


def _children(places: Mapping[str, Place], path: str) -> Iterator[tuple[str, str, Place]]:
    """Yield the name, the path and the element of each direct child of the system at `path`."""
    for child in find_all(places[path].element, "ssd:Elements/*"):
        at = _join(path, child.get("name"))
        yield child.get("name"), at, places[at]


def _resolve_dictionaries(
    places: Mapping[str, Place], path: str, visible: Mapping[str, tuple[str, Element]]
) -> Iterator[tuple[str, tuple[str, Element]]]:
    """Resolve all references to signal dictionaries in the system at `path` and in inner systems.

    Yields pairs (path of the reference, definition). A definition is a pair (path of the defining
    system, XML element of the dictionary). A reference selects a dictionary by its name; inner
    definitions take precedence. `visible` contains the definitions in the enclosing systems by
    name.
    """
    own = dict[str, Element]()
    for one in find_all(places[path].element, "ssd:SignalDictionaries/ssd:SignalDictionary"):
        if own.setdefault(one.get("name"), one) is not one:
            raise format_error(one, f"two signal dictionaries have the name '{one.get('name')}'")
    visible = {**visible, **{name: (path, one) for name, one in own.items()}}
    for _, at, child in _children(places, path):
        if child.element.tag == _BUS:
            name = child.element.get("dictionary")
            if name not in visible:
                raise format_error(child.element, f"unknown signal dictionary '{name}'")
            yield at, visible[name]
        yield from _resolve_dictionaries(places, at, visible)


def _component(place: Place) -> Component:
    """Return the FMU component that an XML component defines.

    Raises:
        FormatError: The component does not refer to an FMU in the files of its description.
    """
    element = place.element
    name, kind, source = element.get("name"), element.get("type", _FMU), element.get("source")
    if kind != _FMU:
        expected = ", ".join((_FMU, _SSD, _SSP))
        raise format_error(
            element, f"component '{name}' has the type '{kind}'; expected {expected}"
        )
    if not source:
        raise format_error(element, f"component '{name}' needs a source")
    if ":" in source and not source.startswith("file:"):
        text = f"'{source}' is not in the archive; other sources are not supported"
        raise format_error(element, text)
    implementation = element.get("implementation", "any")
    if implementation not in _KINDS:
        known = ", ".join(_KINDS)
        raise format_error(
            element, f"component '{name}' has the implementation {implementation}; expected {known}"
        )
    files = place.document.files
    file = file_name(source, files)
    if file not in files:
        raise format_error(element, f"FMU '{source}' is missing in {place.document.path}")
    return Component(file, _KINDS[implementation], files, element)


def _connectors(
    tree: Tree, dictionaries: Mapping[str, tuple[str, Element]]
) -> dict[Node, Connector]:
    """Read the connectors of all elements, including the entries of signal dictionaries."""
    connectors: dict[Node, Connector] = {}
    for at, (scope, dictionary) in dictionaries.items():
        connectors |= _entries(tree.owners[at], dictionary, tree.places[scope].document)
    for at, (element, document, *_) in tree.places.items():
        names = set()
        for one in find_all(element, "ssd:Connectors/ssd:Connector"):
            name = one.get("name")
            if name in names:
                raise format_error(one, f"two connectors have the name '{name}'")
            names.add(name)
            node = Node(tree.owners[at], name)
            connector = _connector(one, one.get("kind"), document.units, document.enumerations)
            if element.tag != _BUS:
                connectors[node] = connector
            elif node not in connectors:
                raise format_error(one, f"the signal dictionary has no entry '{name}'")
            elif connector.unit and connector.unit != connectors[node].unit:
                entry = connectors[node].unit
                raise format_error(
                    one,
                    f"'{name}' has the unit {connector.unit}, but its dictionary entry has "
                    f"{entry or 'no unit'}",
                )
    return connectors


def _connector(
    element: Element, kind: str, units: Mapping[str, Quantity], enumerations: Mapping[str, Items]
) -> Connector:
    """Return the connector for an XML connector or for an entry of a signal dictionary.

    Args:
        element: XML element.
        kind: Causality.
        units: Units of the file by name.
        enumerations: Items of the file's enumerations by enumeration name.
    """
    unit = next((unit for one in element if (unit := one.get("unit")) is not None), None)
    items: Mapping[str, int] = {}
    for one in find_all(element, "ssc:Enumeration"):
        if one.get("name") not in enumerations:
            text = "%s: the file does not define the enumeration '%s'"
            _LOG.warning(text, place_of(one), one.get("name"))
        items = enumerations.get(one.get("name"), {})
    return Connector(kind, unit, units.get(unit or ""), element, items)


def _entries(
    owner: str, dictionary: Element, document: Document
) -> Iterator[tuple[Node, Connector]]:
    """Yield the entries of a signal dictionary as connectors.

    The entries are inline or in a separate file. `owner` becomes the path of the connectors.
    """
    kind, source = dictionary.get("type", _BUS_KIND), dictionary.get("source")
    if kind != _BUS_KIND:
        raise format_error(dictionary, f"unsupported type '{kind}'; expected '{_BUS_KIND}'")
    inline = list(find_all(dictionary, DICTIONARY))
    if source and inline:
        raise format_error(
            dictionary, f"a dictionary has both the source '{source}' and inline entries"
        )
    where = document.files, source, DICTIONARY, document.path, dictionary
    roots = [read(*where)] if source else inline
    names = set()
    for root in roots:
        units, enumerations = units_in(root, "ssb:Units"), enumerations_in(root, "ssb:Enumerations")
        for one in find_all(root, "ssb:DictionaryEntry"):
            if one.get("name") in names:
                raise format_error(one, f"two entries have the name '{one.get('name')}'")
            names.add(one.get("name"))
            yield Node(owner, one.get("name")), _connector(one, "inout", units, enumerations)


class _End(NamedTuple):
    """End of a connection within a system.

    Attributes:
        node: Connector at this end.
        kind: Causality of the connector, or None if unknown.
        is_system: True if the connector belongs to the enclosing system.
    """

    node: Node
    kind: str | None
    is_system: bool

    @property
    def is_source(self) -> bool | None:
        """True if the connector is a source within the system, False if a sink, None if unknown."""
        if self.kind is None or self.kind not in INWARD + OUTWARD:
            return None
        return (self.kind in INWARD) == self.is_system


def _feeds(tree: Tree, connectors: Connectors) -> dict[Node, tuple[Node, Hop]]:
    """Map each target connector to its source, and to the path section between them.

    SSP connections have no direction, so the causalities of the two connectors determine the
    source. If both causalities are unknown, the source is the connector that has a source itself.
    If neither or both connectors have a source, the start of the connection is the source.
    """
    feeds: dict[Node, tuple[Node, Hop]] = {}
    undirected = []
    for path, place in tree.places.items():
        for one in find_all(place.element, "ssd:Connections/ssd:Connection"):
            for name in ("startIndices", "endIndices"):
                if one.get(name) is not None:
                    raise format_error(
                        one,
                        f"the attribute {name} is not supported: elements of an array cannot be "
                        "connected separately; connect the whole array",
                    )
            start, end = (_end(one, side, path, tree, connectors) for side in ("start", "end"))
            if start.is_source is end.is_source is None:
                undirected.append((one, start, end))
                continue
            if start.is_source is end.is_source:
                text = f"{start.node} and {end.node} both {_BOTH[start.is_source]}"
                raise format_error(one, text)
            is_reverse = start.is_source is False or end.is_source is True
            _feed(feeds, one, *((end, start) if is_reverse else (start, end)))
    while undirected:
        fed = [(one.node in feeds, other.node in feeds) for _, one, other in undirected]
        k = next((k for k, ends in enumerate(fed) if ends[0] != ends[1]), 0)
        one, start, end = undirected.pop(k)
        _feed(feeds, one, *((end, start) if fed[k] == (False, True) else (start, end)))
    return feeds


_BOTH: Mapping[bool | None, str] = {True: "provide a value", False: "expect a value"}


def _feed(
    feeds: dict[Node, tuple[Node, Hop]], connection: Element, source: _End, target: _End
) -> None:
    """Add a connection to `feeds`; log a warning if SSP forbids the causalities of its ends."""
    if target.node in feeds:
        raise format_error(
            connection, f"{target.node} is connected twice; an input has only one connection"
        )
    kinds = source.kind, target.kind
    if not {None, "unspecified", "inout"} & set(kinds) and not any(
        source.kind in sources and target.kind in targets
        for sources, targets in _ALLOWED[source.is_system, target.is_system]
    ):
        text = "%s: SSP does not allow a connection from %s (%s) to %s (%s)"
        where = place_of(connection)
        _LOG.warning(text, where, source.node, source.kind, target.node, target.kind)
    hop = Hop(target.node, transformation_of(connection), connection)
    feeds[target.node] = source.node, hop


_STRUCTURAL = ("structuralParameter",)
_ALLOWED = {  # causalities of sources and targets, by `is_system` of the source and the target
    (True, True): (
        (("input", "parameter", *_STRUCTURAL), ("output", "local")),
        (("parameter", *_STRUCTURAL), ("calculatedParameter",)),
    ),
    (True, False): (
        (("input", "parameter", *_STRUCTURAL), ("input",)),
        (("parameter", *_STRUCTURAL), ("parameter",)),
        (_STRUCTURAL, _STRUCTURAL),
    ),
    (False, False): (
        (("output", "local", "calculatedParameter", "constant"), ("input",)),
        (("calculatedParameter", "constant"), ("parameter",)),
        (("constant",), _STRUCTURAL),
    ),
    (False, True): (
        (("output", "local", "calculatedParameter", "constant"), ("output", "local")),
        (("calculatedParameter", "constant"), ("calculatedParameter",)),
        (("constant",), ("constant",)),
    ),
}


def _end(connection: Element, side: str, path: str, tree: Tree, connectors: Connectors) -> _End:
    """Return one end of an XML connection; `side` is "start" or "end".

    `path` is the path of the system that contains the connection.
    """
    name, connector = connection.get(f"{side}Element"), connection.get(f"{side}Connector")
    inner = _join(path, name) if name else path
    if inner not in tree.places:
        raise format_error(connection, f"unknown element '{name}' in {path or 'the system'}")
    node, element = Node(tree.owners[inner], connector), tree.places[inner].element
    kind = connectors[node].kind if node in connectors else None
    if element.tag == _BUS:  # the reference may restrict the direction of the entry
        for one in find_all(element, "ssd:Connectors/ssd:Connector"):
            kind = one.get("kind") if one.get("name") == connector else kind
    return _End(node, kind, inner == path)


def _signal_path(target: Node, feeds: Feeds, components: Mapping[str, Any]) -> Link:
    """Return the signal path to a component input, from the first source to `target`."""
    hops: list[Hop] = []
    node = target
    while node in feeds and (node == target or node.path not in components):
        source, hop = feeds[node]
        if len(hops) > len(feeds):
            text = f"the connections to {target} form a loop through systems"
            raise format_error(hop.element, text)
        hops.insert(0, hop)
        node = source
    return Link(node, tuple(hops))


def _starts(
    values: Mapping[Node, StartValue], links: list[Link], components: Mapping[str, Any]
) -> dict[Node, StartValue]:
    """Propagate the values of parameter bindings to component variables; return start values.

    If a variable has several values, the value of the outermost binding takes precedence. For
    bindings at the same depth, the value of the outermost connector takes precedence. If a value
    reaches no component, the function logs a warning.

    Args:
        values: Values by connector or variable.
        links: Signal paths from sources to component inputs.
        components: Components by path.

    Returns:
        Start values by component variable.
    """
    starts = {node: value for node, value in values.items() if node.path in components}
    used = set(starts)
    for link in links:
        if link.source.path in components:
            nodes = [hop.to for hop in link.hops[:-1]]
        else:
            nodes = [link.source, *(hop.to for hop in link.hops[:-1])]
        start = len(link.hops) - len(nodes)
        used |= set(nodes)
        outer = [
            values[node]._replace(hops=(*values[node].hops, *link.hops[start + k :]))
            for k, node in enumerate(nodes)
            if node in values
        ]
        own = [starts[link.target]] if link.target in starts else []
        if outer or own:
            starts[link.target] = min((*outer, *own), key=lambda value: value.depth)
    for node in values.keys() - used:
        element = values[node].value.element
        _LOG.warning("%s: no component receives the value of '%s'", place_of(element), node)
    return starts


def _values(tree: Tree, connectors: Connectors) -> dict[Node, StartValue]:
    """Return the values of all parameter bindings by connector or variable.

    Bindings of outer elements take precedence.
    """
    values: dict[Node, StartValue] = {}
    for at in sorted(tree.places, key=lambda at: tree.places[at].depth, reverse=True):
        for name, given in _bound_values(tree.places[at]):
            nodes = list(_find_nodes(name, at, tree, connectors))
            if not nodes:
                where = place_of(given.value.element)
                _LOG.warning("%s: unknown name '%s' in '%s'", where, name, at or "the system")
            depth = tree.places[at].depth
            values |= {node: _bind_value(node, given, depth, connectors) for node in nodes}
    return values


def _bound_values(place: Place) -> Iterable[tuple[str, BindingValue]]:
    """Return the pairs (parameter name, value) in the parameter bindings of an element.

    If a component refers to a system, the bindings of the component take precedence over the
    bindings of the system.
    """
    (_, files, path, *_), element = place.document, place.element
    source = element.get("source") if element.tag == _COMPONENT else None
    values = bound_values(element, Location(files, path, source))
    if place.component is not None:
        assert place.outer is not None
        document = place.outer
        location = Location(document.files, document.path, place.component.get("source"))
        values |= bound_values(place.component, location)
    return values.items()


def _bind_value(
    node: Node, binding: BindingValue, depth: int, connectors: Connectors
) -> StartValue:
    """Bind a parameter value to a connector or variable.

    A value without a unit receives the unit of the connector.
    """
    value, own = binding.value, connectors.get(node)
    if own is not None and not value.unit:
        value = value._replace(unit=own.unit, meaning=own.meaning)
    return StartValue(value, (Hop(node, binding.transformation, binding.entry),), depth)


def _find_nodes(name: str, path: str, tree: Tree, connectors: Connectors) -> Iterator[Node]:
    """Yield the connectors and variables to which a hierarchical name refers.

    The name is relative to the element at `path`.
    """
    node = Node(tree.owners[path], name)
    if node in connectors or tree.places[path].element.tag == _COMPONENT:
        yield node
    for child, inner, _ in _children(tree.places, path):
        if name.startswith(f"{child}."):
            yield from _find_nodes(name[len(child) + 1 :], inner, tree, connectors)


def _experiment(root: Element, system: Element) -> dict[str, Any]:
    """Return the run options in a description, as arguments of `simulate`.

    The default experiment and the rigidblocks annotation contain these options.
    """
    run: dict[str, Any] = {}
    for one in find_all(root, "ssd:DefaultExperiment"):
        for name, attribute in (("t_start", "startTime"), ("t_stop", "stopTime")):
            if one.get(attribute) is not None:
                run[name] = number(one, attribute)
        if run.get("t_stop", inf) < run.get("t_start", 0.0):
            text = (
                f"the stop time {run['t_stop']} s is before the start time "
                f"{run.get('t_start', 0.0)} s"
            )
            raise format_error(one, text)
    for one in find_all(system, "ssd:Annotations/ssc:Annotation"):
        for ours in one if one.get("type") == OURS else ():
            if ours.get("dt") is not None:
                run["dt"] = number(ours, "dt")
                if run["dt"] <= 0.0:
                    raise format_error(ours, f"dt must be positive, not {run['dt']} s")
            if ours.get("order") is not None:
                run["order"] = ours.get("order")
                if run["order"] not in ORDERS:
                    raise format_error(ours, f"order must be one of {', '.join(ORDERS)}")
    return run
