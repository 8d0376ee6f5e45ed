"""A system as a file of SSP."""

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement

import numpy as np

import rigidblocks
from rigidblocks.block.block import Block
from rigidblocks.block.port import Port
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.block.quantities import quantity_of
from rigidblocks.block.signal_types import REAL, TEXTUAL, text
from rigidblocks.fmi.archive import write_archive
from rigidblocks.fmi.export import export_fmu
from rigidblocks.fmi.xml import xml_boolean, xml_text
from rigidblocks.simulation.grid import communication_points
from rigidblocks.ssp.load import DESCRIPTION
from rigidblocks.ssp.schema import OUR_SPACE, OURS, SPACES
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.fused import ORDERS
from rigidblocks.system.part import Part
from rigidblocks.system.system import System
from rigidblocks.system.wiring import Connection

_IMPLEMENTATIONS = {"co-simulation": "CoSimulation", "model exchange": "ModelExchange"}


def save_system(
    system: System,
    path: str | Path,
    *,
    dt: float | None = None,
    t_start: float = 0.0,
    t_stop: float | None = None,
    order: str | None = None,
    name: str | None = None,
    platforms: str | Iterable[str] | None = None,
) -> Path:
    """The path of the file of SSP 1.0 (.ssp) written there: the FMUs of the parts, the connections
    with their units and transformations, the start values as parameter sets, and the default
    experiment. It is of SSP 2.0 where a part has array variables of FMI 3.0, which 1.0 has not.

    Blocks become native FMUs of FMI 2.0 for `platforms`, as in `export_fmu`, with their methods. In
    an annotation of our own are `dt` [s], `order` and the sample times; other tools step as they
    choose. What the system exposes when it is made one block is not in the file.

    Raises ValueError for a system without parts, a run that dt does not divide, an order that there
    is not, a Python part, which no other tool can run, and elements of an array variable of FMI
    3.0, to which SSP has no connectors.
    """
    if not system.parts:
        raise ValueError("the system has no parts: add blocks or FMU files")
    if order is not None and order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, not '{order}'")
    _check_run(t_start, t_stop, dt)
    files = dict(_file_names(system.parts))
    content = {
        f"resources/{files[part.name]}": _fmu(part, platforms) for part in system.parts.values()
    }
    root = _description(system, name or Path(path).stem, files)
    if t_stop is not None:
        SubElement(
            root, "ssd:DefaultExperiment", startTime=repr(t_start), stopTime=repr(float(t_stop))
        )
    _annotate(root[0], system.parts.values(), dt, order)
    return write_archive(path, content | {DESCRIPTION: xml_text(root).encode()})


def _check_run(t_start: float, t_stop: float | None, dt: float | None) -> None:
    """Raises ValueError for a run that cannot be, of what is given of it."""
    if dt is not None and not (isfinite(dt) and dt > 0):
        raise ValueError(f"dt must be finite and positive, not {dt} s")
    if t_stop is not None:
        communication_points(t_start, t_stop, t_stop - t_start if dt is None else dt)


def _file_names(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for k, part in enumerate(parts, 1):
        plain = re.sub(r"[^A-Za-z0-9_]", "_", part)
        yield part, f"{plain}.fmu" if plain == part else f"{plain}_{k}.fmu"


def _fmu(part: Part, platforms: str | Iterable[str] | None) -> bytes:
    """The bytes of a part's FMU."""
    component = part.component
    if isinstance(component, Fmu):
        return component.file.read_bytes()
    if isinstance(component, PythonBlock):
        raise ValueError(
            f"'{part.name}' is a Python part, which other tools cannot run; make it an FMU by a "
            "script (export_fmu with target='python') and add that"
        )
    assert isinstance(component, Block)
    method, h = part.stepping
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "part.fmu")
        longest = h if np.isfinite(h) else None
        export_fmu(_started(component, part), file, platforms=platforms, method=method, h=longest)
        return file.read_bytes()


