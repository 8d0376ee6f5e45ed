"""Dynamic equivalence: another model with the same equation of motion that is cheaper to compute (RBDA 9.7)."""

from dataclasses import dataclass, replace

import numpy as np

from rigidblocks.joint import Helical, Joint, JointMotion, Prismatic, Revolute, Spherical
from rigidblocks.model import Model
from rigidblocks.spatial import Array, RigidInertia, Transform, rotz, xlt


@dataclass(frozen=True, eq=False)
class EquivalentModel(Model):
    """What `equivalent` returns: for the algorithms alone, with bodies that may have no mass, or less.

    Joint positions, velocities, accelerations and forces, external forces in base coordinates and gravity mean what they
    mean in the first model. Whatever belongs to one body does not: its frame, its inertia, its momentum and energy.
    """

    def __post_init__(self) -> None:
        """Nothing is checked: the model that this one stands for was, and no body has these inertias."""


@dataclass(frozen=True)
class ScrewedRevolute(Revolute):
    """A revolute joint about z that is turned by `angle` [rad] at q = 0."""

    angle: float = 0.0

    def jcalc(self, q: Array, qd: Array) -> JointMotion:
        return super().jcalc(q + self.angle, qd)


def equivalent(model: Model) -> EquivalentModel:
    """A model with the same equation of motion as `model`, in as few numbers as its joints allow.

    The body frames are those of Denavit and Hartenberg as far as the joints lie along z, and inertia that a body shares
    with its parent (RBDA Table 9.7) is given to the parent: behind a revolute joint 7 parameters remain of 10.
    """
    return _with_shared_inertia_at_the_parents(_in_denavit_hartenberg_frames(model))


def _in_denavit_hartenberg_frames(model: Model) -> EquivalentModel:
    """Every body frame turned about and moved along the z axis of its joint, where that changes no equation."""
    first_child = {p: i for i, p in reversed(list(enumerate(model.parent)))}
    moves = [xlt(np.zeros(3))] * (model.nb + 1)  # the last is the base
    joint, Xtree = list(model.joint), list(model.Xtree)
    for i, p in enumerate(model.parent):
        if keeps_z_screws(model.joint[i]):
            along = _foot(model.Xtree[i])[1] if p >= 0 and keeps_z_screws(model.joint[p]) else 0.0
            turn = _foot(model.Xtree[first_child[i]])[0] if i in first_child else 0.0
            moves[i] = rotz(turn) @ xlt([0.0, 0.0, along])
        X = moves[i] @ model.Xtree[i] @ moves[p].inverse()
        angle = float(np.arctan2(-X.E[1, 0], X.E[0, 0]))
        if isinstance(model.joint[i], Revolute) and keeps_z_screws(model.joint[i]) and abs(X.E[2, 0]) < 1e-14:
            X = rotz(-angle) @ X
            if i in first_child:
                joint[i] = ScrewedRevolute(angle=angle)
            else:
                moves[i] = rotz(-angle) @ moves[i]
        Xtree[i] = _tidy(X)
    inertia = [body.to_parent(move.inverse()) for body, move in zip(model.inertia, moves[:-1], strict=True)]
    return _equivalent(model, tuple(joint), tuple(Xtree), tuple(inertia))


def keeps_z_screws(joint: Joint) -> bool:
    """Whether a joint is along z alone, so that turning and moving both its frames alike about z changes nothing."""
    return type(joint) in (Revolute, Prismatic, Helical) and joint.axis == (0.0, 0.0, 1.0)  # type: ignore[attr-defined]


def _foot(X: Transform) -> tuple[float, float]:
    """The angle about the predecessor's z of the common normal of its z axis and the successor's, and how far along its
    own z axis the successor's origin has to move to stand on that normal (RBDA 4.3, Figure 4.9).
    """
    axis = X.E[2]
    sine = np.hypot(axis[0], axis[1])
    if sine < 1e-12:  # parallel axes: the normal through the predecessor's origin
        return (float(np.arctan2(X.r[1], X.r[0])) if np.hypot(*X.r[:2]) > 0 else 0.0), -X.r[2] / axis[2]
    x, y = -axis[1] / sine, axis[0] / sine
    across = np.array([-y, x, 0.0])
    return float(np.arctan2(y, x)), -(X.r @ across) / (axis @ across)


def _tidy(X: Transform) -> Transform:
    """The transform without rounding dust, so that the frames' zeros and ones vanish from a trace."""
    E = np.where(np.abs(X.E) < 1e-14, 0.0, X.E)
    E = np.where(np.abs(np.abs(E) - 1.0) < 1e-14, np.sign(E), E)
    return Transform(E, np.where(np.abs(X.r) < 1e-14 * max(1.0, float(np.abs(X.r).max())), 0.0, X.r))


def _with_shared_inertia_at_the_parents(model: EquivalentModel) -> EquivalentModel:
    """Inward: the inertia that a body has in common with its parent is taken from it (RBDA 9.7)."""
    inertia = list(model.inertia)
    for i, p in reversed(list(enumerate(model.parent))):
        inertia[i], shared = split(model.joint[i], inertia[i])
        if p >= 0:
            inertia[p] = inertia[p] + shared.to_parent(model.Xtree[i])
    return replace(model, inertia=tuple(inertia))


def split(joint: Joint, inertia: RigidInertia) -> tuple[RigidInertia, RigidInertia]:
    """What a body keeps of its inertia, with the most zeros, and what may as well be its parent's (RBDA Table 9.7)."""
    m, h, I = inertia.m, np.asarray(inertia.h), inertia.I
    none = np.zeros(3)
    if isinstance(joint, Revolute) and joint.axis == (0.0, 0.0, 1.0):
        half = (I[0, 0] + I[1, 1] - I[2, 2]) / 2
        kept = I.copy()
        kept[0, 0], kept[1, 1] = I[0, 0] - half, I[1, 1] - half
        shared = RigidInertia(m, np.array([0.0, 0.0, h[2]]), np.diag([half, half, 0.0]))
        return RigidInertia(0.0, np.array([h[0], h[1], 0.0]), kept), shared
    if isinstance(joint, Prismatic):
        return RigidInertia(m, h, 0.0 * I), RigidInertia(0.0, none, I)
    if isinstance(joint, Spherical):
        return RigidInertia(0.0, h, I), RigidInertia(m, none, 0.0 * I)
    return inertia, RigidInertia(0.0, none, 0.0 * I)


def _equivalent(
    model: Model, joint: tuple[Joint, ...], Xtree: tuple[Transform, ...], inertia: tuple[RigidInertia, ...]
) -> EquivalentModel:
    return EquivalentModel(
        model.name, model.parent, joint, Xtree, inertia, model.gravity, model.body_names, model.joint_names
    )
