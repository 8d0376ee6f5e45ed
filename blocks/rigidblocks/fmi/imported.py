"""Any FMI 2.0 co-simulation FMU file as a part of a system, run through FMPy."""

import contextlib
import ctypes
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import fmpy
import numpy as np
from fmpy.fmi2 import FMU2Slave, fmi2CallbackFunctions, fmi2CallbackLoggerTYPE
from fmpy.logging import addLoggerProxy

from rigidblocks.block import Port
from rigidblocks.instance import Instance
from rigidblocks.spatial import Array
from rigidblocks.system import Part

_ELEMENT = re.compile(r"(?P<port>.+)\[(?P<index>\d+(?:,\d+)*)\]")
_STATUS = ("ok", "warning", "discard", "error", "fatal", "pending")


class FmuError(RuntimeError):
    """An FMU file that cannot be used, or an FMU that reports an error."""


@dataclass(frozen=True, eq=False)
class Fmu:
    """An FMU file with its real variables as ports: `q[1]`, `q[2]`, ... are one port `q`.

    Raises FmuError for a file that is missing, damaged, unsafe to unpack, of another FMI version or kind, or without a
    binary for this platform.
    """

    path: Path
    description: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "description", _read(self.path))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """The inputs; FMI gives each a start value."""
        return self._ports("input")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The outputs."""
        return self._ports("output")

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """The parameters."""
        return self._ports("parameter")

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """What else has a start value that may be set: outputs and local variables with an exact or approximate start."""
        ports = (*self._ports("output", ("exact", "approx")), *self._ports("local", ("exact", "approx")))
        return tuple(port for port in ports if port.start is not None)

    @cached_property
    def feedthrough(self) -> frozenset[tuple[str, str]]:
        """The pairs (input, output) that the model structure declares; all pairs of an output that it is silent about."""
        port_of = {v.name: port for port, group in self._groups("input", "output").items() for v in group}
        pairs = set()
        for unknown in self.description.outputs:
            known = unknown.dependencies
            names = [port.name for port in self.inputs] if known is None else [port_of.get(v.name) for v in known]
            pairs |= {(name, port_of[unknown.variable.name]) for name in names if name and unknown.variable.name in port_of}
        inputs = {port.name for port in self.inputs}
        return frozenset(pair for pair in pairs if pair[0] in inputs)

    def references(self, name: str) -> list[int]:
        """The value references of a port's elements, in order."""
        return [v.valueReference for v in self._groups()[name]]

    def _groups(self, *causalities: str) -> dict[str, list[Any]]:
        """The real variables of these causalities, of all without any, by port."""
        groups: dict[str, list[Any]] = {}
        for v in self.description.modelVariables:
            if v.type == "Real" and (not causalities or v.causality in causalities):
                match = _ELEMENT.fullmatch(v.name)
                groups.setdefault(match["port"] if match else v.name, []).append(v)
        return groups

    def _ports(self, causality: str, initial: tuple[str, ...] | None = None) -> tuple[Port, ...]:
        groups = self._groups(causality).items()
        return tuple(_port(name, group) for name, group in groups if initial is None or group[0].initial in initial)


def _port(name: str, group: list[Any]) -> Port:
    """The port of a group of variables. An FMU that names no unit leaves it open: ''."""
    last = _ELEMENT.fullmatch(group[-1].name)
    shape = tuple(int(k) for k in last["index"].split(",")) if last else ()
    if int(np.prod(shape)) != len(group):
        raise FmuError(f"the elements of '{name}' do not fill an array: {', '.join(v.name for v in group)}")
    start = [v.start for v in group]
    known = None if None in start else np.reshape(np.array(start, dtype=float), shape)
    return Port(name, shape, tuple(_unit(v) for v in group), group[0].description or "", known)


def _unit(variable: Any) -> str:
    declared = variable.declaredType.unit if variable.declaredType else None
    return variable.unit or declared or ""


def _read(path: Path) -> Any:
    """The model description of an FMU file that can run here."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            damaged = archive.testzip()
        description = fmpy.read_model_description(str(path), validate=False)
    except FileNotFoundError:
        raise FmuError(f"there is no FMU file '{path}'") from None
    except Exception as error:
        raise FmuError(f"the FMU file '{path}' is damaged: {error}") from error
    if damaged:
        raise FmuError(f"the FMU file '{path}' is damaged: '{damaged}' does not unpack")
    _check_names(path, names)
    if description.fmiVersion != "2.0" or description.coSimulation is None:
        kind = "model exchange" if description.coSimulation is None else "co-simulation"
        raise FmuError(f"'{path}' is an FMI {description.fmiVersion} {kind} FMU; only FMI 2.0 co-simulation can be used")
    binary = f"binaries/{fmpy.platform}/{description.coSimulation.modelIdentifier}{fmpy.sharedLibraryExtension}"
    if binary not in names:
        platforms = sorted({PurePosixPath(name).parts[1] for name in names if re.match(r"binaries/[^/]+/.", name)})
        raise FmuError(f"'{path}' has no binary for {fmpy.platform}; it has: {', '.join(platforms) or 'none'}")
    return description


def _check_names(path: Path, names: Iterable[str]) -> None:
    for name in names:
        if "\\" in name or ":" in name or name.startswith("/") or ".." in PurePosixPath(name).parts:
            raise FmuError(f"'{path}' would unpack outside its folder, to '{name}'")


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
        self._call("fmi2DoStep", t, dt, 1, at=t)
        self._get_outputs()

    def close(self) -> None:
        if self._slave is not None and self._slave.component is not None:
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
