"""Robot plants: the dynamics of a model as a block."""

import abc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.block import Block, Port, Record, Values, finite
from rigidblocks.dynamics import aba, aba_with_rotors, energy, equivalent
from rigidblocks.dynamics.elements import Acting, Compliance
from rigidblocks.dynamics.equivalence import aligned
from rigidblocks.dynamics.transmissions import Transmissions, geared_accelerations
from rigidblocks.library.elements import Element, Elements, with_loads
from rigidblocks.library.inertias import TunableInertia
from rigidblocks.library.ports import (
    acceleration_port,
    check_open,
    energy_port,
    force_port,
    gravity_port,
    motion_states,
    scaled,
    start_configuration,
    wrench_port,
)
from rigidblocks.loops import position_constraints
from rigidblocks.model.configuration import rate, singular_joints, unit_quaternions
from rigidblocks.model.model import Model
from rigidblocks.model.resistance import check_resistance
from rigidblocks.model.tree import Tree


class Plant(Block):
    """The forward dynamics of a robot, as a block that pushes its bodies builds on it."""

    model: Tree

    @property
    @abc.abstractmethod
    def configuration_model(self) -> Tree:
        """The model that `configuration` is of: with a floating base on a joint of six freedoms."""

    @abc.abstractmethod
    def configuration(self, x: Record) -> tuple[Array, Array]:
        """q (nq,) and qd (nv,) of the model `configuration_model`, from the states."""

    @abc.abstractmethod
    def with_wrenches(self) -> "Plant":
        """The same plant with the input f_ext, the wrenches on the bodies of its own model."""

    @property
    @abc.abstractmethod
    def force_elements(self) -> Elements:
        """The elements, of the model `configuration_model`."""

    def margins(self, x: Record, p: Record) -> Array:
        """Where stops begin and end to push."""
        return self.force_elements.margins(*self.configuration(x), x, p)

    def suspects(self, x: Record) -> Iterator[str]:
        """The joints whose coordinates are singular there."""
        return singular_joints(self.configuration_model, self.configuration(x)[0])

    def modes(self, x: Record, p: Record) -> Array:
        return self.modes_with(x, p)

    def modes_with(self, x: Record, p: Record, more: Compliance | None = None) -> Array:
        """The `modes` with those of other compliant things, as contact."""
        q, elements = self.configuration(x)[0], self.force_elements
        if not elements.forces and more is None:
            return np.zeros(0)
        model = self.configuration_model
        K = position_constraints(model, q).K if model.constrained else None
        return elements.modes(q, p, more, K)


class JointPlant(Plant):
    """A plant whose states are the motion of its model's joints, with force elements."""

    q0: Any
    qd0: Any
    elements: tuple[Element, ...]
    nominal: Mapping[str, Any]

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,), and what the elements remember."""
        motion = motion_states(self.model.joint, self.q0, self.qd0)
        return (*scaled(motion, self.nominal), *self._elements.states)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity (3,), and the numbers of the elements."""
        return (gravity_port(self.model), *self._elements.parameters)

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
        """Raises ValueError for elements of a model that depends on time, which have none."""
        if self.model.rheonomic and self.elements:
            raise ValueError(
                f"model '{self.model.name}' depends on time, and the force elements do not; let "
                "blocks beside the plant give these forces"
            )


