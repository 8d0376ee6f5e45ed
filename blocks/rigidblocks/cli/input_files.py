"""Input files of commands: robots, FMU scripts, systems and FMUs."""

import ast
import re
import runpy
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigidblocks.cli.app import print_warnings
from rigidblocks.common.regular_files import check_regular_file

if TYPE_CHECKING:
    from rigidblocks.block.block import Block
    from rigidblocks.fmi.ssp.system_structure import Loaded
    from rigidblocks.library.frames import Frame
    from rigidblocks.library.plant_ports import TunableInertia
    from rigidblocks.library.plants import Plant
    from rigidblocks.robot.robot_description import RobotDescription

SYSTEM = "system"  # name of the variable to which a script assigns the system
LEFT_OUT = "its springs, damping, dry friction and fluid drag are omitted"
_OSP = b"OspSystemStructure"  # name of the root element of an OSP file
_HEAD = 4096  # number of bytes at the start of an XML file that are searched for the root element


def robot_of(path: Path, floating: bool = False, key: str | None = None) -> "RobotDescription":
    """Load a robot file and print its warnings to stderr.

    The keyframe `key`, if given, defines the initial state.
    """
    from rigidblocks.robot_description.load import load_model

    robot = load_model(path, floating=floating, key=key)
    print_warnings(path, robot.warnings)
    return robot


def is_system(path: Path) -> bool:
    """Return True if a script assigns `system` at top level, without running the script."""
    if path.suffix != ".py":
        return False
    if not path.is_file():
        raise FileNotFoundError(f"script {path} does not exist")
    try:
        tree = ast.parse(path.read_text())
    except SyntaxError as error:
        raise ValueError(f"{path}:{error.lineno}: Python syntax error: {error.msg}") from None
    return any(
        isinstance(node, ast.Assign)
        and any(isinstance(one, ast.Name) and one.id == SYSTEM for one in node.targets)
        for node in tree.body
    )


def is_structure(path: Path) -> bool:
    """Return True if a path is an SSP archive or description, or a folder with a description."""
    return path.suffix in (".ssp", ".ssd") or (path / "SystemStructure.ssd").is_file()


def system_of(path: Path, sensors: bool = False) -> "Loaded":
    """Load a system and the run options from a file or folder.

    The file is a script, an SSP or OSP file, a robot file or an FMU. A folder is an unpacked SSP or
    OSP system. If `sensors` is True, the sensors of a robot file are outputs.

    Raises:
        ValueError: A script does not define a system, or `sensors` is True and the file is not a
            robot file.
    """
    from rigidblocks.cosim.graph.fmu_part import FmuError
    from rigidblocks.cosim.graph.system import System
    from rigidblocks.fmi.ssp.system_structure import Loaded

    is_osp = (path / "OspSystemStructure.xml").is_file()
    if sensors and (path.suffix in (".py", ".fmu") or is_structure(path) or is_osp):
        raise ValueError(f"{path} is not a robot file; leave out --sensors")
    if path.suffix == ".py":
        if not is_system(path):
            raise ValueError(f"{path} does not define `{SYSTEM}`; add `{SYSTEM} = System()`")
        sys.path.insert(0, str(path.parent.resolve()))
        try:
            made = runpy.run_path(str(path), run_name="rigidblocks_system")[SYSTEM]
        except ModuleNotFoundError as error:
            raise ImportError(
                f"{path}: {error}; install the missing package for {sys.executable}"
            ) from error
        except Exception as error:
            error.add_note(_place(error, path))
            raise
        if not isinstance(made, System):
            raise ValueError(f"`{SYSTEM}` in {path} must be a System, not {made!r:.60}")
        return Loaded(made, {})
    if is_structure(path):
        from rigidblocks.fmi.ssp.load import load_system

        return load_system(path)
    check_regular_file(path)
    if is_osp or (path.suffix == ".xml" and _OSP in path.read_bytes()[:_HEAD]):
        from rigidblocks.fmi.ssp.osp import load_osp

        return load_osp(path)
    system = System()
    try:
        system.add(
            make_identifier(path.stem), path if path.suffix == ".fmu" else plant_of(path, sensors)
        )
    except FmuError as error:
        raise ValueError(str(error)) from None
    return Loaded(system, {})


