"""The phase that begins where contacts touch: which of them open, are pressed, stick and slip (RBDA
11.5).
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.contact.complementarity import complementarity
from rigidblocks.contact.phase import (
    STILL,
    WITHIN,
    Phase,
    PhaseEquation,
    phase_equation,
    phase_forces,
)
from rigidblocks.contact.sweeps import projected_sweeps
from rigidblocks.contact.unilateral import AnyContact
from rigidblocks.model.model import Model

_TURNS = 20  # of the directions of sliding from rest, before sweeps are tried
_SWEEPS = 1000
# of the speed below which an integrator cannot follow friction: what is slower has stopped
_STOPPED = 1e-3
_MISFIT = 1e-6  # of the forces and accelerations: what may be left of an impossible phase


def beginning_phase(
    model: Model,
    q: Array,
    qd: Array,
    tau: Array,
    contacts: Sequence[AnyContact],
    closed: Sequence[int],
    h: float = 0.0,
) -> Phase:
    """The phase that begins where the contacts `closed` touch and do not approach: which open, are
    pressed, stick and slip.

    Without friction that is the solution of RBDA Eq 11.42. With friction contacts begin by sticking
    where they do not slide, and one after the other is let go, or let slip, whose force is not
    possible. An integrator of step h [s] cannot follow the friction below about the speed that is
    lost in two steps. Raises ArithmeticError where none of the phases on that way is possible:
    contacts that no force can keep apart, or friction too strong for rigid bodies.
    """
    return phase_of(phase_equation(model, q, qd, tau, contacts, closed), closed, h)


def phase_of(equation: PhaseEquation, closed: Sequence[int], h: float = 0.0) -> Phase:
    """The phase that begins, by the equation along the contacts that are closed."""
    phase = (_rubbing if equation.D.xy else _smooth)(equation, _first_phase(equation, closed, h))
    _, a = phase_forces(equation, phase)
    stay = [
        i
        for i in phase.closed
        if i in phase.pressed or a[equation.D.z[i]] <= WITHIN * phase.acceleration
    ]
    return replace(phase, closed=tuple(stay))


def _first_phase(equation: PhaseEquation, closed: Sequence[int], h: float) -> Phase:
    """All contacts pressed, slipping those that slide."""
    still = stopped(equation, h)
    slip = {
        i: _direction(equation.surfaces.tangents[i], equation.w[xy])
        for i, xy in equation.D.xy.items()
        if i not in still
    }
    size, slow = _size(equation), _slow(equation, h)
    return Phase(tuple(closed), tuple(closed), slip, acceleration=size, slow=slow)


def stopped(equation: PhaseEquation, h: float) -> list[int]:
    """The contacts with friction that slide too slowly to go on."""
    least = max(10 * STILL, _STOPPED * _slow(equation, h))
    return [i for i, xy in equation.D.xy.items() if np.hypot(*equation.w[xy]) <= least]


def _size(equation: PhaseEquation) -> float:
    """The size of the accelerations."""
    return float(np.abs(equation.d).max(initial=1.0))


def _slow(equation: PhaseEquation, h: float) -> float:
    """The speed that is lost in two steps of length h."""
    return max(2.0 * h * _size(equation), STILL)


def _smooth(equation: PhaseEquation, phase: Phase) -> Phase:
    """The phase without friction: the active contacts of RBDA Eq 11.42 are pressed."""
    solution = complementarity(equation.M, equation.d)
    if not solution.feasible:
        raise ArithmeticError(_impossible(phase.closed))
    pressed = (i for i, active in zip(phase.closed, solution.active, strict=True) if active)
    return replace(phase, pressed=tuple(pressed), force=_force_size(equation, solution.lam, phase))


def _rubbing(equation: PhaseEquation, first: Phase) -> Phase:
    """The phase with friction, from a first one by single changes, or by sweeps."""
    phase, possible = _by_changes(equation, first)
    if not (possible or first.slip):
        phase = _by_sweeps(equation, phase)
    if _is_impossible(equation, phase):
        raise ArithmeticError(_impossible(phase.closed))
    return phase


def _is_impossible(equation: PhaseEquation, phase: Phase) -> bool:
    """Whether a contact pulls, moves where it is pressed or sticks, or penetrates."""
    D, (lam, a) = equation.D, phase_forces(equation, phase)
    pressed = [D.z[i] for i in phase.pressed]
    still = pressed + [row for i in phase.sticking for row in D.tangents(i)]
    pulls = lam[pressed] < -_MISFIT * phase.force
    moves = np.abs(a[still]) > _MISFIT * phase.acceleration
    penetrates = a[list(D.z.values())] < -_MISFIT * phase.acceleration
    return bool(pulls.any() or moves.any() or penetrates.any())


def _by_changes(equation: PhaseEquation, phase: Phase) -> tuple[Phase, bool]:
    """The phase after one change after the other to what is most impossible in it, and whether all
    has become possible.
    """
    turns = 0
    for _ in range(20 + _TURNS + 10 * len(phase.closed)):
        lam, a = phase_forces(equation, phase)
        phase = replace(phase, force=_force_size(equation, lam, phase))
        changed = _next_phase(equation, phase, lam, a)
        if changed is None:
            return phase, True
        turns += _only_turns(phase, changed)
        if turns == _TURNS:
            break
        phase = changed
    return phase, False


def _only_turns(before: Phase, after: Phase) -> bool:
    """Whether nothing but directions of sliding differs."""
    return (
        after.slip.keys() == before.slip.keys()
        and after.pressed == before.pressed
        and after.share == before.share
    )


def _next_phase(equation: PhaseEquation, phase: Phase, lam: Array, a: Array) -> Phase | None:
    """The phase without what is most impossible in this one; None where all is possible."""
    for change in (_release, _press, _share, _slip, _turn):
        if (changed := change(equation, phase, lam, a)) is not None:
            return changed
    return None


def _release(equation: PhaseEquation, phase: Phase, lam: Array, a: Array) -> Phase | None:
    """A pressed contact that would have to pull is let go: the one that pulls most."""
    del a
    z = {i: float(lam[equation.D.z[i]]) for i in phase.pressed}
    if min(z.values(), default=0.0) < -WITHIN * phase.force:
        worst = min(z, key=lambda i: z[i])
        return replace(phase, pressed=tuple(i for i in phase.pressed if i != worst))
    return None


def _press(equation: PhaseEquation, phase: Phase, lam: Array, a: Array) -> Phase | None:
    """A contact without force that would penetrate is pressed: the one that does so fastest."""
    del lam
    resting = {i: a[k] for i, k in equation.D.z.items() if i not in phase.pressed}
    if min(resting.values(), default=0.0) < -WITHIN * phase.acceleration:
        return replace(phase, pressed=(*phase.pressed, min(resting, key=lambda i: resting[i])))
    return None


def _share(equation: PhaseEquation, phase: Phase, lam: Array, a: Array) -> Phase | None:
    """Where other contacts stick than before, friction is shared as the normal force is."""
    del a
    sticking = _with_friction(equation, phase)
    if phase.share.keys() == set(sticking):
        return None
    normal = [float(lam[equation.D.z[i]]) for i in sticking]
    mean = sum(normal) / max(1, len(normal))
    share = {
        i: float(np.sqrt(max(f / mean, 1e-6))) if mean > WITHIN * phase.force else 1.0
        for i, f in zip(sticking, normal, strict=True)
    }
    return replace(phase, share=share)


def _slip(equation: PhaseEquation, phase: Phase, lam: Array, a: Array) -> Phase | None:
    """Sticking contacts whose friction leaves the cone begin to slip, against it: those furthest
    out.
    """
    del a
    D, sticking = equation.D, _with_friction(equation, phase)
    loads = {
        i: np.hypot(*lam[D.xy[i]]) / (equation.mu(i) * max(lam[D.z[i]], 0.0) + WITHIN * phase.force)
        for i in sticking
    }
    if (worst := max(loads.values(), default=0.0)) <= 1.0:
        return None
    begin = [i for i in sticking if loads[i] > (1.0 - 1e-6) * worst]
    way = {i: _direction(equation.surfaces.tangents[i], -lam[D.xy[i]]) for i in begin}
    return replace(phase, slip={**phase.slip, **way})


def _turn(equation: PhaseEquation, phase: Phase, lam: Array, a: Array) -> Phase | None:
    """Contacts that begin to slide from rest turn their friction against the way on which they
    go.
    """
    del lam
    xy = equation.D.xy
    way = {
        i: _direction(equation.surfaces.tangents[i], a[xy[i]])
        for i in phase.slip
        if i in phase.pressed
        and np.hypot(*equation.w[xy[i]]) <= STILL
        and np.hypot(*a[xy[i]]) > WITHIN * phase.acceleration
    }
    if all(np.abs(way[i] - phase.slip[i]).max() <= 1e-6 for i in way):
        return None
    # part of the way, for friction turns the accelerations further than to the direction that it is
    # given
    part = {i: phase.slip[i] + 0.25 * way[i] for i in way}
    unit = {i: s / np.linalg.norm(s) for i, s in part.items()}
    return replace(phase, slip={**phase.slip, **unit})


def _by_sweeps(equation: PhaseEquation, phase: Phase) -> Phase:
    """The phase that begins from rest where friction and the way on which sliding begins depend on
    each other.

    It is that of the contact problem with accelerations in the place of velocities, by sweeps.
    """
    D, lam = equation.D, _swept_forces(equation)
    force = _force_size(equation, lam, phase)
    pressed = [i for i in D.z if lam[D.z[i]] > WITHIN * force]
    near = {i: lam[[D.z[i], *D.tangents(i)]] for i in pressed}
    slip = {
        i: _direction(equation.surfaces.tangents[i], -lam[D.xy[i]])
        for i in pressed
        if i in D.xy and np.hypot(*lam[D.xy[i]]) > (1.0 - 1e-6) * equation.mu(i) * lam[D.z[i]]
    }
    return replace(phase, pressed=tuple(pressed), slip=slip, share={}, near=near, force=force)


def _swept_forces(equation: PhaseEquation) -> Array:
    """lam (r,) along all directions by projected sweeps, which have contacts with friction first,
    and tangents last.
    """
    order = sorted(equation.D.z, key=lambda i: i not in equation.D.xy)
    rows = [equation.D.z[i] for i in order]
    rows += [row for i in order for row in equation.D.tangents(i)]
    mu = [equation.mu(i) for i in order if i in equation.D.xy]
    lam = np.zeros(len(rows))
    M, d = equation.M[np.ix_(rows, rows)], equation.d[rows]
    lam[rows] = projected_sweeps(M, d, mu, sweeps=_SWEEPS)
    return lam


def _with_friction(equation: PhaseEquation, phase: Phase) -> list[int]:
    """The contacts that stick."""
    return [i for i in phase.sticking if i in equation.D.xy]


def _force_size(equation: PhaseEquation, lam: Array, phase: Phase) -> float:
    """The size of the forces: of the largest, or of what gives a contact the size of the
    accelerations.
    """
    mobility = float(equation.M.diagonal().max(initial=0.0))
    return max(float(np.abs(lam).max(initial=0.0)), phase.acceleration / max(mobility, 1e-300))


def _direction(tangents: Array, xy: Array) -> Array:
    """The unit vector (3,) along a tangential one (x, y) of a contact."""
    return np.asarray(tangents @ xy / max(np.hypot(*xy), 1e-300))


def _impossible(closed: Sequence[int]) -> str:
    return (
        f"the contacts {', '.join(map(str, closed))} have no possible motion: no forces keep them "
        "from penetrating, or their friction is too strong for rigid bodies"
    )
