"""Compliant contact on a height field and on a mesh.

Native FMUs equal the run without an FMU. The depth of a ball at rest between two slopes has a
closed form.
"""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose

from contact_runs import G, as_fmu, free, without_fmu
from rigidblocks import RobotPlant, SoftContactPlant, box_inertia, sphere_inertia
from rigidblocks.contact import HeightField, TriangleMesh
from rigidblocks.robot.shapes import Box, Sphere

pytestmark = pytest.mark.slow  # each compiles an FMU
LEFT, RIGHT = 0.5, 0.3  # angles of the slopes [rad]
RADIUS, SIDES, K, D, MASS = 0.1, (0.3, 0.2, 0.1), 1e4, 300.0, 2.0
CORNERS = np.array([[x, y, -np.tan(LEFT) * x if x < 0 else np.tan(RIGHT) * x]
                    for x in (-2.0, 0.0, 2.0) for y in (-2.0, 2.0)])  # fmt: skip
GROUNDS = {
    "field": HeightField(CORNERS[:, 2].reshape(3, 2), (2.0, 4.0), (-2.0, -2.0)),
    "mesh": TriangleMesh(CORNERS, [(0, 2, 3), (0, 3, 1), (2, 4, 5), (2, 5, 3)]),
}
NAMES = ("normal_force", "depth", "f_contact", "left_out", "q", "qd")


@cache
def valley(kind):
    """Return a frictionless ball above the valley, and a box that tumbles down."""
    bodies = (
        (Sphere(RADIUS), sphere_inertia(RADIUS, mass=MASS)),
        (Box(SIDES), box_inertia(SIDES, mass=MASS)),
    )
    q0 = [1, 0, 0, 0, 0.0, -1.0, 0.13, 0.9, 0.3, 0.1, 0.3, 1.0, 1.0, 0.6]
    qd0 = [*(0.0,) * 6, 1.0, -2.0, 0.5, 0.0, 0.0, 0.0]
    robot = RobotPlant(free(*bodies), q0, qd0)
    return SoftContactPlant(robot, K, D, ground=(GROUNDS[kind],))


@cache
def of_memory(kind):
    return without_fmu(valley(kind), NAMES, 2000)


def loads():
    """Return the normal forces [N] of the two slopes on the resting ball."""
    return MASS * G * np.sin([RIGHT, LEFT]) / np.sin(LEFT + RIGHT)


@pytest.mark.parametrize("kind", GROUNDS)
def test_penetration_depth_of_a_ball_between_two_slopes_equals_its_closed_form(kind):
    rows = of_memory(kind)
    q, deep = rows["q"][-1, :7], loads() / K
    normals = np.array([[np.sin(LEFT), np.cos(LEFT)], [-np.sin(RIGHT), np.cos(RIGHT)]])
    assert_allclose(q[[4, 6]], np.linalg.solve(normals, RADIUS - deep), atol=1e-9)
    assert_allclose(rows["depth"][-1, 0], deep.max(), rtol=1e-6)
    assert_allclose(rows["normal_force"][-1, 0], np.linalg.norm(loads() @ normals), rtol=1e-6)
    assert not rows["left_out"].any()


@pytest.mark.parametrize("kind", GROUNDS)
@pytest.mark.parametrize("fmi", [2, 3])
def test_compliant_contact_fmu_on_two_slopes_matches_the_results_of_its_block(tmp_path, kind, fmi):
    found, expected = as_fmu(valley(kind), NAMES, 600, fmi, tmp_path), of_memory(kind)
    assert expected["depth"][:600].any(axis=0).all()  # both bodies touch the ground
    for name in NAMES:
        assert_allclose(found[name], expected[name][:601, -1], atol=1e-12)
