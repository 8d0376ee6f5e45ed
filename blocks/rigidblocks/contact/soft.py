"""Compliant contact with Coulomb friction (RBDA 11.8): forces from positions and velocities alone.

The surface is a patch without mass on a spring and a damper, one along the normal and one in the
tangent plane. The letters are the book's: p is the negative of the depth [m], z <= 0 is where the
surface is [m], x (..., 3) how far the patch is displaced in the tangent plane [m], v (..., 3) the
velocity of the body's material point against the ground [m/s]. The functions take one contact or
many (...), floats or traced.

Two forms of one law. The *sampled* form, `SoftLaw.sampled`, remembers z and x from one sample to
the next, with steps that are stable for every D / K: z by its closed form, x by the implicit Euler
formula, which dissipates. The *continuous* form, `SoftLaw.force` and `SoftLaw.rate`, has the state
x alone: its surface comes back at once behind a body that leaves, z = min(p, 0). It differs from
the other where a body comes back faster than the surface, and needs no event to be exact.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.scalar import (
    is_number,
    is_traced,
    less,
    maximum,
    minimum,
    piecewise,
    select,
)
from rigidblocks.algebra.spatial import Array
from rigidblocks.model.shapes import Contact

_LEAST = (
    1e-24  # of a depth relative to the reference depth: keeps derivatives of square roots finite
)
_TINY = 1e-200  # N^2: less than any force that slips


class ContactForce(NamedTuple):
    """The force on the body at contacts: `normal` (...) along the normal, `friction` (..., 3) in
    the tangent plane [N].
    """

    normal: Any
    friction: Array


class SurfaceState(NamedTuple):
    """The surface under contacts: `z` (...) along the normal, `x` (..., 3) in the tangent plane
    [m].
    """

    z: Any
    x: Array


def normal_force(p: Any, pdot: Any, z: Any, K: Any, D: Any, g: Any = 1.0) -> Any:
    """The force of the surface on the body, never negative [N] (RBDA Eq 11.74).

    f_n = 0 where p > z,  max(0, -g (K p + D dp/dt)) where p <= z
    """
    return select(less(z, p), 0.0, maximum(0.0, -(g * (K * p + D * pdot))))


def surface_rate(z: Any, f_n: Any, K: Any, D: Any, g: Any = 1.0) -> Any:
    """dz/dt = -(K z + f_n / g) / D (RBDA Eq 11.73)."""
    return -(K * z + f_n / g) / D


def surface_after(z: Any, h: Any, K: Any, D: Any) -> Any:
    """Where a surface that nothing touches has come to after a time h [s]: z exp(-K h / D); 0 at
    once without damping.
    """
    return z * np.exp(-K * h / maximum(D, 1e-3 * K * h))  # exp(-1000) is 0


def zener_force(p: Any, y: Any, K_s: Any) -> Any:
    """The force of a surface on a spring K_s [N/m] in series with spring and damper side by side,
    the Zener element (RBDA 11.8).

        f_n = max(0, K_s (y - p)),  dy/dt of `surface_rate`

    y <= 0 is where the spring rests on the damper. The force does not depend on velocities, so that
    it does not jump when a body arrives; it tends to `normal_force` as K_s grows.
    """
    return maximum(0.0, K_s * (y - p))


def stick_force(x: Array, v: Array, K_t: Any, D_t: Any) -> Array:
    """The friction force (..., 3) that keeps the point from slipping, -K_t x - D_t v [N] (RBDA Eq
    11.78).
    """
    force: Array = -(K_t * x + D_t * v)
    return force


def in_cone(f: Array, limit: Any) -> Array:
    """The force f (..., 3), shortened to `limit` (...) where it is longer: the friction cone (RBDA
    Eq 11.79 in two dimensions).

    Where it begins or ends to slip is an event of model exchange, not where `limit` is zero.
    """
    squared = _dot(f, f)
    slips = less(limit * limit, squared)
    length = _sqrt(select(slips, squared, 1.0))  # never zero, so that its derivative exists
    part = select(slips, limit / length, 1.0)
    if is_traced(squared, limit):
        room = select(less(0.0, limit), (squared - limit * limit) / (squared + limit * limit), 1.0)
        slipping = limit / _sqrt(maximum(squared, _TINY))
        part = piecewise(room, slipping, 1.0, part)
    shortened: Array = np.asarray(part)[..., None] * f
    return shortened


def patch_rate(x: Array, f_t: Array, K_t: Any, D_t: Any) -> Array:
    """dx/dt = -(K_t x + f_t) / D_t (RBDA Eq 11.77); it is v where the point sticks."""
    rate: Array = -(K_t * x + f_t) / D_t
    return rate


def in_tangent_plane(v: Array, normal: Array) -> Array:
    """The part of v (..., 3) that is perpendicular to the unit normal."""
    tangential: Array = v - np.asarray(_dot(v, normal))[..., None] * normal
    return tangential


def wrench(force: Array, point: Array) -> Array:
    """[c x f; f] (..., 6), the spatial force of a force at a point, about the origin; the other
    body feels its negative.
    """
    x, y, z = point[..., 0], point[..., 1], point[..., 2]
    a, b, c = force[..., 0], force[..., 1], force[..., 2]
    return np.stack([y * c - z * b, z * a - x * c, x * b - y * a, a, b, c], axis=-1)


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class SoftLaw:
    """The compliance of contacts: K and D along the normal, K_t and D_t in the tangent plane [N/m,
    N s/m], friction mu.

    They are linear unless there is a `depth_ref` [m]: then the spring and the damper along the
    normal are stiffer by g = sqrt(depth / depth_ref), so that f_n goes with depth^1.5, as between
    round bodies, and the damper begins softly. Those in the tangent plane stay linear: a spring
    that a greater depth makes stiffer would give back more than it got. The numbers may be traced.
    """

    K: Any
    D: Any
    mu: Any
    K_t: Any
    D_t: Any
    depth_ref: float | None = None

    def stiffening(self, p: Any) -> Any:
        """g, by which spring and damper along the normal are stiffer at the depth -p; 1 where they
        are linear.
        """
        if self.depth_ref is None:
            return 1.0
        return _sqrt(maximum(-p / self.depth_ref, _LEAST))

    def force(self, contact: Contact, v: Array, x: Array, z: Any = 0.0) -> ContactForce:
        """The force on the body at the contacts, the surface at z or, unless given, where nothing
        has displaced it.
        """
        p, n = -contact.depth, contact.normal
        pdot, g = _dot(v, n), self.stiffening(p)
        f_n = normal_force(p, pdot, z, self.K, self.D, g)
        if is_traced(p, pdot) and is_number(z, 0.0):  # the continuous form
            push = -(g * (self.K * p + self.D * pdot))
            f_n = piecewise(self.margin(contact, v), push, 0.0, f_n)
        f_stick = stick_force(in_tangent_plane(x, n), in_tangent_plane(v, n), self.K_t, self.D_t)
        return ContactForce(f_n, in_cone(f_stick, self.mu * f_n))

    def margin(self, contact: Contact, v: Array) -> Any:
        """By how much a contact pushes (...) [m]: positive where there is a force of the continuous
        form, and in the air the negative of the gap unless it is one that opens.

            min(-p, -(p + D / K dp/dt))
        """
        depth = contact.depth
        return minimum(depth, depth - self.D / self.K * _dot(v, contact.normal))

    def rate(self, contact: Contact, v: Array, x: Array) -> Array:
        """dx/dt (..., 3) of the continuous form; out of contact x decays."""
        return patch_rate(
            in_tangent_plane(x, contact.normal),
            self.force(contact, v, x).friction,
            self.K_t,
            self.D_t,
        )

    def sampled(
        self, contact: Contact, v: Array, state: SurfaceState, h: float
    ) -> tuple[SurfaceState, ContactForce]:
        """The surface at a sample a time h after that of `state`, and the force from then on.

            z = min(p, relaxed z),
            x = (D_t x - h f_t) / (D_t + h K_t), which is x + h v where the point sticks

        Out of contact x is zero: a body that comes back finds a surface that has forgotten it.
        """
        z = surface_after(state.z, h, self.K, self.D)
        x = in_tangent_plane(state.x, contact.normal)
        force = self.force(contact, v, x + h * in_tangent_plane(v, contact.normal), z)
        x = (self.D_t * x - h * force.friction) / (self.D_t + h * self.K_t)
        return SurfaceState(
            minimum(-contact.depth, z),
            select(np.asarray(less(0.0, force.normal))[..., None], x, 0.0),
        ), force


def stable_step(K: float, D: float, m_eff: float, *, lead: bool = False) -> float:
    """The longest step h [s] over which a contact's force may be held before it makes the contact
    unstable.

        w0 h < min(4 zeta, 1 / zeta)              force from the motion at the beginning of the step
        w0 h < 2 (sqrt(1 + zeta^2) - zeta)  with `lead`, from the position p + h / 2 dp/dt
        with w0^2 = K / m_eff and zeta = D / (2 sqrt(K m_eff))

    For a linear law and a plant that is integrated exactly over the step, from the conditions of
    Jury on the characteristic polynomials z^2 + z (a + b - 2) + 1 + a - b and z^2 + z (2 a + b - 2)
    + 1 - b, with a = h^2 K / 2 m_eff and b = h D / m_eff. Without damping there is no stable step,
    but with `lead`. The friction of the sampled form is of the second kind, with K_t and D_t.
    `m_eff` = 1 / (n I^-1 n) [kg] is the mass that the contact feels (`effective_mass`); several
    contacts with one K and D bear the step of the lightest mode, with 1 / m_eff the largest
    eigenvalue of N^T I^-1 N. Raises ValueError for what is not positive; D may be zero.
    """
    if not (np.isfinite([K, m_eff]).all() and min(K, m_eff) > 0 and np.isfinite(D) and D >= 0):
        raise ValueError(
            "a stable step needs a positive stiffness and mass and a damping that is not "
            f"negative, not K = {K} N/m, "
            f"m_eff = {m_eff} kg and D = {D} N s/m"
        )
    if lead:
        return float(np.sqrt(D * D + 4 * K * m_eff) - D) / K
    return min(2 * D / K, 2 * m_eff / D) if D > 0 else 0.0


def _dot(a: Array, b: Array) -> Any:
    return a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1] + a[..., 2] * b[..., 2]


def _sqrt(a: Any) -> Any:
    """The square root of numbers of which some may be traced."""
    return _sqrt_each(a) if np.asarray(a).dtype == object else np.sqrt(a)


_sqrt_each = np.frompyfunc(np.sqrt, 1, 1)
