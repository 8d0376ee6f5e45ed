"""Distances, normals and points of random shape pairs, compared with `coal` and with geometry.

    python benchmarks/random_pairs.py [pairs of each two kinds] [seed]

Each unit vector n has a gap g(n) = -s_A(-n) - s_B(n), with the support function s(d) of a shape.
The signed distance is the largest gap; for overlapping shapes it is the negative smallest depth. If
two normals differ, the normal with the larger gap is therefore better. `beaten` is the advantage of
coal's normal, `searched` the advantage of the best normal of a search from many directions.

A result is exact to rounding if three conditions hold. Both points lie on their shapes, their
difference is the gap along n, and n lies in the normal cones of both points. `off` and `bent` are
the largest violations of these conditions. Separated shapes have only one result that satisfies
them.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import coal
import numpy as np
from scipy.spatial import ConvexHull as Facets

from rigidblocks.contact.shape_distance import proximity
from rigidblocks.robot.shapes import (
    Box,
    Capsule,
    ConvexHull,
    Cylinder,
    Ellipsoid,
    Plane,
    Shape,
    Sphere,
    Surface,
)
from rigidblocks.spatial.spatial import Transform

Array = np.ndarray
SMALL, LARGE = 0.05, 0.5  # [m] range of the half lengths
POSES = 100  # number of poses of each pair of shapes
SEARCHED = 10  # number of overlapping poses with a search; only every tenth pair of shapes has one
CURVED = ("cylinder", "ellipsoid")


class Solid(NamedTuple):
    """Shape in this library and in coal, with functions in the shape's frame.

    `reach` is the support function of unit vectors (n, 3). `outside` is the distance of points
    (n, 3) from the shape. `bend` is the angle between unit vectors and the normals of curved
    surfaces at points. `size` is the largest distance from the centre [m].
    """

    ours: Shape | Surface
    theirs: Any
    reach: Callable[[Array], Array]
    outside: Callable[[Array], Array]
    bend: Callable[[Array, Array], Array]
    size: float


class Found(NamedTuple):
    """Results of n pairs: the gaps of the library and of coal [m], and errors.

    `beaten` is the advantage of coal's normal [m]. `off` is the distance of the points from their
    exact locations [m]. `bent` is the angle of the normal from the normals of curved surfaces.
    `turned` is the difference from coal's normal, and `searched` the advantage of a search [m].
    """

    gap: Array
    coal: Array
    beaten: Array
    off: Array
    bent: Array
    turned: Array
    searched: Array


def length(x: Array) -> Array:
    """Return the length of each row."""
    return np.sqrt(np.einsum("ij,ij->i", x, x))


def unit(x: Array) -> Array:
    """Normalize each row."""
    return x / length(x)[:, None]


def flat(x: Array, _: Array) -> Array:
    """Return zero angles for a shape without curved surfaces."""
    return np.zeros(len(x))


def sphere(r: float) -> Solid:
    """Return a ball."""
    return Solid(
        Sphere(r),
        coal.Sphere(r),
        lambda d: np.full(len(d), r),
        lambda x: length(x) - r,
        lambda x, d: length(unit(x) - d),
        r,
    )


def capsule(r: float, half: float) -> Solid:
    """Return a capsule; `half` is half the length of its axis."""

    def arm(x: Array) -> Array:
        return x - np.column_stack([np.zeros((len(x), 2)), np.clip(x[:, 2], -half, half)])

    return Solid(
        Capsule(r, 2 * half),
        coal.Capsule(r, 2 * half),
        lambda d: r + half * abs(d[:, 2]),
        lambda x: length(arm(x)) - r,
        lambda x, d: length(unit(arm(x)) - d),
        r + half,
    )


def box(half: Array) -> Solid:
    """Return a box."""
    return Solid(
        Box(tuple(2 * half)),
        coal.Box(*2 * half),
        lambda d: abs(d) @ half,
        lambda x: np.max(abs(x) - half, axis=1),
        flat,
        float(np.linalg.norm(half)),
    )


def cylinder(r: float, half: float) -> Solid:
    """Return a cylinder; its lateral surface is curved across the axis."""

    def bend(x: Array, d: Array) -> Array:
        rim = length(d[:, :2])
        ways = unit(x[:, :2] + 1e-300) - d[:, :2] / np.fmax(rim, 1e-300)[:, None]
        return rim * length(ways)

    return Solid(
        Cylinder(r, 2 * half),
        coal.Cylinder(r, 2 * half),
        lambda d: r * length(d[:, :2]) + half * abs(d[:, 2]),
        lambda x: np.fmax(length(x[:, :2]) - r, abs(x[:, 2]) - half),
        bend,
        float(np.hypot(r, half)),
    )


def ellipsoid(axes: Array) -> Solid:
    """Return an ellipsoid."""
    return Solid(
        Ellipsoid(tuple(axes)),
        coal.Ellipsoid(*axes),
        lambda d: length(d * axes),
        lambda x: (length(x / axes) - 1) * axes.min(),
        lambda x, d: length(unit(x / axes**2) - d),
        float(axes.max()),
    )


def hull(points: Array) -> Solid:
    """Return the convex hull of points."""
    facets = Facets(points)
    triangles, vertices = coal.StdVec_Triangle(), coal.StdVec_Vec3s()
    for point in points:
        vertices.append(point)
    for (i, j, k), plane in zip(facets.simplices.tolist(), facets.equations, strict=True):
        n = np.cross(points[j] - points[i], points[k] - points[i])
        triangles.append(coal.Triangle(i, *((j, k) if n @ plane[:3] > 0 else (k, j))))
    return Solid(
        ConvexHull(points),
        coal.Convex(vertices, triangles),
        lambda d: np.max(d @ points.T, axis=1),
        lambda x: np.max(x @ facets.equations[:, :3].T + facets.equations[:, 3], axis=1),
        flat,
        float(np.max(length(points))),
    )


def plane() -> Solid:
    """Return the half-space below z = 0."""
    return Solid(
        Plane(),
        coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0),
        lambda d: np.where(d[:, 2] > 1 - 1e-12, 0.0, np.inf),
        lambda x: x[:, 2],
        flat,
        LARGE,
    )


def random_solid(kind: str, rng: np.random.Generator) -> Solid:
    """Return a random shape of a kind, with half lengths from 5 to 50 cm."""
    half = np.exp(rng.uniform(np.log(SMALL), np.log(LARGE), 3))
    match kind:
        case "sphere":
            return sphere(half[0])
        case "capsule":
            return capsule(half[0], half[1])
        case "box":
            return box(half)
        case "cylinder":
            return cylinder(half[0], half[1])
        case "ellipsoid":
            return ellipsoid(half)
        case "hull":
            return hull(unit(rng.normal(size=(rng.integers(4, 40), 3))) * half)
    return plane()


KINDS = ("sphere", "capsule", "box", "cylinder", "ellipsoid", "hull", "plane")
PAIRS = [
    pair for pair in itertools.combinations_with_replacement(KINDS, 2) if pair != ("plane",) * 2
]


def random_rotations(rng: np.random.Generator, n: int) -> Array:
    """Return random rotations (n, 3, 3) from base to body coordinates."""
    w, x, y, z = unit(rng.normal(size=(n, 4))).T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)],
        [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)],
        [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(rows).transpose(2, 0, 1)


class Placed(NamedTuple):
    """Shape in n poses; E (n, 3, 3) and r (n, 3) transform base to body coordinates."""

    solid: Solid
    E: Array
    r: Array

    def turned(self, d: Array) -> Array:
        return np.einsum("nij,nj->ni", self.E, d)

    def reach(self, d: Array) -> Array:
        return self.solid.reach(self.turned(d)) + np.einsum("ni,ni->n", self.r, d)

    def off(self, x: Array, d: Array) -> Array:
        """Return the distance of x from the shape's farthest points along d."""
        short = self.reach(d) - np.einsum("ni,ni->n", x, d)
        return np.fmax(abs(self.solid.outside(self.turned(x - self.r))), abs(short))

    def bent(self, x: Array, d: Array) -> Array:
        return self.solid.bend(self.turned(x - self.r), self.turned(d))

    def transforms(self) -> list[Transform]:
        return [Transform(E, r) for E, r in zip(self.E, self.r, strict=True)]


