"""Host for model exchange in both versions of FMI, with fixed steps."""

import ctypes

import numpy as np
from fmpy.fmi2 import FMU2Model
from fmpy.fmi3 import FMU3Model

from fmu_instance import Instance
from rigidblocks.block.integrators import RK4


class FixedStepHost(Instance):
    """Model-exchange instance with RK4 steps.

    It relies on the FMU's event information and does not detect events itself.
    """

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
        """Handle the event at t in event mode."""
        update = self.fmu.newDiscreteStates if self.fmi == 2 else self.fmu.updateDiscreteStates
        again, stop, nominals, _, defined, time = update()
        assert (again, stop, nominals) == (False, False, False)
        self.next_event = time if defined else np.inf
        self.events.append(t)

    def get(self, function):
        """Return a vector with an element for each continuous state."""
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
        return self.get(
            self.fmu.getDerivatives if self.fmi == 2 else self.fmu.getContinuousStateDerivatives
        )

    def step(self, t, h):
        """Step from t to t + h, then handle the event if there is one."""
        x, k = self.x, []
        for a, c in zip(RK4.a, RK4.c, strict=True):
            k.append(
                self.rates(
                    t + c * h,
                    x + h * sum((w * k_i for w, k_i in zip(a, k, strict=False)), start=0.0),
                )
            )
        self.rates(t + h, x + h * sum(w * k_i for w, k_i in zip(RK4.b, k, strict=True)))
        wants_event, stop = self.fmu.completedIntegratorStep()
        assert not stop
        if wants_event or self.next_event <= t + h + 1e-9:
            self.fmu.enterEventMode()
            self.handle_event(t + h)
            self.fmu.enterContinuousTimeMode()
