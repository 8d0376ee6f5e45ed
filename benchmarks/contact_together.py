"""The sweeps of `contact_sweeps`, and where these stall a solution of all free bodies together, as
in `RigidContactPlant` (c/contact/impulses.h and together.h): its default.
"""

from collections import deque
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from contact_cones import on_half_line_and_disc
from contact_laws import Iterate, Start, begun, gram_work
from contact_sweeps import (
    LATER,
    PATIENT,
    Found,
    Sweep,
    enough,
    first,
    moves,
    of_free_bodies,
    of_trees,
    stiff_step,
)
from solver_problems import Problem

FIRST, AGAIN = 8, 3  # all as in c/contact
STIFF, PROXIMAL, HOLDS, HIGHER = 1e7, 3, 16, 4
SIDE = 6  # of the block of a body


def default(problem: Problem, start: Start) -> Iterator[Iterate]:
    """Those of trees, or of free bodies."""
    if problem.tree:
        return of_trees(problem, start)
    return of_free_bodies(problem, start, Together(problem, begun(problem, start)).tried)


def bodies_of(problem: Problem) -> list[list[int]]:
    """One or two of each contact."""
    Y, spans = problem.Y, pairwise(problem.Y.indptr[::3])
    return [np.unique(Y.indices[a:b] // SIDE).tolist() for a, b in spans]


def neighbours(touching: list[list[int]]) -> dict[int, list[int]]:
    """Those that touch each body, as often as they do."""
    near: dict[int, list[int]] = {k: [] for pair in touching for k in pair}
    for a, b in (pair for pair in touching if len(pair) == 2):
        near[a].append(b)
        near[b].append(a)
    return near


def order_of(near: dict[int, list[int]]) -> list[int]:
    """The reverse of Cuthill and McKee (1969), from the body of fewest neighbours of each heap."""
    order: dict[int, None] = {}
    for outermost in sorted(near, key=lambda k: len(near[k])):
        queue = deque([outermost])
        while queue:
            if (k := queue.popleft()) not in order:
                order[k] = None
                queue.extend(near[k])
    return list(order)[::-1]


def envelope(touching: list[list[int]]) -> np.ndarray:
    """The first column of each row of blocks (n,), by their places in the order."""
    place = {k: i for i, k in enumerate(order_of(neighbours(touching)))}
    begins = np.arange(len(place))
    for pair in touching:
        low, *_, high = sorted(place[k] for k in (pair[0], pair[-1]))
        begins[high] = min(begins[high], low)
    return begins


def room(bodies: int) -> int:
    """For how many blocks the plant has room; none where there are very many bodies."""
    if bodies < 64:
        return bodies * (bodies + 1) // 2
    return 2048 if bodies <= 512 else 1


def factor_work(begins: np.ndarray) -> float:
    """Multiply-adds of Cholesky's factor L within an envelope of blocks: of the products
    L_ik L_jk^T, of the divisions by L_jj^T, and of the blocks L_ii themselves.
    """
    products, beside = 0, int(np.sum(np.arange(len(begins)) - begins))
    for i, begin in enumerate(begins):
        j = np.arange(begin, i + 1)
        products += int(np.maximum(j - np.maximum(begin, begins[j]), 0).sum())
    return float(SIDE**3 * products + 126 * beside + 56 * len(begins))


def solve_work(begins: np.ndarray) -> float:
    """Those of a solution with L and L^T."""
    beside = int(np.sum(np.arange(len(begins)) - begins))
    return float(2 * (SIDE**2 * beside + 21 * len(begins)))


class Together:
    """Newton's method for the impulses of free bodies, each time a few solutions of

    (1 + Y^T S Y) dz = -Y^T S u,  dp = -S (u + Y dz),  S = 1e7 / diag(Y Y^T),

    with S zero where a contact opens, and across its normal where it slides, and S^-1 dp added to
    the other side twice more, so that little compliance is left. Tried after 8, 24, 72, ... sweeps
    where by what the second half of these has done as many again would not be enough, and a factor
    takes no longer than they did; what moves skips the first time.
    """

    def __init__(self, problem: Problem, p: np.ndarray) -> None:
        begins, bodies = envelope(bodies_of(problem)), problem.Y.shape[1] // SIDE
        widths = np.arange(len(begins)) - begins + 1
        self.problem, self.start, self.at, self.halfway = problem, first(problem, p), FIRST, np.inf
        self.fits = widths.sum() <= room(bodies) >= bodies
        self.long = float(np.sum(widths**2)) / problem.n
        self.round = gram_work(problem) + factor_work(begins) + 2 * problem.unit
        self.round += PROXIMAL * solve_work(begins)
        self.mobile = np.einsum("kii->ki", problem.blocks())

    def tried(self, sweeps: int, now: Sweep) -> Found:
        """What comes of a solution after so many sweeps, and its multiply-adds; None where there is
        none.
        """
        if 2 * sweeps == self.at:
            self.halfway = now.change
        if sweeps < self.at:
            return None
        self.at *= AGAIN
        early = sweeps == FIRST and moves(self.problem)
        if early or not self.takes_long(sweeps, now) or not self.fits or self.long > sweeps:
            return None
        return self.solved(now)

    def takes_long(self, sweeps: int, now: Sweep) -> bool:
        """Whether as many sweeps again would not be enough."""
        asked = enough(self.problem)
        if 2 * sweeps >= PATIENT:
            asked = max(asked, LATER * self.problem.moving)
        return now.change * (now.change / self.halfway) ** 2 > asked

    def solved(self, now: Sweep) -> tuple[Sweep, float]:
        """All at once, until it lowers what sweeps lower no more."""
        best, height, work, higher = now, self.height(now), 0.0, 0
        for _ in range(HOLDS):
            now, work = self.held(now), work + self.round
            found = self.height(now)
            higher = 0 if found < height else higher + 1
            if higher == 0:
                best, height = now, found
            elif higher == (1 if moves(self.problem) else HIGHER):
                break
        return best._replace(limit=now.limit), work

    def height(self, now: Sweep) -> float:
        """|z - z_0|^2 / 2 + p . (Y z_0 - least), from the start z_0 on."""
        asked = self.problem.velocities(self.start.z)
        return float(np.sum((now.z - self.start.z) ** 2) / 2 + np.sum(now.p * asked))

    def held(self, now: Sweep) -> Sweep:
        """One solution with what presses, or would close, and with what sticks, as of now; then no
        normal impulse pulls, and friction is within its limit.
        """
        p, closing, mu = now.p, self.problem.velocities(now.z)[:, 0] < 0.0, self.problem.mu
        sticks = np.sum(p[:, 1:] ** 2, axis=1) < (1 - 1e-9) * (mu * p[:, 0]) ** 2
        stiff = np.column_stack([(p[:, 0] > 0.0) | closing, sticks, sticks]) * STIFF / self.mobile
        step, _ = stiff_step(self.problem, now, stiff, PROXIMAL)
        new = on_half_line_and_disc(p + step, mu)
        z = now.z + self.problem.Y.T @ (new - p).ravel()
        return now._replace(p=new, z=z, limit=mu * new[:, 0])
