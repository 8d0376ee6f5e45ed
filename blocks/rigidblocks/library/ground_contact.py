"""Contact with the ground as blocks of their own: where the points of a robot are, and what forces
the ground gives them.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rigidblocks.algebra.scalar import minimum
from rigidblocks.algebra.spatial import Array, cross
from rigidblocks.block.block import Block, Port, Record, Values, finite
from rigidblocks.contact.points import BodyPoints, body_points, check_corners, point_motion
from rigidblocks.contact.soft import ContactForce, SoftLaw, SurfaceState, wrench
from rigidblocks.dynamics.jacobian import point_jacobian
from rigidblocks.library.compliance import (
    check_depth,
    law_of,
    law_ports,
    patch_port,
    pushes,
    stable_hold,
    whole_force,
)
from rigidblocks.library.ports import joint_ports, wrench_port
from rigidblocks.model.model import Model
from rigidblocks.model.shapes import Contact, Plane, Surface, contact


@dataclass(frozen=True, eq=False)
class PointKinematics(Block):
    """The positions and velocities of the n contact points of a robot, in base coordinates.

    The points are those of the shapes in the model's field `contact`, in the order of the bodies.
    """

    model: Model

    @cached_property
    def _points(self) -> BodyPoints:
        return body_points(self.model)

    @cached_property
    def inputs(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,)."""
        return joint_ports(self.model, q="joint positions", qd="joint velocities")

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """p, v and w (n, 3)."""
        return _motion_ports(len(self._points.body))

    def output(self, u: Record) -> Values:
        return dict(zip("pvw", point_motion(self.model, u.q, u.qd, self._points), strict=True))


