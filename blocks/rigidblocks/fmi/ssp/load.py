"""Import of a system from an SSP file."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.block.port import REAL, TEXTUAL, Port, decode_value
from rigidblocks.block.units import Conversion, Quantity, Table, conversion, quantity_of
from rigidblocks.common.regular_files import check_regular_file
from rigidblocks.common.xml_reader import format_error
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from rigidblocks.cosim.graph.part import (
    Selection,
    configure_fmu,
    select_all,
    select_elements,
    split_name,
)
from rigidblocks.cosim.graph.system import System
from rigidblocks.fmi.ssp.package import DESCRIPTION, Folder, read_archive
from rigidblocks.fmi.ssp.parameter_sets import (
    MAPPED_TYPES,
    Items,
    Transformation,
    Value,
    item_number,
    parameter_set,
    replace_value,
)
from rigidblocks.fmi.ssp.schema import VALUES, local_name, place_of, read
from rigidblocks.fmi.ssp.system_structure import (
    Component,
    Connector,
    Hop,
    Link,
    Loaded,
    Node,
    StartValue,
    Structure,
    structure_of,
)

_LOG = logging.getLogger("rigidblocks")


def load_system(
    path: str | Path, *, variant: str = DESCRIPTION, parameters: Iterable[str | Path] = ()
) -> Loaded:
    """Load a system and its run options from an SSP 1.0 or 2.0 file.

    The run options contain `t_start` and `t_stop`, and also `dt` and `order` if rigidblocks wrote
    the file:

        system, run = load_system("arm.ssp")
        simulate(system, **run)

    The parts have the names of the components, with _ instead of dots. A part of an inner system
    has a name such as `inner/pd`. A component may also refer to another SSD or SSP file.

    Unit conversions follow the units of the connectors, and transformations are part of the
    connections. The FMUs receive the parameter values before initialization. If the unit of a value
    is undefined, the loader does not convert the value and logs a warning. The loader also logs all
    content of the file that it ignores.

    Args:
        path: SSP file (.ssp), folder with its unpacked files, or description (.ssd) in such a
            folder.
        variant: Name of the description, if the file contains several descriptions.
        parameters: Parameter set files (.ssv) whose values replace the values of the description.

    Returns:
        The system, and the run options as arguments of `simulate`.

    Raises:
        FileNotFoundError: The file does not exist.
        FormatError: A file does not conform to SSP, or rigidblocks cannot simulate the system. For
            example, a component is neither an FMU nor a system, or an FMU rejects a start value. A
            transformation does not support the type of a variable. The units of a connector and its
            FMU variable have different dimensions. The message contains the file and line.
        KeyError: A name in `parameters` is unknown.
    """
    path = Path(path)
    if path.suffix == ".ssd" and not path.is_dir():
        if not path.is_file():
            raise FileNotFoundError(f"SSP file '{path}' does not exist")
        path, variant = path.parent, path.name
    if not (path.is_dir() or path.is_file()):
        raise FileNotFoundError(f"SSP file '{path}' does not exist")
    files = Folder(path) if path.is_dir() else read_archive(path)
    given = {
        name: value for one in parameters for name, value in _read_parameter_set(Path(one)).items()
    }
    structure = structure_of(files, variant, path, given)
    names = dict(part_names(structure.components))
    fmus = _configure(structure, {at: _fmu(at, one) for at, one in structure.components.items()})
    _check_connectors(structure, fmus)
    system, starts = System(), _starts(structure, fmus)
    for at, fmu in fmus.items():
        try:
            system.add(names[at], fmu.file, kind=fmu.kind, start=starts[at])
        except (ValueError, KeyError, TypeError) as error:
            text = f"component '{at}': {error.args[0] if error.args else error}"
            raise format_error(structure.components[at].element, text) from error
    for link in structure.links:
        (a, y), (b, u) = _ends(link, fmus)
        try:
            way = _link_conversion(link, fmus, structure)
            system.connect(f"{names[a]}.{y}", f"{names[b]}.{u}", conversion=way)
        except (ValueError, KeyError, TypeError) as error:
            reason = error.args[0] if error.args else error
            text = f"the connection from {link.source} to {link.target}: {reason}"
            raise format_error(link.hops[-1].element, text) from None
    return Loaded(system, structure.experiment)


def _ends(link: Link, fmus: Mapping[str, Fmu]) -> tuple[Node, Node]:
    """Return the FMU output and the FMU input of a link; see `_variable` for alias names."""
    return _variable(link.source, fmus), _variable(link.target, fmus)


def _variable(node: Node, fmus: Mapping[str, Fmu]) -> Node:
    """Return the FMU variable of a connector; an alias name becomes the name of its variable."""
    for one in fmus[node.path].description.modelVariables:
        if one.name == node.connector and one.alias is not None:
            return node._replace(connector=one.alias.name)
    return node


def _starts(structure: Structure, fmus: Mapping[str, Fmu]) -> dict[str, dict[str, Any]]:
    """Return the start values of each FMU by port name."""
    starts = {at: dict[str, Any]() for at in fmus}
    for node, start_value in structure.values.items():
        node = _variable(node, fmus)
        put_start(starts[node.path], fmus[node.path], node, start_value, structure)
    return starts


def _fmu(at: str, component: Component) -> Fmu:
    """Read the FMU of the component with the path `at`."""
    file = component.files.path(component.source)
    try:
        fmu = Fmu(file, component.kind)
        _ports(fmu)  # raises FmuError for unsupported variables
    except (FmuError, OSError) as error:
        text = str(error).replace(str(file), component.source)
        raise format_error(component.element, f"component '{at}': {text}") from error
    return fmu


def _configure(structure: Structure, fmus: Mapping[str, Fmu]) -> dict[str, Fmu]:
    """Return the FMUs, configured with the array sizes and clock intervals in the description.

    `fmus` maps component paths to FMUs.
    """
    sizes = {at: dict[str, Any]() for at in fmus}
    for node, start_value in structure.values.items():
        node = _variable(node, fmus)
        fmu = fmus[node.path]
        if port_of(fmu.configurable, node.connector) is not None:
            put_start(sizes[node.path], fmu, node, start_value, structure)
    found = dict(fmus)
    for at, fmu in fmus.items():
        try:
            found[at] = configure_fmu(at, fmu, sizes[at])
        except (ValueError, TypeError, FmuError) as error:
            element = structure.components[at].element
            raise format_error(element, f"component '{at}': {error}") from error
    return found


def _ports(fmu: Fmu) -> tuple[Port, ...]:
    """Return all ports of an FMU that may have a connector in SSP."""
    return (*fmu.inputs, *fmu.outputs, *fmu.parameters, *fmu.states, *fmu.configurable)


def _check_connectors(structure: Structure, fmus: Mapping[str, Fmu]) -> None:
    """Check that the connectors of components match the variables of their FMUs.

    If a connector has no variable, or another causality or type than its variable, the function
    logs a warning.

    Raises:
        FormatError: The units of a connector and its variable have different dimensions.
    """
    known = {at: {v.name: v for v in fmu.description.modelVariables} for at, fmu in fmus.items()}
    for node, connector in structure.connectors.items():
        if (fmu := fmus.get(node.path)) is None:
            continue
        try:
            chosen = port_of(_ports(fmu), _variable(node, fmus).connector)
        except ValueError:
            chosen = None
        variable = known[node.path].get(node.connector)
        if chosen is None and variable is None:
            text = "%s: the FMU of connector '%s' has no variable of this name"
            _LOG.warning(text, place_of(connector.element), node)
        if variable is not None:
            _check_kind_and_type(node, connector, variable.alias or variable)
        if chosen is None:
            continue
        unit = chosen.units[0]
        here, there = _unit_meaning(connector), _meaning_of(unit, chosen.port.meanings, structure)
        if connector.unit and unit and here and there and here.exponents != there.exponents:
            text = (
                f"connector '{node}' has the unit {connector.unit}, but its FMU variable has the "
                f"unit {unit}"
            )
            raise format_error(connector.element, f"{text}, which has another physical dimension")


def _check_kind_and_type(node: Node, connector: Connector, variable: Any) -> None:
    """Log a warning if the causality or type of a connector differs from its FMU variable."""
    kinds = {variable.causality, "unspecified"}
    if variable.variability == "constant":
        kinds.add("constant")
    if connector.kind not in kinds:
        text = "%s: connector '%s' is of kind %s, but its FMU variable has the causality %s"
        where = place_of(connector.element)
        _LOG.warning(text, where, node, connector.kind, variable.causality)
    types = {local_name(one) for one in connector.element} & _GROUP.keys()
    if types and _GROUP[types.pop()] != _GROUP[variable.type]:
        text = "%s: the type of connector '%s' differs from the type %s of its FMU variable"
        _LOG.warning(text, place_of(connector.element), node, variable.type)


_WHOLE = (*MAPPED_TYPES["IntegerMappingTransformation"],)
_GROUP = {  # types of one group have the same set of values
    **dict.fromkeys(REAL, "Real"),
    **dict.fromkeys(_WHOLE, "Integer"),
    **{name: name for name in ("Boolean", "String", "Binary", "Clock")},
}


def _unit_meaning(connector: Connector) -> Quantity | None:
    """Return the physical quantity of a connector's unit, or None if the unit is undefined."""
    return connector.meaning or _quantity(connector.unit or "")


