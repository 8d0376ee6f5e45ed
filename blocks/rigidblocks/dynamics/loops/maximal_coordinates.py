"""Equation of motion of all bodies, with every joint as a constraint (RBDA 8.13).

The linear system of bodies and joints is sparse and needs no spanning tree. Use it to check the
solvers in joint coordinates, and for systems whose graph has no good spanning tree. All functions
support floats only. Quantities of bodies are in body coordinates, quantities of joints in the
coordinates of their successor frames. Therefore the accuracy does not depend on the distance from
the base.
"""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.common.optional_imports import module_of
from rigidblocks.dynamics import body_poses, body_velocities, check_lengths
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.spatial import Array

_SOFT = 1e-8  # softness of the constraint rows times the mean diagonal of the body rows
_LEFT = 1e-9  # largest residual of a solution, relative to the largest force or acceleration


class MaximalSystem(NamedTuple):
    """Linear system `[[I, P T], [T^T P^T, 0]] [a; -lam] = right` of all bodies (RBDA Eq 8.64).

    I contains the inertias and a the accelerations of the bodies. lam contains the constraint
    forces. P T maps unit constraint forces to forces on the bodies. Each body has 6 rows (3 in the
    plane), and each joint has one row per constraint.

    Attributes:
        matrix: Symmetric matrix of the system.
        right: Right-hand side: the known forces on the bodies, then T^T times the bias acceleration
            of each joint.
        blocks: Rows of each body, each tree joint and each loop joint, in this order.
    """

    matrix: Array
    right: Array
    blocks: tuple[slice, ...]


class MaximalMotion(NamedTuple):
    """Accelerations of joints and bodies, and constraint forces of the loop joints.

    Attributes:
        qdd: Accelerations (nv,) of the tree joints.
        a: Spatial accelerations (nb, 6) of the bodies, each in coordinates of its body.
        lam: Constraint forces (nc,) of the loop joints.
    """

    qdd: Array
    a: Array
    lam: Array


class MaximalEquations(NamedTuple):
    """Blocks of the linear system of all bodies and joints.

    Attributes:
        entries: Rows, columns and elements of each nonzero block of the matrix.
        right: Right-hand side.
        blocks: Rows of each body, then of each joint.
        joints: Tree joints, then loop joints.
    """

    entries: tuple[tuple[slice, slice, Array], ...]
    right: Array
    blocks: tuple[slice, ...]
    joints: tuple["_JointData", ...]


class _JointData(NamedTuple):
    """Joint between predecessor body p and successor body s.

    Xp and Xs transform the coordinates of p and s to the successor frame F_s. T is a basis of the
    constraint forces, S the motion subspace, and `bias` the acceleration across the joint for
    qdd = 0, all in F_s coordinates. Only tree joints need S.
    """

    p: int
    s: int
    Xp: Any
    Xs: Any
    T: Array
    S: Array
    bias: Array


