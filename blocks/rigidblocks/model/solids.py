"""The inertias of homogeneous solids, about the origin of a body's frame."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import RigidInertia, Transform, identity, mcI

_CENTRED = identity()


def box_inertia(
    sides: ArrayLike,
    *,
    mass: float | None = None,
    density: float | None = None,
    at: Transform = _CENTRED,
) -> RigidInertia:
    """The inertia of a box with `sides` (3,) [m] around the origin of its frame, to which `at`
    takes the body's coordinates.

    I_C = m/12 diag(b^2 + c^2, a^2 + c^2, a^2 + b^2). Either the `mass` [kg] or the `density`
    [kg/m^3] is given; raises ValueError for both, for neither, and for what is not positive.
    """
    a, b, c = _sizes("the sides of a box", sides, 3)
    m = _mass(a * b * c, mass, density)
    squares = np.array([b * b + c * c, a * a + c * c, a * a + b * b])
    return _placed(m, squares / 12, at)


def sphere_inertia(
    radius: float,
    *,
    mass: float | None = None,
    density: float | None = None,
    at: Transform = _CENTRED,
) -> RigidInertia:
    """The inertia of a ball with `radius` [m] around the origin of its frame: I_C = 2/5 m r^2 1.

    `at`, `mass`, `density` and what is raised are as in `box_inertia`.
    """
    (r,) = _sizes("the radius of a sphere", radius, 1)
    m = _mass(4 / 3 * np.pi * r**3, mass, density)
    return _placed(m, np.full(3, 0.4 * r * r), at)


def cylinder_inertia(
    radius: float,
    height: float,
    *,
    mass: float | None = None,
    density: float | None = None,
    at: Transform = _CENTRED,
) -> RigidInertia:
    """The inertia of a cylinder along the z axis of its frame, around the origin, with `radius` and
    `height` [m]: I_C = m diag(r^2/4 + h^2/12, r^2/4 + h^2/12, r^2/2).

    `at`, `mass`, `density` and what is raised are as in `box_inertia`.
    """
    r, h = _sizes("radius and height of a cylinder", [radius, height], 2)
    m = _mass(np.pi * r * r * h, mass, density)
    side = r * r / 4 + h * h / 12
    return _placed(m, np.array([side, side, r * r / 2]), at)


def capsule_inertia(
    radius: float,
    height: float,
    *,
    mass: float | None = None,
    density: float | None = None,
    at: Transform = _CENTRED,
) -> RigidInertia:
    """The inertia of a capsule along the z axis of its frame, around the origin: a cylinder with
    `radius` and `height` [m], and half a ball on each end.

    `at`, `mass`, `density` and what is raised are as in `box_inertia`.
    """
    r, h = _sizes("radius and height of a capsule", [radius, height], 2)
    tube, ball = np.pi * r * r * h, 4 / 3 * np.pi * r**3
    m = _mass(tube + ball, mass, density)
    part = tube / (tube + ball)  # of the mass that is in the cylinder
    side = part * (r * r / 4 + h * h / 12)
    side += (1 - part) * (0.4 * r * r + h * h / 4 + 3 / 8 * h * r)
    along = part * r * r / 2 + (1 - part) * 0.4 * r * r
    return _placed(m, np.array([side, side, along]), at)


def _sizes(what: str, values: ArrayLike, count: int) -> Any:
    sizes = np.atleast_1d(np.asarray(values, dtype=float))
    if sizes.shape != (count,) or not np.all(np.isfinite(sizes)) or np.any(sizes <= 0):
        raise ValueError(f"{what} must be {count} positive numbers, not {sizes.tolist()}")
    return sizes


def _mass(volume: float, mass: float | None, density: float | None) -> float:
    """The mass of a solid with a volume [m^3]."""
    if (mass is None) == (density is None):
        raise ValueError("a solid needs either its mass [kg] or its density [kg/m^3]")
    m = mass if density is None else density * volume
    if m is None or not 0 < m < np.inf:
        raise ValueError(f"the mass of a solid must be positive, not {m} kg")
    return float(m)


def _placed(m: float, moments_per_kg: Any, at: Transform) -> RigidInertia:
    inertia: RigidInertia = mcI(m, np.zeros(3), m * np.diag(moments_per_kg)).to_parent(at)
    return inertia
