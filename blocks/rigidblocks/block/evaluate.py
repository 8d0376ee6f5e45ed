"""The functions of a block on its flat memory, whoever runs them."""

import abc
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, computed_outputs, flatten, record, takes
from rigidblocks.block.memory import Memory, put
from rigidblocks.block.staged import StagedBlock

Slopes = Callable[[Array], tuple[Array, Array]]


class Evaluator(abc.ABC):
    """The functions of a block, from its flat memory to flat values. They are pure, and the memory
    that they get may be traced.
    """

    memory: Memory

    @property
    @abc.abstractmethod
    def projects(self) -> bool:
        """Whether the block moves any continuous state back after an inner step."""

    def held_at(self, t: float) -> "Evaluator":
        """The same with the inputs held as they are at t, where they are on a course (`course`)."""
        del t
        return self

    @abc.abstractmethod
    def derivative(self, m: Array) -> Array:
        """The rates of the continuous states."""

    @abc.abstractmethod
    def slopes(self, m: Array) -> tuple[Array, Array]:
        """The exact derivatives of the rates by the continuous states (n, n) and by the time (n,),
        which linearly implicit methods use.
        """

    @abc.abstractmethod
    def project(self, m: Array) -> Array:
        """The continuous states moved back to where they belong."""

    @property
    @abc.abstractmethod
    def margin_count(self) -> int:
        """The number of margins of the block."""

    @abc.abstractmethod
    def margins(self, m: Array) -> Array:
        """The margins, by whose signs one law or another holds."""

    @abc.abstractmethod
    def initial(self, m: Array) -> Array:
        """The sampled states after the start."""

    @abc.abstractmethod
    def update(self, m: Array) -> Array:
        """The sampled states after a sample instant."""

    @abc.abstractmethod
    def output(self, m: Array) -> Array:
        """The computed outputs."""


@dataclass(frozen=True, eq=False)
class NumpyEvaluator(Evaluator):
    """Runs the block's own functions.

    What they cannot tell is the exact derivatives of the rates; `exact` does, where a linearly
    implicit method is to be used (`compiled.evaluator.numpy_evaluator`).
    """

    memory: Memory
    exact: Slopes | None = None

    @cached_property
    def projects(self) -> bool:
        with np.errstate(all="ignore"):  # only the names count
            return bool(self._values("project", self.memory.start()))

    def derivative(self, m: Array) -> Array:
        return self._evaluate("derivative", self.memory.block.states, m)

    def slopes(self, m: Array) -> tuple[Array, Array]:
        if self.exact is None:
            raise ValueError(
                f"the exact Jacobian of {self.memory.name}, which linearly implicit methods use, "
                "needs CasADi where there is no compiled kernel: `pip install casadi` and take "
                "`compiled.stepper.numpy_stepper`, or choose an explicit method"
            )
        return self.exact(m)

    def project(self, m: Array) -> Array:
        states = self.memory.block.states
        now = vars(record(states, m[self.memory.x]))
        return flatten(states, self._values("project", m), f"{self.memory.name}.project", now)

    @cached_property
    def margin_count(self) -> int:
        if type(self.memory.block).margins is Block.margins:
            return 0
        if isinstance(self.memory.block, StagedBlock):  # whose C need not be compiled for this
            block = self.memory.block.with_stage(np.zeros(self.memory.block.stage_size))
            return NumpyEvaluator(replace(self.memory, block=block)).margin_count
        m = put(self.memory.start(), self.memory.u, np.nan)  # a configuration of zeros may be none
        with np.errstate(all="ignore"):  # only the number counts
            return len(self.margins(m))

    def margins(self, m: Array) -> Array:
        return np.ravel(self._values("margins", m))

    def initial(self, m: Array) -> Array:
        return self._evaluate("initial", self.memory.block.sampled, m)

    def update(self, m: Array) -> Array:
        return self._evaluate("update", self.memory.block.sampled, m)

    def output(self, m: Array) -> Array:
        return self._evaluate("output", computed_outputs(self.memory.block), m)

    def _evaluate(self, function: str, ports: Iterable[Port], m: Array) -> Array:
        return flatten(ports, self._values(function, m), f"{self.memory.name}.{function}")

    def _values(self, function: str, m: Array) -> Any:
        block = self.memory.block
        names = takes(getattr(type(block), function))
        return getattr(block, function)(**{name: self.memory.argument(name, m) for name in names})
