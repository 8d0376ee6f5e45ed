"""One rigid body whose joint leaves it some of its freedoms (RBDA 3.3, 3.6).

All arguments are in one coordinate system. The body's own equation is f = I a + p, a `Handle`; its
joint lets it move with v = S qd, S (6, n) of full column rank, and `bias` (6,) is dS/dt qd. T (6,
6 - n) spans the forces that do no work in the joint, T^T S = 0.
"""

from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.linear import linear_solver, positive_solution
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics.articulated import Handle, InverseHandle


class SplitForce(NamedTuple):
    """A force (6,) on a body as the sum of what its joint lets `move` it and what its joint has to
    `hold`.
    """

    move: Array
    hold: Array


class ConstrainedMotion(NamedTuple):
    """The acceleration a (6,) of a body, and the sizes lam (6 - n,) of the force T lam with which
    its joint keeps it.
    """

    a: Array
    lam: Array


class BodyJointSpace(NamedTuple):
    """H qdd + C = S^T f: a body's equation of motion in its joint's freedoms, H (n, n), C (n,)."""

    H: Array
    C: Array


def split_along(parts: tuple[Array, ...], v: Array) -> tuple[Array, ...]:
    """The vectors, one in the range of each matrix of `parts`, whose sum is v (RBDA Eq 3.25 to
    3.27).

    Raises ValueError where the columns of all parts together are no basis.
    """
    basis = np.hstack(parts)
    if basis.shape != (len(v), len(v)) or np.linalg.matrix_rank(basis) < len(v):
        raise ValueError(
            f"{basis.shape[1]} columns of rank {np.linalg.matrix_rank(basis)} are no basis of the "
            f"{len(v)} dimensions of v; the parts must be independent and fill the space"
        )
    ends = np.cumsum([part.shape[1] for part in parts])[:-1]
    sizes = np.split(linear_solver(basis)(v), ends)
    return tuple(part @ size for part, size in zip(parts, sizes, strict=True))


def split_force(I: Array, S: Array, f: Array) -> SplitForce:
    """What of a force f (6,) moves a body of inertia I (6, 6), and what its joint has to hold (RBDA
    Eq 3.28).

        move = I S (S^T I S)^-1 S^T f,  hold = f - move

    S^T hold = 0, and at rest the acceleration is I^-1 move. The same for any basis of the range of
    S.
    """
    IS = I @ S
    move = IS @ positive_solution(S.T @ IS, S.T @ f)
    return SplitForce(move, f - move)


def constrained_body(body: Handle, S: Array, bias: Array) -> InverseHandle:
    """a = Phi f + b of the body behind its joint (RBDA Eq 3.53 to 3.55, method 1 of 3.6).

        Phi = S (S^T I S)^-1 S^T,  b = dS/dt qd - Phi (I dS/dt qd + p)

    Phi is symmetric and positive semidefinite, of rank n; its range is that of S.
    """
    Phi = S @ positive_solution(S.T @ body.I @ S, S.T)
    return InverseHandle(Phi, bias - Phi @ (body.I @ bias + body.p))


def constrained_motion(body: Handle, T: Array, bias: Array, f: Array) -> ConstrainedMotion:
    """The motion under a force f (6,), with that of the joint (RBDA Eq 3.60, method 2 of 3.6).

        [I, T; T^T, 0] [a; -lam] = [f - p; T^T bias]

    The right-hand side is T^T dS/dt qd, which is -dT^T/dt v because T^T S stays 0.
    """
    n = len(f)
    W = np.block([[body.I, T], [T.T, np.zeros((T.shape[1], T.shape[1]))]])
    x = linear_solver(W)(np.concatenate([f - body.p, T.T @ bias]))
    return ConstrainedMotion(x[:n], -x[n:])


def body_joint_space(body: Handle, S: Array, bias: Array) -> BodyJointSpace:
    """The equation in the joint's freedoms (RBDA Eq 3.61 to 3.64, method 3 of 3.6).

        H = S^T I S,  C = S^T (I dS/dt qd + p)

    Only S^T f goes in, so that what the joint has to hold cannot be had from it.
    """
    return BodyJointSpace(S.T @ body.I @ S, S.T @ (body.I @ bias + body.p))
