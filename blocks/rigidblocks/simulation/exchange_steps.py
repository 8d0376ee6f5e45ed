"""Inner steps on the equations of an FMU, up to the first event by its indicators."""

from functools import cache
from math import inf, isfinite
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import ADAPTIVE, METHODS, Adaptive, Method, is_implicit
from rigidblocks.block.dense import HALVINGS, Interpolant
from rigidblocks.block.integrators import SEMI_IMPLICIT_EULER, Integrator
from rigidblocks.block.step import inner_steps
from rigidblocks.simulation.exchange_model import ExchangeModel


class Reached(NamedTuple):
    """Where an inner step has ended: time [s], states, and whether an event is there."""

    t: float
    x: Array
    event: bool


def check_method(method: Method | None) -> Method:
    """The method by which an FMU's equations are integrated; adaptive where none is given.

    Raises ValueError for one that needs more of them than an FMU shows.
    """
    method = ADAPTIVE if method is None else method
    explicit = method.explicit if isinstance(method, Adaptive) else method
    fits = explicit is not None and explicit.implicit is None and method != SEMI_IMPLICIT_EULER
    if fits and not (isinstance(method, Adaptive) and is_implicit(method)):
        if isinstance(method, Adaptive) and method.max_inner_steps is not None:
            raise ValueError("max_inner_steps is for blocks; the equations of an FMU take h")
        return method
    names = [name for name, one in METHODS.items() if one != method and _fits(one)]
    raise ValueError(
        f"the equations of an FMU are integrated by explicit methods: {', '.join(names)}; "
        f"'{method.name}' needs an exact Jacobian, or to know which states are positions"
    )


def _fits(method: Method) -> bool:
    if isinstance(method, Adaptive):
        return not is_implicit(method)
    return method.implicit is None and method != SEMI_IMPLICIT_EULER


class ExchangeSteps:
    """The inner steps between two events, by steps of fixed length `longest` or by a pair that
    chooses them.
    """

    def __init__(self, model: ExchangeModel, method: Method, longest: float):
        self._model, self._method, self._longest = model, method, longest
        self.nominals = np.ones(0)
        self.length = 0.0  # of the next inner step; 0 before the first

    def step(self, t: float, x: Array, end: float, z: Array) -> Reached:
        """One inner step from t on the way to `end`, or to the first event in it; z are the event
        indicators at t.

        Raises ArithmeticError where no step is short enough for the tolerance.
        """
        course, y, arrival = self._taken(t, x, end)
        h = course.h if course is not None else end - t
        self._model.put(arrival, y)
        if not _crossed(z, self._model.indicators()):
            return Reached(arrival, y, False)
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            self._put(course, t, x, h, middle, arrival)
            low, high = (low, middle) if _crossed(z, self._model.indicators()) else (middle, high)
            if high - low <= _CLOSE * max(abs(arrival), h) / h:
                break
        return Reached(*self._put(course, t, x, h, high, arrival), True)

    def _put(
        self, course: Interpolant | None, t: float, x: Array, h: float, part: float, end: float
    ) -> tuple[float, Array]:
        """Sets time and states inside a step."""
        there, y = t + part * h if part < 1.0 else end, x if course is None else course(part)
        self._model.put(there, y)
        return there, y

    def _taken(self, t: float, x: Array, end: float) -> tuple[Interpolant | None, Array, float]:
        """An inner step, None without states; the states at its end, and when that is."""
        if not len(x):
            return None, x, end
        method = self._method
        if isinstance(method, Integrator):
            n = inner_steps(end - t, self._longest)
            h = (end - t) / n
            return *self._course(method, t, x, h), end if n == 1 else t + h
        assert method.explicit is not None
        return self._adaptive(method, method.explicit, t, x, end)

    def _adaptive(
        self, method: Adaptive, pair: Integrator, t: float, x: Array, end: float
    ) -> tuple[Interpolant, Array, float]:
        assert pair.error is not None
        left = end - t
        h = min(self.length or left, self._longest, left)
        shortened = False
        while True:
            h = left if h > (1 - 1e-9) * left else h
            course, y = self._course(pair, t, x, h)
            error = self._in_tolerances(method, h * (np.array(pair.error) @ course.k), x, y)
            factor = 0.9 * max(error, 1e-10) ** -0.2
            if error <= 1.0:
                longer = h * min(max(factor, 0.2), 1.0 if shortened else 5.0)
                self.length = max(self.length, longer) if h == left and factor > 1 else longer
                return course, y, end if h == left else t + h
            h, shortened = h * min(max(factor, 0.2), 0.5), True
            if h < 16 * np.finfo(float).eps * max(abs(t), abs(end)):
                raise ArithmeticError(
                    f"its equations cannot be integrated to rtol = {method.rtol:g} at t = {t:g} s: "
                    "no step is short enough"
                )

    def _in_tolerances(self, method: Adaptive, error: Array, x: Array, y: Array) -> float:
        """The largest error of a state in a step from x to y; infinite where one is not finite."""
        atol = method.rtol * self.nominals if method.atol is None else method.atol
        unit = atol + method.rtol * np.maximum(np.abs(x), np.abs(y))
        largest = float((np.abs(error) / unit).max())
        return largest if isfinite(largest) else inf

    def _course(
        self, method: Integrator, t: float, x: Array, h: float
    ) -> tuple[Interpolant, Array]:
        """The step of an explicit method, as `integrate` takes it, with the states at its end."""
        rows, b = _weights(method)
        k = np.empty((method.stages, len(x)))
        for i, (row, c) in enumerate(zip(rows, method.c, strict=True)):
            k[i] = self._model.rates(t + c * h, x + h * (row @ k[:i]))
        return Interpolant(method, h, x, list(k), _NO), x + h * (b @ k)


@cache
def _weights(method: Integrator) -> tuple[list[Array], Array]:
    return [np.array(row) for row in method.a], np.array(method.b)


_NO = np.zeros((), dtype=bool)  # of the states are marked as positions
_CLOSE = 4 * float(np.finfo(float).eps)  # of the time: an event is located no closer


def _crossed(before: Array, after: Array) -> bool:
    return bool(((before > 0) != (after > 0)).any())
