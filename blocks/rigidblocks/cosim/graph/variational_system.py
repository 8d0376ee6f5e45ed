"""Sensitivities: exact derivatives of simulated outputs with respect to start values.

In the extended system, each part also contains its variational equations; the derivatives are
additional outputs.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values, call, computed_outputs
from rigidblocks.block.external_functions import BlockInC, PythonBlock
from rigidblocks.block.memory_layout import Memory
from rigidblocks.block.nested_blocks import Composite
from rigidblocks.cosim.graph.system import System
from rigidblocks.cosim.graph.wiring import Connection, Wiring
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.trace import Graph, directional

SUFFIX = ".sensitivity"  # suffix of the name of a port with derivatives


class StartElement(NamedTuple):
    """Port element whose start value is a variable of differentiation.

    `port` is an input, state or parameter of `part`, and `place` is the index of the element in C
    order.
    """

    part: str
    port: str
    place: int


@dataclass(frozen=True, eq=False)
class Sensitivities(Block):
    """Block with its variational equations.

    The equations give the exact derivatives x_s, u_s, p_s and y_s of the states, inputs, parameters
    and outputs with respect to n start values z:

        dx_s/dt = f_x x_s + f_u u_s + f_p p_s,    y_s = g_x x_s + g_u u_s + g_p p_s

    The equations of the block are dx/dt = f(t, x, u, p) and y = g(t, x, u, p), with the states x,
    inputs u, parameters p and outputs y. A subscript x, u or p of f and g denotes the Jacobian with
    respect to x, u or p. The discrete-time equations of sampled states have the same form. If a
    Runge-Kutta method integrates the block and the variational equations with the same steps, the
    result is the exact derivative of the numerical solution.

    For each input, state and output, this block has a second port `port.sensitivity` (size, n).
    `size` is the number of elements of the port.

    Attributes:
        block: Block to differentiate.
        n: Number of start values z.
        kept: Names of the outputs of `block` that are also outputs of this block.
        seeds: Initial derivatives of states, parameters and inputs by port name, 0 by default.
    """

    block: Block
    n: int
    kept: tuple[str, ...]
    seeds: Mapping[str, Array] = field(default_factory=dict)

    @property
    def sample_time(self) -> float | None:  # type: ignore[override]
        """Sample time of the block [s]."""
        return self.block.sample_time

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs of the block, and their derivatives with respect to the start values z."""
        return self._add_derivatives(self.block.inputs)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs in `kept`, and their derivatives with respect to the start values z."""
        return self._add_derivatives(port for port in self.block.outputs if port.name in self.kept)

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """States of the block, and their derivatives with respect to the start values z."""
        return self._add_derivatives(self.block.states)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled states of the block, and their derivatives with respect to the start values z."""
        return self._add_derivatives(self.block.sampled)

    @property
    def parameters(self) -> tuple[Port, ...]:
        """Parameters of the block."""
        return self.block.parameters

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._values_and_derivatives("derivative", self.block.states, t, x, u, p)

    def project(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        if not self._evaluator.has_projection:
            return {}
        return self._values_and_derivatives("project", self.block.states, t, x, u, p)

    def switching_functions(self, t: Any, x: Record, u: Record, p: Record) -> Any:
        return call(self.block, "switching_functions", t, x, u, p)

    def initial(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._values_and_derivatives("initial", self.block.sampled, t, x, u, p)

    def update(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._values_and_derivatives("update", self.block.sampled, t, x, u, p)

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        ports = computed_outputs(self.block)
        values = self._values_and_derivatives("output", ports, t, x, u, p)
        names = {port.name for port in ports if port.name in self.kept}
        return {key: v for key, v in values.items() if key.removesuffix(SUFFIX) in names}

    def _add_derivatives(self, ports: Iterable[Port]) -> tuple[Port, ...]:
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

    def _values_and_derivatives(
        self, name: str, ports: tuple[Port, ...], t: Any, x: Record, u: Record, p: Record
    ) -> Values:
        """Evaluate a block function; return its results and their derivatives with respect to z."""
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
        """Return the vector m of the time t and all port values, and its derivative dm/dz.

        m (size,) is the memory vector of the block, and dm/dz has the shape (size, n). `given` maps
        port names to values, and port names with the suffix `SUFFIX` to derivatives.
        """
        kind = object if any(np.asarray(v).dtype == object for v in (t, *given.values())) else float
        m = np.zeros(self._memory.size, dtype=kind)
        V = np.zeros((self._memory.size, self.n), dtype=kind)
        m[0] = t
        for name, where in self._memory.where.items():
            if name in given:
                m[where] = np.ravel(given[name])
                V[where] = given.get(name + SUFFIX, self.seeds.get(name, 0.0))
        return m, V


def add_sensitivities(
    wiring: Wiring, start_elements: Iterable[StartElement], outputs: Iterable[str]
) -> System:
    """Return a system that also computes derivatives of its outputs with respect to start values.

    Each output that depends on these start values has a second output `part.port.sensitivity`.

    Args:
        wiring: Wiring of the system.
        start_elements: Start values with respect to which the outputs are differentiated.
        outputs: Names `part.port` of the outputs to differentiate.

    Raises:
        ValueError: A part on a path from the start values to the outputs is not differentiable.
    """
    start_elements = tuple(start_elements)
    reached = _dependent_parts(wiring, {one.part for one in start_elements})
    read = {one.source for one in wiring.connections}
    read |= {(part, port) for part, _, port in (name.partition(".") for name in outputs)}
    system = System()
    for name, part in wiring.parts.items():
        block: Any = part.component
        if name in reached:
            _refuse(name, block)
            kept = tuple(port.name for port in block.outputs if (name, port.name) in read)
            block = Sensitivities(
                block, len(start_elements), kept, _seeds(block, name, start_elements)
            )
        system.add(name, block, start=part.start, method=part.method, h=part.h, dt=part.dt)
    for one in wiring.connections:
        system.connect(*one.names)
        if one.source[0] in reached:
            _connect_derivatives(system, one)
    return system


def _dependent_parts(wiring: Wiring, parts: set[str]) -> set[str]:
    """Return the names of the given parts and of all parts downstream of them."""
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
        raise ValueError(f"'{name}' cannot be differentiated: it is not a block that can be traced")


def _seeds(block: Block, name: str, start_elements: tuple[StartElement, ...]) -> dict[str, Array]:
    """Return the initial derivatives of the block `name` with respect to z, by port name.

    z are the start values of `start_elements`. The derivative of a start value with respect to
    itself is 1; all other derivatives are 0.
    """
    groups = (block.inputs, block.states, block.sampled, block.parameters)
    sizes = {port.name: port.size for ports in groups for port in ports}
    seeds: dict[str, Array] = {}
    for k, one in enumerate(start_elements):
        if one.part == name:
            seeds.setdefault(one.port, np.zeros((sizes[one.port], len(start_elements))))[
                one.place, k
            ] = 1
    return seeds


def _connect_derivatives(system: System, connection: Connection) -> None:
    """Connect the derivatives of two ports in the same way as the ports themselves."""
    (a, y), (b, u) = connection.source, connection.target
    source, target = f"{a}.{y}{SUFFIX}", f"{b}.{u}{SUFFIX}"
    for i, j in zip(connection.start, connection.to, strict=True):
        system.connect(f"{source}[{i + 1},:]", f"{target}[{j + 1},:]")
