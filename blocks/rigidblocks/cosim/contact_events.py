"""Event-driven simulation of rigid contacts (RBDA, Table 11.1)."""

import abc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rigidblocks.block.adaptive_methods import ADAPTIVE, Method, longest_step, method_of
from rigidblocks.block.block import Block, Port, Record, Values
from rigidblocks.block.dense_output import EventSteps, first_event
from rigidblocks.block.integrators import Integrator
from rigidblocks.block.memory_layout import Memory
from rigidblocks.contact.event_driven.contact_dynamics import contact_matrix, delassus_factors
from rigidblocks.contact.event_driven.contact_mode import (
    GAP_TOLERANCE,
    Contacts,
    Directions,
    Motion,
    Phase,
    PhaseEquation,
    Surfaces,
    directions,
    each_direction,
    margin,
    motion_of,
    phase_equation,
    select_contact_modes,
    slow_contacts,
    surfaces,
)
from rigidblocks.contact.event_driven.impact import Impact, impact
from rigidblocks.contact.event_driven.unilateral_constraints import AnyContact, JointLimit
from rigidblocks.cosim.results.result import Result
from rigidblocks.cosim.run_options import communication_points
from rigidblocks.dynamics.forward import aba
from rigidblocks.kernels.traced_evaluator import numpy_evaluator
from rigidblocks.library.common_ports import motion_states
from rigidblocks.robot.configuration import configuration_array, integrate, rate, unit_quaternions
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import Array
from rigidblocks.tracing.compiled_functions import CompiledFunction, compile_function
from rigidblocks.tracing.trace import TraceError

FORMS = ("compiled", "numpy")


class ContactEquations(abc.ABC):
    """Base class of the contact equations at positions q (nq,) and velocities qd (nv,)."""

    @abc.abstractmethod
    def surfaces(self, q: Array, qd: Array) -> Surfaces:
        """Return the gaps, tangent directions and friction coefficients of all contacts."""

    @abc.abstractmethod
    def equation(self, q: Array, qd: Array, tau: Array, closed: Sequence[int]) -> PhaseEquation:
        """Return the contact equation a = M lam + d of the `closed` contacts.

        a are the contact accelerations and lam the contact forces, in the normal and tangential
        directions. M is the Delassus matrix, and d are the contact accelerations without contact
        forces. tau (nv,) are the joint forces.
        """

    @abc.abstractmethod
    def mobility(self, q: Array, qd: Array, closed: Sequence[int]) -> PhaseEquation:
        """Return the impulse equation of the `closed` contacts.

            v = M lam + w

        w and v are the contact velocities before and after the impact, lam the contact impulses,
        and M the Delassus matrix. The fields d (contact accelerations) and `free` (joint
        accelerations without contact forces) of the result are zero.
        """


@dataclass(frozen=True, eq=False)
class NumpyEquations(ContactEquations):
    """Contact equations that NumPy evaluates."""

    model: Model
    contacts: Contacts

    def surfaces(self, q: Array, qd: Array) -> Surfaces:
        return surfaces(self.model, q, self.contacts(q, qd))

    def equation(self, q: Array, qd: Array, tau: Array, closed: Sequence[int]) -> PhaseEquation:
        if closed:
            return phase_equation(self.model, q, qd, tau, self.contacts(q, qd), closed)
        nothing, none = np.zeros((0, 0)), np.zeros(0)
        here, free = self.surfaces(q, qd), aba(self.model, q, qd, tau)
        HinvT = np.zeros((self.model.nv, 0))
        return PhaseEquation(here, Directions({}, {}), nothing, none, none, HinvT, free)

    def mobility(self, q: Array, qd: Array, closed: Sequence[int]) -> PhaseEquation:
        contacts = self.contacts(q, qd)
        each = each_direction([contacts[i] for i in closed])
        T = contact_matrix(self.model, q, each, friction=False)
        M, HinvT, free = delassus_factors(self.model, q, T, np.zeros(self.model.nv))
        D = directions([c.has_friction for c in contacts], closed)
        here = surfaces(self.model, q, contacts)
        return PhaseEquation(here, D, M, np.zeros(len(each)), T.T @ qd, HinvT, free)


