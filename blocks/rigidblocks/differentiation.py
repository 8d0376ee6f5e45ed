"""Exact derivatives of traced functions."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from math import prod
from typing import Any

import casadi as ca
import numpy as np

from rigidblocks.compiled_function import CompiledFunction, Loops
from rigidblocks.dynamics import aba
from rigidblocks.dynamics.kinematics import base_transforms, joint_kinematics, minus_gravity, per_body, support
from rigidblocks.joint import Joint
from rigidblocks.model import Model
from rigidblocks.spatial import Array, RigidInertia, Transform, cross, cross_force, cross_motion, skew
from rigidblocks.trace import Graph, Shapes, Traced, trace


def jacobian(graph: Graph, outputs: str | Iterable[str], inputs: str | Iterable[str]) -> Graph:
    """The graph of the derivatives of some outputs by some inputs, at the same inputs as `graph`.

    Its output `dy_dx`, for each pair of an output y and an input x, has the shape of y followed by that of x; its entries
    have the unit of y per unit of x. They are exact. What cannot depend is an exact zero that costs nothing: where those
    are is `graph.depends`. At a `select` the derivative is that of the branch taken.

    Raises KeyError for an output or input that there is not.
    """
    rows, columns = _places(graph, "output", graph.outputs, outputs), _places(graph, "input", graph.inputs, inputs)
    x = ca.SX.sym("x", graph.function.size1_in(0))
    matrix = ca.jacobian(graph.function(x), x)
    blocks = {f"d{y}_d{u}": (matrix[r, c], graph.outputs[y] + graph.inputs[u]) for y, r in rows for u, c in columns}
    flat = ca.vertcat(*(ca.vec(ca.densify(block).T) for block, _ in blocks.values()))
    shapes = {name: shape for name, (_, shape) in blocks.items()}
    function = ca.Function(f"{graph.name}_jacobian", [x], [ca.cse(flat)])
    return Graph(function.name(), graph.inputs, shapes, function)


def _places(graph: Graph, kind: str, shapes: Shapes, names: str | Iterable[str]) -> list[tuple[str, slice]]:
    """The chosen names with their places in the flat vector."""
    chosen = (names,) if isinstance(names, str) else tuple(names)
    if unknown := [name for name in chosen if name not in shapes]:
        raise KeyError(f"{graph.name} has no {kind} {', '.join(unknown)}; it has: {', '.join(shapes)}")
    places = _slices(shapes)
    return [(name, places[name]) for name in chosen]


def _slices(shapes: Shapes) -> Mapping[str, slice]:
    ends = np.cumsum([0, *(prod(shape) for shape in shapes.values())]).tolist()
    return {name: slice(a, b) for name, a, b in zip(shapes, ends, ends[1:], strict=False)}


def derivatives(model: Model, algorithm: str) -> CompiledFunction:
    """The compiled exact derivatives of forward dynamics, "aba", or of inverse dynamics, "rnea".

    Of (q, qd, tau) the first gives qdd and dqdd_dq, dqdd_dqd and dqdd_dtau = H^-1; of (q, qd, qdd) the second gives tau
    and dtau_dq, dtau_dqd and dtau_dqdd = H: the value (nv,) and three matrices (nv, nv). The derivative by q is by the
    velocity variables that move it, q (+) dq at dq = 0, so with a quaternion in q too. There are no external wrenches.

    The columns that the derivatives are made of are traced (Carpentier and Mansard 2018; Singh, Russell and Wensing 2022);
    the products of them, and the solution with H = L^T L (RBDA 6.5), are loops in C.

        dqdd/dq = -H^-1 dtau/dq,  dqdd/dqd = -H^-1 dtau/dqd        at qdd = aba(q, qd, tau)

    Raises ValueError for another algorithm and for a planar model.
    """
    if algorithm not in ("aba", "rnea"):
        raise ValueError(f"derivatives are those of aba or rnea, not of '{algorithm}'; others are made with jacobian()")
    if not isinstance(model, Model):
        raise ValueError(f"derivatives need a spatial model, not the planar '{model.name}'; use jacobian()")
    n = model.nv
    inverse = algorithm == "rnea"

    def columns(q: Array, qd: Array, given: Array) -> dict[str, Array]:
        qdd = given if inverse else aba(model, q, qd, given)
        tau, parts = _columns(model, q, qd, qdd)
        return {"value": tau if inverse else qdd, **parts}

    result, last = ("tau", "qdd") if inverse else ("qdd", "tau")
    graph = trace(f"{algorithm}_columns", columns, {"q": (model.nq,), "qd": (n,), last: (n,)})
    outputs = {result: (n,)} | {f"d{result}_d{x}": (n, n) for x in ("q", "qd", last)}
    text = _structure(model, inverse) + files("rigidblocks").joinpath("c/derivatives.h").read_text()
    return CompiledFunction(graph, Loops(text, outputs, scratch=0 if inverse else 4 * n * n + n))


def _columns(model: Model, q: Array, qd: Array, qdd: Array) -> tuple[Array, dict[str, Array]]:
    """tau, and what the derivatives of rnea are made of, all in base coordinates; columns belong to velocity variables.

    A change of variable j gives the bodies that it supports, seen from them, one velocity dv and the acceleration
    da + dv x v, so that it takes the force F = I^c da + 2 B^c dv on all of them, where for one body

        2 B dv = I (dv x v) + dv x* I v + v x* I dv = [B1 dw; 2 dw x p],  p = the linear momentum
        B1     = w x (2 I - tr(I) 1) + 2 (h . vO) 1 - 2 vO h^T

    Then dtau_i = S_i . F for a joint i that j supports, R_i . X_j with R = [2 B^T S; I^c S] and X = [dw; da]; and for one
    that supports j it is S_i . G_j with G = F + S_j x* f^c for q, whose change turns the force with the bodies.
    """
    S, v, a, f, I, B1, P, X, dS = per_body(model, 9)
    v[-1], a[-1] = np.zeros(6), minus_gravity(model, None)
    X0 = base_transforms(model, [joint_kinematics(model, i, q, qd)[0] for i in range(model.nb)])

    # outward: motion, what a change does to it, and the forces on each body on its own
    for i, p in enumerate(model.parent):
        here = q[model.q_slices[i]], qd[model.v_slices[i]], qdd[model.v_slices[i]]
        _, S_i, vJ, cJ = model.joint[i].jcalc(*here[:2])
        S[i], vJ, cJ = (_to_base(X0[i], m) for m in (S_i, vJ, cJ))
        v[i] = v[p] + vJ
        a[i] = a[p] + S[i] @ here[2] + cJ + cross_motion(v[p], vJ)
        own = [_to_base(X0[i], m) for m in _joint_changes(model.joint[i], *here)]
        X[i], dS[i] = _changes(S[i], v[p], a[p], v[i], *own[:3]), own[3]
        I[i] = model.inertia[i].to_parent(X0[i])
        momentum = I[i] @ v[i]
        f[i] = I[i] @ a[i] + cross_force(v[i], momentum)
        B1[i], P[i] = _coriolis(I[i], v[i]), momentum[3:]

    # inward: the same of composite bodies
    for i in reversed(range(model.nb)):
        if (p := model.parent[i]) >= 0:
            I[p], B1[p], P[p], f[p] = I[p] + I[i], B1[p] + B1[i], P[p] + P[i], f[p] + f[i]

    bodies = range(model.nb)
    columns = {
        "S": np.hstack(S[:-1]),
        "R": np.hstack([_covectors(I[i], B1[i], P[i], S[i]) for i in bodies]),
        "X": np.hstack([np.vstack([dv[:3], da]) for part in (0, 1) for dv, da in (X[i][part] for i in bodies)]),
        "G": np.hstack(
            [_force(I[i], B1[i], P[i], *X[i][0]) + cross_force(S[i], f[i]) for i in bodies]
            + [_force(I[i], B1[i], P[i], *X[i][1]) for i in bodies]
        ),
        "own": block_diagonal([(f[i] @ dS[i]).reshape(2 * S[i].shape[1:]) for i in bodies], object),
    }
    return np.concatenate([S[i].T @ f[i] for i in bodies]), columns


def _to_base(X: Transform, m: Array) -> Array:
    """The motion vector or columns X^-1 m, where X takes base to body coordinates."""
    w = X.E.T @ m[:3]
    return np.concatenate([w, X.E.T @ m[3:] + cross(X.r, w)])


def _coriolis(I: RigidInertia, v: Array) -> Array:
    """B1 = w x (2 I - tr(I) 1) + 2 (h . vO) 1 - 2 vO h^T, of a body on its own."""
    w, vO = v[:3], v[3:]
    B1: Array = skew(w) @ (2.0 * I.I - np.trace(I.I) * np.eye(3)) + 2.0 * ((I.h @ vO) * np.eye(3) - np.outer(vO, I.h))
    return B1


def _changes(S: Array, v_p: Array, a_p: Array, v: Array, dvJ: Array, daJ: Array, dcJ: Array) -> tuple[Any, Any]:
    """The changes (dv, da) by the position variables of a joint, and by its velocity variables, (6, nv) each."""
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


def _joint_changes(joint: Joint, q: Array, qd: Array, qdd: Array) -> tuple[Array, Array, Array, Array]:
    """How a joint's own vectors change, in F_s coordinates, with its nv variables: exact zeros where S is constant.

    vJ by q (6, nv), S qdd + cJ by q (6, nv), cJ by qd and vJ x S (6, nv), and S by q (6, nv nv), the column of S first.
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
    """The derivatives of traced values by a symbol (its index is the last), where that one and the other are zero."""
    flat = ca.vertcat(*(value.sx if isinstance(value, Traced) else ca.SX(float(value)) for value in np.ravel(values)))
    matrix = ca.jacobian(flat, symbol)
    matrix = ca.substitute(matrix, ca.vertcat(symbol, other), ca.SX.zeros(symbol.numel() + other.numel()))
    result = np.zeros(matrix.shape, dtype=object)
    for row, column in zip(*matrix.sparsity().get_triplet(), strict=True):
        entry = matrix[row, column]
        result[row, column] = 0.0 if entry.is_zero() else Traced(entry)
    return result.reshape(*np.shape(values), symbol.numel())


