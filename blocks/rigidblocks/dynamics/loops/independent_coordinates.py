"""Independent coordinates of systems with loops (Spencer 2004, chapter 2; RBDA 8.11).

The functions select independent coordinates y (p,) and compute the motion of the system in y, where
p is the mobility. The equation R(q, y) = 0 defines y. The configuration q = Psi(y) satisfies this
equation and closes the loops. y is valid while D2 R = dR/dy and [D1 R; K], with D1 R = dR/dq, are
nonsingular. K (nc, nv) is the constraint matrix. No coordinates are valid everywhere, so monitor
the condition number of [D1 R; K].

Loops stay closed up to rounding and need no stabilization. The functions support floats only,
except `dependent_motion`, which also supports traced scalars.

Names follow Spencer 2004, except G and K, which follow RBDA: Spencer writes G for the constraint
matrix K, and K for the matrix G. For singular configurations, use `closed_loop_dynamics`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.dynamics import bias_force, crba
from rigidblocks.dynamics.joint_kinematics import velocity_columns
from rigidblocks.dynamics.loops.constraint_solvers import (
    Elimination,
    eliminate_constraints,
    solve_elimination,
)
from rigidblocks.dynamics.loops.constraints import drift, loop_constraints, position_constraints
from rigidblocks.dynamics.loops.linearization import check_holonomic, difference_rates
from rigidblocks.robot.configuration import (
    configuration_array,
    difference,
    integrate,
    integrate_unchecked,
)
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.linear_algebra import null_space, reduction
from rigidblocks.spatial.spatial import Array

# constraints and coordinates count as dependent below this fraction of the largest pivot or
# singular value
RANK = 1e-9


class Coordinates(Protocol):
    """Independent coordinates y (p,), defined by the equations R(q, y) = 0 (Spencer 2004, 2.25)."""

    def R(self, q: Array, y: Array) -> Array:
        """Return the residual R (p,) of the coordinate equations at q and y."""

    def D1(self, q: Array, y: Array) -> Array:
        """Return the Jacobian (p, nv) of R with respect to the velocity variables."""

    def D2(self, q: Array, y: Array) -> Array:
        """Return the derivative dR/dy (p, p), a nonsingular matrix."""


@dataclass(frozen=True, eq=False)  # eq=False: comparing arrays returns an array
class LinearCoordinates:
    """Linear coordinates y = matrix (q - origin) (Spencer 2004, Eq 2.33).

    The difference of two configurations is the velocity that moves the model from the first to the
    second configuration in unit time. Therefore the coordinates support quaternions for rotations
    of less than half a turn (`is_far`).

    Attributes:
        model: Model of the configurations.
        matrix: Matrix (p, nv).
        origin: Configuration (nq,) with y = 0.
    """

    model: Tree
    matrix: Array
    origin: Array

    def R(self, q: Array, y: Array) -> Array:
        """Return the residual R = matrix (q - origin) - y (p,)."""
        return self.coordinates_at(q) - y

    def D1(self, q: Array, y: Array) -> Array:
        """Return the Jacobian (p, nv) of the residual with respect to the velocity variables.

        The Jacobian does not depend on the coordinates y.
        """
        del y
        if self._has_only_position_rates:
            return self.matrix
        still = np.zeros(self.model.nv)
        units = np.eye(self.model.nv)
        rates = [difference_rates(self.model, self.origin, q, unit, still)[0] for unit in units]
        D1: Array = self.matrix @ np.array(rates, dtype=float).T
        return D1

    def D2(self, q: Array, y: Array) -> Array:
        """Return the derivative dR/dy (p, p), which is the negative identity matrix."""
        del q, y
        return -np.eye(len(self.matrix))

    def bias(self, q: Array, qd: Array) -> Array:
        """Return the second time derivative of y (p,) at constant velocities qd.

        The result is zero if the velocity variables are the derivatives of the positions.
        """
        if self._has_only_position_rates:
            return np.zeros(len(self.matrix))
        still = np.zeros(self.model.nv)
        second = difference_rates(self.model, self.origin, q, qd, still)[1]
        bias: Array = self.matrix @ second.astype(float)
        return bias

    def is_far(self, q: Array) -> bool:
        """Return True if q is too far from the origin for these coordinates.

        The limit is 2 rad for each component of the rotation of a joint with a quaternion. The
        coordinates are valid only for rotations below pi.
        """
        if self._has_only_position_rates:
            return False
        curved = ~np.array(_position_rate_mask(self.model))
        return bool(np.max(np.abs(difference(self.model, self.origin, q)[curved])) > 2.0)

    @cached_property
    def _has_only_position_rates(self) -> bool:
        return all(_position_rate_mask(self.model))

    def coordinates_at(self, q: Array) -> Array:
        """Return the coordinates y (p,) of a configuration."""
        y: Array = self.matrix @ difference(self.model, self.origin, q)
        return y


class Tangent(NamedTuple):
    """Motion in independent coordinates: qd = G yd and qdd = G ydd + g.

    G is (nv, p) and g is (nv,) (RBDA Eq 8.42; Spencer 2004, Eq 2.44).
    """

    G: Array
    g: Array


# selection of coordinates


def joint_coordinates(model: Tree, q: ArrayLike, joints: Iterable[str | int]) -> LinearCoordinates:
    """Return coordinates y that are the positions of selected joints relative to q.

    Args:
        model: Model with loops.
        q: Configuration (nq,) at the origin.
        joints: Joint names or indices.

    Raises:
        ValueError: The joints are too few, too many or dependent at q, or a joint is nonholonomic.
    """
    matrix = np.eye(model.nv)[velocity_columns(model, joints, "independent")]
    return _checked_linear(model, matrix, configuration_array(model, q))


def partitioned_coordinates(model: Tree, q: ArrayLike) -> LinearCoordinates:
    """Return linear coordinates from complete pivoting of the constraint matrix K (RBDA 8.8).

    The coordinates are independent joint positions relative to q (nq,). If the loops determine the
    variables of a joint with a quaternion, these variables are dependent.
    """
    q = configuration_array(model, q)
    K, still = position_constraints(model, q).K, np.zeros(model.nc)
    # eliminate the quaternions first, then the largest pivots of the other variables
    straight = reduction(
        K, still, [column for column, flat in enumerate(_position_rate_mask(model)) if flat]
    )
    left = np.flatnonzero(straight.free == 1.0)
    rest = np.where(
        np.abs(straight.rest) > RANK * np.max(np.abs(K), initial=0.0), straight.rest, 0.0
    )
    independent = left[list(null_space(rest[:, left], still).independent)]
    return _checked_linear(model, np.eye(model.nv)[independent], q)


def tangent_coordinates(model: Tree, q: ArrayLike) -> LinearCoordinates:
    """Return coordinates y along orthonormal directions of the null space of K at q (nq,).

    At q, no other coordinates have a smaller `coordinate_condition`.

    Raises:
        ValueError: A joint is nonholonomic.
    """
    q = configuration_array(model, q)
    _, sizes, Vh = np.linalg.svd(position_constraints(model, q).K)
    rank = int(np.sum(sizes > RANK * np.max(sizes, initial=0.0)))
    return _checked_linear(model, Vh[rank:], q)


# motion in coordinates


def coordinate_condition(model: Tree, coordinates: Coordinates, q: Array, y: Array) -> float:
    """Return the condition number of [D1 R; K], which measures the quality of the coordinates y.

    D1 R = dR/dq is the derivative of the coordinate equations, and K is the constraint matrix of
    the loops. The best value is 1. If the value is infinite, the coordinates y are invalid.

    Args:
        model: Model with loops.
        coordinates: Definition of the coordinates.
        q: Configuration (nq,).
        y: Coordinates (p,) of q.
    """
    sizes = np.linalg.svd(_stacked_jacobian(model, coordinates, q, y), compute_uv=False)
    smallest = sizes[model.nv - 1] if len(sizes) == model.nv else 0.0
    return float(sizes[0] / smallest) if smallest > 0 else np.inf


def dependent_positions(
    model: Tree,
    coordinates: Coordinates,
    y: ArrayLike,
    guess: Array,
    tolerance: float = 1e-12,
    iterations: int = 50,
) -> Array:
    """Return the configuration q = Psi(y) (nq,) of the coordinates y, by Newton's iteration.

    The result satisfies the coordinate equations R(q, y) = 0 and closes the loops. The iteration
    ends when the remaining error is at most `tolerance`. The Newton steps dq_0, dq_1, ... give the
    contraction rate rho and an estimate of this error (Spencer 2004, 2.3.1):

        rho/(1 - rho) |dq_j| <= tolerance,   rho = (|dq_j|/|dq_0|)^(1/j)

    Args:
        model: Model with loops.
        coordinates: Definition of the coordinates.
        y: Coordinates (p,).
        guess: Initial configuration (nq,).
        tolerance: Largest remaining error.
        iterations: Maximum number of iterations.

    Raises:
        ValueError: The iteration does not converge.
    """
    q, y = np.asarray(guess, dtype=float), np.asarray(y, dtype=float)
    first = 0.0
    for j in range(iterations):
        error = np.concatenate([coordinates.R(q, y), position_constraints(model, q).delta])
        dq = -np.linalg.lstsq(_stacked_jacobian(model, coordinates, q, y), error, rcond=RANK)[0]
        q, size = integrate(model, q, dq), float(np.linalg.norm(dq))
        first = first if j else size
        rho = (size / first) ** (1.0 / j) if j and first else 0.0
        if size <= tolerance or (j and rho < 1.0 and rho / (1.0 - rho) * size <= tolerance):
            return q
    raise ValueError(
        f"the configuration of model '{model.name}' at the coordinates y = {y.tolist()} did not "
        f"converge in {iterations} Newton iterations (last change {size:.3g}); use a nearer "
        "initial guess or other coordinates"
    )


def independent_motion(
    model: Tree, coordinates: Coordinates, q: Array, qd: Array, y: Array
) -> Tangent:
    """Return G and g, which map yd and ydd to qd and qdd (Spencer 2004, Eq 2.45, 2.46).

        G = [D1 R; K]^-1 [-D2 R; 0],   g = [D1 R; K]^-1 [0; k]

    D1 R = dR/dq and D2 R = dR/dy are the derivatives of the coordinate equations, and K qdd = k are
    the loop constraints.

    For `LinearCoordinates`, g also includes the term of `LinearCoordinates.bias`, so that ydd is
    the second derivative of y. For other nonlinear coordinates, g is one of the solutions of
    K g = k. qdd is correct for each solution, but ydd depends on the choice of g.

    Args:
        model: Model with loops.
        coordinates: Definition of the coordinates.
        q: Configuration (nq,).
        qd: Velocities (nv,).
        y: Coordinates (p,) of q.
    """
    K, k, _ = loop_constraints(model, q, qd)
    inverse = np.linalg.pinv(np.vstack([coordinates.D1(q, y), K]), rcond=RANK)
    p = len(y)
    g = inverse[:, p:] @ k
    if isinstance(coordinates, LinearCoordinates):
        g = g - inverse[:, :p] @ coordinates.bias(q, qd)
    return Tangent(-inverse[:, :p] @ coordinates.D2(q, y), g)


def reduced_dynamics(
    model: Tree, q: Array, qd: Array, tau: Array, tangent: Tangent
) -> tuple[Array, Array]:
    """Return the accelerations ydd (p,) and qdd (nv,) from the joint forces tau (RBDA Eq 8.45).

        G^T H G ydd = G^T (tau - C - H g)

    Args:
        model: Model with loops.
        q: Configuration (nq,).
        qd: Velocities (nv,).
        tau: Joint forces (nv,).
        tangent: G and g of the coordinates.
    """
    G, g = tangent
    H = crba(model, q)
    ydd = np.linalg.solve(G.T @ H @ G, G.T @ (tau - bias_force(model, q, qd) - H @ g))
    return ydd, G @ ydd + g


def _stacked_jacobian(model: Tree, coordinates: Coordinates, q: Array, y: Array) -> Array:
    return np.vstack([coordinates.D1(q, y), position_constraints(model, q).K])


def _position_rate_mask(model: Tree) -> list[bool]:
    """Return a mask (nv,) of the velocity variables that are derivatives of position variables."""
    return [
        joint.nq == joint.nv and bool(np.array_equal(joint.rate(joint.neutral() + 0.5, unit), unit))
        for joint in model.joint
        for unit in np.eye(joint.nv)
    ]


def _check_mobility(model: Tree, K: Array, count: int, kind: str) -> None:
    """Raise ValueError unless `count` is the mobility: nv minus the rank of the constraints K.

    `kind` is the noun for the counted quantity in the error message.
    """
    sizes = np.linalg.svd(K, compute_uv=False)
    mobility = model.nv - int(np.sum(sizes > RANK * np.max(sizes, initial=0.0)))
    if count != mobility:
        raise ValueError(
            f"model '{model.name}' has the mobility {mobility} in this configuration and needs as "
            f"many independent {kind}, not {count}"
        )


def _checked_linear(model: Tree, matrix: Array, q: Array) -> LinearCoordinates:
    """Check the linear coordinates with the matrix `matrix` (p, nv) and the origin q; return them.

    Raises:
        ValueError: The number of coordinates is not the mobility, or the coordinates are dependent
            at q.
    """
    check_holonomic(model)
    _check_mobility(model, position_constraints(model, q).K, len(matrix), "coordinates")
    coordinates = LinearCoordinates(model, matrix, q)
    condition = coordinate_condition(model, coordinates, q, np.zeros(len(matrix)))
    if condition > 1.0 / RANK:
        raise ValueError(
            f"the coordinates chosen for model '{model.name}' are dependent in this "
            f"configuration: the condition number of [R; K] is {condition:.2g}; choose other "
            "coordinates"
        )
    return coordinates


ITERATIONS = 2  # Newton iterations, which reduce an error of 1e-4 to rounding


class DependentMotion(NamedTuple):
    """Configuration and velocities that close the loops, and the condition number.

    Attributes:
        q: Configuration (nq,).
        qd: Velocities (nv,).
        condition: Condition number of [R; K], large if the variables are not valid coordinates.
            R selects the independent variables, and K is the constraint matrix.
    """

    q: Array
    qd: Array
    condition: Any


def dependent_motion(model: Tree, q: Array, qd: Array, independent: list[int]) -> DependentMotion:
    """Return dependent positions and velocities that close the loops, near q and qd.

        [R; K] dq = [0; -delta],   [R; K] qd = [R qd; -drift]

    R selects the independent variables, which do not change. K is the constraint matrix, delta
    contains the position errors, and drift the velocity errors at qd = 0. Newton's method always
    takes `ITERATIONS` iterations, so the function supports floats and traced scalars. The variables
    of a joint with a quaternion may be independent. If the independent variables are not valid
    coordinates, some constraints are not satisfied.

    Args:
        model: Model with loops.
        q: Configuration (nq,).
        qd: Velocities (nv,).
        independent: Indices of the independent variables in qd.
    """
    p = len(independent)
    R = np.eye(model.nv)[independent]
    for _ in range(ITERATIONS):
        constraints = position_constraints(model, q)
        error = np.concatenate([np.zeros(p), -constraints.delta])
        factors = _eliminate_rows(model, R, constraints.K)
        q = integrate_unchecked(model, q, solve_elimination(factors, error, np.zeros(model.nv))[0])
    factors = _eliminate_rows(model, R, position_constraints(model, q).K)
    wanted = np.concatenate([qd[independent], -drift(model, q)])
    return DependentMotion(
        q, solve_elimination(factors, wanted, np.asarray(qd))[0], factors.condition
    )


def check_independent(model: Tree, q: Array, independent: list[int]) -> None:
    """Raise ValueError if the variables `independent` are too few, too many or dependent at q."""
    K = position_constraints(model, q).K
    _check_mobility(model, K, len(independent), "variables")
    both = np.linalg.svd(np.vstack([np.eye(model.nv)[independent], K]), compute_uv=False)
    if both[model.nv - 1] < RANK * both[0]:
        raise ValueError(
            f"the variables chosen for model '{model.name}' are dependent in this configuration; "
            "choose other variables"
        )


def _eliminate_rows(model: Tree, R: Array, K: Array) -> Elimination:
    blocks = [slice(0, len(R))]
    blocks += [slice(k.start + len(R), k.stop + len(R)) for k in model.constraint_slices]
    return eliminate_constraints(np.vstack([R, K]).T, blocks, RANK)
