"""The functions of FMI 3.0."""

import ctypes
from math import inf

from fmpy.fmi3 import FMU3Model, FMU3Slave, fmi3Boolean, fmi3Float64

from rigidblocks.simulation.fmu_interface import Interface, StepEnd, Update
from rigidblocks.system.fmu_file import CO_SIMULATION


class Fmi3(Interface):
    """An instance of an FMI 3.0 FMU, with intermediate updates off.

    A co-simulation FMU with event mode may return early at an event, which is handled there.
    """

    prefix = "fmi3"

    @property
    def uses_events(self) -> bool:
        return self.fmu.kind == CO_SIMULATION and bool(self.fmu.interface.hasEventMode)

    def _instantiate(self, folder: str) -> None:
        is_co_simulation = self.fmu.kind == CO_SIMULATION
        self.slave = (FMU3Slave if is_co_simulation else FMU3Model)(
            guid=self.fmu.description.guid,
            unzipDirectory=folder,
            modelIdentifier=self.fmu.interface.modelIdentifier,
            instanceName=self.part.name,
        )
        log = self.log

        def said(environment: int, status: int, category: bytes, message: bytes) -> None:
            del environment, category
            log.add(status, message)

        options = {"eventModeUsed": self.uses_events, "earlyReturnAllowed": self.uses_events}
        self.slave.instantiate(
            loggingOn=True, logMessage=said, **(options if is_co_simulation else {})
        )

    def set_up(self, t: float) -> None:
        """Has nothing to do."""

    def enter_initialization(self, t: float) -> None:
        self.call("EnterInitializationMode", False, 0.0, t, False, 0.0)

    def do_step(self, t: float, dt: float, may_return: bool) -> StepEnd:
        event, ends, early, last = fmi3Boolean(), fmi3Boolean(), fmi3Boolean(), fmi3Float64(t)
        told = (ctypes.byref(one) for one in (event, ends, early, last))
        self.call("DoStep", t, dt, not may_return, *told)
        self.check_end(ends.value)
        if not early.value:
            return StepEnd(t + dt, bool(event.value))
        if not self.uses_events:
            raise self.refuse("fmi3DoStep returned early, which it is not allowed to")
        return StepEnd(min(max(float(last.value), t), t + dt), bool(event.value))

    def update_discrete_states(self) -> Update:
        again, ends, nominals, values, timed = (fmi3Boolean() for _ in range(5))
        next_time = fmi3Float64()
        told = (ctypes.byref(one) for one in (again, ends, nominals, values, timed, next_time))
        self.call("UpdateDiscreteStates", *told)
        self.check_end(ends.value)
        next_event = float(next_time.value) if timed.value else inf
        return Update(bool(again), bool(nominals), bool(values), next_event)

    def completed_step(self, may_return: bool) -> bool:
        if not self.fmu.interface.needsCompletedIntegratorStep:
            return False
        event, ends = fmi3Boolean(), fmi3Boolean()
        self.call(
            "CompletedIntegratorStep", not may_return, ctypes.byref(event), ctypes.byref(ends)
        )
        self.check_end(ends.value)
        return bool(event.value)

    @property
    def _state(self) -> str:
        return "State"
