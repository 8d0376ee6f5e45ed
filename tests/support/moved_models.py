"""Models with time-dependent joints and constraints."""

import numpy as np

from rigidblocks.robot.joints import (
    Fixed,
    PlanarPrismatic,
    PlanarRevolute,
    Revolute,
    Rheonomic,
    StringConstraint,
)
from rigidblocks.robot.model import Model, PlanarModel
from rigidblocks.spatial import planar
from rigidblocks.spatial.spatial import identity, mcI, xlt

SPEED, GAIN = 2.0, 1.5
AXIS = Revolute((0, 1, 0))


def crank_angle(t):
    """Return the angle [rad] of a crank with increasing speed."""
    return [0.4 + SPEED * t + 0.5 * GAIN * t * t]


GIVEN = Rheonomic(Fixed(), AXIS, crank_angle)


def crank(joint=GIVEN, loops=()):
    """Return a crank of 0.5 m with a pendulum at its end."""
    rod = mcI(1.0, [0.3, 0, 0], np.diag([0.01, 0.05, 0.05]))
    Xtree = (identity(), xlt([0.5, 0, 0]))
    return Model("crank", (-1, 0), (joint, AXIS), Xtree, (rod, rod), loops=loops)


def winch():
    """Return a pendulum on a trolley whose cable winds up."""
    string = StringConstraint(
        [(-1, [0.0, 2.0]), (0, [0.0, 0.0]), (1, [0.0, -1.0])], lambda t: 3.0 - 0.2 * t * t
    )
    body = planar.mcI(1.0, [0.0, -0.5], 0.2)
    return PlanarModel(
        "winch",
        (-1, 0),
        (PlanarPrismatic("y"), PlanarRevolute()),
        (planar.identity(),) * 2,
        (body,) * 2,
        gravity=(0.0, -9.81),
        strings=(string,),
    )
