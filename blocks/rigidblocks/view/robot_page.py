"""Web pages of robots with joint sliders, page data of runs, and the template of all pages.

A page is a single HTML file that contains all scripts and data.
"""

from __future__ import annotations

import json
import warnings
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from string import Template
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.block import Block, Record
from rigidblocks.block.port import TEXTUAL
from rigidblocks.block.units import unit_text
from rigidblocks.common.escaping import html_text
from rigidblocks.common.format_error import FormatError
from rigidblocks.common.name_hints import explain_calls, suggestion
from rigidblocks.common.xml_reader import parse_xml
from rigidblocks.contact.compliant_contact import CompliantPlant
from rigidblocks.contact.rigid_contact_plant import RigidContactPlant
from rigidblocks.contact.world_plant import PlantOfMembers
from rigidblocks.cosim.graph.fmu_part import Fmu
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.results.result import Result, curves_of, names_of
from rigidblocks.dynamics.floating_base import floating_body
from rigidblocks.library.frames import FrameKinematics
from rigidblocks.library.plants import FloatingBasePlant, Plant
from rigidblocks.robot.joints import Fixed
from rigidblocks.robot.model import Model
from rigidblocks.robot.robot_description import RobotDescription
from rigidblocks.robot.robots import Mechanism
from rigidblocks.robot.tree import Tree
from rigidblocks.robot_description.load import load_model, read_file
from rigidblocks.robot_description.model_from_links import describe_robot
from rigidblocks.robot_description.urdf import read_urdf
from rigidblocks.spatial.spatial import Array, mcI
from rigidblocks.view.drawn_robot import (
    CameraSetup,
    DrawnRobot,
    camera_setup,
    encode_base64,
    force_outputs,
    span,
)
from rigidblocks.view.visual_geometry import (
    NO_MESHES,
    Meshes,
    ground_solids,
    level_ground,
    meshes,
    shape_solids,
)

SCRIPTS = (
    "vectors",
    "solids",
    "scene",
    "overlays",
    "closure",
    "plots",
    "sliders",
    "kernel",
    "pull",
    "simulation",
    "player",
    "main",
)
LIVE = ("live", *SCRIPTS)  # scripts of a live page; only this page sends requests


@dataclass(frozen=True, eq=False)
class Page:
    """Web page in a single file; `html` is the HTML text."""

    title: str
    html: str

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, and return its path."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html, encoding="utf-8")
        return path

    def open(self) -> Path:
        """Write the page to a new temporary file, open it in the browser, and return its path."""
        path = self.save(Path(mkdtemp(prefix="rigidblocks-"), "page.html"))
        webbrowser.open(path.as_uri())
        return path

    def __repr__(self) -> str:
        return f"<Page '{self.title}', {len(self.html) / 1e3:.0f} kB>"

    def _repr_html_(self) -> str:
        """Return an iframe with the page for notebooks."""
        style = "width: 100%; height: 640px; border: 1px solid #d5dde3"
        return f'<iframe style="{style}" srcdoc="{html_text(self.html)}"></iframe>'


def page(
    title: str,
    robots: Sequence[DrawnRobot],
    camera_setup: CameraSetup,
    page_data: Mapping[str, Any] | None = None,
) -> Page:
    """Return a page that draws robots; `page_data` contains additional data for the page script."""
    data = {
        "robots": [robot.page_data(k) for k, robot in enumerate(robots)],
        "up": camera_setup.up,
        "eye": camera_setup.eye,
        "turn": camera_setup.any_side,
        **(page_data or {}),
    }
    functions = "".join(robot.functions(k) for k, robot in enumerate(robots))
    parts = {
        "title": html_text(title),
        "style": page_file("page.css"),
        "data": json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
        "functions": f"const functions = {{\n{functions}}};",
        "script": "\n".join(
            page_file(f"{name}.js") for name in (LIVE if "live" in data else SCRIPTS)
        ),
    }
    return Page(title, Template(page_file("page.html")).substitute(parts))


