"""What a robot looks like: the shapes that its file or its maker gave it, or else links as rods
between their joints.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array, Transform, identity, xlt
from rigidblocks.joint import Joint
from rigidblocks.model.convex import Capsule, ConvexHull, Ellipsoid
from rigidblocks.model.figures import Polyhedron, Polyline
from rigidblocks.model.shapes import Box, Cylinder, PointSet, Shape, Sphere
from rigidblocks.model.tree import Tree

PALETTE = (
    (0.13, 0.45, 0.65),
    (0.90, 0.55, 0.16),
    (0.30, 0.62, 0.42),
    (0.78, 0.29, 0.32),
    (0.49, 0.40, 0.66),
    (0.24, 0.66, 0.70),
    (0.62, 0.52, 0.36),
    (0.85, 0.47, 0.62),
)
METAL, DARK = (0.56, 0.60, 0.64), (0.20, 0.24, 0.28)
MOST_CORNERS = 40  # of a hull that is drawn
THIN = 0.045  # of the length of a usual link: the radius of a rod that stands for it


@dataclass(frozen=True, eq=False)
class Solid:
    """A box, sphere, cylinder, capsule, ellipsoid or mesh on a body, -1 the base, or a rod from
    there to another body.

    `size` [m] are the sides of a box, the semi-axes of an ellipsoid, the radius of a sphere or rod,
    radius and height along z of the others; `placement` takes the body's coordinates to the
    solid's. A rod goes from the point `start` of the body to the point `end` of the body `other`,
    however far apart they are. `points` (n, 9) [m] are the triangles of a mesh, in its coordinates.
    Only what is of the layer "links" is seen from the beginning; `opacity` is 1 where nothing
    shines through. The camera need not see what is `aside`.
    """

    kind: str
    body: int
    size: tuple[float, ...]
    colour: tuple[float, float, float]
    placement: Transform = field(default_factory=identity)
    layer: str = "links"
    other: int = -1
    start: Any = (0.0, 0.0, 0.0)
    end: Any = (0.0, 0.0, 0.0)
    points: Any = None
    opacity: float = 1.0
    aside: bool = False


def solids(model: Tree, bare: Collection[int] | None = None) -> tuple[Solid, ...]:
    """The solids of all bodies of a model: the shapes of its field `appearance`, else those that
    touch, and of bodies without any, rods from their joint to those of their children and to their
    ends of loops; what touches in a layer of its own. Of a model with meshes the `bare` bodies
    alone, which have none, are rods.
    """
    appearance = getattr(model, "appearance", ()) or ((),) * model.nb
    contact = getattr(model, "contact", ()) or ((),) * model.nb
    radius = THIN * usual_length(model)
    found: list[Solid] = []
    for i in range(model.nb):
        colour = PALETTE[i % len(PALETTE)]
        bulky = tuple(one for one in contact[i] if not isinstance(one, PointSet))
        is_seen = bare is not None and i not in bare
        seen = appearance[i] or (() if is_seen else bulky)
        found += of_shapes(seen, i, colour, dot=radius / 2)
        is_whole = any(not isinstance(one, Sphere) for one in seen)
        if not (is_seen or is_whole):
            # where two links end in one place, one of the two is seen
            found += _link(model, i, (1.0 - 0.02 * (i % 4)) * radius, colour)
        found += of_shapes(contact[i], i, PALETTE[3], "contact shapes", radius / 2)
    found += _base(model, radius) if bare is None else ()
    return tuple(found)


def of_shapes(
    shapes: Sequence[Shape],
    body: int,
    colour: tuple[float, float, float],
    layer: str = "links",
    dot: float = 0.01,
) -> Iterator[Solid]:
    """The solids of shapes on a body; points are spheres with the radius `dot` [m]."""
    for shape in shapes:
        match shape:
            case Box() | Cylinder() | Sphere() | Capsule() | Ellipsoid():
                yield Solid(
                    type(shape).__name__.lower(), body, _size(shape), colour, _at(shape), layer
                )
            case PointSet():
                for point in shape.points:
                    yield Solid("sphere", body, (dot,), colour, xlt(point), layer)
            case ConvexHull():
                yield Solid("mesh", body, (), colour, layer=layer, points=_hull(shape.points))
            case Polyhedron():
                corners = shape.points[shape.faces].reshape(-1, 9)
                yield Solid("mesh", body, (), colour, layer=layer, points=corners)
            case Polyline():
                for a, b in pairwise(shape.points):
                    ends = {"other": body, "start": a, "end": b}
                    yield Solid("rod", body, (dot / 2,), colour, layer=layer, **ends)


def _size(shape: Box | Cylinder | Sphere | Capsule | Ellipsoid) -> tuple[float, ...]:
    match shape:
        case Box():
            return tuple(np.ravel(shape.sides).tolist())
        case Ellipsoid():
            return tuple(np.ravel(shape.semi_axes).tolist())
        case Sphere():
            return (float(shape.radius),)
    return float(shape.radius), float(shape.height)


def _at(shape: Box | Cylinder | Sphere | Capsule | Ellipsoid) -> Transform:
    return xlt(np.asarray(shape.centre)) if isinstance(shape, Sphere) else shape.placement


def _hull(points: Array) -> Array:
    """The triangles (n, 9) of the hull of points (k, 3): those with all others on one side. Of many
    points only some are taken, each as far from those before as can be.
    """
    chosen = [0]
    distance = np.full(len(points), np.inf)
    while len(chosen) < min(len(points), MOST_CORNERS):
        distance = np.minimum(distance, np.linalg.norm(points - points[chosen[-1]], axis=1))
        chosen.append(int(np.argmax(distance)))
    points = points[chosen]
    corners = np.array(list(combinations(range(len(points)), 3)))
    a, b, c = np.moveaxis(points[corners], 1, 0)
    normal = np.cross(b - a, c - a)
    height = normal @ points.T - np.sum(normal * a, axis=1)[:, None]
    least = 1e-9 * float(np.ptp(points, axis=0).max()) ** 3
    one, other = (height > least).any(axis=1), (height < -least).any(axis=1)
    return np.asarray(points[corners[one != other]].reshape(-1, 9))


def in_space(X: Any) -> Transform:
    """A spatial transform: a planar one as that of the plane z = 0."""
    if len(X.r) == 3:
        return Transform(np.asarray(X.E), np.asarray(X.r))
    E = np.eye(3)
    E[:2, :2] = X.E
    return Transform(E, np.append(X.r, 0.0))


def usual_length(model: Tree) -> float:
    """The length of a usual link [m]: the median of the distances from the bodies' joints to
    places on them, 1 where there is none.
    """
    far = [float(np.linalg.norm(p)) for i in range(model.nb) for p in places_on(model, i)]
    far += [2.0 * float(np.linalg.norm(centre_of_mass(model, i))) for i in range(model.nb)]
    far = [x for x in far if x > 1e-6]
    return float(np.median(far)) if far else 1.0


def places_on(model: Tree, body: int) -> list[Array]:
    """Where on a body joints are: those of its children, and its ends of loops."""
    places = [in_space(X).r for p, X in zip(model.parent, model.Xtree, strict=True) if p == body]
    for loop in model.loops:
        places += [in_space(loop.Xp).r] if loop.predecessor == body else []
        places += [in_space(loop.Xs).r] if loop.successor == body else []
    return places


def centre_of_mass(model: Tree, body: int) -> Array:
    """The centre of mass of a body (3,) [m], its origin where it has no mass."""
    inertia = model.inertia[body]
    if model.body_names[body] in model.massless or not inertia.m > 0:
        return np.zeros(3)
    c = np.asarray(inertia.h, dtype=float) / inertia.m
    return np.append(c, np.zeros(3 - len(c)))


def _link(
    model: Tree, body: int, radius: float, colour: tuple[float, float, float]
) -> Iterator[Solid]:
    """The rods of a body without a shape, and a ball where its joint is."""
    places, centre = places_on(model, body), centre_of_mass(model, body)
    if slides(model.joint[body]):
        X, parent = in_space(model.Xtree[body]), model.parent[body]
        yield Solid("rod", parent, (0.6 * radius,), METAL, other=body, start=X.r)
    is_empty = model.body_names[body] in model.massless
    if not any(np.linalg.norm(p) > radius for p in places):
        places = [*places, 2.0 * centre]
    for p in places:
        if np.linalg.norm(p) > 1e-9:
            yield _capsule(body, np.zeros(3), p, radius, colour)
    if not is_empty:
        yield Solid("sphere", body, (1.5 * radius,), colour)


def _capsule(
    body: int, a: Array, b: Array, radius: float, colour: tuple[float, float, float]
) -> Solid:
    along = Cylinder.between(a, b, radius)
    return Solid("capsule", body, (radius, float(along.height)), colour, along.placement)


def axis_of(joint: Joint) -> Array | None:
    """The axis (3,) of a joint of one freedom in its own frames; None of another."""
    if joint.nv != 1 or joint.nq != 1:
        return None
    S = np.asarray(joint.jcalc(np.zeros(1), np.zeros(1)).S, dtype=float).ravel()
    if len(S) == 3:  # planar: [w; vx; vy]
        axis = np.array([0.0, 0.0, 1.0]) if S[0] else np.append(S[1:], 0.0)
    else:
        axis = S[:3] if np.any(S[:3]) else S[3:]
    size = float(np.linalg.norm(axis))
    return axis / size if size else None


def slides(joint: Joint) -> bool:
    """Whether a joint of one or two freedoms moves the origin of its body."""
    if joint.nv > 2 or joint.nq != joint.nv or not joint.nv:
        return False
    return bool(np.any(joint.jcalc(np.full(joint.nq, 0.1), np.zeros(joint.nv)).XJ.r))


def _base(model: Tree, radius: float) -> Iterator[Solid]:
    """A ball of metal where joints are on the base, but one that floats or has a shape."""
    shown = getattr(model, "appearance", ())
    for i, (parent, X) in enumerate(zip(model.parent, model.Xtree, strict=True)):
        if parent < 0 and model.joint[i].nv <= 2 and not (shown and shown[i]):
            place = in_space(X).r
            yield Solid("sphere", -1, (1.7 * radius,), METAL, xlt(place))
    for loop in model.loops:
        for body, X in ((loop.predecessor, loop.Xp), (loop.successor, loop.Xs)):
            if body < 0:
                yield Solid("sphere", -1, (1.7 * radius,), METAL, xlt(in_space(X).r))
