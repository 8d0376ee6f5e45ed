"""A plant some of whose joints follow a prescribed motion."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.dynamics import energy, hybrid_dynamics
from rigidblocks.dynamics.elements import Acting
from rigidblocks.dynamics.sweeps import joint_number
from rigidblocks.dynamics.transmissions import geared_accelerations
from rigidblocks.joint import Joint
from rigidblocks.library.elements import Element, Elements, with_loads
from rigidblocks.library.inertias import TunableInertia
from rigidblocks.library.ports import (
    acceleration_port,
    check_open,
    energy_port,
    force_port,
    gravity_port,
    joint_units,
    motion_states,
    start_configuration,
)
from rigidblocks.model.configuration import rate, unit_quaternions
from rigidblocks.model.model import Model
from rigidblocks.model.resistance import check_resistance


@dataclass(frozen=True, eq=False)
class HybridPlant(Block):
    """The hybrid dynamics of a robot: some joints are moved by forces, the others follow a
    prescribed motion.

        H(q) qdd + C(q, qd) = tau        (RBDA Table 9.3)

    `prescribed` names the joints that follow, by name or number. The input `tau` has the forces of
    the other joints; `q_ref`, `qd_ref` and `qdd_ref` have the prescribed motion, which is followed
    with the acceleration

        qdd = qdd_ref + kp (q_ref - q) + kd (qd_ref - qd)

    With `kp` [1/s^2] and `kd` [1/s], numbers or one for each prescribed variable, zero the
    acceleration alone is prescribed, and what the integrator loses is not made good. The forces
    that the motion takes are the output `tau_prescribed`. `q0` and `qd0` are the state at the
    start: the neutral configuration at rest unless given. `elements` are those of `RobotPlant`;
    what they do at a prescribed joint is part of what the motion takes. `inertias` makes masses of
    links and a payload parameters, as there.
    """

    model: Model
    prescribed: tuple[str | int, ...]
    kp: Any = 0.0
    kd: Any = 0.0
    q0: Any = None
    qd0: Any = 0.0
    elements: tuple[Element, ...] = ()
    inertias: TunableInertia | None = None

    def __post_init__(self) -> None:
        check_open(self.model, "HybridPlant")
        follows = tuple(not known for known in self._fd)
        check_resistance(self.model, follows, self._elements.rotor_inertia)
        q0 = start_configuration(self.model, self.q0)
        q0 = self._elements.start(q0, self.qd0, self.q0 is not None)
        object.__setattr__(self, "q0", q0)
        given = self._elements.of_start
        if given and (both := set(given.driven) & set(self._prescribed_variables)):
            raise ValueError(
                f"variable {min(both)} of model '{self.model.name}' is driven by a gear and cannot "
                "be prescribed; prescribe what drives it"
            )

    @cached_property
    def _fd(self) -> tuple[bool, ...]:
        """For every joint whether its force is given."""
        chosen = {joint_number(self.model, joint) for joint in self.prescribed}
        if not chosen or len(chosen) == self.model.nb:
            raise ValueError(
                f"a hybrid plant needs joints of both kinds, but {len(chosen)} of the "
                f"{self.model.nb} joints of model "
                f"'{self.model.name}' are prescribed; RobotPlant has none"
            )
        return tuple(i not in chosen for i in range(self.model.nb))

    def _joints(self, forward: bool) -> tuple[tuple[Joint, slice, slice], ...]:
        """The joints of one kind, with where they have their variables in q and in qd."""
        model = self.model
        every = zip(self._fd, model.joint, model.q_slices, model.v_slices, strict=True)
        return tuple((joint, k, l) for fd, joint, k, l in every if fd == forward)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau of the joints moved by forces; q_ref, qd_ref and qdd_ref of the others."""
        free = [joint for joint, _, _ in self._joints(True)]
        units = joint_units([joint for joint, _, _ in self._joints(False)])
        start = np.concatenate([self.q0[k] for _, k, _ in self._joints(False)])
        return (
            force_port(free, doc="forces of the joints that are not prescribed"),
            Port("q_ref", (len(units.q),), units.q, "prescribed positions", start),
            Port("qd_ref", (len(units.qd),), units.qd, "prescribed velocities", 0.0),
            Port("qdd_ref", (len(units.qdd),), units.qdd, "prescribed accelerations", 0.0),
        )

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,), and what the elements remember."""
        return (*motion_states(self.model.joint, self.q0, self.qd0), *self._elements.states)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """q, qd, qdd (nv,), tau_prescribed of the prescribed joints, the mechanical energy, and the
        forces of the elements.
        """
        units = joint_units([joint for joint, _, _ in self._joints(False)]).tau
        return (
            *self.states,
            acceleration_port(self.model.joint),
            Port(
                "tau_prescribed",
                (len(units),),
                units,
                "forces that the prescribed motion takes",
            ),
            energy_port(),
            *self._elements.outputs,
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """kp and kd of the prescribed variables, gravity (3,), the numbers of the elements, and the
        inertias that can be tuned.
        """
        tuned = () if self.inertias is None else self.inertias.parameters(self.model)
        shape = (sum(joint.nv for joint, _, _ in self._joints(False)),)
        return (
            Port(
                "kp", shape, "1/s2", "gain on the error of prescribed positions", self.kp, min=0.0
            ),
            Port(
                "kd", shape, "1/s", "gain on the error of prescribed velocities", self.kd, min=0.0
            ),
            gravity_port(self.model),
            *self._elements.parameters,
            *tuned,
        )

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        q, qd = self._elements.moving(x.q, x.qd, p)
        acting = self._elements.acting(q, qd, x, p)
        motion = {"q": rate(self.model, q, qd), "qd": self._dynamics(q, qd, u, p, acting)[0]}
        return motion | self._elements.rates(acting)

    def project(self, x: Record, p: Record) -> Values:
        q, qd = self._elements.moving(x.q, x.qd, p)
        if self.model.nq > self.model.nv:
            q = unit_quaternions(self.model, q)
        elif not self._elements.geared:
            return {}
        return {"q": q, "qd": qd} if self._elements.geared else {"q": q}

    def output(self, x: Record, u: Record, p: Record) -> Values:
        q, qd = self._elements.moving(x.q, x.qd, p)
        acting = self._elements.acting(q, qd, x, p)
        qdd, tau = self._dynamics(q, qd, u, p, acting)
        E = energy(self._tuned(p), q, qd, p.gravity) + self._elements.energy(acting, qd, p)
        return {
            "qdd": qdd,
            "tau_prescribed": self._of_prescribed(tau),
            "energy": E,
            **self._elements.values(acting),
        }

    def margins(self, x: Record, p: Record) -> Array:
        """Where stops begin and end to push."""
        return self._elements.margins(x.q, x.qd, x, p)

    def modes(self, x: Record, p: Record) -> Array:
        follows = np.eye(self.model.nv)[list(self._prescribed_variables)]
        return self._elements.modes(x.q, p, K=follows) if self._elements.forces else np.zeros(0)

    @cached_property
    def _elements(self) -> Elements:
        return Elements(self.model, self.elements)

    def _dynamics(
        self, q: Array, qd: Array, u: Record, p: Record, acting: Acting | None
    ) -> tuple[Array, Array]:
        """All accelerations, and all forces that are given or that the motion takes."""
        followed = self._of_prescribed(qd)
        qdd = u.qdd_ref + p.kp * self._error(q, u.q_ref) + p.kd * (u.qd_ref - followed)
        qdd = self._spread(qdd, False)
        tau, f_ext = with_loads(acting, self._spread(u.tau, True), None)
        model, given = self._tuned(p), self._elements.transmissions(p)
        if given is not None and given.driven:
            which = self._prescribed_variables
            found = geared_accelerations(model, given, q, qd, qdd, tau, which, f_ext, p.gravity)
            return found.qdd, found.tau
        I_rot = None if given is None else given.rotor_inertia
        found = hybrid_dynamics(model, self._fd, q, qd, qdd, tau, f_ext, p.gravity, I_rot)
        return found.qdd, found.tau if acting is None else found.tau - acting.loads.tau

    def _tuned(self, p: Record) -> Model:
        """The model that the parameters say: the given one without inertias to tune."""
        return self.model if self.inertias is None else self.inertias.tuned(self.model, p)

    @cached_property
    def _prescribed_variables(self) -> tuple[int, ...]:
        return tuple(k for _, _, l in self._joints(False) for k in range(l.start, l.stop))

    def _of_prescribed(self, v: Array) -> Array:
        """The elements of v (nv,) that belong to the prescribed joints."""
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
