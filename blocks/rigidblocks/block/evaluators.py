"""Evaluators of a block's functions, Jacobians by finite differences, and failure diagnosis.

An evaluator computes the functions of a block from its memory vector. Some evaluators call the
NumPy functions of the block, some run its graphs, and some evaluate its inputs as polynomials of
time. Steppers call only evaluators and do not depend on the implementation of the block.
"""

import abc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.adaptive_methods import EIGENVALUE, MAX_TRIES, Method, nominal_values
from rigidblocks.block.block import Block, Port, argument_names, computed_outputs, flatten, record
from rigidblocks.block.external_functions import StagedBlock
from rigidblocks.block.integrators import Integrator
from rigidblocks.block.memory_layout import Memory, assign
from rigidblocks.common.optional_imports import install_command
from rigidblocks.spatial.spatial import Array

ExactJacobian = Callable[[Array], tuple[Array, Array]]
"""Function that returns df/dx (n, n) and df/dt (n,) for a memory vector."""

MAX_INPUT_ORDER = 3
"""Degree of input polynomials within a communication step."""

STATE_INCREMENT = 2.0**-26
"""Relative increment of a state for finite differences, about the square root of the precision."""

TIME_INCREMENT = 2.0**-20
"""Increment of time for finite differences, relative to the step size."""

TIME_ROUNDING = 2.0**-50
"""Smallest increment of time for finite differences, relative to the time."""

STABILITY_EDGE = 2.0
"""Value of h |lambda| above which explicit fixed steps count as unstable; RK4 is stable to 2.8."""


class Evaluator(abc.ABC):
    """Base class of evaluators, which compute the functions of a block from its memory vector m.

    All methods are pure functions, and m may be traced. The block has n continuous states, nz
    sampled states and ny computed outputs.
    """

    memory: Memory

    @property
    @abc.abstractmethod
    def has_projection(self) -> bool:
        """True if the block projects its continuous states onto constraints."""

    @property
    @abc.abstractmethod
    def switching_count(self) -> int:
        """Number of the block's switching functions."""

    @abc.abstractmethod
    def derivative(self, m: Array) -> Array:
        """Return the derivatives of the continuous states (n,)."""

    @abc.abstractmethod
    def jacobian(self, m: Array) -> tuple[Array, Array]:
        """Return the exact derivatives df/dx (n, n) and df/dt (n,) of the function `derivative`.

        Raises:
            ValueError: The evaluator has no exact derivatives.
        """

    @abc.abstractmethod
    def project(self, m: Array) -> Array:
        """Return the continuous states (n,) projected onto their constraints."""

    @abc.abstractmethod
    def switching_functions(self, m: Array) -> Array:
        """Return the switching functions (k,), whose signs select the block's equations."""

    @abc.abstractmethod
    def initial(self, m: Array) -> Array:
        """Return the sampled states (nz,) after initialization."""

    @abc.abstractmethod
    def update(self, m: Array) -> Array:
        """Return the sampled states (nz,) after a sample instant."""

    @abc.abstractmethod
    def output(self, m: Array) -> Array:
        """Return the computed outputs (ny,)."""

    def freeze_inputs(self, t: float) -> "Evaluator":
        """Return an evaluator with constant inputs, equal to the inputs at time t [s].

        The base class returns the evaluator itself, because held inputs are constant.
        """
        del t
        return self


@dataclass(frozen=True, eq=False)
class NumpyEvaluator(Evaluator):
    """Evaluator that calls the NumPy functions of the block.

    Args:
        memory: Memory layout of the block.
        exact_jacobian: Function that returns df/dx and df/dt for implicit methods
            (`kernels.traced_evaluator.numpy_evaluator`). None: `jacobian` raises an error.
    """

    memory: Memory
    exact_jacobian: ExactJacobian | None = None

    @cached_property
    def has_projection(self) -> bool:
        with np.errstate(all="ignore"):  # only the port names matter
            return bool(self._values("project", self.memory.start()))

    def derivative(self, m: Array) -> Array:
        return self._evaluate("derivative", self.memory.block.states, m)

    def jacobian(self, m: Array) -> tuple[Array, Array]:
        if self.exact_jacobian is None:
            raise ValueError(
                f"linearly implicit methods need the exact Jacobian of {self.memory.name}; if no "
                "compiled kernel is used, install CasADi "
                f"(`{install_command('casadi')}`) and use "
                "`kernels.compiled_stepper.numpy_stepper`, or choose an explicit method"
            )
        return self.exact_jacobian(m)

    def project(self, m: Array) -> Array:
        states = self.memory.block.states
        now = vars(record(states, m[self.memory.x]))
        return flatten(states, self._values("project", m), f"{self.memory.name}.project", now)

    @cached_property
    def switching_count(self) -> int:
        if type(self.memory.block).switching_functions is Block.switching_functions:
            return 0
        if isinstance(self.memory.block, StagedBlock):  # avoids the compilation of the C code
            block = self.memory.block.insert_stage_results(np.zeros(self.memory.block.stage_size))
            return NumpyEvaluator(replace(self.memory, block=block)).switching_count
        m = assign(self.memory.start(), self.memory.u, np.nan)  # zeros may be invalid inputs
        with np.errstate(all="ignore"):  # only the number of values matters
            return len(self.switching_functions(m))

    def switching_functions(self, m: Array) -> Array:
        return np.ravel(self._values("switching_functions", m))

    def initial(self, m: Array) -> Array:
        return self._evaluate("initial", self.memory.block.sampled, m)

    def update(self, m: Array) -> Array:
        return self._evaluate("update", self.memory.block.sampled, m)

    def output(self, m: Array) -> Array:
        return self._evaluate("output", computed_outputs(self.memory.block), m)

    def _evaluate(self, function: str, ports: Iterable[Port], m: Array) -> Array:
        return flatten(ports, self._values(function, m), f"{self.memory.name}.{function}")

    def _values(self, function: str, m: Array) -> Any:
        block = self.memory.block
        names = argument_names(getattr(type(block), function))
        return getattr(block, function)(**{name: self.memory.argument(name, m) for name in names})


