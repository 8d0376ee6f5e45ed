"""Robot plants, which are blocks with the forward dynamics of a robot model."""

import abc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, StartRelation, Values, finite
from rigidblocks.dynamics import aba, aba_with_rotors, energy, equivalent, hybrid_dynamics
from rigidblocks.dynamics.floating_base import (
    aba_floating,
    crba_floating,
    floating_body,
    forward_dynamics_crba_floating,
)
from rigidblocks.dynamics.force_elements import Compliance, ElementEffects
from rigidblocks.dynamics.joint_kinematics import joint_number
from rigidblocks.dynamics.loops import position_constraints
from rigidblocks.dynamics.model_reduction import align_joint_axes
from rigidblocks.dynamics.transmissions import Transmissions, geared_accelerations
from rigidblocks.library.common_ports import (
    acceleration_port,
    check_open,
    energy_port,
    force_port,
    gravity_port,
    joint_units,
    motion_states,
    set_nominal_values,
    start_configuration,
    wrench_port,
)
from rigidblocks.library.plant_ports import Element, Elements, TunableInertia, add_loads
from rigidblocks.robot.configuration import rate, singular_joints
from rigidblocks.robot.joints import Joint, SixDoF
from rigidblocks.robot.model import Model
from rigidblocks.robot.tree import Tree, check_moved_inertia
from rigidblocks.spatial.rigid_motion import (
    normalized_quaternion,
    quaternion_rate,
    quaternion_rotation,
)
from rigidblocks.spatial.spatial import Array, Transform, identity


