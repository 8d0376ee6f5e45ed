"""Diagnostics of loops: errors, rank, mobility, singular configurations and redundant constraints.

K (nc, nv) is the constraint matrix of the loops.

- Errors, rank, condition and singular configurations (`loop_diagnostics`, `singular_passages`).
- Redundant constraints and their names (`redundant_constraints`).
- Connectivity: structure of K, loop clusters and mobility (RBDA 8.2, 8.9, 8.10).
- Infinitesimal mechanisms: loops that are mobile only to first order.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.dynamics import body_poses
from rigidblocks.dynamics.loops.constraints import (
    drift,
    loop_constraints,
    nearest_common_ancestor,
    position_constraints,
    string_joints,
)
from rigidblocks.robot.configuration import integrate_unchecked
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.linear_algebra import (
    SINGULAR_VALUE_TOLERANCE,
    NullSpace,
    null_space,
    reduction,
    svd,
)
from rigidblocks.spatial.scalar import less, select
from rigidblocks.spatial.spatial import Array


class LoopDiagnostics(NamedTuple):
    """Errors, singular values, rank and mobility of the loops, as floats or traced scalars.

    K qdd = k are the loop constraints, with the singular values sigma of K.

    Attributes:
        position_error: Euclidean norm of the position errors delta [rad, m].
        velocity_error: Norm of the velocity errors K qd + `drift` [rad/s, m/s].
        singular_values: Singular values (m,) of K, m = min(nc, nv).
        condition: sigma_1/sigma_m, very large if constraints are dependent (Spencer 2004, 3.1).
        effective_condition: sigma_1/sigma_r of the independent constraints.
        rank: Rank r of K.
        mobility: Mobility n - r, with n = nv.
        indicator: Singularity indicator |u_r^T k|; u_r is the left singular vector for sigma_r.
            The accelerations remain bounded near a singular configuration if the indicator
            decreases in proportion to sigma_r (Spencer 2004, 3.1.1).
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
    """Constraint that other constraints imply.

    Attributes:
        row: Row of the constraint in K.
        name: Name of the constraint.
        implied_by: Names of the constraints that imply this constraint. The tuple is empty if the
            constraint restricts no motion.
    """

    row: int
    name: str
    implied_by: tuple[str, ...]

    def __str__(self) -> str:
        implied = (
            f"implied by {'; '.join(self.implied_by)}"
            if self.implied_by
            else "always satisfied by the spanning tree"
        )
        return f"{self.name}: {implied}"


class SingularPassage(NamedTuple):
    """Singular configuration on a recorded motion.

    Attributes:
        t: Time [s].
        ratio: Smallest recorded ratio sigma_r/sigma_1 near the configuration. sigma are the
            singular values of the constraint matrix K, and r is the generic rank of K: the largest
            rank in the recording.
        crossed: True if the motion passes through the singular configuration (`singular_passages`).
            False if the motion only approaches it.
        indicator: Singularity indicator as in `LoopDiagnostics`; NaN if the velocities are unknown.
    """

    t: float
    ratio: float
    crossed: bool
    indicator: float

    def __str__(self) -> str:
        return (
            f"{'passed through' if self.crossed else 'approached'} a singular configuration at t = "
            f"{self.t:.6g} s"
        )


