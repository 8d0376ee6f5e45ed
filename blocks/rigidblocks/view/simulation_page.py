"""Web pages that simulate a system in the browser, with WebAssembly."""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.block.adaptive_methods import Method, longest_step
from rigidblocks.block.block import Port
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.units import unit_text
from rigidblocks.common.compiler import (
    PORTABLE_FLAGS,
    cached_library,
    cross_compiler,
    digest,
    keep_text,
    key_of,
    known_library,
    known_text,
    run_compiler,
    version,
)
from rigidblocks.common.slow_operation_log import log_if_slow
from rigidblocks.contact.rigid_contact_plant import RigidContactPlant
from rigidblocks.contact.world_plant import PlantOfMembers
from rigidblocks.cosim.graph.fused_system import FusedSystem
from rigidblocks.cosim.graph.system import System
from rigidblocks.kernels.block_digest import fingerprint
from rigidblocks.kernels.model_header import KERNEL, model_header
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.library.plants import Plant
from rigidblocks.robot.model import PlanarModel
from rigidblocks.robot.tree import Tree
from rigidblocks.tracing.ccode import c_text
from rigidblocks.view.drawn_robot import ForceOutputs, encode_base64, force_indices
from rigidblocks.view.robot_page import Page, page_of, plant_of, running_robots, sort_signals
from rigidblocks.view.visual_geometry import usual_length

TARGET = "wasm32-wasi"
LINK = ("-mexec-model=reactor", "-s")


def wasm_kernel(memory: Memory, method: Method = RK4, h: float | None = None) -> bytes:
    """Compile the kernel of a block to a WebAssembly module, or read it from the cache.

    The module exports `rb_page_memory`, `rb_page_size`, `rb_page_reset`, `rb_page_initialize` and
    `rb_page_step(k, dt)`. The last function executes step k of size dt [s]. The results equal the
    results of the native kernel, except for the sines and cosines. Another C library computes them.

    Args:
        memory: Memory layout of the block.
        method: Integration method.
        h: Maximum inner step [s].

    Raises:
        CompilerError: The package `ziglang` is missing.
    """
    command, h = cross_compiler(TARGET), longest_step(method, h)
    options = (*PORTABLE_FLAGS, *LINK, "-DRB_WEB_PAGE", "kernel.c", "-o", "page.wasm")
    known = fingerprint("page", memory, method, h, command, version(command), options)
    if known and (text := known_text(known)) and (path := known_library(text)):
        return path.read_bytes()
    sources = {"model.h": model_header(TracedEvaluator(memory), method, h)}
    sources |= {name: c_text(f"kernel/{name}") for name in KERNEL}
    sources["kernel.c"] = c_text("kernel/kernel.c")
    texts = (part for item in sorted(sources.items()) for part in item)
    key = digest("\0".join((*command, version(command), *options, *texts)).encode())
    path = cached_library(key, lambda: _build_module(sources, (*command, *options)))
    if known:
        keep_text(known, key_of(path))
    return path.read_bytes()


def _build_module(sources: dict[str, str], command: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="rigidblocks-build-") as folder:
        for name, text in sources.items():
            Path(folder, name).write_text(text)
        with log_if_slow("compiling the page's kernel to WebAssembly"):
            run_compiler(command, folder)
        return Path(folder, "page.wasm").read_bytes()


WRENCHES = "f_ext"  # input of a plant with the wrenches on its bodies
FEW, MOST = 3, 36  # larger ports come last; ports above the maximum have no sliders
REACH = 10.0  # range of a slider for a port without bounds whose start value is zero


