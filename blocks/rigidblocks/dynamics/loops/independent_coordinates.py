"""Independent coordinates of systems with loops: their choice, their change, and motion in them
(Spencer 2004, chapter 2).

Coordinates y (p,), as many as the mobility, follow from R(q, y) = 0; q = Psi(y) is what closes the
loops too. They serve where D2 R = dR/dy and [D1 R; K], D1 R = dR/dq, are not singular, so nowhere
for good: the condition of the latter is their monitor. Loops stay closed to rounding and nothing is
to be stabilized. All is for floats; the names are the thesis's, but its G and K are K and G here,
as in the book. For singular configurations there is `closed_loop_dynamics`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from rigidblocks.algebra.pivoting import null_space, reduction
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics import bias_force, crba
from rigidblocks.loops.choice import velocity_columns
from rigidblocks.loops.constraints import loop_constraints, position_constraints
from rigidblocks.loops.tangents import check_holonomic, difference_rates
from rigidblocks.model.configuration import checked, difference, integrate
from rigidblocks.model.tree import Tree

# of the largest pivot or singular value: constraints and coordinates below depend on others
RANK = 1e-9


class Coordinates(Protocol):
    """What defines coordinates y (p,) in general: R(q, y) = 0 (Spencer 2004, Eq 2.25)."""

    def R(self, q: Array, y: Array) -> Array:
        """What is zero (p,) where y are the coordinates of q."""

    def D1(self, q: Array, y: Array) -> Array:
        """dR/dq (p, nv), by the velocity variables that move q."""

    def D2(self, q: Array, y: Array) -> Array:
        """dR/dy (p, p), which must not be singular."""


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class LinearCoordinates:
    """y = matrix (q - origin), with the matrix (p, nv) and the configuration `origin` (nq,) of the
    model (Eq 2.33).

    The difference of configurations is the velocity that leads from one to the other in unit time,
    so that joints with quaternions have such coordinates too, within half a turn (`is_far`).
    """

    model: Tree
    matrix: Array
    origin: Array

    def R(self, q: Array, y: Array) -> Array:
        """matrix (q - origin) - y."""
        return self.of(q) - y

    def D1(self, q: Array, y: Array) -> Array:
        """The matrix, where velocities are the rates of positions."""
        del y
        if self._flat:
            return self.matrix
        still = np.zeros(self.model.nv)
        units = np.eye(self.model.nv)
        rates = [difference_rates(self.model, self.origin, q, unit, still)[0] for unit in units]
        D1: Array = self.matrix @ np.array(rates, dtype=float).T
        return D1

    def D2(self, q: Array, y: Array) -> Array:
        """Minus the unit matrix."""
        del q, y
        return -np.eye(len(self.matrix))

    def bias(self, q: Array, qd: Array) -> Array:
        """The second rate of y (p,) at constant velocities qd: zero where they are the rates of
        positions.
        """
        if self._flat:
            return np.zeros(len(self.matrix))
        still = np.zeros(self.model.nv)
        second = difference_rates(self.model, self.origin, q, qd, still)[1]
        bias: Array = self.matrix @ second.astype(float)
        return bias

    def is_far(self, q: Array) -> bool:
        """Whether q is so far from the origin that other coordinates should be chosen: where a
        quaternion has turned by 2 rad, of the pi that it may.
        """
        if self._flat:
            return False
        curved = ~np.array(_flat(self.model))
        return bool(np.max(np.abs(difference(self.model, self.origin, q)[curved])) > 2.0)

    @cached_property
    def _flat(self) -> bool:
        return all(_flat(self.model))

    def of(self, q: Array) -> Array:
        """The coordinates y (p,) of a configuration."""
        y: Array = self.matrix @ difference(self.model, self.origin, q)
        return y


class Tangent(NamedTuple):
    """qd = G yd and qdd = G ydd + g, with G (nv, p) and g (nv,) (RBDA Eq 8.42; Spencer 2004, Eq
    2.44).
    """

    G: Array
    g: Array


# choices


def joint_coordinates(model: Tree, q: ArrayLike, joints: Iterable[str | int]) -> LinearCoordinates:
    """The positions of these joints, by name or number, from those at q (nq,): the user's choice.

    Raises ValueError where they are too few, too many or dependent at q, and for joints that roll.
    """
    matrix = np.eye(model.nv)[velocity_columns(model, joints, "independent")]
    return _checked_linear(model, matrix, checked(model, q))


def partitioned_coordinates(model: Tree, q: ArrayLike) -> LinearCoordinates:
    """The joint positions that complete pivoting of K leaves independent (RBDA 8.8), from those at
    q (nq,).

    Quaternions stay dependent where the loops determine them.
    """
    q = checked(model, q)
    K, still = position_constraints(model, q).K, np.zeros(model.nc)
    # first the quaternions alone, then of what is left the largest first
    straight = reduction(K, still, [column for column, flat in enumerate(_flat(model)) if flat])
    left = np.flatnonzero(straight.free == 1.0)
    rest = np.where(
        np.abs(straight.rest) > RANK * np.max(np.abs(K), initial=0.0), straight.rest, 0.0
    )
    independent = left[list(null_space(rest[:, left], still).independent)]
    return _checked_linear(model, np.eye(model.nv)[independent], q)


def tangent_coordinates(model: Tree, q: ArrayLike) -> LinearCoordinates:
    """Coordinates along orthonormal directions that keep the loops closed at q (nq,): the best
    conditioned ones there.

    Raises ValueError for joints that roll.
    """
    q = checked(model, q)
    _, sizes, Vh = np.linalg.svd(position_constraints(model, q).K)
    rank = int(np.sum(sizes > RANK * np.max(sizes, initial=0.0)))
    return _checked_linear(model, Vh[rank:], q)


# what follows from coordinates


def coordinate_condition(model: Tree, coordinates: Coordinates, q: Array, y: Array) -> float:
    """The condition of [D1 R; K]: the monitor of coordinates, which are good near 1 and none where
    it is infinite.
    """
    sizes = np.linalg.svd(_stacked(model, coordinates, q, y), compute_uv=False)
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
    """q = Psi(y) (nq,), by Newton's iteration from a guess: the configuration with R(q, y) = 0 that
    closes the loops.

    It ends when what is left is at most `tolerance`, as the rate rho of its contraction says
    (Spencer 2004, 2.3.1):

        rho/(1 - rho) |dq_j| <= tolerance,   rho = (|dq_j|/|dq_0|)^(1/j)

    Raises ValueError where it does not converge.
    """
    q, y = np.asarray(guess, dtype=float), np.asarray(y, dtype=float)
    first = 0.0
    for j in range(iterations):
        error = np.concatenate([coordinates.R(q, y), position_constraints(model, q).delta])
        dq = -np.linalg.lstsq(_stacked(model, coordinates, q, y), error, rcond=RANK)[0]
        q, size = integrate(model, q, dq), float(np.linalg.norm(dq))
        first = first if j else size
        rho = (size / first) ** (1.0 / j) if j and first else 0.0
        if size <= tolerance or (j and rho < 1.0 and rho / (1.0 - rho) * size <= tolerance):
            return q
    raise ValueError(
        f"no configuration of model '{model.name}' with the coordinates y = {y.tolist()} was found "
        "from this guess in "
        f"{iterations} iterations, the last of which moved {size:.3g}; give a nearer guess or "
        "change the coordinates"
    )


def independent_motion(
    model: Tree, coordinates: Coordinates, q: Array, qd: Array, y: Array
) -> Tangent:
    """G and g of these coordinates at q, qd (Spencer 2004, Eq 2.45, 2.46).

        G = [D1 R; K]^-1 [-D2 R; 0],   g = [D1 R; K]^-1 [0; k]

    Of `LinearCoordinates` g has what their `bias` says besides, so that ydd is the second rate of
    y. With coordinates of other kinds that are not linear g is one of the solutions of K g = k:
    right for qdd, and ydd is measured from it.
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
    """ydd (p,) and qdd (nv,) from the joint forces tau (nv,): G^T H G ydd = G^T (tau - C - H g)
    (RBDA Eq 8.45).
    """
    G, g = tangent
    H = crba(model, q)
    ydd = np.linalg.solve(G.T @ H @ G, G.T @ (tau - bias_force(model, q, qd) - H @ g))
    return ydd, G @ ydd + g


