"""FMI function calls through FMPy, unpacking of FMU files, and logs of FMU instances."""

import abc
import contextlib
import ctypes
import logging
import os
import shutil
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from functools import cache
from importlib import import_module
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import fmpy
import numpy as np
from fmpy import freeLibrary
from fmpy.fmi1 import _FMU
from fmpy.fmi2 import (
    FMU2Model,
    FMU2Slave,
    fmi2Boolean,
    fmi2CallbackFunctions,
    fmi2CallbackLoggerTYPE,
    fmi2EventInfo,
)
from fmpy.fmi3 import FMU3Model, FMU3ScheduledExecution, FMU3Slave, fmi3Boolean, fmi3Float64
from fmpy.logging import addLoggerProxy

from rigidblocks.cosim.graph.fmu_file import (
    CO_SIMULATION,
    MODEL_EXCHANGE,
    SCHEDULED_EXECUTION,
    WORKING_FOLDER_LOCK,
    compile_sources,
    place_library,
    unpack_files,
)
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from rigidblocks.cosim.graph.part import Part

LOG = logging.getLogger("rigidblocks")
WARNING = 1  # FMI status for a warning
_MESSAGES = 50  # number of stored messages of an instance
_WARNINGS = 10  # maximum number of logged warnings of an instance


class FmuLog:
    """Log of an FMU instance.

    The object stores the latest messages. It also passes warnings to the logger `rigidblocks`.
    `clock` (1,) contains the time of the current step [s], or NaN before the first step.
    """

    def __init__(self, part: str):
        self.part, self.last, self.warnings = part, deque[str](maxlen=_MESSAGES), 0
        self.clock = np.full(1, np.nan)

    def restart(self) -> None:
        """Delete the log messages of the previous run."""
        self.last.clear()
        self.warnings, self.clock[0] = 0, np.nan

    @property
    def time_text(self) -> str:
        """Time of the current step for messages, or "" before the first step."""
        t = self.clock[0]
        return "" if np.isnan(t) else f" at t = {t:g} s"

    def add(self, status: int, message: bytes | None) -> None:
        """Store a log message of the FMU; also pass warnings to the logger `rigidblocks`."""
        text = (message or b"").decode(errors="replace")
        self.last.append(text)
        if status == WARNING:
            self.warn(f"{text}{self.time_text and f' ({self.time_text.strip()})'}")

    def warn(self, message: str) -> None:
        """Log a warning about the FMU, up to a maximum number of warnings."""
        self.warnings += 1
        if self.warnings <= _WARNINGS:
            LOG.warning("'%s': %s", self.part, message)
        elif self.warnings == _WARNINGS + 1:
            LOG.warning("'%s' has more warnings; they are not shown", self.part)


# log of each instance: by component environment in FMI 2.0, by component in FMI 1.0
_logs: dict[int, FmuLog] = {}
_instantiation = threading.local()  # log of the FMI 1.0 FMU that the thread instantiates


def callbacks_to(log: FmuLog) -> Any:
    """Return the FMI 2.0 callbacks that write the messages of an FMU instance to `log`."""
    shared = _callbacks()
    own = fmi2CallbackFunctions(shared.logger, shared.allocateMemory, shared.freeMemory)
    own.componentEnvironment = id(log)
    add_log(id(log), log)
    return own


def add_log(key: int, log: FmuLog) -> None:
    """Register the log of an instance by `key`, the first argument of the logger callback."""
    _logs[key] = log


def remove_log(log: FmuLog) -> None:
    """Unregister the log of an instance."""
    for key in [key for key, one in list(_logs.items()) if one is log]:
        _logs.pop(key, None)


@contextlib.contextmanager
def log_during_instantiation(log: FmuLog) -> Iterator[None]:
    """Context manager that stores the messages of an FMI 1.0 instantiation in `log`."""
    _instantiation.log = log
    try:
        yield
    finally:
        _instantiation.log = None


def shared_logger() -> Any:
    """Return the C logger callback, which formats the messages of all instances."""
    return _callbacks().logger


