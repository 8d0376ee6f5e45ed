"""FMU instances in another process, on this machine or on a server, controlled by messages.

The module is also the program of the worker process, which runs one FMU and executes the calls that
the simulation sends.
"""

import abc
import contextlib
import hashlib
import logging
import os
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.block.adaptive_methods import Adaptive, Method
from rigidblocks.block.block import Port
from rigidblocks.block.evaluators import MAX_INPUT_ORDER
from rigidblocks.block.integrators import RADAU, Integrator, LinearlyImplicit
from rigidblocks.block.port import TEXTUAL, register_table, table_of, texts_in
from rigidblocks.cosim.fmu_import.fmu_instance import RunningFmu, supports_polynomial_inputs
from rigidblocks.cosim.fmu_import.model_exchange import check_method, running_fmu
from rigidblocks.cosim.graph.fmu_file import MODEL_EXCHANGE
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from rigidblocks.cosim.graph.ipc_messages import (
    CALLS,
    Channel,
    Message,
    MessageError,
    PreallocatedMessage,
    TextError,
)
from rigidblocks.cosim.graph.part import Part, places
from rigidblocks.cosim.graph.remote_fmu import RemoteFile
from rigidblocks.cosim.masters.part_instance import Instance
from rigidblocks.cosim.signal_handling import exit_with_parent
from rigidblocks.spatial.spatial import Array

LOG = logging.getLogger("rigidblocks")
_START_TIMEOUT = 60.0  # timeout for the start of the process, before the first call of the FMU [s]
_NO_NUMBERS = np.zeros(0)


class Host(abc.ABC):
    """Base class of processes that run an FMU; `channel` is the connection to the process.

    `place` describes the process in error messages.
    """

    channel: Channel
    place: str

    @abc.abstractmethod
    def failure_reason(self) -> str:
        """Return the reason for a lost connection, for error messages."""

    @abc.abstractmethod
    def abandon(self) -> None:
        """End the process after a timeout."""

    @property
    @abc.abstractmethod
    def is_alive(self) -> bool:
        """True if the process can answer calls."""

    @abc.abstractmethod
    def close(self) -> None:
        """End the process; repeated calls have no effect."""


