"""Contact geometry: gaps, normals and contact points of shapes.

A gap is a distance, its gradient is the normal, and contact points move with their bodies.
"""

import re
from dataclasses import replace

import casadi as ca
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import RegularGridInterpolator

from random_models import random_state, random_transform, random_tree
from rigidblocks.contact import (
    Box,
    ConvexHull,
    Cylinder,
    HeightField,
    Plane,
    PointSet,
    Sphere,
    body_points,
    contact,
    hull_vertices,
    point_motion,
)
from rigidblocks.dynamics import point_position
from rigidblocks.dynamics.floating_base import floating_base
from rigidblocks.dynamics.model_reduction import align_joint_axes
from rigidblocks.robot.configuration import rate
from rigidblocks.robot.joints import Helical, Prismatic, Revolute, SixDoF
from rigidblocks.robot.robots import auto_tree, planar2
from rigidblocks.tracing.trace import trace

ATOL = 1e-12  # rounding errors of a few operations on values of about 1
STEP = 1e-6  # step of central differences; errors: STEP^2, and rounding errors divided by STEP
DIFFERENCE = 1e-8

LARGE = HeightField(np.zeros((25, 41)), (1, 1))
HEIGHTS = np.random.default_rng(3).uniform(-0.3, 0.3, (4, 6))
FIRST, SPACING = (-1.5, -1.25), (1.0, 0.5)
PLACED = random_transform(np.random.default_rng(7))
EXACT = {
    "plane": Plane((0.3, -0.2, 2.0), (0.1, 0.0, -0.4)),
    "sphere": Sphere(0.8, (0.2, -0.1, 0.3)),
    "box": Box((1.0, 0.6, 1.5), PLACED),
}
SURFACES = EXACT | {"field": HeightField(HEIGHTS, SPACING, FIRST)}


@pytest.fixture
def points(rng):
    return rng.uniform(-1.2, 1.2, (400, 3))


@pytest.mark.parametrize("surface", EXACT.values(), ids=EXACT)
def test_gap_to_a_surface_is_a_distance_and_its_gradient_is_the_unit_normal(surface, points):
    gap, n = surface.gap(points)
    assert_allclose((n * n).sum(-1), 1, rtol=ATOL)
    for k in range(3):
        e = STEP * np.eye(3)[k]
        slope = (surface.gap(points + e)[0] - surface.gap(points - e)[0]) / (2 * STEP)
        apart = np.abs(slope - n[:, k]) > DIFFERENCE
        assert (
            np.count_nonzero(apart) < 3
        )  # a difference may cross the edge between regions of two nearest faces
    assert_allclose(surface.gap(points - gap[:, None] * n)[0], 0, atol=ATOL)


def test_gap_of_a_box_is_the_distance_to_its_nearest_point(points):
    # outside: distance to the point clipped to the box; inside: distance to the nearest face
    box, half = EXACT["box"], np.array([0.5, 0.3, 0.75])
    points = PLACED.r + 0.7 * points
    local = (points - PLACED.r) @ PLACED.E.T
    outside = np.linalg.norm(local - np.clip(local, -half, half), axis=1)
    inside = np.min(half - np.abs(local), axis=1)
    assert np.count_nonzero(inside > 0) > 20
    assert_allclose(box.gap(points)[0], np.where(inside > 0, -inside, outside), atol=ATOL)


def test_height_field_is_bilinear_between_its_nodes_and_constant_outside(points):
    grid = [FIRST[k] + SPACING[k] * np.arange(HEIGHTS.shape[k]) for k in range(2)]
    h = RegularGridInterpolator(grid, HEIGHTS)
    points = np.vstack([points * [2.0, 2.0, 1.0], [[a, b, 0.1] for a in grid[0] for b in grid[1]]])
    gap, n = SURFACES["field"].gap(points)
    clipped = np.clip(points[:, :2], [g[0] for g in grid], [g[-1] for g in grid])
    assert_allclose((n * n).sum(-1), 1, rtol=ATOL)
    assert_allclose(gap, (points[:, 2] - h(clipped)) * n[:, 2], atol=ATOL)


def test_height_field_normal_matches_the_slope_of_the_heights(points):
    field = SURFACES["field"]
    n = field.gap(points)[1]

    def height(p):
        gap, normal = field.gap(p)
        return p[:, 2] - gap / normal[:, 2]

    for k in range(2):
        e = STEP * np.eye(3)[k]
        slope = (height(points + e) - height(points - e)) / (2 * STEP)
        assert (
            np.count_nonzero(np.abs(-n[:, k] / n[:, 2] - slope) > DIFFERENCE) < 3
        )  # a difference may cross the edge of a cell


