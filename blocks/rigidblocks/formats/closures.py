"""Loops as files have them: axes that are parallel but for the digits of the file, and loops that
can only tremble.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.formats.description import RobotDescription
from rigidblocks.formats.links import described
from rigidblocks.formats.listed import Assembly, Connection
from rigidblocks.joint import Fixed, Prismatic, Revolute

PARALLEL = 2e-5  # rad: what angles written with five digits add up to


def with_parallel_axes(
    connections: Sequence[Connection], turned: Mapping[str, Array]
) -> list[Connection]:
    """The joints with axes that are exactly parallel where the file's digits leave them apart by
    less than 2e-5 rad; `turned` has by name the rotation from the model's coordinates to the
    joint's.

    A loop in the plane of such axes can move for ever; with what the digits leave it binds, and
    opens by as much as it is let move.
    """
    directions: list[Array] = []
    found = []
    for c in connections:
        if isinstance(c.joint, Revolute | Prismatic):
            E = turned[c.name]
            u = E.T @ np.array(c.joint.axis)
            same = next((d for d in directions if np.linalg.norm(np.cross(d, u)) < PARALLEL), None)
            if same is None:
                directions.append(u)
            else:
                x, y, z = (np.copysign(1.0, same @ u) * (E @ same)).tolist()
                c = c._replace(joint=replace(c.joint, axis=(x, y, z)))
        found.append(c)
    return found


def described_with_loops(listed: Assembly) -> RobotDescription:
    """The robot of `described`; the joints around loops that can only tremble (`trembling_loops`)
    are fixed, with a warning.
    """
    robot = described(listed)
    model = robot.model
    if not model.loops:
        return robot
    from rigidblocks.loops.trembling import trembling_loops  # takes longer than reading a robot
    from rigidblocks.model.configuration import neutral

    loops = {
        model.loop_names[l]: [model.joint_names[i] for i in joints]
        for l, joints in trembling_loops(model, neutral(model)).items()
    }
    return described(_stiffened(listed, loops)) if loops else robot


def _stiffened(listed: Assembly, loops: Mapping[str, Sequence[str]]) -> Assembly:
    """What a file lists without these loop joints, with the joints around them fixed."""
    fixed = {name for joints in loops.values() for name in joints}
    line = {c.name: c.line for c in listed.connections}
    warnings = [
        f"line {line[loop]}: the loop of '{loop}' can only tremble; its joints "
        f"{', '.join(joints)} are fixed"
        for loop, joints in loops.items()
    ]
    connections = [
        c._replace(joint=Fixed(), freedoms={}) if c.name in fixed else c
        for c in listed.connections
        if c.name not in loops
    ]
    return listed._replace(connections=connections, warnings=[*listed.warnings, *warnings])