# --- input polynomials ---


def evaluate_inputs(coefficients: Array, s: float) -> Array:
    """Return the values of input polynomials at a time, computed by Horner's rule.

        u = c_0 + c_1 s + c_2 s^2 + c_3 s^3

    Args:
        coefficients: Coefficients c_0 to c_3 of nu inputs (MAX_INPUT_ORDER + 1, nu).
        s: Time since the start of the polynomials [s].

    Returns:
        Inputs (nu,).
    """
    u: Array = np.zeros(coefficients.shape[1])
    for c in coefficients[::-1]:
        u = u * s + c
    return u


def mean_inputs(coefficients: Array, dt: float) -> Array:
    """Return the mean values (nu,) of input polynomials over a step dt [s].

        sum_k c_k dt^k / (k + 1)

    `coefficients` contains c_0 to c_3 (MAX_INPUT_ORDER + 1, nu).
    """
    mean: Array = sum((c * dt**k / (k + 1) for k, c in enumerate(coefficients)), start=np.zeros(1))
    return mean


@dataclass(frozen=True, eq=False)
class PolynomialInputEvaluator(Evaluator):
    """Evaluator of a block whose inputs are polynomials of time.

    `c/kernel/integrators.h` implements the same arithmetic in the same order.

    Args:
        inner: Evaluator of the block.
        coefficients: Input polynomials (MAX_INPUT_ORDER + 1, nu), see `evaluate_inputs`.
        t0: Start time of the polynomials [s].
        frozen_at: Time at which the inputs are evaluated [s]; None: the time in the memory vector.
    """

    inner: Evaluator
    coefficients: Array
    t0: float
    frozen_at: float | None = None

    @property
    def memory(self) -> Memory:  # type: ignore[override]
        """Memory layout of the block."""
        return self.inner.memory

    def freeze_inputs(self, t: float) -> Evaluator:
        return replace(self, frozen_at=t)

    @property
    def has_projection(self) -> bool:
        return self.inner.has_projection

    @property
    def switching_count(self) -> int:
        return self.inner.switching_count

    def derivative(self, m: Array) -> Array:
        return self.inner.derivative(self.insert_inputs(m))

    def jacobian(self, m: Array) -> tuple[Array, Array]:
        return self.inner.jacobian(self.insert_inputs(m))

    def project(self, m: Array) -> Array:
        return self.inner.project(self.insert_inputs(m))

    def switching_functions(self, m: Array) -> Array:
        return self.inner.switching_functions(self.insert_inputs(m))

    def initial(self, m: Array) -> Array:
        return self.inner.initial(self.insert_inputs(m))

    def update(self, m: Array) -> Array:
        return self.inner.update(self.insert_inputs(m))

    def output(self, m: Array) -> Array:
        return self.inner.output(self.insert_inputs(m))

    def insert_inputs(self, m: Array) -> Array:
        """Return the memory vector m with the values of the input polynomials at the time m[0].

        If `frozen_at` is set, the inputs have their values at the time `frozen_at`.
        """
        t: Any = m[0] if self.frozen_at is None else self.frozen_at
        return assign(m, self.memory.u, evaluate_inputs(self.coefficients, t - self.t0))


# --- finite differences ---


def finite_difference_jacobian(
    rates: Callable[[Any, Array], Array], t: Any, x: Array, h: float, f: Array, nominal: Array
) -> tuple[Array, Array]:
    """Return df/dx and df/dt of the state derivatives f by finite differences.

    The differences are one-sided. The increment of each state has the sign of its derivative.

    Args:
        rates: Function that returns the state derivatives f(t, x) (n,).
        t: Time [s].
        x: States (n,).
        h: Step size [s], which scales the time increment.
        f: State derivatives at (t, x) (n,).
        nominal: Nominal values of the states (n,), which scale the increments of states near zero.

    Returns:
        df/dx (n, n) and df/dt (n,).
    """
    later = t + max(TIME_INCREMENT * h, TIME_ROUNDING * abs(t))
    return state_jacobian(rates, t, x, f, nominal), (rates(later, x) - f) / (later - t)