@dataclass(frozen=True, eq=False)
class CompiledEquations(ContactEquations):
    """Contact equations from one compiled function, which evaluates all contacts together.

    `directions` contains the indices of the rows of each contact in the contact equation.
    """

    function: CompiledFunction
    directions: Directions

    def surfaces(self, q: Array, qd: Array) -> Surfaces:
        return self._whole(q, qd, np.zeros(len(qd))).surfaces

    def equation(self, q: Array, qd: Array, tau: Array, closed: Sequence[int]) -> PhaseEquation:
        return self._whole(q, qd, tau).select(closed)

    def mobility(self, q: Array, qd: Array, closed: Sequence[int]) -> PhaseEquation:
        found = self.equation(q, qd, np.zeros(len(qd)), closed)
        return found._replace(d=0.0 * found.d, free=0.0 * found.free)

    def _whole(self, q: Array, qd: Array, tau: Array) -> PhaseEquation:
        gap, tangents, mu, *of_equation = self.function(q, qd, tau)
        return PhaseEquation(Surfaces(gap, tangents, mu), self.directions, *of_equation)


def contact_equations(model: Model, contacts: Contacts, form: str, q: Array) -> ContactEquations:
    """Return the contact equations, evaluated by NumPy or by a compiled function.

    `form` is "numpy" or "compiled". The compiled function evaluates the contacts that `contacts`
    returns at q.

    Raises:
        ValueError: The form is unknown.
        TraceError: `contacts` branches on values.
        CompilerError: No C compiler is available.
    """
    if form not in FORMS:
        raise ValueError(f"unknown form '{form}' of rigid contact; expected {', '.join(FORMS)}")
    all_of = contacts(q, np.zeros(model.nv))
    if form == "numpy" or not all_of:
        return NumpyEquations(model, contacts)
    rubs = [c.has_friction for c in all_of]

    def whole(q: Array, qd: Array, tau: Array) -> dict[str, Array]:
        equation = phase_equation(model, q, qd, tau, contacts(q, qd), range(len(rubs)))
        here, _, *rest = equation
        names = ("M", "d", "w", "HinvT", "free")
        return here._asdict() | dict(zip(names, rest, strict=True))

    shapes = {"q": (model.nq,), "qd": (model.nv,), "tau": (model.nv,)}
    try:
        function = compile_function("contacts", whole, shapes)
    except TraceError as error:
        raise TraceError(
            f"{error}; form='numpy' supports contacts that branch on values"
        ) from error
    return CompiledEquations(function, directions(rubs, range(len(rubs))))


Force = Callable[[float, Array, Array], Array]  # joint forces tau(t, q, qd) (nv,)
# shortest rotation time [s] of the friction direction that adaptive steps resolve
MIN_ROTATION_TIME = 1e-5
TIGHT = replace(ADAPTIVE, rtol=1e-9)  # tight, because event time errors affect all later motion
MAX_TOUCHING_GAP = 1e-10  # maximum gap of a contact that participates in an event [m]
SEPARATION_TOLERANCE = 1e-7  # separation velocity that counts as zero after an event [m/s]
# A separation velocity also counts as zero below this multiple of the velocity after a fall through
# the height GAP_TOLERANCE.
FALL_FACTOR = 4.0
# maximum number of events in one step of dt, in addition to ten events for each contact
EVENTS = 100
IMPACTS = 4  # maximum number of successive impacts at the same time


