"""Event-driven rigid contact (RBDA Table 11.1): event times, impacts and rest."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp

from rigidblocks import Model, Prismatic, Revolute, SixDoF
from rigidblocks.block.integrators import EULER, HEUN, RK4, SEMI_IMPLICIT_EULER
from rigidblocks.contact import (
    Box,
    Contact,
    JointLimit,
    Plane,
    PointSet,
    SoftLaw,
    Sphere,
    plane_contacts,
    sphere_contacts,
)
from rigidblocks.cosim.contact_events import simulate_contact
from rigidblocks.dynamics import energy
from rigidblocks.spatial.spatial import identity, mcI, xlt

G = 9.81
ROUNDING = 1e-12  # the integrator is exact; rounding over some hundred steps and some events
PENETRATION = 1e-12  # [m] gap at a located event, plus rounding
ORDER = 0.15  # tolerance of a fitted order
UP = np.array([0.0, 0.0, 1.0])


def ball():
    """Return a point mass of 1 kg on a vertical slide."""
    inertia = mcI(1.0, np.zeros(3), np.eye(3))
    return Model(
        "ball",
        (-1,),
        (Prismatic(),),
        (identity(),),
        (inertia,),
        contact=((PointSet([[0.0, 0.0, 0.0]]),),),
    )


def brick(sides=(0.4, 0.3, 0.2), m=2.0):
    """Return a free-floating brick."""
    a, b, c = sides
    inertia = mcI(m, np.zeros(3), m / 12 * np.diag([b * b + c * c, a * a + c * c, a * a + b * b]))
    return Model("brick", (-1,), (SixDoF(),), (identity(),), (inertia,), contact=((Box(sides),),))


def dropped(e, t_stop, dt=0.05, height=1.0, **how):
    model = ball()
    return simulate_contact(
        model, partial(plane_contacts, model), [height], [0.0], t_stop, dt, e=e, **how
    )


def energies(model, run):
    return np.array([energy(model, q, qd) for q, qd in zip(run["q"], run["qd"], strict=True)])


def deepest(contacts, run):
    """Return the smallest gap at any recorded time."""
    return min(
        float(c.gap) for q, qd in zip(run["q"], run["qd"], strict=True) for c in contacts(q, qd)
    )


# event times


@pytest.mark.slow
@pytest.mark.parametrize("method", [HEUN, RK4], ids=lambda method: method.name)
def test_bounce_times_and_speeds_equal_their_closed_form(method):
    e, fall = 0.8, np.sqrt(2 / G)
    run = dropped(e, 3.0, method=method)
    exact = fall * np.cumsum([1.0, *(2 * e**k for k in range(1, 5))])
    assert_allclose(run.times("impact")[:5], exact, rtol=ROUNDING)
    speeds = [event.impulse[0, 0] / (1 + e) for event in run.events[:5]]
    assert_allclose(speeds, G * fall * e ** np.arange(5), rtol=ROUNDING)


SPRING = 40.0  # [N/m]


def spring(t, q, qd):
    del t, qd
    return -SPRING * (q - 0.6)


def bounces_on_the_spring(e):
    """Return the times of the first two impacts of a ball on a spring.

    Between impacts z = c + a cos(w t), and c is such that a flight is a part of a period.
    """
    w, c = np.sqrt(SPRING), 0.6 - G / SPRING
    a = 1.0 - c
    first = np.arccos(-c / a) / w
    v = e * a * w * np.sin(w * first)
    angle = 2 * np.arctan2(v / w, c)
    second = first + (angle if c < 0 else 2 * np.pi - angle) / w

    def rates(_, x):
        return [x[1], spring(0, x[0], 0) - G]

    flight = solve_ivp(rates, (0, second - first), [0, v], rtol=1e-12, atol=1e-13)
    assert abs(flight.y[0, -1]) < 1e-9  # the closed form of the second flight
    return first, second


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [EULER, SEMI_IMPLICIT_EULER, HEUN, RK4], ids=lambda method: method.name
)
def test_event_time_error_converges_at_the_order_of_the_method(method):
    model, e = ball(), 0.7
    first, second = bounces_on_the_spring(e)
    counts = np.array([30, 45, 65, 95]) if method.order < 4 else np.array([10, 14, 20, 28])
    errors = []
    for n in counts:
        h = first / (n + 0.4)
        T = (int(np.ceil(second / h)) + 4) * h
        options = {"e": e, "tau": spring, "method": method, "h": h}
        run = simulate_contact(model, partial(plane_contacts, model), [1.0], [0.0], T, T, **options)
        errors.append(abs(run.times("impact")[0] - first))
        assert abs(run.times("impact")[1] - second) < 60 * max(errors[-1], 1e-9)
    assert (
        abs(np.polyfit(np.log(first / (counts + 0.4)), np.log(errors), 1)[0] - method.order) < ORDER
    )


@pytest.mark.slow
def test_sliding_distance_of_a_brick_equals_its_closed_form():
    # the distance is v^2 / (2 mu g) in any direction; then the brick sticks and carries its weight
    model, mu = brick(), 0.3
    contacts = partial(plane_contacts, model, mu=mu)
    for v in ([1.0, 0.0], [0.6, -0.5]):
        speed = np.hypot(*v)
        run = simulate_contact(
            model, contacts, [1, 0, 0, 0, 0, 0, 0.1], [0, 0, 0, *v, 0], 0.5, 0.1, h=0.05
        )
        assert [event.kind for event in run.events] == ["stick"]
        assert_allclose(
            run.events[0].t, speed / (mu * G), rtol=0, atol=1e-8
        )  # at the event the speed is below SPEED_TOLERANCE
        assert_allclose(
            run["q"][-1, 4:6], speed / (2 * mu * G) * np.array(v), rtol=0, atol=ROUNDING
        )
        assert_allclose(run["qd"][-1], 0, rtol=0, atol=ROUNDING)
        assert_allclose(run["force"][-1, :, 0].sum(), 2.0 * G, rtol=1e-10)


@pytest.mark.slow
def test_brick_sticks_below_the_friction_angle_and_slides_above_it():
    model, mu, t = brick(), 0.3, 0.4
    for angle in (np.arctan(mu) - 0.01, np.arctan(mu) + 0.01):
        down = np.array([np.cos(angle), 0.0, -np.sin(angle)])
        normal = np.array([np.sin(angle), 0.0, np.cos(angle)])
        q0 = np.array([np.cos(angle / 2), 0.0, np.sin(angle / 2), 0.0, *(0.1 * normal)])
        contacts = partial(plane_contacts, model, ground=Plane(normal), mu=mu)
        run = simulate_contact(model, contacts, q0, np.zeros(6), t, t / 2, h=0.05)
        way = max(np.sin(angle) - mu * np.cos(angle), 0.0) * G * t**2 / 2
        assert_allclose(run["q"][-1, 4:] - q0[4:], way * down, rtol=0, atol=ROUNDING)
        assert_allclose(run["q"][-1, :4], q0[:4], rtol=0, atol=ROUNDING)


def test_contact_opens_when_its_normal_force_reaches_zero():
    # a pull that grows with time lifts the ball when it equals the weight
    model = ball()

    def pull(t, q, qd):
        del q, qd
        return np.array([20.0 * t])

    run = simulate_contact(model, partial(plane_contacts, model), [0.0], [0.0], 1.0, 0.1, tau=pull)
    assert [event.kind for event in run.events] == ["loss"]
    assert_allclose(
        run.times("loss"), [G / 20.0], rtol=1e-8
    )  # at the event the force is below RELATIVE_TOLERANCE times the weight
    s = 1.0 - G / 20.0
    assert_allclose(run["q"][-1], 20.0 * s**3 / 6, rtol=1e-7)


def test_body_under_an_increasing_force_starts_to_slide_at_the_friction_limit():
    model = Model(
        "block",
        (-1, 0),
        (Prismatic((1.0, 0.0, 0.0)), Prismatic()),
        (identity(),) * 2,
        (mcI(0.5, np.zeros(3), np.eye(3)), mcI(0.5, np.zeros(3), np.eye(3))),
        contact=((), (PointSet([[0.0, 0.0, 0.0]]),)),
    )

    def push(t, q, qd):
        del q, qd
        return np.array([10.0 * t, 0.0])

    mu = 0.4
    run = simulate_contact(
        model, partial(plane_contacts, model, mu=mu), [0, 0], [0, 0], 0.5, 0.1, tau=push
    )
    assert [event.kind for event in run.events] == ["slip"]
    assert_allclose(
        run.events[0].t, mu * 0.5 * G / 10.0, rtol=1e-7
    )  # only the weight of the lower body loads the contact
    s = 0.5 - run.events[0].t
    assert_allclose(run["q"][-1, 0], 10.0 * s**3 / 6, rtol=1e-6)


def test_joint_bounces_between_its_limits_at_the_closed_form_times():
    # without gravity the times between the stops are a geometric sequence
    inertia = mcI(1.0, np.zeros(3), np.eye(3))
    model = Model("rotor", (-1,), (Revolute(),), (identity(),), (inertia,))
    limits = [JointLimit(0, -0.5), JointLimit(0, 0.5, upper=True)]
    run = simulate_contact(model, lambda *_: limits, [0.0], [1.0], 4.0, 0.1, e=0.5)
    assert_allclose(run.times("impact"), [0.5, 2.5], rtol=ROUNDING)
    assert np.abs(run["q"]).max() <= 0.5 + PENETRATION


# state changes at an event


@pytest.mark.slow
def test_elastic_bounces_conserve_energy():
    run = dropped(1.0, 5.0)
    assert len(run.times("impact")) == 6
    E = energies(ball(), run)
    assert_allclose(
        E, E[0], rtol=0, atol=1e-15 * len(run.time) * 10 * G + 6 * G * 1e-13
    )  # a gap of 1e-13 m at each event


@pytest.mark.slow
def test_impact_of_the_first_ball_of_newtons_cradle_moves_only_the_last_ball():
    r, L, n = 0.05, 1.0, 3
    inertia = mcI(0.2, [0.0, 0.0, -L], 0.4 * 0.2 * r * r * np.eye(3))
    model = Model(
        "cradle",
        (-1,) * n,
        (Revolute((0.0, 1.0, 0.0)),) * n,
        tuple(xlt([2 * r * i, 0.0, 0.0]) for i in range(n)),
        (inertia,) * n,
        contact=((Sphere(r, (0.0, 0.0, -L)),),) * n,
    )
    contacts = partial(sphere_contacts, model, pairs=[(i, i + 1) for i in range(n - 1)])
    run = simulate_contact(
        model, contacts, [0.4, 0, 0], np.zeros(n), 1.6, 0.04, h=0.02, e=1.0, law="sequence"
    )
    assert [event.kind for event in run.events] == ["impact", "impact"]
    first, second = run.times("impact")
    between = (run.time > first) & (run.time < second)
    assert np.abs(run["q"][between][:, :2]).max() < 1e-9
    assert np.abs(run["q"][between][:, 2]).max() > 0.39
    assert np.abs(run["q"][run.time > second][:, 1:]).max() < 1e-9
    assert np.ptp(energies(model, run)) < 1e-6  # integration error of order h^4


@pytest.mark.slow
def test_ball_with_restitution_comes_to_rest_after_finitely_many_impacts():
    run = dropped(0.5, 2.0)
    assert len(run.times("impact")) < 15  # halving from 4.4 m/s to below 1 mm/s, plus the last
    assert_allclose(run["q"][-1], 0, rtol=0, atol=PENETRATION)
    assert_allclose(run["qd"][-1], 0, rtol=0, atol=ROUNDING)
    assert_allclose(run["force"][-1], [[G, 0, 0]], rtol=1e-12)


@pytest.mark.slow
def test_too_many_events_in_one_step_raise_an_error():
    # without a rest threshold, the bounce times of this ball converge to a finite time
    with pytest.raises(
        ArithmeticError,
        match=r"110 events occurred within one step, the last at t = 17\.\d+ s; increase `rest`",
    ):
        dropped(0.95, 20.0, 20.0, rest=0.0)


@pytest.mark.slow
def test_ball_comes_to_rest_at_the_closed_form_time_without_a_rest_threshold():
    # the bounces end when they are smaller than the gap tolerance; their times form a series
    run, e = dropped(0.5, 2.0, 2.0, rest=0.0), 0.5
    assert_allclose(run.events[-1].t, np.sqrt(2 / G) * (1 + e) / (1 - e), rtol=1e-5)
    assert_allclose(run["q"][-1], 0.0, rtol=0, atol=PENETRATION)


@pytest.mark.slow
@pytest.mark.parametrize(("mu", "e"), [(0.0, 0.0), (0.0, 0.6), (0.5, 0.3)])
def test_tumbling_brick_never_gains_energy_and_never_penetrates(mu, e):
    model, rng = brick(), np.random.default_rng(4)
    turn = rng.normal(size=4)
    q0 = np.array([*(turn / np.linalg.norm(turn)), 0.0, 0.0, 0.4])
    contacts = partial(plane_contacts, model, mu=mu)
    run = simulate_contact(model, contacts, q0, rng.normal(size=6), 0.5, 0.01, e=e)
    E = energies(model, run)
    assert len(run.times("impact")) >= 3
    assert np.diff(E).max() < 1e-7 * E[0]  # integration error in flight, of order h^4
    assert E[-1] < E[0] - 1.0
    assert deepest(contacts, run) > -PENETRATION


@pytest.mark.slow
def test_brick_that_rotates_over_an_edge_lands_on_its_side():
    # two contacts open at once, and two new contacts close
    model = brick((0.2, 0.4, 0.6))
    contacts = partial(plane_contacts, model, mu=1.0)
    run = simulate_contact(
        model, contacts, [1, 0, 0, 0, 0, 0, 0.3], [0, 0, 0, 0.0, 0, 0], 0.1, 0.05
    )
    assert_allclose(run["q"][-1], run["q"][0], rtol=0, atol=ROUNDING)  # the brick stands
    tilt = 0.4  # more than atan(0.2 / 0.6), at which the brick tips
    q0 = np.array(
        [np.cos(tilt / 2), 0, np.sin(tilt / 2), 0, 0, 0, 0.3 * np.cos(tilt) + 0.1 * np.sin(tilt)]
    )
    run = simulate_contact(model, contacts, q0, np.zeros(6), 1.0, 0.02)
    assert_allclose(run["q"][-1, 6], 0.1, rtol=0, atol=PENETRATION)
    assert_allclose(run["qd"][-1], 0, rtol=0, atol=1e-9)
    assert np.diff(energies(model, run)).max() < 1e-6


# compliant and rigid contact


def soft_bounce(K, zeta, t_stop):
    """Return height and speed at t_stop of a 1 kg ball dropped from 1 m onto compliant ground.

    SciPy integrates the motion.
    """
    law = SoftLaw(K, 2 * zeta * np.sqrt(K), 0.0, K, 1.0)

    def rates(_, x):
        force = law.force(Contact(-x[0], UP, x[0] * UP), x[1] * UP, np.zeros(3))
        return [x[1], float(force.normal) - G]

    def surface(_, x):
        return x[0]

    x, t = np.array([1.0, 0.0]), 0.0
    surface.terminal = True
    while t < t_stop:  # alternate between flight and contact
        part = solve_ivp(
            rates,
            (t, t_stop),
            x,
            "DOP853",
            rtol=1e-10,
            atol=1e-12,
            events=surface,
            max_step=0.5 / np.sqrt(K),
        )
        t, x = part.t[-1], part.y[:, -1]
        x[0] += 1e-13 * np.sign(x[1])
    return x


@pytest.mark.slow
def test_compliant_contact_motion_converges_to_rigid_contact_motion_for_large_stiffness():
    # the contact lasts pi / sqrt(K), so its two events differ by this time: the slope is -1/2
    zeta, t_stop = 0.1, 1.1
    e = np.exp(-zeta * (np.pi - 2 * np.arcsin(zeta)) / np.sqrt(1 - zeta**2))
    rigid = dropped(e, t_stop)
    assert len(rigid.events) == 1
    stiffness = np.array([1e4, 4e4, 1.6e5, 6.4e5])
    errors = [abs(soft_bounce(K, zeta, t_stop)[0] - rigid["q"][-1, 0]) for K in stiffness]
    assert abs(np.polyfit(np.log(stiffness), np.log(errors), 1)[0] + 0.5) < 0.05


# results of a run


def test_result_of_a_contact_run_has_units_and_events(tmp_path):
    run = dropped(0.5, 1.0)
    assert [port.name for port in run.ports] == ["q", "qd", "force", "impulse"]
    assert (run.unit("q"), run.unit("qd"), run.unit("force")) == ("m", "m/s", "N")
    assert (run.unit("impulse"), run["force"].shape) == ("N.s", (21, 1, 3))
    saved = pyarrow.parquet.read_table(run.save(tmp_path / "run.parquet"))
    assert_array_equal(saved["impulse[1,1]"], run["impulse"][:, 0, 0])
    events = json.loads(saved.schema.metadata[b"events"])
    assert events == [[event.t, "impact"] for event in run.events]
    axes = run.plot("q").axes[0]
    assert len(axes.lines) == 1 + len(run.events)


@pytest.mark.slow
def test_momentum_change_equals_the_sum_of_gravity_and_contact_impulses():
    run = dropped(0.5, 3.0)
    assert len(run.times("impact")) > 5
    bounces = run.time <= run.events[-1].t  # until then the contact force is impulsive
    expected = run["impulse"][:, 0, 0] - G * run.time
    assert_allclose(run["qd"][bounces, 0], expected[bounces], rtol=0, atol=ROUNDING)


def test_unit_of_a_joint_limit_force_depends_on_the_joint_type():
    model = replace(ball(), joint=(Revolute(),))
    run = simulate_contact(model, lambda *_: [JointLimit(0, -1.0)], [0.0], [-4.0], 0.5, 0.1)
    assert run.port("force").units == ("N.m", "N", "N")
    assert run.port("impulse").units == ("N.m.s", "N.s", "N.s")


def test_contact_run_without_contacts_gives_the_motion_of_free_fall():
    run = simulate_contact(ball(), lambda *_: [], [1.0], [0.0], 1.0, 0.1)
    assert [port.name for port in run.ports] == ["q", "qd"]
    assert_allclose(run["q"][:, 0], 1.0 - G * run.time**2 / 2, rtol=0, atol=ROUNDING)


# invalid arguments


def test_contact_run_that_starts_with_penetration_is_rejected():
    with pytest.raises(
        ValueError,
        match=r"contact 0 penetrates by 0.1 m at the start; rigid contacts need gaps >= 0",
    ):
        dropped(0.0, 1.0, height=-0.1)


def test_contact_run_with_a_step_that_does_not_divide_its_duration_is_rejected():
    with pytest.raises(
        ValueError,
        match=r"dt = 0.3 s does not divide the duration of the run, 1.0 s; use for example dt",
    ):
        dropped(0.0, 1.0, 0.3)


def test_coefficient_of_restitution_above_one_is_rejected():
    with pytest.raises(
        ValueError, match=r"a coefficient of restitution must be between 0 and 1, not \[1.5\]"
    ):
        dropped(1.5, 1.0)


def test_contacts_between_points_of_zero_radius_are_rejected():
    points = (PointSet([[0.0, 0.0, 0.0]]),)
    inertia = mcI(1.0, np.zeros(3), np.eye(3))
    balls = Model(
        "balls",
        (-1, -1),
        (Prismatic(),) * 2,
        (identity(),) * 2,
        (inertia,) * 2,
        contact=(points,) * 2,
    )
    with pytest.raises(ValueError, match="contact points 0 and 1 of model 'balls' have no radius"):
        sphere_contacts(balls, np.array([0.0, 1.0]), np.zeros(2), [(0, 1)])
