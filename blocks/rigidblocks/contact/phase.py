"""The motion between two events of a system in rigid contact: closed contacts are equality constraints (RBDA 11.5).

A contact that is closed either sticks, where it has friction, or slips. What it then does is linear in the accelerations, so
that a phase is smooth, and lasts until one of its margins is used up: a contact force, a friction force within its cone, a
sliding velocity in its direction, the gap of an open contact.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from rigidblocks.contact.complementarity import complementarity
from rigidblocks.contact.rigid import (
    JointLimit,
    PointContact,
    contact_bias,
    contact_directions,
    contact_gap,
    contact_matrix,
    through_inertia,
)
from rigidblocks.contact.sweeps import projected_sweeps
from rigidblocks.dynamics.inverse import bias_force
from rigidblocks.model import Model
from rigidblocks.spatial import Array

AnyContact = PointContact | JointLimit
Contacts = Callable[[Array, Array], Sequence[AnyContact]]  # all contacts that there may be, always in the same order
WITHIN = 1e-9  # of the largest force, and of the largest acceleration or 1 m/s^2: what counts as zero
STILL = 1e-9  # [m/s] a sliding velocity that counts as zero
TOUCHING = 1e-13  # [m] a gap that counts as zero
_TURNS = 20  # of the directions of sliding from rest, before sweeps are tried
_SWEEPS = 1000
_DEPENDENT = 1e-10  # of the largest singular value: contacts that depend on others


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Phase:
    """What the contacts do until the next event.

    `closed` are the numbers of the current contacts, `pressed` of the active ones among them, which have the force
    (RBDA Table 11.1); the others open or depend on those. `slip` has the directions (3,) against which the friction of
    those that slip acts. Where contacts depend on each other their friction is shared as in `share`, by the normal forces,
    or all of their forces are next to those in `near`, (z, x, y). `force` and `acceleration` are the sizes by which rounding
    is told from zero. Slower than `slow` [m/s] friction does not follow the direction of sliding.
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
        """The pressed contacts that do not slip; those without friction are not among them in `directions`."""
        return tuple(i for i in self.pressed if i not in self.slip)


class Motion(NamedTuple):
    """The motion in a phase: qdd (nv,), the forces of all n contacts as (z, x, y) (n, 3), and along the same directions the
    velocities (n, 3) and accelerations (n, 3); zeros for contacts that are open.
    """

    qdd: Array
    force: Array
    velocity: Array
    acceleration: Array


class Directions(NamedTuple):
    """The normals and tangents of some contacts in joint space: T (nv, r), of which column `z[i]` is the normal of contact i
    and `xy[i]` its tangents, for those with friction; `contacts` (r,) have one direction each as their normal.
    """

    T: Array
    z: dict[int, int]
    xy: dict[int, slice]
    contacts: list[AnyContact]


def directions(model: Model, q: Array, contacts: Sequence[AnyContact], chosen: Sequence[int]) -> Directions:
    """The directions of the chosen contacts, normals and tangents of each side by side."""
    each, z, xy = list[AnyContact](), dict[int, int](), dict[int, slice]()
    for i in chosen:
        c = contacts[i]
        z[i] = len(each)
        each.append(c)
        if isinstance(c, PointContact) and c.has_friction:
            xy[i] = slice(len(each), len(each) + 2)
            for tangent in contact_directions(c.normal).T[1:]:
                # the term of the tangent's own rate is zero where a contact sticks
                each.append(PointContact(c.successor, c.point, tangent, c.predecessor, 0.0, 0.0, c.point_rate, np.zeros(3)))
    return Directions(contact_matrix(model, q, each, friction=False), z, xy, each)


def phase_motion(model: Model, q: Array, qd: Array, tau: Array, contacts: Sequence[AnyContact], phase: Phase) -> Motion:
    """The motion with the closed contacts of a phase as equality constraints; numbers, not checked."""
    D, (M, HinvT, free), d = _equation(model, q, qd, tau, contacts, phase.closed)
    lam, a = _forces(D, contacts, phase, M, d, D.T.T @ qd)
    return Motion(free + HinvT @ lam, *(_by_contact(D, v, len(contacts)) for v in (lam, D.T.T @ qd, a)))


