"""Loop-closure functions: the configuration as a function of independent variables, q = gamma(y) (RBDA 8.11).

A user writes gamma in closed form, with NumPy and `rigidblocks.select`; its derivatives are found here, exactly, by dual
numbers. Loops then cannot open, and nothing needs stabilization.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.configuration import difference
from rigidblocks.dynamics.slope import Dual
from rigidblocks.spatial import Array
from rigidblocks.tree import Tree

Gamma = Callable[[Array], Array]


class ClosureMotion(NamedTuple):
    """q = gamma(y) (nq,) and qd = G yd (nv,), with qdd = G ydd + g: G (nv, n - r) and g (nv,) (RBDA Eq 8.56 to 8.60)."""

    q: Array
    qd: Array
    G: Array
    g: Array


def loop_closure(model: Tree, gamma: Gamma, y: Array, yd: Array) -> ClosureMotion:
    """What a loop-closure function gives at y and yd, of a model with any joints; floats and traced scalars.

    The velocity variables are those of the joints, also where they are not rates of q: near q, q (+) phi with phi(y) has
    the velocities dphi/dt and the accelerations d^2 phi/dt^2, at phi = 0. Raises ValueError where gamma returns anything
    else than nq position variables.
    """
    y, yd = np.asarray(y), np.asarray(yd)
    q = np.asarray(gamma(y))
    if q.shape != (model.nq,):
        raise ValueError(f"a loop-closure function of model '{model.name}' must return q ({model.nq},), not shape {q.shape}")
    if yd.shape != y.shape:
        raise ValueError(f"a loop-closure function needs as many yd as y; y has {len(y)}, yd {len(yd)}")

    def moved(step: list[Any]) -> Array:
        return difference(model, q, np.array(gamma(_objects(step))))

    units = np.eye(len(y))
    G = [[_slope(phi) for phi in moved([Dual(a, e) for a, e in zip(y, unit, strict=True)])] for unit in units]
    twice = moved([Dual(Dual(a, b), Dual(b, 0.0)) for a, b in zip(y, yd, strict=True)])
    Gt = np.array(G).reshape(len(y), model.nv)
    return ClosureMotion(q, Gt.T @ yd, Gt.T, np.array([_slope(_slope(phi)) for phi in twice]))


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _slope(value: Any) -> Any:
    return value.slope if isinstance(value, Dual) else 0.0
