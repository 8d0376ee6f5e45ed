"""Forward dynamics by the joint-space inertia matrix, and products with it (RBDA 6.1)."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rigidblocks.dynamics.inertia import crba
from rigidblocks.dynamics.inverse import bias_force
from rigidblocks.dynamics.kinematics import check_lengths, joint_kinematics, per_body
from rigidblocks.dynamics.sparse import expand_lambda, solve_ltdl
from rigidblocks.spatial import Array
from rigidblocks.tree import Tree

Solver = Callable[[Array, tuple[int, ...], Array], Array]


def expanded_parent(model: Tree) -> tuple[int, ...]:
    """The parent array of the model's velocity variables, which says where H has its zeros (RBDA Table 6.4)."""
    return expand_lambda(model.parent, [joint.nv for joint in model.joint])


def forward_dynamics_crba(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
    solve: Solver = solve_ltdl,
) -> Array:
    """The joint accelerations qdd (nv,) as the solution of H(q) qdd = tau - C(q, qd, f_ext) (RBDA 6.1).

    By the composite-rigid-body and the recursive Newton-Euler algorithm; `solve` is `solve_ltdl` or `solve_ltl`, which
    leave out the branch-induced zeros. Raises ValueError where H is not positive definite in numbers.
    """
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    C = bias_force(model, q, qd, f_ext, gravity)
    return solve(crba(model, q), expanded_parent(model), tau - C)


def inertia_times(model: Tree, q: Array, qdd: Array) -> Array:
    """The product H(q) qdd (nv,) without H: the forces at rest without gravity (RBDA Table 6.1)."""
    check_lengths(model, q=q, qdd=qdd)
    still = np.zeros(model.nv)
    Xup, S, a, f = per_body(model, 4)
    a[-1] = model.algebra.zero()

    # outward: accelerations, and the force that each body takes
    for i, p in enumerate(model.parent):
        Xup[i], S[i], _, _ = joint_kinematics(model, i, q, still)
        a[i] = Xup[i] @ a[p] + S[i] @ qdd[model.v_slices[i]]
        f[i] = model.inertia[i] @ a[i]

    # inward: each joint transmits the force of its whole subtree
    tau: list[Any] = [None] * model.nb
    for i in reversed(range(model.nb)):
        tau[i], p = S[i].T @ f[i], model.parent[i]
        if p >= 0:
            f[p] = f[p] + Xup[i].T @ f[i]
    return np.concatenate(tau)
