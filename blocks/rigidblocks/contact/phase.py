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


class Directions(NamedTuple):
    """The normals and tangents of some contacts in joint space: T (nv, r), of which column `z[i]`
    is the normal of contact i and `xy[i]` its tangents, for those with friction; `contacts` (r,)
    have one direction each as their normal.
    """

    T: Array
    z: dict[int, int]
    xy: dict[int, slice]
    contacts: list[AnyContact]

    def tangents(self, i: int) -> range:
        """The columns of the tangents of contact i; none without friction."""
        where = self.xy.get(i, slice(0, 0))
        return range(where.start, where.stop)


def directions(
    model: Model, q: Array, contacts: Sequence[AnyContact], chosen: Sequence[int]
) -> Directions:
    """The directions of the chosen contacts, normals and tangents of each side by side."""
    each, z, xy = list[AnyContact](), dict[int, int](), dict[int, slice]()
    for i in chosen:
        c = contacts[i]
        z[i] = len(each)
        each.append(c)
        if isinstance(c, PointContact) and c.has_friction:
            xy[i] = slice(len(each), len(each) + 2)
            each.extend(_along(c, tangent) for tangent in contact_directions(c.normal).T[1:])
    return Directions(contact_matrix(model, q, each, friction=False), z, xy, each)


def _along(contact: PointContact, tangent: Array) -> PointContact:
    """A contact at the same point with a tangent in the place of the normal."""
    # the term of the tangent's own rate is zero where a contact sticks
    return replace(contact, normal=tangent, mu=0.0, gap=0.0, normal_rate=np.zeros(3))


class PhaseEquation(NamedTuple):
    """a = M lam + d of the accelerations and forces (r,) along the directions D of the closed
    contacts (RBDA Eq 11.34 to 11.36).

    `contacts` are all n; w = T^T qd (r,) are the velocities, `free` = H^-1 (tau - C) (nv,), and
    H^-1 T (nv, r).
    """

    contacts: Sequence[AnyContact]
    D: Directions
    M: Array
    d: Array
    w: Array
    HinvT: Array
    free: Array

    def by_contact(self, values: Array) -> Array:
        """What there is along the directions (r,), as (z, x, y) of all contacts (n, 3)."""
        rows = np.zeros((len(self.contacts), 3))
        for i, k in self.D.z.items():
            rows[i, 0] = values[k]
            rows[i, 1:] = values[self.D.xy[i]] if i in self.D.xy else 0.0
        return rows

    def mu(self, i: int) -> float:
        """The coefficient of friction of contact i."""
        return friction(self.contacts[i])


def phase_equation(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    contacts: Sequence[AnyContact],
    closed: Sequence[int],
) -> PhaseEquation:
    """The equation along all directions of the contacts `closed`."""
    D = directions(model, q, contacts, closed)
    M, HinvT, free = through_inertia(model, q, D.T, tau - bias_force(model, q, qd))
    bias = contact_bias(model, q, qd, D.contacts) if D.contacts else np.zeros(0)
    return PhaseEquation(contacts, D, M, D.T.T @ free + bias, D.T.T @ qd, HinvT, free)


def phase_motion(
    model: Model, q: Array, qd: Array, tau: Array, contacts: Sequence[AnyContact], phase: Phase
) -> Motion:
    """The motion with the closed contacts of a phase as equality constraints; numbers, not
    checked.
    """
    equation = phase_equation(model, q, qd, tau, contacts, phase.closed)
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
            way = _sliding(equation.contacts[i], phase.slip[i], equation.w[D.xy[i]], phase.slow)
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


def _sliding(contact: AnyContact, slip: Array, xy: Array, slow: float) -> Array:
    """The direction (x, y) against which friction acts at the sliding velocity (x, y).

    Below `slow` the direction in which the sliding began is mixed in: friction then turns the
    velocity faster than a step of the integrator can follow. On a straight way that changes
    nothing.
    """
    speed, begun = np.hypot(*xy), in_tangents(contact, slip)
    xy = xy + max(slow - speed, 0.0) * begun
    return np.asarray(xy / max(np.hypot(*xy), 1e-300))


def friction(contact: AnyContact) -> float:
    """The coefficient of friction of a contact."""
    return float(contact.mu) if isinstance(contact, PointContact) else 0.0


def in_tangents(contact: AnyContact, vector: Array) -> Array:
    """The components (x, y) of a vector (3,) along the tangents of a contact."""
    assert isinstance(contact, PointContact)
    return np.asarray(contact_directions(contact.normal).T[1:] @ vector)


def margin(
    model: Model, q: Array, contacts: Sequence[AnyContact], phase: Phase, motion: Motion
) -> float:
    """A number that is positive while a phase lasts: the least of its margins.

    The gaps of open contacts, the normal forces of pressed ones, the friction that those that stick
    could still have, and the sliding velocities of those that slip, each with as much added as
    counts as zero.
    """
    margins = [np.inf]
    for i, c in enumerate(contacts):
        if i not in phase.closed:
            margins.append(float(contact_gap(model, q, c)) + TOUCHING)
        elif i in phase.pressed:
            margins += _pressed_margins(i, c, phase, motion)
    return float(min(margins))


def _pressed_margins(i: int, contact: AnyContact, phase: Phase, motion: Motion) -> list[float]:
    """Those of contact i, which has a force."""
    z, xy = motion.force[i, 0], motion.force[i, 1:]
    margins = [z + 2 * WITHIN * phase.force]
    if i in phase.slip:
        speed = in_tangents(contact, phase.slip[i]) @ motion.velocity[i, 1:]
        margins.append(float(speed) + STILL)
    elif contact.has_friction:
        margins.append(friction(contact) * z - np.hypot(*xy) + 3 * WITHIN * phase.force)
    return margins
