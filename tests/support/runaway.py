"""Block with a finite escape time: its state grows to infinity in finite time."""

from dataclasses import dataclass

from rigidblocks import Block, Port


@dataclass(frozen=True)
class Runaway(Block):
    """dx/dt = x^2, whose solution 1 / (1 - t) is infinite at t = 1."""

    @property
    def states(self):
        return (Port("x", start=1.0),)

    @property
    def outputs(self):
        return self.states

    def derivative(self, x):
        return {"x": x.x * x.x}