def block_diagonal(blocks: Sequence[Array], dtype: type = float) -> Array:
    """The matrix with these blocks, of any shapes, along its diagonal and zeros elsewhere."""
    matrix = np.zeros((sum(block.shape[0] for block in blocks), sum(block.shape[1] for block in blocks)), dtype=dtype)
    row = column = 0
    for block in blocks:
        matrix[row : row + block.shape[0], column : column + block.shape[1]] = block
        row, column = row + block.shape[0], column + block.shape[1]
    return matrix


def _structure(model: Model, inverse: bool) -> str:
    """The C text that c/derivatives.h needs before it."""
    joint = [i for i, places in enumerate(model.v_slices) for _ in range(places.stop - places.start)]
    path = [[int(j in support(model, i)) for j in joint] for i in joint]
    last = [model.v_slices[i].stop for i in joint]
    end = [1 + max(k for k in range(model.nv) if path[k][i]) for i in range(model.nv)]
    rows = ",\n    ".join(f"{{{_list(row)}}}" for row in path)
    return "\n".join(
        [
            f"enum {{ N = {model.nv} }};",
            "#define INVERSE_DYNAMICS" if inverse else "",
            f"static const int LAST[N] = {{{_list(last)}}};",
            f"static const int END[N] = {{{_list(end)}}};",
            f"static const double PATH[N][N] = {{\n    {rows}}};\n",
        ]
    )


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
