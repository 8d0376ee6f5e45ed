"""Contact modes of rigid contact, and the motion between two events (RBDA 11.5).

In a contact mode, closed contacts are equality constraints, and each contact with friction sticks
or slips. The constraints are linear in the accelerations, so the motion within a mode is smooth. A
mode ends when a margin reaches zero (`margin`). `beginning_phase` selects the mode after an event.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from rigidblocks.contact.event_driven.complementarity import complementarity
from rigidblocks.contact.event_driven.contact_dynamics import (
    contact_bias,
    contact_matrix,
    delassus_factors,
)
from rigidblocks.contact.event_driven.projected_gauss_seidel import projected_sweeps
from rigidblocks.contact.event_driven.unilateral_constraints import (
    AnyContact,
    PointContact,
    contact_directions,
    contact_gap,
)
from rigidblocks.dynamics.inverse import bias_force
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import Array

# returns all possible contacts at (q, qd), in an order that does not depend on q and qd
Contacts = Callable[[Array, Array], Sequence[AnyContact]]
# values below these tolerances count as zero; all found by trial
RELATIVE_TOLERANCE = 1e-9  # relative to the scales `Phase.force` and `Phase.acceleration`
SPEED_TOLERANCE = 1e-9  # sliding velocity [m/s]
GAP_TOLERANCE = 1e-13  # gap [m]
_DEPENDENT = 1e-10  # singular value of dependent contacts, relative to the largest


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class Phase:
    """Contact mode between two events.

    Attributes:
        closed: Indices of the closed contacts.
        pressed: Indices of the loaded contacts: linearly independent closed contacts, which
            transmit all contact forces (RBDA Table 11.1).
        slip: Sliding direction (3,) of each slipping contact, by contact index.
        share: Weight of each sticking contact in the distribution of friction forces.
        near: Force (z, x, y) of each contact. If the contact forces are not unique, the nearest
            solution applies.
        force: Scale of the zero tolerance of forces.
        acceleration: Scale of the zero tolerance of accelerations.
        slow: Speed [m/s] below which the friction force also depends on the initial sliding
            direction (`_friction_direction`).
    """

    closed: tuple[int, ...] = ()
    pressed: tuple[int, ...] = ()
    slip: Mapping[int, Array] = field(default_factory=dict)
    share: Mapping[int, float] = field(default_factory=dict)
    near: Mapping[int, Array] = field(default_factory=dict)
    force: float = 1.0
    acceleration: float = 1.0
    slow: float = SPEED_TOLERANCE

    @property
    def sticking(self) -> tuple[int, ...]:
        """Indices of the loaded contacts without a sliding direction: sticking or frictionless."""
        return tuple(i for i in self.pressed if i not in self.slip)


class Motion(NamedTuple):
    """Joint accelerations qdd (nv,) in a contact mode, and quantities of the n contacts.

    The forces, velocities and accelerations of the contacts are (n, 3) = (z, x, y), with zeros for
    open contacts.
    """

    qdd: Array
    force: Array
    velocity: Array
    acceleration: Array


class Surfaces(NamedTuple):
    """Geometry and friction of n contacts.

    `gap` (n,) contains the gaps [m or rad] and `mu` (n,) the coefficients of friction. `tangents`
    (n, 3, 2) contains two unit tangents per contact as columns, which are zero for joint limits.
    """

    gap: Array
    tangents: Array
    mu: Array


def surfaces(model: Model, q: Array, contacts: Sequence[AnyContact]) -> Surfaces:
    """Return the gaps, the tangents and the friction coefficients of the contacts."""
    tangents = [
        contact_directions(c.normal)[:, 1:] if isinstance(c, PointContact) else np.zeros((3, 2))
        for c in contacts
    ]
    mu = [c.mu if isinstance(c, PointContact) else 0.0 for c in contacts]
    gap = [contact_gap(model, q, c) for c in contacts]
    return Surfaces(np.array(gap), np.array(tangents).reshape(-1, 3, 2), np.array(mu))


class Directions(NamedTuple):
    """Indices 0 to r - 1 of the directions (normals and tangents) of selected contacts.

    `z[i]` is the index of the normal of contact i. `xy[i]` is the slice of the tangents of contact
    i if the contact has friction.
    """

    z: dict[int, int]
    xy: dict[int, slice]

    def tangents(self, i: int) -> range:
        """Return the two tangent indices of contact i; none if the contact has no friction."""
        where = self.xy.get(i, slice(0, 0))
        return range(where.start, where.stop)

    def rows(self, i: int) -> list[int]:
        """Return the indices of the normal and the tangential directions of contact i."""
        return [self.z[i], *self.tangents(i)]


def directions(has_friction: Sequence[bool], chosen: Sequence[int]) -> Directions:
    """Return the indices of the directions of the contacts `chosen`: normal, then two tangents.

    `has_friction[i]` is True if contact i has friction. A contact without friction has no tangents.
    """
    z, xy, r = dict[int, int](), dict[int, slice](), 0
    for i in chosen:
        z[i], r = r, r + 1
        if has_friction[i]:
            xy[i], r = slice(r, r + 2), r + 2
    return Directions(z, xy)


def each_direction(contacts: Sequence[AnyContact]) -> list[AnyContact]:
    """Return a frictionless contact for each normal and for each tangent of the contacts.

    The normal of each returned contact is the normal or tangent of the original contact.
    """
    each = list[AnyContact]()
    for c in contacts:
        each.append(c)
        if isinstance(c, PointContact) and c.has_friction:
            each.extend(
                _tangent_contact(c, tangent) for tangent in contact_directions(c.normal).T[1:]
            )
    return each


def _tangent_contact(contact: PointContact, tangent: Array) -> PointContact:
    """Return a frictionless contact at the point of `contact` with the normal `tangent`."""
    # a sticking contact does not slide, so the term with the tangent's derivative is zero
    return replace(contact, normal=tangent, mu=0.0, gap=0.0, normal_rate=np.zeros(3))


class PhaseEquation(NamedTuple):
    """Equation a = M lam + d along the normals and tangents of selected contacts.

    D contains the indices of these r directions. a and lam (r,) are the accelerations and forces
    along the directions. `surfaces` describes all n contacts. w = T^T qd (r,) are the velocities,
    `free` = H^-1 (tau - C) (nv,) the joint accelerations for lam = 0, and HinvT = H^-1 T (nv, r)
    (RBDA Eq 11.34 to 11.36).
    """

    surfaces: Surfaces
    D: Directions
    M: Array
    d: Array
    w: Array
    HinvT: Array
    free: Array

    def contact_components(self, values: Array) -> Array:
        """Arrange values of the r directions as components (n, 3) = (z, x, y) of all contacts.

        `values` (r,) contains, for example, the forces along the directions. The components of
        contacts without a direction are zero.
        """
        rows = np.zeros((len(self.surfaces.gap), 3))
        for i, k in self.D.z.items():
            rows[i, 0] = values[k]
            rows[i, 1:] = values[self.D.xy[i]] if i in self.D.xy else 0.0
        return rows

    def mu(self, i: int) -> float:
        """Return the coefficient of friction of contact i."""
        return float(self.surfaces.mu[i])

    def select(self, chosen: Sequence[int]) -> "PhaseEquation":
        """Restrict the equation to the directions of the contacts `chosen`."""
        rows = [k for i in chosen for k in self.D.rows(i)]
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
    """Return the equation a = M lam + d along the normals and tangents of the contacts `closed`.

    a are the accelerations and lam the forces along these directions.
    """
    each = each_direction([contacts[i] for i in closed])
    T = contact_matrix(model, q, each, friction=False)
    M, HinvT, free = delassus_factors(model, q, T, tau - bias_force(model, q, qd))
    bias = contact_bias(model, q, qd, each) if each else np.zeros(0)
    D = directions([c.has_friction for c in contacts], closed)
    here = surfaces(model, q, contacts)
    return PhaseEquation(here, D, M, T.T @ free + bias, T.T @ qd, HinvT, free)


def phase_motion(
    model: Model, q: Array, qd: Array, tau: Array, contacts: Sequence[AnyContact], phase: Phase
) -> Motion:
    """Solve for the accelerations and contact forces in a contact mode.

    The closed contacts are equality constraints. The arguments must not be traced. The function
    does not check the arguments.

    Args:
        model: The model.
        q: Configuration (nq,).
        qd: Velocity (nv,).
        tau: Joint forces (nv,).
        contacts: All contacts.
        phase: Contact mode.
    """
    return motion_of(phase_equation(model, q, qd, tau, contacts, phase.closed), phase)


def motion_of(equation: PhaseEquation, phase: Phase) -> Motion:
    """Solve the contact equation of a contact mode; return the accelerations and contact forces."""
    lam, a = phase_forces(equation, phase)
    qdd = equation.free + equation.HinvT @ lam
    return Motion(qdd, *map(equation.contact_components, (lam, equation.w, a)))


def phase_forces(equation: PhaseEquation, phase: Phase) -> tuple[Array, Array]:
    """Return the forces lam (r,) and accelerations a (r,) of the contacts in a contact mode.

    The contact equation is a = M lam + d. The unknowns y are the normal forces of loaded contacts
    and the friction forces of sticking contacts. The matrix G maps them to the forces lam = G y
    along all r directions. The accelerations along the constrained directions c must be zero:

        (M G)_c y = -d_c

    The function solves this equation by least squares. If contacts are dependent, the result is the
    solution nearest to the forces `phase.near`.
    """
    normal, tangent = _normal_columns(equation, phase), _tangent_columns(equation, phase)
    rows, columns, near = zip(*normal, *tangent, strict=True) if normal else ((), (), ())
    still = list(rows)
    # y' = y + pinv(A) (-d_c - A y), A = (M G)_c: the least-squares solution nearest to `near`
    G = np.array(columns).reshape(len(still), len(equation.d)).T
    y, A = np.array(near), (equation.M @ G)[still]
    y = y + np.linalg.lstsq(A, -equation.d[still] - A @ y, rcond=_DEPENDENT)[0]
    lam = G @ y
    return lam, equation.M @ lam + equation.d


# one unknown y: index of its constrained direction, forces (r,) for y = 1, and y in `Phase.near`
_Column = tuple[int, Array, float]


def _normal_columns(equation: PhaseEquation, phase: Phase) -> list[_Column]:
    """Return a column of the matrix G (`phase_forces`) for each loaded contact.

    The column contains the forces of the contact for a unit normal force: this force and, if the
    contact slips, the friction force.
    """
    columns, D = list[_Column](), equation.D
    for i in phase.pressed:
        column = np.zeros(len(equation.d))
        column[D.z[i]] = 1.0
        if i in phase.slip:
            initial = phase.slip[i] @ equation.surfaces.tangents[i]
            way = _friction_direction(initial, equation.w[D.xy[i]], phase.slow)
            column[D.xy[i]] = -equation.mu(i) * way
        near = float(phase.near[i][0]) if i in phase.near else 0.0
        columns.append((D.z[i], column, near))
    return columns


def _tangent_columns(equation: PhaseEquation, phase: Phase) -> list[_Column]:
    """Return the columns of G for the friction forces of sticking contacts (`phase_forces`)."""
    columns, D = list[_Column](), equation.D
    for i in (i for i in phase.sticking if i in D.xy):
        share = phase.share.get(i, 1.0)
        near = phase.near[i][1:] / share if i in phase.near else np.zeros(2)
        for row, value in zip(D.tangents(i), near, strict=True):
            columns.append((row, share * np.eye(len(equation.d))[row], float(value)))
    return columns


def _friction_direction(initial: Array, xy: Array, slow: float) -> Array:
    """Return the direction s (2,) opposite to the friction force of a slipping contact.

        s = u / |u|,  u = v + max(slow - |v|, 0) s0

    v (2,) [m/s] is the sliding velocity `xy`, and s0 (2,) is the sliding direction `initial` at the
    start of the contact mode. Below the speed `slow` [m/s], friction rotates the velocity faster
    than an integrator step can resolve, so s0 contributes to the result. On a straight path the
    result does not depend on s0.
    """
    speed = np.hypot(*xy)
    xy = xy + max(slow - speed, 0.0) * initial
    return np.asarray(xy / max(np.hypot(*xy), 1e-300))


def margin(geometry: Surfaces, phase: Phase, motion: Motion) -> float:
    """Return the margin of a contact mode, which is positive as long as the mode is valid.

    The result is the smallest of several margins: the gaps of open contacts and the normal forces z
    of loaded contacts. A sticking contact also has the margin mu z - |t| with the friction force t.
    A slipping contact has the velocity along its sliding direction as a margin. Each margin
    includes a zero tolerance. `geometry` contains the gaps, tangents and friction coefficients of
    the contacts (`surfaces`).
    """
    margins = [np.inf]
    for i, gap in enumerate(geometry.gap):
        if i not in phase.closed:
            margins.append(float(gap) + GAP_TOLERANCE)
        elif i in phase.pressed:
            margins += _loaded_margins(i, geometry, phase, motion)
    return float(min(margins))


def _loaded_margins(i: int, geometry: Surfaces, phase: Phase, motion: Motion) -> list[float]:
    """Return the margins of the loaded contact i on the surfaces `geometry`.

    The margins are the normal force z, and either mu z - |t| (sticking) or the sliding velocity. t
    is the friction force. The margins become negative when the contact mode ends.
    """
    z, xy, mu = motion.force[i, 0], motion.force[i, 1:], float(geometry.mu[i])
    margins = [z + 2 * RELATIVE_TOLERANCE * phase.force]
    if i in phase.slip:
        speed = phase.slip[i] @ geometry.tangents[i] @ motion.velocity[i, 1:]
        margins.append(float(speed) + SPEED_TOLERANCE)
    elif mu > 0.0:
        margins.append(mu * z - np.hypot(*xy) + 3 * RELATIVE_TOLERANCE * phase.force)
    return margins


# the following values were found by trial
_TURNS = 20  # maximum number of changes of sliding directions in the search for a mode
_SWEEPS = 1000  # number of Gauss-Seidel sweeps
_STOPPED = 1e-3  # speed of a stopped contact, relative to the speed `Phase.slow`
_MISFIT = 1e-6  # admissible violation, relative to the scales of forces and accelerations


def beginning_phase(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    contacts: Sequence[AnyContact],
    closed: Sequence[int],
    h: float = 0.0,
) -> Phase:
    """Return the contact mode that begins after an event (RBDA 11.5).

    The contacts `closed` touch and do not approach. The mode determines which of these contacts
    open, transmit force, stick and slip. If no contact has friction, the mode is the solution of
    RBDA Eq 11.42. Otherwise the search starts with a mode in which all contacts without sliding
    velocity stick. Contacts with impossible forces then open or begin to slip, one at a time.

    Args:
        model: The model.
        q: Configuration (nq,).
        qd: Velocity (nv,).
        tau: Joint forces (nv,).
        contacts: All contacts.
        closed: Indices of the closed contacts.
        h: Step size of the integrator [s]. The speed `Phase.slow` is the speed that a contact may
            lose in two steps. The integrator resolves the friction direction only above this speed.

    Raises:
        ArithmeticError: The search finds no possible mode: no forces prevent penetration, or the
            friction problem of the rigid bodies has no solution.
    """
    return select_contact_modes(phase_equation(model, q, qd, tau, contacts, closed), closed, h)


def select_contact_modes(equation: PhaseEquation, closed: Sequence[int], h: float = 0.0) -> Phase:
    """Select the contact mode after an event, given the equation of the closed contacts.

    h is the step size of the integrator [s].
    """
    phase = (_mode_with_friction if equation.D.xy else _mode_without_friction)(
        equation, _initial_phase(equation, closed, h)
    )
    _, a = phase_forces(equation, phase)
    stay = [
        i
        for i in phase.closed
        if i in phase.pressed or a[equation.D.z[i]] <= RELATIVE_TOLERANCE * phase.acceleration
    ]
    return replace(phase, closed=tuple(stay))


def _initial_phase(equation: PhaseEquation, closed: Sequence[int], h: float) -> Phase:
    """Return the first contact mode of the search, in which all closed contacts are loaded.

    A contact with friction slips if its sliding velocity is above the zero tolerance.
    """
    still = slow_contacts(equation, h)
    slip = {
        i: _tangent_direction(equation.surfaces.tangents[i], equation.w[xy])
        for i, xy in equation.D.xy.items()
        if i not in still
    }
    size, slow = _acceleration_scale(equation), _slow_speed(equation, h)
    return Phase(tuple(closed), tuple(closed), slip, acceleration=size, slow=slow)


def slow_contacts(equation: PhaseEquation, h: float) -> list[int]:
    """Return the indices of contacts with friction whose sliding velocity counts as zero.

    h is the step size of the integrator [s].
    """
    least = max(10 * SPEED_TOLERANCE, _STOPPED * _slow_speed(equation, h))
    return [i for i, xy in equation.D.xy.items() if np.hypot(*equation.w[xy]) <= least]


def _acceleration_scale(equation: PhaseEquation) -> float:
    """Return the acceleration scale max(1, max |d|) of zero tolerances.

    d (r,) are the accelerations along all directions for zero contact forces.
    """
    return float(np.abs(equation.d).max(initial=1.0))


def _slow_speed(equation: PhaseEquation, h: float) -> float:
    """Return the speed [m/s] that a contact may lose in two integrator steps of length h [s].

    The result is 2 h times the acceleration scale, but at least `SPEED_TOLERANCE`.
    """
    return max(2.0 * h * _acceleration_scale(equation), SPEED_TOLERANCE)


def _mode_without_friction(equation: PhaseEquation, phase: Phase) -> Phase:
    """Return the contact mode if no contact has friction (RBDA Eq 11.42).

    The active contacts of the complementarity problem become the loaded contacts.
    """
    solution = complementarity(equation.M, equation.d)
    if not solution.feasible:
        raise ArithmeticError(_impossible_text(phase.closed))
    pressed = (i for i, active in zip(phase.closed, solution.active, strict=True) if active)
    return replace(phase, pressed=tuple(pressed), force=_force_scale(equation, solution.lam, phase))


def _mode_with_friction(equation: PhaseEquation, first: Phase) -> Phase:
    """Return the contact mode if contacts have friction.

    The search starts with the mode `first` and corrects one contact at a time. If the corrections
    find no possible mode and all contacts start from rest, the function uses Gauss-Seidel sweeps.
    """
    phase, possible = _pivot_modes(equation, first)
    if not (possible or first.slip):
        phase = _sweep_modes(equation, phase)
    if _is_impossible(equation, phase):
        raise ArithmeticError(_impossible_text(phase.closed))
    return phase


def _is_impossible(equation: PhaseEquation, phase: Phase) -> bool:
    """Return True if the solution of a mode violates a condition of the mode.

    The normal force of a loaded contact must not be negative. No separation acceleration may be
    negative. The accelerations along the normals of loaded contacts and along the tangents of
    sticking contacts must be zero.
    """
    D, (lam, a) = equation.D, phase_forces(equation, phase)
    pressed = [D.z[i] for i in phase.pressed]
    still = pressed + [row for i in phase.sticking for row in D.tangents(i)]
    pulls = lam[pressed] < -_MISFIT * phase.force
    moves = np.abs(a[still]) > _MISFIT * phase.acceleration
    penetrates = a[list(D.z.values())] < -_MISFIT * phase.acceleration
    return bool(pulls.any() or moves.any() or penetrates.any())


def _pivot_modes(equation: PhaseEquation, phase: Phase) -> tuple[Phase, bool]:
    """Correct the mode of one contact at a time until no contact violates its conditions.

    Returns the last mode, and True if it has no violation.
    """
    turns = 0
    for _ in range(20 + _TURNS + 10 * len(phase.closed)):
        lam, a = phase_forces(equation, phase)
        phase = replace(phase, force=_force_scale(equation, lam, phase))
        changed = _correct_phase(equation, phase, lam, a)
        if changed is None:
            return phase, True
        turns += _differ_only_in_directions(phase, changed)
        if turns == _TURNS:
            break
        phase = changed
    return phase, False


def _differ_only_in_directions(first: Phase, second: Phase) -> bool:
    """Return True if two modes differ only in the sliding directions of their contacts."""
    return (
        second.slip.keys() == first.slip.keys()
        and second.pressed == first.pressed
        and second.share == first.share
    )


def _correct_phase(equation: PhaseEquation, phase: Phase, lam: Array, a: Array) -> Phase | None:
    """Make the first correction that the contact mode needs; return the corrected mode.

    lam (r,) and a (r,) are the forces and accelerations of `phase_forces`. The result is None if
    the mode needs no correction.
    """
    for change in (
        _release_contact,
        _load_contact,
        _share_friction,
        _start_slipping,
        _turn_friction,
    ):
        if (changed := change(equation, phase, lam, a)) is not None:
            return changed
    return None


def _release_contact(equation: PhaseEquation, phase: Phase, lam: Array, a: Array) -> Phase | None:
    """Release the loaded contact with the largest pulling force; return the new mode.

    The result is None if no contact pulls.
    """
    del a
    z = {i: float(lam[equation.D.z[i]]) for i in phase.pressed}
    if min(z.values(), default=0.0) < -RELATIVE_TOLERANCE * phase.force:
        worst = min(z, key=lambda i: z[i])
        return replace(phase, pressed=tuple(i for i in phase.pressed if i != worst))
    return None


def _load_contact(equation: PhaseEquation, phase: Phase, lam: Array, a: Array) -> Phase | None:
    """Add the contact with the most negative separation acceleration to the loaded contacts.

    Returns the new mode, or None if no contact has a negative separation acceleration.
    """
    del lam
    resting = {i: a[k] for i, k in equation.D.z.items() if i not in phase.pressed}
    if min(resting.values(), default=0.0) < -RELATIVE_TOLERANCE * phase.acceleration:
        return replace(phase, pressed=(*phase.pressed, min(resting, key=lambda i: resting[i])))
    return None


def _share_friction(equation: PhaseEquation, phase: Phase, lam: Array, a: Array) -> Phase | None:
    """Recompute the weights `share` if the set of sticking contacts has changed, else return None.

        share_i = sqrt(max(z_i / mean(z), 1e-6))

    z_i is the normal force of contact i. With these weights, dependent contacts share the friction
    in proportion to their normal forces. The lower bound 1e-6 was found by trial.
    """
    del a
    sticking = _sticking_contacts(equation, phase)
    if phase.share.keys() == set(sticking):
        return None
    normal = [float(lam[equation.D.z[i]]) for i in sticking]
    mean = sum(normal) / max(1, len(normal))
    share = {
        i: float(np.sqrt(max(f / mean, 1e-6))) if mean > RELATIVE_TOLERANCE * phase.force else 1.0
        for i, f in zip(sticking, normal, strict=True)
    }
    return replace(phase, share=share)


def _start_slipping(equation: PhaseEquation, phase: Phase, lam: Array, a: Array) -> Phase | None:
    """Start slip at the contact with the largest ratio of friction force to friction limit.

    Contacts with equal ratios start to slip together. The function returns the new mode, or None if
    no ratio exceeds 1.
    """
    del a
    D, sticking = equation.D, _sticking_contacts(equation, phase)
    loads = {
        i: np.hypot(*lam[D.xy[i]])
        / (equation.mu(i) * max(lam[D.z[i]], 0.0) + RELATIVE_TOLERANCE * phase.force)
        for i in sticking
    }
    if (worst := max(loads.values(), default=0.0)) <= 1.0:
        return None
    # contacts with equal loads, within 1e-6 (found by trial), begin to slip together
    begin = [i for i in sticking if loads[i] > (1.0 - 1e-6) * worst]
    way = {i: _tangent_direction(equation.surfaces.tangents[i], -lam[D.xy[i]]) for i in begin}
    return replace(phase, slip={**phase.slip, **way})


def _turn_friction(equation: PhaseEquation, phase: Phase, lam: Array, a: Array) -> Phase | None:
    """Correct the sliding directions of contacts that begin to slip from rest; return the mode.

    The result is None if each direction agrees with the tangential acceleration.
    """
    del lam
    xy = equation.D.xy
    way = {
        i: _tangent_direction(equation.surfaces.tangents[i], a[xy[i]])
        for i in phase.slip
        if i in phase.pressed
        and np.hypot(*equation.w[xy[i]]) <= SPEED_TOLERANCE
        and np.hypot(*a[xy[i]]) > RELATIVE_TOLERANCE * phase.acceleration
    }
    if all(np.abs(way[i] - phase.slip[i]).max() <= 1e-6 for i in way):
        return None
    # under-relaxation s' = s + a / 4, because a rotation of the friction rotates the acceleration
    # by a larger angle; the factor was found by trial
    part = {i: phase.slip[i] + 0.25 * way[i] for i in way}
    unit = {i: s / np.linalg.norm(s) for i, s in part.items()}
    return replace(phase, slip={**phase.slip, **unit})


def _sweep_modes(equation: PhaseEquation, phase: Phase) -> Phase:
    """Find the mode of contacts that start from rest, by Gauss-Seidel sweeps.

    The sweeps compute the contact forces lam for the accelerations a = M lam + d. These forces
    determine which contacts are loaded, and which of the loaded contacts slip.
    """
    D, lam = equation.D, _swept_forces(equation)
    force = _force_scale(equation, lam, phase)
    pressed = [i for i in D.z if lam[D.z[i]] > RELATIVE_TOLERANCE * force]
    near = {i: lam[[D.z[i], *D.tangents(i)]] for i in pressed}
    slip = {
        i: _tangent_direction(equation.surfaces.tangents[i], -lam[D.xy[i]])
        for i in pressed
        if i in D.xy and np.hypot(*lam[D.xy[i]]) > (1.0 - 1e-6) * equation.mu(i) * lam[D.z[i]]
    }
    return replace(phase, pressed=tuple(pressed), slip=slip, share={}, near=near, force=force)


def _swept_forces(equation: PhaseEquation) -> Array:
    """Return the contact forces lam (r,) along all directions by projected Gauss-Seidel sweeps.

    The function sorts the unknowns for `projected_sweeps`: contacts with friction first, tangents
    last.
    """
    order = sorted(equation.D.z, key=lambda i: i not in equation.D.xy)
    rows = [equation.D.z[i] for i in order]
    rows += [row for i in order for row in equation.D.tangents(i)]
    mu = [equation.mu(i) for i in order if i in equation.D.xy]
    lam = np.zeros(len(rows))
    M, d = equation.M[np.ix_(rows, rows)], equation.d[rows]
    lam[rows] = projected_sweeps(M, d, mu, sweeps=_SWEEPS)
    return lam


def _sticking_contacts(equation: PhaseEquation, phase: Phase) -> list[int]:
    """Return the indices of the sticking contacts that have friction."""
    return [i for i in phase.sticking if i in equation.D.xy]


def _force_scale(equation: PhaseEquation, lam: Array, phase: Phase) -> float:
    """Return the force scale of zero tolerances, max(max |lam|, a / max M_ii).

    a is the acceleration scale, and M_ii are the diagonal elements of the Delassus matrix.
    """
    mobility = float(equation.M.diagonal().max(initial=0.0))
    return max(float(np.abs(lam).max(initial=0.0)), phase.acceleration / max(mobility, 1e-300))


def _tangent_direction(tangents: Array, xy: Array) -> Array:
    """Return the unit vector (3,) along a tangential vector with the components xy (2,)."""
    return np.asarray(tangents @ xy / max(np.hypot(*xy), 1e-300))


def _impossible_text(closed: Sequence[int]) -> str:
    return (
        f"contacts {', '.join(map(str, closed))} have no possible motion: no forces prevent "
        "penetration, or friction is too strong for rigid bodies"
    )
