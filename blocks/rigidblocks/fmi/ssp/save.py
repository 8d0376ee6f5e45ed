"""Export of a system to an SSP file."""

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from rigidblocks.block.block import Block
from rigidblocks.block.external_functions import PythonBlock
from rigidblocks.block.port import REAL, TEXTUAL, Port, text
from rigidblocks.block.units import Conversion, Quantity
from rigidblocks.common.escaping import xml_boolean, xml_text
from rigidblocks.common.package_info import __version__
from rigidblocks.cosim.graph.fmu_part import Fmu
from rigidblocks.cosim.graph.fused_system import ORDERS
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.graph.wiring import Connection
from rigidblocks.cosim.run_options import communication_points
from rigidblocks.fmi.archive import write_archive
from rigidblocks.fmi.export import export_fmu
from rigidblocks.fmi.ssp.package import DESCRIPTION
from rigidblocks.fmi.ssp.schema import OMSIMULATOR, OUR_SPACE, OURS, SPACES, TOOL

# OMSimulator does not simulate a system without its annotation (its schema oms.xsd)
_OMS_SPACE = "https://raw.githubusercontent.com/OpenModelica/OMSimulator/master/schema/oms.xsd"
_OMS_STEP = 1e-3  # [s] step of the master if dt is not given
_OMS_TOLERANCE = 1e-6  # tolerance of the integrators for model exchange

_SET = "start"  # common name of all parameter sets; Ecos applies only sets with a common name
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
    """Save a system as an SSP 1.0 file (.ssp).

    The file contains the FMUs of the parts, the connections with their units and transformations,
    the start values as parameter sets, and the default experiment. If a part has array variables of
    FMI 3.0, which SSP 1.0 does not support, the version of the file is SSP 2.0.

    Blocks become native FMI 2.0 FMUs with their integration methods. A rigidblocks annotation
    contains `dt`, `order` and the sample times. An annotation for OMSimulator selects the
    fixed-step master with the step dt, by default 1 ms. Other tools select their own steps. The
    file does not contain the exposed ports of the system.

    Args:
        system: System to save.
        path: Path of the file.
        dt: Communication step [s].
        t_start: Start time of the default experiment [s].
        t_stop: Stop time of the default experiment [s].
        order: Order of the parts in a step, "gauss-seidel" or "jacobi".
        name: Name of the system; by default the stem of the path.
        platforms: Platforms of the FMUs of blocks, as in `export_fmu`.

    Returns:
        The path of the file.

    Raises:
        ValueError: The system has no parts. A part has its own communication step or is a Python
            part. dt does not divide the run, or the order is unknown. A connection refers to single
            elements of an FMI 3.0 array variable, for which SSP has no connectors.
    """
    if not system.parts:
        raise ValueError("the system has no parts: add blocks or FMU files")
    if order is not None and order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(ORDERS)}, not '{order}'")
    for part in system.parts.values():
        if part.dt is not None:
            raise ValueError(
                f"'{part.name}' has its own communication step, dt={part.dt:g}, which SSP does not "
                "store; leave out dt"
            )
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
    """Raise ValueError for an invalid time span, or if dt does not divide the time span."""
    if dt is not None and not (isfinite(dt) and dt > 0):
        raise ValueError(f"dt must be finite and positive, not {dt} s")
    if t_stop is not None:
        communication_points(t_start, t_stop, t_stop - t_start if dt is None else dt)


def _file_names(parts: Iterable[str]) -> Iterator[tuple[str, str]]:
    for k, part in enumerate(parts, 1):
        plain = re.sub(r"[^A-Za-z0-9_]", "_", part)
        yield part, f"{plain}.fmu" if plain == part else f"{plain}_{k}.fmu"


