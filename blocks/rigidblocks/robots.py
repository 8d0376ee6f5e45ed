"""Model constructors: the example robots of the spatial_v1 documentation."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from rigidblocks.algebra import planar
from rigidblocks.algebra.spatial import (
    RigidInertia,
    Transform,
    identity,
    mcI,
    rotx,
    rotz,
    xlt,
)
from rigidblocks.joint import (
    Cylindrical,
    Helical,
    Joint,
    PlanarRevolute,
    Prismatic,
    Revolute,
    SixDoF,
)
from rigidblocks.model.model import Model
from rigidblocks.model.planar import PlanarModel
from rigidblocks.model.shapes import Box, Cylinder, Sphere


def planar_n(n: int) -> Model:
    """A planar serial robot of `n` revolute joints about z and `n` equal links, lying on the x axis
    at q = 0.

    Each link has length 1 m, mass 1 kg, its centre of mass in the middle, and the rotational
    inertia of a thin rod, 1/12 kg m^2, about it (planarN of spatial_v1). Gravity is (0, 0, -9.81):
    parallel to the axes, so it does no work.
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
        appearance=((Box.between((0.0, -0.05, -0.05), (1.0, 0.05, 0.05)),),) * n,
    )


def planar2() -> Model:
    """The planar robot of two links, `planar_n(2)`."""
    return planar_n(2)


def planar3() -> Model:
    """The planar robot of three links, `planar_n(3)`."""
    return planar_n(3)


