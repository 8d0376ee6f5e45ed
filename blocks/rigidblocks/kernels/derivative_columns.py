"""Columns of the joint-space inertia matrix and of first and second derivatives of dynamics.

Each column belongs to a velocity variable. Passes over the bodies compute the columns. C code then
multiplies the columns along the paths of the velocity variables in the tree. C tables contain these
paths (`structure_header`).

All quantities are in base coordinates. A change of a joint variable changes the velocity v of each
body in the subtree of the joint by dv, and its acceleration by da + dv x v. v = [w; vO] and dv =
[dw; dvO] consist of an angular and a linear component. B is the velocity-product matrix of a body
(`coriolis`). The matrix B of a subtree is the sum over its bodies.

Source: Carpentier and Mansard 2018; Singh, Russell and Wensing 2022.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from rigidblocks.dynamics.joint_kinematics import body_transform
from rigidblocks.kernels.per_body_functions import Algorithm, Pass
from rigidblocks.robot.joints import Joint
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import (
    Array,
    RigidInertia,
    Transform,
    cross,
    cross_force,
    cross_motion,
    skew,
)
from rigidblocks.tracing.trace import Traced

Results = tuple[Any, ...]


# functions of the passes


def place_body(model: Model, i: int, q: Array, X0_p: Transform) -> Results:
    """Return the pose X0, motion subspace and inertia of body i, in base coordinates.

    X0 and the pose X0_p of the parent are transforms from base to body coordinates. This function
    is a step of the outward pass.
    """
    XJ, S, _, _ = model.joint[i].jcalc(q, np.zeros(model.joint[i].nv))
    X0 = body_transform(model, i, XJ, q) @ X0_p
    return X0, _transform_to_base(X0, S), model.inertia[i].transform_to_parent(X0)


def accumulate_inertia(model: Model, i: int, S: Array, I: RigidInertia) -> Results:
    """Return the product I S for joint i, and the composite inertia I of the subtree of body i.

    S is the motion subspace of joint i. This function is a step of the inward pass, which adds I to
    the composite inertia of the parent.
    """
    del model, i
    return I @ S, I


class Moving(NamedTuple):
    """Motion of body i in base coordinates, with its inertia and velocity-product terms.

    Attributes:
        X0: Transform from base to body coordinates.
        S: Motion subspace (6, nv) of the joint.
        swept: Product v_p x S (6, nv), with the velocity v_p of the parent.
        v: Velocity (6,).
        c: Velocity-product acceleration (6,) relative to the parent.
        I0: Inertia.
        B1: Angular part (3, 3) of the velocity-product matrix B (`coriolis`).
        P: Linear momentum (3,).
        Bv: Velocity-product force B v (6,).
    """

    X0: Transform
    S: Array
    swept: Array
    v: Array
    c: Array
    I0: RigidInertia
    B1: Array
    P: Array
    Bv: Array


def body_motion(model: Model, i: int, q: Array, qd: Array, X0_p: Transform, v_p: Array) -> Moving:
    """Return the motion, inertia and velocity-product terms of body i in base coordinates.

    X0_p and v_p are the pose and velocity of the parent.
    """
    XJ, S, vJ, cJ = model.joint[i].jcalc(q, qd)
    X0 = body_transform(model, i, XJ, q) @ X0_p
    beyond = _transform_to_base(X0, vJ - S @ qd)  # zero unless the joint depends on time
    S = _transform_to_base(X0, S)
    swept = cross_motion(v_p, S)
    v = v_p + S @ qd + beyond
    c = swept @ qd + cross_motion(v_p, beyond) + _transform_to_base(X0, cJ)
    I = model.inertia[i].transform_to_parent(X0)
    B1, P = coriolis(I, v), I.m * v[3:] - cross(I.h, v[:3])
    Bv = np.concatenate([B1 @ v[:3], cross(v[:3], P)])
    return Moving(X0, S, swept, v, c, I, B1, P, Bv)


def static_body_force(
    model: Model, i: int, q: Array, qd: Array, X0_p: Transform, v_p: Array, a_p: Array
) -> Results:
    """Return the results of `body_motion`, and the acceleration and force of body i at qdd = 0.

    X0_p, v_p and a_p are the pose, velocity and acceleration of the parent. This function is a step
    of the outward pass.
    """
    body = body_motion(model, i, q, qd, X0_p, v_p)
    a = a_p + body.c
    return *body, body.I0, a, body.I0 @ a + body.Bv


def propagate_bias_force(
    model: Model, i: int, S: Array, I: RigidInertia, B1: Array, P: Array, f: Array
) -> Results:
    """Return the force of joint i, its covectors R (`_covectors`), and the sums over its subtree.

    The sums are the composite inertia I, the terms B1 and P of the velocity-product matrix
    (`coriolis`), and the force f. S is the motion subspace of the joint. This function is a step of
    the inward pass, which adds the sums to the sums of the parent.
    """
    del model, i
    return S.T @ f, _covectors(I, B1, P, S), I, B1, P, f


def propagate_acceleration(
    model: Model,
    i: int,
    q: Array,
    qd: Array,
    qdd: Array,
    X0: Transform,
    S: Array,
    swept: Array,
    v: Array,
    c: Array,
    I0: RigidInertia,
    Bv: Array,
    v_p: Array,
    a_p: Array,
) -> Results:
    """Return the acceleration and force of body i, and the derivatives of its motion.

    A change of q or qd changes the body velocity by dv = [dw; dvO]. It changes the acceleration by
    da + dv x v. v_p and a_p are the velocity and acceleration of the parent. The other arguments
    are fields of `Moving`. This function is a step of the outward pass.

    Returns:
        Acceleration a (6,); force I0 a + B v (6,); columns X (18, nv), which contain [2 dw; da] for
        q and then for qd; dS/dq (6, nv * nv); columns dvO (3, nv) for q.
    """
    dvJ, daJ, dcJ, dS = (
        _transform_to_base(X0, m) for m in _joint_changes(model.joint[i], q, qd, qdd)
    )
    a = a_p + S @ qdd + c
    dv = swept + dvJ
    da = cross_motion(a_p, S) + cross_motion(v_p, dv) + daJ - cross_motion(dvJ, v)
    by_q, by_qd = [2.0 * dv[:3], da], [2.0 * S[:3], 2.0 * swept + dcJ]
    return a, I0 @ a + Bv, np.vstack(by_q + by_qd), dS, dv[3:]


def propagate_force_derivative(
    model: Model,
    i: int,
    S: Array,
    I: RigidInertia,
    B1: Array,
    P: Array,
    f: Array,
    X: Array,
    dS: Array,
) -> Results:
    """Return the force of joint i, and the derivatives of the force on the subtree of body i.

        G_qd = I da + 2 B dv,    G_q = I da + 2 B dv + S x* f

    Each column of G is the derivative of the subtree force f (6,) with respect to a variable of
    joint i. The force of a joint k between the base and joint i has the derivative S_k^T G. The
    term S x* f exists because a change of q rotates the force with the bodies. I is the composite
    inertia. B1 and P define the velocity-product matrix B of the subtree (`coriolis`). X contains
    the columns [2 dw; da], and dS the derivative dS/dq (`propagate_acceleration`).

    Returns:
        The joint force S^T f (nv,), the columns G for q and qd, the term f^T dS/dq (nv, nv) of the
        joint force derivative, and the force f, which the inward pass adds to the parent.
    """
    nv = model.joint[i].nv
    by_q = _force(I, B1, P, X[:9]) + cross_force(S, f)
    G = np.vstack([by_q, _force(I, B1, P, X[9:])])
    return S.T @ f, G, (f @ dS).reshape(nv, nv), f


def propagate_given_acceleration(
    model: Model, i: int, q: Array, qd: Array, qdd: Array, X0_p: Transform, v_p: Array, a_p: Array
) -> Results:
    """Return the results of `body_motion` and `propagate_acceleration` for the given qdd."""
    body = body_motion(model, i, q, qd, X0_p, v_p)
    X0, S, swept, v, c, I0, B1, P, Bv = body
    *moved, _ = propagate_acceleration(model, i, q, qd, qdd, X0, S, swept, v, c, I0, Bv, v_p, a_p)
    return S, I0, B1, P, X0, v, *moved


def propagate_bias_and_derivative(
    model: Model,
    i: int,
    S: Array,
    I: RigidInertia,
    B1: Array,
    P: Array,
    f: Array,
    X: Array,
    dS: Array,
) -> Results:
    """Return the force of joint i and the derivatives of the force on the subtree of body i.

    The results of `propagate_bias_force` come first. Then follow the columns G and the term
    f^T dS/dq of `propagate_force_derivative`. The arguments are as in these functions.
    """
    _, G, own, _ = propagate_force_derivative(model, i, S, I, B1, P, f, X, dS)
    return *propagate_bias_force(model, i, S, I, B1, P, f), G, own


def _transform_to_base(X: Transform, m: Array) -> Array:
    """Transform motion vectors m from body to base coordinates; return X^-1 m.

    m is a vector (6,) or a matrix of columns (6, k).
    """
    w = X.E.T @ m[:3]
    return np.concatenate([w, X.E.T @ m[3:] + cross(X.r, w)])


def coriolis(I: RigidInertia, v: Array) -> Array:
    """Return B1 (3, 3) of the velocity-product matrix B of a body with the velocity v = [w; vO].

        B dv = (I (dv x v) + dv x* I v + v x* I dv) / 2 = [B1 dw; dw x p]
        B1   = w x (J - tr(J)/2 1) + (h . vO) 1 - vO h^T

    dv = [dw; dvO] is a change of v, and p the linear momentum. J is the rotational inertia in I, h
    the first moment of mass, and 1 the identity matrix. The force on a body with the acceleration a
    is I a + B v.
    """
    w, vO = v[:3], v[3:]
    one = np.eye(3)
    B1: Array = skew(w) @ (I.I - 0.5 * np.trace(I.I) * one) + (I.h @ vO) * one - np.outer(vO, I.h)
    return B1


def _force(I: RigidInertia, B1: Array, P: Array, X: Array) -> Array:
    """Return the change of the force on a subtree, I da + 2 B dv (6, nv).

        B dv = [B1 dw; dw x P]

    X = [2 dw; da] (9, nv) contains the changes of motion; dw is the angular component of dv. The
    composite inertia I, B1 (3, 3) of `coriolis` and the linear momentum P (3,) are sums over the
    bodies of the subtree.
    """
    dw, da = X[:3], X[3:]
    F: Array = I @ da + np.concatenate([B1 @ dw, cross(dw, P)])
    return F


def _covectors(I: RigidInertia, B1: Array, P: Array, S: Array) -> Array:
    """Return the covectors R = [B^T S; I S] (9, nv) of a joint.

    R^T X is the change of the joint force due to a change of motion X = [2 dw; da]. I is the
    composite inertia, and S (6, nv) the motion subspace. The velocity-product matrix B of the
    subtree has the terms B1 (3, 3) and P (3,): B dv = [B1 dw; dw x P]. R omits the rows of B^T S
    that do not multiply dw.
    """
    return np.vstack([B1.T @ S[:3] + cross(P, S[3:]), I @ S])


def _joint_changes(
    joint: Joint, q: Array, qd: Array, qdd: Array
) -> tuple[Array, Array, Array, Array]:
    """Return the derivatives of the velocity and acceleration of a joint.

        aJ = S qdd + cJ

    vJ is the joint velocity, aJ the joint acceleration, and cJ the velocity-product acceleration.
    All vectors are in the coordinates of the successor frame. If S is constant, all derivatives are
    exact zeros.

    Returns:
        d vJ/dq, d aJ/dq and d cJ/dqd + vJ x S, each (6, nv); dS/dq (6, nv * nv), whose columns are
        ordered by column of S and then by variable.
    """
    nv = joint.nv
    dq, dqd = ca.SX.sym("dq", nv), ca.SX.sym("dqd", nv)
    _, S, vJ, cJ = joint.jcalc(joint.integrate(q, traced_elements(dq)), qd + traced_elements(dqd))
    dvJ, daJ = (_derivative(m, dq, dqd) for m in (vJ, S @ qdd + cJ))
    still = joint.jcalc(q, qd)
    dcJ = _derivative(cJ, dqd, dq) + cross_motion(still.vJ, still.S)
    return dvJ, daJ, dcJ, _derivative(S, dq, dqd).reshape(6, nv * nv)


def traced_elements(symbol: ca.SX) -> Array:
    """Return the elements of a CasADi symbol as an array of traced scalars."""
    elements = np.empty(symbol.numel(), dtype=object)
    elements[:] = [Traced(symbol[k]) for k in range(symbol.numel())]
    return elements


def _derivative(values: Array, symbol: ca.SX, other_symbol: ca.SX) -> Array:
    """Return the derivatives of `values` with respect to `symbol`, at `symbol` = 0.

    The function also sets `other_symbol` in `values` to zero. The last index of the result is the
    element index of `symbol`.
    """
    flat = ca.vertcat(
        *(
            value.sx if isinstance(value, Traced) else ca.SX(float(value))
            for value in np.ravel(values)
        )
    )
    matrix = ca.jacobian(flat, symbol)
    matrix = ca.substitute(
        matrix, ca.vertcat(symbol, other_symbol), ca.SX.zeros(symbol.numel() + other_symbol.numel())
    )
    result = np.zeros(matrix.shape, dtype=object)
    for row, column in zip(*matrix.sparsity().get_triplet(), strict=True):
        entry = matrix[row, column]
        result[row, column] = 0.0 if entry.is_zero() else Traced(entry)
    return result.reshape(*np.shape(values), symbol.numel())


# algorithms: the passes, and the C loops between and after the passes

_ROWS = {"S": 6, "R": 9, "X": 18, "G": 12, "own": 0}


def _forward(
    accelerations: str, derivatives: str, *texts: str, forces: str = "", linear_rows: int = 0
) -> Algorithm:
    """Return the algorithm for the derivatives of forward dynamics.

        dqdd/dq = -H^-1 dtau/dq,  dqdd/dqd = -H^-1 dtau/dqd        at qdd = H^-1 (tau - C)

    H (nv, nv) is the joint-space inertia matrix, and C (nv,) the bias force. dtau/dq and dtau/dqd
    are derivatives of inverse dynamics. The acceleration qdd follows from the factorization
    H = L^T L (RBDA 6.5).

    `accelerations`, `forces` and `derivatives` are the C statements after the second, third and
    fourth pass. `texts` are the C files with the functions that these statements call. If
    `linear_rows` is 3, the columns contain dvO, the linear component of the velocity change dv. If
    it is 0, they omit dvO.
    """
    return Algorithm(
        inputs=("q", "qd", "tau"),
        output="qdd",
        shared=("X0", "v", "a", "I", "B1", "P", "f"),
        passes=(
            Pass(
                static_body_force,
                ("X0", "S", "swept", "v", "c", "I0", "B1", "P", "Bv", "I", "a", "f"),
            ),
            Pass(
                propagate_bias_force,
                ("tau0", "R", "I_p", "B1_p", "P_p", "f_p"),
                outward=False,
                after=accelerations,
            ),
            Pass(
                propagate_acceleration,
                ("a", "f", "X", "dS", "V" if linear_rows else ""),
                after=forces,
            ),
            Pass(
                propagate_force_derivative,
                ("tau0", "G", "own", "f_p"),
                outward=False,
                after=derivatives,
            ),
        ),
        columns={"tau0": 1, **_ROWS, "V": linear_rows},
        matrices=("dqdd_dq", "dqdd_dqd", "dqdd_dtau"),
        texts=("algorithms/tree_matrices.h", *texts),
        scratch=5,
    )


MATRICES = {
    "crba": Algorithm(
        inputs=("q",),
        shared=("X0", "I"),
        passes=(
            Pass(place_body, ("X0", "S", "I")),
            Pass(accumulate_inertia, ("F", "I_p"), outward=False, after="inertia_matrix(m, out);"),
        ),
        columns={"S": 6, "F": 6},
        matrices=("H",),
        texts=("algorithms/tree_matrices.h",),
    ),
    "drnea": Algorithm(
        inputs=("q", "qd", "qdd"),
        output="tau",
        shared=("X0", "v", "a", "I", "B1", "P", "f"),
        passes=(
            Pass(
                propagate_given_acceleration, ("S", "I", "B1", "P", "X0", "v", "a", "f", "X", "dS")
            ),
            Pass(
                propagate_bias_and_derivative,
                ("tau", "R", "I_p", "B1_p", "P_p", "f_p", "G", "own"),
                outward=False,
                after="force_derivatives(m, out + RB_N);",
            ),
        ),
        columns=_ROWS,
        matrices=("dtau_dq", "dtau_dqd", "dtau_dqdd"),
        texts=("algorithms/tree_matrices.h",),
    ),
    "daba": _forward(
        "accelerations(m, tau, work, qdd);",
        "motion_derivatives(m, tau, work, out);",
    ),
    "dclosed": _forward(
        "closed_accelerations(cells, {cells}, m, tau, work, qdd);",
        "closed_derivatives(m, tau, work, out);",
        "algorithms/closed_loops.h",
        forces="pull_bodies(cells, {cells}, {f}, work);",
        linear_rows=3,
    ),
}


def propagate_acceleration_with_dv(
    model: Model, i: int, q: Array, qd: Array, qdd: Array, X0_p: Transform, v_p: Array, a_p: Array
) -> Results:
    """Return the results of `propagate_given_acceleration`, and the linear component of v_p x S.

    If S is constant, v_p x S (6, nv) is the derivative of the body velocity with respect to q.
    """
    dv = body_motion(model, i, q, qd, X0_p, v_p).swept
    return *propagate_given_acceleration(model, i, q, qd, qdd, X0_p, v_p, a_p), dv[3:]


def propagate_bias_and_second_derivative(
    model: Model,
    i: int,
    S: Array,
    I: RigidInertia,
    B1: Array,
    P: Array,
    f: Array,
    X: Array,
    dS: Array,
    V: Array,
) -> Results:
    """Return the results of `propagate_bias_and_derivative`, and the terms Z, M and N.

    `_second_derivative_terms` defines these terms and V. The other arguments are as in
    `propagate_force_derivative`.
    """
    return *propagate_bias_and_derivative(
        model, i, S, I, B1, P, f, X, dS
    ), *_second_derivative_terms(S, I, B1, P, X, V)


def propagate_second_derivative(
    model: Model,
    i: int,
    S: Array,
    I: RigidInertia,
    B1: Array,
    P: Array,
    f: Array,
    X: Array,
    dS: Array,
    V: Array,
) -> Results:
    """Return the results of `propagate_force_derivative`, and the terms Z, M and N.

    `_second_derivative_terms` defines these terms and V. The other arguments are as in
    `propagate_force_derivative`.
    """
    return *propagate_force_derivative(model, i, S, I, B1, P, f, X, dS), *_second_derivative_terms(
        S, I, B1, P, X, V
    )


def _second_derivative_terms(
    S: Array, I: RigidInertia, B1: Array, P: Array, X: Array, V: Array
) -> Results:
    """Return the terms Z / 2, M and N of second derivatives, with one column per joint variable.

    I is the composite inertia of the subtree, and B its velocity-product matrix. B1 (3, 3) and the
    linear momentum P (3,) define B. B(I, v) is the velocity-product matrix (`coriolis`) of the
    inertia I at the velocity v. A change of q changes the body velocities by dv = [dw; dvO]. It
    changes I by dI, and B by dB:

        dI = S x* I - I S x,    dB = S x* B - B S x + B(I, dv)

    M is the matrix [dB dI]. N is B(I, S), the change of B due to a change of qd. Z is the matrix in
    the angular part Z dw + dvO x l of B(I, dv)^T S, and l is the linear part of I S.

    X contains the columns [2 dw; da], and V the columns dvO for q. S must be constant.

    Source: Singh, Russell and Wensing 2022.
    """
    dv = np.vstack([0.5 * X[:3], V])
    Z = [0.5 * _angular_momentum_map(I, s).ravel() for s in S.T]
    M = [_inertia_derivative(I, B1, P, s, d).ravel() for s, d in zip(S.T, dv.T, strict=True)]
    N = [np.vstack([coriolis(I, s), -skew(_momentum(I, s))]).ravel() for s in S.T]
    return np.transpose(Z), np.transpose(M), np.transpose(N)


def _angular_momentum_map(I: RigidInertia, S: Array) -> Array:
    """Return the matrix Z (3, 3) in Z dw + dvO x l, the angular part of B(I, dv)^T S.

    B(I, dv) is the velocity-product matrix (`coriolis`) of the inertia I at the velocity dv, which
    has the components dw and dvO. l is the linear part of the momentum I S.
    """
    w, sO = S[:3], S[3:]
    one = np.eye(3)
    Z: Array = (I.I - 0.5 * np.trace(I.I) * one) @ skew(w) - (I.h @ sO) * one + np.outer(I.h, sO)
    return Z


def _inertia_derivative(I: RigidInertia, B1: Array, P: Array, S: Array, dv: Array) -> Array:
    """Return M (6, 9), the change of [B I] of a subtree due to a motion S and a velocity change dv.

    The force on the subtree changes by [B I] X, with X = [2 dw; da]. B1 (3, 3) and the linear
    momentum P (3,) define B. `_second_derivative_terms` contains the equations.
    """
    w, sO = S[:3], S[3:]
    W, U, h = skew(w), skew(sO), skew(I.h)
    dh = skew(cross(w, I.h) + I.m * sO)
    dI = W @ I.I - I.I @ W - U @ h - h @ U
    dB = W @ B1 - B1 @ W + (sO @ P) * np.eye(3) - np.outer(P, sO) + coriolis(I, dv)
    dP = skew(cross(w, P) + _momentum(I, dv))
    return np.vstack([np.hstack([dB, dI, dh]), np.hstack([-dP, -dh, np.zeros((3, 3))])])


def _momentum(I: RigidInertia, v: Array) -> Array:
    """Return the linear momentum p (3,) = m vO - h x w of a body with the velocity v = [w; vO].

    m is the mass, and h (3,) the first moment of mass.
    """
    p: Array = I.m * v[3:] - cross(I.h, v[:3])
    return p


_INVERSE, _FORWARD = MATRICES["drnea"], MATRICES["daba"]
_MADE = {"V": 3, "Z": 9, "M": 54, "N": 18}
_TEXT = "algorithms/second_derivatives.h"


def _inward_pass(step: Callable[..., Results], first: Pass, after: str) -> Pass:
    """Return the inward pass of an algorithm for second derivatives.

    `step` is the function for one body. It returns the results of the pass `first`, followed by Z,
    M and N (`_second_derivative_terms`). `after` is the C statement after the pass.
    """
    return Pass(step, (*first.results, "Z", "M", "N"), outward=False, after=after)


TENSORS = {
    "ddrnea": replace(
        _INVERSE,
        passes=(
            Pass(propagate_acceleration_with_dv, (*_INVERSE.passes[0].results, "V")),
            _inward_pass(
                propagate_bias_and_second_derivative,
                _INVERSE.passes[1],
                "second_force_derivatives(m, out + RB_N);",
            ),
        ),
        columns={**_INVERSE.columns, **_MADE},
        tensors=("ddtau_dq_dq", "ddtau_dq_dqd", "ddtau_dq_dqdd", "ddtau_dqd_dqd"),
        texts=(*_INVERSE.texts, _TEXT),
    ),
    "ddaba": replace(
        _FORWARD,
        passes=(
            *_FORWARD.passes[:2],
            Pass(propagate_acceleration, ("a", "f", "X", "dS", "V")),
            _inward_pass(
                propagate_second_derivative,
                _FORWARD.passes[3],
                "second_motion_derivatives(m, tau, work, out);",
            ),
        ),
        columns={**_FORWARD.columns, **_MADE},
        tensors=("ddqdd_dq_dq", "ddqdd_dq_dqd", "ddqdd_dq_dtau", "ddqdd_dqd_dqd"),
        texts=(*_FORWARD.texts, _TEXT),
    ),
}


DEEP = 50  # at a larger mean depth of the variables, articulated-body passes apply H^-1 faster
LEAST_DEEP = 100  # number of variables for which the workspace of these passes is large enough


def is_deep(model: Model) -> bool:
    """Return True if articulated-body passes apply H^-1 faster than the factors of H.

    The model must have at least `LEAST_DEEP` velocity variables. The mean number of variables on
    the path from the base to a variable must be above `DEEP`.
    """
    depth: list[int] = []
    for before in _variables_before(model):
        depth.append(1 + (depth[before] if before >= 0 else 0))
    return len(depth) >= LEAST_DEEP and sum(depth) > DEEP * len(depth)


def structure_header(model: Model, own: int, in_plane: bool = False, deep: bool = False) -> str:
    """Return the C tables of the paths of velocity variables, for c/algorithms/tree_matrices.h.

    Args:
        model: The model.
        own: Largest number of velocity variables of a joint; 0 if all motion subspaces S are
            constant.
        in_plane: True if vectors have the three elements of planar vectors.
        deep: True if articulated-body passes apply H^-1.
    """
    joint = [i for i, s in enumerate(model.v_slices) for _ in range(s.start, s.stop)]
    last = [model.v_slices[i].stop for i in joint]
    before = _variables_before(model)
    run = list(range(model.nv))
    for k in range(1, model.nv):
        if before[k] == k - 1:
            run[k] = run[k - 1]
    end = [k + 1 for k in range(model.nv)]
    for k in reversed(range(model.nv)):
        if before[k] >= 0:
            end[before[k]] = max(end[before[k]], end[k])
    return "\n".join(
        [
            "#ifndef RB_STRUCTURE_H\n#define RB_STRUCTURE_H\n",
            *(["#define RB_IN_PLANE 1"] if in_plane else []),
            *(["#define RB_DEEP 1"] if deep else []),
            f"enum {{ RB_N = {model.nv}, RB_OWN = {own} }};",
            _table("FIRST", (model.v_slices[i].start for i in joint)),
            _table("LAST", last),
            _table("BEFORE", before),
            _table("RUN", run),
            _table("END", end),
            "\n#endif\n",
        ]
    )


def _variables_before(model: Model) -> list[int]:
    """Return, for each variable, the index of the previous variable on the path from the base.

    The index is -1 for the first variable of a path.
    """
    last = last_variables(model)
    return [
        last[p] if k == s.start else k - 1
        for p, s in zip(model.parent, model.v_slices, strict=True)
        for k in range(s.start, s.stop)
    ]


def last_variables(model: Model) -> dict[int, int]:
    """Return the last velocity variable on the path from the base to each body, by body index.

    The key of the base is -1. The value is the index of the variable, or -1 if the path has no
    variables.
    """
    last = {-1: -1}
    for i, p in enumerate(model.parent):
        s = model.v_slices[i]
        last[i] = s.stop - 1 if s.stop > s.start else last[p]
    return last


def _table(name: str, numbers: Iterable[int]) -> str:
    return f"static const int RB_{name}[RB_N] = {{{', '.join(map(str, numbers))}}};"
