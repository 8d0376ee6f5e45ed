"""The constraints of loop joints and strings and their changes as C, traced for the bodies at their
ends alone; what joints make of them are loops along the paths to these.

An end is a body, whose place X0, velocity v and acceleration a are known in base coordinates, as if
it were free. A change xi of its place, dv of its velocity and da + dv x v of its acceleration, seen
from it, are those that the columns of `columns` have of each joint variable. What moves all ends of
a constraint alike changes nothing, so joints that support them all are not in its rows.
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from types import SimpleNamespace
from typing import NamedTuple

import casadi as ca
import numpy as np

from rigidblocks.algebra.factored import Factor
from rigidblocks.algebra.spatial import Array, Transform, cross, cross_motion, skew
from rigidblocks.dynamics import body_poses
from rigidblocks.joint import LoopJoint, StringConstraint
from rigidblocks.kernels.structure import last_variables
from rigidblocks.loops.constraints import (
    LoopConstraints,
    TreeMotion,
    constraints_of,
    loop_constraints,
    nearest_common_ancestor,
)
from rigidblocks.model.configuration import neutral, random_configuration
from rigidblocks.model.model import Model
from rigidblocks.tracing.ccode import c_functions
from rigidblocks.tracing.notation import SCALAR, Notation
from rigidblocks.tracing.trace import Graph, Traced

STATE = 24  # numbers that a body keeps of X0, v and a
CHANGES = 18  # xi, twice the angular part of dv, da, the linear part of dv
NOTHING = 1e-12  # of the largest element: below it is a row that is zero


class LoopRows(NamedTuple):
    """The C text that c/algorithms/closed_loops.h needs before it, and how many numbers this keeps
    at work.
    """

    text: str
    room: int


class _End(NamedTuple):
    """A body at the end of a constraint, -1 the base, and the rows of that among those that are
    kept.
    """

    body: int
    rows: range


_Group = range  # the ends of one constraint, by their numbers


def loop_rows(model: Model, tree: Model, notation: Notation = SCALAR) -> LoopRows:
    """Of a model with loops K qdd = k and its position errors, and what a change of q and of qd
    makes of K qdd - k and of K^T lam at given accelerations and lam; `tree` is an equivalent of its
    tree, whose bodies are asked.

    A constraint that no joint can violate has no row. Raises ValueError where there is no other.
    """
    some = _violable(model)
    if not some:
        raise ValueError(
            f"no loop of model '{model.name}' constrains its joints; its derivatives are those of "
            "aba"
        )
    ends, of_all = _ends(model, some)
    free, groups = _free(model, tree, ends, of_all), [group for group in of_all if group]
    tips = [end for end in ends if end.body >= 0]
    graphs, blocks = _graphs(free, ends, groups, some)
    functions = c_functions(graphs, [{}, {}], inline=True, notation=notation)
    n, nc, values = model.nv, len(some), max(graph.function.numel_out(0) for graph in graphs)
    room = nc * (4 * n + nc + 4) + values + STATE * len(tips) + 6 * n  # of struct loops
    sizes = {"NC": nc, "TIPS": len(tips), "BLOCKS": len(blocks)}
    sizes |= {"VALUES": values, "LOOP_ROOM": room}
    enum = ", ".join(f"RB_{name} = {size}" for name, size in sizes.items())
    head = f"#ifndef RB_LOOPS_H\n#define RB_LOOPS_H\n\n#include <math.h>\n\nenum {{ {enum} }};"
    places = _paths(model, ends, groups)
    number = {e: k for k, e in enumerate(e for e, end in enumerate(ends) if end.body >= 0)}
    places["BLOCK"] = [number[e] for pair in blocks for e in pair]
    tables = [_table(name, numbers) for name, numbers in places.items()]
    return LoopRows("\n".join([head, *tables, functions, "#endif\n"]), room)


def _violable(model: Model) -> list[int]:
    """The constraints that some joint can violate: those with an element in K that is not zero in
    some of three configurations.
    """
    rng = np.random.default_rng(0)
    still = np.zeros(model.nv)
    K = np.array(
        [loop_constraints(model, random_configuration(model, rng), still).K for _ in range(3)]
    )
    largest = np.abs(K).max(axis=(0, 2), initial=0.0)
    return np.flatnonzero(largest > NOTHING * largest.max(initial=0.0)).tolist()


def _ends(model: Model, some: list[int]) -> tuple[list[_End], list[_Group]]:
    """The ends of all loops and strings, and those of each together, none of one without a row."""
    of_loops = [[loop.successor, loop.predecessor] for loop in model.loops]
    of_strings = [[body for body, _ in string.points] for string in model.strings]
    ends, groups = list[_End](), list[_Group]()
    for bodies, rows in zip(of_loops + of_strings, model.constraint_slices, strict=True):
        kept = [k for k, c in enumerate(some) if rows.start <= c < rows.stop]
        new = [_End(body, range(kept[0], kept[-1] + 1)) for body in dict.fromkeys(bodies) if kept]
        groups.append(range(len(ends), len(ends) + len(new)))
        ends += new
    return ends, groups


def _free(model: Model, tree: Model, ends: list[_End], groups: list[_Group]) -> SimpleNamespace:
    """A model of free bodies, the ends in their places with the frames of `tree`, which has the
    loops and strings of `model`.
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
    """Those of the bodies of `tree` from those of `model`, and the base's, which is both's."""
    q = neutral(model)
    places = zip(body_poses(tree, q), body_poses(model, q), strict=True)
    return [*(there @ here.inverse() for there, here in places), model.algebra.identity()]


