"""Exact derivatives of a run by numbers that it starts with: a system of the same parts, each with
the variational equations of its own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Record, Values, call, computed_outputs
from rigidblocks.block.composite import Composite
from rigidblocks.block.memory import Memory
from rigidblocks.block.python_block import PythonBlock
from rigidblocks.block.written import BlockInC
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.system.system import System
from rigidblocks.system.wiring import Connection, Wiring
from rigidblocks.tracing.differentiate import directional
from rigidblocks.tracing.trace import Graph

SUFFIX = ".sensitivity"  # of the name of what is the derivative of a port


class Number(NamedTuple):
    """One number that a run starts with: an element of an input, a state or a parameter of a
    part.
    """

    part: str
    port: str
    place: int


@dataclass(frozen=True, eq=False)
class Sensitivities(Block):
    """A block with the exact derivatives s = d/dz of its states and outputs by n numbers z, its
    variational equations:

        dx_s/dt = f_x x_s + f_u u_s + f_p p_s,    y_s = g_x x_s + g_u u_s + g_p p_s

    and the same of what is sampled. A Runge-Kutta method with the same steps takes these exactly
    along the derivative of its own solution. Beside each port there is one called
    `port.sensitivity` (size, n). `seeds` has the derivatives that states, parameters and inputs
    start with, zero where there are none; `kept` names the outputs that it has.
    """

    block: Block
    n: int
    kept: tuple[str, ...]
    seeds: Mapping[str, Array] = field(default_factory=dict)

    @property
    def sample_time(self) -> float | None:  # type: ignore[override]
        """That of the block."""
        return self.block.sample_time

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Those of the block, and their derivatives."""
        return self._with(self.block.inputs)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Those that are kept, and their derivatives."""
        return self._with(port for port in self.block.outputs if port.name in self.kept)

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """Those of the block, and their derivatives."""
        return self._with(self.block.states)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Those of the block, and their derivatives."""
        return self._with(self.block.sampled)

    @property
    def parameters(self) -> tuple[Port, ...]:
        """Those of the block."""
        return self.block.parameters

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._both("derivative", self.block.states, t, x, u, p)

    def project(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        if not self._evaluator.projects:
            return {}
        return self._both("project", self.block.states, t, x, u, p)

    def margins(self, t: Any, x: Record, u: Record, p: Record) -> Any:
        return call(self.block, "margins", t, x, u, p)

    def initial(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._both("initial", self.block.sampled, t, x, u, p)

    def update(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._both("update", self.block.sampled, t, x, u, p)

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        ports = computed_outputs(self.block)
        values = self._both("output", ports, t, x, u, p)
        names = {port.name for port in ports if port.name in self.kept}
        return {key: v for key, v in values.items() if key.removesuffix(SUFFIX) in names}

    def _with(self, ports: Iterable[Port]) -> tuple[Port, ...]:
        ports = tuple(ports)
        return (*ports, *(self._derivative_of(port) for port in ports))

    def _derivative_of(self, port: Port) -> Port:
        rates = {other.name: other.size for other in self.block.states}
        follows = port.rate is not None and rates[port.rate] == port.size
        seed = self.seeds.get(port.name, 0.0)
        rate = f"{port.rate}{SUFFIX}" if follows else None
        doc = f"derivatives of {port.name}"
        return Port(port.name + SUFFIX, (port.size, self.n), "", doc, seed, rate=rate)

    @cached_property
    def _memory(self) -> Memory:
        return Memory(self.block)

    @cached_property
    def _evaluator(self) -> TracedEvaluator:
        return TracedEvaluator(self._memory)

    @cached_property
    def _tangents(self) -> dict[str, Graph]:
        return {}

    def _both(
        self, name: str, ports: tuple[Port, ...], t: Any, x: Record, u: Record, p: Record
    ) -> Values:
        """The values of a function of the block and their derivatives, by name."""
        if not ports:
            return {}
        if name not in self._tangents:
            self._tangents[name] = directional(self._evaluator.graph(name), self.n)
        m, V = self._point(t, {**vars(x), **vars(u), **vars(p)})
        values = self._evaluator.graph(name)(m)
        changes = self._tangents[name](np.concatenate([m, V.ravel()])).reshape(-1, self.n)
        both, k = {}, 0
        for port in ports:
            own = values[k : k + port.size]
            both[port.name] = own.reshape(port.shape) if port.shape else own[0]
            both[port.name + SUFFIX] = changes[k : k + port.size]
            k += port.size
        return both

    def _point(self, t: Any, given: Values) -> tuple[Array, Array]:
        """The memory of the block, and its derivatives (size, n)."""
        kind = object if any(np.asarray(v).dtype == object for v in (t, *given.values())) else float
        m = np.zeros(self._memory.size, dtype=kind)
        V = np.zeros((self._memory.size, self.n), dtype=kind)
        m[0] = t
        for name, where in self._memory.where.items():
            if name in given:
                m[where] = np.ravel(given[name])
                V[where] = given.get(name + SUFFIX, self.seeds.get(name, 0.0))
        return m, V


def sensitive(wiring: Wiring, numbers: Iterable[Number], outputs: Iterable[str]) -> System:
    """The system with the derivatives of some outputs `part.port` by these numbers: beside each of
    them there is `part.port.sensitivity`, or none where it does not depend on them.

    Raises ValueError for a part on the way that cannot be differentiated.
    """
    numbers = tuple(numbers)
    reached = _reached(wiring, {one.part for one in numbers})
    read = {one.source for one in wiring.connections}
    read |= {(part, port) for part, _, port in (name.partition(".") for name in outputs)}
    system = System()
    for name, part in wiring.parts.items():
        block: Any = part.component
        if name in reached:
            _refuse(name, block)
            kept = tuple(port.name for port in block.outputs if (name, port.name) in read)
            block = Sensitivities(block, len(numbers), kept, _seeds(block, name, numbers))
        system.add(name, block, start=part.start, method=part.method, h=part.h)
    for one in wiring.connections:
        system.connect(*one.names)
        if one.source[0] in reached:
            _connect(system, one)
    return system


def _reached(wiring: Wiring, parts: set[str]) -> set[str]:
    """The parts, and all that read of them."""
    found, more = set(parts), list(parts)
    while more:
        name = more.pop()
        new = {one.target[0] for one in wiring.connections if one.source[0] == name} - found
        found |= new
        more += new
    return found


def _refuse(name: str, block: Any) -> None:
    traced = isinstance(block, Block) and not isinstance(block, PythonBlock | BlockInC)
    if not traced or (isinstance(block, Composite) and block.inner_blocks(Memory(block))):
        raise ValueError(f"'{name}' cannot be differentiated: it is no block that can be traced")


def _seeds(block: Block, name: str, numbers: tuple[Number, ...]) -> dict[str, Array]:
    """The derivatives of what a block starts with, by the names of its ports."""
    groups = (block.inputs, block.states, block.sampled, block.parameters)
    sizes = {port.name: port.size for ports in groups for port in ports}
    seeds: dict[str, Array] = {}
    for k, one in enumerate(numbers):
        if one.part == name:
            seeds.setdefault(one.port, np.zeros((sizes[one.port], len(numbers))))[one.place, k] = 1
    return seeds


def _connect(system: System, one: Connection) -> None:
    """Connects the derivatives of what a connection carries."""
    (a, y), (b, u) = one.source, one.target
    source, target = f"{a}.{y}{SUFFIX}", f"{b}.{u}{SUFFIX}"
    for i, j in zip(one.start, one.to, strict=True):
        system.connect(f"{source}[{i + 1},:]", f"{target}[{j + 1},:]")
