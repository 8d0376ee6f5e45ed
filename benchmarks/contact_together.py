"""The sweeps of `contact_sweeps`, with a direct solution of all free bodies if the sweeps stall.

This is the default of `RigidContactPlant` (c/contact/islands.h).
"""

from collections import deque
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from contact_cones import project_to_half_line_and_disc
from contact_laws import Iterate, Start, coulomb_residual, gram_work, local, start_impulses
from contact_sweeps import (
    LATER,
    PATIENT,
    Found,
    Sweep,
    constrained_step,
    has_fast_bodies,
    initial_sweep,
    of_free_bodies,
    of_trees,
    sweep_tolerance,
)
from solver_problems import Problem

FIRST, AGAIN = 8, 3  # as in c/contact, also the next constants
STIFF, PROXIMAL, HOLDS, HIGHER, NEWTON_ERROR = 1e7, 3, 16, 4, 1e-5
SIDE = 6  # size of the matrix block of a body


def default(problem: Problem, start: Start) -> Iterator[Iterate]:
    """Yield the iterates of the plant's default method, for trees or for free bodies."""
    if problem.tree:
        return of_trees(problem, start)
    return of_free_bodies(
        problem, start, DirectSolver(problem, start_impulses(problem, start)).try_solution
    )


def bodies_of(problem: Problem) -> list[list[int]]:
    """Return the one or two free bodies of each contact."""
    Y, spans = problem.Y, pairwise(problem.Y.indptr[::3])
    return [np.unique(Y.indices[a:b] // SIDE).tolist() for a, b in spans]


def neighbours(touching: list[list[int]]) -> dict[int, list[int]]:
    """Return the neighbours of each body, repeated for each contact."""
    near: dict[int, list[int]] = {k: [] for pair in touching for k in pair}
    for a, b in (pair for pair in touching if len(pair) == 2):
        near[a].append(b)
        near[b].append(a)
    return near


def order_of(near: dict[int, list[int]]) -> list[int]:
    """Return the reverse Cuthill-McKee order (1969), from each island's least-connected body."""
    order: dict[int, None] = {}
    for outermost in sorted(near, key=lambda k: len(near[k])):
        queue = deque([outermost])
        while queue:
            if (k := queue.popleft()) not in order:
                order[k] = None
                queue.extend(near[k])
    return list(order)[::-1]


def envelope(touching: list[list[int]]) -> np.ndarray:
    """Return the first column of each block row (n,), in the elimination order."""
    place = {k: i for i, k in enumerate(order_of(neighbours(touching)))}
    begins = np.arange(len(place))
    for pair in touching:
        low, *_, high = sorted(place[k] for k in (pair[0], pair[-1]))
        begins[high] = min(begins[high], low)
    return begins


def block_capacity(bodies: int) -> int:
    """Return the plant's capacity of matrix blocks; it is 1 for more than 512 bodies."""
    if bodies < 64:
        return bodies * (bodies + 1) // 2
    return 2048 if bodies <= 512 else 1


def factor_work(begins: np.ndarray) -> float:
    """Return the multiply-adds of the block Cholesky factor L within an envelope.

    The count includes the products L_ik L_jk^T, the divisions by L_jj^T, and the blocks L_ii.
    """
    products, beside = 0, int(np.sum(np.arange(len(begins)) - begins))
    for i, begin in enumerate(begins):
        j = np.arange(begin, i + 1)
        products += int(np.maximum(j - np.maximum(begin, begins[j]), 0).sum())
    return float(SIDE**3 * products + 126 * beside + 56 * len(begins))


def solve_work(begins: np.ndarray) -> float:
    """Return the multiply-adds of a solution with the factors L and L^T."""
    beside = int(np.sum(np.arange(len(begins)) - begins))
    return float(2 * (SIDE**2 * beside + 21 * len(begins)))


class DirectSolver:
    """Newton's method for the impulses of free bodies.

    Each iteration solves these equations a few times:

        (1 + Y^T S Y) dz = -Y^T S u,  dp = -S (u + Y dz),  S = 1e7 / diag(Y Y^T)

    S is zero for opening contacts, and in the tangents of sliding contacts. Adding S^-1 dp to the
    right-hand side twice more removes most of the compliance.

    After 8, 24, 72, ... sweeps, the solver tries the method if two conditions hold. First, the
    convergence in the second half of these sweeps predicts that the same number of further sweeps
    does not suffice. Second, a factorization costs no more than the sweeps so far. Moving bodies
    skip the first trial.
    """

    def __init__(self, problem: Problem, p: np.ndarray) -> None:
        begins, bodies = envelope(bodies_of(problem)), problem.Y.shape[1] // SIDE
        widths = np.arange(len(begins)) - begins + 1
        self.problem, self.start, self.at, self.halfway = (
            problem,
            initial_sweep(problem, p),
            FIRST,
            np.inf,
        )
        self.fits = widths.sum() <= block_capacity(bodies) >= bodies
        self.long = float(np.sum(widths**2)) / problem.n
        self.round = gram_work(problem) + factor_work(begins) + 2.5 * problem.unit
        self.round += PROXIMAL * solve_work(begins)
        self.mobile, self.local = np.einsum("kii->ki", problem.blocks()), local(problem)

    def try_solution(self, sweeps: int, now: Sweep) -> Found:
        """Return the direct solution after `sweeps` sweeps and its work, or None if not due."""
        if 2 * sweeps == self.at:
            self.halfway = now.change
        if sweeps < self.at:
            return None
        self.at *= AGAIN
        early = sweeps == FIRST and has_fast_bodies(self.problem)
        if early or not self.converges_slowly(sweeps, now) or not self.fits or self.long > sweeps:
            return None
        return self.solve(now)

    def converges_slowly(self, sweeps: int, now: Sweep) -> bool:
        """Return True if the same number of further sweeps would not suffice."""
        asked = sweep_tolerance(self.problem)
        if 2 * sweeps >= PATIENT:
            asked = max(asked, LATER * self.problem.moving)
        return now.change * (now.change / self.halfway) ** 2 > asked

    def solve(self, now: Sweep) -> tuple[Sweep, float]:
        """Iterate the direct solution until it is solved, or while the energy decreases."""
        best, least, work, higher, solved = now, self.energy(now), 0.0, 0, False
        most = 1 if has_fast_bodies(self.problem) else HIGHER
        for _ in range(HOLDS):
            now, work = self.newton_step(now), work + self.round
            found, solved = self.energy(now), self.is_solved(now)
            higher = 0 if found < least else higher + 1
            if higher == 0:
                best, least = now, found
            if solved or higher == most:
                break
        return now if solved else best._replace(limit=now.limit), work

    def is_solved(self, now: Sweep) -> bool:
        """Return True if the velocity error is a small part of the tolerance of the sweeps."""
        error = coulomb_residual(self.problem, self.local, Iterate(0.0, now.p, now.z))
        return error * self.problem.fastest <= NEWTON_ERROR * sweep_tolerance(self.problem)

    def energy(self, now: Sweep) -> float:
        """Return the energy |z - z_0|^2 / 2 + p . (Y z_0 - least); z_0 is the initial velocity."""
        asked = self.problem.velocities(self.start.z)
        return float(np.sum((now.z - self.start.z) ** 2) / 2 + np.sum(now.p * asked))

    def newton_step(self, now: Sweep) -> Sweep:
        """Solve once with the current contact modes, then project the impulses.

        The normals of loaded and closing contacts and the tangents of sticking contacts are
        constrained. The projection removes negative normal impulses and limits the friction.
        """
        p, closing, mu = now.p, self.problem.velocities(now.z)[:, 0] < 0.0, self.problem.mu
        sticks = np.sum(p[:, 1:] ** 2, axis=1) < (1 - 1e-9) * (mu * p[:, 0]) ** 2
        stiff = np.column_stack([(p[:, 0] > 0.0) | closing, sticks, sticks]) * STIFF / self.mobile
        step, _ = constrained_step(self.problem, now, stiff, PROXIMAL)
        new = project_to_half_line_and_disc(p + step, mu)
        z = now.z + self.problem.Y.T @ (new - p).ravel()
        return now._replace(p=new, z=z, limit=mu * new[:, 0])