def _loop_between(loop: LoopJoint, at: dict[int, int], frames: list[Transform]) -> LoopJoint:
    """The loop joint between ends, which are `at` their bodies."""
    s, p = loop.successor, loop.predecessor
    Xs, Xp = loop.Xs @ frames[s].inverse(), loop.Xp @ frames[p].inverse()
    return replace(loop, successor=at.get(s, -1), predecessor=at.get(p, -1), Xs=Xs, Xp=Xp)


def _string_between(
    string: StringConstraint, at: dict[int, int], frames: list[Transform]
) -> StringConstraint:
    """The same of a string."""
    points = (
        (at.get(b, -1), frames[b].E @ (np.asarray(point) - frames[b].r))
        for b, point in string.points
    )
    return replace(string, points=tuple(points))


class _Expressions(NamedTuple):
    """The constraints that are kept, of the states of the ends, and what they are after a change of
    these: K (nc, 6 e) and k (nc,), and the forces (6 e,) at the ends of lam.
    """

    states: ca.SX
    change: ca.SX  # (CHANGES e,)
    lam: ca.SX
    still: list[ca.SX]  # k and the position errors without a change
    K: ca.SX  # the same, too
    k: ca.SX
    force: ca.SX

    def by(self, values: ca.SX, e: int, size: int) -> ca.SX:
        """The derivative by the first changes of end e."""
        one = self.change[CHANGES * e : CHANGES * e + size]
        zero = ca.SX.zeros(self.change.numel())
        return ca.substitute(ca.jacobian(values, one), self.change, zero)


class _Part(NamedTuple):
    """What a constraint has of one of its ends: -K^T, its changes k and the force there."""

    end: int
    rows: ca.SX
    change: ca.SX
    force: ca.SX


