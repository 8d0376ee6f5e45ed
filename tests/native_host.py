"""A host of the tests: an FMI 2.0 FMU loaded by FMPy, its messages kept; and blocks to make FMUs of."""

from dataclasses import dataclass
from pathlib import Path

import fmpy
import numpy as np
from fmpy.fmi2 import (
    FMU2Slave,
    fmi2CallbackAllocateMemoryTYPE,
    fmi2CallbackFreeMemoryTYPE,
    fmi2CallbackFunctions,
    fmi2CallbackLoggerTYPE,
)

from random_models import MODELS, SIDEWAYS_GRAVITY, random_tree
from rigidblocks import Block, PDController, Port, RepeatingSequence, RobotPlant, planar2
from rigidblocks.joint import SixDoF, Spherical

FREE_BODIES = random_tree(np.random.default_rng(5), (-1, 0), (SixDoF(), Spherical()))


@dataclass(frozen=True)
class Servo(Block):
    """Masses with a sampled controller: continuous and sampled states, and an output that reads the inputs at once."""

    sample_time: float | None = 2e-3
    inputs = (Port("q_ref", (2,), "m", "reference", 0.5), Port("load", (2,), "N", "load", 0.0))
    outputs = (Port("q", (2,), "m", "position"), Port("force", (2,), "N", "force on the mass"))
    states = (Port("q", (2,), "m", "position", 0.3, rate="qd"), Port("qd", (2,), "m/s", "velocity", 0.0))
    sampled = (Port("tau", (2,), "N", "force of the controller", 0.0),)
    parameters = (Port("k", (2,), "N/m", "stiffness", (400.0, 200.0)),)

    def derivative(self, t, x, u, p):
        return {"q": x.qd, "qd": self.output(t, x, u, p)["force"]}

    def update(self, t, x, u, p):
        del t
        return {"tau": p.k * (u.q_ref - x.q)}

    def output(self, t, x, u, p):
        del t, p
        return {"force": x.tau + u.load - 2.0 * x.qd}


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
    "sequence": RepeatingSequence((0.0, 0.01, 0.025), ((0.0, 1.0), (2.0, -1.0), (0.0, 1.0))),
}


def callbacks(messages):
    """Callbacks without FMPy's logger proxy, which sends the messages of all instances to the newest."""

    def log(environment, instance, status, category, message):
        del environment, instance
        messages.append((status, category.decode(), message.decode()))

    made = fmi2CallbackFunctions()
    made.logger = fmi2CallbackLoggerTYPE(log)
    made.allocateMemory = fmi2CallbackAllocateMemoryTYPE(fmpy.calloc)
    made.freeMemory = fmi2CallbackFreeMemoryTYPE(fmpy.free)
    return made


class Host:
    """One instance, made but not yet initialized. `m` is all its variables: the flat memory of its block."""

    def __init__(self, path, folder, name="instance", guid=None):
        self.description = fmpy.read_model_description(str(path))
        self.messages = []
        self.folder = Path(folder) / self.description.guid.strip("{}")
        if not self.folder.exists():
            fmpy.extract(str(path), str(self.folder))
        self.fmu = FMU2Slave(
            guid=guid or self.description.guid,
            unzipDirectory=str(self.folder),
            modelIdentifier=self.description.coSimulation.modelIdentifier,
            instanceName=name,
        )
        self.fmu.instantiate(callbacks=callbacks(self.messages))
        self.references = [v.valueReference for v in self.description.modelVariables if v.derivative is None]

    def initialize(self, t=0.0, stop=None):
        self.fmu.setupExperiment(startTime=t, stopTime=stop)
        self.fmu.enterInitializationMode()
        self.fmu.exitInitializationMode()

    @property
    def m(self):
        return np.array(self.fmu.getReal(self.references))

    def set(self, where, values):
        """Sets the value references of a slice."""
        self.fmu.setReal(self.references[where], np.ravel(values).tolist())

    def saved(self):
        """The whole state as bytes."""
        state = self.fmu.getFMUstate()
        content = self.fmu.serializeFMUstate(state)
        self.fmu.freeFMUstate(state)
        return content

    def restore(self, content):
        state = self.fmu.deSerializeFMUstate(content)
        self.fmu.setFMUstate(state)
        self.fmu.freeFMUstate(state)