def _equation(
    model: Model, q: Array, qd: Array, tau: Array, contacts: Sequence[AnyContact], closed: Sequence[int]
) -> tuple[Directions, tuple[Array, Array, Array], Array]:
    """The directions of the closed contacts, (M, H^-1 T, free) and d of a = M lam + d (RBDA Eq 11.34 to 11.36)."""
    D = directions(model, q, contacts, closed)
    M, HinvT, free = through_inertia(model, q, D.T, tau - bias_force(model, q, qd))
    bias = contact_bias(model, q, qd, D.contacts) if D.contacts else np.zeros(0)
    return D, (M, HinvT, free), D.T.T @ free + bias


def _unknowns(D: Directions, contacts: Sequence[AnyContact], phase: Phase, w: Array) -> tuple[Array, list[int], Array]:
    """G (r, m) with lam = G y, the m directions along which there is no acceleration, and the y (m,) to be near to."""
    columns, rows, near = list[Array](), list[int](), list[float]()
    for i in phase.pressed:
        column = np.zeros(len(D.contacts))
        column[D.z[i]] = 1.0
        if i in phase.slip:
            column[D.xy[i]] = -_mu(contacts[i]) * _sliding(contacts[i], phase.slip[i], w[D.xy[i]], phase.slow)
        columns.append(column)
        rows.append(D.z[i])
        near.append(float(phase.near[i][0]) if i in phase.near else 0.0)
    for i in phase.sticking:
        for row in range(D.xy[i].start, D.xy[i].stop) if i in D.xy else ():
            share = phase.share.get(i, 1.0)
            columns.append(share * np.eye(len(D.contacts))[row])
            rows.append(row)
            near.append(float(phase.near[i][1 + row - D.xy[i].start]) / share if i in phase.near else 0.0)
    return np.array(columns).reshape(len(rows), len(D.contacts)).T, rows, np.array(near)


def _sliding(contact: AnyContact, slip: Array, xy: Array, slow: float) -> Array:
    """The direction (x, y) against which friction acts at the sliding velocity (x, y).

    Below `slow` the direction in which the sliding began is mixed in: friction then turns the velocity faster than a step of
    the integrator can follow. On a straight way that changes nothing.
    """
    speed, begun = np.hypot(*xy), in_tangents(contact, slip)
    xy = xy + max(slow - speed, 0.0) * begun
    return np.asarray(xy / max(np.hypot(*xy), 1e-300))


def _by_contact(D: Directions, values: Array, n: int) -> Array:
    rows = np.zeros((n, 3))
    for i, k in D.z.items():
        rows[i, 0] = values[k]
        rows[i, 1:] = values[D.xy[i]] if i in D.xy else 0.0
    return rows


def _mu(contact: AnyContact) -> float:
    return float(contact.mu) if isinstance(contact, PointContact) else 0.0


def beginning_phase(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    contacts: Sequence[AnyContact],
    closed: Sequence[int],
    h: float = 0.0,
) -> Phase:
    """The phase that begins where the contacts `closed` touch and do not approach: which open, are pressed, stick and slip.

    Without friction that is the solution of RBDA Eq 11.42. With friction contacts begin by sticking where they do not slide,
    and one after the other is let go, or let slip, whose force is not possible. An integrator of step h [s] cannot follow
    the friction below about the speed that is lost in two steps. Raises ArithmeticError where none of the phases on that
    way is possible: contacts that no force can keep apart, or friction too strong for rigid bodies.
    """
    phase = _possible_phase(model, q, qd, tau, contacts, closed, h)
    motion = phase_motion(model, q, qd, tau, contacts, phase)
    kept = [i for i in phase.closed if i in phase.pressed or motion.acceleration[i, 0] <= WITHIN * phase.acceleration]
    return replace(phase, closed=tuple(kept))