def loop_diagnostics(
    model: Tree, q: Array, qd: Array, tolerance: float = SINGULAR_VALUE_TOLERANCE
) -> LoopDiagnostics:
    """Return the errors, singular values, rank and mobility of the loops at (q, qd).

    The function supports floats and traced scalars. For traced arguments, each sweep of the
    singular value decomposition adds about 10 m^2 n operations for m constraints and n velocity
    variables. Use traced arguments only for models with at most a dozen constraints.

    Args:
        model: Model with loops.
        q: Configuration (nq,).
        qd: Velocities (nv,).
        tolerance: Singular values below this fraction of the largest one count as zero.

    Raises:
        ValueError: The model has no constraints.
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
        _last_component(factors.U, factors.inverses(tolerance), k),
    )


def _check_constrained(model: Tree) -> None:
    if not model.nc:
        raise ValueError(f"model '{model.name}' has no loop constraints to diagnose")


def _last_component(U: Array, inverses: Array, k: Array) -> Any:
    """Return |u_r^T k|, the magnitude of the component of k along u_r in K qdd = k.

    u_r is the left singular vector of the smallest nonzero singular value of K. U contains the left
    singular vectors, and `inverses` the inverse singular values, 0 for a zero singular value.
    """
    following = np.append(inverses[1:], 0.0)
    shares = abs(U.T @ k)
    last = [
        a * b
        for a, b in zip(_positive_flags(inverses), 1.0 - _positive_flags(following), strict=True)
    ]
    return sum(one * share for one, share in zip(last, shares, strict=True))


def _positive_flags(values: Array) -> Array:
    return np.array(select(less(0.0, values), 1.0, 0.0))


def constraint_names(model: Tree, q: Array) -> tuple[str, ...]:
    """Return the names of the nc constraints at q, such as "support: translation along y".

    A name consists of the name of the loop joint and the motion that the constraint prevents. The
    directions are axes of the successor frame of the loop joint.
    """
    X0 = [*body_poses(model, q), model.algebra.identity()]
    names = []
    for name, loop in zip(model.loop_names, model.loops, strict=False):
        X = loop.Xs @ X0[loop.successor] @ (loop.Xp @ X0[loop.predecessor]).inverse()
        T = loop.joint.constraint(X, model.algebra.zero()).T
        names += [f"{name}: {_prevented_motion(column)}" for column in T.T]
    names += [f"{name}: length" for name in model.loop_names[len(model.loops) :]]
    return tuple(names)


def _prevented_motion(force: Array) -> str:
    """Return the motion that a constraint force prevents, such as "translation along y".

    force is (6,), or (3,) for a planar model.
    """
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
    model: Tree, q: Array, tolerance: float = SINGULAR_VALUE_TOLERANCE
) -> tuple[RedundantConstraint, ...]:
    """Return the redundant loop constraints at q (nq,), which other constraints imply.

    These constraints can be removed without a change of the motion. Among mutually dependent
    constraints, the choice of the redundant constraint is arbitrary. The elimination retains the
    constraints with the largest elements (RBDA 8.8).

    Args:
        model: Model with loops.
        q: Configuration (nq,).
        tolerance: Pivots of K below this fraction of the first pivot count as zero.
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


def near_singular_intervals(
    t: Array, rank: Array, condition: Array
) -> Iterator[tuple[float, float]]:
    """Yield time [s] and condition number of the worst sample of each near-singular interval.

    A sample is nearly singular if the condition number is above 30 times the median of all samples.
    A sample with a rank below the largest rank counts as a sample with an infinite condition
    number. Each interval of nearly singular samples yields the sample with the largest condition
    number. `singular_passages` shows whether the motion passes through a singular configuration or
    only approaches it.

    Args:
        t: Times (n,) [s].
        rank: Rank (n,) from the outputs of a plant.
        condition: Condition number (n,) from the outputs of a plant.
    """
    measure = np.where(rank < np.max(rank), np.inf, condition)
    close = np.flatnonzero(measure > 30.0 * np.median(condition))
    for run in np.split(close, np.flatnonzero(np.diff(close) > 1) + 1):
        if len(run):
            k = run[np.argmax(measure[run])]
            yield float(t[k]), float(measure[k])


class _Sample(NamedTuple):
    """Singular values and vectors of the constraint matrix K of rank r at the time t [s].

    U and V are bases of the column and row space of K. `sigma` is the singular value sigma_r, and
    `ratio` is sigma_r/sigma_1. `indicator` is the singularity indicator as in `LoopDiagnostics`.
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
    """Return the singular configurations of a recorded motion in the order of time.

    At a singular configuration, the rank of the constraint matrix K is below its generic rank r.
    Therefore the singular value sigma_r of K is zero there. The function detects two cases:

    - The motion passes through a singular configuration between two samples. The determinants of
      U1^T U2 and V1^T V2 then have opposite signs. U and V are bases of the column space and of the
      row space of K at the two samples.
    - The ratio sigma_r/sigma_1 is below `threshold` for some samples, without such a passage.

    Args:
        model: Model with loops.
        times: Times of the samples [s].
        q: Configurations (samples, nq). Between two samples, the bases of the row space and of the
            column space of K must rotate by less than 60 degrees.
        qd: Velocities (samples, nv), which only the indicator requires.
        threshold: Upper limit of the ratio at a singular configuration.

    Raises:
        ValueError: The numbers of times and configurations differ, or the model has no constraints.
    """
    _check_constrained(model)
    if len(times) != len(q):
        raise ValueError(
            f"a recorded motion needs one time for each configuration; it has {len(times)} times "
            f"and {len(q)} configurations"
        )
    samples = _samples(model, times, q, qd)
    return tuple(sorted([*_crossings(samples), *_minima(samples, threshold)]))


def _samples(model: Tree, times: Sequence[float], q: Array, qd: Array | None) -> list[_Sample]:
    still = np.zeros(model.nv)
    constraints = [
        loop_constraints(model, qi, still if qd is None else qd[i]) for i, qi in enumerate(q)
    ]
    factors = [np.linalg.svd(c.K) for c in constraints]
    r = max(int(np.sum(s > SINGULAR_VALUE_TOLERANCE * s[0])) for _, s, _ in factors)
    return [
        _sample(float(t), factor, r, None if qd is None else c.k)
        for t, factor, c in zip(times, factors, constraints, strict=True)
    ]


def _sample(t: float, factors: tuple[Array, Array, Array], r: int, k: Array | None) -> _Sample:
    """Return the sample at the time t [s] from `factors`, the singular value decomposition of K.

    K qdd = k are the loop constraints, and r is the generic rank of K. If k is None, the indicator
    is NaN.
    """
    U, s, Vt = factors
    sigma, indicator = float(s[r - 1]), np.nan if k is None else float(abs(U[:, r - 1] @ k))
    return _Sample(t, U[:, :r], Vt[:r].T, sigma, sigma / float(s[0]), indicator)


def _crossings(samples: list[_Sample]) -> Iterator[SingularPassage]:
    """Yield the singular configurations through which the motion passes between two samples.

    The motion passes through a singular configuration if the determinants of U1^T U2 and V1^T V2
    have opposite signs. U1 and V1 are the bases U and V of the first sample (`_Sample`), and U2 and
    V2 the bases of the second sample. The function skips samples at which the singular value
    sigma_r is nearly zero, because its singular vectors are not unique.
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
    """Yield the sample with the smallest `ratio` in each interval of ratios below `threshold`.

    The function skips intervals in which the motion passes through a singular configuration.
    """
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


