"""C code of the constraints of loop joints and cables, and of the derivatives of the constraints.

The trace of a constraint contains only the bodies at its ends. C loops along the paths from the
base to these bodies then compute the elements of K and the derivatives for each joint on the paths.

An end is a body of a constraint, treated as a free body. Its state consists of the pose X0, the
velocity v and the acceleration a, in base coordinates. An infinitesimal change displaces the end by
xi, and rotates v and a with the end. In addition, it changes v by dv, and a by da + dv x v. An
equal change of all ends has no effect on a constraint. The rows of the constraint are therefore
zero for the joints that support all ends.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from types import SimpleNamespace
from typing import NamedTuple

import casadi as ca
import numpy as np

from rigidblocks.dynamics import body_poses
from rigidblocks.dynamics.loops.constraints import (
    LoopConstraints,
    TreeMotion,
    loop_constraints,
    nearest_common_ancestor,
    tree_constraints,
)
from rigidblocks.kernels.derivative_columns import last_variables, traced_elements
from rigidblocks.robot.configuration import neutral, random_configuration
from rigidblocks.robot.joints import LoopJoint, StringConstraint
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import Array, Factor, Transform, cross, cross_motion, skew
from rigidblocks.tracing.c_notation import SCALAR, Notation
from rigidblocks.tracing.ccode import c_functions
from rigidblocks.tracing.trace import Graph, Traced

STATE = 24  # number of elements of X0, v and a of a body
CHANGES = 18  # number of elements of xi, 2 dw, da and dvO, with dv = [dw; dvO]
NOTHING = 1e-12  # rows of K below this fraction of the largest element count as zero


class LoopRows(NamedTuple):
    """C code of the loop constraints of a model.

    c/algorithms/closed_loops.h uses the functions and tables of this code.

    Attributes:
        text: C code.
        room: Number of doubles of the workspace.
    """

    text: str
    room: int


class _End(NamedTuple):
    """End of a constraint: a body (-1 for the base), and the rows of the constraint."""

    body: int
    rows: range


_Group = range  # indices of the ends of one constraint


def loop_rows(model: Model, tree: Model, notation: Notation = SCALAR) -> LoopRows:
    """Return the C code of the loop constraints of a model and of their derivatives.

        K qdd = k

    K (nc, nv) is the constraint matrix, and k (nc,) the right-hand side. lam (nc,) are the
    multipliers. The code computes K, k, the position errors, and the derivatives of K qdd - k and
    of K^T lam. The derivatives are with respect to q and qd, at given qdd and lam. A constraint
    that no joint can violate has no row.

    Args:
        model: Model with loops.
        tree: Equivalent tree of `model`; its bodies provide the states of the ends.
        notation: C notation of the values.

    Raises:
        ValueError: No joint can violate any constraint.
    """
    nonzero = _nontrivial_rows(model)
    if not nonzero:
        raise ValueError(
            f"no loop of model '{model.name}' constrains its joints; use the derivatives of 'aba'"
        )
    ends, of_all = _ends(model, nonzero)
    free, groups = _model_of_ends(model, tree, ends, of_all), [group for group in of_all if group]
    tips = [end for end in ends if end.body >= 0]
    graphs, blocks = _graphs(free, ends, groups, nonzero)
    functions = c_functions(graphs, [{}, {}], inline=True, notation=notation)
    n, nc, values = (
        model.nv,
        len(nonzero),
        max(graph.function.numel_out(0) for graph in graphs),
    )
    room = nc * (4 * n + nc + 4) + values + STATE * len(tips) + 6 * n  # size of struct loops
    sizes = {"NC": nc, "TIPS": len(tips), "BLOCKS": len(blocks)}
    sizes |= {"VALUES": values, "LOOP_ROOM": room}
    enum = ", ".join(f"RB_{name} = {size}" for name, size in sizes.items())
    head = f"#ifndef RB_LOOPS_H\n#define RB_LOOPS_H\n\n#include <math.h>\n\nenum {{ {enum} }};"
    places = _paths(model, ends, groups)
    number = {e: k for k, e in enumerate(e for e, end in enumerate(ends) if end.body >= 0)}
    places["BLOCK"] = [number[e] for pair in blocks for e in pair]
    tables = [_table(name, numbers) for name, numbers in places.items()]
    return LoopRows("\n".join([head, *tables, functions, "#endif\n"]), room)


def _nontrivial_rows(model: Model) -> list[int]:
    """Return the indices of the rows of K that are not identically zero.

    A row counts as identically zero if it is zero in three random configurations.
    """
    rng = np.random.default_rng(0)
    still = np.zeros(model.nv)
    K = np.array(
        [loop_constraints(model, random_configuration(model, rng), still).K for _ in range(3)]
    )
    largest = np.abs(K).max(axis=(0, 2), initial=0.0)
    return np.flatnonzero(largest > NOTHING * largest.max(initial=0.0)).tolist()


def _ends(model: Model, nonzero: list[int]) -> tuple[list[_End], list[_Group]]:
    """Return the list of all constraint ends, and for each constraint the indices of its ends.

    `nonzero` contains the indices of the nonzero rows of K. A constraint without nonzero rows has
    no ends.
    """
    of_loops = [[loop.successor, loop.predecessor] for loop in model.loops]
    of_strings = [[body for body, _ in string.points] for string in model.strings]
    ends, groups = list[_End](), list[_Group]()
    for bodies, rows in zip(of_loops + of_strings, model.constraint_slices, strict=True):
        kept = [k for k, c in enumerate(nonzero) if rows.start <= c < rows.stop]
        new = [_End(body, range(kept[0], kept[-1] + 1)) for body in dict.fromkeys(bodies) if kept]
        groups.append(range(len(ends), len(ends) + len(new)))
        ends += new
    return ends, groups


def _model_of_ends(
    model: Model, tree: Model, ends: list[_End], groups: list[_Group]
) -> SimpleNamespace:
    """Return a model in which the ends of the constraints are free bodies.

    `ends` and `groups` are the results of `_ends`.
    """
    frames = _frames(model, tree)
    at = iter([{ends[e].body: e for e in group} for group in groups])
    loops = tuple(_loop_between(loop, next(at), frames) for loop in model.loops)
    strings = tuple(_string_between(string, next(at), frames) for string in model.strings)
    return SimpleNamespace(
        algebra=model.algebra, nb=len(ends), nv=6 * len(ends), nc=model.nc,
        parent=(-1,) * len(ends), joint=(SimpleNamespace(nv=6),) * len(ends),
        loops=loops, strings=strings, constraint_slices=model.constraint_slices,
        gravity=model.gravity,
    )  # fmt: skip


def _frames(model: Model, tree: Model) -> list[Transform]:
    """Return, for each body, the transform from its frame in `model` to its frame in `tree`.

    Both models have the same bodies in the same order. The last transform, for the base, is the
    identity.
    """
    q = neutral(model)
    places = zip(body_poses(tree, q), body_poses(model, q), strict=True)
    return [*(there @ here.inverse() for there, here in places), model.algebra.identity()]


def _loop_between(
    loop: LoopJoint, end_of_body: dict[int, int], frames: list[Transform]
) -> LoopJoint:
    """Return a copy of a loop joint that connects free bodies instead of bodies of the model.

    `end_of_body` maps body indices of the model to free body indices. `frames` contains the results
    of `_frames`.
    """
    s, p = loop.successor, loop.predecessor
    Xs, Xp = loop.Xs @ frames[s].inverse(), loop.Xp @ frames[p].inverse()
    return replace(
        loop, successor=end_of_body.get(s, -1), predecessor=end_of_body.get(p, -1), Xs=Xs, Xp=Xp
    )


def _string_between(
    string: StringConstraint, end_of_body: dict[int, int], frames: list[Transform]
) -> StringConstraint:
    """Return a cable constraint between free bodies; the arguments are as in `_loop_between`."""
    points = (
        (end_of_body.get(b, -1), frames[b].E @ (np.asarray(point) - frames[b].r))
        for b, point in string.points
    )
    return replace(string, points=tuple(points))


class _Expressions(NamedTuple):
    """Expressions of the nonzero constraint rows as functions of the states of n ends.

    Attributes:
        states: States of the ends that are not the base: pose, velocity and acceleration.
        change: Infinitesimal changes (18 n,) of the ends.
        lam: Multipliers (nc,).
        unperturbed: List of k (nc,) and the position errors (nc,), both at zero change.
        K: Matrix (nc, 6 n) of the constraint K qdd = k at zero change.
        k: Right-hand side (nc,), which depends on `change`.
        force: Constraint forces K^T lam (6 n,) on the ends, which depend on `change`.
    """

    states: ca.SX
    change: ca.SX  # (CHANGES n,)
    lam: ca.SX
    unperturbed: list[ca.SX]  # k and the position errors at zero change
    K: ca.SX  # at zero change
    k: ca.SX
    force: ca.SX

    def derivative_by(self, values: ca.SX, e: int, size: int) -> ca.SX:
        """Return the derivatives of `values` with respect to the change of end e, at zero change.

        Only the first `size` elements of the change of this end are used.
        """
        one = self.change[CHANGES * e : CHANGES * e + size]
        zero = ca.SX.zeros(self.change.numel())
        return ca.substitute(ca.jacobian(values, one), self.change, zero)


class _EndTerms(NamedTuple):
    """Terms of a constraint K qdd = k at one end.

    Attributes:
        end: Index of the end.
        rows: Transposed and negated columns -K^T of K that belong to this end.
        change: Transposed Jacobian of k with respect to the change of this end.
        force: Constraint force K^T lam on this end.
    """

    end: int
    rows: ca.SX
    change: ca.SX
    force: ca.SX


def _graphs(
    free: SimpleNamespace, ends: list[_End], groups: list[_Group], nonzero: list[int]
) -> tuple[list[Graph], list[tuple[int, int]]]:
    """Return the graphs `loop_rows` and `loop_changes`, and pairs of ends.

    `loop_rows` computes -K, k and the position errors from the states of the ends. `loop_changes`
    computes the derivatives of k, the forces K^T lam on the ends, and the derivatives of these
    forces with respect to the poses of the ends. It computes the nonzero derivatives only. The
    pairs (end of the force, end of the pose) list these derivatives in order.

    `free` is the model of the ends (`_model_of_ends`), and `nonzero` contains the indices of the
    nonzero rows of K.
    """
    expressions = _expressions(free, ends, nonzero)
    moving = [end.body >= 0 for end in ends]
    forces = [_end_forces(expressions, group, ends[group[0]].rows) for group in groups]
    parts = [
        part
        for group, forces_on_ends in zip(groups, forces, strict=True)
        for part in _terms_at_ends(expressions, group, ends[group[0]].rows, forces_on_ends)
        if moving[part.end]
    ]
    blocks: dict[tuple[int, int], ca.SX] = {}
    for group, forces_on_ends in zip(groups, forces, strict=True):
        blocks |= _end_cross_derivative(
            group, _pose_derivatives(expressions, group), forces_on_ends
        )
    blocks = {
        at: block for at, block in blocks.items()
        if ca.sparsify(block).nnz() and all(moving[e] for e in at)
    }  # fmt: skip
    states = {"states": expressions.states}
    changes = [*(part.change for part in parts), *(part.force for part in parts)]
    graphs = [
        _graph("loop_rows", states, [*(part.rows for part in parts), *expressions.unperturbed]),
        _graph(
            "loop_changes",
            states | {"lam": expressions.lam},
            [*changes, *(block.T for block in blocks.values())],
        ),
    ]
    return graphs, list(blocks)


def _expressions(free: SimpleNamespace, ends: list[_End], nonzero: list[int]) -> _Expressions:
    symbols = [ca.SX.sym("state", STATE) for end in ends if end.body >= 0]
    given = iter(symbols)
    states = [traced_elements(next(given)) if end.body >= 0 else _base_state(free) for end in ends]
    change = ca.SX.sym("change", CHANGES * len(ends))
    lam = ca.SX.sym("lam", len(nonzero))
    rows = _constraints(free, states, np.zeros((len(ends), CHANGES)))
    moved = _constraints(free, states, traced_elements(change).reshape(len(ends), CHANGES))
    return _Expressions(
        ca.vertcat(ca.SX(0, 1), *symbols), change, lam,
        [_matrix(rows.k[nonzero]), _matrix(rows.delta[nonzero])], _matrix(rows.K[nonzero]),
        _matrix(moved.k[nonzero]), ca.mtimes(_matrix(moved.K[nonzero]).T, lam),
    )  # fmt: skip


def _columns_of_ends(expressions: _Expressions, group: _Group, rows: range) -> list[ca.SX]:
    """Return the columns of K that belong to each end of a constraint, as one matrix per end.

    `group` contains the indices of the ends of the constraint, and `rows` the rows of K.
    """
    return _append_balancing_part(
        [expressions.K[rows.start : rows.stop, 6 * e : 6 * e + 6] for e in group[:-1]]
    )


def _end_forces(expressions: _Expressions, group: _Group, rows: range) -> list[ca.SX]:
    """Return the force K^T lam on each end of a constraint; arguments as in `_columns_of_ends`."""
    lam = expressions.lam[rows.start : rows.stop]
    return [ca.mtimes(K.T, lam) for K in _columns_of_ends(expressions, group, rows)]


def _terms_at_ends(
    expressions: _Expressions, group: _Group, rows: range, forces: list[ca.SX]
) -> list[_EndTerms]:
    """Return the terms of a constraint (`_EndTerms`) at each of its ends.

    `forces` are the constraint forces on the ends; other arguments as in `_columns_of_ends`.
    """
    k = expressions.k[rows.start : rows.stop]
    changes = _append_balancing_part([expressions.derivative_by(k, e, CHANGES) for e in group[:-1]])
    return [
        _EndTerms(e, -K.T, change.T, force)
        for e, K, change, force in zip(
            group, _columns_of_ends(expressions, group, rows), changes, forces, strict=True
        )
    ]


def _pose_derivatives(expressions: _Expressions, group: _Group) -> dict[tuple[int, int], ca.SX]:
    """Return the derivatives (6, 6) of the force on an end with respect to the pose of another end.

    `group` contains the indices of the ends of a constraint. The keys are the pairs (end of the
    force, end of the pose). Pairs with the force on the last end are omitted.
    """
    return {
        (b, c): expressions.derivative_by(expressions.force[6 * b : 6 * b + 6], c, 6)
        for b in group[:-1]
        for c in group
        if c != b
    }


def _append_balancing_part(parts: list[ca.SX]) -> list[ca.SX]:
    """Append the negative sum of expressions, which is the expression of the last end.

    The expressions of all ends of a constraint add up to zero, because an equal change of all ends
    has no effect on the constraint.
    """
    return [*parts, -reduce(lambda x, y: x + y, parts)]


def _end_cross_derivative(
    group: _Group, P: dict[tuple[int, int], ca.SX], forces_on_ends: list[ca.SX]
) -> dict[tuple[int, int], ca.SX]:
    """Return the negative derivatives (6, 6) of the end forces with respect to the end poses.

    The keys are the pairs (end of the force, end of the pose). P contains the derivatives for two
    different ends, except for the force on the last end (`_pose_derivatives`). The function
    computes the other derivatives from P: a common displacement xi of all ends changes each force f
    by xi x* f. If the force and the pose belong to the same end, the derivative omits this term.
    """
    last, first = group[-1], list(group[:-1])
    own = {b: -sum((P[b, c] for c in group if c != b), ca.SX(6, 6)) for b in first}
    whole = {
        b: own[b] + _force_cross_matrix(f) for b, f in zip(first, forces_on_ends, strict=False)
    }  # complete dF_b
    of_last = {c: -whole[c] - sum((P[b, c] for b in first if b != c), ca.SX(6, 6)) for c in first}
    beyond = {(b, b): own[b] for b in first} | P
    beyond |= {(last, c): block for c, block in of_last.items()}
    beyond[last, last] = -sum(of_last.values(), ca.SX(6, 6))
    return {at: -block for at, block in beyond.items()}


def _force_cross_matrix(f: ca.SX) -> ca.SX:
    """Return the matrix M (6, 6) of a force f with M xi = xi x* f for every motion xi."""
    n, m = ca.skew(f[:3]), ca.skew(f[3:])
    return -ca.vertcat(ca.horzcat(n, m), ca.horzcat(m, ca.SX(3, 3)))


def _constraints(free: SimpleNamespace, states: list[Array], changes: Array) -> LoopConstraints:
    """Return the constraint matrix K, right-hand side k and position errors delta of all loops.

    The ends are free bodies of the model `free`. Each row of `states` (24,) contains the pose,
    velocity and acceleration of an end, and each row of `changes` (18,) its infinitesimal change. K
    refers to end velocities in base coordinates, and k to the accelerations in `states`.
    """
    one, nothing = np.eye(6), np.zeros(6)
    bodies = [_perturbed_end(*both) for both in zip(states, changes, strict=True)]
    motion = TreeMotion(
        [X for X, _, _ in bodies],
        [X @ one for X, _, _ in bodies],
        [*(X @ v for X, v, _ in bodies), nothing],
        [*(X @ a for X, _, a in bodies), nothing],
    )
    return tree_constraints(free, motion, object)


def _perturbed_end(state: Array, change: Array) -> tuple[Factor, Array, Array]:
    """Return pose, velocity and acceleration of a free body after an infinitesimal change.

    `state` (24,) contains the rotation matrix E, the position r, the velocity and the acceleration
    of the body. `change` (18,) contains the displacement, twice the change of the angular velocity,
    and the changes of the acceleration and of the linear velocity.
    """
    E, r, v, a = state[:9].reshape(3, 3), state[9:12], state[12:18], state[18:]
    xi, da = change[:6], change[9:15]
    dv = np.concatenate([0.5 * change[6:9], change[15:]])
    X = Factor(E - E @ skew(xi[:3]), r + xi[3:] + cross(xi[:3], r))
    return X, v + dv + cross_motion(xi, v), a + da + cross_motion(dv, v) + cross_motion(xi, a)


def _base_state(free: SimpleNamespace) -> Array:
    """Return pose, velocity and acceleration of the base (24,); the acceleration is -gravity."""
    return np.concatenate([np.eye(3).ravel(), np.zeros(9), np.zeros(3), -free.gravity])


def _paths(model: Model, ends: list[_End], groups: list[_Group]) -> dict[str, list[int]]:
    """Return the C tables of the tips by name; a tip is an end that is not the base.

    Each table has one entry per tip:

    * TIP_BODY: the body
    * TIP_LAST: the last variable on the path to the body
    * TIP_STOP: the last variable on the common path to all ends of the constraint
    * TIP_ROW: the first row of the constraint
    * TIP_ROWS: the number of rows
    """
    last, rows = last_variables(model), []
    for group in groups:
        bodies = [ends[e].body for e in group]
        stop = last[reduce(lambda i, j: nearest_common_ancestor(model, i, j), bodies)]
        rows += [
            (end.body, last[end.body], stop, end.rows.start, len(end.rows))
            for end in (ends[e] for e in group)
            if end.body >= 0
        ]
    names = (f"TIP_{name}" for name in ("BODY", "LAST", "STOP", "ROW", "ROWS"))
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _matrix(values: Array) -> ca.SX:
    """Convert an array of traced values and floats to a sparse CasADi matrix.

    Elements that are exactly zero are not stored.
    """
    columns = values.reshape(len(values), -1)
    matrix = ca.SX(*columns.shape)
    for (row, column), value in np.ndenumerate(columns):
        if isinstance(value, Traced):
            matrix[row, column] = value.sx
        elif value:
            matrix[row, column] = float(value)
    return matrix


def _graph(name: str, inputs: dict[str, ca.SX], values: list[ca.SX]) -> Graph:
    """Return a graph with a single output vector, which contains all elements of `values`."""
    flat = ca.cse(ca.densify(ca.vertcat(*(ca.vec(value) for value in values))))
    function = ca.Function(name, [ca.vertcat(*inputs.values())], [flat])
    shapes = {key: (symbol.numel(),) for key, symbol in inputs.items()}
    return Graph(name, shapes, {"values": (function.numel_out(0),)}, function)


def _table(name: str, numbers: Iterable[int]) -> str:
    return f"static const int RB_{name}[] = {{{', '.join(map(str, [*numbers, 0]))}}};"
