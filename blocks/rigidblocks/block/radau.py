"""Collocation step (Radau IIA) with simplified Newton iterations for the stages.

`c/kernel/collocation.h` implements the same arithmetic in the same order.

References:
    Hairer and Wanner, Solving Ordinary Differential Equations II, section IV.8.
    Hairer and Wanner, Stiff differential equations solved by Radau methods, 1999.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rigidblocks.block.adaptive_methods import MethodCosts, round_to_nine_bits
from rigidblocks.block.integrators import Collocation, Integrator
from rigidblocks.spatial.linear_algebra import linear_solver
from rigidblocks.spatial.spatial import Array

Rates = Callable[[Any, Array], Array]
Jacobian = Callable[[Any, Array], Array]  # df/dx (n, n) as a function of time and states
ErrorNorm = Callable[[Array, Array, Array], float]

# largest accepted stage error, divided by the tolerance, if Newton's method stops converging
LOOSE_TOLERANCE = 0.03
MAX_ITERATIONS = 10  # Newton iterations per step
MAX_CONTRACTION = 0.3  # contraction rate of Newton's method that limits the next step size
JACOBIAN_FRACTION = 0.75  # fraction of the step at which the Jacobian is evaluated
MAX_EXTRAPOLATION = 10.0  # step size ratio up to which the previous stages predict the next stages
INITIAL_CHANGE = 1e-3  # largest change of a state in the first step, relative to its magnitude


def newton_tolerance(rtol: float) -> float:
    """Return the stage error, relative to the integrator tolerance, at which Newton's method stops.

        min(max(1e-12 / rtol, 1e-5), LOOSE_TOLERANCE)

    With this tolerance, the stage error is about 1e-12 of the magnitude of a state. A block has
    implementations in C, in NumPy and in traced form. Because of rounding, one of them may need one
    more iteration than another. Their results then differ by about this stage error.
    """
    return min(max(1e-12 / rtol, 1e-5), LOOSE_TOLERANCE)


@dataclass(frozen=True, eq=False)
class CollocationStart:
    """Data at the start of a collocation step.

    Attributes:
        t: Time [s].
        h: Step size [s].
        x: States (n,).
        f: Derivatives of the states (n,).
    """

    t: float
    h: float
    x: Array
    f: Array


class Stages:
    """Stages of collocation steps, and the data that one inner step passes to the next.

        z_i = h sum_j a_ij f(t + c_j h, x + z_j)

    a_ij and c_j are the coefficients of a method with s stages, and f(t, x) are the derivatives of
    the n states x. The step has the size h.

    Args:
        method: Collocation method.
        error_norm: Function (e, x, y) that returns an error, divided by the tolerance.
        tolerance: Stage error at which Newton's method stops, divided by the integrator tolerance.
        costs: Costs of the operations in a step.

    Attributes:
        spent: Cost of the current step [evaluations of the state derivatives].
        z: Stages of the current step (s, n).
        J: Jacobian (n, n); None if it must be evaluated.
        is_fresh: True if J was evaluated in this step.
        factored: Step size for which the stored matrix factors are valid [s].
        last: Stages of the previous step (s, n).
        last_length: Size of the previous step [s]; 0 for the first step.
        rest: Bound of the remaining stage error, divided by the norm of the last Newton increment.
        rate: Contraction rate of Newton's method.
        contraction: Contraction rate of the first two iterations, where rounding errors are small.
    """

    def __init__(
        self, method: Integrator, error_norm: ErrorNorm, tolerance: float, costs: MethodCosts
    ):
        assert method.collocation is not None
        self.data: Collocation = method.collocation
        self.a, self.c = method.a, method.c
        self.error_norm, self.tolerance = error_norm, tolerance
        self.costs, self.spent = costs, 0.0
        self.z: Array = np.zeros(0)
        self.last = self.z
        self.forget()

    def forget(self) -> None:
        """Discard the Jacobian, the factors and the stages of previous steps.

        Callers use this function after a method switch or an event.
        """
        self.J: Array | None = None
        self.is_fresh = False
        self.factored = 0.0
        self.last_length, self.rest, self.rate, self.tries = 0.0, 1.0, 0.0, 0
        self.contraction = 0.0

    def attempt(
        self, start: CollocationStart, rates: Rates, jacobian: Jacobian
    ) -> tuple[float, Array]:
        """Take a trial step, and estimate its error.

        Args:
            start: Start of the step.
            rates: Function (t, x) that returns the state derivatives (n,).
            jacobian: Function (t, x) that returns the Jacobian df/dx (n, n).

        Returns:
            Error, divided by the tolerance, and states at the end of the step (n,). If Newton's
            method does not converge, the error is 16, which halves the step size.
        """
        if start.h > MAX_EXTRAPOLATION * self.last_length:
            self.last_length, self.rest = 0.0, 1.0
        while True:
            if self.J is None:
                self._evaluate_jacobian(start, jacobian)
            if self._solve_stages(start, rates):
                break
            self.J = None
            if self.is_fresh:
                return 16.0, start.x
        y = start.x + self.z[-1]
        error = self._error(start, y)
        if error > 1.0 and not self.is_fresh:
            self.J = None
        return error, y

    def keep(self, h: float, proposed: float) -> float:
        """Store the data of an accepted step for the next step.

        Args:
            h: Accepted step size [s].
            proposed: Next step size according to the error estimate [s].

        Returns:
            Next step size [s]: `proposed`, limited by the contraction rate of Newton's method. If
            the Jacobian is reused, and the limited value is from h to 1.2 h, the next step size is
            h. This avoids a new factorization.
        """
        self.last, self.last_length, self.is_fresh = self.z, h, False
        if self.contraction > 1e-3:
            self.J = None
        if self.contraction * proposed > MAX_CONTRACTION * h:
            proposed = round_to_nine_bits(MAX_CONTRACTION * h / self.contraction)
        return h if self.J is not None and h <= proposed < 1.2 * h else proposed

    def _solve_stages(self, start: CollocationStart, rates: Rates) -> bool:
        """Compute the stages of a step from `start`; return True if Newton's method converges."""
        self._factorize(start.h)
        self.z, previous_norm = np.array([self._predict(c, start) for c in self.c]), 0.0
        self.rest = float(np.sqrt(self.rest) * np.sqrt(np.sqrt(self.rest)))
        self.rate = self.contraction = 0.0
        for self.tries in range(1, MAX_ITERATIONS + 1):
            self.spent += self.costs.newton
            dz = self._newton_step(start, rates)
            norm = max(self.error_norm(one, start.x, start.x) for one in dz)
            self.z = self.z + dz
            if not norm < np.inf:
                return False
            if self.tries > 1 and not self._converges(norm, previous_norm):
                return self.is_fresh and self.rest * norm <= LOOSE_TOLERANCE
            if self.rest * norm <= self.tolerance:
                return True
            previous_norm = norm
        return False

    def _converges(self, norm: float, previous_norm: float) -> bool:
        """Return True if the norms of the last two Newton increments predict convergence.

        The predicted number of iterations must not exceed MAX_ITERATIONS.
        """
        self.rate = norm / previous_norm
        if self.tries == 2:
            self.contraction = self.rate
        if self.rate >= 0.99:
            self.rest = 1.0
            return False
        self.rest = max(self.rate / (1.0 - self.rate), 1e-16)
        left = self.rest * norm
        for _ in range(self.tries, MAX_ITERATIONS):
            left *= self.rate
        return left <= self.tolerance

    def _factorize(self, h: float) -> None:
        """Factorize the matrix 1 - h root J for each eigenvalue `root` in `Collocation.roots`.

        J (n, n) is the stored Jacobian of the state derivatives. If the factors for the step size h
        [s] are already stored, the function does nothing.
        """
        if self.factored == h:
            return
        assert self.J is not None
        self.factored = h
        self.spent += self.costs.factors
        first, *pairs = self.data.roots
        one = np.eye(len(self.J))
        self.real = linear_solver(one - (h * first.real) * self.J)
        self.pairs = [
            _ComplexFactors(one - (h * root.real) * self.J, -(h * root.imag) * self.J)
            for root in pairs
        ]

    def _evaluate_jacobian(self, start: CollocationStart, jacobian: Jacobian) -> None:
        """Evaluate the Jacobian at the states predicted for JACOBIAN_FRACTION of the step.

        Most stages are nearer to these states than to the states at the start of the step. Newton's
        method therefore needs fewer iterations than with the Jacobian at the start. If no previous
        step is stored, the function evaluates the Jacobian at the start.
        """
        fraction = JACOBIAN_FRACTION if self.last_length > 0.0 else 0.0
        x = self._predict(fraction, start) + start.x
        self.spent += self.costs.jacobian
        self.J = jacobian(start.t + fraction * start.h, x)
        self.is_fresh, self.factored = True, 0.0

    def _predict(self, fraction: float, start: CollocationStart) -> Array:
        """Predict the states within a new step from the Lagrange polynomial of the previous step.

        Args:
            fraction: Fraction of the new step at which the states are predicted.
            start: Start of the new step.

        Returns:
            Predicted change of the states (n,) since the start of the new step; 0 if no previous
            step is stored.
        """
        if self.last_length == 0.0:
            return np.zeros(len(start.x))
        nodes = np.concatenate([[0.0], self.c])
        z: Array = -self.last[-1]
        s = 1.0 + fraction * start.h / self.last_length
        for j in range(1, len(nodes)):
            weight = 1.0
            for k, node in enumerate(nodes):
                weight *= 1.0 if k == j else (s - node) / (nodes[j] - node)
            z = z + weight * self.last[j - 1]
        return z

    def _newton_step(self, start: CollocationStart, rates: Rates) -> Array:
        """Return the Newton increments (s, n) of all stages of the step that begins at `start`."""
        f = [rates(start.t + c * start.h, start.x + z) for c, z in zip(self.c, self.z, strict=True)]
        missing = [
            start.h * _weighted_sum(row, f) - z for row, z in zip(self.a, self.z, strict=True)
        ]
        w = [_weighted_sum(row, missing) for row in self.data.to_modal]
        w[0] = self.real(w[0])
        for k, pair in enumerate(self.pairs):
            w[1 + 2 * k : 3 + 2 * k] = pair.solve(*w[1 + 2 * k : 3 + 2 * k])
        return np.array([_weighted_sum(row, w) for row in self.data.from_modal])

    def _error(self, start: CollocationStart, y: Array) -> float:
        """Return the error of a step from `start` to the states y (n,), divided by the tolerance.

        The error estimate is the difference to a method of order 5. The filter (1 - h root J)^-1
        removes fast decaying modes from the estimate, where `root` is the real eigenvalue in
        `Collocation.roots`. A second application of the filter would also remove fast oscillations,
        for example of a stiff contact.
        """
        e = start.h * self.data.roots[0].real * start.f + _weighted_sum(self.data.error, self.z)
        return self.error_norm(self.real(e), start.x, y)


