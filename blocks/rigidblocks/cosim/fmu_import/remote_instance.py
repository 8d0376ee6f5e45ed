"""FMU instances in another process, on this machine or on a server, controlled by messages."""

import abc
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Mapping
from dataclasses import asdict
from math import inf, isfinite
from typing import Any

import numpy as np

from rigidblocks.block.adaptive_methods import Method
from rigidblocks.block.port import TEXTUAL, register_table, table_of, texts_in
from rigidblocks.cosim.fmu_import.fmu_instance import supports_polynomial_inputs
from rigidblocks.cosim.fmu_import.model_exchange import check_method
from rigidblocks.cosim.graph.fmu_file import MODEL_EXCHANGE
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from rigidblocks.cosim.graph.ipc_messages import (
    Channel,
    Message,
    MessageError,
    Recurring,
    TextError,
)
from rigidblocks.cosim.graph.part import Part, places
from rigidblocks.cosim.graph.remote_fmu import RemoteFile
from rigidblocks.cosim.masters.part_instance import Instance
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
        self._step = Recurring("step", len(self._u) + 2)
        self._values = Recurring("answer", len(self._u) + len(self._y))
        self._has_texts = any(port.type in TEXTUAL for port in self._fmu.inputs)
        try:
            self._ask("start", seconds=_START_TIMEOUT)
            self._ask("instantiate", text=_instance_request(part, self._fmu))
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
        self._ask("initialize", [t], text or None)

    def begin(self) -> None:
        self._ask("begin")

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
        self._ask("follow", np.concatenate([[t, dt], np.ravel(course)]))

    def save(self) -> None:
        self._ask("save")
        self._kept = self._u.copy(), self._y.copy()

    def restore(self) -> None:
        self._ask("restore")
        self._u[:], self._y[:] = self._kept

    def view(self, name: str) -> Array | None:
        if name in self._u_where:
            return self.input(name)
        return self.output(name) if name in self._y_where else None

    def read(self, name: str) -> Array:
        return self._ask("read", text={"name": name})

    def change(self, name: str, values: Array, t: float) -> None:
        self._ask("change", [t, *np.ravel(values)], {"name": name})

    def save_state(self, number: int) -> None:
        self._ask("save_state", [number])

    def restore_state(self, number: int) -> None:
        self._ask("restore_state", [number])

    def free_state(self, number: int) -> None:
        if self._host.is_alive:
            self._ask("free_state", [number])

    def end(self) -> None:
        pass  # the caller then calls `close`, because `restarts` is false

    def close(self) -> None:
        if self._host.is_alive:
            # the run has ended; an error must not discard its result
            with contextlib.suppress(FmuError):
                self._ask("close")
        self._host.close()

    def _ask(
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
    """Return the description of a part that the other process needs to create the instance."""
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
    """Return the fields of an integration method as JSON values.

    The name "radau" replaces the fields of a collocation method, because its coefficients are
    complex.
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
            command = [sys.executable, "-m", "rigidblocks.cosim.fmu_import.fmu_worker"]
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
