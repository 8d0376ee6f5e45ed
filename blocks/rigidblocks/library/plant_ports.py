"""Ports that tunable inertias, force elements and drives add to plants."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any

import numpy as np

from rigidblocks.block.block import Port, Record, StartRelation, finite
from rigidblocks.dynamics.drives import Drive, drive_transmissions
from rigidblocks.dynamics.force_elements import (
    AlongJoint,
    AlongVelocity,
    Compliance,
    ElementEffects,
    ForceElement,
    JointSum,
    Length,
    Loads,
    compliance,
    element_effects,
    joint_line,
    length_jacobian,
    margins,
    modes,
    motion_of_lines,
    rotor_bias,
)
from rigidblocks.dynamics.force_laws import TRANSLATION
from rigidblocks.dynamics.forward import crba
from rigidblocks.dynamics.motors import Signal
from rigidblocks.dynamics.transmissions import (
    Transmissions,
    position_indices,
    project_onto_gears,
)
from rigidblocks.library.frames import Frame
from rigidblocks.robot.configuration import unit_quaternions
from rigidblocks.robot.model import Model
from rigidblocks.robot.tree import Tree
from rigidblocks.spatial.scalar import clip_with_events
from rigidblocks.spatial.spatial import Array, RigidInertia, symmetric

_ORDER = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))  # matrix indices of the second moments


@dataclass(frozen=True, eq=False)
class TunableInertia:
    """Selection of the inertial parameters of a robot that are tunable in its plant.

    `links` adds the parameter link_mass (nb,) [kg], the masses of the bodies. If only the masses
    are parameters, the moments of a body change in proportion to its mass.

    `moments` adds the parameters link_moment and link_inertia. link_moment (nb, 3) [kg m] contains
    the first moments m c. link_inertia (nb, 6) [kg m^2] contains the second moments in the order
    xx, yy, zz, xy, xz, yz. The moments are about the origin of the body frame, in body coordinates.
    The equation of motion is linear in these parameters. The function `fit` identifies the
    parameters from recorded motion.

    `payload` adds the parameters of a payload in the frame `payload`, in frame coordinates:
    payload_mass [kg], payload_com (3,) [m] and payload_inertia (6,) [kg m^2]. payload_inertia
    contains the second moments about the centre of mass, in the order of link_inertia. The initial
    values of these parameters are zero.
    """

    links: bool = False
    payload: Frame | None = None
    moments: bool = False

    def parameters(self, model: Tree) -> tuple[Port, ...]:
        """Return the parameter ports of the tunable inertias for a model.

        Raise ValueError for a planar model.
        """
        if not isinstance(model, Model):
            raise ValueError(
                f"tunable inertias need a spatial model, but model '{model.name}' is planar"
            )
        ports = []
        if self.links:
            masses = [body.m for body in model.inertia]
            ports.append(Port("link_mass", (model.nb,), "kg", "masses of the bodies", masses))
        if self.moments:
            h = [body.h for body in model.inertia]
            I = [[body.I[k] for k in _ORDER] for body in model.inertia]
            text = "of the bodies about the origins of their frames"
            ports.append(Port("link_moment", (model.nb, 3), "kg.m", f"first moments {text}", h))
            ports.append(
                Port("link_inertia", (model.nb, 6), "kg.m2", f"xx yy zz xy xz yz {text}", I)
            )
        if self.payload is not None:
            self.payload.body_of(model)
            text = f"in the frame {self.payload.name}"
            ports += [
                Port("payload_mass", (), "kg", f"payload {text}", 0.0, min=0.0),
                Port("payload_com", (3,), "m", f"its centre of mass, {text}", 0.0),
                Port("payload_inertia", (6,), "kg.m2", f"xx yy zz xy xz yz of it, {text}", 0.0),
            ]
        return tuple(ports)

    def model_with_parameters(self, model: Model, p: Record) -> Model:
        """Return a copy of the model with the inertial parameters in p.

        The values in p are floats or traced scalars.
        """
        inertia = list(model.inertia)
        if self.moments:
            masses = p.link_mass if self.links else [body.m for body in inertia]
            given = zip(masses, p.link_moment, p.link_inertia, strict=True)
            inertia = [RigidInertia(m, h, symmetric(_matrix(I))) for m, h, I in given]
        elif self.links:
            inertia = [
                _scale_inertia(body, m) for body, m in zip(inertia, p.link_mass, strict=True)
            ]
        if self.payload is not None:
            body = self.payload.body_of(model)
            inertia[body] = inertia[body] + _payload_inertia(p).transform_to_parent(
                self.payload.placement
            )
        other = object.__new__(type(model))
        vars(other).update({**vars(model), "inertia": tuple(inertia)})
        return other


def _matrix(moments: Any) -> Any:
    """Return the symmetric matrix (3, 3) with the elements xx, yy, zz, xy, xz, yz."""
    xx, yy, zz, xy, xz, yz = moments
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _scale_inertia(body: RigidInertia, m: Any) -> RigidInertia:
    """Return the spatial inertia of a body, scaled to the mass m [kg].

    The inertia of a massless body does not change.
    """
    if not body.m:
        return body
    factor = m / body.m
    return RigidInertia(m, body.h * factor, body.I * factor)


def _payload_inertia(p: Record) -> RigidInertia:
    """Return the spatial inertia of the payload in the parameters p, in payload coordinates."""
    m, c = p.payload_mass, p.payload_com
    I_C = _matrix(p.payload_inertia)
    square = reduce(lambda a, b: a + b, c * c)
    I = I_C + m * (square * np.eye(3) - np.outer(c, c))
    return RigidInertia(m, m * c, symmetric(I))


Element = ForceElement | Drive
GEAR_TOLERANCE = 1e-9  # [rad or m] largest gear error of an initial configuration


@dataclass(frozen=True, eq=False)
class Elements:
    """Force elements and drives of a plant.

    Attributes:
        model: Model of the plant.
        members: The elements.

    Raises:
        TypeError: A member is not an element.
        ValueError: The model does not support an element, or two elements have the same name.
    """

    model: Tree
    members: tuple[Element, ...]

    def __post_init__(self) -> None:
        if isinstance(self.members, Element) or not isinstance(self.members, Iterable):
            raise TypeError(
                "`elements` must be a tuple of ForceElement or Drive elements, not "
                f"{self.members!r}"
            )
        object.__setattr__(self, "members", tuple(self.members))
        names: set[str] = set()
        for element in self.members:
            if not isinstance(element, Element):
                raise TypeError(f"an element must be a ForceElement or a Drive, not {element!r}")
            if element.name in names:
                raise ValueError(f"two elements have the name '{element.name}'")
            names.add(element.name)
            try:
                element.units(self.model)
            except ValueError as error:
                raise ValueError(f"element '{element.name}': {error}") from error
        _ = self.start_transmissions  # raises an error if gears are inconsistent

    @cached_property
    def forces(self) -> tuple[ForceElement, ...]:
        """Force elements, without the drives."""
        return tuple(element for element in self.members if isinstance(element, ForceElement))

    @cached_property
    def drives(self) -> tuple[Drive, ...]:
        """Drives that exert a force, excluding drives that are only rotors or gears."""
        return tuple(element for element in self._every_drive if element.has_force)

    @property
    def _every_drive(self) -> tuple[Drive, ...]:
        return tuple(element for element in self.members if isinstance(element, Drive))

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Ports of the commands of all drives, such as `knee_command`."""
        return tuple(
            self._drive_port(drive, signal, 0.0)
            for drive in self.drives
            for signal in drive.commands
        )

    def _drive_port(self, drive: Drive, signal: Signal, start: float | None = None) -> Port:
        """Return the port of a drive signal; `start` is the start value, or None."""
        return Port(
            f"{drive.name}_{signal.name}",
            (),
            drive.units(self.model)[signal.kind],
            f"{signal.doc} of {drive.name}",
            start,
            None if signal.rate is None else f"{drive.name}_{signal.rate}",
            nominal=signal.nominal,
        )

    @cached_property
    def has_gears(self) -> bool:
        """True if one of the drives has a follower."""
        return any(drive.follower is not None for drive in self._every_drive)

    @cached_property
    def start_transmissions(self) -> Transmissions | None:
        """Rotors and gears with initial parameter values; None if the plant has neither."""
        return drive_transmissions(self.model, self._every_drive)

    @property
    def rotor_inertia(self) -> Array | None:
        """Initial reflected rotor inertias (nv,) [kg m^2]; None if no rotor exists."""
        return None if self.start_transmissions is None else self.start_transmissions.rotor_inertia

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Ports of the parameters of all elements, such as `knee_K`."""
        return tuple(
            Port(
                f"{element.name}_{name}",
                (),
                element.units(self.model)[about.kind],
                f"{about.doc} of {element.name}",
                value,
                min=about.min,
                max=about.max,
                positive=about.positive,
            )
            for element in self.members
            for name, (value, about) in element.numbers().items()
        )

    def states(self, q0: Array, qd0: Any) -> tuple[Port, ...]:
        """Return the state ports of all elements.

        For example, the port `rub_bend` is the state `bend` of the element `rub`. The start angle
        and speed of the rotor of an elastic drive follow from q0 and qd0.

        Args:
            q0: Initial configuration (nq,) of the model.
            qd0: Initial velocities (nv,), or one number for all.
        """
        bristles = tuple(
            Port(
                f"{element.name}_{name}",
                (),
                element.units(self.model)[about.kind],
                f"{about.doc} of {element.name}",
                0.0,
            )
            for element in self.forces
            for name, about in element.law.state_fields.items()
        )
        if not self.drives:
            return bristles
        qd0 = np.broadcast_to(qd0, (self.model.nv,))
        ports = list[Port]()
        for drive, place in zip(self.drives, self._drive_places, strict=True):
            # a drive along a line between bodies has no elasticity, and needs no start position
            motion = map(float, _motion_along(place, q0, qd0)) if place else ()
            for signal in drive.states(*motion):
                ports.append(self._drive_port(drive, signal, signal.start))
        return (*bristles, *ports)

    @cached_property
    def start_relations(self) -> tuple[StartRelation, ...]:
        """Relations by which q and qd at the start determine the rotor start values.

        The rotors belong to elastic drives. If a drive acts on a joint that follows another joint,
        the relation contains the position or velocity of the driving joint. The ratio and the
        offset of this relation are the initial parameter values of the follower.
        """
        driven = self.start_transmissions.driven if self.start_transmissions else {}
        positions, found = position_indices(self.model), list[StartRelation]()
        for drive, place in zip(self.drives, self._drive_places, strict=True):
            if drive.elasticity is None:
                continue
            q, qd, offset = [], [], 0.0
            for first, k, weight in place:
                if k not in driven:
                    q.append(("q", first, weight))
                    qd.append(("qd", k, weight))
                    continue
                driving, ratio, shift, curve, _ = driven[k]
                if curve:
                    raise ValueError(
                        f"elastic drive '{drive.name}' acts on a joint that follows another joint "
                        "by a nonlinear relation; only a linear relation is supported"
                    )
                q.append(("q", positions[driving], weight * float(ratio)))
                qd.append(("qd", driving, weight * float(ratio)))
                offset += weight * float(shift)
            name, factor = drive.name, f"{drive.name}_gearbox_ratio"
            found.append(StartRelation(f"{name}_angle", factor, tuple(q), offset))
            found.append(StartRelation(f"{name}_rotor_speed", factor, tuple(qd)))
        return tuple(found)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Output ports for the element forces, such as `knee_force`, and for the drive outputs.

        A positive force increases the length of the element.
        """
        forces = tuple(
            Port(
                f"{element.name}_force",
                (),
                element.units(self.model)["force"],
                f"force of {element.name}, positive if it increases the length",
            )
            for element in self.forces
        )
        measured = (
            self._drive_port(drive, signal) for drive in self.drives for signal in drive.outputs
        )
        return (*forces, *measured)

    def start(self, q0: Array, qd0: Any, is_given: bool) -> Array:
        """Project the initial configuration onto the gear constraints, and return it.

        Args:
            q0: Initial configuration (nq,).
            qd0: Initial velocities (nv,).
            is_given: True if the user has given q0, which must then satisfy the gear constraints.

        Raises:
            ValueError: qd0 violates the gear constraints by more than 1e-9 rad/s or m/s, or
                `is_given` is True and q0 violates them by more than 1e-9 rad or m.
        """
        if not self.has_gears or self.start_transmissions is None:
            return q0
        driven, qd0 = self.start_transmissions.driven, finite(qd0, (self.model.nv,), "qd0")
        moved, speeds = project_onto_gears(self.model, driven, q0, qd0)
        for name, now, wanted in (("q0", q0, moved if is_given else q0), ("qd0", qd0, speeds)):
            if np.abs(now - wanted).max() > GEAR_TOLERANCE:
                raise ValueError(
                    f"{name} of model '{self.model.name}' violates the gear constraints: it is "
                    f"{now.tolist()}, but the gears require {wanted.tolist()}"
                )
        return moved

    def element_effects(
        self, q: Array, qd: Array, x: Record, p: Record, u: Record
    ) -> ElementEffects | None:
        """Return the loads, energy, forces and state derivatives of the elements, or None.

        The loads are the joint forces and body wrenches of the elements, including the bias forces
        of rotors (`rotor_bias`). The result is None if the plant has neither force elements nor
        drives nor rotors with bias forces.

        Args:
            q: Joint positions (nq,).
            qd: Joint velocities (nv,).
            x: States of the plant, with the states of the elements.
            p: Parameters of the plant.
            u: Inputs of the plant, with the commands of the drives.
        """
        if not self.forces and not self.drives and not self._has_rotor_bias:
            return None
        effects = element_effects(
            self.model, _set_states(_set_parameters(self.forces, p), x), q, qd
        )
        if self.drives:
            effects = self._add_drives(effects, q, qd, x, p, u)
        if not self._has_rotor_bias:
            return effects
        given = self.transmissions(p)
        assert given is not None
        tau = effects.loads.tau - rotor_bias(self.model, given.rotor_inertia, qd)
        return effects._replace(loads=effects.loads._replace(tau=tau))

    def _add_drives(
        self, effects: ElementEffects, q: Array, qd: Array, x: Record, p: Record, u: Record
    ) -> ElementEffects:
        """Return `effects` plus the loads, energies, outputs and state derivatives of the drives.

        `effects` contains the effects of the force elements.
        """
        tau, energy, rates = [0.0] * self.model.nv, effects.energy, dict(effects.rates)
        force, f_ext = [*effects.force], effects.loads.f_ext
        by_wrenches = np.zeros(self.model.nv)  # joint forces of drives along lines between bodies
        lengths = self._drive_lengths(q, qd)
        places = zip(self.drives, self._drives_at(p), self._drive_places, lengths, strict=True)
        for drive, tuned, place, along in places:
            drive_effects = tuned.effects(
                along.s,
                along.sd,
                _values_of(u, drive.name, drive.commands),
                _values_of(x, drive.name, drive.states()),
            )
            for _, k, weight in place:
                tau[k] = tau[k] + (
                    drive_effects.force if weight == 1.0 else weight * drive_effects.force
                )
            if not place:
                f_ext = f_ext + along.loads(drive_effects.force).f_ext
                if self._efforts:
                    row = length_jacobian(self.model, q, along)
                    by_wrenches = by_wrenches + row * drive_effects.force
            energy = energy + drive_effects.energy
            rates |= {f"{drive.name}_{name}": rate for name, rate in drive_effects.rates.items()}
            force += [drive_effects.outputs[signal.name] for signal in drive.outputs]
        for k, effort in self._efforts.items():
            other = by_wrenches[k]  # in f_ext, thus not a part of tau
            tau[k] = clip_with_events(tau[k] + other, -effort, effort) - other
        loads = Loads(effects.loads.tau + np.array(tau), f_ext)
        return ElementEffects(loads, energy, tuple(force), rates)

    @cached_property
    def _efforts(self) -> dict[int, float]:
        """Limit of the total force of all drives at each joint with a limit, by index in qd.

        If several drives at a joint have an effort limit, the smallest limit applies. A drive
        without a motor may also have an effort limit.
        """
        efforts: dict[int, float] = {}
        for drive in self._every_drive:
            line = drive.line
            if drive.effort is not None and isinstance(line, AlongJoint):
                k = line.variables(self.model)[1]
                efforts[k] = min(drive.effort, efforts.get(k, np.inf))
        return efforts

    def drive_forces(self, q: Array, qd: Array, x: Record, p: Record, u: Record) -> Array | None:
        """Return the joint forces (nv,) of the drives, or None without drives.

        The arguments are as in `element_effects`.
        """
        if not self.drives:
            return None
        nothing = element_effects(self.model, (), q, qd)
        return self._add_drives(nothing, q, qd, x, p, u).loads.tau

    def _drives_at(self, p: Record) -> list[Drive]:
        """Return the drives, with parameter values from the record p."""
        return _set_parameters(self.drives, p)

    @cached_property
    def _drive_places(self) -> "tuple[_Place, ...]":
        """Joint variables that each drive moves; empty for a drive along a line between bodies."""
        found = []
        for drive in self.drives:
            line = drive.line
            if isinstance(line, JointSum):
                of = zip(line.joints, line.coefficients, strict=True)
                found.append(tuple((*joint_line(j).variables(self.model), w) for j, w in of))
            elif isinstance(line, AlongJoint):
                found.append(((*line.variables(self.model), 1.0),))
            else:
                found.append(())
        return tuple(found)

    def _drive_lengths(self, q: Array, qd: Array) -> list[Length]:
        """Return the length on which each drive acts, and its time derivative.

        For a drive along joints, the length is the weighted sum of the joint positions. Its method
        `loads` raises an error, because the drive force acts directly on the joint variables.
        """
        between = [drive.line for drive in self.drives if drive.line.between_bodies]
        motion = motion_of_lines(self.model, between, q, qd)
        return [
            Length(*_motion_along(place, q, qd), _no_loads)
            if place
            else drive.line.length(self.model, motion)
            for drive, place in zip(self.drives, self._drive_places, strict=True)
        ]

    @cached_property
    def _has_rotor_bias(self) -> bool:
        """True if a rotor has a bias force (`rotor_bias`).

        Only rotors along the translations of joints with six degrees of freedom have bias forces.
        """
        lines = (drive.line for drive in self._every_drive if drive.rotor is not None)
        return any(
            isinstance(line, AlongVelocity) and line.units(self.model) == TRANSLATION
            for line in lines
        )

    def margins(self, q: Array, qd: Array, x: Record, p: Record) -> Array:
        """Return the switching functions (n,) of the force elements, such as the depth of a stop.

        The arguments are as in `element_effects`.
        """
        if not self.forces and not self.drives:
            return np.zeros(0)
        found = margins(self.model, _set_states(_set_parameters(self.forces, p), x), q, qd)
        if not self.drives:
            return found
        of_drives = [
            margin
            for drive, tuned, along in zip(
                self.drives, self._drives_at(p), self._drive_lengths(q, qd), strict=True
            )
            for margin in tuned.margins(
                along.s, along.sd, _values_of(x, drive.name, drive.states())
            )
        ]
        return np.array([*found, *of_drives])

    def transmissions(self, p: Record) -> Transmissions | None:
        """Return the rotors and gears with the parameter values p, or None if none exist."""
        return (
            drive_transmissions(self.model, _set_parameters(self._every_drive, p))
            if self.start_transmissions
            else None
        )

    def project_to_gears(self, q: Array, qd: Array, p: Record) -> tuple[Array, Array]:
        """Return q (nq,) and qd (nv,) after projection onto the gear constraints.

        The driving variables of the gears determine the driven variables. `p` contains the
        parameters of the plant.
        """
        given = self.transmissions(p) if self.has_gears else None
        return project_onto_gears(self.model, given.driven, q, qd) if given else (q, qd)

    def projected_motion(self, q: Array, qd: Array, p: Record) -> dict[str, Any]:
        """Return q and qd after projection, by state name.

        The projection normalizes quaternions and enforces the gear constraints. States that need no
        projection are omitted.
        """
        moved, speeds = self.project_to_gears(q, qd, p)
        if self.model.nq > self.model.nv:
            moved = unit_quaternions(self.model, moved)
        elif not self.has_gears:
            return {}
        return {"q": moved, "qd": speeds} if self.has_gears else {"q": moved}

    def values(self, effects: ElementEffects | None) -> dict[str, Any]:
        """Return the outputs of the force elements and drives, by output name.

        `effects` is the result of `element_effects`.
        """
        ports = zip(self.outputs, effects.force if effects else (), strict=True)
        return {port.name: force for port, force in ports}

    def rates(self, effects: ElementEffects | None) -> dict[str, Any]:
        """Return the time derivatives of the element states by state name.

        `effects` is the result of `element_effects`.
        """
        return effects.rates if effects else {}

    def energy(self, effects: ElementEffects | None, qd: Array, p: Record) -> Any:
        """Return the potential energy of the springs plus the kinetic energy of the rotors [J].

        `effects` is the result of `element_effects`.
        """
        given, E = self.transmissions(p), 0.0 if effects is None else effects.energy
        return E if given is None else E + given.rotor_inertia @ (qd * qd) / 2

    def modes(
        self, q: Array, p: Record, contact_compliance: Compliance | None = None, K: Any = None
    ) -> Array:
        """Return the eigenvalues [1/s] of the plant with its force elements, at rest at q.

        The modes satisfy the gear constraints and the loop constraints. The result also includes
        the decay rates of force laws with states.

        Args:
            q: Joint positions (nq,).
            p: Parameters of the plant.
            contact_compliance: Compliance of the contacts, or None without contacts.
            K: Jacobian of the loop constraints (nc, nv), or None.
        """
        model, given = self.model, self.transmissions(p)
        parts = [
            compliance(model, _set_parameters(self.forces, p), q),
            *([contact_compliance] if contact_compliance else []),
        ]
        if self.drives:
            parts.append(self._drive_compliance(q, p))
        H = crba(model, q)
        free = np.eye(model.nv)
        if given is not None:
            given = given.linearize(model, q, np.zeros(model.nv))
            H, free = H + np.diag(given.rotor_inertia), given.matrix
        if K is not None:
            _, sizes, V = np.linalg.svd(K @ free)
            free = free @ V[int(np.sum(sizes > 1e-9 * sizes.max(initial=0.0))) :].T
        motion = modes(H, Compliance(*map(np.concatenate, zip(*parts, strict=True))), free)
        laws = (element.law for element in _set_parameters(self.forces, p))
        poles = (pole for drive in self._drives_at(p) for pole in drive.own_poles())
        return np.concatenate([motion, [-rate for law in laws for rate in law.decays()], [*poles]])

    def _drive_compliance(self, q: Array, p: Record) -> Compliance:
        """Return the stiffness, the damping and the length Jacobian (nv,) of each drive at q."""
        rows = np.zeros((len(self.drives), self.model.nv))
        lengths = self._drive_lengths(q, np.zeros(self.model.nv))
        for row, place, along in zip(rows, self._drive_places, lengths, strict=True):
            if not place:
                row[:] = length_jacobian(self.model, q, along)
            for _, k, weight in place:
                row[k] += weight
        found = [
            drive.max_stiffness_and_damping(along.s)
            for drive, along in zip(self._drives_at(p), lengths, strict=True)
        ]
        coefficients = np.array(found).reshape(-1, 2)
        return Compliance(rows, *coefficients.T)