def _graphs(
    free: SimpleNamespace, ends: list[_End], groups: list[_Group], some: list[int]
) -> tuple[list[Graph], list[tuple[int, int]]]:
    """The functions loop_rows, of the ends' states -K, k and delta; and loop_changes, of these
    states and lam, d k, the forces K^T lam at the ends, and the blocks of how these turn.
    """
    all_of = _expressions(free, ends, some)
    moving = [end.body >= 0 for end in ends]
    forces = [_forces(all_of, group, ends[group[0]].rows) for group in groups]
    parts = [
        part
        for group, f_of in zip(groups, forces, strict=True)
        for part in _parts(all_of, group, ends[group[0]].rows, f_of)
        if moving[part.end]
    ]
    blocks: dict[tuple[int, int], ca.SX] = {}
    for group, f_of in zip(groups, forces, strict=True):
        blocks |= _turned(group, _turns(all_of, group), f_of)
    blocks = {
        at: block for at, block in blocks.items()
        if ca.sparsify(block).nnz() and all(moving[e] for e in at)
    }  # fmt: skip
    states = {"states": all_of.states}
    changes = [*(part.change for part in parts), *(part.force for part in parts)]
    graphs = [
        _graph("loop_rows", states, [*(part.rows for part in parts), *all_of.still]),
        _graph(
            "loop_changes",
            states | {"lam": all_of.lam},
            [*changes, *(block.T for block in blocks.values())],
        ),
    ]
    return graphs, list(blocks)


def _expressions(free: SimpleNamespace, ends: list[_End], some: list[int]) -> _Expressions:
    symbols = [ca.SX.sym("state", STATE) for end in ends if end.body >= 0]
    given = iter(symbols)
    states = [_traced(next(given)) if end.body >= 0 else _still(free) for end in ends]
    change = ca.SX.sym("change", CHANGES * len(ends))
    lam = ca.SX.sym("lam", len(some))
    rows = _constraints(free, states, np.zeros((len(ends), CHANGES)))
    moved = _constraints(free, states, _traced(change).reshape(len(ends), CHANGES))
    return _Expressions(
        ca.vertcat(ca.SX(0, 1), *symbols), change, lam,
        [_matrix(rows.k[some]), _matrix(rows.delta[some])], _matrix(rows.K[some]),
        _matrix(moved.k[some]), ca.mtimes(_matrix(moved.K[some]).T, lam),
    )  # fmt: skip


def _rows_of_ends(all_of: _Expressions, group: _Group, rows: range) -> list[ca.SX]:
    """K of each end of a constraint."""
    return _closed([all_of.K[rows.start : rows.stop, 6 * e : 6 * e + 6] for e in group[:-1]])


def _forces(all_of: _Expressions, group: _Group, rows: range) -> list[ca.SX]:
    """Those of a constraint on each of its ends."""
    lam = all_of.lam[rows.start : rows.stop]
    return [ca.mtimes(K.T, lam) for K in _rows_of_ends(all_of, group, rows)]


def _parts(all_of: _Expressions, group: _Group, rows: range, forces: list[ca.SX]) -> list[_Part]:
    """Of all ends of a constraint."""
    k = all_of.k[rows.start : rows.stop]
    changes = _closed([all_of.by(k, e, CHANGES) for e in group[:-1]])
    return [
        _Part(e, -K.T, change.T, force)
        for e, K, change, force in zip(
            group, _rows_of_ends(all_of, group, rows), changes, forces, strict=True
        )
    ]


def _turns(all_of: _Expressions, group: _Group) -> dict[tuple[int, int], ca.SX]:
    """How the force on each end but the last changes with the place of each other one."""
    return {
        (b, c): all_of.by(all_of.force[6 * b : 6 * b + 6], c, 6)
        for b in group[:-1]
        for c in group
        if c != b
    }


def _closed(parts: list[ca.SX]) -> list[ca.SX]:
    """The parts of all ends of a constraint: they add up to zero, for what moves all of them alike
    changes nothing.
    """
    return [*parts, -reduce(lambda x, y: x + y, parts)]


