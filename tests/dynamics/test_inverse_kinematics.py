"""Kinematics of named frames, and inverse kinematics of one or several frames with limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import MODELS, random_transform
from rigidblocks import (
    forward_kinematics,
    frame_pose,
    inverse_kinematics,
    load_model,
    planar2,
)
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
    with pytest.raises(ValueError, match="has no frame 'hand'; available: body1, body2"):
        inverse_kinematics(model, Target("hand", rotx(0.1)))
    with pytest.raises(ValueError, match="the lower limit of variable 1 is above the upper limit"):
        inverse_kinematics(model, Target(0, rotx(0.1)), lower=[0, 1], upper=[1, 0])


# frames by name

ARM = """<robot name="arm">
  <link name="base"/><link name="stand"/>
  <joint name="foot" type="fixed"><parent link="base"/><child link="stand"/>
    <origin xyz="0 0 0.4" rpy="0 0 0.3"/></joint>
  <link name="upper">{inertia}</link><link name="lower">{inertia}</link>
  <link name="wrist">{inertia}</link>
  <link name="tool0"/>
  <joint name="shoulder" type="revolute"><parent link="stand"/><child link="upper"/>
    <axis xyz="0 0 1"/>
    <limit lower="-2" upper="2" velocity="9" effort="9"/></joint>
  <joint name="elbow" type="revolute"><parent link="upper"/><child link="lower"/>
    <axis xyz="0 1 0"/>
    <origin xyz="0.5 0 0"/><limit lower="-2.5" upper="0.2" velocity="9" effort="9"/></joint>
  <joint name="slide" type="prismatic"><parent link="lower"/><child link="wrist"/>
    <axis xyz="1 0 0"/>
    <origin xyz="0.4 0 0" rpy="0.2 0 0"/>
    <limit lower="0" upper="0.3" velocity="9" effort="9"/></joint>
  <joint name="flange" type="fixed"><parent link="wrist"/><child link="tool0"/>
    <origin xyz="0.1 0.02 0" rpy="0 1.2 0.5"/></joint>