def _set_parameters(elements: Iterable[Any], p: Record) -> list[Any]:
    """Return copies of elements with the parameter values in p.

    An element that compensates weight also gets the gravity in p.
    """
    found = []
    for element in elements:
        values = {name: getattr(p, f"{element.name}_{name}") for name in element.numbers()}
        given = element.replace_parameters(**values)
        if isinstance(given, ForceElement):
            along = given.along.adapt_to_gravity(p.gravity)
            given = given if along is given.along else replace(given, along=along)
        found.append(given)
    return found


_Place = tuple[tuple[int, int, float], ...]
"""Index in q, index in qd and weight of each joint variable that a drive moves."""


def _no_loads(force: Any) -> Loads:
    del force
    raise AssertionError("the force of a drive along joints acts on its joint variables")


def _motion_along(place: _Place, q: Array, qd: Array) -> tuple[Any, Any]:
    """Return the weighted sum of the joint positions of a drive, and its time derivative.

    `place` contains the joint variables that the drive moves, with their weights.
    """
    (first, k, weight), *others = place
    s, sd = (q[first], qd[k]) if weight == 1.0 else (weight * q[first], weight * qd[k])
    for position, k, weight in others:
        s, sd = s + weight * q[position], sd + weight * qd[k]
    return s, sd


