"""Inner steps that know their error: the step of an `Adaptive` method on a block's flat memory.

c/kernel/inner.h and control.h do the same, by the same arithmetic in the same order.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.linear import linear_solver
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import (
    COLLOCATION,
    COST,
    CUT_SHORT,
    EIGENVALUE,
    EXPLICIT,
    IMPLICIT,
    IS_STIFF,
    LENGTH,
    MOST_TRIES,
    PAUSE,
    RIVAL,
    ROSENBROCK,
    SCREEN_PAUSE,
    SIGNS,
    SPITE,
    STIFFNESS,
    TEST_TRIES,
    Adaptive,
    is_implicit,
)
from rigidblocks.block.choice import count_cost
from rigidblocks.block.collocation import START_PART
from rigidblocks.block.evaluate import Evaluator
from rigidblocks.block.length import first_length, is_good, least_length, remember, shorter_length
from rigidblocks.block.margins import Approach, Course
from rigidblocks.block.memory import put
from rigidblocks.block.stiffness import coarse, count_calm
from rigidblocks.block.trial import LARGEST, Start, Trial, Trials


class Span(NamedTuple):
    """A communication step. Its length is not the difference of its times, which rounds."""

    start: float
    length: float
    end: float

    def arrival(self, done: float, h: float) -> float:
        """The time at the end of an inner step of length h, where so much of the length is done."""
        return self.end if h == self.length - done else self.start + (done + h)

    def after(self, done: float, h: float) -> float:
        """How much of the length is done then."""
        return self.length if h == self.length - done else done + h


@dataclass(frozen=True, eq=False)
class Inner:
    """An inner step while its lengths are tried: what it begins with, and the part of the memory
    `s` that the method remembers, which trials change.
    """

    start: Start
    s: Array
    kind: float  # of the method that is at work
    spent: float  # until now
    slopes: tuple[Array, Array] | None  # of the linearly implicit method
    signs: Array  # of stiffness
    floor: float  # of lengths


class Steps:
    """The inner steps on the way from `start` to `end`, which go on from each other."""

    def __init__(self, evaluator: Evaluator, method: Adaptive, longest: float):
        self.evaluator, self.method, self.longest = evaluator, method, longest
        self.trials = Trials(evaluator, method)
        self.tried = 0
        self.rates: Array | None = None
        self.approach = Approach() if evaluator.margin_count else None

    def through(self, m: Array, start: float, length: float, end: float) -> Array:
        """The memory at the end."""
        span, done = Span(start, length, end), 0.0
        while done < length:
            m, done = self.step(span, m, done)
        return m

    def step(self, span: Span, m: Array, done: float) -> tuple[Array, float]:
        """The memory after one inner step, and how much of the length is done then; its states are
        not finite where none could be taken.
        """
        s, left = m[self.evaluator.memory.s].copy(), span.length - done
        start = self._start(m, span.start + done)
        h = self._first_length(s, left, start)
        inner = self._begin(start, h, span.end, s)
        if self._is_screened(s, h == left):
            y = self._by_screen(inner, h, span.end)
            if y is not None:
                return self._put(start, y, span.end, s), span.length
        if self.approach is not None:
            self.approach.begin()
        return self._by_trials(inner, h, span, done)

    def _by_trials(self, inner: Inner, h: float, span: Span, done: float) -> tuple[Array, float]:
        """What `step` returns: by steps of length h and shorter ones, until one is taken."""
        start, s, floor, shortened = inner.start, inner.s, inner.floor, False
        while self._may_try(done, span.length):
            end = span.arrival(done, h)
            trial, before = self._try(inner, h, end)
            if before > 0.0 and h > 2.0 * floor:
                h = self._shortened(s, max(before, 2.0 * floor))
                continue
            shorter = shorter_length(h, trial.error)
            if is_good(trial.error, is_shortest=shorter < floor):
                y = self._take(inner, h, end, trial, shortened)
                return self._put(start, y, end, s), span.after(done, h)
            if shorter < floor:
                break
            shortened, h, s[LENGTH] = True, shorter, shorter
        return self._without_step(start, span.length - done, span.end, s), span.length

    # an inner step begins and ends

    def _start(self, m: Array, t: float) -> Start:
        """Where a step starts; its rates may be known from the last one."""
        x = m[self.trials.x]
        if self.rates is None:
            self.rates = self.trials.rates(m, t, x)
        return Start(m, t, x, self.rates)

    def _begin(self, start: Start, h: float, end: float, s: Array) -> Inner:
        """What all trials of an inner step have, of which the first has length h."""
        kind, spent, slopes = s[IS_STIFF], s[COST], None
        if kind == ROSENBROCK:
            self.trials.spend(s, self.trials.prices.slopes)
            slopes = self.trials.slopes(start, h)
        return Inner(start, s, kind, spent, slopes, s[_OF_STIFFNESS], least_length(start.t, end))

    def _first_length(self, s: Array, left: float, start: Start) -> float:
        """The length that is tried first: the one remembered, or all that is left."""
        if self.method.explicit is None:
            s[IS_STIFF] = self.trials.implicit_kind
        if s[LENGTH] == 0.0:
            s[LENGTH] = left
            fastest, part = self.trials.in_tolerances(start.f, start.x, start.x), self._start_part
            if s[IS_STIFF] == COLLOCATION and part < fastest * left < np.inf:
                s[LENGTH] = coarse(part / fastest)
        return first_length(min(s[LENGTH], self.longest), left)

    @property
    def _start_part(self) -> float:
        """How many tolerances the first step of a collocation method changes a state at most."""
        return START_PART / self.method.rtol

    def _is_screened(self, s: Array, whole: bool) -> bool:
        """Whether one step of RK4 over the whole communication step is tried first."""
        if not whole or self.tried or s[IS_STIFF]:
            return False
        if s[PAUSE] > 0.0:
            s[PAUSE] -= 1.0
            return False
        return True

    def _by_screen(self, inner: Inner, h: float, end: float) -> Array | None:
        """The states after the step of RK4; None where its error or a change of a law forbids
        it.
        """
        self.tried += 1
        trial = self.trials.screen(inner.start, h, end)
        if trial.error <= 1.0:
            trial, before = self._until_change(inner.start, h, end, trial)
            if before == 0.0:
                self.rates = None
                return trial.y
        inner.s[PAUSE] = SCREEN_PAUSE  # the pair tries the same
        return None

    def _try(self, inner: Inner, h: float, end: float) -> tuple[Trial, float]:
        """A trial and, where a law changes within it, the length to before that, else 0; the signs
        of stiffness are those before a change: the rates jump there over next to no distance.
        """
        self.tried += 1
        trial = self.trials.attempt(inner.start, h, end, inner.s, inner.slopes)
        if not trial.error <= 1.0:
            return trial, 0.0
        trial, before = self._until_change(inner.start, h, end, trial)
        if before > 0.0 or (self.approach is not None and self.approach.crosses):
            inner.s[_OF_STIFFNESS] = inner.signs
        return trial, before

    def _without_step(self, start: Start, left: float, end: float, s: Array) -> Array:
        """The memory where no step could be taken: cut short by the bound on steps, or not
        finite.
        """
        if self.method.max_inner_steps is None:
            return self._put(start, put(start.x, 0, np.nan), end, s)
        return self._cut_short(start, left, end, s)

    def _may_try(self, done: float, length: float) -> bool:
        """Whether there are more inner steps in this communication step."""
        if self.tried == TEST_TRIES and done < 0.01 * length:
            return False
        bound = self.method.max_inner_steps
        return self.tried < (MOST_TRIES if bound is None else min(bound, MOST_TRIES))

    def _take(self, inner: Inner, h: float, end: float, trial: Trial, shortened: bool) -> Array:
        """The states after a step that is taken, in spite of its error where time has no shorter
        ones.
        """
        if trial.error <= 1.0:
            if inner.kind != EXPLICIT:
                self._compare(inner, h)
            remember(inner.s, h, trial.error, shortened, inner.kind)
            self._keep(inner, h)
            self.rates = trial.rates
            return trial.y
        if self.trials.stages is not None:
            self.trials.stages.forget()
        inner.s[SPITE] += 1.0
        inner.s[LENGTH] = max(inner.s[LENGTH], 2.0 * h)
        self.rates = None
        return self.trials.arrive(inner.start, end, trial.y)[1]

    def _keep(self, inner: Inner, h: float) -> None:
        """The stages of a step that is taken, for the next one, and the length of that."""
        stages, approach, s = self.trials.stages, self.approach, inner.s
        if stages is not None and inner.kind == COLLOCATION:
            s[LENGTH] = stages.keep(h, s[LENGTH])
        if stages is not None and (
            inner.kind != COLLOCATION or (approach is not None and approach.crosses)
        ):  # another law
            stages.forget()
        if approach is not None:
            s[LENGTH] = approach.next_length(h, s[LENGTH])

    def _until_change(
        self, start: Start, h: float, end: float, trial: Trial
    ) -> tuple[Trial, float]:
        """The trial with its rates at the end, and the length to try instead where a margin changes
        its sign in it, else 0.
        """
        if self.approach is None:
            return trial, 0.0
        rates = self.trials.rates(start.m, end, trial.y) if trial.rates is None else trial.rates
        error = self.trials.in_tolerances(h * (rates - start.f), start.x, trial.y)
        before = self._course(start.m, start.t, start.x, h * start.f, 1.0)
        behind = self._course(start.m, end, trial.y, h * rates, -1.0)
        return trial._replace(rates=rates), self.approach.shorter(h, before, behind, error)

    def _course(self, m: Array, t: float, x: Array, change: Array, way: float) -> Course:
        """The margins where the states x change so much over a step, from what is near them on the
        way into it.
        """
        near, m = way * _NEAR, put(m, 0, t)
        value = self.evaluator.margins(put(m, self.trials.x, x))
        there = self.evaluator.margins(put(m, self.trials.x, x + near * change))
        return Course(value, (there - value) / near)

    def _shortened(self, s: Array, h: float) -> float:
        """The length h of a step that ends before a change."""
        assert self.approach is not None
        if self.approach.resumed == 0.0:
            self.approach.resumed = s[LENGTH]
        s[LENGTH] = h
        return h

    def _cut_short(self, start: Start, h: float, end: float, s: Array) -> Array:
        """The memory after the rest of a communication step whose inner steps are used up."""
        s[CUT_SHORT] += 1.0
        if is_implicit(self.method):
            J, f_t = self.trials.slopes(start, h)
            k = linear_solver(np.eye(len(start.x)) - h * J)(start.f + h * f_t)
            move, y = self.trials.arrive(start, end, start.x + h * k)
        else:
            error, y, _ = self.trials.screen(start, h, end)
            move, y = (error, y) if error <= 1.0 else self.trials.arrive(start, end, y)
        finite = move <= LARGEST and np.all(np.isfinite(y))
        return self._put(start, y if finite else start.x, end, s)

    # what they are judged by

    @property
    def _compares(self) -> bool:
        """Whether there are two implicit methods."""
        return self.trials.stages is not None and self.method.stiff is not None

    def _compare(self, inner: Inner, h: float) -> None:
        """Counts what an implicit step that is taken says of the other methods: whether explicit
        ones would do, and what it has cost.
        """
        if self.method.explicit is None:
            return
        s, x = inner.s, inner.start.x
        if inner.slopes is not None:
            J, dearness = inner.slopes[0], self.method.dearness(len(x))
        else:
            assert self.trials.stages is not None
            assert self.trials.stages.J is not None
            J = self.trials.stages.J
            dearness = (s[COST] - inner.spent) / (self.method.explicit.stages - 1)
        count_calm(s, h, self._bound(J, x), dearness)
        if self._compares and s[IS_STIFF] != EXPLICIT:
            count_cost(s, h, self.trials.prices.window)

    def _bound(self, J: Array, x: Array) -> float:
        """Of the eigenvalues of J: the largest sum of a row, in tolerances of the states."""
        unit = self.trials.atol + self.method.rtol * np.abs(x)
        rows = zip(J, unit, strict=True)
        return max((float(sum(np.abs(row) * unit) / u) for row, u in rows), default=0.0)

    # the memory

    def _put(self, start: Start, y: Array, t: float, s: Array) -> Array:
        return put(put(put(start.m, 0, t), self.trials.x, y), self.evaluator.memory.s, s)


_OF_STIFFNESS = [IS_STIFF, SIGNS, EIGENVALUE, STIFFNESS, RIVAL, IMPLICIT]
_NEAR = 1.0 / 64.0  # of a step: over so much of it the rates of margins are taken
