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


@pytest.mark.interop
@pytest.mark.parametrize("pair", [pair for pair in PAIRS if set(pair) <= set(FLAT)])
def test_the_distance_and_the_normal_are_those_of_coal(pair):
    coal = pytest.importorskip("coal")
    hull = _coal_hull(coal, HULL)
    theirs = {
        "sphere": coal.Sphere(0.3),
        "capsule": coal.Capsule(0.2, 0.6),
        "box": coal.Box(0.4, 0.7, 0.5),
        "hull": hull,
        "plane": coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0),
    }
    rng, unsure = np.random.default_rng(8), 0
    for _ in range(1000):
        X = [random_pose(rng, 0.7) for _ in range(2)]
        ours = proximity(SHAPES[pair[0]], X[0], SHAPES[pair[1]], X[1])
        found, asked = coal.DistanceResult(), coal.DistanceRequest()
        asked.enable_signed_distance = True
        asked.gjk_tolerance = asked.epa_tolerance = 1e-12
        at = [coal.Transform3s(x.E.T, x.r) for x in X]
        d = coal.distance(theirs[pair[0]], at[0], theirs[pair[1]], at[1], asked, found)
        assert ours.gap == pytest.approx(d, abs=1e-9)
        unsure += np.linalg.norm(ours.normal + found.normal) > 1e-9  # two depths alike, say
    assert unsure <= 2


def _coal_hull(coal, vertices):
    from scipy.spatial import ConvexHull as QHull

    hull = QHull(vertices)
    points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
    for point in vertices:
        points.append(point)
    for simplex, equation in zip(hull.simplices, hull.equations, strict=True):
        i, j, k = map(int, simplex)
        n = np.cross(vertices[j] - vertices[i], vertices[k] - vertices[i])
        triangles.append(coal.Triangle(i, j, k) if n @ equation[:3] > 0 else coal.Triangle(i, k, j))
    return coal.Convex(points, triangles)


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