class RemoteInstance(Instance):
    """Instance of an FMU in another process; the time limit of the part applies to each call.

    Raises FmuError if the FMU crashes, exits or exceeds the time limit, or if the connection is
    lost. The message contains the part, the FMU file, the call, the time and the cause.
    """

    def __init__(self, part: Part, host: Host):
        assert isinstance(part.component, Fmu)
        self._part, self._fmu, self._host, self._t = part, part.component, host, 0.0
        self._t_stop = inf
        self._u = np.zeros(sum(port.size for port in self._fmu.inputs))
        self._y = np.zeros(sum(port.size for port in self._fmu.outputs))
        self._u_where, self._y_where = places(self._fmu.inputs), places(self._fmu.outputs)
        self._kept = self._u.copy(), self._y.copy()
        self._unanswered: list[str] = []  # calls whose answers have not been received yet
        self._step = PreallocatedMessage("step", len(self._u) + 2)
        self._values = PreallocatedMessage("answer", len(self._u) + len(self._y))
        self._has_texts = any(port.type in TEXTUAL for port in self._fmu.inputs)
        try:
            self._send_request("start", seconds=_START_TIMEOUT)
            self._send_request("instantiate", text=_instance_request(part, self._fmu))
        except BaseException:
            self._host.close()
            raise

    def input(self, name: str) -> Array:
        return self._u[self._u_where[name]]

    def output(self, name: str) -> Array:
        return self._y[self._y_where[name]]

    def outputs(self) -> Array:
        return self._y

    def set_stop_time(self, t_stop: float) -> None:
        self._t_stop = t_stop

    def initialize(self, t: float, outputs: Collection[str] | None = None) -> None:
        self._t = t
        text: dict[str, Any] = {} if outputs is None else {"outputs": sorted(outputs)}
        if isfinite(self._t_stop):
            text["stop time"] = self._t_stop
        self._send_request("initialize", [t], text or None)

    def begin(self) -> None:
        self._send_request("begin")

    @property
    def is_distant(self) -> bool:
        return True

    def send_step(self, t: float, dt: float) -> None:
        self._t = t
        if self._has_texts:
            self._send("step", [t, dt])
            return
        numbers = self._step.numbers
        numbers[:-2], numbers[-2], numbers[-1] = self._u, t, dt
        try:
            self._host.channel.repeat(self._step)
        except OSError:
            raise self._error("step", self._host.failure_reason()) from None
        self._unanswered.append("step")

    def step(self, t: float, dt: float) -> None:
        self._t = t
        if self._unanswered != ["step"]:
            self.send_step(t, dt)
        self._receive()

    @property
    def inputs(self) -> Array:
        return self._u

    @property
    def supports_polynomial_inputs(self) -> bool:
        return supports_polynomial_inputs(self._fmu)

    def follow(self, course: Array, t: float, dt: float) -> None:
        self._t = t
        self._send_request("follow", np.concatenate([[t, dt], np.ravel(course)]))

    def save(self) -> None:
        self._send_request("save")
        self._kept = self._u.copy(), self._y.copy()

    def restore(self) -> None:
        self._send_request("restore")
        self._u[:], self._y[:] = self._kept

    def view(self, name: str) -> Array | None:
        if name in self._u_where:
            return self.input(name)
        return self.output(name) if name in self._y_where else None

    def read(self, name: str) -> Array:
        return self._send_request("read", text={"name": name})

    def change(self, name: str, values: Array, t: float) -> None:
        self._send_request("change", [t, *np.ravel(values)], {"name": name})

    def save_state(self, number: int) -> None:
        self._send_request("save_state", [number])

    def restore_state(self, number: int) -> None:
        self._send_request("restore_state", [number])

    def free_state(self, number: int) -> None:
        if self._host.is_alive:
            self._send_request("free_state", [number])

    def end(self) -> None:
        pass  # the caller then calls `close`, because `restarts` is false

    def close(self) -> None:
        if self._host.is_alive:
            # the run has ended; an error must not discard its result
            with contextlib.suppress(FmuError):
                self._send_request("close")
        self._host.close()

    def _send_request(
        self,
        call: str,
        numbers: Any = _NO_NUMBERS,
        text: Mapping[str, Any] | None = None,
        seconds: float | None = None,
    ) -> Array:
        """Send a call, and return the numbers in the reply.

        `numbers` and `text` are the arguments of the call. `seconds` is its time limit [s], by
        default the time limit of the part.
        """
        while self._unanswered:  # first receive the answers to interrupted calls
            with contextlib.suppress(FmuError):
                self._receive()
        self._send(call, numbers, text)
        return self._receive(seconds)

    def _send(self, call: str, numbers: Any, text: Mapping[str, Any] | None = None) -> None:
        if self._has_texts:
            text = {**(text or {}), "texts": table_of(texts_in(self._u, self._fmu.inputs))}
        try:
            self._host.channel.send(call, (self._u, np.array(numbers, dtype=float)), text)
        except OSError:
            raise self._error(call, self._host.failure_reason()) from None
        self._unanswered.append(call)

    def _receive(self, seconds: float | None = None) -> Array:
        call = self._unanswered.pop(0)
        answer = self._answer(call, self._part.time_limit if seconds is None else seconds)
        if answer.text:
            for level, message in answer.text.get("messages", ()):
                LOG.log(level, "%s", message)
            if answer.call == "error":
                raise self._refusal(call, answer)
            register_table(answer.text.get("texts", ()))
        n, m = len(self._u), len(self._y)
        if len(answer.numbers) >= n + m:
            self._u[:], self._y[:] = answer.numbers[:n], answer.numbers[n : n + m]
        return answer.numbers[n + m :].copy()

    def _answer(self, call: str, seconds: float) -> Message:
        try:
            self._host.channel.limit(seconds)
            return self._host.channel.receive(self._values)
        except BlockingIOError:
            self._host.abandon()
            raise self._error(call, f"took longer than {seconds:g} s") from None
        except (EOFError, OSError):
            raise self._error(call, self._host.failure_reason()) from None
        except (MessageError, TextError) as error:
            self._host.abandon()
            raise self._error(call, f"got an invalid answer: {error}") from None

    def _refusal(self, call: str, answer: Message) -> FmuError:
        said = str(answer.text.get("error"))
        return FmuError(said) if answer.text.get("names the part") else self._error(call, said)

    def _error(self, call: str, problem: str) -> FmuError:
        return FmuError(
            f"'{self._part.name}' ({self._fmu.path}){self._host.place}: '{call}' at t = "
            f"{self._t:g} s {problem}"
        )


def _instance_request(part: Part, fmu: Fmu) -> dict[str, Any]:
    """Return the JSON data from which the other process creates the instance of a part."""
    method = check_method(part.method) if fmu.kind == MODEL_EXCHANGE else None
    return {
        "file": getattr(fmu.path, "file", str(fmu.path)),
        "sha256": fmu.digest,
        "kind": fmu.kind,
        "name": part.name,
        "start": {name: np.ravel(values).tolist() for name, values in part.start.items()},
        "known": table_of(_start_texts(part, fmu)),
        "method": None if method is None else _method_fields(method),
        "h": part.h,
        "rtol": part.rtol,
    }