def test_height_field_with_constant_slope_has_the_gaps_and_normals_of_a_plane(points):
    x, y = np.meshgrid(np.arange(5.0), np.arange(4.0), indexing="ij")
    field = HeightField(0.2 * x - 0.3 * y + 0.1, (1.0, 1.0), (-2.0, -1.5))
    plane = Plane((-0.2, 0.3, 1.0), (-2.0, -1.5, 0.1))
    for ours, expected in zip(field.gap(points), plane.gap(points), strict=True):
        assert_allclose(ours, expected, atol=ATOL)


@pytest.mark.parametrize("surface", SURFACES.values(), ids=SURFACES)
def test_traced_and_numpy_values_of_gaps_agree_and_gap_derivatives_are_finite(surface, points):
    # includes the centres and faces of the shapes, where a formula could divide by zero
    special = [[0.2, -0.1, 0.3], PLACED.r, [0.0, 0.0, 0.0], [-1.5, -1.25, 0.0], [1.5, 1.25, 0.0]]
    points = np.vstack(
        [points[:50], special, PLACED.r + 0.5 * PLACED.E[0], PLACED.r + 0.3 * PLACED.E[1]]
    )
    graph = trace(
        "gap", lambda p: dict(zip(("gap", "n"), surface.gap(p), strict=True)), {"p": points.shape}
    )
    gap, n = surface.gap(points)
    assert_allclose(graph(points.ravel()), np.r_[gap, n.ravel()], atol=ATOL)
    memory = ca.SX.sym("p", points.size)
    slopes = ca.Function("slopes", [memory], [ca.jacobian(graph.function(memory), memory)])
    assert np.all(np.isfinite(np.array(slopes(points.ravel()))))
    one = trace("gap", lambda p: dict(zip(("gap", "n"), surface.gap(p), strict=True)), {"p": (3,)})
    assert_allclose(one(points[0]), np.r_[gap[0], n[0]], atol=ATOL)
    assert_allclose(surface.gap(points[0])[1], n[0], atol=ATOL)


def test_gap_normals_at_degenerate_positions_are_finite_unit_vectors():
    for surface, p in (
        (Sphere(0.5), np.zeros(3)),
        (Sphere(0.5), np.array([1e-200, 0.0, 0.0])),
        (Box((1.0, 1.0, 1.0)), np.zeros(3)),
        (Box((1.0, 1.0, 1.0)), np.array([0.5, 0.5, 0.5])),
        (Box((1.0, 1.0, 1.0)), np.array([0.5, 0.0, 0.0])),
    ):
        gap, n = surface.gap(p)
        assert np.isfinite(gap)
        assert_allclose(n @ n, 1, rtol=ATOL)
    assert Box((1.0, 2.0, 3.0)).gap(np.zeros(3))[0] == -0.5
    assert Sphere(0.5).gap(np.zeros(3))[0] == pytest.approx(-0.5, abs=1e-11)


def test_contact_of_two_spheres_does_not_depend_on_their_order(rng):
    a, b = rng.uniform(-1, 1, (2, 100, 3))
    r_a, r_b = 0.7, 0.4
    for k in range(100):
        on_b, on_a = contact(Sphere(r_a, a[k]), b[k], r_b), contact(Sphere(r_b, b[k]), a[k], r_a)
        assert_allclose(on_b.depth, r_a + r_b - np.linalg.norm(a[k] - b[k]), atol=ATOL)
        assert_allclose(on_b.depth, on_a.depth, atol=ATOL)
        assert_allclose(on_b.normal, -on_a.normal, atol=ATOL)
        # the deepest points of both spheres have the distance of the penetration depth
        assert_allclose(on_b.point, on_a.point - on_b.depth * on_b.normal, atol=ATOL)


@pytest.mark.parametrize("surface", EXACT.values(), ids=EXACT)
def test_gap_of_a_surface_at_the_deepest_contact_point_is_minus_the_penetration_depth(
    surface, points
):
    touching = contact(surface, points, 0.05)
    outside = (
        touching.depth < 0
    )  # inside, the nearest face of the deepest point may differ from that of the centre
    gap, _ = surface.gap(touching.point)
    assert_allclose(gap[outside], -touching.depth[outside], atol=ATOL)


def test_mirrored_surface_has_mirrored_gaps_and_normals(points):
    mirror = np.array([-1.0, 1.0, 1.0])
    pairs = (
        (EXACT["plane"], Plane((-0.3, -0.2, 2.0), (-0.1, 0.0, -0.4))),
        (EXACT["sphere"], Sphere(0.8, (-0.2, -0.1, 0.3))),
        (Box((1.0, 0.6, 1.5)), Box((1.0, 0.6, 1.5))),
        (SURFACES["field"], HeightField(HEIGHTS[::-1], SPACING, FIRST)),
    )
    for surface, mirrored in pairs:
        gap, n = surface.gap(points)
        mirrored_gap, mirrored_n = mirrored.gap(points * mirror)
        assert_allclose(mirrored_gap, gap, atol=ATOL)
        assert_allclose(mirrored_n, n * mirror, atol=ATOL)


