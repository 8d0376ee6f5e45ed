"""Runs of systems in rigid contact from event to event (RBDA Table 11.1)."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block import Block, Port, Values
from rigidblocks.configuration import checked, integrate, rate, unit_quaternions
from rigidblocks.contact.impact import impact
from rigidblocks.contact.phase import Contacts, Motion, Phase, beginning_phase, directions, margin, phase_motion
from rigidblocks.contact.rigid import contact_gap, through_inertia
from rigidblocks.dense import first_event
from rigidblocks.dynamics.forward import aba
from rigidblocks.flat import FlatBlock
from rigidblocks.integrate import RK4, Integrator
from rigidblocks.library.ports import motion_states
from rigidblocks.model import Model
from rigidblocks.spatial import Array

Force = Callable[[float, Array, Array], Array]  # joint forces (nv,) by t, q and qd
NEAR = 1e-10  # [m] a gap with which a contact takes part in an event
SLOW = 1e-7  # [m/s] a separation velocity that an event leaves and that counts as zero
EVENTS = 100  # in one step of dt, and ten more for each contact: a run with more than that is refused


class ContactEvent(NamedTuple):
    """What happened at time t [s]: the phases before and after, and the impulses (n, 3) of an impact as (z, x, y) [N s]."""

    t: float
    before: Phase
    after: Phase
    impulse: Array

    @property
    def kind(self) -> str:
        """What it was: impact, loss, gain, slip or stick; regrouping where contacts that depend on each other share anew."""
        closed, was = set(self.after.closed), set(self.before.closed)
        slip, slipped = set(self.after.slip), set(self.before.slip)
        kinds = (
            ("impact", self.impulse.any()),
            ("loss", was - closed),
            ("gain", closed - was),
            ("slip", slip - slipped),
            ("stick", slipped - slip),
        )
        return next((kind for kind, so in kinds if so), "regrouping")


@dataclass(frozen=True, eq=False)  # eq=False: arrays have no single truth value
class ContactRun:
    """A run with rigid contact: at each of the times t (k,) q (k, nq), qd (k, nv) and the forces (k, n, 3) of all contacts,
    as (z, x, y) [N]; and the events in between.
    """

    t: Array
    q: Array
    qd: Array
    force: Array
    events: tuple[ContactEvent, ...]

    def times(self, kind: str) -> Array:
        """The times of the events of one kind [s]."""
        return np.array([event.t for event in self.events if event.kind == kind])


def simulate_contact(
    model: Model,
    contacts: Contacts,
    q0: Array,
    qd0: Array,
    t_stop: float,
    dt: float,
    *,
    e: Any = 0.0,
    law: str = "newton",
    tau: Force | None = None,
    method: Integrator = RK4,
    h: float | None = None,
    rest: float = 1e-3,
) -> ContactRun:
    """The motion from t = 0 with the rigid contacts that `contacts(q, qd)` lists, recorded every dt [s].

    Between events closed contacts are equality constraints, and positions and velocities are put back onto them after every
    inner step of at most h [s] (dt unless given). An event is located inside the step by dense output: a gap that closes, a
    force that ends, a point that begins or ends to slide. Where a contact closes there is an impact of all that touch,
    with restitution e and the `law` of `contact.impact`; a contact that approaches slower than `rest` [m/s] does not
    rebound, so that bounces that become ever shorter end at rest. Friction is within Coulomb's cone between events, and
    within its pyramid in an impact. No gap is below some -1e-13 m at the end of a step.

    `contacts` always lists the same contacts in the same order, such as `contact.plane_contacts`; tau(t, q, qd) gives the
    joint forces, zero unless given. Raises ValueError for contacts that penetrate at the start, an e outside 0 .. 1, and a
    dt that does not divide the run; ArithmeticError where there is no possible motion, and where there are more than
    100 + 10 n events within one dt.
    """
    steps = t_stop / dt
    if not (dt > 0 and t_stop > 0 and abs(steps - np.rint(steps)) < 1e-6 and np.rint(steps) > 0):
        raise ValueError(f"a run needs dt > 0 that divides t_stop > 0, not t_stop = {t_stop}, dt = {dt}")
    q0, qd0 = checked(model, q0), np.array(qd0, dtype=float)
    scene = Scene(model, contacts, tau or _no_force, e, law, rest, dt if h is None else h)
    scene.check_start(q0, qd0)
    events = list[ContactEvent]()
    now = scene.settled(0.0, q0, qd0, Phase(), events)
    rows = [now]
    for k in range(round(steps)):
        now = _step(scene, now, (k + 1) * dt, events, method)
        rows.append(now)
    force = [row.motion(row.t, row.q0, row.qd0).force for row in rows]
    q, qd = (np.array([getattr(row, name) for row in rows]) for name in ("q0", "qd0"))
    return ContactRun(dt * np.arange(len(rows)), q, qd, np.array(force), tuple(events))


def _no_force(t: float, q: Array, qd: Array) -> Array:
    del t, q
    return np.zeros(len(qd))


@dataclass(frozen=True, eq=False)
class Scene:
    """A model, its contacts and the laws of a run."""

    model: Model
    contacts: Contacts
    tau: Force
    e: Any
    law: str
    rest: float
    h: float

    def check_start(self, q: Array, qd: Array) -> None:
        """Raises ValueError where a contact penetrates."""
        gaps = [float(contact_gap(self.model, q, c)) for c in self.contacts(q, qd)]
        if gaps and min(gaps) < -NEAR:
            i = int(np.argmin(gaps))
            raise ValueError(f"contact {i} penetrates at the start, by {-gaps[i]:.3g} m; rigid contacts need gaps >= 0")

    def settled(self, t: float, q: Array, qd: Array, before: Phase, events: list[ContactEvent]) -> "SmoothMotion":
        """The motion that goes on from an event: after impacts at all contacts that touch, in the phase that begins."""
        impulse = np.zeros((len(self.contacts(q, qd)), 3))
        for _ in range(4):
            touching = [i for i, c in enumerate(self.contacts(q, qd)) if contact_gap(self.model, q, c) <= NEAR]
            q = self.put_back(q, qd, touching)[0]
            w = directions(self.model, q, self.contacts(q, qd), touching)
            approach = {i: float(w.T[:, k] @ qd) for i, k in w.z.items()}
            if not approach or min(approach.values()) >= -SLOW:
                break
            given = np.broadcast_to(np.asarray(self.e, dtype=float), (len(impulse),))[touching]
            rebound = given if min(approach.values()) < -self.rest else 0.0 * given
            step = impact(self.model, q, qd, [self.contacts(q, qd)[i] for i in touching], rebound, self.law)
            qd = qd + step.dqd
            impulse[touching] += step.impulse
        else:
            raise ArithmeticError(f"at t = {t:g} s the impact of the contacts {touching} leaves some that approach")
        closed = [i for i, velocity in approach.items() if velocity <= SLOW]
        qd = self.put_back(q, qd, closed)[1]
        tau, contacts = self.tau(t, q, qd), self.contacts(q, qd)
        phase = beginning_phase(self.model, q, qd, tau, contacts, closed, self.h) if closed else Phase()
        qd = self.put_back(q, qd, phase.closed, phase)[1]
        if t > 0 or impulse.any():
            events.append(ContactEvent(t, before, phase, impulse))
        return SmoothMotion(self, phase, t, q, qd)

    def put_back(self, q: Array, qd: Array, closed: Any, phase: Phase | None = None) -> tuple[Array, Array]:
        """q and qd with the gaps of the closed contacts zero, and their velocities along all that a phase constrains.

        Both are the nearest in the metric H, so that the kinetic energy does not grow.
        """
        q = unit_quaternions(self.model, q)
        if not closed:
            return q, qd
        contacts = self.contacts(q, qd)
        D = directions(self.model, q, contacts, list(closed))
        M, HinvT, _ = through_inertia(self.model, q, D.T, qd)
        rows, gaps = list(D.z.values()), np.array([float(contact_gap(self.model, q, contacts[i])) for i in D.z])
        q = integrate(self.model, q, -HinvT[:, rows] @ np.linalg.lstsq(M[np.ix_(rows, rows)], gaps, rcond=1e-10)[0])
        for i in phase.sticking if phase else ():
            rows += [*range(len(D.contacts))[D.xy[i]]] if i in D.xy else []
        w = D.T.T @ qd
        return q, qd - HinvT[:, rows] @ np.linalg.lstsq(M[np.ix_(rows, rows)], w[rows], rcond=1e-10)[0]


@dataclass(frozen=True, eq=False)
class SmoothMotion(Block):
    """The motion in a phase from t on, as a block without inputs."""

    scene: Scene
    phase: Phase
    t: float
    q0: Array
    qd0: Array

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """q (nq,) and qd (nv,)."""
        return motion_states(self.scene.model, slice(None), self.q0, self.qd0)

    def motion(self, t: float, q: Array, qd: Array) -> Motion:
        """The accelerations and forces in this phase."""
        scene, contacts = self.scene, self.scene.contacts(q, qd)
        if self.phase.closed:
            return phase_motion(scene.model, q, qd, scene.tau(t, q, qd), contacts, self.phase)
        none = np.zeros((len(contacts), 3))
        return Motion(aba(scene.model, q, qd, scene.tau(t, q, qd)), none, none, none)

    def derivative(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del u, p
        return {"q": rate(self.scene.model, x.q, x.qd), "qd": self.motion(t, x.q, x.qd).qdd}

    def project(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t, u, p
        q, qd = self.scene.put_back(x.q, x.qd, self.phase.closed, self.phase)
        return {"q": q, "qd": qd}

    def output(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> Values:
        del t, x, u, p
        return {}

    def margin(self, t: Any, x: SimpleNamespace, u: SimpleNamespace, p: SimpleNamespace) -> float:
        """A number that is positive while the phase lasts."""
        del u, p
        contacts, motion = self.scene.contacts(x.q, x.qd), self.motion(t, x.q, x.qd)
        return margin(self.scene.model, x.q, contacts, self.phase, motion)


def _step(scene: Scene, now: SmoothMotion, end: float, events: list[ContactEvent], method: Integrator) -> SmoothMotion:
    """The motion at `end`, through all events before it."""
    n = len(scene.contacts(now.q0, now.qd0))
    for _ in range(EVENTS + 10 * n):
        if end - now.t <= 1e-13 * end:
            return SmoothMotion(scene, now.phase, end, now.q0, now.qd0)
        flat = FlatBlock(now)
        there = first_event(flat, flat.start(), now.t, end - now.t, now.margin, method, scene.h)
        q, qd = there.m[flat.where["q"]], there.m[flat.where["qd"]]
        if not there.happened:
            return SmoothMotion(scene, now.phase, end, q, qd)
        now = scene.settled(there.t, q, qd, now.phase, events)
    raise ArithmeticError(
        f"there were {EVENTS + 10 * n} events within one step, the last at t = {now.t:.9g} s; "
        "a larger `rest` ends bounces sooner"
    )