def state_jacobian(
    rates: Callable[[Any, Array], Array], t: Any, x: Array, f: Array, nominal: Array
) -> Array:
    """Return the Jacobian df/dx (n, n) of the state derivatives by one-sided finite differences.

    The arguments are as in `finite_difference_jacobian`.
    """
    J = np.empty((len(x), len(x)))
    for j, value in enumerate(x):
        increment = STATE_INCREMENT * max(abs(value), nominal[j])
        moved = x.copy()
        moved[j] = value - increment if f[j] < 0.0 else value + increment
        J[:, j] = (rates(t, moved) - f) / (moved[j] - value)
    return J


# --- diagnosis of values that are not finite ---


def explain_divergence(memory: Memory, method: Method, h: float, m: Array) -> str:
    """Return the probable cause of non-finite values, as text for an error message.

    The text is empty if an input is not finite. For an adaptive method, the function checks for a
    singular configuration, then for stiffness. For an explicit fixed-step method, it first compares
    h |lambda| with the stability limit for two values of |lambda|. The first value is the spectral
    radius of the Jacobian at the start values. The second value is the largest absolute eigenvalue
    that `Block.modes` returns. For all fixed-step methods, the function then checks for a singular
    configuration.

    Args:
        memory: Memory layout of the block.
        method: Integration method of the run.
        h: Largest inner step [s].
        m: Memory vector with the values that are not finite.

    Returns:
        Explanation in parentheses, with a leading space, or "".
    """
    if not memory.block.states or not np.isfinite(m[memory.u]).all():
        return ""
    singular = "; ".join(memory.block.suspects(memory.argument("x", m)))
    if memory.steps:
        if singular:
            return f" ({singular})"
        return _explain_adaptive_failure(memory, float(m[memory.s][EIGENVALUE]))
    assert isinstance(method, Integrator)
    dominant, declared = spectral_radius(memory, m), _declared_eigenvalue(memory, m)
    if method.implicit is None and dominant * h > STABILITY_EDGE:
        return (
            f" (stiff: dominant eigenvalue about {dominant:.3g} 1/s at the start, h |lambda| = "
            f"{dominant * h:.3g}; '{method.name}' is stable only below about 2.8: use h < "
            f"{2.8 / dominant:.2g} s or method='adaptive or stiff')"
        )
    if method.implicit is None and declared * h > STABILITY_EDGE:
        return (
            f" (contacts, stops or springs have eigenvalues up to {declared:.3g} 1/s, h |lambda| = "
            f"{declared * h:.3g}: use h < {2.8 / declared:.2g} s or method='adaptive or stiff')"
        )
    if singular:
        return f" ({singular})"
    return (
        f" (steps up to {h:g} s may be too long{_singular_pose_hint(memory)}: use "
        "method='adaptive', or 'adaptive or stiff' for stiff blocks)"
    )


def _explain_adaptive_failure(memory: Memory, eigenvalue: float) -> str:
    """Return the probable cause of a failed adaptive step: stiffness or too many trial steps.

    `eigenvalue` is the estimated dominant eigenvalue [1/s] if the step detected stiffness, else 0.
    """
    if eigenvalue > 0:
        return (
            f" (the block seems to be stiff, dominant eigenvalue about {eigenvalue:.3g} 1/s: use "
            "method='stiff')"
        )
    return (
        f" (no inner step met the tolerance, or more than {MAX_TRIES:.0e} were "
        f"needed{_singular_pose_hint(memory)})"
    )


def _singular_pose_hint(memory: Memory) -> str:
    """Return a hint about singular configurations for an error message.

    The result is "" if the block has no loops, which means that it has no output 'condition'.
    """
    if "condition" not in memory.where:
        return ""
    return "; the loops may be near a singular configuration; check the output 'condition'"


def spectral_radius(memory: Memory, m: Array) -> float:
    """Return the spectral radius [1/s] of a block's Jacobian df/dx at the start values.

    Args:
        memory: Memory layout of the block.
        m: Memory vector with the inputs and parameters.

    Returns:
        max_i |lambda_i|; 0 if the Jacobian is not finite.
    """
    evaluator, start = NumpyEvaluator(memory), memory.start()
    start[memory.u], start[memory.p] = m[memory.u], m[memory.p]
    x, nominal = start[memory.x], nominal_values(memory.block.states)

    def rates(t: float, x: Array) -> Array:
        return evaluator.derivative(assign(assign(start, 0, t), memory.x, x))

    with np.errstate(all="ignore"):
        J, _ = finite_difference_jacobian(rates, 0.0, x, 1e-3, rates(0.0, x), nominal)
    return float(np.abs(np.linalg.eigvals(J)).max()) if np.isfinite(J).all() else 0.0


def _declared_eigenvalue(memory: Memory, m: Array) -> float:
    """Return the largest absolute value [1/s] of the declared eigenvalues (`Block.modes`)."""
    start = memory.start()
    start[memory.p] = m[memory.p]
    _, x, _, p = memory.records(start)
    return float(np.abs(memory.block.modes(x, p)).max(initial=0.0))
