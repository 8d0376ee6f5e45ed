"""Example robots of spatial_v1, and mechanisms with kinematic loops.

The mechanisms are the examples of RBDA chapter 8 and of Spencer 2004. Each mechanism has an initial
state in which the loops are closed. Planar mechanisms use planar vectors and gravity (0, -9.81);
`spatial_mechanism` converts them to spatial vectors.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.common.display_hooks import Picture, picture
from rigidblocks.robot.joints import (
    Cylindrical,
    Helical,
    Joint,
    LoopJoint,
    PlanarPrismatic,
    PlanarRevolute,
    Prismatic,
    Revolute,
    SixDoF,
    Spherical,
    Universal,
)
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.robot.shapes import Box, Cylinder, Sphere
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial import planar, spatial
from rigidblocks.spatial.spatial import (
    Array,
    RigidInertia,
    Transform,
    identity,
    mcI,
    rotx,
    rotz,
    xlt,
)


def planar_n(n: int) -> Model:
    """Return a planar serial robot of `n` revolute joints about z and `n` equal links.

    This is planarN of spatial_v1. The links lie on the x axis at q = 0. Each link is a thin rod of
    length 1 m and mass 1 kg. Its centre of mass is in the middle, and its moment of inertia is
    1/12 kg m^2. Gravity is (0, 0, -9.81), parallel to the joint axes, so it does no work.

    Raises:
        ValueError: `n` is below 1.
    """
    if n < 1:
        raise ValueError(f"a planar robot needs at least 1 link, not {n}")
    link = mcI(1.0, [0.5, 0.0, 0.0], np.diag([0.01, 1 / 12, 1 / 12]))
    return Model(
        name=f"planar{n}",
        parent=tuple(range(-1, n - 1)),
        joint=(Revolute(),) * n,
        Xtree=tuple(xlt([0.0 if i == 0 else 1.0, 0.0, 0.0]) for i in range(n)),
        inertia=(link,) * n,
        appearance=((Box.from_corners((0.0, -0.05, -0.05), (1.0, 0.05, 0.05)),),) * n,
    )


def planar2() -> Model:
    """Return the planar robot of two links, `planar_n(2)`."""
    return planar_n(2)


def planar3() -> Model:
    """Return the planar robot of three links, `planar_n(3)`."""
    return planar_n(3)


def auto_tree(nb: int, bf: float = 1.0, skew: float = 0.0, taper: float = 1.0) -> Model:
    """Return a kinematic tree of `nb` bodies and revolute joints (autoTree of spatial_v1).

    The tree is built in breadth-first order. Body i (from 1) is a thin-walled cylinder from x = 0
    to x = l. The cylinder has the length l = taper^(i-1), the radius l/20 and the mass
    taper^(3(i-1)). The inboard joint axis is z. The outboard joint axis passes through (l, 0, 0)
    and is inclined to z by a rotation by `skew` about x.

    Args:
        nb: The number of bodies.
        bf: The average number of children of a body that has children, at least 1; the base has
            exactly one child.
        skew: The angle between the inboard and the outboard joint axis of a body [rad].
        taper: The ratio of the lengths of successive bodies.
    """
    _check_tree_shape(nb, bf, skew, taper)
    parent = tuple(int((i - 1 + np.ceil(bf)) // bf) - 1 for i in range(nb))
    length = [taper**i for i in range(nb)]
    Xtree = [xlt([0.0, 0.0, 0.0])] + [rotx(skew) @ xlt([length[p], 0.0, 0.0]) for p in parent[1:]]
    return Model(
        name=f"auto_tree_{nb}",
        parent=parent,
        joint=(Revolute(),) * nb,
        Xtree=tuple(_remove_rounding_errors(X) for X in Xtree),
        inertia=tuple(_thin_walled_cylinder(taper ** (3 * i), length[i]) for i in range(nb)),
        appearance=tuple((Cylinder.from_ends(np.zeros(3), (l, 0.0, 0.0), l / 20),) for l in length),
    )


def _check_tree_shape(nb: int, bf: float, skew: float, taper: float) -> None:
    """Raise ValueError if the arguments of `auto_tree` are outside their ranges.

    bf is the branching factor.
    """
    if nb < 1 or nb != int(nb):
        raise ValueError(f"the number of bodies must be an integer of at least 1, not nb = {nb}")
    if not (1 <= bf < np.inf and 0 < taper < np.inf and np.isfinite(skew)):
        raise ValueError(
            f"auto_tree needs bf >= 1, taper > 0 and a finite skew, not bf = {bf}, taper = "
            f"{taper}, skew = {skew}"
        )


def auto_tree_p(nb: int, bf: float = 1.0, taper: float = 1.0) -> PlanarModel:
    """Return the planar mechanism `auto_tree(nb, bf, 0, taper)` in planar vectors.

    This is autoTreep of spatial_v1. Gravity is zero by default. The arguments are as in
    `auto_tree`.
    """
    tree = auto_tree(nb, bf, 0.0, taper)
    return PlanarModel(
        name=f"auto_tree_p_{nb}",
        parent=tree.parent,
        joint=(PlanarRevolute(),) * nb,
        Xtree=tuple(planar.xlt(X.r[:2]) for X in tree.Xtree),
        inertia=tuple(
            planar.RigidInertia(body.m, body.h[:2], body.I[2, 2]) for body in tree.inertia
        ),
    )


class DHRow(NamedTuple):
    """Denavit-Hartenberg parameters of a joint, numbered as in RBDA 4.3 and the Springer Handbook.

    The parameters define the transform from one joint axis z to the next joint axis. The joint
    position is added to d or theta.

    Attributes:
        a: The distance along x [m].
        alpha: The angle about x [rad].
        d: The distance along the new axis [m].
        theta: The angle about the new axis [rad].
    """

    a: float
    alpha: float
    d: float
    theta: float


def dh_chain(
    rows: Sequence[DHRow | Sequence[float]],
    inertia: Sequence[RigidInertia],
    joint: Sequence[Joint] | None = None,
    base: tuple[float, float] = (0.0, 0.0),
    name: str = "dh_chain",
    *,
    convention: Literal["modified", "standard"] = "modified",
    unphysical: tuple[str, ...] = (),
) -> Model:
    """Return the serial robot with these Denavit-Hartenberg parameters, one row per joint.

        X_J X_T = scrz(theta, d) scrx(alpha, a)        modified, a and alpha before the joint
        X_T X_J = scrx(alpha, a) scrz(theta, d)        standard, a and alpha after the joint

    X_J is the transform of the joint, and X_T is the constant transform of the link. scrx and scrz
    are screw transforms: a rotation about x or z and a translation along the same axis. RBDA 4.3
    and Craig use the modified convention. Denavit and Hartenberg, Paul and Corke use the standard
    convention, in which the frame of row i is at the outboard end of the link. With the standard
    convention the body frame is the joint frame, and `dh_frames` returns the transforms to the
    frames of the rows.

    Args:
        rows: The rows (a, alpha, d, theta) [m, rad].
        inertia: `inertia[i]` is in the frame of row i.
        joint: The joints, revolute by default; all joint axes are z.
        base: The parameters (d0, theta0) [m, rad] from the base frame to the first x axis.
        name: The name of the model.
        convention: "modified" or "standard".
        unphysical: The names (body1, ...) of bodies whose inertia may be physically impossible.

    Raises:
        ValueError: A joint axis is not z, or the sequences differ in length.
    """
    joint = (Revolute(),) * len(rows) if joint is None else tuple(joint)
    _check_dh(rows, joint, name)
    Xtree, ends = _dh_transforms(rows, convention)
    if Xtree:
        Xtree[0] = Xtree[0] @ _screw_z(base[1], base[0])
    return Model(
        name=name,
        parent=tuple(range(-1, len(rows) - 1)),
        joint=joint,
        Xtree=tuple(_remove_rounding_errors(X) for X in Xtree),
        inertia=tuple(body.transform_to_parent(X) for body, X in zip(inertia, ends, strict=True))
        if ends
        else tuple(inertia),
        unphysical=unphysical,
    )


def _dh_transforms(
    rows: Sequence[DHRow | Sequence[float]], convention: str
) -> tuple[list[Transform], list[Transform]]:
    """Return the tree transforms, and the transforms from body frames to row frames.

    For the modified convention, the second list is empty.
    """
    turns = [_screw_z(row[3], row[2]) for row in rows]
    twists = [_remove_rounding_errors(rotx(row[1])) @ xlt([row[0], 0.0, 0.0]) for row in rows]
    if convention == "standard":
        ends = [_remove_rounding_errors(X @ T) for X, T in zip(twists, turns, strict=True)]
        return [identity(), *ends[:-1]] if ends else [], ends
    if convention == "modified":
        return [T @ X for X, T in zip(twists, turns, strict=True)], []
    raise ValueError(f"convention must be 'modified' or 'standard', not '{convention}'")


def dh_frames(rows: Sequence[DHRow | Sequence[float]]) -> tuple[Transform, ...]:
    """Return the transforms from body i of `dh_chain` to the frame of row i.

    The rows follow the standard convention. The last frame is the flange.
    """
    return tuple(
        _remove_rounding_errors(rotx(alpha) @ xlt([a, 0.0, 0.0]) @ _screw_z(theta, d))
        for a, alpha, d, theta in rows
    )


def _check_dh(rows: Sequence[DHRow | Sequence[float]], joint: tuple[Joint, ...], name: str) -> None:
    """Raise ValueError for a joint whose axis is not z, or a row without four numbers."""
    about_z = Revolute | Prismatic | Helical | Cylindrical
    for k, one in enumerate(joint):
        if not isinstance(one, about_z) or one.axis != (0.0, 0.0, 1.0):
            raise ValueError(
                f"joint {k} of '{name}' is {one}; Denavit-Hartenberg parameters need a joint with "
                "the axis z"
            )
    if bad := [k for k, row in enumerate(rows) if len(row) != 4]:
        raise ValueError(
            f"row {bad[0]} of '{name}' is {tuple(rows[bad[0]])}; it needs the 4 numbers a, alpha, "
            "d, theta"
        )


def _screw_z(theta: float, d: float) -> Transform:
    """Return the transform to a frame rotated by theta [rad] and moved by d [m] along z."""
    X: Transform = rotz(theta) @ xlt([0.0, 0.0, d])
    return X


def _thin_walled_cylinder(m: float, l: float) -> RigidInertia:
    """Return the inertia of a thin-walled cylinder from 0 to l [m] on the x axis.

    The mass is m [kg], and the radius is r = l/20:

    I_C = m diag(r^2, r^2/2 + l^2/12, r^2/2 + l^2/12).
    """
    r = l / 20
    side = m * (r**2 / 2 + l**2 / 12)
    return mcI(m, [l / 2, 0.0, 0.0], np.diag([m * r**2, side, side]))


def _remove_rounding_errors(X: Transform) -> Transform:
    """Return X with exact zeros instead of the rounding errors of rotations by 90 degrees."""
    return Transform(np.where(np.abs(X.E) < 1e-15, 0.0, X.E), X.r)


def quadruped() -> Model:
    """Return a quadruped of 12.8 kg with a floating trunk and four legs of three joints.

    The trunk is body 0, on a six-DoF joint. Each leg has a hip joint about x (abduction), a hip
    joint about y and a knee joint about y. Front legs are at +x, left legs at +y. With all joints
    at 0 the legs hang straight down and are 0.4 m long. The feet are balls (`contact`).
    """
    trunk = mcI(6.0, np.zeros(3), np.diag([0.03, 0.11, 0.12]))
    parts: list[tuple[Any, ...]] = [(-1, SixDoF(), xlt(np.zeros(3)), trunk, "trunk", "base")]
    for end, x in (("front", 0.2), ("rear", -0.2)):
        for side, y in (("left", 1.0), ("right", -1.0)):
            parts += _leg(f"{end}_{side}", len(parts), x, y)
    parent, joint, Xtree, inertia, bodies, joints = zip(*parts, strict=True)
    foot = Sphere(0.02, (0.0, 0.0, -0.2))
    contact = tuple((foot,) if body.endswith("shank") else () for body in bodies)
    return Model(
        "quadruped",
        parent,
        joint,
        Xtree,
        inertia,
        body_names=bodies,
        joint_names=joints,
        contact=contact,
    )


def _leg(name: str, first: int, x: float, side: float) -> list[tuple[Any, ...]]:
    """Return the bodies of the leg `name`; the first body has the index `first`.

    Each body is a tuple: parent, joint, Xtree, inertia, body name and joint name. The hip is at x
    [m], on the left of the trunk if `side` is 1 and on the right if `side` is -1.
    """
    rod = np.diag([0.2**2 / 12 + 1e-4, 0.2**2 / 12 + 1e-4, 2e-4])  # [m^2] per kg; 0.2 m along z
    hip = mcI(0.5, [0.0, 0.04 * side, 0.0], 0.5 * np.diag([2e-4, 2e-4, 2e-4]))
    thigh, shank = (mcI(m, [0.0, 0.0, -0.1], m * rod) for m in (0.8, 0.4))
    across = Revolute((0.0, 1.0, 0.0))
    return [
        (
            0,
            Revolute((1.0, 0.0, 0.0)),
            xlt([x, 0.1 * side, 0.0]),
            hip,
            f"{name}_hip",
            f"{name}_abduction",
        ),
        (first, across, xlt([0.0, 0.08 * side, 0.0]), thigh, f"{name}_thigh", f"{name}_hip"),
        (first + 1, across, xlt([0.0, 0.0, -0.2]), shank, f"{name}_shank", f"{name}_knee"),
    ]


def gripper() -> Model:
    """Return the model of a gripper with two sliding fingers, and a block of 0.2 kg.

    The hand (1 kg) is body 0, on a vertical prismatic joint. The fingers, 0.1 kg each, slide along
    x and close as q increases. At q = 0, their pads are 0.1 m apart. The block, body 3, is a cube
    of 5 cm on a six-DoF joint. Fingers and block are boxes (`contact`).
    """
    pad, cube = (0.02, 0.06, 0.06), (0.05, 0.05, 0.05)
    return Model(
        "gripper",
        (-1, 0, 0, -1),
        (Prismatic(), Prismatic((1.0, 0.0, 0.0)), Prismatic((-1.0, 0.0, 0.0)), SixDoF()),
        (xlt(np.zeros(3)), xlt([-0.06, 0.0, 0.0]), xlt([0.06, 0.0, 0.0]), xlt(np.zeros(3))),
        (_cuboid(1.0, (0.2, 0.1, 0.05)), _cuboid(0.1, pad), _cuboid(0.1, pad), _cuboid(0.2, cube)),
        body_names=("hand", "left_finger", "right_finger", "block"),
        joint_names=("lift", "left", "right", "free"),
        contact=((), (Box(pad),), (Box(pad),), (Box(cube),)),
    )


def cart_pole() -> Model:
    """Return a cart that slides along x, with a pole on a hinge about y; the pole is up at q = 0.

    The cart has a mass of 1 kg. The pole is a thin rod of length 1 m and mass 0.1 kg. These are the
    dimensions of CartPole-v1 of gymnasium (Barto, Sutton and Anderson 1983), where g = 9.8 m/s^2.
    """
    pole = mcI(0.1, [0.0, 0.0, 0.5], np.diag([0.1 / 12, 0.1 / 12, 0.0]))
    return Model(
        name="cart_pole",
        parent=(-1, 0),
        joint=(Prismatic((1.0, 0.0, 0.0)), Revolute((0.0, 1.0, 0.0))),
        Xtree=(identity(), identity()),
        inertia=(mcI(1.0, np.zeros(3), np.zeros((3, 3))), pole),
    )


def _cuboid(m: float, sides: Sequence[float]) -> RigidInertia:
    """Return the inertia of a homogeneous box centred at the origin."""
    a, b, c = sides
    return mcI(m, np.zeros(3), m / 12 * np.diag([b * b + c * c, a * a + c * c, a * a + b * b]))


GRAVITY = np.array([0.0, -9.81])
PIN = PlanarRevolute()


class Mechanism(NamedTuple):
    """Model with loops, and an initial state q0 (nq,), qd0 (nv,) in which the loops are closed."""

    model: Tree
    q0: Array
    qd0: Array

    def __repr__(self) -> str:
        return f"<Mechanism of {self.model!r}>"

    def show(self, q: Any = None, path: str | Path | None = None) -> Picture:
        """Return a web page that shows the mechanism at q (nq,), by default at q0.

        The page has a slider for each joint. The loops remain closed when a slider moves.
        `rigidblocks.show` has the same options.
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
    """Return a four-bar linkage at rest.

    The three bars have a mass of 1 kg/m. q = (crank, coupler relative to the crank, rocker) [rad].
    The loop joint connects the tips of coupler and rocker.

    Args:
        crank: The length of the crank [m].
        coupler: The length of the coupler [m].
        rocker: The length of the rocker [m].
        ground: The distance between the two supports along x [m].
        angle: The initial angle of the crank [rad].
        up: Initial side of the loop joint: True for the left side of the line from the crank tip to
            the rocker support, False for the right side.

    Raises:
        ValueError: The bars cannot be connected.
    """
    tip, support = _polar_vector(crank, angle), np.array([ground, 0.0])
    pin = _circle_intersection(tip, support, coupler, rocker, up)
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
    """Return the N-four-bar mechanism of the IFToMM benchmark problems.

    It consists of n windows with 2 n + 1 uniform bars of 1 m and 1 kg. n + 1 of these bars stand on
    the ground, 1 m apart, and a coupler connects each bar to the next. The loop joints connect the
    tip of a coupler to the tip of the next bar. The bars start at `angle` [rad] from the vertical,
    to the right, and rotate in that direction at `speed` [rad/s]. If the bars lie on the ground,
    the couplers can fold and the configuration is singular. In all other configurations, the
    mechanism has one degree of freedom, the angle th from the vertical:

        ((n + 1)/3 + n) d2th/dt2 = g ((n + 1)/2 + n) sin th

    Args:
        n: The number of windows.
        angle: The initial angle of the bars from the vertical [rad].
        speed: The initial angular velocity of the bars [rad/s].

    Raises:
        ValueError: `n` is below 1.
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
    """Return the five-bar mechanism of Spencer 2004, section 3.2, at rest.

    The lower links have length 1 m, mass 2 kg and moment of inertia 1 kg m^2 about their centres.
    The upper links have length 1.5 m, mass 3 kg and moment of inertia 2 kg m^2. The supports are
    1 m apart. q = (left lower, left upper, right lower, right upper link) [rad]; the angle of an
    upper link is relative to its lower link. The loop joint connects the upper links.

    The default is the second example of Spencer 2004. The first example, in which all links are
    collinear, is five_bar(pi, 0).

    Args:
        left: The initial angle of the left lower link from the x axis [rad].
        right: The initial angle of the right lower link from the x axis [rad].
        apex_up: Initial side of the apex: True for the left side of the line from the left knee to
            the right knee, False for the right side.
    """
    lower, upper, base = 1.0, 1.5, np.array([1.0, 0.0])
    knees = _polar_vector(lower, left), base + _polar_vector(lower, right)
    apex = _circle_intersection(*knees, upper, upper, apex_up)
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
    """Return a slider-crank mechanism at rest.

    Crank and rod have a mass of 1 kg/m. q = (crank [rad], rod relative to the crank [rad], slider
    along x [m]). The loop joint connects the rod tip to the slider, which starts on the right.

    Args:
        crank: The length of the crank [m].
        rod: The length of the rod [m].
        offset: The y coordinate of the slider line [m].
        slider_mass: The mass of the slider [kg].
        angle: The initial angle of the crank [rad].

    Raises:
        ValueError: The rod does not reach the slider line.
    """
    x, y = _polar_vector(crank, angle)
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
    """Return an arm of two links with a linear actuator (RBDA Figure 8.3), at rest.

    q = (arm angle y1, cylinder angle theta2, actuator length d [m], forearm angle y2).
    The cylinder is supported at the distance `l1` [m] along x from the arm support. The loop joint
    connects the piston to the arm at the distance `l2` [m] from the arm support.

        d^2 = l1^2 + l2^2 - 2 l1 l2 cos y1,    theta2 = atan2(l2 sin y1, l2 cos y1 - l1)

    Args:
        l1: The distance of the cylinder support from the arm support [m].
        l2: The distance of the piston joint from the arm support [m].
        y1: The initial angle of the arm [rad].
        y2: The initial angle of the forearm [rad].
    """
    to_pin = _polar_vector(l2, y1) - np.array([l1, 0.0])
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


def spatial_mechanism(mechanism: Mechanism) -> Mechanism:
    """Return the equivalent mechanism in spatial vectors, with the same variables.

    The spatial mechanism moves in the plane z = 0 (`PlanarModel.spatial_model`).

    Raises:
        TypeError: The model of the mechanism is not planar.
    """
    model = mechanism.model
    if not isinstance(model, PlanarModel):
        raise TypeError(f"'{model.name}' is a {type(model).__name__}; it must be a PlanarModel")
    return mechanism._replace(model=model.spatial_model())


def bennett(
    a: float = 1.0, alpha: float = np.pi / 3, beta: float = np.pi / 2, angle: float = 1.0
) -> Mechanism:
    """Return Bennett's linkage at rest.

    The axes of the four revolute joints neither intersect nor are parallel, but the linkage is
    mobile. Links of length a [m] and twist alpha [rad] alternate with links of length b and twist
    beta, where a / sin(alpha) = b / sin(beta). One link of length b is the ground. q = (q1, q2, q3)
    with q1 = `angle` [rad]:

        tan(q1/2) tan(q2/2) = sin((beta + alpha)/2) / sin((beta - alpha)/2),    q3 = -q1

    Therefore alpha and beta must differ. Three of the five loop constraints depend on the other two
    constraints.

    Args:
        a: The length of the links with the twist alpha [m].
        alpha: The twist of the links with the length a [rad].
        beta: The twist of the links with the length b [rad].
        angle: The initial position q1 [rad].

    Raises:
        ValueError: A twist or the angle is zero, or the twists are equal.
    """
    if min(np.abs(np.sin([(beta - alpha) / 2, alpha, angle / 2]))) < 1e-9:
        raise ValueError(
            "a Bennett linkage needs two different nonzero twists and a nonzero angle, not "
            f"alpha = {alpha}, beta = {beta} and angle = {angle}"
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
    """Return the Sarrus linkage at rest.

    Two pairs of hinged bars in perpendicular planes guide a platform vertically. The platform is a
    child of the first pair, and the loop joint connects the platform to the second pair. At all
    times q = (angle, -2 angle, angle, -angle, 2 angle).

    Args:
        length: The length of the bars [m].
        radius: The distance of the hinges on the base from the centre of the base [m].
        angle: The initial angle by which the bars lean outward from the vertical [rad].
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
    """Return a Stewart platform at rest: a platform on six legs.

    Each leg has a universal joint at its foot, a prismatic joint, and a ball joint at its upper
    end. Body 0 is the platform, an initially horizontal disc with a radius of 0.6 m. The cylinder
    and the piston of each leg follow. q = (quaternion and position of the platform, then for each
    leg the two angles [rad] and the length [m]). The ball joints are the loop joints.

    The platform has a separate six-DoF joint in the tree, so all legs and loops have an identical
    structure. If the platform were a child of one leg instead, the model would have one loop fewer
    and the same condition number of the constraints (1.3 in mass-weighted coordinates). The
    condition number of the inertia matrix, however, would increase from 29 to 63.

    Args:
        height: The initial height of the platform [m].
        position: The initial position (x, y) of the platform [m].
        mass: The mass of the platform [kg].
    """
    feet, ends = _hexagons(0.9, 0.5, np.radians(15.0))
    place = np.array([*np.asarray(position, dtype=float), height])
    legs = [_leg_coordinates(place + end - foot) for foot, end in zip(feet, ends, strict=True)]
    q0 = np.concatenate([[1.0, 0.0, 0.0, 0.0], place, *legs])
    return Mechanism(_platform_on_legs(mass, feet, ends), q0, np.zeros(24))


