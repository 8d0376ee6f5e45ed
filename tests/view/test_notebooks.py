"""Notebook output: tables, pages and progress.

Models, blocks and results have tables, robots and runs have pages, and runs show their progress.
No output contains the full arrays.
"""

import io
import re

import numpy as np
import pytest

from rigidblocks import RobotPlant, System, animate, linearize, load_model, planar2, prepare, show
from rigidblocks.cosim import simulate as course
from rigidblocks.robot.robots import auto_tree, four_bar, quadruped
from rigidblocks.robot_description.builder import RobotBuilder
from urdf_text import ARM


@pytest.fixture(scope="module")
def swing():
    system = System()
    system.add("robot", RobotPlant(planar2(), qd0=[1.0, -2.0]), start={"tau": [0.0, 0.0]})
    run = prepare(system, 0.01, form="numpy")
    return system, run, run.simulate(0.05, progress=False)


@pytest.fixture
def arm(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(ARM)
    return load_model(path)


def test_show_and_animate_methods_write_the_pages_of_the_functions_show_and_animate(
    swing, arm, tmp_path
):
    system, _, result = swing
    for robot in (planar2(), four_bar(), system, arm):
        assert robot.show().html == show(robot).html
    assert planar2().show([0.3, 0.1]).html == show(planar2(), [0.3, 0.1]).html
    path = tmp_path / "run.html"
    made = result.animate(system, path, ["robot.q"], ["body2"])
    assert made.html == animate(result, system, signals=["robot.q"], paths=["body2"]).html
    assert path.read_text() == made.html


@pytest.mark.parametrize("model", [planar2(), quadruped(), auto_tree(3)])
def test_notebook_table_of_a_model_has_a_row_for_each_body(model):
    html = model._repr_html_()
    assert html.count("<tr>") == 1 + model.nb
    assert all(f"<td>{name}</td>" in html for name in (*model.body_names, *model.joint_names))


def test_notebook_table_of_a_block_lists_its_ports(arm):
    html = RobotPlant(planar2())._repr_html_()
    assert "<td>output</td><td>qd</td><td>(2,)</td><td>rad/s</td>" in html
    assert "<td>parameter</td>" in html
    assert arm._repr_html_().startswith(arm.model._repr_html_())


def test_repr_of_models_blocks_and_runs_is_one_line_without_arrays(swing, arm):
    system, run, _ = swing
    things = (planar2(), four_bar(), arm, RobotPlant(planar2()), system, run)
    for thing in (*things, linearize(RobotPlant(planar2())), RobotBuilder("new")):
        assert re.fullmatch(r"<[^\n]{5,200}>", repr(thing))
        assert "array(" not in repr(thing)
    assert repr(run) == "<Run of robot, dt = 0.01 s>"


class Cell(io.StringIO):
    """Output stream of a notebook cell."""

    __module__ = "ipykernel.iostream"


@pytest.mark.parametrize(("stream", "is_shown"), [(Cell, True), (io.StringIO, False)])
def test_notebook_shows_the_progress_of_a_run(stream, is_shown, swing, monkeypatch):
    monkeypatch.setattr(course.sys, "stderr", stream())
    monkeypatch.setattr(course, "DELAY", 0.0)
    _, run, before = swing
    result = run.simulate(0.05)
    assert ("step" in course.sys.stderr.getvalue()) is is_shown
    np.testing.assert_array_equal(result.values, before.values)
