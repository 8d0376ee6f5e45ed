"""Planar models: kinematic trees that move in the x-y plane, in planar vectors (RBDA 2.16).

The algorithms take a `PlanarModel` as they take a `Model`, with arrays of 3 components in the place
of 6: a planar wrench is [n; fx; fy], and gravity has 2 components, zero unless given.
"""

from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra import planar, spatial
from rigidblocks.algebra.planar import RigidInertia, Transform
from rigidblocks.algebra.spatial import Array
from rigidblocks.joint import Joint, LoopJoint, StringConstraint
from rigidblocks.joint.planar import spatial_joint
from rigidblocks.model.checks import check_planar_model
from rigidblocks.model.model import Model
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

    def in_space(self) -> Model:
        """The same model in spatial vectors: it moves in the plane z = 0 as this one does, with the
        same variables.

        A planar loop of revolute joints has three constraints there that say nothing new (RBDA
        8.10, Figure 8.2b). The bodies are laminae: their moments about x and y through the centre
        of mass are half of that about z. Raises ValueError for a joint of another kind than those
        of `joint`.
        """
        return Model(
            self.name,
            self.parent,
            tuple(map(spatial_joint, self.joint)),
            tuple(map(_spatial, self.Xtree)),
            tuple(map(_lamina, self.inertia)),
            np.array([*self.gravity, 0.0]),
            self.body_names,
            self.joint_names,
            massless=self.massless,
            loops=tuple(map(_spatial_loop, self.loops)),
            strings=tuple(map(_spatial_string, self.strings)),
        )


def _spatial(X: Transform) -> spatial.Transform:
    E = np.eye(3)
    E[:2, :2] = X.E
    return spatial.Transform(E, np.array([*X.r, 0.0]))


def _lamina(body: RigidInertia) -> spatial.RigidInertia:
    if not body.m:
        return spatial.RigidInertia(0.0, np.zeros(3), np.diag([0.0, 0.0, body.I]))
    c = body.h / body.m
    I_C = body.I - body.h @ c
    return spatial.mcI(body.m, [*c, 0.0], np.diag([0.5, 0.5, 1.0]) * I_C)


def _spatial_loop(loop: LoopJoint) -> LoopJoint:
    Xp, Xs = _spatial(loop.Xp), _spatial(loop.Xs)
    return replace(loop, joint=spatial_joint(loop.joint), Xp=Xp, Xs=Xs)


def _spatial_string(string: StringConstraint) -> StringConstraint:
    return replace(string, points=tuple((body, [*point, 0.0]) for body, point in string.points))
