"""State equations of model exchange FMUs, and inner steps in Python."""

import ctypes
from collections.abc import Callable
from functools import cache
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.adaptive_methods import Adaptive, Method
from rigidblocks.block.dense_output import HALVINGS, Interpolant
from rigidblocks.block.integrators import Integrator
from rigidblocks.block.stepper import inner_steps
from rigidblocks.cosim.fmu_import.fmu_interface import Interface
from rigidblocks.cosim.graph.fmu_part import FmuError
from rigidblocks.cosim.masters.c_loop_tables import GET_INDICATORS, GET_RATES, GET_STATES
from rigidblocks.spatial.spatial import Array


def minimum_step_error(method: Method, t: float) -> ArithmeticError:
    """Return the exception for an error above the tolerance at the minimum step size."""
    assert isinstance(method, Adaptive)
    return ArithmeticError(
        f"cannot integrate its equations to rtol = {method.rtol:g} at t = {t:g} s: the error "
        "exceeds the tolerance even with the shortest step"
    )


def variable_size(variable: Any) -> int:
    """Return the declared number of elements of a variable."""
    return int(np.prod(variable.shape)) if variable.shape else 1


class ExchangeModel:
    """State equations of a model exchange FMU in continuous-time mode.

    `set_inputs(t)` sets the inputs at the time t [s] from input polynomials; None if the inputs are
    constant during a communication step. `bad_rate` is the index of a derivative that was not
    finite in the last evaluation, or None.
    """

    def __init__(self, fmi: Interface):
        self._fmi = fmi
        n, m = self._sizes()
        self._x, self._rates, self._z = np.zeros(n), np.zeros(n), np.zeros(m)
        self.set_inputs: Callable[[float], None] | None = None
        self.bad_rate: int | None = None
        self._to_x, self._to_rates, self._to_z = map(_pointer, (self._x, self._rates, self._z))
        self._set_time, self._set_states, self._get_rates, self._get_indicators = (
            fmi.caller(name) for name in self.functions[:4]
        )

    @property
    def functions(self) -> tuple[str, ...]:
        """FMI function names without prefix, in the order of `Exchange.functions`."""
        is_3 = self._fmi.fmu.version == 3
        return (
            "SetTime",
            "SetContinuousStates",
            "GetContinuousStateDerivatives" if is_3 else "GetDerivatives",
            "GetEventIndicators",
            "GetContinuousStates",
            "GetNominalsOfContinuousStates",
            "CompletedIntegratorStep",
            "GetDirectionalDerivative",
        )

    @property
    def size(self) -> tuple[int, int]:
        """Number of continuous states and number of event indicators."""
        return len(self._x), len(self._z)

    def _sizes(self) -> tuple[int, int]:
        """Return the number of continuous states and the number of event indicators."""
        about = self._fmi.fmu.description
        if self._fmi.fmu.version < 3:
            return int(about.numberOfContinuousStates), int(about.numberOfEventIndicators)
        sizes = []
        for what in ("ContinuousStates", "EventIndicators"):
            size = ctypes.c_size_t()
            self._fmi.call(f"GetNumberOf{what}", ctypes.byref(size))
            sizes.append(int(size.value))
        return sizes[0], sizes[1]

    @property
    def states(self) -> Array:
        """Continuous states of the FMU."""
        if len(self._x):
            self._fmi.call("GetContinuousStates", self._to_x, len(self._x))
        if not np.isfinite(self._x).all():
            k = int(np.flatnonzero(~np.isfinite(self._x))[0])
            raise self.bad_value(GET_STATES, k, float(self._x[k]))
        return self._x.copy()

    @property
    def nominals(self) -> Array:
        """Nominal values of the continuous states."""
        values = np.ones(len(self._x))
        if len(values):
            self._fmi.call("GetNominalsOfContinuousStates", _pointer(values), len(values))
        return np.where(values > 0, values, 1.0)

    def set_state(self, t: float, x: Array) -> None:
        """Set the time t [s] and the continuous states x."""
        self._fmi.log.clock[0] = t
        self._set_time(t)
        if self.set_inputs is not None:
            self.set_inputs(t)
        if len(x):
            self._x[:] = x
            self._set_states(self._to_x, len(x))

    def rates(self, t: Any, x: Array) -> Array:
        """Return the derivatives of the continuous states x at the time t [s]."""
        self.set_state(float(t), x)
        if len(x):
            self._get_rates(self._to_rates, len(x))
        bad = np.flatnonzero(~np.isfinite(self._rates))
        self.bad_rate = int(bad[0]) if len(bad) else None
        return self._rates.copy()

    def check_rates(self, t: float) -> None:
        """Raise FmuError at the time t [s] if a derivative of the last evaluation is not finite."""
        if self.bad_rate is not None:
            self._fmi.log.clock[0] = t
            raise self.bad_value(GET_RATES, self.bad_rate, float(self._rates[self.bad_rate]))

    def indicators(self) -> Array:
        """Return the current event indicators.

        An event occurs when an event indicator becomes positive or ceases to be positive.
        """
        if len(self._z):
            self._get_indicators(self._to_z, len(self._z))
        if np.isnan(self._z).any():
            k = int(np.flatnonzero(np.isnan(self._z))[0])
            raise self.bad_value(GET_INDICATORS, k, float(self._z[k]))
        return self._z.copy()

    def bad_value(self, call: int, k: int, value: float) -> FmuError:
        """Return the error for value `k` of a call, which is not finite.

        `call` is the code of the call in the C loop: `GET_RATES`, `GET_STATES` or `GET_INDICATORS`.
        The message contains the name of the variable if the model description lists it.
        """
        about = self._fmi.fmu.description
        noun, listed, count = {
            GET_RATES: ("derivative", "derivatives", len(self._x)),
            GET_STATES: ("continuous state", "derivatives", len(self._x)),
            GET_INDICATORS: ("event indicator", "eventIndicators", len(self._z)),
        }[call]
        unknowns = getattr(about, listed) if self._fmi.fmu.version > 1 else ()
        variables = [one.variable for one in unknowns]
        if call == GET_STATES:
            variables = [one.derivative for one in variables if one.derivative is not None]
        names = [name for one in variables for name in _element_names(one)]
        name = repr(names[k]) if len(names) == count else f"{k + 1} of {count}"
        return self._fmi.fmu_error(f"its {noun} {name} is {value:g}")


