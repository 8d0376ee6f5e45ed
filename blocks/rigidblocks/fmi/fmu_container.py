"""Export of a system as one FMU that contains the FMUs of all parts (FMU container)."""

import tempfile
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.block.block import Block
from rigidblocks.block.external_functions import PythonBlock
from rigidblocks.block.port import REAL, Port
from rigidblocks.common.optional_imports import module_of
from rigidblocks.cosim.graph.fmu_part import Fmu
from rigidblocks.cosim.graph.fused_system import JACOBI
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.graph.wiring import Wiring
from rigidblocks.fmi.export import export_fmu

OURS = "blocks"  # prefix of the file names of FMUs that are exported from blocks
End = tuple[str, str]  # file and variable of one end of a connection


def export_container(
    system: System,
    path: str | Path,
    dt: float,
    *,
    platforms: str | Iterable[str] | None = None,
    name: str | None = None,
) -> Path:
    """Export a system as an FMI 2.0 container FMU, which contains and steps one FMU per part.

    All FMUs read the outputs of the previous step, as in `simulate(..., order="jacobi")`. The
    export converts blocks to native FMUs. Consecutive blocks between two FMUs in the evaluation
    order form one native FMU. The container variables are the outputs, open inputs and parameters
    of the parts, named `part.port`. The package fmu-manipulation-toolbox creates the container.

    If the connections form a loop, an output with direct feedthrough, such as `qdd` of a plant, may
    be initialized before an input of its part. The initial value of the output then does not depend
    on this input.

    Args:
        system: System with at least one FMU of version 2.0.
        path: Path of the container FMU.
        dt: Communication step [s].
        platforms: Platforms of the native FMUs, as in `export_fmu`.
        name: Model identifier.

    Returns:
        Path of the container FMU.

    Raises:
        ValueError: The system has no FMU (use `export_fmu`). The system contains a Python part, an
            FMI 3.0 FMU, or a connection with unit conversion.
        ImportError: fmu-manipulation-toolbox is not installed.
    """
    wiring = system.wiring()
    _check(wiring)
    toolbox = module_of("fmu_manipulation_toolbox.container", "a container FMU")
    path = Path(path)
    with tempfile.TemporaryDirectory() as folder:
        files = dict(_files(wiring, Path(folder), dt, platforms))
        container = toolbox.FMUContainer(name or path.stem, folder, fmi_version=2)
        for file in dict.fromkeys(files.values()):
            container.get_fmu(file)
        _wire(container, wiring, files)
        whole = Path(folder, "whole", path.name)
        whole.parent.mkdir()
        container.make_fmu(whole.resolve(), step_size=dt)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(whole.read_bytes())
    return path


def _check(wiring: Wiring) -> None:
    parts = wiring.parts.values()
    if not any(isinstance(part.component, Fmu) for part in parts):
        raise ValueError("the system has no FMU among its parts; use export_fmu")
    for part in parts:
        if isinstance(part.component, PythonBlock):
            raise ValueError(f"'{part.name}' is a Python part; containers do not support it")
        if isinstance(part.component, Fmu) and part.component.version != 2:
            raise ValueError(f"'{part.name}' is an FMI 3.0 FMU; containers support FMI 2.0")
    for wire in wiring.wires:
        if wiring.conversion(wire) is not None:
            (a, y), (b, u), *_ = wire
            raise ValueError(
                f"the connection {a}.{y} to {b}.{u} converts units; containers do not support "
                "that: insert a Gain block"
            )


def _files(
    wiring: Wiring, folder: Path, dt: float, platforms: str | Iterable[str] | None
) -> Iterator[tuple[str, str]]:
    """Write the FMUs of a system to a folder; yield pairs (part name, FMU file name).

    The pairs are in evaluation order. Parts that instantiate the same FMU share one file.
    """
    for name, part in wiring.parts.items():
        if part.dt not in (None, dt):
            raise ValueError(
                f"'{name}' has its own communication step, dt={part.dt:g}, which an FMU of FMUs "
                f"with the step {dt:g} s does not support; leave out dt"
            )
    for k, group in enumerate(_groups(wiring), 1):
        first = wiring.parts[group[0]]
        name = f"{OURS}_{k}" if isinstance(first.component, Block) else f"part_{k}"
        file = folder / f"{name}.fmu"
        if isinstance(first.component, Fmu):
            file.write_bytes(first.component.file.read_bytes())
        else:
            inner = _block_system({one: wiring.parts[one] for one in group}, wiring)
            export_fmu(inner, file, platforms=platforms, name=name, dt=dt, order=JACOBI)
        yield from dict.fromkeys(group, file.name).items()