class Cluster(NamedTuple):
    """Loop cluster: loops that share tree joints.

    `loops` contains the indices of the loops, and `joints` the indices of the tree joints that
    belong to these loops.
    """

    loops: tuple[int, ...]
    joints: tuple[int, ...]


def path_signs(model: Tree) -> Array:
    """Return the path signs epsilon of the joints in each loop and cable (RBDA Eq 8.20).

    epsilon has one row per loop, then one row per cable, and nb columns. The block of the
    constraint matrix for loop l and joint j is K_lj = epsilon_lj T_l^T S_j, in common coordinates.
    T_l is a basis of the constraint forces of the loop joint, and S_j the motion subspace of joint
    j. The path of a loop starts at the nearest common ancestor of predecessor and successor. The
    sign is 1 for joints on the path to the successor, -1 for joints on the path to the predecessor,
    and 0 for other joints. For a cable, the sign is 1 for all joints that move a point of the
    cable.
    """
    epsilon = np.zeros((len(model.loop_names), model.nb), dtype=int)
    for k, string in enumerate(model.strings, len(model.loops)):
        epsilon[k, list(string_joints(model, string))] = 1
    for l, loop in enumerate(model.loops):
        root = nearest_common_ancestor(model, loop.predecessor, loop.successor)
        for i, sign in ((loop.successor, 1), (loop.predecessor, -1)):
            while i != root:
                epsilon[l, i] = sign
                i = model.parent[i]
    return epsilon


def loop_clusters(model: Tree) -> tuple[Cluster, ...]:
    """Return the minimal loop clusters, in the order of their first loops (RBDA 8.9).

    Two loops are coupled if they share a joint with at least one degree of freedom.
    """
    on = (path_signs(model) != 0) & np.array([joint.nv > 0 for joint in model.joint])
    groups: list[tuple[set[int], set[int]]] = []
    for l, row in enumerate(on):
        joints = set(np.flatnonzero(row).tolist())
        coupled = [group for group in groups if group[1] & joints]
        groups = [group for group in groups if not group[1] & joints]
        groups.append(
            (
                {l}.union(*(group[0] for group in coupled)),
                joints.union(*(group[1] for group in coupled)),
            )
        )
    return tuple(
        sorted(Cluster(tuple(sorted(loops)), tuple(sorted(joints))) for loops, joints in groups)
    )


def constraint_structure(model: Tree) -> Array:
    """Return a mask (nc, nv) of the elements of the constraint matrix K that can be nonzero.

    The mask depends only on the connectivity of the model.
    """
    structure = np.zeros((model.nc, model.nv), dtype=bool)
    for rows, epsilon in zip(model.constraint_slices, path_signs(model), strict=True):
        for columns, sign in zip(model.v_slices, epsilon, strict=True):
            structure[rows, columns] = sign != 0
    return structure


