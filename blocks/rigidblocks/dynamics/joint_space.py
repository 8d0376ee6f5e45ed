"""The joint-space inertia matrix, products with it, and forward dynamics by it (RBDA chapter 6)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rigidblocks.algebra.sparse import expand_lambda, solve_ltdl
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.inverse import bias_force, transmitted
from rigidblocks.dynamics.sweeps import (
    check_lengths,
    per_body,
    supported,
    transforms_and_subspaces,
)
from rigidblocks.model.tree import Tree

Solver = Callable[[Array, tuple[int, ...], Array], Array]


def expanded_parent(model: Tree) -> tuple[int, ...]:
    """The parent array of the model's velocity variables, which says where H has its zeros (RBDA
    Table 6.4).
    """
    return expand_lambda(model.parent, [joint.nv for joint in model.joint])


def crba(model: Tree, q: Array, rotor_inertia: Array | None = None) -> Array:
    """The joint-space inertia matrix H (nv, nv), symmetric positive definite.

    The composite-rigid-body algorithm (RBDA Table 6.2). `rotor_inertia` (nv,), what is felt of the
    motors' rotors behind their gears, is added to its diagonal (RBDA Eq 9.28).
    """
    check_lengths(model, q=q)
    H = inertia_of_joints(model, q, dict(enumerate(model.v_slices)))
    return H if rotor_inertia is None else H + np.diag(np.asarray(rotor_inertia))


def inertia_of_joints(model: Tree, q: Array, places: Mapping[int, slice], base: int = -1) -> Array:
    """The joint-space inertia matrix of some joints alone: those with `places` for their variables
    in it (RBDA Tables 6.2 and 9.1).

    A body `base` that floats is one with six freedoms of its own, the unit vectors (RBDA Eq 9.13).
    """
    Xup, S = transforms_and_subspaces(model, q, base)
    if base >= 0:
        S[base] = np.eye(6)
    moves = supported(model.parent, [i in places for i in range(model.nb)])
    Ic = composite_inertias(model, Xup, moves, base)
    n = max((place.stop for place in places.values()), default=0)
    H = np.zeros((n, n), dtype=np.result_type(float, np.asarray(q)))

    # each column of H from the force that moves the subtree of its joint
    for i, place in places.items():
        for j, F in _force_on_supports(model, Xup, Ic[i] @ S[i], i, moves):
            if j in places:
                H[places[j], place] = S[j].T @ F
                H[place, places[j]] = H[places[j], place].T
    return H


def composite_inertias(
    model: Tree, Xup: list[Any], moves: Sequence[bool] | None = None, base: int = -1
) -> list[Any]:
    """Inward: I^c_i, the inertia of all that body i carries behind `base`; of the bodies that
    move, where these are said.
    """
    Ic = list(model.inertia)
    for i in reversed(range(base + 1, model.nb)):
        if (p := model.parent[i]) >= 0 and (moves is None or moves[p]):
            Ic[p] = Ic[p] + Ic[i].to_parent(Xup[i])
    return Ic


def _force_on_supports(
    model: Tree, Xup: list[Any], F: Array, i: int, moves: Sequence[bool]
) -> Iterator[tuple[int, Array]]:
    """Inward from body i: each body on the way to the base that moves, with the force F on body i
    in its coordinates.
    """
    yield i, F
    while (p := model.parent[i]) >= 0 and moves[p]:
        F, i = Xup[i].T @ F, p
        yield i, F


def forward_dynamics_crba(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
    solve: Solver = solve_ltdl,
) -> Array:
    """The joint accelerations qdd (nv,) as the solution of H(q) qdd = tau - C(q, qd, f_ext) (RBDA
    6.1).

    By the composite-rigid-body and the recursive Newton-Euler algorithm; `solve` is `solve_ltdl` or
    `solve_ltl`, which leave out the branch-induced zeros. Raises ValueError where H is not positive
    definite in numbers.
    """
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    C = bias_force(model, q, qd, f_ext, gravity)
    return solve(crba(model, q), expanded_parent(model), tau - C)


def inertia_times(model: Tree, q: Array, qdd: Array) -> Array:
    """The product H(q) qdd (nv,) without H: the forces at rest without gravity (RBDA Table 6.1)."""
    check_lengths(model, q=q, qdd=qdd)
    Xup, S = transforms_and_subspaces(model, q)
    a, f, tau = per_body(model, 3)
    a[-1] = model.algebra.zero()

    # outward: accelerations, and the force that each body takes
    for i, p in enumerate(model.parent):
        a[i] = Xup[i] @ a[p] + S[i] @ qdd[model.v_slices[i]]
        f[i] = model.inertia[i] @ a[i]

    # inward: each joint transmits the force of its whole subtree
    for i in reversed(range(model.nb)):
        tau[i], fa = transmitted(model, i, Xup[i], S[i], f[i])
        if (p := model.parent[i]) >= 0:
            f[p] = f[p] + fa
    return np.concatenate(tau[:-1])
