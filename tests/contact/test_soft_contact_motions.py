"""Point masses on compliant ground: restitution, drops, stick, slip and stopping distance."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

from integration import states
from rigidblocks.contact import Contact, SoftLaw, SurfaceState

G = 9.81
UP = np.array([0.0, 0.0, 1.0])
DAMPED = SoftLaw(1e4, 20.0, 0.6, 5e3, 15.0)
UNDAMPED = SoftLaw(1e4, 0.0, 0.6, 5e3, 15.0)


def dot(a, b):
    return (a * b).sum(-1)


class Drop(NamedTuple):
    r: np.ndarray
    v: np.ndarray
    x: np.ndarray


def rk4(law, start, h, steps, gravity=-G * UP, m=1.0, normal=UP):
    """Return the states (steps + 1, n, 3) of n masses after each RK4 step of the continuous law."""

    def rates(y):
        touching = Contact(-dot(y[0], normal), np.broadcast_to(normal, y[0].shape), y[0])
        force = law.force(touching, y[1], y[2])
        f = force.normal[:, None] * normal + force.friction
        return np.stack([y[1], gravity + f / m, law.rate(touching, y[1], y[2])])

    return Drop(*np.moveaxis(states(rates, np.stack(start), h, steps), 1, 0))


def hold_mass(law, start, h, steps, gravity=-G * UP, m=1.0, normal=UP):
    """Return the states with the sampled law: held forces and exact motion of the masses."""
    (r, v, x), rows = start, [np.stack(start)]
    state = SurfaceState(np.minimum(dot(r, normal), 0), x)
    force = law.force(Contact(-dot(r, normal), np.broadcast_to(normal, r.shape), r), v, x)
    for _ in range(steps):
        a = gravity + (force.normal[:, None] * normal + force.friction) / m
        r, v = r + h * v + h * h / 2 * a, v + h * a
        state, force = law.sample(
            Contact(-dot(r, normal), np.broadcast_to(normal, r.shape), r), v, state, h
        )
        rows.append(np.stack([r, v, state.x]))
    return Drop(*np.moveaxis(np.array(rows), 1, 0))


def state_at_height(z, v=0.0):
    z = np.atleast_1d(z)
    return Drop(z[:, None] * UP, np.full_like(z, v)[:, None] * UP, np.zeros((len(z), 3)))


@pytest.mark.slow
def test_restitution_of_a_linear_spring_damper_matches_the_analytic_solution():
    # without gravity: contact time (pi - 2 asin zeta) / wd, restitution exp(-zeta w0 t_c), contact
    # ends at p = -D v / K
    m, K, D, v0 = 1.0, 1e4, 20.0, 1.0
    w0, zeta = np.sqrt(K / m), D / (2 * np.sqrt(K * m))
    t_c = (np.pi - 2 * np.arcsin(zeta)) / (w0 * np.sqrt(1 - zeta**2))
    e = np.exp(-zeta * w0 * t_c)
    assert_allclose([t_c, e, -D * e * v0 / K], [0.0295608, 0.744079, -1.48816e-3], rtol=1e-5)
    h = 2e-5
    path = rk4(DAMPED, state_at_height(0.0, -v0), h, 1500, gravity=0.0)
    v, p = path.v[:, 0, 2], path.r[:, 0, 2]
    assert_allclose(v[-1] / v0, e, rtol=1e-5)  # force error in one step h: (h w0)^2
    lost = np.argmax(K * p + D * v >= 0)  # first step without contact force
    assert lost * h == pytest.approx(t_c, abs=2 * h)
    assert p[lost] == pytest.approx(-D * e * v0 / K, abs=2 * h * v0)


@pytest.mark.slow
def test_depth_of_an_undamped_hertzian_impact_matches_energy_conservation():
    # m v^2 / 2 = 2/5 K d^2.5, and the separation speed equals the impact speed
    m, K, v0 = 1.0, 1e6, 0.5
    law = SoftLaw(K, 0.0, 0.0, 1.0, 1.0, depth_ref=1.0)
    path = rk4(law, state_at_height(0.0, -v0), 2e-5, 1300, gravity=0.0)
    assert -path.r[:, 0, 2].min() == pytest.approx((1.25 * m * v0**2 / K) ** 0.4, rel=1e-5)
    assert path.v[-1, 0, 2] == pytest.approx(v0, rel=1e-5)


def energy(law, path):
    z = np.minimum(path.r[..., 2], 0)
    return G * path.r[..., 2] + dot(path.v, path.v) / 2 + law.K * z**2 / 2


@pytest.mark.slow
@pytest.mark.parametrize(("move", "order"), [(hold_mass, 1), (rk4, 2)])
def test_energy_error_of_an_elastic_drop_decreases_with_the_step_size(move, order):
    # RK4 has order two here, because the spring force has a kink at touchdown. Many drop heights
    # distribute the time of the kink within a step
    law, heights = UNDAMPED, np.linspace(0.05, 0.08, 60)
    steps = np.array([200, 400, 800]) * (2 if move is hold_mass else 1)
    errors = []
    for n in steps:
        E = energy(law, move(law, state_at_height(heights), 0.4 / n, n))
        errors.append(np.sqrt(np.mean((E[-1] / E[0] - 1) ** 2)))
    slope = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert slope == pytest.approx(order, abs=0.15 if order == 1 else 0.3)
    assert errors[-1] < (
        0.1 if move is hold_mass else 1e-3
    )  # a held spring force adds pi w0 h / 2 of the energy per bounce


@pytest.mark.slow
def test_damped_drop_dissipates_energy_and_ends_at_a_depth_of_weight_over_stiffness():
    law = SoftLaw(1e4, 60.0, 0.5, 1e4, 60.0)
    path = rk4(law, state_at_height([0.05, 0.02]), 1e-3, 1000)
    E = energy(law, path)
    assert np.all(
        np.diff(E, axis=0) <= 1e-6 * E[0]
    )  # integration error at the kink of the spring force
    assert_allclose(path.r[-1, :, 2], -G / law.K, rtol=1e-6)
    assert_allclose(
        hold_mass(law, state_at_height([0.05, 0.02]), 1e-3, 1000).r[-1, :, 2], -G / law.K, rtol=1e-6
    )


def slide_on_inclines(law, angle, move, v0=0.0, h=1e-3, steps=1000):
    """Return distances (steps + 1, n) and speeds of masses on inclines with initial speed v0.

    The initial friction force balances gravity, limited by the cone.
    """
    normal = np.stack([np.sin(angle), 0 * angle, np.cos(angle)], axis=-1)
    down = np.stack([np.cos(angle), 0 * angle, -np.sin(angle)], axis=-1)
    x = (np.minimum(np.sin(angle), law.mu * np.cos(angle)) * G / law.K_t)[:, None] * down
    start = Drop((-G * np.cos(angle) / law.K)[:, None] * normal, np.multiply(v0, down.T).T, x)
    path = move(law, start, h, steps, normal=normal)
    return dot(path.r, down), dot(path.v, down)


@pytest.mark.parametrize("move", [hold_mass, rk4])
def test_mass_sticks_below_the_friction_angle_and_slips_above(move):
    law = SoftLaw(1e5, 300.0, 0.5, 1e5, 300.0)
    critical = np.arctan(law.mu)
    angle = critical * np.array([0.2, 0.95, 1 - 1e-3])
    spare = G * (
        law.mu * np.cos(angle) - np.sin(angle)
    )  # friction reserve, which limits the amplitude of the patch spring after a push
    push = 0.2 * spare / np.sqrt(law.K_t)
    way, speed = slide_on_inclines(law, angle, move, push)
    assert np.all(np.abs(way).max(axis=0) > 0.1 * push / np.sqrt(law.K_t))
    assert np.all(
        np.abs(way[-1]) < 1e-3 * push
    )  # at the initial position, apart from the first step of the push
    assert_allclose(way[-1], way[600], atol=1e-12)  # no creep
    assert_allclose(speed[-1], 0, atol=1e-9)
    angle = critical * np.array([1.05, 1.3])
    way, speed = slide_on_inclines(law, angle, move)
    a = G * (np.sin(angle) - law.mu * np.cos(angle))
    assert_allclose((speed[-1] - speed[500]) / 0.5, a, rtol=1e-9)
    assert_allclose(way[-1], a / 2, rtol=1e-2)  # apart from the transition to slip


@pytest.mark.slow
def test_stopping_distance_error_is_of_first_order_in_the_contact_compliance():
    mu, v0, h = 0.4, 0.8, 4e-4
    stiffness = np.array([4e3, 8e3, 16e3, 32e3])
    K_t = stiffness[:, None]
    law = SoftLaw(1e4, 100.0, mu, K_t, 2 * np.sqrt(K_t))
    start = Drop(np.tile(-G / 1e4 * UP, (4, 1)), np.tile([v0, 0.0, 0.0], (4, 1)), np.zeros((4, 3)))
    path = rk4(law, start, h, 1000)
    assert_allclose(path.v[-1], 0, atol=1e-4)
    error = np.abs(path.r[-1, :, 0] - v0**2 / (2 * mu * G))
    slope = np.polyfit(np.log(stiffness), np.log(error), 1)[0]
    assert slope == pytest.approx(-1, abs=0.1)
    assert error[-1] < 3 * mu * G / stiffness[-1]
