"""Floating-base dynamics (RBDA 9.3 to 9.5).

The references are fixed-base dynamics and the six-joint chain of spatial_v1.
"""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import expm

from random_models import State, random_state, random_transform, random_tree
from rigidblocks.dynamics import (
    aba,
    aba_floating,
    bias_force,
    bias_force_floating,
    body_jacobian_floating,
    body_velocities,
    crba,
    crba_floating,
    expanded_parent,
    factorization_counts,
    floating_body,
    forward_dynamics_crba_floating,
    joint_space_floating,
    momentum,
    rnea,
    rnea_floating,
)
from rigidblocks.dynamics.floating_base import (
    floating_base,
    floating_base_coordinates,
    floating_base_kinematics,
)
from rigidblocks.robot.joints import (
    Cylindrical,
    EulerSpherical,
    Planar,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
)
from rigidblocks.robot.robots import auto_tree, planar_n
from rigidblocks.spatial.spatial import Transform, crm, rotx, roty, rotz, xlt

RTOL = 1e-12  # rounding errors of a few hundred products, relative to the largest element
SOLVE = 1e-13  # relative error of solutions with H, per unit of its condition number
# fourth-order differences with step 1e-3; the derivatives of the functions are at most 1e4
DIFFERENCE = 1e-7


def close(actual, expected, rtol=RTOL):
    assert_allclose(
        actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected), initial=0))
    )


