"""Compliant contact laws, which compute forces from positions and velocities (RBDA 11.8).

The contact surface is a massless patch with one spring-damper along the normal and one in the
tangent plane. The symbols follow RBDA:

- p is the gap between body and undeformed ground [m], negative in penetration;
- z <= 0 is the position of the deformed surface along the normal [m];
- x (..., 3) is the displacement of the patch in the tangent plane [m];
- v (..., 3) is the velocity of the body's material point relative to the ground [m/s].

The functions accept one contact or an array of contacts (...), as floats or traced values.

The contact law has two forms. The *sampled* form, `SoftLaw.sample`, stores z and x between samples
and is stable for every D / K. It computes z in closed form and x by the implicit Euler formula,
which dissipates energy. The *continuous* form, `SoftLaw.force` and `SoftLaw.rate`, has only the
state x. In this form, the surface follows a separating body immediately: z = min(p, 0). The two
forms differ only if a body touches the ground again before the surface has relaxed.
"""

import abc
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.block import Block, Port, Record, StartRelation, Values, call
from rigidblocks.dynamics.force_laws import stable_step
from rigidblocks.dynamics.operational_space import inverse_inertia
from rigidblocks.library.plants import Plant
from rigidblocks.robot.model import Model
from rigidblocks.robot.shapes import Contact
from rigidblocks.spatial.scalar import (
    is_number,
    is_traced,
    less,
    maximum,
    minimum,
    piecewise,
    select,
    square_root,
)
from rigidblocks.spatial.spatial import Array

# lower bound of depth / depth_ref; the derivative of the square root is infinite at 0
_LEAST = 1e-24
_TINY = 1e-200  # [N^2], smaller than the square of any sliding friction force


class ContactForce(NamedTuple):
    """Normal and friction contact forces on the body [N].

    `normal` (...) acts along the normal, and `friction` (..., 3) acts in the tangent plane.
    """

    normal: Any
    friction: Array


class SurfaceState(NamedTuple):
    """Displacements of the contact surface at the contacts [m].

    `z` (...) is the position along the normal, and `x` (..., 3) is the displacement in the tangent
    plane.
    """

    z: Any
    x: Array


def normal_force(p: Any, pdot: Any, z: Any, K: Any, D: Any, g: Any = 1.0) -> Any:
    """Return the normal force f_n of the surface on the body [N] (RBDA Eq 11.74).

        f_n = 0 if p > z,  else max(0, -g (K p + D dp/dt))

    p [m] is the gap, negative in penetration, and z [m] the surface position along the normal. K
    [N/m] and D [N s/m] are the stiffness and damping along the normal. g is the stiffening factor
    for round bodies (`SoftLaw.stiffening_factor`).
    """
    return select(less(z, p), 0.0, maximum(0.0, -(g * (K * p + D * pdot))))


def surface_rate(z: Any, f_n: Any, K: Any, D: Any, g: Any = 1.0) -> Any:
    """Return the surface velocity dz/dt = -(K z + f_n / g) / D [m/s] (RBDA Eq 11.73).

    f_n [N] is the normal force. z, K, D and g are as in `normal_force`.
    """
    return -(K * z + f_n / g) / D


def relaxed_surface(z: Any, h: Any, K: Any, D: Any) -> Any:
    """Return the position z exp(-K h / D) [m] of an unloaded surface after the time h [s].

    z, K and D are as in `normal_force`. If D is zero, the result is 0.
    """
    # exp(-1000) is 0, so the lower bound of D avoids a division by zero without changing the result
    return z * np.exp(-K * h / maximum(D, 1e-3 * K * h))


def zener_force(p: Any, y: Any, K_s: Any) -> Any:
    """Return the normal force of a Zener element: a spring K_s in series with a spring-damper.

        f_n = max(0, K_s (y - p))                                                      (RBDA 11.8)

    y <= 0 is the position of the node between the spring K_s [N/m] and the spring-damper. Call
    `surface_rate` with z = y to compute dy/dt. The force does not depend on velocities, so it is
    continuous at impact. If K_s tends to infinity, the force converges to `normal_force`.

    Args:
        p: Gap (...) [m], negative in penetration.
        y: Position of the node (...) [m].
        K_s: Stiffness of the series spring [N/m].
    """
    return maximum(0.0, K_s * (y - p))


