"""What the joint-space inertia matrix and the derivatives of dynamics are made of: columns that
belong to velocity variables, by passes over the bodies.

All is in base coordinates. A change of variable j gives the bodies that it supports, seen from
them, one velocity dv and the acceleration da + dv x v, so that it takes the force F = I^c da + 2
B^c dv on all of them (Carpentier and Mansard 2018; Singh, Russell and Wensing 2022), where for one
body

    B dv = (I (dv x v) + dv x* I v + v x* I dv) / 2 = [B1 dw; dw x p],  p = the linear momentum
    B1   = w x (I - tr(I)/2 1) + (h . vO) 1 - vO h^T

so that the force on a body on its own is I a + B v. Then dtau_i = S_i . F for a joint i that j
supports, R_i . X_j with R = [B^T S; I^c S] and X = [2 dw; da]; and for one that supports j it is
S_i . G_j with G = F + S_j x* f^c for q, whose change turns the force with the bodies.

Forward dynamics are differentiated at the qdd that H gives, H = L^T L (RBDA 6.5), which the
derivatives need anyway:

    dqdd/dq = -H^-1 dtau/dq,  dqdd/dqd = -H^-1 dtau/dqd        at qdd = H^-1 (tau - C)
"""

from typing import Any, NamedTuple

import casadi as ca
import numpy as np

from rigidblocks.algebra.spatial import (
    Array,
    RigidInertia,
    Transform,
    cross,
    cross_force,
    cross_motion,
    skew,
)
from rigidblocks.dynamics.sweeps import to_body
from rigidblocks.joint import Joint
from rigidblocks.kernels.leaves import Algorithm, Pass
from rigidblocks.model.model import Model
from rigidblocks.tracing.trace import Traced

Results = tuple[Any, ...]


# steps of the passes


def placed(model: Model, i: int, q: Array, X0_p: Transform) -> Results:
    """Outward: X0, S and the inertia of body i."""
    XJ, S, _, _ = model.joint[i].jcalc(q, np.zeros(model.joint[i].nv))
    X0 = to_body(model, i, XJ, q) @ X0_p
    return X0, _to_base(X0, S), model.inertia[i].to_parent(X0)


def joined(model: Model, i: int, S: Array, I: RigidInertia) -> Results:
    """Inward: the momenta I^c S of the subtree, and its inertia for the parent."""
    del model, i
    return I @ S, I