class ContactEvent(NamedTuple):
    """Contact event at the time t [s], with the contact modes before and after the event.

    `impulse` (n, 3) contains the contact impulses of an impact in the directions (z, x, y) [N.s].
    """

    t: float
    before: Phase
    after: Phase
    impulse: Array

    @property
    def kind(self) -> str:
        """Type of the event: "impact", "loss", "gain", "slip", "stick" or "regrouping".

        At a loss, contacts open. At a gain, contacts close without an impact. At a regrouping, only
        the forces of dependent contacts change.
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
    method: Method | str = TIGHT,
    h: float | None = None,
    rtol: float | None = None,
    rest: float = 1e-3,
    form: str = "compiled",
) -> Result:
    """Simulate a model with rigid contacts from t = 0 to t_stop [s]; record every dt [s].

    Between events, closed contacts are equality constraints. Each inner step ends with a projection
    of the positions and velocities onto the constraints. By default, step size control selects the
    inner steps, independently of dt.

    Dense output locates the events within a step: a gap closes, a contact force becomes zero, or
    sliding begins or ends. Step size control also detects bodies that pass through each other
    within a step. When a contact closes, all touching contacts have an impact. A contact with an
    approach velocity below `rest` does not rebound, so a sequence of bounces ends at rest. Friction
    obeys the Coulomb cone between events, and the friction pyramid in an impact. At the end of a
    step, the penetration depth is at most about 1e-13 m.

    The equations of motion with all contacts are traced and compiled once. For a run of a few
    steps, evaluation in NumPy is faster (`form`).

    Args:
        model: Robot model.
        contacts: Function contacts(q, qd) that returns the list of contacts. Each call must return
            the same contacts in the same order, as `contact.plane_contacts` does.
        q0: Initial positions (nq,).
        qd0: Initial velocities (nv,).
        t_stop: End time [s].
        dt: Time between two samples of the result [s].
        e: Coefficient of restitution: one value for all contacts, or one value for each contact.
        law: Law of impact, as in `contact.event_driven.impact`.
        tau: Function tau(t, q, qd) that returns the joint forces (nv,), by default zero.
        method: Integration method.
        h: Longest inner step [s]. For a method with fixed steps, the default is dt.
        rtol: Relative error tolerance, by default 1e-9. The estimated error of a position or
            velocity x in one inner step is at most rtol (1 + |x|), in rad, m, rad/s or m/s.
        rest: Approach velocity below which a contact does not rebound [m/s].
        form: "compiled", or "numpy" for evaluation without compilation. For "numpy", `contacts` may
            branch on values.

    Returns:
        Signals q, qd, `force` (n, 3) and `impulse` (n, 3) of n contacts, in the directions (z, x,
        y). `force` contains the contact forces [N], and `impulse` the cumulative contact impulses
        [N.s]. `events` contains `ContactEvent` objects; several events may occur between two
        samples.

    Raises:
        ValueError: A contact penetrates initially, e is outside 0 .. 1, or the duration is not a
            multiple of dt.
        TraceError: `contacts` cannot be traced.
        ArithmeticError: Penetration occurs for every contact force, the contact solver does not
            converge, contacts still approach after 4 successive impacts, or more than 100 + 10 n
            events occur within one dt.
    """
    grid = communication_points(0.0, t_stop, dt)
    q0, qd0 = configuration_array(model, q0), np.array(qd0, dtype=float)
    chosen = method_of(method, rtol)
    longest = dt if h is None and isinstance(chosen, Integrator) else longest_step(chosen, h)
    shown = longest if isinstance(chosen, Integrator) else MIN_ROTATION_TIME
    equations = contact_equations(model, contacts, form, q0)
    scene = Scene(model, contacts, tau or _no_force, e, law, rest, shown, equations)
    scene.check_start(q0, qd0)
    events = list[ContactEvent]()
    now = scene.motion_after_event(0.0, q0, qd0, Phase(), events)
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
    return Result.from_signals(grid.times, signals, meta, tuple(events))


def _signals(
    model: Model,
    contacts: Sequence[AnyContact],
    rows: "Sequence[SmoothMotion]",
    events: Sequence[Sequence[ContactEvent]],
) -> Iterator[tuple[Port, Array]]:
    """Yield each recorded port of a contact simulation with its values at all recorded times.

    `rows` contains the motion at each recorded time. `events` contains, for each recorded time, all
    events up to this time.
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
    """Simulation problem: a model with contacts and joint forces.

    Attributes:
        model: Robot model.
        contacts: Function contacts(q, qd) that returns the list of contacts.
        tau: Function tau(t, q, qd) that returns the joint forces (nv,).
        e: Coefficient of restitution: one value, or one value for each contact.
        law: Law of impact.
        rest: Approach velocity below which a contact does not rebound [m/s].
        h: Step size [s]; the tolerance for zero sliding velocity is proportional to h.
        equations: Contact equations of the model.
    """

    model: Model
    contacts: Contacts
    tau: Force
    e: Any
    law: str
    rest: float
    h: float
    equations: ContactEquations

    def check_start(self, q: Array, qd: Array) -> None:
        """Raise ValueError if the gap of a contact is negative at the initial positions."""
        gaps = self.equations.surfaces(q, qd).gap
        if gaps.min(initial=0.0) < -MAX_TOUCHING_GAP:
            i = int(np.argmin(gaps))
            raise ValueError(
                f"contact {i} penetrates by {-gaps[i]:.3g} m at the start; rigid contacts need "
                "gaps >= 0"
            )

    def motion_after_event(
        self, t: float, q: Array, qd: Array, phase_before: Phase, events: list[ContactEvent]
    ) -> "SmoothMotion":
        """Resolve the impacts at an event, and return the motion in the next contact mode.

        `phase_before` is the contact mode before the event. The event is appended to `events`.
        """
        q, qd, impulse, closed = self._resolve_impacts(t, q, qd)
        qd, phase = self.project_state(q, qd, closed)[1], Phase()
        if closed:
            qd = self._stop_slow_contacts(t, q, qd, closed)
            equation = self.equations.equation(q, qd, self.tau(t, q, qd), closed)
            phase = select_contact_modes(equation, closed, self.h)
        qd = self.project_state(q, qd, phase.closed, phase)[1]
        if t > 0 or impulse.any():
            events.append(ContactEvent(t, phase_before, phase, impulse))
        return SmoothMotion(self, phase, t, q, qd)

    def _stop_slow_contacts(self, t: float, q: Array, qd: Array, closed: Sequence[int]) -> Array:
        """Stop negligible sliding of the `closed` contacts; return the resulting joint velocities.

        A contact without sliding velocity may stick, or may begin to slide in any direction.
        """
        equation = self.equations.equation(q, qd, self.tau(t, q, qd), closed)
        still = slow_contacts(equation, self.h)
        return (
            self.project_state(q, qd, closed, Phase(tuple(closed), tuple(still)))[1]
            if still
            else qd
        )

    def _resolve_impacts(
        self, t: float, q: Array, qd: Array
    ) -> tuple[Array, Array, Array, list[int]]:
        """Resolve the impacts of an event; return q, qd, impulses (n, 3) and closed contacts.

        The closed contacts are the touching contacts that do not separate after the impacts.
        """
        impulse = np.zeros((len(self.equations.surfaces(q, qd).gap), 3))
        for _ in range(IMPACTS):
            touching = self._touching_contacts(q, qd)
            q = self.project_state(q, qd, touching)[0]
            equation = self.equations.equation(q, qd, self.tau(t, q, qd), touching)
            leaving = {i: float(equation.w[k]) for i, k in equation.D.z.items()}
            slowest = min(leaving.values(), default=0.0)
            fall = FALL_FACTOR * np.sqrt(2.0 * GAP_TOLERANCE * np.abs(equation.d).max(initial=0.0))
            slow = max(SEPARATION_TOLERANCE, float(fall))
            if slowest >= -slow:
                closed = [i for i, velocity in leaving.items() if velocity <= slow]
                return q, qd, impulse, closed
            step = self._impact(q, qd, touching, rebounds=slowest < -self.rest)
            qd = qd + step.dqd
            impulse[touching] += step.impulse
        raise ArithmeticError(
            f"at t = {t:g} s the contacts {touching} did not separate after {IMPACTS} impacts"
        )

    def _touching_contacts(self, q: Array, qd: Array) -> list[int]:
        """Return the indices of the contacts whose gap is at most 1e-10 m."""
        return [
            i for i, gap in enumerate(self.equations.surfaces(q, qd).gap) if gap <= MAX_TOUCHING_GAP
        ]

    def _impact(self, q: Array, qd: Array, touching: Sequence[int], rebounds: bool) -> Impact:
        """Solve the impact of the touching contacts, with restitution if `rebounds` is true."""
        contacts = self.contacts(q, qd)
        e = np.broadcast_to(np.asarray(self.e, dtype=float), (len(contacts),))[touching]
        some = [contacts[i] for i in touching]
        return impact(self.model, q, qd, some, e if rebounds else 0.0 * e, self.law)

    def project_state(
        self, q: Array, qd: Array, closed: Sequence[int], phase: Phase | None = None
    ) -> tuple[Array, Array]:
        """Project q and qd onto the constraints of the closed contacts.

        The gaps become zero, and the velocities in all directions that the contact mode constrains
        become zero. Both projections are orthogonal in the metric of the inertia matrix H, so the
        kinetic energy does not increase.
        """
        q = unit_quaternions(self.model, q)
        if not closed:
            return q, qd
        equation = self.equations.mobility(q, qd, closed)
        D, M, HinvT = equation.D, equation.M, equation.HinvT

        def minimum_norm_change(rows: list[int], change: Array) -> Array:
            # smallest motion (nv,), in the metric H, that changes the gaps or velocities in the
            # contact directions `rows` by `change`
            force = np.linalg.lstsq(M[np.ix_(rows, rows)], change, rcond=1e-10)[0]
            return np.asarray(HinvT[:, rows] @ force)

        normal = list(D.z.values())
        gaps = equation.surfaces.gap[list(D.z)]
        still = normal + [k for i in (phase.sticking if phase else ()) for k in D.tangents(i)]
        return integrate(
            self.model, q, -minimum_norm_change(normal, gaps)
        ), qd - minimum_norm_change(still, equation.w[still])


