"""Pages of robots and runs: their content, and errors for invalid arguments."""

import base64
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from rigidblocks import (
    ClosedLoopPlant,
    ContactPlant,
    FloatingBasePlant,
    Port,
    Result,
    RobotPlant,
    System,
    animate,
    planar2,
    show,
    simulate,
)
from rigidblocks.block.port import number
from rigidblocks.dynamics.kinematics import body_poses
from rigidblocks.dynamics.loops.constraints import position_constraints
from rigidblocks.robot.configuration import random_configuration
from rigidblocks.robot.robots import (
    auto_tree,
    auto_tree_p,
    five_bar,
    four_bar,
    gripper,
    quadruped,
    stewart_platform,
)
from rigidblocks.robot_description.load import load_model
from rigidblocks.view.drawn_robot import DrawnRobot, camera_setup, pose_numbers
from rigidblocks.view.robot_page import configuration_ports
from rigidblocks.view.visual_geometry import solids
from urdf_text import ARM


def data(page):
    """Return the data for the script of a page."""
    text = re.search(r'<script id="data" type="application/json">(.*?)</script>', page.html, re.S)
    return json.loads(text[1])


def numbers(text, kind="<f4"):
    return np.frombuffer(base64.b64decode(text), kind)


def swing(t_stop=0.1):
    system = System()
    system.add("robot", RobotPlant(planar2(), qd0=[1.0, -2.0]))
    system.add("other", RobotPlant(auto_tree(3), q0=[0.1, 0.2, 0.3]))
    for name, n in (("robot", 2), ("other", 3)):
        system.parts[name].start["tau"] = np.zeros(n)
    return system, simulate(system, t_stop, 0.01, form="numpy", progress=False)


@pytest.mark.parametrize("robot", [planar2, quadruped, gripper, four_bar, lambda: auto_tree_p(3)])
def test_page_of_a_robot_loads_no_other_files(robot):
    html = show(robot()).html
    assert len(html) < 1e6
    text = html.replace("http://www.w3.org/2000/svg", "")  # an XML namespace, not an address
    assert not re.findall(r"https?:|src=|@import|url\(|fetch\(|XMLHttp", text)
    assert [one["bodies"] for one in data(show(robot()))["robots"]]


def test_robot_page_is_byte_identical_in_repeated_calls_and_is_displayed_in_notebooks(tmp_path):
    first, second = show(four_bar()), show(four_bar(), path=tmp_path / "new" / "four_bar.html")
    assert first.html == second.html
    assert (tmp_path / "new" / "four_bar.html").read_text(encoding="utf-8") == first.html
    assert first._repr_html_().startswith("<iframe")
    assert "<canvas" not in first._repr_html_()  # the page is quoted


def test_part_name_cannot_close_the_script_element_of_a_page():
    system = System()
    system.add("</script><b>", RobotPlant(planar2()))
    page = show(system)
    assert page.html.count("</script>") == 2
    assert data(page)["robots"][0]["name"] == "</script><b>"


@pytest.mark.parametrize("model", [planar2(), auto_tree_p(4, 2), quadruped(), four_bar().model])
def test_drawn_poses_of_links_equal_the_forward_kinematics(model, rng):
    q = random_configuration(model, rng)
    poses = DrawnRobot(model).poses(q).reshape(-1, 12)
    expected = [np.asarray(pose_numbers(X), float) for X in body_poses(model, q)]
    np.testing.assert_allclose(poses, expected, atol=1e-14)
    R = poses[:, :9].reshape(-1, 3, 3)
    np.testing.assert_allclose(
        R @ R.transpose(0, 2, 1), np.broadcast_to(np.eye(3), R.shape), atol=1e-13
    )


@pytest.mark.parametrize("mechanism", [four_bar(), stewart_platform()], ids=["planar", "spatial"])
def test_drawn_loop_errors_equal_the_constraint_errors_with_an_exact_jacobian(mechanism, rng):
    model, q = mechanism.model, mechanism.q0
    dq, h = rng.normal(size=model.nq), 1e-6
    robot = DrawnRobot(model, q=q)
    values = robot.closure_errors(q)
    slopes = values[model.nc :].reshape(model.nc, model.nq)
    np.testing.assert_allclose(values[: model.nc], position_constraints(model, q).delta, atol=1e-13)
    ends = [robot.closure_errors(q + sign * h * dq)[: model.nc] for sign in (1, -1)]
    np.testing.assert_allclose(slopes @ dq, (ends[0] - ends[1]) / (2 * h), atol=1e-8)


