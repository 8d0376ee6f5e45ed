"""Exact derivatives of traced functions."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, overload

import casadi as ca
import numpy as np

from rigidblocks.algebra.linear import block_diagonal
from rigidblocks.algebra.spatial import (
    Array,
    RigidInertia,
    Transform,
    cross,
    cross_force,
    cross_motion,
    skew,
)
from rigidblocks.dynamics import aba
from rigidblocks.dynamics.sweeps import (
    base_transforms,
    joint_kinematics,
    minus_gravity,
    per_body,
    support,
)
from rigidblocks.joint import Joint
from rigidblocks.model.model import Model
from rigidblocks.tracing.batch import CompiledBatch
from rigidblocks.tracing.ccode import c_text
from rigidblocks.tracing.function import CompiledFunction, compiled_form
from rigidblocks.tracing.trace import Traced, trace
from rigidblocks.tracing.written import Finish


@overload
def derivatives(model: Model, algorithm: str) -> CompiledFunction: ...


@overload
def derivatives(
    model: Model, algorithm: str, *, batch: Literal[True], lanes: int | None = None
) -> CompiledBatch: ...


def derivatives(
    model: Model, algorithm: str, *, batch: bool = False, lanes: int | None = None
) -> CompiledFunction | CompiledBatch:
    """The compiled exact derivatives of forward dynamics, "aba", or of inverse dynamics, "rnea".

    Of (q, qd, tau) the first gives qdd and dqdd_dq, dqdd_dqd and dqdd_dtau = H^-1; of (q, qd, qdd)
    the second gives tau and dtau_dq, dtau_dqd and dtau_dqdd = H: the value (nv,) and three matrices
    (nv, nv). The derivative by q is by the velocity variables that move it, q (+) dq at dq = 0, so
    with a quaternion in q too. There are no external wrenches.

    The columns that the derivatives are made of are traced (Carpentier and Mansard 2018; Singh,
    Russell and Wensing 2022); the products of them, and the solution with H = L^T L (RBDA 6.5), are
    loops in C.

        dqdd/dq = -H^-1 dtau/dq,  dqdd/dqd = -H^-1 dtau/dqd        at qdd = aba(q, qd, tau)

    A `batch` is of arrays (n, nq), (n, nv) and (n, nv), in `lanes` and threads. Raises ValueError
    for another algorithm and for a planar model.
    """
    if algorithm not in ("aba", "rnea"):
        raise ValueError(
            f"derivatives are those of aba or rnea, not of '{algorithm}'; others are made with "
            "jacobian()"
        )
    if not isinstance(model, Model):
        raise ValueError(
            f"derivatives need a spatial model, not the planar '{model.name}'; use jacobian()"
        )
    n = model.nv
    inverse = algorithm == "rnea"

    def columns(q: Array, qd: Array, given: Array) -> dict[str, Array]:
        qdd = given if inverse else aba(model, q, qd, given)
        tau, parts = _columns(model, q, qd, qdd)
        return {"value": tau if inverse else qdd, **parts}

    result, last = ("tau", "qdd") if inverse else ("qdd", "tau")
    graph = trace(f"{algorithm}_columns", columns, {"q": (model.nq,), "qd": (n,), last: (n,)})
    outputs = {result: (n,)} | {f"d{result}_d{x}": (n, n) for x in ("q", "qd", last)}
    text = structure_header(model, inverse) + c_text("algorithms/derivatives.h")
    finish = Finish(text, outputs, scratch=0 if inverse else 4 * n * n + n)
    return compiled_form(graph, batch, lanes, finish)


def _columns(model: Model, q: Array, qd: Array, qdd: Array) -> tuple[Array, dict[str, Array]]:
    """tau, and what the derivatives of rnea are made of, all in base coordinates; columns belong to
    velocity variables.

    A change of variable j gives the bodies that it supports, seen from them, one velocity dv and
    the acceleration da + dv x v, so that it takes the force F = I^c da + 2 B^c dv on all of them,
    where for one body

        2 B dv = I (dv x v) + dv x* I v + v x* I dv = [B1 dw; 2 dw x p],  p = the linear momentum
        B1     = w x (2 I - tr(I) 1) + 2 (h . vO) 1 - 2 vO h^T

    Then dtau_i = S_i . F for a joint i that j supports, R_i . X_j with R = [2 B^T S; I^c S] and X =
    [dw; da]; and for one that supports j it is S_i . G_j with G = F + S_j x* f^c for q, whose
    change turns the force with the bodies.
    """
    composite = _composite(model, _alone(model, q, qd, qdd))
    tau = np.concatenate([S.T @ f for S, f in zip(composite.S, composite.f, strict=True)])
    return tau, _matrices(composite)


class _Bodies(NamedTuple):
    """By body, in base coordinates: S, inertia, the parts B1 and p of 2 B, the force on it, and
    what a change of its joint does to the motion and to S.
    """

    S: list[Any]
    I: list[Any]
    B1: list[Any]
    P: list[Any]
    f: list[Any]
    X: list[Any]
    dS: list[Any]


def _alone(model: Model, q: Array, qd: Array, qdd: Array) -> _Bodies:
    """Outward: motion, what a change does to it, and the forces on each body on its own."""
    v, a, bodies = per_body(model, 3)
    v[-1], a[-1] = np.zeros(6), minus_gravity(model, None)
    X0 = base_transforms(model, [joint_kinematics(model, i, q, qd)[0] for i in range(model.nb)])
    for i, p in enumerate(model.parent):
        vs = model.v_slices[i]
        here = q[model.q_slices[i]], qd[vs], qdd[vs]
        S, v[i], a[i], X, dS = _motion(model.joint[i], X0[i], here, v[p], a[p])
        I = model.inertia[i].to_parent(X0[i])
        momentum = I @ v[i]
        f = I @ a[i] + cross_force(v[i], momentum)
        bodies[i] = S, I, _coriolis(I, v[i]), momentum[3:], f, X, dS
    return _Bodies(*map(list, zip(*bodies[:-1], strict=True)))


def _motion(
    joint: Joint, X0: Transform, here: tuple[Array, Array, Array], v_p: Array, a_p: Array
) -> tuple[Any, ...]:
    """S, v and a of a body behind a joint `here` at q, qd and qdd, and what a change of the joint
    does to the motion and to S.
    """
    _, S, vJ, cJ = joint.jcalc(*here[:2])
    S, vJ, cJ = (_to_base(X0, m) for m in (S, vJ, cJ))
    v = v_p + vJ
    a = a_p + S @ here[2] + cJ + cross_motion(v_p, vJ)
    *own, dS = (_to_base(X0, m) for m in _joint_changes(joint, *here))
    return S, v, a, _changes(S, v_p, a_p, v, *own), dS


def _composite(model: Model, bodies: _Bodies) -> _Bodies:
    """Inward: the same of composite bodies."""
    _, I, B1, P, f, _, _ = bodies
    for i in reversed(range(model.nb)):
        if (p := model.parent[i]) >= 0:
            I[p], B1[p], P[p], f[p] = I[p] + I[i], B1[p] + B1[i], P[p] + P[i], f[p] + f[i]
    return bodies


def _matrices(composite: _Bodies) -> dict[str, Array]:
    """What the products in C are of."""
    S, I, B1, P, f, X, dS = composite
    bodies = range(len(S))
    return {
        "S": np.hstack(S),
        "R": np.hstack([_covectors(I[i], B1[i], P[i], S[i]) for i in bodies]),
        "X": np.hstack(
            [np.vstack([dv[:3], da]) for part in (0, 1) for dv, da in (X[i][part] for i in bodies)]
        ),
        "G": np.hstack(
            [_force(I[i], B1[i], P[i], *X[i][0]) + cross_force(S[i], f[i]) for i in bodies]
            + [_force(I[i], B1[i], P[i], *X[i][1]) for i in bodies]
        ),
        "own": block_diagonal([(f[i] @ dS[i]).reshape(2 * S[i].shape[1:]) for i in bodies], object),
    }


def _to_base(X: Transform, m: Array) -> Array:
    """The motion vector or columns X^-1 m, where X takes base to body coordinates."""
    w = X.E.T @ m[:3]
    return np.concatenate([w, X.E.T @ m[3:] + cross(X.r, w)])


def _coriolis(I: RigidInertia, v: Array) -> Array:
    """B1 = w x (2 I - tr(I) 1) + 2 (h . vO) 1 - 2 vO h^T, of a body on its own."""
    w, vO = v[:3], v[3:]
    B1: Array = skew(w) @ (2.0 * I.I - np.trace(I.I) * np.eye(3)) + 2.0 * (
        (I.h @ vO) * np.eye(3) - np.outer(vO, I.h)
    )
    return B1


def _changes(
    S: Array, v_p: Array, a_p: Array, v: Array, dvJ: Array, daJ: Array, dcJ: Array
) -> tuple[Any, Any]:
    """The changes (dv, da) by the position variables of a joint, and by its velocity variables, (6,
    nv) each.
    """
    swept = cross_motion(v_p, S)
    da = cross_motion(a_p, S) + cross_motion(v_p, swept + dvJ) + daJ - cross_motion(dvJ, v)
    return (swept + dvJ, da), (S, 2.0 * swept + dcJ)


def _force(I: RigidInertia, B1: Array, P: Array, dv: Array, da: Array) -> Array:
    """F = I^c da + 2 B^c dv (6, nv)."""
    dw = dv[:3]
    F: Array = I @ da + np.concatenate([B1 @ dw, 2.0 * cross(dw, P)])
    return F


def _covectors(I: RigidInertia, B1: Array, P: Array, S: Array) -> Array:
    """R = [2 B^T S; I^c S] (9, nv), of 2 B^T S the part that works on dw."""
    return np.vstack([B1.T @ S[:3] + 2.0 * cross(P, S[3:]), I @ S])


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


def structure_header(model: Model, inverse: bool) -> str:
    """The C text that c/algorithms/derivatives.h needs before it: the joints of a model."""
    joint = [
        i for i, places in enumerate(model.v_slices) for _ in range(places.stop - places.start)
    ]
    path = [[int(j in support(model, i)) for j in joint] for i in joint]
    last = [model.v_slices[i].stop for i in joint]
    end = [1 + max(k for k in range(model.nv) if path[k][i]) for i in range(model.nv)]
    rows = ",\n    ".join(f"{{{_list(row)}}}" for row in path)
    return "\n".join(
        [
            "#ifndef RB_STRUCTURE_H\n#define RB_STRUCTURE_H\n",
            f"enum {{ RB_N = {model.nv} }};",
            "#define RB_INVERSE_DYNAMICS" if inverse else "",
            f"static const int RB_LAST[RB_N] = {{{_list(last)}}};",
            f"static const int RB_END[RB_N] = {{{_list(end)}}};",
            f"static const double RB_PATH[RB_N][RB_N] = {{\n    {rows}}};\n",
            "#endif\n",
        ]
    )


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
