"""The process in which an FMU runs for another one: it does what messages ask for."""

import contextlib
import hashlib
import logging
import os
import signal
import socket
import sys
import zipfile
from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import Adaptive, Method
from rigidblocks.block.course import ORDER
from rigidblocks.block.integrators import Integrator
from rigidblocks.block.signal_types import TEXTUAL, learn_table, table_of
from rigidblocks.simulation.fmu_instance import RunningFmu
from rigidblocks.simulation.interrupts import end_with
from rigidblocks.simulation.masters import answering
from rigidblocks.simulation.running import running_fmu
from rigidblocks.simulation.table import HOSTED, Loop, Row
from rigidblocks.system.fmu import Fmu, FmuError
from rigidblocks.system.messages import CALLS, Channel, Message, MessageError, Recurring, TextError
from rigidblocks.system.part import Part
from rigidblocks.tracing.cache import CacheError
from rigidblocks.tracing.compiler import CompilerError

LOG = logging.getLogger("rigidblocks")
_NONE = np.zeros(0)
_PLAIN = ("begin", "save", "restore", "close")
_MOMENTS = ("keep", "go_back", "forget")


class _Messages(logging.Handler):
    """Keeps the messages of the log for the other process."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append((record.levelno, record.getMessage()))


class Service:
    """One FMU for the other end of a channel, whose file `find` finds by what it is called
    there, or raises ValueError.
    """

    def __init__(self, channel: Channel, find: Callable[[str], Path]):
        self._channel, self._find = channel, find
        self._instance: RunningFmu | None = None
        self._step = self._values = Recurring("start", 0)  # until there is an instance
        self._take_step: Callable[[float, float], None] | None = None
        self._has_texts = False
        self._log = _Messages()

    def run(self) -> None:
        """Does what the other end asks for, until it closes the channel or says what is no
        message.
        """
        LOG.addHandler(self._log)
        LOG.propagate = False
        try:
            while self._answer():
                pass
        except (EOFError, OSError):  # it is gone
            return
        finally:
            if self._instance is not None:
                with contextlib.suppress(Exception):
                    self._instance.close()

    def _answer(self) -> bool:
        """Answers the next message; whether another one can be read."""
        try:
            message = self._channel.receive(self._step)
        except (MessageError, TextError) as error:
            self._channel.send("error", text={"error": str(error)})
            return isinstance(error, TextError)
        try:
            if self._take_step is not None and message is self._step.message:
                return self._stepped(self._take_step, message.numbers)
            numbers, text = self._done(message)
        except Exception as error:
            said = str(error) or type(error).__name__
            names = isinstance(error, FmuError) and self._instance is not None
            self._channel.send("error", text=self._logged({"error": said, "names the part": names}))
            return True
        if self._instance is None:
            self._channel.send("answer", text=self._logged(text))
            return True
        if self._has_texts:
            text["texts"] = self._texts()
        self._send((*self._instance.values(), numbers), self._logged(text))
        return True

    def _stepped(self, step: Callable[[float, float], None], numbers: Array) -> bool:
        """Answers a plain step, which comes again and again: the inputs, its time and length."""
        assert self._instance is not None
        self._instance.inputs[:] = numbers[:-2]
        step(*_numbers("step", numbers[-2:], 2))
        text: dict[str, Any] = {"texts": self._texts()} if self._has_texts else {}
        self._send((*self._instance.values(), _NONE), self._logged(text))
        return True

    def _send(self, values: tuple[Array, Array, Array], text: Mapping[str, Any]) -> None:
        """Answers with the values of inputs and outputs, other numbers and a text."""
        if text or len(values[2]):
            self._channel.send("answer", values, text)
        else:
            np.concatenate(values, out=self._values.numbers)
            self._channel.repeat(self._values)

    def _logged(self, text: dict[str, Any]) -> dict[str, Any]:
        """A text with what the log has got."""
        if self._log.kept:
            text["messages"] = list(self._log.kept)
            self._log.kept.clear()
        return text

    def _done(self, message: Message) -> tuple[Array, dict[str, Any]]:
        """Does what a message asks for; returns the numbers and the text that it asks for."""
        call, numbers, text = message
        if text:
            learn_table(text.get("texts", ()))
        if call == "start":
            return _NONE, {}
        if call == "describe":
            return _NONE, _described(self._file(text))
        if call == "instantiate":
            if self._instance is not None:
                raise ValueError("there is an instance already; a connection has one")
            part = self._part(text)
            self._instance = running_fmu(part)
            self._take_step = _step_of(self._instance)
            self._has_texts = any(port.type in TEXTUAL for port in part.component.outputs)
            n, m = map(len, self._instance.values())
            self._step, self._values = Recurring("step", n + 2), Recurring("answer", n + m)
            return _NONE, {}
        if self._instance is None:
            raise ValueError(f"'{call}' needs an instance; 'instantiate' comes first")
        return _called(self._instance, call, numbers, text), {}

    def _texts(self) -> Any:
        """What the numbers of texts among the outputs stand for."""
        assert self._instance is not None
        return table_of(self._instance.texts())

    def _file(self, text: Mapping[str, Any]) -> Path:
        if not isinstance(text.get("file"), str):
            raise ValueError("the message names no file")
        return self._find(text["file"])

    def _part(self, text: Mapping[str, Any]) -> Part:
        """The part that the other end has."""
        file, name = self._file(text), text.get("name")
        if text.get("sha256") not in ("", _digest(file)):
            raise ValueError("the file has changed since the part was added")
        learn_table(text.get("known", ()))
        fmu = Fmu(file, text.get("kind"))
        ports = {p.name: p for p in (*fmu.inputs, *fmu.parameters, *fmu.states)}
        start = {
            key: np.reshape(np.array(values, dtype=float), ports[key].shape)
            for key, values in text.get("start", {}).items()
        }
        method, h = _method(text.get("method")), text.get("h")
        return Part(str(name), fmu, fmu.feedthrough, start, method, h)


def _step_of(instance: RunningFmu) -> Callable[[float, float], None]:
    """The step of an instance, by the loop in C where that can be."""
    entry, errors = instance.entry(), list[BaseException]()
    if entry.kind == HOSTED:
        return instance.step

    def judge(part: int, call: int, status: int, t: float, dt: float) -> None:
        del part  # there is one
        instance.judge(call, status, t, dt)

    try:
        judged = answering(judge, errors)
        loop = Loop([Row(entry)], (), False, judged, judged)
    except (CompilerError, CacheError):
        return instance.step

    def step(t: float, dt: float) -> None:
        if loop.step(t, dt):
            raise errors.pop()

    return step


def _called(instance: RunningFmu, call: str, numbers: Array, text: Mapping[str, Any]) -> Array:
    """What a call on an instance answers; the inputs come before its own numbers."""
    n = len(instance.inputs)
    if len(numbers) < n:
        raise ValueError(f"'{call}' has {len(numbers)} numbers; the inputs alone are {n}")
    instance.inputs[:], own = numbers[:n], numbers[n:]
    if call == "step":
        instance.step(*_numbers(call, own, 2))
    elif call in _PLAIN:
        getattr(instance, call)()
    elif call in _MOMENTS:
        getattr(instance, call)(int(_numbers(call, own, 1)[0]))
    elif call == "initialize":
        instance.initialize(*_numbers(call, own, 1))
    elif call == "follow":
        t, dt = _numbers(call, own[:2], 2)
        instance.follow(own[2:].reshape(ORDER + 1, n), t, dt)
    elif call == "read":
        return instance.read(str(text.get("name")))
    elif call == "change":
        instance.change(str(text.get("name")), own)
    else:
        raise ValueError(f"'{call}' is nothing to ask for; what is: {', '.join(CALLS[2:])}")
    return _NONE


def _numbers(call: str, numbers: Array, n: int) -> list[float]:
    values: list[float] = numbers.tolist()
    if len(values) != n or not all(map(isfinite, values)) or (n == 2 and values[1] <= 0):
        raise ValueError(f"'{call}' takes {n} finite numbers, the step positive, not {values}")
    return values


def _described(file: Path) -> dict[str, Any]:
    """The model description of an FMU file, one character for each byte."""
    Fmu(file)  # raises for one that cannot be used here
    with zipfile.ZipFile(file) as archive:
        xml = archive.read("modelDescription.xml")
    return {"description": xml.decode("latin-1"), "sha256": _digest(file)}


def _digest(file: Path) -> str:
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _method(given: Any) -> Method | None:
    """A method from its fields."""
    if given is None:
        return None
    fields = {name: _tuples(value) for name, value in given.items()}
    if fields.pop("type") == Integrator.__name__:
        return Integrator(**fields)
    explicit = dict(given["explicit"])
    return Adaptive(**{**fields, "explicit": Integrator(**_tuples(explicit))})


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {k: _tuples(v) for k, v in value.items()} if isinstance(value, dict) else value


if __name__ == "__main__":
    end_with(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes the pipe
    Service(Channel(socket.socket(fileno=int(sys.argv[1]))), Path).run()