def _possible_phase(
    model: Model, q: Array, qd: Array, tau: Array, contacts: Sequence[AnyContact], closed: Sequence[int], h: float
) -> Phase:
    """The phase, with all contacts that were given among the closed ones."""
    D, (M, _, _), d = _equation(model, q, qd, tau, contacts, closed)
    w, size = D.T.T @ qd, float(np.abs(d).max(initial=1.0))
    slip = {i: _direction(contacts[i], w[xy]) for i, xy in D.xy.items() if np.hypot(*w[xy]) > 10 * STILL}
    phase = Phase(tuple(closed), tuple(closed), slip, acceleration=size, slow=max(2.0 * h * size, STILL))
    normal = list(D.z.values())
    if not D.xy:
        solution = complementarity(M, d)
        if not solution.feasible:
            raise ArithmeticError(_impossible(closed))
        pressed = tuple(i for i, active in zip(closed, solution.active, strict=True) if active)
        return replace(phase, pressed=pressed, force=_force_size(solution.lam, M, size))
    phase, done = _improved(D, contacts, phase, M, d, w)
    if not (done or slip):
        phase = _swept(D, contacts, phase, M, d)
    lam, a = _forces(D, contacts, phase, M, d, w)
    least = min((lam[D.z[i]] for i in phase.pressed), default=0.0)
    if least < -1e-6 * phase.force or np.abs(a).max(where=_held(D, phase), initial=0.0) > 1e-6 * size:
        raise ArithmeticError(_impossible(closed))
    if (a[normal] < -1e-6 * size).any():
        raise ArithmeticError(_impossible(closed))
    return phase


def _improved(
    D: Directions, contacts: Sequence[AnyContact], phase: Phase, M: Array, d: Array, w: Array
) -> tuple[Phase, bool]:
    """The phase after one change after the other to what is most impossible in it, and whether all has become possible."""
    turns = 0
    for _ in range(20 + _TURNS + 10 * len(phase.closed)):
        lam, a = _forces(D, contacts, phase, M, d, w)
        phase = replace(phase, force=_force_size(lam, M, phase.acceleration))
        changed = _changed(D, contacts, phase, lam, a, w)
        if changed is None:
            return phase, True
        turns += (
            changed.slip.keys() == phase.slip.keys() and changed.pressed == phase.pressed and changed.share == phase.share
        )
        if turns == _TURNS:
            break
        phase = changed
    return phase, False


def _swept(D: Directions, contacts: Sequence[AnyContact], phase: Phase, M: Array, d: Array) -> Phase:
    """The phase that begins from rest where friction and the way on which sliding begins depend on each other.

    It is that of the contact problem with accelerations in the place of velocities, by sweeps.
    """
    closed = sorted(D.z, key=lambda i: i not in D.xy)
    rows = [D.z[i] for i in closed] + [k for i in closed if i in D.xy for k in range(D.xy[i].start, D.xy[i].stop)]
    mu = [_mu(contacts[i]) for i in closed if i in D.xy]
    lam = np.zeros(len(rows))
    lam[rows] = projected_sweeps(M[np.ix_(rows, rows)], d[rows], mu, sweeps=_SWEEPS)
    force = _force_size(lam, M, phase.acceleration)
    pressed = [i for i in D.z if lam[D.z[i]] > WITHIN * force]
    limit = {i: (1.0 - 1e-6) * _mu(contacts[i]) * lam[D.z[i]] for i in pressed}
    slip = {i: _direction(contacts[i], -lam[D.xy[i]]) for i in pressed if i in D.xy and np.hypot(*lam[D.xy[i]]) > limit[i]}
    near = {i: np.array([lam[D.z[i]], *(lam[D.xy[i]] if i in D.xy else ())]) for i in pressed}
    return replace(phase, pressed=tuple(pressed), slip=slip, share={}, near=near, force=force)


def _forces(
    D: Directions, contacts: Sequence[AnyContact], phase: Phase, M: Array, d: Array, w: Array
) -> tuple[Array, Array]:
    """The forces lam (r,) and accelerations (r,) along all directions in a phase."""
    G, rows, near = _unknowns(D, contacts, phase, w)
    A = (M @ G)[rows]
    lam = G @ (near + np.linalg.lstsq(A, -d[rows] - A @ near, rcond=_DEPENDENT)[0])
    return lam, M @ lam + d


def _held(D: Directions, phase: Phase) -> Array:
    """Which directions (r,) have no acceleration in a phase."""
    held = np.zeros(len(D.contacts), dtype=bool)
    held[[D.z[i] for i in phase.pressed]] = True
    for i in phase.sticking:
        held[D.xy.get(i, slice(0, 0))] = True
    return held


def _force_size(lam: Array, M: Array, acceleration: float) -> float:
    """The size of the forces: of the largest, or of what gives a contact this acceleration."""
    return max(float(np.abs(lam).max(initial=0.0)), acceleration / max(float(M.diagonal().max(initial=0.0)), 1e-300))


