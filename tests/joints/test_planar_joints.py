"""Planar joints compared with jcalcp of spatial_v1 (RBDA 2.16)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rigidblocks.robot.joints import (
    PlanarPrismatic,
    PlanarRevolute,
    planar_joint_from_code,
)
from rigidblocks.spatial.planar import crm, xpln

TIGHT = 1e-12  # rounding error of one product
FINITE = 1e-7  # central differences with step 1e-6: rounding errors divided by the step


def equal(actual, expected, atol=TIGHT):
    assert_allclose(actual, expected, rtol=1e-12, atol=atol)


def test_planar_joint_codes_match_spatial_v1():
    assert planar_joint_from_code(1) == PlanarRevolute()
    assert planar_joint_from_code(2) == PlanarPrismatic("x")
    assert planar_joint_from_code(3) == PlanarPrismatic("y")
    with pytest.raises(
        ValueError,
        match=r"1 \(revolute\), 2 \(prismatic along x\) or 3 \(prismatic along y\), not 4",
    ):
        planar_joint_from_code(4)


def test_planar_joint_transforms_and_subspaces_match_jcalcp():
    q, qd = np.array([0.7]), np.array([2.0])
    expected = {1: xpln(0.7, [0, 0]), 2: xpln(0, [0.7, 0]), 3: xpln(0, [0, 0.7])}
    for code, X in expected.items():
        motion = planar_joint_from_code(code).jcalc(q, qd)
        equal(motion.XJ.matrix(), X.matrix(), 0)
        equal(motion.S, np.eye(3)[:, [code - 1]], 0)
        equal(motion.vJ, motion.S @ qd, 0)
        equal(motion.cJ, np.zeros(3), 0)


@pytest.mark.parametrize("code", [1, 2, 3])
def test_planar_joint_velocity_matches_the_transform_derivative(code):
    # d(XJ)/dt = -vJ x XJ (RBDA Eq 2.45)
    joint, q, qd, step = planar_joint_from_code(code), np.array([0.4]), np.array([1.3]), 1e-6
    ahead, behind = (joint.jcalc(q + sign * step * qd, qd).XJ.matrix() for sign in (1, -1))
    XJ, _, vJ, _ = joint.jcalc(q, qd)
    assert_allclose((ahead - behind) / (2 * step), -crm(vJ) @ XJ.matrix(), atol=FINITE)


def test_planar_prismatic_joint_rejects_axes_other_than_x_and_y():
    with pytest.raises(ValueError, match="slides along 'x' or 'y', not along 'z'"):
        PlanarPrismatic("z")
