"""Mechanisms with kinematic loops, each with a start that closes them: the examples of RBDA chapter
8 and of Spencer 2004.

Planar ones are in planar vectors, with gravity (0, -9.81); `in_space` makes a spatial model of
them.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra import planar, spatial
from rigidblocks.algebra.spatial import Array, RigidInertia, mcI, rotx, xlt
from rigidblocks.joint import (
    LoopJoint,
    PlanarPrismatic,
    PlanarRevolute,
    Prismatic,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
)
from rigidblocks.model.model import Model
from rigidblocks.model.planar import PlanarModel
from rigidblocks.model.tree import Tree
from rigidblocks.pictures import Picture, picture

GRAVITY = np.array([0.0, -9.81])
PIN = PlanarRevolute()


class Mechanism(NamedTuple):
    """A model with loops, and q0 (nq,) and qd0 (nv,) that keep them closed."""

    model: Tree
    q0: Array
    qd0: Array

    def __repr__(self) -> str:
        return f"<Mechanism of {self.model!r}>"

    def show(self, q: Any = None, path: str | Path | None = None) -> Picture:
        """The page of the mechanism at q (nq,), or q0, with a slider for each joint, which keep its
        loops closed, as of `show`.
        """
        return picture(self, q, path)


def four_bar(
    crank: float = 0.5,
    coupler: float = 1.5,
    rocker: float = 1.0,
    ground: float = 1.2,
    angle: float = 1.0,
    up: bool = True,
) -> Mechanism:
    """Three bars of these lengths [m] and 1 kg/m, pinned to the ground in two places `ground` [m]
    apart along x, at rest.

    q = (crank, coupler on the crank, rocker) [rad]; the loop joint pins the coupler's tip to the
    rocker's. The crank starts at `angle` [rad], and of the two places where the bars can meet it is
    the one to the left of the line from the crank's tip to the rocker's support, or to its right if
    not `up`. Raises ValueError where they cannot meet.
    """
    tip, support = _along(crank, angle), np.array([ground, 0.0])
    pin = _meeting(tip, support, coupler, rocker, up)
    along, rocker_angle = _direction(pin - tip), _direction(pin - support)
    model = PlanarModel(
        "four_bar",
        (-1, 0, -1),
        (PIN,) * 3,
        (planar.identity(), planar.xlt([crank, 0.0]), planar.xlt(support)),
        tuple(_rod(length, length) for length in (crank, coupler, rocker)),
        GRAVITY,
        ("crank", "coupler", "rocker"),
        ("crank_support", "elbow", "rocker_support"),
        loops=(LoopJoint(PIN, 1, 2, planar.xlt([coupler, 0.0]), planar.xlt([rocker, 0.0]), "pin"),),
    )
    return Mechanism(model, np.array([angle, along - angle, rocker_angle]), np.zeros(3))


def n_four_bar(n: int, angle: float = 0.0, speed: float = 1.0) -> Mechanism:
    """The N-four-bar mechanism of the IFToMM benchmark problems: n windows of 2 n + 1 uniform bars
    of 1 m and 1 kg.

    There are n + 1 bars on the ground, 1 m apart, and a coupler from each to the next; the loop
    joints pin the tip of a coupler to that of the next bar. The bars start at `angle` [rad] from
    upright, to the right, and turn that way at `speed` [rad/s]. In line with the ground all
    couplers may fold: the mechanism is singular. It has one degree of freedom elsewhere, its angle
    th from upright:

        ((n + 1)/3 + n) d2th/dt2 = g ((n + 1)/2 + n) sin th
    """
    if n < 1:
        raise ValueError(f"an N-four-bar mechanism needs at least 1 window, not {n}")
    names = [f"{what}{i}" for i in range(n) for what in ("bar", "coupler")] + [f"bar{n}"]
    on_bar = [k % 2 == 1 for k in range(2 * n + 1)]
    end = planar.xlt([1.0, 0.0])
    model = PlanarModel(
        f"n_four_bar_{n}",
        tuple(k - 1 if coupler else -1 for k, coupler in enumerate(on_bar)),
        (PIN,) * (2 * n + 1),
        tuple(end if coupler else planar.xlt([k / 2, 0.0]) for k, coupler in enumerate(on_bar)),
        (_rod(1.0, 1.0),) * (2 * n + 1),
        GRAVITY,
        tuple(names),
        loops=tuple(
            LoopJoint(PIN, 2 * k + 1, 2 * k + 2, end, end, f"pin{k + 1}") for k in range(n)
        ),
    )
    turned = np.where(on_bar, -1.0, 1.0)
    return Mechanism(model, turned * (np.pi / 2 - angle), -turned * speed)


def five_bar(
    left: float = 2 * np.pi / 3, right: float = np.pi / 3, apex_up: bool = True
) -> Mechanism:
    """The five-bar mechanism of Spencer 2004, 3.2: lower links of 1 m, 2 kg and 1 kg m^2 about
    their centres, upper ones of 1.5 m, 3 kg and 2 kg m^2, on supports 1 m apart, at rest.

    q = (left lower link, left upper on it, right lower, right upper on it) [rad]; the loop joint
    pins the upper links together. The lower links start at the angles `left` and `right` from the x
    axis, with the apex to the left of the line from the left knee to the right one, or to its right
    if not `apex_up`. The second example of the thesis is the default, the first one, in which all
    links are in line, is five_bar(pi, 0).
    """
    lower, upper, base = 1.0, 1.5, np.array([1.0, 0.0])
    knees = _along(lower, left), base + _along(lower, right)
    apex = _meeting(*knees, upper, upper, apex_up)
    left_upper, right_upper = (_direction(apex - knee) for knee in knees)
    link = (planar.mcI(2.0, [lower / 2, 0.0], 1.0), planar.mcI(3.0, [upper / 2, 0.0], 2.0))
    end, tip = planar.xlt([lower, 0.0]), planar.xlt([upper, 0.0])
    model = PlanarModel(
        "five_bar",
        (-1, 0, -1, 2),
        (PIN,) * 4,
        (planar.identity(), end, planar.xlt(base), end),
        link * 2,
        GRAVITY,
        ("left_lower", "left_upper", "right_lower", "right_upper"),
        ("left_support", "left_knee", "right_support", "right_knee"),
        loops=(LoopJoint(PIN, 1, 3, tip, tip, "apex"),),
    )
    q0 = np.array([left, left_upper - left, right, right_upper - right])
    return Mechanism(model, q0, np.zeros(4))


def slider_crank(
    crank: float = 0.3,
    rod: float = 1.0,
    offset: float = 0.0,
    slider_mass: float = 1.0,
    angle: float = 1.0,
) -> Mechanism:
    """A crank and a rod of these lengths [m] and 1 kg/m, and a slider on the line y = `offset`, at
    rest.

    q = (crank [rad], rod on the crank [rad], slider along x [m]); the loop joint pins the rod's tip
    to the slider, which starts on the right. Raises ValueError where the rod does not reach the
    line.
    """
    x, y = _along(crank, angle)
    if abs(offset - y) > rod:
        raise ValueError(
            f"a rod of {rod} m from y = {y:.6g} m does not reach the slider's line y = {offset} m"
        )
    reach = np.sqrt(rod**2 - (offset - y) ** 2)
    model = PlanarModel(
        "slider_crank",
        (-1, 0, -1),
        (PIN, PIN, PlanarPrismatic("x")),
        (planar.identity(), planar.xlt([crank, 0.0]), planar.xlt([0.0, offset])),
        (
            _rod(crank, crank),
            _rod(rod, rod),
            planar.mcI(slider_mass, [0.0, 0.0], 0.01 * slider_mass),
        ),
        GRAVITY,
        ("crank", "rod", "slider"),
        ("crank_support", "crank_pin", "guide"),
        loops=(LoopJoint(PIN, 1, 2, planar.xlt([rod, 0.0]), planar.identity(), "wrist_pin"),),
    )
    return Mechanism(
        model, np.array([angle, np.arctan2(offset - y, reach) - angle, x + reach]), np.zeros(3)
    )


def actuator_triangle(
    l1: float = 0.8, l2: float = 0.5, y1: float = 0.5, y2: float = 0.3
) -> Mechanism:
    """An arm of two links that a linear actuator moves (RBDA Figure 8.3), at rest.

    q = (y1 of the arm, theta2 of the cylinder, length d of the actuator [m], y2 of the forearm):
    the cylinder stands `l1` [m] along x from the arm's support, and the loop joint pins the piston
    to the arm `l2` [m] from there.

        d^2 = l1^2 + l2^2 - 2 l1 l2 cos y1,    theta2 = atan2(l2 sin y1, l2 cos y1 - l1)
    """
    to_pin = _along(l2, y1) - np.array([l1, 0.0])
    model = PlanarModel(
        "actuator_triangle",
        (-1, -1, 1, 0),
        (PIN, PIN, PlanarPrismatic("x"), PIN),
        (planar.identity(), planar.xlt([l1, 0.0]), planar.identity(), planar.xlt([1.0, 0.0])),
        (_rod(1.0, 3.0), _rod(0.4, 1.0), planar.mcI(0.5, [-0.2, 0.0], 0.01), _rod(0.7, 1.5)),
        GRAVITY,
        ("arm", "cylinder", "piston", "forearm"),
        ("arm_support", "cylinder_support", "stroke", "elbow"),
        loops=(LoopJoint(PIN, 2, 0, planar.identity(), planar.xlt([l2, 0.0]), "piston_pin"),),
    )
    return Mechanism(model, np.array([y1, _direction(to_pin), np.hypot(*to_pin), y2]), np.zeros(4))


def in_space(mechanism: Mechanism) -> Mechanism:
    """The same mechanism in spatial vectors, `PlanarModel.in_space`: it moves in the plane z = 0 as
    the planar one does, with the same variables.
    """
    model = mechanism.model
    if not isinstance(model, PlanarModel):
        raise TypeError(f"'{model.name}' is a {type(model).__name__}; it must be a PlanarModel")
    return mechanism._replace(model=model.in_space())


def bennett(
    a: float = 1.0, alpha: float = np.pi / 3, beta: float = np.pi / 2, angle: float = 1.0
) -> Mechanism:
    """Bennett's linkage: four revolute joints that neither meet nor are parallel and yet move, at
    rest.

    Links of length a [m] and twist alpha [rad] alternate with those of length b and twist beta, a /
    sin(alpha) = b / sin(beta); one of the latter is the ground. q = (q1, q2, q3) with q1 = `angle`:

        tan(q1/2) tan(q2/2) = sin((beta + alpha)/2) / sin((beta - alpha)/2),    q3 = -q1

    so that alpha and beta must differ. Three of the loop's five constraints depend on the other
    two.
    """
    if min(np.abs(np.sin([(beta - alpha) / 2, alpha, angle / 2]))) < 1e-9:
        raise ValueError(
            "a Bennett linkage needs twists that differ and are not 0, and an angle other than 0, "
            f"not {alpha}, {beta} "
            f"and {angle}"
        )
    b = a * np.sin(beta) / np.sin(alpha)
    ratio = np.sin((beta + alpha) / 2) / np.sin((beta - alpha) / 2)
    across, along = rotx(alpha) @ xlt([a, 0.0, 0.0]), rotx(beta) @ xlt([b, 0.0, 0.0])
    model = Model(
        "bennett",
        (-1, 0, 1),
        (Revolute(),) * 3,
        (spatial.identity(), across, along),
        tuple(_bar(length, [1.0, 0.0, 0.0]) for length in (a, b, a)),
        np.array([0.0, *GRAVITY]),
        loops=(LoopJoint(Revolute(), 2, -1, across, along.inverse(), "closure"),),
    )
    q2 = 2 * np.arctan(ratio / np.tan(angle / 2))
    return Mechanism(model, np.array([angle, q2, -angle]), np.zeros(3))


def sarrus(length: float = 1.0, radius: float = 0.5, angle: float = 0.6) -> Mechanism:
    """The linkage of Sarrus: two pairs of hinged bars in planes at right angles, between which a
    platform goes straight up and down, at rest.

    The bars have this `length` [m] and lean outward by `angle` [rad] from upright; the platform is
    on the first pair, and the loop joint hinges the second to it. q = (angle, -2 angle, angle,
    -angle, 2 angle), at all times.
    """
    first, second, up = Revolute((0.0, 1.0, 0.0)), Revolute((1.0, 0.0, 0.0)), [0.0, 0.0, 1.0]
    end, bar = xlt([0.0, 0.0, length]), _bar(length, up)
    platform = mcI(2.0, [-radius, 0.0, 0.0], np.diag([0.1, 0.1, 0.2]))
    model = Model(
        "sarrus",
        (-1, 0, 1, -1, 3),
        (first, first, first, second, second),
        (xlt([radius, 0.0, 0.0]), end, end, xlt([0.0, radius, 0.0]), end),
        (bar, bar, platform, bar, bar),
        body_names=("lower1", "upper1", "platform", "lower2", "upper2"),
        loops=(LoopJoint(second, 4, 2, end, xlt([-radius, radius, 0.0]), "hinge"),),
    )
    return Mechanism(model, angle * np.array([1.0, -2.0, 1.0, -1.0, 2.0]), np.zeros(5))


def stewart_platform(
    height: float = 1.0, position: ArrayLike = (0.0, 0.0), mass: float = 10.0
) -> Mechanism:
    """A platform on six legs, each on a universal joint, with a prismatic joint in it and a ball
    joint at its end, at rest.

    Body 0 is the platform, a disc of 0.6 m and `mass` [kg] that starts level at this `height` and
    `position` (x, y) [m]; then come the cylinder and the piston of each leg. q = (quaternion and
    place of the platform, then for each leg the two angles [rad] and the length [m]). The loop
    joints are the balls.

    The platform has six freedoms of its own in the tree, and all legs and loops are alike. Hung on
    one of the legs it would need a loop less; its constraints are conditioned as well then (1.3 in
    mass-weighted coordinates), its inertia matrix is not (63 for 29).
    """
    feet, ends = _hexagons(0.9, 0.5, np.radians(15.0))
    place = np.array([*np.asarray(position, dtype=float), height])
    legs = [_leg(place + end - foot) for foot, end in zip(feet, ends, strict=True)]
    q0 = np.concatenate([[1.0, 0.0, 0.0, 0.0], place, *legs])
    return Mechanism(_platform_on_legs(mass, feet, ends), q0, np.zeros(24))


def _hexagons(foot_radius: float, end_radius: float, spread: float) -> tuple[Array, Array]:
    """The feet and the upper ends (6, 3) of six legs, in pairs `spread` [rad] from three spokes:
    those of the feet, and those half way between for the ends.
    """
    turns = np.repeat(np.arange(3) * 2 * np.pi / 3, 2)
    feet = _circle(foot_radius, turns + np.tile([-spread, spread], 3))
    return feet, _circle(end_radius, turns + np.tile([spread - np.pi / 3, np.pi / 3 - spread], 3))


def _platform_on_legs(mass: float, feet: Array, ends: Array) -> Model:
    """A disc, and legs of a cylinder and a piston each between these places."""
    n = len(feet)
    disc = mcI(mass, np.zeros(3), mass * 0.6**2 / 4 * np.diag([1.0, 1.0, 2.0]))
    leg = _bar(0.5, [0.0, 0.0, 1.0]), _bar(0.5, [0.0, 0.0, -1.0])
    leg_names = [f"{what}{k + 1}" for k in range(n) for what in ("cylinder", "piston")]
    here = spatial.identity()
    balls = [
        LoopJoint(Spherical(), 2 * k + 2, 0, here, xlt(end), f"ball{k + 1}")
        for k, end in enumerate(ends)
    ]
    return Model(
        "stewart_platform",
        (-1, *(p for k in range(n) for p in (-1, 2 * k + 1))),
        (SixDoF(), *(Universal(), Prismatic()) * n),
        (here, *(X for foot in feet for X in (xlt(foot), here))),
        (disc, *leg * n),
        body_names=("platform", *leg_names),
        loops=tuple(balls),
    )


def _leg(to: Array) -> Array:
    """The universal joint's angles and the length of a leg that ends at `to` (3,) [m] from its
    foot.
    """
    length = np.sqrt(to @ to)
    return np.array([np.arctan2(-to[1], to[2]), np.arcsin(to[0] / length), length])


def _circle(radius: float, angles: Array) -> Array:
    """Points (n, 3) on a level circle."""
    return radius * np.array([np.cos(angles), np.sin(angles), np.zeros(len(angles))]).T


def _along(length: float, angle: float) -> Array:
    return length * np.array([np.cos(angle), np.sin(angle)])


def _direction(r: Array) -> float:
    return float(np.arctan2(r[1], r[0]))


def _meeting(p: Array, q: Array, from_p: float, from_q: float, left: bool) -> Array:
    """The point (2,) at these distances from p and q, to the left of the way from p to q or to the
    right of it.
    """
    between = float(np.hypot(*(q - p)))
    cosine = (between**2 + from_p**2 - from_q**2) / (2 * between * from_p)
    if abs(cosine) > 1 + 1e-12:
        raise ValueError(
            f"bars of {from_p} m and {from_q} m cannot meet: their ends are {between:.6g} m apart"
        )
    turn = np.arccos(np.clip(cosine, -1.0, 1.0))
    return p + _along(from_p, _direction(q - p) + (turn if left else -turn))


def _rod(length: float, mass: float) -> planar.RigidInertia:
    """A uniform thin rod along x."""
    return planar.mcI(mass, [length / 2, 0.0], mass * length**2 / 12)


def _bar(length: float, along: ArrayLike) -> RigidInertia:
    """A uniform round bar of 1 kg/m and a radius of 5 cm, along a unit vector."""
    u, m = np.asarray(along, dtype=float), length
    uu = np.outer(u, u)
    return mcI(
        m, u * length / 2, m * (0.05**2 / 4 * (np.eye(3) + uu) + length**2 / 12 * (np.eye(3) - uu))
    )