# contact points of shapes


def test_contact_points_of_boxes_and_cylinders_are_on_their_surfaces():
    corners = Box((1.0, 0.6, 1.5), PLACED).points
    assert corners.shape == (8, 3)
    assert_allclose(EXACT["box"].gap(corners)[0], 0, atol=ATOL)
    assert_allclose(np.ptp((corners - PLACED.r) @ PLACED.E.T, axis=0), [1.0, 0.6, 1.5], rtol=ATOL)
    rim = (Cylinder(0.3, 0.8, 12, PLACED).points - PLACED.r) @ PLACED.E.T
    assert rim.shape == (24, 3)
    assert_allclose(np.hypot(rim[:, 0], rim[:, 1]), 0.3, rtol=ATOL)
    assert_allclose(np.abs(rim[:, 2]), 0.4, rtol=ATOL)
    assert_allclose(rim.mean(axis=0), 0, atol=ATOL)


@pytest.mark.parametrize(
    "shape",
    [
        Sphere(0.2, (0.1, 0.2, 0.3)),
        Box((1.0, 2.0, 3.0), PLACED),
        Cylinder(0.3, 1.0, 5, PLACED),
        PointSet([[1.0, 2, 3]]),
    ],
    ids=["sphere", "box", "cylinder", "points"],
)
def test_contact_points_of_a_moved_shape_are_the_moved_contact_points(shape, rng):
    X = random_transform(rng)
    moved = shape.transform(X)
    assert type(moved) is type(shape)
    assert moved.reach == shape.reach
    assert_allclose(moved.points, (shape.points - X.r) @ X.E.T, atol=ATOL)


def touching(model):
    """Return the model with a contact shape on each body."""
    shapes = [
        (Sphere(0.1, (0.1, 0.2, 0.3)), PointSet([[0.3, 0.1, 0.0]])),
        (Box((0.1, 0.2, 0.3), PLACED),),
    ]
    return replace(model, contact=tuple(shapes[i % 2] for i in range(model.nb)))


def test_contact_point_velocity_is_the_time_derivative_of_its_position(model, rng):
    # finite differences are valid only for joints whose qd is the derivative of q
    model, s = touching(model), random_state(rng, model)
    points = body_points(model)
    p, v, w = point_motion(model, s.q, s.qd, points)
    assert p.shape == v.shape == w.shape == points.position.shape
    if model.nq == model.nv:
        dq = STEP * rate(model, s.q, s.qd)
        ahead, behind = (point_motion(model, s.q + sign * dq, s.qd, points)[0] for sign in (1, -1))
        assert_allclose((ahead - behind) / (2 * STEP), v, atol=DIFFERENCE * 10)


def test_contact_point_motion_does_not_depend_on_the_body_frame(rng):
    joints = (
        Revolute((1.0, 2.0, -0.5)),
        Prismatic((0.3, -1.0, 2.0)),
        Helical(0.2, (1.0, 1.0, 0.0)),
        Revolute(),
    )
    model = touching(random_tree(rng, (-1, 0, 1, 0), joints))
    s, turned = random_state(rng, model), align_joint_axes(model)
    assert turned.joint != model.joint
    ours = point_motion(turned, s.q, s.qd, body_points(turned))
    for motion, expected in zip(
        ours, point_motion(model, s.q, s.qd, body_points(model)), strict=True
    ):
        assert_allclose(motion, expected, atol=ATOL)


def test_contact_points_belong_to_the_same_bodies_on_a_floating_base():
    model = touching(auto_tree(3))
    floating = floating_base(
        replace(model, joint=(SixDoF(), *model.joint[1:]), contact=model.contact)
    )
    assert body_points(floating).body == tuple(i + 5 for i in body_points(model).body)


