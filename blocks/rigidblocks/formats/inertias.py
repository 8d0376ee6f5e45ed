"""The inertias of links, as files say them."""

from collections.abc import Iterable, Sequence

import numpy as np

from rigidblocks.algebra.frozen import floats_of_shape
from rigidblocks.algebra.spatial import (
    STRAIGHT,
    Array,
    RigidInertia,
    Transform,
    first_and_second_moments,
    symmetric_inertia,
)
from rigidblocks.formats.document import Element, Origin, refused, rotation

Moments = Sequence[float]


def inertia(element: Element, link: str, m: float, X: Transform, moments: Moments) -> RigidInertia:
    """The inertia of a link with the mass `m` [kg] from the `moments` xx, xy, xz, yy, yz, zz [kg
    m^2] about its centre of mass, in a frame there to which X takes the link's coordinates.

    Raises FormatError, at the element, for a negative mass or moment. Products of inertia that do
    not fit the moments are published with robots; they are judged with the whole.
    """
    return symmetric_inertia(m, X.r.tolist(), _turned(element, link, m, X.E, moments))


def inertias(
    given: Iterable[tuple[Element, str, float, Origin, Moments]],
) -> list[RigidInertia]:
    """The `inertia` of each of several links, all of whose numbers are in two arrays."""
    masses, h, I = list[float](), list[float](), list[float]()
    for element, link, m, (c, rpy), moments in given:
        E = rotation(rpy) if any(rpy) else STRAIGHT
        first, second = first_and_second_moments(m, c, _turned(element, link, m, E, moments))
        masses.append(m)
        h += first
        I += second
    n = len(masses)
    return list(
        map(RigidInertia, masses, floats_of_shape((n, 3), h), floats_of_shape((n, 3, 3), I))
    )


def _turned(element: Element, link: str, m: float, E: Array, moments: Moments) -> Moments:
    """The moments in a frame parallel to the link's, of a link that they are possible for."""
    xx, xy, xz, yy, yz, zz = moments
    if m < 0:
        raise refused(element, f"the mass of link '{link}' is {m} kg; it must not be negative")
    if min(xx, yy, zz) < -1e-12 * m:
        text = f"{[xx, yy, zz]} kg m^2; none may be negative"
        raise refused(element, f"the moments of inertia of link '{link}' are {text}")
    if E is STRAIGHT:
        return moments
    I_C = E.T @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ E
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = ((I_C + I_C.T) / 2).tolist()
    return xx, xy, xz, yy, yz, zz
