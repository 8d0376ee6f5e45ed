"""Rays to shapes: NumPy, C code with bounding boxes, derivatives and SIMD lanes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rigidblocks.robot.ray_casting import (
    NO_HIT,
    Obstacle,
    RayFan,
    RayScene,
    cast_rays,
    obstacle_of,
)
from rigidblocks.robot.shapes import Cone
from rigidblocks.spatial.rigid_motion import quaternion_rotation
from rigidblocks.spatial.spatial import Transform, identity, rotx
from rigidblocks.tracing.compiled_functions import CompiledBatch, CompiledFunction
from rigidblocks.tracing.trace import adjoint, directional, trace

KINDS = {
    "plane": (0.0, 3.0),
    "sphere": (0.7,),
    "capsule": (0.4, 0.6),
    "cylinder": (0.5, 0.3),
    "ellipsoid": (0.5, 0.9, 0.7),
    "box": (0.6, 0.5, 0.7),
}


def placement(rng, spread):
    q = rng.normal(size=4)
    return Transform(quaternion_rotation(q / np.linalg.norm(q)), spread * rng.normal(size=3))


def mesh(rng, n, X):
    corners = rng.normal(size=(n, 1, 3)) + 0.3 * rng.normal(size=(n, 3, 3))
    return Obstacle("mesh", (), -1, X, corners.reshape(-1, 3), np.arange(3 * n).reshape(n, 3))


def scene_of_all_kinds(rng, triangles=200):
    shapes = [Obstacle(kind, size, -1, placement(rng, 2)) for kind, size in KINDS.items()]
    heights = rng.uniform(size=(8, 11)).astype(np.float32)
    field = Obstacle("height_field", (2, 1.5, 1.0, 0.2), -1, placement(rng, 2), heights=heights)
    return RayScene((*shapes, field, mesh(rng, triangles, placement(rng, 2))))


def fan(rng, scene, n=7):
    d = rng.normal(size=(n, 3))
    return RayFan(scene, d / np.linalg.norm(d, axis=1, keepdims=True))


def sensor_pose(rng):
    X = placement(rng, 2)
    return np.concatenate([X.r, X.E.T.ravel()])


def graph_of(fan):
    def distances(x):
        return {"t": cast_rays(fan, x[:3], x[3:].reshape(3, 3))}

    return trace("rays", distances, {"x": (12,)})


def test_no_ray_passes_between_adjacent_triangles_of_a_box(rng):
    """The rays hit edges, diagonals and corners of the mesh exactly."""
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
    faces = [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6]]
    faces += [[0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]]
    scene = RayScene((Obstacle("mesh", (), -1, identity(), corners, np.array(faces)),))
    for _ in range(300):
        k, face = rng.integers(3), rng.integers(12)
        weights = [[1, 0, 0], [0.5, 0.5, 0], [0.3, 0, 0.7]][rng.integers(3)]
        target = rng.permutation(weights) @ corners[faces[face]]
        inside = rng.uniform(-0.5, 0.5, 3)
        d = (target - inside) / np.linalg.norm(target - inside)
        expected = np.linalg.norm(target - inside)
        assert_allclose(scene.nearest_hit(inside, d)[0], expected, rtol=1e-12)
        axis = np.eye(3)[k]
        centre = rng.integers(-1, 2, 3) * (1 - axis) * 0.5  # on the diagonals of the faces
        assert_allclose(scene.nearest_hit(centre - 3 * axis, axis)[0], 2.0, rtol=1e-14)


def test_each_leaf_of_the_bounding_box_tree_contains_its_triangles(rng):
    scene = RayScene((mesh(rng, 500, identity()),))
    boxes, items = scene.tree
    assert sorted(items) == list(range(500))
    for box in boxes:
        corners = scene.vertices[scene.triangles[items[box.following : box.following + box.size]]]
        if box.size:
            assert np.all(corners >= box.lower)
            assert np.all(corners <= box.upper)


def test_bounding_box_tree_of_equal_triangles_is_finite(rng):
    one = rng.normal(size=(3, 3))
    same = Obstacle("mesh", (), -1, identity(), one, np.tile([0, 1, 2], (3000, 1)))
    boxes, items = RayScene((same,)).tree
    assert len(items) == 3000
    assert len(boxes) < 3000


def test_ranges_to_a_cone_match_the_closed_form():
    """The pyramid is inscribed: a ray hits it later than the cone, by at most 0.5 % of the radius.

    A second ray hits the base from below, and a third ray starts inside.
    """
    radius, height = 0.3, 0.8
    X = Transform(rotx(0.4).E, np.array([0.1, 0.2, 0.3]))
    scene = RayScene((obstacle_of(Cone(radius, height, X)),))

    def body(p):
        return X.E.T @ p + X.r

    for angle in np.linspace(0.0, 6.0, 13):
        across = np.array([np.cos(angle), np.sin(angle), 0.0])
        for z in (-0.35, 0.0, 0.3):
            of_cone = radius * (0.5 - z / height)
            found = scene.nearest_hit(body(2.0 * across + [0, 0, z]), -X.E.T @ across)[0]
            assert 0.0 <= found - (2.0 - of_cone) + 1e-12 <= 0.005 * radius
            found = scene.nearest_hit(body(np.array([0, 0, z])), X.E.T @ across)[0]
            assert 0.0 <= of_cone - found + 1e-12 <= 0.005 * radius
        start = 0.9 * radius * across + np.array([0.0, 0.0, -1.0])
        found = scene.nearest_hit(body(start), X.E.T @ np.array([0.0, 0.0, 1.0]))[0]
        assert found == pytest.approx(1.0 - height / 2, abs=1e-12)


@pytest.mark.slow
def test_rays_almost_along_the_axis_of_round_shapes_hit_their_ends():
    """The discriminant of such a ray is proportional to the square of its angle."""
    angles = np.array([0.0, 1e-9, 5e-8, 1e-7, 3e-6, 1e-4])
    radius, half, offset = 0.005, 0.1, np.array([1.0, 0.0, 0.0])
    cylinder = Obstacle("cylinder", (radius, half), -1, identity())
    capsule = Obstacle("capsule", (radius, half), -1, Transform(np.eye(3), offset))
    directions = np.column_stack([np.sin(angles), 0.0 * angles, -np.cos(angles)])
    rays = RayFan(RayScene((cylinder, capsule)), directions)
    compiled = CompiledFunction(graph_of(rays))
    for p, height in ((np.zeros(3), 1.0 - half), (offset, 1.0 - half - radius)):
        x = np.concatenate([p + np.array([0.0, 0.0, 1.0]), np.eye(3).ravel()])
        assert_allclose(rays.distances(x), height / np.cos(angles), rtol=1e-6)
        assert_array_equal(compiled(x), rays.distances(x))


@pytest.mark.slow
@pytest.mark.parametrize("triangles", [3, 200])
def test_ray_lengths_in_c_and_in_numpy_are_bitwise_equal(triangles, rng):
    rays = fan(rng, scene_of_all_kinds(rng, triangles))
    function, hits = CompiledFunction(graph_of(rays)), 0
    for _ in range(300):
        x = sensor_pose(rng)
        expected = rays.distances(x)
        assert_array_equal(function(x), expected)
        hits += (expected < NO_HIT).sum()
    assert hits > 500


@pytest.mark.slow
def test_ray_lengths_in_simd_lanes_equal_the_lengths_of_single_rays(rng):
    rays = fan(rng, scene_of_all_kinds(rng))
    x = np.array([sensor_pose(rng) for _ in range(9)])
    expected = [rays.distances(one) for one in x]
    assert_array_equal(CompiledBatch(graph_of(rays), lanes=2)(x), expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*KINDS, "height_field", "mesh"])
def test_derivatives_of_ray_lengths_equal_difference_quotients(kind, rng):
    X = placement(rng, 0.3)
    if kind == "mesh":
        one = mesh(rng, 50, X)
    elif kind == "height_field":
        heights = rng.uniform(size=(4, 5)).astype(np.float32)
        one = Obstacle(kind, (2, 1.5, 1.0, 0.2), -1, X, heights=heights)
    else:
        one = Obstacle(kind, KINDS[kind], -1, X)
    rays = fan(rng, RayScene((one,)), n=15)
    graph = graph_of(rays)
    forward, back = CompiledFunction(directional(graph, 1)), CompiledFunction(adjoint(graph))
    checked, h = 0, 1e-6
    for _ in range(60):
        x = sensor_pose(rng)
        x[:3] *= 0.5
        v, w = rng.normal(size=12), rng.normal(size=15)
        moved = [rays.distances(x + k * h * v) for k in (-2, -1, 0, 1, 2)]
        curvature = np.abs(np.diff(moved, 2, axis=0)).max(axis=0)
        smooth = (moved[2] < NO_HIT) & (curvature < 1e-9)  # no change of the surface
        rate = (moved[3] - moved[1]) / (2 * h)
        found = forward(x, v[:, None])[:, 0]
        assert_allclose(found[smooth], rate[smooth], rtol=1e-5, atol=1e-5)
        w[~smooth] = 0.0
        assert_allclose(back(x, w) @ v, w @ np.where(smooth, found, 0.0), rtol=1e-9, atol=1e-9)
        checked += smooth.sum()
    assert checked > 20


@pytest.mark.slow
def test_function_that_casts_rays_can_be_called_from_another_traced_function(rng):
    rays = [fan(rng, scene_of_all_kinds(rng)) for _ in range(2)]
    graphs = [graph_of(one) for one in rays]
    x = np.array([sensor_pose(rng) for _ in range(2)])

    def twice(x):
        return {"t": np.concatenate([graphs[k].call(x[k]) for k in (0, 1)])}

    expected = np.concatenate([rays[k].distances(x[k]) for k in (0, 1)])
    assert_array_equal(CompiledFunction(trace("f", twice, {"x": (2, 12)}))(x), expected)
