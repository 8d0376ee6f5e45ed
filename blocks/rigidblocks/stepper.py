"""Two ways to step a block on its flat memory: in NumPy, and by its compiled kernel. They give the same numbers."""

import abc
import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.flat import FlatBlock, sample_spans
from rigidblocks.integrate import RK4, Integrator, inner_steps
from rigidblocks.spatial import Array


class StepError(ArithmeticError):
    """A block's state or output is no longer finite."""


@dataclass(frozen=True, eq=False)
class Stepper(abc.ABC):
    """Steps a block in place on a memory that the caller owns.

    `h` [s] is the longest inner step of the integrator.
    """

    flat: FlatBlock
    method: Integrator = RK4
    h: float = 1e-3

    def __post_init__(self) -> None:
        if not (np.isfinite(self.h) and self.h > 0):
            raise ValueError(f"the inner step h must be positive, not {self.h} s")

    @abc.abstractmethod
    def initialize(self, m: Array, t: float) -> None:
        """Computes the sampled states and outputs at the start of a run from the inputs.

        Raises StepError, naming the variable, when a value is not finite.
        """

    @abc.abstractmethod
    def step(self, m: Array, t: float, dt: float) -> None:
        """Steps from t to t + dt with the inputs held.

        Raises StepError, naming the variable, when a value is not finite, and ValueError when dt does not fit the sample
        time.
        """

    @abc.abstractmethod
    def bound(self, m: Array) -> Callable[[float, float], None]:
        """`step` on this one memory, as a function of t and dt."""

    def _not_finite(self, m: Array, t: float) -> StepError:
        inputs = self.flat.block.inputs  # named first: where they are not finite they are the cause
        bad = [
            name
            for port in sorted(self.flat.ports, key=lambda port: port not in inputs)
            for name, value in zip(port.element_names, m[self.flat.where[port.name]], strict=True)
            if not np.isfinite(value)
        ]
        return StepError(f"{self.flat.name} is not finite at t = {t:g} s: {', '.join(bad[:8])}")


@dataclass(frozen=True, eq=False)
class NumpyStepper(Stepper):
    """Steps by running the block's own functions."""

    def initialize(self, m: Array, t: float) -> None:
        with np.errstate(all="ignore"):  # what is not finite is found below
            m[:] = self.flat.initialized(m, t)
        self._check(m, t)

    def step(self, m: Array, t: float, dt: float) -> None:
        with np.errstate(all="ignore"):
            m[:] = self.flat.advanced(m, t, dt, self.method, self.h)
        self._check(m, t + dt)

    def bound(self, m: Array) -> Callable[[float, float], None]:
        return partial(self.step, m)

    def _check(self, m: Array, t: float) -> None:
        if not np.all(np.isfinite(m)):
            raise self._not_finite(m, t)


@dataclass(frozen=True, eq=False)
class CompiledStepper(Stepper):
    """Steps by the block's kernel in C: compiled here, or the shared library at `path`."""

    path: Path | None = None

    @cached_property
    def kernel(self) -> Any:
        """The loaded kernel."""
        library = ctypes.CDLL(str(self.path or kernel_library(self.flat, self.method, self.h)))
        library.block_initialize.argtypes = (ctypes.c_void_p, ctypes.c_double)
        library.block_step.argtypes = (ctypes.c_void_p, ctypes.c_double, ctypes.c_double)
        library.block_run.argtypes = (
            ctypes.c_void_p, ctypes.c_double, ctypes.c_double, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p,
        )  # fmt: skip
        return library

    def initialize(self, m: Array, t: float) -> None:
        if self.kernel.block_initialize(m.ctypes.data, t):
            raise self._not_finite(m, t)

    def step(self, m: Array, t: float, dt: float) -> None:
        self._check(self.kernel.block_step(m.ctypes.data, t, dt), m, t + dt, dt)

    def bound(self, m: Array) -> Callable[[float, float], None]:
        block_step, address = self.kernel.block_step, m.ctypes.data

        def step(t: float, dt: float) -> None:
            if status := block_step(address, t, dt):
                self._check(status, m, t + dt, dt)

        return step

    def run(self, m: Array, t: float, dt: float, rows: Array) -> int:
        """Takes a step of dt for each of `rows` (n, size), which gets the memory after it; returns how many were taken.

        Stops at a step that fails, with its memory in m.
        """
        done = ctypes.c_int()
        self.kernel.block_run(m.ctypes.data, t, dt, len(rows), rows.ctypes.data, ctypes.byref(done))
        return done.value

    def _check(self, status: int, m: Array, t: float, dt: float) -> None:
        if status == 1:  # one of these raises with the reason
            inner_steps(dt, self.h)
            sample_spans(self.flat.block.sample_time, dt)
        if status:
            raise self._not_finite(m, t)


def kernel_library(flat: FlatBlock, method: Integrator, h: float) -> Path:
    """The compiled kernel of a block, from the cache when it is there. Needs CasADi and a C compiler."""
    # imported here: a Python FMU steps its block on machines that have neither
    from rigidblocks.compile import shared_library
    from rigidblocks.model_header import model_header

    sources = {"model.h": model_header(flat, method, h)}
    for name in ("step.h", "kernel.c"):
        sources[name] = files("rigidblocks").joinpath(f"c/{name}").read_text()
    return shared_library(sources, "kernel.c")
