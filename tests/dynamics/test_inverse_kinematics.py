"""Inverse kinematics of one or several frames with joint limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import MODELS, random_transform
from rigidblocks import inverse_kinematics, planar2
from rigidblocks.dynamics.kinematics import (
    Target,
    body_poses,
    damped_step,
    frame_jacobian,
    pose_error,
)
from rigidblocks.robot.configuration import integrate_unchecked, random_configuration
from rigidblocks.robot_description.load import puma560
from rigidblocks.spatial.rigid_motion import exp
from rigidblocks.spatial.spatial import Transform, rotx, xlt

REACHED = 1e-10
NAMES = ("six-axis", "branched", "mixed", "satellite")


def pose(model, q, body, placement):
    return placement @ body_poses(model, q)[body]


@pytest.mark.parametrize("name", NAMES)
def test_frame_jacobian_is_the_derivative_of_the_frame_pose(name, rng):
    model = MODELS[name]()
    q, dq, P = random_configuration(model, rng), rng.normal(size=model.nv), random_transform(rng)
    J, h = frame_jacobian(model, q, model.nb - 1, P), 1e-5
    before, after = (
        pose(model, integrate_unchecked(model, q, s * h * dq), model.nb - 1, P) for s in (-1, 1)
    )
    change = pose_error(before, after) / (2 * h)
    assert_allclose(J @ dq, change, rtol=0, atol=1e-7 * max(1, np.abs(change).max()))


@pytest.mark.parametrize("angle", [1e-9, 0.1, 1.0, 3.0, np.pi])
def test_orientation_error_has_the_axis_and_chord_length_of_the_rotation(angle, rng):
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    X = random_transform(rng)
    turned = Transform(exp(np.array([*(angle * axis), 0, 0, 0])).E, np.zeros(3))
    e = pose_error(X, Transform(X.E @ turned.E, X.r + np.array([1.0, 2.0, 3.0])))
    assert_allclose(e[3:], [1.0, 2.0, 3.0], atol=1e-12)
    if angle < np.pi:
        assert_allclose(e[:3], 2 * np.sin(angle / 2) * axis, rtol=1e-7, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_inverse_kinematics_finds_a_reachable_pose_from_a_nearby_configuration(name, rng):
    model = MODELS[name]()
    for _ in range(3):
        q, P = random_configuration(model, rng), random_transform(rng)
        goal = pose(model, q, model.nb - 1, P)
        near = integrate_unchecked(model, q, 0.2 * rng.normal(size=model.nv))
        found = inverse_kinematics(model, Target(model.nb - 1, goal, P), near)
        assert found.reached, found
        e = pose_error(pose(model, found.q, model.nb - 1, P), goal)
        assert_allclose(e, 0.0, atol=REACHED)


@pytest.mark.slow
def test_inverse_kinematics_solution_stays_within_the_joint_limits(rng):
    robot = puma560()
    model, f = robot.model, robot.joint_properties
    for _ in range(4):
        q = rng.uniform(f.lower, f.upper)
        goal = pose(model, q, 5, xlt(np.zeros(3)))
        start = rng.uniform(f.lower, f.upper)
        found = inverse_kinematics(
            model, Target("link6", goal), start, lower=f.lower, upper=f.upper
        )
        assert np.all(found.q >= f.lower)
        assert np.all(found.q <= f.upper)


def test_inverse_kinematics_of_a_two_link_arm_matches_the_closed_form():
    """The elbow angle is q2 = acos((x^2 + y^2 - 2) / 2); its sign is that of the initial angle."""
    x, y = 1.2, 0.7
    target = Target("body2", xlt([x, y, 0.0]), xlt([1.0, 0.0, 0.0]), rotation=False)
    found = inverse_kinematics(planar2(), target, [0.0, 0.5])
    elbow = np.arccos((x * x + y * y - 2) / 2)
    shoulder = np.arctan2(y, x) - np.arctan2(np.sin(elbow), 1 + np.cos(elbow))
    assert_allclose(found.q, [shoulder, elbow], atol=1e-9)


def test_inverse_kinematics_stretches_the_arm_towards_an_unreachable_target():
    target = Target(1, xlt([3.0, 3.0, 0.0]), xlt([1.0, 0.0, 0.0]), rotation=False)
    found = inverse_kinematics(planar2(), target, [0.1, 0.3])
    assert not found.reached
    assert_allclose(found.error, np.hypot(3, 3) - 2, rtol=1e-6)


def test_inverse_kinematics_reaches_several_targets_simultaneously(rng):
    model = MODELS["branched"]()
    q = random_configuration(model, rng)
    goals = [
        Target(body, pose(model, q, body, xlt(np.zeros(3))), rotation=False)
        for body in (model.nb - 1, model.nb - 2)
    ]
    near = integrate_unchecked(model, q, 0.1 * rng.normal(size=model.nv))
    assert inverse_kinematics(model, goals, near).reached


def test_damped_step_of_inverse_kinematics_is_zero_along_a_singular_direction():
    q = np.zeros(2)
    J = frame_jacobian(planar2(), q, 1, xlt([1.0, 0.0, 0.0]))
    step = damped_step(J, np.array([0, 0, 0, 1.0, 0, 0]), 1e-3)
    assert_allclose(step, 0.0, atol=1e-9)


def test_inverse_kinematics_rejects_unknown_target_bodies_and_reversed_joint_limits():
    model = planar2()
    with pytest.raises(ValueError, match="has no body 'hand'; expected one of body1, body2"):
        inverse_kinematics(model, Target("hand", rotx(0.1)))
    with pytest.raises(ValueError, match="the lower limit of variable 1 is above the upper limit"):
        inverse_kinematics(model, Target(0, rotx(0.1)), lower=[0, 1], upper=[1, 0])
