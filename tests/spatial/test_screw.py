"""Screws, homogeneous coordinates and inverse inertias (RBDA 2.5, 2.8, 2.15)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import random_inertia, random_transform
from rigidblocks.spatial.spatial import (
    force_from_screw,
    force_screw,
    from_homogeneous,
    homogeneous,
    mcI,
    motion_from_screw,
    motion_screw,
    xlt,
)

RTOL = 1e-13  # a few dozen rounding errors


def test_points_on_the_screw_axis_have_velocities_along_the_axis(rng):
    for _ in range(20):
        v = rng.normal(size=6)
        screw = motion_screw(v)
        at_point = v[3:] + np.cross(v[:3], screw.point)  # RBDA Eq 2.1
        assert_allclose(at_point, screw.pitch * v[:3], atol=RTOL)
        assert_allclose(screw.point @ screw.direction, 0, atol=RTOL)
        assert_allclose(motion_from_screw(screw), v, atol=RTOL)


def test_wrench_equals_a_force_along_its_axis_plus_a_parallel_couple(rng):
    for _ in range(20):
        f = rng.normal(size=6)
        screw = force_screw(f)
        at_point = f[:3] + np.cross(f[3:], screw.point)  # RBDA Eq 2.6
        assert_allclose(at_point, screw.pitch * f[3:], atol=RTOL)
        assert_allclose(force_from_screw(screw), f, atol=RTOL)


def test_screw_pitch_does_not_depend_on_the_frame(rng):
    v, f, X = rng.normal(size=6), rng.normal(size=6), random_transform(rng)
    assert_allclose(motion_screw(X @ v).pitch, motion_screw(v).pitch, rtol=1e-12)
    assert_allclose(force_screw(X.force(f)).pitch, force_screw(f).pitch, rtol=1e-12)
    moved = X.E @ (motion_screw(v).point - X.r)
    there = motion_screw(X @ v)
    assert_allclose(np.cross(moved - there.point, there.direction), 0, atol=RTOL)


def test_helical_joint_screw_has_the_axis_and_pitch_of_the_joint():
    # RBDA Table 4.1: S = [0 0 1 0 0 h]
    screw = motion_screw(xlt([1.0, 2.0, 0.0]).inverse() @ np.array([0, 0, 2.0, 0, 0, 0.6]))
    assert_allclose(screw.direction, [0, 0, 1])
    assert_allclose(screw.point, [1, 2, 0], atol=RTOL)
    assert_allclose([screw.pitch, screw.size], [0.3, 2.0])


def test_translations_and_couples_have_infinite_pitch():
    slide, couple = np.array([0, 0, 0, 0, 3.0, 4.0]), np.array([0, 3.0, 4.0, 0, 0, 0])
    for screw in (motion_screw(slide), force_screw(couple)):
        assert_allclose(screw.direction, [0, 0.6, 0.8])
        assert (screw.pitch, screw.size) == (np.inf, 5.0)
    assert_allclose(motion_from_screw(motion_screw(slide)), slide)
    assert_allclose(force_from_screw(force_screw(couple)), couple)
    with pytest.raises(ValueError, match="has neither axis nor direction"):
        motion_screw(np.zeros(6))


def test_homogeneous_matrix_of_a_composed_transform_is_the_matrix_product(rng):
    X, Y = random_transform(rng), random_transform(rng)
    assert_allclose(homogeneous(X @ Y), homogeneous(X) @ homogeneous(Y), atol=RTOL)
    assert_allclose(homogeneous(X.inverse()), np.linalg.inv(homogeneous(X)), atol=RTOL)
    assert_allclose(from_homogeneous(homogeneous(X)).matrix(), X.matrix(), atol=RTOL)
    assert_allclose(homogeneous(X) @ [*X.r, 1.0], [0, 0, 0, 1], atol=RTOL)


def test_homogeneous_matrices_that_are_not_rigid_motions_are_rejected():
    with pytest.raises(ValueError, match="with the last row 0 0 0 1"):
        from_homogeneous(np.ones((4, 4)))
    with pytest.raises(ValueError, match="must be a rotation"):
        from_homogeneous(np.diag([1.0, 1, -1, 1]))


def test_inverse_rigid_inertia_equals_the_matrix_inverse(rng):
    for _ in range(20):
        inertia = random_inertia(rng).transform_to_parent(random_transform(rng))
        I = inertia.matrix()
        error = np.abs(inertia.inverse() @ I - np.eye(6)).max()
        assert error < 1e-15 * 100 * np.linalg.cond(I)
    at_centre = mcI(2.0, np.zeros(3), np.diag([1.0, 2.0, 4.0])).inverse()
    assert_allclose(at_centre, np.diag([1, 0.5, 0.25, 0.5, 0.5, 0.5]), atol=1e-16)