@dataclass(frozen=True, eq=False)
class SmoothMotion(Block):
    """Block without inputs for the motion in one contact mode, up to the next event.

    Attributes:
        scene: Simulation problem.
        phase: Contact mode.
        t: Start time [s].
        q0: Initial positions (nq,).
        qd0: Initial velocities (nv,).
    """

    scene: Scene
    phase: Phase
    t: float
    q0: Array
    qd0: Array

    @cached_property
    def states(self) -> tuple[Port, ...]:
        """States q (nq,) and qd (nv,)."""
        return motion_states(self.scene.model.joint, self.q0, self.qd0)

    def motion(self, t: float, q: Array, qd: Array) -> Motion:
        """Solve the contact equation in the contact mode; return accelerations and forces."""
        return motion_of(self._equation(t, q, qd), self.phase)

    def _equation(self, t: float, q: Array, qd: Array) -> PhaseEquation:
        tau = self.scene.tau(t, q, qd)
        return self.scene.equations.equation(q, qd, tau, self.phase.closed)

    def derivative(self, t: Any, x: Record) -> Values:
        return {"q": rate(self.scene.model, x.q, x.qd), "qd": self.motion(t, x.q, x.qd).qdd}

    def project(self, x: Record) -> Values:
        q, qd = self.scene.project_state(x.q, x.qd, self.phase.closed, self.phase)
        return {"q": q, "qd": qd}

    def gaps(self, x: Record) -> Array:
        """Return the gaps [m or rad] of the open contacts and joint limits."""
        return np.delete(self.scene.equations.surfaces(x.q, x.qd).gap, self.phase.closed)

    def margin(self, t: Any, x: Record, u: Record, p: Record) -> float:
        """Return the switching function, which is positive as long as the contact mode is valid."""
        del u, p
        equation = self._equation(t, x.q, x.qd)
        return margin(equation.surfaces, self.phase, motion_of(equation, self.phase))


