"""Operational-space inertia: the equation of motion projected onto handles (RBDA 7.2.1)."""

from collections.abc import Sequence

import numpy as np

from rigidblocks.algebra.linear import positive_solution
from rigidblocks.algebra.sparse import ltl, mpy_lit, solve_ltdl
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.articulated import InverseHandle
from rigidblocks.dynamics.inverse import bias_force
from rigidblocks.dynamics.jacobian import body_jacobian, body_jacobian_rate
from rigidblocks.dynamics.joint_space import crba, expanded_parent
from rigidblocks.model.model import Model
from rigidblocks.model.tree import Tree


def inverse_inertia(model: Tree, q: Array, J: Array) -> Array:
    """Phi = J H^-1 J^T (k, k): the acceleration of a task v = J qd that forces on it cause (RBDA Eq
    7.9).

    Symmetric positive semidefinite, of the rank of J (k, nv). By H = L^T L it is the square of L^-T
    J^T.
    """
    parent = expanded_parent(model)
    Y = mpy_lit(ltl(crba(model, q), parent), parent, J.T)
    Phi: Array = Y.T @ Y
    return Phi


def operational_inertia(model: Model, q: Array, J: Array) -> Array:
    """(J H^-1 J^T)^-1 (k, k): the inertia that a task v = J qd feels (RBDA Eq 7.12).

    Raises ValueError where J, in numbers, has not its full row rank: then there is only
    `inverse_inertia`.
    """
    if J.dtype != object and np.linalg.matrix_rank(J) < len(J):
        raise ValueError(
            f"the task has {len(J)} components but only {np.linalg.matrix_rank(J)} independent "
            "freedoms, so it has no "
            f"inertia; inverse_inertia always exists"
        )
    return positive_solution(inverse_inertia(model, q, J), np.eye(len(J)))


def handle_equation(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    bodies: Sequence[int],
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> InverseHandle:
    """a = Phi f + b for some bodies as handles: what further forces f (6h,) on them do (RBDA Eq 7.8
    to 7.10).

        Phi = J H^-1 J^T,  b = dJ/dt qd + J H^-1 (tau - C)

    a and f are stacked, each handle in the coordinates of its body; tau and f_ext are all other
    forces.
    """
    J = np.vstack([body_jacobian(model, q, body) for body in bodies])
    a_vp = np.concatenate([body_jacobian_rate(model, q, qd, body) @ qd for body in bodies])
    C = bias_force(model, q, qd, f_ext, gravity)
    free = solve_ltdl(crba(model, q), expanded_parent(model), tau - C)
    return InverseHandle(inverse_inertia(model, q, J), a_vp + J @ free)
