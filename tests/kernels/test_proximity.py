"""Distances and contact points of shapes match analytic solutions and optimality conditions."""

import itertools

import numpy as np
import pytest

from rigidblocks.contact import HeightField, Plane, PointSet, Sphere
from rigidblocks.contact.shape_distance import contact_points, proximity
from rigidblocks.contact.shape_tables import shape_rows
from rigidblocks.robot.shapes import Box, Capsule, ConvexHull, Cylinder, Ellipsoid
from rigidblocks.spatial.spatial import Transform, identity, rx, ry, rz, xlt

HERE = identity()
CORNERS = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
HULL = np.random.default_rng(3).normal(size=(14, 3)) * 0.3
SHAPES = {
    "sphere": Sphere(0.3),
    "capsule": Capsule(0.2, 0.6),
    "box": Box((0.4, 0.7, 0.5)),
    "cylinder": Cylinder(0.3, 0.5),
    "ellipsoid": Ellipsoid((0.2, 0.3, 0.4)),
    "hull": ConvexHull(HULL),
    "plane": Plane(),
}
PAIRS = [
    pair for pair in itertools.combinations_with_replacement(SHAPES, 2) if pair != ("plane",) * 2
]
FLAT = ("sphere", "capsule", "box", "hull", "plane")  # exact to rounding


