"""Steps that know their error on the way to an event, which dense output locates (RBDA 11.5)."""

from collections.abc import Callable, Iterator

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import Adaptive
from rigidblocks.block.block import Record
from rigidblocks.block.dense import HALVINGS, Event, Interpolant
from rigidblocks.block.evaluate import Evaluator
from rigidblocks.block.integrators import stage_rates, stepped
from rigidblocks.block.margins import tangents_meet
from rigidblocks.block.memory import put
from rigidblocks.block.step import put_back, rates

Gaps = Callable[[Record], Array]  # of the states: numbers (n,) of which none may pass below zero
NEAR = 1e-3  # of a step: over so much of it the rates of gaps are taken
SPLITS = 8  # of a step, to see whether a gap closes and opens again within it
_SHORTEST = 16.0 * np.finfo(float).eps


class EventSteps:
    """The steps of an embedded explicit pair, whose length goes on from one event to the next.

    A step is taken when its error is at most the tolerance (`Adaptive`); `first` [s] is the
    length that is tried first, and none
    is longer than `longest` [s]. Raises ValueError for a method without such a pair.
    """

    def __init__(self, method: Adaptive, first: float, longest: float):
        if method.explicit is None:
            raise ValueError(
                f"events are located inside the steps of an explicit method; '{method.name}' has "
                "none: take 'adaptive'"
            )
        self.method, self.pair, self.longest = method, method.explicit, longest
        self.length = min(first, longest)

    def segments(
        self, evaluator: Evaluator, m: Array, t: float, end: float, event: Event, gaps: Gaps
    ) -> "Iterator[Segment]":
        """The steps from t to the end, or to the first moment of the event as `first_event` has it,
        which is in the last of them.

        A gap that closes and opens again within a step is seen where it is convex along the way,
        as the distance of a small ball that goes through another one.
        """
        before = event(*evaluator.memory.records(put(m, 0, t)))
        while t < end:
            left = end - t
            h = left if self.length >= left * (1 - 1e-9) else min(self.length, 0.5 * left)
            h, course, after = self._taken(evaluator, m, t, min(h, self.longest), end)
            arrival = end if h == left else t + h
            step = Segment(evaluator, m, t, arrival, course, put(after, 0, arrival), event, gaps)
            yield step.until_event(before)
            if step.happened:
                return
            m, t, before = step.after, arrival, step.value

    def _taken(
        self, evaluator: Evaluator, m: Array, t: float, h: float, end: float
    ) -> tuple[float, Interpolant, Array]:
        """The length of a step that is taken, at most h, the states in it and the memory behind."""
        memory, shortest = evaluator.memory, _SHORTEST * max(abs(t), abs(end))
        while True:
            x, position = m[memory.x], memory.position
            k = stage_rates(self.pair, rates(evaluator, m), t, x, h, position)
            y = stepped(x, h, k, self.pair.b, self.pair.b, position)
            after = put_back(evaluator, put(m, memory.x, y), t + h)
            error = self._error(evaluator, h, k, x, y, after[memory.x])
            factor = min(max(0.9 / max(error, 1e-5) ** 0.2, 0.2), 5.0) if error < np.inf else 0.2
            if error <= 1.0 or h * factor < shortest:
                if h >= self.length or h * factor > self.length:
                    self.length = h * factor
                return h, Interpolant(self.pair, h, x, k, position), after
            h = self.length = h * min(factor, 0.9)

    def _error(
        self, evaluator: Evaluator, h: float, k: list[Array], x: Array, y: Array, back: Array
    ) -> float:
        """The error of a step from x to y, or how far y is moved back, in tolerances."""
        assert self.pair.error is not None
        if not np.all(np.isfinite(back)):
            return np.inf
        unit = self.method.absolute(evaluator.memory.block.states)
        unit = unit + self.method.rtol * np.maximum(np.abs(x), np.abs(y))
        e = h * sum(w * k_i for w, k_i in zip(self.pair.error, k, strict=True))
        return float(np.max(np.maximum(np.abs(e), np.abs(back - y)) / unit, initial=0.0))


class Segment:
    """A step that is taken from t to `end`, or to the event that `happened` in it; `after` is the
    memory behind.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        m: Array,
        t: float,
        end: float,
        course: Interpolant,
        after: Array,
        event: Event,
        gaps: Gaps,
    ):
        self.evaluator, self.m, self.t, self.end, self.course = evaluator, m, t, end, course
        self.after, self.happens, self.gaps = after, event, gaps
        self.value, self.happened = self._event(after), False

    def at(self, t: float) -> Array:
        """The memory at a time t in it."""
        return self.after if t >= self.end else self._at((t - self.t) / self.course.h)

    def until_event(self, before: float) -> "Segment":
        """The same up to the event, which was not there before it where `before` is positive."""
        found = self._found(before)
        if found is not None:
            self.happened, self.after, self.end = True, found, float(found[0])
        return self

    def _found(self, before: float) -> Array | None:
        """The memory at the first moment of the event; None where it does not happen."""
        first = self._first_positive() if before <= 0 else 0.0
        if first == 1.0:
            return None
        if self.value <= 0:
            high, after = 1.0, self.after
        elif (high := self._passes(first, 1.0, SPLITS)) < 1.0:
            after = self._at(high)
        else:
            return None
        return self._located(first, high, after)

    def _located(self, low: float, high: float, after: Array) -> Array:
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            there = self._at(middle)
            if self._event(there) > 0:
                low = middle
            else:
                high, after = middle, there
        return after

    def _first_positive(self) -> float:
        """A part of the step at which the event, which is there at its start, is over; 1 where it
        is not.
        """
        parts = (2.0**-n for n in range(30))
        return next((part for part in parts if self._event(self._at(part)) > 0), 1.0)

    def _passes(self, start: float, end: float, splits: int) -> float:
        """A part of the step from start to end at which a gap is closed that is open at both; 1
        where there is none.
        """
        (g0, d0), (g1, d1) = self._gaps(start, NEAR), self._gaps(end, -NEAR)
        long = end - start
        parts = [
            tangents_meet(a, long * b, c, long * d) if a > 0 and c > 0 else 1.0
            for a, b, c, d in zip(g0, d0, g1, d1, strict=True)
        ]
        if (part := min(parts, default=1.0)) == 1.0 or splits == 0:
            return 1.0
        middle = start + part * long
        if self._event(self._at(middle)) <= 0:
            return middle
        early = self._passes(start, middle, splits - 1)
        return early if early < 1.0 else self._passes(middle, end, splits - 1)

    def _gaps(self, part: float, near: float) -> tuple[list[float], list[float]]:
        """The gaps at a part of the step, and their rates by it."""
        value, there = (self.gaps(self._states(p)) for p in (part, part + near))
        return list(value), list((there - value) / near)

    def _states(self, part: float) -> Record:
        memory = self.evaluator.memory
        x: Record = memory.records(put(self.m, memory.x, self.course(part)))[1]
        return x

    def _at(self, part: float) -> Array:
        memory = self.evaluator.memory
        m = put(self.m, memory.x, self.course(part))
        return put_back(self.evaluator, m, self.t + part * self.course.h)

    def _event(self, m: Array) -> float:
        return float(self.happens(*self.evaluator.memory.records(m)))
