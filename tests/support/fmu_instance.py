"""Instances of FMUs of both versions, in co-simulation and model exchange, loaded by FMPy.

Each instance keeps its messages.
"""

from pathlib import Path

import fmpy
import numpy as np
import pytest
from fmpy.fmi1 import FMICallException
from fmpy.fmi2 import (
    FMU2Model,
    FMU2Slave,
    fmi2CallbackAllocateMemoryTYPE,
    fmi2CallbackFreeMemoryTYPE,
    fmi2CallbackFunctions,
    fmi2CallbackLoggerTYPE,
)
from fmpy.fmi3 import FMU3Slave

from fmu_blocks import BLOCKS
from rigidblocks.block.integrators import RK4
from rigidblocks.fmi.native_fmu import native_fmu
from rigidblocks.fmi.variables import INDICATORS

DISCARD, ERROR = 2, 3


def refused(instance, status, message, call):
    """Assert that the FMU rejects a call with that message and does not change its state."""
    before = instance.saved()
    with pytest.raises(FMICallException) as error:
        call(instance.fmu)
    assert error.value.status == status
    category = {DISCARD: ["logStatusDiscard"], ERROR: ["logStatusError"]}[status]
    said, *categories, text = instance.messages[-1]  # FMPy omits the category in FMI 3
    assert (said, text) == (status, message)
    assert categories == (category if instance.fmi == 2 else [])
    assert instance.saved() == before


def callbacks(messages):
    """Return callbacks without FMPy's logger proxy.

    The proxy sends the messages of all instances to the newest one.
    """

    def log(environment, instance, status, category, message):
        del environment, instance
        messages.append((status, category.decode(), message.decode()))

    made = fmi2CallbackFunctions()
    made.logger = fmi2CallbackLoggerTYPE(log)
    made.allocateMemory = fmi2CallbackAllocateMemoryTYPE(fmpy.calloc)
    made.freeMemory = fmi2CallbackFreeMemoryTYPE(fmpy.free)
    return made


class Archive:
    """FMUs of BLOCKS, each built and unpacked at its first use."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, name, fmi):
        """Return the path of an FMU and the folder of its content."""
        path = self.folder / f"{name} {fmi}.fmu"
        if not path.exists():
            native_fmu(BLOCKS[name], path, method=RK4, fmi=fmi)
            fmpy.extract(str(path), str(path.with_suffix("")))
        return path, path.with_suffix("")


def is_in_memory(variable):
    """Return True for variables that are neither derivatives nor event indicators."""
    return variable.derivative is None and variable.name != INDICATORS


class Instance:
    """FMU instance that is not yet initialized.

    `references` and `sizes` cover all variables except derivatives and event indicators. `messages`
    has tuples (status, category, text), in FMI 3 (status, text). `settings` are arguments of FMPy's
    FMU3Slave.instantiate.
    """

    tolerance = None  # tolerance that the host sets

    def __init__(self, archive, name, kind, guid=None, messages=None, **settings):
        self.fmi = 2 if kind in (FMU2Model, FMU2Slave) else 3
        path, folder = archive(name, self.fmi)
        self.description = fmpy.read_model_description(str(path))
        self.messages = [] if messages is None else messages
        described = (
            self.description.coSimulation
            if kind in (FMU2Slave, FMU3Slave)
            else self.description.modelExchange
        )
        self.fmu = kind(
            guid=guid or self.description.guid or self.description.instantiationToken,
            unzipDirectory=str(folder),
            modelIdentifier=described.modelIdentifier,
            instanceName=name,
        )
        if self.fmi == 2:
            self.fmu.instantiate(callbacks=callbacks(self.messages))
        else:
            log = lambda *given: self.messages.append((given[1], given[3].decode()))  # noqa: E731 - FMPy keeps it
            self.fmu.instantiate(logMessage=log, **settings)
        variables = [v for v in self.description.modelVariables if is_in_memory(v)]
        self.references = [v.valueReference for v in variables]
        self.sizes = [
            int(np.prod([int(d.start) for d in v.dimensions])) if v.dimensions else 1
            for v in variables
        ]
        self.starts = np.cumsum([0, *self.sizes])

    @property
    def m(self):
        """Flat memory of the block."""
        if self.fmi == 2:
            return np.array(self.fmu.getReal(self.references))
        return np.array(self.fmu.getFloat64(self.references, int(self.starts[-1])))

    def set(self, where, values):
        """Set the variables in a slice of the memory."""
        values = np.ravel(values).tolist()
        chosen = [vr for vr in self.references if where.start <= vr < where.stop]
        (self.fmu.setReal if self.fmi == 2 else self.fmu.setFloat64)(chosen, values)

    def initialize(self, t=0.0, stop=None):
        self.enter_initialization(t, stop)
        self.fmu.exitInitializationMode()

    def enter_initialization(self, t=0.0, stop=None):
        if self.fmi == 2:
            self.fmu.setupExperiment(self.tolerance, startTime=t, stopTime=stop)
            self.fmu.enterInitializationMode()
        else:
            self.fmu.enterInitializationMode(self.tolerance, startTime=t, stopTime=stop)

    def advance(self, t, dt):
        """Take a step in co-simulation, which must not end early."""
        reported = self.fmu.doStep(t, dt)
        if self.fmi == 3:
            assert reported == (False, False, False, self.m[0]), "no event, no end, not early"

    def for_states(self, name):
        """Return FMPy's function for saved states, whose spelling differs between versions."""
        fmi2 = {"deserialize": "deSerialize"}.get(name, name) + "FMUstate"
        return getattr(self.fmu, fmi2 if self.fmi == 2 else f"{name}FMUState")

    def saved(self):
        """Return the whole state as bytes."""
        state = self.for_states("get")()
        content = self.for_states("serialize")(state)
        self.for_states("free")(state)
        return content

    def restore(self, content):
        """Restore the state from bytes."""
        state = self.for_states("deserialize")(content)
        self.for_states("set")(state)
        self.for_states("free")(state)


class Host(Instance):
    """Co-simulation instance of an FMI 2.0 FMU at a path.

    The first instance unpacks the FMU into a subfolder.
    """

    def __init__(self, path, folder):
        guid = fmpy.read_model_description(str(path)).guid
        unpacked = Path(folder) / guid.strip("{}")
        if not unpacked.exists():
            fmpy.extract(str(path), str(unpacked))
        super().__init__(lambda _name, _fmi: (path, unpacked), "instance", FMU2Slave)