@dataclass(frozen=True, eq=False)
class RobotPlant(JointPlant):
    """The forward dynamics of a robot: joint forces in, joint motion out.

        H(q) qdd + C(q, qd, f_ext) = tau   solved by the articulated-body algorithm (RBDA Table 7.1)

    `q0` and `qd0` are the state at the start: the neutral configuration at rest unless given. The
    quaternions among the positions are made unit ones, in `q0` and after every inner step; a zero
    one is refused with ValueError. With `external_wrenches` there is an input `f_ext` (nb, 6), the
    wrench [n; f] on each body in base coordinates about the base origin. `rotor_inertia` (nv,) [kg
    m^2] is that of the motors' rotors as felt at the joints, the square of the gear ratio times the
    rotor's own (RBDA 9.6). The parameter `gravity` is the model's unless it is changed.

    `elements` are springs, dampers, friction and stops (`ForceElement`), rotors (`Rotor`) and gears
    (`Gear`) that act in every stage of the integrator: nothing of them is held over a step. Their
    numbers are parameters, their forces outputs, and their energy is in the output energy. Joints
    that gears drive have states like others, which follow. `inertias` makes the masses of links and
    a payload parameters (`TunableInertia`).

    `nominal` has by name the orders of magnitude of the ports q, qd and tau, which tools and the
    tolerances of adaptive steps go by; 1 unless given.
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
        check_resistance(self.model, rotor_inertia=self._felt(self._elements.of_start))
        q0 = start_configuration(self.model, self.q0)
        q0 = self._elements.start(q0, self.qd0, self.q0 is not None)
        object.__setattr__(self, "q0", q0)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """gravity (3,), the numbers of the elements, and the inertias that can be tuned."""
        tuned = () if self.inertias is None else self.inertias.parameters(self.model)
        return (gravity_port(self.model), *self._elements.parameters, *tuned)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """tau (nv,), and f_ext (nb, 6) when asked for."""
        tau = scaled([force_port(self.model.joint)], self.nominal)
        return (*tau, wrench_port(self.model)) if self.external_wrenches else tau

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """q, qd, qdd (nv,), the mechanical energy, and the forces of the elements."""
        return (
            *self.states,
            acceleration_port(self.model.joint),
            energy_port(),
            *self._elements.outputs,
        )

    def with_wrenches(self) -> "RobotPlant":
        return replace(self, external_wrenches=True)

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        q, qd = self._elements.moving(x.q, x.qd, p)
        acting = self._elements.acting(q, qd, x, p)
        motion = {"q": rate(self.model, q, qd), "qd": self._qdd(t, q, qd, u, p, acting)}
        return motion | self._elements.rates(acting)

    def project(self, x: Record, p: Record) -> Values:
        q, qd = self._elements.moving(x.q, x.qd, p)
        if self.model.nq > self.model.nv:
            q = unit_quaternions(self.model, q)
        elif not self._elements.geared:
            return {}
        return {"q": q, "qd": qd} if self._elements.geared else {"q": q}

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        q, qd = self._elements.moving(x.q, x.qd, p)
        acting = self._elements.acting(q, qd, x, p)
        E = energy(self._tuned(self._aligned_model, p).at(t), q, qd, p.gravity)
        if self.rotor_inertia is not None:
            E = E + self.rotor_inertia @ (qd * qd) / 2
        return {
            "qdd": self._qdd(t, q, qd, u, p, acting),
            "energy": E + self._elements.energy(acting, qd, p),
            **self._elements.values(acting),
        }

    @cached_property
    def _aligned_model(self) -> Model:
        return aligned(self.model)

    @cached_property
    def _equivalent(self) -> Model:
        """The cheapest model with the same equation of motion; a planar model is its own."""
        return equivalent(self._aligned_model) if isinstance(self.model, Model) else self.model

    def _qdd(self, t: Any, q: Array, qd: Array, u: Record, p: Record, acting: Acting | None) -> Any:
        tau, f_ext = with_loads(acting, u.tau, u.f_ext if self.external_wrenches else None)
        model, given = self._tuned(self._equivalent, p).at(t), self._elements.transmissions(p)
        I_rot = self._felt(given)
        if given is not None and given.driven:
            given, none = given._replace(rotor_inertia=I_rot), np.zeros(model.nv)
            return geared_accelerations(model, given, q, qd, none, tau, (), f_ext, p.gravity).qdd
        if I_rot is None:
            return aba(model, q, qd, tau, f_ext, p.gravity)
        return aba_with_rotors(model, q, qd, tau, I_rot, f_ext, p.gravity)

    def _tuned(self, model: Model, p: Record) -> Model:
        """The model that the parameters say: the given one without inertias to tune."""
        return model if self.inertias is None else self.inertias.tuned(self.model, p)

    def _felt(self, given: Transmissions | None) -> Any:
        """The inertia (nv,) of all rotors; None without any."""
        I_rot = self.rotor_inertia
        if given is None:
            return I_rot
        return given.rotor_inertia if I_rot is None else given.rotor_inertia + I_rot
