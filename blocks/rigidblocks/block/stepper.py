"""Two ways to step a block on its flat memory: in NumPy, and by its compiled kernel. They give the
same numbers.
"""

import abc
import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import Adaptive, Method, chooses_steps, is_implicit, longest_step
from rigidblocks.block.course import Following
from rigidblocks.block.evaluate import Evaluator, NumpyEvaluator, Slopes
from rigidblocks.block.integrators import RK4
from rigidblocks.block.memory import Memory
from rigidblocks.block.refusal import FAILED, Refusal, step_refusal
from rigidblocks.block.step import advance, initialize, part_of_step
from rigidblocks.block.suspicion import suspected_cause


class StepError(ArithmeticError):
    """A block's state or output is no longer finite."""


@dataclass(frozen=True, eq=False)
class Stepper(abc.ABC):
    """Steps a block in place on a memory that the caller owns.

    `h` [s] is the longest inner step of the integrator.
    """

    memory: Memory
    method: Method = RK4
    h: float = 1e-3

    def __post_init__(self) -> None:
        longest_step(self.method, self.h)  # refuses one that is none
        if chooses_steps(self.method, self.memory.block) != bool(self.memory.steps):
            raise ValueError(
                f"the memory of {self.memory.name} is not one for '{self.method.name}'; take "
                "`memory_for(block, method)`"
            )

    @abc.abstractmethod
    def initialize(self, m: Array, t: float) -> None:
        """Computes the sampled states and outputs at the start of a run from the inputs.

        Raises StepError, naming the variable, when a value is not finite.
        """

    @abc.abstractmethod
    def step(self, m: Array, t: float, dt: float) -> None:
        """Steps from t to t + dt with the inputs held.

        Raises StepError, naming the variable, when a value is not finite, and ValueError when dt
        does not fit the sample time.
        """

    @abc.abstractmethod
    def part(self, m: Array, t: float, end: float, samples: bool) -> None:
        """Steps from t to the end, a part of a step in which nothing is sampled but, where it
        `samples`, at the end. Raises what `step` raises.
        """

    @abc.abstractmethod
    def follow(self, m: Array, course: Array, t: float, dt: float) -> None:
        """Steps from t to t + dt with the inputs on a course (ORDER + 1, n) that starts at t, at
        whose end they are then (`course`). Raises what `step` raises.
        """

    @abc.abstractmethod
    def bound(self, m: Array) -> Callable[[float, float], None]:
        """`step` on this one memory, as a function of t and dt."""

    def refusal(self, m: Array, t: float, dt: float, end: float = np.inf) -> Refusal | None:
        """Why no step dt from t is taken in a run that is at the time of the memory and ends at
        `end`; None when it is.
        """
        return step_refusal(m[0], end, t, dt, self.h, self.memory.block.sample_time)

    def _not_finite(self, m: Array, t: float) -> StepError:
        inputs = (
            self.memory.block.inputs
        )  # named first: where they are not finite they are the cause
        bad = [
            name
            for port in sorted(self.memory.ports, key=lambda port: port not in inputs)
            for name, value in zip(port.element_names, m[self.memory.where[port.name]], strict=True)
            if not np.isfinite(value)
        ]
        return StepError(
            f"{self.memory.name} is not finite at t = {t:g} s: {', '.join(bad[:8])}"
            f"{suspected_cause(self.memory, self.method, self.h, m)}"
        )


@dataclass(frozen=True, eq=False)
class NumpyStepper(Stepper):
    """Steps by running the block's own functions.

    `slopes` gives the exact derivatives that a linearly implicit method needs (`NumpyEvaluator`).
    """

    slopes: Slopes | None = None

    @cached_property
    def evaluator(self) -> Evaluator:
        """The block's functions."""
        return NumpyEvaluator(self.memory, self.slopes)

    def initialize(self, m: Array, t: float) -> None:
        with np.errstate(all="ignore"):  # what is not finite is found below
            m[:] = initialize(self.evaluator, m, t)
        self._check(m, t)

    def step(self, m: Array, t: float, dt: float) -> None:
        with np.errstate(all="ignore"):
            m[:] = advance(self.evaluator, m, t, dt, self.method, self.h)
        self._check(m, t + dt)

    def part(self, m: Array, t: float, end: float, samples: bool) -> None:
        with np.errstate(all="ignore"):
            m[:] = part_of_step(self.evaluator, m, t, end, samples, self.method, self.h)
        self._check(m, end)

    def follow(self, m: Array, course: Array, t: float, dt: float) -> None:
        if _takes_exact_slopes(self.method, self.memory):
            raise ValueError(
                f"in NumPy the inputs of {self.memory.name} are held in a step of "
                f"'{self.method.name}'; take the form compiled"
            )
        on_course = Following(self.evaluator, course, t)
        with np.errstate(all="ignore"):
            m[:] = on_course.with_inputs(advance(on_course, m, t, dt, self.method, self.h))
        self._check(m, t + dt)

    def bound(self, m: Array) -> Callable[[float, float], None]:
        return partial(self.step, m)

    def _check(self, m: Array, t: float) -> None:
        if not np.all(np.isfinite(m)):
            raise self._not_finite(m, t)