def random_poses(a: Solid, b: Solid, n: int, rng: np.random.Generator) -> tuple[Placed, Placed]:
    """Return two shapes in n random poses, from deep overlap to a small distance."""
    r = rng.uniform(-1, 1, (n, 3))
    away = unit(rng.normal(size=(n, 3))) * (a.size + b.size) * rng.uniform(0, 1.3, (n, 1))
    return (
        Placed(a, random_rotations(rng, n), r),
        Placed(b, random_rotations(rng, n), r + away),
    )


def gaps(a: Placed, b: Placed, n: Array) -> Array:
    """Return the gap g(n) of each pose for its normal n."""
    return -a.reach(-n) - b.reach(n)


def by_coal(a: Placed, b: Placed, tolerance: float) -> tuple[Array, Array]:
    """Return coal's distances (n,) and its normals (n, 3), from B to A."""
    asked = coal.DistanceRequest()
    asked.enable_signed_distance = True
    asked.gjk_tolerance = asked.epa_tolerance = tolerance
    distance, normal = [], []
    for X_a, X_b in zip(a.transforms(), b.transforms(), strict=True):
        found = coal.DistanceResult()
        at = [coal.Transform3s(X.E.T, X.r) for X in (X_a, X_b)]
        distance.append(coal.distance(a.solid.theirs, at[0], b.solid.theirs, at[1], asked, found))
        normal.append(-found.normal)
    return np.array(distance), np.array(normal)


