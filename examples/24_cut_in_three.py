"""A robot is cut into three parts, whose handle equations are combined (RBDA 7.2, 7.5).

An arm of six joints hangs from the base. The script removes its joints 3 and 5, so that two links
on the base and two floating chains remain. The accelerations of its handles, a = Phi f + b,
describe each part completely, so the parts could be computed in parallel.

The two joints then connect the handles. The acceleration of the handle at the end must equal the
acceleration of the end of the whole arm.
"""

import sys

import numpy as np

from rigidblocks import Model, auto_tree
from rigidblocks.dynamics import (
    HandleJoint,
    InverseHandle,
    assemble_handles,
    body_poses,
    body_velocities,
    handle_equation,
)
from rigidblocks.robot.joints import SixDoF
from rigidblocks.spatial.spatial import cross_motion, identity

ARM = auto_tree(6, skew=0.7)
PARTS = ((0, 1), (2, 3), (4, 5))  # first and last body of each part
HANDLES = ((1,), (2, 3), (4, 5))
RTOL = 1e-10  # relative tolerance for equations with the apparent inertias of thin links


class Motion:
    """State of the arm: random positions, velocities and joint forces."""

    def __init__(self, rng):
        self.q, self.qd, self.tau = rng.uniform(-1, 1, (3, ARM.nv))
        self.X0, self.v = body_poses(ARM, self.q), body_velocities(ARM, self.q, self.qd)

    def at_base(self, handles, bodies):
        """Transform handles from the coordinates of their bodies to base coordinates."""
        X = np.zeros((6 * len(bodies), 6 * len(bodies)))
        for k, body in enumerate(bodies):
            X[6 * k : 6 * k + 6, 6 * k : 6 * k + 6] = self.X0[body].inverse().matrix()
        return InverseHandle(X @ handles.Phi @ X.T, X @ handles.b)


def chain(first, last):
    """Return the bodies `first` to `last` of the arm; they float unless body 0 is among them."""
    bodies = slice(first, last + 1)
    joints = (SixDoF(), *ARM.joint[first + 1 : last + 1]) if first else ARM.joint[bodies]
    places = (identity(), *ARM.Xtree[first + 1 : last + 1])
    places = places if first else ARM.Xtree[bodies]
    parents = range(-1, last - first)
    return Model("part", tuple(parents), joints, places, ARM.inertia[bodies], ARM.gravity)


def part(motion, bodies, handles):
    """Return the handle equation of a part in base coordinates.

    The active forces of the removed joints act on the part.
    """
    first, last = bodies
    model, inside = chain(first, last), slice(first + 1 if first else 0, last + 1)
    q, qd, tau = motion.q[inside], motion.qd[inside], motion.tau[inside]
    if first:
        root = SixDoF()
        q = np.concatenate([root.nearest(motion.X0[first]), q])
        qd, tau = np.concatenate([motion.v[first], qd]), np.concatenate([np.zeros(6), tau])
    pulls = np.zeros((last + 1 - first, 6))
    if first:
        pulls[0] += active_force(motion, first)
    if last + 1 < ARM.nb:
        pulls[-1] -= active_force(motion, last + 1)
    own = handle_equation(model, q, qd, tau, [body - first for body in handles], pulls)
    return motion.at_base(own, handles)


def active_force(motion, joint):
    """Return the active force of a joint with the joint force tau, in base coordinates.

    f = S (S^T S)^-1 tau
    """
    S = ARM.joint[joint].jcalc(motion.q[[joint]], motion.qd[[joint]]).S
    return motion.X0[joint].T @ (S @ np.linalg.inv(S.T @ S) @ motion.tau[[joint]])


def handle_joint(motion, joint, near, far):
    """Return the joint between two handles, in base coordinates."""
    moved = ARM.joint[joint].jcalc(motion.q[[joint]], motion.qd[[joint]])
    X = motion.X0[joint]
    T = X.T @ ARM.joint[joint].constraint_forces(motion.q[[joint]])
    c = moved.cJ + cross_motion(motion.v[joint], moved.vJ)
    return HandleJoint(near, far, T, X.inverse() @ c)


def main():
    """Join the parts and compare the handle at the end with the whole arm."""
    motion = Motion(np.random.default_rng(1))
    parts = [part(motion, *both) for both in zip(PARTS, HANDLES, strict=True)]
    joints = [handle_joint(motion, 2, 0, 1), handle_joint(motion, 4, 2, 3)]
    joined = assemble_handles(parts, joints, keep=[4])
    whole = motion.at_base(handle_equation(ARM, motion.q, motion.qd, motion.tau, [5]), [5])
    ranks = [int(np.linalg.matrix_rank(one.Phi, tol=1e-9)) for one in parts]
    print(f"freedoms of the handles of each part: {ranks}")
    off = [np.max(np.abs(a - b)) / np.max(np.abs(b)) for a, b in zip(joined, whole, strict=True)]
    print(f"inverse inertia of the arm's end: {off[0]:.1e} off that of the whole, relative")
    print(f"its acceleration when left alone: {off[1]:.1e}")
    return max(off) < RTOL


if __name__ == "__main__":
    sys.exit(not main())
