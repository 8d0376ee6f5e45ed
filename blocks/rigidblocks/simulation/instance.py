"""Running instances of the parts of a system."""

import abc
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import memory_for
from rigidblocks.block.block import Block
from rigidblocks.block.stepper import Stepper
from rigidblocks.kernels.stepper import compiled_stepper, numpy_stepper
from rigidblocks.system.part import Part


class Instance(abc.ABC):
    """One running part: inputs to write, outputs to read, and a step between.

    `input` and `output` give views of the flat values of a port that stay valid; `outputs` are all
    outputs side by side.
    """

    @abc.abstractmethod
    def input(self, name: str) -> Array:
        """The values of an input, to write into."""

    @abc.abstractmethod
    def output(self, name: str) -> Array:
        """The values of an output as last computed."""

    @abc.abstractmethod
    def outputs(self) -> Array:
        """The values of all outputs, in the order of the ports."""

    @abc.abstractmethod
    def initialize(self, t: float) -> None:
        """Computes the outputs at the start of a run from the start values and the inputs; may be
        repeated.
        """

    @abc.abstractmethod
    def begin(self) -> None:
        """Ends the initialization."""

    @abc.abstractmethod
    def step(self, t: float, dt: float) -> None:
        """Goes from t to t + dt with the inputs held."""

    @abc.abstractmethod
    def save(self) -> None:
        """Keeps the state, inputs and outputs of this moment in place of what was kept before.

        Raises RuntimeError for an FMU that cannot.
        """

    @abc.abstractmethod
    def restore(self) -> None:
        """Goes back to the moment that was kept; may be repeated."""

    @abc.abstractmethod
    def close(self) -> None:
        """Frees what the instance holds."""


class BlockInstance(Instance):
    """A block that runs in this process, in NumPy or by its compiled kernel."""

    def __init__(self, part: Part, compiled: bool):
        assert isinstance(part.component, Block)
        method, h = part.stepping
        self._layout = memory_for(part.component, method)
        stepper = compiled_stepper if compiled else numpy_stepper
        self._stepper: Stepper = stepper(self._layout, method, h)
        self._memory = self._layout.start()
        for name, value in part.start.items():
            self._memory[self._layout.where[name]] = np.ravel(value)
        self._step = self._stepper.bound(self._memory)
        self._states = slice(self._layout.x.start, self._layout.z.stop)
        self._start = self._memory[self._states].copy()
        places: Any = [
            np.arange(s.start, s.stop)
            for s in (self._layout.where[y.name] for y in part.component.outputs)
        ]
        self._outputs = np.concatenate(places) if places else np.zeros(0, dtype=int)

    def input(self, name: str) -> Array:
        return self._memory[self._layout.where[name]]

    def output(self, name: str) -> Array:
        return self._memory[self._layout.where[name]]

    def outputs(self) -> Array:
        values: Array = self._memory[self._outputs]
        return values

    def initialize(self, t: float) -> None:
        self._memory[self._states] = self._start
        self._stepper.initialize(self._memory, t)

    def begin(self) -> None:
        pass

    def step(self, t: float, dt: float) -> None:
        self._step(t, dt)

    def save(self) -> None:
        self._kept = self._memory.copy()

    def restore(self) -> None:
        self._memory[:] = self._kept

    @property
    def steps(self) -> Array:
        """What the integrator remembers; nothing of steps of fixed length."""
        steps: Array = self._memory[self._layout.s]
        return steps

    def close(self) -> None:
        pass
