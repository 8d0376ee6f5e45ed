"""The step of the linearly implicit integrators, for blocks that are too stiff for explicit ones."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rigidblocks.integrate import Integrator
from rigidblocks.scalar import is_number, less, select
from rigidblocks.spatial import Array

Solver = Callable[[Array], Array]


def integrate_implicitly(
    method: Integrator,
    derivative: Callable[[Any, Array], Array],
    slopes: Callable[[Any, Array], tuple[Array, Array]],
    t: Any,
    x: Array,
    h: float,
) -> Array:
    """The flat states after one step of length h from t by a linearly implicit method (equations at `LinearlyImplicit`).

    x + h sum b_i k_i, where `slopes` gives df/dx (n, n) and df/dt (n,) of `derivative` at a time and state.
    """
    assert method.implicit is not None
    gamma = method.implicit.gamma
    J, f_t = slopes(t, x)
    solve = linear_solver(np.eye(len(x)) - (gamma * h) * J)
    k: list[Array] = []
    for a, c, coupling, time in zip(method.a, method.c, method.implicit.coupling, method.implicit.time, strict=True):
        f = derivative(t + c * h, x + h * _sum(a, k))
        k.append(solve(gamma * (f + _sum(coupling, k) + (time * h) * f_t)))
    x_next: Array = x + h * _sum(method.b, k)
    return x_next


def _sum(weights: tuple[float, ...], k: list[Array]) -> Any:
    return sum((w * k_i for w, k_i in zip(weights, k, strict=True)), start=0.0)


def linear_solver(W: Array) -> Solver:
    """The function that returns W^-1 b, by elimination with the largest pivot of each column; W may be traced.

    A singular W gives values that are not finite.
    """
    return _traced_solver(W) if W.dtype == object else _solver(W)


def _solver(W: Array) -> Solver:
    U, rows = W.copy(), np.arange(len(W))
    for j in rows.tolist():
        pivot = j + int(np.argmax(np.abs(U[j:, j])))
        U[[j, pivot]], rows[[j, pivot]] = U[[pivot, j]], rows[[pivot, j]]
        U[j + 1 :, j] /= U[j, j]
        U[j + 1 :, j + 1 :] -= U[j + 1 :, j, None] * U[j, j + 1 :]

    def solve(b: Array) -> Array:
        x: Array = b[rows]
        for j in range(len(x)):
            x[j + 1 :] -= U[j + 1 :, j] * x[j]
        for j in reversed(range(len(x))):
            x[j] /= U[j, j]
            x[:j] -= U[:j, j] * x[j]
        return x

    return solve


def _traced_solver(W: Array) -> Solver:
    """The same for traced W: rows are exchanged with `select`, and structural zeros cost nothing."""
    U, n = W.copy(), len(W)
    exchanges: list[list[tuple[int, Any]]] = []  # for each column the rows that its pivot may come from, and whether it does
    for j in range(n):
        below = [i for i in range(j + 1, n) if not is_number(U[i, j], 0.0)]
        exchanges.append([(i, _exchange(U, j, i)) for i in below])
        for i in below:
            U[i, j] = U[i, j] / U[j, j]
            U[i, j + 1 :] = U[i, j + 1 :] - U[i, j] * U[j, j + 1 :]

    def solve(b: Array) -> Array:
        x = b.astype(object)
        for j in range(n):
            for i, larger in exchanges[j]:
                x[j], x[i] = select(larger, x[i], x[j]), select(larger, x[j], x[i])
            for i, _ in exchanges[j]:
                x[i] = x[i] - U[i, j] * x[j]
        for j in reversed(range(n)):
            x[j] = x[j] / U[j, j]
            x[:j] = x[:j] - U[:j, j] * x[j]
        return x

    return solve


def _exchange(U: Array, j: int, i: int) -> Any:
    """Exchanges rows j and i from column j on where the pivot in row i is larger; returns whether it is."""
    larger = less(np.abs(U[j, j]), np.abs(U[i, j]))
    for c in range(j, len(U)):
        if not (is_number(U[j, c], 0.0) and is_number(U[i, c], 0.0)):
            U[j, c], U[i, c] = select(larger, U[i, c], U[j, c]), select(larger, U[j, c], U[i, c])
    return larger
