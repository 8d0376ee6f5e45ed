"""The functions of FMI 2.0."""

import ctypes
from math import inf

from fmpy.fmi2 import FMU2Model, FMU2Slave, fmi2Boolean, fmi2EventInfo

from rigidblocks.simulation.fmu_interface import DISCARD, Interface, StepEnd, Update
from rigidblocks.simulation.fmu_log import callbacks_to, forget
from rigidblocks.system.fmu_file import CO_SIMULATION

_TERMINATED = 3  # of fmi2StatusKind


class Fmi2(Interface):
    """An instance of an FMI 2.0 FMU."""

    prefix = "fmi2"

    def _instantiate(self, folder: str) -> None:
        kind = FMU2Slave if self.fmu.kind == CO_SIMULATION else FMU2Model
        self.slave = kind(
            guid=self.fmu.description.guid,
            unzipDirectory=folder,
            modelIdentifier=self.fmu.interface.modelIdentifier,
            instanceName=self.part.name,
        )
        self._callbacks = callbacks_to(self.log)
        self.slave.instantiate(callbacks=self._callbacks, loggingOn=True)

    def close(self, runs: bool) -> None:
        super().close(runs)
        forget(self.log)

    def set_up(self, t: float) -> None:
        self.call("SetupExperiment", 0, 0.0, t, 0, 0.0)

    def enter_initialization(self, t: float) -> None:
        del t
        self.call("EnterInitializationMode")

    def do_step(self, t: float, dt: float, may_return: bool) -> StepEnd:
        self.call("DoStep", t, dt, 0 if may_return else 1)
        return StepEnd(t + dt, False)

    def judge(self, function: str, status: int) -> None:
        """As in all versions; a step that is discarded may mean that the FMU asks for the end."""
        if status == DISCARD and function == "fmi2DoStep":
            ends, told = fmi2Boolean(), self.slave.dll.fmi2GetBooleanStatus
            known = told(self.slave.component, _TERMINATED, ctypes.byref(ends)) == 0
            self.check_end(known and ends.value, "fmi2Terminated")
        super().judge(function, status)

    def update_discrete_states(self) -> Update:
        info = fmi2EventInfo()
        self.call("NewDiscreteStates", ctypes.byref(info))
        self.check_end(info.terminateSimulation)
        return Update(
            bool(info.newDiscreteStatesNeeded),
            bool(info.nominalsOfContinuousStatesChanged),
            bool(info.valuesOfContinuousStatesChanged),
            float(info.nextEventTime) if info.nextEventTimeDefined else inf,
        )

    def completed_step(self, may_return: bool) -> bool:
        if self.fmu.interface.completedIntegratorStepNotNeeded:
            return False
        event, ends = fmi2Boolean(), fmi2Boolean()
        self.call(
            "CompletedIntegratorStep", int(not may_return), ctypes.byref(event), ctypes.byref(ends)
        )
        self.check_end(ends.value)
        return bool(event.value)

    @property
    def _state(self) -> str:
        return "state"