def test_links_without_shapes_are_drawn_from_joint_to_joint():
    """A link without a shape is drawn from its joint to the next joint."""
    model = four_bar(crank=0.5, coupler=1.5, rocker=1.0).model
    capsules = [one for one in solids(model) if one.kind == "capsule"]
    assert [one.body for one in capsules] == [0, 1, 2]
    np.testing.assert_allclose([one.size[1] for one in capsules], [0.5, 1.5, 1.0])
    np.testing.assert_allclose(
        [one.placement.r for one in capsules], [[0.25, 0, 0], [0.75, 0, 0], [0.5, 0, 0]]
    )
    for other in (quadruped(), gripper(), auto_tree(7, 2, 0.3), stewart_platform().model):
        seen = {one.body for one in solids(other) if one.layer == "links"}
        assert seen >= {i for i, name in enumerate(other.body_names) if name not in other.massless}


def test_default_camera_looks_along_planar_joint_axes_with_gravity_downwards():
    planar = camera_setup(four_bar().model)
    assert planar.up == (0.0, 1.0, 0.0)
    assert planar.eye[2] > np.hypot(*planar.eye[:2])
    lying = camera_setup(planar2())
    assert lying.up == (0.0, 0.0, 1.0)
    assert lying.eye[2] > 0.7 * np.linalg.norm(lying.eye[:2])
    for model in (quadruped(), stewart_platform().model, auto_tree(5, 1, 0.8)):
        seen = camera_setup(model)
        assert np.dot(seen.up, model.gravity) < 0
        assert np.dot(seen.up, seen.eye) > 0


def test_motion_and_signals_in_a_page_equal_the_results_of_the_run():
    system, result = swing()
    run = data(animate(result, system))["run"]
    time, q = numbers(run["time"], "<f8"), numbers(run["q"]).reshape(-1, 5)
    expected = np.concatenate([result["robot.q"], result["other.q"]], axis=1)
    assert time[0] == 0
    assert time[-1] == 0.1
    for row, t in zip(q, time, strict=True):
        exact = [np.interp(t, result.time, column) for column in expected.T]
        np.testing.assert_allclose(row, exact, atol=1e-6)
    shown = {one["name"]: one for one in run["signals"]}
    assert set(shown) == {port.name for port in result.ports}
    values = [numbers(column) for column in shown["robot.qd"]["columns"]]
    np.testing.assert_allclose(np.transpose(values), result["robot.qd"], rtol=1e-6, atol=1e-12)
    assert shown["robot.qd"]["unit"] == "rad/s"


def test_animate_function_finds_the_plant_of_a_robot_by_the_number_of_coordinates():
    _, result = swing(0.02)
    assert (
        data(animate(result, planar2(), signals=["robot.q[2]"]))["run"]["signals"][0]["unit"]
        == "rad"
    )
    with pytest.raises(ValueError, match="q with 4 elements in all, but 0 parts"):
        animate(result, auto_tree(4))
    with pytest.raises(KeyError, match="no signal 'nothing'"):
        animate(result, planar2(), signals=["nothing"])


def run_of(time, q):
    port = Port("robot.q", (2,), "rad")
    return Result.from_signals(np.array(time, float), [(port, np.reshape(q, (-1, 2)))], {})


def test_page_shows_a_failed_run_up_to_its_last_finite_sample():
    run = data(animate(run_of([0, 1, 2, 3], [0, 0, 1, 1, np.nan, 1, 2, 2]), planar2()))["run"]
    assert numbers(run["time"], "<f8")[-1] == 1.0
    np.testing.assert_array_equal(numbers(run["q"])[-2:], [1, 1])
    for column in data(animate(run_of([0, 1], [0, 0, 1e30, -1e300]), planar2()))["run"]["signals"]:
        assert np.isfinite([numbers(one) for one in column["columns"]]).all()
    with pytest.raises(
        ValueError, match="the first configuration of the robot's motion must be finite"
    ):
        animate(run_of([0, 1], [np.inf, 0, 1, 1]), planar2())
    with pytest.raises(ValueError, match="the result has no samples"):
        animate(
            Result(np.zeros(0), (Port("robot.q", (2,), "rad"),), np.zeros((0, 2)), {}), planar2()
        )


