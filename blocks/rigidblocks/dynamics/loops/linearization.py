"""Linearised dynamics of systems with loops (Spencer 2004, chapter 4).

The linear system is in independent coordinates, which the user chooses. `loop_linearization` uses
recursions if all joints have a constant motion subspace S and velocities that are the derivatives
of the positions.

The recursions of Spencer 2004, 4.3 and 4.4, do not apply to joints with a quaternion or a variable
S. For models with such joints, `tangent_linearization` computes the derivatives with dual numbers.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.dynamics import bias_force, check_lengths, crba, rnea
from rigidblocks.dynamics.joint_kinematics import velocity_columns
from rigidblocks.dynamics.loops.assembly import closure_errors, cut_state, cut_tree
from rigidblocks.dynamics.loops.constraints import (
    loop_constraints,
    object_array,
    position_constraints,
)
from rigidblocks.dynamics.recursive_derivatives import (
    InverseDerivatives,
    JacobianDerivatives,
    check_constant_subspaces,
    jacobian_derivatives,
    rnea_derivatives,
)
from rigidblocks.robot.configuration import difference, integrate_unchecked
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.scalar import Dual
from rigidblocks.spatial.spatial import Array

RANK = 1e-9  # constraints below this fraction of the largest singular value are dependent
CLOSED = 1e-6  # largest loop error [rad, m], and largest velocity error relative to the velocities


class LoopLinearization(NamedTuple):
    """Linear system near an operating point, in the deviations of x = (y, dy/dt).

        dx/dt = A dx + B dtau + residual,   A = [[0, 1], [A21, A22]]

    y (p,) contains the independent coordinates. The velocities of the tree joints are G dy/dt.

    Attributes:
        A: State matrix (2p, 2p).
        B: Input matrix (2p, nv) for the forces of the tree joints.
        residual: Derivative dx/dt = (dy/dt, d2y/dt2) (2p,) at the operating point.
        G: Matrix (nv, p) from dy/dt to the velocities.
        names: Names of the coordinates.
    """

    A: Array
    B: Array
    residual: Array
    G: Array
    names: tuple[str, ...]

    @property
    def eigenvalues(self) -> Array:
        """Eigenvalues of A (2p,) [1/s], sorted by decreasing real part.

        At an equilibrium, the eigenvalues do not depend on the choice of coordinates. At other
        operating points the eigenvalues depend on this choice (Spencer 2004, 4.1).
        """
        values: Array = np.linalg.eigvals(self.A)
        return values[np.lexsort((-values.imag, -values.real))]


class Parametrization(NamedTuple):
    """Derivatives of the n position variables q of the cut tree with respect to y (p,).

    Attributes:
        G: dq/dy (n, p).
        Gdot: First time derivative of G (n, p).
        Gddot: Second time derivative of G (n, p).
        dG: Derivatives of G (n, p, n); dG[..., j] is the derivative with respect to q[j].
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
    """Linearise the dynamics of a system with loops in independent coordinates y.

        A21 = -(G^T H G)^-1 ([dG^T/dy_i tau'] + G^T (dtau/dq G + dtau/dqd Gdot + H Gddot))
        A22 = -(G^T H G)^-1 G^T (dtau/dqd G + 2 H Gdot)
        tau' = rnea(q, qd, qdd) - tau    (Spencer 2004, 4.2, App. B)

    G = dq/dy, and Gdot and Gddot are its time derivatives. H is the inertia matrix, and dtau/dq and
    dtau/dqd are the derivatives of rnea.

    For revolute, prismatic, helical and cylindrical joints, recursions compute these matrices
    without finite differences and without a tracer. These joints have a constant S and velocities
    that are the derivatives of their positions.

    For other joint types in the tree or in a loop, y = R delta. The velocities delta move the model
    from the operating point to q in unit time. R (p, nv) then refers only to the tree joints. The
    derivatives follow from dual numbers and are also exact (`tangent_linearization`).

    Args:
        model: Model with loops.
        q: Configuration (nq,) that closes the loops.
        qd: Velocities (nv,) that keep the loops closed.
        tau: Joint forces (nv,), constant.
        independent: Names or indices of the joints whose positions are y, including loop joints.
            Alternatively, the matrix R (p, n) in y = R q. The columns of R correspond to the
            variables of the tree joints, followed by the variables of the loop joints.
        gravity: Gravity; by default model.gravity.

    Raises:
        ValueError: A joint is nonholonomic, the state opens the loops, or the coordinates are too
            few, too many or dependent.
    """
    check_lengths(model, q=q, qd=qd, tau=tau)
    _check_closed(model, q, qd)
    tree = cut_tree(model)
    if not _has_constant_subspaces(tree):
        return _linearize_any_joints(model, q, qd, tau, independent, gravity)
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
    A, B = _state_matrices(H, parameters, forces, tau)
    return LoopLinearization(A, B, residual, parameters.G[:n], names)


