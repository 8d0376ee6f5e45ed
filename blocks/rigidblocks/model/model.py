"""The system model of a kinematic tree (RBDA 4.6): structure only, no state and no results."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra import spatial
from rigidblocks.algebra.spatial import Array, RigidInertia, Transform
from rigidblocks.joint import Joint, LoopJoint, StringConstraint
from rigidblocks.model.checks import check_spatial_model
from rigidblocks.model.later import Later
from rigidblocks.model.shapes import Shape
from rigidblocks.model.tree import Tree, complete, freeze

STANDARD_GRAVITY = (0.0, 0.0, -9.81)


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Model(Tree):
    """A kinematic tree: bodies 0 .. nb-1, joint i from body `parent[i]` to body i, parent -1 the
    fixed base.

    (The book counts bodies from 1 and calls the base 0.) `Xtree[i]` takes the coordinates of body
    `parent[i]` to the predecessor frame of joint i; `inertia[i]` is in the coordinates of body i;
    `gravity` (3,) [m/s^2] is in base coordinates. `appearance[i]` lists the shapes to draw for body
    i. `massless` names the bodies without any inertia, which stand between joints that act at one
    place. `loops` are the joints beyond the tree, which close loops; the algorithms of `dynamics`
    are those of the tree without them. `contact[i]` lists the shapes with which body i touches, in
    its coordinates. `unphysical` names the bodies whose inertia is kept as it was published though
    no rigid body has it. The algorithms take vector operations from `algebra`.

    Raises ValueError for a parent not numbered below its child, for tuples of different lengths,
    for what is not finite, for a joint that is none for spatial vectors, for an inertia that no
    rigid body has, and for a joint that moves nothing but massless bodies; TypeError for what is no
    joint.
    """

    name: str
    parent: tuple[int, ...]
    joint: tuple[Joint, ...]
    Xtree: tuple[Transform, ...]
    inertia: tuple[RigidInertia, ...]
    gravity: Array = field(default_factory=lambda: np.array(STANDARD_GRAVITY))
    body_names: tuple[str, ...] = ()
    joint_names: tuple[str, ...] = ()
    appearance: Sequence[tuple[Shape, ...]] = ()
    massless: tuple[str, ...] = ()
    loops: tuple[LoopJoint, ...] = ()
    contact: Sequence[tuple[Shape, ...]] = ()
    unphysical: tuple[str, ...] = ()
    strings: tuple[StringConstraint, ...] = ()
    algebra: ClassVar[ModuleType] = spatial
    __repr__ = Tree.__repr__  # else dataclass would write out every array

    def __post_init__(self) -> None:
        complete(self, 3)
        for name in ("appearance", "contact"):
            shapes = getattr(self, name)
            if not isinstance(shapes, Later):
                object.__setattr__(self, name, tuple(tuple(some) for some in shapes))
        object.__setattr__(self, "unphysical", tuple(self.unphysical))
        check_spatial_model(self)
        freeze(self)

    def with_gravity(self, gravity: ArrayLike) -> "Model":
        """The same model in the gravity field `gravity` (3,) [m/s^2]."""
        return replace(self, gravity=np.asarray(gravity))
