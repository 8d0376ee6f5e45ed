"""Positions, velocities, accelerations and Jacobians compared with finite differences."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from planar_models import random_planar_state, random_planar_tree
from random_models import random_state
from rigidblocks.dynamics import (
    aba,
    body_accelerations,
    body_jacobian,
    body_jacobian_rate,
    body_poses,
    body_velocities,
    classical_acceleration,
    energy,
    hybrid_dynamics,
    inertia_times,
    kinetic_energy,
    point_acceleration,
    point_jacobian,
    point_jacobian_rate,
    point_position,
    point_velocity,
    spatial_acceleration,
    specific_force,
)
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.joints import (
    EulerSpherical,
    RackAndPinion,
    Reversed,
    Revolute,
    SixDoF,
    Universal,
)
from rigidblocks.robot.joints.base import subspace_rate
from rigidblocks.robot.robots import planar_n
from rigidblocks.spatial.scalar import Dual
from rigidblocks.spatial.spatial import crm, xlt

RTOL = 1e-12  # rounding errors of a few hundred products, relative to the largest element
# fourth-order differences with step 1e-3: truncation 3e-14 times the fifth derivative, at most
# (number of angles)^5
DIFFERENCE = 1e-7


def close(actual, expected, rtol=RTOL):
    assert_allclose(
        actual, expected, rtol=0, atol=rtol * max(1.0, np.max(np.abs(expected), initial=0))
    )


def rate(f, h=1e-3):
    """Return the derivative of f at 0, by fourth-order central differences."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


@pytest.fixture
def s(model, rng):
    """Return a random state and a motion that passes through it at t = 0.

    The functions `q_at` and `qd_at` have constant acceleration qdd; q(t) is exact to second order.
    """
    state = random_state(rng, model)
    return SimpleNamespace(
        **state._asdict(),
        q_at=lambda t: integrate(model, state.q, state.qd * t + state.qdd * (t * t / 2)),
        qd_at=lambda t: state.qd + state.qdd * t,
        body=model.nb - 1,
        point=rng.uniform(-1, 1, 3),
    )


# bodies


def test_body_velocities_are_the_time_derivatives_of_the_body_poses(model, s):
    # d(X0)/dt = -v x X0, with v in body coordinates (RBDA Eq 2.45)
    v = body_velocities(model, s.q, s.qd)
    for i, X in enumerate(body_poses(model, s.q)):
        close(
            rate(lambda t, i=i: body_poses(model, s.q_at(t))[i].matrix()),
            -crm(v[i]) @ X.matrix(),
            DIFFERENCE,
        )


def test_body_accelerations_are_the_time_derivatives_of_the_body_velocities(model, s):
    # in base coordinates, because the base does not move
    def velocities(t):
        poses = body_poses(model, s.q_at(t))
        return np.array(
            [
                X.inverse() @ v
                for X, v in zip(poses, body_velocities(model, s.q_at(t), s.qd_at(t)), strict=True)
            ]
        )

    accelerations = body_accelerations(model, s.q, s.qd, s.qdd)
    expected = [X.inverse() @ a for X, a in zip(body_poses(model, s.q), accelerations, strict=True)]
    close(rate(velocities), expected, DIFFERENCE)


def test_uniformly_rotating_body_has_zero_spatial_acceleration():
    # RBDA 2.11; the points of the body have a centripetal acceleration
    wheel, q, qd, none = planar_n(1), np.array([0.4]), np.array([3.0]), np.zeros(1)
    assert_array_equal(body_accelerations(wheel, q, qd, none), np.zeros((1, 6)))
    close(
        point_acceleration(wheel, q, qd, none, 0, [0.5, 0, 0]),
        -9 * 0.5 * np.array([np.cos(0.4), np.sin(0.4), 0]),
    )


def test_classical_acceleration_equals_the_acceleration_of_the_body_origin(model, s):
    v = body_velocities(model, s.q, s.qd)[s.body]
    a = body_accelerations(model, s.q, s.qd, s.qdd)[s.body]
    X, origin = body_poses(model, s.q)[s.body], np.zeros(3)
    classical = classical_acceleration(a, v)
    close(X.E.T @ classical[3:], point_acceleration(model, s.q, s.qd, s.qdd, s.body, origin))
    assert_array_equal(classical[:3], a[:3])
    close(spatial_acceleration(classical, v), a)


# points


def test_point_velocity_is_the_time_derivative_of_the_point_position(model, s):
    for i in range(model.nb):
        expected = rate(lambda t, i=i: point_position(model, s.q_at(t), i, s.point))
        close(point_velocity(model, s.q, s.qd, i, s.point), expected, DIFFERENCE)