def _linearize_any_joints(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    independent: Iterable[str | int] | Array,
    gravity: Array | None,
) -> LoopLinearization:
    R, names = _selection(model, independent)
    _inverse(model, R, position_constraints(model, q).K)  # raises an error for an invalid R
    return LoopLinearization(*tangent_linearization(model, q, qd, tau, R, gravity), names)


def _state_matrices(
    H: Array, parameters: Parametrization, forces: InverseDerivatives, tau: Array
) -> tuple[Array, Array]:
    """Return the state matrix A (2p, 2p) and input matrix B (2p, nv) of the linear system in y.

    H is the inertia matrix of the tree. `parameters` defines q as a function of y. `forces`
    contains the inverse dynamics of the tree and its derivatives, and tau (nv,) the joint forces.
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
    """Return the accelerations (n,) of the cut tree and the pseudo-inverse of [R; K].

    R (p, n) selects the coordinates y, and K contains the loop constraints of the cut tree. `force`
    (nv,) is the joint force minus the bias force of the tree.
    """
    J = jacobian_derivatives(tree, q, qd, np.zeros(tree.nv))
    inverse = _inverse(tree, R, _constraints(model, J.J))
    G, g = inverse[:, : len(R)], -inverse[:, len(R) :] @ (_constraints(model, J.Jdot) @ qd)
    n, H = model.nv, crba(model, q[: model.nq])
    ydd = np.linalg.solve(G[:n].T @ H @ G[:n], G[:n].T @ (force - H @ g[:n]))
    return G @ ydd + g, inverse


def _parametrization(model: Tree, J: JacobianDerivatives, inverse: Array) -> Parametrization:
    """Return the matrix G in dq = G dy, and its derivatives (Spencer 2004, 4.4).

    J contains the body Jacobians of the cut tree, and `inverse` is the pseudo-inverse of [R; K].
    """
    K, dK, Kdot, Kddot = (_constraints(model, part) for part in J)
    p = inverse.shape[1] - len(K)
    G, constraint_inverse = inverse[:, :p], inverse[:, p:]
    Gdot = -constraint_inverse @ (Kdot @ G)
    Gddot = -constraint_inverse @ (Kddot @ G + 2.0 * (Kdot @ Gdot))
    dG = -np.einsum("am,mbj,bi->aij", constraint_inverse, dK, G)
    return Parametrization(G, Gdot, Gddot, dG)


def _constraints(model: Tree, J: Array) -> Array:
    """Return the constraint matrix of the cut tree, stacked over the loop joints.

    The rows of a loop joint are the Jacobian of its successor frame minus the Jacobian of its
    virtual body. J (nb + nl, 6, ...) contains the Jacobians of the bodies of the cut tree. If J
    contains derivatives of these Jacobians, the result contains the derivatives of the matrix.
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
    """Return the pseudo-inverse of [R; K], for coordinates y = R q and loop constraints K.

    Raises:
        ValueError: The number of coordinates is not the mobility, or they are dependent.
    """
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
            f"the coordinates chosen for model '{tree.name}' are dependent in this configuration: "
            f"the condition number of [R; K] is {both[0] / max(both[tree.nv - 1], 1e-300):.2g}; "
            "choose other coordinates"
        )
    inverse: Array = np.linalg.pinv(np.vstack([R, K]), rcond=RANK)
    return inverse


def _selection(
    tree: Tree, independent: Iterable[str | int] | Array
) -> tuple[Array, tuple[str, ...]]:
    """Return the matrix R (p, n) of the coordinates y = R q, and the names of the coordinates."""
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