def _changed(D: Directions, contacts: Sequence[AnyContact], phase: Phase, lam: Array, a: Array, w: Array) -> Phase | None:
    """The phase without what is most impossible in this one; None where all is possible."""
    pressed = list(phase.pressed)
    z = {i: float(lam[D.z[i]]) for i in pressed}
    if pressed and min(z.values()) < -WITHIN * phase.force:
        pressed.remove(min(z, key=lambda i: z[i]))
        return replace(phase, pressed=tuple(pressed))
    resting = {i: a[k] for i, k in D.z.items() if i not in pressed}
    if resting and min(resting.values()) < -WITHIN * phase.acceleration:
        return replace(phase, pressed=(*pressed, min(resting, key=lambda i: resting[i])))
    sticking = [i for i in phase.sticking if i in D.xy]
    if phase.share.keys() != set(sticking):
        return replace(phase, share=_shares([z[i] for i in sticking], sticking, phase))
    loads = {i: np.hypot(*lam[D.xy[i]]) / (_mu(contacts[i]) * max(z[i], 0.0) + WITHIN * phase.force) for i in sticking}
    if (worst := max(loads.values(), default=0.0)) > 1.0:
        begin = {i: _direction(contacts[i], -lam[D.xy[i]]) for i in sticking if loads[i] > (1.0 - 1e-6) * worst}
        return replace(phase, slip={**phase.slip, **begin})
    starting = [i for i in phase.slip if np.hypot(*w[D.xy[i]]) <= STILL and i in pressed]
    slides = [i for i in starting if np.hypot(*a[D.xy[i]]) > WITHIN * phase.acceleration]
    turned = {i: _direction(contacts[i], a[D.xy[i]]) for i in slides}
    if any(np.abs(turned[i] - phase.slip[i]).max() > 1e-6 for i in turned):
        # part of the way, for friction turns the accelerations further than to the direction that it is given
        part = {i: phase.slip[i] + 0.25 * turned[i] for i in turned}
        return replace(phase, slip={**phase.slip, **{i: s / np.linalg.norm(s) for i, s in part.items()}})
    return None


def _shares(normal: Sequence[float], contacts: Sequence[int], phase: Phase) -> dict[int, float]:
    """The weights by which contacts share their friction as they share the normal force."""
    mean = sum(normal) / max(1, len(normal))
    return {
        i: float(np.sqrt(max(f / mean, 1e-6))) if mean > WITHIN * phase.force else 1.0
        for i, f in zip(contacts, normal, strict=True)
    }


def _direction(contact: AnyContact, xy: Array) -> Array:
    """The unit vector (3,) along a tangential one (x, y) of a contact."""
    assert isinstance(contact, PointContact)
    return np.asarray(contact_directions(contact.normal)[:, 1:] @ xy / max(np.hypot(*xy), 1e-300))


def _impossible(closed: Sequence[int]) -> str:
    return (
        f"the contacts {', '.join(map(str, closed))} have no possible motion: no forces keep them from penetrating, "
        "or their friction is too strong for rigid bodies"
    )


def margin(model: Model, q: Array, contacts: Sequence[AnyContact], phase: Phase, motion: Motion) -> float:
    """A number that is positive while a phase lasts: the least of its margins.

    The gaps of open contacts, the normal forces of pressed ones, the friction that those that stick could still have, and
    the sliding velocities of those that slip, each with as much added as counts as zero.
    """
    margins = [np.inf]
    for i, c in enumerate(contacts):
        z, xy = motion.force[i, 0], motion.force[i, 1:]
        if i not in phase.closed:
            margins.append(float(contact_gap(model, q, c)) + TOUCHING)
        elif i in phase.pressed:
            margins.append(z + 2 * WITHIN * phase.force)
            if i in phase.slip:
                margins.append(float(in_tangents(c, phase.slip[i]) @ motion.velocity[i, 1:]) + STILL)
            elif c.has_friction:
                margins.append(_mu(c) * z - np.hypot(*xy) + 3 * WITHIN * phase.force)
    return float(min(margins))


def in_tangents(contact: AnyContact, vector: Array) -> Array:
    """The components (x, y) of a vector (3,) along the tangents of a contact."""
    assert isinstance(contact, PointContact)
    return np.asarray(contact_directions(contact.normal).T[1:] @ vector)
