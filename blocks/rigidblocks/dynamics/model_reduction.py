"""Dynamic equivalence: another model with the same equation of motion that is cheaper to compute
(RBDA 9.7).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigidblocks.algebra.spatial import Array, RigidInertia, Transform, identity, rotz, xlt
from rigidblocks.joint import (
    Helical,
    Joint,
    JointMotion,
    LoopJoint,
    Prismatic,
    Revolute,
    Spherical,
    StringConstraint,
)
from rigidblocks.joint.axial import Z, onto_z
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Shape

NEARLY_PARALLEL = 0.01  # [rad] between axes; quarter turns are written with few digits in files


@dataclass(frozen=True, eq=False)
class EquivalentModel(Model):
    """What `equivalent` returns: for the algorithms alone, with bodies that may have no mass, or
    less.

    Joint positions, velocities, accelerations and forces, external forces in base coordinates and
    gravity mean what they mean in the first model. Whatever belongs to one body does not: its
    frame, its inertia, its momentum and energy.
    """

    def __post_init__(self) -> None:
        """Nothing is checked: the model that this one stands for was, and no body has these
        inertias.
        """


@dataclass(frozen=True)
class ScrewedRevolute(Revolute):
    """A revolute joint about z that is turned by `angle` [rad] at q = 0."""

    angle: float = 0.0

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        return super().jcalc(q + self.angle, qd)


def aligned(model: Model) -> Model:
    """The same mechanism in other body frames, in which the joints about general axes are about z:
    the cheapest to trace.

    Body i is turned by E_i: X_J X_T = E_i^T X_z E_i X_T, so that X_T(i) becomes E_i X_T(i) E_p^T of
    its parent p. The joint variables and forces, the base frame and so the external forces stay
    what they are.
    """
    joints, rotations = zip(*(joint.aligned() for joint in model.joint), strict=True)
    if joints == model.joint and all(loop.joint.aligned()[0] == loop.joint for loop in model.loops):
        return model
    turns = [Transform(E, np.zeros(3)) for E in rotations]
    Xtree, inertia = _turned_bodies(model, turns)
    return replace(
        model,
        joint=joints,
        Xtree=tuple(map(_tidy, Xtree)),
        inertia=inertia,
        loops=tuple(_aligned_loop(loop, [*turns, identity()]) for loop in model.loops),
        strings=tuple(_aligned_string(string, rotations) for string in model.strings),
        contact=_turn_shapes(model.contact, turns),
        appearance=_turn_shapes(model.appearance, turns),
    )


def about_z(model: Model) -> EquivalentModel:
    """The tree of a model in other body frames, in which every joint along one axis is along z: the
    bodies are then of few kinds.
    """
    joints, rotations = list(model.joint), [np.eye(3)] * model.nb
    for i, joint in enumerate(model.joint):
        if isinstance(joint, Revolute | Prismatic | Helical) and not keeps_z_screws(joint):
            joints[i], rotations[i] = replace(joint, axis=Z), onto_z(joint.axis)
    turns = [Transform(E, np.zeros(3)) for E in rotations]
    return _equivalent(model, tuple(joints), *_turned_bodies(model, turns))


def _turned_bodies(
    model: Model, turns: list[Transform]
) -> tuple[tuple[Transform, ...], tuple[RigidInertia, ...]]:
    """Xtree and the inertias of bodies whose frames are turned."""
    Xtree = [turns[i] @ X for i, X in enumerate(model.Xtree)]
    return (
        tuple(
            X if p < 0 else X @ turns[p].inverse() for p, X in zip(model.parent, Xtree, strict=True)
        ),
        tuple(
            body.to_parent(turn.inverse()) for body, turn in zip(model.inertia, turns, strict=True)
        ),
    )


def with_aligned_loops(model: Model) -> Model:
    """The model with the loop joints of `aligned`, between its own body frames."""
    still = [identity()] * (model.nb + 1)
    return replace(model, loops=tuple(_aligned_loop(loop, still) for loop in model.loops))


def _turn_shapes(
    shapes: Sequence[tuple[Shape, ...]], turns: list[Transform]
) -> tuple[tuple[Shape, ...], ...]:
    return tuple(
        tuple(shape.moved(turn) for shape in some)
        for some, turn in zip(shapes, turns, strict=False)
    )


def _aligned_string(string: StringConstraint, rotations: tuple[Array, ...]) -> StringConstraint:
    """The string between turned bodies."""
    points = [(i, point if i < 0 else rotations[i] @ point) for i, point in string.points]
    return replace(string, points=tuple(points))


def _aligned_loop(loop: LoopJoint, turns: list[Transform]) -> LoopJoint:
    """The loop joint between turned bodies, its own frames turned too; the last of `turns` is the
    base's.
    """
    joint, E = loop.joint.aligned()
    turn = Transform(E, np.zeros(3))
    Xp = turn @ loop.Xp @ turns[loop.predecessor].inverse()
    Xs = turn @ loop.Xs @ turns[loop.successor].inverse()
    return replace(loop, joint=joint, Xp=_tidy(Xp), Xs=_tidy(Xs))


def equivalent(model: Model) -> EquivalentModel:
    """A model with the same equation of motion as `model`, in as few numbers as its joints allow.

    The body frames are those of Denavit and Hartenberg as far as the joints lie along z, and
    inertia that a body shares with its parent (RBDA Table 9.7) is given to the parent: behind a
    revolute joint 7 parameters remain of 10.
    """
    return _with_shared_inertia_at_the_parents(_in_denavit_hartenberg_frames(model))


def _in_denavit_hartenberg_frames(model: Model) -> EquivalentModel:
    """Every body frame turned about and moved along the z axis of its joint, where that changes no
    equation.
    """
    first_child = {p: i for i, p in reversed(list(enumerate(model.parent)))}
    moves = [xlt(np.zeros(3))] * (model.nb + 1)  # the last is the base
    joint, Xtree = list(model.joint), list(model.Xtree)
    for i, p in enumerate(model.parent):
        if keeps_z_screws(model.joint[i]):
            moves[i] = _to_common_normals(model, i, first_child.get(i))
        X = moves[i] @ model.Xtree[i] @ moves[p].inverse()

        # a turn about z that is left: the joint's own where bodies follow, else the body's
        if (angle := _turn_about_z(model.joint[i], X)) is not None:
            X = rotz(-angle) @ X
            if i in first_child:
                joint[i] = ScrewedRevolute(angle=angle)
            else:
                moves[i] = rotz(-angle) @ moves[i]
        Xtree[i] = _tidy(X)
    inertia = [
        body.to_parent(move.inverse()) for body, move in zip(model.inertia, moves[:-1], strict=True)
    ]
    return _equivalent(model, tuple(joint), tuple(Xtree), tuple(inertia))


def _to_common_normals(model: Model, i: int, child: int | None) -> Transform:
    """How frame i goes to where the common normals of its z axis and its neighbours' meet that
    axis, with x along that of its first child.
    """
    p = model.parent[i]
    along = _foot(model.Xtree[i])[1] if p >= 0 and keeps_z_screws(model.joint[p]) else 0.0
    turn = 0.0 if child is None else _foot(model.Xtree[child])[0]
    move: Transform = rotz(turn) @ xlt([0.0, 0.0, along])
    return move


def _turn_about_z(joint: Joint, X: Transform) -> float | None:
    """The angle by which a revolute joint about z may begin, so that its tree transform does not
    turn about z; None for any other.
    """
    if not (isinstance(joint, Revolute) and keeps_z_screws(joint) and abs(X.E[2, 0]) < 1e-14):
        return None
    return float(np.arctan2(-X.E[1, 0], X.E[0, 0]))


def keeps_z_screws(joint: Joint) -> bool:
    """Whether a joint is along z alone, so that turning and moving both its frames alike about z
    changes nothing.
    """
    return type(joint) in (Revolute, Prismatic, Helical) and joint.axis == (0.0, 0.0, 1.0)  # type: ignore[attr-defined]


def _foot(X: Transform) -> tuple[float, float]:
    """The angle about the predecessor's z of the common normal of its z axis and the successor's,
    and how far along its own z axis the successor's origin has to move to stand on that normal
    (RBDA 4.3, Figure 4.9).
    """
    axis = X.E[2]
    sine = np.hypot(axis[0], axis[1])
    if sine < 1e-12:  # parallel axes: the normal through the predecessor's origin
        turn = float(np.arctan2(X.r[1], X.r[0])) if np.hypot(*X.r[:2]) > 0 else 0.0
        return turn, -X.r[2] / axis[2]
    x, y = -axis[1] / sine, axis[0] / sine
    across = np.array([-y, x, 0.0])
    turn = float(np.arctan2(y, x))
    if sine < NEARLY_PARALLEL:  # their normal is far away, where inertia is all rounding
        return turn, -X.r[2] / axis[2]
    return turn, -(X.r @ across) / (axis @ across)


def _tidy(X: Transform) -> Transform:
    """The transform without rounding dust, so that the frames' zeros and ones vanish from a
    trace.
    """
    E = np.where(np.abs(X.E) < 1e-14, 0.0, X.E)
    E = np.where(np.abs(np.abs(E) - 1.0) < 1e-14, np.sign(E), E)
    return Transform(
        E, np.where(np.abs(X.r) < 1e-14 * max(1.0, float(np.abs(X.r).max())), 0.0, X.r)
    )


def _with_shared_inertia_at_the_parents(model: EquivalentModel) -> EquivalentModel:
    """Inward: the inertia that a body has in common with its parent is taken from it (RBDA 9.7)."""
    inertia = list(model.inertia)
    for i, p in reversed(list(enumerate(model.parent))):
        inertia[i], shared = split(model.joint[i], inertia[i])
        if p >= 0:
            inertia[p] = inertia[p] + shared.to_parent(model.Xtree[i])
    return replace(model, inertia=tuple(inertia))


def split(joint: Joint, inertia: RigidInertia) -> tuple[RigidInertia, RigidInertia]:
    """What a body keeps of its inertia, with the most zeros, and what may as well be its parent's
    (RBDA Table 9.7).
    """
    m, h, I = inertia.m, np.asarray(inertia.h), inertia.I
    none = np.zeros(3)
    if isinstance(joint, Revolute) and joint.axis == (0.0, 0.0, 1.0):
        return _split_about_z(inertia)
    if isinstance(joint, Prismatic):
        return RigidInertia(m, h, 0.0 * I), RigidInertia(0.0, none, I)
    if isinstance(joint, Spherical):
        return RigidInertia(0.0, h, I), RigidInertia(m, none, 0.0 * I)
    return inertia, RigidInertia(0.0, none, 0.0 * I)


def _split_about_z(inertia: RigidInertia) -> tuple[RigidInertia, RigidInertia]:
    """The same behind a revolute joint about z: the mass as if it were on the axis is shared."""
    h, I = np.asarray(inertia.h), inertia.I
    half = (I[0, 0] + I[1, 1] - I[2, 2]) / 2
    shared = RigidInertia(inertia.m, np.array([0.0, 0.0, h[2]]), np.diag([half, half, 0.0]))
    own = RigidInertia(0.0, np.array([h[0], h[1], 0.0]), I - shared.I)
    return own, shared


def _equivalent(
    model: Model,
    joint: tuple[Joint, ...],
    Xtree: tuple[Transform, ...],
    inertia: tuple[RigidInertia, ...],
) -> EquivalentModel:
    return EquivalentModel(
        model.name,
        model.parent,
        joint,
        Xtree,
        inertia,
        model.gravity,
        model.body_names,
        model.joint_names,
    )
