"""Any FMI 2.0 co-simulation FMU as a running part of a system, through FMPy."""

import contextlib
import ctypes
import shutil
import tempfile
from functools import cache
from typing import Any

import fmpy
import numpy as np
from fmpy.fmi2 import FMU2Slave, fmi2CallbackFunctions, fmi2CallbackLoggerTYPE
from fmpy.logging import addLoggerProxy

from rigidblocks.block import Port
from rigidblocks.fmi.file import Fmu, FmuError
from rigidblocks.instance import Instance
from rigidblocks.spatial import Array
from rigidblocks.system import Part

_STATUS = ("ok", "warning", "discard", "error", "fatal", "pending")

_logs: dict[int, list[str]] = {}  # the messages of each running instance, by its component environment


@cache
def _callbacks() -> Any:
    """The callbacks of all instances: the proxy that formats messages for FMPy has one logger for the whole process."""
    callbacks = fmi2CallbackFunctions()
    callbacks.logger = fmi2CallbackLoggerTYPE(_log_message)
    callbacks.allocateMemory = fmpy.fmi2.defaultCallbacks.allocateMemory
    callbacks.freeMemory = fmpy.fmi2.defaultCallbacks.freeMemory
    addLoggerProxy(ctypes.byref(callbacks))
    return callbacks


def _log_message(environment: int, instance: bytes, status: int, category: bytes, message: bytes) -> None:
    del instance, status, category
    _logs[environment].append(message.decode(errors="replace"))


class FmuInstance(Instance):
    """An FMU that runs in this process."""

    def __init__(self, part: Part):
        assert isinstance(part.component, Fmu)
        self._part, self._fmu, self._log = part, part.component, list[str]()
        self._folder = tempfile.mkdtemp(prefix="rigidblocks_")
        self._slave: Any = None
        self._kept, self._may_return = ctypes.c_void_p(), False  # the state that a step may go back to
        try:
            fmpy.extract(str(self._fmu.path), self._folder)
            with contextlib.chdir(self._folder):  # FMPy leaves the working folder changed when a library does not load
                self._instantiate()
        except Exception as error:
            self.close()
            raise FmuError(f"'{part.name}' ({self._fmu.path}) cannot be instantiated: {error}{self._said()}") from error
        self._u, self._set_inputs = self._bind(self._fmu.inputs, "fmi2SetReal")
        self._y, self._get_outputs = self._bind(self._fmu.outputs, "fmi2GetReal")
        self._y_where, self._u_where = _places(self._fmu.outputs), _places(self._fmu.inputs)
        self._started = False
        self._kept_values = self._u.copy(), self._y.copy()

    def input(self, name: str) -> Array:
        return self._u[self._u_where[name]]

    def output(self, name: str) -> Array:
        return self._y[self._y_where[name]]

    def outputs(self) -> Array:
        return self._y

    def initialize(self, t: float) -> None:
        if not self._started:
            self._call("fmi2SetupExperiment", 0, 0.0, t, 0, 0.0)
            for name, value in self._part.start.items():
                if name not in self._u_where:
                    self._set(self._fmu.references(name), np.ravel(value))
            self._call("fmi2EnterInitializationMode")
            self._started = True
        self._set_inputs()
        self._get_outputs()

    def begin(self) -> None:
        self._call("fmi2ExitInitializationMode")
        self._get_outputs()

    def step(self, t: float, dt: float) -> None:
        self._set_inputs()
        self._call("fmi2DoStep", t, dt, 0 if self._may_return else 1, at=t)
        self._get_outputs()

    def save(self) -> None:
        if not self._fmu.description.coSimulation.canGetAndSetFMUstate:
            raise FmuError(
                f"'{self._part.name}' ({self._fmu.path}) cannot go back to an earlier state, as an event needs it"
            )
        self._call("fmi2GetFMUstate", ctypes.byref(self._kept))
        self._kept_values, self._may_return = (self._u.copy(), self._y.copy()), True

    def restore(self) -> None:
        self._call("fmi2SetFMUstate", self._kept)
        self._u[:], self._y[:] = self._kept_values

    def close(self) -> None:
        if self._slave is not None and self._slave.component is not None:
            if self._kept:
                self._slave.dll.fmi2FreeFMUstate(self._slave.component, ctypes.byref(self._kept))
            self._slave.freeInstance()
            self._slave = None
        _logs.pop(id(self._log), None)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _instantiate(self) -> None:
        description = self._fmu.description
        self._slave = FMU2Slave(
            guid=description.guid,
            unzipDirectory=self._folder,
            modelIdentifier=description.coSimulation.modelIdentifier,
            instanceName=self._part.name,
        )
        shared = _callbacks()
        self._callbacks = fmi2CallbackFunctions(shared.logger, shared.allocateMemory, shared.freeMemory)
        self._callbacks.componentEnvironment = id(self._log)
        _logs[id(self._log)] = self._log
        self._slave.instantiate(callbacks=self._callbacks, loggingOn=True)

    def _bind(self, ports: tuple[Port, ...], function: str) -> tuple[Array, Any]:
        """The flat start values of ports, and a function that moves them to or from the FMU."""
        values = np.zeros(sum(port.size for port in ports))
        for port, where in zip(ports, _places(ports).values(), strict=True):
            values[where] = np.ravel(self._part.start.get(port.name, 0.0 if port.start is None else port.start))
        references = [r for port in ports for r in self._fmu.references(port.name)]
        array = (ctypes.c_uint * len(references))(*references)
        pointer = values.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
        move, component, count = getattr(self._slave.dll, function), self._slave.component, len(references)

        def transfer() -> None:
            if count and (status := move(component, array, count, pointer)) > 1:
                raise self._error(function, status)

        return values, transfer

    def _set(self, references: list[int], values: Array) -> None:
        array = (ctypes.c_uint * len(references))(*references)
        self._call("fmi2SetReal", array, len(references), (ctypes.c_double * len(values))(*values))

    def _call(self, function: str, *arguments: Any, at: float | None = None) -> None:
        status = getattr(self._slave.dll, function)(self._slave.component, *arguments)
        if status > 1:
            raise self._error(function, status, at)

    def _error(self, function: str, status: int, at: float | None = None) -> FmuError:
        when = "" if at is None else f" at t = {at:g} s"
        return FmuError(f"'{self._part.name}': {function} gave status {_STATUS[status]}{when}{self._said()}")

    def _said(self) -> str:
        return f"; its log ends: {' | '.join(self._log[-3:])}" if self._log else ""


def _places(ports: tuple[Port, ...]) -> dict[str, slice]:
    ends = np.cumsum([0, *(port.size for port in ports)]).tolist()
    return {port.name: slice(a, a + port.size) for port, a in zip(ports, ends, strict=False)}