def _meaning_of(
    unit: str, meanings: Mapping[str, Quantity | None], structure: Structure
) -> Quantity | None:
    """Return the physical quantity of a unit, or None if the unit is undefined.

    The definition in the FMU (`meanings`) takes precedence over the definition in the SSP file.
    """
    return meanings.get(unit) or structure.units.get(unit) or _quantity(unit)


def _quantity(unit: str) -> Quantity | None:
    """Return the physical quantity of a common unit, with or without brackets, such as `[m]`.

    The result is None for an unknown unit.
    """
    return quantity_of(unit) or quantity_of(unit.removeprefix("[").removesuffix("]"))


def part_names(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs (component path, unique part name); dots in the path become underscores."""
    taken: set[str] = set()
    for path in paths:
        name = plain = path.replace(".", "_")
        k = 2
        while name in taken:
            name, k = f"{plain}_{k}", k + 1
        taken.add(name)
        yield path, name


def _read_parameter_set(path: Path) -> dict[str, Value]:
    """Read a parameter set file (.ssv), and return its values by parameter name."""
    check_regular_file(path)
    return parameter_set(read({path.name: path.read_bytes()}, path.name, VALUES, path.parent))


def port_of(ports: Iterable[Port], name: str) -> Selection | None:
    """Return the port, or the port elements, for a name such as `q` or `q[1]`.

    The result is None if no port has this name.

    Raises:
        ValueError: The port does not have these elements.
    """
    of = {port.name: port for port in ports}
    name, index = (name, None) if name in of else split_name(name)
    if name not in of:
        return None
    return (
        select_all(of[name])
        if index is None
        else select_elements(of[name], index, f"{name}[{index}]")
    )


def put_start(
    start: dict[str, Any], fmu: Fmu, node: Node, start_value: StartValue, structure: Structure
) -> None:
    """Add the value of a parameter binding to the start values of an FMU.

    If the FMU does not have the variable, the function logs a warning and ignores the value, as the
    standard requires.

    Args:
        start: Start values of the FMU by port name; the function adds the value.
        fmu: FMU.
        node: Variable of the FMU.
        start_value: Value, and its path from the parameter binding to the variable.
        structure: Content of the description.

    Raises:
        FormatError: The variable does not accept the value.
    """
    value, parameter = start_value.value, start_value.value.element.getparent()
    name = parameter.get("name") or parameter.get("variable")
    title = f"parameter '{name}'" + ("" if name == str(node) else f" for '{node}'")
    try:
        settable = (*fmu.inputs, *fmu.parameters, *fmu.states, *fmu.configurable)
        chosen = port_of(settable, node.connector)
        if chosen is None:
            text = "%s: '%s' has no variable '%s' with a start value"
            _LOG.warning(text, place_of(value.element), node.path or "the system", node.connector)
            return
        port, texts = chosen.port, chosen.port.type in TEXTUAL
        value = _transform_value(start_value)
        content = _numbers(value, fmu, chosen) if not texts else _texts(value, port)
        if np.size(content) not in (1, len(chosen.places)):
            n, given = len(chosen.places), np.size(content)
            raise ValueError(f"'{node}' has {n} elements, but {given} values are given")
        if not texts:
            where = f"{place_of(value.element)}: {title}"
            scale = _scale(value.unit, value.meaning, start_value.hops, chosen, structure, where)
            content = scale[0] * content + scale[1]
    except ValueError as error:
        raise format_error(value.element, f"{title}: {error}") from None
    values = np.empty(port.shape, dtype=object if texts else float)
    known = start.get(port.name, port.start if not texts else _start_texts(port))
    values[...] = np.nan if known is None else known
    values.reshape(-1)[list(chosen.places)] = content
    start[port.name] = values.tolist() if texts else values


def _transform_value(start_value: StartValue) -> Value:
    """Return a parameter value after all mapping transformations along its path.

    Raises:
        ValueError: The type of the value does not support a transformation, or the path also has a
            linear transformation.
    """
    value = start_value.value
    changes = [hop.transformation for hop in start_value.hops]
    if value.type in ("Boolean", "Enumeration") and any(one.is_linear for one in changes):
        raise ValueError(f"<LinearTransformation> does not support the type {value.type}")
    for change in changes:
        if change.kind:
            _check_not_mixed(changes)
            value = replace_value(value, change)
    return value


def _check_not_mixed(changes: Iterable[Transformation]) -> None:
    if any(one.is_linear for one in changes):
        raise ValueError(
            "a linear and a mapping transformation cannot be combined; use only one of them"
        )


def _texts(value: Value, port: Port) -> Any:
    """Return string or binary start values for a port.

    Raises:
        ValueError: The type of the value differs from the type of the port.
    """
    if value.type != port.type:
        raise ValueError(
            f"the variable is of type {port.type} and does not accept {value.type} values"
        )
    return value.value


def _start_texts(port: Port) -> Any:
    """Return the declared start values of a string or binary port, or an empty value."""
    empty = "" if port.type == "String" else b""
    return empty if port.start is None else decode_value(port.start, port.type)


def _numbers(value: Value, fmu: Fmu, chosen: Selection) -> Any:
    """Return a parameter value as numeric start values for the port elements `chosen`.

    Names of enumeration items are converted to their integer values.

    Raises:
        ValueError: The value is a string or binary, or is not an item of the enumeration.
    """
    if value.type in TEXTUAL:
        raise ValueError(
            f"the variable is of type {chosen.port.type} and does not accept {value.type} values"
        )
    if value.type != "Enumeration":
        return value.value
    names = np.ravel(np.array(value.value, dtype=object)).tolist()
    names = names * len(chosen.places) if len(names) == 1 else names
    items = [fmu.enumeration_items(chosen.port.name, k) or value.items for k in chosen.places]
    return np.array([item_number(name, known) for name, known in zip(names, items, strict=False)])


def _link_conversion(
    link: Link, fmus: Mapping[str, Fmu], structure: Structure
) -> Conversion | None:
    """Return the conversion of values along a link, from the output to the input.

    The result is None for string and binary values. If a port is missing, the result is also None,
    and `System.connect` later raises the error.

    Raises:
        ValueError: The types of the ports do not support a transformation of the link.
    """
    (a, y), (b, u) = _ends(link, fmus)
    source, target = port_of(fmus[a].outputs, y), port_of(fmus[b].inputs, u)
    if source is None or target is None:
        return None
    types = (source.port.type, target.port.type)
    for hop in link.hops:
        _check_types(hop.transformation, types)
    if set(types) & set(TEXTUAL):
        return None
    connector = structure.connectors.get(link.source)
    unit, meaning = source.units[0], None
    if unit:
        meaning = _meaning_of(unit, source.port.meanings, structure)
    elif connector:
        unit, meaning = connector.unit or "", _unit_meaning(connector)
    where = f"{place_of(link.hops[-1].element)}: the connection from {link.source} to {link.target}"
    factor, offset = _scale(unit, meaning, link.hops, target, structure, where)
    n = len(source.places)
    items, target_items = (
        fmus[at].enumeration_items(one.port.name, one.places[0])
        for at, one in ((a, source), (b, target))
    )
    table = _link_table(link, items, target_items, structure)
    return Conversion(np.full(n, factor), np.full(n, offset), table)


def _check_types(transformation: Transformation, types: tuple[str, str]) -> None:
    """Raise ValueError if a transformation does not support the types of both ends of a link."""
    kind = transformation.kind or ("LinearTransformation" if transformation.is_linear else "")
    allowed = {"LinearTransformation": (*REAL, *_WHOLE), **MAPPED_TYPES}
    for one in types if kind else ():
        if one not in allowed[kind] or (kind == "LinearTransformation" and one == "Enumeration"):
            raise ValueError(f"<{kind}> does not support the type {one}")


def _link_table(link: Link, items: Items, target_items: Items, structure: Structure) -> Table:
    """Combine all mapping transformations along a link into one table.

    Args:
        link: Link between two FMUs.
        items: Enumeration items of the output.
        target_items: Enumeration items of the input.
        structure: Content of the description.

    Returns:
        Pairs (output value, input value); () if the link has no mapping transformation.

    Raises:
        ValueError: An entry is not an item of the enumeration, or the link also has a linear
            transformation.
    """
    changes = [hop.transformation for hop in link.hops]
    if not any(one.kind for one in changes):
        return ()
    _check_not_mixed(changes)
    first = structure.connectors.get(link.source)
    here, table = items or (first.items if first else {}), dict[float, float]()
    for hop in link.hops:
        connector = structure.connectors.get(hop.to)
        declared = connector.items if connector else {}
        to = (target_items or declared) if hop is link.hops[-1] else declared or here
        if hop.transformation.kind:
            step = dict(hop.transformation.table(here, to))
            table = step | {value: step.get(one, one) for value, one in table.items()}
        here = to
    return tuple(table.items())


def _scale(
    unit: str | None,
    meaning: Quantity | None,
    hops: tuple[Hop, ...],
    target: Selection,
    structure: Structure,
    where: str,
) -> tuple[float, float]:
    """Return the factor and offset of the linear conversion along the path of a value.

    Along the path, each connector converts the value to its unit, and each connection applies its
    transformation. The variable at the end converts the value to its unit. A conversion from or to
    an undefined unit is omitted with a warning.

    Args:
        unit: Unit of the value.
        meaning: Physical quantity of the unit, or None.
        hops: Path of the value.
        target: Variable at the end of the path.
        structure: Content of the description.
        where: Location of the value, for warnings.

    Returns:
        Factor and offset.

    Raises:
        ValueError: Two units have different dimensions.
    """
    factor, offset, here = 1.0, 0.0, unit or ""
    meant = meaning or _quantity(here)
    for hop in hops:
        connector = structure.connectors.get(hop.to)
        to, wanted = (connector.unit or "", _unit_meaning(connector)) if connector else ("", None)
        if hop is hops[-1] and (own := target.units[0]):
            to, wanted = own, _meaning_of(own, target.port.meanings, structure)
        if not hop.transformation.raw and here and to and here != to and not (meant and wanted):
            text = "%s: no file defines the unit '%s'; the value is not converted to '%s'"
            _LOG.warning(text, where, here if meant is None else to, to)
        elif not hop.transformation.raw:
            along = conversion([here], [to], [meant], [wanted])
            if along is not None:
                k, b = along.factor[0], along.offset[0]
                factor, offset = k * factor, k * offset + b
        change = hop.transformation
        factor, offset = change.factor * factor, change.factor * offset + change.offset
        if to:
            here, meant = to, wanted
    return factor, offset