def random_pose(rng, spread=0.5):
    p = rng.normal(size=4)
    w, x, y, z = p / np.linalg.norm(p)
    E = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)],
            [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)],
            [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    return Transform(E, rng.uniform(-spread, spread, 3))


def reach(shape, X, d):
    """Return the extent of a shape along d, from the definition of the shape."""
    local = X.E @ d
    match shape:
        case Sphere():
            far = shape.radius
        case Capsule():
            far = shape.radius + shape.height / 2 * abs(local[2])
        case Box():
            far = np.abs(local) @ shape.sides / 2
        case Cylinder():
            far = shape.radius * np.hypot(*local[:2]) + shape.height / 2 * abs(local[2])
        case Ellipsoid():
            far = np.linalg.norm(local * shape.semi_axes)
        case ConvexHull():
            far = np.max(shape.points @ local)
        case Plane():
            far = 0.0 if local[2] > 1 - 1e-12 else np.inf
    return far + X.r @ d


@pytest.mark.parametrize("pair", PAIRS)
def test_gap_between_convex_shapes_is_their_largest_separation_over_all_directions(pair):
    rng = np.random.default_rng(5)
    a, b = (SHAPES[name] for name in pair)
    exact = set(pair) <= set(FLAT)
    for _ in range(15):
        X_a, X_b = random_pose(rng), random_pose(rng)
        gap, n, on_a, on_b = proximity(a, X_a, b, X_b)
        assert np.linalg.norm(n) == pytest.approx(1, abs=1e-12)
        along = -reach(a, X_a, -n) - reach(b, X_b, n)
        assert gap == pytest.approx(along, abs=1e-12 if exact else 1e-9)
        if gap > 0 or exact:
            assert on_a == pytest.approx(on_b + gap * n, abs=1e-11)
        if "plane" not in pair:
            for d in rng.normal(size=(20, 3)):  # no direction separates the shapes more
                d /= np.linalg.norm(d)
                assert gap >= -reach(a, X_a, -d) - reach(b, X_b, d) - 1e-8


@pytest.mark.parametrize("other", ["sphere", "ellipsoid", "cylinder"])
def test_nearest_points_of_curved_shapes_lie_on_the_common_normal(other):
    """Both points are extreme along the normal, and their difference is parallel to it."""
    rng, across, pair = np.random.default_rng(9), 0, ("ellipsoid", other)
    a, b = (SHAPES[name] for name in pair)
    for _ in range(300):
        X_a, X_b = random_pose(rng), random_pose(rng)
        gap, n, on_a, on_b = proximity(a, X_a, b, X_b)
        w = X_a.E @ -n * a.semi_axes
        assert on_a == pytest.approx(
            X_a.r + X_a.E.T @ (a.semi_axes * w / np.linalg.norm(w)), abs=1e-9
        )
        assert -reach(b, X_b, n) == pytest.approx(-n @ on_b, abs=1e-9)
        across += np.linalg.norm(on_a - on_b - gap * n) > 1e-11
    assert across == 0


def test_gap_between_two_shapes_does_not_depend_on_their_order():
    rng = np.random.default_rng(6)
    for names in PAIRS:
        a, b = (SHAPES[name] for name in names)
        X_a, X_b = random_pose(rng, 0.8), random_pose(rng, 0.8)
        one, two = proximity(a, X_a, b, X_b), proximity(b, X_b, a, X_a)
        assert one.gap == pytest.approx(two.gap, abs=1e-6)


STRAIGHT, LYING = np.eye(3), rx(np.pi / 2)
ALIGNED = {
    "a ball on the axis of a capsule": ("sphere", STRAIGHT, (0, 0, 0.1), "capsule"),
    "capsules along one line": ("capsule", STRAIGHT, (0, 0, 0.3), "capsule"),
    "boxes that touch with edges": ("box", STRAIGHT, (0.4, 0.7, 0), "box"),
    "a box on a box": ("box", STRAIGHT, (0, 0, 0.5), "box"),
    "a cylinder on a box": ("cylinder", STRAIGHT, (0.1, 0.2, 0.5), "box"),
    "a cylinder that lies on a box": ("cylinder", LYING, (0.1, 0.2, 0.55), "box"),
    "a cylinder in a cylinder": ("cylinder", STRAIGHT, (0, 0, 0.1), "cylinder"),
    "a capsule in a cylinder": ("capsule", STRAIGHT, (0, 0, 0), "cylinder"),
    "a capsule that touches a cylinder": ("capsule", STRAIGHT, (0.5, 0, 0.2), "cylinder"),
    "an ellipsoid that touches a box": ("ellipsoid", STRAIGHT, (0, 0, 0.65), "box"),
    "a ball in an ellipsoid": ("sphere", STRAIGHT, (0, 0, 0.1), "ellipsoid"),
    "a box on a hull": ("box", STRAIGHT, (0, 0, 1.25), "cube"),
    "a cylinder next to a hull": ("cylinder", LYING, (1.3, 0.1, 0.2), "cube"),
}


@pytest.mark.parametrize("case", ALIGNED)
@pytest.mark.parametrize("turned", [0.0, 0.7])
def test_nearest_points_of_aligned_shapes_are_one_of_the_valid_solutions(case, turned):
    """The gap belongs to the normal, and both points are extreme along the normal.

    The rotated case is aligned to rounding.
    """
    name, E, r, other = ALIGNED[case]
    a, b = SHAPES[name], ConvexHull(CORNERS) if other == "cube" else SHAPES[other]
    X_b = Transform(rx(turned) @ rz(turned), np.full(3, turned))
    X_a = Transform(E, np.array(r, dtype=float)) @ X_b
    gap, n, on_a, on_b = proximity(a, X_a, b, X_b)
    assert np.linalg.norm(n) == pytest.approx(1, abs=1e-12)
    assert on_a - on_b == pytest.approx(gap * n, abs=1e-8)
    assert [-on_a @ n, on_b @ n] == pytest.approx([reach(a, X_a, -n), reach(b, X_b, n)], abs=1e-12)
    aligned = np.concatenate([np.eye(3), -np.eye(3)]) @ X_b.E
    for d in (*aligned, *np.random.default_rng(4).normal(size=(100, 3))):
        d = d / np.linalg.norm(d)
        assert gap >= -reach(a, X_a, -d) - reach(b, X_b, d) - 1e-12


def sorted_points(touching):
    return touching.point[np.lexsort(touching.point.T.round(9))]


CUBE, UP = Box((1, 1, 1)), np.array([0.0, 0.0, 1.0])
BRICKS = {"box": CUBE, "hull": ConvexHull(CORNERS / 2)}


@pytest.mark.parametrize("kind", BRICKS)
@pytest.mark.parametrize("gap", [-1e-3, -1e-9, 0.0, 1e-12, 1e-4])
def test_equal_cubes_have_contact_points_at_their_face_corners(kind, gap):
    touching = contact_points(BRICKS[kind], xlt((0, 0, 1 + gap)), BRICKS[kind], HERE, 1e-3)
    assert touching.normal == pytest.approx(UP, abs=1e-9)
    assert touching.gap == pytest.approx([gap] * 4, abs=1e-9)
    expected = np.column_stack([CORNERS[::2, :2] / 2, np.full(4, 0.5 + gap / 2)])
    assert sorted_points(touching) == pytest.approx(expected[np.lexsort(expected.T)], abs=1e-9)


def test_contact_points_of_a_block_on_a_ledge_are_above_the_ledge():
    touching = contact_points(Box((2, 1, 1)), xlt((0.7, 0, 1)), CUBE, HERE, 1e-6)
    assert touching.normal == pytest.approx(UP, abs=1e-12)
    assert sorted(set(touching.point[:, 0].round(9))) == [-0.3, 0.5]


def test_contact_points_of_crossed_beams_are_the_corners_of_their_overlap():
    beam = Box((4, 0.2, 0.2))
    across = Transform(rz(np.pi / 2), np.array([0, 0, 0.2]))
    touching = contact_points(beam, across, beam, HERE, 1e-6)
    assert touching.normal == pytest.approx(UP, abs=1e-12)
    assert np.abs(touching.point[:, :2]) == pytest.approx(np.full((4, 2), 0.1), abs=1e-9)


def test_contact_points_of_a_bar_on_a_cube_are_the_corners_of_their_overlap():
    touching = contact_points(
        Box((2, 0.1, 0.1)), xlt((0, 0, 0.15)), Box((0.2, 0.2, 0.2)), HERE, 1e-6
    )
    assert touching.normal == pytest.approx(UP, abs=1e-12)
    assert np.abs(touching.point[:, 0]) == pytest.approx(np.full(4, 0.1))
    assert np.abs(touching.point[:, 1]) == pytest.approx(np.full(4, 0.05))


def test_crossing_cube_edges_have_one_contact_point():
    on_edge = Transform(rx(np.pi / 4), np.zeros(3))
    over = Transform(rx(np.pi / 4) @ rz(np.pi / 2), np.array([0, 0, np.sqrt(2) - 1e-6]))
    touching = contact_points(CUBE, over, CUBE, on_edge)
    assert touching.gap == pytest.approx([-1e-6], abs=1e-12)
    assert abs(touching.normal) == pytest.approx(UP, abs=1e-9)
    assert touching.point[0] == pytest.approx([0, 0, np.sqrt(0.5)], abs=1e-6)


@pytest.mark.parametrize("ground", [Plane(), Box((4, 4, 2), xlt((0, 0, -1)))])
def test_cylinders_and_capsules_touch_the_ground_along_lines_and_rims(ground):
    lying = Transform(rx(np.pi / 2), np.array([0.1, 0.2, 0.3]))
    line = contact_points(Cylinder(0.3, 0.5), lying, ground, HERE, 1e-6)
    assert sorted_points(line) == pytest.approx(
        np.array([[0.1, -0.05, 0], [0.1, 0.45, 0]]), abs=1e-9
    )
    standing = contact_points(Cylinder(0.3, 0.5), xlt((0, 0, 0.25)), ground, HERE, 1e-6)
    assert len(standing.gap) == 4
    assert np.hypot(*standing.point.T[:2]) == pytest.approx([0.3] * 4)
    tilted = Transform(ry(0.2), np.array([0, 0, 0.25 * np.cos(0.2) + 0.3 * np.sin(0.2)]))
    (gap,) = contact_points(Cylinder(0.3, 0.5), tilted, ground, HERE, 1e-6).gap
    assert gap == pytest.approx(0, abs=1e-9)
    ends = contact_points(
        Capsule(0.1, 0.6), Transform(rx(np.pi / 2), np.array([0, 0, 0.1])), ground, HERE, 1e-6
    )
    assert abs(sorted_points(ends)[:, 1]) == pytest.approx([0.3, 0.3])


def test_contact_points_of_parallel_capsules_span_their_overlap():
    lying = rx(np.pi / 2)
    one = Transform(lying, np.array([0, 0.3, 0.2]))
    touching = contact_points(
        Capsule(0.1, 1), one, Capsule(0.1, 1), Transform(lying, np.zeros(3)), 1e-9
    )
    assert sorted(touching.point[:, 1].round(9)) == [-0.2, 0.5]
    assert touching.gap == pytest.approx([0, 0], abs=1e-12)


def test_collision_detection_rejects_unsupported_shape_pairs():
    with pytest.raises(TypeError, match="height"):
        list(shape_rows("floor"))
    with pytest.raises(ValueError, match="distances to height fields"):
        proximity(Plane(), HERE, HeightField(np.zeros((2, 2)), (1.0, 1.0)), HERE)
    with pytest.raises(ValueError, match="planes"):
        proximity(Plane(), HERE, Plane(), HERE)
    with pytest.raises(ValueError, match="PointSet of 2"):
        proximity(PointSet([[0, 0, 0], [1, 0, 0]]), HERE, Plane(), HERE)
    with pytest.raises(ValueError, match="plane"):
        ConvexHull([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    with pytest.raises(ValueError, match="4 to 256"):
        ConvexHull(np.zeros((3, 3)))
