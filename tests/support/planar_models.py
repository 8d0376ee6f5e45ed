"""Random planar models, and the spatial models of the same mechanisms."""

import numpy as np

from random_models import State
from rigidblocks.robot.joints import PlanarPrismatic, PlanarRevolute, Prismatic, Revolute
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.spatial import spatial
from rigidblocks.spatial.planar import mcI, xpln

PLANE = np.ix_(
    [2, 3, 4], [2, 3, 4]
)  # rows and columns of spatial matrices that belong to planar motion


def lifted(v):
    """Return the spatial vector of a planar one."""
    return np.array([0, 0, *v, 0])


def random_planar_tree(rng, parent, joints=None):
    kinds = (PlanarRevolute(), PlanarPrismatic("x"), PlanarPrismatic("y"))
    return PlanarModel(
        name="random planar tree",
        parent=parent,
        joint=joints or tuple(kinds[rng.integers(3)] for _ in parent),
        Xtree=tuple(xpln(rng.uniform(-np.pi, np.pi), rng.uniform(-1, 1, 2)) for _ in parent),
        inertia=tuple(
            mcI(rng.uniform(0.5, 2), rng.uniform(-0.5, 0.5, 2), rng.uniform(0.05, 0.5))
            for _ in parent
        ),
        gravity=rng.uniform(-10, 10, 2),
    )


def random_planar_state(rng, model):
    n = model.nv
    return State(
        rng.uniform(-np.pi, np.pi, n),
        rng.uniform(-2, 2, n),
        rng.uniform(-3, 3, n),
        rng.uniform(-10, 10, n),
        rng.uniform(-5, 5, (model.nb, 3)),
    )


# spatial joints act along z; after a planar prismatic joint the frame is therefore rotated so that
# z is the planar x or y
_TURNED = {
    PlanarRevolute(): np.eye(3),
    PlanarPrismatic("x"): np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
    PlanarPrismatic("y"): np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
}


def _lifted(X):
    E = np.eye(3)
    E[:2, :2] = X.E
    return spatial.Transform(E, np.array([*X.r, 0.0]))


def embedded(model):
    """Return the same mechanism as a spatial model.

    The out-of-plane inertias are arbitrary and have no effect.
    """
    turn = [spatial.Transform(_TURNED[joint], np.zeros(3)) for joint in model.joint]
    Xtree, inertia = [], []
    for i, p in enumerate(model.parent):
        back = turn[p].inverse() if p >= 0 else spatial.identity()
        Xtree.append(turn[i] @ _lifted(model.Xtree[i]) @ back)
        m, c = model.inertia[i].m, model.inertia[i].h / model.inertia[i].m
        I_C = model.inertia[i].I - m * c @ c
        body = spatial.mcI(m, [*c, 0.0], np.diag([0.6 * I_C, 0.7 * I_C, I_C]))
        inertia.append(body.transform_to_parent(turn[i].inverse()))
    return Model(
        name=f"embedded {model.name}",
        parent=model.parent,
        joint=tuple(
            Revolute() if joint == PlanarRevolute() else Prismatic() for joint in model.joint
        ),
        Xtree=tuple(Xtree),
        inertia=tuple(inertia),
        gravity=np.array([*model.gravity, 0.0]),
    )
