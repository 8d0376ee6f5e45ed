"""Fixed-step integrators as data, and the one step that every form of a block takes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rigidblocks.spatial import Array


@dataclass(frozen=True)
class Integrator:
    """An explicit one-step method: a Butcher tableau a, b, c with the error order `order`.

    `a_position` and `b_position` are the tableau of the states whose rate is another state (positions); without them all
    states share one tableau.
    """

    name: str
    order: int
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    c: tuple[float, ...]
    a_position: tuple[tuple[float, ...], ...] | None = None
    b_position: tuple[float, ...] | None = None

    @property
    def stages(self) -> int:
        """The number of evaluations of the derivative in a step."""
        return len(self.b)

    @property
    def position_tableau(self) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
        """The tableau (a, b) of the positions."""
        return self.a_position or self.a, self.b_position or self.b


EULER = Integrator("euler", 1, a=((),), b=(1.0,), c=(0.0,))
# velocities by Euler, positions with the new velocities
SEMI_IMPLICIT_EULER = Integrator(
    "semi-implicit euler", 1, a=((), (1.0,)), b=(1.0, 0.0), c=(0.0, 1.0), a_position=((), (0.0,)), b_position=(0.0, 1.0)
)
HEUN = Integrator("heun", 2, a=((), (1.0,)), b=(0.5, 0.5), c=(0.0, 1.0))
RK4 = Integrator(
    "rk4", 4, a=((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), b=(1 / 6, 1 / 3, 1 / 3, 1 / 6), c=(0.0, 0.5, 0.5, 1.0)
)

INTEGRATORS = {method.name: method for method in (EULER, SEMI_IMPLICIT_EULER, HEUN, RK4)}


def integrate(
    method: Integrator, derivative: Callable[[Any, Array], Array], t: Any, x: Array, h: float, position: Array
) -> Array:
    """The flat states after one step of length h from t: x + h sum of b_i k_i, k_i = derivative(t + c_i h, x_i).

    `position` (n,) marks the states that follow the position tableau.
    """
    a_position, b_position = method.position_tableau
    k: list[Array] = []
    for a, a_p, c in zip(method.a, a_position, method.c, strict=True):
        k.append(derivative(t + c * h, x + h * _combine(k, a, a_p, position)))
    x_next: Array = x + h * _combine(k, method.b, b_position, position)
    return x_next


def _combine(k: list[Array], a: tuple[float, ...], a_position: tuple[float, ...], position: Array) -> Any:
    return sum((np.where(position, w_p, w) * k_i for k_i, w, w_p in zip(k, a, a_position, strict=True)), start=0.0)


def inner_steps(dt: float, h: float) -> int:
    """The number of equal inner steps, none longer than h, that make the step dt.

    Raises ValueError when dt is not positive or there are more than 1e9.
    """
    if not (dt > 0 and np.isfinite(dt)):
        raise ValueError(f"a step must be positive, not {dt} s")
    if dt >= 1e9 * h:
        raise ValueError(f"the step {dt} s has too many inner steps of {h} s; at most 1e9 can be taken")
    return max(1, int(np.ceil(dt / h - 1e-9)))
