"""An FMU in a process of its own: what it does to its process, it does to that one alone.

Parent and child talk over a pipe: a request is the name of a method of `Instance`, its arguments
and the inputs, and the reply is the outputs, with the messages for the log, or the error.
"""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from multiprocessing.connection import Connection, Pipe
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.signal_types import learn, texts_in
from rigidblocks.simulation.fmu_instance import RunningFmu, follows
from rigidblocks.simulation.fmu_values import places
from rigidblocks.simulation.instance import Instance
from rigidblocks.simulation.running import running_fmu
from rigidblocks.system.fmu import Fmu, FmuError
from rigidblocks.system.part import Part

LOG = logging.getLogger("rigidblocks")
_GRACE = 5.0  # s that the child gets to end by itself
_START = 60.0  # s that it gets to start, before the FMU is asked for anything


class IsolatedInstance(Instance):
    """An FMU that runs in another process, each call within the part's time limit [s].

    A crash, an exit or a hang of the FMU raises FmuError with the part, the call, the time and what
    happened to the process.
    """

    def __init__(self, part: Part):
        assert isinstance(part.component, Fmu)
        if os.name != "posix":
            raise FmuError(f"'{part.name}': FMUs cannot be isolated on this platform")
        self._part, self._fmu, self._t = part, part.component, 0.0
        self._u = np.zeros(sum(port.size for port in self._fmu.inputs))
        self._y = np.zeros(sum(port.size for port in self._fmu.outputs))
        self._u_where, self._y_where = places(self._fmu.inputs), places(self._fmu.outputs)
        self._kept = self._u.copy(), self._y.copy()
        self._pipe, theirs = Pipe()
        with theirs:
            command = [sys.executable, "-m", "rigidblocks.simulation.isolated"]
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())], pass_fds=(theirs.fileno(),)
            )
        try:
            self._ask("start", limit=_START)
            self._ask("instantiate", part, *_start_texts(part))
        except BaseException:
            self._end()
            raise

    def input(self, name: str) -> Array:
        return self._u[self._u_where[name]]

    def output(self, name: str) -> Array:
        return self._y[self._y_where[name]]

    def outputs(self) -> Array:
        return self._y

    def initialize(self, t: float) -> None:
        self._t = t
        self._ask("initialize", t)

    def begin(self) -> None:
        self._ask("begin")

    def step(self, t: float, dt: float) -> None:
        self._t = t
        self._ask("step", t, dt)

    @property
    def inputs(self) -> Array:
        return self._u

    @property
    def follows(self) -> bool:
        return follows(self._fmu)

    def follow(self, course: Array, t: float, dt: float) -> None:
        self._t = t
        self._ask("follow", course, t, dt)

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
        values: Array = self._ask("read", name)
        return values

    def change(self, name: str, values: Array) -> None:
        self._ask("change", name, values)

    def keep(self, number: int) -> None:
        self._ask("keep", number)

    def go_back(self, number: int) -> None:
        self._ask("go_back", number)

    def forget(self, number: int) -> None:
        if self._process.poll() is None and not self._pipe.closed:
            self._ask("forget", number)

    def close(self) -> None:
        if self._process.poll() is None:
            # the run is over, and whatever goes wrong now must not take its result
            with contextlib.suppress(FmuError):
                self._ask("close")
        self._end()

    def _ask(self, call: str, *arguments: Any, limit: float | None = None) -> Any:
        limit = self._part.time_limit if limit is None else limit
        try:
            texts = texts_in(self._u, self._fmu.inputs)
            self._pipe.send((call, arguments, self._u, texts))
            if not self._pipe.poll(limit):
                self._process.kill()
                raise self._error(call, f"took longer than {limit:g} s")
            error, answer, outputs, texts, messages = self._pipe.recv()
        except (EOFError, OSError):
            raise self._error(call, self._ending()) from None
        for level, message in messages:
            LOG.log(level, "%s", message)
        if error is not None:
            raise FmuError(error)
        learn(texts)
        if outputs is not None:
            self._u[:], self._y[:] = outputs
        return answer

    def _ending(self) -> str:
        """How the process ended."""
        try:
            code = self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        if code < 0:
            return f"crashed: its process was ended by signal {-code} ({signal.strsignal(-code)})"
        return f"ended its process with exit code {code}"

    def _error(self, call: str, what: str) -> FmuError:
        return FmuError(
            f"'{self._part.name}' ({self._fmu.path}), in a process of its own: '{call}' at t = "
            f"{self._t:g} s {what}"
        )

    def _end(self) -> None:
        self._pipe.close()
        try:
            self._process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _start_texts(part: Part) -> list[str | bytes]:
    """The texts among the start values of a part's FMU."""
    fmu = part.component
    assert isinstance(fmu, Fmu)
    ports = (*fmu.inputs, *fmu.outputs, *fmu.parameters, *fmu.states)
    given = ((port, part.start.get(port.name, port.start)) for port in ports)
    return [
        one
        for port, start in given
        if start is not None
        for one in texts_in(np.ravel(start), (port,))
    ]


class _Messages(logging.Handler):
    """Keeps the messages of the log for the other process."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[tuple[int, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append((record.levelno, record.getMessage()))


def serve(pipe: Connection) -> None:
    """Does what the other end asks for, until it closes the pipe."""
    messages = _Messages()
    LOG.addHandler(messages)
    LOG.propagate = False
    instance: RunningFmu | None = None
    while True:
        try:
            call, arguments, u, texts = pipe.recv()
        except EOFError:
            return
        error = answer = outputs = None
        learn(texts)
        try:
            if call == "instantiate":
                part, *known = arguments
                learn(known)
                instance = running_fmu(part)
            elif instance is not None:
                instance.values()[0][:] = u
                answer = getattr(instance, call)(*arguments)
            outputs = instance and instance.values()
        except Exception as caught:
            error = str(caught)
        texts = [] if instance is None else instance.texts()
        pipe.send((error, answer, outputs, texts, messages.kept))
        messages.kept.clear()


def _end_with(parent: int) -> None:
    """Ends this process, also in the midst of a call, once the one that started it is gone."""
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which closes the pipe
    serve(Connection(int(sys.argv[1])))
