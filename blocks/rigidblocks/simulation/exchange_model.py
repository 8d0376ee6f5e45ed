"""A model exchange FMU as equations: its continuous states, their rates and event indicators."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.simulation.fmu_interface import Interface


class ExchangeModel:
    """The right-hand side of a model exchange FMU in continuous-time mode.

    Where its inputs are on a course, `set_inputs` sets them to what they are at a time.
    """

    def __init__(self, fmi: Interface):
        self._fmi = fmi
        n, m = self._sizes()
        self._x, self._rates, self._z = np.zeros(n), np.zeros(n), np.zeros(m)
        self.set_inputs: Callable[[float], None] | None = None
        self._to_x, self._to_rates, self._to_z = map(_pointer, (self._x, self._rates, self._z))
        is_2 = fmi.prefix == "fmi2"
        derivatives = "GetDerivatives" if is_2 else "GetContinuousStateDerivatives"
        self._set_time, self._set_states, self._get_rates, self._get_indicators = (
            fmi.caller(name)
            for name in ("SetTime", "SetContinuousStates", derivatives, "GetEventIndicators")
        )

    def _sizes(self) -> tuple[int, int]:
        """The numbers of continuous states and of event indicators."""
        about = self._fmi.fmu.description
        if self._fmi.prefix == "fmi2":
            return int(about.numberOfContinuousStates), int(about.numberOfEventIndicators)
        sizes = []
        for what in ("ContinuousStates", "EventIndicators"):
            size = ctypes.c_size_t()
            self._fmi.call(f"GetNumberOf{what}", ctypes.byref(size))
            sizes.append(int(size.value))
        return sizes[0], sizes[1]

    @property
    def states(self) -> Array:
        """The continuous states."""
        if len(self._x):
            self._fmi.call("GetContinuousStates", self._to_x, len(self._x))
        return self._x.copy()

    @property
    def nominals(self) -> Array:
        """The nominal values of the states."""
        values = np.ones(len(self._x))
        if len(values):
            self._fmi.call("GetNominalsOfContinuousStates", _pointer(values), len(values))
        return np.where(values > 0, values, 1.0)

    def put(self, t: float, x: Array) -> None:
        """Sets time [s] and states."""
        self._fmi.log.clock[0] = t
        self._set_time(t)
        if self.set_inputs is not None:
            self.set_inputs(t)
        if len(x):
            self._x[:] = x
            self._set_states(self._to_x, len(x))

    def rates(self, t: Any, x: Array) -> Array:
        """The rates of the states."""
        self.put(float(t), x)
        if len(x):
            self._get_rates(self._to_rates, len(x))
        return self._rates.copy()

    def indicators(self) -> Array:
        """The event indicators as they are now: an event is where one becomes positive, or is no
        longer positive.
        """
        if len(self._z):
            self._get_indicators(self._to_z, len(self._z))
        return self._z.copy()


def _pointer(values: Array) -> Any:
    return values.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
