"""An FMU that runs in another process, of this machine or of another: it is asked by messages."""

import abc
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.signal_types import TEXTUAL, learn_table, table_of, texts_in
from rigidblocks.simulation.exchange_steps import check_method
from rigidblocks.simulation.fmu_instance import follows
from rigidblocks.simulation.fmu_values import places
from rigidblocks.simulation.instance import Instance
from rigidblocks.system.fmu import Fmu, FmuError
from rigidblocks.system.fmu_file import MODEL_EXCHANGE
from rigidblocks.system.messages import Channel, Message, MessageError, Recurring, TextError
from rigidblocks.system.part import Part

LOG = logging.getLogger("rigidblocks")
_START = 60.0  # s that it gets to start, before the FMU is asked for anything
_NONE = np.zeros(0)


class Host(abc.ABC):
    """Where an FMU runs, with the channel to it; `place` says it in messages."""

    channel: Channel
    place: str

    @abc.abstractmethod
    def ending(self) -> str:
        """What has become of it when its connection broke."""

    @abc.abstractmethod
    def abandon(self) -> None:
        """Ends it, since it took too long."""

    @property
    @abc.abstractmethod
    def is_alive(self) -> bool:
        """Whether it can be asked."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends it; may be repeated."""


class DistantInstance(Instance):
    """An FMU that runs at a host, each call within the part's time limit [s].

    A crash, an exit or a hang of the FMU, and a connection that breaks, raise FmuError with the
    part, its file, the call, the time and what happened.
    """

    def __init__(self, part: Part, host: Host):
        assert isinstance(part.component, Fmu)
        self._part, self._fmu, self._host, self._t = part, part.component, host, 0.0
        self._u = np.zeros(sum(port.size for port in self._fmu.inputs))
        self._y = np.zeros(sum(port.size for port in self._fmu.outputs))
        self._u_where, self._y_where = places(self._fmu.inputs), places(self._fmu.outputs)
        self._kept = self._u.copy(), self._y.copy()
        self._owed: list[str] = []  # calls whose answers have not come
        self._step = Recurring("step", len(self._u) + 2)
        self._values = Recurring("answer", len(self._u) + len(self._y))
        self._has_texts = any(port.type in TEXTUAL for port in self._fmu.inputs)
        try:
            self._ask("start", seconds=_START)
            self._ask("instantiate", text=_about(part, self._fmu))
        except BaseException:
            self._host.close()
            raise

    def input(self, name: str) -> Array:
        return self._u[self._u_where[name]]

    def output(self, name: str) -> Array:
        return self._y[self._y_where[name]]

    def outputs(self) -> Array:
        return self._y

    def initialize(self, t: float) -> None:
        self._t = t
        self._ask("initialize", [t])

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
            raise self._error("step", self._host.ending()) from None
        self._owed.append("step")

    def step(self, t: float, dt: float) -> None:
        self._t = t
        if self._owed != ["step"]:
            self.send_step(t, dt)
        self._receive()

    @property
    def inputs(self) -> Array:
        return self._u

    @property
    def follows(self) -> bool:
        return follows(self._fmu)

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

    def change(self, name: str, values: Array) -> None:
        self._ask("change", np.ravel(values), {"name": name})

    def keep(self, number: int) -> None:
        self._ask("keep", [number])

    def go_back(self, number: int) -> None:
        self._ask("go_back", [number])

    def forget(self, number: int) -> None:
        if self._host.is_alive:
            self._ask("forget", [number])

    def close(self) -> None:
        if self._host.is_alive:
            # the run is over, and whatever goes wrong now must not take its result
            with contextlib.suppress(FmuError):
                self._ask("close")
        self._host.close()

    def _ask(
        self,
        call: str,
        numbers: Any = _NONE,
        text: Mapping[str, Any] | None = None,
        seconds: float | None = None,
    ) -> Array:
        """The numbers of the answer to a call."""
        while self._owed:  # of a call that was interrupted
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
            raise self._error(call, self._host.ending()) from None
        self._owed.append(call)

    def _receive(self, seconds: float | None = None) -> Array:
        call = self._owed.pop(0)
        answer = self._answer(call, self._part.time_limit if seconds is None else seconds)
        if answer.text:
            for level, message in answer.text.get("messages", ()):
                LOG.log(level, "%s", message)
            if answer.call == "error":
                raise self._refusal(call, answer)
            learn_table(answer.text.get("texts", ()))
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
            raise self._error(call, self._host.ending()) from None
        except (MessageError, TextError) as error:
            self._host.abandon()
            raise self._error(call, f"was answered wrongly: {error}") from None

    def _refusal(self, call: str, answer: Message) -> FmuError:
        said = str(answer.text.get("error"))
        return FmuError(said) if answer.text.get("names the part") else self._error(call, said)

    def _error(self, call: str, what: str) -> FmuError:
        return FmuError(
            f"'{self._part.name}' ({self._fmu.path}){self._host.place}: '{call}' at t = "
            f"{self._t:g} s {what}"
        )


def _about(part: Part, fmu: Fmu) -> dict[str, Any]:
    """What the other side makes the part of."""
    method = check_method(part.method) if fmu.kind == MODEL_EXCHANGE else None
    return {
        "file": getattr(fmu.path, "file", str(fmu.path)),
        "sha256": fmu.digest,
        "kind": fmu.kind,
        "name": part.name,
        "start": {name: np.ravel(values).tolist() for name, values in part.start.items()},
        "known": table_of(_start_texts(part, fmu)),
        "method": None if method is None else {"type": type(method).__name__, **asdict(method)},
        "h": part.h,
    }


def _start_texts(part: Part, fmu: Fmu) -> list[str | bytes]:
    """The texts among the start values of a part's FMU."""
    ports = (*fmu.inputs, *fmu.outputs, *fmu.parameters, *fmu.states)
    given = ((port, part.start.get(port.name, port.start)) for port in ports)
    return [
        one
        for port, start in given
        if start is not None
        for one in texts_in(np.ravel(start), (port,))
    ]