def _element_names(variable: Any) -> list[str]:
    """Return the names of the elements of a variable, such as `x` or `x[1]` and `x[2]`."""
    n = variable_size(variable)
    return [variable.name] if n == 1 else [f"{variable.name}[{k}]" for k in range(1, n + 1)]


def _pointer(values: Array) -> Any:
    return values.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


class StepEnding(NamedTuple):
    """Time [s] and states at the end of an inner step, and a flag for an event at this time."""

    t: float
    x: Array
    event: bool


@cache
def _weights(method: Integrator) -> tuple[list[Array], Array]:
    return [np.array(row) for row in method.a], np.array(method.b)


_NO_POSITIONS = np.zeros(
    (), dtype=bool
)  # position mask: no state of an FMU is treated as a position
_CLOSE = 4 * float(np.finfo(float).eps)  # tolerance of the event time, relative to the time


def _has_sign_change(z_before: Array, z_after: Array) -> bool:
    return bool(((z_before > 0) != (z_after > 0)).any())


class ExchangeSteps:
    """Inner steps between two events, with a fixed step size or with step size control.

    The Python integrator takes only explicit steps, and ends an inner step at each communication
    point; the C integrator has neither limitation. Times are relative to `origin` [s], which
    reduces rounding errors of large times. `longest` is the maximum size of an inner step [s]. The
    array `next_step` (1,) contains the size of the next inner step [s], or 0 if it is unknown.
    """

    def __init__(
        self,
        model: ExchangeModel,
        method: Method,
        longest: float,
        nominals: Array,
        next_step: Array,
    ):
        self._model, self._method, self._longest = model, method, longest
        self.origin, self._nominals, self._next = 0.0, nominals, next_step

    def step(self, t: float, x: Array, end: float, z: Array) -> StepEnding:
        """Take one inner step from t towards `end`, or to the first event within the step.

        z contains the event indicators at t. Raises ArithmeticError if the error exceeds the
        tolerance even at the minimum step size.
        """
        course, y, arrival = self._inner_step(t, x, end)
        h = course.h if course is not None else end - t
        self._model.set_state(self.origin + arrival, y)
        if not _has_sign_change(z, self._model.indicators()):
            return StepEnding(arrival, y, False)
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            self._set_state_at(course, t, x, h, middle, arrival)
            low, high = (
                (low, middle) if _has_sign_change(z, self._model.indicators()) else (middle, high)
            )
            if high - low <= _CLOSE * max(abs(self.origin + arrival), h) / h:
                break
        return StepEnding(*self._set_state_at(course, t, x, h, high, arrival), True)

    def _set_state_at(
        self,
        interpolant: Interpolant | None,
        t: float,
        x: Array,
        h: float,
        fraction: float,
        end: float,
    ) -> tuple[float, Array]:
        """Set the FMU to a time within an inner step; return this time [s] and the states.

        The time is t + fraction * h, where t [s] is the start and h [s] the size of the inner step.
        If `fraction` is 1, the time is exactly `end` [s]. `interpolant` evaluates the states at
        `fraction`. If `interpolant` is None, the states are x.
        """
        time = t + fraction * h if fraction < 1.0 else end
        y = x if interpolant is None else interpolant(fraction)
        self._model.set_state(self.origin + time, y)
        return time, y

    def _inner_step(
        self, t: float, x: Array, end: float
    ) -> tuple[Interpolant | None, Array, float]:
        """Take an inner step; return its interpolant, the final states and the end time.

        The interpolant is None for an FMU without continuous states.
        """
        if not len(x):
            return None, x, end
        method = self._method
        if isinstance(method, Integrator):
            n = inner_steps(end - t, self._longest)
            h = (end - t) / n
            course, y = self._explicit_step(method, t, x, h)
            return course, y, end if n == 1 else t + h
        assert method.explicit is not None
        return self._adaptive(method, method.explicit, t, x, end)

    @np.errstate(over="ignore", invalid="ignore")  # a step with infinite stages is rejected
    def _adaptive(
        self, method: Adaptive, pair: Integrator, t: float, x: Array, end: float
    ) -> tuple[Interpolant, Array, float]:
        assert pair.error is not None
        left = end - t
        h = min(float(self._next[0]) or left, self._longest, left)
        shortened = False
        while True:
            h = left if h > (1 - 1e-9) * left else h
            course, y = self._explicit_step(pair, t, x, h)
            error = self._error_norm(method, h * (np.array(pair.error) @ course.k), x, y)
            factor = 0.9 * max(error, 1e-10) ** -0.2
            if error <= 1.0:
                longer = h * min(max(factor, 0.2), 1.0 if shortened else 5.0)
                keeps = h == left and factor > 1
                self._next[0] = max(float(self._next[0]), longer) if keeps else longer
                return course, y, end if h == left else t + h
            h, shortened = h * min(max(factor, 0.2), 0.5), True
            if h < 16 * np.finfo(float).eps * max(abs(self.origin + t), abs(self.origin + end)):
                self._model.check_rates(self.origin + t)
                raise minimum_step_error(method, self.origin + t)

    def _error_norm(self, method: Adaptive, error: Array, x: Array, y: Array) -> float:
        """Return the maximum norm of a step error, relative to the tolerance.

        x and y are the states before and after the step.
        """
        atol = method.rtol * self._nominals if method.atol is None else method.atol
        unit = atol + method.rtol * np.maximum(np.abs(x), np.abs(y))
        largest = float((np.abs(error) / unit).max())
        return largest if isfinite(largest) else inf

    def _explicit_step(
        self, method: Integrator, t: float, x: Array, h: float
    ) -> tuple[Interpolant, Array]:
        """Take a step of an explicit method; return its interpolant and the states at its end."""
        rows, b = _weights(method)
        k = np.empty((method.stages, len(x)))
        for i, (row, c) in enumerate(zip(rows, method.c, strict=True)):
            k[i] = self._model.rates(self.origin + t + c * h, x + h * (row @ k[:i]))
            if method is self._method:  # a step that cannot become shorter
                self._model.check_rates(self.origin + t + c * h)
        return Interpolant(method, h, x, list(k), _NO_POSITIONS), x + h * (b @ k)