def _started(block: Block, part: Part) -> Block:
    """The block with the start values of a part as its own, for the hosts that set parameters
    alone.
    """
    kinds = ("inputs", "outputs", "states", "sampled", "parameters")
    ports = {
        kind: tuple(
            replace(port, start=part.start[port.name]) if port.name in part.start else port
            for port in getattr(block, kind)
        )
        for kind in kinds
    }
    cls = type(block)
    named = {name: getattr(cls, name) for name in ("__doc__", "__module__", "__qualname__")}
    started: Block = object.__new__(type(cls.__name__, (cls,), named | ports))
    fields = {name: value for name, value in vars(block).items() if name not in ports}
    vars(started).update(fields)
    return started


def _description(system: System, name: str, files: Mapping[str, str]) -> Element:
    spaces = {f"xmlns:{prefix}": space for prefix, space in SPACES.items()}
    tool = f"rigidblocks {rigidblocks.__version__}"
    root = Element(
        "ssd:SystemStructureDescription",
        spaces,
        version=_version(system.parts.values()),
        name=name,
        generationTool=tool,
    )
    around = SubElement(root, "ssd:System", name=name)
    elements = SubElement(around, "ssd:Elements")
    units: dict[str, None] = {}
    for part in system.parts.values():
        _component(elements, part, files[part.name], units)
    if system.connections:
        connections = SubElement(around, "ssd:Connections")
        for one in system.connections:
            _connect(connections, one, system.parts)
    _define(root, units)
    return root


def _component(parent: Element, part: Part, file: str, units: dict[str, None]) -> None:
    component = part.component
    kind = component.kind if isinstance(component, Fmu) else None
    element = SubElement(
        parent,
        "ssd:Component",
        name=part.name,
        type="application/x-fmu-sharedlibrary",
        source=f"resources/{file}",
        implementation=_IMPLEMENTATIONS[kind or "co-simulation"],
    )
    ports = {"input": component.inputs, "output": component.outputs}
    ports["parameter"] = getattr(component, "parameters", ())
    listed = [(kind, port) for kind, group in ports.items() for port in group]
    if listed:
        connectors = SubElement(element, "ssd:Connectors")
        for causality, port in listed:
            for name, unit in zip(_names(part, port), port.units, strict=False):
                one = SubElement(connectors, "ssd:Connector", name=name, kind=causality)
                _type(one, port, unit, units)
                _dimensions(one, part, port)
    if part.start:
        binding = SubElement(SubElement(element, "ssd:ParameterBindings"), "ssd:ParameterBinding")
        values = SubElement(binding, "ssd:ParameterValues")
        how = {"version": _version([part]), "name": f"{part.name} start"}
        chosen = SubElement(values, "ssv:ParameterSet", how)
        _values(SubElement(chosen, "ssv:Parameters"), part)


def _names(part: Part, port: Port) -> tuple[str, ...]:
    """The names of the variables of a port; an array variable of FMI 3.0 has one."""
    component = part.component
    return component.variable_names(port.name) if isinstance(component, Fmu) else port.element_names


def _is_array(part: Part, port: Port) -> bool:
    """Whether a port is one array variable of FMI 3.0."""
    return len(_names(part, port)) != port.size


def _version(parts: Iterable[Part]) -> str:
    """The version of SSP that has what these parts have."""
    ports = ((part, port) for part in parts for port in _ports(part, _KINDS))
    return "2.0" if any(_is_array(part, port) for part, port in ports) else "1.0"


_KINDS = ("inputs", "outputs", "parameters", "states")


def _ports(part: Part, kinds: Iterable[str]) -> Iterator[Port]:
    """The ports of these kinds that a part has."""
    for kind in kinds:
        yield from getattr(part.component, kind, ())


def _dimensions(parent: Element, part: Part, port: Port) -> None:
    """The sizes of an array variable, as SSP 2.0 has them."""
    if _is_array(part, port):
        for size in port.shape:
            SubElement(parent, "ssc:Dimension", size=str(size))


def _type(parent: Element, port: Port, unit: str, units: dict[str, None]) -> None:
    """The type of a connector, as far as it has a name in SSP 1.0."""
    if port.type in REAL:
        SubElement(parent, "ssc:Real", {"unit": unit} if unit else {})
        units.setdefault(unit)
    elif port.type in ("Integer", "Boolean", "String"):
        SubElement(parent, f"ssc:{port.type}")


