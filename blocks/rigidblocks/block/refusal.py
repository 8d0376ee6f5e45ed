"""Why a step is refused: the reasons of c/kernel/step.h, in its order, and what is said then."""

from enum import IntEnum

import numpy as np

from rigidblocks.block.step import sample_spans

FAILED = 1  # no refusal: a step that was tried, after which a value is not finite
MOST_INNER_STEPS = 1e9  # in one step


class Refusal(IntEnum):
    """A reason to take no step."""

    NOT_FINITE = 2
    NOT_POSITIVE = 3
    TOO_LONG = 4
    OFF_SAMPLES = 5
    NOT_AT_TIME = 6
    BEYOND_END = 7

    def text(self, now: float, end: float, dt: float, h: float, sample_time: float | None) -> str:
        """What is wrong with a step dt in a run that is at `now` and ends at `end`, times in s."""
        return {
            Refusal.NOT_FINITE: f"a step must be finite, not {dt!r} s",
            Refusal.NOT_POSITIVE: f"a step must be positive, not {dt!r} s",
            Refusal.TOO_LONG: f"the step {dt!r} s has too many inner steps of "
            f"{longest_inner_step(h, sample_time)!r} s; at most 1e9 can be taken",
            Refusal.OFF_SAMPLES: f"the step {dt!r} s does not fit the sample time {sample_time!r} "
            "s: one must be a multiple of the other",
            Refusal.NOT_AT_TIME: f"the block is at t = {now!r} s",
            Refusal.BEYOND_END: f"the run ends at t = {end!r} s",
        }[self]


def step_refusal(
    now: float, end: float, t: float, dt: float, h: float, sample_time: float | None
) -> Refusal | None:
    """Why no step dt from t is taken by a block at `now` in a run that ends at `end`, None when it
    is: what the C function of the same name says, for blocks that are stepped in NumPy.
    """
    rounding = 1e-6 * dt + 4 * np.finfo(float).eps * abs(now)
    if not np.isfinite(dt):
        return Refusal.NOT_FINITE
    if dt <= 0:
        return Refusal.NOT_POSITIVE
    if not abs(t - now) <= rounding:
        return Refusal.NOT_AT_TIME
    if dt >= MOST_INNER_STEPS * longest_inner_step(h, sample_time):
        return Refusal.TOO_LONG
    if t + dt > end + rounding:
        return Refusal.BEYOND_END
    try:
        sample_spans(sample_time, dt)
    except ValueError:
        return Refusal.OFF_SAMPLES
    return None


def longest_inner_step(h: float, sample_time: float | None) -> float:
    """No inner step is longer; a sample ends one."""
    return h if sample_time is None else min(h, sample_time)
