"""Instances of FMI 1.0 FMUs, with the same interface as instances of FMI 2.0 and 3.0 FMUs."""

import ctypes
from math import inf
from pathlib import Path
from typing import Any

import fmpy.fmi1
from fmpy.fmi1 import (
    FMU1Model,
    FMU1Slave,
    fmi1CallbackFunctions,
    fmi1CallbackLoggerTYPE,
    fmi1EventInfo,
    fmi1False,
)

from rigidblocks.cosim.fmu_import.fmu_interface import (
    LOG,
    Interface,
    StepEnd,
    Update,
    add_log,
    log_during_instantiation,
    remove_log,
    shared_logger,
)
from rigidblocks.cosim.graph.fmi1_description import mime_type
from rigidblocks.cosim.graph.fmu_file import CO_SIMULATION, parse_description
from rigidblocks.cosim.graph.part import Part

_TYPES_PLATFORM = "standard32"  # the only types platform that FMI 1.0 defines
# FMI 1.0 names of the functions of later versions, or None for modes that FMI 1.0 does not have
_NAMES_OF_BOTH: dict[str, str | None] = {"ExitInitializationMode": None}
_NAMES_OF_SLAVES = {**_NAMES_OF_BOTH, "Terminate": "TerminateSlave", "Reset": "ResetSlave"}
_NAMES_OF_MODELS = {
    **_NAMES_OF_BOTH,
    "EnterEventMode": None,
    "EnterContinuousTimeMode": None,
    "GetNominalsOfContinuousStates": "GetNominalContinuousStates",
}


class Fmi1(Interface):
    """Instance of an FMI 1.0 FMU.

    FMI 1.0 has no modes: one call initializes the FMU, and one call updates the discrete states.
    FMI 1.0 cannot save states. The names of the functions begin with the model identifier.
    """

    prefix = "fmi"

    @property
    def _class(self) -> Any:
        return FMU1Slave if self.fmu.kind == CO_SIMULATION else FMU1Model

    def _instantiate(self) -> None:
        is_co_simulation = self.fmu.kind == CO_SIMULATION
        self._names = _NAMES_OF_SLAVES if is_co_simulation else _NAMES_OF_MODELS
        self._initial: Update | None = None  # event information from `fmiInitialize`
        _correct_signatures(self.slave)
        platform = self.slave.getTypesPlatform()
        if platform != _TYPES_PLATFORM:
            LOG.warning(
                "'%s' (%s) uses the types platform %r; the importer uses the types of %s",
                *(self.part.name, self.fmu.path, platform, _TYPES_PLATFORM),
            )
        self._callbacks = _callbacks()
        options: dict[str, Any] = {"functions": self._callbacks, "loggingOn": True}
        if is_co_simulation:
            folder = Path(self.slave.unzipDirectory)
            options["mimeType"] = mime_type(parse_description(folder))
        with log_during_instantiation(self.log):
            self.slave.instantiate(**options)
        if self.slave.component is None:
            raise RuntimeError(f"fmiInstantiate{self._kind} returned NULL")
        add_log(self.slave.component, self.log)

    def _free(self) -> None:
        self.slave._call(f"fmi1Free{self._kind}Instance", self.slave.component)

    @property
    def _kind(self) -> str:
        """Interface type in the FMI 1.0 function names: "Slave" or "Model"."""
        return "Slave" if self.fmu.kind == CO_SIMULATION else "Model"

    def reset(self, part: Part) -> None:
        if self.fmu.kind != CO_SIMULATION:
            raise self.fmu_error("an FMI 1.0 model exchange FMU cannot be reset")
        super().reset(part)
        self.has_changed_inputs = False

    def close(self, runs: bool) -> None:
        super().close(runs)
        remove_log(self.log)

    def find_function(self, function: str) -> tuple[str, Any, Any]:
        name = f"fmi{self._names.get(function, function)}"
        found = getattr(self.slave.dll, f"{self.slave.modelIdentifier}_{name}")
        return name, found, self.slave.component

    def needs_call(self, function: str) -> bool:
        return self._names.get(function, function) is not None

    def call(self, function: str, *arguments: Any) -> None:
        if self.needs_call(function):
            super().call(function, *arguments)

    def set_up(self, t: float) -> None:
        if self.fmu.kind != CO_SIMULATION:
            self.call("SetTime", t)

    def enter_initialization(self, t: float) -> None:
        if self.fmu.kind == CO_SIMULATION:
            self.call("InitializeSlave", t, *self.stop)
            return
        tolerance, info = self.part.tolerance, fmi1EventInfo()
        self.call("Initialize", int(tolerance is not None), tolerance or 0.0, ctypes.byref(info))
        self._initial = self._update(info)

    def do_step(self, t: float, dt: float, may_roll_back: bool) -> StepEnd:
        del may_roll_back  # the importer never repeats a step
        self.call("DoStep", t, dt, 1)
        return StepEnd(t + dt, False)

    def update_discrete_states(self) -> Update:
        """Update the discrete states.

        The FMI 1.0 initialization already updates the discrete states, so the first call only
        returns the result of this update. If inputs have changed since the initialization, the
        result requests another update.
        """
        initial, self._initial = self._initial, None
        if initial is not None:
            return initial._replace(again=initial.again or self.has_changed_inputs)
        info = fmi1EventInfo()
        self.call("EventUpdate", 0, ctypes.byref(info))
        return self._update(info)

    def _update(self, info: Any) -> Update:
        self.check_end(info.terminateSimulation != fmi1False)
        changed = info.stateValueReferencesChanged != fmi1False
        return Update(
            info.iterationConverged == fmi1False,
            changed,
            changed or info.stateValuesChanged != fmi1False,
            float(info.nextEventTime) if info.upcomingTimeEvent != fmi1False else inf,
        )

    def completed_step(self, may_roll_back: bool) -> bool:
        del may_roll_back
        event = ctypes.c_int8()
        self.call("CompletedIntegratorStep", ctypes.byref(event))
        return bool(event.value)

    @property
    def _state_suffix(self) -> str:
        raise NotImplementedError("FMI 1.0 has no functions that save states")


def _callbacks() -> Any:
    """Return the FMI 1.0 callbacks of an instance; all instances share one logger."""
    default = fmpy.fmi1.defaultCallbacks
    return fmi1CallbackFunctions(
        ctypes.cast(shared_logger(), fmi1CallbackLoggerTYPE),
        default.allocateMemory,
        default.freeMemory,
        None,
    )


def _correct_signatures(slave: Any) -> None:
    """Correct the C signatures that FMPy declares for FMI 1.0 functions.

    FMPy declares the return type of many functions as a C string instead of an integer status. For
    the status 1 (warning), ctypes would then read a string at the address 1.
    """
    for name, function in slave._functions.items():
        if function.restype is ctypes.c_char_p and not name.endswith(("Platform", "Version")):
            function.restype = ctypes.c_int
        if name in ("fmi1GetBoolean", "fmi1SetBoolean"):
            function.argtypes = [*function.argtypes[:-1], ctypes.POINTER(ctypes.c_int8)]
        if name == "fmi1CompletedIntegratorStep":
            function.argtypes = [function.argtypes[0], ctypes.POINTER(ctypes.c_int8)]
