"""A plant some of whose joints move as they are told."""

from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np

from rigidblocks.block import Block, Port, Values
from rigidblocks.configuration import rate, unit_quaternions
from rigidblocks.dynamics import energy, hybrid_dynamics
from rigidblocks.joint import Joint
from rigidblocks.library.ports import check_open, gravity_port, joint_units, motion_states, start_configuration
from rigidblocks.model import Model
from rigidblocks.spatial import Array


@dataclass(frozen=True, eq=False)
class HybridPlant(Block):
    """The hybrid dynamics of a robot: some joints are moved by forces, the others follow a prescribed motion.

        H(q) qdd + C(q, qd) = tau        (RBDA Table 9.3)

    `prescribed` names the joints that follow, by name or number. The input `tau` has the forces of the other joints;
    `q_ref`, `qd_ref` and `qdd_ref` have the prescribed motion, which is followed with the acceleration

        qdd = qdd_ref + kp (q_ref - q) + kd (qd_ref - qd)

    With `kp` [1/s^2] and `kd` [1/s], numbers or one for each prescribed variable, zero the acceleration alone is
    prescribed, and what the integrator loses is not made good. The forces that the motion takes are the output
    `tau_prescribed`. `q0` and `qd0` are the state at the start: the neutral configuration at rest unless given.
    """

    model: Model
    prescribed: tuple[str | int, ...]
    kp: Any = 0.0
    kd: Any = 0.0
    q0: Any = None
    qd0: Any = 0.0

    def __post_init__(self) -> None:
        check_open(self.model, "HybridPlant")
        object.__setattr__(self, "q0", start_configuration(self.model, self.q0))
        _ = self.states, self._fd, self.parameters  # their values are checked where they are given

    @cached_property
    def _fd(self) -> tuple[bool, ...]:
        """For every joint whether its force is given."""
        chosen = {self._number(joint) for joint in self.prescribed}
        if not chosen or len(chosen) == self.model.nb:
            raise ValueError(
                f"a hybrid plant needs joints of both kinds, but {len(chosen)} of the {self.model.nb} joints of model "
                f"'{self.model.name}' are prescribed; RobotPlant has none"
            )
        return tuple(i not in chosen for i in range(self.model.nb))

    def _number(self, joint: str | int) -> int:
        names = self.model.joint_names
        if joint in names:
            return names.index(str(joint))
        if isinstance(joint, int) and 0 <= joint < self.model.nb:
            return joint
        raise ValueError(
            f"model '{self.model.name}' has no joint {joint!r} to prescribe; it has: {', '.join(names)}, "
            f"or 0 to {self.model.nb - 1}"
        )

    def _joints(self, forward: bool) -> tuple[tuple[Joint, slice, slice], ...]:
        """The joints of one kind, with where they have their variables in q and in qd."""
        model = self.model
        every = zip(self._fd, model.joint, model.q_slices, model.v_slices, strict=True)
        return tuple((joint, k, l) for fd, joint, k, l in every if fd == forward)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau of the joints moved by forces; q_ref, qd_ref and qdd_ref of the others."""
        free = joint_units([joint for joint, _, _ in self._joints(True)])
        told = joint_units([joint for joint, _, _ in self._joints(False)])
        start = np.concatenate([self.q0[k] for _, k, _ in self._joints(False)])
        return (
            Port("tau", (len(free.tau),), free.tau, "forces of the joints that are not prescribed", 0.0),
            Port("q_ref", (len(told.q),), told.q, "prescribed positions", start),
            Port("qd_ref", (len(told.qd),), told.qd, "prescribed velocities", 0.0),
            Port("qdd_ref", (len(told.qdd),), told.qdd, "prescribed accelerations", 0.0),
        )

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,)."""
        return motion_states(self.model, slice(None), self.q0, self.qd0)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """q, qd, qdd (nv,), tau_prescribed of the prescribed joints, and the mechanical energy."""
        told = joint_units([joint for joint, _, _ in self._joints(False)])
        return (
            *self.states,
            Port("qdd", (self.model.nv,), joint_units(self.model.joint).qdd, "joint accelerations"),
            Port("tau_prescribed", (len(told.tau),), told.tau, "forces that the prescribed motion takes"),
            Port("energy", (), "J", "kinetic and potential energy"),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """kp and kd of the prescribed variables, and gravity (3,)."""
        shape = (sum(joint.nv for joint, _, _ in self._joints(False)),)
        return (
            Port("kp", shape, "1/s2", "gain on the error of prescribed positions", self.kp, min=0.0),
            Port("kd", shape, "1/s", "gain on the error of prescribed velocities", self.kd, min=0.0),
            gravity_port(self.model),
        )

    def derivative(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t
        return {"q": rate(self.model, x.q, x.qd), "qd": self._dynamics(x, u, p)[0]}

    def project(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t, u, p
        return {"q": unit_quaternions(self.model, x.q)} if self.model.nq > self.model.nv else {}

    def output(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t
        qdd, tau = self._dynamics(x, u, p)
        told = np.concatenate([tau[l] for _, _, l in self._joints(False)])
        return {"qdd": qdd, "tau_prescribed": told, "energy": energy(self.model, x.q, x.qd, p.gravity)}

    def _dynamics(self, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> tuple[Array, Array]:
        """All accelerations and all forces."""
        qdd = self._spread(u.qdd_ref + p.kp * self._error(x.q, u.q_ref) + p.kd * (u.qd_ref - self._told(x.qd)), False)
        return hybrid_dynamics(self.model, self._fd, x.q, x.qd, qdd, self._spread(u.tau, True), gravity=p.gravity)

    def _told(self, v: Array) -> Array:
        return np.concatenate([v[l] for _, _, l in self._joints(False)])

    def _error(self, q: Array, q_ref: Array) -> Array:
        """The velocities of the prescribed joints that lead from q to q_ref in unit time."""
        errors, start = [], 0
        for joint, k, _ in self._joints(False):
            errors.append(joint.difference(q[k], q_ref[start : start + joint.nq]))
            start += joint.nq
        return np.concatenate(errors)

    def _spread(self, values: Array, forward: bool) -> Array:
        """The values of the joints of one kind at their places among all (nv,), zeros elsewhere."""
        every, start = np.zeros(self.model.nv, dtype=values.dtype), 0
        for joint, _, l in self._joints(forward):
            every[l] = values[start : start + joint.nv]
            start += joint.nv
        return every
