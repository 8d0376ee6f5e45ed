"""Contact steps at velocity level with friction: stick, slip, bounce, rest and tracing."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from contact_scenes import (
    UP,
    G,
    ball_model,
    brick_model,
    lying,
    on_the_ground,
    random_contacts,
    unit,
)
from random_models import MODELS, random_state
from rigidblocks.contact import (
    JointLimit,
    PointContact,
    contact_step,
    projected_sweeps,
    pyramid_forces,
)
from rigidblocks.dynamics import aba, crba, energy, kinetic_energy, point_position, point_velocity
from rigidblocks.robot.configuration import integrate
from rigidblocks.robot.joints import Prismatic
from rigidblocks.robot.model import Model
from rigidblocks.spatial.spatial import identity, mcI
from rigidblocks.tracing.compiled_functions import compile_function
from rigidblocks.tracing.trace import trace


def test_contact_step_stops_a_joint_at_its_limit():
    model = Model(
        "slide", (-1,), (Prismatic(),), (identity(),), (mcI(1.0, np.zeros(3), np.eye(3)),)
    )
    q, qd, h = np.array([0.1]), np.array([0.0]), 0.01
    for _ in range(100):
        qd = contact_step(model, q, qd, np.zeros(1), [JointLimit(0, 0.0)], h).qd
        q = q + h * qd
        assert q[0] >= -1e-12
    assert_allclose(q, [0.0], rtol=0, atol=1e-12)


def slid(angle, mu, steps=40, h=1e-3, solve=projected_sweeps, cone=True):
    """Return the velocity after steps from rest on an incline of `angle`, and the last step."""
    model = brick_model().with_gravity(G * np.array([np.sin(angle), 0.0, -np.cos(angle)]))
    q, qd, step = on_the_ground(), np.zeros(6), None
    for _ in range(steps):
        step = contact_step(
            model, q, qd, np.zeros(6), lying(model, q, mu), h, solve=solve, cone=cone
        )
        qd, q = step.qd, integrate(model, q, h * step.qd)
    return point_velocity(model, q, qd, 0, np.zeros(3)), step


@pytest.mark.slow
@pytest.mark.parametrize(
    ("solve", "cone"),
    [(lambda *a: projected_sweeps(*a, sweeps=150), True), (pyramid_forces, False)],
)
def test_brick_sticks_below_and_slips_above_the_friction_angle(solve, cone):
    angle, h, steps = 0.4, 1e-3, 10
    sticking, step = slid(angle, np.tan(angle) * 1.05, steps, h, solve, cone)
    assert step.residual < 1e-6
    assert_allclose(sticking, np.zeros(3), rtol=0, atol=1e-6)
    mu = np.tan(angle) * 0.6
    sliding, step = slid(angle, mu, steps, h, solve, cone)
    assert step.residual < 1e-6
    assert_allclose(
        sliding, [G * (np.sin(angle) - mu * np.cos(angle)) * steps * h, 0, 0], rtol=1e-4, atol=1e-7
    )


@pytest.mark.slow
def test_sliding_brick_stops_after_the_analytic_distance():
    # distance v^2 / (2 mu g), to first order in the step size
    model, v, mu, h = brick_model((0.4, 0.3, 1e-3)), 1.0, 0.5, 1e-3
    q, qd = on_the_ground(5e-4), np.array([0, 0, 0, v, 0, 0.0])
    for _ in range(250):
        contacts = lying(model, q, mu, (0.4, 0.3, 1e-3))
        qd = contact_step(
            model, q, qd, np.zeros(6), contacts, h, solve=pyramid_forces, cone=False
        ).qd
        q = integrate(model, q, h * qd)
    assert_allclose(q[4], v**2 / (2 * mu * G), rtol=2e-2)
    assert_allclose(qd, np.zeros(6), rtol=0, atol=1e-9)


def test_bounce_heights_decrease_by_the_square_of_the_restitution():
    model, e, h = ball_model(), 0.8, 1e-4

    def step_body(q, qd):
        contact = PointContact(0, np.array([0.0, 0.0, q[0]]), UP, gap=q[0])
        return {
            "qd": contact_step(model, q, qd, np.zeros(1), [contact], h, e=e, solve=one_sweep).qd
        }

    step = compile_function("bounce", step_body, {"q": (1,), "qd": (1,)})
    q, qd, tops = np.array([0.5]), np.zeros(1), []
    for _ in range(12000):
        before, qd = qd, step(q, qd)
        q = q + h * qd
        if before[0] > 0 >= qd[0]:
            tops.append(q[0])
    assert_allclose(tops[:2], [0.5 * e**2, 0.5 * e**4], rtol=5e-3)


def one_sweep(M, d, mu, start=None):
    return projected_sweeps(M, d, mu, sweeps=1, start=start)


def test_contact_step_with_distant_contacts_gives_the_velocities_of_free_motion(rng):
    model = MODELS["six-axis"]()
    s, h = random_state(rng, model), 1e-3
    contacts = [replace(c, gap=10.0) for c in random_contacts(rng, model, mu=0.5)]
    step = contact_step(model, s.q, s.qd, s.tau, contacts, h)
    expected = s.qd + h * aba(model, s.q, s.qd, s.tau)
    assert not step.impulse.any()
    assert_allclose(
        step.qd,
        expected,
        rtol=0,
        atol=1e-12 * np.linalg.cond(crba(model, s.q)) * np.abs(expected).max(),
    )


def test_fast_ball_stops_at_the_surface_within_one_step():
    model, h = ball_model(), 0.01
    q = np.array([0.02])
    step = contact_step(
        model, q, np.array([-5.0]), np.zeros(1), [PointContact(0, q[0] * UP, UP, gap=q[0])], h
    )
    assert_allclose(q + h * step.qd, [0.0], rtol=0, atol=1e-15)


def test_penetration_correction_per_step_is_limited():
    model, h = ball_model(), 0.01
    for depth, expected in ((0.01, 0.2 * 0.01 / h), (1.0, 1.0)):
        contact = PointContact(0, -depth * UP, UP, gap=-depth)
        step = contact_step(model, np.array([-depth]), np.zeros(1), np.zeros(1), [contact], h)
        assert_allclose(step.qd, [expected], rtol=1e-12)


def test_contact_step_without_correction_and_restitution_adds_no_energy(rng):
    # kinetic energy only: no gravity, no forces, and a step so short that nothing moves
    for name in ("six-axis", "satellite", "all joints"):
        model = MODELS[name]().with_gravity(np.zeros(3))
        for _ in range(5):
            s, h = random_state(rng, model), 1e-12
            contacts = random_contacts(rng, model, mu=0.7)
            step = contact_step(
                model,
                s.q,
                s.qd,
                np.zeros(model.nv),
                contacts,
                h,
                correction=0.0,
                solve=pyramid_forces,
            )
            before, after = (kinetic_energy(model, s.q, v) for v in (s.qd, step.qd))
            assert after <= before * (1 + 1e-9)


@pytest.mark.slow
def test_contact_steps_with_restitution_and_friction_add_no_energy(rng):
    # for every restitution and friction, and few sweeps; the correction, which may add energy, is
    # off
    model, h = brick_model(), 1e-3

    def step_body(q, qd, e, mu, gaps):
        contacts = [replace(c, gap=gap) for c, gap in zip(lying(model, q, mu), gaps, strict=True)]
        step = contact_step(model, q, qd, np.zeros(6), contacts, h, e, correction=0.0, solve=few)
        free = qd + h * aba(model, q, qd, np.zeros(6))
        return {
            "T": np.array([kinetic_energy(model, q, v) for v in (free, step.qd)]),
            "impulse": step.impulse,
        }

    step = compile_function(
        "rebound", step_body, {"q": (7,), "qd": (6,), "e": (), "mu": (), "gaps": (4,)}
    )
    gained = []
    for _ in range(10_000):
        q = np.concatenate([unit(rng.normal(size=4)), rng.normal(size=3)])
        (before, after), impulse = step(
            q, rng.normal(size=6), rng.uniform(), rng.uniform(0, 2), rng.uniform(-2, 1, 4) * h
        )
        gained.append((after - before) / before)
        assert (impulse[:, 0] >= 0).all()
    gained = np.array(gained)
    assert gained.max() < 1e-12
    assert ((gained != 0) & (gained > -1e-12)).sum() > 10  # the energy limit was active


def few(M, d, mu):
    return projected_sweeps(M, d, mu, sweeps=3)


def test_warm_start_with_the_solution_converges_in_one_gauss_seidel_sweep(rng):
    model, h = MODELS["six-axis"](), 0.01
    s = random_state(rng, model)
    rough, smooth = random_contacts(rng, model, 2, mu=0.5), random_contacts(rng, model, 1)
    contacts = [*smooth, JointLimit(2, s.q[2] + 0.01), *rough]
    first = contact_step(model, s.q, s.qd, s.tau, contacts, h, solve=solve_by_2000_sweeps)
    again = contact_step(model, s.q, s.qd, s.tau, contacts, h, solve=one_sweep, start=first.impulse)
    assert first.residual < 1e-9
    assert np.count_nonzero(first.impulse)
    assert_allclose(again.impulse, first.impulse, rtol=0, atol=1e-6 * np.abs(first.impulse).max())
    assert (
        contact_step(model, s.q, s.qd, s.tau, contacts, h, solve=one_sweep).residual
        > 1e3 * again.residual
    )


def solve_by_2000_sweeps(M, d, mu):
    return projected_sweeps(M, d, mu, sweeps=2000)


@pytest.mark.slow
def test_dropped_brick_dissipates_energy_and_comes_to_rest():
    model, h = brick_model(), 2e-3
    q, qd = on_the_ground(0.25), np.array([0.5, 0.3, 0.1, 0.2, 0.0, 0.0])
    energies = []
    for _ in range(500):
        step = contact_step(
            model, q, qd, np.zeros(6), lying(model, q, 0.6), h, solve=pyramid_forces, cone=False
        )
        qd, q = step.qd, integrate(model, q, h * step.qd)
        energies.append(energy(model, q, qd))
        assert min(c.gap for c in lying(model, q)) > -0.01
    assert np.abs(qd).max() < 1e-3
    assert energies[-1] < energies[0]
    assert_allclose(q[6], 0.1, rtol=0, atol=1e-3)


def test_traced_contact_step_matches_the_results_of_numpy(rng):
    model = MODELS["satellite"]()
    s, h = random_state(rng, model), 0.01
    gaps = np.array([-0.01, 0.02])

    def step_body(q, qd, tau, gaps, mu):
        tip = point_position(model, q, 3, np.array([0.1, 0.2, 0.3]))
        ground = PointContact(3, tip, UP, gap=gaps[0], mu=mu)
        wheel = PointContact(
            4,
            point_position(model, q, 4, UP),
            np.array([0.6, 0.0, 0.8]),
            predecessor=0,
            gap=gaps[1],
        )
        step = contact_step(
            model, q, qd, tau, [ground, wheel, JointLimit(2, 0.1)], h, e=0.5, solve=few
        )
        return {"qd": step.qd, "impulse": step.impulse, "residual": np.asarray(step.residual)}

    values = s.q, s.qd, s.tau, gaps, np.asarray(0.6)
    graph = trace(
        "step",
        step_body,
        dict(zip(("q", "qd", "tau", "gaps", "mu"), map(np.shape, values), strict=True)),
    )
    flat, expected = graph(np.concatenate([np.ravel(v) for v in values])), step_body(*values)
    expected = np.concatenate([np.ravel(value) for value in expected.values()])
    assert_allclose(flat, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    assert expected[model.nv :].any()
