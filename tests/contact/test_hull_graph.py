"""Support points of hulls by hill climbing: hull triangles, distances, depths and saved states."""

import itertools

import numpy as np
import pytest

from rigidblocks import World
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact import Plane
from rigidblocks.contact.shape_distance import contact_points, proximity
from rigidblocks.contact.shape_tables import hull_graph, hull_triangles
from rigidblocks.kernels.compiled_stepper import compiled_stepper
from rigidblocks.robot.shapes import Box, ConvexHull
from rigidblocks.spatial.spatial import RigidInertia, Transform, identity


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def ball_points(n, seed=0):
    return unit(np.random.default_rng(seed).normal(size=(n, 3)))


def prism(n, dtype=float):
    angle = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False)
    ring = np.column_stack([np.cos(angle), np.sin(angle)])
    return np.vstack([np.column_stack([ring, np.full(n, z)]) for z in (-1.0, 1.0)]).astype(dtype)


def grid(n):
    return np.array(list(itertools.product(np.linspace(-0.1, 0.1, n), repeat=3)))


POINTS = {
    "tetrahedron": np.vstack([np.zeros(3), np.eye(3)]),
    "cube": grid(2),
    "cube with points on its faces and inside": grid(5),
    "cloud": np.random.default_rng(1).normal(size=(120, 3)),
    "all points on a ball": ball_points(256),
    "thin plate": ball_points(80, 2) * [1.0, 0.3, 1e-3],
    "prism": prism(60),
    "prism in single precision": prism(90, np.float32).astype(float),
    "far from the origin": ball_points(40, 4) + 1e4,
    "micrometres": ball_points(40, 5) * 1e-6,
    "repeated points": np.repeat(ball_points(10, 6), 4, axis=0),
}


def random_rotation(rng):
    w, x, y, z = unit(rng.normal(size=4))
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


@pytest.mark.parametrize("name", POINTS)
def test_hull_triangles_form_a_closed_surface_around_all_points(name):
    points = POINTS[name]
    around = points - points.mean(axis=0)
    size = np.ptp(around, axis=0).max()
    faces = np.array(hull_triangles(points))
    edges = {tuple(edge) for f in faces.tolist() for edge in zip(f, np.roll(f, -1), strict=True)}
    assert len(edges) == 3 * len(faces)  # each directed edge belongs to one triangle
    assert {(b, a) for a, b in edges} == edges
    assert len(faces) == 2 * len(np.unique(faces)) - 4  # Euler: V - E + F = 2
    a, b, c = (around[faces[:, k]] for k in range(3))
    n = np.cross(b - a, c - a)
    assert np.all(np.linalg.norm(n, axis=1) > 0.0)
    height = around @ n.T - np.einsum("ij,ij->i", n, a)
    assert height.max() < 1e-14 * size**3


def test_coplanar_points_have_no_hull():
    with pytest.raises(ValueError, match="all in one plane"):
        hull_triangles(
            np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
        )


def test_hull_with_nearly_coincident_vertices_has_no_graph():
    points = np.vstack([ball_points(12), unit(ball_points(12)[0] + [0.0, 1e-7, 0.0])])
    assert len(hull_graph(points)) == 0
    assert len(hull_graph(points[:12])) > 0


@pytest.mark.parametrize("name", POINTS)
def test_gap_between_a_hull_and_a_plane_is_the_height_of_the_lowest_vertex(name):
    points, rng = POINTS[name], np.random.default_rng(7)
    hull, size = ConvexHull(points), np.abs(points).max()
    ways = [*unit(rng.normal(size=(150, 3))), *np.vstack([np.eye(3), -np.eye(3)])]
    triangles = np.array(hull_triangles(points))[:60]
    a, b, c = (points[triangles[:, k]] for k in range(3))
    ways += [*unit(np.cross(b - a, c - a))]  # all vertices of a facet are equally low
    for n in ways:
        plane = Plane(tuple(n), (0.0, 0.0, 0.0))
        gap = proximity(hull, identity(), plane, identity()).gap
        assert abs(gap - (points @ n).min()) < 4e-15 * size


@pytest.mark.parametrize("name", ["cube with points on its faces and inside", "prism", "cloud"])
def test_points_inside_a_hull_do_not_change_its_distances(name):
    rng = np.random.default_rng(8)
    points = POINTS[name]
    corners = points[np.unique(np.array(hull_triangles(points)))]
    box, size = Box((0.5, 0.6, 0.7)), np.ptp(points, axis=0).max()
    for _ in range(60):
        X = Transform(random_rotation(rng), unit(rng.normal(size=3)) * rng.uniform(0, 2) * size)
        whole = proximity(ConvexHull(points), identity(), box, X)
        part = proximity(ConvexHull(corners), identity(), box, X)
        assert abs(whole.gap - part.gap) < 1e-13 * (1 + size)


