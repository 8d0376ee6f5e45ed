"""The distance of shapes and the points at which they touch: closed forms, certificates of
optimality, and another library.
"""

import itertools

import numpy as np
import pytest

from rigidblocks.algebra.spatial import Transform, identity, rx, ry, rz, xlt
from rigidblocks.contact import HeightField, Plane, PointSet, Sphere
from rigidblocks.contact.shape_rows import shape_rows
from rigidblocks.kernels.proximity import contact_points, proximity
from rigidblocks.model.convex import Capsule, ConvexHull, Ellipsoid
from rigidblocks.model.shapes import Box, Cylinder

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
    """How far a shape goes along d, from its definition."""
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
def test_the_gap_is_the_one_along_the_normal_and_no_plane_parts_the_shapes_more(pair):
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
            for d in rng.normal(size=(20, 3)):  # the farthest plane where apart, the least depth
                d /= np.linalg.norm(d)
                assert gap >= -reach(a, X_a, -d) - reach(b, X_b, d) - 1e-8


@pytest.mark.parametrize("other", ["sphere", "ellipsoid", "cylinder"])
def test_the_points_of_curved_shapes_lie_on_the_normal(other):
    """Farthest along it on both, and nothing is left across it: so the normal is that of both."""
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


def test_where_the_shapes_are_turned_round_the_answer_is():
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
    "a cylinder beside a hull": ("cylinder", LYING, (1.3, 0.1, 0.2), "cube"),
}


@pytest.mark.parametrize("case", ALIGNED)
@pytest.mark.parametrize("turned", [0.0, 0.7])
def test_where_many_answers_are_as_good_it_is_one_of_them(case, turned):
    """Its normal has the gap, and the points are farthest along it; aligned to rounding where the
    whole is turned.
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
def test_equal_cubes_touch_with_the_corners_of_their_faces(kind, gap):
    touching = contact_points(BRICKS[kind], xlt((0, 0, 1 + gap)), BRICKS[kind], HERE, 1e-3)
    assert touching.normal == pytest.approx(UP, abs=1e-9)
    assert touching.gap == pytest.approx([gap] * 4, abs=1e-9)
    expected = np.column_stack([CORNERS[::2, :2] / 2, np.full(4, 0.5 + gap / 2)])
    assert sorted_points(touching) == pytest.approx(expected[np.lexsort(expected.T)], abs=1e-9)


def test_a_block_on_a_ledge_touches_where_it_is_over_the_ledge():
    touching = contact_points(Box((2, 1, 1)), xlt((0.7, 0, 1)), CUBE, HERE, 1e-6)
    assert touching.normal == pytest.approx(UP, abs=1e-12)
    assert sorted(set(touching.point[:, 0].round(9))) == [-0.3, 0.5]


def test_crossed_beams_touch_in_the_square_of_their_crossing():
    beam = Box((4, 0.2, 0.2))
    across = Transform(rz(np.pi / 2), np.array([0, 0, 0.2]))
    touching = contact_points(beam, across, beam, HERE, 1e-6)
    assert touching.normal == pytest.approx(UP, abs=1e-12)
    assert np.abs(touching.point[:, :2]) == pytest.approx(np.full((4, 2), 0.1), abs=1e-9)


def test_a_peg_across_a_smaller_cube_touches_with_its_side():
    touching = contact_points(
        Box((2, 0.1, 0.1)), xlt((0, 0, 0.15)), Box((0.2, 0.2, 0.2)), HERE, 1e-6
    )
    assert touching.normal == pytest.approx(UP, abs=1e-12)
    assert np.abs(touching.point[:, 0]) == pytest.approx(np.full(4, 0.1))
    assert np.abs(touching.point[:, 1]) == pytest.approx(np.full(4, 0.05))


def test_edges_that_cross_touch_in_one_point():
    on_edge = Transform(rx(np.pi / 4), np.zeros(3))
    over = Transform(rx(np.pi / 4) @ rz(np.pi / 2), np.array([0, 0, np.sqrt(2) - 1e-6]))
    touching = contact_points(CUBE, over, CUBE, on_edge)
    assert touching.gap == pytest.approx([-1e-6], abs=1e-12)
    assert abs(touching.normal) == pytest.approx(UP, abs=1e-9)
    assert touching.point[0] == pytest.approx([0, 0, np.sqrt(0.5)], abs=1e-6)


@pytest.mark.parametrize("ground", [Plane(), Box((4, 4, 2), xlt((0, 0, -1)))])
def test_round_things_touch_the_ground_along_lines_and_rims(ground):
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


def test_parallel_capsules_touch_along_what_they_share():
    lying = rx(np.pi / 2)
    one = Transform(lying, np.array([0, 0.3, 0.2]))
    touching = contact_points(
        Capsule(0.1, 1), one, Capsule(0.1, 1), Transform(lying, np.zeros(3)), 1e-9
    )
    assert sorted(touching.point[:, 1].round(9)) == [-0.2, 0.5]
    assert touching.gap == pytest.approx([0, 0], abs=1e-12)


def test_what_has_no_row_is_refused():
    with pytest.raises(TypeError, match="height"):
        list(shape_rows("floor"))
    with pytest.raises(ValueError, match="ground: no distance"):
        proximity(Plane(), HERE, HeightField(np.zeros((2, 2)), (1.0, 1.0)), HERE)
    with pytest.raises(ValueError, match="planes"):
        proximity(Plane(), HERE, Plane(), HERE)
    with pytest.raises(ValueError, match="set of 2"):
        proximity(PointSet([[0, 0, 0], [1, 0, 0]]), HERE, Plane(), HERE)
    with pytest.raises(ValueError, match="plane"):
        ConvexHull([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]])
    with pytest.raises(ValueError, match="4 to 256"):
        ConvexHull(np.zeros((3, 3)))
