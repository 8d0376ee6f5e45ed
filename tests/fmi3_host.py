"""Hosts of the tests beside native_host: FMI 3.0 co-simulation, and model exchange of both versions with fixed steps."""

import ctypes
from pathlib import Path

import fmpy
import numpy as np
from fmpy.fmi2 import FMU2Model
from fmpy.fmi3 import FMU3Model, FMU3Slave

from native_host import BLOCKS, callbacks
from rigidblocks.fmi.native import native_fmu
from rigidblocks.integrate import RK4


class Archive:
    """The FMUs of BLOCKS, each built and unpacked when it is first asked for."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def __call__(self, name, fmi):
        """The path of an FMU and the folder that it is unpacked to."""
        path = self.folder / f"{name} {fmi}.fmu"
        if not path.exists():
            native_fmu(BLOCKS[name], path, fmi=fmi)
            fmpy.extract(str(path), str(path.with_suffix("")))
        return path, path.with_suffix("")


class Instance:
    """One instance, made but not yet initialized. `references` and `sizes` are of all variables but the rates.

    `settings` are those of FMPy's FMU3Slave.instantiate.
    """

    def __init__(self, archive, name, kind, **settings):
        self.fmi = 2 if kind is FMU2Model else 3
        path, folder = archive(name, self.fmi)
        self.description = fmpy.read_model_description(str(path))
        self.messages = []
        described = self.description.modelExchange if kind is not FMU3Slave else self.description.coSimulation
        self.fmu = kind(
            guid=self.description.guid or self.description.instantiationToken,
            unzipDirectory=str(folder),
            modelIdentifier=described.modelIdentifier,
            instanceName=name,
        )
        if self.fmi == 2:
            self.fmu.instantiate(callbacks=callbacks(self.messages))
        else:
            log = lambda *given: self.messages.append((given[1], given[3].decode()))  # noqa: E731 - FMPy keeps it
            self.fmu.instantiate(logMessage=log, **settings)
        variables = [v for v in self.description.modelVariables if v.derivative is None]
        self.references = [v.valueReference for v in variables]
        self.sizes = [int(np.prod([int(d.start) for d in v.dimensions])) if v.dimensions else 1 for v in variables]
        self.starts = np.cumsum([0, *self.sizes])

    @property
    def m(self):
        """The flat memory of the block."""
        if self.fmi == 2:
            return np.array(self.fmu.getReal(self.references))
        return np.array(self.fmu.getFloat64(self.references, int(self.starts[-1])))

    def set(self, where, values):
        """Sets the variables that a slice of the memory covers."""
        values = np.ravel(values).tolist()
        chosen = [vr for vr in self.references if where.start <= vr < where.stop]
        (self.fmu.setReal if self.fmi == 2 else self.fmu.setFloat64)(chosen, values)

    def initialize(self, t=0.0, stop=None):
        self.enter_initialization(t, stop)
        self.fmu.exitInitializationMode()

    def enter_initialization(self, t=0.0, stop=None):
        if self.fmi == 2:
            self.fmu.setupExperiment(startTime=t, stopTime=stop)
            self.fmu.enterInitializationMode()
        else:
            self.fmu.enterInitializationMode(startTime=t, stopTime=stop)

    def saved(self):
        """The whole state as bytes."""
        get, serialize, free = (
            (self.fmu.getFMUstate, self.fmu.serializeFMUstate, self.fmu.freeFMUstate)
            if self.fmi == 2
            else (self.fmu.getFMUState, self.fmu.serializeFMUState, self.fmu.freeFMUState)
        )
        state = get()
        content = serialize(state)
        free(state)
        return content


class FixedStepHost(Instance):
    """A model-exchange instance with steps of RK4; it goes by what the FMU says of events, and counts none itself."""

    def __init__(self, archive, name, fmi):
        super().__init__(archive, name, FMU2Model if fmi == 2 else FMU3Model)
        self.nx = len(self.description.derivatives)
        if fmi == 3:
            self.nx = self.fmu.getNumberOfContinuousStates()
        self.events = []

    def initialize(self, t=0.0, stop=None):
        super().initialize(t, stop)
        self.handle_event(t)
        self.fmu.enterContinuousTimeMode()

    def handle_event(self, t):
        """The event at t, in event mode."""
        update = self.fmu.newDiscreteStates if self.fmi == 2 else self.fmu.updateDiscreteStates
        again, stop, nominals, _, defined, time = update()
        assert (again, stop, nominals) == (False, False, False)
        self.next_event = time if defined else np.inf
        self.events.append(t)

    def get(self, function):
        """A vector with an element for each continuous state."""
        values = (ctypes.c_double * self.nx)()
        function(values, self.nx)
        return np.array(values)

    @property
    def x(self):
        if self.fmi == 2:
            values = (ctypes.c_double * self.nx)()
            self.fmu.fmi2GetContinuousStates(self.fmu.component, values, self.nx)
            return np.array(values)
        return self.get(self.fmu.getContinuousStates)

    def rates(self, t, x):
        self.fmu.setTime(t)
        self.fmu.setContinuousStates((ctypes.c_double * self.nx)(*x), self.nx)
        return self.get(self.fmu.getDerivatives if self.fmi == 2 else self.fmu.getContinuousStateDerivatives)

    def step(self, t, h):
        """From t to t + h, then the event if there is one."""
        x, k = self.x, []
        for a, c in zip(RK4.a, RK4.c, strict=True):
            k.append(self.rates(t + c * h, x + h * sum((w * k_i for w, k_i in zip(a, k, strict=False)), start=0.0)))
        self.rates(t + h, x + h * sum(w * k_i for w, k_i in zip(RK4.b, k, strict=True)))
        wants_event, stop = self.fmu.completedIntegratorStep()
        assert not stop
        if wants_event or self.next_event <= t + h + 1e-9:
            self.fmu.enterEventMode()
            self.handle_event(t + h)
            self.fmu.enterContinuousTimeMode()
