"""Inputs that follow polynomials in a step; c/kernel/course.h does the same, in the same order."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.evaluate import Evaluator
from rigidblocks.block.memory import Memory, put

ORDER = 3  # the highest power of the time


def inputs_at(course: Array, s: float) -> Array:
    """The inputs (n,) at the time s after the start of a course (ORDER + 1, n):

    u = c_0 + c_1 s + c_2 s^2 + c_3 s^3
    """
    u: Array = np.zeros(course.shape[1])
    for c in course[::-1]:
        u = u * s + c
    return u


def mean_inputs(course: Array, dt: float) -> Array:
    """The mean of the inputs over a step dt from the start of their course."""
    mean: Array = sum((c * dt**k / (k + 1) for k, c in enumerate(course)), start=np.zeros(1))
    return mean


@dataclass(frozen=True, eq=False)
class Following(Evaluator):
    """The functions of a block whose inputs are on a course (ORDER + 1, n) that starts at t0 [s].

    They are those of the time that the memory is at, or, where it is given, of the time `at`.
    """

    inner: Evaluator
    course: Array
    t0: float
    at: float | None = None

    @property
    def memory(self) -> Memory:  # type: ignore[override]
        """The layout of the memory."""
        return self.inner.memory

    def held_at(self, t: float) -> Evaluator:
        return replace(self, at=t)

    @property
    def projects(self) -> bool:
        return self.inner.projects

    @property
    def margin_count(self) -> int:
        return self.inner.margin_count

    def derivative(self, m: Array) -> Array:
        return self.inner.derivative(self.with_inputs(m))

    def slopes(self, m: Array) -> tuple[Array, Array]:
        return self.inner.slopes(self.with_inputs(m))

    def project(self, m: Array) -> Array:
        return self.inner.project(self.with_inputs(m))

    def margins(self, m: Array) -> Array:
        return self.inner.margins(self.with_inputs(m))

    def initial(self, m: Array) -> Array:
        return self.inner.initial(self.with_inputs(m))

    def update(self, m: Array) -> Array:
        return self.inner.update(self.with_inputs(m))

    def output(self, m: Array) -> Array:
        return self.inner.output(self.with_inputs(m))

    def with_inputs(self, m: Array) -> Array:
        """The memory with its inputs where they are on their course."""
        t: Any = m[0] if self.at is None else self.at
        return put(m, self.memory.u, inputs_at(self.course, t - self.t0))
