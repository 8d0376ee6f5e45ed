"""Planar models: kinematic trees that move in the x-y plane, in planar vectors (RBDA 2.16).

The algorithms take a `PlanarModel` as they take a `Model`, with arrays of 3 components in the place
of 6: a planar wrench is [n; fx; fy], and gravity has 2 components, zero unless given.
"""

from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra import planar
from rigidblocks.algebra.planar import RigidInertia, Transform
from rigidblocks.algebra.spatial import Array
from rigidblocks.joint import Joint, LoopJoint, StringConstraint
from rigidblocks.model.checks import check_planar_model
from rigidblocks.model.tree import Tree, complete, freeze


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class PlanarModel(Tree):
    """A kinematic tree in the x-y plane, numbered as in `Model`.

    `Xtree[i]`, `inertia[i]` and `joint[i]` are planar; `gravity` (2,) [m/s^2] is in base
    coordinates. `massless` names the bodies without any inertia, which stand between joints that
    act at one place; `loops` are the joints beyond the tree.

    Raises ValueError for a parent not numbered below its child, for tuples of different lengths,
    for what is not finite or not planar, for an inertia that no rigid body has, and for a joint
    that moves nothing but massless bodies.
    """

    name: str
    parent: tuple[int, ...]
    joint: tuple[Joint, ...]
    Xtree: tuple[Transform, ...]
    inertia: tuple[RigidInertia, ...]
    gravity: Array = field(default_factory=lambda: np.zeros(2))
    body_names: tuple[str, ...] = ()
    joint_names: tuple[str, ...] = ()
    massless: tuple[str, ...] = ()
    loops: tuple[LoopJoint, ...] = ()
    strings: tuple[StringConstraint, ...] = ()
    algebra: ClassVar[ModuleType] = planar
    __repr__ = Tree.__repr__

    def __post_init__(self) -> None:
        complete(self, 2)
        check_planar_model(self)
        freeze(self)

    def with_gravity(self, gravity: ArrayLike) -> "PlanarModel":
        """The same model in the gravity field `gravity` (2,) [m/s^2]."""
        return replace(self, gravity=np.asarray(gravity))
