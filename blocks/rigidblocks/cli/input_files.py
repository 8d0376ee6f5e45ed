"""What is in a file that a command is given: a robot, the script of an FMU, a system, or an FMU."""

import ast
import re
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigidblocks.cli.application import warn

if TYPE_CHECKING:
    from rigidblocks.block.block import Block
    from rigidblocks.formats.description import RobotDescription
    from rigidblocks.library.inertias import TunableInertia
    from rigidblocks.library.kinematics import Frame
    from rigidblocks.library.plant import Plant
    from rigidblocks.ssp.structure import Loaded

SYSTEM = "system"  # what a script that makes a system calls it
LEFT_OUT = "its springs, damping and dry friction are left out"
_HEAD = 4096  # bytes, in which the name of the root of an XML file is


def robot_of(path: Path, floating: bool = False) -> "RobotDescription":
    """The robot in the file, with its warnings on stderr."""
    from rigidblocks.formats.load import load_model

    robot = load_model(path, floating=floating)
    warn(path, robot.warnings)
    return robot


def is_system(path: Path) -> bool:
    """Whether a file is a Python program that makes a system, on top level; it does not run."""
    if path.suffix != ".py":
        return False
    if not path.is_file():
        raise FileNotFoundError(f"there is no script {path}")
    try:
        tree = ast.parse(path.read_text())
    except SyntaxError as error:
        raise ValueError(f"{path}:{error.lineno}: this is no Python: {error.msg}") from None
    return any(
        isinstance(node, ast.Assign)
        and any(isinstance(one, ast.Name) and one.id == SYSTEM for one in node.targets)
        for node in tree.body
    )


def system_of(path: Path) -> "Loaded":
    """The system that a program makes, or that is in a file of SSP with the run that it proposes,
    or that of one robot or FMU under its plain name.

    Raises ValueError for a program that makes none.
    """
    from rigidblocks.ssp.structure import Loaded
    from rigidblocks.system.fmu import FmuError
    from rigidblocks.system.system import System

    if path.suffix == ".py":
        if not is_system(path):
            raise ValueError(f"{path} makes no {SYSTEM}; it needs `{SYSTEM} = System()`")
        sys.path.insert(0, str(path.parent.resolve()))
        try:
            made = runpy.run_path(str(path), run_name="rigidblocks_system")[SYSTEM]
        except ModuleNotFoundError as error:
            raise ImportError(f"{path}: {error}; install it for {sys.executable}") from error
        except Exception as error:
            error.add_note(_place(error, path))
            raise
        if not isinstance(made, System):
            raise ValueError(f"{SYSTEM} in {path} is no System, but {made!r:.60}")
        return Loaded(made, {})
    if path.suffix == ".ssp":
        from rigidblocks.ssp.load import load_system

        return load_system(path)
    if path.suffix == ".xml" and b"<OspSystemStructure" in path.read_bytes()[:_HEAD]:
        from rigidblocks.ssp.osp import load_osp

        return load_osp(path)
    system = System()
    try:
        system.add(plain(path.stem), path if path.suffix == ".fmu" else plant_of(path))
    except FmuError as error:
        raise ValueError(str(error)) from None
    return Loaded(system, {})


def _place(error: Exception, path: Path) -> str:
    """Where in a script an error came up."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"in {path}, line {lines[-1]}" if lines else f"in {path}"


def asked_of(path: Path, **asked: Any) -> "Loaded":
    """The system in a file, and the run that it proposes with what is asked for in its place."""
    from rigidblocks.ssp.structure import Loaded

    system, told = system_of(path)
    return Loaded(
        system, {**told, **{name: value for name, value in asked.items() if value is not None}}
    )


def plant_of(path: Path) -> "Plant":
    """The plant of the robot in a file."""
    from rigidblocks.library.described import described_plant, resists

    robot = robot_of(path)
    if resists(robot):
        warn(path, [f"{LEFT_OUT}; the FMU that `rigidblocks fmu --resistance` makes has them"])
    return described_plant(robot)


TUNABLE = {"payload", "inertia", "friction", "gravity"}  # what stands for several parameters


def inertias_of(
    robot: "RobotDescription", groups: set[str], frames: Sequence[str] | None
) -> "TunableInertia | None":
    """What is to be tuned of a robot's inertias: of its links, of a payload in the first of the
    frames, or without any in that of its last link.
    """
    if not groups & {"payload", "inertia"}:
        return None
    from rigidblocks.library.inertias import TunableInertia

    moving = [name for name, place in robot.frames.items() if place.body >= 0]
    payload = _frames(robot, [*(frames or ()), moving[-1]])[0] if "payload" in groups else None
    return TunableInertia("inertia" in groups, payload)


_OF_INERTIA = {"payload": "payload_", "inertia": "link_mass"}


def parameters_of(plant: Any, tunable: Sequence[str] | None) -> list[str] | None:
    """The names of parameters, with those that a word in TUNABLE stands for in its place."""
    if tunable is None:
        return None
    there, names = [port.name for port in plant.parameters], list[str]()
    elements = {e.name for e in plant.force_elements.forces if not e.name.endswith("_stop")}
    for word in tunable:
        if word == "friction":
            names += [name for name in there if name.rpartition("_")[0] in elements]
        elif word in _OF_INERTIA:
            names += [name for name in there if name.startswith(_OF_INERTIA[word])]
        else:
            names.append(word)
    return list(dict.fromkeys(names))


def check_tunable(plant: Any, names: Sequence[str] | None) -> None:
    """Raises ValueError for a name that is no parameter of the plant and no word in TUNABLE."""
    known = [port.name for port in plant.parameters]
    for name in names or ():
        if name not in known:
            from rigidblocks.formats.document import nearest

            word = name.removeprefix("robot.")
            raise ValueError(
                f"--tunable knows no '{word}'{nearest(word, [*sorted(TUNABLE), *known])}; it takes "
                f"{', '.join(sorted(TUNABLE))} and the parameters {', '.join(known)}"
            )


def stops_of(text: str | None) -> tuple[float, float] | None:
    """The stiffness and the damping of stops in "1e4,50"; raises ValueError for what is neither."""
    if text is None:
        return None
    try:
        K, D = (float(part) for part in text.split(","))
    except ValueError:
        K = D = float("nan")
    if not (0.0 < K < float("inf") and 0.0 <= D < float("inf")):
        raise ValueError(f"--stops needs a stiffness and a damping, such as 1e4,50, not '{text}'")
    return K, D


def plain(name: str) -> str:
    """The name with all that an identifier cannot have as _."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return text if re.match("[A-Za-z_]", text) else f"_{text}"