def _hexagons(foot_radius: float, end_radius: float, spread: float) -> tuple[Array, Array]:
    """Return the feet (6, 3) [m] and the upper ends (6, 3) [m] of six legs.

    The feet are on a circle with `foot_radius` [m], in three pairs at the angles 0, 120 and 240
    degrees. The feet of a pair are at +-`spread` [rad] from the angle of the pair. The upper ends
    are on a circle with `end_radius` [m], in pairs halfway between the pairs of feet.
    """
    turns = np.repeat(np.arange(3) * 2 * np.pi / 3, 2)
    feet = _circle(foot_radius, turns + np.tile([-spread, spread], 3))
    return feet, _circle(end_radius, turns + np.tile([spread - np.pi / 3, np.pi / 3 - spread], 3))


def _platform_on_legs(mass: float, feet: Array, ends: Array) -> Model:
    """Return the model of a disc on legs, each with a cylinder and a piston.

    `mass` [kg] is the mass of the disc. `feet` and `ends` (n, 3) [m] are the lower and upper ends
    of the legs.
    """
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


def _leg_coordinates(end: Array) -> Array:
    """Return the two angles [rad] and the length [m] of a leg.

    `end` (3,) [m] is the upper end of the leg, relative to its foot.
    """
    length = np.sqrt(end @ end)
    return np.array([np.arctan2(-end[1], end[2]), np.arcsin(end[0] / length), length])