def page_file(name: str) -> str:
    """Return the text of the JavaScript, CSS or HTML file `name` in the folder `page`."""
    return files("rigidblocks").joinpath("view", "page", name).read_text(encoding="utf-8")


# inertia for links without inertia [kg, kg m^2], too small to be drawn
SPECK = mcI(1e-12, np.zeros(3), 1e-24 * np.eye(3))


class RobotFile(NamedTuple):
    """Robot description with the path of its file, to which mesh paths are relative.

    `packages` are folders that are searched for meshes.
    """

    robot: RobotDescription
    path: Path
    packages: tuple[str | Path, ...] = ()


def robot_file(
    path: Path,
    floating: bool = False,
    packages: tuple[str | Path, ...] = (),
    key: str | None = None,
) -> RobotFile:
    """Load a robot file for drawing.

    A URDF robot without joints, or with joints that move no mass, cannot be simulated but can be
    drawn. The function loads such a robot for drawing and warns. If `floating` is True, the root
    link gets a floating base. `packages` are folders that are searched for meshes, and `key` is the
    name of the keyframe that sets the configuration.

    Raises:
        FormatError: The file is invalid, or the robot can be neither simulated nor drawn.
    """
    try:
        return RobotFile(load_model(path, floating=floating, key=key), path, packages)
    except FormatError as error:
        robot = _load_for_drawing(path, floating)
        if robot is None:
            raise
        warnings.warn(f"the robot can be shown but not simulated: {error}", stacklevel=3)
        return RobotFile(robot, path, packages)


def _load_for_drawing(path: Path, floating: bool) -> RobotDescription | None:
    """Load a URDF robot for drawing only, and replace missing masses with a small mass.

    The robot gets a floating base if `floating` is True or if it has no movable joint. The result
    is None if loading fails.
    """
    try:
        root = parse_xml(read_file(path), path)
        if root.tag != "robot":
            return None
        listed = read_urdf(root, path, floating=floating, strict=False)
        links = [one if one.inertia.m > 0 else one._replace(inertia=SPECK) for one in listed.links]
        floats = floating or all(isinstance(one.joint, Fixed) for one in listed.connections)
        return describe_robot(listed._replace(links=links, floating=floats))
    except FormatError:
        return None


FRAMES, MOST = 60.0, 400_000  # maximum frame rate [1/s]; maximum size of all frames [bytes]
POINTS, FEWEST, NUMBERS = (
    1200,
    50,
    50_000,
)  # points: maximum and minimum of a curve, maximum of all curves
FAR = 1e12  # largest position that is drawn [rad, m]
PLANTS = (*(Plant, CompliantPlant, RigidContactPlant, PlantOfMembers),)


Drawn = tuple[DrawnRobot, Sequence[str]]  # robot, and the names of the ports that contain q
Drawable = Tree | Mechanism | RobotDescription | RobotFile | Block | System | str | Path


@explain_calls()
def show(robot: Drawable, q: ArrayLike | None = None, path: str | Path | None = None) -> Page:
    """Return a web page that shows a robot with a slider for each joint.

    Kinematic loops remain closed when a slider moves. Notebooks display the page, and its method
    `open` opens the page in a browser.

    Args:
        robot: Model, mechanism, plant, system with plants, robot description, or path of a file.
        q: Configuration (nq,), by default the initial configuration.
        path: Path to save the page, if given.

    Raises:
        TypeError: The robot has an unsupported type.
    """
    drawn = [robot for robot, _ in drawn_robots(robot, q)]
    made = page_of(drawn, robot, {})
    if path is not None:
        made.save(path)
    return made


