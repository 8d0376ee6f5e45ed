"""Projected Gauss-Seidel with Coulomb's cone, plain and accelerated as in `RigidContactPlant`.

Nonlinear conjugate gradients accelerate the Gauss-Seidel sweeps (Silcowitz-Hansen, Niebe and
Erleben 2010); for trees, direct solutions complement the sweeps. `contact_together` contains the
direct solution of all free bodies.
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
    start_impulses,
    velocities_after,
)
from scipy.sparse import csc_array, eye_array
from solver_problems import Problem

ENOUGH, LATER = 1e-5, 1e-4  # as in c/contact, also the next constants
COMPLIANCE, TWICE, PATIENT, CIRCLING, LEAST_FOLLOWING = 1e-3, 2, 32, 100.0, 0.125


class Sweep(NamedTuple):
    """State after a sweep: impulses p (n, 3), velocities z (nv,) and friction limits (n,).

    `change` is the largest velocity change of the sweep.
    """

    p: np.ndarray
    z: np.ndarray
    limit: np.ndarray
    change: float


Found = tuple[Sweep, float] | None  # result of another solver and its multiply-adds
Turn = Callable[[int, Sweep], Found]


class Rows(NamedTuple):
    """Rows of each contact in Y: column indices, values (3, m), and minimum normal velocity."""

    at: list[np.ndarray]
    Y: list[np.ndarray]
    least: np.ndarray


def rows_of(problem: Problem) -> Rows:
    at, Y = [], []
    for k in range(problem.n):
        row = problem.Y[3 * k : 3 * k + 3]
        at.append(np.unique(row.indices))
        Y.append(row[:, at[-1]].toarray())
    return Rows(at, Y, problem.least[::3])


def initial_sweep(problem: Problem, p: np.ndarray) -> Sweep:
    """Return the state before the first sweep."""
    return Sweep(p, velocities_after(problem, p), problem.mu * p[:, 0], np.inf)


def impulse_without_limit(here: Local, k: int, p: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return the next impulse of contact k without the friction limit."""
    normal = max(p[0] - here.along[k] * u[0], 0.0)
    slip = u[1:] + here.W[k, 1:, 0] * (normal - p[0])
    return np.array([normal, *(p[1:] - here.across[k] * slip)])


def gauss_seidel_sweep(
    problem: Problem, here: Local, rows: Rows, was: Sweep, following: float = 1.0
) -> Sweep:
    """Return the state after a Gauss-Seidel sweep over all contacts.

    The friction limit follows the normal impulse with the relaxation factor `following`, as in
    `solve_force_rows` of c/contact/free_body_solver.h.
    """
    p, z, limit, most = was.p.copy(), was.z.copy(), was.limit.copy(), 0.0
    for k, (at, Y) in enumerate(zip(rows.at, rows.Y, strict=True)):
        u = Y @ z[at]
        u[0] -= rows.least[k]
        new = impulse_without_limit(here, k, p[k], u)
        limit[k] += following * (problem.mu * new[0] - limit[k])
        length = np.hypot(new[1], new[2])
        if length > limit[k]:
            new[1:] *= limit[k] / length
        step, behind = new - p[k], abs(problem.mu * new[0] - limit[k])
        p[k] = new
        z[at] += step @ Y
        across = max(abs(step[1]), abs(step[2]), behind) / here.across[k]
        most = max(most, abs(step[0]) / here.along[k], across)
    return Sweep(p, z, limit, most)


def gauss_seidel(problem: Problem, start: Start) -> Iterator[Iterate]:
    """Yield the iterates of plain Gauss-Seidel sweeps."""
    here, rows, work = local(problem), rows_of(problem), 0
    now = initial_sweep(problem, start_impulses(problem, start))
    while True:
        now, work = gauss_seidel_sweep(problem, here, rows, now), work + problem.unit
        yield Iterate(work, now.p, now.z)


class SearchDirection(NamedTuple):
    """Search direction: impulses, velocities, and the squared length of the last step."""

    p: np.ndarray
    z: np.ndarray
    squared: float


def no_way(now: Sweep) -> SearchDirection:
    return SearchDirection(0.0 * now.p, 0.0 * now.z, 0.0)


def extrapolate_sweep(
    way: SearchDirection, was: Sweep, after: Sweep
) -> tuple[SearchDirection, Sweep]:
    """Extrapolate a sweep along the conjugate direction of the previous sweeps.

    `extrapolate_sweep` of c/contact/contact_solver.h does the same.
    """
    step, z_step = after.p - was.p, after.z - was.z
    squared = float(np.sum(step * step))
    kept = squared / way.squared if 0.0 < way.squared >= squared else 0.0
    now = after._replace(p=after.p + kept * way.p, z=after.z + kept * way.z)
    return SearchDirection(kept * way.p + step, kept * way.z + z_step, squared), now


def conjugate(problem: Problem, start: Start) -> Iterator[Iterate]:
    """Yield the accelerated iterates for trees or for free bodies."""
    return (of_trees if problem.tree else of_free_bodies)(problem, start)