def test_page_of_a_one_hour_run_is_smaller_than_one_megabyte():
    """One hour at 100 Hz."""
    time = np.arange(0, 3600, 0.01)
    page = animate(run_of(time, np.stack([np.sin(time), np.cos(time)], axis=1)), planar2())
    assert len(page.html) < 1e6
    run = data(page)["run"]
    q, when = numbers(run["q"]).reshape(-1, 2), numbers(run["time"], "<f8")
    np.testing.assert_allclose(q[:, 0], np.sin(when), atol=1e-3)


def test_page_of_an_object_that_contains_no_robot_is_rejected():
    system = System()
    with pytest.raises(ValueError, match="the system has no robot to draw"):
        show(system)
    with pytest.raises(TypeError, match="a robot to draw must be a model"):
        show(3.0)
    with pytest.raises(ValueError, match="shape"):
        show(planar2(), [1.0, 2.0, 3.0])


def test_animate_function_finds_the_configuration_ports_of_every_plant():
    assert configuration_ports(RobotPlant(planar2())) == ("q",)
    assert configuration_ports(ClosedLoopPlant(*five_bar())) == ("q",)
    floating = FloatingBasePlant(quadruped())
    assert configuration_ports(floating) == ("quaternion", "position", "q")
    page = data(
        show(ContactPlant(FloatingBasePlant(quadruped(), position0=(0, 0, 0.5)), K=1e4, D=50))
    )
    assert page["robots"][0]["q"][4:7] == [0, 0, 0.5]
    assert page["ground"] == 0.0


def test_slider_ranges_equal_the_joint_limits_of_the_robot_file(tmp_path):
    (tmp_path / "arm.urdf").write_text(ARM)
    robot = load_model(tmp_path / "arm.urdf")
    sliders = data(show(robot))["robots"][0]["sliders"]
    lower, upper = robot.joint_properties.lower, robot.joint_properties.upper
    for slider in sliders:
        k = slider["q"]
        if np.isfinite(lower[k]):
            assert (slider["low"], slider["high"]) == (lower[k], upper[k])
        else:
            assert slider["high"] - slider["low"] == pytest.approx(2 * np.pi)


def test_page_of_several_runs_draws_their_robots_together():
    fast = run_of([0, 1, 2], [0, 0, 1, 2, 2, 4])
    slow = run_of([0, 2, 4], [0, 0, 1, 2, 2, 4])
    page = data(animate({"fast": fast, "slow": slow}, planar2()))
    first, second = page["robots"]
    assert first["poses"] == second["poses"]
    assert {one["layer"] for one in second["solids"]} == {"links"}
    assert all(one["opacity"] < 1 for one in second["solids"])
    run = page["run"]
    time, q = numbers(run["time"], "<f8"), numbers(run["q"]).reshape(-1, 4)
    assert (time[0], time[-1]) == (0.0, 4.0)
    np.testing.assert_allclose(q[:, 0], np.minimum(time, 2.0), atol=1e-2)  # the first robot stops
    np.testing.assert_allclose(q[:, 2], time / 2, atol=1e-6)
    (signal,) = run["signals"]
    assert signal["elements"] == ["[1] fast", "[2] fast", "[1] slow", "[2] slow"]
    at = numbers(run["plotTime"], "<f8")
    np.testing.assert_allclose(numbers(signal["columns"][3]), at, atol=1e-5)
    with pytest.raises(ValueError, match="nothing to show"):
        animate({}, planar2())


def test_page_of_a_run_omits_string_signals():
    system, result = swing()
    texts = np.full((len(result.time), 2), number("a"))
    ports = (*result.ports, Port("part.says", type="String"), Port("part.raw", type="Binary"))
    values = np.concatenate([np.asarray(result.values), texts], axis=1)
    more = replace(result, ports=ports, values=values)
    seen = [one["name"] for one in data(animate(more, system))["run"]["signals"]]
    assert seen == [one["name"] for one in data(animate(result, system))["run"]["signals"]]
    with pytest.raises(ValueError, match=r"cannot plot 'part\.raw': its values are strings"):
        animate(more, system, signals=["part.raw"])
