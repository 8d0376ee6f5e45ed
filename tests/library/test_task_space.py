"""Task-space control and inverse kinematics: error equations, potentials and joint limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from library_runs import outputs
from random_models import MODELS, random_state, random_transform
from rigidblocks import System, planar2, simulate
from rigidblocks.block.block import Record
from rigidblocks.dynamics import aba, potential_energy, rnea
from rigidblocks.dynamics.kinematics import (
    body_accelerations,
    body_poses,
    body_velocities,
    classical_acceleration,
    frame_jacobian,
    pose_error,
)
from rigidblocks.library import (
    Frame,
    FrameKinematics,
    InverseDynamicsController,
    InverseKinematics,
    OperationalSpaceController,
    RobotPlant,
    TaskSpacePD,
)
from rigidblocks.robot_description.load import puma560
from rigidblocks.spatial.spatial import xlt

TIP = Frame("tip", 1, xlt([1.0, 0.0, 0.0]))


def frame_motion(model, q, qd, qdd, frame):
    """Return pose, velocity and classical acceleration of a frame in base coordinates."""
    i = frame.body_of(model)
    X = frame.placement @ body_poses(model, q)[i]
    v = frame.placement @ body_velocities(model, q, qd)[i]
    a = classical_acceleration(frame.placement @ body_accelerations(model, q, qd, qdd)[i], v)

    def turned(m):
        return np.concatenate([X.E.T @ m[:3], X.E.T @ m[3:]])

    return X, turned(v), turned(a)


@pytest.mark.parametrize("rotation", [True, False])
def test_tracking_error_of_operational_space_control_satisfies_a_linear_equation(rotation, rng):
    model, kp, kd = MODELS["six-axis"](), 30.0, 7.0
    frame = Frame("tool", 5, random_transform(rng))
    block = OperationalSpaceController(model, frame, kp, kd, rotation=rotation)
    for _ in range(5):
        s = random_state(rng, model)
        goal, v_ref, a_ref = random_transform(rng), *rng.normal(size=(2, 6))
        given = {"p_ref": goal.r, "v_ref": v_ref[3:], "a_ref": a_ref[3:]}
        if rotation:
            given |= {"R_ref": goal.E.T, "w_ref": v_ref[:3], "wd_ref": a_ref[:3]}
        tau = outputs(block, **given, q=s.q, qd=s.qd)["tau"]
        X, v, a = frame_motion(model, s.q, s.qd, aba(model, s.q, s.qd, tau), frame)
        wanted = a_ref + kd * (v_ref - v) + kp * pose_error(X, goal)
        rows = slice(0 if rotation else 3, 6)
        J = frame_jacobian(model, s.q, 5, frame.placement)[rows]
        tolerance = 1e-11 * np.linalg.cond(J) ** 2 * np.abs(wanted).max()
        assert_allclose(a[rows], wanted[rows], rtol=0, atol=tolerance)


def test_null_space_damping_does_not_change_the_task_acceleration(rng):
    """A position task leaves three of six degrees of freedom in the null space.

    The damping changes their acceleration, but not the acceleration of the frame.
    """
    model, frame = MODELS["six-axis"](), Frame("tool", 5)
    s = random_state(rng, model)
    accelerations = []
    for damping in (0.0, 50.0):
        block = OperationalSpaceController(model, frame, 10.0, 2.0, damping, rotation=False)
        tau = outputs(block, q=s.q, qd=s.qd)["tau"]
        accelerations.append(aba(model, s.q, s.qd, tau))
    of_frame = [frame_motion(model, s.q, s.qd, qdd, frame)[2][3:] for qdd in accelerations]
    assert_allclose(*of_frame, rtol=1e-7, atol=1e-7 * np.abs(of_frame[0]).max())
    assert np.abs(accelerations[0] - accelerations[1]).max() > 1.0


def test_task_space_pd_torque_at_the_goal_equals_gravity_compensation(rng):
    model = MODELS["six-axis"]()
    frame = Frame("tool", 5, random_transform(rng))
    block = TaskSpacePD(model, frame, 100.0, 10.0, 10.0, 1.0)
    q = random_state(rng, model).q
    X = frame.placement @ body_poses(model, q)[5]
    tau = outputs(block, p_ref=X.r, R_ref=X.E.T, q=q, qd=np.zeros(6))["tau"]
    assert_allclose(tau, rnea(model, q, np.zeros(6), np.zeros(6)), rtol=0, atol=1e-10)


def test_task_space_pd_torque_is_the_negative_gradient_of_its_potential_energy(rng):
    """tau = -d(kp e^2 / 2 - V)/dq with the potential energy V of gravity."""
    model, frame = planar2().with_gravity((0.0, -9.81, 0.0)), TIP
    block = TaskSpacePD(model, frame, 80.0, 10.0, rotation=False)
    q, goal, h = rng.normal(size=2), rng.normal(size=3), 1e-6

    def energy(q):
        gap = goal - (frame.placement @ body_poses(model, q)[1]).r
        return 40.0 * gap @ gap - potential_energy(model, q)

    gradient = [(energy(q + d) - energy(q - d)) / (2 * h) for d in h * np.eye(2)]
    tau = outputs(block, p_ref=goal, q=q, qd=np.zeros(2))["tau"]
    assert_allclose(tau, -np.array(gradient), rtol=1e-7, atol=1e-7)


def test_inverse_kinematics_block_moves_the_frame_at_gain_times_the_position_error():
    robot, q = puma560(), np.array([0.1, 0.8, 2.6, 0.2, 0.7, 0.3])
    frame = Frame("flange", "link6")
    block = InverseKinematics(robot.model, frame, q, gain=5.0, damping=1e-9)
    X = body_poses(robot.model, q)[5]
    goal = X.r + np.array([0.02, -0.03, 0.01])
    y = block.output(
        Record({"q": q}),
        Record({"p_ref": goal, "R_ref": X.E.T, "v_ref": np.zeros(3), "w_ref": np.zeros(3)}),
        Record({"gain": 5.0, "damping": 1e-9}),
    )
    velocity = frame_jacobian(robot.model, q, 5, frame.placement) @ y["qd"]
    assert_allclose(velocity, [0, 0, 0, 0.1, -0.15, 0.05], atol=1e-9)
    assert_allclose(y["error"], np.linalg.norm(goal - X.r))


@pytest.mark.slow
def test_inverse_kinematics_block_holds_a_joint_at_its_limit_and_moves_the_others():
    block = InverseKinematics(
        planar2(), TIP, [0.0, 1.0], upper=[0.2, 2.0], lower=-2.0, rotation=False
    )
    system = System()
    system.add("ik", block, start={"p_ref": [-1.0, 1.2, 0.0]})
    result = simulate(system, 2.0, 1e-2, progress=False)
    q = result["ik.q"]
    assert q[:, 0].max() <= 0.2 + 1e-12
    assert q[-1, 0] == pytest.approx(0.2, abs=1e-8)
    assert result["ik.qd"][-1, 0] == 0.0
    elbow = np.linspace(-2, 2, 40001)
    tips = np.array([np.cos(0.2) + np.cos(0.2 + elbow), np.sin(0.2) + np.sin(0.2 + elbow)])
    nearest = np.hypot(*(tips - [[-1.0], [1.2]])).min()
    assert result["ik.error"][-1] == pytest.approx(nearest, abs=1e-3)


@pytest.mark.slow
def test_inverse_kinematics_and_computed_torque_move_an_arm_to_its_goal():
    """The flange of the arm reaches the goal of its inverse kinematics."""
    model, q0 = puma560().model, np.array([0.1, 0.8, 2.6, 0.2, 0.7, 0.3])
    armature = puma560().joint_properties.armature
    frame = Frame("flange", "link6")
    goal = body_poses(model, q0)[5].r + np.array([0.1, 0.1, -0.1])
    system = System()
    system.add("ik", InverseKinematics(model, frame, q0, gain=4.0), start={"p_ref": goal})
    system.add("pd", InverseDynamicsController(model, 400.0, 40.0))
    system.add("robot", RobotPlant(model, q0, rotor_inertia=armature))
    system.add("seen", FrameKinematics(model, (frame,)))
    for source, to in (
        ("ik.q", "pd.q_ref"),
        ("ik.qd", "pd.qd_ref"),
        ("robot.q", "pd.q"),
        ("robot.qd", "pd.qd"),
        ("pd.tau", "robot.tau"),
        ("robot.q", "seen.q"),
        ("robot.qd", "seen.qd"),
    ):
        system.connect(source, to)
    result = simulate(system, 4.0, 1e-3, progress=False)
    assert_allclose(result["seen.p_flange"][-1], goal, atol=1e-4)


WRONG = {
    "loops": (
        lambda: InverseKinematics(MODELS["satellite"](), Frame("f", 0)),
        "several degrees of freedom",
    ),
    "limits": (lambda: InverseKinematics(planar2(), TIP, lower=1.0, upper=0.0), "must not exceed"),
    "body": (lambda: TaskSpacePD(planar2(), Frame("f", "hand"), 1.0, 1.0), "unknown body 'hand'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_task_space_blocks_reject_unsupported_models_frames_and_limits(name):
    make, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        make()
