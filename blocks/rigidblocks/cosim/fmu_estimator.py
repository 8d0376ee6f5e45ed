"""Unscented Kalman filter with a co-simulation FMU as its model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from rigidblocks.block.block import Port, finite
from rigidblocks.block.port import REAL
from rigidblocks.common.name_hints import suggestion
from rigidblocks.cosim.fmu_import.fmu_instance import RunningFmu
from rigidblocks.cosim.fmu_import.fmu_values import PortValues
from rigidblocks.cosim.fmu_import.model_exchange import running_fmu
from rigidblocks.cosim.graph.fmu_file import CO_SIMULATION
from rigidblocks.cosim.graph.fmu_part import Fmu, FmuError
from rigidblocks.cosim.graph.system import System
from rigidblocks.library.estimators import (
    check_declaration,
    check_sample_time,
    correct_distribution,
    deviations,
    names_of,
    symmetric,
)
from rigidblocks.library.unscented_filter import (
    check_sigma_point_options,
    sigma_points,
    unscented_moments,
)
from rigidblocks.spatial.spatial import Array

_BASE = 0  # key of the saved FMU state at the current time


@dataclass(eq=False)
class FmuKalmanFilter:
    """Unscented Kalman filter with a co-simulation FMU as its model.

        X_0 = x
        X_i = x +- alpha sqrt(n + kappa) L_i
        P + Q T = L L^T

    x (n,) are the estimates, and P (n, n) is their covariance. Q is the covariance of the process
    noise in one second, T the sample time, and L_i the column i of L. `step` restores the saved
    state of the FMU for each of the 2 n + 1 sigma points X_i, sets the estimated variables, and
    steps the FMU. Mean and covariance of the results predict the states and the measured outputs.
    All other variables of the FMU, such as discrete states, keep the values after the step from the
    central point X_0. Process noise acts at the beginning of each sample.

    The filter runs in Python. The FMU must be able to save its state, and to accept new values of
    the estimated variables between steps. Call `close` at the end, or use the filter in a `with`
    statement.

    Args:
        path: Path of the FMI 2.0 or 3.0 FMU.
        measured: Names of the measured outputs or local variables.
        measurement_noise: Standard deviation of each measured output by name.
        sample_time: Sample time T [s], which is the communication step of the FMU.
        process_noise: Standard deviation of the process noise in one second, by name of the state
            or parameter.
        deviation: Standard deviation of the initial states and parameters by name, 0 by default.
        parameters_to_estimate: Names of the FMU parameters to estimate as additional states.
        gate: Largest accepted innovation, divided by its standard deviation. None accepts all
            measurements.
        states: Names of the FMU variables to estimate as states. The default is the variables whose
            derivatives the model description declares.
        start: Start values of inputs, states and parameters by name.
        t_start: Time of the initial states [s].
        alpha: Scale factor of the distance of the sigma points from the mean.
        beta: Additional weight of the central point X_0 in the covariance.
        kappa: Offset of n in the distance of the sigma points, larger than -n.

    Attributes:
        time: Time of the estimates [s].
        covariance: Covariance (n, n) of the states, and then the parameters.
        innovation: Innovations (m,) of the last measurements, divided by their standard deviations.

    Raises:
        FmuError: The FMU cannot be used, cannot save its state, or declares no states.
        KeyError: A name is unknown.
        TypeError: An argument has the wrong type.
        ValueError: An argument is invalid, or a measured output has no noise.

    References:
        Julier, Uhlmann, Unscented filtering and nonlinear estimation, Proc. IEEE 92(3), 2004.
    """

    path: str | Path
    measured: tuple[str, ...]
    measurement_noise: Mapping[str, Any]
    sample_time: float
    process_noise: Mapping[str, Any] = field(default_factory=dict)
    deviation: Mapping[str, Any] = field(default_factory=dict)
    parameters_to_estimate: tuple[str, ...] = ()
    gate: float | None = None
    states: tuple[str, ...] | None = None
    start: Mapping[str, Any] = field(default_factory=dict)
    t_start: float = 0.0
    alpha: float = 1.0
    beta: float = 2.0
    kappa: float = 0.0

    def __post_init__(self) -> None:
        self.measured = names_of("measured", self.measured)
        self.parameters_to_estimate = names_of(
            "parameters_to_estimate", self.parameters_to_estimate
        )
        self.delays: dict[str, int] = {}
        if not isinstance(self.path, str | Path):
            raise TypeError(
                f"the path of an FMU estimator must be the path of an FMU file, not a "
                f"{type(self.path).__name__}; for a block use UnscentedKalmanFilter(block, ...)"
            )
        system = System()
        system.add("plant", self.path, start=self.start, kind=CO_SIMULATION)
        part = system.parts["plant"]
        if not isinstance(part.component, Fmu):
            raise FmuError(f"'{self.path}' is not an FMU file")
        self._fmu = part.component
        if not part.can_restore_state:
            raise FmuError(
                f"the FMU '{self.path}' cannot be the plant of an unscented Kalman filter: it "
                "cannot save its state (canGetAndSetFMUstate is false in its model description)"
            )
        check_sample_time(f"'{self.path}'", self.sample_time)
        parameters = self._fmu.parameters
        check_declaration(self, f"'{self.path}'", self._ports, self._variables, parameters)
        for name in (*self.measured, *(port.name for port in self._ports)):
            if self._known[name].type not in REAL:
                raise FmuError(
                    f"the estimator of '{self.path}' cannot use '{name}', a variable of type "
                    f"{self._known[name].type}; expected a real variable"
                )
        n = sum(port.size for port in self._ports)
        check_sigma_point_options(self.alpha, self.beta, self.kappa, n)
        self._weight = 0.5 / (self.alpha**2 * (n + self.kappa))
        self.time = float(self.t_start)
        self._step = 0
        self._unchecked = {port.name for port in self._ports}
        sigma = np.concatenate([deviations(self, "deviation", port) for port in self._ports])
        self.covariance = np.diag(sigma**2)
        self.innovation = np.zeros(sum(self._known[name].size for name in self.measured))
        self._instance: RunningFmu | None = running_fmu(part)
        try:
            self._begin(self._instance)
        except BaseException:
            self.close()
            raise

    def _begin(self, fmu: RunningFmu) -> None:
        """Initialize the FMU, and read the start values of the estimates."""
        fmu.set_stop_time(inf)
        fmu.initialize(self.time)
        fmu.begin()
        self._values = PortValues(fmu.fmi, self._ports)
        self._outputs = PortValues(fmu.fmi, tuple(self._known[name] for name in self.measured))
        self._values.get()
        self._x = self._values.flat.copy()
        fmu.save_state(_BASE)

    @cached_property
    def _variables(self) -> tuple[Port, ...]:
        return (*self._fmu.outputs, *self._fmu.local_variables)

    @cached_property
    def _known(self) -> dict[str, Port]:
        return {port.name: port for port in (*self._fmu.parameters, *self._variables)}

    @cached_property
    def _ports(self) -> tuple[Port, ...]:
        """Ports of the estimated states and parameters."""
        names = self._fmu.continuous_states if self.states is None else self.states
        names = names_of("states", names)
        choices = [port.name for port in self._variables]
        for name in names:
            if name not in choices:
                raise KeyError(
                    f"unknown name '{name}' in states of the estimator of '{self.path}'; "
                    f"{suggestion(name, choices)}"
                )
        if not names:
            raise FmuError(
                f"the FMU '{self.path}' declares no derivatives of states; select its states by "
                f"`states`; {suggestion('', choices)}"
            )
        chosen = (name for name in self.parameters_to_estimate if name in self._known)
        return tuple(self._known[name] for name in (*names, *chosen))

    @property
    def estimate(self) -> dict[str, Array]:
        """Estimates of the states and parameters by name."""
        where = self._values.where
        return {p.name: self._x[where[p.name]].reshape(p.shape).copy() for p in self._ports}

    def step(
        self, measurements: Mapping[str, Any], inputs: Mapping[str, Any] | None = None
    ) -> dict[str, Array]:
        """Predict the states one sample time ahead, and correct them by measurements.

        Args:
            measurements: Measurements at the end of the step, by output name. Outputs that are not
                listed or have the value NaN count as not measured.
            inputs: Inputs that the FMU holds during the step, by name. Other inputs keep their
                values.

        Returns:
            Estimates at the end of the step, by name.

        Raises:
            KeyError: A name is unknown.
            ValueError: A value has the wrong shape, or a result of the FMU is not finite.
            FmuError: The FMU rejects a value or a step, or ignores the value of a state.
        """
        if self._instance is None:
            raise ValueError(f"the estimator of '{self.path}' is closed")
        fmu = self._instance
        measured = self._vector("measurements", measurements, self._outputs, self.measured)
        held = {
            name: self._port_value("inputs", name, value, [p.name for p in self._fmu.inputs])
            for name, value in (inputs or {}).items()
        }
        T = self.sample_time
        noise = [deviations(self, "process_noise", port) ** 2 for port in self._ports]
        P = self.covariance + np.diag(np.concatenate(noise) * T)
        points = sigma_points(self._x, symmetric(P), self._weight)
        ends = [np.zeros(0)] * len(points)
        try:
            for k in (*range(1, len(points)), 0):  # the state of the centre continues
                ends[k] = self._end_of_step(fmu, points[k], held)
        except BaseException:
            fmu.restore_state(_BASE)
            raise
        fmu.save_state(_BASE)
        self._step += 1
        self.time = self.t_start + self._step * T
        self._correct(np.array(ends), measured)
        return self.estimate

    def _end_of_step(self, fmu: RunningFmu, point: Array, held: Mapping[str, Array]) -> Array:
        """Step the FMU from a sigma point with held inputs; return the final states and outputs."""
        fmu.restore_state(_BASE)
        for name, value in held.items():
            fmu.input(name)[:] = value
        if self._unchecked:
            self._values.get()
        values_before = self._values.flat.copy()
        self._values.flat[:] = point
        try:
            self._values.set()
        except FmuError as error:
            names = ", ".join(port.name for port in self._ports)
            raise FmuError(
                f"the FMU '{self.path}' does not accept new values of {names} between steps: "
                f"{error}"
            ) from error
        if self._unchecked:
            self._check_values(values_before, point)
        fmu.step(self.time, self.sample_time)
        self._values.get()
        self._outputs.get()
        end = np.concatenate([self._values.flat, self._outputs.flat])
        if not np.all(np.isfinite(end)):
            raise ValueError(
                f"a state or output of '{self.path}' is not finite after the step of a sigma point "
                f"from t = {self.time:g} s; reduce the deviations or alpha"
            )
        return end

    def _check_values(self, values_before: Array, point: Array) -> None:
        """Raise FmuError if the FMU does not store the values of the estimated variables.

        `point` contains the values that the importer has set, and `values_before` the previous
        values. Each variable is checked once, at the first sigma point that changes its value.
        """
        self._values.get()
        for name in sorted(self._unchecked):
            place = self._values.where[name]
            if not np.allclose(self._values.flat[place], point[place], rtol=1e-6, atol=1e-12):
                raise FmuError(
                    f"the FMU '{self.path}' ignores the value of '{name}' between steps; "
                    "estimate only variables that can be set between steps"
                )
            if not np.allclose(values_before[place], point[place], rtol=1e-6, atol=1e-12):
                self._unchecked.discard(name)

    def _correct(self, ends: Array, measured: Array) -> None:
        """Correct the predicted mean and covariance of the states by the measurements.

        `ends` contains the final states and outputs of the sigma points, one row for each point.
        `measured` contains the measurements, with NaN for outputs that are not measured.
        """
        n = len(self._x)
        mean, joint = unscented_moments(ends, self._weight, self.beta - self.alpha**2)
        sigma = [deviations(self, "measurement_noise", self._known[name]) for name in self.measured]
        dx, P, self.innovation = correct_distribution(
            joint[:n, :n],
            joint[:n, n:],
            joint[n:, n:],
            measured - mean[n:],
            np.concatenate(sigma),
            self.gate,
        )
        self._x, self.covariance = mean[:n] + dx, P

    def _vector(
        self, argument: str, values: Mapping[str, Any], ports: PortValues, names: Iterable[str]
    ) -> Array:
        """Return values by name as a vector, with NaN for missing values.

        `argument` is the name of the argument that contains the values, for error messages.
        """
        vector = np.full(len(ports.flat), np.nan)
        for name, value in values.items():
            vector[ports.where[name] if name in ports.where else slice(0)] = self._port_value(
                argument, name, value, names
            )
        return vector

    def _port_value(self, argument: str, name: str, value: Any, names: Iterable[str]) -> Array:
        """Return the value of a port as a vector; raise an error for a wrong name or shape."""
        if name not in names:
            raise KeyError(
                f"unknown name '{name}' in {argument} of the estimator of '{self.path}'; "
                f"{suggestion(name, names)}"
            )
        ports = {**self._known, **{port.name: port for port in self._fmu.inputs}}
        label = f"{argument} of '{name}'"
        try:
            given = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise TypeError(f"{label} must be numbers, not {value!r}") from None
        if argument == "inputs":
            return np.ravel(finite(given, ports[name].shape, label))
        if given.shape != ports[name].shape:
            raise ValueError(f"{label} must have the shape {ports[name].shape}, not {given.shape}")
        return np.ravel(given)

    def close(self) -> None:
        """End the FMU instance and remove its temporary files."""
        if self._instance is not None:
            self._instance.close()
        self._instance = None

    def __enter__(self) -> FmuKalmanFilter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
