"""The choice between an explicit pair and implicit methods, and the Jacobian of the latter.

c/kernel/stiffness.h does the same, by the same arithmetic in the same order.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import (
    EIGENVALUE,
    ENOUGH_SIGNS,
    IMPLICIT,
    IS_STIFF,
    MOST_PATIENCE,
    PATIENCE,
    RIVAL,
    SIGNS,
    STABLE,
    STIFFNESS,
)

NEAR = 2.0**-26  # of a state: half of its digits tell the difference, half the rates at it
SOON = 2.0**-20  # of a step
ROUNDING = 2.0**-50  # of the time
NOTICED = 1e-5  # tolerances: less apart, two places at the end of a step tell their rounding


def quotients(
    rates: Callable[[Any, Array], Array], t: Any, x: Array, h: float, f: Array, nominal: Array
) -> tuple[Array, Array]:
    """The derivatives of the rates by the states (n, n) and by the time (n,), at t and x where they
    are f, as quotients of differences.

    Each state is moved the way it goes, by the 2^-26th of its size, the time by the 2^-20th of h.
    """
    later = t + max(SOON * h, ROUNDING * abs(t))
    return state_quotients(rates, t, x, f, nominal), (rates(later, x) - f) / (later - t)


def state_quotients(
    rates: Callable[[Any, Array], Array], t: Any, x: Array, f: Array, nominal: Array
) -> Array:
    """The derivatives by the states alone, as `quotients` has them."""
    J = np.empty((len(x), len(x)))
    for j, value in enumerate(x):
        move = NEAR * max(abs(value), nominal[j])
        moved = x.copy()
        moved[j] = value - move if f[j] < 0.0 else value + move
        J[:, j] = (rates(t, moved) - f) / (moved[j] - value)
    return J


def coarse(x: float) -> float:
    """x rounded to nine binary digits (Veltkamp 1968).

    What is remembered of an error is rounded so: an estimate of an error is the small difference of
    large numbers, and its last digits are others in every form of a block, which would take other
    steps with all digits.
    """
    c = x * _SPLIT
    return float(c - (c - x))


_SPLIT = 2.0**44 + 1.0


def count_sign(s: Array, h: float, distance: float, fast: float, implicit: float) -> None:
    """Counts the signs that stability and not accuracy limits an explicit step of length h.

    `fast` over `distance` is an estimate of the fastest eigenvalue: the change of the rates between
    two places at the end of the step (Hairer and Wanner II, IV.2). `implicit` is the implicit
    method that begins, 0 without one.
    """
    if h * fast > STABLE * distance and distance > NOTICED:
        s[EIGENVALUE] = coarse(fast / distance)
        s[SIGNS] += 1.0
    elif s[SIGNS] > 0.0:
        s[SIGNS] -= 0.5
    if s[SIGNS] >= ENOUGH_SIGNS * (1.0 + s[PATIENCE]):
        s[STIFFNESS] += 1.0
        s[SIGNS] = 0.0
        if implicit > 0.0:
            if s[IMPLICIT] == 0.0:
                s[IMPLICIT] = implicit
            s[RIVAL], s[IS_STIFF] = h, s[IMPLICIT]


def count_calm(s: Array, h: float, bound: float, dearness: float) -> None:
    """Counts the signs that explicit steps are cheaper than an implicit one of length h, which
    costs `dearness` of them.

    They are where they would be stable, `bound` being one of the fastest eigenvalue, or where as
    many of them as one costs came further before.
    """
    calm = bound * h < 2.0 * dearness
    s[SIGNS] = s[SIGNS] + 1.0 if calm or h < dearness * s[RIVAL] else 0.0
    if s[SIGNS] >= ENOUGH_SIGNS:
        s[SIGNS] = s[IS_STIFF] = 0.0
        if not calm:
            s[PATIENCE] = min(2.0 * s[PATIENCE] + 1.0, MOST_PATIENCE)