def _method_fields(method: Method) -> dict[str, Any]:
    """Return the attributes of an integration method as JSON values.

    A collocation method is represented by the name "radau", because JSON has no complex numbers
    for its coefficients.
    """
    fields = {"type": type(method).__name__, **asdict(method)}
    if fields["collocation"] is not None:
        fields["collocation"] = "radau"
    return fields


def _start_texts(part: Part, fmu: Fmu) -> list[str | bytes]:
    """Return the start values of a part that are strings or binary values."""
    ports = (*fmu.inputs, *fmu.outputs, *fmu.parameters, *fmu.states, *fmu.configurable)
    given = ((port, part.start.get(port.name, port.start)) for port in ports)
    return [
        one
        for port, start in given
        if start is not None
        for one in texts_in(np.ravel(start), (port,))
    ]


def served_fmu(part: Part) -> RemoteInstance:
    """Return an instance of the remote FMU of a part; the instance runs on the FMU server."""
    assert isinstance(part.component, Fmu)
    assert isinstance(part.component.path, RemoteFile)
    return RemoteInstance(part, Server(part.component.path))


class Server(Host):
    """Process on a server that runs one FMU, connected by a network socket."""

    place = ""

    def __init__(self, file: RemoteFile) -> None:
        self.channel = file.channel()

    def failure_reason(self) -> str:
        self.close()
        return "lost its server: the connection was closed"

    def abandon(self) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        return not self.channel.is_closed

    def close(self) -> None:
        self.channel.close()


_GRACE = 5.0  # time after which a process that does not end is killed [s]


def isolated_fmu(part: Part) -> RemoteInstance:
    """Start a process on this machine for the FMU of a part, and return the instance."""
    if os.name != "posix":
        raise FmuError(f"'{part.name}': FMUs cannot be isolated on this platform")
    return RemoteInstance(part, OwnProcess())


class OwnProcess(Host):
    """Process on this machine that runs one FMU, connected by a socket pair."""

    place = ", in its own process"

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours)
        with theirs:
            command = [sys.executable, "-m", "rigidblocks.cosim.fmu_import.remote_instance"]
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())], pass_fds=(theirs.fileno(),)
            )

    def failure_reason(self) -> str:
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        if code < 0:
            return f"crashed: its process was ended by signal {-code} ({signal.strsignal(-code)})"
        return f"ended its process with exit code {code}"

    def abandon(self) -> None:
        self._process.kill()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None and not self.channel.is_closed

    def close(self) -> None:
        self.channel.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


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
        # placeholder before the instantiation
        self._step = self._values = PreallocatedMessage("start", 0)
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
        self._send((*self._instance.values(), _NO_NUMBERS), self._add_log(text))
        return True

    def _send(self, values: tuple[Array, Array, Array], text: Mapping[str, Any]) -> None:
        """Send a reply with a JSON text `text`.

        `values` contains three arrays: input values, output values and additional numbers.
        """
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
            return _NO_NUMBERS, {}
        if call == "describe":
            return _NO_NUMBERS, _description_text(self._file(text))
        if call == "instantiate":
            if self._instance is not None:
                raise ValueError("an instance exists; a connection can have only one instance")
            part = self._part(text)
            self._instance = running_fmu(part)
            self._has_texts = any(port.type in TEXTUAL for port in part.component.outputs)
            n, m = map(len, self._instance.values())
            self._step, self._values = (
                PreallocatedMessage("step", n + 2),
                PreallocatedMessage("answer", n + m),
            )
            return _NO_NUMBERS, {}
        if self._instance is None:
            raise ValueError(f"'{call}' needs an instance; call 'instantiate' first")
        return _call(self._instance, call, numbers, text), {}

    def _texts(self) -> Any:
        """Return the string and binary outputs as JSON values (`table_of`)."""
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
    return _NO_NUMBERS


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
    """Create an integration method from its attributes in JSON; None if they are missing."""
    if fields_by_name is None:
        return None
    fields = _tuples(fields_by_name)
    if fields.pop("type") == Integrator.__name__:
        return _integrator(fields)
    parts = {name: _integrator(fields[name]) for name in ("explicit", "stiff")}
    collocation = RADAU if fields["collocation"] else None
    return Adaptive(**fields | parts | {"collocation": collocation})


def _integrator(fields: Any) -> Integrator | None:
    """Create an integrator from its attributes in JSON; None if they are missing."""
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
