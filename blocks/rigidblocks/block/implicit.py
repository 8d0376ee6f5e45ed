"""The step of the linearly implicit integrators, for blocks that are too stiff for explicit
ones.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from rigidblocks.algebra.linear import linear_solver
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.integrators import Integrator


def integrate_implicitly(
    method: Integrator,
    derivative: Callable[[Any, Array], Array],
    slopes: Callable[[Any, Array], tuple[Array, Array]],
    t: Any,
    x: Array,
    h: float,
) -> Array:
    """The flat states after one step of length h from t by a linearly implicit method (equations at
    `LinearlyImplicit`).

    x + h sum b_i k_i, where `slopes` gives df/dx (n, n) and df/dt (n,) of `derivative` at a time
    and state.
    """
    k = implicit_stages(method, derivative, slopes(t, x), t, x, h, derivative(t, x))
    x_next: Array = x + h * _sum(method.b, k)
    return x_next


def implicit_stages(
    method: Integrator,
    derivative: Callable[[Any, Array], Array],
    slopes: tuple[Array, Array],
    t: Any,
    x: Array,
    h: float,
    f: Array,
) -> list[Array]:
    """The stages k_i of a step from x at t, with the rates f and their derivatives there."""
    assert method.implicit is not None
    gamma, (J, f_t) = method.implicit.gamma, slopes
    solve = linear_solver(np.eye(len(x)) - (gamma * h) * J)
    k: list[Array] = []
    for a, c, coupling, time in zip(
        method.a, method.c, method.implicit.coupling, method.implicit.time, strict=True
    ):
        if k:
            f = derivative(t + c * h, x + h * _sum(a, k))
        k.append(solve(gamma * (f + _sum(coupling, k) + (time * h) * f_t)))
    return k


def _sum(weights: tuple[float, ...], k: list[Array]) -> Any:
    return sum((w * k_i for w, k_i in zip(weights, k, strict=True)), start=0.0)