def facets_and_edges(points):
    """Return the unit normals of the facets, and the edges, of a hull."""
    faces = np.array(hull_triangles(points))
    a, b, c = (points[faces[:, k]] for k in range(3))
    ends = np.unique(np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2)), axis=0)
    return unit(np.cross(b - a, c - a)), points[ends[:, 1]] - points[ends[:, 0]]


def exact_depth(p, q, facets_p, facets_q):
    """Return the smallest overlap of two hulls along the facet normals of their difference."""
    cross = np.cross(facets_p[1][:, None], facets_q[1][None]).reshape(-1, 3)
    cross = unit(cross[np.linalg.norm(cross, axis=1) > 1e-9])
    normals = np.vstack([facets_p[0], -facets_q[0], cross, -cross])
    return ((p @ normals.T).max(axis=0) - (q @ normals.T).min(axis=0)).min()


def test_gap_and_penetration_depth_of_hulls_match_independent_algorithms():
    # separate hulls: |p - q| = max_n (-s_A(-n) - s_B(n))
    rng, count = np.random.default_rng(9), [0, 0]
    for _ in range(12):
        p, q = (unit(rng.normal(size=(n, 3))) * rng.uniform(0.1, 0.5, 3) for n in (9, 30))
        hull_p, hull_q, facets_p, facets_q = (
            *(ConvexHull(p), ConvexHull(q)),
            *(facets_and_edges(p), facets_and_edges(q)),
        )
        for _ in range(40):
            R, way = random_rotation(rng), unit(rng.normal(size=3)) * rng.uniform(0.0, 1.0)
            found = proximity(hull_p, identity(), hull_q, Transform(R.T, way))
            x, n = q @ R.T + way, found.normal
            count[found.gap < 0.0] += 1
            assert abs((p @ n).min() - (x @ n).max() - found.gap) < 1e-12
            assert np.abs(found.on_a - found.on_b - found.gap * n).max() < 1e-12
            if found.gap < 0.0:
                turned = tuple(y @ R.T for y in facets_q)
                assert abs(exact_depth(p, x, facets_p, turned) + found.gap) < 1e-12
    assert min(count) > 100


def test_contact_points_of_a_prism_on_a_plane_lie_on_the_rim_of_its_base():
    hull = ConvexHull(prism(48))
    found = contact_points(hull, identity(), Plane((0, 0, 1), (0, 0, -1)), identity(), 1e-3)
    assert len(found.gap) == 4
    assert np.abs(found.gap).max() < 1e-15
    assert np.allclose(np.linalg.norm(found.point[:, :2], axis=1), 1.0, atol=1e-15)
    assert np.allclose(found.point[:, 2], -1.0, atol=1e-15)


@pytest.mark.slow
def test_pile_of_hulls_continues_from_a_saved_state_bit_for_bit():
    world = World("pile", gravity=(0.0, 0.0, -9.81))
    for k in range(6):
        inertia = RigidInertia(1.0, np.zeros(3), 0.01 * np.eye(3))
        hull = ConvexHull(0.1 * ball_points(30, k))
        world.add_body(f"stone{k}", inertia, [hull], at=(0.01 * k, 0.0, 0.12 + 0.17 * k))
    world.add_ground(Plane())
    memory = Memory(world.plant(mu=0.5, sample_time=2e-3))
    whole, h = np.empty((600, memory.size)), 2e-3

    def stepper():
        return compiled_stepper(memory)

    m = memory.start()
    first = stepper()
    first.initialize(m, 0.0)
    first.run(m, 0.0, h, whole)
    assert whole[-1, memory.where["contacts"]].max() > 6
    again, rest = whole[249].copy(), np.empty((350, memory.size))
    stepper().run(again, 250 * h, h, rest)
    assert np.array_equal(rest[:, 1:], whole[250:, 1:])  # column 0 is the time


def test_hull_graph_is_read_only_because_hulls_with_equal_points_share_one_graph():
    for points in (grid(2), np.vstack([grid(2), grid(2) * (1.0 + 1e-9)])):  # the second is empty
        with pytest.raises(ValueError, match="read-only"):
            hull_graph(points)[:] = 0.0


@pytest.mark.parametrize(
    "points", [np.zeros((0, 3)), np.full((4, 3), np.nan), np.full((4, 3), np.inf), np.eye(4)]
)
def test_hull_of_empty_or_nonfinite_points_is_rejected(points):
    for function in (hull_graph, hull_triangles):
        with pytest.raises(
            ValueError, match=r"a hull needs (one or more points as an array \(n, 3|finite points)"
        ):
            function(points)
