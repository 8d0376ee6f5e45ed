"""A system from a file of SSP."""

import atexit
import logging
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.block.port import Port
from rigidblocks.block.quantities import Conversion, Quantity, conversion, quantity_of
from rigidblocks.block.signal_types import TEXTUAL
from rigidblocks.formats.refusal import wrong
from rigidblocks.ssp.parameters import parameter_set
from rigidblocks.ssp.reading import structure_of
from rigidblocks.ssp.schema import VALUES, read
from rigidblocks.ssp.structure import (
    Bound,
    Component,
    Hop,
    Link,
    Loaded,
    Node,
    Scale,
    Structure,
    Value,
)
from rigidblocks.system.fmu import Fmu, FmuError
from rigidblocks.system.fmu_file import check_archive
from rigidblocks.system.selection import Selection, selected, split, whole
from rigidblocks.system.system import System

_LOG = logging.getLogger("rigidblocks")
DESCRIPTION = "SystemStructure.ssd"


def load_system(
    path: str | Path, *, variant: str = DESCRIPTION, parameters: Iterable[str | Path] = ()
) -> Loaded:
    """The system in a file of SSP 1.0 (.ssp), and the run that the file proposes: `t_start`,
    `t_stop`, and where we have written it also `dt` and `order`.

        system, run = load_system("arm.ssp")
        simulate(system, **run)

    A file may have several descriptions: `variant` is the name of one. `parameters` are files of
    parameter sets (.ssv) whose values replace those of the description. The parts have the names of
    the components, those of inner systems `inner/pd`, with _ for a dot. Units are converted by the
    connectors' own, transformed as the connections say; parameters reach the FMUs before they are
    initialized.

    Raises FormatError, with file and line, for what is no such file and for what cannot be
    simulated: components that are no FMUs, transformations that are not linear, connectors with
    units that their FMU's do not fit; and what
    `System.add` and `System.connect` raise.
    """
    path = Path(path)
    files = _files(path)
    given = {name: value for one in parameters for name, value in _set(Path(one)).items()}
    structure = structure_of(files, variant, path, given)
    folder = _unpacked(path, structure.components.values(), files)
    names = dict(part_names(structure.components))
    fmus = {at: _fmu(path, at, c, folder) for at, c in structure.components.items()}
    _check_units(path, structure, fmus)
    system, starts = System(), _starts(structure, fmus)
    for at, fmu in fmus.items():
        system.add(names[at], fmu.file, kind=fmu.kind, start=starts[at])
    for link in structure.links:
        (a, y), (b, u) = link.source, link.target
        try:
            way = _along(link, port_of(fmus[a].outputs, y), port_of(fmus[b].inputs, u), structure)
        except ValueError as error:
            text = f"the connection from {link.source} to {link.target}: {error}"
            raise wrong(path, None, text) from None
        system.connect(f"{names[a]}.{y}", f"{names[b]}.{u}", conversion=way)
    return Loaded(system, structure.experiment)


def _starts(structure: Structure, fmus: Mapping[str, Fmu]) -> dict[str, dict[str, Any]]:
    """The start values of each FMU, by its ports."""
    starts = {at: dict[str, Any]() for at in fmus}
    for node, bound in structure.values.items():
        put_start(starts[node.path], fmus[node.path], node, bound, structure)
    return starts


def _fmu(path: Path, at: str, component: Component, folder: Path) -> Fmu:
    """The FMU of a component, unpacked to a folder."""
    try:
        return Fmu(folder / component.source, component.kind)
    except FmuError as error:
        text = str(error).replace(str(folder / component.source), component.source)
        raise wrong(path, None, f"component '{at}': {text}") from error


def _check_units(path: Path, structure: Structure, fmus: Mapping[str, Fmu]) -> None:
    """Refuses a connector with a unit of another dimension than that of its FMU's variable."""
    for node, connector in structure.connectors.items():
        fmu = fmus.get(node.path)
        ports = () if fmu is None else (*fmu.inputs, *fmu.outputs, *fmu.parameters)
        if connector.unit is None or (chosen := port_of(ports, node.connector)) is None:
            continue
        unit = chosen.units[0]
        known = {**chosen.port.meanings, **structure.units}
        here, there = (known.get(one) or quantity_of(one) for one in (connector.unit, unit))
        if unit and here and there and here.exponents != there.exponents:
            text = f"connector '{node.path}.{node.connector}' is in {connector.unit}, its FMU's "
            raise wrong(path, None, f"{text}variable in {unit}, which has another dimension")


