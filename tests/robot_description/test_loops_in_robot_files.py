"""Loops in robot files: rounded coordinates and infinitesimal mechanisms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks.dynamics.loops import loop_constraints
from rigidblocks.dynamics.loops.diagnostics import infinitesimal_mechanisms
from rigidblocks.robot.robots import bennett, four_bar, sarrus, slider_crank, stewart_platform
from rigidblocks.robot_description.load import load_model

INERTIAL = """<inertial><mass>2</mass>
<inertia><ixx>0.01</ixx><iyy>0.02</iyy><izz>0.03</izz></inertia></inertial>"""
Z = "<axis><xyz>0 0 1</xyz></axis>"


def link(name, pose):
    return f"<link name='{name}'><pose>{pose}</pose>{INERTIAL}</link>"


def joint(name, kind, parent, child, inside=Z):
    ends = f"<parent>{parent}</parent><child>{child}</child>"
    return f"<joint name='{name}' type='{kind}'>{ends}{inside}</joint>"


@pytest.fixture
def read(tmp_path):
    def read_parts(*parts):
        path = tmp_path / "robot.sdf"
        path.write_text(f"<sdf version='1.7'>\n<model name='r'>\n{''.join(parts)}</model></sdf>")
        return load_model(path)

    return read_parts


def triangle(slide):
    """Return two rods with pivots 1 m apart, a slider between the rods, and a pendulum."""
    return (
        link("a", "0 0 0 0 0 0"),
        link("b", "1 0 0 0 0 0"),
        link("c", "0 1 0 0 0 0"),
        joint("left", "revolute", "world", "a"),
        joint("right", "revolute", "world", "b"),
        joint("pendulum", "revolute", "a", "c"),
        joint("slider", "prismatic", "a", "b", f"<axis><xyz>{slide}</xyz></axis>"),
    )


def test_joints_of_an_infinitesimal_mechanism_are_fixed(read):
    robot = read(*triangle("0 1 0"))
    assert robot.model.joint_names == ("pendulum",)
    assert not robot.model.loops
    assert "the loop of 'slider' is an infinitesimal mechanism; its joints" in robot.warnings[0]


def test_rigid_triangle_of_links_is_not_treated_as_an_infinitesimal_mechanism(read):
    robot = read(*triangle("1 0 0"))
    assert robot.model.loop_names == ("slider",)
    assert not robot.warnings


@pytest.mark.parametrize("linkage", [four_bar, slider_crank, bennett, sarrus, stewart_platform])
def test_movable_linkages_are_not_infinitesimal_mechanisms(linkage):
    mechanism = linkage()
    assert not infinitesimal_mechanisms(mechanism.model, mechanism.q0)


def test_joint_axes_that_are_parallel_up_to_rounding_become_exactly_parallel(read):
    """A parallelogram of 1 m rods closes at each angle t of the cranks and -t of the coupler.

    The file writes the poses of two rods with five digits.
    """
    upright, flat = "1.5708 0 0", "0 0 0"
    axis = {upright: "<axis><xyz>0 0 1</xyz></axis>", flat: "<axis><xyz>0 -1 0</xyz></axis>"}
    robot = read(
        link("crank", f"0 0 0 {upright}"),
        link("rod", f"0 0 1 {flat}"),
        link("rocker", f"1 0 0 {upright}"),
        joint("a", "revolute", "world", "crank", axis[upright]),
        joint("b", "revolute", "crank", "rod", axis[flat]),
        joint("c", "revolute", "world", "rocker", axis[upright]),
        joint("d", "revolute", "rod", "rocker", f"<pose>0 1 0 0 0 0</pose>{axis[upright]}"),
    )
    model = robot.model
    for t in (0.0, 0.3, 1.2):
        q = np.zeros(model.nv)
        q[[model.joint_names.index(name) for name in ("a", "b", "c")]] = t, -t, t
        assert_allclose(
            loop_constraints(model, q, 0.0 * q).delta, 0.0, atol=1e-11
        )  # the rods are shorter by 7e-12 m
