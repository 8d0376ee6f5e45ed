"""Continuous blocks between whose traced functions one in C stands."""

import abc
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import is_traced
from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port
from rigidblocks.block.record import Record, Values
from rigidblocks.block.written import BlockInC, address, library

STAGED = ("derivative", "margins", "output")  # what a stage stands in


class StagedBlock(BlockInC):
    """A block without samples whose rates, margins and outputs go through a function in C.

        w = NAME(before(x, u, p)),   dx/dt = rates(t, x, u, p, w),   y = results(t, x, u, p, w)

        static inline void NAME(const double *in, double *out)

    `before`, `rates`, `changes` and `results` are NumPy that can be traced; the function gets the
    numbers of the first and writes `stage_size` ones for the others. It runs in every stage of an
    integrator, and a kernel has it between what is traced: so its code is that of loops over
    tables, however many things it is about, and nothing is held over a step. In NumPy it is called
    in a library. The block cannot be part of another trace: `linearize` refuses it, and methods
    that need an exact Jacobian do; those that take quotients, as the usual one, do not.
    """

    @property
    @abc.abstractmethod
    def stage_size(self) -> int:
        """How many numbers the function writes."""

    @abc.abstractmethod
    def before(self, x: Record, u: Record, p: Record) -> Array:
        """The numbers (n,) that the function gets."""

    @abc.abstractmethod
    def rates(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        """`derivative`, with what the function writes."""

    @abc.abstractmethod
    def results(self, t: Any, x: Record, u: Record, p: Record, w: Array) -> Values:
        """`output`, with what the function writes."""

    def changes(self, x: Record, u: Record, p: Record, w: Array) -> Array:
        """`margins`, with what the function writes."""
        del x, u, p, w
        return np.zeros(0)

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self.rates(t, x, u, p, self._found(x, u, p))

    def margins(self, x: Record, u: Record, p: Record) -> Array:
        return self.changes(x, u, p, self._found(x, u, p))

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self.results(t, x, u, p, self._found(x, u, p))

    def with_stage(self, w: Array) -> "AfterStage":
        """The block with what the function writes given, which can be traced."""
        return AfterStage(self, w)

    def structure(self) -> Block:
        return _Structure(self)

    def _found(self, x: Record, u: Record, p: Record) -> Array:
        numbers = self.before(x, u, p)
        if is_traced(numbers):
            raise TypeError(
                f"a stage of {type(self).__name__} is written in C and cannot be traced: it runs "
                "in simulations, alone and in systems that are not fused, and alone as an FMU, by "
                "methods that need no exact Jacobian, as 'adaptive or stiff'"
            )
        given, out = np.asarray(numbers, dtype=float), np.empty(self.stage_size)
        self._library.stage(address(given), address(out))
        return out

    @cached_property
    def _library(self) -> Any:
        body = (("const double *in, double *out"), f"{self.function}(in, out);")
        return library(self.written_text(), {"stage": body})


class AfterStage(Block):
    """A block whose stage has written what is given."""

    def __init__(self, block: StagedBlock, w: Array):
        self._block, self._w = block, w

    @property
    def inputs(self) -> tuple[Port, ...]:
        return self._block.inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        return self._block.outputs

    @property
    def states(self) -> tuple[Port, ...]:
        return self._block.states

    @property
    def parameters(self) -> tuple[Port, ...]:
        return self._block.parameters

    def _written(self, x: Record, u: Record, p: Record) -> Array:
        del x, u, p
        return self._w

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._block.rates(t, x, u, p, self._written(x, u, p))

    def margins(self, x: Record, u: Record, p: Record) -> Array:
        return self._block.changes(x, u, p, self._written(x, u, p))

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return self._block.results(t, x, u, p, self._written(x, u, p))


class _Structure(AfterStage):
    """All that the stage writes depends on all that it gets."""

    def __init__(self, block: StagedBlock):
        super().__init__(block, np.zeros(0))

    def _written(self, x: Record, u: Record, p: Record) -> Array:
        whole = np.sum(self._block.before(x, u, p))
        return np.full(self._block.stage_size, whole)
