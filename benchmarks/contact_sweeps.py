"""Projected Gauss-Seidel with Coulomb's cone, alone and with nonlinear conjugate gradients between
the sweeps (Silcowitz-Hansen, Niebe and Erleben 2010) and direct solves for trees, as in
`RigidContactPlant` but for what it solves together (`contact_together`).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from contact_laws import Factor, Iterate, Local, Start, begun, gram_work, local, moved
from scipy.sparse import csc_array, eye_array
from solver_problems import Problem

ENOUGH, LATER = 1e-5, 1e-4  # all as in c/contact
COMPLIANCE, TWICE, PATIENT, CIRCLING, LEAST_FOLLOWING = 1e-3, 2, 32, 100.0, 0.125


class Sweep(NamedTuple):
    """After a sweep: impulses (n, 3), velocities (nv,), limits of friction (n,), and the largest
    change of a velocity.
    """

    p: np.ndarray
    z: np.ndarray
    limit: np.ndarray
    change: float


Found = tuple[Sweep, float] | None  # where another solver goes on to, and its multiply-adds
Turn = Callable[[int, Sweep], Found]


class Rows(NamedTuple):
    """Of each contact its columns of Y, its rows (3, m) by them, and its least velocity."""

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


def first(problem: Problem, p: np.ndarray) -> Sweep:
    """What sweeps start from."""
    return Sweep(p, moved(problem, p), problem.mu * p[:, 0], np.inf)


def unlimited(here: Local, k: int, p: np.ndarray, u: np.ndarray) -> np.ndarray:
    """The next impulse of contact k without the limit of friction."""
    normal = max(p[0] - here.along[k] * u[0], 0.0)
    slip = u[1:] + here.W[k, 1:, 0] * (normal - p[0])
    return np.array([normal, *(p[1:] - here.across[k] * slip)])


def swept(problem: Problem, here: Local, rows: Rows, was: Sweep, following: float = 1.0) -> Sweep:
    """Each contact with all others as they are; the limit of friction follows the normal impulse by
    a part of what it is behind (`solve_light` of c/contact/free.h).
    """
    p, z, limit, most = was.p.copy(), was.z.copy(), was.limit.copy(), 0.0
    for k, (at, Y) in enumerate(zip(rows.at, rows.Y, strict=True)):
        u = Y @ z[at]
        u[0] -= rows.least[k]
        new = unlimited(here, k, p[k], u)
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
    """Sweeps alone."""
    here, rows, work = local(problem), rows_of(problem), 0
    now = first(problem, begun(problem, start))
    while True:
        now, work = swept(problem, here, rows, now), work + problem.unit
        yield Iterate(work, now.p, now.z)


class Way(NamedTuple):
    """What sweeps have come along: impulses, velocities, and the square of the last step."""

    p: np.ndarray
    z: np.ndarray
    squared: float


def no_way(now: Sweep) -> Way:
    return Way(0.0 * now.p, 0.0 * now.z, 0.0)


def gone_on(way: Way, was: Sweep, after: Sweep) -> tuple[Way, Sweep]:
    """On from a sweep along the way of those before, conjugate to it (`go_on` of
    c/contact/conjugate.h).
    """
    step, z_step = after.p - was.p, after.z - was.z
    squared = float(np.sum(step * step))
    kept = squared / way.squared if 0.0 < way.squared >= squared else 0.0
    now = after._replace(p=after.p + kept * way.p, z=after.z + kept * way.z)
    return Way(kept * way.p + step, kept * way.z + z_step, squared), now


def conjugate(problem: Problem, start: Start) -> Iterator[Iterate]:
    """Those of trees or of free bodies."""
    return (of_trees if problem.tree else of_free_bodies)(problem, start)


def never(_: int, __: Sweep) -> Found:
    """Nothing but sweeps."""
    return None


def of_free_bodies(problem: Problem, start: Start, together: Turn = never) -> Iterator[Iterate]:
    """Where many sweeps do not halve the changes, friction follows by less (`follow_less` of
    c/contact/free.h); `together` may take over after each.
    """
    here, rows, now = local(problem), rows_of(problem), first(problem, begun(problem, start))
    way, last, following, sweeps, work = no_way(now), np.inf, 1.0, 0, 0.0
    much = CIRCLING * max(enough(problem), LATER * problem.moving)
    while True:
        after = swept(problem, here, rows, now, following)
        sweeps, work = sweeps + 1, work + cost(problem)
        yield Iterate(work, after.p, after.z)
        if sweeps % PATIENT == 0:
            if after.change > max(0.5 * last, much):
                following = max(LEAST_FOLLOWING, 0.5 * following)
            last = after.change
        found = together(sweeps, after)
        if found is None:
            way, now = gone_on(way, now, after)
        else:
            now, way, work = found[0], no_way(after), work + found[1]


def enough(problem: Problem) -> float:
    """By how much a velocity may change in the last sweep [m/s]."""
    return ENOUGH * problem.fastest


def moves(problem: Problem) -> bool:
    """Whether bodies move so fast that less is enough after many sweeps."""
    return LATER * problem.moving > enough(problem)


def cost(problem: Problem) -> float:
    """Multiply-adds of a sweep and of going on."""
    return problem.unit + 2.0 * sum(problem.Y.shape)


def of_trees(problem: Problem, start: Start) -> Iterator[Iterate]:
    """With direct solves before the first sweep, or after it, and after the seventh
    (`solve_impulses` of c/contact/conjugate.h).
    """
    here, rows, now = local(problem), rows_of(problem), first(problem, begun(problem, start))
    now, work, early = held(problem, here, now)
    way, sweeps = no_way(now), 0
    while True:
        after = swept(problem, here, rows, now)
        sweeps, work = sweeps + 1, work + cost(problem)
        yield Iterate(work, after.p, after.z)
        done = False
        if (sweeps == 1 and not early) or sweeps == 7:
            after, more, done = held(problem, here, after)
            work += more
        way, now = (no_way(after), after) if done else gone_on(way, now, after)


def held(problem: Problem, here: Local, now: Sweep) -> tuple[Sweep, float, bool]:
    """What presses and sticks solved for at once, with a compliance taken twice, as long as it goes
    on to (c/contact/direct.h); multiply-adds, and whether it does.
    """
    p, presses = now.p, now.p[:, 0] > 0.0
    if not presses.any():
        return now, 0.0, False
    sticks = presses & (np.linalg.norm(p[:, 1:], axis=1) < (1 - 1e-9) * problem.mu * p[:, 0])
    mobile = np.einsum("kii->ki", here.W)
    stiff = np.column_stack([presses, sticks, sticks]) / (COMPLIANCE * mobile)
    step, work = stiff_step(problem, now, stiff, TWICE)
    slides = presses & ~sticks
    step[slides, 1:] = p[slides, 1:] * (step[slides, 0] / p[slides, 0])[:, None]
    new = p + step
    inside = np.linalg.norm(new[:, 1:], axis=1) <= problem.mu * new[:, 0]
    if (new[presses, 0] <= 0.0).any() or not inside[sticks].all():
        return now, work, False
    return first(problem, new), work, True


def stiff_step(
    problem: Problem, now: Sweep, stiff: np.ndarray, times: int
) -> tuple[np.ndarray, float]:
    """The change of impulses (n, 3) that stops what is stiff, with its compliance taken so many
    times, and its multiply-adds.
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
