"""Linearised dynamics of systems with loops, in independent coordinates of the user's choice
(Spencer 2004, chapter 4).
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics import bias_force, check_lengths, crba
from rigidblocks.dynamics.recursive_derivatives import (
    InverseDerivatives,
    JacobianDerivatives,
    check_constant_subspaces,
    jacobian_derivatives,
    rnea_derivatives,
)
from rigidblocks.loops.assembly import closure_errors
from rigidblocks.loops.choice import velocity_columns
from rigidblocks.loops.constraints import position_constraints
from rigidblocks.loops.cut import cut, cut_state
from rigidblocks.loops.tangents import tangent_linearization
from rigidblocks.model.tree import Tree

RANK = 1e-9  # of the largest singular value: constraints below are dependent
CLOSED = 1e-6  # what the loops may be open by, rad and m, and /s relative to the velocities


class LoopLinearization(NamedTuple):
    """The linear system near an operating point, in the deviations of x = (y, dy/dt), y the p
    independent coordinates:

        dx/dt = A dx + B dtau + residual,   A = [[0, 1], [A21, A22]]

    A is (2p, 2p), B (2p, nv) for the forces of the tree's joints, the residual (dy/dt, d2y/dt2)
    (2p,) at the point, and `names` are those of the coordinates. The velocities of the tree's
    joints are G dy/dt with G (nv, p).
    """

    A: Array
    B: Array
    residual: Array
    G: Array
    names: tuple[str, ...]

    @property
    def eigenvalues(self) -> Array:
        """The eigenvalues of A (2p,) [1/s], those with the largest real parts first.

        At an equilibrium they do not depend on the choice of coordinates; anywhere else they do
        (Spencer 2004, 4.1).
        """
        values: Array = np.linalg.eigvals(self.A)
        return values[np.lexsort((-values.imag, -values.real))]


class Parametrization(NamedTuple):
    """dq/dy of the cut tree and its first and second rate, (n, p), and dG[..., j] by variable j (n,
    p, n).
    """

    G: Array
    Gdot: Array
    Gddot: Array
    dG: Array


def loop_linearization(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    independent: Iterable[str | int] | Array,
    gravity: Array | None = None,
) -> LoopLinearization:
    """The linearisation in independent coordinates y: the positions of the joints `independent`,
    loop joints included, by name or number, or y = R q for a matrix R (p, n) of the variables of
    all joints, those of the loop joints last.

        A21 = -(G^T H G)^-1 ([dG^T/dy_i tau'] + G^T (dtau/dq G + dtau/dqd Gdot + H Gddot))
        A22 = -(G^T H G)^-1 G^T (dtau/dqd G + 2 H Gdot)
        tau' = rnea(q, qd, qdd) - tau    (Spencer 2004, 4.2, App. B)

    by recursions alone, without differences and without a tracer; tau (nv,) is constant. That is
    for joints that have positions whose rates are their velocities and a constant S: revolute,
    prismatic, helical and cylindrical ones. Where there is another, in the tree or in a loop, y is
    R times the velocities that lead from the point to q in unit time, R (p, nv) of the tree's
    joints alone, and the derivatives are those of dual numbers (`tangents`), as exact.

    Raises ValueError for joints that roll, for a state that opens the loops, and for coordinates
    that are too few, too many or dependent there.
    """
    check_lengths(model, q=q, qd=qd, tau=tau)
    _check_closed(model, q, qd)
    tree = cut(model)
    if not _is_flat(tree):
        return _of_any_joints(model, q, qd, tau, independent, gravity)
    R, names = _selection(tree, independent)
    q_all, qd_all = cut_state(model, q, qd)
    H, n = crba(model, q), model.nv
    qdd_all, inverse = _accelerations(
        model, tree, q_all, qd_all, R, tau - bias_force(model, q, qd, None, gravity)
    )
    parameters = _parametrization(
        model, jacobian_derivatives(tree, q_all, qd_all, qdd_all), inverse
    )
    residual = np.concatenate([R @ qd_all, R @ qdd_all])

    forces = rnea_derivatives(model, q, qd, qdd_all[:n], gravity)
    A, B = _projection(H, parameters, forces, tau)
    return LoopLinearization(A, B, residual, parameters.G[:n], names)


def _of_any_joints(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    independent: Iterable[str | int] | Array,
    gravity: Array | None,
) -> LoopLinearization:
    R, names = _selection(model, independent)
    _inverse(model, R, position_constraints(model, q).K)  # refuses what are no coordinates
    return LoopLinearization(*tangent_linearization(model, q, qd, tau, R, gravity), names)


def _projection(
    H: Array, parameters: Parametrization, forces: InverseDerivatives, tau: Array
) -> tuple[Array, Array]:
    """A and B: the linear equation of motion of the tree, projected on the independent coordinates
    and solved for their accelerations.
    """
    n, p = len(H), parameters.G.shape[1]
    G, Gdot, Gddot, dG = (part[:n] for part in parameters)
    turn = np.einsum("aij,a,jk->ik", dG, forces.tau - tau, parameters.G)
    M = np.linalg.inv(G.T @ H @ G)
    A21 = -M @ (turn + G.T @ (forces.dq @ G + forces.dqd @ Gdot + H @ Gddot))
    A22 = -M @ (G.T @ (forces.dqd @ G + 2.0 * H @ Gdot))
    A = np.block([[np.zeros((p, p)), np.eye(p)], [A21, A22]])
    return A, np.vstack([np.zeros((p, n)), M @ G.T])


def _accelerations(
    model: Tree, tree: Tree, q: Array, qd: Array, R: Array, force: Array
) -> tuple[Array, Array]:
    """The accelerations of the cut tree, and [R; K]^+ (Spencer 2004, Eq 4.10, A.13)."""
    J = jacobian_derivatives(tree, q, qd, np.zeros(tree.nv))
    inverse = _inverse(tree, R, _constraints(model, J.J))
    G, g = inverse[:, : len(R)], -inverse[:, len(R) :] @ (_constraints(model, J.Jdot) @ qd)
    n, H = model.nv, crba(model, q[: model.nq])
    ydd = np.linalg.solve(G[:n].T @ H @ G[:n], G[:n].T @ (force - H @ g[:n]))
    return G @ ydd + g, inverse


def _parametrization(model: Tree, J: JacobianDerivatives, inverse: Array) -> Parametrization:
    """G and its derivatives from those of K G = 0, R G = 1 (Spencer 2004, 4.4)."""
    K, dK, Kdot, Kddot = (_constraints(model, part) for part in J)
    p = inverse.shape[1] - len(K)
    G, back = inverse[:, :p], inverse[:, p:]
    Gdot = -back @ (Kdot @ G)
    Gddot = -back @ (Kddot @ G + 2.0 * (Kdot @ Gdot))
    dG = -np.einsum("am,mbj,bi->aij", back, dK, G)
    return Parametrization(G, Gdot, Gddot, dG)


def _constraints(model: Tree, J: Array) -> Array:
    """What the Jacobians (nb + nl, 6, ...) of the cut tree are between the two frames of each loop,
    stacked.
    """
    rows = []
    for l, loop in enumerate(model.loops):
        s = loop.Xs.matrix()
        rows.append(
            (np.tensordot(s, J[loop.successor], 1) if loop.successor >= 0 else 0.0)
            - J[model.nb + l]
        )
    return np.concatenate(rows)


def _inverse(tree: Tree, R: Array, K: Array) -> Array:
    """[R; K]^+, where y are coordinates."""
    sizes = np.linalg.svd(K, compute_uv=False)
    mobility = tree.nv - int(np.sum(sizes > RANK * sizes[0]))
    if len(R) != mobility:
        raise ValueError(
            f"model '{tree.name}' has the mobility {mobility} in this configuration and needs as "
            "many independent "
            f"coordinates, not {len(R)}"
        )
    both = np.linalg.svd(np.vstack([R, K]), compute_uv=False)
    if both[tree.nv - 1] < RANK * both[0]:
        raise ValueError(
            f"the coordinates chosen for model '{tree.name}' depend on each other in this "
            "configuration: the condition of "
            f"[R; K] is {both[0] / max(both[tree.nv - 1], 1e-300):.2g}; choose others"
        )
    inverse: Array = np.linalg.pinv(np.vstack([R, K]), rcond=RANK)
    return inverse


def _selection(
    tree: Tree, independent: Iterable[str | int] | Array
) -> tuple[Array, tuple[str, ...]]:
    """R (p, n) of the cut tree and the names of the coordinates."""
    if isinstance(independent, np.ndarray) and independent.ndim == 2:
        if independent.shape[1] != tree.nv:
            raise ValueError(
                f"R needs a column for each of the {tree.nv} variables of the joints and loop "
                "joints of model "
                f"'{tree.name}', not {independent.shape[1]}"
            )
        return independent, tuple(f"y{k + 1}" for k in range(len(independent)))
    names: list[str] = []
    for name, joint in zip(tree.joint_names, tree.joint, strict=True):
        names += [name] if joint.nv == 1 else [f"{name}[{k + 1}]" for k in range(joint.nv)]
    columns = velocity_columns(tree, independent, "independent")
    return np.eye(tree.nv)[columns], tuple(names[column] for column in columns)


def _is_flat(tree: Tree) -> bool:
    """Whether velocities are the rates of positions and each S is constant."""
    try:
        check_constant_subspaces(tree)
    except ValueError:
        return False
    return all(
        joint.nq == joint.nv
        and all(
            np.array_equal(joint.rate(joint.neutral() + 0.5, unit), unit)
            for unit in np.eye(joint.nv)
        )
        for joint in tree.joint
    )


def _check_closed(model: Tree, q: Array, qd: Array) -> None:
    """Raises ValueError for a state that opens the loops."""
    if not model.loops:
        raise ValueError(
            f"model '{model.name}' has no loops; its linearisation is that of a tree "
            "(rigidblocks.linearize)"
        )
    for name, error in closure_errors(model, q).items():
        if max(error) > CLOSED:
            raise ValueError(
                f"{name} of model '{model.name}' is open by {max(error):.3g} rad or m; assemble() "
                "closes it"
            )
    opening = np.max(np.abs(position_constraints(model, q).K @ qd), initial=0.0)
    if opening > CLOSED * max(1.0, float(np.max(np.abs(qd)))):
        raise ValueError(
            f"the velocities open the loops of model '{model.name}' at {opening:.3g} rad/s or m/s; "
            "those of "
            "consistent_velocity() do not"
        )
