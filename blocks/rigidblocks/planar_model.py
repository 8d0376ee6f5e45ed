"""Planar models: kinematic trees that move in the x-y plane, in planar vectors (RBDA 2.16).

The algorithms take a `PlanarModel` as they take a `Model`, with arrays of 3 components in the place of 6: a planar wrench
is [n; fx; fy], and gravity has 2 components, zero unless given.
"""

from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks import planar
from rigidblocks.displacement import planar_displacement
from rigidblocks.joint import Joint, JointConstraint, JointMotion, LoopJoint
from rigidblocks.planar import RigidInertia, Transform, xlt, xpln
from rigidblocks.spatial import Array
from rigidblocks.tree import Tree, check_loops, check_massless, check_rotation, check_structure, checked_gravity, numbered


@dataclass(frozen=True)
class PlanarRevolute(Joint):
    """One rotation in the plane; q in rad (jcalcp code 1)."""

    nq = nv = 1
    q_units, qd_units, tau_units = ("rad",), ("rad/s",), ("N.m",)

    def nearest(self, X: Any) -> Array:
        return np.array([np.arctan2(X.E[0, 1], X.E[0, 0])])

    def constraint(self, X: Any, vJ: Array) -> JointConstraint:
        del vJ
        return JointConstraint(np.eye(3)[:, 1:], X.E @ X.r, np.zeros(3))

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        return _motion(xpln(q[0], np.zeros(2)), 0, qd)


@dataclass(frozen=True)
class PlanarPrismatic(Joint):
    """One translation along `axis`, "x" or "y" of the predecessor frame; q in m (jcalcp codes 2 and 3)."""

    axis: str = "x"
    nq = nv = 1
    q_units, qd_units, tau_units = ("m",), ("m/s",), ("N",)

    def __post_init__(self) -> None:
        if self.axis not in ("x", "y"):
            raise ValueError(f"a planar prismatic joint slides along 'x' or 'y', not along {self.axis!r}")

    def nearest(self, X: Any) -> Array:
        along: Array = X.r[:1] if self.axis == "x" else X.r[1:]
        return along

    def constraint(self, X: Any, vJ: Array) -> JointConstraint:
        del vJ
        T = np.eye(3)[:, [0, 2] if self.axis == "x" else [0, 1]]
        d = planar_displacement(X @ self.closest(X).inverse())
        return JointConstraint(T, T.T @ d, np.zeros(3))

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        along_x = self.axis == "x"
        return _motion(xlt([q[0], 0.0] if along_x else [0.0, q[0]]), 1 if along_x else 2, qd)


def _motion(XJ: Any, row: int, qd: Array) -> JointMotion:
    """What `jcalc` returns for a joint that moves along one coordinate: S (3, 1) is a column of the unit matrix."""
    S = np.eye(3)[:, [row]]
    return JointMotion(XJ, S, S @ qd, np.zeros(3))


def planar_joint_from_code(code: int) -> Joint:
    """The joint of a spatial_v1 `jcode`: 1 revolute, 2 prismatic along x, 3 prismatic along y."""
    joints = {1: PlanarRevolute(), 2: PlanarPrismatic("x"), 3: PlanarPrismatic("y")}
    if code not in joints:
        raise ValueError(f"a planar joint has the code 1 (revolute), 2 (prismatic along x) or 3 (along y), not {code}")
    return joints[code]


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class PlanarModel(Tree):
    """A kinematic tree in the x-y plane, numbered as in `Model`.

    `Xtree[i]`, `inertia[i]` and `joint[i]` are planar; `gravity` (2,) [m/s^2] is in base coordinates. `massless` names the
    bodies without any inertia, which stand between joints that act at one place; `loops` are the joints beyond the tree.

    Raises ValueError for a parent not numbered below its child, for tuples of different lengths, for what is not finite
    or not planar, for an inertia that no rigid body has, and for a joint that moves nothing but massless bodies.
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
    algebra: ClassVar[ModuleType] = planar

    def __post_init__(self) -> None:
        for name in ("parent", "joint", "Xtree", "inertia", "massless", "loops"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "gravity", checked_gravity(self.gravity, 2))
        object.__setattr__(self, "body_names", self.body_names or numbered("body", self.nb))
        object.__setattr__(self, "joint_names", self.joint_names or numbered("joint", self.nb))
        check_structure(self)
        for i in range(self.nb):
            _check_planar(self, i)
            check_rotation(self, i)
            _check_inertia(self, i)
        check_massless(self)
        check_loops(self)

    def with_gravity(self, gravity: ArrayLike) -> "PlanarModel":
        """The same model in the gravity field `gravity` (2,) [m/s^2]."""
        return replace(self, gravity=np.asarray(gravity))


def _check_planar(model: PlanarModel, i: int) -> None:
    """Refuses spatial parts, some of which have the same names; any joint with a planar transform is planar."""
    joint = model.joint[i]
    moves = isinstance(joint, Joint) and isinstance(joint.jcalc(joint.neutral(), np.zeros(joint.nv)).XJ, Transform)
    planar_parts = {"joint": moves, "Xtree": isinstance(model.Xtree[i], Transform)}
    planar_parts["inertia"] = isinstance(model.inertia[i], RigidInertia)
    for name, is_planar in planar_parts.items():
        if not is_planar:
            part = type(getattr(model, name)[i])
            raise ValueError(
                f"{name}[{i}] of planar model '{model.name}' must be one for planar vectors, not a "
                f"{part.__module__}.{part.__name__}"
            )


def _check_inertia(model: PlanarModel, i: int) -> None:
    """Refuses a mass that is not positive nor declared to be 0, and a negative moment about the centre of mass."""
    inertia, where = model.inertia[i], f"body {i} ({model.body_names[i]}) of planar model '{model.name}'"
    m, h, I_O = inertia.m, inertia.h, inertia.I
    if not np.all(np.isfinite([m, *h, I_O])):
        raise ValueError(f"the inertia of {where} is not finite: m = {m}, h = {h.tolist()}, I = {I_O}")
    if model.body_names[i] in model.massless:
        if m or np.any(h) or I_O:
            raise ValueError(f"{where} is declared massless; it has m = {m}, h = {h.tolist()}, I = {I_O}")
        return
    if m <= 0:
        raise ValueError(f"{where} has mass {m} kg; a mass must be positive, unless all of it is 0 and `massless` says so")
    I_C = I_O - h @ h / m
    if I_C < -1e-14 * I_O:  # the rounding of the shift from the origin
        raise ValueError(f"{where} has the rotational inertia {I_C} kg m^2 about its centre of mass; it may not be negative")
