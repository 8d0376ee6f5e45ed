"""Blocks for compliant contact of points with the ground and between the bodies of a robot.

Between bodies, the contact points of one body touch a surface that is fixed to another body.
"""

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.block.block import Block, Port, Record, Values, finite
from rigidblocks.common.name_hints import close_match_hint
from rigidblocks.contact.compliant_contact import (
    CompliantPlant,
    ContactForce,
    SoftLaw,
    SurfaceState,
    check_depth,
    contact_flags,
    law_from_parameters,
    law_ports,
    patch_port,
    stable_hold,
    total_force,
    wrench,
)
from rigidblocks.contact.contact_points import BodyPoints, body_points, check_corners, point_motion
from rigidblocks.dynamics.force_elements import Compliance
from rigidblocks.dynamics.kinematics import body_poses, body_velocities, point_jacobian
from rigidblocks.library.common_ports import joint_ports, wrench_port
from rigidblocks.library.plants import Plant
from rigidblocks.robot.model import Model
from rigidblocks.robot.shapes import Contact, Plane, Surface, contact
from rigidblocks.spatial.scalar import minimum
from rigidblocks.spatial.spatial import Array, Transform, cross, identity, multiply_transforms


@dataclass(frozen=True, eq=False)
class PointKinematics(Block):
    """Block that computes the positions and velocities of the n contact points of a robot.

    The points belong to the shapes in the field `contact` of the model, in the order of the bodies.
    Positions and velocities are in base coordinates.
    """

    model: Model

    @cached_property
    def _points(self) -> BodyPoints:
        return body_points(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs: joint positions q (nq,) and joint velocities qd (nv,)."""
        return joint_ports(self.model, q="joint positions", qd="joint velocities")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs: positions p, velocities v, angular velocities w (n, 3) of n contact points."""
        return _motion_ports(len(self._points.body))

    def output(self, u: Record) -> Values:
        return dict(zip("pvw", point_motion(self.model, u.q, u.qd, self._points), strict=True))


class CompliantPoints(Block):
    """Base class of blocks with compliant contact of n points.

    The class defines the parameters, the outputs and the longest stable hold time of the forces.
    Subclasses define the fields. K [N/m] and D [N.s/m] are the stiffness and damping along the
    normal, K_t and D_t along the tangents. mu is the coefficient of friction. K_t and D_t default
    to K and D.
    """

    model: Model
    K: float
    D: float
    mu: float
    K_t: float | None
    D_t: float | None
    depth_ref: float | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "K_t", self.K if self.K_t is None else self.K_t)
        object.__setattr__(self, "D_t", self.D if self.D_t is None else self.D_t)
        check_depth(self.depth_ref)

    @property
    @abc.abstractmethod
    def _n(self) -> int:
        """Number of contact points."""

    @abc.abstractmethod
    def _jacobian(self, q: Array) -> Array:
        """Return the Jacobian (3n, nv) of the point velocities relative to the contact surfaces."""

    @property
    def _extrapolates(self) -> bool:
        """True if the block extrapolates the points to the middle of the hold interval."""
        return False

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs: body wrenches, and force, depth and contact indicator of each point."""
        start, n = None if self.sample_time is None else 0.0, self._n
        text = "force on the touching body at each point, base coordinates"
        return (
            wrench_port(self.model, start),
            Port("force", (n, 3), "N", text, start),
            Port("depth", (n,), "m", "penetration depth of each point"),
            Port("in_contact", (n,), "1", "1 if there is a contact force", start, min=0.0, max=1.0),
        )

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameters: K, D (normal), mu (friction), K_t, D_t (tangential) of the contact law."""
        continuous = self.sample_time is None
        return law_ports(self.K, self.D, self.mu, self.K_t, self.D_t, damped=continuous)

    def longest_step(self, q: Any) -> float:
        """Return the longest stable hold time [s] of the contact forces at the configuration q.

        The estimate assumes that all points are in contact and stick. The result is the stability
        limit (`stable_step`) of the normal spring or, if mu > 0, the smaller limit of the normal
        and the tangential spring. The effective mass at the contact points is the reciprocal of the
        largest eigenvalue of J H^-1 J^T. J (3n, nv) is the Jacobian of the point velocities
        relative to the surfaces, and H the joint-space inertia matrix. The estimate neglects
        gyroscopic forces.

        Raises:
            ValueError: `depth_ref` is not None, so the springs are nonlinear.
        """
        if self.depth_ref is not None:
            raise ValueError("longest_step supports only linear springs: `depth_ref` must be None")
        return self._longest_step(q, SoftLaw(self.K, self.D, self.mu, self.K_t, self.D_t))

    def longest_hold(self, u: Record, p: Record) -> float:
        """Return the longest stable hold time [s] of the contact forces for the inputs u.

        The result is `longest_step` with the coefficients in p. It is infinite if the springs are
        nonlinear or u does not contain the configuration q.
        """
        known = hasattr(u, "q") and np.shape(u.q) == (self.model.nq,) and self.depth_ref is None
        return (
            self._longest_step(u.q, self._law(p)) if known and min(p.K, p.K_t) > 0 else float("inf")
        )

    def _longest_step(self, q: Any, law: SoftLaw) -> float:
        q = finite(q, (self.model.nq,), "q")
        return stable_hold(self.model, q, self._jacobian(q), law, lead=self._extrapolates)

    def _law(self, p: Record) -> SoftLaw:
        return law_from_parameters(p, self.depth_ref)


