"""The position and velocity kinematics that all algorithms start with (RBDA 4.4, Table 5.1).

Lists are indexed by body; their last entry, which is number -1, is the base.
"""

from typing import Any

import numpy as np

from rigidblocks.model import Model
from rigidblocks.spatial import Array


def joint_kinematics(model: Model, i: int, q: Array, qd: Array) -> tuple[Any, Array, Array, Array]:
    """The transform from the parent to body i, and S, vJ and cJ of its joint (RBDA Table 5.1)."""
    XJ, S, vJ, cJ = model.joint[i].jcalc(q[model.q_slices[i]], qd[model.v_slices[i]])
    return XJ @ model.Xtree[i], S, vJ, cJ


def base_transforms(model: Model, Xup: list[Any]) -> list[Any]:
    """The transforms from base to body coordinates of all bodies, from those of their parents."""
    X0 = [model.algebra.identity()] * (model.nb + 1)
    for i, p in enumerate(model.parent):
        X0[i] = Xup[i] @ X0[p]
    return X0[:-1]


def minus_gravity(model: Model, gravity: Array | None) -> Array:
    """The fictitious acceleration of the base, -a_g, that stands for uniform gravity (RBDA 5.3)."""
    a_g: Array = model.algebra.uniform(np.asarray(model.gravity if gravity is None else gravity))
    return -a_g


def per_body(model: Model, count: int) -> tuple[list[Any], ...]:
    """As many empty lists, each with a place for every body and the base."""
    return tuple([None] * (model.nb + 1) for _ in range(count))
