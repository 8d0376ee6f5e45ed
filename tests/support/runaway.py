"""A block whose run cannot go on."""

from dataclasses import dataclass

from rigidblocks import Block, Port


@dataclass(frozen=True)
class Runaway(Block):
    """dx/dt = x^2, whose solution 1 / (1 - t) is not finite from t = 1 on."""

    @property
    def states(self):
        return (Port("x", start=1.0),)

    @property
    def outputs(self):
        return self.states

    def derivative(self, x):
        return {"x": x.x * x.x}
