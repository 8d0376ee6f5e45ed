"""How contacts share a load where more of them carry it than have to (RBDA 11.5).

T lam is the same for all solutions of the complementarity problem, and so is the motion; which of
them there is depends on how the supports yield, which rigid bodies do not say.
"""

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.spatial import Array
from rigidblocks.contact.complementarity import complementarity

_FREE = 1e-10  # of the largest eigenvalue of M: what moves nothing


def shared_forces(M: ArrayLike, lam: ArrayLike, stiffness: ArrayLike = 1.0) -> Array:
    """The forces (n,) with the same effect M lam as the given ones that supports of the given
    stiffness [N/m], a number or (n,), have: those of the least elastic energy.

        minimize sum lam_i^2 / K_i subject to M lam = M lam0, lam >= 0

    Equal stiffness gives the least squares of the forces. A support that would have to pull carries
    nothing. With N a basis of the null space of M and P = N (N^T K^-1 N)^-1 N^T it is the
    complementarity problem lam = P z + lam0 - P K^-1 lam0. Raises ValueError for a stiffness that
    is not positive, and for forces that pull.
    """
    M, lam = np.asarray(M, dtype=float), np.asarray(lam, dtype=float)
    K = np.broadcast_to(np.asarray(stiffness, dtype=float), lam.shape)
    if not np.all(K > 0) or not np.all(np.isfinite(K)):
        raise ValueError(f"the stiffness of supports must be positive, not {K.tolist()}")
    if np.any(lam < 0):
        raise ValueError(f"contacts can only push; the forces are {lam.tolist()}")
    values, vectors = np.linalg.eigh(M)
    N = vectors[:, values <= _FREE * max(values.max(initial=0.0), 0.0)]
    if not N.shape[1]:
        return lam
    P = N @ np.linalg.solve(N.T / K @ N, N.T)
    rest = lam - P @ (lam / K)
    shared: Array = np.maximum(0.0, P @ complementarity(P, rest).lam + rest)
    return shared
