"""Merging of connected blocks into one block, and solution of algebraic loops.

An algebraic loop is a cycle of direct feedthrough between the outputs of blocks.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.block.external_functions import BlockInC, PythonBlock
from rigidblocks.block.memory_layout import assign
from rigidblocks.block.nested_blocks import Composite
from rigidblocks.block.stepper import put_outputs
from rigidblocks.common.doc_links import add_doc_link
from rigidblocks.cosim.graph.combined_memory import (
    Memories,
    PortsOfParts,
    WiredPart,
    WiredParts,
    values_of,
)
from rigidblocks.cosim.graph.directed_graphs import components_by_node, strong_components
from rigidblocks.cosim.graph.part import Part, component_of
from rigidblocks.cosim.graph.system import System, wiring_and_exposure
from rigidblocks.cosim.graph.wiring import (
    Connection,
    Node,
    PartPort,
    Wiring,
    check_start,
)
from rigidblocks.spatial.linear_algebra import linear_solver
from rigidblocks.spatial.scalar import is_traced, less, select
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.trace import Graph, jacobian, trace

LOG = logging.getLogger("rigidblocks")

_NEWTON_STEPS = 25  # number of Newton steps for nonlinear equations
_LINEAR_NEWTON_STEPS = 2  # for linear equations; the second step reduces the rounding error
_MAX_RESIDUAL = 1e-9  # maximum residual relative to 1 + |w|; typical residuals are much smaller


class ElementConnection(NamedTuple):
    """Connection from one element of an output to one element of an input.

    Attributes:
        part: Name of the part that has the input.
        to: Index of the input element in the memory vector of `part`.
        source: Name of the part that has the output.
        start: Index of the output element in the memory vector of `source`.
    """

    part: str
    to: int
    source: str
    start: int


@dataclass(frozen=True, eq=False)
class AlgebraicLoop:
    """Algebraic loop of parts, solved by tearing.

    Newton's method with the exact Jacobian solves for the values of the torn inputs. The residual
    of a torn input is the value of the connected output minus the unknown. Newton's method takes
    two steps for linear equations, and 25 steps for nonlinear equations. The number of steps is
    fixed, so NumPy and compiled code take the same steps. A step that does not reduce the residual
    is shortened.

    Attributes:
        parts: Parts by name.
        names: Names of the parts of the loop, in evaluation order.
        ties: Connections through which a part reads the outputs of earlier parts.
        torn: Connections to the torn inputs.
    """

    parts: Mapping[str, WiredPart]
    names: tuple[str, ...]
    ties: tuple[ElementConnection, ...]
    torn: tuple[ElementConnection, ...]

    def solve(self, memories: Memories) -> Memories:
        """Solve the loop; return the memory vectors with consistent inputs and outputs.

        Raises:
            ArithmeticError: Newton's method does not converge. Compiled code returns NaN or
                infinity instead of an error.
        """
        rest = np.concatenate([memories[name] for name in self.names])
        w = np.array([memories[one.part][one.to] for one in self.torn])
        given = self._places(memories)
        w = self._solution(w, rest)
        return memories | self._evaluate_parts(w, {name: rest[at] for name, at in given.items()})

    def _solution(self, w: Array, rest: Array) -> Array:
        r, J = self._residual(w, rest)
        share: Any = 1.0
        for _ in range(_LINEAR_NEWTON_STEPS if self._is_linear else _NEWTON_STEPS):
            new = w + share * linear_solver(J)(-r)
            r_new, J_new = self._residual(new, rest)
            if self._is_linear:
                w, r, J = new, r_new, J_new
                continue
            is_less = less(r_new @ r_new, r @ r)
            w, r, J = (select(is_less, a, b) for a, b in ((new, w), (r_new, r), (J_new, J)))
            share = select(is_less, 1.0, share / 4.0)
        return self._check_solution(w, r)

    def _check_solution(self, w: Array, r: Array) -> Array:
        """Return the solution w; raise ArithmeticError if the residual r is too large."""
        is_close = less(np.abs(r), _MAX_RESIDUAL * (1.0 + np.abs(w)))
        if any(not hasattr(one, "select") and not one for one in is_close):  # not traced
            refused = ArithmeticError(
                f"the algebraic loop of {' and '.join(map(repr, self.names))} has no solution near "
                "the start values, or no unique solution"
            )
            raise add_doc_link(refused, "algebraic loops")
        if is_traced(is_close):
            w = np.array(
                [
                    x / select(one, 1.0, 0.0) if hasattr(one, "select") else x
                    for x, one in zip(w, is_close, strict=True)
                ]
            )
        return w

    def _residual(self, w: Array, rest: Array) -> tuple[Array, Array]:
        """Return the residual (n,) of the loop equations for the input values w, and its Jacobian.

        The Jacobian (n, n) is the derivative with respect to w. The array `rest` contains the
        memory vectors of all parts, one after another.
        """
        n, both = len(w), np.concatenate([w, rest])
        return self._graph(both), self._slopes(both).reshape(n, n)

    @cached_property
    def _is_linear(self) -> bool:
        return not self._slopes.depends[:, : len(self.torn)].any()

    @cached_property
    def _slopes(self) -> Graph:
        return jacobian(self._graph, "off", "w")

    @cached_property
    def _graph(self) -> Graph:
        memories = {name: self.parts[name].memory.start() for name in self.names}
        given = self._places(memories)

        def residual(w: Array, rest: Array) -> dict[str, Array]:
            found = self._evaluate_parts(w, {name: rest[at] for name, at in given.items()})
            return {"off": np.array([found[one.source][one.start] for one in self.torn]) - w}

        size = sum(len(m) for m in memories.values())
        return trace("loop", residual, {"w": (len(self.torn),), "rest": (size,)})

    def _places(self, memories: Memories) -> dict[str, slice]:
        ends = np.cumsum([len(memories[name]) for name in self.names]).tolist()
        begins = [0, *ends]
        return {n: slice(a, b) for n, a, b in zip(self.names, begins, ends, strict=False)}

    def _evaluate_parts(self, w: Array, memories: Memories) -> Memories:
        """Evaluate the parts of the loop for the tearing variables w; return the memory vectors.

        The tearing variables w (n,) are the values of the torn inputs.
        """
        for name in self.names:
            m = memories[name].astype(np.result_type(memories[name], w))
            for k, one in enumerate(self.torn):
                if one.part == name:
                    m[one.to] = w[k]
            for one in self.ties:
                if one.part == name:
                    m[one.to] = memories[one.source][one.start]
            memories[name] = put_outputs(self.parts[name].evaluator, m)
        return memories


def evaluation(wiring: Wiring, parts: Mapping[str, WiredPart]) -> tuple["str | AlgebraicLoop", ...]:
    """Return the evaluation order of all outputs: part names and algebraic loops."""
    reads = wiring.element_reads()
    groups = components_by_node(reads)
    graph: dict[frozenset[Node], set[frozenset[Node]]] = {}
    for node, group in groups.items():
        graph.setdefault(group, set()).update(groups[one] for one in reads.get(node, ()))
    steps: list[str | AlgebraicLoop] = []
    for group in TopologicalSorter({c: some - {c} for c, some in graph.items()}).static_order():
        if len(group) > 1:
            steps.append(_loop(wiring, parts, group))
        elif (node := next(iter(group)))[1] == "output" and (
            steps[-1:] != [node[0]] or node[0] in wiring.self_connected
        ):
            steps.append(str(node[0]))
    sinks = sorted(name for name in wiring.parts if name not in steps)
    return (*steps, *(name for name in sinks if not wiring.parts[name].component.outputs))


def _loop(wiring: Wiring, parts: Mapping[str, WiredPart], group: frozenset[Node]) -> AlgebraicLoop:
    names = tuple(sorted({str(node[0]) for node in group}))
    ties: list[ElementConnection] = []
    torn: list[ElementConnection] = []
    for tie, node in _element_connections(wiring, parts, names):
        if node in group:
            before = names.index(tie.source) < names.index(tie.part)
            (ties if before else torn).append(tie)
    return AlgebraicLoop(parts, names, tuple(ties), tuple(torn))


def _element_connections(
    wiring: Wiring, parts: Mapping[str, WiredPart], names: Iterable[str]
) -> Iterator[tuple[ElementConnection, Node]]:
    """Yield the element connections to the parts `names`.

    Each item also contains the node of the input element in the dependency graph: a tuple
    (part, "input", port, index).
    """
    for name in names:
        for (a, y), (_, u), start, to, length in wiring.wires_to(name):
            source, target = parts[a].memory.where[y].start, parts[name].memory.where[u].start
            for k in range(length):
                tie = ElementConnection(name, target + to + k, a, source + start + k)
                yield tie, (name, "input", u, to + k)


class ContinuousSystem(PortsOfParts, Block):
    """Continuous block that combines the continuous blocks of a system.

        dx/dt = f(t, x, u)        with every connected input equal to its source at t

    Outputs are not held during a communication step. The block contains the states, outputs,
    unconnected inputs and parameters of the parts, with the names `part.port` or the names of
    `System.expose`. One integrator steps all states, so `method` and `h` of the parts have no
    effect. Newton's method solves algebraic loops (`AlgebraicLoop`). The block copies the system,
    so later changes of the system do not affect the block.

    If an output jumps at the end of a step, a method with a stage at this time reads the value
    after the jump. The order of accuracy of this step is then lower.

    Raises ValueError if a part is sampled or an FMU, or if an unconnected input has no start value.
    """

    def __init__(self, system: System | Wiring):
        self._parts = WiredParts(*wiring_and_exposure(system), loops=True)
        for name, part in self._parts.by_name.items():
            if part.memory.block.sample_time is not None or part.memory.block.sampled:
                raise ValueError(
                    f"cannot make the system continuous: '{name}' is sampled every "
                    f"{part.memory.block.sample_time} s; "
                    "use its continuous form, or FusedSystem(system, dt) for the sampled system"
                )

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """States of the parts."""
        return tuple(
            port
            for part in self._parts.by_name.values()
            for port in part.rename_ports(part.memory.block.states)
        )

    @cached_property
    def _output_names(self) -> frozenset[str]:
        return frozenset(port.name for port in self.outputs)

    @cached_property
    def _evaluation(self) -> tuple[str | AlgebraicLoop, ...]:
        """Parts and algebraic loops in the order of their evaluation."""
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
            values |= (
                _states(part, m, part.evaluator.project(m)) if part.evaluator.has_projection else {}
            )
        return values

    def switching_functions(self, t: Any, x: Record, u: Record, p: Record) -> Array:
        each = [part.evaluator.switching_functions(m) for part, m in self._evaluate(t, x, u, p)]
        return np.concatenate([np.zeros(0), *each])

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        values: dict[str, Any] = {}
        for part, m in self._evaluate(t, x, u, p):
            shown = [port for port in part.outputs if port.name in self._output_names]
            values |= values_of(part, shown, m)
        return values

    def _evaluate(
        self, t: Any, x: Record, u: Record, p: Record
    ) -> Iterator[tuple[WiredPart, Array]]:
        """Evaluate the system at the time t [s]; yield each part and its memory vector.

        The memory vectors contain the connected inputs and the outputs at t.
        """
        memories = self._parts.memories(t, x, u, p)
        for step in self._evaluation:
            names = (step,) if isinstance(step, str) else step.names
            read = {name: self._parts.read_inputs(name, memories) for name in names}
            if isinstance(step, str):
                memories[step] = put_outputs(self._parts.by_name[step].evaluator, read[step])
            else:
                memories = step.solve(memories | read)
        for name, part in self._parts.by_name.items():
            yield part, self._parts.read_inputs(name, memories)


def _states(part: WiredPart, m: Array, values: Array) -> Values:
    """Split the state vector `values` of a part; return each state by its name in the system."""
    m = m.copy()
    m[part.memory.x] = values
    return values_of(part, part.rename_ports(part.memory.block.states), m)


class SynchronousSystem(PortsOfParts, Block):
    """Sampled block that combines sampled blocks with one sample time and blocks without states.

        z[k] = update(t[k], z[k-1], u[k])      with every connected input equal to its source after
                                               the sample at t[k]

    For example, a sum and a `UnitDelay` in a loop form a counter of samples. The block contains the
    sampled states, outputs, unconnected inputs and parameters of the parts, with the names
    `part.port`.

    Raises:
        ValueError: A part is an FMU or a Python block, or has continuous states. No part has a
            sample time, or the sample times of the parts differ. The connections form an algebraic
            loop, in a step or at initialization. An unconnected input has no start value.
    """

    def __init__(self, system: System | Wiring):
        self._parts = WiredParts(*wiring_and_exposure(system))
        blocks = {name: part.memory.block for name, part in self._parts.by_name.items()}
        for name, block in blocks.items():
            if block.states:
                raise ValueError(
                    f"cannot make the system synchronous: '{name}' is continuous; all parts must "
                    "have the same sample time"
                )
        times = {block.sample_time for block in blocks.values()} - {None}
        if len(times) != 1:
            raise ValueError(
                f"cannot make the system synchronous: its parts have {len(times)} sample times; "
                "all parts must have the same sample time"
            )
        (self.sample_time,) = times
        check_start(self._parts.wiring, "; a synchronous system does not solve algebraic loops")

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled states of the parts."""
        parts = self._parts.by_name.values()
        return tuple(
            port for part in parts for port in part.rename_ports(part.memory.block.sampled)
        )

    def initial(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._sample("initial", self._parts.memories(t, x, u, p))

    def update(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._sample("update", self._parts.memories(t, x, u, p))

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        memories = self._evaluate(self._parts.memories(t, x, u, p))
        shown = {port.name for port in self.outputs}
        values: dict[str, Any] = {}
        for name, part in self._parts.by_name.items():
            seen = [port for port in part.outputs if port.name in shown]
            values |= values_of(part, seen, memories[name])
        return values

    def _evaluate(self, memories: Memories) -> Memories:
        """Evaluate the inputs and outputs of all parts, and return the memory vectors."""
        for name in self._parts.wiring.evaluation_order:
            part = self._parts.by_name[name]
            memories[name] = put_outputs(part.evaluator, self._parts.read_inputs(name, memories))
        return memories

    def _sample(self, function: str, before: Memories) -> Values:
        """Return the sampled states of the system after a sample, by fixed-point iteration.

        In each iteration, every part repeats its sample with the current outputs of the other
        parts. With n connections from later to earlier parts in the evaluation order, 1 + n
        iterations suffice, because the system has no algebraic loop.

        `function` is "initial" or "update", the block function that computes the sampled states.
        `before` contains the memory vectors before the sample.
        """
        memories = self._evaluate(dict(before))
        order = self._parts.wiring.evaluation_order
        for _ in range(1 + self._count_backward_wires(order)):
            for name in order:
                part = self._parts.by_name[name]
                z = part.memory.z
                m = assign(self._parts.read_inputs(name, memories), z, before[name][z])
                m = assign(m, z, getattr(part.evaluator, function)(m))
                memories[name] = put_outputs(part.evaluator, m)
        values: dict[str, Any] = {}
        for name, part in self._parts.by_name.items():
            values |= values_of(part, part.rename_ports(part.memory.block.sampled), memories[name])
        return values

    def _count_backward_wires(self, order: tuple[str, ...]) -> int:
        """Return the number of connections from a later to an earlier part in `order`."""
        wires = self._parts.wiring.wires
        return sum(order.index(a) >= order.index(b) for (a, _), (b, _), *_ in wires)


def merge_blocks(wiring: Wiring, form: str, transparent: bool) -> Wiring:
    """Merge the blocks of a wiring that are stepped as one block, and return the new wiring.

    If `transparent` is True, connected continuous blocks are merged, and the log lists these
    blocks. If `form` is "fused", the continuous blocks of each algebraic loop are merged. The
    sampled blocks of a loop are always merged (`merge_synchronous_blocks`).

    Raises:
        ValueError: `transparent` is True, but `form` is "fused" or no continuous blocks are
            connected. `form` is "fused", but an algebraic loop goes through a sampled part or a
            part that is not a block.
    """
    if transparent:
        if form == "fused":
            raise ValueError(
                "transparent=True is not supported for the form 'fused'; use the form compiled or "
                "numpy"
            )
        wiring, groups = merge_continuous_blocks(wiring)
        for group in groups:
            LOG.info(
                "these parts are integrated as one block, without a hold between them: %s",
                ", ".join(group),
            )
    if form == "fused":
        wiring = eliminate_algebraic_loops(wiring)
    return merge_synchronous_blocks(wiring)


def merge_continuous_blocks(wiring: Wiring) -> tuple[Wiring, tuple[tuple[str, ...], ...]]:
    """Replace each maximal group of connected continuous blocks by one part.

    The ports of this part have the names `part.port`. The methods of the original parts have no
    effect.

    Returns:
        The wiring, and the names of the parts in each group.

    Raises:
        ValueError: No two continuous blocks are connected.
    """
    groups = tuple(_connected_groups(wiring))
    if not groups:
        fit = ", ".join(name for name, part in wiring.parts.items() if _is_continuous(part))
        raise ValueError(
            "transparent=True needs two or more continuous blocks that are connected to each "
            f"other; the continuous blocks are: {fit or 'none'}"
        )
    return _replace_groups(wiring, groups, ContinuousSystem), groups


def eliminate_algebraic_loops(wiring: Wiring) -> Wiring:
    """Replace the blocks of each continuous algebraic loop by one part, which solves the loop.

    The ports retain their names. A wiring without loops is returned unchanged.

    Raises:
        ValueError: An algebraic loop goes through a sampled part or a part that is not a block.
    """
    if not wiring.algebraic_loops:
        return wiring
    groups: list[set[str]] = []
    for loop in wiring.algebraic_loops:
        names = {str(node[0]) for node in loop}
        near = [one for one in groups if one & names]
        groups = [one for one in groups if one not in near] + [names.union(*near)]
    if not all(_is_continuous(wiring.parts[name]) for group in groups for name in group):
        _ = wiring.evaluation_order  # raises ValueError with the ports of the loop
    return _replace_groups(
        wiring, tuple(tuple(sorted(group)) for group in groups), ContinuousSystem
    )


def merge_synchronous_blocks(wiring: Wiring) -> Wiring:
    """Replace the sampled blocks of each loop by one part, which samples the blocks simultaneously.

    The loops are the strongly connected components of the connection graph of the blocks without
    continuous states. All sampled blocks of a loop must have the same sample time. The ports retain
    their names. A wiring without loops is returned unchanged.

    If the blocks stepped separately, one block of the loop would read a value of the previous
    sample.
    """
    samplers = {name for name, part in wiring.parts.items() if _is_traceable_without_states(part)}
    reads: dict[str, set[str]] = {name: set() for name in samplers}
    for (a, _), (b, _), *_ in wiring.connections:
        if a in samplers and b in samplers:
            reads[b].add(a)
    groups = {
        tuple(sorted(c)) for c in components_by_node(reads).values() if _is_sampled(wiring, c)
    }
    groups = {c for c in groups if len(c) > 1 or c[0] in reads[c[0]]}
    if groups:  # SynchronousSystem does not solve algebraic loops
        algebraic = {str(node[0]) for loop in wiring.algebraic_loops for node in loop}
        groups = {c for c in groups if not algebraic & {*c}}
    return _replace_groups(wiring, tuple(sorted(groups)), SynchronousSystem) if groups else wiring


def _is_traceable_without_states(part: Part) -> bool:
    """Return True if a part is a traceable block without continuous states."""
    block = part.component
    return (
        isinstance(block, Block)
        and not isinstance(block, PythonBlock | BlockInC | Composite)
        and not block.states
    )


def _is_sampled(wiring: Wiring, group: frozenset[str]) -> bool:
    """Return True if a loop contains sampled parts, all with the same sample time.

    `group` contains the names of the parts in the loop.
    """
    blocks = [wiring.parts[name].component for name in group]
    return len({getattr(block, "sample_time", None) for block in blocks} - {None}) == 1


def _replace_groups(
    wiring: Wiring, groups: tuple[tuple[str, ...], ...], to_block: Callable[[Wiring], Block]
) -> Wiring:
    """Replace the parts of each group in `groups` by one block.

    The function `to_block` converts the wiring of a group to a block.

    Raises:
        ValueError: An unconnected input of a part has no start value.
    """
    _ = wiring.open_inputs
    owner = {name: " and ".join(group) for group in groups for name in group}
    parts = {name: part for name, part in wiring.parts.items() if name not in owner}
    for group in groups:
        parts[owner[group[0]]] = _merged_part(wiring, group, to_block)
    connections = [
        moved
        for one in wiring.connections
        for moved in _redirect_connection(one, owner, parts, wiring)
    ]
    names = frozenset(owner.values())
    return Wiring(parts, tuple(connections), names | wiring.merged)


def _connected_groups(wiring: Wiring) -> Iterator[tuple[str, ...]]:
    """Yield each maximal group of two or more connected continuous parts."""
    near: dict[str, set[str]] = {
        name: set() for name, part in sorted(wiring.parts.items()) if _is_continuous(part)
    }
    for (a, _), (b, _), *_ in wiring.connections:
        if a in near and b in near and a != b:
            near[a].add(b)
            near[b].add(a)
    for component in strong_components(near):
        if len(component) > 1:
            yield tuple(sorted(component))


def _is_continuous(part: Part) -> bool:
    component = part.component
    return (
        isinstance(component, Block)
        and not isinstance(component, PythonBlock | BlockInC | Composite)
        and component.sample_time is None
        and not component.sampled
    )


def _merged_part(
    wiring: Wiring, group: tuple[str, ...], to_block: Callable[[Wiring], Block]
) -> Part:
    """Return the part that replaces a group of parts.

    The function `to_block` converts the wiring of the group to a block.
    """
    parts = {name: wiring.parts[name] for name in group}
    for name, part in parts.items():
        if part.dt is not None:
            others = ", ".join(sorted({*group} - {name}))
            raise ValueError(
                f"'{name}' has its own communication step, dt={part.dt:g}, and cannot become one "
                f"block with {others}; leave out dt"
            )
    for one in wiring.connections:
        (a, _), (b, u) = one.source, one.target
        if b in parts and a not in parts and (port := parts[b].input(u)).start is None:
            parts[b] = replace(parts[b], start={u: port.clip(0.0), **parts[b].start})
    within = [one for one in wiring.connections if {one.source[0], one.target[0]} <= {*parts}]
    system = Wiring(parts, tuple(within), wiring.merged & {*parts})
    component, pairs = component_of(to_block(system))
    return Part(" and ".join(group), component, pairs)


def _redirect_connection(
    connection: Connection, owner: Mapping[str, str], parts: Mapping[str, Part], wiring: Wiring
) -> Iterator[Connection]:
    """Yield the connections that replace a connection after parts have been merged.

    A connection within a merged part is omitted. If a merged part has a separate port for each
    element of an input, the connection is split. `owner` maps the original parts to merged parts,
    and `parts` contains the merged parts.
    """
    (a, y), (b, u) = connection.source, connection.target
    if a in owner and owner.get(b) == owner[a]:
        return
    source: PartPort = (owner[a], wiring.whole_name(a, y)) if a in owner else connection.source
    if b not in owner:
        yield connection._replace(source=source)
        return
    known = {port.name for port in parts[owner[b]].component.inputs}
    if (whole := wiring.whole_name(b, u)) in known:
        yield connection._replace(source=source, target=(owner[b], whole))
        return
    names = wiring.parts[b].input(u).element_names
    for start, to in zip(connection.start, connection.to, strict=True):
        target = (owner[b], wiring.whole_name(b, names[to]))
        yield Connection(source, target, (start,), (0,), connection.names)