def _place(error: Exception, path: Path) -> str:
    """Return the location `script:line` of an error in a script."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"in {path}, line {lines[-1]}" if lines else f"in {path}"


def load_run_options(path: Path, sensors: bool = False, **options: Any) -> "Loaded":
    """Load a system and the run options of its file.

    The values in `options` take precedence over the options of the file; None has no effect.
    """
    from rigidblocks.fmi.ssp.system_structure import Loaded

    system, own_options = system_of(path, sensors)
    return Loaded(
        system,
        {**own_options, **{name: value for name, value in options.items() if value is not None}},
    )


def plant_of(path: Path, sensors: bool = False) -> "Plant":
    """Load a robot file and return the plant; `sensors` adds the sensors of the file as outputs."""
    from rigidblocks.library.plant_from_file import described_plant, has_joint_friction

    robot = robot_of(path)
    if has_joint_friction(robot):
        print_warnings(
            path, [f"{LEFT_OUT}; `rigidblocks fmu --joint-friction` includes them in an FMU"]
        )
    plant = described_plant(robot, sensors=sensors)
    print_warnings(path, getattr(plant, "renamed_sensors", ()))
    return plant


TUNABLE = {"payload", "inertia", "friction", "gravity"}  # names of parameter groups


def inertias_of(
    robot: "RobotDescription", groups: set[str], frames: Sequence[str] | None
) -> "TunableInertia | None":
    """Return the tunable inertias of a robot, or None if no inertia is tunable.

    If `groups` contains "inertia", the inertias of the links are tunable. If `groups` contains
    "payload", the inertia of the payload is tunable. The payload is at the first frame in `frames`,
    or by default at the frame of the last link.
    """
    if not groups & {"payload", "inertia"}:
        return None
    from rigidblocks.library.plant_ports import TunableInertia

    moving = [name for name, place in robot.frames.items() if place.body >= 0]
    payload = _frames(robot, [*(frames or ()), moving[-1]])[0] if "payload" in groups else None
    return TunableInertia("inertia" in groups, payload)


_OF_INERTIA = {"payload": "payload_", "inertia": "link_mass"}


def parameters_of(plant: Any, tunable: Sequence[str] | None) -> list[str] | None:
    """Return the names of tunable parameters; expand group names, such as friction."""
    if tunable is None:
        return None
    there, names = [port.name for port in plant.parameters], list[str]()
    others = ("_stop", "_weight")
    elements = {e.name for e in plant.force_elements.forces if not e.name.endswith(others)}
    for word in tunable:
        if word == "friction":
            names += [name for name in there if name.rpartition("_")[0] in elements]
        elif word in _OF_INERTIA:
            names += [name for name in there if name.startswith(_OF_INERTIA[word])]
        else:
            names.append(word)
    return list(dict.fromkeys(names))


def check_tunable(plant: Any, names: Sequence[str] | None) -> None:
    """Raise ValueError for a name that is neither a parameter of the plant nor in TUNABLE."""
    known = [port.name for port in plant.parameters]
    for name in names or ():
        if name not in known:
            from rigidblocks.common.xml_reader import nearest

            word = name.removeprefix("robot.")
            raise ValueError(
                f"unknown parameter '{word}' of --tunable"
                f"{nearest(word, [*sorted(TUNABLE), *known])}; expected "
                f"{', '.join(sorted(TUNABLE))} or a parameter: {', '.join(known)}"
            )


def stops_of(text: str | None) -> tuple[float, float] | None:
    """Return the stiffness and the damping of joint stops from a string such as "1e4,50"."""
    if text is None:
        return None
    try:
        K, D = (float(part) for part in text.split(","))
    except ValueError:
        K = D = float("nan")
    if not (0.0 < K < float("inf") and 0.0 <= D < float("inf")):
        raise ValueError(f"--stops needs a stiffness and a damping, such as 1e4,50, not '{text}'")
    return K, D


def make_identifier(name: str) -> str:
    """Return an identifier: `name` with `_` instead of each invalid character."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return text if re.match("[A-Za-z_]", text) else f"_{text}"


