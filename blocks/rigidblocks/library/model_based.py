"""Controllers that know the robot's dynamics."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.dynamics import rnea
from rigidblocks.library.ports import check_model, gravity_port, joint_ports, joint_units
from rigidblocks.loops import actuated_columns, actuator_forces
from rigidblocks.model.model import Model


class ModelBasedController(Block):
    """Joint forces by the model of a robot; with loops those of its `actuated` joints."""

    model: Model
    actuated: tuple[str | int, ...] | None

    def __post_init__(self) -> None:
        check_model(self.model)
        _check_actuated(self.model, self.actuated)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """tau (nv,), and with loops missed (nv,)."""
        return _force_ports(self.model)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity (3,)."""
        return (gravity_port(self.model),)


@dataclass(frozen=True, eq=False)
class InverseDynamicsController(ModelBasedController):
    """The computed-torque controller of a robot: it cancels the dynamics and leaves each joint a
    linear error equation.

        tau = rnea(q, qd, qdd_ref + kp e + kd (qd_ref - qd)),  e = q_ref - q
        d2e/dt2 + kd de/dt + kp e = 0        where the model is the robot's

    At a joint with more freedoms than one, e is the velocity that leads from q to q_ref in unit
    time, in its coordinates. `kp` [1/s^2] and `kd` [1/s] are numbers or (nv,); `gravity` is the
    model's unless the parameter is changed.

    Of a model with loops, tau are the forces of the joints named in `actuated`, all unless given,
    that do the same (`loops.actuator_forces`): along the motions that the loops allow, the error
    obeys the same equation as the inertia measures it. Raises ValueError for joints that there are
    not, and for any in a model without loops, whose joints are all actuated.
    """

    model: Model
    kp: Any
    kd: Any
    actuated: tuple[str | int, ...] | None = None

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q_ref (nq,), qd_ref (nv,), qdd_ref (nv,), q (nq,) and qd (nv,)."""
        q, qd, _, _ = joint_units(self.model.joint)
        return (
            *_reference_ports(self.model),
            Port("q", (self.model.nq,), q, "measured position"),
            Port("qd", (self.model.nv,), qd, "measured velocity"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """kp (nv,), kd (nv,) and gravity (3,)."""
        return (
            Port("kp", (self.model.nv,), "1/s2", "position gain", self.kp, min=0.0),
            Port("kd", (self.model.nv,), "1/s", "velocity gain", self.kd, min=0.0),
            gravity_port(self.model),
        )

    def output(self, u: Record, p: Record) -> Values:
        e = _error(self.model, u.q, u.q_ref)
        qdd = u.qdd_ref + p.kp * e + p.kd * (u.qd_ref - u.qd)
        tau = rnea(self.model, u.q, u.qd, qdd, gravity=p.gravity)
        return _forces(self.model, u.q, tau, self.actuated)


@dataclass(frozen=True, eq=False)
class FeedForward(ModelBasedController):
    """The joint forces that a planned motion takes: tau = rnea(q_ref, qd_ref, qdd_ref), to which a
    controller of the errors adds its own.

    Of a model with loops, tau are the forces of the joints named in `actuated`, all unless given,
    that give the same motion (RBDA 8.12):

        G_u^T u = G^T tau_ID

    Of redundant actuators the forces with the smallest sum of squares; `missed` is what is left of
    the accelerations where they are too few, or where the plan opens the loops. The parameter
    `gravity` is the model's unless it is changed. Raises ValueError as `InverseDynamicsController`
    does.
    """

    model: Model
    actuated: tuple[str | int, ...] | None = None

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q_ref (nq,), qd_ref (nv,) and qdd_ref (nv,)."""
        return _reference_ports(self.model)

    def output(self, u: Record, p: Record) -> Values:
        tau = rnea(self.model, u.q_ref, u.qd_ref, u.qdd_ref, gravity=p.gravity)
        return _forces(self.model, u.q_ref, tau, self.actuated)


@dataclass(frozen=True, eq=False)
class GravityCompensation(ModelBasedController):
    """The joint forces that hold a robot still against gravity: tau = rnea(q, 0, 0).

    The parameter `gravity` is the model's unless it is changed. Of a model with loops, tau are the
    forces of the joints named in `actuated`, all unless given, that do the same
    (`loops.actuator_forces`); `missed` [rad/s^2, m/s^2] is the acceleration that is left where they
    are too few. Raises ValueError as `InverseDynamicsController` does.
    """

    model: Model
    actuated: tuple[str | int, ...] | None = None

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q (nq,)."""
        return joint_ports(self.model, q="measured positions")

    def output(self, u: Record, p: Record) -> Values:
        still = np.zeros(self.model.nv)
        tau = rnea(self.model, u.q, still, still, gravity=p.gravity)
        return _forces(self.model, u.q, tau, self.actuated)


def _reference_ports(model: Model) -> tuple[Port, ...]:
    q, qd, qdd, _ = joint_units(model.joint)
    return (
        Port("q_ref", (model.nq,), q, "reference position"),
        Port("qd_ref", (model.nv,), qd, "reference velocity", 0.0),
        Port("qdd_ref", (model.nv,), qdd, "reference acceleration", 0.0),
    )


def _check_actuated(model: Model, actuated: tuple[str | int, ...] | None) -> None:
    if actuated is not None and not model.constrained:
        raise ValueError(
            f"model '{model.name}' has no loops: all of its joints are actuated, and none can be "
            f"named, not {', '.join(map(str, actuated))}"
        )
    actuated_columns(model, actuated)


def _force_ports(model: Model) -> tuple[Port, ...]:
    """tau and, of a model with loops, what the accelerations lack."""
    tau = joint_ports(model, tau="joint forces")
    if not model.constrained:
        return tau
    units, text = joint_units(model.joint).qdd, "accelerations that the actuators cannot give"
    return (*tau, Port("missed", (model.nv,), units, text))


def _forces(
    model: Model, q: Array, tau: Array, actuated: tuple[str | int, ...] | None
) -> dict[str, Any]:
    """The outputs that do what the forces tau of all joints would."""
    if not model.constrained:
        return {"tau": tau}
    forces = actuator_forces(model, q, tau, actuated)
    return {"tau": forces.tau, "missed": forces.missed}


def _error(model: Model, q: Array, q_ref: Array) -> Array:
    """The joint velocities (nv,) that lead from q to q_ref in unit time, joint by joint."""
    places = zip(model.joint, model.q_slices, strict=True)
    return np.concatenate([joint.difference(q[k], q_ref[k]) for joint, k in places])
