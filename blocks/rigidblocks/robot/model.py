"""Models of kinematic trees, spatial (RBDA 4.6) and planar (RBDA 2.16), and inertias of solids.

A model contains only structure and parameters, no state and no results. The algorithms also accept
a `PlanarModel`, with vectors of 3 components instead of 6. A planar wrench is [n; fx; fy]. Planar
gravity has 2 components and is zero by default.

`box_inertia`, `sphere_inertia`, `cylinder_inertia` and `capsule_inertia` return the inertia of a
homogeneous solid about the origin of the body frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.common.arrays import LazyTuple
from rigidblocks.robot.joints import Joint, LoopJoint, StringConstraint
from rigidblocks.robot.joints.planar import spatial_joint
from rigidblocks.robot.shapes import Shape
from rigidblocks.robot.tree import Tree, complete, freeze
from rigidblocks.robot.validation import check_planar_model, check_spatial_model
from rigidblocks.spatial import planar, spatial
from rigidblocks.spatial.spatial import Array, RigidInertia, Transform, identity, mcI

STANDARD_GRAVITY = (0.0, 0.0, -9.81)


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class Model(Tree):
    """Kinematic tree of bodies 0 .. nb-1 in space.

    Joint i connects body `parent[i]` with body i; parent -1 is the fixed base. (RBDA numbers bodies
    from 1, and the base is 0.) The algorithms use the vector operations of `algebra`.

    Attributes:
        Xtree: `Xtree[i]` is the transform from coordinates of body `parent[i]` to the predecessor
            frame of joint i.
        inertia: `inertia[i]` is in the coordinates of body i.
        gravity: The gravity (3,) [m/s^2] in base coordinates.
        appearance: `appearance[i]` lists the visual shapes of body i.
        massless: The names of the bodies without inertia, which connect joints at the same point.
        loops: The loop joints; the algorithms of `dynamics` ignore them.
        contact: `contact[i]` lists the collision shapes of body i, in the coordinates of body i.
        unphysical: The names of the bodies whose inertia may be physically impossible, as in some
            published models.

    Raises:
        ValueError: The index of a parent is not below the index of its child, or the tuples differ
            in length. A value is not finite, or a joint is not spatial. An inertia is physically
            impossible, or a joint moves only massless bodies.
        TypeError: An entry of `joint` is not a joint.
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
    __repr__ = Tree.__repr__  # the default of dataclass would print every array

    def __post_init__(self) -> None:
        complete(self, 3)
        for name in ("appearance", "contact"):
            shapes = getattr(self, name)
            if not isinstance(shapes, LazyTuple):
                object.__setattr__(self, name, tuple(tuple(some) for some in shapes))
        object.__setattr__(self, "unphysical", tuple(self.unphysical))
        check_spatial_model(self)
        freeze(self)

    def with_gravity(self, gravity: ArrayLike) -> Model:
        """Return the model with the gravity `gravity` (3,) [m/s^2]."""
        return replace(self, gravity=np.asarray(gravity))


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class PlanarModel(Tree):
    """Kinematic tree in the x-y plane, numbered as in `Model`.

    `Xtree[i]`, `inertia[i]` and `joint[i]` are planar; `gravity` (2,) [m/s^2] is in base
    coordinates. `massless` contains the names of the bodies without inertia, which connect joints
    at the same point. `loops` are the loop joints.

    Raises:
        ValueError: The index of a parent is not below the index of its child, or the tuples differ
            in length. A value is not finite, or a field is not planar. An inertia is physically
            impossible, or a joint moves only massless bodies.
    """

    name: str
    parent: tuple[int, ...]
    joint: tuple[Joint, ...]
    Xtree: tuple[planar.Transform, ...]
    inertia: tuple[planar.RigidInertia, ...]
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

    def with_gravity(self, gravity: ArrayLike) -> PlanarModel:
        """Return the model with the gravity `gravity` (2,) [m/s^2]."""
        return replace(self, gravity=np.asarray(gravity))

    def spatial_model(self) -> Model:
        """Return the equivalent model in spatial vectors, with the same variables.

        The spatial model moves in the plane z = 0. A planar loop of revolute joints has three
        redundant constraints in space (RBDA 8.10, Figure 8.2b). The moments of inertia of the
        bodies about x and y through the centre of mass are half of the moment about z, as for a
        lamina.

        Raises:
            ValueError: A joint has a type without a spatial equivalent.
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


def _spatial(X: planar.Transform) -> spatial.Transform:
    E = np.eye(3)
    E[:2, :2] = X.E
    return spatial.Transform(E, np.array([*X.r, 0.0]))


def _lamina(body: planar.RigidInertia) -> spatial.RigidInertia:
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


_CENTRED = identity()


def box_inertia(
    sides: ArrayLike,
    *,
    mass: float | None = None,
    density: float | None = None,
    at: Transform = _CENTRED,
) -> RigidInertia:
    """Return the inertia of a homogeneous box about the origin of the body frame.

    The origin of the box frame is the centre of the box, and its axes are parallel to the sides. In
    the coordinates of this frame, the inertia about the centre is

    I_C = m/12 diag(b^2 + c^2, a^2 + c^2, a^2 + b^2).

    Args:
        sides: The side lengths a, b, c (3,) [m].
        mass: The mass m [kg]; give either the mass or the density.
        density: The density [kg/m^3].
        at: The transform from body to box coordinates.

    Raises:
        ValueError: Both or neither of mass and density are given, or a value is not positive.
    """
    a, b, c = _sizes("the sides of a box", sides, 3)
    m = _mass(a * b * c, mass, density)
    squares = np.array([b * b + c * c, a * a + c * c, a * a + b * b])
    return _solid_inertia(m, squares / 12, at)


def sphere_inertia(
    radius: float,
    *,
    mass: float | None = None,
    density: float | None = None,
    at: Transform = _CENTRED,
) -> RigidInertia:
    """Return the inertia of a homogeneous ball about the origin of the body frame.

    The origin of the ball frame is the centre of the ball. In the coordinates of this frame, the
    inertia about the centre is

    I_C = 2/5 m r^2 1.

    Args:
        radius: The radius r [m].
        mass: The mass m [kg]; give either the mass or the density.
        density: The density [kg/m^3].
        at: The transform from body to ball coordinates.

    Raises:
        ValueError: Both or neither of mass and density are given, or a value is not positive.
    """
    (r,) = _sizes("the radius of a sphere", radius, 1)
    m = _mass(4 / 3 * np.pi * r**3, mass, density)
    return _solid_inertia(m, np.full(3, 0.4 * r * r), at)


def cylinder_inertia(
    radius: float,
    height: float,
    *,
    mass: float | None = None,
    density: float | None = None,
    at: Transform = _CENTRED,
) -> RigidInertia:
    """Return the inertia of a homogeneous cylinder about the origin of the body frame.

    The origin of the cylinder frame is the centre of the cylinder, and z is the cylinder axis. In
    the coordinates of this frame, the inertia about the centre is

    I_C = m diag(r^2/4 + h^2/12, r^2/4 + h^2/12, r^2/2).

    Args:
        radius: The radius r [m].
        height: The height h [m].
        mass: The mass m [kg]; give either the mass or the density.
        density: The density [kg/m^3].
        at: The transform from body to cylinder coordinates.

    Raises:
        ValueError: Both or neither of mass and density are given, or a value is not positive.
    """
    r, h = _sizes("radius and height of a cylinder", [radius, height], 2)
    m = _mass(np.pi * r * r * h, mass, density)
    side = r * r / 4 + h * h / 12
    return _solid_inertia(m, np.array([side, side, r * r / 2]), at)


def capsule_inertia(
    radius: float,
    height: float,
    *,
    mass: float | None = None,
    density: float | None = None,
    at: Transform = _CENTRED,
) -> RigidInertia:
    """Return the inertia of a homogeneous capsule about the origin of the body frame.

    The capsule is a cylinder with a hemisphere on each end. The origin of the capsule frame is the
    centre of the capsule, and z is the cylinder axis.

    Args:
        radius: The radius of the cylinder and the hemispheres [m].
        height: The height of the cylinder [m].
        mass: The mass of the capsule [kg]; give either the mass or the density.
        density: The density [kg/m^3].
        at: The transform from body to capsule coordinates.

    Raises:
        ValueError: Both or neither of mass and density are given, or a value is not positive.
    """
    r, h = _sizes("radius and height of a capsule", [radius, height], 2)
    tube, ball = np.pi * r * r * h, 4 / 3 * np.pi * r**3
    m = _mass(tube + ball, mass, density)
    part = tube / (tube + ball)  # fraction of the mass in the cylinder
    side = part * (r * r / 4 + h * h / 12)
    side += (1 - part) * (0.4 * r * r + h * h / 4 + 3 / 8 * h * r)
    along = part * r * r / 2 + (1 - part) * 0.4 * r * r
    return _solid_inertia(m, np.array([side, side, along]), at)


def _sizes(subject: str, values: ArrayLike, count: int) -> Any:
    sizes = np.atleast_1d(np.asarray(values, dtype=float))
    if sizes.shape != (count,) or not np.all(np.isfinite(sizes)) or np.any(sizes <= 0):
        raise ValueError(f"{subject} must be {count} positive numbers, not {sizes.tolist()}")
    return sizes


def _mass(volume: float, mass: float | None, density: float | None) -> float:
    """Return the mass [kg] of a solid: `mass`, or `density` [kg/m^3] times `volume` [m^3]."""
    if (mass is None) == (density is None):
        raise ValueError("a solid needs either a mass [kg] or a density [kg/m^3], not both")
    m = mass if density is None else density * volume
    if m is None or not 0 < m < np.inf:
        raise ValueError(f"the mass of a solid must be positive, not {m} kg")
    return float(m)


def _solid_inertia(m: float, moments_per_kg: Any, at: Transform) -> RigidInertia:
    inertia: RigidInertia = mcI(m, np.zeros(3), m * np.diag(moments_per_kg)).transform_to_parent(at)
    return inertia
