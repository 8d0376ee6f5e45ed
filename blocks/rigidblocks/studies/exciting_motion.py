"""Periodic excitation trajectories for the identification of the base parameters of a robot."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.block.block import check_count
from rigidblocks.common.arrays import Array
from rigidblocks.common.name_hints import explain_calls
from rigidblocks.common.optional_imports import module_of
from rigidblocks.library.estimators import number_of
from rigidblocks.robot.tree import Tree, check_model
from rigidblocks.studies.argument_checks import check_seed, real_array
from rigidblocks.studies.identification import (
    BaseParameters,
    base_for_terms,
    check_terms,
    compiled_base_regressor,
)

_GRID = 100  # minimum number of samples per period for the condition number
_GRID_PER_HARMONIC = 20
# With N samples in the shortest period, a Fourier series exceeds its largest sample by at most the
# factor 1 / cos(pi / N): 1.0005 for N = 100. `_MARGIN` covers this factor.
_FINE = 2000  # minimum number of samples per period for the limits
_FINE_PER_HARMONIC = 100
_MARGIN = 0.999  # largest ratio of the sampled trajectory to the limits
_STARTS = 50  # number of random trajectories; the optimization starts at the best


@dataclass(frozen=True, eq=False)
class ExcitingMotion:
    """Periodic excitation trajectory for the identification of a robot.

        q(t) = center + sum over k of sine_k sin(k w t) + cosine_k cos(k w t),    w = 2 pi / period

    Attributes:
        period: Period [s].
        center: Mean positions (nv,) [rad or m].
        sine: Coefficients sine_k (nv, harmonics) for k = 1, 2, ... [rad or m].
        cosine: Coefficients cosine_k (nv, harmonics) for k = 1, 2, ... [rad or m].
        condition: Condition number of the regressor of the base parameters, stacked over time.
    """

    period: float
    center: Array
    sine: Array
    cosine: Array
    condition: float

    def __call__(self, t: ArrayLike) -> tuple[Array, Array, Array]:
        """Return the positions, velocities and accelerations (n, nv) at the times t (n,) [s]."""
        phases = _phases(np.asarray(t, dtype=float) / self.period, self.sine.shape[1], self.period)
        q, qd, qdd = (S @ self.sine.T + C @ self.cosine.T for S, C in phases)
        return self.center + q, qd, qdd


def _phases(s: Array, harmonics: int, period: float) -> Iterator[tuple[Array, Array]]:
    """Yield the sines and cosines (n, harmonics), then their first and second time derivatives.

    `s` (n,) contains the times divided by the period.
    """
    w = 2 * np.pi * np.arange(1, harmonics + 1)
    angles, rate = np.outer(s, w), w / period
    S, C = np.sin(angles), np.cos(angles)
    yield S, C
    yield C * rate, -S * rate
    yield -S * rate**2, -C * rate**2


@explain_calls()
def exciting_motion(
    model: Tree,
    period: float,
    *,
    lower: ArrayLike,
    upper: ArrayLike,
    velocity: ArrayLike = np.inf,
    acceleration: ArrayLike = np.inf,
    harmonics: int = 5,
    joint_terms: Iterable[str] = (),
    base: BaseParameters | None = None,
    iterations: int = 150,
    seed: int = 0,
) -> ExcitingMotion:
    """Return a periodic trajectory that excites all base parameters, within the joint limits.

    The function minimizes the condition number of the regressor, stacked over the samples of a
    period. It varies the coefficients of a Fourier series. The minimization starts at the best of
    several random trajectories. The trajectory of each joint is scaled to its limits. At the start,
    velocity and acceleration are not zero.

    Args:
        model: Robot model without loops, with one velocity for each joint position.
        period: Period [s].
        lower: Lower position limits (nv,) or a scalar [rad or m].
        upper: Upper position limits (nv,) or a scalar [rad or m].
        velocity: Speed limits (nv,) or a scalar.
        acceleration: Limits of the absolute acceleration (nv,) or a scalar.
        harmonics: Number of harmonics.
        joint_terms: Additional parameters of each joint (`JOINT_TERMS`).
        base: Result of `base_parameters` for the same joint terms; None to compute it.
        iterations: Maximum number of iterations of the optimization (L-BFGS).
        seed: Seed of the random trajectories.

    Raises:
        TypeError: `base` is not a result of `base_parameters`.
        ValueError: A limit is invalid, `base` belongs to another model or to other joint terms, or
            the model has loops or joints with quaternions.

    References:
        Swevers, Ganseman, Tukel, De Schutter and Van Brussel, Optimal robot excitation and
        identification, 1997.
    """
    check_model(model, "the model of an excitation trajectory")
    check_seed(seed)
    check_count("iterations", iterations)
    if model.has_constraints or model.nq != model.nv:
        reason = "loops" if model.has_constraints else "joints with quaternions"
        raise ValueError(
            f"model '{model.name}' has {reason}; an excitation trajectory needs independent joints "
            "with one position for each velocity"
        )
    limits = LimitedSeries(model, period, harmonics, lower, upper, velocity, acceleration)
    terms = check_terms(joint_terms)
    base = base_for_terms(model, terms, base)
    compiled = compiled_base_regressor(model, base, terms)

    def log_condition(x: Array) -> float:
        """Return the logarithm of the condition number of the regressor for coefficients x."""
        Y = compiled(*limits.motion(x)).reshape(-1, len(base))
        # einsum, because threads of BLAS take longer than the product of these small matrices
        sizes = np.linalg.eigvalsh(np.einsum("ki,kj->ij", Y, Y))
        return float(np.log(sizes[-1] / max(sizes[0], 1e-16 * sizes[-1])) / 2)

    def slope(x: Array, now: float) -> Array:
        step = 1e-6
        return np.array([(log_condition(x + step * e) - now) / step for e in np.eye(len(x))])

    rng = np.random.default_rng(seed)
    starts = rng.normal(size=(_STARTS, limits.size))
    x = min(starts, key=log_condition)

    def cost(x: Array) -> tuple[float, Array]:
        now = log_condition(x)
        return now, slope(x, now)

    minimize = module_of("scipy.optimize", "an excitation trajectory").minimize
    found = minimize(cost, x, jac=True, method="L-BFGS-B", options={"maxiter": iterations})
    best = min((x, found.x), key=log_condition)
    center, sine, cosine = limits.coefficients(best)
    return ExcitingMotion(period, center, sine, cosine, float(np.exp(log_condition(best))))


class LimitedSeries:
    """Fourier series that is scaled so that each joint motion just reaches its limits."""

    def __init__(
        self,
        model: Tree,
        period: float,
        harmonics: int,
        lower: ArrayLike,
        upper: ArrayLike,
        velocity: ArrayLike,
        acceleration: ArrayLike,
    ):
        if not 0 < number_of("the period", period) < np.inf:
            raise ValueError(f"the period must be positive, not {period} s")
        check_count("harmonics", harmonics)
        n = model.nv
        given = {"lower": lower, "upper": upper, "velocity": velocity, "acceleration": acceleration}
        arrays = {}
        for name, value in given.items():
            array = real_array(value, name)
            if array.shape not in ((), (n,)):
                raise ValueError(f"{name} has the shape {array.shape}; expected ({n},) or a scalar")
            arrays[name] = np.broadcast_to(array, n)
        low, high = arrays["lower"], arrays["upper"]
        if not (np.isfinite(low).all() and np.isfinite(high).all() and np.all(low < high)):
            raise ValueError(
                "the position limits must be finite, with lower below upper; got "
                f"{low.tolist()} and {high.tolist()}"
            )
        for name in ("velocity", "acceleration"):
            if not np.all(arrays[name] > 0):
                raise ValueError(f"{name} must be positive, not {arrays[name].tolist()}")
        self._middle, self._range = (low + high) / 2, high - low
        self._velocity, self._acceleration = arrays["velocity"], arrays["acceleration"]
        self._shape = (n, harmonics)
        grid = max(_GRID, _GRID_PER_HARMONIC * harmonics)
        fine = max(_FINE, _FINE_PER_HARMONIC * harmonics)
        self._phases = list(_phases(np.arange(grid) / grid, harmonics, period))
        self._fine = list(_phases(np.arange(fine) / fine, harmonics, period))
        self.size = 2 * n * harmonics

    def coefficients(self, x: Array) -> tuple[Array, Array, Array]:
        """Return the center (nv,), and the coefficients of sines and cosines (nv, harmonics).

        x contains the coefficients before they are scaled to the limits.
        """
        a, b = x.reshape(2, *self._shape)
        q, qd, qdd = (S @ a.T + C @ b.T for S, C in self._fine)
        top, bottom = q.max(axis=0), q.min(axis=0)
        used = [
            (top - bottom) / self._range,
            np.abs(qd).max(axis=0) / self._velocity,
            np.abs(qdd).max(axis=0) / self._acceleration,
        ]
        scale = _MARGIN / np.maximum(np.max(used, axis=0), 1e-12)
        center = self._middle - scale * (top + bottom) / 2
        return center, scale[:, None] * a, scale[:, None] * b

    def motion(self, x: Array) -> tuple[Array, Array, Array]:
        """Return positions, velocities and accelerations (n, nv) for unscaled coefficients x."""
        center, a, b = self.coefficients(x)
        q, qd, qdd = (S @ a.T + C @ b.T for S, C in self._phases)
        return center + q, qd, qdd
