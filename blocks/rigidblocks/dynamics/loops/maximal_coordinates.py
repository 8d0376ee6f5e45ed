"""The equation of motion of all bodies on their own, with every joint a constraint: sparse, without
a tree (RBDA 8.13).

An oracle for the other methods, and the way to solve systems whose graph has no good tree. In
numbers only. Bodies and joints are in the coordinates of the bodies
and of the joints' successor frames, so that it is as accurate far from the base as near it.
"""

from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics import body_poses, body_velocities, check_lengths
from rigidblocks.model.tree import Tree

_SOFT = 1e-8  # of the constraints in a sparse factorization, against the bodies' mobility
_LEFT = 1e-9  # of the largest force or acceleration, when it is solved


class MaximalSystem(NamedTuple):
    """`[[I, P T], [T^T P^T, 0]] [a; -lam] = right` (RBDA Eq 8.64): the symmetric matrix, the
    right-hand side, and where each body, each tree joint and each loop joint has its rows, in this
    order.

    There are 6 rows a body (3 in the plane), and as many a joint as it constrains.
    """

    matrix: Array
    right: Array
    blocks: tuple[slice, ...]


class MaximalMotion(NamedTuple):
    """The accelerations qdd (nv,) of the tree's joints, the spatial accelerations a (nb, 6) of the
    bodies in their own coordinates, and the constraint forces lam (nc,) of the loop joints.
    """

    qdd: Array
    a: Array
    lam: Array


class MaximalEquations(NamedTuple):
    """The system by the `entries` of its matrix, each with its rows and columns, its right-hand
    side, the rows of bodies and joints, and the joints.
    """

    entries: tuple[tuple[slice, slice, Array], ...]
    right: Array
    blocks: tuple[slice, ...]
    links: tuple["_Link", ...]


class _Link(NamedTuple):
    """A joint between bodies p and s: Xp and Xs take their coordinates to F_s. T and the bias of
    the acceleration are there, and so is S, which only tree joints need.
    """

    p: int
    s: int
    Xp: Any
    Xs: Any
    T: Array
    S: Array
    bias: Array


