"""Pages of robots whose joints are driven by a function of time: poses agree with the time."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_pages import data, numbers

from rigidblocks import Model, Revolute, RobotPlant, System, animate, show, simulate
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.dynamics.loops.constraints import position_constraints
from rigidblocks.robot.joints import Fixed, Prismatic, Rheonomic
from rigidblocks.robot.robots import slider_crank, spatial_mechanism
from rigidblocks.spatial.spatial import mcI, xlt
from rigidblocks.view.drawn_robot import DrawnRobot, pose_numbers
from rigidblocks.view.run_page import LiveView
from rigidblocks.view.simulation_page import simulation_page

CLOSE = 1e-12  # rounding, for lengths of about 1


def pendulum():
    """Return a pendulum of two links whose pivot moves by a function of time."""
    joints = (Rheonomic(Revolute(), Prismatic((1, 0, 0)), lambda t: [0.3 * np.sin(5 * t)]),)
    body = mcI(1.0, (0.5, 0, 0), np.eye(3))
    places = (xlt((0, 0, 0)), xlt((1, 0, 0)))
    return Model("shaken", (-1, 0), (*joints, Revolute()), places, (body, body))


def run_system():
    system = System()
    system.add("robot", RobotPlant(pendulum(), [0.3, -0.2]), start={"tau": [0.0, 0.0]})
    return system


def test_drawn_poses_of_a_robot_with_prescribed_motion_equal_the_model_poses(rng):
    model = pendulum()
    robot = DrawnRobot(model)
    for _ in range(10):
        q, t = rng.normal(size=2), float(rng.uniform(-5, 5))
        wanted = np.concatenate([pose_numbers(X) for X in body_poses(model.evaluate_at(t), q)])
        assert_allclose(np.ravel(robot.poses(np.append(q, t))), wanted.astype(float), atol=CLOSE)


def test_page_of_a_robot_with_prescribed_motion_has_a_time_slider():
    (robot,) = data(show(pendulum()))["robots"]
    assert [one["unit"] for one in robot["sliders"]] == ["rad", "rad", "s"]
    assert robot["sliders"][-1]["q"] == len(robot["q"]) - 1 == 2


def test_drawn_robot_with_prescribed_motion_has_exact_loop_errors_and_jacobians(rng):
    mechanism = spatial_mechanism(slider_crank())
    model = mechanism.model
    spin = Rheonomic(Fixed(), model.joint[0], lambda t: [mechanism.q0[0] + 0.2 * t])
    moved = replace(model, joint=(spin, *model.joint[1:]))
    robot, q, t = DrawnRobot(moved), rng.normal(size=moved.nq), 0.7
    values = robot.closure_errors(np.append(q, t))
    assert_allclose(
        values[: moved.nc], position_constraints(moved.evaluate_at(t), q).delta, atol=CLOSE
    )
    slopes = values[moved.nc :].reshape(moved.nc, moved.nq + 1)
    assert np.all(slopes[:, -1] == 0.0)
    dq, h = rng.normal(size=moved.nq), 1e-6
    ends = [position_constraints(moved.evaluate_at(t), q + side * h * dq).delta for side in (1, -1)]
    assert_allclose(slopes[:, :-1] @ dq, (ends[0] - ends[1]) / (2 * h), atol=1e-8)


@pytest.mark.slow
def test_page_of_a_run_stores_the_time_of_each_frame():
    system = run_system()
    result = simulate(system, 0.5, 0.01, form="numpy", progress=False)
    run = data(animate(result, system))["run"]
    frames, time = numbers(run["q"]).reshape(-1, 3), numbers(run["time"], "<f8")
    assert_allclose(frames[:, 2], time, rtol=1e-6)
    assert_allclose(frames[-1, :2], result["robot.q"][-1], rtol=1e-6)


def test_live_and_simulation_pages_reject_a_robot_with_prescribed_motion():
    with pytest.raises(ValueError, match="simulate the system and animate the result"):
        LiveView(run_system())
    with pytest.raises(ValueError, match="simulate the system and animate the result"):
        simulation_page(run_system(), 1e-3)
