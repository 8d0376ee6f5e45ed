"""Unscented Kalman filter: sigma points instead of Jacobians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rigidblocks.library.estimators import KalmanFilter, number_of, symmetric
from rigidblocks.spatial.scalar import less, select
from rigidblocks.spatial.spatial import Array

_ZERO_PIVOT = 1e-14  # relative rounding error of the pivots of a singular covariance


@dataclass(frozen=True, eq=False)
class UnscentedKalmanFilter(KalmanFilter):
    """Unscented Kalman filter for any plant, which needs no Jacobians of the plant motion.

        P = L L^T
        w = 1 / (2 alpha^2 (n + kappa))
        X_0 = x
        X_i = x +- alpha sqrt(n + kappa) L_i
        m = w sum(Y_i - Y_0)
        x <- Y_0 + m
        P <- w sum((Y_i - Y_0) (Y_i - Y_0)^T) + (beta - alpha^2) m m^T + Q T

    x (n,) and P (n, n) are the estimate and its covariance. L_i is column i of L. Q T is the
    covariance of the process noise per sample. The plant maps the 2 n + 1 sigma points X_i at one
    sample to the states Y_i at the next sample. m (n,) is the mean of the Y_i relative to Y_0. A
    second set of sigma points predicts the measured outputs and the covariance of these outputs.
    The results of the filter are exact to the second order in the deviations; the results of
    `ExtendedKalmanFilter` are exact to the first order. The filter computes the motion of the plant
    2 n + 1 times per sample, with one RK4 step of each sigma point.

    Projected plants, such as plants with quaternions or closed loops, keep their constraints. The
    filter projects each sigma point and each estimate, and replaces the covariance P by J P J^T
    with the Jacobian J of `project`. The rank of P is the dimension of the constraint manifold. L
    is the Cholesky factor of P, with zero columns for directions without variance.

    The ports and the parameters are as in `ExtendedKalmanFilter`.

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
        input_hold: Inputs that a continuous plant held during the last sample time, "previous" or
            "new" as for `ExtendedKalmanFilter`.
        alpha: Scale of the distance of the sigma points.
        beta: Weight of the centre point in the covariance; P stays positive semidefinite if beta is
            at least alpha^2.
        kappa: Additional scale of the distance, larger than -n.

    Raises:
        KeyError: A name is unknown.
        TypeError: An argument has the wrong type.
        ValueError: An argument is invalid, a measured output has no noise, or the plant has both
            continuous and sampled states or runs C code.

    References:
        Julier, Uhlmann, Unscented filtering and nonlinear estimation, Proc. IEEE 92(3), 2004.
        Simon, Optimal State Estimation, 2006, 14.3.
    """

    alpha: float = 1.0
    beta: float = 2.0
    kappa: float = 0.0
    _calls_plant: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sigma_point_options(self.alpha, self.beta, self.kappa, self._size)

    def _first_prediction(
        self, t: Any, estimate: Array, P: Array, inputs: Array, fixed_parameters: Array
    ) -> tuple[Array, Array]:
        ends = []
        for point in self._sigma_points(t, estimate, P, inputs, fixed_parameters):
            after = self._model.first_states(t, self._plant_part(point), inputs, fixed_parameters)
            ends.append(np.concatenate([after, point[len(after) :]]))
        return self._moments(np.array(ends))

    def _prediction(
        self,
        t: Any,
        estimate: Array,
        P: Array,
        held: Array,
        previous: Array,
        fixed_parameters: Array,
    ) -> tuple[Array, Array]:
        T, model = self.sample_time, self._model
        begin, ends = t - T, []
        start = t if self.plant.sampled else begin
        for point in self._sigma_points(begin, estimate, P, previous, fixed_parameters):
            own = self._plant_part(point)
            after = model.transition(start, own, held, fixed_parameters, T)
            if model.has_projection:
                moved = np.concatenate([after, own[len(after) :]])
                after = model.projection(t, moved, held, fixed_parameters)
            now = np.concatenate([after, point[len(after) :]])
            if self._past_ports:
                now = self._shift_past_outputs(
                    now, point, model.outputs(begin, own, previous, fixed_parameters)
                )
            ends.append(now)
        return self._moments(np.array(ends))

    def _output_distribution(
        self, t: Any, estimate: Array, P: Array, inputs: Array, fixed_parameters: Array
    ) -> tuple[Array, Array, Array]:
        points = self._sigma_points(t, estimate, P, inputs, fixed_parameters)
        outputs = [
            self._apply_delays(
                self._model.outputs(t, self._plant_part(one), inputs, fixed_parameters), one
            )
            for one in points
        ]
        Z = np.array(outputs)
        expected, S = self._moments(Z)
        w = self._weight
        return expected, w * (points[1:] - points[0]).T @ (Z[1:] - Z[0]), S

    @property
    def _weight(self) -> float:
        return 0.5 / (self.alpha**2 * (self._size + self.kappa))

    def _sigma_points(
        self, t: Any, estimate: Array, P: Array, inputs: Array, fixed_parameters: Array
    ) -> Array:
        """Return the sigma points (2 n + 1, n) of an estimate (n,) with the covariance P (n, n).

        The points are projected onto the plant constraints at the time t [s]. `inputs` are the
        plant inputs. `fixed_parameters` are the plant parameters that the filter does not estimate.
        """
        points = sigma_points(estimate, P, self._weight)
        if not self._model.has_projection:
            return points
        projected = points.copy()
        for point in projected[1:]:
            own = self._plant_part(point)
            after = self._model.projection(t, own, inputs, fixed_parameters)
            point[: len(after)] = after
        return projected

    def _moments(self, ends: Array) -> tuple[Array, Array]:
        return unscented_moments(ends, self._weight, self.beta - self.alpha**2)


def check_sigma_point_options(alpha: Any, beta: Any, kappa: Any, n: int) -> None:
    """Check the parameters of an unscented transform of n states."""
    values = {"alpha": alpha, "beta": beta, "kappa": kappa}
    for name, value in values.items():
        if not np.isfinite(number_of(f"{name} of an unscented Kalman filter", value)):
            raise ValueError(f"{name} of an unscented Kalman filter must be finite, not {value}")
    if alpha <= 0:
        raise ValueError(f"alpha of an unscented Kalman filter must be positive, not {alpha}")
    if n + kappa <= 0:
        raise ValueError(
            f"kappa of an unscented Kalman filter of {n} states must be larger than -{n}, not "
            f"{kappa}"
        )


def sigma_points(x: Array, P: Array, weight: float) -> Array:
    """Return the sigma points (2 n + 1, n) of a distribution with mean x (n,) and covariance P.

        X_0 = x,  X_i = x + sqrt(1 / (2 w)) L_i,  X_(n+i) = x - sqrt(1 / (2 w)) L_i

    The index i is from 1 to n. `weight` is the weight w of each point except x. L_i is column i of
    the Cholesky factor of P (n, n).
    """
    L = np.sqrt(0.5 / weight) * semidefinite_cholesky(P).T
    return np.concatenate([x[None], x + L, x - L])


def unscented_moments(Y: Array, weight: float, centre: float) -> tuple[Array, Array]:
    """Return the mean (k,) and covariance P (k, k) of transformed sigma points Y (2 n + 1, k).

        mean = Y_0 + m,  m = w sum(Y_i - Y_0)
        P = w sum((Y_i - Y_0) (Y_i - Y_0)^T) + c m m^T

    `weight` is w, and `centre` is the factor c = beta - alpha^2. The differences avoid the
    cancellation of the usual sums, whose weights are large for small alpha.
    """
    E = Y[1:] - Y[0]
    mean = weight * E.sum(axis=0)
    return Y[0] + mean, symmetric(weight * E.T @ E + centre * np.outer(mean, mean))


def semidefinite_cholesky(P: Array) -> Array:
    """Return the lower triangular factor L of P = L L^T, for a positive semidefinite matrix.

    If a pivot is zero up to rounding errors, the column of L is zero. The matrix may be traced.
    """
    L = np.zeros(P.shape).astype(P.dtype)
    for j in range(len(P)):
        row = L[j, :j]
        pivot = P[j, j] - row @ row
        is_free = less(len(P) * _ZERO_PIVOT * P[j, j], pivot)
        root = np.sqrt(select(is_free, pivot, 1.0))
        scale = select(is_free, 1.0 / root, 0.0)
        L[j, j] = select(is_free, root, 0.0)
        L[j + 1 :, j] = (P[j + 1 :, j] - L[j + 1 :, :j] @ row) * scale
    return L