def maximal_dynamics(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> MaximalMotion:
    """The motion by the system of all bodies and joints. Where constraints depend on others, lam is
    the smallest.

    f_ext is in base coordinates, as in `aba`. Nothing is stabilized, and loops must be closed at q
    and qd.
    """
    equations = maximal_equations(model, q, qd, tau, f_ext, gravity)
    solution = np.linalg.lstsq(_dense(equations), equations.right, rcond=1e-12)[0]
    return _motion(model, equations.links, solution)


def sparse_maximal_dynamics(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> MaximalMotion:
    """The same motion by a sparse factorization: a chain of loops, whose system is banded when its
    bodies and joints are taken in turn, costs time in proportion to its length (RBDA Fig 8.4).

    A small negative diagonal among the constraints makes the system quasidefinite, so that it has a
    symmetric factorization in the order that fills least; its error is taken out by solving again
    for what is left. Where constraints depend on others that leads to the smallest forces of all
    joints. Raises ImportError without scipy, and ArithmeticError where what is left does not
    vanish, as of constraints that contradict each other.
    """
    equations = maximal_equations(model, q, qd, tau, f_ext, gravity)
    bodies = model.nb * len(model.algebra.zero())
    solution = sparse_solution(sparse_matrix(equations), equations.right, bodies)
    return _motion(model, equations.links, solution)


def maximal_system(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> MaximalSystem:
    """The linear system for the accelerations of all bodies and the constraint forces of all
    joints.
    """
    equations = maximal_equations(model, q, qd, tau, f_ext, gravity)
    return MaximalSystem(_dense(equations), equations.right, equations.blocks)


def _dense(equations: MaximalEquations) -> Array:
    size = len(equations.right)
    matrix = np.zeros((size, size))
    for rows, columns, entries in equations.entries:
        matrix[rows, columns] = entries
    return matrix


def maximal_equations(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
) -> MaximalEquations:
    """The blocks of the system, and what is said of it."""
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    links = _links(model, q, qd)
    blocks = _blocks(model, links)
    right, entries = np.zeros(blocks[-1].stop if blocks else 0), []

    # the bodies on their own
    for i, force in enumerate(_body_forces(model, q, qd, f_ext, gravity)):
        entries.append((blocks[i], blocks[i], model.inertia[i].matrix()))
        right[blocks[i]] = force

    # what each joint does to its bodies, and what it constrains
    for link, rows, active in zip(
        links, blocks[model.nb :], _active_forces(model, links, tau), strict=True
    ):
        for i, X, sign in ((link.s, link.Xs, 1.0), (link.p, link.Xp, -1.0)):
            if i >= 0:
                force = sign * (X.T @ link.T)
                entries += [(blocks[i], rows, force), (rows, blocks[i], force.T)]
                right[blocks[i]] += sign * (X.T @ active)
        right[rows] = link.T.T @ link.bias
    return MaximalEquations(tuple(entries), right, blocks, tuple(links))


def _motion(model: Tree, links: tuple[_Link, ...], solution: Array) -> MaximalMotion:
    """What the solution of the system says."""
    n = len(model.algebra.zero())
    a = np.vstack([solution[: n * model.nb].reshape(model.nb, n), np.zeros(n)])
    qdd = [
        np.linalg.pinv(link.S) @ (a[link.s] - link.Xp @ a[link.p] - link.bias)
        for link in links[: model.nb]
    ]
    return MaximalMotion(np.concatenate(qdd), a[:-1], -solution[len(solution) - model.nc :])


def sparse_solution(W: Any, right: Array, bodies: int) -> Array:
    """The solution of W x = right, whose first rows are those of the `bodies`, in as many steps as
    make what is left smaller.

    Raises ArithmeticError where the constraints in the other rows contradict each other.
    """
    softness = np.zeros(len(right))
    softness[bodies:] = _SOFT / np.mean(W.diagonal()[:bodies])
    factors = factorization(W, softness)
    x: Array = np.zeros(len(right))
    left, size = right, np.inf
    while True:
        correction = factors.solve(left)
        left, before = right - W @ (x + correction), size
        scale = max(np.max(np.abs(right)), np.max(np.abs(x[:bodies] + correction[:bodies])))
        size = np.max(np.abs(left)) / scale if scale else 0.0
        if not size < before / 2:  # what is left is nothing, rounding, a contradiction, or NaN
            break
        x = x + correction
    if before > _LEFT:
        raise ArithmeticError(
            f"the equations of motion are off by {before:.1e}, relative: constraints contradict "
            "each other, or nearly depend on each other; maximal_dynamics solves them by least "
            "squares"
        )
    return x


def factorization(W: Any, softness: Array) -> Any:
    """The factors of W less the softness on its diagonal, as SuperLU has them: any order of the
    pivots of a quasidefinite matrix will do, so it is the one that fills least (Vanderbei 1995).
    """
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import splu

    return splu(
        (W - diags_array(softness)).tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )


def sparse_matrix(equations: MaximalEquations) -> Any:
    """The matrix of the system, without its zeros."""
    try:
        from scipy.sparse import coo_array
    except ImportError:
        raise ImportError(
            "sparse_maximal_dynamics needs scipy: pip install 'rigidblocks[sparse]'"
        ) from None
    rows, columns, values = [], [], []
    for row, column, entries in equations.entries:
        i, j = np.nonzero(entries)
        rows.append(row.start + i)
        columns.append(column.start + j)
        values.append(entries[i, j])
    size = len(equations.right)
    places = (np.concatenate(rows), np.concatenate(columns))
    return coo_array((np.concatenate(values), places), shape=(size, size)).tocsr()


def _blocks(model: Tree, links: list[_Link]) -> tuple[slice, ...]:
    """Where each body and each joint has its rows."""
    sizes = [len(model.algebra.zero())] * model.nb + [link.T.shape[1] for link in links]
    return tuple(slice(a, b) for a, b in pairwise(accumulate(sizes, initial=0)))


def _active_forces(model: Tree, links: list[_Link], tau: Array) -> Iterator[Array]:
    """The force within the motion subspace that gives tau, of each joint in F_s; loop joints have
    none.
    """
    for link, vs in zip(links, model.v_slices, strict=False):
        yield link.S @ np.linalg.pinv(link.S.T @ link.S) @ tau[vs]
    for link in links[model.nb :]:
        yield np.zeros(len(link.T))


def _body_forces(
    model: Tree, q: Array, qd: Array, f_ext: Array | None, gravity: Array | None
) -> list[Array]:
    """What acts on each body by itself, less its v x* I v."""
    X0, v = body_poses(model, q), body_velocities(model, q, qd)
    a_g = model.algebra.uniform(np.asarray(model.gravity if gravity is None else gravity))
    forces = []
    for i, inertia in enumerate(model.inertia):
        I = inertia.matrix()
        forces.append(I @ (X0[i] @ a_g) - model.algebra.crf(v[i]) @ (I @ v[i]))
        if f_ext is not None:
            forces[i] = forces[i] + X0[i].force(f_ext[i])
    return forces


def _links(model: Tree, q: Array, qd: Array) -> list[_Link]:
    """All joints, those of the tree first."""
    X0 = [*body_poses(model, q), model.algebra.identity()]
    v = [*body_velocities(model, q, qd), model.algebra.zero()]
    return [*_tree_links(model, q, qd, v), *_loop_links(model, X0, v)]


def _tree_links(model: Tree, q: Array, qd: Array, v: list[Array]) -> Iterator[_Link]:
    """The joints of the tree between bodies that move with v."""
    for i, p in enumerate(model.parent):
        joint, here = model.joint[i], q[model.q_slices[i]]
        XJ, S, vJ, cJ = joint.jcalc(here, qd[model.v_slices[i]])
        bias = cJ + model.algebra.cross_motion(v[i], vJ)
        T = joint.constraint_forces(here)
        yield _Link(p, i, XJ @ model.Xtree[i], model.algebra.identity(), T, S, bias)


def _loop_links(model: Tree, X0: list[Any], v: list[Array]) -> Iterator[_Link]:
    """The loop joints between bodies, and the base, that are at X0 and move with v."""
    model.check_no_strings("the system of all bodies")
    for loop in model.loops:
        X = loop.Xs @ X0[loop.successor] @ (loop.Xp @ X0[loop.predecessor]).inverse()
        Xp, v_s = X @ loop.Xp, loop.Xs @ v[loop.successor]
        vJ = v_s - Xp @ v[loop.predecessor]
        T, _, c = loop.joint.constraint(X, vJ)
        bias = c + model.algebra.cross_motion(v_s, vJ)
        yield _Link(loop.predecessor, loop.successor, Xp, loop.Xs, T, np.zeros((len(T), 0)), bias)