@dataclass(frozen=True, eq=False)
class CompiledStepper(Stepper):
    """Steps by the block's kernel in C, which was compiled for this memory, method and inner step:
    the shared library at `path`, and for inputs on a course that at `follow_path`.
    """

    path: Path = field(kw_only=True)
    follow_path: Path | None = field(default=None, kw_only=True)

    @cached_property
    def kernel(self) -> Any:
        """The loaded kernel."""
        library = ctypes.CDLL(str(self.path))
        library.block_refusal.argtypes = (ctypes.c_void_p,)
        library.block_initialize.argtypes = (ctypes.c_void_p, ctypes.c_double)
        library.block_step.argtypes = (ctypes.c_void_p, ctypes.c_double, ctypes.c_double)
        library.block_part.argtypes = (*library.block_step.argtypes, ctypes.c_int)
        library.block_run.argtypes = (
            ctypes.c_void_p,
            ctypes.c_double,
            ctypes.c_double,
            ctypes.c_int,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_void_p,
        )
        return library

    @property
    def step_address(self) -> int:
        """The address of the function `int (double *memory, double t, double dt)` that steps; what
        it returns is for `judge`.
        """
        return ctypes.cast(self.kernel.block_step, ctypes.c_void_p).value or 0

    def initialize(self, m: Array, t: float) -> None:
        if self.kernel.block_initialize(m.ctypes.data, t):
            raise self._not_finite(m, t)

    def step(self, m: Array, t: float, dt: float) -> None:
        self.judge(self.kernel.block_step(m.ctypes.data, t, dt), m, t + dt, dt)

    def part(self, m: Array, t: float, end: float, samples: bool) -> None:
        self.judge(self.kernel.block_part(m.ctypes.data, t, end, samples), m, end, end - t)

    @cached_property
    def _block_follow(self) -> Any:
        if self.follow_path is None:
            raise ValueError(
                f"{self.memory.name} was compiled without courses of its inputs; take "
                "`compiled_stepper(..., follows=True)`"
            )
        function = ctypes.CDLL(str(self.follow_path)).block_follow
        function.argtypes = (ctypes.c_void_p, ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
        return function

    def follow(self, m: Array, course: Array, t: float, dt: float) -> None:
        rows = np.ascontiguousarray(course)
        self.judge(self._block_follow(m.ctypes.data, t, dt, rows.ctypes.data), m, t + dt, dt)

    def bound(self, m: Array) -> Callable[[float, float], None]:
        block_step, address = self.kernel.block_step, m.ctypes.data

        def step(t: float, dt: float) -> None:
            if status := block_step(address, t, dt):
                self.judge(status, m, t + dt, dt)

        return step

    def run(self, m: Array, t: float, dt: float, rows: Array, first: int = 0) -> int:
        """Takes a step of dt for each of `rows` (n, size), which gets the memory after it; returns
        how many were taken.

        They are the steps first, first + 1, ... of a run that started at t. Step k is from
        t + k dt, rounded alike however a run is divided. Stops at a step that fails, with its
        memory in m.
        """
        done, n = ctypes.c_int(), len(rows)
        places = m.ctypes.data, rows.ctypes.data
        self.kernel.block_run(places[0], t, dt, first, n, places[1], ctypes.byref(done))
        return done.value

    def refusal(self, m: Array, t: float, dt: float, end: float = np.inf) -> Refusal | None:
        request = np.concatenate([[t, dt, end], m])
        reason = self.kernel.block_refusal(request.ctypes.data)
        return Refusal(reason) if reason else None

    def judge(self, status: int, m: Array, t: float, dt: float) -> None:
        """Raises what `step` raises, for the status of a step of dt to t."""
        if status == FAILED:
            raise self._not_finite(m, t)
        if status:
            sample_time = self.memory.block.sample_time
            raise ValueError(Refusal(status).text(float(m[0]), np.inf, dt, self.h, sample_time))


def _takes_exact_slopes(method: Method, memory: Memory) -> bool:
    """Whether the steps of a block need the exact derivatives of its rates, to which the course of
    its inputs belongs.
    """
    if not (isinstance(method, Adaptive) and chooses_steps(method, memory.block)):
        return False
    return is_implicit(method) and method.exact
