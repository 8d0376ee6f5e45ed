"""What a least-squares problem says of its numbers: how well each is known, or that it is not."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array

_RANK = 1e-7  # of the largest singular value, with derivatives that are exact
_ROUGH_RANK = 1e-5  # and with difference quotients
_SHARE = 1e-6  # of a number in what the data do not see, below which it has none


class Estimate(NamedTuple):
    """Standard deviations (n,), confidence intervals (n, 2) and correlation (n, n)."""

    deviations: Array
    intervals: Array
    correlation: Array


def estimated(z: Array, J: Array, residuals: Array, level: float, scaled: bool) -> Estimate:
    """How well the numbers z are known, from the Jacobian (m, n) of residuals in units of the
    noise (m,):

        C = s^2 (J^T J)^-1,    z +- t(level, m - n) sqrt(diag C)

    s^2 is the mean square of the residuals where `scaled`, else 1 (Seber and Wild, Nonlinear
    Regression, 5.1).
    """
    from scipy.stats import t

    m, n = J.shape
    freedoms = max(m - n, 1)
    scale = np.linalg.norm(J, axis=0)
    inverse = np.linalg.pinv(J / scale)
    C = inverse @ inverse.T / np.outer(scale, scale)
    deviations = np.sqrt(np.diag(C))
    correlation = C / np.outer(deviations, deviations)
    if scaled:
        deviations = deviations * np.sqrt(residuals @ residuals / freedoms)
    half = t.ppf((1 + level) / 2, freedoms) * deviations
    return Estimate(deviations, np.stack([z - half, z + half], axis=1), correlation)


def identifiable(names: Sequence[str], J: Array, exact: bool) -> None:
    """Raises ValueError where the data do not determine each of the numbers: it names those that
    change nothing, and the groups of which combinations alone can be found.
    """
    scale = np.linalg.norm(J, axis=0)
    unseen = scale <= 1e-12 * np.max(scale, initial=0.0)
    texts = [f"{name} changes nothing that was measured" for name in np.array(names)[unseen]]
    seen = np.flatnonzero(~unseen)
    if len(seen):
        _, sizes, V = np.linalg.svd(J[:, seen] / scale[seen], full_matrices=True)
        sizes = np.concatenate([sizes, np.zeros(len(seen) - len(sizes))])
        free = V[sizes <= (_RANK if exact else _ROUGH_RANK) * sizes[0]]
        for group, missing in _groups(free):
            which = ", ".join(names[seen[k]] for k in group)
            texts.append(f"of {which} only {len(group) - missing} combinations can be found")
    if texts:
        raise ValueError(
            f"the data do not determine all of these numbers: {'; '.join(texts)}. Leave some of "
            "them out, with values that are known, or record what tells them apart"
        )


def _groups(free: Array) -> list[tuple[list[int], int]]:
    """The numbers that change together without being seen, in groups that have nothing to do with
    each other, each with how many such changes there are.
    """
    shares = free.T @ free  # the projection onto what is not seen
    left = [k for k in range(free.shape[1]) if shares[k, k] > _SHARE]
    groups = []
    while left:
        group = [left.pop(0)]
        for k in group:
            near = [j for j in left if abs(shares[k, j]) > _SHARE]
            group += near
            left = [j for j in left if j not in near]
        groups.append((sorted(group), round(float(sum(shares[k, k] for k in group)))))
    return groups
