"""Branch functions that stay fixed between two events of model exchange, in NumPy."""

from dataclasses import dataclass

import numpy as np

from rigidblocks.block.evaluators import NumpyEvaluator
from rigidblocks.block.integrators import RK4
from rigidblocks.block.stepper import advance
from rigidblocks.kernels.compiled_stepper import numpy_stepper
from rigidblocks.kernels.event_indicators import Events
from rigidblocks.kernels.traced_evaluator import TracedEvaluator
from rigidblocks.tracing.trace import Graph


def sides_at(events, m):
    """Return the signs of all switching functions, as in c/fmi/variable_access.h."""
    sides = -np.ones(events.count)
    for _ in range(events.count + 1):
        sides = np.where(events.graphs[2](np.append(m, sides)) > 0, 1.0, -1.0)
    return sides


@dataclass(frozen=True, eq=False, kw_only=True)
class OnSides(NumpyEvaluator):
    """Block whose rates use the branches that the signs `sides` select."""

    sides: np.ndarray
    held: Graph

    def derivative(self, m):
        return self.held(np.append(m, self.sides))


class HeldLaws:
    """RK4 steps with the branches that were active before the inputs were set."""

    def __init__(self, memory, h):
        self.stepper, self.h = numpy_stepper(memory, RK4, h), h
        self.m, self.events = memory.start(), Events(TracedEvaluator(memory))
        # blocks with a stage in C have no fixed laws
        self.holds = self.events.count > 0 and not self.events.staged

    def set(self, where, values):
        self.sides = sides_at(self.events, self.m) if self.holds else None
        self.m[where] = values

    def initialize(self):
        self.stepper.initialize(self.m, 0.0)

    def step(self, t, dt):
        if self.holds:
            held = OnSides(self.stepper.memory, sides=self.sides, held=self.events.graphs[0])
            self.m[:] = advance(held, self.m, t, dt, RK4, self.h)
        else:
            self.stepper.step(self.m, t, dt)
