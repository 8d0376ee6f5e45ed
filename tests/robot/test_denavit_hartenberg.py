"""Chains from Denavit-Hartenberg parameters (RBDA 4.3)."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from maximal import poses
from random_models import random_inertia
from rigidblocks.robot.joints import Cylindrical, Helical, Prismatic, Revolute, Spherical
from rigidblocks.robot.robots import DHRow, dh_chain
from rigidblocks.spatial.spatial import rotx, rotz, xlt

RTOL = 1e-14  # rounding errors of a few rotation products
JOINTS = (Revolute(), Prismatic(), Helical(0.2), Cylindrical())


def random_rows(rng, n):
    return [
        DHRow(a, alpha, d, theta)
        for a, alpha, d, theta in zip(*rng.uniform(-1, 1, (4, n)), strict=True)
    ]


def chain(rng, rows, **options):
    return dh_chain(rows, [random_inertia(rng) for _ in rows], **options)


def scrz(theta, d):
    return (rotz(theta) @ xlt([0.0, 0.0, d])).matrix()


def scrx(alpha, a):
    return (rotx(alpha) @ xlt([a, 0.0, 0.0])).matrix()


def test_denavit_hartenberg_tree_transforms_match_the_formula_of_rbda(rng):
    # revolute joints: xlt([a, 0, d]) rotx(alpha); the first transform follows rotz(theta0)
    # xlt([0, 0, d0])
    rows = [row._replace(theta=0.0) for row in random_rows(rng, 4)]
    robot = chain(rng, rows, base=(0.3, 0.7))
    for i, (X, row) in enumerate(zip(robot.Xtree, rows, strict=True)):
        expected = xlt([row.a, 0.0, row.d]).matrix() @ rotx(row.alpha).matrix()
        if i == 0:
            expected = expected @ rotz(0.7).matrix() @ xlt([0.0, 0.0, 0.3]).matrix()
        assert_allclose(X.matrix(), expected, rtol=0, atol=RTOL)


def test_denavit_hartenberg_transform_is_a_screw_about_x_and_then_a_screw_about_z(rng):
    # for each joint type, the joint motion adds to theta and d
    rows, q = random_rows(rng, 4), rng.uniform(-2, 2, 5)
    robot = chain(rng, rows, joint=JOINTS)
    motion = [(q[0], 0.0), (0.0, q[1]), (q[2], 0.2 * q[2]), (q[3], q[4])]
    X = np.eye(6)
    for pose, row, (theta, d) in zip(poses(robot, q), rows, motion, strict=True):
        X = scrz(row.theta + theta, row.d + d) @ scrx(row.alpha, row.a) @ X
        assert_allclose(pose, X, rtol=0, atol=10 * RTOL)


def test_rotation_matrices_for_denavit_hartenberg_right_angles_are_exact(rng):
    (X,) = chain(rng, [(0.5, np.pi / 2, 0.25, -np.pi)]).Xtree
    assert X.E.tolist() == [[-1, 0, 0], [0, 0, -1], [0, -1, 0]]
    assert X.r.tolist() == [0.5, -0.25, 0]


def test_denavit_hartenberg_joints_are_revolute_by_default(rng):
    robot = chain(rng, random_rows(rng, 3))
    assert robot.joint == (Revolute(),) * 3
    assert robot.parent == (-1, 0, 1)


@pytest.mark.parametrize(
    "joint", [Revolute((1, 0, 0)), Spherical(), Prismatic((0, 0, -1))], ids=str
)
def test_denavit_hartenberg_joint_with_another_axis_than_z_is_rejected(joint, rng):
    message = (
        f"joint 1 of 'dh_chain' is {joint}; Denavit-Hartenberg parameters need a joint with the "
        "axis z"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        chain(rng, random_rows(rng, 2), joint=(Revolute(), joint))


def test_denavit_hartenberg_table_of_wrong_shape_is_rejected(rng):
    with pytest.raises(
        ValueError,
        match=re.escape("row 0 of 'dh_chain' is (1, 2, 3); it needs the 4 numbers a, alpha, d,"),
    ):
        chain(rng, [(1, 2, 3)])
    with pytest.raises(
        ValueError, match="every list of model 'dh_chain' needs one entry for each body"
    ):
        chain(rng, random_rows(rng, 3), joint=(Revolute(),))