def _has_constant_subspaces(tree: Tree) -> bool:
    """Return True if all velocities are derivatives of positions and each S is constant."""
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
    """Raise ValueError if q or qd violates the loop constraints, or if the model has no loops."""
    if not model.loops:
        raise ValueError(f"model '{model.name}' has no loops; use rigidblocks.linearize")
    for name, error in closure_errors(model, q).items():
        if max(error) > CLOSED:
            raise ValueError(
                f"{name} of model '{model.name}' is open by {max(error):.3g} rad or m; assemble() "
                "closes it"
            )
    opening = np.max(np.abs(position_constraints(model, q).K @ qd), initial=0.0)
    if opening > CLOSED * max(1.0, float(np.max(np.abs(qd)))):
        raise ValueError(
            f"velocities violate the loop constraints of model '{model.name}' by {opening:.3g} "
            "(rad/s or m/s); use consistent_velocity()"
        )


class TangentLinearization(NamedTuple):
    """Linear system in the coordinates y = R delta of `tangent_linearization`.

    The fields have the same meaning as in `LoopLinearization`.
    """

    A: Array
    B: Array
    residual: Array
    G: Array


class _Point(NamedTuple):
    """Operating point: state, accelerations qdd, multipliers lam and inertia matrix H.

    [N, constraint_inverse] is the pseudo-inverse of [R; K]. R defines the coordinates y = R delta
    of `tangent_linearization`, and K is the constraint matrix.
    """

    q: Array
    qd: Array
    qdd: Array
    lam: Array
    R: Array
    N: Array
    constraint_inverse: Array
    H: Array


def tangent_linearization(
    model: Tree, q: Array, qd: Array, tau: Array, R: Array, gravity: Array | None = None
) -> TangentLinearization:
    """Linearise the dynamics in the coordinates y = R delta, near a closed-loop state.

        [H -K^T; K 0] [dqdd; dlam] = -d[rnea(q, qd, qdd) - K^T lam; K qdd - k]

    The velocities delta (nv,) move the model from the operating point to q in unit time. The
    function computes exact differentials with dual numbers along 2p directions. In each direction,
    dq = N dy and K dqd = -dK qd, so the loops remain closed. N (nv, p) is the matrix G of the
    result.

    Args:
        model: Model with loops.
        q: Configuration (nq,).
        qd: Velocities (nv,).
        tau: Joint forces (nv,).
        R: Matrix (p, nv) of the coordinates.
        gravity: Gravity; by default model.gravity.

    Raises:
        ValueError: A joint is nonholonomic: it has more degrees of freedom in position than in
            velocity.
    """
    check_holonomic(model)
    point = _operating_point(model, q, qd, tau, R, gravity)
    p, N = len(R), point.N
    M = np.linalg.inv(N.T @ point.H @ N)
    columns = [_column(model, point, M, unit, gravity) for unit in np.eye(2 * p)]
    still = np.zeros(model.nv)
    rate, second = _y_rates(model, point, still, still, still)
    residual = np.array([_value(one) for one in (*rate, *second)])
    B = np.vstack([np.zeros((p, model.nv)), M @ N.T])
    return TangentLinearization(np.array(columns).T, B, residual, N)


def _column(model: Tree, point: _Point, M: Array, unit: Array, gravity: Array | None) -> Array:
    """Return one column of A: the derivative of (dy/dt, d2y/dt2) along `unit`.

    `unit` (2p,) is a unit vector in the space of (y, dy/dt). M is (N^T H N)^-1, with the fields N
    and H of `point`.
    """
    p, N, still = len(point.R), point.N, np.zeros(model.nv)
    dq, dyd = N @ unit[:p], unit[p:]
    first = _slopes(_y_rates(model, point, dq, still, still)[0])
    opening = _slopes(_constraint_rates(model, point, dq))
    dqd = N @ (dyd - first) - point.constraint_inverse @ opening
    force, error = _residual_slopes(model, point, dq, dqd, gravity)
    across = -(point.constraint_inverse @ error)
    dqdd = across - N @ (M @ (N.T @ (force + point.H @ across)))
    return np.concatenate([dyd, _slopes(_y_rates(model, point, dq, dqd, dqdd)[1])])


