"""Fixed-step integrators as data, and the one step that every form of a block takes."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from rigidblocks.spatial import Array

Tableau = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class LinearlyImplicit:
    """What makes a one-step method linearly implicit: its stages solve linear equations with the Jacobian df/dx.

        (1 - gamma h df/dx) k_i = gamma (f(t + c_i h, x + h sum a_ij k_j) + sum coupling_ij k_j + time_i h df/dt)

    with the derivatives of f at the start of the step, in the form without products by the Jacobian (Hairer and Wanner,
    Solving Ordinary Differential Equations II, IV.7).
    """

    gamma: float
    coupling: Tableau
    time: tuple[float, ...]


@dataclass(frozen=True)
class Integrator:
    """A one-step method: a Butcher tableau a, b, c with the error order `order`, explicit unless `implicit` is given.

    `a_position` and `b_position` are the tableau of the states whose rate is another state (positions); without them all
    states share one tableau. `dense` has the coefficients of b_i(delta) = sum_j dense_ij delta^j, j from 1 on, with which
    x + h sum b_i(delta) k_i is the state inside a step, at t + delta h.
    """

    name: str
    order: int
    a: Tableau
    b: tuple[float, ...]
    c: tuple[float, ...]
    a_position: Tableau | None = None
    b_position: tuple[float, ...] | None = None
    dense: Tableau | None = None
    implicit: LinearlyImplicit | None = None

    @property
    def stages(self) -> int:
        """The number of evaluations of the derivative in a step."""
        return len(self.b)

    @property
    def position_tableau(self) -> tuple[Tableau, tuple[float, ...]]:
        """The tableau (a, b) of the positions."""
        return self.a_position or self.a, self.b_position or self.b


EULER = Integrator("euler", 1, a=((),), b=(1.0,), c=(0.0,))
# velocities by Euler, positions with the new velocities
SEMI_IMPLICIT_EULER = Integrator(
    "semi-implicit euler", 1, a=((), (1.0,)), b=(1.0, 0.0), c=(0.0, 1.0), a_position=((), (0.0,)), b_position=(0.0, 1.0)
)
HEUN = Integrator("heun", 2, a=((), (1.0,)), b=(0.5, 0.5), c=(0.0, 1.0), dense=((1.0, -0.5), (0.0, 0.5)))
RK4 = Integrator(
    "rk4",
    4,
    a=((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)),
    b=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
    c=(0.0, 0.5, 0.5, 1.0),
    dense=((1.0, -3 / 2, 2 / 3), (0.0, 1.0, -2 / 3), (0.0, 1.0, -2 / 3), (0.0, -1 / 2, 2 / 3)),
)
# for stiff blocks, L-stable: one step of any length brings what decays fast to rest. This one has one stage, and so sees
# one law of force in a step; those of more stages may throw when a stiff contact opens or closes within a step
LINEARLY_IMPLICIT_EULER = Integrator(
    "linearly implicit euler", 1, a=((),), b=(1.0,), c=(0.0,), implicit=LinearlyImplicit(1.0, ((),), (1.0,))
)
_G = 1 - 1 / sqrt(2)
# Verwer, Spee, Blom and Hundsdorfer 1999
ROS2 = Integrator(
    "ros2",
    2,
    a=((), (1 / _G,)),
    b=(1.5 / _G, 0.5 / _G),
    c=(0.0, 1.0),
    implicit=LinearlyImplicit(_G, ((), (-2 / _G,)), (_G, -_G)),
)
# Sandu et al. 1997: stiffly accurate
RODAS3 = Integrator(
    "rodas3",
    3,
    a=((), (0.0,), (2.0, 0.0), (2.0, 0.0, 1.0)),
    b=(2.0, 0.0, 1.0, 1.0),
    c=(0.0, 0.0, 1.0, 1.0),
    implicit=LinearlyImplicit(0.5, ((), (4.0,), (1.0, -1.0), (1.0, -1.0, -8 / 3)), (0.5, 1.5, 0.0, 0.0)),
)

INTEGRATORS = {
    method.name: method for method in (EULER, SEMI_IMPLICIT_EULER, HEUN, RK4, LINEARLY_IMPLICIT_EULER, ROS2, RODAS3)
}


def integrate(
    method: Integrator, derivative: Callable[[Any, Array], Array], t: Any, x: Array, h: float, position: Array
) -> Array:
    """The flat states after one step of length h from t by an explicit method:

        x + h sum b_i k_i,    k_i = derivative(t + c_i h, x_i)

    `position` (n,) marks the states that follow the position tableau.
    """
    k = stage_rates(method, derivative, t, x, h, position)
    return stepped(x, h, k, method.b, method.position_tableau[1], position)


def stage_rates(
    method: Integrator, derivative: Callable[[Any, Array], Array], t: Any, x: Array, h: float, position: Array
) -> list[Array]:
    """The rates k_i of the stages of one step by an explicit method; the arguments are those of `integrate`."""
    k: list[Array] = []
    for a, a_p, c in zip(method.a, method.position_tableau[0], method.c, strict=True):
        k.append(derivative(t + c * h, stepped(x, h, k, a, a_p, position)))
    return k


def stepped(
    x: Array, h: float, k: list[Array], b: tuple[float, ...], b_position: tuple[float, ...], position: Array
) -> Array:
    """The states x + h sum b_i k_i, where the positions have weights of their own."""
    pairs = zip(k, b, b_position, strict=True)
    x_next: Array = x + h * sum((np.where(position, w_p, w) * k_i for k_i, w, w_p in pairs), start=0.0)
    return x_next


def inner_steps(dt: float, h: float) -> int:
    """The number of equal inner steps, none longer than h, that make the step dt.

    Raises ValueError when dt is not positive or there are more than 1e9.
    """
    if not (dt > 0 and np.isfinite(dt)):
        raise ValueError(f"a step must be positive, not {dt} s")
    if dt >= 1e9 * h:
        raise ValueError(f"the step {dt} s has too many inner steps of {h} s; at most 1e9 can be taken")
    return max(1, int(np.ceil(dt / h - 1e-9)))
