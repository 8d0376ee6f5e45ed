"""Any FMI 2.0 co-simulation FMU as a running part of a system, through FMPy."""

import contextlib
import ctypes
import logging
from collections import deque
from functools import cache
from typing import Any

import fmpy
import numpy as np
from fmpy.fmi2 import FMU2Slave, fmi2CallbackFunctions, fmi2CallbackLoggerTYPE
from fmpy.logging import addLoggerProxy

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Port
from rigidblocks.simulation.instance import Instance
from rigidblocks.simulation.table import FMI2, Entry, Variables
from rigidblocks.simulation.unpacked import Unpacked
from rigidblocks.system.fmu import Fmu, FmuError
from rigidblocks.system.part import Part

LOG = logging.getLogger("rigidblocks")
_STATUS = ("ok", "warning", "discard", "error", "fatal", "pending")
_WARNING, _DISCARD, _FATAL = 1, 2, 4
_CALLS = ("fmi2SetReal", "fmi2DoStep", "fmi2GetReal")  # by their numbers in a table
_MESSAGES = 50  # of an instance's log that are kept
_WARNINGS = 10  # of an instance that go to the log; then it is told once that there are more


class FmuLog:
    """What an FMU has logged: the last messages, and its warnings in the log `rigidblocks`, with
    the time (1,) of the step on its `clock`, NaN before the first.
    """

    def __init__(self, part: str):
        self.part, self.last, self.warnings = part, deque[str](maxlen=_MESSAGES), 0
        self.clock = np.full(1, np.nan)

    @property
    def when(self) -> str:
        """The time for messages."""
        t = self.clock[0]
        return "" if np.isnan(t) else f" at t = {t:g} s"

    def add(self, status: int, message: str) -> None:
        """Keeps a message."""
        self.last.append(message)
        if status == _WARNING:
            self.warn(f"{message}{self.when and f' ({self.when.strip()})'}")

    def warn(self, message: str) -> None:
        """Shows a warning."""
        self.warnings += 1
        if self.warnings <= _WARNINGS:
            LOG.warning("'%s': %s", self.part, message)
        elif self.warnings == _WARNINGS + 1:
            LOG.warning("'%s' warns again; further warnings of it are not shown", self.part)


_logs: dict[int, FmuLog] = {}  # of each running instance, by its component environment
_once: set[str] = set()  # the guids of instantiated FMUs that allow one instance in a process


@cache
def _callbacks() -> Any:
    """The callbacks of all instances: the proxy that formats messages for FMPy has one logger for
    the whole process.
    """
    callbacks = fmi2CallbackFunctions()
    callbacks.logger = fmi2CallbackLoggerTYPE(_log_message)
    callbacks.allocateMemory = fmpy.fmi2.defaultCallbacks.allocateMemory
    callbacks.freeMemory = fmpy.fmi2.defaultCallbacks.freeMemory
    addLoggerProxy(ctypes.byref(callbacks))
    return callbacks


def _log_message(
    environment: int, instance: bytes, status: int, category: bytes, message: bytes
) -> None:
    del instance, category
    if environment in _logs:
        _logs[environment].add(status, (message or b"").decode(errors="replace"))


