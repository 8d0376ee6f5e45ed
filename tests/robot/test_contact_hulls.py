"""The points of a contact that suffice, and the mass that a contact feels."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.optimize import nnls

from random_models import random_state
from rigidblocks.algebra.spatial import identity, mcI
from rigidblocks.contact import (
    PointSet,
    body_points,
    effective_mass,
    hull_vertices,
    point_motion,
    wrench,
)
from rigidblocks.dynamics import aba, point_acceleration
from rigidblocks.joint import SixDoF
from rigidblocks.model.model import Model
from rigidblocks.robots import planar2

# hulls


def contact_wrenches(points, normal):
    return np.column_stack([np.cross(points, normal), np.tile(normal, (len(points), 1))])


@pytest.mark.parametrize("seed", range(10))
def test_normals_of_a_face_depend_positively_on_those_of_its_hull_and_on_no_fewer(seed):
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


def test_hull_goes_round_the_normal_and_has_each_vertex_once():
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


def test_hull_of_an_edge_is_its_ends_and_of_a_point_the_point():
    edge = np.array([[0.3, 0.6, 0.9], [0.1, 0.2, 0.3], [0.2, 0.4, 0.6]])
    assert sorted(hull_vertices(edge, (-2.0, 1.0, 0.0))) == [0, 1]
    assert hull_vertices(edge[:1], (0.0, 0.0, 1.0)) == (0,)
    assert len(hull_vertices([edge[0]] * 3, (0.0, 0.0, 1.0))) == 1


# the mass that a contact feels


def test_effective_mass_of_a_free_body_is_the_books(rng):
    # 1 / (n I^-1 n) (RBDA 11.1), the same as the acceleration that a unit force causes
    c, r, n = rng.uniform(-0.3, 0.3, (3, 3))
    n /= np.linalg.norm(n)
    inertia = mcI(2.0, c, np.diag([0.1, 0.2, 0.25]))
    body = Model("body", (-1,), (SixDoF(),), (identity(),), (inertia,))
    q = np.r_[1.0, 0, 0, 0, 0, 0, 0]
    spatial_n = np.r_[np.cross(r, n), n]
    expected = 1 / (spatial_n @ np.linalg.solve(inertia.matrix(), spatial_n))
    assert effective_mass(body, q, 0, r, 3 * n) == pytest.approx(expected, rel=1e-12)


def test_effective_mass_is_the_force_over_the_acceleration_that_it_causes(rng):
    model = replace(planar2(), contact=((), (PointSet([[1.0, 0.0, 0.0]]),)))
    s, r, n = random_state(rng, model), np.array([1.0, 0.0, 0.0]), np.array([0.6, 0.8, 0.0])
    (p,), _, _ = point_motion(model, s.q, s.qd, body_points(model))
    rest = np.zeros(2)
    qdd = aba(
        model, s.q, rest, rest, np.array([np.zeros(6), wrench(n, p)])
    )  # gravity does no work in this plane
    acceleration = n @ point_acceleration(model, s.q, rest, qdd, 1, r)
    assert effective_mass(model, s.q, 1, r, n) == pytest.approx(1 / acceleration, rel=1e-10)
    assert effective_mass(model, s.q, 1, r, (0.0, 0.0, 1.0)) == np.inf
