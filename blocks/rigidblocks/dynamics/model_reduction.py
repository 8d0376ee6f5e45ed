"""Equivalent models, which need fewer operations for the same equation of motion (RBDA 9.7)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigidblocks.robot.joints import (
    Helical,
    Joint,
    JointMotion,
    LoopJoint,
    Prismatic,
    Revolute,
    Spherical,
    StringConstraint,
)
from rigidblocks.robot.joints.holonomic import Z, rotation_to_z
from rigidblocks.robot.model import Model
from rigidblocks.robot.shapes import Shape
from rigidblocks.spatial.spatial import Array, RigidInertia, Transform, identity, rotz, xlt

NEARLY_PARALLEL = 0.01  # [rad] largest angle between axes; model files round right angles


@dataclass(frozen=True, eq=False)
class EquivalentModel(Model):
    """Result of `equivalent`, only for algorithms: the bodies may have zero or negative mass.

    Joint positions, velocities, accelerations and forces, external wrenches in base coordinates and
    gravity have the same meaning as in the original model. The frame, inertia, momentum and energy
    of a single body differ from the original model.
    """

    def __post_init__(self) -> None:
        """Skip all checks: the original model passed them, and this model may be unphysical."""


@dataclass(frozen=True)
class OffsetRevolute(Revolute):
    """Revolute joint about z whose rotation is q + `angle` [rad]."""

    angle: float = 0.0

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        return super().jcalc(q + self.angle, qd)


def align_joint_axes(model: Model) -> Model:
    """Rotate the body frames so that general joint axes become z axes.

    Joints about z need the fewest operations in traced code. X_J is the transform of joint i,
    X_T(i) its tree transform, and X_z the transform of a joint about z. The function rotates the
    frame of body i by E_i: X_J X_T = E_i^T X_z E_i X_T. X_T(i) therefore becomes E_i X_T(i) E_p^T,
    where p is the parent of body i. The joint variables, the joint forces and the base frame do not
    change. The external wrenches are in base coordinates, so they do not change either.
    """
    joints, rotations = zip(*(joint.align_frames() for joint in model.joint), strict=True)
    if joints == model.joint and all(
        loop.joint.align_frames()[0] == loop.joint for loop in model.loops
    ):
        return model
    turns = [Transform(E, np.zeros(3)) for E in rotations]
    Xtree, inertia = _rotate_bodies(model, turns)
    return replace(
        model,
        joint=joints,
        Xtree=tuple(map(_remove_rounding_errors, Xtree)),
        inertia=inertia,
        loops=tuple(_align_loop(loop, [*turns, identity()]) for loop in model.loops),
        strings=tuple(_rotate_string(string, rotations) for string in model.strings),
        contact=_turn_shapes(model.contact, turns),
        appearance=_turn_shapes(model.appearance, turns),
    )


def align_axes_with_z(model: Model) -> EquivalentModel:
    """Rotate the body frames so that each revolute, prismatic and helical joint is along z.

    This reduces the number of different joint types. Unlike the result of `align_joint_axes`, the
    result has no loop joints, cables or shapes.
    """
    joints, rotations = list(model.joint), [np.eye(3)] * model.nb
    for i, joint in enumerate(model.joint):
        if isinstance(joint, Revolute | Prismatic | Helical) and not is_along_z(joint):
            joints[i], rotations[i] = replace(joint, axis=Z), rotation_to_z(joint.axis)
    turns = [Transform(E, np.zeros(3)) for E in rotations]
    return _equivalent_model(model, tuple(joints), *_rotate_bodies(model, turns))


def _rotate_bodies(
    model: Model, turns: list[Transform]
) -> tuple[tuple[Transform, ...], tuple[RigidInertia, ...]]:
    """Rotate the frame of each body i by `turns[i]`; return Xtree and the inertias."""
    Xtree = [turns[i] @ X for i, X in enumerate(model.Xtree)]
    return (
        tuple(
            X if p < 0 else X @ turns[p].inverse() for p, X in zip(model.parent, Xtree, strict=True)
        ),
        tuple(
            body.transform_to_parent(turn.inverse())
            for body, turn in zip(model.inertia, turns, strict=True)
        ),
    )


def align_loop_joints(model: Model) -> Model:
    """Align the axes of loop joints with z if possible; the body frames do not change."""
    still = [identity()] * (model.nb + 1)
    return replace(model, loops=tuple(_align_loop(loop, still) for loop in model.loops))


def _turn_shapes(
    shapes: Sequence[tuple[Shape, ...]], turns: list[Transform]
) -> tuple[tuple[Shape, ...], ...]:
    return tuple(
        tuple(shape.transform(turn) for shape in some)
        for some, turn in zip(shapes, turns, strict=False)
    )


def _rotate_string(string: StringConstraint, rotations: tuple[Array, ...]) -> StringConstraint:
    """Express the points of a cable in the rotated body frames."""
    points = [(i, point if i < 0 else rotations[i] @ point) for i, point in string.points]
    return replace(string, points=tuple(points))


def _align_loop(loop: LoopJoint, turns: list[Transform]) -> LoopJoint:
    """Express a loop joint in rotated body frames.

    `turns[i]` is the rotation of body frame i, and the last item is the rotation of the base.
    """
    joint, E = loop.joint.align_frames()
    turn = Transform(E, np.zeros(3))
    Xp = turn @ loop.Xp @ turns[loop.predecessor].inverse()
    Xs = turn @ loop.Xs @ turns[loop.successor].inverse()
    return replace(
        loop, joint=joint, Xp=_remove_rounding_errors(Xp), Xs=_remove_rounding_errors(Xs)
    )


def equivalent(model: Model) -> EquivalentModel:
    """Return a model with the same equation of motion and the fewest possible parameters.

    For joints along z, the body frames follow Denavit and Hartenberg. Some inertial parameters of a
    body have the same effect as parameters of the parent. The function adds these parameters to the
    parent (RBDA Table 9.7). For example, a body on a revolute joint retains 7 of 10 inertial
    parameters.
    """
    return _move_shared_inertia_to_parents(_use_denavit_hartenberg_frames(model))


def _use_denavit_hartenberg_frames(model: Model) -> EquivalentModel:
    """Move and rotate body frames along joint axes to Denavit-Hartenberg (DH) frames."""
    first_child = {p: i for i, p in reversed(list(enumerate(model.parent)))}
    moves = [xlt(np.zeros(3))] * (model.nb + 1)  # the last item is for the base
    joint, Xtree = list(model.joint), list(model.Xtree)
    for i, p in enumerate(model.parent):
        if is_along_z(model.joint[i]):
            moves[i] = _dh_frame_transform(model, i, first_child.get(i))
        X = moves[i] @ model.Xtree[i] @ moves[p].inverse()

        # move a remaining rotation about z to the joint or, without children, to the body frame
        if (angle := _turn_about_z(model.joint[i], X)) is not None:
            X = rotz(-angle) @ X
            if i in first_child:
                joint[i] = OffsetRevolute(angle=angle)
            else:
                moves[i] = rotz(-angle) @ moves[i]
        Xtree[i] = _remove_rounding_errors(X)
    inertia = [
        body.transform_to_parent(move.inverse())
        for body, move in zip(model.inertia, moves[:-1], strict=True)
    ]
    return _equivalent_model(model, tuple(joint), tuple(Xtree), tuple(inertia))


def _dh_frame_transform(model: Model, i: int, child: int | None) -> Transform:
    """Return the transform from body frame i to its DH frame, a screw about the z axis.

    The origin moves to the foot of the normal between the z axes of body and parent. x is along the
    normal between the z axes of the body and of `child`, the first child of the body. Without a
    child, x does not turn.
    """
    p = model.parent[i]
    along = (
        _locate_common_normal(model.Xtree[i])[1] if p >= 0 and is_along_z(model.joint[p]) else 0.0
    )
    turn = 0.0 if child is None else _locate_common_normal(model.Xtree[child])[0]
    move: Transform = rotz(turn) @ xlt([0.0, 0.0, along])
    return move


def _turn_about_z(joint: Joint, X: Transform) -> float | None:
    """Return the rotation angle [rad] of X about z, which a revolute joint about z can include.

    The result is None for other joints, or if the rotation of X is not a rotation about x followed
    by a rotation about z.
    """
    if not (isinstance(joint, Revolute) and is_along_z(joint) and abs(X.E[2, 0]) < 1e-14):
        return None
    return float(np.arctan2(-X.E[1, 0], X.E[0, 0]))


def is_along_z(joint: Joint) -> bool:
    """Return True for a revolute, prismatic or helical joint along z.

    A rotation about z and a shift along z of both joint frames do not change the joint equations.
    """
    return type(joint) in (Revolute, Prismatic, Helical) and joint.axis == (0.0, 0.0, 1.0)  # type: ignore[attr-defined]


def _locate_common_normal(X: Transform) -> tuple[float, float]:
    """Locate the common normal of the z axes of predecessor and successor (RBDA 4.3, Fig 4.9).

    X is the transform from predecessor to successor coordinates.
    The first value is the angle of the normal about the z axis of the predecessor. The second value
    is the displacement of the successor origin along its own z axis to the normal.
    """
    axis = X.E[2]
    sine = np.hypot(axis[0], axis[1])
    if sine < 1e-12:  # parallel axes: use the normal through the predecessor origin
        turn = float(np.arctan2(X.r[1], X.r[0])) if np.hypot(*X.r[:2]) > 0 else 0.0
        return turn, -X.r[2] / axis[2]
    x, y = -axis[1] / sine, axis[0] / sine
    across = np.array([-y, x, 0.0])
    turn = float(np.arctan2(y, x))
    if sine < NEARLY_PARALLEL:  # a distant normal would give large rounding errors
        return turn, -X.r[2] / axis[2]
    return turn, -(X.r @ across) / (axis @ across)


def _remove_rounding_errors(X: Transform) -> Transform:
    """Round elements of X.E close to 0, 1 or -1, and elements of X.r close to 0."""
    E = np.where(np.abs(X.E) < 1e-14, 0.0, X.E)
    E = np.where(np.abs(np.abs(E) - 1.0) < 1e-14, np.sign(E), E)
    return Transform(
        E, np.where(np.abs(X.r) < 1e-14 * max(1.0, float(np.abs(X.r).max())), 0.0, X.r)
    )


def _move_shared_inertia_to_parents(model: EquivalentModel) -> EquivalentModel:
    """Move the parent share of each body inertia to the parent body (RBDA 9.7).

    `split_inertia` defines the parent share.
    """
    inertia = list(model.inertia)
    for i, p in reversed(list(enumerate(model.parent))):
        inertia[i], shared = split_inertia(model.joint[i], inertia[i])
        if p >= 0:
            inertia[p] = inertia[p] + shared.transform_to_parent(model.Xtree[i])
    return replace(model, inertia=tuple(inertia))


def split_inertia(joint: Joint, inertia: RigidInertia) -> tuple[RigidInertia, RigidInertia]:
    """Split the inertia of a body so that one part can move to the parent (RBDA Table 9.7).

    Returns:
        The inertia that remains on the body, with as many zeros as possible, and the inertia that
        moves to the parent. Both inertias are in body coordinates.
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
    """Split the inertia of a body on a revolute joint about z as in `split_inertia`."""
    h, I = np.asarray(inertia.h), inertia.I
    half = (I[0, 0] + I[1, 1] - I[2, 2]) / 2
    shared = RigidInertia(inertia.m, np.array([0.0, 0.0, h[2]]), np.diag([half, half, 0.0]))
    own = RigidInertia(0.0, np.array([h[0], h[1], 0.0]), I - shared.I)
    return own, shared


def _equivalent_model(
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
