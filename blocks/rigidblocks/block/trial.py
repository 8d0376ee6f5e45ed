"""An inner step while it is tried, by the methods of an `Adaptive` one: its error in tolerances.

c/kernel/trial.h and c/kernel/methods.h do the same, by the same arithmetic in the same order.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import (
    COLLOCATION,
    COST,
    EXPLICIT,
    IS_STIFF,
    ROSENBROCK,
    Adaptive,
    nominal_values,
)
from rigidblocks.block.choice import Prices
from rigidblocks.block.collocation import Begin, Stages, close
from rigidblocks.block.evaluate import Evaluator
from rigidblocks.block.implicit import implicit_stages
from rigidblocks.block.integrators import RK4, Integrator
from rigidblocks.block.memory import put
from rigidblocks.block.stiffness import count_sign, quotients, state_quotients

_SCREEN = (1 / 6, -1 / 6, -1 / 6, 1 / 6)  # RK4 less a method of order 2
LARGEST = float(np.finfo(float).max)


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


class Trials:
    """Steps of the methods on a block's memory, and what they are judged by."""

    def __init__(self, evaluator: Evaluator, method: Adaptive):
        self.evaluator, self.method = evaluator, method
        states = evaluator.memory.block.states
        self.atol, self.nominal = method.absolute(states), nominal_values(states)
        self.prices, self.stages = Prices.of(len(self.atol)), None
        if method.collocation is not None and method.collocates(len(self.atol)):
            bounds = self.in_tolerances, close(method.rtol)
            self.stages = Stages(method.collocation, *bounds, self.prices)

    @property
    def implicit_kind(self) -> float:
        """The implicit method that begins; 0 without one."""
        if self.stages is not None:
            return COLLOCATION
        return ROSENBROCK if self.method.stiff is not None else EXPLICIT

    def attempt(
        self, start: Start, h: float, end: float, s: Array, slopes: tuple[Array, Array] | None
    ) -> Trial:
        """A step of the explicit pair, or with slopes of the implicit one."""
        if s[IS_STIFF] == COLLOCATION:
            assert self.stages is not None
            return self._collocated(self.stages, start, h, end, s)
        if slopes is None:
            return self._pair(start, h, end, s)
        self.spend(s, self.prices.rosenbrock)
        return self._implicit(start, h, end, slopes)

    def screen(self, start: Start, h: float, end: float) -> Trial:
        """The classical step of order 4, with its change against one of order 2 as its error."""
        k = self._stages(start, h, RK4, [start.f])
        y = start.x + h * _sum(RK4.b, k)
        error = self.in_tolerances(h * _sum(_SCREEN, k), start.x, y)
        if not error <= 1.0:
            return Trial(error, y)
        move, y = self.arrive(start, end, y)
        return Trial(max(error, move), y)

    def _pair(self, start: Start, h: float, end: float, s: Array) -> Trial:
        """A step of the explicit pair, whose last stage is at the end."""
        pair = self.method.explicit
        assert pair is not None
        assert pair.error is not None
        inner = replace(pair, a=pair.a[:-1], b=pair.b[:-1], c=pair.c[:-1])
        k = self._stages(start, h, inner, [start.f])
        before = start.x + h * _sum(pair.a[-2], k[:-1])
        move, y = self.arrive(start, end, start.x + h * _sum(pair.a[-1], k))
        if not move <= 1.0:
            return Trial(move, y)
        k.append(self.rates(start.m, end, y))
        error = max(move, self.in_tolerances(h * _sum(pair.error, k), start.x, y))
        if error <= 1.0:
            self._look_for_stiffness(s, h, start.x, y, y - before, k[-1] - k[-2])
        return Trial(error, y, k[-1])

    def _implicit(self, start: Start, h: float, end: float, slopes: tuple[Array, Array]) -> Trial:
        """A step of the linearly implicit pair, whose last stage is its error."""
        pair = self.method.stiff
        assert pair is not None

        def rates(t: float, x: Array) -> Array:
            return self.rates(start.m, t, x)

        k = implicit_stages(pair, rates, slopes, start.t, start.x, h, start.f)
        y = start.x + h * _sum(pair.b, k)
        error = self.in_tolerances(h * k[-1], start.x, y)
        if not error <= 1.0:
            return Trial(error, y)
        move, y = self.arrive(start, end, y)
        return Trial(max(error, move), y)

    def _collocated(self, stages: Stages, start: Start, h: float, end: float, s: Array) -> Trial:
        """A step of the collocation method."""

        def rates(t: float, x: Array) -> Array:
            return self.rates(start.m, t, x)

        def slopes(t: float, x: Array) -> Array:
            if self.method.exact:
                return self.slopes(Start(start.m, t, x, start.f), h)[0]
            return state_quotients(rates, t, x, rates(t, x), self.nominal)

        stages.spent = 0.0
        error, y = stages.attempt(Begin(start.t, h, start.x, start.f), rates, slopes)
        self.spend(s, stages.spent)
        if not error <= 1.0:
            return Trial(error, y)
        move, y = self.arrive(start, end, y)
        return Trial(max(error, move), y)

    def slopes(self, start: Start, h: float) -> tuple[Array, Array]:
        """The derivatives of the rates where a step of length h starts."""
        if self.method.exact:
            return self.evaluator.slopes(put(put(start.m, 0, start.t), self.x, start.x))

        def rates(t: float, x: Array) -> Array:
            return self.rates(start.m, t, x)

        return quotients(rates, start.t, start.x, h, start.f, self.nominal)

    def _stages(self, start: Start, h: float, method: Integrator, k: list[Array]) -> list[Array]:
        for a, c in zip(method.a[1:], method.c[1:], strict=True):
            k.append(self.rates(start.m, start.t + c * h, start.x + h * _sum(a, k)))
        return k

    # what they are judged by

    def in_tolerances(self, e: Array, x: Array, y: Array) -> float:
        """The largest element of e in tolerances at x and y; infinite when one of e or y is not
        finite.
        """
        sizes = np.abs(e) / (self.atol + self.method.rtol * np.maximum(np.abs(x), np.abs(y)))
        largest = float(np.max(sizes, initial=0.0))
        return largest if largest <= LARGEST and np.all(np.isfinite(y)) else np.inf

    def _look_for_stiffness(
        self, s: Array, h: float, x: Array, y: Array, apart: Array, change: Array
    ) -> None:
        distance, fast = self.in_tolerances(apart, x, y), self.in_tolerances(change, x, y)
        count_sign(s, h, distance, fast, self.implicit_kind)

    def spend(self, s: Array, price: float) -> None:
        """Adds to what is compared."""
        if self.stages is not None and self.method.explicit is not None:
            s[COST] += price

    # the memory

    @property
    def x(self) -> slice:
        """Where the continuous states are."""
        return self.evaluator.memory.x

    def rates(self, m: Array, t: float, x: Array) -> Array:
        """The rates of the states x at t."""
        return self.evaluator.derivative(put(put(m, 0, t), self.x, x))

    def arrive(self, start: Start, end: float, y: Array) -> tuple[float, Array]:
        """How far the states y move back to where they belong, in tolerances, and they there."""
        if not self.evaluator.projects:
            return 0.0, y
        back = self.evaluator.project(put(put(start.m, 0, end), self.x, y))
        return self.in_tolerances(back - y, start.x, back), back


def _sum(weights: tuple[float, ...], k: list[Array]) -> Array:
    total: Array = sum((w * k_i for w, k_i in zip(weights, k, strict=True)), start=np.zeros(1))
    return total
