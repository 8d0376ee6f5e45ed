"""A body that meets the ground by impact: its velocity jumps."""

from dataclasses import dataclass
from typing import Any

from rigidblocks.algebra.scalar import less, maximum, piecewise, select
from rigidblocks.block.block import Block, Port, Record, Values


@dataclass(frozen=True)
class BouncingBall(Block):
    """A ball above a floor, which it leaves after an impact by Newton's law (RBDA 11.7).

        dz/dt = v,  dv/dt = -g         above the floor, z = 0
        v+ = -e v-                     where it arrives, by an impulse m (1 + e) |v-|

    `e` is the coefficient of restitution, from 0 to 1. What would leave the floor slower than
    `v_rest` [m/s] stays there: without that an inelastic ball has infinitely many impacts within
    v+ / g of the first (Zeno). The jump is where the states are moved (`Block.project`): a host of
    model exchange locates it as an event, and adaptive steps end at it; steps of fixed length have
    it at their end.
    """

    z0: float = 1.0
    v0: float = 0.0
    e: float = 0.7
    g: float = 9.81
    v_rest: float = 1e-3

    outputs = (
        Port("z", (), "m", "height above the floor"),
        Port("v", (), "m/s", "upward velocity"),
        Port("a", (), "m/s2", "upward acceleration"),
    )

    @property
    def states(self) -> tuple[Port, ...]:
        """z and v."""
        return (
            Port("z", (), "m", "height above the floor", self.z0, rate="v"),
            Port("v", (), "m/s", "upward velocity", self.v0),
        )

    @property
    def parameters(self) -> tuple[Port, ...]:
        """e, g and v_rest."""
        return (
            Port("e", (), "1", "coefficient of restitution", self.e, min=0.0, max=1.0),
            Port("g", (), "m/s2", "gravity, downwards", self.g),
            Port("v_rest", (), "m/s", "speed below which it rests", self.v_rest, positive=True),
        )

    def derivative(self, x: Record, p: Record) -> Values:
        return {"z": x.v, "v": self._acceleration(x, p)}

    def project(self, x: Record, p: Record) -> Values:
        after = maximum(0.0, -p.e * x.v)
        after = select(less(after, p.v_rest), 0.0, after)
        arrives = self._free(x) <= 0.0
        return {"z": select(arrives, 0.0, x.z), "v": select(arrives, after, x.v)}

    def margins(self, x: Record) -> Any:
        return (self._free(x),)

    def output(self, x: Record, p: Record) -> Values:
        return {"a": self._acceleration(x, p)}

    def _free(self, x: Record) -> Any:
        """Positive where nothing is between ball and floor, or they part."""
        return maximum(x.z, x.v)

    def _acceleration(self, x: Record, p: Record) -> Any:
        return piecewise(self._free(x), -p.g, maximum(-p.g, 0.0))