def _circle(radius: float, angles: Array) -> Array:
    """Return the points (n, 3) on a horizontal circle at the angles (n,) [rad]."""
    return radius * np.array([np.cos(angles), np.sin(angles), np.zeros(len(angles))]).T


def _polar_vector(length: float, angle: float) -> Array:
    return length * np.array([np.cos(angle), np.sin(angle)])


def _direction(r: Array) -> float:
    return float(np.arctan2(r[1], r[0]))


def _circle_intersection(p: Array, q: Array, from_p: float, from_q: float, left: bool) -> Array:
    """Return the point (2,) at the distance `from_p` from p and the distance `from_q` from q.

    Two such points exist. `left` selects the point to the left of the line from p to q.
    """
    between = float(np.hypot(*(q - p)))
    cosine = (between**2 + from_p**2 - from_q**2) / (2 * between * from_p)
    if abs(cosine) > 1 + 1e-12:
        raise ValueError(
            f"bars of {from_p} m and {from_q} m cannot meet: their ends are {between:.6g} m apart"
        )
    turn = np.arccos(np.clip(cosine, -1.0, 1.0))
    return p + _polar_vector(from_p, _direction(q - p) + (turn if left else -turn))


def _rod(length: float, mass: float) -> planar.RigidInertia:
    """Return the inertia of a uniform thin rod along x."""
    return planar.mcI(mass, [length / 2, 0.0], mass * length**2 / 12)


def _bar(length: float, along: ArrayLike) -> RigidInertia:
    """Return the inertia of a round bar of 1 kg/m and radius 5 cm, about one end.

    The bar has the length `length` [m] and the direction of the unit vector `along` (3,).
    """
    u, m = np.asarray(along, dtype=float), length
    uu = np.outer(u, u)
    return mcI(
        m, u * length / 2, m * (0.05**2 / 4 * (np.eye(3) + uu) + length**2 / 12 * (np.eye(3) - uu))
    )