def _groups(wiring: Wiring) -> Iterator[list[str]]:
    """Yield the part names of each group of parts that becomes one FMU.

    A group consists of one FMU part, or of consecutive blocks. The groups are in initialization
    order, so the initial values of a group depend only on earlier groups.
    """
    order = dict.fromkeys(wiring.initialization_order)
    for is_block, group in groupby(
        order, lambda one: isinstance(wiring.parts[one].component, Block)
    ):
        names = list(group)
        yield from [names] if is_block else ([one] for one in names)


def _block_system(parts: dict[str, Part], wiring: Wiring) -> System:
    """Return a system of blocks, with the connections between them.

    `parts` contains the blocks by name. An input with a connection from outside these parts becomes
    an open input of the system.
    """
    inner = System()
    for name, part in parts.items():
        fed = {u for (a, _), (b, u), *_ in wiring.connections if b == name and a not in parts}
        ports = (port for port in part.component.inputs if port.name in fed)
        start = {**{p.name: p.clip(0.0) for p in ports if p.start is None}, **part.start}
        inner.add(name, part.component, start=start, method=part.method, h=part.h, dt=part.dt)  # type: ignore[arg-type]
    for one in wiring.connections:
        if one.source[0] in parts and one.target[0] in parts:
            inner.connect(*one.names)
    return inner


def _wire(container: Any, wiring: Wiring, files: dict[str, str]) -> None:
    """Add the connections, exposed variables and start values to the container FMU.

    `files` contains the FMU file name of each part.
    """
    _link(container, wiring, files)
    for part in wiring.parts.values():
        for port in part.component.outputs:
            for (file, variable), shown in _exposed_variables(part, port, files):
                container.add_output(file, variable, shown)
        if isinstance(part.component, Fmu):
            _start(container, part, files)
    for name, port in wiring.open_inputs:
        for (file, variable), shown in _exposed_variables(wiring.parts[name], port, files):
            container.add_input(shown, file, variable)
    for part in wiring.parts.values():
        component: Any = part.component
        for port in component.parameters:
            for (file, variable), shown in _exposed_variables(part, port, files):
                container.add_input(shown, file, variable)


def _link(container: Any, wiring: Wiring, files: dict[str, str]) -> None:
    """Add the connections between different FMUs to the container FMU."""
    for (a, y), (b, u), start, to, *_ in wiring.connections:
        if isinstance(wiring.parts[a].component, Block) and files[a] == files[b]:
            continue
        sources = _fmu_variables(wiring.parts[a], wiring.parts[a].output(y), files)
        targets = _fmu_variables(wiring.parts[b], wiring.parts[b].input(u), files)
        for i, j in zip(start, to, strict=True):
            container.add_link(*sources[i], *targets[j])


def _exposed_variables(part: Part, port: Port, files: dict[str, str]) -> Iterator[tuple[End, str]]:
    """Yield pairs ((FMU file, FMU variable), container variable) for the elements of a port."""
    names = (f"{part.name}.{element}" for element in port.element_names)
    return zip(_fmu_variables(part, port, files), names, strict=True)


def _fmu_variables(part: Part, port: Port, files: dict[str, str]) -> list[End]:
    """Return the pair (FMU file name, variable name) of each element of a port."""
    is_block = isinstance(part.component, Block)
    names = [f"{part.name}.{element}" if is_block else element for element in port.element_names]
    return [(files[part.name], name) for name in names]


def _start(container: Any, part: Part, files: dict[str, str]) -> None:
    """Add the start values of an FMU part to the container FMU."""
    component: Any = part.component
    for port in (*component.inputs, *component.parameters, *component.states):
        if port.name in part.start:
            values = np.ravel(part.start[port.name]).tolist()
            for (file, variable), value in zip(
                _fmu_variables(part, port, files), values, strict=True
            ):
                text = repr(value) if port.type in REAL else str(int(value))
                container.add_start_value(file, variable, text)
