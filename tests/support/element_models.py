"""Plants of every kind with force elements of every kind.

All plants have joints named hinge and slide, and their bodies are named arm and hand.
"""

from dataclasses import replace

import numpy as np

from random_models import random_tree
from rigidblocks.contact import (
    ContactPlant,
    Plane,
    Sphere,
)
from rigidblocks.dynamics.drives import Drive, Follower, Gearbox, drive_transmissions
from rigidblocks.dynamics.force_elements import Between, ForceElement
from rigidblocks.dynamics.force_laws import Friction, Spring, Stop
from rigidblocks.dynamics.loops import project
from rigidblocks.dynamics.motors import Rotor
from rigidblocks.library import (
    ClosedLoopPlant,
    FloatingBasePlant,
    HybridPlant,
    RobotPlant,
)
from rigidblocks.robot.joints import Helical, Prismatic, Revolute, SixDoF, Spherical
from rigidblocks.robot.robots import five_bar, spatial_mechanism

NAMES = {
    "joint_names": ("hinge", "slide", "ball", "screw"),
    "body_names": ("arm", "hand", "head", "tool"),
}


MODEL = replace(
    random_tree(
        np.random.default_rng(21),
        (-1, 0, 1, 1),
        (Revolute((0.6, 0.0, 0.8)), Prismatic(), Spherical(), Helical(0.3)),
    ),
    **NAMES,
)
_FLOATING = random_tree(np.random.default_rng(22), (-1, 0, 1), (SixDoF(), Revolute(), Prismatic()))
FLOATING = replace(
    _FLOATING, joint_names=("free", "hinge", "slide"), body_names=("trunk", "arm", "hand")
)
FIVE_BAR = spatial_mechanism(five_bar())
LOOP = replace(
    FIVE_BAR.model,
    joint_names=("hinge", "slide", *FIVE_BAR.model.joint_names[2:]),
    body_names=("arm", "hand", *FIVE_BAR.model.body_names[2:]),
)
TOUCHING = replace(MODEL, contact=((), (Sphere(0.3),), (), ()))

STRUT = Between("hand", (0.3, -0.2, 0.1), "arm", (0.1, 0.4, -0.3))
TETHER = Between("hand", (0.0, 0.1, 0.2), None, (1.5, -1.0, 2.0))
GEARS = (
    Drive("motor", "slide", Rotor(1e-3), Gearbox(30.0)),
    Drive("belt", "hinge", follower=Follower("slide", 0.3, -0.1)),
)
SPRINGS = (
    ForceElement("hinge", "hinge", Spring(30.0, 0.0, 0.2, 1.0)),
    ForceElement("strut", STRUT, Spring(40.0, 0.0, 0.4, 2.0)),
    ForceElement("tether", TETHER, Spring(25.0, 0.0, 1.0)),
)
ELEMENTS = (
    ForceElement("hinge", "hinge", Spring(30.0, 2.0, 0.2, 1.0)),
    ForceElement("strut", STRUT, Spring(40.0, 3.0, 0.4, 2.0)),
    ForceElement("tether", TETHER, Stop(25.0, 1.0, upper=0.5)),
    ForceElement("rub", "slide", Friction(2.0, 0.5, 0.1, 1.0)),
    ForceElement("end", "slide", Stop(500.0, 10.0, -0.5, -0.1)),
)


def _speeds(model, free=0):
    """Return joint velocities that satisfy the gears, without the first `free` variables."""
    qd = np.full(model.nv, 0.5)
    hinge, slide = (
        model.v_slices[model.joint_names.index(name)].start for name in ("hinge", "slide")
    )
    qd[slide] = GEARS[1].follower.ratio * qd[hinge]
    return qd[free:]


GEARED_PLANTS = {
    "tree": lambda elements: RobotPlant(MODEL, qd0=_speeds(MODEL), elements=elements),
    "hybrid": lambda elements: HybridPlant(
        MODEL, ("screw",), qd0=np.r_[_speeds(MODEL)[:-1], 0.0], elements=elements
    ),
    "floating": lambda elements: FloatingBasePlant(
        FLOATING, velocity0=0.3, qd0=_speeds(FLOATING, 6), elements=elements
    ),
    "closed loop": lambda elements: _geared_five_bar(elements),
}


def _geared_five_bar(elements):
    """Return the five-bar linkage with a gear that the initial configuration satisfies."""
    q0 = FIVE_BAR.q0
    offset = q0[1] - GEARS[1].follower.ratio * q0[0]
    follower = replace(GEARS[1].follower, offset=offset)
    elements = [replace(one, follower=follower) if one is GEARS[1] else one for one in elements]
    given = drive_transmissions(LOOP, [one for one in elements if one.name == GEARS[1].name])
    qd0 = project(LOOP, q0, np.linspace(1.0, -1.0, LOOP.nv), transmissions=given)[1]
    return ClosedLoopPlant(LOOP, q0, qd0=qd0, elements=elements)


PLANTS = {
    "tree": lambda elements: RobotPlant(MODEL, qd0=0.5, elements=elements),
    "hybrid": lambda elements: HybridPlant(
        MODEL, ("screw",), qd0=[0.5, -0.4, 0.3, 0.2, 0.1, 0.0], elements=elements
    ),
    "floating": lambda elements: FloatingBasePlant(
        FLOATING, velocity0=0.3, qd0=0.5, elements=elements
    ),
    "closed loop": lambda elements: ClosedLoopPlant(
        LOOP, FIVE_BAR.q0, qd0=five_bar_velocity(), elements=elements
    ),
    "contact": lambda elements: ContactPlant(
        RobotPlant(TOUCHING, qd0=0.5, elements=elements),
        1e3,
        10.0,
        0.5,
        Plane((0, 0, 1), (0, 0, -50.0)),
    ),
}


def five_bar_velocity():
    """Return a velocity that keeps the five-bar linkage closed."""
    return project(LOOP, FIVE_BAR.q0, np.linspace(1.0, -1.0, LOOP.nv))[1]