def _fixed_rows(
    scene: Scene,
    motion: SmoothMotion,
    times: Sequence[float],
    events: list[ContactEvent],
    method: Integrator,
    h: float,
) -> Iterator[SmoothMotion]:
    """Simulate with fixed steps, and yield the motion at each of the times [s]."""
    for end in times:
        n_recorded = len(events)
        while end - motion.t > 1e-13 * end:
            memory = Memory(motion)
            evaluator, dt = numpy_evaluator(memory), end - motion.t
            there = first_event(evaluator, memory.start(), motion.t, dt, motion.margin, method, h)
            q, qd = there.m[memory.where["q"]], there.m[memory.where["qd"]]
            if not there.happened:
                motion = SmoothMotion(scene, motion.phase, end, q, qd)
                break
            motion = _continue_after_event(scene, there.t, q, qd, motion.phase, events, n_recorded)
        yield SmoothMotion(scene, motion.phase, end, motion.q0, motion.qd0)


def _rows(
    scene: Scene,
    motion: SmoothMotion,
    times: Sequence[float],
    events: list[ContactEvent],
    steps: EventSteps,
) -> Iterator[SmoothMotion]:
    """Simulate with adaptive steps and dense output; yield the motion at each of the times [s]."""
    k, n_recorded, end = 0, len(events), times[-1]
    while k < len(times):
        memory = Memory(motion)
        where, evaluator = memory.where, numpy_evaluator(memory)
        walk = steps.segments(evaluator, memory.start(), motion.t, end, motion.margin, motion.gaps)
        segment = None
        for segment in walk:
            until = segment.end * (1 - 1e-13 * segment.happened)
            while k < len(times) and times[k] <= until:
                m = segment.memory_at_time(times[k])
                yield SmoothMotion(scene, motion.phase, times[k], m[where["q"]], m[where["qd"]])
                k, n_recorded = k + 1, len(events)
        if segment is not None and segment.happened:
            q, qd = segment.after[where["q"]], segment.after[where["qd"]]
            motion = _continue_after_event(
                scene, segment.end, q, qd, motion.phase, events, n_recorded
            )
        while k < len(times) and times[k] - motion.t <= 1e-13 * times[k]:
            yield SmoothMotion(scene, motion.phase, times[k], motion.q0, motion.qd0)
            k, n_recorded = k + 1, len(events)


def _continue_after_event(
    scene: Scene,
    t: float,
    q: Array,
    qd: Array,
    phase: Phase,
    events: list[ContactEvent],
    n_recorded: int,
) -> SmoothMotion:
    """Record the contact event at a time t [s], and return the motion in the next contact mode.

    `n_recorded` is the number of events up to the last recorded sample. Raises ArithmeticError if
    too many events occur between two recorded samples.
    """
    most = EVENTS + 10 * len(scene.equations.surfaces(q, qd).gap)
    if len(events) - n_recorded >= most:
        raise ArithmeticError(
            f"{most} events occurred within one step, the last at t = {t:.9g} s; increase "
            "`rest`, the speed below which bounces end"
        )
    return scene.motion_after_event(t, q, qd, phase, events)
