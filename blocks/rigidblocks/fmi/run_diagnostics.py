"""What the log of an FMU is told of a run that goes on, beside refusals.

c/fmi/watch.h does the same in native FMUs.
"""

from collections.abc import Iterator
from math import inf, isinf
from typing import Any

from rigidblocks.block.memory import Memory

CLOSE = 100.0  # a condition so many times the least that there was is near a singular configuration
STEPS = ("cut_short", "spite", "stiffness", "rival")


def condition_places(memory: Memory) -> Iterator[tuple[int, int]]:
    """Where a memory has the conditions and ranks of loops (`Block.conditions`)."""
    for pair in memory.block.conditions:
        if memory.where.keys() >= {*pair}:
            yield memory.where[pair[0]].start, memory.where[pair[1]].start


def step_places(memory: Memory) -> Iterator[dict[str, int]]:
    """Where a memory has what integrators remember, its own or those of parts: of each the places
    of `STEPS` by their names.
    """
    for name in memory.where:
        before, steps, last = name.rpartition("steps.")
        if steps and last == STEPS[0] and (not before or before.endswith(".")):
            yield {one: memory.where[f"{before}steps.{one}"].start for one in STEPS}


class Watch:
    """What there is to be said of the steps of a block on a memory.

    The condition of loops is told of when it falls back below `CLOSE` times its least and is twice
    what was told before, so that there are few messages. `state` is what it remembers.
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
        """Forgets what there was."""
        passages = [_passage() for _ in self.conditions]
        self.state = {"passages": passages, "cut_short": [0.0] * len(self.steps)}

    def after_step(self, m: Any) -> Iterator[str]:
        """What there is to say when the memory is m after a step."""
        for places, passage in zip(self.conditions, self.state["passages"], strict=True):
            condition, rank = m[places[0]], m[places[1]]
            passage["least"] = min(passage["least"], condition)
            passage["rank"] = max(passage["rank"], rank)
            now = inf if rank < passage["rank"] else condition
            if now > CLOSE * passage["least"]:
                if now > passage["largest"]:
                    passage.update(largest=now, t=m[0])
            elif passage["largest"] > 2.0 * passage["told"]:
                yield self._largest(places, passage)
        for k, step in enumerate(self.steps):
            count, before = m[step["cut_short"]], self.state["cut_short"][k]
            self.state["cut_short"][k] = count
            if count > 0.0 == before:
                yield (
                    f"the inner steps are used up at t = {m[0]:g} s: the rest is one step without "
                    f"a known error, here and where {self.names[step['cut_short']]} grows"
                )

    def at_end(self, m: Any) -> Iterator[str]:
        """What there is to say at the end of a run."""
        for places, passage in zip(self.conditions, self.state["passages"], strict=True):
            if passage["largest"] > passage["told"]:
                yield self._largest(places, passage)
        for step in self.steps:
            count, spite, signs = (m[step[name]] for name in STEPS[:3])
            if count:
                yield (
                    f"{self.names[step['cut_short']]} is {count:g}: communication steps whose "
                    "inner steps were used up; raise max_inner_steps"
                )
            if spite:
                yield (
                    f"{self.names[step['spite']]} is {spite:g}: inner steps with an error above "
                    "the tolerance, for time has no shorter ones"
                )
            if signs and not m[step["rival"]]:
                yield (
                    f"{self.names[step['stiffness']]} is {signs:g}: stability limits the inner "
                    "steps; a stiff method takes longer ones"
                )

    def _largest(self, places: tuple[int, int], passage: dict[str, float]) -> str:
        passage["told"], t = passage["largest"], passage["t"]
        if isinf(passage["told"]):
            return f"{self.names[places[1]]} fell at t = {t:g} s: a singular configuration"
        return (
            f"{self.names[places[0]]} was {passage['told']:.3g} at t = {t:g} s: near a singular "
            "configuration"
        )


def _passage() -> dict[str, float]:
    """Nothing known: the least condition and the largest rank; the largest condition above its
    limit and when; what was told.
    """
    return {"least": inf, "rank": 0.0, "largest": 0.0, "t": 0.0, "told": 0.0}
