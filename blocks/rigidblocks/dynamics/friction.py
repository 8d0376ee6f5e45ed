"""Forces at the joints that follow from their motion: friction and springs. They are added to tau.

All take and return arrays with an element for every variable; their parameters are arrays or one
number for all. They need variables that are coordinates, so nothing with a quaternion for the
spring.
"""

from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array


def viscous_friction(qd: Array, damping: Any) -> Array:
    """-d qd, with d [N m s/rad or N s/m]."""
    force: Array = -(np.asarray(damping) * qd)
    return force


def coulomb_friction(qd: Array, level: Any, width: Any) -> Array:
    """-f tanh(qd / width): dry friction of the size f [N m or N], smoothed where |qd| is not above
    `width` [rad/s or m/s].

    There is no sticking: under a load below f a joint comes to creep with `width` times artanh(load
    / f). Raises ValueError for a width that, in numbers, is not positive.
    """
    if not _positive(width):
        raise ValueError(
            f"the speed over which dry friction is smoothed must be positive, not {width}"
        )
    force: Array = -(np.asarray(level) * np.tanh(qd / np.asarray(width)))
    return force


def joint_spring(q: Array, stiffness: Any, rest: Any = 0.0) -> Array:
    """-k (q - rest), with k [N m/rad or N/m]."""
    force: Array = -(np.asarray(stiffness) * (q - np.asarray(rest)))
    return force


def _positive(value: Any) -> bool:
    array = np.asarray(value)  # what is traced has no number to look at
    return bool(array.dtype == object or np.all(array > 0))
