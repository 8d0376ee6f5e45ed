"""Drawings of robots in documents: links have their poses, and the files are small."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial import ConvexHull

from moved_models import crank
from rigidblocks import FloatingBasePlant, RobotPlant, auto_tree, planar2
from rigidblocks.robot.robots import four_bar, quadruped
from rigidblocks.spatial.spatial import xlt
from rigidblocks.view.robot_page import drawn_robots
from rigidblocks.view.video_export import AXES, SIZE, _outline, drawing

SVG = "{http://www.w3.org/2000/svg}"
ROBOTS = {
    "planar2": RobotPlant(planar2(), [0.4, -0.7]),
    "tree of any joints": auto_tree(9, 1.5, skew=0.7),
    "four-bar": four_bar(),
    "crank that a function of time turns": RobotPlant(crank(), [-0.3], [0.5]),
    "quadruped": FloatingBasePlant(quadruped(), position0=(0, 0, 0.35), q0=[0, 0.7, -1.4] * 4),
}


def draw_svg(robot):
    return [one for one, _ in drawn_robots(robot, None)]


def corners(polygon):
    return np.array([pair.split(",") for pair in polygon.get("points").split()], dtype=float)


@pytest.mark.parametrize("name", ROBOTS)
def test_every_link_is_drawn_as_a_convex_outline_inside_the_picture(name):
    robots = draw_svg(ROBOTS[name])
    text = drawing(robots)
    outlines = [corners(one) for one in ET.fromstring(text).iter(f"{SVG}polygon")]
    assert len(outlines) == sum(s.layer == "links" for r in robots for s in r.solids)
    for at in outlines:
        assert np.all((at >= 0) & (at <= SIZE))
        x, y = at.T
        area = abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2
        rounding = 0.1 * np.ptp(at, axis=0).sum()  # corners are rounded to tenths of a pixel
        assert_allclose(area, ConvexHull(at, qhull_options="QJ").volume, rtol=0, atol=rounding)
    every = np.concatenate(outlines)
    assert max(np.ptp(every, axis=0) / SIZE) > 0.5  # the robot fills the picture
    assert len(text) < 20_000


@pytest.mark.parametrize("seed", range(5))
def test_simplified_link_outline_deviates_from_the_convex_hull_by_less_than_the_tolerance(seed):
    points = np.random.default_rng(seed).normal(300, [80, 20], (500, 2)).round(1)
    hull = ConvexHull(points)
    outline = corners(ET.fromstring(_outline(points, (0.5, 0.5, 0.5))))
    # each omitted triangle at an edge of length L turns by less than pi/64: height < L/2 tan(pi/64)
    edges = np.linalg.norm(outline - np.roll(outline, 1, axis=0), axis=1)
    missing = hull.volume - ConvexHull(outline).volume
    assert -1e-9 <= missing <= np.sum(edges**2) / 4 * np.tan(np.pi / 64)
    assert np.all(hull.equations[:, :2] @ outline.T + hull.equations[:, 2:] < 1e-3)


def test_drawing_shows_the_joints_of_a_small_robot_with_their_names():
    robots = draw_svg(ROBOTS["planar2"])
    picture = ET.fromstring(drawing(robots))
    assert [one.text for one in picture.iter(f"{SVG}text")] == ["x", "y", "z", "joint1", "joint2"]
    base, elbow = (
        np.array([one.get("cx"), one.get("cy")], dtype=float)
        for one in picture.iter(f"{SVG}circle")
    )
    x_axis = next(picture.iter(f"{SVG}line"))
    ahead = np.array([float(x_axis.get(f"{c}2")) - float(x_axis.get(f"{c}1")) for c in "xy"])
    assert ahead @ (elbow - base) > 0  # link 1 is at 0.4 rad from x
    many = drawing(draw_svg(auto_tree(13)))
    assert "joint" not in many
    assert "<polygon" in many


@pytest.mark.parametrize("apart", [0.0, 1e-3, 0.05])
def test_joint_names_at_equal_positions_do_not_overlap(apart):
    n = 12
    tree = auto_tree(n)
    names = tuple(f"a_long_name_of_joint_{k}" for k in range(n))
    model = replace(tree, Xtree=(xlt([apart, 0.0, 0.0]),) * n, joint_names=names)
    picture = ET.fromstring(drawing(draw_svg(model)))
    texts = list(picture.iter(f"{SVG}text"))
    assert [one.text for one in texts] == ["x", "y", "z", *names]
    x, y = np.array([[one.get("x"), one.get("y")] for one in texts], dtype=float).T
    assert np.all((y >= 12) & (y <= SIZE[1]))
    right = x + 6.5 * np.array([len(one.text) for one in texts])
    for i, k in combinations(range(len(texts)), 2):
        letters = k < len(AXES)  # axis letters are at the ends of their axes and may overlap
        assert letters or abs(y[i] - y[k]) >= 12 or right[i] <= x[k] or right[k] <= x[i]


def test_joint_names_are_escaped_in_the_svg():
    model = replace(planar2(), joint_names=("<b>", "a & b"))
    texts = [one.text for one in ET.fromstring(drawing(draw_svg(model))).iter(f"{SVG}text")]
    assert texts[3:] == ["<b>", "a & b"]


def test_robot_drawing_is_reproducible():
    robots = draw_svg(ROBOTS["quadruped"])
    assert drawing(robots) == drawing(robots)
    assert not re.search(r"nan|inf", drawing(robots))


def test_model_without_bodies_or_with_too_many_bodies_is_not_drawn():
    assert drawing([]) == ""
    assert drawing(draw_svg(auto_tree(121))) == ""