def drawn_robots(robot: Drawable, q: ArrayLike | None) -> Iterator[Drawn]:
    """Yield pairs (drawn robot, names of the ports that contain q).

    For a system, the names have the form `part.port`.
    """
    match robot:
        case str() | Path():
            yield from drawn_robots(robot_file(Path(robot)), q)
        case RobotFile():
            yield _draw_description(robot.robot, q, meshes(*robot)), ("q",)
        case System():
            yield from _draw_system(robot)
        case RobotDescription():
            yield _draw_description(robot, q), ("q",)
        case Mechanism():
            yield DrawnRobot(robot.model, q=robot.q0 if q is None else q), ("q",)
        case Tree():
            yield _draw_model(robot, q)
        case Plant() | CompliantPlant() | RigidContactPlant() | PlantOfMembers():
            one, ports = drawn_plant(robot, {}, "", q)
            yield _add_ground(one, robot), ports
        case _:
            raise TypeError(
                f"a robot to draw must be a model, mechanism, plant, system or file, not {robot!r}"
            )


def running_robots(system: System) -> list[Drawn]:
    """Return the robots of a system for a live page.

    A live page receives only q during a run, so no model may depend on time.

    Raises:
        ValueError: A model depends on time.
    """
    pairs = list(drawn_robots(system, None))
    for one, _ in pairs:
        if one.model.rheonomic:
            raise ValueError(
                f"a live page does not support '{one.name or one.model.name}', which depends on "
                "time; simulate the system and animate the result"
            )
    return pairs


def plant_of(block: Any) -> Plant | None:
    """Return `block` itself if it is a plant, the plant inside a `CompliantPlant`, or None."""
    if isinstance(block, CompliantPlant):
        return block.robot
    return block if isinstance(block, Plant) else None


def configuration_ports(plant: Plant) -> tuple[str, ...]:
    """Return the names of a plant's state ports that form the configuration q."""
    found, n = dict[int, str](), 0
    values: dict[str, Array] = {}
    for port in plant.states:
        values[port.name] = np.arange(n, n + port.size, dtype=float)
        found |= dict.fromkeys(range(n, n + port.size), port.name)
        n += port.size
    q, _ = plant.configuration(Record(values))
    return tuple(dict.fromkeys(found[int(k)] for k in q))


def motion_of(result: Result, pairs: Sequence[Drawn]) -> Array:
    """Return the page variables of the robots in `pairs` at all samples (`DrawnRobot.variables`).

    The variables of a robot are its q, followed by the time if its model is time-dependent.
    """
    columns = list[Array]()
    for one, ports in pairs:
        columns.append(_configurations(result, one.model.nq, ports))
        if one.model.rheonomic:
            columns.append(np.asarray(result.time, dtype=float)[:, None])
    return np.concatenate(columns, axis=1)


