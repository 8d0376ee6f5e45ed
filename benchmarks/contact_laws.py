"""Residuals of the contact laws, start values and work counts, which all solvers share."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array
from scipy.sparse.linalg import splu
from solver_problems import Problem


class Iterate(NamedTuple):
    """Iterate: work in multiply-adds, impulses p (n, 3), velocities z (nv,), penalty of ADMM."""

    work: float
    p: np.ndarray
    z: np.ndarray
    rho: float | None = None


Start = Iterate | None


class Local(NamedTuple):
    """Mobility W (n, 3, 3) of each contact, and impulses per unit of velocity.

    `along` (n,) applies to the normal; `across` (n,) is the smallest value of all tangents.
    """

    W: np.ndarray
    along: np.ndarray
    across: np.ndarray


def local(problem: Problem) -> Local:
    W = problem.blocks()
    return Local(W, 1.0 / W[:, 0, 0], 1.0 / np.linalg.eigvalsh(W[:, 1:, 1:])[:, -1])


def velocities_after(problem: Problem, p: np.ndarray) -> np.ndarray:
    """Return z = z_free + Y^T p."""
    return problem.z_free + problem.Y.T @ p.ravel()


def start_impulses(problem: Problem, start: Start) -> np.ndarray:
    """Return the impulses (n, 3) of a start, or zeros if `start` is None."""
    return np.zeros((problem.n, 3)) if start is None else start.p


def project_to_disc(t: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Limit the lengths of the vectors t (n, 2) to the limits (n,)."""
    length = np.linalg.norm(t, axis=1)
    return t * np.divide(limit, length, out=np.ones_like(length), where=length > limit)[:, None]


def project_to_cone(x: np.ndarray, mu: float) -> np.ndarray:
    """Return the projection of x (n, 3) onto Coulomb's cone."""
    n, length = x[:, 0], np.linalg.norm(x[:, 1:], axis=1)
    normal = np.where(length <= mu * n, n, np.maximum(n + mu * length, 0.0) / (1 + mu * mu))
    return np.column_stack([normal, project_to_disc(x[:, 1:], mu * normal)])


def coulomb_residual(problem: Problem, here: Local, now: Iterate) -> float:
    """Return the residual velocity of Signorini's and Coulomb's laws, as in `contact_residual`.

    The residual is relative to the fastest free velocity.
    """
    p, u = now.p, problem.velocities(velocities_after(problem, now.p))
    normal = np.abs(np.minimum(u[:, 0], p[:, 0] / here.along))
    slid = project_to_disc(
        p[:, 1:] - here.across[:, None] * u[:, 1:], problem.mu * np.maximum(p[:, 0], 0)
    )
    across = np.linalg.norm(slid - p[:, 1:], axis=1) / here.across
    return float(max(normal.max(), across.max()) / problem.fastest)


def convex_residual(problem: Problem, here: Local, now: Iterate) -> float:
    """Return the residual of the convex law: u lies in the dual cone and is orthogonal to p."""
    u, rate = (
        problem.velocities(velocities_after(problem, now.p)),
        np.minimum(here.along, here.across),
    )
    step = project_to_cone(now.p - rate[:, None] * u, problem.mu) - now.p
    return float((np.linalg.norm(step, axis=1) / rate).max() / problem.fastest)


def compliant_residual(problem: Problem, _: Local, now: Iterate) -> float:
    """Return the residual velocity of SAP's law, relative to the fastest free velocity."""
    off = problem.Y @ (now.z - velocities_after(problem, now.p))
    return float(np.linalg.norm(off.reshape(-1, 3), axis=1).max() / problem.fastest)


class Factor(NamedTuple):
    """Sparse factorization: solve function, multiply-adds of factorization and of one solution."""

    solve: Callable[[np.ndarray], np.ndarray]
    work: float
    solve_work: float

    @classmethod
    def of(cls, A: csc_array, symmetric: bool = True) -> "Factor":
        """Factorize a sparse matrix with a fill-reducing order.

        The work of the factorization of a symmetric matrix counts half.
        """
        A = A.copy()
        A.eliminate_zeros()
        lu = splu(A, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        below, right = np.diff(lu.L.indptr) - 1.0, np.diff(lu.U.tocsr().indptr)
        work = (below * right).sum() / (2 if symmetric else 1)
        return cls(lu.solve, float(work), lu.L.nnz + lu.U.nnz)


def gram_work(problem: Problem) -> float:
    """Return the multiply-adds of Y^T G Y with a symmetric block of G for each contact."""
    counts = np.diff(problem.Y.indptr)[::3]
    return float((9 * counts + 3 * counts * (counts + 1) / 2).sum())
