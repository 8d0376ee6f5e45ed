"""Running instances of the parts of a system."""

import abc
from typing import Any

import numpy as np

from rigidblocks.block import Block
from rigidblocks.flat import FlatBlock
from rigidblocks.spatial import Array
from rigidblocks.stepper import CompiledStepper, NumpyStepper, Stepper
from rigidblocks.system import Part


class Instance(abc.ABC):
    """One running part: inputs to write, outputs to read, and a step between.

    `input` and `output` give views of the flat values of a port that stay valid; `outputs` are all outputs side by side.
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
        """Computes the outputs at the start of a run from the start values and the inputs; may be repeated."""

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
        self._flat = FlatBlock(part.component)
        kind: type[Stepper] = CompiledStepper if compiled else NumpyStepper
        self._stepper = kind(self._flat, part.method, part.h)
        self._memory = self._flat.start()
        for name, value in part.start.items():
            self._memory[self._flat.where[name]] = np.ravel(value)
        self._step = self._stepper.bound(self._memory)
        self._states = slice(self._flat.x.start, self._flat.z.stop)
        self._start = self._memory[self._states].copy()
        places: Any = [np.arange(s.start, s.stop) for s in (self._flat.where[y.name] for y in part.component.outputs)]
        self._outputs = np.concatenate(places) if places else np.zeros(0, dtype=int)

    def input(self, name: str) -> Array:
        return self._memory[self._flat.where[name]]

    def output(self, name: str) -> Array:
        return self._memory[self._flat.where[name]]

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

    def close(self) -> None:
        pass