def stick_force(x: Array, v: Array, K_t: Any, D_t: Any) -> Array:
    """Return the force -K_t x - D_t v (..., 3) [N] of a sticking patch (RBDA Eq 11.78).

    x (..., 3) [m] is the displacement of the patch, and v (..., 3) [m/s] the tangential velocity of
    the body at the contact. K_t [N/m] and D_t [N s/m] are the tangential stiffness and damping.
    """
    force: Array = -(K_t * x + D_t * v)
    return force


def project_to_cone(f: Array, limit: Any) -> Array:
    """Return the friction force f (..., 3), limited to the magnitude `limit` (...).

        f' = f min(1, limit / |f|)                            (RBDA Eq 11.79 in two dimensions)

    In model exchange, the start and the end of sliding are events. An open contact, whose limit is
    zero, counts as sliding.
    """
    squared = _dot(f, f)
    # the derivative of the square root is infinite at zero
    slipping = limit / square_root(maximum(squared, _TINY))
    # an open contact has zero force and zero limit and does not stick
    part = select(less(squared, limit * limit), 1.0, slipping)
    if is_traced(squared, limit):
        room = select(less(0.0, limit), (squared - limit * limit) / (squared + limit * limit), 1.0)
        part = piecewise(room, slipping, 1.0, part)
    shortened: Array = np.asarray(part)[..., None] * f
    return shortened


def patch_rate(x: Array, f_t: Array, K_t: Any, D_t: Any) -> Array:
    """Return the patch velocity dx/dt = -(K_t x + f_t) / D_t (..., 3) [m/s] (RBDA Eq 11.77).

    f_t (..., 3) [N] is the friction force. x, K_t and D_t are as in `stick_force`. If the contact
    sticks, dx/dt equals the tangential velocity of the body at the contact.
    """
    rate: Array = -(K_t * x + f_t) / D_t
    return rate


def tangential_part(v: Array, normal: Array) -> Array:
    """Return the component v - (v . n) n of v (..., 3) in the plane normal to the unit vector n."""
    tangential: Array = v - np.asarray(_dot(v, normal))[..., None] * normal
    return tangential