def _values_of(record: Record, name: str, signals: Iterable[Signal]) -> dict[str, Any]:
    """Return the values of the signals of the drive `name` in a record, by signal name."""
    return {signal.name: getattr(record, f"{name}_{signal.name}") for signal in signals}


def _set_states(elements: Iterable[ForceElement], x: Record) -> list[ForceElement]:
    """Return copies of force elements with the values of their states in the record x."""
    return [
        element.replace_parameters(
            **{name: getattr(x, f"{element.name}_{name}") for name in element.law.state_fields}
        )
        for element in elements
    ]


def add_loads(
    effects: ElementEffects | None,
    tau: Array,
    f_ext: Array | None,
    joints: int = 0,
    bodies: int = 0,
) -> tuple[Array, Array | None]:
    """Add the loads of the elements to the joint forces tau and the body wrenches f_ext.

    Args:
        effects: Result of `Elements.element_effects`.
        tau: Joint forces (nv,).
        f_ext: External wrenches on the bodies (nb, 6), or None.
        joints: Number of leading joint forces in `effects` that belong to the floating base. The
            function omits them, because tau does not contain forces of the base.
        bodies: Number of massless bodies that precede the base body in f_ext. The elements do not
            act on these bodies, and `effects` does not contain them.

    Returns:
        Joint forces, and body wrenches or None.
    """
    if effects is None:
        return tau, f_ext
    wrenches = np.vstack([np.zeros((bodies, effects.loads.f_ext.shape[1])), effects.loads.f_ext])
    return tau + effects.loads.tau[joints:], wrenches if f_ext is None else f_ext + wrenches
