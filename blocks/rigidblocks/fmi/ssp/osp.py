"""Import of a system from an Open Simulation Platform (OSP-IS) file and its FMUs."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np

from rigidblocks.block.port import TEXTUAL, Port
from rigidblocks.block.units import Conversion
from rigidblocks.common.name_hints import suggestion
from rigidblocks.common.xml_reader import (
    format_error,
    number,
    parse_xml,
    required_attribute,
)
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from rigidblocks.cosim.graph.part import Selection
from rigidblocks.cosim.graph.system import System
from rigidblocks.fmi.ssp.load import part_names, port_of, put_start
from rigidblocks.fmi.ssp.parameter_sets import READERS, Value
from rigidblocks.fmi.ssp.schema import Rules, check_content, declare_prefixes, local_name, place_of
from rigidblocks.fmi.ssp.system_structure import Loaded, Node, StartValue, Structure

LOG = logging.getLogger("rigidblocks")
FILE = "OspSystemStructure.xml"
_SPACE = "http://opensimulationplatform.com/MSMI/OSPSystemStructure"
_TYPES = "Real", "Integer", "Boolean", "String"
_END = ("simulator! name! causality", "")
_ANY = ("", "...")  # rule for elements whose content is not read
_RULES: Rules = {
    "osp:OspSystemStructure": (
        "version",
        "osp:StartTime osp:EndTime osp:BaseStepSize osp:Algorithm osp:Simulators! osp:Functions "
        "osp:Connections osp:EccoConfiguration",
    ),
    **{f"osp:{name}": ("", "#") for name in ("StartTime", "EndTime", "BaseStepSize", "Algorithm")},
    "osp:EccoConfiguration": _ANY,
    "osp:Simulators": ("", "osp:Simulator*"),
    "osp:Simulator": ("name:name! source! stepSize:real", "osp:InitialValues"),
    "osp:InitialValues": ("", "osp:InitialValue*"),
    "osp:InitialValue": ("variable:name!", "|".join(f"osp:{name}" for name in _TYPES) + "!"),
    **{f"osp:{name}": ("value!", "") for name in _TYPES},
    "osp:Functions": ("", "osp:LinearTransformation* osp:Sum* osp:VectorSum*"),
    "osp:LinearTransformation": ("name:name! factor:real offset:real", ""),
    **{f"osp:{name}": _ANY for name in ("Sum", "VectorSum")},
    "osp:Connections": (
        "",
        "osp:VariableConnection* osp:SignalConnection* osp:VariableGroupConnection* "
        "osp:SignalGroupConnection*",
    ),
    "osp:VariableConnection": ("powerBond", "osp:Variable*"),
    "osp:SignalConnection": ("", "osp:Variable osp:Signal"),
    **{f"osp:{name}GroupConnection": _ANY for name in ("Variable", "Signal")},
    "osp:Variable": _END,
    "osp:Signal": ("function! name!", ""),
}

Element = Any  # element of lxml, which has no type annotations


class Link(NamedTuple):
    """Connection from an output of a simulator to an input of another simulator.

    The value of the input is factor * output + offset.

    Attributes:
        source: Simulator and variable of the output.
        target: Simulator and variable of the input.
        factor: Factor.
        offset: Offset.
        element: XML element of the connection.
    """

    source: tuple[str, str]
    target: tuple[str, str]
    factor: float
    offset: float
    element: Element


def load_osp(path: str | Path) -> Loaded:
    """Load a system from an OspSystemStructure.xml file, or from the folder with this file.

        system, run = load_osp("case/OspSystemStructure.xml")
        simulate(system, **{"t_stop": 10.0, **run})

    The run options contain `order`, and also `dt`, `t_start` and `t_stop` if the file defines them.
    The parts have the names of the simulators, with _ instead of dots. The loader reads initial
    values, connections of variables, and linear transformations of connected variables.

    Like OSP's libcosim, the loader does not convert units. All parts read the outputs of the
    previous step (order "jacobi").

    Args:
        path: Path of the file or folder.

    Returns:
        The system, and the run options in the file as arguments of `simulate`.

    Raises:
        FileNotFoundError: The file does not exist.
        FormatError: The file is not an OSP structure, or contains variable groups, sums, or a
            simulator whose source is not a file. The message contains the file and line.
            Exceptions of `System.add` also become FormatError.
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(f"OSP file '{path}' does not exist")
    root = parse_xml(path.read_bytes(), path)
    declare_prefixes(root, {"osp": _SPACE})
    if root.tag != f"{{{_SPACE}}}OspSystemStructure":
        known = f"it must be an OspSystemStructure of OSP in '{_SPACE}'"
        raise format_error(root, f"the root element is <{root.tag}>; {known}")
    check_content(root, _RULES, {"osp": _SPACE})
    _log_unused(root)
    simulators = {
        required_attribute(one, "name"): one for one in _find_all(root, "Simulators/Simulator")
    }
    if len(simulators) < len(list(_find_all(root, "Simulators/Simulator"))):
        raise format_error(
            root, "two simulators have the same name; names of simulators must be unique"
        )
    names = dict(part_names(simulators))
    fmus = {name: _fmu(path, one) for name, one in simulators.items()}
    system = System()
    for name, fmu in fmus.items():
        start = _start(simulators[name], fmu)
        try:
            system.add(names[name], fmu.file, kind=fmu.kind, start=start)
        except (ValueError, KeyError, TypeError) as error:
            text = f"simulator '{name}': {error.args[0] if error.args else error}"
            raise format_error(simulators[name], text) from error
    for link in _links(root, fmus):
        _connect(system, link, fmus, names)
    return Loaded(system, dict(_run(root, simulators.values())))


