"""Systems of FMUs for several hosts, also with FMUs of other vendors."""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import fmpy

from foreign_fmu import foreign_fmu
from planar2ctrl import CONNECTIONS, parts
from rigidblocks import PDController, System, export_fmu
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.robot.robots import five_bar

# a controller whose own state is the work that it has done
THEIRS = """for (int k = 0; k < 2; k++) {
    i->r[6 + k] = 100.0 * sin(i->r[4 + k] - i->r[k]) - 10.0 * i->r[2 + k];
    i->r[8 + k] += dt * i->r[6 + k] * i->r[2 + k];
}"""
PORTS = {"q": 0, "qd": 2, "q_ref": 4, "tau": 6, "work": 8}


class Hosted(NamedTuple):
    """FMUs by instance name, and the output for each connected input."""

    fmus: Mapping[str, Path]
    connections: Mapping[str, str]

    def system(self) -> System:
        """Return the connected system."""
        system = System()
        for name, path in self.fmus.items():
            system.add(name, path)
        for target, source in self.connections.items():
            system.connect(source, target)
        return system

    def wires(self) -> Iterator[tuple[str, str]]:
        """Yield the connections of variables; in FMI 2.0 each element is a variable."""
        for target, source in self.connections.items():
            part, port = source.split(".")
            description = fmpy.read_model_description(str(self.fmus[part]), validate=False)
            size = sum(v.name.startswith(f"{port}[") for v in description.modelVariables)
            yield from ((f"{source}[{k}]", f"{target}[{k}]") for k in range(1, size + 1))


def hosted(name: str, folder: Path, **options: Any) -> Hosted:
    """Return the named system, with its FMUs written to a folder.

    `options` are options of the export of "planar2ctrl".
    """
    blocks = parts()
    if name == "planar2ctrl":
        return Hosted(_exported(blocks, folder, **options), CONNECTIONS)
    if name == "five-bar":
        plant = ClosedLoopPlant(*five_bar())
        pd = PDController([8.0, 0.0, 8.0, 0.0], [0.5, 0.0, 0.5, 0.0])
        wires = {"pd.q": "plant.q", "pd.qd": "plant.qd", "plant.tau": "pd.tau"}
        return Hosted(_exported({"plant": plant, "pd": pd}, folder), wires)
    del blocks["pd"]
    variables = tuple(
        (f"{port}[{k + 1}]", "output" if first > 5 else "input", first + k, "Real")
        for port, first in PORTS.items()
        for k in range(2)
    )
    theirs = foreign_fmu(folder / "pd.fmu", step=THEIRS, variables=variables)
    wires = {to: source for to, source in CONNECTIONS.items() if to != "pd.qd_ref"}
    return Hosted(_exported(blocks, folder) | {"pd": theirs}, wires)


def _exported(blocks, folder: Path, **options: Any) -> dict[str, Path]:
    return {
        name: export_fmu(block, folder / f"{name}.fmu", name=name, **options)
        for name, block in blocks.items()
    }


def container(one: Hosted, folder: Path, dt: float, shown) -> Path:
    """Export the system as one FMU with fmu-manipulation-toolbox.

    All its parts read the values of the previous step. The variables `shown` are outputs, with _
    instead of the dot.
    """
    from fmu_manipulation_toolbox.container import FMUContainer

    made = FMUContainer("container", folder, fmi_version=2)
    for path in one.fmus.values():
        made.get_fmu(path.name)
    for ends in one.wires():
        (a, y), (b, u) = (end.split(".", 1) for end in ends)
        made.add_link(one.fmus[a].name, y, one.fmus[b].name, u)
    for name in shown:
        part, variable = name.split(".", 1)
        made.add_output(one.fmus[part].name, variable, name.replace(".", "_"))
    made.make_fmu(folder / "container.fmu", step_size=dt, sequential=False)
    return folder / "container.fmu"


def fmpy_container(one: Hosted, folder: Path, dt: float, shown) -> Path:
    """Export the system as one FMU with FMPy, whose package contains the binary."""
    from fmpy.container_fmu.cli import create_container_fmu
    from fmpy.container_fmu.config import Component, Configuration, Connection
    from fmpy.model_description import CoSimulation, ModelDescription, ModelVariable, Unknown

    parts = {
        name: Component(name, path, fmpy.read_model_description(str(path), validate=False))
        for name, path in one.fmus.items()
    }
    variables = {
        f"{name}.{v.name}": v
        for name, c in parts.items()
        for v in c.modelDescription.modelVariables
    }

    def end(name: str):
        double = copy.copy(variables[name])
        double.type = "Float64"  # the binary requires it even for connections of FMI 2.0
        return parts[name.split(".")[0]], [double]

    outputs = {
        ModelVariable(
            name=name.replace(".", "_"), type="Real", causality="output", initial="calculated"
        ): [(parts[name.split(".")[0]], variables[name])]
        for name in shown
    }
    about = ModelDescription(fmiVersion="2.0", modelName="container", instantiationToken="{c}")
    about.coSimulation = CoSimulation("container_fmu", fixedInternalStepSize=dt)
    about.modelVariables, about.outputs = list(outputs), [Unknown(variable=v) for v in outputs]
    connections = [Connection(*end(a), *end(b)) for a, b in one.wires()]
    (folder / "unpacked").mkdir()
    create_container_fmu(
        Configuration(False, about, list(parts.values()), connections, outputs),
        folder / "unpacked",
        folder / "fmpys.fmu",
    )
    return folder / "fmpys.fmu"