class Moving(NamedTuple):
    """Body i that moves: X0, S, v_p x S, v, v_p x vJ + cJ, and of the body on its own I, B1, p and
    B v.
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


def moving(model: Model, i: int, q: Array, qd: Array, X0_p: Transform, v_p: Array) -> Moving:
    """What the velocities alone make of body i."""
    XJ, S, vJ, cJ = model.joint[i].jcalc(q, qd)
    X0 = to_body(model, i, XJ, q) @ X0_p
    beyond = _to_base(X0, vJ - S @ qd)  # nothing but where the joint depends on time
    S = _to_base(X0, S)
    swept = cross_motion(v_p, S)
    v = v_p + S @ qd + beyond
    c = swept @ qd + cross_motion(v_p, beyond) + _to_base(X0, cJ)
    I = model.inertia[i].to_parent(X0)
    B1, P = coriolis(I, v), I.m * v[3:] - cross(I.h, v[:3])
    Bv = np.concatenate([B1 @ v[:3], cross(v[:3], P)])
    return Moving(X0, S, swept, v, c, I, B1, P, Bv)


def at_rest(
    model: Model, i: int, q: Array, qd: Array, X0_p: Transform, v_p: Array, a_p: Array
) -> Results:
    """Outward: body i, and the force on it on its own, where no joint accelerates."""
    body = moving(model, i, q, qd, X0_p, v_p)
    a = a_p + body.c
    return *body, body.I0, a, body.I0 @ a + body.Bv


def biased(
    model: Model, i: int, S: Array, I: RigidInertia, B1: Array, P: Array, f: Array
) -> Results:
    """Inward: the force of joint i, R, and what its parent feels of the subtree."""
    del model, i
    return S.T @ f, _covectors(I, B1, P, S), I, B1, P, f


def accelerated(
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
    """Outward: the acceleration of body i, the force on it, X, how S changes, and the linear part
    of dv by q.
    """
    dvJ, daJ, dcJ, dS = (_to_base(X0, m) for m in _joint_changes(model.joint[i], q, qd, qdd))
    a = a_p + S @ qdd + c
    dv = swept + dvJ
    da = cross_motion(a_p, S) + cross_motion(v_p, dv) + daJ - cross_motion(dvJ, v)
    by_q, by_qd = [2.0 * dv[:3], da], [2.0 * S[:3], 2.0 * swept + dcJ]
    return a, I0 @ a + Bv, np.vstack(by_q + by_qd), dS, dv[3:]


def changed(
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
    """Inward: the force of joint i, G, what a change of S alone does to it, and the force for the
    parent.
    """
    nv = model.joint[i].nv
    by_q = _force(I, B1, P, X[:9]) + cross_force(S, f)
    G = np.vstack([by_q, _force(I, B1, P, X[9:])])
    return S.T @ f, G, (f @ dS).reshape(nv, nv), f


def driven(
    model: Model, i: int, q: Array, qd: Array, qdd: Array, X0_p: Transform, v_p: Array, a_p: Array
) -> Results:
    """Outward: `moving` and `accelerated`, where qdd is given."""
    body = moving(model, i, q, qd, X0_p, v_p)
    X0, S, swept, v, c, I0, B1, P, Bv = body
    *moved, _ = accelerated(model, i, q, qd, qdd, X0, S, swept, v, c, I0, Bv, v_p, a_p)
    return S, I0, B1, P, X0, v, *moved


def supported(
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
    """Inward: `biased` and `changed` at once."""
    _, G, own, _ = changed(model, i, S, I, B1, P, f, X, dS)
    return *biased(model, i, S, I, B1, P, f), G, own


def _to_base(X: Transform, m: Array) -> Array:
    """The motion vector or columns X^-1 m, where X takes base to body coordinates."""
    w = X.E.T @ m[:3]
    return np.concatenate([w, X.E.T @ m[3:] + cross(X.r, w)])


def coriolis(I: RigidInertia, v: Array) -> Array:
    """B1 = w x (I - tr(I)/2 1) + (h . vO) 1 - vO h^T, of a body on its own."""
    w, vO = v[:3], v[3:]
    one = np.eye(3)
    B1: Array = skew(w) @ (I.I - 0.5 * np.trace(I.I) * one) + (I.h @ vO) * one - np.outer(vO, I.h)
    return B1


def _force(I: RigidInertia, B1: Array, P: Array, X: Array) -> Array:
    """F = I^c da + 2 B^c dv (6, nv) of X = [2 dw; da]."""
    dw, da = X[:3], X[3:]
    F: Array = I @ da + np.concatenate([B1 @ dw, cross(dw, P)])
    return F


def _covectors(I: RigidInertia, B1: Array, P: Array, S: Array) -> Array:
    """R = [B^T S; I^c S] (9, nv), of B^T S the part that works on dw."""
    return np.vstack([B1.T @ S[:3] + cross(P, S[3:]), I @ S])


def _joint_changes(
    joint: Joint, q: Array, qd: Array, qdd: Array
) -> tuple[Array, Array, Array, Array]:
    """How a joint's own vectors change, in F_s coordinates, with its nv variables: exact zeros
    where S is constant.

    vJ by q (6, nv), S qdd + cJ by q (6, nv), cJ by qd and vJ x S (6, nv), and S by q (6, nv nv),
    the column of S first.
    """
    nv = joint.nv
    dq, dqd = ca.SX.sym("dq", nv), ca.SX.sym("dqd", nv)
    _, S, vJ, cJ = joint.jcalc(joint.integrate(q, _traced(dq)), qd + _traced(dqd))
    dvJ, daJ = (_derivative(m, dq, dqd) for m in (vJ, S @ qdd + cJ))
    still = joint.jcalc(q, qd)
    dcJ = _derivative(cJ, dqd, dq) + cross_motion(still.vJ, still.S)
    return dvJ, daJ, dcJ, _derivative(S, dq, dqd).reshape(6, nv * nv)


def _traced(symbol: ca.SX) -> Array:
    elements = np.empty(symbol.numel(), dtype=object)
    elements[:] = [Traced(symbol[k]) for k in range(symbol.numel())]
    return elements


def _derivative(values: Array, symbol: ca.SX, other: ca.SX) -> Array:
    """The derivatives of traced values by a symbol (its index is the last), where that one and the
    other are zero.
    """
    flat = ca.vertcat(
        *(
            value.sx if isinstance(value, Traced) else ca.SX(float(value))
            for value in np.ravel(values)
        )
    )
    matrix = ca.jacobian(flat, symbol)
    matrix = ca.substitute(
        matrix, ca.vertcat(symbol, other), ca.SX.zeros(symbol.numel() + other.numel())
    )
    result = np.zeros(matrix.shape, dtype=object)
    for row, column in zip(*matrix.sparsity().get_triplet(), strict=True):
        entry = matrix[row, column]
        result[row, column] = 0.0 if entry.is_zero() else Traced(entry)
    return result.reshape(*np.shape(values), symbol.numel())


# the algorithms: their passes, and the loops in C between and after them

_ROWS = {"S": 6, "R": 9, "X": 18, "G": 12, "own": 0}


def _forward(
    accelerations: str, derivatives: str, *texts: str, forces: str = "", linear: int = 0
) -> Algorithm:
    """Derivatives of forward dynamics, by what is done in C between and after the passes, with so
    many `linear` rows of dv.
    """
    return Algorithm(
        inputs=("q", "qd", "tau"),
        output="qdd",
        shared=("X0", "v", "a", "I", "B1", "P", "f"),
        passes=(
            Pass(
                at_rest,
                ("X0", "S", "swept", "v", "c", "I0", "B1", "P", "Bv", "I", "a", "f"),
            ),
            Pass(
                biased,
                ("tau0", "R", "I_p", "B1_p", "P_p", "f_p"),
                outward=False,
                after=accelerations,
            ),
            Pass(accelerated, ("a", "f", "X", "dS", "V" if linear else ""), after=forces),
            Pass(
                changed,
                ("tau0", "G", "own", "f_p"),
                outward=False,
                after=derivatives,
            ),
        ),
        columns={"tau0": 1, **_ROWS, "V": linear},
        matrices=("dqdd_dq", "dqdd_dqd", "dqdd_dtau"),
        texts=("algorithms/inertia.h", "algorithms/derivatives.h", *texts),
        scratch=5,
    )


MATRICES = {
    "crba": Algorithm(
        inputs=("q",),
        shared=("X0", "I"),
        passes=(
            Pass(placed, ("X0", "S", "I")),
            Pass(joined, ("F", "I_p"), outward=False, after="inertia_matrix(m, out);"),
        ),
        columns={"S": 6, "F": 6},
        matrices=("H",),
        texts=("algorithms/inertia.h",),
    ),
    "drnea": Algorithm(
        inputs=("q", "qd", "qdd"),
        output="tau",
        shared=("X0", "v", "a", "I", "B1", "P", "f"),
        passes=(
            Pass(driven, ("S", "I", "B1", "P", "X0", "v", "a", "f", "X", "dS")),
            Pass(
                supported,
                ("tau", "R", "I_p", "B1_p", "P_p", "f_p", "G", "own"),
                outward=False,
                after="force_derivatives(m, out + RB_N);",
            ),
        ),
        columns=_ROWS,
        matrices=("dtau_dq", "dtau_dqd", "dtau_dqdd"),
        texts=("algorithms/inertia.h", "algorithms/derivatives.h"),
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
        linear=3,
    ),
}