def _turned(
    group: _Group, P: dict[tuple[int, int], ca.SX], f_of: list[ca.SX]
) -> dict[tuple[int, int], ca.SX]:
    """By two ends, what a change of the second makes of the force on the first beyond that this
    turns with it, with the opposite sign.

    Where all ends turn, so do the forces: dF_b by xi_b is xi x* f_b less what all others make.
    """
    last, first = group[-1], list(group[:-1])
    own = {b: -sum((P[b, c] for c in group if c != b), ca.SX(6, 6)) for b in first}
    whole = {b: own[b] + _turning(f) for b, f in zip(first, f_of, strict=False)}  # all of dF_b
    of_last = {c: -whole[c] - sum((P[b, c] for b in first if b != c), ca.SX(6, 6)) for c in first}
    beyond = {(b, b): own[b] for b in first} | P
    beyond |= {(last, c): block for c, block in of_last.items()}
    beyond[last, last] = -sum(of_last.values(), ca.SX(6, 6))
    return {at: -block for at, block in beyond.items()}


def _turning(f: ca.SX) -> ca.SX:
    """The matrix (6, 6) that takes xi to xi x* f."""
    n, m = ca.skew(f[:3]), ca.skew(f[3:])
    return -ca.vertcat(ca.horzcat(n, m), ca.horzcat(m, ca.SX(3, 3)))


def _constraints(free: SimpleNamespace, states: list[Array], changes: Array) -> LoopConstraints:
    """Those on the free bodies, of which K has the forces in base coordinates; k is at their
    accelerations.
    """
    one, nothing = np.eye(6), np.zeros(6)
    bodies = [_moved(*both) for both in zip(states, changes, strict=True)]
    motion = TreeMotion(
        [X for X, _, _ in bodies],
        [X @ one for X, _, _ in bodies],
        [*(X @ v for X, v, _ in bodies), nothing],
        [*(X @ a for X, _, a in bodies), nothing],
    )
    return constraints_of(free, motion, object)


def _moved(state: Array, change: Array) -> tuple[Factor, Array, Array]:
    """X0, v and a of an end after a change that is small of the first order."""
    E, r, v, a = state[:9].reshape(3, 3), state[9:12], state[12:18], state[18:]
    xi, da = change[:6], change[9:15]
    dv = np.concatenate([0.5 * change[6:9], change[15:]])
    X = Factor(E - E @ skew(xi[:3]), r + xi[3:] + cross(xi[:3], r))
    return X, v + dv + cross_motion(xi, v), a + da + cross_motion(dv, v) + cross_motion(xi, a)


def _still(free: SimpleNamespace) -> Array:
    """The state of the base."""
    return np.concatenate([np.eye(3).ravel(), np.zeros(9), np.zeros(3), -free.gravity])


def _paths(model: Model, ends: list[_End], groups: list[_Group]) -> dict[str, list[int]]:
    """Of each tip its body, the last variable on the path to it, that on the path to all ends of
    its constraint, and its first row and how many.
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


def _traced(symbol: ca.SX) -> Array:
    elements = np.empty(symbol.numel(), dtype=object)
    elements[:] = [Traced(symbol[k]) for k in range(symbol.numel())]
    return elements


def _matrix(values: Array) -> ca.SX:
    """An array of traced values and floats, its exact zeros left out."""
    columns = values.reshape(len(values), -1)
    matrix = ca.SX(*columns.shape)
    for (row, column), value in np.ndenumerate(columns):
        if isinstance(value, Traced):
            matrix[row, column] = value.sx
        elif value:
            matrix[row, column] = float(value)
    return matrix


def _graph(name: str, inputs: dict[str, ca.SX], values: list[ca.SX]) -> Graph:
    """The graph of all elements of these values."""
    flat = ca.cse(ca.densify(ca.vertcat(*(ca.vec(value) for value in values))))
    function = ca.Function(name, [ca.vertcat(*inputs.values())], [flat])
    shapes = {key: (symbol.numel(),) for key, symbol in inputs.items()}
    return Graph(name, shapes, {"values": (function.numel_out(0),)}, function)


def _table(name: str, numbers: Iterable[int]) -> str:
    return f"static const int RB_{name}[] = {{{', '.join(map(str, [*numbers, 0]))}}};"