@dataclass(frozen=True, eq=False)
class GroundContact(CompliantPoints):
    """Forces of compliant ground on the n contact points of a robot (RBDA 11.8).

        f_n = max(0, K d + D dd/dt) in contact,  |f_t| <= mu f_n

    d [m] is the penetration depth of a point, f_n the normal force and f_t the friction force. K
    [N/m] and D [N.s/m] are the stiffness and damping along the normal, K_t and D_t along the
    tangents. mu is the coefficient of friction.

    The inputs are the outputs of `PointKinematics`: positions p, velocities v and angular
    velocities w. The input w exists only if a body has a sphere. Outputs:

    - `f_ext` (nb, 6), the wrenches on the bodies, for the input `f_ext` of a plant;
    - `force` (n, 3) [N], the forces at the points;
    - `depth` (n,) [m], the penetration depth, negative above the ground;
    - `in_contact` (n,), 1 if a contact force acts at the point, else 0.

    If `sample_time` [s] is given, the block computes the forces at the sample instants and holds
    them between samples. The sampled states are the displacements of the contact surface, z along
    the normal and x along the tangents. Their integration is stable for every stiffness. Held
    forces are delayed and act at past positions of the body. If `lead` is True, the block evaluates
    the force law at the extrapolated positions p + sample_time / 2 v of the points. The errors of
    spring forces and positions are then of second order in sample_time. Damping forces remain
    delayed.

    If `sample_time` is None, the only state is the continuous state x. An explicit integrator then
    needs step sizes below D_t / K_t. The module `contact.compliant_contact` describes the sampled
    and the continuous form. `longest_step` returns the stability limit of held forces in a
    co-simulation.

    K_t and D_t default to K and D. If `depth_ref` [m] is given, the normal stiffness grows with the
    depth (`contact.SoftLaw`).

    Raises:
        ValueError: The contact points of a shape cannot detect the ground
            (`contact.contact_points.check_corners`).
    """

    model: Model
    K: float
    D: float
    mu: float = 0.0
    ground: Surface = field(default_factory=Plane)
    K_t: float | None = None
    D_t: float | None = None
    depth_ref: float | None = None
    sample_time: float | None = None
    lead: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sample_time is None and not self.D_t:
            raise ValueError(
                "ground contact with D_t = 0 needs a sample_time, because the continuous form "
                "divides by D_t"
            )
        if not isinstance(self.ground, Surface):
            raise TypeError(
                f"the ground of a contact must be a Surface such as Plane(), not {self.ground!r}"
            )
        check_corners(self.model, range(self.model.nb), self.ground)

    @cached_property
    def _points(self) -> BodyPoints:
        return body_points(self.model)

    @property
    def _n(self) -> int:
        return len(self._points.body)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs: positions p and velocities v (n, 3) of the points, and w (n, 3) for spheres."""
        ports = _motion_ports(self._n)
        return ports if np.any(self._points.reach) else ports[:2]

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """State of the continuous form (no sample time): surface displacements x (n, 3) [m]."""
        return () if self.sample_time is not None else (patch_port(self._n),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """Sampled states: surface displacements z (normal) and x (tangential), and held outputs."""
        if self.sample_time is None:
            return ()
        z = Port(
            "z", (self._n,), "m", "position of the surface along the normal at each point", 0.0
        )
        return (z, patch_port(self._n), *(port for port in self.outputs if port.name != "depth"))

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time is not None:
            return {}
        touching, v = self._contact(u)
        return {"x": self._law(p).rate(touching, v, x.x)}

    def initial(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time is None:
            return {}
        touching, v = self._contact(u)
        # at the start, the surface is displaced only at penetrating points
        z = minimum(-touching.depth, x.z)
        return self._sample(
            SurfaceState(z, x.x),
            self._law(p).force(touching, v, x.x, x.z),
            touching,
        )

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time is None:
            return {}
        touching, v = self._contact(u)
        state, force = self._law(p).sample(touching, v, SurfaceState(x.z, x.x), self.sample_time)
        return self._sample(state, force, touching)

    def switching_functions(self, u: Record, p: Record) -> Array:
        """Return the margins (n,) [m] of the points, positive if a contact force acts.

        The result is empty if the block has a sample time.
        """
        if self.sample_time is not None:
            return np.zeros(0)
        touching, v = self._contact(u)
        return np.asarray(self._law(p).margin(touching, v))

    def output(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time is not None:
            return {"depth": contact(self.ground, u.p, self._points.reach).depth}
        touching, v = self._contact(u)
        force = self._law(p).force(touching, v, x.x)
        f, there = total_force(force, touching), contact_flags(force)
        return {
            "f_ext": self._body_wrenches(f, touching.point),
            "force": f,
            "depth": touching.depth,
            "in_contact": there,
        }

    @property
    def _extrapolates(self) -> bool:
        return self.lead and self.sample_time is not None

    def _jacobian(self, q: Array) -> Array:
        points = zip(self._points.body, self._points.position, strict=True)
        return np.vstack([point_jacobian(self.model, q, i, r) for i, r in points])

    def _contact(self, u: Record) -> tuple[Contact, Array]:
        """Return the contact geometry of the points, and the velocities (n, 3) at the contacts.

        If `lead` is True, the function extrapolates the points to the middle of the hold interval.
        Each velocity [m/s] is the velocity of the body at the contact point `Contact.point`.
        """
        p = u.p if self.sample_time is None or not self.lead else u.p + self.sample_time / 2 * u.v
        touching = contact(self.ground, p, self._points.reach)
        if not np.any(self._points.reach):
            return touching, u.v
        arm = touching.point - p
        return touching, u.v + np.array([cross(w, r) for w, r in zip(u.w, arm, strict=True)])

    def _sample(self, state: SurfaceState, force: ContactForce, touching: Contact) -> Values:
        """Return the sampled states and outputs from the surface `state`, forces and contacts."""
        f, there = total_force(force, touching), contact_flags(force)
        f_ext = self._body_wrenches(f, touching.point)
        return {"z": state.z, "x": state.x, "f_ext": f_ext, "force": f, "in_contact": there}

    def _body_wrenches(self, force: Array, point: Array) -> Array:
        """Return the wrenches (nb, 6) on the bodies from the forces (n, 3) at `point` (n, 3)."""
        wrenches, f_ext = wrench(force, point), [np.zeros(6)] * self.model.nb
        for body, one in zip(self._points.body, wrenches, strict=True):
            f_ext[body] = f_ext[body] + one
        return np.array(f_ext)


def _motion_ports(n: int) -> tuple[Port, ...]:
    return (
        Port("p", (n, 3), "m", "position of each point, base coordinates"),
        Port("v", (n, 3), "m/s", "velocity of each point, base coordinates"),
        Port("w", (n, 3), "rad/s", "angular velocity of the body of each point, base coordinates"),
    )


@dataclass(frozen=True, eq=False)
class ContactPlant(CompliantPlant):
    """Forward dynamics of a robot on compliant ground, with joint forces as input.

        H(q) qdd + C(q, qd) = tau + sum J_i^T f_i      f_i by the law of `GroundContact` (RBDA 11.8)

    f_i is the force at contact point i, and J_i the Jacobian of this point. H is the joint-space
    inertia matrix, and C the bias force. `robot` is a `RobotPlant`, `FloatingBasePlant` or
    `ClosedLoopPlant`. The plant combines the robot with the continuous form of a `GroundContact`.
    The other fields are the fields of `GroundContact`. The field `contact` of the model contains
    the shapes with the contact points.

    The plant evaluates the forces at every stage of the integrator instead of holding them, so only
    the integrator limits stability. The integration methods differ:

    - "adaptive or stiff" is recommended. The steps end when contacts open or close, so a bounce
      gains no energy at any stiffness. The step size may exceed the time constant D_t / K_t of the
      tangential spring-dampers.
    - "adaptive" is sufficient if the contact is not stiff.
    - Explicit methods with fixed steps need steps below about 2.5 sqrt(m / K), 2.5 m / D and
      2.5 D_t / K_t, with the effective mass m at the contact. `simulate` issues a warning for
      larger steps. Each bounce adds or removes some energy.
    - Linearly implicit methods with fixed steps have a much larger energy error.

    Raises:
        TypeError: The robot is a block of another type.
    """

    robot: Plant
    K: float
    D: float
    mu: float = 0.0
    ground: Surface = field(default_factory=Plane)
    K_t: float | None = None
    D_t: float | None = None
    depth_ref: float | None = None

    @cached_property
    def contact(self) -> GroundContact:
        """`GroundContact` block for the model of the robot."""
        law = (self.K, self.D, self.mu, self.ground, self.K_t, self.D_t, self.depth_ref)
        assert isinstance(self.robot.model, Model)
        return GroundContact(self.robot.model, *law)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs of the robot, and force (n, 3), depth (n,) and in_contact (n,) of the points."""
        return (
            *self._robot.outputs,
            *(port for port in self.contact.outputs if port.name != "f_ext"),
        )

    def derivative(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        touching = self._motion_of_points(x)
        f_ext = self.contact.output(x=x, u=touching, p=p)["f_ext"]
        robot = self._robot_values("derivative", t, x, u, p, f_ext)
        return {**robot, **self.contact.derivative(x=x, u=touching, p=p)}

    def switching_functions(self, x: Record, p: Record) -> Array:
        """Return the switching functions of the robot, and the margins (n,) [m] of the points."""
        ground = self.contact.switching_functions(u=self._motion_of_points(x), p=p)
        return np.concatenate([self.robot.switching_functions(x, p), ground])

    def output(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        ground = dict(self.contact.output(x=x, u=self._motion_of_points(x), p=p))
        robot = self._robot_values("output", t, x, u, p, ground.pop("f_ext"))
        return {**robot, **ground}

    def modes(self, x: Record, p: Record) -> Array:
        """Return the eigenvalues [1/s] of the plant with all points in contact.

        If mu is positive, all points stick, and the result includes -K_t / D_t, the eigenvalue of
        the tangential displacements x of the contact surface.
        """
        model, points = self._model, self._points
        q = self.robot.configuration(x)[0]
        at = contact(
            self.ground, point_motion(model, q, np.zeros(model.nv), points)[0], points.reach
        )
        rows, sizes = [], []
        for body, r, n in zip(points.body, points.position, at.normal, strict=True):
            J = point_jacobian(model, q, body, r)
            rows += [(n @ J)[None, :], J - np.outer(n, n @ J)]
            sizes += [(p.K, p.D)] + 3 * [(p.K_t, p.D_t) if p.mu else (0.0, 0.0)]
        touching = Compliance(np.vstack(rows), *np.array(sizes).T)
        patches = [-p.K_t / p.D_t] if p.mu else []
        return np.concatenate([self.robot.modes_with(x, p, touching), patches])

    def _motion_of_points(self, x: Record) -> Record:
        """Return positions p, velocities v and body angular velocities w (n, 3) of the points."""
        motion = point_motion(self._model, *self.robot.configuration(x), self._points)
        return Record(dict(zip("pvw", motion, strict=True)))

    @cached_property
    def _points(self) -> BodyPoints:
        return body_points(self._model)


@dataclass(frozen=True, eq=False)
class ContactForces(Block):
    """Block that adds up the contact forces on named bodies of a robot (force sensors).

        `force_<body>` = sum of f_k over the contact points k of the body

    All forces are in base coordinates. The input `force` (n, 3) [N] contains the forces f_k at all
    contact points in the order of the bodies, as in `ContactPlant` and `GroundContact`. The output
    for a body `foot` is `force_foot` (3,) [N]. If `bodies` is empty, the block has one output for
    each body with contact points.

    Raises:
        ValueError: A body is not in the model, has no contact points or is listed twice, or its
            name is not a valid port name.
    """

    model: Model
    bodies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names, points = self.model.body_names, self._points
        touching = tuple(dict.fromkeys(names[i] for i in points.body))
        object.__setattr__(self, "bodies", tuple(self.bodies) or touching)
        for body in self.bodies:
            if body not in touching:
                raise ValueError(
                    f"body {body!r} of model '{self.model.name}' has no contact points; bodies "
                    f"with contact points: {', '.join(touching)}"
                    f"{close_match_hint(str(body), touching)}"
                )
            if not body.isidentifier():
                raise ValueError(
                    f"the name '{body}' of a body with a contact force output must have only "
                    f"letters, digits and _, and not begin with a digit"
                )
        if len(set(self.bodies)) < len(self.bodies):
            raise ValueError(
                f"each body can have only one contact force output; `bodies` is {list(self.bodies)}"
            )

    @cached_property
    def _points(self) -> BodyPoints:
        return body_points(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Input: forces (n, 3) [N] at the contact points."""
        n = len(self._points.body)
        text = "force on the body at each contact point, base coordinates"
        return (Port("force", (n, 3), "N", text),)

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """Outputs: force force_<body> (3,) [N] on each named body."""
        text = "force of contact on {}, base coordinates"
        return tuple(Port(f"force_{b}", (3,), "N", text.format(b)) for b in self.bodies)

    def output(self, u: Record) -> Values:
        of = [self.model.body_names[i] for i in self._points.body]
        return {
            f"force_{body}": _total_force([u.force[k] for k, one in enumerate(of) if one == body])
            for body in self.bodies
        }


def _total_force(forces: list[Any]) -> Any:
    total = np.zeros(3)
    for force in forces:
        total = total + force
    return total


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class ContactPair:
    """Contact of the points of one body with a surface of another body.

    `touching` and `touched` are body indices; `touched` = -1 is the base. The points belong to the
    shapes of body `touching` in the model's field `contact`. `surface` is fixed to body `touched`
    and is in coordinates of this body.
    """

    touching: int
    touched: int
    surface: Surface


@dataclass(frozen=True, eq=False)
class PairPoints:
    """The n contact points of a contact pair.

    `position` (n, 3) [m] is in the coordinates of the touching body. `reach` (n,) [m] is the radius
    of the sphere about each point.
    """

    pair: ContactPair
    position: Array
    reach: Array


@dataclass(frozen=True, eq=False)
class PairMotion:
    """Motion of the points of a pair relative to the surface, in coordinates of the touched body.

    `p` (n, 3) [m] and `v` (n, 3) [m/s] are the positions and velocities of the points. `w` (3,)
    [rad/s] is the relative angular velocity of the touching body. `X` transforms base coordinates
    to coordinates of the touched body.
    """

    p: Array
    v: Array
    w: Array
    X: Transform


def pair_points(model: Model, pairs: Sequence[ContactPair]) -> tuple[PairPoints, ...]:
    """Return the contact points of each pair.

    Raises:
        ValueError: A body is not in the model or is in contact with itself, or a touching body has
            no shapes or too few points (`check_corners`).
        TypeError: A surface is not a Surface.
    """
    for k, pair in enumerate(pairs):
        _check_pair(model, k, pair)
        check_corners(model, [pair.touching], pair.surface)
    points = body_points(model)
    found = []
    for k, pair in enumerate(pairs):
        of_body = np.array(points.body) == pair.touching
        if not of_body.any():
            name = model.body_names[pair.touching]
            raise ValueError(
                f"contact pair {k}: body {name} has no contact shapes; list its shapes in the "
                "field `contact` of the model"
            )
        found.append(PairPoints(pair, points.position[of_body], points.reach[of_body]))
    return tuple(found)


def _check_pair(model: Model, k: int, pair: ContactPair) -> None:
    """Raise ValueError or TypeError if the bodies or the surface of pair k are invalid."""
    given = ((pair.touching, 0), (pair.touched, -1))
    if bad := [body for body, least in given if not least <= body < model.nb]:
        raise ValueError(
            f"contact pair {k} has the unknown body {bad[0]}; model '{model.name}' has the "
            f"bodies 0 .. {model.nb - 1}"
        )
    if pair.touching == pair.touched:
        raise ValueError(f"contact pair {k}: body {pair.touching} cannot touch itself")
    if not isinstance(pair.surface, Surface):
        raise TypeError(
            f"the surface of contact pair {k} must be a Surface such as Box(sides), not "
            f"{pair.surface!r}"
        )


def pair_motions(
    model: Model, q: Array, qd: Array, points: Sequence[PairPoints]
) -> list[PairMotion]:
    """Return the motion of the points of each pair relative to the surface of the pair."""
    X0, v = [*body_poses(model, q), identity()], [*body_velocities(model, q, qd), np.zeros(6)]
    return [
        _pair_motion(
            X0[some.pair.touching],
            X0[some.pair.touched],
            v[some.pair.touching],
            v[some.pair.touched],
            some,
        )
        for some in points
    ]


def _pair_motion(
    X_i: Transform, X_j: Transform, v_i: Array, v_j: Array, points: PairPoints
) -> PairMotion:
    """Return the motion of the points of one pair from the poses and velocities of its bodies.

    The subscript i denotes the touching body, and j the touched body.
    """
    X = multiply_transforms(X_j, X_i.inverse())  # from touching-body to touched-body coordinates
    v = X @ v_i - v_j
    E, r = X.E, X.r
    p = np.array([E @ (position - r) for position in points.position])
    return PairMotion(p, np.array([v[3:] + cross(v[:3], p_k) for p_k in p]), v[:3], X_j)


@dataclass(frozen=True, eq=False)
class BodyContact(CompliantPoints):
    """Forces of compliant contact between bodies of a robot, or with the base (RBDA 11.8).

        f_n = max(0, K d + D dd/dt) in contact,  |f_t| <= mu f_n

    d [m] is the penetration depth of a point, f_n the normal force and f_t the friction force. K
    [N/m] and D [N.s/m] are the stiffness and damping along the normal, K_t and D_t along the
    tangents. mu is the coefficient of friction.

    Each of the `pairs` consists of the points of one body and a surface of another body. The law
    is the continuous form of `GroundContact`, in the coordinates of the touched body. A sticking
    point therefore moves with the touched body. The force acts on the touching body, and the
    opposite force acts on the touched body at the same point. Therefore total momentum is
    conserved.

    Outputs, for n points in the order of the pairs:

    - `f_ext` (nb, 6), the total wrenches on the bodies, for the input `f_ext` of a plant;
    - `force` (n, 3) [N] on the touching body, in base coordinates;
    - `depth` (n,) [m], the penetration depth, negative if the point does not touch the surface;
    - `in_contact` (n,), 1 if a contact force acts at the point, else 0.

    An explicit integrator of the state x (n, 3) needs step sizes below D_t / K_t. In a
    `ContinuousSystem` with the plant, the block computes the forces at every stage of the
    integrator. As a separate part of a system, the block holds its forces over a communication
    step. Held forces are stable up to the step size `longest_step`.

    K_t and D_t default to K and D. If `depth_ref` [m] is given, the normal stiffness grows with the
    depth (`contact.SoftLaw`).

    Raises:
        ValueError: A coefficient is out of range, or a pair is invalid (`contact.pair_points`).
    """

    model: Model
    pairs: tuple[ContactPair, ...]
    K: float
    D: float
    mu: float = 0.0
    K_t: float | None = None
    D_t: float | None = None
    depth_ref: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "pairs", tuple(self.pairs))
        if not self.pairs:
            raise ValueError(
                f"`pairs` is empty; body contact of model '{self.model.name}' needs one or more "
                "pairs of bodies"
            )

    @cached_property
    def _points(self) -> tuple[PairPoints, ...]:
        return pair_points(self.model, self.pairs)

    @property
    def _n(self) -> int:
        return sum(len(some.position) for some in self._points)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs: joint positions q (nq,) and joint velocities qd (nv,)."""
        return joint_ports(self.model, q="joint positions", qd="joint velocities")

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """State: surface displacements x (n, 3) [m], in coordinates of the touched bodies."""
        return (patch_port(self._n),)

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        law = self._law(p)
        rates = [law.rate(touching, v, x_k) for _, touching, v, x_k in self._contacts(x, u)]
        return {"x": np.concatenate(rates)}

    def output(self, x: Record, u: Record, p: Record) -> Values:
        law, f_ext = self._law(p), [np.zeros(6)] * self.model.nb
        forces, depths, there = [], [], []
        for (motion, touching, v, x_k), pair in zip(self._contacts(x, u), self.pairs, strict=True):
            force = law.force(touching, v, x_k)
            f = total_force(force, touching)
            f_pair = motion.X.T @ wrench(f, touching.point).sum(axis=0)
            f_ext[pair.touching] = f_ext[pair.touching] + f_pair
            if pair.touched >= 0:
                f_ext[pair.touched] = f_ext[pair.touched] - f_pair
            forces.append(f @ motion.X.E)
            depths.append(touching.depth)
            there.append(contact_flags(force))
        f_all, depth, touches = (np.concatenate(parts) for parts in (forces, depths, there))
        return {"f_ext": np.array(f_ext), "force": f_all, "depth": depth, "in_contact": touches}

    def switching_functions(self, x: Record, u: Record, p: Record) -> Array:
        """Return the margins (n,) [m] of the contact points, positive if a contact force acts."""
        law = self._law(p)
        return np.concatenate(
            [law.margin(touching, v) for _, touching, v, _ in self._contacts(x, u)]
        )

    def _jacobian(self, q: Array) -> Array:
        rows = []
        motions = pair_motions(self.model, q, np.zeros(self.model.nv), self._points)
        for motion, some in zip(motions, self._points, strict=True):
            i, j = some.pair.touching, some.pair.touched
            for own, other in zip(some.position, motion.p, strict=True):
                J = point_jacobian(self.model, q, i, own)
                rows.append(J - point_jacobian(self.model, q, j, other) if j >= 0 else J)
        return np.vstack(rows)

    def _contacts(self, x: Record, u: Record) -> list[tuple[PairMotion, Contact, Array, Array]]:
        """Return the point motion, contact geometry, contact velocities and states of each pair.

        The contact velocities (n, 3) [m/s] are the velocities of the touching body relative to the
        surface at the contact points. The states (n, 3) [m] are the surface displacements x.
        """
        motions, found, k = pair_motions(self.model, u.q, u.qd, self._points), [], 0
        for motion, some in zip(motions, self._points, strict=True):
            touching = contact(some.pair.surface, motion.p, some.reach)
            v = motion.v + np.array([cross(motion.w, r) for r in touching.point - motion.p])
            found.append((motion, touching, v, x.x[k : k + len(v)]))
            k += len(v)
        return found
