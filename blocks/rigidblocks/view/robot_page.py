"""Robots to be looked at, and what a page is to know of their runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Record
from rigidblocks.block.record import offer
from rigidblocks.block.signal_types import TEXTUAL
from rigidblocks.dynamics.floating import floating_body
from rigidblocks.formats.description import RobotDescription
from rigidblocks.library.contact_plant import ContactPlant
from rigidblocks.library.floating_plant import FloatingBasePlant
from rigidblocks.library.kinematics import FrameKinematics
from rigidblocks.library.plant import Plant
from rigidblocks.library.rigid_contact_plant import RigidContactPlant
from rigidblocks.library.soft_contact_plant import SoftContactPlant
from rigidblocks.library.soft_world_plant import SoftWorldPlant
from rigidblocks.library.world_plant import WorldPlant
from rigidblocks.mechanisms import Mechanism
from rigidblocks.model.model import Model
from rigidblocks.model.tree import Tree
from rigidblocks.simulation.result import Result, curves_of, names_of
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.system import System
from rigidblocks.view.encoding import encoded
from rigidblocks.view.file import RobotFile, robot_file
from rigidblocks.view.forces import force_parts
from rigidblocks.view.ground import ground_solids, level_ground
from rigidblocks.view.meshes import NO_MESHES, Meshes, meshes
from rigidblocks.view.page import Page, page
from rigidblocks.view.robot import DrawnRobot, outlook, span
from rigidblocks.view.solids import of_shapes

FRAMES, MOST = 60.0, 400_000  # per second; bytes of all frames
POINTS, FEWEST, NUMBERS = 1200, 50, 50_000  # of a curve, at most and at least; of all curves
FAR = 1e12  # [rad, m]: what is farther away is not seen
PLANTS = (
    *(Plant, ContactPlant, SoftContactPlant, RigidContactPlant),
    *(WorldPlant, SoftWorldPlant),
)


Drawn = tuple[DrawnRobot, Sequence[str]]  # with the names of the ports of its q
Drawable = Tree | Mechanism | RobotDescription | RobotFile | Block | System | str | Path


def show(robot: Drawable, q: ArrayLike | None = None, path: str | Path | None = None) -> Page:
    """The page of a robot with a slider for each joint; loops stay closed while one is moved.

    `robot` is a model, a mechanism, a plant, a system with plants among its parts, what a file says
    of a robot, or the path of such a file. It stands at `q` (nq,), or where its plant starts.
    Notebooks show the page, `open` shows it in a browser, and it is saved to `path` when given.
    Raises TypeError for something else.
    """
    drawn = [robot for robot, _ in drawn_robots(robot, q)]
    made = page_of(drawn, robot, {})
    if path is not None:
        made.save(path)
    return made


def drawn_robots(robot: Drawable, q: ArrayLike | None) -> Iterator[Drawn]:
    """The robots to draw, each with the names of the ports of its q one after the other, those of a
    system with the names of their parts.
    """
    match robot:
        case str() | Path():
            yield from drawn_robots(robot_file(Path(robot)), q)
        case RobotFile():
            yield _described(robot.robot, q, meshes(*robot)), ("q",)
        case System():
            yield from _of_system(robot)
        case RobotDescription():
            yield _described(robot, q), ("q",)
        case Mechanism():
            yield DrawnRobot(robot.model, q=robot.q0 if q is None else q), ("q",)
        case Tree():
            yield _of_model(robot, q)
        case Plant() | ContactPlant() | SoftContactPlant() | RigidContactPlant():
            one, ports = drawn_plant(robot, {}, "", q)
            yield _on_ground(one, robot), ports
        case WorldPlant() | SoftWorldPlant():
            one, ports = drawn_plant(robot, {}, "", q)
            yield _on_ground(one, robot), ports
        case _:
            raise TypeError(
                f"a robot to draw is a model, a mechanism, a plant, a system or a file, not "
                f"{robot!r}"
            )


def running_robots(system: System) -> list[Drawn]:
    """The robots of a system for a page that knows their q alone while it runs; raises ValueError
    for one that a function of time moves.
    """
    pairs = list(drawn_robots(system, None))
    for one, _ in pairs:
        if one.model.rheonomic:
            raise ValueError(
                f"a function of time moves '{one.name or one.model.name}', which a page of a run "
                "that goes on does not know: simulate the system and animate the result"
            )
    return pairs


def plant_of(block: Any) -> Plant | None:
    """The plant that a block is or has in it."""
    if isinstance(block, ContactPlant | SoftContactPlant):
        return block.robot
    return block if isinstance(block, Plant) else None


def configuration_ports(plant: Plant) -> tuple[str, ...]:
    """The states of a plant that are its q, in the order in which they make it."""
    found, n = dict[int, str](), 0
    values: dict[str, Array] = {}
    for port in plant.states:
        values[port.name] = np.arange(n, n + port.size, dtype=float)
        found |= dict.fromkeys(range(n, n + port.size), port.name)
        n += port.size
    q, _ = plant.configuration(Record(values))
    return tuple(dict.fromkeys(found[int(k)] for k in q))


def motion_of(result: Result, pairs: Sequence[Drawn]) -> Array:
    """The `variables` of all robots over time, side by side."""
    columns = list[Array]()
    for one, ports in pairs:
        columns.append(_columns(result, one.model.nq, ports))
        if one.model.rheonomic:
            columns.append(np.asarray(result.time, dtype=float)[:, None])
    return np.concatenate(columns, axis=1)


def described_run(
    result: Result, q: Array, forces: Sequence[Array | None] = (), signals: Sequence[str] = ()
) -> dict[str, Any]:
    """What the script reads of a run: its motion, and the forces on each robot, at the pace of a
    film, its signals at points enough for a plot.
    """
    time, end = np.asarray(result.time, dtype=float), _end_of_motion(q)
    wide = q.shape[1] + sum(one.shape[1] for one in forces if one is not None)
    most = max(MOST // (8 + 4 * wide), 2)
    n = round(float(time[end - 1] - time[0]) * FRAMES) + 1
    frames = np.linspace(time[0], time[end - 1], int(np.clip(n, 2, most)))
    names = signals or _numbers(result)
    rows = plotted(result, names)

    def filmed(values: Array) -> str:
        return encoded(
            np.column_stack([np.interp(frames, time[:end], column[:end]) for column in values.T])
        )

    return {
        "time": encoded(frames, "<f8"),
        "q": filmed(q),
        "forces": [None if one is None else filmed(one) for one in forces],
        "plotTime": encoded(time[rows], "<f8"),
        "events": [float(event.t) for event in result.events][:200],
        "signals": [signal_of(result, name, rows) for name in names],
    }


def _end_of_motion(q: Array) -> int:
    """How many rows there are before one that is too far away to be drawn or not finite: the end of
    a run that failed is seen.
    """
    lost = ~(np.abs(q) < FAR).all(axis=1)
    end = int(np.argmax(lost)) if lost.any() else len(q)
    if not end:
        raise ValueError(f"the motion of the robot is not finite from the start, {q[0].tolist()}")
    return end


def plotted(result: Result, names: Sequence[str], runs: int = 1) -> Array:
    """The rows of a result that are enough for plots of these signals, of so many runs."""
    curves = sum(np.size(result[name][0]) for name in names) * runs
    points = int(np.clip(NUMBERS // max(curves, 1), FEWEST, POINTS))
    return np.unique(np.linspace(0, len(result.time) - 1, points).astype(int))


def signal_of(result: Result, name: str, rows: Array) -> dict[str, Any]:
    """What the script reads of a signal, at these rows; raises ValueError for texts."""
    values = curves_of(result, name)[rows]
    units = result.unit(name)
    unit = units if isinstance(units, str) else " ".join(dict.fromkeys(units))
    ends = [one[len(name) :] or name.rpartition(".")[2] for one in names_of(result, name)]
    columns = [encoded(np.clip(np.nan_to_num(column), -1e30, 1e30)) for column in values.T]
    return {"name": name, "unit": unit, "elements": ends, "columns": columns}


def _numbers(result: Result) -> list[str]:
    """The signals that are numbers."""
    names = [port.name for port in result.ports if port.type not in TEXTUAL]
    return in_order(names)


def in_order(names: Sequence[str]) -> list[str]:
    """The names of signals, positions and then forces before all others."""
    wanted = ("q", "tau", "energy", "qd")
    last = [name.rpartition(".")[2] for name in names]
    order = [wanted.index(one) if one in wanted else len(wanted) for one in last]
    return [names[k] for k in np.argsort(order, kind="stable")]


def _of_system(system: System) -> Iterator[Drawn]:
    robots = 0
    for name, part in system.parts.items():
        if isinstance(part.component, PLANTS):
            robots += 1
            one, ports = drawn_plant(part.component, part.start, name, None)
            forces = force_parts(part.component, name, system)
            frames = dict(_frames(system, part.component, one.model))
            one = replace(one, forces=forces, frames=frames)
            yield (_on_ground(one, system) if robots == 1 else one), ports
    if not robots:
        fmus = any(isinstance(part.component, Fmu) for part in system.parts.values())
        names = ", ".join(system.parts) or "none"
        raise ValueError(
            f"there is no robot to draw in the system; its parts are: {names}"
            + "; an FMU does not say what its robot looks like: give the robot's file or model"
            * fmus
        )


def _on_ground(one: DrawnRobot, robot: Block | System) -> DrawnRobot:
    """The robot with the ground that is not level, of all robots of a system."""
    solids = ground_solids(robot, outlook(one.model).up, span(one))
    return replace(one, more=(*one.more, *(replace(solid, aside=True) for solid in solids)))


def drawn_plant(
    block: Block, start: Mapping[str, Any], name: str = "", q: ArrayLike | None = None
) -> Drawn:
    """The robot of one of the `PLANTS`, called `name` in its system, where this `start` of its
    states or `q` (nq,) puts it, with the names of the ports of its q.
    """
    if isinstance(block, RigidContactPlant):
        q = start.get("q", block.q0) if q is None else q
        return DrawnRobot(block.model, name, q, forces=force_parts(block)), (
            f"{name}.q".lstrip("."),
        )
    if isinstance(block, WorldPlant | SoftWorldPlant):
        return _of_world(block, start, name, q)
    plant = plant_of(block)
    assert plant is not None
    states = {port.name: np.asarray(start.get(port.name, port.start)) for port in plant.states}
    of_start, _ = plant.configuration(Record(states))
    ports = configuration_ports(plant)
    names = tuple(f"{name}.{port}" for port in ports) if name else ports
    q = of_start if q is None else q
    return DrawnRobot(plant.configuration_model, name, q, forces=force_parts(block)), names


def _of_world(
    block: WorldPlant | SoftWorldPlant, start: Mapping[str, Any], name: str, q: ArrayLike | None
) -> Drawn:
    ports = [f"{member.name}_q" for member in block.members]
    parts = [
        np.ravel(start.get(port, block.q0[member.q]))
        for port, member in zip(ports, block.members, strict=True)
    ]
    q, forces = np.concatenate(parts) if q is None else q, force_parts(block)
    drawn = DrawnRobot(block.model, name, q, forces=forces)
    return drawn, [f"{name}.{port}".lstrip(".") for port in ports]


def _frames(system: System, block: Block, drawn: Tree) -> Iterator[tuple[str, tuple[int, Array]]]:
    """The frames whose motion a system computes of the model of a plant, by name."""
    for part in system.parts.values():
        frames = part.component
        if isinstance(frames, FrameKinematics) and frames.model is getattr(block, "model", None):
            for frame in frames.frames:
                body = frames.model.body_names[frame.body_of(frames.model)]
                if body in drawn.body_names:
                    yield frame.name, (drawn.body_names.index(body), frame.placement.r)


def _of_model(model: Tree, q: ArrayLike | None) -> Drawn:
    given = q is not None and np.shape(q) == (model.nq,)
    if isinstance(model, Model) and not given and _floats(model):
        return drawn_plant(FloatingBasePlant(model), {}, "", q)
    return DrawnRobot(model, q=q), ("q",)


def _floats(model: Model) -> bool:
    try:
        floating_body(model)
    except ValueError:
        return False
    return not model.loops


def _described(
    robot: RobotDescription, q: ArrayLike | None, seen: Meshes = NO_MESHES
) -> DrawnRobot:
    model, free = robot.model, robot.freedoms
    limits = None
    if model.nq == model.nv:
        limits = (free.lower, free.upper)
        if q is None:
            q = np.clip(np.zeros(model.nq), free.lower, free.upper)
    more = (*seen.solids, *of_shapes(robot.base_appearance, -1, (0.45, 0.49, 0.53)))
    frames = {name: (place.body, place.placement.r) for name, place in robot.frames.items()}
    return DrawnRobot(model, q=q, more=more, bare=seen.incomplete, limits=limits, frames=frames)


def _columns(result: Result, nq: int, ports: Sequence[str]) -> Array:
    """q over time (n, nq), of ports with these names or of the only part that has them all."""
    known = {port.name for port in result.ports}
    if not set(ports) <= known:
        prefixes = [
            name.removesuffix(ports[0])
            for name in known
            if name.endswith(f".{ports[0]}")
            and all(name.removesuffix(ports[0]) + port in known for port in ports)
        ]
        fitting = [one for one in prefixes if sum(result.port(one + p).size for p in ports) == nq]
        if len(fitting) != 1:
            raise ValueError(
                f"the robot's motion is in {', '.join(ports)} with {nq} elements, which "
                f"{len(fitting)} parts of the result have; give the system that ran. "
                f"{offer(ports[0], sorted(known))}"
            )
        ports = [fitting[0] + port for port in ports]
    columns = [
        np.asarray(result[port], dtype=float).reshape(len(result.time), -1) for port in ports
    ]
    q = np.concatenate(columns, axis=1)
    if q.shape[1] != nq:
        raise ValueError(f"{', '.join(ports)} has {q.shape[1]} elements; the robot has nq = {nq}")
    return q


def page_of(drawn: Sequence[DrawnRobot], robot: Any, more: Mapping[str, Any]) -> Page:
    """The page of robots that are drawn, of `robot` as `show` takes it, on its ground, with more
    for its script to read.
    """
    title = ", ".join(dict.fromkeys(one.model.name for one in drawn))
    seen = outlook(drawn[0].model)
    return page(title, drawn, seen, {**level_ground(robot, seen.up), **more})