def wired_robot(
    robot: "RobotDescription",
    plant: Any,
    frames: Sequence[str],
    controller: str | None,
    forces: Sequence[str] = (),
) -> "Block":
    """The plant with the poses of frames as outputs, wrenches at the frames `forces` as inputs, and
    with a PD controller or the actuators of the file inside: one continuous block whose parts are
    `robot`, `frames`, `forces`, and `pd` or `actuators`.

    Raises ValueError for a frame that the file does not have, and for a controller of joints with
    several freedoms.
    """
    from rigidblocks.library.described import described_motors, described_scales
    from rigidblocks.library.floating_plant import FloatingBasePlant
    from rigidblocks.library.kinematics import FrameKinematics
    from rigidblocks.library.plant import RobotPlant
    from rigidblocks.library.wrenches import FrameWrenches
    from rigidblocks.system.continuous import ContinuousSystem
    from rigidblocks.system.system import System

    alone = {"q", "qd"} - {port.name for port in plant.outputs}
    framed = frames or forces
    if alone or (framed and isinstance(plant, FloatingBasePlant)):  # frames go by q of all joints
        scales = described_scales(robot)
        plant = RobotPlant(robot.model, elements=plant.elements, nominal=scales)  # type: ignore[arg-type]
    system = System()
    system.add("robot", plant.with_wrenches() if forces else plant)
    if forces:
        system.add("forces", FrameWrenches(robot.model, _frames(robot, forces)))  # type: ignore[arg-type]
        system.connect("robot.q", "forces.q")
        system.connect("forces.f_ext", "robot.f_ext")
        system.expose(hide="forces.f_ext")  # six numbers a body, which nobody has asked for
    if frames:
        system.add("frames", FrameKinematics(robot.model, _frames(robot, frames)))  # type: ignore[arg-type]
        system.connect("robot.q", "frames.q")
        system.connect("robot.qd", "frames.qd")
    if controller == "pd":
        system.add("pd", _controller(robot), start={"q_ref": plant.q0})
    elif controller:
        system.add(controller, described_motors(robot, plant))
    if controller:
        system.connect("robot.q", f"{controller}.q")
        system.connect("robot.qd", f"{controller}.qd")
        system.connect(f"{controller}.tau", "robot.tau")
    return ContinuousSystem(system)


def _frames(robot: "RobotDescription", names: Sequence[str]) -> tuple["Frame", ...]:
    from rigidblocks.formats.document import nearest
    from rigidblocks.library.kinematics import Frame

    frames = []
    for name in names:
        if name not in robot.frames:
            raise ValueError(f"there is no frame '{name}'{nearest(name, list(robot.frames))}")
        body, placement = robot.frames[name]
        if body < 0:
            raise ValueError(f"frame '{name}' is fixed to the base and does not move")
        frames.append(Frame(plain(name), body, placement))
    return tuple(frames)


BANDWIDTH = 10.0  # of the controller's loops [rad/s], with the inertia at the start


def _controller(robot: "RobotDescription") -> Any:
    """A critically damped PD controller: kp = w^2 diag H, kd = 2 w diag H, and the references
    start at the configuration of the start.
    """
    import numpy as np

    from rigidblocks.dynamics import crba
    from rigidblocks.joint import Prismatic
    from rigidblocks.library.controllers import PDController
    from rigidblocks.model.configuration import neutral

    model = robot.model
    if model.nq != model.nv or any(joint.nv != 1 for joint in model.joint):
        raise ValueError("a PD controller needs joints of one freedom, and a base that is fixed")
    inertia = np.diag(crba(model, neutral(model))) + robot.freedoms.armature
    slides = tuple(isinstance(joint, Prismatic) for joint in model.joint)
    return PDController(BANDWIDTH**2 * inertia, 2 * BANDWIDTH * inertia, prismatic=slides)