def sphere_directions(n: int) -> Array:
    """Return n unit vectors spread over the sphere."""
    k = np.arange(n) + 0.5
    z, turn = 1 - 2 * k / n, np.pi * (1 + np.sqrt(5)) * k
    return np.column_stack(
        [np.sqrt(1 - z * z) * np.cos(turn), np.sqrt(1 - z * z) * np.sin(turn), z]
    )


def pattern_search(a: Placed, b: Placed, n: Array) -> Array:
    """Return the largest gaps reached from n by a pattern search with shrinking steps."""
    best, step, turn = gaps(a, b, n), np.full(len(n), 0.1), np.arange(8) * np.pi / 4
    for _ in range(80):
        u = unit(np.cross(n, np.eye(3)[np.argmin(abs(n), axis=1)]))
        v = np.cross(n, u)
        tried = [unit(n + step[:, None] * (np.cos(t) * u + np.sin(t) * v)) for t in turn]
        found = np.array([gaps(a, b, d) for d in tried])
        at = np.argmax(found, axis=0)
        better = found[at, np.arange(len(n))] > best
        n = np.where(better[:, None], np.array(tried)[at, np.arange(len(n))], n)
        best = np.fmax(best, found.max(axis=0))
        step = np.where(better, step, step / 3)
    return best


def searched(a: Placed, b: Placed) -> Array:
    """Return the largest gap of each pose from four searches.

    The searches start from the best of 400 directions, each near a different local maximum.
    """
    ways, count = sphere_directions(400), len(a.r)
    found = np.array([gaps(a, b, np.repeat(d[None], count, axis=0)) for d in ways])
    best = np.full(count, -np.inf)
    for _ in range(4):
        top = ways[np.argmax(found, axis=0)]
        best = np.fmax(best, pattern_search(a, b, top))
        found[ways @ top.T > 0.9] = -np.inf
    return best


