"""The system model of a kinematic tree (RBDA 4.6): structure only, no state and no results."""

from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks import spatial
from rigidblocks.joint import Joint, LoopJoint
from rigidblocks.spatial import Array, RigidInertia, Transform, identity
from rigidblocks.tree import Tree, check_loops, check_massless, check_rotation, check_structure, checked_gravity, numbered

if TYPE_CHECKING:
    from rigidblocks.contact.geometry import Shape

STANDARD_GRAVITY = (0.0, 0.0, -9.81)


@dataclass(frozen=True)
class Box:
    """A drawing primitive: a box between two corners (3,) [m], in the body's frame."""

    low: tuple[float, float, float]
    high: tuple[float, float, float]


@dataclass(frozen=True)
class Cylinder:
    """A drawing primitive: a cylinder of `radius` and `height` [m] around `centre` along the x, y or z `axis`."""

    centre: tuple[float, float, float]
    radius: float
    height: float
    axis: str


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Model(Tree):
    """A kinematic tree: bodies 0 .. nb-1, joint i from body `parent[i]` to body i, parent -1 the fixed base.

    (The book counts bodies from 1 and calls the base 0.) `Xtree[i]` takes the coordinates of body `parent[i]` to the
    predecessor frame of joint i; `inertia[i]` is in the coordinates of body i; `gravity` (3,) [m/s^2] is in base
    coordinates. `appearance[i]` lists what to draw for body i. `massless` names the bodies without any inertia, which
    stand between joints that act at one place. `loops` are the joints beyond the tree, which close loops; the algorithms of
    `dynamics` are those of the tree without them. `contact[i]` lists the shapes with which body i touches, in its
    coordinates. The algorithms take vector operations from `algebra`.

    Raises ValueError for a parent not numbered below its child, for tuples of different lengths, for what is not finite,
    for a joint that is none for spatial vectors, for an inertia that no rigid body has, and for a joint that moves
    nothing but massless bodies; TypeError for what is no joint.
    """

    name: str
    parent: tuple[int, ...]
    joint: tuple[Joint, ...]
    Xtree: tuple[Transform, ...]
    inertia: tuple[RigidInertia, ...]
    gravity: Array = field(default_factory=lambda: np.array(STANDARD_GRAVITY))
    body_names: tuple[str, ...] = ()
    joint_names: tuple[str, ...] = ()
    appearance: tuple[tuple[Box | Cylinder, ...], ...] = ()
    massless: tuple[str, ...] = ()
    loops: tuple[LoopJoint, ...] = ()
    contact: "tuple[tuple[Shape, ...], ...]" = ()
    algebra: ClassVar[ModuleType] = spatial

    def __post_init__(self) -> None:
        for name in ("parent", "joint", "Xtree", "inertia", "massless", "loops"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "gravity", checked_gravity(self.gravity, 3))
        object.__setattr__(self, "body_names", self.body_names or numbered("body", self.nb))
        object.__setattr__(self, "joint_names", self.joint_names or numbered("joint", self.nb))
        check_structure(self)
        for i in range(self.nb):
            _check_parts(self, i)
            check_rotation(self, i)
            _check_inertia(self, i)
        check_massless(self)
        check_loops(self)
        _check_contact(self)

    def with_gravity(self, gravity: ArrayLike) -> "Model":
        """The same model in the gravity field `gravity` (3,) [m/s^2]."""
        return replace(self, gravity=np.asarray(gravity))


def aligned(model: Model) -> Model:
    """The same mechanism in other body frames, in which the joints about general axes are about z: the cheapest to trace.

    Body i is turned by E_i: X_J X_T = E_i^T X_z E_i X_T, so that X_T(i) becomes E_i X_T(i) E_p^T of its parent p. The joint
    variables and forces, the base frame and so the external forces stay what they are; there is nothing to draw.
    """
    joints, rotations = zip(*(joint.aligned() for joint in model.joint), strict=True)
    if joints == model.joint and all(loop.joint.aligned()[0] == loop.joint for loop in model.loops):
        return model
    turns = [Transform(E, np.zeros(3)) for E in rotations]
    Xtree = [turns[i] @ X for i, X in enumerate(model.Xtree)]
    return replace(
        model,
        joint=joints,
        Xtree=tuple(X if p < 0 else X @ turns[p].inverse() for p, X in zip(model.parent, Xtree, strict=True)),
        inertia=tuple(body.to_parent(turn.inverse()) for body, turn in zip(model.inertia, turns, strict=True)),
        loops=tuple(_aligned_loop(loop, [*turns, identity()]) for loop in model.loops),
        contact=tuple(tuple(shape.moved(turn) for shape in some) for some, turn in zip(model.contact, turns, strict=False)),
        appearance=(),
    )


