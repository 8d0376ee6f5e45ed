"""State estimators: blocks that estimate the states and parameters of a plant from measurements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values, finite
from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.external_functions import BlockInC
from rigidblocks.block.memory_layout import Memory
from rigidblocks.common.name_hints import suggestion
from rigidblocks.spatial.scalar import maximum, select
from rigidblocks.spatial.spatial import Array

if TYPE_CHECKING:
    from rigidblocks.tracing.trace import Graph

_HOLDS = ("previous", "new")
_LARGEST = 1e300  # larger measurements and NaN count as missing


@dataclass(frozen=True, eq=False)
class KalmanFilter(Block):
    """Base class of Kalman filters for plant blocks: ports, checks and correction step.

    A filter defines the prediction (`_first_prediction`, `_prediction`) and the joint distribution
    of states and measured outputs (`_output_distribution`).
    """

    plant: Block
    measured: tuple[str, ...]
    measurement_noise: Mapping[str, Any]
    sample_time: float
    process_noise: Mapping[str, Any] = field(default_factory=dict)
    deviation: Mapping[str, Any] = field(default_factory=dict)
    parameters_to_estimate: tuple[str, ...] = ()
    gate: float | None = None
    delays: Mapping[str, int] = field(default_factory=dict)
    input_hold: str = "previous"

    def __post_init__(self) -> None:
        kind = type(self.plant).__name__
        for name in ("measured", "parameters_to_estimate"):
            object.__setattr__(self, name, names_of(name, getattr(self, name)))
        if not isinstance(self.plant, Block) or isinstance(self.plant, BlockInC):
            raise ValueError(
                "the plant of an estimator must be a block whose functions can be traced, not a "
                f"{kind}"
            )
        if bool(self.plant.states) == bool(self.plant.sampled):
            raise ValueError(
                f"the plant {kind} has {'both' if self.plant.states else 'neither'} continuous "
                f"{'and' if self.plant.states else 'nor'} sampled states; an estimator needs one "
                "of the two"
            )
        if not isinstance(self.input_hold, str) or self.input_hold not in _HOLDS:
            raise ValueError(
                f"unknown input_hold {self.input_hold!r} of the estimator of {kind}; available: "
                f"{', '.join(_HOLDS)}"
            )
        check_sample_time(kind, self.sample_time)
        if self.plant.sampled and self.plant.sample_time != self.sample_time:
            raise ValueError(
                f"the plant {kind} has the sample time {self.plant.sample_time} s; the estimator "
                f"has {self.sample_time} s"
            )
        check_declaration(self, kind, self._states, self.plant.outputs, self.plant.parameters)

    # --- ports ---

    @cached_property
    def _states(self) -> tuple[Port, ...]:
        """Ports of the estimated states and parameters."""
        parameters = {port.name: port for port in self.plant.parameters}
        chosen = (parameters[name] for name in self.parameters_to_estimate if name in parameters)
        return (*self.plant.states, *self.plant.sampled, *(replace(port) for port in chosen))

    @cached_property
    def _measured_ports(self) -> tuple[Port, ...]:
        outputs = {port.name: port for port in self.plant.outputs}
        return tuple(outputs[name] for name in self.measured)

    @cached_property
    def _past_ports(self) -> tuple[Port, ...]:
        """Ports (delay, size) of the past values of delayed outputs; row 0 is the newest."""
        return tuple(
            Port(f"{port.name}_past", (int(self.delays[port.name]), port.size), "1", start=0.0)
            for port in self._measured_ports
            if self.delays.get(port.name)
        )

    @cached_property
    def _size(self) -> int:
        """Number of rows of the covariance."""
        return sum(port.size for port in (*self._states, *self._past_ports))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs of the plant, and measurements."""
        measured = (
            replace(port, name=f"{port.name}_measured", start=None, rate=None)
            for port in self._measured_ports
        )
        return (*self.plant.inputs, *measured)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled states: estimates, covariance, and inputs of the previous sample."""
        last = (
            replace(port, name=f"{port.name}_last", start=_start(port))
            for port in self.plant.inputs
        )
        n, m = self._size, sum(port.size for port in self._measured_ports)
        return (
            *(
                replace(port, rate=None, min=None, max=None, positive=False)
                for port in self._states
            ),
            *self._past_ports,
            Port("covariance", (n, n), "1", "covariance of the estimates", self._first_covariance),
            Port("innovation", (m,), "1", "innovations in standard deviations", 0.0),
            *last,
        )

    @cached_property
    def _first_covariance(self) -> Array:
        parts = [deviations(self, "deviation", port) for port in self._states]
        sigma = np.concatenate([*parts, np.zeros(self._size - sum(map(len, parts)))])
        return np.diag(sigma**2)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Estimates of states and parameters, covariance and innovation."""
        names = {port.name for port in self._states} | {"covariance", "innovation"}
        return tuple(port for port in self.sampled if port.name in names)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameters of the plant that are not estimated, and standard deviations of the noise."""
        others = (
            port for port in self.plant.parameters if port.name not in self.parameters_to_estimate
        )
        disturbed = (port for port in self._states if port.name in self.process_noise)
        return (
            *others,
            *self._noise_ports("measurement_noise", "noise", self._measured_ports),
            *self._noise_ports("process_noise", "process_noise", disturbed),
        )

    def _noise_ports(self, argument: str, suffix: str, ports: Any) -> Iterator[Port]:
        for port in ports:
            start = deviations(self, argument, port).reshape(port.shape)
            text = f"standard deviation, {suffix.replace('_', ' ')} of {port.name}"
            bound: dict[str, Any] = {"positive": True} if suffix == "noise" else {"min": 0.0}
            yield Port(f"{port.name}_{suffix}", port.shape, "1", text, start, **bound)

    # --- functions ---

    _calls_plant: ClassVar[bool] = False  # True for filters that move many points per sample

    @cached_property
    def _model(self) -> _TracedPlant:
        return _TracedPlant(
            self.plant, self.parameters_to_estimate, self.measured, self._calls_plant
        )

    def initial(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        estimate = self._estimate(x)
        inputs, fixed_parameters = self._flat(self.plant.inputs, u), self._fixed_parameters(p)
        P = x.covariance
        if self.plant.sampled:
            estimate, P = self._first_prediction(t, estimate, P, inputs, fixed_parameters)
        now, P = self._constrain(t, estimate, P, inputs, fixed_parameters)
        past = []
        y = None
        # before the first sample, delayed outputs have their first value
        for port in self._past_ports:
            if y is None:
                y = self._model.outputs(t, self._plant_part(now), inputs, fixed_parameters)
            own = y[self._places[port.name.removesuffix("_past")]]
            past += [own] * port.shape[0]
        count = len(self._flat_ports)
        now = np.concatenate([now[:count], *past])
        return self._correct(t, now, P, u, inputs, fixed_parameters, p)

    def update(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        fixed_parameters, previous = self._fixed_parameters(p), self._last(x)
        estimate, P, T = self._estimate(x), x.covariance, self.sample_time
        inputs = self._flat(self.plant.inputs, u)
        held = inputs if self.plant.sampled or self.input_hold == "new" else previous
        now, P = self._prediction(t, estimate, P, held, previous, fixed_parameters)
        P = symmetric(P + np.diag(self._process_variances(p) * T))
        now, P = self._constrain(t, now, P, held, fixed_parameters)
        return self._correct(t, now, P, u, inputs, fixed_parameters, p)

    def _first_prediction(
        self, t: Any, estimate: Array, P: Array, inputs: Array, fixed_parameters: Array
    ) -> tuple[Array, Array]:
        """Initialize a sampled plant, and return the new estimate and its covariance.

        `estimate` contains the start values, and P is their covariance. `inputs` are the inputs of
        the plant, and `fixed_parameters` are its parameters that the filter does not estimate.
        """
        raise NotImplementedError

    def _prediction(
        self,
        t: Any,
        estimate: Array,
        P: Array,
        held: Array,
        previous: Array,
        fixed_parameters: Array,
    ) -> tuple[Array, Array]:
        """Predict the estimate and its covariance P over one sample time, without process noise.

        t is the time at the end of the sample time. The plant holds the inputs `held` during the
        sample time. `previous` contains the inputs of the previous sample. They determine the
        outputs of the previous sample, which become past values of delayed outputs.
        `fixed_parameters` contains the parameters of the plant that are not estimated.
        """
        raise NotImplementedError

    def _output_distribution(
        self, t: Any, estimate: Array, P: Array, inputs: Array, fixed_parameters: Array
    ) -> tuple[Array, Array, Array]:
        """Return the joint distribution of the estimate and the m measured elements.

        The result contains the mean (m,) of the elements, their cross-covariance (n, m) with the
        estimate, and their covariance (m, m) without measurement noise. The elements of a delayed
        output are its oldest past values. P (n, n) is the covariance of the estimate.
        """
        raise NotImplementedError

    @cached_property
    def _flat_ports(self) -> list[str]:
        return [name for port in self._states for name in port.element_names]

    @cached_property
    def _places(self) -> dict[str, slice]:
        """Slice of each measured output in the vector of all measured elements, by output name."""
        ends = np.cumsum([0, *(port.size for port in self._measured_ports)]).tolist()
        return {
            port.name: slice(a, b)
            for port, a, b in zip(self._measured_ports, ends, ends[1:], strict=False)
        }

    def _plant_part(self, estimate: Array) -> Array:
        return estimate[: len(self._flat_ports)]

    def _estimate(self, x: Record) -> Array:
        ports = (*self._states, *self._past_ports)
        return np.concatenate([np.ravel(getattr(x, port.name)) for port in ports])

    def _flat(self, ports: tuple[Port, ...], values: Record) -> Array:
        return np.concatenate([np.zeros(0), *(np.ravel(getattr(values, p.name)) for p in ports)])

    def _last(self, x: Record) -> Array:
        names = (f"{port.name}_last" for port in self.plant.inputs)
        return np.concatenate([np.zeros(0), *(np.ravel(getattr(x, name)) for name in names)])

    def _fixed_parameters(self, p: Record) -> Array:
        names = (
            port.name
            for port in self.plant.parameters
            if port.name not in self.parameters_to_estimate
        )
        return np.concatenate([np.zeros(0), *(np.ravel(getattr(p, name)) for name in names)])

    def _process_variances(self, p: Record) -> Array:
        parts = [
            np.ravel(getattr(p, f"{port.name}_process_noise")) ** 2
            if port.name in self.process_noise
            else np.zeros(port.size)
            for port in self._states
        ]
        count = sum(map(len, parts))
        return np.concatenate([*parts, np.zeros(self._size - count)])

    def _transition_matrix(self, A: Array) -> Array:
        """Return the transition matrix F (n, n) of the states and the estimated parameters.

        A contains the first rows of F. The other rows equal rows of the identity matrix, because
        the estimated parameters are constant.
        """
        F = np.eye(self._size).astype(A.dtype)
        F[: len(A), : A.shape[1]] = A
        return F

    def _shift_past_outputs(self, predicted: Array, estimate: Array, y: Array) -> Array:
        """Return the estimate `predicted` after a shift of its past outputs by one sample.

        `estimate` is the estimate before the prediction. Its measured outputs `y` become the newest
        past outputs.
        """
        k, predicted = len(self._flat_ports), predicted.astype(np.result_type(predicted, y))
        for port in self._past_ports:
            size, end = port.shape[1], k + port.size
            predicted[k : k + size] = y[self._places[port.name.removesuffix("_past")]]
            predicted[k + size : end] = estimate[k : end - size]
            k = end
        return predicted

    def _apply_delays(self, values: Array, estimate: Array) -> Array:
        """Return the outputs `values` (m,) with the delays of the measurements.

        The oldest past value in `estimate` replaces the value of each delayed output.
        """
        values, k = values.astype(np.result_type(values, estimate)), len(self._flat_ports)
        for port in self._past_ports:
            k += port.size
            place = self._places[port.name.removesuffix("_past")]
            values[place] = estimate[k - port.shape[1] : k]
        return values

    def _constrain(
        self, t: Any, estimate: Array, P: Array, inputs: Array, fixed_parameters: Array
    ) -> tuple[Array, Array]:
        """Project the estimate and the covariance P onto the constraints of the plant."""
        if not self._model.has_projection:
            return estimate, P
        own = self._plant_part(estimate)
        J = self._model.projection_jacobian(t, own, inputs, fixed_parameters)
        after = self._model.projection(t, own, inputs, fixed_parameters)
        Pi = self._transition_matrix(J)
        return np.concatenate([after, estimate[len(after) :]]), symmetric(Pi @ P @ Pi.T)

    def _correct(
        self,
        t: Any,
        estimate: Array,
        P: Array,
        u: Record,
        inputs: Array,
        fixed_parameters: Array,
        p: Record,
    ) -> Values:
        """Correct the estimate with the measurements, and return the sampled states.

        P is the covariance of the estimate. u contains the measurements and the inputs of the
        plant. The vector `inputs` contains only the inputs of the plant, and `fixed_parameters` its
        parameters that are not estimated. p contains the standard deviations of the measurement
        noise.
        """
        expected, C, S = self._output_distribution(t, estimate, P, inputs, fixed_parameters)
        measured = [np.ravel(getattr(u, f"{port.name}_measured")) for port in self._measured_ports]
        sigma = [np.ravel(getattr(p, f"{port.name}_noise")) for port in self._measured_ports]
        dx, P, innovation = correct_distribution(
            P, C, S, np.concatenate(measured) - expected, np.concatenate(sigma), self.gate
        )
        estimate, P = self._constrain(t, estimate + dx, P, inputs, fixed_parameters)
        return self._values(estimate, P, innovation, u)

    def _values(self, estimate: Array, P: Array, innovation: Array, u: Record) -> Values:
        values: dict[str, Any] = {"covariance": P, "innovation": innovation}
        k = 0
        for port in (*self._states, *self._past_ports):
            values[port.name] = estimate[k : k + port.size].reshape(port.shape)
            k += port.size
        values |= {f"{port.name}_last": getattr(u, port.name) for port in self.plant.inputs}
        return values


@dataclass(frozen=True, eq=False)
class ExtendedKalmanFilter(KalmanFilter):
    """Extended Kalman filter for any plant, with exact Jacobians.

        P <- F P F^T + Q T
        K = P H^T (H P H^T + R)^-1
        x <- x + K (y - h(x))
        P <- P - K H P

    x contains the states, P is their covariance, and y contains the measurements. Q T is the
    covariance of the process noise over a sample time T, and R is the covariance of the measurement
    noise. h is the output function of the plant, and H = dh/dx. For a continuous plant with dx/dt =
    f(x), one RK4 step predicts x, and F is the series of exp(df/dx T) up to the fourth power of T.
    The filter also supports sampled plants with the same sample time.

    Some plants project their states onto constraints, for example to normalize quaternions or to
    close loops. For such a plant, the filter projects x and replaces P by J P J^T, where J is the
    Jacobian of the projection. P then has no variance in directions that violate the constraints.

    At each sample, the filter predicts with the inputs that the plant held during the last sample
    time. `input_hold` selects these inputs: "previous" for the inputs of the previous sample, "new"
    for the inputs of this sample. A sampled plant always reads the new inputs. The filter then
    processes the measured elements one after the other. A value above 1e300, for example 1e301,
    marks a missing measurement. In a direct call, NaN also does; runs and FMUs stop at NaN. With a
    `gate` g, the filter ignores an element whose innovation exceeds g standard deviations.

    The inputs are the inputs of the plant, and NAME_measured for each measured output. The outputs
    are the estimates of the states and parameters, their `covariance` (n, n), and the `innovation`
    of each measured element in standard deviations. The rows of the covariance are the states in
    the order of the plant, the parameters, and past values of delayed outputs.

    The parameters of the filter are the plant parameters that it does not estimate, and the
    standard deviations of the noise. NAME_noise is the standard deviation of a measurement.
    NAME_process_noise is the standard deviation that white noise in the derivative of a state or
    estimated parameter causes after one second.

    Args:
        plant: Continuous block, or sampled block with the same sample time.
        measured: Names of the measured outputs.
        measurement_noise: Standard deviation of each measured output by name.
        sample_time: Sample time T [s].
        process_noise: Process noise of states and parameters by name, 0 by default.
        deviation: Standard deviation of the initial states and parameters by name, 0 by default.
        parameters_to_estimate: Names of plant parameters that are additional states.
        gate: Largest accepted innovation in standard deviations; None accepts all measurements.
        delays: Delay of measured outputs in samples, by name.
        input_hold: Inputs that a continuous plant held during the last sample time. Use "new" if
            the block that computes the inputs steps before the plant, such as a command source. Use
            "previous" if this block steps after the plant, such as a controller that reads
            measurements. Also use "previous" with `order="jacobi"` and for real robots.

    Raises:
        KeyError: A name is unknown.
        TypeError: A noise, a deviation, a delay, the gate, the sample time or `measured` has the
            wrong type.
        ValueError: A noise, a deviation, a delay, the gate or `input_hold` is invalid, a measured
            output has no noise, or the plant has both continuous and sampled states or runs C code.

    References:
        Simon, Optimal State Estimation, 2006, 13.2 and 7.5.
    """

    def _first_prediction(
        self, t: Any, estimate: Array, P: Array, inputs: Array, fixed_parameters: Array
    ) -> tuple[Array, Array]:
        own = self._plant_part(estimate)
        after = self._model.first_states(t, own, inputs, fixed_parameters)
        F = self._transition_matrix(
            self._model.first_states_jacobian(t, own, inputs, fixed_parameters)
        )
        return np.concatenate([after, estimate[len(after) :]]), symmetric(F @ P @ F.T)

    def _prediction(
        self,
        t: Any,
        estimate: Array,
        P: Array,
        held: Array,
        previous: Array,
        fixed_parameters: Array,
    ) -> tuple[Array, Array]:
        T, own = self.sample_time, self._plant_part(estimate)
        begin = t - T
        start = t if self.plant.sampled else begin
        after = self._model.transition(start, own, held, fixed_parameters, T)
        now = np.concatenate([after, estimate[len(after) :]])
        F = self._transition_matrix(
            self._model.transition_jacobian(start, own, held, fixed_parameters, T)
        )
        if self._past_ports:
            now = self._shift_past_outputs(
                now, estimate, self._model.outputs(begin, own, previous, fixed_parameters)
            )
            F = self._shift_jacobian_rows(
                F, self._model.output_jacobian(begin, own, previous, fixed_parameters)
            )
        return now, F @ P @ F.T

    def _shift_jacobian_rows(self, F: Array, H: Array) -> Array:
        """Replace the rows of the past outputs in the transition matrix F (n, n).

        The new rows are the Jacobian of `_shift_past_outputs`. H is the Jacobian of the measured
        outputs.
        """
        k, F = len(self._flat_ports), F.astype(np.result_type(F, H))
        for port in self._past_ports:
            steps, size = port.shape
            end = k + port.size
            F[k:end] = 0.0
            F[k : k + size, : H.shape[1]] = H[self._places[port.name.removesuffix("_past")]]
            F[k + size : end, k : end - size] = np.eye((steps - 1) * size)
            k = end
        return F

    def _output_distribution(
        self, t: Any, estimate: Array, P: Array, inputs: Array, fixed_parameters: Array
    ) -> tuple[Array, Array, Array]:
        own = self._plant_part(estimate)
        rows = self._model.output_jacobian(t, own, inputs, fixed_parameters)
        H = np.zeros((len(rows), self._size)).astype(rows.dtype)
        H[:, : rows.shape[1]] = rows
        k = len(self._flat_ports)
        for port in self._past_ports:
            k, size = k + port.size, port.shape[1]
            place = self._places[port.name.removesuffix("_past")]
            H[place] = 0.0
            H[place, k - size : k] = np.eye(size)
        C = P @ H.T
        expected = self._apply_delays(
            self._model.outputs(t, own, inputs, fixed_parameters), estimate
        )
        return expected, C, symmetric(H @ C)


def correct_distribution(
    P: Array, C: Array, S: Array, error: Array, sigma: Array, gate: float | None
) -> tuple[Array, Array, Array]:
    """Correct a normal distribution by measured elements, one after the other.

        v = S_kk + sigma_k^2
        K = C_k / v
        dx <- dx + K e_k
        P <- P - K C_k^T

    C_k is column k of C. After each element, the function also corrects C, S and the errors e of
    the remaining elements.

    Args:
        P: Covariance (n, n) of the states.
        C: Cross-covariance (n, m) of the states and the outputs.
        S: Covariance (m, m) of the outputs without measurement noise.
        error: Differences (m,) of measured and predicted outputs; NaN is a missing measurement.
        sigma: Standard deviations (m,) of the measurement noise.
        gate: Largest accepted innovation in standard deviations, or None.

    Returns:
        Correction dx (n,) of the states, covariance P (n, n), innovations (m,) in standard
        deviations.
    """
    dx, innovation = np.zeros(len(P)), []
    for s in sigma:
        gain, column = C[:, 0], S[:, 0]
        variance = maximum(column[0], 0.0) + s * s
        is_there = abs(error[0]) <= _LARGEST
        e = select(is_there, error[0], 0.0)
        accepted = is_there
        if gate is not None:
            accepted = is_there & (e * e <= gate**2 * variance)
        weight = select(accepted, 1.0 / variance, 0.0)
        innovation.append(select(is_there, e / np.sqrt(variance), 0.0))
        dx = dx + gain * (weight * e)
        P = symmetric(P - np.outer(gain, gain * weight))
        row = column[1:] * weight
        error = error[1:] - row * e
        C, S = C[:, 1:] - np.outer(gain, row), symmetric(S[1:, 1:] - np.outer(column[1:], row))
    return dx, P, np.array(innovation)


def names_of(argument: str, value: Any) -> tuple[str, ...]:
    """Return a name or a sequence of names as a tuple.

    Raises:
        TypeError: The value has another type.
        ValueError: A name occurs twice.
    """
    names = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else value
    names = tuple(names)
    if not all(isinstance(one, str) for one in names):
        raise TypeError(
            f"{argument} of an estimator must be a name or a sequence of names, not {value!r}"
        )
    if len(set(names)) < len(names):
        raise ValueError(
            f"{argument} of an estimator must contain each name once, not {', '.join(names)}"
        )
    return names


def check_sample_time(kind: str, value: Any) -> None:
    """Check the sample time [s] of an estimator.

    `kind` is the class name of the plant, for error messages.
    """
    if value is None:
        raise ValueError(f"the estimator of {kind} needs a sample_time [s]")
    sample_time = number_of("sample_time of an estimator", value)
    if not 0 < sample_time < np.inf:
        raise ValueError(
            f"sample_time of an estimator must be positive and finite, not {sample_time} s"
        )


_LONGEST_DELAY = 1000  # samples; the covariance has (delay * elements)^2 numbers


def check_declaration(
    observer: Any,
    kind: str,
    states: Iterable[Port],
    outputs: Iterable[Port],
    parameters: Iterable[Port],
) -> None:
    """Check the names, noise, deviations, delays and gate of an estimator.

    Args:
        observer: Estimator with the fields `measured`, `measurement_noise`, `process_noise`,
            `deviation`, `parameters_to_estimate`, `gate` and `delays`.
        kind: Class name of the plant, for error messages.
        states: Estimated states and parameters.
        outputs: Outputs that can be measured.
        parameters: Parameters that can be estimated.
    """
    if not observer.measured:
        raise ValueError(f"the estimator of {kind} needs the name of at least one measured output")
    for argument in ("measurement_noise", "process_noise", "deviation", "delays"):
        values = getattr(observer, argument)
        if not isinstance(values, Mapping):
            raise TypeError(
                f"{argument} of the estimator of {kind} must be a mapping from names to "
                f"values, such as {{'{observer.measured[0]}': 1}}, not {values!r}"
            )
    output_names, parameter_names, state_names = (
        [port.name for port in ports] for ports in (outputs, parameters, states)
    )
    known = {
        "measured": (observer.measured, output_names),
        "parameters_to_estimate": (observer.parameters_to_estimate, parameter_names),
        "measurement_noise": (observer.measurement_noise, observer.measured),
        "process_noise": (observer.process_noise, state_names),
        "deviation": (observer.deviation, state_names),
        "delays": (observer.delays, observer.measured),
    }
    for argument, (names, choices) in known.items():
        for name in names:
            if name not in choices:
                raise KeyError(
                    f"unknown name '{name}' in {argument} of the estimator of "
                    f"{kind}; {suggestion(name, choices)}"
                )
    if missing := [name for name in observer.measured if name not in observer.measurement_noise]:
        raise ValueError(f"the estimator of {kind} needs measurement_noise of {', '.join(missing)}")
    for argument in ("measurement_noise", "process_noise", "deviation"):
        for name, value in getattr(observer, argument).items():
            try:
                values = np.asarray(value, dtype=float)
            except (TypeError, ValueError):
                raise TypeError(
                    f"{argument} of '{name}' must be a number or an array of numbers, not {value!r}"
                ) from None
            positive = argument == "measurement_noise"
            if not np.all(np.isfinite(values) & ((values > 0) if positive else (values >= 0))):
                bound = "positive" if positive else "finite and not negative"
                raise ValueError(f"{argument} of '{name}' must be {bound}, not {value}")
    for name, delay in observer.delays.items():
        steps = number_of(f"the delay of '{name}' in delays", delay)
        if not (steps >= 0 and steps.is_integer()):
            raise ValueError(f"the delay of '{name}' must be 0, 1, 2, ... samples, not {delay}")
        if steps > _LONGEST_DELAY:
            raise ValueError(
                f"the delay of '{name}' must be at most {_LONGEST_DELAY} samples, not {delay}; the "
                "filter estimates all past values, so choose a longer sample_time"
            )
    if observer.gate is not None and not number_of("the gate", observer.gate) > 0:
        raise ValueError(f"the gate must be positive, not {observer.gate} standard deviations")
    for port in states:
        for argument in ("process_noise", "deviation"):
            deviations(observer, argument, port)
    for port in outputs:
        if port.name in observer.measured:
            deviations(observer, "measurement_noise", port)


def deviations(observer: Any, argument: str, port: Port) -> Array:
    """Return the standard deviation of each element of a port, as a vector.

    `argument` is the name of the field with the standard deviations by port name. If the field does
    not contain the port, the standard deviations are zero.
    """
    value = getattr(observer, argument).get(port.name, 0.0)
    given = np.asarray(value, dtype=float)
    values = np.full(port.shape, float(given)) if given.ndim == 0 else given
    return np.ravel(finite(values, port.shape, f"{argument} of '{port.name}'"))


def number_of(name: str, value: Any) -> float:
    """Return the number `value` as a float; raise TypeError for another type."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return float(value)


