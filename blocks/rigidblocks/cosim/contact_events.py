"""Runs of systems in rigid contact from event to event (RBDA Table 11.1)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.algebra.spatial import Array
from rigidblocks.block.adaptive import ADAPTIVE, Method, longest_step, method_of
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.block.dense import first_event
from rigidblocks.block.event_steps import EventSteps
from rigidblocks.block.integrators import Integrator
from rigidblocks.block.memory import Memory
from rigidblocks.contact.beginning import phase_of, stopped
from rigidblocks.contact.impact import Impact, impact
from rigidblocks.contact.phase import (
    TOUCHING,
    Contacts,
    Motion,
    Phase,
    PhaseEquation,
    margin,
    motion_of,
)
from rigidblocks.contact.unilateral import AnyContact, JointLimit
from rigidblocks.kernels.evaluator import numpy_evaluator
from rigidblocks.library.ports import motion_states
from rigidblocks.model.configuration import checked, integrate, rate, unit_quaternions
from rigidblocks.model.model import Model
from rigidblocks.simulation.contact_equations import ContactEquations, contact_equations
from rigidblocks.simulation.grid import communication_points
from rigidblocks.simulation.result import Result

Force = Callable[[float, Array, Array], Array]  # joint forces (nv,) by t, q and qd
FOLLOWED = 1e-5  # [s] of friction that turns: steps that know their error follow it down to this
CLOSELY = replace(ADAPTIVE, rtol=1e-9)  # all that happens follows from where events are
NEAR = 1e-10  # [m] a gap with which a contact takes part in an event
SLOW = 1e-7  # [m/s] a separation velocity that an event leaves and that counts as zero
FALLS = 4.0  # times the velocity of a fall through the gap that counts as zero: that counts, too
# in one step of dt, and ten more for each contact: a run with more than that is refused
EVENTS = 100
IMPACTS = 4  # one after the other at one time: more than that do not end


class ContactEvent(NamedTuple):
    """What happened at time t [s]: the phases before and after, and the impulses (n, 3) of an
    impact as (z, x, y) [N s].
    """

    t: float
    before: Phase
    after: Phase
    impulse: Array

    @property
    def kind(self) -> str:
        """What it was: impact, loss, gain, slip or stick; regrouping where contacts that depend on
        each other share anew.
        """
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
    method: Method | str = CLOSELY,
    h: float | None = None,
    rtol: float | None = None,
    rest: float = 1e-3,
    form: str = "compiled",
) -> Result:
    """The motion from t = 0 with the rigid contacts that `contacts(q, qd)` lists, every dt [s].

    The signals are q, qd, `force` (n, 3), of each of the n contacts as (z, x, y) [N], and `impulse`
    (n, 3) [N.s], the sum of the impulses of all impacts up to then. The `events` of the result are
    `ContactEvent`s, of which several may lie between two rows.

    Between events closed contacts are equality constraints, and positions and velocities are put
    back onto them after every inner step. Unless another `method` is given its length follows from
    its error, whatever dt is: at most rtol (1e-9 unless given) of each position and velocity or of
    1 rad, m, rad/s or m/s. h [s] is the longest inner step, for a method of fixed steps dt unless
    given. An event is located inside the step by dense output: a gap that closes, a force that
    ends, a point that begins or ends to slide. With steps that follow their error bodies that are
    past each other at the end of one, as a small fast ball and a thin one, are found too. Where a
    contact closes there is an impact of all that touch, with restitution e and the `law` of
    `contact.impact`; a contact that approaches slower than `rest` [m/s] does not rebound, so that
    bounces that become ever shorter end at rest. Friction is within Coulomb's cone between events,
    and within its pyramid in an impact. No gap is below some -1e-13 m at the end of a step.

    `contacts` always lists the same contacts in the same order, such as `contact.plane_contacts`;
    tau(t, q, qd) gives the joint forces, zero unless given. The equations of motion with all
    contacts are traced and compiled once, which a run of some steps does not win back; by
    form="numpy" nothing is, and `contacts` may branch on values. Raises ValueError for contacts
    that penetrate at the start, an e outside 0 .. 1, and a dt that does not divide the run;
    TraceError for `contacts` that cannot be traced; ArithmeticError where there is no possible
    motion, and where there are more than 100 + 10 n events within one dt.
    """
    grid = communication_points(0.0, t_stop, dt)
    q0, qd0 = checked(model, q0), np.array(qd0, dtype=float)
    chosen = method_of(method, rtol)
    longest = dt if h is None and isinstance(chosen, Integrator) else longest_step(chosen, h)
    shown = longest if isinstance(chosen, Integrator) else FOLLOWED
    equations = contact_equations(model, contacts, form, q0)
    scene = Scene(model, contacts, tau or _no_force, e, law, rest, shown, equations)
    scene.check_start(q0, qd0)
    events = list[ContactEvent]()
    now = scene.next_motion(0.0, q0, qd0, Phase(), events)
    rows, happened, times = [now], [len(events)], [float(t) for t in grid.times[1:]]
    for row in (
        _fixed_rows(scene, now, times, events, chosen, longest)
        if isinstance(chosen, Integrator)
        else _rows(scene, now, times, events, EventSteps(chosen, dt, longest))
    ):
        rows.append(row)
        happened.append(len(events))
    meta = {"dt": repr(dt), "method": chosen.name, "law": law}
    signals = _signals(model, contacts(q0, qd0), rows, [events[:n] for n in happened])
    return Result.of_signals(grid.times, signals, meta, tuple(events))


def _signals(
    model: Model,
    contacts: Sequence[AnyContact],
    rows: "Sequence[SmoothMotion]",
    events: Sequence[Sequence[ContactEvent]],
) -> Iterator[tuple[Port, Array]]:
    """The ports of a run with their values, from the motion at each time and the events up to
    then.
    """
    first = rows[0]
    for port, name in zip(first.states, ("q0", "qd0"), strict=True):
        yield port, np.array([getattr(row, name) for row in rows])
    if n := len(contacts):
        units = tuple(unit for c in contacts for unit in (_normal_unit(model, c), "N", "N"))
        yield (
            Port("force", (n, 3), units, "forces of the contacts, as (z, x, y)"),
            np.array([row.motion(row.t, row.q0, row.qd0).force for row in rows]),
        )
        impulses = [sum((event.impulse for event in some), np.zeros((n, 3))) for some in events]
        yield (
            Port("impulse", (n, 3), tuple(f"{unit}.s" for unit in units), "sum of all impulses"),
            np.array(impulses),
        )


def _normal_unit(model: Model, contact: AnyContact) -> str:
    return model.joint[contact.joint].tau_units[0] if isinstance(contact, JointLimit) else "N"


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
    equations: ContactEquations

    def check_start(self, q: Array, qd: Array) -> None:
        """Raises ValueError where a contact penetrates."""
        gaps = self.equations.surfaces(q, qd).gap
        if gaps.min(initial=0.0) < -NEAR:
            i = int(np.argmin(gaps))
            raise ValueError(
                f"contact {i} penetrates at the start, by {-gaps[i]:.3g} m; rigid contacts need "
                "gaps >= 0"
            )

    def next_motion(
        self, t: float, q: Array, qd: Array, before: Phase, events: list[ContactEvent]
    ) -> "SmoothMotion":
        """The motion that goes on from an event: after impacts at all contacts that touch, in the
        phase that begins.
        """
        q, qd, impulse, closed = self._after_impacts(t, q, qd)
        qd, phase = self.put_back(q, qd, closed)[1], Phase()
        if closed:
            qd = self._stopped(t, q, qd, closed)
            equation = self.equations.equation(q, qd, self.tau(t, q, qd), closed)
            phase = phase_of(equation, closed, self.h)
        qd = self.put_back(q, qd, phase.closed, phase)[1]
        if t > 0 or impulse.any():
            events.append(ContactEvent(t, before, phase, impulse))
        return SmoothMotion(self, phase, t, q, qd)

    def _stopped(self, t: float, q: Array, qd: Array, closed: Sequence[int]) -> Array:
        """qd with what slides too slowly to go on at rest: against its way friction may act
        otherwise.
        """
        equation = self.equations.equation(q, qd, self.tau(t, q, qd), closed)
        still = stopped(equation, self.h)
        return self.put_back(q, qd, closed, Phase(tuple(closed), tuple(still)))[1] if still else qd

    def _after_impacts(
        self, t: float, q: Array, qd: Array
    ) -> tuple[Array, Array, Array, list[int]]:
        """q, qd and the impulses (n, 3) behind the impacts of an event, and the contacts that touch
        and do not separate.
        """
        impulse = np.zeros((len(self.equations.surfaces(q, qd).gap), 3))
        for _ in range(IMPACTS):
            touching = self._touching(q, qd)
            q = self.put_back(q, qd, touching)[0]
            equation = self.equations.equation(q, qd, self.tau(t, q, qd), touching)
            leaving = {i: float(equation.w[k]) for i, k in equation.D.z.items()}
            slowest = min(leaving.values(), default=0.0)
            fall = FALLS * np.sqrt(2.0 * TOUCHING * np.abs(equation.d).max(initial=0.0))
            slow = max(SLOW, float(fall))
            if slowest >= -slow:
                closed = [i for i, velocity in leaving.items() if velocity <= slow]
                return q, qd, impulse, closed
            step = self._impact(q, qd, touching, rebounds=slowest < -self.rest)
            qd = qd + step.dqd
            impulse[touching] += step.impulse
        raise ArithmeticError(
            f"at t = {t:g} s the impact of the contacts {touching} leaves some that approach"
        )

    def _touching(self, q: Array, qd: Array) -> list[int]:
        """The contacts that take part in an event."""
        return [i for i, gap in enumerate(self.equations.surfaces(q, qd).gap) if gap <= NEAR]

    def _impact(self, q: Array, qd: Array, touching: Sequence[int], rebounds: bool) -> Impact:
        """The impact at some contacts, with their restitution where it `rebounds`."""
        contacts = self.contacts(q, qd)
        e = np.broadcast_to(np.asarray(self.e, dtype=float), (len(contacts),))[touching]
        some = [contacts[i] for i in touching]
        return impact(self.model, q, qd, some, e if rebounds else 0.0 * e, self.law)

    def put_back(
        self, q: Array, qd: Array, closed: Sequence[int], phase: Phase | None = None
    ) -> tuple[Array, Array]:
        """q and qd with the gaps of the closed contacts zero, and their velocities along all that a
        phase constrains.

        Both are the nearest in the metric H, so that the kinetic energy does not grow.
        """
        q = unit_quaternions(self.model, q)
        if not closed:
            return q, qd
        equation = self.equations.mobility(q, qd, closed)
        D, M, HinvT = equation.D, equation.M, equation.HinvT

        def least(rows: list[int], change: Array) -> Array:
            # the motion (nv,) that makes a change along some directions
            force = np.linalg.lstsq(M[np.ix_(rows, rows)], change, rcond=1e-10)[0]
            return np.asarray(HinvT[:, rows] @ force)

        normal = list(D.z.values())
        gaps = equation.surfaces.gap[list(D.z)]
        still = normal + [k for i in (phase.sticking if phase else ()) for k in D.tangents(i)]
        return integrate(self.model, q, -least(normal, gaps)), qd - least(still, equation.w[still])


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
        return motion_states(self.scene.model.joint, self.q0, self.qd0)

    def motion(self, t: float, q: Array, qd: Array) -> Motion:
        """The accelerations and forces in this phase."""
        return motion_of(self._equation(t, q, qd), self.phase)

    def _equation(self, t: float, q: Array, qd: Array) -> PhaseEquation:
        tau = self.scene.tau(t, q, qd)
        return self.scene.equations.equation(q, qd, tau, self.phase.closed)

    def derivative(self, t: Any, x: Record) -> Values:
        return {"q": rate(self.scene.model, x.q, x.qd), "qd": self.motion(t, x.q, x.qd).qdd}

    def project(self, x: Record) -> Values:
        q, qd = self.scene.put_back(x.q, x.qd, self.phase.closed, self.phase)
        return {"q": q, "qd": qd}

    def gaps(self, x: Record) -> Array:
        """The gaps [m, rad] of the contacts that are open."""
        return np.delete(self.scene.equations.surfaces(x.q, x.qd).gap, self.phase.closed)

    def margin(self, t: Any, x: Record, u: Record, p: Record) -> float:
        """A number that is positive while the phase lasts."""
        del u, p
        equation = self._equation(t, x.q, x.qd)
        return margin(equation.surfaces, self.phase, motion_of(equation, self.phase))


def _fixed_rows(
    scene: Scene,
    now: SmoothMotion,
    times: Sequence[float],
    events: list[ContactEvent],
    method: Integrator,
    h: float,
) -> Iterator[SmoothMotion]:
    """The motion at each of the times, by steps of fixed length, of which one ends there."""
    for end in times:
        known = len(events)
        while end - now.t > 1e-13 * end:
            memory = Memory(now)
            evaluator, dt = numpy_evaluator(memory), end - now.t
            there = first_event(evaluator, memory.start(), now.t, dt, now.margin, method, h)
            q, qd = there.m[memory.where["q"]], there.m[memory.where["qd"]]
            if not there.happened:
                now = SmoothMotion(scene, now.phase, end, q, qd)
                break
            now = _beyond(scene, there.t, q, qd, now.phase, events, known)
        yield SmoothMotion(scene, now.phase, end, now.q0, now.qd0)


def _rows(
    scene: Scene,
    now: SmoothMotion,
    times: Sequence[float],
    events: list[ContactEvent],
    steps: EventSteps,
) -> Iterator[SmoothMotion]:
    """The motion at each of the times, inside steps that know their error and nothing of them."""
    k, known, end = 0, len(events), times[-1]
    while k < len(times):
        memory = Memory(now)
        where, evaluator = memory.where, numpy_evaluator(memory)
        walk = steps.segments(evaluator, memory.start(), now.t, end, now.margin, now.gaps)
        segment = None
        for segment in walk:
            until = segment.end * (1 - 1e-13 * segment.happened)
            while k < len(times) and times[k] <= until:
                m = segment.at(times[k])
                yield SmoothMotion(scene, now.phase, times[k], m[where["q"]], m[where["qd"]])
                k, known = k + 1, len(events)
        if segment is not None and segment.happened:
            q, qd = segment.after[where["q"]], segment.after[where["qd"]]
            now = _beyond(scene, segment.end, q, qd, now.phase, events, known)
        while k < len(times) and times[k] - now.t <= 1e-13 * times[k]:
            yield SmoothMotion(scene, now.phase, times[k], now.q0, now.qd0)
            k, known = k + 1, len(events)


def _beyond(
    scene: Scene,
    t: float,
    q: Array,
    qd: Array,
    phase: Phase,
    events: list[ContactEvent],
    known: int,
) -> SmoothMotion:
    """The motion that goes on from an event; raises ArithmeticError after too many in one interval
    of the record.
    """
    most = EVENTS + 10 * len(scene.equations.surfaces(q, qd).gap)
    if len(events) - known >= most:
        raise ArithmeticError(
            f"there were {most} events within one step, the last at t = {t:.9g} s; "
            "a larger `rest` ends bounces sooner"
        )
    return scene.next_motion(t, q, qd, phase, events)