def _stacked(model: Tree, coordinates: Coordinates, q: Array, y: Array) -> Array:
    return np.vstack([coordinates.D1(q, y), position_constraints(model, q).K])


def _flat(model: Tree) -> list[bool]:
    """Of each velocity variable whether it is the rate of a position variable, everywhere."""
    return [
        joint.nq == joint.nv and bool(np.array_equal(joint.rate(joint.neutral() + 0.5, unit), unit))
        for joint in model.joint
        for unit in np.eye(joint.nv)
    ]


def _checked_linear(model: Tree, matrix: Array, q: Array) -> LinearCoordinates:
    """The coordinates; raises ValueError where they are none at q."""
    check_holonomic(model)
    K = position_constraints(model, q).K
    sizes = np.linalg.svd(K, compute_uv=False)
    mobility = model.nv - int(np.sum(sizes > RANK * np.max(sizes, initial=0.0)))
    if len(matrix) != mobility:
        raise ValueError(
            f"model '{model.name}' has the mobility {mobility} in this configuration and needs as "
            "many independent "
            f"coordinates, not {len(matrix)}"
        )
    coordinates = LinearCoordinates(model, matrix, q)
    condition = coordinate_condition(model, coordinates, q, np.zeros(mobility))
    if condition > 1.0 / RANK:
        raise ValueError(
            f"the coordinates chosen for model '{model.name}' depend on each other in this "
            "configuration: the condition of "
            f"[R; K] is {condition:.2g}; choose others"
        )
    return coordinates
