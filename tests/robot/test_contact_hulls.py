"""Convex hulls of contact points, and the effective mass of a contact."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.optimize import nnls

from random_models import random_state
from rigidblocks.contact import (
    PointSet,
    body_points,
    effective_mass,
    hull_vertices,
    point_motion,
    wrench,
)
from rigidblocks.dynamics import aba, point_acceleration
from rigidblocks.robot.joints import SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.robot.robots import planar2
from rigidblocks.spatial.spatial import identity, mcI

# hulls


def contact_wrenches(points, normal):
    return np.column_stack([np.cross(points, normal), np.tile(normal, (len(points), 1))])


@pytest.mark.parametrize("seed", range(10))
def test_contact_wrench_is_a_positive_combination_of_the_wrenches_at_hull_vertices(seed):
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=3)
    normal /= np.linalg.norm(normal)
    in_plane = np.linalg.svd(normal[None, :])[2][1:]
    points = rng.uniform(-1, 1, (12, 2)) @ in_plane + 0.3 * normal
    hull = hull_vertices(points, normal)
    wrenches = contact_wrenches(points, normal)
    for k in range(12):
        others = [j for j in hull if j != k]
        residual = nnls(wrenches[others].T, wrenches[k])[1]
        assert (residual > 1e-6) == (k in hull), k


def test_contact_hull_vertices_are_unique_and_counterclockwise_about_the_normal():
    square = np.array(
        [[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1], [0.5, 0.5, 1], [0.5, 0, 1], [1, 1, 1]],
        dtype=float,
    )
    hull = hull_vertices(square, (0.0, 0.0, 3.0))
    assert {tuple(square[k]) for k in hull} == {(0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)}
    assert len(hull) == 4
    p = square[list(hull), :2]
    a, b = np.roll(p, -1, axis=0) - p, np.roll(p, -2, axis=0) - np.roll(p, -1, axis=0)
    assert np.all(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0] > 0)
    from_below = square[list(hull_vertices(square, (0.0, 0.0, -1.0))), :2]
    assert_array_equal(from_below[np.lexsort(from_below.T)], p[np.lexsort(p.T)])


def test_contact_hull_of_collinear_points_consists_of_the_two_end_points():
    edge = np.array([[0.3, 0.6, 0.9], [0.1, 0.2, 0.3], [0.2, 0.4, 0.6]])
    assert sorted(hull_vertices(edge, (-2.0, 1.0, 0.0))) == [0, 1]
    assert hull_vertices(edge[:1], (0.0, 0.0, 1.0)) == (0,)
    assert len(hull_vertices([edge[0]] * 3, (0.0, 0.0, 1.0))) == 1


# effective mass


def test_effective_mass_of_a_free_body_equals_the_formula_of_rbda(rng):
    # 1 / (n I^-1 n) (RBDA 11.1); n I^-1 n is the acceleration of a unit force
    c, r, n = rng.uniform(-0.3, 0.3, (3, 3))
    n /= np.linalg.norm(n)
    inertia = mcI(2.0, c, np.diag([0.1, 0.2, 0.25]))
    body = Model("body", (-1,), (SixDoF(),), (identity(),), (inertia,))
    q = np.r_[1.0, 0, 0, 0, 0, 0, 0]
    spatial_n = np.r_[np.cross(r, n), n]
    expected = 1 / (spatial_n @ np.linalg.solve(inertia.matrix(), spatial_n))
    assert effective_mass(body, q, 0, r, 3 * n) == pytest.approx(expected, rel=1e-12)


def test_effective_mass_equals_contact_force_divided_by_acceleration(rng):
    model = replace(planar2(), contact=((), (PointSet([[1.0, 0.0, 0.0]]),)))
    s, r, n = random_state(rng, model), np.array([1.0, 0.0, 0.0]), np.array([0.6, 0.8, 0.0])
    (p,), _, _ = point_motion(model, s.q, s.qd, body_points(model))
    rest = np.zeros(2)
    qdd = aba(
        model, s.q, rest, rest, np.array([np.zeros(6), wrench(n, p)])
    )  # gravity is orthogonal to the plane of motion
    acceleration = n @ point_acceleration(model, s.q, rest, qdd, 1, r)
    assert effective_mass(model, s.q, 1, r, n) == pytest.approx(1 / acceleration, rel=1e-10)
    assert effective_mass(model, s.q, 1, r, (0.0, 0.0, 1.0)) == np.inf