# rejected inputs


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Plane((0, 0, 0)),
            "a normal must be a finite nonzero vector with 3 components, not [0.0, 0.0, 0.0]",
        ),
        (lambda: Plane((0, np.nan, 1)), "a normal must be a finite nonzero vector"),
        (lambda: Plane((0, 1)), "a normal must be a finite nonzero vector with 3 components"),
        (
            lambda: Plane(point=(0, 0)),
            "the point of a plane must be 3 finite numbers, not [0.0, 0.0]",
        ),
        (lambda: Sphere(0.0), "the radius of a sphere must be positive, not 0.0 m"),
        (lambda: Sphere(np.inf), "the radius of a sphere must be positive, not inf m"),
        (lambda: Box((1, 0, 1)), "the sides of a box must be positive, not [1.0, 0.0, 1.0] m"),
        (lambda: Cylinder(-1.0, 1.0), "the radius of a cylinder must be positive, not -1.0 m"),
        (lambda: Cylinder(1.0, 0.0), "the height of a cylinder must be positive, not 0.0 m"),
        (lambda: Cylinder(1.0, 1.0, 2), "a cylinder needs at least 3 points on each edge, not 2"),
        (
            lambda: PointSet([[0, 0, 0], [1, 0, 0], [0, 0, 0]]),
            "two points of a point set coincide",
        ),
        (
            lambda: PointSet([0, 0, 0]),
            "a point set needs one or more points as an array (n, 3), not an array (3,)",
        ),
        (
            lambda: PointSet(np.zeros((0, 3))),
            "a point set needs one or more points as an array (n, 3), not an array (0, 3)",
        ),
        (
            lambda: PointSet([[0, 0, 0], [0, np.inf, 0]]),
            "a point set needs finite points; point 1 is [0.0, inf, 0.0]",
        ),
        (
            lambda: ConvexHull(np.zeros((5, 2))),
            "a hull needs its vertices as an array (n, 3), not an array (5, 2)",
        ),
        (
            lambda: ConvexHull([*np.eye(3), [0, 0, np.nan]]),
            "a hull needs finite vertices; vertex 3 is [0.0, 0.0, nan]",
        ),
        (
            lambda: HeightField([[1, 2]], (1, 1)),
            "a height field needs the heights of at least 2 by 2 nodes as a matrix, not an array "
            "(1, 2)",
        ),
        (
            lambda: HeightField([[1, 2], [np.inf, 3]], (1, 1)),
            "the heights of a height field must be finite; heights[1, 0] is inf",
        ),
        (
            lambda: trace("gap", lambda p: {"y": LARGE.gap(p)[0]}, {"p": (3,)}),
            "compliant contact supports height fields of at most 1024 nodes, not of shape (25, 41)",
        ),
        (
            lambda: HeightField(HEIGHTS, (1, 0)),
            "the spacing of a height field must be two positive numbers, not [1.0, 0.0]",
        ),
        (
            lambda: HeightField(HEIGHTS, (1, 1), (0,)),
            "the first node of a height field needs two finite coordinates",
        ),
        (lambda: hull_vertices([[0, 0, 0]], (0, 0, 0)), "a normal must be a finite nonzero vector"),
        (lambda: body_points(planar2()), "model 'planar2' has no contact shapes"),
        (
            lambda: replace(planar2(), contact=((),)),
            "contact of model 'planar2' has 1 lists of shapes; it needs one list",
        ),
    ],
)
def test_invalid_contact_shapes_are_rejected(make, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make()


def test_model_rejects_an_object_that_is_not_a_contact_shape():
    with pytest.raises(
        TypeError, match="contact of body body2 of model 'planar2' has 'ball'; it must be a Shape"
    ):
        replace(planar2(), contact=((), ("ball",)))


def test_boxes_and_cylinders_defined_by_two_points_end_at_these_points(rng):
    low, high = np.array([-0.2, 0.1, 0.3]), np.array([0.4, 0.2, 0.9])
    corners = Box.from_corners(low, high).points
    assert_allclose([corners.min(axis=0), corners.max(axis=0)], [low, high], rtol=1e-15)
    start, end = rng.normal(size=(2, 3))
    rim = Cylinder.from_ends(start, end, 0.3, rim=12).points
    along = (end - start) / np.linalg.norm(end - start)
    ways = np.repeat([0.0, np.linalg.norm(end - start)], 12)
    assert_allclose((rim - start) @ along, ways, rtol=0, atol=ATOL)
    across = rim - start - ways[:, None] * along
    assert_allclose(np.linalg.norm(across, axis=1), 0.3, rtol=ATOL)


def test_alignment_of_joint_axes_does_not_change_the_poses_of_visual_shapes(rng):
    axis = rng.normal(size=3)
    model = replace(auto_tree(2), joint=(Revolute(axis), Revolute()))
    q = rng.normal(size=2)
    points = [
        [point_position(m, q, i, p) for i in range(2) for p in m.appearance[i][0].points]
        for m in (model, align_joint_axes(model))
    ]
    assert_allclose(points[0], points[1], rtol=0, atol=ATOL)


def test_height_field_with_the_largest_allowed_node_count_is_accepted():
    assert HeightField(np.zeros((32, 32)), (1, 1)).heights.shape == (32, 32)
