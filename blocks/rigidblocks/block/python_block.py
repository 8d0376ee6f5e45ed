"""Blocks of Python that is not traced: a neural network, a socket, a device."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import is_traced
from rigidblocks.block.block import Block
from rigidblocks.block.port import Port
from rigidblocks.block.record import Record, Values


class PythonBlock(Block):
    """A function of Python as a block; it may do anything, for nothing of it is traced.

        y = function(t, u)        at the end of every step, or at each sample with a `sample_time`

    The function takes what it names of t [s] and of the inputs, as floats and arrays of their
    shapes, and returns its outputs by name, or the value of the only one. It runs in the forms
    "numpy", "traced" and "compiled" of a run, called back from there; no C can be made of it, so a
    fused run, a native FMU and `linearize` refuse it. Every output is taken to read every input at
    once. What the function remembers is not part of any saved state, and at the start and at events
    it is called more often than once a step.

    Raises TypeError for a function that takes what is no input.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: Iterable[Port] = (),
        outputs: Iterable[Port] = (),
        sample_time: float | None = None,
    ):
        self.function, self.sample_time = function, sample_time
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        if not self._outputs:
            raise ValueError(f"the Python block of '{self.name}' needs at least one output")
        self._takes = self._taken()

    @property
    def name(self) -> str:
        """The function's name."""
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def _taken(self) -> tuple[str, ...]:
        known = ("t", *(port.name for port in self._inputs))
        arguments = inspect.signature(self.function).parameters.values()
        if any(one.kind is one.VAR_KEYWORD for one in arguments):
            return known
        taken = tuple(
            one.name for one in arguments if one.default is one.empty or one.name in known
        )
        if unknown := [name for name in taken if name not in known]:
            raise TypeError(
                f"the Python block of '{self.name}' takes {', '.join(unknown)}, which it has no "
                f"input for; it can take: {', '.join(known)}"
            )
        return taken

    @property
    def inputs(self) -> tuple[Port, ...]:
        """The input ports."""
        return self._inputs

    @property
    def outputs(self) -> tuple[Port, ...]:
        """The output ports."""
        return self._outputs

    @property
    def sampled(self) -> tuple[Port, ...]:
        """The outputs, with a sample time."""
        if self.sample_time is None:
            return ()
        return tuple(
            replace(port, start=port.within(0.0) if port.start is None else port.start)
            for port in self._outputs
        )

    def update(self, t: Any, u: Record) -> Values:
        return {} if self.sample_time is None else self._called(t, u)

    def output(self, t: Any, u: Record) -> Values:
        return {} if self.sample_time is not None else self._called(t, u)

    def _called(self, t: Any, u: Record) -> Values:
        if is_traced(t, *vars(u).values()):
            raise TypeError(self.refusal())
        given = {"t": float(t)} | {name: _plain(value) for name, value in vars(u).items()}
        values = self.function(**{name: given[name] for name in self._takes})
        if isinstance(values, Mapping) or len(self._outputs) > 1:
            return values  # type: ignore[no-any-return]  # what it is is checked by who asks
        (port,) = self._outputs
        return {port.name: np.asarray(values, dtype=float).reshape(np.shape(values))}

    def refusal(self) -> str:
        """Why no C is made of it, and what to do."""
        return (
            f"'{self.name}' is Python that is not traced, so no C can be made of it: run it with "
            "form='numpy' or 'compiled'; for an FMU write it as a Python FMU of its own (a class "
            "of pythonfmu's Fmi2Slave, `pythonfmu build -f script.py`), and add that file as a part"
        )


def python_block(
    inputs: Iterable[Port] = (), outputs: Iterable[Port] = (), sample_time: float | None = None
) -> Callable[[Callable[..., Any]], PythonBlock]:
    """A decorator that makes a function a `PythonBlock` with these ports."""
    return lambda function: PythonBlock(function, inputs, outputs, sample_time)


def _plain(value: Any) -> Any:
    """A value as a function of Python likes it: a float, or an array."""
    return float(value) if np.ndim(value) == 0 else value