class FmuInstance(Instance):
    """An FMU that runs in this process."""

    def __init__(self, part: Part):
        assert isinstance(part.component, Fmu)
        self._part, self._fmu, self._log = part, part.component, FmuLog(part.name)
        self._unpacked: Unpacked | None = None
        self._kept_by_number: dict[int, tuple[Any, tuple[Array, Array]]] = {}
        self._slave: Any = None
        self._runs = self._failed = self._is_lost = False
        # what a step may go back to, and whether it may
        self._kept, self._may_return = ctypes.c_void_p(), np.zeros(1, dtype=np.int32)
        try:
            self._check_once()
            self._unpacked = Unpacked(self._fmu.path)
            # FMPy leaves the working folder changed when a library does not load
            with contextlib.chdir(self._unpacked.folder):
                self._instantiate()
        except Exception as error:
            self.close()
            raise FmuError(
                f"'{part.name}' ({self._fmu.path}) cannot be instantiated: {error}{self._said()}"
            ) from error
        self._u, self._set_inputs, self._sets = self._bind(self._fmu.inputs, "fmi2SetReal")
        self._y, self._get_outputs, self._gets = self._bind(self._fmu.outputs, "fmi2GetReal")
        self._y_where, self._u_where = places(self._fmu.outputs), places(self._fmu.inputs)
        self._started = False
        self._kept_values = self._u.copy(), self._y.copy()

    def input(self, name: str) -> Array:
        return self._u[self._u_where[name]]

    def output(self, name: str) -> Array:
        return self._y[self._y_where[name]]

    def outputs(self) -> Array:
        return self._y

    def values(self) -> tuple[Array, Array]:
        """The values of all inputs and of all outputs, which stay valid."""
        return self._u, self._y

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
        self._runs = True
        self._get_outputs()

    def step(self, t: float, dt: float) -> None:
        self._log.clock[0] = t
        self._set_inputs()
        self._call("fmi2DoStep", t, dt, 0 if self._may_return[0] else 1)
        self._get_outputs()

    def entry(self) -> Entry:
        return Entry(
            FMI2,
            self._slave.component,
            _address(self._slave.dll.fmi2DoStep),
            self._sets,
            self._gets,
            self._log.clock,
            self._may_return,
        )

    def judge(self, call: int, status: int, t: float, dt: float) -> None:
        del t, dt  # the clock has the time
        self._judge(_CALLS[call], status)

    def save(self) -> None:
        if not self._fmu.description.coSimulation.canGetAndSetFMUstate:
            raise FmuError(
                f"'{self._part.name}' ({self._fmu.path}) cannot go back to an earlier state, as an "
                "event needs it"
            )
        self._call("fmi2GetFMUstate", ctypes.byref(self._kept))
        self._kept_values, self._may_return[0] = (self._u.copy(), self._y.copy()), True

    def restore(self) -> None:
        self._call("fmi2SetFMUstate", self._kept)
        self._u[:], self._y[:] = self._kept_values

    def view(self, name: str) -> Array | None:
        if name in self._u_where:
            return self._u[self._u_where[name]]
        return self._y[self._y_where[name]] if name in self._y_where else None

    def read(self, name: str) -> Array:
        references = self._fmu.references(name)
        values = (ctypes.c_double * len(references))()
        array = (ctypes.c_uint * len(references))(*references)
        self._call("fmi2GetReal", array, len(references), values)
        return np.array(values)

    def change(self, name: str, values: Array) -> None:
        if not self._fmu.is_tunable(name):
            raise FmuError(
                f"cannot set '{self._part.name}.{name}' while the run goes on: it is no tunable "
                "parameter; it can have another start value"
            )
        self._set(self._fmu.references(name), values)

    def keep(self, number: int) -> None:
        held = self._kept, self._kept_values
        self._kept = ctypes.c_void_p()
        try:
            self.save()
            self._kept_by_number[number] = self._kept, self._kept_values
        finally:
            self._kept, self._kept_values = held

    def go_back(self, number: int) -> None:
        held = self._kept, self._kept_values
        self._kept, self._kept_values = self._kept_by_number[number]
        try:
            self.restore()
            self._failed = False
        finally:
            self._kept, self._kept_values = held

    def forget(self, number: int) -> None:
        state, _ = self._kept_by_number.pop(number, (None, None))
        if state and self._slave is not None and not self._is_lost:
            self._slave.dll.fmi2FreeFMUstate(self._slave.component, ctypes.byref(state))

    def close(self) -> None:
        for number in list(self._kept_by_number):
            self.forget(number)
        if self._slave is not None and self._slave.component is not None and not self._is_lost:
            if self._runs and not self._failed:
                self._terminate()
            if self._kept:
                self._slave.dll.fmi2FreeFMUstate(self._slave.component, ctypes.byref(self._kept))
            self._slave.freeInstance()
        self._slave = None
        _logs.pop(id(self._log), None)
        if self._unpacked is not None:
            self._unpacked.remove()

    def _terminate(self) -> None:
        """Ends the run; what the FMU has against it is too late to be an error."""
        try:
            self._call("fmi2Terminate")
        except FmuError as error:
            self._log.warn(str(error))

    def _check_once(self) -> None:
        """Raises RuntimeError for a second instance of an FMU that allows one in a process."""
        if self._fmu.description.coSimulation.canBeInstantiatedOnlyOncePerProcess:
            guid = self._fmu.description.guid
            if guid in _once:
                raise RuntimeError(
                    "it allows one instance in a process and has had one; add it with isolated=True"
                )
            _once.add(guid)

    def _instantiate(self) -> None:
        description = self._fmu.description
        self._slave = FMU2Slave(
            guid=description.guid,
            unzipDirectory=str(self._unpacked.folder if self._unpacked else ""),
            modelIdentifier=description.coSimulation.modelIdentifier,
            instanceName=self._part.name,
        )
        shared = _callbacks()
        self._callbacks = fmi2CallbackFunctions(
            shared.logger, shared.allocateMemory, shared.freeMemory
        )
        self._callbacks.componentEnvironment = id(self._log)
        _logs[id(self._log)] = self._log
        self._slave.instantiate(callbacks=self._callbacks, loggingOn=True)

    def _bind(self, ports: tuple[Port, ...], function: str) -> tuple[Array, Any, Variables]:
        """The flat start values of ports, a function that moves them to or from the FMU, and what
        the loop in C needs to do so.
        """
        values = np.zeros(sum(port.size for port in ports))
        for port, where in zip(ports, places(ports).values(), strict=True):
            values[where] = np.ravel(
                self._part.start.get(port.name, 0.0 if port.start is None else port.start)
            )
        references = [r for port in ports for r in self._fmu.references(port.name)]
        numbers = np.array(references, dtype=np.uint32)
        array = numbers.ctypes.data_as(ctypes.POINTER(ctypes.c_uint))
        pointer = values.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
        move, component, count = (
            getattr(self._slave.dll, function),
            self._slave.component,
            len(references),
        )

        def transfer() -> None:
            if count and (status := move(component, array, count, pointer)):
                self._judge(function, status)

        return values, transfer, Variables(_address(move), numbers, values)

    def _set(self, references: list[int], values: Array) -> None:
        array = (ctypes.c_uint * len(references))(*references)
        self._call("fmi2SetReal", array, len(references), (ctypes.c_double * len(values))(*values))

    def _call(self, function: str, *arguments: Any) -> None:
        if status := getattr(self._slave.dll, function)(self._slave.component, *arguments):
            self._judge(function, status)

    def _judge(self, function: str, status: int) -> None:
        """Shows a warning; raises FmuError for what is worse."""
        name = _STATUS[status] if 0 <= status < len(_STATUS) else f"{status}, which FMI has not"
        text = f"{function} gave status {name}{self._log.when}"
        if status == _WARNING:
            if not self._log.warnings:  # else it has said so itself
                self._log.warn(text)
            return
        self._failed, self._is_lost = status != _DISCARD, status == _FATAL
        raise FmuError(f"'{self._part.name}': {text}{self._said()}")

    def _said(self) -> str:
        last = list(self._log.last)[-3:]
        return f"; its log ends: {' | '.join(last)}" if last else ""


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def places(ports: tuple[Port, ...]) -> dict[str, slice]:
    """Where the elements of each port are among those of all, by name."""
    ends = np.cumsum([0, *(port.size for port in ports)]).tolist()
    return {port.name: slice(a, a + port.size) for port, a in zip(ports, ends, strict=False)}
