"""Inverse kinematics by what it is for: the frame is where it should be, within the limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import MODELS, random_transform
from rigidblocks import Target, inverse_kinematics, planar2, puma560
from rigidblocks.algebra.lie import exp
from rigidblocks.algebra.spatial import Transform, rotx, xlt
from rigidblocks.dynamics.inverse_kinematics import damped_step, frame_jacobian, pose_error
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.model.configuration import displaced, random_configuration

REACHED = 1e-10
NAMES = ("six-axis", "branched", "mixed", "satellite")


def pose(model, q, body, placement):
    return placement @ body_poses(model, q)[body]


@pytest.mark.parametrize("name", NAMES)
def test_the_jacobian_is_the_derivative_of_the_pose(name, rng):
    model = MODELS[name]()
    q, dq, P = random_configuration(model, rng), rng.normal(size=model.nv), random_transform(rng)
    J, h = frame_jacobian(model, q, model.nb - 1, P), 1e-5
    before, after = (pose(model, displaced(model, q, s * h * dq), model.nb - 1, P) for s in (-1, 1))
    change = pose_error(before, after) / (2 * h)
    assert_allclose(J @ dq, change, rtol=0, atol=1e-7 * max(1, np.abs(change).max()))


@pytest.mark.parametrize("angle", [1e-9, 0.1, 1.0, 3.0, np.pi])
def test_the_error_of_a_pose_points_the_way_and_has_its_size(angle, rng):
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    X = random_transform(rng)
    turned = Transform(exp(np.array([*(angle * axis), 0, 0, 0])).E, np.zeros(3))
    e = pose_error(X, Transform(X.E @ turned.E, X.r + np.array([1.0, 2.0, 3.0])))
    assert_allclose(e[3:], [1.0, 2.0, 3.0], atol=1e-12)
    if angle < np.pi:
        assert_allclose(e[:3], 2 * np.sin(angle / 2) * axis, rtol=1e-7, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_a_pose_that_was_reached_is_reached_from_near_it(name, rng):
    model = MODELS[name]()
    for _ in range(3):
        q, P = random_configuration(model, rng), random_transform(rng)
        goal = pose(model, q, model.nb - 1, P)
        near = displaced(model, q, 0.2 * rng.normal(size=model.nv))
        found = inverse_kinematics(model, Target(model.nb - 1, goal, P), near)
        assert found.reached, found
        e = pose_error(pose(model, found.q, model.nb - 1, P), goal)
        assert_allclose(e, 0.0, atol=REACHED)


def test_limits_are_kept_and_the_rest_does_what_it_can(rng):
    robot = puma560()
    model, f = robot.model, robot.freedoms
    for _ in range(4):
        q = rng.uniform(f.lower, f.upper)
        goal = pose(model, q, 5, xlt(np.zeros(3)))
        start = rng.uniform(f.lower, f.upper)
        found = inverse_kinematics(
            model, Target("link6", goal), start, lower=f.lower, upper=f.upper
        )
        assert np.all(found.q >= f.lower)
        assert np.all(found.q <= f.upper)


def test_two_links_reach_the_closed_form():
    """q2 = acos((x^2 + y^2 - 2) / 2), the elbow on the side it starts on."""
    x, y = 1.2, 0.7
    target = Target("body2", xlt([x, y, 0.0]), xlt([1.0, 0.0, 0.0]), rotation=False)
    found = inverse_kinematics(planar2(), target, [0.0, 0.5])
    elbow = np.arccos((x * x + y * y - 2) / 2)
    shoulder = np.arctan2(y, x) - np.arctan2(np.sin(elbow), 1 + np.cos(elbow))
    assert_allclose(found.q, [shoulder, elbow], atol=1e-9)


def test_what_is_out_of_reach_is_pointed_at():
    target = Target(1, xlt([3.0, 3.0, 0.0]), xlt([1.0, 0.0, 0.0]), rotation=False)
    found = inverse_kinematics(planar2(), target, [0.1, 0.3])
    assert not found.reached
    assert_allclose(found.error, np.hypot(3, 3) - 2, rtol=1e-6)


def test_several_targets_are_reached_at_once(rng):
    model = MODELS["branched"]()
    q = random_configuration(model, rng)
    goals = [
        Target(body, pose(model, q, body, xlt(np.zeros(3))), rotation=False)
        for body in (model.nb - 1, model.nb - 2)
    ]
    near = displaced(model, q, 0.1 * rng.normal(size=model.nv))
    assert inverse_kinematics(model, goals, near).reached


def test_steps_stay_finite_where_the_arm_is_singular():
    q = np.zeros(2)
    J = frame_jacobian(planar2(), q, 1, xlt([1.0, 0.0, 0.0]))
    step = damped_step(J, np.array([0, 0, 0, 1.0, 0, 0]), 1e-3)
    assert_allclose(step, 0.0, atol=1e-9)


def test_a_turned_goal_is_no_goal_of_numbers_alone():
    model = planar2()
    with pytest.raises(ValueError, match="has no body 'hand'; it has body1, body2"):
        inverse_kinematics(model, Target("hand", rotx(0.1)))
    with pytest.raises(ValueError, match="the limits of freedom 1 are upside down"):
        inverse_kinematics(model, Target(0, rotx(0.1)), lower=[0, 1], upper=[1, 0])
