"""Models with loops, in states that keep the loops closed."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from planar_models import random_planar_tree
from random_models import joints_of_all_types, random_transform, random_tree
from rigidblocks.dynamics import body_poses
from rigidblocks.dynamics.loops import loop_constraints
from rigidblocks.robot.configuration import integrate, random_configuration
from rigidblocks.robot.joints import (
    Fixed,
    LoopJoint,
    PlanarPrismatic,
    PlanarRevolute,
    Prismatic,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
)
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.spatial.planar import xpln
from rigidblocks.spatial.spatial import Transform, identity, mcI, xlt

SPATIAL_LOOP_JOINTS = joints_of_all_types(np.random.default_rng(5))
PLANAR_LOOP_JOINTS = {
    "planar revolute": PlanarRevolute(),
    "planar prismatic x": PlanarPrismatic("x"),
    "planar prismatic y": PlanarPrismatic("y"),
}
LOOP_JOINTS = SPATIAL_LOOP_JOINTS | PLANAR_LOOP_JOINTS


class ClosedState(NamedTuple):
    q: np.ndarray
    qd: np.ndarray
    qdd: np.ndarray
    tau: np.ndarray


def with_loops(model, q, loops, rng):
    """Return the model with loop joints (joint, predecessor, successor) that are closed at q."""
    planar = isinstance(model, PlanarModel)
    poses = [*body_poses(model, q), model.algebra.identity()]
    closed = []
    for joint, p, s in loops:
        Xp = (
            xpln(rng.uniform(-np.pi, np.pi), rng.uniform(-1, 1, 2))
            if planar
            else random_transform(rng)
        )
        XJ = joint.jcalc(joint.random(rng), np.zeros(joint.nv)).XJ
        closed.append(LoopJoint(joint, p, s, Xp, XJ @ Xp @ poses[p] @ poses[s].inverse()))
    return replace(model, loops=tuple(closed))


def closed(model, q, steps=20):
    """Return the configuration that Newton's iteration on delta finds from q."""
    for _ in range(steps):
        c = loop_constraints(model, q, np.zeros(model.nv))
        q = integrate(model, q, -np.linalg.lstsq(c.K, c.delta, rcond=1e-9)[0])
    return q


def closed_state(model, q, rng, distance=0.05):
    """Return a state with closed loops, in position and in velocity, near the closed q."""
    n = model.nv
    q = closed(model, integrate(model, q, rng.uniform(-distance, distance, n)))
    K = loop_constraints(model, q, np.zeros(n)).K
    qd = rng.uniform(-1, 1, n)
    return ClosedState(
        q,
        qd - np.linalg.lstsq(K, K @ qd, rcond=1e-9)[0],
        rng.uniform(-3, 3, n),
        rng.uniform(-10, 10, n),
    )


def one_loop(name, rng):
    """Return two arms of different bodies, joined by a loop joint, in a closed state."""
    if name in PLANAR_LOOP_JOINTS:
        model = random_planar_tree(
            rng, (-1, 0, 1, -1, 3), (PlanarRevolute(),) * 4 + (PlanarPrismatic("x"),)
        )
    else:
        joints = (
            Universal(),
            Revolute((1.0, 2.0, 0.5)),
            Spherical(),
            Revolute(),
            Universal(),
            Prismatic(),
        )
        model = random_tree(rng, (-1, 0, 1, -1, 3, 4), joints)
    q = random_configuration(model, rng)
    model = with_loops(model, q, [(LOOP_JOINTS[name], 2, model.nb - 1)], rng)
    return model, closed_state(model, q, rng)


def _three_loops(rng):
    """Return three loops that share joints; one loop joint connects a body to the base."""
    joints = (
        Universal(),
        Spherical(),
        Revolute(),
        Revolute((1.0, 1.0, 0.0)),
        Spherical(),
        Universal(),
        Spherical(),
    )
    model = random_tree(rng, (-1, 0, 1, 0, 3, -1, 5), joints)
    q = random_configuration(model, rng)
    loops = [(Spherical(), 2, 4), (Universal(), 6, 4), (Spherical(), -1, 2)]
    return with_loops(model, q, loops, rng), q