@cache
def _callbacks() -> Any:
    """Return the FMI 2.0 callbacks that all instances share.

    FMPy formats the messages, and supports only one logger per process.
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
    log = _logs.get(environment) or getattr(_instantiation, "log", None)
    if log is not None:
        log.add(status, message)


try:
    import fcntl
except ImportError:  # on Windows, the folders of killed processes remain
    fcntl = None  # type: ignore[assignment]

_PREFIX = "rigidblocks_fmu_"
_LOCK = "in_use.lock"


class Unpacked:
    """Unpacked FMU in a temporary folder, with its loaded library.

    One or several instances use the library. When the last instance calls `release`, the library is
    unloaded and the folder is removed. The folder is locked while this process runs. An unlocked
    folder is left over from a killed process; the creation of the next folder removes it.
    """

    def __init__(self, fmu: Fmu):
        _remove_unused()
        self._fmu, self._users, self.is_lost = fmu, 0, False
        self._loaded: Any = None
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = os.open(self.folder / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        if fcntl is not None:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            self._unpack()
        except BaseException:
            self._remove()
            raise
        if (self.folder / "resources" / "layout.json").exists():  # a rigidblocks Python FMU
            with contextlib.suppress(ImportError):  # the FMU may bundle the package instead
                import_module("pythonfmu.fmi2slave")

    def _unpack(self) -> None:
        """Unpack the FMU, and compile its sources or copy its binary to the path of the library."""
        unpack_files(self._fmu.file, self.folder)
        if not self._fmu.sources:
            place_library(self.folder, self._fmu.library)
            return
        path = self.folder / self._fmu.library
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(compile_sources(self._fmu.file, self.folder, self._fmu.sources, path.name))

    def acquire(self, kind: Any, name: str) -> Any:
        """Return an object of the FMPy class `kind` for a new instance.

        `name` is the name of the instance. The first call loads the library.
        """
        if self._loaded is None:
            self._loaded = load_library(kind, self._fmu, str(self.folder), name)
        self._users += 1
        slave = copy(self._loaded)
        slave.instanceName = name
        return slave

    def release(self) -> None:
        """Release the library and the folder for one instance."""
        self._users -= 1
        if self._users <= 0:
            if self._loaded is not None and not self.is_lost:
                self._loaded.freeLibrary()
            self._loaded = None
            self._remove()

    def _remove(self) -> None:
        """Remove the folder, and the modules that a Python FMU has imported from this folder."""
        _forget_imports(f"{self.folder}{os.sep}")
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
        shutil.rmtree(self.folder, ignore_errors=True)


def _forget_imports(folder: str) -> None:
    """Remove the paths in a folder from `sys.path`, and the imported modules from `sys.modules`.

    A Python FMU puts its resources first in `sys.path`. After the folder is removed, any user of
    the machine could create this folder with modules that replace modules of the standard library.
    """
    for path in [path for path in sys.path if isinstance(path, str) and path.startswith(folder)]:
        with contextlib.suppress(ValueError):  # another thread has already removed the path
            sys.path.remove(path)  # in place, because another FMU may be adding a path
    for path in [path for path in list(sys.path_importer_cache) if path.startswith(folder)]:
        sys.path_importer_cache.pop(path, None)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(folder):
            sys.modules.pop(name, None)


def _remove_unused() -> None:
    if fcntl is None:
        return
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        # ignore a folder of another user, or one that another process is removing
        with contextlib.suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


_STATUS = ("ok", "warning", "discard", "error", "fatal", "pending")
DISCARD, _FATAL = 2, 4
WITHOUT_EVENT_MODE = (
    "it declares hasEventMode but rejects event mode, so it runs without event mode"
)

# GUIDs of FMUs that allow only one instance per process. An entry remains as long as the instance
# exists or the library is loaded.
_once: set[str] = set()


class StepEnd(NamedTuple):
    """Time [s] at the end of a step, and a Boolean that is True if an event occurs at this time."""

    t: float
    event: bool


class Update(NamedTuple):
    """Result of a discrete-state update.

    Attributes:
        again: True if the FMU requests another update.
        nominals_changed: True if nominal values have changed.
        states_changed: True if continuous states have changed.
        next_event: Time of the next event [s], or infinity.
    """

    again: bool
    nominals_changed: bool
    states_changed: bool
    next_event: float


class _LoadedFmu(_FMU):
    """FMPy's FMU base class, with a constructor that does not change the working directory.

    The FMPy constructor changes the working directory of the process to load the library. This
    affects relative paths in all threads.
    """

    def __init__(
        self,
        guid: str,
        modelIdentifier: str,
        unzipDirectory: str,
        instanceName: str,
        libraryPath: str,
    ):
        self.guid, self.modelIdentifier = guid, modelIdentifier
        self.unzipDirectory, self.instanceName = unzipDirectory, instanceName
        self.fmiCallLogger, self.requireFunctions = None, True
        self._functions: dict[str, Any] = {}
        self.component = self.callbacks = None
        self.dll = _loaded_library(Path(libraryPath))
        self._loadFunctions()


def _loaded_library(path: Path) -> ctypes.CDLL:
    """Load a library; after a failure, try again with its folder as the working directory."""
    if not path.is_file():
        raise FileNotFoundError(f"library '{path.name}' does not exist")
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        with WORKING_FOLDER_LOCK, contextlib.chdir(path.parent):
            return ctypes.CDLL(str(path))


def load_library(kind: type, fmu: Fmu, folder: str, name: str) -> Any:
    """Load the binary of an unpacked FMU as an object of the FMPy class `kind`."""
    return type(kind.__name__, (kind, _LoadedFmu), {})(
        guid=fmu.description.guid,
        modelIdentifier=fmu.interface.modelIdentifier,
        unzipDirectory=folder,
        instanceName=name,
        libraryPath=os.path.join(folder, fmu.library),
    )


class Interface(abc.ABC):
    """Base class of the FMU instances, with methods that do not depend on the FMI version.

    `stop_time` is the end of the run [s], or infinity if it is not known when the run starts.
    `shared` is an unpacked FMU, whose library several instances may use. By default, the instance
    unpacks its own copy. The methods raise FmuError if an FMI function returns a status worse than
    a warning. The error message names the part, the function and the time.
    """

    prefix: str

    def __init__(self, part: Part, shared: Unpacked | None = None):
        assert isinstance(part.component, Fmu)
        self.part, self.fmu, self.log = part, part.component, FmuLog(part.name)
        self.slave: Any = None
        self.failed = self.is_lost = False
        self.stop_time = inf
        self.has_changed_inputs = False  # True if inputs have changed since the initialization
        self._unpacked = shared
        self._is_only = False  # True for an FMU that allows one instance per process
        try:
            with WORKING_FOLDER_LOCK:  # lock, because loading may change the working directory
                self._make()
        except Exception as error:
            self.close(False)
            raise FmuError(
                f"'{part.name}' ({self.fmu.path}) cannot be instantiated: {error}"
                f"{self._tool_note()}{self.log_text()}"
            ) from error

    def _make(self) -> None:
        """Unpack and instantiate the FMU."""
        self._check_single_instance()
        if self._unpacked is None:
            self._unpacked = Unpacked(self.fmu)
        self.slave = self._unpacked.acquire(self._class, self.part.name)
        self._instantiate()

    @property
    @abc.abstractmethod
    def _class(self) -> Any:
        """FMPy class of the FMU."""

    @property
    def stop(self) -> tuple[bool, float]:
        """FMI arguments `stopTimeDefined` and `stopTime` [s]; the time is 0 if it is not known."""
        is_known = isfinite(self.stop_time)
        return is_known, self.stop_time if is_known else 0.0

    @property
    def uses_events(self) -> bool:
        """True if the importer handles the events of a co-simulation FMU."""
        return False

    @abc.abstractmethod
    def _instantiate(self) -> None:
        """Instantiate the FMU through the FMPy object `slave`."""

    @abc.abstractmethod
    def set_up(self, t: float) -> None:
        """Prepare the FMU for a run from the time t [s], before the start values are set."""

    @abc.abstractmethod
    def enter_initialization(self, t: float) -> None:
        """Enter initialization mode at the time t [s]."""

    @abc.abstractmethod
    def do_step(self, t: float, dt: float, may_roll_back: bool) -> StepEnd:
        """Execute a communication step; `may_roll_back` is true if the master may repeat it."""

    @abc.abstractmethod
    def update_discrete_states(self) -> Update:
        """Update the discrete states once in event mode."""

    @property
    def needs_completed_step(self) -> bool:
        """True if the FMU requires a call of `completed_step` after each inner step."""
        return True

    @abc.abstractmethod
    def completed_step(self, may_roll_back: bool) -> bool:
        """Notify the FMU of a completed inner step; return True if the FMU requests event mode.

        If `may_roll_back` is false, the master will not restore an earlier FMU state.
        """

    def call(self, function: str, *arguments: Any) -> None:
        """Call an FMI function for this instance; `function` is the name without the FMI prefix."""
        name, found, component = self.find_function(function)
        if status := found(component, *arguments):
            self.check_status(name, status)

    def needs_call(self, function: str) -> bool:
        """Return False if this FMI version does not have the function; no call is then needed."""
        del function
        return True

    def caller(self, function: str) -> Callable[..., None]:
        """Return a function for repeated calls of an FMI function, equivalent to `call`."""
        name, found, component = self.find_function(function)

        def call(*arguments: Any) -> None:
            if status := found(component, *arguments):
                self.check_status(name, status)

        return call

    def find_function(self, function: str) -> tuple[str, Any, Any]:
        """Return a tuple: full name of an FMI function, C function, and FMU instance pointer."""
        name = self.prefix + function
        return name, getattr(self.slave.dll, name), self.slave.component

    def save(self, handle: ctypes.c_void_p) -> None:
        """Save the current FMU state, and store its handle in `handle`."""
        if not self.fmu.interface.canGetAndSetFMUstate:
            raise FmuError(
                f"'{self.part.name}' ({self.fmu.path}) cannot restore an earlier state "
                "(canGetAndSetFMUstate is false)"
            )
        self.call(f"GetFMU{self._state_suffix}", ctypes.byref(handle))

    def restore(self, handle: ctypes.c_void_p) -> None:
        """Restore the FMU state with the handle `handle`."""
        self.call(f"SetFMU{self._state_suffix}", handle)

    @property
    @abc.abstractmethod
    def _state_suffix(self) -> str:
        """Suffix of function names such as fmi2GetFMUstate: "state", or "State" for FMI 3.0."""

    def free(self, handle: ctypes.c_void_p) -> None:
        """Free the FMU state with the handle `handle`."""
        if handle and self.slave is not None and not self.is_lost:
            function = getattr(self.slave.dll, f"{self.prefix}FreeFMU{self._state_suffix}")
            function(self.slave.component, ctypes.byref(handle))

    def serialize(self, handle: ctypes.c_void_p) -> bytes:
        """Serialize the FMU state with the handle `handle`, and return the bytes."""
        size = ctypes.c_size_t()
        self.call(f"SerializedFMU{self._state_suffix}Size", handle, ctypes.byref(size))
        data = (self._byte * size.value)()
        self.call(f"SerializeFMU{self._state_suffix}", handle, data, size)
        return bytes(bytearray(data))

    def deserialize(self, data: bytes) -> ctypes.c_void_p:
        """Deserialize an FMU state from the bytes of `serialize`, and return its handle."""
        handle, values = ctypes.c_void_p(), (self._byte * len(data)).from_buffer_copy(data)
        function = "DeSerializeFMUstate" if self._state_suffix == "state" else "DeserializeFMUState"
        self.call(function, values, ctypes.c_size_t(len(data)), ctypes.byref(handle))
        return handle

    @property
    def _byte(self) -> Any:
        """Byte type in the FMPy declarations of the FMI functions."""
        return ctypes.c_char if self._state_suffix == "state" else ctypes.c_uint8

    def reset(self, part: Part) -> None:
        """Reset the FMU to the state after instantiation; `part` contains the new start values."""
        self.part = part
        self.log.restart()
        self.call("Reset")

    def close(self, runs: bool) -> None:
        """Free the instance; terminate the instance first if `runs` is true."""
        if self.slave is not None and self.slave.component is not None and not self.is_lost:
            if runs and not self.failed:
                self.terminate()
            self._free()
        unpacked, self._unpacked = self._unpacked, None
        if unpacked is not None:
            library = unpacked.folder / self.fmu.library
            unpacked.is_lost |= self.is_lost
            unpacked.release()
        if self._is_only and (unpacked is None or not _is_loaded(library)):
            _once.discard(self.fmu.description.guid)
        self._is_only = False
        self.slave = None

    @abc.abstractmethod
    def _free(self) -> None:
        """Free the instance of the FMU."""

    def terminate(self) -> None:
        """Terminate the FMU; errors are only logged, because the run has already ended."""
        try:
            self.call("Terminate")
        except FmuError as error:
            self.log.warn(str(error).removeprefix(f"'{self.part.name}': "))  # the log adds it

    def _check_single_instance(self) -> None:
        """Raise RuntimeError if another instance exists and the FMU allows only one per process."""
        if self.fmu.interface.canBeInstantiatedOnlyOncePerProcess:
            guid = self.fmu.description.guid
            if guid in _once:
                raise RuntimeError(
                    "it allows only one instance in a process, or its library cannot be "
                    "unloaded; add it with isolated=True"
                )
            _once.add(guid)
            self._is_only = True

    def check_status(self, function: str, status: int) -> None:
        """Raise FmuError for an FMI status worse than a warning; log a warning."""
        name = _STATUS[status] if 0 <= status < len(_STATUS) else f"{status} (unknown in FMI)"
        text = f"{function} gave status {name}{self.log.time_text}"
        if status == WARNING:
            if not self.log.warnings:  # otherwise the FMU itself has logged a warning
                self.log.warn(text)
            return
        self.failed, self.is_lost = status != DISCARD, status == _FATAL
        raise FmuError(f"'{self.part.name}': {text}{self.log_text()}")

    def fmu_error(self, text: str) -> FmuError:
        """Return an FmuError; the message contains part, `text`, time and last log messages."""
        return FmuError(f"'{self.part.name}': {text}{self.log.time_text}{self.log_text()}")

    def check_end(self, terminates: Any, source: str = "terminateSimulation") -> None:
        """Raise FmuError if the FMU requests the end of the simulation (`terminates` is true).

        `source` is the name of the FMI variable that contains the request, for the message.
        """
        if terminates:
            raise self.fmu_error(f"it requests the end of the simulation ({source})")

    def _tool_note(self) -> str:
        """Return a note on the tool that the FMU requires at run time, or "" if it needs none."""
        if not self.fmu.interface.needsExecutionTool:
            return ""
        tool = self.fmu.description.generationTool or "its export tool"
        return f"; it needs a tool at run time (needsExecutionTool): {tool}"

    def log_text(self) -> str:
        """Return the last messages of the FMU, for error messages."""
        last = list(self.log.last)[-3:]
        return f"; its log ends: {' | '.join(last)}" if last else ""


def _is_loaded(library: Path) -> bool:
    """Return True if a library is loaded in this process, or if this cannot be determined."""
    mode = getattr(os, "RTLD_NOLOAD", None)
    if mode is None:
        return True
    try:
        load_library = ctypes.CDLL(str(library), mode=mode | os.RTLD_LAZY)
    except OSError:
        return False
    freeLibrary(load_library._handle)
    return True


_TERMINATED = 3  # fmi2Terminated of fmi2StatusKind


class Fmi2(Interface):
    """Instance of an FMI 2.0 FMU."""

    prefix = "fmi2"

    @property
    def _class(self) -> Any:
        return FMU2Slave if self.fmu.kind == CO_SIMULATION else FMU2Model

    def _instantiate(self) -> None:
        self._callbacks = callbacks_to(self.log)
        self.slave.instantiate(callbacks=self._callbacks, loggingOn=True)

    def _free(self) -> None:
        self.slave.fmi2FreeInstance(self.slave.component)

    def close(self, runs: bool) -> None:
        super().close(runs)
        remove_log(self.log)

    def set_up(self, t: float) -> None:
        tolerance = self.part.tolerance
        given = tolerance is not None, tolerance or 0.0
        self.call("SetupExperiment", *given, t, *self.stop)

    def enter_initialization(self, t: float) -> None:
        del t
        self.call("EnterInitializationMode")

    def do_step(self, t: float, dt: float, may_roll_back: bool) -> StepEnd:
        self.call("DoStep", t, dt, 0 if may_roll_back else 1)
        return StepEnd(t + dt, False)

    def check_status(self, function: str, status: int) -> None:
        """Raise FmuError for an FMI status worse than a warning; log a warning.

        For a discarded step, the error also reports if the FMU requests the end of the simulation.
        """
        if status == DISCARD and function == "fmi2DoStep":
            ends, get_status = fmi2Boolean(), self.slave.dll.fmi2GetBooleanStatus
            known = get_status(self.slave.component, _TERMINATED, ctypes.byref(ends)) == 0
            self.check_end(known and ends.value, "fmi2Terminated")
        super().check_status(function, status)

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

    @property
    def needs_completed_step(self) -> bool:
        return not self.fmu.interface.completedIntegratorStepNotNeeded

    def completed_step(self, may_roll_back: bool) -> bool:
        if not self.needs_completed_step:
            return False
        event, ends = fmi2Boolean(), fmi2Boolean()
        self.call(
            "CompletedIntegratorStep",
            int(not may_roll_back),
            ctypes.byref(event),
            ctypes.byref(ends),
        )
        self.check_end(ends.value)
        return bool(event.value)

    @property
    def _state_suffix(self) -> str:
        return "state"


_CLASSES3 = {
    CO_SIMULATION: FMU3Slave,
    MODEL_EXCHANGE: FMU3Model,
    SCHEDULED_EXECUTION: FMU3ScheduledExecution,
}


class Fmi3(Interface):
    """Instance of an FMI 3.0 FMU; intermediate updates are not used.

    A co-simulation FMU with event mode may return early; the importer then handles the event.
    """

    prefix = "fmi3"

    _refuses_events = False

    @property
    def uses_events(self) -> bool:
        declared = self.fmu.kind == CO_SIMULATION and bool(self.fmu.interface.hasEventMode)
        return declared and not self._refuses_events

    @property
    def _class(self) -> Any:
        return _CLASSES3[str(self.fmu.kind)]

    def _free(self) -> None:
        self.slave.fmi3FreeInstance(self.slave.component)

    def _instantiate(self) -> None:
        is_co_simulation, log = self.fmu.kind == CO_SIMULATION, self.log

        def log_message(environment: int, status: int, category: bytes, message: bytes) -> None:
            del environment, category
            log.add(status, message)

        def instantiate() -> None:
            options = {"eventModeUsed": self.uses_events, "earlyReturnAllowed": self.uses_events}
            self.slave.instantiate(
                loggingOn=True, logMessage=log_message, **(options if is_co_simulation else {})
            )

        try:
            instantiate()
        except Exception:
            if not self.uses_events:
                raise
            self._refuses_events = True
            instantiate()
            self.log.warn(WITHOUT_EVENT_MODE)

    def reset(self, part: Part) -> None:
        super().reset(part)
        if self._refuses_events:
            self.log.warn(WITHOUT_EVENT_MODE)

    def set_up(self, t: float) -> None:
        """Do nothing, because FMI 3.0 needs no preparation."""

    def enter_initialization(self, t: float) -> None:
        tolerance = self.part.tolerance
        given = tolerance is not None, tolerance or 0.0
        self.call("EnterInitializationMode", *given, t, *self.stop)

    def do_step(self, t: float, dt: float, may_roll_back: bool) -> StepEnd:
        event, ends, early, last = fmi3Boolean(), fmi3Boolean(), fmi3Boolean(), fmi3Float64(t)
        results = (ctypes.byref(one) for one in (event, ends, early, last))
        self.call("DoStep", t, dt, not may_roll_back, *results)
        self.check_end(ends.value)
        if not early.value:
            return StepEnd(t + dt, bool(event.value))
        if not self.uses_events:
            raise self.fmu_error("fmi3DoStep returned early although early return is not allowed")
        return StepEnd(min(max(float(last.value), t), t + dt), bool(event.value))

    def update_discrete_states(self) -> Update:
        again, ends, nominals, values, timed = (fmi3Boolean() for _ in range(5))
        next_time = fmi3Float64()
        results = (ctypes.byref(one) for one in (again, ends, nominals, values, timed, next_time))
        self.call("UpdateDiscreteStates", *results)
        self.check_end(ends.value)
        next_event = float(next_time.value) if timed.value else inf
        return Update(bool(again), bool(nominals), bool(values), next_event)

    @property
    def needs_completed_step(self) -> bool:
        return bool(self.fmu.interface.needsCompletedIntegratorStep)

    def completed_step(self, may_roll_back: bool) -> bool:
        if not self.needs_completed_step:
            return False
        event, ends = fmi3Boolean(), fmi3Boolean()
        self.call(
            "CompletedIntegratorStep", not may_roll_back, ctypes.byref(event), ctypes.byref(ends)
        )
        self.check_end(ends.value)
        return bool(event.value)

    @property
    def _state_suffix(self) -> str:
        return "State"