def evaluate_poses(a: Placed, b: Placed, tolerance: float, searches: int) -> Found:
    """Return the results of two shapes in their poses; `searches` of the poses have a search."""
    found = [
        proximity(a.solid.ours, X_a, b.solid.ours, X_b)
        for X_a, X_b in zip(a.transforms(), b.transforms(), strict=True)
    ]
    gap = np.array([one.gap for one in found])
    n, on_a, on_b = (np.array([one[k] for one in found]) for k in (1, 2, 3))
    theirs, normal = by_coal(a, b, tolerance)
    apart = length(on_a - on_b - gap[:, None] * n)
    off = np.max([apart, a.off(on_a, -n), b.off(on_b, n)], axis=0)
    bent = np.fmax(a.bent(on_a, -n), b.bent(on_b, n))
    some = np.flatnonzero(gap < 0)[: 0 if isinstance(b.solid.ours, Plane) else searches]
    best = searched(*(Placed(x.solid, x.E[some], x.r[some]) for x in (a, b)))
    beaten = np.where(np.isnan(normal).any(axis=1), 0.0, gaps(a, b, normal) - gap)
    return Found(gap, theirs, beaten, off, bent, length(n - normal), best - gap[some])


def batches(pair: tuple[str, str], count: int, seed: int) -> Iterator[Found]:
    """Yield the results of `count` pairs of two kinds, one item for each two shapes."""
    rng = np.random.default_rng([seed, *map(KINDS.index, pair)])
    tolerance = 1e-6 if set(pair) & set(CURVED) else 1e-12  # coal is less accurate on curved shapes
    for first in range(0, count, POSES):
        a, b = (random_solid(kind, rng) for kind in pair)
        searches = SEARCHED if first % (10 * POSES) == 0 else 0
        yield evaluate_poses(
            *random_poses(a, b, min(POSES, count - first), rng), tolerance, searches
        )


def concatenate(found: Iterable[Found]) -> Found:
    """Concatenate the results."""
    return Found(*(np.concatenate(each) for each in zip(*found, strict=True)))


def largest(x: Array) -> str:
    """Format the largest number with two digits."""
    return f"{np.max(x, initial=0.0):.1e}"


def row(name: str, found: Found) -> list[str]:
    """Return a row of the table."""
    return [
        name,
        f"{len(found.gap):,}",
        largest(found.beaten),
        largest(found.searched),
        largest(found.off),
        largest(found.bent),
        largest(-found.beaten),
        largest(np.where(found.gap > 0, found.turned, 0.0)),
    ]


def measured(count: int = 37_038, seed: int = 1) -> Iterator[list[str]]:
    """Yield the rows of the table, one for each group of kinds; about a million pairs in total."""
    for name, kinds in GROUPS.items():
        pairs = [pair for pair in PAIRS if next(k for k in ORDER if k in pair) in kinds]
        yield row(name, concatenate(concatenate(batches(pair, count, seed)) for pair in pairs))


HEADS = [
    "",
    "pairs",
    "advantage of coal's normal [m]",
    "advantage of a search [m]",
    "error of the closest points [m]",
    "angle error at curved surfaces [rad]",
    "error of coal's normal in the gap [m]",
    "difference of the normals, separated shapes",
]
ORDER = ("plane", "ellipsoid", "cylinder", "hull", "box", "capsule", "sphere")
GROUPS = {
    "spheres, capsules, boxes and hulls": ORDER[3:],
    "all with a plane": ("plane",),
    "cylinders with these and each other": ("cylinder",),
    "ellipsoids with all but planes": ("ellipsoid",),
}


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    print(" | ".join(HEADS))
    for pair in PAIRS:
        found = concatenate(batches(pair, numbers[0] if numbers else 37_038, *(numbers[1:] or [1])))
        print(" | ".join(row("-".join(pair), found)), flush=True)
