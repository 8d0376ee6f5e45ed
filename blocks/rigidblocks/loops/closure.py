"""Loop-closure functions: the configuration as a function of independent variables, q = gamma(y)
(RBDA 8.11).

A user writes gamma in closed form, with NumPy and `rigidblocks.select`; its derivatives are found
here, exactly, by dual numbers. Loops then cannot open, and nothing needs stabilization.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.dual import Dual
from rigidblocks.algebra.spatial import Array
from rigidblocks.model.configuration import difference
from rigidblocks.model.tree import Tree

Gamma = Callable[[Array], Array]


class ClosureMotion(NamedTuple):
    """q = gamma(y) (nq,) and qd = G yd (nv,), with qdd = G ydd + g: G (nv, n - r) and g (nv,) (RBDA
    Eq 8.56 to 8.60).
    """

    q: Array
    qd: Array
    G: Array
    g: Array


def loop_closure(model: Tree, gamma: Gamma, y: Array, yd: Array) -> ClosureMotion:
    """What a loop-closure function gives at y and yd, of a model with any joints; floats and traced
    scalars.

    The velocity variables are those of the joints, also where they are not rates of q: near q, q
    (+) phi with phi(y) has the velocities dphi/dt and the accelerations d^2 phi/dt^2, at phi = 0.
    Raises ValueError where gamma returns anything else than nq position variables.
    """
    y, yd = np.asarray(y), np.asarray(yd)
    q = np.asarray(gamma(y))
    _check_shapes(model, q, y, yd)

    def phi(step: list[Any]) -> Array:
        return difference(model, q, np.array(gamma(_objects(step))))

    units = [[Dual(a, e) for a, e in zip(y, unit, strict=True)] for unit in np.eye(len(y))]
    Gt = np.array([list(map(_slope, phi(unit))) for unit in units]).reshape(len(y), model.nv)
    twice = phi([Dual(Dual(a, b), Dual(b, 0.0)) for a, b in zip(y, yd, strict=True)])
    return ClosureMotion(q, Gt.T @ yd, Gt.T, np.array([_slope(_slope(one)) for one in twice]))


def _check_shapes(model: Tree, q: Array, y: Array, yd: Array) -> None:
    """Raises ValueError where gamma does not return q, and where y and yd do not match."""
    if q.shape != (model.nq,):
        raise ValueError(
            f"a loop-closure function of model '{model.name}' must return q ({model.nq},), not "
            f"shape {q.shape}"
        )
    if yd.shape != y.shape:
        raise ValueError(
            f"a loop-closure function needs as many yd as y; y has {len(y)}, yd {len(yd)}"
        )


def _objects(values: list[Any]) -> Array:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _slope(value: Any) -> Any:
    return value.slope if isinstance(value, Dual) else 0.0
