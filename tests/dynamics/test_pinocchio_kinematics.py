"""Motion, Jacobians and momentum compared with Pinocchio.

Pinocchio stores the linear part of 6-vectors first.
"""

import numpy as np
import pytest

from random_models import random_parents, random_state, random_tree
from rigidblocks.dynamics import (
    body_accelerations,
    body_jacobian,
    body_jacobian_rate,
    body_poses,
    body_velocities,
    centre_of_mass,
    centre_of_mass_jacobian,
    centre_of_mass_velocity,
    centroidal_momentum,
    centroidal_momentum_matrix,
    classical_acceleration,
    crba,
    forward_dynamics_crba,
    joint_wrenches,
    total_mass,
)
from rigidblocks.robot.joints import EulerSpherical, Fixed, Revolute, Universal

pin = pytest.importorskip("pinocchio", reason="Pinocchio is not installed (`pip install pin`)")
from test_pinocchio_dynamics import LINEAR_FIRST, Pinocchio, close, joints_of_both  # noqa: E402 - it needs Pinocchio too

pytestmark = pytest.mark.interop


class Pair:
    """The same tree in the same state in both libraries.

    No body is fixed to the base, because the base of Pinocchio has no inertia.
    """

    def __init__(self, seed):
        rng = np.random.default_rng(seed)
        parent = random_parents(rng, int(rng.integers(1, 13)))
        joints = [joints_of_both(rng) for _ in parent]
        joints = [
            Revolute() if p < 0 and isinstance(joint, Fixed) else joint
            for p, joint in zip(parent, joints, strict=True)
        ]
        self.model = random_tree(rng, parent, tuple(joints))
        self.other, self.s = Pinocchio(self.model), random_state(rng, self.model)
        self.there, self.data = self.other.model, self.other.data
        self.q = self.other.positions(self.s.q)
        self.v, self.a = (vector[self.other.v_order] for vector in (self.s.qd, self.s.qdd))
        self.columns = np.argsort(self.other.v_order)

    def local(self, i, motion):
        """Convert a Pinocchio joint motion to the coordinates of body i, angular part first."""
        return self.other.body[i][1].actInv(motion).vector[LINEAR_FIRST]


@pytest.fixture(params=range(16))
def pair(request):
    return Pair(request.param)


def test_poses_velocities_and_accelerations_match_pinocchio(pair):
    model, s, data = pair.model, pair.s, pair.data
    pin.forwardKinematics(pair.there, data, pair.q, pair.v, pair.a)
    v, a = body_velocities(model, s.q, s.qd), body_accelerations(model, s.q, s.qd, s.qdd)
    for i, X in enumerate(body_poses(model, s.q)):
        joint, place = pair.other.body[i]
        pose = data.oMi[joint] * place
        close(X.E.T, pose.rotation)
        close(X.r, pose.translation)
        close(v[i], pair.local(i, data.v[joint]))
        close(a[i], pair.local(i, data.a[joint]))


def test_classical_accelerations_match_pinocchio(pair):
    model, s = pair.model, pair.s
    frames = [
        pair.there.addFrame(pin.Frame(f"body {i}", joint, 0, place, pin.FrameType.OP_FRAME))
        for i, (joint, place) in ((i, pair.other.body[i]) for i in range(model.nb))
    ]
    data = pair.there.createData()
    pin.forwardKinematics(pair.there, data, pair.q, pair.v, pair.a)
    v, a = body_velocities(model, s.q, s.qd), body_accelerations(model, s.q, s.qd, s.qdd)
    for i, frame in enumerate(frames):
        theirs = pin.getFrameClassicalAcceleration(
            pair.there, data, frame, pin.ReferenceFrame.LOCAL
        ).vector
        close(classical_acceleration(a[i], v[i]), theirs[LINEAR_FIRST])


def test_jacobians_and_their_time_derivatives_match_pinocchio(pair):
    model, s, data = pair.model, pair.s, pair.data
    pin.computeJointJacobiansTimeVariation(pair.there, data, pair.q, pair.v)
    # Pinocchio uses v x S as the rate of S, which is exact if S has constant components; other
    # tests check the rate of the remaining joints by finite differences and by the accelerations
    kinds = [isinstance(joint, Universal | EulerSpherical) for joint in model.joint]
    constant = ~np.repeat(kinds, [joint.nv for joint in model.joint])
    for i, X in enumerate(body_poses(model, s.q)):
        joint, _ = pair.other.body[i]
        J = pin.getJointJacobian(pair.there, data, joint, pin.ReferenceFrame.WORLD)
        Jdot = pin.getJointJacobianTimeVariation(pair.there, data, joint, pin.ReferenceFrame.WORLD)
        back = X.inverse()
        close(back @ body_jacobian(model, s.q, i), J[LINEAR_FIRST][:, pair.columns])
        difference = (
            back @ body_jacobian_rate(model, s.q, s.qd, i) - Jdot[LINEAR_FIRST][:, pair.columns]
        )
        close(
            difference[:, constant],
            np.zeros((6, constant.sum())),
            np.max(np.abs(Jdot), initial=1.0),
        )


def test_centre_of_mass_matches_pinocchio(pair):
    model, s, data = pair.model, pair.s, pair.data
    pin.centerOfMass(pair.there, data, pair.q, pair.v)
    close(total_mass(model), pin.computeTotalMass(pair.there))
    close(centre_of_mass(model, s.q), data.com[0])
    close(centre_of_mass_velocity(model, s.q, s.qd), data.vcom[0])
    close(
        centre_of_mass_jacobian(model, s.q),
        pin.jacobianCenterOfMass(pair.there, data, pair.q)[:, pair.columns],
    )


def test_centroidal_momentum_matches_pinocchio(pair):
    model, s, data = pair.model, pair.s, pair.data
    pin.ccrba(pair.there, data, pair.q, pair.v)
    close(centroidal_momentum(model, s.q, s.qd), data.hg.vector[LINEAR_FIRST])
    close(centroidal_momentum_matrix(model, s.q), data.Ag[LINEAR_FIRST][:, pair.columns])


def test_forward_dynamics_by_crba_matches_aba_of_pinocchio(pair):
    model, s = pair.model, pair.s
    expected = pair.other.call(pin.aba, s.q, s.qd, s.tau, f_ext=s.f_ext)
    close(
        forward_dynamics_crba(model, s.q, s.qd, s.tau, s.f_ext),
        expected,
        np.linalg.cond(crba(model, s.q)),
    )


def test_joint_wrenches_match_pinocchio(pair):
    """Bodies on fixed joints are skipped, because Pinocchio merges them into their parents."""
    wrenches, _ = joint_wrenches(pair.model, pair.s.q, pair.s.qd, pair.s.qdd)
    pin.rnea(pair.there, pair.data, pair.q, pair.v, pair.a)
    compared = 0
    for i, joint in enumerate(pair.model.joint):
        if not isinstance(joint, Fixed):
            number, placement = pair.other.body[i]
            close(wrenches[i], placement.actInv(pair.data.f[number]).vector[LINEAR_FIRST])
            compared += 1
    assert compared