def _files(path: Path) -> dict[str, bytes]:
    """The files of an archive by their names."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file '{path}' of SSP")
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(path, archive.infolist())
            return {one.filename: archive.read(one) for one in archive.infolist()}
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, FmuError) as error:
        raise wrong(path, None, f"this is no archive of SSP: {error}") from None


def _unpacked(path: Path, components: Iterable[Component], files: Mapping[str, bytes]) -> Path:
    """A folder with the FMUs of the components, which lasts as long as this process."""
    sources = {component.source for component in components}
    if missing := sorted(sources - set(files)):
        raise wrong(path, None, f"there is no FMU '{missing[0]}' in it")
    folder = Path(tempfile.mkdtemp(prefix="rigidblocks-ssp-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for source in sources:
        file = folder / source
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(files[source])
    return folder


def part_names(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The name of the part for each path of a component: new, and without dots."""
    taken: set[str] = set()
    for path in paths:
        name = plain = path.replace(".", "_")
        k = 2
        while name in taken:
            name, k = f"{plain}_{k}", k + 1
        taken.add(name)
        yield path, name


def _set(path: Path) -> dict[str, Value]:
    """The values of a file of a parameter set by their names."""
    return dict(parameter_set(read({path.name: path.read_bytes()}, path.name, VALUES, path.parent)))


def port_of(ports: Iterable[Port], name: str) -> Selection | None:
    """The port of a name, or the elements of one that it names; None where there is none."""
    of = {port.name: port for port in ports}
    name, index = (name, None) if name in of else split(name)
    if name not in of:
        return None
    return whole(of[name]) if index is None else selected(of[name], index, f"{name}[{index}]")


def put_start(
    start: dict[str, Any], fmu: Fmu, node: Node, bound: Bound, structure: Structure
) -> None:
    """Puts a value among the start values of an FMU; one for which it has nothing is ignored, as
    the standard wants.
    """
    chosen = port_of((*fmu.inputs, *fmu.parameters, *fmu.states), node.connector)
    if chosen is None:
        _LOG.warning("'%s' has nothing to start with a value called '%s'", *node)
        return
    port = chosen.port
    if port.type in TEXTUAL:
        start[port.name] = bound.value.value
        return
    unit, meaning = bound.value.unit, bound.value.meaning
    if unit is not None and meaning is not None:
        structure = replace(structure, units={**structure.units, unit: meaning})
    factor, offset = _scale(unit, bound.hops, chosen, structure, {})
    given = np.size(bound.value.value)
    if given not in (1, len(chosen.places)):
        raise ValueError(
            f"'{node}' has {len(chosen.places)} elements, and {given} values are given"
        )
    values = start.setdefault(port.name, np.array(port.start, dtype=float))
    values.reshape(-1)[list(chosen.places)] = factor * bound.value.value + offset


def _along(
    link: Link, source: Selection | None, target: Selection | None, structure: Structure
) -> Conversion | None:
    """How values are converted on the way between two ports; None where it is as their units say,
    and where a port is none, which is refused when they are connected.
    """
    if source is None or target is None or {source.port.type, target.port.type} & set(TEXTUAL):
        return None
    connector = structure.connectors.get(link.source)
    unit = source.units[0] or (connector.unit if connector else None)
    factor, offset = _scale(unit, link.hops, target, structure, source.port.meanings)
    n = len(source.places)
    return Conversion(np.full(n, factor), np.full(n, offset))


def _scale(
    unit: str | None,
    hops: tuple[Hop, ...],
    target: Selection,
    structure: Structure,
    meanings: Mapping[str, Quantity | None],
) -> tuple[float, float]:
    """The factor and the offset of a value in a unit on its way: at each connector it is converted
    to the unit there, at the last to that of the variable, and then transformed.
    """
    known = {**target.port.meanings, **meanings, **structure.units}
    connectors = (structure.connectors.get(hop.to) for hop in hops)
    there = [(connector.unit if connector else None) or "" for connector in connectors]
    there[-1:] = [target.units[0] or "".join(there[-1:])]
    scales = [hop.scale for hop in hops] or [Scale()]
    factor, offset, here = 1.0, 0.0, unit or ""
    for to, scale in zip(there, scales, strict=True):
        if not scale.raw:
            meant, wanted = ([known.get(one) or quantity_of(one)] for one in (here, to))
            if (along := conversion([here], [to], meant, wanted)) is not None:
                k, b = along.factor[0], along.offset[0]
                factor, offset = k * factor, k * offset + b
        factor, offset = scale.factor * factor, scale.factor * offset + scale.offset
        here = to or here
    return factor, offset
