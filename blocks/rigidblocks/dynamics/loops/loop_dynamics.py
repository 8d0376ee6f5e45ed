"""Forward and inverse dynamics of systems with loops and gears, and projection onto closed loops.

Gears determine the driven variables from the independent variables y. The module therefore reduces
the system H x = f + K^T lam, K x = k to the variables y. x are accelerations or velocity changes:

    x = G y + x0,   G^T H G y = G^T (f - H x0 + K^T lam),   K G y = k - K x0

x0 contains the components of the driven variables that do not depend on y. The force of a gear is
the residual in the equation of the driven variable.

Inverse dynamics returns the actuator forces of a motion.

Source: RBDA 8.5 (forward), 8.12 (inverse).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.dynamics import (
    bias_force,
    check_lengths,
    crba,
    expanded_parent,
    ltl,
    mpy_li,
    mpy_lit,
    rnea,
)
from rigidblocks.dynamics.joint_kinematics import velocity_columns
from rigidblocks.dynamics.loops.constraint_solvers import (
    TOLERANCE,
    Elimination,
    RoundingBound,
    eliminate_constraints,
    solve_elimination,
    solver,
)
from rigidblocks.dynamics.loops.constraints import (
    LoopConstraints,
    active_forces,
    baumgarte,
    drift,
    loop_constraints,
    nearest_common_ancestor,
    position_constraints,
    string_joints,
)
from rigidblocks.dynamics.transmissions import GearRelation, Transmissions, gear_constraints
from rigidblocks.robot.configuration import integrate_unchecked
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.branch_sparsity import elimination_parent
from rigidblocks.spatial.scalar import (
    is_number,
    is_traced,
    is_traced_for_derivatives,
    less,
    maximum,
    minimum,
    select,
)
from rigidblocks.spatial.spatial import Array

EPS = np.finfo(float).eps
ROUNDING = 8  # rounding error of a loop position, in ulp of the loop length
DIRECTION_ROUNDING = (
    4096  # [ulp] rounding error of constraint directions; rounding accumulates over loop chains
)


@dataclass(frozen=True)
class Geared:
    """Model with loops, and its rotor inertias and gears (`transmissions`).

    A constraint counts as dependent if its component that is independent of the other constraints
    is smaller than `tolerance` times the largest constraint.
    """

    model: Tree
    transmissions: Transmissions | None = None
    tolerance: float = TOLERANCE

    @property
    def drives(self) -> Mapping[int, GearRelation]:
        """Mapping from the index in qd of each driven variable to its gear relation."""
        return self.transmissions.driven if self.transmissions else {}

    def linearize(self, q: Array, qd: Array) -> "Geared":
        """Return the model with the tangents of its nonlinear gears at q (nq,) and qd (nv,)."""
        if self.transmissions is None or self.transmissions.is_linear:
            return self
        return replace(self, transmissions=self.transmissions.linearize(self.model, q, qd))

    @property
    def count(self) -> int:
        """Number of gears."""
        return len(self.drives)

    @property
    def independent(self) -> list[int]:
        """Indices of the variables y that no gear drives."""
        return [k for k in range(self.model.nv) if k not in self.drives]

    def project_columns(self, A: Array) -> Array:
        """Return A G, the product of a matrix A (n, nv) and the gear matrix G."""
        if not self.drives:
            return A
        columns = list(A.T)
        for k, drive in self.drives.items():
            columns[drive.driving] = columns[drive.driving] + drive.ratio * columns[k]
        return np.array([columns[k] for k in self.independent]).T

    def expand_variables(self, y: Array, additions: Array) -> Array:
        """Return x = G y + x0 (nv,) with the gear matrix G.

        `additions` contains the elements of x0 for the driven variables; the others are zero.
        """
        if not self.drives:
            return y
        x = np.zeros(self.model.nv, dtype=object)
        x[self.independent] = y
        for (k, drive), addition in zip(self.drives.items(), additions, strict=True):
            x[k] = drive.ratio * x[drive.driving] + addition
        return x if any(map(is_traced, x)) else x.astype(float)

    def parent(self, tree: Tree) -> tuple[int, ...]:
        """Return the parent array of the independent variables, which defines zeros of G^T H G.

        `tree` has the same equation of motion as the model.
        """
        if not self.drives:
            return expanded_parent(tree)
        n = self.model.nv
        reads = np.eye(n, dtype=bool)  # true for nonzero elements of the inertia
        for k, p in enumerate(expanded_parent(tree)):
            if p >= 0:
                reads[k, :k] = reads[p, :k]
        reads |= reads.T
        for k, drive in self.drives.items():
            reads[drive.driving] |= reads[k]
            reads[:, drive.driving] |= reads[:, k]
        return elimination_parent(reads[np.ix_(self.independent, self.independent)])

    @property
    def blocks(self) -> tuple[slice, ...]:
        """Slice of the constraint rows for each loop, then for each gear."""
        nc = self.model.nc
        gears = (slice(k, k + 1) for k in range(nc, nc + self.count))
        return (*self.model.constraint_slices, *gears)

    def constraints(self, loops: LoopConstraints, q: Array) -> LoopConstraints:
        """Return the loop constraints, followed by the gear constraints."""
        if not self.drives:
            return loops
        K, delta = gear_constraints(self.model, self.drives, q)
        return LoopConstraints(
            np.vstack([loops.K, K]),
            np.concatenate([loops.k, np.array([drive.bias for drive in self.drives.values()])]),
            np.concatenate([loops.delta, delta]),
        )

    @property
    def position_rounding(self) -> Array:
        """Rounding errors in the position errors of the loop and gear constraints.

        The shape is (nc + number of gears,).
        """
        return np.concatenate([_loop_rounding(self.model), np.zeros(self.count)])

    def velocity_error(self, constraints: LoopConstraints, q: Array, qd: Array) -> Array:
        """Return the velocity errors of the loop and gear constraints [rad/s, m/s]."""
        error: Array = constraints.K @ qd
        return error + self.drift(q) if self.model.rheonomic else error

    def drift(self, q: Array) -> Array:
        """Return the velocity errors of the loop and gear constraints at qd = 0 [rad/s, m/s].

        The shape is (nc + number of gears,). The errors are zero unless a constraint depends on
        time.
        """
        return np.concatenate([drift(self.model, q), np.zeros(self.count)])

    def rounding_bound(self, constraints: LoopConstraints, qd: Array) -> RoundingBound:
        """Return k, and bounds of the rounding errors of k and of K qd.

        K and k are the matrix and the right-hand side of the loop constraints K qdd = k, and fields
        of `constraints`. K qd (nc,) are the velocity errors for the joint velocities qd (nv,).
        """
        K, k, _ = constraints
        k_rounding, rounding = np.zeros((2, len(K)), dtype=object)
        for rows, unit in zip(
            self.blocks, self.position_rounding[[rows.start for rows in self.blocks]], strict=True
        ):
            if unit > 0.0:
                length = unit / (ROUNDING * EPS)
                speeds = (K[rows] * qd).ravel()
                square = speeds @ speeds
                k_rounding[rows.start] = DIRECTION_ROUNDING * EPS / length * square
                rounding[rows.start] = DIRECTION_ROUNDING * EPS * np.sqrt(square)
        return RoundingBound(k, k_rounding, rounding)

    def dependence_tolerance(self, delta: Array) -> Any:
        """Return the tolerance below which a constraint counts as dependent.

        The tolerance is relative to the largest constraint. At integrator stages, the loops have
        the closure error delta. Constraints that are dependent in closed loops then have an
        independent component of about the size of delta. If the solver did not drop such
        constraints, Bennett's linkage would be rigid. Therefore the tolerance increases with delta.
        """
        error = reduce(maximum, np.abs(delta), 0.0)
        return maximum(self.tolerance, minimum(100.0 * error, 1e-3))

    def inertia(self, tree: Tree, q: Array) -> Array:
        """Return the joint-space inertia matrix H (nv, nv) with rotor inertias."""
        H = crba(tree, q)
        return H + np.diag(self.transmissions.rotor_inertia) if self.transmissions else H


@dataclass(frozen=True, eq=False)
class Equations:
    """Factorized equations of motion and constraints of a model at one configuration.

    Attributes:
        geared: Model with its gears.
        H: Inertia matrix (nv, nv).
        K: Matrix (nc + gears, nv) of the loop constraints, followed by the gear constraints.
        L: Factor of the inertia matrix G^T H G = L^T L of the independent variables y.
        parent: Parent array of y.
        factors: Elimination of the loop constraints in coordinates with unit inertia.
    """

    geared: Geared
    H: Array
    K: Array
    L: Array
    parent: tuple[int, ...]
    factors: Elimination

    @property
    def rank(self) -> Any:
        """Number of independent constraints of loops and gears."""
        return self.factors.rank + self.geared.count

    def replace_constraints(self, constraints: LoopConstraints, geared: Geared) -> "Equations":
        """Return a copy with new constraints and gears, and unchanged inertia."""
        factors = _eliminate(geared, self.L, self.parent, constraints)
        return replace(self, geared=geared, K=constraints.K, factors=factors)

    def solve(
        self, f: Array, k: Array, rounding_bound: RoundingBound | None = None
    ) -> tuple[Array, Array]:
        """Return x (nv,) and lam with H x = f + K^T lam and K x = k.

        f (nv,) is the force and k the right-hand side of the constraints. lam contains the
        multipliers of the loop constraints, then of the gear constraints, and has the shape of k.
        """
        nc, driven = self.geared.model.nc, self.geared.drives
        free, own = f, k
        if not all(is_number(value, 0.0) for value in k[nc:]):
            x0 = self.geared.expand_variables(np.zeros(len(self.L)), k[nc:])
            free, own = f - self.H @ x0, k - self.K @ x0
            rounding_bound = (
                replace(rounding_bound, k=own)
                if rounding_bound is not None and rounding_bound.k is k
                else rounding_bound
            )
        z = mpy_lit(self.L, self.parent, self.geared.project_columns(free))
        w, lam = solve_elimination(self.factors, own, z, rounding_bound)
        x = self.geared.expand_variables(mpy_li(self.L, self.parent, w), k[nc:])
        of_gears = [self.H[i] @ x - f[i] - self.K[:nc, i] @ lam for i in driven]
        return x, np.concatenate([lam, of_gears])

    def nearest(self, error: Array, rounding_bound: RoundingBound | None = None) -> Array:
        """Return the solution x (nv,) of K x = error with the least norm in the inertia metric."""
        return self.solve(np.zeros(len(self.H)), error, rounding_bound)[0]


def equations(tree: Tree, q: Array, constraints: LoopConstraints, geared: Geared) -> Equations:
    """Return the inertia matrix and the constraints of a model with loops, with their factors.

    Args:
        tree: Model with the same equation of motion as `geared.model`.
        q: Configuration (nq,).
        constraints: Constraints of the loops and gears.
        geared: Model with its gears.

    Raises:
        ValueError: The model has no loops.
    """
    if not len(constraints.K):
        raise ValueError(f"model '{tree.name}' has no loops; use aba")
    H, parent = geared.inertia(tree, q), geared.parent(tree)
    L = ltl(geared.project_columns(geared.project_columns(H).T), parent)
    return Equations(geared, H, constraints.K, L, parent,
                     _eliminate(geared, L, parent, constraints))  # fmt: skip


def _eliminate(
    geared: Geared, L: Array, parent: tuple[int, ...], constraints: LoopConstraints
) -> Elimination:
    model = geared.model
    K = geared.project_columns(constraints.K[: model.nc])
    Y = mpy_lit(L, parent, K.T)
    return eliminate_constraints(
        Y, model.constraint_slices, geared.dependence_tolerance(constraints.delta)
    )


def _loop_rounding(model: Tree) -> Array:
    """Return the rounding errors (nc,) in the position errors of closed loops [rad, m].

    A rounding error is proportional to the sum of the transform lengths in its loop. A projection
    must not correct position errors of this size: near a singular configuration, even a small
    correction changes q and qd by large amounts.
    """
    lengths = np.zeros(model.nc)
    for loop, rows in zip(model.loops, model.constraint_slices, strict=False):
        root = nearest_common_ancestor(model, loop.predecessor, loop.successor)
        frames = [loop.Xp, loop.Xs]
        for i in (loop.predecessor, loop.successor):
            while i != root:
                frames.append(model.Xtree[i])
                i = model.parent[i]
        lengths[rows] = sum(float(np.max(np.abs(X.r))) for X in frames)
    for string, row in zip(
        model.strings, range(model.nc - len(model.strings), model.nc), strict=True
    ):
        frames = [model.Xtree[i] for i in string_joints(model, string)]
        points = sum(float(np.max(np.abs(point))) for _, point in string.points)
        lengths[row] = points + sum(float(np.max(np.abs(X.r))) for X in frames)
    return ROUNDING * EPS * np.maximum(lengths, 1.0)


class LoopMotion(NamedTuple):
    """Accelerations and constraint forces of a system with loops.

        H qdd + C = tau + tau^a + K^T lam,   K qdd = k

    K qdd = k are the loop constraints, H is the inertia matrix and C the bias force. tau^a are the
    forces of active loop joints (`active_forces`). If constraints are dependent, lam is 0 for the
    dropped constraints. The joint forces K^T lam do not depend on the choice of these constraints.

    Attributes:
        qdd: Accelerations (nv,) of the tree joints.
        lam: Constraint forces (nc,) of the loop joints [N m, N].
        rank: Number of independent constraints.
        condition: Estimate of the condition number of the constraints (`Elimination`).
    """

    qdd: Array
    lam: Array
    rank: Any
    condition: Any


def closed_loop_dynamics(
    model: Tree,
    q: Array,
    qd: Array,
    tau: Array,
    f_ext: Array | None = None,
    gravity: Array | None = None,
    T_stab: float | None = None,
    loop_tau: Array | None = None,
    tree: Tree | None = None,
    method: str = "elimination",
    transmissions: Transmissions | None = None,
    tolerance: float = TOLERANCE,
) -> LoopMotion:
    """Return the accelerations of a system with loops from the joint forces tau.

    The default method solves RBDA Eq 8.36 by orthogonal elimination of the constraints. The motion
    can pass through singular configurations. The elimination drops constraints that are dependent
    within the relative `tolerance` (`eliminate_constraints`). The constraints may be dependent
    everywhere or only at singular configurations.

    Args:
        model: Model with loops.
        q: Configuration (nq,).
        qd: Velocities (nv,).
        tau: Joint forces (nv,).
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates.
        gravity: Gravity; by default model.gravity.
        T_stab: Time constant [s] of the Baumgarte stabilization (`baumgarte`). None disables the
            stabilization; use `project` to remove errors.
        loop_tau: Forces of active loop joints (`active_forces`).
        tree: Equivalent model, which needs fewer operations for the same equation of motion
            (`equivalent`). By default `model`.
        method: Name of one of the `SOLVERS`.
        transmissions: Rotors and gears. H contains the rotor inertia on its diagonal. The gear
            constraints follow the loop constraints, and their forces are the last elements of lam.
        tolerance: Relative size below which constraints are dependent.

    Raises:
        ValueError: The model has no loops.
    """
    check_lengths(model, f_ext, q=q, qd=qd, tau=tau)
    geared = Geared(model, transmissions, tolerance).linearize(q, qd)
    constraints = geared.constraints(loop_constraints(model, q, qd), q)
    if T_stab is not None:
        constraints = baumgarte(constraints, qd, T_stab, geared.drift(q))
    if loop_tau is not None:
        tau = tau + active_forces(model, q, loop_tau)
    tree = model if tree is None else tree
    f = tau - bias_force(tree, q, qd, f_ext, gravity)
    system = equations(tree, q, constraints, geared)
    if method == "elimination":
        qdd, lam = system.solve(f, constraints.k, geared.rounding_bound(constraints, qd))
    else:
        K, k, _ = constraints
        qdd, lam = solver(method)(system.H, f, K, k, expanded_parent(tree), geared.blocks)
        if is_traced_for_derivatives(
            f
        ):  # singular vectors of equal singular values have no derivatives
            qdd, _ = system.solve(f, k)
    return LoopMotion(qdd, lam, system.rank, system.factors.condition)


def project(
    model: Tree,
    q: Array,
    qd: Array,
    tree: Tree | None = None,
    transmissions: Transmissions | None = None,
    tolerance: float = TOLERANCE,
) -> tuple[Array, Array]:
    """Project q and qd to the nearest values, in the inertia metric, that satisfy the constraints.

    The projection takes two Newton steps in q, both with the constraint matrix K at the initial q.
    It then projects the velocities (Spencer 2004, 3.1.3). The projection reduces a position error
    of 1e-4 to less than 1e-11.

    Args:
        model: Model with loops.
        q: Configuration (nq,).
        qd: Velocities (nv,).
        tree: Model as in `closed_loop_dynamics`.
        transmissions: Rotors and gears, as in `closed_loop_dynamics`.
        tolerance: Relative tolerance, as in `closed_loop_dynamics`.

    Returns:
        Configuration (nq,) and velocities (nv,) that satisfy the constraints.
    """
    geared = Geared(model, transmissions, tolerance)
    q, before = _close_loops(model, q, tree, geared)
    geared = geared.linearize(q, np.zeros(model.nv))
    constraints = geared.constraints(loop_constraints(model, q, qd), q)
    error = geared.velocity_error(constraints, q, qd)
    system = before.replace_constraints(constraints, geared)
    return q, qd - system.nearest(error, geared.rounding_bound(constraints, qd))


def project_position(model: Tree, q: Array, tree: Tree | None = None) -> Array:
    """Project the configuration q (nq,) onto the loop constraints, as in `project`."""
    return _close_loops(model, q, tree, Geared(model))[0]


def project_velocity(model: Tree, q: Array, qd: Array, tree: Tree | None = None) -> Array:
    """Project qd (nv,) to the nearest velocities in the inertia metric that keep loops closed."""
    constraints, geared = loop_constraints(model, q, qd), Geared(model)
    system = equations(model if tree is None else tree, q, constraints, geared)
    error = geared.velocity_error(constraints, q, qd)
    moved: Array = qd - system.nearest(error, geared.rounding_bound(constraints, qd))
    return moved


def project_energy(qd: Array, kinetic: Any, wanted: Any) -> Array:
    """Scale the velocities qd (nv,) to the kinetic energy `wanted`.

    The result is nearest to qd among all velocities with this energy. This is the energy projection
    of Spencer 2004, 3.1.3, with unchanged positions. If qd satisfies the loop constraints, the
    scaled velocities satisfy them, too. If the kinetic energy is zero, qd does not change.

    Args:
        qd: Velocities (nv,).
        kinetic: Kinetic energy of qd [J].
        wanted: Kinetic energy of the result [J].
    """
    moving = less(1e-12, kinetic)
    factor = np.sqrt(maximum(wanted, 0.0) / select(moving, kinetic, 1.0))
    scaled: Array = qd * select(moving, factor, 1.0)
    return scaled


def _close_loops(
    model: Tree, q: Array, tree: Tree | None, geared: Geared
) -> tuple[Array, Equations]:
    """Project q onto the constraints; return the result and the `Equations` at the initial q."""
    still = np.zeros(model.nv)
    tangent = geared.linearize(q, still)
    constraints = tangent.constraints(position_constraints(model, q), q)
    system = equations(model if tree is None else tree, q, constraints, tangent)
    rounding, delta = geared.position_rounding, constraints.delta
    for step in range(2):
        if step:
            tangent = geared.linearize(q, still)
            delta = tangent.constraints(position_constraints(model, q), q).delta
        if is_traced_for_derivatives(delta):  # a zero error can have a nonzero derivative
            error = delta
        else:
            error = delta - select(less(np.abs(delta), rounding), delta, 0.0)
        q = integrate_unchecked(model, q, -system.nearest(error))
    return q, system


# Largest constraint error of a given motion. The position error is in rad or m. The errors of the
# velocities and accelerations are relative to the largest velocity or acceleration.
CONSISTENT = 1e-6


class LoopForces(NamedTuple):
    """Joint forces that cause a motion, with the rank of the actuation and the mobility.

    If `rank` is below `mobility`, the system is underactuated. If the number of actuators exceeds
    `rank`, the actuation is redundant.

    Attributes:
        tau: Joint forces (nv,), zero at joints without actuators.
        missed: Accelerations (nv,) that these forces cannot produce [rad/s^2, m/s^2]. They are zero
            unless the system is underactuated.
        rank: Number of degrees of freedom that the actuators move.
        mobility: Number of degrees of freedom of the system.
    """

    tau: Array
    missed: Array
    rank: Any
    mobility: Any


def closed_loop_inverse_dynamics(
    model: Tree,
    q: Array,
    qd: Array,
    qdd: Array,
    actuated: Iterable[str | int] | None = None,
    f_ext: Array | None = None,
    gravity: Array | None = None,
    loop_tau: Array | None = None,
    least_squares: bool = False,
) -> LoopForces:
    """Return the actuator forces that cause the accelerations qdd of a system with loops.

        G_u^T u = G^T tau_ID,   tau_ID = H qdd + C - tau^a                      (RBDA Eq 8.62, 8.63)

    u contains the forces of the actuators, and tau^a the tree joint forces that are equivalent to
    `loop_tau`. qd = G yd are the velocities that keep the loops closed. G_u contains the rows of G
    for the actuated joints. For redundant actuators, the forces [N m, N] have the smallest sum of
    squares. The function projects forces by G^T with the orthogonal elimination of
    `closed_loop_dynamics`. Therefore both functions agree at singular configurations, too.

    The function does not check the motion or the actuators if the arguments are traced.

    Args:
        model: Model with loops.
        q: Configuration (nq,).
        qd: Velocities (nv,).
        qdd: Accelerations (nv,).
        actuated: Names or indices of the actuated joints; by default all joints.
        f_ext: External wrenches (nb, 6) on the bodies in base coordinates.
        gravity: Gravity; by default model.gravity.
        loop_tau: Forces of active loop joints (`active_forces`).
        least_squares: True to accept too few actuators. The forces then cause the motion nearest to
            qdd in the inertia metric.

    Raises:
        ValueError: The motion opens the loops, a joint is unknown, or the model has no loops. The
            actuators are too few for the motion and `least_squares` is False.
    """
    check_lengths(model, f_ext, q=q, qd=qd, qdd=qdd)
    if not model.has_constraints:
        raise ValueError(f"model '{model.name}' has no loops; use rnea")
    constraints = loop_constraints(model, q, qd)
    traced = is_traced(q, qd, qdd)
    if not traced:
        _check_motion(model, constraints, q, np.asarray(qd), np.asarray(qdd))
    tau_ID = rnea(model, q, qd, qdd, f_ext, gravity)
    if loop_tau is not None:
        tau_ID = tau_ID - active_forces(model, q, loop_tau)
    columns = actuated_columns(model, actuated)
    forces = _distribute_to_actuators(model, q, constraints.K, tau_ID, columns, least_squares)
    if not traced and not least_squares:
        _check_actuators(model, forces, qdd)
    return forces


def actuator_forces(
    model: Tree, q: Array, tau: Array, actuated: Iterable[str | int] | None = None
) -> LoopForces:
    """Return actuator forces with the same effect on the system as the forces tau of all joints.

    The function solves G_u^T u = G^T tau for the actuator forces u (RBDA Eq 8.63), with G and G_u
    as in `closed_loop_inverse_dynamics`. For redundant actuators, the forces have the smallest sum
    of squares. If the accelerations due to tau violate the loop constraints, the function uses the
    nearest consistent accelerations in the inertia metric. The function does not check that q
    closes the loops.

    Args:
        model: Model with loops.
        q: Configuration (nq,).
        tau: Forces (nv,) of all joints.
        actuated: Names or indices of the actuated joints; by default all joints.

    Returns:
        The actuator forces; `missed` contains the accelerations that the actuators of an
        underactuated system cannot cause.
    """
    check_lengths(model, None, q=q, tau=tau)
    K = loop_constraints(model, q, np.zeros(model.nv)).K
    return _distribute_to_actuators(
        model, q, K, tau, actuated_columns(model, actuated), least_squares=False
    )


def actuated_columns(model: Tree, actuated: Iterable[str | int] | None) -> list[int]:
    """Return the indices in tau (nv,) of the variables of the actuated joints.

    Args:
        model: Model with loops.
        actuated: Joint names or indices; by default all joints.

    Raises:
        ValueError: A joint is unknown, or `actuated` is empty.
    """
    if actuated is None:
        return list(range(model.nv))
    columns = velocity_columns(model, actuated, "actuated")
    if not columns:
        raise ValueError(
            f"`actuated` is empty; it must contain one or more joints of model '{model.name}': "
            f"{', '.join(model.joint_names)}"
        )
    return columns


def _distribute_to_actuators(
    model: Tree, q: Array, K: Array, tau_ID: Array, columns: list[int], least_squares: bool
) -> LoopForces:
    """Return forces of the actuated joints with the same effect as the joint forces tau_ID (nv,).

    `columns` contains the indices of the actuated variables, and K (nc, nv) is the constraint
    matrix at q.
    """
    parent = expanded_parent(model)
    L = ltl(crba(model, q), parent)
    loops = eliminate_constraints(mpy_lit(L, parent, K.T), model.constraint_slices)
    units = np.eye(model.nv)[columns]

    # project tau_ID, and a unit force of each actuator, onto the null space of K
    wanted = solve_elimination(loops, np.zeros(model.nc), mpy_lit(L, parent, tau_ID))[0]
    effects = np.array(
        [_project_onto_null_space(loops, mpy_lit(L, parent, unit)) for unit in units]
    )
    u, rank = _solve_actuator_forces(effects, wanted, least_squares)
    tau = np.zeros(model.nv, dtype=u.dtype)
    tau[columns] = u
    return LoopForces(tau, mpy_li(L, parent, wanted - u @ effects), rank, model.nv - loops.rank)


def _solve_actuator_forces(
    effects: Array, required: Array, least_squares: bool
) -> tuple[Array, Any]:
    """Return the minimum-norm actuator forces u with u @ effects = required, and their rank.

    Row j of `effects` is the projected unit force of actuator j, and the rank is the rank of
    `effects`. If `least_squares` is True, u is the least-squares solution.
    """
    actuators = eliminate_constraints(effects, [slice(0, len(required))])
    if least_squares:
        return np.linalg.lstsq(effects.T, required, rcond=TOLERANCE)[0], actuators.rank
    return solve_elimination(actuators, required, np.zeros(len(effects)))[0], actuators.rank


def _project_onto_null_space(loops: Elimination, force: Array) -> Array:
    """Project a force (nv,) onto the null space of the constraints.

    `loops` is the factorization of the constraints. A projection within the rounding error of
    `force` is set to zero.
    """
    left = solve_elimination(loops, np.zeros(loops.shape[1]), force)[0]
    if is_traced_for_derivatives(left):  # a zero effect can have a nonzero derivative
        return left
    effect: Array = left * select(
        less(TOLERANCE * TOLERANCE * (force @ force), left @ left), 1.0, 0.0
    )
    return effect


def _check_motion(
    model: Tree, constraints: LoopConstraints, q: Array, qd: Array, qdd: Array
) -> None:
    """Raise ValueError if q, qd or qdd violate the constraints.

    The tolerance is `CONSISTENT`. For velocities and accelerations with elements above 1, the
    tolerance is relative to the largest element.
    """
    K, k, delta = constraints
    errors = {
        "positions": (delta, 1.0),
        "velocities": (K @ qd + drift(model, q), _largest(qd)),
        "accelerations": (K @ qdd - k, _largest(qdd, k)),
    }
    for quantity, (error, size) in errors.items():
        if _largest(error) > (allowed := CONSISTENT * max(1.0, size)):
            worst = int(np.argmax(np.abs(error)))
            places = zip(model.loop_names, model.constraint_slices, strict=True)
            loop = next(name for name, rows in places if worst < rows.stop)
            raise ValueError(
                f"the {quantity} open the loops of model '{model.name}': the error of {loop} is "
                f"{abs(error[worst]):.3g}; at most {allowed:.1g} is allowed"
            )


def _largest(*vectors: Array) -> float:
    return max(float(np.max(np.abs(vector), initial=0.0)) for vector in vectors)


def _check_actuators(model: Tree, forces: LoopForces, qdd: Array) -> None:
    """Raise ValueError if the actuators cannot cause the accelerations."""
    if (missed := _largest(forces.missed)) > CONSISTENT * max(1.0, _largest(np.asarray(qdd))):
        raise ValueError(
            f"the actuators of model '{model.name}' move {forces.rank:.0f} of its "
            f"{forces.mobility:.0f} degrees of freedom and cannot cause this motion: "
            f"the largest acceleration error is {missed:.3g}; actuate more joints, or use "
            "least_squares=True"
        )
