"""The forces of contact on robots that are drawn, where a system has them: which of its outputs
they are, and over a run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.library.contact_plant import ContactPlant
from rigidblocks.library.ground_contact import GroundContact
from rigidblocks.library.rigid_contact_plant import RigidContactPlant
from rigidblocks.simulation.result import Result
from rigidblocks.system.system import System
from rigidblocks.view.robot import DrawnRobot, Part

FORCE = (Part("force", 0, 3),)
WRENCH = (Part("f_contact", 3, 6), Part("centre_of_pressure", 0, 3))


def force_parts(block: Any, name: str = "", system: System | None = None) -> tuple[Part, ...]:
    """The outputs with the forces at the points with which a plant touches, or with the force on
    each of its bodies and where it is. `name` is the plant's in the `system`, where they can be
    those of a `GroundContact`.
    """
    parts: tuple[Part, ...] = ()
    if isinstance(block, ContactPlant):
        parts = FORCE
    elif isinstance(block, RigidContactPlant):
        parts = WRENCH
    elif system is not None and (ground := _ground(system, name)):
        parts, name = FORCE, ground
    return tuple(part._replace(port=f"{name}.{part.port}".lstrip(".")) for part in parts)


def known_parts(robot: DrawnRobot, shapes: Mapping[str, tuple[int, ...]]) -> Sequence[Part] | None:
    """The parts of outputs with the forces on a robot; None where one is not among these `shapes`,
    by names, or is of other points than the robot's.
    """
    n = robot.model.nb if robot.touching is None else len(robot.touching.body)
    wide = {"f_contact": 6}
    for port, _, _ in robot.forces:
        if shapes.get(port) != (n, wide.get(port.rpartition(".")[2], 3)):
            return None
    return robot.forces or None


def force_places(
    robot: DrawnRobot, where: Mapping[str, range], shapes: Mapping[str, tuple[int, ...]]
) -> list[int] | None:
    """The places of the forces on a robot, one arrow after the other, in a row in which each output
    has the places `where`.
    """
    if (parts := known_parts(robot, shapes)) is None:
        return None
    found = [np.reshape(where[port], shapes[port])[:, a:b] for port, a, b in parts]
    return [int(k) for k in np.ravel(np.concatenate(found, axis=1))]


def forces_on(result: Result, robot: DrawnRobot) -> Array | None:
    """The forces on a robot over time (n, 3 k) [N], or with their places (n, 6 k), where they are
    recorded.
    """
    parts = known_parts(robot, {port.name: port.shape for port in result.ports})
    if parts is None:
        return None
    found = [np.asarray(result[port], dtype=float)[..., a:b] for port, a, b in parts]
    return np.reshape(np.concatenate(found, axis=2), (len(result.time), -1))


def _ground(system: System, plant: str) -> str | None:
    """The name of the ground whose wrenches a plant gets."""
    for one in system.connections:
        (source, output), (target, _) = one.source, one.target
        is_ground = isinstance(system.parts[source].component, GroundContact)
        if target == plant and is_ground and output == "f_ext":
            return source
    return None
