"""A model exchange FMU as a running part: its equations are integrated here, through its events."""

from dataclasses import replace
from math import inf

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import longest_step
from rigidblocks.block.course import inputs_at
from rigidblocks.simulation.exchange_model import ExchangeModel
from rigidblocks.simulation.exchange_steps import ExchangeSteps, check_method
from rigidblocks.simulation.fmu_instance import EVENTS, Moment, RunningFmu
from rigidblocks.system.part import Part


class ExchangeInstance(RunningFmu):
    """A model exchange FMU that runs in this process.

    In a communication step its inputs are held, and its states integrated by the part's method. An
    event is where an event indicator becomes positive or is no longer so (located on the states
    inside the step), where the FMU has named its time, and where it asks for one after a step; its
    discrete states are updated there until nothing changes.
    """

    def __init__(self, part: Part):
        method = check_method(part.method)
        super().__init__(part)
        self._model = ExchangeModel(self.fmi)
        self._steps = ExchangeSteps(self._model, method, longest_step(method, part.h))
        self._x, self._z, self._next_event = np.zeros(0), np.zeros(0), inf

    def _begin(self) -> None:
        self._clocks.start(self._t_start)
        self._update(self._t_start, first=True)

    def step(self, t: float, dt: float) -> None:
        self.fmi.log.clock[0] = t
        self._clocks.still()
        self._set_held()
        if self._has_discrete_news() or np.any((self._z > 0) != (self._model.indicators() > 0)):
            self._event(t)
        else:
            self._z = self._model.indicators()
        now, end = t, t + dt
        for _ in range(EVENTS):
            now = self._to_event(now, end)
            if now >= end and self._due(end) > end + 1e-9 * dt:
                break
        else:
            raise self.fmi.refuse(f"it has more than {EVENTS} events in a step of {dt:g} s")
        self.results.get()

    def follow(self, course: Array, t: float, dt: float) -> None:
        def set_inputs(now: float) -> None:
            self.given.flat[:] = inputs_at(course, now - t)
            self._set_held()

        self.given.flat[:] = course[0]
        self._model.set_inputs = set_inputs
        try:
            self.step(t, dt)
        finally:
            self._model.set_inputs = None
        self.given.flat[:] = inputs_at(course, dt)

    def _to_event(self, t: float, end: float) -> float:
        """Goes to the next event, or to the end; returns the time there."""
        target = min(end, max(t, self._due(end)))
        while t < target:
            t, self._x, event = self._steps.step(t, self._x, target, self._z)
            if self.fmi.completed_step(bool(self.may_return[0])) or event:
                self._event(t)
                return t
            self._z = self._model.indicators()
        if self._due(end) <= target:
            self._event(t)
        return t

    def _due(self, end: float) -> float:
        """When the next event is due whose time is known; at the end, where it is as good as
        there.
        """
        due = min(self._next_event, self._clocks.next)
        return end if abs(due - end) <= 1e-9 * max(1e-3, abs(end)) else due

    def _event(self, t: float) -> None:
        self.fmi.call("EnterEventMode")
        self._update(t)

    def _update(self, t: float, first: bool = False) -> None:
        """Handles an event in event mode and goes on from there."""
        nominals, states, self._next_event = self._handle_event(t)
        self.fmi.call("EnterContinuousTimeMode")
        if nominals or first:
            self._steps.nominals = self._model.nominals
        if states or first:
            self._x = self._model.states
        self._z, self._steps.length = self._model.indicators(), 0.0

    def _moment(self) -> Moment:
        motion = self._x, self._z, self._next_event, self._steps.length
        return replace(super()._moment(), motion=motion)

    def _go_to(self, moment: Moment) -> None:
        super()._go_to(moment)
        self._x, self._z, self._next_event, self._steps.length = moment.motion
