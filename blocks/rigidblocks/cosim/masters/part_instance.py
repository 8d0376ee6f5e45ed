"""Instances of the parts (blocks and FMUs) in a run."""

import abc
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from rigidblocks.block.block import Block
from rigidblocks.block.stepper import CompiledStepper, Stepper, spans
from rigidblocks.cosim.graph.part import Part
from rigidblocks.cosim.masters.c_loop_tables import BLOCK, HOSTED, Entry
from rigidblocks.spatial.spatial import Array

_CLOSE = 1e-12  # events and samples closer than this fraction of a step coincide


class Instance(abc.ABC):
    """Base class of part instances in a run.

    `input` and `output` return views of the flattened values of a port. The views remain valid
    during the run. `outputs` returns all outputs in one array.
    """

    @abc.abstractmethod
    def input(self, name: str) -> Array:
        """Return a writable view of the flattened values of an input."""

    @abc.abstractmethod
    def output(self, name: str) -> Array:
        """Return a view of the current values of an output."""

    @abc.abstractmethod
    def outputs(self) -> Array:
        """Return all output values in one array, in port order."""

    def set_stop_time(self, t_stop: float) -> None:
        """Set the end of the run [s] before the initialization; infinity if it is not known."""
        del t_stop

    @abc.abstractmethod
    def initialize(self, t: float, outputs: Collection[str] | None = None) -> None:
        """Compute the outputs at the start time t [s] from the start values and the inputs.

        `outputs` contains the names of the outputs to compute; None selects all outputs. The method
        may be called repeatedly.
        """

    @abc.abstractmethod
    def begin(self) -> None:
        """End the initialization of the part; the steps of the run then begin."""

    @abc.abstractmethod
    def step(self, t: float, dt: float) -> None:
        """Step from t to t + dt [s] with constant inputs."""

    @property
    def is_distant(self) -> bool:
        """True if the part runs in another process, so that it can step in parallel."""
        return False

    def send_step(self, t: float, dt: float) -> None:
        """Request a step from the other process without waiting; `step` then waits for its end."""
        raise NotImplementedError

    def step_within(self, whole: tuple[float, float], t: float, dt: float) -> None:
        """Step from t to t + dt, within the communication step `whole`.

        Events may split a communication step; `whole` contains the start time and the length of the
        whole communication step [s]. The split does not change the sample times of a block.
        """
        del whole
        self.step(t, dt)

    @property
    @abc.abstractmethod
    def inputs(self) -> Array:
        """Return a writable view of the flattened values of all inputs, in port order."""

    @property
    def supports_polynomial_inputs(self) -> bool:
        """True if the part supports polynomial inputs within a step."""
        return True

    @abc.abstractmethod
    def follow(self, course: Array, t: float, dt: float) -> None:
        """Step from t to t + dt with inputs that are polynomials in the time since t.

        Row k of `course` contains the coefficients of the k-th power of time for all nu inputs
        (MAX_INPUT_ORDER + 1, nu). After the step, the inputs have the final values of the
        polynomials. If the part does not support polynomial inputs, its inputs are held at the
        means of the polynomials.
        """

    def output_jacobian(self, inputs: Array) -> Array | None:
        """Return the Jacobian (n, m) of all n outputs with respect to m inputs.

        `inputs` contains the indices of the inputs. The Jacobian is evaluated at the current state.
        Entries that the part does not provide are NaN. The result is None if the part provides no
        derivatives.
        """
        del inputs
        return None

    def entry(self) -> Entry:
        """Return the data of the part for the C loop.

        If the part has no C functions, the loop calls the method `step`.
        """
        return Entry(HOSTED)

    def check_status(self, call: int, status: int, t: float, dt: float) -> None:
        """Process a nonzero status of a C call in the step from t to t + dt [s].

        `call` is the code of the call in `c/master/loop_tables.h`. A status that ends the run
        raises an exception; any other status is logged.
        """
        raise NotImplementedError

    @abc.abstractmethod
    def save(self) -> None:
        """Save the current state, inputs and outputs, in place of the previously saved values.

        Raises RuntimeError for an FMU that cannot save its state.
        """

    @abc.abstractmethod
    def restore(self) -> None:
        """Restore the saved state, inputs and outputs; the method may be called repeatedly."""

    @abc.abstractmethod
    def view(self, name: str) -> Array | None:
        """Return a view of the flattened values of any port; None if the port has no view."""

    @abc.abstractmethod
    def read(self, name: str) -> Array:
        """Return the flattened values of a port for which `view` returns None."""

    @abc.abstractmethod
    def change(self, name: str, values: Array, t: float) -> None:
        """Set a parameter without a view (`view`), at the communication point t [s].

        The value takes effect in the next step.

        Raises FmuError for a parameter that is not tunable.
        """

    @abc.abstractmethod
    def save_state(self, number: int) -> None:
        """Save the current state, inputs and outputs under a key `number`.

        Raises RuntimeError for an FMU that cannot save its state.
        """

    @abc.abstractmethod
    def restore_state(self, number: int) -> None:
        """Restore the state with the key `number`; it can be restored repeatedly."""

    @abc.abstractmethod
    def free_state(self, number: int) -> None:
        """Delete the state with the key `number`."""

    def saved_arrays(self, number: int) -> dict[str, Array]:
        """Return the state with the key `number` as arrays by name, which a file can store.

        Raises ValueError for a part whose state cannot be written to a file.
        """
        del number
        raise ValueError(
            "the part runs in another process; only FMUs in this process can save their state to "
            "a file"
        )

    def load_arrays(self, number: int, arrays: Mapping[str, Array]) -> None:
        """Store arrays that `saved_arrays` has returned as the state with the key `number`."""
        raise NotImplementedError

    @property
    def restarts(self) -> bool:
        """True if `restart` can prepare the instance for another run."""
        return False

    @abc.abstractmethod
    def end(self) -> None:
        """End the run of the instance. The caller then calls `restart` or `close`."""

    def restart(self, part: Part) -> None:
        """Reset all values to the start values of a part, for another run."""
        raise NotImplementedError

    @abc.abstractmethod
    def close(self) -> None:
        """Free the resources of the instance."""


