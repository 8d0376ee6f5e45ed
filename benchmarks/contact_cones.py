"""Solvers that treat all contacts together: ADMM, APGD, SAP and semismooth Newton.

Each solver uses the parameters of its publication. Projected gradients and ADMM scale the impulses
of each contact to unit mobility, which leaves the friction cones unchanged.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from contact_laws import (
    Factor,
    Iterate,
    Local,
    Start,
    gram_work,
    local,
    project_to_cone,
    project_to_disc,
    start_impulses,
    velocities_after,
)
from scipy.optimize import brentq
from scipy.sparse import csc_array, csr_array, eye_array
from solver_problems import Problem

PROXIMAL, TAU, POWER, FACTOR, RATIO = 1e-6, 0.5, 0.2, 0.05, 10.0  # as in Pinocchio's ADMM
POWERS = 20  # iterations of the power method
NEAR_RIGID, SIGMA, LONGEST = 1.0, 1e-3, 1.5  # parameters of SAP
REGULAR, SHORTEST, ARMIJO = 1e-8, 2.0**-10, 1e-4  # parameters of Newton's method


class Scaled(NamedTuple):
    """Problem in impulses x of unit mobility, p = scale x.

    Y is scaled, b (3n,) are the scaled velocities without impulses, and scale is (n, 1).
    """

    Y: csr_array
    b: np.ndarray
    scale: np.ndarray


def scaled(problem: Problem) -> Scaled:
    scale = np.sqrt(3.0 / np.einsum("kii->k", problem.blocks()))
    each = np.repeat(scale, 3)
    b = each * (problem.Y @ problem.z_free - problem.least)
    return Scaled(csr_array(problem.Y.multiply(each[:, None])), b, scale[:, None])


def iterate(problem: Problem, work: float, p: np.ndarray, rho: float | None = None) -> Iterate:
    return Iterate(work, p, velocities_after(problem, p), rho)


def largest_eigenvalue(Y: csr_array, rounds: int = POWERS) -> float:
    """Return the largest eigenvalue of Y Y^T by the power method."""
    x = np.random.default_rng(0).normal(size=Y.shape[0])
    for _ in range(rounds):
        x = Y @ (Y.T @ (x / np.linalg.norm(x)))
    return float(np.linalg.norm(x))


def de_saxce(u: np.ndarray, mu: float) -> np.ndarray:
    """Return De Saxce's correction (3n,) of u (3n,): mu |u_t| along the normals."""
    shift = np.zeros((len(u) // 3, 3))
    shift[:, 0] = mu * np.linalg.norm(u.reshape(-1, 3)[:, 1:], axis=1)
    return shift.ravel()


def projected(problem: Problem, x: np.ndarray) -> np.ndarray:
    return project_to_cone(x.reshape(-1, 3), problem.mu).ravel()


class RegularizedSolver(NamedTuple):
    """Solver that multiplies by (Y Y^T + c I)^-1, with a factorization of c I + Y^T Y."""

    Y: csr_array
    c: float
    factor: Factor

    @classmethod
    def of(cls, Y: csr_array, c: float) -> "RegularizedSolver":
        return cls(Y, c, Factor.of(csc_array(c * eye_array(Y.shape[1]) + Y.T @ Y)))

    def solve(self, r: np.ndarray) -> np.ndarray:
        return (r - self.Y @ self.factor.solve(self.Y.T @ r)) / self.c


class AdmmState(NamedTuple):
    """State of ADMM: free impulses x, impulses y in the cones, and multipliers z (velocities)."""

    x: np.ndarray
    y: np.ndarray
    z: np.ndarray


def admm_step(
    problem: Problem, damped: RegularizedSolver, b: np.ndarray, was: AdmmState, step: float
) -> AdmmState:
    """Return the next state of ADMM with the penalty `step`."""
    pull = step * was.y + PROXIMAL * was.x + was.z - b - de_saxce(was.z, problem.mu)
    x = damped.solve(pull)
    y = projected(problem, x - was.z / step)
    return AdmmState(x, y, was.z - step * (x - y))


def adapt_penalty(rho: float, factor: float, was: AdmmState, now: AdmmState) -> float:
    """Return the penalty, adapted if the primal and the dual residual differ by a factor of ten."""
    primal = np.abs(now.x - now.y).max()
    dual = np.abs(PROXIMAL * (now.x - was.x) + TAU * rho * (now.y - was.y)).max()
    if primal > RATIO * dual:
        return rho * factor
    return rho / factor if dual > RATIO * primal else rho


def admm(problem: Problem, start: Start) -> Iterator[Iterate]:
    """Yield the iterates of ADMM.

    The initial penalty is computed from the extreme eigenvalues: sqrt(L m) (L / m)^0.2. Factors of
    (L / m)^0.05 adapt the penalty to the primal and dual residuals.
    """
    Y, b, scale = scaled(problem)
    largest, x = largest_eigenvalue(Y), (start_impulses(problem, start) / scale).ravel()
    condition, z = largest / PROXIMAL, Y @ (Y.T @ x) + b
    rho = np.sqrt(largest * PROXIMAL) * condition**POWER if start is None else start.rho
    now, damped = (
        AdmmState(x, x, z + de_saxce(z, problem.mu)),
        RegularizedSolver.of(Y, PROXIMAL + TAU * rho),
    )
    work = (POWERS + 1) * problem.unit + gram_work(problem) + damped.factor.work
    while True:
        was, now = now, admm_step(problem, damped, b, now, TAU * rho)
        work += problem.unit + damped.factor.solve_work + 8 * x.size
        yield iterate(problem, work, now.y.reshape(-1, 3) * scale, rho)
        new = adapt_penalty(rho, condition**FACTOR, was, now)
        if new != rho:
            rho, damped = new, RegularizedSolver.of(Y, PROXIMAL + TAU * new)
            work += damped.factor.work


class Descent(NamedTuple):
    """Projected gradient step: the new x, G x, the Lipschitz constant and the number of trials."""

    x: np.ndarray
    Gx: np.ndarray
    L: float
    tries: int


def gradient_step(
    problem: Problem, G: Callable[[np.ndarray], np.ndarray], b: np.ndarray, y: np.ndarray,
    Gy: np.ndarray, L: float
) -> Descent:  # fmt: skip
    """Return the projected gradient step at y; L doubles until the quadratic bound holds."""
    gradient, energy, tries = Gy + b, y @ (0.5 * Gy + b), 1
    while True:
        x = projected(problem, y - gradient / L)
        Gx, step = G(x), x - y
        bound = energy + gradient @ step + 0.5 * L * (step @ step)
        if x @ (0.5 * Gx + b) <= bound + 1e-14 * abs(energy):
            return Descent(x, Gx, L, tries)
        L, tries = 2.0 * L, tries + 1


def apgd(problem: Problem, start: Start) -> Iterator[Iterate]:
    """Yield the iterates of APGD with backtracking and adaptive restart of the momentum."""
    Y, b, scale = scaled(problem)

    def G(x: np.ndarray) -> np.ndarray:
        return Y @ (Y.T @ x)

    x = y = (start_impulses(problem, start) / scale).ravel()
    Gx = Gy = G(x)
    L, theta = np.linalg.norm(G(x - 1.0)) / np.linalg.norm(x - 1.0), 1.0
    work = 2.0 * problem.unit
    while True:
        found, gradient = gradient_step(problem, G, b, y, Gy, L), Gy + b
        next_theta = 0.5 * theta * (np.sqrt(theta**2 + 4.0) - theta)
        beta = theta * (1.0 - theta) / (theta**2 + next_theta)
        if gradient @ (found.x - x) > 0.0:
            beta, next_theta = 0.0, 1.0
        y, Gy = found.x + beta * (found.x - x), found.Gx + beta * (found.Gx - Gx)
        x, Gx, L, theta = found.x, found.Gx, 0.9 * found.L, next_theta
        work += found.tries * (problem.unit + 4 * x.size) + 3 * x.size
        yield iterate(problem, work, x.reshape(-1, 3) * scale)


class Compliance(NamedTuple):
    """Compliance (n,) along the normals and along the tangents."""

    along: np.ndarray
    across: np.ndarray


def sap_compliance(here: Local, part: float = 1.0) -> Compliance:
    """Return SAP's near-rigid compliance for the fraction `part` of the mean mobilities."""
    mean = part * np.linalg.norm(here.W, axis=(1, 2)) / 3
    return Compliance(NEAR_RIGID**2 / (4 * np.pi**2) * mean, SIGMA * mean)


def compliant_impulses(problem: Problem, R: Compliance, u: np.ndarray) -> np.ndarray:
    """Return the projection of -R^-1 u onto the cone in the norm of R."""
    y = -u / np.column_stack([R.along, R.across, R.across])
    mu, hat = problem.mu, problem.mu * R.across / R.along
    length = np.linalg.norm(y[:, 1:], axis=1)
    sliding = np.maximum(y[:, 0] + hat * length, 0.0) / (1 + mu * hat)
    normal = np.where(length <= mu * y[:, 0], y[:, 0], sliding)
    return np.column_stack([normal, project_to_disc(y[:, 1:], mu * normal)])


def compliance_jacobian(problem: Problem, R: Compliance, u: np.ndarray) -> np.ndarray:
    """Return the negative Jacobian (n, 3, 3) of the compliant impulses with respect to u."""
    inverse = 1.0 / np.column_stack([R.along, R.across, R.across])
    y, mu, hat = -u * inverse, problem.mu, problem.mu * R.across / R.along
    length = np.linalg.norm(y[:, 1:], axis=1)
    sticks = length <= mu * y[:, 0]
    slides = ~sticks & (y[:, 0] > -hat * length)
    slope = np.where(sticks[:, None, None], np.eye(3), 0.0)
    t, hat, part = y[slides, 1:] / length[slides, None], hat[slides], 1.0 / (1 + mu * hat[slides])
    normal = part * (y[slides, 0] + hat * length[slides])
    along = part[:, None] * np.column_stack([np.ones(len(t)), hat[:, None] * t])
    turning = (mu * normal / length[slides])[:, None, None] * (
        np.eye(2) - t[:, :, None] * t[:, None]
    )
    slope[slides, 0] = along
    slope[slides, 1:] = mu * t[:, :, None] * along[:, None]
    slope[slides, 1:, 1:] += turning
    return slope * inverse[:, None]


def blocks_times(blocks: np.ndarray, Y: csr_array) -> csr_array:
    """Return the block (3, 3) of each contact times its rows of Y."""
    n = len(blocks)
    at = 3 * np.arange(n)[:, None] + np.arange(3)
    i, j = np.broadcast_arrays(at[:, :, None], at[:, None])
    return csr_array((blocks.ravel(), (i.ravel(), j.ravel())), shape=(3 * n, 3 * n)) @ Y


def bracketed_root(slope: Callable[[float], float]) -> tuple[float, int]:
    """Return the root of an increasing function, at most LONGEST, and the number of evaluations."""
    if slope(LONGEST) <= 0.0:
        return LONGEST, 1
    if slope(0.0) >= 0.0:
        return 0.0, 2
    root, reported = brentq(slope, 0.0, LONGEST, xtol=1e-14, rtol=1e-8, full_output=True)
    return root, reported.function_calls


def sap(problem: Problem, start: Start, part: float = 1.0) -> Iterator[Iterate]:
    """Yield the iterates of SAP: Newton's method for a convex function of the velocities.

    The line search is exact. The start is the velocity of the previous step or the free velocity.
    """
    Y, R, work = problem.Y, sap_compliance(local(problem), part), 0.0
    z = problem.z_free if start is None else start.z
    while True:
        u = problem.velocities(z)
        p = compliant_impulses(problem, R, u)
        yield Iterate(work, p, z)
        H = eye_array(len(z)) + Y.T @ blocks_times(compliance_jacobian(problem, R, u), Y)
        factor = Factor.of(csc_array(H))
        dz = factor.solve(velocities_after(problem, p) - z)
        du = (Y @ dz).reshape(-1, 3)

        def slope(a: float, z=z, u=u, dz=dz, du=du) -> float:
            pushed = np.sum(compliant_impulses(problem, R, u + a * du) * du)
            return float(dz @ (z + a * dz - problem.z_free) - pushed)

        length, calls = bracketed_root(slope)
        z = z + length * dz
        work += gram_work(problem) + factor.work + factor.solve_work + problem.unit
        work += calls * 5 * p.size


class Nonsmooth(NamedTuple):
    """Alart and Curnier's function F (n, 3) [N s], and its Jacobians (n, 3, 3) for u and p."""

    F: np.ndarray
    by_u: np.ndarray
    by_p: np.ndarray


def impulse_rates(here: Local) -> np.ndarray:
    """Return the impulses (n, 3) per unit of velocity."""
    return np.column_stack([here.along, here.across, here.across])


def project_to_half_line_and_disc(x: np.ndarray, mu: float) -> np.ndarray:
    """Project x (n, 3): normals to [0, inf), tangents to the disc of radius mu times the normal."""
    normal = np.maximum(x[:, 0], 0.0)
    return np.column_stack([normal, project_to_disc(x[:, 1:], mu * normal)])


def projection_jacobian(x: np.ndarray, mu: float) -> np.ndarray:
    """Return the derivative (n, 3, 3) of `project_to_half_line_and_disc`."""
    presses, length = x[:, 0] > 0.0, np.linalg.norm(x[:, 1:], axis=1)
    slides = length > mu * np.maximum(x[:, 0], 0.0)
    safe = np.where(slides, length, 1.0)[:, None]
    t, part = x[:, 1:] / safe, mu * np.maximum(x[:, :1], 0.0) / safe
    turning = part[:, :, None] * (np.eye(2) - t[:, :, None] * t[:, None])
    kept = np.zeros((len(x), 3, 3))
    kept[:, 0, 0] = presses
    kept[:, 1:, 1:] = np.where(slides[:, None, None], turning, np.eye(2))
    kept[:, 1:, 0] = np.where((slides & presses)[:, None], mu * t, 0.0)
    return kept


def alart_curnier(problem: Problem, here: Local, p: np.ndarray, u: np.ndarray) -> Nonsmooth:
    """Return F = p - proj(p - rate u), with `project_to_half_line_and_disc`, and its Jacobians."""
    x = p - impulse_rates(here) * u
    kept = projection_jacobian(x, problem.mu)
    F = p - project_to_half_line_and_disc(x, problem.mu)
    return Nonsmooth(F, kept * impulse_rates(here)[:, None], np.eye(3) - kept)


def armijo(misfit: Callable[[float], float]) -> tuple[float, int]:
    """Return the step length 1, 1/2, ... of Armijo's rule, and the number of evaluations."""
    before, length, calls = misfit(0.0), 1.0, 2
    while misfit(length) > (1 - 2 * ARMIJO * length) * before and length > SHORTEST:
        length, calls = length / 2, calls + 1
    return length, calls


class Direction(NamedTuple):
    """Newton direction: changes of impulses and contact velocities (n, 3), and multiply-adds."""

    dp: np.ndarray
    du: np.ndarray
    work: float


def direction(problem: Problem, now: Nonsmooth) -> Direction:
    """Return the direction of Newton's method.

    A compliance in the matrix, but not in the right-hand side, distributes redundant impulses.
    """
    Y, inverse = problem.Y, np.linalg.inv(now.by_p + REGULAR * np.eye(3))
    held, free = blocks_times(inverse @ now.by_u, Y), -np.einsum("kij,kj->ki", inverse, now.F)
    factor = Factor.of(csc_array(eye_array(Y.shape[1]) + Y.T @ held), symmetric=False)
    dz = factor.solve(Y.T @ free.ravel())
    work = 2 * gram_work(problem) + factor.work + factor.solve_work + 2 * problem.unit
    return Direction(free - (held @ dz).reshape(-1, 3), (Y @ dz).reshape(-1, 3), work)


def newton(problem: Problem, start: Start) -> Iterator[Iterate]:
    """Yield the iterates of the semismooth Newton method.

    The line search decreases the sum of the squared residuals, expressed as velocities.
    """
    here, work, p = local(problem), 0.0, start_impulses(problem, start)
    while True:
        u = problem.velocities(velocities_after(problem, p))
        dp, du, more = direction(problem, alart_curnier(problem, here, p, u))

        def misfit(a: float, p=p, u=u, dp=dp, du=du) -> float:
            F = alart_curnier(problem, here, p + a * dp, u + a * du).F
            return float(np.sum((F / impulse_rates(here)) ** 2))

        length, calls = armijo(misfit)
        p, work = p + length * dp, work + more + 5 * p.size * calls
        yield iterate(problem, work, p)
