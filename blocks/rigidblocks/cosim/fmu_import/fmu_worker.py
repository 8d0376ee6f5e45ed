"""Worker process, which runs one FMU and executes the calls that another process sends."""

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

from rigidblocks.block.adaptive_methods import Adaptive, Method
from rigidblocks.block.block import Port
from rigidblocks.block.evaluators import MAX_INPUT_ORDER
from rigidblocks.block.integrators import RADAU, Integrator, LinearlyImplicit
from rigidblocks.block.port import TEXTUAL, register_table, table_of
from rigidblocks.cosim.fmu_import.fmu_instance import RunningFmu
from rigidblocks.cosim.fmu_import.model_exchange import running_fmu
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from rigidblocks.cosim.graph.ipc_messages import (
    CALLS,
    Channel,
    Message,
    MessageError,
    Recurring,
    TextError,
)
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.signal_handling import exit_with_parent
from rigidblocks.spatial.spatial import Array

LOG = logging.getLogger("rigidblocks")
_NONE = np.zeros(0)
_PLAIN = ("begin", "save", "restore", "close")
_MOMENTS = ("save_state", "restore_state", "free_state")


class _Messages(logging.Handler):
    """Log handler that stores log messages until the next reply."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append((record.levelno, record.getMessage()))


class Service:
    """Service that runs one FMU for another process (the peer), connected by a channel.

    The function `find` maps a name that the peer sends to a file, or raises ValueError.
    """

    def __init__(self, channel: Channel, find: Callable[[str], Path]):
        self._channel, self._find = channel, find
        self._instance: RunningFmu | None = None
        self._step = self._values = Recurring("start", 0)  # placeholder before the instantiation
        self._has_texts = False
        self._log = _Messages()

    def run(self) -> None:
        """Answer messages until the peer closes the channel or sends an invalid message."""
        LOG.addHandler(self._log)
        LOG.propagate = False
        try:
            while self._answer():
                pass
        except (EOFError, OSError):  # the peer has closed the channel
            return
        finally:
            if self._instance is not None:
                with contextlib.suppress(Exception):
                    self._instance.close()

    def _answer(self) -> bool:
        """Answer the next message; return True if a further message can be read."""
        try:
            message = self._channel.receive(self._step)
        except (MessageError, TextError) as error:
            self._channel.send("error", text={"error": str(error)})
            return isinstance(error, TextError)
        try:
            if self._instance is not None and message is self._step.message:
                return self._answer_step(message.numbers)
            numbers, text = self._perform(message)
        except Exception as error:
            said = str(error) or type(error).__name__
            names = isinstance(error, FmuError) and self._instance is not None
            self._channel.send(
                "error", text=self._add_log({"error": said, "names the part": names})
            )
            return True
        if self._instance is None:
            self._channel.send("answer", text=self._add_log(text))
            return True
        if self._has_texts:
            text["texts"] = self._texts()
        self._send((*self._instance.values(), numbers), self._add_log(text))
        return True

    def _answer_step(self, numbers: Array) -> bool:
        """Answer a step request; `numbers` contains the inputs, the time and the step size."""
        assert self._instance is not None
        self._instance.inputs[:] = numbers[:-2]
        self._instance.step(*_numbers("step", numbers[-2:], 2))
        text: dict[str, Any] = {"texts": self._texts()} if self._has_texts else {}
        self._send((*self._instance.values(), _NONE), self._add_log(text))
        return True

    def _send(self, values: tuple[Array, Array, Array], text: Mapping[str, Any]) -> None:
        """Send a reply: input and output values, additional numbers and a JSON text."""
        if text or len(values[2]):
            self._channel.send("answer", values, text)
        else:
            np.concatenate(values, out=self._values.numbers)
            self._channel.repeat(self._values)

    def _add_log(self, text: dict[str, Any]) -> dict[str, Any]:
        """Add the stored log messages to the JSON text of a reply."""
        if self._log.kept:
            text["messages"] = list(self._log.kept)
            self._log.kept.clear()
        return text

    def _perform(self, message: Message) -> tuple[Array, dict[str, Any]]:
        """Execute the call of a message; return the numbers and the JSON text of the reply."""
        call, numbers, text = message
        if text:
            register_table(text.get("texts", ()))
        if call == "start":
            return _NONE, {}
        if call == "describe":
            return _NONE, _description_text(self._file(text))
        if call == "instantiate":
            if self._instance is not None:
                raise ValueError("an instance exists; a connection can have only one instance")
            part = self._part(text)
            self._instance = running_fmu(part)
            self._has_texts = any(port.type in TEXTUAL for port in part.component.outputs)
            n, m = map(len, self._instance.values())
            self._step, self._values = Recurring("step", n + 2), Recurring("answer", n + m)
            return _NONE, {}
        if self._instance is None:
            raise ValueError(f"'{call}' needs an instance; call 'instantiate' first")
        return _call(self._instance, call, numbers, text), {}

    def _texts(self) -> Any:
        """Return the string and binary outputs in the form that the JSON text requires."""
        assert self._instance is not None
        return table_of(self._instance.texts())

    def _file(self, text: Mapping[str, Any]) -> Path:
        if not isinstance(text.get("file"), str):
            raise ValueError("the request contains no file name")
        return self._find(text["file"])

    def _part(self, text: Mapping[str, Any]) -> Part:
        """Return the part that the JSON text of a message describes."""
        file, name = self._file(text), text.get("name")
        if text.get("sha256") not in ("", _digest(file)):
            raise ValueError(
                "the FMU file has changed since the part was added; add the part again"
            )
        register_table(text.get("known", ()))
        fmu, given = Fmu(file, text.get("kind")), text.get("start", {})
        sizes = {p.name: _reshape(given[p.name], p) for p in fmu.configurable if p.name in given}
        fmu = fmu.replace_configuration(sizes)
        ports = (*fmu.inputs, *fmu.parameters, *fmu.states, *fmu.configurable)
        shapes = {port.name: port for port in ports}
        start = {key: _reshape(values, shapes[key]) for key, values in given.items()}
        method, h = _method(text.get("method")), text.get("h")
        rtol = text.get("rtol")
        return Part(str(name), fmu, fmu.feedthrough, start, method, h, rtol=rtol)


def _reshape(values: Any, port: Port) -> Array:
    return np.reshape(np.array(values, dtype=float), port.shape)


def _call(instance: RunningFmu, call: str, numbers: Array, text: Mapping[str, Any]) -> Array:
    """Execute a call of an FMU instance, and return the numbers of the reply.

    `numbers` contains the input values, followed by the numeric arguments of the call. `text`
    contains the other arguments.
    """
    n = len(instance.inputs)
    if len(numbers) < n:
        raise ValueError(
            f"'{call}' has {len(numbers)} numbers; it needs one for each of the {n} inputs"
        )
    instance.inputs[:], own = numbers[:n], numbers[n:]
    if call == "step":
        instance.step(*_numbers(call, own, 2))
    elif call in _PLAIN:
        getattr(instance, call)()
    elif call in _MOMENTS:
        getattr(instance, call)(int(_numbers(call, own, 1)[0]))
    elif call == "initialize":
        if "stop time" in text:
            instance.set_stop_time(float(text["stop time"]))
        instance.initialize(_numbers(call, own, 1)[0], text.get("outputs"))
    elif call == "follow":
        t, dt = _numbers(call, own[:2], 2)
        instance.follow(own[2:].reshape(MAX_INPUT_ORDER + 1, n), t, dt)
    elif call == "read":
        return instance.read(str(text.get("name")))
    elif call == "change":
        instance.change(str(text.get("name")), own[1:], *_numbers(call, own[:1], 1))
    else:
        raise ValueError(f"unknown call '{call}'; expected one of {', '.join(CALLS[2:])}")
    return _NONE


def _numbers(call: str, numbers: Array, n: int) -> list[float]:
    values: list[float] = numbers.tolist()
    if len(values) != n or not all(map(isfinite, values)) or (n == 2 and values[1] <= 0):
        needed = "a finite time and a finite step size > 0" if n == 2 else "a finite number"
        raise ValueError(f"'{call}' needs {needed}, not {values}")
    return values


def _description_text(file: Path) -> dict[str, Any]:
    """Return the text of modelDescription.xml (one character per byte) and the FMU digest."""
    Fmu(file)  # raises FmuError for an FMU that cannot be used
    with zipfile.ZipFile(file) as archive:
        xml = archive.read("modelDescription.xml")
    return {"description": xml.decode("latin-1"), "sha256": _digest(file)}


def _digest(file: Path) -> str:
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _method(fields_by_name: Any) -> Method | None:
    """Return the integration method with the given JSON fields, or None without fields."""
    if fields_by_name is None:
        return None
    fields = _tuples(fields_by_name)
    if fields.pop("type") == Integrator.__name__:
        return _integrator(fields)
    parts = {name: _integrator(fields[name]) for name in ("explicit", "stiff")}
    collocation = RADAU if fields["collocation"] else None
    return Adaptive(**fields | parts | {"collocation": collocation})


def _integrator(fields: Any) -> Integrator | None:
    """Return the integrator with the given JSON fields, or None without fields."""
    if fields is None:
        return None
    implicit = fields.get("implicit")
    return Integrator(**fields | {"implicit": implicit and LinearlyImplicit(**implicit)})


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {k: _tuples(v) for k, v in value.items()} if isinstance(value, dict) else value


if __name__ == "__main__":
    exit_with_parent(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, then closes the pipe
    Service(Channel(socket.socket(fileno=int(sys.argv[1]))), Path).run()