def _start(port: Port) -> Any:
    return np.zeros(port.shape) if port.start is None else port.start


def symmetric(P: Array) -> Array:
    """Return the symmetric matrix with the upper triangle of P."""
    upper = np.triu(P)
    return upper + np.triu(P, 1).T


@dataclass(frozen=True, eq=False)
class _TracedPlant:
    """Functions of a plant and their exact Jacobians, for numbers and for traced values.

    The vector X contains the states of the plant, and then the parameters with the names in
    `estimated`. The vector `fixed_parameters` contains the other parameters. If `has_calls` is
    True, a trace of an estimator contains calls of the plant functions. Otherwise the trace repeats
    their operations.
    """

    plant: Block
    estimated: tuple[str, ...]
    measured: tuple[str, ...]
    has_calls: bool = False

    @cached_property
    def _memory(self) -> Memory:
        return Memory(self.plant)

    @cached_property
    def _evaluator(self) -> NumpyEvaluator:
        return NumpyEvaluator(self._memory)

    @property
    def has_projection(self) -> bool:
        return self._evaluator.has_projection

    @cached_property
    def _count(self) -> int:
        return int(self._memory.z.stop - self._memory.x.start)

    def _vector(self, t: Any, X: Array, u: Array, fixed_parameters: Array) -> Array:
        """Return the vector of the plant variables (`Memory`) at the time t with the inputs u.

        X contains the states and the estimated parameters. `fixed_parameters` contains the other
        parameters.
        """
        parts, i, k = [], self._count, 0
        for port in self._memory.parameters:
            if port.name not in self.estimated:
                parts.append(fixed_parameters[k : k + port.size])
                k += port.size
                continue
            before = (p for p in self.estimated[: self.estimated.index(port.name)])
            sizes = {p.name: p.size for p in self._memory.parameters}
            i = self._count + sum(sizes[name] for name in before)
            parts.append(X[i : i + port.size])
        tail = np.zeros(self._memory.size - self._memory.p.stop)
        return np.concatenate([np.atleast_1d(t), X[: self._count], u, *parts, tail])

    def _trace(self, name: str, function: Any) -> Graph:
        from rigidblocks.tracing.trace import trace

        memory = self._memory
        sizes = {port.name: port.size for port in memory.parameters}
        extra = sum(sizes[key] for key in self.estimated)
        shapes = {
            "t": (),
            "X": (self._count + extra,),
            "u": (memory.u.stop - memory.u.start,),
            "fixed_parameters": (sum(sizes.values()) - extra,),
        }
        return trace(name, lambda *values: {"out": function(self._vector(*values))}, shapes)

    @cached_property
    def _graphs(self) -> dict[str, Graph]:
        memory, evaluator = self._memory, self._evaluator

        def outputs(m: Array) -> Array:
            m = m.copy()
            m[memory.y] = evaluator.output(m)
            return np.concatenate([m[memory.where[name]] for name in self.measured])

        step = evaluator.update if self.plant.sampled else evaluator.derivative
        functions = {"step": step, "outputs": outputs}
        if self.has_projection:
            functions["project"] = evaluator.project
        if self.plant.sampled:
            functions["initial"] = evaluator.initial
        return {name: self._trace(name, function) for name, function in functions.items()}

    @cached_property
    def _jacobians(self) -> dict[str, Graph]:
        """Cached Jacobians of plant functions with respect to X, by function name."""
        return {}

    def _jacobian(self, name: str, t: Any, X: Array, u: Array, fixed_parameters: Array) -> Array:
        from rigidblocks.tracing.trace import jacobian

        if name not in self._jacobians:
            self._jacobians[name] = jacobian(self._graphs[name], "out", "X")
        return self._call(self._jacobians[name], t, X, u, fixed_parameters)

    def _value(self, name: str, t: Any, X: Array, u: Array, fixed_parameters: Array) -> Array:
        return self._call(self._graphs[name], t, X, u, fixed_parameters)

    def _call(self, graph: Graph, t: Any, X: Array, u: Array, fixed_parameters: Array) -> Array:
        (shape,) = graph.outputs.values()
        evaluate = graph.call if self.has_calls else graph
        return evaluate(np.concatenate([np.atleast_1d(t), X, u, fixed_parameters])).reshape(shape)

    def transition(self, t: Any, X: Array, u: Array, fixed_parameters: Array, T: float) -> Array:
        """Return the states after a step T [s]; for a continuous plant, an RK4 step.

        X contains the states at the start of the step and the estimated parameters.
        """
        if self.plant.sampled:
            return self._value("step", t, X, u, fixed_parameters)
        n = self._count
        tail = X[n:]

        def rates(time: Any, x: Array) -> Array:
            return self._value("step", time, np.concatenate([x, tail]), u, fixed_parameters)

        x = X[:n]
        k1 = rates(t, x)
        k2 = rates(t + T / 2, x + T / 2 * k1)
        k3 = rates(t + T / 2, x + T / 2 * k2)
        k4 = rates(t + T, x + T * k3)
        after: Array = x + T / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return after

    def transition_jacobian(
        self, t: Any, X: Array, u: Array, fixed_parameters: Array, T: float
    ) -> Array:
        """Return the Jacobian of the states after a step T [s] with respect to X.

        For a continuous plant, the Jacobian is the series of exp(A T) up to (A T)^4 / 24, with A =
        df/dX at X. For a linear plant, this is the exact Jacobian of the RK4 step.
        """
        n = self._count
        A = self._jacobian("step", t, X, u, fixed_parameters)
        if self.plant.sampled:
            return A
        Z = T * A
        one = np.eye(n, len(X))
        S = one
        for k in (4, 3, 2):
            S = one + Z[:, :n] @ S / k + _parameter_columns(Z, n) / k
        return one + Z[:, :n] @ S + _parameter_columns(Z, n)

    def first_states(self, t: Any, X: Array, u: Array, fixed_parameters: Array) -> Array:
        """Return the sampled states of the plant after its initialization.

        X contains the start values of the states and the estimated parameters.
        """
        return self._value("initial", t, X, u, fixed_parameters)

    def first_states_jacobian(self, t: Any, X: Array, u: Array, fixed_parameters: Array) -> Array:
        """Return the Jacobian of the sampled states after initialization with respect to X."""
        return self._jacobian("initial", t, X, u, fixed_parameters)

    def outputs(self, t: Any, X: Array, u: Array, fixed_parameters: Array) -> Array:
        """Return the measured outputs; X contains the states and the estimated parameters."""
        return self._value("outputs", t, X, u, fixed_parameters)

    def output_jacobian(self, t: Any, X: Array, u: Array, fixed_parameters: Array) -> Array:
        """Return the Jacobian of the measured outputs with respect to X."""
        return self._jacobian("outputs", t, X, u, fixed_parameters)

    def projection(self, t: Any, X: Array, u: Array, fixed_parameters: Array) -> Array:
        """Return the projected states; X contains the states and the estimated parameters."""
        return self._value("project", t, X, u, fixed_parameters)

    def projection_jacobian(self, t: Any, X: Array, u: Array, fixed_parameters: Array) -> Array:
        """Return the Jacobian of the projected states with respect to X."""
        return self._jacobian("project", t, X, u, fixed_parameters)


def _parameter_columns(Z: Array, n: int) -> Array:
    """Return a copy of Z in which the first n columns, which belong to the states, are zero."""
    columns = Z.copy()
    columns[:, :n] = 0.0
    return columns
