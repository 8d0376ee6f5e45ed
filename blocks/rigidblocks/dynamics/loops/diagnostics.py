"""What to know of a system with loops: errors, rank, condition, redundant constraints by name,
singular configurations.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.pivoting import reduction
from rigidblocks.algebra.scalar import less, select
from rigidblocks.algebra.spatial import Array
from rigidblocks.algebra.svd import TOLERANCE, svd
from rigidblocks.dynamics import body_poses
from rigidblocks.loops.constraints import drift, loop_constraints, position_constraints
from rigidblocks.model.tree import Tree


class LoopDiagnostics(NamedTuple):
    """The state of the loops, of floats or of traced scalars.

    `position_error` and `velocity_error` are the root of the sum of the squares of delta and of K
    qd (rad, m and per s). `singular_values` (m = min(nc, nv),) are those of K, `condition` is
    sigma_1/sigma_m, huge where constraints depend on others (Spencer 2004, 3.1),
    `effective_condition` is sigma_1/sigma_r of the independent ones. `rank` is r, `mobility` n - r.
    `indicator` is |v_r u_r^T k| = |u_r^T k|: near a singular configuration the accelerations stay
    moderate if it falls as sigma_r does (3.1.1).
    """

    position_error: Any
    velocity_error: Any
    singular_values: Array
    condition: Any
    effective_condition: Any
    rank: Any
    mobility: Any
    indicator: Any


class RedundantConstraint(NamedTuple):
    """A constraint that others imply: its row in K, its name, and the names of those that imply it;
    none where it moves nothing at all.
    """

    row: int
    name: str
    implied_by: tuple[str, ...]

    def __str__(self) -> str:
        implied = (
            f"implied by {'; '.join(self.implied_by)}"
            if self.implied_by
            else "always kept by the tree"
        )
        return f"{self.name}: {implied}"


class SingularPassage(NamedTuple):
    """A singular configuration on a recorded motion.

    `t` [s] is when, `ratio` the smallest sigma_r/sigma_1 that was recorded near it, `crossed`
    whether sigma_r changed its sign there, and `indicator` that of `LoopDiagnostics`, or NaN
    without velocities.
    """

    t: float
    ratio: float
    crossed: bool
    indicator: float

    def __str__(self) -> str:
        return (
            f"{'passed' if self.crossed else 'came to'} a singular configuration at t = "
            f"{self.t:.6g} s"
        )


def loop_diagnostics(
    model: Tree, q: Array, qd: Array, tolerance: float = TOLERANCE
) -> LoopDiagnostics:
    """The errors, singular values, rank and mobility of the loops of a model at (q, qd).

    For floats and traced scalars; a trace costs about 10 m^2 n operations a sweep and should have
    no more than a dozen constraints m. Raises ValueError for a model that has none.
    """
    _check_constrained(model)
    K, k, delta = loop_constraints(model, q, qd)
    factors, error = svd(K), K @ qd + drift(model, q)
    rank = factors.rank(tolerance)
    return LoopDiagnostics(
        np.sqrt(delta @ delta),
        np.sqrt(error @ error),
        factors.s,
        factors.condition,
        factors.effective_condition(tolerance),
        rank,
        model.nv - rank,
        _last_share(factors.U, factors.inverses(tolerance), k),
    )


def _check_constrained(model: Tree) -> None:
    if not model.nc:
        raise ValueError(
            f"model '{model.name}' has no loop joint that constrains it; there is nothing to "
            "diagnose"
        )


def _last_share(U: Array, inverses: Array, k: Array) -> Any:
    """|u_r^T k| of the last of the singular values, which are in order, that are not dropped."""
    following = np.append(inverses[1:], 0.0)
    shares = abs(U.T @ k)
    last = [a * b for a, b in zip(_positive(inverses), 1.0 - _positive(following), strict=True)]
    return sum(one * share for one, share in zip(last, shares, strict=True))


def _positive(values: Array) -> Array:
    return np.array(select(less(0.0, values), 1.0, 0.0))


def constraint_names(model: Tree, q: Array) -> tuple[str, ...]:
    """The names of the constraints (nc,) at q: that of the loop joint, and the motion of its
    successor frame that it stops, as "support: translation along y".
    """
    X0 = [*body_poses(model, q), model.algebra.identity()]
    names = []
    for name, loop in zip(model.loop_names, model.loops, strict=False):
        X = loop.Xs @ X0[loop.successor] @ (loop.Xp @ X0[loop.predecessor]).inverse()
        T = loop.joint.constraint(X, model.algebra.zero()).T
        names += [f"{name}: {_direction(column)}" for column in T.T]
    names += [f"{name}: length" for name in model.loop_names[len(model.loops) :]]
    return tuple(names)


def _direction(force: Array) -> str:
    """The motion against which a force works."""
    turn, slide = (
        (force[:3], force[3:])
        if len(force) == 6
        else (np.array([0.0, 0.0, force[0]]), np.append(force[1:], 0.0))
    )
    parts = [("rotation about", turn), ("translation along", slide)]
    return " and ".join(
        f"{what} {_axis(vector)}" for what, vector in parts if np.any(np.abs(vector) > 1e-12)
    )


def _axis(vector: Array) -> str:
    unit = vector / np.sqrt(vector @ vector)
    k = int(np.argmax(np.abs(unit)))
    return "xyz"[k] if abs(unit[k]) > 1 - 1e-9 else "(" + ", ".join(f"{x:.3g}" for x in unit) + ")"


def redundant_constraints(
    model: Tree, q: Array, tolerance: float = TOLERANCE
) -> tuple[RedundantConstraint, ...]:
    """The constraints that others imply at q; without them the mechanism moves the same.

    Which constraint of several that depend on each other is called redundant is a choice: the
    elimination keeps the ones with the largest elements (RBDA 8.8).
    """
    K = position_constraints(model, q).K
    names, kept = (
        constraint_names(model, q),
        reduction(K, np.zeros(len(K)), tolerance=tolerance).kept,
    )
    basis = np.flatnonzero(kept == 1.0)
    redundant = []
    for row in np.flatnonzero(kept == 0.0):
        shares = (
            np.abs(np.linalg.lstsq(K[basis].T, K[row], rcond=None)[0])
            if len(basis)
            else np.zeros(0)
        )
        implied = tuple(names[i] for i, share in zip(basis, shares, strict=True) if share > 1e-6)
        redundant.append(RedundantConstraint(int(row), names[row], implied))
    return tuple(redundant)


def near_singular(t: Array, rank: Array, condition: Array) -> Iterator[tuple[float, float]]:
    """The times [s] at which a recorded motion came close to singular configurations, with the
    condition there, infinite where constraints were dependent: from the outputs (n,) of a plant.

    Close is where the condition is 30 times its median. `singular_passages` tells what was passed
    from what was only near.
    """
    measure = np.where(rank < np.max(rank), np.inf, condition)
    close = np.flatnonzero(measure > 30.0 * np.median(condition))
    for run in np.split(close, np.flatnonzero(np.diff(close) > 1) + 1):
        if len(run):
            k = run[np.argmax(measure[run])]
            yield float(t[k]), float(measure[k])


class _Sample(NamedTuple):
    """The singular vectors of the generic rank, the smallest singular value, its ratio to the
    largest, the indicator.
    """

    t: float
    U: Array
    V: Array
    sigma: float
    ratio: float
    indicator: float


def singular_passages(
    model: Tree, times: Sequence[float], q: Array, qd: Array | None = None, threshold: float = 1e-6
) -> tuple[SingularPassage, ...]:
    """The singular configurations on a recorded motion, q (samples, nq), in order: where the rank
    of K is less than else.

    They are where the smallest of K's generic singular values changes its sign, which it does
    between two samples where the bases of its rows and of its columns, carried along, come back
    with another orientation; and where its ratio to the largest stays below `threshold` for a
    while. The sampling must be so fine that the bases turn by less than 60 degrees. With `qd`
    (samples, nv) the indicator is given too. Raises ValueError where times and samples are not
    equally many, and for a model without constraints.
    """
    _check_constrained(model)
    if len(times) != len(q):
        raise ValueError(
            f"a recorded motion needs a time for each configuration; there are {len(times)} and "
            f"{len(q)}"
        )
    samples = _samples(model, times, q, qd)
    return tuple(sorted([*_crossings(samples), *_minima(samples, threshold)]))


def _samples(model: Tree, times: Sequence[float], q: Array, qd: Array | None) -> list[_Sample]:
    still = np.zeros(model.nv)
    constraints = [
        loop_constraints(model, qi, still if qd is None else qd[i]) for i, qi in enumerate(q)
    ]
    factors = [np.linalg.svd(c.K) for c in constraints]
    r = max(int(np.sum(s > TOLERANCE * s[0])) for _, s, _ in factors)
    return [
        _sample(float(t), factor, r, None if qd is None else c.k)
        for t, factor, c in zip(times, factors, constraints, strict=True)
    ]


def _sample(t: float, factors: tuple[Array, Array, Array], r: int, k: Array | None) -> _Sample:
    """The sample at time t with the generic rank r, without an indicator where k is not known."""
    U, s, Vt = factors
    sigma, indicator = float(s[r - 1]), np.nan if k is None else float(abs(U[:, r - 1] @ k))
    return _Sample(t, U[:, :r], Vt[:r].T, sigma, sigma / float(s[0]), indicator)


def _crossings(samples: list[_Sample]) -> Iterator[SingularPassage]:
    """Between samples at which the orientation of both bases together changes; those without a
    definite last vector are passed over.
    """
    definite = [sample for sample in samples if sample.ratio > 1e-7]
    for one, two in pairwise(definite):
        turn, other = np.linalg.det(one.U.T @ two.U), np.linalg.det(one.V.T @ two.V)
        if turn * other < 0 and min(abs(turn), abs(other)) > 0.1:
            t = one.t + (two.t - one.t) * one.sigma / (one.sigma + two.sigma)
            near = min(
                (sample for sample in samples if one.t <= sample.t <= two.t),
                key=lambda sample: sample.ratio,
            )
            yield SingularPassage(t, near.ratio, True, near.indicator)


def _minima(samples: list[_Sample], threshold: float) -> Iterator[SingularPassage]:
    """The smallest ratio of each run of samples below the threshold that is no crossing."""
    crossed = [passage.t for passage in _crossings(samples)]
    for below, run in groupby(
        enumerate(samples), key=lambda numbered: numbered[1].ratio < threshold
    ):
        places = [i for i, _ in run]
        start, end = (
            samples[max(places[0] - 1, 0)].t,
            samples[min(places[-1] + 1, len(samples) - 1)].t,
        )
        if below and not any(start <= t <= end for t in crossed):
            least = min((samples[i] for i in places), key=lambda sample: sample.ratio)
            yield SingularPassage(least.t, least.ratio, False, least.indicator)
