"""The algorithms of rigid-body dynamics (RBDA chapters 5 to 7 and 9), in body coordinates and in
the book's letters.

Shapes and units, the same in all algorithms: q (nq,) [rad or m]; qd, qdd and tau (nv,) [per s, per
s^2, N m or N]; f_ext (nb, 6), the external wrench [n; f] on each body in *base* coordinates, its
moment about the base origin [N m, N]; gravity (3,) [m/s^2] in base coordinates, the model's own
unless given. Gravity enters as the fictitious base acceleration -a_g. Everything works on floats
and on traced scalars. Wrong lengths raise ValueError (`check_lengths`). What depends on a NaN is
NaN, or the NaN is refused.
"""

from rigidblocks.algebra.sparse import (
    expand_lambda,
    factorization_counts,
    ltdl,
    ltl,
    mpy_h,
    mpy_l,
    mpy_li,
    mpy_lit,
    mpy_lt,
    solve_ltdl,
    solve_ltl,
)
from rigidblocks.dynamics.articulated import (
    Handle,
    HandleJoint,
    InverseHandle,
    TwoHandles,
    articulated_inertias,
    assembled,
    assembled_by_constraint,
    assembled_handles,
    assembled_inverse,
    assembled_two_handles,
)
from rigidblocks.dynamics.constrained import (
    body_joint_space,
    constrained_body,
    constrained_motion,
    split_along,
    split_force,
)
from rigidblocks.dynamics.energy import energy, kinetic_energy, potential_energy
from rigidblocks.dynamics.equivalence import EquivalentModel, equivalent
from rigidblocks.dynamics.floating import (
    aba_floating,
    bias_force_floating,
    body_jacobian_floating,
    crba_floating,
    floating_body,
    forward_dynamics_crba_floating,
    joint_space_floating,
    rnea_floating,
)
from rigidblocks.dynamics.forward import aba
from rigidblocks.dynamics.friction import coulomb_friction, joint_spring, viscous_friction
from rigidblocks.dynamics.gears import (
    Gears,
    aba_with_rotors,
    geared_forward_dynamics,
    geared_inverse_dynamics,
    gears,
    projected_dynamics,
)
from rigidblocks.dynamics.hybrid import hybrid_dynamics, hybrid_dynamics_crba
from rigidblocks.dynamics.inverse import bias_force, joint_wrenches, rnea
from rigidblocks.dynamics.jacobian import (
    body_jacobian,
    body_jacobian_rate,
    point_jacobian,
    point_jacobian_rate,
)
from rigidblocks.dynamics.joint_space import (
    crba,
    expanded_parent,
    forward_dynamics_crba,
    inertia_times,
)
from rigidblocks.dynamics.kinematics import (
    body_accelerations,
    body_poses,
    body_velocities,
    classical_acceleration,
    point_acceleration,
    point_position,
    point_velocity,
    spatial_acceleration,
    specific_force,
)
from rigidblocks.dynamics.momentum import (
    centre_of_mass,
    centre_of_mass_jacobian,
    centre_of_mass_velocity,
    centroidal_momentum,
    centroidal_momentum_matrix,
    momentum,
    momentum_matrix,
    total_mass,
)
from rigidblocks.dynamics.operational import handle_equation, inverse_inertia, operational_inertia
from rigidblocks.dynamics.recursive_derivatives import (
    InverseDerivatives,
    JacobianDerivatives,
    jacobian_derivatives,
    rnea_derivatives,
)
from rigidblocks.dynamics.sweeps import check_lengths

__all__ = [
    "EquivalentModel",
    "Gears",
    "Handle",
    "HandleJoint",
    "InverseDerivatives",
    "InverseHandle",
    "JacobianDerivatives",
    "TwoHandles",
    "aba",
    "aba_floating",
    "aba_with_rotors",
    "articulated_inertias",
    "assembled",
    "assembled_by_constraint",
    "assembled_handles",
    "assembled_inverse",
    "assembled_two_handles",
    "bias_force",
    "bias_force_floating",
    "body_accelerations",
    "body_jacobian",
    "body_jacobian_floating",
    "body_jacobian_rate",
    "body_joint_space",
    "body_poses",
    "body_velocities",
    "centre_of_mass",
    "centre_of_mass_jacobian",
    "centre_of_mass_velocity",
    "centroidal_momentum",
    "centroidal_momentum_matrix",
    "check_lengths",
    "classical_acceleration",
    "constrained_body",
    "constrained_motion",
    "coulomb_friction",
    "crba",
    "crba_floating",
    "energy",
    "equivalent",
    "expand_lambda",
    "expanded_parent",
    "factorization_counts",
    "floating_body",
    "forward_dynamics_crba",
    "forward_dynamics_crba_floating",
    "geared_forward_dynamics",
    "geared_inverse_dynamics",
    "gears",
    "handle_equation",
    "hybrid_dynamics",
    "hybrid_dynamics_crba",
    "inertia_times",
    "inverse_inertia",
    "jacobian_derivatives",
    "joint_space_floating",
    "joint_spring",
    "joint_wrenches",
    "kinetic_energy",
    "ltdl",
    "ltl",
    "momentum",
    "momentum_matrix",
    "mpy_h",
    "mpy_l",
    "mpy_li",
    "mpy_lit",
    "mpy_lt",
    "operational_inertia",
    "point_acceleration",
    "point_jacobian",
    "point_jacobian_rate",
    "point_position",
    "point_velocity",
    "potential_energy",
    "projected_dynamics",
    "rnea",
    "rnea_derivatives",
    "rnea_floating",
    "solve_ltdl",
    "solve_ltl",
    "spatial_acceleration",
    "specific_force",
    "split_along",
    "split_force",
    "total_mass",
    "viscous_friction",
]
