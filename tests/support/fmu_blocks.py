"""Blocks of every kind that the tests export as FMUs."""

from dataclasses import dataclass

import numpy as np

from random_models import MODELS, SIDEWAYS_GRAVITY, random_tree
from rigidblocks import Block, PDController, Port, RepeatingSequence, RobotPlant, planar2
from rigidblocks.robot.joints import SixDoF, Spherical

FREE_BODIES = random_tree(np.random.default_rng(5), (-1, 0), (SixDoF(), Spherical()))


@dataclass(frozen=True)
class Servo(Block):
    """Masses with a sampled controller.

    The block has continuous and sampled states, and an output with direct feedthrough.
    """

    sample_time: float | None = 2e-3
    inputs = (Port("q_ref", (2,), "m", "reference", 0.5), Port("load", (2,), "N", "load", 0.0))
    outputs = (Port("q", (2,), "m", "position"), Port("force", (2,), "N", "force on the mass"))
    states = (
        Port("q", (2,), "m", "position", 0.3, rate="qd"),
        Port("qd", (2,), "m/s", "velocity", 0.0),
    )
    sampled = (Port("tau", (2,), "N", "force of the controller", 0.0),)
    parameters = (Port("k", (2,), "N/m", "stiffness", (400.0, 200.0)),)

    def derivative(self, x, u):
        return {"q": x.qd, "qd": self.output(x, u)["force"]}

    def update(self, x, u, p):
        return {"tau": p.k * (u.q_ref - x.q)}

    def output(self, x, u):
        return {"force": x.tau + u.load - 2.0 * x.qd}


@dataclass(frozen=True)
class Bounded(Block):
    """Cooling with bounds on all settable variables, open and closed, lower and upper."""

    inputs = (Port("ambient", (), "K", "temperature around it", 300.0, min=0.0),)
    outputs = (Port("T", (2,), "K", "temperature"),)
    states = (Port("T", (2,), "K", "temperature", 350.0, min=0.0, max=1000.0),)
    parameters = (
        Port("k", (2,), "1/s", "rate", 0.5, positive=True),
        Port("emissivity", (), "1", "emissivity", 0.9, min=0.0, max=1.0),
    )

    def derivative(self, x, u, p):
        return {"T": -p.emissivity * p.k * (x.T - u.ambient)}


@dataclass(frozen=True)
class SampledMean(Block):
    """Sampled mean of weighted inputs, which is also an output with feedthrough."""

    sample_time: float | None = 0.01
    inputs = (Port("u", (3,), start=[1.0, 2.0, 3.0]), Port("v", (), start=0.5))
    outputs = (Port("y", (3,)), Port("s", ()))
    sampled = (Port("last", (3,), start=[0.0, 0.0, 0.0]),)
    parameters = (Port("gain", (3,), start=[2.0, 3.0, 4.0], max=10.0),)

    def update(self, x, u, p):
        return {"last": 0.5 * (x.last + p.gain * u.u)}

    def output(self, x, u):
        return {"y": x.last + u.v, "s": x.last[0] * u.v}


BLOCKS = {
    "planar2": RobotPlant(planar2(), q0=(0.3, -0.5), qd0=(1.0, 2.0)),
    "gravity": RobotPlant(planar2().with_gravity((0.0, -9.81, 0.0)), q0=(0.3, -0.5)),
    "wrenches": RobotPlant(planar2().with_gravity(SIDEWAYS_GRAVITY), external_wrenches=True),
    "mixed joints": RobotPlant(MODELS["mixed"](), q0=0.1, external_wrenches=True),
    "free bodies": RobotPlant(FREE_BODIES, qd0=0.5, external_wrenches=True),
    "pd": PDController((60.0, 30.0), (8.0, 4.0)),
    "limited pd": PDController((60.0, 30.0), (8.0, 4.0), tau_max=(20.0, 5.0)),
    "sampled pd": PDController((60.0, 30.0), (8.0, 4.0), tau_max=(20.0, 500.0), sample_time=2e-3),
    "servo": Servo(),
    "bounded": Bounded(),
    "sequence": RepeatingSequence((0.0, 0.01, 0.025), ((0.0, 1.0), (2.0, -1.0), (0.0, 1.0))),
}
