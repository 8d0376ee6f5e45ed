"""Blocks that step inner blocks in their sample update; each inner block has its own memory."""

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
    """Operation that copies consecutive elements of one vector to another vector.

    Attributes:
        to: Index of the first element in the target vector.
        start: Index of the first element in the source vector.
        length: Number of elements.
    """

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
        start_memory: Memory vector with the start values.
        reads: Copy operations from the memory of the outer block to the memory of this block.
        connections: Pairs (index of a source block, copy operation from the memory of the source
            block to the memory of this block). The index refers to `Composite.inner_blocks`.
        writes: Copy operations from the memory of this block to the sampled states of the outer
            block.
    """

    name: str
    memory: Memory
    method: Method
    h: float
    start_memory: Array
    reads: tuple[Copy, ...]
    connections: tuple[tuple[int, Copy], ...]
    writes: tuple[Copy, ...]


class Composite(Block):
    """Block that steps other blocks in its sample update.

    The steps of the inner blocks need not be traceable. For example, adaptive steps cannot be
    traced, because the number of steps depends on values.
    """

    @abc.abstractmethod
    def inner_blocks(self, memory: Memory) -> Sequence[InnerBlock]:
        """Return the inner blocks in the order of their steps, or () if `update` is traceable.

        `memory` is the memory layout of the outer block.
        """

    @abc.abstractmethod
    def starting_order(self, memory: Memory) -> Sequence[int]:
        """Return the indices of the inner blocks in initialization order.

        The result is () if `initial` is traceable. `memory` is the layout of the outer block.
        """

    @property
    @abc.abstractmethod
    def simultaneous(self) -> bool:
        """True if all inner blocks read their inputs before any inner block steps."""

    @abc.abstractmethod
    def traced_copy(self) -> Block:
        """Return a copy of this block whose inner blocks evaluate traced functions (graphs).

        Steps of the copy are much faster than steps of this block. The results differ only by
        rounding errors.
        """

    @abc.abstractmethod
    def fixed_step_copy(self) -> Block:
        """Return a copy of this block with traceable RK4 steps instead of adaptive steps.

        The memory vector of the copy contains no step size and no error estimate.
        """

    @abc.abstractmethod
    def structure(self) -> Block:
        """Return a traceable block that represents this block in the dependency analysis.

        The traceable block has the ports and the dependencies of this block. Its output values have
        no meaning.
        """


def copies(pairs: Iterable[tuple[slice, slice]]) -> tuple[Copy, ...]:
    """Return the copy operations for pairs of a target slice and a source slice.

    The slices of a pair have equal lengths. Adjacent copies are merged.
    """
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
    """Return the sum of all elements of m.

    In a dependency analysis, the result depends on every element.
    """
    return np.asarray(np.sum(m))