def test_point_acceleration_is_the_time_derivative_of_point_velocity(model, s):
    for i in range(model.nb):
        expected = rate(lambda t, i=i: point_velocity(model, s.q_at(t), s.qd_at(t), i, s.point))
        close(point_acceleration(model, s.q, s.qd, s.qdd, i, s.point), expected, DIFFERENCE)


def test_accelerometer_at_rest_measures_minus_gravity(model, s):
    # the reading points upwards and is in body coordinates
    zero = np.zeros(model.nv)
    reading = specific_force(model, s.q, zero, zero, s.body, s.point)
    close(body_poses(model, s.q)[s.body].E.T @ reading, -model.gravity)


def test_accelerometer_measures_acceleration_minus_gravity(model, s):
    g = np.array([1.0, 2.0, -9.0])
    reading = specific_force(model, s.q, s.qd, s.qdd, s.body, s.point, g)
    expected = point_acceleration(model, s.q, s.qd, s.qdd, s.body, s.point) - g
    close(body_poses(model, s.q)[s.body].E.T @ reading, expected)


def test_accelerometer_in_free_fall_measures_zero(rng):
    body = planar_n(1)
    ball = type(body)(
        "ball", (-1,), (SixDoF(),), (xlt(np.zeros(3)),), body.inertia, np.array([1.0, -2.0, -9.0])
    )
    q, still = SixDoF().random(rng), np.zeros(6)
    qdd = aba(ball, q, still, still)
    close(specific_force(ball, q, still, qdd, 0, rng.uniform(-1, 1, 3)), np.zeros(3))


# Jacobians


def test_jacobian_times_joint_velocities_equals_the_body_and_point_velocity(model, s):
    for i, v in enumerate(body_velocities(model, s.q, s.qd)):
        close(body_jacobian(model, s.q, i) @ s.qd, v)
        close(
            point_jacobian(model, s.q, i, s.point) @ s.qd,
            point_velocity(model, s.q, s.qd, i, s.point),
        )


def test_point_jacobian_is_the_derivative_of_the_point_position(model, s):
    columns = [
        rate(lambda t, e=e: point_position(model, integrate(model, s.q, e * t), s.body, s.point))
        for e in np.eye(model.nv)
    ]
    close(point_jacobian(model, s.q, s.body, s.point), np.transpose(columns), DIFFERENCE)


def test_body_jacobian_has_nonzero_columns_only_for_joints_that_move_the_body(model, s):
    J, supporting, i = body_jacobian(model, s.q, s.body), set(), s.body
    while i >= 0:
        supporting.add(i)
        i = model.parent[i]
    for j in range(model.nb):
        assert j in supporting or not J[:, model.v_slices[j]].any()


def test_jacobian_derivative_along_the_motion_matches_finite_differences(model, s):
    # in base coordinates, because the derivative of the columns needs a frame at rest
    def base_coordinates(J, t):
        X = body_poses(model, s.q_at(t))[s.body]
        return X.inverse() @ J

    J = rate(lambda t: base_coordinates(body_jacobian(model, s.q_at(t), s.body), t))
    close(base_coordinates(body_jacobian_rate(model, s.q, s.qd, s.body), 0.0), J, DIFFERENCE)
    J_P = rate(lambda t: point_jacobian(model, s.q_at(t), s.body, s.point))
    close(point_jacobian_rate(model, s.q, s.qd, s.body, s.point), J_P, DIFFERENCE)


def test_body_and_point_accelerations_equal_j_qdd_plus_jdot_qd(model, s):
    # RBDA Example 2.5
    for i, a in enumerate(body_accelerations(model, s.q, s.qd, s.qdd)):
        close(
            body_jacobian(model, s.q, i) @ s.qdd + body_jacobian_rate(model, s.q, s.qd, i) @ s.qd, a
        )
    J, Jdot = (
        point_jacobian(model, s.q, s.body, s.point),
        point_jacobian_rate(model, s.q, s.qd, s.body, s.point),
    )
    close(J @ s.qdd + Jdot @ s.qd, point_acceleration(model, s.q, s.qd, s.qdd, s.body, s.point))


def test_planar_jacobians_give_the_body_velocities_and_accelerations(rng):
    model = random_planar_tree(rng, (-1, 0, 0, 1, 2, 2))
    state = random_planar_state(rng, model)
    q, qd, qdd = state.q, state.qd, state.qdd
    v, a = body_velocities(model, q, qd), body_accelerations(model, q, qd, qdd)
    for i in range(model.nb):
        close(body_jacobian(model, q, i) @ qd, v[i])
        close(body_jacobian(model, q, i) @ qdd + body_jacobian_rate(model, q, qd, i) @ qd, a[i])


