"""Blocks of a system that are wired to each other as one block: continuous ones, without a hold
between them, and such as sample together.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from rigidblocks.block.block import Block
from rigidblocks.block.composite import Composite
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.block.written import BlockInC
from rigidblocks.system.algebraic import circles_of, loops
from rigidblocks.system.continuous import ContinuousSystem
from rigidblocks.system.part import Part, component_of
from rigidblocks.system.synchronous import SynchronousSystem
from rigidblocks.system.wiring import Connection, PartPort, Wiring


def merged(wiring: Wiring) -> tuple[Wiring, tuple[tuple[str, ...], ...]]:
    """The wiring with each circle of continuous blocks that are wired to each other as one part,
    whose ports keep their names, and which parts these are.

    An own method of such a part has no meaning then. Raises ValueError where nothing is to be
    merged.
    """
    circles = tuple(_circles(wiring))
    if not circles:
        fit = ", ".join(name for name, part in wiring.parts.items() if _is_continuous(part))
        raise ValueError(
            "there is nothing to couple transparently: no two continuous blocks are connected; "
            f"continuous are: {fit or 'none'}"
        )
    return _joined(wiring, circles, ContinuousSystem), circles


def closed(wiring: Wiring) -> Wiring:
    """The wiring with the continuous blocks of each algebraic loop as one part, which solves it,
    and whose ports keep their names; itself where there is none.

    Raises ValueError for an algebraic loop through a part that samples, or that is no block.
    """
    if not wiring.has_loops:
        return wiring
    circles: list[set[str]] = []
    for loop in loops(wiring):
        names = {str(node[0]) for node in loop}
        near = [one for one in circles if one & names]
        circles = [one for one in circles if one not in near] + [names.union(*near)]
    if not all(_is_continuous(wiring.parts[name]) for circle in circles for name in circle):
        _ = wiring.evaluation_order  # raises with the ports of the loop
    return _joined(wiring, tuple(tuple(sorted(circle)) for circle in circles), ContinuousSystem)


def synchronous(wiring: Wiring) -> Wiring:
    """The wiring with the blocks that read each other in a circle and sample at the same instants,
    those without states between them included, as one part, whose ports keep their names; itself
    where there is none.

    Of parts that step one behind the other, one would read what another had a sample before.
    """
    samplers = {name for name, part in wiring.parts.items() if _only_samples(part)}
    reads: dict[str, set[str]] = {name: set() for name in samplers}
    for (a, _), (b, _), *_ in wiring.connections:
        if a in samplers and b in samplers:
            reads[b].add(a)
    circles = {tuple(sorted(c)) for c in circles_of(reads).values() if _is_sampled(wiring, c)}
    circles = {c for c in circles if len(c) > 1 or c[0] in reads[c[0]]}
    if circles and wiring.has_loops:  # which are not to be solved by samples
        algebraic = {str(node[0]) for loop in loops(wiring) for node in loop}
        circles = {c for c in circles if not algebraic & {*c}}
    return _joined(wiring, tuple(sorted(circles)), SynchronousSystem) if circles else wiring


def _only_samples(part: Part) -> bool:
    """Whether it is a block without continuous states that can be traced."""
    block = part.component
    return (
        isinstance(block, Block)
        and not isinstance(block, PythonBlock | BlockInC | Composite)
        and not block.states
    )


def _is_sampled(wiring: Wiring, circle: frozenset[str]) -> bool:
    """Whether the samples of some parts are at the same instants."""
    blocks = [wiring.parts[name].component for name in circle]
    return len({getattr(block, "sample_time", None) for block in blocks} - {None}) == 1


def _joined(
    wiring: Wiring, circles: tuple[tuple[str, ...], ...], whole: Callable[[Wiring], Block]
) -> Wiring:
    """The wiring with the parts of each circle as one block.

    Raises ValueError for an input of any that is left open.
    """
    _ = wiring.open_inputs
    owner = {name: " and ".join(circle) for circle in circles for name in circle}
    parts = {name: part for name, part in wiring.parts.items() if name not in owner}
    for circle in circles:
        parts[owner[circle[0]]] = _part(wiring, circle, whole)
    connections = [
        moved for one in wiring.connections for moved in _moved(one, owner, parts, wiring)
    ]
    names = frozenset(owner.values())
    return Wiring(parts, tuple(connections), names | wiring.merged)


def _circles(wiring: Wiring) -> Iterator[tuple[str, ...]]:
    """The continuous parts that are connected, also through others of them, two or more."""
    near: dict[str, set[str]] = {
        name: set() for name, part in wiring.parts.items() if _is_continuous(part)
    }
    for (a, _), (b, _), *_ in wiring.connections:
        if a in near and b in near and a != b:
            near[a].add(b)
            near[b].add(a)
    seen: set[str] = set()
    for name in sorted(near):
        found = {name}
        while more := {b for a in found for b in near[a]} - found:
            found |= more
        if len(found) > 1 and name not in seen:
            yield tuple(sorted(found))
        seen |= found


def _is_continuous(part: Part) -> bool:
    component = part.component
    return (
        isinstance(component, Block)
        and not isinstance(component, PythonBlock | BlockInC | Composite)
        and component.sample_time is None
        and not component.sampled
    )


def _part(wiring: Wiring, circle: tuple[str, ...], whole: Callable[[Wiring], Block]) -> Part:
    """The parts of a circle as one, wired as they are."""
    parts = {name: wiring.parts[name] for name in circle}
    for one in wiring.connections:
        (a, _), (b, u) = one.source, one.target
        if b in parts and a not in parts and (port := parts[b].input(u)).start is None:
            parts[b] = replace(parts[b], start={u: port.within(0.0), **parts[b].start})
    within = [one for one in wiring.connections if {one.source[0], one.target[0]} <= {*parts}]
    system = Wiring(parts, tuple(within), wiring.merged & {*parts})
    component, pairs = component_of(whole(system))
    return Part(" and ".join(circle), component, pairs)


def _moved(
    one: Connection, owner: Mapping[str, str], parts: Mapping[str, Part], wiring: Wiring
) -> Iterator[Connection]:
    """A connection between the new parts; several where it goes to elements of an input whose
    others are connected within a part.
    """
    (a, y), (b, u) = one.source, one.target
    if a in owner and owner.get(b) == owner[a]:
        return
    source: PartPort = (owner[a], wiring.whole_name(a, y)) if a in owner else one.source
    if b not in owner:
        yield one._replace(source=source)
        return
    known = {port.name for port in parts[owner[b]].component.inputs}
    if (whole := wiring.whole_name(b, u)) in known:
        yield one._replace(source=source, target=(owner[b], whole))
        return
    names = wiring.parts[b].input(u).element_names
    for start, to in zip(one.start, one.to, strict=True):
        target = (owner[b], wiring.whole_name(b, names[to]))
        yield Connection(source, target, (start,), (0,), one.names)