def _log_unused(root: Element) -> None:
    """Log the elements and attributes of an OSP file that have no effect on a run."""
    bonds = [one for one in root.iter(f"{{{_SPACE}}}VariableConnection") if one.get("powerBond")]
    for one in (*_find_all(root, "EccoConfiguration"), *bonds[:1]):
        LOG.warning("%s: %s of the ecco algorithm is ignored", place_of(one), local_name(one))


def _find_all(root: Element, path: str) -> Iterator[Element]:
    """Yield the XML elements at a path below `root`, such as `Simulators/Simulator`."""
    return iter(root.findall("/".join(f"{{{_SPACE}}}{tag}" for tag in path.split("/"))))


def _fmu(path: Path, simulator: Element) -> Fmu:
    source = required_attribute(simulator, "source")
    url = urlsplit(source)
    if url.scheme not in ("", "file") or url.netloc:
        raise format_error(
            simulator, f"the source '{source}' is not a file; only FMU files are supported"
        )
    try:
        return Fmu(path.parent / unquote(url.path))
    except (FmuError, OSError) as error:
        text = f"simulator '{simulator.get('name')}': {error}"
        raise format_error(simulator, text) from error


def _start(simulator: Element, fmu: Fmu) -> dict[str, Any]:
    """Return the start values of a simulator by port name."""
    start: dict[str, Any] = {}
    structure = Structure("", {}, {}, (), {}, {})
    values = {}
    for one in _find_all(simulator, "InitialValues/InitialValue"):
        name, (given,) = required_attribute(one, "variable"), one
        _port((*fmu.inputs, *fmu.parameters, *fmu.states), name, one, _NO_START)
        if name in values:
            raise format_error(one, f"variable '{name}' has two initial values")
        kind, text = local_name(given), given.get("value")
        try:
            values[name] = Value(READERS[kind][1](text), kind, element=given)
        except ValueError:
            raise format_error(given, f"invalid {kind} '{text}'") from None
        put_start(
            start, fmu, Node(simulator.get("name"), name), StartValue(values[name]), structure
        )
    return start


_NO_START = "the FMU has no start value"


def _port(ports: Iterable[Port], name: str, element: Element, problem: str) -> Selection:
    """Return the port, or the port elements, that a variable name denotes.

    For an unknown name, raise FormatError with the text `problem`, at the XML element `element`.
    """
    ports = tuple(ports)
    try:
        chosen = port_of(ports, name)
    except ValueError as error:
        raise format_error(element, str(error)) from None
    if chosen is None:
        known = suggestion(name, [port.name for port in ports])
        raise format_error(element, f"{problem} '{name}'; {known}")
    return chosen


def _links(root: Element, fmus: Mapping[str, Fmu]) -> Iterator[Link]:
    """Yield all connections between outputs and inputs of simulators.

    A connection through a linear transformation has the factor and offset of this transformation.
    """
    functions = _functions(root)
    into: dict[str, tuple[str, str]] = {}
    out: list[tuple[str, tuple[str, str], Element]] = []
    for one in (one for group in _find_all(root, "Connections") for one in group):
        ends, signals = _two_ends(one, fmus)
        if not signals:
            source, target = sorted(ends, key=lambda end: _is_input(fmus, end))
            yield Link(source, target, 1.0, 0.0, one)
            continue
        name = required_attribute(signals[0], "function")
        if name not in functions:
            raise format_error(
                signals[0], f"unknown function '{name}'; {suggestion(name, functions)}"
            )
        side = required_attribute(signals[0], "name")
        if side not in ("in", "out"):
            raise format_error(
                signals[0], f"function '{name}' has no signal '{side}'; expected in or out"
            )
        if side == "in":
            if name in into:
                raise format_error(one, f"the input of function '{name}' has two connections")
            into[name] = ends[0]
        else:
            out.append((name, ends[0], one))
    for name, target, one in out:
        if name not in into:
            raise format_error(one, f"the input of function '{name}' is not connected")
        factor, offset = (number(functions[name], key, k) for key, k in _LINEAR)
        yield Link(into[name], target, factor, offset, one)