def difference_rates(
    model: Tree, origin: Array, q: Array, qd: Array, qdd: Array
) -> tuple[Array, Array]:
    """Return the first and second time derivatives (nv,) of the difference from `origin` to q.

    q moves with the velocities qd and the accelerations qdd.
    """
    step = [Dual(Dual(0.0, a), Dual(a, b)) for a, b in zip(qd, qdd, strict=True)]
    here = [Dual(Dual(one, 0.0), Dual(0.0, 0.0)) for one in q]
    delta = difference(
        model, origin, integrate_unchecked(model, object_array(here), object_array(step))
    )
    first = [_part(_part(one, "slope"), "value") for one in delta]
    second = [_part(_part(one, "slope"), "slope") for one in delta]
    return object_array(first), object_array(second)


def _operating_point(
    model: Tree, q: Array, qd: Array, tau: Array, R: Array, gravity: Array | None
) -> _Point:
    K, k, _ = loop_constraints(model, q, qd)
    inverse = np.linalg.pinv(np.vstack([R, K]), rcond=RANK)
    N, constraint_inverse = inverse[:, : len(R)], inverse[:, len(R) :]
    H, g = crba(model, q), constraint_inverse @ k
    force = tau - bias_force(model, q, qd, None, gravity)
    qdd = N @ np.linalg.solve(N.T @ H @ N, N.T @ (force - H @ g)) + g
    lam = np.linalg.lstsq(K.T, H @ qdd - force, rcond=RANK)[0]
    return _Point(q, qd, qdd, lam, R, N, constraint_inverse, H)


def _displaced_configuration(point: _Point, model: Tree, dq: Array) -> Array:
    """Return the configuration at the operating point as dual numbers, with the dual part dq."""
    return integrate_unchecked(
        model, _dual(point.q, np.zeros(len(point.q))), _dual(np.zeros(len(dq)), dq)
    )


def _residual_slopes(
    model: Tree, point: _Point, dq: Array, dqd: Array, gravity: Array | None
) -> tuple[Array, Array]:
    """Return the derivatives of the force residual and of K qdd - k along dq and dqd.

    The force residual is rnea(q, qd, qdd) - K^T lam.
    """
    q, qd = _displaced_configuration(point, model, dq), _dual(point.qd, dqd)
    K, k, _ = loop_constraints(model, q, qd)
    force = rnea(model, q, qd, point.qdd, None, gravity) - K.T @ point.lam
    return _slopes(force), _slopes(K @ point.qdd - k)


def _constraint_rates(model: Tree, point: _Point, dq: Array) -> Array:
    """Return the velocity errors K qd as dual numbers, for a displacement dq and unchanged qd."""
    q = _displaced_configuration(point, model, dq)
    rates: Array = loop_constraints(model, q, point.qd).K @ point.qd
    return rates


def _y_rates(model: Tree, point: _Point, dq: Array, dqd: Array, dqdd: Array) -> tuple[Array, Array]:
    """Return dy/dt and d2y/dt2 as dual numbers, for small deviations from the operating point.

    The deviations of q, qd and qdd are dq, dqd and dqdd, which are the dual parts. The time
    derivatives belong to the motion `integrate(q, qd t + qdd t^2/2)` at t = 0.
    """
    qd, qdd = _dual(point.qd, dqd), _dual(point.qdd, dqdd)
    first, second = difference_rates(
        model, point.q, _displaced_configuration(point, model, dq), qd, qdd
    )
    return point.R @ first, point.R @ second


def _part(number: Any, name: str) -> Any:
    if isinstance(number, Dual):
        return getattr(number, name)
    return number if name == "value" else 0.0


def _value(number: Any) -> float:
    return float(_part(number, "value"))


def _slopes(values: Array) -> Array:
    return np.array([float(_part(one, "slope")) for one in values])


def _dual(values: Array, slopes: Array) -> Array:
    return object_array([Dual(a, b) for a, b in zip(values.tolist(), slopes.tolist(), strict=True)])


def check_holonomic(model: Tree) -> None:
    """Raise ValueError for a joint with more degrees of freedom in position than in velocity."""
    for name, joint in zip(model.joint_names, model.joint, strict=True):
        freedoms = joint.nq - joint.q_units.count("1") // 4  # a quaternion has one extra variable
        if freedoms != joint.nv:
            raise ValueError(
                f"{name} of model '{model.name}' is {joint}, which has {freedoms} degrees of "
                f"freedom in position but only {joint.nv} in velocity, so y does not contain its "
                "position; use linearize() of a ClosedLoopPlant"
            )