def simulation_page(system: System, dt: float = 1e-3, path: str | Path | None = None) -> Page:
    """Return a page that simulates the system in real time with steps of `dt` [s].

    The page contains the fused kernel as WebAssembly, the robot, sliders for unconnected inputs and
    tunable parameters, and plots of the outputs. The results equal the results of
    `simulate(system, ..., dt, form="fused")`, except for the sines and cosines, which another C
    library computes.

    Args:
        system: A system of blocks.
        dt: Communication step [s].
        path: Path to save the page, if given.

    Raises:
        ValueError: A part is not a block, a model depends on time, or `FusedSystem` does not
            support the system for another reason.
        CompilerError: The package `ziglang` is missing.
    """
    system = add_wrench_inputs(system)
    memory = Memory(FusedSystem(system, dt))
    pairs = running_robots(system)
    drawn = [robot for robot, _ in pairs]
    shapes = {port.name: port.shape for port in memory.block.outputs}
    where = {name: _places(memory, name) for name in shapes}
    exposed = [replace(one, forces=tuple(_rename_to_exposed(system, one.forces))) for one in drawn]
    named = [[system.exposure.name(port) for port in ports] for _, ports in pairs]
    forces = [force_indices(robot, where, shapes) for robot in exposed]
    kernel = {
        "wasm": encode_base64(np.frombuffer(wasm_kernel(memory, h=dt), np.uint8), "u1"),
        "dt": dt,
        "places": [k for ports in named for name in ports for k in _places(memory, name)],
        "forces": forces,
        "settable": dict(_settable(memory)),
        "signals": list(_signals(memory)),
        "pulls": list(_mouse_springs(system, memory)),
    }
    note = "runs in this page; drag to look around, pull at a body"
    made = page_of(drawn, system, {"kernel": kernel, "note": note})
    if path is not None:
        made.save(path)
    return made


def add_wrench_inputs(system: System) -> System:
    """Return a system in which each plant that supports external wrenches has the input f_ext."""
    same = System()
    for name, part in system.parts.items():
        plant = part.component
        if isinstance(plant, Plant) and all(port.name != WRENCHES for port in plant.inputs):
            more = plant.add_wrench_input()
            same.add(name, more, start=part.start, method=part.method, h=part.h, dt=part.dt)
        else:
            same.parts[name] = part
    same.connections, same.exposure = list(system.connections), system.exposure
    return same


def _mouse_springs(system: System, memory: Memory) -> Iterator[dict[str, Any] | None]:
    """Yield the data of the mouse spring of each robot, which pulls the body that the user grabs.

    The stiffness [N/m] is 5 m g / l with the mass m and the length l that `_pulled_model` returns.
    The factor 5 was found by trial. The function yields None for a robot whose wrench input is
    missing or connected.
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
    """Return the drawn model of a plant, a body index, a mass [kg] and a length [m].

    The index is that of the first drawn body in the model of the plant. The mass is that of the
    robot, and the length is its number of bodies times the typical link length. For a plant of
    several robots or with rigid contacts, the mass is that of the heaviest body, and the length is
    that of a typical link. The result is None for a block that is no plant.
    """
    if isinstance(block, RigidContactPlant | PlantOfMembers):
        model = block.model
        return model, 0, max(float(body.m) for body in model.inertia), usual_length(model)
    if (plant := plant_of(block)) is None:
        return None
    drawn = plant.configuration_model
    mass = sum(float(body.m) for body in drawn.inertia)
    return drawn, plant.model.nb - drawn.nb, mass, drawn.nb * usual_length(drawn)


def _rename_to_exposed(system: System, parts: Iterable[ForceOutputs]) -> Iterator[ForceOutputs]:
    """Yield copies of force outputs, with the port names that the system exposes."""
    for part in parts:
        yield part._replace(ports=tuple(map(system.exposure.name, part.ports)))


def _places(memory: Memory, name: str) -> range:
    where = memory.where[name]
    return range(where.start, where.stop)


def _settable(memory: Memory) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the slider data of the unconnected inputs and of the tunable parameters.

    Each item is a pair: the title and the list of sliders.
    """
    groups = {"inputs": memory.block.inputs, "parameters": memory.parameters}
    for title, ports in groups.items():
        few = [p for p in ports if p.size <= MOST and not p.name.endswith(WRENCHES)]
        ordered = sorted(few, key=lambda port: port.size > FEW)  # large ports (tables) come last
        yield title, [one for port in ordered for one in _sliders(memory, port)]


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
    """Yield the names, units and indices of the outputs that the page plots."""
    ports = {port.name: port for port in memory.block.outputs}
    for name in sort_signals(list(ports)):
        port = ports[name]
        units = unit_text(port.units)
        ends = [one[len(name) :] or name.rpartition(".")[2] for one in port.element_names]
        places = list(_places(memory, name))
        yield {"name": name, "unit": units, "elements": ends, "places": places}