def _values(parent: Element, part: Part) -> None:
    """The start values of a part's variables."""
    for port in _ports(part, ("inputs", "parameters", "states")):
        if port.name not in part.start:
            continue
        values = np.ravel(np.broadcast_to(part.start[port.name], port.shape)).tolist()
        texts = [_literal(value, port.type) for value in values]
        if _is_array(part, port):
            if port.type in TEXTUAL:
                raise ValueError(
                    f"'{part.name}.{port.name}' is an array of texts, whose start values cannot be "
                    "saved; leave them to the FMU"
                )
            texts = [" ".join(texts)]
        for name, value in zip(_names(part, port), texts, strict=True):
            parameter = SubElement(parent, "ssv:Parameter", name=name)
            kind = "Real" if port.type in REAL else port.type
            SubElement(parameter, f"ssv:{kind}", value=value)
            _dimensions(parameter, part, port)


def _literal(value: float, of_type: str) -> str:
    """A value as XML Schema writes it."""
    if of_type in REAL:
        return repr(value)
    if of_type == "Boolean":
        return xml_boolean(bool(value))
    if of_type in TEXTUAL:
        content = text(value, of_type)
        return content if isinstance(content, str) else content.hex()
    return str(int(value))


def _connect(parent: Element, one: Connection, parts: Mapping[str, Part]) -> None:
    """The connections of a connection's elements, or of its array variables."""
    (a, y), (b, u) = one.source, one.target
    ends = [(parts[a], parts[a].output(y), one.start), (parts[b], parts[b].input(u), one.to)]
    names = [_chosen(part, port, places) for part, port, places in ends]
    if len(names[0]) != len(names[1]):
        raise ValueError(
            f"cannot save the connection of {one.names[0]} to {one.names[1]}: one is an array "
            "variable, and the other has a variable for each element"
        )
    if one.conversion is not None and len(names[0]) == 1 and any(map(np.ptp, one.conversion)):
        raise ValueError(
            f"cannot save the connection of {one.names[0]} to {one.names[1]}: array variables are "
            "connected as a whole, with one factor and one offset for all of their elements"
        )
    for k, (start, end) in enumerate(zip(*names, strict=True)):
        ends_of = {"startElement": a, "startConnector": start, "endElement": b, "endConnector": end}
        element = SubElement(parent, "ssd:Connection", ends_of)
        if one.conversion is not None:
            element.set("suppressUnitConversion", "true")
            factor, offset = (repr(float(v[k])) for v in one.conversion)
            SubElement(element, "ssc:LinearTransformation", factor=factor, offset=offset)


def _chosen(part: Part, port: Port, places: tuple[int, ...]) -> list[str]:
    names = _names(part, port)
    if len(names) == port.size:
        return [names[k] for k in places]
    if places != tuple(range(port.size)):
        raise ValueError(
            f"elements of '{part.name}.{port.name}' are connected, which is an array variable; SSP "
            "connects whole variables"
        )
    return list(names)


def _define(root: Element, units: Iterable[str]) -> None:
    """The definitions of the units whose meaning is known."""
    known = {unit: quantity for unit in units if unit and (quantity := quantity_of(unit))}
    if known:
        group = SubElement(root, "ssd:Units")
        for unit, (exponents, factor, offset) in known.items():
            powers: dict[str, Any] = {name: str(int(power)) for name, power in exponents}
            powers |= {"factor": repr(factor)} if factor != 1.0 else {}
            powers |= {"offset": repr(offset)} if offset else {}
            SubElement(SubElement(group, "ssc:Unit", name=unit), "ssc:BaseUnit", powers)


def _annotate(system: Element, parts: Iterable[Part], dt: float | None, order: str | None) -> None:
    """Our own annotation: what SSP has no words for."""
    sampled = {p.name: t for p in parts if (t := getattr(p.component, "sample_time", None))}
    if dt is None and order is None and not sampled:
        return
    annotations = SubElement(system, "ssd:Annotations")
    annotation = SubElement(annotations, "ssc:Annotation", type=OURS)
    ours = SubElement(annotation, "rb:Run", {"xmlns:rb": OUR_SPACE})
    if dt is not None:
        ours.set("dt", repr(float(dt)))
    if order is not None:
        ours.set("order", order)
    for name, sample_time in sampled.items():
        SubElement(ours, "rb:Part", name=name, sampleTime=repr(sample_time))
