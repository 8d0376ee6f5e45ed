"""Blocks that step other blocks in their sample update, each on its own memory."""

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rigidblocks.block.adaptive_methods import Method
from rigidblocks.block.block import Block
from rigidblocks.block.memory_layout import Memory
from rigidblocks.spatial.spatial import Array


class Copy(NamedTuple):
    """Copy of `length` elements: from index `start` of one vector to index `to` of another."""

    to: int
    start: int
    length: int


@dataclass(frozen=True, eq=False)
class InnerBlock:
    """Block that another block steps in its sample update.

    Attributes:
        name: Name.
        memory: Memory layout.
        method: Integration method.
        h: Largest inner step [s].
        constants: Start values of the memory.
        reads: Copies from the memory of the outer block.
        wires: Copies from the memories of other inner blocks, by the index of the inner block.
        leaves: Copies to the sampled states of the outer block.
    """

    name: str
    memory: Memory
    method: Method
    h: float
    constants: Array
    reads: tuple[Copy, ...]
    wires: tuple[tuple[int, Copy], ...]
    leaves: tuple[Copy, ...]


class Composite(Block):
    """Block that steps other blocks in its sample update.

    The steps of the inner blocks need not be traceable. For example, adaptive steps cannot be
    traced, because their number is not known in advance.
    """

    @abc.abstractmethod
    def inner_blocks(self, memory: Memory) -> Sequence[InnerBlock]:
        """Return the inner blocks in step order; empty if `update` is traceable.

        Args:
            memory: Memory of this block.
        """

    @abc.abstractmethod
    def starting_order(self, memory: Memory) -> Sequence[int]:
        """Return inner block indices in initialization order; empty if `initial` is traceable."""

    @property
    @abc.abstractmethod
    def simultaneous(self) -> bool:
        """True if all inner blocks read their inputs before the first inner block steps."""

    @abc.abstractmethod
    def by_graphs(self) -> Block:
        """Return this block with inner blocks that evaluate their functions as numeric graphs.

        The returned block is much faster. Its results differ from the results of this block only by
        rounding errors.
        """

    @abc.abstractmethod
    def by_fixed_steps(self) -> Block:
        """Return this block with traceable RK4 steps instead of adaptive steps.

        The returned block has no step memory.
        """

    @abc.abstractmethod
    def structure(self) -> Block:
        """Return a traceable block with the same ports and dependencies, for analysis only.

        Its values have no meaning.
        """


def copies(pairs: Iterable[tuple[slice, slice]]) -> tuple[Copy, ...]:
    """Return the copies for pairs of slices (to, from) of equal lengths; merge adjacent copies."""
    joined: list[Copy] = []
    for to, start in pairs:
        length = to.stop - to.start
        last = joined[-1] if joined else None
        if last and (last.to + last.length, last.start + last.length) == (to.start, start.start):
            joined[-1] = Copy(last.to, last.start, last.length + length)
        elif length:
            joined.append(Copy(to.start, start.start, length))
    return tuple(joined)


def total(m: Array) -> Array:
    """Return the sum of all elements of m, a value that depends on each of them."""
    return np.asarray(np.sum(m))
