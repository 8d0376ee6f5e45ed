"""Trees of the library in Pinocchio."""

import numpy as np

from rigidblocks import Prismatic, Revolute, Spherical
from rigidblocks.robot.joints import Helical


def in_pinocchio(pin, model):
    """Return a model and its data in Pinocchio.

    The joints must be about or along z or spherical; the bodies must be numbered depth first.
    """
    other, index = pin.Model(), {-1: 0}
    other.gravity.linear = model.gravity
    joints = {
        Revolute: lambda _: pin.JointModelRZ(),
        Prismatic: lambda _: pin.JointModelPZ(),
        Helical: lambda joint: pin.JointModelHZ(joint.pitch),
        Spherical: lambda _: pin.JointModelSpherical(),
    }
    for i, (p, joint, X, body) in enumerate(
        zip(model.parent, model.joint, model.Xtree, model.inertia, strict=True)
    ):
        place = pin.SE3(X.E.T, np.asarray(X.r, dtype=float))
        theirs = joints[type(joint)](joint)
        index[i] = other.addJoint(index[p], theirs, place, model.joint_names[i])
        c = body.h / body.m
        I_C = body.I - body.m * (c @ c * np.eye(3) - np.outer(c, c))
        inertia = pin.Inertia(float(body.m), c, I_C)
        other.appendBodyToJoint(index[i], inertia, pin.SE3.Identity())
    return other, other.createData()
