"""Motion in independent coordinates inside a step: what depends on them follows, in as many
operations whatever the numbers are (Spencer 2004, 2.3, 2.4; RBDA 8.11).
"""

from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.loops.constraints import drift, position_constraints
from rigidblocks.loops.elimination import Elimination, eliminated, solved
from rigidblocks.model.configuration import displaced
from rigidblocks.model.tree import Tree

ITERATIONS = 2  # of Newton's method: an error of 1e-4 is rounding then
RANK = 1e-9  # of the largest constraint: coordinates below depend on others


class DependentMotion(NamedTuple):
    """q (nq,) and qd (nv,) that close the loops, and the `condition` of [R; K], large where the
    coordinates are none.
    """

    q: Array
    qd: Array
    condition: Any


def dependent_motion(model: Tree, q: Array, qd: Array, independent: list[int]) -> DependentMotion:
    """The positions and velocities near q, qd that close the loops and leave the variables
    `independent`, by their places in qd, as they are.

        [R; K] dq = [0; -delta],   [R; K] qd = [R qd; -drift]

    by Newton's method with as many iterations each time, on floats and traced scalars. Variables of
    a joint with a quaternion may be among the independent ones: what counts is that they do not
    move. Of coordinates that are none, more constraints are left open.
    """
    p = len(independent)
    R = np.eye(model.nv)[independent]
    for _ in range(ITERATIONS):
        constraints = position_constraints(model, q)
        error = np.concatenate([np.zeros(p), -constraints.delta])
        factors = _factors(model, R, constraints.K)
        q = displaced(model, q, solved(factors, error, np.zeros(model.nv))[0])
    factors = _factors(model, R, position_constraints(model, q).K)
    wanted = np.concatenate([qd[independent], -drift(model, q)])
    return DependentMotion(q, solved(factors, wanted, np.asarray(qd))[0], factors.condition)


def check_independent(model: Tree, q: Array, independent: list[int]) -> None:
    """Raises ValueError for variables that are too few, too many or dependent at q."""
    K = position_constraints(model, q).K
    sizes = np.linalg.svd(K, compute_uv=False)
    mobility = model.nv - int(np.sum(sizes > RANK * np.max(sizes, initial=0.0)))
    if len(independent) != mobility:
        raise ValueError(
            f"model '{model.name}' has the mobility {mobility} in this configuration and needs as "
            f"many independent variables, not {len(independent)}"
        )
    both = np.linalg.svd(np.vstack([np.eye(model.nv)[independent], K]), compute_uv=False)
    if both[model.nv - 1] < RANK * both[0]:
        raise ValueError(
            f"the variables chosen for model '{model.name}' depend on each other in this "
            "configuration; choose others"
        )


def _factors(model: Tree, R: Array, K: Array) -> Elimination:
    blocks = [slice(0, len(R))]
    blocks += [slice(k.start + len(R), k.stop + len(R)) for k in model.constraint_slices]
    return eliminated(np.vstack([R, K]).T, blocks, RANK)