class BlockInstance(Instance):
    """Block that runs in this process, in NumPy or as a compiled kernel."""

    def __init__(self, part: Part, stepper: Stepper):
        assert isinstance(part.component, Block)
        self._stepper, self._layout = stepper, stepper.memory
        self._memory = np.empty(self._layout.size)
        self._saved_states: dict[int, Array] = {}
        self._step = self._stepper.bind_memory(self._memory)
        self._states = slice(self._layout.x.start, self._layout.z.stop)
        self.restart(part)
        places: Any = [
            np.arange(s.start, s.stop)
            for s in (self._layout.where[y.name] for y in part.component.outputs)
        ]
        self._outputs = np.concatenate(places) if places else np.zeros(0, dtype=int)

    @property
    def restarts(self) -> bool:
        return True

    def restart(self, part: Part) -> None:
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

    def initialize(self, t: float, outputs: Collection[str] | None = None) -> None:
        del outputs  # a block computes all its outputs
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
        for span in spans(sample_time, *whole):
            if span.end > end + close:
                break
            if span.end > begin + close:
                self._stepper.part(self._memory, begin, span.end, span.samples)
                begin = span.end
        if end > begin + close:
            self._stepper.part(self._memory, begin, end, False)

    def entry(self) -> Entry:
        if not isinstance(self._stepper, CompiledStepper):
            return Entry(HOSTED)
        return Entry(BLOCK, self._memory.ctypes.data, self._stepper.step_address)

    def check_status(self, call: int, status: int, t: float, dt: float) -> None:
        del call  # the C loop makes only one call for a block
        assert isinstance(self._stepper, CompiledStepper)
        self._stepper.check_status(status, self._memory, t + dt, dt)

    def save(self) -> None:
        self._kept = self._memory.copy()

    def restore(self) -> None:
        self._memory[:] = self._kept

    def view(self, name: str) -> Array | None:
        place = self._layout.where.get(name)
        return None if place is None else self._memory[place]

    def read(self, name: str) -> Array:
        return self.output(name)

    def change(self, name: str, values: Array, t: float) -> None:
        del t  # a block has no events between its steps
        self._memory[self._layout.where[name]] = values

    def save_state(self, number: int) -> None:
        self._saved_states[number] = self._memory.copy()

    def restore_state(self, number: int) -> None:
        self._memory[:] = self._saved_states[number]

    def free_state(self, number: int) -> None:
        self._saved_states.pop(number, None)

    def saved_arrays(self, number: int) -> dict[str, Array]:
        return {"memory": self._saved_states[number]}

    def load_arrays(self, number: int, arrays: Mapping[str, Array]) -> None:
        self._saved_states[number] = arrays["memory"]

    @property
    def steps(self) -> Array:
        """Return the data of the step size control, or an empty array for fixed steps."""
        steps: Array = self._memory[self._layout.s]
        return steps

    def end(self) -> None:
        pass

    def close(self) -> None:
        pass
