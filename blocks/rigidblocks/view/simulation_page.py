"""A page in which a whole system runs."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.block.block import Port
from rigidblocks.block.memory import Memory
from rigidblocks.library.plant import Plant
from rigidblocks.library.rigid_contact_plant import RigidContactPlant
from rigidblocks.library.soft_world_plant import SoftWorldPlant
from rigidblocks.library.world_plant import WorldPlant
from rigidblocks.model.planar import PlanarModel
from rigidblocks.model.tree import Tree
from rigidblocks.system.fused import FusedSystem
from rigidblocks.system.system import System
from rigidblocks.view.encoding import encoded
from rigidblocks.view.forces import force_places
from rigidblocks.view.page import Page
from rigidblocks.view.robot import Part
from rigidblocks.view.show import in_order, page_of, plant_of, running_robots
from rigidblocks.view.solids import usual_length
from rigidblocks.view.wasm import wasm_kernel

WRENCHES = "f_ext"  # the input of a plant for wrenches on its bodies
FEW, MOST = 3, 36  # elements of a port before all tables; of one that has sliders
REACH = 10.0  # of a slider without bounds, where its value at the start is zero


def simulation_page(system: System, dt: float = 1e-3, path: str | Path | None = None) -> Page:
    """The page in which the system runs by steps of `dt` [s], in time with the clock: its fused
    kernel as WebAssembly beside the robot, with sliders for open inputs and tunable parameters, and
    a scope.

    The numbers are those of `simulate(system, ..., dt, form="fused")`, but for sines and cosines of
    another C library. The page is saved to `path` when given. Raises what `FusedSystem` raises for
    a system that is not of blocks alone, and CompilerError without the package `ziglang`.
    """
    system = pulled(system)
    memory = Memory(FusedSystem(system, dt))
    pairs = running_robots(system)
    drawn = [robot for robot, _ in pairs]
    shapes = {port.name: port.shape for port in memory.block.outputs}
    where = {name: _places(memory, name) for name in shapes}
    exposed = [replace(one, forces=tuple(_exposed(system, one.forces))) for one in drawn]
    named = [[system.exposure.name(port) for port in ports] for _, ports in pairs]
    forces = [force_places(robot, where, shapes) for robot in exposed]
    kernel = {
        "wasm": encoded(np.frombuffer(wasm_kernel(memory, h=dt), np.uint8), "u1"),
        "dt": dt,
        "places": [k for ports in named for name in ports for k in _places(memory, name)],
        "forces": forces,
        "settable": dict(_settable(memory)),
        "signals": list(_signals(memory)),
        "pulls": list(_pulls(system, memory)),
    }
    note = "runs in this page; drag to look around, pull at a body"
    made = page_of(drawn, system, {"kernel": kernel, "note": note})
    if path is not None:
        made.save(path)
    return made


def pulled(system: System) -> System:
    """The same system with an input for wrenches on the bodies of each plant that can have one."""
    same = System()
    for name, part in system.parts.items():
        plant = part.component
        if isinstance(plant, Plant) and all(port.name != WRENCHES for port in plant.inputs):
            more = plant.with_wrenches()
            same.add(name, more, start=part.start, method=part.method, h=part.h)
        else:
            same.parts[name] = part
    same.connections, same.exposure = list(system.connections), system.exposure
    return same


def _pulls(system: System, memory: Memory) -> Iterator[dict[str, Any] | None]:
    """Of each robot that is drawn where its wrenches are, the first body that is drawn, and the
    stiffness of a pull [N/m]: five times its weight at about its length; None where it has none.
    """
    connected = {one.target for one in system.connections}
    for name, part in system.parts.items():
        found = _pulled_model(part.component)
        if found is None:
            continue
        model, first, mass, length = found
        ports = [port.name for port in part.component.inputs if port.name.endswith(WRENCHES)]
        where = [memory.where.get(system.exposure.name(f"{name}.{port}")) for port in ports]
        if not where or where[0] is None or any((name, port) in connected for port in ports):
            yield None
            continue
        yield {
            "place": where[0].start,
            "first": first,
            "planar": isinstance(model, PlanarModel),
            "stiffness": 5.0 * 9.81 * mass / length,
        }


def _pulled_model(block: Any) -> tuple[Tree, int, float, float] | None:
    """The model that is drawn of a block, the first of its bodies that is, the mass that a pull has
    to move [kg], and the length that it stretches by [m]; None where no robot is drawn.
    """
    if isinstance(block, RigidContactPlant | WorldPlant | SoftWorldPlant):
        model = block.model
        return model, 0, max(float(body.m) for body in model.inertia), usual_length(model)
    if (plant := plant_of(block)) is None:
        return None
    drawn = plant.configuration_model
    mass = sum(float(body.m) for body in drawn.inertia)
    return drawn, plant.model.nb - drawn.nb, mass, drawn.nb * usual_length(drawn)


def _exposed(system: System, parts: Iterable[Part]) -> Iterator[Part]:
    """Parts of outputs by the names that these have outside the system."""
    for part in parts:
        yield part._replace(ports=tuple(map(system.exposure.name, part.ports)))


def _places(memory: Memory, name: str) -> range:
    where = memory.where[name]
    return range(where.start, where.stop)


def _settable(memory: Memory) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The sliders of the inputs and of the parameters, by title."""
    groups = {"inputs": memory.block.inputs, "parameters": memory.parameters}
    for title, ports in groups.items():
        few = [p for p in ports if p.size <= MOST and not p.name.endswith(WRENCHES)]
        in_order = sorted(few, key=lambda port: port.size > FEW)  # tables last
        yield title, [one for port in in_order for one in _sliders(memory, port)]


def _sliders(memory: Memory, port: Port) -> Iterator[dict[str, Any]]:
    start = memory.start()
    elements = zip(
        port.element_names,
        port.units,
        np.ravel(port.lowest),
        np.ravel(port.max),
        _places(memory, port.name),
        strict=True,
    )
    for name, unit, least, most, k in elements:
        value = float(start[k])
        far = 2.0 * abs(value) or REACH
        low = least if np.isfinite(least) and not port.positive else -far
        low = 0.05 * value if port.positive else max(low, -far)
        high = min(most, far)
        yield {
            "name": name,
            "unit": unit,
            "low": float(min(low, value)),
            "high": float(max(high, value)),
            "value": value,
            "place": k,
        }


def _signals(memory: Memory) -> Iterator[dict[str, Any]]:
    """The outputs, as the scope shows them."""
    ports = {port.name: port for port in memory.block.outputs}
    for name in in_order(list(ports)):
        port = ports[name]
        units = " ".join(dict.fromkeys(port.units))
        ends = [one[len(name) :] or name.rpartition(".")[2] for one in port.element_names]
        places = list(_places(memory, name))
        yield {"name": name, "unit": units, "elements": ends, "places": places}
