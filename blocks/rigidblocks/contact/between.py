"""Contact between the bodies of a model: points of one against a surface that another one
carries.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rigidblocks.algebra.factored import factored
from rigidblocks.algebra.spatial import Array, Transform, cross, identity
from rigidblocks.contact.points import body_points, check_corners
from rigidblocks.dynamics.kinematics import body_poses, body_velocities
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Surface


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class ContactPair:
    """The points of body `touching`, those of its shapes in the model's field `contact`, against
    the `surface` of another.

    The surface is in the coordinates of body `touched`, and moves with it; -1 is the base.
    """

    touching: int
    touched: int
    surface: Surface


@dataclass(frozen=True, eq=False)
class PairPoints:
    """The n contact points of a pair: their `position` (n, 3) [m] in the touching body, `reach`
    (n,) [m] around each.
    """

    pair: ContactPair
    position: Array
    reach: Array


@dataclass(frozen=True, eq=False)
class PairMotion:
    """How the points of a pair are and move against its surface, in the coordinates of the touched
    body.

    `p` (n, 3) [m] and `v` (n, 3) [m/s]; `w` (3,) [rad/s] is the angular velocity of the touching
    body against the touched one. `X` takes base coordinates to those of the touched body.
    """

    p: Array
    v: Array
    w: Array
    X: Transform


def pair_points(model: Model, pairs: Sequence[ContactPair]) -> tuple[PairPoints, ...]:
    """The contact points of each pair.

    Raises ValueError for bodies that the model has not, a body against itself, a touching body
    without shapes and one whose points are not enough (`check_corners`), and TypeError for a
    surface that is none.
    """
    for k, pair in enumerate(pairs):
        _check_pair(model, k, pair)
        check_corners(model, [pair.touching], pair.surface)
    points = body_points(model)
    found = []
    for k, pair in enumerate(pairs):
        of_body = np.array(points.body) == pair.touching
        if not of_body.any():
            name = model.body_names[pair.touching]
            raise ValueError(
                f"pair {k} has nothing to touch with: list shapes of {name} in the model's field "
                "`contact`"
            )
        found.append(PairPoints(pair, points.position[of_body], points.reach[of_body]))
    return tuple(found)


def _check_pair(model: Model, k: int, pair: ContactPair) -> None:
    given = ((pair.touching, 0), (pair.touched, -1))
    if bad := [body for body, least in given if not least <= body < model.nb]:
        raise ValueError(
            f"pair {k} is of body {bad[0]}; model '{model.name}' has the bodies 0 .. {model.nb - 1}"
        )
    if pair.touching == pair.touched:
        raise ValueError(
            f"pair {k} is of body {pair.touching} against itself; contact is between two bodies"
        )
    if not isinstance(pair.surface, Surface):
        raise TypeError(
            f"the surface of pair {k} must be a Surface such as Box(sides), not {pair.surface!r}"
        )


def pair_motions(
    model: Model, q: Array, qd: Array, points: Sequence[PairPoints]
) -> list[PairMotion]:
    """How the points of each pair move against its surface: those of a body that moves with v_i -
    v_j.
    """
    X0, v = [*body_poses(model, q), identity()], [*body_velocities(model, q, qd), np.zeros(6)]
    return [
        _pair_motion(
            X0[some.pair.touching],
            X0[some.pair.touched],
            v[some.pair.touching],
            v[some.pair.touched],
            some,
        )
        for some in points
    ]


def _pair_motion(
    X_i: Transform, X_j: Transform, v_i: Array, v_j: Array, points: PairPoints
) -> PairMotion:
    X = factored(X_j, X_i.inverse())  # from the touching to the touched body
    v = X @ v_i - v_j
    E, r = X.E, X.r
    p = np.array([E @ (position - r) for position in points.position])
    return PairMotion(p, np.array([v[3:] + cross(v[:3], p_k) for p_k in p]), v[:3], X_j)
