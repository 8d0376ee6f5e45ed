"""What the inputs of each part read among all outputs of a system, and which parts read each other
in circles.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block
from rigidblocks.block.composite import Composite
from rigidblocks.block.memory import Memory
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.block.signal_types import REAL
from rigidblocks.block.written import BlockInC
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.feedthrough import after_sample
from rigidblocks.simulation.fmu_values import places
from rigidblocks.system.algebraic import loops
from rigidblocks.system.fmu import Fmu
from rigidblocks.system.part import Part
from rigidblocks.system.wiring import Wiring


@dataclass(frozen=True, eq=False)
class Link:
    """The inputs `to` of a part, by their places among its inputs, are factor y + offset of the
    outputs `of`, by their places among those of all parts.
    """

    of: Array
    to: Array
    factor: Array
    offset: Array


class Links:
    """The links of all parts.

    `held` (n,) marks the outputs that change at samples and events alone, or read nothing but such,
    `algebraic` those that read inputs at once; `owner` has the part of each, `nominal` their usual
    size. `groups` are the parts that read each other in circles, each behind those that it reads.
    `stateless` are the blocks that nothing is integrated in: they read what is held as it is at the
    end of a step.
    """

    def __init__(self, wiring: Wiring):
        outputs = wiring.outputs
        where = places(outputs)
        names = [name for name, part in wiring.parts.items() for _ in part.component.outputs]
        sizes = [port.size for port in outputs]
        self.owner = np.repeat(np.array(names, dtype=object), sizes)
        self.nominal = np.concatenate([np.zeros(0), *(np.ravel(port.nominal) for port in outputs)])
        held = _held(wiring)
        each = [
            ((name, port.name) in held, any(y == port.name for _, y in part.feedthrough))
            for name, part in wiring.parts.items()
            for port in part.component.outputs
        ]
        marks = np.array(each, dtype=bool).reshape(-1, 2)
        self.held, self.algebraic = (np.repeat(column, sizes) for column in marks.T)
        self.stateless = frozenset(
            name
            for name, part in wiring.parts.items()
            if isinstance(part.component, Block) and not part.component.states
        )
        self.by_part = {name: _link(wiring, name, where) for name in wiring.parts}
        self.groups = groups(
            {
                name: {self.owner[k] for k in link.of if not self.held[k]}
                for name, link in self.by_part.items()
            },
            _at_once(wiring),
        )
        self._at_once, self._wiring = _at_once(wiring), wiring

    @cached_property
    def looped(self) -> Mapping[str, Array]:
        """The inputs of each part, by their places, that are in an algebraic loop."""
        return _looped(self._wiring)

    def interface(self, group: tuple[str, ...]) -> Array:
        """The outputs of a group that parts of it read and that change within a step."""
        read = np.concatenate([self.by_part[name].of for name in group])
        return np.array([k for k in np.unique(read) if self.owner[k] in group and not self.held[k]])

    def in_order(self, group: tuple[str, ...]) -> tuple[str, ...]:
        """The parts of a group, as far as may be each behind those whose outputs its own read at
        once.
        """
        levels = {name: self._level(name, group) for name in group}
        return tuple(sorted(group, key=lambda name: (levels[name], name)))

    def depth(self, group: tuple[str, ...]) -> int:
        """Through how many parts of a group, one behind the other, outputs are read at once."""
        return max(self._level(name, group) for name in group)

    def _level(self, name: str, group: tuple[str, ...]) -> int:
        level, now = 0, {name}
        while level < len(group) and (now := {a for b in now for a in self._at_once[b]}):
            now &= set(group)
            level += bool(now)
        return level

    def readers(self, k: int) -> set[str]:
        """The parts that read an output."""
        return {name for name, link in self.by_part.items() if k in link.of}


def _at_once(wiring: Wiring) -> dict[str, set[str]]:
    """The parts whose outputs each part's outputs read at once."""
    found: dict[str, set[str]] = {name: set() for name in wiring.parts}
    for (a, _), (b, u), *_ in wiring.connections:
        if any(source == u for source, _ in wiring.parts[b].feedthrough):
            found[b].add(a)
    return found


def _looped(wiring: Wiring) -> dict[str, Array]:
    reads: dict[str, set[str]] = {}
    for (a, y), (b, u), *_ in wiring.connections:
        reads.setdefault(f"{b}.{u}", set()).add(f"{a}.{y}")
    for name, part in wiring.parts.items():
        for u, y in part.feedthrough:
            reads.setdefault(f"{name}.{y}", set()).add(f"{name}.{u}")
    whole = {name: some & reads.keys() for name, some in reads.items()}
    circles = {name for group in groups(whole) if len(group) > 1 for name in group}
    found = {}
    for name, part in wiring.parts.items():
        where = places(part.component.inputs)
        inside = [where[u] for u in where if f"{name}.{u}" in circles]
        found[name] = np.array([k for one in inside for k in range(one.start, one.stop)], dtype=int)
    return found


