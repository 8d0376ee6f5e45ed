"""Inner steps that know their error: the step of an `Adaptive` method on a block's flat memory.

c/kernel/control.h does the same, by the same arithmetic in the same order.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.linear import linear_solver
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import (
    COLLOCATION,
    COST,
    CUT_SHORT,
    EIGENVALUE,
    ERROR,
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
    nominal_values,
)
from rigidblocks.block.choice import Prices, count_cost
from rigidblocks.block.collocation import START_PART, Begin, Stages, close
from rigidblocks.block.evaluate import Evaluator
from rigidblocks.block.implicit import implicit_stages
from rigidblocks.block.integrators import RK4, Integrator
from rigidblocks.block.margins import Approach, Course
from rigidblocks.block.memory import put
from rigidblocks.block.stiffness import coarse, count_calm, count_sign, quotients, state_quotients

_SCREEN = (1 / 6, -1 / 6, -1 / 6, 1 / 6)  # RK4 less a method of order 2


class Trial(NamedTuple):
    """An inner step that was tried: its error in tolerances, the states at its end, and the rates
    there if they are known.
    """

    error: float
    y: Array
    rates: Array | None = None


@dataclass(frozen=True, eq=False)
class Start:
    """Where an inner step starts: the memory, the time, the states x and their rates f."""

    m: Array
    t: float
    x: Array
    f: Array


class Steps:
    """The inner steps on the way from `start` to `end`, which go on from each other.

    Lengths are not the difference of times, which rounds.
    """

    def __init__(self, evaluator: Evaluator, method: Adaptive, longest: float):
        self.evaluator, self.method, self.longest = evaluator, method, longest
        states = evaluator.memory.block.states
        self.atol, self.nominal = method.absolute(states), nominal_values(states)
        self.tried = 0
        self.rates: Array | None = None
        self.approach = Approach() if evaluator.margin_count else None
        self.prices, self.stages = Prices.of(len(self.atol)), None
        if method.collocation is not None and method.collocates(len(self.atol)):
            bounds = self._in_tolerances, close(method.rtol)
            self.stages = Stages(method.collocation, *bounds, self.prices)

    def through(self, m: Array, start: float, length: float, end: float) -> Array:
        """The memory at the end."""
        done = 0.0
        while done < length:
            m, done = self.step(m, start, done, length, end)
        return m

    def step(
        self, m: Array, start_time: float, done: float, length: float, end: float
    ) -> tuple[Array, float]:
        """The memory after one inner step, and how much of the length is done then; its states are
        not finite where none could be taken.
        """
        s, t, left = m[self.evaluator.memory.s].copy(), start_time + done, length - done
        start = self._start(m, t)
        h = self._first_length(s, left, start)
        kind, spent, slopes = s[IS_STIFF], s[COST], None
        if kind == ROSENBROCK:
            self._spend(s, self.prices.slopes)
            slopes = self._slopes(start, h)
        if self._is_screened(s, h == left) and (y := self._by_screen(start, h, end, s)) is not None:
            return self._put(start, y, end, s), length
        if self.approach is not None:
            self.approach.begin()
        floor, shortened, signs = _least(t, end), False, s[_OF_STIFFNESS]
        while self._may_try(done, length):
            self.tried += 1
            arrival = end if h == left else start_time + (done + h)
            trial = self._trial(start, h, arrival, s, slopes)
            trial, before = self._up_to_change(start, h, arrival, trial, s, signs)
            if before > 0.0 and h > 2.0 * floor:
                h = self._shortened(s, max(before, 2.0 * floor))
                continue
            shorter = _shorter(h, trial.error)
            if _is_good(trial.error, is_shortest=shorter < floor):
                if kind != EXPLICIT and trial.error <= 1.0:
                    self._compare(s, h, start.x, slopes, s[COST] - spent)
                y = self._take(start, h, arrival, trial, s, shortened, kind)
                return self._put(start, y, arrival, s), length if h == left else done + h
            if shorter < floor:
                break
            shortened, h = True, shorter
            s[LENGTH] = shorter
        return self._without_step(start, left, end, s), length

    # an inner step begins and ends

    def _start(self, m: Array, t: float) -> Start:
        """Where a step starts; its rates may be known from the last one."""
        x = m[self._x]
        if self.rates is None:
            self.rates = self._rates(m, t, x)
        return Start(m, t, x, self.rates)

    def _first_length(self, s: Array, left: float, start: Start) -> float:
        """The length that is tried first: the one remembered, or all that is left."""
        if self.method.explicit is None:
            s[IS_STIFF] = self._implicit_kind
        if s[LENGTH] == 0.0:
            s[LENGTH] = left
            fastest, part = self._in_tolerances(start.f, start.x, start.x), self._start_part
            if s[IS_STIFF] == COLLOCATION and part < fastest * left < np.inf:
                s[LENGTH] = coarse(part / fastest)
        return _first_length(min(s[LENGTH], self.longest), left)

    @property
    def _implicit_kind(self) -> float:
        """The implicit method that begins; 0 without one."""
        if self.stages is not None:
            return COLLOCATION
        return ROSENBROCK if self.method.stiff is not None else EXPLICIT

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

    def _by_screen(self, start: Start, h: float, end: float, s: Array) -> Array | None:
        """The states after the step of RK4; None where its error or a change of a law forbids
        it.
        """
        self.tried += 1
        trial = self._screen(start, h, end)
        if trial.error <= 1.0:
            trial, before = self._until_change(start, h, end, trial)
            if before == 0.0:
                self.rates = None
                return trial.y
        s[PAUSE] = SCREEN_PAUSE  # the pair tries the same
        return None

    def _trial(
        self, start: Start, h: float, end: float, s: Array, slopes: tuple[Array, Array] | None
    ) -> Trial:
        """A step of the explicit pair, or with slopes of the implicit one."""
        if s[IS_STIFF] == COLLOCATION:
            assert self.stages is not None
            return self._collocated(self.stages, start, h, end, s)
        if slopes is None:
            return self._pair(start, h, end, s)
        self._spend(s, self.prices.rosenbrock)
        return self._implicit(start, h, end, slopes)

    def _up_to_change(
        self, start: Start, h: float, end: float, trial: Trial, s: Array, signs: Array
    ) -> tuple[Trial, float]:
        """The trial and, where a law changes within it, the length to before that, else 0; the
        signs of stiffness are those before a change: the rates jump there over next to no distance.
        """
        if not trial.error <= 1.0:
            return trial, 0.0
        trial, before = self._until_change(start, h, end, trial)
        if before > 0.0 or (self.approach is not None and self.approach.crosses):
            s[_OF_STIFFNESS] = signs
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

    def _take(
        self,
        start: Start,
        h: float,
        end: float,
        trial: Trial,
        s: Array,
        shortened: bool,
        kind: float,
    ) -> Array:
        """The states after a step of a kind that is taken, in spite of its error where time has no
        shorter ones.
        """
        if self.stages is not None and not (kind == COLLOCATION and trial.error <= 1.0):
            self.stages.forget()
        if trial.error <= 1.0:
            _remember(s, h, trial.error, shortened, kind)
            if self.stages is not None and kind == COLLOCATION:
                s[LENGTH] = self.stages.keep(h, s[LENGTH])
            if self.approach is not None:
                s[LENGTH] = self.approach.next_length(h, s[LENGTH])
            self.rates = trial.rates
            return trial.y
        s[SPITE] += 1.0
        s[LENGTH] = max(s[LENGTH], 2.0 * h)
        self.rates = None
        return self._arrive(start, end, trial.y)[1]

    def _until_change(
        self, start: Start, h: float, end: float, trial: Trial
    ) -> tuple[Trial, float]:
        """The trial with its rates at the end, and the length to try instead where a margin changes
        its sign in it, else 0.
        """
        if self.approach is None:
            return trial, 0.0
        rates = self._rates(start.m, end, trial.y) if trial.rates is None else trial.rates
        error = self._in_tolerances(h * (rates - start.f), start.x, trial.y)
        before = self._course(start.m, start.t, start.x, h * start.f, 1.0)
        behind = self._course(start.m, end, trial.y, h * rates, -1.0)
        return trial._replace(rates=rates), self.approach.shorter(h, before, behind, error)

    def _course(self, m: Array, t: float, x: Array, change: Array, way: float) -> Course:
        """The margins where the states x change so much over a step, from what is near them on the
        way into it.
        """
        near, m = way * _NEAR, put(m, 0, t)
        value = self.evaluator.margins(put(m, self._x, x))
        there = self.evaluator.margins(put(m, self._x, x + near * change))
        return Course(value, (there - value) / near)

    def _shortened(self, s: Array, h: float) -> float:
        """The length h of a step that ends before a change."""
        assert self.approach is not None
        if self.approach.resumed == 0.0:
            self.approach.resumed = s[LENGTH]
        s[LENGTH] = h
        return h

    # the methods

    def _screen(self, start: Start, h: float, end: float) -> Trial:
        """The classical step of order 4, with its change against one of order 2 as its error."""
        k = self._stages(start, h, RK4, [start.f])
        y = start.x + h * _sum(RK4.b, k)
        error = self._in_tolerances(h * _sum(_SCREEN, k), start.x, y)
        if not error <= 1.0:
            return Trial(error, y)
        move, y = self._arrive(start, end, y)
        return Trial(max(error, move), y)

    def _pair(self, start: Start, h: float, end: float, s: Array) -> Trial:
        """A step of the explicit pair, whose last stage is at the end."""
        pair = self.method.explicit
        assert pair is not None
        assert pair.error is not None
        inner = replace(pair, a=pair.a[:-1], b=pair.b[:-1], c=pair.c[:-1])
        k = self._stages(start, h, inner, [start.f])
        before = start.x + h * _sum(pair.a[-2], k[:-1])
        move, y = self._arrive(start, end, start.x + h * _sum(pair.a[-1], k))
        if not move <= 1.0:
            return Trial(move, y)
        k.append(self._rates(start.m, end, y))
        error = max(move, self._in_tolerances(h * _sum(pair.error, k), start.x, y))
        if error <= 1.0:
            self._look_for_stiffness(s, h, start.x, y, y - before, k[-1] - k[-2])
        return Trial(error, y, k[-1])

    def _implicit(self, start: Start, h: float, end: float, slopes: tuple[Array, Array]) -> Trial:
        """A step of the linearly implicit pair, whose last stage is its error."""
        pair = self.method.stiff
        assert pair is not None

        def rates(t: float, x: Array) -> Array:
            return self._rates(start.m, t, x)

        k = implicit_stages(pair, rates, slopes, start.t, start.x, h, start.f)
        y = start.x + h * _sum(pair.b, k)
        error = self._in_tolerances(h * k[-1], start.x, y)
        if not error <= 1.0:
            return Trial(error, y)
        move, y = self._arrive(start, end, y)
        return Trial(max(error, move), y)

    def _collocated(self, stages: Stages, start: Start, h: float, end: float, s: Array) -> Trial:
        """A step of the collocation method."""

        def rates(t: float, x: Array) -> Array:
            return self._rates(start.m, t, x)

        def slopes(t: float, x: Array) -> Array:
            if self.method.exact:
                return self._slopes(Start(start.m, t, x, start.f), h)[0]
            return state_quotients(rates, t, x, rates(t, x), self.nominal)

        stages.spent = 0.0
        error, y = stages.attempt(Begin(start.t, h, start.x, start.f), rates, slopes)
        self._spend(s, stages.spent)
        if not error <= 1.0:
            return Trial(error, y)
        move, y = self._arrive(start, end, y)
        return Trial(max(error, move), y)

    def _cut_short(self, start: Start, h: float, end: float, s: Array) -> Array:
        """The memory after the rest of a communication step whose inner steps are used up."""
        s[CUT_SHORT] += 1.0
        if is_implicit(self.method):
            J, f_t = self._slopes(start, h)
            k = linear_solver(np.eye(len(start.x)) - h * J)(start.f + h * f_t)
            move, y = self._arrive(start, end, start.x + h * k)
        else:
            error, y, _ = self._screen(start, h, end)
            move, y = (error, y) if error <= 1.0 else self._arrive(start, end, y)
        finite = move <= _LARGEST and np.all(np.isfinite(y))
        return self._put(start, y if finite else start.x, end, s)

    def _slopes(self, start: Start, h: float) -> tuple[Array, Array]:
        """The derivatives of the rates where a step of length h starts."""
        if self.method.exact:
            return self.evaluator.slopes(put(put(start.m, 0, start.t), self._x, start.x))

        def rates(t: float, x: Array) -> Array:
            return self._rates(start.m, t, x)

        return quotients(rates, start.t, start.x, h, start.f, self.nominal)

    def _stages(self, start: Start, h: float, method: Integrator, k: list[Array]) -> list[Array]:
        for a, c in zip(method.a[1:], method.c[1:], strict=True):
            k.append(self._rates(start.m, start.t + c * h, start.x + h * _sum(a, k)))
        return k

    # what they are judged by

    def _in_tolerances(self, e: Array, x: Array, y: Array) -> float:
        """The largest element of e in tolerances at x and y; infinite when one of e or y is not
        finite.
        """
        sizes = np.abs(e) / (self.atol + self.method.rtol * np.maximum(np.abs(x), np.abs(y)))
        largest = float(np.max(sizes, initial=0.0))
        return largest if largest <= _LARGEST and np.all(np.isfinite(y)) else np.inf

    def _look_for_stiffness(
        self, s: Array, h: float, x: Array, y: Array, apart: Array, change: Array
    ) -> None:
        distance, fast = self._in_tolerances(apart, x, y), self._in_tolerances(change, x, y)
        count_sign(s, h, distance, fast, self._implicit_kind)

    @property
    def _compares(self) -> bool:
        """Whether there are two implicit methods."""
        return self.stages is not None and self.method.stiff is not None

    def _spend(self, s: Array, price: float) -> None:
        """Adds to what is compared."""
        if self.stages is not None and self.method.explicit is not None:
            s[COST] += price

    def _compare(
        self, s: Array, h: float, x: Array, slopes: tuple[Array, Array] | None, spent: float
    ) -> None:
        """Counts what an implicit step that is taken says of the other methods: whether explicit
        ones would do, and what it has cost.
        """
        if self.method.explicit is None:
            return
        if slopes is not None:
            J, dearness = slopes[0], self.method.dearness(len(x))
        else:
            assert self.stages is not None
            assert self.stages.J is not None
            J, dearness = self.stages.J, spent / (self.method.explicit.stages - 1)
        unit = self.atol + self.method.rtol * np.abs(x)
        bound = max(
            (sum(np.abs(row) * unit) / u for row, u in zip(J, unit, strict=True)), default=0.0
        )
        count_calm(s, h, bound, dearness)
        if self._compares and s[IS_STIFF] != EXPLICIT:
            count_cost(s, h, self.prices.window)

    # the memory

    @property
    def _x(self) -> slice:
        return self.evaluator.memory.x

    def _rates(self, m: Array, t: float, x: Array) -> Array:
        return self.evaluator.derivative(put(put(m, 0, t), self._x, x))

    def _arrive(self, start: Start, end: float, y: Array) -> tuple[float, Array]:
        """How far the states y move back to where they belong, in tolerances, and they there."""
        if not self.evaluator.projects:
            return 0.0, y
        back = self.evaluator.project(put(put(start.m, 0, end), self._x, y))
        return self._in_tolerances(back - y, start.x, back), back

    def _put(self, start: Start, y: Array, t: float, s: Array) -> Array:
        return put(put(put(start.m, 0, t), self._x, y), self.evaluator.memory.s, s)


_OF_STIFFNESS = [IS_STIFF, SIGNS, EIGENVALUE, STIFFNESS, RIVAL, IMPLICIT]
_NEAR = 1.0 / 64.0  # of a step: over so much of it the rates of margins are taken
_LARGEST = float(np.finfo(float).max)


def _first_length(h: float, left: float) -> float:
    """The length to try first: what is remembered, and at most `left`, which is halved when there
    are two steps to go.
    """
    if h >= left * (1.0 - 1e-9):
        return left
    return 0.5 * left if h > 0.5 * left else h


def _least(t: float, end: float) -> float:
    """The shortest step that the numbers of these times can tell."""
    return 16.0 * float(np.finfo(float).eps) * max(abs(t), abs(end))


def _is_good(error: float, is_shortest: bool) -> bool:
    """Whether a step with this error is taken: in spite of it where time has no shorter one."""
    return error <= 1.0 or (is_shortest and error <= _LARGEST)


def _shorter(h: float, error: float) -> float:
    """The length to try after a step with this error, infinite where it was not finite."""
    finite = error <= _LARGEST
    factor = 0.9 / np.sqrt(np.sqrt(error)) if finite and error > 0 else 0.2
    return coarse(h * min(max(float(factor), 0.2), 0.5))


def _root(error: float, kind: float) -> float:
    """About the root of the error that the length goes with: of fifth order, of fourth in linearly
    implicit steps, of sixth in those of collocation.
    """
    q = np.sqrt(np.sqrt(error))
    root = np.sqrt(q)
    if kind == ROSENBROCK:
        root = np.sqrt(q) * np.sqrt(np.sqrt(q))
    if kind == COLLOCATION:
        root = np.sqrt(q) * np.sqrt(np.sqrt(np.sqrt(q)))
    return float(root)


def _remember(s: Array, h: float, error: float, shortened: bool, kind: float) -> None:
    """Keeps what a step of a kind that is taken leaves: the length of the next one, by its error
    and the one before.
    """
    now, last = max(error, 1e-8), s[ERROR] if s[ERROR] > 0.0 else 1e-4
    factor = 0.9 / _root(now, kind) * np.sqrt(_root(last, kind))
    factor = min(max(factor, 0.2), 5.0)
    if shortened and factor > 1.0:
        factor = 1.0
    s[ERROR] = coarse(now)
    # a step that the end has cut short does not shorten the next one
    if h >= s[LENGTH] or factor < 1.0 or h * factor > s[LENGTH]:
        s[LENGTH] = coarse(h * factor)


def _sum(weights: tuple[float, ...], k: list[Array]) -> Array:
    total: Array = sum((w * k_i for w, k_i in zip(weights, k, strict=True)), start=np.zeros(1))
    return total