_LINEAR = (("factor", 1.0), ("offset", 0.0))


def _functions(root: Element) -> dict[str, Element]:
    """Return the linear transformations in a file by function name.

    Raise FormatError if the file has a function of another type.
    """
    functions = {
        required_attribute(one, "name"): one
        for one in root.iter(f"{{{_SPACE}}}LinearTransformation")
    }
    for function in (one for group in _find_all(root, "Functions") for one in group):
        if local_name(function) != "LinearTransformation":
            raise format_error(
                function,
                f"function type {local_name(function)} is not supported; expected "
                "LinearTransformation",
            )
    return functions


def _two_ends(
    connection: Element, fmus: Mapping[str, Fmu]
) -> tuple[list[tuple[str, str]], list[Element]]:
    """Return the ends of an XML connection, as a list of variables and a list of signals.

    A connection has two variables, or one variable and one function signal. A variable is a pair
    (simulator name, variable name).
    """
    if "Group" in local_name(connection):
        raise format_error(
            connection, "groups of variables are not supported; connect their variables"
        )
    ends = [_end(end, fmus) for end in _find_all(connection, "Variable")]
    signals = list(_find_all(connection, "Signal"))
    if len(ends) + len(signals) != 2 or not ends:
        raise format_error(
            connection, "a connection needs two ends, and one of them must be a variable"
        )
    return ends, signals


def _end(variable: Element, fmus: Mapping[str, Fmu]) -> tuple[str, str]:
    simulator, name = (
        required_attribute(variable, "simulator"),
        required_attribute(variable, "name"),
    )
    if simulator not in fmus:
        raise format_error(
            variable, f"unknown simulator '{simulator}'; {suggestion(simulator, fmus)}"
        )
    ports = (*fmus[simulator].inputs, *fmus[simulator].outputs)
    _port(ports, name, variable, f"'{simulator}' has no input or output")
    return simulator, name


def _is_input(fmus: Mapping[str, Fmu], end: tuple[str, str]) -> bool:
    return port_of(fmus[end[0]].inputs, end[1]) is not None


def _connect(system: System, link: Link, fmus: Mapping[str, Fmu], names: Mapping[str, str]) -> None:
    (a, y), (b, u) = link.source, link.target
    source, target = port_of(fmus[a].outputs, y), port_of(fmus[b].inputs, u)
    if source is None or target is None:
        raise format_error(
            link.element,
            f"'{a}.{y}' and '{b}.{u}' cannot be connected; one must be an output and the other "
            "an input",
        )
    way = _conversion(source.port, target.port, len(source.places), link)
    try:
        system.connect(f"{names[a]}.{y}", f"{names[b]}.{u}", conversion=way)
    except (ValueError, KeyError) as error:
        raise format_error(link.element, str(error.args[0])) from None


def _conversion(source: Port, target: Port, n: int, link: Link) -> Conversion | None:
    if {source.type, target.type} & set(TEXTUAL):
        return None
    return Conversion(np.full(n, link.factor), np.full(n, link.offset))


def _run(root: Element, simulators: Any) -> Iterator[tuple[str, Any]]:
    """Yield the run options that an OSP file defines, as arguments of `simulate`."""
    yield "order", "jacobi"
    given = {local_name(one): one for one in root}
    steps = [number(one, "stepSize") for one in simulators if one.get("stepSize")]
    for name, key in (("t_start", "StartTime"), ("t_stop", "EndTime")):
        if key in given:
            yield name, _number(given[key])
    dt = _number(given["BaseStepSize"]) if "BaseStepSize" in given else min(steps, default=None)
    if dt is not None:
        yield "dt", dt
        if other := sorted({step for step in steps if abs(step - dt) > 1e-9 * dt}):
            LOG.warning(
                "the file has simulators with their own steps of %s s; here all parts exchange "
                "values at each dt = %g s",
                ", ".join(f"{step:g}" for step in other),
                dt,
            )
    algorithm = (given["Algorithm"].text or "").strip() if "Algorithm" in given else "fixedStep"
    if algorithm != "fixedStep":
        LOG.warning(
            "the file requests the algorithm '%s'; here the step size is constant, unless "
            "`step_tol` is given",
            algorithm,
        )


def _number(element: Element) -> float:
    text = (element.text or "").strip()
    try:
        value: float = READERS["Real"][1](text)
    except ValueError:
        raise format_error(element, f"invalid number '{text}'") from None
    return value