def _floating_loops(rng):
    """Return two loops on a free body, closed by a prismatic and a cylindrical joint.

    The second loop joint has the opposite direction.
    """
    joints = (
        SixDoF(),
        Spherical(),
        Revolute(),
        Spherical(),
        Universal(),
        Revolute(),
        Spherical(),
        Revolute(),
    )
    model = random_tree(rng, (-1, 0, 1, 0, 3, 4, 0, 6), joints)
    q = random_configuration(model, rng)
    types = SPATIAL_LOOP_JOINTS
    return with_loops(
        model, q, [(types["prismatic"], 2, 5), (types["reversed cylindrical"], 5, 7)], rng
    ), q


def _planar_loops(rng):
    model = random_planar_tree(
        rng, (-1, 0, 1, 2, -1, 4, 5), (PlanarRevolute(),) * 6 + (PlanarPrismatic("y"),)
    )
    q = random_configuration(model, rng)
    return with_loops(model, q, [(PlanarRevolute(), 1, 4), (PlanarPrismatic("x"), 3, 6)], rng), q


INDEPENDENT = {
    "three loops": _three_loops,
    "floating loops": _floating_loops,
    "planar loops": _planar_loops,
}


def _doubled(rng):
    """Return a loop that is closed twice by ball joints at one point.

    Three of its constraints are redundant.
    """
    model, q = _three_loops(rng)
    first = model.loops[0]
    again = replace(first, Xp=random_rotation(rng) @ first.Xp, name="again")
    return replace(model, loops=(*model.loops, again)), q


def random_rotation(rng):
    return Transform(random_transform(rng).E, np.zeros(3))


def _spatial_four_bar(rng):
    """Return a planar four-bar in space with revolute joints.

    Three of its five constraints are redundant.
    """
    model = four_bar()
    return model, np.array([1.2, -0.4, -1.9]) + rng.uniform(-0.05, 0.05, 3)


def four_bar(joint=None):
    """Return three links about z on the base.

    The loop joint holds the last link to the base, 1.5 m from the first along x.
    """
    link = [
        mcI(m, [l / 2, 0.0, 0.0], np.diag([0.01, 0.1, 0.1]) * m)
        for m, l in ((1.0, 0.8), (2.0, 1.6), (1.5, 1.1))
    ]
    loop = LoopJoint(
        joint or Revolute(), -1, 2, xlt([1.5, 0.0, 0.0]), xlt([1.1, 0.0, 0.0]), "support"
    )
    Xtree = (identity(), xlt([0.8, 0.0, 0.0]), xlt([1.6, 0.0, 0.0]))
    return Model(
        "four-bar",
        (-1, 0, 1),
        (Revolute(),) * 3,
        Xtree,
        link,
        np.array([0.0, -9.81, 0.0]),
        loops=(loop,),
    )


def _welded(rng):
    """Return a welded tripod.

    Its loop with a fixed joint has more constraints than its arms have degrees of freedom.
    """
    model = random_tree(rng, (-1, 0, -1), (Revolute(), Revolute((0.0, 1.0, 0.0)), Spherical()))
    q = random_configuration(model, rng)
    return with_loops(model, q, [(Fixed(), 1, 2)], rng), q


DEPENDENT = {"doubled": _doubled, "spatial four-bar": _spatial_four_bar, "welded": _welded}
LOOP_MODELS = INDEPENDENT | DEPENDENT


def loop_model(name, seed=0):
    """Return a model with loops and a state that keeps them closed."""
    rng = np.random.default_rng([seed, 8])
    model, q = LOOP_MODELS[name](rng)
    return model, closed_state(model, q, rng)
