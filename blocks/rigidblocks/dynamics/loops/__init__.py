"""Kinematic loops: the constraints of loop joints, and the dynamics of systems that have them (RBDA
chapter 8).
"""

from rigidblocks.algebra.pivoting import NullSpace, null_space
from rigidblocks.algebra.svd import SVD, svd
from rigidblocks.loops.assembly import AssemblyError, assemble, closure_errors, consistent_velocity
from rigidblocks.loops.choice import velocity_names
from rigidblocks.loops.closure import ClosureMotion, loop_closure
from rigidblocks.loops.clusters import (
    Cluster,
    constraint_rank,
    constraint_structure,
    loop_clusters,
    mobility,
    null_space_by_clusters,
    path_signs,
)
from rigidblocks.loops.constraints import (
    LoopConstraints,
    active_forces,
    baumgarte,
    drift,
    loop_constraints,
    loop_joint_motion,
    nearest_common_ancestor,
    position_constraints,
)
from rigidblocks.loops.coordinates import (
    Coordinates,
    LinearCoordinates,
    Tangent,
    coordinate_condition,
    dependent_positions,
    independent_motion,
    joint_coordinates,
    partitioned_coordinates,
    reduced_dynamics,
    tangent_coordinates,
)
from rigidblocks.loops.dependent import DependentMotion, check_independent, dependent_motion
from rigidblocks.loops.diagnostics import (
    LoopDiagnostics,
    RedundantConstraint,
    SingularPassage,
    constraint_names,
    loop_diagnostics,
    near_singular,
    redundant_constraints,
    singular_passages,
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
from rigidblocks.loops.inverse import (
    LoopForces,
    actuated_columns,
    actuator_forces,
    closed_loop_inverse_dynamics,
)
from rigidblocks.loops.linearization import LoopLinearization, loop_linearization
from rigidblocks.loops.maximal import MaximalMotion, MaximalSystem, maximal_dynamics, maximal_system
from rigidblocks.loops.solvers import SOLVERS, ConstrainedMotion, loop_function, solver

__all__ = [
    "SOLVERS",
    "SVD",
    "AssemblyError",
    "ClosureMotion",
    "Cluster",
    "ConstrainedMotion",
    "Coordinates",
    "DependentMotion",
    "Elimination",
    "LinearCoordinates",
    "LoopConstraints",
    "LoopDiagnostics",
    "LoopForces",
    "LoopLinearization",
    "LoopMotion",
    "MaximalMotion",
    "MaximalSystem",
    "NullSpace",
    "RedundantConstraint",
    "SingularPassage",
    "Tangent",
    "active_forces",
    "actuated_columns",
    "actuator_forces",
    "assemble",
    "baumgarte",
    "check_independent",
    "closed_loop_dynamics",
    "closed_loop_inverse_dynamics",
    "closure_errors",
    "consistent_velocity",
    "constraint_names",
    "constraint_rank",
    "constraint_structure",
    "coordinate_condition",
    "dependent_motion",
    "dependent_positions",
    "drift",
    "eliminated",
    "independent_motion",
    "joint_coordinates",
    "loop_closure",
    "loop_clusters",
    "loop_constraints",
    "loop_diagnostics",
    "loop_function",
    "loop_joint_motion",
    "loop_linearization",
    "maximal_dynamics",
    "maximal_system",
    "mobility",
    "near_singular",
    "nearest_common_ancestor",
    "null_space",
    "null_space_by_clusters",
    "partitioned_coordinates",
    "path_signs",
    "position_constraints",
    "project",
    "project_energy",
    "project_position",
    "project_velocity",
    "reduced_dynamics",
    "redundant_constraints",
    "singular_passages",
    "solved",
    "solver",
    "svd",
    "tangent_coordinates",
    "velocity_names",
]
