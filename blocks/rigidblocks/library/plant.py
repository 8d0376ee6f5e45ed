"""Robot plants: the dynamics of a model as a block."""

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from rigidblocks.block import Block, Port, Values
from rigidblocks.dynamics import aba, energy
from rigidblocks.model import Model

_WRENCH_UNITS = ("N.m",) * 3 + ("N",) * 3


@dataclass(frozen=True, eq=False)
class RobotPlant(Block):
    """The forward dynamics of a robot: joint forces in, joint motion out.

        H(q) qdd + C(q, qd, f_ext) = tau        solved by the articulated-body algorithm (RBDA Table 7.1)

    `q0` and `qd0` are the state at the start, zero unless given. With `external_wrenches` there is an input `f_ext`
    (nb, 6), the wrench [n; f] on each body in base coordinates about the base origin. The parameter `gravity` is the
    model's unless it is changed.
    """

    model: Model
    q0: Any = 0.0
    qd0: Any = 0.0
    external_wrenches: bool = False

    def __post_init__(self) -> None:
        _ = self.states, self.parameters  # their start values are checked where they are given

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau (nv,), and f_ext (nb, 6) when asked for."""
        units = tuple(unit for joint in self.model.joint for unit in joint.tau_units)
        tau = Port("tau", (self.model.nv,), units, "joint forces", 0.0)
        wrenches = Port(
            "f_ext", (self.model.nb, 6), _WRENCH_UNITS * self.model.nb, "wrench [n; f] on each body, base coordinates", 0.0
        )
        return (tau, wrenches) if self.external_wrenches else (tau,)

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,)."""
        q_units = tuple(unit for joint in self.model.joint for unit in joint.q_units)
        qd_units = tuple(unit for joint in self.model.joint for unit in joint.qd_units)
        return (
            Port("q", (self.model.nq,), q_units, "joint positions", self.q0, rate="qd"),
            Port("qd", (self.model.nv,), qd_units, "joint velocities", self.qd0),
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """q, qd, qdd (nv,) and the mechanical energy."""
        units = tuple(f"{unit}2" for joint in self.model.joint for unit in joint.qd_units)
        return (
            *self.states,
            Port("qdd", (self.model.nv,), units, "joint accelerations"),
            Port("energy", (), "J", "kinetic and potential energy"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity (3,)."""
        return (Port("gravity", (3,), "m/s2", "acceleration of gravity, base coordinates", self.model.gravity),)

    def derivative(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t
        return {"q": x.qd, "qd": self._qdd(x, u, p)}

    def output(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t
        return {"qdd": self._qdd(x, u, p), "energy": energy(self.model, x.q, x.qd, p.gravity)}

    def _qdd(self, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Any:
        return aba(self.model, x.q, x.qd, u.tau, u.f_ext if self.external_wrenches else None, p.gravity)
