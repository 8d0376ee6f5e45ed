"""Impulses that add no energy, whatever a law or a solver demands."""

from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import less, maximum, minimum, select
from rigidblocks.algebra.spatial import Array

TINY = 1e-200  # keeps a division from being by zero where its result is not used


def passive_impulse(M: Array, w: Array, base: Array, lam: Array) -> Array:
    """The impulse nearest to lam, on the way to it from `base`, that adds no energy; `base` adds
    none.

    On the way, base + s (lam - base), the kinetic energy changes by a s^2 + b s + c with c <= 0,
    which is convex: it is below zero up to one place.
    """
    way = lam - base
    a, b, c = way @ M @ way / 2, way @ (w + M @ base), minimum(impulse_energy(M, w, base), 0.0)
    root = np.sqrt(maximum(b * b - 4.0 * a * c, 0.0))
    zero = select(
        less(b, 0.0), (root - b) / maximum(2.0 * a, TINY), -2.0 * c / maximum(b + root, TINY)
    )
    whole = less(a + b + c, 0.0)
    return np.asarray(base + select(whole, 1.0, minimum(zero, 1.0)) * way)


def workless_impulse(M: Array, w: Array, lam: Array) -> Array:
    """The longest part of the impulse lam that does no work at the velocities behind it: lam . w+
    <= 0, w+ = w + M lam.

    That is so for every solution of a contact problem, w+ relative to the velocities that it
    demands; what an iteration leaves undone can break it. It is more than to add no kinetic energy,
    lam . (w + w+) <= 0.
    """
    mass, work = lam @ M @ lam, lam @ w
    part = minimum(maximum(-work, 0.0) / maximum(mass, TINY), 1.0)
    return np.asarray(select(less(0.0, mass + work), part, 1.0) * lam)


def impulse_energy(M: Array, w: Array, lam: Array) -> Any:
    """The kinetic energy that an impulse adds, lam . (w + w+) / 2 [J]."""
    return lam @ (w + M @ lam / 2)
