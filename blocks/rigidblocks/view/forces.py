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
from rigidblocks.library.soft_contact_plant import SoftContactPlant
from rigidblocks.library.soft_world_plant import SoftWorldPlant
from rigidblocks.library.world_plant import WorldPlant
from rigidblocks.simulation.result import Result
from rigidblocks.system.system import System
from rigidblocks.view.robot import DrawnRobot, Part

FORCE = (Part(("force",), 0, 3),)
WRENCH, PRESSURE = ("f_contact", 3, 6), ("centre_of_pressure", 0, 3)
WIDE = {WRENCH[0]: 6}  # others have 3 columns


def force_parts(block: Any, name: str = "", system: System | None = None) -> tuple[Part, ...]:
    """The outputs with the forces at the points with which a plant touches, or with the force on
    each of its bodies and where it is. `name` is the plant's in the `system`, where they can be
    those of a `GroundContact`.
    """
    parts: tuple[Part, ...] = ()
    if isinstance(block, ContactPlant):
        parts = FORCE
    elif isinstance(block, RigidContactPlant | SoftContactPlant):
        parts = tuple(Part((port,), a, b) for port, a, b in (WRENCH, PRESSURE))
    elif isinstance(block, WorldPlant | SoftWorldPlant):
        parts = tuple(Part(_of_members(block, port), a, b) for port, a, b in (WRENCH, PRESSURE))
    elif system is not None and (ground := _ground(system, name)):
        parts, name = FORCE, ground
    return tuple(
        part._replace(ports=tuple(f"{name}.{port}".lstrip(".") for port in part.ports))
        for part in parts
    )


def _of_members(block: WorldPlant | SoftWorldPlant, port: str) -> tuple[str, ...]:
    """The outputs of the members of a world that have this one, in the order of their bodies."""
    known = {one.name for one in block.outputs}
    names = (f"{member.name}_{port}" for member in block.members)
    return tuple(name for name in names if name in known)


def known_parts(robot: DrawnRobot, shapes: Mapping[str, tuple[int, ...]]) -> Sequence[Part] | None:
    """The parts of outputs with the forces on a robot; None where one is not among these `shapes`,
    by names, or is of other points than the robot's.
    """
    n = robot.model.nb if robot.touching is None else len(robot.touching.body)
    for part in robot.forces:
        known = [shapes.get(port, ()) for port in part.ports]
        if any(shape[-1:] != (_wide(port),) for port, shape in zip(part.ports, known, strict=True)):
            return None
        if sum(shape[0] if len(shape) > 1 else 1 for shape in known) != n:
            return None
    return robot.forces or None


def _wide(port: str) -> int:
    """How many columns an output has."""
    return next((wide for name, wide in WIDE.items() if port.endswith(name)), 3)


def force_places(
    robot: DrawnRobot, where: Mapping[str, range], shapes: Mapping[str, tuple[int, ...]]
) -> list[int] | None:
    """The places of the forces on a robot, one arrow after the other, in a row in which each output
    has the places `where`.
    """
    if (parts := known_parts(robot, shapes)) is None:
        return None
    found = [
        np.concatenate([np.reshape(where[port], (-1, _wide(port))) for port in ports])[:, a:b]
        for ports, a, b in parts
    ]
    return [int(k) for k in np.ravel(np.concatenate(found, axis=1))]


def forces_on(result: Result, robot: DrawnRobot) -> Array | None:
    """The forces on a robot over time (n, 3 k) [N], or with their places (n, 6 k), where they are
    recorded.
    """
    parts = known_parts(robot, {port.name: port.shape for port in result.ports})
    if parts is None:
        return None
    n = len(result.time)

    def rows(port: str) -> Array:
        return np.reshape(np.asarray(result[port], dtype=float), (n, -1, _wide(port)))

    found = [
        np.concatenate([rows(port) for port in ports], axis=1)[..., a:b] for ports, a, b in parts
    ]
    return np.reshape(np.concatenate(found, axis=2), (n, -1))


def _ground(system: System, plant: str) -> str | None:
    """The name of the ground whose wrenches a plant gets."""
    for one in system.connections:
        (source, output), (target, _) = one.source, one.target
        is_ground = isinstance(system.parts[source].component, GroundContact)
        if target == plant and is_ground and output == "f_ext":
            return source
    return None
