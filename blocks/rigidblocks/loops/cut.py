"""Loops cut open: every loop joint is one more joint of the tree, with a virtual body at its end
(Spencer 2004, A.3.2).

The loops are closed where the frame of each virtual body coincides with F_s, the frame that the
successor carries. So the constraints need nothing but transforms and Jacobians of the tree,
whatever the types of the joints; the variables of the loop joints are among its variables, after
those of the others.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.jacobian import body_jacobian
from rigidblocks.dynamics.sweeps import base_transforms, joint_kinematics
from rigidblocks.loops.constraints import loop_joint_motion
from rigidblocks.model.tree import Tree


def cut(model: Tree) -> Tree:
    """The tree with the loop joints among its joints, behind the others; body nb + l is the virtual
    body of loop joint l.

    Nothing is asked of the inertias of virtual bodies: they are not zero because a joint must move
    something.
    """
    model.check_no_strings("a tree with cut joints")
    n = len(model.loops)
    massive = next(
        body
        for body, name in zip(model.inertia, model.body_names, strict=True)
        if name not in model.massless
    )
    more = {
        "parent": (*model.parent, *(loop.predecessor for loop in model.loops)),
        "joint": (*model.joint, *(loop.joint for loop in model.loops)),
        "Xtree": (*model.Xtree, *(loop.Xp for loop in model.loops)),
        "inertia": (*model.inertia, *(massive,) * n),
        "body_names": (*model.body_names, *(f"end of {name}" for name in model.loop_names)),
        "joint_names": (*model.joint_names, *model.loop_names),
    }
    if hasattr(model, "contact"):
        more |= {"contact": (), "appearance": ()}
    tree: Tree = replace(model, loops=(), **more)  # type: ignore[type-var]  # the models are dataclasses
    return tree


def cut_state(model: Tree, q: Array, qd: Array) -> tuple[Array, Array]:
    """The configuration and velocities of the cut tree, those of the loop joints following from q
    (nq,) and qd (nv,).
    """
    positions, velocities = loop_joint_motion(model, q, qd)
    return np.concatenate([q, *positions]), np.concatenate([qd, *velocities])


def facing_frames(model: Tree, tree: Tree, q: Array) -> list[tuple[Any, Any]]:
    """Of each loop joint the transforms from base coordinates to F_s and to the frame of its
    virtual body; q is `tree`'s.
    """
    X0 = base_transforms(
        tree, [joint_kinematics(tree, i, q, np.zeros(tree.nv))[0] for i in range(tree.nb)]
    )
    X0.append(model.algebra.identity())
    return [(loop.Xs @ X0[loop.successor], X0[model.nb + l]) for l, loop in enumerate(model.loops)]


def facing_jacobians(model: Tree, tree: Tree, q: Array) -> list[tuple[Array, Array]]:
    """The Jacobians of the same frames, each in its own coordinates."""
    base = np.zeros((len(model.algebra.zero()), tree.nv))
    return [
        (
            loop.Xs @ (base if loop.successor < 0 else body_jacobian(tree, q, loop.successor)),
            body_jacobian(tree, q, model.nb + l),
        )
        for l, loop in enumerate(model.loops)
    ]
