"""Running instances of the parts of a system."""

import abc
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block
from rigidblocks.block.step import instants
from rigidblocks.block.stepper import CompiledStepper, Stepper
from rigidblocks.simulation.table import BLOCK, HOSTED, Entry
from rigidblocks.system.part import Part

_CLOSE = 1e-12  # of a step: events and samples that are closer are at the same time


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

    @property
    def is_distant(self) -> bool:
        """Whether it runs in another process, where a step goes on beside those of others."""
        return False

    def send_step(self, t: float, dt: float) -> None:
        """Begins the step that `step` then ends, of one that is distant."""
        raise NotImplementedError

    def step_within(self, whole: tuple[float, float], t: float, dt: float) -> None:
        """Goes from t to t + dt as `step`, in a step that events divide: `whole` is its start and
        its length, whose samples fall where they would without events.
        """
        del whole
        self.step(t, dt)

    @property
    @abc.abstractmethod
    def inputs(self) -> Array:
        """The flat values of all inputs, in the order of the ports, to write into."""

    @property
    def follows(self) -> bool:
        """Whether its inputs can follow polynomials within a step."""
        return True

    @abc.abstractmethod
    def follow(self, course: Array, t: float, dt: float) -> None:
        """Goes from t to t + dt with the inputs on a course that starts at t (`block.course`), at
        whose end they are then; one that does not follow gets their mean, held.
        """

    def slopes(self, inputs: Array) -> Array | None:
        """The derivatives of the outputs in inputs (m,), by their places, at this moment, (n, m),
        NaN what the part does not tell; None where it tells none.
        """
        del inputs
        return None

    def entry(self) -> Entry:
        """How the loop in C steps it; by `step`, unless it has functions in C."""
        return Entry(HOSTED)

    def judge(self, call: int, status: int, t: float, dt: float) -> None:
        """Raises what `step` raises, for the status, not 0, of a call in C in a step from t to
        t + dt; what does not end the run it tells.
        """
        raise NotImplementedError

    @abc.abstractmethod
    def save(self) -> None:
        """Keeps the state, inputs and outputs of this moment in place of what was kept before.

        Raises RuntimeError for an FMU that cannot.
        """

    @abc.abstractmethod
    def restore(self) -> None:
        """Goes back to the moment that was kept; may be repeated."""

    @abc.abstractmethod
    def view(self, name: str) -> Array | None:
        """A view of the flat values of any port, which stays valid; None where there is none."""

    @abc.abstractmethod
    def read(self, name: str) -> Array:
        """The flat values of a port that has no view."""

    @abc.abstractmethod
    def change(self, name: str, values: Array) -> None:
        """Sets a parameter that has no view, from the next step on.

        Raises FmuError for one that is not tunable.
        """

    @abc.abstractmethod
    def keep(self, number: int) -> None:
        """Keeps the state, inputs and outputs of this moment under a number.

        Raises RuntimeError for an FMU that cannot.
        """

    @abc.abstractmethod
    def go_back(self, number: int) -> None:
        """Goes back to a moment that was kept; may be repeated."""

    @abc.abstractmethod
    def forget(self, number: int) -> None:
        """Keeps a moment no longer."""

    @abc.abstractmethod
    def close(self) -> None:
        """Frees what the instance holds."""


class BlockInstance(Instance):
    """A block that runs in this process, in NumPy or by its compiled kernel."""

    def __init__(self, part: Part, stepper: Stepper):
        assert isinstance(part.component, Block)
        self._stepper, self._layout = stepper, stepper.memory
        self._memory = np.empty(self._layout.size)
        self._kept_by_number: dict[int, Array] = {}
        self._step = self._stepper.bound(self._memory)
        self._states = slice(self._layout.x.start, self._layout.z.stop)
        self.restart(part)
        places: Any = [
            np.arange(s.start, s.stop)
            for s in (self._layout.where[y.name] for y in part.component.outputs)
        ]
        self._outputs = np.concatenate(places) if places else np.zeros(0, dtype=int)

    def restart(self, part: Part) -> None:
        """Puts the start values in place of what there is."""
        self._memory[:] = self._layout.start()
        for name, value in part.start.items():
            self._memory[self._layout.where[name]] = np.ravel(value)
        self._start = self._memory[self._states].copy()

    def input(self, name: str) -> Array:
        return self._memory[self._layout.where[name]]

    @property
    def inputs(self) -> Array:
        return self._memory[self._layout.u]

    def follow(self, course: Array, t: float, dt: float) -> None:
        self._memory[self._layout.u] = course[0]
        self._stepper.follow(self._memory, course, t, dt)

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

    def step_within(self, whole: tuple[float, float], t: float, dt: float) -> None:
        sample_time = self._layout.block.sample_time
        if sample_time is None or (t, dt) == whole:
            self.step(t, dt)
            return
        begin, end = t, t + dt
        close = _CLOSE * whole[1] + 4 * np.finfo(float).eps * abs(t)
        for instant, samples in instants(*whole, sample_time, t):
            if instant > end + close:
                break
            if instant > begin + close:
                self._stepper.part(self._memory, begin, instant, samples)
                begin = instant
        if end > begin + close:
            self._stepper.part(self._memory, begin, end, False)

    def entry(self) -> Entry:
        if not isinstance(self._stepper, CompiledStepper):
            return Entry(HOSTED)
        return Entry(BLOCK, self._memory.ctypes.data, self._stepper.step_address)

    def judge(self, call: int, status: int, t: float, dt: float) -> None:
        del call  # there is one
        assert isinstance(self._stepper, CompiledStepper)
        self._stepper.judge(status, self._memory, t + dt, dt)

    def save(self) -> None:
        self._kept = self._memory.copy()

    def restore(self) -> None:
        self._memory[:] = self._kept

    def view(self, name: str) -> Array | None:
        place = self._layout.where.get(name)
        return None if place is None else self._memory[place]

    def read(self, name: str) -> Array:
        return self.output(name)

    def change(self, name: str, values: Array) -> None:
        self._memory[self._layout.where[name]] = values

    def keep(self, number: int) -> None:
        self._kept_by_number[number] = self._memory.copy()

    def go_back(self, number: int) -> None:
        self._memory[:] = self._kept_by_number[number]

    def forget(self, number: int) -> None:
        self._kept_by_number.pop(number, None)

    @property
    def steps(self) -> Array:
        """What the integrator remembers; nothing of steps of fixed length."""
        steps: Array = self._memory[self._layout.s]
        return steps

    def close(self) -> None:
        pass