def auto_tree(nb: int, bf: float = 1.0, skew: float = 0.0, taper: float = 1.0) -> Model:
    """A kinematic tree of `nb` bodies and revolute joints (autoTree of spatial_v1).

    `bf` >= 1 is the average number of children of a body that has any; the base has exactly one.
    The tree is built in breadth-first order. Body i (from 1) is a thin-walled cylinder of length l
    = taper^(i-1), radius l/20 and mass taper^(3(i-1)), between 0 and l on its x axis. Its outboard
    axis passes through (l, 0, 0), turned by `skew` [rad] about x.
    """
    _check_tree_shape(nb, bf, skew, taper)
    parent = tuple(int((i - 1 + np.ceil(bf)) // bf) - 1 for i in range(nb))
    length = [taper**i for i in range(nb)]
    Xtree = [xlt([0.0, 0.0, 0.0])] + [rotx(skew) @ xlt([length[p], 0.0, 0.0]) for p in parent[1:]]
    return Model(
        name=f"auto_tree_{nb}",
        parent=parent,
        joint=(Revolute(),) * nb,
        Xtree=tuple(_tidy(X) for X in Xtree),
        inertia=tuple(_thin_walled_cylinder(taper ** (3 * i), length[i]) for i in range(nb)),
        appearance=tuple((Cylinder.between(np.zeros(3), (l, 0.0, 0.0), l / 20),) for l in length),
    )


def _check_tree_shape(nb: int, bf: float, skew: float, taper: float) -> None:
    """Raises ValueError for what makes no tree."""
    if nb < 1 or nb != int(nb):
        raise ValueError(f"a tree needs a whole number of bodies, at least 1, not nb = {nb}")
    if not (1 <= bf < np.inf and 0 < taper < np.inf and np.isfinite(skew)):
        raise ValueError(
            f"a tree needs bf >= 1, taper > 0 and a finite skew, not bf = {bf}, taper = {taper}, "
            f"skew = {skew}"
        )


def auto_tree_p(nb: int, bf: float = 1.0, taper: float = 1.0) -> PlanarModel:
    """The tree `auto_tree(nb, bf, 0, taper)`, which is a planar mechanism, in planar vectors
    (autoTreep of spatial_v1).

    There is no gravity unless it is given.
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
    """The Denavit-Hartenberg parameters of a joint, numbered as in RBDA 4.3 and the Springer
    Handbook.

    From one joint axis z to the next: the distance `a` [m] along x and the angle `alpha` [rad]
    about x; then along and about the new axis: `d` [m] and `theta` [rad]. What the joint moves is
    added to d and theta.
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
    """The unbranched tree of Denavit-Hartenberg parameters, one row (a, alpha, d, theta) a joint.

        X_J X_T = scrz(theta, d) scrx(alpha, a)        modified, a and alpha before the joint
        X_T X_J = scrx(alpha, a) scrz(theta, d)        standard, a and alpha behind it

    The modified convention is that of RBDA 4.3 and of Craig, the standard one that of Denavit and
    Hartenberg, Paul and Corke: there the frame of row i is at the far end of its link. The joints
    are revolute unless given; they may be all that act along or about z. `base` is (d0, theta0),
    from the base frame to the first x axis. `inertia[i]` is in the frame of row i. Of the standard
    convention the body's frame is the one in which its joint acts, and `dh_frames` has the others.
    Bodies named in `unphysical` (body1, ...) keep an inertia that no rigid body has. Raises
    ValueError for a joint with another axis, and for sequences of different lengths.
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
        Xtree=tuple(_tidy(X) for X in Xtree),
        inertia=tuple(body.to_parent(X) for body, X in zip(inertia, ends, strict=True))
        if ends
        else tuple(inertia),
        unphysical=unphysical,
    )


def _dh_transforms(
    rows: Sequence[DHRow | Sequence[float]], convention: str
) -> tuple[list[Transform], list[Transform]]:
    """Those of the tree, and of the standard convention those from the bodies to their rows."""
    turns = [_screw_z(row[3], row[2]) for row in rows]
    twists = [_tidy(rotx(row[1])) @ xlt([row[0], 0.0, 0.0]) for row in rows]
    if convention == "standard":
        ends = [_tidy(X @ T) for X, T in zip(twists, turns, strict=True)]
        return [identity(), *ends[:-1]] if ends else [], ends
    if convention == "modified":
        return [T @ X for X, T in zip(twists, turns, strict=True)], []
    raise ValueError(f"convention must be 'modified' or 'standard', not '{convention}'")


def dh_frames(rows: Sequence[DHRow | Sequence[float]]) -> tuple[Transform, ...]:
    """Where the frames of standard Denavit-Hartenberg rows are on the bodies of `dh_chain`: the
    transforms from the coordinates of body i to the frame of row i, the last of which is the
    flange's.
    """
    return tuple(
        _tidy(rotx(alpha) @ xlt([a, 0.0, 0.0]) @ _screw_z(theta, d)) for a, alpha, d, theta in rows
    )


def _check_dh(rows: Sequence[DHRow | Sequence[float]], joint: tuple[Joint, ...], name: str) -> None:
    """Raises ValueError for a joint that is not about z, and for a row that is not of 4 numbers."""
    about_z = Revolute | Prismatic | Helical | Cylindrical
    for k, one in enumerate(joint):
        if not isinstance(one, about_z) or one.axis != (0.0, 0.0, 1.0):
            raise ValueError(
                f"joint {k} of '{name}' is {one}; in Denavit-Hartenberg parameters a joint has the "
                "axis z"
            )
    if bad := [k for k, row in enumerate(rows) if len(row) != 4]:
        raise ValueError(
            f"row {bad[0]} of '{name}' is {tuple(rows[bad[0]])}; it needs the 4 numbers a, alpha, "
            "d, theta"
        )


def _screw_z(theta: float, d: float) -> Transform:
    """The transform to a frame turned by theta about and moved by d along z: scrz (RBDA A.4)."""
    X: Transform = rotz(theta) @ xlt([0.0, 0.0, d])
    return X


def _thin_walled_cylinder(m: float, l: float) -> RigidInertia:
    """Mass m, length l along x from the origin, radius l/20: I_C = m diag(r^2, r^2/2 + l^2/12,
    r^2/2 + l^2/12).
    """
    r = l / 20
    side = m * (r**2 / 2 + l**2 / 12)
    return mcI(m, [l / 2, 0.0, 0.0], np.diag([m * r**2, side, side]))


def _tidy(X: Transform) -> Transform:
    """The transform without rounding dust, so that right-angled twists trace to zeros and ones."""
    return Transform(np.where(np.abs(X.E) < 1e-15, 0.0, X.E), X.r)


def quadruped() -> Model:
    """A robot of a floating trunk and four legs of three joints, 12.8 kg, with balls as feet
    (`contact`).

    The trunk is body 0, on a joint of six freedoms. Each leg has a hip that turns about x
    (abduction), a hip and a knee that turn about y, forward legs at +x and left legs at +y; with
    all joints at 0 the legs hang straight down, 0.4 m long.
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
    """The three bodies of a leg, numbered from `first` on: parent, joint, Xtree, inertia and the
    two names.
    """
    rod = np.diag([0.2**2 / 12 + 1e-4, 0.2**2 / 12 + 1e-4, 2e-4])  # per kg, 0.2 m along z
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
    """A hand with two fingers that slide towards each other, and a block of 0.2 kg on its own, to
    be held (`contact`).

    The hand (1 kg) is body 0, on a vertical slide. The fingers, 0.1 kg each, slide along x, closing
    with positive q; at 0 their pads are 0.1 m apart. The block, body 3, is a cube of 5 cm on a
    joint of six freedoms. Fingers and block are boxes.
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


def _cuboid(m: float, sides: Sequence[float]) -> RigidInertia:
    """A homogeneous box around the origin."""
    a, b, c = sides
    return mcI(m, np.zeros(3), m / 12 * np.diag([b * b + c * c, a * a + c * c, a * a + b * b]))
