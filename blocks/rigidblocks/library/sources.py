"""Sources: signals that depend on time alone."""

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from rigidblocks.block import Block, Port, Values, finite
from rigidblocks.scalar import select


@dataclass(frozen=True, eq=False)
class RepeatingSequence(Block):
    """A table of values, linear between its times and repeated with the period of its last time.

    `t` (k,) [s] starts at 0 and increases; `y` (k, n) holds the values, in `unit`. The outputs are the value `y` (n,) and
    its `slope` (n,), which at a corner is the one that follows.
    """

    t: Any
    y: Any
    unit: str = "rad"

    def __post_init__(self) -> None:
        times = finite(self.t, np.shape(self.t), "the times of a repeating sequence")
        if times.ndim != 1 or len(times) < 2 or times[0] != 0 or np.any(np.diff(times) <= 0):
            raise ValueError(f"the times of a repeating sequence must start at 0 and increase, not {times.tolist()}")
        if np.ndim(self.y) != 2 or len(self.y) != len(times):
            raise ValueError(
                f"a repeating sequence of {len(times)} times needs y of shape ({len(times)}, n), not {np.shape(self.y)}"
            )
        _ = self.parameters  # their values are checked where they are given

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """y (n,) and slope (n,)."""
        n = np.shape(self.y)[1]
        return (Port("y", (n,), self.unit, "value"), Port("slope", (n,), f"{self.unit}/s", "rate of change"))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """table (k, n), the values at the times."""
        return (Port("table", np.shape(self.y), self.unit, "values at the times of the sequence", self.y),)

    def output(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del x, u
        times = np.asarray(self.t, dtype=float)
        period = times[-1]
        dust = 1e-9 * period  # a corner that rounding has put just ahead has been reached
        phase = t - period * np.floor((t + dust) / period)
        slopes = (p.table[1:] - p.table[:-1]) / np.diff(times)[:, None]
        y, slope = p.table[0] + slopes[0] * phase, slopes[0]
        for start, value, rate in zip(times[1:-1], p.table[1:-1], slopes[1:], strict=True):
            reached = phase + dust >= start
            y, slope = select(reached, value + rate * (phase - start), y), select(reached, rate, slope)
        return {"y": y, "slope": slope}