def rate(f, h=1e-3):
    """Return the derivative of f at 0, by fourth-order central differences."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


SEVERAL = (Cylindrical(), Planar(), Universal(), EulerSpherical())


def tree_on_free_joint(rng):
    """Return a branched tree whose first body is on a 6-DoF joint.

    The other joints have several types. The tree transform of the 6-DoF joint is the identity.
    """
    model = random_tree(rng, (-1, 0, 1, 0, 3, 3, 2), (SixDoF(), *SEVERAL, Spherical(), Revolute()))
    return replace(model, Xtree=(xlt(np.zeros(3)), *model.Xtree[1:]))


def tree_on_chain(rng):
    """Return a branched tree on the six-joint chain of spatial_v1."""
    return floating_base(random_tree(rng, (-1, 0, 1, 0, 3), (Revolute(), *SEVERAL)))


MODELS = {
    "free joint": tree_on_free_joint,
    "chain": tree_on_chain,
    "single": lambda rng: floating_base(random_tree(rng, (-1,), (Revolute(),))),
}


class Case:
    """Floating-base model with a joint state and a base state."""

    def __init__(self, name):
        rng = np.random.default_rng(len(name))
        self.model = MODELS[name](rng)
        self.base = floating_body(self.model)
        s = random_state(rng, self.model)
        nq = self.model.q_slices[self.base].stop
        self.q, self.qd, self.qdd, self.tau = s.q[nq:], s.qd[6:], s.qdd[6:], s.tau[6:]
        self.X, self.v = random_transform(rng), rng.uniform(-2, 2, 6)
        self.f_ext = np.where(np.arange(self.model.nb)[:, None] < self.base, 0.0, s.f_ext)
        self.condition = np.linalg.cond(self.matrix())

    def matrix(self):
        I0c, F, H = crba_floating(self.model, self.q)
        return np.block([[I0c, F], [F.T, H]])


@pytest.fixture(params=MODELS)
def case(request):
    return Case(request.param)


def test_floating_inverse_dynamics_inverts_forward_dynamics(case):
    # test_fb1 of spatial_v1
    for forward in (aba_floating, forward_dynamics_crba_floating):
        a, qdd = forward(case.model, case.X, case.v, case.q, case.qd, case.tau, case.f_ext)
        back = rnea_floating(case.model, case.X, case.v, case.q, case.qd, qdd, case.f_ext)
        close(back.a, a, SOLVE * case.condition)
        close(back.tau, case.tau, SOLVE * case.condition)


def test_floating_forward_dynamics_inverts_inverse_dynamics(case):
    a, tau = rnea_floating(case.model, case.X, case.v, case.q, case.qd, case.qdd, case.f_ext)
    forth = aba_floating(case.model, case.X, case.v, case.q, case.qd, tau, case.f_ext)
    close(forth.a, a, SOLVE * case.condition)
    close(forth.qdd, case.qdd, SOLVE * case.condition)


def test_aba_and_crba_give_the_same_floating_base_accelerations(case):
    arguments = (
        case.model,
        case.X,
        case.v,
        case.q,
        case.qd,
        case.tau,
        case.f_ext,
        np.array([1.0, -2.0, 3.0]),
    )
    for one, other in zip(
        aba_floating(*arguments), forward_dynamics_crba_floating(*arguments), strict=True
    ):
        close(one, other, SOLVE * case.condition)


def test_floating_base_accelerations_satisfy_the_equation_of_motion(case):
    # [[I0c, F], [F^T, H]] [a0; qdd] + [p0c; C] = [0; tau] in floating-base coordinates (RBDA Eq
    # 9.13)
    a, qdd = aba_floating(case.model, case.X, case.v, case.q, case.qd, case.tau, case.f_ext)
    p0c, C = bias_force_floating(case.model, case.X, case.v, case.q, case.qd, case.f_ext)
    left = case.matrix() @ np.concatenate([case.X @ a, qdd]) + np.concatenate([p0c, C])
    close(left, np.concatenate([np.zeros(6), case.tau]), SOLVE * case.condition)


def test_floating_base_inertia_matrix_is_symmetric_positive_definite(case):
    matrix = case.matrix()
    close(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix)[0] > 0


def test_floating_base_dynamics_match_fixed_base_dynamics_with_a_six_dof_joint(rng):
    # with S = 1 the joint velocity and acceleration are the base velocity and acceleration in body
    # coordinates (RBDA 9.3)
    model = tree_on_free_joint(rng)
    s = random_state(rng, model)
    X = model.joint[0].jcalc(s.q[:7], s.qd[:6]).XJ
    v = X.inverse() @ s.qd[:6]
    fixed = aba(model, s.q, s.qd, np.concatenate([np.zeros(6), s.tau[6:]]), s.f_ext)
    a, qdd = aba_floating(model, X, v, s.q[7:], s.qd[6:], s.tau[6:], s.f_ext)
    condition = np.linalg.cond(crba(model, s.q))
    close(X @ a, fixed[:6], SOLVE * condition)
    close(qdd, fixed[6:], SOLVE * condition)
    close(np.block([[crba_floating(model, s.q[7:])[k] for k in (0, 1)]]), crba(model, s.q)[:6])
    close(
        np.concatenate(bias_force_floating(model, X, v, s.q[7:], s.qd[6:])),
        bias_force(model, s.q, s.qd),
    )


def state_of_chain(model, rng):
    """Return a random state of a six-joint chain; tau is 0 at the first five bodies."""
    s = State(*(rng.uniform(-1, 1, model.nv) for _ in range(4)), rng.uniform(-5, 5, (model.nb, 6)))
    s.f_ext[:5] = 0
    return s


@pytest.mark.parametrize("seed", range(4))
def test_floating_base_dynamics_match_the_dynamics_with_a_base_on_six_single_dof_joints(seed):
    # test_fb2 of spatial_v1
    model = floating_base(auto_tree(9, 1.7, 0.6, 0.95))
    s = state_of_chain(model, np.random.default_rng(seed))
    X, v, _ = floating_base_kinematics(s.q[:6], s.qd[:6], np.zeros(6))
    condition = np.linalg.cond(crba(model, s.q))

    qdd = aba(model, s.q, s.qd, np.concatenate([np.zeros(6), s.tau[6:]]), s.f_ext)
    forward = aba_floating(model, X, v, s.q[6:], s.qd[6:], s.tau[6:], s.f_ext)
    close(forward.qdd, qdd[6:], SOLVE * condition)
    close(forward.a, floating_base_kinematics(s.q[:6], s.qd[:6], qdd[:6]).a, SOLVE * condition)
    inverse = rnea_floating(model, X, v, s.q[6:], s.qd[6:], qdd[6:], s.f_ext)
    base = floating_base_coordinates(X, v, inverse.a)
    tau = rnea(model, s.q, s.qd, np.concatenate([base.qdd, qdd[6:]]), s.f_ext)
    close(tau, np.concatenate([np.zeros(6), inverse.tau]), SOLVE * condition)


def test_fixed_base_aba_inverts_rnea_for_a_base_on_six_single_dof_joints(rng):
    model = floating_base(planar_n(3))
    s = random_state(rng, model)
    close(
        aba(model, s.q, s.qd, rnea(model, s.q, s.qd, s.qdd)),
        s.qdd,
        SOLVE * np.linalg.cond(crba(model, s.q)),
    )


# laws


def test_joint_accelerations_of_a_floating_base_do_not_depend_on_gravity(case):
    g = np.array([3.0, -7.0, 4.0])
    there = aba_floating(
        case.model, case.X, case.v, case.q, case.qd, case.tau, case.f_ext, gravity=g
    )
    nowhere = aba_floating(
        case.model, case.X, case.v, case.q, case.qd, case.tau, case.f_ext, gravity=np.zeros(3)
    )
    assert_array_equal(there.qdd, nowhere.qdd)
    close(there.a - nowhere.a, [0, 0, 0, *g])


def test_momentum_and_kinetic_energy_follow_from_the_floating_base_inertia(rng):
    # RBDA Example 9.3: sum of I_i v_i = I0c v0 + F qd, and T its quadratic form
    model = tree_on_free_joint(rng)
    s = random_state(rng, model)
    X = model.joint[0].jcalc(s.q[:7], s.qd[:6]).XJ
    I0c, F, H = crba_floating(model, s.q[7:])
    close(X.T @ (I0c @ s.qd[:6] + F @ s.qd[6:]), momentum(model, s.q, s.qd))
    v = body_velocities(model, s.q, s.qd)
    T = sum(v_i @ (body @ v_i) for v_i, body in zip(v, model.inertia, strict=True)) / 2
    close(s.qd @ np.block([[I0c, F], [F.T, H]]) @ s.qd / 2, T)


def test_total_momentum_of_a_free_system_is_conserved(case):
    # momentum in fixed coordinates, for any joint forces
    model = case.model
    a, qdd = aba_floating(model, case.X, case.v, case.q, case.qd, case.tau, gravity=np.zeros(3))

    def total(t):
        v, qd = case.v + a * t, case.qd + qdd * t
        X0 = case.X.matrix() @ expm(
            -crm(case.v * t)
        )  # to first order the base moves with its velocity
        q = np.concatenate(
            [
                joint.integrate(
                    case.q[_joint_slice(model, case.base, i, "q")],
                    case.qd[_joint_slice(model, case.base, i, "v")] * t,
                )
                for i, joint in enumerate(model.joint)
                if i > case.base
            ]
            or [np.zeros(0)]
        )
        I0c, F, _ = crba_floating(model, q)
        return X0.T @ (I0c @ (X0 @ v) + F @ qd)

    scale = np.max(np.abs(total(0.0))) + np.max(np.abs(np.concatenate([a, qdd])))
    close(rate(total) / scale, np.zeros(6), DIFFERENCE)


def _joint_slice(model, base, i, kind):
    slices = model.q_slices if kind == "q" else model.v_slices
    start = slices[base].stop
    return slice(slices[i].start - start, slices[i].stop - start)


def test_floating_base_joint_accelerations_satisfy_the_reduced_equation_of_motion(case):
    # RBDA Example 9.2
    arguments = (case.model, case.X, case.v, case.q, case.qd)
    H, C = joint_space_floating(*arguments, case.f_ext)
    qdd = aba_floating(*arguments, case.tau, case.f_ext).qdd
    close(H @ qdd + C, case.tau, SOLVE * case.condition)
    assert np.linalg.eigvalsh(H).min(initial=1.0) > 0


def test_floating_base_jacobian_gives_the_body_velocities_at_zero_momentum(rng):
    # RBDA Example 9.4: the base then moves with -I0c^-1 F qd
    model = tree_on_free_joint(rng)
    s = random_state(rng, model)
    I0c, F, _ = crba_floating(model, s.q[7:])
    qd = np.concatenate([-np.linalg.solve(I0c, F @ s.qd[6:]), s.qd[6:]])
    close(momentum(model, s.q, qd), np.zeros(6))
    for i, v in enumerate(body_velocities(model, s.q, qd)):
        close(body_jacobian_floating(model, s.q[7:], i) @ s.qd[6:], v)


def test_free_floating_body_accelerates_with_gravity(rng):
    single = floating_base(random_tree(rng, (-1,), (Revolute(),)))
    none = np.zeros(0)
    a, qdd = aba_floating(
        single,
        random_transform(rng),
        np.zeros(6),
        none,
        none,
        none,
        gravity=np.array([0, 0, -9.81]),
    )
    close(a, [0, 0, 0, 0, 0, -9.81])
    assert qdd.shape == (0,)


# the chain


def test_floating_base_function_replaces_the_first_joint_by_six_single_dof_joints():
    tree = auto_tree(6, 1.5, 0.5)
    afloat = floating_base(tree)
    assert afloat.nb == tree.nb + 5
    assert floating_body(afloat) == 5
    assert afloat.parent == (-1, 0, 1, 2, 3, 4, *(p + 5 for p in tree.parent[1:]))
    assert afloat.inertia[5:] == tree.inertia
    assert afloat.joint[6:] == tree.joint[1:]
    assert [body.m for body in afloat.inertia[:5]] == [0.0] * 5
    D1, _ = factorization_counts(expanded_parent(afloat))
    assert (crba(afloat, np.full(11, 0.3)) != 0).sum() <= 11 + 2 * D1


def test_floating_base_kinematics_match_the_examples_of_fbkin():
    # the two examples of fbKin
    a, b, c = 0.3, -0.7, 1.9
    X = rotz(c) @ roty(b) @ rotx(a) @ xlt([1.0, 2.0, 3.0])
    close(floating_base_coordinates(X, np.zeros(6), np.zeros(6)).q, [1, 2, 3, a, b, c])
    zero = np.zeros(6)
    close(
        floating_base_kinematics(zero, np.array([1.0, 2, 3, 4, 5, 6]), zero).v, [4, 5, 6, 1, 2, 3]
    )


def test_floating_base_pose_and_velocity_match_a_chain_of_six_single_dof_joints(rng):
    # velocity and acceleration from finite differences: dX/dt = -X (v x) with v in fixed
    # coordinates (RBDA Eq 2.45)
    q, qd, qdd = (rng.uniform(-1, 1, 6) for _ in range(3))
    X, v, a = floating_base_kinematics(q, qd, qdd)
    Xdot = rate(lambda t: floating_base_kinematics(q + qd * t, qd, qdd).X.matrix())
    close(Xdot, -X.matrix() @ crm(v), DIFFERENCE)
    close(
        rate(lambda t: floating_base_kinematics(q + qd * t + qdd * t * t / 2, qd + qdd * t, qdd).v),
        a,
        DIFFERENCE,
    )
    model = floating_base(planar_n(1))
    XJ = xlt(np.zeros(3))
    for i in range(6):
        XJ = model.joint[i].jcalc(q[[i]], qd[[i]]).XJ @ XJ
    close(XJ.matrix(), X.matrix())


def test_coordinates_of_the_six_base_joints_are_recovered_from_pose_and_velocity(rng):
    for _ in range(20):
        q, qd, qdd = (rng.uniform(-3, 3, 6) for _ in range(3))
        q[4] = rng.uniform(-1.4, 1.4)
        for found, given in zip(
            floating_base_coordinates(*floating_base_kinematics(q, qd, qdd)),
            (q, qd, qdd),
            strict=True,
        ):
            close(found, given, 1e-12 / np.cos(q[4]) ** 2)


def test_angles_of_a_floating_base_are_normalized_to_a_full_turn(rng):
    q = np.array([0.0, 0, 0, 4.0, 2.0, -5.0])
    X, v, a = floating_base_kinematics(q, rng.uniform(-1, 1, 6), rng.uniform(-1, 1, 6))
    coordinates = floating_base_coordinates(X, v, a)
    assert np.all(np.abs(coordinates.q[3:]) <= [np.pi, np.pi / 2, np.pi])
    for found, given in zip(floating_base_kinematics(*coordinates), (X, v, a), strict=True):
        if isinstance(given, Transform):
            found, given = found.matrix(), given.matrix()
        close(found, given, 1e-11)


# rejected inputs


def test_floating_base_coordinates_at_a_singular_pitch_angle_are_rejected():
    with pytest.raises(ValueError, match="the pitch angle of the floating base is 90 degrees"):
        floating_base_coordinates(roty(np.pi / 2), np.zeros(6), np.zeros(6))


def test_floating_base_accelerations_rotate_with_the_scene_at_a_pitch_of_90_degrees(case):
    up = roty(
        np.pi / 2
    )  # if everything is rotated, only the coordinates of the acceleration change
    there = aba_floating(
        case.model, rotx(0.0), case.v, case.q, case.qd, case.tau, gravity=np.array([0, 0, 1.0])
    )
    here = aba_floating(
        case.model,
        up,
        up.inverse() @ case.v,
        case.q,
        case.qd,
        case.tau,
        gravity=up.E.T @ [0, 0, 1.0],
    )
    close(here.qdd, there.qdd, SOLVE * case.condition)
    close(up @ here.a, there.a, SOLVE * case.condition)


def test_floating_base_of_a_model_with_two_bodies_on_its_base_is_rejected(rng):
    with pytest.raises(
        ValueError, match="has 2 bodies attached to its base; a floating base needs exactly one"
    ):
        floating_base(random_tree(rng, (-1, 0, -1)))


def test_floating_base_functions_reject_a_fixed_base_model():
    arm, zero, X = planar_n(8), np.zeros(8), xlt(np.zeros(3))
    with pytest.raises(ValueError, match="model 'planar8' has no floating base"):
        aba_floating(arm, X, np.zeros(6), zero, zero, zero)
    with pytest.raises(ValueError, match="model 'planar8' has no floating base"):
        crba_floating(arm, zero)


def test_floating_base_functions_reject_joint_vectors_that_include_base_variables(case):
    full = np.zeros(case.model.nv)
    with pytest.raises(ValueError, match="pass the variables of the base as X and v"):
        rnea_floating(case.model, case.X, case.v, case.q, full, full)


@pytest.mark.parametrize("function", [aba, rnea])
def test_error_for_missing_base_variables_suggests_the_floating_base_functions(case, function):
    with pytest.raises(
        ValueError,
        match="aba_floating and rnea_floating take vectors without the floating base",
    ):
        function(case.model, case.q, case.qd, case.qdd)
