"""Systems of FMUs that run in several hosts: our own, and mixed with what others might have
written.
"""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import fmpy

from foreign_fmu import foreign_fmu
from planar2ctrl import CONNECTIONS, parts
from rigidblocks import PDController, System, export_fmu
from rigidblocks.library import ClosedLoopPlant
from rigidblocks.mechanisms import five_bar

# a controller with its own state, the work that it has done
THEIRS = """for (int k = 0; k < 2; k++) {
    i->r[6 + k] = 100.0 * sin(i->r[4 + k] - i->r[k]) - 10.0 * i->r[2 + k];
    i->r[8 + k] += dt * i->r[6 + k] * i->r[2 + k];
}"""
PORTS = {"q": 0, "qd": 2, "q_ref": 4, "tau": 6, "work": 8}


class Hosted(NamedTuple):
    """FMUs by the names of their instances, and from which output each connected input reads."""

    fmus: Mapping[str, Path]
    connections: Mapping[str, str]

    def system(self) -> System:
        """It as a system of ours."""
        system = System()
        for name, path in self.fmus.items():
            system.add(name, path)
        for target, source in self.connections.items():
            system.connect(source, target)
        return system

    def wires(self) -> Iterator[tuple[str, str]]:
        """From which variable to which: of FMI 2.0, where each element is one."""
        for target, source in self.connections.items():
            part, port = source.split(".")
            description = fmpy.read_model_description(str(self.fmus[part]), validate=False)
            size = sum(v.name.startswith(f"{port}[") for v in description.modelVariables)
            yield from ((f"{source}[{k}]", f"{target}[{k}]") for k in range(1, size + 1))


def hosted(name: str, folder: Path) -> Hosted:
    """The system of a name, its FMUs written to a folder."""
    blocks = parts()
    if name == "planar2ctrl":
        return Hosted(_exported(blocks, folder), CONNECTIONS)
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


def _exported(blocks, folder: Path) -> dict[str, Path]:
    return {name: export_fmu(b, folder / f"{name}.fmu", name=name) for name, b in blocks.items()}


def container(one: Hosted, folder: Path, dt: float, shown) -> Path:
    """The system as one FMU by fmu-manipulation-toolbox, all of whose parts read the old time. The
    variables `shown` are outputs, with _ for the point.
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
    """The same by FMPy, whose package brings the binary."""
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
        double.type = "Float64"  # which its binary wants to read in a connection of FMI 2.0 too
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
