"""One instance of an FMU of FMI 2.0 or 3.0, called through FMPy, each call judged by its status."""

import abc
import contextlib
import ctypes
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from rigidblocks.simulation.fmu_log import WARNING, FmuLog
from rigidblocks.simulation.unpacked import Unpacked
from rigidblocks.system.fmu import Fmu, FmuError
from rigidblocks.system.fmu_sources import compiled
from rigidblocks.system.part import Part

_STATUS = ("ok", "warning", "discard", "error", "fatal", "pending")
DISCARD, _FATAL = 2, 4

_making = threading.RLock()  # one thread at a time: all have one working folder
_once: set[str] = set()  # the guids of instantiated FMUs that allow one instance in a process


class StepEnd(NamedTuple):
    """Where a step has ended [s], and whether an event waits there."""

    t: float
    event: bool


class Update(NamedTuple):
    """What an update of the discrete states says: whether they need another one, what has changed
    of the continuous states, and the time of the next event [s], infinite without one.
    """

    again: bool
    nominals_changed: bool
    states_changed: bool
    next_event: float


class Interface(abc.ABC):
    """An FMU's functions, which FMI 2.0 and 3.0 name and call differently.

    Raises FmuError, naming the part, the call and the time, for a status that is worse than a
    warning.
    """

    prefix: str

    def __init__(self, part: Part):
        assert isinstance(part.component, Fmu)
        self.part, self.fmu, self.log = part, part.component, FmuLog(part.name)
        self.slave: Any = None
        self.failed = self._is_lost = False
        self._unpacked: Unpacked | None = None
        try:
            with _making:
                self._make()
        except Exception as error:
            self.close(False)
            raise FmuError(
                f"'{part.name}' ({self.fmu.path}) cannot be instantiated: {error}{self._needs()}"
                f"{self.said()}"
            ) from error

    def _make(self) -> None:
        """Unpacks and instantiates the FMU."""
        self._check_once()
        self._unpacked = Unpacked(self.fmu.file)
        if self.fmu.sources:
            self._compile(self._unpacked.folder)
        # FMPy leaves the working folder changed when a library does not load
        with contextlib.chdir(self._unpacked.folder):
            self._instantiate(str(self._unpacked.folder))

    def _compile(self, folder: Path) -> None:
        library = folder / self.fmu.library
        library.parent.mkdir(parents=True, exist_ok=True)
        library.write_bytes(compiled(self.fmu.file, folder, self.fmu.sources, library.name))

    @property
    def uses_events(self) -> bool:
        """Whether a co-simulation FMU has its events handled by the importer."""
        return False

    @abc.abstractmethod
    def _instantiate(self, folder: str) -> None:
        """Makes the instance of the FMU that is unpacked in the folder."""

    @abc.abstractmethod
    def set_up(self, t: float) -> None:
        """Comes before start values are set."""

    @abc.abstractmethod
    def enter_initialization(self, t: float) -> None:
        """Begins the initialization."""

    @abc.abstractmethod
    def do_step(self, t: float, dt: float, may_return: bool) -> StepEnd:
        """One communication step."""

    @abc.abstractmethod
    def update_discrete_states(self) -> Update:
        """One iteration in event mode."""

    @abc.abstractmethod
    def completed_step(self, may_return: bool) -> bool:
        """Tells that an integrator's step is taken; whether the FMU wants an event there."""

    def call(self, function: str, *arguments: Any) -> None:
        """Calls `fmi2` or `fmi3` and the name of a function with the instance first."""
        name = self.prefix + function
        if status := getattr(self.slave.dll, name)(self.slave.component, *arguments):
            self.judge(name, status)

    def caller(self, function: str) -> Callable[..., None]:
        """What `call` does, for a function that is called often."""
        name, found, component = self.bound(function)

        def call(*arguments: Any) -> None:
            if status := found(component, *arguments):
                self.judge(name, status)

        return call

    def bound(self, function: str) -> tuple[str, Any, Any]:
        """The whole name of a function, the function, and the instance to call it with."""
        name = self.prefix + function
        return name, getattr(self.slave.dll, name), self.slave.component

    def save(self, kept: ctypes.c_void_p) -> None:
        """Keeps the FMU's state."""
        if not self.fmu.interface.canGetAndSetFMUstate:
            raise FmuError(
                f"'{self.part.name}' ({self.fmu.path}) cannot go back to an earlier state, as an "
                "event needs it"
            )
        self.call(f"GetFMU{self._state}", ctypes.byref(kept))

    def restore(self, kept: ctypes.c_void_p) -> None:
        """Goes back to a state that was kept."""
        self.call(f"SetFMU{self._state}", kept)

    @property
    @abc.abstractmethod
    def _state(self) -> str:
        """How the version spells the state."""

    def free(self, kept: ctypes.c_void_p) -> None:
        """Frees a state that was kept."""
        if kept and self.slave is not None and not self._is_lost:
            function = getattr(self.slave.dll, f"{self.prefix}FreeFMU{self._state}")
            function(self.slave.component, ctypes.byref(kept))

    def close(self, runs: bool) -> None:
        """Ends the run, where it `runs`, and frees the instance; the states are freed before."""
        if self.slave is not None and self.slave.component is not None and not self._is_lost:
            if runs and not self.failed:
                self._terminate()
            self.slave.freeInstance()
        self.slave = None
        if self._unpacked is not None:
            self._unpacked.remove()

    def _terminate(self) -> None:
        """Ends the run; what the FMU has against it is too late to be an error."""
        try:
            self.call("Terminate")
        except FmuError as error:
            self.log.warn(str(error))

    def _check_once(self) -> None:
        """Raises RuntimeError for a second instance of an FMU that allows one in a process."""
        if self.fmu.interface.canBeInstantiatedOnlyOncePerProcess:
            guid = self.fmu.description.guid
            if guid in _once:
                raise RuntimeError(
                    "it allows one instance in a process and has had one; add it with isolated=True"
                )
            _once.add(guid)

    def judge(self, function: str, status: int) -> None:
        """Shows a warning; raises FmuError for what is worse."""
        name = _STATUS[status] if 0 <= status < len(_STATUS) else f"{status}, which FMI has not"
        text = f"{function} gave status {name}{self.log.when}"
        if status == WARNING:
            if not self.log.warnings:  # else it has said so itself
                self.log.warn(text)
            return
        self.failed, self._is_lost = status != DISCARD, status == _FATAL
        raise FmuError(f"'{self.part.name}': {text}{self.said()}")

    def refuse(self, text: str) -> FmuError:
        """An error that names the part and the time."""
        return FmuError(f"'{self.part.name}': {text}{self.log.when}{self.said()}")

    def check_end(self, terminates: Any, said_by: str = "terminateSimulation") -> None:
        """Raises FmuError where the FMU asks to end the run."""
        if terminates:
            raise self.refuse(f"it asks to end the simulation ({said_by})")

    def _needs(self) -> str:
        """What an FMU says that it cannot run without."""
        if not self.fmu.interface.needsExecutionTool:
            return ""
        tool = self.fmu.description.generationTool or "the one that wrote it"
        return f"; it says that it needs its tool while it runs (needsExecutionTool): {tool}"

    def said(self) -> str:
        """The end of the FMU's log, for messages."""
        last = list(self.log.last)[-3:]
        return f"; its log ends: {' | '.join(last)}" if last else ""
