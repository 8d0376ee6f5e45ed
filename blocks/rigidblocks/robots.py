"""Model constructors: the example robots of the spatial_v1 documentation."""

import numpy as np

from rigidblocks.joint import Revolute
from rigidblocks.model import Box, Cylinder, Model
from rigidblocks.spatial import RigidInertia, Transform, mcI, rotx, xlt


def planar_n(n: int) -> Model:
    """A planar serial robot of `n` revolute joints about z and `n` equal links, lying on the x axis at q = 0.

    Each link has length 1 m, mass 1 kg, its centre of mass in the middle, and the rotational inertia of a thin rod,
    1/12 kg m^2, about it (planarN of spatial_v1). Gravity is (0, 0, -9.81): parallel to the axes, so it does no work.
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
        appearance=((Box((0.0, -0.05, -0.05), (1.0, 0.05, 0.05)),),) * n,
    )


def planar2() -> Model:
    """The planar robot of two links, `planar_n(2)`."""
    return planar_n(2)


def planar3() -> Model:
    """The planar robot of three links, `planar_n(3)`."""
    return planar_n(3)


def auto_tree(nb: int, bf: float = 1.0, skew: float = 0.0, taper: float = 1.0) -> Model:
    """A kinematic tree of `nb` bodies and revolute joints (autoTree of spatial_v1).

    `bf` >= 1 is the average number of children of a body that has any; the base has exactly one. The tree is built in
    breadth-first order. Body i (from 1) is a thin-walled cylinder of length l = taper^(i-1), radius l/20 and mass
    taper^(3(i-1)), between 0 and l on its x axis. Its outboard axis passes through (l, 0, 0), turned by `skew` [rad]
    about x.
    """
    if nb < 1 or nb != int(nb):
        raise ValueError(f"a tree needs a whole number of bodies, at least 1, not nb = {nb}")
    if not (1 <= bf < np.inf and 0 < taper < np.inf and np.isfinite(skew)):
        raise ValueError(f"a tree needs bf >= 1, taper > 0 and a finite skew, not bf = {bf}, taper = {taper}, skew = {skew}")
    parent = tuple(int((i - 1 + np.ceil(bf)) // bf) - 1 for i in range(nb))
    length = [taper**i for i in range(nb)]
    Xtree = [xlt([0.0, 0.0, 0.0])] + [rotx(skew) @ xlt([length[p], 0.0, 0.0]) for p in parent[1:]]
    return Model(
        name=f"auto_tree_{nb}",
        parent=parent,
        joint=(Revolute(),) * nb,
        Xtree=tuple(_tidy(X) for X in Xtree),
        inertia=tuple(_thin_walled_cylinder(taper ** (3 * i), length[i]) for i in range(nb)),
        appearance=tuple((Cylinder((l / 2, 0.0, 0.0), l / 20, l, "x"),) for l in length),
    )


def _thin_walled_cylinder(m: float, l: float) -> RigidInertia:
    """Mass m, length l along x from the origin, radius l/20: I_C = m diag(r^2, r^2/2 + l^2/12, r^2/2 + l^2/12)."""
    r = l / 20
    side = m * (r**2 / 2 + l**2 / 12)
    return mcI(m, [l / 2, 0.0, 0.0], np.diag([m * r**2, side, side]))


def _tidy(X: Transform) -> Transform:
    """The transform without rounding dust, so that right-angled twists trace to zeros and ones."""
    return Transform(np.where(np.abs(X.E) < 1e-15, 0.0, X.E), X.r)
