"""Linearised dynamics of systems with loops of any joints, with quaternions and S that change too:
the limit of Spencer 2004, 4.3 and 4.4, taken away by dual numbers.

Coordinates are y = R delta, with delta the velocities that lead from the operating point to q in
unit time. All residuals of the equations of motion are differentiated exactly along the 2p
directions that keep the loops closed; no derivative of S is written down.
"""

from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.dual import Dual
from rigidblocks.algebra.spatial import Array
from rigidblocks.dynamics import bias_force, crba, rnea
from rigidblocks.loops.constraints import loop_constraints
from rigidblocks.model.configuration import difference, displaced
from rigidblocks.model.tree import Tree

RANK = 1e-9  # of the largest singular value: constraints below are dependent


class TangentLinearization(NamedTuple):
    """A (2p, 2p), B (2p, nv), the residual (2p,) and G (nv, p) of `LoopLinearization`."""

    A: Array
    B: Array
    residual: Array
    G: Array


class _Point(NamedTuple):
    """The operating point: its accelerations and multipliers, G = N and the rest of [R; K]^+."""

    q: Array
    qd: Array
    qdd: Array
    lam: Array
    R: Array
    N: Array
    back: Array
    H: Array


def tangent_linearization(
    model: Tree, q: Array, qd: Array, tau: Array, R: Array, gravity: Array | None = None
) -> TangentLinearization:
    """The linear system in y = R delta, R (p, nv), near a state that keeps the loops closed.

        [H -K^T; K 0] [dqdd; dlam] = -d[rnea(q, qd, qdd) - K^T lam; K qdd - k]

    along dq = N dy, K dqd = -dK qd. Raises ValueError for joints with more freedoms of position
    than of velocity: those that roll.
    """
    check_holonomic(model)
    point = _operating_point(model, q, qd, tau, R, gravity)
    p, N = len(R), point.N
    M = np.linalg.inv(N.T @ point.H @ N)
    columns = [_column(model, point, M, unit, gravity) for unit in np.eye(2 * p)]
    still = np.zeros(model.nv)
    rate, second = _y_rates(model, point, still, still, still)
    residual = np.array([_value(one) for one in (*rate, *second)])
    B = np.vstack([np.zeros((p, model.nv)), M @ N.T])
    return TangentLinearization(np.array(columns).T, B, residual, N)


def _column(model: Tree, point: _Point, M: Array, unit: Array, gravity: Array | None) -> Array:
    """What the rates of y and yd become by a unit of y or yd; M is the inverse of N^T H N."""
    p, N, still = len(point.R), point.N, np.zeros(model.nv)
    dq, dyd = N @ unit[:p], unit[p:]
    first = _slopes(_y_rates(model, point, dq, still, still)[0])
    opening = _slopes(_constraint_rates(model, point, dq))
    dqd = N @ (dyd - first) - point.back @ opening
    force, error = _residual_slopes(model, point, dq, dqd, gravity)
    across = -(point.back @ error)
    dqdd = across - N @ (M @ (N.T @ (force + point.H @ across)))
    return np.concatenate([dyd, _slopes(_y_rates(model, point, dq, dqd, dqdd)[1])])


def difference_rates(
    model: Tree, origin: Array, q: Array, qd: Array, qdd: Array
) -> tuple[Array, Array]:
    """The first and second rate (nv,) of difference(origin, q) of a motion through q."""
    step = [Dual(Dual(0.0, a), Dual(a, b)) for a, b in zip(qd, qdd, strict=True)]
    here = [Dual(Dual(one, 0.0), Dual(0.0, 0.0)) for one in q]
    delta = difference(model, origin, displaced(model, _objects(here), _objects(step)))
    first = [_part(_part(one, "slope"), "value") for one in delta]
    second = [_part(_part(one, "slope"), "slope") for one in delta]
    return _objects(first), _objects(second)


def _operating_point(
    model: Tree, q: Array, qd: Array, tau: Array, R: Array, gravity: Array | None
) -> _Point:
    K, k, _ = loop_constraints(model, q, qd)
    inverse = np.linalg.pinv(np.vstack([R, K]), rcond=RANK)
    N, back = inverse[:, : len(R)], inverse[:, len(R) :]
    H, g = crba(model, q), back @ k
    force = tau - bias_force(model, q, qd, None, gravity)
    qdd = N @ np.linalg.solve(N.T @ H @ N, N.T @ (force - H @ g)) + g
    lam = np.linalg.lstsq(K.T, H @ qdd - force, rcond=RANK)[0]
    return _Point(q, qd, qdd, lam, R, N, back, H)


def _moved(point: _Point, model: Tree, dq: Array) -> Array:
    """The configuration dq e from the operating point."""
    return displaced(model, _dual(point.q, np.zeros(len(point.q))), _dual(np.zeros(len(dq)), dq))


def _residual_slopes(
    model: Tree, point: _Point, dq: Array, dqd: Array, gravity: Array | None
) -> tuple[Array, Array]:
    """How the forces and the accelerations that are missing change, at the same accelerations."""
    q, qd = _moved(point, model, dq), _dual(point.qd, dqd)
    K, k, _ = loop_constraints(model, q, qd)
    force = rnea(model, q, qd, point.qdd, None, gravity) - K.T @ point.lam
    return _slopes(force), _slopes(K @ point.qdd - k)


def _constraint_rates(model: Tree, point: _Point, dq: Array) -> Array:
    """K qd dq e away, at the same velocities."""
    q = _moved(point, model, dq)
    rates: Array = loop_constraints(model, q, point.qd).K @ point.qd
    return rates


def _y_rates(model: Tree, point: _Point, dq: Array, dqd: Array, dqdd: Array) -> tuple[Array, Array]:
    """dy/dt and d2y/dt2 of the motion that is dq e, dqd e, dqdd e away: near q, q (+) (qd t + qdd
    t^2/2) has these velocities and accelerations.
    """
    qd, qdd = _dual(point.qd, dqd), _dual(point.qdd, dqdd)
    first, second = difference_rates(model, point.q, _moved(point, model, dq), qd, qdd)
    return point.R @ first, point.R @ second


def _part(number: Any, name: str) -> Any:
    if isinstance(number, Dual):
        return getattr(number, name)
    return number if name == "value" else 0.0


def _value(number: Any) -> float:
    return float(_part(number, "value"))


def _slopes(values: Array) -> Array:
    return np.array([float(_part(one, "slope")) for one in values])


def _dual(values: Array, slopes: Array) -> Array:
    return _objects([Dual(a, b) for a, b in zip(values.tolist(), slopes.tolist(), strict=True)])


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def check_holonomic(model: Tree) -> None:
    """Raises ValueError for a joint with more freedoms of position than of velocity."""
    for name, joint in zip(model.joint_names, model.joint, strict=True):
        freedoms = joint.nq - joint.q_units.count("1") // 4  # a quaternion has one too many
        if freedoms != joint.nv:
            raise ValueError(
                f"{name} of model '{model.name}' is {joint}, which has {freedoms} freedoms of "
                f"position and {joint.nv} of velocity: its positions are in no y; linearize() of a "
                "ClosedLoopPlant is for all joints, in all its states"
            )
