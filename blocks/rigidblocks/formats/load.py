"""One door to every file that describes a robot."""

import os
from pathlib import Path
from typing import Literal

import numpy as np

from rigidblocks.formats.closures import described_with_loops
from rigidblocks.formats.description import RobotDescription
from rigidblocks.formats.document import Element, parsed
from rigidblocks.formats.json_file import read_json
from rigidblocks.formats.links import described
from rigidblocks.formats.mjcf import read_mjcf
from rigidblocks.formats.refusal import wrong
from rigidblocks.formats.sdf import read_sdf
from rigidblocks.formats.urdf import read_urdf

LARGEST = 32 * 2**20  # bytes
_BINARY = getattr(os, "O_BINARY", 0)  # of Windows


def load_model(
    path: str | Path, *, floating: bool = False, inertia: Literal["warn", "strict"] = "warn"
) -> RobotDescription:
    """The robot that a file describes: its model, and what the file says beyond that.

    URDF, SDF with one model and the JSON of `save_model` are read, MJCF where the package mujoco is
    installed and xacro where the package xacro is. Links that are fixed to each other are one body
    of the model, and all of them are named frames; body frames are those of the joints. Joints of
    an SDF that close loops are loop joints, its gearboxes couplings. `floating` gives the base link
    the six freedoms of a floating base, a joint called root_joint; without it the base link is part
    of the fixed base. With `inertia="warn"` an inertia that no rigid body has, as published models
    have them, is used as it is and named in `warnings`; "strict" refuses it. Meshes are opened by
    MuJoCo alone.

    Raises FormatError, in one line that says where, for a file that cannot be read, that is larger
    than 32 MB, that is no robot or not a whole one, and for a joint that moves no inertia.
    """
    if inertia not in ("warn", "strict"):
        raise ValueError(f"inertia must be 'warn' or 'strict', not '{inertia}'")
    path = path if isinstance(path, Path) else Path(path)
    with np.errstate(all="ignore"):  # of numbers that are too large, the checks tell
        return _read(path, floating=floating, strict=inertia == "strict")


def _read(path: Path, *, floating: bool, strict: bool) -> RobotDescription:
    data = content(path)
    if data.lstrip().startswith(b"{"):
        return _saved(data, path, floating=floating, strict=strict)
    root = parsed(data, path)
    if str(path).endswith(".xacro") or ((b"xacro" in data or b"\0" in data) and _is_xacro(root)):
        root = parsed(_expanded(path), path)
    if root.tag == "robot":
        return described(read_urdf(root, path, floating=floating, strict=strict))
    if root.tag == "sdf":
        return described_with_loops(read_sdf(root, path, floating=floating, strict=strict))
    if root.tag == "mujoco":
        if floating:
            raise ValueError(f"{path} says itself whether its base floats: it takes no floating")
        return described_with_loops(read_mjcf(path, strict=strict))
    known = "a URDF starts with <robot>, an SDF with <sdf>, an MJCF with <mujoco>"
    raise wrong(path, root.sourceline, f"<{root.tag}> is no robot: {known}")


def content(path: Path) -> bytes:
    """The bytes of a file that can be a robot; raises FormatError for others."""
    try:
        file = os.open(path, os.O_RDONLY | _BINARY)  # `open` costs as much as a small robot
        try:
            size = min(os.fstat(file).st_size, LARGEST) + 1
            data = os.read(file, size)
            if len(data) != size - 1:  # of what does not know its size, or is too large
                while len(data) <= LARGEST and (more := os.read(file, LARGEST + 1 - len(data))):
                    data += more
        finally:
            os.close(file)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        if path.is_dir():
            raise wrong(path, None, "this is a folder; a robot is a file") from None
        reason = getattr(error, "strerror", None) or str(error)
        raise wrong(path, None, f"the file cannot be read: {reason.lower()}") from None
    if len(data) > LARGEST:
        raise wrong(path, None, "the file has more than 32 MB, which no robot needs")
    if path.suffix == ".py":
        raise wrong(path, None, "this is a script; a robot is a URDF file")
    if data.startswith(b"PK"):
        raise wrong(path, None, "this is an archive, such as an FMU; a robot is a URDF file")
    if not data or data.isspace():
        raise wrong(path, None, "the file is empty")
    return data


def _saved(data: bytes, path: Path, *, floating: bool, strict: bool) -> RobotDescription:
    """The robot of a JSON file, which says itself whether its base floats."""
    robot = read_json(data, path)
    if floating:
        raise ValueError(f"{path} says itself whether its base floats: it takes no floating")
    if strict and robot.model.unphysical:
        bodies = ", ".join(robot.model.unphysical)
        raise wrong(path, None, f"the inertia of {bodies} is not physical")
    return robot


def _is_xacro(root: Element) -> bool:
    """Whether any element is one of xacro's."""
    return next(root.iter(*(f"{{{space}}}*" for space in _XACRO)), None) is not None


_XACRO = ("http://www.ros.org/wiki/xacro", "http://ros.org/wiki/xacro", "http://wiki.ros.org/xacro")


def _expanded(path: Path) -> bytes:
    """The URDF that the package xacro makes of a file, which can run any Python in it."""
    try:
        import xacro
    except ImportError:
        text = "this is xacro, which the package xacro turns into URDF; `pip install xacro`"
        raise wrong(path, None, text) from None
    try:
        return bytes(xacro.process_file(str(path)).toxml(encoding="utf-8"))
    except Exception as error:
        # a macro is a program: anything can go wrong in it
        raise wrong(path, None, f"xacro cannot expand it: {error}") from None