class _ComplexFactors:
    """LU factors of the complex matrix re + i im (n, n), computed with partial pivoting."""

    def __init__(self, re: Array, im: Array):
        self.re, self.im = re.copy(), im.copy()
        self.rows: list[int] = []
        for j in range(len(re)):
            self._eliminate(self.re, self.im, j)

    def _eliminate(self, re: Array, im: Array, j: int) -> None:
        """Eliminate column j of re + i im in place, and replace the pivot by its inverse."""
        row = j + int(np.argmax(np.abs(re[j:, j]) + np.abs(im[j:, j])))
        self.rows.append(row)
        for part in (re, im):
            part[[j, row], j:] = part[[row, j], j:]
        size = re[j, j] * re[j, j] + im[j, j] * im[j, j]
        a, b = re[j, j] / size, -im[j, j] / size
        p, q = re[j + 1 :, j] * a - im[j + 1 :, j] * b, re[j + 1 :, j] * b + im[j + 1 :, j] * a
        re[j + 1 :, j], im[j + 1 :, j] = p, q
        right = slice(j + 1, None)
        re[right, right], im[right, right] = (
            re[right, right] - (np.outer(p, re[j, right]) - np.outer(q, im[j, right])),
            im[right, right] - (np.outer(p, im[j, right]) + np.outer(q, re[j, right])),
        )
        re[j, j], im[j, j] = a, b

    def solve(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Solve (re + i im) z = a + i b; return the real and the imaginary part of z (n,)."""
        a, b, (re, im) = a.copy(), b.copy(), (self.re, self.im)
        for j, row in enumerate(self.rows):
            a[[j, row]], b[[j, row]] = a[[row, j]], b[[row, j]]
            self._subtract_column(a, b, j, slice(j + 1, None))
        for j in reversed(range(len(a))):
            a[j], b[j] = a[j] * re[j, j] - b[j] * im[j, j], a[j] * im[j, j] + b[j] * re[j, j]
            self._subtract_column(a, b, j, slice(0, j))
        return a, b

    def _subtract_column(self, a: Array, b: Array, j: int, rows: slice) -> None:
        """Update the elements `rows` of v = a + i b in place: v -= (column j of factors) v_j."""
        re, im = self.re[rows, j], self.im[rows, j]
        a[rows], b[rows] = a[rows] - (re * a[j] - im * b[j]), b[rows] - (re * b[j] + im * a[j])


def _weighted_sum(weights: Iterable[float], values: Iterable[Array]) -> Array:
    total: Array = sum((w * v for w, v in zip(weights, values, strict=True)), start=np.zeros(1))
    return total
