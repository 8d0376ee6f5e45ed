"""The layout of one flat vector, the memory of a block that all its forms share.

    [t | continuous states | sampled states | inputs | tunable parameters | outputs | steps]

NumPy runs on this vector, the compiled kernel runs on it, and in an FMU a value reference is an
index into it. Nothing is remembered from step to step but what is in it; so what an adaptive
integrator remembers, such as the length of its next step, is its last segment.
"""

import itertools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Record, computed_outputs, record


@dataclass(frozen=True, eq=False)
class Memory:
    """The layout of the flat memory of `block`, with the parameters named in `tunable` in it, all
    by default.

    The other parameters are constants. `steps` are ports for what the integrator remembers
    (`memory_for`). Raises ValueError for a name in `tunable` that is no parameter.
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
        """The block's type, for messages."""
        return type(self.block).__name__

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """The tunable parameters."""
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
        """Where the continuous states are."""
        return self._slices[0]

    @property
    def z(self) -> slice:
        """Where the sampled states are."""
        return self._slices[1]

    @property
    def u(self) -> slice:
        """Where the inputs are."""
        return self._slices[2]

    @property
    def p(self) -> slice:
        """Where the tunable parameters are."""
        return self._slices[3]

    @property
    def y(self) -> slice:
        """Where the computed outputs are."""
        return self._slices[4]

    @property
    def s(self) -> slice:
        """Where what the integrator remembers is."""
        return self._slices[5]

    @property
    def size(self) -> int:
        """The length of the memory."""
        return int(self.s.stop)

    @cached_property
    def where(self) -> dict[str, slice]:
        """Where each port is, by name."""
        places, k = {}, 1
        for ports in self._segments:
            for port in ports:
                places[port.name] = slice(k, k + port.size)
                k += port.size
        return places

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """All ports in the order of the memory, which starts with the time."""
        return tuple(port for ports in self._segments for port in ports)

    @cached_property
    def position(self) -> Array:
        """Which continuous states are positions: their rate is another state."""
        return np.repeat(
            [port.rate is not None for port in self.block.states],
            [port.size for port in self.block.states],
        )

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """The smallest and the largest values of each element."""
        low, high = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        for port in self.ports:
            where = self.where[port.name]
            low[where], high[where] = np.ravel(port.lowest), np.ravel(port.max)
        return low, high

    def start(self) -> Array:
        """A new memory with the start values; what has none starts at zero, or as near to it as its
        bounds let it.
        """
        return self._start.copy()

    @cached_property
    def _start(self) -> Array:
        memory = np.zeros(self.size)
        for port in self.ports:
            memory[self.where[port.name]] = np.ravel(
                port.within(0.0) if port.start is None else port.start
            )
        return memory

    def records(self, m: Array) -> tuple[Any, Record, Record, Record]:
        """What the block's functions get of m: the time and the records x, u and p."""
        return m[0], self.argument("x", m), self.argument("u", m), self.argument("p", m)

    def argument(self, name: str, m: Array) -> Any:
        """What a function of the block gets of m as its argument t, x, u or p."""
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


def put(m: Array, where: slice | int, values: Any) -> Array:
    """A copy of m with other values somewhere."""
    copy = m.astype(object) if np.asarray(values).dtype == object else m.copy()
    copy[where] = values
    return copy
