"""Times of the two solvers of rigid contact with friction, for a quadruped on 24 contact points."""

import timeit
from collections.abc import Callable, Sequence
from time import process_time
from typing import NamedTuple

import numpy as np

from rigidblocks import Model, Revolute, SixDoF
from rigidblocks.contact import (
    PointContact,
    complementarity,
    contact_matrix,
    contact_residual,
    frictional_complementarity,
)
from rigidblocks.contact.event_driven.gauss_seidel_kernel import compiled_sweeps
from rigidblocks.dynamics import inverse_inertia, point_position
from rigidblocks.robot.configuration import neutral
from rigidblocks.spatial.spatial import mcI, xlt

SWEEPS = 30
STATES = 20
EXACT = 1e-9  # largest residual of the pivoting solver, relative to the largest velocity
UP = np.array([0.0, 0.0, 1.0])


def quadruped() -> Model:
    """Return a free trunk on four legs of three revolute joints each."""
    legs = [(x, y) for x in (-0.3, 0.3) for y in (-0.2, 0.2)]
    trunk, link = (
        mcI(20.0, np.zeros(3), np.diag([0.3, 0.8, 1.0])),
        mcI(1.0, [0.0, 0.0, -0.1], np.eye(3) * 0.01),
    )
    hips = [(xlt([x, y, 0.0]), xlt([0.0, 0.05, 0.0]), xlt([0.0, 0.0, -0.25])) for x, y in legs]
    return Model(
        "quadruped",
        (-1, *(p for k in range(4) for p in (0, 3 * k + 1, 3 * k + 2))),
        (
            SixDoF(),
            *(Revolute((1.0, 0.0, 0.0)), Revolute((0.0, 1.0, 0.0)), Revolute((0.0, 1.0, 0.0))) * 4,
        ),
        (xlt(np.zeros(3)), *(X for hip in hips for X in hip)),
        (trunk, *(link,) * 12),
    )


class Problem(NamedTuple):
    """Contact problem: matrix M, velocities d, friction mu, and the velocities `later`.

    The velocities `later` differ slightly from d and represent the next step.
    """

    M: np.ndarray
    d: np.ndarray
    mu: np.ndarray
    later: np.ndarray


def problem(model: Model, rng: np.random.Generator) -> Problem:
    """Return the problem of a tilted quadruped that lands on 24 points."""
    q = neutral(model)
    q[7:] += rng.uniform(-0.4, 0.4, 12)
    rim = [np.array([0.04 * np.cos(a), 0.03 * np.sin(a), -0.25]) for a in np.arange(6) * np.pi / 3]
    points = [(3 * leg, point_position(model, q, 3 * leg, p)) for leg in range(1, 5) for p in rim]
    contacts = [PointContact(foot, p, UP, mu=0.6) for foot, p in points]
    T = contact_matrix(model, q, contacts)
    qd = np.concatenate([rng.uniform(-0.5, 0.5, 5), [-0.5], rng.uniform(-1, 1, 12)])
    changed = qd * (1.0 + rng.uniform(-0.02, 0.02, 18))
    return Problem(inverse_inertia(model, q, T.T), T.T @ qd, np.full(24, 0.6), T.T @ changed)


def seconds(call: Callable[[], object], number: int, repeat: int) -> float:
    """Return the least CPU time of a call [s] over several repetitions."""
    return min(timeit.repeat(call, number=number, repeat=repeat, timer=process_time)) / number


def print_pivoting(problems: Sequence[Problem]) -> None:
    """Print the times of the pivoting solver."""
    frictionless = [
        1e3 * seconds(lambda p=p: complementarity(p.M[:24, :24], p.d[:24]), 5, 5) for p in problems
    ]
    pyramid = [
        1e3 * seconds(lambda p=p: frictional_complementarity(p.M, p.d, p.mu), 3, 5)
        for p in problems
    ]
    worst = max(
        contact_residual(M, d, frictional_complementarity(M, d, mu).lam, mu, cone=False)
        / np.abs(d).max()
        for M, d, mu, _ in problems
    )
    if not worst < EXACT:
        raise RuntimeError(f"pivoting leaves {worst:.1e} of the largest velocity")
    print(
        f"exact, no friction    {np.median(frictionless):7.2f} ms median, {max(frictionless):6.2f} "
        "ms at most"
    )
    print(
        f"exact, pyramid        {np.median(pyramid):7.2f} ms median, {max(pyramid):6.2f} ms at "
        f"most, residual {worst:.1e}"
    )


def print_sweeps(problems: Sequence[Problem], cone: bool) -> None:
    """Print time and residual of the Gauss-Seidel sweeps, with a cold and with a warm start."""
    solve = compiled_sweeps(24, 24, SWEEPS, cone)
    times, left, warm = [], [], []
    for M, d, mu, later in problems:
        lam, _, residual = solve(M, d, mu, 0 * mu, 0 * d)
        times.append(1e6 * seconds(solve.run, 100, 9))
        left.append(residual / np.abs(d).max())
        for _ in range(4):
            lam = solve(M, d, mu, 0 * mu, lam)[0]
        warm.append(solve(M, later, mu, 0 * mu, lam)[2] / np.abs(later).max())
    kind = f"{SWEEPS} sweeps, {'cone' if cone else 'pyramid'}"
    print(f"{kind:21} {np.median(times):7.2f} us median, {max(times):6.2f} us at most")
    print(f"    leave             {np.median(left):7.1e} median, {max(left):.1e} at most")
    print(f"    started warm      {np.median(warm):7.1e} median, {max(warm):.1e} at most")


def main() -> None:
    """Print the CPU times and the residuals of the sweeps."""
    model, rng = quadruped(), np.random.default_rng(0)
    problems = [problem(model, rng) for _ in range(STATES)]
    print(
        f"24 contacts of a quadruped, {STATES} states; residuals in units of the largest velocity"
    )
    print_pivoting(problems)
    print_sweeps(problems, cone=False)
    print_sweeps(problems, cone=True)


if __name__ == "__main__":
    main()
