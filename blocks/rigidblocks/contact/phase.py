"""The motion between two events of a system in rigid contact: closed contacts are equality
constraints (RBDA 11.5).

A contact that is closed either sticks, where it has friction, or slips. What it then does is linear
in the accelerations, so that a phase is smooth, and lasts until one of its margins is used up: a
contact force, a friction force within its cone, a sliding velocity in its direction, the gap of an
open contact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.contact.rigid import contact_bias, contact_matrix, through_inertia
from rigidblocks.contact.unilateral import (
    AnyContact,
    PointContact,
    contact_directions,
    contact_gap,
)
from rigidblocks.dynamics.inverse import bias_force
from rigidblocks.model.model import Model

Contacts = Callable[
    [Array, Array], Sequence[AnyContact]
]  # all contacts that there may be, always in the same order
WITHIN = (
    1e-9  # of the largest force, and of the largest acceleration or 1 m/s^2: what counts as zero
)
STILL = 1e-9  # [m/s] a sliding velocity that counts as zero
TOUCHING = 1e-13  # [m] a gap that counts as zero
_DEPENDENT = 1e-10  # of the largest singular value: contacts that depend on others


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Phase:
    """What the contacts do until the next event.

    `closed` are the numbers of the current contacts, `pressed` of the active ones among them, which
    have the force (RBDA Table 11.1); the others open or depend on those. `slip` has the directions
    (3,) against which the friction of those that slip acts. Where contacts depend on each other
    their friction is shared as in `share`, by the normal forces, or all of their forces are next to
    those in `near`, (z, x, y). `force` and `acceleration` are the sizes by which rounding is told
    from zero. Slower than `slow` [m/s] friction does not follow the direction of sliding.
    """

    closed: tuple[int, ...] = ()
    pressed: tuple[int, ...] = ()
    slip: Mapping[int, Array] = field(default_factory=dict)
    share: Mapping[int, float] = field(default_factory=dict)
    near: Mapping[int, Array] = field(default_factory=dict)
    force: float = 1.0
    acceleration: float = 1.0
    slow: float = STILL

    @property
    def sticking(self) -> tuple[int, ...]:
        """The pressed contacts that do not slip; those without friction are not among them in
        `directions`.
        """
        return tuple(i for i in self.pressed if i not in self.slip)


class Motion(NamedTuple):
    """The motion in a phase: qdd (nv,), the forces of all n contacts as (z, x, y) (n, 3), and along
    the same directions the velocities (n, 3) and accelerations (n, 3); zeros for contacts that are
    open.
    """

    qdd: Array
    force: Array
    velocity: Array
    acceleration: Array


class Surfaces(NamedTuple):
    """Where n contacts are: gaps (n,) [m or rad], tangents (n, 3, 2), zeros of joint limits, and
    coefficients of friction (n,).
    """

    gap: Array
    tangents: Array
    mu: Array


def surfaces(model: Model, q: Array, contacts: Sequence[AnyContact]) -> Surfaces:
    """Those of the contacts."""
    tangents = [
        contact_directions(c.normal)[:, 1:] if isinstance(c, PointContact) else np.zeros((3, 2))
        for c in contacts
    ]
    mu = [c.mu if isinstance(c, PointContact) else 0.0 for c in contacts]
    gap = [contact_gap(model, q, c) for c in contacts]
    return Surfaces(np.array(gap), np.array(tangents).reshape(-1, 3, 2), np.array(mu))


class Directions(NamedTuple):
    """Which of the r directions of some contacts are whose: `z[i]` is the normal of contact i and
    `xy[i]` are its tangents, for those with friction.
    """

    z: dict[int, int]
    xy: dict[int, slice]

    def tangents(self, i: int) -> range:
        """The numbers of the tangents of contact i; none without friction."""
        where = self.xy.get(i, slice(0, 0))
        return range(where.start, where.stop)

    def of(self, i: int) -> list[int]:
        """The numbers of all directions of contact i."""
        return [self.z[i], *self.tangents(i)]


def directions(rubs: Sequence[bool], chosen: Sequence[int]) -> Directions:
    """The directions of the chosen contacts, normals and tangents of each side by side; `rubs` says
    of all contacts which have friction.
    """
    z, xy, r = dict[int, int](), dict[int, slice](), 0
    for i in chosen:
        z[i], r = r, r + 1
        if rubs[i]:
            xy[i], r = slice(r, r + 2), r + 2
    return Directions(z, xy)


def each_direction(contacts: Sequence[AnyContact]) -> list[AnyContact]:
    """Contacts (r,) that have one direction each as their normal."""
    each = list[AnyContact]()
    for c in contacts:
        each.append(c)
        if isinstance(c, PointContact) and c.has_friction:
            each.extend(_along(c, tangent) for tangent in contact_directions(c.normal).T[1:])
    return each


def _along(contact: PointContact, tangent: Array) -> PointContact:
    """A contact at the same point with a tangent in the place of the normal."""
    # the term of the tangent's own rate is zero where a contact sticks
    return replace(contact, normal=tangent, mu=0.0, gap=0.0, normal_rate=np.zeros(3))


class PhaseEquation(NamedTuple):
    """a = M lam + d of the accelerations and forces (r,) along the directions D of some contacts
    (RBDA Eq 11.34 to 11.36).

    `surfaces` are those of all n; w = T^T qd (r,) are the velocities, `free` = H^-1 (tau - C)
    (nv,), and H^-1 T (nv, r).
    """

    surfaces: Surfaces
    D: Directions
    M: Array
    d: Array
    w: Array
    HinvT: Array
    free: Array

    def by_contact(self, values: Array) -> Array:
        """What there is along the directions (r,), as (z, x, y) of all contacts (n, 3)."""
        rows = np.zeros((len(self.surfaces.gap), 3))
        for i, k in self.D.z.items():
            rows[i, 0] = values[k]
            rows[i, 1:] = values[self.D.xy[i]] if i in self.D.xy else 0.0
        return rows

    def mu(self, i: int) -> float:
        """The coefficient of friction of contact i."""
        return float(self.surfaces.mu[i])

    def along(self, chosen: Sequence[int]) -> "PhaseEquation":
        """The same along the directions of fewer contacts."""
        rows = [k for i in chosen for k in self.D.of(i)]
        D = directions([i in self.D.xy for i in range(len(self.surfaces.gap))], chosen)
        M, d, w, HinvT = self.M[np.ix_(rows, rows)], self.d[rows], self.w[rows], self.HinvT[:, rows]
        return PhaseEquation(self.surfaces, D, M, d, w, HinvT, self.free)


def phase_equation(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    contacts: Sequence[AnyContact],
    closed: Sequence[int],
) -> PhaseEquation:
    """The equation along all directions of the contacts `closed`."""
    each = each_direction([contacts[i] for i in closed])
    T = contact_matrix(model, q, each, friction=False)
    M, HinvT, free = through_inertia(model, q, T, tau - bias_force(model, q, qd))
    bias = contact_bias(model, q, qd, each) if each else np.zeros(0)
    D = directions([c.has_friction for c in contacts], closed)
    here = surfaces(model, q, contacts)
    return PhaseEquation(here, D, M, T.T @ free + bias, T.T @ qd, HinvT, free)


def phase_motion(
    model: Model, q: Array, qd: Array, tau: Array, contacts: Sequence[AnyContact], phase: Phase
) -> Motion:
    """The motion with the closed contacts of a phase as equality constraints; numbers, not
    checked.
    """
    return motion_of(phase_equation(model, q, qd, tau, contacts, phase.closed), phase)


def motion_of(equation: PhaseEquation, phase: Phase) -> Motion:
    """The motion by the equation along the closed contacts of a phase."""
    lam, a = phase_forces(equation, phase)
    qdd = equation.free + equation.HinvT @ lam
    return Motion(qdd, *map(equation.by_contact, (lam, equation.w, a)))


def phase_forces(equation: PhaseEquation, phase: Phase) -> tuple[Array, Array]:
    """The forces lam (r,) and accelerations (r,) along all directions in a phase."""
    normal, tangent = _normal_columns(equation, phase), _tangent_columns(equation, phase)
    rows, columns, near = zip(*normal, *tangent, strict=True) if normal else ((), (), ())
    still = list(rows)
    # lam = G y; y next to `near` where contacts depend on each other
    G = np.array(columns).reshape(len(still), len(equation.d)).T
    y, A = np.array(near), (equation.M @ G)[still]
    y = y + np.linalg.lstsq(A, -equation.d[still] - A @ y, rcond=_DEPENDENT)[0]
    lam = G @ y
    return lam, equation.M @ lam + equation.d


_Column = tuple[
    int, Array, float
]  # the row without acceleration, the forces (r,), and what is near


def _normal_columns(equation: PhaseEquation, phase: Phase) -> list[_Column]:
    """What a unit of each pressed contact's normal force is: with its friction, where it slips."""
    columns, D = list[_Column](), equation.D
    for i in phase.pressed:
        column = np.zeros(len(equation.d))
        column[D.z[i]] = 1.0
        if i in phase.slip:
            begun = phase.slip[i] @ equation.surfaces.tangents[i]
            way = _sliding(begun, equation.w[D.xy[i]], phase.slow)
            column[D.xy[i]] = -equation.mu(i) * way
        near = float(phase.near[i][0]) if i in phase.near else 0.0
        columns.append((D.z[i], column, near))
    return columns