def wrench(force: Array, point: Array) -> Array:
    """Return the wrench [c x f; f] (..., 6), about the origin, of a force f at a point c."""
    x, y, z = point[..., 0], point[..., 1], point[..., 2]
    a, b, c = force[..., 0], force[..., 1], force[..., 2]
    return np.stack([y * c - z * b, z * a - x * c, x * b - y * a, a, b, c], axis=-1)


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class SoftLaw:
    """Compliant contact law with Coulomb friction mu.

    K and D are the stiffness [N/m] and damping [N s/m] along the normal, K_t and D_t in the tangent
    plane. If `depth_ref` [m] is given, the normal stiffness and damping are multiplied by
    g = sqrt(depth / depth_ref). The elastic normal force is then proportional to depth^1.5, as
    between round bodies, and the damping force is zero at depth zero. The tangential spring and
    damper stay linear, because a tangential stiffness that grows with the depth would generate
    energy. The coefficients may be traced values.
    """

    K: Any
    D: Any
    mu: Any
    K_t: Any
    D_t: Any
    depth_ref: float | None = None

    def stiffening_factor(self, p: Any) -> Any:
        """Return the factor g of the normal stiffness, sqrt(-p / depth_ref).

        If `depth_ref` is None, the factor is 1.
        """
        if self.depth_ref is None:
            return 1.0
        return square_root(maximum(-p / self.depth_ref, _LEAST))

    def force(self, contact: Contact, v: Array, x: Array, z: Any = 0.0) -> ContactForce:
        """Return the contact forces on the body, for surface states x (..., 3) and z (...) [m].

        v (..., 3) [m/s] is the velocity of the body at each contact. In the continuous form, pass z
        = 0.
        """
        p, n = -contact.depth, contact.normal
        pdot, g = _dot(v, n), self.stiffening_factor(p)
        f_n = normal_force(p, pdot, z, self.K, self.D, g)
        if is_traced(p, pdot) and is_number(z, 0.0):  # the continuous form
            push = -(g * (self.K * p + self.D * pdot))
            f_n = piecewise(self.margin(contact, v), push, 0.0, f_n)
        f_stick = stick_force(tangential_part(x, n), tangential_part(v, n), self.K_t, self.D_t)
        return ContactForce(f_n, project_to_cone(f_stick, self.mu * f_n))

    def margin(self, contact: Contact, v: Array) -> Any:
        """Return the margin of a contact (...) [m], positive if the contact force is nonzero.

            min(-p, -(p + D / K dp/dt))

        The margin refers to the continuous form of the law. p is the gap, negative in penetration,
        and K and D are the coefficients of the law. If an approaching body does not touch the
        surface, the margin is -p.
        """
        depth = contact.depth
        return minimum(depth, depth - self.D / self.K * _dot(v, contact.normal))

    def rate(self, contact: Contact, v: Array, x: Array) -> Array:
        """Return the patch velocity dx/dt (..., 3) [m/s].

        x (..., 3) [m] is the displacement of the patch, which decays to zero in an open contact.
        v (..., 3) [m/s] is the velocity of the body at each contact.
        """
        return patch_rate(
            tangential_part(x, contact.normal),
            self.force(contact, v, x).friction,
            self.K_t,
            self.D_t,
        )

    def sample(
        self, contact: Contact, v: Array, state: SurfaceState, h: float
    ) -> tuple[SurfaceState, ContactForce]:
        """Return the surface state at the next sample, and the contact force until then.

            z' = min(p, z exp(-K h / D)),    x' = (D_t x - h f_t) / (D_t + h K_t)

        A prime marks the next sample, h [s] is the sample time, and f_t the friction force. If the
        contact sticks, x' = x + h v. If the contact is open, x' is zero.
        """
        z = relaxed_surface(state.z, h, self.K, self.D)
        x = tangential_part(state.x, contact.normal)
        force = self.force(contact, v, x + h * tangential_part(v, contact.normal), z)
        x = (self.D_t * x - h * force.friction) / (self.D_t + h * self.K_t)
        return SurfaceState(
            minimum(-contact.depth, z),
            select(np.asarray(less(0.0, force.normal))[..., None], x, 0.0),
        ), force


def _dot(a: Array, b: Array) -> Any:
    return a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2]


def law_ports(
    K: float, D: float, mu: float, K_t: Any, D_t: Any, *, damped: bool
) -> tuple[Port, ...]:
    """Return the parameter ports K, D, mu, K_t and D_t of a compliant contact law.

    If `damped` is True, D_t must be positive.
    """
    return (
        Port("K", (), "N/m", "stiffness along the normal", K, min=0.0, positive=True),
        Port("D", (), "N.s/m", "damping along the normal", D, min=0.0),
        Port("mu", (), "1", "coefficient of friction", mu, min=0.0),
        Port("K_t", (), "N/m", "stiffness in the tangent plane", K_t, min=0.0, positive=True),
        Port("D_t", (), "N.s/m", "damping in the tangent plane", D_t, min=0.0, positive=damped),
    )


def law_from_parameters(p: Record, depth_ref: float | None) -> SoftLaw:
    """Return the compliant contact law whose coefficients are the block parameters p."""
    return SoftLaw(p.K, p.D, p.mu, p.K_t, p.D_t, depth_ref)


def patch_port(n: int) -> Port:
    """Return the state port x (n, 3) [m]: displacements of the surface at n contact points."""
    return Port(
        "x",
        (n, 3),
        "m",
        "tangential displacement of the surface at each point",
        0.0,
    )