def maximal_dynamics(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> MaximalMotion:
    """Solve the linear system of all bodies and joints for accelerations and constraint forces.

    The constraints are not stabilized. If the constraints are dependent, the constraint forces lam
    are the minimum-norm solution.

    Args:
        model: Model with loops.
        q: Configuration (nq,) that closes the loops.
        qd: Velocities (nv,) that keep the loops closed.
        tau: Joint forces (nv,).
        f_ext: External wrenches in base coordinates, as in `aba`.
        gravity: Gravity; by default model.gravity.

    Returns:
        Accelerations and constraint forces.
    """
    equations = maximal_equations(model, q, qd, tau, f_ext, gravity)
    solution = np.linalg.lstsq(_dense(equations), equations.right, rcond=1e-12)[0]
    return _motion(model, equations.joints, solution)


def sparse_maximal_dynamics(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> MaximalMotion:
    """Compute the result of `maximal_dynamics` by a sparse factorization.

    The arguments are as in `maximal_dynamics`. For a chain of loops, the system is banded if bodies
    and joints alternate. The cost is then proportional to the length of the chain (RBDA Fig 8.4).

    A negative diagonal in the constraint rows makes the system quasidefinite. It then has a
    symmetric factorization for every pivot order, so the order with the least fill-in is possible.
    Iterative refinement removes the error of this diagonal. If constraints are dependent, lam is
    the minimum-norm solution.

    Raises:
        ImportError: scipy is not installed.
        ArithmeticError: The residual does not converge to zero, for example for inconsistent
            constraints.
    """
    equations = maximal_equations(model, q, qd, tau, f_ext, gravity)
    bodies = model.nb * len(model.algebra.zero())
    solution = sparse_solution(sparse_matrix(equations), equations.right, bodies)
    return _motion(model, equations.joints, solution)


def maximal_system(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> MaximalSystem:
    """Return the linear system for the accelerations of all bodies and all constraint forces.

    The arguments are as in `maximal_dynamics`.
    """
    equations = maximal_equations(model, q, qd, tau, f_ext, gravity)
    return MaximalSystem(_dense(equations), equations.right, equations.blocks)


def _dense(equations: MaximalEquations) -> Array:
    size = len(equations.right)
    matrix = np.zeros((size, size))
    for rows, columns, entries in equations.entries:
        matrix[rows, columns] = entries
    return matrix


def maximal_equations(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> MaximalEquations:
    """Return the blocks of the linear system of all bodies and joints (RBDA Eq 8.64).

    The arguments are as in `maximal_dynamics`.
    """
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    joints = _all_joints(model, q, qd)
    blocks = _blocks(model, joints)
    right, entries = np.zeros(blocks[-1].stop if blocks else 0), []

    # inertia and known force of each body, without its joints
    for i, force in enumerate(_body_forces(model, q, qd, f_ext, gravity)):
        entries.append((blocks[i], blocks[i], model.inertia[i].matrix()))
        right[blocks[i]] = force

    # matrix T of the forces of each joint on its bodies, and the constraints of the joint
    for joint, rows, active in zip(
        joints, blocks[model.nb :], _active_forces(model, joints, tau), strict=True
    ):
        for i, X, sign in ((joint.s, joint.Xs, 1.0), (joint.p, joint.Xp, -1.0)):
            if i >= 0:
                force = sign * (X.T @ joint.T)
                entries += [(blocks[i], rows, force), (rows, blocks[i], force.T)]
                right[blocks[i]] += sign * (X.T @ active)
        right[rows] = joint.T.T @ joint.bias
    return MaximalEquations(tuple(entries), right, blocks, tuple(joints))


def _motion(model: Tree, joints: tuple[_JointData, ...], solution: Array) -> MaximalMotion:
    """Return qdd, the body accelerations and lam from the solution of the linear system."""
    n = len(model.algebra.zero())
    a = np.vstack([solution[: n * model.nb].reshape(model.nb, n), np.zeros(n)])
    qdd = [
        np.linalg.pinv(joint.S) @ (a[joint.s] - joint.Xp @ a[joint.p] - joint.bias)
        for joint in joints[: model.nb]
    ]
    return MaximalMotion(np.concatenate(qdd), a[:-1], -solution[len(solution) - model.nc :])


def sparse_solution(W: Any, right: Array, bodies: int) -> Array:
    """Return the solution x of W x = right, by factorization and iterative refinement.

    The refinement stops when it no longer halves the residual.

    Args:
        W: Sparse matrix, with the rows of the bodies first, then the rows of the constraints.
        right: Right-hand side.
        bodies: Number of rows that belong to the bodies.

    Raises:
        ArithmeticError: The constraints are inconsistent.
    """
    softness = np.zeros(len(right))
    softness[bodies:] = _SOFT / np.mean(W.diagonal()[:bodies])
    factors = factorization(W, softness)
    x: Array = np.zeros(len(right))
    left, size = right, np.inf
    while True:
        correction = factors.solve(left)
        left, before = right - W @ (x + correction), size
        scale = max(np.max(np.abs(right)), np.max(np.abs(x[:bodies] + correction[:bodies])))
        size = np.max(np.abs(left)) / scale if scale else 0.0
        if not size < before / 2:  # residual: zero, rounding, inconsistent constraints, or NaN
            break
        x = x + correction
    if before > _LEFT:
        raise ArithmeticError(
            f"the equations of motion have a relative residual of {before:.1e}: the constraints "
            "are inconsistent or nearly dependent; use maximal_dynamics, which solves them by "
            "least squares"
        )
    return x


def factorization(W: Any, softness: Array) -> Any:
    """Return the SuperLU factors of W - diag(softness).

    `softness` is a small positive number for each constraint row, and zero for the other rows. It
    makes the matrix quasidefinite. Such a matrix has a factorization for every pivot order
    (Vanderbei 1995). The function uses a minimum-degree order, which keeps the fill-in small.
    """
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import splu

    return splu(
        (W - diags_array(softness)).tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


def sparse_matrix(equations: MaximalEquations) -> Any:
    """Return the matrix of the linear system of all bodies and joints as a sparse array."""
    coo_array = module_of("scipy.sparse", "sparse_maximal_dynamics").coo_array
    rows, columns, values = [], [], []
    for row, column, entries in equations.entries:
        i, j = np.nonzero(entries)
        rows.append(row.start + i)
        columns.append(column.start + j)
        values.append(entries[i, j])
    size = len(equations.right)
    places = (np.concatenate(rows), np.concatenate(columns))
    return coo_array((np.concatenate(values), places), shape=(size, size)).tocsr()


def _blocks(model: Tree, joints: list[_JointData]) -> tuple[slice, ...]:
    """Return the rows of each body and of each joint in the linear system."""
    sizes = [len(model.algebra.zero())] * model.nb + [joint.T.shape[1] for joint in joints]
    return tuple(slice(a, b) for a, b in pairwise(accumulate(sizes, initial=0)))


def _active_forces(model: Tree, joints: list[_JointData], tau: Array) -> Iterator[Array]:
    """Yield the active force of each joint in F_s coordinates, zero for loop joints.

    The active force of a tree joint follows from its joint forces in tau (nv,).
    """
    for joint, vs in zip(joints, model.v_slices, strict=False):
        yield joint.S @ np.linalg.pinv(joint.S.T @ joint.S) @ tau[vs]
    for joint in joints[model.nb :]:
        yield np.zeros(len(joint.T))


def _body_forces(
    model: Tree, q: Array, qd: Array, f_ext: Array | None, gravity: Array | None
) -> list[Array]:
    """Return the known force on each body: f_ext, gravity and -v x* I v."""
    X0, v = body_poses(model, q), body_velocities(model, q, qd)
    a_g = model.algebra.uniform_field(np.asarray(model.gravity if gravity is None else gravity))
    forces = []
    for i, inertia in enumerate(model.inertia):
        I = inertia.matrix()
        forces.append(I @ (X0[i] @ a_g) - model.algebra.crf(v[i]) @ (I @ v[i]))
        if f_ext is not None:
            forces[i] = forces[i] + X0[i].force(f_ext[i])
    return forces


def _all_joints(model: Tree, q: Array, qd: Array) -> list[_JointData]:
    """Return the data of the tree joints, followed by the data of the loop joints."""
    X0 = [*body_poses(model, q), model.algebra.identity()]
    v = [*body_velocities(model, q, qd), model.algebra.zero()]
    return [*_tree_joints(model, q, qd, v), *_loop_joints(model, X0, v)]


def _tree_joints(model: Tree, q: Array, qd: Array, v: list[Array]) -> Iterator[_JointData]:
    """Yield the data of the tree joints; v contains the body velocities in body coordinates."""
    for i, p in enumerate(model.parent):
        joint, here = model.joint[i], q[model.q_slices[i]]
        XJ, S, vJ, cJ = joint.jcalc(here, qd[model.v_slices[i]])
        bias = cJ + model.algebra.cross_motion(v[i], vJ)
        T = joint.constraint_forces(here)
        yield _JointData(p, i, XJ @ model.Xtree[i], model.algebra.identity(), T, S, bias)


def _loop_joints(model: Tree, X0: list[Any], v: list[Array]) -> Iterator[_JointData]:
    """Yield the bodies, transforms, constraint forces and bias acceleration of each loop joint.

    X0 contains the transforms from base to body coordinates, and v the body velocities in body
    coordinates. The last items belong to the base.
    """
    model.check_no_strings("the system of all bodies")
    for loop in model.loops:
        X = loop.Xs @ X0[loop.successor] @ (loop.Xp @ X0[loop.predecessor]).inverse()
        Xp, v_s = X @ loop.Xp, loop.Xs @ v[loop.successor]
        vJ = v_s - Xp @ v[loop.predecessor]
        T, _, c = loop.joint.constraint(X, vJ)
        bias = c + model.algebra.cross_motion(v_s, vJ)
        yield _JointData(
            loop.predecessor, loop.successor, Xp, loop.Xs, T, np.zeros((len(T), 0)), bias
        )
