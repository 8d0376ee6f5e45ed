"""Which loops concern which joints, and what that says of K: clusters of loops, mobility (RBDA 8.2,
8.9, 8.10).
"""

from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.pivoting import NullSpace, null_space
from rigidblocks.algebra.spatial import Array
from rigidblocks.algebra.svd import TOLERANCE
from rigidblocks.loops.constraints import nearest_common_ancestor, position_constraints
from rigidblocks.loops.strings import string_places
from rigidblocks.model.tree import Tree


class Cluster(NamedTuple):
    """Loops that are coupled to each other and to no others, and the tree joints on them, by their
    numbers.
    """

    loops: tuple[int, ...]
    joints: tuple[int, ...]


def path_signs(model: Tree) -> Array:
    """epsilon (number of loops and strings, nb): 1 for the joints between the predecessor's and the
    successor's nearest common ancestor and the successor, -1 for those on the predecessor's side,
    else 0 (RBDA Eq 8.20).

    K_lj = epsilon_lj T_l^T S_j in common coordinates. For a string it is 1 for all joints that move
    a point of it.
    """
    epsilon = np.zeros((len(model.loop_names), model.nb), dtype=int)
    for k, string in enumerate(model.strings, len(model.loops)):
        epsilon[k, list(string_places(model, string))] = 1
    for l, loop in enumerate(model.loops):
        root = nearest_common_ancestor(model, loop.predecessor, loop.successor)
        for i, sign in ((loop.successor, 1), (loop.predecessor, -1)):
            while i != root:
                epsilon[l, i] = sign
                i = model.parent[i]
    return epsilon


def loop_clusters(model: Tree) -> tuple[Cluster, ...]:
    """The minimal loop clusters, in the order of their first loops (RBDA 8.9).

    Two loops are coupled where they have a joint in common; one without freedoms couples nothing.
    """
    on = (path_signs(model) != 0) & np.array([joint.nv > 0 for joint in model.joint])
    groups: list[tuple[set[int], set[int]]] = []
    for l, row in enumerate(on):
        joints = set(np.flatnonzero(row).tolist())
        coupled = [group for group in groups if group[1] & joints]
        groups = [group for group in groups if not group[1] & joints]
        groups.append(
            (
                {l}.union(*(group[0] for group in coupled)),
                joints.union(*(group[1] for group in coupled)),
            )
        )
    return tuple(
        sorted(Cluster(tuple(sorted(loops)), tuple(sorted(joints))) for loops, joints in groups)
    )


def constraint_structure(model: Tree) -> Array:
    """Where K (nc, nv) may have other elements than zeros, as booleans: known from the connectivity
    alone.
    """
    structure = np.zeros((model.nc, model.nv), dtype=bool)
    for rows, epsilon in zip(model.constraint_slices, path_signs(model), strict=True):
        for columns, sign in zip(model.v_slices, epsilon, strict=True):
            structure[rows, columns] = sign != 0
    return structure


def null_space_by_clusters(model: Tree, K: Array, k: Array) -> NullSpace:
    """G and g of K x = k, in numbers, one cluster at a time: block-diagonal, with ones for the
    joints in no loop (8.9).
    """
    n = model.nv
    G, g, free = np.eye(n), np.zeros(n), np.ones(n, dtype=bool)
    for loops, joints in loop_clusters(model):
        rows = _places(model.constraint_slices, loops)
        own = _places(model.v_slices, joints)
        G_i, g[own], independent = null_space(K[np.ix_(rows, own)], k[rows])
        chosen = own[list(independent)]
        free[np.setdiff1d(own, chosen)] = False
        G[np.ix_(own, own)] = 0.0
        G[np.ix_(own, chosen)] = G_i
    return NullSpace(G[:, free], g, tuple(np.flatnonzero(free).tolist()))


def _places(slices: tuple[slice, ...], numbers: tuple[int, ...]) -> Array:
    """The places in these of the slices, one after the other."""
    return np.concatenate([np.arange(slices[k].start, slices[k].stop) for k in numbers])


def mobility(model: Tree, q: Array, tolerance: float = TOLERANCE) -> int:
    """n - r, the freedoms of motion that the loops leave at q (RBDA Eq 8.52); it may depend on q.

    r is the number of singular values of K above the tolerance times the largest.
    """
    return model.nv - constraint_rank(model, q, tolerance)


def constraint_rank(model: Tree, q: Array, tolerance: float = TOLERANCE) -> int:
    """r, the number of independent constraints at q."""
    K = position_constraints(model, q).K
    s = np.linalg.svd(K, compute_uv=False) if K.size else np.zeros(1)
    return int(np.sum(s > tolerance * s[0]))