def null_space_by_clusters(model: Tree, K: Array, k: Array) -> NullSpace:
    """Solve K x = k cluster by cluster: return a null-space basis G and a solution g (RBDA 8.9).

    The solutions are x = G y + g. G is block-diagonal, with ones for joints outside all loops. The
    function supports floats only.

    Args:
        model: Model with loops.
        K: Constraint matrix (nc, nv).
        k: Right-hand side (nc,).
    """
    n = model.nv
    G, g, free = np.eye(n), np.zeros(n), np.ones(n, dtype=bool)
    for loops, joints in loop_clusters(model):
        rows = _indices_in(model.constraint_slices, loops)
        own = _indices_in(model.v_slices, joints)
        G_i, g[own], independent = null_space(K[np.ix_(rows, own)], k[rows])
        chosen = own[list(independent)]
        free[np.setdiff1d(own, chosen)] = False
        G[np.ix_(own, own)] = 0.0
        G[np.ix_(own, chosen)] = G_i
    return NullSpace(G[:, free], g, tuple(np.flatnonzero(free).tolist()))


def _indices_in(slices: tuple[slice, ...], numbers: tuple[int, ...]) -> Array:
    """Return the indices in the slices `slices[k]` for all k in `numbers`."""
    return np.concatenate([np.arange(slices[k].start, slices[k].stop) for k in numbers])


def mobility(model: Tree, q: Array, tolerance: float = SINGULAR_VALUE_TOLERANCE) -> int:
    """Return the mobility n - r of the model at q (RBDA Eq 8.52), which may depend on q.

    n is the number of velocity variables, and r is the rank (`constraint_rank`).
    """
    return model.nv - constraint_rank(model, q, tolerance)


def constraint_rank(model: Tree, q: Array, tolerance: float = SINGULAR_VALUE_TOLERANCE) -> int:
    """Return the number of independent constraints at the configuration q.

    Args:
        model: Model with loops.
        q: Configuration (nq,).
        tolerance: Singular values below this fraction of the largest one count as zero.
    """
    K = position_constraints(model, q).K
    s = np.linalg.svd(K, compute_uv=False) if K.size else np.zeros(1)
    return int(np.sum(s > tolerance * s[0]))


SLIGHT = 1e-4  # singular values of K below this fraction of the largest one count as zero
FAR = 0.03  # [rad or m] length of the test motion of an infinitesimal mechanism
OPEN = 1e-5  # loop opening / loop length; larger than the effect of rounded model data at FAR


def infinitesimal_mechanisms(model: Tree, q: Array) -> dict[int, list[int]]:
    """Return the loops that allow an infinitesimal but no finite motion at q (nq,).

    The keys of the result are the indices of the loop joints. The values are the indices of the
    tree joints in each loop. At q, the constraints of such a loop allow one velocity direction, but
    a small displacement along this direction opens the loop.

    An example is a triangle of two revolute joints and a slider, with the slider perpendicular to
    the line through the revolute joints. A displacement s opens the loop by s^2. The equation of
    motion has no solution, because the constraint that must prevent the motion vanishes. In
    practice, the loop does not move.
    """
    found = {}
    for l in range(len(model.loops)):
        joints = _joints_around(model, l)
        rows = model.constraint_slices[l]
        columns = [k for i in joints for k in range(model.nv)[model.v_slices[i]]]
        K = position_constraints(model, q).K[rows][:, columns]
        sizes, motions = np.linalg.svd(K)[1:]
        if len(columns) - np.sum(sizes > SLIGHT * sizes[0]) != 1:
            continue
        way = np.zeros(model.nv)
        way[columns] = motions[-1] / np.abs(motions[-1]).max()
        length = sum(float(np.abs(model.Xtree[i].r).max()) for i in joints)
        if (
            min(_loop_opening(model, q, far * way, rows, columns) for far in (FAR, -FAR))
            > OPEN * length
        ):
            found[l] = joints
    return found


def _joints_around(model: Tree, l: int) -> list[int]:
    """Return the tree joints on the path between the two bodies of loop joint l."""
    loop, joints = model.loops[l], []
    root = nearest_common_ancestor(model, loop.predecessor, loop.successor)
    for i in (loop.predecessor, loop.successor):
        while i != root:
            joints.append(i)
            i = model.parent[i]
    return joints


def _loop_opening(model: Tree, q: Array, offset: Array, rows: slice, columns: list[int]) -> float:
    """Return the smallest closure error of a loop after a displacement `offset` (nv,) from q.

    `rows` are the constraints of the loop. The function minimizes their error by Newton steps in
    the velocity variables `columns`. The steps are perpendicular to `offset`.
    """
    q = integrate_unchecked(model, q, offset)
    along = offset[columns] / np.linalg.norm(offset[columns])
    step = np.zeros(model.nv)
    for _ in range(8):
        K, _, delta = position_constraints(model, q)
        equations = np.vstack([K[rows][:, columns], along])
        step[columns] = np.linalg.lstsq(equations, -np.append(delta[rows], 0.0), rcond=1e-6)[0]
        q = integrate_unchecked(model, q, step)
    return float(np.linalg.norm(position_constraints(model, q).delta[rows]))