def wire_robot(
    robot: "RobotDescription",
    plant: Any,
    frames: Sequence[str],
    controller: str | None,
    forces: Sequence[str] = (),
) -> "Block":
    """Return a plant with frame poses, external wrenches and a controller as one continuous block.

    The poses of `frames` are outputs. Wrenches at the frames `forces` are inputs. The controller is
    a PD controller or the actuators of the file, which are drives of the plant. The parts of the
    block have the names `robot`, `frames`, `forces` and `pd`.

    Raises:
        ValueError: A frame is unknown, or a PD controller is requested for joints with several
            degrees of freedom.
    """
    from rigidblocks.cosim.graph.block_merging import ContinuousSystem
    from rigidblocks.cosim.graph.system import System
    from rigidblocks.library.described_sensors import SensedPlant
    from rigidblocks.library.frames import FrameKinematics, FrameWrenches
    from rigidblocks.library.plant_from_file import (
        described_controller,
        described_drives,
        described_scales,
        make_names_unique,
    )
    from rigidblocks.library.plants import FloatingBasePlant, RobotPlant

    if plant.sample_time is not None:
        raise ValueError(
            f"sensors of '{robot.model.name}' have noise or an update rate, which --sensors does "
            "not support together with --frames, --forces or --controller"
        )
    missing = {"q", "qd"} - {port.name for port in plant.outputs}
    framed = frames or forces
    inner: Any = plant.plant if isinstance(plant, SensedPlant) else plant
    if missing or (framed and isinstance(inner, FloatingBasePlant)):  # frames need q of all joints
        scales = described_scales(robot)
        qd0 = 0.0 if robot.qd0 is None else robot.qd0
        inner = RobotPlant(robot.model, robot.q0, qd0, elements=inner.elements, nominal=scales)  # type: ignore[arg-type]
        plant = replace(plant, plant=inner) if isinstance(plant, SensedPlant) else inner
    if controller == "actuators":
        every = make_names_unique((*inner.elements, *described_drives(robot)))
        driven = replace(inner, elements=every)
        plant = replace(plant, plant=driven) if isinstance(plant, SensedPlant) else driven
    system = System()
    system.add("robot", plant.add_wrench_input() if forces else plant)
    if forces:
        system.add("forces", FrameWrenches(robot.model, _frames(robot, forces)))  # type: ignore[arg-type]
        system.connect("robot.q", "forces.q")
        system.connect("forces.f_ext", "robot.f_ext")
        system.expose(hide="forces.f_ext")  # internal signal with six values for each body
    if frames:
        system.add("frames", FrameKinematics(robot.model, _frames(robot, frames)))  # type: ignore[arg-type]
        system.connect("robot.q", "frames.q")
        system.connect("robot.qd", "frames.qd")
    if controller == "pd":
        system.add("pd", described_controller(robot), start={"q_ref": plant.q0})
        system.connect("robot.q", "pd.q")
        system.connect("robot.qd", "pd.qd")
        system.connect("pd.tau", "robot.tau")
    return ContinuousSystem(system)


def _frames(robot: "RobotDescription", names: Sequence[str]) -> tuple["Frame", ...]:
    from rigidblocks.common.xml_reader import nearest
    from rigidblocks.library.frames import Frame

    frames = []
    for name in names:
        if name not in robot.frames:
            moving = ", ".join(known for known, (body, _) in robot.frames.items() if body >= 0)
            raise ValueError(
                f"unknown frame '{name}'{nearest(name, list(robot.frames))}; "
                f"frames on moving bodies: {moving or 'none'}"
            )
        body, placement = robot.frames[name]
        if body < 0:
            raise ValueError(
                f"frame '{name}' is fixed to the base; choose a frame on a moving body"
            )
        frames.append(Frame(make_identifier(name), body, placement))
    return tuple(frames)
