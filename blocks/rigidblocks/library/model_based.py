"""Controllers that know the robot's dynamics."""

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from rigidblocks.block import Block, Port, Values
from rigidblocks.dynamics import rnea
from rigidblocks.library.ports import gravity_port, joint_ports, joint_units
from rigidblocks.model import Model
from rigidblocks.spatial import Array


@dataclass(frozen=True, eq=False)
class InverseDynamicsController(Block):
    """The computed-torque controller of a robot: it cancels the dynamics and leaves each joint a linear error equation.

        tau = rnea(q, qd, qdd_ref + kp e + kd de),  e = q_ref - q,  de = qd_ref - qd
        d2e/dt2 + kd de/dt + kp e = 0        where the model is the robot's

    At a joint with more freedoms than one, e is the velocity that leads from q to q_ref in unit time, in its coordinates.
    `kp` [1/s^2] and `kd` [1/s] are numbers or (nv,); `gravity` is the model's unless the parameter is changed.
    """

    model: Model
    kp: Any
    kd: Any

    def __post_init__(self) -> None:
        _ = self.parameters  # their values are checked where they are given

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q_ref (nq,), qd_ref (nv,), qdd_ref (nv,), q (nq,) and qd (nv,)."""
        q, qd, qdd, _ = joint_units(self.model.joint)
        return (
            Port("q_ref", (self.model.nq,), q, "reference position"),
            Port("qd_ref", (self.model.nv,), qd, "reference velocity", 0.0),
            Port("qdd_ref", (self.model.nv,), qdd, "reference acceleration", 0.0),
            Port("q", (self.model.nq,), q, "measured position"),
            Port("qd", (self.model.nv,), qd, "measured velocity"),
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """tau (nv,)."""
        return joint_ports(self.model, tau="joint forces")

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """kp (nv,), kd (nv,) and gravity (3,)."""
        return (
            Port("kp", (self.model.nv,), "1/s2", "position gain", self.kp, min=0.0),
            Port("kd", (self.model.nv,), "1/s", "velocity gain", self.kd, min=0.0),
            gravity_port(self.model),
        )

    def output(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t, x
        e = _error(self.model, u.q, u.q_ref)
        qdd = u.qdd_ref + p.kp * e + p.kd * (u.qd_ref - u.qd)
        return {"tau": rnea(self.model, u.q, u.qd, qdd, gravity=p.gravity)}


@dataclass(frozen=True, eq=False)
class GravityCompensation(Block):
    """The joint forces that hold a robot still against gravity: tau = rnea(q, 0, 0).

    The parameter `gravity` is the model's unless it is changed.
    """

    model: Model

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q (nq,)."""
        return joint_ports(self.model, q="measured positions")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """tau (nv,)."""
        return joint_ports(self.model, tau="joint forces")

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity (3,)."""
        return (gravity_port(self.model),)

    def output(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t, x
        still = np.zeros(self.model.nv)
        return {"tau": rnea(self.model, u.q, still, still, gravity=p.gravity)}


def _error(model: Model, q: Array, q_ref: Array) -> Array:
    """The joint velocities (nv,) that lead from q to q_ref in unit time, joint by joint."""
    places = zip(model.joint, model.q_slices, strict=True)
    return np.concatenate([joint.difference(q[k], q_ref[k]) for joint, k in places])
