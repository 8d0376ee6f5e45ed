"""Communication steps whose length follows from their error, by Richardson: one step against two
halves.
"""

import abc
import logging
from collections.abc import Iterator, Mapping
from math import floor, inf, log2
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.coupling import Coupling
from rigidblocks.simulation.network import Instances
from rigidblocks.simulation.plan import Plan

LOG = logging.getLogger("rigidblocks")

_WHOLE = -3  # the number of the moment that a step goes back to
_MOST_HALVINGS = 16  # of the longest step, where no shortest one is given
_SAFETY = 0.9
_NO_LESS, _ENOUGH = 0.7, 3  # so many halvings that leave so much of the error are in vain


class Scheme(abc.ABC):
    """Takes all parts from t to t + dt."""

    @abc.abstractmethod
    def __call__(self, t: float, dt: float) -> None:
        """Takes the step."""

    def copy(self) -> Any:
        """What it remembers from step to step."""
        return None

    def go_back(self, kept: Any) -> None:
        """Goes back to what it remembered."""
        del kept

    def report(self) -> Mapping[str, object]:
        """What there is to tell of the run."""
        return {}

    def remarks(self) -> Iterator[tuple[int, str]]:
        """What the user is to be told, with its level in the log."""
        yield from ()


class StepChoice(Scheme):
    """Steps of another scheme, of order p, whose error is below a tolerance per second:

        |y_2 - y_1| / (2^p - 1) <= tol h max(nominal, |y|)

    for all outputs that change within a step, y_1 after one step of h and y_2 after two halves,
    which are kept; without the h for outputs that read inputs at once, whose errors do not add up.
    A step is the longest one, which sample times are multiples of, halved as often
    as needed, and starts at a multiple of itself; the time is counted in the shortest. Where
    halving does not make the error less, as where outputs carry one from before, it ends. The
    log says at once where the shortest step is too long, and what would do.
    """

    def __init__(self, plan: Plan, network: Instances, scheme: Scheme):
        coupling = plan.coupling
        assert coupling.step_tol is not None
        self._parts, self._scheme, self._tol = network, scheme, coupling.step_tol
        self._factor, self._p = 2.0**coupling.order - 1.0, coupling.order
        self._advice = _advice(coupling)
        self._spans = spans_between_samples(plan)
        self._dt, longest = plan.dt, plan.dt / self._spans
        most = _MOST_HALVINGS
        if coupling.step_min is not None:
            most = floor(log2(longest / coupling.step_min) + 1e-9)
            if most < 1:
                raise ValueError(
                    f"step_min = {coupling.step_min} s leaves nothing to choose: the longest step "
                    f"is {longest:g} s, and two halves of it are taken"
                )
        self._most = most - 1  # halvings before the one into two
        self._halvings = 0
        self._nominal, self._judged = plan.links.nominal, ~plan.links.held
        self._algebraic = plan.links.algebraic
        self._taken = self._refused = self._above = 0
        self._shortest, self._largest = inf, 0.0

    def __call__(self, t: float, dt: float) -> None:
        span = dt / self._spans
        for k in range(self._spans):
            self._through(t + k * span, span)

    def copy(self) -> Any:
        return self._halvings, self._scheme.copy()

    def go_back(self, kept: Any) -> None:
        self._halvings, inner = kept
        self._scheme.go_back(inner)

    def report(self) -> Mapping[str, object]:
        return {
            "steps": self._taken,
            "refused": self._refused,
            "shortest": self._shortest,
            "above tolerance": self._above,
            "largest error [step_tol]": self._largest,
        }

    def remarks(self) -> Iterator[tuple[int, str]]:
        if self._above:
            yield (
                logging.WARNING,
                f"{self._above} of {self._taken} steps of the coupling were taken with an error "
                f"above step_tol, up to {self._largest:.3g} times it, where shorter ones were not "
                "allowed or would not have helped",
            )

    def _through(self, t: float, span: float) -> None:
        """From t over a span in which nothing is sampled but at its end."""
        done, whole = 0, 1 << self._most
        while done < whole:
            error, ticks = self._step_of(t, span, done)
            self._count(error, t + span * done / whole, span * ticks / whole)
            done += ticks
            self._lengthen(error, done)

    def _count(self, error: float, t: float, h: float) -> None:
        """Counts a step of h from t on, and tells of the first whose error no step may mend."""
        is_told = self._above > 0
        self._taken += 1
        self._above += error > 1.0
        self._shortest = min(self._shortest, h / 2)
        self._largest = max(self._largest, error)
        if error > 1.0 and not is_told and self._halvings == self._most:
            LOG.warning(
                "at t = %g s the shortest steps, of %.3g s, have %.3g times the error that "
                "step_tol = %g allows; the run goes on with them: %s",
                *(t, h / 2, error, self._tol, self._advice),
            )

    def _step_of(self, t: float, span: float, done: int) -> tuple[float, int]:
        """One step, as short as its error asks for; the error, and its length in the shortest."""
        whole, last, in_vain = 1 << self._most, inf, 0
        while True:
            ticks = whole >> self._halvings
            is_last = self._halvings == self._most or in_vain == _ENOUGH
            error = self._tried(t + span * done / whole, span * ticks / whole, is_last)
            if error <= 1.0 or is_last:
                return error, ticks
            self._refused += 1
            self._halvings += 1
            in_vain = in_vain + 1 if error > _NO_LESS * last else 0
            last = error

    def _lengthen(self, error: float, done: int) -> None:
        """Doubles the next step where its error lets it, and it starts at a multiple of itself."""
        doubled = (1 << self._most) >> max(self._halvings - 1, 0)
        if self._halvings and error * 2.0**self._p <= _SAFETY and done % doubled == 0:
            self._halvings -= 1

    def _tried(self, t: float, h: float, is_last: bool) -> float:
        """The error, in tolerances, of the two halves that are taken; where it is above one they
        are taken back, unless it `is_last`.
        """
        self._parts.keep(_WHOLE)
        remembered = self._scheme.copy()
        error = inf
        try:
            self._scheme(t, h)
            one = self._parts.row()
            self._back(remembered)
            self._scheme(t, h / 2)
            self._scheme(t + h / 2, h / 2)
            error = self._error(one, self._parts.row(), h)
        except (ArithmeticError, RuntimeError):  # a step that is too long may fail
            if is_last:
                raise
        if error > 1.0 and not is_last:
            self._back(remembered)
        return error

    def _back(self, remembered: Any) -> None:
        self._parts.go_back(_WHOLE)
        self._scheme.go_back(remembered)

    def _error(self, one: Array, two: Array, h: float) -> float:
        share = np.where(self._algebraic, 1.0, h)
        scale = self._tol * share * np.maximum(self._nominal, np.abs(two))
        errors = (np.abs(two - one) / self._factor / scale)[self._judged]
        largest = float(errors.max(initial=0.0))
        return largest if np.isfinite(largest) else inf


def _advice(coupling: Coupling) -> str:
    """What lets longer steps keep the tolerance."""
    better = "a larger step_tol, or a shorter step_min"
    if coupling.order >= 3:
        return f"take {better}"
    more = "iterate=True" if coupling.extrapolate else "iterate=True with extrapolate=1"
    return f"take {more}, whose error falls with a higher power of the step; or {better}"


def spans_between_samples(plan: Plan) -> int:
    """The number of equal parts of the communication step such that samples fall on their ends
    alone.

    Raises ValueError where sample times below the step are not multiples of the shortest.
    """
    times = {
        name: float(part.component.sample_time)  # type: ignore[attr-defined]
        for name, part in plan.wiring.parts.items()
        if getattr(part.component, "sample_time", None) is not None
    }
    shortest = min(times.values(), default=plan.dt)
    if shortest >= plan.dt:
        return 1
    for name, one in times.items():
        if abs(one / shortest - round(one / shortest)) > 1e-6:
            raise ValueError(
                f"step_tol needs sample times that are multiples of the shortest, {shortest:g} s; "
                f"that of '{name}' is {one:g} s"
            )
    return round(plan.dt / shortest)
