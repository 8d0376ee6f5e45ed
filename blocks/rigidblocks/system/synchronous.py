"""Blocks that sample at the same instants as one block: they read each other at the instant, not as
they were before it.
"""

from functools import cached_property
from typing import Any

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.block.memory import put
from rigidblocks.block.step import put_outputs
from rigidblocks.system.memories import Memories, PortsOfParts, WiredParts, values_of
from rigidblocks.system.system import System, wired
from rigidblocks.system.wiring import Wiring


class SynchronousSystem(PortsOfParts, Block):
    """A system of sampled blocks of one sample time, and of blocks without states, as one block.

        z[k] = update(t[k], z[k-1], u[k])      with every connected input equal to its source after
                                               the sample at t[k]

    So a sum and a `UnitDelay` that reads it count each sample once. Sampled states, outputs, open
    inputs and parameters are those of the parts, called `part.port`.

    Raises ValueError for an FMU or a Python block among the parts, a part with continuous states,
    several sample times or none, an algebraic loop, or an open input without a start value.
    """

    def __init__(self, system: System | Wiring):
        self._parts = WiredParts(*wired(system))
        blocks = {name: part.memory.block for name, part in self._parts.by_name.items()}
        for name, block in blocks.items():
            if block.states:
                raise ValueError(f"cannot make the system synchronous: '{name}' is continuous")
        times = {block.sample_time for block in blocks.values()} - {None}
        if len(times) != 1:
            raise ValueError(
                f"cannot make the system synchronous: its parts have {len(times)} sample times, "
                "not one"
            )
        (self.sample_time,) = times

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """The sampled states of the parts."""
        parts = self._parts.by_name.values()
        return tuple(port for part in parts for port in part.renamed(part.memory.block.sampled))

    def initial(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._sampled("initial", self._parts.memories(t, x, u, p))

    def update(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._sampled("update", self._parts.memories(t, x, u, p))

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        memories = self._evaluated(self._parts.memories(t, x, u, p))
        shown = {port.name for port in self.outputs}
        values: dict[str, Any] = {}
        for name, part in self._parts.by_name.items():
            seen = [port for port in part.outputs if port.name in shown]
            values |= values_of(part, seen, memories[name])
        return values

    def _evaluated(self, memories: Memories) -> Memories:
        """The memories with all connected inputs and computed outputs."""
        for name in self._parts.wiring.evaluation_order:
            part = self._parts.by_name[name]
            memories[name] = put_outputs(part.evaluator, self._parts.with_inputs(name, memories))
        return memories

    def _sampled(self, function: str, before: Memories) -> Values:
        """The sampled states after an instant, of the memories before it.

        In each round every part takes its sample anew, with what the others have by then. No loop
        is algebraic, so after as many rounds as there are wires against the order, and one, all
        have read what is right.
        """
        memories = self._evaluated(dict(before))
        order = self._parts.wiring.evaluation_order
        for _ in range(1 + self._wires_back(order)):
            for name in order:
                part = self._parts.by_name[name]
                z = part.memory.z
                m = put(self._parts.with_inputs(name, memories), z, before[name][z])
                m = put(m, z, getattr(part.evaluator, function)(m))
                memories[name] = put_outputs(part.evaluator, m)
        values: dict[str, Any] = {}
        for name, part in self._parts.by_name.items():
            values |= values_of(part, part.renamed(part.memory.block.sampled), memories[name])
        return values

    def _wires_back(self, order: tuple[str, ...]) -> int:
        """How many wires go to a part that is not behind their source."""
        wires = self._parts.wiring.wires
        return sum(order.index(a) >= order.index(b) for (a, _), (b, _), *_ in wires)
