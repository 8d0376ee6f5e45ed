"""A system with foreign FMUs in it as one FMU: a container of them, and of ours as one more."""

import tempfile
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.block.block import Block
from rigidblocks.block.port import Port
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.block.signal_types import REAL
from rigidblocks.fmi.export import export_fmu
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.fused import JACOBI
from rigidblocks.system.part import Part
from rigidblocks.system.system import System
from rigidblocks.system.wiring import Wiring

OURS = "blocks"  # of the FMUs of parts that are blocks
End = tuple[str, str]  # of a link: the file and the variable


def export_container(
    system: System,
    path: str | Path,
    dt: float,
    *,
    platforms: str | Iterable[str] | None = None,
    name: str | None = None,
) -> Path:
    """The path of the FMU of FMI 2.0 written there, which steps the FMUs of a system by `dt` [s],
    all of them from the outputs of the old time, as `simulate(..., order="jacobi")` does.

    Blocks become native FMUs inside it, for `platforms`: one of all that lie between two FMUs in
    the order in which outputs can be computed, with their wires. The variables are the outputs, the
    open inputs and the parameters of the parts, called `part.port`. In the first row an output that
    reads at once what comes later in a circle, as qdd of a plant does, is without it. The package
    fmu-manipulation-toolbox makes the container.

    Raises ValueError for a system without an FMU, which `export_fmu` makes one of; for a part in
    Python; for FMUs of FMI 3.0; for wires on which values are converted to other units, which a
    container does not; and ImportError without the package.
    """
    wiring = system.wiring()
    _check(wiring)
    try:
        toolbox = import_module("fmu_manipulation_toolbox.container")
    except ImportError as error:
        text = "a container needs a package: pip install fmu-manipulation-toolbox"
        raise ImportError(text) from error
    path = Path(path)
    with tempfile.TemporaryDirectory() as folder:
        files = dict(_files(wiring, Path(folder), dt, platforms))
        made = toolbox.FMUContainer(name or path.stem, folder, fmi_version=2)
        for file in dict.fromkeys(files.values()):
            made.get_fmu(file)
        _wire(made, wiring, files)
        whole = Path(folder, "whole", path.name)
        whole.parent.mkdir()
        made.make_fmu(whole.resolve(), step_size=dt)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(whole.read_bytes())
    return path


def _check(wiring: Wiring) -> None:
    parts = wiring.parts.values()
    if not any(isinstance(part.component, Fmu) for part in parts):
        raise ValueError("the system has no FMU among its parts: export_fmu makes one FMU of it")
    for part in parts:
        if isinstance(part.component, PythonBlock):
            raise ValueError(f"'{part.name}' is a Python part, which no container can have")
        if isinstance(part.component, Fmu) and part.component.version != 2:
            raise ValueError(f"'{part.name}' is an FMU of FMI 3.0; a container here is FMI 2.0")
    for wire in wiring.wires:
        if wiring.conversion(wire) is not None:
            (a, y), (b, u), *_ = wire
            raise ValueError(
                f"the values from {a}.{y} to {b}.{u} are converted, which a container does not do: "
                "put a Gain between them"
            )


def _files(
    wiring: Wiring, folder: Path, dt: float, platforms: str | Iterable[str] | None
) -> Iterator[tuple[str, str]]:
    """Writes the FMUs to a folder, and gives the file that each part is in, in the order in which
    they are initialized.
    """
    for k, group in enumerate(_groups(wiring), 1):
        first = wiring.parts[group[0]]
        name = f"{OURS}_{k}" if isinstance(first.component, Block) else f"part_{k}"
        file = folder / f"{name}.fmu"
        if isinstance(first.component, Fmu):
            file.write_bytes(first.component.file.read_bytes())
        else:
            inner = _of_blocks({one: wiring.parts[one] for one in group}, wiring)
            export_fmu(inner, file, platforms=platforms, name=name, dt=dt, order=JACOBI)
        yield from dict.fromkeys(group, file.name).items()


def _groups(wiring: Wiring) -> Iterator[list[str]]:
    """Each FMU, and the blocks between them, in the order in which outputs can be computed: so no
    group has to wait at the start for what another makes of its own outputs.
    """
    order = dict.fromkeys(wiring.evaluation_order)
    for ours, run in groupby(order, lambda one: isinstance(wiring.parts[one].component, Block)):
        names = list(run)
        yield from [names] if ours else ([one] for one in names)


def _of_blocks(ours: dict[str, Part], wiring: Wiring) -> System:
    """The blocks with the wires between them; what comes from FMUs is an open input."""
    inner = System()
    for name, part in ours.items():
        fed = {u for (a, _), (b, u), *_ in wiring.connections if b == name and a not in ours}
        ports = (port for port in part.component.inputs if port.name in fed)
        start = {**{p.name: p.within(0.0) for p in ports if p.start is None}, **part.start}
        inner.add(name, part.component, start=start, method=part.method, h=part.h)  # type: ignore[arg-type]
    for one in wiring.connections:
        if one.source[0] in ours and one.target[0] in ours:
            inner.connect(*one.names)
    return inner


def _wire(made: Any, wiring: Wiring, files: dict[str, str]) -> None:
    """The links of a container, what it shows, and the start values of its FMUs."""
    _link(made, wiring, files)
    for part in wiring.parts.values():
        for port in part.component.outputs:
            for (file, variable), shown in _shown(part, port, files):
                made.add_output(file, variable, shown)
        if isinstance(part.component, Fmu):
            _start(made, part, files)
    for name, port in wiring.open_inputs:
        for (file, variable), shown in _shown(wiring.parts[name], port, files):
            made.add_input(shown, file, variable)
    for part in wiring.parts.values():
        component: Any = part.component
        for port in component.parameters:
            for (file, variable), shown in _shown(part, port, files):
                made.add_input(shown, file, variable)


def _link(made: Any, wiring: Wiring, files: dict[str, str]) -> None:
    """What is connected, but inside an FMU of ours."""
    for (a, y), (b, u), start, to, *_ in wiring.connections:
        if isinstance(wiring.parts[a].component, Block) and files[a] == files[b]:
            continue
        sources = _ends(wiring.parts[a], wiring.parts[a].output(y), files)
        targets = _ends(wiring.parts[b], wiring.parts[b].input(u), files)
        for i, j in zip(start, to, strict=True):
            made.add_link(*sources[i], *targets[j])


def _shown(part: Part, port: Port, files: dict[str, str]) -> Iterator[tuple[End, str]]:
    """Where each element of a port is, and what it is called in the container."""
    names = (f"{part.name}.{element}" for element in port.element_names)
    return zip(_ends(part, port, files), names, strict=True)


def _ends(part: Part, port: Port, files: dict[str, str]) -> list[End]:
    """The file and the variable of each element of a port."""
    ours = isinstance(part.component, Block)
    names = [f"{part.name}.{element}" if ours else element for element in port.element_names]
    return [(files[part.name], name) for name in names]


def _start(made: Any, part: Part, files: dict[str, str]) -> None:
    """The start values that the system gives to an FMU."""
    component: Any = part.component
    for port in (*component.inputs, *component.parameters, *component.states):
        if port.name in part.start:
            values = np.ravel(part.start[port.name]).tolist()
            for (file, variable), value in zip(_ends(part, port, files), values, strict=True):
                text = repr(value) if port.type in REAL else str(int(value))
                made.add_start_value(file, variable, text)