def _aligned_loop(loop: LoopJoint, turns: list[Transform]) -> LoopJoint:
    """The loop joint between turned bodies, its own frames turned too; the last of `turns` is the base's."""
    joint, E = loop.joint.aligned()
    turn = Transform(E, np.zeros(3))
    Xp = turn @ loop.Xp @ turns[loop.predecessor].inverse()
    return replace(loop, joint=joint, Xp=Xp, Xs=turn @ loop.Xs @ turns[loop.successor].inverse())


def _check_parts(model: Model, i: int) -> None:
    """Refuses what has not the sizes of spatial vectors, and a joint whose sizes and units do not agree."""
    joint, X, inertia = model.joint[i], model.Xtree[i], model.inertia[i]
    where = f"[{i}] ({model.joint_names[i]}) of model '{model.name}'"
    if not isinstance(joint, Joint):
        raise TypeError(f"joint{where} is {joint!r}; it must be a joint of rigidblocks.joint")
    sizes = (len(joint.neutral()), joint.nq, len(joint.q_units)), (joint.nv, len(joint.qd_units), len(joint.tau_units))
    if any(len(set(size)) > 1 for size in sizes):
        raise ValueError(f"joint{where} needs one unit a variable; {joint!r} has {sizes[0]} for q and {sizes[1]} for qd")
    if (shape := joint.jcalc(joint.neutral(), np.zeros(joint.nv)).S.shape) != (6, joint.nv):
        raise ValueError(f"joint{where} has an S of shape {shape}; spatial vectors need {(6, joint.nv)}")
    shapes = {"E": (X.E, (3, 3)), "r": (X.r, (3,)), "h": (inertia.h, (3,)), "I": (inertia.I, (3, 3))}
    for name, (value, needed) in shapes.items():
        if np.shape(value) != needed:
            part = "Xtree" if name in "Er" else "inertia"
            raise ValueError(f"{part}{where} has {name} of shape {np.shape(value)}; it needs {needed}")


def _check_inertia(model: Model, i: int) -> None:
    """Refuses a mass that is not positive, and moments that break positive definiteness or the triangle inequality."""
    inertia, where = model.inertia[i], f"body {i} ({model.body_names[i]}) of model '{model.name}'"
    m, h, I_O = inertia.m, inertia.h, inertia.I
    if not (np.isfinite(m) and np.all(np.isfinite(h)) and np.all(np.isfinite(I_O))):
        raise ValueError(f"the inertia of {where} is not finite: m = {m}, h = {h.tolist()}, I = {I_O.tolist()}")
    if model.body_names[i] in model.massless:
        if m or np.any(h) or np.any(I_O):
            raise ValueError(f"{where} is declared massless; it has m = {m}, h = {h.tolist()}, I = {I_O.tolist()}")
        return
    if m <= 0:
        raise ValueError(f"{where} has mass {m} kg; a mass must be positive, unless all of it is 0 and `massless` says so")
    c = h / m
    moments = np.linalg.eigvalsh(I_O - m * (c @ c * np.eye(3) - np.outer(c, c)))
    slack = 1e-9 * moments[2] + 1e-14 * np.trace(I_O)  # rounding of the moments, and of their shift from the origin
    if moments[0] < -slack or moments[0] + moments[1] < moments[2] - slack:
        raise ValueError(
            f"the rotational inertia of {where} is not physical: its principal moments about the centre of mass are "
            f"{moments.tolist()} kg m^2; none may be negative, and the two smaller must sum to at least the largest"
        )


def _check_contact(model: Model) -> None:
    """Refuses shapes for contact that are not a list for each body, and what is no shape."""
    if len(model.contact) not in (0, model.nb):
        raise ValueError(
            f"contact of model '{model.name}' lists shapes for {len(model.contact)} bodies; it needs a list for each of its "
            f"{model.nb}, which may be empty"
        )
    for name, some in zip(model.body_names, model.contact, strict=False):
        for shape in some:
            if not hasattr(shape, "moved"):
                raise TypeError(
                    f"a shape of body {name} of model '{model.name}' is {shape!r}; it must be a Shape for contact"
                )
