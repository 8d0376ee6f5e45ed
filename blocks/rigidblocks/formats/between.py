"""What files say of two links: springs between their points, and that they do not touch."""

from collections.abc import Mapping
from itertools import combinations, product

from rigidblocks.algebra.spatial import Array
from rigidblocks.formats.description import Place, PointSpring
from rigidblocks.formats.listed import Assembly, Stretched

Places = Mapping[str, Place]


def springs(listed: Assembly, places: Places) -> tuple[PointSpring, ...]:
    """The springs between two points, on the bodies of their links."""
    return tuple(_spring(one, places) for one in listed.springs)


def _spring(one: Stretched, places: Places) -> PointSpring:
    ends = [(places[link].body, _in_body(places[link], p)) for link, p in one.ends]
    ends.sort(key=lambda end: end[0] < 0)  # the base comes last
    (body, point), (other, other_point) = ends
    law = one.stiffness, one.damping, one.rest
    return PointSpring(one.name, body, point, other, other_point, *law)


def _in_body(place: Place, p: Array) -> tuple[float, float, float]:
    """A point of a link in the coordinates of its body."""
    X = place.placement
    x, y, z = (X.r + X.E.T @ p).tolist()
    return x, y, z


def apart(listed: Assembly, places: Places) -> tuple[tuple[int, int], ...]:
    """The pairs of bodies, -1 the base, none of whose links touch each other."""
    if not listed.apart:
        return ()
    pairs = {frozenset(pair) for pair in listed.apart}
    touching = [link.name for link in listed.links if len(link.contact)]
    bodies: dict[int, list[str]] = {}
    for name in dict.fromkeys((*touching, *(name for name, _ in listed.planes))):
        bodies.setdefault(places[name].body, []).append(name)
    return tuple(
        (i, j)
        for i, j in combinations(sorted(bodies), 2)
        if all(frozenset(pair) in pairs for pair in product(bodies[i], bodies[j]))
    )