VARIABLE = (
    Universal(),
    EulerSpherical(),
    RackAndPinion(0.3),
    Reversed(SixDoF()),
    Reversed(RackAndPinion(-0.2)),
    Revolute((1.0, 2.0, 2.0)),
)


@pytest.mark.parametrize("joint", VARIABLE, ids=str)
def test_motion_subspace_derivative_along_the_motion_matches_finite_differences(joint, rng):
    q, qd = joint.random(rng), rng.uniform(-2, 2, joint.nv)
    S = rate(lambda t: joint.jcalc(joint.integrate(q, qd * t), qd).S)
    close(subspace_rate(joint, q, qd), S, DIFFERENCE)
    close(subspace_rate(joint, q, qd) @ qd, joint.jcalc(q, qd).cJ)


FUNCTIONS = {
    "sum": lambda x: 2.0 + x * 3.0 - x / 4.0 - (1.0 - x),
    "quotient": lambda x: (1.0 + x * x) / (2.0 - x) + 1.0 / x,
    "functions": lambda x: np.sin(x * x) * np.cos(x) - np.sqrt(x + 1.0),
    "tan": lambda x: np.tan(x * x),
    "arcsin": lambda x: np.arcsin(0.5 * x),
    "arccos": lambda x: np.arccos(0.5 * x),
    "arctan": lambda x: np.arctan(x * x),
    "arctan2": lambda x: np.arctan2(x * x, 1.0 - 3.0 * x),
    "arctan2 of a number": lambda x: np.arctan2(x * x, -2.0),
    "exp": lambda x: np.exp(x * x),
    "log": lambda x: np.log(x * x),
    "power": lambda x: x**3 - (x * x) ** 0.5,
    "absolute value": lambda x: np.abs(x * x - 1.0) + np.abs(x),
    "floor": lambda x: np.floor(4.0 * x) * x,
    "negative": lambda x: -(x * x),
    "array": lambda x: (
        np.array([1.0, 2.0]) * x - x * np.array([x, -x]) + np.array([3.0, x]) / x
    ).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dual_numbers_give_the_derivative_of_each_elementary_function(name):
    f, x = FUNCTIONS[name], 0.7
    result = f(Dual(x, 5.0))
    close(result.value, f(x))
    close(result.slope, 5.0 * rate(lambda h: f(x + h)), DIFFERENCE)


# rejected inputs


def test_kinematic_functions_reject_an_unknown_body():
    arm, zero = planar_n(3), np.zeros(3)
    for body in (3, -1, "hand"):
        with pytest.raises(
            ValueError, match=f"model 'planar3' has no body {body!r}; it has: body1, body2, body3"
        ):
            body_jacobian(arm, zero, body)


def test_bodies_are_selected_by_name_or_index(rng):
    arm, (q, qd, qdd) = planar_n(3), rng.normal(size=(3, 3))
    name, point = arm.body_names[1], np.array([0.1, 0.2, 0.3])
    for f, given in (
        (body_jacobian, (q,)),
        (body_jacobian_rate, (q, qd)),
    ):
        assert_array_equal(f(arm, *given, name), f(arm, *given, 1))
    for of_point, given in (
        (point_position, (q,)),
        (point_velocity, (q, qd)),
        (point_acceleration, (q, qd, qdd)),
        (point_jacobian, (q,)),
    ):
        assert_array_equal(of_point(arm, *given, name, point), of_point(arm, *given, 1, point))


def test_error_for_a_short_joint_vector_identifies_the_first_joint_without_a_value():
    arm, zero, short = planar_n(3), np.zeros(3), np.zeros(1)
    with pytest.raises(
        ValueError, match=r"qd of model 'planar3' needs 3 elements, not 1; joint2 has qd\[1:2\]"
    ):
        body_velocities(arm, zero, short)
    with pytest.raises(ValueError, match=r"q of model 'planar3' needs 3 elements, not 4$"):
        body_poses(arm, np.zeros(4))
    with pytest.raises(ValueError, match="f_ext has 2 rows, but model 'planar3' has 3 bodies"):
        hybrid_dynamics(arm, [1, 1, 1], zero, zero, zero, zero, np.zeros((2, 6)))
    for function in (lambda: energy(arm, zero, short), lambda: kinetic_energy(arm, short, zero)):
        with pytest.raises(ValueError, match="of model 'planar3' needs 3 elements, not 1"):
            function()
    with pytest.raises(ValueError, match="qdd of model 'planar3' needs 3 elements, not 1"):
        inertia_times(arm, zero, short)