@dataclass(frozen=True, eq=False)
class GroundContact(Block):
    """The forces that soft ground gives the n contact points of a robot, from their positions and
    velocities (RBDA 11.8).

        f_n = max(0, -K p - D dp/dt) in contact,  |f_t| <= mu f_n

    `f_ext` (nb, 6) are the wrenches on the bodies, for the input of that name of a plant; `force`
    (n, 3) [N] the forces at the points; `depth` (n,) [m] is negative above the ground; `in_contact`
    (n,) is 1 where there is a force. The inputs are those of `PointKinematics`, `w` where a body
    has a sphere.

    With a `sample_time` [s] the forces are computed at its sample instants and held between them,
    and the surface's state z and x is stepped so that every stiffness is stable *inside* the block.
    Forces that are held come too late, and act where their body has been: with `lead` they are
    those of the points half a sample time ahead, p + sample_time / 2 v, which mends both to the
    second order for springs and places; the dampers stay late. Without a sample time the state is x
    alone and continuous, for an integrator with steps below D_t / K_t, say in a `ContinuousSystem`
    (`contact.soft` has both forms). `longest_step` says how long the forces may be held in a
    co-simulation, with and without lead.

    K_t and D_t are K and D unless given; `depth_ref` [m] makes the normal ones stiffer with depth
    (`contact.SoftLaw`). Raises ValueError for a shape whose points alone are not enough on such a
    ground (`contact.points.check_corners`).
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
        object.__setattr__(self, "K_t", self.K if self.K_t is None else self.K_t)
        object.__setattr__(self, "D_t", self.D if self.D_t is None else self.D_t)
        check_depth(self.depth_ref)
        if self.sample_time is None and not self.D_t:
            raise ValueError(
                "ground contact without damping D_t needs a sample_time: its continuous form "
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
        """p and v (n, 3), and w (n, 3) where a body has a sphere."""
        ports = _motion_ports(self._n)
        return ports if np.any(self._points.reach) else ports[:2]

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """f_ext (nb, 6), force (n, 3), depth (n,) and in_contact (n,)."""
        start = None if self.sample_time is None else 0.0
        return (
            wrench_port(self.model, start),
            Port(
                "force",
                (self._n, 3),
                "N",
                "force on the body at each point, base coordinates",
                start,
            ),
            Port("depth", (self._n,), "m", "how far each point is inside the ground"),
            Port(
                "in_contact",
                (self._n,),
                "1",
                "1 where the ground gives a force",
                start,
                min=0.0,
                max=1.0,
            ),
        )

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """Without a sample time x (n, 3)."""
        return () if self.sample_time is not None else (patch_port(self._n),)

    @cached_property
    def sampled(self) -> tuple[Port, ...]:
        """With a sample time z (n,) and x (n, 3), and the held outputs f_ext, force and
        in_contact.
        """
        if self.sample_time is None:
            return ()
        z = Port(
            "z", (self._n,), "m", "where the surface is under each point, along the normal", 0.0
        )
        return (z, patch_port(self._n), *(port for port in self.outputs if port.name != "depth"))

    @cached_property
    def parameters(self) -> tuple[Port, ...]:
        """K, D, mu, K_t and D_t."""
        continuous = self.sample_time is None
        return law_ports(self.K, self.D, self.mu, self.K_t, self.D_t, damped=continuous)

    def derivative(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time is not None:
            return {}
        touching, v = self._contact(u)
        return {"x": law_of(p, self.depth_ref).rate(touching, v, x.x)}

    def initial(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time is None:
            return {}
        touching, v = self._contact(u)
        z = minimum(
            -touching.depth, x.z
        )  # no time has passed: no surface has moved but under the points
        return self._sample(
            SurfaceState(z, x.x), law_of(p, self.depth_ref).force(touching, v, x.x, x.z), touching
        )

    def update(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time is None:
            return {}
        touching, v = self._contact(u)
        state, force = law_of(p, self.depth_ref).sampled(
            touching, v, SurfaceState(x.z, x.x), self.sample_time
        )
        return self._sample(state, force, touching)

    def margins(self, u: Record, p: Record) -> Array:
        """By how much the ground pushes at each point (n,) [m], without a sample time."""
        if self.sample_time is not None:
            return np.zeros(0)
        touching, v = self._contact(u)
        return np.asarray(law_of(p, self.depth_ref).margin(touching, v))

    def output(self, x: Record, u: Record, p: Record) -> Values:
        if self.sample_time is not None:
            return {"depth": contact(self.ground, u.p, self._points.reach).depth}
        touching, v = self._contact(u)
        force = law_of(p, self.depth_ref).force(touching, v, x.x)
        f, there = whole_force(force, touching), pushes(force)
        return {
            "f_ext": self._on_bodies(f, touching.point),
            "force": f,
            "depth": touching.depth,
            "in_contact": there,
        }

    def longest_step(self, q: Any) -> float:
        """The longest step [s] over which the forces may be held at the configuration q, all points
        in contact and sticking.

        For linear springs: `stable_step` of the normal and of the tangential ones with 1 / m_eff
        the largest eigenvalue of J H^-1 J^T, the inverse mass that all points feel in all
        directions, with J (3n, nv) their Jacobian. The gyroscopic forces of a fast motion are not
        in it; without friction, mu = 0, there are no tangential ones.
        """
        if self.depth_ref is not None:
            raise ValueError(
                "the longest step is known for linear springs, not where depth_ref makes them "
                "stiffer with depth"
            )
        return self._longest_step(q, SoftLaw(self.K, self.D, self.mu, self.K_t, self.D_t))

    def longest_hold(self, u: Record, p: Record) -> float:
        """`longest_step` where the points come from a `PointKinematics`, which knows q, and the
        springs are linear.
        """
        known = hasattr(u, "q") and np.shape(u.q) == (self.model.nq,) and self.depth_ref is None
        return (
            self._longest_step(u.q, law_of(p, None))
            if known and min(p.K, p.K_t) > 0
            else float("inf")
        )

    def _longest_step(self, q: Any, law: SoftLaw) -> float:
        q, points = finite(q, (self.model.nq,), "q"), self._points
        J = np.vstack(
            [
                point_jacobian(self.model, q, i, r)
                for i, r in zip(points.body, points.position, strict=True)
            ]
        )
        return stable_hold(self.model, q, J, law, lead=self.lead and self.sample_time is not None)

    def _contact(self, u: Record) -> tuple[Contact, Array]:
        """Where the points are against the ground, in the middle of the hold if there is a lead,
        and the velocities (n, 3) of what touches it.
        """
        p = u.p + self.sample_time / 2 * u.v if self.lead and self.sample_time is not None else u.p
        touching = contact(self.ground, p, self._points.reach)
        if not np.any(self._points.reach):
            return touching, u.v
        arm = touching.point - p
        return touching, u.v + np.array([cross(w, r) for w, r in zip(u.w, arm, strict=True)])

    def _sample(self, state: SurfaceState, force: ContactForce, touching: Contact) -> Values:
        f, there = whole_force(force, touching), pushes(force)
        f_ext = self._on_bodies(f, touching.point)
        return {"z": state.z, "x": state.x, "f_ext": f_ext, "force": f, "in_contact": there}

    def _on_bodies(self, force: Array, point: Array) -> Array:
        """The sums (nb, 6) of the wrenches at the points of each body."""
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