</robot>""".replace(
    "{inertia}",
    """<inertial><mass value="1"/><origin xyz="0.1 0 0"/>
  <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>""",
)
FRAMES = ("base", "stand", "upper", "lower", "wrist", "tool0")


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    return load_model(path)


def homogeneous(axis, angle, r):
    """Return the matrix (4, 4) of a rotation about a coordinate axis and a translation."""
    i, j = ((1, 2), (2, 0), (0, 1))[axis]
    T = np.eye(4)
    T[i, i] = T[j, j] = np.cos(angle)
    T[j, i] = np.sin(angle)
    T[i, j] = -T[j, i]
    T[:3, 3] = r
    return T


def tool_by_matrices(q):
    """Return the matrix (4, 4) from tool to base coordinates of ARM, the product of its joints."""
    steps = [(2, 0.3, (0, 0, 0.4)), (2, q[0], (0, 0, 0)), (1, q[1], (0.5, 0, 0))]
    steps += [(0, 0.2, (0.4, 0, 0)), (0, 0.0, (q[2], 0, 0))]
    # roll, pitch and yaw of the flange: R = Rz(0.5) Ry(1.2)
    steps += [(2, 0.5, (0.1, 0.02, 0)), (1, 1.2, (0, 0, 0))]
    T = np.eye(4)
    for step in steps:
        T = T @ homogeneous(*step)
    return T


def test_forward_kinematics_is_the_product_of_the_joint_matrices(arm):
    q = np.array([0.7, -1.1, 0.2])
    poses = forward_kinematics(arm, q)
    assert set(poses) >= set(FRAMES)
    T = tool_by_matrices(q)
    assert_allclose(poses["tool0"].r, T[:3, 3], atol=1e-12)
    assert_allclose(poses["tool0"].E.T, T[:3, :3], atol=1e-12)
    assert_allclose(poses["base"].r, 0.0, atol=0)
    assert_allclose(poses["stand"].r, [0, 0, 0.4], atol=1e-15)
    for name in FRAMES:
        X = frame_pose(arm, q, name)
        assert_allclose(X.E, poses[name].E, atol=0)
        assert_allclose(X.r, poses[name].r, atol=0)


def test_jacobian_of_a_named_frame_is_the_derivative_of_its_matrix(arm):
    q, h = np.array([0.7, -1.1, 0.2]), 1e-6
    J, T = frame_jacobian(arm, q, "tool0"), tool_by_matrices(q)
    for k, dq in enumerate(h * np.eye(3)):
        rate = (tool_by_matrices(q + dq) - tool_by_matrices(q - dq)) / (2 * h)
        spin = rate[:3, :3] @ T[:3, :3].T
        assert_allclose(J[:3, k], [spin[2, 1], spin[0, 2], spin[1, 0]], atol=1e-9)
        assert_allclose(J[3:, k], rate[:3, 3], atol=1e-9)
    assert_allclose(frame_jacobian(arm, q, "stand"), np.zeros((6, 3)), atol=0)


@pytest.mark.interop
def test_frames_and_their_jacobians_match_pinocchio(arm, rng):
    pin = pytest.importorskip("pinocchio", reason="Pinocchio is not installed (`pip install pin`)")
    other = pin.buildModelFromXML(ARM)
    data = other.createData()
    for _ in range(5):
        q = rng.uniform(arm.joint_properties.lower, arm.joint_properties.upper)
        poses = forward_kinematics(arm, q)
        for name in FRAMES:
            k = other.getFrameId(name, pin.BODY)
            pin.framesForwardKinematics(other, data, q)
            assert_allclose(poses[name].E.T, data.oMf[k].rotation, atol=1e-12)
            assert_allclose(poses[name].r, data.oMf[k].translation, atol=1e-12)
            J = pin.computeFrameJacobian(other, data, q, k, pin.LOCAL_WORLD_ALIGNED)
            assert_allclose(frame_jacobian(arm, q, name), J[[3, 4, 5, 0, 1, 2]], atol=1e-12)


def test_random_restarts_of_inverse_kinematics_reach_targets_that_a_single_start_misses(arm):
    rng, low, high = (
        np.random.default_rng(3),
        arm.joint_properties.lower,
        arm.joint_properties.upper,
    )
    missed = 0
    for _ in range(10):
        goal = frame_pose(arm, rng.uniform(low, high), "tool0")
        start = np.array([1.9, 0.1, 0.3])
        missed += not inverse_kinematics(arm, Target("tool0", goal), start).reached
        found = inverse_kinematics(arm, Target("tool0", goal))
        assert found.reached
        assert np.all((low <= found.q) & (found.q <= high))
        assert_allclose(tool_by_matrices(found.q)[:3, 3], goal.r, atol=1e-9)
    assert missed > 0


def test_inverse_kinematics_lists_the_joints_at_their_limits(arm):
    """The target is far outside on the axis of the slide, so only the slide ends at its limit."""
    q = np.array([0.5, -0.7, 0.3])
    T = tool_by_matrices(q)
    axis = (tool_by_matrices(q + np.array([0, 0, 1.0])) - T)[:3, 3]
    beyond = Transform(T[:3, :3].T, T[:3, 3] + 0.1 * axis)
    found = inverse_kinematics(arm, Target("tool0", beyond), q - [0, 0, 0.1])
    assert not found.reached
    assert found.at_limit == ("slide",)
    assert found.error <= 0.1 + 1e-9


def test_kinematic_functions_reject_unknown_frames_and_targets_fixed_to_the_base(arm):
    with pytest.raises(ValueError, match=r"'arm' has no frame 'tool'; .* \(did you mean tool0\?\)"):
        frame_pose(arm, np.zeros(3), "tool")
    with pytest.raises(ValueError, match="needs one or more targets, but the list is empty"):
        inverse_kinematics(arm, [])
    with pytest.raises(ValueError, match="frame 'stand' of 'arm' is fixed to the base"):
        inverse_kinematics(arm, Target("stand", rotx(0.1)))
    with pytest.raises(ValueError, match=r"q of model 'arm' needs shape \(3,\)"):
        forward_kinematics(arm, np.zeros(2))
    with pytest.raises(TypeError, match="the robot must be a model or the result of load_model"):
        forward_kinematics("arm.urdf", np.zeros(3))
