"""The time of the two solvers of rigid contact with friction, of 24 contacts: six points on each foot of a quadruped."""

import timeit
from collections.abc import Callable
from time import process_time

import numpy as np

from rigidblocks import Model, Revolute, SixDoF
from rigidblocks.compiled_contact import compiled_sweeps
from rigidblocks.configuration import neutral
from rigidblocks.contact import (
    PointContact,
    complementarity,
    contact_matrix,
    contact_residual,
    frictional_complementarity,
)
from rigidblocks.dynamics import inverse_inertia, point_position
from rigidblocks.spatial import mcI, xlt

SWEEPS = 30
STATES = 20
UP = np.array([0.0, 0.0, 1.0])


def quadruped() -> Model:
    """A free trunk on four legs of three revolute joints each."""
    legs = [(x, y) for x in (-0.3, 0.3) for y in (-0.2, 0.2)]
    trunk, link = mcI(20.0, np.zeros(3), np.diag([0.3, 0.8, 1.0])), mcI(1.0, [0.0, 0.0, -0.1], np.eye(3) * 0.01)
    hips = [(xlt([x, y, 0.0]), xlt([0.0, 0.05, 0.0]), xlt([0.0, 0.0, -0.25])) for x, y in legs]
    return Model(
        "quadruped",
        (-1, *(p for k in range(4) for p in (0, 3 * k + 1, 3 * k + 2))),
        (SixDoF(), *(Revolute((1.0, 0.0, 0.0)), Revolute((0.0, 1.0, 0.0)), Revolute((0.0, 1.0, 0.0))) * 4),
        (xlt(np.zeros(3)), *(X for hip in hips for X in hip)),
        (trunk, *(link,) * 12),
    )


def problem(model: Model, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """M, the velocities and mu of the quadruped that lands on 24 points, some way from upright."""
    q = neutral(model)
    q[7:] += rng.uniform(-0.4, 0.4, 12)
    rim = [np.array([0.04 * np.cos(a), 0.03 * np.sin(a), -0.25]) for a in np.arange(6) * np.pi / 3]
    points = [(3 * leg, point_position(model, q, 3 * leg, p)) for leg in range(1, 5) for p in rim]
    contacts = [PointContact(foot, p, UP, mu=0.6) for foot, p in points]
    T = contact_matrix(model, q, contacts)
    qd = np.concatenate([rng.uniform(-0.5, 0.5, 5), [-0.5], rng.uniform(-1, 1, 12)])
    return inverse_inertia(model, q, T.T), T.T @ qd, np.full(24, 0.6)


def seconds(call: Callable[[], object], number: int, repeat: int) -> float:
    """The least processor time of a call over a few."""
    return min(timeit.repeat(call, number=number, repeat=repeat, timer=process_time)) / number


def main() -> None:
    """Prints the times, of the processor, and how far the sweeps come."""
    model, rng = quadruped(), np.random.default_rng(0)
    problems = [problem(model, rng) for _ in range(STATES)]
    frictionless = [1e3 * seconds(lambda M=M, d=d: complementarity(M[:24, :24], d[:24]), 5, 5) for M, d, _ in problems]
    exact = [1e3 * seconds(lambda p=p: frictional_complementarity(*p), 3, 5) for p in problems]
    worst = max(
        contact_residual(M, d, frictional_complementarity(M, d, mu).lam, mu, cone=False) / np.abs(d).max()
        for M, d, mu in problems
    )
    print(f"24 contacts of a quadruped, {STATES} states; residuals in units of the largest velocity")
    print(f"exact, no friction    {np.median(frictionless):7.2f} ms median, {max(frictionless):6.2f} ms at most")
    print(f"exact, pyramid        {np.median(exact):7.2f} ms median, {max(exact):6.2f} ms at most, residual {worst:.1e}")
    for cone in (False, True):
        solve = compiled_sweeps(24, 24, SWEEPS, cone)
        left = [solve(M, d, mu, 0 * mu, 0 * d)[2] / np.abs(d).max() for M, d, mu in problems]
        time = 1e6 * seconds(solve.run, 500, 9)
        kind = f"{SWEEPS} sweeps, {'cone' if cone else 'pyramid'}"
        print(f"{kind:21} {time:7.2f} us, residual {np.median(left):.1e} median, {max(left):.1e} at most")


if __name__ == "__main__":
    main()