def _tangent_columns(equation: PhaseEquation, phase: Phase) -> list[_Column]:
    """What the unknowns of friction are where contacts stick, two of each, by their shares."""
    columns, D = list[_Column](), equation.D
    for i in (i for i in phase.sticking if i in D.xy):
        share = phase.share.get(i, 1.0)
        near = phase.near[i][1:] / share if i in phase.near else np.zeros(2)
        for row, value in zip(D.tangents(i), near, strict=True):
            columns.append((row, share * np.eye(len(equation.d))[row], float(value)))
    return columns


def _sliding(begun: Array, xy: Array, slow: float) -> Array:
    """The direction (x, y) against which friction acts at the sliding velocity (x, y).

    Below `slow` the direction in which the sliding has `begun` is mixed in: friction then turns the
    velocity faster than a step of the integrator can follow. On a straight way that changes
    nothing.
    """
    speed = np.hypot(*xy)
    xy = xy + max(slow - speed, 0.0) * begun
    return np.asarray(xy / max(np.hypot(*xy), 1e-300))


def margin(here: Surfaces, phase: Phase, motion: Motion) -> float:
    """A number that is positive while a phase lasts: the least of its margins.

    The gaps of open contacts, the normal forces of pressed ones, the friction that those that stick
    could still have, and the sliding velocities of those that slip, each with as much added as
    counts as zero.
    """
    margins = [np.inf]
    for i, gap in enumerate(here.gap):
        if i not in phase.closed:
            margins.append(float(gap) + TOUCHING)
        elif i in phase.pressed:
            margins += _pressed_margins(i, here, phase, motion)
    return float(min(margins))


def _pressed_margins(i: int, here: Surfaces, phase: Phase, motion: Motion) -> list[float]:
    """Those of contact i, which has a force."""
    z, xy, mu = motion.force[i, 0], motion.force[i, 1:], float(here.mu[i])
    margins = [z + 2 * WITHIN * phase.force]
    if i in phase.slip:
        speed = phase.slip[i] @ here.tangents[i] @ motion.velocity[i, 1:]
        margins.append(float(speed) + STILL)
    elif mu > 0.0:
        margins.append(mu * z - np.hypot(*xy) + 3 * WITHIN * phase.force)
    return margins
