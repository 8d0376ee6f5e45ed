"""Kinematic loops: the constraints of loop joints, and the dynamics of systems that have them (RBDA chapter 8)."""

from rigidblocks.loops.constraints import (
    LoopConstraints,
    active_forces,
    baumgarte,
    loop_constraints,
    loop_joint_motion,
    nearest_common_ancestor,
    position_constraints,
)
from rigidblocks.loops.elimination import Elimination, eliminated, solved
from rigidblocks.loops.forward import (
    LoopMotion,
    closed_loop_dynamics,
    project,
    project_energy,
    project_position,
    project_velocity,
)

__all__ = [
    "Elimination",
    "LoopConstraints",
    "LoopMotion",
    "active_forces",
    "baumgarte",
    "closed_loop_dynamics",
    "eliminated",
    "loop_constraints",
    "loop_joint_motion",
    "nearest_common_ancestor",
    "position_constraints",
    "project",
    "project_energy",
    "project_position",
    "project_velocity",
    "solved",
]