def run_json(
    result: Result, q: Array, forces: Sequence[Array | None] = (), signals: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the data of a run for the page script: motion, forces and signals.

    `q` contains the page variables of all robots at each sample (`motion_of`), and `forces` the
    contact forces on each robot (`forces_on`). Both are resampled at the frame rate of the
    playback. `signals` are the names of the plotted signals, by default all numeric signals.
    """
    time, end = np.asarray(result.time, dtype=float), _end_of_motion(q)
    wide = q.shape[1] + sum(one.shape[1] for one in forces if one is not None)
    most = max(MOST // (8 + 4 * wide), 2)
    n = round(float(time[end - 1] - time[0]) * FRAMES) + 1
    frames = np.linspace(time[0], time[end - 1], int(np.clip(n, 2, most)))
    names = signals or _numeric_signals(result)
    rows = plot_rows(result, names)

    def encode_frames(values: Array) -> str:
        return encode_base64(
            np.column_stack([np.interp(frames, time[:end], column[:end]) for column in values.T])
        )

    return {
        "time": encode_base64(frames, "<f8"),
        "q": encode_frames(q),
        "forces": [None if one is None else encode_frames(one) for one in forces],
        "plotTime": encode_base64(time[rows], "<f8"),
        "events": [float(event.t) for event in result.events][:200],
        "signals": [signal_of(result, name, rows) for name in names],
    }


def _end_of_motion(q: Array) -> int:
    """Return the number of samples before the motion becomes infinite, NaN or larger than `FAR`.

    The page plays back only these samples of a failed run.
    """
    lost = ~(np.abs(q) < FAR).all(axis=1)
    end = int(np.argmax(lost)) if lost.any() else len(q)
    if not end:
        raise ValueError(
            f"the first configuration of the robot's motion must be finite, but is {q[0].tolist()}"
        )
    return end


def plot_rows(result: Result, names: Sequence[str], runs: int = 1) -> Array:
    """Return the indices of the samples to plot.

    The number of samples decreases with the number of signal elements and runs.
    """
    curves = sum(np.size(result[name][0]) for name in names) * runs
    points = int(np.clip(NUMBERS // max(curves, 1), FEWEST, POINTS))
    return np.unique(np.linspace(0, len(result.time) - 1, points).astype(int))


def signal_of(result: Result, name: str, rows: Array) -> dict[str, Any]:
    """Return the data of a signal at the samples `rows` for the page script.

    Raises:
        ValueError: The signal has string values.
    """
    values = curves_of(result, name)[rows]
    units = result.unit(name)
    unit = units if isinstance(units, str) else unit_text(units)
    ends = [one[len(name) :] or name.rpartition(".")[2] for one in names_of(result, name)]
    columns = [encode_base64(np.clip(np.nan_to_num(column), -1e30, 1e30)) for column in values.T]
    return {"name": name, "unit": unit, "elements": ends, "columns": columns}


def _numeric_signals(result: Result) -> list[str]:
    """Return the names of the signals with numeric values, sorted by `sort_signals`."""
    names = [port.name for port in result.ports if port.type not in TEXTUAL]
    return sort_signals(names)


def sort_signals(names: Sequence[str]) -> list[str]:
    """Sort signal names: positions, joint torques, energies and velocities first."""
    wanted = ("q", "tau", "energy", "qd")
    last = [name.rpartition(".")[2] for name in names]
    order = [wanted.index(one) if one in wanted else len(wanted) for one in last]
    return [names[k] for k in np.argsort(order, kind="stable")]


def _draw_system(system: System) -> Iterator[Drawn]:
    robots = 0
    for name, part in system.parts.items():
        if isinstance(part.component, PLANTS):
            robots += 1
            one, ports = drawn_plant(part.component, part.start, name, None)
            forces = force_outputs(part.component, name, system)
            frames = dict(_frames(system, part.component, one.model))
            one = replace(one, forces=forces, frames=frames)
            yield (_add_ground(one, system) if robots == 1 else one), ports
    if not robots:
        fmus = any(isinstance(part.component, Fmu) for part in system.parts.values())
        names = ", ".join(system.parts) or "none"
        raise ValueError(
            f"the system has no robot to draw; its parts are: {names}"
            + "; an FMU has no geometry: give the robot's file or model" * fmus
        )


def _add_ground(drawn: DrawnRobot, robot: Block | System) -> DrawnRobot:
    """Add the ground surfaces of a block or system, except horizontal planes, to a drawn robot."""
    solids = ground_solids(robot, camera_setup(drawn.model).up, span(drawn))
    return replace(drawn, more=(*drawn.more, *(replace(solid, aside=True) for solid in solids)))


def drawn_plant(
    block: Block, start: Mapping[str, Any], name: str = "", q: ArrayLike | None = None
) -> Drawn:
    """Return the drawn robot of a plant, and the names of the ports that contain q.

    `name` is the name of the plant in the system. The configuration is `q` (nq,), or by default the
    `start` values of the states.
    """
    if isinstance(block, RigidContactPlant):
        q = start.get("q", block.q0) if q is None else q
        return DrawnRobot(block.model, name, q, forces=force_outputs(block)), (
            f"{name}.q".lstrip("."),
        )
    if isinstance(block, PlantOfMembers):
        return _draw_world(block, start, name, q)
    plant = plant_of(block)
    assert plant is not None
    states = {port.name: np.asarray(start.get(port.name, port.start)) for port in plant.states}
    of_start, _ = plant.configuration(Record(states))
    ports = configuration_ports(plant)
    names = tuple(f"{name}.{port}" for port in ports) if name else ports
    q = of_start if q is None else q
    return DrawnRobot(plant.configuration_model, name, q, forces=force_outputs(block)), names


def _draw_world(
    block: PlantOfMembers, start: Mapping[str, Any], name: str, q: ArrayLike | None
) -> Drawn:
    ports = [f"{member.name}_q" for member in block.members]
    parts = [
        np.ravel(start.get(port, block.q0[member.q]))
        for port, member in zip(ports, block.members, strict=True)
    ]
    q, forces = np.concatenate(parts) if q is None else q, force_outputs(block)
    drawn = DrawnRobot(block.model, name, q, forces=forces)
    return drawn, [f"{name}.{port}".lstrip(".") for port in ports]


def _frames(system: System, block: Block, drawn: Tree) -> Iterator[tuple[str, tuple[int, Array]]]:
    """Yield pairs (name, (body index, position (3,) [m] on the body)) of the frames of a plant."""
    for part in system.parts.values():
        frames = part.component
        if isinstance(frames, FrameKinematics) and frames.model is getattr(block, "model", None):
            for frame in frames.frames:
                body = frames.model.body_names[frame.body_of(frames.model)]
                if body in drawn.body_names:
                    yield frame.name, (drawn.body_names.index(body), frame.placement.r)


def _draw_model(model: Tree, q: ArrayLike | None) -> Drawn:
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


def _draw_description(
    robot: RobotDescription, q: ArrayLike | None, seen: Meshes = NO_MESHES
) -> DrawnRobot:
    model, free = robot.model, robot.joint_properties
    q = robot.q0 if q is None else q
    limits = None
    if model.nq == model.nv:
        limits = (free.lower, free.upper)
        if q is None:
            q = np.clip(np.zeros(model.nq), free.lower, free.upper)
    more = (*seen.solids, *shape_solids(robot.base_appearance, -1, (0.45, 0.49, 0.53)))
    frames = {name: (place.body, place.placement.r) for name, place in robot.frames.items()}
    return DrawnRobot(model, q=q, more=more, bare=seen.incomplete, limits=limits, frames=frames)


def _configurations(result: Result, nq: int, ports: Sequence[str]) -> Array:
    """Return the configurations q (n, nq) of a robot at all n samples.

    `ports` are the names of the ports that contain q. If the result lacks a signal of these names,
    the function uses the part that has ports of these names with nq elements in all. Exactly one
    part must have them.
    """
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
                f"exactly one part of the result must have the ports {', '.join(ports)} with "
                f"{nq} elements in all, but {len(fitting)} parts have them; pass the system of "
                f"the run. {suggestion(ports[0], sorted(known))}"
            )
        ports = [fitting[0] + port for port in ports]
    columns = [
        np.asarray(result[port], dtype=float).reshape(len(result.time), -1) for port in ports
    ]
    q = np.concatenate(columns, axis=1)
    if q.shape[1] != nq:
        raise ValueError(
            f"{', '.join(ports)} has {q.shape[1]} elements, but the robot needs nq = {nq}"
        )
    return q


def page_of(drawn: Sequence[DrawnRobot], robot: Any, page_data: Mapping[str, Any]) -> Page:
    """Return the page that shows drawn robots and the ground.

    `robot` is the argument of `show`. `page_data` contains additional data for the page script.
    """
    title = ", ".join(dict.fromkeys(one.model.name for one in drawn))
    seen = camera_setup(drawn[0].model)
    return page(title, drawn, seen, {**level_ground(robot, seen.up), **page_data})
