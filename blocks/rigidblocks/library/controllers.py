"""Controllers: measured motion and reference in, joint forces out."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import select, within
from rigidblocks.block.block import Block, Port, Record, Values

_ANGLE = ("rad", "rad/s", "N.m")
_LENGTH = ("m", "m/s", "N")


@dataclass(frozen=True, eq=False)
class PDController(Block):
    """A proportional-derivative controller for each joint, with an optional limit on the force.

        tau = kp e + kd de/dt,  e = q_ref - q,  limited to [-tau_max, tau_max]

    Without `sample_time` de/dt is the difference of the inputs qd_ref and qd. With a `sample_time`
    [s] the controller computes at its sample instants and holds its output between them; de/dt is
    then the backward difference of e, zero at the first sample, and there are no velocity inputs.

    The gains fix the number of joints. `prismatic` marks the joints that slide, for their units.
    """

    kp: Any
    kd: Any
    tau_max: Any = None
    sample_time: float | None = None
    prismatic: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        if np.shape(self.kp) != np.shape(self.kd) or np.ndim(self.kp) != 1 or len(self.kp) == 0:
            raise ValueError(
                "a PD controller needs one kp and one kd a joint, not kp of shape "
                f"{np.shape(self.kp)} "
                f"and kd of shape {np.shape(self.kd)}"
            )

    @property
    def n(self) -> int:
        """The number of joints."""
        return len(self.kp)

    @property
    def _units(self) -> tuple[tuple[str, ...], ...]:
        slides = self.prismatic or (False,) * self.n
        return tuple(zip(*(_LENGTH if slide else _ANGLE for slide in slides), strict=True))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q_ref and q, and without a sample time qd_ref and qd, each (n,)."""
        position, velocity, _ = self._units
        positions = (
            Port("q_ref", (self.n,), position, "reference position"),
            Port("q", (self.n,), position, "measured position"),
        )
        velocities = (
            Port("qd_ref", (self.n,), velocity, "reference velocity", 0.0),
            Port("qd", (self.n,), velocity, "measured velocity"),
        )
        return positions if self.sample_time else (*positions, *velocities)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """tau (n,)."""
        return (
            Port(
                "tau", (self.n,), self._units[2], "joint forces", 0.0 if self.sample_time else None
            ),
        )

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """With a sample time: the held output tau, the last error, and whether there is one yet."""
        if self.sample_time is None:
            return ()
        return (
            *self.outputs,
            Port("e_last", (self.n,), self._units[0], "error at the last sample", 0.0),
            Port("primed", (), "1", "1 once there is a last sample", 0.0),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """kp and kd (n,), and tau_max (n,) where there is a limit."""
        position, velocity, force = self._units
        gains = (
            Port("kp", (self.n,), _per(force, position), "position gain", self.kp, min=0.0),
            Port("kd", (self.n,), _per(force, velocity), "velocity gain", self.kd, min=0.0),
        )
        if self.tau_max is None:
            return gains
        limit = Port(
            "tau_max", (self.n,), force, "force limit", self.tau_max, min=0.0, positive=True
        )
        return (*gains, limit)

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time is None:
            return {}
        e = u.q_ref - u.q
        de = select(x.primed, (e - x.e_last) / self.sample_time, 0.0)
        return {"tau": self._limit(p.kp * e + p.kd * de, p), "e_last": e, "primed": 1.0}

    def output(self, u: Record, p: Record) -> Values:
        if self.sample_time is not None:
            return {}
        return {"tau": self._limit(p.kp * (u.q_ref - u.q) + p.kd * (u.qd_ref - u.qd), p)}

    def _limit(self, tau: Any, p: Record) -> Any:
        return tau if self.tau_max is None else within(tau, -p.tau_max, p.tau_max)


def _per(units: tuple[str, ...], denominators: tuple[str, ...]) -> tuple[str, ...]:
    """The unit of a gain from each denominator to each unit: N.m per rad/s is N.m.s/rad."""
    gains = {"rad": "{}/rad", "m": "{}/m", "rad/s": "{}.s/rad", "m/s": "{}.s/m"}
    return tuple(gains[d].format(unit) for unit, d in zip(units, denominators, strict=True))
