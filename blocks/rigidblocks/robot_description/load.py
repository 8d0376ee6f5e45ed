"""Robot loading: robot files, bundled robots, and referenced files such as meshes."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

import numpy as np

from rigidblocks.common.format_error import FormatError, file_error
from rigidblocks.common.name_hints import explain_calls
from rigidblocks.common.regular_files import irregular_kind
from rigidblocks.common.xml_reader import Element, parse_xml
from rigidblocks.robot.robot_description import RobotDescription
from rigidblocks.robot_description.external_parsers import expanded_xacro
from rigidblocks.robot_description.json_file import read_json
from rigidblocks.robot_description.mjcf import read_mjcf
from rigidblocks.robot_description.model_from_links import describe_robot, describe_robot_with_loops
from rigidblocks.robot_description.sdf import read_sdf
from rigidblocks.robot_description.urdf import read_urdf

LARGEST = 32 * 2**20  # bytes
_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0)  # only Windows has O_BINARY
_FLAGS |= getattr(os, "O_NONBLOCK", 0)  # opening a FIFO does not wait


@explain_calls()
def load_model(
    path: str | Path,
    *,
    floating: bool = False,
    inertia: Literal["warn", "strict"] = "warn",
    key: str | None = None,
) -> RobotDescription:
    """Load a robot from a file and return its description with the model.

    The supported formats are URDF, SDF with one model, and the JSON format of `save_model`. MJCF
    requires the package mujoco, and xacro the package xacro. Links that are fixed to each other
    become one body of the model, and every link becomes a named frame. The frame of a body is the
    frame of its joint. SDF joints that close loops become loop joints, and SDF gearboxes become
    couplings. Mesh files are opened only for MJCF, by MuJoCo.

    Args:
        path: The path of the file.
        floating: True to connect the base link to the fixed base by root_joint, a joint with six
            degrees of freedom. False to fix the base link to the fixed base.
        inertia: With "warn", a physically impossible inertia, as in some published models, is used
            unchanged and reported in `warnings`. With "strict", it is rejected.
        key: The name of the keyframe that defines the initial state. By default, the initial
            configuration of the file applies (`q0`).

    Raises:
        FormatError: The file cannot be read, is larger than 32 MB, does not contain a complete
            robot, or does not contain the keyframe. A joint moves no inertia. The message is one
            line with the position in the file.
        ValueError: `inertia` has an invalid value, or `floating` is given although the file defines
            whether the base floats.
    """
    if inertia not in ("warn", "strict"):
        raise ValueError(f"inertia must be 'warn' or 'strict', not '{inertia}'")
    path = path if isinstance(path, Path) else Path(path)
    with np.errstate(all="ignore"):  # later checks report an overflow
        robot = _read(path, floating=floating, strict=inertia == "strict")
    if key is None:
        return robot
    try:
        return robot.select_keyframe(key)
    except ValueError as error:
        raise file_error(path, None, str(error)) from None


def _read(path: Path, *, floating: bool, strict: bool) -> RobotDescription:
    data = read_file(path)
    if data.lstrip().startswith(b"{"):
        return _read_json_robot(data, path, floating=floating, strict=strict)
    root = parse_xml(data, path)
    if str(path).endswith(".xacro") or ((b"xacro" in data or b"\0" in data) and _is_xacro(root)):
        root = parse_xml(expanded_xacro(path), path)
    if root.tag == "robot":
        listed = read_urdf(root, path, floating=floating, strict=strict)
        return describe_robot_with_loops(listed) if listed.loops else describe_robot(listed)
    if root.tag == "sdf":
        return describe_robot_with_loops(read_sdf(root, path, floating=floating, strict=strict))
    if root.tag == "mujoco":
        if floating:
            raise ValueError(f"{path} defines whether its base floats; leave out `floating`")
        return describe_robot_with_loops(read_mjcf(root, path, strict=strict))
    known = "a URDF starts with <robot>, an SDF with <sdf>, an MJCF with <mujoco>"
    raise file_error(path, root.sourceline, f"<{root.tag}> is not a robot: {known}")


def read_file(path: Path) -> bytes:
    """Return the content of a regular file of at most 32 MB; raise FormatError otherwise."""
    try:
        file = os.open(path, _FLAGS)  # the built-in `open` takes as long as reading a small robot
        try:
            status = os.fstat(file)
            if kind := irregular_kind(status.st_mode):
                raise file_error(path, None, f"this is {kind}; expected a regular file")
            size = min(status.st_size, LARGEST) + 1
            data = os.read(file, size)
            if len(data) != size - 1:  # the size is unknown or too large
                while len(data) <= LARGEST and (more := os.read(file, LARGEST + 1 - len(data))):
                    data += more
        finally:
            os.close(file)
    except FormatError:
        raise
    except (OSError, ValueError) as error:  # ValueError: the path contains a NUL
        if path.is_dir():
            raise file_error(path, None, "this is a folder; expected a robot file") from None
        reason = getattr(error, "strerror", None) or str(error)
        raise file_error(path, None, f"the file cannot be read: {reason.lower()}") from None
    if len(data) > LARGEST:
        raise file_error(path, None, "the file is larger than the limit of 32 MB")
    if path.suffix == ".py":
        raise file_error(path, None, "this is a script; expected a robot file, for example URDF")
    if data.startswith(b"PK"):
        raise file_error(path, None, "this is an archive, such as an FMU; expected a robot file")
    if not data or data.isspace():
        raise file_error(path, None, "the file is empty")
    return data


def _read_json_robot(data: bytes, path: Path, *, floating: bool, strict: bool) -> RobotDescription:
    """Return the robot in a JSON file.

    The function rejects `floating`, because the file defines whether the base floats.
    """
    robot = read_json(data, path)
    if floating:
        raise ValueError(f"{path} defines whether its base floats; leave out `floating`")
    if strict and robot.model.unphysical:
        bodies = ", ".join(robot.model.unphysical)
        raise file_error(path, None, f"the inertia of {bodies} is not physical")
    return robot


def _is_xacro(root: Element) -> bool:
    """Return True if an element belongs to the xacro namespace."""
    return next(root.iter(*(f"{{{space}}}*" for space in _XACRO)), None) is not None


_XACRO = ("http://www.ros.org/wiki/xacro", "http://ros.org/wiki/xacro", "http://wiki.ros.org/xacro")


PUMA560 = Path(__file__).with_name("puma560.json")


def puma560() -> RobotDescription:
    """Return the published PUMA 560 with its motors, loaded from `puma560.json`, in SI units.

    Masses, centres of mass and moments of inertia are from Armstrong, Khatib and Burdick. The
    standard Denavit-Hartenberg parameters, gear ratios, rotor inertias, and viscous and Coulomb
    friction are the selection of Corke and Armstrong-Helouvry.

    `armature`, `damping`, `friction` and `backward` are joint values. The motor values of rotor
    inertia and viscous friction are multiplied by the square of the gear ratio n. The motor values
    of dry friction are multiplied by |n|.

    Link 1 has a moment of inertia and no mass, and link 3 has physically impossible moments of
    inertia. These published values are unchanged, and `warnings` lists them. The frames `flange`
    and link1 to link6 correspond to the Denavit-Hartenberg rows.

    References:
        Armstrong, Khatib and Burdick, The explicit dynamic model and inertial parameters of the
        PUMA 560 arm, IEEE Conference on Robotics and Automation, 1986.
        Corke and Armstrong-Helouvry, A search for consensus among model parameters reported for
        the PUMA 560 robot, same conference, 1994.
    """
    return load_model(PUMA560)


def find_file(name: str, robot: Path, search: Iterable[str | Path] = ()) -> Path | None:
    """Return the path of a file to which a robot file refers, or None if it does not exist.

    `name` is the path or URI in the robot file, and `robot` the path of the robot file. A path is
    absolute, for example after file://, or relative to the folder of the robot file. A URI with
    package:// or model:// contains a package name and a path in the package. The function ignores a
    third slash, as in package:///arm/meshes/a.stl. A package is a folder. The function searches for
    the folder in this order:

    - the folders above the robot file, and their direct subfolders
    - the folders in `search`, and their direct subfolders
    - the folders in ROS_PACKAGE_PATH, and their direct subfolders
    - share/ in each folder in AMENT_PREFIX_PATH, and its direct subfolders

    The function rejects a path that leaves its package by "..". It follows symbolic links, because
    installed packages consist of symbolic links.
    """
    scheme, _, rest = name.partition("://")
    if scheme not in ("package", "model"):
        path = Path(unquote(urlsplit(name).path) if scheme == "file" else name)
        path = path if path.is_absolute() else robot.parent / path
        return path if path.is_file() else None
    package, _, inside = rest.lstrip("/").partition("/")
    inside = os.path.normpath(inside.lstrip("/"))
    if package in ("", ".", "..") or inside.split(os.sep)[0] in (os.curdir, os.pardir):
        return None
    for folder in _folders(package, robot, search):
        if (path := folder / inside).is_file():
            return path
    return None


def _folders(package: str, robot: Path, search: Iterable[str | Path]) -> Iterator[Path]:
    """Yield the paths at which the folder of a package may exist, in search order.

    The search begins with the folders above the robot file, the nearest folder first.
    """
    shares = (Path(prefix) / "share" for prefix in _folders_from_environment("AMENT_PREFIX_PATH"))
    places = (
        *robot.resolve().parents,
        *map(Path, search),
        *_folders_from_environment("ROS_PACKAGE_PATH"),
        *shares,
    )
    for place in places:
        if place.name == package:
            yield place
        yield place / package


def _folders_from_environment(variable: str) -> list[Path]:
    """Return the folders in an environment variable."""
    return [Path(part) for part in os.environ.get(variable, "").split(os.pathsep) if part]
