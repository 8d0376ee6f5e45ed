"""A system from a system structure of the Open Simulation Platform (OSP-IS): FMUs beside an XML
file.
"""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np

from rigidblocks.block.port import Port
from rigidblocks.block.quantities import Conversion
from rigidblocks.block.record import offer
from rigidblocks.block.signal_types import TEXTUAL
from rigidblocks.formats.document import number, parsed, refused, required
from rigidblocks.ssp.load import part_names, port_of, put_start
from rigidblocks.ssp.structure import Bound, Loaded, Node, Structure, Value
from rigidblocks.system.fmu import Fmu, FmuError
from rigidblocks.system.system import System

LOG = logging.getLogger("rigidblocks")
FILE = "OspSystemStructure.xml"
_SPACE = "http://opensimulationplatform.com/MSMI/OSPSystemStructure"
_READERS: Mapping[str, Any] = {
    "Real": float,
    "Integer": int,
    "Boolean": lambda text: {"true": True, "1": True, "false": False, "0": False}[text],
    "String": str,
}

Element = Any  # of lxml, which has no types


class Link(NamedTuple):
    """From a variable of a simulator to one of another, factor y + offset, and where it is said."""

    source: tuple[str, str]
    target: tuple[str, str]
    factor: float
    offset: float
    element: Element


def load_osp(path: str | Path) -> Loaded:
    """The system in an OspSystemStructure.xml, or in a folder with one, and the run that it
    proposes: `dt`, `order`, and `t_start` and `t_stop` as far as it says.

        system, run = load_osp("case/OspSystemStructure.xml")
        simulate(system, **{"t_stop": 10.0, **run})

    The parts have the names of the simulators, with _ for a dot. Initial values, connections of
    variables, and linear transformations between them are read; units are left alone, as OSP's own
    libcosim does, and all parts read what the others were before the step (order "jacobi").

    Raises FormatError, with file and line, for what is no such file and for what is not read:
    groups of variables, sums, and FMUs that are not files; and what `System.add` raises.
    """
    path = Path(path)
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise FileNotFoundError(f"there is no file '{path}' of OSP")
    root = parsed(path.read_bytes(), path)
    if root.tag != f"{{{_SPACE}}}OspSystemStructure":
        raise refused(root, f"this is a <{root.tag}>; it must be an OspSystemStructure of OSP")
    simulators = {required(one, "name"): one for one in _found(root, "Simulators/Simulator")}
    if len(simulators) < len(list(_found(root, "Simulators/Simulator"))):
        raise refused(root, "two simulators have the same name")
    names = dict(part_names(simulators))
    fmus = {name: _fmu(path, one) for name, one in simulators.items()}
    system = System()
    for name, fmu in fmus.items():
        start = _start(simulators[name], fmu)
        system.add(names[name], fmu.file, kind=fmu.kind, start=start)
    for link in _links(root, fmus):
        _connect(system, link, fmus, names)
    return Loaded(system, dict(_run(root, simulators.values())))


def _found(root: Element, path: str) -> Iterator[Element]:
    """The elements on a path such as `Simulators/Simulator`."""
    return iter(root.findall("/".join(f"{{{_SPACE}}}{tag}" for tag in path.split("/"))))


def _kind(element: Element) -> str:
    """The name of an element without that of its space."""
    return str(element.tag).rpartition("}")[2]


def _fmu(path: Path, simulator: Element) -> Fmu:
    source = required(simulator, "source")
    url = urlsplit(source)
    if url.scheme not in ("", "file") or url.netloc:
        raise refused(simulator, f"'{source}' is no file, and nothing else is read")
    try:
        return Fmu(path.parent / unquote(url.path))
    except (FmuError, OSError) as error:
        text = f"simulator '{simulator.get('name')}': {error}"
        raise refused(simulator, text) from error


def _start(simulator: Element, fmu: Fmu) -> dict[str, Any]:
    """The initial values of a simulator, by the ports of its FMU."""
    start: dict[str, Any] = {}
    structure = Structure("", {}, {}, (), {}, {})
    for one in _found(simulator, "InitialValues/InitialValue"):
        name = required(one, "variable")
        ports = (*fmu.inputs, *fmu.parameters, *fmu.states)
        if port_of(ports, name) is None:
            known = offer(name, [port.name for port in ports])
            raise refused(one, f"the FMU has nothing to start with a value '{name}'; {known}")
        for given in one:
            kind, text = _kind(given), given.get("value", "")
            try:
                value = Value(_READERS[kind](text), kind)
            except (KeyError, ValueError):
                raise refused(given, f"'{text}' is no {kind}") from None
            put_start(start, fmu, Node(simulator.get("name"), name), Bound(value), structure)
    return start


