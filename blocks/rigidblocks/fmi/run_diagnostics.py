"""Log messages of an FMU about singular configurations and inner steps of a run.

`c/fmi/simulation_run.h` implements these diagnostics in native FMUs. The reason for a rejected step
is not part of these diagnostics; the FMU logs it separately.
"""

from collections.abc import Iterator
from math import inf, isinf
from typing import Any

from rigidblocks.block.memory_layout import Memory

# a configuration is near-singular if the condition number exceeds its minimum by this factor
CLOSE = 100.0
STEPS = ("cut_short", "above_tolerance", "stiffness", "explicit_length")


def condition_places(memory: Memory) -> Iterator[tuple[int, int]]:
    """Yield the memory indices (condition number, rank) of the constraints of kinematic loops.

    The block declares these outputs in `Block.conditions`.
    """
    for pair in memory.block.conditions:
        if memory.where.keys() >= {*pair}:
            yield memory.where[pair[0]].start, memory.where[pair[1]].start


def step_places(memory: Memory) -> Iterator[dict[str, int]]:
    """Yield the memory indices of the step counters of each integrator, as a dictionary.

    The keys are the counter names in `STEPS`.
    """
    for name in memory.where:
        before, steps, last = name.rpartition("steps.")
        if steps and last == STEPS[0] and (not before or before.endswith(".")):
            yield {one: memory.where[f"{before}steps.{one}"].start for one in STEPS}


class Diagnostics:
    """Source of log messages about singular kinematic loops and the inner steps of a block.

    A loop passes a singular configuration while its condition number exceeds `CLOSE` times the
    smallest value so far. If the rank is reduced, the condition number counts as infinite. After
    the passage, a message reports the largest condition number. To limit the number of messages,
    this value must exceed twice the last reported value.

    Attributes:
        state: Data that a saved FMU state contains for the diagnostics.
    """

    def __init__(self, memory: Memory, names: tuple[str, ...]):
        self.conditions = tuple(condition_places(memory))
        self.steps = tuple(step_places(memory))
        self.names = names
        self.state: dict[str, Any] = {}
        self.begin()

    def __bool__(self) -> bool:
        return bool(self.conditions or self.steps)

    def begin(self) -> None:
        """Reset the diagnostics at the start of a run."""
        passages = [_initial_passage() for _ in self.conditions]
        self.state = {"passages": passages, "cut_short": [0.0] * len(self.steps)}

    def step_messages(self, m: Any) -> Iterator[str]:
        """Yield the log messages about a step; m is the memory vector after the step."""
        for places, passage in zip(self.conditions, self.state["passages"], strict=True):
            condition, rank = m[places[0]], m[places[1]]
            passage["least"] = min(passage["least"], condition)
            passage["rank"] = max(passage["rank"], rank)
            now = inf if rank < passage["rank"] else condition
            if now > CLOSE * passage["least"]:
                if now > passage["largest"]:
                    passage.update(largest=now, t=m[0])
            elif passage["largest"] > 2.0 * passage["reported"]:
                yield self._largest(places, passage)
        for k, step in enumerate(self.steps):
            count, before = m[step["cut_short"]], self.state["cut_short"][k]
            self.state["cut_short"][k] = count
            if count > 0.0 == before:
                yield (
                    f"max_inner_steps is reached at t = {m[0]:g} s: one step without error control "
                    "completes the communication step, here and whenever "
                    f"{self.names[step['cut_short']]} grows"
                )

    def summary(self, m: Any) -> Iterator[str]:
        """Yield the log messages about a complete run; m is the final memory vector."""
        for places, passage in zip(self.conditions, self.state["passages"], strict=True):
            if passage["largest"] > passage["reported"]:
                yield self._largest(places, passage)
        for step in self.steps:
            count, above, detections = (m[step[name]] for name in STEPS[:3])
            if count:
                yield (
                    f"{self.names[step['cut_short']]} is {count:g}: communication steps that "
                    "reached the limit of inner steps; raise max_inner_steps"
                )
            if above:
                yield (
                    f"{self.names[step['above_tolerance']]} is {above:g}: inner steps with an "
                    "error above the tolerance, because no shorter steps are possible"
                )
            if detections and not m[step["explicit_length"]]:
                yield (
                    f"{self.names[step['stiffness']]} is {detections:g}: stability limits the "
                    "inner steps; a stiff method permits longer steps"
                )

    def _largest(self, places: tuple[int, int], passage: dict[str, float]) -> str:
        passage["reported"], t = passage["largest"], passage["t"]
        if isinf(passage["reported"]):
            return f"{self.names[places[1]]} decreased at t = {t:g} s: a singular configuration"
        return (
            f"{self.names[places[0]]} was {passage['reported']:.3g} at t = {t:g} s: near a "
            "singular configuration"
        )


def _initial_passage() -> dict[str, float]:
    """Return the data of a kinematic loop before the first step of a run.

    `least` is the smallest condition number so far, `rank` the largest rank so far, and `reported`
    the last reported condition number. `largest` is the largest condition number near a singular
    configuration since the start of the run, and `t` is its time [s].
    """
    return {"least": inf, "rank": 0.0, "largest": 0.0, "t": 0.0, "reported": 0.0}
