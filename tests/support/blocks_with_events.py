"""Blocks with switching laws and state jumps."""

from dataclasses import dataclass

import numpy as np

from rigidblocks import (
    Block,
    ForceElement,
    Model,
    PDController,
    Port,
    Prismatic,
    RobotPlant,
    System,
    select,
)
from rigidblocks.contact import BouncingBall, ContactPlant, SoftContactPlant
from rigidblocks.cosim.graph.block_merging import ContinuousSystem
from rigidblocks.dynamics.force_laws import Stiction
from rigidblocks.robot.shapes import Sphere
from rigidblocks.spatial.scalar import piecewise
from rigidblocks.spatial.spatial import mcI, xlt

G, RADIUS, HEIGHT, K = 9.81, 0.1, 1.0, 1e4


PULL, SWAY, RUB, BRISTLES = 20.0, 0.2, 1.0, (1e4, 100.0)  # parameters of the belt


def mass(axis=(0.0, 0.0, 1.0)):
    """Return a mass of 1 kg that slides along an axis, with a ball as contact shape."""
    inertia = (mcI(1.0, np.zeros(3), 1e-3 * np.eye(3)),)
    at = ((Sphere(RADIUS),),)
    return Model("mass", (-1,), (Prismatic(axis),), (xlt(np.zeros(3)),), inertia, contact=at)


def on_a_spring():
    return ContactPlant(RobotPlant(mass(), q0=(HEIGHT + RADIUS,)), K, 0.0, D_t=1.0)


def on_soft_ground():
    """Return the same plant with compliant contact of shapes, whose law is in C."""
    return SoftContactPlant(RobotPlant(mass(), q0=(HEIGHT + RADIUS,)), K)


@dataclass(frozen=True)
class End(Block):
    """Oscillating end of a spring, in the frame of a belt."""

    outputs = (Port("q", (1,), "m"),)

    def output(self, t):
        return {"q": np.array([SWAY * np.sin(3.0 * t)])}


def on_a_belt():
    """Return a mass that dry friction holds on a belt while a spring pulls it back and forth."""
    rub = ForceElement("rub", 0, Stiction(RUB, *BRISTLES))
    system = System()
    system.add("mass", RobotPlant(mass((1.0, 0.0, 0.0)), elements=(rub,)))
    system.add("spring", PDController((PULL,), (0.0,), prismatic=(True,)))
    system.connect("spring.tau", "mass.tau")
    system.add("end", End())
    system.connect("end.q", "spring.q_ref")
    system.connect("mass.q", "spring.q")
    system.connect("mass.qd", "spring.qd")
    return ContinuousSystem(system)


def two_balls():
    """Return two balls that bounce at the same time."""
    system = System()
    for name in ("left", "right"):
        system.add(name, BouncingBall(HEIGHT, e=0.5))
    return ContinuousSystem(system)


@dataclass(frozen=True)
class Restless(Block):
    """State x whose sign each projection changes after t0 = 0.5: the event iteration never ends."""

    states = (Port("x", (), start=1.0), Port("t0", (), "s", start=0.0))
    outputs = (Port("y", ()),)

    def derivative(self, x):
        return {"x": piecewise(x.x, -0.1, 0.1), "t0": 1.0}

    def project(self, x):
        return {"x": select(x.t0 > 0.5, -x.x, x.x)}

    def output(self, x):
        return {"y": x.x}


BLOCKS = {
    "restless": Restless,
    "elastic": lambda: BouncingBall(HEIGHT, e=1.0),
    "inelastic": lambda: BouncingBall(HEIGHT, e=0.7),
    "two": two_balls,
    "spring": on_a_spring,
    "soft": on_soft_ground,
    "belt": on_a_belt,
}