def _links(root: Element, fmus: Mapping[str, Fmu]) -> Iterator[Link]:
    """What is connected, also by linear transformations."""
    functions = _functions(root)
    into: dict[str, tuple[str, str]] = {}
    out: list[tuple[str, tuple[str, str], Element]] = []
    for one in (one for group in _found(root, "Connections") for one in group):
        ends, signals = _two_ends(one, fmus)
        if not signals:
            source, target = sorted(ends, key=lambda end: _is_input(fmus, end))
            yield Link(source, target, 1.0, 0.0, one)
            continue
        name = required(signals[0], "function")
        if name not in functions:
            raise refused(signals[0], f"there is no function '{name}'; {offer(name, functions)}")
        if required(signals[0], "name") == "in":
            into[name] = ends[0]
        else:
            out.append((name, ends[0], one))
    for name, target, one in out:
        if name not in into:
            raise refused(one, f"nothing is connected to the input of '{name}'")
        factor, offset = (number(functions[name], key, k) for key, k in _LINEAR)
        yield Link(into[name], target, factor, offset, one)


_LINEAR = (("factor", 1.0), ("offset", 0.0))


def _functions(root: Element) -> dict[str, Element]:
    """The linear transformations by their names; others are refused."""
    functions = {
        required(one, "name"): one for one in root.iter(f"{{{_SPACE}}}LinearTransformation")
    }
    for function in (one for group in _found(root, "Functions") for one in group):
        if _kind(function) != "LinearTransformation":
            raise refused(function, f"functions of the kind {_kind(function)} are not read")
    return functions


def _two_ends(
    connection: Element, fmus: Mapping[str, Fmu]
) -> tuple[list[tuple[str, str]], list[Element]]:
    """The variables that are connected, or one and the signal of a function."""
    if "Group" in _kind(connection):
        raise refused(connection, "groups of variables are not read; connect their variables")
    ends = [_end(end, fmus) for end in _found(connection, "Variable")]
    signals = list(_found(connection, "Signal"))
    if len(ends) + len(signals) != 2 or not ends:
        raise refused(connection, "a connection needs two ends, one a variable")
    return ends, signals


def _end(variable: Element, fmus: Mapping[str, Fmu]) -> tuple[str, str]:
    simulator, name = required(variable, "simulator"), required(variable, "name")
    if simulator not in fmus:
        raise refused(variable, f"there is no simulator '{simulator}'; {offer(simulator, fmus)}")
    ports = (*fmus[simulator].inputs, *fmus[simulator].outputs)
    if port_of(ports, name) is None:
        known = offer(name, [port.name for port in ports])
        raise refused(variable, f"'{simulator}' has no input or output '{name}'; {known}")
    return simulator, name


def _is_input(fmus: Mapping[str, Fmu], end: tuple[str, str]) -> bool:
    return port_of(fmus[end[0]].inputs, end[1]) is not None


def _connect(system: System, link: Link, fmus: Mapping[str, Fmu], names: Mapping[str, str]) -> None:
    (a, y), (b, u) = link.source, link.target
    source, target = port_of(fmus[a].outputs, y), port_of(fmus[b].inputs, u)
    if source is None or target is None:
        raise refused(link.element, f"'{a}.{y}' and '{b}.{u}' must be an output and an input")
    way = _conversion(source.port, target.port, len(source.places), link)
    try:
        system.connect(f"{names[a]}.{y}", f"{names[b]}.{u}", conversion=way)
    except ValueError as error:
        raise refused(link.element, str(error)) from None


def _conversion(source: Port, target: Port, n: int, link: Link) -> Conversion | None:
    if {source.type, target.type} & set(TEXTUAL):
        return None
    return Conversion(np.full(n, link.factor), np.full(n, link.offset))


def _run(root: Element, simulators: Any) -> Iterator[tuple[str, Any]]:
    """The arguments of `simulate` that the file gives."""
    yield "order", "jacobi"
    given = {_kind(one): one for one in root if len(one) == 0 and one.text}
    steps = [number(one, "stepSize") for one in simulators if one.get("stepSize")]
    for name, key in (("t_start", "StartTime"), ("t_stop", "EndTime")):
        if key in given:
            yield name, _number(given[key])
    dt = _number(given["BaseStepSize"]) if "BaseStepSize" in given else min(steps, default=None)
    if dt is not None:
        yield "dt", dt
        if other := sorted({step for step in steps if abs(step - dt) > 1e-9 * dt}):
            LOG.warning(
                "the file has simulators with steps of their own, of %s s; here all exchange what "
                "they give at each dt = %g s",
                ", ".join(f"{step:g}" for step in other),
                dt,
            )
    algorithm = given["Algorithm"].text.strip() if "Algorithm" in given else "fixedStep"
    if algorithm != "fixedStep":
        LOG.warning(
            "the file asks for the algorithm '%s'; here steps have one length, unless `step_tol` "
            "is given",
            algorithm,
        )


def _number(element: Element) -> float:
    try:
        value = float(element.text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise refused(element, f"'{element.text}' is no number")
    return value
