"""Blocks whose sample is the steps of other blocks, each on a memory of its own."""

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import Method
from rigidblocks.block.block import Block
from rigidblocks.block.memory import Memory


class Copy(NamedTuple):
    """`length` elements from the place `start` of a vector to the place `to` of another."""

    to: int
    start: int
    length: int


@dataclass(frozen=True, eq=False)
class InnerBlock:
    """A block that steps inside another one.

    Its memory starts as `constants`, with `reads` from the memory of the outer block. `wires` are
    from the memories of other inner blocks, by their number, and `leaves` to the outer block's
    sampled states.
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
    """A block whose sample is the steps of other blocks, which need not be traceable: how many
    inner steps an adaptive method takes is not known before.
    """

    @abc.abstractmethod
    def inner_blocks(self, memory: Memory) -> Sequence[InnerBlock]:
        """The inner blocks in the order of their steps, for a memory of this block; none where
        `update` can be traced.
        """

    @abc.abstractmethod
    def starting_order(self, memory: Memory) -> Sequence[int]:
        """The numbers of the inner blocks in the order in which they start; none where `initial`
        can be traced.
        """

    @property
    @abc.abstractmethod
    def simultaneous(self) -> bool:
        """Whether all inner blocks read what the others were before any of them steps."""

    @abc.abstractmethod
    def by_graphs(self) -> Block:
        """The same block, whose inner blocks run the graphs of their functions on numbers: much
        faster, and the same numbers but for rounding.
        """

    @abc.abstractmethod
    def by_fixed_steps(self) -> Block:
        """The same block with steps of RK4 instead of those that inner blocks choose, which can be
        traced; it remembers no steps.
        """

    @abc.abstractmethod
    def structure(self) -> Block:
        """A block with the same ports that can be traced, and in which everything depends on what
        it depends on here; its values mean nothing.
        """


def copies(pairs: Iterable[tuple[slice, slice]]) -> tuple[Copy, ...]:
    """The copies (to, from) of equal lengths, those next to each other as one."""
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
    """Something that depends on every element of m."""
    return np.asarray(np.sum(m))