def total_force(force: ContactForce, touching: Contact) -> Array:
    """Return the total forces (n, 3) [N], normal and friction, at the contacts `touching`."""
    f: Array = np.asarray(force.normal)[:, None] * touching.normal + force.friction
    return f


def contact_flags(force: ContactForce) -> Any:
    """Return the contact indicator (n,): 1 if a force acts at the contact, otherwise 0."""
    return select(less(0.0, force.normal), 1.0, 0.0)


def stable_hold(model: Model, q: Array, J: Array, law: SoftLaw, *, lead: bool = False) -> float:
    """Return the longest stable hold time [s] of contact forces at the configuration q.

    The result is the stability limit (`stable_step`) of the normal spring. If mu > 0, the result is
    the smaller limit of the normal and the tangential spring. The limits depend on the effective
    mass 1 / (largest eigenvalue of J H^-1 J^T). J (3n, nv) is the Jacobian of the n contact points,
    and H the joint-space inertia matrix. `lead` is True if the block evaluates the normal force at
    extrapolated positions.
    """
    m_eff = 1 / float(np.linalg.eigvalsh(inverse_inertia(model, q, J))[-1])
    normal = stable_step(law.K, law.D, m_eff, lead=lead)
    return min(normal, stable_step(law.K_t, law.D_t, m_eff, lead=True)) if law.mu else normal


def check_depth(depth_ref: float | None) -> None:
    """Check that the reference depth [m] is positive or None.

    Raises:
        ValueError: The reference depth is not positive.
    """
    if depth_ref is not None and not (np.isfinite(depth_ref) and depth_ref > 0):
        raise ValueError(f"depth_ref [m] must be positive, not {depth_ref}")


def check_spatial(model: Any) -> None:
    """Check that a model is spatial.

    Raises:
        TypeError: The model is planar.
    """
    if not isinstance(model, Model):
        raise TypeError(f"contact needs a spatial model; model '{model.name}' is planar")


class CompliantPlant(Block):
    """Robot plant that computes compliant contact forces at every stage of the integrator.

    A subclass defines the field `robot`, and the block `contact`, which computes the contact
    wrenches.

    Raises:
        TypeError: The robot is a block of another type, or its model is planar.
    """

    robot: Plant

    def __post_init__(self) -> None:
        if not isinstance(self.robot, Plant):
            raise TypeError(
                f"the robot of a {type(self).__name__} must be a RobotPlant, FloatingBasePlant or "
                f"ClosedLoopPlant, not {self.robot!r}"
            )
        check_spatial(self.robot.model)

    @property
    @abc.abstractmethod
    def contact(self) -> Block:
        """Block that computes the contact wrenches on the bodies of the robot."""

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """Inputs of the robot, including f_ext if the robot has this input."""
        return self.robot.inputs

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """States of the robot, and surface displacements x of the contact if it has friction."""
        return (*self._robot.states, *self.contact.states)

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """Parameters of the robot and of the contact law."""
        return (*self._robot.parameters, *self.contact.parameters)

    @property
    def start_relations(self) -> tuple[StartRelation, ...]:
        return self._robot.start_relations

    def project(self, t: Any, x: Record, u: Record, p: Record) -> Values:
        return call(self._robot, "project", t, x, u, p)

    def suspects(self, x: Record) -> Any:
        return self.robot.suspects(x)

    @cached_property
    def _robot(self) -> Plant:
        return self.robot.add_wrench_input()

    @property
    def _model(self) -> Model:
        """Model whose configuration and velocity are the states q and qd of the robot block."""
        model = self.robot.configuration_model
        assert isinstance(model, Model)
        return model

    def _robot_values(
        self, function: str, t: Any, x: Record, u: Record, p: Record, f_contact: Any
    ) -> Values:
        """Call a block function of the robot, such as "derivative", with the contact wrenches.

        The function adds the contact wrenches `f_contact` (nb, 6) to the input f_ext of the robot.
        """
        given = vars(u)
        f_ext = given["f_ext"] + f_contact if "f_ext" in given else f_contact
        return call(self._robot, function, t, x, Record({**given, "f_ext": f_ext}), p)
