"""Laws that are held from one event of model exchange to the next, in NumPy."""

from dataclasses import dataclass

import numpy as np

from rigidblocks.block.evaluate import NumpyEvaluator
from rigidblocks.block.integrators import RK4
from rigidblocks.block.step import advance
from rigidblocks.kernels.evaluator import TracedEvaluator
from rigidblocks.kernels.events import Events
from rigidblocks.kernels.stepper import numpy_stepper
from rigidblocks.tracing.trace import Graph


def sides_at(events, m):
    """The sides on which everything is, as c/fmi/sides.h finds them."""
    sides = -np.ones(events.count)
    for _ in range(events.count + 1):
        sides = np.where(events.graphs[2](np.append(m, sides)) > 0, 1.0, -1.0)
    return sides


@dataclass(frozen=True, eq=False, kw_only=True)
class OnSides(NumpyEvaluator):
    """A block whose rates are those of the laws on `sides`."""

    sides: np.ndarray
    held: Graph

    def derivative(self, m):
        return self.held(np.append(m, self.sides))


class HeldLaws:
    """Steps of RK4 in each of which the laws hold that held before its inputs were set."""

    def __init__(self, memory, h):
        self.stepper, self.h = numpy_stepper(memory, RK4, h), h
        self.m, self.events = memory.start(), Events(TracedEvaluator(memory))
        # of a block with a stage in C nothing is held
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