class Plant(Block):
    """Base class of plants, which are blocks with the forward dynamics of a robot.

    Contact blocks use this interface to add forces on the bodies.
    """

    model: Tree
    inertias: TunableInertia | None = None

    @property
    @abc.abstractmethod
    def configuration_model(self) -> Tree:
        """Model with the joint variables that `configuration` returns.

        In this model, a floating base is a joint with six degrees of freedom.
        """

    @abc.abstractmethod
    def configuration(self, x: Record) -> tuple[Array, Array]:
        """Return the joint variables q (nq,) and qd (nv,) of `configuration_model` at states x."""

    @abc.abstractmethod
    def add_wrench_input(self) -> "Plant":
        """Return a copy of the plant with the input f_ext, the external wrenches on the bodies."""

    @property
    @abc.abstractmethod
    def force_elements(self) -> Elements:
        """Force elements and drives of the plant.

        They act on the joints and bodies of `configuration_model`.
        """

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for gravity, the coefficients of the elements, and tunable inertias."""
        tuned = () if self.inertias is None else self.inertias.parameters(self.model)
        return (gravity_port(self.model), *self.force_elements.parameters, *tuned)

    def switching_functions(self, x: Record, p: Record) -> Array:
        """Return the switching functions (n,); a sign changes when a stop engages or releases."""
        return self.force_elements.margins(*self.configuration(x), x, p)

    def suspects(self, x: Record) -> Iterator[str]:
        """Yield a message for each joint whose coordinates are singular at the states x."""
        return singular_joints(self.configuration_model, self.configuration(x)[0])

    def modes(self, x: Record, p: Record) -> Array:
        return self.modes_with(x, p)

    def modes_with(self, x: Record, p: Record, compliance: Compliance | None = None) -> Array:
        """Return the eigenvalues (n,) [1/s] of the plant with its force elements and contacts.

        `compliance` is the compliance of the contacts, or None. If the plant has neither force
        elements nor contacts, n is 0.
        """
        q, elements = self.configuration(x)[0], self.force_elements
        if not (elements.forces or elements.drives) and compliance is None:
            return np.zeros(0)
        model = self.configuration_model
        K = position_constraints(model, q).K if model.has_constraints else None
        return elements.modes(q, p, compliance, K)


class JointPlant(Plant):
    """Base class of plants whose states are the joint positions q and joint velocities qd."""

    q0: Any
    qd0: Any
    elements: tuple[Element, ...]
    nominal: Mapping[str, Any]

    @property
    def start_relations(self) -> tuple[StartRelation, ...]:
        return self._elements.start_relations

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """State ports for q (nq,), qd (nv,), and the states of the force elements."""
        motion = motion_states(self.model.joint, self.q0, self.qd0)
        return (
            *set_nominal_values(motion, self.nominal),
            *self._elements.states(self.q0, self.qd0),
        )

    @property
    def configuration_model(self) -> Tree:
        return self.model

    def configuration(self, x: Record) -> tuple[Array, Array]:
        return x.q, x.qd

    @property
    def force_elements(self) -> Elements:
        return self._elements

    @cached_property
    def _elements(self) -> Elements:
        return Elements(self.model, self.elements)

    def _check_elements(self) -> None:
        """Raise ValueError if a time-dependent model has force elements."""
        if self.model.rheonomic and self.elements:
            raise ValueError(
                f"model '{self.model.name}' depends on time, which force elements do not support; "
                "use blocks for these forces"
            )


@dataclass(frozen=True, eq=False)
class RobotPlant(JointPlant):
    """Plant with the forward dynamics of a robot.

        H(q) qdd + C(q, qd, f_ext) = tau   solved by the articulated-body algorithm (RBDA Table 7.1)

    H is the joint-space inertia matrix. C is the bias force, which contains Coriolis, centrifugal,
    gravity and external forces.

    `q0` and `qd0` are the initial configuration and velocity, by default the neutral configuration
    at rest. The plant normalizes quaternions in `q0` and after every inner step.
    `external_wrenches` adds the input `f_ext` (nb, 6), the wrench [n; f] on each body about the
    base origin, in base coordinates. `rotor_inertia` (nv,) [kg m^2] is the reflected rotor inertia,
    the squared gear ratio times the rotor inertia (RBDA 9.6). The parameter `gravity` defaults to
    the gravity of the model.

    `elements` are springs, dampers, friction and stops (`ForceElement`), and rotors, gears and
    motors (`Drive`). The plant evaluates the forces of the elements at every stage of the
    integrator. The commands of drives are inputs of the plant. The coefficients of elements are
    parameters, and the forces of elements are outputs. The output `energy` includes the energy of
    the elements. If a gear drives a joint, the gear determines the states of this joint. `inertias`
    adds parameters for the masses of the links and for a payload (`TunableInertia`).

    `nominal` maps the ports q, qd and tau to their orders of magnitude, 1 by default. Tools and the
    tolerances of adaptive steps use these values.

    Raises:
        ValueError: A quaternion in `q0` is zero, or the model, the elements or the rotor inertias
            are invalid.
    """

    model: Model
    q0: Any = None
    qd0: Any = 0.0
    external_wrenches: bool = False
    rotor_inertia: Any = None
    elements: tuple[Element, ...] = ()
    inertias: TunableInertia | None = None
    nominal: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.rotor_inertia is not None:
            I_rot = finite(self.rotor_inertia, (self.model.nv,), "rotor_inertia")
            if np.any(I_rot < 0):
                raise ValueError(f"rotor_inertia must not be negative, not {I_rot.tolist()} kg m^2")
            object.__setattr__(self, "rotor_inertia", I_rot)
        check_open(self.model, "RobotPlant")
        self._check_elements()
        check_moved_inertia(
            self.model, rotor_inertia=self._reflected_inertia(self._elements.start_transmissions)
        )
        q0 = start_configuration(self.model, self.q0)
        q0 = self._elements.start(q0, self.qd0, self.q0 is not None)
        object.__setattr__(self, "q0", q0)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for tau (nv,), f_ext (nb, 6) if requested, and the commands of drives."""
        tau = set_nominal_values([force_port(self.model.joint)], self.nominal)
        wrench = (wrench_port(self.model),) if self.external_wrenches else ()
        return (*tau, *wrench, *self._elements.inputs)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the states, qdd (nv,), the energy, and the force of each element."""
        return (
            *self.states,
            acceleration_port(self.model.joint),
            energy_port(),
            *self._elements.outputs,
        )

    def add_wrench_input(self) -> "RobotPlant":
        return replace(self, external_wrenches=True)

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        q, qd = self._elements.project_to_gears(x.q, x.qd, p)
        effects = self._elements.element_effects(q, qd, x, p, u)
        motion = {"q": rate(self.model, q, qd), "qd": self._qdd(t, q, qd, u, p, effects)}
        return motion | self._elements.rates(effects)

    def project(self, x: Record, p: Record) -> Values:
        return self._elements.projected_motion(x.q, x.qd, p)

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        q, qd = self._elements.project_to_gears(x.q, x.qd, p)
        effects = self._elements.element_effects(q, qd, x, p, u)
        model = self._model_with_parameters(self.aligned_model, p).evaluate_at(t)
        E = self.tree_energy(model, q, qd, p.gravity)
        if self.rotor_inertia is not None:
            E = E + self.rotor_inertia @ (qd * qd) / 2
        return {
            "qdd": self._qdd(t, q, qd, u, p, effects),
            "energy": E + self._elements.energy(effects, qd, p),
            **self._elements.values(effects),
        }

    def tree_accelerations(
        self, model: Model, q: Array, qd: Array, tau: Array, f_ext: Array | None, gravity: Array
    ) -> Array:
        """Return the joint accelerations (nv,) of the tree (`aba`).

        For plants with many bodies, `kernels/plant_loops.py` replaces this method and `tree_energy`
        by C loops over the bodies.
        """
        return aba(model, q, qd, tau, f_ext, gravity)

    def tree_energy(self, model: Model, q: Array, qd: Array, gravity: Array) -> Any:
        """Return the energy of the bodies [J], as `dynamics.energy`."""
        return energy(model, q, qd, gravity)

    @cached_property
    def aligned_model(self) -> Model:
        """Model for `tree_energy`, which rotates the body frames to reduce the operations.

        In this model, the axes of joints with a general axis are z axes (`align_joint_axes`).
        """
        return align_joint_axes(self.model)

    @cached_property
    def equivalent_model(self) -> Model:
        """Dynamically equivalent model, for which the algorithms need the fewest operations."""
        return equivalent(self.aligned_model) if isinstance(self.model, Model) else self.model

    def _qdd(
        self, t: Any, q: Array, qd: Array, u: Record, p: Record, effects: ElementEffects | None
    ) -> Any:
        tau, f_ext = add_loads(effects, u.tau, u.f_ext if self.external_wrenches else None)
        model, given = (
            self._model_with_parameters(self.equivalent_model, p).evaluate_at(t),
            self._elements.transmissions(p),
        )
        I_rot = self._reflected_inertia(given)
        if given is not None and given.driven:
            given, none = given._replace(rotor_inertia=I_rot), np.zeros(model.nv)
            return geared_accelerations(model, given, q, qd, none, tau, (), f_ext, p.gravity).qdd
        if I_rot is None:
            return self.tree_accelerations(model, q, qd, tau, f_ext, p.gravity)
        return aba_with_rotors(model, q, qd, tau, I_rot, f_ext, p.gravity)

    def _model_with_parameters(self, model: Model, p: Record) -> Model:
        """Return the model with the tunable inertias in p.

        If no inertias are tunable, return `model` unchanged.
        """
        return (
            model if self.inertias is None else self.inertias.model_with_parameters(self.model, p)
        )

    def _reflected_inertia(self, transmissions: Transmissions | None) -> Any:
        """Return the reflected rotor inertias (nv,) [kg m^2], or None if no rotor exists."""
        I_rot = self.rotor_inertia
        if transmissions is None:
            return I_rot
        return transmissions.rotor_inertia if I_rot is None else transmissions.rotor_inertia + I_rot


@dataclass(frozen=True, eq=False)
class HybridPlant(Block):
    """Plant with the hybrid dynamics of a robot, in which some joints have prescribed motion.

        H(q) qdd + C(q, qd) = tau        (RBDA Table 9.3)

    H is the joint-space inertia matrix, and C is the bias force. `prescribed` contains the names or
    indices of the joints with prescribed motion. The input `tau` contains the forces of all other
    joints. The inputs `q_ref`, `qd_ref` and `qdd_ref` contain the prescribed motion. The
    acceleration of the prescribed joints is

        qdd = qdd_ref + kp (q_ref - q) + kd (qd_ref - qd)

    `kp` [1/s^2] and `kd` [1/s] are scalars or have one value for each prescribed variable. If both
    gains are zero, the plant prescribes only the acceleration and does not correct integration
    errors. The output `tau_prescribed` contains the forces that the prescribed motion requires.

    `q0` and `qd0` are the initial configuration and velocity, by default the neutral configuration
    at rest. `elements` and `inertias` are as in `RobotPlant`. tau_prescribed includes the effect of
    the elements on prescribed joints.

    Raises:
        ValueError: `prescribed` contains no joint, all joints or an unknown joint. The model
            depends on time or has loops. A prescribed joint is driven by a gear, or a joint moves
            no inertia. The initial configuration is invalid.
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
        check_moved_inertia(self.model, follows, self._elements.rotor_inertia)
        q0 = start_configuration(self.model, self.q0)
        q0 = self._elements.start(q0, self.qd0, self.q0 is not None)
        object.__setattr__(self, "q0", q0)
        given = self._elements.start_transmissions
        if given and (both := set(given.driven) & set(self._prescribed_variables)):
            raise ValueError(
                f"variable {min(both)} of model '{self.model.name}' is driven by a gear and cannot "
                "be prescribed; prescribe its source joint"
            )

    @cached_property
    def _fd(self) -> tuple[bool, ...]:
        """Mask (nb,): True for joints with given forces, False for prescribed joints."""
        chosen = {joint_number(self.model, joint) for joint in self.prescribed}
        if not chosen or len(chosen) == self.model.nb:
            raise ValueError(
                f"a hybrid plant needs prescribed and force-driven joints, but {len(chosen)} of "
                f"the {self.model.nb} joints of model '{self.model.name}' are prescribed; use "
                "RobotPlant if no joint is prescribed"
            )
        return tuple(i not in chosen for i in range(self.model.nb))

    def _joints(self, forward: bool) -> tuple[tuple[Joint, slice, slice], ...]:
        """Return tuples (joint, slice in q, slice in qd) of the selected joints.

        If `forward` is True, these are the joints with given forces, else the prescribed joints.
        """
        model = self.model
        every = zip(self._fd, model.joint, model.q_slices, model.v_slices, strict=True)
        return tuple((joint, k, l) for fd, joint, k, l in every if fd == forward)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for the forces tau, and for the motion of the prescribed joints.

        The prescribed motion consists of q_ref, qd_ref and qdd_ref of the prescribed joints.
        """
        free = [joint for joint, _, _ in self._joints(True)]
        units = joint_units([joint for joint, _, _ in self._joints(False)])
        start = np.concatenate([self.q0[k] for _, k, _ in self._joints(False)])
        return (
            force_port(free, doc="forces of the joints that are not prescribed"),
            Port("q_ref", (len(units.q),), units.q, "prescribed positions", start),
            Port("qd_ref", (len(units.qd),), units.qd, "prescribed velocities", 0.0),
            Port("qdd_ref", (len(units.qdd),), units.qdd, "prescribed accelerations", 0.0),
            *self._elements.inputs,
        )

    @property
    def start_relations(self) -> tuple[StartRelation, ...]:
        return self._elements.start_relations

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """State ports for q (nq,), qd (nv,), and the states of the force elements."""
        return (
            *motion_states(self.model.joint, self.q0, self.qd0),
            *self._elements.states(self.q0, self.qd0),
        )

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the states, qdd, tau_prescribed, the energy and the element forces."""
        units = joint_units([joint for joint, _, _ in self._joints(False)]).tau
        return (
            *self.states,
            acceleration_port(self.model.joint),
            Port(
                "tau_prescribed",
                (len(units),),
                units,
                "forces that the prescribed motion requires",
            ),
            energy_port(),
            *self._elements.outputs,
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameter ports for kp, kd, gravity, element coefficients and tunable inertias."""
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
        q, qd = self._elements.project_to_gears(x.q, x.qd, p)
        effects = self._elements.element_effects(q, qd, x, p, u)
        motion = {"q": rate(self.model, q, qd), "qd": self._dynamics(q, qd, u, p, effects)[0]}
        return motion | self._elements.rates(effects)

    def project(self, x: Record, p: Record) -> Values:
        return self._elements.projected_motion(x.q, x.qd, p)

    def output(self, x: Record, u: Record, p: Record) -> Values:
        q, qd = self._elements.project_to_gears(x.q, x.qd, p)
        effects = self._elements.element_effects(q, qd, x, p, u)
        qdd, tau = self._dynamics(q, qd, u, p, effects)
        E = energy(self._model_with_parameters(p), q, qd, p.gravity) + self._elements.energy(
            effects, qd, p
        )
        return {
            "qdd": qdd,
            "tau_prescribed": self._select_prescribed(tau),
            "energy": E,
            **self._elements.values(effects),
        }

    def switching_functions(self, x: Record, p: Record) -> Array:
        """Return the switching functions (n,); a sign changes when a stop engages or releases."""
        return self._elements.margins(x.q, x.qd, x, p)

    def modes(self, x: Record, p: Record) -> Array:
        follows = np.eye(self.model.nv)[list(self._prescribed_variables)]
        return (
            self._elements.modes(x.q, p, K=follows)
            if self._elements.forces or self._elements.drives
            else np.zeros(0)
        )

    @cached_property
    def _elements(self) -> Elements:
        return Elements(self.model, self.elements)

    def _dynamics(
        self, q: Array, qd: Array, u: Record, p: Record, effects: ElementEffects | None
    ) -> tuple[Array, Array]:
        """Return the accelerations qdd (nv,) and the forces tau (nv,) of all joints.

        `effects` contains the loads of the force elements, or is None without elements.
        """
        followed = self._select_prescribed(qd)
        qdd = u.qdd_ref + p.kp * self._error(q, u.q_ref) + p.kd * (u.qd_ref - followed)
        qdd = self._scatter(qdd, False)
        tau, f_ext = add_loads(effects, self._scatter(u.tau, True), None)
        model, given = self._model_with_parameters(p), self._elements.transmissions(p)
        if given is not None and given.driven:
            which = self._prescribed_variables
            found = geared_accelerations(model, given, q, qd, qdd, tau, which, f_ext, p.gravity)
            return found.qdd, found.tau
        I_rot = None if given is None else given.rotor_inertia
        found = hybrid_dynamics(model, self._fd, q, qd, qdd, tau, f_ext, p.gravity, I_rot)
        return found.qdd, found.tau if effects is None else found.tau - effects.loads.tau

    def _model_with_parameters(self, p: Record) -> Model:
        """Return the model with the tunable inertias in p.

        If no inertias are tunable, return the original model.
        """
        return (
            self.model
            if self.inertias is None
            else self.inertias.model_with_parameters(self.model, p)
        )

    @cached_property
    def _prescribed_variables(self) -> tuple[int, ...]:
        return tuple(k for _, _, l in self._joints(False) for k in range(l.start, l.stop))

    def _select_prescribed(self, v: Array) -> Array:
        """Return the elements of a vector v (nv,) for the prescribed joints."""
        return np.concatenate([v[l] for _, _, l in self._joints(False)])

    def _error(self, q: Array, q_ref: Array) -> Array:
        """Return the position errors of the prescribed joints.

        The error of a joint is the constant velocity that moves it from q to q_ref in 1 s. q (nq,)
        contains the positions of all joints, and q_ref the positions of the prescribed joints.
        """
        errors, start = [], 0
        for joint, k, _ in self._joints(False):
            errors.append(joint.difference(q[k], q_ref[start : start + joint.nq]))
            start += joint.nq
        return np.concatenate(errors)

    def _scatter(self, values: Array, forward: bool) -> Array:
        """Return a vector (nv,) with values of the selected joints, and zeros for other joints.

        `forward` is True for the joints with given forces, and False for the prescribed joints.
        """
        every, start = np.zeros(self.model.nv, dtype=values.dtype), 0
        for joint, _, l in self._joints(forward):
            every[l] = values[start : start + joint.nv]
            start += joint.nv
        return every


_TWIST = ("rad/s",) * 3 + ("m/s",) * 3
_MOMENTUM = ("N.m.s",) * 3 + ("N.s",) * 3


@dataclass(frozen=True, eq=False)
class FloatingBasePlant(Plant):
    """Plant with the forward dynamics of a robot with a floating base.

        I_0^A a_0 + p_0^A = 0        (RBDA Table 9.4)

    I_0^A and p_0^A are the articulated-body inertia and bias force of the base, and a_0 is the
    acceleration of the base. The states of the base are its pose and its velocity. The orientation,
    a unit quaternion (4,) with the scalar first, and the position (3,) [m] are in fixed
    coordinates. The velocity [w; v] (6,) is in base coordinates. The plant normalizes quaternions
    at the start and after every inner step.

    q and qd are the positions and velocities of the joints outboard of the base. If the model has
    no such joints, the plant has no ports for q, qd, qdd and tau. `q0` defaults to the neutral
    configuration.

    The output `com` (3,) is the centre of mass of the whole robot, in fixed coordinates. The output
    `momentum` (6,) contains the angular momentum of the robot about the fixed origin and its linear
    momentum, in fixed coordinates. `external_wrenches` adds the input `f_ext` (nb, 6), in fixed
    coordinates. `elements` apply forces to joints outboard of the base, between bodies, or between
    bodies and fixed points. `elements` and `nominal` are as in `RobotPlant`.

    Raises:
        ValueError: The model has no floating base or has loops, a joint moves no inertia, or the
            initial pose or configuration is invalid.
    """

    model: Model
    quaternion0: Any = (1.0, 0.0, 0.0, 0.0)
    position0: Any = 0.0
    velocity0: Any = 0.0
    q0: Any = None
    qd0: Any = 0.0
    external_wrenches: bool = False
    elements: tuple[Element, ...] = ()
    nominal: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_open(self.model, "FloatingBasePlant")
        check_moved_inertia(self.model, rotor_inertia=self._elements.rotor_inertia)
        quaternion = finite(self.quaternion0, (4,), "the start value of port 'quaternion'")
        if not np.any(quaternion):
            raise ValueError("the quaternion of a floating base must not be zero")
        object.__setattr__(self, "quaternion0", normalized_quaternion(quaternion))
        chosen, given = self._joints, self.q0 is not None
        q0 = (
            np.concatenate([np.zeros(0), *(joint.neutral() for joint in chosen)])
            if self.q0 is None
            else self.q0
        )
        q0 = finite(q0, (sum(joint.nq for joint in chosen),), "the start value of port 'q'")
        object.__setattr__(self, "q0", self._unit_quaternions(q0))
        if not np.all(np.isfinite(self.q0)):
            raise ValueError(f"a quaternion in q0 of a floating base plant is zero: {q0.tolist()}")
        qd0 = np.concatenate([np.zeros(6), finite(self.qd0, (self.model.nv - 6,), "qd0")])
        start = self._elements.start(np.concatenate([np.zeros(7), self.q0]), qd0, given)
        object.__setattr__(self, "q0", start[7:])

    @cached_property
    def _base(self) -> int:
        """Index of the floating base body; raises ValueError if the model has no floating base."""
        return floating_body(self.model)

    @property
    def _joints(self) -> tuple[Joint, ...]:
        """Joints outboard of the base."""
        return self.model.joint[self._base + 1 :]

    @cached_property
    def configuration_model(self) -> Model:
        model, base = self.model, self._base
        other_joints = slice(base + 1, None)
        return Model(
            model.name,
            (-1, *(p - base for p in model.parent[other_joints])),
            (SixDoF(), *model.joint[other_joints]),
            (identity(), *model.Xtree[other_joints]),
            model.inertia[base:],
            body_names=model.body_names[base:],
            joint_names=model.joint_names[base:],
            massless=tuple(name for name in model.massless if name in model.body_names[base:]),
            appearance=model.appearance[base:],
            contact=model.contact[base:],
            unphysical=model.unphysical,
        )

    def configuration(self, x: Record) -> tuple[Array, Array]:
        q, qd = (x.q, x.qd) if self._has_joints else (np.zeros(0), np.zeros(0))
        return np.concatenate([x.quaternion, x.position, q]), np.concatenate([x.velocity, qd])

    def add_wrench_input(self) -> "FloatingBasePlant":
        return replace(self, external_wrenches=True)

    @property
    def _has_joints(self) -> bool:
        return self.model.nv > 6

    @property
    def _has_quaternions(self) -> bool:
        return any(joint.nq > joint.nv for joint in self._joints)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input ports for tau (nv - 6,), f_ext (nb, 6) if requested, and the commands of drives."""
        tau = set_nominal_values(
            [force_port(self._joints)] if self._has_joints else [], self.nominal
        )
        wrench = (wrench_port(self.model),) if self.external_wrenches else ()
        return (*tau, *wrench, *self._elements.inputs)

    @cached_property
    def start_relations(self) -> tuple[StartRelation, ...]:
        return tuple(
            relation._replace(
                terms=tuple(
                    (name, k - (7 if name == "q" else 6), w) for name, k, w in relation.terms
                )
            )
            for relation in self._elements.start_relations
        )

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """State ports for the pose and velocity of the base, q, qd, and the element states."""
        base = (
            Port(
                "quaternion",
                (4,),
                "1",
                "orientation of the base, scalar first",
                self.quaternion0,
                "velocity",
                min=-1.0,
                max=1.0,
            ),
            Port(
                "position",
                (3,),
                "m",
                "position of the base, fixed coordinates",
                self.position0,
                "velocity",
            ),
            Port(
                "velocity",
                (6,),
                _TWIST,
                "velocity [w; v] of the base, base coordinates",
                self.velocity0,
            ),
        )
        joints = motion_states(self._joints, self.q0, self.qd0) if self._has_joints else ()
        q0 = np.concatenate([np.zeros(7), self.q0])
        qd0 = np.concatenate([np.zeros(6), finite(self.qd0, (self.model.nv - 6,), "qd0")])
        elements = self._elements.states(q0, qd0)
        return (*base, *set_nominal_values(joints, self.nominal), *elements)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for states, accelerations, centre of mass, momentum, energy and forces."""
        accelerations = tuple(f"{unit}2" for unit in _TWIST)
        qdd = (acceleration_port(self._joints),) if self._has_joints else ()
        return (
            *self.states,
            Port(
                "acceleration",
                (6,),
                accelerations,
                "spatial acceleration of the base, base coordinates",
            ),
            *qdd,
            Port("com", (3,), "m", "centre of mass, fixed coordinates"),
            Port(
                "momentum",
                (6,),
                _MOMENTUM,
                "momentum [angular; linear] about the fixed origin, fixed coordinates",
            ),
            energy_port(),
            *self._elements.outputs,
        )

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        w, v = x.velocity[:3], x.velocity[3:]
        q, qd = self._joint_motion(x, p)
        effects = self._element_forces(x, q, qd, p, u)
        a, qdd = self._accelerations(x, q, qd, u, p, effects)
        # dv/dt = a in any frame, because v x v = 0
        rates = {
            "quaternion": quaternion_rate(x.quaternion, w),
            "position": _pose(x).E.T @ v,
            "velocity": a,
            **self._elements.rates(effects),
        }
        return rates | {"q": self._q_rate(q, qd), "qd": qdd} if self._has_joints else rates

    def project(self, x: Record, p: Record) -> Values:
        base = {"quaternion": normalized_quaternion(x.quaternion)}
        q, qd = self._joint_motion(x, p)
        if self._has_quaternions or self._elements.has_gears:
            base["q"] = self._unit_quaternions(q)
        return base | {"qd": qd} if self._elements.has_gears else base

    def output(self, x: Record, u: Record, p: Record) -> Values:
        X, (q, qd) = _pose(x), self._joint_motion(x, p)
        effects = self._element_forces(x, q, qd, p, u)
        a, qdd = self._accelerations(x, q, qd, u, p, effects)
        I0c, F, H = crba_floating(self.model, q)
        h = I0c @ x.velocity + F @ qd
        m, first_moment = I0c[5, 5], np.array([I0c[2, 4], I0c[0, 5], I0c[1, 3]])
        com = X.r + X.E.T @ first_moment / m
        kinetic = (x.velocity @ h + qd @ (F.T @ x.velocity + H @ qd)) / 2
        more = self._elements.energy(effects, np.concatenate([x.velocity, qd]), p)
        values = {
            "acceleration": a,
            "com": com,
            "momentum": X.T @ h,
            "energy": kinetic - m * (p.gravity @ com) + more,
            **self._elements.values(effects),
        }
        return values | {"qdd": qdd} if self._has_joints else values

    def _joint_motion(self, x: Record, p: Record) -> tuple[Array, Array]:
        """Return q and qd of the outboard joints after projection onto the gear constraints."""
        q, qd = self._elements.project_to_gears(*self.configuration(x), p)
        return q[7:], qd[6:]

    def _q_rate(self, q: Array, qd: Array) -> Array:
        velocities = iter(qd)
        return self._each_joint(
            q,
            lambda joint, q: joint.rate(q, np.array([next(velocities) for _ in range(joint.nv)])),
        )

    def _unit_quaternions(self, q: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return self._each_joint(q, lambda joint, part: joint.normalize(part))

    def _each_joint(self, q: Array, function: Callable[[Joint, Array], Array]) -> Array:
        """Apply `function` to each outboard joint and its part of q; concatenate the results."""
        chosen = self._joints
        ends = np.cumsum([joint.nq for joint in chosen])
        return (
            np.concatenate([q[:0], *map(function, chosen, np.split(q, ends[:-1]))]) if chosen else q
        )

    @property
    def force_elements(self) -> Elements:
        return self._elements

    @cached_property
    def _elements(self) -> Elements:
        return Elements(self.configuration_model, self.elements)

    def _element_forces(
        self, x: Record, q: Array, qd: Array, p: Record, u: Record
    ) -> ElementEffects | None:
        whole = np.concatenate([x.quaternion, x.position, q]), np.concatenate([x.velocity, qd])
        return self._elements.element_effects(*whole, x, p, u)

    def _accelerations(
        self, x: Record, q: Array, qd: Array, u: Record, p: Record, effects: ElementEffects | None
    ) -> tuple[Array, Array]:
        """Return the spatial acceleration (6,) of the base, in base coordinates, and qdd.

        `effects` contains the loads of the force elements (`Elements.element_effects`).
        """
        X, tau = _pose(x), u.tau if self._has_joints else np.zeros(0)
        wrenches = u.f_ext if self.external_wrenches else None
        tau, wrenches = add_loads(effects, tau, wrenches, 6, self._base)
        state = (self.model, X, X.inverse() @ x.velocity, q, qd, tau, wrenches, p.gravity)
        given = self._elements.transmissions(p)
        if given is None:
            a, qdd = aba_floating(*state)
        else:
            if not given.is_linear:
                motion = np.concatenate([np.zeros(7), q]), np.concatenate([np.zeros(6), qd])
                given = given.linearize(self._elements.model, *motion)
            G = given.matrix[6:, 6:] if given.driven else None
            g = None if given.bias is None else given.bias[6:]
            a, qdd = forward_dynamics_crba_floating(
                *state, rotor_inertia=given.rotor_inertia[6:], G=G, g=g
            )
        return X @ a, qdd


def _pose(x: Record) -> Transform:
    """Return the transform from fixed coordinates to base coordinates at the states x."""
    return Transform(quaternion_rotation(x.quaternion), x.position)
