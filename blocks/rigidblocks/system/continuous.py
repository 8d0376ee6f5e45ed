"""A system as one continuous block: its parts read each other at every instant, not once a step."""

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.block.step import put_outputs
from rigidblocks.system.algebraic import AlgebraicLoop, evaluation
from rigidblocks.system.memories import PortsOfParts, WiredPart, WiredParts, values_of
from rigidblocks.system.system import System, wired
from rigidblocks.system.wiring import Wiring


class ContinuousSystem(PortsOfParts, Block):
    """A system of continuous blocks as one block with the states of all of them: the ideal law,
    without a hold.

        dx/dt = f(t, x, u)        with every connected input equal to its source at t

    States, outputs, open inputs and parameters are those of the parts, called `part.port`, or as
    `System.expose` says. It is
    integrated as a whole, so the parts' own `method` and `h` have no meaning here. Where a source
    jumps at the end of a step, an integrator with a stage there sees it one step early, and loses
    its order at that instant. Algebraic loops are solved by Newton's method (`AlgebraicLoop`). The
    system is copied: later changes of it have no effect.

    Raises ValueError for a part that samples, an FMU among the parts, or an open input without a
    start value.
    """

    def __init__(self, system: System | Wiring):
        self._parts = WiredParts(*wired(system), loops=True)
        for name, part in self._parts.by_name.items():
            if part.memory.block.sample_time is not None or part.memory.block.sampled:
                raise ValueError(
                    f"cannot make the system continuous: '{name}' is sampled every "
                    f"{part.memory.block.sample_time} s; "
                    "use its continuous form, or FusedSystem(system, dt) for the sampled system"
                )

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """The states of the parts."""
        return tuple(
            port
            for part in self._parts.by_name.values()
            for port in part.renamed(part.memory.block.states)
        )

    @cached_property
    def _shown(self) -> frozenset[str]:
        return frozenset(port.name for port in self.outputs)

    @cached_property
    def _evaluation(self) -> tuple[str | AlgebraicLoop, ...]:
        """What is computed one behind the other: parts, and loops of them."""
        wiring = self._parts.wiring
        return (
            wiring.evaluation_order
            if not self._parts.has_loops
            else evaluation(wiring, self._parts.by_name)
        )

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        values: dict[str, Any] = {}
        for part, m in self._evaluate(t, x, u, p):
            values |= _states(part, m, part.evaluator.derivative(m))
        return values

    def project(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        values: dict[str, Any] = {}
        for part, m in self._evaluate(t, x, u, p):
            values |= _states(part, m, part.evaluator.project(m)) if part.evaluator.projects else {}
        return values

    def margins(self, t: Any, x: Record, u: Record, p: Record) -> Array:
        each = [part.evaluator.margins(m) for part, m in self._evaluate(t, x, u, p)]
        return np.concatenate([np.zeros(0), *each])

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        values: dict[str, Any] = {}
        for part, m in self._evaluate(t, x, u, p):
            shown = [port for port in part.outputs if port.name in self._shown]
            values |= values_of(part, shown, m)
        return values

    def _evaluate(
        self, t: Any, x: Record, u: Record, p: Record
    ) -> Iterator[tuple[WiredPart, Array]]:
        """The parts, each with its memory, all of its inputs and outputs as they are at t."""
        memories = self._parts.memories(t, x, u, p)
        for step in self._evaluation:
            names = (step,) if isinstance(step, str) else step.names
            read = {name: self._parts.with_inputs(name, memories) for name in names}
            if isinstance(step, str):
                memories[step] = put_outputs(self._parts.by_name[step].evaluator, read[step])
            else:
                memories = step.solved(memories | read)
        for name, part in self._parts.by_name.items():
            yield part, self._parts.with_inputs(name, memories)


def _states(part: WiredPart, m: Array, values: Array) -> Values:
    """The flat values of a part's states by their names in the system."""
    m = m.copy()
    m[part.memory.x] = values
    return values_of(part, part.renamed(part.memory.block.states), m)
