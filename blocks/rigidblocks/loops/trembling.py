"""Loops that can only tremble: to first order they let their joints move, but not any further."""

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.loops.constraints import nearest_common_ancestor, position_constraints
from rigidblocks.model.configuration import displaced
from rigidblocks.model.tree import Tree

SLIGHT = 1e-4  # of the largest constraint: below it a loop hardly resists a motion
FAR = 0.03  # rad or m: how far a motion is followed
OPEN = 1e-5  # of the length of a loop: more than digits make of FAR


def trembling_loops(model: Tree, q: Array) -> dict[int, list[int]]:
    """The loop joints, by their numbers, that leave the joints around them one motion at q (nq,),
    of which nothing is left within a small distance; each with these joints.

    A triangle of two turning joints and a slider is one. Where the slider is at right angles to the
    line through the turning joints, its constraints let it move, but only for an instant: when it
    has gone s it is open by s^2. Constraints that vanish where they have to hold leave dynamics
    without an answer, and such joints are as good as fixed.
    """
    found = {}
    for l in range(len(model.loops)):
        joints = _around(model, l)
        rows = model.constraint_slices[l]
        columns = [k for i in joints for k in range(model.nv)[model.v_slices[i]]]
        K = position_constraints(model, q).K[rows][:, columns]
        sizes, motions = np.linalg.svd(K)[1:]
        if len(columns) - np.sum(sizes > SLIGHT * sizes[0]) != 1:
            continue
        way = np.zeros(model.nv)
        way[columns] = motions[-1] / np.abs(motions[-1]).max()
        length = sum(float(np.abs(model.Xtree[i].r).max()) for i in joints)
        if min(_opening(model, q, far * way, rows, columns) for far in (FAR, -FAR)) > OPEN * length:
            found[l] = joints
    return found


def _around(model: Tree, l: int) -> list[int]:
    """The tree joints between the two bodies of a loop joint."""
    loop, joints = model.loops[l], []
    root = nearest_common_ancestor(model, loop.predecessor, loop.successor)
    for i in (loop.predecessor, loop.successor):
        while i != root:
            joints.append(i)
            i = model.parent[i]
    return joints


def _opening(model: Tree, q: Array, way: Array, rows: slice, columns: list[int]) -> float:
    """How far a loop is open at the least where its joints have gone a `way` (nv,)."""
    q = displaced(model, q, way)
    along = way[columns] / np.linalg.norm(way[columns])
    step = np.zeros(model.nv)
    for _ in range(8):
        K, _, delta = position_constraints(model, q)
        equations = np.vstack([K[rows][:, columns], along])
        step[columns] = np.linalg.lstsq(equations, -np.append(delta[rows], 0.0), rcond=1e-6)[0]
        q = displaced(model, q, step)
    return float(np.linalg.norm(position_constraints(model, q).delta[rows]))
