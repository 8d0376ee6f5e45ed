"""Robots of files, as they are drawn."""

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import mcI
from rigidblocks.formats.description import RobotDescription
from rigidblocks.formats.document import parsed
from rigidblocks.formats.links import described
from rigidblocks.formats.load import content, load_model
from rigidblocks.formats.refusal import FormatError
from rigidblocks.formats.urdf import read_urdf
from rigidblocks.joint import Fixed

SPECK = mcI(1e-12, np.zeros(3), 1e-24 * np.eye(3))  # kg, kg m^2: nothing that one sees


class RobotFile(NamedTuple):
    """What a file says of a robot, and where it is, from which it names its meshes; `packages` are
    folders to look for them in.
    """

    robot: RobotDescription
    path: Path
    packages: tuple[str | Path, ...] = ()


def robot_file(
    path: Path, floating: bool = False, packages: tuple[str | Path, ...] = ()
) -> RobotFile:
    """The robot in a file. A URDF whose robot cannot move, for it has joints without a mass to move
    or none at all, can be looked at, with a warning.

    Raises what `load_model` raises.
    """
    try:
        return RobotFile(load_model(path, floating=floating), path, packages)
    except FormatError as error:
        robot = _motionless(path, floating)
        if robot is None:
            raise
        warnings.warn(f"to be looked at, not to be simulated: {error}", stacklevel=3)
        return RobotFile(robot, path, packages)


def _motionless(path: Path, floating: bool) -> RobotDescription | None:
    """The robot of a URDF with specks of dust for masses that it lacks, floating where nothing else
    of it moves; None where that does not help.
    """
    try:
        root = parsed(content(path), path)
        if root.tag != "robot":
            return None
        listed = read_urdf(root, path, floating=floating, strict=False)
        links = [one if one.inertia.m > 0 else one._replace(inertia=SPECK) for one in listed.links]
        floats = floating or all(isinstance(one.joint, Fixed) for one in listed.connections)
        return described(listed._replace(links=links, floating=floats))
    except FormatError:
        return None
