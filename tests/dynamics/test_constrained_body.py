"""Three methods for the motion of a constrained body, and force decomposition (RBDA 3.3, 3.6).

The reference is the articulated-body algorithm for a tree with one body.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import joints_of_all_types, random_inertia, random_transform
from rigidblocks.dynamics import (
    Handle,
    aba,
    body_joint_space,
    body_velocities,
    constrained_body,
    constrained_motion,
    split_along,
    split_force,
)
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import crf, rotz

JOINTS = joints_of_all_types(np.random.default_rng(4))
RTOL = 1e-11  # rounding errors of solutions with condition numbers up to 1e3


def close(actual, expected):
    assert_allclose(
        actual, expected, rtol=0, atol=RTOL * max(1.0, np.max(np.abs(expected), initial=0))
    )


class Case:
    """One body on a joint, its state and an applied force, in body coordinates."""

    def __init__(self, rng, joint):
        self.joint, self.model = (
            joint,
            Model("body", (-1,), (joint,), (random_transform(rng),), (random_inertia(rng),)),
        )
        self.q, self.qd = joint.random(rng), rng.uniform(-1, 1, joint.nv)
        self.v = body_velocities(self.model, self.q, self.qd)[0]
        motion = joint.jcalc(self.q, self.qd)
        # on a fixed base v = vJ, so the rate of S qd in base coordinates is cJ + v x S qd = cJ
        self.S, self.bias = motion.S, motion.cJ
        self.T = joint.constraint_forces(self.q)
        I = self.model.inertia[0].matrix()
        a_g = motion.XJ @ self.model.Xtree[0] @ np.concatenate([np.zeros(3), self.model.gravity])
        self.body = Handle(I, crf(self.v) @ I @ self.v - I @ a_g)
        self.f = rng.uniform(-5, 5, 6)

    def qdd(self):
        return aba(self.model, self.q, self.qd, self.S.T @ self.f)


@pytest.fixture(params=JOINTS)
def case(request, rng):
    return Case(rng, JOINTS[request.param])


def test_three_methods_for_a_constrained_body_give_the_accelerations_of_aba(case):
    expected = case.S @ case.qdd() + case.bias
    Phi, b = constrained_body(case.body, case.S, case.bias)
    close(Phi @ case.f + b, expected)
    motion = constrained_motion(case.body, case.T, case.bias, case.f)
    close(motion.a, expected)
    close(case.f + case.T @ motion.lam, case.body.I @ expected + case.body.p)
    H, C = body_joint_space(case.body, case.S, case.bias)
    close(H @ case.qdd() + C, case.S.T @ case.f)


def test_apparent_inverse_inertia_has_the_motion_subspace_as_its_range(case):
    Phi, _ = constrained_body(case.body, case.S, case.bias)
    close(Phi, Phi.T)
    close(Phi @ case.T, np.zeros((6, case.T.shape[1])))
    assert np.linalg.matrix_rank(Phi, tol=1e-10) == case.joint.nv


def test_split_force_returns_an_accelerating_force_and_a_constraint_force(case):
    move, hold = split_force(case.body.I, case.S, case.f)
    close(move + hold, case.f)
    close(case.S.T @ hold, np.zeros(case.joint.nv))
    # at rest the body accelerates like a free body under the accelerating part of the force
    at_rest = Handle(case.body.I, np.zeros(6))
    a = constrained_motion(at_rest, case.T, np.zeros(6), case.f).a
    close(np.linalg.solve(case.body.I, move), a)


def test_split_force_does_not_depend_on_the_basis_of_the_motion_subspace(case, rng):
    n = case.joint.nv
    other = split_force(case.body.I, case.S @ (np.eye(n) + rng.uniform(-0.3, 0.3, (n, n))), case.f)
    close(other.move, split_force(case.body.I, case.S, case.f).move)


def test_components_of_a_vector_along_complementary_subspaces_add_up_to_the_vector(case, rng):
    v = rng.uniform(-1, 1, 6)
    parts = split_along((case.body.I @ case.S, case.T), v)
    close(sum(parts), v)
    close(parts[0], split_force(case.body.I, case.S, v).move)


def test_subspaces_that_do_not_form_a_basis_are_rejected():
    with pytest.raises(
        ValueError,
        match="not a basis of the 6-dimensional space of v: they have 7 columns of rank 6",
    ):
        split_along((np.eye(6), np.ones((6, 1))), np.ones(6))
    with pytest.raises(ValueError, match="6 columns of rank 5"):
        split_along((np.eye(6)[:, :5], np.eye(6)[:, :1]), np.ones(6))


def test_bearing_load_of_a_gear_depends_on_the_gear_radius():
    """A pinion at (-r, 0, 0) drives a wheel with the force f along y (RBDA Example 3.2).

    The same torque gives the same acceleration for every radius, but a different bearing load.
    """
    S, T, turned = np.eye(6)[:, [2]], np.eye(6)[:, [0, 1, 3, 4, 5]], rotz(0.3).matrix()
    I = turned.T @ np.diag([1.0, 2, 3, 4, 4, 4]) @ turned
    loads = []
    for r in (0.1, 0.2):
        f = np.array([0, 0, 1.0, 0, -1 / r, 0])  # T_a: T_a^T S = 1
        motion = constrained_motion(Handle(I, np.zeros(6)), T, np.zeros(6), f)
        assert_allclose(motion.a, S[:, 0] / 3, atol=1e-15)
        loads.append(motion.lam)
    assert_allclose(loads[0] - loads[1], [0, 0, 0, 5.0, 0], atol=1e-14)