def _fmu(part: Part, platforms: str | Iterable[str] | None) -> bytes:
    """Return the FMU of a part as bytes; a block is exported as a native FMU."""
    component = part.component
    if isinstance(component, Fmu):
        return component.file.read_bytes()
    if isinstance(component, PythonBlock):
        raise ValueError(
            f"'{part.name}' is a Python part, which other tools cannot run; export it as an "
            "FMU in a script (export_fmu with target='python') and add this FMU"
        )
    assert isinstance(component, Block)
    method, h = part.stepping
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "part.fmu")
        longest = h if np.isfinite(h) else None
        export_fmu(
            _set_start_values(component, part), file, platforms=platforms, method=method, h=longest
        )
        return file.read_bytes()


def _set_start_values(block: Block, part: Part) -> Block:
    """Return a copy of a block with the start values of the part `part`.

    The FMU of this copy declares the start values, because some importers set only parameters.
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
    tool = f"{TOOL} {__version__}"
    root = Element(
        "ssd:SystemStructureDescription",
        spaces,
        version=_version(system.parts.values()),
        name=name,
        generationTool=tool,
    )
    around = SubElement(root, "ssd:System", name=name)
    elements = SubElement(around, "ssd:Elements")
    units: dict[str, Quantity] = {}
    for part in system.parts.values():
        _component(elements, part, files[part.name], units)
    if system.connections:
        connections = SubElement(around, "ssd:Connections")
        for connection in system.connections:
            _connect(connections, connection, system.parts)
    _define(root, units)
    return root


def _component(parent: Element, part: Part, file: str, units: dict[str, Quantity]) -> None:
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
            elements = zip(_names(part, port), port.units, port.quantities, strict=False)
            for name, unit, quantity in elements:
                one = SubElement(connectors, "ssd:Connector", name=name, kind=causality)
                _type(one, port, unit, quantity, units)
                _dimensions(one, part, port)
    if part.start:
        binding = SubElement(SubElement(element, "ssd:ParameterBindings"), "ssd:ParameterBinding")
        values = SubElement(binding, "ssd:ParameterValues")
        how = {"version": _version([part]), "name": _SET}
        chosen = SubElement(values, "ssv:ParameterSet", how)
        _values(SubElement(chosen, "ssv:Parameters"), part)


def _names(part: Part, port: Port) -> tuple[str, ...]:
    """Return the names of the FMU variables of a port.

    An FMI 3.0 array variable has one name for all elements.
    """
    component = part.component
    return component.variable_names(port.name) if isinstance(component, Fmu) else port.element_names


def _is_array(part: Part, port: Port) -> bool:
    """Return True if a port is one FMI 3.0 array variable."""
    return len(_names(part, port)) != port.size


def _version(parts: Iterable[Part]) -> str:
    """Return the lowest SSP version, 1.0 or 2.0, that supports all arrays and types of `parts`."""
    ports = ((part, port) for part in parts for port in _ports(part, _KINDS))
    needs_2 = any(
        _is_array(part, port) or (port.type in _LARGE and port.name in part.start)
        for part, port in ports
    )
    return "2.0" if needs_2 else "1.0"


_SMALL = ("Int8", "UInt8", "Int16", "UInt16", "Int32")  # values of the SSP 1.0 type Integer
_LARGE = ("UInt32", "Int64", "UInt64")  # SSP 2.0 types


def _type_name(of_type: str) -> str:
    """Return the SSP type for a port type, if possible an SSP 1.0 type."""
    return "Real" if of_type in REAL else "Integer" if of_type in _SMALL else of_type


_KINDS = ("inputs", "outputs", "parameters", "states")


def _ports(part: Part, kinds: Iterable[str]) -> Iterator[Port]:
    """Yield the ports of a part, for kinds such as `inputs` or `parameters`."""
    for kind in kinds:
        yield from getattr(part.component, kind, ())


def _dimensions(parent: Element, part: Part, port: Port) -> None:
    """Add the SSP 2.0 Dimension elements if a port is an array variable."""
    if _is_array(part, port):
        for size in port.shape:
            SubElement(parent, "ssc:Dimension", size=str(size))


def _type(
    parent: Element,
    port: Port,
    unit: str,
    quantity: Quantity | None,
    units: dict[str, Quantity],
) -> None:
    """Add the type and unit of a port to a connector, and add the unit to `units`.

    The function omits types that SSP 1.0 does not support. It also omits a unit without a
    definition, and a unit with a different definition in `units`, because an SSP file must define
    each unit once. Without a unit, the connector has the unit of its variable.

    Args:
        parent: Element of the connector.
        port: Port of the connector.
        unit: Name of the unit.
        quantity: Definition of the unit, or None.
        units: Definitions of the units in the file, by name.
    """
    if port.type in REAL:
        is_defined = (
            unit != ""
            and quantity is not None
            and all(power == int(power) for _, power in quantity.exponents)
            and units.setdefault(unit, quantity) == quantity
        )
        SubElement(parent, "ssc:Real", {"unit": unit} if is_defined else {})
    elif (kind := _type_name(port.type)) in ("Integer", "Boolean", "String"):
        SubElement(parent, f"ssc:{kind}")


def _values(parent: Element, part: Part) -> None:
    """Add the start values of a part as an inline parameter set."""
    for port in _ports(part, ("inputs", "parameters", "states", "configurable")):
        if port.name not in part.start:
            continue
        values = np.ravel(np.broadcast_to(part.start[port.name], port.shape)).tolist()
        texts = [_literal(value, port.type) for value in values]
        if port.type == "Enumeration":
            texts = [_item(part, port, k, text) for k, text in enumerate(texts)]
        is_array = _is_array(part, port)
        grouped = [texts] if is_array else [[text] for text in texts]
        for name, group in zip(_names(part, port), grouped, strict=True):
            parameter = SubElement(parent, "ssv:Parameter", name=name)
            kind = _type_name(port.type)
            if is_array and port.type in _LISTED:
                element = SubElement(parameter, f"ssv:{kind}")
                for text in group:
                    SubElement(element, "ssv:Value", value=text)
            else:
                SubElement(parameter, f"ssv:{kind}", value=" ".join(group))
            _dimensions(parameter, part, port)


_LISTED = (*TEXTUAL, "Enumeration")  # types of arrays with one XML element per value


def _item(part: Part, port: Port, k: int, value: str) -> str:
    """Return the name of the enumeration item for an integer.

    `value` is the integer as text. If no item has this integer, the function returns `value`. The
    items belong to element k of the port.
    """
    assert isinstance(part.component, Fmu)
    items = part.component.enumeration_items(port.name, k)
    return next((name for name, number in items.items() if str(number) == value), value)


def _literal(value: float, of_type: str) -> str:
    """Format a value of a port type as text in XML."""
    if of_type in REAL:
        return repr(value)
    if of_type == "Boolean":
        return xml_boolean(bool(value))
    if of_type in TEXTUAL:
        content = text(value, of_type)
        return content if isinstance(content, str) else content.hex()
    return str(int(value))


def _connect(parent: Element, connection: Connection, parts: Mapping[str, Part]) -> None:
    """Add the XML elements of a connection: one per scalar variable, or one per array variable."""
    (a, y), (b, u) = connection.source, connection.target
    source, target = connection.names
    ends = [
        (parts[a], parts[a].output(y), connection.start),
        (parts[b], parts[b].input(u), connection.to),
    ]
    names = [_element_names(part, port, places) for part, port, places in ends]
    if len(names[0]) != len(names[1]):
        raise ValueError(
            f"cannot save the connection of {source} to {target}: one end is an array "
            "variable, and the other end has a variable for each element"
        )
    if (
        connection.conversion is not None
        and len(names[0]) == 1
        and any(map(np.ptp, connection.conversion[:2]))
    ):
        raise ValueError(
            f"cannot save the connection of {source} to {target}: SSP connects array "
            "variables as a whole, with one factor and one offset for all elements"
        )
    for k, (start, end) in enumerate(zip(*names, strict=True)):
        ends_of = {"startElement": a, "startConnector": start, "endElement": b, "endConnector": end}
        element = SubElement(parent, "ssd:Connection", ends_of)
        if connection.conversion is not None:
            types = {ends[0][1].type, ends[1][1].type}
            _transform(element, connection.conversion, k, types)


def _transform(connection: Element, conversion: Conversion, k: int, types: set[str]) -> None:
    """Add a transformation element with the unit conversion of element k of a connection.

    `types` contains the port types of the two ends.
    """
    if types <= set(REAL):
        connection.set("suppressUnitConversion", "true")
    factor, offset = (float(v[k]) for v in conversion[:2])
    if conversion.table:
        if (factor, offset) != (1.0, 0.0):
            raise ValueError(
                "a connection cannot have a linear conversion and a table in SSP; keep one of them"
            )
        is_boolean = types == {"Boolean"}
        kind = "Boolean" if is_boolean else "Integer"
        mapping = SubElement(connection, f"ssc:{kind}MappingTransformation")
        for pair in conversion.table:
            value, replacement = (_literal(one, kind) for one in pair)
            SubElement(mapping, "ssc:MapEntry", source=value, target=replacement)
    elif (factor, offset) != (1.0, 0.0):
        texts = {"factor": repr(factor), "offset": repr(offset)}
        SubElement(connection, "ssc:LinearTransformation", texts)


def _element_names(part: Part, port: Port, places: tuple[int, ...]) -> list[str]:
    names = _names(part, port)
    if len(names) == port.size:
        return [names[k] for k in places]
    if places != tuple(range(port.size)):
        raise ValueError(
            f"elements of the array variable '{part.name}.{port.name}' are connected; SSP "
            "connects only whole variables"
        )
    return list(names)


def _define(root: Element, units: Mapping[str, Quantity]) -> None:
    """Add the definitions of units to a system structure description."""
    if units:
        group = SubElement(root, "ssd:Units")
        for unit, (exponents, factor, offset) in units.items():
            powers: dict[str, Any] = {name: str(int(power)) for name, power in exponents}
            powers |= {"factor": repr(factor)} if factor != 1.0 else {}
            powers |= {"offset": repr(offset)} if offset else {}
            SubElement(SubElement(group, "ssc:Unit", name=unit), "ssc:BaseUnit", powers)


def _annotate(system: Element, parts: Iterable[Part], dt: float | None, order: str | None) -> None:
    """Add the rigidblocks and OMSimulator annotations, with options that SSP does not define."""
    sampled = {p.name: t for p in parts if (t := getattr(p.component, "sample_time", None))}
    annotations = SubElement(system, "ssd:Annotations")
    _annotate_for_omsimulator(annotations, dt)
    if dt is None and order is None and not sampled:
        return
    annotation = SubElement(annotations, "ssc:Annotation", type=OURS)
    ours = SubElement(annotation, "rb:Run", {"xmlns:rb": OUR_SPACE})
    if dt is not None:
        ours.set("dt", repr(float(dt)))
    if order is not None:
        ours.set("order", order)
    for name, sample_time in sampled.items():
        SubElement(ours, "rb:Part", name=name, sampleTime=repr(sample_time))


def _annotate_for_omsimulator(annotations: Element, dt: float | None) -> None:
    """Add the annotation that OMSimulator requires, which sets a fixed step dt [s]."""
    annotation = SubElement(annotations, "ssc:Annotation", type=OMSIMULATOR)
    theirs = SubElement(annotation, "oms:Annotations", {"xmlns:oms": _OMS_SPACE})
    step = _OMS_STEP if dt is None else float(dt)
    SubElement(
        SubElement(theirs, "oms:SimulationInformation"),
        "oms:FixedStepMaster",
        description="oms-ma",
        stepSize=_decimal(step),
        absoluteTolerance=_decimal(_OMS_TOLERANCE),
        relativeTolerance=_decimal(_OMS_TOLERANCE),
    )


def _decimal(value: float) -> str:
    """Format a value as an XML Schema decimal, which has no exponent."""
    return np.format_float_positional(value, trim="0")
