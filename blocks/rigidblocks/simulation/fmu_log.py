"""What running FMUs say of themselves."""

import ctypes
import logging
from collections import deque
from functools import cache
from typing import Any

import fmpy
import numpy as np
from fmpy.fmi2 import fmi2CallbackFunctions, fmi2CallbackLoggerTYPE
from fmpy.logging import addLoggerProxy

LOG = logging.getLogger("rigidblocks")
WARNING = 1  # the status of both versions
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

    def add(self, status: int, message: bytes | None) -> None:
        """Keeps a message."""
        text = (message or b"").decode(errors="replace")
        self.last.append(text)
        if status == WARNING:
            self.warn(f"{text}{self.when and f' ({self.when.strip()})'}")

    def warn(self, message: str) -> None:
        """Shows a warning."""
        self.warnings += 1
        if self.warnings <= _WARNINGS:
            LOG.warning("'%s': %s", self.part, message)
        elif self.warnings == _WARNINGS + 1:
            LOG.warning("'%s' warns again; further warnings of it are not shown", self.part)


_logs: dict[int, FmuLog] = {}  # of each running FMI 2.0 instance, by its component environment


def callbacks_to(log: FmuLog) -> Any:
    """The callbacks of an FMI 2.0 instance whose messages go to this log."""
    shared = _callbacks()
    own = fmi2CallbackFunctions(shared.logger, shared.allocateMemory, shared.freeMemory)
    own.componentEnvironment = id(log)
    _logs[id(log)] = log
    return own


def forget(log: FmuLog) -> None:
    """Ends what `callbacks_to` began."""
    _logs.pop(id(log), None)


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
        _logs[environment].add(status, message)
