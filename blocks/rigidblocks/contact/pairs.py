"""Where the shapes of a model may touch a plane or each other, as contacts at points that move with
it (RBDA 11.6).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.contact.points import body_points, point_motion
from rigidblocks.contact.unilateral import PointContact
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Plane, Sphere


def plane_contacts(
    model: Model, q: Array, qd: Array, ground: Plane | None = None, mu: Any = 0.0
) -> list[PointContact]:
    """The contacts of all points and spheres of a model with a plane of the base, z = 0 unless
    given.

    They are in the order of `body_points`. q and qd may be traced. The surfaces of a sphere and a
    plane touch at a point that moves with the sphere's centre.
    """
    ground = Plane() if ground is None else ground
    points, n = body_points(model), np.asarray(ground.normal)
    p, v, _ = point_motion(model, q, qd, points)
    gaps = [
        n @ p_i - n @ np.asarray(ground.point) - reach
        for p_i, reach in zip(p, points.reach, strict=True)
    ]
    return [
        PointContact(
            body, p_i - reach * n, n, mu=mu, gap=gap,
            point_rate=v_i if reach else None, normal_rate=np.zeros(3),
        )
        for body, p_i, v_i, gap, reach in zip(points.body, p, v, gaps, points.reach, strict=True)
    ]  # fmt: skip


def sphere_contacts(
    model: Model, q: Array, qd: Array, pairs: Sequence[tuple[int, int]], mu: Any = 0.0
) -> list[PointContact]:
    """The contacts of pairs of a model's contact points, numbered as in `body_points`, with the
    spheres about them.

    The normal is from the first to the second. q and qd may be traced. Raises ValueError for a pair
    of points that are both without a sphere, for these have no normal where they touch.
    """
    points = body_points(model)
    p, v, _ = point_motion(model, q, qd, points)
    found = []
    for a, b in pairs:
        r_a, r_b = points.reach[a], points.reach[b]
        if not r_a + r_b > 0:
            raise ValueError(
                f"the contact points {a} and {b} of model '{model.name}' are both without a sphere"
            )
        gap, n = Sphere(float(r_a + r_b)).gap(p[b] - p[a])
        rate = v[b] - v[a]
        n_rate = (rate - (n @ rate) * n) / (gap + r_a + r_b)
        found.append(
            PointContact(
                points.body[b],
                p[a] + r_a * n,
                n,
                points.body[a],
                mu,
                gap,
                v[a] + r_a * n_rate,
                n_rate,
            )
        )
    return found
