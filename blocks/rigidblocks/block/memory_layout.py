"""Layout of the memory vector of a block, which its NumPy, C and traced implementations share.

    [t | continuous states | sampled states | inputs | tunable parameters | outputs | steps]

NumPy functions and the compiled kernel read and write this vector. A value reference of an FMU is
an index of the vector. The vector contains all data that one step passes to the next. The last
segment is the step memory of an adaptive method, for example with the next step size.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.block import Block, Port, Record, computed_outputs, record, weighted_sum
from rigidblocks.spatial.spatial import Array


class IndexedRelation(NamedTuple):
    """Start relation in terms of elements of the memory vector m.

        m[state] = factor (sum_k weight_k m[k] + offset)

    `terms` contains the pairs (k, weight_k). The factor is m[factor_index], or `constant` if
    `factor_index` is None.
    """

    state: int
    factor_index: int | None
    constant: float
    terms: tuple[tuple[int, float], ...]
    offset: float

    @property
    def source_indices(self) -> tuple[int, ...]:
        """Indices of the memory elements on which the start value depends."""
        factor = () if self.factor_index is None else (self.factor_index,)
        return (*factor, *(k for k, _ in self.terms))

    def value(self, m: Array) -> float:
        """Return the start value of the state from the memory vector m."""
        factor = self.constant if self.factor_index is None else m[self.factor_index]
        value = weighted_sum((weight, m[k]) for k, weight in self.terms)
        return float(factor * (value + self.offset if self.offset else value))


@dataclass(frozen=True, eq=False)
class Memory:
    """Layout of the memory vector of a block.

    Args:
        block: Block.
        tunable: Names of the parameters in the memory vector; None: all parameters. All other
            parameters are constants.
        steps: Ports of the integrator's step memory (`memory_for`).

    Raises:
        ValueError: A name in `tunable` is not a parameter.
    """

    block: Block
    tunable: tuple[str, ...] | None = None
    steps: tuple[Port, ...] = ()

    def __post_init__(self) -> None:
        known = [port.name for port in self.block.parameters]
        if unknown := sorted(set(self.tunable or ()) - set(known)):
            raise ValueError(
                f"{self.name} has no parameter {unknown}; it has: {', '.join(known) or 'none'}"
            )

    @property
    def name(self) -> str:
        """Class name of the block, for messages."""
        return type(self.block).__name__

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Ports of the tunable parameters."""
        chosen = self.block.parameters
        return (
            chosen
            if self.tunable is None
            else tuple(port for port in chosen if port.name in self.tunable)
        )

    @cached_property
    def _segments(self) -> tuple[tuple[Port, ...], ...]:
        block = self.block
        outputs = computed_outputs(block)
        return block.states, block.sampled, block.inputs, self.parameters, outputs, self.steps

    @cached_property
    def _slices(self) -> tuple[slice, ...]:
        ends = np.cumsum(
            [1, *(sum(port.size for port in ports) for ports in self._segments)]
        ).tolist()
        return tuple(slice(a, b) for a, b in itertools.pairwise(ends))

    @property
    def x(self) -> slice:
        """Slice of the continuous states in the memory vector."""
        return self._slices[0]

    @property
    def z(self) -> slice:
        """Slice of the sampled states in the memory vector."""
        return self._slices[1]

    @property
    def u(self) -> slice:
        """Slice of the inputs in the memory vector."""
        return self._slices[2]

    @property
    def p(self) -> slice:
        """Slice of the tunable parameters in the memory vector."""
        return self._slices[3]

    @property
    def y(self) -> slice:
        """Slice of the computed outputs in the memory vector, without outputs that are states."""
        return self._slices[4]

    @property
    def s(self) -> slice:
        """Slice of the step memory of an adaptive method in the memory vector."""
        return self._slices[5]

    @property
    def size(self) -> int:
        """Number of elements of the memory vector."""
        return int(self.s.stop)

    @cached_property
    def where(self) -> dict[str, slice]:
        """Slice of each port in the memory vector, by port name."""
        places, k = {}, 1
        for ports in self._segments:
            for port in ports:
                places[port.name] = slice(k, k + port.size)
                k += port.size
        return places

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """Ports in the order of their segments in the memory vector, which follow the time."""
        return tuple(port for ports in self._segments for port in ports)

    @cached_property
    def position(self) -> Array:
        """Mask (n,) of the positions: continuous states whose derivative is another state."""
        return np.repeat(
            [port.rate is not None for port in self.block.states],
            [port.size for port in self.block.states],
        )

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bound of each element of the memory vector, as two vectors."""
        low, high = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        for port in self.ports:
            where = self.where[port.name]
            low[where], high[where] = np.ravel(port.lowest), np.ravel(port.max)
        return low, high

    def start(self) -> Array:
        """Return a new memory vector with the start values of all ports.

        An element without a start value is zero or, if its bounds exclude zero, the bound that is
        nearer to zero.
        """
        return self._start.copy()

    @cached_property
    def _start(self) -> Array:
        memory = np.zeros(self.size)
        for port in self.ports:
            memory[self.where[port.name]] = np.ravel(
                port.clip(0.0) if port.start is None else port.start
            )
        return memory

    @cached_property
    def start_relations(self) -> tuple["IndexedRelation", ...]:
        """Start relations of the block, with indices of the memory vector.

        A relation is included only if the start values of the ports satisfy it.
        """
        constants = {port.name: port.start for port in self.block.parameters}
        found, start = [], self._start
        for state, factor, terms, offset in self.block.start_relations:
            indices = tuple((self.where[name].start + k, weight) for name, k, weight in terms)
            factor_index: int | None = None
            if isinstance(factor, str) and factor in self.where:
                factor_index = self.where[factor].start
                value = float(start[factor_index])
            else:
                value = float(constants[factor] if isinstance(factor, str) else factor)
            index = self.where[state].start
            relation = IndexedRelation(index, factor_index, value, indices, offset)
            expected = float(start[index])
            if abs(relation.value(start) - expected) <= 1e-12 * max(1.0, abs(expected)):
                found.append(relation)
        return tuple(found)

    def set_dependent_start_values(self, m: Array) -> None:
        """Set the start values in m that are computed from other start values.

        `Block.start_relations` defines these start values. The function sets only elements that
        still have the start value of their port.
        """
        for relation in self.start_relations:
            if m[relation.state] == self._start[relation.state]:
                m[relation.state] = relation.value(m)

    def records(self, m: Array) -> tuple[Any, Record, Record, Record]:
        """Return the arguments t, x, u and p of the block's functions for the memory vector m.

        t is the time [s]. x, u and p are records of the states, inputs and parameters.
        """
        return m[0], self.argument("x", m), self.argument("u", m), self.argument("p", m)

    def argument(self, name: str, m: Array) -> Any:
        """Return the argument `name` (t, x, u or p) of the block's functions from the vector m."""
        owner = f"block '{self.name}'"
        match name:
            case "t":
                return m[0]
            case "x":
                states = (*self.block.states, *self.block.sampled)
                return record(states, m[self.x.start : self.z.stop], "state", owner)
            case "u":
                return record(self.block.inputs, m[self.u], "input", owner)
            case _:
                tunable = vars(record(self.parameters, m[self.p]))
                return Record({**self._constants, **tunable}, "parameter", owner)

    @cached_property
    def _constants(self) -> dict[str, Any]:
        return {port.name: port.start for port in self.block.parameters}


def assign(m: Array, where: slice | int, values: Any) -> Array:
    """Return a copy of the memory vector m with new values at the index or slice `where`."""
    copy = m.astype(object) if np.asarray(values).dtype == object else m.copy()
    copy[where] = values
    return copy