def no_direct_solution(_: int, __: Sweep) -> Found:
    """Return None, so that the solver uses no direct solution."""
    return None


def of_free_bodies(
    problem: Problem, start: Start, together: Turn = no_direct_solution
) -> Iterator[Iterate]:
    """Sweep over free bodies; if many sweeps do not halve the residual, relax the friction bounds.

    `rb_free_solver_relax` of c/contact/free_body_solver.h uses the same rule. After each sweep, a
    solution of `together` may replace the state.
    """
    here, rows, now = (
        local(problem),
        rows_of(problem),
        initial_sweep(problem, start_impulses(problem, start)),
    )
    way, last, following, sweeps, work = no_way(now), np.inf, 1.0, 0, 0.0
    much = CIRCLING * max(sweep_tolerance(problem), LATER * problem.moving)
    while True:
        after = gauss_seidel_sweep(problem, here, rows, now, following)
        sweeps, work = sweeps + 1, work + sweep_work(problem)
        yield Iterate(work, after.p, after.z)
        if sweeps % PATIENT == 0:
            if after.change > max(0.5 * last, much):
                following = max(LEAST_FOLLOWING, 0.5 * following)
            last = after.change
        found = together(sweeps, after)
        if found is None:
            way, now = extrapolate_sweep(way, now, after)
        else:
            now, way, work = found[0], no_way(after), work + found[1]


def sweep_tolerance(problem: Problem) -> float:
    """Return the tolerance of the velocity change in the last sweep [m/s]."""
    return ENOUGH * problem.fastest


def has_fast_bodies(problem: Problem) -> bool:
    """Return True if bodies move so fast that a larger tolerance applies after many sweeps."""
    return LATER * problem.moving > sweep_tolerance(problem)


def sweep_work(problem: Problem) -> float:
    """Return the multiply-adds of a sweep and its extrapolation."""
    return problem.unit + 2.0 * sum(problem.Y.shape)


def of_trees(problem: Problem, start: Start) -> Iterator[Iterate]:
    """Yield iterates for trees, with direct solutions before or after sweep 1, and after sweep 7.

    `rb_solve_impulses` of c/contact/contact_solver.h also applies a part of a direct solution, up
    to the first mode change, and tries the next one after one more sweep.
    """
    here, rows, now = (
        local(problem),
        rows_of(problem),
        initial_sweep(problem, start_impulses(problem, start)),
    )
    now, work, early = loaded_contact_solution(problem, here, now)
    way, sweeps = no_way(now), 0
    while True:
        after = gauss_seidel_sweep(problem, here, rows, now)
        sweeps, work = sweeps + 1, work + sweep_work(problem)
        yield Iterate(work, after.p, after.z)
        done = False
        if (sweeps == 1 and not early) or sweeps == 7:
            after, more, done = loaded_contact_solution(problem, here, after)
            work += more
        way, now = (no_way(after), after) if done else extrapolate_sweep(way, now, after)


def loaded_contact_solution(problem: Problem, here: Local, now: Sweep) -> tuple[Sweep, float, bool]:
    """Solve all loaded contacts directly, with two proximal iterations of a small compliance.

    Returns the state, the multiply-adds, and True if the contact modes stay valid, as in
    c/contact/contact_solver.h.
    """
    p, presses = now.p, now.p[:, 0] > 0.0
    if not presses.any():
        return now, 0.0, False
    sticks = presses & (np.linalg.norm(p[:, 1:], axis=1) < (1 - 1e-9) * problem.mu * p[:, 0])
    mobile = np.einsum("kii->ki", here.W)
    stiff = np.column_stack([presses, sticks, sticks]) / (COMPLIANCE * mobile)
    step, work = constrained_step(problem, now, stiff, TWICE)
    slides = presses & ~sticks
    step[slides, 1:] = p[slides, 1:] * (step[slides, 0] / p[slides, 0])[:, None]
    new = p + step
    inside = np.linalg.norm(new[:, 1:], axis=1) <= problem.mu * new[:, 0]
    if (new[presses, 0] <= 0.0).any() or not inside[sticks].all():
        return now, work, False
    return initial_sweep(problem, new), work, True


def constrained_step(
    problem: Problem, now: Sweep, stiff: np.ndarray, times: int
) -> tuple[np.ndarray, float]:
    """Return the impulse change (n, 3) that stops the constrained directions, and its work.

    `stiff` (n, 3) contains the inverse compliances, zero in free directions. `times` is the number
    of proximal iterations.
    """
    u, sum_x = problem.velocities(now.z), np.zeros_like(now.z)
    K = problem.Y.multiply(stiff.ravel()[:, None])
    factor = Factor.of(csc_array(eye_array(len(now.z)) + problem.Y.T @ K))
    x = K.T @ -u.ravel()
    for left in range(times, 0, -1):
        x = factor.solve(x)
        sum_x = sum_x + left * x
    work = gram_work(problem) + factor.work + times * factor.solve_work + 2 * problem.unit
    return stiff * (-times * u - (problem.Y @ sum_x).reshape(-1, 3)), work
