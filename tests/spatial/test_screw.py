"""Screws, homogeneous coordinates and inverse inertias (RBDA 2.5, 2.8, 2.15)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from random_models import random_inertia, random_transform
from rigidblocks.algebra.screw import (
    force_screw,
    homogeneous,
    motion_screw,
    of_force_screw,
    of_homogeneous,
    of_motion_screw,
)
from rigidblocks.algebra.spatial import mcI, xlt

RTOL = 1e-13  # a few dozen roundings


def test_points_of_the_axis_only_slide_along_it(rng):
    for _ in range(20):
        v = rng.normal(size=6)
        screw = motion_screw(v)
        at_point = v[3:] + np.cross(v[:3], screw.point)  # RBDA Eq 2.1
        assert_allclose(at_point, screw.pitch * v[:3], atol=RTOL)
        assert_allclose(screw.point @ screw.direction, 0, atol=RTOL)
        assert_allclose(of_motion_screw(screw), v, atol=RTOL)


def test_wrench_is_a_force_on_its_axis_and_a_couple_about_it(rng):
    for _ in range(20):
        f = rng.normal(size=6)
        screw = force_screw(f)
        at_point = f[:3] + np.cross(f[3:], screw.point)  # RBDA Eq 2.6
        assert_allclose(at_point, screw.pitch * f[3:], atol=RTOL)
        assert_allclose(of_force_screw(screw), f, atol=RTOL)


def test_pitch_does_not_depend_on_the_frame(rng):
    v, f, X = rng.normal(size=6), rng.normal(size=6), random_transform(rng)
    assert_allclose(motion_screw(X @ v).pitch, motion_screw(v).pitch, rtol=1e-12)
    assert_allclose(force_screw(X.force(f)).pitch, force_screw(f).pitch, rtol=1e-12)
    moved = X.E @ (motion_screw(v).point - X.r)
    there = motion_screw(X @ v)
    assert_allclose(np.cross(moved - there.point, there.direction), 0, atol=RTOL)


def test_helical_joint_of_the_book_has_its_pitch():
    # RBDA Table 4.1: S = [0 0 1 0 0 h]
    screw = motion_screw(xlt([1.0, 2.0, 0.0]).inverse() @ np.array([0, 0, 2.0, 0, 0, 0.6]))
    assert_allclose(screw.direction, [0, 0, 1])
    assert_allclose(screw.point, [1, 2, 0], atol=RTOL)
    assert_allclose([screw.pitch, screw.size], [0.3, 2.0])


def test_free_vectors_have_no_axis():
    slide, couple = np.array([0, 0, 0, 0, 3.0, 4.0]), np.array([0, 3.0, 4.0, 0, 0, 0])
    for screw in (motion_screw(slide), force_screw(couple)):
        assert_allclose(screw.direction, [0, 0.6, 0.8])
        assert (screw.pitch, screw.size) == (np.inf, 5.0)
    assert_allclose(of_motion_screw(motion_screw(slide)), slide)
    assert_allclose(of_force_screw(force_screw(couple)), couple)
    with pytest.raises(ValueError, match="has neither axis nor direction"):
        motion_screw(np.zeros(6))


def test_homogeneous_matrices_multiply_as_transforms_do(rng):
    X, Y = random_transform(rng), random_transform(rng)
    assert_allclose(homogeneous(X @ Y), homogeneous(X) @ homogeneous(Y), atol=RTOL)
    assert_allclose(homogeneous(X.inverse()), np.linalg.inv(homogeneous(X)), atol=RTOL)
    assert_allclose(of_homogeneous(homogeneous(X)).matrix(), X.matrix(), atol=RTOL)
    assert_allclose(homogeneous(X) @ [*X.r, 1.0], [0, 0, 0, 1], atol=RTOL)


def test_matrices_of_no_rigid_motion_are_refused():
    with pytest.raises(ValueError, match="has the last row 0 0 0 1"):
        of_homogeneous(np.ones((4, 4)))
    with pytest.raises(ValueError, match="must be a rotation"):
        of_homogeneous(np.diag([1.0, 1, -1, 1]))


def test_inverse_inertia_is_the_inverse_and_its_blocks_are_those_of_the_book(rng):
    for _ in range(20):
        inertia = random_inertia(rng).to_parent(random_transform(rng))
        I = inertia.matrix()
        error = np.abs(inertia.inverse() @ I - np.eye(6)).max()
        assert error < 1e-15 * 100 * np.linalg.cond(I)
    at_centre = mcI(2.0, np.zeros(3), np.diag([1.0, 2.0, 4.0])).inverse()
    assert_allclose(at_centre, np.diag([1, 0.5, 0.25, 0.5, 0.5, 0.5]), atol=1e-16)
