"""The communication points of a run."""

from dataclasses import dataclass
from math import isfinite

import numpy as np

from rigidblocks.algebra.spatial import Array

_MOST = 2**53  # whole numbers that a float is exact to


@dataclass(frozen=True)
class Grid:
    """The communication points t_start + k dt, k = 0 .. n; counted, not summed."""

    t_start: float
    dt: float
    n: int

    @property
    def times(self) -> Array:
        """All of them (n + 1,) [s]."""
        return self.t_start + self.dt * np.arange(self.n + 1)


def communication_points(t_start: float, t_stop: float, dt: float) -> Grid:
    """The points of a run from t_start to t_stop; raises ValueError where dt does not divide it."""
    if not (all(map(isfinite, (t_start, t_stop, dt))) and dt > 0 and t_stop > t_start):
        raise ValueError(
            f"a run needs finite t_stop > t_start and dt > 0, not t_start = {t_start}, t_stop = "
            f"{t_stop}, dt = {dt}"
        )
    steps = (t_stop - t_start) / dt
    if steps > _MOST:
        raise ValueError(
            f"dt = {dt} s makes {steps:.3g} steps of a run of {t_stop - t_start} s, and "
            f"{_MOST:.3g} can be counted; take a longer dt"
        )
    n = int(np.rint(steps))
    if n < 1 or abs(steps - n) > 1e-6:
        fitting = (t_stop - t_start) / max(1, n)
        raise ValueError(
            f"dt = {dt} s does not divide the run of {t_stop - t_start} s; {fitting:.9g} s would"
        )
    return Grid(t_start, dt, n)