def check_loops(wiring: Wiring) -> None:
    """Raises ValueError for an algebraic loop through an output that changes at samples and events
    alone: its new value is there when the step is over, for which the others cannot wait.
    """
    try:
        _ = wiring.evaluation_order
    except ValueError:
        if not wiring.parts:
            raise
        circles = loops(wiring)
    else:
        return
    for circle in circles:
        ports = {(name, port) for name, kind, port, _ in circle if kind == "output"}
        held = sorted(f"{a}.{y}" for a, y in ports if is_held(wiring.parts[a], y))
        if held:
            whole = sorted(f"{a}.{y}" for a, y in ports)
            raise ValueError(
                f"algebraic loop through samples, of {', '.join(whole)}: 'newton' solves loops of "
                f"what follows its inputs at any time, and {', '.join(held)} changes at samples "
                "and events alone; put a UnitDelay into the loop"
            )


def is_held(part: Part, output: str) -> bool:
    """Whether an output changes at samples and events alone, as far as is known."""
    component = part.component
    if isinstance(component, Fmu):
        port = part.output(output)
        return port.type not in REAL or component.is_discrete(output)
    assert isinstance(component, Block)
    if component.sample_time is None and not component.sampled:
        return False
    if any(port.name == output for port in component.states):
        return False
    return not component.states or all(y != output for _, y in part.feedthrough)


def _held(wiring: Wiring) -> set[tuple[str, str]]:
    """The outputs that change at samples and events alone: also of blocks without states that read
    nothing else at once, and not the time.
    """
    held = {
        (name, port.name)
        for name, part in wiring.parts.items()
        for port in part.component.outputs
        if is_held(part, port.name)
    }
    sources: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for (a, y), (b, u), *_ in wiring.connections:
        for source, output in wiring.parts[b].feedthrough:
            if source == u:
                sources.setdefault((b, output), set()).add((a, y))
    left = {key for key in sources if key not in held and _has_no_memory(wiring.parts[key[0]])}
    while more := {key for key in left if sources[key] <= held}:
        left -= more
        held |= {(name, y) for name, y in more if not _reads_time(wiring.parts[name], y)}
    return held


def _has_no_memory(part: Part) -> bool:
    block = part.component
    return (
        isinstance(block, Block)
        and not isinstance(block, PythonBlock | BlockInC | Composite)
        and not (block.states or block.sampled)
        and block.sample_time is None
    )


def _reads_time(part: Part, output: str) -> bool:
    """Whether an output of a block depends on the time itself."""
    assert isinstance(part.component, Block)
    memory = Memory(part.component)
    depends = after_sample(TracedEvaluator(memory)).depends
    return bool(depends[memory.where[output], 0].any())


def groups(
    reads: Mapping[str, set[str]], before: Mapping[str, set[str]] | None = None
) -> tuple[tuple[str, ...], ...]:
    """The parts that read each other in circles, also through others, as groups; each behind those
    that it reads, and where that is possible behind those that are to be `before` it.
    """
    reached = {name: _reached(name, reads) for name in reads}
    group_of = {
        name: tuple(sorted({name} | {one for one in reached[name] if name in reached[one]}))
        for name in reads
    }
    graph = {
        group: {group_of[one] for name in group for one in reads[name]} - {group}
        for group in sorted(set(group_of.values()))
    }
    wanted = {name: (before or {}).get(name, set()) & reads.keys() for name in reads}
    ordered = {
        group: some | {group_of[one] for name in group for one in wanted[name]} - {group}
        for group, some in graph.items()
    }
    with contextlib.suppress(CycleError):
        return tuple(TopologicalSorter(ordered).static_order())
    return tuple(TopologicalSorter(graph).static_order())


def _reached(name: str, reads: Mapping[str, set[str]]) -> set[str]:
    found, more = set[str](), [name]
    while more:
        new = reads[more.pop()] - found
        found |= new
        more += new
    return found


def _link(wiring: Wiring, name: str, outputs: Mapping[str, slice]) -> Link:
    inputs = places(wiring.parts[name].component.inputs)
    of, to, factor, offset = [], [], [], []
    for wire in wiring.wires_to(name):
        (a, y), (_, u), start, first, n = wire
        conversion = wiring.conversion(wire)
        of.append(outputs[wiring.whole_name(a, y)].start + start + np.arange(n))
        to.append(inputs[u].start + first + np.arange(n))
        factor.append(np.ones(n) if conversion is None else conversion.factor)
        offset.append(np.zeros(n) if conversion is None else conversion.offset)
    whole, no = np.zeros(0, dtype=int), np.zeros(0)
    return Link(
        np.concatenate([whole, *of]),
        np.concatenate([whole, *to]),
        np.concatenate([no, *factor]),
        np.concatenate([no, *offset]),
    )
