"""The masters of plain steps: a loop over the parts of a run in Python, and the same loop in C."""

import abc
import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.network import Instances, Network
from rigidblocks.simulation.pace import Turns
from rigidblocks.simulation.plan import Plan
from rigidblocks.simulation.recording import Hold, Recording, check_finite
from rigidblocks.simulation.table import DONE, FAILED, HOSTED, STEP, Loop

CLOSE = 1e-12  # of dt: how closely an event is located
EVENTS = 100  # in one step of dt: more than that do not end
LOOK = 0.05  # s between two looks at the progress bar and at Ctrl-C


class Master(abc.ABC):
    """Takes the parts of a system from one communication point to the next."""

    network: Network

    @abc.abstractmethod
    def go(self, recording: Recording, hold: Hold, pace: Turns | None) -> Iterator[int]:
        """Runs on to the end of a record, yielding how many steps were taken since the last time;
        `hold` keeps interrupts away. With a pace each step is taken when it is due.
        """

    @abc.abstractmethod
    def step(self, t: float, dt: float) -> None:
        """Steps all parts from t to t + dt, and nothing else."""

    @property
    def steps_in_c(self) -> bool:
        """Whether the loop is in C."""
        return False

    def report(self) -> Mapping[str, str]:
        """What the result is to say of how the steps went."""
        return {}

    def remarks(self) -> Iterator[tuple[int, str]]:
        """What the user is to be told of a run, with its level in the log."""
        yield from ()


class CoSimulation(Master):
    """Steps one instance for each part: what the loop in C does, to be read."""

    def __init__(self, plan: Plan, network: Instances):
        self.network, self._parts = network, network
        self._points, self._simultaneous = (plan.t_start, plan.dt), plan.is_simultaneous
        names = [name for port in plan.wiring.outputs for name in port.element_names]
        self._events = np.array([names.index(one) for one in dict.fromkeys(plan.events)], dtype=int)

    def go(self, recording: Recording, hold: Hold, pace: Turns | None) -> Iterator[int]:
        del hold  # a step in Python may be interrupted
        step = partial(self._step_through_events, recording) if len(self._events) else self.step
        return in_python(step, self.network, self._points, recording, pace)

    def step(self, t: float, dt: float) -> None:
        self._step_within((t, dt), t, dt)

    def _step_within(self, whole: tuple[float, float], t: float, dt: float) -> None:
        """Steps all parts from t to t + dt, in a step with this start and length that events
        divide.
        """
        for number in self._parts.in_turn(self._simultaneous):
            self._parts.step_within(whole, number, t, dt)

    def _step_through_events(self, recording: Recording, t: float, dt: float) -> None:
        """Steps from t to t + dt, ending a step and recording a row at each event."""
        start, rest = t, dt
        for _ in range(EVENTS + 1):
            for instance in self._parts.by_name.values():
                instance.save()
            before = self.network.row()[self._events]
            self._step_within((t, dt), start, rest)
            if not len(self._fallen(before)):
                return
            start += self._locate((t, dt), start, rest, before)
            recording.fell(start, self._fallen(before))
            rest = t + dt - start
            if rest <= 0:
                return
            recording.insert(start, self.network.row())
        raise ArithmeticError(f"more than {EVENTS} events within one step of dt")

    def _locate(self, whole: tuple[float, float], t: float, length: float, before: Array) -> float:
        """Takes the step again, up to the first moment at which an event is known to have happened;
        returns its length.
        """
        low, high = 0.0, length
        while high - low > CLOSE * whole[1]:
            middle = (low + high) / 2
            self._step_again(whole, t, middle)
            low, high = (low, middle) if len(self._fallen(before)) else (middle, high)
        self._step_again(whole, t, high)
        return high

    def _step_again(self, whole: tuple[float, float], t: float, dt: float) -> None:
        for instance in self._parts.by_name.values():
            instance.restore()
        self._step_within(whole, t, dt)

    def _fallen(self, before: Array) -> Array:
        """The columns of the events whose outputs have fallen through zero since they were
        `before`.
        """
        now = self.network.row()[self._events]
        return np.asarray(self._events[(before > 0) & (now <= 0)])


def in_python(
    step: Callable[[float, float], None],
    network: Network,
    points: tuple[float, float],
    recording: Recording,
    pace: Turns | None,
) -> Iterator[int]:
    """The loop of `Master.go` in Python, over `step(t, dt)` at the points (t_start, dt)."""
    t_start, dt = points
    for k in range(recording.k, recording.grid.n):
        if pace is not None:
            pace.wait()
        step(t_start + k * dt, dt)
        recording.add(network.row())
        if pace is not None:
            pace.ended(t_start + (k + 1) * dt)
        yield 1


class CompiledLoop(Master):
    """The loop in C. It comes back to Python now and then, and where something fails."""

    def __init__(self, plan: Plan, network: Network):
        self.network, self._points = network, (plan.t_start, plan.dt)
        self._ports, table = plan.wiring.outputs, network.table()
        self._hosts = any(row.entry.kind == HOSTED for row in table)
        self._errors: list[BaseException] = []
        self._kept: tuple[str, ...] | None = None
        self._loop = Loop(
            table,
            network.unchecked,
            plan.is_simultaneous,
            answering(network.judge, self._errors),
            answering(network.step, self._errors),
        )

    @property
    def steps_in_c(self) -> bool:
        return True

    def go(self, recording: Recording, hold: Hold, pace: Turns | None) -> Iterator[int]:
        names = tuple(port.name for port in recording.chosen)
        if names != self._kept:  # as in the run before
            self._loop.keep(self.network.outputs[name] for name in names)
            self._kept = names
        last = recording.grid.n
        # a part that Python steps may be interrupted in its step
        held = contextlib.nullcontext if self._hosts else hold
        while recording.k < last:
            if pace is not None:
                pace.wait()
            with held():
                begin = recording.k
                end = last if pace is None else begin + 1
                steps, every, room = (begin, end), recording.every, recording.room()
                ending, k, rows = self._loop.run(self._points, steps, every, room, LOOK)
                recording.took(k - begin, rows)
            if pace is not None:
                pace.ended(self._points[0] + k * self._points[1])
            if ending != DONE:
                self._fail(ending, self._points[0] + k * self._points[1], self._points[1])
            yield k - begin

    def step(self, t: float, dt: float) -> None:
        if ending := self._loop.step(t, dt):
            self._fail(ending, t, dt)

    def _fail(self, ending: int, t: float, dt: float) -> None:
        """Raises what has ended the loop in the step from t to t + dt."""
        if self._errors:
            error = self._errors.pop()
            self._errors.clear()
            raise error
        if ending == FAILED:
            self.network.judge(self._loop.part, STEP, self._loop.status, t, dt)
        check_finite(self._ports, self.network.row())


def answering(function: Callable[..., None], errors: list[BaseException]) -> Callable[..., bool]:
    """A function for C to call: whether there was an error, which is kept."""

    def call(*arguments: float) -> bool:
        try:
            function(*arguments)
        except BaseException as error:
            errors.append(error)
            return True
        return False

    return call
