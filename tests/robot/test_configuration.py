"""Configuration functions of a model, and algorithms on random trees of all joint types."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from maximal import forward_dynamics, jacobians, poses
from random_models import random_axis, random_parents, random_state, random_tree
from rigidblocks.dynamics import aba, bias_force, crba, energy, kinetic_energy, rnea
from rigidblocks.dynamics.model_reduction import align_joint_axes
from rigidblocks.robot.configuration import (
    configuration_array,
    difference,
    integrate,
    neutral,
    normalize_quaternions,
    random_configuration,
    rate,
)
from rigidblocks.robot.joints import (
    Cylindrical,
    Fixed,
    Reversed,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
)
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import planar2
from rigidblocks.spatial.spatial import Array, RigidInertia, Transform, xlt
from rigidblocks.tracing.trace import trace

RTOL = 1e-12  # rounding errors of a few hundred products, relative to the largest element
SOLVE = 1e-12  # relative error of a solution with H, per unit of its condition number
# fourth-order differences with step 1e-3: 3e-14 times the fifth derivative, up to (speed sum)^5
DIFFERENCE = 1e-6
INTEGRATED = 1e-9  # RK4 at h = 1 ms for 0.1 s: h^4 times a fifth derivative of a few hundred

X, Y, Z = np.eye(3).tolist()
trees = given(st.integers(0, 2**32 - 1), st.integers(1, 8))


def close(actual, expected, rtol=RTOL):
    assert_allclose(
        actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected), initial=0.0))
    )


def slope(f, h=1e-3):
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def condition(H):
    return np.linalg.cond(H) if len(H) else 1.0


def any_tree(seed, nb):
    rng = np.random.default_rng(seed)
    model = random_tree(rng, random_parents(rng, nb))
    return model, random_state(rng, model)


# configurations


def test_configuration_functions_of_a_model_match_the_functions_of_its_joints(model, rng):
    q, dq = random_configuration(model, rng), rng.uniform(-1, 1, model.nv)
    for i, joint in enumerate(model.joint):
        k, l = model.q_slices[i], model.v_slices[i]
        assert_array_equal(rate(model, q, dq)[k], joint.rate(q[k], dq[l]))
        assert_array_equal(integrate(model, q, dq)[k], joint.integrate(q[k], dq[l]))
        assert_array_equal(neutral(model)[k], joint.neutral())


def test_model_difference_inverts_integrate(model, rng):
    q, dq = random_configuration(model, rng), rng.uniform(-1, 1, model.nv)
    close(difference(model, q, integrate(model, q, dq)), dq)


def test_position_derivative_of_a_model_is_the_time_derivative_of_integrate(model, rng):
    q, qd = random_configuration(model, rng), rng.uniform(-1, 1, model.nv)
    close(rate(model, q, qd), slope(lambda t: integrate(model, q, t * qd)), DIFFERENCE)


def test_normalize_quaternions_returns_unit_quaternions():
    model = quaternions()
    q = normalize_quaternions(model, [3.0, 0.0, 4.0, 0.0, 0.5, 0.0, 0.0, 0.0, -2.0, 7.0, 8.0, 9.0])
    close(q, [0.6, 0.0, 0.8, 0.0, 0.5, 0.0, 0.0, 0.0, -1.0, 7.0, 8.0, 9.0])


def quaternions():
    rng = np.random.default_rng(3)
    model = random_tree(rng, (-1, 0, 1), (Spherical(), Revolute(), Reversed(SixDoF())))
    return replace(model, joint_names=("ball", "hinge", "free"), name="bodies")


@pytest.mark.parametrize(
    ("q", "message"),
    [
        (
            [0.0] * 12,
            "the quaternion of ball of model 'bodies' must not be zero; its configuration is "
            "[0.0, 0.0",
        ),
        (
            [1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3],
            "the quaternion of free of model 'bodies' must not be zero; its",
        ),
        (
            [1e-200, 0, 0, 0, 0, 1, 0, 0, 0, 1, 2, 3],
            "the quaternion of ball of model 'bodies' must not be zero; its",
        ),
        (
            [1, 0, 0, np.nan, 0, 1, 0, 0, 0, 1, 2, 3],
            "the configuration of ball of model 'bodies' must be finite, not",
        ),
        (
            [1, 0, 0, 0, np.inf, 1, 0, 0, 0, 1, 2, 3],
            "the configuration of hinge of model 'bodies' must be finite, not",
        ),
        (
            [1, 0, 0, 0, 0, 1, 0],
            "q of model 'bodies' needs shape (12,), not (7,); free has q[5:12]",
        ),
        ([1, 0, 0, 0], "q of model 'bodies' needs shape (12,), not (4,); hinge has q[4:5]"),
        ([0.0] * 13, "q of model 'bodies' needs shape (12,), not (13,)"),
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        configuration_array,
        normalize_quaternions,
        lambda model, q: integrate(model, q, np.zeros(10)),
        lambda model, q: difference(model, q, neutral(model)),
        lambda model, q: difference(model, neutral(model), q),
    ],
)
def test_configuration_vectors_with_wrong_length_or_invalid_values_are_rejected(
    function, q, message
):
    with pytest.raises(ValueError, match=re.escape(message)):
        function(quaternions(), q)


def test_velocity_vectors_of_wrong_length_are_rejected():
    model = quaternions()
    with pytest.raises(
        ValueError,
        match=re.escape("dq of model 'bodies' needs shape (10,), not (3,); hinge has dq[3:4]"),
    ):
        integrate(model, neutral(model), np.zeros(3))
    with pytest.raises(
        ValueError, match=re.escape("qd of model 'bodies' needs shape (10,), not (12,)")
    ):
        rate(model, neutral(model), np.zeros(12))


# the algorithms on random trees of all joint types


@pytest.mark.slow
@trees
def test_forward_and_inverse_dynamics_are_inverse_on_random_trees(seed, nb):
    model, s = any_tree(seed, nb)
    tolerance = SOLVE * condition(crba(model, s.q))
    close(aba(model, s.q, s.qd, rnea(model, s.q, s.qd, s.qdd, s.f_ext), s.f_ext), s.qdd, tolerance)
    close(rnea(model, s.q, s.qd, aba(model, s.q, s.qd, s.tau, s.f_ext), s.f_ext), s.tau, tolerance)


@pytest.mark.slow
@trees
def test_inertia_matrix_of_random_trees_is_positive_definite_and_gives_the_kinetic_energy(seed, nb):
    model, s = any_tree(seed, nb)
    H = crba(model, s.q)
    close(H, H.T)
    assert np.all(np.linalg.eigvalsh(H) > 0)
    close(s.qd @ H @ s.qd / 2, kinetic_energy(model, s.q, s.qd))
    close(H @ s.qdd + bias_force(model, s.q, s.qd), rnea(model, s.q, s.qd, s.qdd))


@pytest.mark.slow
@trees
def test_power_of_joint_torques_of_random_trees_is_the_time_derivative_of_the_energy(seed, nb):
    model, s = any_tree(seed, nb)
    qdd = aba(model, s.q, s.qd, s.tau)

    def later(t):
        return energy(model, integrate(model, s.q, t * s.qd), s.qd + t * qdd)

    # the error of qdd grows with the condition number of H; a large qdd needs a shorter step,
    # because the truncation error contains its fifth power
    close(slope(later, 1e-4), s.tau @ s.qd, DIFFERENCE + SOLVE * condition(crba(model, s.q)))


@pytest.mark.slow
@trees
def test_aba_of_random_trees_matches_maximal_coordinate_dynamics(seed, nb):
    model, s = any_tree(seed, nb)
    expected = forward_dynamics(model, s.q, s.qd, s.tau, s.f_ext).qdd
    close(
        aba(model, s.q, s.qd, s.tau, s.f_ext), expected, 100 * SOLVE * condition(crba(model, s.q))
    )


# rotated frames


@pytest.mark.slow
@trees
def test_aligning_the_joint_axes_does_not_change_the_dynamics(seed, nb):
    model, s = any_tree(seed, nb)
    other = align_joint_axes(model)
    close(crba(other, s.q), crba(model, s.q))
    close(rnea(other, s.q, s.qd, s.qdd, s.f_ext), rnea(model, s.q, s.qd, s.qdd, s.f_ext))
    close(energy(other, s.q, s.qd), energy(model, s.q, s.qd))
    tolerance = SOLVE * condition(crba(model, s.q))
    close(aba(other, s.q, s.qd, s.tau, s.f_ext), aba(model, s.q, s.qd, s.tau, s.f_ext), tolerance)


@pytest.mark.parametrize("function", [rnea, aba])
def test_dynamics_of_a_model_with_aligned_axes_need_no_more_operations_than_with_z_axes(
    function, rng
):
    arm = random_tree(rng, tuple(range(-1, 5)), tuple(Revolute(random_axis(rng)) for _ in range(6)))
    along_z = replace(arm, joint=(Revolute(),) * 6)

    def count(model):
        return trace(
            "f", lambda *x: {"out": function(model, *x)}, dict.fromkeys("abc", (6,))
        ).operation_count

    assert count(align_joint_axes(arm)) <= count(along_z) < 0.8 * count(arm)


def test_align_joint_axes_returns_models_with_coordinate_axes_unchanged():
    for model in (planar2(), quaternions()):
        assert align_joint_axes(model) is model


# fixed joints


def test_body_on_a_fixed_joint_has_the_dynamics_of_a_merged_body(rng):
    arm = random_tree(rng, (-1, 0, 1, 2), (Revolute(), Fixed(), Cylindrical(), Fixed()))
    s = random_state(rng, arm)
    I = arm.inertia
    merged = Model(
        "merged",
        (-1, 0),
        (Revolute(), Cylindrical()),
        (arm.Xtree[0], arm.Xtree[2] @ arm.Xtree[1]),
        (
            I[0] + I[1].transform_to_parent(arm.Xtree[1]),
            I[2] + I[3].transform_to_parent(arm.Xtree[3]),
        ),
        gravity=arm.gravity,
    )
    close(crba(arm, s.q), crba(merged, s.q))
    close(rnea(arm, s.q, s.qd, s.qdd), rnea(merged, s.q, s.qd, s.qdd))
    close(
        aba(arm, s.q, s.qd, s.tau), aba(merged, s.q, s.qd, s.tau), SOLVE * condition(crba(arm, s.q))
    )
    close(energy(arm, s.q, s.qd), energy(merged, s.q, s.qd))


def test_dynamics_functions_of_a_model_without_degrees_of_freedom_return_empty_arrays(rng):
    model, none = random_tree(rng, (-1, 0), (Fixed(), Fixed())), np.zeros(0)
    assert aba(model, none, none, none).shape == rnea(model, none, none, none).shape == (0,)
    assert crba(model, none).shape == (0, 0)
    assert kinetic_energy(model, none, none) == 0


# free bodies


def test_free_body_satisfies_newton_euler_equations(rng):
    # I wd = -w x I w about the centre of mass, and the frame accelerates with g
    moments = np.array([1.0, 2.0, 2.5])
    body = RigidInertia(3.0, np.zeros(3), np.diag(moments))
    model = Model("body", (-1,), (SixDoF(),), (xlt([0.0, 0.0, 0.0]),), (body,))
    s = random_state(rng, model)
    w, v = s.qd[:3], s.qd[3:]
    expected_v = rotation(model, s.q) @ model.gravity - np.cross(w, v)
    close(aba(model, s.q, s.qd, np.zeros(6)), [*(-np.cross(w, moments * w) / moments), *expected_v])


def rotation(model: Model, q: Array) -> Array:
    X: Transform = model.joint[0].jcalc(q, np.zeros(6)).XJ
    return X.E


def test_joint_forces_do_not_change_the_momentum_of_a_satellite(rng):
    # 6 + n degrees of freedom; the momentum rate in base coordinates equals the force on the free
    # joint, which is zero
    model = random_tree(rng, (-1, 0, 1, 0), (SixDoF(), Revolute(), Universal(), Revolute(tuple(Y))))
    model = model.with_gravity(np.zeros(3))
    assert model.nv == 6 + 4
    s = random_state(rng, model)
    tau = np.concatenate([np.zeros(6), s.tau[6:]])
    qdd = aba(model, s.q, s.qd, tau)

    def momentum(t):
        q, qd = integrate(model, s.q, t * s.qd), s.qd + t * qdd
        return sum(
            x.T @ body.matrix() @ x @ J @ qd
            for x, body, J in zip(poses(model, q), model.inertia, jacobians(model, q), strict=True)
        )

    close(slope(momentum), np.zeros(6), DIFFERENCE * np.max(np.abs(tau)))
    assert np.abs(qdd[:6]).max() > 0.1


def test_neutral_configuration_of_a_revolute_chain_is_zero_and_position_derivative_is_qd():
    assert_array_equal(neutral(planar2()), np.zeros(2))
    assert_array_equal(rate(planar2(), np.ones(2), np.array([2.0, 3.0])), [2.0, 3.0])
